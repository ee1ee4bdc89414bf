/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of numbers. The decimal point is a point in every locale. */
#include "file.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    tn_scope *scope;
    const char *path;
    locale_t plain; /* "C" */
    char delimiter;
    tn_dtype dtype;   /* of the result */
    int32_t is_whole; /* the numbers are int64 or uint64, else double */
    int32_t is_unsigned;
    uint64_t most;  /* the greatest whole number of the dtype */
    const char *at; /* the next character */
    int64_t line;   /* of it, from 1 on */
    int64_t fields; /* of each line; 0 before the first */
    uint64_t *row;  /* numbers of a line */
    int64_t row_room;
    tn_ints columns;   /* that are taken; empty: all */
    uint64_t *numbers; /* 8 bytes each */
    int64_t count, room;
} reader;

static int32_t fail(reader *r, int32_t status, int64_t column, const char *what, const char *text, int length)
{
    return data_fail(r->scope, status, "csv", r->path, "line %lld, column %lld: %s '%.*s'",
                     (long long)r->line, (long long)column, what, length < 60 ? length : 60, text);
}

static int32_t is_space(const reader *r, char c)
{
    return (c == ' ' || c == '\t' || c == '\r') && c != r->delimiter;
}

static void *grown(void *items, int64_t *room)
{
    int64_t more = *room ? 2 * *room : 64;
    void *larger = realloc(items, (uint64_t)more * 8);
    if (larger) *room = more;
    return larger;
}

/* Returns whether the dtype has the number; its 64 bits into *out. */
static int32_t read_whole(const reader *r, const char *field, char **stop, uint64_t *out)
{
    errno = 0;
    if (r->is_unsigned) {
        *out = strtoull(field, stop, 10);
        return !errno && *field != '-' && *out <= r->most;
    }
    const int64_t n = strtoll(field, stop, 10), most = (int64_t)r->most;
    *out = (uint64_t)n;
    return !errno && n <= most && n >= -most - 1;
}

/* A field from `text` to `end`, without spaces and quotes around it. */
static int32_t read_number(reader *r, const char *text, const char *end, int64_t column, uint64_t *out)
{
    char *stop = NULL, field[64], range[64];
    while (text < end && is_space(r, *text)) text++;
    while (end > text && is_space(r, end[-1])) end--;
    if (end - text >= 2 && *text == '"' && end[-1] == '"') text++, end--;
    const int length = (int)(end - text < INT32_MAX ? end - text : INT32_MAX);
    if (!length && r->is_whole) return fail(r, TN_E_CORRUPT, column, "an integer is missing:", text, length);
    double real = NAN;
    uint64_t whole = 0;
    int32_t has = 1;
    if (length >= (int)sizeof field) return fail(r, TN_E_CORRUPT, column, "not a number:", text, length);
    memcpy(field, text, (size_t)length);
    field[length] = 0;
    if (length && r->is_whole) has = read_whole(r, field, &stop, &whole);
    if (length && !r->is_whole) real = strtod_l(field, &stop, r->plain);
    if (length && (stop == field || *stop || is_space(r, *field)))
        return fail(r, TN_E_CORRUPT, column, r->is_whole ? "not an integer:" : "not a number:", text, length);
    if (!has) {
        snprintf(range, sizeof range, "outside the range of %s:", tn_dtype_name(r->dtype));
        return fail(r, TN_E_CORRUPT, column, range, text, length);
    }
    memcpy(out, r->is_whole ? (void *)&whole : (void *)&real, 8);
    return TN_OK;
}

/* All fields of the line at r->at into r->row. *out 0: the line was empty. */
static int32_t read_line(reader *r, int64_t *out)
{
    const char *end = strchr(r->at, '\n'), *text = r->at;
    int64_t n = 0;
    if (!end) end = r->at + strlen(r->at);
    const char *first = text;
    while (first < end && is_space(r, *first)) first++;
    while (first < end) {
        const char *stop = memchr(text, r->delimiter, (size_t)(end - text));
        if (!stop) stop = end;
        if (n == r->row_room) {
            uint64_t *larger = grown(r->row, &r->row_room);
            if (!larger) return data_fail(r->scope, TN_E_OUT_OF_MEMORY, "csv", r->path, "out of host memory");
            r->row = larger;
        }
        int32_t status = read_number(r, text, stop, n, &r->row[n]);
        if (status) return status;
        n++;
        if (stop == end) break;
        text = stop + 1;
    }
    r->at = *end ? end + 1 : end;
    *out = n;
    return TN_OK;
}

static int32_t keep_row(reader *r, int64_t fields)
{
    const int64_t n = r->columns.count ? r->columns.count : fields;
    while (r->count + n > r->room) {
        uint64_t *larger = grown(r->numbers, &r->room);
        if (!larger) return data_fail(r->scope, TN_E_OUT_OF_MEMORY, "csv", r->path, "out of host memory");
        r->numbers = larger;
    }
    for (int64_t i = 0; i < n; i++)
        r->numbers[r->count++] = r->row[r->columns.count ? r->columns.data[i] : i];
    return TN_OK;
}

static int32_t read_lines(reader *r, int64_t skip)
{
    for (; *r->at; r->line++) {
        int64_t fields = 0;
        if (r->line <= skip) {
            r->at += strcspn(r->at, "\n");
            r->at += *r->at == '\n';
            continue;
        }
        int32_t status = read_line(r, &fields);
        if (status) return status;
        if (!fields) continue;
        if (!r->fields) r->fields = fields;
        if (fields != r->fields)
            return data_fail(r->scope, TN_E_CORRUPT, "csv", r->path,
                             "line %lld has %lld columns (expected %lld)", (long long)r->line,
                             (long long)fields, (long long)r->fields);
        for (int64_t i = 0; i < r->columns.count; i++)
            if (r->columns.data[i] < 0 || r->columns.data[i] >= fields)
                return data_fail(r->scope, TN_E_INDEX, "csv", r->path,
                                 "argument 'columns': there is no column %lld (the file has %lld)",
                                 (long long)r->columns.data[i], (long long)fields);
        status = keep_row(r, fields);
        if (status) return status;
    }
    return TN_OK;
}

static void set_dtype(reader *r, tn_dtype dtype)
{
    const int64_t bits = dtype == TN_BOOL ? 64 : 8 * tn_dtype_bytes(dtype); /* any number is a bool */
    r->dtype = dtype;
    r->is_whole = dtype && !tn_dtype_is_floating(dtype) && !tn_dtype_is_complex(dtype);
    r->is_unsigned = dtype == TN_UINT8 || dtype == TN_UINT16 || dtype == TN_UINT32 || dtype == TN_UINT64;
    if (r->is_whole) r->most = (r->is_unsigned ? UINT64_MAX : INT64_MAX) >> (64 - bits);
}

tn_tensor *tn_csv_read_with(tn_scope *s, const tn_csv_options *o)
{
    uint8_t *bytes = NULL;
    uint64_t size = 0;
    if (tn_scope_failed(s)) return NULL;
    if (!o || o->options_size < sizeof *o)
        return data_fail(s, TN_E_ARGUMENT, "csv", NULL, "argument 'options': it is NULL or too small"), NULL;
    if (data_read_file(s, "csv", o->path, &bytes, &size)) return NULL;
    reader r = {.scope = s,
                .path = o->path,
                .plain = newlocale(LC_ALL_MASK, "C", (locale_t)0),
                .delimiter = o->delimiter ? o->delimiter : ',',
                .at = (const char *)bytes +
                      (size >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0), /* a byte order mark */
                .line = 1,
                .columns = o->columns};
    set_dtype(&r, o->dtype);
    int32_t status = !r.plain ? data_fail(s, TN_E_OUT_OF_MEMORY, "csv", o->path, "out of host memory")
                     : memchr(bytes, 0, size)
                         ? data_fail(s, TN_E_CORRUPT, "csv", o->path, "it is not a text: it has a zero byte")
                         : read_lines(&r, o->skip_lines);
    if (r.plain) freelocale(r.plain);
    free(bytes);
    free(r.row);
    if (status) return free(r.numbers), NULL;
    const int64_t columns = r.columns.count ? r.columns.count : r.fields;
    tn_tensor *t = data_tensor_of(s,
                                  !r.is_whole     ? TN_FLOAT64
                                  : r.is_unsigned ? TN_UINT64
                                                  : TN_INT64,
                                  TN_INTS(columns ? r.count / columns : 0, columns), (uint8_t *)r.numbers);
    return o->dtype && t ? tn_to(s, t, o->dtype) : t;
}
