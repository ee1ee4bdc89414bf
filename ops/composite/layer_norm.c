/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: normalisation over features (layer, group, root mean square) and of weights. */
#include <float.h>
#include <math.h>
#include "ops/composite/compute_dtype.h"

/* Statistics of half input are float32 if the weight is. */
static tn_dtype statistics_dtype(const tn_tensor *input, const tn_tensor *parameter)
{
    return parameter && dtype_of(parameter) == TN_FLOAT32 ? wide_dtype(dtype_of(input)) : dtype_of(input);
}

/* Mean and reciprocal standard deviation over dims, with keepdim. */
typedef struct moments {
    tn_tensor *mean, *rstd;
} moments;

static moments moments_of(tn_scope *s, tn_tensor *x, tn_ints dims, double eps)
{
    tn_var_mean_correction_result r =
        tn_var_mean_correction(s, x, .dim = dims, .correction = TN_SCALAR(0), .keepdim = 1);
    return (moments){r.result1, tn_rsqrt(s, tn_add_scalar(s, r.result0, eps))};
}

static tn_tensor *scaled(tn_scope *s, tn_tensor *x, moments m, tn_tensor *weight, tn_tensor *bias)
{
    x = tn_mul(s, tn_sub(s, x, m.mean), m.rstd);
    if (weight) x = tn_mul(s, x, wide(s, weight));
    return bias ? tn_add(s, x, wide(s, bias)) : x;
}

/* d/dx of (x - mean) * rstd, times g: rstd * (g - mean(g) - x^ * mean(g * x^)). */
static tn_tensor *moments_gradient(tn_scope *s, tn_tensor *g, tn_tensor *x_hat, tn_tensor *rstd, tn_ints dims)
{
    tn_tensor *out = tn_sub(s, g, tn_mean_dim(s, g, dims, .keepdim = 1));
    out = tn_sub(s, out, tn_mul(s, x_hat, tn_mean_dim(s, tn_mul(s, g, x_hat), dims, .keepdim = 1)));
    return tn_mul(s, out, rstd);
}

static void give_cast(tn_scope *s, tn_value *outs, uint32_t i, tn_tensor *t, tn_dtype dtype)
{
    if (t) give(outs, i, tni_cast(s, t, dtype));
}

/* ---- layers ---- */

void composite_native_layer_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *weight = arg_tensor(args, 2), *x = wide(s, input);
    int64_t rank = rank_of(input);
    tn_ints dims = tni_dims_between(s, rank - arg_ints(args, 1).count, rank);
    tn_dtype dtype = statistics_dtype(input, weight);
    moments m = moments_of(s, x, dims, arg_float(args, 4));
    if (tn_scope_failed(s)) return;
    give_cast(s, outs, 0, scaled(s, x, m, weight, arg_tensor(args, 3)), dtype_of(input));
    give_cast(s, outs, 1, m.mean, dtype);
    give_cast(s, outs, 2, m.rstd, dtype);
}

/* (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask) */
void composite_native_layer_norm_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *input = arg_tensor(args, 1),
              *weight = arg_tensor(args, 5);
    tn_tensor *rstd = wide(s, arg_tensor(args, 4)), *bias = arg_tensor(args, 6);
    tn_tensor *x_hat = tn_mul(s, tn_sub(s, wide(s, input), wide(s, arg_tensor(args, 3))), rstd);
    tn_bools mask = arg_bools(args, 7);
    tn_ints shape = arg_ints(args, 2);
    int64_t rank = rank_of(input), first = rank - shape.count;
    tn_ints outer = tni_dims_between(s, 0, first), inner = tni_dims_between(s, first, rank);
    tn_tensor *g = weight ? tn_mul(s, grad, wide(s, weight)) : grad;
    if (tn_scope_failed(s)) return;
    if (mask.data[0]) give_cast(s, outs, 0, moments_gradient(s, g, x_hat, rstd, inner), dtype_of(input));
    if (mask.data[1] && weight) {
        tn_tensor *product = tn_mul(s, grad, x_hat);
        give_cast(s, outs, 1, first ? tn_sum_dim(s, product, outer) : product, dtype_of(weight));
    }
    if (mask.data[2] && bias) {
        g = first ? tn_sum_dim(s, grad, outer) : tn_clone(s, grad);
        give_cast(s, outs, 2, g, dtype_of(bias));
    }
}

void composite_layer_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_native_layer_norm(s, arg_tensor(args, 0), arg_ints(args, 1), arg_tensor(args, 2),
                              arg_tensor(args, 3), arg_float(args, 4))
             .result0);
}

/* Without eps: the machine epsilon of the dtype of the computation. */
static double default_eps(tn_dtype dtype)
{
    return dtype == TN_FLOAT64 || dtype == TN_COMPLEX128 ? DBL_EPSILON : FLT_EPSILON;
}

static int32_t check_rms_norm(tn_scope *s, const tn_tensor *input, tn_ints shape, const tn_tensor *weight)
{
    tn_ints tail = {tni_sizes(input) + (rank_of(input) - shape.count), shape.count};
    if (!shape.count)
        return tn_scope_fail(
            s, TN_E_SHAPE,
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []");
    if (weight && !tni_same_sizes(sizes_of(weight), shape))
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "Expected weight to be of same shape as normalized_shape, but got weight of shape %s "
            "and normalized_shape = %s",
            sizes_text(s, weight), tni_ints_text(s, shape));
    if (rank_of(input) < shape.count || !tni_same_sizes(tail, shape)) {
        const char *list = tni_ints_text(s, shape);
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s", list,
            list + 1, sizes_text(s, input));
    }
    return TN_OK;
}

void composite_rms_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *weight = arg_tensor(args, 2), *x = wide(s, input), *mean;
    tn_ints shape = arg_ints(args, 1), dims;
    if (check_rms_norm(s, input, shape, weight)) return;
    if (is_float(dtype_of(input)) && (!weight || dtype_of(weight) == dtype_of(input)))
        return give(
            outs, 0,
            tn__fused_rms_norm(s, input, shape, weight, arg_float_or(args, 3, (double)TN_NONE)).result0);
    dims = tni_dims_between(s, rank_of(input) - shape.count, rank_of(input));
    mean = tn_mean_dim(s, tn_pow_tensor_scalar(s, x, 2), dims, .keepdim = 1);
    mean = tn_add_scalar(s, mean, arg_float_or(args, 3, default_eps(dtype_of(input))));
    x = tn_mul(s, x, tn_rsqrt(s, mean));
    if (weight) x = tn_mul(s, x, weight);
    give_cast(s, outs, 0, x, dtype_of(input));
}

/* (input, normalized_shape, weight, eps) */
void composite_fused_rms_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *weight = arg_tensor(args, 2), *x = wide(s, input);
    int64_t rank = rank_of(input);
    tn_ints dims = tni_dims_between(s, rank - arg_ints(args, 1).count, rank);
    tn_tensor *mean = tn_mean_dim(s, tn_pow_tensor_scalar(s, x, 2), dims, .keepdim = 1);
    tn_tensor *rstd =
        tn_rsqrt(s, tn_add_scalar(s, mean, arg_float_or(args, 3, default_eps(dtype_of(input)))));
    x = tn_mul(s, x, rstd);
    if (weight) x = tn_mul(s, x, wide(s, weight));
    give_cast(s, outs, 0, x, dtype_of(input));
    give(outs, 1, rstd);
}

/* (grad_out, input, normalized_shape, rstd, weight, output_mask): rstd * (h - x^ * mean(h * x^)), with h = grad *
 * weight and x^ = input * rstd */
void composite_fused_rms_norm_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *input = arg_tensor(args, 1),
              *weight = arg_tensor(args, 4);
    tn_tensor *rstd = tn_conj(s, wide(s, arg_tensor(args, 3))),
              *x_hat = tn_mul(s, tn_conj(s, wide(s, input)), rstd);
    tn_bools mask = arg_bools(args, 5);
    int64_t rank = rank_of(input), first = rank - arg_ints(args, 2).count;
    if (mask.data[0]) {
        tn_tensor *h = weight ? tn_mul(s, grad, tn_conj(s, wide(s, weight))) : grad;
        tn_tensor *average =
            tn_mean_dim(s, tn_mul(s, h, x_hat), tni_dims_between(s, first, rank), .keepdim = 1);
        give_cast(s, outs, 0, tn_mul(s, tn_sub(s, h, tn_mul(s, x_hat, average)), rstd), dtype_of(input));
    }
    if (mask.data[1] && weight) {
        tn_tensor *product = tn_mul(s, grad, x_hat);
        if (first) product = tn_sum_dim(s, product, tni_dims_between(s, 0, first));
        give_cast(s, outs, 1, product, dtype_of(weight));
    }
}

/* ---- groups ---- */

static tn_ints grouped(tn_scope *s, const tn_value *args, uint32_t first)
{
    int64_t *size = tni_scope_ints(s, 4), group = arg_int(args, first + 3);
    if (!size) return (tn_ints){NULL, 0};
    size[0] = arg_int(args, first);
    size[1] = group;
    size[2] = group ? arg_int(args, first + 1) / group : 0;
    size[3] = arg_int(args, first + 2);
    return (tn_ints){size, 4};
}

/* A vector over channels as [1, groups, channels per group, 1]. */
static tn_tensor *by_group(tn_scope *s, tn_tensor *t, tn_ints size)
{
    return t ? tn_reshape(s, wide(s, t), TN_INTS(1, size.data[1], size.data[2], 1)) : NULL;
}

/* (input, weight, bias, N, C, HxW, group, eps) */
void composite_native_group_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *weight = arg_tensor(args, 1), *x;
    tn_ints size = grouped(s, args, 3), pair = TN_INTS(arg_int(args, 3), arg_int(args, 6));
    tn_dtype dtype = statistics_dtype(input, weight);
    moments m;
    if (tn_scope_failed(s)) return;
    x = tn_reshape(s, wide(s, input), size);
    m = moments_of(s, x, TN_INTS(2, 3), arg_float(args, 7));
    x = scaled(s, x, m, by_group(s, weight, size), by_group(s, arg_tensor(args, 2), size));
    if (tn_scope_failed(s)) return;
    give_cast(s, outs, 0, tn_reshape(s, x, sizes_of(input)), dtype_of(input));
    give_cast(s, outs, 1, tn_reshape(s, m.mean, pair), dtype);
    give_cast(s, outs, 2, tn_reshape(s, m.rstd, pair), dtype);
}

/* (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask) */
void composite_native_group_norm_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 1), *weight = arg_tensor(args, 4), *grad, *x_hat, *rstd, *mean, *g;
    tn_bools mask = arg_bools(args, 9);
    tn_ints size = grouped(s, args, 5), pair = TN_INTS(arg_int(args, 5), arg_int(args, 8), 1, 1);
    tn_ints channels = TN_INTS(arg_int(args, 6));
    tn_dtype dtype = weight ? dtype_of(weight) : dtype_of(input);
    if (tn_scope_failed(s)) return;
    grad = tn_reshape(s, wide(s, arg_tensor(args, 0)), size);
    mean = tn_reshape(s, wide(s, arg_tensor(args, 2)), pair);
    rstd = tn_reshape(s, wide(s, arg_tensor(args, 3)), pair);
    x_hat = tn_mul(s, tn_sub(s, tn_reshape(s, wide(s, input), size), mean), rstd);
    g = weight ? tn_mul(s, grad, by_group(s, weight, size)) : grad;
    if (tn_scope_failed(s)) return;
    if (mask.data[0]) {
        g = moments_gradient(s, g, x_hat, rstd, TN_INTS(2, 3));
        give_cast(s, outs, 0, tn_reshape(s, g, sizes_of(input)), dtype_of(input));
    }
    if (mask.data[1]) {
        g = tn_sum_dim(s, tn_mul(s, grad, x_hat), TN_INTS(0, 3));
        give_cast(s, outs, 1, tn_reshape(s, g, channels), dtype);
    }
    if (mask.data[2])
        give_cast(s, outs, 2, tn_reshape(s, tn_sum_dim(s, grad, TN_INTS(0, 3)), channels), dtype);
}

static int32_t check_group_norm(tn_scope *s, const tn_tensor *input, int64_t groups, const tn_tensor *weight,
                                const tn_tensor *bias)
{
    int64_t channels;
    if (rank_of(input) < 2)
        return tni_scope_failf(s, TN_E_SHAPE, "Expected at least 2 dims for input tensor, but got %lld",
                               (long long)rank_of(input));
    channels = tni_sizes(input)[1];
    if (groups <= 0)
        return tni_scope_failf(s, TN_E_ARGUMENT, "Expected num groups to be greater than 0, got %lld",
                               (long long)groups);
    if (channels % groups)
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            "shape %s and num_groups=%lld",
            sizes_text(s, input), (long long)groups);
    for (int i = 0; i < 2; i++) {
        const tn_tensor *t = i ? bias : weight;
        if (t && (rank_of(t) != 1 || tn_tensor_numel(t) != channels))
            return tni_scope_failf(
                s, TN_E_SHAPE,
                "Expected %s to be a vector of size equal to the number of channels in input, but "
                "got %s of shape %s and input of shape %s",
                i ? "bias" : "weight", i ? "bias" : "weight", sizes_text(s, t), sizes_text(s, input));
    }
    return TN_OK;
}

void composite_group_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *weight = arg_tensor(args, 2), *bias = arg_tensor(args, 3);
    tn_ints size = sizes_of(input), rest;
    if (check_group_norm(s, input, arg_int(args, 1), weight, bias)) return;
    rest = (tn_ints){size.data + 2, size.count - 2};
    give(outs, 0,
         tn_native_group_norm(s, input, weight, bias, size.data[0], size.data[1], numel_of(rest),
                              arg_int(args, 1), arg_float(args, 4))
             .result0);
}

/* ---- weights: a direction v and a length g ---- */

void composite_weight_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *v = arg_tensor(args, 0), *g = arg_tensor(args, 1);
    if (!rank_of(v))
        return (void)tni_scope_failf(s, TN_E_INDEX,
                                     "Dimension specified as %lld but tensor has no dimensions",
                                     (long long)arg_int(args, 2));
    tn_tensor *norm = tn_norm_except_dim(s, v, .pow = 2, .dim = arg_int(args, 2));
    give(outs, 0, tn_mul(s, v, tn_div(s, g, norm)));
}

void composite_weight_norm_interface(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *v = arg_tensor(args, 0), *g = arg_tensor(args, 1);
    int64_t dim = tni_dim(s, arg_int(args, 2), rank_of(v)); /* norm_except_dim takes -1 for no dimension */
    tn_tensor *norm = tn_norm_except_dim(s, wide(s, v), .pow = 2, .dim = dim);
    give_cast(s, outs, 0, tn_mul(s, wide(s, v), tn_div(s, wide(s, g), norm)), dtype_of(v));
    give_cast(s, outs, 1, norm, wide_dtype(dtype_of(g)));
}

/* (grad_w, v, g, norms, dim): grad_g = sum(grad v) / norm; grad_v is grad without its component along v. */
void composite_weight_norm_interface_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *v = arg_tensor(args, 1), *g = arg_tensor(args, 2);
    tn_tensor *norm = wide(s, arg_tensor(args, 3)), *wide_v = wide(s, v), *along, *out;
    tn_ints dims = tni_dims_except(s, rank_of(v), tni_dim(s, arg_int(args, 4), rank_of(v)));
    tn_tensor *product = tn_mul(s, grad, wide_v);
    along = dims.count ? keep_sum(s, product, dims) : product;
    out = tn_sub(s, grad, tn_mul(s, wide_v, tn_div(s, along, tn_mul(s, norm, norm))));
    out = tn_mul(s, out, tn_div(s, wide(s, g), norm));
    give_cast(s, outs, 0, out, dtype_of(v));
    give_cast(s, outs, 1, tn_div(s, along, norm), dtype_of(g));
}
