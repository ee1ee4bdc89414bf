/* SPDX-License-Identifier: Apache-2.0 */
/* Between conv_columns.c, conv.c and im2col.c, and the code compiled for each dtype in conv_columns_dtype.c.
 */
#ifndef TENON_CPU_NN_CONV_COLUMNS_H
#define TENON_CPU_NN_CONV_COLUMNS_H

#include "conv.h"
#include "support/kernel_table.h"

typedef struct cpu_column_kernels {
    /* Some channels of one image to their column matrix, and back by addition. */
    void (*to_columns)(const cpu_conv *c, const void *x, int64_t channels, void *columns);
    void (*from_columns)(const cpu_conv *c, const void *columns, int64_t channels, void *x);
    /* Every channel filled with its bias, or with zero. */
    void (*fill_channels)(void *out, int64_t channels, int64_t volume, const void *bias);
    /* out[channel] = sum over batch and positions. */
    void (*sum_channel)(const void *y, int64_t batch, int64_t channels, int64_t channel, int64_t volume,
                        void *out);
} cpu_column_kernels;

extern cpu_kernel_table cpu_column_table;

#endif
