/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The geometry of a convolution, in three spatial dimensions (missing ones have size 1), and its three passes:
 *
 *   forward            y[n, o, p] = sum over i, k of w[o, i, k] * x[n, i, p * stride + k * dilation - padding]
 *   backward data      x from y and w, the same sums transposed
 *   backward weights   w from x and y
 *
 * A transposed convolution is the backward-data pass of the ordinary one; conv.c translates it.
 */
#ifndef TENON_CPU_NN_CONV_H
#define TENON_CPU_NN_CONV_H

#include "support/cpu.h"

typedef struct cpu_conv {
    tn_dtype dtype;
    int32_t spatial; /* 1, 2 or 3: the number of spatial dimensions of the tensors */
    int64_t batch, groups;
    int64_t x_channels, y_channels; /* of all groups together */
    int64_t x_size[3], y_size[3];
    int64_t kernel[3], stride[3], padding[3], dilation[3];
} cpu_conv;

enum { CPU_CONV_FORWARD, CPU_CONV_DATA, CPU_CONV_WEIGHTS };

/*
 * The geometry of a call with `stride` at argument `first`, followed by padding, dilation, transposed,
 * output_padding and groups. x and y are those of the ordinary convolution, so x is the output of a
 * transposed one.
 */
cpu_conv cpu_conv_geometry(const tn_call *call, uint32_t first, const tn_tensor_desc *x,
                           const tn_tensor_desc *w, const tn_tensor_desc *y);

/* One pass reads two of x, w, y and writes the third. `bias` has one element for each channel of the
 * result (forward and data only) and may be NULL. All are contiguous. */
typedef struct cpu_conv_pass {
    const tn_call *call;
    const cpu_conv *geometry;
    int32_t kind; /* CPU_CONV_... */
    const void *x, *w, *y, *bias;
    void *out;
} cpu_conv_pass;

/* For stride 1, float32 and float64: products with shifted rows, without a column matrix. */
bool cpu_conv_direct_can(const cpu_conv *c, int32_t kind);
int32_t cpu_conv_direct(const cpu_conv_pass *p);
/* For depthwise convolution in float32 and float64: plane by plane. */
bool cpu_conv_depthwise_can(const cpu_conv *c);
int32_t cpu_conv_depthwise(const cpu_conv_pass *p);
/* For all geometries and dtypes: a column matrix and a product. */
int32_t cpu_conv_columns(const cpu_conv_pass *p);

/* The rows of conv.c, which run every call. */
int32_t cpu_conv_run(void *self, const tn_call *call);
int32_t cpu_conv_run_backward(void *self, const tn_call *call);

/* The gradient of the bias: sums over the images of each channel. */
int32_t cpu_conv_bias_gradient(const tn_call *call, const tn_tensor_desc *grad, const tn_tensor_desc *out);

#endif
