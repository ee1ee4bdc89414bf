/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of margin_loss_dtype.c, for margin_loss.c. */
#ifndef TENON_CPU_NN_MARGIN_LOSS_H
#define TENON_CPU_NN_MARGIN_LOSS_H

#include "support/cpu.h"

/* [batch, classes] row-major; targets [batch], or [batch, classes] with -1 after the last label. */
typedef struct cpu_margin {
    int64_t batch, classes;
    const void *x, *weight, *grad;
    const int64_t *target;
    double p, margin;
    int64_t reduction;  /* 0 none, 1 mean, 2 sum */
    void *out, *labels; /* labels: 1 where a class is a target */
} cpu_margin;

typedef struct cpu_margin_loss_kernels {
    void (*forward)(const cpu_margin *m);
    void (*backward)(const cpu_margin *m);
    void (*labels_forward)(const cpu_margin *m);
    void (*labels_backward)(const cpu_margin *m);
} cpu_margin_loss_kernels;

#endif
