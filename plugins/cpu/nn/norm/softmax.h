/* SPDX-License-Identifier: Apache-2.0 */
/* Between softmax.c, which has the rows, and softmax_dtype.c. */
#ifndef TENON_CPU_NN_SOFTMAX_H
#define TENON_CPU_NN_SOFTMAX_H

#include "nn/nn.h"

/* [outer, size, inner], row-major; the softmax runs over `size`. */
typedef struct tni_softmax {
    int64_t outer, size, inner;
    const void *x; /* forward: the input; backward: the gradient */
    const void *y; /* backward: the result of the forward pass */
    void *out;
    bool logarithm;
} tni_softmax;

/* Lines [begin, end) of outer, when inner is 1; else blocks of TNI_SOFTMAX_BLOCK inner positions, counted
 * over outer and inner. */
enum { TNI_SOFTMAX_BLOCK = 64 };

typedef struct tni_softmax_kernels {
    void (*forward)(const tni_softmax *s, int64_t begin, int64_t end);
    void (*backward)(const tni_softmax *s, int64_t begin, int64_t end);
} tni_softmax_kernels;

const tni_softmax_kernels *tni_softmax_of(tn_dtype dtype);

#endif
