/* SPDX-License-Identifier: Apache-2.0 */
/* Between conv_depthwise.c, which owns threads, and conv_depthwise_dtype.c, which owns arithmetic. */
#ifndef TENON_CPU_NN_CONV_DEPTHWISE_H
#define TENON_CPU_NN_CONV_DEPTHWISE_H

#include "conv.h"

typedef struct cpu_depthwise_kernels {
    /* y += w * x, x += w * y, and w += x * y for one plane of each. */
    void (*forward)(const cpu_conv *c, const void *x, const void *w, void *y);
    void (*data)(const cpu_conv *c, void *x, const void *w, const void *y);
    void (*weights)(const cpu_conv *c, const void *x, void *w, const void *y);
} cpu_depthwise_kernels;

#endif
