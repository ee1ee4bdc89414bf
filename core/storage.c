/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storages: one block of a device's memory, or memory of the caller's, shared by all views and counted. A
 * storage keeps its context, so that a tensor may outlive the program's own reference to it.
 */
#include <string.h>
#include "core/allocator.h"

/* Blocks that a resize left behind: work that was given other views of them may not have finished. */
typedef struct tni_old_block {
    struct tni_old_block *next;
    tni_block *block;
} tni_old_block;

static tni_storage *new_storage(tn_context *ctx, tni_device *device, uint64_t bytes)
{
    tni_storage *s = tni_alloc(ctx, sizeof *s);
    if (!s) return NULL;
    /* Field by field, which is faster than clearing the whole struct first. */
    atomic_init(&s->refs, 1);
    s->flags = 0;
    s->ctx = ctx;
    s->device = device;
    s->allocation = NULL;
    s->offset = 0;
    s->host = NULL;
    s->address = 0;
    s->bytes = bytes;
    atomic_init(&s->version, 0);
    atomic_init(&s->identity, 0);
    s->block = NULL;
    s->old = NULL;
    s->deleter = NULL;
    s->deleter_user = NULL;
    return s;
}

/* Of pinned memory the CPU sees its address only. */
static void show_block(tni_storage *s, tni_block *block)
{
    int32_t is_pinned = block->allocator->is_pinned;
    s->block = block;
    s->allocation = is_pinned ? block->host : block->allocation;
    s->offset = is_pinned ? 0 : block->offset;
    s->host = block->host;
    s->address = is_pinned ? 0 : block->address;
}

int32_t tni_storage_create(tni_device *device, uint64_t bytes, tni_storage **out)
{
    tni_block *block;
    tn_context *ctx = device->ctx;
    int32_t status;
    if (TNI_LIKELY(tni_has_cache(device->allocator, bytes))) {
        tni_block *p;
        status = tni_cache_storage(device->allocator, bytes, &p);
        if (!status) *out = tni_storage_start(p, bytes);
        return status;
    }
    tni_storage *s = new_storage(ctx, device, bytes);
    if (TNI_UNLIKELY(!s)) return TN_E_OUT_OF_MEMORY;
    status = tni_block_alloc(device, bytes, tni_current_stream(device), &block);
    if (TNI_UNLIKELY(status)) {
        tni_free(ctx, s, sizeof *s);
        return status;
    }
    show_block(s, block);
    tni_context_own(ctx);
    *out = s;
    return TN_OK;
}

int32_t tni_storage_create_pinned(tni_device *pins, uint64_t bytes, tni_storage **out)
{
    tni_block *block;
    tni_device *cpu = tni_device_get(pins->ctx, TN_CPU);
    if (!cpu) return tn_last_error()->code;
    tni_storage *s = new_storage(pins->ctx, cpu, bytes);
    if (!s) return TN_E_OUT_OF_MEMORY;
    int32_t status = tni_pinned_alloc(pins, bytes, &block);
    if (status) {
        tni_free(pins->ctx, s, sizeof *s);
        return status;
    }
    show_block(s, block);
    tni_context_own(pins->ctx);
    *out = s;
    return TN_OK;
}

tni_block *tni_storage_pinned(const tni_storage *s)
{
    return s->block && s->block->allocator->is_pinned ? s->block : NULL;
}

int32_t tni_storage_create_meta(tn_context *ctx, uint64_t bytes, tni_storage **out)
{
    tni_storage *s = new_storage(ctx, NULL, bytes);
    if (!s) return TN_E_OUT_OF_MEMORY;
    tni_context_own(ctx);
    *out = s;
    return TN_OK;
}

int32_t tni_storage_wrap(tni_device *device, void *data, uint64_t bytes, void (*deleter)(void *user),
                         void *user, tni_storage **out)
{
    int32_t status = TN_OK;
    tni_storage *s = NULL;
    if (!device->synchronous)
        status = tni_error(TN_E_DEVICE, "memory of the host can only be shown as tensors of a host device");
    else if (!(s = new_storage(device->ctx, device, bytes)))
        status = TN_E_OUT_OF_MEMORY;
    if (status) {
        if (deleter) deleter(user);
        return status;
    }
    s->host = data;
    s->allocation = data;
    s->deleter = deleter;
    s->deleter_user = user;
    tni_context_own(device->ctx);
    *out = s;
    return TN_OK;
}

int32_t tni_storage_wrap_memory(tni_device *device, const tn_memory *memory, uint64_t bytes,
                                void (*deleter)(void *user), void *user, tni_storage **out)
{
    tni_storage *s = new_storage(device->ctx, device, bytes);
    if (!s) return TN_E_OUT_OF_MEMORY;
    s->allocation = memory->allocation;
    s->offset = memory->offset;
    s->host = memory->host;
    s->address = memory->address;
    s->deleter = deleter;
    s->deleter_user = user;
    tni_context_own(device->ctx);
    *out = s;
    return TN_OK;
}

static int32_t copy_first(tni_storage *s, tni_block *to, uint64_t bytes)
{
    tni_device *d = s->device;
    const tni_driver *driver = &d->type->driver;
    if (!bytes) return TN_OK;
    if (d->synchronous) {
        memcpy(to->host, s->host, bytes);
        return TN_OK;
    }
    int32_t status =
        driver->copy.device_to_device(driver->self, d->handle, to->allocation, to->offset, s->allocation,
                                      s->offset, bytes, tni_current_stream(d)->handle);
    return status ? tni_driver_error(d->type, status, "copy of a storage") : TN_OK;
}

int32_t tni_storage_resize(tni_storage *s, uint64_t bytes)
{
    if (!s->device) {
        s->bytes = bytes;
        return TN_OK;
    }
    if (!s->block) return tni_error(TN_E_STATE, "Trying to resize storage that is not resizable");
    tni_block *block = NULL, *before = s->block;
    tni_old_block *old = NULL;
    tn_context *ctx = s->ctx;
    int32_t is_pinned = before->allocator->is_pinned,
            status = is_pinned ? tni_block_alloc_of(before->allocator, bytes, NULL, &block)
                               : tni_block_alloc(s->device, bytes, tni_current_stream(s->device), &block);
    if (status) return status;
    /* It may belong to another stream. */
    if (!is_pinned) status = tni_block_record(before, tni_current_stream(s->device));
    if (!status) status = copy_first(s, block, bytes < s->bytes ? bytes : s->bytes);
    /* An embedded storage's first block must stay as long as the storage. */
    int32_t is_kept =
        atomic_load(&s->refs) > 1 || (s->flags & TNI_STORAGE_EMBEDDED && before == tni_block_of_storage(s));
    if (!status && is_kept && !(old = tni_alloc(ctx, sizeof *old))) status = TN_E_OUT_OF_MEMORY;
    if (status) {
        tni_block_free(block);
        return status;
    }
    show_block(s, block);
    s->bytes = bytes;
    if (atomic_load(&s->refs) > 1) atomic_fetch_or(&ctx->flags, TNI_CONTEXT_MOVED);
    if (old) {
        *old = (tni_old_block){s->old, before};
        s->old = old;
    } else {
        tni_block_free(before);
    }
    return TN_OK;
}

uint64_t tni_storage_identity(tni_storage *s)
{
    uint64_t identity = atomic_load_explicit(&s->identity, memory_order_relaxed);
    if (identity) return identity;
    uint64_t next = atomic_fetch_add_explicit(&s->ctx->last_storage, 1, memory_order_relaxed) + 1;
    return atomic_compare_exchange_strong(&s->identity, &identity, next) ? next : identity;
}

void tni_storage_retain(tni_storage *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

static void free_old_blocks(tni_storage *s, const tni_block *home)
{
    for (tni_old_block *o = s->old, *next; o; o = next) {
        next = o->next;
        if (o->block != home) tni_block_free(o->block);
        tni_free(s->ctx, o, sizeof *o);
    }
}

/* The storage has another block than the one that it is part of. */
static __attribute__((noinline)) void destroy_moved(tni_storage *s)
{
    tni_block *home = tni_block_of_storage(s);
    tni_block_free(s->block);
    free_old_blocks(s, home);
    tni_block_embed(home);
    tni_cache_free_storage(home->allocator, home);
}

static __attribute__((noinline)) void destroy(tni_storage *s)
{
    tn_context *ctx = s->ctx;
    if (s->deleter) s->deleter(s->deleter_user);
    tni_block_free(s->block);
    free_old_blocks(s, NULL);
    tni_free(ctx, s, sizeof *s);
    tni_context_unown(ctx);
}

void tni_storage_destroy(tni_storage *s)
{
    if (TNI_UNLIKELY(!(s->flags & TNI_STORAGE_EMBEDDED))) {
        destroy(s);
        return;
    }
    tni_block *home = tni_block_of_storage(s);
    if (TNI_UNLIKELY(tni_context_is_forked(s->ctx))) return;
    if (TNI_UNLIKELY(s->block != home))
        destroy_moved(s);
    else
        tni_cache_free_storage(home->allocator, home);
}

int32_t tn_record_stream(tn_tensor *t, tn_stream *stream)
{
    int32_t status = tni_tensor_check(t);
    if (!status) status = tni_stream_check(stream);
    if (status) return status;
    tni_storage *s = t->storage;
    if (s->device != stream->device)
        return tni_error(TN_E_DEVICE, "a tensor of one device cannot be recorded on a stream of another");
    return s->block ? tni_block_record(s->block, stream) : TN_OK;
}
