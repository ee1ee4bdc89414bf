/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that kernels of nn/ use besides those of kernels/vocabulary.h:
 *
 *   W           the type of products and sums: T, but int32_t for narrower integers and C's complex types for
 *               complex dtypes, because they have operators; integers wrap, as in ATen
 *   load_wide   W from an E in memory
 *   store_wide  an E in memory from W; bool: whether it is not zero
 *   from_scalar W from the real and imaginary part of a scalar
 *   exponential e^x for float dtypes; exponential_below for x <= 0
 */
#ifndef TENON_CPU_NN_WORDS_H
#define TENON_CPU_NN_WORDS_H

#include "kernels/vocabulary.h"
#include "support/exponential.h"

#if defined(DTYPE_C64)
typedef float _Complex W;
#elif defined(DTYPE_C128)
typedef double _Complex W;
#elif defined(DTYPE_I8) || defined(DTYPE_I16) || defined(DTYPE_U8) || defined(DTYPE_B8)
typedef int32_t W;
#else
typedef T W;
#endif

#if CPU_IS_COMPLEX
ALWAYS_INLINE W load_wide(const E *p)
{
    typedef W __attribute__((may_alias)) stored;
    const stored *x = (const void *)p;
    return *x;
}
ALWAYS_INLINE void store_wide(E *p, W x)
{
    *(W __attribute__((may_alias)) *)(void *)p = x;
}
#else
ALWAYS_INLINE W load_wide(const E *p)
{
    return (W)load(p);
}
ALWAYS_INLINE void store_wide(E *p, W x)
{
#if defined(DTYPE_B8)
    *p = x != 0;
#else
    store(p, (T)x);
#endif
}
#endif

ALWAYS_INLINE W from_scalar(const double x[2])
{
#if CPU_IS_COMPLEX
    const R parts[2] = {(R)x[0], (R)x[1]};
    W z;
    memcpy(&z, parts, sizeof z);
    return z;
#elif CPU_IS_INTEGER
    return (W)(int64_t)x[0];
#else
    return (W)x[0];
#endif
}

#if CPU_IS_FLOAT
#if defined(DTYPE_F64)
#define WORDS_EXP(name) cpu_##name##_f64
#else
#define WORDS_EXP(name) cpu_##name##_f32
#endif
ALWAYS_INLINE T exponential(T x)
{
    return WORDS_EXP(exp)(x);
}
ALWAYS_INLINE T exponential_below(T x)
{
    return WORDS_EXP(exp_below)(x);
}
#endif

#endif
