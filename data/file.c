/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"
#include "number_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_PIECE (16u << 20)

int32_t data_fail(tn_scope *s, int32_t status, const char *reader, const char *path, const char *format, ...)
{
    char text[1024];
    int n = path ? snprintf(text, sizeof text, "%s: '%.400s': ", reader, path)
                 : snprintf(text, sizeof text, "%s: ", reader);
    va_list list;
    va_start(list, format);
    plain_vsnprintf(text + n, sizeof text - (size_t)n, format, list);
    va_end(list);
    return tn_scope_fail(s, status, text);
}

int32_t data_read(tn_scope *s, const data_source *from, void *to, uint64_t bytes, const char *what)
{
    for (uint64_t have = 0; have < bytes;) {
        int64_t n = from->read(from->user, (uint8_t *)to + have, bytes - have);
        if (n < 0) return data_fail(s, TN_E_CORRUPT, from->reader, from->path, "%s cannot be read", what);
        if (n == 0) return data_fail(s, TN_E_CORRUPT, from->reader, from->path, "it ends within %s", what);
        have += (uint64_t)n;
    }
    return TN_OK;
}

int32_t data_read_new(tn_scope *s, const data_source *from, uint64_t bytes, const char *what, uint8_t **out)
{
    uint64_t have = 0, room = bytes < FIRST_PIECE ? bytes : FIRST_PIECE;
    uint8_t *all = malloc(room + 1);
    int32_t status = all ? data_read(s, from, all, room, what) : TN_E_OUT_OF_MEMORY;
    for (have = room; !status && have < bytes; have = room) {
        room = bytes - have < have ? bytes : 2 * have;
        uint8_t *larger = realloc(all, room + 1);
        if (larger) all = larger;
        status = larger ? data_read(s, from, all + have, room - have, what) : TN_E_OUT_OF_MEMORY;
    }
    if (!status) {
        all[bytes] = 0;
        *out = all;
        return TN_OK;
    }
    free(all);
    if (tn_scope_failed(s)) return status;
    return data_fail(s, status, from->reader, from->path, "out of host memory for %s", what);
}

static int64_t read_descriptor(void *user, void *to, uint64_t bytes)
{
    ssize_t n;
    do n = read(*(int *)user, to, bytes < 1u << 30 ? bytes : 1u << 30);
    while (n < 0 && errno == EINTR);
    return n;
}

int32_t data_read_file(tn_scope *s, const char *reader, const char *path, uint8_t **out, uint64_t *out_bytes)
{
    struct stat status;
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (!path) return data_fail(s, TN_E_ARGUMENT, reader, NULL, "argument 'path': it is NULL");
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &status)) {
        int32_t failed = data_fail(s, data_open_status(errno), reader, path, "%s", strerror(errno));
        if (file >= 0) close(file);
        return failed;
    }
    const data_source from = {reader, path, &file, read_descriptor};
    int32_t failed =
        S_ISREG(status.st_mode) ? TN_OK : data_fail(s, TN_E_IO, reader, path, "it is not a regular file");
    if (!failed) failed = data_read_new(s, &from, (uint64_t)status.st_size, "the file", out);
    close(file);
    *out_bytes = (uint64_t)status.st_size;
    return failed;
}

typedef struct pages {
    void *address;
    uint64_t bytes;
} pages;

static void unmap(void *user)
{
    pages *p = user;
    munmap(p->address, p->bytes);
    free(p);
}

tn_tensor *data_map(tn_scope *s, const char *reader, const char *path, int file, int64_t offset,
                    tn_dtype dtype, tn_ints sizes, int64_t bytes)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    pages *p = malloc(sizeof *p);
    if (!p) return data_fail(s, TN_E_OUT_OF_MEMORY, reader, path, "out of host memory"), NULL;
    p->bytes = (uint64_t)(offset % page + bytes);
    p->address = mmap(NULL, p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file,
                      (off_t)(offset - offset % page));
    if (p->address == MAP_FAILED) {
        free(p);
        return data_fail(s, TN_E_IO, reader, path, "%s", strerror(errno)), NULL;
    }
    const tn_blob blob = {.size = sizeof blob,
                          .dtype = dtype,
                          .data = (char *)p->address + offset % page,
                          .sizes = sizes,
                          .deleter = unmap,
                          .user = p};
    return data_give(s, &blob);
}

tn_tensor *data_give(tn_scope *s, const tn_blob *blob)
{
    tn_tensor *t = tn_from_blob(s, blob);
    if (!t) blob->deleter(blob->user);
    return t;
}

tn_tensor *data_tensor_of(tn_scope *s, tn_dtype dtype, tn_ints sizes, uint8_t *bytes)
{
    const tn_blob blob = {
        .size = sizeof blob, .dtype = dtype, .data = bytes, .sizes = sizes, .deleter = free, .user = bytes};
    return data_give(s, &blob);
}

int64_t data_bytes(tn_ints sizes, int64_t element)
{
    int64_t bytes = element;
    for (int64_t d = 0; d < sizes.count; d++) /* a size of 0 does not make another one sound */
        if (sizes.data[d] < 0 || (sizes.data[d] && __builtin_mul_overflow(bytes, sizes.data[d], &bytes)))
            return -1;
    for (int64_t d = 0; d < sizes.count; d++)
        if (!sizes.data[d]) return 0;
    return bytes;
}

void data_swap(uint8_t *bytes, int64_t count, uint32_t number_bytes)
{
    for (int64_t i = 0; i < count; i++, bytes += number_bytes) {
        for (uint32_t a = 0, b = number_bytes - 1; a < b; a++, b--) {
            uint8_t kept = bytes[a];
            bytes[a] = bytes[b];
            bytes[b] = kept;
        }
    }
}
