/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic and elementary functions. Gradients of complex functions follow the conjugate Wirtinger
 * convention. */
#include "autograd/rules/formula.h"

#include <string.h>

/* ---- arithmetic ---- */

void grad_div_mode(tn_scope *s, tni_grad *g)
{
    if (!string_arg(g, 2)) {
        grad_div(s, g);
        return;
    }
    set_zero(s, g, 0);
    set_zero(s, g, 1);
}

/* self - n * other, where n is the quotient, rounded in a mode. */
static void grad_rest(tn_scope *s, tni_grad *g, const char *mode)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_grad_set(g, 0, grad);
    if (!tni_grad_needs(g, 1)) return;
    tn_tensor *count = tn_div_tensor_mode(s, tni_grad_saved(g, 0), tni_grad_saved(g, 1), mode);
    tni_grad_set(g, 1, neg(s, mul(s, grad, count)));
}

void grad_remainder(tn_scope *s, tni_grad *g)
{
    grad_rest(s, g, "floor");
}
void grad_fmod(tn_scope *s, tni_grad *g)
{
    grad_rest(s, g, "trunc");
}

/* 0 ^ x is constant for x >= 0, so its gradient is 0 there and not 0 * -inf. */
static tn_tensor *power_of_zero(tn_scope *s, tn_tensor *self, tn_tensor *exponent)
{
    tn_tensor *positive;
    if (is_complex(exponent))
        positive = tn_logical_and(s, tn_eq_scalar(s, tn_imag(s, exponent), 0),
                                  tn_ge_scalar(s, tn_real(s, exponent), 0));
    else
        positive = tn_ge_scalar(s, exponent, 0);
    return tn_logical_and(s, tn_eq_scalar(s, self, 0), positive);
}

void grad_pow(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *self = tni_grad_saved(g, 0), *exponent = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) {
        tn_tensor *slope = mul(s, exponent, tn_pow(s, self, plus(s, exponent, -1)));
        tni_grad_set(g, 0, drop_where(s, tn_eq_scalar(s, exponent, 0), mul(s, grad, conj_of(s, slope))));
    }
    if (tni_grad_needs(g, 1)) {
        tn_tensor *result = tni_grad_result(g, 0);
        if (is_complex(result) && !is_complex(self)) self = tn__to_copy(s, self, .dtype = result->desc.dtype);
        tn_tensor *slope = mul(s, grad, conj_of(s, mul(s, result, tn_log(s, self))));
        tni_grad_set(g, 1, drop_where(s, power_of_zero(s, self, exponent), slope));
    }
}

void grad_pow_scalar(tn_scope *s, tni_grad *g)
{
    tn_value p = tni_grad_arg(g, 1), less = p;
    tn_tensor *self = tni_grad_saved(g, 0);
    double pair[2];
    if (p.tag == TN_TAG_COMPLEX) {
        pair[0] = p.as.floats[0] - 1;
        pair[1] = p.as.floats[1];
        less = tn_value_complex(pair);
    } else if (tn_value_as_float(p) == 0) {
        set_zero(s, g, 0);
        return;
    } else if (p.tag == TN_TAG_FLOAT) {
        less = tn_value_float(p.as.f - 1);
    } else {
        less = tn_value_int(p.as.i - 1);
    }
    tn_tensor *slope = tn_mul_scalar(s, tn_pow_tensor_scalar(s, self, less), p);
    tni_grad_set(g, 0, mul(s, tni_grad_out(g, 0), conj_of(s, slope)));
}

void grad_abs(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, mul(s, tni_grad_out(g, 0), tn_sgn(s, tni_grad_saved(g, 0))));
}

void grad_neg(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, neg(s, tni_grad_out(g, 0)));
}

void grad_alias(tn_scope *s, tni_grad *g)
{
    (void)s;
    tni_grad_set(g, 0, tni_grad_out(g, 0));
}

void grad_identity(tn_scope *s, tni_grad *g)
{
    (void)s;
    tni_grad_set(g, 0, tni_grad_out(g, 0));
}

/* The result is one step from self, so the gradient is that of self; where both are equal it is other's value, and 0. */
void grad_nextafter(tn_scope *s, tni_grad *g)
{
    tn_tensor *equal = tn_eq(s, tni_grad_saved(g, 0), tni_grad_saved(g, 1));
    tni_grad_set(g, 0, tn_masked_fill_scalar(s, tni_grad_out(g, 0), equal, 0));
    set_zero(s, g, 1);
}

void grad_sgn(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *self = tni_grad_saved(g, 0);
    if (!is_complex(self)) {
        set_zero(s, g, 0);
        return;
    }
    tn_tensor *size = tn_abs(s, self), *sgn = tni_grad_result(g, 0);
    tn_tensor *along = mul(s, tn_real(s, divide(s, grad, sgn)), sgn);
    tni_grad_set(g, 0, drop_where(s, tn_eq_scalar(s, size, 0), divide(s, sub(s, grad, along), size)));
}

void grad_reciprocal(tn_scope *s, tni_grad *g)
{
    tn_tensor *y = tni_grad_result(g, 0);
    tni_grad_set(g, 0, mul(s, neg(s, tni_grad_out(g, 0)), conj_of(s, square(s, y))));
}

void grad_sqrt(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, divide(s, tni_grad_out(g, 0), scale(s, conj_of(s, tni_grad_result(g, 0)), 2)));
}

void grad_rsqrt(tn_scope *s, tni_grad *g)
{
    tn_tensor *y = tni_grad_result(g, 0);
    tni_grad_set(g, 0, mul(s, scale(s, tni_grad_out(g, 0), -0.5), conj_of(s, tn_pow_tensor_scalar(s, y, 3))));
}

/* ---- elementary functions: grad * conj(slope) ---- */

static void chain(tn_scope *s, tni_grad *g, tn_tensor *slope)
{
    tni_grad_set(g, 0, mul(s, tni_grad_out(g, 0), conj_of(s, slope)));
}

static void chain_divided(tn_scope *s, tni_grad *g, tn_tensor *by)
{
    tni_grad_set(g, 0, divide(s, tni_grad_out(g, 0), conj_of(s, by)));
}

void grad_exp(tn_scope *s, tni_grad *g)
{
    chain(s, g, tni_grad_result(g, 0));
}
void grad_exp2(tn_scope *s, tni_grad *g)
{
    chain(s, g, scale(s, tni_grad_result(g, 0), M_LN2));
}
void grad_expm1(tn_scope *s, tni_grad *g)
{
    chain(s, g, plus(s, tni_grad_result(g, 0), 1));
}
void grad_log(tn_scope *s, tni_grad *g)
{
    chain_divided(s, g, tni_grad_saved(g, 0));
}
void grad_log2(tn_scope *s, tni_grad *g)
{
    chain_divided(s, g, scale(s, tni_grad_saved(g, 0), M_LN2));
}
void grad_log10(tn_scope *s, tni_grad *g)
{
    chain_divided(s, g, scale(s, tni_grad_saved(g, 0), M_LN10));
}
void grad_log1p(tn_scope *s, tni_grad *g)
{
    chain_divided(s, g, plus(s, tni_grad_saved(g, 0), 1));
}
void grad_sin(tn_scope *s, tni_grad *g)
{
    chain(s, g, tn_cos(s, tni_grad_saved(g, 0)));
}
void grad_cos(tn_scope *s, tni_grad *g)
{
    chain(s, g, neg(s, tn_sin(s, tni_grad_saved(g, 0))));
}
void grad_tan(tn_scope *s, tni_grad *g)
{
    chain(s, g, plus(s, square(s, tni_grad_result(g, 0)), 1));
}
void grad_sinh(tn_scope *s, tni_grad *g)
{
    chain(s, g, tn_cosh(s, tni_grad_saved(g, 0)));
}
void grad_cosh(tn_scope *s, tni_grad *g)
{
    chain(s, g, tn_sinh(s, tni_grad_saved(g, 0)));
}
void grad_atan(tn_scope *s, tni_grad *g)
{
    chain_divided(s, g, plus(s, square(s, tni_grad_saved(g, 0)), 1));
}
void grad_atanh(tn_scope *s, tni_grad *g)
{
    chain_divided(s, g, minus_from(s, 1, square(s, tni_grad_saved(g, 0))));
}
void grad_asin(tn_scope *s, tni_grad *g)
{
    chain(s, g, tn_rsqrt(s, minus_from(s, 1, square(s, tni_grad_saved(g, 0)))));
}
void grad_acos(tn_scope *s, tni_grad *g)
{
    chain(s, g, neg(s, tn_rsqrt(s, minus_from(s, 1, square(s, tni_grad_saved(g, 0))))));
}
void grad_asinh(tn_scope *s, tni_grad *g)
{
    chain(s, g, tn_rsqrt(s, plus(s, square(s, tni_grad_saved(g, 0)), 1)));
}

void grad_acosh(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 0);
    if (is_complex(x))
        chain(s, g, mul(s, tn_rsqrt(s, plus(s, x, 1)), tn_rsqrt(s, plus(s, x, -1))));
    else
        chain(s, g, tn_rsqrt(s, plus(s, square(s, x), -1)));
}

/* Slopes as functions of the result. The backward operators are for real tensors. */
typedef tn_tensor *slope_fn(tn_scope *s, tn_tensor *y);
typedef tn_tensor *backward_fn(tn_scope *s, tn_tensor *grad, tn_tensor *y);

static tn_tensor *tanh_slope(tn_scope *s, tn_tensor *y)
{
    return minus_from(s, 1, square(s, y));
}
static tn_tensor *sigmoid_slope(tn_scope *s, tn_tensor *y)
{
    return mul(s, minus_from(s, 1, y), y);
}

static void by_result(tn_scope *s, tni_grad *g, slope_fn *slope, backward_fn *backward)
{
    tn_tensor *y = tni_grad_result(g, 0);
    if (is_complex(y))
        chain(s, g, slope(s, y));
    else
        tni_grad_set(g, 0, backward(s, tni_grad_out(g, 0), y));
}

/* Of the backward operator (grad, y); `bend` is the derivative of the slope by y. */
static void by_result_again(tn_scope *s, tni_grad *g, slope_fn *slope, backward_fn *backward, slope_fn *bend)
{
    tn_tensor *grad = tni_grad_out(g, 0), *y = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) /* the operator multiplies by the conjugated slope, its gradient by the slope */
        tni_grad_set(g, 0, is_complex(y) ? mul(s, grad, slope(s, y)) : backward(s, grad, y));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, mul(s, mul(s, conj_of(s, grad), tni_grad_saved(g, 0)), bend(s, conj_of(s, y))));
}

static tn_tensor *tanh_bend(tn_scope *s, tn_tensor *y)
{
    return scale(s, y, -2);
}
static tn_tensor *sigmoid_bend(tn_scope *s, tn_tensor *y)
{
    return minus_from(s, 1, scale(s, y, 2));
}

void grad_tanh(tn_scope *s, tni_grad *g)
{
    by_result(s, g, tanh_slope, tn_tanh_backward);
}
void grad_tanh_backward(tn_scope *s, tni_grad *g)
{
    by_result_again(s, g, tanh_slope, tn_tanh_backward, tanh_bend);
}
void grad_sigmoid(tn_scope *s, tni_grad *g)
{
    by_result(s, g, sigmoid_slope, tn_sigmoid_backward);
}
void grad_sigmoid_backward(tn_scope *s, tni_grad *g)
{
    by_result_again(s, g, sigmoid_slope, tn_sigmoid_backward, sigmoid_bend);
}

void grad_deg2rad(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, scale(s, tni_grad_out(g, 0), M_PI / 180));
}
void grad_rad2deg(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, scale(s, tni_grad_out(g, 0), 180 / M_PI));
}

void grad_angle(tn_scope *s, tni_grad *g)
{
    tn_tensor *self = tni_grad_saved(g, 0);
    static const double i[2] = {0, 1};
    if (!is_complex(self)) {
        set_zero(s, g, 0);
        return;
    }
    tn_tensor *slope = divide(s, mul(s, tni_grad_out(g, 0), self), square(s, tn_abs(s, self)));
    slope = tn_mul_scalar(s, slope, tn_value_complex(i));
    tni_grad_set(g, 0, drop_where(s, tn_eq_scalar(s, self, 0), slope));
}

/* ---- two arguments ---- */

void grad_atan2(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *y = tni_grad_saved(g, 0), *x = tni_grad_saved(g, 1);
    tn_tensor *inverse = tn_reciprocal(s, add(s, square(s, y), square(s, x)));
    inverse = drop_where(s, tn_isinf(s, inverse), inverse);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, mul(s, mul(s, grad, x), inverse));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, mul(s, mul(s, grad, neg(s, y)), inverse));
}

void grad_hypot(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *result = tni_grad_result(g, 0);
    for (uint32_t i = 0; i < 2; i++) {
        if (tni_grad_needs(g, i)) tni_grad_set(g, i, mul(s, grad, divide(s, tni_grad_saved(g, i), result)));
    }
}

void grad_copysign(tn_scope *s, tni_grad *g)
{
    if (tni_grad_needs(g, 0)) {
        tn_tensor *self = tni_grad_saved(g, 0);
        tn_tensor *ratio = divide(s, tni_grad_result(g, 0), self);
        ratio = drop_where(s, tn_eq_scalar(s, self, 0), ratio);
        tni_grad_set(g, 0, mul(s, tni_grad_out(g, 0), ratio));
    }
    set_zero(s, g, 1);
}

/* Equal arguments share the gradient. */
static void extremum(tn_scope *s, tni_grad *g, tn_tensor *self_loses, tn_tensor *other_loses)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tn_tensor *shared =
        tn_where(s, tn_eq(s, tni_grad_saved(g, 0), tni_grad_saved(g, 1)), scale(s, grad, 0.5), grad);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, drop_where(s, self_loses, shared));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, drop_where(s, other_loses, shared));
}

void grad_maximum(tn_scope *s, tni_grad *g)
{
    tn_tensor *a = tni_grad_saved(g, 0), *b = tni_grad_saved(g, 1);
    extremum(s, g, tn_lt(s, a, b), tn_gt(s, a, b));
}

void grad_minimum(tn_scope *s, tni_grad *g)
{
    tn_tensor *a = tni_grad_saved(g, 0), *b = tni_grad_saved(g, 1);
    extremum(s, g, tn_gt(s, a, b), tn_lt(s, a, b));
}

static void choose(tn_scope *s, tni_grad *g, tn_tensor *self_wins)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    self_wins = tn_logical_or(s, self_wins, tn_isnan(s, tni_grad_saved(g, 1)));
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, keep_where(s, self_wins, grad));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, drop_where(s, self_wins, grad));
}

void grad_fmax(tn_scope *s, tni_grad *g)
{
    choose(s, g, tn_ge(s, tni_grad_saved(g, 0), tni_grad_saved(g, 1)));
}
void grad_fmin(tn_scope *s, tni_grad *g)
{
    choose(s, g, tn_le(s, tni_grad_saved(g, 0), tni_grad_saved(g, 1)));
}

void grad_frexp(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *exponent = tni_grad_result(g, 1);
    tn_dtype dtype = grad->desc.dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
    tni_grad_set(g, 0, divide(s, grad, tn_exp2(s, tn__to_copy(s, exponent, .dtype = dtype))));
}

/* ---- clamps: the bounds themselves belong to the inside ---- */

static tn_tensor *inside(tn_scope *s, tn_tensor *self, tn_value min, tn_value max)
{
    tn_tensor *above = min.tag == TN_TAG_NONE ? NULL : tn_ge_scalar(s, self, min);
    tn_tensor *below = max.tag == TN_TAG_NONE ? NULL : tn_le_scalar(s, self, max);
    return above && below ? tn_logical_and(s, above, below) : above ? above : below;
}

static void clamp_between(tn_scope *s, tni_grad *g, tn_value min, tn_value max)
{
    tn_tensor *grad = tni_grad_out(g, 0), *mask = inside(s, tni_grad_saved(g, 0), min, max);
    tni_grad_set(g, 0, mask ? keep_where(s, mask, grad) : grad);
}

void grad_clamp(tn_scope *s, tni_grad *g)
{
    clamp_between(s, g, tni_grad_arg(g, 1), tni_grad_arg(g, 2));
}
void grad_clamp_min(tn_scope *s, tni_grad *g)
{
    clamp_between(s, g, tni_grad_arg(g, 1), tn_value_none());
}
void grad_clamp_max(tn_scope *s, tni_grad *g)
{
    clamp_between(s, g, tn_value_none(), tni_grad_arg(g, 1));
}

void grad_clamp_tensor(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0);
    tn_tensor *min = tni_grad_saved(g, 1), *max = tni_grad_saved(g, 2);
    if (tni_grad_needs(g, 0)) {
        tn_tensor *kept = grad;
        if (min) kept = keep_where(s, tn_ge(s, x, min), kept);
        if (max) kept = keep_where(s, tn_le(s, x, max), kept);
        tni_grad_set(g, 0, kept);
    }
    if (min && tni_grad_needs(g, 1)) {
        tn_tensor *mask = tn_lt(s, x, min);
        if (max) mask = tn_logical_and(s, mask, tn_lt(s, min, max));
        tni_grad_set(g, 1, keep_where(s, mask, grad));
    }
    if (max && tni_grad_needs(g, 2)) {
        tn_tensor *mask = tn_gt(s, x, max);
        if (min) mask = tn_logical_or(s, mask, tn_lt(s, max, min));
        tni_grad_set(g, 2, keep_where(s, mask, grad));
    }
}

void grad_clamp_min_tensor(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0), *min = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, keep_where(s, tn_ge(s, x, min), grad));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, keep_where(s, tn_lt(s, x, min), grad));
}

void grad_clamp_max_tensor(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0), *max = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, keep_where(s, tn_le(s, x, max), grad));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, keep_where(s, tn_gt(s, x, max), grad));
}

/* ---- three arguments ---- */

void grad_where(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *condition = tni_grad_saved(g, 0);
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, tn_where_scalarother(s, condition, grad, 0));
    if (tni_grad_needs(g, 2)) tni_grad_set(g, 2, tn_where_scalarself(s, condition, 0, grad));
}

void grad_lerp(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, mul(s, grad, conj_of(s, minus_from(s, 1, tni_grad_saved(g, 2)))));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, mul(s, grad, conj_of(s, tni_grad_saved(g, 2))));
    if (tni_grad_needs(g, 2))
        tni_grad_set(g, 2, mul(s, grad, conj_of(s, sub(s, tni_grad_saved(g, 1), tni_grad_saved(g, 0)))));
}

void grad_lerp_scalar(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tn_value w = conj_scalar(s, tni_grad_arg(g, 2)), rest = tn_value_float(1 - tn_value_as_float(w));
    double pair[2];
    if (w.tag == TN_TAG_COMPLEX) {
        pair[0] = 1 - w.as.floats[0];
        pair[1] = -w.as.floats[1];
        rest = tn_value_complex(pair);
    }
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_mul_scalar(s, grad, rest));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, tn_mul_scalar(s, grad, w));
}

void grad_addcmul(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tn_value value = tni_grad_arg(g, 3);
    tni_grad_set(g, 0, grad);
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, times(s, mul(s, grad, conj_of(s, tni_grad_saved(g, 2))), value));
    if (tni_grad_needs(g, 2))
        tni_grad_set(g, 2, times(s, mul(s, grad, conj_of(s, tni_grad_saved(g, 1))), value));
}

void grad_addcdiv(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *t2 = tni_grad_saved(g, 2);
    tn_value value = tni_grad_arg(g, 3);
    tni_grad_set(g, 0, grad);
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, times(s, divide(s, grad, conj_of(s, t2)), value));
    if (tni_grad_needs(g, 2)) {
        tn_tensor *ratio = divide(s, tni_grad_saved(g, 1), square(s, t2));
        tni_grad_set(g, 2, times(s, mul(s, neg(s, grad), conj_of(s, ratio)), value));
    }
}

void grad_nan_to_num(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, mul(s, tni_grad_out(g, 0), tn_isfinite(s, tni_grad_saved(g, 0))));
}

/* d log(b^x + b^y) / dx = 1 / (1 + b^(y - x)) */
static void log_of_sum(tn_scope *s, tni_grad *g, tn_tensor *(*power)(tn_scope *s, tn_tensor *x))
{
    for (uint32_t i = 0; i < 2; i++) {
        if (!tni_grad_needs(g, i)) continue;
        tn_tensor *rest = power(s, sub(s, tni_grad_saved(g, 1 - i), tni_grad_saved(g, i)));
        tni_grad_set(g, i, divide(s, tni_grad_out(g, 0), conj_of(s, plus(s, rest, 1))));
    }
}

void grad_logaddexp(tn_scope *s, tni_grad *g)
{
    log_of_sum(s, g, tn_exp);
}
void grad_logaddexp2(tn_scope *s, tni_grad *g)
{
    log_of_sum(s, g, tn_exp2);
}
