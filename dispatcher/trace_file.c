/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TENON_TRACE=FILE: writes the calls of a program, one line of JSON each, without data, for `tenon check --mode
 * coverage` and `speed` (docs/kit.md has the format). An ordinary observer. If the file cannot be written, that
 * is logged and the program runs on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>
#include "core/number_text.h"
#include "dispatcher/backend.h"
#include "dispatcher/rooms.h"

/* An integer with all its digits, which a double does not have. */
static cJSON *int_of(int64_t i)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)i);
    return cJSON_CreateRaw(text);
}

static cJSON *tensor_of(const tn_tensor *t)
{
    cJSON *j = cJSON_CreateObject(), *sizes = cJSON_AddArrayToObject(j, "t");
    for (uint32_t d = 0; d < t->desc.rank; d++) cJSON_AddItemToArray(sizes, int_of(t->desc.sizes[d]));
    cJSON_AddStringToObject(j, "d", tn_dtype_name(t->desc.dtype));
    if (tni_is_contiguous(t)) return j;
    cJSON *strides = cJSON_AddArrayToObject(j, "s");
    for (uint32_t d = 0; d < t->desc.rank; d++) cJSON_AddItemToArray(strides, int_of(t->desc.strides[d]));
    return j;
}

static cJSON *float_of(double f)
{
    char text[40];
    cJSON *j = cJSON_CreateObject();
    tni_snprintf(text, sizeof text, "%.17g", f);
    cJSON_AddStringToObject(j, "f", text);
    return j;
}

static cJSON *value_of(const tn_value *v);

static cJSON *list_of(const tn_value *v)
{
    cJSON *j = cJSON_CreateArray();
    for (uint32_t i = 0; i < v->count; i++) {
        cJSON *item = NULL;
        if (v->tag == TN_TAG_INTS) item = int_of(v->as.ints[i]);
        if (v->tag == TN_TAG_FLOATS) item = float_of(v->as.floats[i]);
        if (v->tag == TN_TAG_BOOLS) item = cJSON_CreateBool(v->as.bools[i]);
        if (v->tag == TN_TAG_SCALARS) item = value_of(&v->as.values[i]);
        if (v->tag == TN_TAG_TENSORS && v->as.tensors[i]) item = tensor_of(v->as.tensors[i]);
        cJSON_AddItemToArray(j, item ? item : cJSON_CreateNull());
    }
    return j;
}

static cJSON *dtype_of(int64_t dtype)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "dtype", tn_dtype_name((tn_dtype)dtype));
    return j;
}

/* Values that the format cannot express (generators, complex numbers) are null, like absent ones. */
static cJSON *value_of(const tn_value *v)
{
    switch (v->tag) {
    case TN_TAG_TENSOR:
        return tensor_of(v->as.tensor);
    case TN_TAG_INT:
        return int_of(v->as.i);
    case TN_TAG_BOOL:
        return cJSON_CreateBool((int)v->as.i);
    case TN_TAG_FLOAT:
        return float_of(v->as.f);
    case TN_TAG_STRING:
        return cJSON_CreateString(v->as.string);
    case TN_TAG_DTYPE:
        return dtype_of(v->as.i);
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
    case TN_TAG_BOOLS:
    case TN_TAG_SCALARS:
    case TN_TAG_TENSORS:
        return list_of(v);
    default:
        return cJSON_CreateNull();
    }
}

static void write_call(void *user, const tn_call_info *info, uint64_t *token)
{
    (void)token;
    if (info->depth) return; /* inside another call */
    cJSON *line = cJSON_CreateObject(), *args;
    cJSON_AddStringToObject(line, "op", info->name);
    args = cJSON_AddArrayToObject(line, "args");
    for (uint32_t i = 0; i < info->n_args; i++) cJSON_AddItemToArray(args, value_of(&info->args[i]));
    char *text = cJSON_PrintUnformatted(line);
    if (text) fprintf(user, "%s\n", text); /* one write, so that lines of different threads do not mix */
    cJSON_free(text);
    cJSON_Delete(line);
}

int32_t tni_trace_file_init(tn_context *ctx, const tn_context_options *options)
{
    tni_registry *r = ctx->registry;
    const char *path = secure_getenv("TENON_TRACE");
    (void)options;
    if (!path || !*path) return TN_OK;
    FILE *file = fopen(path, "ae");
    if (!file) {
        tni_log(ctx, TN_LOG_WARN, "TENON_TRACE: cannot write %s: %s", path, strerror(errno));
        return TN_OK;
    }
    const tn_observer observer = {.size = sizeof observer, .user = file, .enter = write_call};
    int32_t status = tn_observer_add(ctx, &observer, &r->trace_observer);
    if (status)
        fclose(file);
    else
        r->trace_file = file;
    return status;
}

void tni_trace_file_finish(tn_context *ctx)
{
    tni_registry *r = ctx->registry;
    if (!r->trace_file) return;
    tn_observer_remove(ctx, r->trace_observer);
    fclose(r->trace_file);
    r->trace_file = NULL;
}
