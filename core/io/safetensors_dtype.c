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

/* Bytes of the character that begins here, 0 for a bad one. */
static uint64_t utf8_length(const unsigned char *c, uint64_t left)
{
    uint64_t n = *c < 0x80                 ? 1
                 : *c >= 0xc2 && *c < 0xe0 ? 2
                 : *c >= 0xe0 && *c < 0xf0 ? 3
                 : *c >= 0xf0 && *c < 0xf5 ? 4
                                           : 0;
    if (!*c || n > left) return 0;
    for (uint64_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
    }
    if (*c == 0xe0 && c[1] < 0xa0) return 0; /* longer than needed */
    if (*c == 0xed && c[1] > 0x9f) return 0; /* half of a pair */
    if (*c == 0xf0 && c[1] < 0x90) return 0;
    if (*c == 0xf4 && c[1] > 0x8f) return 0; /* past the last one */
    return n;
}

int32_t tni_utf8_check(const char *text, uint64_t bytes)
{
    for (uint64_t i = 0, n; i < bytes; i += n) {
        n = utf8_length((const unsigned char *)text + i, bytes - i);
        if (!n) return 0;
    }
    return 1;
}
