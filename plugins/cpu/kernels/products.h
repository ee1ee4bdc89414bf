/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Powers of e, fused sums and exact products of T, with one name for both types. For files compiled per dtype
 * of floats.
 */
#ifndef TENON_CPU_PRODUCTS_H
#define TENON_CPU_PRODUCTS_H

#include "support/exponential.h"
#include "vocabulary.h"
#include <stdbool.h>

#if defined(DTYPE_F64)
#define E_POWER(name) cpu_##name##_f64
typedef cpu_power_f64 power;
#else
#define E_POWER(name) cpu_##name##_f32
typedef cpu_power_f32 power;
#endif

/* The type of last steps that would round too often in T. Half types have digits to spare in T, float64 has no wider type. */
#if CPU_IS_HALF
typedef float W;
#else
typedef double W;
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

/*
 * e^x for x <= 0 or NaN. With `near`, which float64 does without, x is from -CPU_POWER_NEAR on and a power costs
 * about half.
 */
ALWAYS_INLINE power power_below(T x, const bool near)
{
#if defined(DTYPE_F64)
    return cpu_power_f64_of(x, 0);
#else
    return near ? cpu_power_f32_near(x, 0) : cpu_power_f32_below(x < -120 ? -120 : x, 0);
#endif
}

/*
 * x where `mask` is -1, y where it is 0. By bits: a quotient of a conditional value would be compiled to two
 * divisions.
 */
#if defined(DTYPE_F64)
typedef int64_t sign_bits;
#else
typedef int32_t sign_bits;
#endif
ALWAYS_INLINE T pick(sign_bits mask, T x, T y)
{
    sign_bits a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    a = (a & mask) | (b & ~mask);
    memcpy(&x, &a, sizeof x);
    return x;
}
/* -1 for numbers below 0 and for -0. */
ALWAYS_INLINE sign_bits sign_mask(T a)
{
    sign_bits bits;
    memcpy(&bits, &a, sizeof bits);
    return bits >> (8 * sizeof bits - 1);
}

/* Whether all magnitudes are at most `limit`, and no element is NaN. */
static __attribute__((noinline, unused)) bool all_near(const E *a, int64_t n, float limit)
{
#if defined(DTYPE_F64)
    return false;
#elif CPU_IS_HALF
    E end;
    uint16_t most = 0;
    store(&end, limit);
    for (int64_t i = 0; i < n; i++) {
        uint16_t size = a[i].bits & 0x7fffu;
        most = size > most ? size : most;
    }
    return most <= end.bits;
#else
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t size = bits_of_float(a[i]) & 0x7fffffffu;
        most = size > most ? size : most;
    }
    return most <= bits_of_float(limit);
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
