/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a backward run: entries beside the graph, so that any number of threads can run one graph. The
 * first run that visits a node stores its entry in the node and removes it at its end. A run that finds the
 * entry of another one (in a second thread, or called from a hook) keeps its own in a table. The plan is made
 * by walking from the roots with an explicit stack, as graphs are deeper than the thread's stack.
 */
#include "autograd/engine.h"

#include <string.h>

#define CHUNK_BYTES 65536u

void *tni_run_memory(tni_backward_run *run, uint64_t bytes)
{
    bytes = (bytes + 15u) & ~(uint64_t)15u;
    if ((uint64_t)(run->end - run->at) < bytes) {
        uint64_t size = sizeof(tni_chunk) + 16 + bytes;
        if (run->count == 0 && size < 1024)
            size = 1024; /* small graphs: a small chunk */
        else if (size < CHUNK_BYTES)
            size = CHUNK_BYTES;
        tni_chunk *chunk = tni_alloc(run->ctx, size);
        if (!chunk) return NULL;
        *chunk = (tni_chunk){run->chunks, size};
        run->chunks = chunk;
        run->at = (char *)chunk + ((sizeof *chunk + 15u) & ~(uint64_t)15u);
        run->end = (char *)chunk + size;
    }
    void *memory = run->at;
    run->at += bytes;
    return memory;
}

static uint64_t hash(const tn_node *node)
{
    return (uint64_t)(uintptr_t)node * 0x9e3779b97f4a7c15ull >> 20;
}

static tni_entry **slot_of(const tni_backward_run *run, const tn_node *node)
{
    uint64_t mask = run->table_size - 1;
    uint64_t i = hash(node) & mask;
    while (run->table[i] && run->table[i]->node != node) i = (i + 1) & mask;
    return run->table + i;
}

static inline int32_t is_noted(const tni_backward_run *run, const tn_node *node)
{
    return atomic_load_explicit(&node->run, memory_order_relaxed) == run;
}

tni_entry *tni_entry_find(tni_backward_run *run, const tn_node *node)
{
    if (is_noted(run, node)) return node->entry;
    return run->table_count ? *slot_of(run, node) : NULL;
}

/* Doubles the list. */
static int32_t grow(tni_backward_run *run)
{
    uint32_t capacity = run->all_capacity ? run->all_capacity * 2 : 32;
    tni_entry **all = tni_run_memory(run, capacity * sizeof *all);
    if (!all) return TN_E_OUT_OF_MEMORY;
    if (run->count) memcpy(all, run->all, run->count * sizeof *all);
    run->all = all;
    run->all_capacity = capacity;
    return TN_OK;
}

static int32_t put_in_table(tni_backward_run *run, tni_entry *e)
{
    if (2 * run->table_count >= run->table_size) {
        uint32_t size = run->table_size ? run->table_size * 2 : 64, old_size = run->table_size;
        tni_entry **table = tni_run_memory(run, size * sizeof *table), **old = run->table;
        if (!table) return TN_E_OUT_OF_MEMORY;
        memset(table, 0, size * sizeof *table);
        run->table = table;
        run->table_size = size;
        for (uint32_t i = 0; i < old_size; i++) {
            if (old[i]) *slot_of(run, old[i]->node) = old[i];
        }
    }
    *slot_of(run, e->node) = e;
    run->table_count++;
    return TN_OK;
}

static __attribute__((noinline)) tni_entry *make(tni_backward_run *run, tn_node *node)
{
    const void *nobody = NULL;
    if (run->count == run->all_capacity && grow(run)) return NULL;
    tni_entry *e =
        tni_run_memory(run, sizeof *e + node->n_edges * sizeof *e->next + node->n_inputs * sizeof *e->in);
    if (!e) return NULL;
    *e = (tni_entry){.node = node, .next = (tni_entry **)(e + 1)};
    e->in = (tn_tensor **)(e->next + node->n_edges);
    for (uint32_t i = 0; i < node->n_inputs; i++) e->in[i] = NULL;
    if (atomic_compare_exchange_strong_explicit(&node->run, &nobody, run, memory_order_acquire,
                                                memory_order_relaxed)) {
        node->entry = e;
        e->noted = 1;
    } else if (put_in_table(run, e)) {
        return NULL;
    }
    run->all[run->count++] = e;
    return e;
}

static inline tni_entry *find_or_make(tni_backward_run *run, tn_node *node)
{
    tni_entry *e = tni_entry_find(run, node);
    return e ? e : make(run, node);
}

/* The list itself is the queue of the walk: entries are visited in the order they were found. */
static int32_t walk(tni_backward_run *run)
{
    for (uint32_t at = 0; at < run->count; at++) {
        tni_entry *e = run->all[at];
        for (uint32_t i = 0; i < e->node->n_edges; i++) {
            tn_node *node = e->node->edges[i].node;
            e->next[i] = NULL;
            if (!node) continue;
            tni_entry *to = find_or_make(run, node);
            if (!to) return TN_E_OUT_OF_MEMORY;
            e->next[i] = to;
            to->missing++;
        }
    }
    return TN_OK;
}

/* Depth first, with an explicit stack: an entry is needed if one that it leads to is needed or captured. */
static int32_t mark_needed(tni_backward_run *run)
{
    typedef struct frame {
        tni_entry *entry;
        uint32_t edge;
    } frame;
    frame *stack = tni_alloc(run->ctx, run->count * sizeof *stack);
    if (!stack) return TN_E_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < run->count; k++) {
        if (run->all[k]->visited) continue;
        uint32_t depth = 0;
        stack[depth++] = (frame){run->all[k], 0};
        run->all[k]->visited = 1;
        while (depth) {
            frame *top = stack + depth - 1;
            if (top->edge == top->entry->node->n_edges) {
                depth--;
                if (depth && (top->entry->needed || top->entry->captured)) stack[depth - 1].entry->needed = 1;
                continue;
            }
            tni_entry *next = top->entry->next[top->edge++];
            if (!next) continue;
            if (!next->visited) {
                next->visited = 1;
                stack[depth++] = (frame){next, 0};
            } else if (next->needed || next->captured) {
                top->entry->needed = 1;
            }
        }
    }
    tni_free(run->ctx, stack, run->count * sizeof *stack);
    return TN_OK;
}

static int32_t find_inputs(tni_backward_run *run)
{
    const tni_goal *goal = run->goal;
    run->inputs = tni_run_memory(run, (uint64_t)goal->inputs.count * sizeof *run->inputs);
    if (!run->inputs) return TN_E_OUT_OF_MEMORY;
    for (int64_t i = 0; i < goal->inputs.count; i++) {
        int32_t status = tni_gradient_edge(goal->inputs.data[i], run->inputs + i);
        if (status) return status;
        if (!run->inputs[i].node)
            return tni_error(TN_E_AUTOGRAD, "One of the differentiated Tensors does not require grad");
        tni_entry *e = tni_entry_find(run, run->inputs[i].node);
        if (!e) continue;
        if (goal->captures || !e->node->is_leaf)
            e->captured = 1;
        else
            e->needed = 1;
    }
    return mark_needed(run);
}

int32_t tni_plan(tni_backward_run *run)
{
    const tni_goal *goal = run->goal;
    for (int64_t i = 0; i < goal->roots.count; i++) {
        tni_edge edge;
        int32_t status = tni_gradient_edge(goal->roots.data[i], &edge);
        if (status) return status;
        tni_entry *e = find_or_make(run, edge.node);
        if (!e) return TN_E_OUT_OF_MEMORY;
        if (!e->is_root) tni_node_retain(edge.node);
        e->is_root = 1;
    }
    int32_t status = walk(run);
    if (!status && goal->inputs.count) status = find_inputs(run);
    if (status) return status;
    run->heap = tni_run_memory(run, (run->count + 1ull) * sizeof *run->heap);
    return run->heap ? TN_OK : TN_E_OUT_OF_MEMORY;
}

void tni_plan_finish(tni_backward_run *run)
{
    tni_multi_states_finish(run);
    for (uint32_t i = 0; i < run->count; i++) {
        tni_entry *e = run->all[i];
        for (uint32_t k = 0; k < e->node->n_inputs; k++) {
            if (e->in[k]) tn_release(e->in[k]);
        }
        if (e->noted) atomic_store_explicit(&e->node->run, NULL, memory_order_release);
    }
    for (uint32_t i = 0; i < run->count && run->all[i]->is_root; i++) tni_node_release(run->all[i]->node);
    while (run->chunks) {
        tni_chunk *next = run->chunks->next;
        tni_free(run->ctx, run->chunks, run->chunks->bytes);
        run->chunks = next;
    }
    tni_vector_finish(run->ctx, &run->callbacks, sizeof(tni_callback));
}
