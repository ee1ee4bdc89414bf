/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: indexing by lists of tensors. Flat indices are computed, then gathered from or scattered to.
 * Masks were converted to indices before.
 */
#include <string.h>
#include "core/shape.h"
#include "ops/composite/pointwise_lowering.h"

/* What the indices select in each dimension. */
typedef struct selection {
    tni_shape shape; /* of the indices, broadcast */
    int64_t place;   /* position of that shape in the result */
    tn_ints size;    /* of the result */
    tn_tensor *flat; /* flat indices, as large as the result or broadcast to it */
} selection;

static int32_t is_indexed(tn_tensors list, int64_t d)
{
    return d < list.count && list.data[d] != NULL;
}

/* Adjacent indices put their shape in their place, others in front. */
static int32_t read_shape(tn_scope *s, const tn_tensor *self, int64_t dims, tn_tensors list, selection *out)
{
    int64_t first = -1, last = -1, apart = 0, n = 0, *size = tni_scope_ints(s, 2 * TN_MAX_RANK);
    for (int64_t d = 0; d < list.count; d++) {
        if (!is_indexed(list, d)) continue;
        if (first < 0) first = d;
        if (last >= 0 && last != d - 1) apart = 1;
        last = d;
        if (tni_broadcast(&out->shape, (uint32_t)rank_of(list.data[d]), tni_sizes(list.data[d])))
            return tn_scope_fail(s, TN_E_INDEX,
                                 "shape mismatch: indexing tensors could not be broadcast together");
    }
    if (!size) return TN_E_OUT_OF_MEMORY;
    out->place = apart || first < 0 ? 0 : first;
    for (int64_t d = 0; d < dims; d++) {
        if (!is_indexed(list, d)) size[n++] = tn_tensor_size(self, d);
    }
    int64_t own = (int64_t)out->shape.rank;
    memmove(size + out->place + own, size + out->place, (size_t)(n - out->place) * sizeof *size);
    memcpy(size + out->place, out->shape.sizes, (size_t)own * sizeof *size);
    n += own;
    out->size = (tn_ints){size, n};
    return TN_OK;
}

/* `t` with its dimensions at `at` of `rank`, and size 1 elsewhere. */
static tn_tensor *placed(tn_scope *s, tn_tensor *t, int64_t at, int64_t rank)
{
    int64_t shape[2 * TN_MAX_RANK];
    if (tn_scope_failed(s)) return NULL;
    for (int64_t d = 0; d < rank; d++) shape[d] = 1;
    for (int64_t d = 0; d < rank_of(t); d++) shape[at + d] = tn_tensor_size(t, d);
    return tni_reshape(s, t, (tn_ints){shape, rank});
}

/*
 * An index of one dimension times its stride. An index out of range becomes -numel, so that the sum is out of
 * range and the kernel refuses it. The only index stays what it is, for the error to name it.
 */
static tn_tensor *steps_of(tn_scope *s, tn_tensor *index, int64_t size, int64_t stride, int64_t numel,
                           int32_t is_only)
{
    index = tni_cast(s, index, TN_INT64);
    tn_tensor *bad = tn_logical_or(s, tn_lt_scalar(s, index, -size), tn_ge_scalar(s, index, size));
    tn_tensor *wrapped = tn_where(s, tn_lt_scalar(s, index, 0), tn_add_scalar(s, index, size), index);
    if (is_only) return tn_where(s, bad, index, wrapped);
    return tn_where_scalarself(s, bad, -numel - 1, tn_mul_scalar(s, wrapped, stride));
}

/* Of the first `dims` dimensions of self. */
static int32_t select_places(tn_scope *s, const tn_tensor *self, int64_t dims, tn_tensors list,
                             selection *out)
{
    int64_t stride = 1, numel = numel_of((tn_ints){tn_tensor_sizes(self), dims}), rank;
    *out = (selection){.shape = {.rank = 0}};
    if (read_shape(s, self, dims, list, out)) return -1;
    rank = out->size.count;
    int64_t kept = rank - out->shape.rank;
    for (int64_t d = dims - 1; d >= 0 && !tn_scope_failed(s); d--) {
        int64_t size = tn_tensor_size(self, d), at;
        tn_tensor *part;
        if (is_indexed(list, d)) {
            at = out->place + (int64_t)out->shape.rank - rank_of(list.data[d]);
            part = steps_of(s, list.data[d], size, stride, numel, dims == 1);
        } else {
            kept--;
            at = kept < out->place ? kept : kept + out->shape.rank;
            part = tn_mul_scalar(s, tni_range_on(s, self, 0, size), stride);
        }
        part = placed(s, part, at, rank);
        out->flat = out->flat ? tn_add(s, out->flat, part) : part;
        stride *= size;
    }
    return tn_scope_failed(s) ? -1 : 0;
}

/* (self, indices) */
void composite_index_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    selection at;
    if (select_places(s, self, rank_of(self), arg_tensors(args, 1), &at)) return;
    if (!at.flat) return give(outs, 0, tn_clone(s, self));
    tn_tensor *flat = tni_reshape(s, tn_expand(s, at.flat, at.size), TN_INTS(-1));
    if (numel_of(at.size) == 0) return give(outs, 0, tni_empty_on(s, self, 0, at.size));
    give(outs, 0, tni_reshape(s, tn_gather(s, tni_reshape(s, self, TN_INTS(-1)), 0, flat), at.size));
}

/* How many dimensions tell elements apart: the indexed ones, if all others are behind them and are whole rows; else all. */
static int64_t dims_of_places(const tn_tensor *self, tn_tensors list)
{
    int64_t indexed = 0;
    while (is_indexed(list, indexed)) indexed++;
    for (int64_t d = indexed; d < list.count; d++)
        if (is_indexed(list, d)) return rank_of(self);
    return indexed && tn_tensor_numel(self) ? indexed : rank_of(self);
}

/*
 * (self, indices, values, accumulate, unsafe). All elements of a whole row have its place. Bools are added as numbers; half
 * types are rounded after each addition, as in ATen.
 */
void composite_index_put_impl(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *values = arg_tensor(args, 2), *flat;
    tn_dtype dtype = dtype_of(self), in = arg_bool(args, 3) && dtype == TN_BOOL ? TN_UINT8 : dtype;
    int64_t dims = dims_of_places(self, arg_tensors(args, 1)), rank, width = 1, *size;
    selection at;
    give(outs, 0, self);
    if (select_places(s, self, dims, arg_tensors(args, 1), &at)) return;
    rank = at.size.count;
    size = tni_scope_ints(s, rank + rank_of(self) - dims);
    if (!size) return;
    memcpy(size, at.size.data, (size_t)rank * sizeof *size);
    for (int64_t d = dims; d < rank_of(self); d++) {
        width *= tn_tensor_size(self, d);
        size[rank++] = tn_tensor_size(self, d);
    }
    values = tn_expand(s, values, (tn_ints){size, rank});
    if (!at.flat) { /* a number */
        tn_copy_(s, self, arg_bool(args, 3) ? tn_add(s, self, values) : values);
        return;
    }
    const int64_t count = numel_of(at.size);
    if (count == 0) return;
    int32_t is_view = tn_tensor_is_contiguous(self, TN_CONTIGUOUS_FORMAT) && in == dtype;
    tn_tensor *places = tni_reshape(s, tn_expand(s, at.flat, at.size), TN_INTS(count, 1));
    places = tn_expand(s, places, TN_INTS(count, width));
    flat = is_view ? tn_view(s, self, TN_INTS(-1, width))
                   : tni_reshape(s, tn_clone(s, tni_cast(s, self, in), .memory_format = TN_CONTIGUOUS_FORMAT),
                                 TN_INTS(-1, width));
    values = tni_reshape(s, values ? tni_cast(s, values, in) : NULL, TN_INTS(count, width));
    if (arg_bool(args, 3))
        tn_scatter_add_(s, flat, 0, places, values);
    else
        tn_scatter_(s, flat, 0, places, values);
    if (!is_view) tn_copy_(s, self, tni_reshape(s, flat, sizes_of(self)));
}
