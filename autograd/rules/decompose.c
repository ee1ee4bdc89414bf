/* SPDX-License-Identifier: Apache-2.0 */
/* Factors of matrices, inverses, determinants, solutions of equations. ^H is the conjugate transpose. */
#include "autograd/rules/formula.h"

#include <float.h>

static int64_t rows_of(const tn_tensor *t)
{
    return t ? t->desc.sizes[t->desc.rank - 2] : 0;
}
static int64_t columns_of(const tn_tensor *t)
{
    return t ? t->desc.sizes[t->desc.rank - 1] : 0;
}
static tn_tensor *below(tn_scope *s, tn_tensor *t)
{
    return tn_tril(s, t, .diagonal = -1);
}
static tn_tensor *diagonal(tn_scope *s, tn_tensor *t)
{
    return tn_diagonal(s, t, .dim1 = -2, .dim2 = -1);
}
/* triangle^-1 b, or b triangle^-1 */
static tn_tensor *solve_left(tn_scope *s, tn_tensor *triangle, tn_tensor *b, int32_t upper, int32_t unit)
{
    return tn_linalg_solve_triangular(s, triangle, b, upper, .unitriangular = unit);
}
static tn_tensor *solve_right(tn_scope *s, tn_tensor *triangle, tn_tensor *b, int32_t upper)
{
    return tn_linalg_solve_triangular(s, triangle, b, upper, .left = 0);
}

/* ---- LU ---- */

/*
 * A = P L U with k columns of L and rows of U. The square part, L1 U1, has the gradient L1^-H (below(L1^H
 * gL1) + triu(gU1 U1^H)) U1^-H. The rest of a wide U or a tall L is solved for, and its share is subtracted
 * from the other factor.
 */
static tn_tensor *lu_gradient(tn_scope *s, const tn_lu_unpack_result *f, tn_tensor *gl, tn_tensor *gu)
{
    int64_t m = rows_of(f->L), k = columns_of(f->L), n = columns_of(f->U);
    tn_tensor *l1 = tn_narrow(s, f->L, -2, 0, k), *u1 = tn_narrow(s, f->U, -1, 0, k), *rest = NULL;
    tn_tensor *of_l = tn_matmul(s, adjoint(s, l1), tn_narrow(s, gl, -2, 0, k));
    tn_tensor *of_u = tn_matmul(s, tn_narrow(s, gu, -1, 0, k), adjoint(s, u1)), *grad;
    if (n > k) {
        rest = tn_narrow(s, gu, -1, k, n - k);
        of_l = sub(s, of_l, tn_matmul(s, rest, adjoint(s, tn_narrow(s, f->U, -1, k, n - k))));
        rest = solve_left(s, adjoint(s, f->L), rest, 1, 1);
    } else if (m > k) {
        rest = tn_narrow(s, gl, -2, k, m - k);
        of_u = sub(s, of_u, tn_matmul(s, adjoint(s, tn_narrow(s, f->L, -2, k, m - k)), rest));
        rest = solve_right(s, adjoint(s, f->U), rest, 0);
    }
    grad = solve_left(s, adjoint(s, l1), add(s, below(s, of_l), tn_triu(s, of_u)), 1, 1);
    grad = solve_right(s, adjoint(s, u1), grad, 0);
    if (rest) grad = tn_cat(s, TN_TENSORS(grad, rest), .dim = n > k ? -1 : -2);
    return tn_matmul(s, f->P, grad);
}

void grad_lu_factor(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tn_lu_unpack_result f = tn_lu_unpack(s, tni_grad_result(g, 0), tni_grad_result(g, 1));
    int64_t k = columns_of(f.L);
    tni_grad_set(
        g, 0,
        lu_gradient(s, &f, below(s, tn_narrow(s, grad, -1, 0, k)), tn_triu(s, tn_narrow(s, grad, -2, 0, k))));
}

void grad_lu_unpack(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_tensor *of_l = tni_grad_out(g, 1), *of_u = tni_grad_out(g, 2);
    int64_t rows = m.sizes[m.rank - 2], columns = m.sizes[m.rank - 1];
    if (of_l) of_l = tn_constant_pad_nd(s, below(s, of_l), TN_INTS(0, columns - columns_of(of_l)));
    if (of_u) of_u = tn_constant_pad_nd(s, tn_triu(s, of_u), TN_INTS(0, 0, 0, rows - rows_of(of_u)));
    tni_grad_set(g, 0, of_l && of_u ? add(s, of_l, of_u) : of_l ? of_l : of_u);
}

/* The gradient of A in op(A) X = B or X op(A) = B, of B's gradient. */
static tn_tensor *matrix_gradient(tn_scope *s, tn_tensor *gb, tn_tensor *x, int32_t left, int32_t adjoined)
{
    tn_tensor *grad = left ? tn_matmul(s, gb, adjoint(s, x)) : tn_matmul(s, adjoint(s, x), gb);
    return neg(s, adjoined ? adjoint(s, grad) : grad);
}

void grad_linalg_lu_solve(tn_scope *s, tni_grad *g)
{
    tn_tensor *lu = tni_grad_saved(g, 0), *pivots = tni_grad_saved(g, 1), *x = tni_grad_result(g, 0);
    int32_t left = bool_arg(g, 3), adjoined = bool_arg(g, 4);
    tn_tensor *gb = tn_linalg_lu_solve(s, lu, pivots, tni_grad_out(g, 0), .left = left, .adjoint = !adjoined);
    tni_grad_set(g, 2, gb);
    if (!tni_grad_needs(g, 0)) return;
    tn_lu_unpack_result f = tn_lu_unpack(s, lu, pivots);
    tn_tensor *ga = tn_matmul(s, tn_transpose(s, f.P, -2, -1), matrix_gradient(s, gb, x, left, adjoined));
    tni_grad_set(
        g, 0,
        add(s, below(s, tn_matmul(s, ga, adjoint(s, f.U))), tn_triu(s, tn_matmul(s, adjoint(s, f.L), ga))));
}

/* ---- solutions ---- */

void grad_linalg_solve(tn_scope *s, tni_grad *g)
{
    tn_tensor *a = tni_grad_saved(g, 0), *x = tni_grad_result(g, 0), *grad = tni_grad_out(g, 0);
    tni_meta b = tni_grad_meta(g, 1, 0), m = tni_grad_meta(g, 0, 0);
    int32_t left = bool_arg(g, 2), vector = b.rank < m.rank;
    for (uint32_t i = 0; vector && b.rank > 1 && i < b.rank; i++)
        vector = b.rank + 1 == m.rank && b.sizes[i] == m.sizes[i];
    if (vector) {
        x = tn_unsqueeze(s, x, -1);
        grad = tn_unsqueeze(s, grad, -1);
    }
    tn_tensor *gb = tn_linalg_solve(s, adjoint(s, a), grad, .left = left);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, matrix_gradient(s, gb, x, left, 0));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, vector ? tn_squeeze_dim(s, gb, -1) : gb);
}

void grad_linalg_inv(tn_scope *s, tni_grad *g)
{
    tn_tensor *inverse = adjoint(s, tni_grad_result(g, 0));
    tni_grad_set(g, 0, neg(s, tn_matmul(s, inverse, tn_matmul(s, tni_grad_out(g, 0), inverse))));
}

void grad_linalg_solve_triangular(tn_scope *s, tni_grad *g)
{
    tn_tensor *a = tni_grad_saved(g, 0), *x = tni_grad_result(g, 0), *ga;
    int32_t upper = bool_arg(g, 2), left = bool_arg(g, 3), unit = bool_arg(g, 4);
    tn_tensor *gb = tn_linalg_solve_triangular(s, adjoint(s, a), tni_grad_out(g, 0), !upper, .left = left,
                                               .unitriangular = unit);
    tni_grad_set(g, 1, gb);
    if (!tni_grad_needs(g, 0)) return;
    ga = matrix_gradient(s, gb, x, left, 0);
    tni_grad_set(g, 0, upper ? tn_triu(s, ga, .diagonal = unit) : tn_tril(s, ga, .diagonal = -unit));
}

/* A = L L^H: gA = L^-H (low + below(low)^H) L^-1 / 2, where low is tril(L^H gL). */
void grad_linalg_cholesky(tn_scope *s, tni_grad *g)
{
    tn_tensor *l = tni_grad_result(g, 0), *grad = tni_grad_out(g, 0), *low;
    if (bool_arg(g, 1)) {
        l = adjoint(s, l);
        grad = adjoint(s, grad);
    }
    low = tn_tril(s, tn_matmul(s, adjoint(s, l), grad));
    low = scale(s, add(s, low, adjoint(s, below(s, low))), 0.5);
    tni_grad_set(g, 0, solve_right(s, l, solve_left(s, adjoint(s, l), low, 1, 0), 0));
}

/*
 * The product of the factor with its adjoint, on the factor's side: F^H F = A above the diagonal, F F^H
 * below.
 */
static tn_tensor *by_factor(tn_scope *s, tn_tensor *grad, tn_tensor *factor, int32_t upper)
{
    return neg(s, upper ? tn_matmul(s, factor, grad) : tn_matmul(s, grad, factor));
}

/*
 * (self: B, input2: the factor, upper); A X = B, so gA = -gB X^H; both occurrences of the factor in A get
 * their share.
 */
void grad_cholesky_solve(tn_scope *s, tni_grad *g)
{
    tn_tensor *factor = tni_grad_saved(g, 1), *x = tni_grad_result(g, 0), *both;
    int32_t upper = bool_arg(g, 2);
    tn_tensor *gb = tn_cholesky_solve(s, tni_grad_out(g, 0), factor, .upper = upper);
    tni_grad_set(g, 0, gb);
    if (!tni_grad_needs(g, 1)) return;
    both = tn_matmul(s, gb, adjoint(s, x));
    tni_grad_set(g, 1, by_factor(s, add(s, both, adjoint(s, both)), factor, upper));
}

void grad_cholesky_inverse(tn_scope *s, tni_grad *g)
{
    tn_tensor *inverse = tni_grad_result(g, 0), *grad = tni_grad_out(g, 0);
    grad = tn_matmul(s, tn_matmul(s, inverse, add(s, grad, adjoint(s, grad))), inverse);
    tni_grad_set(g, 0, by_factor(s, grad, tni_grad_saved(g, 0), bool_arg(g, 1)));
}

/* ---- determinants ---- */

/* w A^-H for a scalar w of each matrix. */
static tn_tensor *scaled_inverse(tn_scope *s, tn_tensor *a, tn_tensor *w)
{
    tn_tensor *units =
        tn_eye(s, columns_of(a), .dtype = a ? a->desc.dtype : 0, .device = a ? a->desc.device : 0);
    w = mul(s, tn_unsqueeze(s, tn_unsqueeze(s, w, -1), -1), units);
    return tn_linalg_solve_ex(s, adjoint(s, a), w).result;
}

/* g times the conjugate transpose of the adjugate, which singular matrices have, too: by singular values. */
static tn_tensor *scaled_adjugate(tn_scope *s, tn_tensor *a, tn_tensor *grad)
{
    tn_linalg_svd_result r = tn_linalg_svd(s, a);
    if (tn_scope_failed(s)) return NULL;
    tn_tensor *phase = conj_of(s, mul(s, tn_linalg_det(s, r.U), tn_linalg_det(s, r.Vh)));
    tn_tensor *others = tni_rule_product_of_others(s, r.S, (int64_t)r.S->desc.rank - 1);
    others = mul(s, tn_unsqueeze(s, mul(s, phase, grad), -1), others);
    return tn_matmul(s, mul(s, r.U, tn_unsqueeze(s, others, -2)), r.Vh);
}

/*
 * The largest determinant of a matrix that counts as singular. Matrices of small elements have small determinants: the
 * limit is relative to that of a multiple of a unitary matrix with as large a norm, but to at most 1.
 */
static tn_tensor *least_regular(tn_scope *s, tn_tensor *a)
{
    tn_tensor *size = tn_abs(s, tn_detach(s, a));
    if (!size) return NULL;
    const double epsilon = size->desc.dtype == TN_FLOAT64 ? DBL_EPSILON : FLT_EPSILON;
    const double n = (double)columns_of(a);
    tn_tensor *squares = tn_sum_dim(s, square(s, size), TN_INTS(-2, -1));
    tn_tensor *typical = tn_pow_tensor_scalar(s, scale(s, squares, 1 / n), n / 2);
    return scale(s, tn_clamp_max(s, typical, 1), 100 * epsilon);
}

/*
 * The gradient of det as a function of the matrix, to be differentiated again. Singular matrices are replaced by 1 where
 * the inverse is taken; all others are replaced by one with distinct singular values where those are used.
 */
static tn_tensor *det_gradient_again(tn_scope *s, tn_tensor *a, tn_tensor *det, tn_tensor *grad)
{
    tn_tensor *w = mul(s, grad, conj_of(s, det)), *size = tn_abs(s, det);
    if (!size || columns_of(a) == 0) return scaled_inverse(s, a, w);
    tn_tensor *is_singular = tn_le(s, tn_detach(s, size), least_regular(s, a));
    if (!tn_item_bool(s, tn_any(s, is_singular))) return scaled_inverse(s, a, w);
    if (tn_item_bool(s, tn_all(s, is_singular))) return scaled_adjugate(s, a, grad);
    tn_tensor *one = tn_eye(s, columns_of(a), .dtype = a->desc.dtype, .device = a->desc.device);
    tn_tensor *distinct = tn_cumsum(s, tn_cumsum(s, one, -1), -2); /* the smaller of row and column, from 1 */
    tn_tensor *mask = tn_unsqueeze(s, tn_unsqueeze(s, is_singular, -1), -1);
    tn_tensor *regular = scaled_inverse(s, tn_where(s, mask, one, a), drop_where(s, is_singular, w));
    tn_tensor *singular =
        scaled_adjugate(s, tn_where(s, mask, a, distinct), keep_where(s, is_singular, grad));
    return add(s, regular, singular);
}

/*
 * g conj(det) A^-H, by the LU factors if nothing is recorded. A zero on their diagonal (then the determinant
 * is 0) is replaced by a small number, so that the division is defined.
 */
void grad_linalg_det(tn_scope *s, tni_grad *g)
{
    tn_tensor *a = tni_grad_saved(g, 0), *lu = tni_grad_result(g, 1), *pivots = tni_grad_result(g, 2);
    if (tni_grad_enabled()) {
        tni_grad_set(g, 0, det_gradient_again(s, a, tni_grad_result(g, 0), tni_grad_out(g, 0)));
        return;
    }
    tn_tensor *w = mul(s, tni_grad_out(g, 0), conj_of(s, tni_grad_result(g, 0)));
    tn_tensor *zero = tn_eq_scalar(s, diagonal(s, lu), 0);
    lu = add(s, lu, tn_diag_embed(s, scale(s, zero, 1e-7)));
    w = tn_diag_embed(s, tn_expand_as(s, tn_unsqueeze(s, w, -1), pivots));
    tni_grad_set(g, 0, tn_linalg_lu_solve(s, lu, pivots, w, .adjoint = 1));
}

/* d log det = tr(A^-1 dA): the real part changes logabsdet, the imaginary part the sign. */
void grad_linalg_slogdet(tn_scope *s, tni_grad *g)
{
    tn_tensor *a = tni_grad_saved(g, 0), *sign = tni_grad_result(g, 0), *of_sign = tni_grad_out(g, 0),
              *w = tni_grad_out(g, 1);
    if (is_complex(sign) && of_sign) {
        tn_tensor *turn = tn_imag(s, mul(s, of_sign, conj_of(s, sign)));
        w = tn_complex(s, w ? w : tn_zeros_like(s, turn), turn);
    }
    if (w)
        tni_grad_set(g, 0, scaled_inverse(s, a, w));
    else
        set_zero(s, g, 0);
}

/* ---- QR ---- */

/*
 * Square or tall A: (gQ + Q M) R^-H, where M is hermitian and its lower triangle is that of R gR^H - gQ^H Q.
 * The columns of a wide A beyond the square are Q R2.
 */
void grad_linalg_qr(tn_scope *s, tni_grad *g)
{
    tn_tensor *q = tni_grad_result(g, 0), *r = tni_grad_result(g, 1), *gq = tni_grad_out(g, 0),
              *gr = tni_grad_out(g, 1), *middle = NULL, *rest = NULL, *grad;
    const char *mode = string_arg(g, 1);
    tni_meta a = tni_grad_meta(g, 0, 0);
    int64_t m = a.sizes[a.rank - 2], n = a.sizes[a.rank - 1];
    if (mode[0] == 'r' && mode[1] == 0) {
        tn_scope_fail(s, TN_E_AUTOGRAD,
                      "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
                      "use linalg.qr(A, mode='reduced') if you are going to require gradients.");
        return;
    }
    if (mode[0] == 'c' && m > n) {
        tn_scope_fail(s, TN_E_AUTOGRAD,
                      "The QR decomposition is not differentiable when mode='complete' and nrows > ncols");
        return;
    }
    if (n > m && gr) {
        tn_tensor *beyond = tn_narrow(s, gr, -1, m, n - m);
        tn_tensor *share = tn_matmul(s, q, tn_matmul(s, tn_narrow(s, r, -1, m, n - m), adjoint(s, beyond)));
        gq = gq ? add(s, gq, share) : share;
        gr = tn_narrow(s, gr, -1, 0, m);
        rest = tn_matmul(s, q, beyond);
    }
    r = tn_narrow(s, r, -1, 0, m < n ? m : n);
    if (gr) middle = tn_matmul(s, r, adjoint(s, gr));
    if (gq) {
        tn_tensor *of_q = tn_matmul(s, adjoint(s, gq), q);
        middle = middle ? sub(s, middle, of_q) : neg(s, of_q);
    }
    middle = tn_tril(s, middle);
    middle = sub(s, middle, scale(s, tn_diag_embed(s, diagonal(s, middle)), 0.5));
    grad = tn_matmul(s, q, add(s, middle, adjoint(s, middle)));
    if (gq) grad = add(s, grad, gq);
    grad = solve_right(s, adjoint(s, r), grad, 0);
    if (n > m && !rest) rest = tn_narrow(s, zeros_arg(s, g, 0, grad), -1, m, n - m);
    tni_grad_set(g, 0, rest ? tn_cat(s, TN_TENSORS(grad, rest), .dim = -1) : grad);
}

typedef struct reflections {
    int32_t left, adjoined;
} reflections;

/* H_1 H_2 ... H_k (or its adjoint) times c, or c times it, with H_i = 1 - tau_i v_i v_i^H. */
static tn_tensor *reflect(tn_scope *s, const reflections *how, tn_tensor *in, tn_tensor *tau, tn_tensor *c)
{
    int64_t k = columns_of(tau ? tn_unsqueeze(s, tau, -2) : NULL);
    tn_tensor *unit =
        in ? tn_eye_m(s, rows_of(in), columns_of(in), .dtype = in->desc.dtype, .device = in->desc.device)
           : NULL;
    tn_tensor *vectors = add(s, below(s, in), unit);
    if (how->adjoined) tau = conj_of(s, tau);
    for (int64_t i = 0; i < k && !tn_scope_failed(s); i++) {
        int64_t at = how->left == how->adjoined ? i : k - 1 - i;
        tn_tensor *v = tn_narrow(s, vectors, -1, at, 1), *along, *t;
        t = tn_unsqueeze(s, tn_narrow(s, tau, -1, at, 1), -1);
        along = how->left ? tn_matmul(s, v, tn_matmul(s, adjoint(s, v), c))
                          : tn_matmul(s, tn_matmul(s, c, v), adjoint(s, v));
        c = sub(s, c, mul(s, t, along));
    }
    return c;
}

static void product_formula(tn_scope *s, const void *data, tn_tensor *const *in, tn_tensor **out)
{
    tn_tensor *units = tn_eye_m(s, rows_of(in[0]), columns_of(in[0]), .dtype = in[0]->desc.dtype,
                                .device = in[0]->desc.device);
    out[0] = reflect(s, data, in[0], in[1], units);
}

static void apply_formula(tn_scope *s, const void *data, tn_tensor *const *in, tn_tensor **out)
{
    out[0] = reflect(s, data, in[0], in[1], in[2]);
}

static void set_by_formula(tn_scope *s, tni_grad *g, tni_formula *formula, const reflections *how, uint32_t n)
{
    tn_tensor *in[3] = {NULL}, *grads[1] = {tni_grad_out(g, 0)}, *out[3] = {NULL};
    int32_t wanted[3] = {0};
    for (uint32_t i = 0; i < n; i++) {
        in[i] = tni_grad_saved(g, i);
        wanted[i] = tni_grad_needs(g, i);
    }
    if (tni_rule_vjp(s, formula, how, in, wanted, n, grads, 1, out)) return;
    for (uint32_t i = 0; i < n; i++) tni_grad_set(g, i, out[i]);
}

void grad_householder_product(tn_scope *s, tni_grad *g)
{
    set_by_formula(s, g, product_formula, &(reflections){.left = 1}, 2);
}

void grad_ormqr(tn_scope *s, tni_grad *g)
{
    set_by_formula(s, g, apply_formula, &(reflections){.left = bool_arg(g, 3), .adjoined = bool_arg(g, 4)},
                   3);
}
