/* SPDX-License-Identifier: Apache-2.0 */
/* Composites over singular values and eigenvalues: their forms, pseudoinverses, ranks, condition numbers. */
#include <float.h>
#include <string.h>
#include "ops/composite/matrix_batch.h"

/* ---- forms ---- */

void composite_linalg_svd(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn__linalg_svd_result r = tn__linalg_svd(s, arg_tensor(args, 0), .full_matrices = arg_bool(args, 1),
                                             .driver = arg_string(args, 2));
    give(outs, 0, r.U);
    give(outs, 1, r.S);
    give(outs, 2, r.Vh);
}

void composite_linalg_svdvals(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn__linalg_svd(s, arg_tensor(args, 0), .compute_uv = 0, .driver = arg_string(args, 1)).S);
}

static tn_tensor *zero_square(tn_scope *s, const tn_tensor *like, int64_t side)
{
    tn_ints size = tni_sizes_with(s, sizes_of(like), rank_of(like) - 1, side);
    return tni_zeros_on(s, like, 0, tni_sizes_with(s, size, rank_of(like) - 2, side));
}

/* (self, some, compute_uv) -> U, S, V; without vectors they are zeros. */
void composite_svd(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (tni_check_matrices(s, self, "linalg.svd", 0)) return;
    tn__linalg_svd_result r =
        tn__linalg_svd(s, self, .full_matrices = !arg_bool(args, 1), .compute_uv = arg_bool(args, 2));
    give(outs, 1, r.S);
    if (arg_bool(args, 2)) {
        give(outs, 0, r.U);
        give(outs, 2, tni_adjoint(s, r.Vh));
    } else {
        give(outs, 0, zero_square(s, self, tni_sizes(self)[rank_of(self) - 2]));
        give(outs, 2, zero_square(s, self, tni_sizes(self)[rank_of(self) - 1]));
    }
}

void composite_linalg_eigh(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn__linalg_eigh_result r = tn__linalg_eigh(s, arg_tensor(args, 0), .UPLO = arg_string(args, 1));
    give(outs, 0, r.eigenvalues);
    give(outs, 1, r.eigenvectors);
}

void composite_linalg_eigvalsh(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn__linalg_eigh(s, arg_tensor(args, 0), .UPLO = arg_string(args, 1), .compute_v = 0).eigenvalues);
}

void composite_linalg_eigvals(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn__linalg_eigvals(s, arg_tensor(args, 0)));
}

/* ---- what counts as zero ---- */

static double epsilon_of(tn_dtype dtype)
{
    return dtype == TN_FLOAT64 || dtype == TN_COMPLEX128 ? DBL_EPSILON : (double)FLT_EPSILON;
}

static double default_rtol(const tn_tensor *a)
{
    int64_t m = tn_tensor_size(a, -2), n = tn_tensor_size(a, -1);
    return epsilon_of(dtype_of(a)) * (double)(m > n ? m : n);
}

static int32_t check_tolerance(tn_scope *s, const tn_tensor *t, const char *name)
{
    if (t && is_complex(dtype_of(t)))
        return tni_scope_failf(s, TN_E_DTYPE, "linalg: %s tensor of complex type is not supported. Got %s",
                               name, tni_dtype_error_name(dtype_of(t)));
    return TN_OK;
}

/*
 * The bound above which values count as nonzero: the larger of atol and rtol times the largest value
 * (`greatest`), both [..., k] or [..., 1]. Without rtol: its default, or 0 if atol is positive.
 */
static tn_tensor *threshold(tn_scope *s, const tn_tensor *a, tn_tensor *greatest, tn_tensor *atol,
                            tn_tensor *rtol)
{
    double usual = default_rtol(a);
    if (check_tolerance(s, atol, "atol") || check_tolerance(s, rtol, "rtol")) return NULL;
    if (atol) atol = tn_unsqueeze(s, atol, -1);
    if (rtol)
        greatest = tn_mul(s, greatest, tn_unsqueeze(s, rtol, -1));
    else if (atol)
        greatest = tn_where_scalarself(s, tn_gt_scalar(s, atol, 0), 0, tn_mul_scalar(s, greatest, usual));
    else
        greatest = tn_mul_scalar(s, greatest, usual);
    return atol ? tn_maximum(s, greatest, tni_cast(s, atol, greatest ? dtype_of(greatest) : TN_FLOAT32))
                : greatest;
}

/* An optional float as a tensor. */
static tn_tensor *number_or_none(tn_scope *s, const tn_tensor *like, const tn_value *args, uint32_t i)
{
    return arg_given(args, i)
               ? tn_scalar_tensor(s, args[i], .dtype = TN_FLOAT64, .device = tn_tensor_device(like))
               : NULL;
}

/* ---- pseudoinverse ---- */

static tn_tensor *scaled_product(tn_scope *s, tn_tensor *left, tn_tensor *values, tn_tensor *above,
                                 tn_tensor *right)
{
    if (!values || !left) return NULL;
    tn_tensor *inverse = tn_where_scalarother(s, above, tn_reciprocal(s, values), 0);
    inverse = tni_cast(s, inverse, dtype_of(left));
    return tn_matmul(s, tn_mul(s, left, tn_unsqueeze(s, inverse, -2)), right);
}

static tn_tensor *pinv(tn_scope *s, tn_tensor *a, tn_tensor *atol, tn_tensor *rtol, int32_t hermitian)
{
    if (tni_check_matrices(s, a, "linalg.pinv", hermitian)) return NULL;
    if (tn_tensor_numel(a) == 0) return tni_empty_on(s, a, 0, sizes_of(tn_transpose(s, a, -2, -1)));
    if (hermitian) {
        tn__linalg_eigh_result r = tn__linalg_eigh(s, a);
        tn_tensor *size = tn_abs(s, r.eigenvalues),
                  *most = tn_amax(s, size, .dim = TN_INTS(-1), .keepdim = 1);
        return scaled_product(s, r.eigenvectors, r.eigenvalues,
                              tn_gt(s, size, threshold(s, a, most, atol, rtol)),
                              tni_adjoint(s, r.eigenvectors));
    }
    tn__linalg_svd_result r = tn__linalg_svd(s, a);
    tn_tensor *most = tn_narrow(s, r.S, -1, 0, 1);
    return scaled_product(s, tni_adjoint(s, r.Vh), r.S, tn_gt(s, r.S, threshold(s, a, most, atol, rtol)),
                          tni_adjoint(s, r.U));
}

/* (self, atol, rtol, hermitian) */
void composite_linalg_pinv_tensors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, pinv(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2), arg_bool(args, 3)));
}

static tn_tensor *pinv_call(tn_scope *s, tn_tensor *self, tn_tensor *atol, tn_tensor *rtol, int32_t hermitian)
{
    return tn_linalg_pinv_atol_rtol_tensor(s, self, .atol = atol, .rtol = rtol, .hermitian = hermitian);
}

typedef tn_tensor *tolerant_fn(tn_scope *s, tn_tensor *self, tn_tensor *atol, tn_tensor *rtol,
                               int32_t hermitian);

/* (self, atol, rtol, hermitian): the tolerances are numbers. */
static void give_with_numbers(tn_scope *s, const tn_value *args, tn_value *outs, tolerant_fn *function)
{
    tn_tensor *self = arg_tensor(args, 0), *atol = number_or_none(s, self, args, 1),
              *rtol = number_or_none(s, self, args, 2);
    give(outs, 0, function(s, self, atol, rtol, arg_bool(args, 3)));
}

FORWARD(composite_linalg_pinv_floats, give_with_numbers, pinv_call)

/* (self, rcond, hermitian): rcond is a number or a tensor. */
void composite_linalg_pinv(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *rcond = arg_tensor(args, 1);
    if (!rcond) rcond = number_or_none(s, self, args, 1);
    give(outs, 0, pinv_call(s, self, NULL, rcond, arg_bool(args, 2)));
}

void composite_pinverse(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0, pinv_call(s, self, NULL, number_or_none(s, self, args, 1), 0));
}

/* ---- rank ---- */

static tn_tensor *rank_of_matrix(tn_scope *s, tn_tensor *a, tn_tensor *atol, tn_tensor *rtol,
                                 int32_t hermitian)
{
    tn_tensor *values, *most;
    if (tni_check_matrices(s, a, "linalg.matrix_rank", hermitian)) return NULL;
    if (tn_tensor_numel(a) == 0) return tni_zeros_on(s, a, TN_INT64, (tn_ints){tni_sizes(a), rank_of(a) - 2});
    values = hermitian ? tn_abs(s, tn_linalg_eigvalsh(s, a)) : tn_linalg_svdvals(s, a);
    most = tn_amax(s, values, .dim = TN_INTS(-1), .keepdim = 1);
    return tn_sum_dim(s, tn_gt(s, values, threshold(s, a, most, atol, rtol)), TN_INTS(-1));
}

/* (input, atol, rtol, hermitian) */
void composite_matrix_rank_tensors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         rank_of_matrix(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2), arg_bool(args, 3)));
}

FORWARD(composite_matrix_rank_floats, give_with_numbers, rank_of_matrix)

/* (self, tol, hermitian): tol is an absolute tolerance, a scalar or a tensor; rtol is 0. */
void composite_matrix_rank(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *tol = arg_tensor(args, 1);
    if (!tol) tol = number_or_none(s, a, args, 1);
    give(outs, 0,
         rank_of_matrix(s, a, tol,
                        tn_zeros(s, TN_NO_INTS, .dtype = TN_FLOAT64, .device = tn_tensor_device(a)),
                        arg_bool(args, 2)));
}

/* ---- condition ---- */

static tn_tensor *cond_by_values(tn_scope *s, tn_tensor *a, int32_t inverted)
{
    tn_tensor *values = tn_linalg_svdvals(s, a), *most, *least;
    most = tn_select(s, values, -1, 0);
    least = tn_select(s, values, -1, -1);
    return inverted ? tn_div(s, least, most) : tn_div(s, most, least);
}

/* Singular matrices have an infinite condition number. */
static tn_tensor *cond_by_inverse(tn_scope *s, tn_tensor *a, tn_value p, const char *named)
{
    if (tni_check_matrices(s, a, "linalg.cond", 1)) return NULL;
    tn_linalg_inv_ex_result r = tn_linalg_inv_ex(s, a);
    tn_tensor *own =
        named ? tn_linalg_matrix_norm_str_ord(s, a, .ord = named) : tn_linalg_matrix_norm(s, a, p);
    tn_tensor *other = named ? tn_linalg_matrix_norm_str_ord(s, r.inverse, .ord = named)
                             : tn_linalg_matrix_norm(s, r.inverse, p);
    return tn_where_scalarother(s, tn_eq_scalar(s, r.info, 0), tn_mul(s, own, other), INFINITY);
}

static tn_tensor *nothing_of(tn_scope *s, const tn_tensor *a)
{
    return tni_zeros_on(s, a, tni_dtype_to_real(dtype_of(a)), (tn_ints){tni_sizes(a), rank_of(a) - 2});
}

void composite_linalg_cond(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0);
    double p = arg_given(args, 1) ? tn_value_as_float(args[1]) : 2;
    if (tni_check_matrices(s, a, "linalg.cond", 0)) return;
    if (tn_tensor_numel(a) == 0)
        give(outs, 0, nothing_of(s, a));
    else
        give(outs, 0, fabs(p) == 2 ? cond_by_values(s, a, p < 0) : cond_by_inverse(s, a, args[1], NULL));
}

void composite_linalg_cond_named(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0);
    if (tni_check_matrices(s, a, "linalg.cond", 1)) return;
    give(outs, 0,
         tn_tensor_numel(a) == 0 ? nothing_of(s, a)
                                 : cond_by_inverse(s, a, tn_value_none(), arg_string(args, 1)));
}
