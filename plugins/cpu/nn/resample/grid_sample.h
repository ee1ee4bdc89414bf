/* SPDX-License-Identifier: Apache-2.0 */
/* Between grid_sample.c, which has the rows, and grid_sample_dtype.c. */
#ifndef TENON_CPU_NN_GRID_SAMPLE_H
#define TENON_CPU_NN_GRID_SAMPLE_H

#include "nn/nn.h"

enum { TNI_GRID_LINEAR, TNI_GRID_NEAREST, TNI_GRID_CUBIC };
enum { TNI_GRID_ZEROS, TNI_GRID_BORDER, TNI_GRID_REFLECTION };

/* Images [batch, channels, in...], grid [batch, out..., spatial] with x first; everything row-major. */
typedef struct tni_grid_sample {
    int64_t batch, channels, spatial;
    int64_t in[3], out[3]; /* a missing depth is 1 */
    int64_t interpolation, padding;
    bool align;
    const void *x, *grid, *grad;
    void *y;         /* forward: the result; backward: the gradient of the image, or NULL */
    void *grid_grad; /* backward: or NULL */
} tni_grid_sample;

typedef struct tni_grid_sample_kernels {
    int64_t acc_bytes;
    /* Output positions [begin, end), counted over batch and space. */
    void (*forward)(const tni_grid_sample *s, int64_t begin, int64_t end);
    /* Images [begin, end) of the batch; `sums` holds one image of accumulators. */
    void (*backward)(const tni_grid_sample *s, int64_t begin, int64_t end, void *sums);
} tni_grid_sample_kernels;

const tni_grid_sample_kernels *tni_grid_samples_of(tn_dtype dtype);

#endif
