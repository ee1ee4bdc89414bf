/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors of matrices by a cuSOLVER or hipSOLVER for tests (libcusolver.c): products of the factors are the matrix, infos are on the device,
 * errors come where the CPU has them, and what happens when the library is absent or fails.
 */
#define LIBRARY FIRST_OF(VENDOR_SOLVER_FILES)
#include <library_names.h>
#include "session.h"

enum { MATRICES, LIVE, STREAMS };

TestSuite(factors, .init = open_device, .fini = close_device, .timeout = 120);
TestSuite(absent, .init = open_device, .fini = close_device, .timeout = 60);

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64};
static const double tolerances[] = {2e-5, 1e-12};

/* Matrices whose rows, columns or neither are contiguous. */
enum { ROW_MAJOR, COLUMN_MAJOR, EVERY_SECOND, LAYOUTS };

static tn_tensor *matrices(tn_dtype dtype, tn_ints sizes, int layout)
{
    tn_tensor *t = numbers(dtype, sizes);
    if (layout == COLUMN_MAJOR) return tn_mt(s, tn_contiguous(s, tn_mt(s, t)));
    if (layout == EVERY_SECOND) return tn_select(s, tn_stack(s, TN_TENSORS(t, t), .dim = -1), -1, 1);
    return t;
}

/* a' a + 1: positive-definite. */
static tn_tensor *definite(tn_dtype dtype, tn_ints sizes, int layout)
{
    tn_tensor *a = matrices(dtype, sizes, layout),
              *one = tn_eye(s, sizes.data[sizes.count - 1], .dtype = dtype);
    return tn_add(s, tn_matmul(s, tn_mt(s, a), a), one);
}

static double largest(tn_tensor *t)
{
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    return tn_item_double(s, tn_max(s, tn_abs(s, t)));
}

Test(factors, cholesky_of_all_sizes)
{
    for (int i = 0; i < 2; i++) {
        for (int64_t n = 1; n < 21; n += n < 9 ? 1 : 4) {
            for (int upper = 0; upper < 2; upper++) {
                tn_tensor *a = definite(dtypes[i], TN_INTS(2, 3, n, n), (int)n % LAYOUTS);
                const int before = count(MATRICES);
                tn_linalg_cholesky_ex_result r = tn_linalg_cholesky_ex(s, a, .upper = upper);
                cr_assert_eq(count(MATRICES) - (before < 0 ? 0 : before), 6, "one for each matrix");
                tn_tensor *product =
                    upper ? tn_matmul(s, tn_mt(s, r.L), r.L) : tn_matmul(s, r.L, tn_mt(s, r.L));
                cr_assert_lt(difference(product, a), tolerances[i] * (double)(n + 1), "n = %d", (int)n);
                tn_tensor *triangle = upper ? tn_triu(s, r.L) : tn_tril(s, r.L);
                cr_assert_eq(difference(triangle, r.L), 0, "the other triangle of n = %d is not zero",
                             (int)n);
                cr_assert_eq(largest(r.info), 0);
            }
        }
    }
    expect_in(said, "2 " DEVICE ":0: " VENDOR_SOLVER);
    expect_in(said, " computes factors of matrices");
}

/* Of a matrix that is not definite the info says so on the device, and the operator without `_ex` refuses it. */
Test(factors, a_matrix_that_is_not_positive_definite)
{
    tn_tensor *one = tn_eye(s, 3, .dtype = TN_FLOAT32), *a = tn_stack(s, TN_TENSORS(one, tn_neg(s, one)));
    tn_linalg_cholesky_ex_result r = tn_linalg_cholesky_ex(s, a);
    cr_assert_eq(tn_tensor_device(r.info), device);
    cr_assert_eq(tn_item_double(s, tn_select(s, r.info, 0, 0)), 0);
    cr_assert_eq(tn_item_double(s, tn_select(s, r.info, 0, 1)), 1);
    tn_linalg_cholesky(s, a);
    cr_assert_eq(tn_scope_failed(s), TN_E_ARGUMENT);
    cr_assert(
        strstr(tn_scope_error(s)->message, "(Batch element 1): The factorization could not be completed"),
        "%s", tn_scope_error(s)->message);
}

Test(factors, lu_of_all_shapes)
{
    static const int64_t shapes[][2] = {{1, 1}, {5, 5}, {7, 4}, {3, 6}};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4 * LAYOUTS; k++) {
            tn_tensor *a =
                matrices(dtypes[i], TN_INTS(2, shapes[k / LAYOUTS][0], shapes[k / LAYOUTS][1]), k % LAYOUTS);
            tn_linalg_lu_result r = tn_linalg_lu(s, a);
            cr_assert_lt(difference(tn_matmul(s, r.P, tn_matmul(s, r.L, r.U)), a), tolerances[i], "case %d",
                         k);
        }
    }
    cr_assert_eq(count(MATRICES), 2 * 2 * 4 * LAYOUTS);
}

Test(factors, singular_matrices)
{
    tn_linalg_lu_factor_ex_result r =
        tn_linalg_lu_factor_ex(s, tn_zeros(s, TN_INTS(3, 3), .dtype = TN_FLOAT32));
    cr_assert_eq(tn_item_double(s, r.info), 1);
    tn_linalg_inv(s, tn_zeros(s, TN_INTS(3, 3), .dtype = TN_FLOAT32));
    cr_assert_eq(tn_scope_failed(s), TN_E_ARGUMENT);
    cr_assert(strstr(tn_scope_error(s)->message, "singular"), "%s", tn_scope_error(s)->message);
}

/* A X = B, A' X = B, X A = B, X A' = B, with one A for two B. */
Test(factors, systems_of_equations)
{
    for (int i = 0; i < 2; i++) {
        for (int form = 0; form < 4 * LAYOUTS; form++) {
            const int left = form & 1, adjoint = form >> 1 & 1;
            tn_tensor *a = tn_add(s, matrices(dtypes[i], TN_INTS(5, 5), form % LAYOUTS),
                                  tn_mul_scalar(s, tn_eye(s, 5, .dtype = dtypes[i]), 4.0));
            tn_tensor *b = matrices(dtypes[i], left ? TN_INTS(2, 5, 3) : TN_INTS(2, 3, 5), form % LAYOUTS);
            tn_linalg_lu_factor_ex_result lu = tn_linalg_lu_factor_ex(s, a);
            const int before = count(MATRICES);
            tn_tensor *x = tn_linalg_lu_solve(s, lu.LU, lu.pivots, b, .left = left, .adjoint = adjoint);
            tn_tensor *of = adjoint ? tn_mt(s, a) : a;
            tn_tensor *product = left ? tn_matmul(s, of, x) : tn_matmul(s, x, of);
            cr_assert_lt(difference(product, b), tolerances[i], "left %d, adjoint %d", left, adjoint);
            cr_assert_eq(count(MATRICES) - before, 2);
        }
        tn_tensor *a = tn_add(s, numbers(dtypes[i], TN_INTS(3, 6, 6)),
                              tn_mul_scalar(s, tn_eye(s, 6, .dtype = dtypes[i]), 4.0));
        tn_tensor *one = tn_expand(s, tn_eye(s, 6, .dtype = dtypes[i]), TN_INTS(3, 6, 6));
        cr_assert_lt(difference(tn_matmul(s, tn_linalg_inv(s, a), a), one), tolerances[i]);
        tn_tensor *two = tn_mul_scalar(s, tn_eye(s, 3, .dtype = dtypes[i]), 2.0);
        cr_assert_float_eq(tn_item_double(s, tn_linalg_det(s, two)), 8, tolerances[i]);
    }
}

Test(factors, qr_of_all_shapes)
{
    static const int64_t shapes[][2] = {{1, 1}, {5, 5}, {7, 4}, {3, 6}};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4 * LAYOUTS; k++) {
            const int64_t m = shapes[k / LAYOUTS][0], n = shapes[k / LAYOUTS][1];
            tn_tensor *a = matrices(dtypes[i], TN_INTS(2, m, n), k % LAYOUTS);
            const int before = count(MATRICES);
            tn_linalg_qr_result r = tn_linalg_qr(s, a, .mode = k & 1 ? "complete" : "reduced");
            cr_assert_lt(difference(tn_matmul(s, r.Q, r.R), a), tolerances[i], "case %d", k);
            tn_tensor *one = tn_eye(s, tn_tensor_sizes(r.Q)[2], .dtype = dtypes[i]);
            cr_assert_lt(difference(tn_matmul(s, tn_mt(s, r.Q), r.Q), one), tolerances[i], "case %d", k);
            cr_assert_eq(count(MATRICES) - (before < 0 ? 0 : before), 4,
                         "reflectors and their product, case %d", k);
        }
    }
}

Test(factors, eigenvalues_of_symmetric_matrices)
{
    for (int i = 0; i < 2; i++) {
        for (int upper = 0; upper < 2; upper++) {
            tn_tensor *a = matrices(dtypes[i], TN_INTS(2, 6, 6), upper ? ROW_MAJOR : EVERY_SECOND);
            tn_tensor *half = upper ? tn_triu(s, a) : tn_tril(s, a),
                      *rest = upper ? tn_triu(s, a, .diagonal = 1) : tn_tril(s, a, .diagonal = -1);
            tn_tensor *whole = tn_add(s, half, tn_mt(s, rest)); /* only one triangle of a counts */
            tn_linalg_eigh_result r = tn_linalg_eigh(s, a, .UPLO = upper ? "U" : "L");
            tn_tensor *scaled = tn_mul(s, r.eigenvectors, tn_unsqueeze(s, r.eigenvalues, -2));
            cr_assert_lt(difference(tn_matmul(s, whole, r.eigenvectors), scaled), tolerances[i]);
            cr_assert_lt(difference(tn_linalg_eigvalsh(s, a, .UPLO = upper ? "U" : "L"), r.eigenvalues),
                         tolerances[i]);
        }
    }
    cr_assert_eq(count(MATRICES), 16);
    tn_tensor *bad = tn_full(s, TN_INTS(2, 2), tn_value_float((double)NAN), .dtype = TN_FLOAT32);
    tn_linalg_eigh(s, bad);
    cr_assert_eq(tn_scope_failed(s), TN_E_ARGUMENT);
    cr_assert(strstr(tn_scope_error(s)->message, "linalg.eigh: The algorithm failed to converge"), "%s",
              tn_scope_error(s)->message);
}

Test(factors, singular_values_of_all_shapes)
{
    static const int64_t shapes[][2] = {{1, 1}, {5, 5}, {7, 4}, {3, 6}};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 4 * LAYOUTS * 2; k++) {
            const int64_t m = shapes[k / 2 / LAYOUTS][0], n = shapes[k / 2 / LAYOUTS][1];
            tn_tensor *a = matrices(dtypes[i], TN_INTS(2, m, n), k / 2 % LAYOUTS);
            const int before = count(MATRICES);
            tn_linalg_svd_result r = tn_linalg_svd(s, a, .full_matrices = k & 1);
            cr_assert_eq(count(MATRICES) - (before < 0 ? 0 : before), 2);
            const int64_t least = m < n ? m : n;
            tn_tensor *u = tn_narrow(s, r.U, 2, 0, least), *vh = tn_narrow(s, r.Vh, 1, 0, least);
            tn_tensor *product = tn_matmul(s, tn_mul(s, u, tn_unsqueeze(s, r.S, -2)), vh);
            cr_assert_lt(difference(product, a), tolerances[i], "case %d", k);
            tn_tensor *ones[] = {tn_eye(s, tn_tensor_sizes(r.U)[2], .dtype = dtypes[i]),
                                 tn_eye(s, tn_tensor_sizes(r.Vh)[1], .dtype = dtypes[i])};
            cr_assert_eq(tn_tensor_sizes(r.U)[2], k & 1 ? m : least);
            cr_assert_lt(difference(tn_matmul(s, tn_mt(s, r.U), r.U), ones[0]), tolerances[i], "case %d", k);
            cr_assert_lt(difference(tn_matmul(s, r.Vh, tn_mt(s, r.Vh)), ones[1]), tolerances[i], "case %d",
                         k);
            cr_assert_lt(difference(tn_linalg_svdvals(s, a), r.S), tolerances[i], "case %d", k);
        }
    }
    tn_linalg_svd(s, tn_full(s, TN_INTS(2, 2, 2), tn_value_float((double)NAN), .dtype = TN_FLOAT32));
    cr_assert_eq(tn_scope_failed(s), TN_E_ARGUMENT);
    cr_assert(
        strstr(tn_scope_error(s)->message, "linalg.svd: (Batch element 0): The algorithm failed to converge"),
        "%s", tn_scope_error(s)->message);
}

/* Other forms of output, and gradients through the factors. */
Test(factors, results_of_the_program_and_gradients)
{
    tn_tensor *a = definite(TN_FLOAT64, TN_INTS(4, 4), ROW_MAJOR),
              *out = tn_empty(s, TN_INTS(4, 4), .dtype = TN_FLOAT64);
    tn_tensor *info = tn_ones(s, (tn_ints){NULL, 0}, .dtype = TN_INT32);
    tn_linalg_cholesky_ex_out(s, a, out, info);
    cr_assert_lt(difference(tn_matmul(s, out, tn_mt(s, out)), a), 1e-12, "a result in row-major order");
    cr_assert_eq(largest(info), 0);
    tn_tensor *x = tn_detach(s, a), *gradient = NULL;
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    cr_assert_eq(tn_grad(s, TN_TENSORS(tn_logdet(s, x)), TN_TENSORS(x), NULL, &gradient), TN_OK);
    cr_assert_lt(difference(gradient, tn_mt(s, tn_linalg_inv(s, a))), 1e-10,
                 "the gradient of log det A is A^-T");
}

static tn_tensor *roots(double x)
{
    tn_tensor *a = tn_mul_scalar(s, tn_eye(s, 4, .dtype = TN_FLOAT32), tn_value_float(x * x));
    return tn_diagonal(s, tn_linalg_cholesky_ex(s, a).L);
}

static double root(double x)
{
    return x;
}

Test(factors, work_is_in_the_order_of_its_stream)
{
    expect_in_order(roots, root);
}

#ifdef HIP
/* rocBLAS asks the stream each time. */
Test(factors, the_library_is_told_of_a_stream_when_it_changes)
{
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    for (int i = 0; i < 3; i++) roots(2);
    cr_assert_eq(count(STREAMS), 1);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    tn_stream_set_current(ctx, side);
    for (int i = 0; i < 3; i++) cr_assert_eq(tn_item_double(s, tn_max(s, roots(2))), 2);
    cr_assert_eq(count(STREAMS), 2);
    tn_stream_set_current(ctx, home);
    tn_stream_release(side);
}

#endif

/* The plugin knows that before it agrees to the call. */
static void expect_the_cpu(void)
{
    tn_tensor *a = definite(TN_FLOAT32, TN_INTS(3, 3), ROW_MAJOR);
    tn_tensor *l = tn_linalg_cholesky_ex(s, a).L;
    cr_assert_lt(difference(tn_matmul(s, l, tn_mt(s, l)), a), 1e-5);
    cr_assert_eq(count(MATRICES), 0);
    cr_assert_not(strstr(said, "refused after it had agreed"), "%s", said);
    unsetenv("SOLVER_TEST_LENGTH");
    tn_linalg_cholesky_ex(s, a);
    cr_assert_eq(count(MATRICES), 1);
}

/* hipSOLVER says that it has failed inside, cuSOLVER that a value is wrong. */
Test(factors, work_whose_length_the_library_refuses_is_left_to_the_cpu)
{
#ifdef HIP
    let_fail("potrf_bufferSize", 1, SOLVER_INTERNAL_ERROR);
#else
    let_fail("potrf_bufferSize", 1, SOLVER_INVALID_VALUE);
#endif
    expect_the_cpu();
}

#ifndef HIP
/* The square of 46,341 is beyond an int. */
Test(factors, work_whose_length_may_be_wrong_is_left_to_the_cpu)
{
    for (int64_t rows = 46341; rows >= 46340; rows--) {
        tn_tensor *values = tn_linalg_svdvals(s, tn_ones(s, TN_INTS(rows, 1), .dtype = TN_FLOAT64));
        cr_assert_lt(fabs(tn_item_double(s, values) - sqrt((double)rows)), 1e-9);
        cr_assert_eq(count(MATRICES), rows == 46340, "%d rows", (int)rows);
    }
    cr_assert_not(strstr(said, "refused after it had agreed"), "%s", said);
}
#endif

/* There is no code for the GPU, or none for the work. */
static const int refusals[] = {SOLVER_ARCH_MISMATCH, SOLVER_NOT_SUPPORTED};

TEST_OF_ROWS(factors, work_that_the_library_does_not_do_is_left_to_the_cpu, refusals)
{
    let_fail("potrf_bufferSize", 1, refusals[*row]);
    expect_the_cpu();
}

Test(factors, work_whose_length_is_below_0_is_left_to_the_cpu)
{
    setenv("SOLVER_TEST_LENGTH", "-2147483648", 1);
    expect_the_cpu();
}

/* Nothing computes factors in a capture: the library is not opened, and the CPU would have to wait. */
Test(factors, captures_have_no_factors)
{
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    tn_graph *graph = NULL;
    tn_tensor *a = definite(TN_FLOAT32, TN_INTS(3, 3), ROW_MAJOR),
              *pivots = tn_ones(s, TN_INTS(3), .dtype = TN_INT32);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, device, &graph), TN_OK);
    tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    cr_assert_eq(tn_graph_capture_begin(graph, side), TN_OK);
    for (int i = 0; i < 5; i++) {
        if (i == 0) tn_linalg_cholesky_ex(s, a);
        if (i == 1) tn_linalg_lu_factor_ex(s, a);
        if (i == 2) tn_linalg_lu_solve(s, a, pivots, a);
        if (i == 3) tn_geqrf(s, a);
        if (i == 4) tn_linalg_householder_product(s, a, tn_select(s, a, 0, 0));
        cr_assert(tn_scope_failed(s), "call %d was captured", i);
        tn_scope_clear(s);
    }
    tn_graph_capture_end(graph);
    tn_stream_set_current(ctx, home);
    cr_assert_eq(count(MATRICES), -1, "the library was opened");
    tn_graph_release(graph);
    tn_stream_release(side);
    cr_assert_eq(largest(tn_linalg_cholesky_ex(s, a).info), 0);
    cr_assert_eq(count(MATRICES), 1);
}

Test(factors, what_is_asked_at_once_or_cannot_be_is_left_to_the_cpu)
{
    tn_tensor *a = definite(TN_FLOAT32, TN_INTS(3, 3), ROW_MAJOR);
    cr_assert_eq(largest(tn_linalg_cholesky_ex(s, a, .check_errors = 1).info), 0);
    tn_linalg_cholesky_ex(s, tn_zeros(s, TN_INTS(0, 3, 3), .dtype = TN_FLOAT32));
    use_library(0);
    tn_linalg_cholesky_ex(s, a);
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_leq(count(MATRICES), 0);
}

/* ---- Failures ------------------------------------------------------------------------------------------- */

static const struct {
    const char *function;
    int call, status;
    const char *name;
} failures[] = {
    {NAME(cusolverDnSetStream), 1, SOLVER_INTERNAL_ERROR, "INTERNAL_ERROR"},
    {"potrf_bufferSize", 2, SOLVER_INVALID_VALUE, "INVALID_VALUE"}, /* the first call is a question */
    {"potrf", 1, SOLVER_EXECUTION_FAILED, "EXECUTION_FAILED"},
    {"potrf", 2, SOLVER_EXECUTION_FAILED, "EXECUTION_FAILED"},
#ifdef HIP
    {"potrf", 1, 12, "ZERO_PIVOT"},
    {"potrf", 1, 13, "MATRIX_TYPE_NOT_SUPPORTED"},
#else
    {"potrf_bufferSize", 2, SOLVER_INTERNAL_ERROR, "INTERNAL_ERROR"},
#endif
};

TEST_OF_ROWS(factors, a_failure_is_an_error_with_its_name, failures)
{
    const int *number = row;
    let_fail(failures[*number].function, failures[*number].call, failures[*number].status);
    tn_tensor *a = definite(TN_FLOAT32, TN_INTS(2, 3, 3), ROW_MAJOR);
    tn_linalg_cholesky_ex(s, a);
    cr_assert_eq(tn_scope_failed(s), TN_E_INTERNAL, "%s", failures[*number].function);
    expect_in(tn_scope_error(s)->message, NAME(cusolverDnSpotrf) " failed: ");
    expect_in(tn_scope_error(s)->message, "SOLVER_STATUS_%s", failures[*number].name);
    tn_scope_clear(s);
    cr_assert_eq(largest(tn_linalg_cholesky_ex(s, a).info), 0);
    close_device();
    cr_assert_eq(count(LIVE), 0);
}

/* The copy to the result is queued by then, so the call is not made again. */
Test(factors, a_failure_for_memory_says_so)
{
    setenv("LIBRARY_FAIL", "potrf:1:2", 1);
    tn_linalg_cholesky_ex(s, definite(TN_FLOAT32, TN_INTS(3, 3), ROW_MAJOR));
    cr_assert_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY);
    expect_in(tn_scope_error(s)->message, NAME(cusolverDnSpotrf) " failed: ");
    expect_in(tn_scope_error(s)->message, "SOLVER_STATUS_ALLOC_FAILED");
}

Test(factors, a_library_that_does_not_start_is_as_if_absent)
{
    setenv("LIBRARY_FAIL", NAME(cusolverDnCreate) ":1:1", 1);
    tn_tensor *a = definite(TN_FLOAT32, TN_INTS(3, 3), ROW_MAJOR);
    cr_assert_eq(largest(tn_linalg_cholesky_ex(s, a).info), 0);
    cr_assert_eq(count(MATRICES), 0);
    cr_assert_not(strstr(said, "refused after it had agreed"), "%s", said);
    expect_in(said, NAME(cusolverDnCreate) " failed (");
    expect_in(said, "SOLVER_STATUS_NOT_INITIALIZED): the CPU computes factors of matrices");
}

#ifndef HIP /* which does not tell its version */
Test(factors, an_old_library_is_as_if_absent)
{
    tn_tensor *a = definite(TN_FLOAT32, TN_INTS(3, 3), ROW_MAJOR);
    setenv("SOLVER_TEST_VERSION", "11401", 1);
    cr_assert_eq(largest(tn_linalg_cholesky_ex(s, a).info), 0);
    cr_assert_eq(count(MATRICES), 0);
    expect_in(said, "cuSOLVER 11401 is older than 11402: the CPU computes factors of matrices");
}
#endif

/* In an environment without the library. */
Test(absent, the_cpu_computes_factors_and_the_log_says_so)
{
    tn_tensor *a = definite(TN_FLOAT32, TN_INTS(3, 3), ROW_MAJOR);
    cr_assert_eq(largest(tn_linalg_cholesky_ex(s, a).info), 0);
    cr_assert_eq(count(MATRICES), -1);
    expect_in(said, "%s not found: the CPU computes factors of matrices", LIBRARY);
}
