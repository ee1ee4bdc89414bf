/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: smooth activations and their gradients. */
#include <math.h>
#include <string.h>
#include "ops/composite/pointwise_lowering.h"

/* ---- from the result: grad times the conjugate of the slope ---- */

void composite_sigmoid_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *slope = tn_mul(s, one_minus(s, x[1]), x[1]);
    formula_give(s, outs, tn_mul(s, x[0], tn_conj(s, slope)), dtype);
}

void composite_tanh_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *slope = one_minus(s, tn_mul(s, x[1], x[1]));
    formula_give(s, outs, tn_mul(s, x[0], tn_conj(s, slope)), dtype);
}

/* ---- gelu: x times the area under the normal curve, or by tanh ---- */

static int32_t by_tanh(const tn_value *args, uint32_t i)
{
    const char *approximate = arg_string(args, i);
    return approximate && !strcmp(approximate, "tanh");
}

/* erfc keeps the digits for large negative x. */
static tn_tensor *normal_area(tn_scope *s, tn_tensor *x)
{
    return tn_mul_scalar(s, tn_erfc(s, tn_mul_scalar(s, x, -M_SQRT1_2)), 0.5);
}

#define TWO_ROOTS 1.5957691216057307117597842397375 /* 2 sqrt(2 / pi) */
#define CUBE      0.044715

/* (1 + tanh(u)) / 2 is the sigmoid of 2 u = 2 sqrt(2 / pi) (x + c x^3). */
static tn_tensor *gelu_gate(tn_scope *s, tn_tensor *x)
{
    tn_tensor *inner = plus(s, tn_mul_scalar(s, tn_mul(s, x, x), CUBE), 1);
    return tn_sigmoid(s, tn_mul_scalar(s, tn_mul(s, x, inner), TWO_ROOTS));
}

void composite_gelu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    tn_tensor *gate = by_tanh(args, 1) ? gelu_gate(s, x[0]) : normal_area(s, x[0]);
    formula_give(s, outs, tn_mul(s, x[0], gate), dtype);
}

static tn_tensor *gelu_slope(tn_scope *s, tn_tensor *x)
{
    tn_tensor *density = tn_exp(s, tn_mul_scalar(s, tn_mul(s, x, x), -0.5));
    density = tn_mul_scalar(s, density, M_2_SQRTPI * M_SQRT1_2 / 2);
    return tn_add(s, normal_area(s, x), tn_mul(s, x, density));
}

static tn_tensor *gelu_slope_by_tanh(tn_scope *s, tn_tensor *x)
{
    tn_tensor *gate = gelu_gate(s, x);
    tn_tensor *inner = plus(s, tn_mul_scalar(s, tn_mul(s, x, x), 3 * CUBE * TWO_ROOTS), TWO_ROOTS);
    tn_tensor *bend = tn_mul(s, tn_mul(s, gate, one_minus(s, gate)), inner);
    return tn_add(s, gate, tn_mul(s, x, bend));
}

void composite_gelu_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *slope = by_tanh(args, 2) ? gelu_slope_by_tanh(s, x[1]) : gelu_slope(s, x[1]);
    formula_give(s, outs, tn_mul(s, x[0], slope), dtype);
}

/* ---- silu and mish ---- */

void composite_silu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    formula_give(s, outs, tn_mul(s, x[0], tn_sigmoid(s, x[0])), dtype);
}

void composite_silu_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *gate = tn_sigmoid(s, x[1]);
    tn_tensor *slope = tn_mul(s, gate, plus(s, tn_mul(s, x[1], one_minus(s, gate)), 1));
    formula_give(s, outs, tn_mul(s, x[0], tn_conj(s, slope)), dtype);
}

/* log(1 + e^(beta x)) / beta, or x where beta x is above the threshold. */
static tn_tensor *soft_plus(tn_scope *s, tn_tensor *x, tn_value beta, double threshold)
{
    tn_tensor *scaled = tn_mul_scalar(s, x, beta);
    tn_tensor *soft = tn_div_scalar(s, tn_log1p(s, tn_exp(s, scaled)), beta);
    return tn_where(s, tn_gt_scalar(s, scaled, threshold), x, soft);
}

/* From here on log(1 + e^x) is x in float64. */
#define STRAIGHT 40.0

void composite_mish(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    tn_tensor *soft = soft_plus(s, x[0], tn_value_int(1), STRAIGHT);
    formula_give(s, outs, tn_mul(s, x[0], tn_tanh(s, soft)), dtype);
}

/* t + x sigmoid(x) (1 - t^2) */
void composite_mish_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *t = tn_tanh(s, soft_plus(s, x[1], tn_value_int(1), STRAIGHT));
    tn_tensor *rest = tn_mul(s, tn_sigmoid(s, x[1]), one_minus(s, tn_mul(s, t, t)));
    tn_tensor *slope = tn_add(s, t, tn_mul(s, x[1], rest));
    formula_give(s, outs, tn_mul(s, x[0], slope), dtype);
}

/* ---- elu ---- */

void composite_elu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    double negative = arg_float(args, 1) * arg_float(args, 2);
    tn_tensor *below = tn_mul_scalar(s, tn_expm1(s, tn_mul_scalar(s, x[0], args[3])), negative);
    tn_tensor *above = tn_mul_scalar(s, x[0], args[2]);
    formula_give(s, outs, tn_where(s, tn_le_scalar(s, x[0], 0), below, above), dtype);
}

/* The slope below 0, from the result or from the input. */
void composite_elu_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    const tn_value tensors[] = {args[0], args[5]};
    double negative = arg_float(args, 1) * arg_float(args, 2), inner = arg_float(args, 3);
    tn_tensor *x[2], *below;
    tn_dtype dtype = tni_formula_open(s, tensors, 2, x);
    if (arg_bool(args, 4))
        below = tn_mul_scalar(s, plus(s, x[1], negative), inner);
    else
        below = tn_mul_scalar(s, tn_exp(s, tn_mul_scalar(s, x[1], inner)), inner * negative);
    tn_tensor *slope = tn_where_scalarother(s, tn_le_scalar(s, x[1], 0), below, args[2]);
    formula_give(s, outs, tn_mul(s, x[0], slope), dtype);
}

/* ---- softplus, log_sigmoid, logit ---- */

void composite_softplus(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    formula_give(s, outs, soft_plus(s, x[0], args[1], arg_float(args, 2)), dtype);
}

void composite_softplus_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *scaled = tn_mul_scalar(s, x[1], args[2]);
    tn_tensor *soft = tn_mul(s, x[0], tn_sigmoid(s, scaled));
    formula_give(s, outs, tn_where(s, tn_gt_scalar(s, scaled, args[3]), x[0], soft), dtype);
}

/* From the input alone: the buffer of the forward call differs between devices. */
void composite_log_sigmoid_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[3];
    tn_dtype dtype = tni_formula_dtype(s, args, 3);
    tni_formula_open(s, args, 2, x);
    formula_give(s, outs, tn_mul(s, x[0], tn_sigmoid(s, tn_neg(s, x[1]))), dtype);
}

/* Rounded to the half type. */
static tn_tensor *held(tn_scope *s, tn_tensor *t, tn_dtype dtype)
{
    return t ? tni_cast(s, tni_cast(s, t, dtype), wide_dtype(dtype)) : NULL;
}

static tn_tensor *between(tn_scope *s, tn_tensor *t, double low, double high)
{
    t = tn_maximum(s, t, tni_number_like(s, t, tn_value_float(low)));
    return tn_minimum(s, t, tni_number_like(s, t, tn_value_float(high)));
}

/*
 * log(x / (1 - x)); near 1/2, where that is the logarithm of nearly 1, log1p of the difference. ATen rounds
 * each step of half types, so this does too.
 */
void composite_logit(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1], *t, *rest, *out;
    tn_dtype dtype = tni_formula_open_float(s, args, 1, x);
    double eps = arg_float_or(args, 1, -1);
    t = eps < 0 ? x[0] : between(s, x[0], eps, 1 - eps);
    rest = held(s, one_minus(s, t), dtype);
    out = tn_log(s, held(s, tn_div(s, t, rest), dtype));
    if (wide_dtype(dtype) == dtype) {
        tn_tensor *difference = tn_sub(s, t, rest), *near = tn_log1p(s, tn_div(s, difference, rest));
        out = tn_where(s, tn_lt_scalar(s, tn_abs(s, difference), 0.5), near, out);
    }
    formula_give(s, outs, out, dtype);
}

/* Without eps the gradient outside [0, 1] is NaN. */
void composite_logit_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    double eps = arg_float_or(args, 2, -1), outside = eps < 0 ? (double)NAN : 0;
    if (eps < 0) eps = 0;
    tn_tensor *low = tn_lt_scalar(s, x[1], eps), *high = tn_gt_scalar(s, x[1], 1 - eps);
    tn_tensor *out = tn_div(s, x[0], tn_mul(s, x[1], one_minus(s, x[1])));
    out = tn_where_scalarself(s, tn_logical_or(s, low, high), tn_value_float(outside), out);
    formula_give(s, outs, out, dtype);
}

/* ---- logarithms of sums of powers ---- */

/* max + log(1 + e^(min - max)), compared by the real part; two equal infinities are the result. */
static void log_add(tn_scope *s, const tn_value *args, tn_value *outs, double base)
{
    tn_tensor *x[2], *real[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    for (int32_t i = 0; i < 2; i++) real[i] = x[i] && is_complex(dtype) ? tn_real(s, x[i]) : x[i];
    tn_tensor *second = tn_lt(s, real[0], real[1]), *same = tn_eq(s, real[0], real[1]);
    tn_tensor *high = tn_where(s, second, x[1], x[0]), *low = tn_where(s, second, x[0], x[1]);
    tn_tensor *power = tn_mul_scalar(s, tn_sub(s, low, high), log(base));
    tn_tensor *more = tn_div_scalar(s, tn_log1p(s, tn_exp(s, power)), log(base));
    tn_tensor *infinite = tn_logical_and(s, same, tn_isinf(s, real[0]));
    formula_give(s, outs, tn_where(s, infinite, high, tn_add(s, high, more)), dtype);
}

FORWARD(composite_logaddexp, log_add, M_E)
FORWARD(composite_logaddexp2, log_add, 2)

void composite_gelu_backward_exact(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_gelu_backward(s, arg_tensor(args, 0), arg_tensor(args, 1)));
}
