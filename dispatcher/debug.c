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

static int32_t is_given(const tn_call_info *info, const tn_tensor *t)
{
    for (uint32_t i = 0; i < info->n_args; i++) {
        const tn_value *v = &info->args[i];
        if (v->tag == TN_TAG_TENSOR && v->as.tensor == t) return 1;
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++) {
            if (v->as.tensors[k] == t) return 1;
        }
    }
    return 0;
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

/* What a tensor holds; nothing for one that cannot be read here. */
static finds look_at(const tn_tensor *t)
{
    finds f = {-1, -1};
    if (!can_read(t)) return f;
    uint64_t bytes = (uint64_t)(t->numel * tn_dtype_bytes(t->desc.dtype));
    char *copy = tni_alloc(t->ctx, bytes);
    if (!copy) return f;
    if (tni_tensor_read(t, copy, bytes))
        tni_log(t->ctx, TN_LOG_ERROR, "TENON_DEBUG: reading a result failed: %s", tn_last_error()->message);
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
        const tn_value *v = &info->args[i];
        uint32_t n = v->tag == TN_TAG_TENSOR ? 1 : v->tag == TN_TAG_TENSORS ? v->count : 0;
        for (uint32_t k = 0; k < n; k++) {
            const tn_tensor *t = v->tag == TN_TAG_TENSOR ? v->as.tensor : v->as.tensors[k];
            const finds f = t ? look_at(t) : (finds){-1, -1};
            if (holds(&f, nan)) return 1;
        }
    }
    return 0;
}

static void report(tni_call_watch *w, const tn_call_info *info, uint32_t i, const tn_tensor *t, int32_t nan,
                   int64_t element)
{
    char sizes[256], text[640];
    if (atomic_exchange(nan ? &w->has_nan : &w->has_infinity, 1)) return;
    const char *origin = is_given(info, t)      ? " (written in place)"
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
    return strstr(name, "empty") || strstr(name, "resize");
}

static void watch_tensor(tni_call_watch *w, const tn_call_info *info, uint32_t i, const tn_tensor *t)
{
    if (w->wishes & TNI_DEBUG_LEAKS && !is_given(info, t)) tni_debug_made(t, info->name);
    if (!(w->wishes & TNI_DEBUG_NAN) || is_unwritten(info->name)) return;
    if (atomic_load(&w->has_nan) && atomic_load(&w->has_infinity)) return;
    const finds f = look_at(t);
    if (f.nan >= 0) report(w, info, i, t, 1, f.nan);
    /* Composites mask with infinities of their own, which softmax takes away. */
    if (f.infinity >= 0 && !info->depth) report(w, info, i, t, 0, f.infinity);
}

static void leave(void *user, const tn_call_info *info, uint64_t token)
{
    (void)token;
    for (uint32_t i = 0; i < info->n_outs && !info->status; i++) {
        const tn_value *v = &info->outs[i];
        uint32_t n = v->tag == TN_TAG_TENSOR ? 1 : v->tag == TN_TAG_TENSORS ? v->count : 0;
        for (uint32_t k = 0; k < n; k++) {
            const tn_tensor *t = v->tag == TN_TAG_TENSOR ? v->as.tensor : v->as.tensors[k];
            if (t) watch_tensor(user, info, i, t);
        }
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
    const tn_observer observer = {.size = sizeof observer, .user = w, .leave = leave};
    return tn_observer_add(ctx, &observer, &handle);
}

void tni_call_watch_finish(tn_context *ctx)
{
    if (ctx->call_watch) tni_free(ctx, ctx->call_watch, sizeof(tni_call_watch));
    ctx->call_watch = NULL;
}
