/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding windows over spatial dimensions; see sliding_window.h. */
#include "ops/composite/sliding_window.h"

void tni_windows_spread(const tni_windows *w, tn_ints list, int64_t *to)
{
    for (int64_t i = 0; i < w->space && list.count > 0; i++) to[i] = list.data[list.count == 1 ? 0 : i];
}

int64_t tni_windows_kernel(const tni_windows *w)
{
    int64_t n = 1;
    for (int64_t i = 0; i < w->space; i++) n *= w->kernel[i];
    return n;
}

int64_t tni_windows_count(const tni_windows *w)
{
    int64_t n = 1;
    for (int64_t i = 0; i < w->space; i++) n *= w->out[i];
    return n;
}

/* The extent of the windows, at least the padded size. */
static int64_t extent_of(const tni_windows *w, int64_t i)
{
    int64_t reach = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t padded = w->in[i] + 2 * w->padding[i];
    return reach > padded ? reach : padded;
}

static tn_tensor *surrounded(tn_scope *s, const tni_windows *w, tn_tensor *t, tn_value around)
{
    int64_t pad[2 * TNI_MAX_SPACE], any = 0;
    for (int64_t i = 0; i < w->space; i++) {
        int64_t *p = pad + 2 * (w->space - 1 - i);
        p[0] = w->padding[i];
        p[1] = extent_of(w, i) - w->in[i] - w->padding[i];
        any |= p[0] | p[1];
    }
    tn_ints list = {pad, 2 * w->space};
    return any ? tn_constant_pad_nd(s, t, list, .value = around) : t;
}

/* t has the extent of the windows. */
static tn_tensor *windows_of(tn_scope *s, const tni_windows *w, tn_tensor *t)
{
    int64_t sizes[2 + 2 * TNI_MAX_SPACE], strides[2 + 2 * TNI_MAX_SPACE], n = w->space;
    if (tn_scope_failed(s)) return NULL;
    const int64_t *own = tn_tensor_strides(t);
    for (int64_t i = 0; i < 2; i++) {
        sizes[i] = tni_sizes(t)[i];
        strides[i] = own[i];
    }
    for (int64_t i = 0; i < n; i++) {
        sizes[2 + i] = w->kernel[i];
        strides[2 + i] = own[2 + i] * w->dilation[i];
        sizes[2 + n + i] = w->out[i];
        strides[2 + n + i] = own[2 + i] * w->stride[i];
    }
    tn_ints shape = {sizes, 2 + 2 * n}, steps = {strides, 2 + 2 * n};
    return tn_as_strided(s, t, shape, steps);
}

tn_tensor *tni_windows_view(tn_scope *s, const tni_windows *w, tn_tensor *t, tn_value around)
{
    return windows_of(s, w, surrounded(s, w, t, around));
}

tn_tensor *tni_windows_fold(tn_scope *s, const tni_windows *w, tn_tensor *columns)
{
    int64_t sizes[2 + TNI_MAX_SPACE] = {1, 1}, whole = 1;
    for (int64_t i = 0; i < w->space; i++) whole *= sizes[2 + i] = extent_of(w, i);
    if (tn_scope_failed(s)) return NULL;
    int64_t n = tn_tensor_size(columns, 0), c = tn_tensor_size(columns, 1);
    int64_t items = tni_windows_kernel(w) * tni_windows_count(w);
    tn_ints extent = {sizes, 2 + w->space};
    tn_tensor *index = windows_of(s, w, tni_reshape(s, tni_range_on(s, columns, 0, whole), extent));
    index = tn_expand(s, tni_reshape(s, index, TN_INTS(1, 1, items)), TN_INTS(n, c, items));
    tn_tensor *sum = tni_zeros_on(s, columns, 0, TN_INTS(n, c, whole));
    sum = tn_scatter_add_(s, sum, 2, index, tni_reshape(s, columns, TN_INTS(n, c, items)));
    sizes[0] = n;
    sizes[1] = c;
    sum = tni_reshape(s, sum, extent);
    for (int64_t i = 0; i < w->space; i++) sum = tni_narrow(s, sum, 2 + i, w->padding[i], w->in[i]);
    return sum;
}
