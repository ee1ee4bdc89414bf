/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the node of a call: takes what is saved (or copies it, if the graph is kept), then the rule computes
 * the gradients with the readers below. Saved tensors are unpacked only if the rule asks for them.
 */
#include "autograd/op_node.h"

#include "core/scope.h"

#include <string.h>

struct tni_grad {
    tn_scope *scope;
    tni_op_node *node;
    const tni_step *step;
    const tni_saved *saved;
};

static int32_t op_run(tn_node *node, tni_step *step)
{
    tni_op_node *n = (tni_op_node *)node;
    tni_saved *saved = n->n_saved ? tni_saved_take(node, n->saved, n->n_saved, step) : NULL;
    if (TNI_UNLIKELY(n->n_saved && !saved)) return tn_scope_failed(step->scope);
    tni_grad g = {step->scope, n, step, saved};
    n->rule->rule(step->scope, &g);
    tni_saved_finish(saved, n->n_saved);
    return step->scope->status;
}

static const char *op_name(const tn_node *node)
{
    const tni_op_node *n = (const tni_op_node *)node;
    return n->name ? n->name : tni_operator_node_name(node->ctx, n->op->number, n->op->name);
}

static void op_destroy(tn_node *node)
{
    tni_op_node *n = (tni_op_node *)node;
    if (!node->freed) tni_saved_finish(n->saved, n->n_saved);
    tni_free(node->ctx, n, node->bytes);
}

const tni_node_class tni_op_node_class = {.run = op_run, .name = op_name, .destroy = op_destroy};

/* ---- what rules use ---- */

const tni_op *tni_grad_op(const tni_grad *g)
{
    return g->node->op;
}

const tni_gradient_entry *tni_grad_entry(const tni_grad *g)
{
    return g->node->rule;
}

tn_tensor *tni_grad_out(const tni_grad *g, uint32_t i)
{
    return i < g->node->node.n_inputs ? g->step->in[i] : NULL;
}

/* The position of argument or result `index` among the saved tensors; UINT32_MAX: not saved. */
static inline __attribute__((always_inline)) uint32_t find_saved(const tni_grad *g, uint32_t kind,
                                                                 uint32_t index)
{
    const tni_gradient_entry *rule = g->node->rule;
    const tni_save *save = rule->saves, *end = save + rule->save_count;
    uint32_t at = 0;
    for (; save < end; save++) {
        if (save->kind == kind && save->index == index) return at;
        const tn_value *v = g->node->args + save->index;
        at += save->kind == TNI_SAVE_ARG && v->tag == TN_TAG_TENSORS ? v->count : 1;
    }
    return UINT32_MAX;
}

static tn_tensor *unpack_at(const tni_grad *g, uint32_t at)
{
    return at == UINT32_MAX ? NULL : tni_unpack(g->saved + at, g->scope, &g->node->node);
}

tn_tensor *tni_grad_saved(const tni_grad *g, uint32_t arg)
{
    return unpack_at(g, find_saved(g, TNI_SAVE_ARG, arg));
}

tn_tensor *tni_grad_geometry(const tni_grad *g, uint32_t arg)
{
    return unpack_at(g, find_saved(g, TNI_SAVE_GEOMETRY, arg));
}

tn_tensor *tni_grad_saved_item(const tni_grad *g, uint32_t arg, uint32_t item)
{
    uint32_t at = find_saved(g, TNI_SAVE_ARG, arg);
    return at == UINT32_MAX || item >= tni_grad_count(g, arg) ? NULL : unpack_at(g, at + item);
}

tn_tensor *tni_grad_result(const tni_grad *g, uint32_t i)
{
    return unpack_at(g, find_saved(g, TNI_SAVE_RESULT, i));
}

tn_value tni_grad_arg(const tni_grad *g, uint32_t arg)
{
    return arg < g->node->n_args ? g->node->args[arg] : tn_value_none();
}

uint32_t tni_grad_count(const tni_grad *g, uint32_t arg)
{
    tn_value v = tni_grad_arg(g, arg);
    return v.tag == TN_TAG_TENSORS ? v.count : v.tag == TN_TAG_TENSOR;
}

/* The slot of an item of an argument, or UINT32_MAX. */
static inline uint32_t slot_of(const tni_grad *g, uint32_t arg, uint32_t item)
{
    if (arg >= g->node->n_args) return UINT32_MAX;
    const tn_value *v = g->node->args + arg;
    if (TNI_LIKELY(v->tag == TN_TAG_TENSOR && item == 0)) return v->count;
    if (v->tag == TN_TAG_TENSORS && item < v->count) return (uint32_t)v->as.i + item;
    return UINT32_MAX;
}

tni_meta tni_grad_meta(const tni_grad *g, uint32_t arg, uint32_t item)
{
    uint32_t slot = slot_of(g, arg, item);
    return slot == UINT32_MAX ? (tni_meta){0} : g->node->slots[slot];
}

tni_meta tni_grad_result_meta(const tni_grad *g, uint32_t i)
{
    return i < g->node->node.n_inputs ? g->node->node.inputs[i] : (tni_meta){0};
}

static inline __attribute__((always_inline)) int32_t needs_item(const tni_grad *g, uint32_t arg,
                                                                uint32_t item)
{
    uint32_t slot = slot_of(g, arg, item);
    if (slot == UINT32_MAX || !g->node->node.edges[slot].node) return 0;
    return !g->step->wanted || g->step->wanted[slot];
}

int32_t tni_grad_needs_item(const tni_grad *g, uint32_t arg, uint32_t item)
{
    return needs_item(g, arg, item);
}

int32_t tni_grad_needs(const tni_grad *g, uint32_t arg)
{
    uint32_t n = tni_grad_count(g, arg);
    if (TNI_LIKELY(n == 1)) return needs_item(g, arg, 0);
    for (uint32_t i = 0; i < n; i++) {
        if (tni_grad_needs_item(g, arg, i)) return 1;
    }
    return 0;
}

static inline __attribute__((always_inline)) void set_item(tni_grad *g, uint32_t arg, uint32_t item,
                                                           tn_tensor *grad)
{
    uint32_t slot = slot_of(g, arg, item);
    if (slot == UINT32_MAX || !g->node->node.edges[slot].node || !grad) return;
    tn_tensor **out = g->step->out + slot;
    if (TNI_UNLIKELY(*out != NULL)) tni_scope_own(g->scope, *out); /* the rule may still use it */
    *out = tni_scope_disown(g->scope, grad) ? grad : tn_retain(grad);
}

void tni_grad_set(tni_grad *g, uint32_t arg, tn_tensor *grad)
{
    set_item(g, arg, 0, grad);
}

void tni_grad_set_item(tni_grad *g, uint32_t arg, uint32_t item, tn_tensor *grad)
{
    set_item(g, arg, item, grad);
}
