/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's allocator: two functions of a library that serve a device in place of the caching allocator. They know the
 * device's memory by addresses. On devices of the host an address is the memory; elsewhere the plugin makes an
 * allocation of it (interop.import_pointer), as of memory of any other library.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "core/allocator.h"

typedef void *user_alloc_fn(int64_t bytes, int32_t device_index, void *stream);
typedef void user_free_fn(void *memory, int64_t bytes, int32_t device_index, void *stream);

struct tni_user_allocator {
    user_alloc_fn *alloc;
    user_free_fn *free;
    char *library; /* as it was named */
};

const char *tni_user_allocator_library(const struct tni_allocator *a)
{
    const struct tni_user_allocator *user = atomic_load_explicit(&a->user, memory_order_acquire);
    return user ? user->library : NULL;
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

/* The vendor's handle, or NULL where it has none. */
static void *native_of(const tni_device *d, const tn_stream *stream)
{
    const tn_device_interface *device = &d->type->driver.device;
    uint64_t native = 0;
    if (d->synchronous || !device->native ||
        device->native(d->type->driver.self, d->handle, TN_NATIVE_STREAM, stream->handle, &native))
        return NULL;
    return (void *)(uintptr_t)native;
}

/* Memory at an address of the device. */
static int32_t show(const tni_device *d, void *pointer, uint64_t bytes, const char *library, tn_memory *out)
{
    const tni_driver *driver = &d->type->driver;
    uint64_t alignment = d->facts.alignment > 64 || !d->synchronous ? d->facts.alignment : 64;
    if (alignment && (uintptr_t)pointer % alignment)
        return tni_error(TN_E_CONTRACT, "the allocator of %s gave memory at %p (expected a multiple of %llu)",
                         library, pointer, (unsigned long long)alignment);
    if (d->synchronous) {
        *out = (tn_memory){.size = sizeof *out,
                           .kind = d->memory_kind,
                           .allocation = pointer,
                           .host = pointer,
                           .address = (uint64_t)(uintptr_t)pointer,
                           .bytes = bytes};
        return TN_OK;
    }
    int32_t status = driver->interop.import_pointer(driver->self, d->handle, pointer, bytes, out);
    if (status)
        return tni_error_wrap(tni_driver_error(d->type, status, "interop.import_pointer"),
                              "the allocator of %s gave %p, which is not memory of the device", library,
                              pointer);
    return out->allocation ? TN_OK : tni_no_handle(d->type, "interop.import_pointer");
}

int32_t tni_user_alloc(struct tni_allocator *a, uint64_t bytes, const tn_stream *stream, tn_memory *out,
                       void **out_pointer)
{
    const struct tni_user_allocator *user = atomic_load(&a->user);
    const tni_device *d = a->device;
    int32_t index = TN_DEVICE_INDEX(d->id);
    void *native = native_of(d, stream), *pointer = user->alloc((int64_t)bytes, index, native);
    if (!pointer)
        return tni_error(TN_E_OUT_OF_MEMORY, "the allocator of %s gave no memory (%llu bytes asked for)",
                         user->library, (unsigned long long)bytes);
    int32_t status = show(d, pointer, bytes, user->library, out);
    if (status)
        user->free(pointer, (int64_t)bytes, index, native);
    else
        *out_pointer = pointer;
    return status;
}

void tni_user_free(const struct tni_allocator *a, const tni_given *given, uint64_t bytes,
                   const tn_stream *stream)
{
    const struct tni_user_allocator *user = atomic_load(&a->user);
    const tni_device *d = a->device;
    const tni_driver *driver = &d->type->driver;
    if (!d->synchronous) driver->interop.release_memory(driver->self, d->handle, &given->memory);
    user->free(given->pointer, (int64_t)bytes, TN_DEVICE_INDEX(d->id), native_of(d, stream));
}

/* ---- Choice -------------------------------------------------------------------------------------------- */

static void *find_function(void *handle, const char *source, const char *library, const char *name)
{
    void *function = dlsym(handle, name);
    if (!function) tni_error(TN_E_NOT_FOUND, "%s: %s has no function '%s'", source, library, name);
    return function;
}

/* The library stays loaded: nobody knows when its threads and handlers have ended. */
static int32_t load(tn_context *ctx, const char *source, const char *library, const char *alloc_name,
                    const char *free_name, struct tni_user_allocator **out)
{
    struct tni_user_allocator *user = tni_alloc_zeroed(ctx, sizeof *user);
    if (!user || !(user->library = tni_strdup(ctx, library))) {
        tni_free(ctx, user, sizeof *user);
        return TN_E_OUT_OF_MEMORY;
    }
    int32_t status = TN_OK;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *function;
    if (!handle) {
        const char *why = dlerror();
        status = tni_error(TN_E_IO, "%s: the library cannot be loaded: %s", source, why ? why : library);
    }
    if (!status && !(function = find_function(handle, source, library, alloc_name))) status = TN_E_NOT_FOUND;
    if (!status) memcpy(&user->alloc, &function, sizeof function);
    if (!status && !(function = find_function(handle, source, library, free_name))) status = TN_E_NOT_FOUND;
    if (!status) memcpy(&user->free, &function, sizeof function);
    if (!status) {
        *out = user;
        return TN_OK;
    }
    if (handle) dlclose(handle);
    tni_free(ctx, user->library, strlen(library) + 1);
    tni_free(ctx, user, sizeof *user);
    return status;
}

/* Under the lock: 1 if nothing of the device's memory has an owner or belongs to a pool yet. */
static int32_t is_unused(struct tni_allocator *a)
{
    if (a->shards) tni_cache_settle(a);
    return !a->stats.allocations && !a->stats.device_allocations && !a->private_pools &&
           !atomic_load(&a->user);
}

static int32_t check_device(const struct tni_allocator *a, const char *source)
{
    const tni_driver *driver = &a->device->type->driver;
    const tn_interop_interface *interop = &driver->interop;
    if (driver->allocator.size)
        return tni_error(TN_E_UNSUPPORTED, "%s: plugin %s has an allocator of its own", source,
                         driver->plugin);
    if (!a->device->synchronous && !(interop->size && interop->import_pointer && interop->release_memory))
        return tni_error(TN_E_UNSUPPORTED,
                         "%s: plugin %s takes no memory of other libraries (interop.import_pointer)", source,
                         driver->plugin);
    return TN_OK;
}

void tni_user_allocator_destroy(struct tni_allocator *a)
{
    struct tni_user_allocator *user = atomic_load(&a->user);
    if (!user) return;
    tni_free(a->device->ctx, user->library, strlen(user->library) + 1);
    tni_free(a->device->ctx, user, sizeof *user);
}

static int32_t set(struct tni_allocator *a, const char *source, const char *library, const char *alloc_name,
                   const char *free_name)
{
    struct tni_user_allocator *user;
    tn_context *ctx = a->device->ctx;
    char name[64];
    int32_t status = check_device(a, source);
    if (!status) status = load(ctx, source, library, alloc_name, free_name, &user);
    if (status) return status;
    tni_allocator_enter(a);
    int32_t unused = is_unused(a), cached = !a->options.no_cache;
    if (unused && cached) {
        atomic_store(&a->user, user);
        a->is_watched = 0;
        atomic_store(&a->direct, 0);
        tni_cache_choose(a);
    }
    tni_allocator_leave(a);
    if (unused && cached) return TN_OK;
    tni_free(ctx, user->library, strlen(library) + 1);
    tni_free(ctx, user, sizeof *user);
    if (unused) return tni_error(TN_E_STATE, "%s: the option no_cache is on", source);
    return tni_error(TN_E_STATE,
                     "%s: Can't swap an already initialized allocator (%s has allocations, pools or a user's "
                     "allocator)",
                     source, tn_device_format(ctx, a->device->id, name, sizeof name));
}

int32_t tn_memory_set_allocator(tn_context *ctx, tn_device device, const char *library,
                                const char *alloc_name, const char *free_name)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    if (!library || !alloc_name || !free_name)
        return tni_error(TN_E_ARGUMENT, "memory_set_allocator: %s is NULL",
                         !library      ? "library"
                         : !alloc_name ? "alloc_name"
                                       : "free_name");
    return set(d->allocator, "memory_set_allocator", library, alloc_name, free_name);
}

/* The option's parts were checked when it was read. */
int32_t tni_user_allocator_configure(struct tni_allocator *a, const tni_memory_options *o)
{
    static const char source[] = "pluggable_allocator";
    const char *type = a->device->type->driver.device.type;
    size_t type_length = strlen(type);
    char text[4096];
    if (!o->pluggable) return TN_OK;
    snprintf(text, sizeof text, "%.*s", (int)o->pluggable_length, o->pluggable);
    char *library = text, *equals = strchr(text, '='), *free_name = strrchr(text, ':') + 1;
    if (equals && !memchr(text, '/', (size_t)(equals - text))) {
        library = equals + 1;
        if ((size_t)(equals - text) != type_length || strncmp(text, type, type_length) != 0) return TN_OK;
    }
    free_name[-1] = 0;
    char *alloc_name = strrchr(library, ':') + 1;
    alloc_name[-1] = 0;
    return set(a, source, library, alloc_name, free_name);
}
