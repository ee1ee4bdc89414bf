/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: batch and instance normalisation. Statistics are computed in float32 for half types and
 * returned in the dtype of the parameters. Running statistics are written in place.
 */
#include <math.h>
#include "ops/composite/compute_dtype.h"

typedef struct batch_norm {
    tn_tensor *input, *weight, *bias, *running_mean, *running_var;
    int32_t training;
    double momentum, eps;
} batch_norm;

/* Statistics are float32 for half input with float32 parameters, else of the input's dtype. */
static tn_dtype statistics_dtype(const batch_norm *b)
{
    const tn_tensor *parameter = b->weight ? b->weight : b->running_mean;
    return parameter && dtype_of(parameter) == TN_FLOAT32 ? wide_dtype(dtype_of(b->input))
                                                          : dtype_of(b->input);
}

/* A vector over the channels, shaped to broadcast with the input. */
static tn_tensor *over_channels(tn_scope *s, tn_tensor *t, const tn_tensor *input)
{
    if (!t) return NULL;
    return tn_reshape(s, wide(s, t), tni_ones_but(s, rank_of(input), 1, tni_sizes(input)[1]));
}

static tn_tensor *normalised(tn_scope *s, const batch_norm *b, tn_tensor *mean, tn_tensor *invstd)
{
    tn_tensor *weight = over_channels(s, b->weight, b->input), *bias = over_channels(s, b->bias, b->input),
              *out;
    out = tn_sub(s, wide(s, b->input), over_channels(s, mean, b->input));
    out = tn_mul(s, out, over_channels(s, invstd, b->input));
    if (weight) out = tn_mul(s, out, weight);
    if (bias) out = tn_add(s, out, bias);
    return out ? tni_cast(s, out, dtype_of(b->input)) : NULL;
}

/* running = (1 - momentum) * running + momentum * now */
static void update(tn_scope *s, tn_tensor *running, tn_tensor *now, double momentum)
{
    tn_tensor *next;
    if (!running) return;
    next = tn_add(s, tn_mul_scalar(s, wide(s, running), 1 - momentum), tn_mul_scalar(s, now, momentum));
    tn_copy_(s, running, next);
}

static void give_trained(tn_scope *s, const batch_norm *b, tn_value *outs)
{
    int64_t channels = tni_sizes(b->input)[1];
    double n = channels ? (double)tn_tensor_numel(b->input) / (double)channels : 0;
    tn_dtype dtype = statistics_dtype(b);
    tn_ints dims = tni_dims_except(s, rank_of(b->input), 1);
    tn_var_mean_correction_result r =
        tn_var_mean_correction(s, wide(s, b->input), .dim = dims, .correction = TN_SCALAR(0));
    tn_tensor *var = r.result0, *mean = r.result1, *invstd;
    if (tn_scope_failed(s)) return;
    invstd = tni_cast(s, tn_rsqrt(s, tn_add_scalar(s, var, b->eps)), dtype);
    mean = tni_cast(s, mean, dtype); /* the result uses the rounded statistics, which are returned */
    if (tn_scope_failed(s)) return;
    give(outs, 0, normalised(s, b, mean, invstd));
    give(outs, 1, mean);
    give(outs, 2, invstd);
    update(s, b->running_mean, wide(s, mean), b->momentum);
    update(s, b->running_var, tn_mul_scalar(s, var, n / (n - 1)), b->momentum);
}

static void give_evaluated(tn_scope *s, const batch_norm *b, tn_value *outs)
{
    tn_tensor *var = wide(s, b->running_var);
    tn_tensor *invstd = tn_rsqrt(s, tn_add_scalar(s, var, b->eps));
    give(outs, 0, normalised(s, b, b->running_mean, invstd));
    give(outs, 1, tni_empty_on(s, b->input, statistics_dtype(b), TN_INTS(0)));
    give(outs, 2, tni_empty_on(s, b->input, statistics_dtype(b), TN_INTS(0)));
}

static void give_batch_norm(tn_scope *s, const batch_norm *b, tn_value *outs)
{
    if (b->training)
        give_trained(s, b, outs);
    else
        give_evaluated(s, b, outs);
}

void composite_native_batch_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    batch_norm b = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2), arg_tensor(args, 3),
                    arg_tensor(args, 4), arg_bool(args, 5),   arg_float(args, 6),  arg_float(args, 7)};
    give_batch_norm(s, &b, outs);
}

/* Without running statistics, evaluation uses those of the batch. */
void composite_native_batch_norm_no_stats(tn_scope *s, const tn_value *args, tn_value *outs)
{
    batch_norm b = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2), NULL, NULL, 1,
                    arg_float(args, 4),  arg_float(args, 5)};
    give_batch_norm(s, &b, outs);
}

void composite_native_batch_norm_no_training(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_native_batch_norm_result r = tn_native_batch_norm(
        s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2), arg_tensor(args, 3),
        arg_tensor(args, 4), 0, arg_float(args, 5), arg_float(args, 6));
    give(outs, 0, r.result0);
    give(outs, 1, r.result1);
    give(outs, 2, r.result2);
}

void composite_batch_norm_with_update(tn_scope *s, const tn_value *args, tn_value *outs)
{
    batch_norm b = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                    arg_tensor(args, 3), arg_tensor(args, 4), 1,
                    arg_float(args, 5),  arg_float(args, 6)};
    give_batch_norm(s, &b, outs);
    give(outs, 3, tni_empty_on(s, b.input, TN_UINT8, TN_INTS(0)));
}

/* ---- backward ---- */

typedef struct batch_norm_gradient {
    tn_tensor *grad, *input, *weight, *mean, *invstd;
    int32_t training;
    tn_bools mask;
} batch_norm_gradient;

/*
 * weight * invstd * (grad - mean(grad) - x^ * mean(grad * x^)); in evaluation the statistics are constants.
 */
static void give_gradient(tn_scope *s, const batch_norm_gradient *g, tn_value *outs)
{
    tn_tensor *grad = wide(s, g->grad), *mean = over_channels(s, g->mean, g->input);
    tn_tensor *invstd = over_channels(s, g->invstd, g->input),
              *weight = over_channels(s, g->weight, g->input);
    tn_tensor *x = tn_mul(s, tn_sub(s, wide(s, g->input), mean), invstd), *sum, *sum_x, *out = grad;
    tn_ints dims = tni_dims_except(s, rank_of(g->input), 1);
    int64_t channels = tni_sizes(g->input)[1];
    double n = channels ? (double)tn_tensor_numel(g->input) / (double)channels : 0;
    tn_dtype parameter = g->weight ? dtype_of(g->weight) : dtype_of(g->input);
    sum = keep_sum(s, grad, dims);
    sum_x = keep_sum(s, tn_mul(s, grad, x), dims);
    if (g->training) {
        out = tn_sub(s, grad, tn_div_scalar(s, sum, n));
        out = tn_sub(s, out, tn_mul(s, x, tn_div_scalar(s, sum_x, n)));
    }
    out = tn_mul(s, out, weight ? tn_mul(s, invstd, weight) : invstd);
    if (tn_scope_failed(s)) return;
    if (g->mask.data[0]) give(outs, 0, tni_cast(s, out, dtype_of(g->input)));
    if (g->mask.data[1]) give(outs, 1, tni_cast(s, tn_reshape(s, sum_x, TN_INTS(channels)), parameter));
    if (g->mask.data[2]) give(outs, 2, tni_cast(s, tn_reshape(s, sum, TN_INTS(channels)), parameter));
}

/* (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask) */
void composite_native_batch_norm_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    batch_norm_gradient g = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                             arg_tensor(args, 5), arg_tensor(args, 6), arg_bool(args, 7),
                             arg_bools(args, 9)};
    if (!g.training) {
        tn_tensor *var = wide(s, arg_tensor(args, 4));
        g.mean = arg_tensor(args, 3);
        g.invstd = tn_rsqrt(s, tn_add_scalar(s, var, arg_float(args, 8)));
    }
    if (!tn_scope_failed(s)) give_gradient(s, &g, outs);
}

/* ---- the operators that programs call ---- */

static int32_t check_vector(tn_scope *s, const tn_tensor *t, const char *name, int64_t channels)
{
    if (!t || tn_tensor_numel(t) == channels) return TN_OK;
    return tni_scope_failf(s, TN_E_SHAPE, "%s should contain %lld elements not %lld", name,
                           (long long)channels, (long long)tn_tensor_numel(t));
}

static int32_t check_batch_norm(tn_scope *s, const tn_value *args, const tn_tensor *input, int32_t training)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    static const uint32_t order[] = {2, 3, 0, 1};
    if (rank_of(input) < 2)
        return tni_scope_failf(s, TN_E_SHAPE, "expected at least 2D input (got %lldD input)",
                               (long long)rank_of(input));
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t k = order[i];
        if (k >= 2 && !training && !arg_tensor(args, k + 1))
            return tni_scope_failf(s, TN_E_ARGUMENT, "%s must be defined in evaluation mode", names[k]);
        if (check_vector(s, arg_tensor(args, k + 1), names[k], tni_sizes(input)[1]))
            return tn_scope_failed(s);
    }
    return TN_OK;
}

void composite_batch_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *weight = arg_tensor(args, 1), *bias = arg_tensor(args, 2), *out;
    int32_t training = arg_bool(args, 5);
    if (tn_tensor_numel(input) == 0) { /* empty input: gradients may be needed all the same */
        out = tn_clone(s, input);
        if (weight && tn_tensor_numel(weight)) out = tn_mul(s, out, tn_select(s, weight, 0, 0));
        if (bias && tn_tensor_numel(bias)) out = tn_add(s, out, tn_select(s, bias, 0, 0));
        give(outs, 0, out);
        return;
    }
    if (check_batch_norm(s, args, input, training)) return;
    give(outs, 0,
         tn_native_batch_norm(s, input, weight, bias, arg_tensor(args, 3), arg_tensor(args, 4), training,
                              arg_float(args, 6), arg_float(args, 7))
             .result0);
}

static tn_tensor *repeated(tn_scope *s, tn_tensor *t, int64_t times)
{
    return t ? tn_repeat(s, t, TN_INTS(times)) : NULL;
}

/*
 * Batch norm over one sample with batch * channels channels. The running statistics are means over the
 * samples.
 */
void composite_instance_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *mean = arg_tensor(args, 3), *var = arg_tensor(args, 4), *out;
    tn_tensor *mean_all, *var_all;
    int64_t batch, channels;
    tn_ints size;
    if (!arg_bool(args, 5) && (!mean || !var)) {
        tn_scope_fail(s, TN_E_ARGUMENT,
                      "Expected running_mean and running_var to be defined when use_input_stats is false");
        return;
    }
    if (rank_of(input) < 2) {
        tn_scope_fail(s, TN_E_SHAPE, "instance_norm: expected an input of at least 2 dimensions");
        return;
    }
    batch = tni_sizes(input)[0];
    channels = tni_sizes(input)[1];
    size = tni_sizes_with(s, tni_sizes_with(s, sizes_of(input), 0, 1), 1, batch * channels);
    mean_all = repeated(s, mean, batch);
    var_all = repeated(s, var, batch);
    out = tn_batch_norm(s, tn_reshape(s, tn_contiguous(s, input), size),
                        repeated(s, arg_tensor(args, 1), batch), repeated(s, arg_tensor(args, 2), batch),
                        mean_all, var_all, arg_bool(args, 5), arg_float(args, 6), arg_float(args, 7),
                        arg_bool(args, 8));
    if (arg_bool(args, 5) && mean)
        tn_copy_(s, mean, tn_mean_dim(s, tn_reshape(s, mean_all, TN_INTS(batch, channels)), TN_INTS(0)));
    if (arg_bool(args, 5) && var)
        tn_copy_(s, var, tn_mean_dim(s, tn_reshape(s, var_all, TN_INTS(batch, channels)), TN_INTS(0)));
    give(outs, 0, tn_reshape(s, out, sizes_of(input)));
}
