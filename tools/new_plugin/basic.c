/* SPDX-License-Identifier: Apache-2.0 */
/* What has no nest and no positions: fill, copy, iota, random numbers, products of matrices. */
#include <math.h>
#include "plugin.h"

#define PI 3.14159265358979323846264338327950288

/* prim::fill(Tensor(a!) self, Scalar value): what is written stands in outs. */
int32_t fill(void *self, const tn_call *call)
{
    array out = array_of_tensor(call->outs[0]);
    number value = number_of_value(call->args[1]);
    int64_t index[TN_MAX_RANK] = {0};
    if (!has_elements(&out)) return TN_OK;
    do array_put(&out, index, value);
    while (next_in_tensor(out.rank, out.sizes, index));
    return TN_OK;
}

/* prim::copy(Tensor(a!) self, Tensor src): any strides, any two dtypes; src is broadcast, its rank may be
 * smaller. */
int32_t copy(void *self, const tn_call *call)
{
    array out = array_of_tensor(call->outs[0]), in = array_of_tensor(call->args[1]);
    int64_t index[TN_MAX_RANK] = {0}, strides[TN_MAX_RANK] = {0};
    if (!has_elements(&out)) return TN_OK;
    for (uint32_t d = 0; d < in.rank; d++)
        strides[out.rank - in.rank + d] = in.sizes[d] == 1 ? 0 : in.strides[d];
    in.strides = strides;
    in.rank = out.rank;
    do array_put(&out, index, array_get(&in, index));
    while (next_in_tensor(out.rank, out.sizes, index));
    return TN_OK;
}

/* prim::iota(Tensor(a!) self, Scalar start, Scalar step): start + i * step, whole if both are. */
int32_t iota(void *self, const tn_call *call)
{
    array out = array_of_tensor(call->outs[0]);
    number first = number_of_value(call->args[1]), step = number_of_value(call->args[2]);
    int64_t index[TN_MAX_RANK] = {0}, i = 0;
    if (!has_elements(&out)) return TN_OK;
    do {
        int is_whole = !first.is_real && !step.is_real;
        array_put(&out, index,
                  is_whole ? number_whole((int64_t)((uint64_t)first.i + (uint64_t)i * (uint64_t)step.i))
                           : number_real(as_real(first) + (double)i * as_real(step)));
        i++;
    } while (next_in_tensor(out.rank, out.sizes, index));
    return TN_OK;
}

/* mm(Tensor self, Tensor mat2) and bmm: the three loops of the definition. The last two places of an index
 * are row and column; the first, if there are three, is the batch. */
int32_t product(void *self, const tn_call *call)
{
    array a = array_of_tensor(call->args[0]), b = array_of_tensor(call->args[1]);
    array out = array_of_tensor(call->outs[0]);
    uint32_t row = out.rank - 2, column = out.rank - 1;
    int64_t index[3] = {0};
    if (!has_elements(&out)) return TN_OK;
    do {
        int64_t left[3] = {index[0], index[1], index[2]}, right[3] = {index[0], index[1], index[2]};
        double sum = 0;
        uint64_t whole = 0;
        for (int64_t k = 0; k < a.sizes[column]; k++) {
            left[column] = right[row] = k;
            number x = array_get(&a, left), y = array_get(&b, right);
            sum += x.f * y.f;
            whole += (uint64_t)x.i * (uint64_t)y.i;
        }
        array_put(&out, index, is_real_dtype(out.dtype) ? number_real(sum) : number_whole((int64_t)whole));
    } while (next_in_tensor(out.rank, out.sizes, index));
    return TN_OK;
}

/* ---- Random numbers: tenon/random.h says which bits an element gets -------------------------------------
 */

typedef struct draw {
    uint64_t seed;
    uint64_t offset;
    double a;
    double b;
    int32_t wide; /* words of 64 bits */
    int32_t reserved;
} draw;

/* Philox-4x32-10: ten rounds of two multiplications, the key raised between rounds. */
static void philox(uint64_t seed, uint64_t counter, uint32_t *c)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    c[0] = (uint32_t)counter;
    c[1] = (uint32_t)(counter >> 32);
    c[2] = c[3] = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xD2511F53u * c[0], second = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(second >> 32) ^ c[1] ^ key[0];
        c[1] = (uint32_t)second;
        c[2] = (uint32_t)(first >> 32) ^ c[3] ^ key[1];
        c[3] = (uint32_t)first;
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
}

/* The word of element i. */
static uint64_t word(const draw *d, uint64_t i)
{
    uint32_t words[4];
    philox(d->seed, d->offset + i / (d->wide ? 2 : 4), words);
    return d->wide ? words[i % 2 * 2] | (uint64_t)words[i % 2 * 2 + 1] << 32 : words[i % 4];
}

/* In [0, 1); `shift` 1 moves it to (0, 1]. */
static double unit(const draw *d, uint64_t i, uint64_t shift)
{
    uint64_t w = word(d, i);
    return d->wide ? (double)((w >> 11) + shift) * 0x1p-53 : (double)((w >> 8) + shift) * 0x1p-24;
}

/* Box-Muller: elements 2k and 2k + 1 share a radius and an angle. */
static double normal(const draw *d, uint64_t i)
{
    uint64_t even = i & ~(uint64_t)1;
    double radius = sqrt(-2 * log(unit(d, even, 1))), angle = 2 * PI * unit(d, even + 1, 0);
    return radius * (i % 2 ? sin(angle) : cos(angle)) * d->b + d->a;
}

static double draw_real(const draw *d, int64_t distribution, uint64_t i)
{
    switch (distribution) {
    case TN_RANDOM_UNIFORM: /* the scaling is done in the precision of the dtype */
        if (d->wide) return unit(d, i, 0) * (d->b - d->a) + d->a;
        float scaled = (float)unit(d, i, 0) * ((float)d->b - (float)d->a);
        return (double)(scaled + (float)d->a);
    case TN_RANDOM_NORMAL:
        return normal(d, i);
    case TN_RANDOM_BERNOULLI:
        return unit(d, i, 0) < d->a;
    case TN_RANDOM_EXPONENTIAL:
        return -log1p(-unit(d, i, 0)) / d->a;
    case TN_RANDOM_GEOMETRIC:
        return fmax(1, ceil(log1p(-unit(d, i, 0)) / log1p(-d->a)));
    case TN_RANDOM_CAUCHY:
        return d->a + d->b * tan(PI * (unit(d, i, 0) - 0.5));
    default: /* TN_RANDOM_LOG_NORMAL */
        return exp(normal(d, i));
    }
}

/* prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset) */
int32_t random_numbers(void *self, const tn_call *call)
{
    array out = array_of_tensor(call->outs[0]);
    number a = number_of_value(call->args[2]), b = number_of_value(call->args[3]);
    int64_t distribution = tn_value_as_int(call->args[1]), index[TN_MAX_RANK] = {0};
    uint64_t low = (uint64_t)as_whole(a), range = (uint64_t)as_whole(b), i = 0;
    int is_bits = distribution == TN_RANDOM_BITS;
    draw d = {.seed = (uint64_t)tn_value_as_int(call->args[4]),
              .offset = (uint64_t)tn_value_as_int(call->args[5]),
              .a = as_real(a),
              .b = as_real(b)};
    d.wide = TN_DTYPE_BITS(out.dtype) == 64 || (is_bits && (range == 0 || range > (uint64_t)1 << 32));
    if (distribution < TN_RANDOM_UNIFORM || distribution > TN_RANDOM_LOG_NORMAL)
        return fail(call->host, TN_E_ARGUMENT, "random: this distribution is unknown");
    if (!has_elements(&out)) return TN_OK;
    do {
        uint64_t w = is_bits ? word(&d, i) : 0;
        array_put(&out, index,
                  is_bits ? number_whole((int64_t)((range ? w % range : w) + low))
                          : number_real(draw_real(&d, distribution, i)));
        i++;
    } while (next_in_tensor(out.rank, out.sizes, index));
    return TN_OK;
}
