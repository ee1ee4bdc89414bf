/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions as kernels see them. The state of one result is a few words ("planes") of the accumulator A:
 * double for floats, int64 for integers and bool, pairs of doubles for complex numbers. A kernel has two
 * loops over dense lanes: `take` brings one element into the state of each lane, `merge` one state into
 * another. Long runs are cut into rows of lanes, which keeps the error of sums small and the loops vectors.
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
    /* The state of a lane that has taken nothing. */
    void (*init)(cpu_lanes s, int64_t lanes);
    /* Lane i takes x[i], which stands at position index + i * step of what is reduced. */
    void (*take)(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p);
    /* Lane i takes what lane i of `from` has; its elements come later. */
    void (*merge)(cpu_lanes s, cpu_lanes from, int64_t lanes);
    /* The first lane takes n neighbouring elements; NULL: by `take`. Positions are looked for in the run once
     * more, so that those that keep them take no more than CPU_CHUNK. */
    void (*run)(cpu_lanes s, const void *x, int64_t n, int64_t index);
    /* Lane i takes element i of each of some rows (at most CPU_REDUCE_ROWS), `row_bytes` apart; NULL: by
     * `take`. */
    void (*rows)(cpu_lanes s, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes);
} cpu_reduce_kernel;

/* Few enough for sums of float32 to be kept in float32 before they are added up in float64. */
#define CPU_REDUCE_ROWS 16

#endif
