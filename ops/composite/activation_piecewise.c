/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: piecewise linear activations and their gradients. */
#include "ops/composite/pointwise_lowering.h"

void composite_relu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0, zero_where(s, tn_le_scalar(s, self, 0), self));
}

void composite_threshold(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_value corner = tni_formula_number(args[1], dtype_of(self));
    give(outs, 0,
         tn_where_scalarself(s, tn_le_scalar(s, self, corner), tni_formula_number(args[2], dtype_of(self)),
                             self));
}

void composite_threshold_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *below = tn_le_scalar(s, x[1], tni_formula_number(args[2], dtype));
    formula_give(s, outs, zero_where(s, below, x[0]), dtype);
}

void composite_hardtanh(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_tensor *low = tni_number_like(s, self, tni_formula_number(args[1], dtype_of(self)));
    tn_tensor *high = tni_number_like(s, self, tni_formula_number(args[2], dtype_of(self)));
    give(outs, 0, tn_minimum(s, tn_maximum(s, self, low), high));
}

void composite_hardtanh_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *inside = tn_logical_and(s, tn_gt_scalar(s, x[1], args[2]), tn_lt_scalar(s, x[1], args[3]));
    formula_give(s, outs, tn_where_scalarother(s, inside, x[0], 0), dtype); /* 0 at NaN */
}

/* x + 3 between 0 and 6 */
static tn_tensor *ramp(tn_scope *s, tn_tensor *x)
{
    x = plus(s, x, 3);
    x = tn_maximum(s, x, tni_number_like(s, x, tn_value_int(0)));
    return tn_minimum(s, x, tni_number_like(s, x, tn_value_int(6)));
}

void composite_hardsigmoid(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    formula_give(s, outs, tn_div_scalar(s, ramp(s, x[0]), 6), dtype);
}

void composite_hardsigmoid_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *inside = tn_logical_and(s, tn_gt_scalar(s, x[1], -3), tn_lt_scalar(s, x[1], 3));
    formula_give(s, outs, tn_where_scalarother(s, inside, tn_div_scalar(s, x[0], 6), 0), dtype);
}

void composite_hardswish(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    formula_give(s, outs, tn_div_scalar(s, tn_mul(s, x[0], ramp(s, x[0])), 6), dtype);
}

void composite_hardswish_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *bend = tn_mul(s, x[0], plus(s, tn_div_scalar(s, x[1], 3), 0.5));
    tn_tensor *above = tn_where(s, tn_ge_scalar(s, x[1], 3), x[0], bend); /* NaN at NaN */
    formula_give(s, outs, zero_where(s, tn_le_scalar(s, x[1], -3), above), dtype);
}

/* Where -lambd <= x <= lambd. */
static tn_tensor *within(tn_scope *s, tn_tensor *x, tn_value number)
{
    double limit = tn_value_as_float(number);
    return tn_logical_and(s, tn_ge_scalar(s, x, -limit), tn_le_scalar(s, x, limit));
}

void composite_hardshrink(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    formula_give(s, outs, zero_where(s, within(s, x[0], args[1]), x[0]), dtype);
}

/* Also the gradient of softshrink. 0 at NaN. */
void composite_shrink_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    double limit = arg_float(args, 2);
    tn_tensor *outside = tn_logical_or(s, tn_lt_scalar(s, x[1], -limit), tn_gt_scalar(s, x[1], limit));
    formula_give(s, outs, tn_where_scalarother(s, outside, x[0], 0), dtype);
}

/* x * 0 keeps a NaN between the corners. */
void composite_softshrink(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    double limit = arg_float(args, 1);
    tn_tensor *below =
        tn_where(s, tn_lt_scalar(s, x[0], -limit), plus(s, x[0], limit), tn_mul_scalar(s, x[0], 0));
    tn_tensor *out = tn_where(s, tn_gt_scalar(s, x[0], limit), plus(s, x[0], -limit), below);
    formula_give(s, outs, out, dtype);
}

void composite_leaky_relu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open(s, args, 1, x);
    tn_tensor *below = tn_mul_scalar(s, x[0], args[1]);
    formula_give(s, outs, tn_where(s, tn_gt_scalar(s, x[0], 0), x[0], below), dtype);
}

void composite_leaky_relu_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *below = tn_mul_scalar(s, x[0], args[2]);
    formula_give(s, outs, tn_where(s, tn_gt_scalar(s, x[1], 0), x[0], below), dtype);
}

void composite_prelu_kernel(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *below = tn_mul(s, x[1], x[0]);
    formula_give(s, outs, tn_where(s, tn_gt_scalar(s, x[0], 0), x[0], below), dtype);
}
