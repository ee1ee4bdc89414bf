/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset): Philox-4x32-10,
 * with the bits of each element as tenon/random.h says.
 */
#include "kernels.h"

#include <math.h>

#define PI 3.14159265358979323846264338327950288

typedef struct draw {
    uint64_t seed;
    uint64_t offset;
    tn_dtype dtype;
    int32_t wide; /* the rule of 64-bit words */
    number a;
    number b;
} draw;

/* Four words for one counter: ten rounds of two multiplications, the key raised between rounds. */
static void philox(uint64_t seed, uint64_t counter, uint32_t *out)
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xD2511F53u * c[0], second = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(second >> 32) ^ c[1] ^ key[0], (uint32_t)second,
                            (uint32_t)(first >> 32) ^ c[3] ^ key[1], (uint32_t)first};
        for (int i = 0; i < 4; i++) c[i] = next[i];
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

/* The word of element i, of 32 or of 64 bits. */
static uint64_t word(const draw *d, uint64_t i)
{
    uint32_t words[4];
    philox(d->seed, d->offset + i / (d->wide ? 2 : 4), words);
    return d->wide ? words[i % 2 * 2] | (uint64_t)words[i % 2 * 2 + 1] << 32 : words[i % 4];
}

/* Unit uniform of float64 or float32, in [0, 1); `shift` 1 moves it to (0, 1]. */
static double unit(const draw *d, uint64_t i, uint64_t shift)
{
    uint64_t w = word(d, i);
    return d->wide ? (double)((w >> 11) + shift) * 0x1p-53 : (double)((w >> 8) + shift) * 0x1p-24;
}

static double uniform(const draw *d, uint64_t i)
{
    double a = number_in(DOMAIN_REAL, d->a).re, b = number_in(DOMAIN_REAL, d->b).re, u = unit(d, i, 0);
    if (d->wide) return u * (b - a) + a;
    if (d->dtype == TN_FLOAT16) u = (double)(word(d, i) >> 21) * 0x1p-11;
    if (d->dtype == TN_BFLOAT16) u = (double)(word(d, i) >> 24) * 0x1p-8;
    float range = (float)b - (float)a, scaled = (float)u * range;
    return (double)(scaled + (float)a);
}

/* Box-Muller: elements 2k and 2k + 1 share a radius and an angle. */
static double normal(const draw *d, uint64_t i)
{
    uint64_t even = i & ~(uint64_t)1;
    double radius = sqrt(-2 * log(unit(d, even, 1))), angle = 2 * PI * unit(d, even + 1, 0);
    double value = radius * (i % 2 ? sin(angle) : cos(angle));
    return value * number_in(DOMAIN_REAL, d->b).re + number_in(DOMAIN_REAL, d->a).re;
}

static number bits(const draw *d, uint64_t i)
{
    uint64_t w = word(d, i), range = (uint64_t)number_in(DOMAIN_SIGNED, d->b).i;
    uint64_t low = (uint64_t)number_in(DOMAIN_SIGNED, d->a).i;
    return number_int((int64_t)((range ? w % range : w) + low));
}

static number element(const draw *d, int64_t distribution, uint64_t i)
{
    double a = number_in(DOMAIN_REAL, d->a).re, b = number_in(DOMAIN_REAL, d->b).re;
    switch (distribution) {
    case TN_RANDOM_UNIFORM:
        return number_real(uniform(d, i));
    case TN_RANDOM_NORMAL:
        return number_real(normal(d, i));
    case TN_RANDOM_BITS:
        return bits(d, i);
    case TN_RANDOM_BERNOULLI:
        return number_bool(unit(d, i, 0) < a);
    case TN_RANDOM_EXPONENTIAL:
        return number_real(-log1p(-unit(d, i, 0)) / a);
    case TN_RANDOM_GEOMETRIC:
        return number_real(fmax(1, ceil(log1p(-unit(d, i, 0)) / log1p(-a))));
    case TN_RANDOM_CAUCHY:
        return number_real(a + b * tan(PI * (unit(d, i, 0) - 0.5)));
    default:
        return number_real(exp(normal(d, i))); /* TN_RANDOM_LOG_NORMAL */
    }
}

/* 64-bit words for 64-bit dtypes, and for integers from a range that 32 bits do not cover. */
static int needs_wide(tn_dtype dtype, int64_t distribution, number b)
{
    uint64_t range = (uint64_t)number_in(DOMAIN_SIGNED, b).i;
    return TN_DTYPE_BITS(dtype) == 64 ||
           (distribution == TN_RANDOM_BITS && (range == 0 || range > (uint64_t)1 << 32));
}

int32_t kernel_random(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *out = tensor_output(call, 0);
    int64_t distribution = tn_value_as_int(call->args[1]), index[TN_MAX_RANK] = {0};
    if (distribution < TN_RANDOM_UNIFORM || distribution > TN_RANDOM_LOG_NORMAL)
        return reference_fail(failure, TN_E_ARGUMENT, "distribution %lld is unknown",
                              (long long)distribution);
    draw d = {.seed = (uint64_t)tn_value_as_int(call->args[4]),
              .offset = (uint64_t)tn_value_as_int(call->args[5]),
              .dtype = out->dtype,
              .a = number_of_value(call->args[2]),
              .b = number_of_value(call->args[3])};
    if (call->n_args > 6 && tensor_argument(call, 6)) { /* in a launch of a graph */
        const tn_tensor_desc *state = tensor_argument(call, 6);
        const int64_t first = 0, second = 1;
        d.seed = (uint64_t)tensor_load(state, &first).i;
        d.offset += (uint64_t)tensor_load(state, &second).i;
    }
    d.wide = needs_wide(out->dtype, distribution, d.b);
    if (tensor_numel(out) == 0) return TN_OK;
    uint64_t i = 0;
    do tensor_store(out, index, element(&d, distribution, i++));
    while (tensor_next(out->rank, out->sizes, index));
    return TN_OK;
}
