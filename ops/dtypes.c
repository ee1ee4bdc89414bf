/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of dtypes. */
#include "ops/dtypes.h"

#include <math.h>
#include <stddef.h>

/* The largest finite value, and what ATen calls the type in C++. */
static double largest(tn_dtype dtype, const char **name)
{
    static const struct {
        tn_dtype dtype;
        double max;
        const char *name;
    } types[] = {{TN_UINT8, 255, "uint8_t"},
                 {TN_INT8, 127, "int8_t"},
                 {TN_INT16, 32767, "int16_t"},
                 {TN_INT32, 2147483647.0, "int"},
                 {TN_INT64, 0x1p63, "int64_t"},
                 {TN_UINT16, 65535, "uint16_t"},
                 {TN_UINT32, 4294967295.0, "uint32_t"},
                 {TN_UINT64, 0x1p64, "uint64_t"},
                 {TN_FLOAT16, 65504, "c10::Half"},
                 {TN_BFLOAT16, 0x1.fep127, "c10::BFloat16"},
                 {TN_FLOAT32, 0x1.fffffep127, "float"},
                 {TN_COMPLEX32, 65504, "c10::complex<c10::Half>"},
                 {TN_COMPLEX64, 0x1.fffffep127, "c10::complex<float>"},
                 {TN_COMPLEX128, INFINITY, "c10::complex<double>"}};
    for (uint32_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].dtype == dtype) return *name = types[i].name, types[i].max;
    }
    return *name = "double", INFINITY;
}

double tni_largest(tn_dtype dtype)
{
    const char *name;
    return largest(dtype, &name);
}

static int32_t is_unsigned(tn_dtype dtype)
{
    return dtype == TN_UINT8 || dtype == TN_UINT16 || dtype == TN_UINT32 || dtype == TN_UINT64;
}

/* Unsigned types accept negative integers, which wrap, but no negative fractions; only floating types accept infinities and NaN. */
static int32_t overflows(double x, int32_t is_integral, tn_dtype dtype, double max)
{
    if (!is_integer(dtype)) return isfinite(x) && fabs(x) > max;
    if (is_unsigned(dtype) && !is_integral && x < 0) return 1;
    return x != x || x > max || x < -max - 1;
}

const char *tni_overflowing(tn_value scalar, tn_dtype dtype)
{
    const char *name;
    double max = largest(dtype, &name), im = scalar.tag == TN_TAG_COMPLEX ? scalar.as.floats[1] : 0;
    int32_t is_integral = scalar.tag == TN_TAG_INT || scalar.tag == TN_TAG_BOOL;
    if (dtype == TN_BOOL || tni_dtype_category(dtype) == TNI_CATEGORY_OTHER) return NULL;
    if (is_complex(dtype) ? overflows(im, 0, dtype, max) : im != 0) return name;
    return overflows(tn_value_as_float(scalar), is_integral, dtype, max) ? name : NULL;
}
