/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of the Level Zero driver, and their events. The open devices of one driver share a context, so that they copy from
 * each other and wait for each other's events. Events are taken from pools and used again.
 */
#include "xpu.h"

#include <stdlib.h>

#define POOL_EVENTS 64
#define QUESTIONS   4 /* events that are asked before a new one is made */

struct xpu_pool {
    struct xpu_pool *next;
    ze_event_pool_handle_t handle;
    uint32_t count; /* events that were created */
    xpu_event events[POOL_EVENTS];
};

/* ---- Contexts ---------------------------------------------------------------------------------------------- */

int32_t xpu_context_open(xpu_device *d, xpu_contexts *of, ze_driver_handle_t driver)
{
    const ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    int32_t status = TN_OK;
    pthread_mutex_lock(&of->lock);
    xpu_context *c = of->first;
    while (c && (c->driver != driver || __atomic_load_n(&c->is_lost, __ATOMIC_RELAXED))) c = c->next;
    if (!c) {
        c = calloc(1, sizeof *c);
        status = c ? xpu_check(d, d->ze->zeContextCreate(driver, &desc, &c->handle), "zeContextCreate")
                   : xpu_no_memory(d);
        if (!status) {
            c->driver = driver;
            c->plain.end = &c->plain.given_back;
            c->timed.end = &c->timed.given_back;
            c->timed.has_times = 1;
            pthread_mutex_init(&c->lock, NULL);
            pthread_cond_init(&c->went_on, NULL);
            pthread_mutex_init(&c->going_on, NULL);
            c->next = of->first;
            of->first = c;
        }
    }
    if (status) {
        free(c);
    } else {
        c->devices++;
        d->shared = c;
        d->context = c->handle;
    }
    pthread_mutex_unlock(&of->lock);
    return status;
}

static void destroy_events(xpu_device *d, const xpu_events *of)
{
    for (xpu_pool *pool = of->pools, *next; pool; pool = next) {
        next = pool->next;
        for (uint32_t i = 0; i < pool->count; i++) d->ze->zeEventDestroy(pool->events[i].handle);
        d->ze->zeEventPoolDestroy(pool->handle);
        free(pool);
    }
}

/* Its queues are gone, and so is all that used the events. */
static void destroy(xpu_device *d, xpu_context *c)
{
    destroy_events(d, &c->plain);
    destroy_events(d, &c->timed);
    pthread_mutex_destroy(&c->going_on);
    pthread_cond_destroy(&c->went_on);
    pthread_mutex_destroy(&c->lock);
    d->ze->zeContextDestroy(c->handle);
    free(c);
}

void xpu_context_close(xpu_device *d, xpu_contexts *of)
{
    pthread_mutex_lock(&of->lock);
    xpu_context **at = &of->first;
    while (*at != d->shared) at = &(*at)->next;
    if (!--d->shared->devices) {
        *at = d->shared->next;
        destroy(d, d->shared);
    }
    pthread_mutex_unlock(&of->lock);
}

/* ---- Events ------------------------------------------------------------------------------------------------ */

/* Under the lock. */
static void give_back(xpu_event *e)
{
    e->next = NULL;
    *e->of->end = e;
    e->of->end = &e->next;
}

static int32_t add_pool(xpu_device *d, xpu_events *of)
{
    const ze_event_pool_flags_t times = of->has_times ? ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP : 0;
    const ze_event_pool_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                       .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE | times,
                                       .count = POOL_EVENTS};
    xpu_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return xpu_no_memory(d);
    /* Without a list of devices they are for all of the context. */
    int32_t status = xpu_check(d, d->ze->zeEventPoolCreate(d->context, &desc, 0, NULL, &pool->handle),
                               "zeEventPoolCreate");
    if (status) {
        free(pool);
        return status;
    }
    pool->next = of->pools;
    of->pools = pool;
    return TN_OK;
}

/* One of the oldest events that were given back, if its signal has come: until then a reset would undo the wrong one. Others go
 * to the end, since the signal of one may never come. */
static xpu_event *used_event(xpu_device *d, xpu_events *of)
{
    for (int i = 0; i < QUESTIONS && of->given_back; i++) {
        xpu_event *e = of->given_back;
        of->given_back = e->next;
        if (!of->given_back) of->end = &of->given_back;
        if (xpu_event_state(e) == XPU_EVENT_UNUSED) return e;
        if (d->ze->zeEventQueryStatus(e->handle) == ZE_RESULT_SUCCESS) return e;
        give_back(e);
    }
    return NULL;
}

static int32_t new_event(xpu_device *d, xpu_events *of, xpu_event **out)
{
    int32_t status = !of->pools || of->pools->count == POOL_EVENTS ? add_pool(d, of) : TN_OK;
    if (status) return status;
    xpu_pool *pool = of->pools;
    const ze_event_scope_flags_t all = ZE_EVENT_SCOPE_FLAG_HOST | ZE_EVENT_SCOPE_FLAG_DEVICE;
    const ze_event_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = pool->count, .signal = all, .wait = all};
    xpu_event *e = &pool->events[pool->count];
    status = xpu_check(d, d->ze->zeEventCreate(pool->handle, &desc, &e->handle), "zeEventCreate");
    if (!status) pool->count++;
    e->context = d->shared;
    e->of = of;
    *out = e;
    return status;
}

int32_t xpu_event_take(xpu_device *d, int32_t has_times, xpu_event **out)
{
    xpu_context *c = d->shared;
    xpu_events *of = has_times ? &c->timed : &c->plain;
    int32_t status = TN_OK;
    pthread_mutex_lock(&c->lock);
    *out = used_event(d, of);
    if (*out)
        status = xpu_check(d, d->ze->zeEventHostReset((*out)->handle), "zeEventHostReset");
    else
        status = new_event(d, of, out);
    pthread_mutex_unlock(&c->lock);
    if (status) return status;
    (*out)->device = d;
    (*out)->recorded = xpu_now();
    (*out)->reached = 0;
    xpu_event_set_state(*out, XPU_EVENT_UNUSED);
    __atomic_store_n(&(*out)->references, 1, __ATOMIC_RELAXED);
    return TN_OK;
}

int32_t xpu_event_state(const xpu_event *e)
{
    return __atomic_load_n(&e->state, __ATOMIC_ACQUIRE);
}

void xpu_event_set_state(xpu_event *e, int32_t state)
{
    if (__atomic_exchange_n(&e->state, state, __ATOMIC_ACQ_REL) != XPU_EVENT_HELD) return;
    pthread_mutex_lock(&e->context->lock);
    pthread_cond_broadcast(&e->context->went_on);
    pthread_mutex_unlock(&e->context->lock);
}

int32_t xpu_event_settle(xpu_event *e)
{
    pthread_mutex_lock(&e->context->lock);
    while (xpu_event_state(e) == XPU_EVENT_HELD) pthread_cond_wait(&e->context->went_on, &e->context->lock);
    pthread_mutex_unlock(&e->context->lock);
    return xpu_event_state(e);
}

void xpu_event_retain(xpu_event *e)
{
    if (e) __atomic_add_fetch(&e->references, 1, __ATOMIC_RELAXED);
}

void xpu_event_release(void *device, void *event)
{
    xpu_event *e = event;
    if (!e || __atomic_sub_fetch(&e->references, 1, __ATOMIC_ACQ_REL)) return;
    xpu_context *c = e->context;
    pthread_mutex_lock(&c->lock);
    give_back(e);
    pthread_mutex_unlock(&c->lock);
}
