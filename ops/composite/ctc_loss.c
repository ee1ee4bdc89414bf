/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: ctc_loss with its reductions, and lengths that are tensors. */
#include <math.h>
#include "ops/composite/composite.h"

static tn_ints lengths_of(tn_scope *s, const tn_value *args, uint32_t i, const char *name)
{
    return args[i].tag == TN_TAG_TENSOR ? tni_integers_of(s, arg_tensor(args, i), name) : arg_ints(args, i);
}

/* ctc_loss (log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity). */
void composite_ctc_loss(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *log_probs = arg_tensor(args, 0), *losses, *lengths;
    tn_ints inputs = lengths_of(s, args, 2, "input_lengths"),
            targets = lengths_of(s, args, 3, "target_lengths");
    int64_t reduction = arg_int(args, 5);
    int32_t is_single = rank_of(log_probs) == 2;
    if (is_single) log_probs = tn_unsqueeze(s, log_probs, 1);
    losses = tn__ctc_loss(s, log_probs, arg_tensor(args, 1), inputs, targets, .blank = arg_int(args, 4),
                          .zero_infinity = arg_bool(args, 6))
                 .result0;
    if (!losses) return;
    if (arg_bool(args, 6)) losses = tn_masked_fill_scalar(s, losses, tn_eq_scalar(s, losses, INFINITY), 0);
    if (reduction == 1) {
        lengths = tn_from_data(s, TN_INT64, TN_INTS(targets.count), targets.data, tn_tensor_device(losses));
        lengths = tni_cast(s, tn_clamp_min(s, lengths, 1), dtype_of(losses));
        losses = tn_mean(s, tn_div(s, losses, lengths));
    } else if (reduction == 2) {
        losses = tn_sum(s, losses);
    } else if (is_single) {
        losses = tn_squeeze_dim(s, losses, 0);
    }
    give(outs, 0, losses);
}

/* _ctc_loss.Tensor (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity). */
void composite_ctc_loss_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn__ctc_loss_result r =
        tn__ctc_loss(s, arg_tensor(args, 0), arg_tensor(args, 1), lengths_of(s, args, 2, "input_lengths"),
                     lengths_of(s, args, 3, "target_lengths"), .blank = arg_int(args, 4),
                     .zero_infinity = arg_bool(args, 5));
    give(outs, 0, r.result0);
    give(outs, 1, r.result1);
}

/* _ctc_loss_backward.Tensor (grad, log_probs, targets, input_lengths, target_lengths, losses, log_alpha, blank, ...). */
void composite_ctc_loss_backward_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn__ctc_loss_backward(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                               lengths_of(s, args, 3, "input_lengths"),
                               lengths_of(s, args, 4, "target_lengths"), arg_tensor(args, 5),
                               arg_tensor(args, 6), arg_int(args, 7), .zero_infinity = arg_bool(args, 8)));
}
