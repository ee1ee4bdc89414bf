/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: opening at first use, loss, the current device of a thread, and what the public header answers about
 * one device. Device types are in device_type.c, the choice among devices and their count in device_choose.c. Knows no type by name
 * but "cpu" and "meta", whose numbers the contract fixes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/current.h"
#include "core/finding.h"
#include "core/scope.h"
#include "core/tensor.h"

int32_t tni_driver_error(const tni_device_type *type, int32_t status, const char *what)
{
    if (status < 0 || status >= TN_STATUS_COUNT) {
        tni_error(TN_E_CONTRACT, "plugin %s: %s returned %d, which is not a valid status",
                  type->driver.plugin, what, status);
        tni_breach(type->ctx, type->driver.plugin, "no-status", NULL,
                   "%s returned %d, which is not a valid status", what, status);
        status = TN_E_CONTRACT;
    }
    status = tni_error_ensure(status, what);
    tni_error_plugin(type->driver.plugin);
    if (status == TN_E_DEVICE_LOST) tni_device_check_lost((tni_device_type *)(uintptr_t)type);
    return status;
}

/* ---- Lost devices -------------------------------------------------------------------------------------- */

static int32_t is_lost(tni_device *d)
{
    const tni_driver *driver = &d->type->driver;
    return atomic_load_explicit(&d->open, memory_order_acquire) == TNI_DEVICE_OPEN &&
           driver->device.status(driver->self, d->handle) == TN_E_DEVICE_LOST;
}

void tni_device_check_lost(tni_device_type *type)
{
    if (!type->driver.device.status) return;
    tn_error *error = tni_error_copy();
    for (uint32_t i = 0; i < type->count; i++) {
        tni_device *d = &type->devices[i];
        char name[64];
        int expected = TNI_DEVICE_OPEN;
        if (!is_lost(d)) continue;
        const tn_error *why = tn_last_error();
        pthread_mutex_lock(&d->late.lock);
        if (!d->lost_text[0])
            snprintf(d->lost_text, sizeof d->lost_text, "%s",
                     why && why->code == TN_E_DEVICE_LOST ? why->message : tn_status_text(TN_E_DEVICE_LOST));
        pthread_mutex_unlock(&d->late.lock);
        if (atomic_compare_exchange_strong(&d->open, &expected, TNI_DEVICE_LOST))
            tni_log(d->ctx, TN_LOG_ERROR, "device %s is lost: %s",
                    tn_device_format(d->ctx, d->id, name, sizeof name), d->lost_text);
    }
    tni_error_restore(error);
    tn_error_release(error);
}

static tni_device *refuse_lost(const tni_device *d)
{
    char name[64];
    tni_error(TN_E_DEVICE_LOST, "device %s is lost, and its tensors with it: %s",
              tn_device_format(d->ctx, d->id, name, sizeof name), d->lost_text);
    tni_error_plugin(d->type->driver.plugin);
    return NULL;
}

/* ---- Handles -------------------------------------------------------------------------------------------- */

int32_t tni_no_handle(const tni_device_type *type, const char *slot)
{
    return tni_error(TN_E_CONTRACT, "plugin %s: %s said it is done, but gave no handle", type->driver.plugin,
                     slot);
}

int32_t tni_native(const tni_device *d, uint32_t kind, void *handle, uint64_t *out)
{
    static const char *const kinds[] = {"", "device", "context", "stream", "allocation"};
    const tni_driver *driver = &d->type->driver;
    uint64_t native = 0;
    if (kind < TN_NATIVE_DEVICE || kind > TN_NATIVE_ALLOCATION)
        return tni_error(TN_E_ARGUMENT, "native: there is no kind %u of native handles", kind);
    int32_t status = TN_E_UNSUPPORTED;
    if (driver->device.native) status = driver->device.native(driver->self, d->handle, kind, handle, &native);
    if (status == TN_E_UNSUPPORTED)
        return tni_error(status, "plugin %s gives no native %s handle", driver->plugin, kinds[kind]);
    if (status) return tni_driver_error(d->type, status, "a native handle");
    *out = native;
    return TN_OK;
}

/* ---- Opening and closing ------------------------------------------------------------------------------- */

static void close_device(tni_device *d)
{
    const tni_driver *driver = &d->type->driver;
    tni_release_finish(d);
    tni_allocator_destroy(d->allocator);
    tni_allocator_destroy(d->pinned);
    if (d->handle) tni_streams_finish(d);
    tn_generator_release(d->generator);
    if (d->handle) driver->device.close(driver->self, d->handle);
    d->allocator = NULL;
    d->generator = NULL;
    d->handle = NULL;
    d->lost_text[0] = 0;
    atomic_store_explicit(&d->open, TNI_DEVICE_CLOSED, memory_order_release);
}

static int32_t open_locked(tni_device *d)
{
    const tni_driver *driver = &d->type->driver;
    if (atomic_load_explicit(&d->open, memory_order_acquire)) return TN_OK;
    const tn_device_options options = {.size = sizeof options};
    int32_t status =
        driver->device.open(driver->self, (uint32_t)TN_DEVICE_INDEX(d->id), &options, &d->handle);
    if (status) {
        d->handle = NULL;
        return tni_driver_error(d->type, status, "opening a device");
    }
    if (!d->handle) return tni_no_handle(d->type, "open");
    status = tni_settings_apply(d);
    if (!status) status = tni_streams_init(d);
    if (!status) status = tni_allocator_create(d, 0, &d->allocator);
    if (!status) {
        pthread_mutex_lock(&d->ctx->lock);
        uint64_t seed = d->ctx->seed;
        pthread_mutex_unlock(&d->ctx->lock);
        status = tni_generator_create(d->ctx, seed, &d->generator);
    }
    if (status)
        close_device(d);
    else
        atomic_store_explicit(&d->open, TNI_DEVICE_OPEN, memory_order_release);
    return status;
}

static tni_device *open_device(tni_device *d)
{
    if (tni_context_check_kept(d->ctx)) return NULL;
    if (atomic_load_explicit(&d->open, memory_order_acquire) == TNI_DEVICE_LOST) return refuse_lost(d);
    pthread_mutex_lock(&d->lock);
    int32_t status = open_locked(d);
    pthread_mutex_unlock(&d->lock);
    return status ? NULL : d;
}

void tni_devices_count_storages(tn_context *ctx)
{
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < ctx->types[k]->count; i++) {
            tni_device *d = &ctx->types[k]->devices[i];
            if (atomic_load_explicit(&d->open, memory_order_acquire))
                tni_allocator_count_storages(d->allocator);
        }
    }
}

/* What one device releases late may be memory of another. */
static void wait_for_devices(tn_context *ctx, uint32_t types)
{
    for (uint32_t k = 0; k < types; k++) {
        for (uint32_t i = 0; i < ctx->types[k]->count; i++) {
            tni_device *d = &ctx->types[k]->devices[i];
            if (!atomic_load_explicit(&d->open, memory_order_acquire)) continue;
            (void)tni_device_wait(d);
            tni_release_wait(d);
        }
    }
}

void tni_devices_finish(tn_context *ctx)
{
    if (tni_context_check_kept(ctx)) return;
    tni_dead_tensors_finish(ctx);
    tni_dead_scopes_finish(ctx);
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    wait_for_devices(ctx, n);
    while (n-- > 0) {
        tni_device_type *type = ctx->types[n];
        for (uint32_t i = type->count; i-- > 0;) {
            tni_device *d = &type->devices[i];
            if (atomic_load_explicit(&d->open, memory_order_acquire)) close_device(d);
        }
        tni_device_type_destroy(type);
        ctx->types[n] = NULL;
    }
    atomic_store_explicit(&ctx->type_count, 0, memory_order_release);
}

/* ---- Finding ------------------------------------------------------------------------------------------- */

/* "cpu, gpu": the types that plugins offer; "none" without any. */
static const char *type_names(tn_context *ctx, char *out, uint32_t bytes)
{
    uint32_t types = atomic_load_explicit(&ctx->type_count, memory_order_acquire), length = 0;
    snprintf(out, bytes, "none");
    for (uint32_t i = 0; i < types && length < bytes; i++)
        length += (uint32_t)snprintf(out + length, bytes - length, "%s%s", i ? ", " : "",
                                     ctx->types[i]->driver.device.type);
    return out;
}

static void no_type(tn_context *ctx, tn_device id, const char *missing, const char *name)
{
    char types[256], why[1100] = "";
    const char *type = tni_interned_name(ctx, TN_DEVICE_TYPE(id & ~TN_DEVICE_MISSING));
    if (ctx->explain_missing) ctx->explain_missing(ctx, type, why, sizeof why);
    tni_error(TN_E_DEVICE, "%sdevice %s: no plugin offers this type (there are: %s)%s", missing, name,
              type_names(ctx, types, sizeof types), why);
}

static tni_device *no_device(tn_context *ctx, tn_device id, tni_device_type *type)
{
    char name[160];
    const char *missing = id & TN_DEVICE_MISSING ? "missing " : "", *wish = secure_getenv("TENON_DEVICE");
    tn_device_format(ctx, id, name, sizeof name);
    if (*missing && wish && !strcmp(wish, name))
        snprintf(name, sizeof name, "%s, which TENON_DEVICE asks for", wish);
    if (!id)
        tni_error(TN_E_DEVICE, "no device was given");
    else if (id == TN_DEVICE_MISSING)
        tni_error(TN_E_DEVICE, "there is no such device: tn_device_at or tn_device_parse did not find it "
                               "(the value is TN_DEVICE_MISSING)");
    else if (TN_DEVICE_TYPE(id) == TN_INTERNED_META)
        tni_error(TN_E_DEVICE, "the 'meta' device holds no data and computes nothing");
    else if (!type)
        no_type(ctx, id, missing, name);
    else if (tni_device_type_enumerate(type))
        tni_error_wrap(TN_E_DEVICE, "%sdevice %s: %s", missing, name, tn_last_error()->message);
    else if (!type->count)
        tni_error(TN_E_DEVICE, "%sdevice %s: %s", missing, name, type->reason);
    else if (TN_DEVICE_INDEX(id) >= (int32_t)type->count)
        tni_error(TN_E_DEVICE, "%sdevice %s: there %s only %u of this type", missing, name,
                  type->count == 1 ? "is" : "are", type->count);
    else if (!(id & TN_DEVICE_MISSING))
        tni_error(TN_E_DEVICE, "device %s: the index %d is not one of a device", name, TN_DEVICE_INDEX(id));
    else if (open_device(
                 &type->devices[TN_DEVICE_INDEX(id) < 0 ? 0 : TN_DEVICE_INDEX(id)])) /* for the reason */
        tni_error(TN_E_DEVICE, "%sdevice %s: it could not be used when it was chosen", missing, name);
    else
        tni_error_wrap(TN_E_DEVICE, "%sdevice %s: %s", missing, name, tn_last_error()->message);
    return NULL;
}

/* The device of an id without opening it. */
static tni_device *find_device(tn_context *ctx, tn_device id)
{
    tni_device_type *type = tni_device_type_find(ctx, TN_DEVICE_TYPE(id & ~TN_DEVICE_MISSING));
    int32_t index = TN_DEVICE_INDEX(id);
    int32_t status = type ? tni_device_type_enumerate(type) : TN_E_DEVICE;
    if (status == TN_E_OUT_OF_MEMORY) return NULL;
    if (status || id & TN_DEVICE_MISSING) return no_device(ctx, id, type);
    if (index == -1) index = tni_current_index(ctx, type->type);
    if ((uint32_t)index >= type->count) return no_device(ctx, id, type);
    return &type->devices[index];
}

tni_device *tni_device_get(tn_context *ctx, tn_device id)
{
    if (TNI_UNLIKELY(!ctx || !tni_context_is_usable(ctx))) return (void)tni_context_check(ctx), NULL;
    if (TNI_LIKELY(atomic_load_explicit(&ctx->type_count, memory_order_acquire))) {
        const tni_device_type *first =
            ctx->types[0]; /* most calls are for the first device of the first type */
        if (TNI_LIKELY(id == TN_DEVICE(first->type, 0) && first->count) &&
            TNI_LIKELY(atomic_load_explicit(&first->devices[0].open, memory_order_acquire) ==
                       TNI_DEVICE_OPEN))
            return &first->devices[0];
    }
    tni_device *d = find_device(ctx, id);
    if (TNI_LIKELY(d && atomic_load_explicit(&d->open, memory_order_acquire) == TNI_DEVICE_OPEN)) return d;
    return d ? open_device(d) : NULL;
}

/* ---- Public -------------------------------------------------------------------------------------------- */

int32_t tn_device_get_facts(tn_context *ctx, tn_device device, tn_device_facts *out)
{
    int32_t status = tni_context_check(ctx);
    if (status) return status;
    tni_device *d = find_device(ctx, device);
    if (!d) return tn_last_error()->code;
    return tni_struct_write(out, &d->facts, sizeof d->facts, "tn_device_facts");
}

int32_t tn_device_synchronize(tn_context *ctx, tn_device device)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    if (atomic_load(&d->captures))
        return tni_error(TN_E_STATE, "tn_device_synchronize: a stream of the device captures a graph");
    int32_t status = tni_device_wait(d);
    tni_release_wait(d);
    return tni_late_of_device(d, status);
}

int32_t tn_device_memory(tn_context *ctx, tn_device device, uint64_t *out_free, uint64_t *out_total)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    const tni_driver *driver = &d->type->driver;
    uint64_t free_bytes = 0, total = d->facts.total_memory;
    if (driver->memory.info) {
        int32_t status = driver->memory.info(driver->self, d->handle, &free_bytes, &total);
        if (status) return tni_driver_error(d->type, status, "memory information");
    }
    if (out_free) *out_free = free_bytes;
    if (out_total) *out_total = total;
    return TN_OK;
}

int32_t tn_device_status(tn_context *ctx, tn_device device)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    const tni_driver *driver = &d->type->driver;
    int32_t status = driver->device.status ? driver->device.status(driver->self, d->handle) : TN_OK;
    return status ? tni_driver_error(d->type, status, "the status of a device") : TN_OK;
}

int32_t tn_device_native(tn_context *ctx, tn_device device, uint32_t kind, uint64_t *out)
{
    const tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    if (kind != TN_NATIVE_DEVICE && kind != TN_NATIVE_CONTEXT)
        return tni_error(TN_E_ARGUMENT,
                         "tn_device_native: argument 'kind': got %u, expected TN_NATIVE_DEVICE or _CONTEXT",
                         kind);
    return tni_native(d, kind, NULL, out);
}

int32_t tn_tensor_native(const tn_tensor *t, uint64_t *out, uint64_t *out_offset)
{
    uint64_t native;
    int32_t status = tni_tensor_check(t);
    if (status) return status;
    if (!t->storage->device) return tni_error(TN_E_DEVICE, "tn_tensor_native: a meta tensor has no memory");
    status = tni_native(t->storage->device, TN_NATIVE_ALLOCATION, t->desc.allocation, &native);
    if (status) return status;
    if (out) *out = native;
    if (out_offset) *out_offset = t->desc.byte_offset;
    return TN_OK;
}

int32_t tn_device_current(tn_context *ctx, const char *type)
{
    uint32_t name = tn_intern(ctx, type);
    return name ? tni_current_index(ctx, name) : 0;
}

int32_t tn_device_set_current(tn_context *ctx, tn_device device)
{
    int32_t status = tni_context_check(ctx);
    if (status) return status;
    tni_device *d = find_device(ctx, device);
    if (!d) return tn_last_error()->code;
    return tni_current_set_index(ctx, d->type->type, TN_DEVICE_INDEX(d->id));
}
