/* SPDX-License-Identifier: Apache-2.0 */
/* A call of a custom operator: its arguments on a device, and the call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include "custom.h"

tn_argument_info custom_argument(const check_target *t, uint32_t op, int32_t returns, uint32_t i)
{
    tn_argument_info info = {.size = sizeof info};
    tn_inspect_argument(t->ctx, op, returns, i, &info);
    return info;
}

/* ---- Running ------------------------------------------------------------------------------------------- */

static tn_value moved(tn_scope *s, tn_value v, tn_device device)
{
    if (v.tag == TN_TAG_TENSOR) return tn_value_tensor(tn__to_copy(s, v.as.tensor, .device = device));
    if (v.tag != TN_TAG_TENSORS) return v;
    tn_tensor **items = tn_scope_memory(s, (v.count + 1u) * sizeof *items);
    for (uint32_t i = 0; items && i < v.count; i++)
        items[i] = v.as.tensors[i] ? tn__to_copy(s, v.as.tensors[i], .device = device) : NULL;
    return tn_value_tensors(items, v.count);
}

/* The default of an argument, from the text in the schema. */
static tn_value default_of(tn_scope *s, const char *text, const char *type)
{
    char json[256];
    if (strcmp(text, "None") == 0) return tn_value_none();
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) return tn_value_bool(*text == 'T');
    snprintf(json, sizeof json, "%s", text);
    for (char *at = json; *at; at++)
        if (*at == '\'') *at = '"'; /* the schema has either */
    cJSON *value = cJSON_Parse(json);
    tn_value v = value ? request_value(s, value, type) : tn_value_none();
    cJSON_Delete(value);
    return v;
}

/* A misspelt key must not pass for an absent one. */
static void check_keys(tn_scope *s, const cJSON *call)
{
    const cJSON *item;
    char text[160];
    cJSON_ArrayForEach(item, call)
    {
        if (!strcmp(item->string, "args") || !strcmp(item->string, "kwargs") || !strcmp(item->string, "op"))
            continue;
        snprintf(text, sizeof text, "a call has the unknown key '%.60s' (known are args and kwargs)",
                 item->string);
        tn_scope_fail(s, TN_E_ARGUMENT, text);
    }
}

void custom_open(custom_run *r, check_target *t, const custom_call *c, tn_device device, uint32_t grad_mode)
{
    cJSON *request = cJSON_Parse(c->text);
    memset(r, 0, sizeof *r);
    r->target = t;
    r->device = device ? device : TN_CPU;
    r->s = tn_scope_open_with(
        t->ctx,
        &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = grad_mode, .device = device});
    r->n_outs = tn_inspect_argument_count(t->ctx, c->op, 1);
    if (r->n_outs > CUSTOM_MAX_OUTS)
        tn_scope_fail(r->s, TN_E_ARGUMENT, "the operator has more results than `tenon check --op` supports");
    check_keys(r->s, request);
    r->n_args = request_arguments(r->s, c->op, request, r->args);
    for (uint32_t i = 0; i < r->n_args; i++)
        if (device && device != TN_CPU) r->args[i] = moved(r->s, r->args[i], device);
    /* Fills in defaults between given arguments; the library fills in trailing ones. */
    for (uint32_t i = 0; i < r->n_args; i++) {
        tn_argument_info info = custom_argument(t, c->op, 0, i);
        if (r->args[i].tag == TN_TAG_NONE && info.default_text)
            r->args[i] = default_of(r->s, info.default_text, info.type);
    }
    cJSON_Delete(request);
}

/* How often a kernel has refused although its can_run had agreed. `text` (NULL: not asked for) receives the last finding. */
static uint64_t count_refusals(tn_context *ctx, char *text, size_t bytes)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < tn_inspect_finding_count(ctx); i++) {
        tn_finding f = {.size = sizeof f};
        if (tn_inspect_finding(ctx, i, &f) || strcmp(f.kind, "refused-after-yes")) continue;
        count += f.count;
        if (text) snprintf(text, bytes, "%s", f.text);
    }
    return count;
}

/* Says what runs, so that a crash can be told from its place. */
static void say_call(const custom_run *r)
{
    char name[64];
    if (TN_DEVICE_TYPE(r->device) == TN_INTERNED_META)
        check_doing(r->target, "the shape rule ran on the device 'meta', whose tensors have no memory");
    else
        check_doing(r->target, "the operator ran on %s",
                    tn_device_format(r->target->ctx, r->device, name, sizeof name));
}

/* A composite calls other operators. */
static void say_nested(void *user, const tn_call_info *info, uint64_t *token)
{
    const custom_run *r = user;
    tn_operator_info op = {.size = sizeof op};
    char name[64];
    if (!info->depth || tn_inspect_operator_by_number(r->target->ctx, info->op, &op)) return;
    check_doing(r->target, "the operator ran on %s: its composite had called %s last",
                tn_device_format(r->target->ctx, r->device, name, sizeof name), op.name);
}

int custom_do(custom_run *r, const custom_call *c)
{
    const tn_observer observer = {.size = sizeof observer, .user = r, .enter = say_nested};
    uint64_t handle = 0;
    if (tn_scope_failed(r->s)) return 1;
    r->refusals = count_refusals(tn_scope_context(r->s), NULL, 0);
    tn_manual_seed(tn_scope_context(r->s), CUSTOM_SEED);
    say_call(r);
    if (r->target->log_stream && tn_observer_add(r->target->ctx, &observer, &handle)) handle = 0;
    int32_t status = tn_scope_call(r->s, c->op, r->args, r->n_args, r->outs, r->n_outs);
    if (handle) tn_observer_remove(r->target->ctx, handle);
    return status != TN_OK;
}

void custom_close(custom_run *r)
{
    tn_scope_close(r->s);
}

void custom_replace(tn_scope *s, const custom_input *which, uint32_t n, tn_tensor *const *inputs,
                    tn_value *args)
{
    for (uint32_t i = 0; i < n; i++) {
        tn_value *v = &args[which[i].argument];
        if (which[i].item < 0) {
            *v = tn_value_tensor(inputs[i]);
            continue;
        }
        if (i == 0 || which[i - 1].argument != which[i].argument) { /* the list itself is shared */
            tn_tensor **items = tn_scope_memory(s, (v->count + 1u) * sizeof *items);
            if (!items) return;
            memcpy(items, v->as.tensors, v->count * sizeof *items);
            *v = tn_value_tensors(items, v->count);
        }
        ((tn_tensor **)(uintptr_t)v->as.tensors)[which[i].item] = inputs[i];
    }
}

void custom_place(tn_scope *s, const check_target *t, uint32_t op, const custom_input *which, uint32_t n,
                  tn_tensor *const *inputs, tn_value *args)
{
    custom_replace(s, which, n, inputs, args);
    for (uint32_t i = 0; i < n; i++) {
        const int written = (custom_argument(t, op, 0, which[i].argument).flags & TN_ARG_WRITTEN) != 0;
        if (which[i].item < 0 && written) args[which[i].argument] = tn_value_tensor(tn_clone(s, inputs[i]));
    }
}

uint32_t custom_tensors(const tn_value *values, uint32_t n, tn_tensor **out, uint32_t room)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const tn_value *v = &values[i];
        if (v->tag == TN_TAG_TENSOR && count < room) out[count++] = v->as.tensor;
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++) {
            if (v->as.tensors[k] && count < room) out[count++] = v->as.tensors[k];
        }
    }
    return count;
}

/* A status without a text has one of the library: "mylib::f failed: bad shape". */
static int has_no_text(const char *message, const char *name)
{
    const char *at = strstr(message, name);
    return at && strncmp(at + strlen(name), " failed: ", strlen(" failed: ")) == 0;
}

int custom_fault(const check_target *t, const custom_call *call, const custom_run *r, char *text,
                 size_t bytes)
{
    const tn_error *error = tn_scope_error(r->s);
    char refusal[200] = "";
    const char *message = error && error->message ? error->message : "no error was recorded";
    tn_operator_info op = {.size = sizeof op};
    tn_inspect_operator_by_number(t->ctx, call->op, &op);
    if (count_refusals(t->ctx, refusal, sizeof refusal) > r->refusals)
        snprintf(text, bytes, "%s (%s)", refusal, message);
    else if (!error || error->code == TN_E_CONTRACT)
        snprintf(text, bytes, "%s", message);
    else if (has_no_text(message, op.name))
        snprintf(text, bytes, "%s (a function that fails records why with host->error, and this one has not)",
                 message);
    else
        return 0;
    return 1;
}

int custom_has_tag(const check_target *t, const custom_call *call, const char *tag)
{
    tn_operator_info op = {.size = sizeof op};
    tn_inspect_operator_by_number(t->ctx, call->op, &op);
    return op.tags && strstr(op.tags, tag);
}
