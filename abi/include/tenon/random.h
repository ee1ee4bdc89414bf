/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers: Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011),
 * counter based. A generator is {seed, offset}; an operator takes ceil(numel / 4) counters, whatever the
 * device and the number of threads, so the same seed gives the same numbers everywhere.
 */
#ifndef TENON_RANDOM_H
#define TENON_RANDOM_H

#include <tenon/tensor.h>

TN_BEGIN_DECLS

/*
 * Which bits an element gets. Key {seed low, seed high}; counter c is {c low, c high, 0, 0} and gives four
 * words w0..w3. Element i (row-major) of a dtype up to 32 bits uses word i % 4 of counter offset + i / 4; of
 * a 64-bit dtype (float64, int64, uint64) words 2 * (i % 2) and the next one (low, high) of counter
 * offset + i / 2: the 64-bit rule. w is that word, w of the 64-bit rule that 64-bit number.
 *
 * Unit uniform u: float32 (w >> 8) * 2^-24; float64 (w >> 11) * 2^-53; float16 (w >> 21) * 2^-11; bfloat16
 * (w >> 24) * 2^-8. Scaled: u * (b - a) + a in float32 (float64 for float64), then rounded.
 * Normal: pairs of elements (2k, 2k + 1) share u1 = ((w >> 8) + 1) * 2^-24 of their first word and u2 of
 * their second (float64: ((w >> 11) + 1) * 2^-53 and u of their own 64-bit words); the even one is sqrt(-2 ln
 * u1) * cos(2 pi u2), the odd one the same with sin; times b plus a. Half types compute in float32. Bits: w %
 * b + a; 64-bit words when b is 0 or above 2^32 (then element i uses the 64-bit rule whatever its dtype).
 * Bernoulli u < a; exponential -ln(1 - u) / a; geometric ceil(ln(1 - u) / ln(1 - a)) at least 1; cauchy
 * a + b * tan(pi * (u - 0.5)); with u of float32 for dtypes up to 32 bits (integers too), of float64 for
 * others. Counters used: ceil(numel / 4), by the 64-bit rule ceil(numel / 2).
 * Poisson, binomial, gamma and Dirichlet numbers take as many words as they need: element i uses counters
 * {c low, c high, j, 0} with c = offset + i and j = 1, 2, ...; numel counters are used.
 */

/* Distributions of prim::random. Parameters a, b as said. */
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
TN_API int32_t tn_generator_create(tn_context *ctx, uint64_t seed,
                                   TN_OUT TN_GIVES tn_generator **out) TN_ANY_THREAD;
TN_API void tn_generator_release(TN_TAKES TN_NULLABLE tn_generator *generator) TN_ANY_THREAD;
/* The generator that random operators use when none is given; borrowed. */
TN_API tn_generator *tn_default_generator(tn_context *ctx, tn_device device) TN_ANY_THREAD;
TN_API void tn_generator_get_state(tn_generator *generator, TN_OUT tn_generator_state *out) TN_ANY_THREAD;
TN_API int32_t tn_generator_set_state(tn_generator *generator, const tn_generator_state *state) TN_ANY_THREAD;
/* Seeds a generator and sets its offset to 0. */
TN_API void tn_generator_seed(tn_generator *generator, uint64_t seed) TN_ANY_THREAD;
/* Seeds the default generators of all devices. */
TN_API void tn_manual_seed(tn_context *ctx, uint64_t seed) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
