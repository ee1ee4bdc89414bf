/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: a thread that runs pieces of work in order, with the late errors that a stream has
 * (tenon/plugin.h). It makes a stream for a device whose driver has no queues, and stands for the driver's
 * queue in what `tenon new-plugin --memory opaque` writes. A team has the workers of one device, and can lose
 * it. All of it is inline and compiled into the plugin; it needs POSIX threads, and gcc or clang.
 *
 * Work is numbered from 1 in the order in which it was pushed. An event is the number of the last work
 * before it. When a piece of work fails, the work behind it is dropped, except what is pushed with `always`;
 * the next tn_worker_report gives the error, once, and what is pushed after that runs again.
 *
 * When a team is lost, work that its workers have not begun is dropped, except what is pushed with `always`;
 * waits for it end, and functions with a status answer TN_E_DEVICE_LOST at once, for ever.
 */
#ifndef TENON_WORKER_H
#define TENON_WORKER_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kernel.h>
#include <tenon/plugin.h>

TN_BEGIN_DECLS

typedef struct tn_worker tn_worker;
typedef struct tn_worker_team tn_worker_team;
/* Does a piece of work and returns a status; for errors it may call `worker->host.error`. The worker
 * frees `work`. */
typedef int32_t (*tn_work_fn)(tn_worker *worker, void *work);

typedef struct tn_work_item {
    struct tn_work_item *next;
    tn_work_fn run;
    void *work;
    uint64_t number;
    int32_t always;
} tn_work_item;

/* Begins zeroed. The members are the functions' own; read and write them under `lock` only. */
struct tn_worker {
    const tn_host *plugin_host;
    tn_host host; /* for work: its only slot is `error`, which keeps the text for tn_worker_report */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tn_work_item *first, *last;
    uint64_t queued;   /* number of the last work pushed */
    uint64_t finished; /* number of the last work done or dropped */
    uint64_t dropped;  /* work up to this number lies behind an error that was reported */
    int32_t stopping;
    int32_t status; /* the late error, or TN_OK */
    char message[256];
    tn_worker_team *team; /* NULL: it belongs to none, and is never lost */
    tn_worker *next;      /* in the team */
    tn_worker *waits_for; /* another worker that this one's thread waits for */
    int32_t is_lost;      /* read and written atomically: other workers' waits look at it */
    int32_t is_working;   /* a piece of work that a loss would drop is under way */
    int32_t has_ended;    /* the thread was joined: a team may use the worker again */
    int32_t reserved;
};

static inline int32_t tn_worker_note(void *context, int32_t status, const char *message)
{
    tn_worker *w = (tn_worker *)context;
    pthread_mutex_lock(&w->lock);
    if (!w->status) snprintf(w->message, sizeof(w->message), "%s", message);
    pthread_mutex_unlock(&w->lock);
    return status;
}

static inline int32_t tn_worker_is_lost(const tn_worker *w)
{
    return __atomic_load_n(&w->is_lost, __ATOMIC_ACQUIRE);
}

/* TN_OK, or the error that its device is lost. */
static inline int32_t tn_worker_check(const tn_worker *w)
{
    if (!tn_worker_is_lost(w)) return TN_OK;
    return w->plugin_host->error(w->plugin_host->context, TN_E_DEVICE_LOST, "worker: the device is lost");
}

static inline void *tn_worker_main(void *argument)
{
    tn_worker *w = (tn_worker *)argument;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->first && !w->stopping) pthread_cond_wait(&w->changed, &w->lock);
        tn_work_item *item = w->first;
        if (!item) break;
        int32_t is_dropped =
            !item->always && (w->status || item->number <= w->dropped || tn_worker_is_lost(w));
        w->is_working = !is_dropped && !item->always;
        pthread_mutex_unlock(&w->lock);
        int32_t status = is_dropped ? TN_OK : item->run(w, item->work);
        free(item->work);
        pthread_mutex_lock(&w->lock);
        w->is_working = 0;
        if (status && !w->status) w->status = status;
        w->first = item->next;
        w->finished = item->number;
        free(item);
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static inline int32_t tn_worker_run(tn_worker *w)
{
    w->stopping = w->has_ended = 0;
    if (!pthread_create(&w->thread, NULL, tn_worker_main, w)) return TN_OK;
    w->stopping = w->has_ended = 1;
    return w->plugin_host->error(w->plugin_host->context, TN_E_INTERNAL,
                                 "worker: the system has no thread for a stream");
}

/* Starts the thread. */
static inline int32_t tn_worker_start(tn_worker *w, const tn_host *host)
{
    w->plugin_host = host;
    w->host.size = (uint32_t)sizeof(w->host);
    w->host.context = w;
    w->host.error = tn_worker_note;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    return tn_worker_run(w);
}

/* Finishes the work and ends the thread; a second call does nothing. Other functions may still ask it. */
static inline void tn_worker_stop(tn_worker *w)
{
    pthread_mutex_lock(&w->lock);
    int32_t is_running = !w->stopping;
    w->stopping = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (!is_running) return;
    pthread_join(w->thread, NULL);
    pthread_mutex_lock(&w->lock);
    w->has_ended = 1;
    pthread_mutex_unlock(&w->lock);
}

/* Takes `work`, which malloc gave; NULL is out of memory. With `always` it runs behind an error, too. */
static inline int32_t tn_worker_push(tn_worker *w, tn_work_fn run, TN_TAKES void *work, int32_t always)
{
    int32_t status = tn_worker_check(w);
    tn_work_item *item = work && !status ? (tn_work_item *)calloc(1, sizeof(*item)) : NULL;
    if (status) return free(work), status;
    if (!item) {
        free(work);
        return w->plugin_host->error(w->plugin_host->context, TN_E_OUT_OF_MEMORY,
                                     "worker: no host memory to queue work");
    }
    item->run = run;
    item->work = work;
    item->always = always;
    pthread_mutex_lock(&w->lock);
    item->number = ++w->queued;
    if (w->first)
        w->last->next = item;
    else
        w->first = item;
    w->last = item;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return TN_OK;
}

/* The number of the last work pushed, and whether the work up to a number is done. */
static inline uint64_t tn_worker_queued(tn_worker *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t queued = w->queued;
    pthread_mutex_unlock(&w->lock);
    return queued;
}

static inline int32_t tn_worker_is_done(tn_worker *w, uint64_t number)
{
    pthread_mutex_lock(&w->lock);
    int32_t is_done = w->finished >= number || tn_worker_is_lost(w);
    pthread_mutex_unlock(&w->lock);
    return is_done;
}

/* Ends at once when the device is lost. `waiter` (may be NULL) is the worker on whose thread this runs: its
 * loss ends the wait, too. */
static inline void tn_worker_wait_on(tn_worker *w, uint64_t number, const tn_worker *waiter)
{
    pthread_mutex_lock(&w->lock);
    while (w->finished < number && !tn_worker_is_lost(w) && !(waiter && tn_worker_is_lost(waiter)))
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static inline void tn_worker_wait(tn_worker *w, uint64_t number)
{
    tn_worker_wait_on(w, number, NULL);
}

/* Reports the late error to the host and forgets it; that of a lost device stays. */
static inline int32_t tn_worker_report(tn_worker *w)
{
    char message[sizeof(w->message)];
    if (tn_worker_is_lost(w)) return tn_worker_check(w);
    pthread_mutex_lock(&w->lock);
    int32_t status = w->status;
    memcpy(message, w->message, sizeof(message));
    if (status) w->dropped = w->queued;
    w->status = TN_OK;
    w->message[0] = 0;
    pthread_mutex_unlock(&w->lock);
    return status ? w->plugin_host->error(w->plugin_host->context, status, message) : TN_OK;
}

/* ---- What a driver's queue offers --------------------------------------------------------------------- */

typedef struct tn_worker_task {
    void *to;
    const void *from; /* NULL: fill with `value` */
    uint64_t bytes;
    uint64_t number; /* of the other worker's work that is waited for */
    tn_worker *other;
    void (*callback)(void *user);
    void *user;
    uint32_t value;
    uint32_t reserved;
} tn_worker_task;

static inline int32_t tn_worker_push_task(tn_worker *w, tn_work_fn run, const tn_worker_task *task,
                                          int32_t always)
{
    tn_worker_task *copy = (tn_worker_task *)malloc(sizeof(*copy));
    if (copy) *copy = *task;
    return tn_worker_push(w, run, copy, always);
}

static inline int32_t tn_worker_run_move(tn_worker *w, void *work)
{
    const tn_worker_task *t = (const tn_worker_task *)work;
    (void)w;
    if (t->from)
        memcpy(t->to, t->from, (size_t)t->bytes);
    else
        memset(t->to, (int)t->value, (size_t)t->bytes);
    return TN_OK;
}

/* Copies bytes, or with `from` NULL sets each to `value`. */
static inline int32_t tn_worker_move(tn_worker *w, void *to, const void *from, uint64_t bytes, uint32_t value)
{
    tn_worker_task t;
    memset(&t, 0, sizeof(t));
    t.to = to;
    t.from = from;
    t.bytes = bytes;
    t.value = value;
    return tn_worker_push_task(w, tn_worker_run_move, &t, 0);
}

static inline int32_t tn_worker_run_callback(tn_worker *w, void *work)
{
    const tn_worker_task *t = (const tn_worker_task *)work;
    (void)w;
    t->callback(t->user);
    return TN_OK;
}

static inline int32_t tn_worker_callback(tn_worker *w, void (*callback)(void *user), void *user)
{
    tn_worker_task t;
    memset(&t, 0, sizeof(t));
    t.callback = callback;
    t.user = user;
    return tn_worker_push_task(w, tn_worker_run_callback, &t, 1);
}

static inline int32_t tn_worker_run_wait(tn_worker *w, void *work)
{
    const tn_worker_task *t = (const tn_worker_task *)work;
    pthread_mutex_lock(&w->lock);
    w->waits_for = t->other;
    pthread_mutex_unlock(&w->lock);
    tn_worker_wait_on(t->other, t->number, w);
    pthread_mutex_lock(&w->lock);
    w->waits_for = NULL;
    pthread_mutex_unlock(&w->lock);
    return TN_OK;
}

/* Work that is pushed after it waits until `other` has done its work up to `number`. */
static inline int32_t tn_worker_wait_for(tn_worker *w, tn_worker *other, uint64_t number)
{
    tn_worker_task t;
    memset(&t, 0, sizeof(t));
    t.other = other;
    t.number = number;
    return tn_worker_push_task(w, tn_worker_run_wait, &t, 1);
}

/* Runs `run` on a copy of the call (tn_call_copy), which begins the work. */
static inline int32_t tn_worker_call(tn_worker *w, tn_work_fn run, const tn_call *call, tn_address_fn address)
{
    void *copy = malloc((size_t)tn_call_copy(call, address, NULL));
    if (copy) tn_call_copy(call, address, copy);
    return tn_worker_push(w, run, copy, 0);
}

/* ---- Teams: the workers of one device ----------------------------------------------------------------- */

/* Workers stay until tn_worker_team_finish, since events may name them; new streams use stopped ones again. */
struct tn_worker_team {
    const tn_host *host;
    pthread_mutex_t lock; /* of the members below */
    tn_worker *first;
    int32_t is_lost; /* read and written atomically: work that is under way may ask while the team is lost */
    int32_t reserved;
};

static inline void tn_worker_team_init(tn_worker_team *t, const tn_host *host)
{
    t->host = host;
    t->first = NULL;
    t->is_lost = 0;
    pthread_mutex_init(&t->lock, NULL);
}

static inline int32_t tn_worker_team_is_lost(const tn_worker_team *t)
{
    return __atomic_load_n(&t->is_lost, __ATOMIC_ACQUIRE);
}

/* TN_OK, or the error that the device is lost: how each slot begins that is given no stream. */
static inline int32_t tn_worker_team_check(const tn_worker_team *t)
{
    if (!tn_worker_team_is_lost(t)) return TN_OK;
    return t->host->error(t->host->context, TN_E_DEVICE_LOST, "worker: the device is lost");
}

/* With the lock held: starts a worker again whose thread has ended, and forgets its late error. */
static inline int32_t tn_worker_restart(tn_worker *w)
{
    pthread_mutex_lock(&w->lock);
    int32_t has_ended = w->has_ended;
    if (has_ended) w->status = TN_OK;
    if (has_ended) w->message[0] = 0;
    pthread_mutex_unlock(&w->lock);
    return has_ended;
}

static inline int32_t tn_worker_team_start(tn_worker_team *t, tn_worker **out)
{
    tn_worker *w = t->first;
    while (w && !tn_worker_restart(w)) w = w->next;
    *out = w;
    if (w) return tn_worker_run(w);
    w = (tn_worker *)calloc(1, sizeof(*w));
    if (!w)
        return t->host->error(t->host->context, TN_E_OUT_OF_MEMORY, "worker: no host memory for a stream");
    w->team = t;
    w->next = t->first;
    t->first = w;
    *out = w;
    return tn_worker_start(w, t->host);
}

/* A worker that runs; tn_worker_stop ends it, and it stays in the team. */
static inline int32_t tn_worker_team_create(tn_worker_team *t, tn_worker **out)
{
    pthread_mutex_lock(&t->lock);
    int32_t status = tn_worker_team_check(t);
    if (!status) status = tn_worker_team_start(t, out);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static inline tn_worker *tn_worker_team_first(tn_worker_team *t)
{
    pthread_mutex_lock(&t->lock);
    tn_worker *first = t->first; /* what the list has stays in it */
    pthread_mutex_unlock(&t->lock);
    return first;
}

/* Waits for all workers, and reports a late error if there is one. */
static inline int32_t tn_worker_team_synchronize(tn_worker_team *t)
{
    tn_worker *first = tn_worker_team_first(t);
    int32_t status = TN_OK;
    for (tn_worker *w = first; w; w = w->next) tn_worker_wait(w, tn_worker_queued(w));
    for (tn_worker *w = first; w && !status; w = w->next) status = tn_worker_report(w);
    return status ? status : tn_worker_team_check(t);
}

/* Wakes whoever waits for the worker, or waits on its thread for another one. */
static inline void tn_worker_lose(tn_worker *w)
{
    pthread_mutex_lock(&w->lock);
    __atomic_store_n(&w->is_lost, 1, __ATOMIC_RELEASE);
    tn_worker *waits_for = w->waits_for;
    pthread_cond_broadcast(&w->changed);
    while (w->is_working) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    if (!waits_for) return;
    pthread_mutex_lock(&waits_for->lock);
    pthread_cond_broadcast(&waits_for->changed);
    pthread_mutex_unlock(&waits_for->lock);
}

/* Loses the device for good. Returns when the pieces of work that are under way have ended: none of them uses
 * memory of the host any more. */
static inline void tn_worker_team_lose(tn_worker_team *t)
{
    pthread_mutex_lock(&t->lock);
    __atomic_store_n(&t->is_lost, 1, __ATOMIC_RELEASE);
    for (tn_worker *w = t->first; w; w = w->next) tn_worker_lose(w);
    pthread_mutex_unlock(&t->lock);
}

static inline void tn_worker_team_stop(tn_worker_team *t)
{
    for (tn_worker *w = tn_worker_team_first(t); w; w = w->next) tn_worker_stop(w);
}

/* Frees the workers, which have been stopped. */
static inline void tn_worker_team_finish(tn_worker_team *t)
{
    for (tn_worker *next; t->first; t->first = next) {
        next = t->first->next;
        pthread_cond_destroy(&t->first->changed);
        pthread_mutex_destroy(&t->first->lock);
        free(t->first);
    }
    pthread_mutex_destroy(&t->lock);
}

TN_END_DECLS
#endif
