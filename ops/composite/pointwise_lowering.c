/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of composites of pointwise formulas; see pointwise_lowering.h. */
#include "ops/composite/pointwise_lowering.h"

tn_dtype tni_formula_dtype(tn_scope *s, const tn_value *args, uint32_t n)
{
    tni_promotion p = {0};
    for (uint32_t i = 0; i < n; i++) {
        const tn_tensor *t = arg_tensor(args, i);
        if (t)
            tni_promotion_add(&p, dtype_of(t), rank_of(t) == 0, (tn_desc(t)->flags & TN_DESC_WRAPPED) != 0);
    }
    return tni_promotion_result(&p, tni_default_dtype(s->ctx));
}

static tn_dtype cast_all(tn_scope *s, const tn_value *args, uint32_t n, tn_tensor **x, tn_dtype dtype)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] = arg_tensor(args, i);
        if (x[i]) x[i] = tni_cast(s, x[i], wide_dtype(dtype));
    }
    return dtype;
}

tn_dtype tni_formula_open(tn_scope *s, const tn_value *args, uint32_t n, tn_tensor **x)
{
    return cast_all(s, args, n, x, tni_formula_dtype(s, args, n));
}

tn_dtype tni_formula_open_float(tn_scope *s, const tn_value *args, uint32_t n, tn_tensor **x)
{
    return cast_all(s, args, n, x, float_of(s, tni_formula_dtype(s, args, n)));
}

tn_value tni_formula_number(tn_value number, tn_dtype dtype)
{
    int64_t whole = tn_value_as_int(number);
    int32_t is_unsigned = dtype == TN_UINT8 || dtype == TN_UINT16 || dtype == TN_UINT32 || dtype == TN_UINT64;
    if (!is_integer(dtype)) return number;
    return tn_value_int(is_unsigned && whole < 0 ? 0 : whole);
}
