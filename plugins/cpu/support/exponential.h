/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Powers of e in a form that compilers turn into vector code, for float and double: x = n ln 2 + r with
 * |r| <= ln 2 / 2, ln 2 in two parts (Cody and Waite), a polynomial in r (float: Cephes' coefficients,
 * double: Taylor's), 2^n as two factors, so that results below the smallest normal number come out right.
 * Within 1 ULP of the truth. Formulas that continue with a power take its parts, and round less often.
 */
#ifndef TENON_CPU_EXPONENTIAL_H
#define TENON_CPU_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

#define CPU_EXPONENTIAL static inline __attribute__((always_inline, unused))

/* a b + c, rounded once where the level has an instruction for it. */
CPU_EXPONENTIAL float cpu_fused_f32(float a, float b, float c)
{
#if defined(__FMA__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}
CPU_EXPONENTIAL double cpu_fused_f64(double a, double b, double c)
{
#if defined(__FMA__)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* (1 + more) scale[0] scale[1]; the scales are powers of two that neither overflow nor underflow. */
typedef struct cpu_power_f32 {
    float more, scale[2];
} cpu_power_f32;
typedef struct cpu_power_f64 {
    double more, scale[2];
} cpu_power_f64;

/* 2^n for a whole number n: its last digits are those of a number in which they stand in the lowest bits. */
CPU_EXPONENTIAL double cpu_power_of_two_f64(double n)
{
    double shifted = n + (0x1.8p52 + 1023), power;
    uint64_t bits;
    memcpy(&bits, &shifted, 8);
    bits <<= 52;
    memcpy(&power, &bits, 8);
    return power;
}

/* e^r - 1 for |r| <= ln 2 / 2. */
CPU_EXPONENTIAL float cpu_power_series_f32(float r)
{
    float p = 1.9875691500e-4f;
    p = cpu_fused_f32(p, r, 1.3981999507e-3f);
    p = cpu_fused_f32(p, r, 8.3334519073e-3f);
    p = cpu_fused_f32(p, r, 4.1665795894e-2f);
    p = cpu_fused_f32(p, r, 1.6666665459e-1f);
    p = cpu_fused_f32(p, r, 5.0000001201e-1f);
    return cpu_fused_f32(p, r * r, r);
}
CPU_EXPONENTIAL double cpu_power_series_f64(double r)
{
    double p = 1.0 / 6227020800;
    p = cpu_fused_f64(p, r, 1.0 / 479001600);
    p = cpu_fused_f64(p, r, 1.0 / 39916800);
    p = cpu_fused_f64(p, r, 1.0 / 3628800);
    p = cpu_fused_f64(p, r, 1.0 / 362880);
    p = cpu_fused_f64(p, r, 1.0 / 40320);
    p = cpu_fused_f64(p, r, 1.0 / 5040);
    p = cpu_fused_f64(p, r, 1.0 / 720);
    p = cpu_fused_f64(p, r, 1.0 / 120);
    p = cpu_fused_f64(p, r, 1.0 / 24);
    p = cpu_fused_f64(p, r, 1.0 / 6);
    p = cpu_fused_f64(p, r, 0.5);
    return cpu_fused_f64(p, r * r, r);
}

/*
 * e^(x + rest) in parts, where rest is what the rounding of x took off. The scales are 2^n / lift and lift, n the
 * whole number nearest to x / ln 2; the caller chooses a power of two `lift` with which both are normal numbers.
 * Added to `shift`, n + 127 - log2(lift) stands in the lowest bits, which become an exponent.
 */
CPU_EXPONENTIAL cpu_power_f32 cpu_power_f32_parts(float x, float rest, float shift, float lift)
{
    float whole = cpu_fused_f32(x, 1.44269504088896341f, shift), n = whole - shift, r, scale;
    uint32_t bits;
    r = cpu_fused_f32(n, -0.693145751953125f, x); /* exact */
    if (__builtin_constant_p(rest) && rest == 0)
        r = cpu_fused_f32(n, -1.42860677e-6f, r);
    else
        r = r - cpu_fused_f32(n, 1.42860677e-6f, -rest);
    memcpy(&bits, &whole, 4);
    bits <<= 23;
    memcpy(&scale, &bits, 4);
    return (cpu_power_f32){cpu_power_series_f32(r), {scale, lift}};
}

/* For x from -CPU_POWER_NEAR to CPU_POWER_NEAR, where powers are normal numbers: one scale is enough. */
#define CPU_POWER_NEAR 86
CPU_EXPONENTIAL cpu_power_f32 cpu_power_f32_near(float x, float rest)
{
    return cpu_power_f32_parts(x, rest, 0x1.8p23f + 127, 1);
}

/* For x from -120 to 0, or NaN. */
CPU_EXPONENTIAL cpu_power_f32 cpu_power_f32_below(float x, float rest)
{
    return cpu_power_f32_parts(x, rest, 0x1.8p23f + (127 + 64), 0x1p-64f);
}

/* For any x: from 89 up the power is infinite, below -120 (where even a hundred times the power is 0) x is cut. */
CPU_EXPONENTIAL cpu_power_f32 cpu_power_f32_of(float x, float rest)
{
    float r = x > 89.0f ? 89.0f : x;
    r = r < -120.0f ? -120.0f : r;
    return cpu_power_f32_parts(r, rest, r > 0 ? 0x1.8p23f + (127 - 64) : 0x1.8p23f + (127 + 64),
                               r > 0 ? 0x1p64f : 0x1p-64f);
}

/* The same of double: from 710 up, below -760. The scales are nearly equal. */
CPU_EXPONENTIAL cpu_power_f64 cpu_power_f64_of(double x, double rest)
{
    const double shift = 0x1.8p52;
    double r = x > 710 ? 710 : x, n, half, p;
    r = r < -760 ? -760 : r;
    n = cpu_fused_f64(r, 1.44269504088896340736, shift) - shift;
    half = cpu_fused_f64(n, 0.5, shift) - shift;
    r = cpu_fused_f64(n, -6.93147180369123816490e-1, r) - cpu_fused_f64(n, 1.90821492927058770002e-10, -rest);
    p = cpu_power_series_f64(r);
    return (cpu_power_f64){p, {cpu_power_of_two_f64(half), cpu_power_of_two_f64(n - half)}};
}

CPU_EXPONENTIAL float cpu_exp_f32(float x)
{
    cpu_power_f32 p = cpu_power_f32_of(x, 0);
    return (1 + p.more) * p.scale[0] * p.scale[1];
}
CPU_EXPONENTIAL double cpu_exp_f64(double x)
{
    cpu_power_f64 p = cpu_power_f64_of(x, 0);
    return (1 + p.more) * p.scale[0] * p.scale[1];
}

/* e^x for x <= 0 or NaN. */
CPU_EXPONENTIAL float cpu_exp_below_f32(float x)
{
    cpu_power_f32 p = cpu_power_f32_below(x < -120.0f ? -120.0f : x, 0);
    return (1 + p.more) * p.scale[0] * p.scale[1];
}
CPU_EXPONENTIAL double cpu_exp_below_f64(double x)
{
    return cpu_exp_f64(x);
}

/*
 * 2^(x + k), where `shift` is 0x1.8p23 + 127 + k and the result is a normal number. The sum with `shift` has the
 * result's exponent in its lowest bits. The polynomial is a minimax fit of our own (error 2^-24).
 */
CPU_EXPONENTIAL float cpu_exp2_shifted_f32(float x, float shift)
{
    float whole = x + shift, r = x - (whole - shift), p = 0.00015461447765119374f, power;
    uint32_t bits;
    p = cpu_fused_f32(p, r, 0.0013390866806730628f);
    p = cpu_fused_f32(p, r, 0.009618056938052177f);
    p = cpu_fused_f32(p, r, 0.055503569543361664f);
    p = cpu_fused_f32(p, r, 0.24022650718688965f);
    p = cpu_fused_f32(p, r, 0.6931471824645996f);
    p = cpu_fused_f32(p, r, 1);
    memcpy(&bits, &whole, 4);
    bits <<= 23;
    memcpy(&power, &bits, 4);
    return p * power;
}

/*
 * 2^x for x below 128, with 0 in place of results below the smallest normal number: for weights that are
 * added to 1. NaN stays NaN.
 */
CPU_EXPONENTIAL float cpu_exp2_weight_f32(float x)
{
    return cpu_exp2_shifted_f32(x < -127.0f ? -127.0f : x, 0x1.8p23f + 127);
}
/* The same for x below 1024. */
CPU_EXPONENTIAL double cpu_exp2_weight_f64(double x)
{
    const double shift = 0x1.8p52;
    double n;
    x = x < -1023 ? -1023 : x;
    n = (x + shift) - shift;
    return (1 + cpu_power_series_f64((x - n) * 0.693147180559945309417)) * cpu_power_of_two_f64(n);
}

#endif
