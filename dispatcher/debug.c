/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TENON_DEBUG's view of the calls (core/debug.h): an observer that tells the core which call made a tensor,
 * and looks at results for the first NaN and the first infinity. Absent unless the environment asks for it.
 */
#include "core/debug.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/graph.h"
#include "core/transfer.h"
#include "dispatcher/call.h"
#include "dispatcher/rooms.h"

typedef struct tni_call_watch {
    tn_context *ctx;
    uint32_t wishes;
    atomic_int has_nan, has_infinity; /* one was seen */
} tni_call_watch;

/* The first element of each kind, or -1. */
typedef struct finds {
    int64_t nan, infinity;
} finds;

/* The tensors of a value; `*out_count` of them, which may be NULL. */
static tn_tensor *const *tensors_of(const tn_value *v, uint32_t *out_count)
{
    *out_count = v->tag == TN_TAG_TENSOR ? 1 : v->tag == TN_TAG_TENSORS ? v->count : 0;
    return v->tag == TN_TAG_TENSOR ? &v->as.tensor : v->as.tensors;
}

static int32_t is_given(const tn_call_info *info, const tn_tensor *t)
{
    for (uint32_t i = 0; i < info->n_args; i++) {
        uint32_t n;
        tn_tensor *const *list = tensors_of(&info->args[i], &n);
        for (uint32_t k = 0; k < n; k++)
            if (list[k] == t) return 1;
    }
    return 0;
}

static int32_t is_written(const tni_call_watch *w, const tn_call_info *info, uint32_t i)
{
    return tni_op_get(w->ctx->registry, info->op)->schema->args[i].written;
}

/* 1 for a view, or an argument that is handed on: it lies in memory of an argument that the call does not write. */
static int32_t is_view(const tni_call_watch *w, const tn_call_info *info, const tn_tensor *t)
{
    int32_t shares = 0;
    for (uint32_t i = 0; i < info->n_args; i++) {
        uint32_t n;
        tn_tensor *const *list = tensors_of(&info->args[i], &n);
        for (uint32_t k = 0; k < n; k++) {
            if (!list[k] || list[k]->storage != t->storage) continue;
            if (is_written(w, info, i)) return 0;
            shares = 1;
        }
    }
    return shares;
}

static int32_t can_read(const tn_tensor *t)
{
    tni_device *d = t->storage->device;
    if (!d || !t->numel || !tni_is_differentiable(t->desc.dtype) || t->desc.layout != TN_INTERNED_STRIDED)
        return 0;
    return d->synchronous || !tni_stream_captures(tni_current_stream(d));
}

static finds look(const char *data, tn_dtype dtype, int64_t numel)
{
    finds f = {-1, -1};
    int64_t item = tn_dtype_bytes(dtype);
    for (int64_t i = 0; i < numel && (f.nan < 0 || f.infinity < 0); i++) {
        tni_element e;
        tni_element_load(data + i * item, dtype, &e);
        if (f.nan < 0 && (isnan(e.re) || isnan(e.im))) f.nan = i;
        if (f.infinity < 0 && (isinf(e.re) || isinf(e.im))) f.infinity = i;
    }
    return f;
}

/* A late error, which the program is still to be told. */
static void read_failed(const tn_tensor *t, int32_t status)
{
    tni_device *d = t->storage->device;
    tni_log(t->ctx, TN_LOG_ERROR, "TENON_DEBUG: reading a result failed: %s", tn_last_error()->message);
    if (!d->synchronous) tni_late_note(tni_current_stream(d), status, "reading a result");
}

/* What a tensor holds; nothing for one that cannot be read here. */
static finds look_at(const tn_tensor *t)
{
    finds f = {-1, -1};
    if (!can_read(t)) return f;
    uint64_t bytes = (uint64_t)(t->numel * tn_dtype_bytes(t->desc.dtype));
    char *copy = tni_alloc(t->ctx, bytes);
    if (!copy) return f;
    int32_t status = tni_tensor_read(t, copy, bytes);
    if (status)
        read_failed(t, status);
    else
        f = look(copy, t->desc.dtype, t->numel);
    tni_free(t->ctx, copy, bytes);
    return f;
}

int64_t tni_first_nan(const tn_tensor *t)
{
    return look_at(t).nan;
}

static int32_t holds(const finds *f, int32_t nan)
{
    return nan ? f->nan >= 0 : f->infinity >= 0;
}

/* 1 if a tensor among the arguments holds one already. */
static int32_t was_given(const tn_call_info *info, int32_t nan)
{
    for (uint32_t i = 0; i < info->n_args; i++) {
        uint32_t n;
        tn_tensor *const *list = tensors_of(&info->args[i], &n);
        for (uint32_t k = 0; k < n; k++) {
            const finds f = list[k] ? look_at(list[k]) : (finds){-1, -1};
            if (holds(&f, nan)) return 1;
        }
    }
    return 0;
}

/* Bits of a token: what an argument that the call writes held before. */
#define HELD_NAN      1u
#define HELD_INFINITY 2u

static void report(tni_call_watch *w, const tn_call_info *info, uint32_t i, const tn_tensor *t, int32_t nan,
                   int64_t element, uint64_t token)
{
    char sizes[256], text[640];
    if (atomic_exchange(nan ? &w->has_nan : &w->has_infinity, 1)) return;
    const int32_t held = (token & (nan ? HELD_NAN : HELD_INFINITY)) != 0, given = is_given(info, t);
    const char *origin = given && held          ? " (written in place; it held one already)"
                         : given                ? " (written in place)"
                         : was_given(info, nan) ? " (an argument held one already)"
                                                : "";
    snprintf(text, sizeof text, "first %s: element %lld of result %u of %s, call %llu, %s %s%s",
             nan ? "NaN" : "infinity", (long long)element, i, info->name, (unsigned long long)info->sequence,
             tn_dtype_name(t->desc.dtype), tni_shape_text(t->desc.rank, t->desc.sizes, sizes, sizeof sizes),
             origin);
    tni_debug_found(w->ctx, text);
}

/* Results of these are memory that nobody has written. */
static int32_t is_unwritten(const char *name)
{
    return strncmp(name, "aten::", 6) == 0 && (strstr(name, "empty") || strstr(name, "resize"));
}

static int32_t is_done(tni_call_watch *w)
{
    return !(w->wishes & TNI_DEBUG_NAN) || (atomic_load(&w->has_nan) && atomic_load(&w->has_infinity));
}

static void watch_tensor(tni_call_watch *w, const tn_call_info *info, uint32_t i, const tn_tensor *t,
                         uint64_t token)
{
    if (w->wishes & TNI_DEBUG_LEAKS && !is_given(info, t)) tni_debug_made(t, info->name);
    if (is_done(w) || is_unwritten(info->name) || is_view(w, info, t)) return;
    const finds f = look_at(t);
    /* A composite writes new memory in parts: what it has not written yet may hold anything. */
    if (f.nan >= 0 && !(info->depth && token & HELD_NAN)) report(w, info, i, t, 1, f.nan, token);
    /* Composites mask with infinities of their own, which softmax takes away. */
    if (f.infinity >= 0 && !info->depth) report(w, info, i, t, 0, f.infinity, token);
}

static void enter(void *user, const tn_call_info *info, uint64_t *token)
{
    tni_call_watch *w = user;
    if (is_done(w) || is_unwritten(info->name)) return;
    if (tni_op_get(w->ctx->registry, info->op)->form != TNI_FORM_INPLACE) return;
    for (uint32_t i = 0; i < info->n_args; i++) {
        uint32_t n;
        tn_tensor *const *list = tensors_of(&info->args[i], &n);
        for (uint32_t k = 0; k < n && is_written(w, info, i); k++) {
            const finds f = list[k] ? look_at(list[k]) : (finds){-1, -1};
            *token |= (f.nan >= 0 ? HELD_NAN : 0) | (f.infinity >= 0 ? HELD_INFINITY : 0);
        }
    }
}

static void leave(void *user, const tn_call_info *info, uint64_t token)
{
    for (uint32_t i = 0; i < info->n_outs && !info->status; i++) {
        uint32_t n;
        tn_tensor *const *list = tensors_of(&info->outs[i], &n);
        for (uint32_t k = 0; k < n; k++)
            if (list[k]) watch_tensor(user, info, i, list[k], token);
    }
}

int32_t tni_call_watch_init(tn_context *ctx, const tn_context_options *options)
{
    (void)options;
    uint64_t handle;
    uint32_t wishes = tni_debug_wishes(ctx) & (TNI_DEBUG_LEAKS | TNI_DEBUG_NAN);
    if (!wishes) return TN_OK;
    tni_call_watch *w = tni_alloc_zeroed(ctx, sizeof *w);
    if (!w) return TN_E_OUT_OF_MEMORY;
    w->ctx = ctx;
    w->wishes = wishes;
    ctx->call_watch = w;
    const tn_observer observer = {.size = sizeof observer, .user = w, .enter = enter, .leave = leave};
    return tn_observer_add(ctx, &observer, &handle);
}

void tni_call_watch_finish(tn_context *ctx)
{
    if (ctx->call_watch) tni_free(ctx, ctx->call_watch, sizeof(tni_call_watch));
    ctx->call_watch = NULL;
}
