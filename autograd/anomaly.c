/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TENON_DEBUG=anomaly: backward fails at the first node that gives a NaN, and its errors name the call of the forward pass
 * that made the node. The place of a call is known when the call has returned, so the nodes that it makes wait for it here.
 * A node keeps its place as a hook that never runs: without the variable nodes are no larger for it.
 */
#include "autograd/anomaly.h"

#include "core/debug.h"
#include "core/scope.h"
#include "dispatcher/rooms.h"

#include <stdio.h>

/* A node that was made by a call whose place follows. */
typedef struct made {
    const void *thread; /* its tni_tls */
    tn_node *node;      /* a reference */
} made;

struct tni_anomaly {
    pthread_mutex_t lock;
    tni_vector nodes; /* made; those of a thread go when its call is placed */
};

static const char *place_of(tn_node *node)
{
    const char *place = NULL;
    tni_spin_lock(&node->lock);
    const tni_hook *hooks = node->hooks.data;
    for (uint32_t i = 0; i < node->hooks.count && !place; i++)
        if (hooks[i].kind == TNI_HOOK_PLACE) place = hooks[i].user;
    tni_spin_unlock(&node->lock);
    return place;
}

/* Without memory the node has no place, and nothing else happens. */
void tni_anomaly_note(tn_node *node)
{
    struct tni_anomaly *a = node ? tni_autograd_of(node->ctx)->anomaly : NULL;
    if (!a || node->is_leaf || !tni_tls.place_follows || place_of(node)) return;
    pthread_mutex_lock(&a->lock);
    made *m = tni_vector_push(node->ctx, &a->nodes, sizeof *m);
    if (m) *m = (made){&tni_tls, tni_node_retain(node)};
    pthread_mutex_unlock(&a->lock);
}

static void note_result(const tn_tensor *t)
{
    if (!t) return;
    tni_anomaly_note(tn_grad_fn(t));
    if (t->base) tni_anomaly_note(tn_grad_fn(t->base)); /* it may have been written through the view */
}

static void leave(void *user, const tn_call_info *info, uint64_t token)
{
    (void)user, (void)token;
    for (uint32_t i = 0; i < info->n_outs && !info->status; i++) {
        const tn_value *v = &info->outs[i];
        if (v->tag == TN_TAG_TENSOR) note_result(v->as.tensor);
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++) note_result(v->as.tensors[k]);
    }
}

/* A node of this thread, whose reference the caller gets, or NULL. */
static tn_node *take(struct tni_anomaly *a)
{
    tn_node *node = NULL;
    pthread_mutex_lock(&a->lock);
    made *all = a->nodes.data;
    for (uint32_t i = a->nodes.count; i-- > 0 && !node;) {
        if (all[i].thread != &tni_tls) continue;
        node = all[i].node;
        all[i] = all[--a->nodes.count];
    }
    pthread_mutex_unlock(&a->lock);
    return node;
}

void tni_anomaly_placed(tn_context *ctx, const char *place)
{
    struct tni_anomaly *a = tni_autograd_of(ctx)->anomaly;
    uint32_t id = tn_intern(ctx, place);
    const tni_hook hook = {.kind = TNI_HOOK_PLACE, .user = (void *)(uintptr_t)tn_interned(ctx, id)};
    for (tn_node *node = take(a); node; node = take(a)) {
        if (hook.user) (void)tni_hook_add(node, &hook, NULL);
        tni_node_release(node);
    }
}

int32_t tni_anomaly_check(tn_scope *s, const tn_node *node, tn_tensor *const *grads)
{
    for (uint32_t i = 0; i < node->n_edges; i++) {
        if (!grads[i] || tni_first_nan(grads[i]) < 0) continue;
        return tni_scope_record(s, tni_error(TN_E_AUTOGRAD,
                                             "Function '%s0' returned nan values in its %uth output.",
                                             tn_node_name(node), i));
    }
    return TN_OK;
}

void tni_anomaly_explain(tn_scope *s, tn_node *node)
{
    const char *place = place_of(node);
    char text[512];
    snprintf(text, sizeof text, " (error detected in %s%s%s%s)", tn_node_name(node), node->is_leaf ? "" : "0",
             place ? ", recorded at " : "", place ? place : "");
    tn_scope_add_to_error(s, text);
}

int32_t tni_anomaly_init(tn_context *ctx)
{
    uint64_t handle;
    const tn_observer observer = {.size = sizeof observer, .leave = leave};
    if (!(tni_debug_wishes(ctx) & TNI_DEBUG_ANOMALY)) return TN_OK;
    struct tni_anomaly *a = tni_alloc_zeroed(ctx, sizeof *a);
    if (!a) return TN_E_OUT_OF_MEMORY;
    pthread_mutex_init(&a->lock, NULL);
    tni_autograd_of(ctx)->anomaly = a;
    return tn_observer_add(ctx, &observer, &handle);
}

void tni_anomaly_finish(tn_context *ctx)
{
    struct tni_anomaly *a = tni_autograd_of(ctx)->anomaly;
    if (!a) return;
    tni_vector_finish(ctx, &a->nodes, sizeof(made));
    pthread_mutex_destroy(&a->lock);
    tni_free(ctx, a, sizeof *a);
}
