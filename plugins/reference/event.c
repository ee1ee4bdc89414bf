/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Each recording has a number; an event is done when the last one has been reached. Tasks hold a
 * reference, so that an event may be destroyed while streams still wait for it.
 */
#include "reference.h"

#include <stdlib.h>
#include <time.h>

typedef struct event {
    reference_state *state;
    pthread_mutex_t lock;
    pthread_cond_t reached_more;
    uint64_t recorded;
    uint64_t reached;
    double milliseconds; /* when the last one was reached */
    uint32_t references;
    uint32_t flags;
} event;

static void retain(event *e)
{
    pthread_mutex_lock(&e->lock);
    e->references++;
    pthread_mutex_unlock(&e->lock);
}

static void release(event *e)
{
    pthread_mutex_lock(&e->lock);
    uint32_t left = --e->references;
    pthread_mutex_unlock(&e->lock);
    if (left) return;
    pthread_cond_destroy(&e->reached_more);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static void wait_for(event *e, uint64_t number)
{
    pthread_mutex_lock(&e->lock);
    while (e->reached < number) pthread_cond_wait(&e->reached_more, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

static uint64_t last_recording(event *e)
{
    pthread_mutex_lock(&e->lock);
    uint64_t number = e->recorded;
    pthread_mutex_unlock(&e->lock);
    return number;
}

/* ---- Tasks ------------------------------------------------------------------------------------------- */

typedef struct event_task {
    reference_task task;
    event *event;
    uint64_t number;
} event_task;

static void release_event(reference_task *task)
{
    release(((event_task *)task)->event);
}

static void run_record(reference_stream *stream, reference_task *task)
{
    const event_task *t = (const event_task *)task;
    event *e = t->event;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&e->lock);
    if (t->number > e->reached) {
        e->reached = t->number;
        e->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    }
    pthread_cond_broadcast(&e->reached_more);
    pthread_mutex_unlock(&e->lock);
}

static void run_wait(reference_stream *stream, reference_task *task)
{
    const event_task *t = (const event_task *)task;
    wait_for(t->event, t->number);
}

static event_task *create_task(event *e, void (*run)(reference_stream *stream, reference_task *task))
{
    event_task *t = reference_task_create(sizeof(*t), run);
    if (!t) {
        reference_error(e->state, TN_E_OUT_OF_MEMORY, "reference: no host memory to queue an event");
        return NULL;
    }
    retain(e);
    t->event = e;
    t->task.always = 1;
    t->task.release = release_event;
    return t;
}

int32_t reference_event_wait(void *handle, reference_stream *stream)
{
    event *e = handle;
    event_task *t = create_task(e, run_wait);
    if (!t) return TN_E_OUT_OF_MEMORY;
    t->number = last_recording(e);
    return reference_stream_push(stream, &t->task);
}

/* ---- Slots ------------------------------------------------------------------------------------------- */

static int32_t event_create(void *self, void *device, uint32_t flags, void **out_event)
{
    if (flags & ~TN_EVENT_TIMING)
        return reference_error(self, TN_E_ARGUMENT, "reference: unknown event flags");
    event *e = calloc(1, sizeof(*e));
    if (!e) return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory for an event");
    e->state = self;
    e->flags = flags;
    e->references = 1;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->reached_more, NULL);
    *out_event = e;
    return TN_OK;
}

static void event_destroy(void *self, void *device, void *handle)
{
    release(handle);
}

static int32_t event_record(void *self, void *device, void *handle, void *stream)
{
    event *e = handle;
    event_task *t = create_task(e, run_record);
    if (!t) return TN_E_OUT_OF_MEMORY;
    pthread_mutex_lock(&e->lock);
    t->number = ++e->recorded;
    pthread_mutex_unlock(&e->lock);
    return reference_stream_push(stream, &t->task);
}

static int32_t event_query(void *self, void *device, void *handle, int32_t *out_done)
{
    event *e = handle;
    pthread_mutex_lock(&e->lock);
    *out_done = e->reached == e->recorded;
    pthread_mutex_unlock(&e->lock);
    return TN_OK;
}

static int32_t event_synchronize(void *self, void *device, void *handle)
{
    wait_for(handle, last_recording(handle));
    return TN_OK;
}

/* The time of an event with timing that has been reached; 0 when there is none. */
static int time_of(event *e, double *out)
{
    pthread_mutex_lock(&e->lock);
    int good = (e->flags & TN_EVENT_TIMING) && e->recorded && e->reached == e->recorded;
    *out = e->milliseconds;
    pthread_mutex_unlock(&e->lock);
    return good;
}

static int32_t event_elapsed(void *self, void *device, void *start, void *end, double *out_ms)
{
    double from, to;
    if (!time_of(start, &from) || !time_of(end, &to))
        return reference_error(self, TN_E_STATE,
                               "reference: elapsed time needs two finished events with timing");
    *out_ms = to - from;
    return TN_OK;
}

const tn_event_interface reference_event_interface = {
    .size = sizeof(tn_event_interface),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .synchronize = event_synchronize,
    .elapsed = event_elapsed,
};
