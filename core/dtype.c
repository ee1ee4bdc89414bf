/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of dtypes: names, categories, promotion and casting rules. The rules are PyTorch's: categories
 * bool < integer < float < complex; uint16, uint32 and uint64 promote with floats only; float8 and quantised
 * dtypes with nothing but themselves.
 */
#include "core/dtype.h"

#include <string.h>
#include <tenon/tensor.h>

/* Marks operands that have no common dtype; further operands do not change it. */
#define CLASH UINT32_MAX

#define DTYPE_VALUE(upper, lower) TN_##upper,
#define DTYPE_NAME(upper, lower)  #lower,
static const tn_dtype dtypes[TNI_DTYPE_COUNT] = {TNI_DTYPE_LIST(DTYPE_VALUE)};
static const char *const names[TNI_DTYPE_COUNT] = {TNI_DTYPE_LIST(DTYPE_NAME)};

static const struct {
    const char *name;
    tn_dtype dtype;
} aliases[] = {
    {"bool", TN_BOOL},        {"float", TN_FLOAT32},      {"double", TN_FLOAT64}, {"half", TN_FLOAT16},
    {"long", TN_INT64},       {"int", TN_INT32},          {"short", TN_INT16},    {"chalf", TN_COMPLEX32},
    {"cfloat", TN_COMPLEX64}, {"cdouble", TN_COMPLEX128},
};

const uint8_t tni_dtype_indices[TNI_DTYPE_ROWS][8] = {
    [TNI_DTYPE_ROW(TN_CODE_INT)] = {[3] = TNI_INDEX_INT8 + 1,
                                    TNI_INDEX_INT16 + 1,
                                    TNI_INDEX_INT32 + 1,
                                    TNI_INDEX_INT64 + 1},
    [TNI_DTYPE_ROW(TN_CODE_UINT)] = {[3] = TNI_INDEX_UINT8 + 1,
                                     TNI_INDEX_UINT16 + 1,
                                     TNI_INDEX_UINT32 + 1,
                                     TNI_INDEX_UINT64 + 1},
    [TNI_DTYPE_ROW(
        TN_CODE_FLOAT)] = {[4] = TNI_INDEX_FLOAT16 + 1, TNI_INDEX_FLOAT32 + 1, TNI_INDEX_FLOAT64 + 1},
    [TNI_DTYPE_ROW(TN_CODE_BFLOAT)] = {[4] = TNI_INDEX_BFLOAT16 + 1},
    [TNI_DTYPE_ROW(TN_CODE_COMPLEX)] = {[5] = TNI_INDEX_COMPLEX32 + 1,
                                        TNI_INDEX_COMPLEX64 + 1,
                                        TNI_INDEX_COMPLEX128 + 1},
    [TNI_DTYPE_ROW(TN_CODE_BOOL)] = {[3] = TNI_INDEX_BOOL + 1},
    [TNI_DTYPE_ROW(TN_CODE_FLOAT8_E4M3FN)] = {[3] = TNI_INDEX_FLOAT8_E4M3FN + 1},
    [TNI_DTYPE_ROW(TN_CODE_FLOAT8_E4M3FNUZ)] = {[3] = TNI_INDEX_FLOAT8_E4M3FNUZ + 1},
    [TNI_DTYPE_ROW(TN_CODE_FLOAT8_E5M2)] = {[3] = TNI_INDEX_FLOAT8_E5M2 + 1},
    [TNI_DTYPE_ROW(TN_CODE_FLOAT8_E5M2FNUZ)] = {[3] = TNI_INDEX_FLOAT8_E5M2FNUZ + 1},
    [TNI_DTYPE_ROW(TN_CODE_FLOAT8_E8M0FNU)] = {[3] = TNI_INDEX_FLOAT8_E8M0FNU + 1},
    [TNI_DTYPE_ROW(TN_CODE_QUINT8)] = {[3] = TNI_INDEX_QUINT8 + 1},
    [TNI_DTYPE_ROW(TN_CODE_QINT8)] = {[3] = TNI_INDEX_QINT8 + 1},
    [TNI_DTYPE_ROW(TN_CODE_QINT32)] = {[5] = TNI_INDEX_QINT32 + 1},
    [TNI_DTYPE_ROW(TN_CODE_QUINT4X2)] = {[3] = TNI_INDEX_QUINT4X2 + 1},
};

tn_dtype tni_dtype_at(int32_t index)
{
    return index >= 0 && index < TNI_DTYPE_COUNT ? dtypes[index] : 0;
}

int32_t tni_dtype_is_signed(tn_dtype dtype)
{
    uint32_t code = TN_DTYPE_CODE(dtype);
    return code != TN_CODE_UINT && code != TN_CODE_BOOL && code != TN_CODE_QUINT8 &&
           code != TN_CODE_QUINT4X2 && code != TN_CODE_FLOAT8_E8M0FNU;
}

tn_dtype tni_dtype_to_real(tn_dtype dtype)
{
    if (TN_DTYPE_CODE(dtype) != TN_CODE_COMPLEX) return dtype;
    return TN_DTYPE(TN_CODE_FLOAT, TN_DTYPE_BITS(dtype) / 2);
}

tn_dtype tni_dtype_to_complex(tn_dtype dtype)
{
    if (dtype == TN_BFLOAT16) return TN_COMPLEX64; /* its range is that of float32 */
    if (TN_DTYPE_CODE(dtype) != TN_CODE_FLOAT) return dtype;
    return TN_DTYPE(TN_CODE_COMPLEX, TN_DTYPE_BITS(dtype) * 2);
}

tn_dtype tni_dtype_of_scalar(tn_value v, tn_dtype default_dtype)
{
    switch (v.tag) {
    case TN_TAG_BOOL:
        return TN_BOOL;
    case TN_TAG_INT:
        return TN_INT64;
    case TN_TAG_COMPLEX:
        return tni_dtype_to_complex(default_dtype);
    default:
        return default_dtype;
    }
}

const char *tn_dtype_name(tn_dtype dtype)
{
    int32_t index = tni_dtype_index(dtype);
    return index == TNI_INDEX_BOOL ? "bool" : index < 0 ? NULL : names[index];
}

tn_dtype tn_dtype_parse(const char *name)
{
    if (!name) return 0;
    for (uint32_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++) {
        if (strcmp(name, aliases[i].name) == 0) return aliases[i].dtype;
    }
    for (int32_t i = TNI_INDEX_BOOL + 1; i < TNI_DTYPE_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) return dtypes[i];
    }
    return 0;
}

int64_t tn_dtype_get_bytes(tn_dtype dtype)
{
    return tn_dtype_bytes(dtype);
}

int32_t tn_dtype_is_floating(tn_dtype dtype)
{
    return tni_dtype_index(dtype) >= 0 && tni_dtype_category(dtype) == TNI_CATEGORY_FLOAT;
}

int32_t tn_dtype_is_complex(tn_dtype dtype)
{
    return TN_DTYPE_CODE(dtype) == TN_CODE_COMPLEX && tni_dtype_index(dtype) >= 0;
}

static int32_t is_wide_unsigned(tn_dtype dtype)
{
    return TN_DTYPE_CODE(dtype) == TN_CODE_UINT && dtype != TN_UINT8;
}

/* Two different dtypes of one category. */
static tn_dtype promote_alike(tn_dtype a, tn_dtype b)
{
    if (TN_DTYPE_BITS(a) != TN_DTYPE_BITS(b)) return TN_DTYPE_BITS(a) > TN_DTYPE_BITS(b) ? a : b;
    return TN_DTYPE_BITS(a) == 8 ? TN_INT16 : TN_FLOAT32; /* uint8 with int8; float16 with bfloat16 */
}

tn_dtype tn_promote_types(tn_dtype a, tn_dtype b)
{
    int32_t i = tni_dtype_index(a), j = tni_dtype_index(b);
    if (i < 0 || j < 0) return 0;
    if (i == j) return a;
    if (i > TNI_INDEX_COMPLEX128 || j > TNI_INDEX_COMPLEX128) return 0;
    if (i > j) return tn_promote_types(b, a);
    /* The list is in order of category, except for the wide unsigned dtypes: here a's category is at most b's. */
    int32_t low = tni_dtype_category(a), high = tni_dtype_category(b);
    if (is_wide_unsigned(a)) return high == TNI_CATEGORY_FLOAT ? b : 0;
    if (is_wide_unsigned(b)) return 0;
    if (low == high) return promote_alike(a, b);
    if (low != TNI_CATEGORY_FLOAT) return b;
    tn_dtype real = tni_dtype_to_real(b);
    return tni_dtype_to_complex(a == real ? a : promote_alike(a, real));
}

int32_t tn_can_cast(tn_dtype from, tn_dtype to)
{
    if (tni_dtype_index(from) < 0 || tni_dtype_index(to) < 0) return 0;
    int32_t a = tni_dtype_category(from), b = tni_dtype_category(to);
    if (a == TNI_CATEGORY_COMPLEX && b != TNI_CATEGORY_COMPLEX) return 0;
    if (a == TNI_CATEGORY_FLOAT && (b == TNI_CATEGORY_INT || b == TNI_CATEGORY_BOOL)) return 0;
    return from == to || b != TNI_CATEGORY_BOOL;
}

static tn_dtype promote_present(tn_dtype a, tn_dtype b)
{
    if (!a || a == b) return b;
    if (!b) return a;
    tn_dtype result = tn_promote_types(a, b);
    return result ? result : CLASH;
}

void tni_promotion_add(tni_promotion *p, tn_dtype dtype, int32_t is_zero_dim, int32_t is_wrapped)
{
    tn_dtype *kind = is_wrapped ? &p->wrapped : is_zero_dim ? &p->zeros : &p->dims;
    *kind = promote_present(*kind, dtype);
}

/* `lower` counts only where its category is above that of `higher`. */
static tn_dtype combine(tn_dtype higher, tn_dtype lower)
{
    if (!higher || !lower) return higher ? higher : lower;
    if (higher == CLASH || lower == CLASH) return CLASH;
    int32_t h = tni_dtype_category(higher), l = tni_dtype_category(lower);
    if (h == TNI_CATEGORY_COMPLEX) return higher;
    if (h == TNI_CATEGORY_FLOAT) return l == TNI_CATEGORY_COMPLEX ? tni_dtype_to_complex(higher) : higher;
    if (l == TNI_CATEGORY_COMPLEX)
        return lower; /* also for wide unsigned dtypes, which do not promote to it */
    if (l == TNI_CATEGORY_FLOAT || h == TNI_CATEGORY_BOOL) return promote_present(higher, lower);
    return higher;
}

tn_dtype tni_promotion_result(const tni_promotion *p, tn_dtype default_dtype)
{
    tn_dtype wrapped = p->wrapped;
    if (wrapped && wrapped != CLASH) {
        int32_t category = tni_dtype_category(wrapped);
        if (category == TNI_CATEGORY_FLOAT) wrapped = default_dtype;
        if (category == TNI_CATEGORY_COMPLEX) wrapped = tni_dtype_to_complex(default_dtype);
    }
    tn_dtype result = combine(p->dims, combine(p->zeros, wrapped));
    return result == CLASH ? 0 : result;
}

static const struct {
    tn_dtype dtype;
    const char *name;
} error_names[] = {
    {TN_BOOL, "Bool"},
    {TN_UINT8, "Byte"},
    {TN_INT8, "Char"},
    {TN_INT16, "Short"},
    {TN_INT32, "Int"},
    {TN_INT64, "Long"},
    {TN_FLOAT16, "Half"},
    {TN_BFLOAT16, "BFloat16"},
    {TN_FLOAT32, "Float"},
    {TN_FLOAT64, "Double"},
    {TN_COMPLEX32, "ComplexHalf"},
    {TN_COMPLEX64, "ComplexFloat"},
    {TN_COMPLEX128, "ComplexDouble"},
    {TN_UINT16, "UInt16"},
    {TN_UINT32, "UInt32"},
    {TN_UINT64, "UInt64"},
};

const char *tni_dtype_error_name(tn_dtype dtype)
{
    const char *name;
    for (uint32_t i = 0; i < sizeof error_names / sizeof *error_names; i++) {
        if (error_names[i].dtype == dtype) return error_names[i].name;
    }
    name = tn_dtype_name(dtype);
    return name ? name : "an unknown dtype";
}

const char *tni_dtype_cpp_name(tn_dtype dtype)
{
    static const struct {
        tn_dtype dtype;
        const char *name;
    } cpp_names[] = {{TN_BOOL, "bool"},
                     {TN_UINT8, "unsigned char"},
                     {TN_INT8, "signed char"},
                     {TN_INT16, "short int"},
                     {TN_INT32, "int"},
                     {TN_INT64, "long int"},
                     {TN_FLOAT16, "c10::Half"},
                     {TN_BFLOAT16, "c10::BFloat16"},
                     {TN_FLOAT32, "float"},
                     {TN_FLOAT64, "double"},
                     {TN_COMPLEX32, "c10::complex<c10::Half>"},
                     {TN_COMPLEX64, "c10::complex<float>"},
                     {TN_COMPLEX128, "c10::complex<double>"}};
    for (size_t i = 0; i < sizeof cpp_names / sizeof *cpp_names; i++) {
        if (cpp_names[i].dtype == dtype) return cpp_names[i].name;
    }
    return tni_dtype_error_name(dtype);
}
