/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes. The struct is one block of the thread's magazine; only the members that are read are written, so
 * that opening and closing an empty scope costs a few nanoseconds. Options change the thread's state and are
 * put back when the scope closes.
 */
#include "core/scope.h"

#include <string.h>
#include "core/autocast.h"
#include "core/debug.h"
#include "core/thread.h"

#define RESTORE_GRAD_MODE 1u
#define RESTORE_DTYPE     2u
#define RESTORE_DEVICE    4u
#define RESTORE_AUTOCAST  8u
#define CLOSED            16u /* among the dead scopes of the context */

#define CHUNK_HEADER 32u /* sizeof(tni_scope_chunk) rounded up to the alignment of 16 */
#define CHUNK_FIRST  TNI_SMALL_BYTES
#define CHUNK_LIMIT  65536u /* chunks double up to here */

_Static_assert(sizeof(tni_scope_chunk) <= CHUNK_HEADER, "chunk header");

static inline tn_scope *make_scope(tn_context *ctx, tn_scope *parent)
{
    tn_scope *s = tni_alloc(ctx, sizeof(*s));
    if (TNI_UNLIKELY(!s)) return NULL;
    s->host = &ctx->host;
    s->ctx = ctx;
    s->parent = parent;
    s->error = NULL;
    s->status = TN_OK;
    s->wants_place = 0;
    s->restores = 0;
    s->count = 0;
    s->capacity = TNI_SCOPE_INLINE;
    s->owned = s->inline_owned;
    s->memory = NULL;
    s->thread = &tni_tls;
    return s;
}

/* With TENON_DEBUG=leaks. */
static __attribute__((noinline)) tn_scope *open_watched(tn_context *ctx, tn_scope *parent)
{
    tn_scope *s = make_scope(ctx, parent);
    if (s) tni_debug_scope_opened(s);
    return s;
}

static inline tn_scope *open_scope(tn_context *ctx, tn_scope *parent)
{
    if (TNI_UNLIKELY(!ctx || ctx->flags & (TNI_CONTEXT_FORKED | TNI_CONTEXT_ENDED | TNI_CONTEXT_LEAKS))) {
        return tni_context_check(ctx) ? NULL : open_watched(ctx, parent);
    }
    return make_scope(ctx, parent);
}

/* Of the thread: the last scope whose misuse was logged. One is enough for a call and the questions that follow it. */
static _Thread_local const tn_scope *last_misused;

/* With TN_CONTEXT_DEBUG_HANDLES: closed, or another thread's. */
static int32_t is_misused(const tn_scope *s)
{
    return s->ctx->flags & TN_CONTEXT_DEBUG_HANDLES && (s->restores & CLOSED || s->thread != &tni_tls);
}

/* The error of a scope that is misused; it is logged once. */
static int32_t refuse_misused(const tn_scope *s)
{
    const int32_t is_closed = (s->restores & CLOSED) != 0, status = is_closed ? TN_E_DEAD_HANDLE : TN_E_STATE;
    const char *text = is_closed
                           ? "scope %p was closed and is used again%s"
                           : "scope %p belongs to the thread that opened it and is used on another one%s";
    char origin[TNI_ORIGIN_BYTES];
    tni_debug_origin(s->ctx, s, origin, sizeof origin);
    if (last_misused == s) return tni_error(status, text, (const void *)s, origin);
    last_misused = s;
    return tni_error_logged(s->ctx, status, text, (const void *)s, origin);
}

/* What a scope may not be when it is closed; its context may have been destroyed. */
static int32_t check_end(const tn_scope *s)
{
    const int32_t wrong = tni_context_check_kept(s->ctx);
    return wrong ? wrong : is_misused(s) ? refuse_misused(s) : TN_OK;
}

static inline __attribute__((always_inline)) int32_t check(const tn_scope *s)
{
    if (TNI_UNLIKELY(!s))
        return tni_error(TN_E_STATE, "a scope is missing: opening it failed, or NULL was given in its place");
    if (TNI_LIKELY(!(s->ctx->flags & TNI_CONTEXT_CHECKS_SCOPES))) return TN_OK;
    const int32_t wrong = check_end(s);
    return wrong ? wrong : tni_context_check(s->ctx);
}

int32_t tni_scope_check(const tn_scope *s)
{
    return check(s);
}

static void keep_dead(tn_scope *s)
{
    tn_context *ctx = s->ctx;
    if (last_misused == s) last_misused = NULL; /* now it is misused in another way */
    s->restores |= CLOSED;
    s->error = NULL;
    s->status = TN_OK;
    s->parent = atomic_load(&ctx->dead_scopes);
    while (!atomic_compare_exchange_weak(&ctx->dead_scopes, &s->parent, s)) continue;
}

void tni_dead_scopes_finish(tn_context *ctx)
{
    tn_scope *s = atomic_exchange(&ctx->dead_scopes, NULL);
    last_misused = NULL; /* its memory may become another scope */
    while (s) {
        tn_scope *next = s->parent;
        tni_free(ctx, s, sizeof(*s));
        s = next;
    }
}

static int32_t check_options(const tn_scope_options *o)
{
    if (o->grad_mode > TN_GRAD_INFERENCE) {
        return tni_error(TN_E_ARGUMENT, "tn_scope_options: unknown grad_mode %u (expected TN_GRAD_...)",
                         o->grad_mode);
    }
    if (o->flags & ~TN_SCOPE_AUTOCAST_NO_CACHE)
        return tni_error(TN_E_UNKNOWN_FIELD, "tn_scope_options: unknown flags 0x%x", o->flags);
    if (o->autocast > TN_SCOPE_AUTOCAST_OFF) {
        return tni_error(TN_E_ARGUMENT,
                         "tn_scope_options: unknown autocast %u (expected TN_SCOPE_AUTOCAST_...)",
                         o->autocast);
    }
    if (o->autocast_dtype && o->autocast_dtype != TN_FLOAT16 && o->autocast_dtype != TN_BFLOAT16)
        return tni_error(TN_E_DTYPE, "tn_scope_options: autocast_dtype must be float16 or bfloat16");
    if (o->autocast_device & TN_DEVICE_MISSING)
        return tni_error(TN_E_DEVICE, "tn_scope_options: autocast_device is a device that is missing");
    tn_dtype d = o->default_dtype;
    if (d && d != TN_FLOAT16 && d != TN_BFLOAT16 && d != TN_FLOAT32 && d != TN_FLOAT64) {
        return tni_error(TN_E_DTYPE,
                         "tn_scope_options: default_dtype must be float16, bfloat16, float32 or float64");
    }
    return TN_OK;
}

static void apply_options(tn_scope *s, const tn_scope_options *options)
{
    tn_scope_options o;
    int32_t status = tni_struct_read(&o, sizeof(o), options, "tn_scope_options");
    if (!status) status = check_options(&o);
    if (status) {
        tni_scope_record(s, status);
        return;
    }
    if (o.grad_mode != TN_GRAD_INHERIT) {
        s->saved_grad_mode = tni_tls.grad_mode;
        s->restores |= RESTORE_GRAD_MODE;
        tni_tls.grad_mode = o.grad_mode;
    }
    if (o.default_dtype) {
        s->saved_default_dtype = tni_tls.default_dtype;
        s->restores |= RESTORE_DTYPE;
        tni_tls.default_dtype = o.default_dtype;
    }
    if (o.device) {
        s->saved_default_device = tni_tls.default_device;
        s->restores |= RESTORE_DEVICE;
        tni_tls.default_device = o.device;
    }
    if (o.autocast) {
        s->autocast = tni_autocast_open(s->ctx, &o);
        if (s->autocast)
            s->restores |= RESTORE_AUTOCAST;
        else
            tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    }
}

static void restore_options(const tn_scope *s)
{
    if (s->restores & RESTORE_GRAD_MODE) tni_tls.grad_mode = s->saved_grad_mode;
    if (s->restores & RESTORE_DTYPE) tni_tls.default_dtype = s->saved_default_dtype;
    if (s->restores & RESTORE_DEVICE) tni_tls.default_device = s->saved_default_device;
    if (s->restores & RESTORE_AUTOCAST) tni_autocast_close(s->ctx, s->autocast);
}

tn_scope *tn_scope_open(tn_context *ctx)
{
    return open_scope(ctx, NULL);
}

tn_scope *tn_scope_open_with(tn_context *ctx, const tn_scope_options *options)
{
    tn_scope *s = open_scope(ctx, NULL);
    if (s && options) apply_options(s, options);
    return s;
}

/* The child of a scope that has failed has its error, so that calls on the child do nothing either. */
static __attribute__((noinline)) void inherit_error(tn_scope *s)
{
    s->status = s->parent->status;
    s->error = tni_error_duplicate(s->parent->error);
}

tn_scope *tn_scope_open_child(tn_scope *parent, const tn_scope_options *options)
{
    if (TNI_UNLIKELY(check(parent))) return NULL;
    tn_scope *s = open_scope(parent->ctx, parent);
    if (TNI_UNLIKELY(!s)) {
        tni_scope_record(parent, tn_last_error()->code);
        return NULL;
    }
    if (TNI_UNLIKELY(parent->status)) inherit_error(s);
    if (options) apply_options(s, options);
    return s;
}

static void free_memory(tn_scope *s)
{
    for (tni_scope_chunk *c = s->memory, *next; c; c = next) {
        next = c->next;
        tni_free(s->ctx, c, c->bytes);
    }
}

/* The rare parts of a scope: an error, memory, options, many tensors. */
static __attribute__((noinline)) void close_rest(tn_scope *s)
{
    free_memory(s);
    if (s->owned != s->inline_owned) tni_free(s->ctx, s->owned, s->capacity * sizeof(tn_tensor *));
    restore_options(s);
    if (!s->status) return;
    if (s->parent && !s->parent->status) {
        s->parent->status = s->status;
        s->parent->error = s->error;
    } else {
        /* With the place of the call and the names of modules, which the thread's own copy does not have. */
        if (!s->parent) tni_error_restore_placed(s->error);
        tn_error_release(s->error);
    }
}

void tni_scope_empty(tn_scope *s)
{
    while (s->count) tn_release(s->owned[--s->count]);
    if (TNI_UNLIKELY(s->memory != NULL)) {
        free_memory(s);
        s->memory = NULL;
    }
}

static __attribute__((noinline)) int32_t refuse_close(tn_scope *s)
{
    return tni_scope_record(
        s, tni_error(TN_E_CONTRACT, "tn_scope_close: the scope is that of a call, which closes it"));
}

int32_t tn_scope_close(tn_scope *s)
{
    if (!s) return TN_OK;
    if (TNI_UNLIKELY(s->restores & TNI_SCOPE_LENT)) return refuse_close(s);
    if (TNI_UNLIKELY(s->ctx->flags & TNI_CONTEXT_CHECKS_SCOPES)) {
        int32_t wrong = check_end(s);
        if (wrong) return wrong;
        if (s->ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_scope_closed(s);
    }
    while (s->count) tn_release(s->owned[--s->count]);
    int32_t status = s->status;
    if (TNI_UNLIKELY(s->memory || s->restores || status || s->owned != s->inline_owned)) close_rest(s);
    if (TNI_UNLIKELY(s->ctx->flags & TN_CONTEXT_DEBUG_HANDLES))
        keep_dead(s);
    else
        tni_free(s->ctx, s, sizeof(*s));
    return status;
}

tn_scope *tni_scope_open_refusing(tn_context *ctx, int32_t status)
{
    tn_scope *s = tn_scope_open(ctx);
    if (!s) return NULL;
    tni_scope_record(s, status);
    tni_scope_lend(s);
    return s;
}

/* A call on a scope that has failed clears `wants_place`. */
int32_t tni_scope_close_refusing(tn_scope *s)
{
    const int32_t status = s->wants_place ? TN_OK : s->status;
    if (status) tni_error_restore(s->error);
    tn_error_release(s->error);
    s->error = NULL;
    s->status = TN_OK;
    tni_scope_take_back(s, 0);
    tn_scope_close(s);
    return status;
}

tn_context *tn_scope_context(const tn_scope *s)
{
    return s ? s->ctx : NULL;
}

int32_t tn_scope_failed(const tn_scope *s)
{
    int32_t wrong = check(s);
    return TNI_UNLIKELY(wrong) ? wrong : s->status;
}

const tn_error *tn_scope_error(const tn_scope *s)
{
    return TNI_UNLIKELY(check(s)) ? tn_last_error() : s->error;
}

/* The thread's error goes, too: else the next failure with the same status and no text of its own would show it. */
void tn_scope_clear(tn_scope *s)
{
    if (TNI_UNLIKELY(check(s))) return;
    if (s->status) tn_clear_error();
    tn_error_release(s->error);
    s->error = NULL;
    s->status = TN_OK;
}

void tn_scope_place(tn_scope *s, const char *file, uint32_t line)
{
    if (!s || !s->status || !file || check(s)) return;
    s->error = tni_error_extended(s->error, file, line, "");
    s->wants_place = 0;
}

void tn_scope_add_to_error(tn_scope *s, const char *text)
{
    if (!s || !s->status || !text || check(s)) return;
    s->error = tni_error_extended(s->error, s->error->file, s->error->line, text);
}

/* A scope that is misused has not failed yet: the call finds that, and tn_scope_call_place says where. */
int32_t tn_scope_place_begin(tn_scope *s)
{
    if (TNI_UNLIKELY(s && s->ctx->flags & TNI_CONTEXT_PLACES && is_misused(s))) {
        tni_tls.place_follows = 1;
        return TN_PLACE_WANTED;
    }
    int32_t status = tn_scope_failed(s);
    if (status || TNI_LIKELY(!(s->ctx->flags & TNI_CONTEXT_PLACES))) return status;
    tni_debug_place_begin(s);
    return TN_PLACE_WANTED;
}

void tn_scope_call_place(tn_scope *s, const char *file, uint32_t line)
{
    /* A call among the arguments of this one may have told its place meanwhile. */
    const int32_t is_wanted =
        tni_tls.place_follows || (s && !s->status && s->ctx->flags & TNI_CONTEXT_PLACES);
    if (TNI_UNLIKELY(is_wanted && s && !tni_context_is_forked(s->ctx))) {
        const int32_t misused = is_misused(s);
        tni_debug_place_end(s, misused ? UINT64_MAX : s->placed_from, file, line);
        if (misused) return;
    }
    if (s && s->status && s->wants_place) tn_scope_place(s, file, line);
}

int32_t tni_scope_record(tn_scope *s, int32_t status)
{
    if (s->status || !status) return s->status;
    s->status = tni_error_ensure(status, "a call");
    s->error = tni_error_copy();
    s->wants_place = 1;
    return s->status;
}

/* Without a scope the error is that of the thread: for functions that were given nothing to ask for one. */
int32_t tn_scope_fail(tn_scope *s, int32_t status, const char *message)
{
    if (!status) return TN_OK;
    if (s && TNI_UNLIKELY(check(s))) return tn_scope_failed(s);
    status = tni_error(status, "%s", message ? message : tn_status_text(status));
    if (!s) return status;
    tni_scope_record(s, status);
    return status;
}

static int32_t grow_owned(tn_scope *s)
{
    uint64_t bytes = s->capacity * sizeof(tn_tensor *);
    tn_tensor **owned = tni_alloc(s->ctx, bytes * 2);
    if (!owned) return TN_E_OUT_OF_MEMORY;
    memcpy(owned, s->owned, bytes);
    if (s->owned != s->inline_owned) tni_free(s->ctx, s->owned, bytes);
    s->owned = owned;
    s->capacity *= 2;
    return TN_OK;
}

tn_tensor *tni_scope_own_more(tn_scope *s, tn_tensor *t)
{
    if (grow_owned(s)) {
        tn_release(t);
        tni_scope_record(s, TN_E_OUT_OF_MEMORY);
        return NULL;
    }
    s->owned[s->count++] = t;
    return t;
}

/* An owned tensor that is not the newest one. */
static int32_t disown_older(tn_scope *s, const tn_tensor *t)
{
    for (uint32_t i = s->count; i-- > 0;) {
        if (s->owned[i] != t) continue;
        memmove(&s->owned[i], &s->owned[i + 1], (s->count - i - 1) * sizeof(tn_tensor *));
        s->count--;
        return 1;
    }
    return 0;
}

static inline __attribute__((always_inline)) int32_t disown(tn_scope *s, const tn_tensor *t)
{
    if (TNI_UNLIKELY(!s->count || s->owned[s->count - 1] != t)) return disown_older(s, t);
    s->count--;
    return 1;
}

int32_t tni_scope_disown(tn_scope *s, tn_tensor *t)
{
    return disown(s, t);
}

tn_tensor *tn_scope_adopt(tn_scope *s, tn_tensor *t)
{
    if (!t) return NULL;
    if (TNI_LIKELY(!check(s))) return tni_scope_own(s, t);
    tn_release(t);
    return NULL;
}

/* A tensor that the scope does not own stays where it is; the caller of a root scope still gets a reference. */
tn_tensor *tn_scope_return(tn_scope *s, tn_tensor *t)
{
    if (!t || TNI_UNLIKELY(check(s))) return NULL;
    int32_t owned = disown(s, t);
    if (!s->parent) return owned ? t : tn_retain(t);
    return owned ? tni_scope_own(s->parent, t) : t;
}

void tn_drop(tn_scope *s, tn_tensor *t)
{
    if (t && TNI_LIKELY(!check(s)) && disown(s, t)) tn_release(t);
}

/* A chunk with room for `bytes`. A large request gets a chunk of its own behind the current one. */
static tni_scope_chunk *add_chunk(tn_scope *s, uint64_t bytes)
{
    tni_scope_chunk *current = s->memory;
    uint64_t size = current ? current->bytes * 2 : CHUNK_FIRST;
    if (size > CHUNK_LIMIT) size = CHUNK_LIMIT;
    int32_t is_large = bytes > size - CHUNK_HEADER;
    if (is_large) size = bytes + CHUNK_HEADER;
    tni_scope_chunk *c = tni_alloc(s->ctx, size);
    if (!c) return NULL;
    c->bytes = size;
    c->used = CHUNK_HEADER;
    if (is_large && current) {
        c->next = current->next;
        current->next = c;
    } else {
        c->next = current;
        s->memory = c;
    }
    return c;
}

void *tn_scope_memory(tn_scope *s, uint64_t bytes)
{
    if (tn_scope_failed(s)) return NULL;
    tni_scope_chunk *c = s->memory;
    if (bytes > INT64_MAX) {
        tni_scope_record(s, tni_error_no_memory("tn_scope_memory", bytes));
        return NULL;
    }
    bytes = (bytes + 15) & ~(uint64_t)15;
    if (!c || bytes > c->bytes - c->used) c = add_chunk(s, bytes);
    if (!c) {
        tni_scope_record(s, TN_E_OUT_OF_MEMORY);
        return NULL;
    }
    void *memory = (char *)c + c->used;
    c->used += bytes;
    return memory;
}
