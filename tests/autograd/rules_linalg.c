/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of factors of matrices, inverses, determinants, singular values and eigenvalues. */
#include "rules.h"

/* Matrices with a dominant diagonal, so that none is nearly singular. */
static tn_tensor *heavy(tn_scope *s, tn_ints sizes, int32_t complex)
{
    tn_tensor *noise = complex ? complex_leaf(s, -1, 1, sizes) : leaf(s, -1, 1, sizes);
    int64_t n = sizes.data[sizes.count - 1], m = sizes.data[sizes.count - 2];
    tn_tensor *t =
        tn_add(s, tn_detach(s, noise), tn_mul_scalar(s, tn_eye_m(s, m, n, .dtype = TN_FLOAT64), 3));
    tn_set_requires_grad(t, 1);
    return t;
}

static tn_tensor *hermitian(tn_scope *s, tn_tensor *t)
{
    return tn_add(s, t, tn_conj(s, tn_transpose(s, t, -2, -1)));
}

static tn_value text(const char *t)
{
    return tn_value_string(t);
}

Test(rules_linalg, of_inverses_and_solutions)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_LINALG_INV, of(heavy(s, TN_INTS(2, 3, 3), 0)));
    CHECK(s, TN_OP_LINALG_INV, of(heavy(s, TN_INTS(2, 2), 1)));
    CHECK(s, TN_OP_LINALG_SOLVE, of(heavy(s, TN_INTS(3, 3), 0)), of(leaf(s, -1, 1, TN_INTS(3))), truth(1));
    CHECK(s, TN_OP_LINALG_SOLVE, of(heavy(s, TN_INTS(2, 1, 2, 2), 0)), of(leaf(s, -1, 1, TN_INTS(3, 2, 2))),
          truth(1));
    CHECK(s, TN_OP_LINALG_SOLVE, of(heavy(s, TN_INTS(2, 2), 1)), of(complex_leaf(s, -1, 1, TN_INTS(3, 2))),
          truth(0));
    CHECK(s, TN_OP_MATRIX_POWER, of(heavy(s, TN_INTS(2, 2), 0)), whole(-3));
    rules_end(s);
}

Test(rules_linalg, of_triangles)
{
    tn_scope *s = rules_begin();
    for (int32_t way = 0; way < 8; way++)
        CHECK(s, TN_OP_LINALG_SOLVE_TRIANGULAR, of(heavy(s, TN_INTS(2, 2), way & 1)),
              of(way & 1 ? complex_leaf(s, -1, 1, TN_INTS(2, 2)) : leaf(s, -1, 1, TN_INTS(2, 2))),
              truth(way & 2), truth(way & 4), truth(way & 1));
    rules_end(s);
}

Test(rules_linalg, of_lu)
{
    tn_scope *s = rules_begin();
    CHECK_CALL(s, TN_OP_LINALG_LU_FACTOR_EX, 3, 1, 0, of(heavy(s, TN_INTS(3, 3), 0)), truth(1), truth(0));
    CHECK_CALL(s, TN_OP_LINALG_LU_FACTOR_EX, 3, 1, 0, of(heavy(s, TN_INTS(2, 4), 0)), truth(1), truth(0));
    CHECK_CALL(s, TN_OP_LINALG_LU_FACTOR_EX, 3, 1, 0, of(heavy(s, TN_INTS(4, 2), 1)), truth(1), truth(0));
    CHECK_CALL(s, TN_OP_LINALG_LU, 3, 3, 0, of(heavy(s, TN_INTS(2, 3, 2), 0)), truth(1));
    rules_end(s);
}

Test(rules_linalg, of_solutions_by_lu)
{
    tn_scope *s = rules_begin();
    for (int32_t way = 0; way < 8; way++) {
        tn_tensor *a = tn_detach(s, heavy(s, TN_INTS(2, 2), way & 1));
        tn_linalg_lu_factor_ex_result lu = tn_linalg_lu_factor_ex(s, a);
        tn_set_requires_grad(lu.LU, 1);
        CHECK(s, TN_OP_LINALG_LU_SOLVE, of(lu.LU), of(lu.pivots),
              of(way & 1 ? complex_leaf(s, -1, 1, TN_INTS(2, 2)) : leaf(s, -1, 1, TN_INTS(2, 2))),
              truth(way & 2), truth(way & 4));
    }
    rules_end(s);
}

/* As a function of the factor, so that elements above its diagonal are constant. */
static int32_t solved_by_factor(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensor *lower = tn_tril(s, in.data[0]);
    tn_tensor *sum = tn_cholesky_solve(s, in.data[1], lower);
    out[0] = tn_add(s, sum, tn_cholesky_inverse(s, tn_conj(s, tn_transpose(s, lower, -2, -1)), .upper = 1));
    return tn_scope_failed(s);
}

static int32_t factor_of(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    tn_tensor *t = in.data[0];
    t = tn_matmul(s, t, tn_conj(s, tn_transpose(s, t, -2, -1)));
    out[0] = tn_linalg_cholesky(s, t, .upper = user != NULL);
    return tn_scope_failed(s);
}

Test(rules_linalg, of_cholesky)
{
    tn_scope *s = rules_begin();
    check_function(s, "cholesky", factor_of, TN_TENSORS(heavy(s, TN_INTS(2, 3, 3), 0)));
    check_function(s, "cholesky", factor_of, TN_TENSORS(heavy(s, TN_INTS(2, 2), 1)));
    check_function(s, "cholesky_solve", solved_by_factor,
                   TN_TENSORS(heavy(s, TN_INTS(2, 2), 0), leaf(s, -1, 1, TN_INTS(2, 2))));
    check_function(s, "cholesky_solve", solved_by_factor,
                   TN_TENSORS(heavy(s, TN_INTS(2, 2), 1), complex_leaf(s, -1, 1, TN_INTS(2, 2))));
    rules_end(s);
}

Test(rules_linalg, of_determinants)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_LINALG_DET, of(heavy(s, TN_INTS(2, 3, 3), 0)));
    CHECK(s, TN_OP_LINALG_DET, of(heavy(s, TN_INTS(2, 2), 1)));
    CHECK(s, TN_OP_LOGDET, of(heavy(s, TN_INTS(3, 3), 0)));
    CHECK_CALL(s, TN_OP_LINALG_SLOGDET, 2, 2, 0, of(heavy(s, TN_INTS(2, 2), 1)));
    rules_end(s);
}

/* At singular matrices the gradient of the determinant is the adjugate, and has a derivative: here that of its first element. */
Test(rules_linalg, of_determinants_that_are_zero)
{
    tn_scope *s = rules_begin();
    const double singular[] = {1, 2, 3, 4, 5, 6, 5, 7, 9, 2, 0, 1, 1, 3, 0, 0, 1, 1};
    const double adjugate[] = {3, -6, 3, 3, -6, 3, -3, 6, -3, 3, -1, 1, 1, 2, -2, -3, 1, 6};
    const double again[] = {0, 0, 0, 0, 9, -7, 0, -6, 5, 0, 0, 0, 0, 1, -1, 0, 0, 3};
    for (int32_t regular = 0; regular < 2; regular++) {
        tn_tensor *a = make(s, regular ? TN_INTS(2, 3, 3) : TN_INTS(3, 3), singular, 1), *grad = NULL;
        tn_backward_options options = {.size = sizeof options, .create_graph = 1};
        tn_grad(s, TN_TENSORS(tn_sum(s, tn_linalg_det(s, a))), TN_TENSORS(a), &options, &grad);
        expect_values(s, grad, regular ? 18 : 9, adjugate, 1e-9);
        tn_backward(s, tn_sum(s, tn_select(s, tn_select(s, grad, -1, 0), -1, 0)));
        expect_values(s, tn_grad_of(s, a), regular ? 18 : 9, again, 1e-9);
    }
    rules_end(s);
}

/* Elements are small, but the matrix is far from a singular one: the derivative of a11 a22 - a12 a21. */
Test(rules_linalg, of_determinants_of_small_elements)
{
    tn_scope *s = rules_begin();
    const double small[] = {1e-6, 0, 0, 0, 1e-6, 0, 0, 0, 1e-6}, again[] = {0, 0, 0, 0, 1e-6, 0, 0, 0, 1e-6};
    tn_tensor *a = make(s, TN_INTS(3, 3), small, 1), *grad = NULL;
    tn_backward_options options = {.size = sizeof options, .create_graph = 1};
    tn_grad(s, TN_TENSORS(tn_linalg_det(s, a)), TN_TENSORS(a), &options, &grad);
    tn_backward(s, tn_select(s, tn_select(s, grad, -1, 0), -1, 0));
    expect_values(s, tn_grad_of(s, a), 9, again, 1e-18);
    rules_end(s);
}

Test(rules_linalg, of_qr)
{
    tn_scope *s = rules_begin();
    CHECK_CALL(s, TN_OP_LINALG_QR, 2, 2, 0, of(heavy(s, TN_INTS(2, 2), 0)), text("complete"));
    CHECK_CALL(s, TN_OP_LINALG_QR, 2, 2, 0, of(heavy(s, TN_INTS(4, 2), 0)), text("reduced"));
    CHECK_CALL(s, TN_OP_LINALG_QR, 2, 2, 0, of(heavy(s, TN_INTS(2, 4), 0)), text("reduced"));
    CHECK_CALL(s, TN_OP_LINALG_QR, 2, 2, 1, of(heavy(s, TN_INTS(3, 2), 1)), text("reduced"));
    rules_end(s);
}

Test(rules_linalg, of_reflectors)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_LINALG_HOUSEHOLDER_PRODUCT, of(leaf(s, -1, 1, TN_INTS(3, 2))),
          of(leaf(s, 0.2, 1, TN_INTS(2))));
    for (int32_t way = 0; way < 4; way++)
        CHECK(s, TN_OP_ORMQR, of(leaf(s, -1, 1, TN_INTS(3, 2))), of(leaf(s, 0.2, 1, TN_INTS(2))),
              of(leaf(s, -1, 1, TN_INTS(3, 3))), truth(way & 1), truth(way & 2));
    rules_end(s);
}

Test(rules_linalg, of_singular_values)
{
    tn_scope *s = rules_begin();
    CHECK_CALL(s, TN_OP__LINALG_SVD, 3, 3, 0, of(leaf(s, -1, 1, TN_INTS(3, 3))), truth(0), truth(1), none());
    CHECK_CALL(s, TN_OP__LINALG_SVD, 3, 3, 0, of(leaf(s, -1, 1, TN_INTS(2, 3))), truth(0), truth(1), none());
    CHECK_CALL(s, TN_OP__LINALG_SVD, 3, 3, 0, of(leaf(s, -1, 1, TN_INTS(4, 2))), truth(0), truth(1), none());
    CHECK(s, TN_OP_LINALG_SVDVALS, of(complex_leaf(s, -1, 1, TN_INTS(2, 3))), none());
    CHECK(s, TN_OP_LINALG_MATRIX_NORM, of(leaf(s, -1, 1, TN_INTS(2, 3, 4))), real(2), list(TN_INTS(0, 2)),
          truth(1), none());
    CHECK(s, TN_OP_LINALG_MATRIX_NORM_STR_ORD, of(leaf(s, -1, 1, TN_INTS(3, 4))), text("nuc"),
          list(TN_INTS(-2, -1)), truth(0), none());
    CHECK(s, TN_OP_LINALG_COND, of(heavy(s, TN_INTS(3, 3), 0)), real(-2));
    rules_end(s);
}

/* Functions that do not depend on the phase of the vectors. */
static int32_t eigenvalues_of(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_linalg_eigh_result r = tn_linalg_eigh(s, hermitian(s, in.data[0]));
    out[0] = tn_add(s, tn_abs(s, r.eigenvectors), r.eigenvalues);
    return tn_scope_failed(s);
}

static int32_t sizes_of_vectors(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_linalg_eig_result r = tn_linalg_eig(s, in.data[0]);
    out[0] = tn_add(s, tn_abs(s, r.eigenvectors), tn_abs(s, r.eigenvalues));
    return tn_scope_failed(s);
}

Test(rules_linalg, of_eigenvalues)
{
    tn_scope *s = rules_begin();
    check_function(s, "eigh", eigenvalues_of, TN_TENSORS(leaf(s, -1, 1, TN_INTS(3, 3))));
    check_function(s, "eigh", eigenvalues_of, TN_TENSORS(complex_leaf(s, -1, 1, TN_INTS(2, 2))));
    check_function(s, "eig", sizes_of_vectors, TN_TENSORS(complex_leaf(s, -1, 1, TN_INTS(3, 3))));
    check_function(s, "eig", sizes_of_vectors, TN_TENSORS(leaf(s, -1, 1, TN_INTS(3, 3))));
    CHECK(s, TN_OP_LINALG_EIGVALS, of(complex_leaf(s, -1, 1, TN_INTS(3, 3))));
    rules_end(s);
}

Test(rules_linalg, of_pseudoinverses_and_least_squares)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_PINVERSE, of(leaf(s, -1, 1, TN_INTS(2, 3, 2))), real(1e-15));
    CHECK(s, TN_OP_PINVERSE, of(complex_leaf(s, -1, 1, TN_INTS(2, 3))), real(1e-15));
    CHECK_CALL(s, TN_OP_LINALG_LSTSQ, 4, 2, 0, of(heavy(s, TN_INTS(4, 2), 0)),
               of(leaf(s, -1, 1, TN_INTS(4, 2))), none(), text("gelsd"));
    CHECK_CALL(s, TN_OP_LINALG_LSTSQ, 4, 1, 0, of(heavy(s, TN_INTS(2, 3), 1)),
               of(complex_leaf(s, -1, 1, TN_INTS(2))), none(), text("gelsy"));
    rules_end(s);
}

Test(rules_linalg, of_exponentials)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_LINALG_MATRIX_EXP, of(leaf(s, -1, 1, TN_INTS(2, 3, 3))));
    CHECK(s, TN_OP_LINALG_MATRIX_EXP, of(complex_leaf(s, -2, 2, TN_INTS(2, 2))));
    rules_end(s);
}

/* Dims that are inserted or summed are those of the gradient, too: they count from either end, in any order. */
Test(rules_linalg, of_products_of_three)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP__TRILINEAR, of(leaf(s, -1, 1, TN_INTS(2, 3))), of(leaf(s, -1, 1, TN_INTS(2, 3))),
          of(leaf(s, -1, 1, TN_INTS(2, 3))), list(TN_NO_INTS), list(TN_NO_INTS), list(TN_NO_INTS),
          list(TN_INTS(-1)), whole(1));
    CHECK(s, TN_OP__TRILINEAR, of(leaf(s, -1, 1, TN_INTS(2))), of(leaf(s, -1, 1, TN_INTS(3))),
          of(leaf(s, -1, 1, TN_INTS(2, 3))), list(TN_INTS(2, 1)), list(TN_INTS(-1, 0)), list(TN_INTS(-1)),
          list(TN_INTS(-2, 0)), whole(1));
    rules_end(s);
}

/* The reflections and their factors come from one tensor. */
static int32_t run_reflections(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    tn_tensor *a = in.data[0], *tau = tn_select(s, a, 0, 0);
    (void)user;
    tn_tensor *q = tn_linalg_householder_product(s, a, tau), *r = tn_ormqr(s, a, tau, a, 1, 0);
    out[0] = tn_add(s, tn_sum(s, tn_mul(s, q, q)), tn_sum(s, tn_mul(s, r, a)));
    return tn_scope_failed(s);
}

Test(rules_linalg, reflections_of_one_tensor)
{
    tn_scope *s = rules_begin();
    check_function(s, "reflections", run_reflections, TN_TENSORS(leaf(s, 0.5, 1.5, TN_INTS(3, 3))));
    rules_end(s);
}
