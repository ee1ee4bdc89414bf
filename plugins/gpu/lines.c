/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax and layer normalisation along the last dimension, on processors. On GPUs the composites are better: their
 * kernels read neighbouring elements with neighbouring items.
 */
#include "gpu.h"

/* One kernel for each dtype. */
static gpu_job line_job(const tn_call *call, const gpu_nest *nest, uint32_t operand, const char *kernel)
{
    gpu_job job = gpu_job_of(call, GPU_FILE_LINES, 32, kernel);
    job.program.dtypes[0] = (uint8_t)nest->dtypes[operand];
    return job;
}

/* _softmax and _log_softmax(Tensor self, int dim, bool half_to_float); `data` is set for the logarithm. */
static int32_t softmax(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *out = gpu_tensor(call->outs[0]);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, out);
    gpu_nest_add(&nest, 1, in);
    if (!nest.numel) return TN_OK;
    nest.scalars[0] = nest.rank ? nest.sizes[0] : 1;
    nest.scalars[1] = nest.numel / nest.scalars[0];
    nest.scalars[2] = call->data != NULL;
    gpu_job job = line_job(call, &nest, 0, "softmax_lines");
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, in->allocation);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.scalars[1], GPU_HEAVY);
}

static const char *can_line(void *self, const tn_call *call)
{
    if (!gpu_device_of(call)->properties.is_processor) return "the composite is better on this device";
    return gpu_can_run(self, call);
}

static const char *can_softmax(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]);
    int64_t dim = tn_value_as_int(call->args[1]);
    if (dim != -1 && dim != (int64_t)in->rank - 1 && in->rank) return "the dimension is not the last one";
    if (tn_value_as_bool(call->args[2])) return "the result has another dtype";
    return can_line(self, call);
}

static int32_t is_absent(tn_value v)
{
    return v.tag != TN_TAG_TENSOR || !v.as.tensor;
}

/* native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) */
static int32_t layer_norm(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *outs[3];
    const tn_tensor_desc *weight = is_absent(call->args[2]) ? NULL : gpu_tensor(call->args[2]);
    const tn_tensor_desc *bias = is_absent(call->args[3]) ? NULL : gpu_tensor(call->args[3]);
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
        if (!is_absent(call->args[i]) && gpu_tensor(call->args[i])->dtype != dtype)
            return "weight and bias have another dtype";
    return can_line(self, call);
}

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16, 0};
static const int32_t logarithm = 1;

#define ROW(text, function, can, extra)                                                           \
    {                                                                                             \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_CONTIGUOUS, .schema = "aten::" text, \
        .dtypes = dtypes, .run = function, .can_run = can, .data = extra                          \
    }
static const tn_kernel_row rows[] = {
    ROW("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax, can_softmax, NULL),
    ROW("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax, can_softmax, &logarithm),
    ROW("native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
        "-> "
        "(Tensor, Tensor, Tensor)",
        layer_norm, can_layer_norm, NULL),
};
const gpu_rows gpu_line_rows = GPU_ROW_LIST(rows);
