/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling of row-major planes. Windows with a regular stride are computed for a row of outputs at a time,
 * one window element after the other, which vectorises; other windows are computed output by output.
 */
#include "pool_window.h"
#include "nn/runs.h"
#if CPU_IS_FLOAT
#include "nn/lanes.h"
#endif

enum { ROW = 256 };

/* ---- Maxima ------------------------------------------------------------------------------------------ */

static void max_output(const cpu_pool *p, const E *x, int64_t oz, int64_t oy, int64_t ox, E *y,
                       int64_t *index)
{
    value best = (value)LOWEST;
    int64_t at = (p->lo[0][oz] * p->in[1] + p->lo[1][oy]) * p->in[2] + p->lo[2][ox];
    E result = {0};
    bool found = false;
    for (int64_t iz = p->lo[0][oz]; iz < p->hi[0][oz]; iz += p->step[0]) {
        for (int64_t iy = p->lo[1][oy]; iy < p->hi[1][oy]; iy += p->step[1]) {
            for (int64_t ix = p->lo[2][ox]; ix < p->hi[2][ox]; ix += p->step[2]) {
                int64_t i = (iz * p->in[1] + iy) * p->in[2] + ix;
                if (!found || replaces(TO_VALUE(x[i]), best)) {
                    best = TO_VALUE(x[i]);
                    result = x[i];
                    at = i;
                    found = true;
                }
            }
        }
    }
    *y = result;
    *index = at;
}

/* Neighbouring outputs of one line whose square windows are inside the image; `base` is the index of x[0]. */
ALWAYS_INLINE void max_squares(const E *restrict x, int64_t width, int32_t base, int64_t count,
                               const int kernel, const int stride, E *restrict y, int64_t *restrict index)
{
    for (int64_t o = 0; o < count; o++) {
        const E *at = x + o * stride;
        int32_t here = base + (int32_t)o * stride, where = here;
        value best = TO_VALUE(at[0]);
        for (int k = 1; k < kernel * kernel; k++) {
            int ky = k / kernel, kx = k % kernel;
            value candidate = TO_VALUE(at[ky * width + kx]);
            where = replaces(candidate, best) ? here + ky * (int32_t)width + kx : where;
            best = replaces(candidate, best) ? candidate : best;
        }
        STORE_VALUE(y + o, best);
        index[o] = where;
    }
}

/* The outputs of a line for common windows; false for other windows. */
static bool max_common(const cpu_pool *p, const E *x, int64_t oy, int64_t count, E *y, int64_t *index)
{
    int64_t width = p->in[2], top = p->lo[1][oy] * width + p->lo[2][p->first];
    int32_t base = (int32_t)top;
    x += top;
    if (p->kernel[2] == 2 && p->stride[2] == 2)
        max_squares(x, width, base, count, 2, 2, y, index);
    else if (p->kernel[2] == 3 && p->stride[2] == 2)
        max_squares(x, width, base, count, 3, 2, y, index);
    else if (p->kernel[2] == 3 && p->stride[2] == 1)
        max_squares(x, width, base, count, 3, 1, y, index);
    else
        return false;
    return true;
}

static void max_line(const cpu_pool *p, const E *x, int64_t oz, int64_t oy, E *y, int64_t *index)
{
    bool whole = p->square && p->hi[1][oy] - p->lo[1][oy] == p->kernel[1];
    int64_t first = p->out[2], last = first;
    if (whole && p->last > p->first &&
        max_common(p, x, oy, p->last - p->first, y + p->first, index + p->first)) {
        first = p->first;
        last = p->last;
    }
    for (int64_t o = 0; o < first; o++) max_output(p, x, oz, oy, o, y + o, index + o);
    for (int64_t o = last; o < p->out[2]; o++) max_output(p, x, oz, oy, o, y + o, index + o);
}

static void max(const cpu_pool *p, int64_t begin, int64_t end)
{
    int64_t in = cpu_volume(p->in), out = cpu_volume(p->out);
    for (int64_t plane = begin; plane < end; plane++) {
        const E *x = (const E *)p->x + plane * in;
        E *y = (E *)p->y + plane * out;
        int64_t *index = p->indices + plane * out;
        for (int64_t line = 0; line < p->out[0] * p->out[1]; line++, y += p->out[2], index += p->out[2])
            max_line(p, x, line / p->out[1], line % p->out[1], y, index);
    }
}

static void max_backward(const cpu_pool *p, int64_t begin, int64_t end, void *sums_v)
{
    int64_t in = cpu_volume(p->in), out = cpu_volume(p->out);
    for (int64_t plane = begin; plane < end; plane++) {
        const E *g = (const E *)p->x + plane * out;
        const int64_t *index = p->indices + plane * out;
        E *to = (E *)p->y + plane * in;
        acc *sums = sizeof(E) == sizeof(acc) ? (acc *)(void *)to : sums_v;
        memset(sums, 0, (size_t)in * sizeof(acc));
        for (int64_t first = 0; first < out; first += ROW) {
            acc room[ROW];
            int64_t count = min_i64(ROW, out - first);
            const acc *grads = run_read(g + first, count, room);
            for (int64_t o = 0; o < count; o++) {
                int64_t at = index[first + o];
                if (at >= 0 && at < in) sums[at] += grads[o];
            }
        }
        if (sizeof(E) != sizeof(acc)) run_write(sums, in, to);
    }
}

/* ---- Averages ---------------------------------------------------------------------------------------- */

static acc sum_output(const cpu_pool *p, const E *x, int64_t oz, int64_t oy, int64_t ox)
{
    acc sum = 0;
    for (int64_t iz = p->lo[0][oz]; iz < p->hi[0][oz]; iz++)
        for (int64_t iy = p->lo[1][oy]; iy < p->hi[1][oy]; iy++)
            for (int64_t ix = p->lo[2][ox]; ix < p->hi[2][ox]; ix++)
                sum += load_acc(&x[(iz * p->in[1] + iy) * p->in[2] + ix]);
    return sum;
}

static void average_line(const cpu_pool *p, const E *x, int64_t oz, int64_t oy, int64_t x0, int64_t count,
                         E *y)
{
    acc sum[ROW];
    int64_t stride = p->stride[2];
    for (int64_t o = 0; o < count; o++) sum[o] = 0;
    for (int64_t iz = p->lo[0][oz]; iz < p->hi[0][oz]; iz++) {
        for (int64_t iy = p->lo[1][oy]; iy < p->hi[1][oy]; iy++) {
            for (int64_t k = 0; k < p->kernel[2]; k++) {
                int64_t shift = x0 * stride + k - p->padding[2];
                int64_t first = max_i64(0, p->from[k] - x0), last = min_i64(count, p->to[k] - x0);
                const E *restrict line = x + (iz * p->in[1] + iy) * p->in[2] + shift;
                if (stride == 1)
                    for (int64_t o = first; o < last; o++) sum[o] += load_acc(&line[o]);
                else if (stride == 2)
                    for (int64_t o = first; o < last; o++) sum[o] += load_acc(&line[o * 2]);
                else
                    for (int64_t o = first; o < last; o++) sum[o] += load_acc(&line[o * stride]);
            }
        }
    }
    for (int64_t o = 0; o < count; o++) {
        y[o] = is_empty(p, oz, oy, x0 + o) ? (E){0} : divided(sum[o], divisor_of(p, oz, oy, x0 + o));
    }
}

/* 1 if each plane has one output, whose window is the plane. */
static bool is_global(const cpu_pool *p)
{
    for (int i = 0; i < 3; i++)
        if (p->out[i] != 1 || p->lo[i][0] != 0 || p->hi[i][0] != p->in[i]) return false;
    return true;
}

static acc sum_plane(const E *x, int64_t count)
{
#if CPU_IS_FLOAT
    return lanes_sum(x, count);
#else
    acc sum = 0;
    for (int64_t i = 0; i < count; i++) sum += load_acc(&x[i]);
    return sum;
#endif
}

static void average(const cpu_pool *p, int64_t begin, int64_t end)
{
    int64_t in = cpu_volume(p->in), out = cpu_volume(p->out);
    bool global = is_global(p);
    for (int64_t plane = begin; plane < end; plane++) {
        const E *x = (const E *)p->x + plane * in;
        E *y = (E *)p->y + plane * out;
        if (global) {
            *y = divided(sum_plane(x, in), divisor_of(p, 0, 0, 0));
            continue;
        }
        for (int64_t line = 0; line < p->out[0] * p->out[1]; line++, y += p->out[2]) {
            int64_t oz = line / p->out[1], oy = line % p->out[1];
            for (int64_t o = 0; p->plain && o < p->out[2]; o += ROW)
                average_line(p, x, oz, oy, o, min_i64(ROW, p->out[2] - o), y + o);
            for (int64_t o = 0; !p->plain && o < p->out[2]; o++)
                y[o] = divided(sum_output(p, x, oz, oy, o), divisor_of(p, oz, oy, o));
        }
    }
}

static void spread_output(const cpu_pool *p, acc part, int64_t oz, int64_t oy, int64_t ox, acc *sums)
{
    for (int64_t iz = p->lo[0][oz]; iz < p->hi[0][oz]; iz++)
        for (int64_t iy = p->lo[1][oy]; iy < p->hi[1][oy]; iy++)
            for (int64_t ix = p->lo[2][ox]; ix < p->hi[2][ox]; ix++)
                sums[(iz * p->in[1] + iy) * p->in[2] + ix] += part;
}

/* What each of `count` outputs of a line gives to every input of its window. */
static void average_parts(const cpu_pool *p, const E *g, int64_t oz, int64_t oy, int64_t x0, int64_t count,
                          acc *part)
{
    const int64_t *lo = p->lo[2] + x0, *hi = p->hi[2] + x0, *extent = p->extent[2];
    const acc *grads = run_read(g, count, part);
    int64_t area = extent ? p->extent[0][oz] * p->extent[1][oy]
                          : (p->hi[0][oz] - p->lo[0][oz]) * (p->hi[1][oy] - p->lo[1][oy]);
    if (p->divisor)
        for (int64_t o = 0; o < count; o++) part[o] = grads[o] / (acc)p->divisor;
    else if (extent)
        for (int64_t o = 0; o < count; o++) part[o] = grads[o] / (acc)(area * extent[x0 + o]);
    else
        for (int64_t o = 0; o < count; o++) part[o] = grads[o] / (acc)(area * (hi[o] - lo[o]));
}

/*
 * Adds the parts of the outputs from x0 on to a line of inputs. The last kernel element comes first, so that an
 * input gets the parts of its outputs in their order.
 */
static void spread_parts(const cpu_pool *p, const acc *restrict part, int64_t x0, int64_t count,
                         acc *restrict line)
{
    int64_t stride = p->stride[2];
    if (stride == 2 && p->kernel[2] == 2 && p->first <= x0 && x0 + count <= p->last) {
        acc *restrict to = line + x0 * 2 - p->padding[2];
        for (int64_t o = 0; o < count; o++) {
            to[2 * o] += part[o];
            to[2 * o + 1] += part[o];
        }
        return;
    }
    for (int64_t k = p->kernel[2]; k-- > 0;) {
        int64_t first = max_i64(0, p->from[k] - x0), last = min_i64(count, p->to[k] - x0);
        acc *restrict to = line + x0 * stride + k - p->padding[2];
        if (stride == 1)
            for (int64_t o = first; o < last; o++) to[o] += part[o];
        else
            for (int64_t o = first; o < last; o++) to[o * stride] += part[o];
    }
}

static void spread_line(const cpu_pool *p, const E *g, int64_t oz, int64_t oy, acc *sums)
{
    acc part[ROW];
    for (int64_t x0 = 0; x0 < p->out[2]; x0 += ROW) {
        int64_t count = min_i64(ROW, p->out[2] - x0);
        average_parts(p, g + x0, oz, oy, x0, count, part);
        for (int64_t iz = p->lo[0][oz]; iz < p->hi[0][oz]; iz++)
            for (int64_t iy = p->lo[1][oy]; iy < p->hi[1][oy]; iy++)
                spread_parts(p, part, x0, count, sums + (iz * p->in[1] + iy) * p->in[2]);
    }
}

static void average_backward(const cpu_pool *p, int64_t begin, int64_t end, void *sums_v)
{
    int64_t in = cpu_volume(p->in), out = cpu_volume(p->out);
    for (int64_t plane = begin; plane < end; plane++) {
        const E *g = (const E *)p->x + plane * out;
        E *to = (E *)p->y + plane * in;
        acc *sums = sizeof(E) == sizeof(acc) ? (acc *)(void *)to : sums_v;
        memset(sums, 0, (size_t)in * sizeof(acc));
        for (int64_t line = 0; p->plain && line < p->out[0] * p->out[1]; line++)
            spread_line(p, g + line * p->out[2], line / p->out[1], line % p->out[1], sums);
        for (int64_t o = 0; !p->plain && o < out; o++) {
            int64_t ox = o % p->out[2], oy = o / p->out[2] % p->out[1], oz = o / p->out[2] / p->out[1];
            spread_output(p, load_acc(&g[o]) / (acc)divisor_of(p, oz, oy, ox), oz, oy, ox, sums);
        }
        if (sizeof(E) != sizeof(acc)) run_write(sums, in, to);
    }
}

static int64_t unpool(const cpu_pool *p, int64_t begin, int64_t end)
{
    int64_t in = cpu_volume(p->in), out = cpu_volume(p->out);
    for (int64_t plane = begin; plane < end; plane++) {
        const E *x = (const E *)p->x + plane * in;
        const int64_t *index = p->indices + plane * in;
        E *y = (E *)p->y + plane * out;
        memset(y, 0, (size_t)out * sizeof(E));
        for (int64_t i = 0; i < in; i++) {
            if (index[i] < 0 || index[i] >= out) return index[i] < 0 ? -index[i] : index[i];
            y[index[i]] = x[i];
        }
    }
    return -1;
}

CPU_KERNELS(cpu_pool_kernels, .acc_bytes = sizeof(acc), .max = max, .average = average,
            .average_backward = average_backward, .max_backward = max_backward, .unpool = unpool);
