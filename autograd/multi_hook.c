/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of several tensors. Each tensor's node has a place of the hook. A backward run keeps beside its plan
 * which gradients have arrived, so that several runs can go on at once. The plan says how many will arrive:
 * every entry that a run visits is visited once, with a gradient or without.
 */
#include <string.h>
#include "autograd/engine.h"
#include "core/scope.h"

struct tn_multi_hook {
    atomic_uint refs; /* the program's, and one for each copy that runs */
    uint32_t mode;
    tn_context *ctx;
    tn_multi_hook_fn run;
    void *user;
    uint64_t bytes;
    uint32_t count;
    tni_multi_place places[];
};

/* What one run has seen of a hook. */
struct tni_multi_state {
    tni_multi_state *next;
    const tn_multi_hook *hook;
    uint32_t missing; /* places not visited yet; 0: the hook was called */
    tn_tensor *grads[];
};

void tni_multi_hook_retain(tn_multi_hook *hook)
{
    atomic_fetch_add_explicit(&hook->refs, 1, memory_order_relaxed);
}

void tni_multi_hook_release(tn_multi_hook *hook)
{
    if (atomic_fetch_sub_explicit(&hook->refs, 1, memory_order_acq_rel) != 1) return;
    tn_context *ctx = hook->ctx;
    for (uint32_t i = 0; i < hook->count; i++) tni_node_release(hook->places[i].node);
    tni_free(ctx, hook, hook->bytes);
    tni_context_unown(ctx);
}

static tni_multi_state *state_of(tni_backward_run *run, const tn_multi_hook *hook)
{
    tni_multi_state *state = run->multi;
    while (state && state->hook != hook) state = state->next;
    if (state) return state;
    uint64_t bytes = sizeof *state + hook->count * sizeof *state->grads;
    state = tni_run_memory(run, bytes);
    if (!state) return NULL;
    memset(state, 0, bytes);
    state->hook = hook;
    for (uint32_t i = 0; i < hook->count; i++)
        state->missing += tni_is_wanted(run, tni_entry_find(run, hook->places[i].node)) != 0;
    tni_multi_hook_retain((tn_multi_hook *)(uintptr_t)hook);
    state->next = run->multi;
    run->multi = state;
    return state;
}

int32_t tni_multi_hook_visit(const tni_multi_place *place, tn_scope *s, tn_tensor *grad)
{
    tn_multi_hook *hook = place->hook;
    tni_multi_state *state = state_of(tni_tls.engine, hook);
    uint32_t index = (uint32_t)(place - hook->places);
    if (!state) return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    if (!state->missing) return TN_OK;
    if (hook->mode == TN_MULTI_HOOK_ANY) {
        if (!grad) return TN_OK;
        state->missing = 0;
        hook->run(hook->user, s, &grad, 1);
        return tn_scope_failed(s);
    }
    state->grads[index] = tn_retain(grad);
    if (--state->missing) return TN_OK;
    hook->run(hook->user, s, state->grads, hook->count);
    return tn_scope_failed(s);
}

void tni_multi_states_finish(tni_backward_run *run)
{
    for (tni_multi_state *state = run->multi; state; state = state->next) {
        for (uint32_t i = 0; i < state->hook->count; i++) tn_release(state->grads[i]);
        tni_multi_hook_release((tn_multi_hook *)(uintptr_t)state->hook);
    }
}

/* ---- public ---- */

static int32_t check(tn_tensors tensors, uint32_t mode, tn_multi_hook_fn hook)
{
    if (!tensors.data || tensors.count < 1 || !hook)
        return tni_error(TN_E_ARGUMENT,
                         "register_multi_hook: the hook is NULL, or the list of tensors is empty");
    if (mode > TN_MULTI_HOOK_ANY)
        return tni_error(TN_E_ARGUMENT,
                         "register_multi_hook: argument 'mode': unknown mode (got %u, expected a "
                         "TN_MULTI_HOOK_... constant)",
                         mode);
    for (int64_t i = 0; i < tensors.count; i++) {
        if (!tensors.data[i])
            return tni_error(TN_E_ARGUMENT, "register_multi_hook: tensor %lld is NULL", (long long)i);
    }
    return TN_OK;
}

static int32_t add_place(tn_multi_hook *hook, tn_tensor *t, uint32_t i)
{
    tni_edge edge;
    tni_multi_place *place = &hook->places[i];
    int32_t status = tni_gradient_edge(t, &edge);
    if (status) return status;
    if (!edge.node)
        return tni_error(TN_E_AUTOGRAD, "register_multi_hook: tensor %u does not require a gradient", i);
    place->hook = hook;
    tni_hook h = {.kind = TNI_HOOK_MULTI, .input = edge.input, .as.multi = place};
    status = tni_hook_add(edge.node, &h, &place->handle);
    if (!status) place->node = tni_node_retain(edge.node);
    return status;
}

int32_t tn_register_multi_hook(tn_tensors tensors, uint32_t mode, tn_multi_hook_fn hook, void *user,
                               tn_multi_hook **out)
{
    int32_t status = check(tensors, mode, hook);
    if (status) return status;
    tn_context *ctx = tensors.data[0]->ctx;
    uint64_t bytes = sizeof(tn_multi_hook) + (uint64_t)tensors.count * sizeof(tni_multi_place);
    tn_multi_hook *h = tni_alloc_zeroed(ctx, bytes);
    if (!h) return TN_E_OUT_OF_MEMORY;
    atomic_init(&h->refs, 1);
    h->mode = mode;
    h->ctx = ctx;
    h->run = hook;
    h->user = user;
    h->bytes = bytes;
    h->count = (uint32_t)tensors.count;
    tni_context_own(ctx);
    for (uint32_t i = 0; i < h->count && !status; i++) status = add_place(h, tensors.data[i], i);
    if (status)
        tn_multi_hook_remove(h);
    else
        *out = h;
    return status;
}

void tn_multi_hook_remove(tn_multi_hook *hook)
{
    if (!hook) return;
    for (uint32_t i = 0; i < hook->count; i++) {
        if (hook->places[i].node) tni_hook_drop(hook->places[i].node, hook->places[i].handle);
    }
    tni_multi_hook_release(hook);
}
