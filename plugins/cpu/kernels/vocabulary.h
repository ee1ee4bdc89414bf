/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that kernels are written in. The build compiles a kernel file once for each level
 * (LEVEL=base|avx2|avx512) and, where its list says so, for each dtype (DTYPE=f32|...).
 *
 *   E               an element in memory
 *   T               the type that elements are computed in: E, but float for half types
 *   R               the type of T's parts where T is complex, else T
 *   acc             the type that sums are kept in: double or int64_t in reduce.c, the one of nn/words.h in nn/
 *   W               a type wider than T, for single steps that would round too often: that of products.h, or of polynomial.c
 *   load, store     T from an E in memory, an E in memory from T
 *   CPU_NAME(add)   add_f32_avx2: the name of this file's function or table for its dtype and level
 *   CPU_SLOT        the slot of the dtype (dtypes.h)
 *   CPU_IS_HALF, CPU_IS_FLOAT, CPU_IS_INTEGER, CPU_IS_COMPLEX
 *                   0 or 1; half types are floats too, and bool is an integer
 *   LOWEST, HIGHEST the value that no other one is below, above
 *
 * Half types are 16-bit patterns. Conversions of single elements are inline functions of this file; runs of
 * elements are converted by blocks (support/blocks.h) or by cpu_convert (walk/staging.h).
 */
#ifndef TENON_CPU_VOCABULARY_H
#define TENON_CPU_VOCABULARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "dtypes.h"

#define CPU_JOIN2(a, b)      a##_##b
#define CPU_JOIN3(a, b, c)   a##_##b##_##c
#define CPU_EXPAND2(a, b)    CPU_JOIN2(a, b)
#define CPU_EXPAND3(a, b, c) CPU_JOIN3(a, b, c)
#ifdef DTYPE
#define CPU_NAME(op) CPU_EXPAND3(op, DTYPE, LEVEL)
#define CPU_SLOT     CPU_EXPAND2(CPU_SLOT, DTYPE)
#else
#define CPU_NAME(op) CPU_EXPAND2(op, LEVEL)
#endif
/* Defines the table of kernels for this dtype and level, slot by slot; its type and its name are the same. */
#define CPU_KERNELS(type, ...)        \
    extern const type CPU_NAME(type); \
    const type CPU_NAME(type) = {__VA_ARGS__}

#define ALWAYS_INLINE static inline __attribute__((always_inline, unused))

#if defined(__clang__)
#define CPU_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CPU_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* 16-bit patterns of IEEE half precision and of bfloat16; structs, so that nobody does arithmetic on them. */
typedef struct half_t {
    uint16_t bits;
} half_t;
typedef struct bfloat_t {
    uint16_t bits;
} bfloat_t;

ALWAYS_INLINE float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
ALWAYS_INLINE uint32_t bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

ALWAYS_INLINE float float_of_bfloat(bfloat_t b)
{
    return float_of_bits((uint32_t)b.bits << 16);
}
/*
 * The bfloat16 is the upper half of the result: rounded to nearest, ties to even. Every NaN becomes 0x7fc0.
 */
ALWAYS_INLINE uint32_t bits_for_bfloat(float f)
{
    uint32_t bits = bits_of_float(f), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return f != f ? 0x7fc00000u : rounded;
}
ALWAYS_INLINE bfloat_t bfloat_of_float(float f)
{
    return (bfloat_t){(uint16_t)(bits_for_bfloat(f) >> 16)};
}

#if defined(__F16C__)
ALWAYS_INLINE float float_of_half(half_t h)
{
    return _cvtsh_ss(h.bits);
}
ALWAYS_INLINE half_t half_of_float(float f)
{
    return (half_t){(uint16_t)_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT)};
}
#else
/* Shifts exponent and mantissa into place and lets a multiplication renormalise, denormals included. */
ALWAYS_INLINE float float_of_half(half_t h)
{
    uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16, rest = (uint32_t)(h.bits & 0x7fffu) << 13;
    float magnitude = float_of_bits(rest) * 0x1p112f;
    uint32_t bits = rest >= 0x0f800000u ? rest | 0x7f800000u : bits_of_float(magnitude);
    return float_of_bits(bits | sign);
}
/*
 * Rounds to nearest, ties to even. Values below 2^-14 are rounded to a multiple of 2^-24 by adding 0.5,
 * because the sum's last place is 2^-24.
 */
ALWAYS_INLINE half_t half_of_float(float f)
{
    uint32_t bits = bits_of_float(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t small = bits_of_float(float_of_bits(rest) + 0.5f) - 0x3f000000u;
    uint32_t normal = (rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u) >> 13;
    uint32_t large = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t out = rest < 0x38800000u ? small : rest >= 0x477ff000u ? large : normal;
    return (half_t){(uint16_t)(out | sign)};
}
#endif

/* Complex numbers as they lie in memory. */
typedef struct complex32_t {
    half_t re, im;
} complex32_t;
typedef struct complex64_t {
    float re, im;
} complex64_t;
typedef struct complex128_t {
    double re, im;
} complex128_t;

/* ---- The types of DTYPE -------------------------------------------------------------------------------- */

#if defined(DTYPE_F32)
typedef float T;
#define CPU_IS_FLOAT 1
#elif defined(DTYPE_F64)
typedef double T;
#define CPU_IS_FLOAT 1
#elif defined(DTYPE_F16)
typedef half_t E;
typedef float T;
#define CPU_IS_FLOAT 1
#define CPU_IS_HALF  1
#elif defined(DTYPE_BF16)
typedef bfloat_t E;
typedef float T;
#define CPU_IS_FLOAT 1
#define CPU_IS_HALF  1
#elif defined(DTYPE_B8) || defined(DTYPE_U8)
typedef uint8_t T;
#define LOWEST  0
#define HIGHEST UINT8_MAX
#elif defined(DTYPE_I8)
typedef int8_t T;
#define LOWEST  INT8_MIN
#define HIGHEST INT8_MAX
#elif defined(DTYPE_I16)
typedef int16_t T;
#define LOWEST  INT16_MIN
#define HIGHEST INT16_MAX
#elif defined(DTYPE_I32)
typedef int32_t T;
#define LOWEST  INT32_MIN
#define HIGHEST INT32_MAX
#elif defined(DTYPE_I64)
typedef int64_t T;
#define LOWEST  INT64_MIN
#define HIGHEST INT64_MAX
#elif defined(DTYPE_C64)
typedef complex64_t T;
typedef float R;
#define CPU_IS_COMPLEX 1
#elif defined(DTYPE_C128)
typedef complex128_t T;
typedef double R;
#define CPU_IS_COMPLEX 1
#endif

#ifndef CPU_IS_HALF
#define CPU_IS_HALF 0
#endif
#ifndef CPU_IS_FLOAT
#define CPU_IS_FLOAT 0
#endif
#ifndef CPU_IS_COMPLEX
#define CPU_IS_COMPLEX 0
#endif
#if defined(DTYPE) && !CPU_IS_FLOAT && !CPU_IS_COMPLEX
#define CPU_IS_INTEGER 1
#else
#define CPU_IS_INTEGER 0
#endif

#if defined(DTYPE) && !CPU_IS_HALF
typedef T E;
#endif
#if defined(DTYPE) && !CPU_IS_COMPLEX
typedef T R;
#endif
#if CPU_IS_FLOAT
#define LOWEST  (-INFINITY)
#define HIGHEST INFINITY
#endif

/* The C library's function for T: FN(sqrt) is sqrt or sqrtf. */
#if defined(DTYPE_F64) || defined(DTYPE_C128)
#define FN(name) name
#else
#define FN(name) name##f
#endif

#if defined(DTYPE_F16)
ALWAYS_INLINE T load(const E *p)
{
    return float_of_half(*p);
}
ALWAYS_INLINE void store(E *p, T x)
{
    *p = half_of_float(x);
}
#elif defined(DTYPE_BF16)
ALWAYS_INLINE T load(const E *p)
{
    return float_of_bfloat(*p);
}
ALWAYS_INLINE void store(E *p, T x)
{
    *p = bfloat_of_float(x);
}
#elif defined(DTYPE)
ALWAYS_INLINE T load(const E *p)
{
    return *p;
}
ALWAYS_INLINE void store(E *p, T x)
{
    *p = x;
}
#endif

/* T from its parts and the parts of T: a real T has only the first. */
#if CPU_IS_COMPLEX
ALWAYS_INLINE T from_parts(R re, R im)
{
    return (T){re, im};
}
ALWAYS_INLINE R re_of(T x)
{
    return x.re;
}
ALWAYS_INLINE R im_of(T x)
{
    return x.im;
}
/* Conditions of elements are int32_t: with bool, gcc makes no vectors of some loops over complex numbers. */
ALWAYS_INLINE int32_t is_nonzero(T x)
{
    return (x.re != 0) | (x.im != 0);
}
ALWAYS_INLINE int32_t is_nan(T x)
{
    return (x.re != x.re) | (x.im != x.im);
}
#elif defined(DTYPE)
ALWAYS_INLINE T from_parts(R re, R im)
{
    return re;
}
ALWAYS_INLINE R re_of(T x)
{
    return x;
}
ALWAYS_INLINE R im_of(T x)
{
    return 0;
}
ALWAYS_INLINE int32_t is_nonzero(T x)
{
    return x != 0;
}
ALWAYS_INLINE int32_t is_nan(T x)
{
#if CPU_IS_FLOAT
    return x != x;
#else
    return 0;
#endif
}
#endif

#endif
