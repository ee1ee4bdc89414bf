/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orthogonal polynomials (DTYPE=f32|f64) of a number x and a degree n, by recurrence in a wider type than the
 * result's, since terms cancel around the roots. A negative degree gives 0.
 */
#include "loops.h"

/*
 * Up to this degree the recurrence is used inside [-1, 1] too: it is slower than cosines there, but more
 * exact.
 */
#define RECURRENCE_LIMIT 64

#if defined(DTYPE_F32)
typedef double W;
#define WIDE(name)    name
#define MOST          __FLT_MAX__
#define HERMITE_LIMIT 128 /* beyond it the values overflow for nearly all arguments */
#else
typedef long double W;
#define WIDE(name)    name##l
#define MOST          __DBL_MAX__
#define HERMITE_LIMIT 512
#endif

/* Terms overflow where the result's type does, as in ATen. */
ALWAYS_INLINE W limited(W x)
{
    return x > MOST ? (W)INFINITY : x < -MOST ? (W)-INFINITY : x;
}

static int64_t degree_of(T n)
{
    return n >= (T)-9e18 && n <= (T)9e18 ? (int64_t)n : -1;
}

/* The recurrence of Chebyshev polynomials from the first two. */
static W chebyshev(W x, int64_t n, W first, W second)
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
static W chebyshev_t(W x, int64_t n)
{
    if (n < 0) return 0;
    if (WIDE(fabs)(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
    if (n > RECURRENCE_LIMIT && WIDE(fabs)(x) < 1) return WIDE(cos)((W)n * WIDE(acos)(x));
    return chebyshev(x, n, 1, x);
}
static W chebyshev_u(W x, int64_t n)
{
    if (n < 0) return 0;
    if (WIDE(fabs)(x) == 1) return x > 0 || n % 2 == 0 ? (W)(n + 1) : -(W)(n + 1);
    if (n > RECURRENCE_LIMIT && WIDE(fabs)(x) < 1)
        return WIDE(sin)((W)(n + 1) * WIDE(acos)(x)) / WIDE(sin)(WIDE(acos)(x));
    return chebyshev(x, n, 1, 2 * x);
}
static W chebyshev_v(W x, int64_t n)
{
    if (n < 0) return 0;
    if (x == 1) return 1;
    if (x == -1) return n % 2 == 0 ? (W)(2 * n + 1) : -(W)(2 * n + 1);
    if (n > RECURRENCE_LIMIT && WIDE(fabs)(x) < 1)
        return WIDE(cos)(((W)n + (W)0.5) * WIDE(acos)(x)) / WIDE(cos)(WIDE(acos)(x) / 2);
    return chebyshev(x, n, 1, 2 * x - 1);
}
static W chebyshev_w(W x, int64_t n)
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
    if (n > HERMITE_LIMIT) return NAN;
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

POINTWISE_KERNELS(polynomial) = {
    ENTRY(chebyshev_polynomial_t),
    ENTRY(chebyshev_polynomial_u),
    ENTRY(chebyshev_polynomial_v),
    ENTRY(chebyshev_polynomial_w),
    ENTRY(shifted_chebyshev_polynomial_t),
    ENTRY(shifted_chebyshev_polynomial_u),
    ENTRY(shifted_chebyshev_polynomial_v),
    ENTRY(shifted_chebyshev_polynomial_w),
    ENTRY(hermite_polynomial_h),
    ENTRY(hermite_polynomial_he),
    ENTRY(laguerre_polynomial_l),
    ENTRY(legendre_polynomial_p),
    END_OF_KERNELS,
};
