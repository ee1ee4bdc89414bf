/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special functions that MPFR lacks, at any precision: power series with spare bits for cancellation,
 * asymptotic expansions for large arguments, Newton's iteration for inverses (DLMF 5.15, 8.7, 9.7,
 * 10.25-10.40, 25.11). Independent of the kernels that they judge.
 */
#include <stddef.h>
#include "precision_functions.h"

#define SPARE 64  /* bits beyond those asked for */
#define FAR   250 /* expansions in 1 / x are used from here on: their error is e^-2x or less */

/* log2 |x|, roughly; 0 for zeros, infinities and NaN. */
static int64_t magnitude(mpfr_srcptr x)
{
    return mpfr_regular_p(x) ? mpfr_get_exp(x) : 0;
}

/* |term| < |sum| 2^-bits */
static int negligible(mpfr_srcptr term, mpfr_srcptr sum, int64_t bits)
{
    return mpfr_zero_p(term) || (mpfr_regular_p(sum) && magnitude(term) < magnitude(sum) - bits);
}

/* ---- Gamma and its family ---------------------------------------------------------------------------- */

void exact_lgamma(mpfr_t out, mpfr_t *x, const double *p)
{
    int sign;
    mpfr_lgamma(out, &sign, x[0], MPFR_RNDN);
}

/*
 * Hurwitz's zeta for s > 1, q > 0 by Euler and Maclaurin's formula. B_2k / (2k)! is 2 (-1)^(k+1) zeta(2k) /
 * (2 pi)^2k.
 */
static void hurwitz(mpfr_t out, mpfr_srcptr s, mpfr_srcptr q)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE;
    int64_t terms = bits / 4 + 8;
    mpfr_t sum, a, term, power, factor, turn;
    mpfr_inits2(bits, sum, a, term, power, factor, turn, (mpfr_ptr)0);
    mpfr_set_zero(sum, 1);
    mpfr_neg(factor, s, MPFR_RNDN);
    for (int64_t k = 0; k < terms; k++) {
        mpfr_add_si(a, q, k, MPFR_RNDN);
        mpfr_pow(term, a, factor, MPFR_RNDN);
        mpfr_add(sum, sum, term, MPFR_RNDN);
        if (k > 0 && negligible(term, sum, bits + magnitude(s) + 16)) goto done;
    }
    mpfr_add_si(a, q, terms, MPFR_RNDN);
    mpfr_pow(power, a, factor, MPFR_RNDN);
    mpfr_sub_ui(term, s, 1, MPFR_RNDN); /* a^(1-s) / (s - 1) + a^-s / 2 */
    mpfr_div(term, a, term, MPFR_RNDN);
    mpfr_add_d(term, term, 0.5, MPFR_RNDN);
    mpfr_mul(term, term, power, MPFR_RNDN);
    mpfr_add(sum, sum, term, MPFR_RNDN);
    mpfr_const_pi(turn, MPFR_RNDN);
    mpfr_mul_ui(turn, turn, 2, MPFR_RNDN);
    mpfr_sqr(turn, turn, MPFR_RNDN);
    mpfr_div(factor, s, a, MPFR_RNDN);
    mpfr_mul(factor, factor, power, MPFR_RNDN);
    mpfr_mul_ui(factor, factor, 2, MPFR_RNDN);
    mpfr_div(factor, factor, turn, MPFR_RNDN);
    for (unsigned long k = 1; k < (unsigned long)bits; k++) {
        mpfr_zeta_ui(term, 2 * k, MPFR_RNDN);
        mpfr_mul(term, term, factor, MPFR_RNDN);
        if (k % 2 == 0) mpfr_neg(term, term, MPFR_RNDN);
        mpfr_add(sum, sum, term, MPFR_RNDN);
        if (negligible(term, sum, bits)) break;
        for (unsigned long j = 2 * k - 1; j <= 2 * k; j++) {
            mpfr_add_ui(power, s, j, MPFR_RNDN);
            mpfr_mul(factor, factor, power, MPFR_RNDN);
            mpfr_div(factor, factor, a, MPFR_RNDN);
        }
        mpfr_div(factor, factor, turn, MPFR_RNDN);
    }
done:
    mpfr_set(out, sum, MPFR_RNDN);
    mpfr_clears(sum, a, term, power, factor, turn, (mpfr_ptr)0);
}

/* For a negative q and a whole s: the terms below 0 are two sums over positive numbers. */
static void hurwitz_below(mpfr_t out, mpfr_srcptr s, mpfr_srcptr q)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE + 1100;
    mpfr_t part, up, down, whole;
    mpfr_inits2(bits, part, up, down, whole, (mpfr_ptr)0);
    mpfr_floor(whole, q);
    mpfr_sub(part, q, whole, MPFR_RNDN);
    mpfr_prec_round(up, mpfr_get_prec(out) + SPARE, MPFR_RNDN);
    mpfr_prec_round(down, mpfr_get_prec(out) + SPARE, MPFR_RNDN);
    hurwitz(up, s, part);
    mpfr_ui_sub(part, 1, part, MPFR_RNDN);
    hurwitz(down, s, part);
    mpfr_ui_sub(part, 1, q, MPFR_RNDN);
    mpfr_prec_round(whole, mpfr_get_prec(out) + SPARE, MPFR_RNDN);
    hurwitz(whole, s, part);
    mpfr_sub(down, down, whole, MPFR_RNDN);
    if (mpfr_get_si(s, MPFR_RNDN) % 2)
        mpfr_sub(out, up, down, MPFR_RNDN);
    else
        mpfr_add(out, up, down, MPFR_RNDN);
    mpfr_clears(part, up, down, whole, (mpfr_ptr)0);
}

void exact_zeta(mpfr_t out, mpfr_t *x, const double *p)
{
    if (mpfr_nan_p(x[0]) || mpfr_nan_p(x[1]) || mpfr_cmp_ui(x[0], 1) < 0)
        mpfr_set_nan(out);
    else if (mpfr_cmp_ui(x[0], 1) == 0)
        mpfr_set_inf(out, 1);
    else if (mpfr_inf_p(x[1]))
        mpfr_sgn(x[1]) > 0 ? mpfr_set_zero(out, 1) : mpfr_set_inf(out, 1);
    else if (mpfr_sgn(x[1]) <= 0 && mpfr_integer_p(x[1]))
        mpfr_set_inf(out, 1);
    else if (mpfr_sgn(x[1]) < 0 && !mpfr_integer_p(x[0]))
        mpfr_set_nan(out);
    else if (mpfr_inf_p(x[0]))
        mpfr_set_ui(out, mpfr_cmp_ui(x[1], 1) == 0, MPFR_RNDN);
    else if (mpfr_sgn(x[1]) < 0)
        hurwitz_below(out, x[0], x[1]);
    else
        hurwitz(out, x[0], x[1]);
}

/* (-1)^(n+1) n! zeta(n + 1, x), n = p[0] > 0. */
void exact_polygamma(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t s[2];
    if (mpfr_inf_p(x[0]) && mpfr_sgn(x[0]) < 0) {
        mpfr_set_nan(out);
        return;
    }
    mpfr_init2(s[0], 64);
    mpfr_init2(s[1], mpfr_get_prec(x[0]));
    mpfr_set_d(s[0], p[0] + 1, MPFR_RNDN);
    mpfr_set(s[1], x[0], MPFR_RNDN);
    exact_zeta(out, s, p);
    for (double k = 2; k <= p[0]; k++) mpfr_mul_d(out, out, k, MPFR_RNDN);
    if ((int64_t)p[0] % 2 == 0) mpfr_neg(out, out, MPFR_RNDN);
    mpfr_clear(s[0]);
    mpfr_clear(s[1]);
}

/* Common to both incomplete functions: 1 if (a, x) is a special case. */
static int gamma_edge(mpfr_t out, mpfr_t *x, int upper)
{
    int bad = mpfr_nan_p(x[0]) || mpfr_nan_p(x[1]) || mpfr_sgn(x[0]) < 0 || mpfr_sgn(x[1]) < 0;
    bad = bad || (mpfr_zero_p(x[0]) && mpfr_zero_p(x[1])) || (mpfr_inf_p(x[0]) && mpfr_inf_p(x[1]));
    if (bad)
        mpfr_set_nan(out);
    else if (mpfr_zero_p(x[1]) || mpfr_inf_p(x[0]))
        mpfr_set_ui(out, (unsigned long)upper, MPFR_RNDN);
    else if (mpfr_zero_p(x[0]) || mpfr_inf_p(x[1]))
        mpfr_set_ui(out, (unsigned long)!upper, MPFR_RNDN);
    else if (mpfr_cmp_ui(x[0], 10000) > 0 || mpfr_cmp_ui(x[1], 10000) > 0)
        /* For huge arguments, which occur only as special values, the step from 0 to 1 at x = a is sharp. */
        mpfr_set_d(out, mpfr_equal_p(x[0], x[1]) ? 0.5 : (mpfr_cmp(x[1], x[0]) > 0) != upper, MPFR_RNDN);
    else
        return 0;
    return 1;
}

/* P(a, x) = x^a e^-x / Gamma(a + 1) sum x^k / ((a + 1) ... (a + k)): all terms are positive. */
static void lower_series(mpfr_t out, mpfr_srcptr a, mpfr_srcptr x)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE;
    mpfr_t sum, term, next;
    mpfr_inits2(bits, sum, term, next, (mpfr_ptr)0);
    mpfr_set_ui(sum, 1, MPFR_RNDN);
    mpfr_set_ui(term, 1, MPFR_RNDN);
    for (long k = 1; !negligible(term, sum, bits); k++) {
        mpfr_add_si(next, a, k, MPFR_RNDN);
        mpfr_mul(term, term, x, MPFR_RNDN);
        mpfr_div(term, term, next, MPFR_RNDN);
        mpfr_add(sum, sum, term, MPFR_RNDN);
    }
    mpfr_log(term, x, MPFR_RNDN);
    mpfr_mul(term, term, a, MPFR_RNDN);
    mpfr_sub(term, term, x, MPFR_RNDN);
    mpfr_exp(term, term, MPFR_RNDN);
    mpfr_mul(sum, sum, term, MPFR_RNDN);
    mpfr_add_ui(next, a, 1, MPFR_RNDN);
    mpfr_gamma(next, next, MPFR_RNDN);
    mpfr_div(out, sum, next, MPFR_RNDN);
    mpfr_clears(sum, term, next, (mpfr_ptr)0);
}

/* Q = 1 - P, with spare bits for cancellation: Q is not far below e^-x x^(a-1) / Gamma(a). */
static void complement(mpfr_t out, mpfr_srcptr a, mpfr_srcptr x)
{
    mpfr_t lower;
    mpfr_init2(lower, mpfr_get_prec(out) + 2 * SPARE + 2 * (mpfr_prec_t)mpfr_get_d(x, MPFR_RNDU));
    lower_series(lower, a, x);
    mpfr_ui_sub(out, 1, lower, MPFR_RNDN);
    mpfr_clear(lower);
}

void exact_igamma(mpfr_t out, mpfr_t *x, const double *p)
{
    if (!gamma_edge(out, x, 0)) lower_series(out, x[0], x[1]);
}

void exact_igammac(mpfr_t out, mpfr_t *x, const double *p)
{
    if (!gamma_edge(out, x, 1)) complement(out, x[0], x[1]);
}

/* ---- Error function ---------------------------------------------------------------------------------- */

/* e^(x^2) erfc(x) */
void exact_erfcx(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE;
    mpfr_t a, b, term;
    mpfr_inits2(bits + 2 * SPARE, a, b, term, (mpfr_ptr)0);
    if (!mpfr_regular_p(x[0]) || mpfr_cmp_si(x[0], FAR) < 0) {
        mpfr_sqr(a, x[0], MPFR_RNDN);
        mpfr_exp(a, a, MPFR_RNDN);
        mpfr_erfc(b, x[0], MPFR_RNDN);
        mpfr_mul(out, a, b, MPFR_RNDN);
        if (mpfr_inf_p(x[0])) mpfr_sgn(x[0]) > 0 ? mpfr_set_zero(out, 1) : mpfr_set_inf(out, 1);
    } else {
        mpfr_sqr(b, x[0], MPFR_RNDN);
        mpfr_mul_ui(b, b, 2, MPFR_RNDN);
        mpfr_set_ui(a, 1, MPFR_RNDN);
        mpfr_set_ui(term, 1, MPFR_RNDN);
        for (unsigned long k = 1; !negligible(term, a, bits); k++) {
            mpfr_mul_ui(term, term, 2 * k - 1, MPFR_RNDN);
            mpfr_div(term, term, b, MPFR_RNDN);
            mpfr_neg(term, term, MPFR_RNDN);
            mpfr_add(a, a, term, MPFR_RNDN);
        }
        mpfr_const_pi(b, MPFR_RNDN);
        mpfr_sqrt(b, b, MPFR_RNDN);
        mpfr_mul(b, b, x[0], MPFR_RNDN);
        mpfr_div(out, a, b, MPFR_RNDN);
    }
    mpfr_clears(a, b, term, (mpfr_ptr)0);
}

/* y >= 0 with erfc(y) = q, 0 < q <= 1: Newton on log erfc, which is concave, so that it converges from y = 0. */
static void inverse_erfc(mpfr_t out, mpfr_srcptr q)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + 2 * SPARE;
    mpfr_t y, target, value, step, slope;
    mpfr_inits2(bits, y, target, value, step, slope, (mpfr_ptr)0);
    mpfr_log(target, q, MPFR_RNDN);
    mpfr_neg(y, target, MPFR_RNDN);
    if (mpfr_cmp_ui(y, 1) > 0) mpfr_sqrt(y, y, MPFR_RNDN);
    for (int k = 0; k < 200; k++) {
        mpfr_erfc(value, y, MPFR_RNDN);
        /* d/dy log erfc = -2 / sqrt(pi) e^(-y^2) / erfc */
        mpfr_sqr(slope, y, MPFR_RNDN);
        mpfr_neg(slope, slope, MPFR_RNDN);
        mpfr_exp(slope, slope, MPFR_RNDN);
        mpfr_const_pi(step, MPFR_RNDN);
        mpfr_sqrt(step, step, MPFR_RNDN);
        mpfr_div(slope, slope, step, MPFR_RNDN);
        mpfr_mul_si(slope, slope, -2, MPFR_RNDN);
        mpfr_div(slope, slope, value, MPFR_RNDN);
        mpfr_log(value, value, MPFR_RNDN);
        mpfr_sub(value, value, target, MPFR_RNDN);
        mpfr_div(step, value, slope, MPFR_RNDN);
        mpfr_sub(y, y, step, MPFR_RNDN);
        if (negligible(step, y, mpfr_get_prec(out) + 8) || mpfr_zero_p(step)) break;
    }
    mpfr_set(out, y, MPFR_RNDN);
    mpfr_clears(y, target, value, step, slope, (mpfr_ptr)0);
}

/* Near 0, where 1 - x would lose x: Newton on erf. */
static void inverse_erf(mpfr_t out, mpfr_srcptr x)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE;
    mpfr_t y, step, slope, root;
    mpfr_inits2(bits, y, step, slope, root, (mpfr_ptr)0);
    mpfr_const_pi(root, MPFR_RNDN);
    mpfr_sqrt(root, root, MPFR_RNDN);
    mpfr_div_ui(root, root, 2, MPFR_RNDN);
    mpfr_mul(y, root, x, MPFR_RNDN);
    for (int k = 0; k < 100; k++) {
        mpfr_erf(step, y, MPFR_RNDN);
        mpfr_sub(step, step, x, MPFR_RNDN);
        mpfr_sqr(slope, y, MPFR_RNDN);
        mpfr_exp(slope, slope, MPFR_RNDN);
        mpfr_mul(slope, slope, root, MPFR_RNDN);
        mpfr_mul(step, step, slope, MPFR_RNDN);
        mpfr_sub(y, y, step, MPFR_RNDN);
        if (negligible(step, y, mpfr_get_prec(out) + 8)) break;
    }
    mpfr_set(out, y, MPFR_RNDN);
    mpfr_clears(y, step, slope, root, (mpfr_ptr)0);
}

void exact_erfinv(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t q;
    if (mpfr_nan_p(x[0]) || mpfr_cmpabs_ui(x[0], 1) > 0) {
        mpfr_set_nan(out);
    } else if (mpfr_cmpabs_ui(x[0], 1) == 0) {
        mpfr_set_inf(out, mpfr_sgn(x[0]));
    } else if (mpfr_zero_p(x[0])) {
        mpfr_set(out, x[0], MPFR_RNDN);
    } else if (mpfr_get_exp(x[0]) < 0) {
        inverse_erf(out, x[0]);
    } else {
        mpfr_init2(q, mpfr_get_prec(x[0]) + SPARE);
        mpfr_abs(q, x[0], MPFR_RNDN);
        mpfr_ui_sub(q, 1, q, MPFR_RNDN);
        inverse_erfc(out, q);
        mpfr_copysign(out, out, x[0], MPFR_RNDN);
        mpfr_clear(q);
    }
}

/* -sqrt(2) erfc^-1(2p) for p up to a half, and the mirror image. */
void exact_ndtri(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_t q;
    int upper = !mpfr_nan_p(x[0]) && mpfr_cmp_d(x[0], 0.5) > 0;
    if (mpfr_nan_p(x[0]) || mpfr_sgn(x[0]) < 0 || mpfr_cmp_ui(x[0], 1) > 0) {
        mpfr_set_nan(out);
        return;
    }
    if (mpfr_zero_p(x[0]) || mpfr_cmp_ui(x[0], 1) == 0) {
        mpfr_set_inf(out, upper ? 1 : -1);
        return;
    }
    mpfr_init2(q, mpfr_get_prec(x[0]) + SPARE);
    if (upper)
        mpfr_ui_sub(q, 1, x[0], MPFR_RNDN);
    else
        mpfr_set(q, x[0], MPFR_RNDN);
    mpfr_mul_ui(q, q, 2, MPFR_RNDN);
    if (mpfr_cmp_d(q, 0.5) > 0) {
        mpfr_ui_sub(q, 1, q, MPFR_RNDN);
        inverse_erf(out, q);
    } else {
        inverse_erfc(out, q);
    }
    mpfr_sqrt_ui(q, 2, MPFR_RNDN);
    mpfr_mul(out, out, q, MPFR_RNDN);
    if (!upper) mpfr_neg(out, out, MPFR_RNDN);
    mpfr_clear(q);
}

/* log(erfc(-x / sqrt 2) / 2) */
void exact_log_ndtr(mpfr_t out, mpfr_t *x, const double *p)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + 2 * SPARE;
    mpfr_t a[1], b;
    mpfr_init2(a[0], bits);
    mpfr_init2(b, bits);
    mpfr_sqrt_ui(b, 2, MPFR_RNDN);
    mpfr_div(a[0], x[0], b, MPFR_RNDN);
    if (mpfr_sgn(x[0]) > 0) {
        mpfr_erfc(b, a[0], MPFR_RNDN);
        mpfr_div_si(b, b, -2, MPFR_RNDN);
        mpfr_log1p(out, b, MPFR_RNDN);
    } else {
        mpfr_neg(a[0], a[0], MPFR_RNDN);
        exact_erfcx(b, a, p);
        mpfr_div_ui(b, b, 2, MPFR_RNDN);
        mpfr_log(b, b, MPFR_RNDN);
        mpfr_sqr(a[0], a[0], MPFR_RNDN);
        mpfr_sub(out, b, a[0], MPFR_RNDN);
    }
    mpfr_clear(a[0]);
    mpfr_clear(b);
}

/* ---- Bessel and Airy --------------------------------------------------------------------------------- */

/* sum of (-+1)^k (4 n^2 - 1) ... (4 n^2 - (2k - 1)^2) / (k! (8x)^k): Hankel's, for I (sign -1) and K (sign
 * 1). */
static void hankel(mpfr_t out, long n, mpfr_srcptr x, int sign, mpfr_prec_t bits)
{
    mpfr_t term;
    mpfr_init2(term, bits);
    mpfr_set_ui(term, 1, MPFR_RNDN);
    mpfr_set_ui(out, 1, MPFR_RNDN);
    for (long k = 1; !negligible(term, out, bits); k++) {
        mpfr_mul_si(term, term, sign * (4 * n * n - (2 * k - 1) * (2 * k - 1)), MPFR_RNDN);
        mpfr_div_si(term, term, 8 * k, MPFR_RNDN);
        mpfr_div(term, term, x, MPFR_RNDN);
        mpfr_add(out, out, term, MPFR_RNDN);
    }
    mpfr_clear(term);
}

/* I_n(|x|) e^-|x| for n = 0, 1. */
static void scaled_i(mpfr_t out, long n, mpfr_srcptr x)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE;
    mpfr_t sum, term, z;
    mpfr_inits2(bits, sum, term, z, (mpfr_ptr)0);
    mpfr_abs(z, x, MPFR_RNDN);
    if (!mpfr_number_p(z)) {
        mpfr_nan_p(z) ? mpfr_set_nan(out) : mpfr_set_zero(out, 1);
    } else if (mpfr_cmp_ui(z, FAR) > 0) {
        hankel(sum, n, z, -1, bits);
        mpfr_const_pi(term, MPFR_RNDN);
        mpfr_mul_ui(term, term, 2, MPFR_RNDN);
        mpfr_mul(term, term, z, MPFR_RNDN);
        mpfr_sqrt(term, term, MPFR_RNDN);
        mpfr_div(out, sum, term, MPFR_RNDN);
    } else {
        mpfr_div_ui(term, z, 2, MPFR_RNDN);
        if (n == 0) mpfr_set_ui(term, 1, MPFR_RNDN);
        mpfr_set(sum, term, MPFR_RNDN);
        for (long k = 1; !negligible(term, sum, bits); k++) {
            mpfr_mul(term, term, z, MPFR_RNDN);
            mpfr_mul(term, term, z, MPFR_RNDN);
            mpfr_div_si(term, term, 4 * k * (k + n), MPFR_RNDN);
            mpfr_add(sum, sum, term, MPFR_RNDN);
        }
        mpfr_neg(z, z, MPFR_RNDN);
        mpfr_exp(z, z, MPFR_RNDN);
        mpfr_mul(out, sum, z, MPFR_RNDN);
    }
    mpfr_clears(sum, term, z, (mpfr_ptr)0);
}

/* K_n(x) for n = 0, 1 and 0 < x: DLMF 10.31; the sums are e^2x times what is left of them. */
static void small_k(mpfr_t out, long n, mpfr_srcptr x)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE + 3 * (mpfr_prec_t)mpfr_get_d(x, MPFR_RNDU);
    mpfr_t i, sum, term, psi, part;
    mpfr_inits2(bits, i, sum, term, psi, part, (mpfr_ptr)0);
    /* term = (x^2/4)^k / (k! (k+n)!), psi = psi(k+1) + psi(k+n+1) */
    mpfr_set_ui(term, 1, MPFR_RNDN);
    mpfr_const_euler(psi, MPFR_RNDN);
    mpfr_mul_si(psi, psi, -2, MPFR_RNDN);
    if (n) mpfr_add_ui(psi, psi, 1, MPFR_RNDN);
    mpfr_set_zero(i, 1);
    mpfr_set_zero(sum, 1);
    for (long k = 0; k == 0 || !negligible(term, i, bits + 16); k++) {
        mpfr_add(i, i, term, MPFR_RNDN);
        mpfr_mul(part, term, psi, MPFR_RNDN);
        mpfr_add(sum, sum, part, MPFR_RNDN);
        for (long j = k + 1; j <= k + n + 1; j++) {
            mpfr_set_ui(part, n ? 1 : 2, MPFR_RNDN);
            mpfr_div_si(part, part, j, MPFR_RNDN);
            mpfr_add(psi, psi, part, MPFR_RNDN);
        }
        mpfr_mul(term, term, x, MPFR_RNDN);
        mpfr_mul(term, term, x, MPFR_RNDN);
        mpfr_div_si(term, term, 4 * (k + 1) * (k + n + 1), MPFR_RNDN);
    }
    /* n 0: -log(x/2) I0 + sum/2;  n 1: 1/x + log(x/2) I1 - x/4 sum, I1 = x/2 i */
    mpfr_div_ui(part, x, 2, MPFR_RNDN);
    mpfr_log(psi, part, MPFR_RNDN);
    if (n) mpfr_mul(i, i, part, MPFR_RNDN);
    mpfr_mul(i, i, psi, MPFR_RNDN);
    mpfr_div_ui(sum, sum, 2, MPFR_RNDN);
    if (n) {
        mpfr_mul(sum, sum, part, MPFR_RNDN);
        mpfr_sub(i, i, sum, MPFR_RNDN);
        mpfr_ui_div(part, 1, x, MPFR_RNDN);
        mpfr_add(out, i, part, MPFR_RNDN);
    } else {
        mpfr_sub(out, sum, i, MPFR_RNDN);
    }
    mpfr_clears(i, sum, term, psi, part, (mpfr_ptr)0);
}

static void any_k(mpfr_t out, long n, mpfr_srcptr x, int scaled)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE;
    mpfr_t value, power;
    if (mpfr_nan_p(x) || mpfr_sgn(x) < 0) {
        mpfr_set_nan(out);
        return;
    }
    if (mpfr_zero_p(x) || mpfr_inf_p(x)) {
        mpfr_zero_p(x) ? mpfr_set_inf(out, 1) : mpfr_set_zero(out, 1);
        return;
    }
    mpfr_inits2(bits, value, power, (mpfr_ptr)0);
    int far = mpfr_cmp_ui(x, FAR) > 0;
    if (far) {
        hankel(value, n, x, 1, bits);
        mpfr_const_pi(power, MPFR_RNDN);
        mpfr_div(power, power, x, MPFR_RNDN);
        mpfr_div_ui(power, power, 2, MPFR_RNDN);
        mpfr_sqrt(power, power, MPFR_RNDN);
        mpfr_mul(value, value, power, MPFR_RNDN);
    } else {
        small_k(value, n, x);
    }
    mpfr_set(power, x, MPFR_RNDN);
    if (far) mpfr_neg(power, power, MPFR_RNDN);
    mpfr_exp(power, power, MPFR_RNDN);
    if (far != scaled) mpfr_mul(value, value, power, MPFR_RNDN);
    mpfr_set(out, value, MPFR_RNDN);
    mpfr_clears(value, power, (mpfr_ptr)0);
}

static void any_i(mpfr_t out, long n, mpfr_srcptr x, int scaled)
{
    mpfr_t power;
    scaled_i(out, n, x);
    if (!scaled && mpfr_inf_p(x)) {
        mpfr_set_inf(out, 1);
    } else if (!scaled) {
        mpfr_init2(power, mpfr_get_prec(out) + SPARE);
        mpfr_abs(power, x, MPFR_RNDN);
        mpfr_exp(power, power, MPFR_RNDN);
        mpfr_mul(out, out, power, MPFR_RNDN);
        mpfr_clear(power);
    }
    if (n) mpfr_copysign(out, out, x, MPFR_RNDN);
}

/* Modified Bessel functions by order, plain and scaled. */
#define BESSEL(name, function, order, is_scaled)              \
    void exact_##name(mpfr_t out, mpfr_t *x, const double *p) \
    {                                                         \
        function(out, order, x[0], is_scaled);                \
    }
BESSEL(i0, any_i, 0, 0)
BESSEL(i1, any_i, 1, 0)
BESSEL(i0e, any_i, 0, 1)
BESSEL(i1e, any_i, 1, 1)
BESSEL(k0, any_k, 0, 0)
BESSEL(k1, any_k, 1, 0)
BESSEL(k0e, any_k, 0, 1)
BESSEL(k1e, any_k, 1, 1)

/* Beyond -FAR: (sin(zeta + pi/4) even - cos(zeta + pi/4) odd) / (sqrt(pi) |x|^(1/4)), DLMF 9.7.9. */
static void airy_far_below(mpfr_t out, mpfr_srcptr x)
{
    mpfr_prec_t bits = mpfr_get_prec(out) + SPARE + 2 * (mpfr_prec_t)magnitude(x);
    mpfr_t z, zeta, sum[2], term;
    mpfr_inits2(bits, z, zeta, sum[0], sum[1], term, (mpfr_ptr)0);
    mpfr_abs(z, x, MPFR_RNDN);
    mpfr_sqrt(zeta, z, MPFR_RNDN);
    mpfr_mul(zeta, zeta, z, MPFR_RNDN);
    mpfr_mul_ui(zeta, zeta, 2, MPFR_RNDN);
    mpfr_div_ui(zeta, zeta, 3, MPFR_RNDN);
    mpfr_set_ui(term, 1, MPFR_RNDN);
    mpfr_set_zero(sum[0], 1);
    mpfr_set_zero(sum[1], 1);
    for (long k = 0; k < 2 || !negligible(term, sum[0], bits); k++) {
        if (k % 4 < 2)
            mpfr_add(sum[k % 2], sum[k % 2], term, MPFR_RNDN);
        else
            mpfr_sub(sum[k % 2], sum[k % 2], term, MPFR_RNDN);
        mpfr_mul_si(term, term, (6 * k + 1) * (6 * k + 5), MPFR_RNDN);
        mpfr_div_si(term, term, 72 * (k + 1), MPFR_RNDN);
        mpfr_div(term, term, zeta, MPFR_RNDN);
    }
    mpfr_const_pi(term, MPFR_RNDN);
    mpfr_div_ui(term, term, 4, MPFR_RNDN);
    mpfr_add(zeta, zeta, term, MPFR_RNDN);
    mpfr_sin_cos(zeta, term, zeta, MPFR_RNDN);
    mpfr_mul(sum[0], sum[0], zeta, MPFR_RNDN);
    mpfr_mul(sum[1], sum[1], term, MPFR_RNDN);
    mpfr_sub(sum[0], sum[0], sum[1], MPFR_RNDN);
    mpfr_const_pi(term, MPFR_RNDN);
    mpfr_sqrt(term, term, MPFR_RNDN);
    mpfr_div(sum[0], sum[0], term, MPFR_RNDN);
    mpfr_rootn_ui(z, z, 4, MPFR_RNDN);
    mpfr_div(out, sum[0], z, MPFR_RNDN);
    mpfr_clears(z, zeta, sum[0], sum[1], term, (mpfr_ptr)0);
}

void exact_airy(mpfr_t out, mpfr_t *x, const double *p)
{
    if (mpfr_inf_p(x[0]))
        mpfr_set_zero(out, 1);
    else if (!mpfr_nan_p(x[0]) && mpfr_cmp_si(x[0], -FAR) < 0)
        airy_far_below(out, x[0]);
    else if (!mpfr_nan_p(x[0]) && mpfr_cmp_si(x[0], FAR) > 0)
        mpfr_set_zero(out, 1); /* below e^-2600 */
    else
        mpfr_ai(out, x[0], MPFR_RNDN);
}
