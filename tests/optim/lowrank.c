/* SPDX-License-Identifier: Apache-2.0 */
/* Low-rank factors and eigenvalues: known spectra, and the exact factors of matrices of low rank. */
#include <math.h>
#include <tenon/lowrank.h>
#include "suite.h"

TestSuite(lowrank, .init = begin, .fini = end);

static const double pi = 3.14159265358979323846;

/* rows x columns of the rank given: singular values `rank`, ..., 2, 1 */
static tn_tensor *of_rank(int64_t rank, int64_t rows, int64_t columns)
{
    tn_tensor *u = tn_linalg_qr(s, tn_randn(s, TN_INTS(rows, rank), .dtype = TN_FLOAT64)).Q;
    tn_tensor *v = tn_linalg_qr(s, tn_randn(s, TN_INTS(columns, rank), .dtype = TN_FLOAT64)).Q;
    tn_tensor *values = tn_flip(s, tn_arange_start(s, 1, rank + 1, .dtype = TN_FLOAT64), TN_INTS(0));
    return tn_mm(s, tn_mul(s, u, values), tn_t(s, v));
}

static double distance(tn_tensor *a, tn_tensor *b)
{
    return tn_item_double(s, tn_max(s, tn_abs(s, tn_sub(s, a, b))));
}

static tn_tensor *product(tn_low_rank r)
{
    return tn_matmul(s, tn_mul(s, r.u, tn_unsqueeze(s, r.s, -2)), tn_adjoint(s, r.v));
}

/* 2 on the diagonal, -1 beside it: the eigenvalues are 2 - 2 cos(pi i / (n + 1)), i from 1 to n. */
static tn_tensor *laplacian(int64_t n, tn_dtype dtype)
{
    tn_tensor *beside = tn_diag_embed(s, tn_full(s, TN_INTS(n - 1), -1.0, .dtype = dtype), .offset = 1);
    return tn_add(s, tn_add(s, beside, tn_t(s, beside)), tn_mul_scalar(s, tn_eye(s, n, .dtype = dtype), 2));
}

Test(lowrank, svd)
{
    tn_tensor *a = of_rank(4, 30, 20), *wide = of_rank(3, 12, 40);
    tn_low_rank r = tn_svd_lowrank(s, a, .q = 4);
    expect_values(s, r.s, 4, (const double[]){4, 3, 2, 1}, 1e-10);
    cr_expect_lt(distance(product(r), a), 1e-10);
    r = tn_svd_lowrank(s, wide);
    cr_expect_eq(tn_tensor_sizes(r.u)[1], 6);
    cr_expect_eq(tn_tensor_sizes(r.v)[0], 40);
    expect_values(s, tn_slice(s, r.s, .end = 3), 3, (const double[]){3, 2, 1}, 1e-10);
    cr_expect_lt(distance(product(r), wide), 1e-10);
    tn_tensor *batch = tn_stack(s, TN_TENSORS(a, tn_mul_scalar(s, a, 2)));
    cr_expect_lt(distance(product(tn_svd_lowrank(s, batch, .q = 5)), batch), 1e-10);
    cr_expect_lt(
        distance(product(tn_svd_lowrank(s, a, .mean = tn_mul_scalar(s, a, 0.5))), tn_mul_scalar(s, a, 0.5)),
        1e-10);
    tn_svd_lowrank(s, a, .q = 21);
    expect_error(s, "q(=21) must be non-negative integer and not greater than min(m, n)=20");
    tn_svd_lowrank(s, a, .niter = -1);
    expect_error(s, "niter(=-1) must be non-negative integer");
    tn_svd_lowrank(s, tn_ones(s, TN_INTS(3)));
    expect_error(s, "svd_lowrank: expected a matrix of a floating or complex dtype");
}

Test(lowrank, svd_has_a_gradient)
{
    tn_tensor *a = of_rank(3, 9, 7);
    tn_set_requires_grad(a, 1);
    tn_low_rank r = tn_svd_lowrank(s, a, .q = 3);
    cr_assert_eq(tn_backward(s, tn_sum(s, r.s)), TN_OK);
    /* of the sum of singular values: u v^H */
    cr_expect_lt(distance(tn_grad_of(s, a), tn_mm(s, r.u, tn_t(s, r.v))), 1e-8);
}

Test(lowrank, pca)
{
    tn_tensor *shift = tn_arange_start(s, 3, 23, .dtype = TN_FLOAT64),
              *a = tn_add(s, of_rank(3, 30, 20), shift);
    tn_tensor *centred = tn_sub(s, a, tn_mean_dim(s, a, TN_INTS(0), .keepdim = 1));
    tn_low_rank r = tn_pca_lowrank(s, a);
    cr_expect_eq(tn_tensor_numel(r.s), 6);
    cr_expect_lt(distance(product(r), centred), 1e-9);
    cr_expect_lt(distance(product(tn_pca_lowrank(s, a, .q = 4, .center = 0)), a), 1e-9);
    cr_expect_eq(tn_tensor_numel(tn_pca_lowrank(s, tn_slice(s, a, .end = 5)).s), 5);
}

Test(lowrank, eigenvalues)
{
    double largest[3], smallest[3];
    int64_t iterations = 0;
    tn_tensor *a = laplacian(40, TN_FLOAT64);
    for (int i = 0; i < 3; i++) {
        largest[i] = 2 - 2 * cos(pi * (40 - i) / 41);
        smallest[i] = 2 - 2 * cos(pi * (i + 1) / 41);
    }
    tn_eigenpairs e = tn_lobpcg(s, a, .k = 3, .tol = 1e-12, .out_iterations = &iterations);
    expect_values(s, e.values, 3, largest, 1e-10);
    cr_expect(iterations > 1 && iterations < 1000, "%lld", (long long)iterations);
    cr_expect_lt(distance(tn_mm(s, a, e.vectors), tn_mul(s, e.vectors, e.values)), 1e-9);
    cr_expect_lt(distance(tn_mm(s, tn_t(s, e.vectors), e.vectors), tn_eye(s, 3, .dtype = TN_FLOAT64)), 1e-12);
    e = tn_lobpcg(s, a, .k = 2, .n = 3, .largest = 0, .tol = 1e-12, .ik = tn_linalg_inv(s, a),
                  .out_iterations = &iterations);
    expect_values(s, e.values, 2, smallest, 1e-10);
    cr_expect(iterations < 20, "%lld", (long long)iterations);
    e = tn_lobpcg(s, tn_stack(s, TN_TENSORS(a, tn_mul_scalar(s, a, 3))), .k = 1, .tol = 1e-12);
    expect_values(s, e.values, 2, (const double[]){largest[0], 3 * largest[0]}, 1e-10);
    e = tn_lobpcg(s, laplacian(40, TN_FLOAT32), .x = tn_ones(s, TN_INTS(40, 1)), .largest = 0);
    expect_values(s, e.values, 1, smallest, 1e-5);
}

Test(lowrank, eigenvalues_with_a_second_matrix)
{
    tn_tensor *a = laplacian(20, TN_FLOAT64), *scale = tn_arange_start(s, 1, 21, .dtype = TN_FLOAT64),
              *b = tn_diag(s, scale);
    tn_eigenpairs e = tn_lobpcg(s, a, .b = b, .k = 2, .tol = 1e-13);
    tn_tensor *root = tn_rsqrt(s, scale); /* the same values: of b^-1/2 a b^-1/2 */
    tn_tensor *all = tn_linalg_eigvalsh(s, tn_mul(s, tn_mul(s, a, root), tn_unsqueeze(s, root, 1)));
    cr_expect_lt(distance(e.values, tn_flip(s, tn_slice(s, all, .start = 18), TN_INTS(0))), 1e-10);
    cr_expect_lt(
        distance(tn_mm(s, tn_t(s, e.vectors), tn_mm(s, b, e.vectors)), tn_eye(s, 2, .dtype = TN_FLOAT64)),
        1e-12);
}

Test(lowrank, eigenvalues_of_complex_matrices)
{
    /* i and -i beside the diagonal: a diagonal change of basis makes it real */
    tn_tensor *beside = tn_diag_embed(s, tn_full(s, TN_INTS(29), 1.0, .dtype = TN_FLOAT64), .offset = 1);
    tn_tensor *a = tn_complex(s, tn_zeros_like(s, beside), tn_sub(s, beside, tn_t(s, beside)));
    tn_eigenpairs e = tn_lobpcg(s, a, .k = 1, .tol = 1e-12);
    expect_values(s, e.values, 1, (const double[]){2 * cos(pi / 31)}, 1e-10);
}

Test(lowrank, eigenvalues_have_a_gradient)
{
    tn_tensor *a = laplacian(12, TN_FLOAT64), *b = tn_diag(s, tn_arange_start(s, 1, 13, .dtype = TN_FLOAT64));
    tn_set_requires_grad(a, 1);
    tn_set_requires_grad(b, 1);
    tn_eigenpairs e = tn_lobpcg(s, a, .b = b, .k = 1, .tol = 1e-13);
    cr_assert_eq(tn_backward(s, tn_sum(s, e.values)), TN_OK);
    tn_tensor *outer = tn_mm(s, e.vectors, tn_t(s, e.vectors));
    cr_expect_lt(distance(tn_grad_of(s, a), outer), 1e-9);
    cr_expect_lt(distance(tn_grad_of(s, b), tn_neg(s, tn_mul(s, outer, tn_detach(s, e.values)))), 1e-9);
}

Test(lowrank, bad_problems)
{
    tn_lobpcg(s, laplacian(8, TN_FLOAT64), .k = 3);
    expect_error(s, "the number of A rows (=8) is smaller than 3 x the number of requested eigenpairs (=3)");
    tn_lobpcg(s, tn_ones(s, TN_INTS(8, 9)), .k = 1);
    expect_error(s, "lobpcg: expected a square matrix (got 8x9)");
    tn_lobpcg(s, laplacian(9, TN_FLOAT64), .k = 3, .n = 2);
    expect_error(s, "lobpcg: option 'k': expected 1 to 2 (got 3)");
}
