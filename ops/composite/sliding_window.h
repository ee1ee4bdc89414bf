/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sliding windows over the spatial dimensions of a tensor [batch, channels, space...], for convolution and
 * pooling. They are strided views, so a reduction of a window is a reduction over dimensions.
 */
#ifndef TNI_OPS_COMPOSITE_SLIDING_WINDOW_H
#define TNI_OPS_COMPOSITE_SLIDING_WINDOW_H

#include "core/shape.h"
#include "ops/composite/pointwise_lowering.h"

#define TNI_MAX_SPACE 8

typedef struct tni_windows {
    int64_t space; /* number of spatial dimensions */
    int64_t in[TNI_MAX_SPACE], out[TNI_MAX_SPACE];
    int64_t kernel[TNI_MAX_SPACE], stride[TNI_MAX_SPACE], padding[TNI_MAX_SPACE], dilation[TNI_MAX_SPACE];
} tni_windows;

/* Expands a list to all spatial dimensions: one item for all, or one for each. */
void tni_windows_spread(const tni_windows *w, tn_ints list, int64_t *to);
/* The number of kernel elements, and of windows. */
int64_t tni_windows_kernel(const tni_windows *w);
int64_t tni_windows_count(const tni_windows *w);
/* [n, c, in...] as a view [n, c, kernel..., out...]; `around` is the padding value. */
tn_tensor *tni_windows_view(tn_scope *s, const tni_windows *w, tn_tensor *t, tn_value around);
/* The adjoint: [n, c, kernel..., out...] added to the elements they come from, [n, c, in...]. */
tn_tensor *tni_windows_fold(tn_scope *s, const tni_windows *w, tn_tensor *columns);
/* The memory format that the strides suggest. */
static inline int32_t tni_format_of(const tn_tensor *t)
{
    return tni_stride_format((uint32_t)rank_of(t), tni_sizes(t), tn_tensor_strides(t));
}

#endif
