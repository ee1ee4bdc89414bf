/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random floats (DTYPE=f32|f64) from the bits that tenon/random.h gives each element: f32 for all dtypes up
 * to 32 bits, f64 for those of 64. Words are made for whole counters, so that pairs of normals are complete.
 */
#include "convert.h"
#include "draw.h"
#include "vector_math.h"

#define TN_PLUGIN
#include <tenon/random.h>

#if defined(DTYPE_F32)
#define PER_COUNTER 4
#define UNIT        0x1p-24f
#define MANTISSA(w) ((w) >> 8)
typedef uint32_t word_t;
#else
#define PER_COUNTER 2
#define UNIT        0x1p-53
#define MANTISSA(w) ((w) >> 11)
typedef uint64_t word_t;
#endif

/* A run and the rest of the counters at its ends. */
#define ROOM (CPU_CHUNK + 2 * PER_COUNTER)

/* Makes the words of all counters that the run touches and returns the index of the run's first one. */
static int64_t make_words(word_t *w, int64_t *out_count, int64_t n, int64_t position, const cpu_draw *d)
{
    int64_t first = position / PER_COUNTER, last = (position + n - 1) / PER_COUNTER;
    for (int64_t i = first; i <= last; i++) {
        uint32_t words[4];
        cpu_philox(d->seed, d->offset + (uint64_t)i, words);
        memcpy(w + (i - first) * PER_COUNTER, words, sizeof words);
    }
    *out_count = (last - first + 1) * PER_COUNTER;
    return position - first * PER_COUNTER;
}

/* Uniform in [0, 1) with as many bits as T's mantissa. */
static void units(T *u, const word_t *w, int64_t n)
{
    for (int64_t i = 0; i < n; i++) u[i] = (T)(int64_t)MANTISSA(w[i]) * UNIT;
}

static void uniform(T *o, const word_t *w, int64_t n, const cpu_draw *d)
{
    T a = (T)d->a, range = (T)d->b - a;
    units(o, w, n);
#if defined(DTYPE_F32)
    if (d->slot == CPU_F16)
        for (int64_t i = 0; i < n; i++) o[i] = (T)(w[i] >> 21) * 0x1p-11f;
    if (d->slot == CPU_BF16)
        for (int64_t i = 0; i < n; i++) o[i] = (T)(w[i] >> 24) * 0x1p-8f;
#endif
    for (int64_t i = 0; i < n; i++) o[i] = o[i] * range + a;
}

/* Box and Muller's method: the radius from the even word of a pair, the angle from the odd one. */
static void normal(T *o, const word_t *w, int64_t n, const cpu_draw *d)
{
    T radius[ROOM / 2], turn[ROOM / 2], cosine[ROOM / 2];
    int64_t pairs = n / 2;
    T mean = (T)d->a, deviation = (T)d->b;
    for (int64_t k = 0; k < pairs; k++) {
        radius[k] = (T)((int64_t)MANTISSA(w[2 * k]) + 1) * UNIT;
        turn[k] = (T)(int64_t)MANTISSA(w[2 * k + 1]) * UNIT * 2;
    }
    vector_unary(radius, radius, pairs, SLEEF(log, 10));
    vector_unary(cosine, turn, pairs, SLEEF(cospi, 05));
    vector_unary(turn, turn, pairs, SLEEF(sinpi, 05));
    for (int64_t k = 0; k < pairs; k++) {
        T r = FN(sqrt)(-2 * radius[k]);
        o[2 * k] = r * cosine[k] * deviation + mean;
        o[2 * k + 1] = r * turn[k] * deviation + mean;
    }
}

/* log(1 - u); finite, since u is below 1. */
static void log_of_rest(T *o, const word_t *w, int64_t n)
{
    units(o, w, n);
    for (int64_t i = 0; i < n; i++) o[i] = -o[i];
    vector_unary(o, o, n, SLEEF(log1p, 10));
}

static void exponential(T *o, const word_t *w, int64_t n, const cpu_draw *d)
{
    T rate = (T)d->a;
    log_of_rest(o, w, n);
    for (int64_t i = 0; i < n; i++) o[i] = -o[i] / rate;
}

static void geometric(T *o, const word_t *w, int64_t n, const cpu_draw *d)
{
    T scale = (T)log1p(-d->a);
    log_of_rest(o, w, n);
    for (int64_t i = 0; i < n; i++) {
        T trials = FN(ceil)(o[i] / scale);
        o[i] = trials < 1 ? 1 : trials;
    }
}

/* tan(pi (u - 1/2)) as a quotient of sinpi and cospi, which are exact near the pole. */
static void cauchy(T *o, const word_t *w, int64_t n, const cpu_draw *d)
{
    T sine[ROOM], median = (T)d->a, sigma = (T)d->b;
    units(o, w, n);
    for (int64_t i = 0; i < n; i++) o[i] -= (T)0.5;
    vector_unary(sine, o, n, SLEEF(sinpi, 05));
    vector_unary(o, o, n, SLEEF(cospi, 05));
    for (int64_t i = 0; i < n; i++) o[i] = median + sigma * (sine[i] / o[i]);
}

static void draw(void *out, int64_t n, int64_t position, const cpu_draw *d)
{
    word_t w[ROOM];
    T o[ROOM];
    int64_t count, first = make_words(w, &count, n, position, d);
    switch (d->distribution) {
    case TN_RANDOM_NORMAL:
        normal(o, w, count, d);
        break;
    case TN_RANDOM_BERNOULLI:
        units(o, w, count);
        for (int64_t i = 0; i < count; i++) o[i] = (double)o[i] < d->a;
        break;
    case TN_RANDOM_EXPONENTIAL:
        exponential(o, w, count, d);
        break;
    case TN_RANDOM_GEOMETRIC:
        geometric(o, w, count, d);
        break;
    case TN_RANDOM_CAUCHY:
        cauchy(o, w, count, d);
        break;
    case TN_RANDOM_LOG_NORMAL:
        normal(o, w, count, d);
        vector_unary(o, o, count, SLEEF(exp, 10));
        break;
    default:
        uniform(o, w, count, d);
        break;
    }
    memcpy(out, o + first, (size_t)n * sizeof(T));
}

extern const cpu_draw_fn CPU_NAME(cpu_random);
const cpu_draw_fn CPU_NAME(cpu_random) = draw;
