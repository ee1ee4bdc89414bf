/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of conv_direct_dtype.c, for conv_direct.c. */
#ifndef TENON_CPU_NN_CONV_DIRECT_H
#define TENON_CPU_NN_CONV_DIRECT_H

#include "conv.h"

/* The largest kernel, in elements, that these passes take. */
#define CPU_DIRECT_KERNEL 64

/* The place of a channel's rows in a grid of zeros. */
typedef struct cpu_grid {
    int64_t size[3];       /* of the channel */
    int64_t width, height; /* of the grid */
    int64_t origin;        /* of the first element */
    int64_t channel_step;
} cpu_grid;

/* One group of one pass, seen as a product of weights (out x in * kernel) with shifted images. */
typedef struct cpu_direct {
    int64_t in_channels, out_channels;
    int64_t kernel_count;
    int64_t offsets[CPU_DIRECT_KERNEL];
    int64_t width, height; /* of the padded image */
    int64_t out_size[3];
    int64_t positions;   /* from the first to the last output, gaps included */
    int64_t image_step;  /* between channels of the padded image */
    int64_t w_out, w_in; /* steps between weights of output and input channels */
    int32_t flip;        /* use the kernel elements in reverse order */
    /* weights pass only */
    int64_t y_step, x_image_step, y_image_step;
} cpu_direct;

typedef struct cpu_conv_direct_kernels {
    int64_t rows;  /* output channels in a block */
    int64_t slack; /* elements that may be read past the last position */
    int64_t lanes;
    void (*place)(void *to, const void *from, const cpu_grid *grid, int64_t channels);
    void (*pack)(void *to, const void *w, const cpu_direct *d);
    void (*image_blocks)(const cpu_direct *d, const void *image, const void *weights, const void *bias,
                         int64_t begin, int64_t end, void *out);
    void (*weights_block)(const cpu_direct *d, const void *x, const void *y, int64_t images, int64_t block,
                          void *out);
} cpu_conv_direct_kernels;

#endif
