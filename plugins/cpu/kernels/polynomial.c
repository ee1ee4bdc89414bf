/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orthogonal polynomials of a number and a degree, by recurrence (DTYPE=f32|f64) in a wider type than the
 * result's, since the terms cancel around the roots. A degree below 0 gives 0.
 */
#include "loops.h"

/* Up to this degree the recurrence is taken inside of [-1, 1], too, where it costs more than cosines and is
 * better. */
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

/* Terms overflow where the result's type does, as ATen's. */
ALWAYS_INLINE W limited(W x)
{
    return x > MOST ? (W)INFINITY : x < -MOST ? (W)-INFINITY : x;
}

static int64_t degree_of(T n)
{
    return n >= (T)-9e18 && n <= (T)9e18 ? (int64_t)n : -1;
}

/* Recurrence of Chebyshev's polynomials from the first two. */
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
/* scale 2: physicists', 1: probabilists'. */
static W hermite(W x, int64_t n, W scale)
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
static W hermite_h(W x, int64_t n)
{
    return hermite(x, n, 2);
}
static W hermite_he(W x, int64_t n)
{
    return hermite(x, n, 1);
}
static W laguerre(W x, int64_t n)
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
static W legendre(W x, int64_t n)
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

ALWAYS_INLINE void each(void *const *p, int64_t n, W (*f)(W, int64_t))
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = (T)f(a[i], degree_of(b[i]));
}
/* Shifted polynomials are those of 2 x - 1. */
ALWAYS_INLINE void shifted(void *const *p, int64_t n, W (*f)(W, int64_t))
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = (T)f(2 * (W)a[i] - 1, degree_of(b[i]));
}

static void chebyshev_polynomial_t(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, chebyshev_t);
}
static void chebyshev_polynomial_u(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, chebyshev_u);
}
static void chebyshev_polynomial_v(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, chebyshev_v);
}
static void chebyshev_polynomial_w(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, chebyshev_w);
}
static void shifted_chebyshev_polynomial_t(void *const *p, int64_t n, const cpu_scalars *s)
{
    shifted(p, n, chebyshev_t);
}
static void shifted_chebyshev_polynomial_u(void *const *p, int64_t n, const cpu_scalars *s)
{
    shifted(p, n, chebyshev_u);
}
static void shifted_chebyshev_polynomial_v(void *const *p, int64_t n, const cpu_scalars *s)
{
    shifted(p, n, chebyshev_v);
}
static void shifted_chebyshev_polynomial_w(void *const *p, int64_t n, const cpu_scalars *s)
{
    shifted(p, n, chebyshev_w);
}
static void hermite_polynomial_h(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, hermite_h);
}
static void hermite_polynomial_he(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, hermite_he);
}
static void laguerre_polynomial_l(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, laguerre);
}
static void legendre_polynomial_p(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, legendre);
}

extern const cpu_pointwise_entry CPU_NAME(cpu_polynomial)[];
const cpu_pointwise_entry CPU_NAME(cpu_polynomial)[] = {
    {CPU_OP_chebyshev_polynomial_t, chebyshev_polynomial_t},
    {CPU_OP_chebyshev_polynomial_u, chebyshev_polynomial_u},
    {CPU_OP_chebyshev_polynomial_v, chebyshev_polynomial_v},
    {CPU_OP_chebyshev_polynomial_w, chebyshev_polynomial_w},
    {CPU_OP_shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_t},
    {CPU_OP_shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_u},
    {CPU_OP_shifted_chebyshev_polynomial_v, shifted_chebyshev_polynomial_v},
    {CPU_OP_shifted_chebyshev_polynomial_w, shifted_chebyshev_polynomial_w},
    {CPU_OP_hermite_polynomial_h, hermite_polynomial_h},
    {CPU_OP_hermite_polynomial_he, hermite_polynomial_he},
    {CPU_OP_laguerre_polynomial_l, laguerre_polynomial_l},
    {CPU_OP_legendre_polynomial_p, legendre_polynomial_p},
    {0, NULL},
};
