/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons and logic of real numbers, as every table of such kernels has them; for T of the file that
 * includes this. */
#ifndef TENON_CPU_COMPARE_H
#define TENON_CPU_COMPARE_H

#include "loops.h"

ALWAYS_INLINE int32_t eq_one(T a, T b)
{
    return a == b;
}
static void eq(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, eq_one);
}

ALWAYS_INLINE int32_t ne_one(T a, T b)
{
    return a != b;
}
static void ne(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, ne_one);
}

ALWAYS_INLINE int32_t lt_one(T a, T b)
{
    return a < b;
}
static void lt(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, lt_one);
}

ALWAYS_INLINE int32_t le_one(T a, T b)
{
    return a <= b;
}
static void le(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, le_one);
}

ALWAYS_INLINE int32_t gt_one(T a, T b)
{
    return a > b;
}
static void gt(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, gt_one);
}

ALWAYS_INLINE int32_t ge_one(T a, T b)
{
    return a >= b;
}
static void ge(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, ge_one);
}

ALWAYS_INLINE int32_t logical_and_one(T a, T b)
{
    return (a != 0) & (b != 0);
}
static void logical_and(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, logical_and_one);
}

ALWAYS_INLINE int32_t logical_or_one(T a, T b)
{
    return (a != 0) | (b != 0);
}
static void logical_or(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, logical_or_one);
}

ALWAYS_INLINE int32_t logical_xor_one(T a, T b)
{
    return (a != 0) ^ (b != 0);
}
static void logical_xor(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, logical_xor_one);
}

ALWAYS_INLINE int32_t logical_not_one(T a)
{
    return a == 0;
}
static void logical_not(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, logical_not_one);
}

#endif
