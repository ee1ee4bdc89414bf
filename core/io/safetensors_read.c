/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading safetensors files. Opening checks the whole header: its length, that it is the JSON the format
 * allows and nothing more, each dtype, shape and range. The ranges must follow each other without holes or
 * overlaps and end where the file ends. Data are read, so that a file that shrinks later is an error and not a signal;
 * only tn_safetensors_map maps them.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <unistd.h>
#include "core/handle.h"
#include "core/debug.h"
#include "core/io/safetensors.h"
#include "core/scope.h"
#include "core/similar/similar_name.h"
#include "core/thread.h"
#include "core/transfer.h"

#define CHUNK_BYTES (16ull << 20) /* read at once on the way to a device */

/* A tensor of more than TN_MAX_RANK dimensions is listed but cannot be read; beyond this one the file is
 * refused. */
#define MAX_LISTED_RANK 1024

typedef struct entry {
    char *name;
    tn_dtype dtype;
    uint32_t rank;
    int64_t *sizes;
    uint64_t begin, end; /* in bytes from the start of the data */
} entry;

struct tn_safetensors {
    tn_context *ctx;
    char *path;
    int descriptor;
    uint64_t data; /* where the data start in the file */
    uint64_t data_bytes;
    entry *entries; /* in the order of the data */
    uint32_t *by_name;
    uint64_t count;
    cJSON *metadata; /* or NULL */
    tni_handle_mark life;
};

static int32_t corrupt(const tn_safetensors *f, const char *what)
{
    return tni_error(TN_E_CORRUPT, "%s: %s", f->path, what);
}

static int32_t corrupt_entry(const tn_safetensors *f, const entry *e, const char *what)
{
    return tni_error(TN_E_CORRUPT, "%s: tensor '%s': %s", f->path, e->name, what);
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static int32_t read_at(const tn_safetensors *f, uint64_t offset, void *to, uint64_t bytes)
{
    char *at = to;
    while (bytes > 0) {
        ssize_t n = pread(f->descriptor, at, bytes < 1u << 30 ? bytes : 1u << 30, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return tni_error(TN_E_IO, "%s: %s", f->path, strerror(errno));
        if (n == 0) return corrupt(f, "the file ends too early");
        at += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return TN_OK;
}

static int32_t open_file(tn_safetensors *f, uint64_t *out_bytes)
{
    struct stat status;
    f->descriptor = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->descriptor < 0 || fstat(f->descriptor, &status))
        return tni_error(errno == ENOENT ? TN_E_NOT_FOUND : TN_E_IO, "%s: %s", f->path, strerror(errno));
    if (!S_ISREG(status.st_mode)) return tni_error(TN_E_IO, "%s: not a regular file", f->path);
    *out_bytes = (uint64_t)status.st_size;
    return TN_OK;
}

/* ---- The header ---------------------------------------------------------------------------------------- */

/*
 * The JSON reader takes more than the format has: numbers with fractions, words, NUL in strings. Outside of
 * strings only digits and punctuation may stand, and no string may hold an escaped NUL.
 */
static int32_t check_characters(const tn_safetensors *f, const char *text, uint64_t bytes)
{
    int32_t in_string = 0;
    for (uint64_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (in_string && c == '\\') {
            if (bytes - i > 5 && !strncmp(text + i, "\\u0000", 6))
                return corrupt(f, "a name in the header has a NUL");
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && !strchr("{}[],:0123456789 \t\r\n", c)) {
            return corrupt(f, "the header has something else than names, numbers and lists");
        }
    }
    return TN_OK;
}

static int32_t parse_number(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item) || item->valuedouble > 9007199254740992.0) return 0;
    *out = (uint64_t)item->valuedouble;
    return 1;
}

static int32_t parse_sizes(tn_safetensors *f, entry *e, const cJSON *shape)
{
    int count = cJSON_GetArraySize(shape);
    if (!cJSON_IsArray(shape)) return corrupt_entry(f, e, "no shape");
    if (count > MAX_LISTED_RANK) return corrupt_entry(f, e, "more dimensions than any format allows");
    if (!count) return TN_OK;
    e->sizes = tni_alloc(f->ctx, (uint64_t)count * sizeof *e->sizes);
    if (!e->sizes) return TN_E_OUT_OF_MEMORY;
    e->rank = (uint32_t)count;
    const cJSON *item;
    uint32_t i = 0;
    cJSON_ArrayForEach(item, shape)
    {
        uint64_t size;
        if (!parse_number(item, &size)) return corrupt_entry(f, e, "a size is not a non-negative integer");
        e->sizes[i++] = (int64_t)size;
    }
    return TN_OK;
}

static int32_t parse_range(tn_safetensors *f, entry *e, const cJSON *offsets)
{
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !parse_number(cJSON_GetArrayItem(offsets, 0), &e->begin) ||
        !parse_number(cJSON_GetArrayItem(offsets, 1), &e->end))
        return corrupt_entry(f, e, "data_offsets must be two numbers");
    if (e->begin > e->end || e->end > f->data_bytes)
        return corrupt_entry(f, e, "its data lie outside of the file");
    uint64_t bytes = (uint64_t)tn_dtype_bytes(e->dtype);
    for (uint32_t i = 0; i < e->rank; i++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)e->sizes[i], &bytes) || bytes > INT64_MAX)
            return corrupt_entry(f, e, "its sizes overflow");
    }
    if (bytes != e->end - e->begin) return corrupt_entry(f, e, "shape and dtype do not fit its data");
    return TN_OK;
}

static int32_t parse_entry(tn_safetensors *f, entry *e, const cJSON *item)
{
    e->name = tni_strdup(f->ctx, item->string);
    if (!e->name) return TN_E_OUT_OF_MEMORY;
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    if (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 3)
        return corrupt_entry(f, e, "it needs dtype, shape and data_offsets, and nothing else");
    if (!cJSON_IsString(dtype)) return corrupt_entry(f, e, "no dtype");
    e->dtype = tni_safetensors_dtype_parse(dtype->valuestring);
    if (!e->dtype)
        return tni_error(TN_E_CORRUPT, "%s: tensor '%s': unknown dtype '%s'", f->path, e->name,
                         dtype->valuestring);
    int32_t status = parse_sizes(f, e, cJSON_GetObjectItemCaseSensitive(item, "shape"));
    return status ? status : parse_range(f, e, cJSON_GetObjectItemCaseSensitive(item, "data_offsets"));
}

static int32_t parse_metadata(tn_safetensors *f, cJSON *header)
{
    cJSON *metadata = cJSON_DetachItemFromObjectCaseSensitive(header, TNI_SAFETENSORS_METADATA);
    const cJSON *item;
    if (!metadata) return TN_OK;
    f->metadata = metadata;
    if (!cJSON_IsObject(metadata)) return corrupt(f, TNI_SAFETENSORS_METADATA " is not a map");
    cJSON_ArrayForEach(item, metadata)
    {
        if (!cJSON_IsString(item))
            return corrupt(f, TNI_SAFETENSORS_METADATA " has a value that is not text");
    }
    if (cJSON_GetObjectItemCaseSensitive(header, TNI_SAFETENSORS_METADATA))
        return corrupt(f, TNI_SAFETENSORS_METADATA " stands there twice");
    return TN_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b, void *entries)
{
    const entry *e = entries;
    return strcmp(e[*(const uint32_t *)a].name, e[*(const uint32_t *)b].name);
}

static int32_t check_ranges(tn_safetensors *f)
{
    uint64_t at = 0;
    qsort(f->entries, f->count, sizeof *f->entries, compare_ranges);
    for (uint64_t i = 0; i < f->count; i++) {
        if (f->entries[i].begin != at)
            return corrupt_entry(f, &f->entries[i],
                                 f->entries[i].begin < at ? "its data overlap others"
                                                          : "a hole before its data");
        at = f->entries[i].end;
    }
    return at == f->data_bytes ? TN_OK : corrupt(f, "data at the end belong to no tensor");
}

static int32_t check_names(tn_safetensors *f)
{
    f->by_name = tni_alloc(f->ctx, (f->count + 1) * sizeof *f->by_name);
    if (!f->by_name) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < f->count; i++) f->by_name[i] = i;
    qsort_r(f->by_name, f->count, sizeof *f->by_name, compare_names, f->entries);
    for (uint64_t i = 1; i < f->count; i++) {
        if (!compare_names(&f->by_name[i - 1], &f->by_name[i], f->entries))
            return corrupt_entry(f, &f->entries[f->by_name[i]], "the name stands there twice");
    }
    return TN_OK;
}

static int32_t parse_header(tn_safetensors *f, cJSON *header)
{
    const cJSON *item;
    int32_t status = parse_metadata(f, header);
    if (status) return status;
    uint64_t count = (uint64_t)cJSON_GetArraySize(header);
    f->entries = tni_alloc_zeroed(f->ctx, (count + 1) * sizeof *f->entries);
    if (!f->entries) return TN_E_OUT_OF_MEMORY;
    f->count = count;
    entry *e = f->entries;
    cJSON_ArrayForEach(item, header)
    {
        if ((status = parse_entry(f, e++, item))) return status;
    }
    status = check_ranges(f);
    return status ? status : check_names(f);
}

static int32_t parse_text(tn_safetensors *f, const char *text, uint64_t bytes)
{
    const char *end = NULL;
    if (!bytes || text[0] != '{') return corrupt(f, "the header does not begin with '{'");
    if (!tni_utf8_check(text, bytes)) return corrupt(f, "the header is not UTF-8");
    int32_t status = check_characters(f, text, bytes);
    if (status) return status;
    cJSON *header = cJSON_ParseWithLengthOpts(text, bytes, &end, 0);
    if (!header) return corrupt(f, "the header is not JSON");
    while (end < text + bytes && *end == ' ') end++;
    status = end == text + bytes ? parse_header(f, header) : corrupt(f, "text after the header");
    cJSON_Delete(header);
    return status;
}

static int32_t read_header(tn_safetensors *f)
{
    unsigned char prefix[8];
    uint64_t bytes = 0, length = 0;
    int32_t status = open_file(f, &bytes);
    if (!status && bytes < 8) status = corrupt(f, "the file is too short");
    if (!status) status = read_at(f, 0, prefix, 8);
    if (status) return status;
    for (uint32_t i = 8; i-- > 0;) length = length << 8 | prefix[i];
    if (length > TNI_SAFETENSORS_HEADER) return corrupt(f, "the header is longer than the format allows");
    if (length > bytes - 8) return corrupt(f, "the header is longer than the file");
    f->data = 8 + length;
    f->data_bytes = bytes - f->data;
    char *text = tni_alloc(f->ctx, length + 1);
    if (!text) return TN_E_OUT_OF_MEMORY;
    status = read_at(f, 8, text, length);
    if (!status) status = parse_text(f, text, length);
    tni_free(f->ctx, text, length + 1);
    return status;
}

/* ---- Public -------------------------------------------------------------------------------------------- */

int32_t tn_safetensors_open(tn_context *ctx, const char *path, tn_safetensors **out)
{
    int32_t status = tni_context_check(ctx);
    if (status) return status;
    if (!path || !out) return tni_error(TN_E_ARGUMENT, "tn_safetensors_open: path or out is NULL");
    if (!*path) return tni_error(TN_E_ARGUMENT, "tn_safetensors_open: argument 'path': it is empty");
    tn_safetensors *f = tni_alloc_zeroed(ctx, sizeof *f);
    if (!f) return TN_E_OUT_OF_MEMORY;
    f->ctx = ctx;
    f->descriptor = -1;
    f->path = tni_strdup(ctx, path);
    tni_context_own(ctx);
    status = f->path ? read_header(f) : TN_E_OUT_OF_MEMORY;
    tni_handle_made(ctx, f, "safetensors file");
    if (status)
        tn_safetensors_close(f);
    else
        *out = f;
    return status;
}

void tn_safetensors_close(tn_safetensors *f)
{
    if (!f) return;
    tn_context *ctx = f->ctx;
    if (!tni_handle_may_end(ctx, &f->life, "safetensors file", __builtin_return_address(0))) return;
    for (uint64_t i = 0; i < f->count; i++) {
        entry *e = &f->entries[i];
        if (e->name) tni_free(ctx, e->name, strlen(e->name) + 1);
        tni_free(ctx, e->sizes, e->rank * sizeof *e->sizes);
    }
    if (f->descriptor >= 0) close(f->descriptor);
    if (f->by_name) tni_free(ctx, f->by_name, (f->count + 1) * sizeof *f->by_name);
    if (f->entries) tni_free(ctx, f->entries, (f->count + 1) * sizeof *f->entries);
    if (f->path) tni_free(ctx, f->path, strlen(f->path) + 1);
    cJSON_Delete(f->metadata);
    f->count = 0; /* a dead file is empty */
    f->metadata = NULL;
    tni_handle_free(ctx, f, sizeof *f, &f->life);
    tni_context_unown(ctx);
}

uint64_t tn_safetensors_count(const tn_safetensors *f)
{
    return f ? f->count : 0;
}

const char *tn_safetensors_name(const tn_safetensors *f, uint64_t i)
{
    return f && i < f->count ? f->entries[i].name : NULL;
}

const char *tn_safetensors_metadata(const tn_safetensors *f, const char *key)
{
    const cJSON *item = f && f->metadata ? cJSON_GetObjectItemCaseSensitive(f->metadata, key) : NULL;
    return item ? item->valuestring : NULL;
}

static const entry *find(const tn_safetensors *f, const char *name)
{
    uint64_t low = 0, high = f->count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        const entry *e = &f->entries[f->by_name[middle]];
        int order = strcmp(name, e->name);
        if (!order) return e;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* A bool tensor holds the bytes 0 and 1 only. `data` is that of n elements from element `first` on. */
static int32_t check_bools(const tn_safetensors *f, const entry *e, const unsigned char *data, uint64_t first,
                           uint64_t n)
{
    for (uint64_t i = 0; e->dtype == TN_BOOL && i < n; i++) {
        if (data[i] > 1)
            return tni_error(TN_E_CORRUPT,
                             "%s: tensor '%s': element %llu is the byte %u (expected 0 or 1, as bool)",
                             f->path, e->name, (unsigned long long)(first + i), data[i]);
    }
    return TN_OK;
}

/* In pieces through host memory, for devices whose memory the host does not see. */
static int32_t read_to_device(const tn_safetensors *f, const entry *e, tn_tensor *t)
{
    uint64_t bytes = e->end - e->begin, chunk = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
    char *buffer = tni_alloc(f->ctx, chunk);
    int32_t status = buffer ? TN_OK : TN_E_OUT_OF_MEMORY;
    for (uint64_t done = 0; done < bytes && !status; done += chunk) {
        uint64_t n = bytes - done < chunk ? bytes - done : chunk;
        status = read_at(f, f->data + e->begin + done, buffer, n);
        if (!status) status = check_bools(f, e, (const unsigned char *)buffer, done, n);
        if (!status)
            status = tni_copy_to_device(t->storage->device, t->desc.allocation, t->desc.byte_offset + done,
                                        buffer, n);
    }
    if (buffer) tni_free(f->ctx, buffer, chunk);
    return status;
}

/* The dtype and rank of a tensor: those of the file, or a vendor's dtype that its metadata name. */
static int32_t read_vendor_dtype(tn_context *ctx, const tn_safetensors *f, const entry *e, tn_dtype *dtype,
                                 uint32_t *rank)
{
    uint64_t bytes = sizeof TNI_SAFETENSORS_VENDOR + strlen(e->name);
    char *key = e->dtype == TN_UINT8 && e->rank && f->metadata ? tni_alloc(f->ctx, bytes) : NULL, name[256];
    *dtype = e->dtype;
    *rank = e->rank;
    if (!key) return TN_OK;
    snprintf(key, bytes, TNI_SAFETENSORS_VENDOR "%s", e->name);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(f->metadata, key);
    tni_free(f->ctx, key, bytes);
    if (!item) return TN_OK;
    snprintf(name, sizeof name, "%s", item->valuestring);
    char *colon = strrchr(name, ':'), *end = NULL;
    unsigned long bits = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (!colon || *end || !bits || bits > 255) return corrupt_entry(f, e, "damaged name of a vendor's dtype");
    *colon = 0;
    *dtype = tn_dtype_intern(ctx, name, (uint32_t)bits);
    if (!*dtype) return tn_last_error()->code;
    if (e->sizes[e->rank - 1] != tn_dtype_bytes(*dtype))
        return corrupt_entry(f, e, "its last dimension is not an element of its dtype");
    --*rank;
    return TN_OK;
}

static int32_t unknown(const tn_safetensors *f, const char *name)
{
    char text[SIMILAR_NAME_BYTES + 32];
    similar_name similar = similar_name_begin(name);
    for (uint64_t i = 0; i < f->count; i++) similar_name_try(&similar, f->entries[i].name);
    return tni_error(TN_E_NOT_FOUND, "%s: no tensor '%s'%s", f->path, name,
                     similar_name_text(&similar, text));
}

static int32_t get(tn_context *ctx, const tn_safetensors *f, const char *name, tn_device device,
                   tn_tensor **out)
{
    const entry *e = name ? find(f, name) : NULL;
    tn_tensor *t = NULL;
    if (!e) return unknown(f, name ? name : "(null)");
    if (e->rank > TN_MAX_RANK)
        return tni_error(TN_E_SHAPE, "%s: tensor '%s' has %u dimensions, a tensor may have %d", f->path, name,
                         e->rank, TN_MAX_RANK);
    tn_dtype dtype;
    uint32_t rank;
    int32_t status = read_vendor_dtype(ctx, f, e, &dtype, &rank);
    if (!status) status = tni_tensor_create(ctx, device, dtype, rank, e->sizes, NULL, &t);
    if (status) return status;
    if (t->storage->device && e->begin < e->end) {
        if (t->storage->device->synchronous) {
            status = read_at(f, f->data + e->begin, t->desc.host, e->end - e->begin);
            if (!status) status = check_bools(f, e, t->desc.host, 0, e->end - e->begin);
        } else {
            status = read_to_device(f, e, t);
        }
    }
    if (status)
        tn_release(t);
    else
        *out = t;
    return status;
}

tn_tensor *tn_safetensors_get(tn_scope *s, tn_safetensors *f, const char *name, tn_device device)
{
    tn_tensor *t = NULL;
    if (tn_scope_failed(s)) return NULL;
    if (!f) {
        tni_scope_record(s, tni_error(TN_E_ARGUMENT, "tn_safetensors_get: the file is NULL"));
        return NULL;
    }
    if (!device) device = tni_tls.default_device ? tni_tls.default_device : TN_CPU;
    int32_t status = tni_handle_check(f->ctx, &f->life, "safetensors file");
    if (!status) status = get(s->ctx, f, name, device, &t);
    if (!status && s->ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_made(t, "tn_safetensors_get");
    if (!status) return tni_scope_own(s, t);
    tni_scope_record(s, status);
    return NULL;
}

/* ---- Mapped tensors ------------------------------------------------------------------------------------ */

typedef struct mapping {
    tn_context *ctx;
    void *pages;
    uint64_t bytes;
} mapping;

static void unmap(void *user)
{
    mapping *m = user;
    munmap(m->pages, m->bytes);
    tni_free(m->ctx, m, sizeof *m);
}

/* Whether the elements can be used where they are in the file. */
static int32_t can_map(const tn_safetensors *f, const entry *e, tn_dtype dtype)
{
    int64_t element = tn_dtype_bytes(dtype);
    return e->begin < e->end && dtype == e->dtype && dtype != TN_BOOL && element > 0 &&
           (f->data + e->begin) % (uint64_t)element == 0;
}

static tn_tensor *map_entry(tn_scope *s, const tn_safetensors *f, const entry *e)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), begin = f->data + e->begin;
    mapping *m = tni_alloc(s->ctx, sizeof *m);
    if (!m) return tni_scope_record(s, TN_E_OUT_OF_MEMORY), NULL;
    *m = (mapping){.ctx = s->ctx, .bytes = begin % page + (e->end - e->begin)};
    m->pages = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, f->descriptor,
                    (off_t)(begin - begin % page));
    if (m->pages == MAP_FAILED) {
        tni_free(s->ctx, m, sizeof *m);
        tni_scope_record(
            s, tni_error(TN_E_IO, "%s: mapping tensor '%s': %s", f->path, e->name, strerror(errno)));
        return NULL;
    }
    const tn_blob blob = {.size = sizeof blob,
                          .dtype = e->dtype,
                          .data = (char *)m->pages + begin % page,
                          .sizes = {e->sizes, e->rank},
                          .deleter = unmap,
                          .user = m};
    return tn_from_blob(s, &blob); /* unmaps if it fails */
}

tn_tensor *tn_safetensors_map(tn_scope *s, tn_safetensors *f, const char *name)
{
    const entry *e = f && name && !tn_scope_failed(s) ? find(f, name) : NULL;
    tn_dtype dtype = 0;
    uint32_t rank = 0;
    if (!e || e->rank > TN_MAX_RANK || read_vendor_dtype(s->ctx, f, e, &dtype, &rank) ||
        !can_map(f, e, dtype))
        return tn_safetensors_get(s, f, name, TN_CPU); /* a copy, or the error */
    return map_entry(s, f, e);
}
