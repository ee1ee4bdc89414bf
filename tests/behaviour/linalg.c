/* SPDX-License-Identifier: Apache-2.0 */
/* Linear algebra by numbers that are known: small matrices, their factors, what is refused and how. */
#include "fixture.h"

static tn_tensor *square(place *p, double a, double b, double c, double d)
{
    return MAKE(p, TN_FLOAT64, TN_INTS(2, 2), a, b, c, d);
}

ON_EACH_DEVICE(linalg, inverse_and_powers)
{
    tn_tensor *a = square(p, 4, 7, 2, 6);
    EXPECT(p, tn_linalg_inv(p->s, a), 0.6, -0.7, -0.2, 0.4);
    EXPECT(p, tn_linalg_inv(p->s, tn_transpose(p->s, a, 0, 1)), 0.6, -0.2, -0.7, 0.4);
    EXPECT(p, tn_matrix_power(p->s, a, -2), 0.5, -0.7, -0.2, 0.3);
    EXPECT(p, tn_matrix_power(p->s, a, -1), 0.6, -0.7, -0.2, 0.4);
    tn_linalg_inv_ex_result r = tn_linalg_inv_ex(p->s, square(p, 1, 2, 2, 4));
    EXPECT(p, r.info, 2);
    expect_sizes(p, tn_linalg_inv(p->s, MAKE(p, TN_FLOAT64, TN_INTS(3, 0, 0), 0)), TN_INTS(3, 0, 0));
}

ON_EACH_DEVICE(linalg, singular_matrices_are_refused)
{
    tn_tensor *a = MAKE(p, TN_FLOAT64, TN_INTS(2, 2, 2), 1, 0, 0, 1, 1, 2, 2, 4);
    tn_linalg_inv(p->s, tn_select(p->s, a, 0, 1));
    expect_error(
        p, "linalg.inv: The diagonal element 2 is zero, the inversion could not be completed because the "
           "input matrix is singular.");
    tn_linalg_inv(p->s, a);
    expect_error(p, "linalg.inv: (Batch element 1): The diagonal element 2 is zero");
    tn_cholesky_inverse(p->s, square(p, 1, 0, 1, 0));
    expect_error(p, "cholesky_inverse: The diagonal element 2 is zero, the inversion could not be completed "
                    "because the input matrix is singular.");
    tn_cholesky_inverse(p->s, MAKE(p, TN_FLOAT64, TN_INTS(2, 2, 2), 1, 0, 0, 1, 0, 1, 0, 0));
    expect_error(p, "cholesky_inverse: (Batch element 1): The diagonal element 1 is zero");
    expect_sizes(p, tn_cholesky_inverse(p->s, MAKE(p, TN_FLOAT64, TN_INTS(3, 0, 0), 0)), TN_INTS(3, 0, 0));
    tn_linalg_solve(p->s, a, a);
    expect_error(p,
                 "linalg.solve: (Batch element 1): The solver failed because the input matrix is singular.");
    tn_linalg_cholesky(p->s, square(p, 1, 2, 2, 1));
    expect_error(p, "linalg.cholesky: The factorization could not be completed because the input is not "
                    "positive-definite (the leading minor of order 2 is not positive-definite).");
    tn_linalg_cholesky_ex(p->s, square(p, 1, 2, 2, 1), .check_errors = 1);
    expect_error(p, "the leading minor of order 2 is not positive-definite");
    tn_linalg_inv(p->s, MAKE(p, TN_FLOAT64, TN_INTS(1, 2), 1, 2));
    expect_error(p, "A must be batches of square matrices, but they are 1 by 2 matrices");
    tn_linalg_inv(p->s, MAKE(p, TN_INT64, TN_INTS(1, 1), 1));
    expect_error(p, "Expected a floating point or complex tensor as input. Got Long");
    tn_linalg_svdvals(p->s, MAKE(p, TN_BFLOAT16, TN_INTS(1, 1), 1));
    expect_error(p, "Low precision dtypes not supported. Got BFloat16");
}

ON_EACH_DEVICE(linalg, solutions)
{
    tn_tensor *a = square(p, 2, 1, 1, 3), *b = VECTOR(p, TN_FLOAT64, 3, 5);
    EXPECT(p, tn_linalg_solve(p->s, a, b), 0.8, 1.4);
    EXPECT(p, tn_linalg_solve(p->s, a, square(p, 3, 2, 5, 1), .left = 0), 1.4, 0.2, 2.8, -0.6);
    /* One matrix for three right-hand sides, and the other way round. */
    tn_tensor *many = MAKE(p, TN_FLOAT64, TN_INTS(3, 2, 1), 3, 5, 2, 1, 1, 3);
    EXPECT(p, tn_linalg_solve(p->s, tn_unsqueeze(p->s, a, 0), many), 0.8, 1.4, 1, 0, 0, 1);
    EXPECT(p, tn_linalg_solve_triangular(p->s, a, tn_unsqueeze(p->s, b, 1), 1), 2.0 / 3, 5.0 / 3);
    EXPECT(p, tn_linalg_solve_triangular(p->s, a, tn_unsqueeze(p->s, b, 1), 0, .unitriangular = 1), 3, 2);
    tn_linalg_lstsq_result r =
        tn_linalg_lstsq(p->s, MAKE(p, TN_FLOAT64, TN_INTS(3, 2), 1, 0, 1, 1, 1, 2),
                        MAKE(p, TN_FLOAT64, TN_INTS(3, 1), 0, 1, 5), .driver = "gelsd");
    EXPECT(p, r.solution, -0.5, 2.5);
    EXPECT(p, r.residuals, 1.5);
    EXPECT(p, r.rank, 2);
}

ON_EACH_DEVICE(linalg, bad_pivots_are_refused)
{
    tn_linalg_lu_solve(p->s, square(p, 1, 0, 0, 1), VECTOR(p, TN_INT32, 1, 3), square(p, 1, 0, 0, 1));
    expect_error(p, "argument 'pivots': must be rows from 1 to 2");
    tn_lu_unpack(p->s, square(p, 1, 0, 0, 1), VECTOR(p, TN_INT32, 0, 2));
    expect_error(p, "argument 'LU_pivots': must be rows from 1 to 2");
}

/* The matrix is Hermitian, so its gradient is: both halves of it, not the one that is read. */
ON_EACH_DEVICE(linalg, gradients_through_eigenvectors_are_symmetric)
{
    tn_tensor *a = square(p, 2, 1, 1, 3);
    tn_set_requires_grad(a, 1);
    tn_linalg_eigh_result r = tn_linalg_eigh(p->s, a);
    tn_backward(p->s, tn_abs(p->s, tn_select(p->s, tn_select(p->s, r.eigenvectors, 0, 0), 0, 0)));
    EXPECT(p, tn_grad_of(p->s, a), -0.10514622242382665, -0.052573111211913354, -0.052573111211913354,
           0.10514622242382665);
}

ON_EACH_DEVICE(linalg, determinants)
{
    EXPECT(p, tn_linalg_det(p->s, square(p, 0, 2, 3, 1)), -6);
    EXPECT(p, tn_det(p->s, MAKE(p, TN_FLOAT64, TN_INTS(3, 3), 0, 0, 1, 1, 0, 0, 0, 1, 0)), 1);
    tn_linalg_slogdet_result r = tn_linalg_slogdet(p->s, square(p, 0, 2, 3, 1));
    EXPECT(p, r.sign, -1);
    EXPECT(p, r.logabsdet, 1.791759469228055);
    EXPECT(p, tn_linalg_det(p->s, MAKE(p, TN_FLOAT64, TN_INTS(2, 0, 0), 0)), 1, 1);
}

ON_EACH_DEVICE(linalg, factors)
{
    tn_tensor *a = square(p, 0, 2, 4, 1);
    tn_linalg_lu_result lu = tn_linalg_lu(p->s, a);
    EXPECT(p, lu.P, 0, 1, 1, 0);
    EXPECT(p, lu.L, 1, 0, 0, 1);
    EXPECT(p, lu.U, 4, 1, 0, 2);
    EXPECT(p, tn_linalg_cholesky(p->s, square(p, 4, 2, 2, 5)), 2, 0, 1, 2);
    EXPECT(p, tn_linalg_cholesky(p->s, square(p, 4, 2, 2, 5), .upper = 1), 2, 1, 0, 2);
    tn_linalg_qr_result qr = tn_linalg_qr(p->s, square(p, 3, 1, 4, 2));
    EXPECT(p, tn_abs(p->s, qr.Q), 0.6, 0.8, 0.8, 0.6);
    EXPECT(p, tn_abs(p->s, qr.R), 5, 2.2, 0, 0.4);
    EXPECT(p, tn_matmul(p->s, qr.Q, qr.R), 3, 1, 4, 2);
    tn_linalg_qr_result whole =
        tn_linalg_qr(p->s, MAKE(p, TN_FLOAT64, TN_INTS(2, 1), 3, 4), .mode = "complete");
    expect_sizes(p, whole.Q, TN_INTS(2, 2));
    EXPECT(p, tn_abs(p->s, whole.R), 5, 0);
}

ON_EACH_DEVICE(linalg, singular_values_and_norms)
{
    tn_tensor *a = square(p, 3, 0, 4, 5);
    EXPECT(p, tn_linalg_svdvals(p->s, a), 6.708203932499369, 2.23606797749979);
    EXPECT(p, tn_linalg_matrix_norm(p->s, a, 2), 6.708203932499369);
    EXPECT(p, tn_linalg_matrix_norm(p->s, a, -2), 2.23606797749979);
    EXPECT(p, tn_linalg_matrix_norm_str_ord(p->s, a, .ord = "nuc", .keepdim = 1), 8.94427190999916);
    EXPECT(p, tn_linalg_cond(p->s, a), 3);
    EXPECT(p, tn_linalg_matrix_rank(p->s, square(p, 1, 2, 2, 4), 1e-9), 1);
    EXPECT(p, tn_pinverse(p->s, MAKE(p, TN_FLOAT64, TN_INTS(2, 1), 3, 4)), 0.12, 0.16);
    tn_linalg_svd_result r = tn_linalg_svd(p->s, MAKE(p, TN_FLOAT64, TN_INTS(3, 2), 1, 2, 3, 4, 5, 6));
    expect_sizes(p, r.U, TN_INTS(3, 3));
    expect_sizes(p, r.Vh, TN_INTS(2, 2));
    tn_tensor *u = tn_narrow(p->s, r.U, 1, 0, 2);
    EXPECT(p, tn_matmul(p->s, tn_mul(p->s, u, r.S), r.Vh), 1, 2, 3, 4, 5, 6);
}

ON_EACH_DEVICE(linalg, eigenvalues)
{
    EXPECT(p, tn_linalg_eigvalsh(p->s, square(p, 2, 9, 1, 2)), 1, 3);
    EXPECT(p, tn_linalg_eigvalsh(p->s, square(p, 2, 1, 9, 2), .UPLO = "U"), 1, 3);
    tn_linalg_eigh_result r = tn_linalg_eigh(p->s, square(p, 2, 1, 1, 2));
    EXPECT(p, tn_abs(p->s, r.eigenvectors), 0.7071067811865476, 0.7071067811865476, 0.7071067811865476,
           0.7071067811865476);
    /* A quarter turn has the eigenvalues i and -i. */
    tn_linalg_eig_result e = tn_linalg_eig(p->s, square(p, 0, -1, 1, 0));
    EXPECT(p, tn_view_as_real(p->s, e.eigenvalues), 0, 1, 0, -1);
    tn_tensor *turned = tn_matmul(p->s, tn_to(p->s, square(p, 0, -1, 1, 0), TN_COMPLEX128), e.eigenvectors);
    tn_tensor *same = tn_sub(p->s, turned, tn_mul(p->s, e.eigenvectors, e.eigenvalues));
    EXPECT(p, tn_view_as_real(p->s, same), 0, 0, 0, 0, 0, 0, 0, 0);
}

ON_EACH_DEVICE(linalg, exponentials)
{
    EXPECT(p, tn_linalg_matrix_exp(p->s, square(p, 0, 1, 0, 0)), 1, 1, 0, 1);
    EXPECT(p, tn_linalg_matrix_exp(p->s, square(p, 0, -3, 3, 0)), -0.9899924966004454, -0.1411200080598672,
           0.1411200080598672, -0.9899924966004454);
    EXPECT_NEAR(p, tn_linalg_matrix_exp(p->s, square(p, 10, 0, 0, -10)), 1e-6, 22026.465794806718, 0, 0,
                4.5399929762484854e-05);
}
