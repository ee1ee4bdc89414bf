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

static uint32_t count_names(const tni_op *op)
{
    const char *text = op->def->saves;
    tni_saved_name name;
    int32_t found = text != NULL;
    uint32_t n = 0;
    while (found && !tni_saved_name_next(op->schema, &text, &name, &found)) n += (uint32_t)found;
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

/* Whose gradient failed. One that reads a tensor which `saves` does not list gets none: says so behind "must be Tensor, not
 * None". */
static void blame(tn_scope *s, const tni_grad *g, const tni_op *op)
{
    char names[256], all[512];
    tni_text text = tni_text_begin(names, sizeof names);
    if (strstr(tn_scope_error(s)->message, op->schema->full_name)) return;
    const int32_t is_none = strstr(tn_scope_error(s)->message, "not None") != NULL;
    for (uint32_t i = 0; is_none && i < op->n_args; i++) {
        uint32_t tag = tni_grad_arg(g, i).tag;
        if ((tag == TN_TAG_TENSOR || tag == TN_TAG_TENSORS) && !is_saved(op->gradient, TNI_SAVE_ARG, i))
            tni_text_add(&text, "%s'%.63s'", text.length ? ", " : "", op->schema->args[i].name);
    }
    for (uint32_t i = 0; is_none && i < op->n_returns; i++) {
        if (!is_saved(op->gradient, TNI_SAVE_RESULT, i))
            tni_text_add(&text, "%s'result%u'", text.length ? ", " : "", i);
    }
    snprintf(all, sizeof all, " (in the gradient of %.120s%s%s)", op->schema->full_name,
             text.length ? ", which gets only the tensors that `saves` lists; not listed: " : "",
             text.length ? names : "");
    tn_scope_add_to_error(s, all);
}

/* Takes over what backward gave for argument i. With sources, it has no gradient with respect to them. */
static void take_gradient(tn_scope *s, tni_grad *g, const tni_op *op, uint32_t i, const tn_value *given,
                          tn_tensors sources)
{
    const char *operator_name = op->schema->full_name, *name = op->schema->args[i].name;
    const int32_t is_list = given->tag == TN_TAG_TENSORS;
    const uint32_t count = is_list ? given->count : given->tag == TN_TAG_TENSOR;
    const tn_value arg = tni_grad_arg(g, i);
    if (given->tag == TN_TAG_NONE) return;
    if (arg.tag != TN_TAG_TENSOR && arg.tag != TN_TAG_TENSORS)
        tni_scope_record(
            s, tni_error(TN_E_AUTOGRAD, "%s: backward set a gradient for argument '%s', which %s",
                         operator_name, name,
                         op->schema->args[i].type == TNI_TYPE_TENSOR ? "was not given" : "is not a tensor"));
    else if (arg.tag == TN_TAG_TENSORS && given->tag != TN_TAG_TENSORS)
        tni_scope_record(s,
                         tni_error(TN_E_AUTOGRAD,
                                   "%s: backward set one gradient for argument '%s', which is a list of %u; "
                                   "store a list, call->outs[%u] = tn_value_tensors(gradients, %u)",
                                   operator_name, name, arg.count, i, arg.count));
    else if (arg.tag == TN_TAG_TENSOR && given->tag == TN_TAG_TENSORS)
        tni_scope_record(s,
                         tni_error(TN_E_AUTOGRAD,
                                   "%s: backward gave a list of %u gradients for argument '%s', which is one "
                                   "tensor",
                                   operator_name, given->count, name));
    else if (arg.tag == TN_TAG_TENSORS && given->count != arg.count)
        tni_scope_record(s,
                         tni_error(TN_E_AUTOGRAD,
                                   "%s: backward gave %u gradients for argument '%s', which is a list of %u",
                                   operator_name, given->count, name, arg.count));
    for (uint32_t k = 0; !tn_scope_failed(s) && k < count; k++) {
        tn_tensor *grad = is_list ? given->as.tensors[k] : given->as.tensor;
        int32_t status =
            grad ? tni_check_gradient_kind(operator_name, name, i, grad, tni_grad_meta(g, i, k).dtype)
                 : TN_OK;
        if (status) tni_scope_record(s, status);
        if (grad && sources.count && !status) grad = tni_mark_once(s, grad, sources);
        if (!tn_scope_failed(s)) tni_grad_set_item(g, i, k, grad);
    }
}

/* The tensors that a gradient may depend on. */
static tn_tensors sources_of(tn_scope *s, const tn_value *args, uint32_t n_args)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < n_args; i++) count += args[i].tag == TN_TAG_TENSORS ? args[i].count : 1;
    tn_tensor **all = tn_scope_memory(s, (uint64_t)(count + 1) * sizeof *all);
    if (!all) return (tn_tensors){NULL, 0};
    count = 0;
    for (uint32_t i = 0; i < n_args; i++) {
        if (args[i].tag == TN_TAG_TENSOR) all[count++] = args[i].as.tensor;
        for (uint32_t k = 0; args[i].tag == TN_TAG_TENSORS && k < args[i].count; k++)
            all[count++] = args[i].as.tensors[k];
    }
    return (tn_tensors){all, count};
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
    const int32_t is_once = def->tags & TN_TAG_BIT_DIFFERENTIABLE_ONCE && tni_grad_enabled();
    const uint32_t mode = tn_grad_mode();
    tn_tensors sources = is_once ? sources_of(s, args, n_args) : (tn_tensors){NULL, 0};
    if (is_once) tn_set_grad_mode(TN_GRAD_OFF);
    const uint32_t lent = tni_scope_lend(s);
    tni_frame_lend(f);
    int32_t status = def->backward(def->self, &call);
    tni_frame_take_back(f);
    tni_scope_take_back(s, lent);
    tn_set_grad_mode(mode);
    if (status && !tn_scope_failed(s)) tni_scope_record(s, tni_plugin_status(op, "the gradient", status));
    if (tn_scope_failed(s)) blame(s, g, op);
    for (uint32_t i = 0; i < op->n_args && !tn_scope_failed(s); i++)
        take_gradient(s, g, op, i, &outs[i], sources);
}

/* The names were checked when the operator was defined. */
static int32_t make_gradient(tn_context *ctx, const tni_op *op, custom_gradient **out)
{
    uint32_t n = count_names(op);
    custom_gradient *c = tni_alloc_zeroed(ctx, sizeof *c + n * sizeof(tni_save));
    if (!c) return TN_E_OUT_OF_MEMORY;
    const char *text = op->def->saves;
    tni_saved_name name;
    for (uint32_t i = 0; i < n; i++) {
        int32_t found;
        tni_saved_name_next(op->schema, &text, &name, &found);
        c->saves[i] = (tni_save){.kind = name.is_result ? TNI_SAVE_RESULT : TNI_SAVE_ARG,
                                 .index = (uint8_t)name.index,
                                 .if_needs = -1};
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
