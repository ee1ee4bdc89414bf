/* SPDX-License-Identifier: Apache-2.0 */
/* Writes sharded checkpoints; file.c reads them. */
#include <tenon/files.h>

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX  "model.safetensors.index.json"
#define SINGLE "model.safetensors"

typedef struct writer {
    tn_scope *scope;
    const char *folder;
    tn_named_tensors tensors;
    int64_t *shard_of; /* of each tensor, from 1 on */
    int64_t shards;
    uint64_t bytes;
} writer;

static int32_t write_fail(writer *w, int32_t status, const char *what)
{
    char text[600];
    snprintf(text, sizeof text, "shards: '%.400s': %s", w->folder, what);
    return tn_scope_fail(w->scope, status, text);
}

/* Fills shards one after another. */
static int32_t deal(writer *w, uint64_t most)
{
    uint64_t used = 0;
    w->shards = 1;
    for (int64_t i = 0; i < w->tensors.count; i++) {
        const tn_tensor *t = w->tensors.data[i].tensor;
        if (!t || !w->tensors.data[i].name)
            return write_fail(w, TN_E_ARGUMENT, "a tensor or its name is NULL");
        const uint64_t bytes = (uint64_t)(tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t)));
        if (used && used + bytes > most) {
            w->shards++;
            used = 0;
        }
        used += bytes;
        w->bytes += bytes;
        w->shard_of[i] = w->shards;
    }
    return TN_OK;
}

static int32_t path_of_shard(writer *w, int64_t shard, const char *end, char path[PATH_MAX])
{
    int n = w->shards == 1 ? snprintf(path, PATH_MAX, "%s/" SINGLE "%s", w->folder, end)
                           : snprintf(path, PATH_MAX, "%s/model-%05lld-of-%05lld.safetensors%s", w->folder,
                                      (long long)shard, (long long)w->shards, end);
    return n < PATH_MAX ? TN_OK : write_fail(w, TN_E_IO, strerror(ENAMETOOLONG));
}

static int32_t write_shard(writer *w, int64_t shard)
{
    char path[PATH_MAX];
    tn_named_tensor *list = tn_scope_memory(w->scope, (uint64_t)(w->tensors.count + 1) * sizeof *list);
    int64_t n = 0;
    for (int64_t i = 0; list && i < w->tensors.count; i++)
        if (w->shard_of[i] == shard) list[n++] = w->tensors.data[i];
    if (!list || path_of_shard(w, shard, ".new", path)) return tn_scope_failed(w->scope);
    return tn_safetensors_save(w->scope, path, list, (uint64_t)n, (const char *const[]){"format", "pt"}, 1);
}

static char *index_text(const writer *w)
{
    cJSON *json = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(json, "metadata"),
          *map = cJSON_AddObjectToObject(json, "weight_map");
    cJSON_AddNumberToObject(metadata, "total_size", (double)w->bytes);
    int32_t good = metadata && map;
    for (int64_t i = 0; good && i < w->tensors.count; i++) {
        char file[64];
        snprintf(file, sizeof file, "model-%05lld-of-%05lld.safetensors", (long long)w->shard_of[i],
                 (long long)w->shards);
        good = cJSON_AddStringToObject(map, w->tensors.data[i].name, file) != NULL;
    }
    char *text = good ? cJSON_Print(json) : NULL;
    cJSON_Delete(json);
    return text;
}

static int32_t write_index(writer *w, const char *path)
{
    char *text = index_text(w);
    FILE *file = text ? fopen(path, "wbe") : NULL;
    int32_t good = file && fputs(text, file) >= 0 && fputc('\n', file) == '\n' && fflush(file) == 0 &&
                   fsync(fileno(file)) == 0;
    if (file && fclose(file)) good = 0;
    if (!good)
        write_fail(w, text ? TN_E_IO : TN_E_OUT_OF_MEMORY, text ? strerror(errno) : "out of host memory");
    cJSON_free(text);
    return tn_scope_failed(w->scope);
}

/* Renames what was written; the index of shards last, or away if there is one file. */
static int32_t replace(writer *w, const char *index, const char *index_new)
{
    char from[PATH_MAX], to[PATH_MAX];
    for (int64_t i = 1; i <= w->shards; i++) {
        if (path_of_shard(w, i, ".new", from) || path_of_shard(w, i, "", to))
            return tn_scope_failed(w->scope);
        if (rename(from, to)) return write_fail(w, TN_E_IO, strerror(errno));
    }
    int failed = w->shards > 1 ? rename(index_new, index) : unlink(index) && errno != ENOENT;
    return failed ? write_fail(w, TN_E_IO, strerror(errno)) : TN_OK;
}

static void remove_new(writer *w, const char *index_new)
{
    char path[PATH_MAX];
    for (int64_t i = 1; i <= w->shards; i++)
        if (!path_of_shard(w, i, ".new", path)) unlink(path);
    unlink(index_new);
}

int32_t tn_shards_save(tn_scope *scope, const char *folder, tn_named_tensors tensors, uint64_t most_bytes)
{
    char index[PATH_MAX], index_new[PATH_MAX];
    if (tn_scope_failed(scope)) return tn_scope_failed(scope);
    if (!folder || !most_bytes || (tensors.count && !tensors.data))
        return tn_scope_fail(scope, TN_E_ARGUMENT,
                             "shards: argument 'folder', 'tensors' or 'most_bytes': it is NULL or 0");
    writer w = {.scope = tn_scope_open_child(scope, NULL), .folder = folder, .tensors = tensors};
    w.shard_of = tn_scope_memory(w.scope, (uint64_t)(tensors.count + 1) * sizeof *w.shard_of);
    if (snprintf(index_new, sizeof index_new, "%s/" INDEX ".new", folder) >= PATH_MAX)
        write_fail(&w, TN_E_IO, strerror(ENAMETOOLONG));
    snprintf(index, sizeof index, "%s/" INDEX, folder);
    if (!tn_scope_failed(w.scope) && mkdir(folder, 0777) && errno != EEXIST)
        write_fail(&w, TN_E_IO, strerror(errno));
    if (!tn_scope_failed(w.scope)) deal(&w, most_bytes);
    for (int64_t i = 1; i <= w.shards && !tn_scope_failed(w.scope); i++) write_shard(&w, i);
    if (!tn_scope_failed(w.scope) && w.shards > 1) write_index(&w, index_new);
    if (!tn_scope_failed(w.scope)) replace(&w, index, index_new);
    if (tn_scope_failed(w.scope)) remove_new(&w, index_new);
    return tn_scope_close(w.scope);
}
