/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of casts and what they keep; see autocast.h. */
#include "core/autocast.h"

#include "core/thread.h"

tni_autocast *tni_autocast_open(tn_context *ctx, const tn_scope_options *options)
{
    tni_autocast *a = tni_alloc(ctx, sizeof *a);
    if (!a) return NULL;
    *a = (tni_autocast){.outer = tni_tls.autocast,
                        .ctx = ctx,
                        .device_type = TN_DEVICE_TYPE(options->autocast_device),
                        .enabled = options->autocast == TN_SCOPE_AUTOCAST_ON,
                        .low = options->autocast_dtype,
                        .keeps = !(options->flags & TN_SCOPE_AUTOCAST_NO_CACHE)};
    tni_tls.autocast = a;
    return a;
}

static void forget(tn_context *ctx, tni_autocast *a)
{
    const tni_cast *casts = a->casts.data;
    for (uint32_t i = 0; i < a->casts.count; i++) {
        tn_release(casts[i].from);
        tn_release(casts[i].to);
        tni_storage_release(casts[i].storage);
    }
    tni_vector_finish(ctx, &a->casts, sizeof *casts);
    tni_pointer_map_finish(ctx, &a->places);
}

void tni_autocast_close(tn_context *ctx, tni_autocast *a)
{
    struct tni_autocast **link = &tni_tls.autocast; /* scopes may close in any order */
    while (*link && *link != a) link = &(*link)->outer;
    if (*link) *link = a->outer;
    forget(ctx, a);
    tni_free(ctx, a, sizeof *a);
}

const tni_autocast *tni_autocast_for(const tn_context *ctx, uint32_t device_type)
{
    const tni_autocast *a = tni_tls.autocast;
    while (a && (a->ctx != ctx || (a->device_type && a->device_type != device_type))) a = a->outer;
    return a && a->enabled ? a : NULL;
}

static tni_autocast *outermost(const tn_context *ctx)
{
    tni_autocast *found = NULL;
    for (tni_autocast *a = tni_tls.autocast; a; a = a->outer) {
        if (a->ctx == ctx) found = a;
    }
    return found;
}

static uint64_t version_of(const tn_tensor *t)
{
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

tn_tensor *tni_autocast_find(const tn_tensor *from, tn_dtype dtype)
{
    const tni_autocast *a = outermost(from->ctx);
    const uint32_t *place = a ? tni_pointer_map_get(&a->places, from) : NULL;
    if (!place) return NULL;
    const tni_cast *c = (const tni_cast *)a->casts.data + *place;
    int32_t good = c->storage == from->storage && c->to->desc.dtype == dtype &&
                   c->version == version_of(from) && c->recorded == tni_grad_enabled();
    return good ? c->to : NULL;
}

/* A new item for `from`; NULL when there is no memory. */
static tni_cast *add(tni_autocast *a, tn_tensor *from)
{
    tni_cast *c = tni_vector_push(from->ctx, &a->casts, sizeof *c);
    uint32_t *place = c ? tni_pointer_map_put(from->ctx, &a->places, from) : NULL;
    if (!place) {
        a->casts.count -= c != NULL;
        return NULL;
    }
    *place = a->casts.count - 1;
    *c = (tni_cast){.from = tn_retain(from)};
    return c;
}

void tni_autocast_keep(tn_tensor *from, tn_tensor *to)
{
    tni_autocast *a = outermost(from->ctx);
    const uint32_t *known = a ? tni_pointer_map_get(&a->places, from) : NULL;
    tni_cast *c = known ? (tni_cast *)a->casts.data + *known : a ? add(a, from) : NULL;
    if (!c) return;
    tn_release(c->to);
    c->to = tn_retain(to);
    tni_storage_retain(from->storage);
    if (c->storage) tni_storage_release(c->storage);
    c->storage = from->storage;
    c->version = version_of(from);
    c->recorded = tni_grad_enabled();
}
