/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softmax and log_softmax with their gradients. Lines along the last dimension are computed one at a time;
 * along another dimension a block of neighbouring lines is computed together, so reads are contiguous and
 * each vector lane is a line.
 */
#include "nn/lanes.h"
#include "nn/runs.h"
#include "nn/words.h"
#include "softmax.h"
#include "walk/staging.h"

enum { BLOCK = CPU_SOFTMAX_BLOCK };

/* Terms of a line that are kept between two passes over it. */
enum { KEPT = 1024 };

/* Sum of exp(x - max); `terms` holds those of the last stretch of up to KEPT elements. */
static T line_exponentials(const E *restrict x, int64_t count, T max, T *restrict terms)
{
    T sum = 0;
    for (int64_t first = 0; first < count; first += KEPT) {
        int64_t length = min_i64(KEPT, count - first);
        const T *from = run_read(x + first, length, terms);
        for (int64_t i = 0; i < length; i++) terms[i] = exponential_below(from[i] - max);
        sum += lanes_sum_acc(terms, length);
    }
    return sum;
}

ALWAYS_INLINE T scaled_exponential(T x, T y, T v, T w, const T *c)
{
    return exponential_below(x - c[0]) * c[1];
}
ALWAYS_INLINE T less_both(T x, T y, T v, T w, const T *c)
{
    return x - c[0] - c[1];
}

static void softmax_line(const E *restrict x, int64_t count, bool streamed, E *restrict out)
{
    T terms[KEPT], max = lanes_max(x, count), scale = 1 / line_exponentials(x, count, max, terms);
    if (count <= KEPT && streamed) {
        E results[KEPT];
        run_scale(terms, scale, count, results);
        cpu_stream(out, results, count * (int64_t)sizeof(E));
        return;
    }
    if (count <= KEPT) {
        run_scale(terms, scale, count, out);
        return;
    }
    run_map((run_operands){.x = x}, count, (const T[]){max, scale}, scaled_exponential, out);
}

static void log_softmax_line(const E *restrict x, int64_t count, E *restrict out)
{
    T terms[KEPT], max = lanes_max(x, count), sum = line_exponentials(x, count, max, terms);
    T less = (T)log((double)sum);
    run_map((run_operands){.x = x}, count, (const T[]){max, less}, less_both, out);
}

/* Rows of a block that are kept between passes: rows a power of two apart would evict each other from the
 * caches. */
enum { BLOCK_KEPT = 128 };

static void finish_block(T *restrict x, const T *restrict max, const T *restrict sum, int64_t width,
                         bool logarithm, E *restrict out)
{
    if (logarithm)
        for (int64_t j = 0; j < width; j++) x[j] = x[j] - max[j] - sum[j];
    else
        for (int64_t j = 0; j < width; j++) x[j] = exponential_below(x[j] - max[j]) * sum[j];
    run_write(x, width, out);
}

/* Row i of the block: the kept copy, or read into the first place. */
static T *block_row(T kept[][BLOCK], bool keep, const E *x, int64_t i, int64_t step, int64_t width, bool read)
{
    T *row = kept[keep ? i : 0];
    if (!read && keep) return row;
    const T *from = run_read(x + i * step, width, row);
    if (from != row) memcpy(row, from, (size_t)width * sizeof(T));
    return row;
}

/* `width` neighbouring lines, whose elements are `step` apart. */
static void softmax_block(const E *x, int64_t count, int64_t step, int64_t width, bool logarithm, E *out)
{
    T max[BLOCK], sum[BLOCK], rest[BLOCK], kept[BLOCK_KEPT][BLOCK];
    bool keep = count <= BLOCK_KEPT;
    for (int64_t j = 0; j < width; j++) {
        max[j] = LOWEST;
        sum[j] = rest[j] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        const T *row = block_row(kept, keep, x, i, step, width, true);
        for (int64_t j = 0; j < width; j++) max[j] = larger(row[j], max[j]);
    }
    for (int64_t i = 0; i < count; i++) {
        const T *row = block_row(kept, keep, x, i, step, width, false);
        for (int64_t j = 0; j < width; j++) {
            /* Terms have one sign, so their rounding errors would add up. */
            T term = exponential_below(row[j] - max[j]), next = sum[j] + term;
            rest[j] += term - (next - sum[j]);
            sum[j] = next;
        }
    }
    for (int64_t j = 0; j < width; j++) sum[j] += rest[j];
    for (int64_t j = 0; j < width; j++) sum[j] = logarithm ? (T)log((double)sum[j]) : 1 / sum[j];
    for (int64_t i = 0; i < count; i++)
        finish_block(block_row(kept, keep, x, i, step, width, false), max, sum, width, logarithm,
                     out + i * step);
}

/* Where block `index` begins, and how many lines it has. */
static int64_t block_at(const cpu_softmax *s, int64_t index, int64_t *width)
{
    int64_t blocks = ceil_div(s->inner, BLOCK), first = index % blocks * BLOCK;
    *width = min_i64(BLOCK, s->inner - first);
    return index / blocks * s->size * s->inner + first;
}

static void forward(const cpu_softmax *s, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        int64_t width, at = s->inner == 1 ? i * s->size : block_at(s, i, &width);
        const E *x = (const E *)s->x + at;
        E *out = (E *)s->out + at;
        if (s->inner > 1)
            softmax_block(x, s->size, s->inner, width, s->logarithm, out);
        else if (s->logarithm)
            log_softmax_line(x, s->size, out);
        else
            softmax_line(x, s->size, s->streamed, out);
    }
    if (s->streamed) cpu_stream_end();
}

ALWAYS_INLINE T less_share(T g, T y, T v, T w, const T *c)
{
    return g - exponential(y) * c[0];
}
ALWAYS_INLINE T times_apart(T g, T y, T v, T w, const T *c)
{
    return (g - c[0]) * y;
}

static void backward_line(const E *restrict g, const E *restrict y, int64_t count, bool logarithm,
                          E *restrict out)
{
    if (logarithm) {
        T sum = lanes_sum(g, count);
        run_map((run_operands){.x = g, .y = y}, count, &sum, less_share, out);
        return;
    }
    T dot = lanes_dot(g, y, count);
    run_map((run_operands){.x = g, .y = y}, count, &dot, times_apart, out);
}

ALWAYS_INLINE T less_shares(T g, T y, T sum, T w, const T *c)
{
    return g - exponential(y) * sum;
}
ALWAYS_INLINE T times_aparts(T g, T y, T sum, T w, const T *c)
{
    return (g - sum) * y;
}

static void backward_block(const E *g, const E *y, int64_t count, int64_t step, int64_t width, bool logarithm,
                           E *out)
{
    T sum[BLOCK], grads[BLOCK], values[BLOCK];
    for (int64_t j = 0; j < width; j++) sum[j] = 0;
    for (int64_t i = 0; i < count; i++) {
        const T *grad = run_read(g + i * step, width, grads);
        const T *value = logarithm ? NULL : run_read(y + i * step, width, values);
        for (int64_t j = 0; j < width; j++) sum[j] += value ? grad[j] * value[j] : grad[j];
    }
    for (int64_t i = 0; i < count; i++) {
        run_operands r = {.x = g + i * step, .y = y + i * step, .v = sum};
        if (logarithm)
            run_map(r, width, NULL, less_shares, out + i * step);
        else
            run_map(r, width, NULL, times_aparts, out + i * step);
    }
}

static void backward(const cpu_softmax *s, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        int64_t width, at = s->inner == 1 ? i * s->size : block_at(s, i, &width);
        const E *g = (const E *)s->x + at, *y = (const E *)s->y + at;
        E *out = (E *)s->out + at;
        if (s->inner == 1)
            backward_line(g, y, s->size, s->logarithm, out);
        else
            backward_block(g, y, s->size, s->inner, width, s->logarithm, out);
    }
}

CPU_KERNELS(cpu_softmax_kernels, .forward = forward, .backward = backward);
