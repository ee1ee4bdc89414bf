/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: distances between vectors, of all pairs or of rows one by one. */
#include <math.h>
#include "ops/composite/compute_dtype.h"

/* The p-norm of differences over the last dimension. */
static tn_tensor *norm_of(tn_scope *s, tn_tensor *difference, double p)
{
    tn_tensor *size;
    tn_ints last = TN_INTS(-1);
    if (!difference) return NULL;
    if (p == 0) return tn_sum_dim(s, tni_cast(s, tn_ne_scalar(s, difference, 0), dtype_of(difference)), last);
    size = tn_abs(s, difference);
    if (p == 1) return tn_sum_dim(s, size, last);
    if (isinf(p) && tni_sizes(difference)[rank_of(difference) - 1] == 0) return tn_sum_dim(s, size, last);
    if (isinf(p)) return tn_amax(s, size, .dim = last);
    if (p == 2) return tn_sqrt(s, tn_sum_dim(s, tn_mul(s, difference, difference), last));
    return tn_pow_tensor_scalar(s, tn_sum_dim(s, tn_pow_tensor_scalar(s, size, p), last), 1 / p);
}

/* d norm / d difference, times grad; grad and norm end in a dimension of size 1. Zero where the norm is 0. */
static tn_tensor *norm_gradient(tn_scope *s, tn_tensor *difference, tn_tensor *norm, double p,
                                tn_tensor *grad)
{
    tn_tensor *size = tn_abs(s, difference), *slope = tn_sign(s, difference), *out;
    if (p == 0) return tn_mul(s, tn_zeros_like(s, difference), grad);
    if (p == 1) return tn_mul(s, grad, slope);
    if (isinf(p)) return tn_mul(s, tn_mul(s, grad, slope), tni_cast(s, tn_eq(s, size, norm), dtype_of(grad)));
    if (p == 2) {
        out = tn_div(s, tn_mul(s, grad, difference), norm);
    } else {
        out = tn_mul(s, tn_mul(s, slope, tn_pow_tensor_scalar(s, size, p - 1)), grad);
        out = tn_div(s, out, tn_pow_tensor_scalar(s, norm, p - 1));
        if (p < 1) out = tn_where_scalarself(s, tn_eq_scalar(s, difference, 0), 0, out);
    }
    return tn_where_scalarself(s, tn_eq_scalar(s, norm, 0), 0, out);
}

/* ---- all pairs of two sets ---- */

/* [..., P, 1, M] - [..., 1, R, M] */
static tn_tensor *all_differences(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return tn_sub(s, tn_unsqueeze(s, a, -2), tn_unsqueeze(s, b, -3));
}

/* Replaces NaN by 0: the largest difference of cdist ignores NaN, as in ATen; that of pdist does not. */
static tn_tensor *without_nan(tn_scope *s, tn_tensor *difference)
{
    return tn_where_scalarself(s, tn_isnan(s, difference), 0, difference);
}

static int32_t check_cdist(tn_scope *s, const tn_tensor *a, const tn_tensor *b, double p)
{
    const tn_tensor *both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (!is_float(dtype_of(both[i])))
            return tni_scope_failf(s, TN_E_DTYPE, "cdist only supports floating-point dtypes, X%d got: %s",
                                   i + 1, tni_dtype_error_name(dtype_of(both[i])));
    }
    for (int i = 0; i < 2; i++) {
        if (rank_of(both[i]) < 2)
            return tni_scope_failf(s, TN_E_SHAPE, "cdist only supports at least 2D tensors, X%d got: %lldD",
                                   i + 1, (long long)rank_of(both[i]));
    }
    if (tni_sizes(a)[rank_of(a) - 1] != tni_sizes(b)[rank_of(b) - 1])
        return tni_scope_failf(
            s, TN_E_SHAPE, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
            (long long)tni_sizes(a)[rank_of(a) - 1], (long long)tni_sizes(b)[rank_of(b) - 1]);
    if (!(p >= 0)) return tn_scope_fail(s, TN_E_ARGUMENT, "cdist only supports non-negative p values");
    return TN_OK;
}

/* Large sets use a matrix product: |a|^2 - 2 ab + |b|^2. */
static int32_t by_product(const tn_tensor *a, const tn_tensor *b, double p, int64_t mode)
{
    int64_t rows_a = tni_sizes(a)[rank_of(a) - 2], rows_b = tni_sizes(b)[rank_of(b) - 2];
    return p == 2 && (mode == 1 || (mode == 0 && (rows_a > 25 || rows_b > 25)));
}

void composite_cdist(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    double p = arg_float(args, 2);
    int64_t mode = arg_int_or(args, 3, 0);
    if (check_cdist(s, a, b, p)) return;
    if (by_product(a, b, p, mode) && tn_tensor_numel(a) && tn_tensor_numel(b))
        give(outs, 0, tn__euclidean_dist(s, a, b));
    else
        give(outs, 0, tn__cdist_forward(s, a, b, p, mode));
}

void composite_cdist_forward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    double p = arg_float(args, 2);
    if (check_cdist(s, a, b, p)) return;
    if (by_product(a, b, p, arg_int_or(args, 3, 0)) && tn_tensor_numel(a) && tn_tensor_numel(b))
        give(outs, 0, tn__euclidean_dist(s, a, b));
    else
        give(outs, 0,
             norm_of(s, isinf(p) ? without_nan(s, all_differences(s, a, b)) : all_differences(s, a, b), p));
}

void composite_cdist_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = tn_unsqueeze(s, arg_tensor(args, 0), -1),
              *norm = tn_unsqueeze(s, arg_tensor(args, 4), -1);
    tn_tensor *difference = all_differences(s, arg_tensor(args, 1), arg_tensor(args, 2));
    if (tn_scope_failed(s)) return;
    give(outs, 0, tn_sum_dim(s, norm_gradient(s, difference, norm, arg_float(args, 3), grad), TN_INTS(-2)));
}

/* One product of [-2 a, |a|^2, 1] and [b, 1, |b|^2]. */
void composite_euclidean_dist(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *squares;
    tn_tensor *norm_a = keep_sum(s, tn_mul(s, a, a), TN_INTS(-1)),
              *norm_b = keep_sum(s, tn_mul(s, b, b), TN_INTS(-1));
    if (tn_scope_failed(s)) return;
    a = tn_cat(s, TN_TENSORS(tn_mul_scalar(s, a, -2), norm_a, tn_ones_like(s, norm_a)), .dim = -1);
    b = tn_cat(s, TN_TENSORS(b, tn_ones_like(s, norm_b), norm_b), .dim = -1);
    squares = tn_matmul(s, a, tn_transpose(s, b, -2, -1));
    give(outs, 0, tn_sqrt(s, tn_clamp_min(s, squares, 0)));
}

/* ---- pairs within one set ---- */

void composite_pdist(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    double p = arg_float(args, 1);
    if (rank_of(self) != 2)
        tni_scope_failf(s, TN_E_SHAPE, "pdist only supports 2D tensors, got: %lldD",
                        (long long)rank_of(self));
    else if (!is_float(dtype_of(self)))
        tn_scope_fail(s, TN_E_DTYPE, "pdist only supports floating-point dtypes");
    else if (!(p >= 0))
        tn_scope_fail(s, TN_E_ARGUMENT, "pdist only supports non-negative p values");
    else
        give(outs, 0, tn__pdist_forward(s, tn_contiguous(s, self), .p = p));
}

typedef struct row_pairs {
    tn_tensor *first, *second; /* indices of rows, first < second, in row-major order of pairs */
} row_pairs;

static row_pairs pairs_of(tn_scope *s, const tn_tensor *self)
{
    int64_t n = tni_sizes(self)[0];
    tn_tensor *both = tn_triu_indices(s, n, n, .offset = 1, .device = tn_tensor_device(self));
    return (row_pairs){tn_select(s, both, 0, 0), tn_select(s, both, 0, 1)};
}

static tn_tensor *pair_differences(tn_scope *s, tn_tensor *self, row_pairs p)
{
    return tn_sub(s, tn_index_select(s, self, 0, p.first), tn_index_select(s, self, 0, p.second));
}

void composite_pdist_forward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0, norm_of(s, pair_differences(s, self, pairs_of(s, self)), arg_float(args, 1)));
}

void composite_pdist_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = tn_unsqueeze(s, arg_tensor(args, 0), -1), *self = arg_tensor(args, 1);
    tn_tensor *norm = tn_unsqueeze(s, arg_tensor(args, 3), -1), *out = tn_zeros_like(s, self), *part;
    row_pairs p = pairs_of(s, self);
    tn_tensor *difference = pair_differences(s, self, p);
    if (tn_scope_failed(s)) return;
    part = norm_gradient(s, difference, norm, arg_float(args, 2), grad);
    out = tn_index_add(s, out, 0, p.first, part);
    give(outs, 0, tn_index_add(s, out, 0, p.second, part, .alpha = TN_SCALAR(-1)));
}

/* ---- one with one ---- */

void composite_pairwise_distance(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    int64_t rank = rank_of(a) > rank_of(b) ? rank_of(a) : rank_of(b);
    tn_tensor *difference = tn_add_scalar(s, tn_sub(s, a, b), arg_float(args, 3));
    give(outs, 0,
         tn_norm_dim(s, difference, tn_value_float(arg_float(args, 2)), TN_INTS(rank - 1),
                     .keepdim = arg_bool(args, 4)));
}

/* The norms, at least eps. As in ATen, the gradient ignores the bound. */
static tn_tensor *bounded_norm(tn_scope *s, tn_tensor *norm, double eps)
{
    tn_tensor *copy = tn_clone(s, norm);
    tn_scope_options silent = {.size = sizeof silent, .grad_mode = TN_GRAD_OFF};
    tn_scope *child = tn_scope_open_child(s, &silent);
    if (!child) return NULL;
    tn_clamp_min_(child, copy, eps);
    tn_scope_close(child);
    return copy;
}

void composite_cosine_similarity(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[] = {arg_tensor(args, 0), arg_tensor(args, 1)};
    tn_dtype dtype = tni_common_dtype(s, x[0], x[1]);
    tn_ints dim = TN_INTS(arg_int(args, 2)), size;
    if (!is_float(dtype)) {
        tni_scope_failf(s, TN_E_DTYPE, "expected common dtype to be floating point, yet common dtype is %s",
                        tni_dtype_error_name(dtype));
        return;
    }
    size = tni_broadcast_sizes(s, sizes_of(x[0]), sizes_of(x[1]));
    if (tn_scope_failed(s)) return;
    for (int i = 0; i < 2; i++) {
        tn_tensor *norm;
        x[i] = tn_expand(s, x[i], size);
        if (x[i] && is_integer(dtype_of(x[i]))) x[i] = tni_cast(s, x[i], dtype);
        norm = tn_linalg_vector_norm(s, x[i], .ord = TN_SCALAR(2), .dim = dim, .keepdim = 1);
        x[i] = tn_div(s, x[i], bounded_norm(s, norm, arg_float(args, 3)));
    }
    give(outs, 0, tn_sum_dim(s, tn_mul(s, x[0], x[1]), dim));
}
