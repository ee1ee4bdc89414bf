/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that no cache of ours stands behind: those of a plugin's own allocator, and, where each block is to
 * be watched, one request to the plugin for each.
 */
#include "core/allocator.h"

int32_t tni_replaced_alloc(struct tni_allocator *a, uint64_t bytes, tn_stream *stream, tni_piece **out)
{
    const tni_driver *driver = &a->device->type->driver;
    tni_piece *p = tni_alloc_zeroed(a->device->ctx, sizeof *p);
    if (!p) return TN_E_OUT_OF_MEMORY;
    int32_t status = driver->allocator.alloc(driver->self, a->device->handle, bytes, stream->handle,
                                             &p->block.allocation, &p->block.offset, &p->block.host);
    if (status) {
        tni_free(a->device->ctx, p, sizeof *p);
        status = tni_driver_error(a->device->type, status, "allocation of device memory");
        if (status != TN_E_OUT_OF_MEMORY) return status;
        pthread_mutex_lock(&a->lock);
        status = tni_out_of_memory(a, bytes);
        pthread_mutex_unlock(&a->lock);
        return status;
    }
    p->block.bytes = bytes;
    p->block.allocator = a;
    p->stream = tni_stream_retain(stream);
    pthread_mutex_lock(&a->lock);
    tni_piece_list_add(&a->replaced, p);
    pthread_mutex_unlock(&a->lock);
    *out = p;
    return TN_OK;
}

/* The block's own stream waits for the others, so the plugin sees one stream only. */
void tni_replaced_free(struct tni_allocator *a, tni_piece *p)
{
    const tni_driver *driver = &a->device->type->driver;
    for (tni_use *u = p->uses; u; u = u->next) {
        if (tn_stream_wait_stream(p->stream, u->stream))
            tni_late_keep(a->device, tn_stream_synchronize(u->stream), "waiting for a stream");
    }
    pthread_mutex_lock(&a->lock);
    tni_free_uses(a, p);
    tni_piece_list_remove(&a->replaced, p);
    pthread_mutex_unlock(&a->lock);
    driver->allocator.free(driver->self, a->device->handle, p->block.allocation, p->block.offset,
                           p->block.bytes, p->stream->handle);
    tn_stream_release(p->stream);
    tni_free(a->device->ctx, p, sizeof *p);
}

int32_t tni_direct_alloc(struct tni_allocator *a, uint64_t bytes, tni_piece **out)
{
    const tni_driver *driver = &a->device->type->driver;
    tni_piece *p = tni_alloc_zeroed(a->device->ctx, sizeof *p);
    if (!p) return TN_E_OUT_OF_MEMORY;
    p->block.bytes = bytes;
    p->block.allocator = a;
    pthread_mutex_lock(&a->lock);
    int32_t status = TN_E_OUT_OF_MEMORY;
    if (!a->limit || (bytes <= a->limit && a->stats.reserved_bytes <= a->limit - bytes))
        status = driver->memory.alloc(driver->self, a->device->handle, bytes, a->device->memory_kind,
                                      &p->block.allocation, &p->block.host);
    if (!status) {
        a->stats.segments++;
        a->stats.device_allocations++;
        a->stats.reserved_bytes += bytes;
        if (a->stats.reserved_bytes > a->stats.reserved_peak)
            a->stats.reserved_peak = a->stats.reserved_bytes;
    } else {
        status = tni_driver_error(a->device->type, status, "allocation of device memory");
        if (status == TN_E_OUT_OF_MEMORY) status = tni_out_of_memory(a, bytes);
    }
    pthread_mutex_unlock(&a->lock);
    if (status) {
        tni_free(a->device->ctx, p, sizeof *p);
        return status;
    }
    *out = p;
    return TN_OK;
}

void tni_direct_free(struct tni_allocator *a, tni_piece *p)
{
    const tni_driver *driver = &a->device->type->driver;
    driver->memory.free(driver->self, a->device->handle, p->block.allocation, p->block.bytes);
    pthread_mutex_lock(&a->lock);
    a->stats.segments--;
    a->stats.reserved_bytes -= p->block.bytes;
    pthread_mutex_unlock(&a->lock);
    tni_free(a->device->ctx, p, sizeof *p);
}
