/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of reduction kernels. The state of a result is a few words ("planes") of the accumulator:
 * double for floats, int64 for integers and bool, pairs of doubles for complex numbers. A kernel has two
 * loops over contiguous lanes: `take` brings one element into the state of each lane, `merge` one state into
 * another. Long runs are split into rows of lanes, which keeps the error of sums small and makes vectors of
 * the loops.
 */
#ifndef TENON_CPU_REDUCE_OPS_H
#define TENON_CPU_REDUCE_OPS_H

#include <stdint.h>

#define CPU_REDUCTIONS(X) \
    X(sum)                \
    X(nansum)             \
    X(prod)               \
    X(max)                \
    X(min)                \
    X(minmax)             \
    X(argmax)             \
    X(argmin)             \
    X(any)                \
    X(all)                \
    X(count)              \
    X(norm_1)             \
    X(norm_2)             \
    X(norm_p)             \
    X(norm_inf)           \
    X(norm_negative_inf)  \
    X(moments)
#define CPU_REDUCTION_NUMBER(name) CPU_REDUCE_##name,
enum { CPU_REDUCTIONS(CPU_REDUCTION_NUMBER) CPU_REDUCE_COUNT };
#undef CPU_REDUCTION_NUMBER

/* Most planes of a state: count, mean (real, imaginary), sum of squared differences. */
#define CPU_MAX_PLANES 4

/* Lanes of planes: plane k of lane i is at k * stride + i, in words of 8 bytes. */
typedef struct cpu_lanes {
    void *words;
    int64_t stride;
} cpu_lanes;

typedef struct cpu_reduce_kernel {
    uint32_t op;
    uint32_t planes;
    /* Sets the states of lanes without elements. */
    void (*init)(cpu_lanes s, int64_t lanes);
    /* Lane i takes x[i], the element at reduced position index + i * step. */
    void (*take)(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p);
    /* Lane i takes the state of lane i of `from`, whose elements come later. */
    void (*merge)(cpu_lanes s, cpu_lanes from, int64_t lanes);
    /*
     * Each of `lanes` lanes takes n contiguous elements, `apart` bytes behind those of the lane before; NULL: by
     * `take`. Kernels of positions read the run twice, so they get no more than CPU_CHUNK elements.
     */
    void (*run)(cpu_lanes s, const void *x, int64_t n, int64_t index, int64_t lanes, int64_t apart);
    /* Lane i takes element i of each of at most CPU_REDUCE_ROWS rows, `row_bytes` apart; NULL: by `take`. */
    void (*rows)(cpu_lanes s, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes);
    /* The same for sums of as many rows as there are: writes them, divided, in the input's dtype. NULL: by `rows`. */
    void (*few)(void *out, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes, double divisor);
} cpu_reduce_kernel;

/* So few that sums of float32 may be kept in float32 before they are added up in float64. */
#define CPU_REDUCE_ROWS 16

#endif
