/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading safetensors: the file is mapped, its header parsed and checked once, whole: every tensor's dtype,
 * shape and byte range, that ranges neither overlap nor leave holes nor pass the end. Data is copied out on
 * request.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/io/safetensors.h"
#include "core/scope.h"
#include "core/shape.h"

#define MAX_HEADER (100u << 20) /* what the reference implementation allows, too */

typedef struct entry {
    const char *name; /* in the parsed header */
    tn_dtype dtype;
    uint32_t rank;
    int64_t sizes[TN_MAX_RANK];
    uint64_t begin, end; /* in the data part */
} entry;

struct tn_safetensors {
    tn_context *ctx;
    char *map;
    uint64_t bytes;
    const char *data;
    uint64_t data_bytes;
    cJSON *header;
    const cJSON *metadata;
    entry *entries;
    uint64_t count;
    char *path;
};

static const struct {
    const char *name;
    tn_dtype dtype;
} dtypes[] = {
    {"BOOL", TN_BOOL},
    {"U8", TN_UINT8},
    {"I8", TN_INT8},
    {"I16", TN_INT16},
    {"U16", TN_UINT16},
    {"I32", TN_INT32},
    {"U32", TN_UINT32},
    {"I64", TN_INT64},
    {"U64", TN_UINT64},
    {"F16", TN_FLOAT16},
    {"BF16", TN_BFLOAT16},
    {"F32", TN_FLOAT32},
    {"F64", TN_FLOAT64},
    {"C64", TN_COMPLEX64},
    {"F8_E4M3", TN_FLOAT8_E4M3FN},
    {"F8_E5M2", TN_FLOAT8_E5M2},
    {"F8_E8M0", TN_FLOAT8_E8M0FNU},
};

const char *tni_safetensors_dtype_name(tn_dtype dtype)
{
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    }
    return NULL;
}

tn_dtype tni_safetensors_dtype(const char *name)
{
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) == 0) return dtypes[i].dtype;
    }
    return 0;
}

static int32_t corrupt(const tn_safetensors *f, const char *name, const char *what)
{
    return tni_error(TN_E_CORRUPT, "safetensors: %s: %s%s%s", f->path, name ? name : "", name ? ": " : "",
                     what);
}

/* A whole number from 0 to 2^53. */
static int32_t whole(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > 9007199254740992.0 ||
        item->valuedouble != (double)(uint64_t)item->valuedouble)
        return 0;
    *out = (uint64_t)item->valuedouble;
    return 1;
}

static int32_t read_shape(const tn_safetensors *f, const cJSON *item, entry *e)
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape"), *size;
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > TN_MAX_RANK)
        return corrupt(f, e->name, "shape is no list of at most 64 sizes");
    cJSON_ArrayForEach(size, shape)
    {
        uint64_t n;
        if (!whole(size, &n)) return corrupt(f, e->name, "a size is no whole number");
        e->sizes[e->rank++] = (int64_t)n;
    }
    return TN_OK;
}

static int32_t read_entry(tn_safetensors *f, const cJSON *item, entry *e)
{
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    int64_t numel;
    int32_t status;
    e->name = item->string;
    if (!cJSON_IsObject(item)) return corrupt(f, e->name, "is no object");
    if (!cJSON_IsString(dtype)) return corrupt(f, e->name, "has no dtype");
    e->dtype = tni_safetensors_dtype(dtype->valuestring);
    if (!e->dtype) return corrupt(f, e->name, "has an unknown dtype");
    status = read_shape(f, item, e);
    if (status) return status;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !whole(offsets->child, &e->begin) ||
        !whole(offsets->child->next, &e->end) || e->begin > e->end)
        return corrupt(f, e->name, "has no data_offsets [begin, end]");
    if (e->end > f->data_bytes) return corrupt(f, e->name, "its data pass the end of the file");
    if (tni_numel(e->rank, e->sizes, &numel) || (uint64_t)numel > UINT64_MAX / 16 ||
        (uint64_t)numel * (uint64_t)tn_dtype_bytes(e->dtype) != e->end - e->begin) {
        return corrupt(f, e->name, "shape and dtype do not fill data_offsets");
    }
    return TN_OK;
}

static int by_begin(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static int32_t check_ranges(tn_safetensors *f)
{
    uint64_t at = 0;
    qsort(f->entries, f->count, sizeof *f->entries, by_begin);
    for (uint64_t i = 0; i < f->count; i++) {
        if (f->entries[i].begin != at)
            return corrupt(f, f->entries[i].name,
                           f->entries[i].begin < at ? "overlaps another tensor" : "leaves a hole before it");
        at = f->entries[i].end;
    }
    if (at != f->data_bytes) return corrupt(f, NULL, "bytes behind the last tensor");
    qsort(f->entries, f->count, sizeof *f->entries, by_name);
    for (uint64_t i = 1; i < f->count; i++) {
        if (!strcmp(f->entries[i].name, f->entries[i - 1].name))
            return corrupt(f, f->entries[i].name, "stands twice");
    }
    return TN_OK;
}

static int32_t read_header(tn_safetensors *f)
{
    uint64_t length = 0;
    const cJSON *item;
    int32_t status = TN_OK;
    if (f->bytes < 8) return corrupt(f, NULL, "shorter than 8 bytes");
    for (int i = 7; i >= 0; i--) length = length << 8 | (unsigned char)f->map[i];
    if (length > MAX_HEADER || length > f->bytes - 8)
        return corrupt(f, NULL, "the header passes the end of the file");
    f->data = f->map + 8 + length;
    f->data_bytes = f->bytes - 8 - length;
    f->header = cJSON_ParseWithLength(f->map + 8, length);
    if (!cJSON_IsObject(f->header)) return corrupt(f, NULL, "the header is no JSON object");
    f->entries = tni_alloc_zeroed(f->ctx, ((uint64_t)cJSON_GetArraySize(f->header) + 1) * sizeof *f->entries);
    if (!f->entries) return TN_E_OUT_OF_MEMORY;
    cJSON_ArrayForEach(item, f->header)
    {
        if (strcmp(item->string, "__metadata__") == 0)
            f->metadata = item;
        else if (!status)
            status = read_entry(f, item, &f->entries[f->count++]);
    }
    return status ? status : check_ranges(f);
}

static int32_t map_file(tn_safetensors *f, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tni_error(TN_E_IO, "safetensors: %s: %s", path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return tni_error(TN_E_IO, "safetensors: %s is no regular file", path);
    }
    f->bytes = (uint64_t)st.st_size;
    f->map = f->bytes ? mmap(NULL, f->bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (f->map != MAP_FAILED) return TN_OK;
    f->map = NULL;
    return tni_error(TN_E_IO, "safetensors: %s cannot be mapped: %s", path, strerror(errno));
}

int32_t tn_safetensors_open(tn_context *ctx, const char *path, tn_safetensors **out)
{
    tn_safetensors *f;
    int32_t status;
    if (!ctx || !path || !out) return tni_error(TN_E_ARGUMENT, "safetensors_open: ctx, path or out is NULL");
    f = tni_alloc_zeroed(ctx, sizeof *f);
    if (!f) return TN_E_OUT_OF_MEMORY;
    f->ctx = ctx;
    f->path = tni_strdup(ctx, path);
    status = f->path ? map_file(f, path) : TN_E_OUT_OF_MEMORY;
    if (!status) status = read_header(f);
    if (status)
        tn_safetensors_close(f);
    else
        *out = f;
    return status;
}

void tn_safetensors_close(tn_safetensors *f)
{
    if (!f) return;
    if (f->entries)
        tni_free(f->ctx, f->entries, ((uint64_t)cJSON_GetArraySize(f->header) + 1) * sizeof *f->entries);
    cJSON_Delete(f->header);
    if (f->map) munmap(f->map, f->bytes);
    if (f->path) tni_free(f->ctx, f->path, strlen(f->path) + 1);
    tni_free(f->ctx, f, sizeof *f);
}

uint64_t tn_safetensors_count(const tn_safetensors *f)
{
    return f->count;
}

const char *tn_safetensors_name(const tn_safetensors *f, uint64_t i)
{
    return i < f->count ? f->entries[i].name : NULL;
}

const char *tn_safetensors_metadata(const tn_safetensors *f, const char *key)
{
    const cJSON *item = f->metadata ? cJSON_GetObjectItemCaseSensitive(f->metadata, key) : NULL;
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

tn_tensor *tn_safetensors_get(tn_scope *s, tn_safetensors *f, const char *name, tn_device device)
{
    entry key = {.name = name};
    const entry *e;
    if (tn_scope_failed(s)) return NULL;
    e = name ? bsearch(&key, f->entries, f->count, sizeof key, by_name) : NULL;
    if (!e) {
        tni_scope_record(s, tni_error(TN_E_NOT_FOUND, "safetensors: %s has no tensor \"%s\"", f->path,
                                      name ? name : "NULL"));
        return NULL;
    }
    return tn_from_data(s, e->dtype, (tn_ints){e->sizes, e->rank}, f->data + e->begin, device);
}
