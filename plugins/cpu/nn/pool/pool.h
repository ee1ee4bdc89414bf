/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of pool_dtype.c and pool_channels_last_dtype.c, for pool.c. A pooling is a table of windows
 * for each dimension: output o covers inputs lo[o], lo[o] + step, ... below hi[o]. Adaptive pooling differs
 * from others in the table only.
 */
#ifndef TENON_CPU_NN_POOL_H
#define TENON_CPU_NN_POOL_H

#include "support/cpu.h"

typedef struct cpu_pool {
    int64_t planes;   /* images times channels; channels-last: images */
    int64_t channels; /* channels-last: of a pixel */
    int64_t in[3], out[3];
    int64_t step[3];
    const int64_t *lo[3], *hi[3];
    const int64_t *extent[3]; /* of the window with its padding, for averages that include padding; or NULL */
    int64_t divisor;          /* of averages, if not 0 */
    /* Pooling with a stride: output o begins at o * stride - padding. */
    bool plain;
    int64_t kernel[3], stride[3], padding[3];
    const int64_t *from, *to; /* outputs of a line where a kernel element is inside the image */
    int64_t first, last;      /* outputs of a line whose windows are inside the image */
    bool square;              /* two dimensions, equal kernels and strides, small enough for 32-bit indices */
    const void *x;            /* backward: the gradient */
    int64_t *indices;
    void *y;
} cpu_pool;

typedef struct cpu_pool_kernels {
    int64_t acc_bytes;
    /* Planes [begin, end). */
    void (*max)(const cpu_pool *p, int64_t begin, int64_t end);
    void (*average)(const cpu_pool *p, int64_t begin, int64_t end);
    /* `sums` has room for one plane of sums. */
    void (*average_backward)(const cpu_pool *p, int64_t begin, int64_t end, void *sums);
    void (*max_backward)(const cpu_pool *p, int64_t begin, int64_t end, void *sums);
    /* y[index] = x; returns the first bad index, or -1. */
    int64_t (*unpool)(const cpu_pool *p, int64_t begin, int64_t end);
} cpu_pool_kernels;

/* Kernels for channels-last images of less than 2^31 pixels. A forward item is an output pixel, a backward
 * item a block of channels of an image; `sums` has room for one block. unpool is NULL. */
enum { CPU_POOL_BLOCK = 32 };

#endif
