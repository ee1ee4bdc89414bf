/* SPDX-License-Identifier: Apache-2.0 */
/* Private pools of a device's memory, for threads and for graphs; the memory itself is in allocator_pool.c. */
#include "core/allocator.h"
#include "core/graph.h"

static int32_t check(const tn_memory_pool *pool)
{
    if (!pool) return tni_error(TN_E_ARGUMENT, "a memory pool is missing");
    int32_t status = tni_handle_check(pool->device->ctx, &pool->life, "memory pool");
    return status ? status : tni_context_check_kept(pool->device->ctx);
}

int32_t tn_memory_pool_create(tn_context *ctx, tn_device device, tn_memory_pool **out)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    int32_t status = tni_allocator_check_caching(d->allocator, "private pools");
    if (status) return status;
    tn_memory_pool *pool = tni_alloc_zeroed(ctx, sizeof *pool);
    if (!pool) return TN_E_OUT_OF_MEMORY;
    atomic_init(&pool->refs, 1);
    pool->device = d;
    pthread_mutex_lock(&d->lock);
    pool->number = ++d->last_capture;
    pthread_mutex_unlock(&d->lock);
    pool->stats.size = sizeof pool->stats;
    tni_pool_register(d->allocator, pool);
    tni_context_own(ctx);
    tni_handle_made(ctx, pool, "memory pool");
    *out = pool;
    return TN_OK;
}

tn_memory_pool *tni_memory_pool_retain(tn_memory_pool *pool)
{
    if (pool) atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
    return pool;
}

void tn_memory_pool_release(tn_memory_pool *pool)
{
    if (!pool ||
        !tni_handle_may_end(pool->device->ctx, &pool->life, "memory pool", __builtin_return_address(0)))
        return;
    if (atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) != 1) return;
    tni_device *d = pool->device;
    tn_context *ctx = d->ctx;
    if (tni_context_check_kept(ctx)) return;
    tni_pool_dissolve(d->allocator, pool);
    tni_handle_free(ctx, pool, sizeof *pool, &pool->life);
    tni_context_unown(ctx);
}

int32_t tn_memory_pool_begin(tn_memory_pool *pool)
{
    int32_t status = check(pool);
    return status ? status : tni_pool_begin(pool->device->allocator, pool);
}

int32_t tn_memory_pool_end(tn_memory_pool *pool)
{
    int32_t status = check(pool);
    return status ? status : tni_pool_leave(pool->device->allocator, pool);
}

int32_t tn_memory_pool_get_stats(tn_memory_pool *pool, tn_memory_stats *out)
{
    int32_t status = check(pool);
    if (status) return status;
    tni_allocator_enter(pool->device->allocator);
    const tn_memory_stats stats = pool->stats;
    tni_allocator_leave(pool->device->allocator);
    return tni_struct_write(out, &stats, sizeof stats, "tn_memory_stats");
}
