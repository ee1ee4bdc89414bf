/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary of shape rules. A rule reads the arguments of a frame by their index in the schema of the
 * base form, refuses what ATen refuses with ATen's text, and sets the sizes and dtypes of the outputs. Rules
 * never read elements and do not depend on the device.
 */
#ifndef TNI_OPS_INFER_H
#define TNI_OPS_INFER_H

#include <string.h>
#include "core/dtype.h"
#include "core/error.h"
#include "core/shape.h"
#include "core/thread.h"
#include "dispatcher/backend.h"
#include "ops/dtypes.h"
#include "ops/refused.h"
#include "ops_rules.h" /* generated: declares every rule */

/* Leaves the rule when a step fails. */
#define TNI_TRY(expression)                \
    do {                                   \
        int32_t try_status = (expression); \
        if (try_status) return try_status; \
    } while (0)

static inline int64_t rank_of(const tn_tensor *t)
{
    return t->desc.rank;
}
static inline tn_dtype dtype_of(const tn_tensor *t)
{
    return t->desc.dtype;
}
static inline const int64_t *sizes_of(const tn_tensor *t)
{
    return t->desc.sizes;
}
static inline const int64_t *strides_of(const tn_tensor *t)
{
    return t->desc.strides;
}
static inline int32_t same_sizes(const tn_tensor *a, const tn_tensor *b)
{
    return rank_of(a) == rank_of(b) && !memcmp(sizes_of(a), sizes_of(b), a->desc.rank * sizeof(int64_t));
}
static inline int32_t is_inplace(const tni_frame *f)
{
    return f->op->form == TNI_FORM_INPLACE;
}

/* A list argument; {NULL, 0} if absent. */
tn_ints tni_arg_ints(const tni_frame *f, uint32_t i);
tn_dtype tni_arg_dtype(const tni_frame *f, uint32_t i);
const char *tni_arg_string(const tni_frame *f, uint32_t i);
/* A list of `count` ints; a list of one is repeated where the schema allows it. `name` is for the error. */
int32_t tni_arg_spread(const tni_frame *f, uint32_t i, uint32_t count, const char *name, int64_t *out);
/* The dim in argument i, in 0 .. rank - 1 (a rank of 0 counts as 1). */
static inline int32_t tni_arg_dim(const tni_frame *f, uint32_t i, int64_t rank, int64_t *out)
{
    return tni_wrap_dim(tni_arg_int(f, i), rank, out);
}

/* Text of sizes for errors; the buffer is the caller's. */
typedef struct tni_text {
    char bytes[256];
} tni_text;
const char *tni_sizes_text(const tn_tensor *t, tni_text *text);
const char *tni_list_text(tn_ints list, tni_text *text);

/* Refuses dtypes other than int64 (or int32 if `int32_too`). */
int32_t tni_check_index(const tni_frame *f, const tn_tensor *index, int32_t int32_too);
/*
 * Refuses a tensor argument that does not have these sizes; an absent one passes. What belongs to a result, such as
 * its gradient, has the result's sizes: a kernel indexes one by the other.
 */
int32_t tni_check_sizes(const tni_frame *f, uint32_t i, int64_t rank, const int64_t *sizes);
static inline int32_t tni_check_sizes_like(const tni_frame *f, uint32_t i, const tn_tensor *t)
{
    return tni_check_sizes(f, i, rank_of(t), sizes_of(t));
}
/* Refuses a tensor argument with another number of elements; an absent one passes. */
int32_t tni_check_count(const tni_frame *f, uint32_t i, int64_t count);
/* Refuses tensor argument i if its dtype is not that of `self`; an absent one passes. */
int32_t tni_check_dtype_like(const tni_frame *f, uint32_t i, const tn_tensor *self);
/*
 * Output 0 in the size, dtype and memory format (row-major if `row_major`) of tensor argument i, whose gradient it is.
 * Tensors of indices or flags keep their dtype.
 */
int32_t tni_out_gradient(tni_frame *f, uint32_t i, int32_t row_major);
/* Whether a list of bools, as an output_mask is, asks for output i. */
int32_t tni_arg_wants(const tni_frame *f, uint32_t mask, uint32_t i);
/* Refuses an input that shares memory with the written-to tensor; the same tensor passes if `same_too`. */
int32_t tni_check_apart(const tni_frame *f, const tn_tensor *self, const tn_tensor *input, int32_t same_too);
/* Refuses a scalar that the dtype cannot hold. */
int32_t tni_check_fits(const tni_frame *f, tn_value number, tn_dtype dtype);
/* The same for all Scalar arguments of the call. */
int32_t tni_check_scalars(const tni_frame *f, tn_dtype dtype);
/*
 * Refuses a sparse gradient, asked for by bool argument i, where the call is recorded. Results do not depend
 * on it.
 */
int32_t tni_check_sparse(const tni_frame *f, uint32_t i);
/* Bits of arguments of the schema: keeps them from being cast to the call's dtype. */
#define TNI_KEEP(i) (1u << (i))

/* Product of the sizes of dimensions `first` to `end` - 1. */
int64_t tni_product(const int64_t *sizes, int64_t first, int64_t end);
/*
 * Output i with the memory format that convolution, pooling and the like take from their input: channels-last
 * if the input is, else row-major.
 */
int32_t tni_out_channels(tni_frame *f, uint32_t i, const tn_tensor *input, tn_dtype dtype, int64_t rank,
                         const int64_t *sizes);
/*
 * The memory format (TN_CONTIGUOUS_FORMAT, TN_CHANNELS_LAST, TN_CHANNELS_LAST_3D) that a tensor's strides
 * suggest.
 */
int32_t tni_suggest_format(const tn_tensor *t);
/* The number of spatial dimensions, from the operator's name: max_pool3d has 3. */
int64_t tni_space_of(const tni_frame *f);
/* The sizes of `self` with the list in argument i, which has `space` items, as its last ones. */
void tni_sized_space(const tni_frame *f, const tn_tensor *self, uint32_t i, int64_t space, int64_t *sizes);

#endif
