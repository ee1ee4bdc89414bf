/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dtypes: the list, names, categories, promotion, and conversion of single elements on the host. Promotion
 * follows PyTorch's rules (categories bool < integer < float < complex; 0-dim tensors and numbers only raise
 * the category).
 */
#ifndef TNI_CORE_DTYPE_H
#define TNI_CORE_DTYPE_H

#include <tenon/value.h>

/* Small dense numbers of dtypes, for tables and sets. */
#define TNI_DTYPE_LIST(X)               \
    X(BOOL, bool_)                      \
    X(UINT8, uint8)                     \
    X(INT8, int8)                       \
    X(INT16, int16)                     \
    X(INT32, int32)                     \
    X(INT64, int64)                     \
    X(UINT16, uint16)                   \
    X(UINT32, uint32)                   \
    X(UINT64, uint64)                   \
    X(FLOAT16, float16)                 \
    X(BFLOAT16, bfloat16)               \
    X(FLOAT32, float32)                 \
    X(FLOAT64, float64)                 \
    X(COMPLEX32, complex32)             \
    X(COMPLEX64, complex64)             \
    X(COMPLEX128, complex128)           \
    X(FLOAT8_E4M3FN, float8_e4m3fn)     \
    X(FLOAT8_E4M3FNUZ, float8_e4m3fnuz) \
    X(FLOAT8_E5M2, float8_e5m2)         \
    X(FLOAT8_E5M2FNUZ, float8_e5m2fnuz) \
    X(FLOAT8_E8M0FNU, float8_e8m0fnu)   \
    X(QUINT8, quint8)                   \
    X(QINT8, qint8)                     \
    X(QINT32, qint32)                   \
    X(QUINT4X2, quint4x2)
#define TNI_DTYPE_ENUM(upper, lower) TNI_INDEX_##upper,
enum { TNI_DTYPE_LIST(TNI_DTYPE_ENUM) TNI_DTYPE_COUNT };

#define TNI_CATEGORY_BOOL    0
#define TNI_CATEGORY_INT     1
#define TNI_CATEGORY_FLOAT   2
#define TNI_CATEGORY_COMPLEX 3
#define TNI_CATEGORY_OTHER   4 /* quantised */

/* [row of the code][log2 of the bits] -> index + 1. Codes up to 15 are rows of their own, those from 128
 * follow. */
#define TNI_DTYPE_ROW(code) ((code) < 128u ? (code) : (code)-112u)
#define TNI_DTYPE_ROWS      20u
extern const uint8_t tni_dtype_indices[TNI_DTYPE_ROWS][8];
/* Index in the list above, or -1. */
static inline int32_t tni_dtype_index(tn_dtype dtype)
{
    uint32_t code = TN_DTYPE_CODE(dtype), bits = TN_DTYPE_BITS(dtype);
    if (dtype >> 16 != 1 || !bits || (bits & (bits - 1)) || (code > 15 && code < 128)) return -1;
    uint32_t row = TNI_DTYPE_ROW(code);
    return row < TNI_DTYPE_ROWS ? (int32_t)tni_dtype_indices[row][__builtin_ctz(bits)] - 1 : -1;
}
tn_dtype tni_dtype_at(int32_t index);
static inline int32_t tni_dtype_category(tn_dtype dtype)
{
    switch (TN_DTYPE_CODE(dtype)) {
    case TN_CODE_BOOL:
        return TNI_CATEGORY_BOOL;
    case TN_CODE_INT:
    case TN_CODE_UINT:
        return TNI_CATEGORY_INT;
    case TN_CODE_COMPLEX:
        return TNI_CATEGORY_COMPLEX;
    default:
        return TN_DTYPE_CODE(dtype) < 128 ? TNI_CATEGORY_FLOAT : TNI_CATEGORY_OTHER;
    }
}
/* 1 for a code that contexts give to the names of vendors: only its size is known here. */
static inline int32_t tni_dtype_is_vendor(tn_dtype dtype)
{
    return TN_DTYPE_CODE(dtype) >= TN_CODE_VENDOR;
}
int32_t tni_dtype_is_signed(tn_dtype dtype);
/* 1 for floats and complex numbers that gradients are computed in; 0 for 8-bit floats. */
static inline int32_t tni_is_differentiable(tn_dtype dtype)
{
    const uint32_t codes = 1u << TN_CODE_FLOAT | 1u << TN_CODE_BFLOAT | 1u << TN_CODE_COMPLEX;
    return TN_DTYPE_CODE(dtype) < 32 && codes >> TN_DTYPE_CODE(dtype) & 1u;
}
/* float32 of complex64 and so on; others unchanged. And back. */
tn_dtype tni_dtype_to_real(tn_dtype dtype);
tn_dtype tni_dtype_to_complex(tn_dtype dtype);
/* The dtype that a number of a value's kind has: bool, int64, `default_dtype`, its complex. */
tn_dtype tni_dtype_of_scalar(tn_value v, tn_dtype default_dtype);

/*
 * Result type of a set of operands, gathered one by one. `dims` are tensors with dimensions, `zeros` 0-dim
 * tensors, `wrapped` numbers.
 */
typedef struct tni_promotion {
    tn_dtype dims;
    tn_dtype zeros;
    tn_dtype wrapped;
} tni_promotion;
void tni_promotion_add(tni_promotion *p, tn_dtype dtype, int32_t is_zero_dim, int32_t is_wrapped);
tn_dtype tni_promotion_result(const tni_promotion *p, tn_dtype default_dtype);

/* One element as a wide number. */
typedef struct tni_element {
    double re, im;  /* value, for floats and complex */
    int64_t i;      /* exact value for integers and bool; uint64 as its bits */
    int32_t is_int; /* 1: `i` is exact */
    int32_t is_unsigned;
} tni_element;
void tni_element_load(const void *from, tn_dtype dtype, tni_element *out);
/*
 * Rounds to nearest even (half and 8-bit floats through float32), integers wrap, floats become integers
 * through int64: toward zero, ending at its range, then cut to the width.
 */
void tni_element_store(void *to, tn_dtype dtype, const tni_element *e);
/* A number as an element of a dtype. Up to 16 bytes are written. */
void tni_scalar_store(void *to, tn_dtype dtype, tn_value scalar);
/* An element as a value. Complex: `pair` receives the parts and must outlive it. */
tn_value tni_scalar_load(const void *from, tn_dtype dtype, double pair[2]);

float tni_half_to_float(uint16_t h);
uint16_t tni_float_to_half(float f);
uint16_t tni_double_to_half(double d);
float tni_bfloat_to_float(uint16_t b);
uint16_t tni_float_to_bfloat(float f);
float tni_float8_to_float(uint8_t b, tn_dtype dtype);
uint8_t tni_float_to_float8(float f, tn_dtype dtype);

/* "Float", "Long": dtypes as ATen's errors call them. */
const char *tni_dtype_error_name(tn_dtype dtype);
/* The C++ type that some of ATen's errors name ("c10::Half"). */
const char *tni_dtype_cpp_name(tn_dtype dtype);

#endif
