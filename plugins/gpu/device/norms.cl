/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation, and sums over all but the channels. Data are contiguous, [images, channels, inner], of the dtype
 * GPU_DTYPE; gpu_channels says more. Passes: `channel_parts` takes each channel in parts of c.length images and keeps two
 * numbers for each part; a kernel with an item a channel merges them into four coefficients; the last pass uses those.
 */
#include "dialect.h"

#define GPU_STEP     GPU_BYTES(GPU_DTYPE)
#define GPU_AT(p, i) gpu_load((p) + (int64_t)(i) * GPU_STEP, GPU_DTYPE)

/*
 * c.mode: GPU_CHANNEL_SUMS keeps the sum of x; GPU_CHANNEL_MOMENTS the mean and the sum of squares around it;
 * GPU_CHANNEL_GRADIENTS, with x and the gradient g, the sums of g and g (x - mean). On a processor item i has part i % parts of
 * channel i / parts. On a GPU `width` items, a power of two that divides a group, have a part; neighbouring ones read
 * neighbouring elements of it or, if width is 1, the same part of neighbouring channels.
 */
#if GPU_PROCESSOR
#define GPU_CHAINS 64
GPU_KERNEL void channel_parts(GPU_GLOBAL T *states, GPU_GLOBAL const uint8_t *x, GPU_GLOBAL const uint8_t *g,
                              GPU_GLOBAL const T *coefficients, gpu_channels c)
{
    uint32_t channel = gpu_item() / c.parts, begin = gpu_item() % c.parts * c.length;
    uint32_t end = c.images - begin < c.length ? c.images : begin + c.length;
    T first = 0, second = 0;
    if (channel >= c.channels) return;
    states += c.offsets[GPU_CHANNEL_STATES];
    coefficients += c.offsets[GPU_CHANNEL_COEFFICIENTS];
    T mean = c.mode == GPU_CHANNEL_GRADIENTS ? coefficients[4 * channel] : (T)0;
    for (uint32_t image = begin; image < end; image++) {
        int64_t run = ((int64_t)image * c.channels + channel) * c.inner * GPU_STEP;
        GPU_GLOBAL const uint8_t *p = x + c.offsets[GPU_CHANNEL_X] + run, *q = g + c.offsets[GPU_CHANNEL_G] + run;
        if (c.mode != GPU_CHANNEL_GRADIENTS) {
            GPU_ADD_UP(first, GPU_CHAINS, c.inner, T a = GPU_AT(p, at);, a)
        } else {
            GPU_ADD_UP(first, GPU_CHAINS, c.inner, T b = GPU_AT(q, at);, b)
            GPU_ADD_UP(second, GPU_CHAINS, c.inner, T a = GPU_AT(p, at); T b = GPU_AT(q, at);, b * (a - mean))
        }
    }
    if (c.mode == GPU_CHANNEL_MOMENTS) {
        first /= (T)((end - begin) * c.inner);
        for (uint32_t image = begin; image < end; image++) {
            int64_t run = ((int64_t)image * c.channels + channel) * c.inner * GPU_STEP;
            GPU_GLOBAL const uint8_t *p = x + c.offsets[GPU_CHANNEL_X] + run;
            GPU_ADD_UP(second, GPU_CHAINS, c.inner, T a = GPU_AT(p, at) - first;, a * a)
        }
    }
    states[2 * gpu_item()] = first;
    states[2 * gpu_item() + 1] = second;
}
#else
/* The elements of a part from k on, `width` apart: `body` gets the place of each. */
#define GPU_EACH_OF_PART(body)                                                                  \
    for (k = me % width, image = begin + k / c.inner, rest = k % c.inner; k < count; k += width) { \
        int64_t at = ((int64_t)image * c.channels + channel) * c.inner + rest;                  \
        body                                                                                    \
        for (rest += width; rest >= c.inner; rest -= c.inner) image++;                          \
    }
GPU_KERNEL void channel_parts(GPU_GLOBAL T *states, GPU_GLOBAL const uint8_t *x, GPU_GLOBAL const uint8_t *g,
                              GPU_GLOBAL const T *coefficients, uint32_t width, gpu_channels c)
{
    GPU_LOCAL T sums[GPU_GROUP_ITEMS];
    uint32_t me = gpu_group_item(), task = gpu_item() / width, channel = task % c.channels, part = task / c.channels;
    uint32_t is_there = part < c.parts, begin = part * c.length, k, image, rest;
    uint32_t left = is_there ? c.images - begin : 0, count = (left < c.length ? left : c.length) * c.inner;
    T first = 0, second = 0;
    x += c.offsets[GPU_CHANNEL_X];
    g += c.offsets[GPU_CHANNEL_G];
    T mean = is_there && c.mode == GPU_CHANNEL_GRADIENTS
                 ? coefficients[c.offsets[GPU_CHANNEL_COEFFICIENTS] + 4 * (int64_t)channel]
                 : (T)0;
    if (c.mode != GPU_CHANNEL_GRADIENTS) {
        GPU_EACH_OF_PART(first += GPU_AT(x, at);)
    } else {
        GPU_EACH_OF_PART(T b = GPU_AT(g, at); first += b; second += b * (GPU_AT(x, at) - mean);)
    }
    GPU_ADD_GROUP(first, sums, me, width)
    if (c.mode == GPU_CHANNEL_MOMENTS) {
        first /= (T)count;
        GPU_EACH_OF_PART(T a = GPU_AT(x, at) - first; second += a * a;)
    }
    GPU_ADD_GROUP(second, sums, me, width)
    if (is_there && me % width == 0) {
        states += c.offsets[GPU_CHANNEL_STATES] + 2 * ((int64_t)channel * c.parts + part);
        states[0] = first;
        states[1] = second;
    }
}
#endif

/* The sums become the result: an item a channel. */
GPU_KERNEL void channel_sums(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const T *states, gpu_channels c)
{
    uint32_t channel = gpu_item();
    T sum = 0;
    if (channel >= c.channels) return;
    states += c.offsets[GPU_CHANNEL_STATES] + 2 * (int64_t)channel * c.parts;
    for (uint32_t part = 0; part < c.parts; part++) sum += states[2 * part];
    gpu_store(out + c.offsets[GPU_CHANNEL_X] + (int64_t)channel * GPU_STEP, GPU_DTYPE, sum);
}

/* Coefficients of a channel: mean, scale, and what to add (forward); or mean, scale and two more (backward). */
GPU_FUNCTION void gpu_keep_coefficients(GPU_GLOBAL T *to, T mean, T scale, T third, T fourth)
{
    to[0] = mean;
    to[1] = scale;
    to[2] = third;
    to[3] = fourth;
}

/* A number of the channel in a vector of one for each, or what stands for it. */
#define GPU_PARAMETER(p, offset, code, has, absent) \
    ((has) ? gpu_load((p) + (offset) + (int64_t)channel * GPU_BYTES(code), code) : (T)(absent))
#define GPU_PUT(p, offset, code, value) gpu_store((p) + (offset) + (int64_t)channel * GPU_BYTES(code), code, value)

/*
 * Statistics of a channel, from the parts or (GPU_CHANNEL_EVAL) from the running ones. T. Chan, G. Golub, R. LeVeque,
 * "Updating formulae", 1979, merges the parts.
 */
GPU_KERNEL void channel_statistics(GPU_GLOBAL T *coefficients, GPU_GLOBAL const T *states, GPU_GLOBAL const uint8_t *weight,
                                   GPU_GLOBAL const uint8_t *bias, GPU_GLOBAL uint8_t *running_mean,
                                   GPU_GLOBAL uint8_t *running_var, GPU_GLOBAL uint8_t *save_mean,
                                   GPU_GLOBAL uint8_t *save_invstd, gpu_channels c)
{
    uint32_t channel = gpu_item();
    T mean = 0, squares = 0, count = 0, eps = gpu_value(c.eps), momentum = gpu_value(c.momentum), invstd;
    if (channel >= c.channels) return;
    int has_running = (c.flags & GPU_CHANNEL_HAS_RUNNING) != 0;
    T old_mean = GPU_PARAMETER(running_mean, c.offsets[GPU_CHANNEL_RUNNING_MEAN], c.running_dtype, has_running, 0);
    T old_var = GPU_PARAMETER(running_var, c.offsets[GPU_CHANNEL_RUNNING_VAR], c.running_dtype, has_running, 1);
    if (c.flags & GPU_CHANNEL_EVAL) {
        mean = old_mean;
        invstd = 1 / FN(sqrt)(old_var + eps);
    } else {
        states += c.offsets[GPU_CHANNEL_STATES] + 2 * (int64_t)channel * c.parts;
        for (uint32_t part = 0; part < c.parts; part++) {
            uint32_t begin = part * c.length, left = c.images - begin;
            T n = (T)((left < c.length ? left : c.length) * c.inner), apart = states[2 * part] - mean, all = count + n;
            mean += apart * (n / all);
            squares += states[2 * part + 1] + apart * apart * (count * n / all);
            count = all;
        }
        /* As ATen, statistics are rounded to the dtype in which they are saved, but for a sum that it cannot hold. */
        if (c.flags & GPU_CHANNEL_SAVES) {
            GPU_PUT(save_mean, c.offsets[GPU_CHANNEL_SAVE_MEAN], c.save_dtype, mean);
            GPU_PUT(save_invstd, c.offsets[GPU_CHANNEL_SAVE_INVSTD], c.save_dtype, squares);
            mean = GPU_PARAMETER(save_mean, c.offsets[GPU_CHANNEL_SAVE_MEAN], c.save_dtype, 1, 0);
            T rounded = GPU_PARAMETER(save_invstd, c.offsets[GPU_CHANNEL_SAVE_INVSTD], c.save_dtype, 1, 0);
            if (rounded < (T)INFINITY) squares = rounded;
        }
        invstd = 1 / FN(sqrt)(squares / count + eps);
        if (c.flags & GPU_CHANNEL_SAVES) {
            GPU_PUT(save_invstd, c.offsets[GPU_CHANNEL_SAVE_INVSTD], c.save_dtype, invstd);
            invstd = GPU_PARAMETER(save_invstd, c.offsets[GPU_CHANNEL_SAVE_INVSTD], c.save_dtype, 1, 0);
        }
        if (has_running) {
            GPU_PUT(running_mean, c.offsets[GPU_CHANNEL_RUNNING_MEAN], c.running_dtype,
                    momentum * mean + (1 - momentum) * old_mean);
            GPU_PUT(running_var, c.offsets[GPU_CHANNEL_RUNNING_VAR], c.running_dtype,
                    momentum * (squares / (count - 1)) + (1 - momentum) * old_var);
        }
    }
    T scale = GPU_PARAMETER(weight, c.offsets[GPU_CHANNEL_WEIGHT], c.weight_dtype, c.flags & GPU_CHANNEL_HAS_WEIGHT, 1);
    T added = GPU_PARAMETER(bias, c.offsets[GPU_CHANNEL_BIAS], c.weight_dtype, c.flags & GPU_CHANNEL_HAS_BIAS, 0);
    gpu_keep_coefficients(coefficients + c.offsets[GPU_CHANNEL_COEFFICIENTS] + 4 * channel, mean, invstd * scale, added, 0);
}

/* Before the parts of a backward pass: the mean and 1 / sigma of each channel. */
GPU_KERNEL void channel_recall(GPU_GLOBAL T *coefficients, GPU_GLOBAL const uint8_t *mean, GPU_GLOBAL const uint8_t *spread,
                               gpu_channels c)
{
    uint32_t channel = gpu_item(), is_eval = c.flags & GPU_CHANNEL_EVAL;
    if (channel >= c.channels) return;
    uint32_t dtype = is_eval ? c.running_dtype : c.save_dtype;
    T m = GPU_PARAMETER(mean, c.offsets[GPU_CHANNEL_SAVE_MEAN], dtype, 1, 0);
    T s = GPU_PARAMETER(spread, c.offsets[GPU_CHANNEL_SAVE_INVSTD], dtype, 1, 0);
    if (is_eval) s = 1 / FN(sqrt)(s + gpu_value(c.eps));
    gpu_keep_coefficients(coefficients + c.offsets[GPU_CHANNEL_COEFFICIENTS] + 4 * channel, m, s, 0, 0);
}

/* The gradients of weight and bias, and the coefficients of the gradient of x. */
GPU_KERNEL void channel_gradients(GPU_GLOBAL T *coefficients, GPU_GLOBAL const T *states, GPU_GLOBAL const uint8_t *weight,
                                  GPU_GLOBAL uint8_t *grad_weight, GPU_GLOBAL uint8_t *grad_bias, gpu_channels c)
{
    uint32_t channel = gpu_item();
    T sum = 0, dot = 0, count = (T)c.images * (T)c.inner;
    if (channel >= c.channels) return;
    coefficients += c.offsets[GPU_CHANNEL_COEFFICIENTS] + 4 * channel;
    states += c.offsets[GPU_CHANNEL_STATES] + 2 * (int64_t)channel * c.parts;
    for (uint32_t part = 0; part < c.parts; part++) {
        sum += states[2 * part];
        dot += states[2 * part + 1];
    }
    T invstd = coefficients[1];
    T scale = GPU_PARAMETER(weight, c.offsets[GPU_CHANNEL_WEIGHT], c.weight_dtype, c.flags & GPU_CHANNEL_HAS_WEIGHT, 1);
    if (c.flags & GPU_CHANNEL_WANTS_WEIGHT)
        GPU_PUT(grad_weight, c.offsets[GPU_CHANNEL_GRAD_WEIGHT], c.weight_dtype, dot * invstd);
    if (c.flags & GPU_CHANNEL_WANTS_BIAS) GPU_PUT(grad_bias, c.offsets[GPU_CHANNEL_GRAD_BIAS], c.weight_dtype, sum);
    if (c.flags & GPU_CHANNEL_EVAL)
        gpu_keep_coefficients(coefficients, coefficients[0], scale * invstd, 0, 0);
    else
        gpu_keep_coefficients(coefficients, coefficients[0], scale * invstd, sum / count, dot * invstd * invstd / count);
}

/* The results of a run of `inner` elements of one channel: forward or, GPU_CHANNEL_GRADIENTS, the gradient of x. */
#define GPU_NORMALIZED(a)  (((a) - mean) * scale + third)
#define GPU_GRADIENT(a, b) (((b) - third - ((a) - mean) * fourth) * scale)

/* An item is a run (run = c.inner) or an element (run = 1). */
GPU_KERNEL void channel_apply(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *x, GPU_GLOBAL const uint8_t *g,
                              GPU_GLOBAL const T *coefficients, uint32_t run, gpu_channels c)
{
    uint32_t item = gpu_item(), channel = (run == 1 ? item / c.inner : item) % c.channels;
    if (item >= c.images * c.channels * (c.inner / run)) return;
    coefficients += c.offsets[GPU_CHANNEL_COEFFICIENTS] + 4 * channel;
    T mean = coefficients[0], scale = coefficients[1], third = coefficients[2], fourth = coefficients[3];
    int64_t at = (int64_t)item * run * GPU_STEP;
    out += c.offsets[GPU_CHANNEL_OUT] + at;
    x += c.offsets[GPU_CHANNEL_X] + at;
    if (c.mode == GPU_CHANNEL_GRADIENTS) {
        g += c.offsets[GPU_CHANNEL_G] + at;
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < run; i++)
            gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, GPU_GRADIENT(GPU_AT(x, i), GPU_AT(g, i)));
        return;
    }
    GPU_INDEPENDENT
    for (uint32_t i = 0; i < run; i++)
        gpu_store(out + (int64_t)i * GPU_STEP, GPU_DTYPE, GPU_NORMALIZED(GPU_AT(x, i)));
}
