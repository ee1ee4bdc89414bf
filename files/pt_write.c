/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files of PyTorch; pt.c says what they are. Tensors that share a storage share its record, which has all its bytes. */
#include <tenon/files.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "bytes.h"
#include "pickle.h"
#include "replacement.h"
#include "zip_sink.h"

static void put_opcode(byte_buffer *w, uint8_t opcode)
{
    put_raw(w, &opcode, 1);
}

static void put_number(byte_buffer *w, uint64_t n, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) put_opcode(w, (uint8_t)(n >> 8 * i));
}

static void put_text(byte_buffer *w, const char *text)
{
    put_opcode(w, 'X');
    put_number(w, strlen(text), 4);
    put_raw(w, text, strlen(text));
}

static void put_int(byte_buffer *w, int64_t n)
{
    int32_t is_short = n >= INT32_MIN && n <= INT32_MAX;
    put_opcode(w, is_short ? 'J' : 0x8a); /* BININT, LONG1 */
    if (!is_short) put_opcode(w, 8);
    put_number(w, (uint64_t)n, is_short ? 4 : 8);
}

static void put_ints(byte_buffer *w, const int64_t *n, int64_t count)
{
    put_opcode(w, '(');
    for (int64_t i = 0; i < count; i++) put_int(w, n[i]);
    put_opcode(w, 't');
}

static void put_global(byte_buffer *w, const char *module, const char *name)
{
    put_opcode(w, 'c');
    put_raw(w, module, strlen(module));
    put_opcode(w, '\n');
    put_raw(w, name, strlen(name));
    put_opcode(w, '\n');
}

/* A storage of the tensors, on the CPU. */
typedef struct stored {
    tn_tensor *bytes;
    int32_t is_untyped; /* tensors of several dtypes, a dtype without a class in PyTorch, or odd bytes */
} stored;

typedef struct writer {
    tn_scope *scope;
    const char *path;
    tn_named_tensors tensors;
    int64_t *storage_of; /* of each tensor: its number, which is the key of its record */
    stored *storages;
    int64_t count;
    byte_buffer pickle;
} writer;

static void put_bits(byte_buffer *w, int32_t is_conjugate, int32_t is_negative)
{
    put_raw(w, "}(", 2);
    if (is_conjugate) put_text(w, "conj");
    if (is_conjugate) put_opcode(w, 0x88);
    if (is_negative) put_text(w, "neg");
    if (is_negative) put_opcode(w, 0x88);
    put_opcode(w, 'u');
}

/* A call of _rebuild_tensor_v2, or of _v3, which names the dtype, for untyped storages. */
static void put_tensor(writer *w, int64_t i)
{
    tn_tensor *t = w->tensors.data[i].tensor;
    const stored *storage = &w->storages[w->storage_of[i]];
    const int64_t rank = tn_tensor_rank(t), bytes = tn_tensor_numel(storage->bytes);
    const int32_t is_conjugate = tn_is_conj(w->scope, t), is_negative = tn_is_neg(w->scope, t);
    const char *class = storage->is_untyped ? NULL : pickle_storage_name(tn_tensor_dtype(t));
    byte_buffer *to = &w->pickle;
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)w->storage_of[i]);
    put_global(to, "torch._utils", class ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    put_opcode(to, '(');
    put_opcode(to, '(');
    put_text(to, "storage");
    put_global(to, class ? "torch" : "torch.storage", class ? class : "UntypedStorage");
    put_text(to, key);
    put_text(to, "cpu");
    put_int(to, class ? bytes / tn_dtype_bytes(tn_tensor_dtype(t)) : bytes);
    put_raw(to, "tQ", 2); /* the tuple is the name of a storage */
    put_int(to, tn_tensor_storage_offset(t));
    put_ints(to, tn_tensor_sizes(t), rank);
    put_ints(to, tn_tensor_strides(t), rank);
    put_opcode(to, 0x89); /* requires no gradient */
    put_global(to, "collections", "OrderedDict");
    put_raw(to, ")R", 2); /* no hooks */
    if (!class) put_global(to, "torch", pickle_dtype_name(tn_tensor_dtype(t)));
    if (is_conjugate || is_negative) put_bits(to, is_conjugate, is_negative);
    put_raw(to, "tR", 2);
}

static void put_dictionary(writer *w)
{
    put_raw(&w->pickle, "\x80\x02", 2);
    put_global(&w->pickle, "collections", "OrderedDict");
    put_raw(&w->pickle, ")R(", 3);
    for (int64_t i = 0; i < w->tensors.count; i++) {
        put_text(&w->pickle, w->tensors.data[i].name);
        put_tensor(w, i);
    }
    put_raw(&w->pickle, "u.", 2);
}

/* ---- Storages ---------------------------------------------------------------------------------------- */

/* Tensors with one storage have the same key. Others rarely share one: those that the host cannot read, and empty ones. */
typedef struct keyed {
    uint64_t address, bytes;
    int64_t at;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->address != y->address) return x->address < y->address ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static keyed key_of(const tn_tensor *t, int64_t at)
{
    const uint64_t first = (uint64_t)(uintptr_t)tn_tensor_data(t);
    const int64_t offset = tn_tensor_storage_offset(t) * tn_dtype_bytes(tn_tensor_dtype(t));
    return (keyed){first ? first - (uint64_t)offset : 0, tn_tensor_storage_bytes(t), at};
}

/* Finds for each tensor the first one with its storage, in `storage_of`. */
static int32_t find_first(writer *w)
{
    const int64_t count = w->tensors.count;
    keyed *keys = tn_scope_memory(w->scope, (uint64_t)(count + 1) * sizeof *keys);
    if (!keys) return tn_scope_failed(w->scope);
    for (int64_t i = 0; i < count; i++) keys[i] = key_of(w->tensors.data[i].tensor, i);
    qsort(keys, (size_t)count, sizeof *keys, by_key);
    for (int64_t begin = 0, i = 0; i < count; i++) {
        const int64_t at = keys[i].at;
        w->storage_of[at] = at;
        if (keys[i].address != keys[begin].address || keys[i].bytes != keys[begin].bytes) begin = i;
        for (int64_t k = begin; k < i && w->storage_of[at] == at; k++)
            if (w->storage_of[keys[k].at] == keys[k].at &&
                tn_tensor_is_alias(w->tensors.data[keys[k].at].tensor, w->tensors.data[at].tensor))
                w->storage_of[at] = keys[k].at;
    }
    return TN_OK;
}

/* All bytes of a tensor's storage, on the CPU as they are in memory: without the conjugation or sign of the tensor. */
static tn_tensor *bytes_of(tn_scope *s, tn_tensor *t)
{
    if (tn_is_conj(s, t)) t = tn_conj(s, t);
    if (tn_is_neg(s, t)) t = tn__neg_view(s, t);
    const int64_t bytes = (int64_t)tn_tensor_storage_bytes(t);
    t = tn_as_strided(s, t, TN_INTS(0), TN_INTS(1), .storage_offset = 0);
    t = tn_as_strided(s, tn_view_dtype(s, t, TN_UINT8), TN_INTS(bytes), TN_INTS(1), .storage_offset = 0);
    return tn_to_device(s, t, TN_CPU, TN_UINT8);
}

/* Numbers the storages in the order of their first tensors, as torch.save does. */
static void find_storages(writer *w)
{
    if (find_first(w)) return;
    for (int64_t i = 0; i < w->tensors.count && !tn_scope_failed(w->scope); i++) {
        tn_tensor *t = w->tensors.data[i].tensor;
        const int64_t first = w->storage_of[i];
        const tn_dtype dtype = tn_tensor_dtype(t);
        w->storage_of[i] = first == i ? w->count++ : w->storage_of[first];
        stored *storage = &w->storages[w->storage_of[i]];
        if (first == i) *storage = (stored){bytes_of(w->scope, t), 0};
        storage->is_untyped |= !pickle_storage_name(dtype) ||
                               dtype != tn_tensor_dtype(w->tensors.data[first].tensor) ||
                               tn_tensor_storage_bytes(t) % (uint64_t)tn_dtype_bytes(dtype);
    }
}

/* Adds a record that is not compressed and has a fixed date; `bytes` are borrowed until the archive closes. */
static int32_t add_record(zip_t *zip, const char *name, const void *bytes, uint64_t size)
{
    zip_source_t *source = zip_source_buffer(zip, bytes, size, 0);
    zip_int64_t i = source ? zip_file_add(zip, name, source, ZIP_FL_ENC_UTF_8) : -1;
    if (i < 0) zip_source_free(source);
    return i >= 0 && zip_set_file_compression(zip, (zip_uint64_t)i, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_dostime(zip, (zip_uint64_t)i, 0, (1 << 5) + 1, 0) == 0;
}

static int32_t check_tensors(tn_scope *s, tn_named_tensors tensors)
{
    for (int64_t i = 0; i < tensors.count && !tn_scope_failed(s); i++) {
        const tn_named_tensor *at = &tensors.data[i];
        char text[256];
        const char *why = !at->name     ? "has no name"
                          : !at->tensor ? "is NULL"
                          : !pickle_dtype_name(tn_tensor_dtype(at->tensor))
                              ? "has a dtype that PyTorch does not have"
                              : NULL;
        snprintf(text, sizeof text, "pt: tensor %lld ('%.100s') %s", (long long)i, at->name ? at->name : "",
                 why ? why : "");
        if (why) tn_scope_fail(s, TN_E_ARGUMENT, text);
    }
    return tn_scope_failed(s);
}

/* ---- The file ---------------------------------------------------------------------------------------- */

static int32_t write_fail(writer *w, int32_t is_memory, const char *why)
{
    char text[1024];
    snprintf(text, sizeof text, "pt: '%.400s' cannot be written: %s", w->path,
             is_memory ? "out of host memory" : why);
    return tn_scope_fail(w->scope, is_memory ? TN_E_OUT_OF_MEMORY : TN_E_IO, text);
}

static int32_t add_records(writer *w, zip_t *zip)
{
    int32_t good = add_record(zip, "archive/data.pkl", w->pickle.bytes, w->pickle.count) &&
                   add_record(zip, "archive/byteorder", "little", 6) &&
                   add_record(zip, "archive/version", "3\n", 2);
    for (int64_t i = 0; good && i < w->count; i++) {
        const tn_tensor *bytes = w->storages[i].bytes;
        char name[48];
        snprintf(name, sizeof name, "archive/data/%lld", (long long)i);
        good = add_record(zip, name, tn_tensor_data(bytes), (uint64_t)tn_tensor_numel(bytes));
    }
    return good;
}

static int32_t write_archive(writer *w, int descriptor)
{
    zip_sink sink = {.descriptor = descriptor};
    zip_source_t *source = w->pickle.failed ? NULL : zip_sink_source(&sink);
    zip_t *zip = source ? zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, NULL) : NULL;
    if (!zip) {
        zip_source_free(source);
        return write_fail(w, 1, NULL);
    }
    if (add_records(w, zip) && zip_close(zip) == 0) return TN_OK;
    write_fail(w, zip_error_code_zip(zip_get_error(zip)) == ZIP_ER_MEMORY, zip_strerror(zip));
    zip_discard(zip);
    return tn_scope_failed(w->scope);
}

static void write_file(writer *w)
{
    tni_replacement file;
    if (tni_is_special_file(w->path)) {
        write_fail(w, 0, "not a regular file");
        return;
    }
    int32_t failed = tni_replacement_begin(&file, w->path), status = TN_OK;
    if (!failed) {
        status = write_archive(w, file.descriptor);
        failed = tni_replacement_end(&file, !status);
    }
    if (failed && !status) write_fail(w, 0, strerror(failed));
}

int32_t tn_pt_save(tn_scope *s, const char *path, tn_named_tensors tensors)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    tn_scope *own = tn_scope_open_child(s, &options);
    writer w = {.scope = own, .path = path, .tensors = tensors};
    if (!path || !*path)
        tn_scope_fail(own, TN_E_ARGUMENT,
                      path ? "pt: argument 'path': it is empty" : "pt: argument 'path': it is NULL");
    check_tensors(own, tensors);
    w.storage_of = tn_scope_memory(own, (uint64_t)(tensors.count + 1) * sizeof *w.storage_of);
    w.storages = tn_scope_memory(own, (uint64_t)(tensors.count + 1) * sizeof *w.storages);
    if (!tn_scope_failed(own)) find_storages(&w);
    if (!tn_scope_failed(own)) put_dictionary(&w);
    if (!tn_scope_failed(own)) write_file(&w);
    free(w.pickle.bytes);
    return tn_scope_close(own);
}
