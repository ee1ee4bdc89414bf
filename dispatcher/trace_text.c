/* SPDX-License-Identifier: Apache-2.0 */
/* Call traces as text, one line for each call. */
#include <stdarg.h>
#include <stdio.h>
#include "dispatcher/trace.h"

typedef struct text {
    char *to;
    uint64_t bytes;
    uint64_t length; /* of the whole text, including what did not fit */
} text;

static __attribute__((format(printf, 2, 3))) void put(text *t, const char *format, ...)
{
    va_list list;
    uint64_t room = t->length < t->bytes ? t->bytes - t->length : 0;
    va_start(list, format);
    int32_t n = vsnprintf(room ? t->to + t->length : NULL, room, format, list);
    va_end(list);
    t->length += n > 0 ? (uint64_t)n : 0;
}

static void put_value(text *t, tn_context *ctx, const tn_value *v);

static void put_item(text *t, tn_context *ctx, const tn_value *list, uint32_t i)
{
    tn_value item = tn_value_none();
    if (list->tag == TN_TAG_INTS) item = tn_value_int(list->as.ints[i]);
    if (list->tag == TN_TAG_FLOATS) item = tn_value_float(list->as.floats[i]);
    if (list->tag == TN_TAG_BOOLS) item = tn_value_bool(list->as.bools[i]);
    if (list->tag == TN_TAG_SCALARS) item = list->as.values[i];
    if (list->tag == TN_TAG_TENSORS && list->as.ints[i] >= 0) {
        item = tn_value_int(list->as.ints[i]);
        item.tag = TN_TAG_TENSOR;
    }
    put(t, "%s", i ? ", " : "");
    put_value(t, ctx, &item);
}

static void put_device(text *t, tn_context *ctx, tn_device device)
{
    char name[64];
    tn_device_format(ctx, device, name, sizeof name);
    put(t, "%s", name);
}

static void put_value(text *t, tn_context *ctx, const tn_value *v)
{
    switch (v->tag) {
    case TN_TAG_TENSOR:
        return put(t, "%%%lld", (long long)v->as.i);
    case TN_TAG_INT:
        return put(t, "%lld", (long long)v->as.i);
    case TN_TAG_MEMORY_FORMAT:
        return put(t, "memory_format=%lld", (long long)v->as.i);
    case TN_TAG_BOOL:
        return put(t, "%s", v->as.i ? "True" : "False");
    case TN_TAG_FLOAT:
        return put(t, "%.17g", v->as.f);
    case TN_TAG_COMPLEX:
        return put(t, "%.17g%+.17gj", v->as.floats[0], v->as.floats[1]);
    case TN_TAG_STRING:
        return put(t, "'%s'", v->as.string);
    case TN_TAG_DTYPE:
        return put(t, "%s", tn_dtype_name((tn_dtype)v->as.i));
    case TN_TAG_LAYOUT:
        return put(t, "%s", tni_interned_name(ctx, (uint32_t)v->as.i));
    case TN_TAG_DEVICE:
        return put_device(t, ctx, v->as.device);
    case TN_TAG_GENERATOR:
        return put(t, "generator");
    case TN_TAG_TENSORS:
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
    case TN_TAG_BOOLS:
    case TN_TAG_SCALARS:
        put(t, "[");
        for (uint32_t i = 0; i < v->count; i++) put_item(t, ctx, v, i);
        return put(t, "]");
    default:
        return put(t, "None");
    }
}

static void put_step(text *t, tn_context *ctx, const tni_trace_op *step)
{
    for (uint32_t i = 0; i < step->n_made; i++) {
        put(t, "%s", i ? ", " : "");
        if (step->made[i] == UINT32_MAX)
            put(t, "_");
        else
            put(t, "%%%u", step->made[i]);
    }
    put(t, "%s%s(", step->n_made ? " = " : "", step->op->schema->full_name);
    for (uint32_t i = 0; i < step->op->n_args; i++) {
        put(t, "%s", i ? ", " : "");
        put_value(t, ctx, &step->args[i]);
    }
    put(t, ")\n");
}

uint64_t tn_call_trace_text(const tn_call_trace *trace, char *to, uint64_t bytes)
{
    text t = {.to = to, .bytes = to ? bytes : 0};
    if (t.bytes) to[0] = 0;
    for (uint32_t i = 0; trace && i < trace->steps.count; i++)
        put_step(&t, trace->ctx, (const tni_trace_op *)trace->steps.data + i);
    return t.length;
}
