/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: the elementwise part of recurrent cells and its gradients, for devices without kernels of them. */
#include "ops/composite/composite.h"

static tn_tensor *part(tn_scope *s, tn_tensor *gates, int64_t i, int64_t width)
{
    return tni_narrow(s, gates, 1, i * width, width);
}

static tn_tensor *sum_of(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return b ? tn_add(s, a, b) : a;
}

/* x (1 - x), 1 - x^2 */
static tn_tensor *sigmoid_slope(tn_scope *s, tn_tensor *x)
{
    return tn_mul(s, x, tn_rsub_scalar(s, x, 1));
}
static tn_tensor *tanh_slope(tn_scope *s, tn_tensor *x)
{
    return tn_rsub_scalar(s, tn_mul(s, x, x), 1);
}

/* (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> hy, cy, workspace */
void composite_fused_lstm_cell(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *cx = arg_tensor(args, 2), *gates = tn_add(s, arg_tensor(args, 0), arg_tensor(args, 1));
    int64_t n = tn_tensor_size(cx, 1);
    gates = sum_of(s, sum_of(s, gates, arg_tensor(args, 3)), arg_tensor(args, 4));
    tn_tensor *in = tn_sigmoid(s, part(s, gates, 0, n)), *forget = tn_sigmoid(s, part(s, gates, 1, n));
    tn_tensor *value = tn_tanh(s, part(s, gates, 2, n)), *out = tn_sigmoid(s, part(s, gates, 3, n));
    tn_tensor *cy = tn_addcmul(s, tn_mul(s, forget, cx), in, value);
    give(outs, 0, tn_mul(s, out, tn_tanh(s, cy)));
    give(outs, 1, cy);
    give(outs, 2, tn_cat(s, TN_TENSORS(in, forget, value, out), .dim = 1));
}

/* (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> gradients of the gates, of cx, of the bias */
void composite_fused_lstm_cell_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *cx = arg_tensor(args, 2), *work = arg_tensor(args, 4), *up = arg_tensor(args, 1);
    tn_tensor *grad = arg_given(args, 0) ? arg_tensor(args, 0) : tn_zeros_like(s, cx);
    int64_t n = tn_tensor_size(cx, 1);
    tn_tensor *in = part(s, work, 0, n), *forget = part(s, work, 1, n), *value = part(s, work, 2, n);
    tn_tensor *out = part(s, work, 3, n), *shown = tn_tanh(s, arg_tensor(args, 3));
    up = sum_of(s, tn_mul(s, tn_mul(s, grad, out), tanh_slope(s, shown)), up);
    tn_tensor *gates = tn_cat(s,
                              TN_TENSORS(tn_mul(s, tn_mul(s, up, value), sigmoid_slope(s, in)),
                                         tn_mul(s, tn_mul(s, up, cx), sigmoid_slope(s, forget)),
                                         tn_mul(s, tn_mul(s, up, in), tanh_slope(s, value)),
                                         tn_mul(s, tn_mul(s, grad, shown), sigmoid_slope(s, out))),
                              .dim = 1);
    give(outs, 0, gates);
    give(outs, 1, tn_mul(s, up, forget));
    give(outs, 2, arg_bool(args, 5) ? tn_sum_dim(s, gates, TN_INTS(0)) : tni_empty_on(s, cx, 0, TN_INTS(0)));
}

/* (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> hy, workspace */
void composite_fused_gru_cell(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *hx = arg_tensor(args, 2), *x = sum_of(s, arg_tensor(args, 0), arg_tensor(args, 3));
    tn_tensor *h = sum_of(s, arg_tensor(args, 1), arg_tensor(args, 4));
    int64_t n = tn_tensor_size(hx, 1);
    tn_tensor *reset = tn_sigmoid(s, tn_add(s, part(s, x, 0, n), part(s, h, 0, n)));
    tn_tensor *update = tn_sigmoid(s, tn_add(s, part(s, x, 1, n), part(s, h, 1, n))),
              *share = part(s, h, 2, n);
    tn_tensor *value = tn_tanh(s, tn_addcmul(s, part(s, x, 2, n), reset, share));
    give(outs, 0, tn_addcmul(s, value, tn_sub(s, hx, value), update));
    give(outs, 1, tn_cat(s, TN_TENSORS(reset, update, value, hx, share), .dim = 1));
}

/* (grad_hy, workspace, has_bias) -> gradients of the gates of the input, of the state, of hx, of both biases */
void composite_fused_gru_cell_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *work = arg_tensor(args, 1);
    int64_t n = tn_tensor_size(grad, 1);
    tn_tensor *reset = part(s, work, 0, n), *update = part(s, work, 1, n), *value = part(s, work, 2, n);
    tn_tensor *to_value = tn_mul(s, tn_mul(s, grad, tn_rsub_scalar(s, update, 1)), tanh_slope(s, value));
    tn_tensor *to_update =
        tn_mul(s, tn_mul(s, grad, tn_sub(s, part(s, work, 3, n), value)), sigmoid_slope(s, update));
    tn_tensor *to_reset = tn_mul(s, tn_mul(s, to_value, part(s, work, 4, n)), sigmoid_slope(s, reset));
    tn_tensor *x = tn_cat(s, TN_TENSORS(to_reset, to_update, to_value), .dim = 1);
    tn_tensor *h = tn_cat(s, TN_TENSORS(to_reset, to_update, tn_mul(s, to_value, reset)), .dim = 1);
    int32_t has_bias = arg_bool(args, 2);
    give(outs, 0, x);
    give(outs, 1, h);
    give(outs, 2, tn_mul(s, grad, update));
    give(outs, 3, has_bias ? tn_sum_dim(s, x, TN_INTS(0)) : tni_empty_on(s, grad, 0, TN_INTS(0)));
    give(outs, 4, has_bias ? tn_sum_dim(s, h, TN_INTS(0)) : tni_empty_on(s, grad, 0, TN_INTS(0)));
}
