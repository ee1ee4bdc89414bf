/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caching allocator's front: handing blocks out and taking them back, blocks that several streams use,
 * and asking the device again when it is out of memory. The lists are in allocator_pool.c. If a plugin brings an
 * allocator of its own, or the user does, that is asked instead, and only the counting is done here.
 */
#include <string.h>
#include "core/allocator_history.h"
#include "core/current.h"
#include "core/graph.h"
#include "core/profile.h"

int32_t tni_allocator_is_replaced(const struct tni_allocator *a)
{
    const tn_allocator_interface *own = &a->device->type->driver.allocator;
    return !a->is_pinned && ((own->size && own->alloc) || atomic_load(&a->user));
}

/* Under AddressSanitizer each block of host memory is an allocation, so that it sees accesses out of
 * bounds. */
static int32_t is_watched(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return 1;
#else
    return TN_HAS_FEATURE(address_sanitizer);
#endif
}

/* Free host memory above this goes back to the system at once, because the system cannot ask for it. */
static uint64_t host_keep(const tni_device *device)
{
    uint64_t keep = device->facts.total_memory / 16;
    const uint64_t least = 64ull << 20, most = 4ull << 30;
    return keep < least ? least : keep > most ? most : keep;
}

tni_device *tni_allocator_device(const struct tni_allocator *a)
{
    return a->device;
}

int32_t tni_allocator_create(tni_device *device, int32_t is_pinned, struct tni_allocator **out)
{
    tn_context *ctx = device->ctx;
    struct tni_allocator *a = tni_alloc_zeroed(ctx, sizeof *a);
    if (!a) return TN_E_OUT_OF_MEMORY;
    a->device = device;
    a->is_pinned = is_pinned;
    a->granule = device->synchronous ? 64 : 512;
    if (a->granule < device->facts.alignment) a->granule = device->facts.alignment;
    a->empty.allocator = a;
    a->is_watched = device->synchronous && is_watched() && !tni_allocator_is_replaced(a);
    a->direct = a->is_watched;
    if (device->synchronous) a->keep = host_keep(device);
    if (device->synchronous && !a->direct && !tni_allocator_is_replaced(a) && a->granule == 64) {
        a->shards = tni_alloc_zeroed(ctx, TNI_SHARDS * sizeof *a->shards);
        if (!a->shards) {
            tni_free(ctx, a, sizeof *a);
            return TN_E_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->quiet, NULL);
    if (tni_profile_flags(ctx) & TN_PROFILE_MEMORY && !is_pinned) a->watchers = TNI_WATCH_PROFILE;
    tni_cache_choose(a);
    if (ctx->memory_options && !is_pinned) {
        int32_t status = tni_allocator_configure(a, ctx->memory_options);
        if (status) {
            tni_allocator_destroy(a);
            return status;
        }
    }
    *out = a;
    return TN_OK;
}

void tni_cache_choose(struct tni_allocator *a)
{
    int32_t has_cache = a->shards && !a->watchers && !a->direct && !tni_allocator_is_replaced(a);
    atomic_store(&a->cache_most, has_cache ? TNI_SMALL_BLOCK : 0);
}

void tni_allocator_end_busy(struct tni_allocator *a)
{
    a->busy--;
    pthread_cond_broadcast(&a->quiet);
}

void tni_allocator_leave(struct tni_allocator *a)
{
    tni_allocation *gone = a->gone, *cut = a->cut;
    a->gone = a->cut = NULL;
    a->busy += gone || cut;
    pthread_mutex_unlock(&a->lock);
    if (TNI_LIKELY(!gone && !cut)) return;
    /* Whoever waited before the lock was taken may have waited too early: a block is free before the work of its stream has
     * run, and other threads free blocks at any time. A block of pinned memory is free only when its streams have passed. */
    if (!a->device->synchronous && !a->is_pinned)
        tni_late_keep(a->device, tni_device_wait(a->device), "waiting for a device whose memory goes back");
    tni_allocations_destroy(a, gone);
    tni_expandable_finish_cut(a, cut);
    pthread_mutex_lock(&a->lock);
    for (tni_allocation *s = cut; s; s = s->next_cut) s->is_resizing = 0;
    tni_allocator_end_busy(a);
    pthread_mutex_unlock(&a->lock);
}

void tni_allocated_add(struct tni_allocator *a, uint32_t groups, int64_t bytes, int64_t blocks)
{
    tni_stat_add(a, TNI_STAT_ALLOCATION, groups, blocks);
    tni_stat_add(a, TNI_STAT_ALLOCATED_BYTES, groups, bytes);
    a->stats.allocated_bytes += (uint64_t)bytes;
    a->stats.active_blocks += (uint64_t)blocks;
    /* Counts of caches arrive late, so the sum may dip below zero for a moment. */
    if ((int64_t)a->stats.allocated_bytes > (int64_t)a->stats.allocated_peak)
        a->stats.allocated_peak = a->stats.allocated_bytes;
}

static void tell_watchers(const struct tni_allocator *a, int64_t change)
{
    if (a->watchers & TNI_WATCH_PROFILE)
        tni_profile_memory(a->device, change, a->stats.allocated_bytes, a->stats.reserved_bytes);
}

/* Counts `blocks` blocks (1 or -1) like this one, which is handed out or taken back. */
static void count_blocks(struct tni_allocator *a, const tni_block *b, int64_t blocks)
{
    uint32_t groups = tni_groups_of_block(b);
    tn_memory_pool *owner = b->part_of ? b->part_of->pool->owner : NULL;
    tni_allocated_add(a, groups, blocks * (int64_t)b->bytes, blocks);
    tni_stat_add(a, TNI_STAT_REQUESTED_BYTES, groups, blocks * (int64_t)b->asked);
    if (TNI_UNLIKELY(a->watchers)) tell_watchers(a, blocks * (int64_t)b->bytes);
    if (!owner) return;
    tn_memory_stats *stats = &owner->stats;
    stats->allocated_bytes += (uint64_t)(blocks * (int64_t)b->bytes);
    stats->active_blocks += (uint64_t)blocks;
    if (blocks > 0) stats->allocations++;
    if (stats->allocated_bytes > stats->allocated_peak) stats->allocated_peak = stats->allocated_bytes;
}

void tni_block_count(struct tni_allocator *a, const tni_block *b)
{
    count_blocks(a, b, 1);
    tni_stat_add(a, TNI_STAT_ACTIVE, tni_groups_of_block(b), 1);
    tni_stat_add(a, TNI_STAT_ACTIVE_BYTES, tni_groups_of_block(b), (int64_t)b->bytes);
    a->stats.allocations++;
    tni_history_block(a, TNI_HISTORY_ALLOC, b);
}

void tni_block_uncount(struct tni_allocator *a, const tni_block *b)
{
    count_blocks(a, b, -1);
    tni_history_block(a, TNI_HISTORY_FREE_REQUESTED, b);
}

void tni_active_end(struct tni_allocator *a, const tni_block *b)
{
    tni_stat_add(a, TNI_STAT_ACTIVE, tni_groups_of_block(b), -1);
    tni_stat_add(a, TNI_STAT_ACTIVE_BYTES, tni_groups_of_block(b), -(int64_t)b->bytes);
    tni_history_block(a, TNI_HISTORY_FREE_COMPLETED, b);
}

static void watch(struct tni_allocator *a, uint32_t watcher, int32_t on)
{
    a->watchers = on ? a->watchers | watcher : a->watchers & ~watcher;
    if (a->shards) tni_cache_settle(a);
    tni_cache_choose(a);
}

void tni_allocator_watch(struct tni_allocator *a, uint32_t watcher, int32_t on)
{
    tni_allocator_enter(a);
    watch(a, watcher, on);
    tni_allocator_leave(a);
}

/* ---- Uses by other streams ----------------------------------------------------------------------------- */

void tni_use_free(struct tni_allocator *a, tni_use *use)
{
    tn_event_release(use->event);
    tni_free(a->device->ctx, use, sizeof *use);
}

void tni_uses_free(struct tni_allocator *a, tni_block *b)
{
    while (b->uses) {
        tni_use *u = b->uses;
        b->uses = u->next;
        tni_use_free(a, u);
    }
}

void tni_block_list_push(tni_block **list, tni_block *b)
{
    b->next = *list;
    *list = b;
}

tni_block *tni_block_list_pop(tni_block **list)
{
    tni_block *b = *list;
    *list = b->next;
    b->next = NULL;
    return b;
}

int32_t tni_block_record(tni_block *b, tn_stream *stream)
{
    struct tni_allocator *a = b->allocator;
    if (stream->device != a->device)
        return tni_error(TN_E_DEVICE, "memory of one device cannot be recorded on a stream of another");
    if (a->device->synchronous || b == &a->empty) return TN_OK;
    tni_use *use = tni_alloc(a->device->ctx, sizeof *use);
    if (!use) return TN_E_OUT_OF_MEMORY;
    uint64_t id = atomic_load_explicit(&stream->id, memory_order_relaxed);
    tni_allocator_enter(a);
    tn_stream *own = b->part_of ? b->part_of->pool->stream : b->stream;
    const tni_use *u = b->uses;
    while (u && (u->stream != stream || u->id != id)) u = u->next;
    int32_t known = u || own == stream;
    if (!known) {
        *use = (tni_use){.next = b->uses, .stream = stream, .id = id};
        b->uses = use;
    }
    tni_allocator_leave(a);
    if (known) tni_free(a->device->ctx, use, sizeof *use);
    return TN_OK;
}

/* 1 if the use now has an event to wait for; 0 if nothing is left to wait for. A stream without events is
 * waited for here. */
static int32_t mark_use(struct tni_allocator *a, tni_use *u)
{
    int32_t life = tni_stream_retain_live(u->stream, u->id);
    if (life == TNI_STREAM_ENDING)
        tni_late_keep(a->device, tni_device_wait(a->device), "waiting for a stream that is released");
    if (life != TNI_STREAM_LIVE) return 0;
    int32_t captures = tni_stream_captures(u->stream); /* nothing is under way on it, see capture.c */
    int32_t status = captures ? TN_E_STATE : tni_event_create(a->device, 0, &u->event);
    if (!status) status = tn_event_record(u->event, u->stream);
    if (status && !captures)
        tni_late_keep(a->device, tn_stream_synchronize(u->stream), "waiting for a stream");
    if (u->id) tn_stream_release(u->stream);
    return !status;
}

/* Marks the end of each stream's work with a block that is freed. Calls the driver, so without the lock; the
 * block is in no list. */
static void mark_uses(struct tni_allocator *a, tni_block *b)
{
    for (tni_use **link = &b->uses; *link;) {
        tni_use *u = *link;
        if (mark_use(a, u)) {
            link = &u->next;
            continue;
        }
        *link = u->next;
        tni_use_free(a, u);
    }
}

/* An event in error never completes, so an error counts as passed; it is kept for whoever waits for the device. A
 * stream that captures by now was waited for when the capture began, and must not be asked. */
static int32_t has_passed(struct tni_allocator *a, const tni_use *u)
{
    int32_t life = tni_stream_retain_live(u->stream, u->id);
    if (life != TNI_STREAM_LIVE) return life == TNI_STREAM_GONE;
    int32_t passed = tni_stream_captures(u->stream) ? 1 : tn_event_query(u->event);
    if (passed < 0) tni_late_keep(a->device, -passed, "asking a stream that used memory");
    if (u->id) tn_stream_release(u->stream);
    return passed != 0;
}

static void drop_passed_uses(struct tni_allocator *a, tni_block *b)
{
    for (tni_use **link = &b->uses; *link;) {
        tni_use *u = *link;
        if (!has_passed(a, u)) {
            link = &u->next;
            continue;
        }
        *link = u->next;
        tni_use_free(a, u);
    }
}

void tni_allocator_settle(struct tni_allocator *a)
{
    tni_block *list = a->waiting;
    if (!list) return;
    a->waiting = NULL;
    a->busy++;
    pthread_mutex_unlock(&a->lock);
    for (tni_block *b = list; b; b = b->next) drop_passed_uses(a, b);
    pthread_mutex_lock(&a->lock);
    while (list) {
        tni_block *b = tni_block_list_pop(&list);
        if (b->uses) {
            tni_block_list_push(&a->waiting, b);
            continue;
        }
        tni_active_end(a, b);
        tni_pool_give(a, b);
    }
    tni_allocator_end_busy(a);
}

/* Moves what a pool has to another one of the same kind. */
static void move_pool(struct tni_allocator *a, tni_pool *from, tni_pool *to)
{
    for (tni_allocation *s = a->allocations; s; s = s->next) {
        if (s->pool == from) s->pool = to;
    }
    for (uint32_t bin = 0; bin < TNI_POOL_BINS; bin++) {
        if (!from->bins[bin]) continue;
        tni_block *last = from->bins[bin];
        while (last->next) last = last->next;
        last->next = to->bins[bin];
        if (last->next) last->next->previous = last;
        to->bins[bin] = from->bins[bin];
        to->filled[bin / 64] |= 1ull << bin % 64;
    }
}

/* The pool of another stream, or of all threads, that takes over what `pool` has, or NULL. */
static tni_pool *heir_of(const struct tni_allocator *a, const tni_pool *pool, const tn_stream *stream,
                         uint64_t number)
{
    tni_pool *to = pool->capture ? NULL : a->pools;
    while (to && !(to->stream == stream && to->small == pool->small && to->number == number && !to->capture))
        to = to->next;
    return to;
}

void tni_pool_register(struct tni_allocator *a, tn_memory_pool *pool)
{
    tni_allocator_enter(a);
    pool->next = a->private_pools;
    a->private_pools = pool;
    tni_allocator_leave(a);
}

/* What the lists of a private pool have is counted as private no longer. Blocks that wait for streams were settled, or
 * are counted as their allocation is. */
static void uncount_private(struct tni_allocator *a, const tni_pool *pool)
{
    for (const tni_allocation *s = a->allocations; s; s = s->next) {
        if (s->pool != pool) continue;
        tni_stat_change(&a->detail[TNI_STAT_SEGMENT][3], -1);
        tni_stat_change(&a->detail[TNI_STAT_RESERVED_BYTES][3], -(int64_t)s->bytes);
        for (const tni_block *b = s->first; b; b = b->after) {
            int32_t is_split = b->before || b->after;
            if (b->state == TNI_BLOCK_FREE && is_split) {
                tni_stat_change(&a->detail[TNI_STAT_INACTIVE_SPLIT][3], -1);
                tni_stat_change(&a->detail[TNI_STAT_INACTIVE_SPLIT_BYTES][3], -(int64_t)b->bytes);
            }
            if (b->state == TNI_BLOCK_FREE) continue;
            tni_stat_change(&a->detail[TNI_STAT_ACTIVE][3], -1);
            tni_stat_change(&a->detail[TNI_STAT_ACTIVE_BYTES][3], -(int64_t)b->bytes);
            if (b->state == TNI_BLOCK_WAITING) continue;
            tni_stat_change(&a->detail[TNI_STAT_ALLOCATION][3], -1);
            tni_stat_change(&a->detail[TNI_STAT_ALLOCATED_BYTES][3], -(int64_t)b->bytes);
            tni_stat_change(&a->detail[TNI_STAT_REQUESTED_BYTES][3], -(int64_t)b->asked);
        }
    }
}

/* Memory of captures stays private until it is freed. */
static void forget_owner(struct tni_allocator *a, const tn_memory_pool *gone)
{
    tn_memory_pool **link = &a->private_pools;
    while (*link && *link != gone) link = &(*link)->next;
    if (*link) *link = gone->next;
    for (tni_pool *pool = a->pools; pool; pool = pool->next) {
        if (pool->owner == gone) pool->owner = NULL;
    }
}

void tni_pool_dissolve(struct tni_allocator *a, const tn_memory_pool *gone)
{
    uint64_t number = gone->number;
    tni_pool_end(a, number);
    tni_allocator_enter(a);
    tni_allocator_settle(a);
    forget_owner(a, gone);
    for (tni_pool **link = &a->pools; *link;) {
        tni_pool *pool = *link, *to = pool->number == number ? heir_of(a, pool, pool->stream, 0) : NULL;
        if (pool->number == number) {
            uncount_private(a, pool);
            pool->number = 0;
        }
        if (!to) {
            link = &pool->next;
            continue;
        }
        *link = pool->next;
        move_pool(a, pool, to);
        tni_free(a->device->ctx, pool, sizeof *pool);
    }
    tni_allocator_leave(a);
}

int32_t tni_pool_begin(struct tni_allocator *a, tn_memory_pool *pool)
{
    tni_pool_user *user = tni_thread_number_make() ? NULL : tni_alloc(a->device->ctx, sizeof *user);
    if (!user) return TN_E_OUT_OF_MEMORY;
    tni_allocator_enter(a);
    const tni_pool_user *u = a->pool_users;
    while (u && u->thread != tni_thread_number()) u = u->next;
    const tn_memory_pool *used = u ? u->pool : NULL;
    if (!used) {
        *user = (tni_pool_user){a->pool_users, tni_thread_number(), tni_memory_pool_retain(pool)};
        a->pool_users = user;
        watch(a, TNI_WATCH_POOLS, 1);
    }
    tni_allocator_leave(a);
    if (!used) return TN_OK;
    tni_free(a->device->ctx, user, sizeof *user);
    return tni_error(TN_E_STATE, "tn_memory_pool_begin: the thread uses %s pool on this device already",
                     used == pool ? "this" : "another");
}

int32_t tni_pool_leave(struct tni_allocator *a, tn_memory_pool *pool)
{
    tni_allocator_enter(a);
    tni_pool_user **link = &a->pool_users, *user;
    while (*link && !((*link)->thread == tni_thread_number() && (*link)->pool == pool)) link = &(*link)->next;
    user = *link;
    if (user) *link = user->next;
    watch(a, TNI_WATCH_POOLS, a->pool_users != NULL);
    tni_allocator_leave(a);
    if (!user) return tni_error(TN_E_STATE, "tn_memory_pool_end: the thread does not use this pool");
    tni_free(a->device->ctx, user, sizeof *user);
    tn_memory_pool_release(pool);
    return TN_OK;
}

void tni_allocator_forget_stream(struct tni_allocator *a, tn_stream *stream)
{
    if (a->device->synchronous) return;
    tni_allocator_enter(a);
    tni_allocator_settle(a);
    for (tni_pool **link = &a->pools; *link;) {
        tni_pool *pool = *link, *to = NULL;
        if (pool->stream == stream) to = heir_of(a, pool, a->device->default_stream, pool->number);
        if (to) {
            *link = pool->next;
            move_pool(a, pool, to);
            tni_free(a->device->ctx, pool, sizeof *pool);
            continue;
        }
        if (pool->stream == stream) pool->stream = a->device->default_stream;
        link = &pool->next;
    }
    tni_allocator_leave(a);
}

/* ---- Growing ------------------------------------------------------------------------------------------- */

void tni_allocator_collect(struct tni_allocator *a)
{
    tni_allocator_enter(a);
    while (a->busy) pthread_cond_wait(&a->quiet, &a->lock);
    tni_allocator_settle(a);
    tni_allocations_release(a, 0);
    tni_expandable_cut(a);
    tni_allocator_leave(a);
}

static uint64_t allocation_bytes(uint64_t bytes)
{
    if (bytes <= TNI_SMALL_BLOCK) return TNI_SMALL_ALLOCATION;
    if (bytes < TNI_LARGE_BLOCK) return TNI_LARGE_ALLOCATION;
    return (bytes + TNI_ALLOCATION_ROUND - 1) / TNI_ALLOCATION_ROUND * TNI_ALLOCATION_ROUND;
}

static void count_request(struct tni_allocator *a, const tni_request *r, tni_block *b)
{
    b->asked = r->asked;
    if (r->counts) tni_block_count(a, b);
}

int32_t tni_central_take(struct tni_allocator *a, const tni_request *r, tni_block **out)
{
    tni_pool *pool = tni_pool_find(a, r->stream, r->bytes <= TNI_SMALL_BLOCK);
    *out = pool ? tni_pool_take(a, pool, r->bytes) : NULL;
    if (!*out) return pool ? TN_OK : TN_E_OUT_OF_MEMORY;
    count_request(a, r, *out);
    return TN_OK;
}

/* garbage_collection_threshold: before the device is asked, memory that was free for longest goes back to it. */
static void collect_old(struct tni_allocator *a)
{
    tni_allocator_enter(a);
    uint64_t whole = a->limit ? a->limit : a->device->facts.total_memory;
    if (a->options.collect_above > 0 && whole)
        tni_allocations_collect(a, (uint64_t)((double)whole * a->options.collect_above));
    tni_allocator_leave(a);
}

int32_t tni_central_grow(struct tni_allocator *a, const tni_request *r, uint64_t bytes, uint64_t range,
                         tni_block **out)
{
    tni_allocation *made;
    int32_t status = tni_allocation_create(a, bytes, range, &made);
    if (status) return status;
    tni_allocator_enter(a);
    tni_pool *pool = tni_pool_find(a, r->stream, r->bytes <= TNI_SMALL_BLOCK);
    if (pool) {
        tni_allocation_add(a, pool, made);
        *out = made->first;
        tni_pool_take_block(a, *out, r->bytes);
        count_request(a, r, *out);
    } else {
        a->stats.reserved_bytes -= bytes;
        made->next = a->gone;
        a->gone = made;
        status = TN_E_OUT_OF_MEMORY;
    }
    tni_allocator_leave(a);
    return status;
}

/* A block that the free lists do not have: the device gives at least `bytes` more. */
static int32_t grow(struct tni_allocator *a, const tni_request *r, uint64_t bytes, tni_block **out)
{
    collect_old(a);
    if (tni_is_expandable(a, r->stream)) {
        int32_t status = tni_expandable_grow(a, r, bytes, out);
        if (status != TN_E_UNSUPPORTED) return status;
        tni_expandable_end(a);
    }
    return tni_central_grow(a, r, bytes, 0, out);
}

int32_t tni_allocator_check_caching(const struct tni_allocator *a, const char *what)
{
    const char *library = tni_user_allocator_library(a);
    if (library)
        return tni_error(TN_E_UNSUPPORTED, "the functions of %s allocate the device's memory: it has no %s",
                         library, what);
    if (!tni_allocator_is_replaced(a)) return TN_OK;
    return tni_error(TN_E_UNSUPPORTED, "plugin %s has an allocator of its own: its devices have no %s",
                     a->device->type->driver.plugin, what);
}

uint64_t tni_allocator_granule(const struct tni_allocator *a)
{
    return a->granule;
}

/* Gives everything free back to the device. */
static void reclaim(struct tni_allocator *a)
{
    const tni_driver *driver = &a->device->type->driver;
    if (a->shards) tni_cache_flush(a);
    if (!a->device->synchronous)
        tni_late_keep(a->device, tni_device_wait(a->device), "waiting for a device that is out of memory");
    tni_allocator_collect(a);
    if (driver->memory.trim) (void)driver->memory.trim(driver->self, a->device->handle);
}

int32_t tni_memory_reclaim(tni_device *device, uint64_t *out_bytes)
{
    struct tni_allocator *a = device->allocator;
    tni_allocator_enter(a);
    uint64_t before = a->stats.reserved_bytes;
    tni_allocator_leave(a);
    reclaim(a);
    tni_allocator_enter(a);
    uint64_t after = a->stats.reserved_bytes;
    tni_allocator_leave(a);
    *out_bytes = before > after ? before - after : 0;
    return TN_OK;
}

/* Everything free goes back to the device, which is asked once more. The allocation may then be just as large
 * as the block. */
static int32_t grow_again(struct tni_allocator *a, const tni_request *r, tni_block **out)
{
    reclaim(a);
    tni_allocator_enter(a);
    int32_t status = tni_central_take(a, r, out);
    tni_allocator_leave(a);
    uint64_t bytes = allocation_bytes(r->bytes);
    if (!status && !*out) {
        status = grow(a, r, bytes, out);
        if (status == TN_E_OUT_OF_MEMORY && bytes != r->bytes) status = grow(a, r, r->bytes, out);
    }
    if (status) return status == TN_E_OUT_OF_MEMORY ? tni_out_of_memory(a, r->bytes) : status;
    tni_allocator_enter(a);
    a->stats.retries++;
    tni_allocator_leave(a);
    return TN_OK;
}

/* ---- Blocks -------------------------------------------------------------------------------------------- */

int32_t tni_central_alloc(struct tni_allocator *a, const tni_request *request, tni_block **out)
{
    tni_block *b;
    tni_request rounded = *request, *r = &rounded;
    tni_allocator_enter(a);
    if (r->asked) r->bytes = tni_round_up(a, r->asked);
    if (a->waiting) tni_allocator_settle(a);
    int32_t status = tni_central_take(a, r, &b);
    tni_allocator_leave(a);
    if (!status && !b) {
        status = grow(a, r, allocation_bytes(r->bytes), &b);
        if (status == TN_E_OUT_OF_MEMORY) status = grow_again(a, r, &b);
    }
    if (!status) *out = b;
    return status;
}

static void central_free(struct tni_allocator *a, tni_block *b)
{
    int32_t is_captured = b->part_of->is_captured;
    if (b->uses && !is_captured) mark_uses(a, b);
    tni_allocator_enter(a);
    tni_block_uncount(a, b);
    if (is_captured || !b->uses) tni_active_end(a, b);
    if (is_captured) {
        tni_pool_give_captured(a, b);
    } else if (b->uses) {
        b->state = TNI_BLOCK_WAITING;
        tni_block_list_push(&a->waiting, b);
    } else {
        tni_pool_give(a, b);
    }
    tni_allocator_leave(a);
}

void tni_central_free_list(struct tni_allocator *a, tni_block *list)
{
    tni_allocator_enter(a);
    while (list) {
        tni_block *b = list;
        list = b->next;
        tni_pool_give(a, b);
    }
    tni_allocator_leave(a);
}

int32_t tni_block_alloc_of(struct tni_allocator *a, uint64_t bytes, tn_stream *stream, tni_block **out)
{
    if (!bytes) {
        *out = &a->empty;
        return TN_OK;
    }
    if (bytes > INT64_MAX / 2)
        return tni_error(TN_E_OUT_OF_MEMORY, "%llu bytes are more than any device has",
                         (unsigned long long)bytes);
    const tni_request request = {.stream = stream, .bytes = bytes, .asked = bytes, .counts = 1};
    if (TNI_UNLIKELY(a->direct) && !(stream && tni_stream_captures(stream)))
        return tni_direct_alloc(a, &request, out);
    if (tni_allocator_is_replaced(a)) return tni_replaced_alloc(a, &request, out);
    return tni_central_alloc(a, &request, out);
}

int32_t tni_block_alloc(tni_device *device, uint64_t bytes, tn_stream *stream, tni_block **out)
{
    struct tni_allocator *a = device->allocator;
    if (TNI_LIKELY(tni_has_cache(a, bytes))) return tni_cache_alloc(a, bytes, out);
    return tni_block_alloc_of(a, bytes, stream, out);
}

void tni_block_free(tni_block *b)
{
    if (!b || b == &b->allocator->empty) return;
    struct tni_allocator *a = b->allocator;
    if (tni_context_check_kept(a->device->ctx)) return;
    if (b->part_of && b->cache_bin != TNI_NO_BIN)
        tni_cache_free(a, b);
    else if (b->part_of)
        central_free(a, b);
    else if (b->given->is_replaced)
        tni_replaced_free(a, b);
    else
        tni_direct_free(a, b);
}

void tni_allocator_destroy(struct tni_allocator *a)
{
    if (!a) return;
    tni_device *device = a->device;
    tn_context *ctx = device->ctx;
    if (a->shards) tni_cache_flush(a);
    for (tni_block *b = a->waiting; b; b = b->next) tni_uses_free(a, b); /* the device has been waited for */
    *(a->is_pinned ? &device->pinned : &device->allocator) = NULL;
    tni_history_destroy(a);
    tni_pools_finish(a);
    tni_user_allocator_destroy(a);
    tni_free(ctx, a->shards, TNI_SHARDS * sizeof *a->shards);
    pthread_cond_destroy(&a->quiet);
    pthread_mutex_destroy(&a->lock);
    tni_free(ctx, a, sizeof *a);
}
