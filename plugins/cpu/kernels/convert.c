/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions of one hub dtype T (DTYPE=f32|f64|i32|i64|c64|c128): from_u8 and to_u8 convert runs of uint8 to
 * T and back. A real number becomes a complex one with imaginary part 0, a complex one becomes real by its
 * real part; bool is "not zero". Floats become integers as in C, by way of a signed type that holds all
 * values in range.
 */
#include "convert.h"
#include "support/blocks.h"
#include "float8.h"
#include "vocabulary.h"

#if CPU_IS_INTEGER
typedef T small_int; /* what 8- and 16-bit integers are cut from */
typedef T wide_int;
#else
typedef int32_t small_int;
typedef int64_t wide_int;
#endif

/* The loops of a dtype: T from an element `a` of its type, an element from `a` of type T. */
#define CONVERSION(function, from_type, to_type, formula)       \
    static void function(void *to, const void *from, int64_t n) \
    {                                                           \
        to_type *o = to;                                        \
        const from_type *in = from;                             \
        for (int64_t i = 0; i < n; i++) {                       \
            from_type a = in[i];                                \
            o[i] = formula;                                     \
        }                                                       \
    }
#define FROM(name, type, formula) CONVERSION(from_##name, type, T, formula)
#define TO(name, type, formula)   CONVERSION(to_##name, T, type, formula)
#define REAL(name, type, formula)         \
    FROM(name, type, from_parts((R)a, 0)) \
    TO(name, type, formula)

/* Numbers from 2^63 up need the unsigned conversion, negative ones the signed one. */
ALWAYS_INLINE uint64_t unsigned_of(R x)
{
    return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}

FROM(b8, uint8_t, from_parts((R)(a != 0), 0))
TO(b8, uint8_t, (uint8_t)is_nonzero(a))
REAL(u8, uint8_t, (uint8_t)(small_int)re_of(a))
REAL(i8, int8_t, (int8_t)(small_int)re_of(a))
REAL(i16, int16_t, (int16_t)(small_int)re_of(a))
REAL(u16, uint16_t, (uint16_t)(small_int)re_of(a))
REAL(i32, int32_t, (int32_t)re_of(a))
REAL(u32, uint32_t, (uint32_t)(wide_int)re_of(a))
REAL(i64, int64_t, (int64_t)re_of(a))
REAL(u64, uint64_t, unsigned_of(re_of(a)))
REAL(f32, float, (float)re_of(a))
REAL(f64, double, (double)re_of(a))
FROM(bf16, bfloat_t, from_parts((R)float_of_bfloat(a), 0))
TO(bf16, bfloat_t, bfloat_of_float((float)re_of(a)))
FROM(c32, complex32_t, from_parts((R)float_of_half(a.re), (R)float_of_half(a.im)))
TO(c32, complex32_t, ((complex32_t){half_of_float((float)re_of(a)), half_of_float((float)im_of(a))}))
FROM(c64, complex64_t, from_parts((R)a.re, (R)a.im))
TO(c64, complex64_t, ((complex64_t){(float)re_of(a), (float)im_of(a)}))
FROM(c128, complex128_t, from_parts((R)a.re, (R)a.im))
TO(c128, complex128_t, ((complex128_t){(double)re_of(a), (double)im_of(a)}))

#if defined(DTYPE_F32) && defined(__F16C__)
/* By blocks, as the compiler does not vectorise the conversion of one half. */
#define BLOCK_CONVERSION(function, from_type, to_type, convert, formula)                                \
    static void function(void *to, const void *from, int64_t n)                                         \
    {                                                                                                   \
        to_type *o = to;                                                                                \
        const from_type *in = from;                                                                     \
        int64_t i = 0;                                                                                  \
        for (; i + CPU_BLOCK <= n; i += CPU_BLOCK) convert(o + i, in + i, CPU_BLOCK);                   \
        for (; i + CPU_SMALL_BLOCK <= n; i += CPU_SMALL_BLOCK) convert(o + i, in + i, CPU_SMALL_BLOCK); \
        for (; i < n; i++) {                                                                            \
            from_type a = in[i];                                                                        \
            o[i] = formula;                                                                             \
        }                                                                                               \
    }
BLOCK_CONVERSION(from_f16, half_t, float, cpu_widen, float_of_half(a))
BLOCK_CONVERSION(to_f16, float, half_t, cpu_narrow, half_of_float(a))
#else
FROM(f16, half_t, from_parts((R)float_of_half(a), 0))
TO(f16, half_t, half_of_float((float)re_of(a)))
#endif

#define FROM_ENTRY(name, slot, bytes, dtype, hub, kind) [CPU_##slot] = from_##name,
#define TO_ENTRY(name, slot, bytes, dtype, hub, kind)   [CPU_##slot] = to_##name,
#if defined(DTYPE_F32)
#define FLOAT8(name, format)                        \
    FROM(name, uint8_t, float_of_float8(a, format)) \
    TO(name, uint8_t, float8_of_float(a, format))
FLOAT8(e4m3fn, FLOAT8_E4M3FN)
FLOAT8(e4m3fnuz, FLOAT8_E4M3FNUZ)
FLOAT8(e5m2, FLOAT8_E5M2)
FLOAT8(e5m2fnuz, FLOAT8_E5M2FNUZ)
FROM(e8m0, uint8_t, float_of_e8m0(a))
TO(e8m0, uint8_t, e8m0_of_float(a))
#define CONVERTED(X) CPU_DTYPES(X)
#else
#define CONVERTED(X) CPU_HUB_DTYPES(X) CPU_OTHER_DTYPES(X)
#endif

extern const cpu_hub CPU_NAME(cpu_convert);
const cpu_hub CPU_NAME(cpu_convert) = {.from = {CONVERTED(FROM_ENTRY)}, .to = {CONVERTED(TO_ENTRY)}};
