/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The five 8-bit floats, one element at a time (OCP 8-bit floating point specification 1.0). The "fnuz"
 * formats have no negative zero; its pattern is their only NaN. E8M0 is a power of two without sign.
 */
#ifndef TENON_CPU_FLOAT8_H
#define TENON_CPU_FLOAT8_H

#include "vocabulary.h"

typedef struct float8_format {
    int32_t mantissa_bits;
    int32_t bias;
    uint32_t largest;  /* pattern of the largest finite number */
    uint32_t beyond;   /* pattern for larger numbers, before the sign: saturated, infinity or NaN */
    uint32_t infinity; /* pattern of infinity, 0 where there is none */
    uint32_t nan;      /* pattern of NaN, before the sign */
    int32_t fnuz;
} float8_format;

#define FLOAT8_E4M3FN   ((float8_format){3, 7, 0x7e, 0x7e, 0, 0x7f, 0})
#define FLOAT8_E4M3FNUZ ((float8_format){3, 8, 0x7f, 0x80, 0, 0x80, 1})
#define FLOAT8_E5M2     ((float8_format){2, 15, 0x7b, 0x7c, 0x7c, 0x7f, 0})
#define FLOAT8_E5M2FNUZ ((float8_format){2, 16, 0x7f, 0x80, 0, 0x80, 1})

ALWAYS_INLINE float float_of_float8(uint8_t x, float8_format f)
{
    uint32_t rest = x & 0x7fu, mantissa = rest & ((1u << f.mantissa_bits) - 1u);
    int32_t exponent = (int32_t)(rest >> f.mantissa_bits);
    if (f.fnuz ? x == 0x80u : rest > f.largest && rest != f.infinity) return float_of_bits(0x7fc00000u);
    if (f.infinity && rest == f.infinity) return x & 0x80u ? -INFINITY : INFINITY;
    float magnitude =
        exponent ? ldexpf((float)(mantissa | 1u << f.mantissa_bits), exponent - f.bias - f.mantissa_bits)
                 : ldexpf((float)mantissa, 1 - f.bias - f.mantissa_bits);
    return x & 0x80u ? -magnitude : magnitude;
}

/* To nearest, ties to even. Scaled by a power of two, the format's steps are integers. */
ALWAYS_INLINE uint8_t float8_of_float(float x, float8_format f)
{
    uint32_t sign = signbit(x) ? 0x80u : 0u, pattern;
    float magnitude = fabsf(x);
    int32_t exponent;
    if (isnan(x)) return (uint8_t)(f.fnuz ? f.nan : f.nan | sign);
    if (isinf(x)) return (uint8_t)(f.fnuz ? f.beyond : f.beyond | sign);
    frexpf(magnitude, &exponent); /* magnitude < 2^exponent */
    exponent = magnitude == 0 || exponent < 2 - f.bias ? 2 - f.bias : exponent;
    pattern = (uint32_t)rintf(ldexpf(magnitude, f.mantissa_bits + 1 - exponent));
    pattern += (uint32_t)(exponent + f.bias - 2) << f.mantissa_bits;
    if (pattern > f.largest) return (uint8_t)(f.fnuz ? f.beyond : f.beyond | sign);
    return (uint8_t)(f.fnuz && pattern == 0 ? 0 : pattern | sign);
}

ALWAYS_INLINE float float_of_e8m0(uint8_t x)
{
    return x == 0xffu ? float_of_bits(0x7fc00000u) : x ? float_of_bits((uint32_t)x << 23) : 0x1p-127f;
}
/* The exponent, rounded up from half way. The format has no sign. */
ALWAYS_INLINE uint8_t e8m0_of_float(float x)
{
    uint32_t bits = bits_of_float(x), exponent = bits >> 23 & 0xffu;
    uint32_t guard = bits >> 22 & 1u, sticky = bits & 0x3fffffu;
    if (exponent == 0xffu) return 0xffu;
    if (guard && (exponent > 0 || sticky)) exponent++;
    return (uint8_t)exponent;
}

#endif
