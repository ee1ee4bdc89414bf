/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: norms of matrices, and norms over all dimensions but one. */
#include <math.h>
#include <string.h>
#include "ops/composite/compute_dtype.h"

/* ---- matrix norms ---- */

/* The two dims of a matrix norm, wrapped and different. */
static int32_t matrix_dims(tn_scope *s, const tn_tensor *self, tn_ints dims, int64_t out[2])
{
    if (rank_of(self) < 2)
        return tn_scope_fail(s, TN_E_SHAPE,
                             "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.");
    if (dims.count != 2)
        return tni_scope_failf(s, TN_E_ARGUMENT, "linalg.matrix_norm: dim must be a 2-tuple. Got %s",
                               tni_ints_text(s, dims));
    out[0] = tni_dim(s, dims.data[0], rank_of(self));
    out[1] = tni_dim(s, dims.data[1], rank_of(self));
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (out[0] == out[1])
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "linalg.matrix_norm: dims must be different. Got (%lld, %lld)",
                               (long long)dims.data[0], (long long)dims.data[1]);
    return TN_OK;
}

static int32_t check_matrix(tn_scope *s, const tn_tensor *self, tn_dtype dtype)
{
    if (is_integer(dtype_of(self)))
        return tni_scope_failf(
            s, TN_E_DTYPE, "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got %s",
            tni_dtype_error_name(dtype_of(self)));
    if (dtype && (is_integer(dtype) || is_complex(dtype) != is_complex(dtype_of(self))))
        return tni_scope_failf(s, TN_E_DTYPE, "linalg.matrix_norm: dtype should be %s, but got %s",
                               is_complex(dtype_of(self)) ? "complex" : "real", tni_dtype_error_name(dtype));
    return TN_OK;
}

/* ord 1 and inf: the largest (negative ord: smallest) sum of absolute values along one of the dims. */
static tn_tensor *sum_norm(tn_scope *s, tn_tensor *self, double ord, const int64_t dims[2], int32_t keep)
{
    int64_t first = fabs(ord) == 1 ? dims[0] : dims[1], second = fabs(ord) == 1 ? dims[1] : dims[0];
    tn_tensor *sums =
        tn_linalg_vector_norm(s, self, .ord = TN_SCALAR(1.0), .dim = TN_INTS(first), .keepdim = keep);
    if (ord > 0 && tni_sizes(self)[second] == 0) { /* the maximum of no elements */
        sums = tn_sum_dim(s, self, TN_INTS(first, second), .keepdim = keep);
        return sums ? tni_cast(s, sums, tni_dtype_to_real(dtype_of(self))) : NULL;
    }
    if (!keep && second > first) second--;
    if (ord < 0) return tn_amin(s, sums, .dim = TN_INTS(second), .keepdim = keep);
    return tn_amax(s, sums, .dim = TN_INTS(second), .keepdim = keep);
}

/* Orders of singular values: the largest (2), the smallest (-2), their sum (0, the nuclear norm). */
static tn_tensor *value_norm(tn_scope *s, tn_tensor *self, double ord, const int64_t dims[2], int32_t keep)
{
    int64_t rank = rank_of(self), low = dims[0] < dims[1] ? dims[0] : dims[1], high = dims[0] + dims[1] - low;
    tn_tensor *values, *norm;
    if (ord > 0 && (tni_sizes(self)[low] == 0 || tni_sizes(self)[high] == 0)) /* no singular values */
        return tni_cast(s, tn_sum_dim(s, self, TN_INTS(low, high), .keepdim = keep),
                        tni_dtype_to_real(dtype_of(self)));
    self = tn_movedim_intlist(s, self, TN_INTS(dims[0], dims[1]), TN_INTS(rank - 2, rank - 1));
    values = tn_linalg_svdvals(s, self);
    norm = ord == 0  ? tn_sum_dim(s, values, TN_INTS(-1))
           : ord > 0 ? tn_amax(s, values, .dim = TN_INTS(-1))
                     : tn_amin(s, values, .dim = TN_INTS(-1));
    return keep ? tn_unsqueeze(s, tn_unsqueeze(s, norm, low), high) : norm;
}

static tn_tensor *matrix_norm(tn_scope *s, tn_tensor *self, double ord, tn_ints dim, int32_t keep,
                              tn_dtype dtype)
{
    int64_t dims[2];
    if (check_matrix(s, self, dtype) || matrix_dims(s, self, dim, dims)) return NULL;
    if (dtype) self = tni_cast(s, self, dtype);
    if (fabs(ord) == 1 || isinf(ord)) return sum_norm(s, self, ord, dims, keep);
    if (fabs(ord) == 2) return value_norm(s, self, ord, dims, keep);
    tni_scope_failf(s, TN_E_ARGUMENT, "linalg.matrix_norm: Order %g not supported.", ord);
    return NULL;
}

static tn_tensor *matrix_norm_named(tn_scope *s, tn_tensor *self, const char *ord, tn_ints dim, int32_t keep,
                                    tn_dtype dtype)
{
    int64_t dims[2];
    if (check_matrix(s, self, dtype) || matrix_dims(s, self, dim, dims)) return NULL;
    if (strcmp(ord, "fro") == 0)
        return tn_linalg_vector_norm(s, self, .ord = TN_SCALAR(2.0), .dim = (tn_ints){dims, 2},
                                     .keepdim = keep, .dtype = dtype);
    if (strcmp(ord, "nuc") == 0) return value_norm(s, dtype ? tni_cast(s, self, dtype) : self, 0, dims, keep);
    tni_scope_failf(s, TN_E_ARGUMENT, "linalg.matrix_norm: Order %s not supported. (Expected fro or nuc.)",
                    ord);
    return NULL;
}

void composite_linalg_matrix_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    if (args[1].tag == TN_TAG_COMPLEX)
        return (void)tn_scope_fail(s, TN_E_ARGUMENT,
                                   "linalg.matrix_norm: Expected a non-complex scalar as the order of norm.");
    give(outs, 0,
         matrix_norm(s, arg_tensor(args, 0), arg_float(args, 1), arg_ints(args, 2), arg_bool(args, 3),
                     arg_dtype(args, 4)));
}

void composite_linalg_matrix_norm_str_ord(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         matrix_norm_named(s, arg_tensor(args, 0), arg_string(args, 1), arg_ints(args, 2), arg_bool(args, 3),
                           arg_dtype(args, 4)));
}

/* A vector norm over one dim or without ord; a matrix norm over two dims. */
void composite_linalg_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints dim = arg_ints(args, 2);
    int32_t keep = arg_bool(args, 3), has_dim = arg_given(args, 2);
    tn_dtype dtype = arg_dtype(args, 4);
    if (has_dim && dim.count != 1 && dim.count != 2 && arg_given(args, 1)) {
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "linalg.norm: If dim is specified, it must be of length 1 or 2. Got %s",
                        tni_ints_text(s, dim));
        return;
    }
    if (!has_dim && arg_given(args, 1) && rank_of(self) != 1 && rank_of(self) != 2) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got %lldD.",
            (long long)rank_of(self));
        return;
    }
    if (arg_given(args, 1) && (has_dim ? dim.count : rank_of(self)) == 2)
        give(outs, 0, matrix_norm(s, self, arg_float(args, 1), has_dim ? dim : TN_INTS(0, 1), keep, dtype));
    else
        give(outs, 0,
             tn_linalg_vector_norm(s, self, .ord = arg_given(args, 1) ? args[1] : tn_value_float(2),
                                   .dim = dim, .keepdim = keep, .dtype = dtype));
}

void composite_linalg_norm_ord_str(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (arg_given(args, 2) ? arg_ints(args, 2).count != 2 : rank_of(self) != 2) {
        tn_scope_fail(
            s, TN_E_ARGUMENT,
            "linalg.norm: 'fro' and 'nuc' are norms of matrices: two dims, or an input of two dimensions");
        return;
    }
    give(outs, 0,
         matrix_norm_named(s, self, arg_string(args, 1),
                           arg_given(args, 2) ? arg_ints(args, 2) : TN_INTS(0, 1), arg_bool(args, 3),
                           arg_dtype(args, 4)));
}

void composite_frobenius_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    if (args[1].count > 2)
        return (void)tni_scope_failf(
            s, TN_E_ARGUMENT, "Expected at most 2 dimensions, but got %u dimensions instead.", args[1].count);
    give(outs, 0,
         tn_linalg_vector_norm(s, arg_tensor(args, 0), .ord = TN_SCALAR(2.0), .dim = arg_ints(args, 1),
                               .keepdim = arg_bool(args, 2)));
}

void composite_nuclear_norm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_linalg_matrix_norm_str_ord(s, arg_tensor(args, 0), .ord = "nuc", .dim = TN_INTS(-2, -1),
                                       .keepdim = arg_bool(args, 1)));
}

void composite_nuclear_norm_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_linalg_matrix_norm_str_ord(s, arg_tensor(args, 0), .ord = "nuc", .dim = arg_ints(args, 1),
                                       .keepdim = arg_bool(args, 2)));
}

/* ---- all dimensions but one ---- */

void composite_norm_except_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *v = arg_tensor(args, 0);
    tn_value p = tn_value_int(arg_int(args, 1));
    int64_t dim = arg_int(args, 2);
    if (dim == -1) {
        give(outs, 0, tn_norm(s, v, .p = p));
    } else if (!rank_of(v)) {
        tni_scope_failf(s, TN_E_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                        (long long)dim);
    } else if (rank_of(v) == 1) { /* no other dimension: an empty list would stand for all */
        tni_dim(s, dim, 1);
        give(outs, 0, tn_norm_dim(s, tn_unsqueeze(s, v, 1), p, TN_INTS(1)));
    } else {
        give(outs, 0,
             tn_norm_dim(s, v, p, tni_dims_except(s, rank_of(v), tni_dim(s, dim, rank_of(v))), .keepdim = 1));
    }
}

/* Slices along dim with a norm above maxnorm are scaled to maxnorm. */
void composite_renorm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *norm, *factor;
    double max = arg_float(args, 3), p = arg_float(args, 1);
    tn_dtype dtype = dtype_of(self);
    int64_t dim = tni_dim(s, arg_int(args, 2), rank_of(self));
    if (tn_scope_failed(s)) return;
    if (args[1].tag == TN_TAG_COMPLEX) {
        tn_scope_fail(s, TN_E_ARGUMENT, "renorm: p must be real-valued");
    } else if (!(p > 0)) {
        tn_scope_fail(s, TN_E_ARGUMENT, "renorm: non-positive-norm not supported");
    } else if (args[3].tag == TN_TAG_COMPLEX) {
        tn_scope_fail(s, TN_E_ARGUMENT, "renorm: maxnorm must be real-valued");
    } else if (!(max >= 0)) {
        tni_scope_failf(s, TN_E_ARGUMENT, "renorm: expected maxnorm to be >= 0 but got %g", max);
    } else if (rank_of(self) < 2) {
        tni_scope_failf(s, TN_E_SHAPE, "renorm: input needs at least 2 dimensions, got %lld dimensions",
                        (long long)rank_of(self));
    } else {
        self = wide(s, self);
        norm = tn_linalg_vector_norm(s, self, .ord = args[1], .dim = tni_dims_except(s, rank_of(self), dim),
                                     .keepdim = 1);
        factor = tn_mul_scalar(s, tn_reciprocal(s, tn_add_scalar(s, norm, 1e-7)), max);
        factor = tn_where_scalarother(s, tn_gt_scalar(s, norm, max), factor, 1.0);
        self = tn_mul(s, self, factor);
        give(outs, 0, self ? tni_cast(s, self, dtype) : NULL);
    }
}

/* (self, ord, dim, keepdim, dtype) */
void composite_powsum(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (arg_dtype(args, 4)) self = tni_cast(s, self, arg_dtype(args, 4));
    tn_tensor *powers = tn_pow_tensor_scalar(s, tn_abs(s, self), args[1]);
    give(outs, 0, tn_sum_dim(s, powers, arg_ints(args, 2), .keepdim = arg_bool(args, 3)));
}
