/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling of channels-last images for one dtype and level: a window is walked pixel by pixel, and all
 * channels of a pixel are taken together, which makes vector code whatever the window. Gradients are added up
 * for a block of channels at a time.
 */
#include "pool_words.h"
#include "runs.h"

/* Channels whose state is kept in the first-level cache. */
enum { CHANNELS = 256 };

typedef struct pixel_walk {
    int64_t oz, oy, ox;
} pixel_walk;

static pixel_walk output_pixel(const tni_pool *p, int64_t pixel)
{
    return (pixel_walk){pixel / p->out[2] / p->out[1], pixel / p->out[2] % p->out[1], pixel % p->out[2]};
}

/* ---- Forward ----------------------------------------------------------------------------------------- */

/* Elements as what they are compared as. */
static inline const value *read_values(const T *x, int64_t count, value *room)
{
#if IS_INTEGER
    return x;
#else
    return run_read(x, count, room);
#endif
}

static inline void write_values(const value *from, int64_t count, T *out)
{
#if IS_INTEGER
    memcpy(out, from, (size_t)count * sizeof(T));
#else
    run_write(from, count, out);
#endif
}

static inline void keep_larger(const value *restrict candidate, int32_t at, int64_t count,
                               value *restrict best, int32_t *restrict where)
{
    for (int64_t c = 0; c < count; c++) {
        bool take = replaces(candidate[c], best[c]);
        where[c] = take ? at : where[c];
        best[c] = take ? candidate[c] : best[c];
    }
}

/* `count` channels of one output; x and y point to the first of them. */
static void max_pixel(const tni_pool *p, const T *x, pixel_walk o, int64_t count, T *y, int64_t *index)
{
    value best[CHANNELS], room[CHANNELS];
    int32_t where[CHANNELS];
    bool found = false;
    for (int64_t iz = p->lo[0][o.oz]; iz < p->hi[0][o.oz]; iz += p->step[0]) {
        for (int64_t iy = p->lo[1][o.oy]; iy < p->hi[1][o.oy]; iy += p->step[1]) {
            for (int64_t ix = p->lo[2][o.ox]; ix < p->hi[2][o.ox]; ix += p->step[2]) {
                int64_t at = (iz * p->in[1] + iy) * p->in[2] + ix;
                const value *candidate = read_values(x + at * p->channels, count, room);
                if (found) {
                    keep_larger(candidate, (int32_t)at, count, best, where);
                    continue;
                }
                for (int64_t c = 0; c < count; c++) best[c] = candidate[c];
                for (int64_t c = 0; c < count; c++) where[c] = (int32_t)at;
                found = true;
            }
        }
    }
    if (!found) {
        int64_t at = (p->lo[0][o.oz] * p->in[1] + p->lo[1][o.oy]) * p->in[2] + p->lo[2][o.ox];
        for (int64_t c = 0; c < count; c++) best[c] = 0;
        for (int64_t c = 0; c < count; c++) where[c] = (int32_t)at;
    }
    write_values(best, count, y);
    for (int64_t c = 0; c < count; c++) index[c] = where[c];
}

static void average_pixel(const tni_pool *p, const T *x, pixel_walk o, int64_t count, T *y)
{
    acc sum[CHANNELS], room[CHANNELS];
    int64_t divisor;
    for (int64_t c = 0; c < count; c++) sum[c] = 0;
    for (int64_t iz = p->lo[0][o.oz]; iz < p->hi[0][o.oz]; iz++) {
        for (int64_t iy = p->lo[1][o.oy]; iy < p->hi[1][o.oy]; iy++) {
            for (int64_t ix = p->lo[2][o.ox]; ix < p->hi[2][o.ox]; ix++) {
                int64_t at = (iz * p->in[1] + iy) * p->in[2] + ix;
                const acc *in = run_read(x + at * p->channels, count, room);
                for (int64_t c = 0; c < count; c++) sum[c] += in[c];
            }
        }
    }
    if (!is_empty(p, o.oz, o.oy, o.ox)) {
        divisor = divisor_of(p, o.oz, o.oy, o.ox);
        for (int64_t c = 0; c < count; c++) sum[c] = quotient(sum[c], divisor);
    }
    run_write(sum, count, y);
}

/* Outputs [begin, end) of all images, line by line. */
static void walk_outputs(const tni_pool *p, int64_t begin, int64_t end, bool max)
{
    int64_t in = volume(p->in) * p->channels, out = volume(p->out);
    for (int64_t line = begin; line < end; line++) {
        for (int64_t ox = 0; ox < p->out[2]; ox++) {
            int64_t pixel = line * p->out[2] + ox;
            pixel_walk o = output_pixel(p, pixel % out);
            for (int64_t c = 0; c < p->channels; c += CHANNELS) {
                int64_t count = min_i64(CHANNELS, p->channels - c);
                const T *x = (const T *)p->x + pixel / out * in + c;
                T *y = (T *)p->y + pixel * p->channels + c;
                if (max)
                    max_pixel(p, x, o, count, y, p->indices + pixel * p->channels + c);
                else
                    average_pixel(p, x, o, count, y);
            }
        }
    }
}

static void max(const tni_pool *p, int64_t begin, int64_t end)
{
    walk_outputs(p, begin, end, true);
}

static void average(const tni_pool *p, int64_t begin, int64_t end)
{
    walk_outputs(p, begin, end, false);
}

/* ---- Backward ---------------------------------------------------------------------------------------- */

/* A block of channels of one image: sums of a pixel are `step` from those of the next. */
typedef struct gradient_block {
    const T *grad;
    const int64_t *index;
    acc *sums;
    int64_t step, count;
} gradient_block;

static void spread_average(const tni_pool *p, const gradient_block *b, int64_t pixel)
{
    acc part[TNI_POOL_BLOCK];
    pixel_walk o = output_pixel(p, pixel);
    int64_t divisor = divisor_of(p, o.oz, o.oy, o.ox);
    const acc *grad = run_read(b->grad + pixel * p->channels, b->count, part);
    for (int64_t c = 0; c < b->count; c++) part[c] = quotient(grad[c], divisor);
    for (int64_t iz = p->lo[0][o.oz]; iz < p->hi[0][o.oz]; iz++) {
        for (int64_t iy = p->lo[1][o.oy]; iy < p->hi[1][o.oy]; iy++) {
            for (int64_t ix = p->lo[2][o.ox]; ix < p->hi[2][o.ox]; ix++) {
                acc *restrict to = b->sums + ((iz * p->in[1] + iy) * p->in[2] + ix) * b->step;
                for (int64_t c = 0; c < b->count; c++) to[c] += part[c];
            }
        }
    }
}

static void spread_max(const tni_pool *p, const gradient_block *b, int64_t pixel)
{
    acc room[TNI_POOL_BLOCK];
    int64_t in = volume(p->in);
    const acc *grad = run_read(b->grad + pixel * p->channels, b->count, room);
    const int64_t *index = b->index + pixel * p->channels;
    for (int64_t c = 0; c < b->count; c++)
        if (index[c] >= 0 && index[c] < in) b->sums[index[c] * b->step + c] += grad[c];
}

/* Items are blocks of TNI_POOL_BLOCK channels, image by image; `memory` has the sums of one, or is not used.
 */
static void walk_blocks(const tni_pool *p, int64_t begin, int64_t end, void *memory, bool max)
{
    int64_t in = volume(p->in), out = volume(p->out), blocks = ceil_div(p->channels, TNI_POOL_BLOCK);
    bool direct = sizeof(T) == sizeof(acc);
    for (int64_t item = begin; item < end; item++) {
        int64_t image = item / blocks, first = item % blocks * TNI_POOL_BLOCK;
        T *to = (T *)p->y + image * in * p->channels + first;
        gradient_block b = {.grad = (const T *)p->x + image * out * p->channels + first,
                            .index = max ? p->indices + image * out * p->channels + first : NULL,
                            .sums = direct ? (acc *)(void *)to : memory,
                            .count = min_i64(TNI_POOL_BLOCK, p->channels - first)};
        b.step = direct ? p->channels : b.count;
        for (int64_t i = 0; i < in; i++) memset(b.sums + i * b.step, 0, (size_t)b.count * sizeof(acc));
        for (int64_t pixel = 0; pixel < out; pixel++) {
            if (max)
                spread_max(p, &b, pixel);
            else
                spread_average(p, &b, pixel);
        }
        for (int64_t i = 0; !direct && i < in; i++)
            run_write(b.sums + i * b.step, b.count, to + i * p->channels);
    }
}

static void average_backward(const tni_pool *p, int64_t begin, int64_t end, void *sums)
{
    walk_blocks(p, begin, end, sums, false);
}

static void max_backward(const tni_pool *p, int64_t begin, int64_t end, void *sums)
{
    walk_blocks(p, begin, end, sums, true);
}

extern const tni_pool_kernels K(tni_pool_last_kernels);
const tni_pool_kernels K(tni_pool_last_kernels) = {
    .acc_bytes = sizeof(acc),
    .max = max,
    .average = average,
    .average_backward = average_backward,
    .max_backward = max_backward,
};
