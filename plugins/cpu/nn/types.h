/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary of the files of this room that are compiled once for each dtype and each level of
 * instructions: DTYPE (f32, f64, f16, bf16, c64, c128, i64, i32, i16, i8, u8, b8) and LEVEL come from the
 * build.
 *
 *   T         an element in memory
 *   acc       what arithmetic is done in: float for half types, unsigned words that wrap for integers
 *   load      acc from T
 *   store     T from acc, rounded once
 *   K(name)   the name of a function of this dtype and level
 *   DTYPE_ID  the tn_dtype
 *   IS_FLOATING, IS_COMPLEX, IS_INTEGER  0 or 1
 *   LOWEST    the value that any other one is above
 */
#ifndef TENON_CPU_NN_TYPES_H
#define TENON_CPU_NN_TYPES_H

#include "support/cpu.h"
#include <complex.h>
#include <math.h>
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#define CPU_PASTE(a, b, c)  a##_##b##_##c
#define CPU_EXPAND(a, b, c) CPU_PASTE(a, b, c)
#define K(name)             CPU_EXPAND(name, DTYPE, LEVEL)

#define CPU_KEY_f32        1
#define CPU_KEY_f64        2
#define CPU_KEY_f16        3
#define CPU_KEY_bf16       4
#define CPU_KEY_c64        5
#define CPU_KEY_c128       6
#define CPU_KEY_i64        7
#define CPU_KEY_i32        8
#define CPU_KEY_i16        9
#define CPU_KEY_i8         10
#define CPU_KEY_u8         11
#define CPU_KEY_b8         12
#define CPU_KEY_OF_(dtype) CPU_KEY_##dtype
#define CPU_KEY_OF(dtype)  CPU_KEY_OF_(dtype)
#define CPU_KEY            CPU_KEY_OF(DTYPE)

static inline float f32_from_f16(uint16_t h)
{
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = (uint32_t)(h & 0x7fffu) << 13, bits;
    float f;
    if (rest >= 0x0f800000u) {
        bits = sign | 0x7f800000u | rest; /* infinity and NaN: the largest exponent */
        memcpy(&f, &bits, 4);
        return f;
    }
    memcpy(&f, &rest, 4);
    f *= 0x1p112f; /* moves the exponent; subnormals come out right */
    memcpy(&bits, &f, 4);
    bits |= sign;
    memcpy(&f, &bits, 4);
    return f;
#endif
}
static inline uint16_t f16_from_f32(float f)
{
#if defined(__F16C__)
    return _cvtss_sh(f, 0);
#else
    uint32_t bits, sign, rest;
    memcpy(&bits, &f, 4);
    sign = bits >> 16 & 0x8000u;
    rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 up it is infinity */
    if (rest < 0x38800000u) {                                   /* subnormal: let the adder round */
        float magnitude;
        memcpy(&magnitude, &rest, 4);
        magnitude += 0.5f;
        memcpy(&rest, &magnitude, 4);
        return (uint16_t)(sign | (rest - 0x3f000000u));
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | ((rest - 0x38000000u) >> 13));
#endif
}
static inline float f32_from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline uint16_t bf16_from_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#if CPU_KEY == 1
typedef float T;
typedef float acc;
#define DTYPE_ID TN_FLOAT32
#elif CPU_KEY == 2
typedef double T;
typedef double acc;
#define DTYPE_ID TN_FLOAT64
#elif CPU_KEY == 3
typedef uint16_t T;
typedef float acc;
#define DTYPE_ID TN_FLOAT16
#elif CPU_KEY == 4
typedef uint16_t T;
typedef float acc;
#define DTYPE_ID TN_BFLOAT16
#elif CPU_KEY == 5
typedef float _Complex T;
typedef float _Complex acc;
#define DTYPE_ID TN_COMPLEX64
#elif CPU_KEY == 6
typedef double _Complex T;
typedef double _Complex acc;
#define DTYPE_ID TN_COMPLEX128
#elif CPU_KEY == 7
typedef int64_t T;
typedef uint64_t acc;
#define DTYPE_ID TN_INT64
#define LOWEST   INT64_MIN
#elif CPU_KEY == 8
typedef int32_t T;
typedef uint32_t acc;
#define DTYPE_ID TN_INT32
#define LOWEST   INT32_MIN
#elif CPU_KEY == 9
typedef int16_t T;
typedef uint32_t acc;
#define DTYPE_ID TN_INT16
#define LOWEST   INT16_MIN
#elif CPU_KEY == 10
typedef int8_t T;
typedef uint32_t acc;
#define DTYPE_ID TN_INT8
#define LOWEST   INT8_MIN
#elif CPU_KEY == 11
typedef uint8_t T;
typedef uint32_t acc;
#define DTYPE_ID TN_UINT8
#define LOWEST   0
#elif CPU_KEY == 12
typedef uint8_t T;
typedef uint32_t acc;
#define DTYPE_ID TN_BOOL
#define LOWEST   0
#else
#error "DTYPE must name a dtype"
#endif

#define IS_FLOATING (CPU_KEY <= 4)
#define IS_HALF     (CPU_KEY == 3 || CPU_KEY == 4)
#define IS_COMPLEX  (CPU_KEY == 5 || CPU_KEY == 6)
#define IS_INTEGER  (CPU_KEY >= 7)
#if IS_FLOATING
#define LOWEST (-INFINITY)
#endif

static inline acc load(T x)
{
#if CPU_KEY == 3
    return f32_from_f16(x);
#elif CPU_KEY == 4
    return f32_from_bf16(x);
#else
    return (acc)x;
#endif
}
static inline T store(acc x)
{
#if CPU_KEY == 3
    return f16_from_f32(x);
#elif CPU_KEY == 4
    return bf16_from_f32(x);
#elif CPU_KEY == 12
    return x != 0;
#else
    return (T)x;
#endif
}
/* acc from a number of an argument. */
static inline acc from_number(const double x[2])
{
#if CPU_KEY == 5
    const float parts[2] = {(float)x[0], (float)x[1]};
    acc value;
    memcpy(&value, parts, sizeof(value));
    return value;
#elif CPU_KEY == 6
    acc value;
    memcpy(&value, x, sizeof(value));
    return value;
#elif IS_INTEGER
    return (acc)(int64_t)x[0];
#else
    return (acc)x[0];
#endif
}

#endif
