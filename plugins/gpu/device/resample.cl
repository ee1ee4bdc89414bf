/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upsampling and padding by reflection or replication, and their gradients, for processors: rows are added with their weights,
 * in vectors, into a line of an item's own, from which the results of a run of columns are taken. GPUs gather by tables
 * that the host makes. Places are computed in float32, for float64 in float64, as the neighbours depend on it.
 */
#include "dialect.h"
#include "resample.h"

#define GPU_STEP GPU_BYTES(GPU_DTYPE)
#define GPU_TAPS 4

/* The elements of an axis that a result reads. */
typedef struct gpu_taps {
    int32_t at[GPU_TAPS];
    T weight[GPU_TAPS];
} gpu_taps;

GPU_FUNCTION uint32_t gpu_tap_count(uint32_t kind)
{
    return kind == GPU_TAPS_LINEAR ? 2 : kind == GPU_TAPS_CUBIC ? 4 : 1;
}

GPU_FUNCTION int32_t gpu_bounded(int32_t at, uint32_t size)
{
    return at < 0 ? 0 : at < (int32_t)size ? at : (int32_t)size - 1;
}

/* Rounded as the elements are, if it is asked for. */
GPU_FUNCTION T gpu_kept_weight(uint32_t flags, T weight)
{
#if GPU_DTYPE == GPU_F16
    if (flags & GPU_RESAMPLE_ROUNDED) return tn_float_of_half(tn_half_of_float(weight));
#elif GPU_DTYPE == GPU_BF16
    if (flags & GPU_RESAMPLE_ROUNDED) return tn_float_of_bfloat16(tn_bfloat16_of_float(weight));
#endif
    return weight;
}

#if GPU_HAS_DOUBLE
typedef double gpu_distance;
#else
typedef T gpu_distance;
#endif
/* Keys' kernel with a = -0.75. */
GPU_FUNCTION T gpu_cubic(gpu_distance x)
{
    const gpu_distance a = (gpu_distance)-0.75;
    x = x < 0 ? -x : x;
    if (x <= 1) return (T)(((a + 2) * x - (a + 3)) * x * x + 1);
    return x < 2 ? (T)((((x - 5) * x + 8) * x - 4) * a) : (T)0;
}

GPU_FUNCTION gpu_taps gpu_smooth_taps(const gpu_resample *r, uint32_t axis, uint32_t o)
{
    gpu_taps t;
    T step = gpu_value(r->step[axis]);
    T at = r->flags & GPU_RESAMPLE_ALIGN ? step * (T)o : step * ((T)o + (T)0.5) - (T)0.5;
    if (r->kind[axis] == GPU_TAPS_LINEAR) {
        if (at < 0) at = 0;
        int32_t low = gpu_bounded((int32_t)at, r->in[axis]);
        T apart = at - (T)low;
        apart = apart < 0 ? (T)0 : apart > 1 ? (T)1 : apart;
        t.at[0] = low;
        t.at[1] = gpu_bounded(low + 1, r->in[axis]);
        t.weight[0] = gpu_kept_weight(r->flags, 1 - apart);
        t.weight[1] = gpu_kept_weight(r->flags, apart);
        return t;
    }
    T low = FN(floor)(at);
    for (int k = 0; k < 4; k++) {
        t.at[k] = gpu_bounded((int32_t)low + k - 1, r->in[axis]);
        t.weight[k] = gpu_kept_weight(r->flags, gpu_cubic((gpu_distance)at - (gpu_distance)low - (k - 1)));
    }
    return t;
}

GPU_FUNCTION gpu_taps gpu_taps_of(const gpu_resample *r, uint32_t axis, uint32_t o)
{
    gpu_taps t;
    uint32_t kind = r->kind[axis];
    float step = (float)gpu_value(r->step[axis]);
    int32_t at = (int32_t)o, size = (int32_t)r->in[axis];
    if (kind == GPU_TAPS_LINEAR || kind == GPU_TAPS_CUBIC) return gpu_smooth_taps(r, axis, o);
    if (kind == GPU_TAPS_HALF) at /= 2;
    if (kind == GPU_TAPS_NEAREST) at = (int32_t)floor((float)o * step);
    if (kind == GPU_TAPS_EXACT) at = (int32_t)floor(((float)o + 0.5f) * step);
    if (kind == GPU_TAPS_REFLECT || kind == GPU_TAPS_REPLICATE) at -= r->before[axis];
    if (kind == GPU_TAPS_REFLECT) {
        if (at < 0) at = -at;
        if (at >= size) at = 2 * (size - 1) - at;
    }
    t.at[0] = gpu_bounded(at, r->in[axis]);
    t.weight[0] = 1;
    return t;
}

/* The taps of columns `first` to first + width, tap k of column j at k * GPU_RESAMPLE_RUN + j. Gives how many a column has;
 * begin and end become the elements that they lie on, of which begin is element 0. */
#define GPU_COLUMN_TAPS(at, weight, first, width, begin, end)                          \
    for (uint32_t j = 0; j < (width); j++) {                                           \
        gpu_taps t = gpu_taps_of(&r, 2, (first) + j);                                  \
        for (uint32_t k = 0; k < across; k++) {                                        \
            (at)[k * GPU_RESAMPLE_RUN + j] = t.at[k];                                  \
            (weight)[k * GPU_RESAMPLE_RUN + j] = t.weight[k];                          \
            begin = t.at[k] < (begin) ? t.at[k] : (begin);                             \
            end = t.at[k] + 1 > (end) ? t.at[k] + 1 : (end);                           \
        }                                                                              \
    }                                                                                  \
    for (uint32_t k = 0; k < across; k++)                                              \
        for (uint32_t j = 0; j < (width); j++) (at)[k * GPU_RESAMPLE_RUN + j] -= (begin);

/* An item is a run of columns of an image: all its rows, one after the other. */
GPU_KERNEL void resample(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_resample r)
{
    uint32_t runs = (r.out[2] + r.run - 1) / r.run, image = gpu_item() / runs, first = gpu_item() % runs * r.run;
    uint32_t width = r.out[2] - first < r.run ? r.out[2] - first : r.run, across = gpu_tap_count(r.kind[2]);
    int32_t at[GPU_TAPS * GPU_RESAMPLE_RUN], begin = (int32_t)r.in[2], end = 0;
    T weight[GPU_TAPS * GPU_RESAMPLE_RUN], line[GPU_RESAMPLE_LINE], sums[GPU_RESAMPLE_RUN];
    if (image >= r.images) return;
    GPU_COLUMN_TAPS(at, weight, first, width, begin, end)
    in += r.offsets[1] + (int64_t)image * r.in[0] * r.in[1] * r.in[2] * GPU_STEP;
    out += r.offsets[0] + ((int64_t)image * r.out[0] * r.out[1] * r.out[2] + first) * GPU_STEP;
    for (uint32_t row = 0; row < r.out[0] * r.out[1]; row++, out += (int64_t)r.out[2] * GPU_STEP) {
        gpu_taps z = gpu_taps_of(&r, 0, row / r.out[1]), y = gpu_taps_of(&r, 1, row % r.out[1]);
        uint32_t deep = gpu_tap_count(r.kind[0]), high = gpu_tap_count(r.kind[1]);
        for (uint32_t i = 0; i < deep * high; i++) {
            T w = z.weight[i / high] * y.weight[i % high];
            int64_t from = ((int64_t)z.at[i / high] * r.in[1] + y.at[i % high]) * r.in[2];
            GPU_GLOBAL const uint8_t *p = in + from * GPU_STEP;
            if (deep * high == 1) { /* as it is, infinite or not */
                GPU_INDEPENDENT
                for (int32_t j = begin; j < end; j++) line[j - begin] = gpu_load(p + (int64_t)j * GPU_STEP, GPU_DTYPE);
            } else if (i == 0) {
                GPU_INDEPENDENT
                for (int32_t j = begin; j < end; j++) line[j - begin] = gpu_load(p + (int64_t)j * GPU_STEP, GPU_DTYPE) * w;
            } else {
                GPU_INDEPENDENT
                for (int32_t j = begin; j < end; j++) line[j - begin] += gpu_load(p + (int64_t)j * GPU_STEP, GPU_DTYPE) * w;
            }
        }
        if (across == 1) {
            for (uint32_t j = 0; j < width; j++) sums[j] = line[at[j]];
        } else {
            for (uint32_t j = 0; j < width; j++)
                sums[j] = line[at[j]] * weight[j] + line[at[GPU_RESAMPLE_RUN + j]] * weight[GPU_RESAMPLE_RUN + j];
            for (uint32_t k = 2; k < across; k++)
                for (uint32_t j = 0; j < width; j++)
                    sums[j] += line[at[k * GPU_RESAMPLE_RUN + j]] * weight[k * GPU_RESAMPLE_RUN + j];
        }
        GPU_INDEPENDENT
        for (uint32_t j = 0; j < width; j++) gpu_store(out + (int64_t)j * GPU_STEP, GPU_DTYPE, sums[j]);
    }
}

/* The gradient: an item is an image, to whose sums, of type T, it adds the share of each result. Operands: sums, gradient. */
GPU_KERNEL void resample_backward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *grad, gpu_resample r)
{
    uint32_t image = gpu_item(), across = gpu_tap_count(r.kind[2]), size = r.in[0] * r.in[1] * r.in[2];
    int32_t at[GPU_TAPS * GPU_RESAMPLE_RUN];
    T weight[GPU_TAPS * GPU_RESAMPLE_RUN], line[GPU_RESAMPLE_LINE], share[GPU_RESAMPLE_RUN];
    if (image >= r.images) return;
    GPU_GLOBAL T *sums = (GPU_GLOBAL T *)(out + r.offsets[0]) + (int64_t)image * size;
    grad += r.offsets[1] + (int64_t)image * r.out[0] * r.out[1] * r.out[2] * GPU_STEP;
    for (uint32_t i = 0; i < size; i++) sums[i] = 0;
    for (uint32_t first = 0; first < r.out[2]; first += r.run) {
        uint32_t width = r.out[2] - first < r.run ? r.out[2] - first : r.run;
        int32_t begin = (int32_t)r.in[2], end = 0;
        GPU_COLUMN_TAPS(at, weight, first, width, begin, end)
        for (uint32_t row = 0; row < r.out[0] * r.out[1]; row++) {
            GPU_GLOBAL const uint8_t *p = grad + ((int64_t)row * r.out[2] + first) * GPU_STEP;
            gpu_taps z = gpu_taps_of(&r, 0, row / r.out[1]), y = gpu_taps_of(&r, 1, row % r.out[1]);
            uint32_t deep = gpu_tap_count(r.kind[0]), high = gpu_tap_count(r.kind[1]);
            GPU_INDEPENDENT
            for (uint32_t j = 0; j < width; j++) share[j] = gpu_load(p + (int64_t)j * GPU_STEP, GPU_DTYPE);
            for (int32_t j = 0; j < end - begin; j++) line[j] = 0;
            if (across == 1) {
                for (uint32_t j = 0; j < width; j++) line[at[j]] += share[j];
            } else {
                for (uint32_t k = 0; k < across; k++)
                    for (uint32_t j = 0; j < width; j++)
                        line[at[k * GPU_RESAMPLE_RUN + j]] += share[j] * weight[k * GPU_RESAMPLE_RUN + j];
            }
            for (uint32_t i = 0; i < deep * high; i++) {
                T w = z.weight[i / high] * y.weight[i % high];
                GPU_GLOBAL T *to = sums + ((int64_t)z.at[i / high] * r.in[1] + y.at[i % high]) * r.in[2] + begin;
                if (deep * high == 1) {
                    GPU_INDEPENDENT
                    for (int32_t j = 0; j < end - begin; j++) to[j] += line[j];
                } else {
                    GPU_INDEPENDENT
                    for (int32_t j = 0; j < end - begin; j++) to[j] += line[j] * w;
                }
            }
        }
    }
}
