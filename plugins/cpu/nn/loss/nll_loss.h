/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of nll_loss_dtype.c, for nll_loss.c. */
#ifndef TENON_CPU_NN_NLL_LOSS_H
#define TENON_CPU_NN_NLL_LOSS_H

#include "support/cpu.h"

#define CPU_REDUCTION_NONE 0
#define CPU_REDUCTION_MEAN 1
#define CPU_REDUCTION_SUM  2

/* Input [batch, classes, inner], targets [batch, inner]; strides in elements. */
typedef struct cpu_nll {
    int64_t batch, classes, inner;
    const void *x;
    int64_t x_batch, x_class, x_inner;
    const int64_t *target; /* row-major */
    const void *weight;    /* or NULL */
    int64_t weight_step;
    int64_t ignore, reduction;
    const void *grad; /* backward: one element, or contiguous like the targets */
    const void *total_weight;
    void *out; /* contiguous: one loss per target without a reduction; backward: the gradient */
} cpu_nll;

typedef struct cpu_nll_loss_kernels {
    /* Adds the sums over targets [begin, end); without a reduction, writes each loss. */
    void (*forward)(const cpu_nll *s, int64_t begin, int64_t end, double sums[2]);
    void (*finish)(const cpu_nll *s, const double sums[2], void *out, void *total_weight);
    void (*backward)(const cpu_nll *s, int64_t begin, int64_t end);
} cpu_nll_loss_kernels;

#endif
