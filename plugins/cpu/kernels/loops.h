/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a pointwise operator is written: one line with the formula of an element, and its name in the file's
 * list of kernels.
 *
 *   UNARY(neg, -a)                  a, b and c are the elements of the operands in the order of the schema
 *   BINARY(mul, a * b)
 *   TERNARY(lerp_tensor, ...)
 *   UNARY_WITH(scale, a * x)        x, y and z are the scalar arguments of the call
 *   BINARY_WITH(sub, a - x * b)
 *   TERNARY_WITH(addcmul, ...)
 *   TEST(isnan, a != a)             the result is bool
 *   COMPARE(eq, a == b)
 *
 *   POINTWISE_KERNELS(arithmetic) = {ENTRY(neg), ENTRY(mul), ..., END_OF_KERNELS};
 *
 * UNARY(neg, -a) declares the inline function neg_elem(a) and the kernel neg_kernel, its loop over runs of
 * contiguous elements. A formula longer than a line is an inline function that the macro's formula calls.
 * Kernels that choose between formulas or derive their scalars are written out: KERNEL(clamp) { ... }.
 *
 * An output may share its memory with an input of the same element size. Elements are E in memory and T in
 * the formula. Half types are taken in blocks of a constant length, which stay in registers between
 * conversions.
 */
#ifndef TENON_CPU_LOOPS_H
#define TENON_CPU_LOOPS_H

#include "support/blocks.h"
#include "pointwise_ops.h"
#include "vocabulary.h"

/*
 * Blocks for bfloat16 as well: they keep the compiler from merging the formula's conditions with the
 * rounding's.
 */
enum { BLOCK = CPU_IS_HALF ? CPU_BLOCK : 1 };

/* One block of n elements, a number that the compiler knows; those of nn/runs.h are from and to its `acc`. */
ALWAYS_INLINE void widen(T *to, const E *from, int n)
{
#if defined(DTYPE_F16) && defined(__F16C__)
    cpu_widen(to, from, n);
#else
    for (int j = 0; j < n; j++) to[j] = load(from + j);
#endif
}
ALWAYS_INLINE void narrow(E *to, const T *from, int n)
{
#if defined(DTYPE_F16) && defined(__F16C__)
    cpu_narrow(to, from, n);
#else
    for (int j = 0; j < n; j++) store(to + j, from[j]);
#endif
}

/*
 * The same where the order of elements within a block does not matter, as long as all operands share it. A
 * pair of bfloat16 is split within its 32-bit word: first all lower halves, then all upper ones, so that no
 * element changes its vector lane.
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
    widen(to, from, BLOCK);
}
ALWAYS_INLINE void narrow_together(E *to, const T *from)
{
    narrow(to, from, BLOCK);
}
#endif

/*
 * The formula of one element; one of the functions is set. Those of the second group take three scalars too.
 */
typedef struct formula {
    T (*unary)(T);
    T (*binary)(T, T);
    T (*ternary)(T, T, T);
    T (*unary_with)(T, T, T, T);
    T (*binary_with)(T, T, T, T, T);
    T (*ternary_with)(T, T, T, T, T, T);
    int32_t (*test)(T); /* the result is bool */
    int32_t (*compare)(T, T);
    T x, y, z;
} formula;

ALWAYS_INLINE T apply(formula f, T a, T b, T c)
{
    if (f.unary) return f.unary(a);
    if (f.binary) return f.binary(a, b);
    if (f.ternary) return f.ternary(a, b, c);
    if (f.unary_with) return f.unary_with(a, f.x, f.y, f.z);
    if (f.binary_with) return f.binary_with(a, b, f.x, f.y, f.z);
    return f.ternary_with(a, b, c, f.x, f.y, f.z);
}

/* One block of a half type. */
ALWAYS_INLINE void map_block(void *out, const E *const *in, int32_t operands, formula f)
{
    T u[BLOCK], v[BLOCK], w[BLOCK];
    uint8_t *truth = out;
    if (f.test || f.compare) {
        widen(u, in[0], BLOCK);
        if (operands > 1) widen(v, in[1], BLOCK);
        for (int j = 0; j < BLOCK; j++) truth[j] = (uint8_t)(f.test ? f.test(u[j]) : f.compare(u[j], v[j]));
        return;
    }
    widen_apart(u, in[0]);
    if (operands > 1) widen_apart(v, in[1]);
    if (operands > 2) widen_apart(w, in[2]);
    for (int j = 0; j < BLOCK; j++)
        u[j] = apply(f, u[j], operands > 1 ? v[j] : (T){0}, operands > 2 ? w[j] : (T){0});
    narrow_together(out, u);
}
/* The last n elements of a run, copied into a block of their own. */
static __attribute__((noinline, unused)) const E *last_block(E *room, const E *a, int64_t n)
{
    memset(room, 0, BLOCK * sizeof(E));
    return memcpy(room, a, (size_t)n * sizeof(E));
}
ALWAYS_INLINE void map_blocks(void *const *p, int64_t n, int32_t operands, formula f)
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
        map_block(rest < BLOCK ? (char *)last : out, in, operands, f);
        if (rest < BLOCK) memcpy(out, last, (size_t)(rest * bytes));
    }
}

ALWAYS_INLINE void map(void *const *p, int64_t n, int32_t operands, formula f)
{
    E *o = p[0];
    uint8_t *truth = p[0];
    const E *a = p[1], *b = operands > 1 ? p[2] : NULL, *c = operands > 2 ? p[3] : NULL;
    if (CPU_IS_HALF) {
        map_blocks(p, n, operands, f);
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
        store(o + i, apply(f, load(a + i), operands > 1 ? load(b + i) : (T){0},
                           operands > 2 ? load(c + i) : (T){0}));
}

ALWAYS_INLINE void unary(void *const *p, int64_t n, T (*f)(T))
{
    map(p, n, 1, (formula){.unary = f});
}
ALWAYS_INLINE void binary(void *const *p, int64_t n, T (*f)(T, T))
{
    map(p, n, 2, (formula){.binary = f});
}
ALWAYS_INLINE void ternary(void *const *p, int64_t n, T (*f)(T, T, T))
{
    map(p, n, 3, (formula){.ternary = f});
}
ALWAYS_INLINE void unary_with(void *const *p, int64_t n, T x, T y, T z, T (*f)(T, T, T, T))
{
    map(p, n, 1, (formula){.unary_with = f, .x = x, .y = y, .z = z});
}
ALWAYS_INLINE void binary_with(void *const *p, int64_t n, T x, T y, T z, T (*f)(T, T, T, T, T))
{
    map(p, n, 2, (formula){.binary_with = f, .x = x, .y = y, .z = z});
}
ALWAYS_INLINE void ternary_with(void *const *p, int64_t n, T x, T y, T z, T (*f)(T, T, T, T, T, T))
{
    map(p, n, 3, (formula){.ternary_with = f, .x = x, .y = y, .z = z});
}
ALWAYS_INLINE void test(void *const *p, int64_t n, int32_t (*f)(T))
{
    map(p, n, 1, (formula){.test = f});
}
ALWAYS_INLINE void compare(void *const *p, int64_t n, int32_t (*f)(T, T))
{
    map(p, n, 2, (formula){.compare = f});
}
/* out = condition ? a : b, without conversion: both are read where vectors choose. */
ALWAYS_INLINE void choose(void *const *p, int64_t n)
{
    E *o = p[0];
    const uint8_t *condition = p[1];
    const E *a = p[2], *b = p[3];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
#if CPU_IS_COMPLEX
        o[i] = condition[i] ? a[i] : b[i];
#else
        E x = a[i], y = b[i];
        o[i] = condition[i] ? x : y;
#endif
    }
}

/* Scalar argument i of the call. */
ALWAYS_INLINE T scalar(const cpu_scalars *s, int i)
{
#if CPU_IS_INTEGER
    return (T)s->i[i];
#else
    return from_parts((R)s->f[i], (R)s->imaginary[i]);
#endif
}

/* ---- What kernel files are written with ---------------------------------------------------------------- */

#define KERNEL(name) \
    static __attribute__((unused)) void name##_kernel(void *const *p, int64_t n, const cpu_scalars *s)

/* The function of one element, and a kernel that is one call of a loop. */
#define ELEM(result, elem, parameters, formula) \
    ALWAYS_INLINE result elem parameters        \
    {                                           \
        return formula;                         \
    }
#define LOOP(name, call) \
    KERNEL(name)         \
    {                    \
        call;            \
    }
/* The call's scalars; a formula uses those that its operator has. */
#define SCALARS scalar(s, 0), scalar(s, 1), scalar(s, 2)

#define UNARY(name, formula)             \
    ELEM(T, name##_elem, (T a), formula) \
    LOOP(name, unary(p, n, name##_elem))
#define BINARY(name, formula)                 \
    ELEM(T, name##_elem, (T a, T b), formula) \
    LOOP(name, binary(p, n, name##_elem))
#define TERNARY(name, formula)                     \
    ELEM(T, name##_elem, (T a, T b, T c), formula) \
    LOOP(name, ternary(p, n, name##_elem))
#define UNARY_WITH(name, formula)                       \
    ELEM(T, name##_elem, (T a, T x, T y, T z), formula) \
    LOOP(name, unary_with(p, n, SCALARS, name##_elem))
#define BINARY_WITH(name, formula)                           \
    ELEM(T, name##_elem, (T a, T b, T x, T y, T z), formula) \
    LOOP(name, binary_with(p, n, SCALARS, name##_elem))
#define TERNARY_WITH(name, formula)                               \
    ELEM(T, name##_elem, (T a, T b, T c, T x, T y, T z), formula) \
    LOOP(name, ternary_with(p, n, SCALARS, name##_elem))
#define TEST(name, formula)                    \
    ELEM(int32_t, name##_elem, (T a), formula) \
    LOOP(name, test(p, n, name##_elem))
#define COMPARE(name, formula)                      \
    ELEM(int32_t, name##_elem, (T a, T b), formula) \
    LOOP(name, compare(p, n, name##_elem))

/* What the shared formulas ask for; see arithmetic_formulas.h. */
#define FORMULAS_BITS CPU_IS_HALF
#if defined(DTYPE_B8)
#define FORMULAS_SMALL 1
#elif defined(DTYPE_U8)
#define FORMULAS_SMALL 2
#else
#define FORMULAS_SMALL 0
#endif

/* A file's list of kernels. ENTRY_BY(sgn, sign): operator sgn is computed by sign_kernel. */
#define POINTWISE_KERNELS(file)                              \
    extern const cpu_pointwise_entry CPU_NAME(cpu_##file)[]; \
    const cpu_pointwise_entry CPU_NAME(cpu_##file)[]
#define ENTRY_BY(op, name)                   \
    {                                        \
        CPU_OP_##op, CPU_SLOT, name##_kernel \
    }
#define ENTRY(name) ENTRY_BY(name, name)
#define END_OF_KERNELS \
    {                  \
        0, 0, NULL     \
    }

#endif
