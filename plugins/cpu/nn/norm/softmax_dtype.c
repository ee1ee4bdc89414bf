/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softmax and log_softmax with their gradients, for one dtype and level. Lines along the last dimension are
 * taken one at a time; along another dimension a block of neighbouring lines is taken together, so that reads
 * stay contiguous and each lane is its own line.
 */
#include "nn/exponential.h"
#include "nn/lanes.h"
#include "nn/runs.h"
#include "softmax.h"

enum { BLOCK = CPU_SOFTMAX_BLOCK };

/* Terms of a line that are kept between two passes over it. */
enum { KEPT = 1024 };

/* Sum of exp(x - max); `terms` holds those of the last stretch of up to KEPT elements. */
static acc line_exponentials(const T *restrict x, int64_t count, acc max, acc *restrict terms)
{
    acc sum = 0;
    for (int64_t first = 0; first < count; first += KEPT) {
        int64_t length = min_i64(KEPT, count - first);
        const acc *from = run_read(x + first, length, terms);
        for (int64_t i = 0; i < length; i++) terms[i] = exponential(from[i] - max);
        sum += lanes_sum_acc(terms, length);
    }
    return sum;
}

static acc scaled_exponential(acc x, acc y, acc v, acc w, const acc *c)
{
    return exponential(x - c[0]) * c[1];
}
static acc less_both(acc x, acc y, acc v, acc w, const acc *c)
{
    return x - c[0] - c[1];
}

static void softmax_line(const T *restrict x, int64_t count, T *restrict out)
{
    acc terms[KEPT], max = lanes_max(x, count), scale = 1 / line_exponentials(x, count, max, terms);
    if (count <= KEPT) {
        run_scale(terms, scale, count, out);
        return;
    }
    run_map((run_operands){.x = x}, count, (const acc[]){max, scale}, scaled_exponential, out);
}

static void log_softmax_line(const T *restrict x, int64_t count, T *restrict out)
{
    acc terms[KEPT], max = lanes_max(x, count), sum = line_exponentials(x, count, max, terms);
    acc less = (acc)log((double)sum);
    run_map((run_operands){.x = x}, count, (const acc[]){max, less}, less_both, out);
}

/* Elements of a block that are kept between passes: lines whose elements lie a power of two apart would push
 * each other out of the caches. */
enum { BLOCK_KEPT = 128 };

static void finish_block(acc *restrict x, const acc *restrict max, const acc *restrict sum, int64_t width,
                         bool logarithm, T *restrict out)
{
    if (logarithm)
        for (int64_t j = 0; j < width; j++) x[j] = x[j] - max[j] - sum[j];
    else
        for (int64_t j = 0; j < width; j++) x[j] = exponential(x[j] - max[j]) * sum[j];
    run_write(x, width, out);
}

/* Row i of the block: kept, or read into the first place. */
static acc *block_row(acc kept[][BLOCK], bool keep, const T *x, int64_t i, int64_t step, int64_t width,
                      bool read)
{
    acc *row = kept[keep ? i : 0];
    if (!read && keep) return row;
    const acc *from = run_read(x + i * step, width, row);
    if (from != row) memcpy(row, from, (size_t)width * sizeof(acc));
    return row;
}

/* `width` neighbouring lines, whose elements are `step` apart. */
static void softmax_block(const T *x, int64_t count, int64_t step, int64_t width, bool logarithm, T *out)
{
    acc max[BLOCK], sum[BLOCK], rest[BLOCK], kept[BLOCK_KEPT][BLOCK];
    bool keep = count <= BLOCK_KEPT;
    for (int64_t j = 0; j < width; j++) {
        max[j] = LOWEST;
        sum[j] = rest[j] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        const acc *row = block_row(kept, keep, x, i, step, width, true);
        for (int64_t j = 0; j < width; j++) max[j] = larger(row[j], max[j]);
    }
    for (int64_t i = 0; i < count; i++) {
        const acc *row = block_row(kept, keep, x, i, step, width, false);
        for (int64_t j = 0; j < width; j++) {
            /* The terms are of one sign: what each addition rounds away would add up. */
            acc term = exponential(row[j] - max[j]), next = sum[j] + term;
            rest[j] += term - (next - sum[j]);
            sum[j] = next;
        }
    }
    for (int64_t j = 0; j < width; j++) sum[j] += rest[j];
    for (int64_t j = 0; j < width; j++) sum[j] = logarithm ? (acc)log((double)sum[j]) : 1 / sum[j];
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
        const T *x = (const T *)s->x + at;
        T *out = (T *)s->out + at;
        if (s->inner > 1)
            softmax_block(x, s->size, s->inner, width, s->logarithm, out);
        else if (s->logarithm)
            log_softmax_line(x, s->size, out);
        else
            softmax_line(x, s->size, out);
    }
}

static acc less_share(acc g, acc y, acc v, acc w, const acc *c)
{
    return g - exponential(y) * c[0];
}
static acc times_apart(acc g, acc y, acc v, acc w, const acc *c)
{
    return (g - c[0]) * y;
}

static void backward_line(const T *restrict g, const T *restrict y, int64_t count, bool logarithm,
                          T *restrict out)
{
    acc sum, dot = 0;
    if (logarithm) {
        sum = lanes_sum(g, count);
        run_map((run_operands){.x = g, .y = y}, count, &sum, less_share, out);
        return;
    }
    lanes_products(g, y, NULL, count, 0, &sum, &dot);
    run_map((run_operands){.x = g, .y = y}, count, &dot, times_apart, out);
}

static acc less_shares(acc g, acc y, acc sum, acc w, const acc *c)
{
    return g - exponential(y) * sum;
}
static acc times_aparts(acc g, acc y, acc sum, acc w, const acc *c)
{
    return (g - sum) * y;
}

static void backward_block(const T *g, const T *y, int64_t count, int64_t step, int64_t width, bool logarithm,
                           T *out)
{
    acc sum[BLOCK], grads[BLOCK], values[BLOCK];
    for (int64_t j = 0; j < width; j++) sum[j] = 0;
    for (int64_t i = 0; i < count; i++) {
        const acc *grad = run_read(g + i * step, width, grads);
        const acc *value = logarithm ? NULL : run_read(y + i * step, width, values);
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
        const T *g = (const T *)s->x + at, *y = (const T *)s->y + at;
        T *out = (T *)s->out + at;
        if (s->inner == 1)
            backward_line(g, y, s->size, s->logarithm, out);
        else
            backward_block(g, y, s->size, s->inner, width, s->logarithm, out);
    }
}

extern const cpu_softmax_kernels K(cpu_softmax_kernels);
const cpu_softmax_kernels K(cpu_softmax_kernels) = {.forward = forward, .backward = backward};
