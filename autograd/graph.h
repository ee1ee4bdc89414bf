/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph: nodes, edges, and the autograd metadata of a tensor.
 *
 * A node stands for one recorded call. It holds references to the nodes of its inputs (edges point from
 * results towards leaves, so there are no cycles) and is held by its results and by the nodes whose edges
 * lead to it. The node of a leaf is part of the leaf: a reference to it is a reference to the tensor, so no
 * weak pointers are needed. Once published, a node is constant but for its saved tensors and hooks, which
 * `lock` guards. A backward run may mark it, see plan.c.
 */
#ifndef TNI_AUTOGRAD_GRAPH_H
#define TNI_AUTOGRAD_GRAPH_H

#include <pthread.h>
#include <sched.h>
#include "core/error.h"
#include "core/tensor.h"
#include "core/thread.h"
#include <tenon/autograd.h>

/* A spin lock, for critical sections of a few instructions. */
typedef atomic_uint tni_spin;
static inline void tni_spin_lock(tni_spin *lock)
{
    while (atomic_exchange_explicit(lock, 1, memory_order_acquire)) sched_yield();
}
static inline void tni_spin_unlock(tni_spin *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
}

typedef struct tni_edge {
    tn_node *node;  /* a reference; NULL: no gradient is wanted */
    uint32_t input; /* which of the node's incoming gradients it is */
} tni_edge;

/* Sizes, dtype and device of a tensor that took part in a call. */
typedef struct tni_meta {
    tn_dtype dtype;
    uint32_t rank;
    tn_device device;
    const int64_t *sizes;
} tni_meta;

/* One run of a node. */
typedef struct tni_step {
    tn_scope *scope;
    tn_tensor *
        *in; /* incoming gradients, NULL where undefined; the engine's references, which a node may take */
    tn_tensor **out;       /* one for each edge, NULL at first; the engine takes the references */
    const uint8_t *wanted; /* by edge; NULL: all edges that have a node */
    int32_t keep;          /* saved tensors must survive the run */
} tni_step;

typedef struct tni_node_class {
    int32_t (*run)(tn_node *node, tni_step *step);
    const char *(*name)(const tn_node *node);
    void (*destroy)(tn_node *node); /* finishes all but the edges and frees the memory */
    int32_t runs_undefined;         /* is run even if no incoming gradient is defined */
} tni_node_class;

/* Hooks of one node, made when the first is registered. */
enum {
    TNI_HOOK_TENSOR,
    TNI_HOOK_PRE,
    TNI_HOOK_POST,
    TNI_HOOK_RETAIN,
    TNI_HOOK_ACCUMULATE,
    TNI_HOOK_MULTI,
    TNI_HOOK_PLACE /* never runs: `user` is where the program made the call, see anomaly.c */
};
/* One of the tensors of a hook of several tensors. */
typedef struct tni_multi_place {
    tn_multi_hook *hook;
    tn_node *node; /* a reference */
    uint64_t handle;
} tni_multi_place;
typedef struct tni_hook {
    uint64_t handle;
    uint32_t kind;
    uint32_t input; /* TENSOR, RETAIN and MULTI: index of the incoming gradient */
    void *user;
    union {
        tn_tensor_hook tensor;
        tn_node_hook node;
        tn_accumulate_hook accumulate;
        const tni_multi_place *multi;
        tn_tensor *retain; /* borrowed: the tensor removes the hook when it is destroyed */
    } as;
    struct tni_hook_user *owner; /* of `user`, counted; NULL for kinds that are not hooks of the program */
} tni_hook;

struct tn_node {
    atomic_uint refs;
    tni_spin lock;
    const tni_node_class *type;
    tn_context *ctx;
    uint64_t sequence; /* increases on each thread and along each path to a result; UINT64_MAX for leaves */
    uint64_t bytes;
    uint32_t n_edges;
    uint32_t n_inputs; /* incoming gradients: outputs of the call */
    tni_edge *edges;
    tni_meta *inputs;    /* the outputs of the call */
    tni_vector hooks;    /* tni_hook */
    atomic_uint n_hooks; /* number of hooks, read without the lock */
    tn_stream *stream;   /* the forward call's; NULL for synchronous devices */
    tn_node *next_dying;
    uint32_t freed; /* saved tensors were taken or freed */
    uint32_t is_leaf;
    _Atomic(const void *) run; /* the backward run that `entry` belongs to, see plan.c */
    struct tni_entry *entry;   /* written and read by that run only */
};

/* How a view was made, as far as in-place calls on it are concerned. */
enum { TNI_VIEW_PLAIN, TNI_VIEW_ONE_OF_MANY };

typedef struct tni_leaf_node {
    tn_node node;
    tn_tensor *tensor;    /* the leaf, which owns this node; borrowed */
    pthread_mutex_t lock; /* of the gradient, also while operators add to it: recursive */
    /* The stream on which a run has written the gradient last, and its number then; NULL: none has. */
    tn_stream *added_on;
    uint64_t added_on_id;
} tni_leaf_node;

/* A handle that tn_register_hook returned, and the node that has the hook. */
typedef struct tni_hook_place {
    uint64_t handle;
    tn_node *node;
} tni_hook_place;

typedef struct tni_autograd_meta {
    tn_tensor *tensor; /* the owner */
    tn_node *grad_fn;  /* a reference; NULL for leaves */
    uint32_t output;   /* which output of grad_fn */
    uint8_t retains_grad;
    uint8_t creation;                  /* TNI_VIEW_... */
    atomic_uint_fast64_t view_version; /* of a view: the storage's version for which grad_fn is valid */
    tn_tensor *grad;                   /* a reference, guarded by tni_grad_lock */
    tni_leaf_node *leaf;
    tni_vector places; /* tni_hook_place */
} tni_autograd_meta;

/* State of a context. */
typedef struct tni_autograd_state {
    atomic_uint_fast64_t handle;
    pthread_mutex_t lock;        /* of names and custom; no function of the program is called under it */
    pthread_mutex_t gradients;   /* of tensors other than leaves, as a leaf's own lock */
    pthread_mutex_t views;       /* of the histories of views that follow their base */
    char **names;                /* by operator number, made at first use */
    void *custom;                /* gradients of operators that programs and plugins define */
    struct tni_anomaly *anomaly; /* NULL without TENON_DEBUG=anomaly */
} tni_autograd_state;
static inline tni_autograd_state *tni_autograd_of(const tn_context *ctx)
{
    return ctx->autograd_state;
}

/* ---- meta.c ---- */
tni_autograd_meta *tni_meta_ensure(tn_tensor *t);
/* Guards the gradient of t, which has metadata. */
pthread_mutex_t *tni_grad_lock(const tn_tensor *t);
/* TN_OK, or an error that begins with `what`: the tensor is NULL, or a released handle (debug mode). */
int32_t tni_tensor_given(const tn_tensor *t, const char *what);
/* Makes t output `output` of node; takes over the reference. */
int32_t tni_set_history(tn_tensor *t, tn_node *node, uint32_t output);
/*
 * The same for a view whose base has a history, of which `node` is a part. Other threads may read the view meanwhile; the
 * caller releases the history before.
 */
int32_t tni_follow_base(tn_tensor *view, tn_node *node, tn_node **out_old);
/* Removes the history: t becomes a leaf that requires no gradient. */
void tni_clear_history(tn_tensor *t);
/*
 * The edge that a gradient of t follows. node is NULL if t needs none; else borrowed while t and its history
 * stay.
 */
int32_t tni_gradient_edge_of_view(tn_tensor *t, tni_edge *out);
static inline int32_t tni_gradient_edge(tn_tensor *t, tni_edge *out)
{
    const tni_autograd_meta *meta = t->autograd;
    if (TNI_UNLIKELY(t->base != NULL)) return tni_gradient_edge_of_view(t, out);
    *out = (tni_edge){NULL, 0};
    if (!(t->state & TNI_WANTS_GRAD) || !meta) return TN_OK;
    if (meta->grad_fn)
        *out = (tni_edge){meta->grad_fn, meta->output};
    else if (meta->leaf)
        *out = (tni_edge){&meta->leaf->node, 0};
    return TN_OK;
}
tni_meta tni_note(const tn_tensor *t);
/* "[torch.FloatTensor [2, 3]]" */
const char *tni_tensor_text(const tn_tensor *t, char *buffer, uint64_t bytes);
/* "float32 [2, 3]" */
const char *tni_kind_text(tn_dtype dtype, uint32_t rank, const int64_t *sizes, char *buffer, uint64_t bytes);

/* ---- node.c ---- */
static inline tn_node *tni_node_retain(tn_node *node)
{
    if (!node) return NULL;
    if (node->is_leaf)
        tn_retain(((tni_leaf_node *)node)->tensor);
    else
        atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
    return node;
}
void tni_node_release(tn_node *node);
/* destroy of a class whose nodes own nothing but their edges. */
void tni_node_free(tn_node *node);
/* Fills the common part: one reference, a sequence number, nothing else yet. */
static inline void tni_node_init(tn_node *node, tn_context *ctx, const tni_node_class *type, uint64_t bytes)
{
    atomic_init(&node->refs, 1);
    atomic_init(&node->lock, 0);
    node->type = type;
    node->ctx = ctx;
    node->bytes = bytes;
    node->n_edges = node->n_inputs = 0;
    node->edges = NULL;
    node->inputs = NULL;
    node->hooks = (tni_vector){NULL, 0, 0};
    atomic_init(&node->n_hooks, 0);
    node->stream = NULL;
    node->next_dying = NULL;
    node->freed = node->is_leaf = 0;
    atomic_init(&node->run, NULL);
    node->sequence = ++tni_tls.sequence;
}
/* For an edge of a new node: retains `to` (NULL: nothing) and gives the node a greater sequence number. */
static inline void tni_lead_to(tn_node *node, tn_node *to)
{
    if (!to) return;
    tni_node_retain(to);
    if (TNI_UNLIKELY(to->sequence >= node->sequence && !to->is_leaf))
        node->sequence = tni_tls.sequence = to->sequence + 1; /* recorded by another thread */
}
/* The stream that work for this result goes to now; NULL for synchronous devices. */
static inline tn_stream *tni_working_stream(const tn_tensor *t)
{
    tni_device *device = t ? t->storage->device : NULL;
    return device && !device->synchronous ? tni_current_stream(device) : NULL;
}
/* "MulBackward" of an operator; lives as long as the context. */
const char *tni_operator_node_name(tn_context *ctx, uint32_t number, const char *full_name);

/* ---- hooks.c ---- */
static inline uint32_t tni_hook_count(const tn_node *node)
{
    return atomic_load_explicit(&node->n_hooks, memory_order_relaxed);
}
int32_t tni_hook_add(tn_node *node, const tni_hook *hook, uint64_t *out_handle);
void tni_hook_drop(tn_node *node, uint64_t handle);
/* Frees the hooks of a node that is destroyed. */
void tni_hooks_finish(tn_node *node);
/* Removes the hook that retains the gradient of t. */
void tni_hook_drop_retain(tn_node *node, const tn_tensor *t);
int32_t tni_run_tensor_hooks(tn_node *node, tn_scope *s, tn_tensor **grads);
int32_t tni_run_node_hooks(tn_node *node, uint32_t kind, tn_scope *s, tn_tensor **grads, uint32_t count);
void tni_run_accumulate_hooks(tn_node *node, tn_scope *s, tn_tensor *leaf);

/* ---- multi_hook.c ---- */
void tni_multi_hook_retain(tn_multi_hook *hook);
void tni_multi_hook_release(tn_multi_hook *hook);
/* A gradient (NULL: none) has arrived at one of the tensors, in the run of this thread. */
int32_t tni_multi_hook_visit(const tni_multi_place *place, tn_scope *s, tn_tensor *grad);

/* ---- accumulate.c ---- */
tni_leaf_node *tni_leaf_create(tn_tensor *t);
/* Adds a gradient into that of t, which has metadata. Takes over the reference. */
int32_t tni_accumulate(tn_scope *s, tn_tensor *t, tn_tensor *grad);
/* Whether the holder of one reference is the only one who can see the elements of t. */
static inline int32_t tni_is_exclusive(const tn_tensor *t)
{
    return atomic_load_explicit(&t->refs, memory_order_acquire) == 1 && !t->base &&
           atomic_load_explicit(&t->storage->refs, memory_order_acquire) == 1 && (t->state & TNI_DENSE);
}

/* ---- view.c ---- */
/* Updates the history of a view from its base. */
int32_t tni_view_refresh(tn_tensor *view);
/*
 * An in-place call, recorded as `node`, changed `view`, the target of edge `self` of the node: records it on
 * the base.
 */
int32_t tni_view_rebase(tn_tensor *view, tn_node *node, uint32_t self);

/* ---- geometry.c ---- */
/* The positions of a view's elements. */
typedef struct tni_geometry {
    tn_dtype dtype;
    uint32_t flags; /* of the descriptor: conjugated, negated */
    uint32_t rank;
    int64_t offset; /* in elements of dtype */
    int64_t sizes[TN_MAX_RANK];
    int64_t strides[TN_MAX_RANK];
} tni_geometry;
void tni_geometry_of(const tn_tensor *t, tni_geometry *out);
/* The gradient of a tensor at `base`, given that of a view of its storage at `view`. */
tn_tensor *tni_gradient_of_base(tn_scope *s, tn_tensor *grad, const tni_geometry *base,
                                const tni_geometry *view);
/* A copy of a gradient with the layout of `base`, and the part of it that `view` shows. */
tn_tensor *tni_lay_out(tn_scope *s, tn_tensor *grad, const tni_geometry *base, const tni_geometry *view,
                       tn_tensor **out_part);

/* ---- engine.c ---- */
typedef struct tni_goal {
    tn_tensors roots;
    tn_tensors grads;     /* none, or one for each root */
    tn_tensors inputs;    /* none: all leaves */
    tn_tensor **captures; /* references for each of inputs, or NULL: accumulate */
    int32_t keep_graph;
    int32_t create_graph;
} tni_goal;
int32_t tni_engine_run(tn_scope *s, const tni_goal *goal);
/* The error of a list of tensors that points to NULL, or whose number of tensors `call` does not take. */
int32_t tni_bad_list(const char *call, const char *argument, tn_tensors list);
/* Converts a gradient to the sizes, dtype and kind in `note`. Borrowed from the scope. */
tn_tensor *tni_change_gradient(tn_scope *s, tn_tensor *grad, const tni_meta *note, const tn_node *from,
                               uint32_t i);
static inline int32_t tni_has_sizes(const tn_tensor *t, const tni_meta *note)
{
    if (t->desc.rank != note->rank) return 0;
    for (uint32_t i = 0; i < note->rank; i++) {
        if (t->desc.sizes[i] != note->sizes[i]) return 0;
    }
    return 1;
}
static inline tn_tensor *tni_fit_gradient(tn_scope *s, tn_tensor *grad, const tni_meta *note,
                                          const tn_node *from, uint32_t i)
{
    if (TNI_LIKELY(grad->desc.dtype == note->dtype && grad->desc.device == note->device &&
                   tni_has_sizes(grad, note)))
        return grad;
    return tni_change_gradient(s, grad, note, from, i);
}

/* ---- room ---- */
int32_t tni_autograd_init(tn_context *ctx, const tn_context_options *options);
void tni_autograd_finish(tn_context *ctx);

#endif
