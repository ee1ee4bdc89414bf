/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by an index, and the table's gradient. */
#include "gpu.h"

/* The table has `rows` rows; `values` is what the rows of the index are: [index..., width]. `operation`: what a fault names. */
static gpu_nest describe(const tn_tensor_desc *values, const tn_tensor_desc *index, int64_t rows,
                         uint32_t operation)
{
    gpu_nest nest = {.numel = (uint32_t)gpu_numel(values),
                     .sizes = {(uint32_t)values->sizes[values->rank - 1]}};
    nest.offsets[2] = (int64_t)index->byte_offset;
    nest.dtypes[2] = (uint32_t)gpu_dtype(index->dtype);
    nest.scalars[0] = (uint64_t)rows;
    nest.scalars[2] = operation;
    return nest;
}

int32_t gpu_gather_rows(const tn_call *call, gpu_nest *nest, void *out, void *table, void *index)
{
    int32_t is_processor = (int32_t)gpu_device_of(call)->properties.is_processor;
    if (!nest->numel) return TN_OK;
    nest->opcode = gpu_bytes(gpu_tensor(call->args[0])->dtype);
    nest->scalars[1] = is_processor ? gpu_dense_run(gpu_device_of(call)) : 1;
    uint64_t pieces = (nest->sizes[0] + nest->scalars[1] - 1) / nest->scalars[1];
    uint64_t rows = nest->numel / nest->sizes[0], each = gpu_rows_each(nest->sizes[0], nest->scalars[1]);
    nest->values[0] = each;
    gpu_job job = gpu_job_of(call, GPU_FILE_MEMORY, 0, "gather_rows");
    gpu_give_memory(&job, out);
    gpu_give_memory(&job, table);
    gpu_give_memory(&job, index);
    gpu_give_faults(&job);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, (rows + each - 1) / each * pieces, is_processor ? GPU_HEAVY : GPU_LIGHT);
}

/* embedding(Tensor weight, Tensor indices, SymInt padding_idx, bool scale_grad_by_freq, bool sparse) */
static int32_t embedding(void *self, const tn_call *call)
{
    const tn_tensor_desc *table = gpu_tensor(call->args[0]), *index = gpu_tensor(call->args[1]);
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    gpu_nest nest = describe(out, index, table->sizes[0], GPU_BY_EMBEDDING);
    nest.sizes[1] = (uint32_t)gpu_numel(index);
    nest.offsets[0] = (int64_t)out->byte_offset;
    nest.offsets[1] = (int64_t)table->byte_offset;
    return gpu_gather_rows(call, &nest, out->allocation, table->allocation, index->allocation);
}

/*
 * Adds the rows' gradients to the sums in the order of the index (device/scatter.h), where that is worth it. `rows` is what
 * scatter_rows gets. 0 if it is not, else 1 and a status.
 */
static int32_t add_in_order(const tn_call *call, const gpu_nest *rows, void *sums, int32_t *out_status)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *index = gpu_tensor(call->args[1]);
    uint32_t width = rows->sizes[0], code = gpu_type(grad->dtype) == 64 ? GPU_F64 : GPU_F32;
    int64_t bytes = gpu_code_bytes(code), grad_bytes = gpu_bytes(grad->dtype);
    gpu_nest nest = {.numel = rows->numel,
                     .rank = 2,
                     .opcode = GPU_SUM,
                     .immediate = 8,
                     .dtypes = {code, rows->dtypes[2], rows->dtypes[1]},
                     .sizes = {rows->numel / width, width},
                     .strides = {{0, bytes}, {gpu_bytes(index->dtype)}, {width * grad_bytes, grad_bytes}},
                     .offsets = {rows->offsets[0], rows->offsets[2], rows->offsets[1]},
                     .values = {[3] = rows->scalars[3]},
                     .scalars = {width * (uint64_t)bytes, rows->scalars[0], rows->scalars[2]}};
    gpu_order order;
    *out_status = gpu_order_index(call, index, &nest, 0, &order);
    if (*out_status || !order.memory) return *out_status != TN_OK;
    gpu_job job = gpu_job_of(call, GPU_FILE_NUMBERS, gpu_type(grad->dtype), "scatter_combine_sorted");
    gpu_give_memory(&job, sums);
    gpu_give_memory(&job, index->allocation);
    gpu_give_memory(&job, grad->allocation);
    gpu_give_faults(&job);
    gpu_give_order(&job, &order);
    gpu_give(&job, &nest, sizeof nest);
    *out_status = gpu_launch(&job, nest.numel, GPU_LIGHT);
    return 1;
}

/* embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool by_freq) */
static int32_t embedding_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *index = gpu_tensor(call->args[1]);
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    gpu_device *d = gpu_device_of(call);
    gpu_nest nest = describe(grad, index, call->args[2].as.i, GPU_BY_EMBEDDING_BACKWARD);
    uint64_t zero = 0, bytes = gpu_numel(out) * (gpu_type(out->dtype) == 64 ? 8 : 4);
    gpu_contiguous sums;
    if (!bytes) return TN_OK;
    int32_t status = gpu_sums_begin(call, out, &sums);
    if (!status)
        status = gpu_the_driver.fill(d->handle, gpu_stream_of(call)->queue, sums.memory,
                                     (uint64_t)sums.offset, bytes, &zero, 4);
    if (status) return status;
    nest.offsets[0] = sums.offset;
    nest.offsets[1] = (int64_t)grad->byte_offset;
    nest.dtypes[1] = (uint32_t)gpu_dtype(grad->dtype);
    nest.scalars[1] = d->properties.is_processor ? (nest.sizes[0] + 7) / 8 : 1;
    if (d->properties.is_processor && nest.scalars[1] < 16) nest.scalars[1] = 16;
    nest.scalars[3] = (uint64_t)call->args[3].as.i;
    gpu_job job = gpu_job_of(call, GPU_FILE_NUMBERS, gpu_type(out->dtype), "scatter_rows");
    gpu_give_memory(&job, sums.memory);
    gpu_give_memory(&job, grad->allocation);
    gpu_give_memory(&job, index->allocation);
    gpu_give_faults(&job);
    gpu_give(&job, &nest, sizeof nest);
    if (nest.numel && !add_in_order(call, &nest, sums.memory, &status))
        status = gpu_launch(&job, (nest.sizes[0] + nest.scalars[1] - 1) / nest.scalars[1],
                            d->properties.is_processor);
    return status ? status : gpu_sums_end(call, &sums);
}

static const char *can_gather(void *self, const tn_call *call)
{
    if (gpu_tensor(call->args[0])->rank != 2) return "the weight is not a matrix";
    return gpu_can_move(self, call);
}

static const char *can_scatter(void *self, const tn_call *call)
{
    if (tn_value_as_bool(call->args[4])) return "gradients are scaled by frequency";
    if (!gpu_tensor(call->args[0])->rank) return "the gradient has no rows";
    if (gpu_tensor(call->args[0])->dtype != gpu_result(call, 0)->dtype)
        return "the gradient has another dtype";
    return gpu_can_run(self, call);
}

#define ROW(text, list, function, can) GPU_ROW(CONTIGUOUS, text, list, .run = function, .can_run = can)
static const tn_kernel_row rows[] = {
    ROW("embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
        "sparse=False) -> Tensor",
        NULL, embedding, can_gather),
    ROW("embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt "
        "padding_idx, bool "
        "scale_grad_by_freq) -> Tensor",
        gpu_float_dtypes, embedding_backward, can_scatter),
};
const gpu_rows gpu_embedding_rows = GPU_ROW_LIST(rows);
