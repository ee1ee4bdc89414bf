/* SPDX-License-Identifier: Apache-2.0 */
/* searchsorted and bincount, on contiguous tensors. */
#include "index_walk.h"

#include <math.h>
#include <string.h>

/* Elements below which a further thread does not pay. */
#define SEARCH_GRAIN ((int64_t)2 * 1024)

/* ---- searchsorted ---------------------------------------------------------------------------------- */

typedef struct search_call {
    const void *sorted; /* rows of `length` elements of the hub dtype */
    const int64_t *sorter;
    int64_t length, per_row; /* values searched in each row; 0: all in one row */
    int32_t hub, slot;
    bool right, narrow;
    const char *values;
    void *out;
} search_call;

/* The first position whose element is not below x or, with `right`, is above x. */
static int64_t search_double(const double *row, const int64_t *sorter, int64_t n, double x, bool right)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        double y = row[sorter ? sorter[middle] : middle];
        if (right ? !(y > x) : !(y >= x))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
static int64_t search_int(const int64_t *row, const int64_t *sorter, int64_t n, int64_t x, bool right)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, y = row[sorter ? sorter[middle] : middle];
        if (right ? y <= x : y < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void search_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const search_call *c = user;
    int64_t bytes = cpu_slot_bytes[c->slot];
    for (int64_t i = begin; i < end; i++) {
        int64_t row = c->per_row ? i / c->per_row * c->length : 0, found;
        const int64_t *sorter = c->sorter ? c->sorter + row : NULL;
        union {
            double d;
            int64_t i;
        } x;
        cpu_convert(&x, c->hub, c->values + i * bytes, c->slot, 1);
        if (c->hub == CPU_F64)
            found = search_double((const double *)c->sorted + row, sorter, c->length, x.d, c->right);
        else
            found = search_int((const int64_t *)c->sorted + row, sorter, c->length, x.i, c->right);
        if (c->narrow)
            ((int32_t *)c->out)[i] = (int32_t)found;
        else
            ((int64_t *)c->out)[i] = found;
    }
}

/* aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32, bool right, str? side,
 * Tensor? sorter) */
static int32_t searchsorted(void *state, const tn_call *call)
{
    const tn_tensor_desc *sorted = tensor_arg(call, 0), *self = tensor_arg(call, 1),
                         *sorter = tensor_arg(call, 5);
    int64_t n = cpu_numel(self), m = cpu_numel(sorted);
    const char *side = call->args[4].tag == TN_TAG_STRING ? call->args[4].as.string : "";
    int32_t slot = cpu_slot(sorted->dtype);
    search_call c = {.length = sorted->sizes[sorted->rank - 1],
                     .slot = cpu_slot(self->dtype),
                     .right = bool_arg(call, 3) || strcmp(side, "right") == 0,
                     .narrow = tensor_out(call, 0)->dtype == TN_INT32,
                     .sorter = sorter ? sorter->host : NULL,
                     .values = self->host,
                     .out = tensor_out(call, 0)->host};
    if (n == 0) return TN_OK;
    c.hub = cpu_slot_is_float(slot) || cpu_slot_is_float(c.slot) ? CPU_F64 : CPU_I64;
    c.per_row = sorted->rank == 1 ? 0 : self->rank ? self->sizes[self->rank - 1] : 1;
    for (int64_t i = 0; c.sorter && i < m; i++)
        if (c.sorter[i] < 0 || c.sorter[i] >= c.length)
            return cpu_error(call, TN_E_INDEX, "torch.searchsorted(): sorter index out of range");
    void *keys = cpu_scratch(call, (uint64_t)m * 8);
    if (!keys) return TN_E_OUT_OF_MEMORY;
    cpu_convert(keys, c.hub, sorted->host, slot, m);
    c.sorted = keys;
    cpu_parallel_for(call, n, SEARCH_GRAIN, search_range, &c);
    return TN_OK;
}

/* ---- Counting -------------------------------------------------------------------------------------- */

/* aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor */
static int32_t bincount(void *state, const tn_call *call)
{
    const tn_tensor_desc *self = tensor_arg(call, 0), *weights = tensor_arg(call, 1);
    int64_t n = cpu_numel(self), bins = int_arg(call, 2);
    int64_t *bin = cpu_scratch(call, (uint64_t)n * 8);
    if (!bin) return TN_E_OUT_OF_MEMORY;
    cpu_convert(bin, CPU_I64, self->host, cpu_slot(self->dtype), n);
    for (int64_t i = 0; i < n; i++) {
        if (bin[i] < 0)
            return cpu_error(call, TN_E_ARGUMENT, "bincount only supports 1-d non-negative integral inputs.");
        if (bin[i] >= bins) bins = bin[i] + 1;
    }
    int32_t status = call->host->resize_output(call, 0, 1, &bins);
    if (status != TN_OK || bins == 0) return status;
    const tn_tensor_desc *out = tensor_out(call, 0);
    double *sums = cpu_scratch(call, (uint64_t)bins * 8);
    if (!sums) return TN_E_OUT_OF_MEMORY;
    for (int64_t i = 0; i < bins; i++) sums[i] = 0;
    double *weight = weights && n ? cpu_scratch(call, (uint64_t)n * 8) : NULL;
    if (weights && n && !weight) return TN_E_OUT_OF_MEMORY;
    if (weight) cpu_convert(weight, CPU_F64, weights->host, cpu_slot(weights->dtype), n);
    for (int64_t i = 0; i < n; i++) sums[bin[i]] += weight ? weight[i] : 1;
    cpu_convert(out->host, cpu_slot(out->dtype), sums, CPU_F64, bins);
    return TN_OK;
}

const tn_kernel_row cpu_search_rows[] = {
    CPU_CONTIGUOUS_ROW("aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool "
                       "out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
                       cpu_ordered_dtypes, searchsorted),
    CPU_CONTIGUOUS_ROW("aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
                       cpu_integer_dtypes, bincount),
};
const uint32_t cpu_search_row_count = CPU_ROW_COUNT(cpu_search_rows);
