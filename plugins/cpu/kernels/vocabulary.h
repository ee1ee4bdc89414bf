/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for kernels: one source is compiled once per level (LEVEL=base|avx2|avx512) and, where it says so,
 * per dtype (DTYPE=f32|...). It gives E, the type of an element in memory, T, the type that it is computed in
 * (another for half types only), acc, the type that sums are kept in, and CPU_NAME(add), which is
 * add_f32_avx2. The half types are 16-bit patterns; converting one element is an inline function, converting
 * a run of them is cpu_convert's work (convert.h).
 */
#ifndef TENON_CPU_VOCABULARY_H
#define TENON_CPU_VOCABULARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#define CPU_JOIN2(a, b)      a##_##b
#define CPU_JOIN3(a, b, c)   a##_##b##_##c
#define CPU_EXPAND2(a, b)    CPU_JOIN2(a, b)
#define CPU_EXPAND3(a, b, c) CPU_JOIN3(a, b, c)
/* The name of a kernel that is compiled per level, or per dtype and level. */
#ifdef DTYPE
#define CPU_NAME(op) CPU_EXPAND3(op, DTYPE, LEVEL)
#else
#define CPU_NAME(op) CPU_EXPAND2(op, LEVEL)
#endif

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
/* The upper half of the result is the bfloat16: to nearest, ties to even; NaN becomes the quiet one. */
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
 * To nearest, ties to even. A number below 2^-14 is rounded to a multiple of 2^-24 by an addition whose sum
 * has that as its last place.
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

/* T, the sum type, E where it is another than T, and loads and stores. */
#if defined(DTYPE_F16) || defined(DTYPE_BF16)
#define CPU_IS_HALF 1
#else
#define CPU_IS_HALF 0
#endif
#if defined(DTYPE_F32)
typedef float T;
typedef float acc;
#elif defined(DTYPE_F64)
typedef double T;
typedef double acc;
#elif defined(DTYPE_F16)
typedef half_t E;
typedef float T;
typedef float acc;
#elif defined(DTYPE_BF16)
typedef bfloat_t E;
typedef float T;
typedef float acc;
#elif defined(DTYPE_I8)
typedef int8_t T;
typedef int64_t acc;
#elif defined(DTYPE_U8)
typedef uint8_t T;
typedef int64_t acc;
#elif defined(DTYPE_I16)
typedef int16_t T;
typedef int64_t acc;
#elif defined(DTYPE_I32)
typedef int32_t T;
typedef int64_t acc;
#elif defined(DTYPE_I64)
typedef int64_t T;
typedef int64_t acc;
#elif defined(DTYPE_C64)
typedef complex64_t T;
typedef complex64_t acc;
#elif defined(DTYPE_C128)
typedef complex128_t T;
typedef complex128_t acc;
#endif

#if defined(DTYPE) && !CPU_IS_HALF
typedef T E;
#endif

/* The functions of the C library for T. */
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

#endif
