/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are more than one function of the mathematical library are written in steps over the run,
 * which stays in the first-level cache: before it, the function, after it; the steps are inline functions of
 * the elements. For files compiled per dtype of floats (DTYPE=f32|f64) and level.
 */
#ifndef TENON_CPU_STEPS_H
#define TENON_CPU_STEPS_H

#include "loops.h"
#include "vector_math.h"

/* before(a, scalars) -> function -> after(a, that, scalars). */
ALWAYS_INLINE void through(void *const *p, int64_t n, T x, T y, T (*before)(T, T), V (*f)(V),
                           T (*after)(T, T, T, T))
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1];
    for (int64_t i = 0; i < n; i++) t[i] = before(a[i], x);
    vector_unary(t, t, n, f);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = after(a[i], t[i], x, y);
}

/* The same for two operands. */
ALWAYS_INLINE void through_two(void *const *p, int64_t n, T x, T y, T (*before)(T, T, T), V (*f)(V),
                               T (*after)(T, T, T, T, T))
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) t[i] = before(a[i], b[i], x);
    vector_unary(t, t, n, f);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = after(a[i], b[i], t[i], x, y);
}

/* Steps that only choose. */
ALWAYS_INLINE T itself(T a, T x)
{
    return a;
}
ALWAYS_INLINE T second(T a, T b, T x)
{
    return b;
}

#endif
