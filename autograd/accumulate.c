/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves: where gradients end. The first gradient is stored as it is if nobody else holds it and its strides
 * are those that the leaf asks for (the leaf's own if it is dense, else row-major). Later ones are added in
 * place, or out of place while the backward run is itself recorded.
 */
#include "autograd/graph.h"

#include "core/graph.h"
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
    int32_t status = tni_accumulate(step->scope, leaf->tensor, grad);
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
    tni_recursive_lock_init(&leaf->lock);
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

/* The stream on which a run has written last, with a reference unless it is the default one; NULL: nothing is under way. */
static tn_stream *last_stream(const tni_leaf_node *leaf)
{
    tn_stream *last = leaf->added_on;
    int32_t life = last ? tni_stream_retain_live(last, leaf->added_on_id) : TNI_STREAM_GONE;
    if (life == TNI_STREAM_ENDING)
        tni_late_keep(last->device, tni_device_wait(last->device), "waiting for a stream that is released");
    return life == TNI_STREAM_LIVE ? last : NULL;
}

/*
 * Two threads, or one thread after another, may run backward on streams of their own and add to the gradient of one leaf.
 * (A tensor that is not a leaf gets its gradients on the stream of its node.) The program orders a capture behind the work
 * outside that it needs.
 */
static int32_t follow_last(tni_leaf_node *leaf, tn_tensor *grad, tn_stream *stream)
{
    tn_stream *last = leaf->added_on == stream || !grad ? NULL : last_stream(leaf);
    int32_t status = TN_OK;
    if (last && tni_stream_capture(last) == tni_stream_capture(stream)) {
        status = tn_stream_wait_stream(stream, last);
        if (!status) status = tn_record_stream(grad, stream);
    }
    if (last && leaf->added_on_id) tn_stream_release(last);
    leaf->added_on = stream;
    leaf->added_on_id = atomic_load_explicit(&stream->id, memory_order_relaxed);
    return status;
}

/* `old` is a reference of its own: a function of the program that runs meanwhile may replace the gradient. */
static tn_tensor *add(tn_scope *s, tn_tensor *t, tn_tensor *old, tn_tensor *grad)
{
    int64_t strides[TN_MAX_RANK];
    tn_stream *stream = tni_working_stream(grad);
    int32_t status =
        TNI_UNLIKELY(stream && t->autograd->leaf) ? follow_last(t->autograd->leaf, old, stream) : TN_OK;
    wanted_strides(t, strides);
    if (status) tni_scope_record(s, status);
    if (status) return NULL;
    return old ? next_gradient(s, old, grad, strides) : first_gradient(s, grad, strides);
}

int32_t tni_accumulate(tn_scope *s, tn_tensor *t, tn_tensor *grad)
{
    tni_autograd_meta *meta = t->autograd;
    pthread_mutex_t *lock = tni_grad_lock(t);
    pthread_mutex_lock(lock);
    tn_tensor *old = tn_retain(meta->grad), *now = add(s, t, old, grad), *before = NULL;
    if (now) {
        before = meta->grad;
        meta->grad = now;
    }
    pthread_mutex_unlock(lock);
    tn_release(before);
    tn_release(old);
    tn_release(grad);
    return now ? TN_OK : tn_scope_failed(s);
}
