/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nll_loss and nll_loss2d. Targets are checked and made int64; sums are double, over ranges that depend on
 * the size alone.
 */
#include "kernel_lists.h"
#include "nll_loss.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"
#include <string.h>

CPU_KERNEL_TABLE(static cpu_kernel_table nll_loss_table, CPU_NLL_LOSS_LISTS, cpu_nll_loss_kernels);

enum { RANGE = 4096 };

typedef struct nll_job {
    const cpu_nll_loss_kernels *kernels;
    cpu_nll s;
    double (*sums)[2]; /* one pair for each range */
} nll_job;

/* Reads targets as int64 and refuses those outside the classes. */
static int32_t open_targets(const tn_call *call, nll_job *job, const tn_tensor_desc *target)
{
    int64_t count = cpu_numel(target);
    void *targets;
    int32_t status = cpu_contiguous_read(call, target, &targets);
    if (status != TN_OK) return status;
    if (target->dtype == TN_UINT8) {
        int64_t *wide = cpu_scratch(call, (uint64_t)count * 8);
        if (!wide) return TN_E_OUT_OF_MEMORY;
        for (int64_t i = 0; i < count; i++) wide[i] = ((const uint8_t *)targets)[i];
        targets = wide;
    }
    job->s.target = targets;
    for (int64_t i = 0; i < count; i++) {
        int64_t class = job->s.target[i];
        if (class != job->s.ignore && (class < 0 || class >= job->s.classes))
            return cpu_error(call, TN_E_INDEX, "Target %lld is out of bounds: there are %lld classes",
                             (long long)class, (long long)job->s.classes);
    }
    return TN_OK;
}

/* self, target, weight, reduction and ignore_index are the arguments from `first` on. */
static int32_t open_job(const tn_call *call, uint32_t first, nll_job *job)
{
    const tn_tensor_desc *x = tensor_arg(call, first), *weight = tensor_arg(call, first + 2);
    bool batched = x->rank > 1;
    memset(job, 0, sizeof(*job));
    job->kernels = cpu_kernels_of(nll_loss_table, x->dtype);
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
    void *in;
    int32_t status = cpu_contiguous_read(call, x, &in);
    if (status == TN_OK) status = open_job(call, 0, &job);
    if (status == TN_OK) {
        int64_t count = job.s.batch * job.s.inner, ranges = ceil_div(count, RANGE);
        double sums[2] = {0, 0};
        job.s.x = in;
        job.s.x_inner = 1;
        job.s.x_class = job.s.inner;
        job.s.x_batch = job.s.classes * job.s.inner;
        job.s.out = out->host;
        job.sums = cpu_scratch(call, (uint64_t)(ranges + 1) * 16);
        if (!job.sums) return TN_E_OUT_OF_MEMORY;
        cpu_parallel_ranges(call, count, RANGE, forward_range, &job);
        for (int64_t i = 0; i < 2 * ranges; i++) sums[i % 2] += job.sums[i / 2][i % 2];
        job.kernels->finish(&job.s, sums, out->host, total ? total->host : NULL);
    }
    return status;
}

CPU_RANGE(backward_range, nll_job, job->kernels->backward(&job->s, begin, end))

static int32_t run_backward(void *self, const tn_call *call)
{
    void *grad, *out;
    nll_job job;
    int32_t status = open_job(call, 1, &job);
    if (status == TN_OK) status = cpu_contiguous_read(call, tensor_arg(call, 0), &grad);
    if (status == TN_OK) status = cpu_contiguous_write(call, tensor_out(call, 0), &out);
    if (status == TN_OK) {
        job.s.grad = grad;
        job.s.total_weight = tensor_arg(call, 6)->host;
        job.s.out = out;
        cpu_parallel_ranges(call, job.s.batch, grain_for(32768, job.s.classes * job.s.inner), backward_range,
                            &job);
        cpu_contiguous_finish(call, tensor_out(call, 0), out);
    }
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
