/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, unfinished work: the gate holds a stream (gate.h). Work queued behind it must be unfinished, and
 * reported as unfinished, until the gate is opened. A stream that a synchronous plugin does not hold must say
 * that it is done.
 */
#include "gate.h"
#include "sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS    40     /* queries made while the gate is closed */
#define LOOK_NS  500000 /* between two queries: time for a plugin to go wrong */
#define PATIENCE 10000  /* looks until a stream counts as stuck */

/* Asks `LOOKS` times; fails when an answer is not 0. */
static void stays_unfinished(desk *d, int (*ask)(desk *d), const char *what)
{
    for (int i = 0; i < LOOKS && d->out->outcome == CHECK_PASSED; i++) {
        int done = ask(d);
        if (gate_read(&d->g, &d->g.gave_up)) return;
        check_that(d->out, done == 0, "%s: %d while a host callback holds the stream, expected 0", what,
                   done);
        gate_pause(LOOK_NS);
    }
}

static int ask_stream(desk *d)
{
    return desk_query(d, d->stream);
}

static int ask_other_stream(desk *d)
{
    return desk_query(d, d->other);
}

static int ask_event(desk *d)
{
    int32_t done = -1;
    desk_ok(d, d->h.event->query(d->h.self, d->device, d->event, &done), "event.query");
    return done;
}

static int ask_mark(desk *d)
{
    return gate_read(&d->g, &d->g.passed);
}

/* ---- Queries ------------------------------------------------------------------------------------------- */

static void finish(desk *d)
{
    gate_open(&d->g);
    if (!desk_ok(d, d->h.stream->synchronize(d->h.self, d->device, d->stream), "stream.synchronize")) return;
    int done = desk_query(d, d->stream);
    check_that(d->out, done == 1, "stream.query after stream.synchronize: %d, expected 1", done);
}

static void query_stream(desk *d)
{
    if (!desk_hold(d)) return;
    stays_unfinished(d, ask_stream, "stream.query");
    finish(d);
}

static void query_event(desk *d)
{
    if (!desk_hold(d)) return;
    if (!desk_ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream), "event.record")) return;
    stays_unfinished(d, ask_event, "event.query");
    finish(d);
    int done = ask_event(d);
    check_that(d->out, done == 1, "event.query after its stream was synchronized: %d, expected 1", done);
}

/* 0: the case is skipped. */
static int can_wait(const desk *d)
{
    if (HAND_HAS(d->h.stream, wait_event)) return 1;
    check_skip(d->out, "the plugin has no stream.wait_event: the host waits");
    return 0;
}

/* Queues a callback on the other stream. */
static int queue_callback(desk *d, void (*callback)(void *user), gate *user)
{
    return desk_ok(d, d->h.stream->host_callback(d->h.self, d->device, d->other, callback, user),
                   "stream.host_callback");
}

/* The other stream waits for what d->stream has recorded behind the gate, and has a mark behind that. */
static int queue_wait(desk *d)
{
    return desk_hold(d) &&
           desk_ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream), "event.record") &&
           desk_ok(d, d->h.stream->wait_event(d->h.self, d->device, d->other, d->event),
                   "stream.wait_event") &&
           queue_callback(d, gate_mark, &d->g);
}

static void wait_for_event(desk *d)
{
    if (!can_wait(d) || !queue_wait(d)) return;
    stays_unfinished(d, ask_other_stream, "stream.query of a stream that waits for an event");
    stays_unfinished(d, ask_mark, "host callbacks that ran on a stream that waits for an event");
    finish(d);
}

/* Queued work may still wait for an event that is destroyed. */
static void wait_for_destroyed(desk *d)
{
    if (!can_wait(d) || !queue_wait(d)) return;
    d->h.event->destroy(d->h.self, d->device, d->event);
    d->event = NULL;
    stays_unfinished(d, ask_mark,
                     "host callbacks that ran on a stream that waits for an event, which was destroyed "
                     "after stream.wait_event");
    finish(d);
    if (desk_ok(d, d->h.stream->synchronize(d->h.self, d->device, d->other), "stream.synchronize"))
        check_that(d->out, ask_mark(d) == 1,
                   "callbacks behind a wait for an event that was destroyed: %d have run, expected 1",
                   ask_mark(d));
}

static int ask_second_device(desk *d)
{
    int32_t done = -1;
    desk_ok(d, d->h.stream->query(d->h.self, d->h.devices[1], d->h.streams[1], &done), "stream.query");
    return done;
}

static void wait_on_second_device(desk *d)
{
    const tn_stream_interface *s = d->h.stream;
    void *second = d->h.devices[1], *stream = d->h.streams[1];
    if (!desk_hold(d)) return;
    if (desk_ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream), "event.record") &&
        desk_ok(d, s->wait_event(d->h.self, second, stream, d->event), "stream.wait_event") &&
        desk_ok(d, s->host_callback(d->h.self, second, stream, gate_mark, &d->g), "stream.host_callback")) {
        stays_unfinished(d, ask_second_device, "stream.query of a stream that waits for another device");
        stays_unfinished(d, ask_mark, "host callbacks that ran on a stream that waits for another device");
    }
    gate_open(&d->g);
    if (desk_ok(d, s->synchronize(d->h.self, second, stream), "stream.synchronize"))
        check_that(d->out, ask_mark(d) == 1,
                   "callbacks behind a wait for another device that ran: %d, expected 1", ask_mark(d));
}

/* A stream waits for an event of another device of the plugin. */
static void wait_for_device(desk *d)
{
    if (can_wait(d)) wait_on_second_device(d);
}

/* Both streams are held. The other one waits for an event, which a third then records again, behind no work. A mark tells
 * when the other one has reached the wait. */
static void record_again(desk *d, gate *first, void *third)
{
    if (!queue_callback(d, gate_hold, first) || !queue_callback(d, gate_mark, first) || !queue_wait(d) ||
        !desk_ok(d, d->h.event->record(d->h.self, d->device, d->event, third),
                 "event.record on a third stream"))
        return;
    gate_open(first);
    for (int i = 0; i < PATIENCE && !gate_read(first, &first->passed); i++) gate_pause(LOOK_NS);
    stays_unfinished(d, ask_mark,
                     "host callbacks that ran on a stream that waits for an event, which was recorded again "
                     "after stream.wait_event");
    finish(d);
}

/* A wait is for what the event has recorded by then. */
static void wait_for_first_record(desk *d)
{
    void *third = NULL;
    gate first;
    if (!can_wait(d) || !desk_ok(d, hand_stream(&d->h, d->device, &third), "stream.create")) return;
    gate_init(&first);
    record_again(d, &first, third);
    gate_open(&first);
    gate_open(&d->g);
    desk_ok(d, d->h.device->synchronize(d->h.self, d->device), "device.synchronize");
    d->h.stream->destroy(d->h.self, d->device, third);
    gate_finish(&first);
}

/* ---- Order --------------------------------------------------------------------------------------------- */

#define HALF   (UINT64_C(8) << 20)
#define COPIES 48

/* Work that takes any device longer than a call. A callback queued behind it must not run at once, unless
 * the plugin works synchronously. */
static void *queue_work(desk *d)
{
    void *x = hand_alloc(&d->h, 0, 2 * HALF, NULL, d->out);
    for (int i = 0; x && i < COPIES; i++)
        desk_ok(d,
                d->h.copy->device_to_device(d->h.self, d->device, x, i % 2 * HALF, x, (i + 1) % 2 * HALF,
                                            HALF, d->stream),
                "copy.device_to_device");
    return x;
}

static void look_at_order(desk *d)
{
    if (!desk_hold(d)) return;
    if (!desk_ok(d, d->h.stream->host_callback(d->h.self, d->device, d->stream, gate_mark, &d->g),
                 "stream.host_callback"))
        return;
    stays_unfinished(d, ask_mark, "host callbacks that ran behind the first");
    finish(d);
    check_that(d->out, gate_read(&d->g, &d->g.passed) == 1,
               "the second host callback had not run when the stream was synchronized");
}

static void order_callbacks(desk *d)
{
    void *x = queue_work(d);
    if (x) look_at_order(d);
    gate_open(&d->g);
    d->h.stream->synchronize(d->h.self, d->device, d->stream);
    hand_free(&d->h, 0, x, 2 * HALF);
}

/* ---- Fills and copies ---------------------------------------------------------------------------------- */

/* Drivers have other ways for a few bytes than for many. */
#define LARGE (UINT64_C(9) << 20)
#define SMALL 8
enum { BEFORE = 3, AFTER = 9, EARLY = 5 };

/* The first and the last byte of an allocation are `want`, as the other stream reads them. */
static void other_reads(desk *d, void *x, int want, const char *what)
{
    uint8_t got[2] = {0};
    for (int i = 0; i < 2; i++)
        if (!desk_ok(d,
                     d->h.copy->device_to_host(d->h.self, d->device, got + i, NULL, x, i ? d->bytes - 1 : 0,
                                               1, d->other),
                     "copy.device_to_host"))
            return;
    if (desk_ok(d, d->h.stream->synchronize(d->h.self, d->device, d->other), "stream.synchronize"))
        check_that(d->out, got[0] == want && got[1] == want,
                   "%s: the first and the last byte are %d and %d, expected %d", what, got[0], got[1], want);
}

/* Fills the whole of an allocation of device i, and waits. */
static int32_t fill_and_wait(const hand *h, uint32_t i, void *x, uint64_t bytes, uint32_t value)
{
    int32_t status = h->memory->fill(h->self, h->devices[i], x, 0, bytes, value, h->streams[i]);
    return status ? status : h->stream->synchronize(h->self, h->devices[i], h->streams[i]);
}

/* Queues what sets x to AFTER. y holds EARLY: the source of a copy is written behind the gate, too. */
typedef int32_t set_fn(const desk *d, void *x, void *y);

static int32_t set_by_fill(const desk *d, void *x, void *y)
{
    return d->h.memory->fill(d->h.self, d->device, x, 0, d->bytes, AFTER, d->stream);
}

static int32_t copy_on_device(const desk *d, void *x, void *y)
{
    return d->h.copy->device_to_device(d->h.self, d->device, x, 0, y, 0, d->bytes, d->stream);
}

static int32_t set_by_copy(const desk *d, void *x, void *y)
{
    int32_t status = set_by_fill(d, y, NULL);
    return status ? status : copy_on_device(d, x, y);
}

/* The second device fills y when the gate is open, and d->stream waits for it. */
static int32_t fill_on_second(const desk *d, void *y)
{
    const tn_stream_interface *s = d->h.stream;
    const tn_event_interface *e = d->h.event;
    void *self = d->h.self, *second = d->h.devices[1], *stream = d->h.streams[1], *filled = NULL;
    int32_t status = e->create(self, second, 0, &filled);
    if (status) return status;
    status = e->record(self, d->device, d->event, d->stream);
    if (!status) status = s->wait_event(self, second, stream, d->event);
    if (!status) status = d->h.memory->fill(self, second, y, 0, d->bytes, AFTER, stream);
    if (!status) status = e->record(self, second, filled, stream);
    if (!status) status = s->wait_event(self, d->device, d->stream, filled);
    e->destroy(self, second, filled);
    return status;
}

/* The source is of the second device. Without events nothing orders the two devices, and it is filled before. */
static int32_t set_by_peer(const desk *d, void *x, void *y)
{
    int32_t status;
    if (d->event && HAND_HAS(d->h.stream, wait_event))
        status = fill_on_second(d, y);
    else
        status = fill_and_wait(&d->h, 1, y, d->bytes, AFTER);
    if (status) return status;
    return d->h.copy->peer(d->h.self, d->device, x, 0, d->h.devices[1], y, 0, d->bytes, d->stream);
}

static int prepare(desk *d, uint32_t i, void *x, uint32_t value)
{
    return desk_ok(d, fill_and_wait(&d->h, i, x, d->bytes, value), "memory.fill and stream.synchronize");
}

/* It does not begin before its stream gets there, and an event behind it is not done before it. */
static void look_at_set(desk *d, set_fn *set, void *x, void *y, const char *slot)
{
    char what[128];
    const tn_stream_interface *s = d->h.stream;
    if (!desk_hold(d) || !desk_ok(d, set(d, x, y), slot)) return;
    stays_unfinished(d, ask_stream, "stream.query");
    snprintf(what, sizeof what, "%s on a stream that a host callback holds has run", slot);
    other_reads(d, x, BEFORE, what);
    snprintf(what, sizeof what,
             "%s was not over when its stream said so, or the copy that read it back did not wait", slot);
    if (d->event && HAND_HAS(s, wait_event)) {
        if (!desk_ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream), "event.record") ||
            !desk_ok(d, s->wait_event(d->h.self, d->device, d->other, d->event), "stream.wait_event"))
            return;
        gate_open(&d->g);
    } else {
        finish(d);
    }
    other_reads(d, x, AFTER, what);
}

/* y is memory of device i. */
static void order_set(desk *d, uint32_t i, set_fn *set, const char *slot)
{
    void *x = hand_alloc(&d->h, 0, d->bytes, NULL, d->out),
         *y = x ? hand_alloc(&d->h, i, d->bytes, NULL, d->out) : x;
    if (y && prepare(d, 0, x, BEFORE) && prepare(d, i, y, EARLY)) look_at_set(d, set, x, y, slot);
    gate_open(&d->g);
    d->h.stream->synchronize(d->h.self, d->device, d->stream);
    hand_free(&d->h, 0, x, d->bytes);
    hand_free(&d->h, i, y, d->bytes);
}

static void order_fill(desk *d)
{
    order_set(d, 0, set_by_fill, "memory.fill");
}

static void order_copy(desk *d)
{
    order_set(d, 0, set_by_copy, "copy.device_to_device");
}

static void order_peer(desk *d)
{
    if (HAND_HAS(d->h.copy, peer))
        order_set(d, 1, set_by_peer, "copy.peer");
    else
        check_skip(d->out, "the plugin has no copy.peer: copies go through the host");
}

/* A copy from the host or to it while the gate is closed, which opens meanwhile. 0: the case has ended. */
static int copy_with_host(desk *d, int is_upload, void *x, uint8_t *host)
{
    const tn_copy_interface *c = d->h.copy;
    pthread_t thread;
    if (!desk_open_later(d, &thread)) return 0;
    int32_t status = is_upload
                         ? c->host_to_device(d->h.self, d->device, x, 0, host, NULL, d->bytes, d->stream)
                         : c->device_to_host(d->h.self, d->device, host, NULL, x, 0, d->bytes, d->stream);
    pthread_join(thread, NULL);
    if (!desk_ok(d, status, is_upload ? "copy.host_to_device" : "copy.device_to_host")) return 0;
    finish(d);
    return 1;
}

/* A copy from the host may wait for its stream. What is queued in front of it reads what was there before. */
static void look_at_upload(desk *d, void *x, void *y, uint8_t *host)
{
    memset(host, AFTER, d->bytes);
    if (!desk_hold(d) || !desk_ok(d, copy_on_device(d, y, x), "copy.device_to_device")) return;
    if (!copy_with_host(d, 1, x, host)) return;
    other_reads(d, y, BEFORE, "what a copy in front of copy.host_to_device has read");
    other_reads(d, x, AFTER, "copy.host_to_device");
}

/* A copy to the host may wait, too. It reads what is queued in front of it. */
static void look_at_download(desk *d, void *x, void *y, uint8_t *host)
{
    memset(host, BEFORE, d->bytes);
    if (!desk_hold(d) || !desk_ok(d, set_by_fill(d, x, y), "memory.fill")) return;
    if (!copy_with_host(d, 0, x, host)) return;
    check_that(
        d->out, host[0] == AFTER && host[d->bytes - 1] == AFTER,
        "copy.device_to_host behind memory.fill: the first and the last byte are %d and %d, expected %d",
        host[0], host[d->bytes - 1], AFTER);
}

/* With memory x, filled, and y of the device, and memory of the host. */
static void order_with_host(desk *d, void (*look)(desk *d, void *x, void *y, uint8_t *host))
{
    uint8_t *host = malloc(d->bytes);
    void *x = host ? hand_alloc(&d->h, 0, d->bytes, NULL, d->out) : NULL,
         *y = x ? hand_alloc(&d->h, 0, d->bytes, NULL, d->out) : NULL;
    if (!host) check_skip(d->out, "the host has no memory for it");
    if (y && prepare(d, 0, x, BEFORE)) look(d, x, y, host);
    gate_open(&d->g);
    d->h.stream->synchronize(d->h.self, d->device, d->stream);
    hand_free(&d->h, 0, x, d->bytes);
    hand_free(&d->h, 0, y, d->bytes);
    free(host);
}

static void order_upload(desk *d)
{
    order_with_host(d, look_at_upload);
}

static void order_download(desk *d)
{
    order_with_host(d, look_at_download);
}

/* ---- Waiting ------------------------------------------------------------------------------------------- */

static int32_t wait_stream(desk *d)
{
    return d->h.stream->synchronize(d->h.self, d->device, d->stream);
}

static int32_t wait_event(desk *d)
{
    return d->h.event->synchronize(d->h.self, d->device, d->event);
}

static int32_t wait_device(desk *d)
{
    return d->h.device->synchronize(d->h.self, d->device);
}

/* The native handle of a stream, or 0. */
static uint64_t native_of(const desk *d, void *stream)
{
    uint64_t native = 0;
    int32_t status = TN_E_UNSUPPORTED;
    if (HAND_HAS(d->h.device, native))
        status = d->h.device->native(d->h.self, d->device, TN_NATIVE_STREAM, stream, &native);
    return status ? 0 : native;
}

static const tn_interop_interface *interop_of(const desk *d)
{
    return d->h.table.get_interface(d->h.self, "tenon.interop", 1);
}

/* Streams may share a queue of the vendor, which must not wait for its own later work. */
static int can_wait_natively(const desk *d)
{
    const tn_interop_interface *interop = interop_of(d);
    uint64_t native = native_of(d, d->other);
    return HAND_HAS(interop, wait_native) && native && native != native_of(d, d->stream);
}

/* The other stream waits by its native handle, as a queue of another library does; or the slot waits itself. */
static int32_t wait_natively(desk *d)
{
    int32_t status = interop_of(d)->wait_native(d->h.self, d->device, native_of(d, d->other), d->event);
    return status ? status : d->h.stream->synchronize(d->h.self, d->device, d->other);
}

/* Queues the gate, a mark and an event. While another thread opens the gate, the wait must not end before
 * the mark. */
static void expect_wait(desk *d, int32_t (*wait)(desk *d), const char *what)
{
    pthread_t thread;
    if (!desk_hold(d)) return;
    if (!desk_ok(d, d->h.stream->host_callback(d->h.self, d->device, d->stream, gate_mark, &d->g),
                 "stream.host_callback") ||
        (d->event &&
         !desk_ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream), "event.record")))
        return;
    if (!desk_open_later(d, &thread)) return;
    int32_t status = wait(d);
    int passed = gate_read(&d->g, &d->g.passed);
    pthread_join(thread, NULL);
    if (desk_ok(d, status, what))
        check_that(d->out, passed == 1, "%s returned before the work in front of it was done", what);
}

/* ---- Times --------------------------------------------------------------------------------------------- */

#define HELD_MS (OPENING_NS * 1e-6) /* how long the gate stays closed at least */

static int record(desk *d, void *event)
{
    return desk_ok(d, d->h.event->record(d->h.self, d->device, event, d->stream), "event.record");
}

/* The time of an event in front of the gate and one behind it, asked at once: the slot waits, or it says that an event is pending.
 * Clocks may differ: the time that the gate took is off by no more than twice. */
static void look_at_time(desk *d, void *start, void *end)
{
    pthread_t thread;
    double ms = -1;
    if (!record(d, start) || !desk_ok(d, wait_stream(d), "stream.synchronize") || !desk_hold(d) ||
        !desk_ok(d, d->h.stream->host_callback(d->h.self, d->device, d->stream, gate_mark, &d->g),
                 "stream.host_callback") ||
        !record(d, end) || !desk_open_later(d, &thread))
        return;
    int32_t status = d->h.event->elapsed(d->h.self, d->device, start, end, &ms);
    int passed = gate_read(&d->g, &d->g.passed);
    pthread_join(thread, NULL);
    if (status == TN_E_STATE) {
        finish(d);
        status = d->h.event->elapsed(d->h.self, d->device, start, end, &ms);
        passed = 1;
    }
    if (desk_ok(d, status, "event.elapsed") &&
        check_that(d->out, passed == 1, "event.elapsed returned before its second event was done"))
        check_that(d->out, ms >= HELD_MS / 2,
                   "event.elapsed: %g ms between events around a callback that held the stream for %g ms", ms,
                   HELD_MS);
}

static void time_pending(desk *d)
{
    const tn_event_interface *e = d->h.event;
    void *start = NULL, *end = NULL;
    if (!HAND_HAS(e, elapsed) || e->create(d->h.self, d->device, TN_EVENT_TIMING, &start) ||
        e->create(d->h.self, d->device, TN_EVENT_TIMING, &end))
        check_skip(d->out, "the plugin has no events with timing");
    else
        look_at_time(d, start, end);
    gate_open(&d->g);
    wait_stream(d);
    if (start) e->destroy(d->h.self, d->device, start);
    if (end) e->destroy(d->h.self, d->device, end);
}

static void swap_streams(desk *d)
{
    void *stream = d->stream;
    d->stream = d->other;
    d->other = stream;
}

/* The stream that was made last is the one that has work. */
static void wait_for_other(desk *d)
{
    swap_streams(d);
    expect_wait(d, wait_device, "device.synchronize");
    swap_streams(d);
}

/* ---- The list ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(desk *d);
    int needs_events;
    int needs_two_devices;
    int32_t (*wait)(desk *d); /* in place of `run`: it returns when work has finished */
    int (*can_run)(const desk *d);
    uint64_t bytes; /* of fills and copies; 0: LARGE */
} cases[] = {
    {"stream.query", .run = query_stream},
    {"stream.synchronize", .wait = wait_stream},
    {"stream.host_callback", .run = order_callbacks},
    {"memory.fill", .run = order_fill},
    {"copy.device_to_device", .run = order_copy},
    {"copy.host_to_device", .run = order_upload},
    {"copy.device_to_host", .run = order_download},
    {"copy.peer", .run = order_peer, .needs_two_devices = 1},
    {"memory.fill-small", .run = order_fill, .bytes = SMALL},
    {"copy.device_to_device-small", .run = order_copy, .bytes = SMALL},
    {"copy.host_to_device-small", .run = order_upload, .bytes = SMALL},
    {"copy.device_to_host-small", .run = order_download, .bytes = SMALL},
    {"copy.peer-small", .run = order_peer, .needs_two_devices = 1, .bytes = SMALL},
    {"stream.wait_event", .run = wait_for_event, .needs_events = 1},
    {"stream.wait_event-recorded-again", .run = wait_for_first_record, .needs_events = 1},
    {"stream.wait_event-destroyed", .run = wait_for_destroyed, .needs_events = 1},
    {"stream.wait_event-of-device", .run = wait_for_device, .needs_events = 1, .needs_two_devices = 1},
    {"interop.wait_native", .wait = wait_natively, .needs_events = 1, .can_run = can_wait_natively},
    {"event.query", .run = query_event, .needs_events = 1},
    {"event.synchronize", .wait = wait_event, .needs_events = 1},
    {"event.elapsed", .run = time_pending, .needs_events = 1},
    {"device.synchronize", .wait = wait_device},
    {"device.synchronize-of-other-streams", .run = wait_for_other},
};

static void run(check_target *t, const check_case *c, check_result *out)
{
    desk d;
    if (desk_open(&d, t, cases[c->number].needs_two_devices ? 2 : 1, out)) {
        d.bytes = cases[c->number].bytes ? cases[c->number].bytes : LARGE;
        if (cases[c->number].needs_events && !d.event)
            check_skip(out, "the plugin has no events: the host waits for the stream");
        else if (cases[c->number].needs_two_devices && d.h.count < 2)
            check_skip(out, "one device only");
        else if (cases[c->number].can_run && !cases[c->number].can_run(&d))
            check_skip(out, "the plugin has no %s, or its streams have no native handles of their own",
                       cases[c->number].name);
        else if (cases[c->number].wait)
            expect_wait(&d, cases[c->number].wait, cases[c->number].name);
        else
            cases[c->number].run(&d);
    }
    desk_close(&d);
}

void check_tier0_gate(check_target *t, check_list *list)
{
    (void)t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_add(list, &(check_case){.run = run, .number = (int64_t)i}, "0/unfinished/%s", cases[i].name);
}
