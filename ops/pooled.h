/* SPDX-License-Identifier: Apache-2.0 */
/* The number of pooling windows in a dimension, for shape rules and composites. */
#ifndef TNI_OPS_POOLED_H
#define TNI_OPS_POOLED_H

#include <stdint.h>

static inline int64_t tni_pooled(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                                 int64_t dilation, int32_t ceil)
{
    int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil ? stride - 1 : 0);
    int64_t out = room / stride - (room % stride != 0 && room < 0) + 1;
    /* with ceil_mode the last window must start inside the input or its left padding */
    return ceil && (out - 1) * stride >= size + padding ? out - 1 : out;
}

#endif
