/* SPDX-License-Identifier: Apache-2.0 */
/* The fused elementwise part of LSTM and GRU cells. */
#include "kernel_lists.h"
#include "cell.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"

#define DECLARE(table, slot, level) extern const cpu_cell_kernels table;
CPU_CELL_LISTS(DECLARE)
static cpu_kernel_table cell_table = {CPU_CELL_LISTS(CPU_LISTED_KERNELS)};

typedef struct cell_job {
    cpu_cell c;
    cpu_cell_fn *run;
} cell_job;

static void run_rows(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const cell_job *job = user;
    job->run(&job->c, begin, end);
}

/* Runs a kernel on contiguous operands. `written`: bits of the operands that are written. */
static int32_t run(const tn_call *call, const tn_tensor_desc *const *operands, uint32_t written, int64_t rows,
                   int64_t width, cpu_cell_fn *fn)
{
    cell_job job = {.c = {.width = width}, .run = fn};
    for (int i = 0; i < CPU_CELL_OPERANDS; i++) {
        int32_t status = TN_OK;
        if (!operands[i]) continue;
        status = written >> i & 1u ? cpu_contiguous_write(call, operands[i], &job.c.data[i])
                                   : cpu_contiguous_read(call, operands[i], &job.c.data[i]);
        if (status != TN_OK) return status;
    }
    cpu_parallel_ranges(call, rows, grain_for(4096, width), run_rows, &job);
    for (int i = 0; i < CPU_CELL_OPERANDS; i++)
        if (operands[i] && written >> i & 1u) cpu_contiguous_finish(call, operands[i], job.c.data[i]);
    return TN_OK;
}

static const cpu_cell_kernels *kernels_of(const tn_tensor_desc *t)
{
    return cpu_kernels_of(cell_table, t->dtype);
}

/* Output `to`, the gradient of a bias: the sums of the rows of output `from`. */
static int32_t sum_bias(const tn_call *call, uint32_t from, uint32_t to)
{
    const tn_tensor_desc *gates = tensor_out(call, from), *bias = tensor_out(call, to);
    void *in, *out;
    int32_t status = cpu_contiguous_read(call, gates, &in);
    if (status == TN_OK) status = cpu_contiguous_write(call, bias, &out);
    if (status != TN_OK) return status;
    kernels_of(gates)->sum_rows(in, out, gates->sizes[0], gates->sizes[1]);
    cpu_contiguous_finish(call, bias, out);
    return TN_OK;
}

/* (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> hy, cy, workspace */
static int32_t run_lstm(void *self, const tn_call *call)
{
    const tn_tensor_desc *state = tensor_arg(call, 2);
    const tn_tensor_desc *operands[CPU_CELL_OPERANDS] = {[CPU_CELL_INPUT] = tensor_arg(call, 0),
                                                         [CPU_CELL_HIDDEN] = tensor_arg(call, 1),
                                                         [CPU_CELL_STATE] = state,
                                                         [CPU_CELL_INPUT_BIAS] = tensor_arg(call, 3),
                                                         [CPU_CELL_HIDDEN_BIAS] = tensor_arg(call, 4),
                                                         [CPU_CELL_OUT] = tensor_out(call, 0),
                                                         [CPU_CELL_OUT_NEXT] = tensor_out(call, 1),
                                                         [CPU_CELL_WORKSPACE] = tensor_out(call, 2)};
    return run(call, operands, 1u << CPU_CELL_OUT | 1u << CPU_CELL_OUT_NEXT | 1u << CPU_CELL_WORKSPACE,
               state->sizes[0], state->sizes[1], kernels_of(state)->lstm);
}

/* (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> gradients of the gates, of cx, of the bias */
static int32_t run_lstm_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *state = tensor_arg(call, 2);
    const tn_tensor_desc *operands[CPU_CELL_OPERANDS] = {[CPU_CELL_GRAD] = tensor_arg(call, 0),
                                                         [CPU_CELL_GRAD_NEXT] = tensor_arg(call, 1),
                                                         [CPU_CELL_STATE] = state,
                                                         [CPU_CELL_NEXT] = tensor_arg(call, 3),
                                                         [CPU_CELL_WORKSPACE] = tensor_arg(call, 4),
                                                         [CPU_CELL_OUT] = tensor_out(call, 0),
                                                         [CPU_CELL_OUT_NEXT] = tensor_out(call, 1)};
    int32_t status = run(call, operands, 1u << CPU_CELL_OUT | 1u << CPU_CELL_OUT_NEXT, state->sizes[0],
                         state->sizes[1], kernels_of(state)->lstm_backward);
    return status == TN_OK && bool_arg(call, 5) ? sum_bias(call, 0, 2) : status;
}

/* (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> hy, workspace */
static int32_t run_gru(void *self, const tn_call *call)
{
    const tn_tensor_desc *state = tensor_arg(call, 2);
    const tn_tensor_desc *operands[CPU_CELL_OPERANDS] = {[CPU_CELL_INPUT] = tensor_arg(call, 0),
                                                         [CPU_CELL_HIDDEN] = tensor_arg(call, 1),
                                                         [CPU_CELL_STATE] = state,
                                                         [CPU_CELL_INPUT_BIAS] = tensor_arg(call, 3),
                                                         [CPU_CELL_HIDDEN_BIAS] = tensor_arg(call, 4),
                                                         [CPU_CELL_OUT] = tensor_out(call, 0),
                                                         [CPU_CELL_WORKSPACE] = tensor_out(call, 1)};
    return run(call, operands, 1u << CPU_CELL_OUT | 1u << CPU_CELL_WORKSPACE, state->sizes[0],
               state->sizes[1], kernels_of(state)->gru);
}

/* (grad_hy, workspace, has_bias) -> gradients of the gates of the input, of the state, of hx, of both biases */
static int32_t run_gru_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = tensor_arg(call, 0);
    const tn_tensor_desc *operands[CPU_CELL_OPERANDS] = {[CPU_CELL_GRAD] = grad,
                                                         [CPU_CELL_WORKSPACE] = tensor_arg(call, 1),
                                                         [CPU_CELL_OUT] = tensor_out(call, 0),
                                                         [CPU_CELL_OUT_HIDDEN] = tensor_out(call, 1),
                                                         [CPU_CELL_OUT_NEXT] = tensor_out(call, 2)};
    int32_t status =
        run(call, operands, 1u << CPU_CELL_OUT | 1u << CPU_CELL_OUT_HIDDEN | 1u << CPU_CELL_OUT_NEXT,
            grad->sizes[0], grad->sizes[1], kernels_of(grad)->gru_backward);
    if (status == TN_OK && bool_arg(call, 2)) status = sum_bias(call, 0, 3);
    return status == TN_OK && bool_arg(call, 2) ? sum_bias(call, 1, 4) : status;
}

const tn_kernel_row cpu_cell_rows[] = {
    CPU_ROW("aten::_thnn_fused_lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? "
            "input_bias=None, "
            "Tensor? hidden_bias=None) -> (Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_lstm),
    CPU_ROW("aten::_thnn_fused_gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, Tensor? "
            "input_bias=None, "
            "Tensor? hidden_bias=None) -> (Tensor, Tensor)",
            cpu_float_dtypes, run_gru),
    CPU_ROW("aten::_thnn_fused_lstm_cell_backward_impl(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor "
            "cy, Tensor "
            "workspace, bool has_bias) -> (Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_lstm_backward),
    CPU_ROW("aten::_thnn_fused_gru_cell_backward(Tensor grad_hy, Tensor workspace, bool has_bias) -> "
            "(Tensor, Tensor, "
            "Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_gru_backward),
};
const uint32_t cpu_cell_row_count = CPU_ROW_COUNT(cpu_cell_rows);
