/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the node of a call. All its parts are measured first, so that one allocation holds them: edges, sizes
 * and dtypes of arguments and results, copies of lists and strings, room for saved tensors.
 */
#include "autograd/op_node.h"

#include "core/scope.h"

#include <string.h>

#define ALIGN(x) (((x) + 7u) & ~(uint64_t)7u)

/* Memory that is handed out from the front. */
typedef struct arena {
    char *at;
} arena;

static inline void *take(arena *a, uint64_t bytes)
{
    void *memory = a->at;
    a->at += ALIGN(bytes);
    return memory;
}

/* Tags of values that are pointers. */
#define SPANS                                                                               \
    (1u << TN_TAG_COMPLEX | 1u << TN_TAG_STRING | 1u << TN_TAG_INTS | 1u << TN_TAG_FLOATS | \
     1u << TN_TAG_BOOLS | 1u << TN_TAG_SCALARS)

static uint64_t span_bytes(tn_value v);
static inline uint64_t value_bytes(tn_value v)
{
    return TNI_UNLIKELY(SPANS >> v.tag & 1u) ? span_bytes(v) : 0;
}

static __attribute__((noinline)) uint64_t span_bytes(tn_value v)
{
    switch (v.tag) {
    case TN_TAG_COMPLEX:
        return ALIGN(2 * sizeof(double));
    case TN_TAG_STRING:
        return ALIGN((uint64_t)v.count + 1);
    case TN_TAG_INTS:
        return ALIGN(v.count * sizeof(int64_t));
    case TN_TAG_FLOATS:
        return ALIGN(v.count * sizeof(double));
    case TN_TAG_BOOLS:
        return ALIGN((uint64_t)v.count);
    case TN_TAG_SCALARS: {
        uint64_t bytes = ALIGN(v.count * sizeof(tn_value));
        for (uint32_t i = 0; i < v.count; i++) bytes += value_bytes(v.as.values[i]);
        return bytes;
    }
    default:
        return 0;
    }
}

/* Empty lists keep a pointer that is not NULL, which tells them from absent ones. */
static __attribute__((noinline)) tn_value copy_span(arena *a, tn_value v)
{
    char *start = a->at;
    uint64_t bytes = value_bytes(v);
    if (v.tag == TN_TAG_SCALARS) {
        tn_value *items = take(a, v.count * sizeof *items);
        for (uint32_t i = 0; i < v.count; i++) items[i] = copy_span(a, v.as.values[i]);
        v.as.values = items;
    } else if (bytes) {
        memcpy(take(a, bytes), v.as.pointer,
               v.tag == TN_TAG_STRING  ? v.count + 1u
               : v.tag == TN_TAG_BOOLS ? v.count
                                       : v.count * 8u);
        v.as.pointer = start;
    } else if (v.tag == TN_TAG_INTS || v.tag == TN_TAG_FLOATS || v.tag == TN_TAG_BOOLS) {
        v.as.pointer = start;
    }
    return v;
}

/* The parts of a node. */
typedef struct measure {
    uint64_t bytes;
    uint32_t slots;
    uint32_t sizes; /* of arguments and results, one after the other */
    uint32_t saves;
    uint32_t results; /* of the saves */
    uint32_t spare;   /* extra sizes of an in-place view, whose rank is not known yet */
} measure;

static inline void measure_tensor(measure *m, const tn_tensor *t)
{
    m->slots++;
    if (t) m->sizes += t->desc.rank;
}

static __attribute__((noinline)) void measure_list(measure *m, tn_value v)
{
    for (uint32_t k = 0; k < v.count; k++) measure_tensor(m, v.as.tensors[k]);
}

static inline measure measure_call(const tni_frame *f, const tni_gradient_entry *rule, tn_tensor *const *outs,
                                   uint32_t n_outs)
{
    measure m = {.bytes = sizeof(tni_op_node)};
    const tn_value *args = f->args, *end = args + f->n_args;
    for (const tn_value *v = args; v < end; v++) {
        if (v->tag == TN_TAG_TENSOR)
            measure_tensor(&m, v->as.tensor);
        else if (v->tag == TN_TAG_TENSORS)
            measure_list(&m, *v);
        else
            m.bytes += value_bytes(*v);
    }
    const tni_save *save = rule->saves, *last = save + rule->save_count;
    for (; save < last; save++) {
        const tn_value *v = args + save->index;
        m.saves += save->kind == TNI_SAVE_ARG && v->tag == TN_TAG_TENSORS ? v->count : 1;
        m.results += save->kind == TNI_SAVE_RESULT;
    }
    for (uint32_t i = 0; i < n_outs; i++) {
        if (outs[i]) m.sizes += outs[i]->desc.rank;
    }
    if (f->op->form == TNI_FORM_INPLACE && f->op->base->kind == TNI_KIND_VIEW && n_outs && outs[0])
        m.spare = TN_MAX_RANK - outs[0]->desc.rank;
    m.sizes += m.spare;
    m.bytes += f->n_args * sizeof(tn_value) + m.slots * (sizeof(tni_edge) + sizeof(tni_meta)) +
               n_outs * sizeof(tni_meta) + m.saves * sizeof(tni_saved) + m.sizes * sizeof(int64_t);
    return m;
}

/* *at: where the sizes are written; advanced. */
static inline void copy_note(int64_t **at, tni_meta *to, const tn_tensor *t)
{
    int64_t *sizes = *at;
    to->sizes = sizes;
    if (TNI_UNLIKELY(!t)) {
        to->dtype = to->rank = 0;
        to->device = 0;
        return;
    }
    to->dtype = t->desc.dtype;
    to->device = t->desc.device;
    to->rank = t->desc.rank;
    for (const int64_t *size = t->desc.sizes, *end = size + t->desc.rank; size < end; size++)
        *sizes++ = *size;
    *at = sizes;
}

/* Adds a slot. n_edges counts the slots whose edge the node has retained. */
static inline int32_t add_slot(tni_op_node *n, int64_t **sizes, tn_tensor *t)
{
    uint32_t slot = n->node.n_edges++;
    tni_edge *edge = n->node.edges + slot;
    copy_note(sizes, n->slots + slot, t);
    if (!t) {
        *edge = (tni_edge){NULL, 0};
        return TN_OK;
    }
    int32_t status = tni_gradient_edge(t, edge);
    tni_lead_to(&n->node, edge->node);
    return status;
}

static inline int32_t copy_args(tni_op_node *n, arena *a, int64_t **sizes, const tni_frame *f)
{
    const tn_value *from = f->args, *end = from + f->n_args;
    for (tn_value *to = n->args; from < end; from++, to++) {
        int32_t status = TN_OK;
        if (from->tag == TN_TAG_TENSOR) {
            *to = tn_value_make(TN_TAG_TENSOR, n->node.n_edges);
            status = add_slot(n, sizes, from->as.tensor);
        } else if (from->tag == TN_TAG_TENSORS) {
            *to = tn_value_make(TN_TAG_TENSORS, from->count);
            to->as.i = n->node.n_edges;
            for (uint32_t k = 0; k < from->count && !status; k++)
                status = add_slot(n, sizes, from->as.tensors[k]);
        } else {
            *to = TNI_UNLIKELY(SPANS >> from->tag & 1u) ? copy_span(a, *from) : *from;
        }
        if (status) return status;
    }
    return TN_OK;
}

static inline int32_t arg_needs(const tni_op_node *n, uint32_t arg)
{
    tn_value v = n->args[arg];
    if (v.tag == TN_TAG_TENSOR) return n->node.edges[v.count].node != NULL;
    for (uint32_t k = 0; v.tag == TN_TAG_TENSORS && k < v.count; k++) {
        if (n->node.edges[(uint32_t)v.as.i + k].node) return 1;
    }
    return 0;
}

/* A copy of the value that an in-place call is about to overwrite, with its history. */
static int32_t save_clone(tni_saved *saved, tn_tensor *self, tni_edge history)
{
    tn_tensor *copy = NULL;
    tn_scope *s = tn_scope_open(self->ctx);
    *saved = (tni_saved){0}; /* finished by the caller in any case */
    if (!s) return TN_E_OUT_OF_MEMORY;
    copy = tn_retain(tn_clone(s, self));
    int32_t status = tn_scope_close(s);
    if (!status && history.node) status = tni_set_history(copy, tni_node_retain(history.node), history.input);
    if (!status) status = tni_save_tensor(saved, copy, TNI_SAVED_INPUT);
    tn_release(copy);
    saved->copied = 1;
    return status;
}

/* An alias without history. It also keeps a base that is written to through the view from holding itself. */
static int32_t save_geometry(tni_saved *saved, tn_tensor *self)
{
    *saved = (tni_saved){.output = TNI_SAVED_INPUT, .copied = 1};
    return tni_tensor_twin(self, &saved->tensor);
}

/* Saves one of the arguments that the rule asks for. */
static inline int32_t save_arg(tni_op_node *n, tni_saved *saved, tn_tensor *t, uint32_t arg, int32_t inplace)
{
    tni_edge edge = n->node.edges[n->args[arg].count];
    if (TNI_UNLIKELY(inplace && arg == 0)) return save_clone(saved, t, edge);
    return tni_save_input(saved, t, edge);
}

static inline int32_t save_args(tni_op_node *n, const tni_frame *f, int32_t inplace)
{
    const tni_save *save = n->rule->saves, *end = save + n->rule->save_count;
    tni_saved *saved = n->saved;
    int32_t status = TN_OK;
    for (; save < end && !status; save++) {
        int32_t needed = save->if_needs < 0 || arg_needs(n, (uint32_t)save->if_needs);
        const tn_value *v = f->args + save->index;
        if (save->kind == TNI_SAVE_ARG && v->tag == TN_TAG_TENSORS) {
            for (uint32_t k = 0; k < v->count && !status; k++)
                status = tni_save_tensor(saved++, needed ? v->as.tensors[k] : NULL, TNI_SAVED_INPUT);
        } else if (save->kind == TNI_SAVE_ARG && v->tag == TN_TAG_TENSOR && needed) {
            status = save_arg(n, saved++, v->as.tensor, save->index, inplace);
        } else if (TNI_UNLIKELY(save->kind == TNI_SAVE_GEOMETRY)) {
            status = save_geometry(saved++, v->as.tensor);
        } else {
            *saved++ = (tni_saved){0};
        }
    }
    n->n_saved = (uint32_t)(saved - n->saved);
    return status;
}

static int32_t has_gradient(const tni_gradient_entry *rule, const tn_tensor *t, uint32_t output)
{
    return t && tni_is_differentiable(t->desc.dtype) &&
           !(output < 32 && rule->non_differentiable >> output & 1u);
}

int32_t tni_op_node_save_results(tni_op_node *n, tn_tensor *const *outs, uint32_t n_outs)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n->rule->save_count; i++) {
        const tni_save *save = n->rule->saves + i;
        if (save->kind != TNI_SAVE_RESULT) {
            tn_value v = n->args[save->index];
            at += v.tag == TN_TAG_TENSORS ? v.count : 1;
            continue;
        }
        int32_t needed = save->if_needs < 0 || arg_needs(n, (uint32_t)save->if_needs);
        if (needed && save->index < n_outs) {
            tn_tensor *t = outs[save->index];
            int32_t status = has_gradient(n->rule, t, save->index)
                                 ? tni_save_tensor(n->saved + at, t, save->index)
                                 : tni_save_constant(n->saved + at, t);
            if (status) return status;
        }
        at++;
    }
    return TN_OK;
}

int32_t tni_op_node_create(tni_frame *f, const tni_gradient_entry *rule, tn_tensor *const *outs,
                           uint32_t n_outs, int32_t inplace, tni_op_node **out)
{
    measure m = measure_call(f, rule, outs, n_outs);
    tni_op_node *n = tni_alloc(f->ctx, m.bytes);
    if (!n) return TN_E_OUT_OF_MEMORY;
    tni_node_init(&n->node, f->ctx, &tni_op_node_class, m.bytes);
    n->name = NULL;
    n->op = f->op->base;
    n->rule = rule;
    n->n_args = f->n_args;
    n->n_saved = 0; /* these two and n_edges count what the destructor has to release */
    n->args = (tn_value *)(n + 1);
    n->saved = (tni_saved *)(n->args + f->n_args);
    n->node.edges = (tni_edge *)(n->saved + m.saves);
    n->slots = (tni_meta *)(n->node.edges + m.slots);
    n->node.inputs = n->slots + m.slots;
    n->node.n_inputs = n_outs;
    int64_t *sizes = (int64_t *)(n->node.inputs + n_outs);
    arena spans = {(char *)(sizes + m.sizes)};
    n->node.stream = tni_working_stream(n_outs ? outs[0] : NULL);
    for (uint32_t i = 0; i < n_outs; i++) copy_note(&sizes, n->node.inputs + i, outs[i]);
    sizes += m.spare;
    int32_t status = copy_args(n, &spans, &sizes, f);
    if (!status) status = save_args(n, f, inplace);
    if (!status && !inplace && m.results) status = tni_op_node_save_results(n, outs, n_outs);
    if (status) {
        tni_node_release(&n->node);
        return status;
    }
    *out = n;
    return TN_OK;
}
