/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in the IDX format of the MNIST family, plain or gzip: two zero bytes, a type, a rank, big-endian
 * sizes, row-major elements. Only unsigned bytes are read.
 */
#ifndef TENON_DATA_IDX_H
#define TENON_DATA_IDX_H

#include <tenon/tenon.h>

/* The file as a uint8 tensor on the CPU, in the scope; NULL and a failed scope for a file that is absent,
 * truncated or of another type. */
tn_tensor *data_read_idx(tn_scope *s, const char *path);

/* The error of a failed call says where the program made it. */
#ifndef TN_NO_PLACES
static inline tn_tensor *data_read_idx_at(const char *file, int32_t line, tn_scope *scope, const char *path)
{
    int32_t before = tn_scope_place_begin(scope);
    tn_tensor *t = data_read_idx(scope, path);
    if (!t || before) tn_place_after(scope, before, file, line);
    return t;
}
#define data_read_idx(...) data_read_idx_at(__FILE__, __LINE__, __VA_ARGS__)
#endif

#endif
