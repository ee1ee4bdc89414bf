/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved tensors, and what hooks store instead of them (saved_hooks.c). Reading a tensor that was written after it was saved
 * is an error.
 */
#include "autograd/saved_tensor.h"

#include "core/scope.h"

#include <stdio.h>
#include <string.h>

/* The hook has packed a tensor that had this version; its result goes if that is not allowed. */
static int32_t check_packed(tni_packed *packed, const tn_tensor *t, uint64_t version)
{
    if (tn_tensor_version(t) == version) return TN_OK;
    if (packed->hooks.destroy) packed->hooks.destroy(packed->hooks.user, packed->value);
    return tni_error(
        TN_E_AUTOGRAD,
        "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack "
        "hook cannot be modified by in-place operations as this can lead to unexpected side-effects.");
}

static int32_t pack(tni_saved *saved, tn_tensor *t)
{
    const tni_saved_hook_frame *frame = tni_saved_hooks();
    tn_context *ctx = t->ctx;
    tni_packed *packed = tni_alloc_zeroed(ctx, sizeof *packed);
    if (!packed) return TN_E_OUT_OF_MEMORY;
    atomic_init(&packed->refs, 1);
    packed->ctx = ctx;
    packed->hooks = frame->hooks;
    packed->read = frame->read;
    tn_tensor *seen = NULL;
    const uint64_t version = tn_tensor_version(t);
    int32_t status = tni_tensor_twin(t, &seen);
    tn_scope *s = status ? NULL
                         : tn_scope_open_with(ctx, &(tn_scope_options){.size = sizeof(tn_scope_options),
                                                                       .grad_mode = TN_GRAD_OFF});
    if (s) {
        const uint32_t lent = tni_scope_lend(s);
        packed->value = frame->hooks.pack(frame->hooks.user, s, seen);
        tni_scope_take_back(s, lent);
        status = tn_scope_close(s);
        if (!status) status = check_packed(packed, t, version);
    } else if (!status) {
        status = TN_E_OUT_OF_MEMORY;
    }
    tn_release(seen);
    if (status) {
        tni_free(ctx, packed, sizeof *packed);
        return status;
    }
    saved->packed = packed;
    return TN_OK;
}

static int32_t is_leaf_edge(tni_edge edge)
{
    return edge.node && edge.node->is_leaf;
}

static __attribute__((noinline)) int32_t refuse_inference(void)
{
    return tni_error(TN_E_AUTOGRAD,
                     "Inference tensors cannot be saved for backward. To work around you can make a "
                     "clone to get a normal tensor and use it in autograd.");
}

/* Keeps the elements; all other fields of `saved` are set. */
static inline int32_t keep(tni_saved *saved, tn_tensor *t, int32_t differentiable)
{
    saved->version = atomic_load_explicit(&t->storage->version, memory_order_relaxed);
    if (differentiable) {
        if (TNI_UNLIKELY(tni_tls.saved_hooks && !tni_saved_hooks()->refusal)) return pack(saved, t);
        if (!is_leaf_edge(saved->history)) return tni_tensor_twin(t, &saved->tensor);
    }
    saved->tensor = tn_retain(t);
    return TN_OK;
}

int32_t tni_save_apart(tni_saved *saved, tn_tensor *t, tni_edge edge)
{
    int32_t differentiable = tni_is_differentiable(t->desc.dtype);
    *saved = (tni_saved){.output = TNI_SAVED_INPUT, .borrows = 1, .history = edge};
    if (TNI_UNLIKELY(t->state & TNI_INFERENCE)) return refuse_inference();
    if (TNI_UNLIKELY(!differentiable)) saved->history = (tni_edge){NULL, 0};
    return keep(saved, t, differentiable);
}

int32_t tni_save_tensor(tni_saved *saved, tn_tensor *t, uint32_t output)
{
    *saved = (tni_saved){.output = output};
    if (!t) return TN_OK;
    if (t->state & TNI_INFERENCE) return refuse_inference();
    int32_t differentiable = tni_is_differentiable(t->desc.dtype);
    if (output == TNI_SAVED_INPUT && differentiable) {
        int32_t status = tni_gradient_edge(t, &saved->history);
        if (status) return status;
        tni_node_retain(saved->history.node);
    }
    return keep(saved, t, differentiable);
}

int32_t tni_save_constant(tni_saved *saved, tn_tensor *t)
{
    tn_tensor *alias = NULL;
    int32_t status = t ? tni_tensor_twin(t, &alias) : TN_OK;
    if (!status) status = tni_save_tensor(saved, alias, TNI_SAVED_INPUT);
    tn_release(alias);
    return status;
}

static __attribute__((noinline)) int32_t refuse_written(const tni_saved *saved, const tn_node *node,
                                                        uint64_t now)
{
    const tn_tensor *t = saved->tensor;
    char text[320], origin[96] = "";
    if (saved->output != TNI_SAVED_INPUT)
        snprintf(origin, sizeof origin, ", which is output %u of %s,", saved->output, tn_node_name(node));
    else if (saved->history.node && !saved->history.node->is_leaf)
        snprintf(origin, sizeof origin, ", which is output %u of %s,", saved->history.input,
                 tn_node_name(saved->history.node));
    return tni_error(
        TN_E_AUTOGRAD,
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "%s%s is at version %llu; expected version %llu instead.",
        tni_tensor_text(t, text, sizeof text), origin, (unsigned long long)now,
        (unsigned long long)saved->version);
}

static tn_tensor *fail(tn_scope *s, int32_t status)
{
    tni_scope_record(s, status);
    return NULL;
}

static __attribute__((noinline)) tn_tensor *unpack_hooks(const tni_saved *saved, tn_scope *s, tn_node *node)
{
    const tni_packed *packed = saved->packed;
    const uint32_t lent = tni_scope_lend(s);
    tn_tensor *t = packed->hooks.unpack(packed->hooks.user, s, packed->value);
    tni_scope_take_back(s, lent);
    if (tn_scope_failed(s)) return NULL;
    if (!t)
        return fail(s, tni_error(TN_E_AUTOGRAD,
                                 "saved_tensors_hooks: the unpack hook returned NULL (expected a tensor)"));
    tn_node *source = saved->output == TNI_SAVED_INPUT ? saved->history.node : node;
    if (!tni_grad_enabled() || !source) return t;
    tn_tensor *alias = NULL;
    int32_t status = tni_tensor_twin(t, &alias);
    if (status) return fail(s, status);
    tni_scope_own(s, alias);
    uint32_t output = saved->output == TNI_SAVED_INPUT ? saved->history.input : saved->output;
    status = tni_set_history(alias, tni_node_retain(source), output);
    return status ? fail(s, status) : alias;
}

/* For recorded runs. */
static __attribute__((noinline)) tn_tensor *unpack_with_history(const tni_saved *saved, tn_scope *s,
                                                                tn_node *node)
{
    tni_edge history = saved->output == TNI_SAVED_INPUT ? saved->history : (tni_edge){node, saved->output};
    if (!history.node || is_leaf_edge(history)) return saved->tensor;
    tn_tensor *alias = NULL;
    int32_t status = tni_tensor_twin(saved->tensor, &alias);
    if (!status) status = tni_set_history(alias, tni_node_retain(history.node), history.input);
    if (status) {
        tn_release(alias);
        return fail(s, status);
    }
    return tni_scope_own(s, alias);
}

tn_tensor *tni_unpack(const tni_saved *saved, tn_scope *s, tn_node *node)
{
    const tn_tensor *t = saved->tensor;
    if (TNI_UNLIKELY(!t)) return saved->packed ? unpack_hooks(saved, s, node) : NULL;
    uint64_t now = atomic_load_explicit(&t->storage->version, memory_order_relaxed);
    if (TNI_UNLIKELY(now != saved->version && !saved->copied))
        return fail(s, refuse_written(saved, node, now));
    return TNI_LIKELY(!tni_grad_enabled()) ? saved->tensor : unpack_with_history(saved, s, node);
}

static void copy_saved(tni_saved *to, const tni_saved *from, uint32_t count)
{
    memcpy(to, from, count * sizeof *to);
    for (uint32_t i = 0; i < count; i++) {
        if (!to[i].is_edge) tn_retain(to[i].tensor);
        if (!to[i].borrows) tni_node_retain(to[i].history.node);
        if (to[i].packed) atomic_fetch_add_explicit(&to[i].packed->refs, 1, memory_order_relaxed);
    }
}

tni_saved *tni_saved_copy(tn_node *node, const tni_saved *saved, uint32_t count, tn_scope *s)
{
    tni_saved *copies = tn_scope_memory(s, count * sizeof *copies);
    if (!copies) return NULL;
    tni_spin_lock(&node->lock);
    uint32_t freed = node->freed;
    if (!freed) copy_saved(copies, saved, count);
    tni_spin_unlock(&node->lock);
    return freed ? tni_saved_refuse(s) : copies;
}

static void release_packed(tni_packed *packed)
{
    /* Others have it: this was a run that keeps the graph. It is told while its reference still holds. */
    if (packed->read && atomic_load_explicit(&packed->refs, memory_order_acquire) > 1)
        packed->read(packed->hooks.user, packed->value);
    if (atomic_fetch_sub_explicit(&packed->refs, 1, memory_order_acq_rel) != 1) return;
    if (packed->hooks.destroy) packed->hooks.destroy(packed->hooks.user, packed->value);
    tni_free(packed->ctx, packed, sizeof *packed);
}

void tni_saved_finish(tni_saved *saved, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!saved[i].is_edge && saved[i].tensor) tn_release(saved[i].tensor);
        if (TNI_UNLIKELY(saved[i].packed != NULL)) release_packed(saved[i].packed);
        if (!saved[i].borrows) tni_node_release(saved[i].history.node);
    }
}

tni_saved *tni_saved_refuse(tn_scope *s)
{
    tni_scope_record(
        s, tni_error(
               TN_E_AUTOGRAD,
               "Trying to backward through the graph a second time (or directly access saved tensors after "
               "they have already been freed). Saved intermediate values of the graph are freed when you "
               "call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
               "through the graph a second time or if you need to access saved tensors after calling "
               "backward. (In C: .retain_graph = 1 of tn_backward_with.)"));
    return NULL;
}
