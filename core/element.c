/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements on the host: between the bytes of any dtype, a wide number, and a value. */
#include <string.h>
#include "core/dtype.h"

static void set_int(tni_element *out, int64_t i)
{
    *out = (tni_element){.re = (double)i, .i = i, .is_int = 1};
}

static void set_float(tni_element *out, double re, double im)
{
    *out = (tni_element){.re = re, .im = im};
}

typedef union element_bits {
    uint8_t u8;
    int8_t i8;
    uint16_t u16[2];
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    uint64_t u64;
    int64_t i64;
    float f32[2];
    double f64[2];
} element_bits;

static void load_float(const element_bits *b, tn_dtype dtype, tni_element *out)
{
    switch (dtype) {
    case TN_FLOAT16:
        return set_float(out, tni_half_to_float(b->u16[0]), 0);
    case TN_BFLOAT16:
        return set_float(out, tni_bfloat_to_float(b->u16[0]), 0);
    case TN_FLOAT32:
        return set_float(out, b->f32[0], 0);
    case TN_FLOAT64:
        return set_float(out, b->f64[0], 0);
    case TN_COMPLEX32:
        return set_float(out, tni_half_to_float(b->u16[0]), tni_half_to_float(b->u16[1]));
    case TN_COMPLEX64:
        return set_float(out, b->f32[0], b->f32[1]);
    case TN_COMPLEX128:
        return set_float(out, b->f64[0], b->f64[1]);
    default:
        return set_float(out, tni_float8_to_float(b->u8, dtype), 0);
    }
}

void tni_element_load(const void *from, tn_dtype dtype, tni_element *out)
{
    element_bits b;
    memcpy(&b, from, TN_DTYPE_BITS(dtype) / 8u);
    switch (dtype) {
    case TN_BOOL:
        return set_int(out, b.u8 != 0);
    case TN_UINT8:
    case TN_QUINT8:
    case TN_QUINT4X2:
        return set_int(out, b.u8);
    case TN_INT8:
    case TN_QINT8:
        return set_int(out, b.i8);
    case TN_INT16:
        return set_int(out, b.i16);
    case TN_UINT16:
        return set_int(out, b.u16[0]);
    case TN_INT32:
    case TN_QINT32:
        return set_int(out, b.i32);
    case TN_UINT32:
        return set_int(out, b.u32);
    case TN_INT64:
        return set_int(out, b.i64);
    case TN_UINT64:
        *out = (tni_element){.re = (double)b.u64, .i = b.i64, .is_int = 1, .is_unsigned = 1};
        return;
    default:
        return load_float(&b, dtype, out);
    }
}

/* Rounds toward zero. Values out of range become the nearest limit, NaN becomes 0. */
static int64_t int_of_double(double d)
{
    if (d >= 9223372036854775808.0) return INT64_MAX;
    if (d <= -9223372036854775808.0) return INT64_MIN;
    return d == d ? (int64_t)d : 0;
}

/* The integer whose low bits are stored. For uint64, floats up to 2^64 - 1 keep their value. */
static uint64_t integer_bits(const tni_element *e, tn_dtype dtype)
{
    if (e->is_int) return (uint64_t)e->i;
    if (dtype == TN_UINT64 && e->re >= 9223372036854775808.0) {
        return e->re >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)e->re;
    }
    return (uint64_t)int_of_double(e->re);
}

/* An integer is rounded once, not through double. */
static float float_of_element(const tni_element *e)
{
    if (!e->is_int) return (float)e->re;
    return e->is_unsigned ? (float)(uint64_t)e->i : (float)e->i;
}

static int32_t is_nonzero(const tni_element *e)
{
    return e->is_int ? e->i != 0 : e->re != 0 || e->im != 0;
}

static void store_integer(void *to, tn_dtype dtype, const tni_element *e)
{
    uint64_t bits = dtype == TN_BOOL ? (uint64_t)is_nonzero(e) : integer_bits(e, dtype);
    uint8_t u8 = (uint8_t)bits;
    uint16_t u16 = (uint16_t)bits;
    uint32_t u32 = (uint32_t)bits;
    switch (TN_DTYPE_BITS(dtype)) {
    case 8:
        memcpy(to, &u8, 1);
        return;
    case 16:
        memcpy(to, &u16, 2);
        return;
    case 32:
        memcpy(to, &u32, 4);
        return;
    default:
        memcpy(to, &bits, 8);
        return;
    }
}

static void store_complex(void *to, tn_dtype dtype, const tni_element *e)
{
    uint16_t halves[2] = {tni_float_to_half(float_of_element(e)), tni_float_to_half((float)e->im)};
    float floats[2] = {float_of_element(e), (float)e->im};
    double doubles[2] = {e->re, e->im};
    const void *parts = dtype == TN_COMPLEX32   ? (void *)halves
                        : dtype == TN_COMPLEX64 ? (void *)floats
                                                : doubles;
    memcpy(to, parts, TN_DTYPE_BITS(dtype) / 8u);
}

static void store_float(void *to, tn_dtype dtype, const tni_element *e)
{
    float f = float_of_element(e);
    uint16_t u16;
    uint8_t u8;
    switch (dtype) {
    case TN_FLOAT64:
        memcpy(to, &e->re, 8);
        return;
    case TN_FLOAT32:
        memcpy(to, &f, 4);
        return;
    case TN_FLOAT16:
        u16 = tni_float_to_half(f);
        memcpy(to, &u16, 2);
        return;
    case TN_BFLOAT16:
        u16 = tni_float_to_bfloat(f);
        memcpy(to, &u16, 2);
        return;
    default:
        u8 = tni_float_to_float8(f, dtype);
        memcpy(to, &u8, 1);
        return;
    }
}

static inline __attribute__((always_inline)) void store(void *to, tn_dtype dtype, const tni_element *e)
{
    int32_t category = tni_dtype_category(dtype);
    if (category == TNI_CATEGORY_COMPLEX) {
        store_complex(to, dtype, e);
    } else if (category == TNI_CATEGORY_FLOAT) {
        store_float(to, dtype, e);
    } else {
        store_integer(to, dtype, e);
    }
}

void tni_element_store(void *to, tn_dtype dtype, const tni_element *e)
{
    store(to, dtype, e);
}

void tni_scalar_store(void *to, tn_dtype dtype, tn_value scalar)
{
    tni_element e;
    if (scalar.tag == TN_TAG_COMPLEX) {
        set_float(&e, scalar.as.floats[0], scalar.as.floats[1]);
    } else if (scalar.tag == TN_TAG_FLOAT) {
        set_float(&e, scalar.as.f, 0);
    } else {
        set_int(&e, tn_value_as_int(scalar));
    }
    store(to, dtype, &e);
}

tn_value tni_scalar_load(const void *from, tn_dtype dtype, double pair[2])
{
    tni_element e;
    tni_element_load(from, dtype, &e);
    if (dtype == TN_BOOL) return tn_value_bool(e.i != 0);
    if (e.is_int) return tn_value_int(e.i);
    if (tni_dtype_category(dtype) != TNI_CATEGORY_COMPLEX) return tn_value_float(e.re);
    pair[0] = e.re;
    pair[1] = e.im;
    return tn_value_complex(pair);
}
