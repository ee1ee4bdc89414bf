/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of glu and of weight normalisation. */
#include "gate.h"
#include "nn/contiguous.h"
#include "nn/tables.h"
#include <string.h>

static uint32_t wrapped(int64_t dim, const tensor *t)
{
    return (uint32_t)(dim < 0 ? dim + (int64_t)t->rank : dim);
}

typedef struct gate_job {
    const tni_gate_kernels *kernels;
    tni_gate g;
    tni_weight_norm w;
    bool back;
} gate_job;

static void run_gate(void *context, int64_t begin, int64_t end)
{
    const gate_job *job = context;
    if (job->back)
        job->kernels->glu_backward(&job->g, begin, end);
    else
        job->kernels->glu(&job->g, begin, end);
}

static int32_t run_glu(const tn_call *call, const tensor *x, const tensor *grad, int64_t dim)
{
    const tensor *out = out_tensor(call, 0);
    uint32_t d = wrapped(dim, x);
    gate_job job = {.kernels = tni_gates_of(x->dtype), .back = grad != NULL};
    tni_dense in, up;
    int32_t status = tni_dense_read(call, x, &in);
    memset(&up, 0, sizeof(up));
    if (status == TN_OK) status = tni_dense_read(call, grad, &up);
    if (status == TN_OK) {
        job.g = (tni_gate){
            .inner = tensor_span(x, d, x->rank) / 2, .x = in.data, .grad = up.data, .out = out->host};
        tni_for_ranges(call, tensor_span(x, 0, d), grain_for(16384, job.g.inner), run_gate, &job);
    }
    tni_dense_finish(&in, false);
    tni_dense_finish(&up, false);
    return status;
}

static int32_t run_glu_forward(void *self, const tn_call *call)
{
    return run_glu(call, arg_tensor(call, 0), NULL, arg_int(call, 1));
}
static int32_t run_glu_backward(void *self, const tn_call *call)
{
    return run_glu(call, arg_tensor(call, 1), arg_tensor(call, 0), arg_int(call, 2));
}

/* ---- Weight normalisation ---------------------------------------------------------------------------- */

enum { V, G, GRAD, NORMS, OPERANDS };

static void run_slices(void *context, int64_t begin, int64_t end)
{
    const gate_job *job = context;
    if (job->back)
        job->kernels->weight_norm_backward(&job->w, begin, end);
    else
        job->kernels->weight_norm(&job->w, begin, end);
}

static int32_t run_weight_norm(const tn_call *call, const tensor *const operands[OPERANDS], int64_t dim)
{
    const tensor *v = operands[V], *first = out_tensor(call, 0), *second = out_tensor(call, 1);
    uint32_t d = wrapped(dim, v);
    gate_job job = {.kernels = tni_gates_of(v->dtype), .back = operands[GRAD] != NULL};
    tni_dense dense[OPERANDS];
    int32_t status = TN_OK;
    memset(dense, 0, sizeof(dense));
    for (int i = 0; i < OPERANDS && status == TN_OK; i++)
        status = tni_dense_read(call, operands[i], &dense[i]);
    if (status == TN_OK) {
        const tensor *norms = job.back ? operands[NORMS] : second;
        job.w = (tni_weight_norm){.outer = tensor_span(v, 0, d),
                                  .slices = v->sizes[d],
                                  .inner = tensor_span(v, d + 1, v->rank),
                                  .v = dense[V].data,
                                  .g = dense[G].data,
                                  .grad = dense[GRAD].data,
                                  .norms_in = dense[NORMS].data,
                                  .wide_norms = norms->dtype != v->dtype,
                                  .out = first->host,
                                  .norms = second->host,
                                  .g_grad = second->host};
        tni_for_ranges(call, job.w.slices, grain_for(16384, job.w.outer * job.w.inner), run_slices, &job);
    }
    for (int i = 0; i < OPERANDS; i++) tni_dense_finish(&dense[i], false);
    return status;
}

static int32_t run_weight_norm_forward(void *self, const tn_call *call)
{
    const tensor *operands[OPERANDS] = {[V] = arg_tensor(call, 0), [G] = arg_tensor(call, 1)};
    return run_weight_norm(call, operands, arg_int(call, 2));
}
static int32_t run_weight_norm_backward(void *self, const tn_call *call)
{
    const tensor *operands[OPERANDS] = {[GRAD] = arg_tensor(call, 0),
                                        [V] = arg_tensor(call, 1),
                                        [G] = arg_tensor(call, 2),
                                        [NORMS] = arg_tensor(call, 3)};
    return run_weight_norm(call, operands, arg_int(call, 4));
}

static const tn_dtype floats[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, 0};

#define ROW(text, function)                                                                           \
    {                                                                                                 \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = (text), .dtypes = floats, \
        .run = (function)                                                                             \
    }

const tn_kernel_row cpu_gate_rows[] = {
    ROW("aten::glu(Tensor self, int dim=-1) -> Tensor", run_glu_forward),
    ROW("aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", run_glu_backward),
    ROW("aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
        run_weight_norm_forward),
    ROW("aten::_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor "
        "saved_norms, int "
        "dim) -> (Tensor, Tensor)",
        run_weight_norm_backward),
};
const uint32_t cpu_gate_row_count = TNI_ROW_COUNT(cpu_gate_rows);
