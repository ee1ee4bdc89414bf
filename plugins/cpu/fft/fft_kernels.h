/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of fft_dtype.c, for fft.c. A cell is two vectors: the real and the imaginary parts of one element of
 * several lines. Backward transforms are forward ones with real and imaginary parts exchanged.
 */
#ifndef TENON_CPU_FFT_KERNELS_H
#define TENON_CPU_FFT_KERNELS_H

#include "fft_plan.h"

enum { CPU_FFT_MAX_LANES = 16 };

typedef enum cpu_fft_kind {
    CPU_FFT_COMPLEX,
    CPU_FFT_REAL_IN,  /* real to complex, forward */
    CPU_FFT_REAL_OUT, /* complex to real, backward */
} cpu_fft_kind;

/* Lines that are transformed together, one in each lane. Lines may be written in place. */
typedef struct cpu_fft_lanes {
    const cpu_fft_plan *plan; /* of n; of n / 2 for a real signal of even n */
    cpu_fft_kind kind;
    int64_t n;       /* elements of the signal */
    int64_t written; /* elements of an output line */
    bool backward;
    double scale;
    int32_t count;             /* lines */
    int64_t in_step, out_step; /* bytes from one element of a line to the next */
    const char *in[CPU_FFT_MAX_LANES];
    char *out[CPU_FFT_MAX_LANES];
    void *scratch;
} cpu_fft_lanes;

/* A line of contiguous complex elements; `plan` is split. */
typedef struct cpu_fft_line {
    const cpu_fft_plan *plan;
    const void *in;
    void *out;    /* may be `in` */
    void *middle; /* middle_bytes: the line between columns and rows */
    bool backward;
    double scale;
} cpu_fft_line;

typedef struct cpu_fft_kernels {
    int32_t lanes; /* of a vector */
    int64_t cell_bytes;
    void (*run_lanes)(const cpu_fft_lanes *l);
    /* Groups [begin, end) of columns, then of rows. `scratch` has room for 2 max(columns.n, rows.n) cells. */
    void (*run_columns)(const cpu_fft_line *l, void *scratch, int64_t begin, int64_t end);
    void (*run_rows)(const cpu_fft_line *l, void *scratch, int64_t begin, int64_t end);
    /* out = scale a b, pairs; parts of a, of out are exchanged if asked for. */
    void (*multiply)(const void *a, const void *b, void *out, int64_t n, bool exchange_a, bool exchange_out,
                     double scale);
    /* For pairs k, n - k with k in [begin, end), 0 to n / 2: the spectrum of the real signal of 2 n from the transform
     * of its pairs, and back. In place; both spectra have n + 1 elements. */
    void (*unpack)(const cpu_fft_plan *plan, void *data, double scale, int64_t begin, int64_t end);
    void (*pack)(const cpu_fft_plan *plan, const void *in, void *out, int64_t begin, int64_t end);
} cpu_fft_kernels;

/* The kernels for a real dtype, float32 or float64, at this process's level. */
const cpu_fft_kernels *cpu_fft_kernels_of(tn_dtype dtype);

#endif
