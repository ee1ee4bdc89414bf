/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the softmax family: any dimension of row-major data, cut into lines or blocks of lines. */
#include "softmax.h"
#include "nn/contiguous.h"
#include "nn/tables.h"
#include <string.h>

typedef struct softmax_job {
    const tni_softmax_kernels *kernels;
    tni_softmax s;
    bool back;
} softmax_job;

static void run_lines(void *context, int64_t begin, int64_t end)
{
    const softmax_job *job = context;
    if (job->back)
        job->kernels->backward(&job->s, begin, end);
    else
        job->kernels->forward(&job->s, begin, end);
}

static void set_shape(tni_softmax *s, const tensor *x, int64_t dim)
{
    uint32_t d = (uint32_t)(dim < 0 ? dim + (int64_t)x->rank : dim);
    s->outer = x->rank ? tensor_span(x, 0, d) : 1;
    s->size = x->rank ? x->sizes[d] : 1;
    s->inner = x->rank ? tensor_span(x, d + 1, x->rank) : 1;
}

static int32_t run(const tn_call *call, softmax_job *job, const tensor *x, const tensor *y, int64_t dim)
{
    const tensor *out = out_tensor(call, 0);
    tni_dense dense_x, dense_y, dense_out;
    int32_t status = tni_dense_read(call, x, &dense_x);
    memset(&dense_out, 0, sizeof(dense_out));
    memset(&dense_y, 0, sizeof(dense_y));
    if (status == TN_OK) status = tni_dense_read(call, y, &dense_y);
    if (status == TN_OK) status = tni_dense_write(call, out, &dense_out);
    if (status == TN_OK && tensor_numel(out) > 0) {
        int64_t items;
        set_shape(&job->s, x, dim);
        job->kernels = tni_softmax_of(out->dtype);
        job->s.x = dense_x.data;
        job->s.y = dense_y.data;
        job->s.out = dense_out.data;
        items = job->s.inner == 1 ? job->s.outer : job->s.outer * ceil_div(job->s.inner, TNI_SOFTMAX_BLOCK);
        tni_for_ranges(call, items, grain_for(8192, job->s.size * min_i64(job->s.inner, TNI_SOFTMAX_BLOCK)),
                       run_lines, job);
    }
    tni_dense_finish(&dense_x, false);
    tni_dense_finish(&dense_y, false);
    tni_dense_finish(&dense_out, status == TN_OK);
    return status;
}

static int32_t run_softmax(void *self, const tn_call *call)
{
    softmax_job job = {.back = false, .s = {.logarithm = call->data != NULL}};
    return run(call, &job, arg_tensor(call, 0), NULL, arg_int(call, 1));
}

static int32_t run_softmax_backward(void *self, const tn_call *call)
{
    softmax_job job = {.back = true, .s = {.logarithm = call->data != NULL}};
    return run(call, &job, arg_tensor(call, 0), arg_tensor(call, 1), arg_int(call, 2));
}

static const tn_dtype floats[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, 0};
static const char logarithm[] = "log";

#define ROW(text, function, with)                                                                     \
    {                                                                                                 \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = (text), .dtypes = floats, \
        .run = (function), .data = (with)                                                             \
    }

const tn_kernel_row cpu_softmax_rows[] = {
    ROW("aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", run_softmax, NULL),
    ROW("aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", run_softmax, logarithm),
    ROW("aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
        "Tensor",
        run_softmax_backward, NULL),
    ROW("aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType "
        "input_dtype) -> "
        "Tensor",
        run_softmax_backward, logarithm),
};
const uint32_t cpu_softmax_row_count = TNI_ROW_COUNT(cpu_softmax_rows);
