/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x[...] as programs write it: slices, integers, new dimensions and the ellipsis become views one after the
 * other. Tensors are collected on the way and passed to one index or index_put_. A 0-dim tensor stands for
 * its value: an integer is a position, bool and uint8 a truth value.
 */
#include <tenon/ops.h>
#include "core/dtype.h"
#include "core/scope.h"
#include "core/tensor.h"

typedef struct walk {
    tn_scope *s;
    tn_tensor *x;                    /* the views made so far */
    int64_t dim;                     /* next dimension of x */
    int64_t of_whole;                /* the same dimension of the tensor that is indexed */
    tn_tensor *indices[TN_MAX_RANK]; /* for aten::index; NULL: the whole dimension */
    int64_t n_indices;
    int64_t last; /* number of indices in use */
} walk;

static int32_t is_mask(const tn_tensor *t)
{
    return t->desc.dtype == TN_BOOL || t->desc.dtype == TN_UINT8;
}

/* The item that a 0-dim tensor stands for; any other item as it is. Waits for the tensor's value. */
static tn_index_item plain(tn_scope *s, const tn_index_item *item)
{
    tn_index_item value = *item;
    const tn_tensor *t = item->tensor;
    if (item->kind != TN_INDEX_TENSOR || t->desc.rank || tni_dtype_category(t->desc.dtype) > TNI_CATEGORY_INT)
        return value;
    value.kind = is_mask(t) ? TN_INDEX_BOOL : TN_INDEX_AT;
    value.start = tn_item_int(s, t);
    return value;
}

/* The number of dimensions of x that an item covers. */
static int64_t consumed(const tn_index_item *item)
{
    switch (item->kind) {
    case TN_INDEX_SLICE:
    case TN_INDEX_AT:
        return 1;
    case TN_INDEX_TENSOR:
        return item->tensor && is_mask(item->tensor) ? (int64_t)item->tensor->desc.rank : 1;
    default:
        return 0;
    }
}

static int32_t refuse(tn_scope *s, int32_t status, const char *text)
{
    return tni_scope_record(s, tni_error(status, "index: %s", text));
}

static int32_t check(tn_scope *s, const tn_tensor *x, const tn_index_item *items, int64_t count,
                     int64_t *out_skip)
{
    int64_t used = 0, ellipses = 0;
    if (!x || (!items && count)) return refuse(s, TN_E_ARGUMENT, "argument 'self' or 'items' is NULL");
    for (int64_t i = 0; i < count; i++) {
        if (items[i].kind > TN_INDEX_BOOL) return refuse(s, TN_E_ARGUMENT, "an item is of an unknown kind");
        if (items[i].kind == TN_INDEX_TENSOR && !items[i].tensor)
            return refuse(s, TN_E_ARGUMENT, "the tensor of an item is NULL");
        ellipses += items[i].kind == TN_INDEX_ELLIPSIS;
        used += consumed(&items[i]);
    }
    if (ellipses > 1) return refuse(s, TN_E_INDEX, "an index can only have a single ellipsis ('...')");
    if (used > (int64_t)x->desc.rank) {
        return tni_scope_record(
            s, tni_error(TN_E_INDEX, "too many indices for tensor of dimension %u", x->desc.rank));
    }
    *out_skip = (int64_t)x->desc.rank - used;
    return TN_OK;
}

static void skip(walk *w, int64_t dims)
{
    for (int64_t i = 0; i < dims && w->n_indices < TN_MAX_RANK; i++) w->indices[w->n_indices++] = NULL;
    w->dim += dims;
}

static void take_position(walk *w, int64_t position)
{
    const int64_t size = w->x->desc.sizes[w->dim];
    if (position >= -size && position < size)
        w->x = tn_select(w->s, w->x, w->dim, position);
    else
        tni_scope_record(w->s, tni_error(TN_E_INDEX,
                                         "index %lld is out of bounds for dimension %lld with size %lld",
                                         (long long)position, (long long)w->of_whole, (long long)size));
}

static void take_tensor(walk *w, tn_tensor *index, int64_t dims)
{
    if (w->n_indices == TN_MAX_RANK) return;
    w->indices[w->n_indices++] = index;
    w->last = w->n_indices;
    w->dim += dims;
}

static void take(walk *w, const tn_index_item *item, int64_t ellipsis)
{
    const uint8_t truth = item->start != 0;
    switch (item->kind) {
    case TN_INDEX_SLICE:
        if (item->start != TN_NONE || item->stop != TN_NONE || item->step != 1) {
            w->x = tn_slice(w->s, w->x, .dim = w->dim, .start = item->start, .end = item->stop,
                            .step = item->step);
        }
        skip(w, 1);
        break;
    case TN_INDEX_AT:
        take_position(w, item->start);
        break;
    case TN_INDEX_NONE:
        w->x = tn_unsqueeze(w->s, w->x, w->dim);
        skip(w, 1);
        break;
    case TN_INDEX_ELLIPSIS:
        skip(w, ellipsis);
        break;
    case TN_INDEX_BOOL:
        w->x = tn_unsqueeze(w->s, w->x, w->dim);
        take_tensor(w, tn_from_data(w->s, TN_BOOL, TN_INTS(1), &truth, w->x ? w->x->desc.device : TN_CPU), 1);
        break;
    default:
        take_tensor(w, item->tensor, consumed(item));
    }
}

static int32_t walk_items(walk *w, const tn_index_item *items, int64_t count)
{
    int64_t ellipsis = 0;
    int32_t status = tn_scope_failed(w->s);
    if (status) return status;
    if (check(w->s, w->x, items, count, &ellipsis)) return w->s->status;
    for (int64_t i = 0; i < count && !w->s->status; i++) {
        const tn_index_item item = plain(w->s, &items[i]);
        if (!w->s->status) take(w, &item, ellipsis);
        w->of_whole += item.kind == TN_INDEX_ELLIPSIS ? ellipsis : consumed(&item);
    }
    return w->s->status;
}

tn_tensor *tn_index_items(tn_scope *s, tn_tensor *x, const tn_index_item *items, int64_t count)
{
    walk w = {.s = s, .x = x};
    if (walk_items(&w, items, count)) return NULL;
    if (w.last) return tn_index_tensor(s, w.x, ((tn_tensors){w.indices, w.last}));
    return w.x == x ? tn_alias(s, x) : w.x;
}

/* A value may have more leading dimensions of size 1 than the elements that it is written to. */
static tn_tensor *without_leading_ones(tn_scope *s, tn_tensor *value, int64_t rank)
{
    while (value && (int64_t)value->desc.rank > rank && value->desc.sizes[0] == 1)
        value = tn_select(s, value, 0, 0);
    return value;
}

tn_tensor *tn_index_put_items(tn_scope *s, tn_tensor *x, tn_tensor *value, const tn_index_item *items,
                              int64_t count)
{
    walk w = {.s = s, .x = x};
    if (walk_items(&w, items, count)) return NULL;
    if (!value) {
        refuse(s, TN_E_ARGUMENT, "argument 'value' is NULL");
        return NULL;
    }
    if (value->desc.device != x->desc.device && value->numel == 1)
        value = tn__to_copy(s, value, .device = x->desc.device);
    if (value && value->desc.dtype != x->desc.dtype) value = tn__to_copy(s, value, .dtype = x->desc.dtype);
    if (w.last)
        tn_index_put_(s, w.x, ((tn_tensors){w.indices, w.last}), without_leading_ones(s, value, 0));
    else
        tn_copy_(s, w.x, without_leading_ones(s, value, tn_tensor_rank(w.x)));
    return s->status ? NULL : x;
}
