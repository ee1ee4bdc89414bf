/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digamma for float32 operands, computed in vectors of float64 (DTYPE=f64), which are exact enough for it;
 * float64 operands go to special.c. Values at poles and infinities are ATen's.
 */
#include "loops.h"
#include "products.h"
#include "vector_math.h"

#define SHIFT 6 /* from here on the error of the asymptotic series is below 1e-15 */
#define PI    3.14159265358979323846

/*
 * psi(x) - log(x + SHIFT) for x > 0: the asymptotic series at x + SHIFT (Abramowitz and Stegun 6.3.18) minus
 * 1 / x + 1 / (x + 1) + ... as one quotient.
 */
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
    /* For the largest x the products overflow, but the quotient no longer matters. */
    return (x > 1e30 ? 0 : -above / below) - 0.5 / y - series * z;
}

/* psi(x) = psi(1 - x) - pi cot(pi x). Integers up to 0 are poles: NaN, and at 0 an infinity. */
static double reflected(double x, double of_reflection)
{
    double fraction = x - rint(x);
    if (x == 0) return copysign(INFINITY, -x);
    if (isinf(x) || fraction == 0) return NAN;
    return of_reflection - PI / tan(PI * fraction);
}

KERNEL(digamma)
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

POINTWISE_KERNELS(digamma) = {
    {CPU_OP_digamma, CPU_F32, digamma_kernel}, /* operands are float32, though T is double */
    END_OF_KERNELS,
};
