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

#include "replacement.h"

#define INDEX  "model.safetensors.index.json"
#define SINGLE "model.safetensors"

typedef struct writer {
    tn_scope *scope;
    const char *folder;
    tn_named_tensors tensors;
    int64_t *shard_of; /* of each tensor, from 1 on */
    int64_t shards;
    uint64_t bytes;
    char index[PATH_MAX], index_new[PATH_MAX];
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

/* Paths of a file and of the new one that will replace it; a link stays one. */
static int32_t find_paths(writer *w, const char *name, char path[PATH_MAX], char path_new[PATH_MAX])
{
    char link[PATH_MAX];
    int32_t failed = ENAMETOOLONG;
    if (snprintf(link, PATH_MAX, "%s/%s", w->folder, name) < PATH_MAX) failed = tni_follow_links(link, path);
    if (!failed && snprintf(path_new, PATH_MAX, "%s.new", path) >= PATH_MAX) failed = ENAMETOOLONG;
    return failed ? write_fail(w, TN_E_IO, strerror(failed)) : TN_OK;
}

static int32_t paths_of_shard(writer *w, int64_t shard, char path[PATH_MAX], char path_new[PATH_MAX])
{
    char name[64] = SINGLE;
    if (w->shards > 1)
        snprintf(name, sizeof name, "model-%05lld-of-%05lld.safetensors", (long long)shard,
                 (long long)w->shards);
    return find_paths(w, name, path, path_new);
}

/* A new file that has mode, owner and group of the old one before there is anything in it. */
static int32_t begin_new(writer *w, const char *path_new, const char *path)
{
    const int32_t failed = tni_file_like(path_new, path);
    return failed ? write_fail(w, TN_E_IO, strerror(failed)) : TN_OK;
}

static int32_t write_shard(writer *w, int64_t shard)
{
    char path[PATH_MAX], path_new[PATH_MAX];
    tn_named_tensor *list = tn_scope_memory(w->scope, (uint64_t)(w->tensors.count + 1) * sizeof *list);
    int64_t n = 0;
    for (int64_t i = 0; list && i < w->tensors.count; i++)
        if (w->shard_of[i] == shard) list[n++] = w->tensors.data[i];
    if (!list || paths_of_shard(w, shard, path, path_new) || begin_new(w, path_new, path))
        return tn_scope_failed(w->scope);
    return tn_safetensors_save(w->scope, path_new, list, (uint64_t)n, (const char *const[]){"format", "pt"},
                               1);
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

static int32_t write_index(writer *w)
{
    if (begin_new(w, w->index_new, w->index)) return tn_scope_failed(w->scope);
    char *text = index_text(w);
    FILE *file = text ? fopen(w->index_new, "wbe") : NULL;
    int32_t good = file && fputs(text, file) >= 0 && fputc('\n', file) == '\n' && fflush(file) == 0 &&
                   fsync(fileno(file)) == 0;
    if (file && fclose(file)) good = 0;
    if (!good)
        write_fail(w, text ? TN_E_IO : TN_E_OUT_OF_MEMORY, text ? strerror(errno) : "out of host memory");
    cJSON_free(text);
    return tn_scope_failed(w->scope);
}

/* Renames what was written; the index of shards last, or away if there is one file. */
static int32_t replace(writer *w)
{
    char path[PATH_MAX], path_new[PATH_MAX];
    for (int64_t i = 1; i <= w->shards; i++) {
        if (paths_of_shard(w, i, path, path_new)) return tn_scope_failed(w->scope);
        if (rename(path_new, path)) return write_fail(w, TN_E_IO, strerror(errno));
    }
    snprintf(path, sizeof path, "%s/" INDEX, w->folder); /* a link goes, and not what it leads to */
    int failed = w->shards > 1 ? rename(w->index_new, w->index) : unlink(path) && errno != ENOENT;
    return failed ? write_fail(w, TN_E_IO, strerror(errno)) : TN_OK;
}

static void remove_new(writer *w)
{
    char path[PATH_MAX], path_new[PATH_MAX];
    for (int64_t i = 1; i <= w->shards; i++)
        if (!paths_of_shard(w, i, path, path_new)) unlink(path_new);
    if (w->index_new[0]) unlink(w->index_new);
}

int32_t tn_shards_save(tn_scope *scope, const char *folder, tn_named_tensors tensors, uint64_t most_bytes)
{
    if (tn_scope_failed(scope)) return tn_scope_failed(scope);
    if (!folder || !*folder || !most_bytes || (tensors.count && !tensors.data))
        return tn_scope_fail(scope, TN_E_ARGUMENT,
                             "shards: argument 'folder', 'tensors' or 'most_bytes': it is NULL, empty or 0");
    writer w = {.scope = tn_scope_open_child(scope, NULL), .folder = folder, .tensors = tensors};
    w.shard_of = tn_scope_memory(w.scope, (uint64_t)(tensors.count + 1) * sizeof *w.shard_of);
    if (mkdir(folder, 0777) && errno != EEXIST) write_fail(&w, TN_E_IO, strerror(errno));
    if (!tn_scope_failed(w.scope)) find_paths(&w, INDEX, w.index, w.index_new);
    if (!tn_scope_failed(w.scope)) deal(&w, most_bytes);
    for (int64_t i = 1; i <= w.shards && !tn_scope_failed(w.scope); i++) write_shard(&w, i);
    if (!tn_scope_failed(w.scope) && w.shards > 1) write_index(&w);
    if (!tn_scope_failed(w.scope)) replace(&w);
    if (tn_scope_failed(w.scope)) remove_new(&w);
    return tn_scope_close(w.scope);
}
