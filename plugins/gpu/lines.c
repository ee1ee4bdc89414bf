/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, layer normalisation and their gradients along the last dimension, on processors. On GPUs the composites are better: their
 * kernels read neighbouring elements with neighbouring items.
 */
#include "gpu.h"

#define LANES 64 /* columns that an item takes; see device/lines.cl */

/* One kernel for each dtype. */
static gpu_job line_job(const tn_call *call, const gpu_nest *nest, uint32_t operand, const char *kernel)
{
    gpu_job job = gpu_job_of(call, GPU_FILE_LINES, 32, kernel);
    job.program.dtypes[0] = (uint8_t)nest->dtypes[operand];
    return job;
}

/* Softmax of `in`, or with `grad` its gradient from the result `in`; `data` is set for the logarithm. */
static int32_t run_softmax(const tn_call *call, const char *kernel, const tn_tensor_desc *in,
                           const tn_tensor_desc *grad)
{
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, out);
    gpu_nest_add(&nest, 1, in);
    if (grad) gpu_nest_add(&nest, 2, grad);
    if (!nest.numel) return TN_OK;
    nest.scalars[0] = nest.rank ? nest.sizes[0] : 1;
    nest.scalars[1] = nest.numel / nest.scalars[0];
    nest.scalars[2] = call->data != NULL;
    gpu_job job = line_job(call, &nest, 0, kernel);
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, in->allocation);
    if (grad) gpu_give_memory(&job, grad->allocation);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.scalars[1], GPU_HEAVY);
}

static int32_t is_last(int64_t dim, const tn_tensor_desc *t)
{
    return dim == -1 || dim == (int64_t)t->rank - 1 || !t->rank;
}

/* _softmax and _log_softmax(Tensor self, int dim, bool half_to_float) */
static int32_t softmax(void *self, const tn_call *call)
{
    return run_softmax(call, "softmax_lines", gpu_tensor(call->args[0]), NULL);
}

static const char *can_line(void *self, const tn_call *call)
{
    if (!gpu_device_of(call)->properties.is_processor) return "the composite is better on this device";
    return gpu_can_run(self, call);
}

static const char *can_softmax(void *self, const tn_call *call)
{
    if (!is_last(tn_value_as_int(call->args[1]), gpu_tensor(call->args[0])))
        return "the dimension is not the last one";
    if (tn_value_as_bool(call->args[2])) return "the result has another dtype";
    return can_line(self, call);
}

/* native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) */
static int32_t layer_norm(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *outs[3];
    const tn_tensor_desc *weight = gpu_argument_tensor(call, 2);
    const tn_tensor_desc *bias = gpu_argument_tensor(call, 3);
    int64_t size = 1, first_weight = weight ? (int64_t)weight->byte_offset : 0;
    int64_t first_bias = bias ? (int64_t)bias->byte_offset : 0;
    gpu_nest nest;
    for (uint32_t i = 0; i < 3; i++) outs[i] = gpu_tensor(call->outs[i]);
    for (uint32_t i = 0; i < call->args[1].count; i++) size *= call->args[1].as.ints[i];
    gpu_nest_of_tensor(&nest, outs[0]);
    if (!nest.numel) return TN_OK;
    gpu_nest_add(&nest, 1, outs[1]);
    gpu_nest_add(&nest, 2, outs[2]);
    gpu_nest_add(&nest, 3, in);
    nest.scalars[0] = (uint64_t)size;
    nest.scalars[1] = nest.numel / (uint64_t)size;
    nest.scalars[2] = gpu_number_bits(32, tn_number_of(call->args[4]));
    nest.scalars[3] = (weight ? 1u : 0u) | (bias ? 2u : 0u);
    gpu_job job = line_job(call, &nest, 3, "normalize_lines");
    for (uint32_t i = 0; i < 3; i++) gpu_give_memory(&job, outs[i]->allocation);
    gpu_give_memory(&job, in->allocation);
    gpu_give_memory(&job, weight ? weight->allocation : NULL);
    gpu_give_memory(&job, bias ? bias->allocation : NULL);
    gpu_give(&job, &first_weight, sizeof first_weight);
    gpu_give(&job, &first_bias, sizeof first_bias);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.scalars[1], GPU_HEAVY);
}

static const char *can_layer_norm(void *self, const tn_call *call)
{
    tn_dtype dtype = gpu_tensor(call->args[0])->dtype;
    for (uint32_t i = 2; i < 4; i++)
        if (gpu_argument_tensor(call, i) && gpu_argument_tensor(call, i)->dtype != dtype)
            return "weight and bias have another dtype";
    return can_line(self, call);
}

/* _softmax_backward_data and _log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType) */
static int32_t softmax_backward(void *self, const tn_call *call)
{
    return run_softmax(call, "softmax_lines_backward", gpu_tensor(call->args[1]), gpu_tensor(call->args[0]));
}

static const char *can_softmax_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *result = gpu_tensor(call->args[1]);
    if (!is_last(tn_value_as_int(call->args[2]), result)) return "the dimension is not the last one";
    if (grad->dtype != result->dtype || (tn_dtype)call->args[3].as.i != grad->dtype)
        return "the input has another dtype";
    return can_line(self, call);
}

/* The gradients of weight and bias: sums over parts of the lines, then over the parts. */
static int32_t column_gradients(const tn_call *call, gpu_nest nest, const tn_tensor_desc *const inputs[4],
                                const tn_tensor_desc *const outs[3])
{
    uint64_t offset, wanted = gpu_items_wanted(gpu_device_of(call)),
                     blocks = (nest.scalars[0] + LANES - 1) / LANES;
    uint64_t parts = (wanted + blocks - 1) / blocks, each = (nest.scalars[1] + parts - 1) / parts;
    uint32_t size = (uint32_t)nest.scalars[0], n_parts = (uint32_t)((nest.scalars[1] + each - 1) / each);
    void *sums;
    int32_t status = gpu_workspace(call, 2ull * n_parts * size * 4, &sums, &offset);
    int64_t first = (int64_t)offset / 4;
    nest.scalars[3] = each;
    gpu_job job = line_job(call, &nest, 3, "normalize_columns");
    gpu_give_memory(&job, sums);
    for (uint32_t k = 0; k < 4; k++) gpu_give_memory(&job, inputs[k]->allocation);
    gpu_give(&job, &first, sizeof first);
    gpu_give(&job, &nest, sizeof nest);
    if (!status) status = gpu_launch(&job, blocks * n_parts, GPU_HEAVY);
    for (uint32_t k = 1; k < 3 && !status; k++) {
        int64_t from = first + (k == 2 ? (int64_t)n_parts * size : 0);
        if (!outs[k]) continue;
        int64_t to = (int64_t)outs[k]->byte_offset;
        gpu_job add = line_job(call, &nest, 3, "add_parts");
        gpu_give_memory(&add, outs[k]->allocation);
        gpu_give_memory(&add, sums);
        gpu_give(&add, &to, sizeof to);
        gpu_give(&add, &from, sizeof from);
        gpu_give(&add, &size, sizeof size);
        gpu_give(&add, &n_parts, sizeof n_parts);
        status = gpu_launch(&add, size, GPU_LIGHT);
    }
    return status;
}

/* native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask) */
static int32_t layer_norm_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *in = gpu_tensor(call->args[1]);
    const tn_tensor_desc *mean = gpu_tensor(call->args[3]), *rstd = gpu_tensor(call->args[4]);
    const tn_tensor_desc *weight = gpu_argument_tensor(call, 5), *outs[3];
    const tn_tensor_desc *const inputs[4] = {mean, rstd, in, grad};
    uint64_t size = 1;
    gpu_nest nest;
    for (uint32_t i = 0; i < 3; i++) outs[i] = call->args[7].as.bools[i] ? gpu_result(call, i) : NULL;
    for (uint32_t i = 0; i < call->args[2].count; i++) size *= (uint64_t)call->args[2].as.ints[i];
    gpu_nest_of_tensor(&nest, in);
    gpu_nest_add(&nest, 1, mean);
    gpu_nest_add(&nest, 2, rstd);
    gpu_nest_add(&nest, 3, in);
    nest.scalars[0] = size;
    nest.scalars[1] = nest.numel / size;
    nest.scalars[2] = grad->byte_offset;
    int32_t status = outs[1] || outs[2] ? column_gradients(call, nest, inputs, outs) : TN_OK;
    if (status || !outs[0]) return status;
    nest.offsets[0] = (int64_t)outs[0]->byte_offset;
    nest.scalars[3] = weight ? weight->byte_offset : 0;
    nest.immediate = weight != NULL;
    gpu_job job = line_job(call, &nest, 3, "normalize_lines_backward");
    gpu_give_memory(&job, outs[0]->allocation);
    for (uint32_t k = 0; k < 4; k++) gpu_give_memory(&job, inputs[k]->allocation);
    gpu_give_memory(&job, weight ? weight->allocation : NULL);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.scalars[1], GPU_HEAVY);
}

static const char *can_layer_norm_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *in = gpu_tensor(call->args[1]);
    const tn_tensor_desc *weight = gpu_argument_tensor(call, 5), *bias = gpu_argument_tensor(call, 6);
    if (grad->dtype != in->dtype || (weight && weight->dtype != in->dtype) ||
        (bias && bias->dtype != in->dtype))
        return "weight, bias or gradient have another dtype";
    if (!gpu_numel(in)) return "the input is empty";
    return can_line(self, call);
}

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16, 0};
static const int32_t logarithm = 1;

#define ROW(text, function, can, extra) \
    GPU_ROW(CONTIGUOUS, text, dtypes, .run = function, .can_run = can, .data = extra)
static const tn_kernel_row rows[] = {
    ROW("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax, can_softmax, NULL),
    ROW("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax, can_softmax, &logarithm),
    ROW("native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
        "-> "
        "(Tensor, Tensor, Tensor)",
        layer_norm, can_layer_norm, NULL),
    ROW("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
        "Tensor",
        softmax_backward, can_softmax_backward, NULL),
    ROW("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
        "Tensor",
        softmax_backward, can_softmax_backward, &logarithm),
    ROW("native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, "
        "Tensor rstd, "
        "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        layer_norm_backward, can_layer_norm_backward, NULL),
};
const gpu_rows gpu_line_rows = GPU_ROW_LIST(rows);
