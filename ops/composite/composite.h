/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary of composites: readers of arguments by their index in the schema, lists in the scope's
 * memory, dimensions, errors with a format, and building blocks. A composite is a function
 *
 * void composite_NAME(tn_scope *s, const tn_value *args, tn_value *outs)
 *
 * written with the typed calls of ops.h. After a failure every call returns NULL and does nothing, so only a
 * composite that reads sizes or elements of a result checks tn_scope_failed first. Composites do not depend
 * on the dispatcher.
 */
#ifndef TNI_OPS_COMPOSITE_H
#define TNI_OPS_COMPOSITE_H

#include "ops_calls.h" /* generated: the calls of tenon/ops.h, out of line */
#include "core/dtype.h"
#include "core/error.h"
#include "core/scope.h"
#include "ops/dtypes.h"
#include "ops/refused.h"
#include "ops_rules.h" /* generated: declares every composite */

/* ---- arguments ---- */
/* The readers of values that are functions, so that they are not in every file. */
tn_tensor *tni_tensor_in(const tn_value *v);
int64_t tni_int_in(const tn_value *v);
double tni_float_in(const tn_value *v);
int32_t tni_bool_in(const tn_value *v);
tn_ints tni_ints_in(const tn_value *v);

static inline int32_t arg_given(const tn_value *args, uint32_t i)
{
    return args[i].tag != TN_TAG_NONE;
}
static inline tn_tensor *arg_tensor(const tn_value *args, uint32_t i)
{
    return tni_tensor_in(&args[i]);
}
static inline tn_tensors arg_tensors(const tn_value *args, uint32_t i)
{
    return tn_value_as_tensors(args[i]);
}
static inline int64_t arg_int(const tn_value *args, uint32_t i)
{
    return tni_int_in(&args[i]);
}
/* `absent` if the argument is absent; TN_NONE is what typed calls take for that. */
static inline int64_t arg_int_or(const tn_value *args, uint32_t i, int64_t absent)
{
    return arg_given(args, i) ? arg_int(args, i) : absent;
}
static inline double arg_float(const tn_value *args, uint32_t i)
{
    return tni_float_in(&args[i]);
}
static inline double arg_float_or(const tn_value *args, uint32_t i, double absent)
{
    return arg_given(args, i) ? arg_float(args, i) : absent;
}
static inline int32_t arg_bool(const tn_value *args, uint32_t i)
{
    return tni_bool_in(&args[i]);
}
/* `absent` if the argument is absent; typed calls take -1 for that. */
static inline int32_t arg_bool_or(const tn_value *args, uint32_t i, int32_t absent)
{
    return arg_given(args, i) ? arg_bool(args, i) : absent;
}
/* {NULL, 0} if absent. */
static inline tn_ints arg_ints(const tn_value *args, uint32_t i)
{
    return tni_ints_in(&args[i]);
}
static inline tn_floats arg_floats(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_FLOATS ? (tn_floats){args[i].as.floats, args[i].count}
                                        : (tn_floats){NULL, 0};
}
static inline tn_bools arg_bools(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_BOOLS ? (tn_bools){args[i].as.bools, args[i].count} : (tn_bools){NULL, 0};
}
static inline tn_scalars arg_scalars(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_SCALARS ? (tn_scalars){args[i].as.values, args[i].count}
                                         : (tn_scalars){NULL, 0};
}
/* NULL if absent. */
static inline const char *arg_string(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_STRING ? args[i].as.string : NULL;
}
/* 0 if absent, as typed calls take it; the same for device and layout. */
static inline tn_dtype arg_dtype(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_DTYPE ? (tn_dtype)args[i].as.i : 0;
}
static inline tn_device arg_device(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_DEVICE ? args[i].as.device : 0;
}
static inline uint32_t arg_layout(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_LAYOUT ? (uint32_t)args[i].as.i : 0;
}
/* -1 if absent. */
static inline int32_t arg_format(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_MEMORY_FORMAT || args[i].tag == TN_TAG_INT ? (int32_t)args[i].as.i : -1;
}
static inline tn_generator *arg_generator(const tn_value *args, uint32_t i)
{
    return args[i].tag == TN_TAG_GENERATOR ? args[i].as.generator : NULL;
}

/* How many arguments from `i` on are scalars (int, float, complex or bool), without a gap. */
static inline uint32_t arg_numbers(const tn_value *args, uint32_t i)
{
    const uint32_t tags = 1u << TN_TAG_INT | 1u << TN_TAG_FLOAT | 1u << TN_TAG_BOOL | 1u << TN_TAG_COMPLEX;
    uint32_t n = 0;
    while (tags >> args[i + n].tag & 1u) n++;
    return n;
}

/* dtype, layout, device, pin_memory of a new tensor; 0: the default of each. */
typedef struct tni_options {
    tn_dtype dtype;
    tn_device device;
    int32_t pin;
} tni_options;
/* Reads the four from argument `at` on. Fails for layouts other than strided. */
tni_options tni_options_at(tn_scope *s, const tn_value *args, uint32_t at);
tn_tensor *tni_empty_with(tn_scope *s, tn_ints size, tni_options o);
/* A new tensor of ordinary memory, or its pinned copy. */
tn_tensor *tni_pinned_with(tn_scope *s, tn_tensor *t, tni_options o);
/* empty_like of argument 0 with the four; the memory format is the argument after them. */
tn_tensor *tni_empty_like_with(tn_scope *s, const tn_value *args, uint32_t at);

/* ---- results ---- */
static inline void give(tn_value *outs, uint32_t i, tn_tensor *t)
{
    outs[i] = tn_value_tensor(t);
}
static inline void give_list(tn_value *outs, uint32_t i, tn_tensors list)
{
    outs[i] = tn_value_tensors(list.data, list.count);
}

/* The composite `name` calls `function`, which several share, with its own arguments behind theirs. */
#define FORWARD(name, function, ...)                             \
    void name(tn_scope *s, const tn_value *args, tn_value *outs) \
    {                                                            \
        function(s, args, outs, __VA_ARGS__);                    \
    }

/* ---- tensors ---- */
static inline int64_t rank_of(const tn_tensor *t)
{
    return tn_tensor_rank(t);
}
static inline tn_dtype dtype_of(const tn_tensor *t)
{
    return tn_tensor_dtype(t);
}
/* tn_tensor_sizes, whose zeros would be once in each file. */
extern const int64_t tni_no_sizes[TN_MAX_RANK];
static inline const int64_t *tni_sizes(const tn_tensor *t)
{
    return t ? tn_desc(t)->sizes : tni_no_sizes;
}
/* Borrowed from the tensor. */
static inline tn_ints sizes_of(const tn_tensor *t)
{
    return (tn_ints){tni_sizes(t), tn_tensor_rank(t)};
}
/* The dtype itself if it is floating or complex, else the default dtype. */
static inline tn_dtype float_of(const tn_scope *s, tn_dtype dtype)
{
    return is_integer(dtype) ? tni_default_dtype(s->ctx) : dtype;
}
int32_t tni_same_sizes(tn_ints a, tn_ints b);

/* ---- lists in the scope's memory; NULL (and a failed scope) without memory, at least one item ---- */
int64_t *tni_scope_ints(tn_scope *s, int64_t count);
/* The same for items of `bytes` each, whose elements are undefined. A count may come from a caller and be any number. */
void *tni_scope_items(tn_scope *s, int64_t count, uint64_t bytes);
int64_t *tni_scope_ints_copy(tn_scope *s, tn_ints from);
tn_tensor **tni_scope_tensors(tn_scope *s, int64_t count);
/* `size` with dimension `dim` replaced, removed, or inserted. */
tn_ints tni_sizes_with(tn_scope *s, tn_ints size, int64_t dim, int64_t value);
tn_ints tni_sizes_without(tn_scope *s, tn_ints size, int64_t dim);
tn_ints tni_sizes_insert(tn_scope *s, tn_ints size, int64_t dim, int64_t value);

/* ---- errors and dimensions ---- */
/* tn_scope_fail with a format. */
int32_t tni_scope_failf(tn_scope *s, int32_t status, const char *format, ...) TNI_PRINTF(3, 4);
/* dim in 0 .. rank - 1 (rank 0 counts as 1); a failed scope and 0 if it is out of range. */
int64_t tni_dim(tn_scope *s, int64_t dim, int64_t rank);
/* Bit mask of a list of dims; all if it is absent or empty. */
uint64_t tni_dims(tn_scope *s, tn_ints dims, int64_t rank);
/* Product of the sizes of the dims in a mask. */
int64_t tni_numel_of(tn_ints size, uint64_t mask);

/* ---- building blocks ---- */
/* reshape and narrow, through view operators only. */
tn_tensor *tni_reshape(tn_scope *s, tn_tensor *self, tn_ints shape);
tn_tensor *tni_narrow(tn_scope *s, tn_tensor *self, int64_t dim, int64_t start, int64_t length);
/* True where column - row <= diagonal, rows x columns, on the device of `like`. */
tn_tensor *tni_lower_mask(tn_scope *s, const tn_tensor *like, int64_t rows, int64_t columns,
                          int64_t diagonal);
/* atleast_1d, 2d, 3d of a list. */
tn_tensors tni_at_least(tn_scope *s, tn_tensors list, int64_t rank);
/* A 0-dim tensor of a scalar in t's dtype on t's device, for calls that take no Scalar. */
tn_tensor *tni_number_like(tn_scope *s, const tn_tensor *t, tn_value number);
/* t cast to dtype; t itself if it has it. */
tn_tensor *tni_cast(tn_scope *s, tn_tensor *t, tn_dtype dtype);
/* Zeros, or a tensor with undefined elements, of dtype (0: t's) and size on t's device. */
tn_tensor *tni_zeros_on(tn_scope *s, const tn_tensor *t, tn_dtype dtype, tn_ints size);
tn_tensor *tni_empty_on(tn_scope *s, const tn_tensor *t, tn_dtype dtype, tn_ints size);
tn_tensor *tni_full_on(tn_scope *s, const tn_tensor *t, tn_dtype dtype, tn_ints size, tn_value number);
/* start, start + 1, ... (`count` elements) of int64 on t's device. */
tn_tensor *tni_range_on(tn_scope *s, const tn_tensor *t, int64_t start, int64_t count);
/* The elements of a tensor of integers, read by the host; fails for other dtypes. `name` is for the error. */
tn_ints tni_integers_of(tn_scope *s, tn_tensor *t, const char *name);
/* The losses reduced by TN_REDUCTION_... */
tn_tensor *tni_reduce_loss(tn_scope *s, tn_tensor *loss, int64_t reduction);
/* The common dtype of two tensors. */
tn_dtype tni_common_dtype(tn_scope *s, const tn_tensor *a, const tn_tensor *b);
/* Fills t with prim::random from a generator (NULL: the default one of t's device). Returns t. */
tn_tensor *tni_fill_random(tn_scope *s, tn_tensor *t, int64_t distribution, tn_value a, tn_value b,
                           tn_generator *generator);

#endif
