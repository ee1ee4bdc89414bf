/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedding_bag: bags from offsets, forward, and the gradients for the table and the per-sample weights.
 * Outputs that ATen leaves at 0 in mode sum (sizes, rows of maxima) are 0 here too.
 */
#include <string.h>
#include "nn/contiguous.h"
#include "index/index_walk.h"
#include "embedding.h"

typedef struct bag_job {
    const cpu_embedding_kernels *kernels;
    cpu_bags bags;
} bag_job;

CPU_RANGE(forward_range, bag_job, job->kernels->forward(&job->bags, begin, end))

CPU_RANGE(backward_weights_range, bag_job, job->kernels->backward_weights(&job->bags, begin, end))

/* Writes int64 values to an output of either index dtype. */
static void write_indices(const int64_t *from, const tn_tensor_desc *out)
{
    int64_t count = out ? cpu_numel(out) : 0;
    for (int64_t i = 0; i < count; i++) {
        if (out->dtype == TN_INT32)
            ((int32_t *)out->host)[i] = from ? (int32_t)from[i] : 0;
        else
            ((int64_t *)out->host)[i] = from ? from[i] : 0;
    }
}

/* The starts of the bags and the end of the last one: the offset behind them, or without one the number of indices. */
static int32_t make_starts(const tn_call *call, const cpu_indices *offsets, int64_t bags, int64_t count,
                           int64_t *starts)
{
    for (int64_t b = 0; b < bags; b++) starts[b] = offsets->data[b];
    starts[bags] = offsets->count > bags ? offsets->data[bags] : count;
    if (offsets->count > 0 && offsets->data[0] != 0)
        return cpu_error(
            call, TN_E_ARGUMENT,
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            "position 0. However, got %lld",
            (long long)offsets->data[0]);
    for (int64_t b = 0; b <= bags; b++)
        if (starts[b] > (b < bags ? starts[b + 1] : count))
            return cpu_error(
                call, TN_E_ARGUMENT,
                "offsets[-1] can not be greater than input's length(%lld) but got offsets[-1] of %lld",
                (long long)count, (long long)starts[b]);
    return TN_OK;
}

/* The bag of each index, if it is asked for; indices behind the last bag get the number of bags. */
static void write_bag_of(const cpu_bags *b, int64_t bags, const tn_tensor_desc *out)
{
    if (!out || cpu_numel(out) != b->count) return;
    for (int64_t bag = 0; bag <= bags; bag++) {
        int64_t end = bag < bags ? b->starts[bag + 1] : b->count;
        for (int64_t i = b->starts[bag]; i < end; i++) {
            if (out->dtype == TN_INT32)
                ((int32_t *)out->host)[i] = (int32_t)bag;
            else
                ((int64_t *)out->host)[i] = bag;
        }
    }
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
 * padding_idx) */
static int32_t forward_bags(const tn_call *call, bag_job *job, const cpu_indices *offsets)
{
    const tn_tensor_desc *out = tensor_out(call, 0), *sizes = tensor_out(call, 2),
                         *largest = tensor_out(call, 3);
    int64_t bags = out->sizes[0];
    bool max = job->bags.mode == CPU_BAG_MAX, sum = job->bags.mode == CPU_BAG_SUM;
    int64_t maxima = max ? bags * job->bags.width : 0;
    int64_t *starts = cpu_scratch(call, (uint64_t)(2 * (bags + 1) + maxima) * 8), *used;
    int32_t status;
    if (!starts) return TN_E_OUT_OF_MEMORY;
    used = starts + bags + 1;
    status = make_starts(call, offsets, bags, job->bags.count, starts);
    if (status == TN_OK) {
        job->bags.starts = starts;
        job->bags.out_sizes = used;
        job->bags.out_largest = used + bags + 1;
        cpu_parallel_ranges(
            call, bags, grain_for(16384, job->bags.width * max_i64(1, job->bags.count / max_i64(1, bags))),
            forward_range, job);
        write_bag_of(&job->bags, bags, tensor_out(call, 1));
        used[bags] = 0;
        write_indices(sum ? NULL : used, sizes);
        write_indices(max ? job->bags.out_largest : sum ? NULL : used, largest);
    }
    return status;
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *table = tensor_arg(call, 0), *out = tensor_out(call, 0);
    cpu_indices indices = {0}, offsets = {0};
    void *data, *weights;
    int32_t status = cpu_contiguous_read(call, table, &data);
    if (status == TN_OK) status = cpu_contiguous_read(call, tensor_arg(call, 6), &weights);
    if (status == TN_OK) status = cpu_indices_open(call, tensor_arg(call, 1), table->sizes[0], &indices);
    if (status == TN_OK) status = cpu_indices_open(call, tensor_arg(call, 2), -1, &offsets);
    if (status == TN_OK) {
        bag_job job = {.kernels = cpu_kernels_of(cpu_embedding_table, table->dtype),
                       .bags = {.rows = table->sizes[0],
                                .width = table->sizes[1],
                                .count = indices.count,
                                .indices = indices.data,
                                .padding = int_arg(call, 8),
                                .mode = (int32_t)int_arg(call, 4),
                                .table = data,
                                .weights = weights,
                                .out = out->host}};
        status = forward_bags(call, &job, &offsets);
    }
    return status;
}

/* ---- Gradients --------------------------------------------------------------------------------------- */

/* Subtracts the indices behind the last bag from `count`: their bag is the number of bags. Checks the bags of the others. */
static int32_t count_in_bags(const tn_call *call, const int64_t *bag_of, int64_t bags, int64_t *count)
{
    while (*count > 0 && bag_of[*count - 1] == bags) --*count;
    if (cpu_indices_inside(bag_of, *count, 0, bags)) return TN_OK;
    return cpu_error(call, TN_E_INDEX, "index out of range in self");
}

/* The index tensors of a backward call. */
enum { INDICES, BAG_OF, SIZES, LARGEST, INDEX_TENSORS };

/* (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
 * per_sample_weights, padding_idx) */
static int32_t run_dense_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = tensor_arg(call, 0), *out = tensor_out(call, 0);
    int64_t rows = int_arg(call, 5);
    cpu_indices lists[INDEX_TENSORS];
    void *data, *weights;
    cpu_bags bags = {.rows = rows,
                     .width = out->sizes[1],
                     .mode = (int32_t)int_arg(call, 7),
                     .padding = int_arg(call, 9),
                     .out = out->host};
    int32_t status = cpu_contiguous_read(call, grad, &data);
    if (status == TN_OK) status = cpu_contiguous_read(call, tensor_arg(call, 8), &weights);
    bool max = bags.mode == CPU_BAG_MAX;
    const int64_t bounds[INDEX_TENSORS] = {rows, -1, -1, max ? rows : -1};
    for (uint32_t i = 0; i < INDEX_TENSORS && status == TN_OK; i++)
        status = cpu_indices_open(call, tensor_arg(call, i + 1), bounds[i], &lists[i]);
    if (status == TN_OK && !max && lists[BAG_OF].count != lists[INDICES].count)
        status = cpu_error(call, TN_E_ARGUMENT,
                           "argument 'offset2bag': must have one element for each "
                           "index (got %lld, expected %lld)",
                           (long long)lists[BAG_OF].count, (long long)lists[INDICES].count);
    if (status == TN_OK && !max)
        status = count_in_bags(call, lists[BAG_OF].data, grad->sizes[0], &lists[INDICES].count);
    if (status == TN_OK && !cpu_numel(out)) return TN_OK; /* of any number of rows */
    if (status == TN_OK && int_arg(call, 6)) {
        bags.frequency = cpu_frequencies(call, &lists[INDICES], rows);
        if (!bags.frequency) status = TN_E_OUT_OF_MEMORY;
    }
    if (status == TN_OK) {
        bags.count = max ? grad->sizes[0] : lists[INDICES].count;
        bags.indices = lists[INDICES].data;
        bags.bag_of = lists[BAG_OF].data;
        bags.sizes = lists[SIZES].data;
        bags.largest = lists[LARGEST].data;
        bags.weights = weights;
        bags.grad = data;
        status = cpu_table_gradient(call, out->dtype, &bags);
    }
    return status;
}

/* Computes the bag of each index from the offsets, for calls without offset2bag. */
static void bags_from_offsets(const cpu_indices *offsets, int64_t count, int64_t *bag_of)
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
    const tn_tensor_desc *grad = tensor_arg(call, 0), *table = tensor_arg(call, 1),
                         *out = tensor_out(call, 0);
    cpu_indices indices = {0}, offsets = {0}, bag_of = {0};
    void *data, *rows;
    int32_t status = cpu_contiguous_read(call, grad, &data);
    if (status == TN_OK) status = cpu_contiguous_read(call, table, &rows);
    if (status == TN_OK) status = cpu_indices_open(call, tensor_arg(call, 2), table->sizes[0], &indices);
    if (status == TN_OK) status = cpu_indices_open(call, tensor_arg(call, 3), -1, &offsets);
    if (status == TN_OK) status = cpu_indices_open(call, tensor_arg(call, 4), -1, &bag_of);
    if (status == TN_OK && bag_of.count != indices.count) {
        int64_t *made = cpu_scratch(call, (uint64_t)indices.count * 8);
        if (!made) return TN_E_OUT_OF_MEMORY;
        bags_from_offsets(&offsets, indices.count, made);
        bag_of.data = made;
    }
    int64_t count = indices.count;
    if (status == TN_OK) status = count_in_bags(call, bag_of.data, grad->sizes[0], &count);
    if (status == TN_OK) {
        int64_t bytes = tn_dtype_bytes(out->dtype);
        bag_job job = {.kernels = cpu_kernels_of(cpu_embedding_table, table->dtype),
                       .bags = {.width = table->sizes[1],
                                .indices = indices.data,
                                .bag_of = bag_of.data,
                                .padding = int_arg(call, 6),
                                .table = rows,
                                .grad = data,
                                .out = out->host}};
        cpu_parallel_ranges(call, count, grain_for(16384, table->sizes[1]), backward_weights_range, &job);
        if (indices.count > count)
            memset((char *)out->host + count * bytes, 0, (size_t)((indices.count - count) * bytes));
    }
    return status;
}

const tn_kernel_row cpu_embedding_bag_rows[] = {
    CPU_ROW("aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool "
            "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool "
            "include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_forward),
    CPU_ROW("aten::_embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool "
            "scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool "
            "include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_forward),
    CPU_ROW("aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor "
            "bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, "
            "Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
            cpu_float_dtypes, run_dense_backward),
    CPU_ROW("aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, "
            "Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
            cpu_float_dtypes, run_backward_weights),
};
const uint32_t cpu_embedding_bag_row_count = CPU_ROW_COUNT(cpu_embedding_bag_rows);
