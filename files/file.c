/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of tensors of any kind. A safetensors file is a checkpoint of one shard; a sharded one has an index,
 * JSON with the file of each tensor under "weight_map".
 */
#include <tenon/files.h>

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "handle.h"
#include "pt.h"
#include "similar_name.h"

#define INDEX      "model.safetensors.index.json"
#define SINGLE     "model.safetensors"
#define MOST_INDEX (256u << 20)

typedef struct shard {
    char *file; /* its name in the folder; NULL: the path itself */
    tn_safetensors *tensors;
} shard;

typedef struct place {
    const char *name; /* of the shard or of the file of PyTorch */
    uint32_t shard;
} place;

struct tn_file {
    tn_context *ctx;
    char *path;
    const char *format;
    tn_pt *pt; /* or shards */
    shard *shards;
    uint32_t shard_count;
    place *places; /* in the file's order */
    place *sorted; /* by name */
    uint64_t count;
    handle_mark mark;
};

#define fail(s, path, ...) files_fail(s, "file", path, __VA_ARGS__)

static int32_t no_memory(const tn_file *f)
{
    return fail(NULL, f->path, TN_E_OUT_OF_MEMORY, "out of host memory");
}

/* ---- The index ---------------------------------------------------------------------------------------- */

/* The JSON of the index, or NULL and an error. */
static cJSON *read_index(const tn_file *f, int32_t *status)
{
    struct stat there;
    FILE *file = fopen(f->path, "rbe");
    cJSON *json = NULL;
    char *text = NULL;
    *status = TN_OK;
    if (!file || fstat(fileno(file), &there))
        *status = fail(NULL, f->path, errno == ENOENT ? TN_E_NOT_FOUND : TN_E_IO, "%s", strerror(errno));
    else if (!S_ISREG(there.st_mode) || there.st_size > MOST_INDEX)
        *status = fail(NULL, f->path, TN_E_CORRUPT, "it is not an index of shards");
    else if (!(text = malloc((size_t)there.st_size + 1)))
        *status = no_memory(f);
    else if (fread(text, 1, (size_t)there.st_size, file) != (size_t)there.st_size)
        *status = fail(NULL, f->path, TN_E_IO, "it cannot be read");
    else if (!(json = cJSON_ParseWithLength(text, (size_t)there.st_size)))
        *status = fail(NULL, f->path, TN_E_CORRUPT, "it is not JSON");
    if (file) fclose(file);
    free(text);
    return json;
}

/* A shard is a file beside the index, so that an index reads no other file of the machine. */
static int32_t is_shard_name(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < NAME_MAX;
}

static int32_t find_shard(tn_file *f, const char *name, uint32_t *out)
{
    for (*out = f->shard_count; *out > 0;) /* the last one first: names of a shard stand together */
        if (!strcmp(f->shards[--*out].file, name)) return TN_OK;
    shard *larger = realloc(f->shards, (f->shard_count + 1) * sizeof *larger);
    if (!larger) return no_memory(f);
    f->shards = larger;
    f->shards[f->shard_count] = (shard){strdup(name), NULL};
    if (!f->shards[f->shard_count].file) return no_memory(f);
    *out = f->shard_count++;
    char path[PATH_MAX];
    const char *slash = strrchr(f->path, '/');
    if (snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - f->path + 1) : 0, f->path, name) >=
        PATH_MAX)
        return fail(NULL, f->path, TN_E_IO, "%s", strerror(ENAMETOOLONG));
    return tn_safetensors_open(f->ctx, path, &f->shards[*out].tensors);
}

/* The shard's own text of a name, which lives as long as it; NULL if it does not have the tensor. */
static const char *name_in(const tn_safetensors *tensors, const char *name)
{
    for (uint64_t i = 0; i < tn_safetensors_count(tensors); i++)
        if (!strcmp(tn_safetensors_name(tensors, i), name)) return tn_safetensors_name(tensors, i);
    return NULL;
}

static int32_t open_index(tn_file *f)
{
    int32_t status;
    cJSON *json = read_index(f, &status);
    const cJSON *map = json ? cJSON_GetObjectItemCaseSensitive(json, "weight_map") : NULL, *item;
    if (!status && !cJSON_IsObject(map)) status = fail(NULL, f->path, TN_E_CORRUPT, "it has no 'weight_map'");
    f->format = "shards";
    f->places = calloc((size_t)(status ? 0 : cJSON_GetArraySize(map)) + 1, sizeof *f->places);
    if (!status && !f->places) status = no_memory(f);
    for (item = status ? NULL : map->child; item && !status; item = item->next) {
        place *p = &f->places[f->count];
        if (!cJSON_IsString(item) || !is_shard_name(item->valuestring))
            status = fail(NULL, f->path, TN_E_CORRUPT,
                          "tensor '%.200s': it does not name a file of its folder", item->string);
        if (!status) status = find_shard(f, item->valuestring, &p->shard);
        if (!status && !(p->name = name_in(f->shards[p->shard].tensors, item->string)))
            status = fail(NULL, f->path, TN_E_CORRUPT, "tensor '%.200s' is not in '%.200s'", item->string,
                          item->valuestring);
        f->count += !status;
    }
    cJSON_Delete(json);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

/* The header of a safetensors file is a JSON object behind its length, which has 8 bytes. */
static int32_t is_safetensors(const char *path)
{
    char head[9] = {0};
    FILE *file = fopen(path, "rbe");
    const int32_t is = !file || fread(head, 1, sizeof head, file) < sizeof head || head[8] == '{';
    if (file) fclose(file);
    return is; /* what cannot be read, or is too short, has an error of its own */
}

static int32_t open_single(tn_file *f)
{
    if (!is_safetensors(f->path))
        return fail(NULL, f->path, TN_E_CORRUPT,
                    "it is neither a safetensors file nor one of PyTorch's zip format, nor an index (.json)");
    f->format = "safetensors";
    f->shards = calloc(1, sizeof *f->shards);
    if (!f->shards) return no_memory(f);
    f->shard_count = 1;
    int32_t status = tn_safetensors_open(f->ctx, f->path, &f->shards[0].tensors);
    if (status) return status;
    f->count = tn_safetensors_count(f->shards[0].tensors);
    f->places = calloc(f->count + 1, sizeof *f->places);
    for (uint64_t i = 0; f->places && i < f->count; i++)
        f->places[i].name = tn_safetensors_name(f->shards[0].tensors, i);
    return f->places ? TN_OK : no_memory(f);
}

static int32_t open_pt(tn_file *f)
{
    f->format = "pytorch";
    int32_t status = tn_pt_open(f->ctx, f->path, &f->pt);
    if (status) return status;
    f->places = calloc(tn_pt_count(f->pt) + 1, sizeof *f->places);
    for (uint64_t i = 0; f->places && i < tn_pt_count(f->pt); i++)
        if (pt_is_tensor(f->pt, i)) f->places[f->count++].name = tn_pt_name(f->pt, i);
    return f->places ? TN_OK : no_memory(f);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const place *)a)->name, ((const place *)b)->name);
}

static int32_t sort(tn_file *f)
{
    f->sorted = malloc((f->count + 1) * sizeof *f->sorted);
    if (!f->sorted) return no_memory(f);
    memcpy(f->sorted, f->places, f->count * sizeof *f->sorted);
    qsort(f->sorted, f->count, sizeof *f->sorted, by_name);
    for (uint64_t i = 1; i < f->count; i++)
        if (!by_name(&f->sorted[i - 1], &f->sorted[i]))
            return fail(NULL, f->path, TN_E_CORRUPT, "it has the tensor '%.200s' twice", f->sorted[i].name);
    return TN_OK;
}

/* The path of a checkpoint in a folder: its index, or its only file. */
static char *in_folder(const char *folder)
{
    char *path;
    if (asprintf(&path, "%s/" INDEX, folder) < 0) return NULL;
    if (access(path, F_OK) == 0) return path;
    free(path);
    return asprintf(&path, "%s/" SINGLE, folder) < 0 ? NULL : path;
}

static int32_t ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* By its content, or by its name, so that one of an old form is not called a damaged safetensors file. */
static int32_t is_pt(const char *path)
{
    char magic[4] = "";
    FILE *file = fopen(path, "rbe");
    int32_t is = file && fread(magic, 1, sizeof magic, file) == sizeof magic && !memcmp(magic, "PK\3\4", 4);
    if (file) fclose(file);
    return is || ends_with(path, ".pt") || ends_with(path, ".pth");
}

int32_t tn_file_open(tn_context *ctx, const char *path, tn_file **out)
{
    struct stat there;
    if (!path || !out)
        return tn_scope_fail(NULL, TN_E_ARGUMENT, "file: argument 'path' or 'out': it is NULL");
    *out = NULL;
    if (!*path) return tn_scope_fail(NULL, TN_E_ARGUMENT, "file: argument 'path': it is empty");
    int32_t status = handle_context_check(ctx);
    if (status) return status;
    tn_file *f = calloc(1, sizeof *f);
    if (!f) return fail(NULL, path, TN_E_OUT_OF_MEMORY, "out of host memory");
    f->ctx = ctx;
    f->path = stat(path, &there) == 0 && S_ISDIR(there.st_mode) ? in_folder(path) : strdup(path);
    status = !f->path                      ? fail(NULL, path, TN_E_OUT_OF_MEMORY, "out of host memory")
             : ends_with(f->path, ".json") ? open_index(f)
             : is_pt(f->path)              ? open_pt(f)
                                           : open_single(f);
    if (!status) status = sort(f);
    if (status) return tn_file_close(f), status;
    handle_begin(ctx, f, "file '%s'", path);
    *out = f;
    return TN_OK;
}

void tn_file_close(tn_file *f)
{
    if (!f || !handle_end(&f->mark, "file", __builtin_return_address(0))) return;
    for (uint32_t i = 0; i < f->shard_count; i++) {
        tn_safetensors_close(f->shards[i].tensors);
        free(f->shards[i].file);
    }
    tn_pt_close(f->pt);
    free(f->shards);
    free(f->places);
    free(f->sorted);
    free(f->path);
    f->count = 0;
    handle_free(f);
}

const char *tn_file_format(const tn_file *f)
{
    return f ? f->format : NULL;
}

uint64_t tn_file_count(const tn_file *f)
{
    return f ? f->count : 0;
}

const char *tn_file_name(const tn_file *f, uint64_t i)
{
    return f && i < f->count ? f->places[i].name : NULL;
}

/* ---- Tensors ------------------------------------------------------------------------------------------ */

static const place *find(tn_scope *s, const tn_file *f, const char *name)
{
    if (tn_scope_failed(s)) return NULL;
    if (f && handle_refuse(s, &f->mark, "file")) return NULL;
    const place key = {name, 0};
    const place *p = f && name ? bsearch(&key, f->sorted, f->count, sizeof key, by_name) : NULL;
    if (!f || !name) tn_scope_fail(s, TN_E_ARGUMENT, "file: argument 'file' or 'name': it is NULL");
    if (f && name && !p) {
        char similar[SIMILAR_NAME_BYTES + 32];
        similar_name best = similar_name_begin(name);
        for (uint64_t i = 0; i < f->count; i++) similar_name_try(&best, f->places[i].name);
        fail(s, f->path, TN_E_NOT_FOUND, "there is no tensor '%.200s'%s", name,
             similar_name_text(&best, similar));
    }
    return p;
}

tn_tensor *tn_file_get(tn_scope *s, tn_file *f, const char *name, tn_device device)
{
    const place *p = find(s, f, name);
    if (!p) return NULL;
    return f->pt ? tn_pt_get(s, f->pt, name, device)
                 : tn_safetensors_get(s, f->shards[p->shard].tensors, name, device);
}

tn_tensor *tn_file_map(tn_scope *s, tn_file *f, const char *name)
{
    const place *p = find(s, f, name);
    if (!p) return NULL;
    return f->pt ? tn_pt_get(s, f->pt, name, TN_CPU)
                 : tn_safetensors_map(s, f->shards[p->shard].tensors, name);
}

tn_named_tensors tn_file_tensors(tn_scope *s, tn_file *f)
{
    return tn_file_tensors_on(s, f, TN_CPU);
}

/* On another device than the CPU a copy. */
static tn_tensor *on_device(tn_scope *s, tn_file *f, const char *name, tn_device device)
{
    tn_tensor *t = tn_file_map(s, f, name);
    return t && device && device != TN_CPU ? tn__to_copy(s, t, .device = device) : t;
}

tn_named_tensors tn_file_tensors_on(tn_scope *s, tn_file *f, tn_device device)
{
    const tn_named_tensors none = {NULL, 0};
    if (tn_scope_failed(s)) return none;
    if (!f) return tn_scope_fail(s, TN_E_ARGUMENT, "file: argument 'file': it is NULL"), none;
    if (handle_refuse(s, &f->mark, "file")) return none;
    if (f->pt) return pt_tensors_on(s, f->pt, NULL, device ? device : TN_CPU);
    tn_named_tensor *list = tn_scope_memory(s, (f->count + 1) * sizeof *list);
    for (uint64_t i = 0; list && i < f->count && !tn_scope_failed(s); i++) {
        char *own = tn_scope_memory(s, strlen(f->places[i].name) + 1);
        if (own)
            list[i] =
                (tn_named_tensor){strcpy(own, f->places[i].name), on_device(s, f, f->places[i].name, device)};
    }
    return tn_scope_failed(s) ? none : (tn_named_tensors){list, (int64_t)f->count};
}

tn_named_tensors tn_file_load(tn_scope *s, const char *path)
{
    const tn_named_tensors none = {NULL, 0};
    tn_file *f = NULL;
    tn_tensor *here = tn_empty(s, TN_INTS(0)); /* says where the default device is */
    if (!here) return none;
    int32_t status = tn_file_open(tn_scope_context(s), path, &f);
    if (status) return tn_scope_fail(s, status, tn_last_error()->message), none;
    tn_named_tensors all = tn_file_tensors_on(s, f, tn_tensor_device(here));
    tn_drop(s, here);
    tn_file_close(f);
    return all;
}
