/* SPDX-License-Identifier: Apache-2.0 */
/* Losses that index classes, and their gradients, whose operands have the sizes of the forward call; reductions of all losses. */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

/*
 * Checks the argument `reduction` of a loss or of its gradient, wherever it stands. For those that are composites it is the
 * whole rule: the operators that they call find the shapes.
 */
int32_t infer_reduced_loss(tni_frame *f)
{
    const tni_schema *schema = f->op->base->schema;
    uint32_t i = 0;
    while (strcmp(schema->args[i].name, "reduction")) i++;
    int64_t reduction = tni_arg_int(f, i);
    if (reduction >= TN_REDUCTION_NONE && reduction <= TN_REDUCTION_SUM) return TN_OK;
    return tni_fail(f, TN_E_ARGUMENT,
                    "argument 'reduction': %lld is not a reduction (expected 0 none, 1 mean, 2 sum)",
                    (long long)reduction);
}

/*
 * The gradient (argument 0) of a loss: of each item in a tensor of these sizes, or else one element for the whole.
 */
static int32_t check_loss_gradient(tni_frame *f, int32_t each, int64_t rank, const int64_t *sizes)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0);
    tni_text text;
    if (each) return tni_check_sizes(f, 0, rank, sizes);
    if (rank_of(grad) <= 1 && grad->numel == 1) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "Expected a single element grad_output tensor, but got: %s",
                    tni_sizes_text(grad, &text));
}

/* ---- negative log likelihood ---- */

static int32_t check_class_weight(tni_frame *f, const tn_tensor *weight, int64_t classes)
{
    tni_text text;
    if (!weight || (rank_of(weight) == 1 && weight->numel == classes)) return TN_OK;
    return tni_fail(f, TN_E_SHAPE,
                    "weight tensor should be defined either for all %lld classes or no classes but got "
                    "weight tensor of shape: %s",
                    (long long)classes, tni_sizes_text(weight, &text));
}

/* self, target and weight are the arguments from `first` on. */
static int32_t check_nll(tni_frame *f, uint32_t first, int32_t spatial)
{
    const tn_tensor *self = tni_arg_tensor(f, first), *target = tni_arg_tensor(f, first + 1),
                    *weight = tni_arg_tensor(f, first + 2);
    tni_text a, b;
    int32_t same = 1;
    if (!spatial && (rank_of(self) < 1 || rank_of(self) > 2))
        return tni_fail(f, TN_E_SHAPE, "input tensor should be 1D or 2D");
    if (!spatial && rank_of(target) > 1)
        return tni_fail(f, TN_E_SHAPE, "0D or 1D target tensor expected, multi-target not supported");
    if (spatial && rank_of(target) != 3)
        return tni_fail(
            f, TN_E_SHAPE,
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: %u",
            target->desc.rank);
    if (spatial && rank_of(self) != 4)
        return tni_fail(
            f, TN_E_SHAPE,
            "only batches of spatial inputs supported (4D tensors), but got input of dimension: %u",
            self->desc.rank);
    if (spatial && dtype_of(target) != TN_INT64)
        return tni_fail(f, TN_E_DTYPE, "expected scalar type Long but found %s",
                        tni_dtype_error_name(dtype_of(target)));
    if (dtype_of(target) != TN_INT64 && dtype_of(target) != TN_UINT8)
        return tni_fail(f, TN_E_DTYPE, "expected target dtype to be Long or Byte, but got %s",
                        tni_dtype_error_name(dtype_of(target)));
    if (rank_of(self) == 1 && rank_of(target) == 1 && target->numel != 1)
        return tni_fail(f, TN_E_ARGUMENT,
                        "For 1D input, 1D target must have size 1, but got target size: %lld",
                        (long long)target->numel);
    for (int64_t d = 0; d < rank_of(self) && rank_of(self) > 1; d++) {
        if (d != 1) same &= sizes_of(self)[d] == (rank_of(target) ? sizes_of(target)[d ? d - 1 : 0] : 1);
    }
    if (!same)
        return tni_fail(f, TN_E_SHAPE, "size mismatch (got input: %s, target: %s)", tni_sizes_text(self, &a),
                        tni_sizes_text(target, &b));
    TNI_TRY(check_class_weight(f, weight, sizes_of(self)[rank_of(self) == 1 ? 0 : 1]));
    if (weight && dtype_of(weight) != dtype_of(self))
        return tni_fail(f, TN_E_DTYPE, "expected scalar type %s but found %s",
                        tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(weight)));
    if (!is_float(dtype_of(self)))
        return tni_fail(f, TN_E_UNSUPPORTED, "\"nll_loss\" not implemented for '%s'",
                        tni_dtype_error_name(dtype_of(self)));
    return TN_OK;
}

/* (self, target, weight, reduction, ignore_index): the loss and the sum of the weights used. */
int32_t infer_nll_loss(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *target = tni_arg_tensor(f, 1);
    int32_t each = tni_arg_int(f, 3) == 0 && rank_of(self) > 1;
    TNI_TRY(infer_reduced_loss(f));
    TNI_TRY(check_nll(f, 0, f->op->base->number == TN_OP_NLL_LOSS2D_FORWARD));
    f->keep_dtype = TNI_KEEP(1);
    TNI_TRY(tni_out(f, 0, dtype_of(self), each ? target->desc.rank : 0, sizes_of(target)));
    return tni_out(f, 1, dtype_of(self), 0, NULL);
}

/* (grad_output, self, target, weight, reduction, ignore_index, total_weight). */
int32_t infer_nll_loss_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1), *target = tni_arg_tensor(f, 2),
                    *total = tni_arg_tensor(f, 6);
    int32_t each = tni_arg_int(f, 4) == 0 && rank_of(self) > 1;
    tni_text text;
    TNI_TRY(infer_reduced_loss(f));
    TNI_TRY(check_nll(f, 1, f->op->base->number == TN_OP_NLL_LOSS2D_BACKWARD));
    if (total->numel != 1)
        return tni_fail(f, TN_E_SHAPE,
                        "expected total_weight to be a single element tensor, got: %s (%lld elements)",
                        tni_sizes_text(total, &text), (long long)total->numel);
    TNI_TRY(tni_check_dtype_like(f, 0, self));
    TNI_TRY(tni_check_dtype_like(f, 6, self));
    TNI_TRY(check_loss_gradient(f, each, rank_of(target), sizes_of(target)));
    return tni_out_gradient(f, 1, 0);
}

/* ---- margins ---- */

static int32_t check_margin_input(tni_frame *f, const tn_tensor *self, const tn_tensor *target)
{
    int64_t rank = rank_of(self);
    tni_text text;
    if (dtype_of(target) != TN_INT64)
        return tni_fail(f, TN_E_DTYPE, "expected scalar type Long but found %s",
                        tni_dtype_error_name(dtype_of(target)));
    if (rank <= 2 && (rank == 0 || sizes_of(self)[rank - 1] != 0)) return TN_OK;
    return tni_fail(f, TN_E_SHAPE,
                    "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s",
                    tni_sizes_text(self, &text));
}

/* self, target, p, margin and weight are the arguments from `first` on. */
static int32_t check_multi_margin(tni_frame *f, uint32_t first)
{
    const tn_tensor *self = tni_arg_tensor(f, first), *target = tni_arg_tensor(f, first + 1),
                    *weight = tni_arg_tensor(f, first + 4);
    int64_t rank = rank_of(self), rows = rank == 2 ? sizes_of(self)[0] : 1, p = tni_arg_int(f, first + 2);
    int64_t classes = rank && rank <= 2 ? sizes_of(self)[rank - 1] : 1;
    tni_text text;
    TNI_TRY(tni_check_fits(f, f->args[first + 2], TN_INT64));
    if (p != 1 && p != 2) return tni_fail(f, TN_E_ARGUMENT, "only p == 1 and p == 2 supported");
    TNI_TRY(tni_check_fits(f, f->args[first + 3], dtype_of(self)));
    TNI_TRY(check_margin_input(f, self, target));
    if (rank_of(target) > 1 || target->numel != rows)
        return tni_fail(f, TN_E_SHAPE, "inconsistent target size, expected %lld but got %s", (long long)rows,
                        tni_sizes_text(target, &text));
    if (weight && (rank_of(weight) > 1 || weight->numel != classes))
        return tni_fail(f, TN_E_SHAPE, "inconsistent weight size, expected %lld but got %s",
                        (long long)classes, tni_sizes_text(weight, &text));
    return tni_check_dtype_like(f, first + 4, self);
}

/* multi_margin_loss (self, target, p, margin, weight, reduction). */
int32_t infer_multi_margin_loss(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *target = tni_arg_tensor(f, 1);
    TNI_TRY(infer_reduced_loss(f));
    TNI_TRY(check_multi_margin(f, 0));
    f->keep_dtype = TNI_KEEP(1);
    return tni_out(f, 0, dtype_of(self), tni_arg_int(f, 5) == 0 ? target->desc.rank : 0, sizes_of(target));
}

/* (grad_output, self, target, p, margin, weight, reduction). */
int32_t infer_multi_margin_loss_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1), *target = tni_arg_tensor(f, 2);
    TNI_TRY(infer_reduced_loss(f));
    TNI_TRY(check_multi_margin(f, 1));
    TNI_TRY(tni_check_dtype_like(f, 0, self));
    TNI_TRY(
        check_loss_gradient(f, tni_arg_int(f, 6) == 0 && rank_of(target), rank_of(target), sizes_of(target)));
    return tni_out_gradient(f, 1, 0);
}

/* self and target are the arguments from `first` on. */
static int32_t check_multilabel_margin(tni_frame *f, uint32_t first)
{
    const tn_tensor *self = tni_arg_tensor(f, first), *target = tni_arg_tensor(f, first + 1);
    tni_text a, b;
    TNI_TRY(check_margin_input(f, self, target));
    if (same_sizes(target, self)) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "inconsistent target size: %s for input of size: %s",
                    tni_sizes_text(target, &a), tni_sizes_text(self, &b));
}

/* multilabel_margin_loss_forward (self, target, reduction). */
int32_t infer_multilabel_margin_loss(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *target = tni_arg_tensor(f, 1);
    int32_t each = tni_arg_int(f, 2) == 0 && rank_of(self) == 2;
    TNI_TRY(infer_reduced_loss(f));
    TNI_TRY(check_multilabel_margin(f, 0));
    f->keep_dtype = TNI_KEEP(1);
    TNI_TRY(tni_out(f, 0, dtype_of(self), each ? 1 : 0, sizes_of(self)));
    return tni_out(f, 1, dtype_of(self), target->desc.rank, sizes_of(target));
}

/* (grad_output, self, target, reduction, is_target). */
int32_t infer_multilabel_margin_loss_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1);
    TNI_TRY(infer_reduced_loss(f));
    TNI_TRY(check_multilabel_margin(f, 1));
    TNI_TRY(tni_check_dtype_like(f, 0, self));
    TNI_TRY(tni_check_dtype_like(f, 4, self));
    TNI_TRY(tni_check_sizes_like(f, 4, self));
    TNI_TRY(check_loss_gradient(f, tni_arg_int(f, 3) == 0 && rank_of(self) == 2, 1, sizes_of(self)));
    return tni_out_gradient(f, 1, 0);
}
