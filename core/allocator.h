/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caching allocator's own structures, shared by its files: allocator.c (blocks and streams),
 * allocator_pool.c (segments and free lists), allocator_cache.c (small blocks of synchronous host devices),
 * allocator_plain.c (blocks without a cache), allocator_stats.c (the public side).
 *
 * Segments are what the plugin gives; each is cut into pieces in address order. A piece is used, free (in the
 * bin of its size in its segment's pool), waiting (freed while other streams may still use it), or kept in a
 * cache.
 */
#ifndef TNI_CORE_ALLOCATOR_H
#define TNI_CORE_ALLOCATOR_H

#include "core/tensor.h"

#define TNI_SMALL_BLOCK   (1ull << 20)  /* blocks up to this come from small segments */
#define TNI_SMALL_SEGMENT (2ull << 20)  /* so many small blocks share one request to the device */
#define TNI_LARGE_SEGMENT (20ull << 20) /* for blocks below TNI_LARGE_BLOCK; larger ones have their own */
#define TNI_LARGE_BLOCK   (10ull << 20)
#define TNI_SEGMENT_ROUND (2ull << 20)

#define TNI_EXACT_BINS \
    16u /* sizes of 1 to 15 granules have a bin each, larger ones 8 for each power of two */
#define TNI_POOL_BINS (TNI_EXACT_BINS + 60u * 8u)

#define TNI_PIECE_USED    0u /* or in a cache: the lists do not tell */
#define TNI_PIECE_FREE    1u
#define TNI_PIECE_WAITING 2u

/*
 * Another stream that uses a piece; once the piece is freed, the event after which it does no more. It keeps
 * neither stream nor context: a stream that ends is waited for, and then forgotten by all pieces.
 */
typedef struct tni_use {
    struct tni_use *next;
    tn_stream *stream;
    tn_event *event;
} tni_use;

typedef struct tni_piece {
    tni_block block;                   /* first; what the outside knows */
    struct tni_segment *segment;       /* NULL: from the plugin's own allocator */
    struct tni_piece *before, *after;  /* in the segment */
    struct tni_piece *previous, *next; /* in a bin, a cache, the list of waiting ones or of replaced ones */
    tni_use *uses;
    tn_stream *stream; /* with the plugin's own allocator: a reference */
    uint32_t state;
    uint32_t cache_bin;  /* of allocator_cache.c, or TNI_NO_BIN */
    tni_storage storage; /* ready to be given out with a cached piece, see tni_cache_storage */
    tn_tensor tensor;    /* on the storage, ready but for dtype and shape; see tensor.c */
} tni_piece;
#define TNI_NO_BIN UINT32_MAX

typedef struct tni_pool {
    struct tni_pool *next;
    tn_stream *stream; /* whose work orders the pieces; NULL on synchronous devices */
    int32_t small;
    int32_t ended;     /* of a capture whose graph is gone: free segments go back, nothing is given out */
    uint64_t capture;  /* whose memory it is: given to work of that capture only. 0: everybody's */
    tni_piece *parked; /* of a capture: freed while other streams used them, so not given out again */
    uint64_t filled[(TNI_POOL_BINS + 63) / 64];
    tni_piece *bins[TNI_POOL_BINS];
} tni_pool;

typedef struct tni_segment {
    struct tni_segment *previous, *next;
    tni_pool *pool;
    tni_piece *first;
    void *allocation;
    char *host;
    uint64_t bytes;
} tni_segment;

/* See allocator_cache.c. */
#define TNI_SHARDS     16u
#define TNI_CACHE_BINS 56u
typedef struct tni_shard {
    _Alignas(64) atomic_int lock;
    uint32_t counts_owners; /* each storage is an owner of the context: its program has let go of it */
    int64_t storages;       /* given out here less given back here */
    int64_t allocated;      /* change since it was last added to the allocator's statistics */
    int64_t blocks;
    uint64_t allocations;
    uint64_t cached; /* bytes */
    tni_piece *bins[TNI_CACHE_BINS];
} tni_shard;

struct tni_allocator {
    tni_device *device;
    pthread_mutex_t lock; /* all that follows but `shards` and `empty` */
    uint64_t granule;     /* sizes are multiples of it */
    uint64_t limit;       /* most bytes reserved; 0: none */
    uint64_t keep;        /* free whole segments above this go back at once; 0: all are kept */
    uint64_t idle;        /* bytes in free whole segments */
    tni_pool *pools;
    tni_segment *segments;
    tni_piece *waiting;
    tni_piece *replaced; /* blocks of the plugin's own allocator */
    tn_memory_stats stats;
    int32_t direct;    /* nothing is cached: each block is a request to the plugin, of the exact size */
    tni_block empty;   /* what a request of 0 bytes gets */
    tni_shard *shards; /* NULL unless the device is synchronous */
};

/* allocator_pool.c; with the lock held */
tni_pool *tni_pool_find(struct tni_allocator *a, tn_stream *stream, int32_t small);
/* A used piece from the free lists, or NULL. */
tni_piece *tni_pool_take(struct tni_allocator *a, tni_pool *pool, uint64_t bytes);
void tni_pool_give(struct tni_allocator *a, tni_piece *piece);
/* What a plugin's alloc gave is what it must be. */
int32_t tni_check_memory(const tni_device *device, const void *allocation, const void *host);
/* A piece of a capture's pool is free. Where the graph is gone its whole segment may go back. */
void tni_pool_give_captured(struct tni_allocator *a, tni_piece *piece);
/* A new segment of at least `bytes`, all free, in the pool. */
int32_t tni_segment_create(struct tni_allocator *a, tni_pool *pool, uint64_t bytes);
/* Gives free whole segments back until at most `keep` bytes of them are left. No stream may still use them.
 */
void tni_segments_release(struct tni_allocator *a, uint64_t keep);
/* Gives all back, whatever their state, at the end. */
void tni_segments_finish(struct tni_allocator *a);

/* allocator.c */
int32_t tni_allocator_is_replaced(const struct tni_allocator *a);
void tni_allocated_add(struct tni_allocator *a, int64_t bytes, int64_t blocks); /* with the lock held */
int32_t tni_central_alloc(struct tni_allocator *a, uint64_t bytes, tn_stream *stream, tni_piece **out);
void tni_central_free(struct tni_allocator *a, tni_piece *piece);
/* With the lock held: gives waiting pieces back whose streams have passed. */
void tni_allocator_settle(struct tni_allocator *a);
/* With the lock held: the error that says how much was asked for and where the memory is. */
int32_t tni_out_of_memory(struct tni_allocator *a, uint64_t bytes);
void tni_free_uses(struct tni_allocator *a, tni_piece *piece);
void tni_piece_list_add(tni_piece **list, tni_piece *piece);
void tni_piece_list_remove(tni_piece **list, tni_piece *piece);

/* allocator_plain.c */
int32_t tni_replaced_alloc(struct tni_allocator *a, uint64_t bytes, tn_stream *stream, tni_piece **out);
void tni_replaced_free(struct tni_allocator *a, tni_piece *piece);
int32_t tni_direct_alloc(struct tni_allocator *a, uint64_t bytes, tni_piece **out);
void tni_direct_free(struct tni_allocator *a, tni_piece *piece);

/* allocator_cache.c */
/* 1 if blocks of so many bytes come from the cache. */
static inline int32_t tni_has_cache(const struct tni_allocator *a, uint64_t bytes)
{
    return a->shards && bytes - 1 < TNI_SMALL_BLOCK;
}
/*
 * A small block of a device with shards for a storage, which is part of it and starts with tni_storage_start;
 * tni_cache_free_storage takes both. It keeps the context as any storage does, but is counted in its shard
 * until that matters.
 */
int32_t tni_cache_storage(struct tni_allocator *a, uint64_t bytes, tni_piece **out);
void tni_cache_free_storage(struct tni_allocator *a, tni_piece *piece);
static inline tni_storage *tni_storage_start(tni_piece *piece, uint64_t bytes)
{
    tni_storage *s = &piece->storage;
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    s->bytes = bytes;
    return s;
}
/* The piece that an embedded storage, or the header made with it, is part of. */
static inline tni_piece *tni_piece_of_storage(tni_storage *s)
{
    return (tni_piece *)((char *)s - offsetof(tni_piece, storage));
}
static inline tni_piece *tni_piece_of_tensor(tn_tensor *t)
{
    return (tni_piece *)((char *)t - offsetof(tni_piece, tensor));
}
/* Makes a piece's own storage and header show its block, as all pieces in the cache have them. */
void tni_storage_embed(tni_piece *piece);
void tni_header_embed(tni_piece *piece);
int32_t tni_cache_alloc(struct tni_allocator *a, uint64_t bytes, tni_piece **out);
void tni_cache_free(struct tni_allocator *a, tni_piece *piece);
void tni_cache_flush(struct tni_allocator *a);
/* Adds what the shards counted to the statistics. */
void tni_cache_settle(struct tni_allocator *a);

#endif
