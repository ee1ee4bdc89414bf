/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: losses over classes (negative log likelihood, cross entropy). Elements of class ignore_index do
 * not count. Masks do all of it, so no element is read on the host.
 */
#include <math.h>
#include "ops/composite/loss.h"

static int64_t class_dim(const tn_tensor *t)
{
    return rank_of(t) > 1 ? 1 : 0;
}

/* ---- negative log likelihood ---- */

/* The classes of a target. */
typedef struct classes {
    tn_tensor *mask;   /* bool: not ignored */
    tn_tensor *index;  /* int64, 0 where ignored */
    tn_tensor *weight; /* of each element, 0 where ignored */
} classes;

static classes classes_of(tn_scope *s, tn_tensor *target, tn_tensor *weight, int64_t ignore, tn_dtype dtype)
{
    classes c;
    c.mask = tn_ne_scalar(s, target, ignore);
    c.index = tni_cast(s, tn_where_scalarother(s, c.mask, target, 0), TN_INT64);
    if (tn_scope_failed(s)) return (classes){NULL, NULL, NULL};
    c.weight = tni_cast(s, c.mask, dtype);
    if (weight) {
        tn_tensor *each = tn_index_select(s, wide(s, weight), 0, tn_reshape(s, c.index, TN_INTS(-1)));
        if (tn_tensor_numel(target) == 0) each = tni_zeros_on(s, weight, dtype, TN_INTS(0));
        c.weight = tn_where_scalarother(s, c.mask, tn_reshape(s, each, sizes_of(target)), 0.0);
    }
    return c;
}

/* (self, target, weight, reduction, ignore_index): losses and the sum of weights. */
void composite_nll_loss_forward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *target = arg_tensor(args, 1), *weight = arg_tensor(args, 2);
    int64_t dim = class_dim(self), reduction = arg_int(args, 3);
    tn_dtype dtype = dtype_of(self), inside = wide_dtype(dtype);
    classes c = classes_of(s, target, weight, arg_int(args, 4), inside);
    tn_tensor *picked, *loss, *total;
    if (tn_scope_failed(s)) return;
    picked = tn_squeeze_dim(s, tn_gather(s, self, dim, tn_unsqueeze(s, c.index, dim)), dim);
    picked = tn_where_scalarother(s, c.mask, wide(s, picked), 0.0);
    loss = tn_neg(s, tn_mul(s, picked, c.weight));
    total = tn_sum(s, c.weight);
    if (reduction) loss = tn_sum(s, loss);
    if (reduction == 1) loss = tn_div(s, loss, total);
    if (!reduction) total = tni_zeros_on(s, self, dtype, TN_NO_INTS);
    if (tn_scope_failed(s)) return;
    give(outs, 0, tni_cast(s, loss, dtype));
    give(outs, 1, tni_cast(s, total, dtype));
}

/* (grad_output, self, target, weight, reduction, ignore_index, total_weight) */
void composite_nll_loss_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 1), *target = arg_tensor(args, 2);
    int64_t dim = class_dim(self);
    tn_dtype dtype = dtype_of(self), inside = wide_dtype(dtype);
    classes c = classes_of(s, target, arg_tensor(args, 3), arg_int(args, 5), inside);
    tn_tensor *grad = tn_neg(s, wide(s, arg_tensor(args, 0))), *out;
    if (tn_scope_failed(s)) return;
    if (arg_int(args, 4) == 1) grad = tn_div(s, grad, wide(s, arg_tensor(args, 6)));
    grad = tn_where_scalarother(s, c.mask, tn_mul(s, grad, c.weight), 0.0);
    out = tni_zeros_on(s, self, dtype, sizes_of(self));
    grad = tn_unsqueeze(s, tni_cast(s, grad, dtype), dim);
    give(outs, 0, tn_scatter(s, out, dim, tn_unsqueeze(s, c.index, dim), grad));
}

void composite_nll_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_nll_loss_forward(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                             arg_int(args, 3), arg_int(args, 4))
             .output);
}

void composite_nll_loss2d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_nll_loss2d_forward(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                               arg_int(args, 3), arg_int(args, 4))
             .output);
}

/* Three, five or more dimensions: the trailing ones are folded into one, as images of one row. */
static tn_tensor *nll_folded(tn_scope *s, tn_tensor *self, tn_tensor *target, tn_tensor *weight,
                             int64_t reduction, int64_t ignore)
{
    tn_ints size = sizes_of(self), shape = sizes_of(target), rest = {size.data + 2, size.count - 2};
    tn_ints want = tni_sizes_without(s, size, 1);
    int64_t n = size.data[0], pixels = numel_of(rest);
    tn_tensor *out;
    if (!tni_same_sizes(want, shape)) {
        tni_scope_failf(s, TN_E_SHAPE, "Expected target size %s, got %s", tni_ints_text(s, want),
                        sizes_text(s, target));
        return NULL;
    }
    self = tn_reshape(s, self, TN_INTS(n, size.data[1], 1, pixels));
    target = tn_reshape(s, target, TN_INTS(n, 1, pixels));
    out = tn_nll_loss2d(s, self, target, .weight = weight, .reduction = reduction, .ignore_index = ignore);
    return reduction ? out : tn_reshape(s, out, want);
}

static tn_tensor *nll_nd(tn_scope *s, tn_tensor *self, tn_tensor *target, tn_tensor *weight,
                         int64_t reduction, int64_t ignore)
{
    int64_t rank;
    if (tn_scope_failed(s) || !self) return NULL;
    rank = rank_of(self);
    if (rank < 1) {
        tn_scope_fail(s, TN_E_SHAPE, "Expected 1 or more dimensions (got 0)");
        return NULL;
    }
    if (rank == 1 && rank_of(target) == 1 && tni_sizes(target)[0] != 1) {
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "For 1D input, 1D target must have size 1, but got target size: %lld",
                        (long long)tni_sizes(target)[0]);
        return NULL;
    }
    if (rank != 1 && (rank_of(target) == 0 || tni_sizes(self)[0] != tni_sizes(target)[0])) {
        tni_scope_failf(
            s, TN_E_ARGUMENT, "Expected input batch_size (%lld) to match target batch_size (%lld).",
            (long long)tni_sizes(self)[0], (long long)(rank_of(target) ? tni_sizes(target)[0] : 0));
        return NULL;
    }
    if (rank <= 2)
        return tn_nll_loss(s, self, target, .weight = weight, .reduction = reduction, .ignore_index = ignore);
    if (rank == 4)
        return tn_nll_loss2d(s, self, target, .weight = weight, .reduction = reduction,
                             .ignore_index = ignore);
    return nll_folded(s, self, target, weight, reduction, ignore);
}

void composite_nll_loss_nd(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         nll_nd(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2), arg_int(args, 3),
                arg_int(args, 4)));
}

/* ---- cross entropy ---- */

typedef struct cross_entropy {
    tn_tensor *self, *target, *weight, *log; /* log: log softmax over the classes */
    int64_t reduction, ignore, dim, classes;
    double smoothing;
} cross_entropy;

/* The weights of the classes, shaped to broadcast with the input. */
static tn_tensor *class_weights(tn_scope *s, const cross_entropy *c)
{
    return tn_reshape(s, c->weight, tni_ones_but(s, rank_of(c->self), c->dim, c->classes));
}

static tn_tensor *negative_sum(tn_scope *s, tn_tensor *t)
{
    return tn_neg(s, tn_sum(s, t));
}

static int32_t check_soft(tn_scope *s, const cross_entropy *c)
{
    if (!is_float(dtype_of(c->target)))
        return tni_scope_failf(s, TN_E_DTYPE,
                               "Expected floating point type for target with class probabilities, got %s",
                               tni_dtype_error_name(dtype_of(c->target)));
    if (c->ignore >= 0)
        return tn_scope_fail(s, TN_E_ARGUMENT, "ignore_index is not supported for floating point target");
    if (c->weight && (rank_of(c->weight) != 1 || tn_tensor_numel(c->weight) != c->classes))
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "cross_entropy: weight tensor should be defined either for all %lld classes or no "
            "classes but got weight tensor of shape: %s",
            (long long)c->classes, sizes_text(s, c->weight));
    return TN_OK;
}

/* Targets that are probabilities. */
static tn_tensor *soft_loss(tn_scope *s, const cross_entropy *c)
{
    tn_tensor *target = c->target, *product;
    int64_t numel = tn_tensor_numel(c->self);
    if (check_soft(s, c)) return NULL;
    if (c->smoothing > 0)
        target =
            tn_add_scalar(s, tn_mul_scalar(s, target, 1 - c->smoothing), c->smoothing / (double)c->classes);
    product = tn_mul(s, c->log, target);
    if (c->weight) product = tn_mul(s, product, class_weights(s, c));
    if (c->reduction == 0) return tn_neg(s, tn_sum_dim(s, product, TN_INTS(c->dim)));
    if (c->reduction == 2) return negative_sum(s, product);
    return tn_div_scalar(s, negative_sum(s, product), numel ? (double)numel / (double)c->classes : 0.0);
}

/* The label smoothing part of the loss, uniform over the classes. */
static tn_tensor *even_loss(tn_scope *s, const cross_entropy *c)
{
    tn_tensor *log = c->weight ? tn_mul(s, c->log, class_weights(s, c)) : c->log, *ignored, *loss, *total;
    classes k;
    ignored = tn_eq_scalar(s, c->target, c->ignore);
    loss = tn_masked_fill_scalar(s, tn_neg(s, tn_sum_dim(s, log, TN_INTS(c->dim))), ignored, 0.0);
    if (c->reduction == 0) return loss;
    loss = tn_sum(s, loss);
    if (c->reduction == 2 || tn_scope_failed(s)) return loss;
    k = classes_of(s, c->target, c->weight, c->ignore, wide_dtype(dtype_of(c->self)));
    total = tn_sum(s, k.weight);
    return total ? tni_cast(s, tn_div(s, loss, total), dtype_of(c->self)) : NULL;
}

static tn_tensor *smoothed_loss(tn_scope *s, const cross_entropy *c)
{
    tn_tensor *hard = nll_nd(s, c->log, c->target, c->weight, c->reduction, c->ignore),
              *even = even_loss(s, c);
    return tn_add(s, tn_mul_scalar(s, hard, 1 - c->smoothing),
                  tn_mul_scalar(s, even, c->smoothing / (double)c->classes));
}

void composite_cross_entropy_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    cross_entropy c = {arg_tensor(args, 0),
                       arg_tensor(args, 1),
                       arg_tensor(args, 2),
                       NULL,
                       arg_int(args, 3),
                       arg_int(args, 4),
                       0,
                       1,
                       arg_float(args, 5)};
    int32_t soft = tni_same_sizes(sizes_of(c.self), sizes_of(c.target));
    c.dim = class_dim(c.self);
    c.classes = rank_of(c.self) ? tni_sizes(c.self)[c.dim] : 1;
    if (c.smoothing < 0 || c.smoothing > 1) {
        tni_scope_failf(s, TN_E_ARGUMENT, "label_smoothing must be between 0.0 and 1.0. Got: %g",
                        c.smoothing);
        return;
    }
    c.log = tn_log_softmax(s, c.self, c.dim, .dtype = dtype_of(c.self));
    if (soft)
        give(outs, 0, soft_loss(s, &c));
    else if (c.smoothing > 0)
        give(outs, 0, smoothed_loss(s, &c));
    else
        give(outs, 0, nll_nd(s, c.log, c.target, c.weight, c.reduction, c.ignore));
}
