/* SPDX-License-Identifier: Apache-2.0 */
/* What host code and device code share of Fourier transforms: device/fft.cl has the kernel. */
#ifndef TENON_GPU_TRANSFORM_H
#define TENON_GPU_TRANSFORM_H

#include "arguments.h"

/* Pairs that a group transforms in its memory. They are there twice, in 32 KiB. */
#define GPU_FFT_POINTS_32    2048
#define GPU_FFT_POINTS_64    1024
#define GPU_FFT_POINTS(type) ((type) == 64 ? GPU_FFT_POINTS_64 : GPU_FFT_POINTS_32)
#define GPU_FFT_RADICES      12

/* Tables, each of pairs of T; `tables` has their places in one memory, in pairs. */
enum {
    GPU_FFT_ROOTS,  /* e^(-2 pi i k / points), for all k below `points` */
    GPU_FFT_FINE,   /* e^(-2 pi i k / n) of the whole line of n points, for k below `fine` */
    GPU_FFT_COARSE, /* and for multiples of `fine` */
    GPU_FFT_BEFORE, /* factors of the elements that are read, */
    GPU_FFT_AMID,   /* of those between the two rounds, */
    GPU_FFT_AFTER,  /* and of those that are written */
    GPU_FFT_TABLES
};

#define GPU_FFT_LINES_NEAR 1u /* neighbouring transforms are of neighbouring lines, not of one line */
#define GPU_FFT_IN_NEAR \
    2u /* neighbouring items read elements of neighbouring transforms, not of one transform; */
#define GPU_FFT_OUT_NEAR   4u /* they write these */
#define GPU_FFT_REAL_IN    8u
#define GPU_FFT_REAL_OUT   16u
#define GPU_FFT_HALF_IN    32u  /* the input is the first half of the spectrum of a real line of `size` */
#define GPU_FFT_TURN_IN    64u  /* elements are conjugated when they are read, */
#define GPU_FFT_TURN_AMID  128u /* before AFTER, */
#define GPU_FFT_TURN_OUT   256u /* and after it */
#define GPU_FFT_HAS_BEFORE 512u
#define GPU_FFT_HAS_AFTER  1024u

/*
 * A pass over lines: `others` transforms of `points` points in each line, which earlier passes have combined to `stride`
 * frequencies. Operand 0 is out, operand 1 is in; the nest has the other dimensions, steps are along the line.
 */
typedef struct gpu_fft {
    uint32_t transforms; /* in all lines of this launch */
    uint32_t points, others, stride;
    uint32_t lanes;        /* transforms of a group */
    uint32_t lines, first; /* lines of this launch, and its first one */
    uint32_t size;
    uint32_t given, kept; /* elements of a line that are read, those behind are 0, and that are written */
    uint32_t flags, rounds, fine;
    uint32_t n_radices;
    uint32_t radices[GPU_FFT_RADICES];
    int64_t tables[GPU_FFT_TABLES];
    uint64_t scale; /* the bits of a T */
    uint32_t rank, reserved;
    uint32_t sizes[GPU_RANK];
    int64_t strides[GPU_OPERANDS][GPU_RANK]; /* in bytes, as the rest */
    int64_t steps[2], offsets[2];
} gpu_fft;

#endif
