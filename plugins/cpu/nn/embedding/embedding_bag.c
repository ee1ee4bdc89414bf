/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of embedding_bag: bags from offsets, forward, and the gradients for the table and for the weights
 * of samples. What ATen leaves at zero for plain sums (sizes, rows of maxima) is zero here, too.
 */
#include "nn/contiguous.h"
#include "embedding.h"
#include "nn/tables.h"
#include <string.h>

typedef struct bag_job {
    const tni_embedding_kernels *kernels;
    tni_bags bags;
} bag_job;

static void forward_range(void *context, int64_t begin, int64_t end)
{
    const bag_job *job = context;
    job->kernels->forward(&job->bags, begin, end);
}

static void backward_weights_range(void *context, int64_t begin, int64_t end)
{
    const bag_job *job = context;
    job->kernels->backward_weights(&job->bags, begin, end);
}

/* Writes int64 values to an output of either index dtype. */
static void write_indices(const int64_t *from, const tensor *out)
{
    int64_t count = out ? tensor_numel(out) : 0;
    for (int64_t i = 0; i < count; i++) {
        if (out->dtype == TN_INT32)
            ((int32_t *)out->host)[i] = from ? (int32_t)from[i] : 0;
        else
            ((int64_t *)out->host)[i] = from ? from[i] : 0;
    }
}

/* Begins of the bags and the end of the last one. */
static int32_t make_starts(const tn_call *call, const tni_indices *offsets, int64_t bags, int64_t count,
                           int64_t *starts)
{
    for (int64_t b = 0; b < bags; b++) starts[b] = offsets->data[b];
    starts[bags] = count;
    if (offsets->count > 0 && offsets->data[0] != 0)
        return tni_fail(
            call, TN_E_ARGUMENT,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            "position 0. However, got %lld",
            (long long)offsets->data[0]);
    for (int64_t b = 0; b < bags; b++)
        if (starts[b] > starts[b + 1])
            return tni_fail(
                call, TN_E_ARGUMENT,
                "offsets[-1] can not be greater than input's length(%lld) but got offsets[-1] of %lld",
                (long long)count, (long long)starts[b]);
    return TN_OK;
}

/* The bag of each index, where it is asked for. */
static void write_bag_of(const tni_bags *b, int64_t bags, const tensor *out)
{
    if (!out || tensor_numel(out) != b->count) return;
    for (int64_t bag = 0; bag < bags; bag++) {
        for (int64_t i = b->starts[bag]; i < b->starts[bag + 1]; i++) {
            if (out->dtype == TN_INT32)
                ((int32_t *)out->host)[i] = (int32_t)bag;
            else
                ((int64_t *)out->host)[i] = bag;
        }
    }
}

/* Everything of a forward call that lives in scratch memory. */
typedef struct bag_memory {
    int64_t *starts, *sizes, *largest;
    int64_t bytes;
} bag_memory;
static int32_t open_memory(const tn_call *call, int64_t bags, int64_t maxima, bag_memory *out)
{
    out->bytes = (2 * (bags + 1) + maxima) * 8;
    out->starts = tni_scratch(call, out->bytes);
    if (!out->starts) return TN_E_OUT_OF_MEMORY;
    out->sizes = out->starts + bags + 1;
    out->largest = out->sizes + bags + 1;
    return TN_OK;
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
 * padding_idx) */
static int32_t forward_bags(const tn_call *call, bag_job *job, const tni_indices *offsets)
{
    const tensor *out = out_tensor(call, 0), *sizes = out_tensor(call, 2), *largest = out_tensor(call, 3);
    int64_t bags = out->sizes[0];
    bool max = job->bags.mode == TNI_BAG_MAX, sum = job->bags.mode == TNI_BAG_SUM;
    bag_memory memory = {0};
    int32_t status = open_memory(call, bags, max ? bags * job->bags.width : 0, &memory);
    if (status == TN_OK) status = make_starts(call, offsets, bags, job->bags.count, memory.starts);
    if (status == TN_OK) {
        job->bags.starts = memory.starts;
        job->bags.out_sizes = memory.sizes;
        job->bags.out_largest = memory.largest;
        tni_for_ranges(call, bags,
                       grain_for(16384, job->bags.width * max_i64(1, job->bags.count / max_i64(1, bags))),
                       forward_range, job);
        write_bag_of(&job->bags, bags, out_tensor(call, 1));
        memory.sizes[bags] = 0;
        write_indices(sum ? NULL : memory.sizes, sizes);
        write_indices(max ? memory.largest : sum ? NULL : memory.sizes, largest);
    }
    tni_scratch_free(call, memory.starts, memory.bytes);
    return status;
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tensor *table = arg_tensor(call, 0), *out = out_tensor(call, 0);
    tni_indices indices = {0}, offsets = {0};
    tni_dense dense, weights;
    int32_t status = tni_dense_read(call, table, &dense);
    memset(&weights, 0, sizeof(weights));
    if (status == TN_OK) status = tni_dense_read(call, arg_tensor(call, 6), &weights);
    if (status == TN_OK) status = tni_indices_open(call, arg_tensor(call, 1), table->sizes[0], &indices);
    if (status == TN_OK) status = tni_indices_open(call, arg_tensor(call, 2), -1, &offsets);
    if (status == TN_OK) {
        bag_job job = {.kernels = tni_embeddings_of(table->dtype),
                       .bags = {.rows = table->sizes[0],
                                .width = table->sizes[1],
                                .count = indices.count,
                                .indices = indices.data,
                                .padding = arg_int(call, 8),
                                .mode = (int32_t)arg_int(call, 4),
                                .table = dense.data,
                                .weights = weights.data,
                                .out = out->host}};
        status = forward_bags(call, &job, &offsets);
    }
    tni_indices_close(&offsets);
    tni_indices_close(&indices);
    tni_dense_finish(&weights, false);
    tni_dense_finish(&dense, false);
    return status;
}

/* ---- Gradients --------------------------------------------------------------------------------------- */

/* The index tensors of a backward call. */
enum { INDICES, BAG_OF, SIZES, LARGEST, INDEX_TENSORS };

/* (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
 * per_sample_weights, padding_idx) */
static int32_t run_dense_backward(void *self, const tn_call *call)
{
    const tensor *grad = arg_tensor(call, 0), *out = out_tensor(call, 0);
    int64_t rows = arg_int(call, 5), *frequency = NULL;
    tni_indices lists[INDEX_TENSORS];
    tni_dense dense, weights;
    tni_bags bags = {.rows = rows,
                     .width = out->sizes[1],
                     .mode = (int32_t)arg_int(call, 7),
                     .padding = arg_int(call, 9),
                     .out = out->host};
    int32_t status = tni_dense_read(call, grad, &dense);
    memset(lists, 0, sizeof(lists));
    memset(&weights, 0, sizeof(weights));
    if (status == TN_OK) status = tni_dense_read(call, arg_tensor(call, 8), &weights);
    for (uint32_t i = 0; i < INDEX_TENSORS && status == TN_OK; i++)
        status = tni_indices_open(call, arg_tensor(call, i + 1), i == INDICES ? rows : -1, &lists[i]);
    if (status == TN_OK && bags.mode != TNI_BAG_MAX && lists[BAG_OF].count != lists[INDICES].count)
        status = tni_fail(call, TN_E_ARGUMENT, "offset2bag has to name the bag of each index");
    if (status == TN_OK && arg_int(call, 6)) {
        bags.frequency = frequency = tni_frequencies(call, &lists[INDICES], rows);
        if (!frequency) status = TN_E_OUT_OF_MEMORY;
    }
    if (status == TN_OK) {
        bags.count = bags.mode == TNI_BAG_MAX ? grad->sizes[0] : lists[INDICES].count;
        bags.indices = lists[INDICES].data;
        bags.bag_of = lists[BAG_OF].data;
        bags.sizes = lists[SIZES].data;
        bags.largest = lists[LARGEST].data;
        bags.weights = weights.data;
        bags.grad = dense.data;
        status = tni_table_gradient(call, out->dtype, &bags);
    }
    tni_scratch_free(call, frequency, rows * 8);
    for (int i = 0; i < INDEX_TENSORS; i++) tni_indices_close(&lists[i]);
    tni_dense_finish(&weights, false);
    tni_dense_finish(&dense, false);
    return status;
}

/* Fills the bag of each index from offsets, for callers that have none. */
static void bags_from_offsets(const tni_indices *offsets, int64_t count, int64_t *bag_of)
{
    int64_t bag = 0;
    for (int64_t i = 0; i < count; i++) {
        while (bag + 1 < offsets->count && offsets->data[bag + 1] <= i) bag++;
        bag_of[i] = bag;
    }
}

/* (grad, weight, indices, offsets, offset2bag, mode, padding_idx) */
static int32_t run_backward_weights(void *self, const tn_call *call)
{
    const tensor *grad = arg_tensor(call, 0), *table = arg_tensor(call, 1), *out = out_tensor(call, 0);
    tni_indices indices = {0}, offsets = {0}, bag_of = {0};
    tni_dense dense, rows;
    int64_t *made = NULL, bytes;
    int32_t status = tni_dense_read(call, grad, &dense);
    memset(&rows, 0, sizeof(rows));
    if (status == TN_OK) status = tni_dense_read(call, table, &rows);
    if (status == TN_OK) status = tni_indices_open(call, arg_tensor(call, 2), table->sizes[0], &indices);
    if (status == TN_OK) status = tni_indices_open(call, arg_tensor(call, 3), -1, &offsets);
    if (status == TN_OK) status = tni_indices_open(call, arg_tensor(call, 4), -1, &bag_of);
    bytes = indices.count * 8;
    if (status == TN_OK) {
        made = tni_scratch(call, bytes);
        if (!made) status = TN_E_OUT_OF_MEMORY;
    }
    if (status == TN_OK) {
        bag_job job = {.kernels = tni_embeddings_of(table->dtype),
                       .bags = {.width = table->sizes[1],
                                .indices = indices.data,
                                .bag_of = bag_of.count == indices.count ? bag_of.data : made,
                                .padding = arg_int(call, 6),
                                .table = rows.data,
                                .grad = dense.data,
                                .out = out->host}};
        bags_from_offsets(&offsets, indices.count, made);
        tni_for_ranges(call, indices.count, grain_for(16384, table->sizes[1]), backward_weights_range, &job);
    }
    tni_scratch_free(call, made, bytes);
    tni_indices_close(&bag_of);
    tni_indices_close(&offsets);
    tni_indices_close(&indices);
    tni_dense_finish(&rows, false);
    tni_dense_finish(&dense, false);
    return status;
}

static const tn_dtype floats[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, 0};

#define ROW(text, function)                                                                           \
    {                                                                                                 \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = (text), .dtypes = floats, \
        .run = (function)                                                                             \
    }

const tn_kernel_row cpu_embedding_bag_rows[] = {
    ROW("aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
        "int "
        "mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int "
        "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
        run_forward),
    ROW("aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool "
        "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool "
        "include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
        run_forward),
    ROW("aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor "
        "bag_size, Tensor "
        "maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, "
        "int "
        "padding_idx=-1) -> Tensor",
        run_dense_backward),
    ROW("aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor "
        "offsets, "
        "Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
        run_backward_weights),
};
const uint32_t cpu_embedding_bag_row_count = TNI_ROW_COUNT(cpu_embedding_bag_rows);
