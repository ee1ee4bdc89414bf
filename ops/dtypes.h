/* SPDX-License-Identifier: Apache-2.0 */
/* What shape rules and composites ask about dtypes. */
#ifndef TNI_OPS_DTYPES_H
#define TNI_OPS_DTYPES_H

#include "core/dtype.h"
#include "tenon/value.h"

static inline int32_t is_float(tn_dtype dtype)
{
    return tni_dtype_category(dtype) == TNI_CATEGORY_FLOAT;
}
static inline int32_t is_complex(tn_dtype dtype)
{
    return tni_dtype_category(dtype) == TNI_CATEGORY_COMPLEX;
}
/* Bool included. */
static inline int32_t is_integer(tn_dtype dtype)
{
    return tni_dtype_category(dtype) <= TNI_CATEGORY_INT;
}

/* float32 for float16 and bfloat16, else the dtype itself. */
static inline tn_dtype wide_dtype(tn_dtype dtype)
{
    return dtype == TN_FLOAT16 || dtype == TN_BFLOAT16 ? TN_FLOAT32 : dtype;
}

/* The largest finite value; infinity for float64 and complex128. */
double tni_largest(tn_dtype dtype);
/* What ATen calls a dtype that cannot hold the scalar; NULL if it can. */
const char *tni_overflowing(tn_value scalar, tn_dtype dtype);

#define TNI_OVERFLOW "value cannot be converted to type %s without overflow"

#endif
