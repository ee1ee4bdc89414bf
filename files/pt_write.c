/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files of PyTorch; pt.c says what they are. */
#include <tenon/files.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zip.h>

#include "bytes.h"
#include "pickle.h"

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

/* A call of _rebuild_tensor_v2, or of _v3 for dtypes without a class of storages, for a row-major tensor. */
static void put_tensor(byte_buffer *w, const tn_tensor *t, uint64_t number)
{
    const int64_t rank = tn_tensor_rank(t), *sizes = tn_tensor_sizes(t);
    const char *class = pickle_storage_name(tn_tensor_dtype(t));
    char key[24];
    int64_t strides[TN_MAX_RANK], step = 1;
    for (int64_t d = rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= sizes[d] > 1 ? sizes[d] : 1;
    }
    snprintf(key, sizeof key, "%llu", (unsigned long long)number);
    put_global(w, "torch._utils", class ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    put_opcode(w, '(');
    put_opcode(w, '(');
    put_text(w, "storage");
    put_global(w, class ? "torch" : "torch.storage", class ? class : "UntypedStorage");
    put_text(w, key);
    put_text(w, "cpu");
    put_int(w, class ? tn_tensor_numel(t) : tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t)));
    put_raw(w, "tQ", 2); /* the tuple is the name of a storage */
    put_int(w, 0);
    put_ints(w, sizes, rank);
    put_ints(w, strides, rank);
    put_opcode(w, 0x89); /* requires no gradient */
    put_global(w, "collections", "OrderedDict");
    put_raw(w, ")R", 2); /* no hooks */
    if (!class) put_global(w, "torch", pickle_dtype_name(tn_tensor_dtype(t)));
    put_raw(w, "tR", 2);
}

static void put_dictionary(byte_buffer *w, tn_named_tensors tensors)
{
    put_raw(w, "\x80\x02", 2);
    put_global(w, "collections", "OrderedDict");
    put_raw(w, ")R(", 3);
    for (int64_t i = 0; i < tensors.count; i++) {
        put_text(w, tensors.data[i].name);
        put_tensor(w, tensors.data[i].tensor, (uint64_t)i);
    }
    put_raw(w, "u.", 2);
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

/* On the CPU, with the elements as they are in memory: no conjugation or sign is pending. */
static tn_tensor *row_major(tn_scope *s, tn_tensor *t)
{
    return tn_contiguous(
        s, tn_resolve_neg(s, tn_resolve_conj(s, tn_to_device(s, t, TN_CPU, tn_tensor_dtype(t)))));
}

/* Row-major copies, in a list of the scope. */
static tn_named_tensors on_host(tn_scope *s, tn_named_tensors tensors)
{
    tn_named_tensor *list = tn_scope_memory(s, (uint64_t)(tensors.count + 1) * sizeof *list);
    for (int64_t i = 0; list && i < tensors.count && !tn_scope_failed(s); i++) {
        const tn_named_tensor *from = &tensors.data[i];
        char text[256];
        const char *why = !from->name     ? "has no name"
                          : !from->tensor ? "is NULL"
                          : !pickle_dtype_name(tn_tensor_dtype(from->tensor))
                              ? "has a dtype that PyTorch does not have"
                              : NULL;
        snprintf(text, sizeof text, "pt: tensor %lld ('%.100s') %s", (long long)i,
                 from->name ? from->name : "", why ? why : "");
        if (why) tn_scope_fail(s, TN_E_ARGUMENT, text);
        if (!why) list[i] = (tn_named_tensor){from->name, row_major(s, from->tensor)};
    }
    return (tn_named_tensors){list, tensors.count};
}

int32_t tn_pt_save(tn_scope *s, const char *path, tn_named_tensors tensors)
{
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    tn_scope *own = tn_scope_open_child(s, &options);
    byte_buffer w = {0};
    zip_t *zip = NULL;
    char *real = NULL;
    int32_t is_file = 1;
    int code = 0;
    if (!path) tn_scope_fail(own, TN_E_ARGUMENT, "pt: argument 'path': it is NULL");
    tn_named_tensors host = on_host(own, tensors);
    if (!tn_scope_failed(own)) {
        put_dictionary(&w, host);
        struct stat there;
        if (lstat(path, &there) == 0 && S_ISLNK(there.st_mode))
            real = realpath(path, NULL);                             /* the link stays one */
        is_file = stat(path, &there) != 0 || S_ISREG(there.st_mode); /* libzip does not look */
        if (is_file) zip = zip_open(real ? real : path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    }
    int32_t good = zip && !w.failed && add_record(zip, "archive/data.pkl", w.bytes, w.count) &&
                   add_record(zip, "archive/byteorder", "little", 6) &&
                   add_record(zip, "archive/version", "3\n", 2);
    for (int64_t i = 0; good && i < host.count; i++) {
        const tn_tensor *t = host.data[i].tensor;
        char name[48];
        snprintf(name, sizeof name, "archive/data/%lld", (long long)i);
        good = add_record(zip, name, tn_tensor_data(t),
                          (uint64_t)(tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t))));
    }
    if (good && zip_close(zip) == 0) {
        zip = NULL;
    } else if (!tn_scope_failed(own)) {
        char text[1024];
        int32_t is_memory = w.failed || code == ZIP_ER_MEMORY;
        snprintf(text, sizeof text, "pt: '%.400s' cannot be written: %s", path,
                 is_memory ? "out of host memory"
                 : zip     ? zip_strerror(zip)
                 : is_file ? strerror(errno)
                           : "not a regular file");
        tn_scope_fail(own, is_memory ? TN_E_OUT_OF_MEMORY : TN_E_IO, text);
    }
    if (zip) zip_discard(zip);
    free(real);
    free(w.bytes);
    return tn_scope_close(own);
}
