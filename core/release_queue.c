/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels keep alive until their work is done. A stream's host callback may call neither the host nor the
 * vendor, but a release may do both; so a thread of the device waits for an event behind each kernel and calls
 * the release then. Where a plugin has no events, a host callback wakes the thread. The thread begins with the
 * first release. Devices without queues, events and callbacks, and systems without a thread to spare, release on
 * the thread of the call, after a wait for the stream.
 */
#include <time.h>
#include "core/graph.h"

/* Nanoseconds between two questions to an event. */
#define FIRST_PAUSE   50000
#define LONGEST_PAUSE 2000000

typedef struct pending {
    struct pending *next;
    tn_event *event; /* NULL: a host callback sets `is_passed` */
    tni_kept *kept;
    struct tni_release_queue *queue;
    int32_t is_passed; /* under the queue's lock */
} pending;

struct tni_release_queue {
    tni_device *device;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    pthread_cond_t hurry;  /* signalled when somebody waits for the thread; on the monotonic clock */
    pending *first, **end; /* the oldest; where the next one goes */
    int32_t stopping;
    uint32_t waiters; /* threads in tni_release_wait */
    int32_t is_busy;  /* the thread waits for an event or is in a release */
};

static void release(tn_context *ctx, tni_kept *kept)
{
    kept->release(kept->pointer);
    tni_free(ctx, kept, sizeof *kept);
}

/* Runs on a thread of the plugin. */
static void pass(void *user)
{
    pending *p = user;
    pthread_mutex_lock(&p->queue->lock);
    p->is_passed = 1;
    pthread_cond_broadcast(&p->queue->changed);
    pthread_mutex_unlock(&p->queue->lock);
}

/* Sleeps for so long, or until somebody waits for the thread: 1. */
static int32_t rest(struct tni_release_queue *q, long nanoseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    nanoseconds += until.tv_nsec;
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    pthread_mutex_lock(&q->lock);
    int32_t over = 0;
    while (!over && !q->waiters && !q->stopping)
        over = pthread_cond_timedwait(&q->hurry, &q->lock, &until) != 0;
    pthread_mutex_unlock(&q->lock);
    return !over;
}

/* A vendor's wait may keep a core busy, so the thread asks now and then, and waits only while others wait for it. */
static int32_t wait_for_event(struct tni_release_queue *q, const tn_event *event)
{
    const tni_driver *driver = &q->device->type->driver;
    int32_t done = 0, status = driver->event.query(driver->self, q->device->handle, event->handle, &done);
    for (long pause = FIRST_PAUSE; !status && !done;
         pause = pause * 2 < LONGEST_PAUSE ? pause * 2 : LONGEST_PAUSE) {
        if (rest(q, pause)) return driver->event.synchronize(driver->self, q->device->handle, event->handle);
        status = driver->event.query(driver->self, q->device->handle, event->handle, &done);
    }
    return status;
}

/* Late errors are not taken here: the program's own wait reports them. */
static void wait_for(tni_device *d, pending *p)
{
    if (p->event) {
        tni_late_keep(d, wait_for_event(p->queue, p->event), "waiting for an event");
        return;
    }
    pthread_mutex_lock(&p->queue->lock);
    while (!p->is_passed) pthread_cond_wait(&p->queue->changed, &p->queue->lock);
    pthread_mutex_unlock(&p->queue->lock);
}

static void *work(void *argument)
{
    struct tni_release_queue *q = argument;
    tni_device *d = q->device;
    tni_tls.is_releasing = 1;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (!q->first && !q->stopping) pthread_cond_wait(&q->changed, &q->lock);
        pending *p = q->first;
        if (!p) break;
        q->first = p->next;
        if (!q->first) q->end = &q->first;
        q->is_busy = 1;
        pthread_mutex_unlock(&q->lock);
        wait_for(d, p);
        tn_event_release(p->event);
        release(d->ctx, p->kept);
        tni_free(d->ctx, p, sizeof *p);
        pthread_mutex_lock(&q->lock);
        q->is_busy = 0;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

static struct tni_release_queue *create(tni_device *d)
{
    struct tni_release_queue *q = tni_alloc_zeroed(d->ctx, sizeof *q);
    if (!q) return NULL;
    q->device = d;
    q->end = &q->first;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&q->hurry, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (!tni_thread_start(&q->thread, work, q)) return q;
    pthread_cond_destroy(&q->hurry);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    tni_free(d->ctx, q, sizeof *q);
    return NULL;
}

/* The queue of the device, begun if need be; NULL: there is none. */
static struct tni_release_queue *queue_of(tni_device *d)
{
    pthread_mutex_lock(&d->lock);
    if (!d->releases) d->releases = create(d);
    struct tni_release_queue *q = d->releases;
    pthread_mutex_unlock(&d->lock);
    return q;
}

/* Marks the place in the stream that the item waits for. */
static int32_t mark(tni_device *d, tn_stream *stream, pending *p)
{
    const tni_driver *driver = &d->type->driver;
    if (!driver->event.size)
        return driver->stream.host_callback(driver->self, d->handle, stream->handle, pass, p);
    int32_t status = tni_event_create(d, 0, &p->event);
    return status ? status : tn_event_record(p->event, stream);
}

/* 1: the queue has the item. */
static int32_t push(tni_device *d, tn_stream *stream, tni_kept *kept)
{
    if (d->synchronous || !(d->type->driver.event.size || d->type->driver.stream.host_callback)) return 0;
    struct tni_release_queue *q = queue_of(d);
    pending *p = q ? tni_alloc(d->ctx, sizeof *p) : NULL;
    if (!p) return 0;
    *p = (pending){.kept = kept, .queue = q};
    if (mark(d, stream, p)) {
        tn_event_release(p->event);
        tni_free(d->ctx, p, sizeof *p);
        return 0;
    }
    pthread_mutex_lock(&q->lock);
    *q->end = p;
    q->end = &p->next;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return 1;
}

void tni_release_later(tn_stream *stream, tni_kept *kept)
{
    tni_device *d = stream->device;
    if (push(d, stream, kept)) return;
    if (!d->synchronous) tni_late_keep(d, tn_stream_synchronize(stream), "waiting for a stream");
    release(d->ctx, kept);
}

void tni_release_wait(tni_device *d)
{
    pthread_mutex_lock(&d->lock);
    struct tni_release_queue *q = d->releases;
    pthread_mutex_unlock(&d->lock);
    if (!q || pthread_equal(q->thread, pthread_self())) return;
    pthread_mutex_lock(&q->lock);
    q->waiters++;
    pthread_cond_signal(&q->hurry);
    while (q->first || q->is_busy) pthread_cond_wait(&q->changed, &q->lock);
    q->waiters--;
    pthread_mutex_unlock(&q->lock);
}

void tni_release_finish(tni_device *d)
{
    struct tni_release_queue *q = d->releases;
    if (!q) return;
    pthread_mutex_lock(&q->lock);
    q->stopping = 1;
    pthread_cond_signal(&q->hurry);
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->hurry);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    tni_free(d->ctx, q, sizeof *q);
    d->releases = NULL;
}
