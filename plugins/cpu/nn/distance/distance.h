/* SPDX-License-Identifier: Apache-2.0 */
/* Between distance.c, which has the rows, and distance_dtype.c. */
#ifndef TENON_CPU_NN_DISTANCE_H
#define TENON_CPU_NN_DISTANCE_H

#include "nn/nn.h"

/* Rows of `width` elements of a and of b; out [a_rows, b_rows]. With `pairs` only b rows after the a row of
 * one and the same set, one after the other. */
typedef struct tni_distance {
    int64_t a_rows, b_rows, width;
    bool pairs;
    const void *a, *b;
    const void *grad, *distance; /* backward */
    double p;
    void *out;
} tni_distance;

typedef struct tni_distance_kernels {
    /* Rows [begin, end) of a. */
    void (*forward)(const tni_distance *d, int64_t begin, int64_t end);
    void (*backward)(const tni_distance *d, int64_t begin, int64_t end);
} tni_distance_kernels;

const tni_distance_kernels *tni_distances_of(tn_dtype dtype);

#endif
