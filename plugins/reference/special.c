/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special functions of a real number. Formulas are those of the NIST Digital Library of Mathematical
 * Functions (numbers in the comments); clarity comes before speed.
 */
#include "kernels.h"

#include <math.h>

#define PI 3.14159265358979323846264338327950288

/* Newton's method on erf(x) = y, on erfc near the ends, from a rough start (Winitzki). */
double special_erfinv(double y)
{
    if (isnan(y) || fabs(y) > 1) return NAN;
    if (fabs(y) == 1) return copysign(INFINITY, y);
    if (y == 0) return y;
    double a = fabs(y), l = log1p(-a * a), t = 2 / (PI * 0.147) + l / 2;
    double x = sqrt(sqrt(t * t - l / 0.147) - t);
    for (int i = 0; i < 6; i++) {
        double error = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x);
        double step = error / (2 / sqrt(PI) * exp(-x * x));
        x -= step / (1 + x * step);
    }
    return copysign(x, y);
}

double special_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* 5.5.2 (recurrence), 5.5.4 (reflection), 5.11.2 (asymptotic). */
double special_digamma(double x)
{
    static const double b[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12};
    if (x == 0) return copysign(INFINITY, -x);
    if (x == -INFINITY || (x < 0 && x == floor(x))) return NAN;
    if (isinf(x)) return x;
    if (x < 0) {
        double fraction = x - trunc(x); /* reduced by the period of tan, so that large x stay exact */
        return special_digamma(1 - x) - PI / tan(PI * fraction);
    }
    double sum = 0;
    for (; x < 16; x += 1) sum -= 1 / x;
    double power = 1 / (x * x), tail = 0;
    for (int k = 0; k < 7; k++, power /= x * x) tail += b[k] * power;
    return sum + log(x) - 0.5 / x - tail;
}

/* Hurwitz zeta, 25.11.1 with 25.11.5 (Euler-Maclaurin) once the argument is large. */
static double hurwitz_zeta(double s, double x)
{
    static const double bernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                       5.0 / 66, -691.0 / 2730, 7.0 / 6};
    if (x <= 0 && x == floor(x)) return INFINITY;
    double sum = 0;
    for (; x < 20; x += 1) sum += pow(x, -s);
    sum += pow(x, 1 - s) / (s - 1) + 0.5 * pow(x, -s);
    double factor = s / 2 * pow(x, -s - 1);
    for (int k = 1; k <= 7; k++) {
        sum += bernoulli[k - 1] * factor;
        factor *= (s + 2 * k - 1) * (s + 2 * k) / ((2 * k + 1.0) * (2 * k + 2.0)) / (x * x);
    }
    return sum;
}

/* 5.15.1 and 25.11.12: (-1)^(n+1) n! zeta(n + 1, x); order 1 by 5.15.6 (reflection) for x < 1/2. */
double special_polygamma(int64_t n, double x)
{
    if (n == 0) return special_digamma(x);
    if (isnan(x)) return x;
    if (n == 1 && x < 0.5) {
        double sine = sin(PI * (x - trunc(x)));
        return PI * PI / (sine * sine) - special_polygamma(1, 1 - x);
    }
    if (isinf(x)) return x > 0 ? (n % 2 ? 0.0 : -0.0) : NAN;
    double value = tgamma((double)n + 1) * hurwitz_zeta((double)n + 1, x);
    return n % 2 ? value : -value;
}

/* 10.25.2: the sum of (x^2 / 4)^k / k!^2, all terms positive. */
double special_i0(double x)
{
    if (isnan(x)) return x;
    if (fabs(x) > 720) return INFINITY;
    double q = x * x / 4, term = 1, sum = 1;
    for (int k = 1; term > sum * 1e-18; k++) {
        term *= q / ((double)k * k);
        sum += term;
    }
    return sum;
}

/* x^a e^-x / Gamma(a); for large a by 5.11.1 (Stirling), so that large terms do not cancel. */
static double gamma_prefix(double a, double x)
{
    if (a < 20) return exp(a * log(x) - x - special_lgamma(a));
    double d = (x - a) / a;
    double stirling = 1 / (12 * a) - 1 / (360 * a * a * a) + 1 / (1260 * pow(a, 5)) - 1 / (1680 * pow(a, 7));
    double body = fabs(d) < 0.4 ? a * (log1p(d) - d) : a * log(x / a) - x + a;
    return exp(body - stirling) * sqrt(a / (2 * PI));
}

/* 8.11.4: the series of the lower function. */
static double lower_series(double a, double x)
{
    double term = 1 / a, sum = term;
    for (int k = 1; k < 100000 && term > sum * 1e-18; k++) {
        term *= x / (a + k);
        sum += term;
    }
    return sum * gamma_prefix(a, x);
}

/* 8.9.2: the continued fraction of the upper one, by Lentz's method. */
static double upper_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int k = 1; k < 100000; k++) {
        double an = -k * (k - a);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        h *= c * d;
        if (fabs(c * d - 1) < 1e-17) break;
    }
    return h * gamma_prefix(a, x);
}

/* Whether the lower function is known at once: at the ends of the ranges, and outside of them. */
static int is_edge(double a, double x, double *lower)
{
    if (isnan(a) || isnan(x) || a < 0 || x < 0 || (isinf(a) && isinf(x)) || (a == 0 && x == 0))
        *lower = NAN;
    else if (a == 0 || isinf(x))
        *lower = 1;
    else if (x == 0 || isinf(a))
        *lower = 0;
    else
        return 0;
    return 1;
}

double special_igamma(double a, double x)
{
    double lower;
    if (is_edge(a, x, &lower)) return lower;
    return x < a + 1 ? lower_series(a, x) : 1 - upper_fraction(a, x);
}

double special_igammac(double a, double x)
{
    double lower;
    if (is_edge(a, x, &lower)) return 1 - lower;
    return x < a + 1 ? 1 - lower_series(a, x) : upper_fraction(a, x);
}
