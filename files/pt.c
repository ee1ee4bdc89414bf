/* SPDX-License-Identifier: Apache-2.0 */
/* Files of PyTorch: a zip archive with one folder, whose records are data.pkl (values) and data/KEY (storages). */
#include <tenon/files.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "fail.h"
#include "handle.h"
#include "pickle.h"
#include "pt.h"

#define MOST_DEPTH  32         /* of dictionaries in dictionaries */
#define MOST_LEAVES (1u << 20) /* a small file can name one value very often */
#define MOST_NAME   1024
#define MOST_PICKLE ((uint64_t)1 << 30)

typedef struct leaf {
    char *name;
    const pickle_node *value;
} leaf;

struct tn_pt {
    tn_context *ctx;
    char *path;
    zip_t *zip;
    pthread_mutex_t lock; /* of zip */
    char folder[MOST_NAME];
    pickle values;
    leaf *leaves;
    uint32_t count, room;
    handle_mark mark;
};

/* ---- Errors ---------------------------------------------------------------------------------------------------- */

/* Puts an error in the scope that begins with the path. */
#define fail(s, path, ...) files_fail(s, "pt", path, __VA_ARGS__)

/* ---- The archive ------------------------------------------------------------------------------------------------- */

static int32_t zip_status(const zip_error_t *error)
{
    switch (zip_error_code_zip(error)) {
    case ZIP_ER_NOZIP:
    case ZIP_ER_INCONS:
    case ZIP_ER_CRC:
    case ZIP_ER_EOF:
    case ZIP_ER_ZLIB:
    case ZIP_ER_NOENT:
        return TN_E_CORRUPT;
    case ZIP_ER_MEMORY:
        return TN_E_OUT_OF_MEMORY;
    default:
        return TN_E_IO;
    }
}

/* All bytes of a record, of malloc; checked against its checksum. `most`: larger ones are refused. */
static int32_t read_record(tn_scope *s, tn_pt *f, const char *record, uint64_t most, uint8_t **out,
                           uint64_t *out_size)
{
    char name[2 * MOST_NAME];
    zip_stat_t info;
    snprintf(name, sizeof name, "%s/%s", f->folder, record);
    *out = NULL;
    if (zip_stat(f->zip, name, 0, &info) != 0 || !(info.valid & ZIP_STAT_SIZE))
        return fail(s, f->path, TN_E_CORRUPT, "it has no record '%s'", record);
    if (info.size > most || info.size > (uint64_t)PTRDIFF_MAX)
        return fail(s, f->path, TN_E_CORRUPT, "the record '%s' has %llu bytes", record,
                    (unsigned long long)info.size);
    zip_file_t *file = zip_fopen(f->zip, name, 0);
    if (!file)
        return fail(s, f->path, zip_status(zip_get_error(f->zip)), "the record '%s': %s", record,
                    zip_error_strerror(zip_get_error(f->zip)));
    /* The size is what the file says: memory is taken as its bytes come. */
    uint64_t have = 0, room = info.size < (64u << 20) ? info.size + 1 : (64u << 20);
    uint8_t *bytes = malloc(room);
    int32_t status = bytes ? TN_OK : TN_E_OUT_OF_MEMORY;
    while (!status) {
        if (have == room) {
            room = room * 2 < info.size + 1 ? room * 2 : info.size + 1;
            uint8_t *larger = realloc(bytes, room);
            if (!larger) status = TN_E_OUT_OF_MEMORY;
            if (larger) bytes = larger;
        }
        zip_int64_t n = status ? 0 : zip_fread(file, bytes + have, room - have);
        if (n < 0) status = zip_status(zip_file_get_error(file));
        if (n > 0) have += (uint64_t)n;
        if (n <= 0 || have > info.size) break;
    }
    if (status)
        fail(s, f->path, status, "the record '%s' cannot be read: %s", record, zip_file_strerror(file));
    zip_fclose(file);
    if (!status && have != info.size)
        status = fail(s, f->path, TN_E_CORRUPT, "the record '%s' ends early", record);
    if (status) {
        free(bytes);
        return status;
    }
    *out = bytes;
    *out_size = have;
    return TN_OK;
}

/* The folder that has all records: that of the first one. */
static int32_t find_folder(tn_scope *s, tn_pt *f)
{
    const char *first = zip_get_name(f->zip, 0, 0), *slash = first ? strchr(first, '/') : NULL;
    if (!slash || slash - first >= MOST_NAME)
        return fail(s, f->path, TN_E_CORRUPT, "it is a zip file, but not one of torch.save");
    snprintf(f->folder, sizeof f->folder, "%.*s", (int)(slash - first), first);
    return TN_OK;
}

static int32_t open_archive(tn_scope *s, tn_pt *f)
{
    int code = 0;
    f->zip = zip_open(f->path, ZIP_RDONLY, &code);
    if (f->zip) return find_folder(s, f);
    if (code == ZIP_ER_OPEN || code == ZIP_ER_NOENT || code == ZIP_ER_READ)
        return fail(s, f->path, TN_E_IO, "%s", strerror(errno));
    if (code == ZIP_ER_MEMORY) return fail(s, f->path, TN_E_OUT_OF_MEMORY, "out of host memory");
    return fail(s, f->path, TN_E_CORRUPT,
                "it is not a zip file: it is damaged, or was written by a PyTorch before 1.6 (load and save "
                "it there)");
}

/* ---- Names of values ----------------------------------------------------------------------------------------------- */

static int32_t add_leaf(tn_scope *s, tn_pt *f, const char *name, const pickle_node *value)
{
    if (f->count == MOST_LEAVES) return fail(s, f->path, TN_E_CORRUPT, "it has more than a million values");
    if (f->count == f->room) {
        uint32_t room = f->room ? 2 * f->room : 64;
        leaf *larger = realloc(f->leaves, room * sizeof *larger);
        if (!larger) return fail(s, f->path, TN_E_OUT_OF_MEMORY, "out of host memory");
        f->leaves = larger;
        f->room = room;
    }
    f->leaves[f->count] = (leaf){strdup(name), value};
    if (!f->leaves[f->count].name) return fail(s, f->path, TN_E_OUT_OF_MEMORY, "out of host memory");
    f->count++;
    return TN_OK;
}

static int32_t add_leaves(tn_scope *s, tn_pt *f, const pickle_node *n, char *name, size_t length,
                          uint32_t depth)
{
    uint32_t step = n->kind == PICKLE_DICT ? 2 : 1;
    if (n->kind != PICKLE_DICT && n->kind != PICKLE_LIST) return add_leaf(s, f, name, n);
    if (depth == MOST_DEPTH) return fail(s, f->path, TN_E_CORRUPT, "'%.100s...' is nested too deeply", name);
    for (uint32_t i = 0; i < n->count; i += step) {
        const pickle_node *key = n->items[i], *value = n->items[i + step - 1];
        const char *dot = length ? "." : "";
        int more;
        if (step == 2 && key->kind == PICKLE_TEXT)
            more = snprintf(name + length, MOST_NAME - length, "%s%s", dot, key->text);
        else if (step == 1 || key->kind == PICKLE_INT)
            more = snprintf(name + length, MOST_NAME - length, "%s%lld", dot,
                            step == 1 ? (long long)i : (long long)key->i);
        else
            return fail(s, f->path, TN_E_UNSUPPORTED,
                        "a key in '%.100s' is neither a text nor a whole number", name);
        if (length + (size_t)more >= MOST_NAME)
            return fail(s, f->path, TN_E_CORRUPT, "'%.100s...' is longer than %d bytes", name, MOST_NAME - 1);
        int32_t status = add_leaves(s, f, value, name, length + (size_t)more, depth + 1);
        if (status) return status;
        name[length] = 0;
    }
    return TN_OK;
}

static int32_t read_values(tn_scope *s, tn_pt *f)
{
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    char name[MOST_NAME] = "", order[4096];
    snprintf(order, sizeof order, "%s/byteorder", f->folder);
    if (zip_name_locate(f->zip, order, 0) >= 0) { /* older files have none */
        int32_t failed = read_record(s, f, "byteorder", 64, &bytes, &size);
        int32_t is_little = !failed && size == 6 && memcmp(bytes, "little", 6) == 0;
        free(bytes);
        if (failed) return failed;
        if (!is_little) return fail(s, f->path, TN_E_UNSUPPORTED, "its numbers are not little-endian");
    }
    int32_t status = read_record(s, f, "data.pkl", MOST_PICKLE, &bytes, &size);
    if (status) return status;
    status = pickle_read(&f->values, bytes, size);
    free(bytes);
    if (status) return fail(s, f->path, status, "%s", f->values.error);
    return add_leaves(s, f, f->values.root, name, 0, 0);
}

/* ---- The file ------------------------------------------------------------------------------------------------------ */

void tn_pt_close(tn_pt *f)
{
    if (!f || !handle_end(&f->mark, "pt", __builtin_return_address(0))) return;
    if (f->zip) zip_discard(f->zip);
    for (uint32_t i = 0; i < f->count; i++) free(f->leaves[i].name);
    free(f->leaves);
    pickle_free(&f->values);
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    handle_free(f);
}

int32_t tn_pt_open(tn_context *ctx, const char *path, tn_pt **out)
{
    tn_scope *s = tn_scope_open(ctx);
    tn_pt *f = NULL;
    *out = NULL;
    if (!path) tn_scope_fail(s, TN_E_ARGUMENT, "pt: argument 'path': it is NULL");
    if (!tn_scope_failed(s)) f = calloc(1, sizeof *f);
    if (f) {
        pthread_mutex_init(&f->lock, NULL);
        f->ctx = ctx;
        f->path = strdup(path);
    }
    if (!tn_scope_failed(s) && (!f || !f->path))
        tn_scope_fail(s, TN_E_OUT_OF_MEMORY, "pt: out of host memory");
    if (!tn_scope_failed(s) && open_archive(s, f) == TN_OK) read_values(s, f);
    int32_t status = tn_scope_close(s);
    if (status)
        tn_pt_close(f);
    else
        *out = f;
    if (!status) handle_begin(ctx, f, "pt '%s'", path);
    return status;
}

uint64_t tn_pt_count(const tn_pt *f)
{
    return f ? f->count : 0;
}

const char *tn_pt_name(const tn_pt *f, uint64_t i)
{
    return f && i < f->count ? f->leaves[i].name : NULL;
}

/* The last one of that name: as in Python, where a later value replaces an earlier one. */
static const pickle_node *find(const tn_pt *f, const char *name)
{
    for (uint32_t i = f && name ? f->count : 0; i-- > 0;)
        if (!strcmp(f->leaves[i].name, name)) return f->leaves[i].value;
    return NULL;
}

int32_t pt_is_tensor(const tn_pt *f, uint64_t i)
{
    return f->leaves[i].value->kind == PICKLE_TENSOR && find(f, f->leaves[i].name) == f->leaves[i].value;
}

tn_value tn_pt_value(const tn_pt *f, const char *name)
{
    const pickle_node *n = find(f, name);
    switch (n ? n->kind : PICKLE_NONE) {
    case PICKLE_BOOL:
        return tn_value_bool((int32_t)n->i);
    case PICKLE_INT:
        return tn_value_int(n->i);
    case PICKLE_FLOAT:
        return tn_value_float(n->f);
    case PICKLE_TEXT:
    case PICKLE_GLOBAL:
        return tn_value_string(n->text);
    default:
        return tn_value_none();
    }
}

/* A tensor on the CPU over the bytes of its storage, which it owns. */
static tn_tensor *tensor_of(tn_scope *s, tn_pt *f, const pickle_node *t)
{
    const pickle_node *storage = t->items[0], *sizes = t->items[2], *strides = t->items[3];
    const uint64_t element = TN_DTYPE_BITS(t->dtype) * TN_DTYPE_LANES(t->dtype) / 8;
    char record[MOST_NAME + 8];
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    snprintf(record, sizeof record, "data/%s", storage->text);
    pthread_mutex_lock(&f->lock);
    int32_t status = read_record(s, f, record, UINT64_MAX, &bytes, &size);
    pthread_mutex_unlock(&f->lock);
    if (status) return NULL;
    int64_t *numbers = tn_scope_memory(s, (uint64_t)(2 * sizes->count + 1) * sizeof *numbers);
    uint64_t expected = (uint64_t)storage->i * (storage->dtype ? element : 1);
    int32_t is_bool = t->dtype == TN_BOOL;
    for (uint64_t i = 0; is_bool && i < size && size == expected; i++)
        if (bytes[i] > 1) expected = size + 1; /* damaged, too */
    if (size != expected)
        fail(s, f->path, TN_E_CORRUPT, "the record '%s' does not have the elements of its tensor", record);
    if (!numbers || tn_scope_failed(s)) {
        free(bytes);
        return NULL;
    }
    for (uint32_t d = 0; d < sizes->count; d++) {
        numbers[d] = sizes->items[d]->i;
        numbers[sizes->count + d] = strides->items[d]->i;
    }
    const tn_blob blob = {.size = sizeof blob,
                          .dtype = t->dtype,
                          .data = bytes,
                          .sizes = {numbers, sizes->count},
                          .strides = {numbers + sizes->count, sizes->count},
                          .storage_offset = t->items[1]->i,
                          .deleter = free,
                          .user = bytes};
    tn_tensor *made = tn_from_blob(s, &blob);
    if (!made) free(bytes);
    return made;
}

tn_tensor *tn_pt_get(tn_scope *s, tn_pt *f, const char *name, tn_device device)
{
    if (f && handle_check(&f->mark, "pt"))
        return tn_scope_fail(s, TN_E_DEAD_HANDLE, tn_last_error()->message), NULL;
    const pickle_node *n = find(f, name);
    if (!f || !name)
        return tn_scope_fail(s, TN_E_ARGUMENT, "pt: argument 'file' or 'name': it is NULL"), NULL;
    if (!n || n->kind != PICKLE_TENSOR)
        return fail(s, f->path, TN_E_NOT_FOUND, n ? "'%s' is not a tensor" : "there is no '%s'", name), NULL;
    tn_tensor *host = tensor_of(s, f, n);
    /* A copy that is row-major, and shares nothing. */
    tn_tensor *copy = host ? tn_empty(s, (tn_ints){tn_tensor_sizes(host), tn_tensor_rank(host)},
                                      .dtype = tn_tensor_dtype(host), .device = device)
                           : NULL;
    tn_tensor *done = copy ? tn_copy_(s, copy, host) : NULL;
    if (done && n->i & PICKLE_CONJUGATE) done = tn_conj_physical_(s, done);
    if (done && n->i & PICKLE_NEGATIVE) done = tn_neg_(s, done);
    tn_drop(s, host);
    return done;
}

tn_named_tensors tn_pt_tensors(tn_scope *s, tn_pt *f, const char *prefix)
{
    size_t length = prefix ? strlen(prefix) : 0;
    tn_named_tensors out = {NULL, 0};
    if (!f) return tn_scope_fail(s, TN_E_ARGUMENT, "pt: argument 'file': it is NULL"), out;
    tn_named_tensor *list = tn_scope_memory(s, (uint64_t)(f->count + 1) * sizeof *list);
    for (uint32_t i = 0; list && i < f->count && !tn_scope_failed(s); i++) {
        const char *name = f->leaves[i].name;
        if (!pt_is_tensor(f, i)) continue;
        if (prefix && (strncmp(name, prefix, length) != 0 || name[length] != '.')) continue;
        char *own = tn_scope_memory(s, strlen(name) + 1);
        tn_tensor *t = own ? tn_pt_get(s, f, name, TN_CPU) : NULL;
        if (!t) break;
        strcpy(own, prefix ? name + length + 1 : name);
        list[out.count++] = (tn_named_tensor){own, t};
    }
    if (prefix && !out.count && !tn_scope_failed(s))
        fail(s, f->path, TN_E_NOT_FOUND, "no tensor has a name that begins with '%s.'", prefix);
    if (tn_scope_failed(s)) return (tn_named_tensors){NULL, 0};
    out.data = list;
    return out;
}
