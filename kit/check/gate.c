/* SPDX-License-Identifier: Apache-2.0 */
/* A host callback that holds a stream; see gate.h. */
#include "gate.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define GIVE_UP_S 30 /* a slot that waits for the gate would wait forever; more than a busy machine takes */

/* ---- The gate ------------------------------------------------------------------------------------------ */

static struct timespec seconds_from_now(int seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += seconds;
    return t;
}

void gate_pause(long nanoseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
}

void gate_init(gate *g)
{
    *g = (gate){.caller = pthread_self()};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
}

void gate_finish(gate *g)
{
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

void gate_open(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = 1;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

void gate_close(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = g->entered = g->passed = 0;
    pthread_mutex_unlock(&g->lock);
}

void gate_hold(void *user)
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

void gate_mark(void *user)
{
    gate *g = user;
    pthread_mutex_lock(&g->lock);
    g->passed++;
    pthread_mutex_unlock(&g->lock);
}

int gate_read(gate *g, const int *flag)
{
    pthread_mutex_lock(&g->lock);
    int value = *flag;
    pthread_mutex_unlock(&g->lock);
    return value;
}

/* ---- The desk ------------------------------------------------------------------------------------------ */

int desk_ok(desk *d, int32_t status, const char *what)
{
    return hand_ok(&d->h, d->out, status, what);
}

/* An event that has been recorded and reached: whatever records it again begins anew. */
static int make_event(desk *d)
{
    const tn_event_interface *events = d->h.event;
    return desk_ok(d, events->create(d->h.self, d->device, 0, &d->event), "event.create") &&
           desk_ok(d, events->record(d->h.self, d->device, d->event, d->other), "event.record") &&
           desk_ok(d, d->h.stream->synchronize(d->h.self, d->device, d->other), "stream.synchronize");
}

static int make_handles(desk *d)
{
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
    if (!desk_ok(d, hand_stream(&d->h, d->device, &d->other), "stream.create")) return 0;
    return !d->h.event || make_event(d);
}

int desk_open(desk *d, check_target *t, uint32_t devices, check_result *out)
{
    memset(d, 0, sizeof *d);
    d->out = out;
    gate_init(&d->g);
    return hand_open(&d->h, t, devices, out) && make_handles(d);
}

void desk_close(desk *d)
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

int desk_query(desk *d, void *stream)
{
    int32_t done = -1;
    if (!desk_ok(d, d->h.stream->query(d->h.self, d->device, stream, &done), "stream.query")) return -1;
    return done;
}

int desk_hold(desk *d)
{
    if (!desk_ok(d, d->h.stream->host_callback(d->h.self, d->device, d->stream, gate_hold, &d->g),
                 "stream.host_callback"))
        return 0;
    if (!gate_read(&d->g, &d->g.at_once)) return 1;
    int done = desk_query(d, d->stream);
    if (check_that(d->out, done == 1,
                   "a host callback ran on the calling thread, but stream.query says %d, expected 1", done))
        check_skip(d->out, "host callbacks run on the calling thread: the device works synchronously");
    return 0;
}

static void *open_later(void *user)
{
    gate_pause(OPENING_NS);
    gate_open(user);
    return NULL;
}

int gate_open_later(gate *g, pthread_t *out_thread)
{
    return pthread_create(out_thread, NULL, open_later, g);
}

int desk_open_later(desk *d, pthread_t *out_thread)
{
    if (!gate_open_later(&d->g, out_thread)) return 1;
    check_skip(d->out, "no thread");
    return 0;
}
