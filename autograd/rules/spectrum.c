/* SPDX-License-Identifier: Apache-2.0 */
/* Singular values, eigenvalues, pseudoinverses, exponentials of matrices. ^H is the conjugate transpose. */
#include "autograd/rules/formula.h"

static tn_tensor *row(tn_scope *s, tn_tensor *values)
{
    return tn_unsqueeze(s, values, -2);
}
static tn_tensor *column(tn_scope *s, tn_tensor *values)
{
    return tn_unsqueeze(s, values, -1);
}
/* A real tensor (eigenvalues) becomes complex before it is multiplied with a complex one (eigenvectors). */
static tn_tensor *times_matrix(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    if (is_complex(a) && b && !is_complex(b)) b = tn__to_copy(s, b, .dtype = a->desc.dtype);
    if (is_complex(b) && a && !is_complex(a)) a = tn__to_copy(s, a, .dtype = b->desc.dtype);
    return tn_matmul(s, a, b);
}
static tn_tensor *sum_of(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return a && b ? add(s, a, b) : a ? a : b;
}

/* values[j] - values[i] at (i, j); 1 on the diagonal. */
static tn_tensor *gaps(tn_scope *s, tn_tensor *values)
{
    tn_tensor *gap = sub(s, row(s, values), column(s, values));
    tn_tensor *unit = values ? tn_eye(s, values->desc.sizes[values->desc.rank - 1],
                                      .dtype = values->desc.dtype, .device = values->desc.device)
                             : NULL;
    return add(s, gap, unit);
}

/* The matrix without its diagonal. */
static tn_tensor *off_diagonal(tn_scope *s, tn_tensor *m)
{
    return sub(s, m, tn_diag_embed(s, tn_diagonal(s, m, .dim1 = -2, .dim2 = -1)));
}

/* ---- singular values ---- */

typedef struct svd_parts {
    tn_tensor *u, *values, *vh, *gu, *gs, *gvh;
} svd_parts;

/* (X - X^H) / gaps of squares */
static tn_tensor *turned(tn_scope *s, tn_tensor *x, tn_tensor *gap)
{
    return divide(s, sub(s, x, adjoint(s, x)), gap);
}

/* The share of gU, gS and gV within the space of the singular vectors. */
static tn_tensor *svd_inner(tn_scope *s, const svd_parts *p)
{
    tn_tensor *gap = gaps(s, square(s, p->values)), *inner = NULL, *ugu = NULL;
    if (p->gs) inner = tn_diag_embed(s, p->gs);
    if (p->gu) {
        ugu = times_matrix(s, adjoint(s, p->u), p->gu);
        inner = sum_of(s, inner, mul(s, turned(s, ugu, gap), row(s, p->values)));
        if (is_complex(ugu)) {
            tn_tensor *phase = tn_imag(s, tn_diagonal(s, ugu, .dim1 = -2, .dim2 = -1));
            phase = divide(s, phase, p->values);
            phase = tn_complex(s, tn_zeros_like(s, phase), phase);
            inner = sum_of(s, inner, tn_diag_embed(s, phase));
        }
    }
    if (p->gvh) {
        tn_tensor *vgv = times_matrix(s, p->vh, adjoint(s, p->gvh));
        inner = sum_of(s, inner, mul(s, turned(s, vgv, gap), column(s, p->values)));
    }
    return inner;
}

/* The share outside of it: (1 - U U^H) gU S^-1 V^H and U S^-1 gV^H (1 - V V^H). */
static tn_tensor *svd_gradient(tn_scope *s, const svd_parts *p, int64_t m, int64_t n)
{
    tn_tensor *inner = svd_inner(s, p), *grad;
    if (!inner || !p->values) return NULL;
    int64_t k = m < n ? m : n;
    grad = times_matrix(s, times_matrix(s, p->u, inner), p->vh);
    if (m > k && p->gu) {
        tn_tensor *out = sub(s, p->gu, times_matrix(s, p->u, times_matrix(s, adjoint(s, p->u), p->gu)));
        grad = add(s, grad, times_matrix(s, divide(s, out, row(s, p->values)), p->vh));
    }
    if (n > k && p->gvh) {
        tn_tensor *out = sub(s, p->gvh, times_matrix(s, times_matrix(s, p->gvh, adjoint(s, p->vh)), p->vh));
        grad = add(s, grad, times_matrix(s, p->u, divide(s, out, column(s, p->values))));
    }
    return grad;
}

/*
 * (A, full_matrices, compute_uv, driver). Vectors that were not computed are computed here. Of full U and V
 * only the columns that belong to singular values have a gradient.
 */
void grad_linalg_svd(tn_scope *s, tni_grad *g)
{
    tni_meta a = tni_grad_meta(g, 0, 0);
    int64_t m = a.sizes[a.rank - 2], n = a.sizes[a.rank - 1], k = m < n ? m : n;
    svd_parts p = {tni_grad_result(g, 0), tni_grad_result(g, 1), tni_grad_result(g, 2),
                   tni_grad_out(g, 0),    tni_grad_out(g, 1),    tni_grad_out(g, 2)};
    if (!bool_arg(g, 2)) {
        tn__linalg_svd_result r = tn__linalg_svd(s, tni_grad_saved(g, 0));
        p = (svd_parts){.u = r.U, .values = r.S, .vh = r.Vh, .gs = p.gs};
    } else if (bool_arg(g, 1)) {
        p.u = tn_narrow(s, p.u, -1, 0, k);
        p.vh = tn_narrow(s, p.vh, -2, 0, k);
        if (p.gu) p.gu = tn_narrow(s, p.gu, -1, 0, k);
        if (p.gvh) p.gvh = tn_narrow(s, p.gvh, -2, 0, k);
    }
    tni_grad_set(g, 0, svd_gradient(s, &p, m, n));
}

/* ---- eigenvalues ---- */

/* V (half of (X - X^H) / gaps, where X = V^H gV, gL on its diagonal) V^H: Hermitian, as the matrix is. */
void grad_linalg_eigh(tn_scope *s, tni_grad *g)
{
    tn_tensor *values = tni_grad_result(g, 0), *v = tni_grad_result(g, 1), *of_values = tni_grad_out(g, 0),
              *of_vectors = tni_grad_out(g, 1), *inner = NULL;
    if (!bool_arg(g, 2)) {
        tn__linalg_eigh_result r = tn__linalg_eigh(s, tni_grad_saved(g, 0), .UPLO = string_arg(g, 1));
        v = r.eigenvectors;
        of_vectors = NULL;
    }
    if (of_vectors)
        inner = off_diagonal(
            s, tn_mul_scalar(s, turned(s, times_matrix(s, adjoint(s, v), of_vectors), gaps(s, values)), 0.5));
    if (of_values) inner = sum_of(s, inner, tn_diag_embed(s, of_values));
    tni_grad_set(g, 0, times_matrix(s, times_matrix(s, v, inner), adjoint(s, v)));
}

/* V^-H (inner) V^H, where inner is (V^H gV - V^H V diag(Re(V^H gV))) / conj(gaps) with gL on its diagonal. */
static tn_tensor *eig_gradient(tn_scope *s, tn_tensor *values, tn_tensor *v, tn_tensor *of_values,
                               tn_tensor *of_vectors)
{
    tn_tensor *inner = NULL, *vh = adjoint(s, v);
    if (of_vectors) {
        tn_tensor *along = times_matrix(s, vh, of_vectors);
        tn_tensor *lengths = tn_real(s, tn_diagonal(s, along, .dim1 = -2, .dim2 = -1));
        inner = sub(s, along, mul(s, times_matrix(s, vh, v), row(s, lengths)));
        inner = off_diagonal(s, divide(s, inner, conj_of(s, gaps(s, values))));
    }
    if (of_values) inner = sum_of(s, inner, tn_diag_embed(s, of_values));
    return tn_linalg_solve(s, vh, times_matrix(s, inner, vh));
}

void grad_linalg_eig(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 eig_gradient(s, tni_grad_result(g, 0), tni_grad_result(g, 1), tni_grad_out(g, 0),
                              tni_grad_out(g, 1)));
}

void grad_linalg_eigvals(tn_scope *s, tni_grad *g)
{
    tn_linalg_eig_result r = tn_linalg_eig(s, tni_grad_saved(g, 0));
    tni_grad_set(g, 0, eig_gradient(s, r.eigenvalues, r.eigenvectors, tni_grad_out(g, 0), NULL));
}

/* ---- pseudoinverses ---- */

/* Golub and Pereyra 1973; the order of the products keeps them small. */
void grad_linalg_pinv(tn_scope *s, tni_grad *g)
{
    tn_tensor *a = tni_grad_saved(g, 0), *p = tni_grad_result(g, 0), *ph = adjoint(s, p),
              *gh = adjoint(s, tni_grad_out(g, 0)), *grad, *k;
    tni_meta m = tni_grad_meta(g, 0, 0);
    if (m.sizes[m.rank - 2] <= m.sizes[m.rank - 1]) {
        k = times_matrix(s, gh, p);
        tn_tensor *kp = times_matrix(s, k, ph);
        grad = sub(s, kp, times_matrix(s, times_matrix(s, a, p), kp));
        grad = sub(s, grad, adjoint(s, times_matrix(s, p, k)));
        grad = add(s, grad, times_matrix(s, times_matrix(s, ph, p), sub(s, gh, times_matrix(s, k, a))));
    } else {
        k = times_matrix(s, p, gh);
        tn_tensor *pk = times_matrix(s, ph, k);
        grad = sub(s, pk, times_matrix(s, times_matrix(s, pk, p), a));
        grad = sub(s, grad, adjoint(s, times_matrix(s, k, p)));
        grad = add(s, grad, times_matrix(s, times_matrix(s, sub(s, gh, times_matrix(s, a, k)), p), ph));
    }
    tni_grad_set(g, 0, grad);
}

/* ---- exponentials ---- */

/* The exponential of [[A^H, g], [0, A^H]] has the gradient in its corner. */
void grad_linalg_matrix_exp(tn_scope *s, tni_grad *g)
{
    tn_tensor *ah = adjoint(s, tni_grad_saved(g, 0)), *grad = tni_grad_out(g, 0), *block;
    tni_meta m = tni_grad_meta(g, 0, 0);
    int64_t n = m.sizes[m.rank - 1];
    if (numel_of(&m) == 0) {
        set_zero(s, g, 0);
        return;
    }
    block = tn_cat(s,
                   TN_TENSORS(tn_cat(s, TN_TENSORS(ah, grad), .dim = -1),
                              tn_cat(s, TN_TENSORS(tn_zeros_like(s, ah), ah), .dim = -1)),
                   .dim = -2);
    block = tn_linalg_matrix_exp(s, block);
    tni_grad_set(g, 0, tn_narrow(s, tn_narrow(s, block, -2, 0, n), -1, n, n));
}

/* ---- least squares ---- */

/* Whether B has one right-hand side (a vector) for each matrix. */
static int32_t is_vector(const tni_meta *a, const tni_meta *b)
{
    if (b->rank == 1) return 1;
    for (uint32_t i = 0; i < b->rank; i++) {
        if (b->rank + 1 != a->rank || b->sizes[i] != a->sizes[i]) return 0;
    }
    return 1;
}

/* The three terms of dP, where P is the pseudoinverse in X = P B. */
static tn_tensor *solution_gradient(tn_scope *s, tn_tensor *a, tn_tensor *p, tn_tensor *x, tn_tensor *gx,
                                    tn_tensor *gb, tn_tensor *left)
{
    tn_tensor *grad = neg(s, times_matrix(s, gb, adjoint(s, x)));
    tn_tensor *within = sub(s, gx, times_matrix(s, adjoint(s, a), gb));
    grad = sub(s, grad, times_matrix(s, left, adjoint(s, times_matrix(s, p, gb))));
    return add(s, grad, times_matrix(s, times_matrix(s, adjoint(s, p), x), adjoint(s, within)));
}

/* The residuals are the squared norms of the columns of A X - B; at the minimum they do not depend on X. */
void grad_linalg_lstsq(tn_scope *s, tni_grad *g)
{
    tni_meta am = tni_grad_meta(g, 0, 0), bm = tni_grad_meta(g, 1, 0), rest = tni_grad_result_meta(g, 1);
    tn_tensor *a = tni_grad_saved(g, 0), *b = tni_grad_saved(g, 1), *x = tni_grad_result(g, 0), *left,
              *gx = tni_grad_out(g, 0), *gl = tni_grad_out(g, 1), *ga = NULL, *gb = NULL;
    int32_t vector = is_vector(&am, &bm), there = !(rest.rank == 1 && rest.sizes[0] == 0);
    if (vector) {
        b = tn_unsqueeze(s, b, -1);
        x = tn_unsqueeze(s, x, -1);
        if (gx) gx = tn_unsqueeze(s, gx, -1);
        if (gl && there) gl = tn_unsqueeze(s, gl, -1);
    }
    left = sub(s, times_matrix(s, a, x), b);
    if (gx) {
        tn_tensor *p = tn_linalg_pinv_atol_rtol_tensor(s, a);
        gb = times_matrix(s, adjoint(s, p), gx);
        ga = solution_gradient(s, a, p, x, gx, gb, left);
    }
    if (gl && there) {
        tn_tensor *moved = scale(s, mul(s, left, row(s, gl)), 2);
        ga = sum_of(s, ga, times_matrix(s, moved, adjoint(s, x)));
        gb = gb ? sub(s, gb, moved) : neg(s, moved);
    }
    tni_grad_set(g, 0, ga);
    tni_grad_set(g, 1, gb && vector ? tn_squeeze_dim(s, gb, -1) : gb);
}
