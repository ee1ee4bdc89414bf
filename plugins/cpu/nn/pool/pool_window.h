/* SPDX-License-Identifier: Apache-2.0 */
/* What the pooling kernels of both layouts share: the comparison and the division of one window. */
#ifndef TENON_CPU_NN_POOL_WINDOW_H
#define TENON_CPU_NN_POOL_WINDOW_H

#include "pool.h"
#include "nn/words.h"

/* The type that maxima are compared in. */
#if CPU_IS_INTEGER
typedef E value;
#define TO_VALUE(x)       (x)
#define STORE_VALUE(p, x) (*(p) = (x))
#else
typedef acc value;
#define TO_VALUE(x) load_acc(&(x))
#if defined(DTYPE_BF16)
/* A maximum is an element, so its upper half is exact. */
#define STORE_VALUE(p, x) ((p)->bits = (uint16_t)(bits_of_float(x) >> 16))
#else
#define STORE_VALUE(p, x) store_acc(p, x)
#endif
#endif

/* The last NaN of a window wins; without NaN, the first of the largest elements. */
static inline bool replaces(value candidate, value best)
{
#if CPU_IS_INTEGER
    return candidate > best;
#else
    return (candidate > best) | (candidate != candidate);
#endif
}

static inline int64_t divisor_of(const cpu_pool *p, int64_t oz, int64_t oy, int64_t ox)
{
    if (p->divisor) return p->divisor;
    if (p->extent[0]) return p->extent[0][oz] * p->extent[1][oy] * p->extent[2][ox];
    return (p->hi[0][oz] - p->lo[0][oz]) * (p->hi[1][oy] - p->lo[1][oy]) * (p->hi[2][ox] - p->lo[2][ox]);
}

static inline bool is_empty(const cpu_pool *p, int64_t oz, int64_t oy, int64_t ox)
{
    return p->lo[0][oz] >= p->hi[0][oz] || p->lo[1][oy] >= p->hi[1][oy] || p->lo[2][ox] >= p->hi[2][ox];
}

static inline acc quotient(acc sum, int64_t divisor)
{
#if CPU_IS_INTEGER
    return (acc)((int64_t)sum / divisor);
#else
    return sum / (acc)divisor;
#endif
}

/* The average as an element. */
static inline E divided(acc sum, int64_t divisor)
{
    E average;
    store_acc(&average, quotient(sum, divisor));
    return average;
}

#endif
