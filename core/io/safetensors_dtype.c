/* SPDX-License-Identifier: Apache-2.0 */
/* Names of dtypes in safetensors files, and the check of their text. */
#include <string.h>
#include "core/io/safetensors.h"

static const struct {
    const char *name;
    tn_dtype dtype;
} dtypes[] = {
    {"BOOL", TN_BOOL},
    {"U8", TN_UINT8},
    {"I8", TN_INT8},
    {"F8_E4M3", TN_FLOAT8_E4M3FN},
    {"F8_E5M2", TN_FLOAT8_E5M2},
    {"F8_E8M0", TN_FLOAT8_E8M0FNU},
    {"F8_E4M3FNUZ", TN_FLOAT8_E4M3FNUZ},
    {"F8_E5M2FNUZ", TN_FLOAT8_E5M2FNUZ},
    {"I16", TN_INT16},
    {"U16", TN_UINT16},
    {"F16", TN_FLOAT16},
    {"BF16", TN_BFLOAT16},
    {"I32", TN_INT32},
    {"U32", TN_UINT32},
    {"F32", TN_FLOAT32},
    {"C64", TN_COMPLEX64},
    {"I64", TN_INT64},
    {"U64", TN_UINT64},
    {"F64", TN_FLOAT64},
};

const char *tni_safetensors_dtype_name(tn_dtype dtype)
{
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    }
    return NULL;
}

tn_dtype tni_safetensors_dtype_parse(const char *name)
{
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (!strcmp(dtypes[i].name, name)) return dtypes[i].dtype;
    }
    return 0;
}
