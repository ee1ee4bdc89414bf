/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of pointwise kernels: one for each number of operands, given an inline function of the elements.
 * Operands are dense; an output may be an input, element by element.
 */
#ifndef TENON_CPU_LOOPS_H
#define TENON_CPU_LOOPS_H

#include "pointwise_ops.h"
#include "vocabulary.h"

ALWAYS_INLINE void unary(void *const *p, int64_t n, T (*f)(T))
{
    T *o = p[0];
    const T *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i]);
}

ALWAYS_INLINE void binary(void *const *p, int64_t n, T (*f)(T, T))
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i], b[i]);
}

ALWAYS_INLINE void ternary(void *const *p, int64_t n, T (*f)(T, T, T))
{
    T *o = p[0];
    const T *a = p[1], *b = p[2], *c = p[3];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i], b[i], c[i]);
}

/* The same with one or two numbers that hold for the whole call. */
ALWAYS_INLINE void unary_with(void *const *p, int64_t n, T x, T y, T (*f)(T, T, T))
{
    T *o = p[0];
    const T *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i], x, y);
}

ALWAYS_INLINE void binary_with(void *const *p, int64_t n, T x, T y, T (*f)(T, T, T, T))
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i], b[i], x, y);
}

ALWAYS_INLINE void ternary_with(void *const *p, int64_t n, T x, T (*f)(T, T, T, T))
{
    T *o = p[0];
    const T *a = p[1], *b = p[2], *c = p[3];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i], b[i], c[i], x);
}

/* Results that are bool. */
ALWAYS_INLINE void test(void *const *p, int64_t n, int32_t (*f)(T))
{
    uint8_t *o = p[0];
    const T *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = (uint8_t)f(a[i]);
}

ALWAYS_INLINE void compare(void *const *p, int64_t n, int32_t (*f)(T, T))
{
    uint8_t *o = p[0];
    const T *a = p[1], *b = p[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = (uint8_t)f(a[i], b[i]);
}

#endif
