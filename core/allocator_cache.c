/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small blocks of synchronous host devices, kept ready so that handing one out and taking it back needs no
 * mutex.
 *
 * There are TNI_SHARDS shards, and a thread always uses the same one. A shard has a spin lock, which is held
 * for the few instructions of a list operation. A block goes back to the shard of the thread that frees it.
 * Sizes are rounded up to a class: multiples of 64 bytes up to 1 KiB, then four per power of two up to 1 MiB.
 */
#include <sched.h>
#include "core/allocator.h"
#include "core/thread.h"

#define SHARD_BYTES  (4 << 20)  /* a shard that holds more gives all its blocks back */
#define SETTLE_BYTES (64 << 10) /* a larger change is added to the statistics at once */

static uint32_t bin_of(uint64_t bytes)
{
    if (bytes <= 1024) return (uint32_t)((bytes - 1) / 64);
    uint32_t e = 63u - (uint32_t)__builtin_clzll(bytes - 1); /* 2^e < bytes <= 2^(e+1), e >= 10 */
    return 16 + (e - 10) * 4 + (uint32_t)((bytes - 1) >> (e - 2) & 3);
}

static uint64_t bytes_of(uint32_t bin)
{
    if (bin < 16) return (bin + 1) * 64ull;
    uint64_t base = 1024ull << (bin - 16) / 4;
    return base + ((bin - 16) % 4 + 1) * (base / 4);
}

/* Addresses of the threads' own structs are far apart and spread well. */
static tni_shard *own_shard(const struct tni_allocator *a)
{
    uint64_t h = (uint64_t)(uintptr_t)&tni_tls * 0x9e3779b97f4a7c15ull;
    return &a->shards[h >> 60];
}

static __attribute__((noinline)) void take_slowly(tni_shard *s)
{
    uint32_t spins = 0;
    do {
        while (atomic_load_explicit(&s->lock, memory_order_relaxed)) {
            if (++spins % 64 == 0) sched_yield(); /* the thread that holds it was put to sleep */
        }
    } while (atomic_exchange_explicit(&s->lock, 1, memory_order_acquire));
}

static inline int32_t try_take(tni_shard *s)
{
    return TNI_LIKELY(!atomic_exchange_explicit(&s->lock, 1, memory_order_acquire));
}

static inline void take(tni_shard *s)
{
    if (!try_take(s)) take_slowly(s);
}

static inline void leave(tni_shard *s)
{
    atomic_store_explicit(&s->lock, 0, memory_order_release);
}

static void settle_one(struct tni_allocator *a, tni_shard *s)
{
    take(s);
    int64_t bytes = s->allocated, blocks = s->blocks;
    a->stats.allocations += s->allocations;
    s->allocated = s->blocks = 0;
    s->allocations = 0;
    leave(s);
    tni_allocated_add(a, TNI_GROUP_SMALL, bytes, blocks);
    tni_stat_add(a, TNI_STAT_REQUESTED_BYTES, TNI_GROUP_SMALL, bytes);
    tni_stat_add(a, TNI_STAT_ACTIVE, TNI_GROUP_SMALL, blocks);
    tni_stat_add(a, TNI_STAT_ACTIVE_BYTES, TNI_GROUP_SMALL, bytes);
}

void tni_cache_settle(struct tni_allocator *a)
{
    for (uint32_t i = 0; i < TNI_SHARDS; i++) settle_one(a, &a->shards[i]);
}

static void flush_shard(struct tni_allocator *a, tni_shard *s)
{
    tni_block *all = NULL;
    take(s);
    for (uint32_t bin = 0; bin < TNI_CACHE_BINS; bin++) {
        while (s->bins[bin]) {
            tni_block *p = s->bins[bin];
            s->bins[bin] = p->next;
            p->next = all;
            all = p;
        }
    }
    s->cached = 0;
    leave(s);
    if (all) tni_central_free_list(a, all);
}

void tni_cache_flush(struct tni_allocator *a)
{
    for (uint32_t i = 0; i < TNI_SHARDS; i++) flush_shard(a, &a->shards[i]);
}

/* Rare work after a block was handed out or given back; `changed` is the shard's change of allocated
 * bytes. */
static void maintain(struct tni_allocator *a, tni_shard *s, int64_t changed, uint64_t cached)
{
    if (changed > SETTLE_BYTES || changed < -SETTLE_BYTES) {
        tni_allocator_enter(a);
        settle_one(a, s);
        tni_allocator_leave(a);
    }
    if (cached > SHARD_BYTES) flush_shard(a, s);
}

/* The bin is empty: takes a block from the pools. */
static __attribute__((noinline)) int32_t fetch(struct tni_allocator *a, tni_shard *s, uint32_t bin,
                                               int64_t storages, tni_block **out)
{
    tni_block *p;
    int32_t status = tni_central_alloc(a, &(tni_request){.bytes = bytes_of(bin)}, &p);
    if (status) return status;
    p->cache_bin = bin;
    tni_block_embed(p);
    take(s);
    int64_t changed = s->allocated += (int64_t)p->bytes;
    uint32_t counts_owners = s->counts_owners;
    s->blocks++;
    s->allocations++;
    s->storages += storages;
    leave(s);
    if (counts_owners && storages) tni_context_own(a->device->ctx);
    if (changed > SETTLE_BYTES) maintain(a, s, changed, 0);
    *out = p;
    return TN_OK;
}

/*
 * Every call of an operator uses tni_cache_storage and tni_cache_free_storage, so both come in two parts: the
 * work under the shard's lock, and taking the lock. Rare work is tail-called, so that the fast path saves no
 * registers.
 */

static __attribute__((noinline)) int32_t after_out(struct tni_allocator *a, tni_shard *s, int64_t changed,
                                                   uint32_t counts_owners, int64_t storages)
{
    if (counts_owners && storages) tni_context_own(a->device->ctx);
    if (changed > SETTLE_BYTES) maintain(a, s, changed, 0);
    return TN_OK;
}

/* A block of a bin. Called with the shard held, and leaves it. */
static inline int32_t give_out(struct tni_allocator *a, tni_shard *s, uint32_t bin, int64_t storages,
                               tni_block **out)
{
    tni_block *p = s->bins[bin];
    if (TNI_UNLIKELY(!p)) {
        leave(s);
        return fetch(a, s, bin, storages, out);
    }
    uint64_t bytes = p->bytes;
    s->bins[bin] = p->next;
    s->cached -= bytes;
    int64_t changed = s->allocated += (int64_t)bytes;
    uint32_t counts_owners = s->counts_owners;
    s->blocks++;
    s->allocations++;
    s->storages += storages;
    leave(s);
    *out = p;
    if (TNI_UNLIKELY(counts_owners || changed > SETTLE_BYTES))
        return after_out(a, s, changed, counts_owners, storages);
    return TN_OK;
}

static __attribute__((noinline)) void after_back(struct tni_allocator *a, tni_shard *s, uint64_t cached,
                                                 int64_t changed, uint32_t counts_owners, int64_t storages)
{
    tn_context *ctx = a->device->ctx;
    if (changed < -SETTLE_BYTES || cached > SHARD_BYTES) {
        maintain(a, s, changed, cached);
        if (storages) { /* once it is no longer counted, the context may go at any time */
            take(s);
            counts_owners = s->counts_owners;
            s->storages -= storages;
            leave(s);
        }
    }
    if (counts_owners && storages) tni_context_unown(ctx);
}

/* Called with the shard held, and leaves it. */
static inline void take_back(struct tni_allocator *a, tni_shard *s, tni_block *p, int64_t storages)
{
    uint64_t bytes = p->bytes;
    p->next = s->bins[p->cache_bin];
    s->bins[p->cache_bin] = p;
    uint64_t cached = s->cached += bytes;
    int64_t changed = s->allocated -= (int64_t)bytes;
    int32_t is_full = changed < -SETTLE_BYTES || cached > SHARD_BYTES;
    uint32_t counts_owners = s->counts_owners;
    s->blocks--;
    if (TNI_LIKELY(!is_full)) s->storages -= storages;
    leave(s);
    if (TNI_UNLIKELY(is_full || counts_owners)) after_back(a, s, cached, changed, counts_owners, storages);
}

int32_t tni_cache_alloc(struct tni_allocator *a, uint64_t bytes, tni_block **out)
{
    tni_shard *s = own_shard(a);
    take(s);
    return give_out(a, s, bin_of(bytes), 0, out);
}

void tni_cache_free(struct tni_allocator *a, tni_block *p)
{
    tni_shard *s = own_shard(a);
    take(s);
    take_back(a, s, p, 0);
}

static __attribute__((noinline)) int32_t storage_slowly(struct tni_allocator *a, tni_shard *s, uint32_t bin,
                                                        tni_block **out)
{
    take_slowly(s);
    return give_out(a, s, bin, 1, out);
}

int32_t tni_cache_storage(struct tni_allocator *a, uint64_t bytes, tni_block **out)
{
    tni_shard *s = own_shard(a);
    uint32_t bin = bin_of(bytes);
    return try_take(s) ? give_out(a, s, bin, 1, out) : storage_slowly(a, s, bin, out);
}

static __attribute__((noinline)) void free_storage_slowly(struct tni_allocator *a, tni_shard *s, tni_block *p)
{
    take_slowly(s);
    take_back(a, s, p, 1);
}

void tni_cache_free_storage(struct tni_allocator *a, tni_block *p)
{
    tni_shard *s = own_shard(a);
    if (try_take(s))
        take_back(a, s, p, 1);
    else
        free_storage_slowly(a, s, p);
}

/*
 * Shard by shard. A storage may be handed out by a shard that is not converted yet and given back to one that
 * is: that decrements the owners before the matching increment, so the caller holds many owners meanwhile.
 */
void tni_allocator_count_storages(struct tni_allocator *a)
{
    for (uint32_t i = 0; a->shards && i < TNI_SHARDS; i++) {
        tni_shard *s = &a->shards[i];
        take(s);
        int64_t storages = s->counts_owners ? 0 : s->storages;
        s->counts_owners = 1;
        leave(s);
        atomic_fetch_add_explicit(&a->device->ctx->owners, (uint64_t)storages, memory_order_relaxed);
    }
}
