/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers as tenon/random.h says. An item is a counter of Philox: four elements, or two of 64-bit
 * dtypes. scalars: seed, offset; values: a and b as T (BITS: as numbers); nest.opcode is the distribution. If values[3]
 * is 1, the offset counts from what `state` has, {seed, counter}, and the seed is there.
 */
#include "dialect.h"

#define GPU_UNIFORM     0u
#define GPU_NORMAL      1u
#define GPU_RANDOM_BITS 2u
#define GPU_BERNOULLI   3u
#define GPU_EXPONENTIAL 4u
#define GPU_GEOMETRIC   5u
#define GPU_CAUCHY      6u
#define GPU_LOG_NORMAL  7u

#if defined(__HIPCC__) && GPU_TYPE == 32 /* in C++ HIP's have no form for float under these names */
#define sinpi sinpif
#define cospi cospif
#endif

#if GPU_IS_FLOAT
#if GPU_TYPE == 64
#define GPU_WORDS           2u
#define gpu_unit(word, up)  tn_uniform_double(word, up)
#else
#define GPU_WORDS           4u
#define gpu_unit(word, up)  tn_uniform_float((uint32_t)(word), up)
#endif

/* tan(pi (u - 1/2)), log(1 - u) and so on: u is a multiple of a power of two, so 1 - u is exact. */
GPU_FUNCTION T gpu_draw(uint32_t distribution, uint32_t dtype, uint64_t word, uint64_t pair, int odd, T a, T b)
{
    T u = gpu_unit(word, 0u);
    switch (distribution) {
    case GPU_NORMAL:
    case GPU_LOG_NORMAL: {
        T radius = FN(sqrt)(-2 * FN(log)(gpu_unit(odd ? pair : word, 1u)));
        T turn = 2 * gpu_unit(odd ? word : pair, 0u);
        T n = radius * (odd ? FN(sinpi)(turn) : FN(cospi)(turn)) * b + a;
        return distribution == GPU_NORMAL ? n : FN(exp)(n);
    }
    case GPU_BERNOULLI:
        return u < a;
    case GPU_EXPONENTIAL:
        return -FN(log1p)(-u) / a;
    case GPU_GEOMETRIC: {
        T trials = FN(ceil)(FN(log1p)(-u) / FN(log1p)(-a));
        return trials < 1 ? 1 : trials;
    }
    case GPU_CAUCHY:
        return a + b * (FN(sinpi)(u - (T)0.5) / FN(cospi)(u - (T)0.5));
    default:
        if (dtype == GPU_F16) u = (T)(word >> 21) * (T)4.8828125e-4;   /* 2^-11 */
        if (dtype == GPU_BF16) u = (T)(word >> 24) * (T)3.90625e-3; /* 2^-8 */
        return u * (b - a) + a;
    }
}
#else
/* Integers: bits of 64-bit words where the range needs them, which values[2] says. */
#define GPU_WORDS (nest.values[2] ? 2u : 4u)
#endif

GPU_KERNEL void random_numbers(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *state, gpu_nest nest)
{
    uint64_t seed = nest.scalars[0], counter = nest.scalars[1] + gpu_item();
    uint32_t words[4], each = GPU_WORDS, begin = gpu_item() * each;
    if (begin >= nest.numel) return;
    if (nest.values[3]) {
        seed = *(GPU_GLOBAL const uint64_t *)(state + nest.offsets[1]);
        counter += *(GPU_GLOBAL const uint64_t *)(state + nest.offsets[1] + 8);
    }
    tn_random_words(seed, counter, words);
    for (uint32_t k = 0; k < each && begin + k < nest.numel; k++) {
        uint32_t rest = begin + k;
        int64_t at[1] = {nest.offsets[0]};
        GPU_WALK(nest, 0, nest.rank, rest, at, 1)
        uint64_t word = each == 4u ? words[k] : words[2u * k] | (uint64_t)words[2u * k + 1u] << 32;
#if GPU_IS_FLOAT
        uint32_t mate = k ^ 1u;
        uint64_t pair = each == 4u ? words[mate] : words[2u * mate] | (uint64_t)words[2u * mate + 1u] << 32;
        gpu_store(out + at[0], nest.dtypes[0],
                  gpu_draw(nest.opcode, nest.dtypes[0], word, pair, k & 1u, gpu_value(nest.values[0]),
                           gpu_value(nest.values[1])));
#else
        uint64_t range = nest.values[1];
        gpu_store(out + at[0], nest.dtypes[0], (T)((range ? word % range : word) + nest.values[0]));
#endif
    }
}
