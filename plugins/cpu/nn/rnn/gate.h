/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of gate_dtype.c, for gate.c. */
#ifndef TENON_CPU_NN_GATE_H
#define TENON_CPU_NN_GATE_H

#include "support/cpu.h"

/* The two halves of a dimension: [outer, 2, inner]. */
typedef struct cpu_gate {
    int64_t inner;
    const void *x, *grad;
    void *out;
} cpu_gate;

/* v as [outer, slices, inner]; each slice has one norm and one g. The norms of half types are float32. */
typedef struct cpu_weight_norm {
    int64_t outer, slices, inner;
    const void *v, *g, *grad, *norms_in;
    bool wide_norms; /* float32 norms of a half type */
    void *out, *norms, *g_grad;
} cpu_weight_norm;

typedef struct cpu_gate_kernels {
    /* Outer positions [begin, end). */
    void (*glu)(const cpu_gate *g, int64_t begin, int64_t end);
    void (*glu_backward)(const cpu_gate *g, int64_t begin, int64_t end);
    /* Slices [begin, end). */
    void (*weight_norm)(const cpu_weight_norm *w, int64_t begin, int64_t end);
    void (*weight_norm_backward)(const cpu_weight_norm *w, int64_t begin, int64_t end);
} cpu_gate_kernels;

#endif
