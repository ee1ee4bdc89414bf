/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of pooling say of one element or one window, whatever the layout. For files compiled per
 * dtype. */
#ifndef TENON_CPU_NN_POOL_WINDOW_H
#define TENON_CPU_NN_POOL_WINDOW_H

#include "pool.h"
#include "nn/types.h"

/* What values are compared as. */
#if IS_INTEGER
typedef T value;
#define TO_VALUE(x)   (x)
#define FROM_VALUE(x) (x)
#else
typedef acc value;
#define TO_VALUE(x)   load(x)
#define FROM_VALUE(x) store(x)
#endif

/* The last NaN of a window wins, and else the first of the largest. */
static inline bool replaces(value candidate, value best)
{
#if IS_INTEGER
    return candidate > best;
#else
    return (candidate > best) | (candidate != candidate);
#endif
}

static inline int64_t volume(const int64_t size[3])
{
    return size[0] * size[1] * size[2];
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
#if IS_INTEGER
    return (acc)((sizeof(acc) == 4 ? (int64_t)(int32_t)sum : (int64_t)sum) / divisor);
#else
    return sum / (acc)divisor;
#endif
}

#endif
