/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of softmax_dtype.c, for softmax.c. */
#ifndef TENON_CPU_NN_SOFTMAX_H
#define TENON_CPU_NN_SOFTMAX_H

#include "support/cpu.h"

/* [outer, size, inner], row-major; the softmax runs over `size`. */
typedef struct cpu_softmax {
    int64_t outer, size, inner;
    const void *x; /* forward: the input; backward: the gradient */
    const void *y; /* backward: the result of the forward pass */
    void *out;
    bool logarithm;
    bool streamed; /* write short lines past the caches */
} cpu_softmax;

/* With inner 1: lines [begin, end). Else: blocks [begin, end) of CPU_SOFTMAX_BLOCK neighbouring lines,
 * counted over outer and inner. */
enum { CPU_SOFTMAX_BLOCK = 64 };

typedef struct cpu_softmax_kernels {
    void (*forward)(const cpu_softmax *s, int64_t begin, int64_t end);
    void (*backward)(const cpu_softmax *s, int64_t begin, int64_t end);
} cpu_softmax_kernels;

#endif
