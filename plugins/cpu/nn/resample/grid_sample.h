/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of grid_sample_dtype.c, for grid_sample.c. */
#ifndef TENON_CPU_NN_GRID_SAMPLE_H
#define TENON_CPU_NN_GRID_SAMPLE_H

#include "support/cpu.h"

enum { CPU_GRID_LINEAR, CPU_GRID_NEAREST, CPU_GRID_CUBIC };
enum { CPU_GRID_ZEROS, CPU_GRID_BORDER, CPU_GRID_REFLECTION };

/* Images [batch, channels, in...] and grid [batch, out..., spatial] with x first, contiguous. */
typedef struct cpu_grid_sample {
    int64_t batch, channels, spatial;
    int64_t in[3], out[3]; /* a missing depth is 1 */
    int64_t interpolation, padding;
    bool align;
    const void *x, *grid, *grad;
    void *y;         /* forward: the result; backward: the gradient of the image, or NULL */
    void *grid_grad; /* backward: or NULL */
} cpu_grid_sample;

typedef struct cpu_grid_sample_kernels {
    int64_t acc_bytes;
    /* Output positions [begin, end), counted over batch and space. */
    void (*forward)(const cpu_grid_sample *s, int64_t begin, int64_t end);
    /* Images [begin, end) of the batch; `sums` holds one image of accumulators. */
    void (*backward)(const cpu_grid_sample *s, int64_t begin, int64_t end, void *sums);
} cpu_grid_sample_kernels;

#endif
