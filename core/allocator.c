/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caching allocator's front: blocks by stream, blocks that several streams use, the one answer to running
 * out of memory, statistics. The lists behind it are in allocator_pool.c. A plugin that brings an allocator
 * of its own is asked instead, and only the counting is done here.
 */
#include <string.h>
#include "core/allocator.h"
#include "core/graph.h"

int32_t tni_allocator_is_replaced(const struct tni_allocator *a)
{
    return a->device->type->driver.allocator.size != 0 && a->device->type->driver.allocator.alloc != NULL;
}

/* Under AddressSanitizer each block of host memory is one of its own, so that it sees where kernels go wrong.
 */
static int32_t is_watched(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return 1;
#else
    return TN_HAS_FEATURE(address_sanitizer);
#endif
}

/* Segments of host memory above this much go back when nobody uses them: the system cannot ask for them. */
static uint64_t host_keep(const tni_device *device)
{
    uint64_t keep = device->facts.total_memory / 16;
    const uint64_t least = 64ull << 20, most = 4ull << 30;
    return keep < least ? least : keep > most ? most : keep;
}

int32_t tni_allocator_create(tni_device *device, struct tni_allocator **out)
{
    tn_context *ctx = device->ctx;
    struct tni_allocator *a = tni_alloc_zeroed(ctx, sizeof *a);
    if (!a) return TN_E_OUT_OF_MEMORY;
    a->device = device;
    a->granule = device->synchronous ? 64 : 512;
    if (a->granule < device->facts.alignment) a->granule = device->facts.alignment;
    a->empty.allocator = a;
    a->direct = device->synchronous && is_watched() && !tni_allocator_is_replaced(a);
    if (device->synchronous) a->keep = host_keep(device);
    if (device->synchronous && !a->direct && !tni_allocator_is_replaced(a) && a->granule == 64) {
        a->shards = tni_alloc_zeroed(ctx, TNI_SHARDS * sizeof *a->shards);
        if (!a->shards) {
            tni_free(ctx, a, sizeof *a);
            return TN_E_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_init(&a->lock, NULL);
    *out = a;
    return TN_OK;
}

void tni_allocated_add(struct tni_allocator *a, int64_t bytes, int64_t blocks)
{
    a->stats.allocated_bytes += (uint64_t)bytes;
    a->stats.active_blocks += (uint64_t)blocks;
    /* Counts of caches arrive late, so the sum may dip below zero for a moment. */
    if ((int64_t)a->stats.allocated_bytes > (int64_t)a->stats.allocated_peak)
        a->stats.allocated_peak = a->stats.allocated_bytes;
}

/* ---- Uses by other streams ----------------------------------------------------------------------------- */

static void free_use(struct tni_allocator *a, tni_use *use)
{
    tn_event_release(use->event);
    tni_free(a->device->ctx, use, sizeof *use);
}

void tni_free_uses(struct tni_allocator *a, tni_piece *p)
{
    while (p->uses) {
        tni_use *u = p->uses;
        p->uses = u->next;
        free_use(a, u);
    }
}

void tni_piece_list_add(tni_piece **list, tni_piece *p)
{
    p->previous = NULL;
    p->next = *list;
    if (p->next) p->next->previous = p;
    *list = p;
}

void tni_piece_list_remove(tni_piece **list, tni_piece *p)
{
    if (p->previous)
        p->previous->next = p->next;
    else
        *list = p->next;
    if (p->next) p->next->previous = p->previous;
    p->previous = p->next = NULL;
}

int32_t tni_block_record(tni_block *block, tn_stream *stream)
{
    struct tni_allocator *a = block->allocator;
    tni_piece *p = (tni_piece *)block;
    if (stream->device != a->device)
        return tni_error(TN_E_DEVICE, "memory of one device cannot be recorded on a stream of another");
    if (a->device->synchronous || block == &a->empty) return TN_OK;
    tni_use *use = tni_alloc_zeroed(a->device->ctx, sizeof *use);
    if (!use) return TN_E_OUT_OF_MEMORY;
    pthread_mutex_lock(&a->lock);
    tn_stream *own = p->segment ? p->segment->pool->stream : p->stream;
    tni_use *u = p->uses;
    while (u && u->stream != stream) u = u->next;
    int32_t known = u || own == stream;
    if (!known) {
        use->stream = stream;
        use->next = p->uses;
        p->uses = use;
    }
    pthread_mutex_unlock(&a->lock);
    if (known) tni_free(a->device->ctx, use, sizeof *use);
    return TN_OK;
}

/* Turns each use into an event to wait for; a stream that takes no event is waited for here. */
static void mark_uses(struct tni_allocator *a, tni_piece *p)
{
    for (tni_use **link = &p->uses; *link;) {
        tni_use *u = *link;
        if (tni_stream_captures(u->stream)) { /* nothing is under way on it, see capture.c */
            *link = u->next;
            free_use(a, u);
            continue;
        }
        int32_t status = tni_event_create(a->device, 0, &u->event);
        if (!status) status = tn_event_record(u->event, u->stream);
        if (!status) {
            link = &u->next;
            continue;
        }
        tni_late_keep(a->device, tn_stream_synchronize(u->stream), "waiting for a stream");
        *link = u->next;
        free_use(a, u);
    }
}

/* Frees waiting pieces whose streams have passed. An event that answers with an error will never do better.
 */
void tni_allocator_settle(struct tni_allocator *a)
{
    for (tni_piece *p = a->waiting, *next; p; p = next) {
        next = p->next;
        for (tni_use **link = &p->uses; *link;) {
            tni_use *u = *link;
            if (tn_event_query(u->event) == 0) {
                link = &u->next;
                continue;
            }
            *link = u->next;
            free_use(a, u);
        }
        if (p->uses) continue;
        tni_piece_list_remove(&a->waiting, p);
        tni_pool_give(a, p);
    }
}

static void forget_uses(struct tni_allocator *a, tni_piece *p, const tn_stream *stream)
{
    for (tni_use **link = &p->uses; *link;) {
        tni_use *u = *link;
        if (u->stream != stream) {
            link = &u->next;
            continue;
        }
        *link = u->next;
        free_use(a, u);
    }
}

/* Moves what a pool has to another one of the same kind. */
static void move_pool(struct tni_allocator *a, tni_pool *from, tni_pool *to)
{
    for (tni_segment *s = a->segments; s; s = s->next) {
        if (s->pool == from) s->pool = to;
    }
    for (uint32_t bin = 0; bin < TNI_POOL_BINS; bin++) {
        if (!from->bins[bin]) continue;
        tni_piece *last = from->bins[bin];
        while (last->next) last = last->next;
        last->next = to->bins[bin];
        if (last->next) last->next->previous = last;
        to->bins[bin] = from->bins[bin];
        to->filled[bin / 64] |= 1ull << bin % 64;
    }
}

void tni_allocator_forget_stream(struct tni_allocator *a, tn_stream *stream)
{
    if (!a || a->device->synchronous) return;
    tn_stream *home = a->device->default_stream;
    pthread_mutex_lock(&a->lock);
    for (tni_segment *s = a->segments; s; s = s->next) {
        for (tni_piece *p = s->first; p; p = p->after) forget_uses(a, p, stream);
    }
    for (tni_piece *p = a->replaced; p; p = p->next) forget_uses(a, p, stream);
    tni_allocator_settle(a);
    for (tni_pool **link = &a->pools; *link;) {
        tni_pool *pool = *link, *to = pool->capture ? NULL : a->pools;
        while (pool->stream == stream && to &&
               !(to->stream == home && to->small == pool->small && !to->capture))
            to = to->next;
        if (pool->stream == stream && to) {
            *link = pool->next;
            move_pool(a, pool, to);
            tni_free(a->device->ctx, pool, sizeof *pool);
            continue;
        }
        if (pool->stream == stream) pool->stream = home;
        link = &pool->next;
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- Out of memory ------------------------------------------------------------------------------------- */

static void wait_for_device(tni_device *device)
{
    if (!device->synchronous)
        tni_late_keep(device, tni_device_wait(device), "waiting for a device that is out of memory");
}

int32_t tni_out_of_memory(struct tni_allocator *a, uint64_t bytes)
{
    const tni_driver *driver = &a->device->type->driver;
    uint64_t free_bytes = 0, total = a->device->facts.total_memory;
    char name[64];
    if (driver->memory.info && driver->memory.info(driver->self, a->device->handle, &free_bytes, &total))
        free_bytes = 0;
    a->stats.out_of_memory++;
    int32_t status =
        tni_error_wrap(TN_E_OUT_OF_MEMORY,
                       "%s is out of memory: %llu bytes asked for; %llu of %llu bytes are free on "
                       "the device, %llu are in tensors, "
                       "%llu reserved, limit %llu",
                       tn_device_format(a->device->ctx, a->device->id, name, sizeof name),
                       (unsigned long long)bytes, (unsigned long long)free_bytes, (unsigned long long)total,
                       (unsigned long long)a->stats.allocated_bytes,
                       (unsigned long long)a->stats.reserved_bytes, (unsigned long long)a->limit);
    tni_error_plugin(driver->plugin);
    return status;
}

static void collect(struct tni_allocator *a)
{
    const tni_driver *driver = &a->device->type->driver;
    wait_for_device(a->device);
    tni_allocator_settle(a);
    tni_segments_release(a, 0);
    if (driver->memory.trim) (void)driver->memory.trim(driver->self, a->device->handle);
}

static uint64_t segment_bytes(uint64_t bytes)
{
    if (bytes <= TNI_SMALL_BLOCK) return TNI_SMALL_SEGMENT;
    if (bytes < TNI_LARGE_BLOCK) return TNI_LARGE_SEGMENT;
    return (bytes + TNI_SEGMENT_ROUND - 1) / TNI_SEGMENT_ROUND * TNI_SEGMENT_ROUND;
}

/* A second try with everything given back; the segment may then be just as large as the block. */
static int32_t grow_again(struct tni_allocator *a, tni_pool *pool, uint64_t bytes, tni_piece **out)
{
    if (a->shards) {
        pthread_mutex_unlock(&a->lock);
        tni_cache_flush(a);
        pthread_mutex_lock(&a->lock);
    }
    collect(a);
    *out = tni_pool_take(a, pool, bytes);
    int32_t status = *out ? TN_OK : tni_segment_create(a, pool, segment_bytes(bytes));
    if (status == TN_E_OUT_OF_MEMORY && segment_bytes(bytes) != bytes)
        status = tni_segment_create(a, pool, bytes);
    if (status) return status == TN_E_OUT_OF_MEMORY ? tni_out_of_memory(a, bytes) : status;
    a->stats.retries++;
    return TN_OK;
}

/* ---- Blocks -------------------------------------------------------------------------------------------- */

static int32_t take_or_grow(struct tni_allocator *a, tni_pool *pool, uint64_t bytes, tni_piece **out)
{
    tni_piece *p = tni_pool_take(a, pool, bytes);
    int32_t status = TN_OK;
    if (!p) {
        status = tni_segment_create(a, pool, segment_bytes(bytes));
        if (status == TN_E_OUT_OF_MEMORY) status = grow_again(a, pool, bytes, &p);
        if (!status && !p) p = tni_pool_take(a, pool, bytes);
    }
    *out = p;
    return status;
}

int32_t tni_central_alloc(struct tni_allocator *a, uint64_t bytes, tn_stream *stream, tni_piece **out)
{
    tni_piece *p = NULL;
    pthread_mutex_lock(&a->lock);
    if (a->waiting) tni_allocator_settle(a);
    tni_pool *pool = tni_pool_find(a, stream, bytes <= TNI_SMALL_BLOCK);
    int32_t status = pool ? take_or_grow(a, pool, bytes, &p) : TN_E_OUT_OF_MEMORY;
    pthread_mutex_unlock(&a->lock);
    if (!status) *out = p;
    return status;
}

void tni_central_free(struct tni_allocator *a, tni_piece *p)
{
    pthread_mutex_lock(&a->lock);
    if (p->segment->pool->capture) {
        tni_pool_give_captured(a, p);
        pthread_mutex_unlock(&a->lock);
        return;
    }
    mark_uses(a, p);
    if (p->uses) {
        p->state = TNI_PIECE_WAITING;
        tni_piece_list_add(&a->waiting, p);
    } else {
        tni_pool_give(a, p);
    }
    pthread_mutex_unlock(&a->lock);
}

static void count(struct tni_allocator *a, int64_t bytes, int64_t blocks)
{
    pthread_mutex_lock(&a->lock);
    tni_allocated_add(a, bytes, blocks);
    if (blocks > 0) a->stats.allocations += (uint64_t)blocks;
    pthread_mutex_unlock(&a->lock);
}

int32_t tni_block_alloc(tni_device *device, uint64_t bytes, tn_stream *stream, tni_block **out)
{
    struct tni_allocator *a = device->allocator;
    tni_piece *p = NULL;
    int32_t status = TN_OK;
    if (TNI_LIKELY(tni_has_cache(a, bytes))) {
        status = tni_cache_alloc(a, bytes, &p);
        if (!status) *out = &p->block;
        return status;
    }
    if (!bytes) {
        *out = &a->empty;
        return TN_OK;
    }
    if (bytes > INT64_MAX / 2)
        return tni_error(TN_E_OUT_OF_MEMORY, "%llu bytes are more than any device has",
                         (unsigned long long)bytes);
    if (a->direct)
        status = tni_direct_alloc(a, bytes, &p);
    else if (tni_allocator_is_replaced(a))
        status = tni_replaced_alloc(a, bytes, stream, &p);
    else
        status = tni_central_alloc(a, (bytes + a->granule - 1) / a->granule * a->granule, stream, &p);
    if (status) return status;
    count(a, (int64_t)p->block.bytes, 1);
    *out = &p->block;
    return TN_OK;
}

void tni_block_free(tni_block *block)
{
    if (!block || block == &block->allocator->empty) return;
    struct tni_allocator *a = block->allocator;
    tni_piece *p = (tni_piece *)block;
    if (tni_context_check(a->device->ctx)) return;
    if (p->cache_bin != TNI_NO_BIN && p->segment) {
        tni_cache_free(a, p);
        return;
    }
    count(a, -(int64_t)block->bytes, -1);
    if (p->segment)
        tni_central_free(a, p);
    else if (a->direct)
        tni_direct_free(a, p);
    else
        tni_replaced_free(a, p);
}

void tni_allocator_destroy(struct tni_allocator *a)
{
    if (!a) return;
    tni_device *device = a->device;
    tn_context *ctx = device->ctx;
    if (a->shards) tni_cache_flush(a);
    for (tni_piece *p = a->waiting; p; p = p->next) tni_free_uses(a, p); /* the device has been waited for */
    device->allocator = NULL;
    tni_segments_finish(a);
    tni_free(ctx, a->shards, TNI_SHARDS * sizeof *a->shards);
    pthread_mutex_destroy(&a->lock);
    tni_free(ctx, a, sizeof *a);
}
