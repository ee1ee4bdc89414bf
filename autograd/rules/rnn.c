/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise part of recurrent cells. Second derivatives go through the formulas of simple operators. */
#include "autograd/rules/formula.h"

enum { INPUT, HIDDEN, STATE, INPUT_BIAS, HIDDEN_BIAS, ARGUMENTS };

static tn_tensor *biased(tn_scope *s, tn_tensor *gates, tn_tensor *bias)
{
    return bias ? add(s, gates, bias) : gates;
}

static tn_tensor *part(tn_scope *s, tn_tensor *gates, int64_t i, int64_t parts)
{
    return gates ? tn_select(s, tn_unflatten(s, gates, 1, TN_INTS(parts, -1)), 1, i) : NULL;
}

static void lstm_formula(tn_scope *s, const void *data, tn_tensor *const *in, tn_tensor **out)
{
    tn_tensor *gates = add(s, biased(s, in[INPUT], in[INPUT_BIAS]), biased(s, in[HIDDEN], in[HIDDEN_BIAS]));
    tn_tensor *fresh = mul(s, tn_sigmoid(s, part(s, gates, 0, 4)), tn_tanh(s, part(s, gates, 2, 4)));
    (void)data;
    out[1] = add(s, mul(s, tn_sigmoid(s, part(s, gates, 1, 4)), in[STATE]), fresh);
    out[0] = mul(s, tn_sigmoid(s, part(s, gates, 3, 4)), tn_tanh(s, out[1]));
}

static void gru_formula(tn_scope *s, const void *data, tn_tensor *const *in, tn_tensor **out)
{
    tn_tensor *x = biased(s, in[INPUT], in[INPUT_BIAS]), *h = biased(s, in[HIDDEN], in[HIDDEN_BIAS]);
    tn_tensor *reset = tn_sigmoid(s, add(s, part(s, x, 0, 3), part(s, h, 0, 3)));
    tn_tensor *update = tn_sigmoid(s, add(s, part(s, x, 1, 3), part(s, h, 1, 3)));
    tn_tensor *value = tn_tanh(s, add(s, part(s, x, 2, 3), mul(s, reset, part(s, h, 2, 3))));
    (void)data;
    out[0] = add(s, value, mul(s, sub(s, in[STATE], value), update));
}

/* The gradients by the formula, while the run of the backward pass is recorded. */
static void set_by_formula(tn_scope *s, tni_grad *g, tni_formula *f, uint32_t n_outs)
{
    tn_tensor *in[ARGUMENTS], *out[ARGUMENTS],
        *grads[2] = {tni_grad_out(g, 0), n_outs > 1 ? tni_grad_out(g, 1) : NULL};
    int32_t wanted[ARGUMENTS];
    for (uint32_t i = 0; i < ARGUMENTS; i++) {
        in[i] = tni_grad_saved(g, i);
        wanted[i] = tni_grad_needs(g, i);
    }
    if (tni_rule_vjp(s, f, NULL, in, wanted, ARGUMENTS, grads, n_outs, out)) return;
    for (uint32_t i = 0; i < ARGUMENTS; i++) {
        if (wanted[i]) tni_grad_set(g, i, out[i]);
    }
}

static void set_all(tn_scope *s, tni_grad *g, tn_tensor *input, tn_tensor *hidden, tn_tensor *state)
{
    tni_grad_set(g, INPUT, input);
    tni_grad_set(g, HIDDEN, hidden);
    tni_grad_set(g, STATE, state);
    if (tni_grad_needs(g, INPUT_BIAS)) tni_grad_set(g, INPUT_BIAS, tn_sum_dim(s, input, TN_INTS(0)));
    if (tni_grad_needs(g, HIDDEN_BIAS)) tni_grad_set(g, HIDDEN_BIAS, tn_sum_dim(s, hidden, TN_INTS(0)));
}

void grad_fused_lstm_cell(tn_scope *s, tni_grad *g)
{
    if (tni_grad_enabled()) {
        set_by_formula(s, g, lstm_formula, 2);
        return;
    }
    tn__thnn_fused_lstm_cell_backward_impl_result r = tn__thnn_fused_lstm_cell_backward_impl(
        s, tni_grad_out(g, 0), tni_grad_out(g, 1), tni_grad_saved(g, STATE), tni_grad_result(g, 1),
        tni_grad_result(g, 2), 0);
    set_all(s, g, r.result0, r.result0, r.result1);
}

void grad_fused_gru_cell(tn_scope *s, tni_grad *g)
{
    if (tni_grad_enabled()) {
        set_by_formula(s, g, gru_formula, 1);
        return;
    }
    tn__thnn_fused_gru_cell_backward_result r =
        tn__thnn_fused_gru_cell_backward(s, tni_grad_out(g, 0), tni_grad_result(g, 1), 0);
    set_all(s, g, r.result0, r.result1, r.result2);
}
