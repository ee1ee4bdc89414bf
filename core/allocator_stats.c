/* SPDX-License-Identifier: Apache-2.0 */
/* What a program can ask of a device's allocator, and tell it. */
#include <string.h>
#include "core/allocator.h"

static struct tni_allocator *allocator_of(tn_context *ctx, tn_device device)
{
    tni_device *d = tni_device_get(ctx, device);
    return d ? d->allocator : NULL;
}

int32_t tn_memory_get_stats(tn_context *ctx, tn_device device, tn_memory_stats *out)
{
    struct tni_allocator *a = allocator_of(ctx, device);
    if (!a) return tn_last_error()->code;
    pthread_mutex_lock(&a->lock);
    if (a->shards) tni_cache_settle(a);
    int32_t status = tni_struct_write(out, &a->stats, sizeof a->stats, "tn_memory_stats");
    pthread_mutex_unlock(&a->lock);
    return status;
}

int32_t tn_memory_reset_peak(tn_context *ctx, tn_device device)
{
    struct tni_allocator *a = allocator_of(ctx, device);
    if (!a) return tn_last_error()->code;
    pthread_mutex_lock(&a->lock);
    if (a->shards) tni_cache_settle(a);
    a->stats.allocated_peak = a->stats.allocated_bytes;
    a->stats.reserved_peak = a->stats.reserved_bytes;
    pthread_mutex_unlock(&a->lock);
    return TN_OK;
}

int32_t tn_memory_empty_cache(tn_context *ctx, tn_device device)
{
    struct tni_allocator *a = allocator_of(ctx, device);
    if (!a) return tn_last_error()->code;
    if (a->shards) tni_cache_flush(a);
    pthread_mutex_lock(&a->lock);
    int32_t status = a->device->synchronous ? TN_OK : tni_device_wait(a->device);
    tni_allocator_settle(a);
    tni_segments_release(a, 0);
    pthread_mutex_unlock(&a->lock);
    return status ? tni_driver_error(a->device->type, status, "waiting for a device")
                  : tni_late_take(a->device);
}

int32_t tn_memory_set_limit(tn_context *ctx, tn_device device, uint64_t bytes)
{
    struct tni_allocator *a = allocator_of(ctx, device);
    if (!a) return tn_last_error()->code;
    pthread_mutex_lock(&a->lock);
    a->limit = bytes;
    pthread_mutex_unlock(&a->lock);
    return TN_OK;
}
