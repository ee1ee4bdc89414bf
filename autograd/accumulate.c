/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves: where gradients end. The first gradient is stored as it is if nobody else holds it and its strides
 * are those that the leaf asks for (the leaf's own if it is dense, else row-major). Later ones are added in
 * place, or out of place while the backward run is itself recorded.
 */
#include "autograd/graph.h"

#include "core/scope.h"
#include "core/shape.h"

#include <string.h>

#include <tenon/ops.h>

static const char *leaf_name(const tn_node *node)
{
    (void)node;
    return "AccumulateGrad";
}

static int32_t leaf_run(tn_node *node, tni_step *step)
{
    tni_leaf_node *leaf = (tni_leaf_node *)node;
    tn_tensor *grad = step->in[0];
    if (!grad || !(leaf->tensor->state & TNI_WANTS_GRAD)) return TN_OK; /* it may have been detached since */
    step->in[0] =
        NULL; /* the engine's reference moves to the leaf, so that the leaf may keep the tensor itself */
    int32_t status = tni_accumulate(step->scope, leaf->tensor, &leaf->lock, grad);
    if (!status && tni_hook_count(node)) tni_run_accumulate_hooks(node, step->scope, leaf->tensor);
    return status;
}

static void leaf_destroy(tn_node *node)
{
    tni_leaf_node *leaf = (tni_leaf_node *)node;
    pthread_mutex_destroy(&leaf->lock);
    tni_free(node->ctx, leaf, sizeof *leaf);
}

static const tni_node_class leaf_class = {.run = leaf_run, .name = leaf_name, .destroy = leaf_destroy};

tni_leaf_node *tni_leaf_create(tn_tensor *t)
{
    tni_leaf_node *leaf = tni_alloc_zeroed(t->ctx, sizeof *leaf);
    if (!leaf) return NULL;
    tni_node_init(&leaf->node, t->ctx, &leaf_class, sizeof *leaf);
    leaf->node.sequence = UINT64_MAX;
    leaf->node.is_leaf = 1;
    leaf->node.n_inputs = 1;
    leaf->tensor = t;
    pthread_mutex_init(&leaf->lock, NULL);
    return leaf;
}

/* The strides that the gradient of t should have. */
static void wanted_strides(const tn_tensor *t, int64_t *out)
{
    if (t->state & TNI_DENSE)
        memcpy(out, t->desc.strides, t->desc.rank * sizeof *out);
    else
        tni_contiguous_strides(t->desc.rank, t->desc.sizes, out);
}

static int32_t has_strides(const tn_tensor *grad, const int64_t *strides)
{
    for (uint32_t i = 0; i < grad->desc.rank; i++) {
        if (grad->desc.sizes[i] != 1 && grad->desc.strides[i] != strides[i]) return 0;
    }
    return 1;
}

/* A copy with the strides that t asks for. The caller owns a reference. Recorded if the grad mode says so. */
static tn_tensor *copy_laid_out(tn_scope *s, tn_tensor *grad, const int64_t *strides)
{
    tn_ints sizes = {grad->desc.sizes, grad->desc.rank}, wanted = {strides, grad->desc.rank};
    tn_tensor *copy = tn_new_empty_strided(s, grad, sizes, wanted);
    copy = tn_copy_(s, copy, grad);
    return tn_scope_failed(s) ? NULL : tn_retain(copy);
}

static tn_tensor *first_gradient(tn_scope *s, tn_tensor *grad, const int64_t *strides)
{
    if (!tni_grad_enabled() && tni_is_exclusive(grad) && !grad->desc.flags && has_strides(grad, strides))
        return tn_retain(grad);
    return copy_laid_out(s, grad, strides);
}

static tn_tensor *next_gradient(tn_scope *s, tn_tensor *old, tn_tensor *grad, const int64_t *strides)
{
    if (!tni_grad_enabled()) return tn_retain(tn_add_(s, old, grad));
    tn_tensor *sum = tn_add(s, old, grad);
    if (tn_scope_failed(s)) return NULL;
    return has_strides(sum, strides) ? tn_retain(sum) : copy_laid_out(s, sum, strides);
}

int32_t tni_accumulate(tn_scope *s, tn_tensor *t, pthread_mutex_t *lock, tn_tensor *grad)
{
    int64_t strides[TN_MAX_RANK];
    wanted_strides(t, strides);
    tni_autograd_meta *meta = tni_meta_ensure(t);
    if (!meta) {
        tn_release(grad);
        return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    }
    pthread_mutex_lock(lock);
    tn_tensor *old = meta->grad;
    tn_tensor *now = old ? next_gradient(s, old, grad, strides) : first_gradient(s, grad, strides);
    if (now) meta->grad = now;
    pthread_mutex_unlock(lock);
    tn_release(grad);
    if (now) tn_release(old);
    return now ? TN_OK : tn_scope_failed(s);
}
