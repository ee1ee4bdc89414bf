/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The insides of call traces. In a recorded argument tensors are replaced by numbers: TENSOR has the number in
 * as.i, TENSORS an array of numbers in as.ints (-1: no tensor). Each step has one block for all it points to.
 */
#ifndef TNI_DISPATCHER_TRACE_H
#define TNI_DISPATCHER_TRACE_H

#include <tenon/trace.h>
#include "core/handle.h"
#include "core/pointer_map.h"
#include "dispatcher/backend.h"

typedef struct tni_trace_value {
    tn_tensor *tensor;    /* until recording ends; a constant's for the life of the trace */
    uint32_t is_constant; /* neither an input nor a result of a call */
    uint32_t next;        /* 1 + the number of another value of the same storage, or 0 */
    uint32_t last_use;    /* number of steps up to its last use; UINT32_MAX: an output */
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
    tni_handle_mark life;
    tni_vector values;        /* tni_trace_value */
    tni_vector steps;         /* tni_trace_op */
    tni_vector outputs;       /* uint32_t */
    tni_pointer_map storages; /* to 1 + the number of the newest value of that storage */
    uint32_t n_inputs;
    uint32_t longest; /* most items of tensor lists among the arguments of one step */
    int32_t status;   /* not TN_OK: it cannot be run, for this reason */
    char reason[256];
};

/* The number of a tensor, which becomes a new value if it has none; -1 and an error when out of memory. A new
 * argument that shares memory with a value that is not a constant makes the trace invalid. */
int64_t tni_trace_number(tn_call_trace *trace, tn_tensor *t, uint32_t is_constant);
/* Appends a step with a copy of the arguments of the call. */
int32_t tni_trace_append(tn_call_trace *trace, const tni_frame *f);

#endif
