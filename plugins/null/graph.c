/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon.graph: without it the host refuses graphs. A graph is a list of copies and fills, in the order in
 * which the streams of the capture queued them; that order satisfies all events between them. A launch does
 * the list at once. A graph is counted: streams, events and executables hold it.
 */
#include "null.h"

#include <stdlib.h>
#include <string.h>

struct null_graph {
    uint32_t references;
    int32_t is_open; /* the capture has not ended */
    null_operation *operations;
    uint32_t count;
    uint32_t capacity;
    uint32_t n_branches;
    uint32_t queued[MAX_BRANCHES];  /* operations of each branch */
    null_place known[MAX_BRANCHES]; /* what lies before the next operation of each branch */
};

typedef struct executable {
    null_graph *graph;
} executable;

/* ---- With the lock held ------------------------------------------------------------------------------- */

static null_graph *hold(null_graph *graph)
{
    if (graph) graph->references++;
    return graph;
}

static void drop(null_graph *graph)
{
    if (!graph || --graph->references > 0) return;
    free(graph->operations);
    free(graph);
}

static null_graph *capture_of(const null_stream *stream)
{
    return stream->graph && stream->graph->is_open ? stream->graph : NULL;
}

/* A new branch of the capture. 0: there are too many. */
static int32_t join(null_graph *graph, null_stream *stream)
{
    if (graph->n_branches == MAX_BRANCHES) return 0;
    drop(stream->graph);
    stream->graph = hold(graph);
    stream->branch = graph->n_branches++;
    return 1;
}

static int32_t append(null_graph *graph, uint32_t branch, null_operation operation)
{
    if (graph->count == graph->capacity) {
        uint32_t capacity = graph->capacity ? 2 * graph->capacity : 16;
        null_operation *grown = realloc(graph->operations, capacity * sizeof(*grown));
        if (!grown) return TN_E_OUT_OF_MEMORY;
        graph->operations = grown;
        graph->capacity = capacity;
    }
    graph->operations[graph->count++] = operation;
    graph->known[branch].at[branch] = ++graph->queued[branch];
    return TN_OK;
}

static void perform(null_operation operation)
{
    if (operation.from)
        memcpy(operation.to, operation.from, (size_t)operation.bytes);
    else
        memset(operation.to, (int)operation.value, (size_t)operation.bytes);
}

/* ---- For streams and events --------------------------------------------------------------------------- */

int32_t null_run(null_plugin *p, null_stream *stream, null_operation operation)
{
    int32_t status = TN_OK;
    pthread_mutex_lock(&p->lock);
    null_graph *graph = capture_of(stream);
    if (graph) status = append(graph, stream->branch, operation);
    pthread_mutex_unlock(&p->lock);
    if (!graph) perform(operation);
    return status ? fail(p, status, "null: out of memory for a capture") : TN_OK;
}

void null_mark(null_plugin *p, null_event *event, null_stream *stream)
{
    pthread_mutex_lock(&p->lock);
    null_graph *graph = capture_of(stream);
    drop(event->graph);
    event->graph = hold(graph);
    if (graph) event->place = graph->known[stream->branch];
    pthread_mutex_unlock(&p->lock);
}

int32_t null_wait(null_plugin *p, null_stream *stream, null_event *event)
{
    int32_t is_joined = 1;
    pthread_mutex_lock(&p->lock);
    null_graph *graph = event->graph && event->graph->is_open ? event->graph : NULL;
    if (graph && capture_of(stream) != graph) is_joined = join(graph, stream);
    for (uint32_t b = 0; graph && is_joined && b < MAX_BRANCHES; b++) {
        uint32_t *known = &graph->known[stream->branch].at[b];
        if (*known < event->place.at[b]) *known = event->place.at[b];
    }
    pthread_mutex_unlock(&p->lock);
    return is_joined ? TN_OK : fail(p, TN_E_UNSUPPORTED, "null: a capture has at most 8 streams");
}

void null_forget(null_plugin *p, null_graph *graph)
{
    pthread_mutex_lock(&p->lock);
    drop(graph);
    pthread_mutex_unlock(&p->lock);
}

/* ---- The slots ---------------------------------------------------------------------------------------- */

static int32_t graph_begin(void *self, void *device, void *stream)
{
    null_plugin *p = self;
    null_graph *graph = calloc(1, sizeof(*graph));
    if (!graph) return fail(p, TN_E_OUT_OF_MEMORY, "null: out of memory for a capture");
    graph->is_open = 1;
    pthread_mutex_lock(&p->lock);
    join(graph, stream);
    pthread_mutex_unlock(&p->lock);
    return TN_OK;
}

/* The stream must know of everything that the others queued. */
static int32_t graph_end(void *self, void *device, void *stream, void **out_graph)
{
    null_plugin *p = self;
    int32_t is_whole = 1;
    pthread_mutex_lock(&p->lock);
    null_graph *graph = capture_of(stream);
    for (uint32_t b = 0; graph && b < graph->n_branches; b++)
        is_whole = is_whole && graph->known[((null_stream *)stream)->branch].at[b] >= graph->queued[b];
    if (graph) graph->is_open = 0;
    if (graph && is_whole) *out_graph = hold(graph);
    pthread_mutex_unlock(&p->lock);
    if (!graph) return fail(p, TN_E_STATE, "null: the stream does not capture");
    return is_whole ? TN_OK
                    : fail(p, TN_E_STATE, "null: the work of a stream that joined was not waited for");
}

static void graph_destroy(void *self, void *device, void *graph)
{
    null_forget(self, graph);
}

static int32_t graph_instantiate(void *self, void *device, void *graph, const tn_graph_options *options,
                                 void **out_executable)
{
    null_plugin *p = self;
    executable *e = malloc(sizeof(*e));
    if (!e) return fail(p, TN_E_OUT_OF_MEMORY, "null: out of memory for an executable");
    pthread_mutex_lock(&p->lock);
    e->graph = hold(graph);
    pthread_mutex_unlock(&p->lock);
    *out_executable = e;
    return TN_OK;
}

static int32_t graph_launch(void *self, void *device, void *handle, void *stream)
{
    const executable *e = handle;
    for (uint32_t i = 0; i < e->graph->count; i++) perform(e->graph->operations[i]);
    return TN_OK;
}

/* Without it: the host makes a new executable. */
static int32_t graph_update(void *self, void *device, void *handle, void *graph)
{
    null_plugin *p = self;
    executable *e = handle;
    const null_graph *from = graph;
    int32_t is_alike = e->graph->count == from->count;
    for (uint32_t i = 0; is_alike && i < from->count; i++)
        is_alike = !e->graph->operations[i].from == !from->operations[i].from;
    if (!is_alike)
        return fail(p, TN_E_UNSUPPORTED, "null: the graph has other operations than the executable");
    pthread_mutex_lock(&p->lock);
    drop(e->graph);
    e->graph = hold(graph);
    pthread_mutex_unlock(&p->lock);
    return TN_OK;
}

static void destroy_executable(void *self, void *device, void *handle)
{
    executable *e = handle;
    null_forget(self, e->graph);
    free(e);
}

const tn_graph_interface null_graph_interface =
    TN_INTERFACE(tn_graph_interface, .begin = graph_begin, .end = graph_end, .destroy = graph_destroy,
                 .instantiate = graph_instantiate, .launch = graph_launch, .update = graph_update,
                 .destroy_executable = destroy_executable);
