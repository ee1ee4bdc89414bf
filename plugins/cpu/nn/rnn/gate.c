/* SPDX-License-Identifier: Apache-2.0 */
/* glu and weight normalisation. */
#include "kernel_lists.h"
#include "gate.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"

CPU_KERNEL_TABLE(static cpu_kernel_table gate_table, CPU_GATE_LISTS, cpu_gate_kernels);

static uint32_t wrapped(int64_t dim, const tn_tensor_desc *t)
{
    return (uint32_t)(dim < 0 ? dim + (int64_t)t->rank : dim);
}

typedef struct gate_job {
    const cpu_gate_kernels *kernels;
    cpu_gate g;
    cpu_weight_norm w;
    bool back;
} gate_job;

CPU_RANGE(run_gate, gate_job,
          (job->back ? job->kernels->glu_backward : job->kernels->glu)(&job->g, begin, end))

static int32_t run_glu(const tn_call *call, const tn_tensor_desc *x, const tn_tensor_desc *grad, int64_t dim)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    uint32_t d = wrapped(dim, x);
    gate_job job = {.kernels = cpu_kernels_of(gate_table, x->dtype), .back = grad != NULL};
    void *in, *up;
    int32_t status = cpu_contiguous_read(call, x, &in);
    if (status == TN_OK) status = cpu_contiguous_read(call, grad, &up);
    if (status == TN_OK) {
        job.g = (cpu_gate){.inner = cpu_span(x, d, x->rank) / 2, .x = in, .grad = up, .out = out->host};
        cpu_parallel_ranges(call, cpu_span(x, 0, d), grain_for(16384, job.g.inner), run_gate, &job);
    }
    return status;
}

static int32_t run_glu_forward(void *self, const tn_call *call)
{
    return run_glu(call, tensor_arg(call, 0), NULL, int_arg(call, 1));
}
static int32_t run_glu_backward(void *self, const tn_call *call)
{
    return run_glu(call, tensor_arg(call, 1), tensor_arg(call, 0), int_arg(call, 2));
}

/* ---- Weight normalisation ---------------------------------------------------------------------------- */

enum { V, G, GRAD, NORMS, OPERANDS };

CPU_RANGE(run_slices, gate_job,
          (job->back ? job->kernels->weight_norm_backward : job->kernels->weight_norm)(&job->w, begin, end))

static int32_t run_weight_norm(const tn_call *call, const tn_tensor_desc *const operands[OPERANDS],
                               int64_t dim)
{
    const tn_tensor_desc *v = operands[V], *first = tensor_out(call, 0), *second = tensor_out(call, 1);
    uint32_t d = wrapped(dim, v);
    gate_job job = {.kernels = cpu_kernels_of(gate_table, v->dtype), .back = operands[GRAD] != NULL};
    void *data[OPERANDS];
    int32_t status = cpu_contiguous_all(call, operands, OPERANDS, OPERANDS, data);
    if (status == TN_OK) {
        const tn_tensor_desc *norms = job.back ? operands[NORMS] : second;
        job.w = (cpu_weight_norm){.outer = cpu_span(v, 0, d),
                                  .slices = v->sizes[d],
                                  .inner = cpu_span(v, d + 1, v->rank),
                                  .v = data[V],
                                  .g = data[G],
                                  .grad = data[GRAD],
                                  .norms_in = data[NORMS],
                                  .wide_norms = norms->dtype != v->dtype,
                                  .out = first->host,
                                  .norms = second->host,
                                  .g_grad = second->host};
        cpu_parallel_ranges(call, job.w.slices, grain_for(16384, job.w.outer * job.w.inner), run_slices,
                            &job);
    }
    return status;
}

static int32_t run_weight_norm_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *operands[OPERANDS] = {[V] = tensor_arg(call, 0), [G] = tensor_arg(call, 1)};
    return run_weight_norm(call, operands, int_arg(call, 2));
}
static int32_t run_weight_norm_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *operands[OPERANDS] = {[GRAD] = tensor_arg(call, 0),
                                                [V] = tensor_arg(call, 1),
                                                [G] = tensor_arg(call, 2),
                                                [NORMS] = tensor_arg(call, 3)};
    return run_weight_norm(call, operands, int_arg(call, 4));
}

const tn_kernel_row cpu_gate_rows[] = {
    CPU_ROW("aten::glu(Tensor self, int dim=-1) -> Tensor", cpu_float_dtypes, run_glu_forward),
    CPU_ROW("aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", cpu_float_dtypes,
            run_glu_backward),
    CPU_ROW("aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)",
            cpu_float_dtypes, run_weight_norm_forward),
    CPU_ROW("aten::_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor "
            "saved_norms, int dim) -> (Tensor, Tensor)",
            cpu_float_dtypes, run_weight_norm_backward),
};
const uint32_t cpu_gate_row_count = CPU_ROW_COUNT(cpu_gate_rows);
