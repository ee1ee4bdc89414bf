/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Powers of e, fused sums and exact products of T, with one name for both types. For files compiled per dtype
 * of floats.
 */
#ifndef TENON_CPU_PRODUCTS_H
#define TENON_CPU_PRODUCTS_H

#include "support/exponential.h"
#include "vocabulary.h"

#if defined(DTYPE_F64)
#define E_POWER(name) cpu_##name##_f64
typedef cpu_power_f64 power;
#else
#define E_POWER(name) cpu_##name##_f32
typedef cpu_power_f32 power;
#endif

/* e^(x + rest) in parts. */
ALWAYS_INLINE power power_of(T x, T rest)
{
#if defined(DTYPE_F64)
    return cpu_power_f64_of(x, rest);
#else
    return cpu_power_f32_of(x, rest);
#endif
}

/* e^x for x <= 0 or NaN. */
ALWAYS_INLINE power power_below(T x)
{
#if defined(DTYPE_F64)
    return cpu_power_f64_of(x, 0);
#else
    return cpu_power_f32_within(x < -120 ? -120 : x, 0);
#endif
}

/* a b + c, rounded once where the level has an instruction for it. */
ALWAYS_INLINE T fused(T a, T b, T c)
{
    return E_POWER(fused)(a, b, c);
}

/* The rounding error of product = a b, exactly (for float64 without FMA as in Dekker 1971). */
ALWAYS_INLINE T product_rest(T a, T b, T product)
{
#if defined(__FMA__)
    return fused(a, b, -product);
#elif defined(DTYPE_F64)
    T wide_a = a * 134217729.0, high_a = wide_a - (wide_a - a), low_a = a - high_a;
    T wide_b = b * 134217729.0, high_b = wide_b - (wide_b - b), low_b = b - high_b;
    return ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b;
#else
    return (T)((double)a * (double)b - (double)product);
#endif
}

#endif
