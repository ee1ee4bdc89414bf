/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of nll_loss and nll_loss2d: targets are checked and made int64, sums are taken in double over
 * ranges that depend on the size alone.
 */
#include "nll_loss.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"
#include <string.h>

CPU_DECLARE_KERNELS(cpu_nll_kernels, cpu_nll_kernels, CPU_FLOATS)
static cpu_kernel_table nll_table = CPU_KERNEL_TABLE(cpu_nll_kernels, CPU_FLOATS);

enum { RANGE = 4096 };

typedef struct nll_job {
    const cpu_nll_kernels *kernels;
    cpu_nll s;
    double (*sums)[2]; /* one pair for each range */
    cpu_contiguous target, grad;
    int64_t *copy; /* of targets with another dtype */
    int64_t copy_bytes;
} nll_job;

/* Reads targets as int64 and refuses those that are no class. */
static int32_t open_targets(const tn_call *call, nll_job *job, const tn_tensor_desc *target)
{
    int64_t count = cpu_numel(target);
    int32_t status = cpu_contiguous_read(call, target, &job->target);
    if (status != TN_OK) return status;
    job->s.target = job->target.data;
    if (target->dtype == TN_UINT8) {
        job->copy_bytes = count * 8;
        job->copy = cpu_alloc(call, job->copy_bytes);
        if (!job->copy) return TN_E_OUT_OF_MEMORY;
        for (int64_t i = 0; i < count; i++) job->copy[i] = ((const uint8_t *)job->target.data)[i];
        job->s.target = job->copy;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t class = job->s.target[i];
        if (class != job->s.ignore && (class < 0 || class >= job->s.classes))
            return cpu_error(call, TN_E_INDEX, "Target %lld is out of bounds.", (long long)class);
    }
    return TN_OK;
}

/* self, target, weight, reduction and ignore_index stand at `first` and after. */
static int32_t open_job(const tn_call *call, uint32_t first, nll_job *job)
{
    const tn_tensor_desc *x = tensor_arg(call, first), *weight = tensor_arg(call, first + 2);
    bool batched = x->rank > 1;
    memset(job, 0, sizeof(*job));
    job->kernels = cpu_kernels_of(nll_table, x->dtype);
    job->s = (cpu_nll){.batch = batched ? x->sizes[0] : 1,
                       .classes = x->sizes[batched],
                       .inner = x->rank > 2 ? cpu_span(x, 2, x->rank) : 1,
                       .x_batch = batched ? x->strides[0] : 0,
                       .x_class = x->strides[batched],
                       .weight = weight ? weight->host : NULL,
                       .weight_step = weight ? weight->strides[0] : 0,
                       .reduction = int_arg(call, first + 3),
                       .ignore = int_arg(call, first + 4)};
    return open_targets(call, job, tensor_arg(call, first + 1));
}

static void close_job(const tn_call *call, nll_job *job)
{
    cpu_free(call, job->copy, job->copy_bytes);
    cpu_contiguous_finish(&job->target, false);
    cpu_contiguous_finish(&job->grad, false);
}

static void forward_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    nll_job *job = user;
    double *sums = job->sums[begin / RANGE];
    sums[0] = sums[1] = 0;
    job->kernels->forward(&job->s, begin, end, sums);
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tensor_arg(call, 0), *out = tensor_out(call, 0), *total = tensor_out(call, 1);
    nll_job job;
    cpu_contiguous dense;
    int32_t status = cpu_contiguous_read(call, x, &dense);
    if (status == TN_OK) status = open_job(call, 0, &job);
    if (status == TN_OK) {
        int64_t count = job.s.batch * job.s.inner, ranges = ceil_div(count, RANGE), bytes = (ranges + 1) * 16;
        double sums[2] = {0, 0};
        job.s.x = dense.data;
        job.s.x_inner = 1;
        job.s.x_class = job.s.inner;
        job.s.x_batch = job.s.classes * job.s.inner;
        job.s.out = out->host;
        job.sums = cpu_alloc(call, bytes);
        if (job.sums) {
            cpu_parallel_ranges(call, count, RANGE, forward_range, &job);
            for (int64_t i = 0; i < 2 * ranges; i++) sums[i % 2] += job.sums[i / 2][i % 2];
            job.kernels->finish(&job.s, sums, out->host, total ? total->host : NULL);
        } else {
            status = TN_E_OUT_OF_MEMORY;
        }
        cpu_free(call, job.sums, bytes);
        close_job(call, &job);
    }
    cpu_contiguous_finish(&dense, false);
    return status;
}

static void backward_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const nll_job *job = user;
    job->kernels->backward(&job->s, begin, end);
}

static int32_t run_backward(void *self, const tn_call *call)
{
    cpu_contiguous out = {0};
    nll_job job;
    int32_t status = open_job(call, 1, &job);
    if (status == TN_OK) status = cpu_contiguous_read(call, tensor_arg(call, 0), &job.grad);
    if (status == TN_OK) status = cpu_contiguous_write(call, tensor_out(call, 0), &out);
    if (status == TN_OK) {
        job.s.grad = job.grad.data;
        job.s.total_weight = tensor_arg(call, 6)->host;
        job.s.out = out.data;
        cpu_parallel_ranges(call, job.s.batch, grain_for(32768, job.s.classes * job.s.inner), backward_range,
                            &job);
    }
    cpu_contiguous_finish(&out, status == TN_OK);
    close_job(call, &job);
    return status;
}

const tn_kernel_row cpu_nll_loss_rows[] = {
    CPU_ROW("aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
            "ignore_index) -> (Tensor output, Tensor total_weight)",
            cpu_float_dtypes, run_forward),
    CPU_ROW("aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt "
            "ignore_index) -> (Tensor output, Tensor total_weight)",
            cpu_float_dtypes, run_forward),
    CPU_ROW("aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
            "reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
            cpu_float_dtypes, run_backward),
    CPU_ROW("aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int "
            "reduction, SymInt ignore_index, Tensor total_weight) -> Tensor",
            cpu_float_dtypes, run_backward),
};
const uint32_t cpu_nll_loss_row_count = CPU_ROW_COUNT(cpu_nll_loss_rows);
