/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>
#include "idx.h"

#define TYPE_UNSIGNED_BYTE 8u
#define MAX_RANK           4u
#define MAX_BYTES          (1u << 30)

static tn_tensor *refuse(tn_scope *s, gzFile file, const char *path, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "idx: %s: %s", path, why);
    if (file) gzclose(file);
    tn_scope_fail(s, TN_E_CORRUPT, text);
    return NULL;
}

static int64_t big_endian(const unsigned char *b)
{
    return (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
}

tn_tensor *data_read_idx(tn_scope *s, const char *path)
{
    unsigned char head[4], size[4];
    int64_t sizes[MAX_RANK], bytes = 1;
    gzFile file = gzopen(path, "rb");
    tn_tensor *t;
    void *data;
    if (!file) return refuse(s, NULL, path, "cannot be opened");
    if (gzread(file, head, 4) != 4 || head[0] || head[1]) return refuse(s, file, path, "not an IDX file");
    if (head[2] != TYPE_UNSIGNED_BYTE) return refuse(s, file, path, "elements are not unsigned bytes");
    if (head[3] == 0 || head[3] > MAX_RANK) return refuse(s, file, path, "the rank is not 1 to 4");
    for (uint32_t i = 0; i < head[3]; i++) {
        if (gzread(file, size, 4) != 4) return refuse(s, file, path, "truncated within the sizes");
        sizes[i] = big_endian(size);
        bytes *= sizes[i];
        if (bytes > MAX_BYTES) return refuse(s, file, path, "larger than 1 GiB");
    }
    data = malloc((size_t)bytes + 1);
    if (!data) return refuse(s, file, path, "out of memory");
    if (gzread(file, data, (unsigned)bytes) != bytes) {
        free(data);
        return refuse(s, file, path, "truncated");
    }
    gzclose(file);
    t = tn_from_data(s, TN_UINT8, (tn_ints){sizes, head[3]}, data, TN_CPU);
    free(data);
    return t;
}
