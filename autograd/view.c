/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-place calls on views and their bases. A base and its views share a storage, so writing one changes the
 * others. The write is recorded on the base, as a function of the part that the view shows. A view whose
 * storage was written since its history was made gets a new history: it is a part of the base.
 */
#include "autograd/graph.h"

#include "core/scope.h"

#include <string.h>

#include <tenon/ops.h>

/* ---- a view as a part of its base ---- */

typedef struct view_node {
    tn_node node;
    tni_geometry base;
    tni_geometry view;
    tni_meta note;
    tni_edge edge;
} view_node;

static int32_t view_run(tn_node *node, tni_step *step)
{
    view_node *n = (view_node *)node;
    if (step->in[0])
        step->out[0] = tn_retain(tni_gradient_of_base(step->scope, step->in[0], &n->base, &n->view));
    return tn_scope_failed(step->scope);
}

static const char *view_name(const tn_node *node)
{
    (void)node;
    return "AsStridedBackward";
}

static const tni_node_class view_class = {.run = view_run, .name = view_name, .destroy = tni_node_free};

static int32_t make_view_node(tn_tensor *view, tni_edge base_edge, view_node **out)
{
    view_node *n = tni_alloc_zeroed(view->ctx, sizeof *n);
    if (!n) return TN_E_OUT_OF_MEMORY;
    tni_node_init(&n->node, view->ctx, &view_class, sizeof *n);
    tni_geometry_of(view->base, &n->base);
    tni_geometry_of(view, &n->view);
    n->note = tni_note(view);
    n->note.sizes = n->view.sizes;
    n->node.stream = tni_working_stream(view);
    n->node.inputs = &n->note;
    n->node.n_inputs = n->node.n_edges = 1;
    n->edge = base_edge;
    tni_lead_to(&n->node, base_edge.node);
    n->node.edges = &n->edge;
    *out = n;
    return TN_OK;
}

/* Another thread that reads the view may bring it up to date at this moment. */
static int32_t is_current(const tn_tensor *view)
{
    tni_autograd_meta *meta = __atomic_load_n(&view->autograd, __ATOMIC_ACQUIRE);
    if (!meta) return 0;
    if (view->state & TNI_LEAF) return 1; /* a leaf of its own */
    uint64_t version = atomic_load_explicit(&meta->view_version, memory_order_acquire);
    return version == atomic_load_explicit(&view->storage->version, memory_order_relaxed) && meta->grad_fn;
}

static int32_t refresh(tn_tensor *view, tn_node **out_old)
{
    tni_edge edge;
    int32_t status = is_current(view) ? TN_OK : tni_gradient_edge(view->base, &edge);
    if (status || is_current(view) || !edge.node) return status;
    view_node *n;
    status = make_view_node(view, edge, &n);
    return status ? status : tni_follow_base(view, &n->node, out_old);
}

int32_t tni_view_refresh(tn_tensor *view)
{
    if (is_current(view)) return TN_OK;
    pthread_mutex_t *lock = &tni_autograd_of(view->ctx)->views;
    tn_node *old = NULL;
    pthread_mutex_lock(lock);
    int32_t status = refresh(view, &old);
    pthread_mutex_unlock(lock);
    tni_node_release(old); /* it may call the program */
    return status;
}

/* ---- a write to a part of a base ---- */

typedef struct slices_node {
    tn_node node;
    tn_node *inner; /* of the in-place call, a reference */
    uint32_t self;  /* its edge to the overwritten value */
    tni_geometry base;
    tni_geometry view;
    tni_meta note;
    tni_edge edges[]; /* of the base before the write, then those of inner without self */
} slices_node;

static int32_t run_inner(slices_node *n, tni_step *step, tn_tensor *part, tn_tensor **grads)
{
    uint8_t *wanted = tn_scope_memory(step->scope, n->inner->n_edges + 1u);
    if (!wanted) return tn_scope_failed(step->scope);
    for (uint32_t i = 0; i < n->inner->n_edges; i++)
        wanted[i] = i == n->self || !step->wanted || step->wanted[1 + i];
    tni_step inner = {step->scope, &part, grads, wanted, step->keep};
    return n->inner->type->run(n->inner, &inner);
}

static int32_t slices_run(tn_node *node, tni_step *step)
{
    slices_node *n = (slices_node *)node;
    tn_scope *s = step->scope;
    if (!step->in[0]) return TN_OK;
    tn_tensor *part = NULL, *whole = tni_lay_out(s, step->in[0], &n->base, &n->view, &part);
    part = tn_clone(s, part);
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    tn_tensor **grads = step->out + 1;
    int32_t status = run_inner(n, step, part, grads);
    if (status) return status;
    tn_tensor *of_self = grads[n->self];
    grads[n->self] = NULL;
    if (of_self) tn_scope_adopt(s, of_self);
    whole = tni_lay_out(s, step->in[0], &n->base, &n->view, &part);
    if (of_self) {
        tni_meta note = n->inner->inputs[0];
        tn_copy_(s, part, tni_fit_gradient(s, of_self, &note, n->inner, n->self));
    } else {
        tn_zero_(s, part);
    }
    step->out[0] = tn_retain(whole);
    return tn_scope_failed(s);
}

static const char *slices_name(const tn_node *node)
{
    (void)node;
    return "CopySlices";
}

static void slices_destroy(tn_node *node)
{
    slices_node *n = (slices_node *)node;
    tni_node_release(n->inner);
    tni_free(node->ctx, node, node->bytes);
}

static const tni_node_class slices_class = {
    .run = slices_run, .name = slices_name, .destroy = slices_destroy};

int32_t tni_view_rebase(tn_tensor *view, tn_node *node, uint32_t self)
{
    tn_tensor *base = view->base;
    tni_edge edge;
    int32_t status = tni_gradient_edge(base, &edge);
    if (status) return status;
    uint64_t bytes = sizeof(slices_node) + (node->n_edges + 1u) * sizeof(tni_edge);
    slices_node *n = tni_alloc_zeroed(view->ctx, bytes);
    if (!n) return TN_E_OUT_OF_MEMORY;
    tni_node_init(&n->node, view->ctx, &slices_class, bytes);
    tni_geometry_of(base, &n->base);
    tni_geometry_of(view, &n->view);
    n->note = tni_note(base);
    n->note.sizes = n->base.sizes;
    n->node.inputs = &n->note;
    n->node.n_inputs = 1;
    n->node.n_edges = node->n_edges + 1;
    n->node.edges = n->edges;
    n->node.stream = node->stream;
    n->inner = tni_node_retain(node);
    n->self = self;
    n->edges[0] = edge;
    tni_lead_to(&n->node, edge.node);
    for (uint32_t i = 0; i < node->n_edges; i++) {
        if (i == self) continue;
        n->edges[1 + i] = node->edges[i];
        tni_lead_to(&n->node, node->edges[i].node);
    }
    status = tni_set_history(base, &n->node, 0);
    if (status) return status;
    if (view->autograd)
        atomic_store(&view->autograd->view_version, UINT64_MAX); /* its history must be updated */
    return tni_view_refresh(view);
}
