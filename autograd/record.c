/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording. The layer sees each call in which a tensor takes part in autograd. A call with a gradient rule
 * runs unrecorded and becomes one node. A composite without a rule runs as it is, so that the calls it makes
 * are recorded. Any other operator gets a node that fails when it is run.
 */
#include "autograd/record.h"

#include "core/scope.h"
#include "dispatcher/call.h"
#include "gradient_rules.h"

#include <string.h>

#define MAX_FLAT 64

/* Results of a call; lists are flattened. */
typedef struct results {
    tn_tensor *inline_items[MAX_FLAT];
    tn_tensor **items;
    uint32_t count;
    uint32_t bytes; /* of `items`, if they did not fit */
} results;

int32_t tni_run_unrecorded(tni_frame *f)
{
    uint32_t excluded = tni_tls.excluded_layers;
    tni_tls.excluded_layers = excluded | TNI_LAYER_BIT(TNI_LAYER_AUTOGRAD);
    int32_t status = tni_next(f);
    tni_tls.excluded_layers = excluded;
    return status;
}

static int32_t gather_results(const tni_frame *f, results *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_outs; i++) n += f->outs[i].tag == TN_TAG_TENSORS ? f->outs[i].count : 1;
    r->items = r->inline_items;
    r->count = r->bytes = 0;
    if (n > MAX_FLAT) {
        r->bytes = n * (uint32_t)sizeof *r->items;
        r->items = tni_alloc(f->ctx, r->bytes);
        if (!r->items) return TN_E_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < f->n_outs; i++) {
        tn_value v = f->outs[i];
        if (v.tag != TN_TAG_TENSORS) r->items[r->count++] = tn_value_as_tensor(v);
        for (uint32_t k = 0; v.tag == TN_TAG_TENSORS && k < v.count; k++)
            r->items[r->count++] = v.as.tensors[k];
    }
    return TN_OK;
}

static void finish_results(const tni_frame *f, results *r)
{
    if (r->bytes) tni_free(f->ctx, r->items, r->bytes);
}

static inline int32_t is_recorded(const tni_gradient_entry *rule, const tn_tensor *result, uint32_t i)
{
    return result && tni_is_differentiable(result->desc.dtype) &&
           !(i < 32 && rule->non_differentiable >> i & 1u);
}

/* ---- what may be written to ---- */

static int32_t refuse(const char *text)
{
    return tni_error(TN_E_AUTOGRAD, "%s", text);
}

static int32_t is_wanting_leaf(const tn_tensor *t)
{
    return (t->state & TNI_WANTS_GRAD) && t->autograd && !t->autograd->grad_fn;
}

static int32_t check_view(const tn_tensor *self)
{
    if ((self->state & TNI_NO_GRAD_VIEW) && (self->base->state & TNI_WANTS_GRAD))
        return refuse(
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given "
            "that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by "
            "moving both the view and the inplace either both inside the no_grad block (if you don't want "
            "the inplace to be tracked) or both outside (if you want the inplace to be tracked).");
    if (self->autograd && self->autograd->creation == TNI_VIEW_ONE_OF_MANY && self->autograd->grad_fn)
        return tni_error(
            TN_E_AUTOGRAD,
            "Output %u of %s is a view and is being modified inplace. This view is the output of a function "
            "that returns multiple views. Such functions do not allow the output views to be modified "
            "inplace. You should replace the inplace operation by an out-of-place one.",
            self->autograd->output, tn_node_name(self->autograd->grad_fn));
    if (is_wanting_leaf(self->base))
        return refuse("a view of a leaf Variable that requires grad is being used in an in-place operation.");
    return TN_OK;
}

static int32_t check_inference(const tn_tensor *written)
{
    if (TNI_LIKELY(!(written->state & TNI_INFERENCE)) || tni_tls.grad_mode == TN_GRAD_INFERENCE) return TN_OK;
    return refuse(
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to "
        "get a normal tensor before doing inplace update.");
}

int32_t tni_check_inplace(const tn_tensor *self)
{
    int32_t status = check_inference(self);
    if (status) return status;
    if (is_wanting_leaf(self))
        return refuse("a leaf Variable that requires grad is being used in an in-place operation.");
    return self->base ? check_view(self) : TN_OK;
}

/* Whether the outputs that the program gave are of dtypes that have gradients: those of comparisons have none. */
static int32_t writes_differentiable(const tni_frame *f)
{
    for (uint32_t i = 0; i < f->op->n_args; i++) {
        tn_value v = f->op->schema->args[i].written ? f->args[i] : tn_value_none();
        if (v.tag == TN_TAG_TENSOR && tni_is_differentiable(v.as.tensor->desc.dtype)) return 1;
        for (uint32_t k = 0; v.tag == TN_TAG_TENSORS && k < v.count; k++)
            if (v.as.tensors[k] && tni_is_differentiable(v.as.tensors[k]->desc.dtype)) return 1;
    }
    return 0;
}

/* Comparisons and logical operators give bools, whatever the dtype of the given tensor is. */
static int32_t gives_bools(const tni_frame *f)
{
    const tni_op *op = f->op->base;
    if (op->entry->calls) op = tni_op_get(f->registry, op->entry->calls); /* lt.Scalar calls lt.Tensor */
    return op->promote == TNI_PROMOTE_COMPARE || op->promote == TNI_PROMOTE_LOGICAL;
}

static int32_t check_out_form(const tni_frame *f, const tni_gradient_entry *rule)
{
    if (gives_bools(f) || (!rule && !writes_differentiable(f))) return TN_OK;
    for (uint32_t i = 0; i < f->op->n_args; i++) {
        tn_value v = f->args[i];
        int32_t wants = v.tag == TN_TAG_TENSOR && tni_wants_grad(v.as.tensor);
        for (uint32_t k = 0; v.tag == TN_TAG_TENSORS && k < v.count; k++)
            wants |= v.as.tensors[k] && tni_wants_grad(v.as.tensors[k]);
        if (wants)
            return tni_error(
                TN_E_AUTOGRAD,
                "%s(): functions with out=... arguments don't support automatic differentiation, but one "
                "of the arguments requires grad.",
                f->op->schema->name);
    }
    return TN_OK;
}

/* ---- functional calls ---- */

static int32_t is_argument_or_its_base(const tni_frame *f, const tn_tensor *t)
{
    for (uint32_t i = 0; i < f->n_args; i++) {
        tn_value v = f->args[i];
        uint32_t n = v.tag == TN_TAG_TENSORS ? v.count : v.tag == TN_TAG_TENSOR;
        for (uint32_t k = 0; k < n; k++) {
            const tn_tensor *arg = v.tag == TN_TAG_TENSORS ? v.as.tensors[k] : v.as.tensor;
            if (arg && (arg == t || arg->base == t)) return 1;
        }
    }
    return 0;
}

/* The tensor shares its storage still, and has no part in the base's history. */
static void forget_base(tn_tensor *t)
{
    tn_tensor *base = t->base;
    t->base = NULL;
    if (base) tn_release(base);
}

/*
 * A result that is a view of a tensor made inside the call stops being a view: its history is that of the call. The tensor
 * has no history, to which a later write through the result would be added.
 */
static void forget_inner_base(const tni_frame *f, tn_tensor *result)
{
    if (result && result->base && !is_argument_or_its_base(f, result->base)) forget_base(result);
}

/* A result that is an argument. */
static int32_t separate_result(tni_frame *f, uint32_t i)
{
    tn_tensor *t = tn_value_as_tensor(f->outs[i]), *view = NULL;
    for (uint32_t k = 0; t && k < f->n_args; k++) {
        if (tn_value_as_tensor(f->args[k]) != t) continue;
        int32_t status =
            tni_tensor_view(t, t->desc.rank, t->desc.sizes, t->desc.strides, tni_tensor_offset(t), &view);
        if (status) return status;
        tn_release(t);
        f->outs[i] = tn_value_tensor(view);
        break;
    }
    return TN_OK;
}

/* A call that returns an argument as it is gives a view of it, so that the argument keeps its own history. */
static int32_t separate_results(tni_frame *f)
{
    for (uint32_t i = 0; i < f->n_outs; i++) {
        int32_t status = separate_result(f, i);
        if (status) return status;
        if (f->op->is_view) continue;
        tn_value v = f->outs[i];
        if (v.tag == TN_TAG_TENSOR) forget_inner_base(f, v.as.tensor);
        for (uint32_t k = 0; v.tag == TN_TAG_TENSORS && k < v.count; k++)
            forget_inner_base(f, v.as.tensors[k]);
    }
    return TN_OK;
}

static int32_t has_edges(const tn_node *node)
{
    for (uint32_t i = 0; i < node->n_edges; i++) {
        if (node->edges[i].node) return 1;
    }
    return 0;
}

static inline int32_t record_results(tni_frame *f, const tni_gradient_entry *rule, tn_tensor **items,
                                     uint32_t count)
{
    uint32_t holders = 0;
    for (uint32_t i = 0; i < count; i++) holders += (uint32_t)is_recorded(rule, items[i], i);
    if (!holders) return TN_OK;
    tni_op_node *node;
    int32_t status = tni_op_node_create(f, rule, items, count, 0, &node);
    if (status) return status;
    if (!has_edges(&node->node)) { /* only views made in no_grad mode */
        tni_node_release(&node->node);
        return TN_OK;
    }
    int32_t many = f->op->is_view && f->outs[0].tag == TN_TAG_TENSORS;
    atomic_store_explicit(&node->node.refs, holders, memory_order_relaxed); /* not published yet */
    for (uint32_t i = 0; i < count; i++) {
        if (!is_recorded(rule, items[i], i)) continue;
        if (status)
            tni_node_release(&node->node);
        else
            status = tni_set_history(items[i], &node->node, i);
        if (!status && many) items[i]->autograd->creation = TNI_VIEW_ONE_OF_MANY;
    }
    return status;
}

static inline __attribute__((always_inline)) int32_t record_functional(tni_frame *f,
                                                                       const tni_gradient_entry *rule)
{
    int32_t status = tni_run_unrecorded(f);
    if (!status && f->op->base->kind != TNI_KIND_POINTWISE)
        status = separate_results(f); /* their results are new tensors */
    if (status) return status;
    if (f->n_outs == 1 && f->outs[0].tag == TN_TAG_TENSOR) { /* most calls */
        tn_tensor *one = f->outs[0].as.tensor;
        return record_results(f, rule, &one, 1);
    }
    results r;
    status = gather_results(f, &r);
    if (!status) status = record_results(f, rule, r.items, r.count);
    finish_results(f, &r);
    return status;
}

/* ---- in-place calls ---- */

int32_t tni_record_inplace(tn_tensor *self, tn_node *node, uint32_t slot)
{
    if (self->base && !(self->state & TNI_NO_GRAD_VIEW)) return tni_view_rebase(self, node, slot);
    return tni_set_history(self, tni_node_retain(node), 0);
}

/* Steps of optimisers and the like write lists of tensors, and have no gradient. */
static int32_t check_written_lists(const tni_frame *f)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < f->op->n_args; i++) {
        tn_value v = f->args[i];
        for (uint32_t k = 0;
             v.tag == TN_TAG_TENSORS && f->op->schema->args[i].written && k < v.count && !status; k++)
            status = tni_check_inplace(v.as.tensors[k]);
    }
    return status;
}

static int32_t record_inplace(tni_frame *f, const tni_gradient_entry *rule)
{
    uint32_t which = f->op->returns_self < f->n_args ? f->op->returns_self : 0;
    tn_tensor *self = tn_value_as_tensor(f->args[which]);
    int32_t status = self ? TN_OK : check_written_lists(f);
    if (status) return status;
    if (!self || !tni_is_differentiable(self->desc.dtype)) return tni_run_unrecorded(f);
    status = tni_check_inplace(self);
    if (status) return status;
    tni_op_node *node;
    status = tni_op_node_create(f, rule, &self, 1, 1, &node);
    if (status) return status;
    status = tni_run_unrecorded(f);
    if (!status && f->op->base->kind == TNI_KIND_VIEW) {
        int64_t *sizes = (int64_t *)(uintptr_t)node->node.inputs[0].sizes; /* has room for all dimensions */
        node->node.inputs[0].rank = self->desc.rank;
        memcpy(sizes, self->desc.sizes, self->desc.rank * sizeof *sizes);
        status = tni_set_history(self, tni_node_retain(&node->node), 0);
    } else if (!status) {
        status = tni_op_node_save_results(node, &self, 1);
        if (!status) status = tni_record_inplace(self, &node->node, node->args[which].count);
    }
    tni_node_release(&node->node);
    return status;
}

/* ---- composites without a rule ---- */

/* add_.Scalar and the like: the operator that it calls has the same form. */
static int32_t call_other(tni_frame *f, uint32_t number)
{
    const tni_op *other = tni_op_get(f->registry, number);
    return tni_call(f->ctx, other, f->args, f->n_args, f->outs, f->n_outs);
}

/* `op` with a recorded clone in place of argument 0. */
static int32_t call_on_clone(tni_frame *f, const tni_op *op, tn_value *outs, uint32_t n_outs)
{
    tn_value args[TNI_MAX_ARGS];
    memcpy(args, f->args, f->n_args * sizeof *args);
    tn_value clone_args[] = {f->args[0], tn_value_none()}, copy;
    int32_t status = tni_call(f->ctx, tni_op_get(f->registry, TN_OP_CLONE), clone_args, 2, &copy, 1);
    if (status) return status;
    args[0] = copy;
    status = tni_call(f->ctx, op, args, f->n_args, outs, n_outs);
    tni_value_release(f->ctx, &copy);
    return status;
}

/*
 * The in-place form of a functional composite: its result is copied into self, and the copy is recorded. The
 * composite gets a clone, as what it saves must outlive the write.
 */
static int32_t copy_into_self(tni_frame *f)
{
    tn_tensor *self = tn_value_as_tensor(f->args[0]);
    const tni_op *base = f->op->base;
    tn_value result[TNI_MAX_OUTPUTS];
    int32_t status =
        base->entry->infer ? base->entry->infer(f) : TN_OK; /* whether self may take the result */
    if (status || f->done) return status;                   /* `done`: self is the result as it is */
    status = tni_check_inplace(self);
    if (!status) status = call_on_clone(f, base, result, base->n_returns);
    if (status) return status;
    const tn_value args[] = {tn_value_tensor(self), result[0], tn_value_bool(0)};
    status = tni_call(f->ctx, tni_op_get(f->registry, TN_OP_COPY_), args, 3, f->outs, 1);
    for (uint32_t i = 0; i < base->n_returns; i++) tni_value_release(f->ctx, &result[i]);
    return status;
}

static int32_t run_composite(tni_frame *f)
{
    const tni_op *op = f->op;
    if (op->form == TNI_FORM_OUT) {
        int32_t status = check_out_form(f, NULL);
        return status ? status : tni_run_unrecorded(f);
    }
    if (op == op->base || op->kind == TNI_KIND_FOREACH) return tni_next(f);
    if (op->entry && op->entry->calls) return call_other(f, op->entry->calls);
    /* foo of foo_: the composite writes a clone */
    return op->form == TNI_FORM_INPLACE ? copy_into_self(f) : call_on_clone(f, op->base, f->outs, f->n_outs);
}

/* ---- the layer ---- */

static const tni_gradient_entry missing_rule = {.rule = grad_not_implemented};

static int32_t detaches_self(const tni_frame *f)
{
    return f->op->form == TNI_FORM_INPLACE && f->op->base->entry->unrecorded == TNI_UNRECORDED_DETACH;
}

static __attribute__((noinline)) int32_t run_without_rule(tni_frame *f)
{
    const tni_op_entry *entry = f->op->base->entry;
    int32_t inplace = f->op->form == TNI_FORM_INPLACE;
    if (f->op->base->kind >= TNI_KIND_COMPOSITE) return run_composite(f);
    if (entry->unrecorded == TNI_UNRECORDED_FORBIDDEN && inplace && tni_wants_grad(f->args[0].as.tensor))
        return refuse("cannot resize variables that require grad");
    if (entry->unrecorded == TNI_UNRECORDED_CONSTANT || entry->unrecorded == TNI_UNRECORDED_DETACH) {
        int32_t status = tni_run_unrecorded(f);
        if (!status && detaches_self(f)) tni_clear_history(f->args[0].as.tensor);
        if (!status && f->op->is_view && entry->unrecorded == TNI_UNRECORDED_CONSTANT)
            forget_base(f->outs[0].as.tensor);
        return status;
    }
    if (inplace) return record_inplace(f, &missing_rule);
    if (f->op->form == TNI_FORM_FUNCTIONAL) return record_functional(f, &missing_rule);
    int32_t status = check_out_form(f, NULL);
    return status ? status : tni_run_unrecorded(f);
}

static int32_t check_writes(const tni_frame *f)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < f->op->n_args && !status; i++) {
        const tn_tensor *t = f->op->schema->args[i].written ? tn_value_as_tensor(f->args[i]) : NULL;
        if (t) status = check_inference(t);
    }
    return status;
}

/* A view made while recording is off does not join its base's history. */
static int32_t run_silent(tni_frame *f)
{
    int32_t status = f->op->form == TNI_FORM_FUNCTIONAL ? TN_OK : check_writes(f);
    if (!status) status = tni_next(f);
    if (!status && detaches_self(f) && tni_tls.grad_mode != TN_GRAD_INFERENCE)
        tni_clear_history(f->args[0].as.tensor);
    if (status || !f->op->is_view) return status;
    for (uint32_t i = 0; i < f->n_outs; i++) {
        tn_value v = f->outs[i];
        if (v.tag == TN_TAG_TENSOR && v.as.tensor->base && f->op->form == TNI_FORM_FUNCTIONAL)
            v.as.tensor->state |= TNI_NO_GRAD_VIEW;
        for (uint32_t k = 0; v.tag == TN_TAG_TENSORS && k < v.count; k++) {
            if (v.as.tensors[k]->base) v.as.tensors[k]->state |= TNI_NO_GRAD_VIEW;
        }
    }
    return status;
}

int32_t tni_autograd_layer(tni_frame *f)
{
    if (!f->wants_grad) return run_silent(f);
    const tni_op *base = f->op->base;
    const tni_gradient_entry *rule = base->gradient;
    if (!rule && base->def && base->def->backward) {
        int32_t status = tni_custom_gradient(f->ctx, base, &rule);
        if (status) return status;
    }
    if (!rule) return run_without_rule(f);
    if (f->op->form == TNI_FORM_INPLACE) return record_inplace(f, rule);
    if (f->op->form == TNI_FORM_FUNCTIONAL) return record_functional(f, rule);
    int32_t status = check_out_form(f, rule);
    return status ? status : tni_run_unrecorded(f);
}
