/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digamma of float32, in float64 (DTYPE=f64): its digits are enough for all but the float64 results of
 * special.c, and vectors have them. Values at the edges are ATen's.
 */
#include "pointwise_ops.h"
#include "products.h"
#include "vector_math.h"

#define SHIFT 6 /* from here on the asymptotic series is good to 1e-15 */
#define PI    3.14159265358979323846

/* psi(x) less the logarithm of x + SHIFT, x > 0: the asymptotic series there (Abramowitz and Stegun 6.3.18),
 * less 1 / x + 1 / (x + 1) + ..., as one quotient. */
ALWAYS_INLINE double digamma_rest(double x)
{
    double y = x + SHIFT, z = 1 / (y * y), above = 1, below = x, series = -236364091.0 / 65520;
    for (int k = 1; k < SHIFT; k++) {
        above = fused(above, x + k, below);
        below *= x + k;
    }
    series = fused(series, z, 854513.0 / 3036);
    series = fused(series, z, -174611.0 / 6600);
    series = fused(series, z, 43867.0 / 14364);
    series = fused(series, z, -3617.0 / 8160);
    series = fused(series, z, 1.0 / 12);
    series = fused(series, z, -691.0 / 32760);
    series = fused(series, z, 1.0 / 132);
    series = fused(series, z, -1.0 / 240);
    series = fused(series, z, 1.0 / 252);
    series = fused(series, z, -1.0 / 120);
    series = fused(series, z, 1.0 / 12);
    /* Of the largest numbers the products overflow, where the quotient no longer counts. */
    return (x > 1e30 ? 0 : -above / below) - 0.5 / y - series * z;
}

/* psi(x) = psi(1 - x) - pi cot(pi x); whole numbers have none. */
static double reflected(double x, double of_reflection)
{
    double fraction = x - rint(x);
    if (x == 0) return copysign(INFINITY, -x);
    if (isinf(x) || fraction == 0) return NAN;
    return of_reflection - PI / tan(PI * fraction);
}

static void digamma(void *const *p, int64_t n, const cpu_scalars *s)
{
    double x[CPU_CHUNK], value[CPU_CHUNK];
    const float *a = p[1];
    float *o = p[0];
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++) {
        double b = (double)a[i];
        any |= a[i] <= 0;
        x[i] = b <= 0 ? 1 - b : b;
        value[i] = x[i] + SHIFT;
    }
    vector_unary(value, value, n, SLEEF(log, 10));
    for (int64_t i = 0; i < n; i++) value[i] += digamma_rest(x[i]);
    for (int64_t i = 0; any && i < n; i++)
        if (a[i] <= 0) value[i] = reflected((double)a[i], value[i]);
    for (int64_t i = 0; i < n; i++) o[i] = (float)value[i];
}

extern const cpu_pointwise_entry CPU_NAME(cpu_short_special)[];
const cpu_pointwise_entry CPU_NAME(cpu_short_special)[] = {
    {CPU_OP_digamma, digamma},
    {0, NULL},
};
