/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separable resampling: along each spatial dimension, output o is the sum of weight[o * taps + t] times
 * input at[o * taps + t]. Reflection, replication and nearest neighbour have one tap of weight 1, linear
 * filters two, cubic four, antialiased filters as many as they are wide.
 */
#ifndef TENON_CPU_NN_RESAMPLE_H
#define TENON_CPU_NN_RESAMPLE_H

#include "support/kernel_table.h"

typedef struct cpu_taps {
    int64_t taps;
    int64_t *at;
    double *weight;
    bool has_spare; /* some outputs have fewer inputs than taps: a tap of weight 0 is not read, NaN or not */
} cpu_taps;

typedef struct cpu_resample {
    int64_t planes;
    int64_t in[3], out[3];
    cpu_taps taps[3];
    bool narrow_weights; /* half types: weights are rounded to them */
    const void *x;       /* forward: the input; backward: the gradient, of the output's size */
    void *y;
} cpu_resample;

typedef struct cpu_resample_kernels {
    int64_t line_bytes, acc_bytes; /* of an element of `line` and of `sums` */
    /* Planes [begin, end); `line` holds one line of the input and, forward, a weight for each tap of dimension 2. */
    void (*forward)(const cpu_resample *r, int64_t begin, int64_t end, void *line);
    /* `sums` holds one plane of the input. */
    void (*backward)(const cpu_resample *r, int64_t begin, int64_t end, void *line, void *sums);
    /* For one tap of weight 1 everywhere: moves the elements. */
    void (*move)(const cpu_resample *r, int64_t begin, int64_t end);
    /* Forward in fixed point for images of bytes, or NULL. `memory`: 2 bytes for each tap and in[1] *
     * out[2] elements. */
    void (*forward_images)(const cpu_resample *r, int64_t begin, int64_t end, void *memory);
    /* Forward of channels-last images: lines of outputs [begin, end), image by image. */
    void (*forward_last)(const cpu_resample *r, int64_t channels, int64_t begin, int64_t end);
} cpu_resample_kernels;

extern cpu_kernel_table cpu_resample_table;

/* Fills sizes and taps of dimension i (0 to 2) of the call. */
typedef struct cpu_resample_form {
    uint32_t spatial;
    bool back;
    void (*make_taps)(const tn_call *call, const struct cpu_resample_form *form, const cpu_resample *r, int i,
                      cpu_taps *out);
    /* The largest number of taps of an output in dimension i. */
    int64_t (*count_taps)(const tn_call *call, const struct cpu_resample_form *form, const cpu_resample *r,
                          int i);
    int32_t kind;   /* private to make_taps */
    int32_t align;  /* argument of align_corners, or -1 */
    int32_t scales; /* first argument of the scales, or of the padding */
} cpu_resample_form;

/* The function of all resampling rows; call->data is a cpu_resample_form. */
int32_t cpu_resample_run(void *self, const tn_call *call);

#endif
