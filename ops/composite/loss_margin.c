/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: losses with a margin, between tensors and between classes. */
#include "ops/composite/loss.h"

/* max(x, 0) */
static tn_tensor *hinge(tn_scope *s, tn_tensor *x)
{
    return tn_clamp_min(s, x, 0);
}

/* ---- between tensors ---- */

void composite_margin_ranking_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *target = arg_tensor(args, 2), *loss;
    if (rank_of(a) != rank_of(b) || rank_of(a) != rank_of(target)) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            "%s, input2: %s, target: %s ",
            sizes_text(s, a), sizes_text(s, b), sizes_text(s, target));
        return;
    }
    loss = tn_mul(s, tn_neg(s, target), tn_sub(s, a, b));
    loss = hinge(s, tn_add_scalar(s, loss, arg_float(args, 3)));
    give(outs, 0, tni_reduce_loss(s, loss, arg_int(args, 4)));
}

void composite_hinge_embedding_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *target = arg_tensor(args, 1), *apart, *close;
    apart = hinge(s, tn_rsub_scalar(s, self, arg_float(args, 2)));
    apart = tn_where_scalarother(s, tn_ne_scalar(s, target, 1), apart, 0);
    close = tn_where_scalarother(s, tn_ne_scalar(s, target, -1), self, 0);
    give(outs, 0, tni_reduce_loss(s, tn_add(s, apart, close), arg_int(args, 3)));
}

static int32_t check_cosine(tn_scope *s, const tn_tensor *a, const tn_tensor *b, const tn_tensor *target)
{
    int64_t rank = rank_of(target) + 1;
    if (rank > 2)
        return tn_scope_fail(s, TN_E_SHAPE, "0D or 1D target tensor expected, multi-target not supported");
    if (rank_of(a) == rank && rank_of(b) == rank) return TN_OK;
    return tni_scope_failf(
        s, TN_E_SHAPE,
        "%lldD target tensor expects %lldD input tensors, but found inputs with sizes %s and %s.",
        (long long)rank - 1, (long long)rank, sizes_text(s, a), sizes_text(s, b));
}

static tn_tensor *squares(tn_scope *s, tn_tensor *t, tn_ints dim)
{
    return tn_add_scalar(s, tn_sum_dim(s, tn_mul(s, t, t), dim), 1e-12); /* no division by zero */
}

void composite_cosine_embedding_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *target = arg_tensor(args, 2);
    tn_tensor *cosine, *same, *other;
    tn_ints dim = TN_INTS(rank_of(target));
    if (check_cosine(s, a, b, target)) return;
    cosine = tn_div(s, tn_sum_dim(s, tn_mul(s, a, b), dim),
                    tn_sqrt(s, tn_mul(s, squares(s, a, dim), squares(s, b, dim))));
    same = tn_rsub_scalar(s, cosine, 1);
    other = hinge(s, tn_sub_scalar(s, cosine, arg_float(args, 3)));
    same = tn_where_scalarother(s, tn_eq_scalar(s, target, 1), same, 0);
    other = tn_where_scalarother(s, tn_eq_scalar(s, target, -1), other, 0);
    give(outs, 0, tni_reduce_loss(s, tn_add(s, same, other), arg_int(args, 4)));
}

/* (anchor, positive, negative, margin, p, eps, swap, reduction) */
void composite_triplet_margin_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *t[] = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2)}, *near, *far;
    double p = arg_float(args, 4), eps = arg_float(args, 5);
    if (rank_of(t[0]) != rank_of(t[1]) || rank_of(t[0]) != rank_of(t[2])) {
        tni_scope_failf(s, TN_E_SHAPE,
                        "The anchor, positive, and negative tensors are expected to have the same number of "
                        "dimensions, but got: anchor %lldD, positive %lldD, and negative %lldD inputs",
                        (long long)rank_of(t[0]), (long long)rank_of(t[1]), (long long)rank_of(t[2]));
        return;
    }
    near = tn_pairwise_distance(s, t[0], t[1], .p = p, .eps = eps);
    far = tn_pairwise_distance(s, t[0], t[2], .p = p, .eps = eps);
    if (arg_bool(args, 6)) far = tn_minimum(s, far, tn_pairwise_distance(s, t[1], t[2], .p = p, .eps = eps));
    near = tn_sub(s, tn_add_scalar(s, near, arg_float(args, 3)), far);
    give(outs, 0, tni_reduce_loss(s, hinge(s, near), arg_int(args, 7)));
}

/* ---- one class of many: margin - x[class] + x[other] ---- */

typedef struct multi_margin {
    tn_tensor *index;  /* [n, 1] */
    tn_tensor *gap;    /* [n, classes], 0 at the target class and where the margin is met */
    tn_tensor *weight; /* [n, 1] or NULL */
    int64_t n, classes;
} multi_margin;

/* (self, target, p, margin, weight) from index `first` on. */
static multi_margin margins_of(tn_scope *s, const tn_value *args, uint32_t first)
{
    tn_tensor *self = arg_tensor(args, first), *weight = arg_tensor(args, first + 4), *x, *own, *others;
    multi_margin m = {NULL, NULL, NULL, 1, 1};
    if (rank_of(self)) m.classes = tni_sizes(self)[rank_of(self) - 1];
    if (rank_of(self) == 2) m.n = tni_sizes(self)[0];
    x = tn_reshape(s, wide(s, self), TN_INTS(m.n, m.classes));
    m.index = tn_reshape(s, arg_tensor(args, first + 1), TN_INTS(m.n, 1));
    own = tn_gather(s, x, 1, m.index);
    m.gap = hinge(s, tn_add_scalar(s, tn_sub(s, x, own), args[first + 3]));
    if (tn_scope_failed(s)) return m;
    others = tn_scatter_value(s, tni_full_on(s, x, 0, sizes_of(x), tn_value_int(1)), 1, m.index, 0);
    m.gap = tn_mul(s, m.gap, others);
    if (weight)
        m.weight = tn_reshape(s, tn_index_select(s, wide(s, weight), 0, tn_reshape(s, m.index, TN_INTS(-1))),
                              TN_INTS(m.n, 1));
    return m;
}

void composite_multi_margin_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *loss;
    multi_margin m = margins_of(s, args, 0);
    int64_t reduction = arg_int(args, 5);
    loss = scalar_is(args[2], 2) ? tn_mul(s, m.gap, m.gap) : m.gap;
    if (m.weight) loss = tn_mul(s, loss, m.weight);
    loss = tn_div_scalar(s, tn_sum_dim(s, loss, TN_INTS(1)), (double)m.classes);
    if (!reduction) loss = tn_reshape(s, loss, sizes_of(arg_tensor(args, 1)));
    give(outs, 0, tni_give_loss(s, loss, reduction, dtype_of(self)));
}

/* (grad_output, self, target, p, margin, weight, reduction) */
void composite_multi_margin_loss_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *self = arg_tensor(args, 1), *slope;
    multi_margin m = margins_of(s, args, 1);
    int64_t reduction = arg_int(args, 6);
    slope = scalar_is(args[3], 2) ? tn_mul_scalar(s, m.gap, 2) : tn_sign(s, m.gap);
    if (m.weight) slope = tn_mul(s, slope, m.weight);
    slope = tn_div_scalar(s, slope, (double)m.classes * (reduction == 1 ? (double)m.n : 1));
    if (!reduction) grad = tn_reshape(s, grad, TN_INTS(m.n, 1));
    slope = tn_mul(s, slope, grad);
    slope = tn_scatter_add(s, slope, 1, m.index, tn_neg(s, keep_sum(s, slope, TN_INTS(1))));
    slope = tn_reshape(s, slope, sizes_of(self));
    give(outs, 0, slope ? tni_cast(s, slope, dtype_of(self)) : NULL);
}

/* ---- several classes: the target lists them, up to the first -1 ---- */

typedef struct multilabel {
    tn_tensor *listed;    /* [n, classes] of 0 and 1: valid entries of the list */
    tn_tensor *index;     /* [n, classes], 0 where invalid */
    tn_tensor *is_target; /* [n, classes] of 0 and 1 */
    tn_tensor *gap;       /* [n, entry, class]: 1 - x[listed] + x[class] where valid */
    int64_t n, classes;
} multilabel;

static multilabel labels_of(tn_scope *s, const tn_tensor *self, tn_tensor *target)
{
    multilabel m = {NULL, NULL, NULL, NULL, 1, 1};
    tn_ints size = sizes_of(self);
    tn_tensor *counts;
    if (size.count) m.classes = size.data[size.count - 1];
    if (size.count == 2) m.n = size.data[0];
    target = tn_reshape(s, target, TN_INTS(m.n, m.classes));
    counts = tn_cumprod(s, tni_cast(s, tn_ge_scalar(s, target, 0), TN_INT64), 1);
    m.index = tn_mul(s, target, counts);
    if (tn_scope_failed(s)) return m;
    m.listed = tni_cast(s, counts, wide_dtype(dtype_of(self)));
    m.is_target =
        tn_scatter_add(s, tni_zeros_on(s, m.listed, 0, TN_INTS(m.n, m.classes)), 1, m.index, m.listed);
    m.is_target = tn_clamp_max(s, m.is_target, 1);
    return m;
}

static void add_gaps(tn_scope *s, multilabel *m, tn_tensor *self)
{
    tn_tensor *x = tn_reshape(s, wide(s, self), TN_INTS(m->n, m->classes)),
              *own = tn_gather(s, x, 1, m->index);
    m->gap = tn_sub(s, tn_unsqueeze(s, x, 1), tn_unsqueeze(s, own, 2));
    m->gap = hinge(s, tn_add_scalar(s, m->gap, 1));
    m->gap = tn_mul(s, m->gap, tn_unsqueeze(s, m->listed, 2));
    m->gap = tn_mul(s, m->gap, tn_unsqueeze(s, tn_rsub_scalar(s, m->is_target, 1), 1));
}

void composite_multilabel_margin_loss_forward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *target = arg_tensor(args, 1), *loss;
    int64_t reduction = arg_int(args, 2);
    multilabel m = labels_of(s, self, target);
    if (tn_scope_failed(s)) return;
    add_gaps(s, &m, self);
    loss = tn_div_scalar(s, tn_sum_dim(s, m.gap, TN_INTS(1, 2)), (double)m.classes);
    if (rank_of(self) < 2) loss = tn_squeeze_dim(s, loss, 0);
    give(outs, 0, tni_give_loss(s, loss, reduction, dtype_of(self)));
    if (tn_scope_failed(s)) return;
    give(outs, 1, tni_cast(s, tn_reshape(s, m.is_target, sizes_of(target)), dtype_of(self)));
}

void composite_multilabel_margin_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_multilabel_margin_loss_forward(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_int(args, 2))
             .output);
}

/*
 * (grad_output, self, target, reduction, is_target): each positive gap lowers its class and raises the listed
 * one.
 */
void composite_multilabel_margin_loss_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *self = arg_tensor(args, 1), *slope, *out;
    int64_t reduction = arg_int(args, 3);
    multilabel m = labels_of(s, self, arg_tensor(args, 2));
    if (tn_scope_failed(s)) return;
    add_gaps(s, &m, self);
    slope = tn_div_scalar(s, tn_sign(s, m.gap), (double)m.classes * (reduction == 1 ? (double)m.n : 1));
    slope = tn_mul(s, slope, reduction ? grad : tn_reshape(s, grad, TN_INTS(m.n, 1, 1)));
    out = tn_sum_dim(s, slope, TN_INTS(1));
    out = tn_scatter_add(s, out, 1, m.index, tn_neg(s, tn_sum_dim(s, slope, TN_INTS(2))));
    out = tn_reshape(s, out, sizes_of(self));
    give(outs, 0, out ? tni_cast(s, out, dtype_of(self)) : NULL);
}
