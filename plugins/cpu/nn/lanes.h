/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums over contiguous elements in 16 accumulators that are added pairwise: vector code without reordering
 * anybody's arithmetic, and an error that grows with a sixteenth of the length. For files compiled per dtype.
 */
#ifndef TENON_CPU_NN_LANES_H
#define TENON_CPU_NN_LANES_H

#include "types.h"

enum { SUM_LANES = 16 };

static inline acc lanes_total(acc lane[SUM_LANES])
{
    for (int width = SUM_LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++) lane[j] += lane[j + width];
    return lane[0];
}

/* Sum of x. */
static inline acc lanes_sum(const T *restrict x, int64_t count)
{
    acc lane[SUM_LANES] = {0};
    int64_t i = 0;
    for (; i + SUM_LANES <= count; i += SUM_LANES)
        for (int j = 0; j < SUM_LANES; j++) lane[j] += load(x[i + j]);
    for (int j = 0; j < (int)(count % SUM_LANES); j++, i++) lane[j] += load(x[i]);
    return lanes_total(lane);
}

/* Sums of x - shift and of its square. */
static inline void lanes_moments(const T *restrict x, int64_t count, acc shift, acc *out_sum, acc *out_square)
{
    acc sum[SUM_LANES] = {0}, square[SUM_LANES] = {0};
    int64_t i = 0;
    for (; i + SUM_LANES <= count; i += SUM_LANES) {
        for (int j = 0; j < SUM_LANES; j++) {
            acc d = load(x[i + j]) - shift;
            sum[j] += d;
            square[j] += d * d;
        }
    }
    for (int j = 0; j < (int)(count % SUM_LANES); j++, i++) {
        acc d = load(x[i]) - shift;
        sum[j] += d;
        square[j] += d * d;
    }
    *out_sum = lanes_total(sum);
    *out_square = lanes_total(square);
}

/* Sums of g and of g * (x - shift). */
static inline void lanes_products(const T *restrict g, const T *restrict x, int64_t count, acc shift,
                                  acc *out_sum, acc *out_dot)
{
    acc sum[SUM_LANES] = {0}, dot[SUM_LANES] = {0};
    int64_t i = 0;
    for (; i + SUM_LANES <= count; i += SUM_LANES) {
        for (int j = 0; j < SUM_LANES; j++) {
            acc d = load(g[i + j]);
            sum[j] += d;
            dot[j] += d * (load(x[i + j]) - shift);
        }
    }
    for (int j = 0; j < (int)(count % SUM_LANES); j++, i++) {
        acc d = load(g[i]);
        sum[j] += d;
        dot[j] += d * (load(x[i]) - shift);
    }
    *out_sum = lanes_total(sum);
    *out_dot = lanes_total(dot);
}

#endif
