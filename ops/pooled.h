/* SPDX-License-Identifier: Apache-2.0 */
/* How many windows of pooling fit in a dimension: what its shape rules and its bodies have in common. */
#ifndef TNI_OPS_POOLED_H
#define TNI_OPS_POOLED_H

#include <stdint.h>

static inline int64_t tni_pooled(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                                 int64_t dilation, int32_t ceil)
{
    int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil ? stride - 1 : 0);
    int64_t out = room / stride - (room % stride != 0 && room < 0) + 1;
    /* The last window begins inside the input or its left padding. */
    return ceil && (out - 1) * stride >= size + padding ? out - 1 : out;
}

#endif
