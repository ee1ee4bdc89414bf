/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows over the space of a tensor [batch, channels, space...]: what convolution and pooling have in
 * common. They are views with strides, so that any reduction of a window is one over dimensions.
 */
#ifndef TNI_OPS_COMPOSITE_SLIDING_WINDOW_H
#define TNI_OPS_COMPOSITE_SLIDING_WINDOW_H

#include "core/shape.h"
#include "ops/composite/pointwise_lowering.h"

#define TNI_MAX_SPACE 8

typedef struct tni_windows {
    int64_t space; /* dimensions of it */
    int64_t in[TNI_MAX_SPACE], out[TNI_MAX_SPACE];
    int64_t kernel[TNI_MAX_SPACE], stride[TNI_MAX_SPACE], padding[TNI_MAX_SPACE], dilation[TNI_MAX_SPACE];
} tni_windows;

/* The list over all dimensions of space, one item for all or one each. */
void tni_windows_spread(const tni_windows *w, tn_ints list, int64_t *to);
/* Items of all kernels, positions of all windows. */
int64_t tni_windows_kernel(const tni_windows *w);
int64_t tni_windows_count(const tni_windows *w);
/* [n, c, in...] as a view [n, c, kernel..., out...]; `around` is what stands outside. */
tn_tensor *tni_windows_view(tn_scope *s, const tni_windows *w, tn_tensor *t, tn_value around);
/* The opposite: [n, c, kernel..., out...] added up where they come from, [n, c, in...]. */
tn_tensor *tni_windows_fold(tn_scope *s, const tni_windows *w, tn_tensor *columns);
/* The memory format that the strides speak for. */
static inline int32_t tni_format_of(const tn_tensor *t)
{
    return tni_stride_format((uint32_t)rank_of(t), tn_tensor_sizes(t), tn_tensor_strides(t));
}

#endif
