/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory. A magazine belongs to one thread and serves one context: a stack of free blocks for each size
 * class of 64 bytes, so that taking and giving back a block is a handful of instructions without lock or
 * atomic. What a magazine cannot serve goes to the user's allocator.
 *
 * Threads and contexts end in any order. A thread that ends gives its blocks back; a context that ends takes
 * its blocks from all magazines and leaves them empty and unattached, for their threads to use again. The
 * attachments are made and undone under one lock of the process, which the fast path never takes.
 *
 * With TN_CONTEXT_DEBUG_HANDLES, and under AddressSanitizer, nothing is cached, so that use after free is
 * found.
 */
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>
#include "core/context.h"
#include "core/error.h"
#include "core/thread.h"

#define CLASS_SHIFT 6 /* classes are multiples of 64 bytes, the alignment of all blocks */
#define CLASS_COUNT (TNI_SMALL_BYTES >> CLASS_SHIFT)
#define CLASS_BLOCKS \
    256 /* of one class in one magazine: a call uses a few, the graph of a training step some hundreds */

typedef struct tni_magazine {
    _Atomic(tn_context *) ctx; /* NULL: unattached */
    struct tni_magazine *next_of_thread;
    struct tni_magazine *next_of_context;
    struct tni_magazine **link_of_context;
    uint32_t counts[CLASS_COUNT];
    void *blocks[CLASS_COUNT][CLASS_BLOCKS];
} tni_magazine;

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key; /* its value: the first magazine of the thread */
static int32_t has_key;

void tni_memory_lock_for_fork(void)
{
    pthread_mutex_lock(&attach_lock);
}

void tni_memory_unlock_after_fork(void)
{
    pthread_mutex_unlock(&attach_lock);
}

static void *allocator_alloc(tn_context *ctx, uint64_t bytes)
{
    return ctx->allocator.alloc(ctx->allocator.user, bytes);
}

static void allocator_free(tn_context *ctx, void *memory, uint64_t bytes)
{
    ctx->allocator.free(ctx->allocator.user, memory, bytes);
}

static int32_t is_bypassed(const tn_context *ctx)
{
#if defined(__SANITIZE_ADDRESS__)
    return 1;
#else
    return TN_HAS_FEATURE(address_sanitizer) || (ctx->flags & TN_CONTEXT_DEBUG_HANDLES) != 0;
#endif
}

/* What the user's allocator is asked for: the full block of a class. */
static uint64_t block_bytes(const tn_context *ctx, uint64_t bytes)
{
    if (bytes == 0) bytes = 1;
    if (bytes > TNI_SMALL_BYTES || is_bypassed(ctx)) return bytes;
    return (bytes + 63) & ~(uint64_t)63;
}

static inline uint64_t class_of(uint64_t bytes)
{
    return (bytes - 1) >> CLASS_SHIFT; /* 0 bytes: beyond every class */
}

/* Under attach_lock. Gives all blocks back and takes the magazine off its context. */
static void detach(tni_magazine *m)
{
    tn_context *ctx = atomic_load_explicit(&m->ctx, memory_order_relaxed);
    if (!ctx) return;
    for (uint64_t c = 0; c < CLASS_COUNT; c++) {
        for (uint32_t i = 0; i < m->counts[c]; i++) {
            allocator_free(ctx, m->blocks[c][i], (c + 1) << CLASS_SHIFT);
        }
        m->counts[c] = 0;
    }
    *m->link_of_context = m->next_of_context;
    if (m->next_of_context) m->next_of_context->link_of_context = m->link_of_context;
    atomic_store_explicit(&m->ctx, NULL, memory_order_relaxed);
}

/* Under attach_lock. */
static void attach(tni_magazine *m, tn_context *ctx)
{
    m->next_of_context = ctx->magazines;
    m->link_of_context = &ctx->magazines;
    if (ctx->magazines) ctx->magazines->link_of_context = &m->next_of_context;
    ctx->magazines = m;
    atomic_store_explicit(&m->ctx, ctx, memory_order_relaxed);
}

static void finish_thread(void *first)
{
    tni_tls.magazine = NULL;
    for (tni_magazine *m = first, *next; m; m = next) {
        next = m->next_of_thread;
        pthread_mutex_lock(&attach_lock);
        detach(m);
        pthread_mutex_unlock(&attach_lock);
        free(m);
    }
}

static void make_key(void)
{
    has_key = pthread_key_create(&thread_key, finish_thread) == 0;
}

/* A new magazine in this thread's list, or NULL: then blocks come from the allocator. */
static tni_magazine *magazine_create(tni_magazine *first)
{
    tni_magazine *m = calloc(1, sizeof(*m));
    if (!m) return NULL;
    m->next_of_thread = first;
    if (pthread_setspecific(thread_key, m) == 0) return m;
    free(m);
    return NULL;
}

/* Makes this thread's magazine for ctx the current one: found, taken over from a context that ended, or new. */
static tni_magazine *switch_magazine(tn_context *ctx)
{
    pthread_once(&key_once, make_key);
    if (!has_key || is_bypassed(ctx)) return NULL;
    tni_magazine *first = pthread_getspecific(thread_key), *unattached = NULL, *m;
    for (m = first; m; m = m->next_of_thread) {
        tn_context *owner = atomic_load_explicit(&m->ctx, memory_order_relaxed);
        if (owner == ctx) break;
        if (!owner) unattached = m;
    }
    if (!m) {
        m = unattached ? unattached : magazine_create(first);
        if (!m) return NULL;
        pthread_mutex_lock(&attach_lock);
        attach(m, ctx);
        pthread_mutex_unlock(&attach_lock);
    }
    tni_tls.magazine = m;
    return m;
}

static __attribute__((noinline)) void *alloc_slow(tn_context *ctx, uint64_t bytes)
{
    tni_magazine *m = tni_tls.magazine;
    uint64_t c = class_of(bytes);
    if (c < CLASS_COUNT && (!m || atomic_load_explicit(&m->ctx, memory_order_relaxed) != ctx)) {
        m = switch_magazine(ctx);
        if (m && m->counts[c]) return m->blocks[c][--m->counts[c]];
    }
    void *memory = allocator_alloc(ctx, block_bytes(ctx, bytes));
    if (memory) return memory;
    atomic_store_explicit(&ctx->lacked_memory, 1, memory_order_relaxed);
    tni_error_no_memory("an object of the library", bytes);
    return NULL;
}

static __attribute__((noinline)) void free_slow(tn_context *ctx, void *memory, uint64_t bytes)
{
    tni_magazine *m = tni_tls.magazine;
    uint64_t c = class_of(bytes);
    if (c < CLASS_COUNT && (!m || atomic_load_explicit(&m->ctx, memory_order_relaxed) != ctx)) {
        m = switch_magazine(ctx);
        if (m && m->counts[c] < CLASS_BLOCKS) {
            m->blocks[c][m->counts[c]++] = memory;
            return;
        }
    }
    allocator_free(ctx, memory, block_bytes(ctx, bytes));
}

void *tni_alloc(tn_context *ctx, uint64_t bytes)
{
    tni_magazine *m = tni_tls.magazine;
    uint64_t c = class_of(bytes);
    if (TNI_LIKELY(m && c < CLASS_COUNT && atomic_load_explicit(&m->ctx, memory_order_relaxed) == ctx)) {
        uint32_t n = m->counts[c];
        if (TNI_LIKELY(n)) {
            m->counts[c] = n - 1;
            return m->blocks[c][n - 1];
        }
    }
    return alloc_slow(ctx, bytes);
}

void *tni_alloc_zeroed(tn_context *ctx, uint64_t bytes)
{
    void *memory = tni_alloc(ctx, bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

void tni_free(tn_context *ctx, void *memory, uint64_t bytes)
{
    if (!memory) return;
    tni_magazine *m = tni_tls.magazine;
    uint64_t c = class_of(bytes);
    if (TNI_LIKELY(m && c < CLASS_COUNT && atomic_load_explicit(&m->ctx, memory_order_relaxed) == ctx)) {
        uint32_t n = m->counts[c];
        if (TNI_LIKELY(n < CLASS_BLOCKS)) {
            m->blocks[c][n] = memory;
            m->counts[c] = n + 1;
            return;
        }
    }
    free_slow(ctx, memory, bytes);
}

char *tni_strdup(tn_context *ctx, const char *text)
{
    uint64_t bytes = strlen(text) + 1;
    char *copy = tni_alloc(ctx, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void tni_memory_flush(tn_context *ctx)
{
    pthread_mutex_lock(&attach_lock);
    while (ctx->magazines) detach(ctx->magazines);
    pthread_mutex_unlock(&attach_lock);
}

void *tni_vector_push(tn_context *ctx, tni_vector *v, uint64_t item_bytes)
{
    if (v->count == v->capacity) {
        if (v->capacity > UINT32_MAX / 2) {
            tni_error_no_memory("a list", (uint64_t)v->capacity * 2 * item_bytes);
            return NULL;
        }
        uint32_t capacity = v->capacity ? v->capacity * 2 : 8;
        void *data = tni_alloc(ctx, capacity * item_bytes);
        if (!data) return NULL;
        if (v->count) memcpy(data, v->data, v->count * item_bytes);
        tni_free(ctx, v->data, v->capacity * item_bytes);
        v->data = data;
        v->capacity = capacity;
    }
    return (char *)v->data + v->count++ * item_bytes;
}

void tni_vector_finish(tn_context *ctx, tni_vector *v, uint64_t item_bytes)
{
    tni_free(ctx, v->data, v->capacity * item_bytes);
    *v = (tni_vector){0};
}
