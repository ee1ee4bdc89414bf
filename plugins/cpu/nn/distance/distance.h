/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of distance_dtype.c, for distance.c. */
#ifndef TENON_CPU_NN_DISTANCE_H
#define TENON_CPU_NN_DISTANCE_H

#include "support/cpu.h"

/* Rows of `width` elements of a and of b; out is [a_rows, b_rows]. With `pairs` a and b are the same rows,
 * and out holds only the pairs i < j, one after the other. */
typedef struct cpu_distance {
    int64_t a_rows, b_rows, width;
    bool pairs;
    const void *a, *b;
    const void *grad, *distance; /* backward */
    double p;
    void *out;
} cpu_distance;

typedef struct cpu_distance_kernels {
    /* Rows [begin, end) of a. */
    void (*forward)(const cpu_distance *d, int64_t begin, int64_t end);
    void (*backward)(const cpu_distance *d, int64_t begin, int64_t end);
} cpu_distance_kernels;

#endif
