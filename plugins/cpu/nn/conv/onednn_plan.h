/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How oneDNN runs a convolution pass: a primitive, made once for a geometry and strides, and the layouts of
 * its operands.
 */
#ifndef TENON_CPU_NN_ONEDNN_PLAN_H
#define TENON_CPU_NN_ONEDNN_PLAN_H

#include "vendor/onednn.h"
#include "conv.h"

/* The operands of a plan. */
enum { CPU_ONEDNN_PLAN_X, CPU_ONEDNN_PLAN_W, CPU_ONEDNN_PLAN_Y, CPU_ONEDNN_PLAN_OPERANDS };

/* Everything that a plan depends on; compared as bytes. */
typedef struct cpu_onednn_plan_key {
    cpu_conv geometry;
    int64_t kind;     /* CPU_CONV_... */
    int64_t has_bias; /* forward: it is added; weights: its gradient is computed */
    int64_t threads;
    int64_t strides[CPU_ONEDNN_PLAN_OPERANDS][5];
} cpu_onednn_plan_key;

typedef struct cpu_onednn_plan {
    cpu_onednn_plan_key key;
    int64_t users;
    cpu_onednn_step pass;
    dnnl_memory_desc_t given[CPU_ONEDNN_PLAN_OPERANDS], wanted[CPU_ONEDNN_PLAN_OPERANDS], bias;
    cpu_onednn_step reorder[CPU_ONEDNN_PLAN_OPERANDS]; /* to `wanted`, and back for what is written */
    int64_t bytes[CPU_ONEDNN_PLAN_OPERANDS];           /* of an operand that is reordered */
} cpu_onednn_plan;

/* Which operand a pass writes. */
static inline int cpu_onednn_plan_written(int64_t kind)
{
    return kind == CPU_CONV_FORWARD ? CPU_ONEDNN_PLAN_Y
           : kind == CPU_CONV_DATA  ? CPU_ONEDNN_PLAN_X
                                    : CPU_ONEDNN_PLAN_W;
}

/* Takes the plan of a pass, to be given back; NULL if oneDNN has no fast implementation. From any thread,
 * between cpu_onednn_begin for key->threads and cpu_onednn_end: primitives remember the number of threads. */
cpu_onednn_plan *cpu_onednn_plan_take(const cpu_onednn *dnn, const cpu_onednn_plan_key *key);
void cpu_onednn_plan_give_back(cpu_onednn_plan *plan);

#endif
