/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special functions, in float64 for all floats: rarely hot, so each is written once, for accuracy, from its
 * series, asymptotic expansion, continued fraction or integral (Abramowitz and Stegun, "Handbook of
 * Mathematical Functions", 1964; DLMF). Values at the edges are ATen's.
 */
#include "special.h"

#define PI      3.14159265358979323846
#define PI_LONG 3.14159265358979323846264338327950288L
#define EULER   0.57721566490153286061
#define SQRT_PI 1.77245385090551602730
#define SQRT_2  1.41421356237309504880
#define TINY    1e-17 /* a term below this share of the sum changes nothing */

/* Bernoulli numbers B2, B4, ... B24. */
static const long double bernoulli[12] = {
    1.0L / 6, -1.0L / 30,     1.0L / 42,      -1.0L / 30,       5.0L / 66,       -691.0L / 2730,
    7.0L / 6, -3617.0L / 510, 43867.0L / 798, -174611.0L / 330, 854513.0L / 138, -236364091.0L / 2730};

/* ---- Gamma and its derivatives
 * ------------------------------------------------------------------------------------ */

/* Upward to x >= 10 by psi(x) = psi(x + 1) - 1 / x, there the asymptotic series. */
static long double positive_digamma(long double x)
{
    long double shift = 0, series = 0, power = 1;
    for (; x < 10; x += 1) shift -= 1 / x;
    for (int k = 0; k < 12; k++) {
        power /= x * x;
        series += bernoulli[k] / (2 * (k + 1)) * power;
    }
    return shift + logl(x) - 0.5L / x - series;
}

/* In extended precision: around its roots, and next to its poles, most digits cancel. */
double special_digamma(double x)
{
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0) {
        if (x == floor(x)) return NAN;
        /* The fraction keeps the angle exact. */
        long double fraction = x - trunc(x);
        return (double)(positive_digamma(1 - (long double)x) - PI_LONG / tanl(PI_LONG * fraction));
    }
    return isinf(x) ? x : (double)positive_digamma(x);
}

/* a^-x, by products where x is a small whole number. */
static long double inverse_power(long double a, double x)
{
    long double power = 1;
    if (x != floor(x) || x > 64) return powl(a, -(long double)x);
    for (int32_t k = (int32_t)x; k > 0; k /= 2, a *= a)
        if (k % 2) power *= a;
    return 1 / power;
}

/* Hurwitz's zeta of x > 1 and 0 < q < inf by Euler and Maclaurin's formula, in extended precision, since an
 * error of q counts x times. */
static long double positive_zeta(double x, long double q)
{
    long double sum = 0, term, a = q, factor, power, factorial = 2;
    for (int k = 0; k < 12 || a <= 12; k++, a += 1) {
        term = inverse_power(a, x);
        sum += term;
        if (k >= 12 && fabsl(term) < fabsl(sum) * TINY) return sum;
    }
    power = inverse_power(a, x);
    if (!isfinite(sum) || power == 0) return sum;
    sum += a * power / (x - 1) + 0.5L * power;
    factor = x;
    for (int k = 0; k < 12; k++) {
        /* B_2k / (2k)! x (x + 1) ... (x + 2k - 2) a^(-x - 2k + 1) */
        power /= a;
        term = bernoulli[k] / factorial * factor * power;
        sum += term;
        if (fabsl(term) < fabsl(sum) * TINY) break;
        factor *= (x + 2 * k + 1) * (x + 2 * k + 2);
        factorial *= (2 * k + 3.0L) * (2 * k + 4.0L);
        power /= a;
    }
    return sum;
}

/*
 * Of a negative q and a whole x: the terms below 0 are a sum over positive numbers themselves, from the
 * distance to the next whole number up to -q.
 */
static double negative_zeta(double x, double q)
{
    long double exact = q, mirrored = positive_zeta(x, ceill(exact) - exact) - positive_zeta(x, 1 - exact);
    return (double)(positive_zeta(x, exact - floorl(exact)) + (fmod(x, 2) == 0 ? mirrored : -mirrored));
}

double special_zeta(double x, double q)
{
    if (x == 1) return INFINITY;
    if (x < 1) return NAN;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        if (x != floor(x)) return NAN;
    }
    if (x != x || q != q) return NAN;
    if (isinf(q) || isinf(x)) return q < 1 ? INFINITY : q == 1 ? 1 : 0;
    return q < 0 ? negative_zeta(x, q) : (double)positive_zeta(x, q);
}

double special_polygamma(double n, double x)
{
    if (n == 0) return special_digamma(x);
    if (isinf(x)) return x > 0 ? 0 : NAN; /* poles all the way down */
    return (fmod(n, 2) == 0 ? -1 : 1) * tgamma(n + 1) * special_zeta(n + 1, x);
}

/* x^a e^-x / Gamma(a + 1), by the deviation of x from a where both are large. */
static double gamma_density(double a, double x)
{
    if (a < 30) return exp(a * log(x) - x - lgamma(a + 1));
    /* Stirling's series of lgamma(a + 1). */
    double correction = 1 / (12 * a) - 1 / (360 * a * a * a) + 1 / (1260 * pow(a, 5));
    double mu = (x - a) / a;
    double exponent = fabs(mu) < 0.5 ? a * (log1p(mu) - mu) : a * log(x / a) + a - x;
    return exp(exponent - correction) / sqrt(2 * PI * a);
}

static double lower_series(double a, double x)
{
    double term = 1, sum = 1;
    for (double k = 1; k < 100000; k++) {
        term *= x / (a + k);
        sum += term;
        if (term < sum * TINY) break;
    }
    return gamma_density(a, x) * sum;
}

/* Legendre's continued fraction by Lentz's method. */
static double upper_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (double k = 1; k < 100000; k++) {
        double factor = -k * (k - a), step;
        b += 2;
        d = factor * d + b;
        d = fabs(d) < 1e-300 ? 1e300 : 1 / d;
        c = b + factor / c;
        if (fabs(c) < 1e-300) c = 1e-300;
        step = d * c;
        h *= step;
        if (fabs(step - 1) < 1e-16) break;
    }
    return gamma_density(a, x) * a * h;
}

/* Q for large a, from the normal distribution, with Temme's first correction (DLMF 8.12). */
#define LARGE_A 1e5
static double upper_large(double a, double x)
{
    double mu = (x - a) / a, eta = copysign(sqrt(2 * (mu - log1p(mu))), mu);
    double correction = fabs(mu) < 1e-4 ? -1.0 / 3 + mu / 12 : 1 / mu - 1 / eta;
    return 0.5 * erfc(eta * sqrt(a / 2)) + exp(-a * eta * eta / 2) / sqrt(2 * PI * a) * correction;
}

double special_igamma(double a, double x)
{
    if (x < 0 || a < 0) return NAN;
    if (a == 0) return x > 0 ? 1 : NAN;
    if (x == 0) return 0;
    if (isinf(a)) return isinf(x) ? NAN : 0;
    if (isinf(x)) return 1;
    if (x != x || a != a) return NAN;
    if (a > LARGE_A) return 1 - upper_large(a, x);
    return x < a + 1 ? lower_series(a, x) : 1 - upper_fraction(a, x);
}

/*
 * For small x and a the difference 1 - P cancels: Q = 1 - x^a / Gamma(1 + a) - x^a / Gamma(a) sum_{n>=1}
 * (-x)^n /
 * ((a + n) n!), whose first difference is expm1's.
 */
static double upper_small(double a, double x)
{
    double sum = 0, term = 1, leading = a * log(x) - lgamma(1 + a);
    for (double n = 1; n < 1000; n++) {
        term *= -x / n;
        double part = term / (a + n);
        sum += part;
        if (fabs(part) < fabs(sum) * TINY) break;
    }
    return -expm1(leading) - exp(leading) * a * sum;
}

double special_igammac(double a, double x)
{
    if (x < 0 || a < 0) return NAN;
    if (a == 0) return x > 0 ? 0 : NAN;
    if (x == 0) return 1;
    if (isinf(a)) return isinf(x) ? NAN : 1;
    if (isinf(x)) return 0;
    if (x != x || a != a) return NAN;
    if (a > LARGE_A) return upper_large(a, x);
    if (x < 1.5 && a < 1.5) return upper_small(a, x);
    return x < a + 1 ? 1 - lower_series(a, x) : upper_fraction(a, x);
}

/* ---- Error function
 * -------------------------------------------------------------------------------------------------- */

/* e^(x^2) erfc(x). */
double special_erfcx(double x)
{
    if (x != x) return x;
    if (x < -26.7) return INFINITY;
    if (x < 10) {
        /* The square in two parts, so that its rounding does not grow with the exponential. */
        double square = x * x, rest = fma(x, x, -square);
        return exp(square) * (1 + rest) * erfc(x);
    }
    double term = 1, sum = 1, ratio = 1 / (2 * x * x);
    for (double k = 1; k < 40; k++) {
        double next = -term * (2 * k - 1) * ratio;
        if (fabs(next) >= fabs(term)) break;
        term = next;
        sum += term;
        if (fabs(term) < TINY) break;
    }
    return sum / (x * SQRT_PI);
}

/* y > 0 with erfc(y) = q, 0 < q <= 1, by Halley's steps on a scaled residual. */
static double inverse_erfc(double q)
{
    double t = sqrt(-2 * log(q / 2));
    /* A and S 26.2.23. */
    double y = (t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                        (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))) /
               SQRT_2;
    for (int k = 0; k < 4; k++) {
        /* (erfc(y) - q) / (2 / sqrt(pi) e^(-y^2)) */
        double ratio = SQRT_PI / 2 * (special_erfcx(y) - q * exp(y * y));
        if (!isfinite(ratio)) break;
        y += ratio / (1 - ratio * y);
    }
    return y;
}

double special_erfinv(double x)
{
    if (fabs(x) > 1 || x != x) return NAN;
    if (fabs(x) == 1) return copysign(INFINITY, x);
    if (fabs(x) > 0.5) return copysign(inverse_erfc(1 - fabs(x)), x);
    double y = x * SQRT_PI / 2 * (1 + PI / 12 * x * x);
    for (int k = 0; k < 4; k++) {
        double step = (erf(y) - x) * SQRT_PI / 2 * exp(y * y);
        y -= step / (1 + step * y);
    }
    return y;
}

/* The quantile of the normal distribution. */
double special_ndtri(double p)
{
    if (p == 0) return -INFINITY;
    if (p == 1) return INFINITY;
    if (!(p > 0 && p < 1)) return NAN;
    if (p < 0.25) return -SQRT_2 * inverse_erfc(2 * p);
    if (p > 0.75) return SQRT_2 * inverse_erfc(2 * (1 - p));
    return SQRT_2 * special_erfinv(2 * p - 1);
}

double special_log_ndtr(double x)
{
    if (x < -1) return log(special_erfcx(-x / SQRT_2) / 2) - x * x / 2;
    return log1p(-erfc(x / SQRT_2) / 2);
}

/* ---- Modified Bessel functions
 * ------------------------------------------------------------------------------------- */

/* I_n(x) e^-x for n = 0, 1 and x >= 0: the power series, all of whose terms are positive, or Hankel's
 * expansion. */
static double scaled_i(int n, double x)
{
    double term = n ? x / 2 : 1, sum = term;
    if (isinf(x)) return 0;
    if (x <= 30) {
        for (double k = 1; k < 200; k++) {
            term *= x * x / (4 * k * (k + n));
            sum += term;
            if (term < sum * TINY) break;
        }
        return sum * exp(-x);
    }
    term = sum = 1;
    for (double k = 1; k < 60; k++) {
        double odd = 2 * k - 1, next = -term * (4 * n * n - odd * odd) / (8 * k * x);
        if (fabs(next) >= fabs(term)) break;
        term = next;
        sum += term;
        if (fabs(term) < TINY) break;
    }
    return sum / sqrt(2 * PI * x);
}

double special_i0e(double x)
{
    return x != x ? x : scaled_i(0, fabs(x));
}
double special_i1e(double x)
{
    return x != x ? x : copysign(scaled_i(1, fabs(x)), x);
}
/* e^x in two factors, so that it may overflow only when the product does. */
static double unscale(double scaled, double x)
{
    double half = exp(x / 2);
    if (isinf(x)) return NAN; /* as ATen has it */
    return x > 800 ? INFINITY : scaled * half * half;
}
double special_i0(double x)
{
    return x != x ? x : unscale(scaled_i(0, fabs(x)), fabs(x));
}
double special_i1(double x)
{
    return x != x ? x : copysign(unscale(scaled_i(1, fabs(x)), fabs(x)), x);
}

/*
 * K_nu(x) e^x as an integral over t of exp(-x (cosh t - 1)) cosh(nu t), by the trapezoidal rule, whose error
 * falls exponentially with the step for such integrands.
 */
static double scaled_k(double nu, double x)
{
    const double step = x > 16 ? 0.5 / sqrt(x) : 0.125;
    double sum = 0.5;
    for (double k = 1; k < 100000; k++) {
        double t = k * step, half = sinh(t / 2), term = exp(-2 * x * half * half) * cosh(nu * t);
        sum += term;
        if (term < sum * 1e-18) break;
    }
    return sum * step;
}

/* Series about 0, A and S 9.6.11 and 9.6.13. */
static double small_k0(double x)
{
    double quarter = x * x / 4, term = 1, harmonic = 0, sum = 0, i0 = 1;
    for (double k = 1; k < 50; k++) {
        term *= quarter / (k * k);
        harmonic += 1 / k;
        i0 += term;
        sum += term * harmonic;
    }
    return -(log(x / 2) + EULER) * i0 + sum;
}
static double small_k1(double x)
{
    double quarter = x * x / 4, term = 1, sum = 0, i1 = 0, psi = -2 * EULER + 1; /* psi(1) + psi(2) */
    for (double k = 0; k < 50; k++) {
        i1 += term;
        sum += term * psi;
        term *= quarter / ((k + 1) * (k + 2));
        psi += 1 / (k + 1) + 1 / (k + 2);
    }
    return 1 / x + log(x / 2) * (x / 2 * i1) - x / 4 * sum;
}
static double any_k(int n, double x, int32_t scaled)
{
    if (x == 0) return INFINITY;
    if (x < 0 || x != x) return NAN;
    if (isinf(x)) return 0;
    if (x <= 1) return (n ? small_k1(x) : small_k0(x)) * (scaled ? exp(x) : 1);
    return scaled_k(n, x) * (scaled ? 1 : exp(-x));
}
double special_k0(double x)
{
    return any_k(0, x, 0);
}
double special_k1(double x)
{
    return any_k(1, x, 0);
}
double special_scaled_k0(double x)
{
    return any_k(0, x, 1);
}
double special_scaled_k1(double x)
{
    return any_k(1, x, 1);
}

/* ---- Airy
 * ------------------------------------------------------------------------------------------------------------
 */

/* Maclaurin's series in extended precision, since it cancels on both sides. */
static double airy_series(double x)
{
    long double z = (long double)x * x * x, f = 1, g = x, term_f = 1, term_g = x;
    for (long double k = 1; k < 100; k++) {
        term_f *= z / ((3 * k - 1) * (3 * k));
        term_g *= z / ((3 * k) * (3 * k + 1));
        f += term_f;
        g += term_g;
    }
    return (double)(0.355028053887817239260L * f - 0.258819403792806798405L * g);
}

/* A and S 10.4.60: oscillation for large negative arguments. */
static double airy_oscillation(double x)
{
    double zeta = 2.0 / 3 * x * sqrt(x), sum[2] = {0, 0}, term = 1;
    for (int k = 0; k < 30; k++) {
        sum[k % 2] += k % 4 < 2 ? term : -term;
        double next = term * (6 * k + 1.0) * (6 * k + 5.0) / (72.0 * (k + 1) * zeta);
        if (next >= term || next < TINY) break;
        term = next;
    }
    return (sin(zeta + PI / 4) * sum[0] - cos(zeta + PI / 4) * sum[1]) / (SQRT_PI * sqrt(sqrt(x)));
}

double special_airy_ai(double x)
{
    if (x != x) return x;
    if (x < -1e20) return isinf(x) ? 0 : NAN; /* no digit of the phase is left */
    if (x < -9) return airy_oscillation(-x);
    if (x < 1) return airy_series(x);
    double zeta = 2.0 / 3 * x * sqrt(x);
    if (zeta > 1e4) return 0;
    return sqrt(x / 3) / PI * scaled_k(1.0 / 3, zeta) * exp(-zeta);
}

/* Those of the C library, but without limits at infinity, as ATen's. */
double special_j0(double x)
{
    return isinf(x) ? NAN : j0(x);
}
double special_j1(double x)
{
    return isinf(x) ? NAN : j1(x);
}
double special_y0(double x)
{
    return isinf(x) ? NAN : y0(x);
}
double special_y1(double x)
{
    return isinf(x) ? NAN : y1(x);
}
double special_spherical_j0(double x)
{
    if (isinf(x)) return 0;
    return fabs(x) < 1e-4 ? 1 - x * x / 6 : sin(x) / x;
}
