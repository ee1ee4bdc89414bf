/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of composites with arithmetic, whatever the operator family: half types are computed in float32 and
 * rounded once; scalars are compared; lists of dimensions are made.
 */
#ifndef TNI_OPS_COMPOSITE_COMPUTE_DTYPE_H
#define TNI_OPS_COMPOSITE_COMPUTE_DTYPE_H

#include "ops/composite/composite.h"

/* t in wide_dtype; NULL stays NULL. */
static inline tn_tensor *wide(tn_scope *s, tn_tensor *t)
{
    return t ? tni_cast(s, t, wide_dtype(dtype_of(t))) : NULL;
}
/* Whether a Scalar equals x. */
static inline int32_t scalar_is(tn_value v, double x)
{
    return v.tag != TN_TAG_COMPLEX && tn_value_as_float(v) == x;
}
static inline tn_tensor *keep_sum(tn_scope *s, tn_tensor *t, tn_ints dims)
{
    return tn_sum_dim(s, t, dims, .keepdim = 1);
}
/* The dims first, first + 1, ... before end. */
tn_ints tni_dims_between(tn_scope *s, int64_t first, int64_t end);
/* All dims of a rank but `dim`; -1: all. */
tn_ints tni_dims_except(tn_scope *s, int64_t rank, int64_t dim);
/* Sizes of 1 but for `dim`, which has `size`. */
tn_ints tni_ones_but(tn_scope *s, int64_t rank, int64_t dim, int64_t size);
/* `[2, 3]`, in the scope's memory. */
const char *tni_ints_text(tn_scope *s, tn_ints list);
static inline const char *sizes_text(tn_scope *s, const tn_tensor *t)
{
    return tni_ints_text(s, sizes_of(t));
}
/* The sizes that two lists broadcast to; fails if they do not. */
tn_ints tni_broadcast_sizes(tn_scope *s, tn_ints a, tn_ints b);
/* The product of the elements. */
static inline int64_t numel_of(tn_ints size)
{
    int64_t n = 1;
    for (int64_t i = 0; i < size.count; i++) n *= size.data[i];
    return n;
}

#endif
