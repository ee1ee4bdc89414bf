/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of conv_columns_dtype.c, for conv.c, conv_columns.c and im2col.c. */
#ifndef TENON_CPU_NN_CONV_COLUMNS_H
#define TENON_CPU_NN_CONV_COLUMNS_H

#include "conv.h"
#include "support/kernel_table.h"

typedef struct cpu_conv_columns_kernels {
    /* Copies channels of one image to their column matrix; from_columns adds a column matrix to them. */
    void (*to_columns)(const cpu_conv *c, const void *x, int64_t channels, void *columns);
    void (*from_columns)(const cpu_conv *c, const void *columns, int64_t channels, void *x);
    /* Fills every channel with its bias, or with 0 if `bias` is NULL. */
    void (*fill_channels)(void *out, int64_t channels, int64_t volume, const void *bias);
    /* out[channel] = sum over batch and positions. */
    void (*sum_channel)(const void *y, int64_t batch, int64_t channels, int64_t channel, int64_t volume,
                        void *out);
} cpu_conv_columns_kernels;

extern cpu_kernel_table cpu_conv_columns_table;

#endif
