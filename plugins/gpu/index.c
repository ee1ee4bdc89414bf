/* SPDX-License-Identifier: Apache-2.0 */
/* gather, scatter and nonzero. Positions out of range are found by the kernels and reported late. */
#include "gpu.h"

/* The nest's dimension that operators call `dim`. */
static uint32_t dim_of(const gpu_nest *nest, int64_t dim)
{
    return (uint32_t)(dim < 0 ? -1 - dim : (int64_t)nest->rank - 1 - dim);
}

/* A tensor without dimensions is a line of one element. */
static void at_least_a_line(gpu_nest *nest)
{
    if (nest->rank) return;
    nest->rank = 1;
    nest->sizes[0] = 1;
}

/* What kernels want of the tensor that the index goes into: scalars, and stride 0 in the nest. */
static void index_into(gpu_nest *nest, uint32_t operand, const tn_tensor_desc *t, uint32_t dim,
                       uint64_t operation)
{
    uint32_t from = t->rank - 1 - dim;
    nest->scalars[0] = t->rank ? (uint64_t)(t->strides[from] * gpu_bytes(t->dtype)) : 0;
    nest->scalars[1] = t->rank ? (uint64_t)t->sizes[from] : 1;
    nest->scalars[2] = operation;
    nest->strides[operand][dim] = 0;
}

/* gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) */
static int32_t gather(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *index = gpu_tensor(call->args[2]);
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, index);
    if (!nest.numel) return TN_OK;
    gpu_nest_add(&nest, 0, out);
    gpu_nest_add(&nest, 1, in);
    gpu_nest_add(&nest, 2, index);
    at_least_a_line(&nest);
    index_into(&nest, 1, in, dim_of(&nest, tn_value_as_int(call->args[1])), GPU_BY_GATHER);
    nest.opcode = gpu_bytes(in->dtype);
    gpu_job job = gpu_job_of(call, GPU_FILE_MEMORY, 0, "gather");
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, in->allocation);
    gpu_give_memory(&job, index->allocation);
    gpu_give_faults(&job);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

/* Exchanges dimension `dim` of the nest with the innermost one. */
static void to_front(gpu_nest *nest, uint32_t dim, uint32_t count)
{
    uint32_t size = nest->sizes[dim];
    nest->sizes[dim] = nest->sizes[0];
    nest->sizes[0] = size;
    for (uint32_t k = 0; k < count; k++) {
        int64_t stride = nest->strides[k][dim];
        nest->strides[k][dim] = nest->strides[k][0];
        nest->strides[k][0] = stride;
    }
}

/* scatter_(Tensor(a!) self, int dim, Tensor index, Tensor src | Scalar value); `data`: the reduction, or NULL. */
static int32_t scatter(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]), *index = gpu_tensor(call->args[2]);
    const tn_tensor_desc *source = call->args[3].tag == TN_TAG_TENSOR ? gpu_tensor(call->args[3]) : NULL;
    const uint32_t *reduction = call->data;
    void *filled = NULL;
    uint64_t filled_offset = 0;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, index);
    if (!nest.numel) return TN_OK;
    gpu_nest_add(&nest, 0, out);
    gpu_nest_add(&nest, 1, index);
    if (source) {
        /* The source may be larger than the index: its strides count, not its sizes. */
        gpu_nest_add(&nest, 2, source);
    } else {
        uint64_t bits[2];
        uint32_t bytes = gpu_bytes(out->dtype);
        int32_t status = gpu_workspace(call, bytes, &filled, &filled_offset);
        gpu_element_bits(out->dtype, call->args[3], bits);
        if (!status)
            status = gpu_the_driver.fill(gpu_device_of(call)->handle, gpu_stream_of(call)->queue, filled,
                                         filled_offset, bytes, bits, bytes);
        if (status) return status;
        nest.offsets[2] = (int64_t)filled_offset;
        nest.dtypes[2] = nest.dtypes[0];
    }
    at_least_a_line(&nest);
    uint32_t dim = dim_of(&nest, tn_value_as_int(call->args[1]));
    index_into(&nest, 0, out, dim, reduction ? GPU_BY_SCATTER_ADD : GPU_BY_SCATTER);
    to_front(&nest, dim, 3);
    nest.opcode = reduction ? *reduction : gpu_bytes(out->dtype);
    gpu_job job = reduction ? gpu_job_of(call, GPU_FILE_NUMBERS, gpu_type(out->dtype), "scatter_combine")
                            : gpu_job_of(call, GPU_FILE_MEMORY, 0, "scatter");
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, index->allocation);
    gpu_give_memory(&job, source ? source->allocation : filled);
    gpu_give_faults(&job);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel / nest.sizes[0], nest.sizes[0] >= 64 ? GPU_HEAVY : GPU_LIGHT);
}

/* nonzero(Tensor self): the host waits for the number of results. */
static int32_t nonzero(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]);
    gpu_device *d = gpu_device_of(call);
    void *counts, *queue = gpu_stream_of(call)->queue;
    uint64_t offset;
    int64_t sizes[2] = {0, in->rank}, first;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, in);
    nest.opcode = gpu_bytes(in->dtype);
    if (!nest.numel) return call->host->resize_output(call, 0, 2, sizes);
    uint64_t wanted = gpu_items_wanted(d), length = (nest.numel + wanted - 1) / wanted;
    if (length < 64) length = 64;
    int64_t parts = (int64_t)((nest.numel + length - 1) / length);
    nest.scalars[0] = length;
    nest.scalars[1] = (uint64_t)parts;
    int32_t status = gpu_workspace(call, (uint64_t)(parts + 1) * 8, &counts, &offset);
    if (status) return status;
    first = (int64_t)offset / 8;

    gpu_job count = gpu_job_of(call, GPU_FILE_MEMORY, 0, "nonzero_count");
    gpu_give_memory(&count, in->allocation);
    gpu_give_memory(&count, counts);
    gpu_give(&count, &first, sizeof first);
    gpu_give(&count, &nest, sizeof nest);
    status = gpu_launch(&count, (uint64_t)parts, GPU_HEAVY);
    gpu_job sum = gpu_job_of(call, GPU_FILE_MEMORY, 0, "nonzero_sum");
    gpu_give_memory(&sum, counts);
    gpu_give(&sum, &first, sizeof first);
    gpu_give(&sum, &parts, sizeof parts);
    if (!status) status = gpu_launch(&sum, 1, GPU_HEAVY);
    if (!status)
        status = gpu_the_driver.read(d->handle, queue, &sizes[0], counts, offset + (uint64_t)parts * 8, 8);
    if (!status) status = gpu_the_driver.queue_finish(d->handle, queue);
    if (!status) status = call->host->resize_output(call, 0, 2, sizes);
    if (status || !sizes[0] || !sizes[1]) return status;

    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    nest.offsets[1] = (int64_t)out->byte_offset;
    nest.scalars[2] = (uint64_t)out->strides[0] * 8;
    nest.scalars[3] = (uint64_t)out->strides[1] * 8;
    gpu_job write = gpu_job_of(call, GPU_FILE_MEMORY, 0, "nonzero_write");
    gpu_give_memory(&write, in->allocation);
    gpu_give_memory(&write, counts);
    gpu_give(&write, &first, sizeof first);
    gpu_give_memory(&write, out->allocation);
    gpu_give(&write, &nest, sizeof nest);
    return gpu_launch(&write, (uint64_t)parts, GPU_HEAVY);
}

static const uint32_t by_sum = GPU_SUM;

#define ROW(text, function, can, extra)                                                    \
    {                                                                                      \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = "aten::" text, \
        .dtypes = gpu_all_dtypes, .run = function, .can_run = can, .data = extra           \
    }
static const tn_kernel_row rows[] = {
    ROW("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather,
        gpu_can_move, NULL),
    ROW("scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", scatter,
        gpu_can_move, NULL),
    ROW("scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)", scatter,
        gpu_can_move, NULL),
    ROW("scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", scatter,
        gpu_can_run, &by_sum),
    ROW("nonzero(Tensor self) -> Tensor", nonzero, gpu_can_run, NULL),
};
const gpu_rows gpu_index_rows = GPU_ROW_LIST(rows);
