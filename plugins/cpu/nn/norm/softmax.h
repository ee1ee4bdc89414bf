/* SPDX-License-Identifier: Apache-2.0 */
/* Between softmax.c, which has the rows, and softmax_dtype.c. */
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
} cpu_softmax;

/* Lines [begin, end) of outer, when inner is 1; else blocks of CPU_SOFTMAX_BLOCK inner positions, counted
 * over outer and inner. */
enum { CPU_SOFTMAX_BLOCK = 64 };

typedef struct cpu_softmax_kernels {
    void (*forward)(const cpu_softmax *s, int64_t begin, int64_t end);
    void (*backward)(const cpu_softmax *s, int64_t begin, int64_t end);
} cpu_softmax_kernels;

#endif
