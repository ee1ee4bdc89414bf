/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orthogonal polynomials of a number and a degree, by recurrence in the dtype itself (DTYPE=f32|f64), so that
 * they overflow where ATen's do. A degree below 0 gives 0.
 */
#include "loops.h"

#if defined(DTYPE_F32)
#define HERMITE_LIMIT 128 /* beyond it the values overflow for nearly all arguments */
#else
#define HERMITE_LIMIT 512
#endif

static int64_t degree_of(T n)
{
    return n >= (T)-9e18 && n <= (T)9e18 ? (int64_t)n : -1;
}

/* Recurrence of Chebyshev's polynomials from the first two. */
static T chebyshev(T x, int64_t n, T first, T second)
{
    if (n == 0) return first;
    for (int64_t k = 2; k <= n && second == second; k++) {
        T next = 2 * x * second - first;
        first = second;
        second = next;
    }
    return second;
}
static T chebyshev_t(T x, T degree)
{
    int64_t n = degree_of(degree);
    if (n < 0) return 0;
    if (FN(fabs)(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
    if (n > 6 && FN(fabs)(x) < 1) return FN(cos)((T)n * FN(acos)(x));
    return chebyshev(x, n, 1, x);
}
static T chebyshev_u(T x, T degree)
{
    int64_t n = degree_of(degree);
    if (n < 0) return 0;
    if (FN(fabs)(x) == 1) return x > 0 || n % 2 == 0 ? (T)(n + 1) : -(T)(n + 1);
    if (n > 8 && FN(fabs)(x) < 1) return FN(sin)((T)(n + 1) * FN(acos)(x)) / FN(sin)(FN(acos)(x));
    return chebyshev(x, n, 1, 2 * x);
}
static T chebyshev_v(T x, T degree)
{
    int64_t n = degree_of(degree);
    if (n < 0) return 0;
    if (x == 1) return 1;
    if (x == -1) return n % 2 == 0 ? (T)(2 * n + 1) : -(T)(2 * n + 1);
    if (n > 8 && FN(fabs)(x) < 1) return FN(cos)(((T)n + (T)0.5) * FN(acos)(x)) / FN(cos)(FN(acos)(x) / 2);
    return chebyshev(x, n, 1, 2 * x - 1);
}
static T chebyshev_w(T x, T degree)
{
    int64_t n = degree_of(degree);
    if (n < 0) return 0;
    if (x == 1) return (T)(2 * n + 1);
    if (x == -1) return n % 2 == 0 ? 1 : -1;
    if (n > 8 && FN(fabs)(x) < 1) return FN(sin)(((T)n + (T)0.5) * FN(acos)(x)) / FN(sin)(FN(acos)(x) / 2);
    return chebyshev(x, n, 1, 2 * x + 1);
}
/* scale 2: physicists', 1: probabilists'. */
static T hermite(T x, int64_t n, T scale)
{
    T first = 1, second = scale * x;
    if (n < 0) return 0;
    if (n == 0) return 1;
    if (n > HERMITE_LIMIT) return NAN;
    for (int64_t k = 1; k < n && second == second; k++) {
        T next = scale * x * second - scale * (T)k * first;
        first = second;
        second = next;
    }
    return second;
}
static T hermite_h(T x, T degree)
{
    return hermite(x, degree_of(degree), 2);
}
static T hermite_he(T x, T degree)
{
    return hermite(x, degree_of(degree), 1);
}
static T laguerre(T x, T degree)
{
    int64_t n = degree_of(degree);
    T first = 1, second = 1 - x;
    if (n < 0) return 0;
    if (x == 0 || n == 0) return 1;
    for (int64_t k = 1; k < n && second == second; k++) {
        T next = (((T)(2 * k + 1) - x) * second - (T)k * first) / (T)(k + 1);
        first = second;
        second = next;
    }
    return second;
}
static T legendre(T x, T degree)
{
    int64_t n = degree_of(degree);
    T first = 1, second = x;
    if (n < 0) return 0;
    if (FN(fabs)(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
    if (n == 0) return 1;
    for (int64_t k = 1; k < n && second == second; k++) {
        T next = ((T)(2 * k + 1) * x * second - (T)k * first) / (T)(k + 1);
        first = second;
        second = next;
    }
    return second;
}

/* Shifted polynomials are those of 2 x - 1. */
ALWAYS_INLINE void shifted(void *const *p, int64_t n, T (*f)(T, T))
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = f(2 * a[i] - 1, b[i]);
}

static void chebyshev_polynomial_t(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, chebyshev_t);
}
static void chebyshev_polynomial_u(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, chebyshev_u);
}
static void chebyshev_polynomial_v(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, chebyshev_v);
}
static void chebyshev_polynomial_w(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, chebyshev_w);
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
    binary(p, n, hermite_h);
}
static void hermite_polynomial_he(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, hermite_he);
}
static void laguerre_polynomial_l(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, laguerre);
}
static void legendre_polynomial_p(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, legendre);
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
