/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device types: registration of a driver's tables when its plugin is loaded, and the enumeration of its devices
 * when a program first asks for one. Until then the plugin starts no driver: a program that stays on the CPU starts
 * quickly, and may fork.
 */
#include <stdio.h>
#include <string.h>
#include "core/finding.h"
#include "core/tensor.h"

/* ---- Devices ------------------------------------------------------------------------------------------- */

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

static int32_t init_device(tni_device_type *type, tni_device *d, uint32_t index)
{
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
    tni_late_init(d);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->unwaited, NULL);
    return TN_OK;
}

/* The first `n` devices were initialised. */
static void free_devices(tni_device_type *type, tni_device *devices, uint32_t n, uint32_t count)
{
    for (uint32_t i = 0; i < n; i++) {
        pthread_cond_destroy(&devices[i].unwaited);
        pthread_mutex_destroy(&devices[i].lock);
        tni_late_finish(&devices[i]);
    }
    tni_free(type->ctx, devices, count * sizeof *devices);
}

static int32_t make_devices(tni_device_type *type, uint32_t count)
{
    tni_device *devices = tni_alloc_zeroed(type->ctx, count * sizeof *devices);
    int32_t status = devices ? TN_OK : TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count && !status; i++) {
        status = init_device(type, &devices[i], i);
        if (status) free_devices(type, devices, i, count);
    }
    if (status) return status;
    type->devices = devices;
    atomic_store_explicit(&type->count, count, memory_order_release);
    return TN_OK;
}

/* ---- Enumeration --------------------------------------------------------------------------------------- */

static int32_t ask(tni_device_type *type)
{
    const char *reason = NULL;
    uint32_t count = 0;
    int32_t status = type->driver.device.enumerate(type->driver.self, &count, &reason);
    if (status) return tni_driver_error(type, status, "enumeration of devices");
    if (count > INT16_MAX)
        return tni_error(TN_E_CONTRACT, "plugin %s reports %u devices", type->driver.plugin, count);
    if (!count) type->reason = reason ? reason : "the plugin found no device";
    return count ? make_devices(type, count) : TN_OK;
}

/* Under the lock. A lack of host memory is not kept: the next one to ask tries again. */
static int32_t enumerate(tni_device_type *type)
{
    atomic_store_explicit(&type->state, TNI_TYPE_ENUMERATING, memory_order_relaxed);
    int32_t status = ask(type);
    if (status == TN_E_OUT_OF_MEMORY) {
        atomic_store_explicit(&type->state, TNI_TYPE_UNKNOWN, memory_order_relaxed);
        return status;
    }
    if (status) {
        type->failure = tni_error_copy();
        type->reason = type->failure->message;
        tni_log(type->ctx, TN_LOG_WARN, "plugin %s: %s", type->driver.plugin, type->reason);
        tni_error_restore(type->failure);
    }
    atomic_store_explicit(&type->state, TNI_TYPE_KNOWN, memory_order_release);
    return status;
}

/* Other threads wait meanwhile. The thread itself may come again, from a log sink. */
int32_t tni_device_type_ask(tni_device_type *type)
{
    int32_t status = tni_context_check_kept(type->ctx);
    if (status) return status;
    pthread_mutex_lock(&type->lock);
    int state = atomic_load_explicit(&type->state, memory_order_acquire);
    if (state == TNI_TYPE_ENUMERATING)
        status = tni_error(TN_E_STATE, "plugin %s is counting its devices", type->driver.plugin);
    else if (state == TNI_TYPE_UNKNOWN)
        status = enumerate(type);
    else if (type->failure) {
        tni_error_restore(type->failure);
        status = type->failure->code;
    }
    pthread_mutex_unlock(&type->lock);
    return status;
}

void tni_device_types_enumerate(tn_context *ctx)
{
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) (void)tni_device_type_enumerate(ctx->types[i]);
}

/* ---- Registration -------------------------------------------------------------------------------------- */

void tni_device_type_destroy(tni_device_type *type)
{
    free_devices(type, type->devices, type->count, type->count);
    tn_error_release(type->failure);
    pthread_mutex_destroy(&type->collectives);
    pthread_mutex_destroy(&type->lock);
    tni_free(type->ctx, type, sizeof *type);
}

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
    tni_recursive_lock_init(&type->lock); /* see tni_device_type_ask */
    pthread_mutex_init(&type->collectives, NULL);
    type->type = name;
    type->driver = *driver;
    status = publish(type);
    if (status) tni_device_type_destroy(type);
    return status;
}

tni_device_type *tni_device_type_find(tn_context *ctx, uint32_t type)
{
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        if (ctx->types[i]->type == type) return ctx->types[i];
    }
    return NULL;
}
