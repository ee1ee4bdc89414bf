/* SPDX-License-Identifier: Apache-2.0 */
/* Factors of matrices, systems of equations, singular values and eigenvalues. */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

/* ---- checks of the arguments ---- */

static int64_t rows_of(const tn_tensor *t)
{
    return sizes_of(t)[rank_of(t) - 2];
}
static int64_t columns_of(const tn_tensor *t)
{
    return sizes_of(t)[rank_of(t) - 1];
}
static int64_t least_of(const tn_tensor *t)
{
    return rows_of(t) < columns_of(t) ? rows_of(t) : columns_of(t);
}

static int32_t check_inexact(tni_frame *f, const tn_tensor *t)
{
    tn_dtype dtype = dtype_of(t);
    if (dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_COMPLEX64 || dtype == TN_COMPLEX128)
        return TN_OK;
    if (is_float(dtype) || is_complex(dtype))
        return tni_fail(f, TN_E_DTYPE, "Low precision dtypes not supported. Got %s",
                        tni_dtype_error_name(dtype));
    return tni_fail(f, TN_E_DTYPE, "Expected a floating point or complex tensor as input. Got %s",
                    tni_dtype_error_name(dtype));
}

static int32_t check_matrix(tni_frame *f, const tn_tensor *t, const char *name)
{
    if (rank_of(t) < 2)
        return tni_fail(f, TN_E_SHAPE, "The input tensor %s must have at least 2 dimensions.", name);
    return check_inexact(f, t);
}

static int32_t check_square(tni_frame *f, const tn_tensor *t, const char *name)
{
    TNI_TRY(check_matrix(f, t, name));
    if (rows_of(t) != columns_of(t))
        return tni_fail(f, TN_E_SHAPE,
                        "%s must be batches of square matrices, but they are %lld by %lld matrices", name,
                        (long long)rows_of(t), (long long)columns_of(t));
    return TN_OK;
}

static int32_t check_same_dtype(tni_frame *f, const tn_tensor *a, const char *a_name, const tn_tensor *b,
                                const char *b_name)
{
    if (dtype_of(a) == dtype_of(b)) return TN_OK;
    return tni_fail(
        f, TN_E_DTYPE, "Expected %s and %s to have the same dtype, but found %s of type %s and %s of type %s",
        a_name, b_name, a_name, tni_dtype_error_name(dtype_of(a)), b_name, tni_dtype_error_name(dtype_of(b)));
}

static int32_t check_pivots(tni_frame *f, const tn_tensor *pivots, const tn_tensor *factors)
{
    int64_t rank = rank_of(factors);
    if (dtype_of(pivots) != TN_INT32)
        return tni_fail(f, TN_E_DTYPE, "Expected pivots of type Int, but got %s",
                        tni_dtype_error_name(dtype_of(pivots)));
    if (rank_of(pivots) != rank - 1 || sizes_of(pivots)[rank - 2] != least_of(factors) ||
        memcmp(sizes_of(pivots), sizes_of(factors), (size_t)(rank - 2) * sizeof(int64_t)) != 0)
        return tni_fail(f, TN_E_SHAPE,
                        "Number of pivots per batch should be same as the dimension of the matrix");
    return TN_OK;
}

/* ---- outputs ---- */

static tn_dtype real_of(tn_dtype dtype)
{
    return dtype == TN_COMPLEX64 ? TN_FLOAT32 : dtype == TN_COMPLEX128 ? TN_FLOAT64 : dtype;
}
static tn_dtype complex_of(tn_dtype dtype)
{
    return dtype == TN_FLOAT32 ? TN_COMPLEX64 : dtype == TN_FLOAT64 ? TN_COMPLEX128 : dtype;
}

/* Output i: matrices of the batch, column-major as in LAPACK. */
static int32_t out_matrices(tni_frame *f, uint32_t i, tn_dtype dtype, tn_ints batch, int64_t rows,
                            int64_t columns)
{
    int64_t sizes[TN_MAX_RANK], strides[TN_MAX_RANK], n = batch.count;
    int64_t step = (rows > 1 ? rows : 1) * (columns > 1 ? columns : 1);
    memcpy(sizes, batch.data, (size_t)n * sizeof(int64_t));
    sizes[n] = rows;
    sizes[n + 1] = columns;
    strides[n] = 1;
    strides[n + 1] = rows > 1 ? rows : 1;
    for (int64_t d = n; d-- > 0;) {
        strides[d] = step;
        step *= sizes[d] > 1 ? sizes[d] : 1;
    }
    return tni_out_strided(f, i, dtype, (uint32_t)n + 2, sizes, strides);
}

static int32_t out_vectors(tni_frame *f, uint32_t i, tn_dtype dtype, tn_ints batch, int64_t length)
{
    int64_t sizes[TN_MAX_RANK];
    memcpy(sizes, batch.data, (size_t)batch.count * sizeof(int64_t));
    sizes[batch.count] = length;
    return tni_out(f, i, dtype, (uint32_t)batch.count + 1, sizes);
}

static int32_t out_numbers(tni_frame *f, uint32_t i, tn_dtype dtype, tn_ints batch)
{
    return tni_out(f, i, dtype, (uint32_t)batch.count, batch.data);
}

static int32_t out_nothing(tni_frame *f, uint32_t i, tn_dtype dtype)
{
    const int64_t none = 0;
    return tni_out(f, i, dtype, 1, &none);
}

static tn_ints batch_of(const tn_tensor *t)
{
    return (tn_ints){sizes_of(t), rank_of(t) - 2};
}

/* ---- factors ---- */

/* linalg_lu_factor_ex (A, pivot, check_errors) -> LU, pivots, info. */
int32_t infer_lu_factor(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0);
    TNI_TRY(check_matrix(f, a, "A"));
    TNI_TRY(out_matrices(f, 0, dtype_of(a), batch_of(a), rows_of(a), columns_of(a)));
    TNI_TRY(out_vectors(f, 1, TN_INT32, batch_of(a), least_of(a)));
    return out_numbers(f, 2, TN_INT32, batch_of(a));
}

/* linalg_cholesky_ex (self, upper, check_errors) -> L, info. */
int32_t infer_cholesky(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0);
    TNI_TRY(check_square(f, a, "A"));
    TNI_TRY(out_matrices(f, 0, dtype_of(a), batch_of(a), rows_of(a), columns_of(a)));
    return out_numbers(f, 1, TN_INT32, batch_of(a));
}

/* linalg_ldl_factor_ex (self, hermitian, check_errors) -> LD, pivots, info. */
int32_t infer_ldl_factor(tni_frame *f)
{
    TNI_TRY(check_square(f, tni_arg_tensor(f, 0), "A"));
    return infer_lu_factor(f);
}

/* lu_unpack (LU_data, LU_pivots, unpack_data, unpack_pivots) -> P, L, U. */
int32_t infer_lu_unpack(tni_frame *f)
{
    const tn_tensor *lu = tni_arg_tensor(f, 0), *pivots = tni_arg_tensor(f, 1);
    tn_dtype dtype = dtype_of(lu);
    f->keep_dtype = TNI_KEEP(1);
    TNI_TRY(check_matrix(f, lu, "LU_data"));
    if (tni_arg_bool(f, 3)) {
        TNI_TRY(check_pivots(f, pivots, lu));
        TNI_TRY(out_matrices(f, 0, dtype, batch_of(lu), rows_of(lu), rows_of(lu)));
    } else {
        TNI_TRY(out_nothing(f, 0, dtype));
    }
    if (!tni_arg_bool(f, 2)) {
        TNI_TRY(out_nothing(f, 1, dtype));
        return out_nothing(f, 2, dtype);
    }
    TNI_TRY(out_matrices(f, 1, dtype, batch_of(lu), rows_of(lu), least_of(lu)));
    return out_matrices(f, 2, dtype, batch_of(lu), least_of(lu), columns_of(lu));
}

/* geqrf (self) -> a, tau. */
int32_t infer_geqrf(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0);
    TNI_TRY(check_matrix(f, a, "input"));
    TNI_TRY(out_matrices(f, 0, dtype_of(a), batch_of(a), rows_of(a), columns_of(a)));
    return out_vectors(f, 1, dtype_of(a), batch_of(a), least_of(a));
}

static int32_t check_reflectors(tni_frame *f, const tn_tensor *in, const tn_tensor *tau)
{
    int64_t rank = rank_of(in);
    TNI_TRY(check_matrix(f, in, "input"));
    TNI_TRY(check_same_dtype(f, in, "input", tau, "tau"));
    if (rank_of(tau) != rank - 1 ||
        memcmp(sizes_of(in), sizes_of(tau), (size_t)(rank - 2) * sizeof(int64_t)) != 0)
        return tni_fail(
            f, TN_E_SHAPE,
            "Expected batch dimensions of tau to be equal to those of input, and one dimension less");
    return TN_OK;
}

/* linalg_householder_product (input, tau). */
int32_t infer_householder_product(tni_frame *f)
{
    const tn_tensor *in = tni_arg_tensor(f, 0), *tau = tni_arg_tensor(f, 1);
    TNI_TRY(check_reflectors(f, in, tau));
    if (rows_of(in) < columns_of(in))
        return tni_fail(f, TN_E_SHAPE, "input.shape[-2] must be greater than or equal to input.shape[-1]");
    if (columns_of(in) < sizes_of(tau)[rank_of(tau) - 1])
        return tni_fail(f, TN_E_SHAPE, "input.shape[-1] must be greater than or equal to tau.shape[-1]");
    return out_matrices(f, 0, dtype_of(in), batch_of(in), rows_of(in), columns_of(in));
}

/* ormqr (self, input2: tau, input3: other, left, transpose). */
int32_t infer_ormqr(tni_frame *f)
{
    const tn_tensor *in = tni_arg_tensor(f, 0), *tau = tni_arg_tensor(f, 1), *other = tni_arg_tensor(f, 2);
    int32_t left = tni_arg_bool(f, 3);
    if (rank_of(in) < 2 || rank_of(other) < 2)
        return tni_fail(f, TN_E_SHAPE, "%s must have at least 2 dimensions.",
                        rank_of(in) < 2 ? "input" : "other");
    int64_t side = left ? rows_of(other) : columns_of(other),
            k = rank_of(tau) ? sizes_of(tau)[rank_of(tau) - 1] : 0;
    if (k > side)
        return tni_fail(f, TN_E_SHAPE, "other.shape[%d] must be greater than or equal to tau.shape[-1]",
                        left ? -2 : -1);
    if (rows_of(in) != side)
        return tni_fail(f, TN_E_SHAPE, "other.shape[%d] must be equal to input.shape[-2]", left ? -2 : -1);
    if (k > columns_of(in))
        return tni_fail(f, TN_E_SHAPE, "tau.shape[-1] must be less than or equal to input.shape[-1]");
    if (rank_of(in) != rank_of(other) || rank_of(tau) != rank_of(in) - 1 ||
        memcmp(sizes_of(in), sizes_of(other), (size_t)(rank_of(in) - 2) * sizeof(int64_t)) != 0)
        return tni_fail(f, TN_E_SHAPE, "batch dimensions of other should be equal to those of input");
    TNI_TRY(check_reflectors(f, in, tau));
    TNI_TRY(check_same_dtype(f, in, "input", other, "other"));
    return out_matrices(f, 0, dtype_of(in), batch_of(other), rows_of(other), columns_of(other));
}

/* ---- systems of equations ---- */

/* A is square, B has its rows (left) or columns; output 0 is B broadcast to the batch of both. */
static int32_t solved(tni_frame *f, const tn_tensor *a, const tn_tensor *b, int32_t left)
{
    tni_shape shape = {.rank = 0};
    TNI_TRY(check_square(f, a, "A"));
    TNI_TRY(check_matrix(f, b, "B"));
    TNI_TRY(check_same_dtype(f, a, "A", b, "B"));
    if (rows_of(a) != (left ? rows_of(b) : columns_of(b)))
        return tni_fail(f, TN_E_SHAPE,
                        "Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)",
                        left ? "AX = B" : "XA = B", (long long)rows_of(a), (long long)columns_of(a),
                        (long long)rows_of(b), (long long)columns_of(b));
    TNI_TRY(tni_broadcast(&shape, a->desc.rank - 2, sizes_of(a)));
    TNI_TRY(tni_broadcast(&shape, b->desc.rank - 2, sizes_of(b)));
    return out_matrices(f, 0, dtype_of(a), (tn_ints){shape.sizes, shape.rank}, rows_of(b), columns_of(b));
}

/* linalg_lu_solve (LU, pivots, B, left, adjoint). */
int32_t infer_lu_solve(tni_frame *f)
{
    const tn_tensor *lu = tni_arg_tensor(f, 0);
    f->keep_dtype = TNI_KEEP(1);
    TNI_TRY(solved(f, lu, tni_arg_tensor(f, 2), tni_arg_bool(f, 3)));
    return check_pivots(f, tni_arg_tensor(f, 1), lu);
}

/* linalg_ldl_solve (LD, pivots, B, hermitian). */
int32_t infer_ldl_solve(tni_frame *f)
{
    const tn_tensor *ld = tni_arg_tensor(f, 0);
    f->keep_dtype = TNI_KEEP(1);
    TNI_TRY(solved(f, ld, tni_arg_tensor(f, 2), 1));
    return check_pivots(f, tni_arg_tensor(f, 1), ld);
}

/* linalg_solve_triangular (self, B, upper, left, unitriangular). */
int32_t infer_solve_triangular(tni_frame *f)
{
    return solved(f, tni_arg_tensor(f, 0), tni_arg_tensor(f, 1), tni_arg_bool(f, 3));
}

/* _linalg_check_errors (info, api_name, is_matrix). */
int32_t infer_check_errors(tni_frame *f)
{
    const tn_tensor *info = tni_arg_tensor(f, 0);
    if (dtype_of(info) == TN_INT32) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "info should be of type Int, but got %s",
                    tni_dtype_error_name(dtype_of(info)));
}

/* ---- singular values and eigenvalues ---- */

/* _linalg_svd (A, full_matrices, compute_uv, driver) -> U, S, Vh. */
int32_t infer_svd(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0);
    int32_t full = tni_arg_bool(f, 1);
    TNI_TRY(check_matrix(f, a, "A"));
    if (tni_arg_given(f, 3))
        return tni_fail(f, TN_E_ARGUMENT,
                        "keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.");
    TNI_TRY(out_vectors(f, 1, real_of(dtype_of(a)), batch_of(a), least_of(a)));
    if (!tni_arg_bool(f, 2)) {
        TNI_TRY(out_nothing(f, 0, dtype_of(a)));
        return out_nothing(f, 2, dtype_of(a));
    }
    TNI_TRY(out_matrices(f, 0, dtype_of(a), batch_of(a), rows_of(a), full ? rows_of(a) : least_of(a)));
    return out_matrices(f, 2, dtype_of(a), batch_of(a), full ? columns_of(a) : least_of(a), columns_of(a));
}

/* _linalg_eigh (A, UPLO, compute_v) -> eigenvalues, eigenvectors. */
int32_t infer_eigh(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0);
    const char *uplo = tni_arg_string(f, 1);
    TNI_TRY(check_square(f, a, "A"));
    if (!uplo || strlen(uplo) != 1 || !strchr("LlUu", uplo[0]))
        return tni_fail(f, TN_E_ARGUMENT, "Expected UPLO argument to be 'L' or 'U', but got %s",
                        uplo ? uplo : "nothing");
    TNI_TRY(out_vectors(f, 0, real_of(dtype_of(a)), batch_of(a), rows_of(a)));
    if (!tni_arg_bool(f, 2)) return out_nothing(f, 1, dtype_of(a));
    return out_matrices(f, 1, dtype_of(a), batch_of(a), rows_of(a), rows_of(a));
}

/* _linalg_eigvals (self). */
int32_t infer_eigvals(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0);
    TNI_TRY(check_square(f, a, "input"));
    return out_vectors(f, 0, complex_of(dtype_of(a)), batch_of(a), rows_of(a));
}

/* linalg_eig (self) -> eigenvalues, eigenvectors. */
int32_t infer_eig(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0);
    TNI_TRY(infer_eigvals(f));
    return out_matrices(f, 1, complex_of(dtype_of(a)), batch_of(a), rows_of(a), rows_of(a));
}

/*
 * linalg_lstsq (self, b, rcond, driver) -> solution, residuals, rank, singular_values. The shape of residuals
 * is an upper bound: without full rank the kernel empties it.
 */
int32_t infer_lstsq(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0), *b = tni_arg_tensor(f, 1);
    const char *driver = tni_arg_string(f, 3);
    tni_shape shape = {.rank = 0};
    int64_t vector =
        rank_of(b) == 1 || (rank_of(b) == rank_of(a) - 1 &&
                            memcmp(sizes_of(a), sizes_of(b), b->desc.rank * sizeof(int64_t)) == 0);
    if (!driver) driver = "gelsy";
    TNI_TRY(check_matrix(f, a, "input"));
    TNI_TRY(check_same_dtype(f, a, "input", b, "other"));
    if (strcmp(driver, "gels") && strcmp(driver, "gelsy") && strcmp(driver, "gelsd") &&
        strcmp(driver, "gelss"))
        return tni_fail(f, TN_E_ARGUMENT,
                        "parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got %s", driver);
    if (rank_of(b) < 1 || sizes_of(b)[rank_of(b) - (vector ? 1 : 2)] != rows_of(a))
        return tni_fail(f, TN_E_SHAPE, "input.size(-2) should match other.size(%d)", vector ? -1 : -2);
    TNI_TRY(tni_broadcast(&shape, a->desc.rank - 2, sizes_of(a)));
    TNI_TRY(tni_broadcast(&shape, (uint32_t)(rank_of(b) - (vector ? 1 : 2)), sizes_of(b)));
    tn_ints batch = {shape.sizes, shape.rank};
    tn_dtype real = real_of(dtype_of(a));
    TNI_TRY(vector ? out_vectors(f, 0, dtype_of(a), batch, columns_of(a))
                   : out_matrices(f, 0, dtype_of(a), batch, columns_of(a), columns_of(b)));
    if (rows_of(a) <= columns_of(a) || strcmp(driver, "gelsy") == 0)
        TNI_TRY(out_nothing(f, 1, real));
    else
        TNI_TRY(vector ? out_numbers(f, 1, real, batch) : out_vectors(f, 1, real, batch, columns_of(b)));
    TNI_TRY(strcmp(driver, "gels") == 0 ? out_nothing(f, 2, TN_INT64) : out_numbers(f, 2, TN_INT64, batch));
    if (strcmp(driver, "gelsd") && strcmp(driver, "gelss")) return out_nothing(f, 3, real);
    return out_vectors(f, 3, real, batch, least_of(a));
}
