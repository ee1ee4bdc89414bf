/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as programs see them: create, capture, replay, update. capture.c has the streams that capture. An
 * executable is made at the first replay, so a graph that only updates another one needs none.
 */
#include "core/capture.h"

#include "core/tensor.h"
#include "core/profile.h"

static const tn_graph_interface *slots(const tn_graph *g)
{
    return &g->device->type->driver.graph;
}

static void *self_of(const tn_graph *g)
{
    return g->device->type->driver.self;
}

int32_t tn_graph_create(tn_context *ctx, tn_device device, tn_graph **out)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    const tni_driver *driver = &d->type->driver;
    if (!driver->graph.size)
        return tni_error(TN_E_UNSUPPORTED, "plugin %s has no graphs (no interface tenon.graph)",
                         driver->plugin);
    if (d->synchronous)
        return tni_error(TN_E_UNSUPPORTED,
                         "plugin %s: a device that works at once in the host's memory has no graphs",
                         driver->plugin);
    int32_t status = tni_allocator_check_caching(d->allocator, "memory that stays for graphs");
    if (status) return status;
    tn_graph *g = tni_alloc_zeroed(ctx, sizeof *g);
    if (!g) return TN_E_OUT_OF_MEMORY;
    g->ctx = ctx;
    g->device = d;
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->text_lock, NULL);
    pthread_mutex_init(&g->random_lock, NULL);
    tni_context_own(ctx);
    tni_handle_made(ctx, g, "graph");
    *out = g;
    return TN_OK;
}

static void destroy_executable(tn_graph *g)
{
    if (g->executable) slots(g)->destroy_executable(self_of(g), g->device->handle, g->executable);
    g->executable = NULL;
}

static void drop_randoms(tn_graph *g)
{
    for (tni_graph_random *r = g->randoms, *next; r; r = next) {
        next = r->next;
        tn_release(r->state);
        tn_generator_release(r->generator);
        tni_free(g->ctx, r, sizeof *r);
    }
    g->randoms = NULL;
    tn_event_release(g->launched);
    g->launched = NULL;
}

/* Releases everything that a capture made. The device has been waited for. */
static void drop_work(tn_graph *g)
{
    destroy_executable(g);
    drop_randoms(g);
    if (g->handle) slots(g)->destroy(self_of(g), g->device->handle, g->handle);
    g->handle = NULL;
    while (g->kept) {
        tni_kept *kept = g->kept;
        g->kept = kept->next;
        kept->release(kept->pointer);
        tni_free(g->ctx, kept, sizeof *kept);
    }
    if (g->pool && !g->shared) tni_pool_end(g->device->allocator, g->pool);
    g->pool = 0;
}

static void wait_for_device(const tn_graph *g)
{
    tni_late_keep(g->device, tni_device_wait(g->device), "waiting for the device of a graph");
}

static void empty(tn_graph *g)
{
    if (g->capture) (void)tni_capture_end(g);
    pthread_mutex_lock(&g->lock);
    if (g->handle || g->pool) wait_for_device(g);
    drop_work(g);
    pthread_mutex_unlock(&g->lock);
}

static int32_t check(const tn_graph *g)
{
    if (!g) return tni_error(TN_E_ARGUMENT, "a graph is missing");
    int32_t status = tni_handle_check(g->ctx, &g->life, "graph");
    return status ? status : tni_context_check_kept(g->ctx);
}

/* TN_OK for a graph that has been captured. */
static int32_t check_captured(const tn_graph *g, const char *what)
{
    if (g->capture) return tni_error(TN_E_STATE, "%s: the graph is being captured", what);
    if (!g->handle) return tni_error(TN_E_STATE, "%s: the graph is empty; capture it first", what);
    return TN_OK;
}

int32_t tn_graph_reset(tn_graph *graph)
{
    int32_t status = check(graph);
    if (!status) empty(graph);
    return status;
}

void tn_graph_release(tn_graph *graph)
{
    if (!graph || tni_context_check_kept(graph->ctx)) return;
    tn_context *ctx = graph->ctx;
    if (!tni_handle_may_end(ctx, &graph->life, "graph", __builtin_return_address(0))) return;
    empty(graph);
    tn_memory_pool_release(graph->shared);
    pthread_mutex_destroy(&graph->random_lock);
    pthread_mutex_destroy(&graph->text_lock);
    pthread_mutex_destroy(&graph->lock);
    tni_handle_free(ctx, graph, sizeof *graph, &graph->life);
    tni_context_unown(ctx);
}

int32_t tn_graph_capture_begin(tn_graph *graph, tn_stream *stream)
{
    int32_t status = check(graph);
    if (!status) status = tni_stream_check(stream);
    if (status) return status;
    if (graph->capture || graph->handle)
        return tni_error(TN_E_STATE, "tn_graph_capture_begin: the graph %s",
                         graph->capture ? "is being captured"
                                        : "has been captured; tn_graph_reset empties it");
    if (stream->device != graph->device)
        return tni_error(TN_E_DEVICE, "tn_graph_capture_begin: graph and stream are of different devices");
    if (tni_stream_captures(stream))
        return tni_error(TN_E_STATE, "tn_graph_capture_begin: the stream captures another graph");
    return tni_capture_begin(graph, stream);
}

int32_t tn_graph_capture_end(tn_graph *graph)
{
    int32_t status = check(graph);
    if (status) return status;
    if (!graph->capture) return tni_error(TN_E_STATE, "tn_graph_capture_end: no capture has begun");
    status = tni_capture_end(graph);
    if (!status) return TN_OK;
    tn_error *error = tni_error_copy();
    wait_for_device(graph); /* streams that do not capture may use memory of the pool */
    drop_work(graph);
    tni_error_restore(error);
    tn_error_release(error);
    return status;
}

static int32_t make_executable(tn_graph *g)
{
    if (g->executable) return TN_OK;
    const tn_graph_options options = {.size = sizeof options};
    void *executable = NULL;
    int32_t status = slots(g)->instantiate(self_of(g), g->device->handle, g->handle, &options, &executable);
    if (status) return tni_driver_error(g->device->type, status, "instantiating a graph");
    if (!executable) return tni_no_handle(g->device->type, "graph.instantiate");
    g->executable = executable;
    return TN_OK;
}

/* ---- Random numbers: each launch takes counters of its own --------------------------------------------- */

typedef struct random_state {
    tn_context *ctx;
    uint64_t words[2]; /* seed, start */
} random_state;

static void free_state(void *pointer)
{
    random_state *s = pointer;
    tni_free(s->ctx, s, sizeof *s);
}

/* Queues the copy of the next seed and counter to the device. The host's copy stays until the stream has passed. */
static int32_t write_state(tn_graph *g, tni_graph_random *r, tn_stream *stream)
{
    const tni_driver *driver = &g->device->type->driver;
    random_state *s = tni_alloc(g->ctx, sizeof *s);
    tni_kept *kept = s ? tni_alloc(g->ctx, sizeof *kept) : NULL;
    if (!kept) {
        tni_free(g->ctx, s, sizeof *s);
        return TN_E_OUT_OF_MEMORY;
    }
    s->ctx = g->ctx;
    tni_generator_reserve(r->generator, r->count, &s->words[0], &s->words[1]);
    *kept = (tni_kept){.pointer = s, .release = free_state};
    int32_t status = driver->copy.host_to_device(driver->self, g->device->handle, r->state->desc.allocation,
                                                 r->state->desc.byte_offset, s->words, NULL, sizeof s->words,
                                                 stream->handle);
    tni_release_later(stream, kept);
    return status ? tni_driver_error(g->device->type, status, "copy of the random state of a graph") : TN_OK;
}

/* The state is written behind the last launch, which may be on another stream. */
static int32_t write_states(tn_graph *g, tn_stream *stream)
{
    int32_t status = TN_OK;
    if (!g->randoms) return TN_OK;
    if (g->launched)
        status = tn_stream_wait_event(stream, g->launched);
    else
        status = tni_event_create(g->device, 0, &g->launched);
    for (tni_graph_random *r = g->randoms; r && !status; r = r->next) status = write_state(g, r, stream);
    return status;
}

int32_t tn_graph_replay(tn_graph *graph)
{
    int32_t status = check(graph);
    if (!status) status = check_captured(graph, "tn_graph_replay");
    if (status) return status;
    tni_device *d = graph->device;
    tn_stream *stream = tni_current_stream(d);
    if (tni_stream_captures(stream)) return tni_capture_refuse(stream, "replaying a graph");
    pthread_mutex_lock(&graph->lock);
    status = check_captured(graph, "tn_graph_replay"); /* again: another thread may have emptied it */
    if (!status) status = make_executable(graph);
    if (!status) status = write_states(graph, stream);
    if (!status) {
        tni_profile_work work;
        int32_t measured = tni_profile_measures(d, stream, &work);
        status = slots(graph)->launch(self_of(graph), d->handle, graph->executable, stream->handle);
        if (measured) tni_profile_work_end(d, stream, "graph replay", &work);
        if (status) status = tni_driver_error(d->type, status, "replaying a graph");
    }
    if (!status && graph->launched) status = tn_event_record(graph->launched, stream);
    pthread_mutex_unlock(&graph->lock);
    return status;
}

/* Updates the executable, or destroys it: then the next replay makes a new one. */
static int32_t update_executable(tn_graph *g, const tn_graph *from)
{
    if (!g->executable) return TN_OK;
    int32_t status = TN_E_UNSUPPORTED;
    if (slots(g)->update)
        status = slots(g)->update(self_of(g), g->device->handle, g->executable, from->handle);
    if (status && status != TN_E_UNSUPPORTED)
        return tni_driver_error(g->device->type, status, "updating a graph");
    if (status) destroy_executable(g);
    return TN_OK;
}

static int32_t take_over(tn_graph *graph, tn_graph *from)
{
    int32_t status = check_captured(graph, "tn_graph_update");
    if (!status) status = check_captured(from, "tn_graph_update, from");
    if (status) return status;
    wait_for_device(graph);
    status = update_executable(graph, from);
    if (status) return status;
    void *executable = graph->executable;
    graph->executable = NULL;
    drop_work(graph);
    destroy_executable(from);
    graph->executable = executable;
    graph->handle = from->handle;
    graph->pool = from->pool;
    tn_memory_pool *shared = graph->shared; /* `from` keeps its own for its next capture */
    graph->shared = tni_memory_pool_retain(from->shared);
    tn_memory_pool_release(shared);
    graph->kept = from->kept;
    graph->randoms = from->randoms;
    from->randoms = NULL;
    from->handle = NULL;
    from->pool = 0;
    from->kept = NULL;
    return TN_OK;
}

int32_t tn_graph_update(tn_graph *graph, tn_graph *from)
{
    int32_t status = check(graph);
    if (!status) status = check(from);
    if (!status && (graph == from || graph->device != from->device))
        status =
            tni_error(TN_E_ARGUMENT, "tn_graph_update: %s",
                      graph == from ? "a graph cannot update itself" : "the graphs are of different devices");
    if (status) return status;
    /* In the order of addresses, so that two threads that update crosswise do not wait for each other. */
    tn_graph *first = graph < from ? graph : from, *second = graph < from ? from : graph;
    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    status = take_over(graph, from);
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
    return status;
}

int32_t tn_graph_set_pool(tn_graph *graph, tn_memory_pool *pool)
{
    int32_t status = check(graph);
    if (status) return status;
    if (pool && pool->device != graph->device)
        return tni_error(TN_E_DEVICE, "tn_graph_set_pool: the pool and the graph are of different devices");
    if (graph->capture || graph->handle)
        return tni_error(TN_E_STATE, "tn_graph_set_pool: the graph %s",
                         graph->capture ? "is being captured" : "has been captured; reset it first");
    tn_memory_pool *before = graph->shared;
    graph->shared = tni_memory_pool_retain(pool);
    tn_memory_pool_release(before);
    return TN_OK;
}

int32_t tn_stream_is_capturing(const tn_stream *stream)
{
    return stream && tni_stream_captures(stream);
}
