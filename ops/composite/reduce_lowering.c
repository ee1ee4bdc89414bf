/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: reductions over sums and extremes, for devices without kernels of their own (moments, norms,
 * counts, extremes with indices).
 */
#include <math.h>
#include "ops/composite/pointwise_lowering.h"

/* ---- moments: (self, dims, correction, keepdim) ---- */

static tn_tensor *mean_of(tn_scope *s, const tn_value *args, int32_t keepdim)
{
    return tn_mean_dim(s, wide(s, arg_tensor(args, 0)), arg_ints(args, 1), .keepdim = keepdim);
}

/* The sum of squared differences from the mean, divided by the number of elements minus the correction. */
static tn_tensor *variance(tn_scope *s, const tn_value *args)
{
    tn_tensor *self = arg_tensor(args, 0), *apart = tn_sub(s, wide(s, self), mean_of(s, args, 1));
    int64_t count = tni_numel_of(sizes_of(self), tni_dims(s, arg_ints(args, 1), rank_of(self)));
    double divisor = (double)count - arg_float_or(args, 2, 1);
    if (tn_scope_failed(s)) return NULL;
    if (is_complex(dtype_of(self))) apart = tn_view_as_real(s, apart);
    tn_tensor *squares = tn_mul(s, apart, apart);
    if (is_complex(dtype_of(self))) squares = tn_sum_dim(s, squares, TN_INTS(-1));
    tn_tensor *sum = tn_sum_dim(s, squares, arg_ints(args, 1), .keepdim = arg_bool(args, 3));
    return tn_div_scalar(s, sum, divisor > 0 ? divisor : 0.0);
}

static void give_moment(tn_scope *s, const tn_value *args, tn_value *outs, tn_tensor *t)
{
    formula_give(s, outs, t, tni_dtype_to_real(dtype_of(arg_tensor(args, 0))));
}

static void give_mean(tn_scope *s, const tn_value *args, tn_value *outs)
{
    formula_give(s, &outs[1], mean_of(s, args, arg_bool(args, 3)), dtype_of(arg_tensor(args, 0)));
}

void composite_var_correction(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_moment(s, args, outs, variance(s, args));
}
void composite_std_correction(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_moment(s, args, outs, tn_sqrt(s, variance(s, args)));
}
void composite_var_mean_correction(tn_scope *s, const tn_value *args, tn_value *outs)
{
    composite_var_correction(s, args, outs);
    give_mean(s, args, outs);
}
void composite_std_mean_correction(tn_scope *s, const tn_value *args, tn_value *outs)
{
    composite_std_correction(s, args, outs);
    give_mean(s, args, outs);
}

/* ---- norms: they overflow where the dtype does ---- */

/* Whether each result is of one element, whose norm is its size, however large. */
static int32_t is_of_one(tn_scope *s, const tn_tensor *t, tn_ints dims)
{
    const int64_t rank = t ? rank_of(t) : 0;
    return t && tni_numel_of((tn_ints){tn_desc(t)->sizes, rank}, tni_dims(s, dims, rank)) == 1;
}

static tn_tensor *norm_of(tn_scope *s, tn_tensor *t, double order, tn_ints dims, int32_t keepdim)
{
    if (order == INFINITY && t && tn_tensor_numel(t) == 0) return tn_sum_dim(s, t, dims, .keepdim = keepdim);
    if (order == INFINITY) return tn_amax(s, t, .dim = dims, .keepdim = keepdim);
    if (order == -INFINITY) return tn_amin(s, t, .dim = dims, .keepdim = keepdim);
    if (order == 0) return tn_sum_dim(s, tn_ne_scalar(s, t, 0), dims, .keepdim = keepdim);
    if (order == 1 || is_of_one(s, t, dims)) return tn_sum_dim(s, t, dims, .keepdim = keepdim);
    if (order == 2) return tn_sqrt(s, tn_sum_dim(s, tn_mul(s, t, t), dims, .keepdim = keepdim));
    tn_tensor *sum = tn_sum_dim(s, tn_pow_tensor_scalar(s, t, order), dims, .keepdim = keepdim);
    return tn_pow_tensor_scalar(s, sum, 1 / order);
}

void composite_vector_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_dtype dtype = arg_given(args, 4) ? arg_dtype(args, 4) : dtype_of(self);
    tn_tensor *size = tn_abs(s, tni_cast(s, self, wide_dtype(dtype)));
    tn_tensor *norm = norm_of(s, size, arg_float(args, 1), arg_ints(args, 2), arg_bool(args, 3));
    formula_give(s, outs, norm, tni_dtype_to_real(dtype));
}

/* ---- sums and counts ---- */

void composite_nansum(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (!is_integer(dtype_of(self))) self = zero_where(s, tn_isnan(s, self), self);
    give(outs, 0,
         tn_sum_dim(s, self, arg_ints(args, 1), .keepdim = arg_bool(args, 2), .dtype = arg_dtype(args, 3)));
}

void composite_count_nonzero_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_sum_dim(s, tn_ne_scalar(s, arg_tensor(args, 0), 0), arg_ints(args, 1)));
}

/* ---- extremes ---- */

void composite_aminmax(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints dims = arg_given(args, 1) ? arg_ints(args, 1) : TN_NO_INTS;
    give(outs, 0, tn_amin(s, self, .dim = dims, .keepdim = arg_bool(args, 2)));
    give(outs, 1, tn_amax(s, self, .dim = dims, .keepdim = arg_bool(args, 2)));
}

/* `index` keeps the dimension. */
static void give_values(tn_scope *s, const tn_value *args, tn_value *outs, tn_tensor *index)
{
    int64_t dim = arg_int(args, 1);
    tn_tensor *values = tn_gather(s, arg_tensor(args, 0), dim, index);
    if (!arg_bool(args, 2)) {
        values = tn_squeeze_dim(s, values, dim);
        index = tn_squeeze_dim(s, index, dim);
    }
    give(outs, 0, values);
    give(outs, 1, index);
}

/* argmax and argmin refuse bool; max and min of a dimension accept it. */
static tn_tensor *ordered(tn_scope *s, const tn_value *args)
{
    tn_tensor *self = arg_tensor(args, 0);
    return dtype_of(self) == TN_BOOL ? tni_cast(s, self, TN_UINT8) : self;
}

void composite_max_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_values(s, args, outs, tn_argmax(s, ordered(s, args), .dim = arg_int(args, 1), .keepdim = 1));
}
void composite_min_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_values(s, args, outs, tn_argmin(s, ordered(s, args), .dim = arg_int(args, 1), .keepdim = 1));
}

/* ---- index_add_ ---- */

/* index_add_(self, dim, index, source, alpha): scatter_add_ with each index expanded over its row. */
void composite_index_add(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *index = arg_tensor(args, 2), *source = arg_tensor(args, 3);
    int64_t rank = rank_of(self), dim = tni_dim(s, arg_int(args, 1), rank);
    if (tn_scope_failed(s)) return;
    if (rank_of(source) < rank) source = tni_reshape(s, source, tni_ones_but(s, rank, -1, 1));
    if (rank > rank_of(source) || !source) return;
    index = tni_reshape(s, tni_cast(s, index, TN_INT64), tni_ones_but(s, rank, dim, tn_tensor_numel(index)));
    index = tn_expand(s, index, sizes_of(source));
    if (!scalar_is(args[4], 1)) source = tn_mul_scalar(s, source, args[4]);
    give(outs, 0, tn_scatter_add_(s, self, dim, index, source));
}
