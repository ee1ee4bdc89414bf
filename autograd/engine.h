/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the engine: what one backward run knows of the graph. */
#ifndef TNI_AUTOGRAD_ENGINE_H
#define TNI_AUTOGRAD_ENGINE_H

#include "autograd/graph.h"

/* A node in one run. */
typedef struct tni_entry {
    tn_node *node;           /* borrowed: the graph is held by the roots */
    struct tni_entry **next; /* by edge; NULL where there is none */
    tn_tensor **in;          /* gradients that have come in: references */
    uint32_t missing;        /* edges that have not delivered yet */
    uint8_t needed;          /* runs: it leads to an input */
    uint8_t captured;        /* an input's gradient is taken here */
    uint8_t visited;
    uint8_t is_root;
    uint8_t noted; /* the node points to this entry */
} tni_entry;

typedef struct tni_multi_state tni_multi_state;

typedef struct tni_callback {
    void (*run)(void *user, tn_scope *s);
    void *user;
} tni_callback;

typedef struct tni_chunk {
    struct tni_chunk *next;
    uint64_t bytes;
} tni_chunk;

#define TNI_VISITED 8u /* more are joined one by one */

typedef struct tni_backward_run {
    struct tni_backward_run *outer; /* the run in whose hook this one was called */
    tn_context *ctx;
    tn_scope *scope;
    const tni_goal *goal;
    tni_entry *
        *table; /* entries that their node does not point to, by address of the node; open addressing */
    uint32_t table_size;
    uint32_t table_count;
    uint32_t count;
    tni_entry **all; /* in the order they were found */
    uint32_t all_capacity;
    tni_entry **heap; /* ready entries, the latest call first; room for all */
    uint32_t heap_count;
    tni_chunk *chunks;
    char *at, *end;
    tni_vector callbacks;
    tni_edge *inputs; /* where the gradients of goal->inputs are taken */
    tn_stream *left;  /* the caller's current stream while a node's is current; NULL: the same */
    tn_stream *visited[TNI_VISITED]; /* streams other than the caller's that nodes worked on */
    uint32_t n_visited;
    int32_t finds_anomalies; /* TENON_DEBUG=anomaly */
    tni_multi_state *multi;  /* gradients that have arrived for hooks of several tensors */
} tni_backward_run;

/*
 * Finds all nodes that the roots lead to, counts their incoming edges, marks those that lead to the inputs.
 */
int32_t tni_plan(tni_backward_run *run);
tni_entry *tni_entry_find(tni_backward_run *run, const tn_node *node);
/* Whether the run visits the entry (NULL: no). */
static inline int32_t tni_is_wanted(const tni_backward_run *run, const tni_entry *e)
{
    return e && (!run->goal->inputs.count || e->needed || e->captured);
}
/* Memory that is freed with the run; NULL if there is none. */
void *tni_run_memory(tni_backward_run *run, uint64_t bytes);
void tni_multi_states_finish(tni_backward_run *run);
void tni_plan_finish(tni_backward_run *run);

#endif
