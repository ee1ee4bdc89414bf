/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the node of a call. All that it needs is measured first, so that one block holds it: edges, notes of
 * the arguments and results, copies of lists and strings, room for what is saved.
 */
#include "autograd/op_node.h"

#include "core/scope.h"

#include <string.h>

#define ALIGN(x) (((x) + 7u) & ~(uint64_t)7u)

/* A block that is handed out from the front. */
typedef struct arena {
    char *at;
} arena;

static inline void *take(arena *a, uint64_t bytes)
{
    void *memory = a->at;
    a->at += ALIGN(bytes);
    return memory;
}

/* Kinds of values that point to something. */
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

/* Lists with no items keep a pointer that is not NULL: they are empty, not absent. */
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

/* What one node will hold. */
typedef struct measure {
    uint64_t bytes;
    uint32_t slots;
    uint32_t saves;
    uint32_t results; /* of the saves */
} measure;

static uint64_t note_bytes(const tn_tensor *t)
{
    return sizeof(tni_meta) + (t ? ALIGN(t->desc.rank * sizeof(int64_t)) : 0);
}

static inline measure measure_call(const tni_frame *f, const tni_gradient_entry *rule, tn_tensor *const *outs,
                                   uint32_t n_outs)
{
    measure m = {.bytes = ALIGN(sizeof(tni_op_node)) + ALIGN(f->n_args * sizeof(tn_value))};
    for (uint32_t i = 0; i < f->n_args; i++) {
        tn_value v = f->args[i];
        if (v.tag == TN_TAG_TENSOR) {
            m.slots++;
            m.bytes += note_bytes(v.as.tensor);
        } else if (v.tag == TN_TAG_TENSORS) {
            m.slots += v.count;
            for (uint32_t k = 0; k < v.count; k++) m.bytes += note_bytes(v.as.tensors[k]);
        } else {
            m.bytes += value_bytes(v);
        }
    }
    for (uint32_t i = 0; i < n_outs; i++) m.bytes += note_bytes(outs[i]) + 2 * sizeof(int64_t);
    for (uint32_t i = 0; i < rule->save_count; i++) {
        const tni_save *save = rule->saves + i;
        tn_value v = save->kind == TNI_SAVE_ARG ? f->args[save->index] : tn_value_none();
        m.saves += v.tag == TN_TAG_TENSORS ? v.count : 1;
        m.results += save->kind == TNI_SAVE_RESULT;
    }
    m.bytes += ALIGN(m.slots * sizeof(tni_edge)) + ALIGN(m.saves * sizeof(tni_saved)) + 64;
    return m;
}

static inline void copy_note(arena *a, tni_meta *to, const tn_tensor *t, uint32_t spare)
{
    uint32_t rank = t ? t->desc.rank : 0;
    int64_t *sizes = take(a, (rank + spare) * sizeof *sizes);
    *to = t ? (tni_meta){t->desc.dtype, rank, t->desc.device, sizes} : (tni_meta){0};
    for (uint32_t i = 0; i < rank; i++) sizes[i] = t->desc.sizes[i];
}

static inline int32_t add_slot(arena *a, tni_edge *edge, tni_meta *note, tn_tensor *t)
{
    copy_note(a, note, t, 0);
    if (!t) return TN_OK;
    int32_t status = tni_gradient_edge(t, edge);
    if (edge->node) tni_node_retain(edge->node);
    return status;
}

static inline int32_t copy_args(tni_op_node *n, arena *a, const tni_frame *f)
{
    const tn_value *from = f->args;
    tn_value *to = n->args;
    tni_edge *edges = n->node.edges;
    tni_meta *notes = n->slots;
    uint32_t slot = 0, count = n->n_args;
    for (uint32_t i = 0; i < count; i++) {
        tn_value v = from[i];
        int32_t status = TN_OK;
        if (v.tag == TN_TAG_TENSOR) {
            to[i] = tn_value_make(TN_TAG_TENSOR, slot);
            status = add_slot(a, edges + slot, notes + slot, v.as.tensor);
            slot++;
        } else if (v.tag == TN_TAG_TENSORS) {
            to[i] = tn_value_make(TN_TAG_TENSORS, v.count);
            to[i].as.i = slot;
            for (uint32_t k = 0; k < v.count && !status; k++, slot++)
                status = add_slot(a, edges + slot, notes + slot, v.as.tensors[k]);
        } else {
            to[i] = TNI_UNLIKELY(SPANS >> v.tag & 1u) ? copy_span(a, v) : v;
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

/* The value that an in-place call is about to overwrite, with its history. */
static int32_t save_clone(tni_saved *saved, tn_tensor *self, tni_edge history)
{
    tn_tensor *copy = NULL;
    tn_scope *s = tn_scope_open(self->ctx);
    if (!s) return TN_E_OUT_OF_MEMORY;
    copy = tn_retain(tn_clone(s, self));
    int32_t status = tn_scope_close(s);
    if (!status && history.node) status = tni_set_history(copy, history.node, history.input);
    if (!status) status = tni_save_tensor(saved, copy, TNI_SAVED_INPUT);
    tn_release(copy);
    saved->copied = 1;
    return status;
}

/*
 * as_strided asks for the geometry of self, not for its elements: an alias without history will do, which
 * also keeps a base that is written to through the view from holding itself.
 */
static int32_t save_geometry(tni_saved *saved, tn_tensor *self)
{
    *saved = (tni_saved){.output = TNI_SAVED_INPUT, .copied = 1};
    return tni_tensor_twin(self, &saved->tensor);
}

static inline int32_t save_args(tni_op_node *n, const tni_frame *f, int32_t inplace)
{
    uint32_t at = 0;
    const tni_save *save = n->rule->saves, *end = save + n->rule->save_count;
    for (; save < end; save++) {
        int32_t status = TN_OK, needed = save->if_needs < 0 || arg_needs(n, (uint32_t)save->if_needs);
        tn_value v = save->kind == TNI_SAVE_ARG ? f->args[save->index] : tn_value_none();
        if (v.tag == TN_TAG_TENSORS) {
            for (uint32_t k = 0; k < v.count && !status; k++)
                status = tni_save_tensor(n->saved + at++, needed ? v.as.tensors[k] : NULL, TNI_SAVED_INPUT);
        } else if (v.tag == TN_TAG_TENSOR && needed) {
            if (n->op->number == TN_OP_AS_STRIDED)
                status = save_geometry(n->saved + at, v.as.tensor);
            else if (inplace && save->index == 0)
                status = save_clone(n->saved + at, v.as.tensor, n->node.edges[n->args[0].count]);
            else
                status =
                    tni_save_input(n->saved + at, v.as.tensor, n->node.edges[n->args[save->index].count]);
            at++;
        } else {
            at++;
        }
        if (status) return status;
    }
    return TN_OK;
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
        if (save->kind == TNI_SAVE_ARG) {
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
    n->name = NULL;
    n->n_args = f->n_args;
    tni_node_init(&n->node, f->ctx, &tni_op_node_class, m.bytes);
    arena a = {(char *)n};
    take(&a, sizeof *n);
    n->op = f->op->base;
    n->rule = rule;
    n->args = take(&a, f->n_args * sizeof *n->args);
    n->node.n_edges = m.slots;
    n->node.edges = take(&a, m.slots * sizeof *n->node.edges);
    n->n_saved = m.saves;
    n->saved = take(&a, m.saves * sizeof *n->saved);
    for (uint32_t i = 0; i < m.slots; i++) n->node.edges[i] = (tni_edge){NULL, 0};
    for (uint32_t i = 0; i < m.saves; i++) n->saved[i] = (tni_saved){0};
    n->slots = take(&a, m.slots * sizeof *n->slots);
    n->node.n_inputs = n_outs;
    n->node.inputs = take(&a, n_outs * sizeof *n->node.inputs);
    for (uint32_t i = 0; i < n_outs; i++) copy_note(&a, n->node.inputs + i, outs[i], 2);
    n->node.stream = tni_working_stream(n_outs ? outs[0] : NULL);
    int32_t status = copy_args(n, &a, f);
    if (!status) status = save_args(n, f, inplace);
    if (!status && !inplace && m.results) status = tni_op_node_save_results(n, outs, n_outs);
    if (status) {
        tni_node_release(&n->node);
        return status;
    }
    *out = n;
    return TN_OK;
}
