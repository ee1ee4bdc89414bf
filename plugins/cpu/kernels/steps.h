/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that call a function of the mathematical library, for files compiled per dtype of floats
 * (DTYPE=f32|f64) and level. Those that do more than that one call work in steps over the run, which stays in
 * the first-level cache: an inline function of the elements before the call, another one after it.
 */
#ifndef TENON_CPU_STEPS_H
#define TENON_CPU_STEPS_H

#include "loops.h"
#include "vector_math.h"

/* The function alone. */
#define VECTOR_UNARY(name, function)  LOOP(name, vector_unary(p[0], p[1], n, function))
#define VECTOR_BINARY(name, function) LOOP(name, vector_binary(p[0], p[1], p[2], n, function))

/* o = after(a, f(before(a))) */
ALWAYS_INLINE void through(void *const *p, int64_t n, T (*before)(T), V (*f)(V), T (*after)(T, T))
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1];
    for (int64_t i = 0; i < n; i++) t[i] = before(a[i]);
    vector_unary(t, t, n, f);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = after(a[i], t[i]);
}
ALWAYS_INLINE T itself(T a)
{
    return a;
}

#endif
