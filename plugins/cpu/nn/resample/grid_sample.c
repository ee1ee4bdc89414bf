/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of grid_sampler in two and three dimensions and their gradients. */
#include "grid_sample.h"
#include "nn/contiguous.h"
#include "nn/tables.h"
#include <string.h>

typedef struct sample_job {
    const tn_call *call;
    const tni_grid_sample_kernels *kernels;
    tni_grid_sample s;
    int32_t status;
} sample_job;

/* Operands of a call, row-major. */
enum { INPUT, GRID, GRAD, Y, GRID_GRAD, OPERANDS };

static void forward_range(void *context, int64_t begin, int64_t end)
{
    const sample_job *job = context;
    job->kernels->forward(&job->s, begin, end);
}

static void backward_range(void *context, int64_t begin, int64_t end)
{
    sample_job *job = context;
    int64_t bytes = job->s.channels * job->s.in[0] * job->s.in[1] * job->s.in[2] * job->kernels->acc_bytes;
    void *sums = tni_scratch(job->call, bytes);
    if (!sums)
        job->status = TN_E_OUT_OF_MEMORY;
    else
        job->kernels->backward(&job->s, begin, end, sums);
    tni_scratch_free(job->call, sums, bytes);
}

static void set_shape(tni_grid_sample *s, const tensor *x, const tensor *grid)
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

/* interpolation_mode, padding_mode and align_corners stand at `options`. */
static int32_t run(const tn_call *call, const tensor *const operands[OPERANDS], uint32_t options, bool back)
{
    sample_job job = {.call = call, .kernels = tni_grid_samples_of(operands[INPUT]->dtype)};
    tni_dense dense[OPERANDS];
    int32_t status = TN_OK;
    memset(dense, 0, sizeof(dense));
    for (int i = 0; i < OPERANDS && status == TN_OK; i++)
        status = i < Y ? tni_dense_read(call, operands[i], &dense[i])
                       : tni_dense_write(call, operands[i], &dense[i]);
    set_shape(&job.s, operands[INPUT], operands[GRID]);
    job.s.interpolation = arg_int(call, options);
    job.s.padding = arg_int(call, options + 1);
    job.s.align = arg_int(call, options + 2);
    if (status == TN_OK) {
        int64_t positions = job.s.out[0] * job.s.out[1] * job.s.out[2];
        job.s.x = dense[INPUT].data;
        job.s.grid = dense[GRID].data;
        job.s.grad = dense[GRAD].data;
        job.s.y = dense[Y].data;
        job.s.grid_grad = dense[GRID_GRAD].data;
        if (back)
            tni_for_ranges(call, job.s.batch, 1, backward_range, &job);
        else
            tni_for_ranges(call, job.s.batch * positions, grain_for(8192, job.s.channels * 8), forward_range,
                           &job);
        status = job.status;
    }
    for (int i = 0; i < OPERANDS; i++) tni_dense_finish(&dense[i], i >= Y && status == TN_OK);
    return status;
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tensor *operands[OPERANDS] = {
        [INPUT] = arg_tensor(call, 0), [GRID] = arg_tensor(call, 1), [Y] = out_tensor(call, 0)};
    return run(call, operands, 2, false);
}

static int32_t run_backward(void *self, const tn_call *call)
{
    const tensor *operands[OPERANDS] = {[INPUT] = arg_tensor(call, 1),
                                        [GRID] = arg_tensor(call, 2),
                                        [GRAD] = arg_tensor(call, 0),
                                        [Y] = arg_mask(call, 6, 0) ? out_tensor(call, 0) : NULL,
                                        [GRID_GRAD] = arg_mask(call, 6, 1) ? out_tensor(call, 1) : NULL};
    return run(call, operands, 3, true);
}

static const tn_dtype floats[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, 0};

#define ROWS(dims)                                                                                      \
    {.size = sizeof(tn_kernel_row),                                                                     \
     .strides = TN_STRIDES_ANY,                                                                         \
     .schema = "aten::grid_sampler_" dims "d(Tensor input, Tensor grid, int interpolation_mode, int "   \
               "padding_mode, bool align_corners) -> Tensor",                                           \
     .dtypes = floats,                                                                                  \
     .run = run_forward},                                                                               \
    {                                                                                                   \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY,                                       \
        .schema =                                                                                       \
            "aten::grid_sampler_" dims "d_backward(Tensor grad_output, Tensor input, Tensor grid, int " \
            "interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> "        \
            "(Tensor, Tensor)",                                                                         \
        .dtypes = floats, .run = run_backward                                                           \
    }

const tn_kernel_row cpu_grid_sample_rows[] = {ROWS("2"), ROWS("3")};
const uint32_t cpu_grid_sample_row_count = TNI_ROW_COUNT(cpu_grid_sample_rows);
