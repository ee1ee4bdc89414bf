/* SPDX-License-Identifier: Apache-2.0 */
/* What a program can ask of a device's allocator, and tell it. */
#include <stdio.h>
#include <string.h>
#include "core/allocator.h"
#include "core/text.h"

/* The allocator of a device, locked and with its counts up to date; NULL and an error when there is none. */
static struct tni_allocator *enter(tn_context *ctx, tn_device device)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return NULL;
    tni_allocator_enter(d->allocator);
    if (d->allocator->shards) tni_cache_settle(d->allocator);
    return d->allocator;
}

void tni_allocators_watch(tn_context *ctx, int32_t on)
{
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < ctx->types[i]->count; k++) {
            const tni_device *d = &ctx->types[i]->devices[k];
            if (atomic_load_explicit(&d->open, memory_order_acquire))
                tni_allocator_watch(d->allocator, TNI_WATCH_PROFILE, on);
        }
    }
}

int32_t tn_memory_get_stats(tn_context *ctx, tn_device device, tn_memory_stats *out)
{
    struct tni_allocator *a = enter(ctx, device);
    if (!a) return tn_last_error()->code;
    const tn_memory_stats stats = a->stats;
    tni_allocator_leave(a);
    return tni_struct_write(out, &stats, sizeof stats, "tn_memory_stats");
}

int32_t tn_memory_reset_peak(tn_context *ctx, tn_device device)
{
    struct tni_allocator *a = enter(ctx, device);
    if (!a) return tn_last_error()->code;
    a->stats.allocated_peak = a->stats.allocated_bytes;
    a->stats.reserved_peak = a->stats.reserved_bytes;
    for (uint32_t i = 0; i < TNI_STAT_COUNT; i++) {
        for (uint32_t k = 0; k < TNI_GROUPS; k++) a->detail[i][k].peak = a->detail[i][k].current;
    }
    tni_allocator_leave(a);
    return TN_OK;
}

int32_t tn_memory_empty_cache(tn_context *ctx, tn_device device)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    if (d->allocator->shards) tni_cache_flush(d->allocator);
    int32_t status = d->synchronous ? TN_OK : tni_device_wait(d);
    tni_allocator_collect(d->allocator);
    if (d->pinned) tni_allocator_collect(d->pinned);
    return tni_late_of_device(d, status);
}

int32_t tn_memory_set_limit(tn_context *ctx, tn_device device, uint64_t bytes)
{
    struct tni_allocator *a = enter(ctx, device);
    if (!a) return tn_last_error()->code;
    a->limit = bytes;
    tni_allocator_leave(a);
    return TN_OK;
}

/* ---- Statistics by name -------------------------------------------------------------------------------- */

#define NAME(upper, lower) #lower,
static const char *const stat_names[TNI_STAT_COUNT] = {TNI_STAT_LIST(NAME)};
static const char *const pool_names[TNI_GROUPS] = {"all", "small_pool", "large_pool", "private_pools"};
static const char *const metric_names[] = {"current", "peak", "allocated", "freed"};
#define METRICS (sizeof metric_names / sizeof *metric_names)

/* Those without pools follow. */
static const char *const single_names[] = {"num_alloc_retries", "num_ooms", "num_device_alloc",
                                           "num_device_free", "max_split_size"};

static int64_t metric_of(const tni_stat *s, uint32_t metric)
{
    const int64_t values[METRICS] = {s->current, s->peak, s->allocated, s->freed};
    return values[metric];
}

static int64_t single_of(const struct tni_allocator *a, uint32_t i)
{
    const int64_t values[] = {(int64_t)a->stats.retries, (int64_t)a->stats.out_of_memory,
                              (int64_t)a->stats.device_allocations,
                              (int64_t)(a->stats.device_allocations - a->stats.segments),
                              a->options.max_split ? (int64_t)a->options.max_split : -1};
    return values[i];
}

/* Statistic i: its name and value. 0 past the last. */
static int32_t stat_at(const struct tni_allocator *a, uint32_t i, char name[64], int64_t *out)
{
    const uint32_t pooled = TNI_STAT_COUNT * TNI_GROUPS * METRICS;
    if (i >= pooled + sizeof single_names / sizeof *single_names) return 0;
    if (i >= pooled) {
        snprintf(name, 64, "%s", single_names[i - pooled]);
        *out = single_of(a, i - pooled);
        return 1;
    }
    uint32_t metric = i % METRICS, pool = i / METRICS % TNI_GROUPS, stat = i / METRICS / TNI_GROUPS;
    snprintf(name, 64, "%s.%s.%s", stat_names[stat], pool_names[pool], metric_names[metric]);
    *out = metric_of(&a->detail[stat][pool], metric);
    return 1;
}

int32_t tn_memory_get_stat(tn_context *ctx, tn_device device, const char *key, int64_t *out)
{
    char name[64];
    int64_t value;
    if (!key || !out) return tni_error(TN_E_ARGUMENT, "memory_get_stat: %s is NULL", key ? "out" : "key");
    struct tni_allocator *a = enter(ctx, device);
    if (!a) return tn_last_error()->code;
    uint32_t i = 0;
    while (stat_at(a, i, name, &value) && strcmp(name, key) != 0) i++;
    int32_t found = stat_at(a, i, name, &value);
    tni_allocator_leave(a);
    if (!found) return tni_error(TN_E_NOT_FOUND, "memory_get_stat: there is no statistic '%.100s'", key);
    *out = value;
    return TN_OK;
}

uint64_t tn_memory_stats_text(tn_context *ctx, tn_device device, char *text, uint64_t bytes)
{
    char name[64];
    int64_t value;
    tni_text t = tni_text_begin(text, bytes);
    struct tni_allocator *a = enter(ctx, device);
    if (!a) return 0;
    for (uint32_t i = 0; stat_at(a, i, name, &value); i++) {
        tni_text_add(&t, "%s %lld\n", name, (long long)value);
    }
    tni_allocator_leave(a);
    return t.length;
}

int32_t tn_memory_reset_accumulated(tn_context *ctx, tn_device device)
{
    struct tni_allocator *a = enter(ctx, device);
    if (!a) return tn_last_error()->code;
    for (uint32_t i = 0; i < TNI_STAT_COUNT; i++) {
        for (uint32_t k = 0; k < TNI_GROUPS; k++) a->detail[i][k].allocated = a->detail[i][k].freed = 0;
    }
    a->stats.retries = a->stats.out_of_memory = 0;
    tni_allocator_leave(a);
    return TN_OK;
}

/* ---- Observers of out of memory ------------------------------------------------------------------------ */

int32_t tn_memory_observer_add(tn_context *ctx,
                               void (*observer)(void *user, const tn_memory_shortage *shortage), void *user,
                               uint64_t *out_handle)
{
    int32_t status = tni_context_check(ctx);
    if (!status && (!observer || !out_handle))
        status =
            tni_error(TN_E_ARGUMENT, "memory_observer_add: %s is NULL", observer ? "out_handle" : "observer");
    if (status) return status;
    status =
        tni_error(TN_E_STATE, "memory_observer_add: there are %d observers, the most that a context takes",
                  TNI_MEMORY_OBSERVERS);
    pthread_mutex_lock(&ctx->lock);
    for (uint32_t i = 0; i < TNI_MEMORY_OBSERVERS && status; i++) {
        tni_memory_observer *o = &ctx->memory_observers[i];
        if (o->handle) continue;
        *o = (tni_memory_observer){observer, user, ++ctx->last_memory_observer};
        *out_handle = o->handle;
        status = TN_OK;
    }
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

void tn_memory_observer_remove(tn_context *ctx, uint64_t handle)
{
    if (!handle || tni_context_check(ctx)) return;
    pthread_mutex_lock(&ctx->lock);
    for (uint32_t i = 0; i < TNI_MEMORY_OBSERVERS; i++) {
        if (ctx->memory_observers[i].handle == handle) ctx->memory_observers[i].handle = 0;
    }
    pthread_mutex_unlock(&ctx->lock);
}

void tni_memory_observers_call(tn_context *ctx, const tn_memory_shortage *shortage)
{
    tni_memory_observer all[TNI_MEMORY_OBSERVERS];
    pthread_mutex_lock(&ctx->lock);
    memcpy(all, ctx->memory_observers, sizeof all);
    pthread_mutex_unlock(&ctx->lock);
    for (uint32_t i = 0; i < TNI_MEMORY_OBSERVERS; i++) {
        if (all[i].handle) all[i].run(all[i].user, shortage);
    }
}
