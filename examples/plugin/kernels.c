/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The twelve kernels, plain and slow, and at the bottom the table of the operators that they serve. The host
 * has checked, promoted, broadcast and allocated before it calls one (tenon/op.h). What has no row here runs
 * as a composite of those that have, or on the CPU, counted.
 *
 * Elements are numbers of tenon/kernel.h, a real and a whole one: kernels compute both, whatever the dtype.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "plugin.h"
#include <tenon/kernel.h>

typedef tn_number number;
typedef tn_strided array;
static const number one = {1, 1};

static array tensor(tn_value v)
{
    return tn_strided_tensor(tn_desc(v.as.tensor));
}

/* ---- Pointwise ---------------------------------------------------------------------------------------- */

enum { ABS, NEG, SGN, RSQRT, RECIPROCAL, SIGMOID, ISINF };
enum { ADD = 16, SUB, RSUB, MUL, DIV, MAXIMUM, MINIMUM, AND, OR, XOR, WHERE };
/* In place of an opcode: COMPARE with the orders of two numbers that mean yes. */
enum { COMPARE = 256, LESS = 512, EQUAL = 1024, GREATER = 2048, UNORDERED = 4096 };

static int32_t order(number a, number b)
{
    if (isnan(a.f) || isnan(b.f)) return UNORDERED;
    if (a.f != b.f) return a.f < b.f ? LESS : GREATER;
    return a.i < b.i ? LESS : a.i > b.i ? GREATER : EQUAL; /* doubles do not tell all int64 apart */
}

/* `c` is alpha of ADD and SUB, else the third tensor. Whole numbers wrap. */
static number compute(int32_t opcode, number a, number b, number c)
{
    uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i, alpha = (uint64_t)c.i;
    switch (opcode) {
    case ABS:
        return (number){fabs(a.f), (int64_t)(a.i < 0 ? 0 - x : x)};
    case NEG:
        return (number){-a.f, (int64_t)(0 - x)};
    case SGN:
        return tn_number_whole((a.f > 0) - (a.f < 0));
    case RSQRT:
        return tn_number_real(1 / sqrt(a.f));
    case RECIPROCAL:
        return tn_number_real(1 / a.f);
    case SIGMOID:
        return tn_number_real(1 / (1 + exp(-a.f)));
    case ADD:
        return (number){a.f + b.f * c.f, (int64_t)(x + y * alpha)};
    case SUB:
        return (number){a.f - b.f * c.f, (int64_t)(x - y * alpha)};
    case RSUB:
        return compute(SUB, b, a, c);
    case MUL:
        return (number){a.f * b.f, (int64_t)(x * y)};
    case DIV:
        return tn_number_real(a.f / b.f);
    case MAXIMUM: /* a NaN wins */
        return isnan(a.f) || order(a, b) == GREATER ? a : b;
    case MINIMUM:
        return isnan(a.f) || order(a, b) == LESS ? a : b;
    case AND:
        return tn_number_whole(a.i & b.i);
    case OR:
        return tn_number_whole(a.i | b.i);
    case XOR:
        return tn_number_whole(a.i ^ b.i);
    case ISINF:
        return tn_number_whole(isinf(a.f) != 0);
    case WHERE:
        return a.i ? b : c;
    default: /* COMPARE */
        return tn_number_whole((order(a, b) & opcode) != 0);
    }
}

/* What a row computes: a function of libm, or an opcode. */
typedef struct computation {
    int32_t opcode;
    double (*libm)(double);
    double (*libm2)(double, double);
} computation;

/* Inputs stand in the order of the schema, tensors as operands of the nest and numbers as arguments. */
static int32_t pointwise(void *self, const tn_call *call)
{
    const computation *c = call->data;
    array out = tn_strided_operand(call->nest, 0), from[3] = {{0}};
    number in[3] = {{0}};
    for (uint32_t i = 0, operand = 1; i < call->n_args; i++) {
        if (call->args[i].tag == TN_TAG_TENSOR)
            from[i] = tn_strided_operand(call->nest, operand++);
        else
            in[i] = tn_number_of(call->args[i]);
    }
    for (int64_t e = 0; e < call->nest->numel; e++) {
        for (uint32_t i = 0; i < call->n_args; i++)
            if (from[i].data) in[i] = tn_strided_get(&from[i], e);
        tn_strided_put(&out, e,
                       c->libm    ? tn_number_real(c->libm(in[0].f))
                       : c->libm2 ? tn_number_real(c->libm2(in[0].f, in[1].f))
                                  : compute(c->opcode, in[0], in[1], in[2]));
    }
    return TN_OK;
}

/* ---- Reductions and scans ------------------------------------------------------------------------------ */

/* A row folds with ADD, MUL, or COMPARE and the orders in which the next element replaces the best; and it
 * may want of that the mean, or the position of the best. */
enum { MEAN = 8192, POSITION = 16384, TRUTH = 32768, OPCODE = 255 };

/* The first NaN stays; in scans the last, as the last of equals does. */
static int replaces(int32_t opcode, number next, number best)
{
    if (isnan(next.f)) return opcode & EQUAL || !isnan(best.f);
    return order(next, best) & opcode;
}

/* A running result takes one element after the other. A scan keeps them all; the output of a reduction has
 * stride 0 in the dimensions that are reduced, so that what is put there last stays. */
static int32_t fold(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    int32_t how = ((const computation *)call->data)->opcode, opcode = how & OPCODE;
    array out = tn_strided_operand(nest, 0), in = tn_strided_operand(nest, nest->n_outputs);
    array positions = tn_strided_operand(nest, 1); /* of cummax and cummin */
    int64_t lines = 1, position = 0;
    for (uint32_t d = 0; d < nest->kept; d++) lines *= nest->sizes[d];
    for (int64_t line = 0; line < lines; line++) {
        number best = tn_number_whole(opcode == MUL);
        for (int64_t i = 0, e = line; e < nest->numel; i++, e += lines) {
            number next = tn_strided_get(&in, e);
            if (how & TRUTH || out.dtype == TN_BOOL) next = tn_number_whole(next.f != 0);
            if (!(how & COMPARE)) {
                best = compute(opcode, best, next, one);
            } else if (i == 0 || replaces(how, next, best)) {
                best = next;
                position = i;
            }
            tn_strided_put(&out, e,
                           how & MEAN       ? tn_number_real(best.f / (double)(i + 1))
                           : how & POSITION ? tn_number_whole(position)
                                            : best);
            if (nest->n_outputs == 2) tn_strided_put(&positions, e, tn_number_whole(position));
        }
    }
    return TN_OK;
}

/* ---- By position: gather, scatter, sort, nonzero ------------------------------------------------------- */

static int32_t gather(void *self, const tn_call *call)
{
    array in = tensor(call->args[0]), index = tensor(call->args[2]), out = tensor(call->outs[0]);
    uint32_t dim = tn_strided_dim(&in, tn_value_as_int(call->args[1]));
    for (int64_t i = 0; i < tn_strided_numel(&index); i++) {
        const void *from = tn_strided_pick(&in, dim, &index, i);
        if (!from) return fail(call->host, TN_E_INDEX, "gather: an index is out of bounds");
        tn_strided_put(&out, i, tn_number_load(in.dtype, from));
    }
    return TN_OK;
}

/* The result holds self already. The source is a tensor or a number, and the row says whether it is added. */
static int32_t scatter(void *self, const tn_call *call)
{
    array out = tensor(call->outs[0]), index = tensor(call->args[2]), source = {0};
    uint32_t dim = tn_strided_dim(&out, tn_value_as_int(call->args[1]));
    number value = tn_number_of(call->args[3]);
    int32_t opcode = ((const computation *)call->data)->opcode;
    if (call->args[3].tag == TN_TAG_TENSOR) source = tensor(call->args[3]);
    memcpy(source.sizes, index.sizes, sizeof(source.sizes)); /* it may be larger */
    for (int64_t i = 0; i < tn_strided_numel(&index); i++) {
        void *to = tn_strided_pick(&out, dim, &index, i);
        if (!to) return fail(call->host, TN_E_INDEX, "scatter: an index is out of bounds");
        if (source.data) value = tn_strided_get(&source, i);
        tn_number_store(out.dtype, to,
                        opcode == ADD ? compute(ADD, tn_number_load(out.dtype, to), value, one) : value);
    }
    return TN_OK;
}

typedef struct item {
    number value;
    int64_t position;
    int64_t sign; /* -1: descending */
} item;

/* A NaN is the largest; equal ones stay in the order in which they came, which makes it stable. */
static int compare_items(const void *left, const void *right)
{
    const item *a = left, *b = right;
    int32_t o = order(a->value, b->value);
    int sign = o == UNORDERED ? !!isnan(a->value.f) - !!isnan(b->value.f) : (o == GREATER) - (o == LESS);
    return sign ? sign * (int)a->sign : a->position < b->position ? -1 : 1;
}

/* sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) */
static int32_t sort(void *self, const tn_call *call)
{
    array in = tensor(call->args[0]), values = tensor(call->outs[0]), positions = tensor(call->outs[1]);
    uint32_t dim = tn_strided_dim(&in, tn_value_as_int(call->args[2])), last = in.rank - 1;
    int64_t size = in.sizes[dim], lines = size ? tn_strided_numel(&in) / size : 0;
    int64_t sign = tn_value_as_bool(call->args[3]) ? -1 : 1;
    item *items = malloc(((size_t)size + 1) * sizeof(*items));
    if (!items) return fail(call->host, TN_E_OUT_OF_MEMORY, "acme: no memory to sort a line");
    tn_strided_swap(&in, dim, last); /* lines are counted as those of a scan */
    tn_strided_swap(&values, dim, last);
    tn_strided_swap(&positions, dim, last);
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t i = 0; i < size; i++) items[i] = (item){tn_strided_get(&in, line + i * lines), i, sign};
        qsort(items, (size_t)size, sizeof(*items), compare_items);
        for (int64_t i = 0; i < size; i++) {
            tn_strided_put(&values, line + i * lines, items[i].value);
            tn_strided_put(&positions, line + i * lines, tn_number_whole(items[i].position));
        }
    }
    free(items);
    return TN_OK;
}

/* The size of the result depends on the data: it is counted first, then asked for. */
static int32_t nonzero(void *self, const tn_call *call)
{
    array in = tensor(call->args[0]), out;
    int64_t sizes[] = {0, tn_desc(call->args[0].as.tensor)->rank}, at = 0;
    for (int64_t i = 0; i < tn_strided_numel(&in); i++) sizes[0] += tn_strided_get(&in, i).f != 0;
    int32_t status = call->host->resize_output(call, 0, 2, sizes);
    if (status) return status;
    out = tensor(call->outs[0]);
    for (int64_t i = 0; at < sizes[0] * sizes[1]; i++) {
        if (tn_strided_get(&in, i).f == 0) continue;
        for (int64_t d = 0, rest = i; d < sizes[1]; rest /= in.sizes[d++])
            tn_strided_put(&out, at + sizes[1] - 1 - d, tn_number_whole(rest % in.sizes[d]));
        at += sizes[1];
    }
    return TN_OK;
}

/* ---- fill, copy, iota, products, random numbers -------------------------------------------------------- */

static int32_t fill(void *self, const tn_call *call)
{
    array out = tensor(call->outs[0]);
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) tn_strided_put(&out, i, tn_number_of(call->args[1]));
    return TN_OK;
}

/* Within one dtype, which may be one that the device does not compute in, it moves bytes. */
static int32_t copy(void *self, const tn_call *call)
{
    array out = tensor(call->outs[0]), in = tensor(call->args[1]);
    size_t bytes = (size_t)tn_dtype_bytes(in.dtype);
    tn_strided_expand(&in, &out);
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) {
        if (in.dtype == out.dtype)
            memcpy(tn_strided_at(&out, i), tn_strided_at(&in, i), bytes);
        else
            tn_strided_put(&out, i, tn_strided_get(&in, i));
    }
    return TN_OK;
}

/* start + i * step, whole if both are. */
static int32_t iota(void *self, const tn_call *call)
{
    array out = tensor(call->outs[0]);
    number start = tn_number_of(call->args[1]), step = tn_number_of(call->args[2]);
    int is_real = call->args[1].tag == TN_TAG_FLOAT || call->args[2].tag == TN_TAG_FLOAT;
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) {
        number n = compute(ADD, start, step, tn_number_whole(i));
        tn_strided_put(&out, i, is_real ? tn_number_real(n.f) : n);
    }
    return TN_OK;
}

/* mm(Tensor self, Tensor mat2) and bmm: the three loops of the definition. */
static int32_t product(void *self, const tn_call *call)
{
    array a = tensor(call->args[0]), b = tensor(call->args[1]), out = tensor(call->outs[0]);
    int64_t inner = a.sizes[0], columns = b.sizes[0], rows = a.sizes[1];
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) {
        int64_t row = i / columns, left = row * inner, right = row / rows * inner * columns + i % columns;
        number sum = tn_number_whole(0);
        for (int64_t k = 0; k < inner; k++)
            sum = compute(ADD, sum, tn_strided_get(&a, left + k), tn_strided_get(&b, right + k * columns));
        tn_strided_put(&out, i, sum);
    }
    return TN_OK;
}

/* A uniform number in [0, 1) from the word of element i, or with `up` 1 in (0, 1]; tenon/random.h. */
static double uniform(const tn_call *call, uint64_t i, int is_wide, uint64_t up)
{
    uint64_t seed = (uint64_t)call->args[4].as.i, offset = (uint64_t)call->args[5].as.i;
    uint64_t word = tn_random_word(seed, offset, i, is_wide);
    return is_wide ? (double)((word >> 11) + up) * 0x1p-53 : (double)((word >> 8) + up) * 0x1p-24;
}

/* Box-Muller: elements 2k and 2k + 1 share a radius and an angle. */
static double normal(const tn_call *call, uint64_t i, int is_wide)
{
    double radius = sqrt(-2 * log(uniform(call, i & ~(uint64_t)1, is_wide, 1)));
    double angle = 6.283185307179586 * uniform(call, i | 1, is_wide, 0);
    return radius * (i % 2 ? sin(angle) : cos(angle));
}

/* prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset) */
static int32_t random_numbers(void *self, const tn_call *call)
{
    array out = tensor(call->outs[0]);
    number a = tn_number_of(call->args[2]), b = tn_number_of(call->args[3]);
    int is_wide = TN_DTYPE_BITS(out.dtype) == 64;
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) {
        double n = call->args[1].as.i == TN_RANDOM_NORMAL ? normal(call, (uint64_t)i, is_wide) * b.f + a.f
                                                          : uniform(call, (uint64_t)i, is_wide, 0);
        if (call->args[1].as.i == TN_RANDOM_BERNOULLI) n = n < a.f;
        if (call->args[1].as.i == TN_RANDOM_UNIFORM) /* scaled in the precision of the dtype */
            n = is_wide ? n * (b.f - a.f) + a.f : (double)((float)n * ((float)b.f - (float)a.f) + (float)a.f);
        tn_strided_put(&out, i, tn_number_real(n));
    }
    return TN_OK;
}

/* ---- The table ------------------------------------------------------------------------------------------
 */

const tn_dtype acme_dtypes[] = {TN_BOOL, TN_UINT8, TN_INT32, TN_INT64, TN_FLOAT32, TN_FLOAT64, 0};
static const tn_dtype wholes[] = {TN_BOOL, TN_UINT8, TN_INT32, TN_INT64, 0};
static const tn_dtype numbers[] = {TN_UINT8, TN_INT32, TN_INT64, TN_FLOAT32, TN_FLOAT64, 0};
static const tn_dtype reals[] = {TN_FLOAT32, TN_FLOAT64, 0};
static const tn_dtype drawn[] = {TN_FLOAT32, TN_FLOAT64, 0}; /* half types take other bits of a word */
#define all acme_dtypes

/* `dtypes` of a row speaks of the first tensor; other arguments and results may be of another one. */
static const char *can_run(void *self, const tn_call *call)
{
    return tn_call_dtypes_in(call, acme_dtypes) ? NULL : "acme: a tensor has a dtype that the device lacks";
}

static const char *can_copy(void *self, const tn_call *call)
{
    int is_same = tn_desc(call->args[0].as.tensor)->dtype == tn_desc(call->args[1].as.tensor)->dtype;
    return is_same ? NULL : can_run(self, call);
}

static const char *can_draw(void *self, const tn_call *call)
{
    int64_t distribution = call->args[1].as.i;
    if (distribution <= TN_RANDOM_NORMAL || distribution == TN_RANDOM_BERNOULLI) return NULL;
    return "acme: random numbers are uniform, normal or Bernoulli ones";
}

/* What follows the function is a computation, of families that have members. */
#define ROW(text, list, function, check, ...)                                                     \
    {                                                                                             \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = text, .dtypes = list, \
        .run = function, .can_run = check, .data = &(const computation)                           \
        {                                                                                         \
            __VA_ARGS__                                                                           \
        }                                                                                         \
    }
#define ATEN(signature, list, function, ...) ROW("aten::" signature, list, function, can_run, __VA_ARGS__)
#define POINTWISE(signature, list, ...)      ATEN(signature " -> Tensor", list, pointwise, __VA_ARGS__)
#define UNARY(name, list, code)              POINTWISE(name "(Tensor self)", list, .opcode = code)
#define BINARY(name, list, code)             POINTWISE(name "(Tensor self, Tensor other)", list, .opcode = code)
#define LIBM(name)                           POINTWISE(#name "(Tensor self)", reals, .libm = name)
#define FOLD(signature, code)                ATEN(signature, all, fold, .opcode = code)
#define LIBM_ROWS                                                                                         \
    LIBM(ceil), LIBM(floor), LIBM(trunc), LIBM(sqrt), LIBM(exp), LIBM(exp2), LIBM(expm1), LIBM(log),      \
        LIBM(log1p), LIBM(log2), LIBM(log10), LIBM(sin), LIBM(cos), LIBM(tan), LIBM(asin), LIBM(acos),    \
        LIBM(atan), LIBM(sinh), LIBM(cosh), LIBM(tanh), LIBM(asinh), LIBM(acosh), LIBM(atanh), LIBM(erf), \
        LIBM(erfc)

/* `tenon ops NAME` prints the text of an operator. */
static const tn_kernel_row rows[] = {
    ROW(TN_SCHEMA_FILL, all, fill, can_run, .opcode = 0),
    ROW(TN_SCHEMA_COPY, NULL, copy, can_copy, .opcode = 0),
    ROW(TN_SCHEMA_IOTA, all, iota, can_run, .opcode = 0),
    ROW(TN_SCHEMA_RANDOM, drawn, random_numbers, can_draw, .opcode = 0),
    LIBM_ROWS,
    POINTWISE("round(Tensor self)", reals, .libm = nearbyint), /* half to even */
    UNARY("abs", numbers, ABS),
    UNARY("neg", numbers, NEG),
    UNARY("sgn", all, SGN),
    UNARY("rsqrt", reals, RSQRT),
    UNARY("reciprocal", reals, RECIPROCAL),
    UNARY("sigmoid", reals, SIGMOID),
    UNARY("logical_not", all, COMPARE | EQUAL), /* to the number that is not there, and 0 */
    UNARY("isnan", all, COMPARE | UNORDERED),
    UNARY("isinf", all, ISINF),
    POINTWISE("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", all, .opcode = ADD),
    POINTWISE("sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", numbers, .opcode = SUB),
    POINTWISE("rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", numbers, .opcode = RSUB),
    BINARY("mul.Tensor", all, MUL),
    BINARY("div.Tensor", reals, DIV),
    POINTWISE("pow.Tensor_Tensor(Tensor self, Tensor exponent)", reals, .libm2 = pow),
    POINTWISE("pow.Tensor_Scalar(Tensor self, Scalar exponent)", reals, .libm2 = pow),
    POINTWISE("fmod.Tensor(Tensor self, Tensor other)", reals, .libm2 = fmod),
    POINTWISE("atan2(Tensor self, Tensor other)", reals, .libm2 = atan2),
    BINARY("maximum", all, MAXIMUM),
    BINARY("minimum", all, MINIMUM),
    BINARY("eq.Tensor", all, COMPARE | EQUAL),
    BINARY("ne.Tensor", all, COMPARE | LESS | GREATER | UNORDERED),
    BINARY("lt.Tensor", all, COMPARE | LESS),
    BINARY("le.Tensor", all, COMPARE | LESS | EQUAL),
    BINARY("gt.Tensor", all, COMPARE | GREATER),
    BINARY("ge.Tensor", all, COMPARE | GREATER | EQUAL),
    BINARY("bitwise_and.Tensor", wholes, AND),
    BINARY("bitwise_or.Tensor", wholes, OR),
    BINARY("bitwise_xor.Tensor", wholes, XOR),
    POINTWISE("where.self(Tensor condition, Tensor self, Tensor other)", all, .opcode = WHERE),
    FOLD("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", ADD),
    FOLD("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
         ADD),
    FOLD("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", ADD | MEAN),
    FOLD("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
         ADD | MEAN),
    FOLD("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", MUL),
    FOLD("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", COMPARE | GREATER),
    FOLD("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", COMPARE | LESS),
    FOLD("any(Tensor self) -> Tensor", COMPARE | GREATER | TRUTH),
    FOLD("any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", COMPARE | GREATER | TRUTH),
    FOLD("all(Tensor self) -> Tensor", MUL | TRUTH),
    FOLD("all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", MUL | TRUTH),
    FOLD("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", COMPARE | GREATER | POSITION),
    FOLD("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", COMPARE | LESS | POSITION),
    FOLD("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", ADD),
    FOLD("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", MUL),
    FOLD("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", COMPARE | GREATER | EQUAL),
    FOLD("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", COMPARE | LESS | EQUAL),
    ATEN("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", all, gather,
         .opcode = 0),
    ATEN("scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", all, scatter,
         .opcode = WHERE),
    ATEN("scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)", all, scatter,
         .opcode = WHERE),
    ATEN("scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", all, scatter,
         .opcode = ADD),
    ATEN("mm(Tensor self, Tensor mat2) -> Tensor", numbers, product, .opcode = 0),
    ATEN("bmm(Tensor self, Tensor mat2) -> Tensor", numbers, product, .opcode = 0),
    ATEN("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, "
         "Tensor indices)",
         all, sort, .opcode = 0),
    ATEN("nonzero(Tensor self) -> Tensor", all, nonzero, .opcode = 0),
};

const tn_kernels_interface acme_kernels = {.size = sizeof(tn_kernels_interface),
                                           .count = sizeof(rows) / sizeof(rows[0]),
                                           .row_bytes = sizeof(rows[0]),
                                           .rows = rows};
