/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalisation. First derivatives call the fused backward operators. Second derivatives go through the
 * formulas below, which compute the same with simple operators.
 */
#include "autograd/rules/formula.h"

static void set_three(tni_grad *g, uint32_t a, uint32_t b, uint32_t c, tn_tensor *x, tn_tensor *y,
                      tn_tensor *z)
{
    tni_grad_set(g, a, x);
    tni_grad_set(g, b, y);
    tni_grad_set(g, c, z);
}

/* ---- batch norm: input, weight, bias are arguments 0, 1, 2 ---- */

/* A running statistic. Training does not use it, and the next forward in training changes it. */
static tn_tensor *running(const tni_grad *g, uint32_t arg, int32_t train)
{
    return train ? NULL : tni_grad_saved(g, arg);
}

static void batch_norm(tn_scope *s, tni_grad *g, tn_tensor *mean, tn_tensor *variance, int32_t train,
                       double eps)
{
    tn_native_batch_norm_backward_result r = tn_native_batch_norm_backward(
        s, tni_grad_out(g, 0), tni_grad_saved(g, 0), tni_grad_saved(g, 1), mean, variance,
        tni_grad_result(g, 1), tni_grad_result(g, 2), train, eps, MASK_3(g, 0, 1, 2));
    set_three(g, 0, 1, 2, r.result0, r.result1, r.result2);
}

void grad_native_batch_norm(tn_scope *s, tni_grad *g)
{
    int32_t train = bool_arg(g, 5);
    batch_norm(s, g, running(g, 3, train), running(g, 4, train), train, float_arg(g, 7));
}

void grad_native_batch_norm_no_stats(tn_scope *s, tni_grad *g)
{
    batch_norm(s, g, NULL, NULL, bool_arg(g, 3), float_arg(g, 5));
}

void grad_native_batch_norm_no_training(tn_scope *s, tni_grad *g)
{
    batch_norm(s, g, tni_grad_saved(g, 3), tni_grad_saved(g, 4), 0, float_arg(g, 6));
}

void grad_batch_norm_with_update(tn_scope *s, tni_grad *g)
{
    batch_norm(s, g, NULL, NULL, 1, float_arg(g, 6));
}

/* ---- the backward operators as formulas ---- */

/* A normalisation: which dimensions are averaged, which ones the weight has. */
typedef struct layout {
    uint64_t averaged;
    uint64_t summed; /* for the gradients of weight and bias */
    tn_ints weight_shape;
    tn_ints flat_weight; /* as in the operator's result */
    double eps;
    tn_tensor *eps_of_rows;     /* in place of eps, if that is not known */
    tn_tensor *mean, *variance; /* given statistics, in weight_shape; NULL: computed from the input */
} layout;

static tn_tensor *mean_over(tn_scope *s, tn_tensor *t, uint64_t dims)
{
    return tn_mean_dim(s, t, tni_rule_dim_list(s, dims), .keepdim = 1);
}

static tn_tensor *inverse_deviation(tn_scope *s, tn_tensor *variance, const layout *l)
{
    return tn_rsqrt(s, l->eps_of_rows ? add(s, variance, l->eps_of_rows) : plus(s, variance, l->eps));
}

/* in: grad, input, weight (or NULL); out: gradients of input, weight, bias */
static void norm_formula(tn_scope *s, const void *data, tn_tensor *const *in, tn_tensor **out)
{
    const layout *l = data;
    tn_tensor *grad = in[0], *mean = l->mean ? l->mean : mean_over(s, in[1], l->averaged);
    tn_tensor *centred = sub(s, in[1], mean);
    tn_tensor *variance = l->variance ? l->variance : mean_over(s, square(s, centred), l->averaged);
    tn_tensor *inverse = inverse_deviation(s, variance, l), *x = mul(s, centred, inverse);
    tn_tensor *scaled = in[2] ? mul(s, grad, tn_reshape(s, in[2], l->weight_shape)) : grad;
    tn_tensor *inner = scaled;
    if (!l->mean) {
        tn_tensor *along = mul(s, x, mean_over(s, mul(s, scaled, x), l->averaged));
        inner = sub(s, sub(s, scaled, mean_over(s, scaled, l->averaged)), along);
    }
    out[0] = mul(s, inner, inverse);
    tn_ints dims = tni_rule_dim_list(s, l->summed);
    out[1] = dims.count ? tn_sum_dim(s, mul(s, grad, x), dims) : mul(s, grad, x);
    out[2] = dims.count ? tn_sum_dim(s, grad, dims) : grad;
    out[1] = tn_reshape(s, out[1], l->flat_weight);
    out[2] = tn_reshape(s, out[2], l->flat_weight);
}

static tn_tensor *widened(tn_scope *s, tn_tensor *t)
{
    return t && TN_DTYPE_BITS(t->desc.dtype) == 16 ? tn__to_copy(s, t, .dtype = TN_FLOAT32) : t;
}

/* tni_rule_vjp for half types in float32: their squares overflow, and small differences of them are lost. */
static void vjp_widened(tn_scope *s, tni_formula *formula, const layout *l, tn_tensor *const in[3],
                        const int32_t wanted[3], tn_tensor *const *grads, uint32_t n_grads, tn_tensor *out[3])
{
    tn_tensor *wide_in[3], *wide_grads[3];
    for (uint32_t i = 0; i < 3; i++) {
        wide_in[i] = widened(s, in[i]);
        wide_grads[i] = i < n_grads ? widened(s, grads[i]) : NULL;
        out[i] = NULL;
    }
    tni_rule_vjp(s, formula, l, wide_in, wanted, 3, wide_grads, n_grads, out);
    for (uint32_t i = 0; i < 3; i++)
        if (out[i] && wide_in[i] != in[i]) out[i] = tn__to_copy(s, out[i], .dtype = in[i]->desc.dtype);
}

/* Gradients of arguments 0 (grad), 1 (input), and `weight`, which the caller has reshaped for the formula. */
static void differentiate(tn_scope *s, tni_grad *g, const layout *l, tn_tensor *const in[3],
                          const uint32_t args[3], tn_tensor *const grads[3], tn_tensor **out)
{
    int32_t wanted[3];
    for (int i = 0; i < 3; i++) wanted[i] = tni_grad_needs(g, args[i]);
    vjp_widened(s, norm_formula, l, in, wanted, grads, 3, out);
}

static tn_tensor *per_channel(tn_scope *s, tn_tensor *t, tn_ints shape)
{
    return t ? tn_reshape(s, t, shape) : NULL;
}

void grad_native_batch_norm_backward(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 1, 0);
    int64_t shape[TN_MAX_RANK], channels = m.sizes[1];
    for (uint32_t i = 0; i < m.rank; i++) shape[i] = i == 1 ? channels : 1;
    uint64_t others = ((m.rank >= 64 ? 0 : 1ull << m.rank) - 1) & ~2ull;
    layout l = {.averaged = others,
                .summed = others,
                .weight_shape = {shape, m.rank},
                .flat_weight = {&channels, 1},
                .eps = float_arg(g, 8)};
    if (!bool_arg(g, 7)) {
        l.mean = per_channel(s, tni_grad_saved(g, 3), l.weight_shape);
        l.variance = per_channel(s, tni_grad_saved(g, 4), l.weight_shape);
    }
    tn_tensor *const in[3] = {tni_grad_saved(g, 0), tni_grad_saved(g, 1), tni_grad_saved(g, 2)};
    tn_tensor *const grads[3] = {tni_grad_out(g, 0), tni_grad_out(g, 1), tni_grad_out(g, 2)};
    tn_tensor *out[3];
    differentiate(s, g, &l, in, (const uint32_t[]){0, 1, 2}, grads, out);
    set_three(g, 0, 1, 2, out[0], out[1], out[2]);
}

/* ---- layer norm ---- */

void grad_native_layer_norm(tn_scope *s, tni_grad *g)
{
    tn_native_layer_norm_backward_result r = tn_native_layer_norm_backward(
        s, tni_grad_out(g, 0), tni_grad_saved(g, 0), ints_arg(g, 1), tni_grad_result(g, 1),
        tni_grad_result(g, 2), tni_grad_saved(g, 2), tni_grad_saved(g, 3), MASK_3(g, 0, 2, 3));
    set_three(g, 0, 2, 3, r.result0, r.result1, r.result2);
}

/* The operator has no eps but 1 / sqrt(variance + eps), from which eps follows. */
static tn_tensor *eps_of(tn_scope *s, tn_tensor *input, tn_tensor *rstd, uint64_t dims)
{
    uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF);
    input = widened(s, input);
    rstd = widened(s, rstd);
    tn_tensor *variance =
        tn_var_correction(s, input, tni_rule_dim_list(s, dims), .correction = TN_SCALAR(0), .keepdim = 1);
    tn_tensor *total = tn_reciprocal(s, square(s, tn_reshape(s, rstd, tensor_sizes(variance))));
    tn_tensor *eps = sub(s, total, variance);
    tn_set_grad_mode(mode);
    return eps;
}

void grad_native_layer_norm_backward(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 1, 0);
    tn_ints shape = ints_arg(g, 2);
    uint32_t lead = m.rank - (uint32_t)shape.count;
    uint64_t all = (m.rank >= 64 ? 0 : 1ull << m.rank) - 1, batch = (1ull << lead) - 1;
    tn_tensor *input = tni_grad_saved(g, 1);
    layout l = {.averaged = all & ~batch,
                .summed = batch,
                .weight_shape = shape,
                .flat_weight = shape,
                .eps_of_rows = eps_of(s, input, tni_grad_saved(g, 4), all & ~batch)};
    tn_tensor *const in[3] = {tni_grad_saved(g, 0), input, tni_grad_saved(g, 5)};
    tn_tensor *const grads[3] = {tni_grad_out(g, 0), tni_grad_out(g, 1), tni_grad_out(g, 2)};
    tn_tensor *out[3];
    differentiate(s, g, &l, in, (const uint32_t[]){0, 1, 5}, grads, out);
    set_three(g, 0, 1, 5, out[0], out[1], out[2]);
}

/* ---- root mean square norm ---- */

void grad_fused_rms_norm(tn_scope *s, tni_grad *g)
{
    tn__fused_rms_norm_backward_result r =
        tn__fused_rms_norm_backward(s, tni_grad_out(g, 0), tni_grad_saved(g, 0), ints_arg(g, 1),
                                    tni_grad_result(g, 1), tni_grad_saved(g, 2), MASK_2(g, 0, 2));
    tni_grad_set(g, 0, r.result0);
    tni_grad_set(g, 2, r.result1);
}

/* in: grad, input, weight (or NULL); out: gradients of input and weight */
static void rms_norm_formula(tn_scope *s, const void *data, tn_tensor *const *in, tn_tensor **out)
{
    const layout *l = data;
    tn_tensor *inverse = inverse_deviation(s, mean_over(s, square(s, in[1]), l->averaged), l);
    tn_tensor *x = mul(s, in[1], inverse), *scaled = in[2] ? mul(s, in[0], in[2]) : in[0];
    out[0] = mul(s, sub(s, scaled, mul(s, x, mean_over(s, mul(s, scaled, x), l->averaged))), inverse);
    tn_ints dims = tni_rule_dim_list(s, l->summed);
    out[1] = dims.count ? tn_sum_dim(s, mul(s, in[0], x), dims) : mul(s, in[0], x);
}

void grad_fused_rms_norm_backward(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 1, 0);
    uint32_t lead = m.rank - (uint32_t)ints_arg(g, 2).count;
    uint64_t all = (m.rank >= 64 ? 0 : 1ull << m.rank) - 1, batch = (1ull << lead) - 1;
    tn_tensor *input = tni_grad_saved(g, 1);
    uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF);
    tn_tensor *eps =
        sub(s, tn_reciprocal(s, square(s, widened(s, tni_grad_saved(g, 3)))),
            mean_over(s, square(s, widened(s, input)), all & ~batch)); /* rstd is 1 / sqrt(mean + eps) */
    tn_set_grad_mode(mode);
    layout l = {.averaged = all & ~batch, .summed = batch, .eps_of_rows = eps};
    tn_tensor *const in[3] = {tni_grad_saved(g, 0), input, tni_grad_saved(g, 4)};
    tn_tensor *const grads[2] = {tni_grad_out(g, 0), tni_grad_out(g, 1)};
    const int32_t wanted[3] = {tni_grad_needs(g, 0), tni_grad_needs(g, 1), tni_grad_needs(g, 4)};
    tn_tensor *out[3];
    vjp_widened(s, rms_norm_formula, &l, in, wanted, grads, 2, out);
    tni_grad_set(g, 0, out[0]);
    tni_grad_set(g, 1, out[1]);
    tni_grad_set(g, 4, out[2]);
}

/* ---- group norm: seen as (N, groups, channels of a group, positions) ---- */

/* Adds the gradients of mean and rstd, which are results too. */
static tn_tensor *through_moments(tn_scope *s, tni_grad *g, tn_tensor *of_mean, tn_tensor *of_rstd)
{
    int64_t n = int_arg(g, 3), groups = int_arg(g, 6), length = int_arg(g, 4) / groups * int_arg(g, 5);
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_ints rows = TN_INTS(n, groups, length), each = TN_INTS(n, groups, 1);
    tn_tensor *sum = of_mean ? tn_reshape(s, of_mean, each) : NULL;
    if (of_rstd) {
        tn_tensor *centred =
            sub(s, tn_reshape(s, tni_grad_saved(g, 0), rows), tn_reshape(s, tni_grad_result(g, 1), each));
        tn_tensor *cube = tn_pow_tensor_scalar(s, tni_grad_result(g, 2), 3);
        tn_tensor *slope = neg(s, mul(s, tn_reshape(s, mul(s, of_rstd, cube), each), centred));
        sum = sum ? add(s, sum, slope) : slope;
    }
    sum = tn_expand(s, tn_div_scalar(s, sum, length), rows);
    return tn_reshape(s, sum, sizes_of(&m));
}

void grad_native_group_norm(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *of_mean = tni_grad_out(g, 1), *of_rstd = tni_grad_out(g, 2);
    tn_native_group_norm_backward_result r = {NULL, NULL, NULL};
    if (grad)
        r = tn_native_group_norm_backward(s, grad, tni_grad_saved(g, 0), tni_grad_result(g, 1),
                                          tni_grad_result(g, 2), tni_grad_saved(g, 1), int_arg(g, 3),
                                          int_arg(g, 4), int_arg(g, 5), int_arg(g, 6), MASK_3(g, 0, 1, 2));
    if ((of_mean || of_rstd) && tni_grad_needs(g, 0)) {
        tn_tensor *rest = through_moments(s, g, of_mean, of_rstd);
        r.result0 = r.result0 ? add(s, r.result0, rest) : rest;
    }
    set_three(g, 0, 1, 2, r.result0, r.result1, r.result2);
}

void grad_native_group_norm_backward(tn_scope *s, tni_grad *g)
{
    int64_t n = int_arg(g, 5), c = int_arg(g, 6), positions = int_arg(g, 7), groups = int_arg(g, 8);
    tni_meta m = tni_grad_meta(g, 1, 0);
    tn_ints split = TN_INTS(n, groups, c / groups, positions), weight = TN_INTS(1, groups, c / groups, 1);
    tn_tensor *input = tn_reshape(s, tni_grad_saved(g, 1), split);
    layout l = {.averaged = 4 | 8,
                .summed = 1 | 8,
                .weight_shape = weight,
                .flat_weight = {&c, 1},
                .eps_of_rows = eps_of(s, input, tni_grad_saved(g, 3), 4 | 8)};
    tn_tensor *grad_input = tni_grad_out(g, 0) ? tn_reshape(s, tni_grad_out(g, 0), split) : NULL;
    tn_tensor *const in[3] = {tn_reshape(s, tni_grad_saved(g, 0), split), input, tni_grad_saved(g, 4)};
    tn_tensor *const grads[3] = {grad_input, tni_grad_out(g, 1), tni_grad_out(g, 2)};
    tn_tensor *out[3];
    differentiate(s, g, &l, in, (const uint32_t[]){0, 1, 4}, grads, out);
    if (out[0]) tni_grad_set(g, 0, tn_reshape(s, out[0], sizes_of(&m)));
    if (out[1]) tni_grad_set(g, 1, tn_reshape(s, out[1], sizes_of(&m)));
    tni_grad_set(g, 4, out[2]);
}

/* ---- weight norm: w = v * g / |v| ---- */

static tn_tensor *sum_but(tn_scope *s, tn_tensor *t, int64_t dim)
{
    uint64_t rank = t ? t->desc.rank : 1;
    uint64_t dims = ((1ull << rank) - 1) & ~(1ull << dim);
    return dims ? tn_sum_dim(s, t, tni_rule_dim_list(s, dims), .keepdim = 1) : t;
}

void grad_weight_norm_interface(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *v = tni_grad_saved(g, 0), *size = tni_grad_saved(g, 1);
    int64_t dim = int_arg(g, 2);
    if (!tni_grad_enabled()) {
        tn__weight_norm_interface_backward_result r =
            tn__weight_norm_interface_backward(s, grad, v, size, tni_grad_result(g, 1), dim);
        tni_grad_set(g, 0, r.result0);
        tni_grad_set(g, 1, r.result1);
        return;
    }
    dim = wrap_dim(dim, v ? v->desc.rank : 1); /* norm_except_dim takes -1 for no dimension */
    tn_tensor *norm = tn_norm_except_dim(s, v, .pow = 2, .dim = dim);
    tn_tensor *along = divide(s, sum_but(s, mul(s, grad, v), dim), norm);
    if (tni_grad_needs(g, 0)) {
        tn_tensor *inner = sub(s, grad, divide(s, mul(s, v, along), norm));
        tni_grad_set(g, 0, mul(s, divide(s, size, norm), inner));
    }
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, along);
}
