/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of multi_margin_loss and multilabel_margin_loss. They are small, so one thread does them. */
#include "margin_loss.h"
#include "nn/contiguous.h"
#include "nn/embedding/embedding.h"
#include "nn/tables.h"
#include <string.h>

enum { INPUT, WEIGHT, GRAD, LABELS_IN, OUT, LABELS_OUT, OPERANDS };

typedef struct margin_job {
    tni_margin m;
    tni_dense dense[OPERANDS];
    tni_indices target;
} margin_job;

static int32_t check_targets(const tn_call *call, const margin_job *job, bool several)
{
    for (int64_t i = 0; i < job->target.count; i++) {
        int64_t class = job->target.data[i];
        if (class >= job->m.classes || class < (several ? -1 : 0))
            return tni_fail(call, TN_E_INDEX, several ? "target out of range" : "target out of range: %lld",
                            (long long)class);
    }
    return TN_OK;
}

static int32_t open_job(const tn_call *call, const tensor *const operands[OPERANDS], const tensor *target,
                        bool several, margin_job *job)
{
    const tensor *x = operands[INPUT];
    int32_t status = TN_OK;
    job->m.classes = x->rank ? x->sizes[x->rank - 1] : 1;
    job->m.batch = x->rank > 1 ? x->sizes[0] : 1;
    for (int i = 0; i < OPERANDS && status == TN_OK; i++)
        status = i < OUT ? tni_dense_read(call, operands[i], &job->dense[i])
                         : tni_dense_write(call, operands[i], &job->dense[i]);
    if (status == TN_OK) status = tni_indices_open(call, target, -1, &job->target);
    if (status == TN_OK) status = check_targets(call, job, several);
    job->m.x = job->dense[INPUT].data;
    job->m.weight = job->dense[WEIGHT].data;
    job->m.grad = job->dense[GRAD].data;
    job->m.out = job->dense[OUT].data;
    job->m.labels = operands[LABELS_OUT] ? job->dense[LABELS_OUT].data : job->dense[LABELS_IN].data;
    job->m.target = job->target.data;
    return status;
}

static int32_t close_job(margin_job *job, int32_t status)
{
    tni_indices_close(&job->target);
    for (int i = 0; i < OPERANDS; i++) tni_dense_finish(&job->dense[i], i >= OUT && status == TN_OK);
    return status;
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tensor *operands[OPERANDS] = {
        [INPUT] = arg_tensor(call, 0), [WEIGHT] = arg_tensor(call, 4), [OUT] = out_tensor(call, 0)};
    margin_job job = {
        .m = {.p = arg_float(call, 2), .margin = arg_float(call, 3), .reduction = arg_int(call, 5)}};
    int32_t status = open_job(call, operands, arg_tensor(call, 1), false, &job);
    if (status == TN_OK) tni_margins_of(operands[INPUT]->dtype)->forward(&job.m);
    return close_job(&job, status);
}

static int32_t run_backward(void *self, const tn_call *call)
{
    const tensor *operands[OPERANDS] = {[GRAD] = arg_tensor(call, 0),
                                        [INPUT] = arg_tensor(call, 1),
                                        [WEIGHT] = arg_tensor(call, 5),
                                        [OUT] = out_tensor(call, 0)};
    margin_job job = {
        .m = {.p = arg_float(call, 3), .margin = arg_float(call, 4), .reduction = arg_int(call, 6)}};
    int32_t status = open_job(call, operands, arg_tensor(call, 2), false, &job);
    if (status == TN_OK) tni_margins_of(operands[INPUT]->dtype)->backward(&job.m);
    return close_job(&job, status);
}

static int32_t run_labels_forward(void *self, const tn_call *call)
{
    const tensor *operands[OPERANDS] = {
        [INPUT] = arg_tensor(call, 0), [OUT] = out_tensor(call, 0), [LABELS_OUT] = out_tensor(call, 1)};
    margin_job job = {.m = {.reduction = arg_int(call, 2)}};
    int32_t status = open_job(call, operands, arg_tensor(call, 1), true, &job);
    if (status == TN_OK) tni_margins_of(operands[INPUT]->dtype)->labels_forward(&job.m);
    return close_job(&job, status);
}

static int32_t run_labels_backward(void *self, const tn_call *call)
{
    const tensor *operands[OPERANDS] = {[GRAD] = arg_tensor(call, 0),
                                        [INPUT] = arg_tensor(call, 1),
                                        [LABELS_IN] = arg_tensor(call, 4),
                                        [OUT] = out_tensor(call, 0)};
    margin_job job = {.m = {.reduction = arg_int(call, 3)}};
    int32_t status = open_job(call, operands, arg_tensor(call, 2), true, &job);
    if (status == TN_OK) tni_margins_of(operands[INPUT]->dtype)->labels_backward(&job.m);
    return close_job(&job, status);
}

static const tn_dtype floats[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, 0};

#define ROW(text, function)                                                                           \
    {                                                                                                 \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = (text), .dtypes = floats, \
        .run = (function)                                                                             \
    }

const tn_kernel_row cpu_margin_loss_rows[] = {
    ROW("aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? "
        "weight=None, int "
        "reduction=1) -> Tensor",
        run_forward),
    ROW("aten::multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar "
        "margin, "
        "Tensor? weight=None, int reduction=1) -> Tensor",
        run_backward),
    ROW("aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, "
        "Tensor "
        "is_target)",
        run_labels_forward),
    ROW("aten::multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int "
        "reduction, Tensor "
        "is_target) -> Tensor",
        run_labels_backward),
};
const uint32_t cpu_margin_loss_row_count = TNI_ROW_COUNT(cpu_margin_loss_rows);
