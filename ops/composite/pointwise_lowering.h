/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bodies of elementwise formulas share: operands in the dtype that the formula is computed in, choices
 * with numbers, the result rounded once. They run where a device has no kernel for the whole formula.
 */
#ifndef TNI_OPS_COMPOSITE_POINTWISE_LOWERING_H
#define TNI_OPS_COMPOSITE_POINTWISE_LOWERING_H

#include "ops/composite/compute_dtype.h"

/* What arithmetic promotes the first n arguments to; those that are no tensors do not count. */
tn_dtype tni_formula_dtype(tn_scope *s, const tn_value *args, uint32_t n);
/* The same, a tensor each, in x[]: cast to that dtype or the wider one. Absent ones are NULL. */
tn_dtype tni_formula_open(tn_scope *s, const tn_value *args, uint32_t n, tn_tensor **x);
/* Integers count as the default float. */
tn_dtype tni_formula_open_float(tn_scope *s, const tn_value *args, uint32_t n, tn_tensor **x);
/* A Scalar as numbers of the dtype are: whole for integers, 0 at least for those without sign. */
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
