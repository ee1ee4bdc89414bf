/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of the Level Zero driver, which are immediate command lists. Commands of a list may overlap, so a barrier stands
 * between any two; a list is not safe for threads, so it has a lock.
 */
#include "xpu.h"

#include <math.h>
#include <stdlib.h>

#define IN_ORDER 2u /* ZE_COMMAND_QUEUE_FLAG_IN_ORDER of later headers */
#define FOR_EVER UINT64_MAX

static int32_t event_state(xpu_device *d, const xpu_event *e, int32_t *out_done)
{
    ze_result_t result = d->ze->zeEventQueryStatus(e->handle);
    *out_done = result == ZE_RESULT_SUCCESS;
    return result == ZE_RESULT_NOT_READY ? TN_OK : xpu_check(d, result, "queued work");
}

static int32_t is_pending(const xpu_device *d, const xpu_event *e)
{
    return e && d->ze->zeEventQueryStatus(e->handle) == ZE_RESULT_NOT_READY;
}

/* A wait of the host has just ended, before which the event was pending. */
static void note_reached(xpu_event *e)
{
    __atomic_store_n(&e->reached, xpu_now(), __ATOMIC_RELAXED);
}

static void retain(xpu_event *e)
{
    if (e) __atomic_add_fetch(&e->references, 1, __ATOMIC_RELAXED);
}

/* ---- Queues ------------------------------------------------------------------------------------------------ */

static int32_t make_queue(xpu_device *d, ze_command_list_handle_t list, int32_t is_wrapped, void **out_queue)
{
    xpu_queue *q = calloc(1, sizeof *q);
    if (!q) return xpu_no_memory(d);
    *q = (xpu_queue){.list = list, .is_wrapped = is_wrapped};
    int32_t status = xpu_event_take(d, &q->reached);
    if (status) {
        free(q);
        return status;
    }
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->finishing, NULL);
    *out_queue = q;
    return TN_OK;
}

/* The barriers between commands are the plugin's; the flag is for what other libraries append. Older loaders refuse it. */
static ze_result_t make_list(xpu_device *d, ze_command_queue_desc_t *desc, ze_command_list_handle_t *out)
{
    desc->flags = __atomic_load_n(&d->keeps_order, __ATOMIC_RELAXED) ? IN_ORDER : 0;
    ze_result_t result = d->ze->zeCommandListCreateImmediate(d->context, d->handle, desc, out);
    if (result != ZE_RESULT_ERROR_INVALID_ENUMERATION && result != ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION)
        return result;
    __atomic_store_n(&d->keeps_order, 0, __ATOMIC_RELAXED);
    desc->flags = 0;
    return d->ze->zeCommandListCreateImmediate(d->context, d->handle, desc, out);
}

int32_t xpu_queue_create(void *device, int32_t priority, void **out_queue)
{
    xpu_device *d = device;
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .ordinal = d->ordinal,
                                    /* Queues of one engine would wait for each other. */
                                    .index = __atomic_fetch_add(&d->queues, 1, __ATOMIC_RELAXED) % d->engines,
                                    .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                                    .priority = priority < 0   ? ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH
                                                : priority > 0 ? ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_LOW
                                                               : ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_command_list_handle_t list;
    int32_t status = xpu_check(d, make_list(d, &desc, &list), "zeCommandListCreateImmediate");
    if (status) return status;
    status = make_queue(d, list, 0, out_queue);
    if (status)
        d->ze->zeCommandListDestroy(list);
    else
        ((xpu_queue *)*out_queue)->is_ordered = desc.flags != 0;
    return status;
}

/* An immediate command list of the program, which it does not append to while one of ours does. */
int32_t xpu_queue_wrap(void *device, uint64_t native, void **out_queue)
{
    return make_queue(device, (ze_command_list_handle_t)(uintptr_t)native, 1, out_queue);
}

/* Gives back events whose waits have passed; under the queue's lock. */
static void drop_waits(xpu_device *d, xpu_queue *q)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < q->n_waits; i++) {
        if (q->waits[i].position > q->finished)
            q->waits[kept++] = q->waits[i];
        else
            xpu_event_release(d, q->waits[i].event);
    }
    q->n_waits = kept;
}

/* The host has waited for the queue, or lost the device. */
void xpu_queue_destroy(void *device, void *queue)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    xpu_dnn_forget(d, q);
    if (!q->is_wrapped) d->ze->zeCommandListDestroy(q->list);
    q->finished = UINT64_MAX;
    drop_waits(d, q);
    xpu_event_release(d, q->marker);
    xpu_event_release(d, q->reached);
    xpu_event_release(d, q->recorded);
    pthread_mutex_destroy(&q->finishing);
    pthread_mutex_destroy(&q->lock);
    free(q->waits);
    free(q);
}

/* A barrier behind all work, which waits for `wait` and then signals `signal` (each may be NULL); under the lock. */
static int32_t append_barrier(xpu_device *d, xpu_queue *q, const xpu_event *signal, const xpu_event *wait)
{
    ze_event_handle_t waited = wait ? wait->handle : NULL;
    int32_t status = xpu_check(d,
                               d->ze->zeCommandListAppendBarrier(q->list, signal ? signal->handle : NULL,
                                                                 wait ? 1 : 0, wait ? &waited : NULL),
                               "a barrier");
    if (!status) q->is_open = q->is_wrapped;
    return status;
}

/* Takes the queue's lock and sees that the next command begins when the last one has ended. */
int32_t xpu_begin(xpu_device *d, xpu_queue *q)
{
    pthread_mutex_lock(&q->lock);
    int32_t status = q->is_open || q->is_wrapped ? append_barrier(d, q, NULL, NULL) : TN_OK;
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

/* Puts a marker behind all work, in place of an earlier one; under the lock. */
static int32_t mark(xpu_device *d, xpu_queue *q)
{
    xpu_event *marker;
    int32_t status = xpu_event_take(d, &marker);
    if (status) return status;
    status = append_barrier(d, q, marker, NULL);
    if (status) {
        xpu_event_release(d, marker);
        return status;
    }
    xpu_event_release(d, q->marker);
    q->marker = marker;
    q->marked = q->queued;
    return TN_OK;
}

static void passed(xpu_device *d, xpu_queue *q, uint64_t position)
{
    if (q->finished < position) q->finished = position;
    drop_waits(d, q);
}

int32_t xpu_queue_query(void *device, void *queue, int32_t *out_done)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    int32_t status = TN_OK, done = 0;
    pthread_mutex_lock(&q->lock);
    if (q->is_wrapped && q->finished == q->queued) q->queued++; /* the program may have queued work since */
    if (q->finished < q->queued && q->marked < q->queued) status = mark(d, q);
    if (!status && q->finished < q->queued) status = event_state(d, q->marker, &done);
    if (done) passed(d, q, q->marked);
    *out_done = q->finished == q->queued;
    pthread_mutex_unlock(&q->lock);
    return status;
}

int32_t xpu_queue_finish(void *device, void *queue)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    pthread_mutex_lock(&q->finishing);
    pthread_mutex_lock(&q->lock);
    uint64_t before = q->queued;
    xpu_event *last = q->recorded_at == before && !q->is_wrapped ? q->recorded : NULL;
    int32_t has_work = q->finished < before || q->is_wrapped, status = TN_OK;
    if (!has_work || !is_pending(d, last)) last = NULL;
    retain(last);
    if (has_work) status = xpu_check(d, d->ze->zeEventHostReset(q->reached->handle), "zeEventHostReset");
    if (has_work && !status) status = append_barrier(d, q, q->reached, NULL);
    pthread_mutex_unlock(&q->lock);
    if (has_work && !status)
        status = xpu_check(d, d->ze->zeEventHostSynchronize(q->reached->handle, FOR_EVER), "queued work");
    if (has_work && !status) {
        if (last) note_reached(last);
        pthread_mutex_lock(&q->lock);
        passed(d, q, before);
        pthread_mutex_unlock(&q->lock);
    }
    xpu_event_release(d, last);
    pthread_mutex_unlock(&q->finishing);
    return status;
}

/* Appends a wait for the event, and keeps it until the queue has passed. */
int32_t xpu_queue_wait(void *device, void *queue, void *event)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    int32_t status;
    pthread_mutex_lock(&q->lock);
    if (q->n_waits == q->most_waits) {
        uint32_t most = q->most_waits ? 2 * q->most_waits : 16;
        xpu_wait *larger = realloc(q->waits, most * sizeof *larger);
        if (larger) q->waits = larger;
        if (larger) q->most_waits = most;
    }
    if (q->n_waits == q->most_waits)
        status = xpu_no_memory(d);
    else
        status = append_barrier(d, q, NULL, event);
    if (!status) {
        retain(event);
        q->waits[q->n_waits++] = (xpu_wait){event, ++q->queued};
    }
    pthread_mutex_unlock(&q->lock);
    return status;
}

/* The list of another library cannot tell when it has passed a wait, so the host waits. */
int32_t xpu_native_wait(void *device, uint64_t native_queue, void *event)
{
    xpu_device *d = device;
    return xpu_check(d, d->ze->zeEventHostSynchronize(((xpu_event *)event)->handle, FOR_EVER), "queued work");
}

/* ---- Callbacks: Level Zero has none, so a thread waits for the work before and then signals an event ---------- */

typedef struct callback_call {
    xpu_device *device;
    void (*callback)(void *user);
    void *user;
    xpu_event *reached;  /* the work before it has finished */
    xpu_event *returned; /* later work waits for it */
    uint32_t owners;     /* the thread, and whoever queues the call; atomic */
    uint32_t is_claimed; /* by the thread, which calls back, or by a failure: then nobody does; atomic */
} callback_call;

static void release_call(callback_call *c)
{
    if (__atomic_sub_fetch(&c->owners, 1, __ATOMIC_ACQ_REL)) return;
    xpu_event_release(c->device, c->reached);
    xpu_event_release(c->device, c->returned);
    free(c);
}

static int32_t claim(callback_call *c)
{
    return !__atomic_exchange_n(&c->is_claimed, 1, __ATOMIC_ACQ_REL);
}

static void run_callback(void *data)
{
    callback_call *c = data;
    xpu_device *d = c->device;
    d->ze->zeEventHostSynchronize(c->reached->handle, FOR_EVER);
    if (claim(c)) c->callback(c->user);
    d->ze->zeEventHostSignal(c->returned->handle);
    release_call(c);
}

/* The wait for the thread is appended when the thread runs: a driver may return from it only when the event is signalled. If it
 * cannot be appended and the callback has begun, the host waits in the queue's place. */
static int32_t wait_for_callback(xpu_device *d, void *queue, callback_call *c)
{
    int32_t status = xpu_queue_wait(d, queue, c->returned);
    return status && !claim(c) ? xpu_event_wait(d, c->returned) : status;
}

int32_t xpu_queue_callback(void *device, void *queue, void (*callback)(void *user), void *user)
{
    xpu_device *d = device;
    void *reached = NULL;
    callback_call *c = malloc(sizeof *c);
    if (!c) return xpu_no_memory(d);
    *c = (callback_call){.device = d, .callback = callback, .user = user, .owners = 2};
    int32_t status = xpu_event_take(d, &c->returned);
    if (!status) status = xpu_event_record(d, queue, &reached);
    c->reached = reached;
    if (!status) status = gpu_callbacks_start(d->plugin, &d->callbacks, run_callback, c);
    if (!status) {
        status = wait_for_callback(d, queue, c);
    } else {
        if (c->returned) d->ze->zeEventHostSignal(c->returned->handle); /* so that it can be used again */
        c->owners = 1;
    }
    release_call(c);
    return status;
}

/* ---- Events of the host ------------------------------------------------------------------------------------ */

int32_t xpu_event_record(void *device, void *queue, void **out_event)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    xpu_event *e;
    int32_t status = xpu_event_take(d, &e);
    if (status) return status;
    pthread_mutex_lock(&q->lock);
    status = append_barrier(d, q, e, NULL);
    if (!status) {
        retain(e);
        xpu_event_release(d, q->recorded);
        q->recorded = e;
        q->recorded_at = ++q->queued;
    }
    pthread_mutex_unlock(&q->lock);
    if (status)
        xpu_event_release(d, e);
    else
        *out_event = e;
    return status;
}

int32_t xpu_event_query(void *device, void *event, int32_t *out_done)
{
    return event_state(device, event, out_done);
}

int32_t xpu_event_wait(void *device, void *event)
{
    xpu_device *d = device;
    xpu_event *e = event;
    const int32_t was_pending = is_pending(d, e);
    int32_t status = xpu_check(d, d->ze->zeEventHostSynchronize(e->handle, FOR_EVER), "queued work");
    if (!status && was_pending) note_reached(e);
    return status;
}

/* Nanoseconds of the host's clock at about the time of the event: when the host's wait for it ended, else when it was recorded. */
static double host_time(xpu_event *e)
{
    const uint64_t reached = __atomic_load_n(&e->reached, __ATOMIC_RELAXED);
    return (double)(reached ? reached : e->recorded);
}

/* Timestamps wrap at some bits, where they have 32 after a few minutes. The host's clock tells how often they did between two
 * events, if it is not wrong by half that time. */
static double ticks_between(const xpu_device *d, xpu_event *start, xpu_event *stop, uint64_t from,
                            uint64_t to)
{
    const uint64_t ticks = (to - from) & d->valid_ticks;
    const double range = (double)d->valid_ticks + 1;
    const double nearest = ticks > d->valid_ticks / 2 ? -(double)(d->valid_ticks - ticks + 1) : (double)ticks;
    const double expected = (host_time(stop) - host_time(start)) / d->nanoseconds;
    return nearest + range * round((expected - nearest) / range);
}

int32_t xpu_event_elapsed(void *device, void *start, void *stop, double *out_ms)
{
    xpu_device *d = device;
    ze_kernel_timestamp_result_t from, to;
    int32_t status = xpu_event_wait(d, start);
    if (!status) status = xpu_event_wait(d, stop);
    if (!status)
        status = xpu_check(d, d->ze->zeEventQueryKernelTimestamp(((xpu_event *)start)->handle, &from),
                           "the time of an event");
    if (!status)
        status = xpu_check(d, d->ze->zeEventQueryKernelTimestamp(((xpu_event *)stop)->handle, &to),
                           "the time of an event");
    if (status) return status;
    *out_ms =
        ticks_between(d, start, stop, from.global.kernelEnd, to.global.kernelEnd) * d->nanoseconds / 1e6;
    return TN_OK;
}

/* ---- Copies ------------------------------------------------------------------------------------------------ */

static int32_t move(xpu_device *d, xpu_queue *q, void *to, const void *from, uint64_t bytes, const char *what)
{
    int32_t status = xpu_begin(d, q);
    if (status) return status;
    return xpu_end(d, q, d->ze->zeCommandListAppendMemoryCopy(q->list, to, from, bytes, NULL, 0, NULL), what);
}

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

int32_t xpu_fill(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                 const void *pattern, uint32_t pattern_bytes)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    int32_t status = xpu_begin(d, q);
    if (status) return status;
    return xpu_end(d, q,
                   d->ze->zeCommandListAppendMemoryFill(q->list, (char *)memory + offset, pattern,
                                                        pattern_bytes, bytes, NULL, 0, NULL),
                   "a fill");
}
