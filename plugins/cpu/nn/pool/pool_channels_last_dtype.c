/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling of channels-last images: a window is walked pixel by pixel, with all channels of a pixel together,
 * so any window vectorises. Gradients are summed for a block of channels at a time.
 */
#include "pool_window.h"
#include "nn/runs.h"
#if CPU_IS_FLOAT
#include "nn/lanes.h"
#endif

typedef struct pixel_walk {
    int64_t oz, oy, ox;
} pixel_walk;

static pixel_walk output_pixel(const cpu_pool *p, int64_t pixel)
{
    return (pixel_walk){pixel / p->out[2] / p->out[1], pixel / p->out[2] % p->out[1], pixel % p->out[2]};
}

/* ---- Forward ----------------------------------------------------------------------------------------- */

/* One channel of one output. */
static void max_one(const cpu_pool *p, const E *x, pixel_walk o, E *y, int64_t *index)
{
    int64_t found = (p->lo[0][o.oz] * p->in[1] + p->lo[1][o.oy]) * p->in[2] + p->lo[2][o.ox];
    bool empty = is_empty(p, o.oz, o.oy, o.ox);
    value best = empty ? (value)0 : TO_VALUE(x[found * p->channels]);
    for (int64_t iz = p->lo[0][o.oz]; iz < p->hi[0][o.oz]; iz += p->step[0]) {
        for (int64_t iy = p->lo[1][o.oy]; iy < p->hi[1][o.oy]; iy += p->step[1]) {
            for (int64_t ix = p->lo[2][o.ox]; ix < p->hi[2][o.ox]; ix += p->step[2]) {
                int64_t at = (iz * p->in[1] + iy) * p->in[2] + ix;
                value candidate = TO_VALUE(x[at * p->channels]);
                bool take = replaces(candidate, best);
                found = take ? at : found;
                best = take ? candidate : best;
            }
        }
    }
    STORE_VALUE(y, best);
    *index = found;
}

static void average_one(const cpu_pool *p, const E *x, pixel_walk o, E *y)
{
    acc sum = 0;
    for (int64_t iz = p->lo[0][o.oz]; iz < p->hi[0][o.oz]; iz++)
        for (int64_t iy = p->lo[1][o.oy]; iy < p->hi[1][o.oy]; iy++)
            for (int64_t ix = p->lo[2][o.ox]; ix < p->hi[2][o.ox]; ix++)
                sum += load_acc(&x[((iz * p->in[1] + iy) * p->in[2] + ix) * p->channels]);
    *y = is_empty(p, o.oz, o.oy, o.ox) ? (E){0} : divided(sum, divisor_of(p, o.oz, o.oy, o.ox));
}

#if CPU_IS_FLOAT
/* Vectors of channels whose state stays in registers while the window is walked. */
enum { SETS = 4, SPAN = SETS * LANE_COUNT };
/* The element of a vector of places, as large as acc. */
typedef __typeof__(((lane_bits){0})[0]) lane_place;

ALWAYS_INLINE void write_lanes(const lanes *v, const int sets, E *y)
{
#if CPU_IS_HALF
    acc room[SPAN];
    for (int s = 0; s < sets; s++) memcpy(room + s * LANE_COUNT, &v[s], sizeof v[s]);
#if defined(__F16C__)
    run_write(room, sets * LANE_COUNT, y);
#else
    for (int c = 0; c < sets * LANE_COUNT; c++) store_acc(&y[c], room[c]); /* less than a block */
#endif
#else
    for (int s = 0; s < sets; s++) memcpy(y + s * LANE_COUNT, &v[s], sizeof v[s]);
#endif
}

ALWAYS_INLINE void max_lanes(const cpu_pool *p, const E *x, pixel_walk o, E *y, int64_t *index,
                             const int sets)
{
    lanes best[SETS];
    lane_bits where[SETS];
    lane_place places[SPAN];
    int64_t first = (p->lo[0][o.oz] * p->in[1] + p->lo[1][o.oy]) * p->in[2] + p->lo[2][o.ox];
    acc least = is_empty(p, o.oz, o.oy, o.ox) ? 0 : (acc)LOWEST;
    for (int s = 0; s < sets; s++) {
        best[s] = (lanes){0} + least;
        where[s] = (lane_bits){0} + (lane_place)first;
    }
    for (int64_t iz = p->lo[0][o.oz]; iz < p->hi[0][o.oz]; iz += p->step[0]) {
        for (int64_t iy = p->lo[1][o.oy]; iy < p->hi[1][o.oy]; iy += p->step[1]) {
            for (int64_t ix = p->lo[2][o.ox]; ix < p->hi[2][o.ox]; ix += p->step[2]) {
                int64_t at = (iz * p->in[1] + iy) * p->in[2] + ix;
                for (int s = 0; s < sets; s++) {
                    lanes v = lanes_load(x + at * p->channels + s * LANE_COUNT);
                    lane_bits take = (lane_bits)(v > best[s]) | (lane_bits)(v != v);
                    where[s] = (take & (lane_place)at) | (~take & where[s]);
                    best[s] = (lanes)((take & (lane_bits)v) | (~take & (lane_bits)best[s]));
                }
            }
        }
    }
    for (int s = 0; s < sets; s++) memcpy(places + s * LANE_COUNT, &where[s], sizeof where[s]);
    write_lanes(best, sets, y);
    for (int c = 0; c < sets * LANE_COUNT; c++) index[c] = places[c];
}

ALWAYS_INLINE void average_lanes(const cpu_pool *p, const E *x, pixel_walk o, E *y, const int sets)
{
    lanes sum[SETS];
    acc divisor = is_empty(p, o.oz, o.oy, o.ox) ? 1 : (acc)divisor_of(p, o.oz, o.oy, o.ox);
    for (int s = 0; s < sets; s++) sum[s] = (lanes){0};
    for (int64_t iz = p->lo[0][o.oz]; iz < p->hi[0][o.oz]; iz++) {
        for (int64_t iy = p->lo[1][o.oy]; iy < p->hi[1][o.oy]; iy++) {
            for (int64_t ix = p->lo[2][o.ox]; ix < p->hi[2][o.ox]; ix++) {
                const E *in = x + ((iz * p->in[1] + iy) * p->in[2] + ix) * p->channels;
                for (int s = 0; s < sets; s++) sum[s] += lanes_load(in + s * LANE_COUNT);
            }
        }
    }
    for (int s = 0; s < sets; s++) sum[s] /= divisor;
    write_lanes(sum, sets, y);
}
#endif

/* All channels of one output. */
static void max_pixel(const cpu_pool *p, const E *x, pixel_walk o, E *y, int64_t *index)
{
    int64_t c = 0;
#if CPU_IS_FLOAT
    for (; c + SPAN <= p->channels; c += SPAN) max_lanes(p, x + c, o, y + c, index + c, SETS);
    for (; c + LANE_COUNT <= p->channels; c += LANE_COUNT) max_lanes(p, x + c, o, y + c, index + c, 1);
#endif
    for (; c < p->channels; c++) max_one(p, x + c, o, y + c, index + c);
}

static void average_pixel(const cpu_pool *p, const E *x, pixel_walk o, E *y)
{
    int64_t c = 0;
#if CPU_IS_FLOAT
    for (; c + SPAN <= p->channels; c += SPAN) average_lanes(p, x + c, o, y + c, SETS);
    for (; c + LANE_COUNT <= p->channels; c += LANE_COUNT) average_lanes(p, x + c, o, y + c, 1);
#endif
    for (; c < p->channels; c++) average_one(p, x + c, o, y + c);
}

/* Outputs [begin, end) of all images, line by line. */
static void walk_outputs(const cpu_pool *p, int64_t begin, int64_t end, bool max)
{
    int64_t in = cpu_volume(p->in) * p->channels, out = cpu_volume(p->out);
    for (int64_t line = begin; line < end; line++) {
        for (int64_t ox = 0; ox < p->out[2]; ox++) {
            int64_t pixel = line * p->out[2] + ox;
            pixel_walk o = output_pixel(p, pixel % out);
            const E *x = (const E *)p->x + pixel / out * in;
            E *y = (E *)p->y + pixel * p->channels;
            if (max)
                max_pixel(p, x, o, y, p->indices + pixel * p->channels);
            else
                average_pixel(p, x, o, y);
        }
    }
}

static void max(const cpu_pool *p, int64_t begin, int64_t end)
{
    walk_outputs(p, begin, end, true);
}

static void average(const cpu_pool *p, int64_t begin, int64_t end)
{
    walk_outputs(p, begin, end, false);
}

/* ---- Backward ---------------------------------------------------------------------------------------- */

/* A block of channels of one image; the sums of neighbouring pixels are `step` apart. */
typedef struct gradient_block {
    const E *grad;
    const int64_t *index;
    acc *sums;
    int64_t step, count;
} gradient_block;

static void spread_average(const cpu_pool *p, const gradient_block *b, int64_t pixel)
{
    acc part[CPU_POOL_BLOCK];
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

static void spread_max(const cpu_pool *p, const gradient_block *b, int64_t pixel)
{
    acc room[CPU_POOL_BLOCK];
    int64_t in = cpu_volume(p->in);
    const acc *grad = run_read(b->grad + pixel * p->channels, b->count, room);
    const int64_t *index = b->index + pixel * p->channels;
    for (int64_t c = 0; c < b->count; c++)
        if (index[c] >= 0 && index[c] < in) b->sums[index[c] * b->step + c] += grad[c];
}

/* Items are blocks of CPU_POOL_BLOCK channels, image by image; `memory` has room for the sums of one
 * block. */
static void walk_blocks(const cpu_pool *p, int64_t begin, int64_t end, void *memory, bool max)
{
    int64_t in = cpu_volume(p->in), out = cpu_volume(p->out), blocks = ceil_div(p->channels, CPU_POOL_BLOCK);
    bool direct = sizeof(E) == sizeof(acc);
    for (int64_t item = begin; item < end; item++) {
        int64_t image = item / blocks, first = item % blocks * CPU_POOL_BLOCK;
        E *to = (E *)p->y + image * in * p->channels + first;
        gradient_block b = {.grad = (const E *)p->x + image * out * p->channels + first,
                            .index = max ? p->indices + image * out * p->channels + first : NULL,
                            .sums = direct ? (acc *)(void *)to : memory,
                            .count = min_i64(CPU_POOL_BLOCK, p->channels - first)};
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

static void average_backward(const cpu_pool *p, int64_t begin, int64_t end, void *sums)
{
    walk_blocks(p, begin, end, sums, false);
}

static void max_backward(const cpu_pool *p, int64_t begin, int64_t end, void *sums)
{
    walk_blocks(p, begin, end, sums, true);
}

extern const cpu_pool_kernels CPU_NAME(cpu_pool_channels_last_kernels);
const cpu_pool_kernels CPU_NAME(cpu_pool_channels_last_kernels) = {
    .acc_bytes = sizeof(acc),
    .max = max,
    .average = average,
    .average_backward = average_backward,
    .max_backward = max_backward,
};
