/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softmax and log_softmax with their gradients, for one dtype and level. Lines along the last dimension are
 * taken one at a time; along another dimension a block of neighbouring lines is taken together, so that reads
 * stay contiguous and each lane is its own line.
 */
#include "exponential.h"
#include "lanes.h"
#include "softmax.h"

enum { BLOCK = TNI_SOFTMAX_BLOCK };

/* Terms of a line that are kept between two passes over it. */
enum { KEPT = 1024 };

/* Sum of exp(x - max); `terms` holds those of the last stretch of up to KEPT elements. */
static acc line_exponentials(const T *restrict x, int64_t count, acc max, acc *restrict terms)
{
    acc sum = 0;
    for (int64_t first = 0; first < count; first += KEPT) {
        int64_t length = min_i64(KEPT, count - first);
        for (int64_t i = 0; i < length; i++) terms[i] = exponential(load(x[first + i]) - max);
        sum += lanes_sum_acc(terms, length);
    }
    return sum;
}

static void softmax_line(const T *restrict x, int64_t count, T *restrict out)
{
    acc terms[KEPT], max = lanes_max(x, count), scale = 1 / line_exponentials(x, count, max, terms);
    if (count <= KEPT) {
        for (int64_t i = 0; i < count; i++) out[i] = store(terms[i] * scale);
        return;
    }
    for (int64_t i = 0; i < count; i++) out[i] = store(exponential(load(x[i]) - max) * scale);
}

/* The sum and its logarithm are rounded to T before they are used, as ATen does. */
static void log_softmax_line(const T *restrict x, int64_t count, T *restrict out)
{
    acc terms[KEPT], max = lanes_max(x, count), sum = line_exponentials(x, count, max, terms);
    acc less = load(store((acc)log((double)load(store(sum)))));
    for (int64_t i = 0; i < count; i++) out[i] = store(load(x[i]) - max - less);
}

/* Elements of a block that are kept between passes: lines whose elements lie a power of two apart would push
 * each other out of the caches. */
enum { BLOCK_KEPT = 128 };

static void finish_block(const acc *restrict x, const acc *restrict max, const acc *restrict sum,
                         int64_t width, bool logarithm, T *restrict out)
{
    if (logarithm)
        for (int64_t j = 0; j < width; j++) out[j] = store(x[j] - max[j] - sum[j]);
    else
        for (int64_t j = 0; j < width; j++) out[j] = store(exponential(x[j] - max[j]) * sum[j]);
}

static void read_row(const T *restrict x, int64_t width, acc *restrict to)
{
    for (int64_t j = 0; j < width; j++) to[j] = load(x[j]);
}

/* `width` neighbouring lines, whose elements are `step` apart. */
static void softmax_block(const T *x, int64_t count, int64_t step, int64_t width, bool logarithm, T *out)
{
    acc max[BLOCK], sum[BLOCK], kept[BLOCK_KEPT][BLOCK];
    bool keep = count <= BLOCK_KEPT;
    for (int64_t j = 0; j < width; j++) {
        max[j] = LOWEST;
        sum[j] = 0;
    }
    for (int64_t i = 0; i < count; i++) {
        acc *row = kept[keep ? i : 0];
        read_row(x + i * step, width, row);
        for (int64_t j = 0; j < width; j++) max[j] = larger(row[j], max[j]);
    }
    for (int64_t i = 0; i < count; i++) {
        acc *row = kept[keep ? i : 0];
        if (!keep) read_row(x + i * step, width, row);
        for (int64_t j = 0; j < width; j++) sum[j] += exponential(row[j] - max[j]);
    }
    for (int64_t j = 0; j < width; j++)
        sum[j] = logarithm ? load(store((acc)log((double)load(store(sum[j]))))) : 1 / sum[j];
    for (int64_t i = 0; i < count; i++) {
        acc *row = kept[keep ? i : 0];
        if (!keep) read_row(x + i * step, width, row);
        finish_block(row, max, sum, width, logarithm, out + i * step);
    }
}

/* Where block `index` begins, and how many lines it has. */
static int64_t block_at(const tni_softmax *s, int64_t index, int64_t *width)
{
    int64_t blocks = ceil_div(s->inner, BLOCK), first = index % blocks * BLOCK;
    *width = min_i64(BLOCK, s->inner - first);
    return index / blocks * s->size * s->inner + first;
}

static void forward(const tni_softmax *s, int64_t begin, int64_t end)
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

static void backward_line(const T *restrict g, const T *restrict y, int64_t count, bool logarithm,
                          T *restrict out)
{
    acc sum, dot = 0;
    if (logarithm) {
        sum = lanes_sum(g, count);
        for (int64_t i = 0; i < count; i++) out[i] = store(load(g[i]) - exponential(load(y[i])) * sum);
        return;
    }
    lanes_products(g, y, NULL, count, 0, &sum, &dot);
    for (int64_t i = 0; i < count; i++) out[i] = store((load(g[i]) - dot) * load(y[i]));
}

static void backward_block(const T *g, const T *y, int64_t count, int64_t step, int64_t width, bool logarithm,
                           T *out)
{
    acc sum[BLOCK];
    for (int64_t j = 0; j < width; j++) sum[j] = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < width; j++)
            sum[j] += load(g[i * step + j]) * (logarithm ? 1 : load(y[i * step + j]));
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < width; j++) {
            acc grad = load(g[i * step + j]), value = load(y[i * step + j]);
            out[i * step + j] =
                store(logarithm ? grad - exponential(value) * sum[j] : (grad - sum[j]) * value);
        }
    }
}

static void backward(const tni_softmax *s, int64_t begin, int64_t end)
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

extern const tni_softmax_kernels K(tni_softmax_kernels);
const tni_softmax_kernels K(tni_softmax_kernels) = {.forward = forward, .backward = backward};
