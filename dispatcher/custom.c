/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are not built in: calls their shape rules and composites, which have the signature of kernels. */
#include <string.h>
#include <tenon/ops.h>
#include "core/scope.h"
#include "core/thread.h"
#include "dispatcher/backend.h"
#include "dispatcher/custom.h"

/* How many calls may be nested where a composite begins. Without end they would overflow the stack, of which each call
 * takes some kilobytes. */
#define MAX_CALL_DEPTH 100u

void tni_custom_prepare(tni_op *op)
{
    op->promote = TNI_PROMOTE_NONE;
    if (op->def->composite && !op->def->infer) op->kind = TNI_KIND_COMPOSITE;
}

static int32_t find_saved(const tni_schema *schema, const char *name, uint64_t length, tni_saved_name *out)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < schema->n_args; i++) {
        const tni_argument *a = schema->args + i;
        if (strlen(a->name) != length || memcmp(a->name, name, length) != 0) continue;
        *out = (tni_saved_name){.index = i};
        if (a->type == TNI_TYPE_TENSOR) return TN_OK;
        return tni_error(TN_E_ARGUMENT,
                         "%s: `saves` lists the non-tensor argument '%s'; non-tensors are always passed",
                         schema->full_name, a->name);
    }
    int32_t is_result = length > 6 && memcmp(name, "result", 6) == 0;
    for (uint64_t i = 6; is_result && i < length; i++) {
        is_result = name[i] >= '0' && name[i] <= '9' && index < schema->n_returns;
        index = index * 10 + (uint32_t)(name[i] - '0');
    }
    *out = (tni_saved_name){.is_result = 1, .index = index};
    if (is_result && index < schema->n_returns) return TN_OK;
    return tni_error(TN_E_ARGUMENT, "%s: `saves` lists '%.*s', which is neither an argument nor a result",
                     schema->full_name, (int)length, name);
}

int32_t tni_saved_name_next(const tni_schema *schema, const char **text, tni_saved_name *out,
                            int32_t *out_found)
{
    *text += strspn(*text, ", \t");
    const char *name = *text;
    const uint64_t length = strcspn(name, ", \t");
    *text += length;
    int32_t status = length ? find_saved(schema, name, length, out) : TN_OK;
    *out_found = length && !status;
    return status;
}

static void make_call(tni_frame *f, tn_call *call, tn_value *outs)
{
    memset(call, 0, sizeof *call);
    call->size = sizeof *call;
    call->n_args = f->n_args;
    call->n_outs = f->op->base->n_returns;
    call->args = f->args;
    call->outs = outs;
    call->host = &f->ctx->host;
    call->state = f;
    call->threads = atomic_load(&f->ctx->threads);
    call->op = f->op->base->number;
    call->name = f->op->base->name;
}

/* Without a rule outputs are like the first tensor argument. */
static int32_t like_first(tni_frame *f)
{
    const tni_op *op = f->op->base;
    const tn_tensor *first = op->first_tensor < f->n_args ? tni_arg_tensor(f, op->first_tensor) : NULL;
    if (!first)
        return tni_fail(
            f, TN_E_ARGUMENT,
            "without a shape rule the first argument that is a tensor gives the shape, and there is none");
    for (uint32_t i = 0; i < op->n_returns; i++) {
        int32_t status = tni_out_like(f, i, first, 0);
        if (status) return status;
    }
    return TN_OK;
}

/* The result of an operator that works in place is the argument, whatever its shape rule says. */
static int32_t check_written(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, f->op->base->returns_self);
    const tni_out_meta *m = &f->meta[0];
    if (!self || !m->defined ||
        (m->dtype == self->desc.dtype && m->rank == self->desc.rank &&
         (!m->rank || !memcmp(m->sizes, self->desc.sizes, m->rank * sizeof *m->sizes))))
        return TN_OK;
    char got[128], expected[128];
    return tni_fail(
        f, TN_E_CONTRACT,
        "the shape rule gives output 0 the sizes %s and the dtype %s, but it is argument '%s', which "
        "has the sizes %s and the dtype %s",
        tni_shape_text(m->rank, m->sizes, got, sizeof got), tn_dtype_name(m->dtype),
        f->op->base->schema->args[f->op->base->returns_self].name,
        tni_shape_text(self->desc.rank, self->desc.sizes, expected, sizeof expected),
        tn_dtype_name(self->desc.dtype));
}

static int32_t check_deterministic(const tni_frame *f)
{
    const tni_op *op = f->op->base;
    return op->def->tags & TN_TAG_BIT_NONDETERMINISTIC && tn_get_deterministic(f->ctx)
               ? tni_refuse_nondeterministic(op)
               : TN_OK;
}

int32_t tni_custom_infer(tni_frame *f)
{
    const tni_op *op = f->op->base;
    tn_value outs[TNI_MAX_OUTPUTS];
    tn_call call;
    int32_t status = check_deterministic(f);
    if (status) return status;
    if (op->form == TNI_FORM_INPLACE && !op->def->infer) return TN_OK;
    if (!op->def->infer) return like_first(f);
    make_call(f, &call, outs);
    for (uint32_t i = 0; i < op->n_returns; i++) outs[i] = tn_value_none();
    tni_frame_lend(f);
    status = op->def->infer(op->def->self, &call);
    tni_frame_take_back(f);
    status = tni_plugin_status(op, "the shape rule", tni_frame_end_refusing(f, status));
    if (op->form == TNI_FORM_INPLACE) return status ? status : check_written(f);
    for (uint32_t i = 0; i < op->n_returns && !status; i++) {
        if (!f->meta[i].defined && op->schema->returns[i].type == TNI_TYPE_TENSOR &&
            !op->schema->returns[i].is_optional) {
            status = tni_fail(f, TN_E_CONTRACT, "the shape rule did not define output %u", i);
        }
    }
    return status;
}

tn_tensor *tni_written_argument(const tni_frame *f, uint32_t i)
{
    const tni_schema *s = f->op->schema;
    const char *set = s->returns[i].alias_set;
    for (uint32_t k = s->n_args; set && k-- > 0;) {
        if (s->args[k].written && s->args[k].alias_set && !strcmp(s->args[k].alias_set, set))
            return tni_arg_tensor(f, k);
    }
    return f->given[i];
}

/* With TN_CONTEXT_DEBUG_HANDLES: whether what the composite gave is still there. */
static int32_t check_alive(const tni_frame *f, uint32_t i, const tn_value *v)
{
    const uint32_t n = v->tag == TN_TAG_TENSORS ? v->count : v->tag == TN_TAG_TENSOR;
    for (uint32_t k = 0; k < n; k++) {
        const tn_tensor *t = v->tag == TN_TAG_TENSORS ? v->as.tensors[k] : v->as.tensor;
        const int32_t status = t ? tni_tensor_check(t) : TN_OK;
        if (status)
            return tni_fail(f, status, "the composite released output %u: %s", i, tn_last_error()->message);
    }
    return TN_OK;
}

/* Whether a result of an operator that writes an argument is copied into it here, by an operator that is recorded.
 * All else is refused by tni_give_results. */
static int32_t goes_into(const tn_tensor *given, const tn_tensor *result)
{
    return result != given && result->desc.device == given->desc.device && tni_same_shape(result, given) &&
           tn_can_cast(result->desc.dtype, given->desc.dtype);
}

/*
 * What the composite gave: all results, of the types of the schema. One that is written in place or given is that tensor,
 * and in any but an out form the result is copied into it, with its gradient, if it is another tensor.
 */
static void take_results(tni_frame *f, tn_scope *s, tn_value *outs)
{
    const tni_op *op = f->op->base;
    for (uint32_t i = 0; i < op->n_returns && !tn_scope_failed(s); i++) {
        if (f->ctx->flags & TN_CONTEXT_DEBUG_HANDLES && tni_scope_record(s, check_alive(f, i, &outs[i])))
            return;
        tn_tensor *given = f->given[i] = tni_written_argument(f, i), *result = tn_value_as_tensor(outs[i]);
        if (given && outs[i].tag == TN_TAG_NONE) outs[i] = tn_value_tensor(given);
        if (given && result && op->form != TNI_FORM_OUT && goes_into(given, result)) {
            tn_copy_(s, given, result);
            outs[i] = tn_value_tensor(given);
        }
        if (!tn_scope_failed(s)) tni_scope_record(s, tni_check_result(op, i, &outs[i]));
    }
}

void tni_custom_composite(tni_frame *f, tn_scope *s, tn_value *outs)
{
    const tni_op *op = f->op->base;
    tn_call call;
    int32_t status = check_deterministic(f);
    if (status) {
        tni_scope_record(s, status);
        return;
    }
    if (tni_tls.call_depth > MAX_CALL_DEPTH) {
        tni_scope_record(
            s, tni_fail(f, TN_E_CONTRACT,
                        "%u calls are nested in each other (expected at most %u); does the composite "
                        "of %s call its own operator, directly or by another one?",
                        tni_tls.call_depth, MAX_CALL_DEPTH, tni_op_name(op)));
        return;
    }
    make_call(f, &call, outs);
    f->scope = s;
    const uint32_t lent = tni_scope_lend(s);
    tni_frame_lend(f);
    status = op->def->composite(op->def->self, &call);
    tni_frame_take_back(f);
    tni_scope_take_back(s, lent);
    f->scope = NULL;
    if (status && !tn_scope_failed(s)) tni_scope_record(s, tni_plugin_status(op, "the composite", status));
    take_results(f, s, outs);
}
