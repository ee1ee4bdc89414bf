/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution as this room sees it: one geometry of three spatial dimensions (missing ones have size 1), and
 * three passes over it. A transposed convolution is the backward-data pass of the ordinary one, so no pass
 * knows the word; conv.c translates.
 *
 *   forward           y[n, o] = sum over i, k of w[o, i, k] * x[n, i, position * stride + k * dilation -
 * padding] backward data     x from y and w backward weights  w from x and y
 */
#ifndef TENON_CPU_NN_CONV_H
#define TENON_CPU_NN_CONV_H

#include "support/cpu.h"

typedef struct cpu_conv {
    tn_dtype dtype;
    int32_t spatial; /* 1, 2 or 3: how many of the dimensions below the tensors have */
    int64_t batch, groups;
    int64_t x_channels, y_channels; /* of all groups together */
    int64_t x_size[3], y_size[3];
    int64_t kernel[3], stride[3], padding[3], dilation[3];
} cpu_conv;

enum { CPU_CONV_FORWARD, CPU_CONV_DATA, CPU_CONV_WEIGHTS };

static inline int64_t cpu_volume(const int64_t size[3])
{
    return size[0] * size[1] * size[2];
}

/* From a call whose strides stand at argument `first`, with padding, dilation, transposed, output_padding and
 * groups after it. x and y are those of the ordinary convolution: for a transposed one x is its output. */
cpu_conv cpu_conv_geometry(const tn_call *call, uint32_t first, const tn_tensor_desc *x,
                           const tn_tensor_desc *w, const tn_tensor_desc *y);

/*
 * One pass. Two of x, w, y are read and the third is written; bias (one number for each channel of what is
 * written, forward and data only) may be NULL. All are contiguous.
 */
typedef struct cpu_conv_pass {
    const tn_call *call;
    const cpu_conv *geometry;
    int32_t kind; /* CPU_CONV_... */
    const void *x, *w, *y, *bias;
    void *out;
} cpu_conv_pass;

/* Stride 1, float32 and float64: products with shifted rows, without a column matrix. */
bool cpu_conv_direct_can(const cpu_conv *c, int32_t kind);
int32_t cpu_conv_direct(const cpu_conv_pass *p);
/* Depthwise, float32 and float64: plane by plane. */
bool cpu_conv_depthwise_can(const cpu_conv *c);
int32_t cpu_conv_depthwise(const cpu_conv_pass *p);
/* Everything: the column matrix and a product. */
int32_t cpu_conv_columns(const cpu_conv_pass *p);

#endif
