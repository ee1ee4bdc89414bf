/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unique and its family, on contiguous tensors. Items (elements, or slices along a dimension) are sorted by
 * their keys, except for unique_consecutive; each run of equal items gives one result.
 */
#include "index/index_walk.h"
#include "sort_keys.h"

#include <string.h>

typedef struct items {
    const tn_tensor_desc *self;
    int64_t dim;    /* the dimension of slices, or -1 for elements */
    int64_t count;  /* of items */
    int64_t width;  /* keys of an item */
    uint64_t *keys; /* count * width, row by row */
    int64_t *order; /* items in sorted order */
    int64_t *room;  /* as many more */
} items;

/* Whether NaN differs from NaN, although their keys are equal. */
static bool is_nan_key(const items *t, uint64_t key)
{
    int32_t slot = cpu_slot(t->self->dtype);
    if (slot == CPU_F64) return key == UINT64_MAX;
    return cpu_slot_is_float(slot) && key == UINT32_MAX;
}

static int compare(const items *t, int64_t a, int64_t b)
{
    const uint64_t *x = t->keys + a * t->width, *y = t->keys + b * t->width;
    for (int64_t i = 0; i < t->width; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

static bool are_equal(const items *t, int64_t a, int64_t b)
{
    const uint64_t *x = t->keys + a * t->width;
    if (compare(t, a, b) != 0) return false;
    for (int64_t i = 0; i < t->width; i++)
        if (is_nan_key(t, x[i])) return false;
    return true;
}

/* Merge sort: merges runs of doubling length between the two arrays. */
static void merge_sort(items *t)
{
    int64_t *from = t->order, *to = t->room, n = t->count;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * run) {
            int64_t middle = begin + run < n ? begin + run : n, end = middle + run < n ? middle + run : n;
            int64_t a = begin, b = middle;
            for (int64_t i = begin; i < end; i++)
                to[i] = a < middle && (b >= end || compare(t, from[a], from[b]) <= 0) ? from[a++] : from[b++];
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != t->order) memcpy(t->order, from, (size_t)n * sizeof *from);
}

static int32_t make_items(const tn_call *call, items *t, int32_t sorted)
{
    const tn_tensor_desc *self = t->self;
    int64_t n = cpu_numel(self), inner = 1, bytes = tn_dtype_bytes(self->dtype);
    t->count = t->dim < 0 ? n : cpu_size(self, t->dim);
    t->width = t->dim < 0 ? 1 : t->count ? n / t->count : 0;
    for (int64_t d = t->dim + 1; t->dim >= 0 && d < self->rank; d++) inner *= self->sizes[d];
    cpu_keyed *keyed = cpu_scratch(call, (uint64_t)n * 2 * sizeof *keyed);
    t->keys = cpu_scratch(call, (uint64_t)n * 8);
    t->order = cpu_scratch(call, (uint64_t)t->count * 8);
    t->room = cpu_scratch(call, (uint64_t)t->count * 8);
    if (!keyed || !t->keys || !t->order || !t->room) return TN_E_OUT_OF_MEMORY;
    cpu_keys(keyed, self->host, cpu_slot(self->dtype), bytes, n, 0);
    for (int64_t i = 0; t->dim < 0 && i < n; i++) t->keys[i] = keyed[i].key;
    for (int64_t i = 0; t->dim >= 0 && i < n; i++) {
        int64_t item = i / inner % t->count, place = i / (inner * t->count) * inner + i % inner;
        t->keys[item * t->width + place] = keyed[i].key;
    }
    for (int64_t i = 0; i < t->count; i++) t->order[i] = i;
    if (t->dim < 0 && sorted) {
        cpu_sort_keyed(keyed, keyed + n, n);
        for (int64_t i = 0; i < n; i++) t->room[i] = keyed[i].position;
    }
    return TN_OK;
}

/* Writes item `from` of self as item `to` of the result. */
static void copy_item(const items *t, const tn_tensor_desc *out, int64_t from, int64_t to)
{
    int64_t bytes = tn_dtype_bytes(t->self->dtype), inner = 1, outer = 1;
    if (t->dim >= 0) {
        for (int64_t d = t->dim + 1; d < t->self->rank; d++) inner *= t->self->sizes[d];
        outer = t->width / inner;
    }
    int64_t block = inner * bytes, new_count = t->dim < 0 ? 1 : cpu_size(out, t->dim),
            count = t->dim < 0 ? 1 : t->count;
    for (int64_t o = 0; o < outer; o++)
        memcpy((char *)out->host + (o * new_count + to) * block,
               (const char *)t->self->host + (o * count + from) * block, (size_t)block);
}

/* Writes the values, then inverse and counts if asked for (`inverse_shape` NULL: the inverse is a vector). */
static int32_t write_results(const tn_call *call, items *t, int32_t inverse, int32_t counts,
                             const tn_tensor_desc *inverse_shape)
{
    int64_t *starts = t->room, found = 0, sizes[TN_MAX_RANK];
    for (int64_t i = 0; i < t->count; i++)
        if (i == 0 || !are_equal(t, t->order[i - 1], t->order[i])) starts[found++] = i;
    memcpy(sizes, t->self->sizes, t->self->rank * sizeof sizes[0]);
    sizes[t->dim < 0 ? 0 : t->dim] = found;
    uint32_t rank = t->dim < 0 || t->self->rank == 0 ? 1 : t->self->rank;
    int32_t status = call->host->resize_output(call, 0, rank, sizes);
    if (status == TN_OK && call->n_outs > 1 && inverse)
        status = call->host->resize_output(call, 1, inverse_shape ? inverse_shape->rank : 1,
                                           inverse_shape ? inverse_shape->sizes : &t->count);
    if (status == TN_OK && call->n_outs > 2 && counts) status = call->host->resize_output(call, 2, 1, &found);
    if (status != TN_OK) return status;
    const tn_tensor_desc *values = tensor_out(call, 0), *where = tensor_out(call, 1),
                         *times = tensor_out(call, 2);
    for (int64_t k = 0; k < found; k++) {
        int64_t end = k + 1 < found ? starts[k + 1] : t->count;
        copy_item(t, values, t->order[starts[k]], k);
        if (times && counts) ((int64_t *)times->host)[k] = end - starts[k];
        for (int64_t i = starts[k]; where && inverse && i < end; i++)
            ((int64_t *)where->host)[t->order[i]] = k;
    }
    return TN_OK;
}

static int32_t unique(const tn_call *call, int64_t dim, int32_t along, int32_t sorted, int32_t inverse,
                      int32_t counts)
{
    items t = {.self = tensor_arg(call, 0)};
    t.dim = along ? cpu_dim(t.self, dim) : -1;
    int32_t status = make_items(call, &t, sorted);
    if (status != TN_OK) return status;
    if (sorted && t.dim < 0)
        memcpy(t.order, t.room, (size_t)t.count * 8);
    else if (sorted)
        merge_sort(&t);
    return write_results(call, &t, inverse, counts, along ? NULL : t.self);
}

/* ---- Neighbours ---------------------------------------------------------------------------------------
 */

/* differs[i] = 1 if element i is not equal to the one before it; differs[0] = 1. */
static inline __attribute__((always_inline)) void mark(uint8_t *differs, const char *x, int64_t n,
                                                       size_t bytes)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t a = 0, b = 0;
        memcpy(&a, x + (i - 1) * (int64_t)bytes, bytes);
        memcpy(&b, x + i * (int64_t)bytes, bytes);
        differs[i] = a != b;
    }
}
static void mark_f32(uint8_t *restrict differs, const float *restrict x, int64_t n)
{
    for (int64_t i = 1; i < n; i++) differs[i] = x[i] != x[i - 1];
}
static void mark_f64(uint8_t *restrict differs, const double *restrict x, int64_t n)
{
    for (int64_t i = 1; i < n; i++) differs[i] = x[i] != x[i - 1];
}
/* Zeros of both signs are equal; patterns above infinity (NaN) differ from all. */
static void mark_half(uint8_t *restrict differs, const uint16_t *restrict x, int64_t n, int32_t infinity)
{
    for (int64_t i = 1; i < n; i++) {
        int32_t a = x[i - 1], b = x[i], nan = (b & 0x7fff) > infinity, zeros = ((a | b) & 0x7fff) == 0;
        differs[i] = (uint8_t)(nan | ((a != b) & !zeros));
    }
}
static void mark_neighbours(uint8_t *differs, const void *x, int64_t n, int32_t slot)
{
    differs[0] = 1;
    if (slot == CPU_F32)
        mark_f32(differs, x, n);
    else if (slot == CPU_F64)
        mark_f64(differs, x, n);
    else if (cpu_slot_is_half(slot))
        mark_half(differs, x, n, slot == CPU_F16 ? 0x7c00 : 0x7f80);
    else if (cpu_slot_bytes[slot] == 8)
        mark(differs, x, n, 8);
    else if (cpu_slot_bytes[slot] == 4)
        mark(differs, x, n, 4);
    else if (cpu_slot_bytes[slot] == 2)
        mark(differs, x, n, 2);
    else
        mark(differs, x, n, 1);
}

/* Backwards and without a branch: the first element of a run writes last. */
static inline __attribute__((always_inline)) void keep_first(char *to, const char *x, const uint8_t *differs,
                                                             int64_t n, int64_t found, size_t bytes)
{
    for (int64_t i = n - 1, k = found - 1; i >= 0; k -= differs[i--])
        memcpy(to + k * (int64_t)bytes, x + i * (int64_t)bytes, bytes);
}

/* unique_consecutive of elements. */
static int32_t run_lengths(const tn_call *call, int32_t inverse, int32_t counts)
{
    const tn_tensor_desc *self = tensor_arg(call, 0);
    int64_t n = cpu_numel(self), found = 0, bytes = tn_dtype_bytes(self->dtype);
    uint8_t *differs = cpu_scratch(call, (uint64_t)n);
    if (!differs) return TN_E_OUT_OF_MEMORY;
    if (n > 0) mark_neighbours(differs, self->host, n, cpu_slot(self->dtype));
    for (int64_t i = 0; i < n; i++) found += differs[i];
    int32_t status = call->host->resize_output(call, 0, 1, &found);
    if (status == TN_OK && call->n_outs > 1 && inverse)
        status = call->host->resize_output(call, 1, self->rank, self->sizes);
    if (status == TN_OK && call->n_outs > 2 && counts) status = call->host->resize_output(call, 2, 1, &found);
    if (status != TN_OK || n == 0) return status;
    char *to = tensor_out(call, 0)->host;
    if (bytes == 8)
        keep_first(to, self->host, differs, n, found, 8);
    else if (bytes == 4)
        keep_first(to, self->host, differs, n, found, 4);
    else if (bytes == 2)
        keep_first(to, self->host, differs, n, found, 2);
    else
        keep_first(to, self->host, differs, n, found, 1);
    if (call->n_outs > 1 && inverse) {
        int64_t *where = tensor_out(call, 1)->host;
        for (int64_t i = 0, k = -1; i < n; i++) where[i] = k += differs[i];
    }
    if (call->n_outs > 2 && counts) {
        int64_t *times = tensor_out(call, 2)->host;
        for (int64_t i = n - 1, k = found - 1, end = n; i >= 0; k -= differs[i--]) {
            times[k] = end - i;
            end = differs[i] ? i : end;
        }
    }
    return TN_OK;
}

/* ---- Rows --------------------------------------------------------------------------------------------
 */

/* aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) */
static int32_t unique_elements(void *state, const tn_call *call)
{
    return unique(call, 0, 0, 1, bool_arg(call, 2), 0);
}
/* aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) */
static int32_t unique_counted(void *state, const tn_call *call)
{
    return unique(call, 0, 0, 1, bool_arg(call, 2), bool_arg(call, 3));
}
/* aten::unique_dim(Tensor self, int dim, bool sorted=True, ...): inverse and counts are always given. */
static int32_t unique_dim(void *state, const tn_call *call)
{
    return unique(call, int_arg(call, 1), 1, 1, 1, 1);
}
/* aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None)
 */
static int32_t unique_consecutive(void *state, const tn_call *call)
{
    /* A vector with dim 0 is treated as one without dim. */
    bool is_flat = tensor_arg(call, 0)->rank == 1 && int_arg(call, 3) == 0;
    if (call->args[3].tag == TN_TAG_NONE || is_flat)
        return run_lengths(call, bool_arg(call, 1), bool_arg(call, 2));
    return unique(call, int_arg(call, 3), 1, 0, 1, 1);
}
/* aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) */
static int32_t unique_dim_consecutive(void *state, const tn_call *call)
{
    return unique(call, int_arg(call, 1), 1, 0, 1, 1);
}

const tn_kernel_row cpu_unique_rows[] = {
    CPU_CONTIGUOUS_ROW(
        "aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)",
        cpu_ordered_dtypes, unique_elements),
    CPU_CONTIGUOUS_ROW("aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool "
                       "return_counts=False) -> (Tensor, Tensor, Tensor)",
                       cpu_ordered_dtypes, unique_counted),
    CPU_CONTIGUOUS_ROW("aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, "
                       "bool return_counts=False) -> (Tensor, Tensor, Tensor)",
                       cpu_ordered_dtypes, unique_dim),
    CPU_CONTIGUOUS_ROW("aten::unique_consecutive(Tensor self, bool return_inverse=False, bool "
                       "return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)",
                       cpu_ordered_dtypes, unique_consecutive),
    CPU_CONTIGUOUS_ROW("aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool "
                       "return_counts=False) -> (Tensor, Tensor, Tensor)",
                       cpu_ordered_dtypes, unique_dim_consecutive),
};
const uint32_t cpu_unique_row_count = CPU_ROW_COUNT(cpu_unique_rows);
