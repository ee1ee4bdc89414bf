/* SPDX-License-Identifier: Apache-2.0 */
/* Between gate.c, which has the rows, and gate_dtype.c: glu and weight normalisation. */
#ifndef TENON_CPU_NN_GATE_H
#define TENON_CPU_NN_GATE_H

#include "nn/nn.h"

/* Halves of a dimension: [outer, 2, inner]. */
typedef struct tni_gate {
    int64_t inner;
    const void *x, *grad;
    void *out;
} tni_gate;

/* v as [outer, slices, inner]; each slice has one norm and one g. Norms may be wider than v. */
typedef struct tni_weight_norm {
    int64_t outer, slices, inner;
    const void *v, *g, *grad, *norms_in;
    bool wide_norms; /* float32 norms of a half type */
    void *out, *norms, *g_grad;
} tni_weight_norm;

typedef struct tni_gate_kernels {
    /* Outer positions [begin, end). */
    void (*glu)(const tni_gate *g, int64_t begin, int64_t end);
    void (*glu_backward)(const tni_gate *g, int64_t begin, int64_t end);
    /* Slices [begin, end). */
    void (*weight_norm)(const tni_weight_norm *w, int64_t begin, int64_t end);
    void (*weight_norm_backward)(const tni_weight_norm *w, int64_t begin, int64_t end);
} tni_gate_kernels;

const tni_gate_kernels *tni_gates_of(tn_dtype dtype);

#endif
