/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp in a form that the compiler turns into vector code. For float: x = n ln 2 + r with |r| <= ln 2 / 2, a
 * polynomial of degree 6 in r (Cephes' coefficients), 2^n by two factors so that results below the smallest
 * normal number come out right. Within 1 ULP of the truth. Doubles go to the C library. For files compiled
 * per dtype.
 */
#ifndef TENON_CPU_NN_EXPONENTIAL_H
#define TENON_CPU_NN_EXPONENTIAL_H

#include "types.h"

static inline float exp_f32(float x)
{
    float clamped = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x; /* beyond: infinity, zero */
    float n = __builtin_rintf(clamped * 1.44269504088896341f);
    float r = clamped - n * 0.693359375f + n * 2.12194440e-4f, p, half, first, second, result;
    int32_t whole = (int32_t)n, low = whole >> 1, bits;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    half = p * r * r + r + 1.0f;
    bits = (low + 127) << 23;
    memcpy(&first, &bits, 4);
    bits = (whole - low + 127) << 23;
    memcpy(&second, &bits, 4);
    result = half * first * second;
    return x == x ? result : x;
}

static inline acc exponential(acc x)
{
#if TNI_KEY == 2
    return exp(x);
#else
    return exp_f32(x);
#endif
}

#endif
