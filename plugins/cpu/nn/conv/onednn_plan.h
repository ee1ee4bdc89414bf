/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution pass as oneDNN runs it: the primitive, made once for a geometry and its strides and kept, and
 * the operands in the layouts that it wants.
 */
#ifndef TENON_CPU_NN_ONEDNN_PLAN_H
#define TENON_CPU_NN_ONEDNN_PLAN_H

#include "vendor/onednn.h"
#include "conv.h"

/* Places of the operands of a plan. */
enum { TNI_PLAN_X, TNI_PLAN_W, TNI_PLAN_Y, TNI_PLAN_OPERANDS };

/* All that a plan depends on; compared as bytes. */
typedef struct tni_plan_key {
    tni_conv geometry;
    int64_t kind;     /* TNI_CONV_... */
    int64_t has_bias; /* forward: it is added; weights: its gradient is computed */
    int64_t threads;
    int64_t strides[TNI_PLAN_OPERANDS][5];
} tni_plan_key;

typedef struct tni_plan_step {
    dnnl_primitive_t primitive; /* NULL: nothing to do */
    dnnl_memory_desc_t scratch;
    int64_t scratch_bytes;
} tni_plan_step;

typedef struct tni_plan {
    tni_plan_key key;
    int64_t users;
    tni_plan_step pass;
    dnnl_memory_desc_t given[TNI_PLAN_OPERANDS], wanted[TNI_PLAN_OPERANDS], bias;
    tni_plan_step reorder[TNI_PLAN_OPERANDS]; /* to `wanted`, and back for what is written */
    int64_t bytes[TNI_PLAN_OPERANDS];         /* of an operand that is reordered */
} tni_plan;

/* Which operand a pass writes. */
static inline int tni_plan_written(int64_t kind)
{
    return kind == TNI_CONV_FORWARD ? TNI_PLAN_Y : kind == TNI_CONV_DATA ? TNI_PLAN_X : TNI_PLAN_W;
}

/* The plan of a pass, to be given back; NULL when oneDNN has none that is worth it. From any thread. */
tni_plan *tni_plan_take(const tni_onednn *dnn, const tni_plan_key *key);
void tni_plan_give_back(tni_plan *plan);

#endif
