/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of pointwise kernels: one, given an inline function of the elements, and a word for each number
 * of operands. Operands are dense; an output may be an input, element by element.
 *
 * Elements are E in memory and T in the function. Where converting one element is no vector code, elements
 * are taken in blocks of a length that the compiler knows, so that a block stays in registers between its
 * conversions.
 */
#ifndef TENON_CPU_LOOPS_H
#define TENON_CPU_LOOPS_H

#include "support/blocks.h"
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

/*
 * The same for functions whose results go back into a block: the order of elements within it does not matter
 * while all operands have the same. A pair of bfloat16 is taken apart where it lies, all those that stand in
 * lower halves of words before those in upper ones, so that no element changes its lane.
 */
#if defined(DTYPE_BF16)
ALWAYS_INLINE void widen_apart(T *to, const E *from)
{
    for (int j = 0; j < BLOCK / 2; j++) {
        uint32_t pair;
        memcpy(&pair, from + 2 * j, sizeof pair);
        to[j] = float_of_bits(pair << 16);
        to[j + BLOCK / 2] = float_of_bits(pair & 0xffff0000u);
    }
}
ALWAYS_INLINE void narrow_together(E *to, const T *from)
{
    for (int j = 0; j < BLOCK / 2; j++) {
        uint32_t low = bits_for_bfloat(from[j]), high = bits_for_bfloat(from[j + BLOCK / 2]);
        uint32_t pair = low >> 16 | (high & 0xffff0000u);
        memcpy(to + 2 * j, &pair, sizeof pair);
    }
}
#else
ALWAYS_INLINE void widen_apart(T *to, const E *from)
{
    widen(to, from);
}
ALWAYS_INLINE void narrow_together(E *to, const T *from)
{
    narrow(to, from);
}
#endif

/* A function of an element of each operand; one of these. `with` takes two numbers that hold for the whole
 * call (ternary one), `by` any number of them. */
typedef struct formula {
    T (*unary)(T);
    T (*binary)(T, T);
    T (*ternary)(T, T, T);
    T (*unary_with)(T, T, T);
    T (*binary_with)(T, T, T, T);
    T (*ternary_with)(T, T, T, T);
    T (*unary_by)(T, const T *);
    T (*binary_by)(T, T, const T *);
    int32_t (*test)(T); /* results that are bool */
    int32_t (*compare)(T, T);
} formula;

ALWAYS_INLINE T apply(formula f, T a, T b, T c, const T *by)
{
    if (f.unary) return f.unary(a);
    if (f.binary) return f.binary(a, b);
    if (f.ternary) return f.ternary(a, b, c);
    if (f.unary_with) return f.unary_with(a, by[0], by[1]);
    if (f.binary_with) return f.binary_with(a, b, by[0], by[1]);
    if (f.ternary_with) return f.ternary_with(a, b, c, by[0]);
    return f.unary_by ? f.unary_by(a, by) : f.binary_by(a, b, by);
}

/* One block of a half type. */
ALWAYS_INLINE void map_block(void *out, const E *const *in, int32_t operands, formula f, const T *by)
{
    T u[BLOCK], v[BLOCK], w[BLOCK];
    uint8_t *truth = out;
    if (f.test || f.compare) {
        widen(u, in[0]);
        if (operands > 1) widen(v, in[1]);
        for (int j = 0; j < BLOCK; j++) truth[j] = (uint8_t)(f.test ? f.test(u[j]) : f.compare(u[j], v[j]));
        return;
    }
    widen_apart(u, in[0]);
    if (operands > 1) widen_apart(v, in[1]);
    if (operands > 2) widen_apart(w, in[2]);
    for (int j = 0; j < BLOCK; j++)
        u[j] = apply(f, u[j], operands > 1 ? v[j] : 0, operands > 2 ? w[j] : 0, by);
    narrow_together(out, u);
}
/* The end of a run, in a block of its own. */
static __attribute__((noinline, unused)) const E *last_block(E *room, const E *a, int64_t n)
{
    memset(room, 0, BLOCK * sizeof(E));
    return memcpy(room, a, (size_t)n * sizeof(E));
}
ALWAYS_INLINE void map_blocks(void *const *p, int64_t n, int32_t operands, formula f, const T *by)
{
    const int64_t bytes = f.test || f.compare ? 1 : (int64_t)sizeof(E);
    E room[3][BLOCK], last[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t rest = n - i;
        char *out = (char *)p[0] + i * bytes;
        const E *in[3];
        for (int k = 0; k < operands; k++) {
            in[k] = (const E *)p[k + 1] + i;
            if (rest < BLOCK) in[k] = last_block(room[k], in[k], rest);
        }
        map_block(rest < BLOCK ? (char *)last : out, in, operands, f, by);
        if (rest < BLOCK) memcpy(out, last, (size_t)(rest * bytes));
    }
}

ALWAYS_INLINE void map(void *const *p, int64_t n, int32_t operands, formula f, const T *by)
{
    E *o = p[0];
    uint8_t *truth = p[0];
    const E *a = p[1], *b = operands > 1 ? p[2] : NULL, *c = operands > 2 ? p[3] : NULL;
    if (CPU_IS_HALF) {
        map_blocks(p, n, operands, f, by);
        return;
    }
    if (f.test || f.compare) {
        CPU_INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            truth[i] = (uint8_t)(f.test ? f.test(load(a + i)) : f.compare(load(a + i), load(b + i)));
        return;
    }
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        store(o + i,
              apply(f, load(a + i), operands > 1 ? load(b + i) : 0, operands > 2 ? load(c + i) : 0, by));
}

ALWAYS_INLINE void unary(void *const *p, int64_t n, T (*f)(T))
{
    map(p, n, 1, (formula){.unary = f}, NULL);
}
ALWAYS_INLINE void binary(void *const *p, int64_t n, T (*f)(T, T))
{
    map(p, n, 2, (formula){.binary = f}, NULL);
}
ALWAYS_INLINE void ternary(void *const *p, int64_t n, T (*f)(T, T, T))
{
    map(p, n, 3, (formula){.ternary = f}, NULL);
}
ALWAYS_INLINE void unary_with(void *const *p, int64_t n, T x, T y, T (*f)(T, T, T))
{
    map(p, n, 1, (formula){.unary_with = f}, (const T[]){x, y});
}
ALWAYS_INLINE void binary_with(void *const *p, int64_t n, T x, T y, T (*f)(T, T, T, T))
{
    map(p, n, 2, (formula){.binary_with = f}, (const T[]){x, y});
}
ALWAYS_INLINE void ternary_with(void *const *p, int64_t n, T x, T (*f)(T, T, T, T))
{
    map(p, n, 3, (formula){.ternary_with = f}, &x);
}
ALWAYS_INLINE void unary_by(void *const *p, int64_t n, const T *by, T (*f)(T, const T *))
{
    map(p, n, 1, (formula){.unary_by = f}, by);
}
ALWAYS_INLINE void binary_by(void *const *p, int64_t n, const T *by, T (*f)(T, T, const T *))
{
    map(p, n, 2, (formula){.binary_by = f}, by);
}
ALWAYS_INLINE void test(void *const *p, int64_t n, int32_t (*f)(T))
{
    map(p, n, 1, (formula){.test = f}, NULL);
}
ALWAYS_INLINE void compare(void *const *p, int64_t n, int32_t (*f)(T, T))
{
    map(p, n, 2, (formula){.compare = f}, NULL);
}

#endif
