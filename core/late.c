/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late errors. A plugin reports an error of queued work once, to whoever waits for its stream next, and drops
 * what is queued behind. Without what is here the results of dropped work could be read as if nothing had
 * happened, in two ways.
 *
 * Where nobody can be told: when the wait is a function without a status (a stream that is released, a cache
 * that is emptied to find memory) the error is kept, and the program's next wait for the device reports it.
 *
 * On another stream: a stream that waits on the device for another one works with what that has left. So each
 * stream knows which ones it has waited for since the program last waited for it; then these are asked, too.
 * Errors are counted for each stream, so that all who come after one learn of it, each once, although the
 * plugin tells only the first: a mark says how many were known at a place, and more than that is an error of
 * what is before it (or of work behind it, which cannot be told apart).
 */
#include <stdio.h>
#include <string.h>
#include "core/device.h"
#include "core/graph.h"

int32_t tni_late_init(tni_device *device)
{
    atomic_init(&device->late.code, 0);
    return pthread_mutex_init(&device->late.lock, NULL) ? tni_error(TN_E_INTERNAL, "no mutex for a device")
                                                        : TN_OK;
}

void tni_late_finish(tni_device *device)
{
    pthread_mutex_destroy(&device->late.lock);
}

void tni_late_keep(tni_device *device, int32_t code, const char *what)
{
    if (!code) return;
    code = tni_driver_error(device->type, code, what);
    const tn_error *error = tn_last_error();
    pthread_mutex_lock(&device->late.lock);
    if (!atomic_load(&device->late.code)) {
        snprintf(device->late.text, sizeof device->late.text, "%s", error ? error->message : what);
        atomic_store(&device->late.code, code);
    }
    pthread_mutex_unlock(&device->late.lock);
}

int32_t tni_late_take(tni_device *device)
{
    if (TNI_LIKELY(!atomic_load_explicit(&device->late.code, memory_order_relaxed))) return TN_OK;
    pthread_mutex_lock(&device->late.lock);
    int32_t code = atomic_exchange(&device->late.code, 0);
    if (code) {
        tni_error(code, "%s", device->late.text);
        tni_error_plugin(device->type->driver.plugin);
    }
    pthread_mutex_unlock(&device->late.lock);
    return code;
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

/* An error of a stream, which is recorded for this thread; its own waits are told of it `told`, or not yet.
 */
static void find(tn_stream *stream, int32_t code, int32_t told)
{
    const tn_error *error = tn_last_error();
    pthread_mutex_t *lock = &stream->device->late.lock;
    pthread_mutex_lock(lock);
    stream->late.code = code;
    snprintf(stream->late.text, sizeof stream->late.text, "%s", error ? error->message : "a late error");
    uint64_t found = atomic_fetch_add(&stream->late.found, 1) + 1;
    if (told) atomic_store(&stream->late.told, found);
    pthread_mutex_unlock(lock);
}

/* What was found on a stream, as an error of this thread. */
static int32_t tell(tn_stream *stream)
{
    char text[sizeof stream->late.text];
    pthread_mutex_t *lock = &stream->device->late.lock;
    pthread_mutex_lock(lock);
    int32_t code = stream->late.code;
    memcpy(text, stream->late.text, sizeof text);
    pthread_mutex_unlock(lock);
    tni_error(code, "%s", text);
    tni_error_plugin(stream->device->type->driver.plugin);
    return code;
}

/* With the lock held. Of two marks of one stream the earlier one counts. */
static int32_t add_mark(tn_stream *stream, const tni_late_mark *mark)
{
    tni_late_mark *marks = stream->late.waited.data;
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

int32_t tni_late_follow(tn_stream *stream, const tni_late_mark *mark)
{
    const tni_device *device = stream->device;
    tn_stream *other = mark->stream;
    if (!other || other == stream || device->synchronous || other->device != device) return TN_OK;
    pthread_mutex_lock(&stream->device->late.lock);
    int32_t status = add_mark(stream, mark);
    /* What the other one waits for comes before, too. */
    for (uint32_t i = 0; i < other->late.waited.count && !status; i++) {
        const tni_late_mark before = ((const tni_late_mark *)other->late.waited.data)[i];
        if (before.stream != stream) status = add_mark(stream, &before);
    }
    pthread_mutex_unlock(&stream->device->late.lock);
    return status;
}

/* Asks the plugin: a query waits for nothing and reports what is late. */
static int32_t is_late(const tni_late_mark *mark)
{
    tn_stream *stream = mark->stream;
    tni_device *device = stream->device;
    const tni_driver *driver = &device->type->driver;
    int32_t done = 0, code = TN_OK;
    pthread_mutex_lock(&device->lock);
    int32_t alive = atomic_load(&stream->id) == mark->id;
    /* One that captures has no work under way, and may not be asked. */
    if (alive && !tni_stream_captures(stream))
        code = driver->stream.query(driver->self, device->handle, stream->handle, &done);
    pthread_mutex_unlock(&device->lock);
    if (!alive) return 0; /* what it had to say is kept for the device */
    if (code) find(stream, tni_driver_error(device->type, code, "asking a stream that was waited for"), 0);
    return atomic_load(&stream->late.found) > mark->found;
}

int32_t tni_late_of_mark(const tni_late_mark *mark)
{
    tni_device *device = mark->stream ? mark->stream->device : NULL;
    if (!device || device->synchronous) return TN_OK;
    return is_late(mark) ? tell(mark->stream) : tni_late_take(device);
}

/* All that the stream had waited for. Their marks go: they are asked now. */
static int32_t ask_waited(tn_stream *stream)
{
    tni_device *device = stream->device;
    tni_vector waited;
    int32_t code = TN_OK;
    pthread_mutex_lock(&device->late.lock);
    waited = stream->late.waited;
    stream->late.waited = (tni_vector){0};
    atomic_store(&stream->late.n_waited, 0);
    pthread_mutex_unlock(&device->late.lock);
    for (uint32_t i = 0; i < waited.count; i++) {
        const tni_late_mark *mark = (const tni_late_mark *)waited.data + i;
        if (is_late(mark) && !code) code = tell(mark->stream);
    }
    tni_vector_finish(device->ctx, &waited, sizeof(tni_late_mark));
    if (code) find(stream, code, 1); /* for those who wait for this one */
    return code;
}

int32_t tni_late_of_stream(tn_stream *stream, int32_t code, const char *what)
{
    tni_device *device = stream->device;
    if (code) {
        code = tni_driver_error(device->type, code, what);
        find(stream, code, 1);
        return code;
    }
    if (TNI_UNLIKELY(atomic_load(&stream->late.n_waited)) && (code = ask_waited(stream))) return code;
    uint64_t found = atomic_load(&stream->late.found);
    if (TNI_UNLIKELY(atomic_load(&stream->late.told) < found)) {
        atomic_store(&stream->late.told, found);
        return tell(stream);
    }
    return tni_late_take(device);
}
