/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: points in a stream. If a plugin has no events, an event stands for its stream: a query asks whether
 * the stream is empty, and a wait waits for the whole stream, which may be later than needed but never too
 * early.
 */
#include <time.h>
#include <tenon/interop.h>
#include "core/graph.h"

static int32_t has_events(const tni_device *device)
{
    return device->type->driver.event.size != 0 && device->type->driver.event.create != NULL;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int32_t check(const tn_event *event)
{
    if (!event) return tni_error(TN_E_ARGUMENT, "an event is missing");
    int32_t status = tni_handle_check(event->device->ctx, &event->life, "event");
    return status ? status : tni_context_check_kept(event->device->ctx);
}

int32_t tni_event_create(tni_device *d, uint32_t flags, tn_event **out)
{
    const tni_driver *driver = &d->type->driver;
    tn_event *e = tni_alloc_zeroed(d->ctx, sizeof *e);
    if (!e) return TN_E_OUT_OF_MEMORY;
    atomic_init(&e->refs, 1);
    e->device = d;
    e->flags = flags;
    e->internal = 1;
    int32_t status = TN_OK;
    if (has_events(d)) status = driver->event.create(driver->self, d->handle, flags, &e->handle);
    if (status || (has_events(d) && !e->handle)) {
        tni_free(d->ctx, e, sizeof *e);
        return status ? tni_driver_error(d->type, status, "making an event")
                      : tni_no_handle(d->type, "event.create");
    }
    *out = e;
    return TN_OK;
}

int32_t tn_event_create(tn_context *ctx, tn_device device, uint32_t flags, tn_event **out)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    if (flags & ~(TN_EVENT_TIMING | TN_EVENT_INTERPROCESS))
        return tni_error(TN_E_ARGUMENT, "unknown flags 0x%x of an event", flags);
    const tni_driver *driver = &d->type->driver;
    if (flags & TN_EVENT_INTERPROCESS && !(has_events(d) && driver->interop.export_event))
        return tni_error(TN_E_UNSUPPORTED, "plugin %s has no events that other processes can wait for",
                         driver->plugin);
    if (flags & TN_EVENT_TIMING && !(has_events(d) && driver->event.elapsed) && !d->synchronous)
        return tni_error(TN_E_UNSUPPORTED, "plugin %s has no events with timing", driver->plugin);
    tn_event *e = NULL;
    int32_t status = tni_event_create(d, flags, &e);
    if (status) return status;
    e->internal = 0;
    tni_handle_made(ctx, e, "event");
    tni_context_own(ctx);
    *out = e;
    return TN_OK;
}

void tn_event_release(tn_event *event)
{
    if (!event || !tni_handle_may_end(event->device->ctx, &event->life, "event", __builtin_return_address(0)))
        return;
    if (atomic_fetch_sub_explicit(&event->refs, 1, memory_order_acq_rel) != 1) return;
    tni_device *d = event->device;
    tn_context *ctx = d->ctx;
    int32_t internal = event->internal;
    if (tni_context_check_kept(ctx)) return;
    if (has_events(d)) d->type->driver.event.destroy(d->type->driver.self, d->handle, event->handle);
    if (!internal) tn_stream_release(event->stream);
    if (internal) {
        tni_free(ctx, event, sizeof *event);
        return;
    }
    tni_handle_free(ctx, event, sizeof *event, &event->life);
    tni_context_unown(ctx);
}

int32_t tn_event_record(tn_event *event, tn_stream *stream)
{
    int32_t status = check(event);
    if (!status) status = tni_stream_check(stream);
    if (status) return status;
    tni_device *d = event->device;
    const tni_driver *driver = &d->type->driver;
    if (event->imported)
        return tni_error(TN_E_STATE, "an event of another process is recorded there (tn_event_import)");
    if (stream->device != d)
        return tni_error(TN_E_DEVICE, "an event and the stream it is recorded on are of different devices");
    if (has_events(d)) {
        const tni_late_mark mark =
            tni_late_mark_of(stream); /* taken before the recording, so that errors found meanwhile count */
        status = driver->event.record(driver->self, d->handle, event->handle, stream->handle);
        if (status) return tni_driver_error(d->type, status, "recording an event");
        event->mark = mark;
    } else {
        tn_stream *before = event->stream;
        event->stream = event->internal ? stream : tni_stream_retain(stream);
        if (!event->internal) tn_stream_release(before);
        if (event->flags & TN_EVENT_TIMING) event->nanoseconds = now();
    }
    event->recorded = 1;
    event->capture = tni_stream_capture(stream);
    return TN_OK;
}

int32_t tn_event_query(tn_event *event)
{
    int32_t done = 0, status = check(event);
    if (!status) status = tni_capture_check_event(event, "asking");
    if (status) return -status;
    tni_device *d = event->device;
    const tni_driver *driver = &d->type->driver;
    if (!event->recorded) return 1;
    if (!has_events(d)) return tn_stream_query(event->stream);
    status = driver->event.query(driver->self, d->handle, event->handle, &done);
    if (status) return -tni_driver_error(d->type, status, "asking an event");
    if (done && !event->internal && (status = tni_late_of_mark(&event->mark))) return -status;
    return done != 0;
}

int32_t tn_event_synchronize(tn_event *event)
{
    int32_t status = check(event);
    if (!status) status = tni_capture_check_event(event, "waiting for");
    if (status || !event->recorded) return status;
    tni_device *d = event->device;
    const tni_driver *driver = &d->type->driver;
    if (!has_events(d)) return tn_stream_synchronize(event->stream);
    status = driver->event.synchronize(driver->self, d->handle, event->handle);
    if (status) return tni_driver_error(d->type, status, "waiting for an event");
    return tni_late_of_mark(&event->mark);
}

int32_t tn_event_elapsed(tn_event *start, tn_event *end, double *out_ms)
{
    int32_t status = check(start);
    if (!status) status = check(end);
    if (!status) status = tni_capture_check_event(start, "the time of");
    if (!status) status = tni_capture_check_event(end, "the time of");
    if (status) return status;
    tni_device *d = start->device;
    const tni_driver *driver = &d->type->driver;
    if (end->device != d) return tni_error(TN_E_DEVICE, "the two events are of different devices");
    if (!(start->flags & end->flags & TN_EVENT_TIMING))
        return tni_error(TN_E_STATE, "both events must be made with TN_EVENT_TIMING");
    if (!start->recorded || !end->recorded)
        return tni_error(TN_E_STATE, "both events must be recorded first");
    if (!has_events(d)) {
        *out_ms = (double)(end->nanoseconds - start->nanoseconds) * 1e-6;
        return TN_OK;
    }
    status = driver->event.elapsed(driver->self, d->handle, start->handle, end->handle, out_ms);
    return status ? tni_driver_error(d->type, status, "time between events") : TN_OK;
}

int32_t tn_stream_wait_event(tn_stream *stream, tn_event *event)
{
    int32_t status = tni_stream_check(stream);
    if (!status) status = check(event);
    if (status || !event->recorded) return status;
    tni_device *d = stream->device;
    const tni_driver *driver = &d->type->driver;
    tn_graph *joins = NULL;
    if (event->capture || tni_stream_captures(stream)) {
        status = tni_capture_check_wait(stream, event, &joins);
        if (status) return status;
    }
    if (event->device->type != d->type || !has_events(d) || !driver->stream.wait_event) {
        if (!has_events(event->device) && event->stream == stream) return TN_OK;
        return tn_event_synchronize(event);
    }
    if (joins && (status = tni_capture_join(joins, stream))) return status;
    status = driver->stream.wait_event(driver->self, d->handle, stream->handle, event->handle);
    if (status && joins) tni_capture_leave(joins, stream);
    if (status) return tni_driver_error(d->type, status, "a stream's wait for an event");
    return joins || event->orders_only ? TN_OK : tni_late_follow(stream, &event->mark);
}

static int32_t wait_stream(tn_stream *stream, tn_stream *other, int32_t orders_only)
{
    int32_t status = tni_stream_check(stream);
    if (!status) status = tni_stream_check(other);
    if (status || stream == other || other->device->synchronous) return status;
    if (!has_events(other->device)) return tn_stream_synchronize(other);
    tn_event *event = NULL;
    status = tni_event_create(other->device, 0, &event);
    if (!status) {
        event->orders_only = orders_only;
        status = tn_event_record(event, other);
    }
    if (!status) status = tn_stream_wait_event(stream, event);
    tn_event_release(event);
    return status;
}

int32_t tn_stream_wait_stream(tn_stream *stream, tn_stream *other)
{
    return wait_stream(stream, other, 0);
}

int32_t tni_stream_order(tn_stream *stream, tn_stream *other)
{
    return wait_stream(stream, other, 1);
}

/* ---- Other processes and libraries --------------------------------------------------------------------- */

int32_t tn_event_export(tn_event *event, tn_process_handle *out)
{
    tn_process_handle handle = {.size = sizeof handle, .file = -1};
    int32_t status = check(event);
    if (status) return status;
    const tni_driver *driver = &event->device->type->driver;
    if (!(event->flags & TN_EVENT_INTERPROCESS) || event->imported)
        return tni_error(TN_E_STATE,
                         "tn_event_export: the event was not made here with TN_EVENT_INTERPROCESS");
    status = driver->interop.export_event(driver->self, event->device->handle, event->handle, &handle);
    if (status) return tni_driver_error(event->device->type, status, "exporting an event");
    return tni_struct_write(out, &handle, sizeof handle, "tn_process_handle");
}

int32_t tn_event_import(tn_context *ctx, tn_device device, const tn_process_handle *handle, tn_event **out)
{
    tni_device *d = tni_device_get(ctx, device);
    tn_process_handle known;
    if (!d) return tn_last_error()->code;
    int32_t status = tni_struct_read(&known, sizeof known, handle, "tn_process_handle");
    const tni_driver *driver = &d->type->driver;
    if (!status && !driver->interop.import_event)
        status = tni_error(TN_E_UNSUPPORTED, "plugin %s has no events of other processes", driver->plugin);
    tn_event *e = status ? NULL : tni_alloc_zeroed(ctx, sizeof *e);
    if (!e) return status ? status : TN_E_OUT_OF_MEMORY;
    status = driver->interop.import_event(driver->self, d->handle, &known, &e->handle);
    if (status || !e->handle) {
        tni_free(ctx, e, sizeof *e);
        return status ? tni_driver_error(d->type, status, "importing an event")
                      : tni_no_handle(d->type, "interop.import_event");
    }
    atomic_init(&e->refs, 1);
    e->device = d;
    e->flags = TN_EVENT_INTERPROCESS;
    e->imported = e->recorded = 1;
    tni_context_own(ctx);
    *out = e;
    return TN_OK;
}

int32_t tni_native_wait(tn_stream *stream, uint64_t native)
{
    tni_device *d = stream->device;
    const tni_driver *driver = &d->type->driver;
    tn_event *event = NULL;
    if (!has_events(d) || !driver->interop.wait_native) return tn_stream_synchronize(stream);
    int32_t status = tni_event_create(d, 0, &event);
    if (!status) status = tn_event_record(event, stream);
    if (!status && (status = driver->interop.wait_native(driver->self, d->handle, native, event->handle)))
        status = tni_driver_error(d->type, status, "a wait of a foreign stream");
    tn_event_release(event);
    return status;
}
