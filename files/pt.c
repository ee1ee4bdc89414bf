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
#include "similar_name.h"

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
    leaf *leaves;        /* in the file's order */
    const leaf **sorted; /* by name; those of one name in the file's order */
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
        return fail(s, f->path, errno == ENOENT ? TN_E_NOT_FOUND : TN_E_IO, "%s", strerror(errno));
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

static int by_name(const void *a, const void *b)
{
    const leaf *x = *(const leaf *const *)a, *y = *(const leaf *const *)b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

static int32_t sort_leaves(tn_scope *s, tn_pt *f)
{
    f->sorted = malloc(((size_t)f->count + 1) * sizeof *f->sorted);
    if (!f->sorted) return fail(s, f->path, TN_E_OUT_OF_MEMORY, "out of host memory");
    for (uint32_t i = 0; i < f->count; i++) f->sorted[i] = &f->leaves[i];
    qsort(f->sorted, f->count, sizeof *f->sorted, by_name);
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
    status = add_leaves(s, f, f->values.root, name, 0, 0);
    return status ? status : sort_leaves(s, f);
}

/* ---- The file ------------------------------------------------------------------------------------------------------ */

void tn_pt_close(tn_pt *f)
{
    if (!f || !handle_end(&f->mark, "pt", __builtin_return_address(0))) return;
    if (f->zip) zip_discard(f->zip);
    for (uint32_t i = 0; i < f->count; i++) free(f->leaves[i].name);
    free(f->leaves);
    free(f->sorted);
    f->count = 0;
    pickle_free(&f->values);
    pthread_mutex_destroy(&f->lock);
    free(f->path);
    handle_free(f);
}

int32_t tn_pt_open(tn_context *ctx, const char *path, tn_pt **out)
{
    tn_pt *f = NULL;
    if (!ctx || !path || !out)
        return tn_scope_fail(NULL, TN_E_ARGUMENT,
                             !ctx    ? "pt: argument 'ctx': it is NULL"
                             : !path ? "pt: argument 'path': it is NULL"
                                     : "pt: argument 'out': it is NULL");
    *out = NULL;
    if (!*path) return tn_scope_fail(NULL, TN_E_ARGUMENT, "pt: argument 'path': it is empty");
    tn_scope *s = tn_scope_open(ctx);
    if (!s) return tn_last_error()->code;
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
    uint32_t from = 0, to = f && name ? f->count : 0;
    while (from < to) { /* the end of those that are not behind the name */
        const uint32_t middle = from + (to - from) / 2;
        if (strcmp(f->sorted[middle]->name, name) <= 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from && !strcmp(f->sorted[from - 1]->name, name) ? f->sorted[from - 1]->value : NULL;
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

/* ---- Tensors ------------------------------------------------------------------------------------------------------- */

/* The bytes of a tensor's storage in the file, on the CPU. */
static tn_tensor *storage_of(tn_scope *s, tn_pt *f, const pickle_node *t)
{
    char record[MOST_NAME + 8];
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    snprintf(record, sizeof record, "data/%s", t->items[0]->text);
    pthread_mutex_lock(&f->lock);
    int32_t status = read_record(s, f, record, UINT64_MAX, &bytes, &size);
    pthread_mutex_unlock(&f->lock);
    if (status) return NULL;
    const int64_t count = (int64_t)size;
    const tn_blob blob = {.size = sizeof blob,
                          .dtype = TN_UINT8,
                          .data = bytes,
                          .sizes = {&count, 1},
                          .deleter = free,
                          .user = bytes};
    return tn_from_blob(s, &blob); /* frees the bytes if it fails */
}

/* Bytes that are read as bool between the first element and the last must be 0 or 1. */
static int32_t are_bools(const pickle_node *t, const uint8_t *bytes)
{
    int64_t last = t->items[1]->i; /* pickle_read has checked that the elements lie in the storage */
    for (uint32_t d = 0; d < t->items[2]->count; d++) {
        if (!t->items[2]->items[d]->i) return 1;
        last += (t->items[2]->items[d]->i - 1) * t->items[3]->items[d]->i;
    }
    for (int64_t i = t->items[1]->i; i <= last; i++)
        if (bytes[i] > 1) return 0;
    return 1;
}

/* Compares a storage on the CPU with what the tensor says about it. */
static int32_t check_storage(tn_scope *s, const tn_pt *f, const pickle_node *t, const tn_tensor *storage)
{
    const pickle_node *of = t->items[0];
    uint64_t expected;
    int32_t is_sound =
        !__builtin_mul_overflow((uint64_t)of->i, of->dtype ? tn_dtype_bytes(of->dtype) : 1, &expected) &&
        expected == (uint64_t)tn_tensor_numel(storage);
    if (!is_sound || (t->dtype == TN_BOOL && !are_bools(t, tn_tensor_data(storage))))
        return fail(s, f->path, TN_E_CORRUPT,
                    "the record 'data/%.200s' does not have the elements of its tensor", of->text);
    if (t->items[2]->count > TN_MAX_RANK)
        return fail(s, f->path, TN_E_UNSUPPORTED, "it has a tensor of %u dimensions, a tensor may have %d",
                    t->items[2]->count, TN_MAX_RANK);
    return TN_OK;
}

/* A tensor of the file on the bytes of its storage. As in torch.load it shares memory, but is not a view of another tensor. */
static tn_tensor *tensor_on(tn_scope *s, const pickle_node *t, tn_tensor *storage)
{
    const pickle_node *sizes = t->items[2], *strides = t->items[3];
    const uint32_t rank = sizes->count;
    const int64_t element = tn_dtype_bytes(t->dtype), whole = tn_tensor_numel(storage) / element * element;
    int64_t *numbers = tn_scope_memory(s, (uint64_t)(2 * rank + 1) * sizeof *numbers);
    if (!numbers) return NULL;
    for (uint32_t d = 0; d < rank; d++) {
        numbers[d] = sizes->items[d]->i;
        numbers[rank + d] = strides->items[d]->i;
    }
    tn_tensor *elements = tn_view_dtype(s, tn_narrow(s, storage, 0, 0, whole), t->dtype);
    tn_tensor *made = tn_empty(s, TN_INTS(0), .dtype = t->dtype, .device = tn_tensor_device(storage));
    made = tn_set_source_tensor_storage_offset_(s, made, elements, t->items[1]->i, (tn_ints){numbers, rank},
                                                .stride = {numbers + rank, rank});
    if (t->i & PICKLE_CONJUGATE) made = tn_conj(s, made);
    if (t->i & PICKLE_NEGATIVE) made = tn__neg_view(s, made);
    return made;
}

tn_tensor *tn_pt_get(tn_scope *s, tn_pt *f, const char *name, tn_device device)
{
    if (f && handle_refuse(s, &f->mark, "pt")) return NULL;
    const pickle_node *n = find(f, name);
    if (!f || !name)
        return tn_scope_fail(s, TN_E_ARGUMENT, "pt: argument 'file' or 'name': it is NULL"), NULL;
    if (!n || n->kind != PICKLE_TENSOR) {
        char text[SIMILAR_NAME_BYTES + 32];
        similar_name similar = similar_name_begin(name);
        for (uint64_t i = 0; !n && i < tn_pt_count(f); i++) similar_name_try(&similar, tn_pt_name(f, i));
        fail(s, f->path, TN_E_NOT_FOUND, n ? "'%s' is not a tensor%s" : "there is no '%s'%s", name,
             similar_name_text(&similar, text));
        return NULL;
    }
    tn_scope *own = tn_scope_open_child(s, NULL);
    tn_tensor *storage = storage_of(own, f, n), *done = NULL;
    if (storage && !check_storage(own, f, n, storage)) {
        tn_tensor *host = tensor_on(own, n, storage);
        /* A copy that is row-major, and shares nothing. */
        tn_tensor *copy = host ? tn_empty(own, (tn_ints){tn_tensor_sizes(host), tn_tensor_rank(host)},
                                          .dtype = n->dtype, .device = device)
                               : NULL;
        done = copy ? tn_copy_(own, copy, host) : NULL;
    }
    if (done) tn_scope_return(own, done);
    return tn_scope_close(own) ? NULL : done;
}

/* ---- Tensors that share storages ----------------------------------------------------------------------------------- */

typedef struct wanted {
    const pickle_node *tensor;
    int64_t at; /* in the list */
} wanted;

static const char *key_of(const wanted *w)
{
    return w->tensor->items[0]->text;
}

static int by_storage(const void *a, const void *b)
{
    const wanted *x = a, *y = b;
    int order = strcmp(key_of(x), key_of(y));
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* Reads the storage that `count` tensors share to a device, and makes them. They are given to the scope. */
static int32_t read_shared(tn_scope *s, tn_pt *f, tn_device device, const wanted *w, int64_t count,
                           tn_named_tensor *list)
{
    tn_scope *own = tn_scope_open_child(s, NULL);
    tn_tensor *host = storage_of(own, f, w->tensor), *storage = NULL;
    int32_t status = host ? TN_OK : tn_scope_failed(own);
    for (int64_t i = 0; i < count && !status; i++) status = check_storage(own, f, w[i].tensor, host);
    if (!status) storage = tn__to_copy(own, host, .device = device);
    tn_drop(own, host);
    for (int64_t i = 0; i < count && storage; i++) {
        tn_tensor *made = tensor_on(own, w[i].tensor, storage);
        if (!made) break;
        list[w[i].at].tensor = tn_scope_return(own, made);
    }
    return tn_scope_close(own);
}

tn_named_tensors pt_tensors_on(tn_scope *s, tn_pt *f, const char *prefix, tn_device device)
{
    size_t length = prefix ? strlen(prefix) : 0;
    tn_named_tensors out = {NULL, 0};
    if (f && handle_refuse(s, &f->mark, "pt")) return out;
    if (!f) return tn_scope_fail(s, TN_E_ARGUMENT, "pt: argument 'file': it is NULL"), out;
    tn_named_tensor *list = tn_scope_memory(s, (uint64_t)(f->count + 1) * sizeof *list);
    wanted *all = list ? malloc((f->count + 1) * sizeof *all) : NULL;
    if (list && !all) fail(s, f->path, TN_E_OUT_OF_MEMORY, "out of host memory");
    for (uint32_t i = 0; all && i < f->count && !tn_scope_failed(s); i++) {
        const char *name = f->leaves[i].name;
        if (!pt_is_tensor(f, i)) continue;
        if (prefix && (strncmp(name, prefix, length) != 0 || name[length] != '.')) continue;
        char *own = tn_scope_memory(s, strlen(name) + 1);
        if (!own) break;
        strcpy(own, prefix ? name + length + 1 : name);
        all[out.count] = (wanted){f->leaves[i].value, out.count};
        list[out.count++] = (tn_named_tensor){own, NULL};
    }
    if (prefix && !out.count && !tn_scope_failed(s))
        fail(s, f->path, TN_E_NOT_FOUND, "no tensor has a name that begins with '%s.'", prefix);
    if (all) qsort(all, (size_t)out.count, sizeof *all, by_storage);
    for (int64_t i = 0, next; i < out.count && !tn_scope_failed(s); i = next) {
        for (next = i + 1; next < out.count && !strcmp(key_of(&all[i]), key_of(&all[next]));) next++;
        read_shared(s, f, device, &all[i], next - i, list);
    }
    free(all);
    if (tn_scope_failed(s)) return (tn_named_tensors){NULL, 0};
    out.data = list;
    return out;
}

tn_named_tensors tn_pt_tensors(tn_scope *s, tn_pt *f, const char *prefix)
{
    return pt_tensors_on(s, f, prefix, TN_CPU);
}
