/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: first-in-first-out queues of work on a device. A stream made by a program keeps the context; the
 * default stream belongs to its device. Waiting between streams is in event.c.
 */
#include "core/current.h"
#include "core/debug.h"
#include "core/graph.h"

/* A struct for a new stream: that of a released one, unless the context finds dead handles. */
static tn_stream *take_struct(tni_device *device)
{
    int32_t reuse = !(device->ctx->flags & TN_CONTEXT_DEBUG_HANDLES);
    for (tn_stream *s = device->streams; s && reuse; s = s->next) {
        if (s != device->default_stream &&
            atomic_load_explicit(&s->id, memory_order_relaxed) == TNI_DEAD_STREAM && !s->handle)
            return s;
    }
    tn_stream *s = tni_alloc_zeroed(device->ctx, sizeof *s);
    if (!s) return NULL;
    s->device = device;
    atomic_init(&s->id, TNI_DEAD_STREAM);
    s->next = device->streams;
    device->streams = s;
    return s;
}

/* With the device's lock held. `native`: the program's own queue, or NULL. */
static int32_t make_stream(tni_device *device, int32_t priority, const uint64_t *native, tn_stream **out)
{
    const tni_driver *driver = &device->type->driver;
    tn_stream *s = take_struct(device);
    if (!s) return TN_E_OUT_OF_MEMORY;
    const tn_stream_options options = {.size = sizeof options, .priority = priority};
    int32_t status = native ? driver->stream.wrap(driver->self, device->handle, *native, &s->handle)
                            : driver->stream.create(driver->self, device->handle, &options, &s->handle);
    if (status) {
        s->handle = NULL;
        return tni_driver_error(device->type, status, native ? "wrapping a stream" : "making a stream");
    }
    if (!s->handle) return tni_no_handle(device->type, native ? "stream.wrap" : "stream.create");
    atomic_store(&s->refs, 1);
    atomic_store_explicit(&s->user, NULL, memory_order_relaxed);
    tni_late_forget(s);
    atomic_store_explicit(&s->id, device->default_stream ? ++device->last_stream_id : 0,
                          memory_order_release);
    *out = s;
    return TN_OK;
}

int32_t tni_streams_init(tni_device *device)
{
    return make_stream(device, 0, NULL, &device->default_stream);
}

void tni_streams_finish(tni_device *device)
{
    const tni_driver *driver = &device->type->driver;
    for (tn_stream *s = device->streams, *next; s; s = next) {
        next = s->next;
        if (atomic_load(&s->id) != TNI_DEAD_STREAM)
            driver->stream.destroy(driver->self, device->handle, s->handle);
        tni_late_forget(s);
        tni_free(device->ctx, s, sizeof *s);
    }
    device->streams = NULL;
    device->default_stream = NULL;
    device->last_stream_id = 0;
}

static int32_t wait_for_streams(const tni_device *device, tn_stream *first)
{
    const tni_driver *driver = &device->type->driver;
    for (tn_stream *s = first; s; s = s->next) {
        if (atomic_load(&s->id) == TNI_DEAD_STREAM || tni_stream_captures(s)) continue;
        int32_t status = driver->stream.synchronize(driver->self, device->handle, s->handle);
        if (status) tni_late_note(s, status, "waiting for a device");
    }
    /* Work that is on no stream of ours. */
    if (!driver->device.synchronize || atomic_load(&device->captures)) return TN_OK;
    return driver->device.synchronize(driver->self, device->handle);
}

/* Waits without the lock: work may wait for a callback of the program, and that for a thread which needs the lock. */
int32_t tni_device_wait(tni_device *device)
{
    pthread_mutex_lock(&device->lock);
    tn_stream *first = device->streams;
    device->waiters++;
    pthread_mutex_unlock(&device->lock);
    int32_t status = wait_for_streams(device, first);
    tni_device_waited(device);
    return status;
}

void tni_device_waited(tni_device *device)
{
    pthread_mutex_lock(&device->lock);
    if (!--device->waiters) pthread_cond_broadcast(&device->unwaited);
    pthread_mutex_unlock(&device->lock);
}

void tni_device_unwaited(tni_device *device)
{
    while (device->waiters) pthread_cond_wait(&device->unwaited, &device->lock);
}

static int32_t check_priority(const tni_device *device, int32_t priority)
{
    const tn_device_facts *f = &device->facts;
    int32_t low = f->priority_low > f->priority_high ? f->priority_low : f->priority_high;
    int32_t high = f->priority_low > f->priority_high ? f->priority_high : f->priority_low;
    if (priority >= high && priority <= low) return TN_OK;
    return tni_error(TN_E_ARGUMENT,
                     "a stream's priority is from %d (most urgent) to %d on this device, not %d", high, low,
                     priority);
}

/* The program has it now. */
static void begin(tn_stream *stream)
{
    tni_handle_made(stream->device->ctx, stream, "stream");
    tni_context_own(stream->device->ctx);
}

int32_t tn_stream_create(tn_context *ctx, tn_device device, int32_t priority, tn_stream **out)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    int32_t status = check_priority(d, priority);
    if (status) return status;
    pthread_mutex_lock(&d->lock);
    status = make_stream(d, priority, NULL, out);
    pthread_mutex_unlock(&d->lock);
    if (!status) begin(*out);
    return status;
}

int32_t tn_stream_wrap(tn_context *ctx, tn_device device, uint64_t native, tn_stream **out)
{
    char name[64];
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    tn_device_format(ctx, d->id, name, sizeof name);
    if (!d->type->driver.stream.wrap)
        return tni_error(TN_E_UNSUPPORTED, "tn_stream_wrap: plugin %s takes no queues of the program",
                         d->type->driver.plugin);
    pthread_mutex_lock(&d->lock);
    int32_t status = make_stream(d, 0, &native, out);
    pthread_mutex_unlock(&d->lock);
    if (!status) begin(*out);
    return status ? tni_error_wrap(status, "tn_stream_wrap: argument 'native': not a queue of %s: %s", name,
                                   tn_last_error()->message)
                  : TN_OK;
}

tn_stream *tni_stream_retain(tn_stream *stream)
{
    if (stream) atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
    return stream;
}

int32_t tni_stream_retain_live(tn_stream *stream, uint64_t id)
{
    if (atomic_load_explicit(&stream->id, memory_order_acquire) != id) return TNI_STREAM_GONE;
    if (!id) return TNI_STREAM_LIVE; /* the default stream is not counted */
    uint32_t refs = atomic_load_explicit(&stream->refs, memory_order_relaxed);
    do {
        if (!refs)
            return atomic_load_explicit(&stream->id, memory_order_acquire) == id ? TNI_STREAM_ENDING
                                                                                 : TNI_STREAM_GONE;
    } while (!atomic_compare_exchange_weak(&stream->refs, &refs, refs + 1));
    if (atomic_load_explicit(&stream->id, memory_order_acquire) == id) return TNI_STREAM_LIVE;
    tn_stream_release(stream); /* another stream uses the struct now */
    return TNI_STREAM_GONE;
}

void tn_stream_release(tn_stream *stream)
{
    if (!stream || stream == stream->device->default_stream) return;
    if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1) return;
    tni_device *device = stream->device;
    tn_context *ctx = device->ctx;
    const tni_driver *driver = &device->type->driver;
    if (tni_context_check_kept(ctx)) return;
    tni_late_of_release(stream, driver->stream.synchronize(driver->self, device->handle, stream->handle));
    atomic_store_explicit(&stream->id, TNI_DEAD_STREAM, memory_order_release);
    tni_allocator_forget_stream(device->allocator, stream);
    pthread_mutex_lock(&device->lock);
    tni_device_unwaited(device);
    driver->stream.destroy(driver->self, device->handle, stream->handle);
    stream->handle = NULL;
    pthread_mutex_unlock(&device->lock);
    if (ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_object_end(ctx, stream);
    tni_context_unown(ctx);
}

tn_stream *tn_stream_current(tn_context *ctx, tn_device device)
{
    tni_device *d = tni_device_get(ctx, device);
    return d ? tni_current_stream(d) : NULL;
}

tn_stream *tn_stream_default(tn_context *ctx, tn_device device)
{
    tni_device *d = tni_device_get(ctx, device);
    return d ? d->default_stream : NULL;
}

int32_t tn_stream_set_current(tn_context *ctx, tn_stream *stream)
{
    if (!stream) return tni_error(TN_E_ARGUMENT, "tn_stream_set_current: no stream (the default one resets)");
    if (stream->device->ctx != ctx) return tni_error(TN_E_ARGUMENT, "the stream belongs to another context");
    int32_t status = tni_stream_check(stream);
    if (status) return status;
    return tni_current_set_stream(stream->device, stream);
}

int32_t tni_stream_check(const tn_stream *stream)
{
    if (!stream) return tni_error(TN_E_ARGUMENT, "a stream is missing");
    if (atomic_load_explicit(&stream->id, memory_order_relaxed) == TNI_DEAD_STREAM) {
        char origin[TNI_ORIGIN_BYTES];
        return tni_error_logged(stream->device->ctx, TN_E_DEAD_HANDLE,
                                "the stream was released and is used again%s",
                                tni_debug_origin(stream->device->ctx, stream, origin, sizeof origin));
    }
    return tni_context_check_kept(stream->device->ctx);
}

/* For what the host asks, which no stream that captures can answer. */
static int32_t check_from_host(tn_stream *stream, const char *what)
{
    int32_t status = tni_stream_check(stream);
    return status ? status : tni_capture_refuse(stream, "%s", what);
}

int32_t tn_stream_synchronize(tn_stream *stream)
{
    int32_t status = check_from_host(stream, "waiting for a stream that captures");
    if (status) return status;
    tni_device *d = stream->device;
    const tni_driver *driver = &d->type->driver;
    status = driver->stream.synchronize(driver->self, d->handle, stream->handle);
    return tni_late_of_stream(stream, status, "waiting for a stream");
}

int32_t tn_stream_query(tn_stream *stream)
{
    int32_t done = 0, status = check_from_host(stream, "asking a stream that captures");
    if (status) return -status;
    tni_device *d = stream->device;
    const tni_driver *driver = &d->type->driver;
    status = driver->stream.query(driver->self, d->handle, stream->handle, &done);
    status = status || done ? tni_late_of_stream(stream, status, "asking a stream") : tni_late_take(d);
    return status ? -status : done != 0;
}

int32_t tn_stream_add_callback(tn_stream *stream, void (*callback)(void *user), void *user)
{
    int32_t status = tni_stream_check(stream);
    if (!status && !callback) status = tni_error(TN_E_ARGUMENT, "stream_add_callback: callback is NULL");
    if (!status) status = tni_capture_refuse(stream, "a callback of the program");
    if (status) return status;
    tni_device *d = stream->device;
    const tni_driver *driver = &d->type->driver;
    if (!d->synchronous && driver->stream.host_callback) {
        status = driver->stream.host_callback(driver->self, d->handle, stream->handle, callback, user);
        return status ? tni_driver_error(d->type, status, "queueing a callback") : TN_OK;
    }
    if (!d->synchronous)
        tni_late_keep(d, driver->stream.synchronize(driver->self, d->handle, stream->handle),
                      "waiting for a stream");
    callback(user);
    return TN_OK;
}

tn_device tn_stream_device(const tn_stream *stream)
{
    return stream ? stream->device->id : 0;
}

uint64_t tn_stream_id(const tn_stream *stream)
{
    return stream ? atomic_load_explicit(&stream->id, memory_order_relaxed) : TNI_DEAD_STREAM;
}

int32_t tn_stream_native(tn_stream *stream, uint64_t *out)
{
    int32_t status = tni_stream_check(stream);
    return status ? status : tni_native(stream->device, TN_NATIVE_STREAM, stream->handle, out);
}
