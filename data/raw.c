/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of a file as they are in memory: tensors over its pages. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The sizes with the number that -1 stands for, in `out`. Returns their bytes, or -1 after a failure. */
static int64_t complete(tn_scope *s, const char *path, tn_ints sizes, int64_t element, int64_t room,
                        int64_t *out)
{
    if (sizes.count > TN_MAX_RANK)
        return data_fail(s, TN_E_SHAPE, "raw", path,
                         "argument 'sizes': it has %lld dimensions (expected at most %d)",
                         (long long)sizes.count, TN_MAX_RANK),
               -1;
    for (int64_t d = 0; d < sizes.count; d++) out[d] = sizes.data[d];
    if (sizes.count && out[0] == -1) {
        out[0] = 1;
        int64_t row = data_bytes((tn_ints){out, sizes.count}, element);
        if (row > 0 && room % row)
            return data_fail(s, TN_E_SHAPE, "raw", path,
                             "its %lld bytes are not a multiple of %lld, a row of 'sizes'", (long long)room,
                             (long long)row),
                   -1;
        if (row > 0) out[0] = room / row;
    }
    int64_t bytes = data_bytes((tn_ints){out, sizes.count}, element);
    if (bytes < 0)
        return data_fail(s, TN_E_SHAPE, "raw", path, "argument 'sizes': negative or too large"), -1;
    if (bytes > room)
        return data_fail(s, TN_E_CORRUPT, "raw", path, "it has %lld bytes from the offset on (expected %lld)",
                         (long long)room, (long long)bytes),
               -1;
    return bytes;
}

static tn_tensor *map(tn_scope *s, const char *path, int file, tn_dtype dtype, tn_ints sizes, int64_t offset,
                      int64_t room)
{
    int64_t all[TN_MAX_RANK];
    int64_t bytes = complete(s, path, sizes, tn_dtype_bytes(dtype), room, all);
    if (bytes < 0) return NULL;
    if (!bytes) return tn_empty(s, (tn_ints){all, sizes.count}, .dtype = dtype, .device = TN_CPU);
    return data_map(s, "raw", path, file, offset, dtype, (tn_ints){all, sizes.count}, bytes);
}

tn_tensor *tn_raw_map(tn_scope *s, const char *path, tn_dtype dtype, tn_ints sizes, int64_t offset)
{
    struct stat status;
    tn_tensor *t = NULL;
    if (tn_scope_failed(s)) return NULL;
    if (!path || (sizes.count && !sizes.data))
        return data_fail(s, TN_E_ARGUMENT, "raw", path, "argument 'path' or 'sizes': it is NULL"), NULL;
    const int64_t element = tn_dtype_name(dtype) ? tn_dtype_bytes(dtype) : 0;
    if (element <= 0)
        return data_fail(s, TN_E_DTYPE, "raw", path, "argument 'dtype': it is not a dtype"), NULL;
    if (dtype == TN_BOOL)
        return data_fail(s, TN_E_DTYPE, "raw", path, "argument 'dtype': bool (read uint8 and compare)"), NULL;
    if (offset < 0 || offset % element)
        return data_fail(s, TN_E_ARGUMENT, "raw", path,
                         "argument 'offset': it must be a multiple of the element's %lld bytes (got %lld)",
                         (long long)element, (long long)offset),
               NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &status))
        data_fail(s, data_open_status(errno), "raw", path, "%s", strerror(errno));
    else if (!S_ISREG(status.st_mode))
        data_fail(s, TN_E_IO, "raw", path, "it is not a regular file");
    else if (status.st_size < offset)
        data_fail(s, TN_E_CORRUPT, "raw", path, "it has %lld bytes, fewer than the offset %lld",
                  (long long)status.st_size, (long long)offset);
    else
        t = map(s, path, file, dtype, sizes, offset, status.st_size - offset);
    if (file >= 0) close(file);
    return t;
}
