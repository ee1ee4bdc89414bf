/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax and layer normalisation for processors: an item is a line of contiguous elements of the dtype GPU_DTYPE,
 * which stays in the cache between its passes. Computed in float32, sums in GPU_LANES chains. scalars: the size of a
 * line, lines, and what the kernel says.
 */
#include "dialect.h"

#define GPU_LANES   64
#define GPU_STEP    GPU_BYTES(GPU_DTYPE)
#define GPU_AT(p, i) gpu_load((p) + (int64_t)(i) * GPU_STEP, GPU_DTYPE)

/* The largest element, or NaN. */
GPU_FUNCTION float gpu_line_largest(GPU_GLOBAL const uint8_t *x, uint32_t size)
{
    float lanes[GPU_LANES], most = -INFINITY;
    uint32_t whole = size / GPU_LANES * GPU_LANES;
    for (int j = 0; j < GPU_LANES; j++) lanes[j] = -INFINITY;
    for (uint32_t i = 0; i < whole; i += GPU_LANES)
        for (int j = 0; j < GPU_LANES; j++) {
            float a = GPU_AT(x, i + j);
            lanes[j] = a > lanes[j] || a != a ? a : lanes[j];
        }
    for (int j = 0; j < GPU_LANES; j++) most = lanes[j] > most || lanes[j] != lanes[j] ? lanes[j] : most;
    for (uint32_t i = whole; i < size; i++) {
        float a = GPU_AT(x, i);
        most = a > most || a != a ? a : most;
    }
    return most;
}

/* The sum of f(element), `f` an expression in a. */
#define GPU_LINE_SUM(sum, x, size, f)                                    \
    float sum = 0;                                                       \
    {                                                                    \
        float lanes[GPU_LANES];                                          \
        uint32_t whole = (size) / GPU_LANES * GPU_LANES;                 \
        for (int j = 0; j < GPU_LANES; j++) lanes[j] = 0;                \
        for (uint32_t i = 0; i < whole; i += GPU_LANES)                  \
            for (int j = 0; j < GPU_LANES; j++) {                        \
                float a = GPU_AT(x, i + j);                              \
                lanes[j] += (f);                                         \
            }                                                            \
        for (int pairs = GPU_LANES / 2; pairs > 0; pairs /= 2)           \
            for (int j = 0; j < pairs; j++) lanes[j] += lanes[j + pairs]; \
        for (uint32_t i = whole; i < (size); i++) {                      \
            float a = GPU_AT(x, i);                                      \
            lanes[0] += (f);                                             \
        }                                                                \
        sum = lanes[0];                                                  \
    }

/* scalars[2]: 1 for the logarithm. Operands: out, in. */
GPU_KERNEL void softmax_lines(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], line = gpu_item();
    if (line >= (uint32_t)nest.scalars[1]) return;
    in += nest.offsets[1] + (int64_t)line * size * GPU_STEP;
    out += nest.offsets[0] + (int64_t)line * size * GPU_STEP;
    float most = gpu_line_largest(in, size);
    GPU_LINE_SUM(sum, in, size, exp(a - most))
    if (nest.scalars[2]) {
        float logarithm = log(sum);
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, (GPU_AT(in, i) - most) - logarithm);
    } else {
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, exp(GPU_AT(in, i) - most) / sum);
    }
}

/* scalars[2]: eps; bits of scalars[3]: 1 weight, 2 bias. Operands: out, mean, rstd, in; weight and bias are contiguous. */
GPU_KERNEL void normalize_lines(GPU_GLOBAL uint8_t *out, GPU_GLOBAL uint8_t *means, GPU_GLOBAL uint8_t *rstds,
                                GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const uint8_t *weight,
                                GPU_GLOBAL const uint8_t *bias, int64_t first_weight, int64_t first_bias, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], line = gpu_item();
    if (line >= (uint32_t)nest.scalars[1]) return;
    in += nest.offsets[3] + (int64_t)line * size * GPU_STEP;
    out += nest.offsets[0] + (int64_t)line * size * GPU_STEP;
    weight += first_weight;
    bias += first_bias;
    GPU_LINE_SUM(sum, in, size, a)
    float mean = sum / (float)size;
    GPU_LINE_SUM(squares, in, size, (a - mean) * (a - mean))
    float rstd = 1.0f / sqrt(squares / (float)size + gpu_value(nest.scalars[2]));
    int has_weight = nest.scalars[3] & 1u, has_bias = nest.scalars[3] >> 1 & 1u;
    gpu_store(means + nest.offsets[1] + (int64_t)line * GPU_BYTES(nest.dtypes[1]), nest.dtypes[1], mean);
    gpu_store(rstds + nest.offsets[2] + (int64_t)line * GPU_BYTES(nest.dtypes[2]), nest.dtypes[2], rstd);
    if (has_weight && has_bias) {
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE,
                      (GPU_AT(in, i) - mean) * rstd * GPU_AT(weight, i) + GPU_AT(bias, i));
    } else if (!has_weight && !has_bias) {
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, (GPU_AT(in, i) - mean) * rstd);
    } else {
        for (uint32_t i = 0; i < size; i++) {
            float x = (GPU_AT(in, i) - mean) * rstd;
            if (has_weight) x *= GPU_AT(weight, i);
            if (has_bias) x += GPU_AT(bias, i);
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, x);
        }
    }
}
