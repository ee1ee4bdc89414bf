/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, unfinished work: a host callback that does not return holds a stream. Work queued behind it must
 * be unfinished, and must be reported so, until the callback is released. Nothing here depends on the speed
 * of the device: a correct plugin always passes.
 *
 * A plugin that works synchronously may run a callback on the calling thread. The callback sees that and
 * does not wait; the stream must then say that it is done.
 */
#include "hand.h"
#include "sources.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOOKS      40       /* queries made while the gate is closed */
#define LOOK_NS    500000   /* between two queries: time for a plugin to go wrong */
#define GIVE_UP_S  10       /* a slot that waits for the gate would wait forever */
#define OPENING_NS 30000000 /* delay before another thread opens the gate */

/* ---- The gate ------------------------------------------------------------------------------------------ */

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t caller;
    int entered, open, at_once, gave_up;
    int passed; /* callbacks of mark() that have run */
} gate;

static struct timespec seconds_from_now(int seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += seconds;
    return t;
}

static void pause_for(long nanoseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

static void gate_init(gate *g)
{
    *g = (gate){.caller = pthread_self()};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
}

static void gate_finish(gate *g)
{
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

static void gate_open(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = 1;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* The host callback that holds the stream. */
static void hold(void *user)
{
    gate *g = user;
    const struct timespec end = seconds_from_now(GIVE_UP_S);
    pthread_mutex_lock(&g->lock);
    g->entered = 1;
    g->at_once = pthread_equal(pthread_self(), g->caller) != 0;
    pthread_cond_broadcast(&g->changed);
    while (!g->open && !g->at_once && !g->gave_up)
        g->gave_up = pthread_cond_timedwait(&g->changed, &g->lock, &end) == ETIMEDOUT;
    pthread_mutex_unlock(&g->lock);
}

/* A host callback behind it. */
static void mark(void *user)
{
    gate *g = user;
    pthread_mutex_lock(&g->lock);
    g->passed++;
    pthread_mutex_unlock(&g->lock);
}

static int read_flag(gate *g, const int *flag)
{
    pthread_mutex_lock(&g->lock);
    int value = *flag;
    pthread_mutex_unlock(&g->lock);
    return value;
}

/* ---- The desk ------------------------------------------------------------------------------------------ */

/* The plugin, with a second stream on its first device, and an event if it has events. */
typedef struct desk {
    hand h;
    gate g;
    void *device, *stream, *other, *event;
    check_result *out;
} desk;

static int ok(desk *d, int32_t status, const char *what)
{
    return hand_ok(&d->h, d->out, status, what);
}

static int make_handles(desk *d)
{
    const tn_event_interface *events = d->h.event;
    if (!d->h.count) {
        check_skip(d->out, "there is no device");
        return 0;
    }
    if (!HAND_HAS(d->h.stream, host_callback)) {
        check_skip(d->out, "the plugin has no stream.host_callback, so nothing can hold its streams");
        return 0;
    }
    d->device = d->h.devices[0];
    d->stream = d->h.streams[0];
    if (!ok(d, d->h.stream->create(d->h.self, d->device, 0, &d->other), "stream.create")) return 0;
    return !events || ok(d, events->create(d->h.self, d->device, 0, &d->event), "event.create");
}

static int open_desk(desk *d, check_target *t, check_result *out)
{
    memset(d, 0, sizeof *d);
    d->out = out;
    gate_init(&d->g);
    return hand_open(&d->h, t, 1, out) && make_handles(d);
}

/* Opens the gate in any case and waits until nothing of the case is queued. */
static void close_desk(desk *d)
{
    gate_open(&d->g);
    if (d->stream) d->h.stream->synchronize(d->h.self, d->device, d->stream);
    if (d->other) d->h.stream->synchronize(d->h.self, d->device, d->other);
    if (d->g.gave_up)
        check_fail(d->out, "a slot did not return for %d seconds while a host callback held the stream",
                   GIVE_UP_S);
    if (d->event) d->h.event->destroy(d->h.self, d->device, d->event);
    if (d->other) d->h.stream->destroy(d->h.self, d->device, d->other);
    hand_close(&d->h);
    gate_finish(&d->g);
}

static int query(desk *d, void *stream)
{
    int32_t done = -1;
    if (!ok(d, d->h.stream->query(d->h.self, d->device, stream, &done), "stream.query")) return -1;
    return done;
}

/* Closes the gate in the stream. 0: the case has ended, since nothing can be held or something is wrong. */
static int close_gate(desk *d)
{
    if (!ok(d, d->h.stream->host_callback(d->h.self, d->device, d->stream, hold, &d->g),
            "stream.host_callback"))
        return 0;
    if (!read_flag(&d->g, &d->g.at_once)) return 1;
    int done = query(d, d->stream);
    if (check_that(d->out, done == 1,
                   "a host callback ran on the calling thread, but stream.query says %d, expected 1", done))
        check_skip(d->out, "host callbacks run on the calling thread: the device works synchronously");
    return 0;
}

/* Asks `LOOKS` times; fails when an answer is not 0. */
static void stays_unfinished(desk *d, int (*ask)(desk *d), const char *what)
{
    for (int i = 0; i < LOOKS && d->out->outcome == CHECK_PASSED; i++) {
        int done = ask(d);
        if (read_flag(&d->g, &d->g.gave_up)) return;
        check_that(d->out, done == 0, "%s: %d while a host callback holds the stream, expected 0", what,
                   done);
        pause_for(LOOK_NS);
    }
}

static int ask_stream(desk *d)
{
    return query(d, d->stream);
}

static int ask_other_stream(desk *d)
{
    return query(d, d->other);
}

static int ask_event(desk *d)
{
    int32_t done = -1;
    ok(d, d->h.event->query(d->h.self, d->device, d->event, &done), "event.query");
    return done;
}

static int ask_mark(desk *d)
{
    return read_flag(&d->g, &d->g.passed);
}

/* ---- Queries ------------------------------------------------------------------------------------------- */

static void finish(desk *d)
{
    gate_open(&d->g);
    if (!ok(d, d->h.stream->synchronize(d->h.self, d->device, d->stream), "stream.synchronize")) return;
    int done = query(d, d->stream);
    check_that(d->out, done == 1, "stream.query after stream.synchronize: %d, expected 1", done);
}

static void query_stream(desk *d)
{
    if (!close_gate(d)) return;
    stays_unfinished(d, ask_stream, "stream.query");
    finish(d);
}

static void query_event(desk *d)
{
    if (!close_gate(d)) return;
    if (!ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream), "event.record")) return;
    stays_unfinished(d, ask_event, "event.query");
    finish(d);
    int done = ask_event(d);
    check_that(d->out, done == 1, "event.query after its stream was synchronized: %d, expected 1", done);
}

static void wait_for_event(desk *d)
{
    const tn_stream_interface *s = d->h.stream;
    if (!HAND_HAS(s, wait_event)) {
        check_skip(d->out, "the plugin has no stream.wait_event: the host waits");
        return;
    }
    if (!close_gate(d)) return;
    if (!ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream), "event.record") ||
        !ok(d, s->wait_event(d->h.self, d->device, d->other, d->event), "stream.wait_event") ||
        !ok(d, s->host_callback(d->h.self, d->device, d->other, mark, &d->g), "stream.host_callback"))
        return;
    stays_unfinished(d, ask_other_stream, "stream.query of a stream that waits for an event");
    stays_unfinished(d, ask_mark, "host callbacks that ran on a stream that waits for an event");
    finish(d);
}

/* ---- Order --------------------------------------------------------------------------------------------- */

#define HALF   (UINT64_C(8) << 20)
#define COPIES 48

/* Work that takes any device longer than a call. A callback queued behind it must not run at once, unless
 * the plugin works synchronously. */
static void *queue_work(desk *d)
{
    const tn_memory_interface *memory = d->h.memory;
    uint32_t kinds = d->h.target->facts.memory_kinds, kind = kinds & (~kinds + 1u);
    void *x = NULL, *host = NULL;
    if (!ok(d, memory->alloc(d->h.self, d->device, 2 * HALF, kind, &x, &host), "memory.alloc")) return NULL;
    for (int i = 0; i < COPIES; i++)
        ok(d,
           d->h.copy->device_to_device(d->h.self, d->device, x, i % 2 * HALF, x, (i + 1) % 2 * HALF, HALF,
                                       d->stream),
           "copy.device_to_device");
    return x;
}

static void look_at_order(desk *d)
{
    if (!close_gate(d)) return;
    if (!ok(d, d->h.stream->host_callback(d->h.self, d->device, d->stream, mark, &d->g),
            "stream.host_callback"))
        return;
    stays_unfinished(d, ask_mark, "host callbacks that ran behind the first");
    finish(d);
    check_that(d->out, read_flag(&d->g, &d->g.passed) == 1,
               "the second host callback had not run when the stream was synchronized");
}

static void order_callbacks(desk *d)
{
    void *x = queue_work(d);
    if (x) look_at_order(d);
    gate_open(&d->g);
    d->h.stream->synchronize(d->h.self, d->device, d->stream);
    if (x) d->h.memory->free(d->h.self, d->device, x, 2 * HALF);
}

/* ---- Waiting ------------------------------------------------------------------------------------------- */

static void *open_later(void *user)
{
    pause_for(OPENING_NS);
    gate_open(user);
    return NULL;
}

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

/* Queues the gate, a mark and an event. While another thread opens the gate, the wait must not end before
 * the mark. */
static void expect_wait(desk *d, int32_t (*wait)(desk *d), const char *what)
{
    pthread_t thread;
    if (!close_gate(d)) return;
    if (!ok(d, d->h.stream->host_callback(d->h.self, d->device, d->stream, mark, &d->g),
            "stream.host_callback") ||
        (d->event && !ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream), "event.record")))
        return;
    if (pthread_create(&thread, NULL, open_later, &d->g)) {
        check_skip(d->out, "no thread");
        return;
    }
    int32_t status = wait(d);
    int passed = read_flag(&d->g, &d->g.passed);
    pthread_join(thread, NULL);
    if (ok(d, status, what))
        check_that(d->out, passed == 1, "%s returned before the work in front of it was done", what);
}

static void synchronize_stream(desk *d)
{
    expect_wait(d, wait_stream, "stream.synchronize");
}

static void synchronize_event(desk *d)
{
    expect_wait(d, wait_event, "event.synchronize");
}

static void synchronize_device(desk *d)
{
    expect_wait(d, wait_device, "device.synchronize");
}

/* ---- The list ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(desk *d);
    int needs_events;
} cases[] = {
    {"stream.query", query_stream, 0},
    {"stream.synchronize", synchronize_stream, 0},
    {"stream.host_callback", order_callbacks, 0},
    {"stream.wait_event", wait_for_event, 1},
    {"event.query", query_event, 1},
    {"event.synchronize", synchronize_event, 1},
    {"device.synchronize", synchronize_device, 0},
};

static void run(check_target *t, const check_case *c, check_result *out)
{
    desk d;
    if (open_desk(&d, t, out)) {
        if (cases[c->number].needs_events && !d.event)
            check_skip(out, "the plugin has no events: the host waits for the stream");
        else
            cases[c->number].run(&d);
    }
    close_desk(&d);
}

void check_tier0_gate(check_target *t, check_list *list)
{
    (void)t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_add(list, &(check_case){.run = run, .number = (int64_t)i}, "0/unfinished/%s", cases[i].name);
}
