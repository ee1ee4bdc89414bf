/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the mathematical library over runs of floats (DTYPE=f32|f64): SLEEF's, with an error of at
 * most 1 ULP (1.5 for erfc), a vector of the level at a time. The rest of a run goes through a small buffer,
 * so an element's result does not depend on its position.
 */
#ifndef TENON_CPU_VECTOR_MATH_H
#define TENON_CPU_VECTOR_MATH_H

#include "walk/chunk.h"
#include "vocabulary.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sleef.h>

#define SLEEF_JOIN(name, type, lanes, ulp, suffix)   Sleef_##name##type##lanes##_u##ulp##suffix
#define SLEEF_EXACT_JOIN(name, type, lanes, suffix)  Sleef_##name##type##lanes##suffix
#define SLEEF_EXPAND(name, type, lanes, ulp, suffix) SLEEF_JOIN(name, type, lanes, ulp, suffix)

/* The vector type V, its LANES, and the name of SLEEF's function for it. */
#if defined(DTYPE_F32)
#if defined(LEVEL_AVX512)
typedef __m512 V;
#define LANES                  16
#define SLEEF_NAME(name, ulp)  SLEEF_EXPAND(name, f, 16, ulp, avx512f)
#define SLEEF_EXACT_NAME(name) SLEEF_EXACT_JOIN(name, f, 16, _avx512f)
#elif defined(LEVEL_AVX2)
typedef __m256 V;
#define LANES                  8
#define SLEEF_NAME(name, ulp)  SLEEF_EXPAND(name, f, 8, ulp, avx2)
#define SLEEF_EXACT_NAME(name) SLEEF_EXACT_JOIN(name, f, 8, _avx2)
#elif defined(__x86_64__)
typedef __m128 V;
#define LANES                  4
#define SLEEF_NAME(name, ulp)  SLEEF_EXPAND(name, f, 4, ulp, sse2)
#define SLEEF_EXACT_NAME(name) SLEEF_EXACT_JOIN(name, f, 4, _sse2)
#else
typedef float V;
#define LANES                  1
#define SLEEF_NAME(name, ulp)  SLEEF_EXPAND(name, f, , ulp, )
#define SLEEF_EXACT_NAME(name) SLEEF_EXACT_JOIN(name, f, , )
#endif
#else
#if defined(LEVEL_AVX512)
typedef __m512d V;
#define LANES                  8
#define SLEEF_NAME(name, ulp)  SLEEF_EXPAND(name, d, 8, ulp, avx512f)
#define SLEEF_EXACT_NAME(name) SLEEF_EXACT_JOIN(name, d, 8, _avx512f)
#elif defined(LEVEL_AVX2)
typedef __m256d V;
#define LANES                  4
#define SLEEF_NAME(name, ulp)  SLEEF_EXPAND(name, d, 4, ulp, avx2)
#define SLEEF_EXACT_NAME(name) SLEEF_EXACT_JOIN(name, d, 4, _avx2)
#elif defined(__x86_64__)
typedef __m128d V;
#define LANES                  2
#define SLEEF_NAME(name, ulp)  SLEEF_EXPAND(name, d, 2, ulp, sse2)
#define SLEEF_EXACT_NAME(name) SLEEF_EXACT_JOIN(name, d, 2, _sse2)
#else
typedef double V;
#define LANES                  1
#define SLEEF_NAME(name, ulp)  SLEEF_EXPAND(name, , , ulp, )
#define SLEEF_EXACT_NAME(name) SLEEF_EXACT_JOIN(name, , , )
#endif
#endif

/*
 * Functions of one and of two arguments. The cast removes SLEEF's const results, which compilers treat
 * differently.
 */
typedef V (*unary_function)(V);
typedef V (*binary_function)(V, V);
#define SLEEF(name, ulp)   ((unary_function)SLEEF_NAME(name, ulp))
#define SLEEF_2(name, ulp) ((binary_function)SLEEF_NAME(name, ulp))
#define SLEEF_EXACT(name)  ((binary_function)SLEEF_EXACT_NAME(name))

/* o may be a or b. */
ALWAYS_INLINE void vector_unary(T *o, const T *a, int64_t n, V (*f)(V))
{
    int64_t i = 0;
    V x;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&x, a + i, sizeof x);
        x = f(x);
        memcpy(o + i, &x, sizeof x);
    }
    if (i < n) {
        T rest[LANES] = {0};
        memcpy(rest, a + i, (size_t)(n - i) * sizeof(T));
        memcpy(&x, rest, sizeof x);
        x = f(x);
        memcpy(rest, &x, sizeof x);
        memcpy(o + i, rest, (size_t)(n - i) * sizeof(T));
    }
}

ALWAYS_INLINE void vector_binary(T *o, const T *a, const T *b, int64_t n, V (*f)(V, V))
{
    int64_t i = 0;
    V x, y;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        x = f(x, y);
        memcpy(o + i, &x, sizeof x);
    }
    if (i < n) {
        T rest[2][LANES] = {{0}};
        memcpy(rest[0], a + i, (size_t)(n - i) * sizeof(T));
        memcpy(rest[1], b + i, (size_t)(n - i) * sizeof(T));
        memcpy(&x, rest[0], sizeof x);
        memcpy(&y, rest[1], sizeof y);
        x = f(x, y);
        memcpy(rest[0], &x, sizeof x);
        memcpy(o + i, rest[0], (size_t)(n - i) * sizeof(T));
    }
}

/*
 * The same for functions of SLEEF's that overflow too early (they square the argument, or double the result):
 * infinite results are computed again, one by one, with `one`.
 */
ALWAYS_INLINE void vector_edges(T *o, const T *a, int64_t n, V (*f)(V), T (*one)(T))
{
    T t[CPU_CHUNK];
    int32_t any = 0;
    vector_unary(t, a, n, f);
    for (int64_t i = 0; i < n; i++) any |= t[i] == INFINITY || t[i] == -INFINITY;
    if (any)
        for (int64_t i = 0; i < n; i++)
            if (t[i] == INFINITY || t[i] == -INFINITY) t[i] = one(a[i]);
    memcpy(o, t, (size_t)n * sizeof(T));
}

/* SLEEF's log1p overflows far below the largest numbers; for those log is taken. */
ALWAYS_INLINE void vector_log1p(T *o, const T *a, int64_t n)
{
    const T large = sizeof(T) == 4 ? (T)1e30 : (T)1e300;
    T input[CPU_CHUNK];
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= a[i] > large;
    if (any) memcpy(input, a, (size_t)n * sizeof(T));
    vector_unary(o, a, n, SLEEF(log1p, 10));
    if (any) {
        vector_unary(input, input, n, SLEEF(log, 10));
        for (int64_t i = 0; i < n; i++)
            if (o[i] == INFINITY) o[i] = input[i];
    }
}

/*
 * The error function, for float32 by two minimax fits of our own, each with an error below 1 ULP: x P(x^2) up
 * to 0.92, beyond that 1 - e^-Q(x), which rounds to 1 from 4 on. SLEEF's takes four times as long.
 */
#if defined(DTYPE_F32)
#include "error_function.h"
ALWAYS_INLINE void vector_erf(T *o, const T *a, int64_t n)
{
    T t[CPU_CHUNK];
    for (int64_t i = 0; i < n; i++) t[i] = erf_exponent(a[i]);
    vector_unary(t, t, n, SLEEF(exp, 10));
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        T far = __builtin_copysignf(1 - t[i], a[i]), x = a[i];
        o[i] = x > ERF_MIDDLE || x < -ERF_MIDDLE ? far : erf_near(x);
    }
}
#else
ALWAYS_INLINE void vector_erf(T *o, const T *a, int64_t n)
{
    vector_unary(o, a, n, SLEEF(erf, 10));
}
#endif

#endif
