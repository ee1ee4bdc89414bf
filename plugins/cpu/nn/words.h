/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that kernels of nn/ use besides those of kernels/vocabulary.h. Reductions sum whole tensors and have a wider acc
 * (kernels/reduce.c); here it is what a tile or a window is summed in at the full speed of T.
 *
 *   acc         the type of products and sums: T, but int32_t for narrower integers and C's complex types for
 *               complex dtypes, because they have operators; integers wrap, as in ATen
 *   load_acc    acc from an E in memory
 *   store_acc   an E in memory from acc; bool: whether it is not zero
 *   from_scalar acc from the real and imaginary part of a scalar
 *   exponential e^x for float dtypes; exponential_below for x <= 0
 */
#ifndef TENON_CPU_NN_WORDS_H
#define TENON_CPU_NN_WORDS_H

#include "kernels/vocabulary.h"
#include "support/exponential.h"

#if defined(DTYPE_C64)
typedef float _Complex acc;
#elif defined(DTYPE_C128)
typedef double _Complex acc;
#elif defined(DTYPE_I8) || defined(DTYPE_I16) || defined(DTYPE_U8) || defined(DTYPE_B8)
typedef int32_t acc;
#else
typedef T acc;
#endif

#if CPU_IS_COMPLEX
ALWAYS_INLINE acc load_acc(const E *p)
{
    typedef acc __attribute__((may_alias)) stored;
    const stored *x = (const void *)p;
    return *x;
}
ALWAYS_INLINE void store_acc(E *p, acc x)
{
    *(acc __attribute__((may_alias)) *)(void *)p = x;
}
#else
ALWAYS_INLINE acc load_acc(const E *p)
{
    return (acc)load(p);
}
ALWAYS_INLINE void store_acc(E *p, acc x)
{
#if defined(DTYPE_B8)
    *p = x != 0;
#else
    store(p, (T)x);
#endif
}
#endif

ALWAYS_INLINE acc from_scalar(const double x[2])
{
#if CPU_IS_COMPLEX
    const R parts[2] = {(R)x[0], (R)x[1]};
    acc z;
    memcpy(&z, parts, sizeof z);
    return z;
#elif CPU_IS_INTEGER
    return (acc)(int64_t)x[0];
#else
    return (acc)x[0];
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
