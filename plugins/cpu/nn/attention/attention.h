/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of attention_dtype.c, for attention.c. */
#ifndef TENON_CPU_NN_ATTENTION_H
#define TENON_CPU_NN_ATTENTION_H

#include "support/cpu.h"

/* Rows of adjacent elements, [batch, heads, length, width]; strides in bytes. */
typedef struct cpu_heads {
    char *data;
    int64_t batch, head, row;
} cpu_heads;

typedef struct cpu_attention {
    const tn_call *call;
    /* Query head h uses key head h / (heads / key_heads). */
    int64_t batch, heads, key_heads, queries, keys, width, value_width;
    int32_t slot; /* of the dtype in memory */
    double scale;
    bool causal; /* query i sees the keys 0 to i */
    /* `out` is the result of the forward pass; `grad` its gradient. */
    cpu_heads query, key, value, out, grad, grad_query, grad_key, grad_value;
    cpu_heads logsumexp; /* [batch, heads, length], in the kernels' T */
    cpu_heads mask;      /* added to the scores; data NULL if there is none; strides may be 0 */
    int64_t mask_column;
    int32_t mask_slot;
    char *room; /* room_bytes for each thread */
    int64_t room_bytes;
} cpu_attention;

/* A part of the work, of one batch and head. */
typedef struct cpu_attention_part {
    int64_t batch, head;            /* forward: query head; backward: key head */
    int64_t query_begin, query_end; /* whose results or gradients are written */
    int64_t key_begin, key_end;     /* backward: whose gradients are written */
} cpu_attention_part;

/* Parts begin at multiples of these. */
enum { CPU_ATTENTION_QUERIES = 96, CPU_ATTENTION_KEYS = 256 };

typedef struct cpu_attention_kernels {
    /* Bytes for a thread, for parts of at most so many queries. */
    int64_t (*forward_room)(const cpu_attention *a, int64_t queries);
    int64_t (*backward_room)(const cpu_attention *a, int64_t queries);
    void (*forward)(const cpu_attention *a, const cpu_attention_part *part, char *room);
    /*
     * The gradients of the queries and keys of the part, each summed over all keys or queries in an order
     * that does not depend on the part.
     */
    void (*backward)(const cpu_attention *a, const cpu_attention_part *part, char *room);
} cpu_attention_kernels;

#endif
