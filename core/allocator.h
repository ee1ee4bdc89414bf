/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caching allocator's own structures, shared by its files:
 *
 *   allocator.c             handing out and freeing, streams
 *   allocator_cache.c       small blocks of host devices
 *   allocator_expandable.c  allocations that grow
 *   allocator_history.c     the recorded events
 *   allocator_options.c     options
 *   allocator_pool.c        allocations and free lists
 *   allocator_shortage.c    running out of memory
 *   allocator_snapshot.c    snapshots
 *   allocator_stats.c       the public functions
 *   allocator_uncached.c    blocks without a cache
 *   allocator_user.c        a user's allocator
 *
 * A device that pins memory of the host has a second allocator for it (pinned.c). The host uses such memory as soon as
 * it gets it, so a block of it waits for every stream that used it.
 *
 * Allocations are what the plugin gives; each is cut into blocks (block.h) in address order. An allocation
 * belongs to a pool: the memory of one stream, for small or for large blocks.
 *
 * One mutex guards all lists and counts, and no function of the driver is called under it. What needs the
 * driver is taken off the lists first, and `busy` counts the threads that hold something so: blocks whose
 * streams are asked, or allocations that go back to the device. An allocation that is resized stays on the lists.
 */
#ifndef TNI_CORE_ALLOCATOR_H
#define TNI_CORE_ALLOCATOR_H

#include "core/block.h"

#define TNI_SMALL_BLOCK      (1ull << 20)  /* blocks up to this come from small allocations */
#define TNI_SMALL_ALLOCATION (2ull << 20)  /* so many small blocks share one request to the device */
#define TNI_LARGE_ALLOCATION (20ull << 20) /* for blocks below TNI_LARGE_BLOCK; larger ones have their own */
#define TNI_LARGE_BLOCK      (10ull << 20)
#define TNI_ALLOCATION_ROUND (2ull << 20)

#define TNI_EXACT_BINS 16u /* sizes of 1 to 15 granules have a bin each, larger ones 8 per power of two */
#define TNI_POOL_BINS  (TNI_EXACT_BINS + 60u * 8u)

/* Requests of less than `below` bytes are rounded up to a multiple of that part of their power of two. */
#define TNI_DIVISIONS 16u
typedef struct tni_division {
    uint64_t below;
    uint32_t divisions;
} tni_division;

/* See tn_memory_configure. */
typedef struct tni_memory_options {
    uint64_t max_split;   /* blocks of this size and more are not split; 0: all are */
    double collect_above; /* part of the limit above which old free memory goes back; 0: none does */
    double fraction;      /* of the device's memory that becomes the limit; 0: no limit */
    int32_t no_cache;
    int32_t expandable; /* no effect where memory.reserve is missing or TN_E_UNSUPPORTED */
    uint32_t n_divisions;
    tni_division divisions[TNI_DIVISIONS];
    /* "[TYPE=]LIBRARY:ALLOC:FREE" in the text that was read, valid as long as that; NULL: none was named. */
    const char *pluggable;
    uint32_t pluggable_length;
} tni_memory_options;

/* Statistics under PyTorch's names, each for all blocks and for those of a group (TNI_GROUP_...). */
#define TNI_STAT_LIST(X)                          \
    X(ALLOCATION, allocation)                     \
    X(SEGMENT, segment)                           \
    X(ACTIVE, active)                             \
    X(INACTIVE_SPLIT, inactive_split)             \
    X(ALLOCATED_BYTES, allocated_bytes)           \
    X(RESERVED_BYTES, reserved_bytes)             \
    X(ACTIVE_BYTES, active_bytes)                 \
    X(INACTIVE_SPLIT_BYTES, inactive_split_bytes) \
    X(REQUESTED_BYTES, requested_bytes)
#define TNI_STAT_NUMBER(upper, lower) TNI_STAT_##upper,
enum { TNI_STAT_LIST(TNI_STAT_NUMBER) TNI_STAT_COUNT };
typedef struct tni_stat {
    int64_t current, peak, allocated, freed;
} tni_stat;

/* What a block or an allocation is counted in besides all, small or large and perhaps private: bits of the numbers of
 * the counts. */
#define TNI_GROUP_SMALL   2u
#define TNI_GROUP_LARGE   4u
#define TNI_GROUP_PRIVATE 8u
#define TNI_GROUPS        4u

typedef struct tni_pool {
    struct tni_pool *next;
    tn_stream *stream; /* whose work orders the blocks; NULL on synchronous devices and for pinned memory */
    int32_t small;
    int32_t ended;         /* of a capture whose graph is gone: blocks are only given back */
    uint64_t capture;      /* the capture that alone may use this memory; 0: any work */
    uint64_t number;       /* of the private pool whose threads alone may use it; 0: all */
    tn_memory_pool *owner; /* that this is part of, as memory of its threads or of its graphs; or NULL */
    tni_block *parked;     /* of a capture: freed while other streams used them, so not given out again */
    uint64_t filled[(TNI_POOL_BINS + 63) / 64]; /* a bit for each bin that is not empty */
    tni_block *bins[TNI_POOL_BINS];
} tni_pool;

typedef struct tni_allocation {
    struct tni_allocation *previous, *next, *next_cut;
    tni_pool *pool;
    tni_block *first;
    tn_memory memory; /* as the plugin gave it */
    uint64_t bytes;
    int32_t is_captured; /* memory of a capture */
    uint64_t place;      /* see tni_place_of */
    uint64_t freed_at;   /* grows with each allocation that becomes wholly free */
    uint64_t range;      /* addresses to grow into, see allocator_expandable.c; 0: of fixed size */
    int32_t is_resizing; /* by a thread without the lock, so it stays on the lists */
} tni_allocation;

/* A thread that makes its tensors in a private pool. */
typedef struct tni_pool_user {
    struct tni_pool_user *next;
    uint64_t thread;      /* its number: a thread that ends in a pool leaves it to no other one */
    tn_memory_pool *pool; /* a reference */
} tni_pool_user;

/* See allocator_cache.c. */
#define TNI_WATCH_PROFILE 1u
#define TNI_WATCH_HISTORY 2u
#define TNI_WATCH_POOLS   4u

#define TNI_SHARDS     16u
#define TNI_CACHE_BINS 56u
typedef struct tni_shard {
    _Alignas(64) atomic_int lock;
    uint32_t counts_owners; /* the program has let go of the context: each storage is an owner of it */
    int64_t storages;       /* handed out here less given back here */
    int64_t allocated;      /* change since it was last added to the allocator's statistics */
    int64_t blocks;
    uint64_t allocations;
    uint64_t cached; /* bytes */
    tni_block *bins[TNI_CACHE_BINS];
} tni_shard;

struct tni_allocator {
    tni_device *device;
    pthread_mutex_t lock; /* of all that follows but `shards`, `empty`, `direct`, `granule`, `cache_most` */
    pthread_cond_t quiet; /* busy became less */
    uint32_t busy;        /* threads that hold blocks or allocations which are in no list */
    uint64_t granule;     /* sizes are multiples of it */
    uint64_t limit;       /* most bytes reserved; 0: none */
    uint64_t keep;        /* wholly free allocations above this go back at once; 0: all are kept */
    uint64_t idle;        /* bytes in wholly free allocations */
    tni_pool *pools;
    tni_allocation *allocations;
    tni_allocation *gone; /* taken off the lists; tni_allocator_leave gives them back to the device */
    tni_allocation *cut;  /* linked by next_cut: tni_allocator_leave takes memory from their ends */
    tni_block *waiting;
    tn_memory_stats stats;
    tni_memory_options options;
    tni_stat detail[TNI_STAT_COUNT][TNI_GROUPS]; /* all, then the groups in the order of their bits */
    uint64_t last_freed; /* the number of the last allocation that became wholly free */
    uint64_t last_place;
    struct tni_history *history; /* NULL: nothing is recorded */
    atomic_int direct;  /* nothing is cached: each block is a request to the plugin, of the exact size */
    int32_t is_watched; /* by AddressSanitizer: then it is always direct */
    int32_t is_pinned;  /* of memory of the host that the device has pinned, see pinned.c */
    tni_block empty;    /* what a request of 0 bytes gets */
    tni_shard *shards;  /* NULL unless the device is synchronous */
    _Atomic(uint64_t) cache_most;     /* blocks up to this come from the shards; 0: none do */
    uint32_t watchers;                /* TNI_WATCH_..., who is told of each block; then cache_most is 0 */
    struct tni_pool_user *pool_users; /* threads in private pools */
    tn_memory_pool *private_pools;
    _Atomic(struct tni_user_allocator *) user; /* of tn_memory_set_allocator, never replaced; or NULL */
};

/* What tni_central_alloc is asked for. */
typedef struct tni_request {
    tn_stream *stream;
    uint64_t bytes;
    uint64_t asked; /* before rounding */
    int32_t counts; /* the block is counted in the statistics; blocks of the cache are counted there */
    uint32_t flags; /* TN_REQUEST_...; only of memory that is not cached */
} tni_request;

/* allocator.c */
static inline void tni_allocator_enter(struct tni_allocator *a)
{
    pthread_mutex_lock(&a->lock);
}
/* Unlocks, then gives to the device what has gone from the lists, when it has finished its work. */
void tni_allocator_leave(struct tni_allocator *a);
/* Under the lock: takes the thread out of those that hold something. */
void tni_allocator_end_busy(struct tni_allocator *a);
/* TNI_WATCH_...: someone wants to be told of each block from now on, or no longer. */
void tni_allocator_watch(struct tni_allocator *a, uint32_t watcher, int32_t on);
int32_t tni_allocator_is_replaced(const struct tni_allocator *a);
/* Under the lock: adds to the statistics of all blocks and of the groups. */
void tni_allocated_add(struct tni_allocator *a, uint32_t groups, int64_t bytes, int64_t blocks);
static inline void tni_stat_change(tni_stat *s, int64_t amount)
{
    s->current += amount;
    if (s->current > s->peak) s->peak = s->current;
    *(amount > 0 ? &s->allocated : &s->freed) += amount > 0 ? amount : -amount;
}
static inline void tni_stat_add(struct tni_allocator *a, uint32_t stat, uint32_t groups, int64_t amount)
{
    tni_stat_change(&a->detail[stat][0], amount);
    tni_stat_change(&a->detail[stat][groups & TNI_GROUP_SMALL ? 1 : 2], amount);
    if (TNI_UNLIKELY(groups & TNI_GROUP_PRIVATE)) tni_stat_change(&a->detail[stat][3], amount);
}
static inline uint32_t tni_groups_of_size(uint64_t bytes)
{
    return bytes <= TNI_SMALL_BLOCK ? TNI_GROUP_SMALL : TNI_GROUP_LARGE;
}
static inline uint32_t tni_groups_of(const tni_pool *pool)
{
    return (pool->small ? TNI_GROUP_SMALL : TNI_GROUP_LARGE) |
           (pool->capture || pool->number ? TNI_GROUP_PRIVATE : 0);
}
static inline uint32_t tni_groups_of_block(const tni_block *b)
{
    return b->part_of ? tni_groups_of(b->part_of->pool) : tni_groups_of_size(b->bytes);
}
/* Under the lock: a block that was handed out is free for others, or not yet. */
void tni_active_end(struct tni_allocator *a, const tni_block *block);
/* Under the lock: decides whether small blocks come from the shards. */
void tni_cache_choose(struct tni_allocator *a);
/* Under the lock: a block is handed out or taken back. */
void tni_block_count(struct tni_allocator *a, const tni_block *block);
void tni_block_uncount(struct tni_allocator *a, const tni_block *block);
int32_t tni_central_alloc(struct tni_allocator *a, const tni_request *request, tni_block **out);
/* Under the lock: a block from the free lists; *out is NULL if there is none. */
int32_t tni_central_take(struct tni_allocator *a, const tni_request *request, tni_block **out);
/* Without the lock: a new allocation of so many bytes, and a block of it. `range`: as for tni_allocation_create. */
int32_t tni_central_grow(struct tni_allocator *a, const tni_request *request, uint64_t bytes, uint64_t range,
                         tni_block **out);
/* Gives a list of blocks, linked by `next`, back to their pools. They are not counted, and no stream uses
 * them. */
void tni_central_free_list(struct tni_allocator *a, tni_block *list);
/* Under the lock, which is left meanwhile: gives waiting blocks back whose streams have passed. */
void tni_allocator_settle(struct tni_allocator *a);
/* Waits until no other thread holds anything, settles, and gives all free memory back to the device. */
void tni_allocator_collect(struct tni_allocator *a);
void tni_block_list_push(tni_block **list, tni_block *block);
tni_block *tni_block_list_pop(tni_block **list);

/* allocator_shortage.c */
/* The error that says how much was asked for and where the memory is; observers are told. */
int32_t tni_out_of_memory(struct tni_allocator *a, uint64_t bytes);

/* allocator_stats.c */
void tni_memory_observers_call(tn_context *ctx, const tn_memory_shortage *shortage);

/* allocator_options.c */
int32_t tni_memory_options_read(const char *source, const char *text, tni_memory_options *out);
int32_t tni_allocator_configure(struct tni_allocator *a, const tni_memory_options *options);
/* The bytes of the block for a request. */
uint64_t tni_round_up(const struct tni_allocator *a, uint64_t bytes);

/* allocator_pool.c; under the lock where nothing else is said */
tni_pool *tni_pool_find(struct tni_allocator *a, tn_stream *stream, int32_t small);
/* A used block from the free lists, or NULL. */
tni_block *tni_pool_take(struct tni_allocator *a, tni_pool *pool, uint64_t bytes);
/* The same from a given free block that is large enough. */
void tni_pool_take_block(struct tni_allocator *a, tni_block *block, uint64_t bytes);
void tni_pool_give(struct tni_allocator *a, tni_block *block);
/* A block that shows nothing yet of an allocation; NULL without memory. */
tni_block *tni_block_create(struct tni_allocator *a, tni_allocation *part_of);
/* A block of a capture's pool is free. */
void tni_pool_give_captured(struct tni_allocator *a, tni_block *block);
/* TN_OK if a plugin's slot gave memory as it was asked for: kernels rely on alignment and addresses without a check of
 * their own. */
int32_t tni_memory_check(const tni_device *d, const char *slot, const tn_memory *memory, uint64_t bytes);
/* Without the lock: asks the device for memory (`flags`: TN_REQUEST_...), within the limit, and checks what it gave. The
 * bytes count as reserved from then on. */
int32_t tni_device_alloc(struct tni_allocator *a, uint64_t bytes, uint32_t flags, tn_memory *out);
/* Without the lock: counts `bytes` more as reserved, or TN_E_OUT_OF_MEMORY where the limit forbids it. */
int32_t tni_reserve_bytes(struct tni_allocator *a, uint64_t bytes);
void tni_unreserve_bytes(struct tni_allocator *a, uint64_t bytes);
/* Makes a block show all of the memory. */
static inline void tni_block_show(tni_block *b, const tn_memory *memory)
{
    b->allocation = memory->allocation;
    b->offset = memory->offset;
    b->host = memory->host;
    b->address = memory->address;
}
/* Without the lock: gives it back. */
void tni_device_free(const struct tni_allocator *a, const tn_memory *memory);
/* Counts what tni_device_alloc gave. */
void tni_device_alloc_count(struct tni_allocator *a);
/* Without the lock: a new allocation, not in a list yet. `range`: addresses to grow into, or 0. */
int32_t tni_allocation_create(struct tni_allocator *a, uint64_t bytes, uint64_t range, tni_allocation **out);
/* An allocation has grown by so many bytes, which are free. `spare`: an empty block for them. */
void tni_allocation_grown(struct tni_allocator *a, tni_allocation *allocation, uint64_t bytes,
                          tni_block *spare);
/* Takes whole multiples of `unit` that are free off the end of an allocation. Returns how many bytes. */
uint64_t tni_allocation_cut(struct tni_allocator *a, tni_allocation *allocation, uint64_t unit);
/* Puts a new allocation into a pool, all free. */
void tni_allocation_add(struct tni_allocator *a, tni_pool *pool, tni_allocation *allocation);
/* Takes wholly free allocations off the lists until at most `keep` bytes of them are left. */
void tni_allocations_release(struct tni_allocator *a, uint64_t keep);
/* Takes the wholly free allocations off the lists that have been so for longest, until at most `most` bytes are
 * reserved. */
void tni_allocations_collect(struct tni_allocator *a, uint64_t most);
/* Without the lock: gives a list of allocations back to the device. */
void tni_allocations_destroy(struct tni_allocator *a, tni_allocation *list);
/* Gives all back, whatever its state; the device is about to close. */
void tni_pools_finish(struct tni_allocator *a);

/* allocator_expandable.c */
/* The plugin says that the device's memory does not grow: allocations have fixed sizes from now on. */
void tni_expandable_end(struct tni_allocator *a);
/* TN_OK if the device's allocations can grow. */
int32_t tni_expandable_check(const struct tni_allocator *a);
/* Without the lock: whether memory for the stream comes from allocations that grow. */
int32_t tni_is_expandable(struct tni_allocator *a, const tn_stream *stream);
/* Without the lock: asks for the addresses of an allocation, and for memory behind the first `bytes` of them. */
int32_t tni_expandable_alloc(struct tni_allocator *a, uint64_t range, uint64_t bytes, tn_memory *out);
/* Without the lock: a block from an allocation that has grown by at least `bytes`, or from a new one. */
int32_t tni_expandable_grow(struct tni_allocator *a, const tni_request *r, uint64_t bytes, tni_block **out);
/* Under the lock: free memory at the ends of allocations is to go back to the device. */
void tni_expandable_cut(struct tni_allocator *a);
/* Without the lock: takes it from the allocations of a list, linked by next_cut, that no thread resizes. */
void tni_expandable_finish_cut(struct tni_allocator *a, tni_allocation *list);

/* allocator_user.c */
/* Memory of the user's allocator, for a stream; *out_pointer is what its function gave. */
int32_t tni_user_alloc(struct tni_allocator *a, uint64_t bytes, const tn_stream *stream, tn_memory *out,
                       void **out_pointer);
void tni_user_free(const struct tni_allocator *a, const tni_given *given, uint64_t bytes,
                   const tn_stream *stream);
/* The option pluggable_allocator, where it is for this device. */
int32_t tni_user_allocator_configure(struct tni_allocator *a, const tni_memory_options *options);
/* The library, or NULL where there is no user's allocator. */
const char *tni_user_allocator_library(const struct tni_allocator *a);
void tni_user_allocator_destroy(struct tni_allocator *a);

/* allocator_uncached.c */
int32_t tni_replaced_alloc(struct tni_allocator *a, const tni_request *request, tni_block **out);
void tni_replaced_free(struct tni_allocator *a, tni_block *block);
int32_t tni_direct_alloc(struct tni_allocator *a, const tni_request *request, tni_block **out);
void tni_direct_free(struct tni_allocator *a, tni_block *block);

/* Uses of a block by other streams (allocator.c). */
void tni_use_free(struct tni_allocator *a, tni_use *use);
void tni_uses_free(struct tni_allocator *a, tni_block *block);

/* allocator_cache.c */
/* 1 if blocks of so many bytes come from the cache. */
static inline int32_t tni_has_cache(const struct tni_allocator *a, uint64_t bytes)
{
    return bytes - 1 < atomic_load_explicit(&a->cache_most, memory_order_relaxed);
}
/* A block for a storage, which is part of it and begins with tni_storage_start. tni_cache_free_storage takes
 * both back. */
int32_t tni_cache_storage(struct tni_allocator *a, uint64_t bytes, tni_block **out);
void tni_cache_free_storage(struct tni_allocator *a, tni_block *block);
int32_t tni_cache_alloc(struct tni_allocator *a, uint64_t bytes, tni_block **out);
void tni_cache_free(struct tni_allocator *a, tni_block *block);
void tni_cache_flush(struct tni_allocator *a);
/* Under the lock: adds what the shards counted to the statistics. */
void tni_cache_settle(struct tni_allocator *a);

#endif
