/* SPDX-License-Identifier: Apache-2.0 */
/* Call traces as text, one line for each call. */
#include "core/text.h"
#include "dispatcher/trace.h"

static void put_value(tni_text *t, tn_context *ctx, const tn_value *v);

static void put_item(tni_text *t, tn_context *ctx, const tn_value *list, uint32_t i)
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
    tni_text_add(t, "%s", i ? ", " : "");
    put_value(t, ctx, &item);
}

static void put_device(tni_text *t, tn_context *ctx, tn_device device)
{
    char name[64];
    tn_device_format(ctx, device, name, sizeof name);
    tni_text_add(t, "%s", name);
}

static void put_value(tni_text *t, tn_context *ctx, const tn_value *v)
{
    switch (v->tag) {
    case TN_TAG_TENSOR:
        return tni_text_add(t, "%%%lld", (long long)v->as.i);
    case TN_TAG_INT:
        return tni_text_add(t, "%lld", (long long)v->as.i);
    case TN_TAG_MEMORY_FORMAT:
        return tni_text_add(t, "memory_format=%lld", (long long)v->as.i);
    case TN_TAG_BOOL:
        return tni_text_add(t, "%s", v->as.i ? "True" : "False");
    case TN_TAG_FLOAT:
        return tni_text_add(t, "%.17g", v->as.f);
    case TN_TAG_COMPLEX:
        return tni_text_add(t, "%.17g%+.17gj", v->as.floats[0], v->as.floats[1]);
    case TN_TAG_STRING:
        return tni_text_add(t, "'%s'", v->as.string);
    case TN_TAG_DTYPE:
        return tni_text_add(t, "%s", tn_dtype_name((tn_dtype)v->as.i));
    case TN_TAG_LAYOUT:
        return tni_text_add(t, "%s", tni_interned_name(ctx, (uint32_t)v->as.i));
    case TN_TAG_DEVICE:
        return put_device(t, ctx, v->as.device);
    case TN_TAG_GENERATOR:
        return tni_text_add(t, "generator");
    case TN_TAG_TENSORS:
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
    case TN_TAG_BOOLS:
    case TN_TAG_SCALARS:
        tni_text_add(t, "[");
        for (uint32_t i = 0; i < v->count; i++) put_item(t, ctx, v, i);
        return tni_text_add(t, "]");
    default:
        return tni_text_add(t, "None");
    }
}

static void put_step(tni_text *t, tn_context *ctx, const tni_trace_op *step)
{
    for (uint32_t i = 0; i < step->n_made; i++) {
        tni_text_add(t, "%s", i ? ", " : "");
        if (step->made[i] == UINT32_MAX)
            tni_text_add(t, "_");
        else
            tni_text_add(t, "%%%u", step->made[i]);
    }
    tni_text_add(t, "%s%s(", step->n_made ? " = " : "", step->op->schema->full_name);
    for (uint32_t i = 0; i < step->op->n_args; i++) {
        tni_text_add(t, "%s", i ? ", " : "");
        put_value(t, ctx, &step->args[i]);
    }
    tni_text_add(t, ")\n");
}

uint64_t tn_call_trace_text(const tn_call_trace *trace, char *to, uint64_t bytes)
{
    tni_text t = tni_text_begin(to, bytes);
    for (uint32_t i = 0; trace && i < trace->steps.count; i++)
        put_step(&t, trace->ctx, (const tni_trace_op *)trace->steps.data + i);
    return t.length;
}
