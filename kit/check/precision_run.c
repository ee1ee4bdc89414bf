/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls an operator on a device with the inputs of the precision report: tensors in order, other arguments
 * from the table's text or the schema's defaults. Judges nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include "precision.h"

#define MAX_ARGUMENTS 12
#define MAX_TEXT      64
#define MAX_LIST      4

/* The text of argument `name` in "n=2,approximate=tanh", or its default. */
static const char *text_of(const precision_function *f, const tn_argument_info *info, char *buffer)
{
    const char *at = f->arguments;
    size_t length = strlen(info->name);
    buffer[0] = 0;
    while (at && *at) {
        size_t part = strcspn(at, ",");
        if (part > length && strncmp(at, info->name, length) == 0 && at[length] == '=') {
            snprintf(buffer, MAX_TEXT, "%.*s", (int)(part - length - 1), at + length + 1);
            return buffer;
        }
        at += part + (at[part] == ',');
    }
    if (info->default_text) snprintf(buffer, MAX_TEXT, "%s", info->default_text);
    return buffer;
}

/* Reads the numbers of "[1, 2]" or "1"; returns their count. */
static int64_t list_of(const char *text, int64_t *list)
{
    int64_t count = 0;
    char *end;
    for (const char *at = text + (*text == '['); count < MAX_LIST; at = end + strspn(end, ", ")) {
        long long number = strtoll(at, &end, 10);
        if (end == at) break;
        list[count++] = number;
    }
    return count;
}

/* A number, bool, string (quoted in schemas), None or list of integers, as the type says. `text` and
 * `list` must outlive the value. */
static tn_value value_of(char *text, const char *type, int64_t *list)
{
    char *end;
    size_t length = strlen(text);
    int32_t is_list = strncmp(type, "int[", 4) == 0 || strncmp(type, "SymInt[", 7) == 0;
    if (is_list && *text && strcmp(text, "None") != 0) return tn_value_ints(list, list_of(text, list));
    if (!*text || strcmp(text, "None") == 0) return tn_value_none();
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) return tn_value_bool(text[0] == 'T');
    double number = strtod(text, &end);
    if (!*end) return strpbrk(text, ".e") ? tn_value_float(number) : tn_value_int((int64_t)number);
    if (length >= 2 && (text[0] == '"' || text[0] == '\'')) {
        text[length - 1] = 0;
        return tn_value_string(text + 1);
    }
    return tn_value_string(text);
}

void precision_numbers(const precision_options *o, const precision_function *f, double *p, int32_t count)
{
    uint32_t op = tn_operator_find(o->ctx, f->name), n = tn_inspect_argument_count(o->ctx, op, 0);
    int32_t filled = 0;
    for (uint32_t i = 0; i < n && filled < count; i++) {
        tn_argument_info info = {.size = sizeof(info)};
        char text[MAX_TEXT];
        if (tn_inspect_argument(o->ctx, op, 0, i, &info) != TN_OK || strncmp(info.type, "Tensor", 6) == 0)
            continue;
        text_of(f, &info, text);
        int64_t list[MAX_LIST];
        tn_value v = value_of(text, info.type, list);
        if (v.tag == TN_TAG_INT || v.tag == TN_TAG_FLOAT || v.tag == TN_TAG_BOOL)
            p[filled++] = tn_value_as_float(v);
    }
}

static int64_t count_of(const precision_call *c, int32_t i)
{
    int64_t count = 1;
    if (!c->shapes) return c->inputs->count;
    for (int32_t k = 0; k < c->shapes[i].dims; k++) count *= c->shapes[i].sizes[k];
    return count;
}

/* Numbers as a tensor on the device: `parts` arrays of them. */
static tn_tensor *tensor_of_numbers(const precision_call *c, tn_scope *s, double *const *x, int64_t count,
                                    tn_ints sizes)
{
    int32_t parts = c->format->complex ? 2 : 1;
    void *data = malloc((size_t)(count * tn_dtype_bytes(c->format->dtype)) + 1);
    if (!data) {
        tn_scope_fail(s, TN_E_OUT_OF_MEMORY, "no memory for inputs");
        return NULL;
    }
    for (int32_t part = 0; part < parts; part++)
        for (int64_t k = 0; k < count; k++) precision_put(c->format, data, k * parts + part, x[part][k]);
    tn_tensor *t = tn_from_data(s, c->format->dtype, sizes, data, c->device);
    free(data);
    return t;
}

/* Input i of the function on the device. */
static tn_tensor *tensor_of(const precision_call *c, tn_scope *s, int32_t i)
{
    int64_t count = count_of(c, i);
    tn_ints sizes = c->shapes ? (tn_ints){c->shapes[i].sizes, c->shapes[i].dims} : (tn_ints){&count, 1};
    double *const *x = c->inputs->x + i * (c->format->complex ? 2 : 1);
    tn_tensor *t = tensor_of_numbers(c, s, x, count, sizes);
    if (t && c->which == i && tn_set_requires_grad(t, 1) != TN_OK)
        tn_scope_fail(s, TN_E_AUTOGRAD, "the input does not accept requires_grad");
    return t;
}

/* The gradient for ones, or for the weights, of one input. */
static tn_tensor *slope_of(const precision_call *c, tn_scope *s, tn_tensor *result, tn_tensor *input)
{
    tn_tensor *seed = tn_ones_like(s, result), *grad = NULL;
    double *weights = (double *)c->weights;
    if (weights && seed)
        seed = tensor_of_numbers(c, s, &weights, c->inputs->count,
                                 (tn_ints){tn_tensor_sizes(result), tn_tensor_rank(result)});
    tn_backward_options options = {.size = sizeof(options), .grad_outputs = TN_TENSORS(seed)};
    if (tn_scope_failed(s)) return NULL;
    return tn_grad(s, TN_TENSORS(result), TN_TENSORS(input), &options, &grad) == TN_OK ? grad : NULL;
}

static tn_tensor *call_operator(const precision_call *c, tn_scope *s)
{
    tn_context *ctx = c->options->ctx;
    uint32_t op = tn_operator_find(ctx, c->function->name), n = tn_inspect_argument_count(ctx, op, 0);
    tn_value args[MAX_ARGUMENTS], outs[4];
    char texts[MAX_ARGUMENTS][MAX_TEXT];
    int64_t lists[MAX_ARGUMENTS][MAX_LIST];
    tn_tensor *watched = NULL;
    int32_t used = 0;
    if (op == 0 || n > MAX_ARGUMENTS) {
        tn_scope_fail(s, TN_E_NOT_FOUND, "there is no such operator");
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        tn_argument_info info = {.size = sizeof(info)};
        tn_inspect_argument(ctx, op, 0, i, &info);
        if (strcmp(info.type, "Tensor") == 0 && used < c->function->inputs) {
            tn_tensor *t = tensor_of(c, s, used);
            if (used++ == c->which) watched = t;
            args[i] = tn_value_tensor(t);
        } else {
            text_of(c->function, &info, texts[i]);
            args[i] = value_of(texts[i], info.type, lists[i]);
        }
    }
    uint32_t n_outs = tn_inspect_argument_count(ctx, op, 1);
    if (n_outs > 4 || tn_scope_call(s, op, args, n, outs, n_outs) != TN_OK) return NULL;
    tn_tensor *result = tn_value_as_tensor(outs[0]);
    return watched ? slope_of(c, s, result, watched) : result;
}

/* Copies the result out, as bytes and as numbers. */
static int32_t fetch(const precision_call *c, tn_scope *s, tn_tensor *result, double *out, void *raw,
                     const precision_format **out_format)
{
    const precision_format *f = precision_format_of(tn_tensor_dtype(result));
    int64_t parts = f && f->complex ? 2 : 1, count = c->which < 0 ? c->inputs->count : count_of(c, c->which),
            bytes = tn_tensor_numel(result) * tn_dtype_bytes(tn_tensor_dtype(result));
    if (!f || tn_tensor_numel(result) != count)
        return tn_scope_fail(s, TN_E_STATE, "the result has an unexpected dtype or size");
    void *data = malloc((size_t)bytes + 1);
    if (!data) return tn_scope_fail(s, TN_E_OUT_OF_MEMORY, "no memory for results");
    int32_t status = tn_to_host(s, result, data, (uint64_t)bytes);
    for (int64_t i = 0; status == TN_OK && i < parts * count; i++) out[i] = precision_get(f, data, i);
    if (raw && status == TN_OK) memcpy(raw, data, (size_t)bytes);
    free(data);
    *out_format = f;
    return status;
}

int32_t precision_run(const precision_call *c, double *out, void *raw, const precision_format **out_format,
                      char *reason, size_t reason_bytes)
{
    tn_context *ctx = c->options->ctx;
    tn_stream *before = c->stream ? tn_stream_current(ctx, c->device) : NULL;
    if (c->stream) tn_stream_set_current(ctx, c->stream);
    tn_scope *s =
        tn_scope_open_with(ctx, &(tn_scope_options){.size = sizeof(tn_scope_options),
                                                    .grad_mode = c->which >= 0 ? TN_GRAD_ON : TN_GRAD_OFF,
                                                    .device = c->device});
    tn_tensor *result = call_operator(c, s);
    if (result) fetch(c, s, result, out, raw, out_format);
    const tn_error *error = tn_scope_error(s);
    if (reason_bytes)
        snprintf(reason, reason_bytes, "%s", error ? error->message : result ? "" : "no result");
    int32_t status = tn_scope_close(s);
    if (before) tn_stream_set_current(ctx, before);
    return status == TN_OK && !result ? TN_E_STATE : status;
}
