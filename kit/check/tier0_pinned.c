/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, pinned memory of the host: copies from and to it return while their stream is held by a gate (gate.h), run in
 * the order of the stream, and leave the memory alone before. A plugin gives such memory (memory.alloc of kind
 * TN_MEMORY_HOST) or pins pages (memory.pin); one that does neither skips these cases.
 */
#include "gate.h"
#include "pinned.h"
#include "sources.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <tenon/ops.h>

#define BYTES PINNED_BYTES
#define LOOKS 20
#define COUNT 1000
#define ROUND 8

/* ---- Copies -------------------------------------------------------------------------------------------- */

static void pattern(uint8_t *to, uint32_t seed)
{
    for (uint32_t i = 0; i < BYTES; i++) to[i] = (uint8_t)((i * 31 + seed * 97 + (i >> 8) * 7) % 251);
}

static void same(check_result *out, const uint8_t *got, const uint8_t *want, uint64_t bytes, const char *what)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (!check_that(out, got[i] == want[i], "%s: byte %llu is 0x%02x, expected 0x%02x", what,
                        (unsigned long long)i, got[i], want[i]))
            return;
    }
}

static int32_t to_device(hand *h, void *x, const pinned *p, uint64_t from, uint64_t bytes, void *stream)
{
    return h->copy->host_to_device(h->self, h->devices[0], x, 0, (char *)p->memory.host + from, &p->memory,
                                   bytes, stream);
}

static int32_t to_host(hand *h, const pinned *p, void *x, uint64_t bytes, void *stream)
{
    return h->copy->device_to_host(h->self, h->devices[0], p->memory.host, &p->memory, x, 0, bytes, stream);
}

static void wait_for(hand *h, void *stream, check_result *out)
{
    hand_ok(h, out, h->stream->synchronize(h->self, h->devices[0], stream), "stream.synchronize");
}

/* Two blocks at once: the second one still serves when the first has gone back. Copies may begin anywhere. */
static void run_memory(check_target *t, const check_case *c, check_result *out)
{
    uint8_t want[BYTES];
    pinned first = {.pages = NULL}, second = {.pages = NULL};
    hand h;
    (void)c;
    pattern(want, 1);
    if (hand_open(&h, t, 1, out) && h.count && pinned_there(&h, out)) {
        void *x = hand_alloc(&h, 0, BYTES, NULL, out);
        int both = x && pinned_take(&h, &first, out) && pinned_take(&h, &second, out);
        pinned_give_back(&h, &first);
        if (both) memcpy(second.memory.host, want, BYTES);
        if (both &&
            hand_ok(&h, out, to_device(&h, x, &second, 3, BYTES - 3, h.streams[0]), "copy.host_to_device"))
            wait_for(&h, h.streams[0], out);
        if (both) memset(second.memory.host, 0, BYTES);
        if (both && hand_ok(&h, out, to_host(&h, &second, x, BYTES - 3, h.streams[0]), "copy.device_to_host"))
            wait_for(&h, h.streams[0], out);
        if (both) same(out, second.memory.host, want + 3, BYTES - 3, "pinned memory, there and back");
        pinned_give_back(&h, &second);
        hand_free(&h, 0, x, BYTES);
    }
    hand_close(&h);
}

/* A desk with an allocation and two pinned blocks. */
typedef struct pinned_desk {
    desk d;
    pinned source, target;
    void *x;
    uint8_t want[BYTES];
} pinned_desk;

static int open_desk(pinned_desk *k, check_target *t, check_result *out)
{
    *k = (pinned_desk){.x = NULL};
    if (!desk_open(&k->d, t, 1, out) || !pinned_there(&k->d.h, out)) return 0;
    k->x = hand_alloc(&k->d.h, 0, BYTES, NULL, out);
    if (!k->x || !pinned_take(&k->d.h, &k->source, out) || !pinned_take(&k->d.h, &k->target, out)) return 0;
    pattern(k->want, 2);
    memcpy(k->source.memory.host, k->want, BYTES);
    memset(k->target.memory.host, 0x11, BYTES);
    return 1;
}

/* What is queued has run before memory goes back. */
static void close_desk(pinned_desk *k)
{
    desk *d = &k->d;
    gate_open(&d->g);
    if (d->stream) d->h.stream->synchronize(d->h.self, d->device, d->stream);
    if (d->other) d->h.stream->synchronize(d->h.self, d->device, d->other);
    if (k->source.memory.host) pinned_give_back(&d->h, &k->source);
    if (k->target.memory.host) pinned_give_back(&d->h, &k->target);
    if (k->x) hand_free(&d->h, 0, k->x, BYTES);
    desk_close(d);
}

/* The stream is not done while the gate is closed; a slot that waited for it has been noticed by the gate. */
static void stays(pinned_desk *k, void *stream, const char *what)
{
    for (int i = 0; i < LOOKS && k->d.out->outcome == CHECK_PASSED; i++) {
        int done = desk_query(&k->d, stream);
        if (gate_read(&k->d.g, &k->d.g.gave_up)) return;
        check_that(k->d.out, !done, "%s: stream.query says %d while a host callback holds the stream", what,
                   done);
        gate_pause(500000);
    }
}

/* In front of the copy another one still reads what was there before. */
static void copy_to_device(pinned_desk *k)
{
    desk *d = &k->d;
    uint8_t before[BYTES];
    pattern(before, 3);
    memcpy(k->source.memory.host, before, BYTES);
    if (!desk_ok(d, to_device(&d->h, k->x, &k->source, 0, BYTES, d->stream), "copy.host_to_device")) return;
    wait_for(&d->h, d->stream, d->out);
    memcpy(k->source.memory.host, k->want, BYTES);
    if (!desk_hold(d)) return;
    if (!desk_ok(d, to_host(&d->h, &k->target, k->x, BYTES, d->stream), "copy.device_to_host")) return;
    if (!desk_ok(d, to_device(&d->h, k->x, &k->source, 0, BYTES, d->stream), "copy.host_to_device")) return;
    check_that(d->out, !gate_read(&d->g, &d->g.gave_up),
               "copy.host_to_device from pinned memory waits for the stream");
    stays(k, d->stream, "a copy from pinned memory");
    gate_open(&d->g);
    wait_for(&d->h, d->stream, d->out);
    same(d->out, k->target.memory.host, before, BYTES,
         "what a copy in front of one from pinned memory has read");
    if (!desk_ok(d, to_host(&d->h, &k->target, k->x, BYTES, d->stream), "copy.device_to_host")) return;
    wait_for(&d->h, d->stream, d->out);
    same(d->out, k->target.memory.host, k->want, BYTES, "a copy from pinned memory");
}

static void copy_to_host(pinned_desk *k)
{
    desk *d = &k->d;
    uint8_t before[BYTES];
    memset(before, 0x11, BYTES);
    if (!desk_ok(d, to_device(&d->h, k->x, &k->source, 0, BYTES, d->stream), "copy.host_to_device")) return;
    wait_for(&d->h, d->stream, d->out);
    if (!desk_hold(d)) return;
    if (!desk_ok(d, to_host(&d->h, &k->target, k->x, BYTES, d->stream), "copy.device_to_host")) return;
    check_that(d->out, !gate_read(&d->g, &d->g.gave_up),
               "copy.device_to_host to pinned memory waits for the stream");
    stays(k, d->stream, "a copy to pinned memory");
    same(d->out, k->target.memory.host, before, BYTES, "pinned memory before its stream gets to the copy");
    gate_open(&d->g);
    wait_for(&d->h, d->stream, d->out);
    same(d->out, k->target.memory.host, k->want, BYTES, "a copy to pinned memory");
}

/* Another stream reads, behind an event, what the held stream copies. */
static void order_by_event(pinned_desk *k)
{
    desk *d = &k->d;
    hand *h = &d->h;
    if (!h->event || !HAND_HAS(h->stream, wait_event)) {
        check_skip(d->out, "the plugin has no events, or no stream.wait_event: the host waits");
        return;
    }
    if (!desk_hold(d)) return;
    if (!desk_ok(d, to_device(h, k->x, &k->source, 0, BYTES, d->stream), "copy.host_to_device") ||
        !desk_ok(d, h->event->record(h->self, d->device, d->event, d->stream), "event.record") ||
        !desk_ok(d, h->stream->wait_event(h->self, d->device, d->other, d->event), "stream.wait_event") ||
        !desk_ok(d, to_host(h, &k->target, k->x, BYTES, d->other), "copy.device_to_host"))
        return;
    int32_t done = -1;
    desk_ok(d, h->event->query(h->self, d->device, d->event, &done), "event.query");
    check_that(d->out, done == 0 || gate_read(&d->g, &d->g.gave_up),
               "event.query behind a copy from pinned memory: %d while the stream is held, expected 0", done);
    stays(k, d->other, "a copy behind the event");
    gate_open(&d->g);
    wait_for(h, d->other, d->out);
    same(d->out, k->target.memory.host, k->want, BYTES, "a copy of another stream, behind an event");
}

static void run_held(check_target *t, const check_case *c, check_result *out)
{
    static void (*const steps[])(pinned_desk * k) = {copy_to_device, copy_to_host, order_by_event};
    static pinned_desk k; /* large */
    if (open_desk(&k, t, out) && out->outcome == CHECK_PASSED) steps[c->number](&k);
    close_desk(&k);
}

/* More than there can be is refused, and the next request is served. */
static void run_out_of_memory(check_target *t, const check_case *c, check_result *out)
{
    const tn_memory_request huge = {.size = sizeof huge, .kind = TN_MEMORY_HOST, .bytes = 1ull << 60};
    tn_memory memory = {.size = sizeof memory};
    pinned p = {.pages = NULL};
    hand h;
    (void)c;
    if (hand_open(&h, t, 1, out) && h.count && pinned_there(&h, out)) {
        if (!pinned_given(&h)) {
            check_skip(out, "the plugin pins pages; it does not allocate pinned memory");
        } else {
            int32_t status = h.memory->alloc(h.self, h.devices[0], &huge, &memory);
            check_that(out, status == TN_E_OUT_OF_MEMORY,
                       "memory.alloc of 2^60 bytes of pinned memory: status %d, expected TN_E_OUT_OF_MEMORY",
                       status);
        }
        if (out->outcome == CHECK_PASSED && pinned_take(&h, &p, out)) memset(p.memory.host, 1, BYTES);
        pinned_give_back(&h, &p);
    }
    hand_close(&h);
}

/* ---- Through the library ------------------------------------------------------------------------------- */

/* A pinned copy of a tensor of the CPU; NULL, and the case has ended, where there is none. */
static tn_tensor *pin(check_target *t, tn_scope *s, double value, check_result *out)
{
    tn_tensor *plain = tn_full(s, TN_INTS(COUNT), value, .dtype = TN_FLOAT32, .device = TN_CPU);
    tn_tensor *x = plain ? tn_pin_memory(s, plain, t->device) : NULL;
    if (x) return x;
    t->error_line[0] = 0;
    if (tn_scope_error(s) && tn_scope_error(s)->code == TN_E_UNSUPPORTED)
        check_skip(out, "the plugin pins no memory of the host");
    else
        check_fail_with_error(out, s, "pinning a tensor");
    return NULL;
}

static void all_are(tn_scope *s, check_result *out, const tn_tensor *x, double want, const char *what)
{
    const double *got = x ? check_doubles(s, x) : NULL;
    if (!got) check_fail_with_error(out, s, what);
    for (int i = 0; got && i < COUNT; i++) {
        if (!check_that(out, got[i] == want, "%s: element %d is %g, expected %g", what, i, got[i], want))
            return;
    }
}

static void run_tensor(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_tensor *x = pin(t, s, 7, out);
    (void)c;
    if (x) {
        tn_tensor *plain = tn_full(s, TN_INTS(COUNT), 7, .dtype = TN_FLOAT32, .device = TN_CPU);
        check_that(out, tn_is_pinned(x), "a pinned tensor is not pinned");
        check_that(out, tn_is_pinned(tn_narrow(s, x, 0, 5, 10)), "a view of a pinned tensor is not pinned");
        check_that(out, !tn_is_pinned(plain), "a tensor of the CPU is pinned");
        check_that(out, tn_pin_memory(s, x, t->device) == x, "a pinned tensor was pinned again");
        tn_tensor *there = tn__to_copy(s, x, .device = t->device, .non_blocking = 1);
        all_are(s, out, there, 7, "a copy that does not block");
    }
    tn_scope_close(s);
}

/* Pinned memory is released while copies from it are queued: no later tensor may write over it. */
static void run_release(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_tensor *there[ROUND] = {NULL}, *first = pin(t, s, 0, out);
    gate g;
    (void)c;
    if (!first) {
        tn_scope_close(s);
        return;
    }
    gate_init(&g);
    if (tn_stream_add_callback(tn_stream_current(t->ctx, t->device), gate_hold, &g))
        check_fail_with_error(out, NULL, "a host callback");
    if (gate_read(&g, &g.at_once)) check_skip(out, "nothing holds the streams of this device");
    for (int i = 0; i < ROUND && out->outcome == CHECK_PASSED; i++) {
        tn_tensor *x = pin(t, s, i, out);
        there[i] = x ? tn__to_copy(s, x, .device = t->device, .non_blocking = 1) : NULL;
        if (x) tn_drop(s, x);
    }
    check_that(out, !gate_read(&g, &g.gave_up),
               "a copy from pinned memory that does not block waits for its stream");
    gate_open(&g);
    for (int i = 0; i < ROUND && out->outcome == CHECK_PASSED; i++)
        all_are(s, out, there[i], i, "a copy from pinned memory that was released");
    if (tn_device_synchronize(t->ctx, t->device)) check_fail_with_error(out, NULL, "waiting for the device");
    tn_scope_close(s);
    gate_finish(&g);
}

void check_tier0_pinned(check_target *t, check_list *list)
{
    static const char *const held[] = {"to-device", "to-host", "event"};
    (void)t;
    check_add(list, &(check_case){.run = run_memory}, "0/pinned/memory");
    for (int i = 0; i < 3; i++)
        check_add(list, &(check_case){.run = run_held, .number = i, .tags = CHECK_TAG_ALONE}, "0/pinned/%s",
                  held[i]);
    check_add(list, &(check_case){.run = run_out_of_memory}, "0/pinned/too-much");
    check_add(list, &(check_case){.run = run_tensor}, "0/pinned/tensor");
    check_add(list, &(check_case){.run = run_release}, "0/pinned/release-in-flight");
}
