/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views as element positions in a storage. To follow a view without knowing which operators made it, a
 * gradient is laid out flat like the storage, and the view is taken of that by sizes, strides and offset.
 * Lazy conjugation and negation, and views of complex numbers as pairs of real ones, are undone before and
 * redone after.
 */
#include "autograd/graph.h"

#include "core/dtype.h"
#include "core/scope.h"
#include "core/shape.h"

#include <string.h>

#include <tenon/ops.h>

void tni_geometry_of(const tn_tensor *t, tni_geometry *out)
{
    out->dtype = t->desc.dtype;
    out->flags = t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG);
    out->rank = t->desc.rank;
    out->offset = tni_tensor_offset(t);
    memcpy(out->sizes, t->desc.sizes, t->desc.rank * sizeof(int64_t));
    memcpy(out->strides, t->desc.strides, t->desc.rank * sizeof(int64_t));
}

/* The range of the storage that both cover, in elements of `unit` bytes. */
typedef struct window {
    int64_t start;
    int64_t length;
} window;

/* Elements of a geometry per complex number: 2 for a real view of complex numbers. */
static int64_t per_number(const tni_geometry *g, int32_t is_complex)
{
    return is_complex && !tn_dtype_is_complex(g->dtype) ? 2 : 1;
}

static int32_t span(const tni_geometry *g, int64_t parts, window *out)
{
    int64_t extent;
    int32_t status = tni_storage_extent(g->rank, g->sizes, g->strides, &extent);
    out->start = g->offset / parts;
    out->length = (g->offset % parts + extent + parts - 1) / parts;
    return status;
}

/* The range that base and view cover, in numbers (complex ones if either is complex). */
static int32_t common_window(const tni_geometry *base, const tni_geometry *view, int32_t is_complex,
                             window *out)
{
    window a, b;
    int32_t status = span(base, per_number(base, is_complex), &a);
    if (!status) status = span(view, per_number(view, is_complex), &b);
    if (status) return status;
    int64_t end_a = a.start + a.length, end_b = b.start + b.length;
    out->start = a.start < b.start ? a.start : b.start;
    out->length = (end_a > end_b ? end_a : end_b) - out->start;
    return TN_OK;
}

static tn_tensor *resolve_bits(tn_scope *s, tn_tensor *t, uint32_t flags)
{
    if (flags & TN_DESC_CONJ) t = tn__conj(s, t);
    if (flags & TN_DESC_NEG) t = tn__neg_view(s, t);
    return t;
}

/* The view `g` of a flat tensor of numbers that begins at `start`. */
static tn_tensor *show(tn_scope *s, tn_tensor *flat, const tni_geometry *g, int64_t start)
{
    if (tn_scope_failed(s)) return NULL;
    int64_t parts = 1;
    if (tn_dtype_is_complex(flat->desc.dtype) && !tn_dtype_is_complex(g->dtype)) {
        flat = tn_view(s, tn_view_as_real(s, flat), TN_INTS(-1));
        parts = 2;
    }
    tn_ints sizes = {g->sizes, g->rank}, strides = {g->strides, g->rank};
    tn_tensor *part = tn_as_strided(s, flat, sizes, strides, .storage_offset = g->offset - start * parts);
    return resolve_bits(s, part, g->flags);
}

static int32_t overlaps(const tni_geometry *g)
{
    /* By growing stride: elements overlap unless each stride exceeds the reach of the smaller ones. */
    uint32_t order[TN_MAX_RANK], n = 0;
    for (uint32_t i = 0; i < g->rank; i++) {
        if (g->sizes[i] == 0) return 0;
        if (g->sizes[i] == 1) continue;
        uint32_t at = n++;
        for (; at > 0 && g->strides[order[at - 1]] > g->strides[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t reach = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (g->strides[order[k]] <= reach) return 1;
        reach += g->strides[order[k]] * (g->sizes[order[k]] - 1);
    }
    return 0;
}

/* Positions in the flat tensor of the elements of `g`, as one list. */
static tn_tensor *positions(tn_scope *s, tn_tensor *flat, const tni_geometry *g, int64_t start)
{
    tn_tensor *all = tn_arange(s, flat->numel, .dtype = TN_INT64, .device = flat->desc.device);
    tn_ints sizes = {g->sizes, g->rank}, strides = {g->strides, g->rank};
    return tn_reshape(s, tn_as_strided(s, all, sizes, strides, .storage_offset = g->offset - start),
                      TN_INTS(-1));
}

/* Adds `grad` to the elements of `view` in the flat tensor (of zeros). */
static tn_tensor *spread(tn_scope *s, tn_tensor *flat, tn_tensor *grad, const tni_geometry *view,
                         int64_t start)
{
    tni_geometry g = *view;
    for (uint32_t i = 0; i < g.rank; i++) { /* expanded dimensions */
        if (g.strides[i] != 0 || g.sizes[i] <= 1) continue;
        int64_t dim = i;
        grad = tn_sum_dim(s, grad, ((tn_ints){&dim, 1}), .keepdim = 1);
        g.sizes[i] = 1;
    }
    if (tn_scope_failed(s)) return NULL;
    if (!overlaps(&g)) {
        tn_copy_(s, show(s, flat, &g, start), grad);
        return flat;
    }
    tn_tensor *values = tn_reshape(s, resolve_bits(s, grad, g.flags), TN_INTS(-1));
    return tn_index_add(s, flat, 0, positions(s, flat, &g, start), values);
}

static tn_tensor *zeros(tn_scope *s, const tn_tensor *grad, int64_t count, tn_dtype dtype)
{
    return tn_zeros(s, TN_INTS(count), .dtype = dtype, .device = grad->desc.device);
}

static tn_dtype number_dtype(const tn_tensor *grad, const tni_geometry *g)
{
    int32_t is_complex = tn_dtype_is_complex(g->dtype);
    if (is_complex == tn_dtype_is_complex(grad->desc.dtype)) return grad->desc.dtype;
    return is_complex ? tni_dtype_to_complex(grad->desc.dtype) : tni_dtype_to_real(grad->desc.dtype);
}

static int32_t find_window(tn_scope *s, const tni_geometry *base, const tni_geometry *view,
                           int32_t is_complex, window *out)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    int32_t status = common_window(base, view, is_complex, out);
    return status ? tni_scope_record(s, status) : TN_OK;
}

tn_tensor *tni_gradient_of_base(tn_scope *s, tn_tensor *grad, const tni_geometry *base,
                                const tni_geometry *view)
{
    window w;
    int32_t is_complex = tn_dtype_is_complex(base->dtype) || tn_dtype_is_complex(view->dtype);
    if (find_window(s, base, view, is_complex, &w)) return NULL;
    tn_dtype dtype = is_complex ? tni_dtype_to_complex(grad->desc.dtype) : grad->desc.dtype;
    tn_tensor *flat = zeros(s, grad, w.length, dtype);
    if (is_complex && !tn_dtype_is_complex(view->dtype)) {
        tn_tensor *pairs =
            spread(s, tn_view(s, tn_view_as_real(s, flat), TN_INTS(-1)), grad, view, w.start * 2);
        flat = tn_view_as_complex(s, tn_view(s, pairs, TN_INTS(-1, 2)));
    } else {
        flat = spread(s, flat, grad, view, w.start);
    }
    if (overlaps(base) && !tn_scope_failed(s)) {
        tn_tensor *places = positions(s, flat, base, w.start);
        tn_tensor *count = zeros(s, grad, w.length, number_dtype(grad, base));
        tn_tensor *ones = tn_ones(s, TN_INTS(places ? places->numel : 0), .dtype = number_dtype(grad, base),
                                  .device = grad->desc.device);
        flat = tn_div(s, flat, tn_clamp_min(s, tn_index_add(s, count, 0, places, ones), 1));
    }
    return show(s, flat, base, w.start);
}

tn_tensor *tni_lay_out(tn_scope *s, tn_tensor *grad, const tni_geometry *base, const tni_geometry *view,
                       tn_tensor **out_part)
{
    window w;
    int32_t is_complex = tn_dtype_is_complex(base->dtype) || tn_dtype_is_complex(view->dtype);
    if (find_window(s, base, view, is_complex, &w)) return NULL;
    tn_tensor *flat =
        zeros(s, grad, w.length, is_complex ? tni_dtype_to_complex(grad->desc.dtype) : grad->desc.dtype);
    tn_tensor *whole = show(s, flat, base, w.start);
    tn_copy_(s, whole, grad);
    *out_part = show(s, flat, view, w.start);
    return show(s, flat, base, w.start);
}
