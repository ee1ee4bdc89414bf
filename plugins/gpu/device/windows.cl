/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling, and convolutions without a product of matrices: an item computes one element. Images are contiguous and of the
 * dtype GPU_DTYPE; gpu_window says how they lie. w.offsets are those of the operands in the order of the arguments.
 */
#include "dialect.h"

#define GPU_STEP     GPU_BYTES(GPU_DTYPE)
#define GPU_AT(p, i) gpu_load((p) + (int64_t)(i) * GPU_STEP, GPU_DTYPE)
#define GPU_ADAPTIVE (GPU_GROUP == 1) /* windows divide the image evenly: kernel, stride and padding are unused */
#if GPU_PROCESSOR && !GPU_ADAPTIVE
#define GPU_CHUNK 16 /* neighbouring windows of an item: vectors of a processor */
#else
#define GPU_CHUNK 1
#endif

/* ---- Where windows lie ------------------------------------------------------------------------------------- */

/* The part of an image's axis under a window: begin, begin + step, ... below end. */
typedef struct gpu_span {
    int32_t begin, end, step;
    int32_t padded; /* elements with those of the padding, as averages count them */
} gpu_span;

GPU_FUNCTION gpu_span gpu_span_of(const gpu_window *w, uint32_t axis, uint32_t o)
{
    gpu_span s;
    int32_t in = (int32_t)w->in[axis], dilation = w->dilation[axis];
    if (GPU_ADAPTIVE) {
        s.begin = (int32_t)((uint64_t)o * w->in[axis] / w->out[axis]);
        s.end = (int32_t)(((uint64_t)(o + 1) * w->in[axis] + w->out[axis] - 1) / w->out[axis]);
        s.step = 1;
        s.padded = s.end - s.begin;
        return s;
    }
    s.step = dilation;
    s.begin = (int32_t)o * w->stride[axis] - w->padding[axis];
    s.end = s.begin + ((int32_t)w->kernel_size[axis] - 1) * dilation + 1;
    s.padded = (s.end < in + w->padding[axis] ? s.end : in + w->padding[axis]) - s.begin;
    if (s.begin < 0) s.begin += (dilation - 1 - s.begin) / dilation * dilation;
    if (s.end > in) s.end = in;
    return s;
}

/* The windows that may cover element i of an axis: begin to end. */
GPU_FUNCTION gpu_span gpu_windows_at(const gpu_window *w, uint32_t axis, uint32_t i)
{
    gpu_span s;
    int32_t last = (int32_t)i + w->padding[axis], reach = ((int32_t)w->kernel_size[axis] - 1) * w->dilation[axis];
    s.step = 1;
    s.padded = 0;
    if (GPU_ADAPTIVE) {
        s.begin = (int32_t)((uint64_t)i * w->out[axis] / w->in[axis]);
        s.end = (int32_t)(((uint64_t)(i + 1) * w->out[axis] + w->in[axis] - 1) / w->in[axis]);
        return s;
    }
    s.begin = last > reach ? (last - reach + w->stride[axis] - 1) / w->stride[axis] : 0;
    s.end = last / w->stride[axis] + 1;
    if (s.end > (int32_t)w->out[axis]) s.end = (int32_t)w->out[axis];
    return s;
}

/* The coordinates of element i of an image with these sizes; gives the image. */
GPU_FUNCTION uint32_t gpu_coordinates(uint32_t i, uint32_t depth, uint32_t height, uint32_t width, uint32_t at[3])
{
    at[2] = i % width;
    i /= width;
    at[1] = i % height;
    i /= height;
    at[0] = i % depth;
    return i / depth;
}

#define GPU_EACH(k, span) for (int32_t k = (span).begin; k < (span).end; k += (span).step)

/* ---- Pooling ----------------------------------------------------------------------------------------------- */

/* Where an item works: GPU_CHUNK windows of a row, from o[2] on, fewer at its end. */
#define GPU_BEGIN_CHUNK                                                                          \
    uint32_t chunks = (w.out[2] + GPU_CHUNK - 1) / GPU_CHUNK, o[3];                              \
    if (gpu_item() >= w.images * w.out[0] * w.out[1] * chunks) return;                           \
    uint32_t image = gpu_coordinates(gpu_item(), w.out[0], w.out[1], chunks, o);                 \
    o[2] *= GPU_CHUNK;                                                                           \
    gpu_span z_span = gpu_span_of(&w, 0, o[0]), y_span = gpu_span_of(&w, 1, o[1]);               \
    int64_t first = (((int64_t)image * w.out[0] + o[0]) * w.out[1] + o[1]) * w.out[2] + o[2];    \
    uint32_t width = w.out[2] - o[2] < GPU_CHUNK ? w.out[2] - o[2] : GPU_CHUNK;                  \
    in += w.offsets[1] + (int64_t)image * w.in[0] * w.in[1] * w.in[2] * GPU_STEP;

/* `body` for each element x of a row of the image under each window j of the chunk; those outside are not `is_inside`. */
#if GPU_ADAPTIVE
#define GPU_EACH_OF_ROW(body)                            \
    GPU_EACH(x, x_spans[0])                              \
    {                                                    \
        const int j = 0, is_inside = 1;                  \
        body                                             \
    }
#else
#define GPU_EACH_OF_ROW(body)                                                                              \
    for (int32_t k = 0; k < (int32_t)w.kernel_size[2]; k++)                                                \
        for (int j = 0; j < GPU_CHUNK; j++) {                                                              \
            int32_t x = ((int32_t)o[2] + j) * w.stride[2] - w.padding[2] + k * w.dilation[2];              \
            int is_inside = (uint32_t)x < w.in[2];                                                         \
            x = is_inside ? x : 0;                                                                         \
            body                                                                                           \
        }
#endif

#if GPU_PROCESSOR && !GPU_ADAPTIVE && GPU_TYPE == 32 && (defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__))
#define GPU_HAS_LINES 1
#define GPU_MOST_SPAN 64 /* elements of a row under the windows of a chunk */

/*
 * The largest elements of a row of the image, which begins at `row`, under each window of a chunk, and their places. `begin` is
 * where the first window begins. The elements are copied, with the least number around the image, so that they are vectors.
 */
GPU_FUNCTION void gpu_largest_of_row(T *most, int32_t *found, GPU_GLOBAL const uint8_t *in, int32_t row, int32_t begin,
                                     const gpu_window *w)
{
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int32_t span = (GPU_CHUNK - 1) * w->stride[2] + ((int32_t)w->kernel_size[2] - 1) * w->dilation[2] + 1;
    int32_t from = begin < 0 ? -begin : 0, to = (int32_t)w->in[2] - begin < span ? (int32_t)w->in[2] - begin : span;
    float line[GPU_MOST_SPAN + 2 * GPU_CHUNK];
    float16 best = vload16(0, most);
    int16 at = vload16(0, found);
    for (int32_t i = 0; i < GPU_MOST_SPAN + 2 * GPU_CHUNK; i++) line[i] = -INFINITY;
    GPU_INDEPENDENT
    for (int32_t i = from; i < to; i++) line[i] = GPU_AT(in, row + begin + i);
    for (int32_t k = 0; k < (int32_t)w->kernel_size[2] * w->dilation[2]; k += w->dilation[2]) {
        float16 value = vload16(0, line + k);
        if (w->stride[2] == 2) {
            float16 more = vload16(0, line + k + 16);
            value = (float16)(value.even, more.even);
        }
        int16 is_more = (value > best) | (value != value);
        best = is_more ? value : best;
        at = is_more ? lane * w->stride[2] + (row + begin + k) : at;
    }
    vstore16(best, 0, most);
    vstore16(at, 0, found);
}
#endif

GPU_KERNEL void max_pool(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL uint8_t *indices, gpu_window w)
{
    GPU_BEGIN_CHUNK
    T most[GPU_CHUNK];
    int32_t found[GPU_CHUNK];
    gpu_span x_spans[GPU_CHUNK];
    for (int j = 0; j < GPU_CHUNK; j++) {
        x_spans[j] = gpu_span_of(&w, 2, o[2] + (uint32_t)j);
        most[j] = GPU_LOWEST;
        found[j] = (z_span.begin * (int32_t)w.in[1] + y_span.begin) * (int32_t)w.in[2] + x_spans[j].begin;
    }
    GPU_EACH(z, z_span)
    GPU_EACH(y, y_span)
    {
        int32_t row = (z * (int32_t)w.in[1] + y) * (int32_t)w.in[2];
#if defined(GPU_HAS_LINES)
        if (w.stride[2] <= 2 && (w.kernel_size[2] - 1) * w.dilation[2] + 2 * GPU_CHUNK <= GPU_MOST_SPAN) {
            gpu_largest_of_row(most, found, in, row, (int32_t)o[2] * w.stride[2] - w.padding[2], &w);
            continue;
        }
#endif
        GPU_EACH_OF_ROW({
            T value = GPU_AT(in, row + x);
            int is_more = is_inside & ((value > most[j]) | is_nan(value));
            most[j] = is_more ? value : most[j];
            found[j] = is_more ? row + x : found[j];
        })
    }
    for (uint32_t j = 0; j < width; j++) {
        gpu_store(out + w.offsets[0] + (first + j) * GPU_STEP, GPU_DTYPE, most[j]);
        ((GPU_GLOBAL int64_t *)(indices + w.offsets[2]))[first + j] = found[j];
    }
}

/* An item is an element of the image: the gradients of the windows that have chosen it. */
GPU_KERNEL void max_pool_backward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *grad,
                                  GPU_GLOBAL const uint8_t *indices, gpu_window w)
{
    uint32_t i = gpu_item(), at[3], positions = w.out[0] * w.out[1] * w.out[2];
    if (i >= w.images * w.in[0] * w.in[1] * w.in[2]) return;
    uint32_t image = gpu_coordinates(i, w.in[0], w.in[1], w.in[2], at);
    gpu_span z_span = gpu_windows_at(&w, 0, at[0]), y_span = gpu_windows_at(&w, 1, at[1]);
    gpu_span x_span = gpu_windows_at(&w, 2, at[2]);
    int64_t self = (int64_t)(at[0] * w.in[1] + at[1]) * w.in[2] + at[2];
    GPU_GLOBAL const int64_t *chosen = (GPU_GLOBAL const int64_t *)(indices + w.offsets[2]) + (int64_t)image * positions;
    T sum = 0;
    grad += w.offsets[1] + (int64_t)image * positions * GPU_STEP;
    GPU_EACH(z, z_span)
    GPU_EACH(y, y_span)
    GPU_EACH(x, x_span)
    {
        int32_t o = (z * (int32_t)w.out[1] + y) * (int32_t)w.out[2] + x;
        if (chosen[o] == self) sum += GPU_AT(grad, o);
    }
    gpu_store(out + w.offsets[0] + (int64_t)i * GPU_STEP, GPU_DTYPE, sum);
}

#if GPU_PROCESSOR && GPU_IS_FLOAT
/* The same for processors, in the same order of additions: an item is an image, to whose sums, of type T, it adds each gradient. */
GPU_KERNEL void max_pool_backward_images(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *grad,
                                         GPU_GLOBAL const uint8_t *indices, gpu_window w)
{
    uint32_t image = gpu_item(), positions = w.out[0] * w.out[1] * w.out[2], size = w.in[0] * w.in[1] * w.in[2];
    if (image >= w.images) return;
    GPU_GLOBAL T *sums = (GPU_GLOBAL T *)(out + w.offsets[0]) + (int64_t)image * size;
    grad += w.offsets[1] + (int64_t)image * positions * GPU_STEP;
    GPU_GLOBAL const int64_t *chosen = (GPU_GLOBAL const int64_t *)(indices + w.offsets[2]) + (int64_t)image * positions;
    for (uint32_t i = 0; i < size; i++) sums[i] = 0;
    for (uint32_t o = 0; o < positions; o++)
        if ((uint64_t)chosen[o] < size) sums[chosen[o]] += GPU_AT(grad, o);
}
#endif

/* The number that the sum over a window is divided by. */
GPU_FUNCTION T gpu_divisor(const gpu_window *w, gpu_span z, gpu_span y, gpu_span x)
{
    if (w->divisor) return (T)w->divisor;
    if (w->flags & GPU_WINDOW_COUNT_PADDING) return (T)(z.padded * y.padded * x.padded);
    return (T)((z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin));
}

GPU_KERNEL void average_pool(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_window w)
{
    GPU_BEGIN_CHUNK
    T sums[GPU_CHUNK];
    gpu_span x_spans[GPU_CHUNK];
    for (int j = 0; j < GPU_CHUNK; j++) {
        x_spans[j] = gpu_span_of(&w, 2, o[2] + (uint32_t)j);
        sums[j] = 0;
    }
    GPU_EACH(z, z_span)
    GPU_EACH(y, y_span)
    {
        int32_t row = (z * (int32_t)w.in[1] + y) * (int32_t)w.in[2];
        GPU_EACH_OF_ROW({
            T value = GPU_AT(in, row + x);
            sums[j] += is_inside ? value : (T)0;
        })
    }
    for (uint32_t j = 0; j < width; j++) {
        T divisor = gpu_divisor(&w, z_span, y_span, x_spans[j]);
        gpu_store(out + w.offsets[0] + (first + j) * GPU_STEP, GPU_DTYPE, sums[j] == 0 ? sums[j] : sums[j] / divisor);
    }
}

/* An item is an element of the image. */
GPU_KERNEL void average_pool_backward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *grad, gpu_window w)
{
    uint32_t i = gpu_item(), at[3], positions = w.out[0] * w.out[1] * w.out[2];
    if (i >= w.images * w.in[0] * w.in[1] * w.in[2]) return;
    uint32_t image = gpu_coordinates(i, w.in[0], w.in[1], w.in[2], at);
    gpu_span z_windows = gpu_windows_at(&w, 0, at[0]), y_windows = gpu_windows_at(&w, 1, at[1]);
    gpu_span x_windows = gpu_windows_at(&w, 2, at[2]);
    T sum = 0;
    grad += w.offsets[1] + (int64_t)image * positions * GPU_STEP;
    GPU_EACH(z, z_windows)
    GPU_EACH(y, y_windows)
    GPU_EACH(x, x_windows)
    {
        gpu_span z_span = gpu_span_of(&w, 0, (uint32_t)z), y_span = gpu_span_of(&w, 1, (uint32_t)y);
        gpu_span x_span = gpu_span_of(&w, 2, (uint32_t)x);
        int32_t o = (z * (int32_t)w.out[1] + y) * (int32_t)w.out[2] + x;
        sum += GPU_AT(grad, o) / gpu_divisor(&w, z_span, y_span, x_span);
    }
    gpu_store(out + w.offsets[0] + (int64_t)i * GPU_STEP, GPU_DTYPE, sum);
}

#if GPU_PROCESSOR && GPU_IS_FLOAT
/* The same for processors, in the same order of additions: an item is an image, to whose sums it adds the share of each window. */
GPU_KERNEL void average_pool_backward_images(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *grad, gpu_window w)
{
    uint32_t image = gpu_item(), size = w.in[0] * w.in[1] * w.in[2];
    if (image >= w.images) return;
    GPU_GLOBAL T *sums = (GPU_GLOBAL T *)(out + w.offsets[0]) + (int64_t)image * size;
    grad += w.offsets[1] + (int64_t)image * w.out[0] * w.out[1] * w.out[2] * GPU_STEP;
    for (uint32_t i = 0; i < size; i++) sums[i] = 0;
    for (uint32_t o = 0; o < w.out[0] * w.out[1]; o++) {
        gpu_span z_span = gpu_span_of(&w, 0, o / w.out[1]), y_span = gpu_span_of(&w, 1, o % w.out[1]);
        for (uint32_t ox = 0; ox < w.out[2]; ox++, grad += GPU_STEP) {
            gpu_span x_span = gpu_span_of(&w, 2, ox);
            T each = GPU_AT(grad, 0) / gpu_divisor(&w, z_span, y_span, x_span);
            GPU_EACH(z, z_span)
            GPU_EACH(y, y_span)
            GPU_EACH(x, x_span)
            sums[(z * (int32_t)w.in[1] + y) * (int32_t)w.in[2] + x] += each;
        }
    }
}
#endif

/* ---- Convolutions ------------------------------------------------------------------------------------------- */

/* Neighbouring elements of a row that an item computes: vectors of a processor. */
#if GPU_PROCESSOR
#define GPU_RUN 64
#else
#define GPU_RUN 1
#endif

/* Of windows `begin` to `end` of a row, those whose element k lies inside the image. */
GPU_FUNCTION gpu_span gpu_windows_inside(const gpu_window *w, uint32_t k, int32_t begin, int32_t end)
{
    gpu_span s;
    int32_t from = w->padding[2] - (int32_t)k * w->dilation[2], last = (int32_t)w->in[2] - 1 + from;
    s.begin = from > 0 ? (from + w->stride[2] - 1) / w->stride[2] : 0;
    s.end = last < 0 ? 0 : last / w->stride[2] + 1;
    s.step = 1;
    s.padded = 0;
    if (s.begin < begin) s.begin = begin;
    if (s.end > end) s.end = end;
    return s;
}

/* Elements of the row at `p`, multiplied by f and added to sums[at], sums[at + 1], ...: every `step`th from `first` on. */
#define GPU_ADD_ROW(sums, at, p, first, step, count, f)                                                             \
    if ((step) == 1) {                                                                                              \
        GPU_INDEPENDENT                                                                                             \
        for (int32_t row_j = 0; row_j < (count); row_j++) (sums)[(at) + row_j] += GPU_AT(p, (first) + row_j) * (f); \
    } else {                                                                                                        \
        for (int32_t row_j = 0; row_j < (count); row_j++)                                                           \
            (sums)[(at) + row_j] += GPU_AT(p, (first) + row_j * (step)) * (f);                                      \
    }

/* out = bias + in * weight. An item is GPU_RUN elements of a row of the result, or what is left of it. */
GPU_KERNEL void convolve(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const uint8_t *weight,
                         GPU_GLOBAL const uint8_t *bias, uint32_t has_bias, gpu_window w)
{
    uint32_t runs = (w.out[2] + GPU_RUN - 1) / GPU_RUN, o[3], channels = w.groups * w.out_channels;
    uint32_t size = w.in[0] * w.in[1] * w.in[2];
    T sums[GPU_RUN], parts[GPU_RUN]; /* sums of sums round less */
    if (gpu_item() >= w.images * channels * w.out[0] * w.out[1] * runs) return;
    uint32_t channel = gpu_coordinates(gpu_item(), w.out[0], w.out[1], runs, o), image = channel / channels;
    int32_t begin = (int32_t)(o[2] * GPU_RUN), end = (int32_t)w.out[2] - begin < GPU_RUN ? (int32_t)w.out[2] : begin + GPU_RUN;
    out += w.offsets[0] + (((int64_t)channel * w.out[0] + o[0]) * w.out[1] + o[1]) * w.out[2] * GPU_STEP;
    channel %= channels;
    uint32_t elements = w.kernel_size[0] * w.kernel_size[1] * w.kernel_size[2], group = channel / w.out_channels;
    in += w.offsets[1] + (int64_t)(image * w.groups + group) * w.in_channels * size * GPU_STEP;
    weight += w.offsets[2] + (int64_t)channel * w.in_channels * elements * GPU_STEP;
    for (int j = 0; j < GPU_RUN; j++) sums[j] = has_bias ? GPU_AT(bias + w.offsets[3], channel) : (T)0;
    for (uint32_t c = 0; c < w.in_channels; c++) {
        for (int j = 0; j < GPU_RUN; j++) parts[j] = 0;
        for (uint32_t kz = 0; kz < w.kernel_size[0]; kz++)
            for (uint32_t ky = 0; ky < w.kernel_size[1]; ky++) {
                uint32_t z = (uint32_t)((int32_t)o[0] * w.stride[0] - w.padding[0] + (int32_t)kz * w.dilation[0]);
                uint32_t y = (uint32_t)((int32_t)o[1] * w.stride[1] - w.padding[1] + (int32_t)ky * w.dilation[1]);
                GPU_GLOBAL const uint8_t *row = in + (int64_t)(c * size + (z * w.in[1] + y) * w.in[2]) * GPU_STEP;
                if (z >= w.in[0] || y >= w.in[1]) continue;
                for (uint32_t kx = 0; kx < w.kernel_size[2]; kx++) {
                    gpu_span s = gpu_windows_inside(&w, kx, begin, end);
                    int32_t x = s.begin * w.stride[2] - w.padding[2] + (int32_t)kx * w.dilation[2];
                    T f = GPU_AT(weight, c * elements + (kz * w.kernel_size[1] + ky) * w.kernel_size[2] + kx);
                    GPU_ADD_ROW(parts, s.begin - begin, row, x, w.stride[2], s.end - s.begin, f)
                }
            }
        for (int j = 0; j < GPU_RUN; j++) sums[j] += parts[j];
    }
    for (int32_t j = begin; j < end; j++) gpu_store(out + (int64_t)j * GPU_STEP, GPU_DTYPE, sums[j - begin]);
}

/* The window that has element i of an axis under its element k; no window if it is not below out[axis]. */
GPU_FUNCTION uint32_t gpu_window_with(const gpu_window *w, uint32_t axis, uint32_t i, uint32_t k)
{
    int32_t from = (int32_t)i + w->padding[axis] - (int32_t)k * w->dilation[axis];
    return from < 0 || from % w->stride[axis] ? ~0u : (uint32_t)(from / w->stride[axis]);
}

/* What `body` adds for each element of the kernel (element) and the window that has the item's element there (at). */
#define GPU_EACH_WINDOW(body)                                                                        \
    for (uint32_t kz = 0; kz < w.kernel_size[0]; kz++)                                                    \
        for (uint32_t ky = 0; ky < w.kernel_size[1]; ky++) {                                              \
            uint32_t z = gpu_window_with(&w, 0, i_at[0], kz), y = gpu_window_with(&w, 1, i_at[1], ky); \
            if (z >= w.out[0] || y >= w.out[1]) continue;                                            \
            for (uint32_t kx = 0; kx < w.kernel_size[2]; kx++) {                                          \
                uint32_t x = gpu_window_with(&w, 2, i_at[2], kx);                                    \
                uint32_t at = (z * w.out[1] + y) * w.out[2] + x;                                     \
                uint32_t element = (kz * w.kernel_size[1] + ky) * w.kernel_size[2] + kx;                       \
                if (x >= w.out[2]) continue;                                                         \
                body                                                                                 \
            }                                                                                        \
        }

/* in = bias + the transposed convolution of out. An item is GPU_RUN elements of a row of the image, or what is left of it. */
GPU_KERNEL void convolve_transposed(GPU_GLOBAL uint8_t *in, GPU_GLOBAL const uint8_t *out, GPU_GLOBAL const uint8_t *weight,
                                    GPU_GLOBAL const uint8_t *bias, uint32_t has_bias, gpu_window w)
{
    uint32_t runs = (w.in[2] + GPU_RUN - 1) / GPU_RUN, i_at[3], channels = w.groups * w.in_channels;
    uint32_t positions = w.out[0] * w.out[1] * w.out[2];
    T sums[GPU_RUN], parts[GPU_RUN];
    if (gpu_item() >= w.images * channels * w.in[0] * w.in[1] * runs) return;
    uint32_t channel = gpu_coordinates(gpu_item(), w.in[0], w.in[1], runs, i_at), image = channel / channels;
    int32_t begin = (int32_t)(i_at[2] * GPU_RUN), end = (int32_t)w.in[2] - begin < GPU_RUN ? (int32_t)w.in[2] : begin + GPU_RUN;
    in += w.offsets[0] + (((int64_t)channel * w.in[0] + i_at[0]) * w.in[1] + i_at[1]) * w.in[2] * GPU_STEP;
    channel %= channels;
    uint32_t elements = w.kernel_size[0] * w.kernel_size[1] * w.kernel_size[2], group = channel / w.in_channels;
    out += w.offsets[1] + (int64_t)(image * w.groups + group) * w.out_channels * positions * GPU_STEP;
    weight += w.offsets[2] +
              (int64_t)(group * w.out_channels * w.in_channels + channel % w.in_channels) * elements * GPU_STEP;
    for (int j = 0; j < GPU_RUN; j++) sums[j] = has_bias ? GPU_AT(bias + w.offsets[3], channel) : (T)0;
    for (uint32_t kz = 0; kz < w.kernel_size[0]; kz++)
        for (uint32_t ky = 0; ky < w.kernel_size[1]; ky++) {
            uint32_t z = gpu_window_with(&w, 0, i_at[0], kz), y = gpu_window_with(&w, 1, i_at[1], ky);
            if (z >= w.out[0] || y >= w.out[1]) continue;
            for (uint32_t kx = 0; kx < w.kernel_size[2]; kx++) {
                /* Window x has its element kx at x * stride - shift. */
                int32_t shift = w.padding[2] - (int32_t)kx * w.dilation[2], stride = w.stride[2];
                int32_t first = begin + shift > 0 ? (begin + shift + stride - 1) / stride : 0;
                int32_t last = end - 1 + shift < 0 ? 0 : (end - 1 + shift) / stride + 1;
                if (last > (int32_t)w.out[2]) last = (int32_t)w.out[2];
                for (int j = 0; j < GPU_RUN; j++) parts[j] = 0;
                for (uint32_t o = 0; o < w.out_channels && first < last; o++) {
                    GPU_GLOBAL const uint8_t *row = out + (int64_t)(o * positions + (z * w.out[1] + y) * w.out[2]) * GPU_STEP;
                    T f = GPU_AT(weight, o * w.in_channels * elements + (kz * w.kernel_size[1] + ky) * w.kernel_size[2] + kx);
                    GPU_ADD_ROW(parts, 0, row, first, 1, last - first, f)
                }
                for (int32_t x = first; x < last; x++) sums[x * stride - shift - begin] += parts[x - first];
            }
        }
    for (int32_t j = begin; j < end; j++) gpu_store(in + (int64_t)j * GPU_STEP, GPU_DTYPE, sums[j - begin]);
}

/*
 * `width` items, a power of two that divides a group, take an element of the weight's gradient: each of them rows of windows of
 * all images. Operands: it, the image, the gradient of the result. On processors width is 1.
 */
GPU_KERNEL void convolve_weight(GPU_GLOBAL uint8_t *weight, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const uint8_t *out,
                                uint32_t width, gpu_window w)
{
#if !GPU_PROCESSOR
    GPU_LOCAL T shared[GPU_GROUP_ITEMS];
#endif
    uint32_t i = gpu_item() / width, mine = gpu_item() % width, k[3], rows = w.images * w.out[0] * w.out[1];
    uint32_t size = w.in[0] * w.in[1] * w.in[2], positions = w.out[0] * w.out[1] * w.out[2];
    uint32_t channel = gpu_coordinates(i, w.kernel_size[0], w.kernel_size[1], w.kernel_size[2], k), o = channel / w.in_channels;
    uint32_t c = o / w.out_channels * w.in_channels + channel % w.in_channels;
    gpu_span s = gpu_windows_inside(&w, k[2], 0, (int32_t)w.out[2]);
    int32_t x = s.begin * w.stride[2] - w.padding[2] + (int32_t)k[2] * w.dilation[2];
    uint32_t count = s.begin < s.end ? (uint32_t)(s.end - s.begin) : 0;
    T sum = 0;
    if (o >= w.groups * w.out_channels) rows = 0;
    for (uint32_t r = mine; r < rows; r += width) {
        uint32_t oy = r % w.out[1], oz = r / w.out[1] % w.out[0], image = r / w.out[1] / w.out[0];
        uint32_t z = (uint32_t)((int32_t)oz * w.stride[0] - w.padding[0] + (int32_t)k[0] * w.dilation[0]);
        uint32_t y = (uint32_t)((int32_t)oy * w.stride[1] - w.padding[1] + (int32_t)k[1] * w.dilation[1]);
        T row = 0;
        if (z >= w.in[0] || y >= w.in[1]) continue;
        GPU_GLOBAL const uint8_t *p = in + w.offsets[1] + (int64_t)(image * w.groups * w.in_channels + c) * size * GPU_STEP +
                                      (int64_t)((int32_t)((z * w.in[1] + y) * w.in[2]) + x) * GPU_STEP;
        GPU_GLOBAL const uint8_t *q =
            out + w.offsets[2] + (int64_t)(image * w.groups * w.out_channels + o) * positions * GPU_STEP +
            (int64_t)((int32_t)((oz * w.out[1] + oy) * w.out[2]) + s.begin) * GPU_STEP;
        if (w.stride[2] == 1) {
            GPU_ADD_UP(row, 16, count, T u = GPU_AT(p, at); T v = GPU_AT(q, at);, u * v)
        } else {
            for (uint32_t j = 0; j < count; j++) row += GPU_AT(p, j * w.stride[2]) * GPU_AT(q, j);
        }
        sum += row;
    }
#if !GPU_PROCESSOR
    GPU_ADD_GROUP(sum, shared, gpu_group_item(), width)
#endif
    if (mine == 0 && o < w.groups * w.out_channels) gpu_store(weight + w.offsets[0] + (int64_t)i * GPU_STEP, GPU_DTYPE, sum);
}

/*
 * The windows of images as matrices of float32, `rows` by `columns`, from element `first` on: rows are elements of the
 * kernel, its channel outermost, and columns positions, a matrix for each image and group. GPU_WINDOW_TRANSPOSED: rows are the
 * positions of all images and columns elements of the kernel, a matrix for each group. An item is an element of a matrix.
 */
GPU_KERNEL void unfold(GPU_GLOBAL float *matrices, GPU_GLOBAL const uint8_t *in, int64_t first, gpu_window w, uint32_t rows,
                       uint32_t columns)
{
    uint32_t i = gpu_item(), is_transposed = w.flags & GPU_WINDOW_TRANSPOSED, k[3], o[3];
    uint32_t row = i / columns % rows, column = i % columns, matrix = i / columns / rows;
    if (matrix >= (is_transposed ? w.groups : w.images * w.groups)) return;
    uint32_t channel = gpu_coordinates(is_transposed ? column : row, w.kernel_size[0], w.kernel_size[1], w.kernel_size[2], k);
    uint32_t image = gpu_coordinates(is_transposed ? row : column, w.out[0], w.out[1], w.out[2], o);
    if (!is_transposed) image = matrix / w.groups;
    int32_t z = (int32_t)o[0] * w.stride[0] - w.padding[0] + (int32_t)k[0] * w.dilation[0];
    int32_t y = (int32_t)o[1] * w.stride[1] - w.padding[1] + (int32_t)k[1] * w.dilation[1];
    int32_t x = (int32_t)o[2] * w.stride[2] - w.padding[2] + (int32_t)k[2] * w.dilation[2];
    int is_inside = (uint32_t)z < w.in[0] && (uint32_t)y < w.in[1] && (uint32_t)x < w.in[2];
    int64_t plane = (int64_t)(image * w.groups + matrix % w.groups) * w.in_channels + channel;
    int64_t at = ((plane * w.in[0] + z) * w.in[1] + y) * w.in[2] + x;
    matrices[first + i] = is_inside ? (float)GPU_AT(in + w.offsets[1], at) : 0.0f;
}

/* in = the windows of float32 columns [images, groups, in_channels and kernel, positions], added where they overlap. */
GPU_KERNEL void add_windows(GPU_GLOBAL uint8_t *in, GPU_GLOBAL const float *columns, GPU_GLOBAL const uint8_t *bias,
                            uint32_t has_bias, gpu_window w)
{
    uint32_t i = gpu_item(), i_at[3], positions = w.out[0] * w.out[1] * w.out[2];
    if (i >= w.images * w.groups * w.in_channels * w.in[0] * w.in[1] * w.in[2]) return;
    uint32_t channel = gpu_coordinates(i, w.in[0], w.in[1], w.in[2], i_at);
    T sum = has_bias ? GPU_AT(bias + w.offsets[3], channel % (w.groups * w.in_channels)) : (T)0;
    columns += w.offsets[1] / 4 + (int64_t)channel * w.kernel_size[0] * w.kernel_size[1] * w.kernel_size[2] * positions;
    GPU_EACH_WINDOW(sum += (T)columns[element * positions + at];)
    gpu_store(in + w.offsets[0] + (int64_t)i * GPU_STEP, GPU_DTYPE, sum);
}
