/* SPDX-License-Identifier: Apache-2.0 */
/* What autograd adds to a context: its state, the recording layer, the rules of built-in operators. */
#include "autograd/anomaly.h"
#include "autograd/record.h"
#include "autograd/saved_tensor.h"

#include <stdio.h>
#include <string.h>

/*
 * Frees the metadata of a tensor that is destroyed. Uses the context's memory only: the rooms may be
 * finished.
 */
static void destroy_meta(tn_context *ctx, tni_autograd_meta *meta)
{
    if (meta->retains_grad && meta->grad_fn) tni_hook_drop_retain(meta->grad_fn, meta->tensor);
    tni_hook_place *places = meta->places.data;
    for (uint32_t i = 0; i < meta->places.count; i++) tni_node_release(places[i].node);
    if (places) tni_vector_finish(ctx, &meta->places, sizeof *places);
    tni_node_release(meta->grad_fn);
    if (meta->grad) tn_release(meta->grad);
    if (meta->leaf) {
        tni_hooks_finish(&meta->leaf->node);
        meta->leaf->node.type->destroy(&meta->leaf->node);
    }
    tni_free(ctx, meta, sizeof *meta);
}

/* The suffix that printing appends. */
static void describe(const tn_tensor *t, char *buffer, uint64_t bytes)
{
    const tn_node *node = tn_grad_fn(t);
    if (node)
        snprintf(buffer, bytes, "grad_fn=<%s0>", tn_node_name(node));
    else
        snprintf(buffer, bytes, "%s", tn_requires_grad(t) ? "requires_grad=True" : "");
}

static const tni_autograd_hooks hooks = {
    .destroy = destroy_meta, .describe = describe, .placed = tni_anomaly_placed};

int32_t tni_autograd_init(tn_context *ctx, const tn_context_options *options)
{
    (void)options;
    tni_autograd_state *state = tni_alloc_zeroed(ctx, sizeof *state);
    if (!state) return TN_E_OUT_OF_MEMORY;
    pthread_mutex_init(&state->lock, NULL);
    pthread_mutex_init(&state->views, NULL);
    tni_recursive_lock_init(&state->gradients);
    ctx->autograd_state = state;
    ctx->autograd = &hooks;
    for (uint32_t i = 0; i < tni_builtin_gradient_count; i++) {
        tni_op *op = tni_op_get(ctx->registry, tni_builtin_gradients[i].op);
        if (op) op->gradient = tni_builtin_gradients + i;
    }
    tni_layer_set(ctx, TNI_LAYER_AUTOGRAD, tni_autograd_layer, 0);
    int32_t status = tni_anomaly_init(ctx);
    if (status) tni_autograd_finish(ctx);
    return status;
}

void tni_autograd_finish(tn_context *ctx)
{
    tni_autograd_state *state = ctx->autograd_state;
    if (!state) return;
    for (uint32_t i = 0; state->names && i < TNI_MAX_OPS; i++) {
        if (state->names[i]) tni_free(ctx, state->names[i], strlen(state->names[i]) + 1);
    }
    tni_free(ctx, state->names, TNI_MAX_OPS * sizeof *state->names);
    tni_custom_finish(ctx);
    tni_saved_hooks_finish(ctx);
    tni_anomaly_finish(ctx);
    pthread_mutex_destroy(&state->gradients);
    pthread_mutex_destroy(&state->views);
    pthread_mutex_destroy(&state->lock);
    tni_free(ctx, state, sizeof *state);
    ctx->autograd_state = NULL;
}
