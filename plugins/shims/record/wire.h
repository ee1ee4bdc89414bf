/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values, tensors and nests of a kernel call as the file has them. The order of the fields is written down
 * once, in wire.c, for both directions: the record shim writes with it and `tenon replay` reads with it.
 */
#ifndef TENON_RECORD_WIRE_H
#define TENON_RECORD_WIRE_H

#define TN_PLUGIN
#include <tenon/plugin.h>

/* One direction. The user extends it: it is the first member of his own struct. */
typedef struct record_wire {
    /* Moves `bytes` between `data` and the file. A reader that runs out of file gives zeros and sets
     * `bad`. */
    void (*move)(struct record_wire *w, void *data, uint64_t bytes);
    /* Moves a tensor; NULL is not passed to a writer, nor expected of a reader. */
    void (*tensor)(struct record_wire *w, tn_tensor **t);
    /* Readers: zeroed memory for `bytes` that the file must have at least half of; or NULL and `bad`.
     * Writers: NULL. */
    void *(*memory)(struct record_wire *w, uint64_t bytes);
    int32_t bad;
    int32_t reserved;
} record_wire;

/* A tensor as the file has it. */
typedef struct record_tensor {
    tn_tensor_desc desc; /* flags, dtype, rank, byte_offset, sizes and strides are moved */
    uint64_t allocation; /* the handle in the recorded program */
    uint64_t blob;       /* the bytes from the first element to the end of the last one; 0: not recorded */
    uint32_t place;      /* RECORD_DEVICE_MEMORY, ... */
    uint32_t reserved;
} record_tensor;

/* Each returns what the file has: a writer gets its own argument back. */
uint32_t wire_u32(record_wire *w, uint32_t value);
uint64_t wire_u64(record_wire *w, uint64_t value);
void wire_value(record_wire *w, tn_value *v);
void wire_tensor(record_wire *w, record_tensor *t);
/* The counts and sizes of a nest. */
void wire_nest(record_wire *w, tn_nest *n);
/* One operand of it; `blob` is the value of an IMMEDIATE one. */
void wire_operand(record_wire *w, const tn_nest *n, tn_operand *o, uint64_t *allocation, uint64_t *blob);

/* Bytes from the first element of a strided tensor to the end of its last one; 0 when it is empty, and
 * UINT64_MAX when a size or stride is negative or the extent does not fit 62 bits. */
uint64_t record_extent(const tn_tensor_desc *d);

#endif
