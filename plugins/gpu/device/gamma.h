/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gamma function's relatives in the computation type T: series, asymptotic expansions and a continued fraction
 * (DLMF 5, 8 and 25; Abramowitz and Stegun 6). Values at poles and infinities are those of the CPU's kernels. No arrays: an
 * array that a loop indexes stays in memory. The includer has the dialect.
 */
#ifndef TENON_GPU_GAMMA_H
#define TENON_GPU_GAMMA_H

#define GAMMA_PI ((T)3.14159265358979323846)
#define GAMMA_TINY \
    (GPU_TYPE == 32 ? (T)1e-8 : (T)1e-17) /* a term below this share of the sum changes nothing */
#define GAMMA_SMALL ((T)1e-30)
#define GAMMA_NAN   ((T)INFINITY - (T)INFINITY)

/* ---- Digamma, zeta, polygamma -------------------------------------------------------------------------- */

/* x > 0: by psi(x) = psi(x + 1) - 1 / x up to 10, then the asymptotic series. */
ALWAYS_INLINE T positive_digamma(T x)
{
    T below = 0;
    for (int k = 0; k < 10 && x < 10; k++) {
        below += 1 / x;
        x += 1;
    }
    T z = 1 / (x * x), series = (T)(1.0 / 12);
    series = series * z - (T)(691.0 / 32760);
    series = series * z + (T)(1.0 / 132);
    series = series * z - (T)(1.0 / 240);
    series = series * z + (T)(1.0 / 252);
    series = series * z - (T)(1.0 / 120);
    series = series * z + (T)(1.0 / 12);
    return (FN(log)(x) - (T)0.5 / x) - series * z - below;
}
/* Around the root 1.46..., where nearly all digits of the above would cancel: Taylor's series at it. */
ALWAYS_INLINE T digamma_at_root(T x)
{
    T away = (x - (T)1.4616321325302124) - (T)1.2438149843418955e-8; /* the root as two float32 */
    T sum = (T)-0.033161126474847;
    sum = sum * away + (T)0.048804288164144;
    sum = sum * away - (T)0.072199561256455;
    sum = sum * away + (T)0.107824050691262;
    sum = sum * away - (T)0.163942705442407;
    sum = sum * away + (T)0.258499760955651;
    sum = sum * away - (T)0.442763168983592;
    sum = sum * away + (T)0.967672245447621;
    return sum * away;
}
ALWAYS_INLINE T digamma_of(T x)
{
    T fraction = x - FN(rint)(x);
    if (x == 0) return FN(copysign)((T)INFINITY, -x);
    if (x < 0 && (fraction == 0 || x == -INFINITY)) return GAMMA_NAN;
    if (x == INFINITY) return x;
#if GPU_TYPE == 32
    if (x > (T)1.36 && x < (T)1.56) return digamma_at_root(x);
#endif
    T value = positive_digamma(x < 0 ? 1 - x : x);
    return x < 0 ? value - GAMMA_PI / FN(tan)(GAMMA_PI * fraction) : value;
}

/* a^-s; `weighted`, for a whole s: times (s - 1)!, in an order that neither overflows nor underflows early. */
ALWAYS_INLINE T gamma_power(T a, T s, int weighted)
{
    T power = 1 / a;
    if (!weighted) return FN(pow)(a, -s);
    for (int k = 1; (T)k < s && power > 0 && power < INFINITY; k++) power *= (T)k / a;
    return power;
}
/* Hurwitz's zeta for s > 1 and 0 < q < inf by the Euler-Maclaurin formula; `weighted` as above. */
ALWAYS_INLINE T positive_zeta(T s, T q, int weighted)
{
    T sum = 0, term = 0, power, factor = s, a = q;
    for (int k = 0; k < 12; k++) {
        term = gamma_power(a, s, weighted);
        sum += term;
        a += 1;
    }
    if (term < sum * GAMMA_TINY) return sum;
    power = gamma_power(a, s, weighted);
    if (power == 0 || sum - sum != 0) return sum;
    sum += a * power / (s - 1) + (T)0.5 * power;
    T z = 1 / a;
/* B_2k / (2k)! s (s + 1) ... (s + 2k - 2) a^(-s - 2k + 1) */
#define GAMMA_ZETA_TERM(k, coefficient)                  \
    power *= z;                                          \
    sum += (T)(coefficient)*factor * power;              \
    factor *= (s + (T)(2 * (k)-1)) * (s + (T)(2 * (k))); \
    power *= z;
    GAMMA_ZETA_TERM(1, 1.0 / 12)
    GAMMA_ZETA_TERM(2, -1.0 / 720)
    GAMMA_ZETA_TERM(3, 1.0 / 30240)
    GAMMA_ZETA_TERM(4, -1.0 / 1209600)
    GAMMA_ZETA_TERM(5, 1.0 / 47900160)
    GAMMA_ZETA_TERM(6, -5.284190138687493e-10)
    GAMMA_ZETA_TERM(7, 1.3382536530684679e-11)
#undef GAMMA_ZETA_TERM
    return sum;
}
/*
 * Any q: of a negative one and a whole s the terms below 0 are a sum over positive numbers, from the distance to the next
 * integer up to -q, which is the difference of two zetas.
 */
ALWAYS_INLINE T zeta_sum(T s, T q, int weighted)
{
    T result = 0, sign = 1, at = q < 0 ? q - FN(floor)(q) : q;
    for (int part = 0; part < (q < 0 ? 3 : 1); part++) {
        result += sign * positive_zeta(s, at, weighted);
        at = part == 0 ? FN(ceil)(q) - q : 1 - q;
        sign = part == 0 ? (T)1 : (T)-1;
        if (FN(fmod)(s, (T)2) != 0) sign = -sign;
    }
    return result;
}
ALWAYS_INLINE T zeta_of(T s, T q)
{
    if (s == 1) return INFINITY;
    if (s < 1) return GAMMA_NAN;
    if (q <= 0 && q == FN(floor)(q)) return INFINITY;
    if (q <= 0 && s != FN(floor)(s)) return GAMMA_NAN;
    if (s != s || q != q) return GAMMA_NAN;
    if (q == INFINITY || s == INFINITY) return q < 1 ? INFINITY : q == 1 ? (T)1 : (T)0;
    return zeta_sum(s, q, 0);
}
/* n: the order, a whole number. */
ALWAYS_INLINE T polygamma_of(T x, T n)
{
    if (n == 0) return digamma_of(x);
    T sign = FN(fmod)(n, (T)2) == 0 ? (T)-1 : (T)1;
    if (x == INFINITY) return 0;
    if (x != x || x == -INFINITY) return GAMMA_NAN;
    if (x <= 0 && x == FN(floor)(x)) return sign * INFINITY;
    return sign * zeta_sum(n + 1, x, 1);
}

/* ---- The regularised incomplete gamma functions ---------------------------------------------------------- */

/* m - log(1 + m) */
ALWAYS_INLINE T log1p_rest(T m)
{
    T power = m * m, sum = power / 2;
    if (FN(fabs)(m) > (T)0.25) return m - FN(log1p)(m);
    for (int k = 3; k < 40 && FN(fabs)(power) > sum * GAMMA_TINY; k++) {
        power *= -m;
        sum += power / (T)k;
    }
    return sum;
}
/* x^a e^-x / Gamma(a + 1), by x - a where both are large. */
ALWAYS_INLINE T gamma_density(T a, T x)
{
    if (a < 10) return FN(exp)(a * FN(log)(x) - x - FN(lgamma)(a + 1));
    T z = 1 / (a * a), mu = (x - a) / a, correction = (T)(1.0 / 156);
    correction = correction * z - (T)(691.0 / 360360);
    correction = correction * z + (T)(1.0 / 1188);
    correction = correction * z - (T)(1.0 / 1680);
    correction = correction * z + (T)(1.0 / 1260);
    correction = correction * z - (T)(1.0 / 360);
    correction = (correction * z + (T)(1.0 / 12)) / a; /* Stirling's series of log Gamma(a + 1) */
    T exponent = FN(fabs)(mu) < (T)0.5 ? -a * log1p_rest(mu) : a * FN(log)(x / a) + a - x;
    return FN(exp)(exponent - correction) / FN(sqrt)(2 * GAMMA_PI * a);
}
ALWAYS_INLINE T gamma_lower_series(T a, T x)
{
    T term = 1, sum = 1;
    for (int k = 1; k < 5000 && term > sum * GAMMA_TINY; k++) {
        term *= x / (a + (T)k);
        sum += term;
    }
    return sum;
}
/* Legendre's continued fraction by Lentz's method, times a. */
ALWAYS_INLINE T gamma_upper_fraction(T a, T x)
{
    T b = x + 1 - a, c = 1 / GAMMA_SMALL, d = 1 / b, h = d, step = 0;
    for (int k = 1; k < 5000 && FN(fabs)(step - 1) > GAMMA_TINY; k++) {
        T factor = -(T)k * ((T)k - a);
        b += 2;
        d = factor * d + b;
        d = FN(fabs)(d) < GAMMA_SMALL ? 1 / GAMMA_SMALL : 1 / d;
        c = b + factor / c;
        c = FN(fabs)(c) < GAMMA_SMALL ? GAMMA_SMALL : c;
        step = d * c;
        h *= step;
    }
    return a * h;
}
/* Q for large a, from the normal distribution, with two corrections (Temme; DLMF 8.12.3 to 8.12.12). */
#define GAMMA_LARGE (GPU_TYPE == 32 ? (T)1000 : (T)1e5)
ALWAYS_INLINE T gamma_upper_large(T a, T x)
{
    T mu = (x - a) / a, eta = FN(copysign)(FN(sqrt)(2 * log1p_rest(mu)), mu), first, second;
    if (FN(fabs)(eta) < (GPU_TYPE == 32 ? (T)0.2 : (T)0.02)) { /* Taylor's series of the two */
        first = (T)-0.00017875514403292181;
        first = first * eta + (T)(1.0 / 2835);
        first = first * eta + (T)(1.0 / 864);
        first = first * eta - (T)(2.0 / 135);
        first = first * eta + (T)(1.0 / 12);
        first = first * eta - (T)(1.0 / 3);
        second = (T)-4.018775720164609e-7;
        second = second * eta + (T)0.00020576131687242798;
        second = second * eta - (T)(77.0 / 77760);
        second = second * eta + (T)(1.0 / 378);
        second = second * eta - (T)(1.0 / 288);
        second = second * eta - (T)(1.0 / 540);
    } else {
        first = 1 / mu - 1 / eta;
        second = 1 / (eta * eta * eta) - (1 / mu + 1 + mu / 12) / (mu * mu);
    }
    return (T)0.5 * FN(erfc)(eta * FN(sqrt)(a / 2)) +
           FN(exp)(-a * eta * eta / 2) / FN(sqrt)(2 * GAMMA_PI * a) * (first + second / a);
}
/* log Gamma(1 + a), whose size is about that of a. */
ALWAYS_INLINE T lgamma_above_1(T a)
{
    T sum = (T)(1.004077356197944339378685 / 8);
    if (a > (GPU_TYPE == 32 ? (T)0.1 : (T)0.01)) return FN(lgamma)(1 + a);
    sum = (T)(1.008349277381922826839798 / 7) - sum * a;
    sum = (T)(1.01734306198444913971452 / 6) - sum * a;
    sum = (T)(1.03692775514336992633137 / 5) - sum * a;
    sum = (T)(1.082323233711138191516 / 4) - sum * a;
    sum = (T)(1.2020569031595942853997 / 3) - sum * a;
    sum = (T)(1.6449340668482264364724 / 2) - sum * a;
    return (sum * a - (T)0.5772156649015328606065121) * a;
}
/*
 * For small x and a 1 - P cancels, so Q = 1 - x^a / Gamma(1 + a) - x^a / Gamma(a) sum_{n>=1} (-x)^n / ((a + n) n!). The
 * first difference is computed by expm1.
 */
ALWAYS_INLINE T gamma_upper_small(T a, T x)
{
    T sum = 0, term = 1, part = 1, leading = a * FN(log)(x) - lgamma_above_1(a);
    for (int n = 1; n < 40 && FN(fabs)(part) > FN(fabs)(sum) * GAMMA_TINY; n++) {
        term *= -x / (T)n;
        part = term / (a + (T)n);
        sum += part;
    }
    return -FN(expm1)(leading) - FN(exp)(leading) * a * sum;
}
/* P, or with `upper` Q = 1 - P. */
ALWAYS_INLINE T incomplete_gamma(T a, T x, int upper)
{
    T value = 0; /* of P or, if is_upper, of Q */
    int is_upper = 0;
    if (x < 0 || a < 0 || (a == 0 && !(x > 0)) || (a == INFINITY && x == INFINITY)) return GAMMA_NAN;
    if (a == 0 || (x == INFINITY && a != INFINITY)) {
        value = 1;
    } else if (x != 0 && a != INFINITY) {
        if (x != x || a != a) return GAMMA_NAN;
        is_upper = 1;
        if (a > GAMMA_LARGE) {
            value = gamma_upper_large(a, x);
        } else if (upper && x < (T)1.5 && a < (T)1.5) {
            value = gamma_upper_small(a, x);
        } else {
            is_upper = x >= a + 1;
            value = gamma_density(a, x) * (is_upper ? gamma_upper_fraction(a, x) : gamma_lower_series(a, x));
        }
    }
    return is_upper == (upper != 0) ? value : 1 - value;
}

#endif
