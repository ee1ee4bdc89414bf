/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of plugins/vulkan/functions.h, compiled for the host: their errors, and what they give for special numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../core/rows.h"

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

/* A function of one argument or of two, the C library's in double precision, the range of the samples, and the bound in ULP. */
typedef struct function {
    const char *name;
    struct {
        float (*one)(float);
        float (*two)(float, float);
    } f;
    struct {
        double (*one)(double);
        double (*two)(double, double);
    } right;
    double low, high, bound;
} function;

#define ONE(name)              \
#name, {fn_##name, NULL }, \
    {                          \
        name, NULL             \
    }
#define TWO(name)              \
#name, {NULL, fn_##name }, \
    {                          \
        NULL, name             \
    }
static const function functions[] = {
    {ONE(exp), -104, 89, 1},      {ONE(exp2), -150, 129, 1},    {ONE(expm1), -20, 89, 1.5},
    {ONE(sinh), -89, 89, 2.5},    {ONE(cosh), -89, 89, 2.5},    {ONE(tanh), -10, 10, 1.5},
    {ONE(log), 0, 4, 1},          {ONE(log2), 0, 4, 1},         {ONE(log10), 0, 4, 1},
    {ONE(log1p), -1, 4, 1.5},     {ONE(asinh), -10, 10, 1.5},   {ONE(acosh), 1, 10, 3},
    {ONE(atanh), -1, 1, 1.5},     {ONE(sin), -1e4, 1e4, 3},     {ONE(cos), -1e4, 1e4, 3},
    {ONE(tan), -1e4, 1e4, 4},     {ONE(sin), -1e30, 1e30, 3},   {ONE(asin), -1, 1, 2.5},
    {ONE(acos), -1, 1, 2},        {ONE(atan), -50, 50, 2.5},    {ONE(erf), -5, 5, 1.5},
    {ONE(erfc), -4, 9, 6},        {ONE(lgamma), 0.25, 100, 20}, /* -2.5 is near a zero */
    {TWO(atan2), -10, 10, 2.5},   {TWO(pow), 0, 50, 1.5},       {TWO(pow), -20, 20, 1.5},
    {TWO(hypot), -1e6, 1e6, 1.5}, {TWO(fmod), -1e6, 1e6, 0},
};

static float value(const function *p, float x, float y)
{
    return p->f.one ? p->f.one(x) : p->f.two(x, y);
}

static double right_value(const function *p, float x, float y)
{
    return p->right.one ? p->right.one(x) : p->right.two(x, y);
}

TEST_OF_ROWS(functions, within_their_bounds, functions)
{
    const function *p = &functions[*row];
    const int is_pair = p->f.two != NULL, n_special = is_pair ? SPECIAL * SPECIAL : SPECIAL;
    double greatest = 0;
    float at = 0, by = 0;
    srand(1);
    for (int i = 0; i < SAMPLES + n_special; i++) {
        int k = i - SAMPLES;
        float x = k < 0 ? sample(i, p->low, p->high) : special[is_pair ? k / SPECIAL : k], y = 0;
        if (is_pair) y = k < 0 ? sample(i / 2, p->low, p->high) : special[k % SPECIAL];
        double error = ulps(value(p, x, y), right_value(p, x, y));
        if (error > greatest) at = x, by = y;
        if (error > greatest) greatest = error;
    }
    cr_expect_leq(greatest, p->bound, "%s(%.9g, %.9g) = %.9g, and not %.9g: %.2f ULP", p->name, (double)at,
                  (double)by, (double)value(p, at, by), right_value(p, at, by), greatest);
}

/* Pairs whose quotient is an integer, or the number next to one, where an inexact division goes wrong. */
static void next_to_whole(int i, float *a, float *b)
{
    float n = (float)(1 + rand() % (i % 3 ? 60 : 1 << (1 + rand() % 24)));
    *b = sample(i, -1000, 1000);
    if (i % 5 == 0) *b = rintf(*b);
    *a = n * *b;
    for (int steps = rand() % 5 - 2; steps; steps += steps < 0 ? 1 : -1)
        *a = nextafterf(*a, steps < 0 ? 0 : INFINITY);
}

Test(functions, truncated_quotients_are_those_of_exact_division)
{
    srand(1);
    for (int i = 0; i < 400000 + SPECIAL * SPECIAL; i++) {
        int k = i - 400000;
        float a = special[(k < 0 ? 0 : k) / SPECIAL], b = special[(k < 0 ? 0 : k) % SPECIAL];
        if (k < 0) next_to_whole(i, &a, &b);
        float got = fn_truncated_quotient(a, b), right = truncf(a / b);
        int is_same = isnan(right) ? isnan(got) : got == right && signbit(got) == signbit(right);
        cr_assert(is_same, "%.9g / %.9g gives %.9g, and not %.9g", (double)a, (double)b, (double)got,
                  (double)right);
    }
}

/* Between its poles the function has zeros, where only the absolute error is small. */
Test(functions, gamma_of_negative_numbers)
{
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
