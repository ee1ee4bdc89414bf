/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading and storing elements of each dtype, and conversions between domains. Floats below 32 bits are
 * described by a table: bits of the fraction, least exponent, codes of infinity and NaN.
 */
#include "element.h"

#include <math.h>
#include <string.h>

/* ---- Small floats ------------------------------------------------------------------------------------ */

typedef struct small_float {
    uint32_t code;
    uint32_t bits;
    int32_t fraction;  /* bits of the fraction */
    int32_t least;     /* exponent of the smallest normal number */
    uint32_t largest;  /* code of the largest finite number */
    uint32_t overflow; /* result of overflow: infinity, the largest, or (FNUZ types) NaN */
    uint32_t nan;
    int32_t fnuz; /* no negative zero: its code is the NaN */
} small_float;

static const small_float small_floats[] = {
    {TN_CODE_FLOAT, 16, 10, -14, 0x7bff, 0x7c00, 0x7e00, 0},
    {TN_CODE_BFLOAT, 16, 7, -126, 0x7f7f, 0x7f80, 0x7fc0, 0},
    {TN_CODE_FLOAT8_E4M3FN, 8, 3, -6, 0x7e, 0x7e, 0x7f, 0},
    {TN_CODE_FLOAT8_E4M3FNUZ, 8, 3, -7, 0x7f, 0x80, 0x80, 1},
    {TN_CODE_FLOAT8_E5M2, 8, 2, -14, 0x7b, 0x7c, 0x7f, 0},
    {TN_CODE_FLOAT8_E5M2FNUZ, 8, 2, -15, 0x7f, 0x80, 0x80, 1},
};

static const small_float *find_small(tn_dtype dtype)
{
    for (size_t i = 0; i < sizeof(small_floats) / sizeof(small_floats[0]); i++)
        if (small_floats[i].code == TN_DTYPE_CODE(dtype) && small_floats[i].bits == TN_DTYPE_BITS(dtype))
            return &small_floats[i];
    return NULL;
}

static double small_decode(const small_float *s, uint32_t code)
{
    uint32_t sign = code >> (s->bits - 1), rest = code & ((1u << (s->bits - 1)) - 1u);
    uint32_t exponent = rest >> s->fraction, fraction = rest & ((1u << s->fraction) - 1u);
    double value;
    if ((s->fnuz && code == s->nan) || (rest > s->largest && rest != s->overflow))
        value = NAN;
    else if (rest > s->largest)
        value = INFINITY;
    else if (exponent)
        value = ldexp((double)(fraction | 1u << s->fraction), (int)exponent - 1 + s->least - s->fraction);
    else
        value = ldexp((double)fraction, s->least - s->fraction);
    return sign ? -value : value;
}

/* Rounds to nearest, ties to even: the fraction is made an integer and rounded; a carry goes into the
 * exponent. */
static uint32_t small_encode(const small_float *s, float value)
{
    uint32_t sign = signbit(value) ? 1u << (s->bits - 1) : 0;
    double magnitude = fabs((double)value);
    if (isnan(value)) return s->fnuz ? s->nan : sign | s->nan;
    if (isinf(value)) return s->fnuz ? s->nan : sign | s->overflow;
    int exponent = magnitude > 0 ? ilogb(magnitude) : s->least;
    if (exponent < s->least) exponent = s->least;
    double scaled = nearbyint(ldexp(magnitude, s->fraction - exponent));
    uint64_t rest = (uint64_t)scaled + ((uint64_t)(exponent - s->least) << s->fraction);
    if (rest > s->largest) return s->fnuz ? s->nan : sign | s->overflow;
    return s->fnuz && rest == 0 ? 0 : sign | (uint32_t)rest;
}

/* A power of two without sign: 2^(code - 127), 255 is NaN. A fraction above one half rounds up, one half too. */
static uint8_t power_encode(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    uint32_t exponent = bits >> 23 & 0xffu, fraction = bits & 0x7fffffu;
    if (exponent == 0xff) return 0xff;
    return (uint8_t)(fraction > 0x400000u || (fraction == 0x400000u && exponent > 0) ? exponent + 1
                                                                                     : exponent);
}

static double real_load(tn_dtype dtype, const void *from)
{
    const small_float *s = find_small(dtype);
    uint16_t wide = 0;
    uint8_t narrow;
    float f;
    double d;
    if (dtype == TN_FLOAT32) return memcpy(&f, from, sizeof(f)), (double)f;
    if (dtype == TN_FLOAT64) return memcpy(&d, from, sizeof(d)), d;
    if (s && s->bits == 16) return memcpy(&wide, from, sizeof(wide)), small_decode(s, wide);
    memcpy(&narrow, from, sizeof(narrow));
    if (s) return small_decode(s, narrow);
    return narrow == 0xff ? NAN : ldexp(1, (int)narrow - 127); /* E8M0FNU */
}

/* `single` is the value in float32, rounded once, for dtypes that are rounded from it. */
static void real_store(tn_dtype dtype, void *to, double value, float single)
{
    const small_float *s = find_small(dtype);
    if (dtype == TN_FLOAT32)
        memcpy(to, &single, sizeof(single));
    else if (dtype == TN_FLOAT64)
        memcpy(to, &value, sizeof(value));
    else if (s && s->bits == 16)
        memcpy(to, &(uint16_t){(uint16_t)small_encode(s, single)}, 2);
    else
        *(uint8_t *)to = s ? (uint8_t)small_encode(s, single) : power_encode(single);
}

double element_next_after(tn_dtype dtype, double from, double to)
{
    const small_float *s = find_small(dtype);
    if (dtype == TN_FLOAT64) return nextafter(from, to);
    if (!s) return (double)nextafterf((float)from, (float)to);
    if (isnan(from) || isnan(to)) return NAN;
    if (from == to) return to;
    uint32_t code = small_encode(s, (float)from), sign = 1u << (s->bits - 1);
    if (from == 0) return small_decode(s, to > 0 ? 1u : sign | 1u);
    return small_decode(s, (from < to) == (from > 0) ? code + 1 : code - 1);
}

/* ---- Domains ----------------------------------------------------------------------------------------- */

domain domain_of(tn_dtype dtype)
{
    switch (TN_DTYPE_CODE(dtype)) {
    case TN_CODE_INT:
        return DOMAIN_SIGNED;
    case TN_CODE_UINT:
    case TN_CODE_BOOL:
        return DOMAIN_UNSIGNED;
    case TN_CODE_COMPLEX:
        return DOMAIN_COMPLEX;
    default:
        return DOMAIN_REAL;
    }
}

/* Towards zero; out-of-range values become the least integer, as on common processors. */
static int64_t int_of_real(double value)
{
    if (value >= -0x1p63 && value < 0x1p63) return (int64_t)value;
    if (value >= 0x1p63 && value < 0x1p64) return (int64_t)(uint64_t)value;
    return INT64_MIN;
}

number number_in(domain d, number value)
{
    int integer = value.domain <= DOMAIN_SIGNED;
    double re = !integer                        ? value.re
                : value.domain == DOMAIN_SIGNED ? (double)value.i
                                                : (double)(uint64_t)value.i;
    switch (d) {
    case DOMAIN_COMPLEX:
        return number_complex(re, integer ? 0 : value.im);
    case DOMAIN_REAL:
        return number_real(re);
    default:
        return (number){d, integer ? value.i : int_of_real(value.re), 0, 0};
    }
}

number number_of_value(tn_value v)
{
    switch (v.tag) {
    case TN_TAG_INT:
        return number_int(v.as.i);
    case TN_TAG_BOOL:
        return number_bool(v.as.i != 0);
    case TN_TAG_FLOAT:
        return number_real(v.as.f);
    case TN_TAG_COMPLEX:
        return number_complex(v.as.floats[0], v.as.floats[1]);
    default:
        return number_int(0);
    }
}

int number_is_nan(number value)
{
    return value.domain >= DOMAIN_REAL && (isnan(value.re) || isnan(value.im));
}

int number_is_zero(number value)
{
    return value.domain >= DOMAIN_REAL ? value.re == 0 && value.im == 0 : value.i == 0;
}

int number_compare(number a, number b)
{
    domain d = domain_of_both(a.domain, b.domain);
    a = number_in(d, a);
    b = number_in(d, b);
    if (d >= DOMAIN_REAL) return (a.re > b.re) - (a.re < b.re);
    if (d == DOMAIN_SIGNED) return (a.i > b.i) - (a.i < b.i);
    return ((uint64_t)a.i > (uint64_t)b.i) - ((uint64_t)a.i < (uint64_t)b.i);
}

/* ---- Elements ---------------------------------------------------------------------------------------- */

static int64_t int_load(tn_dtype dtype, const void *from)
{
    int is_signed = TN_DTYPE_CODE(dtype) == TN_CODE_INT;
    uint64_t bits = 0;
    uint32_t width = TN_DTYPE_BITS(dtype);
    memcpy(&bits, from, width / 8); /* little-endian, like everything here */
    if (is_signed && width < 64 && bits >> (width - 1)) bits |= ~(uint64_t)0 << width;
    return (int64_t)bits;
}

static tn_dtype real_part(tn_dtype dtype)
{
    return TN_DTYPE(TN_CODE_FLOAT, TN_DTYPE_BITS(dtype) / 2);
}

number element_load(tn_dtype dtype, const void *from)
{
    domain d = domain_of(dtype);
    if (TN_DTYPE_CODE(dtype) == TN_CODE_BOOL) return number_bool(*(const uint8_t *)from);
    if (d <= DOMAIN_SIGNED) return (number){d, int_load(dtype, from), 0, 0};
    if (d == DOMAIN_REAL) return number_real(real_load(dtype, from));
    const char *imaginary = (const char *)from + tn_dtype_bytes(dtype) / 2;
    return number_complex(real_load(real_part(dtype), from), real_load(real_part(dtype), imaginary));
}

/*
 * An integer rounded once to float32. Above 2^53 the bits that a double would round away are first gathered
 * in the lowest one that stays, so that the way over double rounds like the direct one.
 */
static float single_of_int(uint64_t magnitude, int negative)
{
    if (magnitude >> 53)
        magnitude = (magnitude & ~(uint64_t)0xfff) | (uint64_t)((magnitude & 0xfff) != 0) << 12;
    float single = (float)(double)magnitude;
    return negative ? -single : single;
}

static float single_of(number value)
{
    int negative = value.domain == DOMAIN_SIGNED && value.i < 0;
    if (value.domain >= DOMAIN_REAL) return (float)value.re;
    return single_of_int(negative ? 0 - (uint64_t)value.i : (uint64_t)value.i, negative);
}

void element_store(tn_dtype dtype, void *to, number value)
{
    domain d = domain_of(dtype);
    if (TN_DTYPE_CODE(dtype) == TN_CODE_BOOL) {
        *(uint8_t *)to = (uint8_t)!number_is_zero(value);
    } else if (d <= DOMAIN_SIGNED) {
        int64_t bits = number_in(d, value).i;
        memcpy(to, &bits, TN_DTYPE_BITS(dtype) / 8);
    } else if (d == DOMAIN_REAL) {
        real_store(dtype, to, number_in(DOMAIN_REAL, value).re, single_of(value));
    } else {
        number z = number_in(DOMAIN_COMPLEX, value);
        real_store(real_part(dtype), to, z.re, single_of(value));
        real_store(real_part(dtype), (char *)to + tn_dtype_bytes(dtype) / 2, z.im, (float)z.im);
    }
}

number number_rounded(tn_dtype dtype, number value)
{
    char memory[16];
    element_store(dtype, memory, value);
    return element_load(dtype, memory);
}

/* ---- Tensors and nests ------------------------------------------------------------------------------- */

int64_t tensor_numel(const tn_tensor_desc *t)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++) n *= t->sizes[d];
    return n;
}

int tensor_next(uint32_t rank, const int64_t *sizes, int64_t *index)
{
    for (uint32_t d = rank; d-- > 0;) {
        if (++index[d] < sizes[d]) return 1;
        index[d] = 0;
    }
    return 0;
}

static char *address(const tn_tensor_desc *t, const int64_t *index)
{
    int64_t elements = 0;
    for (uint32_t d = 0; d < t->rank; d++) elements += index[d] * t->strides[d];
    return (char *)t->host + elements * tn_dtype_bytes(t->dtype);
}

static number apply_bits(uint32_t flags, number value)
{
    if (flags & TN_DESC_CONJ) value.im = -value.im;
    if (flags & TN_DESC_NEG) {
        value.i = (int64_t)(0 - (uint64_t)value.i);
        value.re = -value.re;
        value.im = -value.im;
    }
    return value;
}

number tensor_load(const tn_tensor_desc *t, const int64_t *index)
{
    return apply_bits(t->flags, element_load(t->dtype, address(t, index)));
}

void tensor_move(const tn_tensor_desc *to, const int64_t *index, const tn_tensor_desc *from,
                 const int64_t *from_index)
{
    if (to->dtype == from->dtype && to->flags == from->flags)
        memcpy(address(to, index), address(from, from_index), (size_t)tn_dtype_bytes(to->dtype));
    else
        tensor_store(to, index, tensor_load(from, from_index));
}

void tensor_store(const tn_tensor_desc *t, const int64_t *index, number value)
{
    if (t->flags & (TN_DESC_CONJ | TN_DESC_NEG))
        value = apply_bits(t->flags, number_in(domain_of(t->dtype), value));
    element_store(t->dtype, address(t, index), value);
}

int64_t tensor_dim(const tn_tensor_desc *t, int64_t dim)
{
    return dim < 0 ? dim + (t->rank ? (int64_t)t->rank : 1) : dim;
}

int nest_next(uint32_t rank, const int64_t *sizes, int64_t *index)
{
    for (uint32_t d = 0; d < rank; d++) {
        if (++index[d] < sizes[d]) return 1;
        index[d] = 0;
    }
    return 0;
}

static char *nest_address(const tn_nest *nest, uint32_t operand, const int64_t *index)
{
    const tn_operand *o = &nest->operands[operand];
    int64_t bytes = 0;
    for (uint32_t d = 0; d < nest->rank; d++) bytes += index[d] * o->strides[d];
    return o->host + bytes;
}

number nest_load(const tn_nest *nest, uint32_t operand, const int64_t *index)
{
    return element_load(nest->operands[operand].dtype, nest_address(nest, operand, index));
}

void nest_store(const tn_nest *nest, uint32_t operand, const int64_t *index, number value)
{
    element_store(nest->operands[operand].dtype, nest_address(nest, operand, index), value);
}
