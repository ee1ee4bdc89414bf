/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of composites of pointwise formulas: operands in the dtype of the computation, masks, scalars, one
 * rounding of the result. They run on devices without a kernel for the whole formula.
 */
#ifndef TNI_OPS_COMPOSITE_POINTWISE_LOWERING_H
#define TNI_OPS_COMPOSITE_POINTWISE_LOWERING_H

#include "ops/composite/compute_dtype.h"

/* The common dtype of the first n arguments; non-tensors do not count. */
tn_dtype tni_formula_dtype(tn_scope *s, const tn_value *args, uint32_t n);
/* The same; stores the arguments in x[], cast to that dtype, half types to float32. Absent ones are NULL. */
tn_dtype tni_formula_open(tn_scope *s, const tn_value *args, uint32_t n, tn_tensor **x);
/* The same; integer dtypes become the default dtype. */
tn_dtype tni_formula_open_float(tn_scope *s, const tn_value *args, uint32_t n, tn_tensor **x);
/* A Scalar for the dtype: an integer for integer dtypes, at least 0 for unsigned ones. */
tn_value tni_formula_number(tn_value number, tn_dtype dtype);

static inline void formula_give(tn_scope *s, tn_value *outs, tn_tensor *t, tn_dtype dtype)
{
    give(outs, 0, t ? tni_cast(s, t, dtype) : NULL);
}
/* 0 where the mask is true, else t. */
static inline tn_tensor *zero_where(tn_scope *s, tn_tensor *mask, tn_tensor *t)
{
    return tn_where_scalarself(s, mask, 0, t);
}
static inline tn_tensor *plus(tn_scope *s, tn_tensor *t, double number)
{
    return tn_add_scalar(s, t, number);
}
/* 1 - t */
static inline tn_tensor *one_minus(tn_scope *s, tn_tensor *t)
{
    return tn_rsub_scalar(s, t, 1);
}

#endif
