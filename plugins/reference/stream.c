/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: a queue and a thread that runs its tasks in order. An error found there is late: it stays with
 * the stream, drops the tasks queued behind it, and is reported once, to whoever asks next. Only a lost
 * device is reported forever. A held task begins when somebody waits for it.
 */
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct reference_stream {
    reference_device *device;
    reference_stream *next; /* in the list of all */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    reference_task *first, **end; /* the next task to run; where the next one pushed goes */
    uint64_t queued;              /* number of the last task pushed, and of the last one finished */
    uint64_t finished;
    uint64_t asked;      /* tasks up to this number are waited for */
    uint64_t drop_until; /* tasks up to this number are behind an error that was reported */
    uint32_t owners;     /* create and each wrap; under the lock of the list */
    int32_t stopping;
    int32_t joined;
    int32_t error_status;
    int32_t reserved;
    reference_capture *capture; /* the capture that takes pushed tasks, or NULL */
    uint32_t branch;            /* of the capture */
    uint32_t reserved2;
    reference_pace pace;
    char error_text[256];
};

/* ---- Tasks ------------------------------------------------------------------------------------------- */

typedef struct reference_block {
    struct reference_block *next;
    max_align_t memory[];
} reference_block;

void *reference_task_create(uint64_t bytes, void (*run)(reference_stream *stream, reference_task *task))
{
    reference_task *task = calloc(1, (size_t)bytes);
    if (task) task->run = run;
    return task;
}

void *reference_task_memory(reference_task *task, uint64_t bytes)
{
    reference_block *block = calloc(1, sizeof(*block) + (size_t)bytes);
    if (!block) return NULL;
    block->next = task->blocks;
    task->blocks = block;
    return block->memory;
}

void reference_task_destroy(reference_task *task)
{
    if (!task) return;
    if (task->release) task->release(task);
    while (task->blocks) {
        reference_block *block = task->blocks;
        task->blocks = block->next;
        free(block);
    }
    free(task);
}

/* ---- The thread -------------------------------------------------------------------------------------- */

static reference_task *pop(reference_stream *s)
{
    reference_task *task = s->first;
    s->first = task->next;
    if (!s->first) s->end = &s->first;
    return task;
}

/* With the lock held: returns when somebody waits for the task or its time is over. */
static void hold(reference_stream *s, const reference_task *task)
{
    struct timespec until;
    int over = task->hold_microseconds == 0;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t nanoseconds = (uint64_t)until.tv_nsec + task->hold_microseconds * 1000ull;
    until.tv_sec += (time_t)(nanoseconds / 1000000000u);
    until.tv_nsec = (long)(nanoseconds % 1000000000u);
    while (!over && s->asked < task->number && !s->stopping)
        over = pthread_cond_timedwait(&s->changed, &s->lock, &until) != 0;
}

/* Runs a task, unless the device is lost or the task is to fail. */
static void run_work(reference_stream *s, reference_task *task)
{
    const char *text = NULL;
    int32_t status = reference_chaos_begin(s->device, &text);
    if (status)
        reference_stream_fail(s, status, text);
    else if (!atomic_load(&s->device->lost))
        task->run(s, task);
}

static void *work_off(void *argument)
{
    reference_stream *s = argument;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->stopping) pthread_cond_wait(&s->changed, &s->lock);
        if (!s->first) break;
        hold(s, s->first);
        reference_task *task = pop(s);
        int dropped = s->error_status || task->number <= s->drop_until;
        pthread_mutex_unlock(&s->lock);
        uint64_t number = task->number;
        reference_pause(task->pause_microseconds);
        if (task->always)
            task->run(s, task);
        else if (!dropped)
            run_work(s, task);
        reference_task_destroy(task);
        pthread_mutex_lock(&s->lock);
        s->finished = number;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* TN_OK, or the reason why the stream accepts no tasks. */
static int32_t check_push(const reference_stream *s, const reference_task *task)
{
    reference_state *state = s->device->state;
    if (getpid() != state->process)
        return reference_error(state, TN_E_FORKED, "reference: the device was opened before fork");
    if (!task->always && reference_chaos_refuse(&state->chaos))
        return reference_error(state, TN_E_INTERNAL,
                               "reference: TENON_REFERENCE_REFUSE says that this call fails");
    return reference_check_lost(s->device);
}

int32_t reference_stream_push(reference_stream *s, reference_task *task)
{
    int32_t status = check_push(s, task);
    if (status) {
        reference_task_destroy(task);
        return status;
    }
    uint32_t branch;
    reference_capture *capture = reference_stream_capture(s, &branch);
    if (capture) return reference_capture_add(capture, branch, task);
    pthread_mutex_lock(&s->lock);
    reference_pace_set(&s->pace, task, s->queued - s->finished);
    task->number = ++s->queued;
    *s->end = task;
    s->end = &task->next;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return TN_OK;
}

void reference_stream_fail(reference_stream *s, int32_t status, const char *text)
{
    pthread_mutex_lock(&s->lock);
    if (!s->error_status) {
        s->error_status = status;
        snprintf(s->error_text, sizeof(s->error_text), "%s", text);
    }
    pthread_mutex_unlock(&s->lock);
}

int reference_stream_dropped(reference_stream *s, const reference_task *task)
{
    pthread_mutex_lock(&s->lock);
    int dropped = s->error_status || task->number <= s->drop_until;
    pthread_mutex_unlock(&s->lock);
    return dropped;
}

reference_device *reference_stream_device(reference_stream *s)
{
    return s->device;
}

int reference_stream_failed(reference_stream *s)
{
    pthread_mutex_lock(&s->lock);
    int failed = s->error_status != 0;
    pthread_mutex_unlock(&s->lock);
    return failed;
}

/* ---- Capturing --------------------------------------------------------------------------------------- */

reference_capture *reference_stream_capture(reference_stream *s, uint32_t *out_branch)
{
    pthread_mutex_lock(&s->lock);
    reference_capture *capture = s->capture;
    *out_branch = s->branch;
    pthread_mutex_unlock(&s->lock);
    return capture;
}

void reference_stream_set_capture(reference_stream *s, reference_capture *capture, uint32_t branch)
{
    pthread_mutex_lock(&s->lock);
    s->capture = capture;
    s->branch = branch;
    pthread_mutex_unlock(&s->lock);
}

int32_t reference_stream_check_runs(reference_stream *s, const char *what)
{
    uint32_t branch;
    if (!reference_stream_capture(s, &branch)) return TN_OK;
    return reference_error(s->device->state, TN_E_STATE, "reference: %s while the stream captures", what);
}

/* ---- Waiting and reporting --------------------------------------------------------------------------- */

/* With the lock held. */
static void ask(reference_stream *s, uint64_t number)
{
    if (s->asked >= number) return;
    s->asked = number;
    pthread_cond_broadcast(&s->changed);
}

void reference_stream_ask(reference_stream *s, uint64_t number)
{
    pthread_mutex_lock(&s->lock);
    ask(s, number);
    pthread_mutex_unlock(&s->lock);
}

void reference_stream_wait(reference_stream *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t target = s->queued;
    ask(s, target);
    while (s->finished < target) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* Reports the late error once; tasks queued by now are behind it and are dropped all the same. */
static int32_t report(reference_stream *s)
{
    char text[sizeof(s->error_text)];
    pthread_mutex_lock(&s->lock);
    int32_t status = s->error_status;
    memcpy(text, s->error_text, sizeof(text));
    if (status) s->drop_until = s->queued;
    s->error_status = 0;
    pthread_mutex_unlock(&s->lock);
    if (status) return reference_error(s->device->state, status, "%s", text);
    return reference_check_lost(s->device);
}

int32_t reference_streams_synchronize(reference_device *device)
{
    reference_state *state = device->state;
    int32_t status = TN_OK;
    pthread_mutex_lock(&state->streams_lock);
    for (reference_stream *s = state->streams; s && !status; s = s->next)
        if (s->device == device) status = reference_stream_check_runs(s, "device.synchronize");
    for (reference_stream *s = state->streams; s; s = s->next)
        if (s->device == device) reference_stream_wait(s);
    for (reference_stream *s = state->streams; s && !status; s = s->next)
        if (s->device == device) status = report(s);
    pthread_mutex_unlock(&state->streams_lock);
    return status;
}

/* ---- Life -------------------------------------------------------------------------------------------- */

static void stop(reference_stream *s)
{
    if (s->joined || getpid() != s->device->state->process) return;
    pthread_mutex_lock(&s->lock);
    s->stopping = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    s->joined = 1;
}

void reference_streams_stop(reference_state *state)
{
    pthread_mutex_lock(&state->streams_lock);
    for (reference_stream *s = state->streams; s; s = s->next) stop(s);
    pthread_mutex_unlock(&state->streams_lock);
}

static int32_t stream_create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    reference_state *state = self;
    int32_t status = reference_check_lost(device);
    if (status) return status;
    reference_stream *s = calloc(1, sizeof(*s));
    if (!s) return reference_error(state, TN_E_OUT_OF_MEMORY, "reference: no host memory for a stream");
    s->device = device;
    s->end = &s->first;
    s->owners = 1;
    reference_pace_init(&s->pace, &state->chaos);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int failed = pthread_create(&s->thread, NULL, work_off, s);
    if (failed) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free(s);
        return reference_error(state, TN_E_INTERNAL, "reference: no thread for a stream: %s",
                               strerror(failed));
    }
    pthread_mutex_lock(&state->streams_lock);
    s->next = state->streams;
    state->streams = s;
    pthread_mutex_unlock(&state->streams_lock);
    *out_stream = s;
    return TN_OK;
}

/* The native handle of a stream is its address. A wrapped stream is the stream itself, with one more owner. */
static int32_t stream_wrap(void *self, void *device, uint64_t native, void **out_stream)
{
    reference_state *state = self;
    const reference_device *wanted = device;
    pthread_mutex_lock(&state->streams_lock);
    reference_stream *s = state->streams;
    while (s && (uint64_t)(uintptr_t)s != native) s = s->next;
    if (s && s->device == wanted) s->owners++;
    pthread_mutex_unlock(&state->streams_lock);
    if (!s)
        return reference_error(state, TN_E_ARGUMENT, "reference: 0x%llx is not a stream",
                               (unsigned long long)native);
    if (s->device != wanted)
        return reference_error(state, TN_E_ARGUMENT,
                               "reference: the stream is of reference:%u, not of reference:%u",
                               s->device->index, wanted->index);
    *out_stream = s;
    return TN_OK;
}

/* An unreported error is logged. */
static void stream_destroy(void *self, void *device, void *stream)
{
    reference_state *state = self;
    reference_stream *s = stream;
    pthread_mutex_lock(&state->streams_lock);
    if (--s->owners) {
        pthread_mutex_unlock(&state->streams_lock);
        return;
    }
    for (reference_stream **link = &state->streams; *link; link = &(*link)->next) {
        if (*link != s) continue;
        *link = s->next;
        break;
    }
    pthread_mutex_unlock(&state->streams_lock);
    stop(s);
    if (s->error_status && state->host->log)
        state->host->log(state->host->context, TN_LOG_WARN, s->error_text);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static int32_t stream_query(void *self, void *device, void *stream, int32_t *out_done)
{
    reference_stream *s = stream;
    int32_t status = reference_stream_check_runs(s, "query");
    if (!status) status = report(s);
    if (status) return status;
    pthread_mutex_lock(&s->lock);
    *out_done = s->finished == s->queued;
    ask(s, s->queued);
    pthread_mutex_unlock(&s->lock);
    return TN_OK;
}

static int32_t stream_synchronize(void *self, void *device, void *stream)
{
    int32_t status = reference_stream_check_runs(stream, "synchronize");
    if (status) return status;
    reference_stream_wait(stream);
    return report(stream);
}

static int32_t stream_wait_event(void *self, void *device, void *stream, void *event)
{
    int32_t status = reference_check_lost(device);
    return status ? status : reference_event_wait(event, stream);
}

typedef struct callback_task {
    reference_task task;
    void (*callback)(void *user);
    void *user;
} callback_task;

static void run_callback(reference_stream *stream, reference_task *task)
{
    const callback_task *c = (const callback_task *)task;
    c->callback(c->user);
}

static int32_t stream_host_callback(void *self, void *device, void *stream, void (*callback)(void *user),
                                    void *user)
{
    int32_t status = reference_stream_check_runs(stream, "host_callback");
    if (status) return status;
    callback_task *c = reference_task_create(sizeof(*c), run_callback);
    if (!c) return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory to queue a callback");
    c->task.always = 1;
    c->callback = callback;
    c->user = user;
    return reference_stream_push(stream, &c->task);
}

const tn_stream_interface reference_stream_interface =
    TN_INTERFACE(tn_stream_interface, .create = stream_create, .destroy = stream_destroy,
                 .query = stream_query, .synchronize = stream_synchronize, .wait_event = stream_wait_event,
                 .host_callback = stream_host_callback, .wrap = stream_wrap);
