/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of nodes and tensors. A hook of a non-leaf tensor belongs to the node that made the tensor. The
 * tensor keeps handle and node, so that a handle stays valid after an in-place call has replaced the node.
 * The list of a node is copied under its lock before the hooks run, so hooks may add and remove hooks.
 */
#include "autograd/graph.h"

#include "core/scope.h"
#include "core/shape.h"

#include <string.h>

/*
 * What a hook's function gets as `user`: the node holds one reference, and each backward call that copied the hook
 * another. Each hook has it from the start, since a call may have copied the hook before it gets its `destroy`.
 */
typedef struct tni_hook_user {
    atomic_uint refs;
    tn_context *ctx;
    void *user;
    void (*destroy)(void *user); /* NULL: the program keeps `user`; written under the node's lock */
} tni_hook_user;

static void release_user(tni_hook_user *owner)
{
    if (!owner || atomic_fetch_sub_explicit(&owner->refs, 1, memory_order_acq_rel) != 1) return;
    if (owner->destroy) owner->destroy(owner->user);
    tni_free(owner->ctx, owner, sizeof *owner);
}

void tni_hooks_finish(tn_node *node)
{
    const tni_hook *hooks = node->hooks.data;
    for (uint32_t i = 0; i < node->hooks.count; i++) release_user(hooks[i].owner);
    tni_vector_finish(node->ctx, &node->hooks, sizeof *hooks);
}

/* Hooks of the program; those of other kinds have no `user` that it gave. */
static int32_t has_user(const tni_hook *hook)
{
    const uint32_t kinds =
        1u << TNI_HOOK_TENSOR | 1u << TNI_HOOK_PRE | 1u << TNI_HOOK_POST | 1u << TNI_HOOK_ACCUMULATE;
    return (int32_t)(kinds >> hook->kind & 1u);
}

int32_t tni_hook_add(tn_node *node, const tni_hook *hook, uint64_t *out_handle)
{
    tni_hook copy = *hook;
    if (has_user(hook)) {
        copy.owner = tni_alloc(node->ctx, sizeof *copy.owner);
        if (!copy.owner) return TN_E_OUT_OF_MEMORY;
        *copy.owner = (tni_hook_user){.ctx = node->ctx, .user = hook->user};
        atomic_init(&copy.owner->refs, 1);
    }
    copy.handle = 1 + atomic_fetch_add_explicit(&tni_autograd_of(node->ctx)->handle, 1, memory_order_relaxed);
    tni_spin_lock(&node->lock);
    tni_hook *slot = tni_vector_push(node->ctx, &node->hooks, sizeof *slot);
    if (slot) *slot = copy;
    atomic_store_explicit(&node->n_hooks, node->hooks.count, memory_order_relaxed);
    tni_spin_unlock(&node->lock);
    if (!slot) {
        release_user(copy.owner);
        return TN_E_OUT_OF_MEMORY;
    }
    if (out_handle) *out_handle = copy.handle;
    return TN_OK;
}

static void remove_at(tn_node *node, uint32_t i)
{
    tni_vector *v = &node->hooks;
    tni_hook *hooks = v->data;
    memmove(hooks + i, hooks + i + 1, (v->count - i - 1) * sizeof *hooks);
    v->count--;
    atomic_store_explicit(&node->n_hooks, v->count, memory_order_relaxed);
}

/* The index of a hook in the node's list, whose lock is held; the number of hooks if there is no such hook. */
static uint32_t index_of(const tn_node *node, uint64_t handle)
{
    const tni_hook *hooks = node->hooks.data;
    uint32_t i = 0;
    while (i < node->hooks.count && hooks[i].handle != handle) i++;
    return i;
}

void tni_hook_drop(tn_node *node, uint64_t handle)
{
    tni_hook_user *owner = NULL;
    tni_spin_lock(&node->lock);
    const uint32_t i = index_of(node, handle);
    if (i < node->hooks.count) {
        owner = ((const tni_hook *)node->hooks.data)[i].owner;
        remove_at(node, i);
    }
    tni_spin_unlock(&node->lock);
    release_user(owner);
}

void tni_hook_drop_retain(tn_node *node, const tn_tensor *t)
{
    tni_spin_lock(&node->lock);
    const tni_hook *hooks = node->hooks.data;
    for (uint32_t i = node->hooks.count; i-- > 0;) {
        if (hooks[i].kind == TNI_HOOK_RETAIN && hooks[i].as.retain == t) remove_at(node, i);
    }
    tni_spin_unlock(&node->lock);
}

/* One more reference, unless the last one was released. */
static int32_t try_retain(tn_tensor *t)
{
    uint32_t refs = atomic_load_explicit(&t->refs, memory_order_relaxed);
    while (refs != 0) {
        if (atomic_compare_exchange_weak_explicit(&t->refs, &refs, refs + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return 1;
    }
    return 0;
}

/* Copies the hooks of some kinds into the scope; tensors that retain gradients come with a reference. */
static int32_t copy_hooks(tn_node *node, tn_scope *s, uint32_t kinds, tni_hook **out, uint32_t *out_count)
{
    *out_count = 0;
    uint32_t room = tni_hook_count(node);
    if (!room) return TN_OK;
    tni_hook *copy = tn_scope_memory(s, room * sizeof *copy);
    if (!copy) return tn_scope_failed(s);
    tni_spin_lock(&node->lock);
    const tni_hook *hooks = node->hooks.data;
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->hooks.count && n < room; i++) {
        if (!(kinds >> hooks[i].kind & 1u)) continue;
        if (hooks[i].kind == TNI_HOOK_RETAIN && !try_retain(hooks[i].as.retain)) continue;
        if (hooks[i].kind == TNI_HOOK_MULTI) tni_multi_hook_retain(hooks[i].as.multi->hook);
        if (hooks[i].owner) atomic_fetch_add_explicit(&hooks[i].owner->refs, 1, memory_order_relaxed);
        copy[n++] = hooks[i];
    }
    tni_spin_unlock(&node->lock);
    *out = copy;
    *out_count = n;
    return TN_OK;
}

/* Replaces a reference by one to the result of a hook, which the scope owns and which is as the gradient was. */
static int32_t replace(tn_scope *s, tn_tensor **grad, tn_tensor *by)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (!by || by == *grad) return TN_OK;
    const tn_tensor_desc *was = &(*grad)->desc, *is = &by->desc;
    char old[256], new[256];
    int32_t status = TN_OK;
    if (is->dtype != was->dtype)
        status = tni_error(TN_E_AUTOGRAD, "hook has changed the type of value (was %s got %s)",
                           tn_dtype_name(was->dtype), tn_dtype_name(is->dtype));
    else if (tn_tensor_device(by) != tn_tensor_device(*grad))
        status = tni_error(TN_E_AUTOGRAD, "hook has changed the device of value");
    else if (is->rank != was->rank || memcmp(is->sizes, was->sizes, was->rank * sizeof *was->sizes) != 0)
        status = tni_error(TN_E_AUTOGRAD, "hook has changed the size of value (was %s got %s)",
                           tni_shape_text(was->rank, was->sizes, old, sizeof old),
                           tni_shape_text(is->rank, is->sizes, new, sizeof new));
    if (status) return tni_scope_record(s, status);
    tn_retain(by);
    tn_release(*grad);
    *grad = by;
    return TN_OK;
}

static int32_t retain_one(tn_scope *s, tn_tensor *t, tn_tensor *grad)
{
    if (!grad) return TN_OK;
    tn_tensor *kept = NULL;
    if (tni_grad_enabled())
        kept = tn_retain(grad);
    else if (tni_tensor_twin(grad, &kept))
        return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    return tni_accumulate(s, t, kept);
}

int32_t tni_run_tensor_hooks(tn_node *node, tn_scope *s, tn_tensor **grads)
{
    tni_hook *hooks = NULL;
    uint32_t n = 0;
    uint32_t kinds = 1u << TNI_HOOK_TENSOR | 1u << TNI_HOOK_MULTI | 1u << TNI_HOOK_RETAIN;
    int32_t status = copy_hooks(node, s, kinds, &hooks, &n);
    for (uint32_t i = 0; i < n && !status; i++) {
        tn_tensor **grad = grads + hooks[i].input;
        if (hooks[i].kind == TNI_HOOK_MULTI) status = tni_multi_hook_visit(hooks[i].as.multi, s, *grad);
        if (hooks[i].kind != TNI_HOOK_TENSOR || !*grad) continue;
        status = replace(s, grad, hooks[i].as.tensor(hooks[i].user, s, *grad));
    }
    for (uint32_t i = 0; i < n; i++) {
        release_user(hooks[i].owner);
        if (hooks[i].kind == TNI_HOOK_MULTI) tni_multi_hook_release(hooks[i].as.multi->hook);
        if (hooks[i].kind != TNI_HOOK_RETAIN) continue;
        if (!status) status = retain_one(s, hooks[i].as.retain, grads[hooks[i].input]);
        tn_release(hooks[i].as.retain);
    }
    return status;
}

/*
 * A hook may swap gradients, so all new ones are retained before an old one is released. NULL keeps the old
 * one.
 */
static void replace_all(tn_tensor **grads, tn_tensor **by, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) by[i] = tn_retain(by[i] ? by[i] : grads[i]);
    for (uint32_t i = 0; i < count; i++) {
        tn_release(grads[i]);
        grads[i] = by[i];
    }
}

int32_t tni_run_node_hooks(tn_node *node, uint32_t kind, tn_scope *s, tn_tensor **grads, uint32_t count)
{
    tni_hook *hooks = NULL;
    uint32_t n = 0;
    int32_t status = copy_hooks(node, s, 1u << kind, &hooks, &n);
    if (status || !n) return status;
    tn_tensor **seen = tn_scope_memory(s, (count + 1) * sizeof *seen);
    for (uint32_t i = 0; seen && i < n && !status; i++) {
        memcpy(seen, grads, count * sizeof *seen);
        status = hooks[i].as.node(hooks[i].user, s, seen, count);
        if (status && !tn_scope_failed(s)) tni_scope_record(s, tni_error_ensure(status, "hook of a node"));
        status = tn_scope_failed(s);
        if (!status) replace_all(grads, seen, count);
    }
    for (uint32_t i = 0; i < n; i++) release_user(hooks[i].owner);
    return seen ? status : tn_scope_failed(s);
}

void tni_run_accumulate_hooks(tn_node *node, tn_scope *s, tn_tensor *leaf)
{
    tni_hook *hooks = NULL;
    uint32_t n = 0;
    if (copy_hooks(node, s, 1u << TNI_HOOK_ACCUMULATE, &hooks, &n)) return;
    for (uint32_t i = 0; i < n; i++) {
        if (!tn_scope_failed(s)) hooks[i].as.accumulate(hooks[i].user, s, leaf);
        release_user(hooks[i].owner);
    }
}

/* ---- public ---- */

static int32_t register_on(tn_tensor *t, const tni_hook *hook, tn_node *node, uint64_t *out_handle)
{
    uint64_t handle = 0;
    tni_hook_place *place = NULL;
    if (!node->is_leaf) {
        place = tni_vector_push(t->ctx, &t->autograd->places, sizeof *place);
        if (!place) return TN_E_OUT_OF_MEMORY;
        *place = (tni_hook_place){0, NULL};
    }
    int32_t status = tni_hook_add(node, hook, &handle);
    if (status) {
        if (place) t->autograd->places.count--;
        return status;
    }
    if (place) *place = (tni_hook_place){handle, tni_node_retain(node)};
    if (out_handle) *out_handle = handle;
    return TN_OK;
}

int32_t tn_register_hook(tn_tensor *t, tn_tensor_hook hook, void *user, uint64_t *out_handle)
{
    int32_t status = tni_tensor_given(t, "register_hook: the tensor");
    if (!status && !hook) status = tni_error(TN_E_ARGUMENT, "register_hook: the hook is NULL");
    if (status) return status;
    tni_edge edge;
    status = tni_gradient_edge(t, &edge);
    if (status) return status;
    if (!edge.node)
        return tni_error(TN_E_AUTOGRAD, "cannot register a hook on a tensor that doesn't require gradient");
    tni_hook h = {.kind = TNI_HOOK_TENSOR, .input = edge.input, .user = user, .as.tensor = hook};
    return register_on(t, &h, edge.node, out_handle);
}

int32_t tn_register_accumulate_hook(tn_tensor *leaf, tn_accumulate_hook hook, void *user,
                                    uint64_t *out_handle)
{
    int32_t status = tni_tensor_given(leaf, "register_accumulate_hook: the tensor");
    if (!status && !hook) status = tni_error(TN_E_ARGUMENT, "register_accumulate_hook: the hook is NULL");
    if (status) return status;
    if (!tni_wants_grad(leaf))
        return tni_error(TN_E_AUTOGRAD, "cannot register a hook on a tensor that doesn't require gradient");
    if (!tn_is_leaf(leaf))
        return tni_error(TN_E_AUTOGRAD,
                         "post accumulate grad hooks cannot be registered on non-leaf tensors");
    tni_hook h = {.kind = TNI_HOOK_ACCUMULATE, .user = user, .as.accumulate = hook};
    return register_on(leaf, &h, &leaf->autograd->leaf->node, out_handle);
}

void tn_hook_remove(tn_tensor *t, uint64_t handle)
{
    tni_autograd_meta *meta = t ? t->autograd : NULL;
    if (!meta) return;
    if (meta->leaf) tni_hook_drop(&meta->leaf->node, handle);
    tni_hook_place *places = meta->places.data;
    for (uint32_t i = 0; i < meta->places.count; i++) {
        if (places[i].handle != handle) continue;
        tn_node *node = places[i].node;
        places[i] = places[--meta->places.count];
        tni_hook_drop(node, handle);
        tni_node_release(node);
        return;
    }
}

int32_t tn_node_register_hook(tn_node *node, int32_t pre, tn_node_hook hook, void *user, uint64_t *out_handle)
{
    if (!node || !hook) return tni_error(TN_E_ARGUMENT, "register_hook: the node or the hook is NULL");
    tni_hook h = {.kind = pre ? TNI_HOOK_PRE : TNI_HOOK_POST, .user = user, .as.node = hook};
    return tni_hook_add(node, &h, out_handle);
}

/* Of the hooks of a node. */
static int32_t own_user(tn_node *node, uint64_t handle, void (*destroy)(void *user))
{
    int32_t status = TN_E_NOT_FOUND;
    tni_spin_lock(&node->lock);
    const uint32_t i = index_of(node, handle);
    tni_hook_user *owner = i < node->hooks.count ? ((const tni_hook *)node->hooks.data)[i].owner : NULL;
    if (owner) status = owner->destroy ? TN_E_EXISTS : TN_OK;
    if (!status) owner->destroy = destroy;
    tni_spin_unlock(&node->lock);
    if (!status) return TN_OK;
    return tni_error(status, status == TN_E_EXISTS ? "hook_on_destroy: the hook has such a function already"
                                                   : "hook_on_destroy: there is no hook with this handle");
}

int32_t tn_hook_on_destroy(tn_tensor *t, uint64_t handle, void (*destroy)(void *user))
{
    int32_t status = tni_tensor_given(t, "hook_on_destroy: the tensor");
    if (!status && !destroy) status = tni_error(TN_E_ARGUMENT, "hook_on_destroy: the function is NULL");
    if (status) return status;
    const tni_autograd_meta *meta = t->autograd;
    tn_node *node = meta && meta->leaf ? &meta->leaf->node : NULL;
    const tni_hook_place *places = meta ? meta->places.data : NULL;
    for (uint32_t i = 0; meta && i < meta->places.count; i++)
        if (places[i].handle == handle) node = places[i].node;
    if (node) return own_user(node, handle, destroy);
    return tni_error(TN_E_NOT_FOUND, "hook_on_destroy: there is no hook with this handle");
}

int32_t tn_node_hook_on_destroy(tn_node *node, uint64_t handle, void (*destroy)(void *user))
{
    if (!node || !destroy)
        return tni_error(TN_E_ARGUMENT, "hook_on_destroy: the node or the function is NULL");
    return own_user(node, handle, destroy);
}

void tn_node_hook_remove(tn_node *node, uint64_t handle)
{
    if (node) tni_hook_drop(node, handle);
}
