/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gamma function's relatives, in float64 for all floats. They are rarely hot, so each is written once,
 * for accuracy: by series, asymptotic expansions or continued fractions (Abramowitz and Stegun, "Handbook of
 * Mathematical Functions", 1964; DLMF) in long double, and in wide numbers (wide.h) where that is not enough.
 * Values at poles and infinities are ATen's.
 */
#include "special.h"
#include "wide.h"

#define PI_LONG   3.14159265358979323846264338327950288L
#define EULER     0.5772156649015328606065121L
#define TINY      1e-20L /* a term below this share of the sum changes nothing */
#define TINY_WIDE 1e-33

/* Bernoulli numbers B2, B4, ... B24. */
static const long double bernoulli[12] = {
    1.0L / 6, -1.0L / 30,     1.0L / 42,      -1.0L / 30,       5.0L / 66,       -691.0L / 2730,
    7.0L / 6, -3617.0L / 510, 43867.0L / 798, -174611.0L / 330, 854513.0L / 138, -236364091.0L / 2730};

/* ---- Digamma, zeta, polygamma -------------------------------------------------------------------------- */

/* By psi(x) = psi(x + 1) - 1 / x up to x >= 10, then the asymptotic series. */
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

/* e^x, without its range */
static wide wide_exp(double x)
{
    static const wide log_2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
    double power = rint(x / log_2.high);
    wide rest = wide_sub(wide_of(x), wide_scale(log_2, power)), term = {1, 0}, sum = {1, 0};
    for (int k = 1; k < 40 && fabs(term.high) > TINY_WIDE; k++) {
        term = wide_div(wide_mul(term, rest), wide_of(k));
        sum = wide_add(sum, term);
    }
    return (wide){ldexp(sum.high, (int)power), ldexp(sum.low, (int)power)};
}
/* One step, of third order, from the logarithm of a float64. */
static wide wide_log(wide x)
{
    double start = log(x.high);
    wide power = wide_exp(start), step = wide_div(wide_sub(x, power), wide_add(x, power));
    return wide_add(wide_of(start), wide_scale(step, 2));
}

/* positive_digamma in wide numbers; from x = 30 on the terms of the series become small enough. */
static wide wide_digamma(wide x)
{
    static const double over[12] = {1, -1, 1, -1, 5, -691, 7, -3617, 43867, -174611, 854513, -236364091};
    static const double under[12] = {6, 30, 42, 30, 66, 2730, 6, 510, 798, 330, 138, 2730};
    wide sum = {0, 0}, square, power = {1, 0};
    for (; x.high < 30; x = wide_add(x, wide_of(1))) sum = wide_sub(sum, wide_div(wide_of(1), x));
    square = wide_mul(x, x);
    for (int k = 0; k < 12; k++) {
        power = wide_div(power, square);
        sum = wide_sub(sum, wide_scale(wide_div(power, wide_of(under[k] * 2 * (k + 1))), over[k]));
    }
    return wide_add(wide_sub(sum, wide_div(wide_of(0.5), x)), wide_log(x));
}
/* pi cot(pi x) for |x| <= 1/2 */
static wide wide_cotangent(double x)
{
    static const wide pi = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
    wide angle = wide_scale(pi, x), term = {1, 0}, sum[2] = {{1, 0}, {0, 0}}; /* cos, sin */
    for (int k = 1; k < 60 && fabs(term.high) > TINY_WIDE; k++) {
        term = wide_div(wide_mul(term, angle), wide_of(k));
        sum[k % 2] = k % 4 < 2 ? wide_add(sum[k % 2], term) : wide_sub(sum[k % 2], term);
    }
    return wide_mul(pi, wide_div(sum[0], sum[1]));
}

/*
 * Roots around which even wide numbers lose too many digits: the root as high + low, and two terms of the
 * Taylor series.
 */
static const struct digamma_root {
    double high;
    long double low, slope, curve;
} digamma_roots[2] = {
    {1.4616321449683622, 9.549995429965697715184e-17L, 0.9676722454476211704274L, -0.4427631689835921060929L},
    {-0.5040830082644554, -8.154282062438130093712e-18L, 8.93979855879213449731L,
     -0.8093454625306507026338L}};

/* Around a root, where nearly all digits cancel. `fraction` is x minus the nearest integer. */
static double digamma_near_root(double x, double fraction)
{
    for (int k = 0; k < 2; k++) {
        const struct digamma_root *r = &digamma_roots[k];
        long double away = ((long double)x - r->high) - r->low;
        if (fabsl(away) < 1e-12L) return (double)(away * (r->slope + away * r->curve));
    }
    if (x > 0) return wide_digamma(wide_of(x)).high;
    return wide_sub(wide_digamma(wide_sum(1, -x)), wide_cotangent(fraction)).high;
}

#define NEAR_ROOT 0.25L /* below this the value is taken from the root's series */
double special_digamma(double x)
{
    double fraction = x - rint(x); /* it keeps the angle exact */
    if (x == 0) return copysign(INFINITY, -x);
    if (x != x || isinf(x)) return x > 0 ? x : NAN;
    if (x < 0 && fraction == 0) return NAN;
    long double value = x > 0 ? positive_digamma(x)
                              : positive_digamma(1 - (long double)x) - PI_LONG / tanl(PI_LONG * fraction);
    return fabsl(value) < NEAR_ROOT ? digamma_near_root(x, fraction) : (double)value;
}

/* a^-x, by products for small integers x. */
static long double inverse_power(long double a, double x)
{
    long double power = 1;
    if (x != floor(x) || x > 64) return powl(a, -(long double)x);
    for (int32_t k = (int32_t)x; k > 0; k /= 2, a *= a)
        if (k % 2) power *= a;
    return 1 / power;
}

/*
 * Hurwitz's zeta for x > 1 and 0 < q < inf by the Euler-Maclaurin formula, in long double, since an error of
 * q is multiplied by x.
 */
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
 * For negative q and an integer x: the terms below 0 are a sum over positive numbers, from the distance to
 * the next integer up to -q.
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
    if (isinf(x)) return x > 0 ? 0 : NAN; /* every nonpositive integer is a pole */
    return (fmod(n, 2) == 0 ? -1 : 1) * tgamma(n + 1) * special_zeta(n + 1, x);
}

/* m - log(1 + m) */
static long double log1p_rest(long double m)
{
    long double power = m * m, sum = power / 2;
    if (fabsl(m) > 0.25L) return m - log1pl(m);
    for (int32_t k = 3; fabsl(power) > sum * TINY; k++) {
        power *= -m;
        sum += power / k;
    }
    return sum;
}

/* x^a e^-x / Gamma(a + 1), by x - a where both are large. */
static long double gamma_density(long double a, long double x)
{
    if (a < 30) return expl(a * logl(x) - x - lgammal(a + 1));
    /* Stirling's series of lgamma(a + 1). */
    long double correction = 0, power = 1 / a, mu = (x - a) / a;
    for (int k = 0; k < 8; k++) {
        correction += bernoulli[k] / ((2 * k + 1) * (2 * k + 2)) * power;
        power /= a * a;
    }
    long double exponent = fabsl(mu) < 0.5L ? -a * log1p_rest(mu) : a * logl(x / a) + a - x;
    return expl(exponent - correction) / sqrtl(2 * PI_LONG * a);
}

static long double lower_series(long double a, long double x)
{
    long double term = 1, sum = 1;
    for (long double k = 1; k < 100000; k++) {
        term *= x / (a + k);
        sum += term;
        if (term < sum * TINY) break;
    }
    return gamma_density(a, x) * sum;
}

/* Legendre's continued fraction by Lentz's method. */
static long double upper_fraction(long double a, long double x)
{
    long double b = x + 1 - a, c = 1e300L, d = 1 / b, h = d;
    for (long double k = 1; k < 100000; k++) {
        long double factor = -k * (k - a), step;
        b += 2;
        d = factor * d + b;
        d = fabsl(d) < 1e-300L ? 1e300L : 1 / d;
        c = b + factor / c;
        if (fabsl(c) < 1e-300L) c = 1e-300L;
        step = d * c;
        h *= step;
        if (fabsl(step - 1) < TINY) break;
    }
    return gamma_density(a, x) * a * h;
}

/* Q for large a, from the normal distribution, with two corrections (Temme; DLMF 8.12.3 to 8.12.12). */
#define LARGE_A 1e5
static long double upper_large(long double a, long double x)
{
    long double mu = (x - a) / a, eta = copysignl(sqrtl(2 * log1p_rest(mu)), mu), first, second;
    if (fabsl(eta) < 0.02L) { /* Taylor's series of the two */
        static const long double c[2][6] = {
            {-1.0L / 3, 1.0L / 12, -2.0L / 135, 1.0L / 864, 1.0L / 2835, -0.0001787551440329218106996L},
            {-1.0L / 540, -1.0L / 288, 1.0L / 378, -77.0L / 77760, 0.0002057613168724279835391L,
             -4.018775720164609e-7L}};
        first = second = 0;
        for (int k = 5; k >= 0; k--) {
            first = first * eta + c[0][k];
            second = second * eta + c[1][k];
        }
    } else {
        first = 1 / mu - 1 / eta;
        second = 1 / (eta * eta * eta) - (1 / mu + 1 + mu / 12) / (mu * mu);
    }
    return 0.5L * erfcl(eta * sqrtl(a / 2)) +
           expl(-a * eta * eta / 2) / sqrtl(2 * PI_LONG * a) * (first + second / a);
}

/* The lower function outside its domain, at 0, at infinity and of NaN; the upper one is 1 minus that. */
static int igamma_at_limits(double a, double x, double *out)
{
    if (x < 0 || a < 0)
        *out = NAN;
    else if (a == 0)
        *out = x > 0 ? 1 : NAN;
    else if (x == 0)
        *out = 0;
    else if (isinf(a))
        *out = isinf(x) ? NAN : 0;
    else if (isinf(x))
        *out = 1;
    else if (x != x || a != a)
        *out = NAN;
    else
        return 0;
    return 1;
}

double special_igamma(double a, double x)
{
    double limit;
    if (igamma_at_limits(a, x, &limit)) return limit;
    if (a > LARGE_A) return (double)(1 - upper_large(a, x));
    return (double)(x < a + 1 ? lower_series(a, x) : 1 - upper_fraction(a, x));
}

/* log Gamma(1 + a), whose size is about that of a. */
static long double lgamma_above_1(long double a)
{
    static const long double zeta[8] = {1.6449340668482264364724L,   1.2020569031595942853997L,
                                        1.082323233711138191516L,    1.03692775514336992633137L,
                                        1.01734306198444913971452L,  1.008349277381922826839798L,
                                        1.004077356197944339378685L, 1.002008392826082214417853L};
    long double power = -a, sum = 0;
    if (a > 0.005L) return lgammal(1 + a);
    for (int k = 0; k < 8; k++) {
        power *= -a;
        sum += zeta[k] / (k + 2) * power;
    }
    return sum - EULER * a;
}

/*
 * For small x and a 1 - P cancels, so Q = 1 - x^a / Gamma(1 + a) - x^a / Gamma(a) sum_{n>=1} (-x)^n / ((a +
 * n) n!). The first difference is computed by expm1.
 */
static long double upper_small(long double a, long double x)
{
    long double sum = 0, term = 1, leading = a * logl(x) - lgamma_above_1(a);
    for (long double n = 1; n < 1000; n++) {
        term *= -x / n;
        long double part = term / (a + n);
        sum += part;
        if (fabsl(part) < fabsl(sum) * TINY) break;
    }
    return -expm1l(leading) - expl(leading) * a * sum;
}

double special_igammac(double a, double x)
{
    double limit;
    if (igamma_at_limits(a, x, &limit)) return 1 - limit;
    if (a > LARGE_A) return (double)upper_large(a, x);
    if (x < 1.5 && a < 1.5) return (double)upper_small(a, x);
    return (double)(x < a + 1 ? 1 - lower_series(a, x) : upper_fraction(a, x));
}
