/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, layer normalisation and their gradients for processors: an item is a line of contiguous elements of the dtype GPU_DTYPE,
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

/* scalars[2]: 1 for the logarithm. Operands: out, in. */
GPU_KERNEL void softmax_lines(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], line = gpu_item();
    if (line >= (uint32_t)nest.scalars[1]) return;
    in += nest.offsets[1] + (int64_t)line * size * GPU_STEP;
    out += nest.offsets[0] + (int64_t)line * size * GPU_STEP;
    float most = gpu_line_largest(in, size);
    float sum = 0;
    GPU_ADD_UP(sum, GPU_LANES, size, float a = GPU_AT(in, at);, exp(a - most))
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

/* The gradient of the above from the one of its result. Operands: out, the result, its gradient. */
GPU_KERNEL void softmax_lines_backward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *result,
                                       GPU_GLOBAL const uint8_t *grad, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], line = gpu_item();
    if (line >= (uint32_t)nest.scalars[1]) return;
    out += nest.offsets[0] + (int64_t)line * size * GPU_STEP;
    result += nest.offsets[1] + (int64_t)line * size * GPU_STEP;
    grad += nest.offsets[2] + (int64_t)line * size * GPU_STEP;
    float sum = 0;
    if (nest.scalars[2]) {
        GPU_ADD_UP(sum, GPU_LANES, size, float g = GPU_AT(grad, at);, g)
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, GPU_AT(grad, i) - exp(GPU_AT(result, i)) * sum);
    } else {
        GPU_ADD_UP(sum, GPU_LANES, size, float g = GPU_AT(grad, at); float y = GPU_AT(result, at);, g * y)
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, (GPU_AT(grad, i) - sum) * GPU_AT(result, i));
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
    float sum = 0;
    GPU_ADD_UP(sum, GPU_LANES, size, float a = GPU_AT(in, at);, a)
    float mean = sum / (float)size;
    float squares = 0;
    GPU_ADD_UP(squares, GPU_LANES, size, float a = GPU_AT(in, at);, (a - mean) * (a - mean))
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

/* The numbers that a line was normalised with; operands 1 and 2 of the nest. */
#define GPU_LINE_NUMBER(p, k, line) \
    gpu_load((p) + nest.offsets[k] + (int64_t)(line) * GPU_BYTES(nest.dtypes[k]), nest.dtypes[k])

/* The gradient of a line. Operands: out, mean, rstd, in; scalars[2], [3]: where grad and weight begin; bit 0 of `immediate`:
 * there is a weight. */
GPU_KERNEL void normalize_lines_backward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *means,
                                         GPU_GLOBAL const uint8_t *rstds, GPU_GLOBAL const uint8_t *in,
                                         GPU_GLOBAL const uint8_t *grad, GPU_GLOBAL const uint8_t *weight, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], line = gpu_item(), has_weight = nest.immediate & 1u;
    if (line >= (uint32_t)nest.scalars[1]) return;
    float mean = GPU_LINE_NUMBER(means, 1, line), rstd = GPU_LINE_NUMBER(rstds, 2, line), sum = 0, dot = 0;
    out += nest.offsets[0] + (int64_t)line * size * GPU_STEP;
    in += nest.offsets[3] + (int64_t)line * size * GPU_STEP;
    grad += (int64_t)nest.scalars[2] + (int64_t)line * size * GPU_STEP;
    weight += (int64_t)nest.scalars[3];
    if (has_weight) {
        GPU_ADD_UP(sum, GPU_LANES, size, float g = GPU_AT(grad, at) * GPU_AT(weight, at);, g)
        GPU_ADD_UP(dot, GPU_LANES, size, float g = GPU_AT(grad, at) * GPU_AT(weight, at); float a = GPU_AT(in, at);
                   , g * (a - mean))
    } else {
        GPU_ADD_UP(sum, GPU_LANES, size, float g = GPU_AT(grad, at);, g)
        GPU_ADD_UP(dot, GPU_LANES, size, float g = GPU_AT(grad, at); float a = GPU_AT(in, at);, g * (a - mean))
    }
    sum /= (float)size;
    dot *= rstd * rstd / (float)size;
    GPU_INDEPENDENT
    for (uint32_t i = 0; i < size; i++) {
        float g = has_weight ? GPU_AT(grad, i) * GPU_AT(weight, i) : GPU_AT(grad, i);
        gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, (g - sum - (GPU_AT(in, i) - mean) * dot) * rstd);
    }
}

/*
 * The gradients of weight and bias over a part of the lines: an item takes GPU_LANES columns of scalars[3] lines, and keeps
 * two sums for each column in `sums`, [2, parts, size]. Operands as above; scalars[2]: where grad begins.
 */
GPU_KERNEL void normalize_columns(GPU_GLOBAL float *sums, GPU_GLOBAL const uint8_t *means, GPU_GLOBAL const uint8_t *rstds,
                                  GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const uint8_t *grad, int64_t first, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], lines = (uint32_t)nest.scalars[1], each = (uint32_t)nest.scalars[3];
    uint32_t parts = (lines + each - 1) / each, part = gpu_item() % parts, column = gpu_item() / parts * GPU_LANES;
    uint32_t end = lines - part * each < each ? lines : part * each + each;
    float of_weight[GPU_LANES], of_bias[GPU_LANES];
    if (column >= size) return;
    uint32_t width = size - column < GPU_LANES ? size - column : GPU_LANES;
    for (int j = 0; j < GPU_LANES; j++) of_weight[j] = of_bias[j] = 0;
    for (uint32_t line = part * each; line < end; line++) {
        float mean = GPU_LINE_NUMBER(means, 1, line), rstd = GPU_LINE_NUMBER(rstds, 2, line);
        int64_t place = ((int64_t)line * size + column) * GPU_STEP;
        GPU_GLOBAL const uint8_t *x = in + nest.offsets[3] + place, *g = grad + (int64_t)nest.scalars[2] + place;
        for (uint32_t j = 0; j < width; j++) {
            of_weight[j] += GPU_AT(g, j) * (GPU_AT(x, j) - mean) * rstd;
            of_bias[j] += GPU_AT(g, j);
        }
    }
    sums += first + (int64_t)part * size + column;
    for (uint32_t j = 0; j < width; j++) {
        sums[j] = of_weight[j];
        sums[(int64_t)parts * size + j] = of_bias[j];
    }
}

/* The sums of the parts, from `first` on: an item a column. */
GPU_KERNEL void add_parts(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const float *sums, int64_t offset, int64_t first,
                          uint32_t size, uint32_t parts)
{
    uint32_t column = gpu_item();
    float sum = 0;
    if (column >= size) return;
    for (uint32_t part = 0; part < parts; part++) sum += sums[first + (int64_t)part * size + column];
    gpu_store(out + offset + (int64_t)column * GPU_STEP, GPU_DTYPE, sum);
}
