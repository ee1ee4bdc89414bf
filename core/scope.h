/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: owners of temporaries, one thread each, nested. Opening takes a block from the magazine, closing
 * releases what it holds in reverse order. The first member is the host table, which plugins read
 * (TN_SCOPE_HOST).
 */
#ifndef TNI_CORE_SCOPE_H
#define TNI_CORE_SCOPE_H

#include "core/tensor.h"

#define TNI_SCOPE_INLINE 24
#define TNI_SCOPE_LENT   0x100u /* to a function of a plugin or a program, which may not close it */

typedef struct tni_scope_chunk {
    struct tni_scope_chunk *next;
    uint64_t bytes;
    uint64_t used;
} tni_scope_chunk;

struct tn_scope {
    const tn_host *host; /* first: part of the contract */
    tn_context *ctx;
    tn_scope *parent;
    tn_error *error; /* NULL until the first failure */
    int32_t status;
    uint32_t wants_place;     /* the error is that of the last call, whose place may still come */
    uint32_t saved_grad_mode; /* of the thread, put back when the scope closes */
    tn_dtype saved_default_dtype;
    uint32_t restores; /* what it puts back, and TNI_SCOPE_LENT */
    tn_device saved_default_device;
    struct tni_autocast *autocast; /* the region that it opened */
    uint32_t count;                /* tensors owned */
    uint32_t capacity;
    tn_tensor **owned; /* inline_owned, or memory */
    tni_scope_chunk *memory;
    const void *thread;   /* of the one that opened it: its tni_tls */
    uint64_t placed_from; /* debug.c's: what was made before the call whose place follows */
    tn_tensor *inline_owned[TNI_SCOPE_INLINE];
};

/*
 * TN_OK, or the error of a scope that is NULL or was opened before a fork and, with TN_CONTEXT_DEBUG_HANDLES,
 * of one that was closed or belongs to another thread. The error is recorded for the thread only: nothing is
 * written to the scope.
 */
int32_t tni_scope_check(const tn_scope *s);
/* Frees the closed scopes that a context with TN_CONTEXT_DEBUG_HANDLES keeps. */
void tni_dead_scopes_finish(tn_context *ctx);
/* Records the thread's error in the scope, if it is the first. Returns the scope's status. */
int32_t tni_scope_record(tn_scope *s, int32_t status);
/* Takes a reference; on failure (no memory) releases it, records, returns NULL. */
tn_tensor *tni_scope_own_more(tn_scope *s, tn_tensor *t); /* the list is full */
static inline tn_tensor *tni_scope_own(tn_scope *s, tn_tensor *t)
{
    if (TNI_UNLIKELY(s->count == s->capacity)) return tni_scope_own_more(s, t);
    s->owned[s->count++] = t;
    return t;
}
/* Lends the scope to a function of a plugin or a program, which may not close it. Returns what tni_scope_take_back needs:
 * a function may get the scope that another one has been lent. */
static inline uint32_t tni_scope_lend(tn_scope *s)
{
    const uint32_t was = s->restores & TNI_SCOPE_LENT;
    s->restores |= TNI_SCOPE_LENT;
    return was;
}
static inline void tni_scope_take_back(tn_scope *s, uint32_t was)
{
    s->restores = (s->restores & ~TNI_SCOPE_LENT) | was;
}
/*
 * A scope for a function that may not call operators: each call on it fails with the thread's error, whose status this is.
 * NULL without memory. tni_scope_close_refusing closes it; if an operator was called, that error is the thread's again and
 * the result its status, else TN_OK.
 */
tn_scope *tni_scope_open_refusing(tn_context *ctx, int32_t status);
int32_t tni_scope_close_refusing(tn_scope *s);
/* Lets go of all that the scope owns, as closing it would; it stays open. */
void tni_scope_empty(tn_scope *s);
/* Removes t from the scope without releasing it: the caller has the reference. 0 if it was not owned. */
int32_t tni_scope_disown(tn_scope *s, tn_tensor *t);

#endif
