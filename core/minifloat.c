/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Narrow floating-point formats on the host: IEEE binary16, bfloat16, and the five 8-bit formats of the OCP
 * specification and its variants. All round to nearest, ties to even, with subnormals.
 */
#include <string.h>
#include "core/dtype.h"

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

/*
 * A small format: one sign bit, then exponent, then `mantissa` bits. `top` is the largest code of a finite
 * number, `overflow` what larger numbers and infinity become, `nan` the code of a NaN. In formats with
 * `unsigned_zero` the code of -0 is the only NaN. NaNs keep their payload where the format has room for one.
 */
typedef struct small_format {
    int32_t mantissa;
    int32_t bias;
    uint32_t sign;
    uint32_t top;
    uint32_t overflow;
    uint32_t nan;
    int32_t has_infinity;
    int32_t unsigned_zero;
} small_format;

static const small_format binary16 = {10, 15, 0x8000, 0x7bff, 0x7c00, 0x7e00, 1, 0};
static const small_format e4m3fn = {3, 7, 0x80, 0x7e, 0x7e, 0x7f, 0, 0}; /* overflow ends at 448 */
static const small_format e4m3fnuz = {3, 8, 0x80, 0x7f, 0x80, 0x80, 0, 1};
static const small_format e5m2 = {2, 15, 0x80, 0x7b, 0x7c, 0x7f, 1, 0};
static const small_format e5m2fnuz = {2, 16, 0x80, 0x7f, 0x80, 0x80, 0, 1};

/* Shifts right by `count` (1..31), to nearest, ties to even. */
static uint32_t shift_to_even(uint32_t value, uint32_t count)
{
    uint32_t kept = value >> count, rest = value & ((1u << count) - 1u), half = 1u << (count - 1u);
    return kept + (rest > half || (rest == half && (kept & 1u)));
}

static uint32_t encode(float f, const small_format *to)
{
    uint32_t bits = bits_of(f), magnitude = bits & 0x7fffffffu;
    uint32_t sign = bits >> 31 ? to->sign : 0;
    if (magnitude > 0x7f800000u) return to->unsigned_zero ? to->nan : sign | to->nan;
    int32_t exponent = (int32_t)(magnitude >> 23) - 127 + to->bias;
    uint32_t shift = (uint32_t)(23 - to->mantissa), code;
    if (exponent > 0) {
        /* Normal in the small format: exponent and mantissa round together, a carry moves into the exponent. */
        code = shift_to_even((uint32_t)exponent << 23 | (magnitude & 0x7fffffu), shift);
    } else {
        /* Subnormal in the small format; float32's own subnormals are below half of its smallest step. */
        uint32_t count = shift + 1u + (uint32_t)-exponent;
        code = count > 24 ? 0 : shift_to_even((magnitude & 0x7fffffu) | 0x800000u, count);
    }
    if (code > to->top) return to->unsigned_zero ? to->nan : sign | to->overflow;
    return to->unsigned_zero && !code ? 0 : sign | code;
}

static float decode(uint32_t code, const small_format *from)
{
    uint32_t magnitude = code & (from->sign - 1u), sign = code & from->sign ? 0x80000000u : 0;
    if (from->unsigned_zero && code == from->nan) return float_of(0x7fc00000u);
    if (magnitude > from->top) {
        if (from->has_infinity && magnitude == from->overflow) return float_of(sign | 0x7f800000u);
        uint32_t payload = (magnitude & ((1u << from->mantissa) - 1u)) << (23 - from->mantissa);
        return float_of(sign | 0x7fc00000u | payload);
    }
    uint32_t exponent = magnitude >> from->mantissa, fraction = magnitude & ((1u << from->mantissa) - 1u);
    if (exponent == 0) {
        if (fraction == 0) return float_of(sign);
        uint32_t shift = (uint32_t)__builtin_clz(fraction) - (31u - (uint32_t)from->mantissa);
        fraction = fraction << shift & ((1u << from->mantissa) - 1u);
        exponent = (uint32_t)(1 - (int32_t)shift - from->bias + 127);
    } else {
        exponent = (uint32_t)((int32_t)exponent - from->bias + 127);
    }
    return float_of(sign | exponent << 23 | fraction << (23 - from->mantissa));
}

/* E8M0 holds powers of two from 2^-127 and one NaN; the sign is dropped. */
static uint8_t encode_e8m0(float f)
{
    uint32_t magnitude = bits_of(f) & 0x7fffffffu, exponent = magnitude >> 23;
    if (exponent == 0xff) return 0xff;
    /* Above half way to the next power of two rounds up. Half way rounds up too, except from the lowest power. */
    uint32_t fraction = magnitude & 0x7fffffu;
    return (uint8_t)(exponent + (fraction > 0x400000u || (fraction == 0x400000u && exponent)));
}

static float decode_e8m0(uint8_t b)
{
    if (b == 0xff) return float_of(0x7fc00000u);
    return float_of(b ? (uint32_t)b << 23 : 0x400000u);
}

float tni_half_to_float(uint16_t h)
{
    return decode(h, &binary16);
}

uint16_t tni_float_to_half(float f)
{
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x1ffu));
    }
    return (uint16_t)encode(f, &binary16);
}

/* Through float32, as everywhere else. */
uint16_t tni_double_to_half(double d)
{
    return tni_float_to_half((float)d);
}

float tni_bfloat_to_float(uint16_t b)
{
    return float_of((uint32_t)b << 16);
}

uint16_t tni_float_to_bfloat(float f)
{
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static const small_format *float8_format(tn_dtype dtype)
{
    switch (dtype) {
    case TN_FLOAT8_E4M3FN:
        return &e4m3fn;
    case TN_FLOAT8_E4M3FNUZ:
        return &e4m3fnuz;
    case TN_FLOAT8_E5M2:
        return &e5m2;
    default:
        return &e5m2fnuz;
    }
}

float tni_float8_to_float(uint8_t b, tn_dtype dtype)
{
    return dtype == TN_FLOAT8_E8M0FNU ? decode_e8m0(b) : decode(b, float8_format(dtype));
}

uint8_t tni_float_to_float8(float f, tn_dtype dtype)
{
    return dtype == TN_FLOAT8_E8M0FNU ? encode_e8m0(f) : (uint8_t)encode(f, float8_format(dtype));
}
