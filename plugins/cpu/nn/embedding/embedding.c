/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of embedding: gathering table rows, their gradient, and the in-place limit on norms. Indices are
 * sorted by the row that they name, so that each row of a gradient is summed once, in their order.
 */
#include "embedding.h"
#include "nn/contiguous.h"
#include "nn/tables.h"
#include <string.h>

int32_t tni_indices_open(const tn_call *call, const tensor *t, int64_t limit, tni_indices *out)
{
    tni_dense dense;
    int64_t *to, outside = 0; /* negative as soon as one index or its distance from the end is */
    int32_t status;
    *out = (tni_indices){.call = call, .count = tensor_numel(t), .data = t->host};
    if (t->dtype == TN_INT32 || !tensor_is_contiguous(t)) {
        status = tni_dense_read(call, t, &dense);
        if (status != TN_OK) return status;
        to = out->memory = tni_scratch(call, out->count * 8);
        if (!to) {
            tni_dense_finish(&dense, false);
            return TN_E_OUT_OF_MEMORY;
        }
        if (t->dtype == TN_INT32)
            for (int64_t i = 0; i < out->count; i++) to[i] = ((const int32_t *)dense.data)[i];
        else
            memcpy(to, dense.data, (size_t)out->count * 8);
        tni_dense_finish(&dense, false);
        out->data = to;
    }
    if (limit < 0) return TN_OK;
    for (int64_t i = 0; i < out->count; i++) outside |= out->data[i] | (limit - 1 - out->data[i]);
    return outside >= 0 ? TN_OK : tni_fail(call, TN_E_INDEX, "index out of range in self");
}

void tni_indices_close(tni_indices *indices)
{
    if (indices->memory) tni_scratch_free(indices->call, indices->memory, indices->count * 8);
    *indices = (tni_indices){0};
}

/* ---- embedding --------------------------------------------------------------------------------------- */

typedef struct gather_job {
    const int64_t *indices;
    const tensor *table;
    char *out;
    int64_t width, bytes;
} gather_job;

static void gather_rows(void *context, int64_t begin, int64_t end)
{
    const gather_job *job = context;
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
    const tensor *table = arg_tensor(call, 0), *out = out_tensor(call, 0);
    gather_job job = {
        .table = table, .out = out->host, .width = table->sizes[1], .bytes = tn_dtype_bytes(table->dtype)};
    tni_indices indices;
    int32_t status = tni_indices_open(call, arg_tensor(call, 1), table->sizes[0], &indices);
    job.indices = indices.data;
    if (status == TN_OK) tni_for_ranges(call, indices.count, grain_for(16384, job.width), gather_rows, &job);
    tni_indices_close(&indices);
    return status;
}

/* ---- Gradient ---------------------------------------------------------------------------------------- */

typedef struct table_job {
    const tn_call *call;
    const tni_embedding_kernels *kernels;
    const tni_bags *bags;
    int32_t status;
} table_job;

static void table_rows(void *context, int64_t begin, int64_t end)
{
    const table_job *job = context;
    job->kernels->backward(job->bags, begin, end);
}

static void table_rows_max(void *context, int64_t begin, int64_t end)
{
    table_job *job = context;
    int64_t bytes = (end - begin) * job->bags->width * job->kernels->acc_bytes;
    void *sums = tni_scratch(job->call, bytes);
    if (!sums)
        job->status = TN_E_OUT_OF_MEMORY;
    else
        job->kernels->backward_max(job->bags, begin, end, sums);
    tni_scratch_free(job->call, sums, bytes);
}

/* Sorts the indices by row, by counting; those of a row stay in order. `starts` has rows + 2 elements. */
static void sort_indices(const tni_bags *bags, int64_t *starts, int64_t *order)
{
    int64_t *next = starts + 1;
    memset(starts, 0, (size_t)(bags->rows + 2) * 8);
    for (int64_t i = 0; i < bags->count; i++) starts[bags->indices[i] + 2]++;
    for (int64_t r = 1; r <= bags->rows; r++) next[r] += next[r - 1];
    for (int64_t i = 0; i < bags->count; i++) order[next[bags->indices[i]]++] = i;
}

int32_t tni_table_gradient(const tn_call *call, tn_dtype dtype, tni_bags *bags)
{
    table_job job = {.call = call, .kernels = tni_embeddings_of(dtype), .bags = bags};
    int64_t parts = max_i64(1, min_i64(16, bags->rows * bags->width / 16384));
    int64_t grain = max_i64(1, ceil_div(bags->rows, parts)), bytes = (bags->rows + 2 + bags->count) * 8,
            *starts;
    if (bags->mode == TNI_BAG_MAX) {
        tni_for_ranges(call, bags->rows, grain, table_rows_max, &job);
        return job.status;
    }
    starts = tni_scratch(call, bytes);
    if (!starts) return TN_E_OUT_OF_MEMORY;
    sort_indices(bags, starts, starts + bags->rows + 2);
    bags->row_starts = starts;
    bags->row_order = starts + bags->rows + 2;
    tni_for_ranges(call, bags->rows, grain, table_rows, &job);
    tni_scratch_free(call, starts, bytes);
    return TN_OK;
}

int64_t *tni_frequencies(const tn_call *call, const tni_indices *indices, int64_t rows)
{
    int64_t *frequency = tni_scratch(call, rows * 8);
    if (!frequency) return NULL;
    memset(frequency, 0, (size_t)(rows * 8));
    for (int64_t i = 0; i < indices->count; i++) frequency[indices->data[i]]++;
    return frequency;
}

/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq) */
static int32_t run_dense_backward(void *self, const tn_call *call)
{
    const tensor *grad = arg_tensor(call, 0), *out = out_tensor(call, 0);
    int64_t rows = arg_int(call, 2), *frequency = NULL;
    tni_bags bags = {.rows = rows, .width = out->sizes[1], .padding = arg_int(call, 3), .out = out->host};
    tni_indices indices = {0};
    tni_dense dense;
    int32_t status = tni_dense_read(call, grad, &dense);
    if (status == TN_OK) status = tni_indices_open(call, arg_tensor(call, 1), rows, &indices);
    if (status == TN_OK && arg_int(call, 4)) {
        bags.frequency = frequency = tni_frequencies(call, &indices, rows);
        if (!frequency) status = TN_E_OUT_OF_MEMORY;
    }
    if (status == TN_OK) {
        bags.count = indices.count;
        bags.indices = indices.data;
        bags.grad = dense.data;
        status = tni_table_gradient(call, out->dtype, &bags);
    }
    tni_scratch_free(call, frequency, rows * 8);
    tni_indices_close(&indices);
    tni_dense_finish(&dense, false);
    return status;
}

/* (self, indices, max_norm, norm_type): each row that occurs is treated once. */
static int32_t run_renorm(void *self, const tn_call *call)
{
    const tensor *table = arg_tensor(call, 0);
    const tni_embedding_kernels *kernels = tni_embeddings_of(table->dtype);
    int64_t rows = table->sizes[0], row_bytes = table->strides[0] * tn_dtype_bytes(table->dtype);
    uint8_t *seen = tni_scratch(call, rows);
    tni_indices indices = {0};
    int32_t status = seen ? tni_indices_open(call, arg_tensor(call, 1), rows, &indices) : TN_E_OUT_OF_MEMORY;
    if (seen) memset(seen, 0, (size_t)rows);
    for (int64_t i = 0; status == TN_OK && i < indices.count; i++) {
        int64_t row = indices.data[i];
        if (seen[row]) continue;
        seen[row] = 1;
        kernels->renorm((char *)table->host + row * row_bytes, table->sizes[1], table->strides[1],
                        arg_float(call, 2), arg_float(call, 3));
    }
    tni_indices_close(&indices);
    tni_scratch_free(call, seen, rows);
    return status;
}

static const tn_dtype floats[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, 0};

#define ROW(text, list, function)                                                                     \
    {                                                                                                 \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = (text), .dtypes = (list), \
        .run = (function)                                                                             \
    }

const tn_kernel_row cpu_embedding_rows[] = {
    ROW("aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool "
        "scale_grad_by_freq=False, bool "
        "sparse=False) -> Tensor",
        NULL, run_embedding),
    ROW("aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt "
        "padding_idx, "
        "bool scale_grad_by_freq) -> Tensor",
        floats, run_dense_backward),
    ROW("aten::embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> "
        "Tensor(a!)",
        floats, run_renorm),
};
const uint32_t cpu_embedding_row_count = TNI_ROW_COUNT(cpu_embedding_rows);
