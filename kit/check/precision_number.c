/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of numbers and the measure of an error; see precision.h. This file knows nothing of functions and devices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "precision.h"

const precision_format precision_formats[] = {
    {TN_FLOAT32, "float32", 24, -126, 127, 0},
    {TN_FLOAT64, "float64", 53, -1022, 1023, 0},
    {TN_FLOAT16, "float16", 11, -14, 15, 0},
    {TN_BFLOAT16, "bfloat16", 8, -126, 127, 0},
    {TN_COMPLEX64, "complex64", 24, -126, 127, 1},
    {TN_COMPLEX128, "complex128", 53, -1022, 1023, 1},
    {0, NULL, 0, 0, 0, 0},
};

const precision_format *precision_format_of(tn_dtype dtype)
{
    const precision_format *f = precision_formats;
    while (f->dtype && f->dtype != dtype) f++;
    return f->dtype ? f : NULL;
}

/* A 16-bit pattern with `digits` - 1 bits of fraction. */
static double number_of_pattern(const precision_format *f, uint16_t bits)
{
    int32_t fraction_bits = f->digits - 1, exponent_mask = (1 << (15 - fraction_bits)) - 1;
    int32_t exponent = bits >> fraction_bits & exponent_mask, fraction = bits & ((1 << fraction_bits) - 1);
    double x;
    if (exponent == exponent_mask)
        x = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        x = ldexp(fraction, f->least - fraction_bits);
    else
        x = ldexp(fraction + (1 << fraction_bits), exponent - 1 + f->least - fraction_bits);
    return bits & 0x8000u ? -x : x;
}

static uint16_t pattern_of_number(const precision_format *f, double x)
{
    int32_t fraction_bits = f->digits - 1;
    uint16_t sign = signbit(x) ? 0x8000u : 0, top = (uint16_t)(0x8000u - (1u << fraction_bits));
    double rounded = fabs(precision_rounded(f, x));
    if (rounded != rounded) return (uint16_t)(top | 1u << (fraction_bits - 1));
    if (isinf(rounded)) return (uint16_t)(sign | top);
    if (rounded < ldexp(1, f->least))
        return (uint16_t)(sign | (uint16_t)ldexp(rounded, fraction_bits - f->least));
    int32_t exponent = ilogb(rounded);
    uint32_t significand = (uint32_t)ldexp(rounded, fraction_bits - exponent);
    return (uint16_t)(sign | (((uint32_t)(exponent - f->least) << fraction_bits) + significand));
}

double precision_get(const precision_format *f, const void *data, int64_t i)
{
    if (f->digits == 53) return ((const double *)data)[i];
    if (f->digits == 24) return (double)((const float *)data)[i];
    return number_of_pattern(f, ((const uint16_t *)data)[i]);
}

void precision_put(const precision_format *f, void *data, int64_t i, double x)
{
    if (f->digits == 53)
        ((double *)data)[i] = x;
    else if (f->digits == 24)
        ((float *)data)[i] = (float)x;
    else
        ((uint16_t *)data)[i] = pattern_of_number(f, x);
}

double precision_rounded(const precision_format *f, double x)
{
    if (f->digits == 53 || x == 0 || !isfinite(x)) return x;
    int32_t exponent = ilogb(x), place = (exponent < f->least ? f->least : exponent) - f->digits + 1;
    double rounded = ldexp(rint(ldexp(x, -place)), place);
    return fabs(rounded) >= ldexp(1, f->most + 1) ? copysign(INFINITY, x) : rounded;
}

int32_t precision_unit(const precision_format *f, mpfr_srcptr exact)
{
    int64_t exponent = f->least;
    if (mpfr_regular_p(exact)) exponent = mpfr_get_exp(exact) - 1;
    if (mpfr_inf_p(exact) || exponent > f->most) exponent = f->most;
    if (exponent < f->least) exponent = f->least;
    return (int32_t)exponent - f->digits + 1;
}

/* got - exact, both limited to 2^(most + 1). */
static void difference(const precision_format *f, double got, mpfr_srcptr exact, mpfr_t out)
{
    mpfr_t limit, cut;
    mpfr_init2(limit, 64);
    mpfr_init2(cut, mpfr_get_prec(exact));
    mpfr_set_ui_2exp(limit, 1, f->most + 1, MPFR_RNDN);
    mpfr_set(cut, exact, MPFR_RNDN);
    if (mpfr_cmpabs(exact, limit) > 0) mpfr_copysign(cut, limit, exact, MPFR_RNDN);
    if (isinf(got)) {
        mpfr_set_d(out, copysign(1, got), MPFR_RNDN);
        mpfr_mul(out, out, limit, MPFR_RNDN);
    } else {
        mpfr_set_d(out, got, MPFR_RNDN);
    }
    mpfr_sub(out, out, cut, MPFR_RNDN);
    mpfr_clear(limit);
    mpfr_clear(cut);
}

double precision_error(const precision_format *f, double got, mpfr_srcptr exact)
{
    int32_t nan = mpfr_nan_p(exact) != 0;
    mpfr_t apart;
    if (nan || got != got) return nan && got != got ? 0 : (double)INFINITY;
    mpfr_init2(apart, 64);
    difference(f, got, exact, apart);
    mpfr_mul_2si(apart, apart, -precision_unit(f, exact), MPFR_RNDN);
    double error = mpfr_get_d(apart, MPFR_RNDN);
    mpfr_clear(apart);
    return error;
}

double precision_error_pair(const precision_format *f, const double *got, mpfr_t *exact)
{
    mpfr_t apart[2];
    int32_t nan = mpfr_nan_p(exact[0]) || mpfr_nan_p(exact[1]),
            nan_got = got[0] != got[0] || got[1] != got[1];
    if (nan || nan_got) return nan && nan_got ? 0 : (double)INFINITY;
    int32_t unit = precision_unit(f, mpfr_cmpabs(exact[0], exact[1]) > 0 ? exact[0] : exact[1]);
    for (int i = 0; i < 2; i++) {
        mpfr_init2(apart[i], 64);
        difference(f, got[i], exact[i], apart[i]);
    }
    mpfr_hypot(apart[0], apart[0], apart[1], MPFR_RNDN);
    mpfr_mul_2si(apart[0], apart[0], -unit, MPFR_RNDN);
    double error = mpfr_get_d(apart[0], MPFR_RNDN);
    mpfr_clear(apart[0]);
    mpfr_clear(apart[1]);
    return error;
}

static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

void precision_stats_finish(precision_stats *stats, double *errors, int64_t count)
{
    double sum = 0;
    int64_t finite = 0;
    stats->count = count;
    if (count == 0) return;
    for (int64_t i = 0; i < count; i++) {
        stats->lost += isinf(errors[i]);
        if (!isfinite(errors[i])) continue;
        sum += errors[i];
        finite++;
    }
    qsort(errors, (size_t)count, sizeof(*errors), by_size);
    stats->greatest = fabs(errors[count - 1]);
    stats->p99 = fabs(errors[(count - 1) * 99 / 100]);
    stats->mean = finite ? sum / (double)finite : 0;
}
