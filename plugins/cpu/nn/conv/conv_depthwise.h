/* SPDX-License-Identifier: Apache-2.0 */
/* Between conv_depthwise.c, which owns threads, and conv_depthwise_dtype.c, which owns arithmetic. */
#ifndef TENON_CPU_NN_CONV_DEPTHWISE_H
#define TENON_CPU_NN_CONV_DEPTHWISE_H

#include "conv.h"

typedef struct tni_depthwise_kernels {
    /* y += w * x, x += w * y, and w += x * y for one plane of each. */
    void (*forward)(const tni_conv *c, const void *x, const void *w, void *y);
    void (*data)(const tni_conv *c, void *x, const void *w, const void *y);
    void (*weights)(const tni_conv *c, const void *x, void *w, const void *y);
} tni_depthwise_kernels;

/* NULL for dtypes without them. */
const tni_depthwise_kernels *tni_depthwise_of(tn_dtype dtype);

#endif
