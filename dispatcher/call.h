/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the call path: call.c, arguments.c, the backend and the boxed entry points. */
#ifndef TNI_DISPATCHER_CALL_H
#define TNI_DISPATCHER_CALL_H

#include "dispatcher/frame.h"

/* A frame with room for the arguments that had to be changed. */
typedef struct tni_call_state {
    tni_frame frame;
    uint32_t n_wrapped;
    tn_tensor *wrapped[TNI_MAX_ARGS]; /* scalars in the place of tensors */
    tn_value args[TNI_MAX_ARGS];
} tni_call_state;

void tni_frame_init(tni_frame *f, tn_context *ctx, const tni_op *op, tn_value *outs, uint32_t n_outs);
/* Releases the tensors of one result; lists come from tni_alloc(count * sizeof(tn_tensor *)), at least one. */
void tni_value_release(tn_context *ctx, tn_value *v);
/* Sets the results of a failed call to NONE; returns its status. */
int32_t tni_no_results(int32_t status, tn_value *outs, uint32_t n_outs);

/* ---- arguments, see arguments.c ---- */
/* Tags of lists, and of all values that point. */
#define TNI_LIST_TAGS                                                                      \
    (1u << TN_TAG_TENSORS | 1u << TN_TAG_INTS | 1u << TN_TAG_FLOATS | 1u << TN_TAG_BOOLS | \
     1u << TN_TAG_SCALARS | 1u << TN_TAG_STRINGS)
#define TNI_POINTING_TAGS                                                               \
    (TNI_LIST_TAGS | 1u << TN_TAG_TENSOR | 1u << TN_TAG_COMPLEX | 1u << TN_TAG_STRING | \
     1u << TN_TAG_GENERATOR)
/* 1 for a value that a program made by hand and that points to NULL. An absent list has no items. */
static inline int32_t tni_points_to_null(const tn_value *v)
{
    return TNI_POINTING_TAGS >> v->tag & 1u && !v->as.pointer &&
           (!(TNI_LIST_TAGS >> v->tag & 1u) || v->count);
}
/* Converts arguments and fills in defaults; c->frame.args are complete on success. */
int32_t tni_change_arguments(tni_call_state *c, const tni_op *op, const tn_value *args, uint32_t n_args);
/* TN_E_CONTRACT unless a composite's result i has the type of the schema. */
int32_t tni_check_result(const tni_op *op, uint32_t i, const tn_value *v);
static inline int32_t tni_is_number(uint32_t tag)
{
    return tag == TN_TAG_INT || tag == TN_TAG_FLOAT || tag == TN_TAG_BOOL || tag == TN_TAG_COMPLEX;
}

/* ---- scalars in the place of tensors, see wrapped_scalar.c ---- */
/* A 0-dim host tensor that promotes like a scalar. */
int32_t tni_wrap_scalar(tn_context *ctx, tn_value scalar, tn_tensor **out);
/* The same without an allocation, for one call: callees may borrow the tensor, not retain it. */
typedef struct tni_wrapped_scalar {
    tn_tensor tensor;
    tni_storage storage;
    _Alignas(16) char bytes[16];
} tni_wrapped_scalar;
tn_tensor *tni_wrapped_scalar_init(tni_wrapped_scalar *n, tni_device *cpu, tn_value scalar);

#endif
