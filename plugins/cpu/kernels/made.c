/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of floats (DTYPE=f32|f64) whose results are not of their operands' kind, or depend on
 * the dtype in memory: complex numbers from parts, mantissa and exponent, the next number.
 */
#include "pointwise_ops.h"
#include "convert.h"
#include "vocabulary.h"

typedef struct pair_t {
    T re, im;
} pair_t;

static void complex_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    pair_t *o = p[0];
    const T *re = p[1], *im = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = (pair_t){re[i], im[i]};
}

static void polar(void *const *p, int64_t n, const cpu_scalars *s)
{
    pair_t *o = p[0];
    const T *size = p[1], *angle = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = (pair_t){size[i] * FN(cos)(angle[i]), size[i] * FN(sin)(angle[i])};
}

static void frexp_of(void *const *p, int64_t n, const cpu_scalars *s)
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

static void nextafter_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = FN(nextafter)(a[i], b[i]);
}

#if defined(DTYPE_F32)
/* The next pattern of a half type: numbers of one sign are ordered as their patterns. */
static uint16_t next_pattern(uint16_t bits, int32_t upward)
{
    if ((bits & 0x7fffu) == 0) return upward ? 1 : 0x8001;
    return (uint16_t)(((bits & 0x8000u) == 0) == upward ? bits + 1 : bits - 1);
}

static void nextafter_f16(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) {
        half_t next = {next_pattern(half_of_float(a[i]).bits, b[i] > a[i])};
        o[i] = a[i] != a[i] || b[i] != b[i] ? a[i] + b[i] : a[i] == b[i] ? b[i] : float_of_half(next);
    }
}

static void nextafter_bf16(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) {
        bfloat_t next = {next_pattern(bfloat_of_float(a[i]).bits, b[i] > a[i])};
        o[i] = a[i] != a[i] || b[i] != b[i] ? a[i] + b[i] : a[i] == b[i] ? b[i] : float_of_bfloat(next);
    }
}
#endif

extern const cpu_pointwise_entry CPU_NAME(cpu_made)[];
const cpu_pointwise_entry CPU_NAME(cpu_made)[] = {
    {CPU_OP_complex, complex_of},
    {CPU_OP_polar, polar},
    {CPU_OP_frexp, frexp_of},
    {CPU_OP_nextafter, nextafter_of},
#if defined(DTYPE_F32)
    {CPU_OP_nextafter_f16, nextafter_f16},
    {CPU_OP_nextafter_bf16, nextafter_bf16},
#endif
    {0, NULL},
};
