/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer and group normalisation. Gradients of layer parameters are summed in a fixed number of parts of the
 * rows, so they do not depend on the number of threads.
 */
#include "kernel_lists.h"
#include "nn/contiguous.h"
#include "norm.h"
#include "support/kernel_table.h"
#include <float.h>
#include <string.h>

CPU_KERNEL_TABLE(static cpu_kernel_table layer_norm_table, CPU_LAYER_NORM_LISTS, cpu_layer_norm_kernels);

enum { ROW_PARTS = 16 };
/* Elements of the rows whose gradients are computed together. */
enum { ROW_STRETCH = 2048 };

/* Takes an array off the front of scratch memory. */
static void *take(char **memory, int64_t bytes)
{
    void *taken = *memory;
    *memory += round_up(bytes, 64);
    return taken;
}

typedef struct norm_job {
    const cpu_layer_norm_kernels *k;
    cpu_runs runs;
    char *weight_sums, *bias_sums; /* arrays of T; for layers ROW_PARTS arrays each */
    int64_t weights;               /* number of weights */
} norm_job;

CPU_RANGE(run_ranges, norm_job, job->k->forward(&job->runs, begin, end))
CPU_RANGE(run_backward_ranges, norm_job, job->k->backward(&job->runs, begin, end))
/* Gradients of parameters, and of the input if it is asked for: a few rows at a time, which stay in the cache. */
static void run_row_parts(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const norm_job *job = user;
    int64_t bytes = job->weights * job->k->acc_bytes;
    int64_t rows = job->runs.out ? max_i64(1, ROW_STRETCH / max_i64(1, job->runs.width)) : job->runs.count;
    for (int64_t part = begin; part < end; part++) {
        char *weight = job->weight_sums + part * bytes, *bias = job->bias_sums + part * bytes;
        int64_t stop = job->runs.count * (part + 1) / ROW_PARTS;
        memset(weight, 0, (size_t)bytes);
        memset(bias, 0, (size_t)bytes);
        for (int64_t row = job->runs.count * part / ROW_PARTS, last; row < stop; row = last) {
            last = min_i64(stop, row + rows);
            if (job->runs.out) job->k->backward(&job->runs, row, last);
            job->k->row_parameters(&job->runs, row, last, weight, bias);
        }
    }
}
static void run_channel_parameters(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const norm_job *job = user;
    for (int64_t c = begin; c < end; c++)
        job->k->channel_parameters(&job->runs, c, job->weight_sums, job->bias_sums);
}

/* Reads a tensor of any rank and strides as an array of T. */
static int32_t read_flat(const tn_call *call, const cpu_layer_norm_kernels *k, const tn_tensor_desc *t,
                         int64_t count, const void *to)
{
    tn_tensor_desc flat = *t;
    int32_t status = cpu_contiguous_read(call, t, &flat.host);
    flat.rank = 0;
    if (status == TN_OK) k->read(&flat, count, 0, (void *)to);
    return status;
}

/* Memory for parameters, statistics and sums; reads weight and bias. */
static int32_t open_job(const tn_call *call, norm_job *job, const tn_tensor_desc *weight,
                        const tn_tensor_desc *bias, int64_t parts)
{
    int64_t each = round_up(job->weights * job->k->acc_bytes, 64);
    int64_t statistics = round_up(job->runs.count * job->k->acc_bytes, 64);
    char *memory = cpu_scratch(call, (uint64_t)(2 * (each + statistics + each * parts)));
    int32_t status = TN_OK;
    if (!memory) return TN_E_OUT_OF_MEMORY;
    job->runs.mean = take(&memory, statistics);
    job->runs.rstd = take(&memory, statistics);
    if (weight) {
        job->runs.weight = take(&memory, each);
        status = read_flat(call, job->k, weight, job->weights, job->runs.weight);
    }
    if (bias && status == TN_OK) {
        job->runs.bias = take(&memory, each);
        status = read_flat(call, job->k, bias, job->weights, job->runs.bias);
    }
    job->weight_sums = take(&memory, each * parts);
    job->bias_sums = take(&memory, each * parts);
    return status;
}

/* Writes output 0, and the statistics to `mean` and `rstd`, which may be NULL. */
static int32_t run_forward(const tn_call *call, norm_job *job, const tn_tensor_desc *weight,
                           const tn_tensor_desc *bias, const tn_tensor_desc *mean, const tn_tensor_desc *rstd)
{
    void *x, *out;
    int64_t length = job->runs.segments * job->runs.width;
    int32_t status;
    status = cpu_contiguous_read(call, tensor_arg(call, 0), &x);
    if (status == TN_OK) status = cpu_contiguous_write(call, tensor_out(call, 0), &out);
    if (status == TN_OK) status = open_job(call, job, weight, bias, 0);
    if (status == TN_OK && job->runs.count > 0 && length > 0) {
        job->runs.x = x;
        job->runs.out = out;
        cpu_parallel_ranges(call, job->runs.count, grain_for(16384, length), run_ranges, job);
        if (mean) job->k->write(job->runs.mean, job->runs.count, mean);
        if (rstd) job->k->write(job->runs.rstd, job->runs.count, rstd);
    }
    if (status == TN_OK) cpu_contiguous_finish(call, tensor_out(call, 0), out);
    return status;
}

/*
 * Computes the gradient of the input if there is memory for it, and writes those of weight and bias to outputs 1 and 2 if
 * the mask at argument `mask` asks for them.
 */
static void write_gradients(const tn_call *call, norm_job *job, uint32_t mask)
{
    const tn_tensor_desc *outs[2] = {mask_arg(call, mask, 1) ? tensor_out(call, 1) : NULL,
                                     mask_arg(call, mask, 2) ? tensor_out(call, 2) : NULL};
    char *sums[2] = {job->weight_sums, job->bias_sums};
    int64_t bytes = job->weights * job->k->acc_bytes, length = job->runs.segments * job->runs.width;
    bool asked = outs[0] || outs[1], by_parts = asked && job->runs.by_element;
    if (length == 0) job->runs.out = NULL;
    if (job->runs.out && !by_parts)
        cpu_parallel_ranges(call, job->runs.count, grain_for(16384, length), run_backward_ranges, job);
    if (!asked) return;
    if (by_parts)
        cpu_parallel_ranges(call, ROW_PARTS, 1, run_row_parts, job);
    else
        cpu_parallel_ranges(call, job->weights, 1, run_channel_parameters, job);
    for (int i = 0; i < 2; i++) {
        for (int64_t part = 1; job->runs.by_element && part < ROW_PARTS; part++)
            job->k->add(sums[i], sums[i] + part * bytes, job->weights);
        if (outs[i]) job->k->write(sums[i], job->weights, outs[i]);
    }
}

static int32_t run_backward(const tn_call *call, norm_job *job, const tn_tensor_desc *mean,
                            const tn_tensor_desc *rstd, const tn_tensor_desc *weight, uint32_t mask)
{
    const tn_tensor_desc *to = mask_arg(call, mask, 0) ? tensor_out(call, 0) : NULL;
    void *grad, *x, *out;
    int32_t status = cpu_contiguous_read(call, tensor_arg(call, 0), &grad);
    if (status == TN_OK) status = cpu_contiguous_read(call, tensor_arg(call, 1), &x);
    if (status == TN_OK) status = cpu_contiguous_write(call, to, &out);
    if (status == TN_OK) status = open_job(call, job, weight, NULL, job->runs.by_element ? ROW_PARTS : 1);
    if (status == TN_OK && mean) status = read_flat(call, job->k, mean, job->runs.count, job->runs.mean);
    if (status == TN_OK && !mean) memset(job->runs.mean, 0, (size_t)(job->runs.count * job->k->acc_bytes));
    if (status == TN_OK) status = read_flat(call, job->k, rstd, job->runs.count, job->runs.rstd);
    if (status == TN_OK) {
        job->runs.x = x;
        job->runs.grad = grad;
        job->runs.out = out;
        write_gradients(call, job, mask);
        cpu_contiguous_finish(call, to, out);
    }
    return status;
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

/* The number of elements of normalized_shape, argument i. */
static int64_t width_of(const tn_call *call, uint32_t i)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < call->args[i].count; d++) n *= call->args[i].as.ints[d];
    return n;
}

static norm_job layer_job(const tn_call *call, const tn_tensor_desc *x, uint32_t shape)
{
    int64_t width = width_of(call, shape);
    return (norm_job){.k = cpu_kernels_of(layer_norm_table, x->dtype),
                      .weights = width,
                      .runs = {.count = width ? cpu_numel(x) / width : 0,
                               .segments = 1,
                               .width = width,
                               .groups = 1,
                               .by_element = true}};
}

/* With eps and the weight, which the bias follows, at these arguments. */
static int32_t run_norm(const tn_call *call, norm_job job, uint32_t eps, uint32_t weight)
{
    job.runs.eps = float_arg(call, eps);
    return run_forward(call, &job, tensor_arg(call, weight), tensor_arg(call, weight + 1),
                       tensor_out(call, 1), tensor_out(call, 2));
}

static int32_t run_layer_norm(void *self, const tn_call *call)
{
    return run_norm(call, layer_job(call, tensor_arg(call, 0), 1), 4, 2);
}

/* The machine epsilon of the dtype of the computation, without eps. */
static double eps_or_default(const tn_call *call, uint32_t i, tn_dtype dtype)
{
    if (!is_none_arg(call, i)) return float_arg(call, i);
    return dtype == TN_FLOAT64 ? DBL_EPSILON : FLT_EPSILON;
}

/* (input, normalized_shape, weight, eps) gives the result and rstd. */
static int32_t run_rms_norm(void *self, const tn_call *call)
{
    norm_job job = layer_job(call, tensor_arg(call, 0), 1);
    job.runs.about_zero = true;
    job.runs.eps = eps_or_default(call, 3, tensor_arg(call, 0)->dtype);
    return run_forward(call, &job, tensor_arg(call, 2), NULL, NULL, tensor_out(call, 1));
}

/* (grad_out, input, normalized_shape, rstd, weight, output_mask) gives the gradients of input and weight. */
static int32_t run_rms_norm_backward(void *self, const tn_call *call)
{
    norm_job job = layer_job(call, tensor_arg(call, 1), 2);
    job.runs.about_zero = true;
    return run_backward(call, &job, NULL, tensor_arg(call, 3), tensor_arg(call, 4), 5);
}

static int32_t run_layer_norm_backward(void *self, const tn_call *call)
{
    norm_job job = layer_job(call, tensor_arg(call, 1), 2);
    return run_backward(call, &job, tensor_arg(call, 3), tensor_arg(call, 4), tensor_arg(call, 5), 7);
}

/* N, C, HxW and group are the arguments from `first` on. */
static norm_job group_job(const tn_call *call, const tn_tensor_desc *x, uint32_t first)
{
    int64_t batch = int_arg(call, first), channels = int_arg(call, first + 1),
            groups = int_arg(call, first + 3);
    return (norm_job){.k = cpu_kernels_of(layer_norm_table, x->dtype),
                      .weights = channels,
                      .runs = {.count = batch * groups,
                               .segments = channels / groups,
                               .width = int_arg(call, first + 2),
                               .groups = groups}};
}

static int32_t run_group_norm(void *self, const tn_call *call)
{
    return run_norm(call, group_job(call, tensor_arg(call, 0), 3), 7, 1);
}

static int32_t run_group_norm_backward(void *self, const tn_call *call)
{
    norm_job job = group_job(call, tensor_arg(call, 1), 5);
    return run_backward(call, &job, tensor_arg(call, 2), tensor_arg(call, 3), tensor_arg(call, 4), 9);
}

const tn_kernel_row cpu_layer_norm_rows[] = {
    CPU_ROW("aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, "
            "float eps) -> (Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_layer_norm),
    CPU_ROW(
        "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor "
        "mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        cpu_float_dtypes, run_layer_norm_backward),
    CPU_ROW("aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> "
            "(Tensor, Tensor)",
            cpu_float_dtypes, run_rms_norm),
    CPU_ROW(
        "aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, "
        "Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
        cpu_float_dtypes, run_rms_norm_backward),
    CPU_ROW("aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt "
            "HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_group_norm),
    CPU_ROW(
        "aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? "
        "weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        cpu_float_dtypes, run_group_norm_backward),
};
const uint32_t cpu_layer_norm_row_count = CPU_ROW_COUNT(cpu_layer_norm_rows);
