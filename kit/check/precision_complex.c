/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact functions of complex numbers, by the plain formulas at a precision wide enough for all
 * cancellation: it grows with the exponents of the input. Knows nothing of devices.
 */
#include <stddef.h>
#include <string.h>
#include "precision.h"

/* A complex number in a computation; both parts have the same precision. */
typedef struct pair {
    mpfr_t re, im;
} pair;

static void pair_init(pair *z, mpfr_prec_t bits)
{
    mpfr_init2(z->re, bits);
    mpfr_init2(z->im, bits);
}
static void pair_clear(pair *z)
{
    mpfr_clear(z->re);
    mpfr_clear(z->im);
}
static void pair_set(pair *z, const pair *a)
{
    mpfr_set(z->re, a->re, MPFR_RNDN);
    mpfr_set(z->im, a->im, MPFR_RNDN);
}

/* z = a b; z may be a or b. */
static void pair_mul(pair *z, const pair *a, const pair *b)
{
    pair t;
    pair_init(&t, mpfr_get_prec(z->re));
    mpfr_fmms(t.re, a->re, b->re, a->im, b->im, MPFR_RNDN);
    mpfr_fmma(t.im, a->re, b->im, a->im, b->re, MPFR_RNDN);
    pair_set(z, &t);
    pair_clear(&t);
}

/* z = a / b */
static void pair_div(pair *z, const pair *a, const pair *b)
{
    pair t;
    mpfr_t square;
    mpfr_init2(square, mpfr_get_prec(z->re));
    pair_init(&t, mpfr_get_prec(z->re));
    mpfr_fmma(square, b->re, b->re, b->im, b->im, MPFR_RNDN);
    mpfr_fmma(t.re, a->re, b->re, a->im, b->im, MPFR_RNDN);
    mpfr_fmms(t.im, a->im, b->re, a->re, b->im, MPFR_RNDN);
    mpfr_div(z->re, t.re, square, MPFR_RNDN);
    mpfr_div(z->im, t.im, square, MPFR_RNDN);
    mpfr_clear(square);
    pair_clear(&t);
}

static void pair_exp(pair *z)
{
    mpfr_t size;
    mpfr_init2(size, mpfr_get_prec(z->re));
    mpfr_exp(size, z->re, MPFR_RNDN);
    mpfr_sin_cos(z->im, z->re, z->im, MPFR_RNDN);
    mpfr_mul(z->re, z->re, size, MPFR_RNDN);
    mpfr_mul(z->im, z->im, size, MPFR_RNDN);
    mpfr_clear(size);
}

static void pair_log(pair *z)
{
    mpfr_t size;
    mpfr_init2(size, mpfr_get_prec(z->re));
    mpfr_hypot(size, z->re, z->im, MPFR_RNDN);
    mpfr_atan2(z->im, z->im, z->re, MPFR_RNDN);
    mpfr_log(z->re, size, MPFR_RNDN);
    mpfr_clear(size);
}

/* First the root whose real part has the sign of the input's: nothing cancels. */
static void pair_sqrt(pair *z)
{
    mpfr_t size, big;
    if (mpfr_zero_p(z->re) && mpfr_zero_p(z->im)) return;
    mpfr_inits2(mpfr_get_prec(z->re), size, big, (mpfr_ptr)0);
    mpfr_hypot(size, z->re, z->im, MPFR_RNDN);
    mpfr_abs(big, z->re, MPFR_RNDN);
    mpfr_add(big, big, size, MPFR_RNDN);
    mpfr_div_ui(big, big, 2, MPFR_RNDN);
    mpfr_sqrt(big, big, MPFR_RNDN);
    mpfr_div(size, z->im, big, MPFR_RNDN);
    mpfr_div_ui(size, size, 2, MPFR_RNDN);
    if (mpfr_sgn(z->re) >= 0) {
        mpfr_set(z->re, big, MPFR_RNDN);
        mpfr_set(z->im, size, MPFR_RNDN);
    } else {
        mpfr_abs(z->re, size, MPFR_RNDN);
        mpfr_copysign(z->im, big, z->im, MPFR_RNDN);
    }
    mpfr_clears(size, big, (mpfr_ptr)0);
}

/* z i^k for k = 1 or -1. */
static void pair_turn(pair *z, int k)
{
    mpfr_swap(z->re, z->im);
    if (k > 0)
        mpfr_neg(z->re, z->re, MPFR_RNDN);
    else
        mpfr_neg(z->im, z->im, MPFR_RNDN);
}
/* The function of i z, times -i. */
static void pair_turned(pair *z, void (*function)(pair *z))
{
    pair_turn(z, 1);
    function(z);
    pair_turn(z, -1);
}

/* sinh x cos y + i cosh x sin y, or cosh x cos y + i sinh x sin y */
static void sinh_or_cosh(pair *z, int is_cosh)
{
    pair t;
    pair_init(&t, mpfr_get_prec(z->re));
    mpfr_sinh_cosh(t.re, t.im, z->re, MPFR_RNDN);
    mpfr_sin_cos(z->im, z->re, z->im, MPFR_RNDN);
    mpfr_mul(z->re, z->re, is_cosh ? t.im : t.re, MPFR_RNDN);
    mpfr_mul(z->im, z->im, is_cosh ? t.re : t.im, MPFR_RNDN);
    pair_clear(&t);
}
static void pair_sinh(pair *z)
{
    sinh_or_cosh(z, 0);
}
static void pair_cosh(pair *z)
{
    sinh_or_cosh(z, 1);
}
/* (sinh 2x + i sin 2y) / (cosh 2x + cos 2y); for large x its limit. */
static void pair_tanh(pair *z)
{
    mpfr_t below, cosine;
    mpfr_inits2(mpfr_get_prec(z->re), below, cosine, (mpfr_ptr)0);
    mpfr_mul_ui(z->re, z->re, 2, MPFR_RNDN);
    mpfr_mul_ui(z->im, z->im, 2, MPFR_RNDN);
    if (mpfr_cmpabs_ui(z->re, 100000) > 0) {
        mpfr_set_si(z->re, mpfr_sgn(z->re), MPFR_RNDN);
        mpfr_set_zero(z->im, 1);
    } else {
        mpfr_sinh_cosh(z->re, below, z->re, MPFR_RNDN);
        mpfr_sin_cos(z->im, cosine, z->im, MPFR_RNDN);
        mpfr_add(below, below, cosine, MPFR_RNDN);
        mpfr_div(z->re, z->re, below, MPFR_RNDN);
        mpfr_div(z->im, z->im, below, MPFR_RNDN);
    }
    mpfr_clears(below, cosine, (mpfr_ptr)0);
}

/* log(z + sqrt(z^2 + 1)), in the half plane where nothing cancels. */
static void pair_asinh(pair *z)
{
    pair t;
    int mirrored = mpfr_sgn(z->re) < 0;
    pair_init(&t, mpfr_get_prec(z->re));
    if (mirrored) {
        mpfr_neg(z->re, z->re, MPFR_RNDN);
        mpfr_neg(z->im, z->im, MPFR_RNDN);
    }
    pair_mul(&t, z, z);
    mpfr_add_ui(t.re, t.re, 1, MPFR_RNDN);
    pair_sqrt(&t);
    mpfr_add(z->re, z->re, t.re, MPFR_RNDN);
    mpfr_add(z->im, z->im, t.im, MPFR_RNDN);
    pair_log(z);
    if (mirrored) {
        mpfr_neg(z->re, z->re, MPFR_RNDN);
        mpfr_neg(z->im, z->im, MPFR_RNDN);
    }
    pair_clear(&t);
}
static void pair_asin(pair *z)
{
    pair_turned(z, pair_asinh);
}
/* pi / 2 - asin z */
static void pair_acos(pair *z)
{
    mpfr_t half_turn;
    mpfr_init2(half_turn, mpfr_get_prec(z->re));
    mpfr_const_pi(half_turn, MPFR_RNDN);
    mpfr_div_ui(half_turn, half_turn, 2, MPFR_RNDN);
    pair_asin(z);
    mpfr_sub(z->re, half_turn, z->re, MPFR_RNDN);
    mpfr_neg(z->im, z->im, MPFR_RNDN);
    mpfr_clear(half_turn);
}
/* i acos z or its negative, whichever has a non-negative real part. */
static void pair_acosh(pair *z)
{
    pair_acos(z);
    pair_turn(z, mpfr_sgn(z->im) <= 0 ? 1 : -1);
}
/* log((1 + z) / (1 - z)) / 2 */
static void pair_atanh(pair *z)
{
    pair below;
    pair_init(&below, mpfr_get_prec(z->re));
    mpfr_ui_sub(below.re, 1, z->re, MPFR_RNDN);
    mpfr_neg(below.im, z->im, MPFR_RNDN);
    mpfr_add_ui(z->re, z->re, 1, MPFR_RNDN);
    pair_div(z, z, &below);
    pair_log(z);
    mpfr_div_ui(z->re, z->re, 2, MPFR_RNDN);
    mpfr_div_ui(z->im, z->im, 2, MPFR_RNDN);
    pair_clear(&below);
}
static void pair_atan(pair *z)
{
    pair_turned(z, pair_atanh);
}
static void pair_sin(pair *z)
{
    pair_turned(z, pair_sinh);
}
static void pair_cos(pair *z)
{
    pair_turn(z, 1);
    pair_cosh(z);
}
static void pair_tan(pair *z)
{
    pair_turned(z, pair_tanh);
}
static void pair_square(pair *z)
{
    pair_mul(z, z, z);
}
static void pair_reciprocal(pair *z)
{
    pair one;
    pair_init(&one, mpfr_get_prec(z->re));
    mpfr_set_ui(one.re, 1, MPFR_RNDN);
    mpfr_set_zero(one.im, 1);
    pair_div(z, &one, z);
    pair_clear(&one);
}
static void pair_rsqrt(pair *z)
{
    pair_sqrt(z);
    pair_reciprocal(z);
}
static void pair_scale(pair *z, unsigned long base, int divide)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(z->re));
    mpfr_log_ui(t, base, MPFR_RNDN);
    if (divide) mpfr_ui_div(t, 1, t, MPFR_RNDN);
    mpfr_mul(z->re, z->re, t, MPFR_RNDN);
    mpfr_mul(z->im, z->im, t, MPFR_RNDN);
    mpfr_clear(t);
}
static void pair_exp2(pair *z)
{
    pair_scale(z, 2, 0);
    pair_exp(z);
}
static void pair_expm1(pair *z)
{
    pair_exp(z);
    mpfr_sub_ui(z->re, z->re, 1, MPFR_RNDN);
}
static void pair_log2(pair *z)
{
    pair_log(z);
    pair_scale(z, 2, 1);
}
static void pair_log10(pair *z)
{
    pair_log(z);
    pair_scale(z, 10, 1);
}
static void pair_log1p(pair *z)
{
    mpfr_add_ui(z->re, z->re, 1, MPFR_RNDN);
    pair_log(z);
}
/* 1 / (1 + e^-z) */
static void pair_sigmoid(pair *z)
{
    mpfr_neg(z->re, z->re, MPFR_RNDN);
    mpfr_neg(z->im, z->im, MPFR_RNDN);
    pair_exp(z);
    mpfr_add_ui(z->re, z->re, 1, MPFR_RNDN);
    pair_reciprocal(z);
}
static void pair_abs(pair *z)
{
    mpfr_hypot(z->re, z->re, z->im, MPFR_RNDN);
    mpfr_set_zero(z->im, 1);
}
static void pair_angle(pair *z)
{
    mpfr_atan2(z->re, z->im, z->re, MPFR_RNDN);
    mpfr_set_zero(z->im, 1);
}
static void pair_add(pair *z, const pair *a, const pair *b)
{
    mpfr_add(z->re, a->re, b->re, MPFR_RNDN);
    mpfr_add(z->im, a->im, b->im, MPFR_RNDN);
}
static void pair_sub(pair *z, const pair *a, const pair *b)
{
    mpfr_sub(z->re, a->re, b->re, MPFR_RNDN);
    mpfr_sub(z->im, a->im, b->im, MPFR_RNDN);
}
static void pair_pow(pair *z, const pair *a, const pair *b)
{
    pair_set(z, a);
    pair_log(z);
    pair_mul(z, z, b);
    pair_exp(z);
}

typedef struct complex_function {
    const char *name;
    int32_t inputs;
    void (*one)(pair *z);
    void (*two)(pair *z, const pair *a, const pair *b);
} complex_function;

static const complex_function functions[] = {
    {"aten::exp", 1, pair_exp, NULL},
    {"aten::exp2", 1, pair_exp2, NULL},
    {"aten::expm1", 1, pair_expm1, NULL},
    {"aten::log", 1, pair_log, NULL},
    {"aten::log2", 1, pair_log2, NULL},
    {"aten::log10", 1, pair_log10, NULL},
    {"aten::log1p", 1, pair_log1p, NULL},
    {"aten::sqrt", 1, pair_sqrt, NULL},
    {"aten::rsqrt", 1, pair_rsqrt, NULL},
    {"aten::reciprocal", 1, pair_reciprocal, NULL},
    {"aten::square", 1, pair_square, NULL},
    {"aten::sigmoid", 1, pair_sigmoid, NULL},
    {"aten::sin", 1, pair_sin, NULL},
    {"aten::cos", 1, pair_cos, NULL},
    {"aten::tan", 1, pair_tan, NULL},
    {"aten::sinh", 1, pair_sinh, NULL},
    {"aten::cosh", 1, pair_cosh, NULL},
    {"aten::tanh", 1, pair_tanh, NULL},
    {"aten::asin", 1, pair_asin, NULL},
    {"aten::acos", 1, pair_acos, NULL},
    {"aten::atan", 1, pair_atan, NULL},
    {"aten::asinh", 1, pair_asinh, NULL},
    {"aten::acosh", 1, pair_acosh, NULL},
    {"aten::atanh", 1, pair_atanh, NULL},
    {"aten::abs", 1, pair_abs, NULL},
    {"aten::angle", 1, pair_angle, NULL},
    {"aten::add.Tensor", 2, NULL, pair_add},
    {"aten::sub.Tensor", 2, NULL, pair_sub},
    {"aten::mul.Tensor", 2, NULL, pair_mul},
    {"aten::div.Tensor", 2, NULL, pair_div},
    {"aten::pow.Tensor_Tensor", 2, NULL, pair_pow},
};

int32_t precision_has_pairs(const char *name)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strcmp(functions[i].name, name) == 0) return 1;
    return 0;
}

int32_t precision_is_regular_at_0(const char *name)
{
    return strcmp(name, "aten::reciprocal") != 0 && strcmp(name, "aten::rsqrt") != 0;
}

/* Bits for a formula in which 1 + z^2 must not lose z. */
#define LEAST_BITS 256
static mpfr_prec_t bits_for(mpfr_t *x, int32_t count)
{
    mpfr_prec_t most = 0;
    for (int32_t i = 0; i < count; i++) {
        mpfr_prec_t exponent = mpfr_regular_p(x[i]) ? (mpfr_prec_t)mpfr_get_exp(x[i]) : 0;
        if (exponent < 0) exponent = -exponent;
        if (exponent > most) most = exponent;
    }
    return LEAST_BITS + 4 * most;
}

void precision_pairs(const char *name, mpfr_t *out, mpfr_t *x)
{
    size_t i = 0;
    pair z, a, b;
    while (strcmp(functions[i].name, name) != 0) i++;
    mpfr_prec_t bits = bits_for(x, 2 * functions[i].inputs);
    pair_init(&z, bits);
    pair_init(&a, bits);
    pair_init(&b, bits);
    mpfr_set(a.re, x[0], MPFR_RNDN);
    mpfr_set(a.im, x[1], MPFR_RNDN);
    if (functions[i].two) {
        mpfr_set(b.re, x[2], MPFR_RNDN);
        mpfr_set(b.im, x[3], MPFR_RNDN);
        functions[i].two(&z, &a, &b);
    } else {
        pair_set(&z, &a);
        functions[i].one(&z);
    }
    mpfr_set(out[0], z.re, MPFR_RNDN);
    mpfr_set(out[1], z.im, MPFR_RNDN);
    pair_clear(&z);
    pair_clear(&a);
    pair_clear(&b);
}
