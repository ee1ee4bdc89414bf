/* SPDX-License-Identifier: Apache-2.0 */
/* sort, always stable, a NaN as the largest; and nonzero, which answers at once. */
#include "kernels.h"

#include <stdlib.h>

/* ---- sort -------------------------------------------------------------------------------------------- */

typedef struct item {
    number value;
    int64_t position;
    int32_t descending;
    int32_t reserved;
} item;

/* NaN is larger than all; equal elements keep their order. */
static int compare_items(const void *left, const void *right)
{
    const item *a = left, *b = right;
    int nan_a = number_is_nan(a->value), nan_b = number_is_nan(b->value);
    int order = nan_a || nan_b ? nan_a - nan_b : number_compare(a->value, b->value);
    if (order) return a->descending ? -order : order;
    return (a->position > b->position) - (a->position < b->position);
}

static void sort_line(const tn_tensor_desc *t, const tn_call *call, item *items, int64_t size, int descending,
                      int64_t *along, const int64_t *index)
{
    for (*along = 0; *along < size; ++*along)
        items[*along] = (item){tensor_load(t, index), *along, descending, 0};
    qsort(items, (size_t)size, sizeof(items[0]), compare_items);
    for (*along = 0; *along < size; ++*along) {
        tensor_store(tensor_output(call, 0), index, items[*along].value);
        tensor_store(tensor_output(call, 1), index, number_int(items[*along].position));
    }
}

/* sort(self, dim, descending); sort.stable(self, stable, dim, descending). */
int32_t kernel_sort(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *t = tensor_argument(call, 0);
    uint32_t first = opcode == SORT_STABLE ? 2 : 1;
    int64_t dim = tensor_dim(t, tn_value_as_int(call->args[first]));
    int descending = tn_value_as_bool(call->args[first + 1]);
    int64_t index[TN_MAX_RANK] = {0}, sizes[TN_MAX_RANK] = {0}, size = tensor_size(t, dim);
    if (tensor_numel(t) == 0) return TN_OK;
    item *items = calloc((size_t)size, sizeof(*items));
    if (!items) return reference_fail(failure, TN_E_OUT_OF_MEMORY, "no host memory to sort a line");
    for (uint32_t d = 0; d < t->rank; d++) sizes[d] = (int64_t)d == dim ? 1 : t->sizes[d];
    do {
        sort_line(t, call, items, size, descending, &index[dim], index);
        index[dim] = 0;
    } while (tensor_next(t->rank, sizes, index));
    free(items);
    return TN_OK;
}

/* ---- nonzero ----------------------------------------------------------------------------------------- */

static int64_t count_nonzero(const tn_tensor_desc *t)
{
    int64_t index[TN_MAX_RANK] = {0}, count = 0;
    if (tensor_numel(t) == 0) return 0;
    do count += !number_is_zero(tensor_load(t, index));
    while (tensor_next(t->rank, t->sizes, index));
    return count;
}

/* Row i of the output is the index of the i-th element that is not zero. */
static int32_t write_indices(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *t = tensor_argument(call, 0), *out = tensor_output(call, 0);
    int64_t index[TN_MAX_RANK] = {0}, to[2] = {0};
    do {
        if (number_is_zero(tensor_load(t, index))) continue;
        for (to[1] = 0; to[1] < (int64_t)t->rank; to[1]++) tensor_store(out, to, number_int(index[to[1]]));
        to[0]++;
    } while (to[0] < out->sizes[0] && tensor_next(t->rank, t->sizes, index));
    return TN_OK;
}

static const reference_kernel writing = {"aten::nonzero", write_indices, 0, 0};

int32_t reference_nonzero(void *self, const tn_call *call)
{
    tn_call question = *call;
    question.n_outs = 0;
    int32_t status = reference_stream_interface.synchronize(self, call->device, call->stream);
    if (status) return status;
    reference_task *task = reference_work_create(call->device, &question, &writing, &status);
    if (!task) return status;
    const tn_tensor_desc *t = tensor_argument(reference_work_call(task), 0);
    int64_t sizes[2] = {count_nonzero(t), (int64_t)t->rank};
    reference_task_destroy(task);
    status = call->host->resize_output(call, 0, 2, sizes);
    if (status || sizes[0] == 0 || sizes[1] == 0) return status;
    task = reference_work_create(call->device, call, &writing, &status);
    return task ? reference_stream_push(call->stream, task) : status;
}
