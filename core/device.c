/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device types and their devices: registration of a driver's tables, opening at first use, the current device
 * of a thread, and what the public header answers about one device. Choosing among devices is
 * device_choose.c. Knows no type by name but "cpu" and "meta", whose numbers the contract fixes.
 */
#include <stdio.h>
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

/* ---- Registration -------------------------------------------------------------------------------------- */

static int32_t check_driver(const tni_driver *d)
{
    const char *missing = NULL;
    if (!d->device.type || !d->device.type[0] || strchr(d->device.type, ':'))
        return tni_error(TN_E_CONTRACT, "plugin %s: a device type needs a name without ':'", d->plugin);
    if (!d->device.enumerate || !d->device.facts || !d->device.open || !d->device.close)
        missing = "tenon.device";
    if (!d->memory.alloc || !d->memory.free) missing = "tenon.memory";
    if (!d->copy.host_to_device || !d->copy.device_to_host || !d->copy.device_to_device)
        missing = "tenon.copy";
    if (!d->stream.create || !d->stream.destroy || !d->stream.query || !d->stream.synchronize)
        missing = "tenon.stream";
    if (missing)
        return tni_error(TN_E_CONTRACT, "plugin %s: a required slot of %s is absent", d->plugin, missing);
    return TN_OK;
}

#define MAX_ALIGNMENT (64u << 20) /* huge pages and more */

/* The kind of memory that tensors live in: what the host can read where the device loses nothing by it. */
static uint32_t memory_kind(const tn_device_facts *facts)
{
    uint32_t kinds = facts->memory_kinds;
    if (facts->device_class == TN_DEVICE_HOST && kinds & TN_MEMORY_HOST) return TN_MEMORY_HOST;
    if (facts->device_class == TN_DEVICE_INTEGRATED && kinds & TN_MEMORY_UNIFIED) return TN_MEMORY_UNIFIED;
    if (kinds & TN_MEMORY_DEVICE) return TN_MEMORY_DEVICE;
    return kinds & TN_MEMORY_UNIFIED ? TN_MEMORY_UNIFIED : TN_MEMORY_HOST;
}

/* Facts are asked for once, so there is room to see whether a plugin writes past what it was given. */
static int32_t read_facts(const tni_device_type *type, uint32_t index, tn_device_facts *out)
{
    struct {
        tn_device_facts facts;
        unsigned char behind[1024];
    } room;
    memset(&room, 0, sizeof room);
    room.facts.size = sizeof room.facts;
    int32_t status = type->driver.device.facts(type->driver.self, index, &room.facts);
    if (status) return tni_driver_error(type, status, "facts of a device");
    for (uint32_t i = 0; i < sizeof room.behind; i++) {
        if (room.behind[i])
            return tni_error(TN_E_CONTRACT, "plugin %s: facts wrote past the %zu bytes it was given",
                             type->driver.plugin, sizeof room.facts);
    }
    if (room.facts.alignment & (room.facts.alignment - 1) || room.facts.alignment > MAX_ALIGNMENT)
        return tni_error(TN_E_CONTRACT, "plugin %s: an alignment of %u bytes (a power of two, at most %u)",
                         type->driver.plugin, room.facts.alignment, MAX_ALIGNMENT);
    room.facts.size = sizeof room.facts;
    *out = room.facts;
    return TN_OK;
}

static int32_t init_device(tni_device_type *type, uint32_t index)
{
    tni_device *d = &type->devices[index];
    d->id = TN_DEVICE(type->type, index);
    d->ctx = type->ctx;
    d->type = type;
    int32_t status = read_facts(type, index, &d->facts);
    if (status) return status;
    d->facts.name[sizeof d->facts.name - 1] = 0;
    d->facts.architecture[sizeof d->facts.architecture - 1] = 0;
    d->memory_kind = memory_kind(&d->facts);
    d->host_access = d->memory_kind != TN_MEMORY_DEVICE;
    d->synchronous = d->facts.device_class == TN_DEVICE_HOST && d->host_access;
    status = tni_late_init(d);
    if (status) return status;
    if (!pthread_mutex_init(&d->lock, NULL)) return TN_OK;
    tni_late_finish(d);
    return tni_error(TN_E_INTERNAL, "no mutex for a device");
}

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

static void free_type(tni_device_type *type)
{
    tn_context *ctx = type->ctx;
    pthread_mutex_destroy(&type->collectives);
    if (type->reason) tni_free(ctx, (char *)type->reason, strlen(type->reason) + 1);
    tni_free(ctx, type->devices, type->count * sizeof *type->devices);
    tni_free(ctx, type, sizeof *type);
}

static int32_t enumerate(tni_device_type *type)
{
    const char *reason = NULL;
    uint32_t count = 0;
    int32_t status = type->driver.device.enumerate(type->driver.self, &count, &reason);
    if (status) return tni_driver_error(type, status, "enumeration of devices");
    if (!count) {
        type->reason = tni_strdup(type->ctx, reason ? reason : "the plugin found no device");
        return type->reason ? TN_OK : TN_E_OUT_OF_MEMORY;
    }
    if (count > INT16_MAX)
        return tni_error(TN_E_CONTRACT, "plugin %s reports %u devices", type->driver.plugin, count);
    type->devices = tni_alloc_zeroed(type->ctx, count * sizeof *type->devices);
    if (!type->devices) return TN_E_OUT_OF_MEMORY;
    type->count = count;
    for (uint32_t i = 0; i < count; i++) {
        if ((status = init_device(type, i))) return status;
    }
    return TN_OK;
}

static int32_t publish(tni_device_type *type)
{
    tn_context *ctx = type->ctx;
    int32_t status = TN_OK;
    pthread_mutex_lock(&ctx->lock);
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_relaxed);
    for (uint32_t i = 0; i < n && !status; i++) {
        if (ctx->types[i]->type == type->type)
            status = tni_error(TN_E_EXISTS, "device type '%s' of plugin %s is already there, from plugin %s",
                               type->driver.device.type, type->driver.plugin, ctx->types[i]->driver.plugin);
    }
    if (!status && n == TNI_MAX_DEVICE_TYPES)
        status =
            tni_error(TN_E_UNSUPPORTED, "more than %d device types in one context", TNI_MAX_DEVICE_TYPES);
    if (!status) {
        type->slot = n;
        ctx->types[n] = type;
        atomic_store_explicit(&ctx->type_count, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

int32_t tni_device_type_add(tn_context *ctx, const tni_driver *driver)
{
    int32_t status = check_driver(driver);
    if (status) return status;
    uint32_t name = tn_intern(ctx, driver->device.type);
    if (!name) return tni_error_ensure(TN_E_OUT_OF_MEMORY, "interning a device type");
    if (name == TN_INTERNED_META) return tni_error(TN_E_CONTRACT, "device type 'meta' is the host's own");
    if (tni_device_type_find(ctx, name))
        return tni_error(TN_E_EXISTS, "device type '%s' is already there", driver->device.type);
    tni_device_type *type = tni_alloc_zeroed(ctx, sizeof *type);
    if (!type) return TN_E_OUT_OF_MEMORY;
    type->ctx = ctx;
    pthread_mutex_init(&type->collectives, NULL);
    type->type = name;
    type->driver = *driver;
    status = enumerate(type);
    if (!status) status = publish(type);
    if (status) free_type(type);
    return status;
}

/* ---- Opening and closing ------------------------------------------------------------------------------- */

static void close_device(tni_device *d)
{
    const tni_driver *driver = &d->type->driver;
    tni_release_finish(d);
    if (d->allocator) tni_allocator_destroy(d->allocator);
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
    status = tni_streams_init(d);
    if (!status) status = tni_allocator_create(d, &d->allocator);
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
    if (tni_context_check(d->ctx)) return NULL;
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

void tni_devices_finish(tn_context *ctx)
{
    if (tni_context_check(ctx)) return;
    tni_dead_tensors_finish(ctx);
    tni_dead_scopes_finish(ctx);
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    while (n-- > 0) {
        tni_device_type *type = ctx->types[n];
        for (uint32_t i = type->count; i-- > 0;) {
            tni_device *d = &type->devices[i];
            if (atomic_load_explicit(&d->open, memory_order_acquire)) {
                (void)tni_device_wait(d);
                close_device(d);
            }
            pthread_mutex_destroy(&d->lock);
            tni_late_finish(d);
        }
        free_type(type);
        ctx->types[n] = NULL;
    }
    atomic_store_explicit(&ctx->type_count, 0, memory_order_release);
}

/* ---- Finding ------------------------------------------------------------------------------------------- */

tni_device_type *tni_device_type_find(tn_context *ctx, uint32_t type)
{
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        if (ctx->types[i]->type == type) return ctx->types[i];
    }
    return NULL;
}

static tni_device *no_device(tn_context *ctx, tn_device id, const tni_device_type *type)
{
    char name[80];
    const char *missing = id & TN_DEVICE_MISSING ? "missing " : "";
    tn_device_format(ctx, id, name, sizeof name);
    if (!id)
        tni_error(TN_E_DEVICE, "no device was given");
    else if (TN_DEVICE_TYPE(id) == TN_INTERNED_META)
        tni_error(TN_E_DEVICE, "the 'meta' device holds no data and computes nothing");
    else if (!type)
        tni_error(TN_E_DEVICE, "%sdevice %s: no plugin offers this type", missing, name);
    else if (!type->count)
        tni_error(TN_E_DEVICE, "%sdevice %s: %s", missing, name, type->reason);
    else if (TN_DEVICE_INDEX(id) >= (int32_t)type->count)
        tni_error(TN_E_DEVICE, "%sdevice %s: there are only %u of this type", missing, name, type->count);
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
    if (!type || id & TN_DEVICE_MISSING) return no_device(ctx, id, type);
    if (index == -1) index = tni_current_index(ctx, type->type);
    if ((uint32_t)index >= type->count) return no_device(ctx, id, type);
    return &type->devices[index];
}

tni_device *tni_device_get(tn_context *ctx, tn_device id)
{
    if (TNI_UNLIKELY(!ctx || tni_context_is_forked(ctx))) return (void)tni_context_check(ctx), NULL;
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

int32_t tn_device_count(tn_context *ctx, const char *type)
{
    int32_t count = 0;
    if (!ctx && tni_context_check(ctx)) return 0;
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        if (!type || !strcmp(ctx->types[i]->driver.device.type, type)) count += (int32_t)ctx->types[i]->count;
    }
    return count;
}

int32_t tn_device_get_facts(tn_context *ctx, tn_device device, tn_device_facts *out)
{
    if (!ctx) return tni_context_check(ctx);
    tni_device *d = find_device(ctx, device);
    if (!d) return TN_E_DEVICE;
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
    return status ? tni_driver_error(d->type, status, "waiting for a device") : tni_late_take(d);
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

int32_t tn_device_current(tn_context *ctx, const char *type)
{
    uint32_t name = tn_intern(ctx, type);
    return name ? tni_current_index(ctx, name) : 0;
}

int32_t tn_device_set_current(tn_context *ctx, tn_device device)
{
    tni_device *d = ctx ? find_device(ctx, device) : NULL;
    if (!d) return ctx ? TN_E_DEVICE : tni_context_check(ctx);
    return tni_current_set_index(ctx, d->type->type, TN_DEVICE_INDEX(d->id));
}
