/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, layer normalisation, normalisation by the root mean square, and their gradients, of lines of elements of the dtype
 * GPU_DTYPE. On processors an item is a contiguous line, which stays in the cache between its passes; sums have GPU_LANES chains.
 * On GPUs `width` items, a power of two that divides a group, take a line together: neighbouring items read neighbouring
 * elements, and what they found is merged as a tree. scalars: the size of a line, lines, and what the kernel says.
 */
#include "exponential.h"

#define GPU_STEP    GPU_BYTES(GPU_DTYPE)
#define GPU_AT(p, i) gpu_load((p) + (int64_t)(i) * GPU_STEP, GPU_DTYPE)
/* The numbers that a line was normalised with; operands 1 and 2 of the nest. Bit 1 of `immediate`: around 0, not a mean. */
#define GPU_LINE_NUMBER(p, k, line) \
    gpu_load((p) + nest.offsets[k] + (int64_t)(line) * GPU_BYTES(nest.dtypes[k]), nest.dtypes[k])
#define GPU_LINE_MEAN(p, line) (nest.immediate & 2u ? (T)0 : GPU_LINE_NUMBER(p, 1, line))

#if GPU_PROCESSOR
#define GPU_LANES 64

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
    if (nest.scalars[2]) {
        GPU_ADD_UP(sum, GPU_LANES, size, float a = GPU_AT(in, at);, exp(a - most))
        float logarithm = log(sum);
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, (GPU_AT(in, i) - most) - logarithm);
    } else {
#if GPU_DTYPE == GPU_F32 /* the result has room for the exponentials */
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, exp(GPU_AT(in, i) - most));
        GPU_ADD_UP(sum, GPU_LANES, size, float a = GPU_AT(out, at);, a)
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, GPU_AT(out, i) / sum);
#else
        GPU_ADD_UP(sum, GPU_LANES, size, float a = GPU_AT(in, at);, exp(a - most))
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < size; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, exp(GPU_AT(in, i) - most) / sum);
#endif
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

/* scalars[2]: eps; bits of scalars[3]: 1 weight, 2 bias, 4 around 0. Operands: out, mean, rstd, in; weight and bias are contiguous. */
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
    int has_mean = !(nest.scalars[3] & 4u);
    if (has_mean) GPU_ADD_UP(sum, GPU_LANES, size, float a = GPU_AT(in, at);, a)
    float mean = sum / (float)size;
    float squares = 0;
    GPU_ADD_UP(squares, GPU_LANES, size, float a = GPU_AT(in, at);, (a - mean) * (a - mean))
    float rstd = 1.0f / sqrt(squares / (float)size + gpu_value(nest.scalars[2]));
    int has_weight = nest.scalars[3] & 1u, has_bias = nest.scalars[3] >> 1 & 1u;
    if (has_mean)
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

/*
 * Groups of channels: line l is group l % values[0] of an image, values[1] channels of values[2] elements. Otherwise as
 * normalize_lines with a mean; weight and bias have an element for each channel.
 */
GPU_KERNEL void normalize_channels(GPU_GLOBAL uint8_t *out, GPU_GLOBAL uint8_t *means, GPU_GLOBAL uint8_t *rstds,
                                   GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const uint8_t *weight,
                                   GPU_GLOBAL const uint8_t *bias, int64_t first_weight, int64_t first_bias, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], line = gpu_item(), channels = (uint32_t)nest.values[1];
    uint32_t inner = (uint32_t)nest.values[2], channel = line % (uint32_t)nest.values[0] * channels;
    if (line >= (uint32_t)nest.scalars[1]) return;
    in += nest.offsets[3] + (int64_t)line * size * GPU_STEP;
    out += nest.offsets[0] + (int64_t)line * size * GPU_STEP;
    weight += first_weight;
    bias += first_bias;
    float sum = 0, squares = 0;
    GPU_ADD_UP(sum, GPU_LANES, size, float a = GPU_AT(in, at);, a)
    float mean = sum / (float)size;
    GPU_ADD_UP(squares, GPU_LANES, size, float a = GPU_AT(in, at);, (a - mean) * (a - mean))
    float rstd = 1.0f / sqrt(squares / (float)size + gpu_value(nest.scalars[2]));
    gpu_store(means + nest.offsets[1] + (int64_t)line * GPU_BYTES(nest.dtypes[1]), nest.dtypes[1], mean);
    gpu_store(rstds + nest.offsets[2] + (int64_t)line * GPU_BYTES(nest.dtypes[2]), nest.dtypes[2], rstd);
    for (uint32_t c = 0; c < channels; c++, in += (int64_t)inner * GPU_STEP, out += (int64_t)inner * GPU_STEP) {
        float scale = nest.scalars[3] & 1u ? GPU_AT(weight, channel + c) : 1.0f;
        float added = nest.scalars[3] & 2u ? GPU_AT(bias, channel + c) : 0.0f;
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < inner; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, (GPU_AT(in, i) - mean) * rstd * scale + added);
    }
}

/* The gradient of a line. Operands: out, mean, rstd, in; scalars[2], [3]: where grad and weight begin; bit 0 of `immediate`:
 * there is a weight. */
GPU_KERNEL void normalize_lines_backward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *means,
                                         GPU_GLOBAL const uint8_t *rstds, GPU_GLOBAL const uint8_t *in,
                                         GPU_GLOBAL const uint8_t *grad, GPU_GLOBAL const uint8_t *weight, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], line = gpu_item(), has_weight = nest.immediate & 1u;
    if (line >= (uint32_t)nest.scalars[1]) return;
    float mean = GPU_LINE_MEAN(means, line), rstd = GPU_LINE_NUMBER(rstds, 2, line), sum = 0, dot = 0;
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
    sum = nest.immediate & 2u ? 0 : sum / (float)size;
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
        float mean = GPU_LINE_MEAN(means, line), rstd = GPU_LINE_NUMBER(rstds, 2, line);
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

#else

/* For k of an item of a line: several reads before the first is used. `body` gets the place `at` among the line's elements. */
#define GPU_EACH_OF_LINE(body)                                                            \
    for (; k + (GPU_AHEAD - 1) * width < end; k += GPU_AHEAD * width) {                   \
        T x[GPU_AHEAD];                                                                   \
        for (uint32_t j = 0; j < GPU_AHEAD; j++) x[j] = GPU_AT(in, (k + j * width) * inner); \
        for (uint32_t j = 0; j < GPU_AHEAD; j++) {                                        \
            T a = x[j];                                                                   \
            body                                                                          \
        }                                                                                 \
    }                                                                                     \
    for (; k < end; k += width) {                                                         \
        T a = GPU_AT(in, k *inner);                                                       \
        body                                                                              \
    }

/* What an exponential adds to a sum of exponentials minus `most`. While all are -inf the sum counts them. */
GPU_FUNCTION T gpu_share(T a, T most)
{
    return a == -INFINITY ? (most == -INFINITY ? (T)1 : (T)0) : FN(exp)(a - most);
}
GPU_FUNCTION T gpu_rescale(T from, T to)
{
    return from == to ? (T)1 : FN(exp)(from - to);
}

/*
 * Softmax in one pass for the largest element and the sum, and one for the result. Line l has the elements k inner apart from
 * l / inner * size * inner + l % inner on; scalars[3] is inner. scalars[2]: 1 for the logarithm. Operands: out, in.
 */
GPU_KERNEL void softmax_group(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, uint32_t width, gpu_nest nest)
{
    GPU_LOCAL T mosts[GPU_GROUP_ITEMS];
    GPU_LOCAL T sums[GPU_GROUP_ITEMS];
    uint32_t me = gpu_group_item(), line = gpu_item() / width, size = (uint32_t)nest.scalars[0];
    uint32_t is_there = line < (uint32_t)nest.scalars[1], end = is_there ? size : 0, k = me % width;
    int64_t inner = (int64_t)nest.scalars[3];
    int64_t first = ((int64_t)line / inner * size * inner + (int64_t)line % inner) * GPU_STEP;
    T most = -INFINITY, sum = 0;
    in += nest.offsets[1] + first;
    out += nest.offsets[0] + first;
    for (; k + (GPU_AHEAD - 1) * width < end; k += GPU_AHEAD * width) {
        T x[GPU_AHEAD], more = most;
        for (uint32_t j = 0; j < GPU_AHEAD; j++) x[j] = GPU_AT(in, (k + j * width) * inner);
        for (uint32_t j = 0; j < GPU_AHEAD; j++) more = x[j] > more ? x[j] : more;
        sum *= gpu_rescale(most, more);
        most = more;
        for (uint32_t j = 0; j < GPU_AHEAD; j++) sum += gpu_share(x[j], most);
    }
    for (; k < end; k += width) {
        T a = GPU_AT(in, k * inner), more = a > most ? a : most;
        sum = sum * gpu_rescale(most, more) + gpu_share(a, more);
        most = more;
    }
    mosts[me] = most;
    sums[me] = sum;
    for (uint32_t half_way = width / 2; half_way > 0; half_way /= 2) {
        GPU_BARRIER();
        if (me % width < half_way) {
            T other = mosts[me + half_way], more = other > mosts[me] ? other : mosts[me];
            sums[me] = sums[me] * gpu_rescale(mosts[me], more) + sums[me + half_way] * gpu_rescale(other, more);
            mosts[me] = more;
        }
    }
    GPU_BARRIER();
    most = mosts[me - me % width];
    sum = sums[me - me % width];
    if (nest.scalars[2]) {
        T logarithm = FN(log)(sum);
        for (k = me % width; k < end; k += width)
            gpu_store(out + (int64_t)k * inner * GPU_STEP, GPU_DTYPE, (GPU_AT(in, k * inner) - most) - logarithm);
    } else {
        for (k = me % width; k < end; k += width)
            gpu_store(out + (int64_t)k * inner * GPU_STEP, GPU_DTYPE, FN(exp)(GPU_AT(in, k * inner) - most) / sum);
    }
}

/* The gradient of the above from the one of its result. Operands: out, the result (in), its gradient. */
GPU_KERNEL void softmax_group_backward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in,
                                       GPU_GLOBAL const uint8_t *grad, uint32_t width, gpu_nest nest)
{
    GPU_LOCAL T sums[GPU_GROUP_ITEMS];
    uint32_t me = gpu_group_item(), line = gpu_item() / width, size = (uint32_t)nest.scalars[0];
    uint32_t is_there = line < (uint32_t)nest.scalars[1], end = is_there ? size : 0, k;
    int64_t inner = (int64_t)nest.scalars[3];
    int64_t first = ((int64_t)line / inner * size * inner + (int64_t)line % inner) * GPU_STEP;
    T sum = 0;
    in += nest.offsets[1] + first;
    out += nest.offsets[0] + first;
    grad += nest.offsets[2] + first;
    for (k = me % width; k < end; k += width) {
        T g = GPU_AT(grad, k * inner);
        sum += nest.scalars[2] ? g : g * GPU_AT(in, k * inner);
    }
    GPU_ADD_GROUP(sum, sums, me, width)
    for (k = me % width; k < end; k += width) {
        T g = GPU_AT(grad, k * inner), y = GPU_AT(in, k * inner);
        gpu_store(out + (int64_t)k * inner * GPU_STEP, GPU_DTYPE,
                  nest.scalars[2] ? g - FN(exp)(y) * sum : (g - sum) * y);
    }
}

/* As normalize_lines: scalars[2]: eps; bits of scalars[3]: 1 weight, 2 bias, 4 around 0. Operands: out, mean, rstd, in. */
GPU_KERNEL void normalize_group(GPU_GLOBAL uint8_t *out, GPU_GLOBAL uint8_t *means, GPU_GLOBAL uint8_t *rstds,
                                GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const uint8_t *weight,
                                GPU_GLOBAL const uint8_t *bias, int64_t first_weight, int64_t first_bias, uint32_t width,
                                gpu_nest nest)
{
    GPU_LOCAL T sums[GPU_GROUP_ITEMS];
    uint32_t me = gpu_group_item(), line = gpu_item() / width, size = (uint32_t)nest.scalars[0];
    uint32_t is_there = line < (uint32_t)nest.scalars[1], end = is_there ? size : 0, k = me % width;
    uint32_t has_weight = nest.scalars[3] & 1u, has_bias = nest.scalars[3] & 2u, has_mean = !(nest.scalars[3] & 4u);
    int64_t inner = 1;
    T mean = 0, squares = 0;
    in += nest.offsets[3] + (int64_t)line * size * GPU_STEP;
    out += nest.offsets[0] + (int64_t)line * size * GPU_STEP;
    weight += first_weight;
    bias += first_bias;
    if (has_mean) {
        GPU_EACH_OF_LINE(mean += a;)
    }
    GPU_ADD_GROUP(mean, sums, me, width)
    mean /= (T)size;
    k = me % width;
    GPU_EACH_OF_LINE(squares += (a - mean) * (a - mean);)
    GPU_ADD_GROUP(squares, sums, me, width)
    T rstd = 1 / FN(sqrt)(squares / (T)size + gpu_value(nest.scalars[2]));
    if (is_there && me % width == 0) {
        if (has_mean)
            gpu_store(means + nest.offsets[1] + (int64_t)line * GPU_BYTES(nest.dtypes[1]), nest.dtypes[1], mean);
        gpu_store(rstds + nest.offsets[2] + (int64_t)line * GPU_BYTES(nest.dtypes[2]), nest.dtypes[2], rstd);
    }
    for (k = me % width; k < end; k += width) {
        T x = (GPU_AT(in, k) - mean) * rstd;
        if (has_weight) x *= GPU_AT(weight, k);
        if (has_bias) x += GPU_AT(bias, k);
        gpu_store(out + (int64_t)k * GPU_STEP, GPU_DTYPE, x);
    }
}

/* The gradient of a line, as normalize_lines_backward. */
GPU_KERNEL void normalize_group_backward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *means,
                                         GPU_GLOBAL const uint8_t *rstds, GPU_GLOBAL const uint8_t *in,
                                         GPU_GLOBAL const uint8_t *grad, GPU_GLOBAL const uint8_t *weight, uint32_t width,
                                         gpu_nest nest)
{
    GPU_LOCAL T sums[GPU_GROUP_ITEMS];
    uint32_t me = gpu_group_item(), line = gpu_item() / width, size = (uint32_t)nest.scalars[0];
    uint32_t is_there = line < (uint32_t)nest.scalars[1], end = is_there ? size : 0, k = me % width;
    uint32_t has_weight = nest.immediate & 1u;
    int64_t inner = 1;
    T mean = is_there ? GPU_LINE_MEAN(means, line) : (T)0, rstd = is_there ? GPU_LINE_NUMBER(rstds, 2, line) : (T)0;
    T sum = 0, dot = 0;
    out += nest.offsets[0] + (int64_t)line * size * GPU_STEP;
    in += nest.offsets[3] + (int64_t)line * size * GPU_STEP;
    grad += (int64_t)nest.scalars[2] + (int64_t)line * size * GPU_STEP;
    weight += (int64_t)nest.scalars[3];
    for (; k < end; k += width) {
        T g = has_weight ? GPU_AT(grad, k) * GPU_AT(weight, k) : GPU_AT(grad, k);
        sum += g;
        dot += g * (GPU_AT(in, k) - mean);
    }
    GPU_ADD_GROUP(sum, sums, me, width)
    GPU_ADD_GROUP(dot, sums, me, width)
    sum = nest.immediate & 2u ? (T)0 : sum / (T)size;
    dot *= rstd * rstd / (T)size;
    for (k = me % width; k < end; k += width) {
        T g = has_weight ? GPU_AT(grad, k) * GPU_AT(weight, k) : GPU_AT(grad, k);
        gpu_store(out + (int64_t)k * GPU_STEP, GPU_DTYPE, (g - sum - (GPU_AT(in, k) - mean) * dot) * rstd);
    }
}

/* As normalize_columns, an item a column of a part, so that neighbouring items read neighbouring columns. */
GPU_KERNEL void normalize_column(GPU_GLOBAL T *sums, GPU_GLOBAL const uint8_t *means, GPU_GLOBAL const uint8_t *rstds,
                                 GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const uint8_t *grad, int64_t first, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], lines = (uint32_t)nest.scalars[1], each = (uint32_t)nest.scalars[3];
    uint32_t parts = (lines + each - 1) / each, part = gpu_item() / size, column = gpu_item() % size;
    uint32_t end = lines - part * each < each ? lines : part * each + each;
    T of_weight = 0, of_bias = 0;
    if (part >= parts) return;
    for (uint32_t line = part * each; line < end; line++) {
        int64_t place = ((int64_t)line * size + column) * GPU_STEP;
        T g = GPU_AT(grad + (int64_t)nest.scalars[2] + place, 0), a = GPU_AT(in + nest.offsets[3] + place, 0);
        of_weight += g * (a - GPU_LINE_MEAN(means, line)) * GPU_LINE_NUMBER(rstds, 2, line);
        of_bias += g;
    }
    sums[first + (int64_t)part * size + column] = of_weight;
    sums[first + ((int64_t)parts + part) * size + column] = of_bias;
}
#endif

/* The sums of the parts, from `first` on: an item a column. */
GPU_KERNEL void add_parts(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const T *sums, int64_t offset, int64_t first,
                          uint32_t size, uint32_t parts)
{
    uint32_t column = gpu_item();
    T sum = 0;
    if (column >= size) return;
    for (uint32_t part = 0; part < parts; part++) sum += sums[first + (int64_t)part * size + column];
    gpu_store(out + offset + (int64_t)column * GPU_STEP, GPU_DTYPE, sum);
}
