/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of the Level Zero driver, which are immediate command lists, and events. A list is not safe for threads, so it has a lock.
 * commands.c has what is queued.
 */
#include "xpu.h"

#include <math.h>
#include <stdlib.h>

#define IN_ORDER    2u /* ZE_COMMAND_QUEUE_FLAG_IN_ORDER of later headers */
#define FOR_EVER    UINT64_MAX
#define HANG_PERIOD 100000000u /* nanoseconds */

/* Drivers look for a hang of the device in waits and in zeDeviceGetStatus, but not in queries of events: a program that only queries
 * would never end. It takes a system call, so it is made from time to time. */
static int32_t look_for_hang(xpu_device *d)
{
    const uint64_t now = xpu_now(), looked = __atomic_load_n(&d->looked, __ATOMIC_RELAXED);
    if (!d->ze->zeDeviceGetStatus || now - looked < HANG_PERIOD) return TN_OK;
    __atomic_store_n(&d->looked, now, __ATOMIC_RELAXED);
    const ze_result_t result = d->ze->zeDeviceGetStatus(d->handle);
    return result == ZE_RESULT_ERROR_DEVICE_LOST ? xpu_check(d, result, "queued work") : TN_OK;
}

static int32_t event_state(xpu_device *d, const xpu_event *e, int32_t *out_done)
{
    const int32_t state = xpu_event_state(e);
    *out_done = state == XPU_EVENT_UNUSED;
    if (state != XPU_EVENT_APPENDED) return TN_OK;
    ze_result_t result = d->ze->zeEventQueryStatus(e->handle);
    *out_done = result == ZE_RESULT_SUCCESS;
    return result == ZE_RESULT_NOT_READY ? look_for_hang(d) : xpu_check(d, result, "queued work");
}

static int32_t is_pending(const xpu_device *d, const xpu_event *e)
{
    const int32_t state = e ? xpu_event_state(e) : XPU_EVENT_UNUSED;
    return state == XPU_EVENT_APPENDED ? d->ze->zeEventQueryStatus(e->handle) == ZE_RESULT_NOT_READY
                                       : state == XPU_EVENT_HELD;
}

/* The wait of the host. */
static int32_t wait_for(xpu_device *d, xpu_event *e)
{
    if (xpu_event_settle(e) == XPU_EVENT_UNUSED) return TN_OK;
    return xpu_check(d, d->ze->zeEventHostSynchronize(e->handle, FOR_EVER), "queued work");
}

/* A wait of the host has just ended, before which the event was pending. */
static void note_reached(xpu_event *e)
{
    __atomic_store_n(&e->reached, xpu_now(), __ATOMIC_RELAXED);
}

/* ---- Queues ------------------------------------------------------------------------------------------------ */

static int32_t make_queue(xpu_device *d, ze_command_list_handle_t list, int32_t is_wrapped, void **out_queue)
{
    xpu_queue *q = calloc(1, sizeof *q);
    if (!q) return xpu_no_memory(d);
    *q = (xpu_queue){.device = d, .list = list, .is_wrapped = is_wrapped, .is_shared = is_wrapped};
    q->held_end = &q->held;
    int32_t status = xpu_event_take(d, 0, &q->reached);
    if (status) {
        free(q);
        return status;
    }
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->finishing, NULL);
    pthread_cond_init(&q->went_on, NULL);
    pthread_mutex_lock(&d->shared->going_on);
    q->beside = d->shared->queues;
    d->shared->queues = q;
    pthread_mutex_unlock(&d->shared->going_on);
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

/* The host has waited for the queue, or lost the device, whose callbacks are called nevertheless. */
void xpu_queue_destroy(void *device, void *queue)
{
    xpu_device *d = device;
    xpu_queue *q = queue, **at = &d->shared->queues;
    xpu_queue_settle(q);
    pthread_mutex_lock(&d->shared->going_on);
    while (*at != q) at = &(*at)->beside;
    *at = q->beside;
    pthread_mutex_unlock(&d->shared->going_on);
    xpu_dnn_forget(d, q);
    if (!q->is_wrapped) d->ze->zeCommandListDestroy(q->list);
    q->finished = UINT64_MAX;
    drop_waits(d, q);
    xpu_event_release(d, q->marker);
    xpu_event_release(d, q->reached);
    xpu_event_release(d, q->recorded);
    pthread_cond_destroy(&q->went_on);
    pthread_mutex_destroy(&q->finishing);
    pthread_mutex_destroy(&q->lock);
    free(q->waits);
    free(q);
}

/* Puts a marker behind the first so many pieces of work, which are all that is appended, in place of an earlier one; under the
 * lock. */
static int32_t mark(xpu_device *d, xpu_queue *q, uint64_t position)
{
    xpu_event *marker;
    int32_t status = xpu_event_take(d, 0, &marker);
    if (status) return status;
    status = xpu_append_barrier(d, q, marker, NULL);
    if (status) {
        xpu_event_release(d, marker);
        return status;
    }
    xpu_event_release(d, q->marker);
    q->marker = marker;
    q->marked = position;
    return TN_OK;
}

static void passed(xpu_device *d, xpu_queue *q, uint64_t position)
{
    if (q->finished < position) q->finished = position;
    drop_waits(d, q);
}

/* The marker is asked before another one takes its place: one behind all work would not be done. */
int32_t xpu_queue_drop_waits(xpu_device *d, xpu_queue *q, uint64_t position)
{
    int32_t done = 0, status = q->marked > q->finished ? event_state(d, q->marker, &done) : TN_OK;
    if (done) passed(d, q, q->marked);
    return !status && q->marked <= q->finished ? mark(d, q, position) : status;
}

/* The error of a command that was held back, once; under the lock. */
static int32_t take_failure(xpu_device *d, xpu_queue *q)
{
    const int32_t status = q->failed;
    q->failed = TN_OK;
    return status ? gpu_error(d->plugin, status, "work behind a callback was not queued") : TN_OK;
}

int32_t xpu_queue_query(void *device, void *queue, int32_t *out_done)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    int32_t status = TN_OK, done = 0;
    pthread_mutex_lock(&q->lock);
    if (q->held) {
        *out_done = 0;
        pthread_mutex_unlock(&q->lock);
        return TN_OK;
    }
    if (q->is_shared && q->finished == q->queued) q->queued++; /* others may have queued work since */
    if (q->finished < q->queued && q->marked < q->queued) status = mark(d, q, q->queued);
    if (!status && q->finished < q->queued) status = event_state(d, q->marker, &done);
    if (done) passed(d, q, q->marked);
    *out_done = q->finished == q->queued;
    if (!status && *out_done) status = take_failure(d, q);
    pthread_mutex_unlock(&q->lock);
    return status;
}

int32_t xpu_queue_finish(void *device, void *queue)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    pthread_mutex_lock(&q->finishing);
    /* An event that is still to come cannot be reset. */
    int32_t status = q->is_awaited ? wait_for(d, q->reached) : TN_OK;
    if (!status) q->is_awaited = 0;
    pthread_mutex_lock(&q->lock);
    uint64_t before = q->queued;
    xpu_event *last = q->recorded_at == before && !q->is_shared ? q->recorded : NULL;
    const int32_t has_work = !status && (q->finished < before || q->is_shared);
    if (!has_work || !is_pending(d, last)) last = NULL;
    xpu_event_retain(last);
    if (has_work) status = xpu_check(d, d->ze->zeEventHostReset(q->reached->handle), "zeEventHostReset");
    if (has_work && !status) status = xpu_queue_signal(d, q, q->reached);
    pthread_mutex_unlock(&q->lock);
    const int32_t is_queued = has_work && !status;
    if (is_queued) status = wait_for(d, q->reached);
    q->is_awaited |= is_queued && status;
    if (has_work && !status) {
        if (last) note_reached(last);
        pthread_mutex_lock(&q->lock);
        if (xpu_event_state(q->reached) == XPU_EVENT_APPENDED) passed(d, q, before);
        status = take_failure(d, q);
        pthread_mutex_unlock(&q->lock);
    }
    xpu_event_release(d, last);
    pthread_mutex_unlock(&q->finishing);
    return status;
}

/* The list of another library cannot tell when it has passed a wait, so the host waits. */
int32_t xpu_native_wait(void *device, uint64_t native_queue, void *event)
{
    return wait_for(device, event);
}

/* ---- Events of the host ------------------------------------------------------------------------------------ */

int32_t xpu_event_query(void *device, void *event, int32_t *out_done)
{
    return event_state(device, event, out_done);
}

int32_t xpu_event_wait(void *device, void *event)
{
    xpu_device *d = device;
    xpu_event *e = event;
    const int32_t was_pending = is_pending(d, e);
    int32_t status = wait_for(d, e);
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
