/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions of one hub (DTYPE=f32|f64|i32|i64|c64|c128) at one level: each function converts a run. A real
 * number becomes a complex one with imaginary part 0, a complex one a real one by its real part; bool is
 * "not zero". Floats go to integers as C does it, by way of a signed type that holds all values in range.
 */
#include "convert.h"
#include "support/blocks.h"
#include "float8.h"
#include "vocabulary.h"

/* The hub T, the type R of its parts, and what takes it apart. */
#if defined(DTYPE_C64) || defined(DTYPE_C128)
#if defined(DTYPE_C64)
typedef float R;
#else
typedef double R;
#endif
ALWAYS_INLINE T make(R re, R im)
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
ALWAYS_INLINE uint8_t truth_of(T x)
{
    return (uint8_t)((x.re != 0) | (x.im != 0));
}
#else
typedef T R;
ALWAYS_INLINE T make(R re, R im)
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
ALWAYS_INLINE uint8_t truth_of(T x)
{
    return x != 0;
}
#endif

#if defined(DTYPE_I32) || defined(DTYPE_I64)
typedef T small_int; /* what 8- and 16-bit integers are cut from */
typedef T wide_int;
#else
typedef int32_t small_int;
typedef int64_t wide_int;
#endif

static void from_bool(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint8_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)(a[i] != 0), 0);
}
static void to_bool(void *to, const void *from, int64_t n)
{
    uint8_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = truth_of(a[i]);
}
static void from_u8(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint8_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_u8(void *to, const void *from, int64_t n)
{
    uint8_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (uint8_t)(small_int)re_of(a[i]);
}
static void from_i8(void *to, const void *from, int64_t n)
{
    T *o = to;
    const int8_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_i8(void *to, const void *from, int64_t n)
{
    int8_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (int8_t)(small_int)re_of(a[i]);
}
static void from_i16(void *to, const void *from, int64_t n)
{
    T *o = to;
    const int16_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_i16(void *to, const void *from, int64_t n)
{
    int16_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (int16_t)(small_int)re_of(a[i]);
}
static void from_u16(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint16_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_u16(void *to, const void *from, int64_t n)
{
    uint16_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (uint16_t)(small_int)re_of(a[i]);
}
static void from_i32(void *to, const void *from, int64_t n)
{
    T *o = to;
    const int32_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_i32(void *to, const void *from, int64_t n)
{
    int32_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (int32_t)re_of(a[i]);
}
static void from_u32(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint32_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_u32(void *to, const void *from, int64_t n)
{
    uint32_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (uint32_t)(wide_int)re_of(a[i]);
}
static void from_i64(void *to, const void *from, int64_t n)
{
    T *o = to;
    const int64_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_i64(void *to, const void *from, int64_t n)
{
    int64_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (int64_t)re_of(a[i]);
}
/* Numbers from 2^63 on need the unsigned conversion, negative ones the signed one. */
ALWAYS_INLINE uint64_t unsigned_of(R x)
{
    return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}
static void from_u64(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint64_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_u64(void *to, const void *from, int64_t n)
{
    uint64_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = unsigned_of(re_of(a[i]));
}
/* The compiler does not see vectors in the conversion of one half. */
#if defined(DTYPE_F32) && defined(__F16C__)
static void from_f16(void *to, const void *from, int64_t n)
{
    float *o = to;
    const half_t *a = from;
    int64_t i = 0;
    for (; i + CPU_BLOCK <= n; i += CPU_BLOCK) cpu_widen(o + i, a + i, CPU_BLOCK);
    for (; i + CPU_SMALL_BLOCK <= n; i += CPU_SMALL_BLOCK) cpu_widen(o + i, a + i, CPU_SMALL_BLOCK);
    for (; i < n; i++) o[i] = float_of_half(a[i]);
}
static void to_f16(void *to, const void *from, int64_t n)
{
    half_t *o = to;
    const float *a = from;
    int64_t i = 0;
    for (; i + CPU_BLOCK <= n; i += CPU_BLOCK) cpu_narrow(o + i, a + i, CPU_BLOCK);
    for (; i + CPU_SMALL_BLOCK <= n; i += CPU_SMALL_BLOCK) cpu_narrow(o + i, a + i, CPU_SMALL_BLOCK);
    for (; i < n; i++) o[i] = half_of_float(a[i]);
}
#else
static void from_f16(void *to, const void *from, int64_t n)
{
    T *o = to;
    const half_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)float_of_half(a[i]), 0);
}
static void to_f16(void *to, const void *from, int64_t n)
{
    half_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = half_of_float((float)re_of(a[i]));
}
#endif
static void from_bf16(void *to, const void *from, int64_t n)
{
    T *o = to;
    const bfloat_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)float_of_bfloat(a[i]), 0);
}
static void to_bf16(void *to, const void *from, int64_t n)
{
    bfloat_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = bfloat_of_float((float)re_of(a[i]));
}
static void from_f32(void *to, const void *from, int64_t n)
{
    T *o = to;
    const float *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_f32(void *to, const void *from, int64_t n)
{
    float *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (float)re_of(a[i]);
}
static void from_f64(void *to, const void *from, int64_t n)
{
    T *o = to;
    const double *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i], 0);
}
static void to_f64(void *to, const void *from, int64_t n)
{
    double *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (double)re_of(a[i]);
}
static void from_c32(void *to, const void *from, int64_t n)
{
    T *o = to;
    const complex32_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)float_of_half(a[i].re), (R)float_of_half(a[i].im));
}
static void to_c32(void *to, const void *from, int64_t n)
{
    complex32_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++)
        o[i] = (complex32_t){half_of_float((float)re_of(a[i])), half_of_float((float)im_of(a[i]))};
}
static void from_c64(void *to, const void *from, int64_t n)
{
    T *o = to;
    const complex64_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i].re, (R)a[i].im);
}
static void to_c64(void *to, const void *from, int64_t n)
{
    complex64_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (complex64_t){(float)re_of(a[i]), (float)im_of(a[i])};
}
static void from_c128(void *to, const void *from, int64_t n)
{
    T *o = to;
    const complex128_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = make((R)a[i].re, (R)a[i].im);
}
static void to_c128(void *to, const void *from, int64_t n)
{
    complex128_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = (complex128_t){(double)re_of(a[i]), (double)im_of(a[i])};
}
#if defined(DTYPE_F32)
static void from_e4m3fn(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint8_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float_of_float8(a[i], FLOAT8_E4M3FN);
}
static void to_e4m3fn(void *to, const void *from, int64_t n)
{
    uint8_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float8_of_float(a[i], FLOAT8_E4M3FN);
}
static void from_e4m3fnuz(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint8_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float_of_float8(a[i], FLOAT8_E4M3FNUZ);
}
static void to_e4m3fnuz(void *to, const void *from, int64_t n)
{
    uint8_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float8_of_float(a[i], FLOAT8_E4M3FNUZ);
}
static void from_e5m2(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint8_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float_of_float8(a[i], FLOAT8_E5M2);
}
static void to_e5m2(void *to, const void *from, int64_t n)
{
    uint8_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float8_of_float(a[i], FLOAT8_E5M2);
}
static void from_e5m2fnuz(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint8_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float_of_float8(a[i], FLOAT8_E5M2FNUZ);
}
static void to_e5m2fnuz(void *to, const void *from, int64_t n)
{
    uint8_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float8_of_float(a[i], FLOAT8_E5M2FNUZ);
}
static void from_e8m0(void *to, const void *from, int64_t n)
{
    T *o = to;
    const uint8_t *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = float_of_e8m0(a[i]);
}
static void to_e8m0(void *to, const void *from, int64_t n)
{
    uint8_t *o = to;
    const T *a = from;
    for (int64_t i = 0; i < n; i++) o[i] = e8m0_of_float(a[i]);
}
#endif

extern const cpu_hub CPU_NAME(cpu_hub);
const cpu_hub CPU_NAME(cpu_hub) = {
    .from =
        {
            [CPU_BOOL] = from_bool,     [CPU_U8] = from_u8,
            [CPU_I8] = from_i8,         [CPU_I16] = from_i16,
            [CPU_I32] = from_i32,       [CPU_I64] = from_i64,
            [CPU_U16] = from_u16,       [CPU_U32] = from_u32,
            [CPU_U64] = from_u64,       [CPU_F16] = from_f16,
            [CPU_BF16] = from_bf16,     [CPU_F32] = from_f32,
            [CPU_F64] = from_f64,       [CPU_C32] = from_c32,
            [CPU_C64] = from_c64,       [CPU_C128] = from_c128,
#if defined(DTYPE_F32)
            [CPU_E4M3FN] = from_e4m3fn, [CPU_E4M3FNUZ] = from_e4m3fnuz,
            [CPU_E5M2] = from_e5m2,     [CPU_E5M2FNUZ] = from_e5m2fnuz,
            [CPU_E8M0] = from_e8m0,
#endif
        },
    .to =
        {
            [CPU_BOOL] = to_bool,     [CPU_U8] = to_u8,
            [CPU_I8] = to_i8,         [CPU_I16] = to_i16,
            [CPU_I32] = to_i32,       [CPU_I64] = to_i64,
            [CPU_U16] = to_u16,       [CPU_U32] = to_u32,
            [CPU_U64] = to_u64,       [CPU_F16] = to_f16,
            [CPU_BF16] = to_bf16,     [CPU_F32] = to_f32,
            [CPU_F64] = to_f64,       [CPU_C32] = to_c32,
            [CPU_C64] = to_c64,       [CPU_C128] = to_c128,
#if defined(DTYPE_F32)
            [CPU_E4M3FN] = to_e4m3fn, [CPU_E4M3FNUZ] = to_e4m3fnuz,
            [CPU_E5M2] = to_e5m2,     [CPU_E5M2FNUZ] = to_e5m2fnuz,
            [CPU_E8M0] = to_e8m0,
#endif
        },
};
