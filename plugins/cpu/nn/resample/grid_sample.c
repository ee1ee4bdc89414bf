/* SPDX-License-Identifier: Apache-2.0 */
/* grid_sampler in two and three dimensions and its gradients. */
#include "kernel_lists.h"
#include "grid_sample.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"

CPU_KERNEL_TABLE(static cpu_kernel_table grid_sample_table, CPU_GRID_SAMPLE_LISTS, cpu_grid_sample_kernels);

typedef struct sample_job {
    const tn_call *call;
    const cpu_grid_sample_kernels *kernels;
    cpu_grid_sample s;
    int32_t status;
} sample_job;

/* Operands of a call, row-major. */
enum { INPUT, GRID, GRAD, Y, GRID_GRAD, OPERANDS };

CPU_RANGE(forward_range, sample_job, job->kernels->forward(&job->s, begin, end))

static void backward_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    sample_job *job = user;
    int64_t bytes = job->s.channels * job->s.in[0] * job->s.in[1] * job->s.in[2] * job->kernels->acc_bytes;
    void *sums = cpu_alloc(job->call, bytes);
    if (!sums)
        job->status = TN_E_OUT_OF_MEMORY;
    else
        job->kernels->backward(&job->s, begin, end, sums);
    cpu_free(job->call, sums, bytes);
}

static void set_shape(cpu_grid_sample *s, const tn_tensor_desc *x, const tn_tensor_desc *grid)
{
    s->batch = x->sizes[0];
    s->channels = x->sizes[1];
    s->spatial = x->rank - 2;
    for (int i = 0; i < 3; i++) {
        int k = i - (3 - (int)s->spatial);
        s->in[i] = k < 0 ? 1 : x->sizes[k + 2];
        s->out[i] = k < 0 ? 1 : grid->sizes[k + 1];
    }
}

/* interpolation_mode, padding_mode and align_corners are the arguments from `options` on. */
static int32_t run(const tn_call *call, const tn_tensor_desc *const operands[OPERANDS], uint32_t options,
                   bool back)
{
    sample_job job = {.call = call, .kernels = cpu_kernels_of(grid_sample_table, operands[INPUT]->dtype)};
    void *data[OPERANDS];
    int32_t status = cpu_contiguous_all(call, operands, OPERANDS, Y, data);
    set_shape(&job.s, operands[INPUT], operands[GRID]);
    job.s.interpolation = int_arg(call, options);
    job.s.padding = int_arg(call, options + 1);
    job.s.align = int_arg(call, options + 2);
    if (status == TN_OK) {
        int64_t positions = job.s.out[0] * job.s.out[1] * job.s.out[2];
        job.s.x = data[INPUT];
        job.s.grid = data[GRID];
        job.s.grad = data[GRAD];
        job.s.y = data[Y];
        job.s.grid_grad = data[GRID_GRAD];
        if (back)
            cpu_parallel_ranges(call, job.s.batch, 1, backward_range, &job);
        else
            cpu_parallel_ranges(call, job.s.batch * positions, grain_for(8192, job.s.channels * 8),
                                forward_range, &job);
        status = job.status;
    }
    for (int i = Y; i < OPERANDS && status == TN_OK; i++) cpu_contiguous_finish(call, operands[i], data[i]);
    return status;
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *operands[OPERANDS] = {
        [INPUT] = tensor_arg(call, 0), [GRID] = tensor_arg(call, 1), [Y] = tensor_out(call, 0)};
    return run(call, operands, 2, false);
}

static int32_t run_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *operands[OPERANDS] = {[INPUT] = tensor_arg(call, 1),
                                                [GRID] = tensor_arg(call, 2),
                                                [GRAD] = tensor_arg(call, 0),
                                                [Y] = mask_arg(call, 6, 0) ? tensor_out(call, 0) : NULL,
                                                [GRID_GRAD] =
                                                    mask_arg(call, 6, 1) ? tensor_out(call, 1) : NULL};
    return run(call, operands, 3, true);
}

#define GRID_ROWS(dims)                                                                                     \
    CPU_ROW("aten::grid_sampler_" dims "d(Tensor input, Tensor grid, int interpolation_mode, int "          \
            "padding_mode, bool align_corners) -> Tensor",                                                  \
            cpu_float_dtypes, run_forward),                                                                 \
        CPU_ROW("aten::grid_sampler_" dims "d_backward(Tensor grad_output, Tensor input, Tensor grid, int " \
                "interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> "        \
                "(Tensor, Tensor)",                                                                         \
                cpu_float_dtypes, run_backward)

const tn_kernel_row cpu_grid_sample_rows[] = {GRID_ROWS("2"), GRID_ROWS("3")};
const uint32_t cpu_grid_sample_row_count = CPU_ROW_COUNT(cpu_grid_sample_rows);
