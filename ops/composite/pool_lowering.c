/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: pooling as reductions over windows, and its gradients as sums over windows. */
#include <math.h>
#include "ops/composite/sliding_window.h"
#include "ops/pooled.h"

/* ---- the tensor with a batch, its windows ---- */

static tn_tensor *batched(tn_scope *s, tn_tensor *t, int64_t space)
{
    return rank_of(t) == space + 1 ? tn_unsqueeze(s, t, 0) : t;
}

/* Sets the output in the memory format of self, without a batch if self has none. */
static void give_like(tn_scope *s, tn_value *outs, uint32_t i, tn_tensor *t, tn_tensor *self, tn_ints size,
                      tn_dtype dtype)
{
    int32_t format = tni_format_of(self);
    t = t ? tni_cast(s, tni_reshape(s, t, size), dtype) : NULL;
    if (t) give(outs, i, tn_contiguous(s, t, .memory_format = format));
}

/* self is argument `at`; kernel, stride and padding follow. An empty stride is the kernel size. */
static void open_windows(const tn_value *args, uint32_t at, int64_t space, tni_windows *w)
{
    const int64_t *sizes = tni_sizes(arg_tensor(args, at)) + rank_of(arg_tensor(args, at)) - space;
    tn_ints stride = arg_ints(args, at + 2);
    w->space = space;
    tni_windows_spread(w, arg_ints(args, at + 1), w->kernel);
    tni_windows_spread(w, stride.count ? stride : arg_ints(args, at + 1), w->stride);
    tni_windows_spread(w, arg_ints(args, at + 3), w->padding);
    for (int64_t i = 0; i < space; i++) {
        w->in[i] = sizes[i];
        w->dilation[i] = 1;
    }
}

static void count_windows(tni_windows *w, int32_t ceil)
{
    for (int64_t i = 0; i < w->space; i++)
        w->out[i] = tni_pooled(w->in[i], w->kernel[i], w->stride[i], w->padding[i], w->dilation[i], ceil);
}

/* The sizes of self with the number of windows for its spatial sizes. */
static tn_ints pooled_sizes(tn_scope *s, const tni_windows *w, tn_tensor *self)
{
    int64_t *sizes = tni_scope_ints_copy(s, sizes_of(self)), rank = rank_of(self);
    for (int64_t i = 0; sizes && i < w->space; i++) sizes[rank - w->space + i] = w->out[i];
    return (tn_ints){sizes, sizes ? rank : 0};
}

/* [n, c, kernel elements, windows] */
static tn_tensor *columns_of(tn_scope *s, const tni_windows *w, tn_tensor *t, tn_value around)
{
    tn_tensor *view = tni_windows_view(s, w, t, around);
    if (tn_scope_failed(s)) return NULL;
    return tni_reshape(s, view,
                       TN_INTS(tn_tensor_size(view, 0), tn_tensor_size(view, 1), tni_windows_kernel(w),
                               tni_windows_count(w)));
}

/* ---- maximum: (self, kernel_size, stride, padding, dilation, ceil_mode) ---- */

static tn_value lowest_of(tn_dtype dtype)
{
    if (is_float(dtype)) return tn_value_float(-(double)INFINITY);
    return tn_value_int(TN_DTYPE_CODE(dtype) == TN_CODE_INT ? INT64_MIN >> (64 - TN_DTYPE_BITS(dtype)) : 0);
}

/*
 * The index of each element of a window in the plane, -1 outside. If no element exceeds the padding value,
 * the first element inside the plane is the maximum.
 */
static tn_tensor *places_of(tn_scope *s, const tni_windows *w, tn_tensor *columns, tn_tensor *at)
{
    int64_t sizes[2 + TNI_MAX_SPACE] = {1, 1}, whole = 1;
    for (int64_t i = 0; i < w->space; i++) whole *= sizes[2 + i] = w->in[i];
    tn_ints shape = {sizes, 2 + w->space};
    tn_tensor *plane = tni_reshape(s, tni_range_on(s, columns, 0, whole), shape);
    tn_tensor *inside = columns_of(s, w, plane, tn_value_int(-1));
    tn_tensor *last = tn_where_scalarself(s, tn_lt_scalar(s, inside, 0), whole, inside);
    tn_tensor *first = tn_amin(s, last, .dim = TN_INTS(2), .keepdim = 1);
    if (tn_scope_failed(s)) return NULL;
    tn_tensor *place = tn_gather(s, tn_expand(s, inside, sizes_of(columns)), 2, at);
    return tn_where(s, tn_lt_scalar(s, place, 0), first, place);
}

static void max_pool(tn_scope *s, const tn_value *args, tn_value *outs, int64_t space)
{
    tn_tensor *self = arg_tensor(args, 0);
    tni_windows w;
    open_windows(args, 0, space, &w);
    tni_windows_spread(&w, arg_ints(args, 4), w.dilation);
    count_windows(&w, arg_bool(args, 5));
    tn_tensor *columns = columns_of(s, &w, batched(s, self, space), lowest_of(dtype_of(self)));
    tn_tensor *at = tn_argmax(s, columns, .dim = 2, .keepdim = 1);
    tn_ints size = pooled_sizes(s, &w, self);
    give_like(s, outs, 0, tn_gather(s, columns, 2, at), self, size, dtype_of(self));
    give_like(s, outs, 1, places_of(s, &w, columns, at), self, size, TN_INT64);
}

FORWARD(composite_max_pool2d_with_indices, max_pool, 2)
FORWARD(composite_max_pool3d_with_indices, max_pool, 3)

/* Adds each gradient to the element that its value came from. */
static void to_places(tn_scope *s, const tn_value *args, tn_value *outs, int64_t space, uint32_t indices)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *self = arg_tensor(args, 1),
              *at = arg_tensor(args, indices);
    uint64_t mask = 0;
    for (int64_t i = 0; i < space; i++) mask |= UINT64_C(1) << (rank_of(self) - space + i);
    int64_t whole = tni_numel_of(sizes_of(self), mask), lines = tni_numel_of(sizes_of(self), ~mask);
    int64_t windows = tni_numel_of(sizes_of(at), mask);
    tn_tensor *sum = tni_zeros_on(s, grad, 0, TN_INTS(lines, whole));
    tn_ints flat = TN_INTS(lines, windows);
    sum = tn_scatter_add_(s, sum, 1, tni_reshape(s, at, flat), tni_reshape(s, grad, flat));
    give_like(s, outs, 0, sum, self, sizes_of(self), dtype_of(self));
}

FORWARD(composite_max_pool2d_with_indices_backward, to_places, 2, 7)
FORWARD(composite_max_pool3d_with_indices_backward, to_places, 3, 7)
FORWARD(composite_adaptive_max_pool2d_backward, to_places, 2, 2)
FORWARD(composite_adaptive_max_pool3d_backward, to_places, 3, 2)
FORWARD(composite_fractional_max_pool2d_backward, to_places, 2, 4)
FORWARD(composite_fractional_max_pool3d_backward, to_places, 3, 4)

/* ---- mean: (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) ---- */

/* The number of elements of each window, [1, 1, 1, windows]; `padded`: padding counts. */
static tn_tensor *items_of(tn_scope *s, const tni_windows *w, const tn_tensor *like, int32_t padded)
{
    int64_t sizes[2 + TNI_MAX_SPACE] = {1, 1};
    tni_windows plane = *w;
    for (int64_t i = 0; i < w->space; i++) {
        if (padded) plane.in[i] += 2 * plane.padding[i];
        if (padded) plane.padding[i] = 0;
        sizes[2 + i] = plane.in[i];
    }
    tn_ints shape = {sizes, 2 + w->space};
    tn_tensor *ones = tni_full_on(s, like, wide_dtype(dtype_of(like)), shape, tn_value_int(1));
    return tn_sum_dim(s, columns_of(s, &plane, ones, tn_value_int(0)), TN_INTS(2), .keepdim = 1);
}

/* t divided by each window's divisor, from the arguments from ceil_mode on. */
static tn_tensor *shared_out(tn_scope *s, const tni_windows *w, tn_tensor *t, const tn_value *args)
{
    if (arg_given(args, 2)) return tn_div_scalar(s, t, arg_int(args, 2));
    return t ? tn_div(s, t, items_of(s, w, t, arg_bool(args, 1))) : NULL;
}

static void avg_pool(tn_scope *s, const tn_value *args, tn_value *outs, int64_t space)
{
    tn_tensor *self = arg_tensor(args, 0);
    tni_windows w;
    open_windows(args, 0, space, &w);
    count_windows(&w, arg_bool(args, 4));
    tn_tensor *columns = columns_of(s, &w, batched(s, wide(s, self), space), tn_value_int(0));
    tn_tensor *mean = shared_out(s, &w, tn_sum_dim(s, columns, TN_INTS(2), .keepdim = 1), args + 4);
    give_like(s, outs, 0, mean, self, pooled_sizes(s, &w, self), dtype_of(self));
}

FORWARD(composite_avg_pool2d, avg_pool, 2)
FORWARD(composite_avg_pool3d, avg_pool, 3)

static void avg_pool_backward(tn_scope *s, const tn_value *args, tn_value *outs, int64_t space)
{
    tn_tensor *grad = batched(s, wide(s, arg_tensor(args, 0)), space), *self = arg_tensor(args, 1);
    tni_windows w;
    open_windows(args, 1, space, &w);
    count_windows(&w, arg_bool(args, 5));
    if (tn_scope_failed(s)) return;
    int64_t n = tn_tensor_size(grad, 0), c = tn_tensor_size(grad, 1), count = tni_windows_count(&w);
    tn_tensor *share = shared_out(s, &w, tni_reshape(s, grad, TN_INTS(n, c, 1, count)), args + 5);
    tn_tensor *columns = tn_expand(s, share, TN_INTS(n, c, tni_windows_kernel(&w), count));
    give_like(s, outs, 0, tni_windows_fold(s, &w, columns), self, sizes_of(self), dtype_of(self));
}

FORWARD(composite_avg_pool2d_backward, avg_pool_backward, 2)
FORWARD(composite_avg_pool3d_backward, avg_pool_backward, 3)
