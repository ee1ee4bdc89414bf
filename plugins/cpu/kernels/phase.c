/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduces an angle by multiples of pi / 2 with as many digits of 2 / pi as its exponent needs (Payne and
 * Hanek, "Radian reduction for trigonometric functions", 1983); the result is a wide number.
 */
#include "phase.h"

#define LIMBS       8  /* limbs of 32 bits of 2 / pi that are multiplied */
#define PRODUCT     10 /* limbs of the product with a significand of 53 bits */
#define SUMMED      5  /* leading limbs of the fraction that are kept */
#define WHOLE_SHIFT 30 /* bit of the uppermost limb of the product where whole quadrants begin */

/* The first 1280 bits of 2 / pi. */
static const uint32_t inverse[40] = {
    0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
    0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u,
    0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu,
    0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
    0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu, 0xf0cfbc20u, 0x9af4361du};

/* Bits first ... first + 255 of 2 / pi (the first one is number 1), the lowest limb first. */
static void window(int32_t first, uint32_t *out)
{
    int32_t word = (first - 1) / 32, shift = (first - 1) % 32;
    for (int32_t i = 0; i < LIMBS; i++) {
        uint64_t both = (uint64_t)inverse[word + i] << 32 | inverse[word + i + 1];
        out[LIMBS - 1 - i] = (uint32_t)(both >> (32 - shift));
    }
}

/* a, of 53 bits, times b. */
static void multiply(uint64_t a, const uint32_t *b, uint32_t *out)
{
    uint64_t low = a & 0xffffffffu, high = a >> 32, carry = 0;
    for (int32_t i = 0; i < LIMBS; i++) {
        carry += low * b[i];
        out[i] = (uint32_t)carry;
        carry >>= 32;
    }
    out[LIMBS] = (uint32_t)carry;
    out[LIMBS + 1] = 0;
    carry = 0;
    for (int32_t i = 0; i < LIMBS; i++) {
        carry += high * b[i] + out[i + 1];
        out[i + 1] = (uint32_t)carry;
        carry >>= 32;
    }
    out[LIMBS + 1] = (uint32_t)carry;
}

static void shift_left(uint32_t *limbs, int32_t bits)
{
    int32_t words = bits / 32, rest = bits % 32;
    for (int32_t i = PRODUCT - 1; i >= 0; i--) {
        uint64_t upper = i >= words ? limbs[i - words] : 0, lower = i > words ? limbs[i - words - 1] : 0;
        limbs[i] = (uint32_t)((upper << 32 | lower) >> (32 - rest));
    }
}

static void negate(uint32_t *limbs)
{
    uint64_t carry = 1;
    for (int32_t i = 0; i < PRODUCT; i++) {
        carry += (uint32_t)~limbs[i];
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* The value of the leading limbs of a fraction; the uppermost limb has the weight 2^-WHOLE_SHIFT. */
static wide leading(const uint32_t *limbs)
{
    wide sum = {0, 0};
    int32_t top = PRODUCT - 1;
    while (top > SUMMED && limbs[top] == 0) top--;
    for (int32_t i = top; i > top - SUMMED; i--)
        sum = wide_add(sum, wide_of(ldexp(limbs[i], 32 * (i - PRODUCT + 1) - WHOLE_SHIFT)));
    return sum;
}

wide phase_reduce(double x, int32_t halves, int32_t *quadrant)
{
    static const wide quarter_turn = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
    uint32_t bits[LIMBS], product[PRODUCT];
    int32_t exponent = ilogb(x) - 52, first = exponent > 2 ? exponent - 1 : 1, negative;
    window(first, bits);
    multiply((uint64_t)ldexp(x, -exponent), bits, product);
    /* The bits above 2 are whole turns. */
    shift_left(product, 32 * PRODUCT - 2 - (255 + first - exponent));
    product[PRODUCT - 1] -= (uint32_t)halves << (WHOLE_SHIFT - 1);
    uint32_t whole = (product[PRODUCT - 1] + (1u << (WHOLE_SHIFT - 1))) >> WHOLE_SHIFT;
    product[PRODUCT - 1] -= whole << WHOLE_SHIFT;
    negative = product[PRODUCT - 1] >> 31 != 0;
    if (negative) negate(product);
    *quadrant = (int32_t)(whole & 3);
    wide turned = wide_mul(leading(product), quarter_turn);
    return negative ? wide_negative(turned) : turned;
}
