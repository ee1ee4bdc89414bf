/* SPDX-License-Identifier: Apache-2.0 */
/* What a program can ask of a device's allocator, and tell it. */
#include <string.h>
#include "core/allocator.h"

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
    return status ? tni_driver_error(d->type, status, "waiting for a device") : tni_late_take(d);
}

int32_t tn_memory_set_limit(tn_context *ctx, tn_device device, uint64_t bytes)
{
    struct tni_allocator *a = enter(ctx, device);
    if (!a) return tn_last_error()->code;
    a->limit = bytes;
    tni_allocator_leave(a);
    return TN_OK;
}
