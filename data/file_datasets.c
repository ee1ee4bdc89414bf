/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets over files: folders of images, and files of tokens. */
#include "dataset.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- Folders of images -------------------------------------------------------------------------------- */

typedef struct names {
    char **items;
    int64_t count, room;
} names;

typedef struct folder {
    names classes, paths; /* paths: class by class */
    int64_t *first;       /* path of each class; one more at the end */
    uint32_t channels;
} folder;

static int32_t add_name(names *list, char *name)
{
    if (list->count == list->room) {
        int64_t room = list->room ? 2 * list->room : 64;
        char **larger = realloc(list->items, (uint64_t)room * sizeof *larger);
        if (larger) list->items = larger;
        if (larger) list->room = room;
    }
    if (!name || list->count == list->room) return free(name), TN_E_OUT_OF_MEMORY;
    list->items[list->count++] = name;
    return TN_OK;
}

static void free_names(names *list)
{
    for (int64_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *joined(const char *a, const char *b)
{
    char *text;
    return asprintf(&text, "%s/%s", a, b) < 0 ? NULL : text;
}

static int32_t is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int32_t is_image(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

/* The names in a folder for which its path, or its name, is of the kind that is wanted: folders or images.
 * Sorted. */
static int32_t list_folder(const char *path, int32_t folders, names *out)
{
    DIR *dir = opendir(path);
    if (!dir) return data_open_status(errno);
    int32_t status = TN_OK;
    const int64_t before = out->count;
    for (struct dirent *e = readdir(dir); e && !status; e = readdir(dir)) {
        if (e->d_name[0] == '.') continue;
        char *full = joined(path, e->d_name);
        int32_t wanted = full && (folders ? is_folder(full) : is_image(e->d_name) && !is_folder(full));
        if (!full) status = TN_E_OUT_OF_MEMORY;
        if (wanted) status = add_name(out, folders ? strdup(e->d_name) : joined(path, e->d_name));
        free(full);
    }
    closedir(dir);
    if (out->count > before)
        qsort(out->items + before, (size_t)(out->count - before), sizeof *out->items, by_bytes);
    return status;
}

static int64_t folder_count(void *user)
{
    return ((const folder *)user)->paths.count;
}

static int64_t class_of(const folder *f, int64_t index)
{
    int64_t class = 0;
    while (index >= f->first[class + 1]) class ++;
    return class;
}

static int32_t folder_get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    const folder *f = user;
    const int64_t class = class_of(f, index);
    (void)seed;
    out[0] = tn_image_read(s, f->paths.items[index], f->channels);
    out[1] = tn_from_data(s, TN_INT64, (tn_ints){NULL, 0}, &class, TN_CPU);
    return tn_scope_failed(s);
}

static void folder_finish(void *user)
{
    folder *f = user;
    free_names(&f->classes);
    free_names(&f->paths);
    free(f->first);
    free(f);
}

static const tn_dataset_class folder_class = {.size = sizeof folder_class,
                                              .name = "folder_dataset",
                                              .count = folder_count,
                                              .get = folder_get,
                                              .finish = folder_finish};

static int32_t fill_folder(folder *f, const char *path)
{
    int32_t status = list_folder(path, 1, &f->classes);
    f->first = calloc((size_t)f->classes.count + 2, sizeof *f->first);
    if (!status && !f->first) status = TN_E_OUT_OF_MEMORY;
    for (int64_t i = 0; i < f->classes.count && !status; i++) {
        char *full = joined(path, f->classes.items[i]);
        status = full ? list_folder(full, 0, &f->paths) : TN_E_OUT_OF_MEMORY;
        f->first[i + 1] = f->paths.count;
        free(full);
    }
    return status;
}

tn_dataset *tn_folder_dataset_create(tn_context *ctx, const char *path, uint32_t channels)
{
    if (!path)
        return data_fail(NULL, TN_E_ARGUMENT, "folder_dataset", NULL, "argument 'path': it is NULL"), NULL;
    folder *f = calloc(1, sizeof *f);
    int32_t status = f ? fill_folder(f, path) : TN_E_OUT_OF_MEMORY;
    if (!status && !f->paths.count)
        status = data_fail(NULL, TN_E_NOT_FOUND, "folder_dataset", path,
                           "there is no image in its folders, one for each class");
    else if (status)
        data_fail(NULL, status, "folder_dataset", path, "%s",
                  status != TN_E_OUT_OF_MEMORY ? strerror(errno) : "out of host memory");
    if (f) f->channels = channels;
    tn_dataset *d = status ? NULL : tn_dataset_create(ctx, &folder_class, f);
    if (!d && f) folder_finish(f);
    return d;
}

const char *tn_folder_class(const tn_dataset *d, int64_t i)
{
    const folder *f = d && d->class == &folder_class ? d->user : NULL;
    return f && i >= 0 && i < f->classes.count ? f->classes.items[i] : NULL;
}

const char *tn_folder_path(const tn_dataset *d, int64_t i)
{
    const folder *f = d && d->class == &folder_class ? d->user : NULL;
    return f && i >= 0 && i < f->paths.count ? f->paths.items[i] : NULL;
}

/* ---- Tokens ------------------------------------------------------------------------------------------- */

typedef struct tokens {
    tn_tensor *all; /* one reference: the file's pages */
    int64_t length, step;
} tokens;

static int64_t tokens_count(void *user)
{
    const tokens *t = user;
    const int64_t n = tn_tensor_size(t->all, 0);
    return n > t->length ? (n - t->length - 1) / t->step + 1 : 0;
}

static int64_t token(const void *data, tn_dtype dtype, int64_t i)
{
    switch (dtype) {
    case TN_UINT8:
        return ((const uint8_t *)data)[i];
    case TN_UINT16:
        return ((const uint16_t *)data)[i];
    case TN_INT32:
        return ((const int32_t *)data)[i];
    case TN_UINT32:
        return ((const uint32_t *)data)[i];
    default:
        return ((const int64_t *)data)[i];
    }
}

static int32_t tokens_get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    const tokens *t = user;
    const void *data = tn_tensor_data(t->all);
    const tn_dtype dtype = tn_tensor_dtype(t->all);
    (void)seed;
    for (int32_t k = 0; k < 2; k++) {
        out[k] = tn_empty(s, TN_INTS(t->length), .dtype = TN_INT64, .device = TN_CPU);
        int64_t *to = out[k] ? tn_tensor_data(out[k]) : NULL;
        for (int64_t i = 0; to && i < t->length; i++) to[i] = token(data, dtype, index * t->step + k + i);
    }
    return tn_scope_failed(s);
}

static void tokens_finish(void *user)
{
    tokens *t = user;
    tn_release(t->all);
    free(t);
}

tn_dataset *tn_token_dataset_create(tn_context *ctx, const char *path, tn_dtype dtype, int64_t length,
                                    int64_t step)
{
    static const tn_dataset_class class = {.size = sizeof class,
                                           .name = "token_dataset",
                                           .count = tokens_count,
                                           .get = tokens_get,
                                           .finish = tokens_finish};
    const int32_t is_token = dtype == TN_UINT8 || dtype == TN_UINT16 || dtype == TN_INT32 ||
                             dtype == TN_UINT32 || dtype == TN_INT64;
    if (!is_token)
        return data_fail(NULL, TN_E_DTYPE, "token_dataset", path,
                         "argument 'dtype': it must be uint8, uint16, int32, uint32 or int64"),
               NULL;
    if (length < 1 || step < 0)
        return data_fail(NULL, TN_E_ARGUMENT, "token_dataset", path,
                         "argument 'length' or 'step': it is too small (got %lld and %lld)",
                         (long long)length, (long long)step),
               NULL;
    tn_scope *s = tn_scope_open(ctx);
    if (!s) return NULL;
    tn_tensor *all = tn_raw_map(s, path, dtype, TN_INTS(-1), 0);
    tokens *t = all ? malloc(sizeof *t) : NULL;
    if (all && !t) tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    if (t) *t = (tokens){tn_retain(all), length, step ? step : length};
    if (tn_scope_close(s)) return NULL;
    tn_dataset *d = tn_dataset_create(ctx, &class, t);
    if (!d) tokens_finish(t);
    return d;
}
