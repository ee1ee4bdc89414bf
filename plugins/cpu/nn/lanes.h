/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and maxima over contiguous elements of a float dtype in vector accumulators, which are added up at
 * the end. The compiler may not reorder a sum by itself, and several accumulators also make rounding errors
 * smaller.
 */
#ifndef TENON_CPU_NN_LANES_H
#define TENON_CPU_NN_LANES_H

#include "kernels/vocabulary.h"

#if defined(__AVX512F__)
enum { LANE_BYTES = 64 };
#elif defined(__AVX2__)
enum { LANE_BYTES = 32 };
#else
enum { LANE_BYTES = 16 };
#endif
enum { LANE_COUNT = LANE_BYTES / sizeof(T), LANE_SETS = 4, LANE_STEP = LANE_COUNT * LANE_SETS };

typedef T lanes __attribute__((vector_size(LANE_BYTES)));
typedef T loose_lanes __attribute__((vector_size(LANE_BYTES), aligned(sizeof(T)), may_alias));
#if defined(DTYPE_F64)
typedef int64_t lane_bits __attribute__((vector_size(LANE_BYTES)));
#else
typedef int32_t lane_bits __attribute__((vector_size(LANE_BYTES)));
#endif

static inline lanes lanes_of_acc(const T *x)
{
    return *(const loose_lanes *)x;
}

static inline lanes lanes_load(const E *x)
{
#if !CPU_IS_HALF
    return *(const loose_lanes *)x;
#elif defined(DTYPE_F16) && defined(__AVX512F__)
    return (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
#elif defined(DTYPE_F16) && defined(__F16C__)
    return (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
#elif defined(DTYPE_BF16)
    typedef uint16_t halves __attribute__((vector_size(LANE_BYTES / 2)));
    typedef uint32_t words __attribute__((vector_size(LANE_BYTES)));
    halves h;
    memcpy(&h, x, sizeof h);
#if defined(__AVX512F__) /* gcc converts such vectors by halves */
    words w = (words)_mm512_cvtepu16_epi32((__m256i)h);
#elif defined(__AVX2__)
    words w = (words)_mm256_cvtepu16_epi32((__m128i)h);
#else
    words w = __builtin_convertvector(h, words);
#endif
    return (lanes)(w << 16);
#else
    lanes v = {0};
    for (int j = 0; j < LANE_COUNT; j++) v[j] = load(&x[j]);
    return v;
#endif
}

/* v[j ^ width] in lane j. */
#define LANES_FROM(width, j)   (j) ^ (width), ((j) + 1) ^ (width)
#define LANES_FROM_4(width, j) LANES_FROM(width, j), LANES_FROM(width, (j) + 2)
#define LANES_FROM_8(width, j) LANES_FROM_4(width, j), LANES_FROM_4(width, (j) + 4)
#if defined(__AVX512F__) && !defined(DTYPE_F64)
#define LANES_CROSSED(v, width) __builtin_shufflevector(v, v, LANES_FROM_8(width, 0), LANES_FROM_8(width, 8))
#elif defined(__AVX512F__) || (defined(__AVX2__) && !defined(DTYPE_F64))
#define LANES_CROSSED(v, width) __builtin_shufflevector(v, v, LANES_FROM_8(width, 0))
#elif defined(__AVX2__) || !defined(DTYPE_F64)
#define LANES_CROSSED(v, width) __builtin_shufflevector(v, v, LANES_FROM_4(width, 0))
#else
#define LANES_CROSSED(v, width) __builtin_shufflevector(v, v, LANES_FROM(width, 0))
#endif

/* The sum of the halves, of the halves of that, and so on. */
static inline T lanes_total(lanes v)
{
    if (LANE_COUNT > 8) v += LANES_CROSSED(v, 8 % LANE_COUNT);
    if (LANE_COUNT > 4) v += LANES_CROSSED(v, 4 % LANE_COUNT);
    if (LANE_COUNT > 2) v += LANES_CROSSED(v, 2 % LANE_COUNT);
    v += LANES_CROSSED(v, 1);
    return v[0];
}
static inline T lanes_total_of_sets(const lanes sum[LANE_SETS])
{
    return lanes_total((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* The sum of T. */
static inline T lanes_sum_acc(const T *x, int64_t count)
{
    lanes sum[LANE_SETS] = {{0}};
    T rest = 0;
    int64_t i = 0;
    for (; i + LANE_STEP <= count; i += LANE_STEP)
        for (int s = 0; s < LANE_SETS; s++) sum[s] += lanes_of_acc(x + i + s * LANE_COUNT);
    for (; i + LANE_COUNT <= count; i += LANE_COUNT) sum[0] += lanes_of_acc(x + i);
    for (; i < count; i++) rest += x[i];
    return lanes_total_of_sets(sum) + rest;
}

/*
 * A step is read so many bytes ahead: the end of a sum takes so long that the processor's own prefetching falls behind
 * memory. Addresses behind the tensor do no harm.
 */
enum { LANE_AHEAD = 2048 };
ALWAYS_INLINE void lanes_ahead(const E *x)
{
    const char *from = (const char *)x + LANE_AHEAD;
    for (int64_t i = 0; i < LANE_STEP * (int64_t)sizeof(E); i += 64) __builtin_prefetch(from + i);
}

/* Sum of x. */
static inline T lanes_sum(const E *x, int64_t count)
{
    lanes sum[LANE_SETS] = {{0}};
    T rest = 0;
    int64_t i = 0;
    for (; i + LANE_STEP <= count; i += LANE_STEP) {
        lanes_ahead(x + i);
        for (int s = 0; s < LANE_SETS; s++) sum[s] += lanes_load(x + i + s * LANE_COUNT);
    }
    for (; i + LANE_COUNT <= count; i += LANE_COUNT) sum[0] += lanes_load(x + i);
    for (; i < count; i++) rest += load(&x[i]);
    return lanes_total_of_sets(sum) + rest;
}

/* Sums of x - shift and of its square. */
static inline void lanes_moments(const E *x, int64_t count, T shift, T *out_sum, T *out_square)
{
    lanes sum[LANE_SETS] = {{0}}, square[LANE_SETS] = {{0}};
    T rest = 0, rest_square = 0;
    int64_t i = 0;
    for (; i + LANE_STEP <= count; i += LANE_STEP) {
        lanes_ahead(x + i);
        for (int s = 0; s < LANE_SETS; s++) {
            lanes d = lanes_load(x + i + s * LANE_COUNT) - shift;
            sum[s] += d;
            square[s] += d * d;
        }
    }
    for (; i + LANE_COUNT <= count; i += LANE_COUNT) {
        lanes d = lanes_load(x + i) - shift;
        sum[0] += d;
        square[0] += d * d;
    }
    for (; i < count; i++) {
        T d = load(&x[i]) - shift;
        rest += d;
        rest_square += d * d;
    }
    *out_sum = lanes_total_of_sets(sum) + rest;
    *out_square = lanes_total_of_sets(square) + rest_square;
}

/* Sum of x * y. */
static inline T lanes_dot(const E *x, const E *y, int64_t count)
{
    lanes sum[LANE_SETS] = {{0}};
    T rest = 0;
    int64_t i = 0;
    for (; i + LANE_STEP <= count; i += LANE_STEP) {
        lanes_ahead(x + i);
        lanes_ahead(y + i);
        for (int s = 0; s < LANE_SETS; s++)
            sum[s] += lanes_load(x + i + s * LANE_COUNT) * lanes_load(y + i + s * LANE_COUNT);
    }
    for (; i + LANE_COUNT <= count; i += LANE_COUNT) sum[0] += lanes_load(x + i) * lanes_load(y + i);
    for (; i < count; i++) rest += load(&x[i]) * load(&y[i]);
    return lanes_total_of_sets(sum) + rest;
}

/* A vector of the sums below. */
ALWAYS_INLINE void lanes_product(const E *g, const E *x, const T *weight, T shift, lanes *sum, lanes *dot)
{
    lanes h = lanes_load(g);
    if (weight) h *= lanes_of_acc(weight);
    *sum += h;
    *dot += h * (lanes_load(x) - shift);
}

/* Sums of h and of h * (x - shift), where h is g, or g * weight when there is one. */
static inline void lanes_products(const E *g, const E *x, const T *weight, int64_t count, T shift, T *out_sum,
                                  T *out_dot)
{
    lanes sum[LANE_SETS] = {{0}}, dot[LANE_SETS] = {{0}};
    T rest = 0, rest_dot = 0;
    int64_t i = 0;
    for (; i + LANE_STEP <= count; i += LANE_STEP) {
        lanes_ahead(g + i);
        lanes_ahead(x + i);
        for (int s = 0; s < LANE_SETS; s++) {
            int64_t at = i + s * LANE_COUNT;
            lanes_product(g + at, x + at, weight ? weight + at : NULL, shift, &sum[s], &dot[s]);
        }
    }
    for (; i + LANE_COUNT <= count; i += LANE_COUNT)
        lanes_product(g + i, x + i, weight ? weight + i : NULL, shift, &sum[0], &dot[0]);
    for (; i < count; i++) {
        T h = weight ? load(&g[i]) * weight[i] : load(&g[i]);
        rest += h;
        rest_dot += h * (load(&x[i]) - shift);
    }
    *out_sum = lanes_total_of_sets(sum) + rest;
    *out_dot = lanes_total_of_sets(dot) + rest_dot;
}

static inline T larger(T candidate, T best)
{
    return ((candidate > best) | (candidate != candidate)) ? candidate : best;
}
static inline lanes lanes_larger(lanes candidate, lanes best)
{
    lane_bits take = (lane_bits)(candidate > best) | (lane_bits)(candidate != candidate);
    return (lanes)((take & (lane_bits)candidate) | (~take & (lane_bits)best));
}

static inline T lanes_largest(lanes v)
{
    if (LANE_COUNT > 8) v = lanes_larger(LANES_CROSSED(v, 8 % LANE_COUNT), v);
    if (LANE_COUNT > 4) v = lanes_larger(LANES_CROSSED(v, 4 % LANE_COUNT), v);
    if (LANE_COUNT > 2) v = lanes_larger(LANES_CROSSED(v, 2 % LANE_COUNT), v);
    v = lanes_larger(LANES_CROSSED(v, 1), v);
    return v[0];
}

/* The largest element; NaN if there is one. */
static inline T lanes_max(const E *x, int64_t count)
{
    lanes best[LANE_SETS];
    T result = LOWEST;
    int64_t i = 0;
    for (int s = 0; s < LANE_SETS; s++) best[s] = (lanes){0} + (T)LOWEST;
    for (; i + LANE_STEP <= count; i += LANE_STEP) {
        lanes_ahead(x + i);
        for (int s = 0; s < LANE_SETS; s++)
            best[s] = lanes_larger(lanes_load(x + i + s * LANE_COUNT), best[s]);
    }
    for (; i + LANE_COUNT <= count; i += LANE_COUNT) best[0] = lanes_larger(lanes_load(x + i), best[0]);
    for (; i < count; i++) result = larger(load(&x[i]), result);
    best[0] = lanes_larger(lanes_larger(best[1], best[0]), lanes_larger(best[2], best[3]));
    return larger(lanes_largest(best[0]), result);
}

#endif
