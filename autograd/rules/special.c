/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions. */
#include "autograd/rules/formula.h"

#define SQRT_PI   1.7724538509055160273
#define SQRT_2_PI 2.5066282746310005024

/* Slopes that cancel or exponentiate are computed in float32 for half types. */
static tn_tensor *widened(tn_scope *s, tn_tensor *t)
{
    if (!t || (t->desc.dtype != TN_FLOAT16 && t->desc.dtype != TN_BFLOAT16)) return t;
    return tn__to_copy(s, t, .dtype = TN_FLOAT32);
}

static void chain(tn_scope *s, tni_grad *g, tn_tensor *slope)
{
    tni_grad_set(g, 0, mul(s, tni_grad_out(g, 0), conj_of(s, slope)));
}

static tn_tensor *bell(tn_scope *s, tn_tensor *x, double factor)
{
    return scale(s, tn_exp(s, neg(s, square(s, x))), factor);
}

void grad_erf(tn_scope *s, tni_grad *g)
{
    chain(s, g, bell(s, widened(s, tni_grad_saved(g, 0)), 2 / SQRT_PI));
}
void grad_erfc(tn_scope *s, tni_grad *g)
{
    chain(s, g, bell(s, widened(s, tni_grad_saved(g, 0)), -2 / SQRT_PI));
}

void grad_erfinv(tn_scope *s, tni_grad *g)
{
    chain(s, g, scale(s, tn_exp(s, square(s, tni_grad_result(g, 0))), SQRT_PI / 2));
}

void grad_erfcx(tn_scope *s, tni_grad *g)
{
    tn_tensor *product = mul(s, tni_grad_saved(g, 0), tni_grad_result(g, 0));
    chain(s, g, plus(s, scale(s, product, 2), -2 / SQRT_PI));
}

void grad_ndtr(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = widened(s, tni_grad_saved(g, 0));
    chain(s, g, scale(s, tn_exp(s, scale(s, square(s, x), -0.5)), 1 / SQRT_2_PI));
}

void grad_log_ndtr(tn_scope *s, tni_grad *g)
{
    tn_tensor *tail = tn_special_erfcx(s, scale(s, tni_grad_saved(g, 0), -M_SQRT1_2));
    tni_grad_set(g, 0, divide(s, scale(s, tni_grad_out(g, 0), 2 / SQRT_2_PI), tail));
}

void grad_ndtri(tn_scope *s, tni_grad *g)
{
    chain(s, g, scale(s, tn_exp(s, scale(s, square(s, tni_grad_result(g, 0)), 0.5)), SQRT_2_PI));
}

void grad_lgamma(tn_scope *s, tni_grad *g)
{
    chain(s, g, tn_digamma(s, tni_grad_saved(g, 0)));
}
void grad_digamma(tn_scope *s, tni_grad *g)
{
    chain(s, g, tn_polygamma(s, 1, tni_grad_saved(g, 0)));
}

void grad_polygamma(tn_scope *s, tni_grad *g)
{
    tn_tensor *slope = tn_polygamma(s, int_arg(g, 0) + 1, tni_grad_saved(g, 1));
    tni_grad_set(g, 1, mul(s, tni_grad_out(g, 0), slope));
}

void grad_mvlgamma(tn_scope *s, tni_grad *g)
{
    int64_t p = int_arg(g, 1);
    tn_tensor *x = tni_grad_saved(g, 0), *sum = NULL;
    for (int64_t i = 0; i < p; i++) {
        tn_tensor *term = tn_digamma(s, plus(s, x, -0.5 * (double)i));
        sum = sum ? add(s, sum, term) : term;
    }
    if (sum) chain(s, g, sum);
}

/* x^(a - 1) e^-x / Gamma(a) */
static tn_tensor *gamma_density(tn_scope *s, tn_tensor *a, tn_tensor *x)
{
    tn_tensor *power = mul(s, plus(s, a, -1), tn_log(s, x));
    return tn_exp(s, sub(s, sub(s, power, x), tn_lgamma(s, a)));
}

void grad_igamma(tn_scope *s, tni_grad *g)
{
    set_unknown(s, g, 0);
    if (!tni_grad_needs(g, 1)) return;
    tni_grad_set(g, 1,
                 mul(s, tni_grad_out(g, 0), gamma_density(s, tni_grad_saved(g, 0), tni_grad_saved(g, 1))));
}

void grad_igammac(tn_scope *s, tni_grad *g)
{
    set_unknown(s, g, 0);
    if (!tni_grad_needs(g, 1)) return;
    tn_tensor *density = gamma_density(s, tni_grad_saved(g, 0), tni_grad_saved(g, 1));
    tni_grad_set(g, 1, neg(s, mul(s, tni_grad_out(g, 0), density)));
}

/* ---- Bessel functions ---- */

void grad_i0(tn_scope *s, tni_grad *g)
{
    chain(s, g, tn_special_i1(s, tni_grad_saved(g, 0)));
}

void grad_i0e(tn_scope *s, tni_grad *g)
{
    tn_tensor *self = tni_grad_saved(g, 0), *x = widened(s, self);
    tn_tensor *result = x == self ? tni_grad_result(g, 0) : tn_special_i0e(s, x);
    chain(s, g, sub(s, tn_special_i1e(s, x), mul(s, tn_sgn(s, x), result)));
}

/* i1 and i1e divide by x: near 0 their slope is 1/2. */
static tn_tensor *away_from_zero(tn_scope *s, tn_tensor *x, tn_tensor **out_small)
{
    double eps = x && x->desc.dtype == TN_FLOAT64 ? 2.220446049250313e-16 : 1.1920929e-07;
    *out_small = tn_le_scalar(s, tn_abs(s, x), eps);
    return tn_masked_fill_scalar(s, x, *out_small, eps);
}

void grad_i1(tn_scope *s, tni_grad *g)
{
    tn_tensor *small, *x = away_from_zero(s, tni_grad_saved(g, 0), &small);
    tn_tensor *slope = sub(s, tn_i0(s, x), divide(s, tni_grad_result(g, 0), x));
    chain(s, g, tn_masked_fill_scalar(s, slope, small, 0.5));
}

void grad_i1e(tn_scope *s, tni_grad *g)
{
    tn_tensor *small, *x = away_from_zero(s, tni_grad_saved(g, 0), &small);
    tn_tensor *factor = add(s, tn_sgn(s, x), tn_reciprocal(s, x));
    tn_tensor *slope = sub(s, tn_special_i0e(s, x), mul(s, tni_grad_result(g, 0), factor));
    chain(s, g, tn_masked_fill_scalar(s, slope, small, 0.5));
}

/* ---- logarithms that are 0 at 0 ---- */

void grad_xlogy(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0), *y = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) {
        tn_tensor *none = tn_logical_and(s, tn_eq_scalar(s, x, 0), tn_le_scalar(s, y, 0));
        tni_grad_set(g, 0, drop_where(s, none, tn_xlogy(s, grad, y)));
    }
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, divide(s, mul(s, grad, x), y));
}

void grad_xlog1py(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0), *y = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) {
        tn_tensor *none = tn_logical_and(s, tn_eq_scalar(s, x, 0), tn_le_scalar(s, y, -1));
        tni_grad_set(g, 0, drop_where(s, none, tn_special_xlog1py(s, grad, y)));
    }
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, divide(s, mul(s, grad, x), plus(s, y, 1)));
}

void grad_entr(tn_scope *s, tni_grad *g)
{
    chain(s, g, minus_from(s, -1, tn_log(s, tni_grad_saved(g, 0))));
}

void grad_sinc(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 0), *px = scale(s, x, M_PI), *pxx = mul(s, px, x);
    tn_tensor *slope = divide(s, sub(s, mul(s, px, tn_cos(s, px)), tn_sin(s, px)), pxx);
    chain(s, g, drop_where(s, tn_eq_scalar(s, pxx, 0), slope));
}

void grad_zeta(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 0);
    set_unknown(s, g, 0);
    if (!tni_grad_needs(g, 1)) return;
    tn_tensor *slope = mul(s, neg(s, x), tn_special_zeta(s, plus(s, x, 1), tni_grad_saved(g, 1)));
    tni_grad_set(g, 1, mul(s, tni_grad_out(g, 0), slope));
}
