/* SPDX-License-Identifier: Apache-2.0 */
/* multi_margin_loss and multilabel_margin_loss. Inputs are small, so one thread computes them. */
#include "kernel_lists.h"
#include "margin_loss.h"
#include "nn/contiguous.h"
#include "nn/embedding/embedding.h"
#include "support/kernel_table.h"

CPU_KERNEL_TABLE(static cpu_kernel_table margin_loss_table, CPU_MARGIN_LOSS_LISTS, cpu_margin_loss_kernels);

enum { INPUT, WEIGHT, GRAD, LABELS_IN, OUT, LABELS_OUT, OPERANDS };

typedef struct margin_job {
    cpu_margin m;
    bool several;         /* labels of a sample */
    void *data[OPERANDS]; /* of the operands, contiguous */
    cpu_indices target;
} margin_job;

static int32_t check_targets(const tn_call *call, const margin_job *job)
{
    for (int64_t i = 0; i < job->target.count; i++) {
        int64_t class = job->target.data[i];
        if (class >= job->m.classes || class < (job->several ? -1 : 0))
            return cpu_error(call, TN_E_INDEX,
                             job->several ? "target out of range" : "target out of range: %lld",
                             (long long)class);
    }
    return TN_OK;
}

static int32_t open_job(const tn_call *call, const tn_tensor_desc *const operands[OPERANDS],
                        const tn_tensor_desc *target, margin_job *job)
{
    const tn_tensor_desc *x = operands[INPUT];
    int32_t status;
    job->m.classes = x->rank ? x->sizes[x->rank - 1] : 1;
    job->m.batch = x->rank > 1 ? x->sizes[0] : 1;
    status = cpu_contiguous_all(call, operands, OPERANDS, OUT, job->data);
    if (status == TN_OK) status = cpu_indices_open(call, target, -1, &job->target);
    if (status == TN_OK) status = check_targets(call, job);
    job->m.x = job->data[INPUT];
    job->m.weight = job->data[WEIGHT];
    job->m.grad = job->data[GRAD];
    job->m.out = job->data[OUT];
    job->m.labels = operands[LABELS_OUT] ? job->data[LABELS_OUT] : job->data[LABELS_IN];
    job->m.target = job->target.data;
    return status;
}

static const cpu_margin_loss_kernels *kernels_of(const tn_tensor_desc *const operands[OPERANDS])
{
    return cpu_kernels_of(margin_loss_table, operands[INPUT]->dtype);
}

static int32_t run(const tn_call *call, const tn_tensor_desc *const operands[OPERANDS],
                   const tn_tensor_desc *target, void (*kernel)(const cpu_margin *m), margin_job *job)
{
    int32_t status = open_job(call, operands, target, job);
    if (status != TN_OK) return status;
    kernel(&job->m);
    for (int i = OUT; i < OPERANDS; i++) cpu_contiguous_finish(call, operands[i], job->data[i]);
    return TN_OK;
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *operands[OPERANDS] = {
        [INPUT] = tensor_arg(call, 0), [WEIGHT] = tensor_arg(call, 4), [OUT] = tensor_out(call, 0)};
    margin_job job = {
        .m = {.p = float_arg(call, 2), .margin = float_arg(call, 3), .reduction = int_arg(call, 5)}};
    return run(call, operands, tensor_arg(call, 1), kernels_of(operands)->forward, &job);
}

static int32_t run_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *operands[OPERANDS] = {[GRAD] = tensor_arg(call, 0),
                                                [INPUT] = tensor_arg(call, 1),
                                                [WEIGHT] = tensor_arg(call, 5),
                                                [OUT] = tensor_out(call, 0)};
    margin_job job = {
        .m = {.p = float_arg(call, 3), .margin = float_arg(call, 4), .reduction = int_arg(call, 6)}};
    return run(call, operands, tensor_arg(call, 2), kernels_of(operands)->backward, &job);
}

static int32_t run_labels_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *operands[OPERANDS] = {
        [INPUT] = tensor_arg(call, 0), [OUT] = tensor_out(call, 0), [LABELS_OUT] = tensor_out(call, 1)};
    margin_job job = {.m = {.reduction = int_arg(call, 2)}, .several = true};
    return run(call, operands, tensor_arg(call, 1), kernels_of(operands)->labels_forward, &job);
}

static int32_t run_labels_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *operands[OPERANDS] = {[GRAD] = tensor_arg(call, 0),
                                                [INPUT] = tensor_arg(call, 1),
                                                [LABELS_IN] = tensor_arg(call, 4),
                                                [OUT] = tensor_out(call, 0)};
    margin_job job = {.m = {.reduction = int_arg(call, 3)}, .several = true};
    return run(call, operands, tensor_arg(call, 2), kernels_of(operands)->labels_backward, &job);
}

const tn_kernel_row cpu_margin_loss_rows[] = {
    CPU_ROW("aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? "
            "weight=None, int reduction=1) -> Tensor",
            cpu_float_dtypes, run_forward),
    CPU_ROW("aten::multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, "
            "Scalar margin, Tensor? weight=None, int reduction=1) -> Tensor",
            cpu_float_dtypes, run_backward),
    CPU_ROW("aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor "
            "output, Tensor is_target)",
            cpu_float_dtypes, run_labels_forward),
    CPU_ROW("aten::multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int "
            "reduction, Tensor is_target) -> Tensor",
            cpu_float_dtypes, run_labels_backward),
};
const uint32_t cpu_margin_loss_row_count = CPU_ROW_COUNT(cpu_margin_loss_rows);
