/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's files (NEP 1). An array is the magic, a version, the length of a header, the header (a Python
 * dictionary with the keys descr, fortran_order and shape), and the elements. An .npz is a zip archive of
 * such arrays.
 */
#include "file.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6u
#define MOST_HEADER (1u << 16)

static const struct {
    const char *name;
    tn_dtype dtype;
    uint32_t number_bytes; /* that a byte order is about */
} types[] = {{"b1", TN_BOOL, 1},      {"u1", TN_UINT8, 1},      {"u2", TN_UINT16, 2},  {"u4", TN_UINT32, 4},
             {"u8", TN_UINT64, 8},    {"i1", TN_INT8, 1},       {"i2", TN_INT16, 2},   {"i4", TN_INT32, 4},
             {"i8", TN_INT64, 8},     {"f2", TN_FLOAT16, 2},    {"f4", TN_FLOAT32, 4}, {"f8", TN_FLOAT64, 8},
             {"c8", TN_COMPLEX64, 4}, {"c16", TN_COMPLEX128, 8}};

typedef struct header {
    char type[16];
    int32_t has_type, has_order, has_shape, is_fortran, is_swapped;
    uint32_t number_bytes, rank;
    tn_dtype dtype;
    int64_t sizes[TN_MAX_RANK];
} header;

/* ---- The header: a dictionary ------------------------------------------------------------------------- */

static const char *skip_space(const char *c)
{
    while (isspace((unsigned char)*c)) c++;
    return c;
}

/* Each of these takes one item at *at and moves behind it. */
static int32_t take(const char **at, char c)
{
    *at = skip_space(*at);
    if (**at != c) return 0;
    *at = skip_space(*at + 1);
    return 1;
}

static int32_t take_text(const char **at, char *text, size_t room)
{
    const char quote = **at;
    size_t n = 0;
    if (quote != '\'' && quote != '"') return 0;
    for (++*at; **at && **at != quote; ++*at) {
        if (n + 1 == room || **at == '\\') return 0;
        text[n++] = **at;
    }
    text[n] = 0;
    return take(at, quote);
}

static int32_t take_word(const char **at, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) return 0;
    *at = skip_space(*at + n);
    return 1;
}

static int32_t take_shape(const char **at, header *h)
{
    if (!take(at, '(')) return 0;
    while (**at != ')') {
        char *end;
        errno = 0;
        if (!isdigit((unsigned char)**at) || h->rank == TN_MAX_RANK) return 0;
        h->sizes[h->rank++] = strtoll(*at, &end, 10);
        if (errno) return 0;
        *at = skip_space(end);
        if (**at != ')' && !take(at, ',')) return 0;
    }
    return take(at, ')');
}

static int32_t parse(const char *at, header *h)
{
    char key[16];
    if (!take(&at, '{')) return 0;
    while (*at != '}') {
        if (!take_text(&at, key, sizeof key) || !take(&at, ':')) return 0;
        if (!strcmp(key, "descr") && !h->has_type) {
            h->has_type = 1;
            if (*at == '[') return snprintf(h->type, sizeof h->type, "a structure"), 1; /* refused later */
            if (!take_text(&at, h->type, sizeof h->type)) return 0;
        } else if (!strcmp(key, "fortran_order") && !h->has_order) {
            h->has_order = 1;
            h->is_fortran = take_word(&at, "True");
            if (!h->is_fortran && !take_word(&at, "False")) return 0;
        } else if (!strcmp(key, "shape") && !h->has_shape) {
            h->has_shape = 1;
            if (!take_shape(&at, h)) return 0;
        } else {
            return 0;
        }
        if (*at != '}' && !take(&at, ',')) return 0;
    }
    return take(&at, '}') && !*at && h->has_type && h->has_order && h->has_shape;
}

static int32_t find_type(header *h)
{
    const char order = h->type[0];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!order || !strchr("<>|=", order) || strcmp(h->type + 1, types[i].name) != 0) continue;
        h->dtype = types[i].dtype;
        h->number_bytes = types[i].number_bytes;
        h->is_swapped = order == '>';
        return 1;
    }
    return 0;
}

static int32_t read_header(tn_scope *s, const data_source *from, header *h)
{
    uint8_t start[MAGIC_BYTES + 2], length[4] = {0}, *text = NULL;
    int32_t status = data_read(s, from, start, sizeof start, "the magic");
    if (status) return status;
    if (memcmp(start, MAGIC, MAGIC_BYTES) != 0)
        return data_fail(s, TN_E_CORRUPT, "npy", from->path, "it is not a file of NumPy");
    if (start[MAGIC_BYTES] < 1 || start[MAGIC_BYTES] > 3)
        return data_fail(s, TN_E_UNSUPPORTED, "npy", from->path, "its version is %u (expected 1 to 3)",
                         start[MAGIC_BYTES]);
    status = data_read(s, from, length, start[MAGIC_BYTES] == 1 ? 2 : 4, "the header");
    if (status) return status;
    uint32_t bytes =
        length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16 | (uint32_t)length[3] << 24;
    if (bytes > MOST_HEADER)
        return data_fail(s, TN_E_CORRUPT, "npy", from->path, "its header has %u bytes", bytes);
    status = data_read_new(s, from, bytes, "the header", &text);
    if (status) return status;
    int32_t is_sound = strlen((char *)text) == bytes && parse((char *)text, h);
    free(text);
    if (!is_sound) return data_fail(s, TN_E_CORRUPT, "npy", from->path, "its header is damaged");
    if (!find_type(h))
        return data_fail(s, TN_E_UNSUPPORTED, "npy", from->path, "its elements are '%s'", h->type);
    return TN_OK;
}

/* ---- Arrays ------------------------------------------------------------------------------------------- */

static tn_tensor *read_array(tn_scope *s, const data_source *from)
{
    header h = {0};
    uint8_t *bytes = NULL;
    int64_t strides[TN_MAX_RANK], step = 1;
    if (read_header(s, from, &h)) return NULL;
    const int64_t count = data_bytes((tn_ints){h.sizes, h.rank}, tn_dtype_bytes(h.dtype));
    if (count < 0) return data_fail(s, TN_E_CORRUPT, "npy", from->path, "its shape is too large"), NULL;
    if (data_read_new(s, from, (uint64_t)count, "the elements", &bytes)) return NULL;
    if (h.is_swapped) data_swap(bytes, count / h.number_bytes, h.number_bytes);
    for (int64_t i = 0; h.dtype == TN_BOOL && i < count; i++) {
        if (bytes[i] <= 1) continue;
        data_fail(s, TN_E_CORRUPT, "npy", from->path,
                  "element %lld is the byte %u (expected 0 or 1, as bool)", (long long)i, bytes[i]);
        free(bytes);
        return NULL;
    }
    if (!h.is_fortran) return data_tensor_of(s, h.dtype, (tn_ints){h.sizes, h.rank}, bytes);
    for (uint32_t d = 0; d < h.rank; d++) {
        strides[d] = step;
        step *= h.sizes[d] > 1 ? h.sizes[d] : 1;
    }
    const tn_blob blob = {.size = sizeof blob,
                          .dtype = h.dtype,
                          .data = bytes,
                          .sizes = {h.sizes, h.rank},
                          .strides = {strides, h.rank},
                          .deleter = free,
                          .user = bytes};
    return data_give(s, &blob);
}

static int64_t read_file(void *user, void *to, uint64_t bytes)
{
    size_t n = fread(to, 1, bytes, user);
    return n || !ferror((FILE *)user) ? (int64_t)n : -1;
}

tn_tensor *tn_npy_read(tn_scope *s, const char *path)
{
    if (tn_scope_failed(s)) return NULL;
    if (!path) return data_fail(s, TN_E_ARGUMENT, "npy", NULL, "argument 'path': it is NULL"), NULL;
    FILE *file = fopen(path, "rbe");
    if (!file) return data_fail(s, data_open_status(errno), "npy", path, "%s", strerror(errno)), NULL;
    const data_source from = {"npy", path, file, read_file};
    tn_tensor *t = read_array(s, &from);
    fclose(file);
    return t;
}

/* ---- Archives ----------------------------------------------------------------------------------------- */

static int64_t read_record(void *user, void *to, uint64_t bytes)
{
    return zip_fread(user, to, bytes);
}

/* The array of record i, and its name without ".npy", in the scope. */
static int32_t read_member(tn_scope *s, const char *path, zip_t *zip, zip_uint64_t i, tn_named_tensor *out)
{
    char where[600];
    const char *record = zip_get_name(zip, i, 0);
    size_t length = record ? strlen(record) : 0;
    zip_file_t *file = record ? zip_fopen_index(zip, i, 0) : NULL;
    if (!file)
        return data_fail(s, TN_E_CORRUPT, "npz", path, "'%.100s': %s", record ? record : "?",
                         zip_error_strerror(zip_get_error(zip)));
    snprintf(where, sizeof where, "%.400s/%.180s", path, record);
    const data_source from = {"npy", where, file, read_record};
    if (length > 4 && !strcmp(record + length - 4, ".npy")) length -= 4;
    char *name = tn_scope_memory(s, length + 1);
    out->tensor = name ? read_array(s, &from) : NULL;
    char rest;
    if (out->tensor && zip_fread(file, &rest, 1) < 0) /* reads the checksum */
        data_fail(s, TN_E_CORRUPT, "npy", where, "its checksum is wrong");
    zip_fclose(file);
    if (!out->tensor || tn_scope_failed(s)) return tn_scope_failed(s);
    memcpy(name, record, length);
    name[length] = 0;
    out->name = name;
    return TN_OK;
}

tn_named_tensors tn_npz_read(tn_scope *s, const char *path)
{
    const tn_named_tensors none = {NULL, 0};
    int code = 0;
    if (tn_scope_failed(s)) return none;
    if (!path) return data_fail(s, TN_E_ARGUMENT, "npz", NULL, "argument 'path': it is NULL"), none;
    zip_t *zip = zip_open(path, ZIP_RDONLY, &code);
    if (!zip && (code == ZIP_ER_OPEN || code == ZIP_ER_NOENT || code == ZIP_ER_READ))
        return data_fail(s, code == ZIP_ER_NOENT ? TN_E_NOT_FOUND : TN_E_IO, "npz", path, "%s",
                         strerror(errno)),
               none;
    if (!zip) return data_fail(s, TN_E_CORRUPT, "npz", path, "it is not a zip archive"), none;
    zip_int64_t count = zip_get_num_entries(zip, 0);
    tn_named_tensor *list = tn_scope_memory(s, (uint64_t)(count + 1) * sizeof *list);
    int32_t status = list ? TN_OK : TN_E_OUT_OF_MEMORY;
    for (zip_int64_t i = 0; i < count && !status; i++)
        status = read_member(s, path, zip, (zip_uint64_t)i, &list[i]);
    zip_discard(zip);
    return status ? none : (tn_named_tensors){list, count};
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

/* The header, padded so that the elements begin at a multiple of 64 bytes. Returns its bytes, or 0: the dtype
 * is not one of NumPy. */
static size_t make_header(const tn_tensor *t, char *text, size_t room)
{
    const char *type = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == tn_tensor_dtype(t)) type = types[i].name;
    if (!type) return 0;
    size_t n =
        (size_t)snprintf(text, room, MAGIC "%c%c%c%c{'descr': '%c%s', 'fortran_order': False, 'shape': (", 1,
                         0, 0, 0, type[1] == '1' && !type[2] ? '|' : '<', type);
    for (int64_t d = 0; d < tn_tensor_rank(t); d++)
        n += (size_t)snprintf(text + n, room - n, "%s%lld%s", d ? " " : "", (long long)tn_tensor_size(t, d),
                              d + 1 < tn_tensor_rank(t) || !d ? "," : "");
    n += (size_t)snprintf(text + n, room - n, "), }");
    while ((n + 1) % 64) text[n++] = ' ';
    text[n++] = '\n';
    text[MAGIC_BYTES + 2] = (char)((n - 10) & 0xff);
    text[MAGIC_BYTES + 3] = (char)((n - 10) >> 8);
    return n;
}

/* 0, or -1 and errno. */
static int write_file(const char *path, const char *head, size_t head_bytes, const uint8_t *data,
                      size_t bytes)
{
    tn_replacement file;
    int32_t why = tn_replace_begin(&file, path);
    if (!why)
        why = tn_replace_end(&file, fwrite(head, 1, head_bytes, file.to) == head_bytes &&
                                        fwrite(data, 1, bytes, file.to) == bytes);
    if (why) errno = why;
    return why ? -1 : 0;
}

int32_t tn_npy_save(tn_scope *s, const char *path, tn_tensor *t)
{
    char text[64 * TN_MAX_RANK + 256];
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (!path || !t) return data_fail(s, TN_E_ARGUMENT, "npy", path, "argument 'path' or 't': it is NULL");
    if (!*path) return data_fail(s, TN_E_ARGUMENT, "npy", path, "argument 'path': it is empty");
    size_t head = make_header(t, text, sizeof text);
    if (!head)
        return data_fail(s, TN_E_UNSUPPORTED, "npy", path, "NumPy has no dtype %s",
                         tn_dtype_name(tn_tensor_dtype(t)));
    const uint64_t bytes = (uint64_t)(tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t)));
    uint8_t *data = malloc(bytes + 1);
    if (!data) return data_fail(s, TN_E_OUT_OF_MEMORY, "npy", path, "out of host memory");
    int32_t status = tn_to_host(s, t, data, bytes);
    if (!status && write_file(path, text, head, data, bytes))
        status = data_fail(s, TN_E_IO, "npy", path, "it cannot be written: %s", strerror(errno));
    free(data);
    return status;
}
