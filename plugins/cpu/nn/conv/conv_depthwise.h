/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of conv_depthwise_dtype.c, for conv_depthwise.c. */
#ifndef TENON_CPU_NN_CONV_DEPTHWISE_H
#define TENON_CPU_NN_CONV_DEPTHWISE_H

#include "conv.h"

typedef struct cpu_conv_depthwise_kernels {
    /* For one plane of each: y += w * x, x += w * y, w += x * y. */
    void (*forward)(const cpu_conv *c, const void *x, const void *w, void *y);
    void (*data)(const cpu_conv *c, void *x, const void *w, const void *y);
    void (*weights)(const cpu_conv *c, const void *x, void *w, const void *y);
} cpu_conv_depthwise_kernels;

#endif
