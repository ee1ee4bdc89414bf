/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin reports an error of queued work once, to whoever waits for the stream next, and drops the work
 * queued behind it. Three cases need care, or a program would read the results of dropped work without an
 * error:
 *
 * - The wait is inside a function without a status: a stream is released, or a cache is emptied to find
 *   memory. The error is kept in the stream, or in the device where there is no stream, until the next wait.
 * - A thread waits for the whole device, and with that for streams of other threads. All of them are told, since those
 *   threads read the results.
 * - One stream waits on the device for another, and works with its results. Each stream therefore lists the
 *   streams that it waited for since the program last waited for it; when the program waits again, these are
 *   asked, too.
 *
 * The plugin tells only the first caller, but every later one must learn of the error once. So errors are
 * counted per stream, and a mark says how many were known at a place in the stream.
 */
#include <stdio.h>
#include <string.h>
#include "core/device.h"
#include "core/current.h"
#include "core/graph.h"
#include "core/thread.h"

void tni_late_init(tni_device *device)
{
    atomic_init(&device->late.status, 0);
    pthread_mutex_init(&device->late.lock, NULL);
}

void tni_late_finish(tni_device *device)
{
    pthread_mutex_destroy(&device->late.lock);
}

/* Keeps this thread's last error. */
static void keep(tni_device *device, int32_t status)
{
    const tn_error *error = tn_last_error();
    pthread_mutex_lock(&device->late.lock);
    if (!atomic_load(&device->late.status)) {
        snprintf(device->late.text, sizeof device->late.text, "%s", error->message);
        atomic_store(&device->late.status, status);
    }
    pthread_mutex_unlock(&device->late.lock);
}

void tni_late_keep(tni_device *device, int32_t status, const char *what)
{
    if (status) keep(device, tni_driver_error(device->type, status, what));
}

int32_t tni_late_take(tni_device *device)
{
    if (TNI_LIKELY(!atomic_load_explicit(&device->late.status, memory_order_relaxed))) return TN_OK;
    pthread_mutex_lock(&device->late.lock);
    int32_t status = atomic_exchange(&device->late.status, 0);
    if (status) {
        tni_error(status, "%s", device->late.text);
        tni_error_plugin(device->type->driver.plugin);
    }
    pthread_mutex_unlock(&device->late.lock);
    return status;
}

/* ---- Streams ----------------------------------------------------------------------------------------- */

tni_late_mark tni_late_mark_of(tn_stream *stream)
{
    return (tni_late_mark){stream, atomic_load(&stream->id), atomic_load(&stream->late.found)};
}

void tni_late_forget(tn_stream *stream)
{
    pthread_mutex_lock(&stream->device->late.lock);
    tni_vector_finish(stream->device->ctx, &stream->late.waited, sizeof(tni_late_mark));
    memset(&stream->late, 0, sizeof stream->late);
    pthread_mutex_unlock(&stream->device->late.lock);
}

/* Counts this thread's last error as one of the stream. told: the caller is about to report it. */
static void add_error(tn_stream *stream, int32_t status, int32_t told)
{
    const tn_error *error = tn_last_error();
    pthread_mutex_t *lock = &stream->device->late.lock;
    pthread_mutex_lock(lock);
    stream->late.status = status;
    snprintf(stream->late.text, sizeof stream->late.text, "%s", error->message);
    uint64_t found = atomic_fetch_add(&stream->late.found, 1) + 1;
    if (told) atomic_store(&stream->late.told, found);
    pthread_mutex_unlock(lock);
}

/* Records the stream's last error as this thread's. */
static int32_t report(tn_stream *stream)
{
    char text[sizeof stream->late.text];
    pthread_mutex_t *lock = &stream->device->late.lock;
    pthread_mutex_lock(lock);
    int32_t status = stream->late.status;
    memcpy(text, stream->late.text, sizeof text);
    pthread_mutex_unlock(lock);
    tni_error(status, "%s", text);
    tni_error_plugin(stream->device->type->driver.plugin);
    return status;
}

void tni_late_note(tn_stream *stream, int32_t status, const char *what)
{
    add_error(stream, tni_driver_error(stream->device->type, status, what), 0);
}

/* Whether nobody has been told of the stream's last error. */
static int32_t is_untold(const tn_stream *stream)
{
    const uint64_t found = atomic_load(&stream->late.found);
    return atomic_load(&stream->late.told) < found && atomic_load(&stream->late.device_told) < found;
}

void tni_late_of_release(tn_stream *stream, int32_t status)
{
    if (status)
        tni_late_keep(stream->device, status, "waiting for a stream that is released");
    else if (is_untold(stream))
        keep(stream->device, report(stream));
}

int32_t tni_late_of_device(tni_device *device, int32_t status)
{
    if (status) status = tni_driver_error(device->type, status, "waiting for a device");
    pthread_mutex_lock(&device->lock);
    tn_stream *first = device->streams;
    pthread_mutex_unlock(&device->lock);
    for (tn_stream *s = first; s; s = s->next) {
        const uint64_t found = atomic_load(&s->late.found);
        if (!found || atomic_load(&s->id) == TNI_DEAD_STREAM) continue;
        if (!status && is_untold(s)) status = report(s);
        atomic_store(&s->late.device_told, found);
        if (s == tni_current_stream(device) || atomic_load(&s->user) == &tni_tls)
            atomic_store(&s->late.told, found);
    }
    return status ? status : tni_late_take(device);
}

/* The stream was released, and its error kept for its device. */
static int32_t is_gone(const tni_late_mark *mark)
{
    return atomic_load(&mark->stream->id) != mark->id;
}

/* Under the lock. Of two marks of one stream the earlier one is kept. Those of streams that are gone make room: a program
 * may make a stream for each step. */
static int32_t add_mark(tn_stream *stream, const tni_late_mark *mark)
{
    tni_late_mark *marks = stream->late.waited.data;
    for (uint32_t i = stream->late.waited.count; i-- > 0;) {
        if (is_gone(&marks[i])) marks[i] = marks[--stream->late.waited.count];
    }
    atomic_store(&stream->late.n_waited, stream->late.waited.count);
    for (uint32_t i = 0; i < stream->late.waited.count; i++) {
        if (marks[i].stream != mark->stream || marks[i].id != mark->id) continue;
        if (mark->found < marks[i].found) marks[i].found = mark->found;
        return TN_OK;
    }
    tni_late_mark *slot = tni_vector_push(stream->device->ctx, &stream->late.waited, sizeof *slot);
    if (!slot) return TN_E_OUT_OF_MEMORY;
    *slot = *mark;
    atomic_store(&stream->late.n_waited, stream->late.waited.count);
    return TN_OK;
}

/* A copy of the marks of a stream, which may be of another device. */
static int32_t copy_marks(tn_stream *stream, tni_vector *out)
{
    int32_t status = TN_OK;
    *out = (tni_vector){0};
    if (!atomic_load(&stream->late.n_waited)) return TN_OK;
    pthread_mutex_lock(&stream->device->late.lock);
    for (uint32_t i = 0; i < stream->late.waited.count && !status; i++) {
        tni_late_mark *slot = tni_vector_push(stream->device->ctx, out, sizeof *slot);
        if (slot)
            *slot = ((const tni_late_mark *)stream->late.waited.data)[i];
        else
            status = TN_E_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&stream->device->late.lock);
    return status;
}

int32_t tni_late_follow(tn_stream *stream, const tni_late_mark *mark)
{
    tni_vector before;
    tn_stream *other = mark->stream;
    if (!other || other == stream || stream->device->synchronous || other->device->synchronous) return TN_OK;
    int32_t status = copy_marks(other, &before);
    pthread_mutex_lock(&stream->device->late.lock);
    if (!status) status = add_mark(stream, mark);
    /* What the other stream waited for comes before, too. */
    for (uint32_t i = 0; i < before.count && !status; i++) {
        const tni_late_mark *m = (const tni_late_mark *)before.data + i;
        if (m->stream != stream) status = add_mark(stream, m);
    }
    pthread_mutex_unlock(&stream->device->late.lock);
    tni_vector_finish(stream->device->ctx, &before, sizeof(tni_late_mark));
    return status;
}

/* 1 if the stream has more errors than at the mark. Asks the plugin: a query reports late errors without
 * waiting for the stream. It may read them from the device, so the lock is not held. */
static int32_t is_late(const tni_late_mark *mark)
{
    tn_stream *stream = mark->stream;
    tni_device *device = stream->device;
    const tni_driver *driver = &device->type->driver;
    int32_t done = 0, status = TN_OK;
    pthread_mutex_lock(&device->lock);
    const int32_t is_alive = atomic_load(&stream->id) == mark->id;
    device->waiters++; /* the stream stays, and does not begin to capture */
    pthread_mutex_unlock(&device->lock);
    /* A stream that captures has no work under way, and may not be asked. */
    if (is_alive && !tni_stream_captures(stream))
        status = driver->stream.query(driver->self, device->handle, stream->handle, &done);
    tni_device_waited(device);
    if (!is_alive) return 0; /* its release kept the error for the device */
    if (status)
        add_error(stream, tni_driver_error(device->type, status, "asking a stream that was waited for"), 0);
    return atomic_load(&stream->late.found) > mark->found;
}

int32_t tni_late_of_mark(const tni_late_mark *mark)
{
    tni_device *device = mark->stream ? mark->stream->device : NULL;
    if (!device || device->synchronous) return TN_OK;
    return is_late(mark) ? report(mark->stream) : tni_late_take(device);
}

/* Asks all streams that this one had waited for, and removes their marks. */
static int32_t ask_waited(tn_stream *stream)
{
    tni_device *device = stream->device;
    tni_vector waited;
    int32_t status = TN_OK;
    pthread_mutex_lock(&device->late.lock);
    waited = stream->late.waited;
    stream->late.waited = (tni_vector){0};
    atomic_store(&stream->late.n_waited, 0);
    pthread_mutex_unlock(&device->late.lock);
    for (uint32_t i = 0; i < waited.count; i++) {
        const tni_late_mark *mark = (const tni_late_mark *)waited.data + i;
        if (is_late(mark) && !status) status = report(mark->stream);
    }
    tni_vector_finish(device->ctx, &waited, sizeof(tni_late_mark));
    if (status) add_error(stream, status, 1); /* for streams that wait for this one */
    return status;
}

int32_t tni_late_of_stream(tn_stream *stream, int32_t status, const char *what)
{
    tni_device *device = stream->device;
    if (status) {
        status = tni_driver_error(device->type, status, what);
        add_error(stream, status, 1);
        return status;
    }
    if (TNI_UNLIKELY(atomic_load(&stream->late.n_waited)) && (status = ask_waited(stream))) return status;
    uint64_t found = atomic_load(&stream->late.found);
    if (TNI_UNLIKELY(atomic_load(&stream->late.told) < found)) {
        atomic_store(&stream->late.told, found);
        return report(stream);
    }
    return tni_late_take(device);
}
