/* SPDX-License-Identifier: Apache-2.0 */
/* Introspection of operators, kernels and fallbacks. That of plugins is in plugin/plugins.c. */
#include <stdio.h>
#include <string.h>
#include "core/error.h"
#include "dispatcher/registry.h"

static const char *const kinds[] = {"pointwise",      "reduction", "scan",    "view",      "structured",
                                    "data_dependent", "random",    "factory", "composite", "composite"};
static const char *const forms[] = {"functional", "inplace", "out"};

static tni_op *nth(tn_context *ctx, uint32_t i)
{
    tni_registry *r = ctx->registry;
    uint32_t count = atomic_load(&r->count);
    for (uint32_t number = 1; number < count; number++) {
        tni_op *op = tni_op_get(r, number);
        if (!op->removed && i-- == 0) return op;
    }
    return NULL;
}

uint32_t tn_inspect_operator_count(tn_context *ctx)
{
    if (tni_context_check(ctx)) return 0;
    tni_registry *r = ctx->registry;
    uint32_t count = atomic_load(&r->count), n = 0;
    for (uint32_t number = 1; number < count; number++) {
        n += !tni_op_get(r, number)->removed;
    }
    return n;
}

static const char *tags_text(tn_context *ctx, uint32_t tags)
{
#define TAG_TEXT(name, bit, text) text,
    static const char *const names[] = {TNI_TAG_LIST(TAG_TEXT)};
#undef TAG_TEXT
    char buffer[512] = "";
    uint32_t used = 0, id;
    for (uint32_t bit = 0; bit < sizeof names / sizeof *names; bit++) {
        if (tags >> bit & 1u) {
            used +=
                (uint32_t)snprintf(buffer + used, sizeof buffer - used, "%s%s", used ? "," : "", names[bit]);
        }
    }
    id = tn_intern(ctx, buffer);
    return id ? tn_interned(ctx, id) : "";
}

/* Interned, since the operator may be removed. */
static const char *saves_text(tn_context *ctx, const tni_op *op)
{
    if (!op->def || !op->def->backward) return NULL;
    uint32_t id = op->def->saves ? tn_intern(ctx, op->def->saves) : 0;
    return id ? tn_interned(ctx, id) : "";
}

static int32_t describe(tn_context *ctx, tni_op *op, tn_operator_info *out)
{
    const tni_op *base = op->base;
    tn_operator_info info;
    int32_t status = tni_op_ready(ctx->registry, op);
    if (status) return status;
    info = (tn_operator_info){.number = op->number,
                              .name = op->schema->full_name,
                              .schema = op->schema->text,
                              .kind = op->def ? "custom" : kinds[base->kind],
                              .form = forms[op->form],
                              .tags = tags_text(ctx, op->tags),
                              .doc = op->entry->doc ? op->entry->doc : "",
                              .base = base->number,
                              .saves = saves_text(ctx, op)};
    info.has_gradient = base->gradient != NULL || base->kind >= TNI_KIND_COMPOSITE ||
                        base->kind == TNI_KIND_VIEW || (op->def && op->def->backward);
    return tni_struct_write(out, &info, sizeof info, "tn_operator_info");
}

int32_t tn_inspect_operator(tn_context *ctx, uint32_t i, tn_operator_info *out)
{
    int32_t status = ctx ? tni_context_check(ctx) : TN_OK;
    if (status) return status;
    tni_op *op = ctx ? nth(ctx, i) : NULL;
    if (!op || !out) return tni_error(TN_E_NOT_FOUND, "inspect: no operator at position %u", i);
    return describe(ctx, op, out);
}

static tni_op *by_number(tn_context *ctx, uint32_t number)
{
    if (tni_context_check(ctx)) return NULL;
    tni_op *op = tni_op_get(ctx->registry, number);
    if (op && !op->removed && !tni_op_ready(ctx->registry, op) && !tni_op_ready(ctx->registry, op->base))
        return op;
    tni_error(TN_E_NOT_FOUND, "inspect: no operator %u", number);
    return NULL;
}

int32_t tn_inspect_operator_by_number(tn_context *ctx, uint32_t number, tn_operator_info *out)
{
    tni_op *op = by_number(ctx, number);
    if (!op) return tn_last_error()->code;
    return out ? describe(ctx, op, out) : TN_E_NOT_FOUND;
}

uint32_t tn_inspect_argument_count(tn_context *ctx, uint32_t number, int32_t returns)
{
    const tni_op *op = by_number(ctx, number);
    return !op ? 0 : returns ? op->schema->n_returns : op->schema->n_args;
}

int32_t tn_inspect_argument(tn_context *ctx, uint32_t number, int32_t returns, uint32_t i,
                            tn_argument_info *out)
{
    const tni_op *op = by_number(ctx, number);
    const tni_argument *a;
    tn_argument_info info;
    if (!op) return tn_last_error()->code;
    if (!out || i >= (returns ? op->schema->n_returns : op->schema->n_args)) {
        return tni_error(TN_E_NOT_FOUND, "inspect: %s has no argument %u", tni_op_name(op), i);
    }
    a = returns ? &op->schema->returns[i] : &op->schema->args[i];
    info = (tn_argument_info){.name = a->name,
                              .type = a->type_text,
                              .default_text = a->default_text,
                              .alias_set = a->alias_set,
                              .list_length = a->list_length};
    info.flags = (a->is_optional ? TN_ARG_OPTIONAL : 0) | (a->is_list ? TN_ARG_LIST : 0) |
                 (a->keyword_only ? TN_ARG_KEYWORD_ONLY : 0) | (a->written ? TN_ARG_WRITTEN : 0) |
                 (a->optional_items ? TN_ARG_OPTIONAL_ITEMS : 0);
    return tni_struct_write(out, &info, sizeof info, "tn_argument_info");
}

static const tni_kernel *nth_kernel(const tni_op *op, uint32_t i, uint32_t *out_count)
{
    const tni_kernel *found = NULL;
    *out_count = 0;
    for (uint32_t slot = 0; slot < TNI_MAX_DEVICE_TYPES; slot++) {
        for (const tni_kernel *k = atomic_load(&op->base->kernels[slot]); k; k = tni_kernel_follower(k)) {
            if (tni_kernel_is_disabled(k)) continue;
            if ((*out_count)++ == i) found = k;
        }
    }
    return found;
}

uint32_t tn_inspect_kernel_count(tn_context *ctx, uint32_t number)
{
    const tni_op *op = by_number(ctx, number);
    uint32_t count = 0;
    if (op) nth_kernel(op, 0, &count);
    return count;
}

int32_t tn_inspect_kernel(tn_context *ctx, uint32_t number, uint32_t i, tn_kernel_info *out)
{
    const tni_op *op = by_number(ctx, number);
    uint32_t count;
    if (!op) return tn_last_error()->code;
    const tni_kernel *k = nth_kernel(op, i, &count);
    tn_kernel_info info;
    if (!k || !out) return tni_error(TN_E_NOT_FOUND, "inspect: no kernel %u of operator %u", i, number);
    info = (tn_kernel_info){.strides = k->row.strides,
                            .device_type = tn_interned(ctx, ctx->types[k->device_slot]->type),
                            .plugin = k->plugin,
                            .dtypes = k->row.dtypes,
                            .priority = k->row.priority,
                            .flags = k->row.flags};
    return tni_struct_write(out, &info, sizeof info, "tn_kernel_info");
}

/* The i-th operator that fell back, or NULL. Lock held. */
static tni_op *nth_fallback(const tni_registry *r, uint32_t i, uint32_t *out_count)
{
    uint32_t count = atomic_load(&r->count);
    tni_op *found = NULL;
    *out_count = 0;
    for (uint32_t number = 1; number < count; number++) {
        tni_op *op = tni_op_get(r, number);
        if (op->fallback.count && (*out_count)++ == i) found = op;
    }
    return found;
}

uint32_t tn_inspect_fallback_count(tn_context *ctx)
{
    if (tni_context_check(ctx)) return 0;
    tni_registry *r = ctx->registry;
    uint32_t count;
    pthread_mutex_lock(&r->lock);
    nth_fallback(r, 0, &count);
    pthread_mutex_unlock(&r->lock);
    return count;
}

int32_t tn_inspect_fallback(tn_context *ctx, uint32_t i, tn_fallback_info *out)
{
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    tni_registry *r = ctx->registry;
    uint32_t count, device = 0;
    tn_fallback_info info = {0};
    pthread_mutex_lock(&r->lock);
    const tni_op *op = nth_fallback(r, i, &count);
    if (op) {
        device = op->fallback.device;
        info = (tn_fallback_info){.op = op->number,
                                  .name = tni_op_name(op),
                                  .reason = op->fallback.reason,
                                  .count = op->fallback.count,
                                  .bytes = op->fallback.bytes};
    }
    pthread_mutex_unlock(&r->lock);
    if (!op || !out) return tni_error(TN_E_NOT_FOUND, "inspect: no fallback %u", i);
    info.device_type = tn_interned(ctx, device);
    return tni_struct_write(out, &info, sizeof info, "tn_fallback_info");
}

void tn_inspect_fallback_reset(tn_context *ctx)
{
    if (tni_context_check(ctx)) return;
    tni_registry *r = ctx->registry;
    uint32_t count = atomic_load(&r->count);
    pthread_mutex_lock(&r->lock);
    for (uint32_t number = 1; number < count; number++) {
        tni_op *op = tni_op_get(r, number);
        memset(&op->fallback, 0, sizeof op->fallback);
    }
    pthread_mutex_unlock(&r->lock);
}

void tn_set_fallback_policy(tn_context *ctx, uint32_t policy)
{
    if (!tni_context_check(ctx) && policy <= TN_FALLBACK_ERROR)
        atomic_store(&ctx->registry->fallback_policy, policy);
}
