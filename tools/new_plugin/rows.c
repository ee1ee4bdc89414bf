/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kernels: what the device can do. A row has the text of the operator as `tenon ops NAME` prints
 * it; what has no row here runs as a composite of these, or on the CPU, where it is counted.
 */
#include <math.h>
#include "plugin.h"

const tn_dtype all_dtypes[] = {TN_BOOL, TN_UINT8, TN_INT32, TN_INT64, TN_FLOAT32, TN_FLOAT64, 0};
static const tn_dtype reals[] = {TN_FLOAT32, TN_FLOAT64, 0};
static const tn_dtype wholes[] = {TN_BOOL, TN_UINT8, TN_INT32, TN_INT64, 0};
static const tn_dtype integers[] = {TN_UINT8, TN_INT32, TN_INT64, 0};
static const tn_dtype numbers[] = {TN_UINT8, TN_INT32, TN_INT64, TN_FLOAT32, TN_FLOAT64, 0};
#define all all_dtypes

/* `dtypes` of a row speaks of the first tensor; results and other arguments may be of another one. */
const char *dtypes_are_known(void *self, const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args + call->n_outs; i++) {
        tn_value v = i < call->n_args ? call->args[i] : call->outs[i - call->n_args];
        const tn_dtype *known = all_dtypes;
        if (v.tag != TN_TAG_TENSOR) continue;
        while (*known && *known != tn_desc(v.as.tensor)->dtype) known++;
        if (!*known) return "acme: a tensor of the call has a dtype that the device lacks";
    }
    return NULL;
}

#define ROW(text, list, function, check, what)                                                    \
    {                                                                                             \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = text, .dtypes = list, \
        .run = function, .can_run = check, .data = what                                           \
    }
#define PLAIN(text, list, function, what) ROW(text, list, function, dtypes_are_known, what)
#define OPCODE(n)                         (&(const int32_t){n})
#define POINTWISE(signature, list, ...) \
    PLAIN("aten::" signature " -> Tensor", list, pointwise, (&(const computation){__VA_ARGS__}))
#define LIBM(name, function)       POINTWISE(name "(Tensor self)", reals, .one = function)
#define UNARY(name, list, code)    POINTWISE(name "(Tensor self)", list, .opcode = code)
#define BINARY(name, list, code)   POINTWISE(name "(Tensor self, Tensor other)", list, .opcode = code)
#define REDUCE(signature, list, n) PLAIN("aten::" signature " -> Tensor", list, reduce, OPCODE(n))
#define SCAN(signature, n)         PLAIN("aten::" signature, all, scan, OPCODE(n))
#define SCATTER(signature, word)   ROW("aten::" signature " -> Tensor(a!)", all, scatter, scatter_can_run, word)
#define PAIR                       " -> (Tensor values, Tensor indices)"

static const tn_kernel_row rows[] = {
    PLAIN(TN_SCHEMA_FILL, all, fill, NULL),
    PLAIN(TN_SCHEMA_COPY, all, copy, NULL),
    PLAIN(TN_SCHEMA_IOTA, all, iota, NULL),
    PLAIN(TN_SCHEMA_RANDOM, all, random_numbers, NULL),

    LIBM("ceil", ceil),
    LIBM("floor", floor),
    LIBM("trunc", trunc),
    LIBM("round", nearbyint), /* half to even */
    LIBM("sqrt", sqrt),
    LIBM("exp", exp),
    LIBM("exp2", exp2),
    LIBM("expm1", expm1),
    LIBM("log", log),
    LIBM("log1p", log1p),
    LIBM("log2", log2),
    LIBM("log10", log10),
    LIBM("sin", sin),
    LIBM("cos", cos),
    LIBM("tan", tan),
    LIBM("asin", asin),
    LIBM("acos", acos),
    LIBM("atan", atan),
    LIBM("sinh", sinh),
    LIBM("cosh", cosh),
    LIBM("tanh", tanh),
    LIBM("asinh", asinh),
    LIBM("acosh", acosh),
    LIBM("atanh", atanh),
    LIBM("erf", erf),
    LIBM("erfc", erfc),
    UNARY("abs", numbers, ABS),
    UNARY("neg", numbers, NEG),
    UNARY("sgn", all, SGN),
    UNARY("sign", all, SGN),
    UNARY("rsqrt", reals, RSQRT),
    UNARY("reciprocal", reals, RECIPROCAL),
    UNARY("sigmoid", reals, SIGMOID),
    UNARY("bitwise_not", integers, BITWISE_NOT),
    UNARY("logical_not", all, LOGICAL_NOT),
    UNARY("isnan", all, ISNAN),

    POINTWISE("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", all, .opcode = ADD),
    POINTWISE("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", numbers, .opcode = SUB),
    BINARY("mul.Tensor", all, MUL),
    BINARY("div.Tensor", reals, DIV),
    POINTWISE("fmod.Tensor(Tensor self, Tensor other)", reals, .two = fmod),
    POINTWISE("pow.Tensor_Tensor(Tensor self, Tensor exponent)", reals, .two = pow),
    POINTWISE("atan2(Tensor self, Tensor other)", reals, .two = atan2),
    BINARY("maximum", all, MAXIMUM),
    BINARY("minimum", all, MINIMUM),
    BINARY("eq.Tensor", all, EQ),
    BINARY("ne.Tensor", all, NE),
    BINARY("lt.Tensor", all, LT),
    BINARY("le.Tensor", all, LE),
    BINARY("gt.Tensor", all, GT),
    BINARY("ge.Tensor", all, GE),
    BINARY("bitwise_and.Tensor", wholes, BITWISE_AND),
    BINARY("bitwise_or.Tensor", wholes, BITWISE_OR),
    BINARY("bitwise_xor.Tensor", wholes, BITWISE_XOR),
    POINTWISE("where.self(Tensor condition, Tensor self, Tensor other)", all, .opcode = WHERE),

    REDUCE("sum(Tensor self, *, ScalarType? dtype=None)", all, SUM),
    REDUCE("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)", all,
           SUM),
    REDUCE("mean(Tensor self, *, ScalarType? dtype=None)", reals, MEAN),
    REDUCE("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)", reals, MEAN),
    REDUCE("prod(Tensor self, *, ScalarType? dtype=None)", all, PROD),
    REDUCE("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None)", all, PROD),
    REDUCE("amax(Tensor self, int[1] dim=[], bool keepdim=False)", all, AMAX),
    REDUCE("amin(Tensor self, int[1] dim=[], bool keepdim=False)", all, AMIN),
    REDUCE("max(Tensor self)", all, AMAX),
    REDUCE("min(Tensor self)", all, AMIN),
    REDUCE("any(Tensor self)", all, ANY),
    REDUCE("any.dim(Tensor self, int dim, bool keepdim=False)", all, ANY),
    REDUCE("any.dims(Tensor self, int[]? dim=None, bool keepdim=False)", all, ANY),
    REDUCE("all(Tensor self)", all, ALL),
    REDUCE("all.dim(Tensor self, int dim, bool keepdim=False)", all, ALL),
    REDUCE("all.dims(Tensor self, int[]? dim=None, bool keepdim=False)", all, ALL),
    REDUCE("argmax(Tensor self, int? dim=None, bool keepdim=False)", all, ARGMAX),
    REDUCE("argmin(Tensor self, int? dim=None, bool keepdim=False)", all, ARGMIN),

    SCAN("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", SUM),
    SCAN("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", PROD),
    SCAN("cummax(Tensor self, int dim)" PAIR, AMAX),
    SCAN("cummin(Tensor self, int dim)" PAIR, AMIN),

    PLAIN("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", all,
          gather, NULL),
    SCATTER("scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src)", "overwrite"),
    SCATTER("scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value)", "overwrite"),
    SCATTER("scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src)", "add"),
    SCATTER("scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce)", NULL),
    SCATTER("scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce)",
            NULL),
    SCATTER("scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *,"
            " bool include_self=True)",
            NULL),

    PLAIN("aten::mm(Tensor self, Tensor mat2) -> Tensor", numbers, product, NULL),
    PLAIN("aten::bmm(Tensor self, Tensor mat2) -> Tensor", numbers, product, NULL),
    PLAIN("aten::sort(Tensor self, int dim=-1, bool descending=False)" PAIR, all, sort, OPCODE(1)),
    PLAIN("aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False)" PAIR, all,
          sort, OPCODE(2)),
    PLAIN("aten::nonzero(Tensor self) -> Tensor", all, nonzero, NULL),
};

const tn_kernels_interface kernels_interface = {
    .size = sizeof(tn_kernels_interface),
    .count = sizeof(rows) / sizeof(rows[0]),
    .row_bytes = sizeof(rows[0]),
    .rows = rows,
};
