/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes: life cycle, names, and what a program may ask them. Destroying a chain of a million nodes must not
 * recurse, so the last release only puts a node on a list of the thread, which the outermost release empties.
 */
#include "autograd/graph.h"

#include <string.h>

#include "dispatcher/registry.h"

void tni_node_free(tn_node *node)
{
    tni_free(node->ctx, node, node->bytes);
}

static void destroy_node(tn_node *node)
{
    tni_edge *edges = node->edges;
    for (uint32_t i = 0; i < node->n_edges; i++) {
        if (edges[i].node) tni_node_release(edges[i].node);
    }
    if (node->hooks.data) tni_hooks_finish(node);
    node->type->destroy(node);
}

void tni_node_release(tn_node *node)
{
    if (!node) return;
    if (node->is_leaf) {
        tn_release(((tni_leaf_node *)node)->tensor);
        return;
    }
    /* as for tensors: the only reference needs no atomic subtraction */
    if (atomic_load_explicit(&node->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (tni_tls.dying) { /* the outermost release empties the list */
        node->next_dying = ((tn_node *)tni_tls.dying)->next_dying;
        ((tn_node *)tni_tls.dying)->next_dying = node;
        return;
    }
    tn_node head; /* only its link is used */
    head.next_dying = node;
    node->next_dying = NULL;
    tni_tls.dying = &head;
    while (head.next_dying) {
        tn_node *next = head.next_dying;
        head.next_dying = next->next_dying;
        destroy_node(next);
    }
    tni_tls.dying = NULL;
}

/* ---- names ---- */

/* "aten::_log_softmax.int" -> "LogSoftmaxBackward" */
static void camel_case(const char *full_name, char *out, uint64_t bytes)
{
    const char *name = strstr(full_name, "::");
    name = name ? name + 2 : full_name;
    uint64_t used = 0;
    int upper = 1;
    for (; *name && *name != '.' && *name != '(' && used + 10 < bytes; name++) {
        if (*name == '_') {
            upper = 1;
            continue;
        }
        /* Not toupper, which follows the locale: the upper case of i is another letter in Turkish. */
        const int is_small = *name >= 'a' && *name <= 'z';
        out[used++] = upper && is_small ? (char)(*name - 'a' + 'A') : *name;
        upper = 0;
    }
    memcpy(out + used, "Backward", 9);
}

const char *tni_operator_node_name(tn_context *ctx, uint32_t number, const char *full_name)
{
    tni_autograd_state *state = tni_autograd_of(ctx);
    pthread_mutex_lock(&state->lock);
    if (!state->names) state->names = tni_alloc_zeroed(ctx, TNI_MAX_OPS * sizeof(char *));
    char *name = state->names ? state->names[number] : NULL;
    if (state->names && !name) {
        char buffer[160];
        camel_case(full_name, buffer, sizeof buffer);
        name = state->names[number] = tni_strdup(ctx, buffer);
    }
    pthread_mutex_unlock(&state->lock);
    return name ? name : "Backward";
}

/* ---- public ---- */

tn_node *tn_grad_fn(const tn_tensor *t)
{
    if (!t) return NULL;
    tni_edge edge;
    if (tni_gradient_edge((tn_tensor *)(uintptr_t)t, &edge)) return NULL;
    return edge.node && !edge.node->is_leaf ? edge.node : NULL;
}

const char *tn_node_name(const tn_node *node)
{
    return node ? node->type->name(node) : "";
}

uint64_t tn_node_sequence(const tn_node *node)
{
    return node ? node->sequence : 0;
}

uint32_t tn_node_input_count(const tn_node *node)
{
    return node ? node->n_edges : 0;
}

tn_node *tn_node_next(const tn_node *node, uint32_t i)
{
    return node && i < node->n_edges ? node->edges[i].node : NULL;
}
