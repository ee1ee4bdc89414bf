/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The twelve kernels that make a device (tenon/op.h), as plain loops in C over memory that the code can
 * address: what a new plugin starts with, and what its own kernels can be compared with. Slow, and right.
 * They compute one element at a time as a tn_number, so one function serves every dtype that tenon/kernel.h
 * knows, and one function serves each family of operators.
 *
 * All of it is inline and compiled into the plugin. It needs math.h, stdlib.h and string.h; a plugin defines
 * TN_PLUGIN first and links libm. A plugin takes the rows that it wants, by family, into its own table:
 *
 *     #define ROW(...) TN_PLAIN_ROW(can_run, __VA_ARGS__)
 *     static const tn_kernel_row rows[] = {TN_PLAIN_FILL(ROW), TN_PLAIN_COPY(ROW), ...};
 *
 * For a device that works later TN_PLAIN_ROW_LATER names a function that queues a copy of the call; whoever
 * runs the copy calls the function that `data` holds. A family that is left out runs on the CPU, or as a
 * composite.
 */
#ifndef TENON_PLAIN_KERNELS_H
#define TENON_PLAIN_KERNELS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kernel.h>
#include <tenon/plugin.h>

TN_BEGIN_DECLS

/* What `data` of every row points to. Members that a family does not use are 0. */
typedef struct tn_plain_row {
    tn_kernel_fn run;
    int32_t opcode; /* TN_PLAIN_... */
    int32_t reserved;
    double (*unary)(double); /* in place of an opcode: a function of libm */
    double (*binary)(double, double);
} tn_plain_row;

static inline const tn_plain_row *tn_plain_row_of(const tn_call *call)
{
    return (const tn_plain_row *)call->data;
}

static inline tn_strided tn_plain_tensor(tn_value v)
{
    return tn_strided_tensor(tn_desc(v.as.tensor));
}

static inline int32_t tn_plain_fail(const tn_call *call, int32_t status, const char *message)
{
    return call->host->error(call->host->context, status, message);
}

/* ---- Pointwise ---------------------------------------------------------------------------------------- */

#define TN_PLAIN_ABS        1
#define TN_PLAIN_NEG        2
#define TN_PLAIN_SGN        3
#define TN_PLAIN_RSQRT      4
#define TN_PLAIN_RECIPROCAL 5
#define TN_PLAIN_SIGMOID    6
#define TN_PLAIN_ISINF      7
#define TN_PLAIN_ADD        16
#define TN_PLAIN_SUB        17
#define TN_PLAIN_RSUB       18
#define TN_PLAIN_MUL        19
#define TN_PLAIN_DIV        20
#define TN_PLAIN_MAXIMUM    21
#define TN_PLAIN_MINIMUM    22
#define TN_PLAIN_AND        23
#define TN_PLAIN_OR         24
#define TN_PLAIN_XOR        25
#define TN_PLAIN_WHERE      26
/* Of rows that can_run and queues must tell apart. */
#define TN_PLAIN_MOVES  32 /* copy */
#define TN_PLAIN_DRAWS  33 /* random numbers */
#define TN_PLAIN_COUNTS 34 /* nonzero, which needs its input when it is called */
/* COMPARE, with the orders of two numbers for which the answer is true. */
#define TN_PLAIN_COMPARE   256
#define TN_PLAIN_LESS      512
#define TN_PLAIN_EQUAL     1024
#define TN_PLAIN_GREATER   2048
#define TN_PLAIN_UNORDERED 4096

static inline tn_number tn_plain_both(double f, uint64_t i)
{
    tn_number n;
    n.f = f;
    n.i = (int64_t)i;
    return n;
}

static inline int32_t tn_plain_order(tn_number a, tn_number b)
{
    if (a.f != a.f || b.f != b.f) return TN_PLAIN_UNORDERED;
    if (a.f != b.f) return a.f < b.f ? TN_PLAIN_LESS : TN_PLAIN_GREATER;
    /* Two int64 may round to one double. */
    return a.i < b.i ? TN_PLAIN_LESS : a.i > b.i ? TN_PLAIN_GREATER : TN_PLAIN_EQUAL;
}

/* `c` is alpha for ADD and SUB, else the third tensor. Integers wrap. */
static inline tn_number tn_plain_compute(int32_t opcode, tn_number a, tn_number b, tn_number c)
{
    uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i, alpha = (uint64_t)c.i;
    switch (opcode) {
    case TN_PLAIN_ABS:
        return tn_plain_both(fabs(a.f), a.i < 0 ? 0 - x : x);
    case TN_PLAIN_NEG:
        return tn_plain_both(-a.f, 0 - x);
    case TN_PLAIN_SGN:
        return tn_number_whole((a.f > 0) - (a.f < 0));
    case TN_PLAIN_RSQRT:
        return tn_number_real(1 / sqrt(a.f));
    case TN_PLAIN_RECIPROCAL:
        return tn_number_real(1 / a.f);
    case TN_PLAIN_SIGMOID:
        return tn_number_real(1 / (1 + exp(-a.f)));
    case TN_PLAIN_ISINF:
        return tn_number_whole(fabs(a.f) == (double)INFINITY);
    case TN_PLAIN_ADD:
        return tn_plain_both(a.f + b.f * c.f, x + y * alpha);
    case TN_PLAIN_SUB:
        return tn_plain_both(a.f - b.f * c.f, x - y * alpha);
    case TN_PLAIN_RSUB:
        return tn_plain_both(b.f - a.f * c.f, y - x * alpha);
    case TN_PLAIN_MUL:
        return tn_plain_both(a.f * b.f, x * y);
    case TN_PLAIN_DIV:
        return tn_number_real(a.f / b.f);
    case TN_PLAIN_MAXIMUM: /* NaN if either is */
        return a.f != a.f || tn_plain_order(a, b) == TN_PLAIN_GREATER ? a : b;
    case TN_PLAIN_MINIMUM:
        return a.f != a.f || tn_plain_order(a, b) == TN_PLAIN_LESS ? a : b;
    case TN_PLAIN_AND:
        return tn_number_whole(a.i & b.i);
    case TN_PLAIN_OR:
        return tn_number_whole(a.i | b.i);
    case TN_PLAIN_XOR:
        return tn_number_whole(a.i ^ b.i);
    case TN_PLAIN_WHERE:
        return a.i ? b : c;
    default: /* COMPARE */
        return tn_number_whole((tn_plain_order(a, b) & opcode) != 0);
    }
}

/* Up to three inputs in the order of the schema: tensors are operands of the nest, numbers are arguments. */
static inline int32_t tn_plain_pointwise(void *self, const tn_call *call)
{
    const tn_plain_row *row = tn_plain_row_of(call);
    tn_strided out = tn_strided_operand(call->nest, 0), from[3];
    tn_number in[3] = {{0, 0}, {0, 0}, {0, 0}};
    int32_t is_tensor[3] = {0, 0, 0};
    uint32_t operand = 1;
    (void)self;
    for (uint32_t i = 0; i < call->n_args; i++) {
        is_tensor[i] = call->args[i].tag == TN_TAG_TENSOR;
        if (is_tensor[i])
            from[i] = tn_strided_operand(call->nest, operand++);
        else
            in[i] = tn_number_of(call->args[i]);
    }
    for (int64_t e = 0; e < call->nest->numel; e++) {
        for (uint32_t i = 0; i < call->n_args; i++)
            if (is_tensor[i]) in[i] = tn_strided_get(&from[i], e);
        tn_strided_put(&out, e,
                       row->unary    ? tn_number_real(row->unary(in[0].f))
                       : row->binary ? tn_number_real(row->binary(in[0].f, in[1].f))
                                     : tn_plain_compute(row->opcode, in[0], in[1], in[2]));
    }
    return TN_OK;
}

/* ---- Reductions and scans ------------------------------------------------------------------------------ */

/* A row folds with ADD, MUL, or COMPARE and the orders in which the next element replaces the best one.
 * It may ask for the mean in place of the sum, or for the position of the best element. */
#define TN_PLAIN_MEAN     8192
#define TN_PLAIN_POSITION 16384
#define TN_PLAIN_TRUTH    32768
#define TN_PLAIN_OPCODE   255

/* The first NaN stays; where equal elements replace each other, the last one does. */
static inline int32_t tn_plain_replaces(int32_t opcode, tn_number next, tn_number best)
{
    if (next.f != next.f) return opcode & TN_PLAIN_EQUAL || best.f == best.f;
    return tn_plain_order(next, best) & opcode;
}

/*
 * Each line is folded from its first element on, and the running result is stored at every step. A scan
 * keeps all of them; the output of a reduction has stride 0 in the reduced dimensions, so that the last one
 * remains.
 */
static inline int32_t tn_plain_fold(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    int32_t how = tn_plain_row_of(call)->opcode, opcode = how & TN_PLAIN_OPCODE;
    tn_strided out = tn_strided_operand(nest, 0), in = tn_strided_operand(nest, nest->n_outputs);
    tn_strided positions = tn_strided_operand(nest, 1); /* of cummax and cummin */
    int64_t lines = 1, position = 0;
    (void)self;
    for (uint32_t d = 0; d < nest->kept; d++) lines *= nest->sizes[d];
    for (int64_t line = 0; line < lines; line++) {
        tn_number best = tn_number_whole(opcode == TN_PLAIN_MUL);
        for (int64_t i = 0, e = line; e < nest->numel; i++, e += lines) {
            tn_number next = tn_strided_get(&in, e);
            if (how & TN_PLAIN_TRUTH || out.dtype == TN_BOOL) next = tn_number_whole(next.f != 0);
            if (!(how & TN_PLAIN_COMPARE)) {
                best = tn_plain_compute(opcode, best, next, tn_number_whole(1));
            } else if (i == 0 || tn_plain_replaces(how, next, best)) {
                best = next;
                position = i;
            }
            tn_strided_put(&out, e,
                           how & TN_PLAIN_MEAN       ? tn_number_real(best.f / (double)(i + 1))
                           : how & TN_PLAIN_POSITION ? tn_number_whole(position)
                                                     : best);
            if (nest->n_outputs == 2) tn_strided_put(&positions, e, tn_number_whole(position));
        }
    }
    return TN_OK;
}

/* ---- By position: gather, scatter, sort, nonzero ------------------------------------------------------- */

/* gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) */
static inline int32_t tn_plain_gather(void *self, const tn_call *call)
{
    tn_strided in = tn_plain_tensor(call->args[0]), index = tn_plain_tensor(call->args[2]);
    tn_strided out = tn_plain_tensor(call->outs[0]);
    uint32_t dim = tn_strided_dim(&in, tn_value_as_int(call->args[1]));
    (void)self;
    for (int64_t i = 0; i < tn_strided_numel(&index); i++) {
        const void *from = tn_strided_pick(&in, dim, &index, i);
        if (!from) return tn_plain_fail(call, TN_E_INDEX, "gather: argument 'index' is out of bounds");
        tn_strided_put(&out, i, tn_number_load(in.dtype, from));
    }
    return TN_OK;
}

/* scatter_(Tensor(a!) self, int dim, Tensor index, Tensor src | Scalar value): `self` is the output. With
 * the opcode ADD the source is added, else it replaces. */
static inline int32_t tn_plain_scatter(void *self, const tn_call *call)
{
    tn_strided out = tn_plain_tensor(call->outs[0]), index = tn_plain_tensor(call->args[2]), source = index;
    uint32_t dim = tn_strided_dim(&out, tn_value_as_int(call->args[1]));
    int32_t is_tensor = call->args[3].tag == TN_TAG_TENSOR;
    tn_number value = tn_number_of(call->args[3]);
    (void)self;
    if (is_tensor) source = tn_plain_tensor(call->args[3]);
    memcpy(source.sizes, index.sizes, sizeof(source.sizes)); /* the source may be larger than the index */
    for (int64_t i = 0; i < tn_strided_numel(&index); i++) {
        void *to = tn_strided_pick(&out, dim, &index, i);
        if (!to) return tn_plain_fail(call, TN_E_INDEX, "scatter: argument 'index' is out of bounds");
        if (is_tensor) value = tn_strided_get(&source, i);
        tn_number sum =
            tn_plain_compute(TN_PLAIN_ADD, tn_number_load(out.dtype, to), value, tn_number_whole(1));
        tn_number_store(out.dtype, to, tn_plain_row_of(call)->opcode == TN_PLAIN_ADD ? sum : value);
    }
    return TN_OK;
}

typedef struct tn_plain_item {
    tn_number value;
    int64_t position;
    int64_t sign; /* -1: descending */
} tn_plain_item;

/* NaN is the largest; equal elements keep their order, which makes the sort stable. */
static inline int tn_plain_compare(const void *left, const void *right)
{
    const tn_plain_item *a = (const tn_plain_item *)left, *b = (const tn_plain_item *)right;
    int32_t order = tn_plain_order(a->value, b->value);
    int sign = order == TN_PLAIN_UNORDERED ? (a->value.f != a->value.f) - (b->value.f != b->value.f)
                                           : (order == TN_PLAIN_GREATER) - (order == TN_PLAIN_LESS);
    return sign ? sign * (int)a->sign : a->position < b->position ? -1 : 1;
}

/* sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) */
static inline int32_t tn_plain_sort(void *self, const tn_call *call)
{
    tn_strided in = tn_plain_tensor(call->args[0]), values = tn_plain_tensor(call->outs[0]);
    tn_strided positions = tn_plain_tensor(call->outs[1]);
    uint32_t dim = tn_strided_dim(&in, tn_value_as_int(call->args[2])), last = in.rank - 1;
    int64_t size = in.sizes[dim], lines = size ? tn_strided_numel(&in) / size : 0;
    tn_plain_item *items = (tn_plain_item *)malloc(((size_t)size + 1) * sizeof(*items));
    (void)self;
    if (!items) return tn_plain_fail(call, TN_E_OUT_OF_MEMORY, "sort: out of host memory");
    tn_strided_swap(&in, dim, last); /* lines are counted as those of a scan */
    tn_strided_swap(&values, dim, last);
    tn_strided_swap(&positions, dim, last);
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t i = 0; i < size; i++) {
            items[i].value = tn_strided_get(&in, line + i * lines);
            items[i].position = i;
            items[i].sign = tn_value_as_bool(call->args[3]) ? -1 : 1;
        }
        qsort(items, (size_t)size, sizeof(*items), tn_plain_compare);
        for (int64_t i = 0; i < size; i++) {
            tn_strided_put(&values, line + i * lines, items[i].value);
            tn_strided_put(&positions, line + i * lines, tn_number_whole(items[i].position));
        }
    }
    free(items);
    return TN_OK;
}

/*
 * nonzero(Tensor self): the size of the result depends on the data, so it is counted first. `address` gives
 * the addresses of memory that the host has none for, else NULL. A device that works later waits for the
 * stream first.
 */
static inline int32_t tn_plain_nonzero_at(const tn_call *call, tn_address_fn address)
{
    const tn_tensor_desc *t = tn_desc(call->args[0].as.tensor);
    tn_strided in = tn_strided_tensor(t), out;
    int64_t sizes[2] = {0, t->rank}, at = 0;
    if (address && t->allocation) in.data = (char *)address(t->allocation, t->byte_offset);
    for (int64_t i = 0; i < tn_strided_numel(&in); i++) sizes[0] += tn_strided_get(&in, i).f != 0;
    int32_t status = call->host->resize_output(call, 0, 2, sizes);
    if (status || !sizes[0] || !sizes[1]) return status;
    t = tn_desc(call->outs[0].as.tensor);
    out = tn_strided_tensor(t);
    if (address) out.data = (char *)address(t->allocation, t->byte_offset);
    for (int64_t i = 0; at < sizes[0] * sizes[1]; i++) {
        if (tn_strided_get(&in, i).f == 0) continue;
        for (int64_t d = 0, rest = i; d < sizes[1]; rest /= in.sizes[d++])
            tn_strided_put(&out, at + sizes[1] - 1 - d, tn_number_whole(rest % in.sizes[d]));
        at += sizes[1];
    }
    return TN_OK;
}

static inline int32_t tn_plain_nonzero(void *self, const tn_call *call)
{
    (void)self;
    return tn_plain_nonzero_at(call, NULL);
}

/* ---- fill, copy, iota, products, random numbers -------------------------------------------------------- */

static inline int32_t tn_plain_fill(void *self, const tn_call *call)
{
    tn_strided out = tn_plain_tensor(call->outs[0]);
    (void)self;
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) tn_strided_put(&out, i, tn_number_of(call->args[1]));
    return TN_OK;
}

/* Within one dtype, which may be one that the device does not compute in, it moves bytes. */
static inline int32_t tn_plain_copy(void *self, const tn_call *call)
{
    tn_strided out = tn_plain_tensor(call->outs[0]), in = tn_plain_tensor(call->args[1]);
    size_t bytes = (size_t)tn_dtype_bytes(in.dtype);
    (void)self;
    tn_strided_expand(&in, &out);
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) {
        if (in.dtype == out.dtype)
            memcpy(tn_strided_at(&out, i), tn_strided_at(&in, i), bytes);
        else
            tn_strided_put(&out, i, tn_strided_get(&in, i));
    }
    return TN_OK;
}

/* start + i * step; an integer if both are. */
static inline int32_t tn_plain_iota(void *self, const tn_call *call)
{
    tn_strided out = tn_plain_tensor(call->outs[0]);
    tn_number start = tn_number_of(call->args[1]), step = tn_number_of(call->args[2]);
    int32_t is_real = call->args[1].tag == TN_TAG_FLOAT || call->args[2].tag == TN_TAG_FLOAT;
    (void)self;
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) {
        tn_number n = tn_plain_compute(TN_PLAIN_ADD, start, step, tn_number_whole(i));
        tn_strided_put(&out, i, is_real ? tn_number_real(n.f) : n);
    }
    return TN_OK;
}

/* mm(Tensor self, Tensor mat2) and bmm: the three loops of the definition. */
static inline int32_t tn_plain_product(void *self, const tn_call *call)
{
    tn_strided a = tn_plain_tensor(call->args[0]), b = tn_plain_tensor(call->args[1]);
    tn_strided out = tn_plain_tensor(call->outs[0]);
    int64_t inner = a.sizes[0], columns = b.sizes[0], rows = a.sizes[1];
    (void)self;
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) {
        int64_t row = i / columns, left = row * inner, right = row / rows * inner * columns + i % columns;
        tn_number sum = tn_number_whole(0);
        for (int64_t k = 0; k < inner; k++)
            sum = tn_plain_compute(TN_PLAIN_ADD, sum, tn_strided_get(&a, left + k),
                                   tn_strided_get(&b, right + k * columns));
        tn_strided_put(&out, i, sum);
    }
    return TN_OK;
}

/* A uniform number in [0, 1) for element i, or in (0, 1] with `up` 1. */
static inline double tn_plain_uniform(const tn_call *call, uint64_t i, int32_t is_wide, uint32_t up)
{
    uint64_t seed = (uint64_t)call->args[4].as.i, offset = (uint64_t)call->args[5].as.i;
    uint64_t word = tn_random_word(seed, offset, i, is_wide);
    return is_wide ? tn_uniform_double(word, up) : (double)tn_uniform_float((uint32_t)word, up);
}

/* Box-Muller: elements 2k and 2k + 1 share a radius and an angle. */
static inline double tn_plain_normal(const tn_call *call, uint64_t i, int32_t is_wide)
{
    double radius = sqrt(-2 * log(tn_plain_uniform(call, i & ~(uint64_t)1, is_wide, 1)));
    double angle = 6.283185307179586 * tn_plain_uniform(call, i | 1, is_wide, 0);
    return radius * (i % 2 ? sin(angle) : cos(angle));
}

/* prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset) */
static inline int32_t tn_plain_random(void *self, const tn_call *call)
{
    tn_strided out = tn_plain_tensor(call->outs[0]);
    tn_number a = tn_number_of(call->args[2]), b = tn_number_of(call->args[3]);
    int32_t is_wide = TN_DTYPE_BITS(out.dtype) == 64;
    int64_t distribution = call->args[1].as.i;
    (void)self;
    for (int64_t i = 0; i < tn_strided_numel(&out); i++) {
        double n = distribution == TN_RANDOM_NORMAL ? tn_plain_normal(call, (uint64_t)i, is_wide) * b.f + a.f
                                                    : tn_plain_uniform(call, (uint64_t)i, is_wide, 0);
        if (distribution == TN_RANDOM_BERNOULLI) n = n < a.f;
        if (distribution == TN_RANDOM_UNIFORM) /* scaled in the precision of the dtype */
            n = is_wide ? n * (b.f - a.f) + a.f : (double)((float)n * ((float)b.f - (float)a.f) + (float)a.f);
        tn_strided_put(&out, i, tn_number_real(n));
    }
    return TN_OK;
}

/* ---- Rows --------------------------------------------------------------------------------------------- */

/* TN_SCHEMA_RANDOM without `state`: random numbers cannot be captured. */
#define TN_PLAIN_RANDOM_SCHEMA                                                                      \
    "prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset) -> " \
    "Tensor(a!)"

/* The dtypes of the rows: what tn_number can hold. A device with fewer says so in its facts and in
 * can_run. */
#define TN_PLAIN_INTEGERS TN_UINT8, TN_INT8, TN_INT16, TN_UINT16, TN_INT32, TN_UINT32, TN_INT64
#define TN_PLAIN_FLOATS   TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16
static const tn_dtype tn_plain_all[] = {TN_BOOL, TN_PLAIN_INTEGERS, TN_PLAIN_FLOATS, 0};
static const tn_dtype tn_plain_numbers[] = {TN_PLAIN_INTEGERS, TN_PLAIN_FLOATS, 0};
static const tn_dtype tn_plain_wholes[] = {TN_BOOL, TN_PLAIN_INTEGERS, 0};
static const tn_dtype tn_plain_reals[] = {TN_PLAIN_FLOATS, 0};
static const tn_dtype tn_plain_drawn[] = {TN_FLOAT32, TN_FLOAT64,
                                          0}; /* 16-bit floats use other bits of a word */

/*
 * can_run for these rows on a device that computes in `dtypes` (0 ends them): NULL for yes, else why not. A
 * row's own list is about the first tensor; here every tensor is looked at.
 */
static inline const char *tn_plain_can_run(const tn_call *call, const tn_dtype *dtypes)
{
    int32_t opcode = tn_plain_row_of(call)->opcode;
    int64_t distribution = opcode == TN_PLAIN_DRAWS ? call->args[1].as.i : 0;
    if (opcode == TN_PLAIN_MOVES &&
        tn_desc(call->args[0].as.tensor)->dtype == tn_desc(call->args[1].as.tensor)->dtype)
        return NULL;
    if (!tn_call_dtypes_in(call, dtypes)) return "a tensor has a dtype that the device does not compute in";
    if (distribution > TN_RANDOM_NORMAL && distribution != TN_RANDOM_BERNOULLI)
        return "the device draws uniform, normal and Bernoulli numbers only";
    return NULL;
}

/* One row, in C: schema, dtypes, flags (TN_ROW_...), function. What follows initialises the rest of a
 * tn_plain_row: `.opcode = TN_PLAIN_ADD`. */
#define TN_PLAIN_ROW(can, text, list, row_flags, function, ...) \
    TN_PLAIN_ROW_LATER(function, can, text, list, row_flags, function, __VA_ARGS__)
#define TN_PLAIN_ROW_LATER(queue, can, text, list, row_flags, function, ...)                                \
    {                                                                                                       \
        .size = sizeof(tn_kernel_row), .flags = row_flags, .strides = TN_STRIDES_ANY, .schema = text,       \
        .dtypes = list, .run = queue, .can_run = can, .data = &(const tn_plain_row){function, __VA_ARGS__}, \
    }

/*
 * The rows of each family, for a macro ROW(schema, dtypes, flags, function, ...) of the plugin's; what
 * follows the function initialises the rest of a tn_plain_row. `tenon ops NAME` prints the schema of an
 * operator.
 */
#define TN_PLAIN_FILL(ROW) ROW(TN_SCHEMA_FILL, tn_plain_all, 0, tn_plain_fill, .opcode = 0)
#define TN_PLAIN_COPY(ROW) ROW(TN_SCHEMA_COPY, NULL, 0, tn_plain_copy, .opcode = TN_PLAIN_MOVES)
#define TN_PLAIN_IOTA(ROW) ROW(TN_SCHEMA_IOTA, tn_plain_all, 0, tn_plain_iota, .opcode = 0)
#define TN_PLAIN_RANDOM(ROW) \
    ROW(TN_PLAIN_RANDOM_SCHEMA, tn_plain_drawn, 0, tn_plain_random, .opcode = TN_PLAIN_DRAWS)

#define TN_PLAIN_LIBM(ROW, name) \
    ROW("aten::" #name "(Tensor self) -> Tensor", tn_plain_reals, 0, tn_plain_pointwise, .unary = name)
#define TN_PLAIN_LIBM2(ROW, signature, name) \
    ROW("aten::" signature " -> Tensor", tn_plain_reals, 0, tn_plain_pointwise, .binary = name)
#define TN_PLAIN_UNARY(ROW, name, list, code) \
    ROW("aten::" name "(Tensor self) -> Tensor", list, 0, tn_plain_pointwise, .opcode = code)
#define TN_PLAIN_BINARY(ROW, name, list, flags, code)                                           \
    ROW("aten::" name "(Tensor self, Tensor other) -> Tensor", list, flags, tn_plain_pointwise, \
        .opcode = code)
#define TN_PLAIN_SCALED(ROW, name, list, code)                                             \
    ROW("aten::" name "(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", list, 0, \
        tn_plain_pointwise, .opcode = code)
#define TN_PLAIN_POINTWISE(ROW)                                                                         \
    TN_PLAIN_LIBM(ROW, ceil), TN_PLAIN_LIBM(ROW, floor), TN_PLAIN_LIBM(ROW, trunc),                     \
        TN_PLAIN_LIBM(ROW, sqrt), TN_PLAIN_LIBM(ROW, exp), TN_PLAIN_LIBM(ROW, exp2),                    \
        TN_PLAIN_LIBM(ROW, expm1), TN_PLAIN_LIBM(ROW, log), TN_PLAIN_LIBM(ROW, log1p),                  \
        TN_PLAIN_LIBM(ROW, log2), TN_PLAIN_LIBM(ROW, log10), TN_PLAIN_LIBM(ROW, sin),                   \
        TN_PLAIN_LIBM(ROW, cos), TN_PLAIN_LIBM(ROW, tan), TN_PLAIN_LIBM(ROW, asin),                     \
        TN_PLAIN_LIBM(ROW, acos), TN_PLAIN_LIBM(ROW, atan), TN_PLAIN_LIBM(ROW, sinh),                   \
        TN_PLAIN_LIBM(ROW, cosh), TN_PLAIN_LIBM(ROW, tanh), TN_PLAIN_LIBM(ROW, asinh),                  \
        TN_PLAIN_LIBM(ROW, acosh), TN_PLAIN_LIBM(ROW, atanh), TN_PLAIN_LIBM(ROW, erf),                  \
        TN_PLAIN_LIBM(ROW, erfc),                                                                       \
        ROW("aten::round(Tensor self) -> Tensor", tn_plain_reals, 0, tn_plain_pointwise,                \
            .unary = nearbyint),                                                                        \
        TN_PLAIN_UNARY(ROW, "abs", tn_plain_numbers, TN_PLAIN_ABS),                                     \
        TN_PLAIN_UNARY(ROW, "neg", tn_plain_numbers, TN_PLAIN_NEG),                                     \
        TN_PLAIN_UNARY(ROW, "sgn", tn_plain_all, TN_PLAIN_SGN),                                         \
        TN_PLAIN_UNARY(ROW, "rsqrt", tn_plain_reals, TN_PLAIN_RSQRT),                                   \
        TN_PLAIN_UNARY(ROW, "reciprocal", tn_plain_reals, TN_PLAIN_RECIPROCAL),                         \
        TN_PLAIN_UNARY(ROW, "sigmoid", tn_plain_reals, TN_PLAIN_SIGMOID),                               \
        TN_PLAIN_UNARY(ROW, "logical_not", tn_plain_all, TN_PLAIN_COMPARE | TN_PLAIN_EQUAL), /* to 0 */ \
        TN_PLAIN_UNARY(ROW, "isnan", tn_plain_all, TN_PLAIN_COMPARE | TN_PLAIN_UNORDERED),              \
        TN_PLAIN_UNARY(ROW, "isinf", tn_plain_all, TN_PLAIN_ISINF),                                     \
        TN_PLAIN_SCALED(ROW, "add.Tensor", tn_plain_all, TN_PLAIN_ADD),                                 \
        TN_PLAIN_SCALED(ROW, "sub.Tensor", tn_plain_numbers, TN_PLAIN_SUB),                             \
        TN_PLAIN_SCALED(ROW, "rsub.Tensor", tn_plain_numbers, TN_PLAIN_RSUB),                           \
        TN_PLAIN_BINARY(ROW, "mul.Tensor", tn_plain_all, TN_ROW_WIDE_IMMEDIATE, TN_PLAIN_MUL),          \
        TN_PLAIN_BINARY(ROW, "div.Tensor", tn_plain_reals, TN_ROW_WIDE_IMMEDIATE, TN_PLAIN_DIV),        \
        TN_PLAIN_LIBM2(ROW, "pow.Tensor_Tensor(Tensor self, Tensor exponent)", pow),                    \
        TN_PLAIN_LIBM2(ROW, "pow.Tensor_Scalar(Tensor self, Scalar exponent)", pow),                    \
        TN_PLAIN_LIBM2(ROW, "fmod.Tensor(Tensor self, Tensor other)", fmod),                            \
        TN_PLAIN_LIBM2(ROW, "atan2(Tensor self, Tensor other)", atan2),                                 \
        TN_PLAIN_BINARY(ROW, "maximum", tn_plain_all, 0, TN_PLAIN_MAXIMUM),                             \
        TN_PLAIN_BINARY(ROW, "minimum", tn_plain_all, 0, TN_PLAIN_MINIMUM),                             \
        TN_PLAIN_BINARY(ROW, "eq.Tensor", tn_plain_all, 0, TN_PLAIN_COMPARE | TN_PLAIN_EQUAL),          \
        TN_PLAIN_BINARY(ROW, "ne.Tensor", tn_plain_all, 0,                                              \
                        TN_PLAIN_COMPARE | TN_PLAIN_LESS | TN_PLAIN_GREATER | TN_PLAIN_UNORDERED),      \
        TN_PLAIN_BINARY(ROW, "lt.Tensor", tn_plain_all, 0, TN_PLAIN_COMPARE | TN_PLAIN_LESS),           \
        TN_PLAIN_BINARY(ROW, "le.Tensor", tn_plain_all, 0,                                              \
                        TN_PLAIN_COMPARE | TN_PLAIN_LESS | TN_PLAIN_EQUAL),                             \
        TN_PLAIN_BINARY(ROW, "gt.Tensor", tn_plain_all, 0, TN_PLAIN_COMPARE | TN_PLAIN_GREATER),        \
        TN_PLAIN_BINARY(ROW, "ge.Tensor", tn_plain_all, 0,                                              \
                        TN_PLAIN_COMPARE | TN_PLAIN_GREATER | TN_PLAIN_EQUAL),                          \
        TN_PLAIN_BINARY(ROW, "bitwise_and.Tensor", tn_plain_wholes, 0, TN_PLAIN_AND),                   \
        TN_PLAIN_BINARY(ROW, "bitwise_or.Tensor", tn_plain_wholes, 0, TN_PLAIN_OR),                     \
        TN_PLAIN_BINARY(ROW, "bitwise_xor.Tensor", tn_plain_wholes, 0, TN_PLAIN_XOR),                   \
        ROW("aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", tn_plain_all, 0, \
            tn_plain_pointwise, .opcode = TN_PLAIN_WHERE)

#define TN_PLAIN_FOLD(ROW, signature, code) \
    ROW("aten::" signature, tn_plain_all, 0, tn_plain_fold, .opcode = code)
#define TN_PLAIN_DIMS  "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"
#define TN_PLAIN_TOTAL "(Tensor self, *, ScalarType? dtype=None) -> Tensor"
#define TN_PLAIN_REDUCE(ROW)                                                                   \
    TN_PLAIN_FOLD(ROW, "sum" TN_PLAIN_TOTAL, TN_PLAIN_ADD),                                    \
        TN_PLAIN_FOLD(ROW, "sum.dim_IntList" TN_PLAIN_DIMS, TN_PLAIN_ADD),                     \
        TN_PLAIN_FOLD(ROW, "mean" TN_PLAIN_TOTAL, TN_PLAIN_ADD | TN_PLAIN_MEAN),               \
        TN_PLAIN_FOLD(ROW, "mean.dim" TN_PLAIN_DIMS, TN_PLAIN_ADD | TN_PLAIN_MEAN),            \
        TN_PLAIN_FOLD(ROW, "prod" TN_PLAIN_TOTAL, TN_PLAIN_MUL),                               \
        TN_PLAIN_FOLD(ROW, "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",   \
                      TN_PLAIN_COMPARE | TN_PLAIN_GREATER),                                    \
        TN_PLAIN_FOLD(ROW, "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",   \
                      TN_PLAIN_COMPARE | TN_PLAIN_LESS),                                       \
        TN_PLAIN_FOLD(ROW, "any(Tensor self) -> Tensor",                                       \
                      TN_PLAIN_COMPARE | TN_PLAIN_GREATER | TN_PLAIN_TRUTH),                   \
        TN_PLAIN_FOLD(ROW, "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",      \
                      TN_PLAIN_COMPARE | TN_PLAIN_GREATER | TN_PLAIN_TRUTH),                   \
        TN_PLAIN_FOLD(ROW, "all(Tensor self) -> Tensor", TN_PLAIN_MUL | TN_PLAIN_TRUTH),       \
        TN_PLAIN_FOLD(ROW, "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",      \
                      TN_PLAIN_MUL | TN_PLAIN_TRUTH),                                          \
        TN_PLAIN_FOLD(ROW, "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", \
                      TN_PLAIN_COMPARE | TN_PLAIN_GREATER | TN_PLAIN_POSITION),                \
        TN_PLAIN_FOLD(ROW, "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", \
                      TN_PLAIN_COMPARE | TN_PLAIN_LESS | TN_PLAIN_POSITION)
#define TN_PLAIN_SCAN(ROW)                                                                                 \
    TN_PLAIN_FOLD(ROW, "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", TN_PLAIN_ADD), \
        TN_PLAIN_FOLD(ROW, "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",           \
                      TN_PLAIN_MUL),                                                                       \
        TN_PLAIN_FOLD(ROW, "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",              \
                      TN_PLAIN_COMPARE | TN_PLAIN_GREATER | TN_PLAIN_EQUAL),                               \
        TN_PLAIN_FOLD(ROW, "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",              \
                      TN_PLAIN_COMPARE | TN_PLAIN_LESS | TN_PLAIN_EQUAL)

#define TN_PLAIN_GATHER(ROW)                                                                     \
    ROW("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", \
        tn_plain_all, 0, tn_plain_gather, .opcode = 0)
#define TN_PLAIN_SCATTER(ROW)                                                                           \
    ROW("aten::scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",         \
        tn_plain_all, 0, tn_plain_scatter, .opcode = 0),                                                \
        ROW("aten::scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)", \
            tn_plain_all, 0, tn_plain_scatter, .opcode = 0),                                            \
        ROW("aten::scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",     \
            tn_plain_all, 0, tn_plain_scatter, .opcode = TN_PLAIN_ADD)
#define TN_PLAIN_PRODUCT(ROW)                                                                                \
    ROW("aten::mm(Tensor self, Tensor mat2) -> Tensor", tn_plain_numbers, 0, tn_plain_product, .opcode = 0), \
        ROW("aten::bmm(Tensor self, Tensor mat2) -> Tensor", tn_plain_numbers, 0, tn_plain_product,          \
            .opcode = 0)
#define TN_PLAIN_SORT(ROW)                                                                       \
    ROW("aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> " \
        "(Tensor values, Tensor indices)",                                                       \
        tn_plain_all, 0, tn_plain_sort, .opcode = 0)
#define TN_PLAIN_NONZERO(ROW) \
    ROW("aten::nonzero(Tensor self) -> Tensor", tn_plain_all, 0, tn_plain_nonzero, .opcode = TN_PLAIN_COUNTS)

TN_END_DECLS
#endif
