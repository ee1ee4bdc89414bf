/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations and their backward operators. For y = f(x) the backward operator computes g * f'(x); its own
 * gradient needs g * grad * f''(x), which is written out below. Rules that are one call of another operator
 * are in one_call.c.
 */
#include "autograd/rules/formula.h"

#include <string.h>

/* grad * grad_output * second, for argument `arg` */
static void curvature(tn_scope *s, tni_grad *g, uint32_t arg, tn_tensor *second)
{
    tni_grad_set(g, arg, mul(s, mul(s, tni_grad_out(g, 0), tni_grad_saved(g, 0)), second));
}

static tn_tensor *between(tn_scope *s, tn_tensor *x, double low, double high)
{
    return tn_logical_and(s, tn_gt_scalar(s, x, low), tn_lt_scalar(s, x, high));
}

/* ---- piecewise linear ones ---- */

void grad_relu(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_threshold_backward(s, tni_grad_out(g, 0), tni_grad_result(g, 0), 0));
}

void grad_prelu_kernel(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 0), *weight = tni_grad_saved(g, 1);
    tn__prelu_kernel_backward_result r = tn__prelu_kernel_backward(s, tni_grad_out(g, 0), x, weight);
    tni_grad_set(g, 0, r.result0);
    tni_grad_set(g, 1, r.result1);
}

void grad_prelu_kernel_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *ggi = tni_grad_out(g, 0), *ggw = tni_grad_out(g, 1);
    tn_tensor *grad = tni_grad_saved(g, 0), *x = tni_grad_saved(g, 1), *weight = tni_grad_saved(g, 2);
    tn_tensor *positive = tn_ge_scalar(s, x, 0); /* of 0 ATen says so here alone */
    if (!ggi) ggi = tn_zeros_like(s, grad);
    if (!ggw) ggw = tn_zeros_like(s, grad);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_where(s, positive, ggi, add(s, mul(s, ggi, weight), mul(s, ggw, x))));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, drop_where(s, positive, mul(s, ggw, grad)));
    if (tni_grad_needs(g, 2)) tni_grad_set(g, 2, drop_where(s, positive, mul(s, ggi, grad)));
}

/* ---- smooth ones ---- */

void grad_hardswish_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_hardswish_backward(s, tni_grad_out(g, 0), x));
    if (tni_grad_needs(g, 1)) {
        tn_tensor *product = scale(s, mul(s, tni_grad_out(g, 0), tni_grad_saved(g, 0)), 1.0 / 3);
        tni_grad_set(g, 1, keep_where(s, between(s, x, -3, 3), product));
    }
}

void grad_elu(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 tn_elu_backward(s, tni_grad_out(g, 0), tni_grad_arg(g, 1), tni_grad_arg(g, 2),
                                 tni_grad_arg(g, 3), 0, tni_grad_saved(g, 0)));
}

void grad_elu_backward(tn_scope *s, tni_grad *g)
{
    tn_value alpha = tni_grad_arg(g, 1), factor = tni_grad_arg(g, 2), input_scale = tni_grad_arg(g, 3);
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 5);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_elu_backward(s, grad, alpha, factor, input_scale, bool_arg(g, 4), x));
    if (!tni_grad_needs(g, 5)) return;
    tn_tensor *second = mul(s, grad, tni_grad_saved(g, 0));
    double k = tn_value_as_float(input_scale);
    if (bool_arg(g, 4)) {
        second = scale(s, second, k);
    } else {
        double c = k * k * tn_value_as_float(alpha) * tn_value_as_float(factor);
        second = scale(s, mul(s, second, tn_exp(s, scale(s, x, k))), c);
    }
    tni_grad_set(g, 5, keep_where(s, tn_lt_scalar(s, x, 0), second));
}

/* x * Phi(x) has the second derivative phi(x) * (2 - x^2). */
static tn_tensor *gelu_second(tn_scope *s, tn_tensor *x)
{
    tn_tensor *xx = square(s, x), *density = scale(s, tn_exp(s, scale(s, xx, -0.5)), 0.3989422804014326779);
    return mul(s, density, minus_from(s, 2, xx));
}

/* 0.5 x (1 + t) with t = tanh(u), u = c (x + k x^3) */
static tn_tensor *gelu_tanh_second(tn_scope *s, tn_tensor *x)
{
    const double c = 0.7978845608028653559, k = 0.044715;
    tn_tensor *xx = square(s, x), *t = tn_tanh(s, scale(s, mul(s, x, plus(s, scale(s, xx, k), 1)), c));
    tn_tensor *u1 = scale(s, plus(s, scale(s, xx, 3 * k), 1), c), *u2 = scale(s, x, 6 * c * k);
    tn_tensor *slope = minus_from(s, 1, square(s, t)); /* of tanh */
    tn_tensor *bend = sub(s, u2, scale(s, mul(s, t, square(s, u1)), 2));
    return mul(s, slope, add(s, u1, scale(s, mul(s, x, bend), 0.5)));
}

void grad_gelu_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 1);
    const char *approximate = string_arg(g, 2);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_gelu_backward(s, tni_grad_out(g, 0), x, .approximate = approximate));
    if (tni_grad_needs(g, 1))
        curvature(s, g, 1,
                  approximate && strcmp(approximate, "tanh") == 0 ? gelu_tanh_second(s, x)
                                                                  : gelu_second(s, x));
}

/* sigmoid(x) * (1 + x * (1 - sigmoid(x))) */
static tn_tensor *silu_first(tn_scope *s, tn_tensor *x)
{
    tn_tensor *y = tn_sigmoid(s, x);
    return mul(s, y, plus(s, mul(s, x, minus_from(s, 1, y)), 1));
}

void grad_silu(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0);
    tni_grad_set(g, 0,
                 is_complex(x) ? mul(s, grad, conj_of(s, silu_first(s, x))) : tn_silu_backward(s, grad, x));
}

void grad_silu_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_silu_backward(s, tni_grad_out(g, 0), x));
    if (!tni_grad_needs(g, 1)) return;
    tn_tensor *y = tn_sigmoid(s, x), *slope = mul(s, y, minus_from(s, 1, y));
    curvature(s, g, 1, mul(s, slope, plus(s, mul(s, x, minus_from(s, 1, scale(s, y, 2))), 2)));
}

/* With t = tanh(softplus(x)), y = sigmoid(x): f'' = y (1 - t^2) (2 + x (1 - y) - 2 x t y). */
void grad_mish_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_mish_backward(s, tni_grad_out(g, 0), x));
    if (!tni_grad_needs(g, 1)) return;
    tn_tensor *y = tn_sigmoid(s, x), *t = tn_tanh(s, tn_softplus(s, x));
    tn_tensor *inner = sub(s, minus_from(s, 1, y), scale(s, mul(s, t, y), 2));
    tn_tensor *outer = mul(s, y, minus_from(s, 1, square(s, t)));
    curvature(s, g, 1, mul(s, outer, plus(s, mul(s, x, inner), 2)));
}

void grad_softplus_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 1);
    tn_value beta = tni_grad_arg(g, 2), threshold = tni_grad_arg(g, 3);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_softplus_backward(s, tni_grad_out(g, 0), x, beta, threshold));
    if (!tni_grad_needs(g, 1)) return;
    tn_tensor *scaled = tn_mul_scalar(s, x, beta), *y = tn_sigmoid(s, scaled);
    tn_tensor *second = tn_mul_scalar(s, mul(s, y, minus_from(s, 1, y)), beta);
    curvature(s, g, 1, keep_where(s, tn_lt_scalar(s, scaled, threshold), second));
}

void grad_log_sigmoid_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_log_sigmoid_backward(s, tni_grad_out(g, 0), x, tni_grad_saved(g, 2)));
    if (!tni_grad_needs(g, 1)) return;
    tn_tensor *y = tn_sigmoid(s, x);
    curvature(s, g, 1, neg(s, mul(s, y, minus_from(s, 1, y))));
}

/* 1 / (x (1 - x)) has the slope (2 x - 1) / (x (1 - x))^2; outside of [eps, 1 - eps] the gradient is
 * constant. */
void grad_logit_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 1);
    double eps = opt_float_arg(g, 2);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_logit_backward(s, tni_grad_out(g, 0), x, .eps = eps));
    if (!tni_grad_needs(g, 1)) return;
    double low = eps == (double)TN_NONE ? 0 : eps;
    tn_tensor *in = tn_logical_and(s, tn_ge_scalar(s, x, low), tn_le_scalar(s, x, 1 - low));
    tn_tensor *second = divide(s, plus(s, scale(s, x, 2), -1), square(s, mul(s, x, minus_from(s, 1, x))));
    curvature(s, g, 1, keep_where(s, in, second));
}

/* ---- masks made in the forward call ---- */

void grad_native_dropout_backward(tn_scope *s, tni_grad *g)
{
    if (tni_grad_needs(g, 0))
        tni_grad_set(
            g, 0, tn_native_dropout_backward(s, tni_grad_out(g, 0), tni_grad_saved(g, 1), float_arg(g, 2)));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, scale(s, mul(s, tni_grad_out(g, 0), tni_grad_saved(g, 0)), float_arg(g, 2)));
}

void grad_fake_quantize_cachemask(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, mul(s, tni_grad_out(g, 0), tni_grad_result(g, 1)));
}
