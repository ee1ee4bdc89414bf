/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: forms of operators that write several arguments, which return written copies of them instead. */
#include "ops/composite/composite.h"

#define MOST_ARGS 16u

/* A copy of a tensor or of each tensor of a list. */
static tn_value copy_of(tn_scope *s, tn_value v)
{
    tn_tensors list = tn_value_as_tensors(v);
    if (v.tag == TN_TAG_TENSOR) return tn_value_tensor(tn_clone(s, v.as.tensor));
    if (v.tag != TN_TAG_TENSORS) return v;
    tn_tensor **copies = tni_scope_tensors(s, list.count);
    for (int64_t i = 0; copies && i < list.count; i++) copies[i] = tn_clone(s, list.data[i]);
    return tn_value_tensors(copies, list.count);
}

/*
 * Calls `op`, which writes its first `written` arguments of `count` and returns `n_results` tensors, with copies of those
 * arguments, which become the results.
 */
static void run_on_copies(tn_scope *s, const tn_value *args, tn_value *outs, uint32_t op, uint32_t count,
                          uint32_t written, uint32_t n_results)
{
    tn_value copies[MOST_ARGS], results[1];
    for (uint32_t i = 0; i < count; i++) copies[i] = i < written ? copy_of(s, args[i]) : args[i];
    if (tn_scope_failed(s) || tn_scope_call(s, op, copies, count, results, n_results)) return;
    for (uint32_t i = 0; i < written; i++) outs[i] = copies[i];
}

FORWARD(composite_fused_adam_copies, run_on_copies, TN_OP__FUSED_ADAM_, 15, 5, 0)
FORWARD(composite_fused_adam_lr_copies, run_on_copies, TN_OP__FUSED_ADAM_TENSOR_LR_, 15, 5, 0)
FORWARD(composite_fused_adamw_copies, run_on_copies, TN_OP__FUSED_ADAMW_, 15, 5, 0)
FORWARD(composite_fused_adamw_lr_copies, run_on_copies, TN_OP__FUSED_ADAMW_TENSOR_LR_, 15, 5, 0)
FORWARD(composite_fused_sgd_copies, run_on_copies, TN_OP__FUSED_SGD_, 12, 3, 0)
FORWARD(composite_fused_sgd_lr_copies, run_on_copies, TN_OP__FUSED_SGD_TENSOR_LR_, 12, 3, 0)
FORWARD(composite_fused_adagrad_copies, run_on_copies, TN_OP__FUSED_ADAGRAD_, 11, 4, 0)
FORWARD(composite_fused_adagrad_lr_copies, run_on_copies, TN_OP__FUSED_ADAGRAD_TENSOR_LR_, 11, 3, 0)
FORWARD(composite_amp_unscale_copies, run_on_copies, TN_OP__AMP_FOREACH_NON_FINITE_CHECK_AND_UNSCALE_, 3, 2,
        0)
FORWARD(composite_amp_update_scale_copies, run_on_copies, TN_OP__AMP_UPDATE_SCALE_, 6, 2, 1)
FORWARD(composite_foreach_zero_copies, run_on_copies, TN_OP__FOREACH_ZERO_, 1, 1, 0)
FORWARD(composite_foreach_copy_copies, run_on_copies, TN_OP__FOREACH_COPY_, 3, 1, 0)

/* (self, noise, lower, upper, training, generator) */
void composite_rrelu_with_noise_copies(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_value copies[6];
    for (uint32_t i = 0; i < 6; i++) copies[i] = i == 1 ? copy_of(s, args[i]) : args[i];
    if (tn_scope_failed(s) || tn_scope_call(s, TN_OP_RRELU_WITH_NOISE, copies, 6, outs, 1)) return;
    outs[1] = copies[1];
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps) */
void composite_batch_norm_copies(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_value copies[8];
    for (uint32_t i = 0; i < 8; i++) copies[i] = i == 3 || i == 4 ? copy_of(s, args[i]) : args[i];
    if (tn_scope_failed(s) || tn_scope_call(s, TN_OP__NATIVE_BATCH_NORM_LEGIT, copies, 8, outs, 3)) return;
    outs[3] = copies[3];
    outs[4] = copies[4];
}
