/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned memory of the host: pages that stay where they are, so that a device copies from and to them while the host
 * goes on. A plugin allocates it as memory of kind TN_MEMORY_HOST, or pins pages of the host. Each device has a
 * caching allocator for it (allocator.h), made at first use, because pinning is slow.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "core/allocator.h"
#include "core/debug.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/transfer.h"

int32_t tni_gives_pinned(const tni_device *d)
{
    return !d->synchronous && d->facts.memory_kinds & TN_MEMORY_HOST && d->memory_kind != TN_MEMORY_HOST;
}

int32_t tni_pins_memory(const tni_device *d)
{
    const tn_memory_interface *memory = &d->type->driver.memory;
    return tni_gives_pinned(d) || (!d->synchronous && memory->pin && memory->unpin);
}

/* ---- Pages --------------------------------------------------------------------------------------------- */

int32_t tni_pages_pin(const tni_device *d, uint64_t bytes, tn_memory *out)
{
    const tni_driver *driver = &d->type->driver;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    void *pages = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return tni_error_no_memory("pinned memory", whole);
    int32_t status = driver->memory.pin(driver->self, d->handle, pages, whole, out);
    if (status) {
        munmap(pages, whole);
        return tni_driver_error(d->type, status, "pinning of host memory");
    }
    out->host = pages;
    out->bytes = whole;
    return TN_OK;
}

void tni_pages_unpin(const tni_device *d, const tn_memory *memory)
{
    const tni_driver *driver = &d->type->driver;
    driver->memory.unpin(driver->self, d->handle, memory);
    munmap(memory->host, memory->bytes);
}

/* ---- Blocks -------------------------------------------------------------------------------------------- */

int32_t tni_pinned_alloc(tni_device *d, uint64_t bytes, tni_block **out)
{
    int32_t status = TN_OK;
    if (!tni_pins_memory(d)) {
        char name[64];
        return tni_error(TN_E_UNSUPPORTED, "%s pins no memory of the host",
                         tn_device_format(d->ctx, d->id, name, sizeof name));
    }
    pthread_mutex_lock(&d->lock);
    if (!d->pinned) status = tni_allocator_create(d, 1, &d->pinned);
    pthread_mutex_unlock(&d->lock);
    return status ? status : tni_block_alloc_of(d->pinned, bytes, NULL, out);
}

static tni_device *open_device_that_pins(tn_context *ctx)
{
    uint32_t types = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t k = 0; k < types; k++) {
        for (uint32_t i = 0; i < ctx->types[k]->count; i++) {
            tni_device *d = &ctx->types[k]->devices[i];
            if (atomic_load_explicit(&d->open, memory_order_acquire) == TNI_DEVICE_OPEN && tni_pins_memory(d))
                return d;
        }
    }
    return NULL;
}

/* Virtual devices are used only when they are named. If a device cannot be opened, the next one serves; if there is
 * none, the error is that of the first. */
tni_device *tni_pinning_device(tn_context *ctx)
{
    tni_device *d = open_device_that_pins(ctx);
    tn_error *first = NULL;
    int32_t count = d ? 0 : tn_device_count(ctx, NULL);
    for (int32_t i = 0; i < count && !d; i++) {
        tn_device_facts facts = {.size = sizeof facts};
        tn_device id = tn_device_at(ctx, i);
        if (tn_device_get_facts(ctx, id, &facts) || facts.device_class == TN_DEVICE_VIRTUAL) continue;
        d = tni_device_get(ctx, id);
        if (!d && !first) first = tni_error_copy();
        if (d && !tni_pins_memory(d)) d = NULL;
    }
    if (!d && first) {
        tni_error_restore(first);
        tni_error_wrap(TN_E_DEVICE,
                       "argument 'pin_memory': there is no device that pins memory of the host: %s",
                       first->message);
    } else if (!d) {
        tni_error(TN_E_DEVICE, "argument 'pin_memory': there is no device that pins memory of the host");
    }
    tn_error_release(first);
    return d;
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

int32_t tni_tensor_create_pinned(tni_device *pins, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                                 const int64_t *strides, tn_tensor **out)
{
    int64_t numel = 0, extent = 0, bytes = 0;
    tni_storage *storage;
    int32_t status = tni_numel(rank, sizes, &numel);
    extent = numel;
    if (!status && strides) status = tni_storage_extent(rank, sizes, strides, &extent);
    if (!status && __builtin_mul_overflow(extent, tn_dtype_bytes(dtype), &bytes))
        status = tni_error(TN_E_SHAPE, "the sizes are too large");
    if (!status) status = tni_storage_create_pinned(pins, (uint64_t)bytes, &storage);
    if (status) return status;
    status = tni_tensor_on(storage, dtype, rank, sizes, strides, 0, out);
    if (status) tni_storage_release(storage);
    return status;
}

static int32_t pin(tn_tensor *t, tn_device device, tn_tensor **out)
{
    int32_t status = tni_tensor_check(t);
    if (status) return status;
    if (!t->storage->device || TN_DEVICE_TYPE(t->desc.device) != TN_INTERNED_CPU) {
        char name[64];
        return tni_error(TN_E_ARGUMENT, "cannot pin a tensor of %s: only dense CPU tensors can be pinned",
                         tn_device_format(t->ctx, t->desc.device, name, sizeof name));
    }
    if (tni_storage_pinned(t->storage)) {
        *out = tn_retain(t);
        return TN_OK;
    }
    tni_device *pins = device ? tni_device_get(t->ctx, device) : tni_pinning_device(t->ctx);
    if (!pins) return tn_last_error()->code;
    status = tni_tensor_create_pinned(pins, t->desc.dtype, t->desc.rank, t->desc.sizes, NULL, out);
    if (status) return status;
    status = tni_tensor_read(t, (*out)->desc.host, (uint64_t)(t->numel * tn_dtype_bytes(t->desc.dtype)));
    if (status) tn_release(*out);
    return status;
}

tn_tensor *tn_pin_memory(tn_scope *s, tn_tensor *t, tn_device device)
{
    tn_tensor *pinned = NULL;
    if (tn_scope_failed(s)) return NULL;
    int32_t status = pin(t, device, &pinned);
    if (!status && pinned != t && TNI_UNLIKELY(s->ctx->flags & TNI_CONTEXT_LEAKS))
        tni_debug_made(pinned, "tn_pin_memory");
    if (!status) return tni_scope_own(s, pinned);
    tni_scope_record(s, status);
    return NULL;
}

int32_t tn_is_pinned(const tn_tensor *t)
{
    return !tni_tensor_check(t) && tni_storage_pinned(t->storage) != NULL;
}
