/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/dtypes.h"

#include <stddef.h>

const char *tni_cpp_type_name(tn_dtype dtype)
{
    static const struct {
        tn_dtype dtype;
        const char *name;
    } names[] = {{TN_BOOL, "bool"},
                 {TN_UINT8, "unsigned char"},
                 {TN_INT8, "signed char"},
                 {TN_INT16, "short int"},
                 {TN_INT32, "int"},
                 {TN_INT64, "long int"},
                 {TN_FLOAT16, "c10::Half"},
                 {TN_BFLOAT16, "c10::BFloat16"},
                 {TN_FLOAT32, "float"},
                 {TN_FLOAT64, "double"},
                 {TN_COMPLEX32, "c10::complex<c10::Half>"},
                 {TN_COMPLEX64, "c10::complex<float>"},
                 {TN_COMPLEX128, "c10::complex<double>"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].dtype == dtype) return names[i].name;
    }
    return tni_dtype_error_name(dtype);
}
