/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions with a gradient of their own, written in a program. `forward` runs unrecorded. If an input takes
 * part in autograd, the call becomes a node, which owns what was saved and calls `destroy` at its end.
 */
#include "autograd/anomaly.h"
#include "autograd/record.h"

#include "core/context.h"
#include "core/scope.h"

#include <stdio.h>
#include <string.h>

#include <tenon/ops.h>

typedef struct function_node {
    tn_node node;
    tn_function function; /* a copy; its name is `name` */
    void *user;
    char *name;
    uint64_t name_bytes;
    tni_saved *saved;
    uint32_t n_saved;
    tni_edge *edges;
    tni_meta *notes; /* sizes and dtypes of the outputs, then of the inputs */
    int64_t *sizes;  /* of all notes */
    uint64_t n_sizes;
    uint32_t n_outs;
    uint32_t n_ins;
} function_node;

/*
 * The handle that forward and backward get while they run. Each backward run has its own, as several threads
 * may run one node.
 */
struct tn_function_call {
    function_node *node;
    const tni_saved *saved; /* backward: what this run took or copied */
    tn_tensors to_save;     /* forward: references */
    tni_vector dirty;       /* forward: tn_tensor * */
    tni_vector non_differentiable;
};

static void forget_tensors(tn_function_call *call)
{
    for (int64_t i = 0; i < call->to_save.count; i++) tn_release(call->to_save.data[i]);
    tni_free(call->node->node.ctx, (void *)(uintptr_t)call->to_save.data,
             (uint64_t)call->to_save.count * sizeof(tn_tensor *));
    call->to_save = (tn_tensors){NULL, 0};
}

static void finish_call(tn_function_call *call)
{
    tn_context *ctx = call->node->node.ctx;
    forget_tensors(call);
    tni_vector_finish(ctx, &call->dirty, sizeof(tn_tensor *));
    tni_vector_finish(ctx, &call->non_differentiable, sizeof(tn_tensor *));
}

/* ---- backward ---- */

static tn_tensor *zeros_of(tn_scope *s, const tni_meta *note)
{
    int64_t none = 0;
    tn_ints sizes = {note->rank ? note->sizes : &none, note->rank};
    return tn_zeros(s, sizes, .dtype = note->dtype, .device = note->device);
}

static int32_t prepare_gradients(const function_node *c, tni_step *step, tn_tensor **grads)
{
    int32_t materialise = !(c->function.flags & TN_FUNCTION_NO_MATERIALIZE);
    for (uint32_t i = 0; i < c->n_outs; i++) {
        grads[i] = step->in[i];
        if (!grads[i] && materialise) grads[i] = zeros_of(step->scope, c->notes + i);
    }
    return tn_scope_failed(step->scope);
}

/* A function marked as once differentiable: differentiating its gradients is an error. */
static void raise_on_second(tn_scope *s, tni_grad *g)
{
    (void)g;
    tni_scope_record(
        s, tni_error(TN_E_AUTOGRAD,
                     "trying to differentiate twice a function that was marked with @once_differentiable"));
}

typedef struct once_node {
    tn_node node;
    tni_meta note;
    tni_edge edge;
    int64_t sizes[]; /* of the note: the gradient may be freed before its node */
} once_node;

static int32_t once_run(tn_node *node, tni_step *step)
{
    (void)node;
    raise_on_second(step->scope, NULL);
    return tn_scope_failed(step->scope);
}

static const char *once_name(const tn_node *node)
{
    (void)node;
    return "Error";
}

static const tni_node_class once_class = {.run = once_run, .name = once_name, .destroy = tni_node_free};

static int32_t mark_once(tn_tensor *grad, tn_tensor *source)
{
    tni_edge edge;
    int32_t status = tni_gradient_edge(source, &edge);
    if (status || !edge.node) return status;
    const uint64_t size_bytes = grad->desc.rank * sizeof *grad->desc.sizes,
                   bytes = sizeof(once_node) + size_bytes;
    once_node *n = tni_alloc_zeroed(grad->ctx, bytes);
    if (!n) return TN_E_OUT_OF_MEMORY;
    tni_node_init(&n->node, grad->ctx, &once_class, bytes);
    n->note = tni_note(grad);
    n->note.sizes = n->sizes;
    memcpy(n->sizes, grad->desc.sizes, size_bytes);
    n->node.inputs = &n->note;
    n->node.n_inputs = n->node.n_edges = 1;
    n->node.edges = &n->edge;
    n->edge = edge;
    tni_lead_to(&n->node, edge.node);
    return tni_set_history(grad, &n->node, 0);
}

tn_tensor *tni_mark_once(tn_scope *s, tn_tensor *grad, tn_tensors sources)
{
    tn_tensor *twin = NULL;
    int64_t k = 0;
    while (k < sources.count && !(sources.data[k] && tni_wants_grad(sources.data[k]))) k++;
    if (k == sources.count || !tni_is_differentiable(grad->desc.dtype)) return grad;
    int32_t status = tni_tensor_twin(grad, &twin);
    if (!status) status = mark_once(twin, sources.data[k]);
    if (!status) return tni_scope_own(s, twin);
    tn_release(twin);
    tni_scope_record(s, status);
    return NULL;
}

int32_t tni_check_gradient_kind(const char *name, const char *argument, uint32_t i, const tn_tensor *grad,
                                tn_dtype dtype)
{
    char number[16];
    if (!tn_dtype_is_complex(grad->desc.dtype) || tn_dtype_is_complex(dtype)) return TN_OK;
    snprintf(number, sizeof number, "%u", i);
    return tni_error(TN_E_AUTOGRAD, "%s: the gradient of argument %s%s%s is %s, but the argument is %s", name,
                     argument ? "'" : "", argument ? argument : number, argument ? "'" : "",
                     tn_dtype_name(grad->desc.dtype), tn_dtype_name(dtype));
}

static int32_t call_backward(function_node *c, const tni_saved *saved, tni_step *step, tn_tensor **grads,
                             tn_tensor **out)
{
    tn_scope *s = step->scope;
    tn_function_call call = {.node = c, .saved = saved};
    int32_t once = (c->function.flags & TN_FUNCTION_ONCE_DIFFERENTIABLE) && tni_grad_enabled();
    uint32_t mode = tn_grad_mode();
    if (once) tn_set_grad_mode(TN_GRAD_OFF);
    int32_t status = c->function.backward(&call, s, (tn_tensors){grads, c->n_outs}, out);
    tn_set_grad_mode(mode);
    finish_call(&call);
    if (status && !tn_scope_failed(s)) tni_scope_record(s, tni_error_ensure(status, c->name));
    for (uint32_t i = 0; i < c->n_ins && !tn_scope_failed(s); i++) {
        if (out[i]) status = tni_check_gradient_kind(c->name, NULL, i, out[i], c->notes[c->n_outs + i].dtype);
        if (out[i] && status) tni_scope_record(s, status);
        if (once && out[i] && !status) out[i] = tni_mark_once(s, out[i], (tn_tensors){grads, c->n_outs});
    }
    return tn_scope_failed(s);
}

static int32_t function_run(tn_node *node, tni_step *step)
{
    function_node *c = (function_node *)node;
    tn_scope *s = step->scope;
    tni_saved *saved = c->n_saved ? tni_saved_take(node, c->saved, c->n_saved, step) : NULL;
    if (c->n_saved && !saved) return tn_scope_failed(s);
    tn_tensor **grads = tn_scope_memory(s, (c->n_outs + 1u) * sizeof *grads);
    tn_tensor **out = tn_scope_memory(s, (c->n_ins + 1u) * sizeof *out);
    int32_t status = tn_scope_failed(s);
    if (!status) {
        memset(out, 0, (c->n_ins + 1u) * sizeof *out);
        status = prepare_gradients(c, step, grads);
    }
    if (!status) status = call_backward(c, saved, step, grads, out);
    for (uint32_t i = 0; i < c->n_ins && !status; i++) {
        if (c->edges[i].node && out[i]) step->out[i] = tn_retain(out[i]);
    }
    tni_saved_finish(saved, c->n_saved);
    return status;
}

static const char *function_name(const tn_node *node)
{
    return ((const function_node *)node)->name;
}

static void function_destroy(tn_node *node)
{
    function_node *c = (function_node *)node;
    tn_context *ctx = node->ctx;
    if (c->saved && !node->freed) tni_saved_finish(c->saved, c->n_saved);
    tni_free(ctx, c->saved, c->n_saved * sizeof *c->saved);
    if (c->function.destroy) c->function.destroy(c->user);
    tni_free(ctx, c->edges, c->n_ins * sizeof *c->edges);
    tni_free(ctx, c->notes, (c->n_outs + c->n_ins) * sizeof *c->notes);
    tni_free(ctx, c->sizes, c->n_sizes * sizeof *c->sizes);
    tni_free(ctx, c->name, c->name_bytes);
    tni_free(ctx, c, sizeof *c);
}

static const tni_node_class function_class = {
    .run = function_run, .name = function_name, .destroy = function_destroy, .runs_undefined = 1};

/* ---- forward ---- */

static int32_t note_all(function_node *c, tn_tensors inputs, tn_tensor *const *outs)
{
    uint64_t n = 0, at = 0;
    for (uint32_t i = 0; i < c->n_outs; i++) n += outs[i] ? outs[i]->desc.rank : 0;
    for (uint32_t i = 0; i < c->n_ins; i++) n += inputs.data[i] ? inputs.data[i]->desc.rank : 0;
    c->n_sizes = n + 1;
    c->sizes = tni_alloc(c->node.ctx, c->n_sizes * sizeof *c->sizes);
    c->notes = tni_alloc_zeroed(c->node.ctx, (c->n_outs + c->n_ins) * sizeof *c->notes);
    if (!c->sizes || !c->notes) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < c->n_outs + c->n_ins; i++) {
        const tn_tensor *t = i < c->n_outs ? outs[i] : inputs.data[i - c->n_outs];
        if (!t) continue;
        c->notes[i] = tni_note(t);
        c->notes[i].sizes = c->sizes + at;
        memcpy(c->sizes + at, t->desc.sizes, t->desc.rank * sizeof *c->sizes);
        at += t->desc.rank;
    }
    c->node.inputs = c->notes;
    return TN_OK;
}

static int32_t connect(function_node *c, tn_tensors inputs)
{
    c->edges = tni_alloc_zeroed(c->node.ctx, (c->n_ins ? c->n_ins : 1) * sizeof *c->edges);
    if (!c->edges) return TN_E_OUT_OF_MEMORY;
    c->node.edges = c->edges;
    c->node.n_edges = c->n_ins;
    for (uint32_t i = 0; i < c->n_ins; i++) {
        if (!inputs.data[i]) continue;
        int32_t status = tni_gradient_edge(inputs.data[i], c->edges + i);
        if (status) return status;
        tni_lead_to(&c->node, c->edges[i].node);
    }
    return TN_OK;
}

static int32_t list_has(const tni_vector *v, const tn_tensor *t)
{
    for (uint32_t i = 0; i < v->count; i++) {
        if (((tn_tensor **)v->data)[i] == t) return 1;
    }
    return 0;
}

static uint32_t index_of(tn_tensors list, const tn_tensor *t)
{
    for (int64_t i = 0; i < list.count; i++) {
        if (list.data[i] == t) return (uint32_t)i;
    }
    return UINT32_MAX;
}

/* An output that has no gradient. */
static int32_t is_constant(const tn_function_call *call, const tn_tensor *t)
{
    return list_has(&call->non_differentiable, t) || !tni_is_differentiable(t->desc.dtype);
}

static int32_t record_output(tn_function_call *call, tn_scope *s, tn_tensors inputs, tn_tensor **out,
                             uint32_t i)
{
    function_node *c = call->node;
    tn_tensor *t = *out;
    uint32_t from = index_of(inputs, t);
    if (list_has(&call->dirty, t))
        return from == UINT32_MAX ? tni_set_history(t, tni_node_retain(&c->node), i)
                                  : tni_record_inplace(t, &c->node, from);
    if (from !=
        UINT32_MAX) { /* an input returned as it is: give a view, so that the input keeps its own history */
        tn_tensor *view = NULL;
        int32_t status =
            tni_tensor_view(t, t->desc.rank, t->desc.sizes, t->desc.strides, tni_tensor_offset(t), &view);
        if (status) return status;
        *out = tni_scope_own(s, view);
    }
    return is_constant(call, t) ? TN_OK : tni_set_history(*out, tni_node_retain(&c->node), i);
}

/* Saves what forward asked for: an output by its number, any other tensor as it is. */
static int32_t save_all(const tn_function_call *call, tn_tensor *const *outs)
{
    function_node *c = call->node;
    c->n_saved = (uint32_t)call->to_save.count;
    if (!c->n_saved) return TN_OK;
    c->saved = tni_alloc_zeroed(c->node.ctx, c->n_saved * sizeof *c->saved);
    if (!c->saved) return TN_E_OUT_OF_MEMORY;
    tn_tensors out_list = {outs, c->n_outs};
    for (uint32_t i = 0; i < c->n_saved; i++) {
        tn_tensor *t = call->to_save.data[i];
        uint32_t output = t ? index_of(out_list, t) : UINT32_MAX;
        int32_t is_output = output != UINT32_MAX;
        int32_t status = is_output && is_constant(call, t)
                             ? tni_save_constant(c->saved + i, t)
                             : tni_save_tensor(c->saved + i, t, is_output ? output : TNI_SAVED_INPUT);
        if (status) return status;
    }
    return TN_OK;
}

static int32_t record_call(tn_function_call *call, tn_scope *s, tn_tensors inputs, tn_tensor **outs)
{
    function_node *c = call->node;
    int32_t status = note_all(c, inputs, outs);
    for (uint32_t i = 0; i < call->dirty.count; i++) tni_bump_version(((tn_tensor **)call->dirty.data)[i]);
    if (!status) status = save_all(call, outs);
    for (uint32_t i = 0; i < c->n_outs && !status; i++) {
        if (outs[i]) status = record_output(call, s, inputs, outs + i, i);
    }
    return status;
}

static int32_t run_forward(tn_function_call *call, tn_scope *s, tn_tensors inputs, tn_tensor **outs)
{
    function_node *c = call->node;
    uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF), lent = tni_scope_lend(s);
    int32_t status = c->function.forward(call, s, inputs, outs);
    tni_scope_take_back(s, lent);
    tn_set_grad_mode(mode);
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (status) return tni_error_ensure(status, c->function.name ? c->function.name : "function_apply");
    for (uint32_t i = 0; i < c->n_outs; i++) {
        if (!outs[i]) return tni_error(TN_E_ARGUMENT, "%s: forward did not set output %u", c->name, i);
    }
    c->node.stream = tni_working_stream(outs[0]);
    return TN_OK;
}

static int32_t make_node(tn_context *ctx, const tn_function *function, void *user, uint32_t n_ins,
                         uint32_t n_outs, function_node **out)
{
    function_node *c = tni_alloc_zeroed(ctx, sizeof *c);
    if (!c) {
        if (function->destroy) function->destroy(user); /* as after every other failure */
        return TN_E_OUT_OF_MEMORY;
    }
    tni_node_init(&c->node, ctx, &function_class, sizeof *c);
    c->function = *function;
    c->n_ins = n_ins;
    c->n_outs = c->node.n_inputs = n_outs;
    c->user = user;
    c->name_bytes = (function->name ? strlen(function->name) : 8) + 9;
    c->name = tni_alloc(ctx, c->name_bytes);
    if (!c->name) {
        tni_node_release(&c->node);
        return TN_E_OUT_OF_MEMORY;
    }
    snprintf(c->name, c->name_bytes, "%sBackward", function->name ? function->name : "Function");
    *out = c;
    return TN_OK;
}

static int32_t wants_recording(tn_tensors inputs)
{
    int32_t any = 0;
    for (int64_t i = 0; i < inputs.count; i++) any |= inputs.data[i] && tni_wants_grad(inputs.data[i]);
    return any && tni_grad_enabled();
}

int32_t tn_function_apply(tn_scope *s, const tn_function *function, void *user, tn_tensors inputs,
                          tn_tensor **out, uint32_t n_outs)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    tn_function known;
    int32_t status = tni_struct_read(&known, sizeof known, function, "tn_function");
    if (status) return tni_scope_record(s, status);
    if (!known.forward || !known.backward || !out || !n_outs)
        return tni_scope_record(
            s, tni_error(TN_E_ARGUMENT,
                         "function_apply: forward, backward and at least one output are required"));
    function_node *c;
    tn_context *ctx = tn_scope_context(s);
    const uint8_t place_follows = tni_tls.place_follows; /* calls of forward have places of their own */
    status = make_node(ctx, &known, user, (uint32_t)inputs.count, n_outs, &c);
    if (status) return tni_scope_record(s, status);
    tn_function_call call = {.node = c};
    tn_tensor **outs = tn_scope_memory(s, n_outs * sizeof *outs);
    status = outs ? TN_OK : TN_E_OUT_OF_MEMORY;
    if (outs) memset(outs, 0, n_outs * sizeof *outs);
    int32_t record = wants_recording(inputs);
    if (!status && record) status = connect(c, inputs);
    if (!status && !record) c->edges = tni_alloc_zeroed(ctx, (c->n_ins ? c->n_ins : 1) * sizeof *c->edges);
    if (!status) status = run_forward(&call, s, inputs, outs);
    for (uint32_t i = 0; record && !status && i < call.dirty.count; i++)
        status = tni_check_inplace(((tn_tensor **)call.dirty.data)[i]);
    if (!status && record) status = record_call(&call, s, inputs, outs);
    tni_tls.place_follows |= place_follows;
    if (!status && record) tni_anomaly_note(&c->node);
    if (!status) memcpy(out, outs, n_outs * sizeof *outs);
    finish_call(&call);
    tni_node_release(&c->node);
    return status ? tni_scope_record(s, status) : TN_OK;
}

/* ---- what forward and backward call ---- */

static int32_t no_call(const char *what)
{
    return tni_error(TN_E_ARGUMENT, "%s: the call is NULL", what);
}

void *tn_function_user(const tn_function_call *call)
{
    return call ? call->node->user : NULL;
}

int32_t tn_function_save(tn_function_call *call, tn_tensors tensors)
{
    if (!call) return no_call("function_save");
    forget_tensors(call);
    if (tensors.count <= 0) return TN_OK;
    tn_tensor **list = tni_alloc(call->node->node.ctx, (uint64_t)tensors.count * sizeof *list);
    if (!list) return TN_E_OUT_OF_MEMORY;
    for (int64_t i = 0; i < tensors.count; i++) list[i] = tn_retain(tensors.data[i]);
    call->to_save = (tn_tensors){list, tensors.count};
    return TN_OK;
}

tn_tensor *tn_function_saved(tn_function_call *call, tn_scope *s, uint32_t i)
{
    if (tn_scope_failed(s)) return NULL;
    if (!call) {
        tni_scope_record(s, no_call("function_saved"));
        return NULL;
    }
    function_node *c = call->node;
    if (i >= c->n_saved || !call->saved) {
        tni_scope_record(s, tni_error(TN_E_INDEX, "%s: there is no saved tensor %u", c->name, i));
        return NULL;
    }
    tn_tensor *t = tni_unpack(call->saved + i, s, &c->node);
    return t ? tni_scope_own(s, tn_retain(t)) : NULL; /* the program may read it after the run */
}

int32_t tn_function_needs_input_grad(const tn_function_call *call, uint32_t i)
{
    return call && i < call->node->n_ins && call->node->edges && call->node->edges[i].node != NULL;
}

static int32_t add_to(tn_function_call *call, tni_vector *v, tn_tensor *t)
{
    tn_tensor **slot = tni_vector_push(call->node->node.ctx, v, sizeof *slot);
    if (!slot) return TN_E_OUT_OF_MEMORY;
    *slot = t;
    return TN_OK;
}

int32_t tn_function_mark_dirty(tn_function_call *call, tn_tensor *t)
{
    return call ? add_to(call, &call->dirty, t) : no_call("function_mark_dirty");
}

int32_t tn_function_mark_non_differentiable(tn_function_call *call, tn_tensor *t)
{
    return call ? add_to(call, &call->non_differentiable, t) : no_call("function_mark_non_differentiable");
}
