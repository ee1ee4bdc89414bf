/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The normal distribution and its relatives for float64, in long double: an error of x is multiplied by x^2
 * in e^(-x^2), which the extra bits absorb (11 with most C compilers). Values at poles and infinities are
 * ATen's.
 */
#include "special.h"

#define PI         3.14159265358979323846264338327950288L
#define ROOT_PI    1.772453850905516027298167L
#define ROOT_2     1.414213562373095048801689L
#define NEGLIGIBLE 1e-21L /* a term below this share of the sum changes nothing */

/* e^(x^2) erfc(x) above -27: the product, or the asymptotic series (DLMF 7.12.1). */
static long double scaled_erfc(long double x)
{
    if (x < 10) return expl(x * x) * erfcl(x);
    long double term = 1, sum = 1;
    for (int32_t k = 1; k < 100; k++) {
        long double next = -term * (2 * k - 1) / (2 * x * x);
        if (fabsl(next) >= fabsl(term)) break;
        term = next;
        sum += term;
        if (fabsl(term) < NEGLIGIBLE) break;
    }
    return sum / (x * ROOT_PI);
}
double special_erfcx(double x)
{
    if (x != x) return x;
    return x < -26.7 ? (double)INFINITY : (double)scaled_erfc(x);
}

/* erfc(-x / sqrt 2) / 2 */
static long double normal_area(double x)
{
    return erfcl(-(long double)x / ROOT_2) / 2;
}
double special_ndtr(double x)
{
    return (double)normal_area(x);
}
double special_log_ndtr(double x)
{
    long double wide_x = x;
    if (x < -1) return (double)(logl(scaled_erfc(-wide_x / ROOT_2) / 2) - wide_x * wide_x / 2);
    return (double)log1pl(-normal_area(-x));
}

/*
 * y > 0 with erfc(y) = q, 0 < q <= 1: a rational start (A and S 26.2.23), then Halley steps on log(erfc(y) /
 * q), which works for arbitrarily small q.
 */
static long double inverse_erfc(long double q)
{
    long double t = sqrtl(-2 * logl(q / 2));
    long double y = (t - (2.515517L + t * (0.802853L + t * 0.010328L)) /
                             (1 + t * (1.432788L + t * (0.189269L + t * 0.001308L)))) /
                    ROOT_2;
    if (y < 0) y = 0;
    for (int32_t k = 0; k < 3; k++) {
        /* The residual log(erfcx(y) / q) - y^2; its derivative is -2 / (sqrt(pi) erfcx(y)). */
        long double scaled = scaled_erfc(y), residual = logl(scaled / q) - y * y;
        long double slope = 2 / (ROOT_PI * scaled), curve = slope - 2 * y, step = residual / slope;
        y += step / (1 + step * curve / 2);
    }
    return y;
}

/* y with erf(y) = x, |x| <= 1/2. */
static long double inverse_erf(long double x)
{
    long double y = x * ROOT_PI / 2 * (1 + PI / 12 * x * x);
    for (int32_t k = 0; k < 4; k++) {
        long double step = (erfl(y) - x) * ROOT_PI / 2 * expl(y * y);
        y -= step / (1 + step * y);
    }
    return y;
}

double special_erfinv(double x)
{
    if (fabs(x) > 1 || x != x) return NAN;
    if (fabs(x) == 1) return copysign(INFINITY, x);
    if (fabs(x) > 0.5) return (double)copysignl(inverse_erfc(1 - fabsl(x)), x);
    return (double)inverse_erf(x);
}

/* The quantile of the normal distribution. */
double special_ndtri(double p)
{
    if (p == 0) return -INFINITY;
    if (p == 1) return INFINITY;
    if (!(p > 0 && p < 1)) return NAN;
    if (p < 0.25) return (double)(-ROOT_2 * inverse_erfc(2 * (long double)p));
    if (p > 0.75) return (double)(ROOT_2 * inverse_erfc(2 * (1 - (long double)p)));
    return (double)(ROOT_2 * inverse_erf(2 * (long double)p - 1));
}
