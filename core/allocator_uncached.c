/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that the caching allocator does not cache: those of a plugin's own allocator or of the user's, and memory that
 * processes share. With the option no_cache, or where a sanitizer watches each block, each block is a request to the plugin.
 */
#include "core/allocator.h"

static void free_block(struct tni_allocator *a, tni_block *b)
{
    tni_free(a->device->ctx, b->given, sizeof *b->given);
    tni_free(a->device->ctx, b, sizeof *b);
}

static tni_block *new_block(struct tni_allocator *a, uint64_t bytes)
{
    tni_block *b = tni_alloc_zeroed(a->device->ctx, sizeof *b);
    if (!b) return NULL;
    b->bytes = b->asked = bytes;
    b->allocator = a;
    b->given = tni_alloc_zeroed(a->device->ctx, sizeof *b->given);
    if (b->given) {
        b->given->memory.size = sizeof b->given->memory;
        return b;
    }
    free_block(a, b);
    return NULL;
}

/* The error of a request that failed; the block's struct goes. */
static int32_t fail(struct tni_allocator *a, tni_block *b, int32_t status)
{
    uint64_t bytes = b->bytes;
    free_block(a, b);
    return status == TN_E_OUT_OF_MEMORY ? tni_out_of_memory(a, bytes) : status;
}

/* The plugin's allocator or the user's is asked. */
static int32_t ask_other(struct tni_allocator *a, const tni_request *r, tni_given *out)
{
    const tni_device *d = a->device;
    const tni_driver *driver = &d->type->driver;
    if (tni_user_allocator_library(a))
        return tni_user_alloc(a, r->bytes, r->stream, &out->memory, &out->pointer);
    const tn_memory_request request = {
        .size = sizeof request, .kind = d->memory_kind, .bytes = r->bytes, .stream = r->stream->handle};
    int32_t status = driver->allocator.alloc(driver->self, d->handle, &request, &out->memory);
    if (status) return tni_driver_error(d->type, status, "allocation of device memory");
    status = tni_memory_check(d, "allocator.alloc", &out->memory, r->bytes);
    if (status && out->memory.allocation)
        driver->allocator.free(driver->self, d->handle, &out->memory, r->stream->handle);
    return status;
}

int32_t tni_replaced_alloc(struct tni_allocator *a, const tni_request *r, tni_block **out)
{
    tni_block *b = new_block(a, r->bytes);
    if (!b) return TN_E_OUT_OF_MEMORY;
    b->given->is_replaced = 1;
    int32_t status = ask_other(a, r, b->given);
    if (status) return fail(a, b, status);
    tni_block_show(b, &b->given->memory);
    b->stream = tni_stream_retain(r->stream);
    tni_allocator_enter(a);
    tni_block_count(a, b);
    tni_allocator_leave(a);
    *out = b;
    return TN_OK;
}

/* The block's own stream waits for another one that uses it. */
static void wait_for_use(struct tni_allocator *a, const tni_block *b, const tni_use *u)
{
    int32_t life = tni_stream_retain_live(u->stream, u->id);
    if (life == TNI_STREAM_ENDING)
        tni_late_keep(a->device, tni_device_wait(a->device), "waiting for a stream that is released");
    if (life != TNI_STREAM_LIVE) return;
    if (tn_stream_wait_stream(b->stream, u->stream))
        tni_late_keep(a->device, tn_stream_synchronize(u->stream), "waiting for a stream");
    if (u->id) tn_stream_release(u->stream);
}

/* The block's own stream waits for the others, so the plugin is told of one stream only. */
void tni_replaced_free(struct tni_allocator *a, tni_block *b)
{
    const tni_driver *driver = &a->device->type->driver;
    for (const tni_use *u = b->uses; u; u = u->next) wait_for_use(a, b, u);
    tni_uses_free(a, b);
    if (tni_user_allocator_library(a))
        tni_user_free(a, b->given, b->asked, b->stream);
    else
        driver->allocator.free(driver->self, a->device->handle, &b->given->memory, b->stream->handle);
    tni_allocator_enter(a);
    tni_block_uncount(a, b);
    tni_active_end(a, b);
    tni_allocator_leave(a);
    tn_stream_release(b->stream);
    free_block(a, b);
}

int32_t tni_direct_alloc(struct tni_allocator *a, const tni_request *r, tni_block **out)
{
    tni_block *b = new_block(a, r->bytes);
    if (!b) return TN_E_OUT_OF_MEMORY;
    uint64_t freed;
    int32_t status = tni_device_alloc(a, r->bytes, r->flags, &b->given->memory), retried = 0;
    if (status == TN_E_OUT_OF_MEMORY && !tni_memory_reclaim(a->device, &freed)) {
        status = tni_device_alloc(a, r->bytes, r->flags, &b->given->memory);
        retried = !status;
    }
    if (status) return fail(a, b, status);
    tni_block_show(b, &b->given->memory);
    tni_allocator_enter(a);
    tni_device_alloc_count(a);
    a->stats.retries += (uint64_t)retried;
    tni_stat_add(a, TNI_STAT_SEGMENT, tni_groups_of_block(b), 1);
    tni_stat_add(a, TNI_STAT_RESERVED_BYTES, tni_groups_of_block(b), (int64_t)b->bytes);
    tni_block_count(a, b);
    tni_allocator_leave(a);
    *out = b;
    return TN_OK;
}

/* Nobody uses the block again, so the work that uses it has to finish. */
void tni_direct_free(struct tni_allocator *a, tni_block *b)
{
    const tni_driver *driver = &a->device->type->driver;
    if (!a->device->synchronous)
        tni_late_keep(a->device, tni_device_wait(a->device), "waiting for a device whose memory is freed");
    tni_uses_free(a, b);
    driver->memory.free(driver->self, a->device->handle, &b->given->memory);
    tni_allocator_enter(a);
    a->stats.segments--;
    a->stats.reserved_bytes -= b->bytes;
    tni_stat_add(a, TNI_STAT_SEGMENT, tni_groups_of_block(b), -1);
    tni_stat_add(a, TNI_STAT_RESERVED_BYTES, tni_groups_of_block(b), -(int64_t)b->bytes);
    tni_block_uncount(a, b);
    tni_active_end(a, b);
    tni_allocator_leave(a);
    free_block(a, b);
}

int32_t tni_block_alloc_shareable(tni_device *d, uint64_t bytes, tni_block **out, tn_memory *out_memory)
{
    const tni_request request = {.bytes = bytes, .asked = bytes, .counts = 1, .flags = TN_REQUEST_SHAREABLE};
    int32_t status = tni_direct_alloc(d->allocator, &request, out);
    if (!status) *out_memory = (*out)->given->memory;
    return status;
}
