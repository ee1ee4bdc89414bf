/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: reductions over other reductions (moments, norms, logsumexp, sums over broadcast dimensions,
 * covariance).
 */
#include <math.h>
#include <string.h>
#include "core/shape.h"
#include "ops/composite/composite.h"

void composite_max_other(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_maximum(s, arg_tensor(args, 0), arg_tensor(args, 1)));
}

void composite_min_other(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_minimum(s, arg_tensor(args, 0), arg_tensor(args, 1)));
}

void composite_count_nonzero(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints dims = arg_given(args, 1) ? arg_ints(args, 1) : TN_NO_INTS;
    give(outs, 0, tn_count_nonzero_dim(s, arg_tensor(args, 0), dims));
}

void composite_nanmean(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints dims = arg_ints(args, 1);
    int32_t keepdim = arg_bool(args, 2);
    if (is_integer(dtype_of(self)))
        return (void)tni_scope_failf(
            s, TN_E_DTYPE, "nanmean(): expected input to have floating point or complex dtype but got %s",
            tn_dtype_name(dtype_of(self)));
    if (arg_dtype(args, 3) && is_integer(arg_dtype(args, 3)))
        return (void)tni_scope_failf(
            s, TN_E_DTYPE,
            "nanmean(): could not infer output dtype. Optional dtype must be either a "
            "floating point or complex dtype. Got: %s",
            tni_dtype_error_name(arg_dtype(args, 3)));
    tn_tensor *count =
        tn_sum_dim(s, tn_logical_not(s, tn_isnan(s, tn_detach_default(s, self))), dims, .keepdim = keepdim);
    give(outs, 0,
         tn_div(s, tn_nansum(s, self, .dim = dims, .keepdim = keepdim, .dtype = arg_dtype(args, 3)), count));
}

/* ---- moments ---- */

/* (self, unbiased) or (self, dim, unbiased, keepdim) as a call of `op` (self, dim, correction, keepdim). */
static void give_moments(tn_scope *s, const tn_value *args, tn_value *outs, uint32_t op, uint32_t n_outs)
{
    int32_t all = args[1].tag == TN_TAG_BOOL;
    const tn_value v[] = {args[0], all ? tn_value_none() : args[1], tn_value_int(arg_bool(args, all ? 1 : 2)),
                          all ? tn_value_bool(0) : args[3]};
    tn_scope_call(s, op, v, 4, outs, n_outs);
}

FORWARD(composite_var, give_moments, TN_OP_VAR_CORRECTION, 1)
FORWARD(composite_std, give_moments, TN_OP_STD_CORRECTION, 1)
FORWARD(composite_var_mean, give_moments, TN_OP_VAR_MEAN_CORRECTION, 2)
FORWARD(composite_std_mean, give_moments, TN_OP_STD_MEAN_CORRECTION, 2)

/* ---- norms ---- */

static tn_tensor *vector_norm(tn_scope *s, tn_tensor *self, tn_value order, tn_ints dims, int32_t keepdim,
                              tn_dtype dtype)
{
    return tn_linalg_vector_norm(s, self, .ord = order.tag ? order : tn_value_int(2), .dim = dims,
                                 .keepdim = keepdim, .dtype = dtype);
}

void composite_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, vector_norm(s, arg_tensor(args, 0), args[1], arg_ints(args, 2), arg_bool(args, 3), 0));
}

void composite_norm_dtype(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         vector_norm(s, arg_tensor(args, 0), args[1], arg_ints(args, 2), arg_bool(args, 3),
                     arg_dtype(args, 4)));
}

void composite_norm_scalaropt_dtype(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, vector_norm(s, arg_tensor(args, 0), args[1], (tn_ints){NULL, 0}, 0, arg_dtype(args, 2)));
}

void composite_norm_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, vector_norm(s, arg_tensor(args, 0), args[1], (tn_ints){NULL, 0}, 0, 0));
}

void composite_dist(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *difference = tn_sub(s, arg_tensor(args, 0), arg_tensor(args, 1));
    give(outs, 0, vector_norm(s, difference, args[2], (tn_ints){NULL, 0}, 0, 0));
}

/* ---- logsumexp: the maximum is subtracted first, so that nothing overflows ---- */

void composite_logsumexp(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints dims = arg_ints(args, 1);
    int32_t keepdim = arg_bool(args, 2);
    self = tni_cast(s, self, float_of(s, dtype_of(self)));
    if (!self) return;
    if (tn_tensor_numel(self) == 0)
        return give(outs, 0, tn_log(s, tn_sum_dim(s, tn_exp(s, self), dims, .keepdim = keepdim)));
    tn_tensor *top = tn_amax(s, tn_real(s, self), .dim = dims, .keepdim = 1);
    top = tn_masked_fill_scalar(s, top, tn_isinf(s, top), 0);
    tn_tensor *sum = tn_log(s, tn_sum_dim(s, tn_exp(s, tn_sub(s, self, top)), dims, .keepdim = 1));
    tn_tensor *result = tn_add(s, sum, top);
    if (!result || keepdim) return give(outs, 0, result);
    uint64_t mask = tni_dims(s, dims, rank_of(self));
    int64_t kept[TN_MAX_RANK], n = 0;
    for (int64_t d = 0; d < rank_of(self); d++) {
        if (!(mask >> d & 1)) kept[n++] = tn_tensor_size(self, d);
    }
    give(outs, 0, tni_reshape(s, result, (tn_ints){kept, n}));
}

/* ---- sums over broadcast dimensions ---- */

void composite_sum_to_size(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints size = arg_ints(args, 1);
    int64_t lead = rank_of(self) - size.count, dims[TN_MAX_RANK], n = 0;
    char a[256], b[256];
    int32_t fits = lead >= 0;
    for (int64_t i = 0; i < size.count && fits; i++)
        fits = size.data[i] == tn_tensor_size(self, lead + i) || size.data[i] == 1;
    if (!fits) {
        tni_scope_failf(s, TN_E_SHAPE, "size {%s} is not expandable to size {%s}.",
                        tni_shape_text((uint32_t)size.count, size.data, a, sizeof(a)),
                        tni_shape_text(self->desc.rank, self->desc.sizes, b, sizeof(b)));
        return;
    }
    for (int64_t d = 0; d < rank_of(self); d++) {
        if (d < lead || (size.data[d - lead] == 1 && tn_tensor_size(self, d) != 1)) dims[n++] = d;
    }
    if (size.count == 0) return give(outs, 0, tn_sum(s, self));
    tn_tensor *t = n ? tn_sum_dim(s, self, (tn_ints){dims, n}, .keepdim = 1) : self;
    give(outs, 0, lead ? tni_reshape(s, t, size) : t);
}

void composite_value_selecting_reduction_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *indices = arg_tensor(args, 2);
    tn_ints sizes = arg_ints(args, 3);
    int64_t dim = arg_int(args, 1);
    if (!arg_bool(args, 4) && sizes.count > 0) {
        grad = tn_unsqueeze(s, grad, dim);
        indices = tn_unsqueeze(s, indices, dim);
    }
    give(outs, 0, tn_scatter(s, tni_zeros_on(s, arg_tensor(args, 0), 0, sizes), dim, indices, grad));
}

/* ---- covariance ---- */

/* Whether all elements are 0 or more; false on a failed scope. Reads from the device, as ATen does. */
static int32_t is_non_negative(tn_scope *s, tn_tensor *w)
{
    return !tn_tensor_numel(w) || tn_item_int(s, tn_all(s, tn_ge_scalar(s, w, 0)));
}

/* fweights are integers, aweights floating. */
static int32_t check_weights(tn_scope *s, tn_tensor *w, const char *name, int32_t floating,
                             int64_t observations)
{
    if (!w) return TN_OK;
    if (rank_of(w) > 1)
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "cov(): expected %s to have one or fewer dimensions but got %s with %lld dimensions", name, name,
            (long long)rank_of(w));
    if (tn_tensor_numel(w) != observations)
        return tni_scope_failf(s, TN_E_SHAPE,
                               "cov(): expected %s to have the same numel as there are observations in the "
                               "input but got %lld != %lld",
                               name, (long long)tn_tensor_numel(w), (long long)observations);
    if (floating ? !is_float(dtype_of(w)) : !is_integer(dtype_of(w)) || dtype_of(w) == TN_BOOL)
        return tni_scope_failf(s, TN_E_DTYPE, "cov(): expected %s to have %s dtype but got %s with %s dtype",
                               name, floating ? "floating point" : "integral", name,
                               tni_dtype_error_name(dtype_of(w)));
    if (!is_non_negative(s, w))
        return tni_scope_failf(s, TN_E_ARGUMENT, "cov(): %s cannot be negative", name);
    return TN_OK;
}

/* Weights of the observations, or NULL. */
static tn_tensor *weights_of(tn_scope *s, tn_tensor *frequency, tn_tensor *weight)
{
    if (!frequency) return weight;
    return weight ? tn_mul(s, frequency, weight) : frequency;
}

static tn_tensor *covariance(tn_scope *s, tn_tensor *self, int64_t correction, tn_tensor *frequency,
                             tn_tensor *weight)
{
    if (rank_of(self) > 2)
        return tni_scope_failf(s, TN_E_SHAPE,
                               "cov(): expected input to have two or fewer dimensions but got an input with "
                               "%lld dimensions",
                               (long long)rank_of(self)),
               NULL;
    if (dtype_of(self) == TN_BOOL)
        return tn_scope_fail(s, TN_E_DTYPE, "cov(): bool dtype is not supported for input"), NULL;
    tn_tensor *in = rank_of(self) < 2 ? tni_reshape(s, self, TN_INTS(1, -1)) : self;
    if (!in) return NULL;
    int64_t n = tn_tensor_size(in, 1);
    if (check_weights(s, frequency, "fweights", 0, n) || check_weights(s, weight, "aweights", 1, n))
        return NULL;
    tn_tensor *w = weights_of(s, frequency, weight), *total = w ? tn_sum(s, w) : NULL, *norm;
    if (total && !tn_item_int(s, tn_ne_scalar(s, total, 0)))
        return tn_scope_fail(s, TN_E_ARGUMENT, "cov(): weights sum to zero, can't be normalized"), NULL;
    /* The weighted average; integers become the default dtype. */
    tn_tensor *sum = tn_sum_dim(s, w ? tn_mul(s, in, w) : in, TN_INTS(1));
    tn_tensor *mean = w ? tn_div(s, sum, total) : tn_div_scalar(s, sum, n);
    if (!w)
        norm = tn_scalar_tensor_of(s, tn_value_int((int64_t)((uint64_t)n - (uint64_t)correction)), TN_INT64,
                                   tn_tensor_device(in));
    else if (correction == 0)
        norm = total;
    else if (weight)
        norm =
            tn_sub(s, total, tn_div(s, tn_mul_scalar(s, tn_sum(s, tn_mul(s, w, weight)), correction), total));
    else
        norm = tn_sub_scalar(s, total, correction);
    norm = tn_clamp(s, norm, .min = TN_SCALAR(0));
    in = tn_sub(s, in, tn_unsqueeze(s, mean, 1));
    tn_tensor *right = tn_conj(s, tn_t(s, w ? tn_mul(s, in, w) : in));
    tn_tensor *c = tn_div(s, tn_mm(s, tni_cast(s, in, right ? dtype_of(right) : TN_FLOAT32), right), norm);
    return tn_squeeze(s, c);
}

void composite_cov(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         covariance(s, arg_tensor(args, 0), arg_int(args, 1), arg_tensor(args, 2), arg_tensor(args, 3)));
}

void composite_corrcoef(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (rank_of(self) > 2)
        return (void)tni_scope_failf(s, TN_E_SHAPE,
                                     "corrcoef(): expected input to have two or fewer dimensions but got an "
                                     "input with %lld dimensions",
                                     (long long)rank_of(self));
    tn_tensor *c = covariance(s, self, 1, NULL, NULL);
    if (!c) return;
    if (rank_of(c) == 0) return give(outs, 0, tn_div(s, c, c)); /* one variable: 1, or NaN */
    tn_tensor *deviation = tn_sqrt(s, tn_real(s, tn_diagonal(s, c)));
    c = tn_div(s, tn_div(s, c, tn_unsqueeze(s, deviation, 1)), tn_unsqueeze(s, deviation, 0));
    if (!c || !is_complex(dtype_of(c)))
        return give(outs, 0, c ? tn_clamp(s, c, .min = TN_SCALAR(-1), .max = TN_SCALAR(1)) : NULL);
    tn_tensor *re = tn_clamp(s, tn_real(s, c), .min = TN_SCALAR(-1), .max = TN_SCALAR(1));
    give(outs, 0, tn_complex(s, re, tn_clamp(s, tn_imag(s, c), .min = TN_SCALAR(-1), .max = TN_SCALAR(1))));
}

void composite_aminmax_all(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_aminmax_result r = tn_aminmax(s, arg_tensor(args, 0));
    give(outs, 0, r.min);
    give(outs, 1, r.max);
}

void composite_aminmax_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_aminmax_result r =
        tn_aminmax(s, arg_tensor(args, 0), .dim = arg_int(args, 1), .keepdim = arg_bool(args, 2));
    give(outs, 0, r.min);
    give(outs, 1, r.max);
}
