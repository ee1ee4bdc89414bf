/* SPDX-License-Identifier: Apache-2.0 */
/* The fused elementwise part of LSTM and GRU cells. */
#include "kernel_lists.h"
#include "cell.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"

CPU_KERNEL_TABLE(static cpu_kernel_table cell_table, CPU_CELL_LISTS, cpu_cell_kernels);

typedef struct cell_job {
    cpu_cell c;
    cpu_cell_fn *run;
} cell_job;

CPU_RANGE(run_rows, cell_job, job->run(&job->c, begin, end))

/* Which operand of the kernel each tensor of a call is, in the order of the schema. */
typedef struct cell_form {
    uint8_t args[5], outs[3];
    uint8_t n_args, n_outs;
    uint8_t state; /* the operand whose sizes are the cells' */
} cell_form;

/* Runs a kernel on contiguous operands. */
static int32_t run(const tn_call *call, const cell_form *form, cpu_cell_fn *fn)
{
    const tn_tensor_desc *operands[CPU_CELL_OPERANDS] = {NULL};
    uint32_t written = 0;
    for (uint32_t i = 0; i < form->n_args; i++) operands[form->args[i]] = tensor_arg(call, i);
    for (uint32_t i = 0; i < form->n_outs; i++) {
        operands[form->outs[i]] = tensor_out(call, i);
        written |= 1u << form->outs[i];
    }
    int64_t rows = operands[form->state]->sizes[0], width = operands[form->state]->sizes[1];
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

/* A step forward: (input_gates, hidden_gates, state, input_bias, hidden_bias) */
#define FORWARD_ARGS                                                                                      \
    .args = {CPU_CELL_INPUT, CPU_CELL_HIDDEN, CPU_CELL_STATE, CPU_CELL_INPUT_BIAS, CPU_CELL_HIDDEN_BIAS}, \
    .n_args = 5, .state = CPU_CELL_STATE

/* -> hy, cy, workspace */
static int32_t run_lstm(void *self, const tn_call *call)
{
    static const cell_form form = {
        FORWARD_ARGS, .outs = {CPU_CELL_OUT, CPU_CELL_OUT_NEXT, CPU_CELL_WORKSPACE}, .n_outs = 3};
    return run(call, &form, kernels_of(tensor_arg(call, 2))->lstm);
}

/* (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> gradients of the gates, of cx, of the bias */
static int32_t run_lstm_backward(void *self, const tn_call *call)
{
    static const cell_form form = {
        .args = {CPU_CELL_GRAD, CPU_CELL_GRAD_NEXT, CPU_CELL_STATE, CPU_CELL_NEXT, CPU_CELL_WORKSPACE},
        .n_args = 5,
        .outs = {CPU_CELL_OUT, CPU_CELL_OUT_NEXT},
        .n_outs = 2,
        .state = CPU_CELL_STATE};
    int32_t status = run(call, &form, kernels_of(tensor_arg(call, 2))->lstm_backward);
    return status == TN_OK && bool_arg(call, 5) ? sum_bias(call, 0, 2) : status;
}

/* -> hy, workspace */
static int32_t run_gru(void *self, const tn_call *call)
{
    static const cell_form form = {FORWARD_ARGS, .outs = {CPU_CELL_OUT, CPU_CELL_WORKSPACE}, .n_outs = 2};
    return run(call, &form, kernels_of(tensor_arg(call, 2))->gru);
}

/* (grad_hy, workspace, has_bias) -> gradients of the gates of the input, of the state, of hx, of both biases */
static int32_t run_gru_backward(void *self, const tn_call *call)
{
    static const cell_form form = {.args = {CPU_CELL_GRAD, CPU_CELL_WORKSPACE},
                                   .n_args = 2,
                                   .outs = {CPU_CELL_OUT, CPU_CELL_OUT_HIDDEN, CPU_CELL_OUT_NEXT},
                                   .n_outs = 3,
                                   .state = CPU_CELL_GRAD};
    int32_t status = run(call, &form, kernels_of(tensor_arg(call, 0))->gru_backward);
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
