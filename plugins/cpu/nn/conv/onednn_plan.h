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
enum { CPU_PLAN_X, CPU_PLAN_W, CPU_PLAN_Y, CPU_PLAN_OPERANDS };

/* All that a plan depends on; compared as bytes. */
typedef struct cpu_plan_key {
    cpu_conv geometry;
    int64_t kind;     /* CPU_CONV_... */
    int64_t has_bias; /* forward: it is added; weights: its gradient is computed */
    int64_t threads;
    int64_t strides[CPU_PLAN_OPERANDS][5];
} cpu_plan_key;

typedef struct cpu_plan_step {
    dnnl_primitive_t primitive; /* NULL: nothing to do */
    dnnl_memory_desc_t scratch;
    int64_t scratch_bytes;
} cpu_plan_step;

typedef struct cpu_plan {
    cpu_plan_key key;
    int64_t users;
    cpu_plan_step pass;
    dnnl_memory_desc_t given[CPU_PLAN_OPERANDS], wanted[CPU_PLAN_OPERANDS], bias;
    cpu_plan_step reorder[CPU_PLAN_OPERANDS]; /* to `wanted`, and back for what is written */
    int64_t bytes[CPU_PLAN_OPERANDS];         /* of an operand that is reordered */
} cpu_plan;

/* Which operand a pass writes. */
static inline int cpu_plan_written(int64_t kind)
{
    return kind == CPU_CONV_FORWARD ? CPU_PLAN_Y : kind == CPU_CONV_DATA ? CPU_PLAN_X : CPU_PLAN_W;
}

/* The plan of a pass, to be given back; NULL when oneDNN has none that is worth it. From any thread. */
cpu_plan *cpu_plan_take(const cpu_onednn *dnn, const cpu_plan_key *key);
void cpu_plan_give_back(cpu_plan *plan);

#endif
