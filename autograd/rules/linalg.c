/* SPDX-License-Identifier: Apache-2.0 */
/* Products of vectors and matrices; distances. */
#include "autograd/rules/formula.h"

void grad_mm(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_mm(s, grad, adjoint(s, tni_grad_saved(g, 1))));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, tn_mm(s, adjoint(s, tni_grad_saved(g, 0)), grad));
}

void grad_bmm(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_bmm(s, grad, adjoint(s, tni_grad_saved(g, 1))));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, tn_bmm(s, adjoint(s, tni_grad_saved(g, 0)), grad));
}

/* beta * self + alpha * (a x b): arguments 3 and 4 are beta and alpha. */
static tn_tensor *with_alpha(tn_scope *s, const tni_grad *g, tn_tensor *t)
{
    return times(s, t, tni_grad_arg(g, 4));
}

static void set_self(tn_scope *s, tni_grad *g)
{
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, times(s, tni_grad_out(g, 0), tni_grad_arg(g, 3)));
}

/* The two factors, arguments 1 and 2; `grad` is that of their product. */
static void set_factors(tn_scope *s, tni_grad *g, tn_tensor *grad,
                        tn_tensor *product(tn_scope *s, tn_tensor *a, tn_tensor *b))
{
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, with_alpha(s, g, product(s, grad, adjoint(s, tni_grad_saved(g, 2)))));
    if (tni_grad_needs(g, 2))
        tni_grad_set(g, 2, with_alpha(s, g, product(s, adjoint(s, tni_grad_saved(g, 1)), grad)));
}

void grad_addmm(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    set_self(s, g);
    set_factors(s, g, grad, tn_mm);
}

void grad_baddbmm(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    set_self(s, g);
    set_factors(s, g, grad, tn_bmm);
}

void grad_addbmm(tn_scope *s, tni_grad *g)
{
    tni_meta b1 = tni_grad_meta(g, 1, 0), b2 = tni_grad_meta(g, 2, 0);
    tn_tensor *grad =
        tn_expand(s, tn_unsqueeze(s, tni_grad_out(g, 0), 0), TN_INTS(b1.sizes[0], b1.sizes[1], b2.sizes[2]));
    set_self(s, g);
    set_factors(s, g, grad, tn_bmm);
}

/* grad x conj(v) for vectors, as a matrix */
static tn_tensor *outer_conj(tn_scope *s, tn_tensor *grad, tn_tensor *v)
{
    return mul(s, tn_unsqueeze(s, grad, 1), tn_unsqueeze(s, conj_of(s, v), 0));
}

void grad_addmv(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    set_self(s, g);
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, with_alpha(s, g, outer_conj(s, grad, tni_grad_saved(g, 2))));
    if (tni_grad_needs(g, 2))
        tni_grad_set(g, 2, with_alpha(s, g, tn_mv(s, adjoint(s, tni_grad_saved(g, 1)), grad)));
}

void grad_mv(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, outer_conj(s, grad, tni_grad_saved(g, 1)));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, tn_mv(s, adjoint(s, tni_grad_saved(g, 0)), grad));
}

void grad_addr(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    set_self(s, g);
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, with_alpha(s, g, tn_mv(s, grad, conj_of(s, tni_grad_saved(g, 2)))));
    if (tni_grad_needs(g, 2))
        tni_grad_set(g, 2, with_alpha(s, g, tn_mv(s, tn_t(s, grad), conj_of(s, tni_grad_saved(g, 1)))));
}

void grad_dot(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, mul(s, grad, conj_of(s, tni_grad_saved(g, 1))));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, mul(s, grad, conj_of(s, tni_grad_saved(g, 0))));
}

void grad_vdot(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, mul(s, conj_of(s, grad), tni_grad_saved(g, 1)));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, mul(s, grad, tni_grad_saved(g, 0)));
}

static tn_tensor *as_rows(tn_scope *s, tn_tensor *t, int64_t count, int64_t width)
{
    int32_t is = t && t->desc.rank == 2 && t->desc.sizes[0] == count && t->desc.sizes[1] == width;
    return is ? t : tn_reshape(s, t, TN_INTS(count, width));
}

void grad_linear(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_meta x = tni_grad_meta(g, 0, 0), w = tni_grad_meta(g, 1, 0);
    int64_t width = w.rank == 2 ? w.sizes[0] : 1, count = 1;
    for (int64_t d = 0; d + 1 < x.rank; d++) count *= x.sizes[d];
    tn_tensor *rows = as_rows(s, grad, count, width);
    if (tni_grad_needs(g, 0)) {
        tn_tensor *weight = conj_of(s, tni_grad_saved(g, 1));
        if (w.rank == 1) weight = tn_unsqueeze(s, weight, 0);
        tni_grad_set(g, 0, tn_reshape(s, tn_mm(s, rows, weight), sizes_of(&x)));
    }
    if (tni_grad_needs(g, 1)) {
        tn_tensor *input = conj_of(s, as_rows(s, tni_grad_saved(g, 0), count, x.sizes[x.rank - 1]));
        tni_grad_set(g, 1, tn_reshape(s, tn_mm(s, tn_t(s, rows), input), sizes_of(&w)));
    }
    if (tni_grad_needs(g, 2)) {
        tn_tensor *bias = tn_sum_dim(s, rows, TN_INTS(0));
        tni_meta b = tni_grad_meta(g, 2, 0);
        tni_grad_set(g, 2, b.rank == 0 ? tn_sum(s, bias) : bias);
    }
}

void grad_trilinear(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *a = tni_grad_saved(g, 0), *b = tni_grad_saved(g, 1),
              *c = tni_grad_saved(g, 2);
    tn_ints e1 = ints_arg(g, 3), e2 = ints_arg(g, 4), e3 = ints_arg(g, 5), sum = ints_arg(g, 6);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn__trilinear(s, grad, b, c, sum, e2, e3, e1));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, tn__trilinear(s, a, grad, c, e1, sum, e3, e2));
    if (tni_grad_needs(g, 2)) tni_grad_set(g, 2, tn__trilinear(s, a, b, grad, e1, e2, sum, e3));
}

void grad_linalg_cross(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    int64_t dim = int_arg(g, 2);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_linalg_cross(s, conj_of(s, tni_grad_saved(g, 1)), grad, .dim = dim));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, tn_linalg_cross(s, grad, conj_of(s, tni_grad_saved(g, 0)), .dim = dim));
}

/* Slices longer than maxnorm are x * maxnorm / |x|. */
void grad_renorm(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0);
    tni_meta m = tni_grad_meta(g, 0, 0);
    double p = float_arg(g, 1), limit = float_arg(g, 3);
    uint64_t dims = ((m.rank >= 64 ? 0 : 1ull << m.rank) - 1) & ~(1ull << wrap_dim(int_arg(g, 2), m.rank));
    tn_ints list = tni_rule_dim_list(s, dims);
    tn_tensor *norm = tn_linalg_vector_norm(s, x, .ord = TN_SCALAR(p), .dim = list, .keepdim = 1);
    tn_tensor *along = mul(s, conj_of(s, x), grad);
    if (is_complex(along)) along = tn_real(s, along);
    tn_tensor *slope = tni_rule_norm(s, tn_sum_dim(s, along, list, .keepdim = 1), x, p, norm, dims);
    tn_tensor *inverse = tn_reciprocal(s, plus(s, norm, 1e-7));
    tn_tensor *scaled = scale(s, mul(s, inverse, sub(s, grad, mul(s, inverse, slope))), limit);
    tni_grad_set(g, 0, tn_where(s, tn_gt_scalar(s, norm, limit), scaled, grad));
}

/* ---- distances ---- */

void grad_cdist_forward(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *a = tni_grad_saved(g, 0), *b = tni_grad_saved(g, 1);
    tn_tensor *d = tni_grad_result(g, 0);
    double p = float_arg(g, 2);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn__cdist_backward(s, tn_contiguous(s, grad), a, b, p, d));
    if (tni_grad_needs(g, 1)) {
        tn_tensor *gt = tn_contiguous(s, tn_transpose(s, grad, -2, -1)),
                  *dt = tn_contiguous(s, tn_transpose(s, d, -2, -1));
        tni_grad_set(g, 1, tn__cdist_backward(s, gt, b, a, p, dt));
    }
}

void grad_euclidean_dist(tn_scope *s, tni_grad *g)
{
    tn_tensor *a = tni_grad_saved(g, 0), *b = tni_grad_saved(g, 1), *d = tni_grad_result(g, 0);
    tn_tensor *ratio = drop_where(s, tn_eq_scalar(s, d, 0), divide(s, tni_grad_out(g, 0), d));
    if (tni_grad_needs(g, 0)) {
        tn_tensor *total = tn_sum_dim(s, ratio, TN_INTS(-1), .keepdim = 1);
        tni_grad_set(g, 0, sub(s, mul(s, a, total), tn_matmul(s, ratio, b)));
    }
    if (tni_grad_needs(g, 1)) {
        tn_tensor *total = tn_unsqueeze(s, tn_sum_dim(s, ratio, TN_INTS(-2)), -1);
        tni_grad_set(g, 1, sub(s, mul(s, b, total), tn_matmul(s, tn_transpose(s, ratio, -2, -1), a)));
    }
}

void grad_pdist_forward(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 tn__pdist_backward(s, tni_grad_out(g, 0), tni_grad_saved(g, 0), float_arg(g, 1),
                                    tni_grad_result(g, 0)));
}
