/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of batch_norm_dtype.c and layer_norm_dtype.c. Parameters are arrays of T (float for half
 * types).
 */
#ifndef TENON_CPU_NN_NORM_H
#define TENON_CPU_NN_NORM_H

#include "support/cpu.h"

/* Data by channels: [batch, channels, inner] row-major, or with `channels_last` [batch * inner, channels]. */
typedef struct cpu_channels {
    const tn_call *call;
    int64_t batch, channels, inner;
    bool channels_last;
    const void *x, *grad;
    void *out;
} cpu_channels;

typedef struct cpu_batch_norm_kernels {
    int64_t acc_bytes;
    void (*read)(const tn_tensor_desc *t, int64_t count, double otherwise, void *to);
    void (*write)(const void *from, int64_t count, const tn_tensor_desc *t);
    /* Mean and biased variance of each channel. */
    int32_t (*moments)(const cpu_channels *d, void *mean, void *var);
    /* out = x * scale + shift. */
    void (*affine)(const cpu_channels *d, const void *scale, const void *shift);
    /* Rounds values times `factor` to a half dtype, because statistics saved in it are used as saved. */
    void (*round)(void *values, int64_t count, tn_dtype dtype, double factor);
    /* 1 / sqrt(var + eps). */
    void (*inverse)(const void *var, int64_t channels, double eps, void *invstd);
    /* scale = invstd * weight, shift = bias - mean * scale. */
    void (*coefficients)(int64_t channels, const void *mean, const void *invstd, const void *weight,
                         const void *bias, void *scale, void *shift);
    /* running = momentum * new + (1 - momentum) * running, with the unbiased variance. */
    void (*update)(const void *mean, const void *var, int64_t channels, int64_t count, double momentum,
                   const tn_tensor_desc *running_mean, const tn_tensor_desc *running_var);
    /* Sums of grad and of grad * (x - mean). */
    int32_t (*backward_sums)(const cpu_channels *d, const void *mean, void *sum, void *dot);
    /* out = (grad - sum / n - (x - mean) * invstd^2 * dot / n) * invstd * weight, or without `train` grad
     * * invstd * weight. */
    int32_t (*backward)(const cpu_channels *d, const void *mean, const void *invstd, const void *weight,
                        const void *sum, const void *dot, bool train);
    /* to[i] *= by[i]. */
    void (*scale)(const void *by, int64_t count, void *to);
} cpu_batch_norm_kernels;

/*
 * Runs of elements that are normalised together, each of `segments` segments of `width` elements. Layer
 * normalisation has one segment and a weight per element. In group normalisation a segment is a channel, and
 * segment s of run r has weight (r % groups) * segments + s.
 */
typedef struct cpu_runs {
    int64_t count;    /* of runs */
    int64_t segments; /* of a run: channels of a group */
    int64_t width;    /* elements of a segment */
    int64_t groups;
    bool by_element;
    bool about_zero; /* root mean square: the mean counts as 0 */
    double eps;
    const void *x, *grad;
    const void *weight, *bias; /* arrays of T, or NULL */
    void *out;
    void *mean, *rstd; /* T, one per run */
} cpu_runs;

typedef struct cpu_layer_norm_kernels {
    int64_t acc_bytes;
    void (*read)(const tn_tensor_desc *t, int64_t count, double otherwise, void *to);
    void (*write)(const void *from, int64_t count, const tn_tensor_desc *t);
    /* Runs [begin, end). */
    void (*forward)(const cpu_runs *runs, int64_t begin, int64_t end);
    void (*backward)(const cpu_runs *runs, int64_t begin, int64_t end);
    /* Layer normalisation: adds rows [begin, end) to sums for weight and bias. */
    void (*row_parameters)(const cpu_runs *runs, int64_t begin, int64_t end, void *weight, void *bias);
    /* Group normalisation: gradients of channel c over the batch. */
    void (*channel_parameters)(const cpu_runs *runs, int64_t channel, void *weight, void *bias);
    /* to[i] += from[i] */
    void (*add)(void *to, const void *from, int64_t count);
} cpu_layer_norm_kernels;

#endif
