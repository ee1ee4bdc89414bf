/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of device memory, and how the lifetimes of a block, a storage and a tensor are tied.
 *
 * A device gives allocations. The caching allocator cuts them into blocks and hands these out. A storage owns
 * a block, and tensors share a storage:
 *
 *   tensor    counted; its last reference releases its storage
 *   storage   counted; its last reference frees its block
 *   block     has one owner, a storage or a kernel's workspace, which frees it
 *
 * Each of the three can live alone. A small tensor on the CPU, the common case, is one struct instead, so
 * that a call asks for memory once. A block of the cache (allocator_cache.c) contains a storage
 * (TNI_STORAGE_EMBEDDED) and a tensor (TNI_EMBEDDED), filled in when the block is made. Four rules tie them:
 *
 * 1. While a block is in the cache, its storage and tensor are "as made", which show the whole block. An
 *    owner writes only the few fields that differ between owners (tni_storage_start; new_embedded in
 *    tensor.c).
 * 2. An embedded tensor holds a reference to the storage in its block until it ends, even if it shows another
 *    storage by then (tni_tensor_set_storage). So the tensor's struct never goes before the tensor.
 * 3. An embedded storage holds the block that it is part of until it ends, even if a resize has moved its
 *    contents to another block (tni_storage_resize). So the storage's struct never goes before the storage.
 * 4. Whoever ends restores what it changed: first the tensor (tni_tensor_restore), then the storage
 *    (destroy_moved in storage.c). The storage ends last and gives the block back to the cache.
 *
 * Every storage also keeps its context. Storages of the cache are counted in their shard while the program
 * holds the context, and become its owners when the program lets go (tni_allocator_count_storages). A context
 * with TN_CONTEXT_DEBUG_HANDLES embeds no tensors, because it keeps their structs after their end.
 */
#ifndef TNI_CORE_BLOCK_H
#define TNI_CORE_BLOCK_H

#include "core/tensor.h"

struct tni_allocation;

/* Another stream that uses a block. It keeps no reference: a stream is waited for when it is released, and
 * another number in its struct means that this has happened. */
typedef struct tni_use {
    struct tni_use *next;
    tn_stream *stream;
    uint64_t id;     /* the stream's number */
    tn_event *event; /* recorded when the block is freed; after it the stream no longer uses the block */
} tni_use;

#define TNI_BLOCK_USED    0u /* or in a cache: the lists do not tell these apart */
#define TNI_BLOCK_FREE    1u /* in the bin of its size in its allocation's pool */
#define TNI_BLOCK_WAITING 2u /* freed, but other streams may still use it */

#define TNI_NO_BIN UINT32_MAX

/* Of a block that is not cut from an allocation: what was given for it. */
typedef struct tni_given {
    tn_memory memory;
    void *pointer;       /* as the user's allocator gave it, or NULL */
    int32_t is_replaced; /* by the plugin's allocator or the user's: goes back there */
} tni_given;

struct tni_block {
    void *allocation; /* the plugin's handle */
    uint64_t offset;  /* in bytes, into the allocation */
    void *host;       /* address of the block's first byte, or NULL */
    uint64_t address; /* of the same for the device, or 0 */
    uint64_t bytes;   /* at least what was asked for */
    uint64_t asked;   /* by the last owner; not of blocks in a cache */
    struct tni_allocator *allocator;
    struct tni_allocation *part_of; /* NULL: not cut from an allocation, see allocator_uncached.c */
    tni_block *before, *after;      /* neighbours in the allocation */
    tni_block *previous, *next;     /* in a bin, in a cache, or in the list of waiting blocks */
    tni_use *uses;
    tni_given *given;  /* NULL: cut from an allocation */
    tn_stream *stream; /* of a plugin's or user's allocator: where the block was asked for; a reference */
    uint32_t state;
    uint32_t cache_bin; /* of allocator_cache.c, or TNI_NO_BIN */
    tni_storage storage;
    tn_tensor tensor;
};

/* The block that an embedded storage or tensor is part of. */
static inline tni_block *tni_block_of_storage(tni_storage *s)
{
    return (tni_block *)((char *)s - offsetof(tni_block, storage));
}
static inline tni_block *tni_block_of_tensor(tn_tensor *t)
{
    return (tni_block *)((char *)t - offsetof(tni_block, tensor));
}

/* Makes the block's storage and tensor as made. */
void tni_block_embed(tni_block *block);
void tni_block_embed_tensor(tni_block *block);

/* Begins the life of a storage that is as made. */
static inline tni_storage *tni_storage_start(tni_block *block, uint64_t bytes)
{
    tni_storage *s = &block->storage;
    atomic_init(&s->refs, 1);
    atomic_init(&s->version, 0);
    atomic_init(&s->identity, 0);
    s->bytes = bytes;
    return s;
}

/* 1 if an embedded tensor that ends is as made, but for the fields that each owner writes. */
static inline int32_t tni_tensor_is_as_made(tn_tensor *t)
{
    return t->storage == &tni_block_of_tensor(t)->storage && !t->offset && !t->desc.flags && !t->autograd &&
           !t->base && t->dims == t->inline_dims;
}
/* Makes an embedded tensor that ends as made. Returns the storage of its block, which the caller releases. */
tni_storage *tni_tensor_restore(tn_tensor *t);

#endif
