/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kernels. Every row takes any strides; `data` names the kernel, its opcode and whether it walks
 * the nest. Lists of dtypes say where an operator is defined.
 */
#include "kernels.h"

#define INTEGERS TN_UINT8, TN_UINT16, TN_UINT32, TN_UINT64, TN_INT8, TN_INT16, TN_INT32, TN_INT64
#define FLOATS   TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64
#define COMPLEX  TN_COMPLEX64, TN_COMPLEX128
#define NARROW   TN_FLOAT8_E4M3FN, TN_FLOAT8_E4M3FNUZ, TN_FLOAT8_E5M2, TN_FLOAT8_E5M2FNUZ, TN_FLOAT8_E8M0FNU

const tn_dtype reference_dtypes[] = {TN_BOOL, INTEGERS, FLOATS, COMPLEX, 0};
static const tn_dtype stored[] = {TN_BOOL, INTEGERS, FLOATS, COMPLEX, NARROW, TN_COMPLEX32, 0};
static const tn_dtype integers[] = {INTEGERS, 0};
static const tn_dtype integral[] = {TN_BOOL, INTEGERS, 0};
static const tn_dtype floats[] = {FLOATS, 0};
static const tn_dtype inexact[] = {FLOATS, COMPLEX, 0};
static const tn_dtype real[] = {TN_BOOL, INTEGERS, FLOATS, 0};
static const tn_dtype real_numbers[] = {INTEGERS, FLOATS, 0};
#define all reference_dtypes

#define ROW(row_flags, name, signature, list, function, opcode, nest)                   \
    {                                                                                   \
        .size = sizeof(tn_kernel_row), .flags = (row_flags), .strides = TN_STRIDES_ANY, \
        .schema = name signature, .dtypes = list, .run = reference_enqueue,             \
        .data = &(const reference_kernel){name, function, opcode, nest},                \
    }
#define POINTWISE(name, signature, list, opcode) \
    ROW(0, "aten::" name, signature " -> Tensor", list, kernel_pointwise, opcode, 1)
/* Scalars combined with half tensors are not rounded, as in ATen. */
#define SCALED(name, list, opcode)                                                           \
    ROW(TN_ROW_WIDE_IMMEDIATE, "aten::" name, "(Tensor self, Tensor other) -> Tensor", list, \
        kernel_pointwise, opcode, 1)
#define UNARY(name, list, opcode)  POINTWISE(name, "(Tensor self)", list, opcode)
#define BINARY(name, list, opcode) POINTWISE(name, "(Tensor self, Tensor other)", list, opcode)
#define REDUCE(name, signature, list, opcode) \
    ROW(0, "aten::" name, signature " -> Tensor", list, kernel_reduce, opcode, 1)
#define TENSORS(name, signature, list, function, opcode) \
    ROW(TN_ROW_LAZY_BITS, "aten::" name, signature, list, function, opcode, 0)
/* A whole schema of op.h, which begins with `name`. */
#define PRIM(name, text, row_flags, list, function)                                                        \
    {                                                                                                      \
        .size = sizeof(tn_kernel_row), .flags = (row_flags), .strides = TN_STRIDES_ANY, .schema = text,    \
        .dtypes = list, .run = reference_enqueue, .data = &(const reference_kernel){name, function, 0, 0}, \
    }

#define ALPHA     "(Tensor self, Tensor other, *, Scalar alpha=1)"
#define DIMS      "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)"
#define WHOLE     "(Tensor self, *, ScalarType? dtype=None)"
#define EXTREMUM  "(Tensor self, int[1] dim=[], bool keepdim=False)"
#define POSITION  "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"
#define TRUTH     "(Tensor self, int dim, bool keepdim=False)"
#define TRUTHS    "(Tensor self, int[]? dim=None, bool keepdim=False)"
#define SCAN_ADDS "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"
#define SCAN_FROM "(Tensor self, int dim) -> (Tensor values, Tensor indices)"
#define PAIR      " -> (Tensor values, Tensor indices)"

static const tn_kernel_row rows[] = {
    PRIM("prim::fill", TN_SCHEMA_FILL, TN_ROW_LAZY_BITS | TN_ROW_CASTS, stored, kernel_fill),
    PRIM("prim::copy", TN_SCHEMA_COPY, TN_ROW_LAZY_BITS | TN_ROW_CASTS, stored, kernel_copy),
    PRIM("prim::iota", TN_SCHEMA_IOTA, 0, all, kernel_iota),
    PRIM("prim::random", TN_SCHEMA_RANDOM, 0, real, kernel_random),

    UNARY("abs", all, OP_ABS),
    UNARY("neg", all, OP_NEG),
    UNARY("sgn", all, OP_SGN),
    UNARY("sign", real, OP_SGN),
    UNARY("ceil", real, OP_CEIL),
    UNARY("floor", real, OP_FLOOR),
    UNARY("trunc", real, OP_TRUNC),
    UNARY("round", real, OP_ROUND),
    POINTWISE("round.decimals", "(Tensor self, *, int decimals)", real, OP_ROUND),
    UNARY("sqrt", inexact, OP_SQRT),
    UNARY("rsqrt", inexact, OP_RSQRT),
    UNARY("reciprocal", inexact, OP_RECIPROCAL),
    UNARY("exp", inexact, OP_EXP),
    UNARY("exp2", inexact, OP_EXP2),
    UNARY("expm1", inexact, OP_EXPM1),
    UNARY("log", inexact, OP_LOG),
    UNARY("log1p", inexact, OP_LOG1P),
    UNARY("log2", inexact, OP_LOG2),
    UNARY("log10", inexact, OP_LOG10),
    UNARY("sin", inexact, OP_SIN),
    UNARY("cos", inexact, OP_COS),
    UNARY("tan", inexact, OP_TAN),
    UNARY("asin", inexact, OP_ASIN),
    UNARY("acos", inexact, OP_ACOS),
    UNARY("atan", inexact, OP_ATAN),
    UNARY("sinh", inexact, OP_SINH),
    UNARY("cosh", inexact, OP_COSH),
    UNARY("tanh", inexact, OP_TANH),
    UNARY("asinh", inexact, OP_ASINH),
    UNARY("acosh", inexact, OP_ACOSH),
    UNARY("atanh", inexact, OP_ATANH),
    UNARY("sigmoid", inexact, OP_SIGMOID),
    UNARY("erf", floats, OP_ERF),
    UNARY("erfc", floats, OP_ERFC),
    UNARY("erfinv", floats, OP_ERFINV),
    UNARY("lgamma", floats, OP_LGAMMA),
    UNARY("digamma", floats, OP_DIGAMMA),
    POINTWISE("polygamma", "(int n, Tensor self)", floats, OP_POLYGAMMA),
    UNARY("i0", floats, OP_I0),
    UNARY("bitwise_not", integral, OP_BITWISE_NOT),
    UNARY("signbit", real, OP_SIGNBIT),
    ROW(0, "aten::frexp.Tensor", "(Tensor self) -> (Tensor mantissa, Tensor exponent)", floats,
        kernel_pointwise, OP_FREXP, 1),
    UNARY("conj_physical", all, OP_CONJ),
    UNARY("isnan", all, OP_ISNAN),
    UNARY("isinf", all, OP_ISINF),
    UNARY("isfinite", all, OP_ISFINITE),
    UNARY("logical_not", all, OP_LOGICAL_NOT),

    POINTWISE("add.Tensor", ALPHA, all, OP_ADD),
    POINTWISE("sub.Tensor", ALPHA, all, OP_SUB),
    POINTWISE("rsub.Tensor", ALPHA, all, OP_RSUB),
    SCALED("mul.Tensor", all, OP_MUL),
    SCALED("div.Tensor", inexact, OP_DIV),
    ROW(TN_ROW_WIDE_IMMEDIATE, "aten::div.Tensor_mode",
        "(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", real, kernel_pointwise, OP_DIV_MODE,
        1),
    SCALED("floor_divide", real_numbers, OP_FLOOR_DIVIDE),
    BINARY("remainder.Tensor", real_numbers, OP_REMAINDER),
    BINARY("fmod.Tensor", real_numbers, OP_FMOD),
    POINTWISE("pow.Tensor_Tensor", "(Tensor self, Tensor exponent)", all, OP_POW),
    POINTWISE("pow.Tensor_Scalar", "(Tensor self, Scalar exponent)", all, OP_POW_NUMBER),
    POINTWISE("pow.Scalar", "(Scalar self, Tensor exponent)", all, OP_NUMBER_POW),
    BINARY("atan2", floats, OP_ATAN2),
    BINARY("maximum", real, OP_MAXIMUM),
    BINARY("minimum", real, OP_MINIMUM),
    BINARY("eq.Tensor", all, OP_EQ),
    BINARY("ne.Tensor", all, OP_NE),
    BINARY("lt.Tensor", real, OP_LT),
    BINARY("le.Tensor", real, OP_LE),
    BINARY("gt.Tensor", real, OP_GT),
    BINARY("ge.Tensor", real, OP_GE),
    BINARY("bitwise_and.Tensor", integral, OP_BITWISE_AND),
    BINARY("bitwise_or.Tensor", integral, OP_BITWISE_OR),
    BINARY("bitwise_xor.Tensor", integral, OP_BITWISE_XOR),
    BINARY("bitwise_left_shift.Tensor", integers, OP_LEFT_SHIFT),
    BINARY("bitwise_right_shift.Tensor", integers, OP_RIGHT_SHIFT),
    BINARY("nextafter", floats, OP_NEXTAFTER),
    BINARY("gcd", integers, OP_GCD),
    BINARY("igamma", floats, OP_IGAMMA),
    BINARY("igammac", floats, OP_IGAMMAC),
    BINARY("logical_and", all, OP_LOGICAL_AND),
    BINARY("logical_or", all, OP_LOGICAL_OR),
    BINARY("logical_xor", all, OP_LOGICAL_XOR),
    POINTWISE("complex", "(Tensor real, Tensor imag)", floats, OP_COMPLEX),
    POINTWISE("where.self", "(Tensor condition, Tensor self, Tensor other)", all, OP_WHERE),

    REDUCE("sum", WHOLE, all, REDUCE_SUM),
    REDUCE("sum.dim_IntList", DIMS, all, REDUCE_SUM),
    REDUCE("mean", WHOLE, all, REDUCE_MEAN),
    REDUCE("mean.dim", DIMS, all, REDUCE_MEAN),
    REDUCE("prod", WHOLE, all, REDUCE_PROD),
    REDUCE("prod.dim_int", "(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None)", all,
           REDUCE_PROD),
    REDUCE("amax", EXTREMUM, real, REDUCE_AMAX),
    REDUCE("amin", EXTREMUM, real, REDUCE_AMIN),
    REDUCE("max", "(Tensor self)", real, REDUCE_AMAX),
    REDUCE("min", "(Tensor self)", real, REDUCE_AMIN),
    REDUCE("any", "(Tensor self)", all, REDUCE_ANY),
    REDUCE("any.dim", TRUTH, all, REDUCE_ANY),
    REDUCE("any.dims", TRUTHS, all, REDUCE_ANY),
    REDUCE("all", "(Tensor self)", all, REDUCE_ALL),
    REDUCE("all.dim", TRUTH, all, REDUCE_ALL),
    REDUCE("all.dims", TRUTHS, all, REDUCE_ALL),
    TENSORS("argmax", POSITION, real, kernel_position, POSITION_MAX),
    TENSORS("argmin", POSITION, real, kernel_position, POSITION_MIN),

    TENSORS("cumsum", SCAN_ADDS, all, kernel_scan, SCAN_SUM),
    TENSORS("cumprod", SCAN_ADDS, all, kernel_scan, SCAN_PROD),
    TENSORS("cummax", SCAN_FROM, real, kernel_scan, SCAN_MAX),
    TENSORS("cummin", SCAN_FROM, real, kernel_scan, SCAN_MIN),

    TENSORS("gather", "(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", all,
            kernel_gather, 0),
    TENSORS("scatter_.src", "(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", all,
            kernel_scatter, SCATTER_SOURCE),
    TENSORS("scatter_.value", "(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)", all,
            kernel_scatter, SCATTER_VALUE),
    TENSORS("scatter_add_", "(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", all,
            kernel_scatter, SCATTER_ADD),
    TENSORS("scatter_.reduce",
            "(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!)", all,
            kernel_scatter, SCATTER_REDUCE),
    TENSORS("scatter_.value_reduce",
            "(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor(a!)", all,
            kernel_scatter, SCATTER_VALUE_REDUCE),
    TENSORS("scatter_reduce_.two",
            "(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)"
            " -> Tensor(a!)",
            real, kernel_scatter, SCATTER_REDUCE_TWO),

    TENSORS("mm", "(Tensor self, Tensor mat2) -> Tensor", all, kernel_matmul, 0),
    TENSORS("bmm", "(Tensor self, Tensor mat2) -> Tensor", all, kernel_matmul, 0),

    TENSORS("sort", "(Tensor self, int dim=-1, bool descending=False)" PAIR, real, kernel_sort, SORT_PLAIN),
    TENSORS("sort.stable", "(Tensor self, *, bool? stable, int dim=-1, bool descending=False)" PAIR, real,
            kernel_sort, SORT_STABLE),
    {.size = sizeof(tn_kernel_row),
     .strides = TN_STRIDES_ANY,
     .schema = "aten::nonzero(Tensor self) -> Tensor",
     .dtypes = all,
     .run = reference_nonzero},
};

const tn_kernels_interface reference_kernels_interface =
    TN_INTERFACE(tn_kernels_interface, .count = sizeof(rows) / sizeof(rows[0]), .row_bytes = sizeof(rows[0]),
                 .rows = rows);
