/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in the IDX format of the MNIST family, plain or gzip: two zero bytes, a type, a rank, big-endian
 * sizes, big-endian elements row-major.
 */
#include "file.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

static const tn_dtype dtypes[] = {[0x08] = TN_UINT8, [0x09] = TN_INT8,    [0x0b] = TN_INT16,
                                  [0x0c] = TN_INT32, [0x0d] = TN_FLOAT32, [0x0e] = TN_FLOAT64};

static int64_t read_gzip(void *user, void *to, uint64_t bytes)
{
    return gzread(user, to, bytes < 1u << 30 ? (unsigned)bytes : 1u << 30);
}

static tn_tensor *read_tensor(tn_scope *s, const data_source *from)
{
    uint8_t head[4], size[4], *bytes = NULL;
    int64_t sizes[TN_MAX_RANK];
    if (data_read(s, from, head, 4, "its first four bytes")) return NULL;
    if (head[0] || head[1])
        return data_fail(s, TN_E_CORRUPT, "idx", from->path, "it is not an IDX file"), NULL;
    tn_dtype dtype = head[2] < sizeof dtypes / sizeof *dtypes ? dtypes[head[2]] : 0;
    if (!dtype)
        return data_fail(s, TN_E_CORRUPT, "idx", from->path, "0x%02x is not a type of elements", head[2]),
               NULL;
    if (head[3] == 0 || head[3] > TN_MAX_RANK)
        return data_fail(s, TN_E_CORRUPT, "idx", from->path, "it has %u dimensions (expected 1 to %d)",
                         head[3], TN_MAX_RANK),
               NULL;
    for (uint32_t d = 0; d < head[3]; d++) {
        if (data_read(s, from, size, 4, "the sizes")) return NULL;
        sizes[d] = (int64_t)size[0] << 24 | (int64_t)size[1] << 16 | (int64_t)size[2] << 8 | size[3];
    }
    const uint32_t element = (uint32_t)tn_dtype_bytes(dtype);
    const int64_t count = data_bytes((tn_ints){sizes, head[3]}, element);
    if (count < 0) return data_fail(s, TN_E_CORRUPT, "idx", from->path, "its sizes are too large"), NULL;
    if (data_read_new(s, from, (uint64_t)count, "the elements", &bytes)) return NULL;
    data_swap(bytes, count / element, element);
    return data_tensor_of(s, dtype, (tn_ints){sizes, head[3]}, bytes);
}

tn_tensor *tn_idx_read(tn_scope *s, const char *path)
{
    if (tn_scope_failed(s)) return NULL;
    if (!path) return data_fail(s, TN_E_ARGUMENT, "idx", NULL, "argument 'path': it is NULL"), NULL;
    gzFile file = gzopen(path, "rbe");
    if (!file) return data_fail(s, data_open_status(errno), "idx", path, "%s", strerror(errno)), NULL;
    const data_source from = {"idx", path, file, read_gzip};
    tn_tensor *t = read_tensor(s, &from);
    gzclose(file);
    return t;
}
