/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of Fourier transforms: everything about a length that does not depend on the data. A plan has one of
 * three forms.
 *
 *   passes     The length is a product of 2, 3, 4, 5, 7, 8, 11 and 13: Stockham's algorithm (D. Swarztrauber,
 *              "FFT algorithms for vector computers", 1984), one pass for each factor, without reordering.
 *   split      A long line: a matrix of columns.n rows and rows.n columns, transformed along its columns, then
 *              along its rows (D. Bailey, "FFTs in external or hierarchical memory", 1990).
 *   padded     Other lengths: a convolution with a chirp, as a product of transforms of a longer length (L. I.
 *              Bluestein, 1970).
 *
 * Twiddle factors are computed in float64 and rounded to the dtype. Plans do not change once they are made; the
 * latest are kept for all contexts of the process.
 */
#ifndef TENON_CPU_FFT_PLAN_H
#define TENON_CPU_FFT_PLAN_H

#include "support/cpu.h"

enum { CPU_FFT_PASSES = 48, CPU_FFT_TABLES = CPU_FFT_PASSES + 8 };

/* With x of `groups` and y of `stride`: out[y + stride (radix x + k)] is the k-th output of the transform of the
 * `radix` elements in[y + stride (x + groups j)], times the k-th of the `radix` - 1 twiddle factors of x. */
typedef struct cpu_fft_pass {
    int64_t groups, stride;
    int32_t radix;
    const void *twiddles; /* pairs */
} cpu_fft_pass;

typedef struct cpu_fft_plan cpu_fft_plan;
struct cpu_fft_plan {
    int64_t n;
    int32_t pass_count;
    cpu_fft_pass passes[CPU_FFT_PASSES];

    cpu_fft_plan *columns, *rows; /* split; NULL in the other forms */
    /* The factor of row i and column j is e^(-2 pi i j / n). Groups have as many columns as a vector has lanes. */
    const void *group_twiddles; /* [group, row], pairs; or, if lane_twiddles is NULL, [group, row] cells */
    const void *lane_twiddles;  /* [row] cells */

    cpu_fft_plan *padded;         /* NULL in the other forms */
    const void *chirp, *spectrum; /* pairs: n of e^(-pi i k^2 / n); padded->n of the transformed conjugate */

    const void
        *turns; /* real signals of 2 n: pairs e^(-pi i k / n), k from 0 to n / 2; NULL if not asked for */

    int32_t table_count;
    void *tables[CPU_FFT_TABLES];
    int64_t bytes;
};

typedef enum cpu_fft_form {
    CPU_FFT_LANES, /* several lines at once, one in each lane of a vector: passes, or padded to passes */
    CPU_FFT_LINE,  /* one line at a time: split, or padded to split */
} cpu_fft_form;

typedef struct cpu_fft_key {
    int64_t n;
    tn_dtype dtype; /* TN_FLOAT32 or TN_FLOAT64 */
    cpu_fft_form form;
    bool has_turns;
} cpu_fft_key;

/* Whether a line of n can have the form CPU_FFT_LINE: it is long enough to fill vectors both ways. */
bool cpu_fft_fits_line(int64_t n, tn_dtype dtype);

/* Takes a plan, to be given back; NULL and a recorded error if out of memory. From any thread. */
const cpu_fft_plan *cpu_fft_plan_take(const tn_call *call, const cpu_fft_key *key);
void cpu_fft_plan_give_back(const cpu_fft_plan *plan);

#endif
