/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for the library's own objects. Small blocks (up to TNI_SMALL_BYTES) are cached per thread in a
 * magazine of the context, so that making and dropping a tensor costs no lock. All of them come from the user's
 * allocator and go back to it when the context is destroyed.
 */
#ifndef TNI_CORE_MEMORY_H
#define TNI_CORE_MEMORY_H

#include <tenon/context.h>

#define TNI_SMALL_BYTES 1024u

/* Aligned to 64 bytes. NULL and an error when out of memory. */
void *tni_alloc(tn_context *ctx, uint64_t bytes);
void *tni_alloc_zeroed(tn_context *ctx, uint64_t bytes);
/* NULL is ignored. `bytes` as given to tni_alloc. */
void tni_free(tn_context *ctx, void *memory, uint64_t bytes);
/* A zero-terminated copy; freed with tni_free and strlen + 1. */
char *tni_strdup(tn_context *ctx, const char *text);

/* A fork waits for the lock of all magazines, so that it is free in the child. */
void tni_memory_lock_for_fork(void);
void tni_memory_unlock_after_fork(void);

/* A growing array of equal items. */
typedef struct tni_vector {
    void *data;
    uint32_t count;
    uint32_t capacity;
} tni_vector;
/* Space for one more item of `item_bytes` at the end (count grows), or NULL and an error. */
void *tni_vector_push(tn_context *ctx, tni_vector *v, uint64_t item_bytes);
void tni_vector_finish(tn_context *ctx, tni_vector *v, uint64_t item_bytes);

/* Gives the magazines of all threads back; the context is about to go. */
void tni_memory_flush(tn_context *ctx);

#endif
