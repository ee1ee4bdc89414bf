/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: comparison within a tolerance, of whole tensors, with sets. */
#include "ops/composite/composite.h"

/* |self - other| <= atol + rtol * |other|, or equal; NaN equals NaN if asked for. */
void composite_isclose(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *other = arg_tensor(args, 1);
    double rtol = arg_float(args, 2), atol = arg_float(args, 3);
    if (dtype_of(self) != dtype_of(other))
        return (void)tni_scope_failf(s, TN_E_DTYPE, "%s did not match %s",
                                     tni_dtype_error_name(dtype_of(self)),
                                     tni_dtype_error_name(dtype_of(other)));
    if (!(rtol >= 0))
        return (void)tni_scope_failf(s, TN_E_ARGUMENT,
                                     "rtol must be greater than or equal to zero, but got %g", rtol);
    if (!(atol >= 0))
        return (void)tni_scope_failf(s, TN_E_ARGUMENT,
                                     "atol must be greater than or equal to zero, but got %g", atol);
    tn_tensor *close = tn_eq(s, self, other);
    if (arg_bool(args, 4) && !is_integer(dtype_of(self)))
        close = tn_logical_or(s, close, tn_logical_and(s, tn_isnan(s, self), tn_isnan(s, other)));
    if (rtol == 0 && atol == 0) return give(outs, 0, close);
    if (is_integer(dtype_of(other))) {
        /* bool has no differences, those of unsigned integers wrap, and no integer has a product with a fraction. */
        self = tn_to(s, self, tni_default_dtype(s->ctx));
        other = tn_to(s, other, tni_default_dtype(s->ctx));
    }
    tn_tensor *allowed = tn_add_scalar(s, tn_abs(s, tn_mul_scalar(s, other, rtol)), atol);
    tn_tensor *actual = tn_abs(s, tn_sub(s, self, other));
    give(outs, 0,
         tn_logical_or(s, close, tn_logical_and(s, tn_isfinite(s, actual), tn_le(s, actual, allowed))));
}

void composite_allclose(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *close = tn_isclose(s, arg_tensor(args, 0), arg_tensor(args, 1), .rtol = arg_float(args, 2),
                                  .atol = arg_float(args, 3), .equal_nan = arg_bool(args, 4));
    tn_tensor *all = tn_all(s, close);
    outs[0] = tn_value_bool(all ? tn_item_bool(s, all) : 0);
}

void composite_equal(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *other = arg_tensor(args, 1);
    outs[0] = tn_value_bool(0);
    if (!tni_same_sizes(sizes_of(self), sizes_of(other))) return;
    tn_tensor *all = tn_all(s, tn_eq(s, self, other));
    outs[0] = tn_value_bool(all ? tn_item_bool(s, all) : 0);
}

void composite_is_nonzero(tn_scope *s, const tn_value *args, tn_value *outs)
{
    const tn_tensor *self = arg_tensor(args, 0);
    if (tn_tensor_numel(self) == 0)
        return (void)tn_scope_fail(s, TN_E_SHAPE, "Boolean value of Tensor with no values is ambiguous");
    if (tn_tensor_numel(self) > 1)
        return (void)tn_scope_fail(s, TN_E_SHAPE,
                                   "Boolean value of Tensor with more than one value is ambiguous");
    outs[0] = tn_value_bool(tn_item_bool(s, self));
}

void composite_is_same_size(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_bool(tni_same_sizes(sizes_of(arg_tensor(args, 0)), sizes_of(arg_tensor(args, 1))));
}

/* ---- isin ---- */

/* Bools and complex numbers have no place in a sorted set. */
static int32_t may_be_in(tn_scope *s, tn_dtype dtype)
{
    if (dtype != TN_BOOL && !is_complex(dtype)) return 1;
    tni_scope_failf(s, TN_E_DTYPE, "Unsupported input type encountered for isin(): %s",
                    tni_dtype_error_name(dtype));
    return 0;
}

/* Few test elements: all are compared. Many: searched in the sorted elements. */
static tn_tensor *is_in(tn_scope *s, tn_tensor *elements, tn_tensor *tests, int32_t invert)
{
    tn_dtype dtype = tni_common_dtype(s, elements, tests);
    int64_t count = tn_tensor_numel(tests);
    if (!may_be_in(s, dtype_of(elements)) || !may_be_in(s, dtype_of(tests))) return NULL;
    if (count == 0 || tn_tensor_numel(elements) == 0)
        return tni_full_on(s, elements, TN_BOOL, sizes_of(elements), tn_value_bool(invert));
    elements = tni_cast(s, elements, dtype);
    tests = tni_reshape(s, tni_cast(s, tests, dtype), TN_INTS(-1));
    tn_tensor *found;
    if (count <= 16) {
        found = tn_any_dim(s, tn_eq(s, tn_unsqueeze(s, elements, -1), tests), -1);
    } else {
        tn_tensor *sorted = tn_sort(s, tests).values;
        tn_tensor *place = tn_clamp(s, tn_searchsorted(s, sorted, elements), .max = TN_SCALAR(count - 1));
        found = tn_eq(s, tn_take(s, sorted, place), elements);
    }
    return invert ? tn_logical_not(s, found) : found;
}

void composite_isin(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, is_in(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_bool(args, 3)));
}

/* A scalar counts in promotion by its category only, as in any comparison with a tensor. */
static tn_tensor *number_for(tn_scope *s, tn_value number, const tn_tensor *other)
{
    tni_promotion p = {0};
    if (!may_be_in(s, tni_dtype_of_scalar(number, TN_FLOAT32))) return NULL;
    tni_promotion_add(&p, dtype_of(other), rank_of(other) == 0, 0);
    tni_promotion_add(&p, tni_dtype_of_scalar(number, tni_default_dtype(s->ctx)), 1, 1);
    return tn_scalar_tensor_of(s, number, tni_promotion_result(&p, tni_default_dtype(s->ctx)),
                               tn_tensor_device(other));
}

void composite_isin_tensor_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *elements = arg_tensor(args, 0);
    tn_tensor *test = number_for(s, args[1], elements);
    if (test) give(outs, 0, is_in(s, elements, test, arg_bool(args, 3)));
}

void composite_isin_scalar_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *tests = arg_tensor(args, 1);
    tn_tensor *element = number_for(s, args[0], tests);
    if (element) give(outs, 0, is_in(s, element, tests, arg_bool(args, 3)));
}
