/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is queued on the lists of the Level Zero driver. Commands of a list may overlap, so a barrier stands between any two.
 *
 * What comes behind a callback is held back on the host until that has returned. In a list it would wait for an event that the
 * host signals: drivers may stay in the call that appends such a wait, and all lists of one engine would wait behind it. A queue
 * that waits for an event that is held back holds back its own work, too, so nothing in a list waits for the host. So does a queue
 * that waits for an event of another card.
 */
#include "xpu.h"

#include <stdlib.h>

#define FOR_EVER UINT64_MAX

int32_t xpu_append_barrier(xpu_device *d, xpu_queue *q, xpu_event *signal, const xpu_event *wait)
{
    ze_event_handle_t waited = wait ? wait->handle : NULL;
    int32_t status = xpu_check(d,
                               d->ze->zeCommandListAppendBarrier(q->list, signal ? signal->handle : NULL,
                                                                 wait ? 1 : 0, wait ? &waited : NULL),
                               "a barrier");
    if (!status) q->is_open = q->is_shared;
    if (signal) xpu_event_set_state(signal, status ? XPU_EVENT_UNUSED : XPU_EVENT_APPENDED);
    return status;
}

/* The next command begins when the last one has ended; under the lock. */
static int32_t append_order(xpu_device *d, xpu_queue *q)
{
    return q->is_open || q->is_shared ? xpu_append_barrier(d, q, NULL, NULL) : TN_OK;
}

int32_t xpu_begin(xpu_device *d, xpu_queue *q)
{
    pthread_mutex_lock(&q->lock);
    int32_t status = append_order(d, q);
    if (status) pthread_mutex_unlock(&q->lock);
    return status;
}

int32_t xpu_end(xpu_device *d, xpu_queue *q, ze_result_t result, const char *what)
{
    q->is_open = 1;
    q->queued++;
    pthread_mutex_unlock(&q->lock);
    return xpu_check(d, result, what);
}

/* ---- Commands ------------------------------------------------------------------------------------------------ */

enum { COPY, FILL, LAUNCH, WAIT, RECORD, SIGNAL, CALLBACK };

/* What is queued. One that is held back is of malloc, with copies of its arguments behind it. */
struct xpu_command {
    xpu_command *next;
    uint32_t kind;
    uint64_t position;
    const char *what; /* for errors */
    void *to;
    const void *from;
    uint64_t bytes;
    uint8_t pattern[16];
    uint32_t pattern_bytes;
    int32_t is_next; /* a callback: the work before it is in the list */
    xpu_launch_of launch;
    xpu_event *event; /* of a wait, a record, a signal; of a callback: behind the work before it */
    xpu_queue *queue;
    void (*callback)(void *user);
    void *user;
    xpu_event *awaited; /* of a callback: what it waits for, in place of calling the program; or NULL */
};

static void destroy_command(xpu_command *c)
{
    xpu_event_release(c->queue->device, c->event);
    xpu_event_release(c->queue->device, c->awaited);
    free(c);
}

/* Appends a wait for the event, and keeps it until the queue has passed; under the lock. */
static int32_t append_wait(xpu_device *d, xpu_queue *q, xpu_event *event, uint64_t position)
{
    if (xpu_event_state(event) == XPU_EVENT_UNUSED) return TN_OK;
    int32_t status =
        q->most_waits && q->n_waits == q->most_waits ? xpu_queue_drop_waits(d, q, position - 1) : TN_OK;
    if (status) return status;
    if (q->n_waits == q->most_waits) {
        uint32_t most = q->most_waits ? 2 * q->most_waits : 16;
        xpu_wait *larger = realloc(q->waits, most * sizeof *larger);
        if (!larger) return xpu_no_memory(d);
        q->waits = larger;
        q->most_waits = most;
    }
    status = xpu_append_barrier(d, q, NULL, event);
    if (status) return status;
    xpu_event_retain(event);
    q->waits[q->n_waits++] = (xpu_wait){event, position};
    return TN_OK;
}

/* A barrier that signals the event; under the lock. */
static int32_t append_record(xpu_device *d, xpu_queue *q, xpu_event *event, uint64_t position)
{
    int32_t status = xpu_append_barrier(d, q, event, NULL);
    if (status) return status;
    xpu_event_retain(event);
    xpu_event_release(d, q->recorded);
    q->recorded = event;
    q->recorded_at = position;
    return TN_OK;
}

static ze_result_t append_launch(xpu_device *d, const xpu_queue *q, const xpu_launch_of *launch,
                                 const char **what)
{
    const ze_group_count_t groups = {launch->groups, 1, 1};
    pthread_mutex_lock(&d->launching);
    ze_result_t result = xpu_set_arguments(d, launch, what);
    if (result == ZE_RESULT_SUCCESS)
        result = d->ze->zeCommandListAppendLaunchKernel(q->list, launch->kernel, &groups, NULL, 0, NULL);
    pthread_mutex_unlock(&d->launching);
    return result;
}

/* Under the lock. */
static int32_t append(xpu_device *d, xpu_queue *q, const xpu_command *c)
{
    const char *what = c->what;
    ze_result_t result;
    if (c->kind == WAIT) return append_wait(d, q, c->event, c->position);
    if (c->kind == RECORD) return append_record(d, q, c->event, c->position);
    if (c->kind == SIGNAL) return xpu_append_barrier(d, q, c->event, NULL);
    int32_t status = append_order(d, q);
    if (status) return status;
    if (c->kind == LAUNCH)
        result = append_launch(d, q, &c->launch, &what);
    else if (c->kind == FILL)
        result = d->ze->zeCommandListAppendMemoryFill(q->list, c->to, c->pattern, c->pattern_bytes, c->bytes,
                                                      NULL, 0, NULL);
    else
        result = d->ze->zeCommandListAppendMemoryCopy(q->list, c->to, c->from, c->bytes, NULL, 0, NULL);
    q->is_open = 1;
    return xpu_check(d, result, what);
}

/* ---- What is held back -------------------------------------------------------------------------------------- */

int32_t xpu_queue_is_held(const xpu_queue *q)
{
    return __atomic_load_n(&q->held, __ATOMIC_ACQUIRE) != NULL;
}

void xpu_queue_settle(xpu_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (q->held) pthread_cond_wait(&q->went_on, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

/* Under the lock. */
static void push_held(xpu_queue *q, xpu_command *c)
{
    c->next = NULL;
    __atomic_store_n(q->held_end, c, __ATOMIC_RELEASE);
    q->held_end = &c->next;
}

static xpu_command *take_held(xpu_queue *q)
{
    xpu_command *c = q->held;
    __atomic_store_n(&q->held, c->next, __ATOMIC_RELEASE);
    if (!c->next) q->held_end = &q->held;
    return c;
}

/* A copy that needs nothing of the caller. */
static xpu_command *copy_of(const xpu_command *c)
{
    const xpu_launch_of *from = &c->launch;
    size_t bytes = sizeof *c + from->n_arguments * sizeof *from->arguments;
    for (uint32_t i = 0; i < from->n_arguments; i++)
        if (!from->arguments[i].is_memory) bytes += from->arguments[i].bytes;
    xpu_command *copy = malloc(bytes);
    if (!copy) return NULL;
    *copy = *c;
    gpu_argument *arguments = (gpu_argument *)(copy + 1);
    char *value = (char *)(arguments + from->n_arguments);
    for (uint32_t i = 0; i < from->n_arguments; i++) {
        arguments[i] = from->arguments[i];
        if (arguments[i].is_memory) continue;
        arguments[i].value = memcpy(value, from->arguments[i].value, arguments[i].bytes);
        value += arguments[i].bytes;
    }
    copy->launch.arguments = arguments;
    return copy;
}

/* Under the lock. */
static int32_t hold(xpu_device *d, xpu_queue *q, const xpu_command *c)
{
    xpu_command *copy = copy_of(c);
    if (!copy) return xpu_no_memory(d);
    copy->queue = q;
    xpu_event_retain(copy->event);
    if (c->kind == RECORD || c->kind == SIGNAL) xpu_event_set_state(c->event, XPU_EVENT_HELD);
    push_held(q, copy);
    return TN_OK;
}

static int32_t is_of_held(const xpu_command *c)
{
    return c->kind == WAIT && xpu_event_state(c->event) == XPU_EVENT_HELD;
}

/* Appends the command, or holds it back. */
static int32_t submit(xpu_device *d, xpu_queue *q, xpu_command *c)
{
    pthread_mutex_lock(&q->lock);
    c->position = ++q->queued;
    int32_t status = q->held || is_of_held(c) ? hold(d, q, c) : append(d, q, c);
    pthread_mutex_unlock(&q->lock);
    return status;
}

int32_t xpu_queue_signal(xpu_device *d, xpu_queue *q, xpu_event *event)
{
    const xpu_command c = {.kind = SIGNAL, .event = event, .position = q->queued};
    return q->held ? hold(d, q, &c) : append(d, q, &c);
}

/* Appends a command that was held back. Its caller has returned, so the next wait for the queue reports a failure; under the lock. */
static void append_held(xpu_queue *q, xpu_command *c)
{
    const int32_t status = append(q->device, q, c);
    if (status && !q->failed) q->failed = status;
    destroy_command(c);
}

/* Appends what is held back, up to a callback or a wait for what is held back itself. Whether an event was among it. */
static int32_t go_on(xpu_queue *q)
{
    int32_t has_event = 0;
    pthread_mutex_lock(&q->lock);
    while (q->held && q->held->kind != CALLBACK && !is_of_held(q->held)) {
        xpu_command *c = take_held(q);
        has_event |= c->kind == RECORD;
        append_held(q, c);
    }
    if (q->held && q->held->kind == CALLBACK && !q->held->is_next) {
        const int32_t status = xpu_append_barrier(q->device, q, q->held->event, NULL);
        if (status && !q->failed) q->failed = status;
        q->held->is_next = 1;
    }
    pthread_cond_broadcast(&q->went_on);
    pthread_mutex_unlock(&q->lock);
    return has_event;
}

/* The first command of the queue is a callback that has returned. Queues of the context may have waited for what is behind it. */
static void go_on_behind(xpu_queue *q)
{
    xpu_context *of = q->device->shared;
    int32_t has_event = 1;
    pthread_mutex_lock(&of->going_on);
    pthread_mutex_lock(&q->lock);
    take_held(q);
    pthread_mutex_unlock(&q->lock);
    while (has_event) {
        has_event = 0;
        for (xpu_queue *other = of->queues; other; other = other->beside) has_event |= go_on(other);
    }
    pthread_mutex_unlock(&of->going_on);
}

/* ---- Callbacks: Level Zero has none, so a thread waits for the work before ------------------------------------- */

static void run_callback(void *data)
{
    xpu_command *c = data;
    xpu_queue *q = c->queue;
    xpu_device *d = q->device;
    xpu_event *before = c->event, *awaited = c->awaited;
    pthread_mutex_lock(&q->lock);
    while (!c->is_next) pthread_cond_wait(&q->went_on, &q->lock);
    pthread_mutex_unlock(&q->lock);
    if (xpu_event_state(before) == XPU_EVENT_APPENDED)
        d->ze->zeEventHostSynchronize(before->handle, FOR_EVER);
    if (awaited)
        xpu_event_wait(d, awaited);
    else
        c->callback(c->user);
    go_on_behind(q); /* the queue may be gone from now on */
    xpu_event_release(d, before);
    xpu_event_release(d, awaited);
    free(c);
}

/* Holds later work back until the callback has returned, or the event has come that it awaits. The program appends to its own list
 * what it likes, so the host waits there. */
static int32_t add_callback(xpu_device *d, xpu_queue *q, const xpu_command *what)
{
    xpu_command *c = malloc(sizeof *c);
    if (!c) return xpu_no_memory(d);
    *c = *what;
    c->kind = CALLBACK;
    c->queue = q;
    xpu_event_retain(c->awaited);
    int32_t status = xpu_event_take(d, 0, &c->event);
    pthread_mutex_lock(&q->lock);
    c->is_next = !q->held;
    if (!status && c->is_next) status = xpu_append_barrier(d, q, c->event, NULL);
    if (!status) status = gpu_callbacks_start(d->plugin, &d->callbacks, run_callback, c);
    if (!status) {
        c->position = ++q->queued;
        push_held(q, c);
        while (q->is_wrapped && q->held) pthread_cond_wait(&q->went_on, &q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    if (status) destroy_command(c);
    return status;
}

int32_t xpu_queue_callback(void *device, void *queue, void (*callback)(void *user), void *user)
{
    return add_callback(device, queue, &(xpu_command){.callback = callback, .user = user});
}

/* ---- Work of the host -------------------------------------------------------------------------------------------- */

/* Whether lists of the device can wait for events of the other one. Those of lists in order are counters in memory of the card,
 * which Intel's driver does not show to others: the lists of another card would fault. */
static int32_t sees_counters(const xpu_device *d, const xpu_device *other)
{
    const int32_t is_of_card =
        d->has_address && other->has_address && memcmp(&d->address, &other->address, sizeof d->address) == 0;
    return d == other || is_of_card ||
           !(__atomic_load_n(&d->keeps_order, __ATOMIC_RELAXED) ||
             __atomic_load_n(&other->keeps_order, __ATOMIC_RELAXED));
}

/* A thread waits for what the lists cannot wait for. */
int32_t xpu_queue_wait(void *device, void *queue, void *event)
{
    xpu_device *d = device;
    xpu_event *e = event;
    int32_t has_come = 0;
    if (sees_counters(d, e->device)) return submit(d, queue, &(xpu_command){.kind = WAIT, .event = e});
    const int32_t status = xpu_event_query(d, e, &has_come);
    return status || has_come ? status : add_callback(d, queue, &(xpu_command){.awaited = e});
}

int32_t xpu_queue_launch(xpu_device *d, xpu_queue *q, const xpu_launch_of *launch)
{
    return submit(d, q, &(xpu_command){.kind = LAUNCH, .what = "a kernel", .launch = *launch});
}

static int32_t move(xpu_device *d, xpu_queue *q, void *to, const void *from, uint64_t bytes, const char *what)
{
    return submit(d, q, &(xpu_command){.kind = COPY, .what = what, .to = to, .from = from, .bytes = bytes});
}

int32_t xpu_event_record_as(void *device, void *queue, uint32_t flags, void **out_event)
{
    xpu_device *d = device;
    xpu_event *e;
    int32_t status = xpu_event_take(d, (flags & TN_EVENT_TIMING) != 0, &e);
    if (status) return status;
    status = submit(d, queue, &(xpu_command){.kind = RECORD, .event = e});
    if (status)
        xpu_event_release(d, e);
    else
        *out_event = e;
    return status;
}

int32_t xpu_event_record(void *device, void *queue, void **out_event)
{
    return xpu_event_record_as(device, queue, TN_EVENT_TIMING, out_event);
}

/* ---- Copies ------------------------------------------------------------------------------------------------ */

int32_t xpu_write(void *device, void *queue, void *memory, uint64_t offset, const void *host, uint64_t bytes)
{
    return move(device, queue, (char *)memory + offset, host, bytes, "a copy to the device");
}

int32_t xpu_read(void *device, void *queue, void *host, void *memory, uint64_t offset, uint64_t bytes)
{
    return move(device, queue, host, (const char *)memory + offset, bytes, "a copy to the host");
}

int32_t xpu_copy(void *device, void *queue, void *to, uint64_t to_offset, void *from, uint64_t from_offset,
                 uint64_t bytes)
{
    return move(device, queue, (char *)to + to_offset, (const char *)from + from_offset, bytes, "a copy");
}

int32_t xpu_peer_copy(void *to_device, void *queue, void *to, uint64_t to_offset, void *from_device,
                      void *from, uint64_t from_offset, uint64_t bytes)
{
    xpu_device *d = to_device;
    if (((xpu_device *)from_device)->shared != d->shared)
        return gpu_error(d->plugin, TN_E_DEVICE_LOST,
                         "one of the two devices lost its context: close it and open it again");
    return move(d, queue, (char *)to + to_offset, (const char *)from + from_offset, bytes,
                "a copy between devices");
}

static int32_t fill(xpu_device *d, xpu_queue *q, char *to, uint64_t bytes, const void *pattern,
                    uint32_t pattern_bytes)
{
    xpu_command c = {
        .kind = FILL, .what = "a fill", .to = to, .bytes = bytes, .pattern_bytes = pattern_bytes};
    memcpy(c.pattern, pattern, pattern_bytes);
    return submit(d, q, &c);
}

/* A pattern of two bytes that is not at a word of 4 bytes. */
static int32_t fill_pair(xpu_device *d, xpu_queue *q, char *to, const uint8_t *pattern)
{
    int32_t status = fill(d, q, to, 1, pattern, 1);
    return status ? status : fill(d, q, to + 1, 1, pattern + 1, 1);
}

/* Intel's driver before 2023 writes whole words of patterns of two bytes, wherever they begin and end. Those of one byte are right
 * everywhere. */
static int32_t fill_pairs(xpu_device *d, xpu_queue *q, char *to, uint64_t bytes, const uint8_t *pattern)
{
    const uint8_t word[4] = {pattern[0], pattern[1], pattern[0], pattern[1]};
    const uint64_t head = (uintptr_t)to % 4 ? 2 : 0, words = (bytes - head) / 4 * 4;
    int32_t status = head ? fill_pair(d, q, to, pattern) : TN_OK;
    if (!status && words) status = fill(d, q, to + head, words, word, sizeof word);
    return !status && head + words < bytes ? fill_pair(d, q, to + head + words, pattern) : status;
}

int32_t xpu_fill(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                 const void *pattern, uint32_t pattern_bytes)
{
    char *to = (char *)memory + offset;
    const int32_t is_byte = memcmp(pattern, (const char *)pattern + 1, pattern_bytes - 1) == 0;
    if (!bytes) return TN_OK;
    if (pattern_bytes == 2 && !is_byte) return fill_pairs(device, queue, to, bytes, pattern);
    return fill(device, queue, to, bytes, pattern, is_byte ? 1 : pattern_bytes);
}
