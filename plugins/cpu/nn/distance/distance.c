/* SPDX-License-Identifier: Apache-2.0 */
/* cdist and pdist: batches of sets of rows, broadcast against each other. */
#include "kernel_lists.h"
#include "distance.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"

CPU_KERNEL_TABLE(static cpu_kernel_table distance_table, CPU_DISTANCE_LISTS, cpu_distance_kernels);

enum { A, B, GRAD, DISTANCE, OUT, OPERANDS };

typedef struct distance_job {
    const cpu_distance_kernels *kernels;
    cpu_distance d;
    void *data[OPERANDS]; /* of the operands, contiguous */
    const tn_tensor_desc *operands[OPERANDS];
    const tn_tensor_desc *batch; /* has the broadcast batch dimensions */
    bool back;
} distance_job;

static int64_t batches_of(const tn_tensor_desc *t)
{
    return t->rank > 2 ? cpu_span(t, 0, t->rank - 2) : 1;
}

/* Address of one operand's matrix for a batch; dimensions of size 1 are broadcast. */
static void *matrix(const distance_job *job, int which, int64_t batch)
{
    const tn_tensor_desc *t = job->operands[which], *all = job->batch;
    int64_t at = 0, step = 1, rest = batch;
    if (!t) return NULL;
    for (uint32_t back = 2; back < all->rank; back++) {
        int64_t size = all->sizes[all->rank - 1 - back], index = rest % size;
        int64_t own = back < t->rank ? t->sizes[t->rank - 1 - back] : 1;
        rest /= size;
        if (own != 1) at += index * step;
        step *= own;
    }
    return (char *)job->data[which] +
           at * t->sizes[t->rank - 1] * t->sizes[t->rank - 2] * tn_dtype_bytes(t->dtype);
}

static void run_rows(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const distance_job *job = user;
    for (int64_t row = begin; row < end; row++) {
        int64_t batch = row / job->d.a_rows, i = row % job->d.a_rows;
        cpu_distance d = job->d;
        if (!d.pairs) {
            d.a = matrix(job, A, batch);
            d.b = matrix(job, B, batch);
            d.grad = matrix(job, GRAD, batch);
            d.distance = matrix(job, DISTANCE, batch);
            d.out = matrix(job, OUT, batch);
        }
        if (job->back)
            job->kernels->backward(&d, i, i + 1);
        else
            job->kernels->forward(&d, i, i + 1);
    }
}

static int32_t run(const tn_call *call, distance_job *job)
{
    const tn_tensor_desc *a = job->operands[A], *b = job->operands[B], *out = job->operands[OUT];
    int32_t status;
    job->kernels = cpu_kernels_of(distance_table, a->dtype);
    job->d.a_rows = a->sizes[a->rank - 2];
    job->d.width = a->sizes[a->rank - 1];
    job->d.b_rows = b->sizes[b->rank - 2];
    status = cpu_contiguous_all(call, job->operands, OPERANDS, OUT, job->data);
    if (status == TN_OK && cpu_numel(out) > 0) {
        int64_t batches = job->d.pairs ? 1 : batches_of(job->batch);
        job->d.a = job->data[A];
        job->d.b = job->data[B];
        job->d.grad = job->data[GRAD];
        job->d.distance = job->data[DISTANCE];
        job->d.out = job->data[OUT];
        cpu_parallel_ranges(call, batches * job->d.a_rows,
                            grain_for(8192, job->d.b_rows * max_i64(1, job->d.width)), run_rows, job);
    }
    if (status == TN_OK) cpu_contiguous_finish(call, out, job->data[OUT]);
    return status;
}

/* Distances of the rows of argument 0 to those of argument b, or, in pairs, to the later ones of its own. */
static int32_t run_forward(const tn_call *call, uint32_t b, uint32_t p, bool pairs)
{
    distance_job job = {
        .operands = {[A] = tensor_arg(call, 0), [B] = tensor_arg(call, b), [OUT] = tensor_out(call, 0)},
        .d = {.p = float_arg(call, p), .pairs = pairs}};
    job.batch = job.operands[OUT];
    return run(call, &job);
}

static int32_t run_backward(const tn_call *call, uint32_t b, uint32_t p, bool pairs)
{
    distance_job job = {.operands = {[GRAD] = tensor_arg(call, 0),
                                     [A] = tensor_arg(call, 1),
                                     [B] = tensor_arg(call, b),
                                     [DISTANCE] = tensor_arg(call, p + 1),
                                     [OUT] = tensor_out(call, 0)},
                        .d = {.p = float_arg(call, p), .pairs = pairs},
                        .back = true};
    job.batch = job.operands[OUT];
    return run(call, &job);
}

static int32_t run_cdist(void *self, const tn_call *call)
{
    return run_forward(call, 1, 2, false);
}

static int32_t run_cdist_backward(void *self, const tn_call *call)
{
    return run_backward(call, 2, 3, false);
}

static int32_t run_pdist(void *self, const tn_call *call)
{
    return run_forward(call, 0, 1, true);
}

static int32_t run_pdist_backward(void *self, const tn_call *call)
{
    return run_backward(call, 1, 2, true);
}

const tn_kernel_row cpu_distance_rows[] = {
    CPU_ROW("aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor",
            cpu_float_dtypes, run_cdist),
    CPU_ROW("aten::_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor",
            cpu_float_dtypes, run_cdist_backward),
    CPU_ROW("aten::_pdist_forward(Tensor self, float p=2.) -> Tensor", cpu_float_dtypes, run_pdist),
    CPU_ROW("aten::_pdist_backward(Tensor grad, Tensor self, float p, Tensor pdist) -> Tensor",
            cpu_float_dtypes, run_pdist_backward),
};
const uint32_t cpu_distance_row_count = CPU_ROW_COUNT(cpu_distance_rows);
