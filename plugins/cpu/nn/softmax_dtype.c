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

static inline acc larger(acc a, acc b)
{
    return a > b || a != a ? a : b;
}

static acc line_max(const T *restrict x, int64_t count)
{
    acc lane[SUM_LANES], best;
    int64_t i = 0;
    for (int j = 0; j < SUM_LANES; j++) lane[j] = LOWEST;
    for (; i + SUM_LANES <= count; i += SUM_LANES)
        for (int j = 0; j < SUM_LANES; j++) lane[j] = larger(lane[j], load(x[i + j]));
    for (int j = 0; j < (int)(count % SUM_LANES); j++, i++) lane[j] = larger(lane[j], load(x[i]));
    best = lane[0];
    for (int j = 1; j < SUM_LANES; j++) best = larger(best, lane[j]);
    return best;
}

/* Sum of exp(x - max), whose terms are kept in `terms` when it is not NULL. */
static acc line_exponentials(const T *restrict x, int64_t count, acc max, acc *restrict terms)
{
    acc lane[SUM_LANES] = {0};
    int64_t i = 0;
    for (; i + SUM_LANES <= count; i += SUM_LANES) {
        for (int j = 0; j < SUM_LANES; j++) {
            acc e = exponential(load(x[i + j]) - max);
            if (terms) terms[i + j] = e;
            lane[j] += e;
        }
    }
    for (int j = 0; j < (int)(count % SUM_LANES); j++, i++) {
        acc e = exponential(load(x[i]) - max);
        if (terms) terms[i] = e;
        lane[j] += e;
    }
    return lanes_total(lane);
}

static void softmax_line(const T *restrict x, int64_t count, T *restrict out)
{
    enum { KEPT = 2048 };
    acc terms[KEPT], max = line_max(x, count), scale;
    if (count <= KEPT) {
        scale = 1 / line_exponentials(x, count, max, terms);
        for (int64_t i = 0; i < count; i++) out[i] = store(terms[i] * scale);
        return;
    }
    scale = 1 / line_exponentials(x, count, max, NULL);
    for (int64_t i = 0; i < count; i++) out[i] = store(exponential(load(x[i]) - max) * scale);
}

/* The sum and its logarithm are rounded to T before they are used, as ATen does. */
static void log_softmax_line(const T *restrict x, int64_t count, T *restrict out)
{
    acc max = line_max(x, count), sum = line_exponentials(x, count, max, NULL),
        less = load(store((acc)log((double)load(store(sum)))));
    for (int64_t i = 0; i < count; i++) out[i] = store(load(x[i]) - max - less);
}

/* `width` neighbouring lines, whose elements are `step` apart. */
static void softmax_block(const T *x, int64_t count, int64_t step, int64_t width, bool logarithm, T *out)
{
    acc max[BLOCK], sum[BLOCK];
    for (int64_t j = 0; j < width; j++) {
        max[j] = LOWEST;
        sum[j] = 0;
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < width; j++) max[j] = larger(max[j], load(x[i * step + j]));
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < width; j++) sum[j] += exponential(load(x[i * step + j]) - max[j]);
    for (int64_t j = 0; j < width; j++)
        sum[j] = logarithm ? load(store((acc)log((double)load(store(sum[j]))))) : 1 / sum[j];
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < width; j++) {
            acc apart = load(x[i * step + j]) - max[j];
            out[i * step + j] = store(logarithm ? apart - sum[j] : exponential(apart) * sum[j]);
        }
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
    lanes_products(g, y, count, 0, &sum, &dot);
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
