/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites over factors of matrices: systems of equations, inverses, determinants, QR, and the forms that
 * fail where the `_ex` forms return info. LU, Cholesky and Householder products are kernels.
 */
#include <string.h>
#include "ops/composite/matrix_batch.h"

tn_tensor *tni_adjoint(tn_scope *s, tn_tensor *m)
{
    m = tn_transpose(s, m, -2, -1);
    return m && is_complex(dtype_of(m)) ? tn_conj(s, m) : m;
}

tn_tensor *tni_units_like(tn_scope *s, const tn_tensor *t)
{
    int64_t n = tni_sizes(t)[rank_of(t) - 1];
    tn_tensor *unit = tn_eye(s, n, .dtype = dtype_of(t), .device = tn_tensor_device(t));
    return tn_expand(s, unit, sizes_of(t));
}

int32_t tni_check_matrices(tn_scope *s, const tn_tensor *t, const char *operator, int32_t square)
{
    int64_t rank = rank_of(t);
    const int64_t *sizes = tni_sizes(t);
    if (rank < 2)
        return tni_scope_failf(s, TN_E_SHAPE,
                               "%s: The input tensor A must have at least 2 dimensions.", operator);
    if (square && sizes[rank - 1] != sizes[rank - 2])
        return tni_scope_failf(s, TN_E_SHAPE,
                               "%s: A must be batches of square matrices, but they are %lld by %lld matrices",
                               operator,(long long) sizes[rank - 2], (long long)sizes[rank - 1]);
    if (is_integer(dtype_of(t)))
        return tni_scope_failf(s, TN_E_DTYPE,
                               "%s: Expected a floating point or complex tensor as input. Got %s", operator,
                               tni_dtype_error_name(dtype_of(t)));
    return TN_OK;
}

/* ---- equations ---- */

/* Whether B has one right-hand side (a vector) for each matrix of A. */
static int32_t is_vector_of(const tn_tensor *a, const tn_tensor *b)
{
    tn_ints size = sizes_of(a);
    size.count--;
    return rank_of(b) == 1 || tni_same_sizes(sizes_of(b), size);
}

/* (A, B, left, check_errors) -> result, LU, pivots, info */
void composite_linalg_solve_factors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *x;
    int32_t left = arg_bool(args, 2), vector;
    if (tni_check_matrices(s, a, "linalg.solve", 1)) return;
    vector = is_vector_of(a, b);
    if (vector && !left) {
        tni_scope_failf(s, TN_E_SHAPE,
                        "linalg.solve: Vector broadcasting of the left hand side is not supported for "
                        "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
        return;
    }
    tn_linalg_lu_factor_ex_result lu = tn_linalg_lu_factor_ex(s, a);
    if (vector) b = tn_unsqueeze(s, b, -1);
    x = tn_linalg_lu_solve(s, lu.LU, lu.pivots, b, .left = left);
    if (arg_bool(args, 3)) tn__linalg_check_errors(s, lu.info, "linalg.solve_ex", rank_of(a) == 2);
    give(outs, 0, vector ? tn_squeeze_dim(s, x, -1) : x);
    give(outs, 1, lu.LU);
    give(outs, 2, lu.pivots);
    give(outs, 3, lu.info);
}

void composite_linalg_solve_ex(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn__linalg_solve_ex_result r =
        tn__linalg_solve_ex(s, arg_tensor(args, 0), arg_tensor(args, 1), .left = arg_bool(args, 2),
                            .check_errors = arg_bool(args, 3));
    give(outs, 0, r.result);
    give(outs, 1, r.info);
}

void composite_linalg_solve(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0);
    tn_linalg_solve_ex_result r = tn_linalg_solve_ex(s, a, arg_tensor(args, 1), .left = arg_bool(args, 2));
    tn__linalg_check_errors(s, r.info, "linalg.solve", rank_of(a) == 2);
    give(outs, 0, r.result);
}

/* (A, check_errors) -> inverse, info: the solution for the unit matrix. */
void composite_linalg_inv_ex(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0);
    if (tni_check_matrices(s, a, "linalg.inv", 1)) return;
    tn__linalg_solve_ex_result r = tn__linalg_solve_ex(s, a, tni_units_like(s, a));
    if (arg_bool(args, 1)) tn__linalg_check_errors(s, r.info, "linalg.inv_ex", rank_of(a) == 2);
    give(outs, 0, r.result);
    give(outs, 1, r.info);
}

void composite_linalg_inv(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0);
    tn_linalg_inv_ex_result r = tn_linalg_inv_ex(s, a);
    tn__linalg_check_errors(s, r.info, "linalg.inv", rank_of(a) == 2);
    give(outs, 0, r.inverse);
}

/* (self: B, A, upper, transpose, unitriangular) -> solution, cloned_coefficient */
void composite_triangular_solve(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *b = arg_tensor(args, 0), *a = arg_tensor(args, 1), *op = a, *x;
    int32_t upper = arg_bool(args, 2), transpose = arg_bool(args, 3);
    if (tni_check_matrices(s, a, "triangular_solve", 1)) return;
    if (transpose) op = tn_transpose(s, a, -2, -1);
    x = tn_linalg_solve_triangular(s, op, b, upper != transpose, .unitriangular = arg_bool(args, 4));
    if (!x) return;
    give(outs, 0, x);
    tn_ints size = sizes_of(x);
    size = tni_sizes_with(s, size, size.count - 2, tni_sizes(a)[rank_of(a) - 2]);
    size = tni_sizes_with(s, size, size.count - 1, tni_sizes(a)[rank_of(a) - 1]);
    give(outs, 1, tn_clone(s, tn_expand(s, a, size), .memory_format = TN_CONTIGUOUS_FORMAT));
}

/* Solves F F^H X = B for a triangular factor F. */
static tn_tensor *cholesky_solve(tn_scope *s, tn_tensor *b, tn_tensor *factor, int32_t upper)
{
    tn_tensor *other = tni_adjoint(s, factor), *lower = upper ? other : factor;
    tn_tensor *half = tn_linalg_solve_triangular(s, lower, b, 0);
    return tn_linalg_solve_triangular(s, upper ? factor : other, half, 1);
}

void composite_cholesky_solve(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *factor = arg_tensor(args, 1);
    if (tni_check_matrices(s, factor, "cholesky_solve", 1)) return;
    give(outs, 0, cholesky_solve(s, arg_tensor(args, 0), factor, arg_bool(args, 2)));
}

/* A triangular matrix has an inverse if its diagonal has no zero: refuses others as factorizations do. */
static void check_diagonal(tn_scope *s, tn_tensor *triangle, const char *name)
{
    if (tn_tensor_numel(triangle) == 0) return;
    tn_tensor *zero = tn_eq_scalar(s, tn_diagonal(s, triangle, .dim1 = -2, .dim2 = -1), 0);
    tn_tensor *first = tn_argmax(s, tni_cast(s, zero, TN_INT32), .dim = -1);
    tn_tensor *info = tn_mul(s, tn_add_scalar(s, first, 1), tn_any_dim(s, zero, -1));
    tn__linalg_check_errors(s, tni_cast(s, info, TN_INT32), name, rank_of(triangle) == 2);
}

void composite_cholesky_inverse(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *factor = arg_tensor(args, 0);
    if (tni_check_matrices(s, factor, "cholesky_inverse", 1)) return;
    check_diagonal(s, factor, "cholesky_inverse");
    give(outs, 0, cholesky_solve(s, tni_units_like(s, factor), factor, arg_bool(args, 1)));
}

void composite_lu_solve(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_linalg_lu_solve(s, arg_tensor(args, 1), arg_tensor(args, 2), arg_tensor(args, 0)));
}

static int64_t product(tn_ints size, int64_t first, int64_t end)
{
    int64_t n = 1;
    for (int64_t i = first; i < end; i++) n *= size.data[i];
    return n;
}

/* (self, ind) */
void composite_linalg_tensorinv(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints size = sizes_of(self);
    int64_t at = arg_int(args, 1), n = size.count, rows, columns;
    if (at <= 0) {
        tn_scope_fail(s, TN_E_ARGUMENT, "linalg.tensorinv: expected a strictly positive integer for 'ind'");
        return;
    }
    if (at > n) at = n;
    rows = product(size, 0, at);
    columns = product(size, at, n);
    if (rows != columns) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            "but got %lld != %lld",
            (long long)columns, (long long)rows);
        return;
    }
    int64_t *turned = tni_scope_ints(s, n);
    if (!turned) return;
    for (int64_t i = 0; i < n; i++) turned[i] = size.data[(i + at) % n];
    self = tn_linalg_inv(s, tn_reshape(s, self, TN_INTS(rows, columns)));
    give(outs, 0, tn_reshape(s, self, (tn_ints){turned, n}));
}

/* (self, other, dims) */
void composite_linalg_tensorsolve(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *other = arg_tensor(args, 1), *x;
    tn_ints dims = arg_ints(args, 2), size;
    if (dims.count)
        self =
            tn_movedim_intlist(s, self, dims, tni_dims_between(s, rank_of(self) - dims.count, rank_of(self)));
    if (!self) return;
    size = sizes_of(self);
    int64_t first = rank_of(other) < size.count ? rank_of(other) : size.count, rows = tn_tensor_numel(other);
    int64_t columns = product(size, first, size.count);
    if (product(size, 0, first) != rows || rows != columns) {
        tn_scope_fail(s, TN_E_SHAPE,
                      "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
                      "prod(self.shape[:other.ndim])");
        return;
    }
    x = tn_linalg_solve(s, tn_reshape(s, self, TN_INTS(rows, columns)), tn_reshape(s, other, TN_INTS(rows)));
    give(outs, 0, tn_reshape(s, x, (tn_ints){size.data + first, size.count - first}));
}

/* ---- determinants ---- */

/* The sign of the permutation: -1 if the pivots swap an odd number of rows, else 1. */
static tn_tensor *sign_of(tn_scope *s, tn_tensor *pivots, tn_dtype dtype)
{
    if (!pivots) return NULL;
    int64_t n = tni_sizes(pivots)[rank_of(pivots) - 1];
    tn_tensor *odd = tn_ne(s, pivots, tni_range_on(s, pivots, 1, n));
    odd = tn_remainder_scalar(s, tn_sum_dim(s, odd, TN_INTS(-1)), 2);
    return tn_rsub_scalar(s, tni_cast(s, tn_mul_scalar(s, odd, 2), dtype), 1);
}

static void give_three(tn_value *outs, tn_tensor *first, tn_tensor *second, tn_tensor *third)
{
    give(outs, 0, first);
    give(outs, 1, second);
    give(outs, 2, third);
}

/* (A) -> result, LU, pivots */
void composite_linalg_det_factors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *diagonal;
    if (tni_check_matrices(s, a, "linalg.det", 1)) return;
    tn_linalg_lu_factor_ex_result lu = tn_linalg_lu_factor_ex(s, a);
    diagonal = tn_diagonal(s, lu.LU, .dim1 = -2, .dim2 = -1);
    tn_tensor *product = tn_mul(s, tn_prod_dim(s, diagonal, -1), sign_of(s, lu.pivots, dtype_of(a)));
    give_three(outs, product, lu.LU, lu.pivots);
}

/* (A) -> sign, logabsdet, LU, pivots */
void composite_linalg_slogdet_factors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *diagonal, *sign;
    if (tni_check_matrices(s, a, "linalg.slogdet", 1)) return;
    tn_linalg_lu_factor_ex_result lu = tn_linalg_lu_factor_ex(s, a);
    diagonal = tn_diagonal(s, lu.LU, .dim1 = -2, .dim2 = -1);
    sign = tn_prod_dim(s, tn_sgn(s, diagonal), -1);
    give(outs, 0, tn_mul(s, sign, sign_of(s, lu.pivots, dtype_of(a))));
    give(outs, 1, tn_sum_dim(s, tn_log(s, tn_abs(s, diagonal)), TN_INTS(-1)));
    give(outs, 2, lu.LU);
    give(outs, 3, lu.pivots);
}

void composite_linalg_det(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn__linalg_det(s, arg_tensor(args, 0)).result);
}

void composite_linalg_slogdet(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn__linalg_slogdet_result r = tn__linalg_slogdet(s, arg_tensor(args, 0));
    give(outs, 0, r.sign);
    give(outs, 1, r.logabsdet);
}

/* NaN where the determinant is negative. */
void composite_logdet(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn__linalg_slogdet_result r = tn__linalg_slogdet(s, arg_tensor(args, 0));
    if (!r.sign) return;
    if (is_complex(dtype_of(r.sign)))
        give(outs, 0, tn_add(s, tn_log(s, r.sign), r.logabsdet));
    else
        give(outs, 0, tn_where_scalarself(s, tn_eq_scalar(s, r.sign, -1), NAN, r.logabsdet));
}

/* ---- factors: the forms that fail, older forms ---- */

/* Fails where the factorization of a matrix, or of a batch of them, did. */
static void check_factors(tn_scope *s, tn_tensor *info, const char *name, const tn_value *args)
{
    tn__linalg_check_errors(s, info, name, rank_of(arg_tensor(args, 0)) == 2);
}

static void give_cholesky(tn_scope *s, const tn_value *args, tn_value *outs, const char *name)
{
    tn_linalg_cholesky_ex_result r =
        tn_linalg_cholesky_ex(s, arg_tensor(args, 0), .upper = arg_bool(args, 1));
    check_factors(s, r.info, name, args);
    give(outs, 0, r.L);
}

FORWARD(composite_linalg_cholesky, give_cholesky, "linalg.cholesky")
FORWARD(composite_cholesky, give_cholesky, "cholesky")

/* `r`: the factors, the pivots, and whether it failed. */
static void give_factors(tn_scope *s, const tn_value *args, tn_value *outs, const char *name, tn_tensor *r[3])
{
    check_factors(s, r[2], name, args);
    give(outs, 0, r[0]);
    give(outs, 1, r[1]);
}

void composite_linalg_lu_factor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_linalg_lu_factor_ex_result r =
        tn_linalg_lu_factor_ex(s, arg_tensor(args, 0), .pivot = arg_bool(args, 1));
    give_factors(s, args, outs, "linalg.lu_factor", (tn_tensor *[]){r.LU, r.pivots, r.info});
}

/* (self, pivot, check_errors) */
void composite_lu_with_info(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_linalg_lu_factor_ex_result r = tn_linalg_lu_factor_ex(
        s, arg_tensor(args, 0), .pivot = arg_bool(args, 1), .check_errors = arg_bool(args, 2));
    give_three(outs, r.LU, r.pivots, r.info);
}

void composite_linalg_lu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_linalg_lu_factor_ex_result r =
        tn_linalg_lu_factor_ex(s, arg_tensor(args, 0), .pivot = arg_bool(args, 1));
    tn_lu_unpack_result u = tn_lu_unpack(s, r.LU, r.pivots);
    give_three(outs, u.P, u.L, u.U);
}

void composite_linalg_ldl_factor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_linalg_ldl_factor_ex_result r =
        tn_linalg_ldl_factor_ex(s, arg_tensor(args, 0), .hermitian = arg_bool(args, 1));
    give_factors(s, args, outs, "linalg.ldl_factor", (tn_tensor *[]){r.LD, r.pivots, r.info});
}

/* ---- QR ---- */

/* (A, mode) -> Q, R; the complete Q comes from reflectors padded with zeros. */
void composite_linalg_qr(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *q, *r;
    const char *mode = arg_string(args, 1);
    int32_t complete = strcmp(mode, "complete") == 0, only_r = strcmp(mode, "r") == 0;
    if (tni_check_matrices(s, a, "linalg.qr", 0)) return;
    if (!complete && !only_r && strcmp(mode, "reduced") != 0) {
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or "
                        "'complete'",
                        mode);
        return;
    }
    int64_t m = tn_tensor_size(a, -2), n = tn_tensor_size(a, -1), k = m < n ? m : n;
    tn_geqrf_result f = tn_geqrf(s, a);
    r = tn_triu(s, complete ? f.a : tn_narrow(s, f.a, -2, 0, k));
    give(outs, 1, r);
    if (only_r) {
        give(outs, 0, tni_empty_on(s, a, 0, TN_INTS(0)));
        return;
    }
    q = tn_narrow(s, f.a, -1, 0, k);
    if (complete && m > k) q = tn_constant_pad_nd(s, q, TN_INTS(0, m - k));
    give(outs, 0, tn_linalg_householder_product(s, q, f.tau));
}

void composite_qr(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_linalg_qr_result r =
        tn_linalg_qr(s, arg_tensor(args, 0), .mode = arg_bool(args, 1) ? "reduced" : "complete");
    give(outs, 0, r.Q);
    give(outs, 1, r.R);
}
