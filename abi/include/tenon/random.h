/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers: Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011),
 * which is counter based. A generator is {seed, offset}. An operator takes the same number of counters (rules below)
 * on any device and with any number of threads, so one seed gives the same numbers everywhere.
 */
#ifndef TENON_RANDOM_H
#define TENON_RANDOM_H

#include <tenon/tensor.h>

TN_BEGIN_DECLS

/*
 * Which random bits an element gets. The key is {seed low, seed high}. Counter c is {c low, c high, 0, 0} and
 * gives four words w0..w3.
 *
 *   32-bit rule  for dtypes up to 32 bits. Element i (row-major) uses word i % 4 of counter offset + i / 4.
 *                An operator takes ceil(numel / 4) counters.
 *   64-bit rule  for float64, int64 and uint64. Element i uses words 2 * (i % 2), the low half, and
 *                2 * (i % 2) + 1, the high half, of counter offset + i / 2. An operator takes
 *                ceil(numel / 2) counters.
 *
 * w is the word of the 32-bit rule, or the 64-bit number of the 64-bit rule.
 *
 *   u            unit uniform: float32 (w >> 8) * 2^-24; float64 (w >> 11) * 2^-53; float16
 *                (w >> 21) * 2^-11; bfloat16 (w >> 24) * 2^-8
 *   uniform      u * (b - a) + a in float32 (float64 for float64), then rounded
 *   normal       elements 2k and 2k + 1 share u1 = ((w >> 8) + 1) * 2^-24 of the word of 2k and u2 = u of
 *                the word of 2k + 1 (float64: u1 = ((w >> 11) + 1) * 2^-53). Element 2k is
 *                sqrt(-2 ln u1) * cos(2 pi u2) * b + a, element 2k + 1 the same with sin. Half types compute
 *                in float32.
 *   bits         w % b + a. If b is 0 or above 2^32, every dtype uses the 64-bit rule.
 *   Bernoulli    u < a
 *   exponential  -ln(1 - u) / a
 *   geometric    ceil(ln(1 - u) / ln(1 - a)), at least 1
 *   Cauchy       a + b * tan(pi * (u - 0.5))
 *
 * The last four take u of float32 for dtypes up to 32 bits, integers included, and of float64 for the others.
 *
 * Poisson, binomial, gamma and Dirichlet numbers take as many words as they need: element i uses the counters
 * {c low, c high, j, 0} with c = offset + i and j = 1, 2, ... These operators take numel counters.
 */

/* Distributions of prim::random with its parameters a and b. */
#define TN_RANDOM_UNIFORM     0 /* [a, b) */
#define TN_RANDOM_NORMAL      1 /* mean a, standard deviation b (Box-Muller) */
#define TN_RANDOM_BITS        2 /* integers in [a, a + b), b as uint64; b = 0: all bits of int64 */
#define TN_RANDOM_BERNOULLI   3 /* 1 with probability a */
#define TN_RANDOM_EXPONENTIAL 4 /* rate a */
#define TN_RANDOM_GEOMETRIC   5 /* success probability a */
#define TN_RANDOM_CAUCHY      6 /* median a, sigma b */
#define TN_RANDOM_LOG_NORMAL  7 /* exp of normal with mean a, standard deviation b */

typedef struct tn_generator_state {
    uint32_t size;
    uint32_t reserved;
    uint64_t seed;
    uint64_t offset; /* counters used so far */
} tn_generator_state;

#ifndef TN_PLUGIN
/* A new generator with offset 0. */
TN_API int32_t tn_generator_create(tn_context *ctx, uint64_t seed,
                                   TN_OUT TN_GIVES tn_generator **out) TN_ANY_THREAD;
TN_API void tn_generator_release(TN_TAKES TN_NULLABLE tn_generator *generator) TN_ANY_THREAD;
/* The generator that random operators use when they are given none; borrowed, lives as long as the
 * context. */
TN_API tn_generator *tn_default_generator(tn_context *ctx, tn_device device) TN_ANY_THREAD;
/* The caller sets out->size. */
TN_API void tn_generator_get_state(tn_generator *generator, TN_OUT tn_generator_state *out) TN_ANY_THREAD;
TN_API int32_t tn_generator_set_state(tn_generator *generator, const tn_generator_state *state) TN_ANY_THREAD;
/* Seeds a generator and sets its offset to 0. */
TN_API void tn_generator_seed(tn_generator *generator, uint64_t seed) TN_ANY_THREAD;
/* Seeds the default generators of all devices. */
TN_API void tn_manual_seed(tn_context *ctx, uint64_t seed) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
