/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations and free lists of the caching allocator: best fit, split and merge inside an allocation.
 *
 * A pool keeps its free blocks in bins by size, with a bit for each bin that is not empty. A request looks
 * into the bin of its size, then into the next bin that is not empty, and takes the smallest block that is
 * large enough.
 */
#include "core/allocator_history.h"
#include "core/current.h"
#include "core/graph.h"

static uint32_t bin_of(const struct tni_allocator *a, uint64_t bytes)
{
    uint64_t n = bytes / a->granule;
    if (n < TNI_EXACT_BINS) return (uint32_t)n;
    uint32_t e = 63u - (uint32_t)__builtin_clzll(n);
    uint32_t bin = TNI_EXACT_BINS + (e - 4) * 8 + (uint32_t)(n >> (e - 3) & 7);
    return bin < TNI_POOL_BINS ? bin : TNI_POOL_BINS - 1;
}

static void bin_add(struct tni_allocator *a, tni_block *b)
{
    tni_pool *pool = b->part_of->pool;
    uint32_t bin = bin_of(a, b->bytes);
    b->state = TNI_BLOCK_FREE;
    b->previous = NULL;
    b->next = pool->bins[bin];
    if (b->next) b->next->previous = b;
    pool->bins[bin] = b;
    pool->filled[bin / 64] |= 1ull << bin % 64;
    if (b->before || b->after) {
        tni_stat_add(a, TNI_STAT_INACTIVE_SPLIT, tni_groups_of(pool), 1);
        tni_stat_add(a, TNI_STAT_INACTIVE_SPLIT_BYTES, tni_groups_of(pool), (int64_t)b->bytes);
        return;
    }
    b->part_of->freed_at = ++a->last_freed;
    if (!pool->capture) a->idle += b->part_of->bytes;
}

static void bin_remove(struct tni_allocator *a, tni_block *b)
{
    tni_pool *pool = b->part_of->pool;
    uint32_t bin = bin_of(a, b->bytes);
    if (b->previous)
        b->previous->next = b->next;
    else
        pool->bins[bin] = b->next;
    if (b->next) b->next->previous = b->previous;
    if (!pool->bins[bin]) pool->filled[bin / 64] &= ~(1ull << bin % 64);
    b->previous = b->next = NULL;
    if (b->before || b->after) {
        tni_stat_add(a, TNI_STAT_INACTIVE_SPLIT, tni_groups_of(pool), -1);
        tni_stat_add(a, TNI_STAT_INACTIVE_SPLIT_BYTES, tni_groups_of(pool), -(int64_t)b->bytes);
    } else if (!pool->capture) {
        a->idle -= b->part_of->bytes;
    }
}

/* Of the private pool that this thread uses on the device, else 0. */
static uint64_t private_number(const struct tni_allocator *a)
{
    const tni_pool_user *u = a->pool_users;
    while (u && u->thread != tni_thread_number()) u = u->next;
    return u ? u->pool->number : 0;
}

tni_pool *tni_pool_find(struct tni_allocator *a, tn_stream *stream, int32_t small)
{
    if (a->device->synchronous || a->is_pinned) stream = NULL;
    uint64_t capture = tni_stream_pool(stream), number = capture ? 0 : private_number(a);
    for (tni_pool *p = a->pools; p; p = p->next) {
        if (p->stream == stream && p->small == small && p->capture == capture && p->number == number)
            return p;
    }
    tni_pool *p = tni_alloc_zeroed(a->device->ctx, sizeof *p);
    if (!p) return NULL;
    p->stream = stream;
    p->small = small;
    p->capture = capture;
    p->number = number;
    p->owner = a->private_pools;
    while (p->owner && p->owner->number != (capture ? capture : number)) p->owner = p->owner->next;
    p->next = a->pools;
    a->pools = p;
    return p;
}

static tni_block *smallest(tni_block *list, uint64_t bytes)
{
    tni_block *best = NULL;
    for (tni_block *b = list; b; b = b->next) {
        if (b->bytes < bytes || (best && b->bytes >= best->bytes)) continue;
        best = b;
        if (b->bytes == bytes) break;
    }
    return best;
}

static tni_block *best_fit(const struct tni_allocator *a, const tni_pool *pool, uint64_t bytes)
{
    uint32_t bin = bin_of(a, bytes), word = bin / 64;
    tni_block *b = smallest(pool->bins[bin], bytes);
    if (b) return b;
    uint64_t bits = bin % 64 == 63 ? 0 : pool->filled[word] & ~0ull << (bin % 64 + 1);
    while (!bits && ++word < sizeof pool->filled / sizeof *pool->filled) bits = pool->filled[word];
    return bits ? smallest(pool->bins[word * 64 + (uint32_t)__builtin_ctzll(bits)], bytes) : NULL;
}

tni_block *tni_block_create(struct tni_allocator *a, tni_allocation *part_of)
{
    tni_block *b = tni_alloc_zeroed(a->device->ctx, sizeof *b);
    if (!b) return NULL;
    b->allocation = part_of->memory.allocation;
    b->allocator = a;
    b->part_of = part_of;
    b->cache_bin = TNI_NO_BIN;
    return b;
}

/* Puts a new block of so many bytes behind `b`. */
static void follow(tni_block *b, tni_block *r, uint64_t bytes)
{
    r->offset = b->offset + b->bytes;
    r->bytes = bytes;
    r->host = b->host ? (char *)b->host + b->bytes : NULL;
    r->address = b->address ? b->address + b->bytes : 0;
    r->before = b;
    r->after = b->after;
    if (r->after) r->after->before = r;
    b->after = r;
}

/* Cuts a block (in no bin) after `bytes`; the rest becomes a free block. Without memory for the rest's struct
 * the block stays whole. */
static void split(struct tni_allocator *a, tni_block *b, uint64_t bytes)
{
    uint64_t rest = b->bytes - bytes, most = a->options.max_split;
    if (most && !b->part_of->pool->small && !b->part_of->range && bytes >= most) return;
    if (b->part_of->pool->small ? rest < a->granule : rest <= TNI_SMALL_BLOCK) return;
    tni_block *r = tni_block_create(a, b->part_of);
    if (!r) return;
    b->bytes = bytes;
    follow(b, r, rest);
    bin_add(a, r);
}

/* Blocks of max_split_size and more serve only requests of that size, and none that is much smaller than the
 * block. */
static int32_t may_serve(const struct tni_allocator *a, const tni_block *b, uint64_t bytes)
{
    uint64_t most = a->options.max_split;
    if (!most || b->part_of->range) return 1;
    return bytes < most ? b->bytes < most : b->bytes < bytes + TNI_LARGE_ALLOCATION;
}

tni_block *tni_pool_take(struct tni_allocator *a, tni_pool *pool, uint64_t bytes)
{
    tni_block *b = best_fit(a, pool, bytes);
    if (!b || !may_serve(a, b, bytes)) return NULL;
    tni_pool_take_block(a, b, bytes);
    return b;
}

void tni_pool_take_block(struct tni_allocator *a, tni_block *b, uint64_t bytes)
{
    bin_remove(a, b);
    b->state = TNI_BLOCK_USED;
    b->cache_bin = TNI_NO_BIN;
    split(a, b, bytes);
}

/* Merges `second` into its neighbour `first`; both are in no bin. */
static void join(struct tni_allocator *a, tni_block *first, tni_block *second)
{
    first->bytes += second->bytes;
    first->after = second->after;
    if (first->after) first->after->before = first;
    tni_free(a->device->ctx, second, sizeof *second);
}

/* Counts `count` allocations (1 or -1) like this one in the groups of its pool. */
static void count_allocations(struct tni_allocator *a, const tni_allocation *s, int64_t count)
{
    tn_memory_pool *owner = s->pool->owner;
    tni_stat_add(a, TNI_STAT_SEGMENT, tni_groups_of(s->pool), count);
    tni_stat_add(a, TNI_STAT_RESERVED_BYTES, tni_groups_of(s->pool), count * (int64_t)s->bytes);
    if (!owner) return;
    owner->stats.segments += (uint64_t)count;
    owner->stats.reserved_bytes += (uint64_t)(count * (int64_t)s->bytes);
    if (count > 0) owner->stats.device_allocations++;
    if (owner->stats.reserved_bytes > owner->stats.reserved_peak)
        owner->stats.reserved_peak = owner->stats.reserved_bytes;
}

/* Takes an allocation that is wholly free, and in no bin, off the lists. */
static void let_go(struct tni_allocator *a, tni_allocation *s)
{
    if (s->previous)
        s->previous->next = s->next;
    else
        a->allocations = s->next;
    if (s->next) s->next->previous = s->previous;
    a->stats.reserved_bytes -= s->bytes;
    a->stats.segments--;
    tni_history_segment(a, TNI_HISTORY_SEGMENT_FREE, s);
    count_allocations(a, s, -1);
    s->next = a->gone;
    a->gone = s;
}

void tni_allocations_destroy(struct tni_allocator *a, tni_allocation *list)
{
    for (tni_allocation *s = list, *next; s; s = next) {
        next = s->next;
        tni_device_free(a, &s->memory);
        for (tni_block *b = s->first, *after; b; b = after) {
            after = b->after;
            tni_free(a->device->ctx, b, sizeof *b);
        }
        tni_free(a->device->ctx, s, sizeof *s);
    }
}

void tni_pool_give(struct tni_allocator *a, tni_block *b)
{
    if (b->after && b->after->state == TNI_BLOCK_FREE) {
        bin_remove(a, b->after);
        join(a, b, b->after);
    }
    if (b->before && b->before->state == TNI_BLOCK_FREE) {
        tni_block *before = b->before;
        bin_remove(a, before);
        join(a, before, b);
        b = before;
    }
    bin_add(a, b);
    if (a->keep && a->idle > a->keep && !b->before && !b->after) tni_allocations_release(a, a->keep);
}

int32_t tni_memory_check(const tni_device *d, const char *slot, const tn_memory *memory, uint64_t bytes)
{
    const char *plugin = d->type->driver.plugin;
    uint64_t alignment = d->facts.alignment > 64 || !d->synchronous ? d->facts.alignment : 64;
    if (!memory->allocation) return tni_no_handle(d->type, slot);
    if (memory->size != sizeof *memory)
        return tni_error(TN_E_CONTRACT, "plugin %s: %s changed the size of its output to %u", plugin, slot,
                         memory->size);
    if (memory->bytes && memory->bytes < bytes)
        return tni_error(TN_E_CONTRACT, "plugin %s: %s gave %llu bytes (asked for %llu)", plugin, slot,
                         (unsigned long long)memory->bytes, (unsigned long long)bytes);
    if (d->synchronous && !memory->host)
        return tni_error(TN_E_CONTRACT, "plugin %s: memory of a host device has no address", plugin);
    if (memory->host && alignment && (uintptr_t)memory->host % alignment)
        return tni_error(TN_E_CONTRACT, "plugin %s: memory at %p is not aligned to %llu bytes", plugin,
                         memory->host, (unsigned long long)alignment);
    if (alignment && (memory->address % alignment || memory->offset % alignment))
        return tni_error(TN_E_CONTRACT,
                         "plugin %s: memory at address 0x%llx, offset %llu is not aligned to %llu bytes",
                         plugin, (unsigned long long)memory->address, (unsigned long long)memory->offset,
                         (unsigned long long)alignment);
    return TN_OK;
}

/* Pinned memory may have no allocation. */
static int32_t check_pinned(const tni_device *d, const tn_memory *memory, uint64_t bytes)
{
    const char *plugin = d->type->driver.plugin;
    if (memory->size == sizeof *memory && memory->host && (!memory->bytes || memory->bytes >= bytes))
        return TN_OK;
    return tni_error(TN_E_CONTRACT, "plugin %s: pinned memory of %llu bytes at %p (asked for %llu)", plugin,
                     (unsigned long long)memory->bytes, memory->host, (unsigned long long)bytes);
}

int32_t tni_reserve_bytes(struct tni_allocator *a, uint64_t bytes)
{
    tni_allocator_enter(a);
    uint64_t limit = a->limit;
    int32_t fits = !limit || (bytes <= limit && a->stats.reserved_bytes <= limit - bytes);
    if (fits) a->stats.reserved_bytes += bytes;
    tni_allocator_leave(a);
    if (fits) return TN_OK;
    return tni_error(TN_E_OUT_OF_MEMORY, "the allocator's limit of %llu bytes is reached",
                     (unsigned long long)limit);
}

void tni_unreserve_bytes(struct tni_allocator *a, uint64_t bytes)
{
    tni_allocator_enter(a);
    a->stats.reserved_bytes -= bytes;
    tni_allocator_leave(a);
}

static int32_t ask_driver(const struct tni_allocator *a, uint64_t bytes, uint32_t flags, tn_memory *out)
{
    const tni_device *d = a->device;
    const tni_driver *driver = &d->type->driver;
    const tn_memory_request request = {.size = sizeof request,
                                       .kind = a->is_pinned ? TN_MEMORY_HOST : d->memory_kind,
                                       .flags = flags,
                                       .bytes = bytes};
    if (a->is_pinned && !tni_gives_pinned(d)) return tni_pages_pin(d, bytes, out);
    int32_t status = driver->memory.alloc(driver->self, d->handle, &request, out);
    return status ? tni_driver_error(d->type, status, "allocation of device memory") : TN_OK;
}

void tni_device_free(const struct tni_allocator *a, const tn_memory *memory)
{
    const tni_driver *driver = &a->device->type->driver;
    if (a->is_pinned && !tni_gives_pinned(a->device))
        tni_pages_unpin(a->device, memory);
    else
        driver->memory.free(driver->self, a->device->handle, memory);
}

int32_t tni_device_alloc(struct tni_allocator *a, uint64_t bytes, uint32_t flags, tn_memory *out)
{
    tn_memory memory = {.size = sizeof memory};
    int32_t status = tni_reserve_bytes(a, bytes);
    if (status) return status;
    status = ask_driver(a, bytes, flags, &memory);
    int32_t was_given = !status;
    if (!status)
        status = a->is_pinned ? check_pinned(a->device, &memory, bytes)
                              : tni_memory_check(a->device, "memory.alloc", &memory, bytes);
    if (status && was_given && (memory.allocation || memory.host)) tni_device_free(a, &memory);
    if (status) {
        tni_unreserve_bytes(a, bytes);
        return status;
    }
    if (!memory.bytes) memory.bytes = bytes;
    *out = memory;
    return TN_OK;
}

void tni_device_alloc_count(struct tni_allocator *a)
{
    a->stats.segments++;
    a->stats.device_allocations++;
    if (a->stats.reserved_bytes > a->stats.reserved_peak) a->stats.reserved_peak = a->stats.reserved_bytes;
}

int32_t tni_allocation_create(struct tni_allocator *a, uint64_t bytes, uint64_t range, tni_allocation **out)
{
    tn_context *ctx = a->device->ctx;
    tni_allocation *s = tni_alloc_zeroed(ctx, sizeof *s);
    int32_t status = s && (s->first = tni_block_create(a, s)) ? TN_OK : TN_E_OUT_OF_MEMORY;
    if (!status)
        status = range ? tni_expandable_alloc(a, range, bytes, &s->memory)
                       : tni_device_alloc(a, bytes, 0, &s->memory);
    if (status) {
        if (s) tni_free(ctx, s->first, sizeof *s->first);
        tni_free(ctx, s, sizeof *s);
        return status;
    }
    s->bytes = bytes;
    s->range = range;
    tni_block_show(s->first, &s->memory);
    s->first->bytes = bytes;
    *out = s;
    return TN_OK;
}

void tni_allocation_add(struct tni_allocator *a, tni_pool *pool, tni_allocation *s)
{
    s->pool = pool;
    s->is_captured = pool->capture != 0;
    s->next = a->allocations;
    if (s->next) s->next->previous = s;
    a->allocations = s;
    a->last_place += 1ull << 40; /* more than any allocation has */
    s->place = s->first->host ? (uint64_t)(uintptr_t)s->first->host : a->last_place;
    tni_history_segment(a, TNI_HISTORY_SEGMENT_ALLOC, s);
    count_allocations(a, s, 1);
    bin_add(a, s->first);
    tni_device_alloc_count(a);
}

static int32_t is_wholly_free(const tni_allocation *s)
{
    return !s->first->after && s->first->state == TNI_BLOCK_FREE && !s->is_resizing;
}

void tni_allocations_release(struct tni_allocator *a, uint64_t keep)
{
    for (tni_allocation *s = a->allocations, *next; s && a->idle > keep; s = next) {
        next = s->next;
        if (!is_wholly_free(s) || s->is_captured) continue;
        bin_remove(a, s->first);
        let_go(a, s);
    }
}

void tni_allocations_collect(struct tni_allocator *a, uint64_t most)
{
    while (a->stats.reserved_bytes > most) {
        tni_allocation *oldest = NULL;
        for (tni_allocation *s = a->allocations; s; s = s->next) {
            if (is_wholly_free(s) && !s->is_captured && (!oldest || s->freed_at < oldest->freed_at))
                oldest = s;
        }
        if (!oldest) return;
        bin_remove(a, oldest->first);
        let_go(a, oldest);
    }
}

/* ---- Allocations that grow ----------------------------------------------------------------------------- */

/* The bytes of an allocation have changed by so many; no free block of it is in a bin as the whole of it. */
static void count_change(struct tni_allocator *a, tni_allocation *s, int64_t bytes)
{
    tn_memory_pool *owner = s->pool->owner;
    uint64_t end = s->place + s->bytes, amount = (uint64_t)(bytes < 0 ? -bytes : bytes);
    s->bytes += (uint64_t)bytes;
    tni_stat_add(a, TNI_STAT_RESERVED_BYTES, tni_groups_of(s->pool), bytes);
    if (owner) owner->stats.reserved_bytes += (uint64_t)bytes;
    if (owner && owner->stats.reserved_bytes > owner->stats.reserved_peak)
        owner->stats.reserved_peak = owner->stats.reserved_bytes;
    if (a->history)
        tni_history_note(a, bytes > 0 ? TNI_HISTORY_SEGMENT_MAP : TNI_HISTORY_SEGMENT_UNMAP,
                         bytes > 0 ? end : end - amount, amount, s->pool->stream);
}

void tni_allocation_grown(struct tni_allocator *a, tni_allocation *s, uint64_t bytes, tni_block *spare)
{
    tni_block *last = s->first;
    while (last->after) last = last->after;
    if (last->state == TNI_BLOCK_FREE) bin_remove(a, last);
    count_change(a, s, (int64_t)bytes);
    if (a->stats.reserved_bytes > a->stats.reserved_peak) a->stats.reserved_peak = a->stats.reserved_bytes;
    a->stats.device_allocations++;
    follow(last, spare, bytes);
    if (last->state != TNI_BLOCK_FREE) {
        bin_add(a, spare);
        return;
    }
    join(a, last, spare);
    bin_add(a, last);
}

uint64_t tni_allocation_cut(struct tni_allocator *a, tni_allocation *s, uint64_t unit)
{
    tni_block *last = s->first;
    while (last->after) last = last->after;
    uint64_t start = last->offset - s->first->offset, keep = (start + unit - 1) / unit * unit;
    if (last->state != TNI_BLOCK_FREE || !start || keep >= s->bytes) return 0;
    uint64_t bytes = s->bytes - keep;
    bin_remove(a, last);
    count_change(a, s, -(int64_t)bytes);
    a->stats.reserved_bytes -= bytes;
    if (keep > start) {
        last->bytes = keep - start;
        bin_add(a, last);
    } else {
        last->before->after = NULL;
        tni_free(a->device->ctx, last, sizeof *last);
    }
    return bytes;
}

/* ---- Memory of captures -------------------------------------------------------------------------------- */

static void let_go_if_free(struct tni_allocator *a, tni_allocation *s)
{
    if (!is_wholly_free(s)) return;
    bin_remove(a, s->first);
    let_go(a, s);
}

/* Removes pools that have ended and have no allocation left. */
static void drop_ended_pools(struct tni_allocator *a)
{
    for (tni_pool **link = &a->pools; *link;) {
        tni_pool *pool = *link;
        const tni_allocation *s = a->allocations;
        while (s && s->pool != pool) s = s->next;
        if (s || !pool->ended) {
            link = &pool->next;
            continue;
        }
        *link = pool->next;
        tni_free(a->device->ctx, pool, sizeof *pool);
    }
}

/* 1 if streams that still exist use the block. */
static int32_t is_shared(const tni_block *b)
{
    const tni_use *u = b->uses;
    while (u && atomic_load_explicit(&u->stream->id, memory_order_acquire) != u->id) u = u->next;
    return u != NULL;
}

/*
 * While the graph exists only its own capture takes the block again, which on the block's stream is in order;
 * a block that other streams used is parked. After that a program may have used the block on any stream, so
 * its allocation goes back to the device, after a wait for its work.
 */
void tni_pool_give_captured(struct tni_allocator *a, tni_block *b)
{
    tni_allocation *s = b->part_of;
    tni_pool *pool = s->pool;
    int32_t shared = is_shared(b);
    tni_uses_free(a, b); /* they have no events */
    if (shared && !pool->ended) {
        b->state = TNI_BLOCK_WAITING;
        tni_block_list_push(&pool->parked, b);
        return;
    }
    tni_pool_give(a, b);
    if (!pool->ended) return;
    let_go_if_free(a, s);
    drop_ended_pools(a);
}

void tni_pool_end(struct tni_allocator *a, uint64_t capture)
{
    tni_allocator_enter(a);
    for (tni_pool *pool = a->pools; pool; pool = pool->next) {
        if (pool->capture != capture) continue;
        pool->ended = 1;
        while (pool->parked) tni_pool_give(a, tni_block_list_pop(&pool->parked));
    }
    for (tni_allocation *s = a->allocations, *next; s; s = next) {
        next = s->next;
        if (s->pool->ended) let_go_if_free(a, s);
    }
    drop_ended_pools(a);
    tni_allocator_leave(a);
}

void tni_pools_finish(struct tni_allocator *a)
{
    tni_allocations_destroy(a, a->allocations);
    a->allocations = NULL;
    for (tni_pool *p = a->pools, *next; p; p = next) {
        next = p->next;
        tni_free(a->device->ctx, p, sizeof *p);
    }
    a->pools = NULL;
}
