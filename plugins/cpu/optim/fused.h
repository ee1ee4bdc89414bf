/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of fused_dtype.c, for fused.c. */
#ifndef TENON_CPU_OPTIM_FUSED_H
#define TENON_CPU_OPTIM_FUSED_H

#include "support/cpu.h"

/* The tensors of an optimiser: parameters and gradients, then its state. */
enum {
    CPU_FUSED_PARAM,
    CPU_FUSED_GRAD,
    CPU_FUSED_FIRST,
    CPU_FUSED_SECOND,
    CPU_FUSED_LARGEST,
    CPU_FUSED_LISTS
};

/* What all tensors of a step share. */
typedef struct cpu_fused {
    double lr, weight_decay, eps, beta1, beta2, momentum, dampening, lr_decay;
    double grad_scale; /* gradients are divided by it and stored if `is_scaled` */
    bool is_scaled, maximize, is_decoupled /* adamw */, keeps_largest, nesterov, is_first_step;
} cpu_fused;

/* One tensor of each list, contiguous, and its number of steps. Lists that the optimiser lacks are NULL. */
typedef struct cpu_fused_item {
    void *data[CPU_FUSED_LISTS];
    double step;
} cpu_fused_item;

/* Updates elements [begin, end). */
typedef void cpu_fused_fn(const cpu_fused *f, const cpu_fused_item *item, int64_t begin, int64_t end);

typedef struct cpu_fused_kernels {
    cpu_fused_fn *sgd, *adam, *adagrad;
    /* Multiplies elements by a factor, in place; whether one of them was infinite or NaN. */
    bool (*unscale)(void *data, double factor, int64_t begin, int64_t end);
} cpu_fused_kernels;

#endif
