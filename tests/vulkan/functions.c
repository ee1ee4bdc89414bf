/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of plugins/vulkan/functions.h, compiled for the host: their errors, and what they give for special numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_FUNCTION  static inline
#define ALWAYS_INLINE GPU_FUNCTION
static inline float gpu_float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint32_t gpu_bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
#define fn_rint  rintf
#define fn_floor floorf
#define fn_fabs  fabsf
#define fn_sqrt  sqrtf
#include "functions.h"

#define WRONG 1e9

/* The error in units of the last place of the right result; WRONG for a wrong sign, infinity or NaN. */
static double ulps(float got, double right)
{
    float rounded = (float)right;
    int exponent;
    if (isnan(right) || isnan(got)) return isnan(right) && isnan(got) ? 0 : WRONG;
    if (isinf(rounded)) return got == rounded || (fabsf(got) > 3.4e38f && !isinf(right)) ? 0 : WRONG;
    if (got == 0 && rounded == 0) return signbit(got) == signbit(rounded) || right != 0 ? 0 : WRONG;
    frexp(right, &exponent);
    return fabs((double)got - right) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static const float special[] = {
    0,     -0.0f,  1,      -1,      INFINITY, -INFINITY,   NAN,         1e-45f, -1e-45f, 1e-38f,
    3e38f, -3e38f, 0.5f,   -0.5f,   2,        -2,          88.7f,       88.8f,  -87.3f,  -103.9f,
    -105,  1e10f,  -1e10f, 8388608, 1e30f,    1.00000012f, 0.99999994f, 3,      -3,      4.5f,
    1e-7f, -1e-7f, 128,    -150,    -2.5f,    0.75f,       -0.75f,      9,      10.5f,   1e-20f};
enum { SPECIAL = sizeof special / sizeof *special, SAMPLES = 40000 };

/* A number between low and high: evenly, or of any size. */
static float sample(int i, double low, double high)
{
    double r = rand() / (double)RAND_MAX;
    double even = low + (high - low) * r, any = (rand() & 1 ? -1 : 1) * exp2(60 * r - 40);
    return (float)(i % 2 && any >= low && any <= high ? any : even);
}

static void check_unary(const char *name, float (*f)(float), double (*right)(double), double low, double high,
                        double bound)
{
    double greatest = 0;
    float at = 0;
    srand(1);
    for (int i = 0; i < SAMPLES + SPECIAL; i++) {
        float x = i < SAMPLES ? sample(i, low, high) : special[i - SAMPLES];
        double error = ulps(f(x), right(x));
        if (error > greatest) at = x;
        if (error > greatest) greatest = error;
    }
    cr_expect_leq(greatest, bound, "%s(%.9g) = %.9g, and not %.9g: %.2f ULP", name, (double)at, (double)f(at),
                  right(at), greatest);
}

static void check_binary(const char *name, float (*f)(float, float), double (*right)(double, double),
                         double low, double high, double bound)
{
    double greatest = 0;
    float at = 0, by = 0;
    srand(1);
    for (int i = 0; i < SAMPLES + SPECIAL * SPECIAL; i++) {
        int k = i - SAMPLES;
        float x = k < 0 ? sample(i, low, high) : special[k / SPECIAL];
        float y = k < 0 ? sample(i / 2, low, high) : special[k % SPECIAL];
        double error = ulps(f(x, y), right(x, y));
        if (error > greatest) at = x, by = y;
        if (error > greatest) greatest = error;
    }
    cr_expect_leq(greatest, bound, "%s(%.9g, %.9g) = %.9g, and not %.9g: %.2f ULP", name, (double)at,
                  (double)by, (double)f(at, by), right(at, by), greatest);
}

Test(functions, exponentials)
{
    check_unary("exp", fn_exp, exp, -104, 89, 1);
    check_unary("exp2", fn_exp2, exp2, -150, 129, 1);
    check_unary("expm1", fn_expm1, expm1, -20, 89, 1.5);
    check_unary("sinh", fn_sinh, sinh, -89, 89, 2.5);
    check_unary("cosh", fn_cosh, cosh, -89, 89, 2.5);
    check_unary("tanh", fn_tanh, tanh, -10, 10, 1.5);
}

Test(functions, logarithms)
{
    check_unary("log", fn_log, log, 0, 4, 1);
    check_unary("log2", fn_log2, log2, 0, 4, 1);
    check_unary("log10", fn_log10, log10, 0, 4, 1);
    check_unary("log1p", fn_log1p, log1p, -1, 4, 1.5);
    check_unary("asinh", fn_asinh, asinh, -10, 10, 1.5);
    check_unary("acosh", fn_acosh, acosh, 1, 10, 3);
    check_unary("atanh", fn_atanh, atanh, -1, 1, 1.5);
}

Test(functions, angles)
{
    check_unary("sin", fn_sin, sin, -1e4, 1e4, 3);
    check_unary("cos", fn_cos, cos, -1e4, 1e4, 3);
    check_unary("tan", fn_tan, tan, -1e4, 1e4, 4);
    check_unary("sin", fn_sin, sin, -1e30, 1e30, 3);
    check_unary("asin", fn_asin, asin, -1, 1, 2.5);
    check_unary("acos", fn_acos, acos, -1, 1, 2);
    check_unary("atan", fn_atan, atan, -50, 50, 2.5);
    check_binary("atan2", fn_atan2, atan2, -10, 10, 2.5);
}

Test(functions, powers_and_rests)
{
    check_binary("pow", fn_pow, pow, 0, 50, 1.5);
    check_binary("pow", fn_pow, pow, -20, 20, 1.5);
    check_binary("hypot", fn_hypot, hypot, -1e6, 1e6, 1.5);
    check_binary("fmod", fn_fmod, fmod, -1e6, 1e6, 0);
}

Test(functions, error_function_and_gamma)
{
    check_unary("erf", fn_erf, erf, -5, 5, 1.5);
    check_unary("erfc", fn_erfc, erfc, -4, 9, 6);
    check_unary("lgamma", fn_lgamma, lgamma, 0.25, 100, 20); /* -2.5 is near a zero */
    /* Between its poles the function has zeros, where only the absolute error is small. */
    for (float x = -19.97f; x < 0; x += 0.0371f)
        cr_expect_lt(fabs((double)fn_lgamma(x) - lgamma((double)x)), 1e-5, "lgamma(%.9g)", (double)x);
}

Test(functions, a_product_is_not_rounded_in_between)
{
    cr_expect_eq(fused(1.00000012f, 1.00000012f, -1.00000024f), fmaf(1.00000012f, 1.00000012f, -1.00000024f));
    cr_expect_eq(fused(3e38f, 10, 1), INFINITY);
    cr_expect_eq(fused(INFINITY, 2, 1), INFINITY);
    cr_expect(isnan(fused(INFINITY, 0, 1)));
}
