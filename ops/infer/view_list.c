/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that return a list of views. The output value has the tag TENSORS; its array is from tni_alloc
 * with exactly `count` pointers (one, for an empty list) and belongs to whoever releases the value, with one
 * reference for each item.
 */
#include "ops/infer/infer.h"
#include "ops/infer/view.h"

typedef struct view_list {
    tn_tensor **items;
    int64_t count;
    int64_t made;
} view_list;

static uint64_t list_bytes(const view_list *l)
{
    return (uint64_t)(l->count ? l->count : 1) * sizeof(tn_tensor *);
}

static int32_t list_start(tni_frame *f, view_list *l, int64_t count)
{
    if (count > UINT32_MAX) return tni_fail(f, TN_E_SHAPE, "too many results");
    l->count = count;
    l->made = 0;
    l->items = tni_alloc(f->ctx, list_bytes(l));
    return l->items ? TN_OK : TN_E_OUT_OF_MEMORY;
}

/* Sets the list as the output, or releases it if a step failed. */
static int32_t list_finish(tni_frame *f, view_list *l, int32_t status)
{
    if (status) {
        while (l->made) tn_release(l->items[--l->made]);
        tni_free(f->ctx, l->items, list_bytes(l));
        return status;
    }
    f->outs[0] = tn_value_tensors(l->items, l->count);
    f->done = 1;
    return TN_OK;
}

static int32_t list_add(view_list *l, tn_tensor *self, const tni_view_shape *v)
{
    int32_t status = tni_tensor_view(self, v->rank, v->sizes, v->strides, v->offset, &l->items[l->made]);
    if (!status) l->made++;
    return status;
}

/* Adds the part of `dim` from `start` on. */
static int32_t list_add_part(view_list *l, tn_tensor *self, int64_t dim, int64_t start, int64_t length)
{
    tni_view_shape v;
    tni_view_of(self, &v);
    v.sizes[dim] = length;
    v.offset += start * v.strides[dim];
    return list_add(l, self, &v);
}

int32_t infer_split(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t part = tni_arg_int(f, 1), dim, size, count;
    int32_t status = TN_OK;
    view_list l = {.count = 0};
    if (rank_of(self) == 0) return tni_fail(f, TN_E_SHAPE, "split expects at least a 1-dimensional tensor");
    if (part < 0)
        return tni_fail(f, TN_E_ARGUMENT, "split expects split_size be non-negative, but got split_size=%lld",
                        (long long)part);
    TNI_TRY(tni_arg_dim(f, 2, rank_of(self), &dim));
    size = sizes_of(self)[dim];
    if (part == 0 && size != 0)
        return tni_fail(f, TN_E_ARGUMENT,
                        "split_size can only be 0 if dimension size is 0, but got dimension size of %lld",
                        (long long)size);
    count = part == 0 || size == 0 ? 1 : (size - 1) / part + 1;
    TNI_TRY(list_start(f, &l, count));
    for (int64_t i = 0, start = 0; i < count && !status; i++, start += part) {
        int64_t rest = size - start;
        status = list_add_part(&l, self, dim, start, rest < part ? rest : part);
    }
    return list_finish(f, &l, status);
}

static int32_t check_split_sizes(tni_frame *f, tn_ints sizes, int64_t dim, int64_t size)
{
    int64_t sum = 0;
    tni_text text;
    for (int64_t i = 0; i < sizes.count; i++) {
        if (sizes.data[i] < 0)
            return tni_fail(
                f, TN_E_ARGUMENT,
                "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=%s",
                tni_list_text(sizes, &text));
        if (sizes.data[i] > INT64_MAX - sum) return tni_fail(f, TN_E_ARGUMENT, "split_sizes overflow");
        sum += sizes.data[i];
    }
    if (sum != size)
        return tni_fail(
            f, TN_E_SHAPE,
            "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size at dimension "
            "%lld), but got split_sizes=%s",
            (long long)size, (long long)dim, tni_list_text(sizes, &text));
    return TN_OK;
}

int32_t infer_split_with_sizes(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints sizes = tni_arg_ints(f, 1);
    int64_t dim;
    int32_t status = TN_OK;
    view_list l = {.count = 0};
    if (rank_of(self) == 0)
        return tni_fail(f, TN_E_SHAPE, "split_with_sizes expects at least a 1-dimensional tensor");
    TNI_TRY(tni_arg_dim(f, 2, rank_of(self), &dim));
    TNI_TRY(check_split_sizes(f, sizes, dim, sizes_of(self)[dim]));
    TNI_TRY(list_start(f, &l, sizes.count));
    for (int64_t i = 0, start = 0; i < sizes.count && !status; start += sizes.data[i++])
        status = list_add_part(&l, self, dim, start, sizes.data[i]);
    return list_finish(f, &l, status);
}

int32_t infer_unbind(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim;
    int32_t status = TN_OK;
    view_list l = {.count = 0};
    tni_view_shape v;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    if (rank_of(self) == 0)
        return tni_fail(f, TN_E_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                        (long long)dim);
    tni_view_of(self, &v);
    int64_t count = v.sizes[dim], stride = v.strides[dim];
    v.rank--;
    for (uint32_t i = (uint32_t)dim; i < v.rank; i++) {
        v.sizes[i] = v.sizes[i + 1];
        v.strides[i] = v.strides[i + 1];
    }
    TNI_TRY(list_start(f, &l, count));
    for (int64_t i = 0; i < count && !status; i++, v.offset += stride) status = list_add(&l, self, &v);
    return list_finish(f, &l, status);
}
