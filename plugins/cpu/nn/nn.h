/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels of this room share: reading the arguments of a call, splitting work into chunks that do
 * not depend on the number of threads, scratch memory. It knows no operator and no dtype; types.h has the
 * latter.
 */
#ifndef TENON_CPU_NN_H
#define TENON_CPU_NN_H

#define TN_PLUGIN
#include <tenon/plugin.h>
#include <stdbool.h>

/* ---- Arguments --------------------------------------------------------------------------------------- */

typedef tn_tensor_desc tensor;

/* The tensor at argument i, or NULL where it is absent. */
static inline const tensor *arg_tensor(const tn_call *call, uint32_t i)
{
    tn_tensor *t = i < call->n_args ? tn_value_as_tensor(call->args[i]) : NULL;
    return t ? tn_desc(t) : NULL;
}
/* The tensor of output i, or NULL where nobody asked for it. */
static inline const tensor *out_tensor(const tn_call *call, uint32_t i)
{
    tn_tensor *t = i < call->n_outs ? tn_value_as_tensor(call->outs[i]) : NULL;
    return t ? tn_desc(t) : NULL;
}
static inline int64_t arg_int(const tn_call *call, uint32_t i)
{
    return tn_value_as_int(call->args[i]);
}
static inline double arg_float(const tn_call *call, uint32_t i)
{
    return tn_value_as_float(call->args[i]);
}
static inline bool arg_is_none(const tn_call *call, uint32_t i)
{
    return i >= call->n_args || call->args[i].tag == TN_TAG_NONE;
}
/* Item k of the list of integers at argument i; a list of one item stands for all, an empty or absent one for
 * `otherwise`. */
static inline int64_t arg_item(const tn_call *call, uint32_t i, uint32_t k, int64_t otherwise)
{
    const tn_value *v = &call->args[i];
    if (v->tag == TN_TAG_INT) return v->as.i;
    if (v->tag != TN_TAG_INTS || v->count == 0) return otherwise;
    return v->as.ints[v->count == 1 ? 0 : k];
}
/* Item k of the list of truth values at argument i. */
static inline bool arg_mask(const tn_call *call, uint32_t i, uint32_t k)
{
    const tn_value *v = &call->args[i];
    return v->tag == TN_TAG_BOOLS && k < v->count && v->as.bools[k];
}
/* The real and imaginary part of the number at argument i. */
static inline void arg_number(const tn_call *call, uint32_t i, double out[2])
{
    const tn_value *v = &call->args[i];
    out[0] = tn_value_as_float(*v);
    out[1] = v->tag == TN_TAG_COMPLEX ? v->as.floats[1] : 0;
}

static inline int64_t tensor_numel(const tensor *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= t->sizes[i];
    return n;
}
/* Product of the sizes of dimensions [begin, end). */
static inline int64_t tensor_span(const tensor *t, uint32_t begin, uint32_t end)
{
    int64_t n = 1;
    for (uint32_t i = begin; i < end; i++) n *= t->sizes[i];
    return n;
}
static inline bool tensor_is_contiguous(const tensor *t)
{
    int64_t expected = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        if (t->sizes[i] != 1 && t->strides[i] != expected) return false;
        expected *= t->sizes[i];
    }
    return true;
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t round_up(int64_t x, int64_t step)
{
    return ceil_div(x, step) * step;
}

/* ---- Work -------------------------------------------------------------------------------------------- */

/*
 * Calls body(context, begin, end) for consecutive ranges of `grain` items that together make [0, count), on
 * up to call->threads threads, in any order. The ranges depend on count and grain alone.
 */
typedef void (*tni_range_fn)(void *context, int64_t begin, int64_t end);
void tni_for_ranges(const tn_call *call, int64_t count, int64_t grain, tni_range_fn body, void *context);

/* A grain that gives each range about `work` units when one item costs `cost`. */
static inline int64_t grain_for(int64_t work, int64_t cost)
{
    return max_i64(1, work / max_i64(1, cost));
}

/* Scratch memory aligned to 64 bytes, to be given back with tni_scratch_free. NULL: the error is recorded. */
void *tni_scratch(const tn_call *call, int64_t bytes);
void tni_scratch_free(const tn_call *call, void *memory, int64_t bytes);

/* Records a formatted error and returns the code. */
int32_t tni_fail(const tn_call *call, int32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Rows -------------------------------------------------------------------------------------------- */

/* A part of the plugin's kernel table. */
typedef struct tni_row_list {
    const tn_kernel_row *rows;
    uint32_t count;
} tni_row_list;

#define TNI_ROW_COUNT(rows) ((uint32_t)(sizeof(rows) / sizeof((rows)[0])))

#endif
