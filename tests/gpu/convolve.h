/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions for the libraries of tests: all passes, in the plainest way, as inexact as a library says. */
#ifndef TENON_TESTS_GPU_CONVOLVE_H
#define TENON_TESTS_GPU_CONVOLVE_H

#include "stand_in.h"

/* How a library computes: bits of `how`. */
enum {
    REDUCES_SUMS = 1,   /* in the dtype of the elements */
    ROUNDS_FLOAT32 = 2, /* to the mantissa of float16, which is that of TF32 */
    ROUNDS_FLOAT16 = 4, /* to bfloat16 */
    CHANGES_THE_ORDER = 8
};

typedef struct convolution {
    int pass, how, axes, turn;
    tn_dtype dtype;
    int64_t sizes[3][5]; /* of in, weight, out; absent axes are 1 */
    int64_t strides[3], paddings[3], dilations[3];
    uint64_t memory[3], workspace;
    size_t workspace_bytes;
} convolution;

static double element(const convolution *c, const char *at, int64_t i)
{
    double value = tn_number_load(c->dtype, at + i * (int64_t)(TN_DTYPE_BITS(c->dtype) / 8)).f;
    if ((c->how & ROUNDS_FLOAT32) && c->dtype == TN_FLOAT32) return rounded(TN_FLOAT16, value);
    if ((c->how & ROUNDS_FLOAT16) && c->dtype == TN_FLOAT16) return rounded(TN_BFLOAT16, value);
    return value;
}

typedef struct sum {
    float narrow;
    double wide;
} sum;

static void add(const convolution *c, sum *s, double product)
{
    s->wide += product;
    s->narrow += (float)product;
    if (c->how & REDUCES_SUMS) s->narrow = (float)rounded(c->dtype, (double)s->narrow);
}

static int64_t volume(const int64_t *sizes, int first)
{
    int64_t n = 1;
    for (int i = first; i < 5; i++) n *= sizes[i];
    return n;
}

/* The places of a tensor in row-major order. */
static void unravel(int64_t i, const int64_t *sizes, int64_t *out)
{
    for (int d = 4; d >= 0; d--) {
        out[d] = i % sizes[d];
        i /= sizes[d];
    }
}

static int64_t ravel(const int64_t *at, const int64_t *sizes)
{
    int64_t i = 0;
    for (int d = 0; d < 5; d++) i = i * sizes[d] + at[d];
    return i;
}

/* Adds each product of a window and an element of the kernel to what the pass computes. */
static void compute(const convolution *c, char *const at[3], sum *sums)
{
    const int64_t groups = c->sizes[0][1] / c->sizes[1][1], in_group = c->sizes[1][1];
    const int64_t outs = volume(c->sizes[2], 0), terms = volume(c->sizes[1], 1);
    for (int64_t n = 0; n < outs; n++) {
        int64_t o[5], w[5], x[5];
        unravel(n, c->sizes[2], o);
        for (int64_t t = 0; t < terms; t++) {
            const int64_t turned = c->how & CHANGES_THE_ORDER ? (t + c->turn) % terms : t;
            unravel(o[1] * terms + turned, c->sizes[1], w);
            x[0] = o[0];
            x[1] = o[1] / (c->sizes[1][0] / groups) * in_group + w[1];
            int is_inside = 1;
            for (int d = 0; d < 3; d++) {
                x[2 + d] = o[2 + d] * c->strides[d] - c->paddings[d] + w[2 + d] * c->dilations[d];
                is_inside &= x[2 + d] >= 0 && x[2 + d] < c->sizes[0][2 + d];
            }
            if (!is_inside) continue;
            const int64_t places[3] = {ravel(x, c->sizes[0]), ravel(w, c->sizes[1]), n};
            const int result = c->pass == 0 ? 2 : c->pass == 1 ? 0 : 1;
            double product = 1;
            for (int k = 0; k < 3; k++)
                if (k != result) product *= element(c, at[k], places[k]);
            add(c, &sums[places[result]], product);
        }
    }
}

/* The pass over tensors in row-major order; 0: there is no memory. */
static int convolve_all(const convolution *c, char *const at[3])
{
    const int result = c->pass == 0 ? 2 : c->pass == 1 ? 0 : 1;
    const int64_t n = volume(c->sizes[result], 0), bytes = TN_DTYPE_BITS(c->dtype) / 8;
    sum *sums = calloc((size_t)n, sizeof *sums);
    if (!sums) return 0;
    compute(c, at, sums);
    for (int64_t i = 0; i < n; i++)
        tn_number_store(c->dtype, at[result] + i * bytes,
                        tn_number_real(c->dtype == TN_FLOAT64 ? sums[i].wide : (double)sums[i].narrow));
    free(sums);
    return 1;
}

#endif
