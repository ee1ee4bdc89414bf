/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orthogonal polynomials of a number x and a degree n, by recurrence in W, which is wider than the result's type where there is
 * such a type, since terms cancel around the roots. A negative degree gives 0. The plugin defines W, WIDE(name), the name of a
 * function of W, MOST, the largest finite number of the result's type, and HERMITE_LIMIT.
 */
#ifndef TENON_FORMULAS_POLYNOMIALS_H
#define TENON_FORMULAS_POLYNOMIALS_H

/*
 * Up to this degree the recurrence is used inside [-1, 1] too: it is slower than cosines there, but more
 * exact.
 */
#define RECURRENCE_LIMIT 64

/* Terms overflow where the result's type does, as in ATen. */
ALWAYS_INLINE W limited(W x)
{
    return x > MOST ? (W)INFINITY : x < -MOST ? (W)-INFINITY : x;
}

ALWAYS_INLINE int64_t degree_of(T n)
{
    return n >= (T)-9e18 && n <= (T)9e18 ? (int64_t)n : -1;
}

/* The recurrence of Chebyshev polynomials from the first two. */
ALWAYS_INLINE W chebyshev(W x, int64_t n, W first, W second)
{
    if (n == 0) return first;
    second = limited(second);
    for (int64_t k = 2; k <= n && second == second; k++) {
        W next = limited(limited(2 * x) * second) - first;
        first = second;
        second = limited(next);
    }
    return second;
}
ALWAYS_INLINE W chebyshev_t(W x, int64_t n)
{
    if (n < 0) return 0;
    if (WIDE(fabs)(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
    if (n > RECURRENCE_LIMIT && WIDE(fabs)(x) < 1) return WIDE(cos)((W)n * WIDE(acos)(x));
    return chebyshev(x, n, 1, x);
}
ALWAYS_INLINE W chebyshev_u(W x, int64_t n)
{
    if (n < 0) return 0;
    if (WIDE(fabs)(x) == 1) return x > 0 || n % 2 == 0 ? (W)(n + 1) : -(W)(n + 1);
    if (n > RECURRENCE_LIMIT && WIDE(fabs)(x) < 1)
        return WIDE(sin)((W)(n + 1) * WIDE(acos)(x)) / WIDE(sin)(WIDE(acos)(x));
    return chebyshev(x, n, 1, 2 * x);
}
ALWAYS_INLINE W chebyshev_v(W x, int64_t n)
{
    if (n < 0) return 0;
    if (x == 1) return 1;
    if (x == -1) return n % 2 == 0 ? (W)(2 * n + 1) : -(W)(2 * n + 1);
    if (n > RECURRENCE_LIMIT && WIDE(fabs)(x) < 1)
        return WIDE(cos)(((W)n + (W)0.5) * WIDE(acos)(x)) / WIDE(cos)(WIDE(acos)(x) / 2);
    return chebyshev(x, n, 1, 2 * x - 1);
}
ALWAYS_INLINE W chebyshev_w(W x, int64_t n)
{
    if (n < 0) return 0;
    if (x == 1) return (W)(2 * n + 1);
    if (x == -1) return n % 2 == 0 ? 1 : -1;
    if (n > RECURRENCE_LIMIT && WIDE(fabs)(x) < 1)
        return WIDE(sin)(((W)n + (W)0.5) * WIDE(acos)(x)) / WIDE(sin)(WIDE(acos)(x) / 2);
    return chebyshev(x, n, 1, 2 * x + 1);
}
/* `scale` is 2 for the physicists' polynomials, 1 for the probabilists'. */
ALWAYS_INLINE W hermite(W x, int64_t n, W scale)
{
    W first = 1, second = limited(scale * x);
    if (n < 0) return 0;
    if (n == 0) return 1;
    if (n > HERMITE_LIMIT) return (W)INFINITY - (W)INFINITY;
    for (int64_t k = 1; k < n && second == second; k++) {
        W next = limited(limited(scale * x) * second) - limited(scale * (W)k * first);
        first = second;
        second = limited(next);
    }
    return second;
}
ALWAYS_INLINE W hermite_h(W x, int64_t n)
{
    return hermite(x, n, 2);
}
ALWAYS_INLINE W hermite_he(W x, int64_t n)
{
    return hermite(x, n, 1);
}
ALWAYS_INLINE W laguerre(W x, int64_t n)
{
    W first = 1, second = 1 - x;
    if (n < 0) return 0;
    if (x == 0 || n == 0) return 1;
    for (int64_t k = 1; k < n && second == second; k++) {
        W next = (limited(((W)(2 * k + 1) - x) * second) - limited((W)k * first)) / (W)(k + 1);
        first = second;
        second = limited(next);
    }
    return second;
}
ALWAYS_INLINE W legendre(W x, int64_t n)
{
    W first = 1, second = x;
    if (n < 0) return 0;
    if (WIDE(fabs)(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
    if (n == 0) return 1;
    for (int64_t k = 1; k < n && second == second; k++) {
        W next = (limited(limited((W)(2 * k + 1) * x) * second) - limited((W)k * first)) / (W)(k + 1);
        first = second;
        second = limited(next);
    }
    return second;
}

BINARY(chebyshev_polynomial_t, chebyshev_t(a, degree_of(b)))
BINARY(chebyshev_polynomial_u, chebyshev_u(a, degree_of(b)))
BINARY(chebyshev_polynomial_v, chebyshev_v(a, degree_of(b)))
BINARY(chebyshev_polynomial_w, chebyshev_w(a, degree_of(b)))
/* Shifted polynomials are those of 2 x - 1. */
BINARY(shifted_chebyshev_polynomial_t, chebyshev_t(2 * (W)a - 1, degree_of(b)))
BINARY(shifted_chebyshev_polynomial_u, chebyshev_u(2 * (W)a - 1, degree_of(b)))
BINARY(shifted_chebyshev_polynomial_v, chebyshev_v(2 * (W)a - 1, degree_of(b)))
BINARY(shifted_chebyshev_polynomial_w, chebyshev_w(2 * (W)a - 1, degree_of(b)))
BINARY(hermite_polynomial_h, hermite_h(a, degree_of(b)))
BINARY(hermite_polynomial_he, hermite_he(a, degree_of(b)))
BINARY(laguerre_polynomial_l, laguerre(a, degree_of(b)))
BINARY(legendre_polynomial_p, legendre(a, degree_of(b)))

#endif
