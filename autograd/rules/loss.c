/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses. `reduction` is 0 for none, 1 for the mean, 2 for the sum. The gradient of a reduced result
 * broadcasts in the formula; the engine sums what it has to.
 */
#include "autograd/rules/formula.h"

#include <string.h>

/* Divides by the number of elements of argument `arg` if the loss is a mean. */
static tn_tensor *averaged(tn_scope *s, const tni_grad *g, tn_tensor *t, uint32_t arg, int64_t reduction)
{
    tni_meta m = tni_grad_meta(g, arg, 0);
    return reduction == 1 ? tn_div_scalar(s, t, numel_of(&m)) : t;
}

/* ---- squares and their like: f(self - target) ---- */

/* Expands both to the sizes of their difference, whose elements a mean counts. */
static void broadcast(tn_scope *s, const tni_grad *g, tn_tensor **x, tn_tensor **y)
{
    tni_meta a = tni_grad_meta(g, 0, 0), b = tni_grad_meta(g, 1, 0);
    if (a.rank == b.rank && memcmp(a.sizes, b.sizes, a.rank * sizeof *a.sizes) == 0) return;
    tn_tensors both = tn_broadcast_tensors(s, TN_TENSORS(*x, *y));
    *x = both.count == 2 ? both.data[0] : NULL;
    *y = both.count == 2 ? both.data[1] : NULL;
}

/* A loss (self, target, reduction) in which the two may change places. */
static void grad_symmetric(tn_scope *s, tni_grad *g,
                           tn_tensor *(*backward)(tn_scope *s, tn_tensor *grad, tn_tensor *self,
                                                  tn_tensor *target, int64_t reduction))
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0), *y = tni_grad_saved(g, 1);
    int64_t reduction = int_arg(g, 2);
    broadcast(s, g, &x, &y);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, backward(s, grad, x, y, reduction));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, backward(s, grad, y, x, reduction));
}

void grad_mse_loss(tn_scope *s, tni_grad *g)
{
    grad_symmetric(s, g, tn_mse_loss_backward);
}

/* The same with a limit: (self, target, reduction, limit). */
static void grad_symmetric_limited(tn_scope *s, tni_grad *g,
                                   tn_tensor *(*backward)(tn_scope *s, tn_tensor *grad, tn_tensor *self,
                                                          tn_tensor *target, int64_t reduction, double limit))
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0), *y = tni_grad_saved(g, 1);
    int64_t reduction = int_arg(g, 2);
    double limit = float_arg(g, 3);
    broadcast(s, g, &x, &y);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, backward(s, grad, x, y, reduction, limit));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, backward(s, grad, y, x, reduction, limit));
}

void grad_smooth_l1_loss(tn_scope *s, tni_grad *g)
{
    grad_symmetric_limited(s, g, tn_smooth_l1_loss_backward);
}

void grad_huber_loss(tn_scope *s, tni_grad *g)
{
    grad_symmetric_limited(s, g, tn_huber_loss_backward);
}

/* The gradient of a backward operator of these losses: `first` is f'(self - target), `second` f''. */
static void second_of_difference(tn_scope *s, tni_grad *g, tn_tensor *first, tn_tensor *second)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    int64_t reduction = int_arg(g, 3);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, averaged(s, g, mul(s, grad, first), 1, reduction));
    tn_tensor *bend = averaged(s, g, mul(s, mul(s, grad, tni_grad_saved(g, 0)), second), 1, reduction);
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, bend);
    if (tni_grad_needs(g, 2)) tni_grad_set(g, 2, neg(s, bend));
}

void grad_mse_loss_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *d = sub(s, tni_grad_saved(g, 1), tni_grad_saved(g, 2));
    second_of_difference(s, g, scale(s, d, 2), scale(s, tn_ones_like(s, d), 2));
}

void grad_smooth_l1_loss_backward(tn_scope *s, tni_grad *g)
{
    double beta = float_arg(g, 4);
    tn_tensor *d = sub(s, tni_grad_saved(g, 1), tni_grad_saved(g, 2));
    tn_tensor *far = tn_ge_scalar(s, tn_abs(s, d), beta), *one = tn_ones_like(s, d);
    double inverse = beta > 0 ? 1 / beta : 0;
    second_of_difference(s, g, tn_where(s, far, tn_sgn(s, d), scale(s, d, inverse)),
                         drop_where(s, far, scale(s, one, inverse)));
}

void grad_huber_loss_backward(tn_scope *s, tni_grad *g)
{
    double delta = float_arg(g, 4);
    tn_tensor *d = sub(s, tni_grad_saved(g, 1), tni_grad_saved(g, 2));
    tn_tensor *far = tn_ge_scalar(s, tn_abs(s, d), delta);
    second_of_difference(s, g, tn_where(s, far, scale(s, tn_sgn(s, d), delta), d),
                         drop_where(s, far, tn_ones_like(s, d)));
}

/* ---- log(1 + exp(-target * self)) ---- */

void grad_soft_margin_loss(tn_scope *s, tni_grad *g)
{
    grad_symmetric(s, g, tn_soft_margin_loss_backward);
}

/* With p = sigmoid(-x y) the slope is -y p, and p' = -y p (1 - p). */
void grad_soft_margin_loss_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 1), *y = tni_grad_saved(g, 2);
    int64_t reduction = int_arg(g, 3);
    tn_tensor *p = tn_sigmoid(s, neg(s, mul(s, x, y))), *q = mul(s, p, minus_from(s, 1, p));
    tn_tensor *both = mul(s, grad, tni_grad_saved(g, 0));
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, averaged(s, g, neg(s, mul(s, grad, mul(s, y, p))), 1, reduction));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, averaged(s, g, mul(s, both, mul(s, square(s, y), q)), 1, reduction));
    if (tni_grad_needs(g, 2)) {
        tn_tensor *slope = sub(s, mul(s, mul(s, x, y), q), p);
        tni_grad_set(g, 2, averaged(s, g, mul(s, both, slope), 1, reduction));
    }
}

/* ---- cross entropies of probabilities ---- */

static tn_tensor *weighted(tn_scope *s, tn_tensor *t, tn_tensor *weight)
{
    return weight ? mul(s, t, weight) : t;
}

void grad_binary_cross_entropy(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 0), *weight = tni_grad_saved(g, 2);
    int64_t reduction = int_arg(g, 3);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0,
                     tn_binary_cross_entropy_backward(s, grad, x, tni_grad_saved(g, 1), .weight = weight,
                                                      .reduction = reduction));
    if (tni_grad_needs(g, 1)) {
        tn_tensor *slope = sub(s, tn_log1p(s, neg(s, x)), tn_log(s, x));
        tni_grad_set(g, 1, averaged(s, g, weighted(s, mul(s, grad, slope), weight), 0, reduction));
    }
    set_unknown(s, g, 2);
}

void grad_binary_cross_entropy_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_saved(g, 1), *y = tni_grad_saved(g, 2);
    int64_t reduction = int_arg(g, 4);
    const double eps = 1e-12;
    tn_tensor *low = plus(s, x, eps), *high = minus_from(s, 1 + eps, x), *area = mul(s, low, high);
    tn_tensor *scaled = averaged(s, g, weighted(s, grad, tni_grad_saved(g, 3)), 1, reduction);
    tn_tensor *both = mul(s, scaled, tni_grad_saved(g, 0));
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, mul(s, scaled, divide(s, sub(s, x, y), area)));
    if (tni_grad_needs(g, 1)) {
        tn_tensor *top = add(s, sub(s, square(s, x), scale(s, mul(s, x, y), 2)), y);
        tni_grad_set(g, 1, mul(s, both, divide(s, top, square(s, area))));
    }
    if (tni_grad_needs(g, 2)) tni_grad_set(g, 2, neg(s, divide(s, both, area)));
    set_unknown(s, g, 3);
}

void grad_binary_cross_entropy_with_logits(tn_scope *s, tni_grad *g)
{
    tn_tensor *x = tni_grad_saved(g, 0), *y = tni_grad_saved(g, 1), *positive = tni_grad_saved(g, 3);
    tn_tensor *grad = averaged(s, g, weighted(s, tni_grad_out(g, 0), tni_grad_saved(g, 2)), 0, int_arg(g, 4));
    if (tni_grad_needs(g, 0)) {
        tn_tensor *p = tn_sigmoid(s, x), *slope;
        if (positive) {
            tn_tensor *t = mul(s, positive, y);
            slope = sub(s, mul(s, plus(s, sub(s, t, y), 1), p), t);
        } else {
            slope = sub(s, p, y);
        }
        tni_grad_set(g, 0, mul(s, grad, slope));
    }
    if (tni_grad_needs(g, 1)) {
        tn_tensor *slope = neg(s, x);
        if (positive) slope = sub(s, tn_log_sigmoid(s, neg(s, x)), mul(s, positive, tn_log_sigmoid(s, x)));
        tni_grad_set(g, 1, mul(s, grad, slope));
    }
    set_unknown(s, g, 2);
    set_unknown(s, g, 3);
}

void grad_ctc_loss(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 tn__ctc_loss_backward(s, tni_grad_out(g, 0), tni_grad_saved(g, 0), tni_grad_saved(g, 1),
                                       ints_arg(g, 2), ints_arg(g, 3), tni_grad_result(g, 0),
                                       tni_grad_result(g, 1), int_arg(g, 4),
                                       .zero_infinity = bool_arg(g, 5)));
}
