/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise part of recurrent cells. */
#include "ops/infer/infer.h"

static int32_t check_size(tni_frame *f, uint32_t i, int64_t rows, int64_t width)
{
    const tn_tensor *t = tni_arg_tensor(f, i);
    tni_text text;
    if (!t) return TN_OK;
    if (rows < 0 ? rank_of(t) == 1 && sizes_of(t)[0] == width
                 : rank_of(t) == 2 && sizes_of(t)[0] == rows && sizes_of(t)[1] == width)
        return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "argument '%s': must have %s%lld elements%s (got %s)",
                    f->op->base->schema->args[i].name, rows < 0 ? "" : "rows of ", (long long)width,
                    rows < 0 ? "" : ", one for each row of the state", tni_sizes_text(t, &text));
}

static int32_t out_rows(tni_frame *f, uint32_t i, const tn_tensor *like, int64_t width)
{
    return tni_out(f, i, dtype_of(like), 2, (const int64_t[]){sizes_of(like)[0], width});
}

static int32_t out_bias(tni_frame *f, uint32_t i, const tn_tensor *like, int64_t width)
{
    return tni_out(f, i, dtype_of(like), 1, &width);
}

static int32_t check_state(tni_frame *f, const tn_tensor *state)
{
    if (rank_of(state) == 2) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "the state of a cell must have 2 dimensions (got %lld)",
                    (long long)rank_of(state));
}

/* _thnn_fused_lstm_cell (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> hy, cy, workspace;
 * _thnn_fused_gru_cell (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> hy, workspace. */
int32_t infer_fused_cell(tni_frame *f)
{
    const tn_tensor *state = tni_arg_tensor(f, 2);
    int32_t is_lstm = f->op->base->n_returns == 3;
    int64_t gates = is_lstm ? 4 : 3;
    TNI_TRY(check_state(f, state));
    int64_t rows = sizes_of(state)[0], width = sizes_of(state)[1];
    for (uint32_t i = 0; i < 2; i++) TNI_TRY(check_size(f, i, rows, gates * width));
    for (uint32_t i = 3; i < 5; i++) TNI_TRY(check_size(f, i, -1, gates * width));
    TNI_TRY(out_rows(f, 0, state, width));
    if (!is_lstm) return out_rows(f, 1, state, 5 * width);
    TNI_TRY(out_rows(f, 1, state, width));
    return out_rows(f, 2, state, 4 * width);
}

/* _thnn_fused_lstm_cell_backward_impl (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> gates, cx, bias. */
int32_t infer_fused_lstm_cell_backward(tni_frame *f)
{
    const tn_tensor *state = tni_arg_tensor(f, 2);
    TNI_TRY(check_state(f, state));
    int64_t rows = sizes_of(state)[0], width = sizes_of(state)[1];
    for (uint32_t i = 0; i < 4; i++) TNI_TRY(check_size(f, i, rows, width));
    TNI_TRY(check_size(f, 4, rows, 4 * width));
    f->call_dtype = dtype_of(state);
    TNI_TRY(out_rows(f, 0, state, 4 * width));
    TNI_TRY(out_rows(f, 1, state, width));
    return out_bias(f, 2, state, tni_arg_bool(f, 5) ? 4 * width : 0);
}

/* _thnn_fused_gru_cell_backward (grad_hy, workspace, has_bias) -> input gates, hidden gates, hx, their biases. */
int32_t infer_fused_gru_cell_backward(tni_frame *f)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0);
    TNI_TRY(check_state(f, grad));
    int64_t width = sizes_of(grad)[1], bias = tni_arg_bool(f, 2) ? 3 * width : 0;
    TNI_TRY(check_size(f, 1, sizes_of(grad)[0], 5 * width));
    TNI_TRY(out_rows(f, 0, grad, 3 * width));
    TNI_TRY(out_rows(f, 1, grad, 3 * width));
    TNI_TRY(out_rows(f, 2, grad, width));
    TNI_TRY(out_bias(f, 3, grad, bias));
    return out_bias(f, 4, grad, bias);
}
