/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: pooling over windows of unequal sizes. Adaptive windows divide the input among the outputs;
 * fractional windows begin at random. A mean is resampling with equal weights. For a maximum the elements of
 * all windows are gathered; short windows repeat their last element.
 */
#include "ops/composite/tap_table.h"

static int64_t begin_of(int64_t o, int64_t in, int64_t out)
{
    return o * in / out;
}
static int64_t end_of(int64_t o, int64_t in, int64_t out)
{
    return ((o + 1) * in + out - 1) / out;
}

/* The length of the longest window. Windows begin at the multiples of in / out; their ends are rounded up. */
static int64_t longest_window(int64_t in, int64_t out)
{
    if (!out) return 0;
    int64_t rest = in % out, a = out, b = rest;
    while (b) {
        int64_t next = a % b;
        a = b;
        b = next;
    }
    return in / out + (rest == 0 ? 0 : rest > a ? 2 : 1);
}

/* The elements of each window, as many as the longest window has. */
static int32_t adaptive_taps(tn_scope *s, int64_t in, int64_t out, int32_t weighted, tni_taps *t)
{
    int64_t most = longest_window(in, out);
    if (tni_taps_make(s, in, out, most, weighted, t)) return -1;
    t->skips = 1;
    for (int64_t o = 0; o < out; o++) {
        int64_t begin = begin_of(o, in, out), length = end_of(o, in, out) - begin;
        for (int64_t k = 0; k < most; k++) {
            t->at[o * most + k] = begin + (k < length ? k : length - 1);
            if (weighted) t->weight[o * most + k] = k < length ? 1 / (double)length : 0;
        }
    }
    return 0;
}

/* ---- means ---- */

/* (self, output_size) */
void composite_adaptive_avg_pool_lowering(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *t = wide(s, self);
    tn_ints size = arg_ints(args, 1);
    for (int64_t i = size.count - 1; i >= 0 && !tn_scope_failed(s); i--) {
        int64_t dim = rank_of(self) - size.count + i;
        tni_taps taps;
        if (adaptive_taps(s, tn_tensor_size(self, dim), size.data[i], 1, &taps)) return;
        t = tni_taps_gather(s, t, dim, &taps, 0);
    }
    tni_give_resampled(s, outs, 0, t, self, dtype_of(self));
}

/* (grad_output, self) */
static void adaptive_avg_pool_backward(tn_scope *s, const tn_value *args, tn_value *outs, int64_t space)
{
    tn_tensor *grad = arg_tensor(args, 0), *self = arg_tensor(args, 1), *t = wide(s, grad);
    for (int64_t dim = rank_of(self) - space; dim < rank_of(self) && !tn_scope_failed(s); dim++) {
        tni_taps taps;
        if (adaptive_taps(s, tn_tensor_size(self, dim), tn_tensor_size(grad, dim), 1, &taps)) return;
        t = tni_taps_spread(s, t, dim, &taps, 0);
    }
    tni_give_resampled(s, outs, 0, t, self, dtype_of(self));
}

FORWARD(composite_adaptive_avg_pool2d_backward_lowering, adaptive_avg_pool_backward, 2)
FORWARD(composite_adaptive_avg_pool3d_backward_lowering, adaptive_avg_pool_backward, 3)

/* ---- maxima ---- */

/* [lines..., out, count, out, count, ...] to [lines..., out, out, ..., elements of a window]. */
static tn_tensor *windows_last(tn_scope *s, tn_tensor *t, int64_t space)
{
    int64_t order[TN_MAX_RANK], lines, n = 0;
    if (!t) return NULL;
    lines = rank_of(t) - 2 * space;
    while (n < lines) {
        order[n] = n;
        n++;
    }
    for (int64_t part = 0; part < 2; part++) {
        for (int64_t i = 0; i < space; i++) order[n++] = lines + 2 * i + part;
    }
    t = tn_permute(s, t, (tn_ints){order, n});
    return tn_flatten(s, t, .start_dim = lines + space, .end_dim = -1);
}

/* The maximum of each window and its index, from the elements and their indices, which may be broadcast. */
static void give_largest(tn_scope *s, tn_value *outs, tn_tensor *items, tn_tensor *places,
                         const tn_tensor *self)
{
    tn_tensor *at = tn_argmax(s, items, .dim = -1, .keepdim = 1);
    if (!at) return;
    places = tn_expand(s, places, sizes_of(items));
    tni_give_resampled(s, outs, 0, tn_squeeze_dim(s, tn_gather(s, items, -1, at), -1), self, dtype_of(self));
    tni_give_resampled(s, outs, 1, tn_squeeze_dim(s, tn_gather(s, places, -1, at), -1), self, TN_INT64);
}

/* The indices of a tensor's spatial positions, with a dimension of 1 for each other dimension. */
static tn_tensor *places_of(tn_scope *s, const tn_tensor *self, int64_t space)
{
    int64_t shape[TN_MAX_RANK], whole = 1;
    for (int64_t d = 0; d < rank_of(self); d++) {
        shape[d] = d < rank_of(self) - space ? 1 : tn_tensor_size(self, d);
        whole *= shape[d];
    }
    return tni_reshape(s, tni_range_on(s, self, 0, whole), (tn_ints){shape, rank_of(self)});
}

/* (self, output_size) -> values, indices */
void composite_adaptive_max_pool_lowering(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *items = self;
    tn_ints size = arg_ints(args, 1);
    int64_t space = size.count;
    tn_tensor *places = places_of(s, self, space);
    for (int64_t i = space - 1; i >= 0 && !tn_scope_failed(s); i--) {
        int64_t dim = rank_of(self) - space + i;
        tni_taps taps;
        if (adaptive_taps(s, tn_tensor_size(self, dim), size.data[i], 0, &taps)) return;
        items = tni_taps_inputs(s, items, dim, &taps);
        places = tni_taps_inputs(s, places, dim, &taps);
    }
    give_largest(s, outs, windows_last(s, items, space), windows_last(s, places, space), self);
}

/*
 * The starts of the windows of dimension i, for each line: floor((o + u) alpha) - floor(u alpha), the last
 * one at the end of the input. In two dimensions the samples are in the order width, height; in three in the
 * order depth, height, width.
 */
static tn_tensor *starts_of(tn_scope *s, tn_tensor *samples, int64_t i, int64_t space, int64_t in,
                            int64_t out, int64_t kernel)
{
    double alpha = out > 1 ? (double)(in - kernel) / (double)(out - 1) : 0;
    if (tn_scope_failed(s)) return NULL;
    if (dtype_of(samples) == TN_FLOAT32 && out > 1) alpha = (double)((float)(in - kernel) / (float)(out - 1));
    tn_tensor *u = tn_select(s, samples, -1, space == 2 ? 1 - i : i), *o, *start;
    u = tn_unsqueeze(s, u, -1);
    o = tni_cast(s, tni_range_on(s, samples, 0, out), dtype_of(samples));
    start = tn_sub(s, tn_trunc(s, tn_mul_scalar(s, tn_add(s, u, o), alpha)),
                   tn_trunc(s, tn_mul_scalar(s, u, alpha)));
    start = start ? tni_cast(s, start, TN_INT64) : NULL;
    return tn_where_scalarself(s, tn_eq_scalar(s, tni_range_on(s, samples, 0, out), out - 1), in - kernel,
                               start);
}

/*
 * The starts [n, c, out] plus the kernel's offsets, as [n, c, out or 1, ..., kernel or 1, ...], times `step`.
 */
static tn_tensor *offsets_of(tn_scope *s, tn_tensor *start, int64_t i, int64_t space, int64_t kernel,
                             int64_t step)
{
    int64_t shape[2 + 2 * TN_MAX_RANK], items[2 + 2 * TN_MAX_RANK];
    if (tn_scope_failed(s)) return NULL;
    for (int64_t d = 0; d < 2 + 2 * space; d++) shape[d] = items[d] = 1;
    shape[0] = tn_tensor_size(start, 0);
    shape[1] = tn_tensor_size(start, 1);
    shape[2 + i] = tn_tensor_size(start, 2);
    items[2 + space + i] = kernel;
    tn_ints a = {shape, 2 + 2 * space}, b = {items, 2 + 2 * space};
    start = tn_add(s, tni_reshape(s, start, a), tni_reshape(s, tni_range_on(s, start, 0, kernel), b));
    return tn_mul_scalar(s, start, step);
}

/* (self, kernel_size, output_size, random_samples) -> values, indices */
static void fractional(tn_scope *s, const tn_value *args, tn_value *outs, int64_t space)
{
    tn_tensor *self = arg_tensor(args, 0), *samples = wide(s, arg_tensor(args, 3)), *places = NULL;
    tn_ints kernel = arg_ints(args, 1), size = arg_ints(args, 2);
    int64_t whole = 1, rank = rank_of(self), n, c, items = 1, shape[TN_MAX_RANK];
    if (tn_scope_failed(s)) return;
    n = rank == space + 1 ? 1 : tn_tensor_size(self, 0);
    c = tn_tensor_size(self, rank - space - 1);
    if (rank_of(samples) == 2) samples = tn_unsqueeze(s, samples, 0);
    for (int64_t i = space - 1; i >= 0; i--) {
        int64_t in = tn_tensor_size(self, rank - space + i), k = kernel.data[kernel.count == 1 ? 0 : i],
                out = size.data[size.count == 1 ? 0 : i];
        tn_tensor *start = starts_of(s, samples, i, space, in, out, k);
        tn_tensor *offsets = offsets_of(s, start, i, space, k, whole);
        places = places ? tn_add(s, places, offsets) : offsets;
        shape[rank - space + i] = out;
        items *= k;
        whole *= in;
    }
    for (int64_t d = 0; d < rank - space; d++) shape[d] = tn_tensor_size(self, d);
    if (!places) return;
    int64_t lines = n * c > 0 ? n * c : 1, outputs = tn_tensor_numel(places) / lines;
    places = tni_reshape(s, places, TN_INTS(n, c, outputs));
    tn_tensor *all = tn_gather(s, tni_reshape(s, self, TN_INTS(n, c, whole)), 2, places);
    shape[rank] = items;
    tn_ints windows = {shape, rank + 1};
    give_largest(s, outs, tni_reshape(s, all, windows), tni_reshape(s, places, windows), self);
}

FORWARD(composite_fractional_max_pool2d, fractional, 2)
FORWARD(composite_fractional_max_pool3d, fractional, 3)
