/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exponential of float32 for processors, without branches or calls, so that a compiler makes vectors of loops over it:
 * drivers' own is one, but some take twice the time. Error: 1.01 ULP. Elsewhere `exp` stays that of the driver.
 */
#ifndef TENON_GPU_EXPONENTIAL_H
#define TENON_GPU_EXPONENTIAL_H

#include "dialect.h"

#if GPU_PROCESSOR && GPU_TYPE == 32
GPU_FUNCTION float gpu_exp(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: a sum with it is rounded to whole numbers */
    float y = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x; /* infinite, and 0, from there on; NaN stays */
    float whole = FN(fma)(y, 1.44269502f, shift), n = whole - shift;
    /* y - n ln(2): n times the first part of ln(2) is exact. */
    float r = FN(fma)(n, -1.42860677e-6f, FN(fma)(n, -0.693145752f, y));
    /* (e^r - 1 - r) / r^2 for |r| up to ln(2) / 2: a minimax fit of our own, with an error below 2^-28 of e^r. */
    float p = FN(fma)(0.0013814467f, r, 0.008368781f);
    p = FN(fma)(p, r, 0.041668393f);
    p = FN(fma)(p, r, 0.1666652f);
    p = FN(fma)(p, r, 0.49999994f);
    p = 1.0f + FN(fma)(p, r * r, r);
    /* Times 2^n in two steps, since 2^n may be no normal number. */
    int32_t power = (int32_t)(gpu_bits_of_float(whole) - gpu_bits_of_float(shift)), half_power = power >> 1;
    return p * gpu_float_of_bits((uint32_t)(half_power + 127) << 23) *
           gpu_float_of_bits((uint32_t)(power - half_power + 127) << 23);
}
#define exp gpu_exp
#endif

#endif
