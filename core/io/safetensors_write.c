/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing safetensors: header, then data in the order given, into a temporary file beside the target that
 * replaces it once all is on disk.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/io/safetensors.h"
#include "core/scope.h"

static int32_t add_tensor(cJSON *header, const tn_named_tensor *t, uint64_t *at)
{
    const tn_tensor_desc *d = tn_desc(t->tensor);
    const char *dtype = tni_safetensors_dtype_name(d->dtype);
    uint64_t bytes = (uint64_t)tn_tensor_numel(t->tensor) * (uint64_t)tn_dtype_bytes(d->dtype);
    cJSON *item, *shape, *offsets;
    if (!dtype)
        return tni_error(TN_E_DTYPE, "safetensors_save: %s: the format has no name for %s", t->name,
                         tn_dtype_name(d->dtype));
    if (cJSON_GetObjectItemCaseSensitive(header, t->name))
        return tni_error(TN_E_EXISTS, "safetensors_save: two tensors are named \"%s\"", t->name);
    item = cJSON_AddObjectToObject(header, t->name);
    cJSON_AddStringToObject(item, "dtype", dtype);
    shape = cJSON_AddArrayToObject(item, "shape");
    for (uint32_t i = 0; i < d->rank; i++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)d->sizes[i]));
    offsets = cJSON_AddArrayToObject(item, "data_offsets");
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)*at));
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)(*at + bytes)));
    if (!item || !shape || cJSON_GetArraySize(offsets) != 2)
        return tni_error_no_memory("a safetensors header", 0);
    *at += bytes;
    return TN_OK;
}

static int32_t make_header(const tn_named_tensor *tensors, uint64_t count, const char *const *metadata,
                           uint64_t n_metadata, char **out)
{
    cJSON *header = cJSON_CreateObject();
    uint64_t at = 0;
    int32_t status = header ? TN_OK : tni_error_no_memory("a safetensors header", 0);
    if (!status && n_metadata) {
        cJSON *m = cJSON_AddObjectToObject(header, "__metadata__");
        for (uint64_t i = 0; i < n_metadata; i++)
            cJSON_AddStringToObject(m, metadata[2 * i], metadata[2 * i + 1]);
    }
    for (uint64_t i = 0; i < count && !status; i++) {
        if (!tensors[i].name || !tensors[i].tensor)
            status = tni_error(TN_E_ARGUMENT, "safetensors_save: item %llu has no name or no tensor",
                               (unsigned long long)i);
        else
            status = add_tensor(header, &tensors[i], &at);
    }
    *out = status ? NULL : cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return status || *out ? status : tni_error_no_memory("a safetensors header", 0);
}

static int32_t write_tensor(tn_scope *s, FILE *file, const tn_tensor *t)
{
    uint64_t bytes = (uint64_t)tn_tensor_numel(t) * (uint64_t)tn_dtype_bytes(tn_tensor_dtype(t));
    void *data = tni_alloc(s->ctx, bytes + 1);
    int32_t status;
    if (!data) return TN_E_OUT_OF_MEMORY;
    status = tn_to_host(s, t, data, bytes);
    if (!status && fwrite(data, 1, bytes, file) != bytes)
        status = tni_error(TN_E_IO, "safetensors_save: %s", strerror(errno));
    tni_free(s->ctx, data, bytes + 1);
    return status;
}

static int32_t write_all(tn_scope *s, FILE *file, const char *header, const tn_named_tensor *tensors,
                         uint64_t count)
{
    uint64_t length = strlen(header), padded = (length + 7) & ~(uint64_t)7;
    unsigned char size[8];
    int32_t status = TN_OK;
    for (int i = 0; i < 8; i++) size[i] = (unsigned char)(padded >> (8 * i));
    if (fwrite(size, 1, 8, file) != 8 || fwrite(header, 1, length, file) != length ||
        fwrite("       ", 1, padded - length, file) != padded - length) {
        return tni_error(TN_E_IO, "safetensors_save: %s", strerror(errno));
    }
    for (uint64_t i = 0; i < count && !status; i++) status = write_tensor(s, file, tensors[i].tensor);
    if (!status && (fflush(file) || fsync(fileno(file))))
        status = tni_error(TN_E_IO, "safetensors_save: %s", strerror(errno));
    return status;
}

static int32_t save(tn_scope *s, const char *path, const char *header, const tn_named_tensor *tensors,
                    uint64_t count)
{
    char temporary[4096];
    FILE *file;
    int32_t status;
    if ((uint64_t)snprintf(temporary, sizeof temporary, "%s.%ld.part", path, (long)getpid()) >=
        sizeof temporary) {
        return tni_error(TN_E_ARGUMENT, "safetensors_save: the path is too long");
    }
    file = fopen(temporary, "wb");
    if (!file) return tni_error(TN_E_IO, "safetensors_save: %s: %s", temporary, strerror(errno));
    status = write_all(s, file, header, tensors, count);
    if (fclose(file) && !status)
        status = tni_error(TN_E_IO, "safetensors_save: %s: %s", temporary, strerror(errno));
    if (!status && rename(temporary, path))
        status = tni_error(TN_E_IO, "safetensors_save: %s: %s", path, strerror(errno));
    if (status) unlink(temporary);
    return status;
}

int32_t tn_safetensors_save(tn_scope *s, const char *path, const tn_named_tensor *tensors, uint64_t count,
                            const char *const *metadata, uint64_t n_metadata)
{
    char *header = NULL;
    int32_t status;
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (!path || (!tensors && count) || (!metadata && n_metadata)) {
        return tni_scope_record(
            s, tni_error(TN_E_ARGUMENT, "safetensors_save: path, tensors or metadata is NULL"));
    }
    status = make_header(tensors, count, metadata, n_metadata, &header);
    if (!status) status = save(s, path, header, tensors, count);
    cJSON_free(header);
    return status ? tni_scope_record(s, status) : TN_OK;
}
