/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: losses between tensors of equal shape, and their gradients. Half types are computed in float32
 * or rounded at each step, whichever ATen does.
 */
#include <math.h>
#include "ops/composite/loss.h"

tn_tensor *tni_give_loss(tn_scope *s, tn_tensor *loss, int64_t reduction, tn_dtype dtype)
{
    loss = tni_reduce_loss(s, loss, reduction);
    return loss ? tni_cast(s, loss, dtype) : NULL;
}

/* The operands of a loss in the dtype of the computation, and the dtype of the result. */
typedef struct two_sided {
    tn_tensor *self, *target;
    tn_dtype dtype;
} two_sided;

static two_sided sides(tn_scope *s, tn_tensor *self, tn_tensor *target)
{
    tn_dtype dtype = tni_common_dtype(s, self, target);
    two_sided t = {wide(s, tni_cast(s, self, dtype)), wide(s, tni_cast(s, target, dtype)), dtype};
    return t;
}

/* Whether a result of dtype `from` may be written to a tensor of dtype `to`. */
static int32_t check_can_cast(tn_scope *s, tn_dtype from, tn_dtype to)
{
    if (tn_can_cast(from, to)) return TN_OK;
    return tni_scope_failf(s, TN_E_DTYPE, "result type %s can't be cast to the desired output type %s",
                           tni_dtype_error_name(from), tni_dtype_error_name(to));
}

/* The same for a loss in the dtype of self, or with `grad` for the gradient of self. */
static two_sided sides_of_self(tn_scope *s, tn_tensor *self, tn_tensor *target, const tn_tensor *grad)
{
    two_sided t = sides(s, self, target);
    check_can_cast(s, grad ? tn_promote_types(t.dtype, dtype_of(grad)) : t.dtype, dtype_of(self));
    t.dtype = dtype_of(self);
    return t;
}

static tn_tensor *difference_of(tn_scope *s, const two_sided *t)
{
    return tn_sub(s, t->self, t->target);
}

/* grad of a loss times its slope; the mean divides by the number of elements of the slope. */
static tn_tensor *chain(tn_scope *s, tn_tensor *grad, tn_tensor *slope, int64_t reduction, tn_dtype dtype)
{
    if (tn_scope_failed(s) || !slope) return NULL;
    if (reduction == 1) slope = tn_div_scalar(s, slope, (double)tn_tensor_numel(slope));
    slope = tn_mul(s, slope, wide(s, grad));
    return slope ? tni_cast(s, slope, dtype) : NULL;
}

/* A product that has the size and the dtype of its first factor, as if it were computed in place. */
static tn_tensor *scaled_in_place(tn_scope *s, tn_tensor *t, tn_tensor *by)
{
    tn_tensor *out = tn_mul(s, t, by);
    if (!out || check_can_cast(s, dtype_of(out), dtype_of(t))) return NULL;
    if (tni_same_sizes(sizes_of(out), sizes_of(t))) return tni_cast(s, out, dtype_of(t));
    tni_scope_failf(s, TN_E_SHAPE, "output with shape %s doesn't match the broadcast shape %s",
                    sizes_text(s, t), sizes_text(s, out));
    return NULL;
}

/* ---- squared, absolute, smooth L1 and Huber losses ---- */

/* Warns of a self and a target that are broadcast against each other, in the words of torch.nn.functional. */
static void warn_of_sizes(tn_scope *s, tni_warning warning, const char *loss, const tn_value *args)
{
    const tn_tensor *self = arg_tensor(args, 0), *target = arg_tensor(args, 1);
    if (tn_scope_failed(s) || tni_same_sizes(sizes_of(self), sizes_of(target))) return;
    tni_warn_once(tn_scope_context(s), warning,
                  "%s: Using a target size (torch.Size(%s)) that is different to the input size "
                  "(torch.Size(%s)). This will likely lead to "
                  "incorrect results due to broadcasting. Please ensure they have the same size.",
                  loss, sizes_text(s, target), sizes_text(s, self));
}

void composite_mse_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *target = arg_tensor(args, 1), *d;
    tn_dtype dtype = tni_common_dtype(s, self, target);
    d = tn_sub(s, tni_cast(s, self, dtype), tni_cast(s, target, dtype));
    give(outs, 0, tni_reduce_loss(s, tn_mul(s, d, d), arg_int(args, 2)));
    warn_of_sizes(s, TNI_WARNING_MSE_LOSS, "mse_loss", args);
}

void composite_mse_loss_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    two_sided t = sides_of_self(s, arg_tensor(args, 1), arg_tensor(args, 2), arg_tensor(args, 0));
    tn_tensor *slope = tn_mul_scalar(s, difference_of(s, &t), 2);
    give(outs, 0, chain(s, arg_tensor(args, 0), slope, arg_int(args, 3), t.dtype));
}

void composite_l1_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(
        outs, 0,
        tni_reduce_loss(s, tn_abs(s, tn_sub(s, arg_tensor(args, 0), arg_tensor(args, 1))), arg_int(args, 2)));
    warn_of_sizes(s, TNI_WARNING_L1_LOSS, "l1_loss", args);
}

void composite_smooth_l1_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double beta = arg_float(args, 3);
    two_sided t = sides(s, arg_tensor(args, 0), arg_tensor(args, 1));
    tn_tensor *z = tn_abs(s, difference_of(s, &t)), *square;
    if (beta < 0) {
        tn_scope_fail(s, TN_E_ARGUMENT, "smooth_l1_loss does not support negative values for beta.");
        return;
    }
    if (beta > 0) {
        square = tn_mul_scalar(s, tn_mul(s, z, z), 0.5 / beta);
        z = tn_where(s, tn_lt_scalar(s, z, beta), square, tn_sub_scalar(s, z, 0.5 * beta));
    }
    give(outs, 0, tni_give_loss(s, z, arg_int(args, 2), t.dtype));
    warn_of_sizes(s, TNI_WARNING_SMOOTH_L1_LOSS, "smooth_l1_loss", args);
}

/* d / beta within beta, else the sign of d; NaN at NaN. */
void composite_smooth_l1_loss_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double beta = arg_float(args, 4);
    two_sided t = sides_of_self(s, arg_tensor(args, 1), arg_tensor(args, 2), arg_tensor(args, 0));
    tn_tensor *d = difference_of(s, &t), *far = tn_ge_scalar(s, tn_abs(s, d), beta);
    tn_tensor *slope = tn_where(s, far, tn_sign(s, d), beta > 0 ? tn_div_scalar(s, d, beta) : d);
    give(outs, 0, chain(s, arg_tensor(args, 0), slope, arg_int(args, 3), t.dtype));
}

static int32_t check_delta(tn_scope *s, double delta)
{
    if (delta > 0) return TN_OK;
    return tn_scope_fail(s, TN_E_ARGUMENT, "huber_loss does not support non-positive values for delta.");
}

void composite_huber_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double delta = arg_float(args, 3);
    two_sided t = sides_of_self(s, arg_tensor(args, 0), arg_tensor(args, 1), NULL);
    tn_tensor *z = tn_abs(s, difference_of(s, &t)), *square, *line;
    if (check_delta(s, delta)) return;
    square = tn_mul_scalar(s, tn_mul(s, z, z), 0.5);
    line = tn_mul_scalar(s, tn_sub_scalar(s, z, 0.5 * delta), delta);
    z = tn_where(s, tn_le_scalar(s, z, delta), square, line);
    give(outs, 0, tni_give_loss(s, z, arg_int(args, 2), t.dtype));
    warn_of_sizes(s, TNI_WARNING_HUBER_LOSS, "huber_loss", args);
}

void composite_huber_loss_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double delta = arg_float(args, 4);
    two_sided t = sides_of_self(s, arg_tensor(args, 1), arg_tensor(args, 2), arg_tensor(args, 0));
    tn_tensor *d = difference_of(s, &t);
    tn_tensor *slope = tn_clamp(s, d, .min = TN_SCALAR(-delta), .max = TN_SCALAR(delta));
    give(outs, 0, chain(s, arg_tensor(args, 0), slope, arg_int(args, 3), t.dtype));
}

/* log(1 + e^(-target * self)) */
void composite_soft_margin_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *e = tn_exp(s, scaled_in_place(s, tn_neg(s, arg_tensor(args, 0)), arg_tensor(args, 1)));
    give(outs, 0, tni_reduce_loss(s, tn_log1p(s, e), arg_int(args, 2)));
}

void composite_soft_margin_loss_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    two_sided t = sides_of_self(s, arg_tensor(args, 1), arg_tensor(args, 2), arg_tensor(args, 0));
    tn_tensor *e = tn_exp(s, tn_neg(s, tn_mul(s, t.self, t.target))), *slope;
    slope = tn_div(s, tn_mul(s, tn_neg(s, t.target), e), tn_add_scalar(s, e, 1));
    give(outs, 0, chain(s, arg_tensor(args, 0), slope, arg_int(args, 3), t.dtype));
}

/* ---- binary cross entropy ---- */

static int32_t check_same(tn_scope *s, const tn_tensor *self, const tn_tensor *target)
{
    if (dtype_of(target) != dtype_of(self))
        return tni_scope_failf(s, TN_E_DTYPE, "Found dtype %s but expected %s",
                               tni_dtype_error_name(dtype_of(target)), tni_dtype_error_name(dtype_of(self)));
    if (tni_same_sizes(sizes_of(self), sizes_of(target))) return TN_OK;
    return tni_scope_failf(s, TN_E_SHAPE,
                           "Using a target size (torch.Size(%s)) that is different to the input size "
                           "(torch.Size(%s)) is deprecated. Please "
                           "ensure they have the same size.",
                           sizes_text(s, target), sizes_text(s, self));
}

/* All elements are in [0, 1], read on synchronous devices only; other devices are not waited for. */
static int32_t check_probabilities(tn_scope *s, tn_tensor *t, const char *name)
{
    if (tn_tensor_device(t) != TN_CPU || tn_tensor_numel(t) == 0) return TN_OK;
    tn_aminmax_result range = tn_aminmax(s, tn_detach_default(s, t));
    if (tn_scope_failed(s) || (tn_item_double(s, range.min) >= 0 && tn_item_double(s, range.max) <= 1))
        return TN_OK;
    return tni_scope_failf(s, TN_E_ARGUMENT, "all elements of %s should be between 0 and 1", name);
}

/* Logarithms are clamped at -100, so that the loss stays finite. */
void composite_binary_cross_entropy(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *target = arg_tensor(args, 1), *weight = arg_tensor(args, 2), *yes,
              *no, *loss;
    if (check_same(s, self, target) || check_probabilities(s, self, "input") ||
        check_probabilities(s, target, "target"))
        return;
    two_sided t = sides(s, self, target);
    yes = tn_clamp_min(s, tn_log(s, t.self), -100);
    no = tn_clamp_min(s, tn_log1p(s, tn_neg(s, t.self)), -100);
    loss = tn_sub(s, tn_mul(s, tn_sub_scalar(s, t.target, 1), no), tn_mul(s, t.target, yes));
    if (weight) loss = scaled_in_place(s, loss, weight);
    give(outs, 0, tni_give_loss(s, loss, arg_int(args, 3), t.dtype));
}

/* (x - t) / max((1 - x) x, 1e-12) */
void composite_binary_cross_entropy_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    two_sided t = sides(s, arg_tensor(args, 1), arg_tensor(args, 2));
    tn_tensor *weight = arg_tensor(args, 3), *slope;
    tn_tensor *spread = tn_mul(s, tn_rsub_scalar(s, t.self, 1), t.self);
    slope = tn_div(s, difference_of(s, &t), tn_clamp_min(s, spread, 1e-12));
    if (weight) slope = tn_mul(s, slope, weight);
    give(outs, 0, chain(s, arg_tensor(args, 0), slope, arg_int(args, 4), dtype_of(arg_tensor(args, 1))));
}

void composite_binary_cross_entropy_with_logits(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *target = arg_tensor(args, 1), *weight = arg_tensor(args, 2);
    tn_tensor *positive = arg_tensor(args, 3), *log, *loss;
    log = tn_log_sigmoid(s, self);
    loss = scaled_in_place(s, tn_rsub_scalar(s, target, 1), self);
    if (positive) {
        tn_tensor *more = tn_mul(s, tn_sub_scalar(s, positive, 1), target);
        log = scaled_in_place(s, log, tn_add_scalar(s, more, 1));
    }
    if (loss) loss = tni_cast(s, tn_sub(s, loss, log), dtype_of(loss));
    if (weight) loss = scaled_in_place(s, loss, weight);
    give(outs, 0, tni_reduce_loss(s, loss, arg_int(args, 4)));
}

/* ---- divergences and likelihoods ---- */

void composite_kl_div(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *target = arg_tensor(args, 1), *loss;
    if (is_integer(dtype_of(self)) || is_integer(dtype_of(target)))
        return (void)tn_scope_fail(s, TN_E_DTYPE, "kl_div: Integral inputs not supported.");
    if (is_complex(dtype_of(self)) || is_complex(dtype_of(target)))
        return (void)tn_scope_fail(s, TN_E_DTYPE, "kl_div: Complex inputs not supported.");
    if (arg_bool(args, 3))
        loss = tn_mul(s, tn_exp(s, target), tn_sub(s, target, self));
    else
        loss = tn_sub(s, tn_xlogy(s, target, target), tn_mul(s, target, self));
    give(outs, 0, tni_reduce_loss(s, loss, arg_int(args, 2)));
}

/* (input, target, log_input, full, eps, reduction); full adds Stirling's approximation of log(target!). */
void composite_poisson_nll_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *target = arg_tensor(args, 1), *loss;
    if (arg_bool(args, 2))
        loss = tn_sub(s, tn_exp(s, input), tn_mul(s, target, input));
    else
        loss = tn_sub(s, input, tn_mul(s, target, tn_log(s, tn_add_scalar(s, input, arg_float(args, 4)))));
    if (arg_bool(args, 3)) {
        tn_tensor *half = tn_mul_scalar(s, tn_log(s, tn_mul_scalar(s, target, 6.283185307179586476925)), 0.5);
        tn_tensor *stirling = tn_add(s, tn_sub(s, tn_mul(s, target, tn_log(s, target)), target), half);
        loss = tn_add(s, loss, tn_masked_fill_scalar(s, stirling, tn_le_scalar(s, target, 1), 0));
    }
    give(outs, 0, tni_reduce_loss(s, loss, arg_int(args, 5)));
}
