/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing safetensors files. Everything is checked before a file is made, which replaces the old one when all of it is
 * on the disk: whatever fails, the old file is still there. Larger elements come first, so all data lie aligned.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>
#include <unistd.h>
#include "core/io/safetensors.h"
#include "core/replacement/replacement.h"
#include "core/scope.h"
#include "core/transfer.h"

typedef struct writer {
    tn_context *ctx;
    const char *path;
    const tn_named_tensor **order; /* as written */
    uint64_t count;
    int descriptor;
} writer;

static uint64_t bytes_of(const tn_tensor *t)
{
    return (uint64_t)(t->numel * tn_dtype_bytes(t->desc.dtype));
}

/* ---- Checks -------------------------------------------------------------------------------------------- */

static int32_t check_tensor(const tn_named_tensor *n)
{
    if (!n->name || !strcmp(n->name, TNI_SAFETENSORS_METADATA) || !tni_utf8_check(n->name, strlen(n->name)))
        return tni_error(TN_E_ARGUMENT, "tn_safetensors_save: '%s' cannot be a tensor's name",
                         n->name ? n->name : "(null)");
    int32_t status = tni_tensor_check(n->tensor);
    if (status) return status;
    tn_dtype dtype = n->tensor->desc.dtype;
    int32_t is_vendor = tni_dtype_is_vendor(dtype);
    if (is_vendor && n->tensor->desc.rank == TN_MAX_RANK)
        return tni_error(TN_E_SHAPE,
                         "tn_safetensors_save: tensor '%s' of dtype %s has more than %d dimensions", n->name,
                         tni_dtype_text(n->tensor->ctx, dtype), TN_MAX_RANK - 1);
    if (!is_vendor && !tni_safetensors_dtype_name(dtype))
        return tni_error(TN_E_DTYPE,
                         "tn_safetensors_save: tensor '%s' is of dtype %s, which the format does not have",
                         n->name, tn_dtype_name(dtype) ? tn_dtype_name(dtype) : "?");
    if (!n->tensor->storage->device)
        return tni_error(TN_E_DEVICE, "tn_safetensors_save: tensor '%s' is a meta tensor without data",
                         n->name);
    return TN_OK;
}

static int by_size_and_name(const void *a, const void *b)
{
    const tn_named_tensor *x = *(const tn_named_tensor *const *)a, *y = *(const tn_named_tensor *const *)b;
    int64_t n = tn_dtype_bytes(x->tensor->desc.dtype), m = tn_dtype_bytes(y->tensor->desc.dtype);
    return n != m ? (n > m ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const tn_named_tensor *const *)a)->name, (*(const tn_named_tensor *const *)b)->name);
}

static int32_t check_all(writer *w, const tn_named_tensor *tensors)
{
    for (uint64_t i = 0; i < w->count; i++) {
        int32_t status = check_tensor(&tensors[i]);
        if (status) return status;
        w->order[i] = &tensors[i];
    }
    qsort(w->order, w->count, sizeof *w->order, by_name);
    for (uint64_t i = 1; i < w->count; i++) {
        if (!strcmp(w->order[i - 1]->name, w->order[i]->name))
            return tni_error(TN_E_ARGUMENT, "tn_safetensors_save: two tensors are named '%s'",
                             w->order[i]->name);
    }
    qsort(w->order, w->count, sizeof *w->order, by_size_and_name);
    return TN_OK;
}

/* ---- The header ---------------------------------------------------------------------------------------- */

/* What a reader needs to know of vendors' dtypes. */
static int32_t add_vendor_dtypes(const writer *w, cJSON *map)
{
    for (uint64_t i = 0; i < w->count; i++) {
        tn_dtype dtype = w->order[i]->tensor->desc.dtype;
        char value[256], *key;
        if (!tni_dtype_is_vendor(dtype)) continue;
        uint64_t bytes = sizeof TNI_SAFETENSORS_VENDOR + strlen(w->order[i]->name);
        if (!(key = tni_alloc(w->ctx, bytes))) return TN_E_OUT_OF_MEMORY;
        snprintf(key, bytes, TNI_SAFETENSORS_VENDOR "%s", w->order[i]->name);
        snprintf(value, sizeof value, "%s:%u", tni_dtype_text(w->ctx, dtype), TN_DTYPE_BITS(dtype));
        const cJSON *there = cJSON_GetObjectItemCaseSensitive(map, key);
        int32_t good = there || cJSON_AddStringToObject(map, key, value);
        tni_free(w->ctx, key, bytes);
        if (there)
            return tni_error(TN_E_ARGUMENT,
                             "tn_safetensors_save: metadata has the key of a tensor's dtype ('%s')",
                             there->string);
        if (!good) return tni_error_no_memory("a file's header", 0);
    }
    return TN_OK;
}

static int32_t has_vendor_dtypes(const writer *w)
{
    for (uint64_t i = 0; i < w->count; i++)
        if (tni_dtype_is_vendor(w->order[i]->tensor->desc.dtype)) return 1;
    return 0;
}

static int32_t add_metadata(const writer *w, cJSON *header, const char *const *pairs, uint64_t count)
{
    if (!count && !has_vendor_dtypes(w)) return TN_OK;
    cJSON *map = cJSON_AddObjectToObject(header, TNI_SAFETENSORS_METADATA);
    if (!map) return tni_error_no_memory("a file's header", 0);
    for (uint64_t i = 0; i < count; i++) {
        const char *key = pairs[2 * i], *value = pairs[2 * i + 1];
        if (!key || !value || !tni_utf8_check(key, strlen(key)) || !tni_utf8_check(value, strlen(value)))
            return tni_error(TN_E_ARGUMENT, "tn_safetensors_save: metadata must be pairs of UTF-8 text");
        if (cJSON_GetObjectItemCaseSensitive(map, key))
            return tni_error(TN_E_ARGUMENT, "tn_safetensors_save: metadata has the key '%s' twice", key);
        if (!cJSON_AddStringToObject(map, key, value)) return tni_error_no_memory("a file's header", 0);
    }
    return add_vendor_dtypes(w, map);
}

static int32_t add_tensor(cJSON *header, const tn_named_tensor *n, uint64_t *at)
{
    char shape[TN_MAX_RANK * 21 + 3], range[64], *end = shape;
    const tn_tensor_desc *d = &n->tensor->desc;
    *end++ = '[';
    const char *dtype = tni_dtype_is_vendor(d->dtype) ? "U8" : tni_safetensors_dtype_name(d->dtype);
    for (uint32_t i = 0; i < d->rank; i++) end += sprintf(end, "%s%" PRId64, i ? "," : "", d->sizes[i]);
    if (tni_dtype_is_vendor(d->dtype))
        end += sprintf(end, "%s%" PRId64, d->rank ? "," : "", tn_dtype_bytes(d->dtype));
    strcpy(end, "]");
    sprintf(range, "[%" PRIu64 ",%" PRIu64 "]", *at, *at + bytes_of(n->tensor));
    *at += bytes_of(n->tensor);
    cJSON *map = cJSON_AddObjectToObject(header, n->name);
    if (!map || !cJSON_AddStringToObject(map, "dtype", dtype) || !cJSON_AddRawToObject(map, "shape", shape) ||
        !cJSON_AddRawToObject(map, "data_offsets", range))
        return tni_error_no_memory("a file's header", 0);
    return TN_OK;
}

/* The header's text, made by the JSON library and freed with it. */
static int32_t make_header(const writer *w, const char *const *metadata, uint64_t n_metadata, char **out)
{
    cJSON *header = cJSON_CreateObject();
    uint64_t at = 0;
    int32_t status =
        header ? add_metadata(w, header, metadata, n_metadata) : tni_error_no_memory("a file's header", 0);
    for (uint64_t i = 0; i < w->count && !status; i++) status = add_tensor(header, w->order[i], &at);
    if (!status && !(*out = cJSON_PrintUnformatted(header)))
        status = tni_error_no_memory("a file's header", 0);
    cJSON_Delete(header);
    return status;
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static int32_t io_error(const writer *w, const char *what)
{
    return tni_error(TN_E_IO, "%s: %s: %s", w->path, what, strerror(errno));
}

static int32_t write_all(const writer *w, const void *from, uint64_t bytes)
{
    const char *at = from;
    while (bytes > 0) {
        ssize_t n = write(w->descriptor, at, bytes < 1u << 30 ? bytes : 1u << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return io_error(w, "writing");
        at += n;
        bytes -= (uint64_t)n;
    }
    return TN_OK;
}

static int32_t write_tensor(const writer *w, const tn_tensor *t)
{
    uint64_t bytes = bytes_of(t);
    if (!bytes) return TN_OK;
    if (t->storage->device->synchronous && tni_is_contiguous(t) &&
        !(t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG)))
        return write_all(w, t->desc.host, bytes);
    char *copy = tni_alloc(w->ctx, bytes);
    if (!copy) return TN_E_OUT_OF_MEMORY;
    int32_t status = tni_tensor_read(t, copy, bytes);
    if (!status) status = write_all(w, copy, bytes);
    tni_free(w->ctx, copy, bytes);
    return status;
}

static int32_t write_content(const writer *w, const char *header)
{
    static const char padding[8] = "        ";
    uint64_t length = strlen(header), padded = (length + 7) / 8 * 8;
    unsigned char prefix[8];
    if (padded > TNI_SAFETENSORS_HEADER)
        return tni_error(TN_E_ARGUMENT, "tn_safetensors_save: the header is longer than the format allows");
    for (uint32_t i = 0; i < 8; i++) prefix[i] = (unsigned char)(padded >> 8 * i);
    int32_t status = write_all(w, prefix, 8);
    if (!status) status = write_all(w, header, length);
    if (!status) status = write_all(w, padding, padded - length);
    for (uint64_t i = 0; i < w->count && !status; i++) status = write_tensor(w, w->order[i]->tensor);
    return status;
}

static int32_t write_file(writer *w, const char *header)
{
    tni_replacement file;
    /* Renaming would put a file in the place of a device, and privileged programs may. */
    if (tni_is_special_file(w->path)) return tni_error(TN_E_IO, "%s: not a regular file", w->path);
    if ((errno = tni_replacement_begin(&file, w->path))) return io_error(w, "making a file beside it");
    w->descriptor = file.descriptor;
    int32_t status = write_content(w, header), failed = tni_replacement_end(&file, !status);
    errno = failed;
    return failed && !status ? io_error(w, "replacing it") : status;
}

static int32_t save(tn_context *ctx, const char *path, const tn_named_tensor *tensors, uint64_t count,
                    const char *const *metadata, uint64_t n_metadata)
{
    writer w = {.ctx = ctx, .path = path, .count = count};
    char *header = NULL;
    if (!path || (count && !tensors) || (n_metadata && !metadata))
        return tni_error(TN_E_ARGUMENT, "tn_safetensors_save: path, tensors or metadata is NULL");
    if (!*path) return tni_error(TN_E_ARGUMENT, "tn_safetensors_save: argument 'path': it is empty");
    w.order = tni_alloc(ctx, (count + 1) * sizeof *w.order);
    if (!w.order) return TN_E_OUT_OF_MEMORY;
    int32_t status = check_all(&w, tensors);
    if (!status) status = make_header(&w, metadata, n_metadata, &header);
    if (!status) status = write_file(&w, header);
    cJSON_free(header);
    tni_free(ctx, w.order, (count + 1) * sizeof *w.order);
    return status;
}

int32_t tn_safetensors_save(tn_scope *s, const char *path, const tn_named_tensor *tensors, uint64_t count,
                            const char *const *metadata, uint64_t n_metadata)
{
    int32_t status = tn_scope_failed(s);
    if (status) return status;
    status = save(s->ctx, path, tensors, count, metadata, n_metadata);
    return status ? tni_scope_record(s, status) : TN_OK;
}
