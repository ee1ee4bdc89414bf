/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small blocks of synchronous host devices, kept ready so that asking for one and giving it back takes no
 * mutex.
 *
 * There are a few shards, and a thread always turns to the same one; a shard is held by a flag for the few
 * instructions that a list operation takes. Blocks go back to whatever shard the freeing thread uses. Sizes
 * are rounded to a class: multiples of 64 bytes up to 1 KiB, then four for each power of two up to 1 MiB.
 */
#include <sched.h>
#include "core/allocator.h"
#include "core/thread.h"

#define SHARD_BYTES  (4 << 20)  /* a shard that holds more gives all it has back */
#define SETTLE_BYTES (64 << 10) /* a change of statistics larger than this is made known at once */

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
            if (++spins % 64 == 0) sched_yield(); /* whoever holds it was put to sleep */
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
    tni_allocated_add(a, bytes, blocks);
}

void tni_cache_settle(struct tni_allocator *a)
{
    for (uint32_t i = 0; i < TNI_SHARDS; i++) settle_one(a, &a->shards[i]);
}

static void flush_shard(struct tni_allocator *a, tni_shard *s)
{
    tni_piece *all = NULL;
    take(s);
    for (uint32_t bin = 0; bin < TNI_CACHE_BINS; bin++) {
        while (s->bins[bin]) {
            tni_piece *p = s->bins[bin];
            s->bins[bin] = p->next;
            p->next = all;
            all = p;
        }
    }
    s->cached = 0;
    leave(s);
    while (all) {
        tni_piece *p = all;
        all = p->next;
        p->next = NULL;
        tni_central_free(a, p);
    }
}

void tni_cache_flush(struct tni_allocator *a)
{
    for (uint32_t i = 0; i < TNI_SHARDS; i++) flush_shard(a, &a->shards[i]);
}

/* What must be done now and then; `changed` is the shard's change of allocated bytes. */
static void maintain(struct tni_allocator *a, tni_shard *s, int64_t changed, uint64_t cached)
{
    if (changed > SETTLE_BYTES || changed < -SETTLE_BYTES) {
        pthread_mutex_lock(&a->lock);
        settle_one(a, s);
        pthread_mutex_unlock(&a->lock);
    }
    if (cached > SHARD_BYTES) flush_shard(a, s);
}

/* Nothing is ready: asks the segments, and takes the counting back when they have nothing either. */
static __attribute__((noinline)) int32_t fetch(struct tni_allocator *a, tni_shard *s, uint32_t bin,
                                               int64_t storages, tni_piece **out)
{
    tni_piece *p;
    int32_t status = tni_central_alloc(a, bytes_of(bin), NULL, &p);
    if (status) return status;
    p->cache_bin = bin;
    tni_storage_embed(p);
    take(s);
    int64_t changed = s->allocated += (int64_t)p->block.bytes;
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
 * The two functions that every call of an operator uses come in two halves: what is done with the shard held,
 * and the way to hold it. All that is seldom needed ends a function, so that the common way saves no
 * registers.
 */

static __attribute__((noinline)) int32_t after_out(struct tni_allocator *a, tni_shard *s, int64_t changed,
                                                   uint32_t counts_owners, int64_t storages)
{
    if (counts_owners && storages) tni_context_own(a->device->ctx);
    if (changed > SETTLE_BYTES) maintain(a, s, changed, 0);
    return TN_OK;
}

/* A block of a bin; with the shard held, which is left. */
static inline int32_t give_out(struct tni_allocator *a, tni_shard *s, uint32_t bin, int64_t storages,
                               tni_piece **out)
{
    tni_piece *p = s->bins[bin];
    if (TNI_UNLIKELY(!p)) {
        leave(s);
        return fetch(a, s, bin, storages, out);
    }
    uint64_t bytes = p->block.bytes;
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

/* With the shard held, which is left. */
static inline void take_back(struct tni_allocator *a, tni_shard *s, tni_piece *p, int64_t storages)
{
    uint64_t bytes = p->block.bytes;
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

int32_t tni_cache_alloc(struct tni_allocator *a, uint64_t bytes, tni_piece **out)
{
    tni_shard *s = own_shard(a);
    take(s);
    return give_out(a, s, bin_of(bytes), 0, out);
}

void tni_cache_free(struct tni_allocator *a, tni_piece *p)
{
    tni_shard *s = own_shard(a);
    take(s);
    take_back(a, s, p, 0);
}

static __attribute__((noinline)) int32_t storage_slowly(struct tni_allocator *a, tni_shard *s, uint32_t bin,
                                                        tni_piece **out)
{
    take_slowly(s);
    return give_out(a, s, bin, 1, out);
}

int32_t tni_cache_storage(struct tni_allocator *a, uint64_t bytes, tni_piece **out)
{
    tni_shard *s = own_shard(a);
    uint32_t bin = bin_of(bytes);
    return try_take(s) ? give_out(a, s, bin, 1, out) : storage_slowly(a, s, bin, out);
}

static __attribute__((noinline)) void free_storage_slowly(struct tni_allocator *a, tni_shard *s, tni_piece *p)
{
    take_slowly(s);
    take_back(a, s, p, 1);
}

void tni_cache_free_storage(struct tni_allocator *a, tni_piece *p)
{
    tni_shard *s = own_shard(a);
    if (try_take(s))
        take_back(a, s, p, 1);
    else
        free_storage_slowly(a, s, p);
}

/*
 * Shard by shard: what was given out by one that still counts itself and given back to one that no longer
 * does has taken an owner away that is not there yet, which is why the caller holds many meanwhile.
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

void tni_header_embed(tni_piece *p)
{
    p->tensor = (tn_tensor){
        .desc = {.size = sizeof p->tensor.desc,
                 .layout = TN_INTERNED_STRIDED,
                 .device = p->storage.device->id,
                 .byte_offset = p->block.offset,
                 .allocation = p->block.allocation,
                 .host = p->block.host,
                 .sizes = p->tensor.inline_dims},
        .storage = &p->storage,
        .ctx = p->storage.ctx,
        .dims = p->tensor.inline_dims,
    };
}

void tni_storage_embed(tni_piece *p)
{
    p->storage = (tni_storage){
        .flags = TNI_STORAGE_EMBEDDED,
        .ctx = p->block.allocator->device->ctx,
        .device = p->block.allocator->device,
        .allocation = p->block.allocation,
        .offset = p->block.offset,
        .host = p->block.host,
        .block = &p->block,
    };
    tni_header_embed(p);
}
