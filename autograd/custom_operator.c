/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients of operators that programs and plugins define: their backward function has the signature of a
 * kernel; one rule here calls it. Also the rule of operators that have no gradient, which fails when it is
 * run.
 */
#include "autograd/record.h"

#include "core/scope.h"
#include "core/text.h"
#include "dispatcher/custom.h"
#include "gradient_rules.h"

#include <stdio.h>
#include <string.h>

void grad_not_implemented(tn_scope *s, tni_grad *g)
{
    tni_scope_record(
        s, tni_error(TN_E_AUTOGRAD, "derivative for %s is not implemented", tni_op_name(tni_grad_op(g))));
}

/* ---- what to save ---- */

typedef struct custom_gradient {
    tni_gradient_entry entry; /* first */
    struct custom_gradient *next;
    tni_save saves[];
} custom_gradient;

/* The next name of "self, result0", or 0 at the end. */
static int32_t next_name(const char **text, const char **name, uint64_t *length)
{
    *text += strspn(*text, ", \t");
    *name = *text;
    *length = strcspn(*text, ", \t");
    *text += *length;
    return *length > 0;
}

static int32_t find_argument(const tni_op *op, const char *name, uint64_t length, tni_save *out)
{
    for (uint32_t i = 0; i < op->schema->n_args; i++) {
        const tni_argument *a = op->schema->args + i;
        if (strlen(a->name) != length || memcmp(a->name, name, length) != 0) continue;
        *out = (tni_save){.kind = TNI_SAVE_ARG, .index = (uint8_t)i, .if_needs = -1};
        if (a->type == TNI_TYPE_TENSOR) return TN_OK;
        return tni_error(TN_E_ARGUMENT,
                         "%s: `saves` lists the non-tensor argument '%s'; non-tensors are always passed",
                         op->schema->full_name, a->name);
    }
    uint32_t index = 0;
    int32_t is_result = length >= 6 && memcmp(name, "result", 6) == 0;
    for (uint64_t i = 6; is_result && i < length; i++) {
        is_result = name[i] >= '0' && name[i] <= '9';
        index = index * 10 + (uint32_t)(name[i] - '0');
    }
    if (is_result && index < op->n_returns) {
        *out = (tni_save){.kind = TNI_SAVE_RESULT, .index = (uint8_t)index, .if_needs = -1};
        return TN_OK;
    }
    return tni_error(TN_E_ARGUMENT, "%s: `saves` lists '%.*s', which is neither an argument nor a result",
                     op->schema->full_name, (int)length, name);
}

static int32_t count_names(const char *text)
{
    const char *name;
    uint64_t length;
    int32_t n = 0;
    while (text && next_name(&text, &name, &length)) n++;
    return n;
}

/* ---- the rule ---- */

/* The arguments of backward: gradients, arguments of the call, saved results. */
static tn_value *backward_args(tn_scope *s, tni_grad *g, const tni_op *op, uint32_t *out_count)
{
    const tni_gradient_entry *entry = op->gradient;
    tn_value *v = tn_scope_memory(s, (op->n_returns * 2u + op->n_args) * sizeof *v);
    uint32_t n = 0;
    if (!v) return NULL;
    memset(v, 0, (op->n_returns * 2u + op->n_args) * sizeof *v); /* NONE, should backward read too far */
    for (uint32_t i = 0; i < op->n_returns; i++) v[n++] = tn_value_tensor(tni_grad_out(g, i));
    for (uint32_t i = 0; i < op->n_args; i++) {
        tn_value a = tni_grad_arg(g, i);
        if (a.tag == TN_TAG_TENSOR) {
            a = tn_value_tensor(tni_grad_saved(g, i));
        } else if (a.tag == TN_TAG_TENSORS) {
            tn_tensor **items = tn_scope_memory(s, (a.count + 1ull) * sizeof *items);
            for (uint32_t k = 0; items && k < a.count; k++) items[k] = tni_grad_saved_item(g, i, k);
            a = tn_value_tensors(items, a.count);
        }
        v[n++] = a;
    }
    for (uint32_t i = 0; i < entry->save_count; i++) {
        if (entry->saves[i].kind == TNI_SAVE_RESULT)
            v[n++] = tn_value_tensor(tni_grad_result(g, entry->saves[i].index));
    }
    *out_count = n;
    return tn_scope_failed(s) ? NULL : v;
}

static int32_t is_saved(const tni_gradient_entry *entry, uint32_t kind, uint32_t index)
{
    for (uint32_t i = 0; i < entry->save_count; i++) {
        if (entry->saves[i].kind == kind && entry->saves[i].index == index) return 1;
    }
    return 0;
}

/* A gradient that reads a tensor which `saves` does not list gets none: says so behind "must be Tensor, not None". */
static void blame_saves(tn_scope *s, const tni_grad *g, const tni_op *op)
{
    char names[256], all[512];
    tni_text text = tni_text_begin(names, sizeof names);
    if (!strstr(tn_scope_error(s)->message, "not None")) return;
    for (uint32_t i = 0; i < op->n_args; i++) {
        uint32_t tag = tni_grad_arg(g, i).tag;
        if ((tag == TN_TAG_TENSOR || tag == TN_TAG_TENSORS) && !is_saved(op->gradient, TNI_SAVE_ARG, i))
            tni_text_add(&text, "%s'%.63s'", text.length ? ", " : "", op->schema->args[i].name);
    }
    for (uint32_t i = 0; i < op->n_returns; i++) {
        if (!is_saved(op->gradient, TNI_SAVE_RESULT, i))
            tni_text_add(&text, "%s'result%u'", text.length ? ", " : "", i);
    }
    if (!text.length) return;
    snprintf(all, sizeof all,
             " (in the gradient of %.120s, which gets only the tensors that `saves` lists; not listed: %s)",
             op->schema->full_name, names);
    tn_scope_add_to_error(s, all);
}

/* Takes over what backward gave for argument i. */
static void take_gradient(tn_scope *s, tni_grad *g, const tni_op *op, uint32_t i, const tn_value *given)
{
    const char *operator_name = op->schema->full_name, *name = op->schema->args[i].name;
    const tn_value arg = tni_grad_arg(g, i);
    if (given->tag == TN_TAG_NONE) return;
    if (arg.tag != TN_TAG_TENSOR && arg.tag != TN_TAG_TENSORS)
        tni_scope_record(s, tni_error(TN_E_AUTOGRAD,
                                      "%s: backward set a gradient for argument %u, which is not a tensor",
                                      operator_name, i));
    else if (arg.tag == TN_TAG_TENSORS && given->tag != TN_TAG_TENSORS)
        tni_scope_record(s,
                         tni_error(TN_E_AUTOGRAD,
                                   "%s: backward set one gradient for argument '%s', which is a list of %u; "
                                   "store a list, call->outs[%u] = tn_value_tensors(gradients, %u)",
                                   operator_name, name, arg.count, i, arg.count));
    else if (arg.tag == TN_TAG_TENSORS && given->count != arg.count)
        tni_scope_record(s,
                         tni_error(TN_E_AUTOGRAD,
                                   "%s: backward gave %u gradients for argument '%s', which is a list of %u",
                                   operator_name, given->count, name, arg.count));
    else if (given->tag == TN_TAG_TENSOR)
        tni_grad_set(g, i, given->as.tensor);
    for (uint32_t k = 0; !tn_scope_failed(s) && given->tag == TN_TAG_TENSORS && k < given->count; k++)
        tni_grad_set_item(g, i, k, given->as.tensors[k]);
}

static void custom_rule(tn_scope *s, tni_grad *g)
{
    const tni_op *op = tni_grad_op(g);
    const tn_operator_def *def = op->def;
    tni_frame *f = tn_scope_memory(s, sizeof *f);
    tn_value *outs = tn_scope_memory(s, (op->n_args + 1u) * sizeof *outs);
    uint32_t n_args = 0;
    tn_value *args = backward_args(s, g, op, &n_args);
    if (!f || !outs || !args) return;
    memset(f, 0, sizeof *f);
    f->ctx = op->base ? tn_scope_context(s) : NULL;
    f->op = op;
    f->scope = s;
    for (uint32_t i = 0; i < op->n_args; i++) outs[i] = tn_value_none();
    tn_call call = {.size = sizeof call, .n_args = n_args, .n_outs = op->n_args, .args = args, .outs = outs};
    call.host = &f->ctx->host;
    call.state = f;
    call.threads = atomic_load(&f->ctx->threads);
    call.op = op->number;
    call.name = op->name;
    tni_frame_lend(f);
    int32_t status = def->backward(def->self, &call);
    tni_frame_take_back(f);
    if (status && !tn_scope_failed(s)) tni_scope_record(s, tni_plugin_status(op, "the gradient", status));
    if (tn_scope_failed(s)) blame_saves(s, g, op);
    for (uint32_t i = 0; i < op->n_args && !tn_scope_failed(s); i++) take_gradient(s, g, op, i, &outs[i]);
}

static int32_t make_gradient(tn_context *ctx, const tni_op *op, custom_gradient **out)
{
    uint32_t n = (uint32_t)count_names(op->def->saves);
    custom_gradient *c = tni_alloc_zeroed(ctx, sizeof *c + n * sizeof(tni_save));
    if (!c) return TN_E_OUT_OF_MEMORY;
    const char *text = op->def->saves, *name;
    uint64_t length;
    for (uint32_t i = 0; i < n && next_name(&text, &name, &length); i++) {
        int32_t status = find_argument(op, name, length, c->saves + i);
        if (status) {
            tni_free(ctx, c, sizeof *c + n * sizeof(tni_save));
            return status;
        }
    }
    c->entry =
        (tni_gradient_entry){.op = op->number, .rule = custom_rule, .saves = c->saves, .save_count = n};
    *out = c;
    return TN_OK;
}

int32_t tni_custom_gradient(tn_context *ctx, const tni_op *op, const tni_gradient_entry **out)
{
    tni_autograd_state *state = tni_autograd_of(ctx);
    int32_t status = TN_OK;
    pthread_mutex_lock(&state->lock);
    if (!op->gradient) {
        custom_gradient *c;
        status = make_gradient(ctx, op, &c);
        if (!status) {
            c->next = state->custom;
            state->custom = c;
            ((tni_op *)(uintptr_t)op)->gradient = &c->entry;
        }
    }
    *out = op->gradient;
    pthread_mutex_unlock(&state->lock);
    return status;
}

void tni_custom_finish(tn_context *ctx)
{
    custom_gradient *c = tni_autograd_of(ctx)->custom;
    while (c) {
        custom_gradient *next = c->next;
        tni_free(ctx, c, sizeof *c + c->entry.save_count * sizeof(tni_save));
        c = next;
    }
}
