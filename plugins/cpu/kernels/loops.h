/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of pointwise kernels: one for each number of operands, given an inline function of the elements.
 * Operands are dense; an output may be an input, element by element.
 *
 * Elements are E in memory and T in the function. Where converting one element is no vector code, elements
 * are taken in blocks of a length that the compiler knows, so that a block stays in registers between its
 * conversions.
 */
#ifndef TENON_CPU_LOOPS_H
#define TENON_CPU_LOOPS_H

#include "../blocks.h"
#include "pointwise_ops.h"
#include "vocabulary.h"

#if defined(DTYPE_F16) && defined(__F16C__)
enum { BLOCK = CPU_BLOCK };
ALWAYS_INLINE void widen(T *to, const E *from)
{
    cpu_widen(to, from, CPU_BLOCK);
}
ALWAYS_INLINE void narrow(E *to, const T *from)
{
    cpu_narrow(to, from, CPU_BLOCK);
}
#else
/* bfloat16 needs blocks, too: else the compiler would join the conditions of function and rounding. */
enum { BLOCK = CPU_IS_HALF ? CPU_BLOCK : 1 };
ALWAYS_INLINE void widen(T *to, const E *from)
{
    for (int j = 0; j < BLOCK; j++) to[j] = load(from + j);
}
ALWAYS_INLINE void narrow(E *to, const T *from)
{
    for (int j = 0; j < BLOCK; j++) store(to + j, from[j]);
}
#endif

/* Elements that are taken in blocks; the others follow one by one. */
ALWAYS_INLINE int64_t in_blocks(int64_t n)
{
    return CPU_IS_HALF ? n / BLOCK * BLOCK : 0;
}

ALWAYS_INLINE void unary(void *const *p, int64_t n, T (*f)(T))
{
    E *o = p[0];
    const E *a = p[1];
    int64_t i = 0, blocks = in_blocks(n);
    for (; i < blocks; i += BLOCK) {
        T u[BLOCK];
        widen(u, a + i);
        for (int j = 0; j < BLOCK; j++) u[j] = f(u[j]);
        narrow(o + i, u);
    }
    CPU_INDEPENDENT
    for (; i < n; i++) store(o + i, f(load(a + i)));
}

ALWAYS_INLINE void binary(void *const *p, int64_t n, T (*f)(T, T))
{
    E *o = p[0];
    const E *a = p[1], *b = p[2];
    int64_t i = 0, blocks = in_blocks(n);
    for (; i < blocks; i += BLOCK) {
        T u[BLOCK], v[BLOCK];
        widen(u, a + i);
        widen(v, b + i);
        for (int j = 0; j < BLOCK; j++) u[j] = f(u[j], v[j]);
        narrow(o + i, u);
    }
    CPU_INDEPENDENT
    for (; i < n; i++) store(o + i, f(load(a + i), load(b + i)));
}

ALWAYS_INLINE void ternary(void *const *p, int64_t n, T (*f)(T, T, T))
{
    E *o = p[0];
    const E *a = p[1], *b = p[2], *c = p[3];
    int64_t i = 0, blocks = in_blocks(n);
    for (; i < blocks; i += BLOCK) {
        T u[BLOCK], v[BLOCK], w[BLOCK];
        widen(u, a + i);
        widen(v, b + i);
        widen(w, c + i);
        for (int j = 0; j < BLOCK; j++) u[j] = f(u[j], v[j], w[j]);
        narrow(o + i, u);
    }
    CPU_INDEPENDENT
    for (; i < n; i++) store(o + i, f(load(a + i), load(b + i), load(c + i)));
}

/* The same with one or two numbers that hold for the whole call. */
ALWAYS_INLINE void unary_with(void *const *p, int64_t n, T x, T y, T (*f)(T, T, T))
{
    E *o = p[0];
    const E *a = p[1];
    int64_t i = 0, blocks = in_blocks(n);
    for (; i < blocks; i += BLOCK) {
        T u[BLOCK];
        widen(u, a + i);
        for (int j = 0; j < BLOCK; j++) u[j] = f(u[j], x, y);
        narrow(o + i, u);
    }
    CPU_INDEPENDENT
    for (; i < n; i++) store(o + i, f(load(a + i), x, y));
}

ALWAYS_INLINE void binary_with(void *const *p, int64_t n, T x, T y, T (*f)(T, T, T, T))
{
    E *o = p[0];
    const E *a = p[1], *b = p[2];
    int64_t i = 0, blocks = in_blocks(n);
    for (; i < blocks; i += BLOCK) {
        T u[BLOCK], v[BLOCK];
        widen(u, a + i);
        widen(v, b + i);
        for (int j = 0; j < BLOCK; j++) u[j] = f(u[j], v[j], x, y);
        narrow(o + i, u);
    }
    CPU_INDEPENDENT
    for (; i < n; i++) store(o + i, f(load(a + i), load(b + i), x, y));
}

ALWAYS_INLINE void ternary_with(void *const *p, int64_t n, T x, T (*f)(T, T, T, T))
{
    E *o = p[0];
    const E *a = p[1], *b = p[2], *c = p[3];
    int64_t i = 0, blocks = in_blocks(n);
    for (; i < blocks; i += BLOCK) {
        T u[BLOCK], v[BLOCK], w[BLOCK];
        widen(u, a + i);
        widen(v, b + i);
        widen(w, c + i);
        for (int j = 0; j < BLOCK; j++) u[j] = f(u[j], v[j], w[j], x);
        narrow(o + i, u);
    }
    CPU_INDEPENDENT
    for (; i < n; i++) store(o + i, f(load(a + i), load(b + i), load(c + i), x));
}

/* Results that are bool. */
ALWAYS_INLINE void test(void *const *p, int64_t n, int32_t (*f)(T))
{
    uint8_t *o = p[0];
    const E *a = p[1];
    int64_t i = 0, blocks = in_blocks(n);
    for (; i < blocks; i += BLOCK) {
        T u[BLOCK];
        widen(u, a + i);
        for (int j = 0; j < BLOCK; j++) o[i + j] = (uint8_t)f(u[j]);
    }
    CPU_INDEPENDENT
    for (; i < n; i++) o[i] = (uint8_t)f(load(a + i));
}

ALWAYS_INLINE void compare(void *const *p, int64_t n, int32_t (*f)(T, T))
{
    uint8_t *o = p[0];
    const E *a = p[1], *b = p[2];
    int64_t i = 0, blocks = in_blocks(n);
    for (; i < blocks; i += BLOCK) {
        T u[BLOCK], v[BLOCK];
        widen(u, a + i);
        widen(v, b + i);
        for (int j = 0; j < BLOCK; j++) o[i + j] = (uint8_t)f(u[j], v[j]);
    }
    CPU_INDEPENDENT
    for (; i < n; i++) o[i] = (uint8_t)f(load(a + i), load(b + i));
}

#endif
