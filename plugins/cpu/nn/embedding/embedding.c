/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedding: gathering rows of a table, their gradient, and the in-place limit on norms. Indices are sorted
 * by row, so each row of a gradient is summed once, in the order of the indices.
 */
#include "kernel_lists.h"
#include "embedding.h"
#include "index/index_walk.h"
#include "nn/contiguous.h"
#include <string.h>

CPU_KERNEL_TABLE(cpu_kernel_table cpu_embedding_table, CPU_EMBEDDING_LISTS, cpu_embedding_kernels);

int32_t cpu_indices_open(const tn_call *call, const tn_tensor_desc *t, int64_t limit, cpu_indices *out)
{
    void *data;
    int32_t status = cpu_contiguous_read(call, t, &data);
    if (status != TN_OK) return status;
    *out = (cpu_indices){.count = cpu_numel(t), .data = data};
    if (t->dtype == TN_INT32) {
        int64_t *wide = cpu_scratch(call, (uint64_t)out->count * 8);
        if (!wide) return TN_E_OUT_OF_MEMORY;
        for (int64_t i = 0; i < out->count; i++) wide[i] = ((const int32_t *)data)[i];
        out->data = wide;
    }
    if (limit < 0 || cpu_indices_inside(out->data, out->count, 0, limit)) return TN_OK;
    int64_t at = 0;
    while (out->data[at] >= 0 && out->data[at] < limit) at++;
    return cpu_error(call, TN_E_INDEX, "index out of range in self: got %lld, expected 0 to %lld",
                     (long long)out->data[at], (long long)limit - 1);
}

/* ---- embedding --------------------------------------------------------------------------------------- */

typedef struct gather_job {
    const int64_t *indices;
    const tn_tensor_desc *table;
    char *out;
    int64_t width, bytes;
} gather_job;

static void gather_rows(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const gather_job *job = user;
    for (int64_t i = begin; i < end; i++) {
        const char *from =
            (const char *)job->table->host + job->indices[i] * job->table->strides[0] * job->bytes;
        char *to = job->out + i * job->width * job->bytes;
        int64_t step = job->table->strides[1] * job->bytes;
        if (job->table->strides[1] == 1) {
            memcpy(to, from, (size_t)(job->width * job->bytes));
            continue;
        }
        for (int64_t j = 0; j < job->width; j++)
            memcpy(to + j * job->bytes, from + j * step, (size_t)job->bytes);
    }
}

static int32_t run_embedding(void *self, const tn_call *call)
{
    const tn_tensor_desc *table = tensor_arg(call, 0), *out = tensor_out(call, 0);
    gather_job job = {
        .table = table, .out = out->host, .width = table->sizes[1], .bytes = tn_dtype_bytes(table->dtype)};
    cpu_indices indices;
    int32_t status = cpu_indices_open(call, tensor_arg(call, 1), table->sizes[0], &indices);
    job.indices = indices.data;
    if (status == TN_OK && job.width)
        cpu_parallel_ranges(call, indices.count, grain_for(16384, job.width), gather_rows, &job);
    return status;
}

/* ---- Gradient ---------------------------------------------------------------------------------------- */

typedef struct table_job {
    const tn_call *call;
    const cpu_embedding_kernels *kernels;
    const cpu_bags *bags;
    int32_t status;
} table_job;

CPU_RANGE(table_rows, table_job, job->kernels->backward(job->bags, begin, end))

static void table_rows_max(void *user, int64_t begin, int64_t end, int32_t thread)
{
    table_job *job = user;
    int64_t bytes = (end - begin) * job->bags->width * job->kernels->acc_bytes;
    void *sums = cpu_alloc(job->call, bytes);
    if (!sums)
        job->status = TN_E_OUT_OF_MEMORY;
    else
        job->kernels->backward_max(job->bags, begin, end, sums);
    cpu_free(job->call, sums, bytes);
}

/* Stable counting sort of the indices by row; `starts` has rows + 2 elements. */
static void sort_indices(const cpu_bags *bags, int64_t *starts, int64_t *order)
{
    int64_t *next = starts + 1;
    memset(starts, 0, (size_t)(bags->rows + 2) * 8);
    for (int64_t i = 0; i < bags->count; i++) starts[bags->indices[i] + 2]++;
    for (int64_t r = 1; r <= bags->rows; r++) next[r] += next[r - 1];
    for (int64_t i = 0; i < bags->count; i++) order[next[bags->indices[i]]++] = i;
}

int32_t cpu_table_gradient(const tn_call *call, tn_dtype dtype, cpu_bags *bags)
{
    table_job job = {.call = call, .kernels = cpu_kernels_of(cpu_embedding_table, dtype), .bags = bags};
    int64_t parts = max_i64(1, min_i64(16, bags->rows * bags->width / 16384));
    int64_t grain = max_i64(1, ceil_div(bags->rows, parts)), bytes = (bags->rows + 2 + bags->count) * 8,
            *starts;
    if (bags->mode == CPU_BAG_MAX) {
        cpu_parallel_ranges(call, bags->rows, grain, table_rows_max, &job);
        return job.status;
    }
    starts = cpu_scratch(call, (uint64_t)bytes);
    if (!starts) return TN_E_OUT_OF_MEMORY;
    sort_indices(bags, starts, starts + bags->rows + 2);
    bags->row_starts = starts;
    bags->row_order = starts + bags->rows + 2;
    cpu_parallel_ranges(call, bags->rows, grain, table_rows, &job);
    return TN_OK;
}

int64_t *cpu_frequencies(const tn_call *call, const cpu_indices *indices, int64_t rows)
{
    int64_t *frequency = cpu_scratch(call, (uint64_t)rows * 8);
    if (!frequency) return NULL;
    memset(frequency, 0, (size_t)(rows * 8));
    for (int64_t i = 0; i < indices->count; i++) frequency[indices->data[i]]++;
    return frequency;
}

/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
static int32_t run_dense_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = tensor_arg(call, 0), *out = tensor_out(call, 0);
    int64_t rows = int_arg(call, 2);
    cpu_bags bags = {.rows = rows, .width = out->sizes[1], .padding = int_arg(call, 3), .out = out->host};
    cpu_indices indices = {0};
    void *data;
    int32_t status = cpu_contiguous_read(call, grad, &data);
    if (status == TN_OK) status = cpu_indices_open(call, tensor_arg(call, 1), rows, &indices);
    if (status == TN_OK && !cpu_numel(out)) return TN_OK; /* of any number of rows */
    if (status == TN_OK && int_arg(call, 4)) {
        bags.frequency = cpu_frequencies(call, &indices, rows);
        if (!bags.frequency) status = TN_E_OUT_OF_MEMORY;
    }
    if (status == TN_OK) {
        bags.count = indices.count;
        bags.indices = indices.data;
        bags.grad = data;
        status = cpu_table_gradient(call, out->dtype, &bags);
    }
    return status;
}

/* (self, indices, max_norm, norm_type): scales each row that occurs once. */
static int32_t run_renorm(void *self, const tn_call *call)
{
    const tn_tensor_desc *table = tensor_arg(call, 0);
    const cpu_embedding_kernels *kernels = cpu_kernels_of(cpu_embedding_table, table->dtype);
    int64_t rows = table->sizes[0], row_bytes = table->strides[0] * tn_dtype_bytes(table->dtype);
    uint8_t *seen = cpu_scratch(call, (uint64_t)rows);
    cpu_indices indices = {0};
    int32_t status = seen ? cpu_indices_open(call, tensor_arg(call, 1), rows, &indices) : TN_E_OUT_OF_MEMORY;
    if (seen) memset(seen, 0, (size_t)rows);
    for (int64_t i = 0; status == TN_OK && i < indices.count; i++) {
        int64_t row = indices.data[i];
        if (seen[row]) continue;
        seen[row] = 1;
        kernels->renorm((char *)table->host + row * row_bytes, table->sizes[1], table->strides[1],
                        float_arg(call, 2), float_arg(call, 3));
    }
    return status;
}

const tn_kernel_row cpu_embedding_rows[] = {
    CPU_ROW("aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool "
            "scale_grad_by_freq=False, bool sparse=False) -> Tensor",
            NULL, run_embedding),
    CPU_ROW("aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt "
            "padding_idx, bool scale_grad_by_freq) -> Tensor",
            cpu_float_dtypes, run_dense_backward),
    CPU_ROW("aten::embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> "
            "Tensor(a!)",
            cpu_float_dtypes, run_renorm),
};
const uint32_t cpu_embedding_row_count = CPU_ROW_COUNT(cpu_embedding_rows);
