/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments and free lists of the caching allocator: best fit, split and merge inside a segment. All functions
 * run with the allocator's lock held.
 *
 * A pool keeps its free pieces in bins by size, with a bit for each bin that is not empty: a request looks at
 * its own bin, then at the next one that has any, and takes the smallest piece that is large enough.
 */
#include "core/allocator.h"
#include "core/graph.h"

static uint32_t bin_of(const struct tni_allocator *a, uint64_t bytes)
{
    uint64_t n = bytes / a->granule;
    if (n < TNI_EXACT_BINS) return (uint32_t)n;
    uint32_t e = 63u - (uint32_t)__builtin_clzll(n);
    uint32_t bin = TNI_EXACT_BINS + (e - 4) * 8 + (uint32_t)(n >> (e - 3) & 7);
    return bin < TNI_POOL_BINS ? bin : TNI_POOL_BINS - 1;
}

static void bin_add(struct tni_allocator *a, tni_piece *p)
{
    tni_pool *pool = p->segment->pool;
    uint32_t bin = bin_of(a, p->block.bytes);
    p->state = TNI_PIECE_FREE;
    p->previous = NULL;
    p->next = pool->bins[bin];
    if (p->next) p->next->previous = p;
    pool->bins[bin] = p;
    pool->filled[bin / 64] |= 1ull << bin % 64;
    if (!p->before && !p->after && !pool->capture) a->idle += p->segment->bytes;
}

static void bin_remove(struct tni_allocator *a, tni_piece *p)
{
    tni_pool *pool = p->segment->pool;
    uint32_t bin = bin_of(a, p->block.bytes);
    if (p->previous)
        p->previous->next = p->next;
    else
        pool->bins[bin] = p->next;
    if (p->next) p->next->previous = p->previous;
    if (!pool->bins[bin]) pool->filled[bin / 64] &= ~(1ull << bin % 64);
    p->previous = p->next = NULL;
    if (!p->before && !p->after && !pool->capture) a->idle -= p->segment->bytes;
}

tni_pool *tni_pool_find(struct tni_allocator *a, tn_stream *stream, int32_t small)
{
    if (a->device->synchronous) stream = NULL;
    uint64_t capture = tni_stream_capture(stream);
    for (tni_pool *p = a->pools; p; p = p->next) {
        if (p->stream == stream && p->small == small && p->capture == capture) return p;
    }
    tni_pool *p = tni_alloc_zeroed(a->device->ctx, sizeof *p);
    if (!p) return NULL;
    p->stream = stream;
    p->small = small;
    p->capture = capture;
    p->next = a->pools;
    a->pools = p;
    return p;
}

static tni_piece *smallest(tni_piece *list, uint64_t bytes)
{
    tni_piece *best = NULL;
    for (tni_piece *p = list; p; p = p->next) {
        if (p->block.bytes < bytes || (best && p->block.bytes >= best->block.bytes)) continue;
        best = p;
        if (p->block.bytes == bytes) break;
    }
    return best;
}

static tni_piece *best_fit(const struct tni_allocator *a, const tni_pool *pool, uint64_t bytes)
{
    uint32_t bin = bin_of(a, bytes), word = bin / 64;
    tni_piece *p = smallest(pool->bins[bin], bytes);
    if (p) return p;
    uint64_t bits = bin % 64 == 63 ? 0 : pool->filled[word] & ~0ull << (bin % 64 + 1);
    while (!bits && ++word < sizeof pool->filled / sizeof *pool->filled) bits = pool->filled[word];
    return bits ? smallest(pool->bins[word * 64 + (uint32_t)__builtin_ctzll(bits)], bytes) : NULL;
}

/* Cuts a piece (in no bin) after `bytes`; the rest becomes free. Without memory for it the piece stays whole.
 */
static void split(struct tni_allocator *a, tni_piece *p, uint64_t bytes)
{
    uint64_t rest = p->block.bytes - bytes;
    if (p->segment->pool->small ? rest < a->granule : rest <= TNI_SMALL_BLOCK) return;
    tni_piece *r = tni_alloc_zeroed(a->device->ctx, sizeof *r);
    if (!r) return;
    r->block = p->block;
    r->block.offset += bytes;
    r->block.bytes = rest;
    if (r->block.host) r->block.host = (char *)r->block.host + bytes;
    r->segment = p->segment;
    r->cache_bin = TNI_NO_BIN;
    r->before = p;
    r->after = p->after;
    if (r->after) r->after->before = r;
    p->after = r;
    p->block.bytes = bytes;
    bin_add(a, r);
}

tni_piece *tni_pool_take(struct tni_allocator *a, tni_pool *pool, uint64_t bytes)
{
    tni_piece *p = best_fit(a, pool, bytes);
    if (!p) return NULL;
    bin_remove(a, p);
    p->state = TNI_PIECE_USED;
    p->cache_bin = TNI_NO_BIN;
    split(a, p, bytes);
    return p;
}

/* Takes `second` into its neighbour `first`; both are in no bin. */
static void join(struct tni_allocator *a, tni_piece *first, tni_piece *second)
{
    first->block.bytes += second->block.bytes;
    first->after = second->after;
    if (first->after) first->after->before = first;
    tni_free(a->device->ctx, second, sizeof *second);
}

static void destroy_segment(struct tni_allocator *a, tni_segment *s)
{
    const tni_driver *driver = &a->device->type->driver;
    driver->memory.free(driver->self, a->device->handle, s->allocation, s->bytes);
    a->stats.reserved_bytes -= s->bytes;
    a->stats.segments--;
    if (s->previous)
        s->previous->next = s->next;
    else
        a->segments = s->next;
    if (s->next) s->next->previous = s->previous;
    for (tni_piece *p = s->first, *after; p; p = after) {
        after = p->after;
        tni_free(a->device->ctx, p, sizeof *p);
    }
    tni_free(a->device->ctx, s, sizeof *s);
}

void tni_pool_give(struct tni_allocator *a, tni_piece *p)
{
    if (p->after && p->after->state == TNI_PIECE_FREE) {
        bin_remove(a, p->after);
        join(a, p, p->after);
    }
    if (p->before && p->before->state == TNI_PIECE_FREE) {
        tni_piece *b = p->before;
        bin_remove(a, b);
        join(a, b, p);
        p = b;
    }
    bin_add(a, p);
    if (a->keep && a->idle > a->keep && !p->before && !p->after) tni_segments_release(a, a->keep);
}

/* Kernels rely on it without looking. */
int32_t tni_check_memory(const tni_device *d, const void *allocation, const void *host)
{
    uint64_t alignment = d->facts.alignment > 64 || !d->synchronous ? d->facts.alignment : 64;
    if (!allocation) return tni_no_handle(d->type, "memory.alloc");
    if (d->synchronous && !host)
        return tni_error(TN_E_CONTRACT, "plugin %s: memory of a host device has no address",
                         d->type->driver.plugin);
    if (host && alignment && (uintptr_t)host % alignment)
        return tni_error(TN_E_CONTRACT, "plugin %s: memory at %p is not aligned to %llu bytes",
                         d->type->driver.plugin, host, (unsigned long long)alignment);
    return TN_OK;
}

int32_t tni_segment_create(struct tni_allocator *a, tni_pool *pool, uint64_t bytes)
{
    tni_device *d = a->device;
    const tni_driver *driver = &d->type->driver;
    if (a->limit && (bytes > a->limit || a->stats.reserved_bytes > a->limit - bytes))
        return tni_error(TN_E_OUT_OF_MEMORY, "the allocator's limit of %llu bytes is reached",
                         (unsigned long long)a->limit);
    tni_segment *s = tni_alloc_zeroed(d->ctx, sizeof *s);
    tni_piece *p = tni_alloc_zeroed(d->ctx, sizeof *p);
    int32_t status = s && p ? TN_OK : TN_E_OUT_OF_MEMORY;
    void *host = NULL;
    if (!status) {
        status = driver->memory.alloc(driver->self, d->handle, bytes, d->memory_kind, &s->allocation, &host);
        if (status) status = tni_driver_error(d->type, status, "allocation of device memory");
    }
    if (!status && (status = tni_check_memory(d, s->allocation, host)) && s->allocation)
        driver->memory.free(driver->self, d->handle, s->allocation, bytes);
    if (status) {
        tni_free(d->ctx, s, sizeof *s);
        tni_free(d->ctx, p, sizeof *p);
        return status;
    }
    *s = (tni_segment){NULL, a->segments, pool, p, s->allocation, host, bytes};
    if (s->next) s->next->previous = s;
    a->segments = s;
    p->block = (tni_block){s->allocation, 0, host, bytes, a};
    p->segment = s;
    p->cache_bin = TNI_NO_BIN;
    bin_add(a, p);
    a->stats.segments++;
    a->stats.device_allocations++;
    a->stats.reserved_bytes += bytes;
    if (a->stats.reserved_bytes > a->stats.reserved_peak) a->stats.reserved_peak = a->stats.reserved_bytes;
    return TN_OK;
}

void tni_segments_release(struct tni_allocator *a, uint64_t keep)
{
    for (tni_segment *s = a->segments, *next; s && a->idle > keep; s = next) {
        next = s->next;
        if (s->first->after || s->first->state != TNI_PIECE_FREE || s->pool->capture) continue;
        bin_remove(a, s->first);
        destroy_segment(a, s);
    }
}

/* ---- Memory of captures -------------------------------------------------------------------------------- */

static void destroy_if_free(struct tni_allocator *a, tni_segment *s)
{
    if (s->first->after || s->first->state != TNI_PIECE_FREE) return;
    bin_remove(a, s->first);
    destroy_segment(a, s);
}

/* Pools that have ended and have no segment left. */
static void drop_ended_pools(struct tni_allocator *a)
{
    for (tni_pool **link = &a->pools; *link;) {
        tni_pool *pool = *link;
        const tni_segment *s = a->segments;
        while (s && s->pool != pool) s = s->next;
        if (s || !pool->ended) {
            link = &pool->next;
            continue;
        }
        *link = pool->next;
        tni_free(a->device->ctx, pool, sizeof *pool);
    }
}

/*
 * While the graph is there nothing but its own capture takes the piece, which on the piece's stream is in
 * order; with uses on other streams it rests. Afterwards a program may have used it on any stream it likes,
 * so the device is waited for before the memory goes back.
 */
void tni_pool_give_captured(struct tni_allocator *a, tni_piece *p)
{
    tni_pool *pool = p->segment->pool;
    tni_segment *s = p->segment;
    int32_t shared = p->uses != NULL;
    tni_free_uses(a, p);
    if (shared && !pool->ended) {
        p->state = TNI_PIECE_WAITING;
        tni_piece_list_add(&pool->parked, p);
        return;
    }
    tni_pool_give(a, p);
    if (!pool->ended || s->first->after || s->first->state != TNI_PIECE_FREE) return;
    tni_late_keep(a->device, tni_device_wait(a->device), "waiting for a device");
    destroy_if_free(a, s);
    drop_ended_pools(a);
}

void tni_pool_end(struct tni_allocator *a, uint64_t capture)
{
    pthread_mutex_lock(&a->lock);
    for (tni_pool *pool = a->pools; pool; pool = pool->next) {
        if (pool->capture != capture) continue;
        pool->ended = 1;
        while (pool->parked) {
            tni_piece *p = pool->parked;
            tni_piece_list_remove(&pool->parked, p);
            tni_pool_give(a, p);
        }
    }
    for (tni_segment *s = a->segments, *next; s; s = next) {
        next = s->next;
        if (s->pool->ended) destroy_if_free(a, s);
    }
    drop_ended_pools(a);
    pthread_mutex_unlock(&a->lock);
}

void tni_segments_finish(struct tni_allocator *a)
{
    while (a->segments) destroy_segment(a, a->segments);
    for (tni_pool *p = a->pools, *next; p; p = next) {
        next = p->next;
        tni_free(a->device->ctx, p, sizeof *p);
    }
    a->pools = NULL;
}
