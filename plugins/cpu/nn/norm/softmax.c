/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax family: any dimension of contiguous data, cut into lines or blocks of lines. */
#include "kernel_lists.h"
#include "softmax.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"
#include "walk/staging.h"

CPU_KERNEL_TABLE(static cpu_kernel_table softmax_table, CPU_SOFTMAX_LISTS, cpu_softmax_kernels);

typedef struct softmax_job {
    const cpu_softmax_kernels *kernels;
    cpu_softmax s;
    bool back;
} softmax_job;

CPU_RANGE(run_lines, softmax_job,
          (job->back ? job->kernels->backward : job->kernels->forward)(&job->s, begin, end))

static void set_shape(cpu_softmax *s, const tn_tensor_desc *x, int64_t dim)
{
    uint32_t d = (uint32_t)(dim < 0 ? dim + (int64_t)x->rank : dim);
    s->outer = x->rank ? cpu_span(x, 0, d) : 1;
    s->size = x->rank ? x->sizes[d] : 1;
    s->inner = x->rank ? cpu_span(x, d + 1, x->rank) : 1;
}

static int32_t run(const tn_call *call, softmax_job *job, const tn_tensor_desc *x, const tn_tensor_desc *y,
                   int64_t dim)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    void *in, *result, *to;
    int32_t status = cpu_contiguous_read(call, x, &in);
    if (status == TN_OK) status = cpu_contiguous_read(call, y, &result);
    if (status == TN_OK) status = cpu_contiguous_write(call, out, &to);
    if (status == TN_OK && cpu_numel(out) > 0) {
        int64_t items, bytes = cpu_numel(out) * tn_dtype_bytes(out->dtype);
        set_shape(&job->s, x, dim);
        job->kernels = cpu_kernels_of(softmax_table, out->dtype);
        job->s.x = in;
        job->s.y = result;
        job->s.out = to;
        /* Lines that end inside a cache line would write it twice. */
        job->s.streamed = cpu_streams(bytes, bytes) && job->s.size * tn_dtype_bytes(out->dtype) % 64 == 0;
        items = job->s.inner == 1 ? job->s.outer : job->s.outer * ceil_div(job->s.inner, CPU_SOFTMAX_BLOCK);
        cpu_parallel_ranges(call, items,
                            grain_for(8192, job->s.size * min_i64(job->s.inner, CPU_SOFTMAX_BLOCK)),
                            run_lines, job);
    }
    if (status == TN_OK) cpu_contiguous_finish(call, out, to);
    return status;
}

static int32_t run_softmax(void *self, const tn_call *call)
{
    softmax_job job = {.back = false, .s = {.logarithm = call->data != NULL}};
    return run(call, &job, tensor_arg(call, 0), NULL, int_arg(call, 1));
}

static int32_t run_softmax_backward(void *self, const tn_call *call)
{
    softmax_job job = {.back = true, .s = {.logarithm = call->data != NULL}};
    return run(call, &job, tensor_arg(call, 0), tensor_arg(call, 1), int_arg(call, 2));
}

static const char logarithm[] = "log";

const tn_kernel_row cpu_softmax_rows[] = {
    CPU_ROW("aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", cpu_float_dtypes,
            run_softmax),
    CPU_ROW("aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", cpu_float_dtypes,
            run_softmax, .data = logarithm),
    CPU_ROW("aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
            "input_dtype) -> Tensor",
            cpu_float_dtypes, run_softmax_backward),
    CPU_ROW("aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
            "input_dtype) -> Tensor",
            cpu_float_dtypes, run_softmax_backward, .data = logarithm),
};
const uint32_t cpu_softmax_row_count = CPU_ROW_COUNT(cpu_softmax_rows);
