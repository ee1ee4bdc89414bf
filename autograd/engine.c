/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine. The calling thread runs the graph: of all nodes whose gradients are complete, the one recorded
 * last runs first, and its results go to the nodes that its edges lead to. Gradients of one input are summed
 * in place if the engine alone holds one of them. The engine writes nothing to the graph but saved tensors,
 * under the locks of their nodes.
 */
#include "autograd/engine.h"
#include "autograd/anomaly.h"

#include "core/profile.h"
#include "core/scope.h"
#include "dispatcher/registry.h"

#include <stdio.h>
#include <string.h>

#include <tenon/ops.h>

/* ---- ready entries: a heap by sequence number ---- */

static inline __attribute__((always_inline)) void push(tni_backward_run *run, tni_entry *e)
{
    uint32_t i = run->heap_count++;
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;
        if (run->heap[parent]->node->sequence >= e->node->sequence) break;
        run->heap[i] = run->heap[parent];
        i = parent;
    }
    run->heap[i] = e;
}

static tni_entry *pop(tni_backward_run *run)
{
    tni_entry *top = run->heap[0], *last = run->heap[--run->heap_count];
    uint32_t i = 0, n = run->heap_count;
    for (uint32_t child = 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && run->heap[child + 1]->node->sequence > run->heap[child]->node->sequence) child++;
        if (last->node->sequence >= run->heap[child]->node->sequence) break;
        run->heap[i] = run->heap[child];
        i = child;
    }
    if (n) run->heap[i] = last;
    return top;
}

/* ---- streams ---- */

/* The caller's stream: gradients are created on it, read from it, and stored in leaves on it. */
static tn_stream *caller_stream(const tni_backward_run *run, tni_device *device)
{
    return run->left && run->left->device == device ? run->left : tni_current_stream(device);
}

/* The forward call's stream, or NULL if it was closed: closing waited for its work. */
static tn_stream *own_stream(const tn_node *node)
{
    tn_stream *own = node->is_leaf ? NULL : node->stream;
    return own && atomic_load_explicit(&own->id, memory_order_relaxed) != TNI_DEAD_STREAM ? own : NULL;
}

/*
 * The stream on which a node works with a tensor of this device: the node's own on its device, else the
 * caller's. NULL if nothing has to be ordered.
 */
static inline __attribute__((always_inline)) tn_stream *stream_of(const tni_backward_run *run,
                                                                  const tn_node *node, const tn_tensor *t)
{
    tni_device *device = t->storage->device;
    if (TNI_LIKELY(!device || device->synchronous)) return NULL;
    tn_stream *own = own_stream(node);
    return own && own->device == device ? own : caller_stream(run, device);
}

/* A gradient made on one stream is used on another. */
static int32_t hand_over(tn_tensor *grad, tn_stream *from, tn_stream *to)
{
    if (!from || !to || from == to) return TN_OK;
    int32_t status = tn_stream_wait_stream(to, from);
    return status ? status : tn_record_stream(grad, to);
}

/* Makes a stream current. Returns the one that was current before, or NULL if it is the same. */
static tn_stream *switch_stream(tn_context *ctx, tn_stream *to)
{
    if (!to) return NULL;
    tn_stream *now = tni_current_stream(to->device);
    if (now == to) return NULL;
    return tn_stream_set_current(ctx, to) ? NULL : now;
}

static int32_t leave_stream(tni_backward_run *run, tn_stream *from)
{
    tn_stream *to = run->left;
    run->left = NULL;
    tn_stream_set_current(run->ctx, to);
    for (uint32_t i = 0; i < run->n_visited; i++) {
        if (run->visited[i] == from) return TN_OK;
    }
    if (run->n_visited == TNI_VISITED) return tn_stream_wait_stream(to, from);
    run->visited[run->n_visited++] = from;
    return TN_OK;
}

/*
 * For the program the run is one call on its own streams, so these wait for all streams that nodes or hooks
 * used.
 */
static int32_t join_streams(const tni_backward_run *run)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < run->n_visited && !status; i++)
        status = tn_stream_wait_stream(tni_current_stream(run->visited[i]->device), run->visited[i]);
    return status;
}

/* ---- gradients on their way ---- */

static __attribute__((noinline)) int32_t add_to_gradient(tni_backward_run *run, tn_scope *s, tn_tensor **in,
                                                         tn_tensor *grad)
{
    tn_tensor *old = *in, *sum;
    int32_t in_place = !run->goal->create_graph && old->desc.dtype == grad->desc.dtype;
    if (in_place && tni_is_exclusive(old))
        sum = tn_add_(s, old, grad);
    else if (in_place && tni_is_exclusive(grad))
        sum = tn_add_(s, grad, old);
    else
        sum = tn_add(s, old, grad);
    if (sum && sum != old) {
        *in = tni_scope_disown(s, sum) ? sum : tn_retain(sum);
        tn_release(old);
    }
    tn_release(grad);
    return s->status;
}

/* Adds `grad` (takes over the reference) to the gradients that have arrived. */
static inline int32_t add_gradient(tni_backward_run *run, tn_scope *s, tn_tensor **in, tn_tensor *grad)
{
    if (*in) return add_to_gradient(run, s, in, grad);
    *in = grad;
    return TN_OK;
}

/* The same on the stream of the node that takes the sum, after all work that computes `grad`. */
static int32_t add_on_stream(tni_backward_run *run, tn_scope *s, tn_tensor **in, tn_tensor *grad,
                             tn_stream *stream)
{
    tn_stream *before = *in ? switch_stream(run->ctx, stream) : NULL;
    int32_t status = add_gradient(run, s, in, grad);
    if (before) tn_stream_set_current(run->ctx, before);
    return status;
}

/* Gives a gradient (takes over the reference), complete on stream `from`, to a node. */
static inline int32_t bring(tni_backward_run *run, tn_scope *s, tni_entry *to, uint32_t input,
                            tn_tensor *grad, tn_stream *from)
{
    tn_stream *stream = stream_of(run, to->node, grad);
    if (TNI_LIKELY(!stream)) return add_gradient(run, s, to->in + input, grad);
    int32_t status = hand_over(grad, from, stream);
    if (!status) return add_on_stream(run, s, to->in + input, grad, stream);
    tn_release(grad);
    return status;
}

/* Counts an arrival; the node is ready when all have come. */
static void arrive(tni_backward_run *run, tni_entry *to)
{
    if (--to->missing == 0) push(run, to);
}

/* Gives the results of a node to the nodes that its edges lead to. */
static int32_t deliver(tni_backward_run *run, tn_scope *s, tni_entry *e, tn_tensor **out)
{
    const tn_node *node = e->node;
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < node->n_edges; i++) {
        tni_entry *to = e->next[i];
        tn_tensor *grad = out[i];
        out[i] = NULL;
        if (!tni_is_wanted(run, to) || status) {
            if (grad) tn_release(grad);
            continue;
        }
        if (grad) {
            uint32_t input = node->edges[i].input;
            tni_meta leaf_note, *note = to->node->inputs + input;
            if (to->node->is_leaf) {
                leaf_note = tni_note(((tni_leaf_node *)to->node)->tensor);
                note = &leaf_note;
            }
            tn_tensor *fit = tni_fit_gradient(s, grad, note, node, i);
            if (TNI_UNLIKELY(fit != grad)) { /* a change, which may fail */
                if (fit) {
                    tn_retain(fit);
                    tn_release(grad);
                    grad = fit;
                }
                status = tn_scope_failed(s);
            }
            if (TNI_UNLIKELY(status))
                tn_release(grad);
            else
                status = bring(run, s, to, input, grad, stream_of(run, node, grad));
        }
        if (!status) arrive(run, to);
    }
    return status;
}

/* ---- running a node ---- */

static int32_t any_defined(tn_tensor *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i]) return 1;
    }
    return 0;
}

static int32_t capture(tni_backward_run *run, const tni_entry *e)
{
    const tni_goal *goal = run->goal;
    for (int64_t i = 0; goal->captures && i < goal->inputs.count; i++) {
        if (run->inputs[i].node != e->node) continue;
        tn_tensor *grad = e->in[run->inputs[i].input];
        if (!grad) continue;
        tni_device *device = grad->storage->device;
        int32_t status = TN_OK;
        if (device && !device->synchronous)
            status = hand_over(grad, stream_of(run, e->node, grad), caller_stream(run, device));
        if (status) return status;
        goal->captures[i] = tn_retain(grad);
    }
    return TN_OK;
}

/* Which edges need a gradient; NULL: all. */
static int32_t find_wanted(const tni_backward_run *run, tn_scope *s, const tni_entry *e, const uint8_t **out)
{
    uint32_t n = e->node->n_edges;
    *out = NULL;
    if (!run->goal->inputs.count || !n) return TN_OK;
    uint8_t *wanted = tn_scope_memory(s, n);
    if (!wanted) return tn_scope_failed(s);
    for (uint32_t i = 0; i < n; i++) wanted[i] = (uint8_t)tni_is_wanted(run, e->next[i]);
    *out = wanted;
    return TN_OK;
}

#define OUT_INLINE 16

static int32_t run_node(tni_backward_run *run, tn_scope *s, tni_entry *e)
{
    tn_node *node = e->node;
    tn_tensor *inline_out[OUT_INLINE], **out = inline_out;
    uint32_t n = node->n_edges;
    if (n > OUT_INLINE) {
        out = tn_scope_memory(s, n * sizeof *out);
        if (!out) return tn_scope_failed(s);
    }
    for (uint32_t i = 0; i < n; i++) out[i] = NULL;
    tni_step step = {.scope = s, .in = e->in, .out = out, .keep = run->goal->keep_graph};
    int32_t status = TN_OK, hooked = tni_hook_count(node) != 0;
    if (hooked) status = tni_run_node_hooks(node, TNI_HOOK_PRE, s, e->in, node->n_inputs);
    if (!status && (node->type->runs_undefined || any_defined(e->in, node->n_inputs))) {
        status = find_wanted(run, s, e, &step.wanted);
        if (!status) status = node->type->run(node, &step);
        if (TNI_UNLIKELY(run->finds_anomalies && !status)) status = tni_anomaly_check(s, node, out);
    }
    for (uint32_t i = 0; i < node->n_inputs;
         i++) { /* released early, so that the receiver may be the only holder and add in place */
        if (e->in[i]) tn_release(e->in[i]);
        e->in[i] = NULL;
    }
    if (!status && hooked) status = tni_run_node_hooks(node, TNI_HOOK_POST, s, out, n);
    if (!status) status = deliver(run, s, e, out);
    for (uint32_t i = 0; i < n; i++) {
        if (out[i]) tn_release(out[i]);
    }
    return status;
}

/* `s` is emptied after each entry, so that gradients are freed as soon as they have been used. */
static int32_t run_entry(tni_backward_run *run, tn_scope *s, tni_entry *e)
{
    tn_stream *own = own_stream(e->node);
    run->left = switch_stream(run->ctx, own);
    int32_t status = tni_hook_count(e->node) ? tni_run_tensor_hooks(e->node, s, e->in) : TN_OK;
    if (!status && e->captured) status = capture(run, e);
    if (!status && (!run->goal->inputs.count || e->needed)) status = run_node(run, s, e);
    if (run->left) {
        int32_t left = leave_stream(run, own);
        if (!status) status = left;
    }
    if (status && !tn_scope_failed(s)) tni_scope_record(s, status);
    if (TNI_UNLIKELY(status && run->finds_anomalies)) tni_anomaly_explain(s, e->node);
    tni_scope_empty(s);
    return status;
}

/* A node in a profile has the name that tn_format shows, "MulBackward0". */
static __attribute__((noinline)) uint64_t begin_profile(tn_context *ctx, const tn_node *node)
{
    char name[200];
    snprintf(name, sizeof name, "%s%s", tn_node_name(node), node->is_leaf ? "" : "0");
    return tni_profile_enter(ctx, &(tni_profile_site){.kind = TN_PROFILE_BACKWARD, .name = name});
}

static int32_t run_entries(tni_backward_run *run)
{
    int32_t status = TN_OK;
    tn_scope *s = tn_scope_open_child(run->scope, NULL);
    if (!s) return TN_E_OUT_OF_MEMORY;
    const uint32_t lent = tni_scope_lend(s); /* to hooks and functions of the program */
    while (!status && run->heap_count) {
        tni_entry *e = pop(run);
        uint64_t token = TNI_UNLIKELY(tni_is_profiled(run->ctx)) ? begin_profile(run->ctx, e->node) : 0;
        status = run_entry(run, s, e);
        if (TNI_UNLIKELY(token)) tni_profile_leave(run->ctx, token);
    }
    tni_scope_take_back(s, lent);
    tn_scope_close(s);
    return status;
}

/* ---- a whole run ---- */

static tn_tensor *root_gradient(tn_scope *s, const tni_goal *goal, int64_t i)
{
    tn_tensor *root = goal->roots.data[i], *given = i < goal->grads.count ? goal->grads.data[i] : NULL;
    return given ? given : tn_ones_like(s, root);
}

static int32_t start(tni_backward_run *run)
{
    const tni_goal *goal = run->goal;
    tn_scope *s = run->scope;
    for (int64_t i = 0; i < goal->roots.count; i++) {
        tni_edge edge;
        int32_t status = tni_gradient_edge(goal->roots.data[i], &edge);
        tn_tensor *grad = status ? NULL : root_gradient(s, goal, i);
        tni_meta note = tni_note(goal->roots.data[i]);
        if (grad) grad = tni_fit_gradient(s, grad, &note, edge.node, edge.input);
        if (!grad) return status ? status : tn_scope_failed(s);
        tni_entry *e = tni_entry_find(run, edge.node);
        tni_device *device = grad->storage->device;
        tn_stream *from = device && !device->synchronous ? caller_stream(run, device) : NULL;
        status = bring(run, s, e, edge.input, tn_retain(grad), from);
        if (status) return status;
    }
    for (uint32_t i = 0; i < run->count && run->all[i]->is_root; i++) {
        if (run->all[i]->missing == 0) push(run, run->all[i]);
    }
    return TN_OK;
}

static int32_t call_back(tni_backward_run *run)
{
    const uint32_t lent = tni_scope_lend(run->scope);
    for (uint32_t i = 0; i < run->callbacks.count; i++) { /* a callback may queue another */
        tni_callback c = ((tni_callback *)run->callbacks.data)[i];
        c.run(c.user, run->scope);
        if (tn_scope_failed(run->scope)) break;
    }
    tni_scope_take_back(run->scope, lent);
    return tn_scope_failed(run->scope);
}

static int32_t run_all(tni_backward_run *run)
{
    int32_t status = tni_plan(run);
    if (!status) status = start(run);
    if (!status) status = run_entries(run);
    if (!status) status = join_streams(run);
    if (!status) status = call_back(run);
    return status;
}

int32_t tni_engine_run(tn_scope *s, const tni_goal *goal)
{
    tni_backward_run run = {.outer = tni_tls.engine,
                            .ctx = s->ctx,
                            .goal = goal,
                            .finds_anomalies = tni_autograd_of(s->ctx)->anomaly != NULL};
    tn_scope_options options = {.size = sizeof options,
                                .grad_mode = goal->create_graph ? TN_GRAD_ON : TN_GRAD_OFF};
    run.scope = tn_scope_open_child(s, &options);
    if (!run.scope) return TN_E_OUT_OF_MEMORY;
    uint32_t excluded = tni_tls.excluded_layers;
    /* Gradients are computed in the dtypes of the forward calls. */
    tni_tls.excluded_layers =
        (excluded & ~TNI_LAYER_BIT(TNI_LAYER_AUTOGRAD)) | TNI_LAYER_BIT(TNI_LAYER_AUTOCAST);
    tni_tls.engine = &run;
    int32_t status = run_all(&run);
    tni_tls.engine = run.outer;
    tni_tls.excluded_layers = excluded;
    tni_plan_finish(&run);
    if (status && !tn_scope_failed(run.scope)) tni_scope_record(run.scope, status);
    tn_scope_close(run.scope);
    return status;
}

int32_t tn_queue_callback(tn_scope *s, void (*callback)(void *user, tn_scope *s), void *user)
{
    tni_backward_run *run = tni_tls.engine;
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (!run || !callback)
        return tni_scope_record(
            s, tni_error(TN_E_STATE, "Final callbacks can only be installed during backward pass."));
    tni_callback *slot = tni_vector_push(run->ctx, &run->callbacks, sizeof *slot);
    if (!slot) return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    *slot = (tni_callback){callback, user};
    return TN_OK;
}
