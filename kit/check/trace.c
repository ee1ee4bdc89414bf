/* SPDX-License-Identifier: Apache-2.0 */
/* Reading recorded calls and making their arguments; see trace.h. */
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "../calls/request.h"

#define MAX_LINE (1 << 20)

/* ---- What a call looks like ---------------------------------------------------------------------------- */

typedef struct shape_text {
    char text[1024];
    size_t used;
    double bytes;
} shape_text;

static void put(shape_text *t, const char *what)
{
    size_t n = strlen(what);
    if (t->used + n >= sizeof t->text) return;
    memcpy(t->text + t->used, what, n + 1);
    t->used += n;
}

static void put_tensor(shape_text *t, const cJSON *j)
{
    const cJSON *dtype = cJSON_GetObjectItem(j, "d"), *sizes = cJSON_GetObjectItem(j, "t"), *size;
    char what[64];
    double bytes = cJSON_IsString(dtype) ? (double)tn_dtype_bytes(tn_dtype_parse(dtype->valuestring)) : 0;
    cJSON_ArrayForEach(size, sizes) bytes *= size->valuedouble;
    t->bytes += bytes;
    snprintf(what, sizeof what, "%s[%d]%s", cJSON_IsString(dtype) ? dtype->valuestring : "?",
             cJSON_GetArraySize(sizes), cJSON_GetObjectItem(j, "s") ? "s" : "");
    put(t, what);
}

static int has_tensors(const cJSON *list)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (cJSON_IsObject(item) && cJSON_GetObjectItem(item, "t")) return 1;
    }
    return 0;
}

/* Tensors are described by dtype, rank and whether they have strides; numbers and lists by kind. */
static void put_value(shape_text *t, const cJSON *j)
{
    const cJSON *item;
    if (cJSON_IsObject(j) && cJSON_GetObjectItem(j, "t")) {
        put_tensor(t, j);
    } else if (cJSON_IsObject(j) && (item = cJSON_GetObjectItem(j, "dtype"))) {
        put(t, cJSON_IsString(item) ? item->valuestring : "?");
    } else if (cJSON_IsArray(j) && has_tensors(j)) {
        put(t, "{");
        cJSON_ArrayForEach(item, j) put_value(t, item);
        put(t, "}");
    } else if (cJSON_IsArray(j)) {
        put(t, "list");
    } else if (cJSON_IsString(j)) {
        put(t, j->valuestring);
    } else if (cJSON_IsBool(j)) {
        put(t, cJSON_IsTrue(j) ? "true" : "false");
    } else {
        put(t, cJSON_IsNull(j) ? "none" : "number");
    }
    put(t, ", ");
}

static void describe(const cJSON *call, shape_text *t)
{
    const cJSON *item;
    memset(t, 0, sizeof *t);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(call, "args")) put_value(t, item);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(call, "kwargs"))
    {
        put(t, item->string);
        put(t, "=");
        put_value(t, item);
    }
    if (t->used >= 2) t->text[t->used - 2] = 0;
}

double trace_bytes(const cJSON *call)
{
    shape_text shape;
    describe(call, &shape);
    return shape.bytes;
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static trace_form *form_of(check_list *list, trace *tr, const char *op, const char *key)
{
    for (uint32_t i = 0; i < tr->count; i++) {
        if (strcmp(tr->forms[i].op, op) == 0 && strcmp(tr->forms[i].key, key) == 0) return &tr->forms[i];
    }
    if ((tr->count & (tr->count - 1)) == 0) {
        trace_form *larger = check_memory(list, (tr->count ? tr->count * 2u : 1u) * sizeof *larger);
        if (tr->count) memcpy(larger, tr->forms, tr->count * sizeof *larger);
        tr->forms = larger;
    }
    trace_form *f = &tr->forms[tr->count++];
    f->op = check_text(list, "%s", op);
    f->key = check_text(list, "%s", key);
    return f;
}

static const char *keep(check_list *list, const char *line)
{
    char *copy = check_memory(list, strlen(line) + 1);
    return strcpy(copy, line);
}

static int take_line(check_list *list, trace *tr, double most, const char *line)
{
    cJSON *call = cJSON_Parse(line);
    const cJSON *op = cJSON_GetObjectItem(call, "op"), *n = cJSON_GetObjectItem(call, "n");
    shape_text shape;
    int good = cJSON_IsString(op) && cJSON_IsArray(cJSON_GetObjectItem(call, "args"));
    if (good) {
        double times =
            cJSON_IsNumber(n) && n->valuedouble >= 1 && n->valuedouble < 0x1p53 ? n->valuedouble : 1;
        describe(call, &shape);
        trace_form *f = form_of(list, tr, op->valuestring, shape.text);
        f->calls += (uint64_t)times;
        f->bytes += times * shape.bytes;
        if (!f->distinct++ || shape.bytes < f->text_bytes) {
            f->text = keep(list, line);
            f->text_bytes = shape.bytes;
        }
        int fits = shape.bytes <= most, had = f->large && f->large_bytes <= most;
        if (!f->large || (fits && (!had || shape.bytes > f->large_bytes)) ||
            (!fits && !had && shape.bytes < f->large_bytes)) {
            f->large = keep(list, line);
            f->large_bytes = shape.bytes;
        }
    }
    cJSON_Delete(call);
    return !good;
}

/* The installed file is in PREFIX/share/tenon, where this program is in PREFIX/bin; in the build folder it
 * is beside the program. */
static void find_installed(char *path, size_t bytes)
{
    char program[4000];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    if (slash) *slash = 0;
    snprintf(path, bytes, "%s/../share/tenon/workload.jsonl.gz", program);
    if (access(path, R_OK)) snprintf(path, bytes, "%s/check/workload.jsonl.gz", program);
    if (access(path, R_OK)) snprintf(path, bytes, "%s/workload.jsonl.gz", TENON_DATA_DIR);
}

void trace_read(check_list *list, const check_options *options, trace *out)
{
    char path[4200];
    char *line = check_memory(list, MAX_LINE);
    uint32_t number = 0;
    memset(out, 0, sizeof *out);
    if (options->trace)
        snprintf(path, sizeof path, "%s", options->trace);
    else
        find_installed(path, sizeof path);
    gzFile in = gzopen(path, "rb");
    if (!in) {
        snprintf(out->error, sizeof out->error, "cannot read %.200s", path);
        return;
    }
    while (!out->error[0] && gzgets(in, line, MAX_LINE)) {
        number++;
        line[strcspn(line, "\r\n")] = 0;
        if (*line && take_line(list, out, options->max_bytes, line))
            snprintf(out->error, sizeof out->error, "%.200s:%u is not a call", path, number);
    }
    if (!out->error[0] && !out->count) snprintf(out->error, sizeof out->error, "%.200s: no calls", path);
    gzclose(in);
}

/* ---- Arguments ----------------------------------------------------------------------------------------- */

/* Moves the storage under the view, then takes the same view of it. */
static tn_tensor *move(tn_scope *s, tn_tensor *x, tn_device device)
{
    int64_t rank = x ? tn_tensor_rank(x) : 0, extent = 1, one = 1;
    if (!x || device == TN_CPU) return x;
    for (int64_t d = 0; d < rank; d++) {
        if (tn_tensor_sizes(x)[d] == 0) return tn__to_copy(s, x, .device = device);
        extent += (tn_tensor_sizes(x)[d] - 1) * tn_tensor_strides(x)[d];
    }
    tn_tensor *flat = tn_as_strided(s, x, ((tn_ints){&extent, 1}), ((tn_ints){&one, 1}), .storage_offset = 0);
    flat = tn__to_copy(s, flat, .device = device);
    return tn_as_strided(s, flat, ((tn_ints){tn_tensor_sizes(x), rank}),
                         ((tn_ints){tn_tensor_strides(x), rank}), .storage_offset = 0);
}

static void move_value(tn_scope *s, tn_value *v, tn_device device)
{
    if (v->tag == TN_TAG_DEVICE) *v = tn_value_device(device);
    if (v->tag == TN_TAG_TENSOR) *v = tn_value_tensor(move(s, v->as.tensor, device));
    if (v->tag != TN_TAG_TENSORS) return;
    tn_tensor **list = tn_scope_memory(s, (v->count + 1u) * sizeof *list);
    for (uint32_t i = 0; list && i < v->count; i++) list[i] = move(s, v->as.tensors[i], device);
    *v = tn_value_tensors(list, v->count);
}

uint32_t trace_arguments(tn_scope *s, uint32_t op, const char *text, tn_device device, tn_value *args)
{
    cJSON *call = cJSON_Parse(text);
    uint32_t n = request_arguments(s, op, call, args);
    for (uint32_t i = 0; i < n && !tn_scope_failed(s); i++) {
        move_value(s, &args[i], device);
        if (args[i].tag != TN_TAG_STRING) continue;
        char *kept = tn_scope_memory(s, args[i].count + 1u); /* its text belongs to the JSON */
        if (kept) args[i] = tn_value_string(strcpy(kept, args[i].as.string));
    }
    cJSON_Delete(call);
    return n;
}
