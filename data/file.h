/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of files share: errors that begin with the reader and the path, and bytes of unknown
 * number. */
#ifndef DATA_FILE_H
#define DATA_FILE_H

#include <errno.h>
#include <tenon/data.h>

/* Fails the scope with "READER: 'PATH': TEXT" and returns the status. `path` NULL: "READER: TEXT". */
__attribute__((format(printf, 5, 6))) int32_t data_fail(tn_scope *s, int32_t status, const char *reader,
                                                        const char *path, const char *format, ...);

/* The status of a file or folder that was not opened, from errno. */
static inline int32_t data_open_status(int error)
{
    return error == ENOENT ? TN_E_NOT_FOUND : TN_E_IO;
}

/* Where bytes come from. `read` writes up to `bytes` and returns how many, 0 at the end, negative after a
 * failure. */
typedef struct data_source {
    const char *reader, *path;
    void *user;
    int64_t (*read)(void *user, void *to, uint64_t bytes);
} data_source;

/* Reads exactly `bytes`; TN_E_CORRUPT where the source ends before. `what` names them in the error. */
int32_t data_read(tn_scope *s, const data_source *from, void *to, uint64_t bytes, const char *what);
/* The same into memory of malloc, with a zero behind. It grows as bytes come, so that a damaged number in a
 * file takes no memory. */
int32_t data_read_new(tn_scope *s, const data_source *from, uint64_t bytes, const char *what, uint8_t **out);
/* A whole file, in the same way. */
int32_t data_read_file(tn_scope *s, const char *reader, const char *path, uint8_t **out, uint64_t *out_bytes);
/* A tensor that owns the data of the blob; without one they are deleted here. */
tn_tensor *data_give(tn_scope *s, const tn_blob *blob);
/* A row-major tensor that owns `bytes` (of malloc), or frees it. */
tn_tensor *data_tensor_of(tn_scope *s, tn_dtype dtype, tn_ints sizes, uint8_t *bytes);
/* A tensor over `bytes` of an open file, whose pages are read when they are touched; writing to it does not change the file. */
tn_tensor *data_map(tn_scope *s, const char *reader, const char *path, int file, int64_t offset,
                    tn_dtype dtype, tn_ints sizes, int64_t bytes);
/* sizes[0] * ... * element, or -1 if that is more than INT64_MAX or a size is negative. */
int64_t data_bytes(tn_ints sizes, int64_t element);
/* Reverses the bytes of each number. */
void data_swap(uint8_t *bytes, int64_t count, uint32_t number_bytes);

#endif
