/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of one of the plugin's kernels by hand: the case decides what is queued in front of it, and what
 * becomes of the call's own memory afterwards.
 */
#ifndef TENON_KIT_CHECK_HAND_CALL_H
#define TENON_KIT_CHECK_HAND_CALL_H

#include "hand.h"

enum { HAND_TENSORS = 10, HAND_ARGUMENTS = 8, HAND_RANK = 2, HAND_KEPT = 8 };

/* A contiguous tensor with an allocation of its own. */
typedef struct hand_tensor {
    tn_tensor_desc desc; /* first: values point to it */
    int64_t sizes[HAND_RANK], strides[HAND_RANK];
    uint64_t bytes; /* of the allocation */
} hand_tensor;

/* Begins zeroed, except for `h` and `out`. */
typedef struct hand_call {
    hand *h;
    check_result *out;
    tn_host host; /* that of the hand, with the slots that take a call */
    tn_call call;
    const tn_kernel_row *row;
    tn_value args[HAND_ARGUMENTS], outs[1];
    hand_tensor tensors[HAND_TENSORS];
    uint32_t n_tensors;
    tn_nest nest;
    tn_operand operands[HAND_TENSORS];
    int64_t nest_sizes[1], nest_strides[1]; /* all operands are contiguous and have the same dtype */
    void *workspaces[HAND_KEPT];
    uint64_t workspace_bytes[HAND_KEPT];
    uint32_t n_workspaces;
    struct {
        void *pointer;
        void (*release)(void *pointer);
    } kept[HAND_KEPT];
    uint32_t n_kept;
} hand_call;

/* Adds an argument. */
void hand_call_give(hand_call *k, tn_value v);
/* A tensor that holds `data` (NULL: anything) when the stream has finished what is queued; not yet an argument.
 * NULL and the case fails. */
hand_tensor *hand_call_tensor(hand_call *k, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                              const void *data);
tn_value hand_call_value(hand_tensor *t);
/* Queues a copy of `data` to the tensor. */
void hand_call_write(hand_call *k, const hand_tensor *t, const void *data, uint64_t bytes);
/* Queues a copy of one tensor to another on the device, of the same size. */
void hand_call_move(hand_call *k, const hand_tensor *to, const hand_tensor *from);
/* Waits, and reads the tensor. 0 and the case fails when it cannot. */
int hand_call_read(hand_call *k, const hand_tensor *t, void *data, uint64_t bytes);
/* Gives the call the loop nest of a pointwise operator on tensors of the result's shape and dtype. */
void hand_call_nest(hand_call *k);
/* Finds the row that takes the call. 0: the plugin has none, and the case is skipped. */
int hand_call_find(hand_call *k, const char *op, tn_dtype dtype);
/* Runs the row on the first stream of the first device; the status of the kernel. */
int32_t hand_call_run(hand_call *k);
/* Frees what the call has, when its stream has finished. */
void hand_call_finish(hand_call *k);

#endif
