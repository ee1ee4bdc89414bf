/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Each time an event is recorded a new recording is made, which knows its place in a stream. A wait
 * for the event is a wait for its last recording at that time, whatever is recorded afterwards. Tasks hold
 * references, so an event may be destroyed while streams still wait for it.
 *
 * An event for other processes counts its recordings in a page that they share: how many were queued and how many were
 * reached. The process that records holds a lock on the page's file, which the others see go when it ends.
 */
#include "reference.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct page {
    atomic_uint changes; /* what sleepers wait for */
    uint32_t reserved;
    atomic_uint_fast64_t recorded;
    atomic_uint_fast64_t reached;
} page;

/* The page as one process has it. */
typedef struct shared_page {
    page *page;
    int file;
    int lock; /* the same file opened once more: `file` is given to others, and a lock belongs to what was opened */
    int32_t imported;
    atomic_uint references;
} shared_page;

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
    shared_page *shared;        /* of an event for other processes, or NULL */
    uint64_t shared_number;     /* of the recording, there */
} recording;

typedef struct event {
    reference_state *state;
    pthread_mutex_t lock;
    recording *last; /* NULL: never recorded */
    uint32_t flags;
    uint32_t reserved;
    shared_page *shared; /* NULL: for this process alone */
} event;

/* ---- Pages of several processes ---------------------------------------------------------------------- */

#define LOOK_MILLISECONDS 20 /* how often a waiting process looks whether the other is alive */
#define ENDED             "reference: the process that records an event has ended"

static void release_page(shared_page *s)
{
    if (!s || atomic_fetch_sub(&s->references, 1) != 1) return;
    if (s->page) munmap(s->page, sizeof(page));
    if (s->file >= 0) close(s->file);
    if (s->lock >= 0) close(s->lock);
    free(s);
}

/* A lock that ends with this process. */
static int lock_page(shared_page *s)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", s->file);
    s->lock = open(path, O_RDWR | O_CLOEXEC);
    return s->lock >= 0 && reference_file_lock(s->lock, 0);
}

/* Maps the page of a file, which the caller keeps; a new file if `file` is -1. NULL on failure. */
static shared_page *open_page(int file)
{
    shared_page *s = calloc(1, sizeof(*s));
    if (!s) return NULL;
    atomic_init(&s->references, 1);
    s->imported = file >= 0;
    s->lock = -1;
    s->file = file >= 0 ? fcntl(file, F_DUPFD_CLOEXEC, 0) : memfd_create("tenon-event", MFD_CLOEXEC);
    struct stat facts;
    int good = s->file >= 0 && (s->imported || ftruncate(s->file, sizeof(page)) == 0) &&
               fstat(s->file, &facts) == 0 && facts.st_size == (off_t)sizeof(page) &&
               (s->imported || lock_page(s));
    void *at = good ? mmap(NULL, sizeof(page), PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0) : MAP_FAILED;
    if (at != MAP_FAILED) {
        s->page = at;
        return s;
    }
    release_page(s);
    return NULL;
}

/* Waits for a recording of another process. 0: that process has ended. */
static int wait_for_page(const shared_page *s, uint64_t number)
{
    for (;;) {
        uint32_t seen = atomic_load(&s->page->changes);
        if (atomic_load(&s->page->reached) >= number) return 1;
        int alive = reference_file_is_locked(s->file, 0);
        if (atomic_load(&s->page->reached) >= number) return 1;
        if (!alive) return 0;
        reference_futex_wait(&s->page->changes, seen, LOOK_MILLISECONDS);
    }
}

static void reach_page(const recording *r)
{
    uint64_t before = atomic_load(&r->shared->page->reached);
    while (before < r->shared_number &&
           !atomic_compare_exchange_weak(&r->shared->page->reached, &before, r->shared_number)) {
    }
    reference_futex_wake(&r->shared->page->changes);
}

typedef struct page_task {
    reference_task task;
    shared_page *shared;
    uint64_t number;
} page_task;

static void release_page_task(reference_task *task)
{
    release_page(((page_task *)task)->shared);
}

static void run_page_wait(reference_stream *stream, reference_task *task)
{
    const page_task *t = (const page_task *)task;
    if (!wait_for_page(t->shared, t->number)) reference_stream_fail(stream, TN_E_STATE, ENDED);
}

/* The stream waits for what another process has recorded by now. */
static int32_t push_page_wait(const event *e, reference_stream *stream)
{
    int32_t status = reference_stream_check_runs(stream, "waiting for an event of another process");
    if (status) return status;
    page_task *t = reference_task_create(sizeof(*t), run_page_wait);
    if (!t)
        return reference_error(e->state, TN_E_OUT_OF_MEMORY, "reference: no host memory to queue an event");
    t->shared = e->shared;
    atomic_fetch_add(&t->shared->references, 1);
    t->number = atomic_load(&t->shared->page->recorded);
    t->task.always = 1;
    t->task.release = release_page_task;
    return reference_stream_push(stream, &t->task);
}

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
    release_page(r->shared);
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
    if (r->shared) reach_page(r);
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
    if (e->shared && e->shared->imported) return push_page_wait(e, stream);
    recording *r = last_recording(e);
    if (!r) return TN_OK;
    uint32_t branch;
    if (r->capture || reference_stream_capture(stream, &branch)) {
        int32_t status = reference_capture_wait(stream, r->capture, &r->place);
        release(r);
        return status;
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
    if (e->shared) {
        r->shared = e->shared;
        atomic_fetch_add(&e->shared->references, 1);
        r->shared_number = atomic_fetch_add(&e->shared->page->recorded, 1) + 1;
    }
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
    if (flags & ~(TN_EVENT_TIMING | TN_EVENT_INTERPROCESS))
        return reference_error(self, TN_E_ARGUMENT, "reference: unknown event flags");
    int32_t status = reference_check_lost(device);
    if (status) return status;
    event *e = calloc(1, sizeof(*e));
    if (!e) return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory for an event");
    e->state = self;
    e->flags = flags;
    if (flags & TN_EVENT_INTERPROCESS && !(e->shared = open_page(-1))) {
        free(e);
        return reference_error(self, TN_E_IO, "reference: no file for an event of several processes");
    }
    pthread_mutex_init(&e->lock, NULL);
    *out_event = e;
    return TN_OK;
}

int32_t reference_event_export(const reference_state *state, void *handle, tn_process_handle *out)
{
    const event *e = handle;
    if (!e->shared || e->shared->imported)
        return reference_error(state, TN_E_STATE,
                               "reference: the event was not made with TN_EVENT_INTERPROCESS");
    out->bytes = sizeof(page);
    out->file = fcntl(e->shared->file, F_DUPFD_CLOEXEC, 0);
    if (out->file < 0) return reference_error(state, TN_E_IO, "reference: no second descriptor of a file");
    return TN_OK;
}

int32_t reference_event_import(reference_state *state, const tn_process_handle *handle, void **out_event)
{
    event *e = handle->file < 0 ? NULL : calloc(1, sizeof(*e));
    if (!e || !(e->shared = open_page(handle->file))) {
        free(e);
        return reference_error(state, TN_E_ARGUMENT,
                               "reference: the file descriptor %d is not one of an event", handle->file);
    }
    e->state = state;
    e->flags = TN_EVENT_INTERPROCESS;
    pthread_mutex_init(&e->lock, NULL);
    *out_event = e;
    return TN_OK;
}

static void event_destroy(void *self, void *device, void *handle)
{
    event *e = handle;
    release(e->last);
    release_page(e->shared);
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

/* An event of another process. */
static int32_t query_page(const event *e, int32_t *out_done)
{
    uint64_t number = atomic_load(&e->shared->page->recorded);
    *out_done = atomic_load(&e->shared->page->reached) >= number;
    if (*out_done || reference_file_is_locked(e->shared->file, 0)) return TN_OK;
    return reference_error(e->state, TN_E_STATE, ENDED);
}

static int32_t event_query(void *self, void *device, void *handle, int32_t *out_done)
{
    const event *e = handle;
    int32_t status = reference_check_lost(device);
    if (status) return status;
    if (e->shared && e->shared->imported) return query_page(e, out_done);
    recording *r = last_recording(handle);
    status = check_runs(self, r);
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
    const event *e = handle;
    int32_t status = reference_check_lost(device);
    if (status) return status;
    if (e->shared && e->shared->imported)
        return wait_for_page(e->shared, atomic_load(&e->shared->page->recorded))
                   ? TN_OK
                   : reference_error(self, TN_E_STATE, ENDED);
    recording *r = last_recording(handle);
    status = check_runs(self, r);
    if (status) return status;
    if (r) wait_for(r);
    release(r);
    return reference_check_lost(device);
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

const tn_event_interface reference_event_interface =
    TN_INTERFACE(tn_event_interface, .create = event_create, .destroy = event_destroy, .record = event_record,
                 .query = event_query, .synchronize = event_synchronize, .elapsed = event_elapsed);
