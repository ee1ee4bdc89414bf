/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: which streams take part, and what they may not do meanwhile. The first refusal is kept, because
 * it makes the capture invalid. A stream joins by waiting for an event of the capture. It is waited for
 * first, so that no earlier work is under way on it: the allocator then needs no events of capturing
 * streams.
 */
#include "core/capture.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/number_text.h"
#include "core/tensor.h"

uint64_t tni_stream_capture(const tn_stream *stream)
{
    const tn_graph *g = stream ? atomic_load_explicit(&stream->capture, memory_order_acquire) : NULL;
    return g ? g->capture : 0;
}

uint64_t tni_stream_pool(const tn_stream *stream)
{
    const tn_graph *g = stream ? atomic_load_explicit(&stream->capture, memory_order_acquire) : NULL;
    return g ? g->pool : 0;
}

/* ---- Refusals ------------------------------------------------------------------------------------------ */

static int32_t refuse(tn_graph *g, const char *text)
{
    pthread_mutex_lock(&g->text_lock);
    if (!g->text[0]) {
        snprintf(g->text, sizeof g->text, "%s", text);
        g->refused_on = pthread_self();
    }
    pthread_mutex_unlock(&g->text_lock);
    return tni_error(TN_E_STATE, "%s", text);
}

int32_t tni_capture_refuse(tn_stream *stream, const char *format, ...)
{
    char what[160], text[256];
    tn_graph *g = atomic_load_explicit(&stream->capture, memory_order_acquire);
    va_list list;
    if (TNI_LIKELY(!g)) return TN_OK;
    va_start(list, format);
    tni_vsnprintf(what, sizeof what, format, list);
    va_end(list);
    snprintf(text, sizeof text, "%s cannot be captured in a graph", what);
    return refuse(g, text);
}

/* The capture with this number that is under way, or NULL. Under the device's lock. */
static tn_graph *find(const tni_device *d, uint64_t capture)
{
    tn_graph *g = d->capturing;
    while (g && g->capture != capture) g = g->next;
    return g;
}

static void blame(tni_device *d, const char *message, const char *op)
{
    pthread_mutex_lock(&d->lock);
    for (tn_graph *g = d->capturing; g; g = g->next) {
        pthread_mutex_lock(&g->text_lock);
        if (g->text[0] && !g->op[0] && pthread_equal(g->refused_on, pthread_self()) &&
            !strcmp(g->text, message))
            snprintf(g->op, sizeof g->op, "%s", op);
        pthread_mutex_unlock(&g->text_lock);
    }
    pthread_mutex_unlock(&d->lock);
}

void tni_capture_blame(tn_context *ctx, const char *op)
{
    const tn_error *error = tn_last_error();
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    if (!error || error->code != TN_E_STATE) return;
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < ctx->types[k]->count; i++) {
            tni_device *d = &ctx->types[k]->devices[i];
            if (atomic_load_explicit(&d->captures, memory_order_relaxed)) blame(d, error->message, op);
        }
    }
}

/* ---- Events -------------------------------------------------------------------------------------------- */

int32_t tni_capture_check_event(const tn_event *event, const char *what)
{
    char text[160];
    if (TNI_LIKELY(!event->capture)) return TN_OK;
    snprintf(text, sizeof text, "%s an event that was recorded in a capture cannot be captured in a graph",
             what);
    pthread_mutex_lock(&event->device->lock);
    tn_graph *g = find(event->device, event->capture);
    if (g) (void)refuse(g, text);
    pthread_mutex_unlock(&event->device->lock);
    return tni_error(TN_E_STATE, g ? "%s" : "%s, nor done afterwards: record the event anew", text);
}

int32_t tni_capture_check_wait(tn_stream *stream, const tn_event *event, tn_graph **out_join)
{
    tn_graph *own = atomic_load_explicit(&stream->capture, memory_order_acquire), *g = NULL;
    *out_join = NULL;
    if (!event->capture) return tni_capture_refuse(stream, "waiting for an event from outside the capture");
    if (event->device != stream->device)
        return tni_capture_check_event(event, "waiting on another device for");
    pthread_mutex_lock(&event->device->lock);
    g = find(event->device, event->capture);
    pthread_mutex_unlock(&event->device->lock);
    if (own && own != g) return tni_capture_refuse(stream, "waiting for an event of another capture");
    if (!g) return tni_capture_check_event(event, "waiting for");
    if (own) return TN_OK;
    int32_t status = tn_stream_synchronize(stream);
    if (!status) *out_join = g;
    return status;
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

int32_t tni_capture_join(tn_graph *g, tn_stream *stream)
{
    pthread_mutex_lock(&g->lock);
    tn_stream **place = tni_vector_push(g->ctx, &g->streams, sizeof *place);
    if (place) *place = tni_stream_retain(stream);
    pthread_mutex_unlock(&g->lock);
    if (!place) return tni_error(TN_E_OUT_OF_MEMORY, "no memory for a stream that joins a capture");
    pthread_mutex_lock(&g->device->lock);
    tni_device_unwaited(g->device);
    atomic_store_explicit(&stream->capture, g, memory_order_release);
    pthread_mutex_unlock(&g->device->lock);
    return TN_OK;
}

void tni_capture_leave(tn_graph *g, tn_stream *stream)
{
    pthread_mutex_lock(&g->lock);
    tn_stream **streams = g->streams.data;
    uint32_t i = g->streams.count;
    while (i-- > 0 && streams[i] != stream) {
    }
    streams[i] = streams[--g->streams.count];
    atomic_store_explicit(&stream->capture, NULL, memory_order_release);
    pthread_mutex_unlock(&g->lock);
    tn_stream_release(stream);
}

int32_t tni_capture_keep(tn_stream *stream, tni_kept *kept)
{
    tn_graph *g = atomic_load_explicit(&stream->capture, memory_order_acquire);
    if (!g) return 0;
    pthread_mutex_lock(&g->lock);
    kept->next = g->kept;
    g->kept = kept;
    pthread_mutex_unlock(&g->lock);
    return 1;
}

/* ---- Random numbers ------------------------------------------------------------------------------------ */

static tni_graph_random *random_of(tn_graph *g, tn_generator *generator)
{
    const int64_t two = 2;
    tni_graph_random *r = g->randoms;
    while (r && r->generator != generator) r = r->next;
    if (r) return r;
    r = tni_alloc_zeroed(g->ctx, sizeof *r);
    if (!r) return NULL;
    if (tni_tensor_create(g->ctx, g->device->id, TN_UINT64, 1, &two, NULL, &r->state)) {
        tni_free(g->ctx, r, sizeof *r);
        return NULL;
    }
    r->generator = generator;
    atomic_fetch_add_explicit(&generator->refs, 1, memory_order_relaxed);
    r->next = g->randoms;
    g->randoms = r;
    return r;
}

int32_t tni_capture_random(tn_stream *stream, tn_generator *generator, uint64_t count, uint64_t *out_offset,
                           tn_tensor **out_state)
{
    tn_graph *g = atomic_load_explicit(&stream->capture, memory_order_acquire);
    *out_state = NULL;
    if (!g) return TN_OK;
    uint64_t seed = 0;
    const int32_t again = tni_tls.saved_hooks ? tni_random_again(count, 1, &seed, out_offset) : 0;
    if (again < 0) return TN_OK; /* the numbers of a run before this capture: the same in each replay */
    pthread_mutex_lock(&g->random_lock);
    tni_graph_random *r = random_of(g, generator);
    if (r) {
        if (!again) *out_offset = r->count;
        if (!again) r->count += count;
        *out_state = r->state;
    }
    pthread_mutex_unlock(&g->random_lock);
    if (r && !again && tni_tls.saved_hooks) tni_random_note(&(tni_random_draw){count, 0, *out_offset, 1});
    return r ? TN_OK : tni_error_ensure(TN_E_OUT_OF_MEMORY, "the random numbers of a graph");
}

/* ---- Beginning and end --------------------------------------------------------------------------------- */

static void enlist(tn_graph *g)
{
    tni_device *d = g->device;
    pthread_mutex_lock(&d->lock);
    tni_device_unwaited(d);
    g->capture = ++d->last_capture;
    g->next = d->capturing;
    d->capturing = g;
    atomic_fetch_add(&d->captures, 1);
    pthread_mutex_unlock(&d->lock);
}

static void delist(tn_graph *g)
{
    tni_device *d = g->device;
    pthread_mutex_lock(&d->lock);
    for (tn_graph **link = &d->capturing; *link; link = &(*link)->next) {
        if (*link != g) continue;
        *link = g->next;
        break;
    }
    atomic_fetch_sub(&d->captures, 1);
    g->capture = 0;
    pthread_mutex_unlock(&d->lock);
}

static void leave_streams(tn_graph *g)
{
    tn_stream **streams = g->streams.data;
    for (uint32_t i = 0; i < g->streams.count; i++)
        atomic_store_explicit(&streams[i]->capture, NULL, memory_order_release);
    delist(g);
    for (uint32_t i = 0; i < g->streams.count; i++) tn_stream_release(streams[i]);
    tni_vector_finish(g->ctx, &g->streams, sizeof *streams);
    g->streams = (tni_vector){NULL, 0, 0};
    g->origin = NULL;
}

/* The capture counts before the plugin captures: no thread waits for the stream from then on, which would break the capture. */
int32_t tni_capture_begin(tn_graph *g, tn_stream *stream)
{
    tni_device *d = g->device;
    const tni_driver *driver = &d->type->driver;
    int32_t status = tn_stream_synchronize(stream);
    if (status) return status;
    g->text[0] = g->op[0] = 0;
    g->origin = stream;
    enlist(g);
    g->pool = g->shared ? g->shared->number : g->capture;
    status = tni_capture_join(g, stream);
    if (!status) {
        status = driver->graph.begin(driver->self, d->handle, stream->handle);
        if (!status) return TN_OK;
        status = tni_driver_error(d->type, status, "beginning a capture");
    }
    leave_streams(g);
    g->pool = 0; /* nothing was allocated */
    return status;
}

/* The error of an invalid capture; what the plugin captured is destroyed. */
static int32_t refused(const tn_graph *g, void *handle)
{
    const tni_driver *driver = &g->device->type->driver;
    if (handle) driver->graph.destroy(driver->self, g->device->handle, handle);
    return tni_error(TN_E_STATE, "the capture is invalid: %s%s%s", g->op, g->op[0] ? ": " : "", g->text);
}

int32_t tni_capture_end(tn_graph *g)
{
    tni_device *d = g->device;
    const tni_driver *driver = &d->type->driver;
    void *handle = NULL;
    int32_t status = driver->graph.end(driver->self, d->handle, g->origin->handle, &handle);
    if (status) {
        status = tni_driver_error(d->type, status, "ending a capture");
        handle = NULL;
    } else if (!handle) {
        status = tni_no_handle(d->type, "graph.end");
    }
    leave_streams(g);
    if (g->text[0]) return refused(g, handle);
    if (!status) g->handle = handle;
    return status;
}
