/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between pool.c, which has the rows, and pool_dtype.c. A pooling is a table of windows for each dimension:
 * output o covers inputs lo[o], lo[o] + step, ... below hi[o]. Plain and adaptive pooling differ in the table
 * only.
 */
#ifndef TENON_CPU_NN_POOL_H
#define TENON_CPU_NN_POOL_H

#include "support/cpu.h"

typedef struct cpu_pool {
    int64_t planes;   /* images and their channels; channels-last: images */
    int64_t channels; /* channels-last: of a pixel */
    int64_t in[3], out[3];
    int64_t step[3];
    const int64_t *lo[3], *hi[3];
    const int64_t *extent[3]; /* of the window with its padding, for averages that count it; or NULL */
    int64_t divisor;          /* of averages, when not 0 */
    /* Plain pooling: output o begins at o * stride - padding. */
    bool plain;
    int64_t kernel[3], stride[3], padding[3];
    const int64_t *from, *to; /* for each kernel element of a line: the outputs at which it lies inside */
    int64_t first, last;      /* outputs of a line whose windows lie inside */
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
    /* `sums` holds one plane of accumulators, or is NULL when T is the accumulator. */
    void (*average_backward)(const cpu_pool *p, int64_t begin, int64_t end, void *sums);
    void (*max_backward)(const cpu_pool *p, int64_t begin, int64_t end, void *sums);
    /* y[index] = x; returns the first bad index, or -1. */
    int64_t (*unpool)(const cpu_pool *p, int64_t begin, int64_t end);
} cpu_pool_kernels;

/*
 * The same of channels-last images, whose pixels are less than 2^31. Forward ranges are of lines of outputs,
 * backward ones of blocks of channels, image by image; `sums` holds one block. No unpool.
 */
enum { CPU_POOL_BLOCK = 32 };

#endif
