/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of convolution and convolution_backward: from ATen's arguments to a geometry and passes, and the
 * choice of how a pass is computed. Half types are widened to float32 for the whole pass and rounded once.
 */
#include "conv.h"
#include "conv_columns.h"
#include "nn/contiguous.h"
#include "nn/product/gemm.h"

/* ---- Geometry ---------------------------------------------------------------------------------------- */

cpu_conv cpu_conv_geometry(const tn_call *call, uint32_t first, const tn_tensor_desc *x,
                           const tn_tensor_desc *w, const tn_tensor_desc *y)
{
    cpu_conv c = {.dtype = w->dtype,
                  .spatial = (int32_t)w->rank - 2,
                  .batch = x->sizes[0],
                  .groups = int_arg(call, first + 5),
                  .x_channels = x->sizes[1],
                  .y_channels = y->sizes[1]};
    for (int i = 0; i < 3; i++) {
        int k = i - (3 - c.spatial);
        bool there = k >= 0;
        c.x_size[i] = there ? x->sizes[k + 2] : 1;
        c.y_size[i] = there ? y->sizes[k + 2] : 1;
        c.kernel[i] = there ? w->sizes[k + 2] : 1;
        c.stride[i] = there ? list_arg(call, first, (uint32_t)k, 1) : 1;
        c.padding[i] = there ? list_arg(call, first + 1, (uint32_t)k, 0) : 0;
        c.dilation[i] = there ? list_arg(call, first + 2, (uint32_t)k, 1) : 1;
    }
    return c;
}

/* ---- Passes ------------------------------------------------------------------------------------------ */

/* The number of elements of an operand. */
static int64_t count_of(const cpu_conv *c, char what)
{
    if (what == 'x') return c->batch * c->x_channels * cpu_volume(c->x_size);
    if (what == 'y') return c->batch * c->y_channels * cpu_volume(c->y_size);
    return c->y_channels * (c->x_channels / c->groups) * cpu_volume(c->kernel);
}

/* True when no element of a float32 or float64 array is infinite or NaN. */
static bool all_finite(tn_dtype dtype, const void *data, int64_t count)
{
    double sum = 0; /* 0 times an element is 0 unless the element is infinite or NaN */
    if (dtype == TN_FLOAT32)
        for (int64_t i = 0; i < count; i++) sum += 0 * ((const float *)data)[i];
    else
        for (int64_t i = 0; i < count; i++) sum += 0 * ((const double *)data)[i];
    return sum == 0;
}

/* Images and kernels of one pixel: each pass is one product of matrices with a row for each image. */
static bool is_product(const cpu_conv *c)
{
    int64_t padding = c->padding[0] + c->padding[1] + c->padding[2];
    return c->groups == 1 && cpu_volume(c->x_size) == 1 && cpu_volume(c->y_size) == 1 &&
           cpu_volume(c->kernel) == 1 && padding == 0;
}

static int32_t run_product(const cpu_conv_pass *p)
{
    const cpu_conv *c = p->geometry;
    int64_t x = c->x_channels, y = c->y_channels;
    cpu_gemm g = {.m = c->batch, .bias = p->bias, .c = p->out, .alpha = {1, 0}};
    if (p->kind == CPU_CONV_FORWARD) {
        g.k = x, g.n = y;
        g.a = p->x, g.a_row = x, g.a_col = 1;
        g.b = p->w, g.b_row = 1, g.b_col = x;
    } else if (p->kind == CPU_CONV_DATA) {
        g.k = y, g.n = x;
        g.a = p->y, g.a_row = y, g.a_col = 1;
        g.b = p->w, g.b_row = x, g.b_col = 1;
    } else {
        g.m = y, g.k = c->batch, g.n = x;
        g.a = p->y, g.a_row = 1, g.a_col = y;
        g.b = p->x, g.b_row = x, g.b_col = 1;
    }
    g.c_row = g.n;
    return cpu_gemm_run(p->call, c->dtype, &g);
}

static int32_t run_full(const cpu_conv_pass *p)
{
    if (is_product(p->geometry)) return run_product(p);
    if (cpu_conv_depthwise_can(p->geometry)) return cpu_conv_depthwise(p);
    if (cpu_conv_direct_can(p->geometry, p->kind)) {
        int32_t status = cpu_conv_direct(p);
        if (status != TN_OK || p->kind != CPU_CONV_WEIGHTS) return status;
        if (all_finite(p->geometry->dtype, p->out, count_of(p->geometry, 'w'))) return TN_OK;
        /* Infinities times the zeros between rows gave NaN: recompute through columns. */
    }
    return cpu_conv_columns(p);
}

/* Widens an operand of half precision to float32 at *memory and advances *memory. */
static const void *widened(const cpu_conv *c, const void *from, int64_t count, float **memory)
{
    float *to = *memory;
    if (!from) return NULL;
    cpu_gemm_kernels_of(c->dtype)->widen(to, from, 0, 1, 1, count);
    *memory += count;
    return to;
}

static int32_t run_half(const cpu_conv_pass *p)
{
    const cpu_conv *c = p->geometry;
    int64_t x = count_of(c, 'x'), y = count_of(c, 'y'), w = count_of(c, 'w'),
            bias = max_i64(c->x_channels, c->y_channels);
    int64_t bytes = (x + y + w + bias) * (int64_t)sizeof(float);
    int64_t out = p->kind == CPU_CONV_FORWARD ? y : p->kind == CPU_CONV_DATA ? x : w;
    float *memory = cpu_scratch(p->call, (uint64_t)bytes), *next = memory;
    cpu_conv wide = *c;
    cpu_conv_pass pass = *p;
    int32_t status;
    if (!memory) return TN_E_OUT_OF_MEMORY;
    wide.dtype = TN_FLOAT32;
    pass.geometry = &wide;
    pass.x = widened(c, p->x, x, &next);
    pass.y = widened(c, p->y, y, &next);
    pass.w = widened(c, p->w, w, &next);
    pass.bias = widened(c, p->bias, p->kind == CPU_CONV_FORWARD ? c->y_channels : c->x_channels, &next);
    pass.out = next;
    status = run_full(&pass);
    if (status == TN_OK) cpu_gemm_kernels_of(c->dtype)->narrow(p->out, pass.out, out, (double[2]){0, 0});
    return status;
}

static int32_t run_pass(const cpu_conv_pass *p)
{
    return cpu_gemm_kernels_of(p->geometry->dtype)->widen ? run_half(p) : run_full(p);
}

/* Makes the operands contiguous, runs the pass and writes the result. Absent operands are NULL. */
static int32_t run_on(const tn_call *call, const cpu_conv *c, int32_t kind, const tn_tensor_desc *x,
                      const tn_tensor_desc *w, const tn_tensor_desc *y, const tn_tensor_desc *bias)
{
    void *data[4] = {NULL};
    const tn_tensor_desc *operands[4] = {x, w, y, bias};
    int out = kind == CPU_CONV_FORWARD ? 2 : kind == CPU_CONV_DATA ? 0 : 1;
    int32_t status = TN_OK;
    for (int i = 0; i < 4 && status == TN_OK; i++)
        status = i == out ? cpu_contiguous_write(call, operands[i], &data[i])
                          : cpu_contiguous_read(call, operands[i], &data[i]);
    if (status == TN_OK && cpu_numel(operands[out]) > 0) {
        cpu_conv_pass pass = {.call = call,
                              .geometry = c,
                              .kind = kind,
                              .x = out == 0 ? NULL : data[0],
                              .w = out == 1 ? NULL : data[1],
                              .y = out == 2 ? NULL : data[2],
                              .bias = data[3],
                              .out = data[out]};
        status = run_pass(&pass);
    }
    if (status == TN_OK) cpu_contiguous_finish(call, operands[out], data[out]);
    return status;
}

int32_t cpu_conv_run(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *w = tensor_arg(call, 1), *bias = tensor_arg(call, 2);
    const tn_tensor_desc *out = tensor_out(call, 0);
    bool transposed = int_arg(call, 6);
    const tn_tensor_desc *x = transposed ? out : in, *y = transposed ? in : out;
    cpu_conv c = cpu_conv_geometry(call, 3, x, w, y);
    return run_on(call, &c, transposed ? CPU_CONV_DATA : CPU_CONV_FORWARD, x, w, y, bias);
}

/* ---- Backward ---------------------------------------------------------------------------------------- */

typedef struct bias_job {
    const cpu_conv_columns_kernels *kernels;
    const void *y;
    int64_t batch, channels, volume;
    void *out;
} bias_job;

static void sum_channels(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const bias_job *job = user;
    for (int64_t c = begin; c < end; c++)
        job->kernels->sum_channel(job->y, job->batch, job->channels, c, job->volume, job->out);
}

int32_t cpu_conv_bias_gradient(const tn_call *call, const tn_tensor_desc *grad, const tn_tensor_desc *out)
{
    void *y;
    int32_t status = cpu_contiguous_read(call, grad, &y);
    if (status == TN_OK) {
        bias_job job = {.kernels = cpu_kernels_of(cpu_conv_columns_table, grad->dtype),
                        .y = y,
                        .batch = grad->sizes[0],
                        .channels = grad->sizes[1],
                        .volume = cpu_span(grad, 2, grad->rank),
                        .out = out->host};
        cpu_parallel_ranges(call, job.channels, grain_for(1 << 16, job.batch * job.volume), sum_channels,
                            &job);
    }
    return status;
}

int32_t cpu_conv_run_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = tensor_arg(call, 0), *in = tensor_arg(call, 1), *w = tensor_arg(call, 2);
    const tn_tensor_desc *out[3] = {tensor_out(call, 0), tensor_out(call, 1), tensor_out(call, 2)};
    bool transposed = int_arg(call, 7);
    cpu_conv c = cpu_conv_geometry(call, 4, transposed ? grad : in, w, transposed ? in : grad);
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < 3; i++)
        if (!mask_arg(call, 10, i)) out[i] = NULL;
    if (out[0] && transposed)
        status = run_on(call, &c, CPU_CONV_FORWARD, grad, w, out[0], NULL);
    else if (out[0])
        status = run_on(call, &c, CPU_CONV_DATA, out[0], w, grad, NULL);
    if (status == TN_OK && out[1])
        status = transposed ? run_on(call, &c, CPU_CONV_WEIGHTS, grad, out[1], in, NULL)
                            : run_on(call, &c, CPU_CONV_WEIGHTS, in, out[1], grad, NULL);
    if (status == TN_OK && out[2]) status = cpu_conv_bias_gradient(call, grad, out[2]);
    return status;
}

const tn_kernel_row cpu_conv_rows[] = {
    CPU_ROW("aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
            "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
            cpu_number_dtypes, cpu_conv_run),
    CPU_ROW("aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? "
            "bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
            "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
            cpu_number_dtypes, cpu_conv_run_backward),
};
const uint32_t cpu_conv_row_count = CPU_ROW_COUNT(cpu_conv_rows);
