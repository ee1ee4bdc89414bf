/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, lost devices: what is left of a device once its setting `lose` has been set. Each slot with a status
 * must then answer TN_E_DEVICE_LOST and wait for nothing; what hangs runs into the case's time limit, and what takes
 * seconds fails. The gate (gate.h) holds a stream until the device is lost, so its work cannot have run before.
 */
#include "gate.h"
#include "hand_call.h"
#include "pinned.h"
#include "sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES     256
#define LOOKS     20                   /* at memory that must not change */
#define LOOK_NS   1000000              /* between two looks */
#define PAUSE_NS  5000000              /* until a thread waits */
#define TAIL_NS   200000000            /* until a copy that goes on has ended */
#define LONG      (UINT64_C(64) << 20) /* bytes of a copy that takes longer than the loss of its device */
#define TAIL      4096                 /* the end of them, which it reaches last */
#define PATIENT_S 3.0                  /* more than the quicker of two calls takes that do not wait */
#define STALL_S   10.0                 /* more than one call takes, on a busy machine too */

typedef struct lost {
    desk d;
    const tn_settings_interface *settings;
    uint32_t setting;    /* the number of `lose` */
    void *x, *y;         /* memory of the device */
    uint8_t host[BYTES]; /* for copies */
} lost;

/* ---- Losing -------------------------------------------------------------------------------------------- */

static int find_setting(lost *l)
{
    hand *h = &l->d.h;
    if (!check_that(l->d.out, HAND_HAS(h->device, status),
                    "the device has a setting 'lose', but no device.status, which says that it is lost"))
        return 0;
    l->settings = h->table.get_interface(h->self, "tenon.settings", 1);
    for (; l->settings; l->setting++) {
        tn_setting s = {.size = sizeof s};
        if (l->settings->describe(h->self, l->d.device, l->setting, &s)) break;
        if (!strcmp(s.name, "lose")) return 1;
    }
    check_fail(l->d.out, "the library sees a setting 'lose', which describe does not give");
    return 0;
}

static int lose(lost *l)
{
    const tn_value yes = tn_value_bool(1);
    return desk_ok(&l->d, l->settings->set(l->d.h.self, l->d.device, l->setting, &yes),
                   "settings.set of 'lose'");
}

static int expect_lost(desk *d, int32_t status, const char *what)
{
    return check_that(d->out, !status || mini_host_error[0],
                      "%s of a device that is lost: status %d without a text (host->error)", what, status) &&
           check_that(d->out, status == TN_E_DEVICE_LOST,
                      "%s of a device that is lost: status %d (%s), expected %d (%s)", what, status,
                      tn_status_text(status), TN_E_DEVICE_LOST, tn_status_text(TN_E_DEVICE_LOST));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void expect_at_once(desk *d, double seconds, double most, const char *what)
{
    check_that(d->out, seconds < most,
               "%s of a device that is lost returned after %.1f seconds: it must not wait", what, seconds);
}

/* ---- Slots --------------------------------------------------------------------------------------------- */

static int32_t device_status(lost *l)
{
    return l->d.h.device->status(l->d.h.self, l->d.device);
}

static int32_t device_synchronize(lost *l)
{
    return l->d.h.device->synchronize(l->d.h.self, l->d.device);
}

static int32_t memory_alloc(lost *l)
{
    const tn_memory_request request = {
        .size = sizeof request, .kind = hand_memory_kind(&l->d.h), .bytes = BYTES};
    tn_memory memory = {.size = sizeof memory};
    return l->d.h.memory->alloc(l->d.h.self, l->d.device, &request, &memory);
}

static int32_t memory_info(lost *l)
{
    uint64_t free_bytes, total;
    return l->d.h.memory->info(l->d.h.self, l->d.device, &free_bytes, &total);
}

static int32_t memory_fill(lost *l)
{
    return l->d.h.memory->fill(l->d.h.self, l->d.device, l->x, 0, BYTES, 7, l->d.stream);
}

static int32_t host_to_device(lost *l)
{
    return l->d.h.copy->host_to_device(l->d.h.self, l->d.device, l->x, 0, l->host, NULL, BYTES, l->d.stream);
}

static int32_t device_to_host(lost *l)
{
    return l->d.h.copy->device_to_host(l->d.h.self, l->d.device, l->host, NULL, l->x, 0, BYTES, l->d.stream);
}

static int32_t device_to_device(lost *l)
{
    return l->d.h.copy->device_to_device(l->d.h.self, l->d.device, l->y, 0, l->x, 0, BYTES, l->d.stream);
}

static int32_t stream_create(lost *l)
{
    void *stream = NULL;
    return hand_stream(&l->d.h, l->d.device, &stream);
}

static int32_t stream_query(lost *l)
{
    int32_t done = 0;
    return l->d.h.stream->query(l->d.h.self, l->d.device, l->d.stream, &done);
}

static int32_t stream_synchronize(lost *l)
{
    return l->d.h.stream->synchronize(l->d.h.self, l->d.device, l->d.stream);
}

static int32_t stream_wait_event(lost *l)
{
    if (!HAND_HAS(l->d.h.stream, wait_event)) {
        check_skip(l->d.out, "the plugin has no stream.wait_event: the host waits");
        return TN_E_DEVICE_LOST;
    }
    return l->d.h.stream->wait_event(l->d.h.self, l->d.device, l->d.other, l->d.event);
}

static int32_t stream_host_callback(lost *l)
{
    return l->d.h.stream->host_callback(l->d.h.self, l->d.device, l->d.stream, gate_mark, &l->d.g);
}

static int32_t event_create(lost *l)
{
    void *event = NULL;
    return l->d.h.event->create(l->d.h.self, l->d.device, 0, &event);
}

static int32_t event_record(lost *l)
{
    return l->d.h.event->record(l->d.h.self, l->d.device, l->d.event, l->d.stream);
}

static int32_t event_query(lost *l)
{
    int32_t done = 0;
    return l->d.h.event->query(l->d.h.self, l->d.device, l->d.event, &done);
}

static int32_t event_synchronize(lost *l)
{
    return l->d.h.event->synchronize(l->d.h.self, l->d.device, l->d.event);
}

/* The event behind what the stream has by now; a plugin without events has nothing to record. */
static int record(lost *l)
{
    mini_host_error[0] = 0;
    return !l->d.event || desk_ok(&l->d, event_record(l), "event.record");
}

/* Work, a callback and an event are queued when the device is lost; the gate opens afterwards. */
static int lose_with_work(lost *l)
{
    desk *d = &l->d;
    return desk_hold(d) && desk_ok(d, memory_fill(l), "memory.fill") &&
           desk_ok(d, stream_host_callback(l), "stream.host_callback") && record(l) && lose(l);
}

static const struct {
    const char *name;
    int32_t (*call)(lost *l);
    int of_events;
} slots[] = {
    {"device.status", device_status, 0},
    {"device.synchronize", device_synchronize, 0},
    {"memory.alloc", memory_alloc, 0},
    {"memory.info", memory_info, 0},
    {"memory.fill", memory_fill, 0},
    {"copy.host_to_device", host_to_device, 0},
    {"copy.device_to_host", device_to_host, 0},
    {"copy.device_to_device", device_to_device, 0},
    {"stream.create", stream_create, 0},
    {"stream.query", stream_query, 0},
    {"stream.synchronize", stream_synchronize, 0},
    {"stream.host_callback", stream_host_callback, 0},
    {"stream.wait_event", stream_wait_event, 1},
    {"event.create", event_create, 1},
    {"event.record", event_record, 1},
    {"event.query", event_query, 1},
    {"event.synchronize", event_synchronize, 1},
};
#define SLOTS (sizeof slots / sizeof *slots)

/* Twice: a lost device stays lost. The quicker answer counts: the machine may be busy. */
static void ask_slot(lost *l, int64_t i)
{
    double quickest = 1e9;
    if (slots[i].of_events && !l->d.event) {
        check_skip(l->d.out, "the plugin has no events");
        return;
    }
    if (!lose_with_work(l)) return;
    gate_open(&l->d.g);
    for (int k = 0; k < 2 && l->d.out->outcome == CHECK_PASSED; k++) {
        double start = now();
        mini_host_error[0] = 0;
        expect_lost(&l->d, slots[i].call(l), slots[i].name);
        double seconds = now() - start;
        if (seconds < quickest) quickest = seconds;
    }
    expect_at_once(&l->d, quickest, PATIENT_S, slots[i].name);
}

/* ---- More ---------------------------------------------------------------------------------------------- */

typedef struct waiter {
    lost *l;
    int32_t (*wait)(lost *l);
    int32_t status;
    char error[MINI_HOST_TEXT]; /* errors belong to their thread */
} waiter;

static void *wait_in_thread(void *user)
{
    waiter *w = user;
    w->status = w->wait(w->l);
    memcpy(w->error, mini_host_error, sizeof w->error);
    return NULL;
}

/* A wait that began before the loss ends, and says why. */
static void lose_while_waiting(lost *l, int32_t (*wait)(lost *l), const char *slot)
{
    waiter w = {.l = l, .wait = wait};
    pthread_t thread;
    desk *d = &l->d;
    char what[80];
    snprintf(what, sizeof what, "%s, called before the loss,", slot);
    if (!desk_hold(d) || !desk_ok(d, memory_fill(l), "memory.fill") || !record(l)) return;
    if (pthread_create(&thread, NULL, wait_in_thread, &w)) {
        check_skip(d->out, "no thread");
        return;
    }
    gate_pause(PAUSE_NS);
    int is_lost = lose(l);
    double start = now();
    gate_open(&d->g);
    pthread_join(thread, NULL);
    memcpy(mini_host_error, w.error, sizeof w.error);
    if (is_lost && expect_lost(d, w.status, what)) expect_at_once(d, now() - start, STALL_S, what);
}

static void wait_for_stream(lost *l)
{
    lose_while_waiting(l, stream_synchronize, "stream.synchronize");
}

static void wait_for_device(lost *l)
{
    lose_while_waiting(l, device_synchronize, "device.synchronize");
}

static void wait_for_event(lost *l)
{
    if (l->d.event)
        lose_while_waiting(l, event_synchronize, "event.synchronize");
    else
        check_skip(l->d.out, "the plugin has no events");
}

/* Callbacks that were queued are called by the time that their stream is gone. */
static void call_back(lost *l)
{
    desk *d = &l->d;
    if (!lose_with_work(l)) return;
    gate_open(&d->g);
    d->h.stream->destroy(d->h.self, d->device, d->stream);
    d->stream = d->h.streams[0] = NULL;
    check_that(d->out, gate_read(&d->g, &d->g.passed) == 1,
               "the callback that was queued when the device was lost ran %d times before destroy of its "
               "stream had returned, expected 1",
               gate_read(&d->g, &d->g.passed));
}

/* After a slot has said that the device is lost, a queued copy must not write to the host any more. */
static void keep_off(lost *l, const pinned *p)
{
    desk *d = &l->d;
    uint8_t *host = p->memory.host;
    int is_lost =
        desk_ok(d, memory_fill(l), "memory.fill") && desk_hold(d) &&
        desk_ok(d,
                d->h.copy->device_to_host(d->h.self, d->device, host, &p->memory, l->x, 0, BYTES, d->stream),
                "copy.device_to_host to pinned memory") &&
        lose(l) && expect_lost(d, device_status(l), "device.status");
    memset(host, 0x5a, BYTES);
    gate_open(&d->g);
    for (int i = 0; is_lost && i < LOOKS && d->out->outcome == CHECK_PASSED; i++) {
        gate_pause(LOOK_NS);
        for (int k = 0; k < BYTES; k++)
            check_that(d->out, host[k] == 0x5a,
                       "a copy that was queued when the device was lost has written to the host: byte %d is "
                       "0x%02x, expected 0x5a",
                       k, host[k]);
    }
}

static void lose_with_copy(lost *l)
{
    pinned p = {.pages = NULL};
    if (!pinned_there(&l->d.h, l->d.out)) return;
    if (pinned_take(&l->d.h, &p, l->d.out)) keep_off(l, &p);
    gate_open(&l->d.g);
    pinned_give_back(&l->d.h, &p);
}

/* Until the copy has begun; no longer than a second. */
static void wait_for_first_byte(const volatile uint8_t *host)
{
    for (double start = now(); *host != 7 && now() - start < 1;) continue;
}

/* A copy to the host that is under way when its device is lost has ended when a slot says so. */
static void lose_during(lost *l, void *x, uint8_t *host)
{
    desk *d = &l->d;
    hand *h = &d->h;
    memset(host, 0x11, LONG);
    if (!desk_ok(d, h->memory->fill(h->self, d->device, x, 0, LONG, 7, d->stream), "memory.fill") ||
        !desk_ok(d, stream_synchronize(l), "stream.synchronize") ||
        !desk_ok(d, h->copy->device_to_host(h->self, d->device, host, NULL, x, 0, LONG, d->stream),
                 "copy.device_to_host"))
        return;
    wait_for_first_byte(host);
    if (!lose(l) || !expect_lost(d, device_status(l), "device.status")) return;
    memset(host + LONG - TAIL, 0x5a, TAIL);
    gate_pause(TAIL_NS);
    check_that(
        d->out, host[LONG - TAIL] == 0x5a && host[LONG - 1] == 0x5a,
        "a copy that was under way when the device was lost has written to the host after device.status "
        "had said so");
}

static void lose_during_copy(lost *l)
{
    void *x = hand_alloc(&l->d.h, 0, LONG, NULL, l->d.out);
    uint8_t *host = x ? malloc(LONG) : NULL;
    if (host)
        lose_during(l, x, host);
    else if (x)
        check_skip(l->d.out, "the host has no memory for it");
    hand_free(&l->d.h, 0, x, LONG);
    l->d.h.stream->synchronize(l->d.h.self, l->d.device, l->d.stream);
    free(host);
}

static void run_kernel(lost *l)
{
    static const int64_t sizes[] = {4};
    static const float values[] = {-1, 2, -3, 4};
    hand_call k = {.h = &l->d.h, .out = l->d.out};
    hand_tensor *from = hand_call_tensor(&k, TN_FLOAT32, 1, sizes, values),
                *to = from ? hand_call_tensor(&k, TN_FLOAT32, 1, sizes, NULL) : NULL;
    if (to && desk_ok(&l->d, stream_synchronize(l), "stream.synchronize")) {
        hand_call_give(&k, hand_call_value(from));
        k.outs[0] = hand_call_value(to);
        hand_call_nest(&k);
        if (hand_call_find(&k, "aten::abs", TN_FLOAT32) && lose(l))
            expect_lost(&l->d, hand_call_run(&k), "a kernel (aten::abs)");
    }
    hand_call_finish(&k);
}

/* Other devices of the plugin go on. */
static void use_second(lost *l)
{
    desk *d = &l->d;
    hand *h = &d->h;
    uint8_t got[BYTES] = {0};
    void *x = h->count > 1 ? hand_alloc(h, 1, BYTES, NULL, d->out) : NULL;
    if (h->count < 2) check_skip(d->out, "one device only");
    if (x && lose(l) &&
        desk_ok(d, h->memory->fill(h->self, h->devices[1], x, 0, BYTES, 9, h->streams[1]), "memory.fill") &&
        desk_ok(d, h->copy->device_to_host(h->self, h->devices[1], got, NULL, x, 0, BYTES, h->streams[1]),
                "copy.device_to_host") &&
        desk_ok(d, h->stream->synchronize(h->self, h->devices[1], h->streams[1]), "stream.synchronize"))
        check_that(d->out, got[0] == 9 && got[BYTES - 1] == 9,
                   "memory of a second device holds %d and %d after the loss of the first, expected 9",
                   got[0], got[BYTES - 1]);
    hand_free(h, 1, x, BYTES);
}

/* What another device waits for does not come any more. It goes on, and may have a late error of it. */
static void wait_on_second(lost *l)
{
    desk *d = &l->d;
    hand *h = &d->h;
    if (h->count < 2 || !d->event || !HAND_HAS(h->stream, wait_event)) {
        check_skip(d->out, "one device only, or the plugin has no events or no stream.wait_event");
        return;
    }
    if (!desk_hold(d) || !desk_ok(d, event_record(l), "event.record") ||
        !desk_ok(d, h->stream->wait_event(h->self, h->devices[1], h->streams[1], d->event),
                 "stream.wait_event of a second device"))
        return;
    int is_lost = lose(l);
    gate_open(&d->g);
    if (!is_lost) return;
    h->stream->synchronize(h->self, h->devices[1], h->streams[1]);
    if (desk_ok(d, h->device->status(h->self, h->devices[1]), "device.status of a second device"))
        desk_ok(d, h->stream->synchronize(h->self, h->devices[1], h->streams[1]),
                "stream.synchronize of a second device, which had waited for an event of the lost one");
}

/* ---- The list ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(lost *l);
    uint32_t devices;
} others[] = {
    {"waiting", wait_for_stream, 1},
    {"waiting-for-device", wait_for_device, 1},
    {"waiting-for-event", wait_for_event, 1},
    {"callbacks", call_back, 1},
    {"host-memory", lose_with_copy, 1},
    {"kernel", run_kernel, 1},
    {"copy-under-way", lose_during_copy, 1},
    {"second-device", use_second, 2},
    {"second-device-waits", wait_on_second, 2},
};
#define OTHERS (sizeof others / sizeof *others)

static void run(check_target *t, const check_case *c, check_result *out)
{
    uint64_t other = (uint64_t)c->number < SLOTS ? 0 : (uint64_t)c->number - SLOTS;
    lost l = {.setting = 0};
    if (desk_open(&l.d, t, others[other].devices, out) && find_setting(&l)) {
        l.x = hand_alloc(&l.d.h, 0, BYTES, NULL, out);
        l.y = l.x ? hand_alloc(&l.d.h, 0, BYTES, NULL, out) : NULL;
        if (l.y && (uint64_t)c->number < SLOTS)
            ask_slot(&l, c->number);
        else if (l.y)
            others[other].run(&l);
    }
    gate_open(&l.d.g);
    hand_free(&l.d.h, 0, l.x, BYTES);
    hand_free(&l.d.h, 0, l.y, BYTES);
    desk_close(&l.d);
}

static void run_absent(check_target *t, const check_case *c, check_result *out)
{
    check_skip(out, "the device has no setting 'lose', so no case can lose it");
}

static int has_setting(check_target *t)
{
    tn_setting s = {.size = sizeof s};
    for (uint32_t i = 0; !tn_device_setting(t->ctx, t->device, i, &s); i++)
        if (!strcmp(s.name, "lose")) return 1;
    return 0;
}

void check_tier0_lost(check_target *t, check_list *list)
{
    if (!has_setting(t)) {
        check_add(list, &(check_case){.run = run_absent}, "0/lost");
        return;
    }
    for (size_t i = 0; i < SLOTS + OTHERS; i++)
        check_add(
            list,
            &(check_case){.run = run, .tags = CHECK_TAG_ALONE | CHECK_TAG_OPTIONAL, .number = (int64_t)i},
            "0/lost/%s", i < SLOTS ? slots[i].name : others[i - SLOTS].name);
}
