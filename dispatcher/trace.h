/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces from inside. A recorded argument is a value in which tensors are replaced by numbers: TENSOR has the
 * number in as.i, TENSORS an array of numbers in as.ints (-1: none). All that a step points to lies in one
 * block.
 */
#ifndef TNI_DISPATCHER_TRACE_H
#define TNI_DISPATCHER_TRACE_H

#include <tenon/trace.h>
#include "core/pointer_map.h"
#include "dispatcher/backend.h"

typedef struct tni_trace_value {
    tn_tensor *tensor;    /* while it is recorded; constants for good */
    uint32_t is_constant; /* no input, and no call made it */
    uint32_t next;        /* one more than the number of another value of the same storage, or 0 */
    uint32_t last_use;    /* the step behind which nothing needs it; UINT32_MAX: an output */
} tni_trace_value;

typedef struct tni_trace_op {
    const tni_op *op;
    void *block;
    uint64_t block_bytes;
    tn_value *args; /* [op->n_args] */
    uint32_t *used;
    uint32_t *made; /* results, lists flattened */
    uint32_t n_used;
    uint32_t n_made;
} tni_trace_op;

struct tn_call_trace {
    tn_context *ctx;
    tni_vector values;        /* tni_trace_value */
    tni_vector steps;         /* tni_trace_op */
    tni_vector outputs;       /* uint32_t */
    tni_pointer_map storages; /* to one more than the number of the newest value of that storage */
    uint32_t n_inputs;
    uint32_t longest; /* items of the tensor lists among the arguments of a step, at most */
    int32_t status;   /* why it cannot be run, with the text */
    char reason[256];
};

/* The number of a tensor, which becomes a new value if it is none; -1 and an error without memory. A tensor
 * that shares memory with a traced one, but is no value, makes the trace invalid. */
int64_t tni_trace_number(tn_call_trace *trace, tn_tensor *t, uint32_t is_constant);
/* Appends a step with a block for what it points to: a copy of the arguments. */
int32_t tni_trace_append(tn_call_trace *trace, const tni_frame *f);

#endif
