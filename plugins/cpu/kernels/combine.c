/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds, multiplies or compares elements into scattered targets
 * (DTYPE=f32|f64|f16|bf16|i8|u8|i16|i32|i64|c64|c128). Half types are rounded at each step, as in ATen.
 */
#include "support/blocks.h"
#include "combine.h"
#include "vocabulary.h"

#include <stddef.h>

#if CPU_IS_COMPLEX
#define PAIR T
#define PART R
#include "complex_arithmetic.h"

ALWAYS_INLINE T plus_scaled(T a, T b, T alpha)
{
    /* A real factor scales each part alone, so that a NaN in one does not reach the other. */
    return plus(a, alpha.im == 0 ? scaled(b, alpha.re) : times(b, alpha));
}
#else
ALWAYS_INLINE T times(T a, T b)
{
    return (T)(a * b);
}
ALWAYS_INLINE T plus_scaled(T a, T b, T alpha)
{
    return (T)(a + alpha * b);
}
/* b is taken if it is NaN. */
ALWAYS_INLINE T larger(T a, T b, T unused)
{
    return b > a || is_nan(b) ? b : a;
}
ALWAYS_INLINE T smaller(T a, T b, T unused)
{
    return b < a || is_nan(b) ? b : a;
}
#endif
ALWAYS_INLINE T alpha_of(double re, double im, int64_t whole)
{
    return CPU_IS_INTEGER ? from_parts((R)whole, 0) : from_parts((R)re, (R)im);
}
ALWAYS_INLINE T product(T a, T b, T unused)
{
    return times(a, b);
}

/* One by one, since several offsets may be equal. */
ALWAYS_INLINE void combine_scattered(const cpu_row *row, int64_t step, T alpha, T (*f)(T, T, T))
{
    const int64_t *offsets = row->offsets;
    const char *other = row->other;
    char *base = row->base;
    int64_t i = 0, n = row->n, scale = row->scale;
#if defined(DTYPE_F16) && defined(__F16C__)
    for (; step == 2 && i + CPU_BLOCK <= n; i += CPU_BLOCK) {
        T b[CPU_BLOCK];
        cpu_widen(b, other + i * 2, CPU_BLOCK);
        if (f == plus_scaled) /* the products by vectors */
            for (int j = 0; j < CPU_BLOCK; j++) b[j] *= alpha;
        if (scale == 2) { /* without a product for each */
            E *all = (E *)(void *)base;
#pragma GCC unroll 8
            for (int j = 0; j < CPU_BLOCK; j++) {
                E *o = all + offsets[i + j];
                store(o, f == plus_scaled ? load(o) + b[j] : f(load(o), b[j], alpha));
            }
            continue;
        }
        for (int j = 0; j < CPU_BLOCK; j++) {
            E *o = (E *)(void *)(base + offsets[i + j] * scale);
            store(o, f == plus_scaled ? load(o) + b[j] : f(load(o), b[j], alpha));
        }
    }
#endif
    if (scale == (int64_t)sizeof(E) && step == (int64_t)sizeof(E)) { /* two instructions less for each */
        E *o = (E *)(void *)base;
        const E *b = (const E *)(const void *)other;
#pragma GCC unroll 4
        for (; i < n; i++) store(o + offsets[i], f(load(o + offsets[i]), load(b + i), alpha));
        return;
    }
    for (; i < n; i++) {
        E *o = (E *)(void *)(base + offsets[i] * scale);
        store(o, f(load(o), load((const E *)(const void *)(other + i * step)), alpha));
    }
}

ALWAYS_INLINE void combine_contiguous(E *o, const E *b, int64_t n, T alpha, T (*f)(T, T, T))
{
    int64_t i = 0;
#if defined(DTYPE_F16) && defined(__F16C__)
    for (; i + CPU_BLOCK <= n; i += CPU_BLOCK) {
        T x[CPU_BLOCK], y[CPU_BLOCK];
        cpu_widen(x, o + i, CPU_BLOCK);
        cpu_widen(y, b + i, CPU_BLOCK);
        for (int j = 0; j < CPU_BLOCK; j++) x[j] = f(x[j], y[j], alpha);
        cpu_narrow(o + i, x, CPU_BLOCK);
    }
#endif
    CPU_INDEPENDENT
    for (int64_t k = i; k < n; k++) store(o + k, f(load(o + k), load(b + k), alpha));
}

ALWAYS_INLINE void combine(const cpu_row *row, T alpha, T (*f)(T, T, T))
{
    const int64_t *offsets = row->offsets;
    if (!offsets && row->stride == (int64_t)sizeof(E) && row->other_stride == (int64_t)sizeof(E)) {
        combine_contiguous((E *)(void *)row->base, (const E *)(const void *)row->other, row->n, alpha, f);
        return;
    }
    if (offsets && row->stride == 0) {
        if (row->other_stride == (int64_t)sizeof(E))
            combine_scattered(row, sizeof(E), alpha, f);
        else
            combine_scattered(row, row->other_stride, alpha, f);
        return;
    }
    for (int64_t i = 0; i < row->n; i++) {
        E *o = (E *)(void *)(row->base + (offsets ? offsets[i] * row->scale : 0) + i * row->stride);
        store(o, f(load(o), load((const E *)(const void *)(row->other + i * row->other_stride)), alpha));
    }
}

static void add(const cpu_row *row, double re, double im, int64_t whole)
{
    combine(row, alpha_of(re, im, whole), plus_scaled);
}
static void multiply(const cpu_row *row, double re, double im, int64_t whole)
{
    combine(row, alpha_of(re, im, whole), product);
}
#if !CPU_IS_COMPLEX
static void take_larger(const cpu_row *row, double re, double im, int64_t whole)
{
    combine(row, 0, larger);
}
static void take_smaller(const cpu_row *row, double re, double im, int64_t whole)
{
    combine(row, 0, smaller);
}
#endif

extern const cpu_combine_fn CPU_NAME(cpu_combine)[CPU_COMBINE_COUNT];
const cpu_combine_fn CPU_NAME(cpu_combine)[CPU_COMBINE_COUNT] = {
    [CPU_COMBINE_ADD] = add,
    [CPU_COMBINE_MULTIPLY] = multiply,
#if !CPU_IS_COMPLEX
    [CPU_COMBINE_MAX] = take_larger,
    [CPU_COMBINE_MIN] = take_smaller,
#endif
};
