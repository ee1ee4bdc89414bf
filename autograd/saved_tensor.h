/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that a node keeps for its backward run. */
#ifndef TNI_AUTOGRAD_SAVED_TENSOR_H
#define TNI_AUTOGRAD_SAVED_TENSOR_H

#include "autograd/graph.h"

#define TNI_SAVED_INPUT UINT32_MAX

/* What is in force on a thread for tensors that are saved. */
typedef struct tni_saved_hook_frame {
    tni_saving head;
    tn_context *ctx;
    tn_saved_hooks hooks;
    void (*read)(void *user, void *packed); /* a backward run that keeps the graph has read it, or NULL */
    char *refusal; /* instead of hooks: the error of calls that would put others in force */
} tni_saved_hook_frame;
static inline tni_saved_hook_frame *tni_saved_hooks(void)
{
    return (tni_saved_hook_frame *)tni_tls.saved_hooks;
}

/* Takes hooks that were pushed before a function of the program ran out of force; TN_E_STATE if others are left, which go, too,
 * or if the function has popped them. */
int32_t tni_saved_hooks_end(const tni_saved_hook_frame *frame, const char *who);

/* Takes away what this thread forgot to pop before it destroyed the context: it would be in force for the next one. */
void tni_saved_hooks_finish(const tn_context *ctx);

/* Hooks for what was packed as a reference to a tensor. */
tn_tensor *tni_unpack_reference(void *user, tn_scope *s, void *packed);
void tni_drop_reference(void *user, void *packed);

/* The result of the pack hook, shared by runs that keep the graph. */
typedef struct tni_packed {
    atomic_uint refs;
    tn_context *ctx;
    tn_saved_hooks hooks;
    void (*read)(void *user, void *packed); /* as the frame has it */
    void *value;
} tni_packed;

/*
 * An alias of the tensor without history: an output's history is the node itself, and an input's may become
 * one that leads to this node, if it is written in place. Leaves, which cannot, are kept themselves. All
 * fields are 0 if the argument was absent or not needed.
 */
typedef struct tni_saved {
    tn_tensor *tensor;
    tni_packed *packed; /* instead of the tensor */
    uint64_t version;   /* of the storage when it was saved */
    uint32_t output;    /* number of the output, or TNI_SAVED_INPUT */
    uint8_t copied;     /* a private clone: no version check */
    uint8_t borrows;    /* `history` is an edge of the node, which holds the reference */
    uint8_t is_edge;    /* `tensor` is the leaf of that edge, retained with it */
    tni_edge history;   /* inputs: the edge that their gradient follows (a reference, or borrowed) */
} tni_saved;

/* Saves an input, or output `output` of the node. */
int32_t tni_save_tensor(tni_saved *saved, tn_tensor *t, uint32_t output);
/* Saves an input whose gradient goes to an edge of the node itself. */
int32_t tni_save_apart(tni_saved *saved, tn_tensor *t, tni_edge edge);
static inline int32_t tni_save_input(tni_saved *saved, tn_tensor *t, tni_edge edge)
{
    if (!edge.node || !edge.node->is_leaf || ((const tni_leaf_node *)edge.node)->tensor != t ||
        tni_tls.saved_hooks || t->state & TNI_INFERENCE)
        return tni_save_apart(saved, t, edge);
    *saved = (tni_saved){.tensor = t, /* kept with the edge */
                         .version = atomic_load_explicit(&t->storage->version, memory_order_relaxed),
                         .output = TNI_SAVED_INPUT,
                         .borrows = 1,
                         .is_edge = 1,
                         .history = edge};
    return TN_OK;
}
/* Saves an output without a gradient: it is unpacked without history. */
int32_t tni_save_constant(tni_saved *saved, tn_tensor *t);
/*
 * The tensor, with its history if the backward run is recorded; owned by the scope or by `saved`. NULL if
 * nothing was saved or on failure, e.g. if the tensor was written since.
 */
tn_tensor *tni_unpack(const tni_saved *saved, tn_scope *s, tn_node *node);
/* Copies in the scope's memory, for a run that keeps the graph. */
tni_saved *tni_saved_copy(tn_node *node, const tni_saved *saved, uint32_t count, tn_scope *s);
/* Records the error of a node whose saved tensors are gone; gives NULL. */
tni_saved *tni_saved_refuse(tn_scope *s);
/*
 * The saved tensors of a node for one run, which finishes them: copies if the graph is kept, else those of
 * the node, which one run only can take. NULL and a failed scope if they are freed or without memory.
 */
static inline tni_saved *tni_saved_take(tn_node *node, tni_saved *saved, uint32_t count, const tni_step *step)
{
    if (step->keep) return tni_saved_copy(node, saved, count, step->scope);
    tni_spin_lock(&node->lock);
    uint32_t freed = node->freed;
    node->freed = 1;
    tni_spin_unlock(&node->lock);
    return TNI_LIKELY(!freed) ? saved : tni_saved_refuse(step->scope);
}
void tni_saved_finish(tni_saved *saved, uint32_t count);

#endif
