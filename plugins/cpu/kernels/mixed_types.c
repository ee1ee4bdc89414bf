/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of floats (DTYPE=f32|f64) with results of another type than their operands (complex
 * numbers from their parts, mantissa and exponent) or that depend on the dtype in memory (the next number).
 */
#include "loops.h"

typedef struct pair_t {
    T re, im;
} pair_t;

KERNEL(complex)
{
    pair_t *o = p[0];
    const T *re = p[1], *im = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = (pair_t){re[i], im[i]};
}

KERNEL(polar)
{
    pair_t *o = p[0];
    const T *size = p[1], *angle = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = (pair_t){size[i] * FN(cos)(angle[i]), size[i] * FN(sin)(angle[i])};
}

KERNEL(frexp)
{
    T *mantissa = p[0];
    int32_t *exponent = p[1];
    const T *a = p[2];
    for (int64_t i = 0; i < n; i++) {
        int power = 0;
        mantissa[i] = FN(frexp)(a[i], &power);
        exponent[i] = power;
    }
}

BINARY(nextafter, FN(nextafter)(a, b))

#if defined(DTYPE_F32)
/* The next pattern of a half type: numbers of one sign are ordered as their patterns are. */
static uint16_t next_pattern(uint16_t bits, int32_t upward)
{
    if ((bits & 0x7fffu) == 0) return upward ? 1 : 0x8001;
    return (uint16_t)(((bits & 0x8000u) == 0) == upward ? bits + 1 : bits - 1);
}
static float next_half(float a, float b)
{
    half_t next = {next_pattern(half_of_float(a).bits, b > a)};
    return a != a || b != b ? a + b : a == b ? b : float_of_half(next);
}
static float next_bfloat(float a, float b)
{
    bfloat_t next = {next_pattern(bfloat_of_float(a).bits, b > a)};
    return a != a || b != b ? a + b : a == b ? b : float_of_bfloat(next);
}
BINARY(nextafter_f16, next_half(a, b))
BINARY(nextafter_bf16, next_bfloat(a, b))
#endif

POINTWISE_KERNELS(mixed_types) = {
    ENTRY(complex),       ENTRY(polar),          ENTRY(frexp), ENTRY(nextafter),
#if defined(DTYPE_F32)
    ENTRY(nextafter_f16), ENTRY(nextafter_bf16),
#endif
    END_OF_KERNELS,
};
