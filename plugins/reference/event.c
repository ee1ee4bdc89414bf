/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Each time an event is recorded a new recording is made, which knows its place in a stream. A wait
 * for the event is a wait for its last recording at that time, whatever is recorded afterwards. Tasks hold
 * references, so an event may be destroyed while streams still wait for it.
 */
#include "reference.h"

#include <stdlib.h>
#include <time.h>

typedef struct recording {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    reference_stream *stream; /* where it was recorded; NULL once it has been reached */
    uint64_t number;          /* number of the task in that stream */
    double milliseconds;      /* when it was reached */
    atomic_uint references;
    int32_t reached;
    reference_capture *capture; /* recorded while its stream captured: never reached */
    reference_place place;      /* its place in the capture */
} recording;

typedef struct event {
    reference_state *state;
    pthread_mutex_t lock;
    recording *last; /* NULL: never recorded */
    uint32_t flags;
    uint32_t reserved;
} event;

static recording *create_recording(void)
{
    recording *r = calloc(1, sizeof(*r));
    if (!r) return NULL;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    atomic_init(&r->references, 1);
    return r;
}

static recording *retain(recording *r)
{
    atomic_fetch_add(&r->references, 1);
    return r;
}

static void release(recording *r)
{
    if (!r || atomic_fetch_sub(&r->references, 1) != 1) return;
    reference_capture_release(r->capture);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* A reference to the last recording, or NULL. */
static recording *last_recording(event *e)
{
    pthread_mutex_lock(&e->lock);
    recording *r = e->last ? retain(e->last) : NULL;
    pthread_mutex_unlock(&e->lock);
    return r;
}

/* With the lock held. The stream lives, as its task has not run. */
static void ask(const recording *r)
{
    if (r->stream) reference_stream_ask(r->stream, r->number);
}

static void wait_for(recording *r)
{
    pthread_mutex_lock(&r->lock);
    ask(r);
    while (!r->reached) pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

/* ---- Tasks ------------------------------------------------------------------------------------------- */

typedef struct event_task {
    reference_task task;
    recording *recording;
} event_task;

static void release_recording(reference_task *task)
{
    release(((event_task *)task)->recording);
}

static void run_record(reference_stream *stream, reference_task *task)
{
    recording *r = ((event_task *)task)->recording;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&r->lock);
    r->reached = 1;
    r->stream = NULL;
    r->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void run_wait(reference_stream *stream, reference_task *task)
{
    wait_for(((event_task *)task)->recording);
}

/* The task gets its own reference. */
static event_task *create_task(const event *e, recording *r,
                               void (*run)(reference_stream *stream, reference_task *task))
{
    event_task *t = r ? reference_task_create(sizeof(*t), run) : NULL;
    if (!t) {
        reference_error(e->state, TN_E_OUT_OF_MEMORY, "reference: no host memory to queue an event");
        return NULL;
    }
    t->recording = retain(r);
    t->task.always = 1;
    t->task.release = release_recording;
    return t;
}

int32_t reference_event_wait(void *handle, reference_stream *stream)
{
    event *e = handle;
    recording *r = last_recording(e);
    if (!r) return TN_OK;
    uint32_t branch;
    if (r->capture || reference_stream_capture(stream, &branch)) {
        int32_t code = reference_capture_wait(stream, r->capture, &r->place);
        release(r);
        return code;
    }
    event_task *t = create_task(e, r, run_wait);
    int32_t status = t ? reference_stream_push(stream, &t->task) : TN_E_OUT_OF_MEMORY;
    release(r);
    return status;
}

/* Queues the recording. Its lock keeps the task, which frees itself, until its number has been read. */
static int32_t push_recording(const event *e, recording *r, reference_stream *stream)
{
    event_task *t = create_task(e, r, run_record);
    if (!t) return TN_E_OUT_OF_MEMORY;
    pthread_mutex_lock(&r->lock);
    r->stream = stream;
    int32_t status = reference_stream_push(stream, &t->task);
    if (!status) r->number = t->task.number;
    pthread_mutex_unlock(&r->lock);
    return status;
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
    pthread_mutex_init(&e->lock, NULL);
    *out_event = e;
    return TN_OK;
}

static void event_destroy(void *self, void *device, void *handle)
{
    event *e = handle;
    release(e->last);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static int32_t event_record(void *self, void *device, void *handle, void *stream)
{
    event *e = handle;
    recording *r = create_recording(), *before = NULL;
    uint32_t branch;
    reference_capture *capture = reference_stream_capture(stream, &branch);
    int32_t status = TN_OK;
    if (capture && r) {
        r->capture = reference_capture_retain(capture);
        r->place = reference_capture_place(capture, branch);
    } else {
        status = push_recording(e, r, stream); /* refuses NULL */
    }
    if (status) {
        release(r);
        return status;
    }
    pthread_mutex_lock(&e->lock);
    before = e->last;
    e->last = r;
    pthread_mutex_unlock(&e->lock);
    release(before);
    return TN_OK;
}

/* TN_OK, or TN_E_STATE for an event recorded during capture. Releases it then. */
static int32_t check_runs(const reference_state *state, recording *r)
{
    if (!r || !r->capture) return TN_OK;
    release(r);
    return reference_error(state, TN_E_STATE, "reference: the event was recorded in a capture");
}

static int32_t event_query(void *self, void *device, void *handle, int32_t *out_done)
{
    recording *r = last_recording(handle);
    int32_t status = check_runs(self, r);
    if (status) return status;
    *out_done = 1;
    if (!r) return TN_OK;
    pthread_mutex_lock(&r->lock);
    *out_done = r->reached;
    ask(r);
    pthread_mutex_unlock(&r->lock);
    release(r);
    return TN_OK;
}

static int32_t event_synchronize(void *self, void *device, void *handle)
{
    recording *r = last_recording(handle);
    int32_t status = check_runs(self, r);
    if (status) return status;
    if (r) wait_for(r);
    release(r);
    return TN_OK;
}

/* The time of an event with timing that has been reached; 0 when there is none. */
static int time_of(event *e, double *out)
{
    recording *r = last_recording(e);
    int good = 0;
    if (!r) return 0;
    pthread_mutex_lock(&r->lock);
    good = (e->flags & TN_EVENT_TIMING) && r->reached;
    *out = r->milliseconds;
    pthread_mutex_unlock(&r->lock);
    release(r);
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
