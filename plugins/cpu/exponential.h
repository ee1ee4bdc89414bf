/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp of float32 in a form that compilers turn into vector code: x = n ln 2 + r with |r| <= ln 2 / 2, ln 2 in
 * two parts (Cody and Waite), a polynomial of degree 6 in r (Cephes' coefficients), 2^n by two factors so
 * that results below the smallest normal number come out right. Within 1 ULP of the truth.
 */
#ifndef TENON_CPU_EXPONENTIAL_H
#define TENON_CPU_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

/* 2^n for n in [-126, 127]. */
static inline __attribute__((always_inline, unused)) float cpu_power_of_two(int32_t n)
{
    int32_t bits = (n + 127) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return power;
}

static inline __attribute__((always_inline, unused)) float cpu_exp_f32(float x)
{
    const float shift = 0x1.8p23f; /* adding it leaves the nearest whole number in the lowest bits */
    float r = x > 89.0f ? 89.0f : x, n, p, shifted;
    int32_t whole, low;
    r = r < -104.0f ? -104.0f : r; /* beyond: infinity, zero */
    shifted = r * 1.44269504088896341f + shift;
    n = shifted - shift;
    memcpy(&whole, &shifted, 4);
    whole -= 0x4b400000;
    low = whole >> 1;
    r = r - n * 0.693359375f + n * 2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * cpu_power_of_two(low) * cpu_power_of_two(whole - low);
}

#endif
