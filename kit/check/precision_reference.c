/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact functions of real numbers that MPFR has, or that are formulas over them without loss.
 * Definitions and limits are ATen's. precision_table.c maps operators to functions.
 */
#include <math.h>
#include <stddef.h>
#include "precision_functions.h"

#define SPARE 64

/* ---- MPFR's own -------------------------------------------------------------------------------------- */

#define EXACT_OF_ONE(name)                                    \
    void exact_##name(mpfr_t out, mpfr_t *x, const double *p) \
    {                                                         \
        mpfr_##name(out, x[0], MPFR_RNDN);                    \
    }
#define EXACT_OF_TWO(name)                                    \
    void exact_##name(mpfr_t out, mpfr_t *x, const double *p) \
    {                                                         \
        mpfr_##name(out, x[0], x[1], MPFR_RNDN);              \
    }
#define EXACT_WHOLE(name)                                     \
    void exact_##name(mpfr_t out, mpfr_t *x, const double *p) \
    {                                                         \
        mpfr_##name(out, x[0]);                               \
    }
MPFR_OF_ONE(EXACT_OF_ONE)
MPFR_OF_TWO(EXACT_OF_TWO)
MPFR_WHOLE(EXACT_WHOLE)

void exact_round(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_roundeven(out, x[0]);
}

/* ---- Arithmetic -------------------------------------------------------------------------------------- */

void exact_reciprocal(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_ui_div(out, 1, x[0], MPFR_RNDN);
}

void exact_rsqrt(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_rec_sqrt(out, x[0], MPFR_RNDN);
    if (mpfr_zero_p(x[0])) mpfr_set_inf(out, mpfr_signbit(x[0]) ? -1 : 1);
}

void exact_frac(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_frac(out, x[0], MPFR_RNDN);
    if (mpfr_zero_p(out)) mpfr_set_zero(out, 1); /* x - trunc x */
    if (mpfr_inf_p(x[0])) mpfr_set_nan(out);
}

void exact_sign(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_set_si(out, mpfr_nan_p(x[0]) ? 0 : mpfr_sgn(x[0]), MPFR_RNDN);
}

/* The remainder has the divisor's sign. */
void exact_remainder(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_fmod(out, x[0], x[1], MPFR_RNDN);
    if (mpfr_regular_p(out) && mpfr_signbit(out) != mpfr_signbit(x[1])) mpfr_add(out, out, x[1], MPFR_RNDN);
}

/* NaN wins. */
void exact_maximum(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_max(out, x[0], x[1], MPFR_RNDN);
    if (mpfr_nan_p(x[0]) || mpfr_nan_p(x[1])) mpfr_set_nan(out);
}
void exact_minimum(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_min(out, x[0], x[1], MPFR_RNDN);
    if (mpfr_nan_p(x[0]) || mpfr_nan_p(x[1])) mpfr_set_nan(out);
}
/* NaN loses. */
void exact_fmax(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_max(out, x[0], x[1], MPFR_RNDN);
}
void exact_fmin(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_min(out, x[0], x[1], MPFR_RNDN);
}

/* x0 + x1 * x2, the product in twice the bits. */
void exact_addcmul(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_fma(out, x[1], x[2], x[0], MPFR_RNDN);
}
void exact_addcdiv(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + 4 * SPARE);
    mpfr_div(t, x[1], x[2], MPFR_RNDN);
    mpfr_add(out, x[0], t, MPFR_RNDN);
    mpfr_clear(t);
}
void exact_lerp(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + 2200);
    mpfr_sub(t, x[1], x[0], MPFR_RNDN);
    mpfr_fma(out, t, x[2], x[0], MPFR_RNDN);
    mpfr_clear(t);
}

/* x times a constant that is pi / 180 or 180 / pi. */
static void degrees(mpfr_t out, mpfr_srcptr x, int to_radians)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + SPARE);
    mpfr_const_pi(t, MPFR_RNDN);
    mpfr_div_ui(t, t, 180, MPFR_RNDN);
    if (!to_radians) mpfr_ui_div(t, 1, t, MPFR_RNDN);
    mpfr_mul(out, x, t, MPFR_RNDN);
    mpfr_clear(t);
}
void exact_deg2rad(mpfr_t out, mpfr_t *x, const double *p)
{
    degrees(out, x[0], 1);
}
void exact_rad2deg(mpfr_t out, mpfr_t *x, const double *p)
{
    degrees(out, x[0], 0);
}

/* ---- Activations ------------------------------------------------------------------------------------- */

void exact_relu(mpfr_t out, mpfr_t *x, const double *p)
{
    if (!mpfr_nan_p(x[0]) && mpfr_sgn(x[0]) <= 0)
        mpfr_set_zero(out, 1);
    else
        mpfr_set(out, x[0], MPFR_RNDN);
}

/* 1 + e^-x */
static void one_plus_power(mpfr_t t, mpfr_srcptr x)
{
    mpfr_neg(t, x, MPFR_RNDN);
    mpfr_exp(t, t, MPFR_RNDN);
    mpfr_add_ui(t, t, 1, MPFR_RNDN);
}
void exact_sigmoid(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + SPARE);
    one_plus_power(t, x[0]);
    mpfr_ui_div(out, 1, t, MPFR_RNDN);
    mpfr_clear(t);
}
void exact_silu(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + SPARE);
    one_plus_power(t, x[0]);
    mpfr_div(out, x[0], t, MPFR_RNDN);
    mpfr_clear(t);
}
/* log(1 + e^x) */
static void log_of_one_plus_power(mpfr_t out, mpfr_srcptr x)
{
    mpfr_t power;
    mpfr_init2(power, mpfr_get_prec(out) + SPARE);
    mpfr_exp(power, x, MPFR_RNDN);
    mpfr_log1p(out, power, MPFR_RNDN);
    mpfr_clear(power);
}
/* min(x, 0) - log(1 + e^-|x|) */
void exact_log_sigmoid(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + SPARE);
    mpfr_abs(t, x[0], MPFR_RNDN);
    mpfr_neg(t, t, MPFR_RNDN);
    log_of_one_plus_power(t, t);
    if (mpfr_sgn(x[0]) < 0)
        mpfr_sub(out, x[0], t, MPFR_RNDN);
    else
        mpfr_neg(out, t, MPFR_RNDN);
    mpfr_clear(t);
}
/* beta is 1; the identity from the threshold of 20 on is part of the definition. */
void exact_softplus(mpfr_t out, mpfr_t *x, const double *p)
{
    log_of_one_plus_power(out, x[0]);
    if (mpfr_cmp_ui(x[0], 20) > 0) mpfr_set(out, x[0], MPFR_RNDN);
}
/* erfc(-x / sqrt 2) */
static void twice_normal(mpfr_t t, mpfr_srcptr x)
{
    mpfr_sqrt_ui(t, 2, MPFR_RNDN);
    mpfr_div(t, x, t, MPFR_RNDN);
    mpfr_neg(t, t, MPFR_RNDN);
    mpfr_erfc(t, t, MPFR_RNDN);
}
/* x / 2 erfc(-x / sqrt 2) */
void exact_gelu(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + 2 * SPARE);
    twice_normal(t, x[0]);
    mpfr_mul(t, t, x[0], MPFR_RNDN);
    mpfr_div_ui(out, t, 2, MPFR_RNDN);
    mpfr_clear(t);
}
/* x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
void exact_gelu_tanh(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t, u;
    mpfr_inits2(mpfr_get_prec(out) + 2 * SPARE, t, u, (mpfr_ptr)0);
    mpfr_sqr(t, x[0], MPFR_RNDN);
    mpfr_mul_ui(t, t, 44715, MPFR_RNDN);
    mpfr_div_ui(t, t, 1000000, MPFR_RNDN);
    mpfr_add_ui(t, t, 1, MPFR_RNDN);
    mpfr_mul(t, t, x[0], MPFR_RNDN);
    mpfr_const_pi(u, MPFR_RNDN);
    mpfr_ui_div(u, 8, u, MPFR_RNDN);
    mpfr_sqrt(u, u, MPFR_RNDN);
    mpfr_mul(t, t, u, MPFR_RNDN);
    one_plus_power(u, t);
    mpfr_div(out, x[0], u, MPFR_RNDN);
    mpfr_clears(t, u, (mpfr_ptr)0);
}
/* x m / (m + 2), m = e (e + 2), e = e^x: x tanh(log(1 + e^x)) */
void exact_mish(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t e, m;
    mpfr_inits2(mpfr_get_prec(out) + 2 * SPARE, e, m, (mpfr_ptr)0);
    mpfr_exp(e, x[0], MPFR_RNDN);
    mpfr_add_ui(m, e, 2, MPFR_RNDN);
    mpfr_mul(m, m, e, MPFR_RNDN);
    mpfr_add_ui(e, m, 2, MPFR_RNDN);
    mpfr_div(m, m, e, MPFR_RNDN);
    mpfr_mul(out, x[0], m, MPFR_RNDN);
    if (mpfr_cmp_ui(x[0], 5000) > 0) mpfr_set(out, x[0], MPFR_RNDN);
    mpfr_clears(e, m, (mpfr_ptr)0);
}
void exact_elu(mpfr_t out, mpfr_t *x, const double *p)
{
    if (mpfr_sgn(x[0]) <= 0)
        mpfr_expm1(out, x[0], MPFR_RNDN);
    else
        mpfr_set(out, x[0], MPFR_RNDN);
}
void exact_selu(mpfr_t out, mpfr_t *x, const double *p)
{
    exact_elu(out, x, p);
    if (mpfr_sgn(x[0]) <= 0) mpfr_mul_d(out, out, 1.6732632423543772848170429916717, MPFR_RNDN);
    mpfr_mul_d(out, out, 1.0507009873554804934193349852946, MPFR_RNDN);
}
/* min(max(x + 3, 0), 6) / 6 */
void exact_hardsigmoid(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + 1200);
    mpfr_add_ui(t, x[0], 3, MPFR_RNDN);
    if (mpfr_sgn(t) < 0) mpfr_set_zero(t, 1);
    if (mpfr_cmp_ui(t, 6) > 0) mpfr_set_ui(t, 6, MPFR_RNDN);
    mpfr_div_ui(out, t, 6, MPFR_RNDN);
    if (mpfr_nan_p(x[0])) mpfr_set_nan(out);
    mpfr_clear(t);
}
void exact_hardswish(mpfr_t out, mpfr_t *x, const double *p)
{
    exact_hardsigmoid(out, x, p);
    mpfr_mul(out, out, x[0], MPFR_RNDN);
}
void exact_leaky_relu(mpfr_t out, mpfr_t *x, const double *p)
{
    if (mpfr_sgn(x[0]) > 0)
        mpfr_set(out, x[0], MPFR_RNDN);
    else
        mpfr_mul_d(out, x[0], p[0], MPFR_RNDN);
}
void exact_softshrink(mpfr_t out, mpfr_t *x, const double *p)
{
    if (mpfr_nan_p(x[0]) || mpfr_cmpabs_ui(x[0], 1) > 0 || mpfr_cmp_d(x[0], p[0]) > 0)
        mpfr_sub_d(out, x[0], mpfr_sgn(x[0]) > 0 ? p[0] : -p[0], MPFR_RNDN);
    else if (mpfr_cmp_d(x[0], -p[0]) < 0)
        mpfr_add_d(out, x[0], p[0], MPFR_RNDN);
    else
        mpfr_mul_ui(out, x[0], 0, MPFR_RNDN);
}

/* ---- Logarithms and the like ------------------------------------------------------------------------- */

void exact_logit(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + 2 * SPARE);
    mpfr_ui_sub(t, 1, x[0], MPFR_RNDN);
    mpfr_div(t, x[0], t, MPFR_RNDN);
    mpfr_log(out, t, MPFR_RNDN);
    mpfr_clear(t);
}

/* max + log(1 + e^-|a - b|), or the same with powers of two. */
static void log_add(mpfr_t out, mpfr_t *x, int two)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + 2 * SPARE);
    mpfr_sub(t, x[0], x[1], MPFR_RNDN);
    mpfr_abs(t, t, MPFR_RNDN);
    mpfr_neg(t, t, MPFR_RNDN);
    two ? mpfr_exp2(t, t, MPFR_RNDN) : mpfr_exp(t, t, MPFR_RNDN);
    two ? mpfr_log2p1(t, t, MPFR_RNDN) : mpfr_log1p(t, t, MPFR_RNDN);
    mpfr_add(out, mpfr_cmp(x[0], x[1]) > 0 ? x[0] : x[1], t, MPFR_RNDN);
    if (mpfr_inf_p(x[0]) && mpfr_equal_p(x[0], x[1])) mpfr_set(out, x[0], MPFR_RNDN);
    if (mpfr_nan_p(x[0]) || mpfr_nan_p(x[1])) mpfr_set_nan(out);
    mpfr_clear(t);
}
void exact_logaddexp(mpfr_t out, mpfr_t *x, const double *p)
{
    log_add(out, x, 0);
}
void exact_logaddexp2(mpfr_t out, mpfr_t *x, const double *p)
{
    log_add(out, x, 1);
}

/* a f(b), and 0 where a is 0 unless b is NaN. */
static void times_log(mpfr_t out, mpfr_t *x, int plus_one)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + SPARE);
    plus_one ? mpfr_log1p(t, x[1], MPFR_RNDN) : mpfr_log(t, x[1], MPFR_RNDN);
    mpfr_mul(out, x[0], t, MPFR_RNDN);
    if (mpfr_zero_p(x[0]) && !mpfr_nan_p(x[1])) mpfr_set_zero(out, 1);
    mpfr_clear(t);
}
void exact_xlogy(mpfr_t out, mpfr_t *x, const double *p)
{
    times_log(out, x, 0);
}
void exact_xlog1py(mpfr_t out, mpfr_t *x, const double *p)
{
    times_log(out, x, 1);
}
void exact_entr(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + SPARE);
    mpfr_log(t, x[0], MPFR_RNDN);
    mpfr_mul(out, x[0], t, MPFR_RNDN);
    mpfr_neg(out, out, MPFR_RNDN);
    if (mpfr_zero_p(x[0])) mpfr_set_zero(out, 1);
    if (!mpfr_nan_p(x[0]) && mpfr_sgn(x[0]) < 0) mpfr_set_inf(out, -1);
    mpfr_clear(t);
}
void exact_sinc(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + SPARE);
    mpfr_const_pi(t, MPFR_RNDN);
    mpfr_mul(t, t, x[0], MPFR_RNDN);
    mpfr_sinpi(out, x[0], MPFR_RNDN);
    mpfr_div(out, out, t, MPFR_RNDN);
    if (mpfr_zero_p(x[0])) mpfr_set_ui(out, 1, MPFR_RNDN);
    mpfr_clear(t);
}
void exact_spherical_j0(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + SPARE);
    mpfr_sin(t, x[0], MPFR_RNDN);
    mpfr_div(out, t, x[0], MPFR_RNDN);
    if (mpfr_zero_p(x[0])) mpfr_set_ui(out, 1, MPFR_RNDN);
    if (mpfr_inf_p(x[0])) mpfr_set_zero(out, 1);
    mpfr_clear(t);
}
/* erfc(-x / sqrt 2) / 2 */
void exact_ndtr(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out) + 2 * SPARE);
    twice_normal(t, x[0]);
    mpfr_div_ui(out, t, 2, MPFR_RNDN);
    mpfr_clear(t);
}
