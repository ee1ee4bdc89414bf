/* SPDX-License-Identifier: Apache-2.0 */
/* What users may set on a GPU, and tensors that other libraries of the process share with it (DLPack). */
#include "gpu.h"

/* ---- Settings ------------------------------------------------------------------------------------------ */

enum { BLOCKING, CACHE, LIBRARIES };
#define COUNT (gpu_the_driver.libraries ? 3u : 2u)

static int32_t describe(void *self, void *device, uint32_t i, tn_setting *out)
{
    static const char *const texts[][2] = {
        [BLOCKING] = {"blocking", "each launch is waited for, so that its errors are those of the call"},
        [CACHE] = {"cache", "compiled programs are kept in the user's cache folder"},
        [LIBRARIES] = {"libraries", "libraries of the vendor do the work that they can do"}};
    const tn_settings_interface *more = gpu_the_driver.settings;
    if (i >= COUNT) return more ? more->describe(self, device, i - COUNT, out) : TN_E_INDEX;
    out->name = texts[i][0];
    out->meaning = texts[i][1];
    out->default_value = tn_value_bool(i != BLOCKING);
    return TN_OK;
}

/* The setting's place in the plugin; all but `blocking` are kept negated. */
static int32_t *place_of(gpu_plugin *p, uint32_t i)
{
    return i == BLOCKING ? &p->blocking : i == CACHE ? &p->no_cache : &p->no_libraries;
}

static int32_t get(void *self, void *device, uint32_t i, tn_value *out)
{
    if (i >= COUNT) return gpu_the_driver.settings->get(self, device, i - COUNT, out);
    *out = tn_value_bool(__atomic_load_n(place_of(self, i), __ATOMIC_RELAXED) != (i != BLOCKING));
    return TN_OK;
}

static int32_t set(void *self, void *device, uint32_t i, const tn_value *value)
{
    if (i >= COUNT) return gpu_the_driver.settings->set(self, device, i - COUNT, value);
    __atomic_store_n(place_of(self, i), (value->as.i != 0) != (i != BLOCKING), __ATOMIC_RELAXED);
    return TN_OK;
}

const tn_settings_interface gpu_settings_interface =
    TN_INTERFACE(tn_settings_interface, .describe = describe, .get = get, .set = set);

void *gpu_driver_device(const void *device)
{
    return ((const gpu_device *)device)->handle;
}

/* ---- DLPack -------------------------------------------------------------------------------------------- */

static int32_t dlpack_device(void *self, void *device, int32_t *out_type, int32_t *out_id)
{
    const gpu_device *d = device;
    *out_type = gpu_the_driver.dlpack_type;
    *out_id = gpu_the_driver.dlpack_id ? gpu_the_driver.dlpack_id(d->handle) : (int32_t)d->index;
    return TN_OK;
}

static int32_t import_pointer(void *self, void *device, void *data, uint64_t bytes, tn_memory *out)
{
    void *handle = ((const gpu_device *)device)->handle;
    void *memory = gpu_the_driver.memory_of ? gpu_the_driver.memory_of(handle, data) : data;
    uint64_t there = bytes;
    int32_t status = gpu_the_driver.retain(handle, memory, &there);
    if (status) return status;
    if (there < bytes) {
        gpu_the_driver.free(handle, memory);
        return gpu_error(self, TN_E_ARGUMENT, "the buffer of another library has %llu bytes, not %llu",
                         (unsigned long long)there, (unsigned long long)bytes);
    }
    out->kind = TN_MEMORY_DEVICE;
    out->allocation = memory;
    out->bytes = there;
    if (((const gpu_device *)device)->properties.has_addresses) out->address = (uintptr_t)data;
    return TN_OK;
}

static void release_memory(void *self, void *device, const tn_memory *memory)
{
    gpu_the_driver.free(((const gpu_device *)device)->handle, memory->allocation);
}

static int32_t wait_native(void *self, void *device, uint64_t native, void *event)
{
    return gpu_event_wait_native(event, native);
}

/* ---- Other processes ------------------------------------------------------------------------------------ */

static int32_t export_memory(void *self, void *device, void *allocation, tn_process_handle *out)
{
    return gpu_the_driver.shares->export_memory(((const gpu_device *)device)->handle, allocation, out);
}

static int32_t import_memory(void *self, void *device, const tn_process_handle *handle, tn_memory *out)
{
    const gpu_device *d = device;
    int32_t status = gpu_the_driver.shares->import_memory(d->handle, handle, &out->allocation);
    if (status) return status;
    out->kind = TN_MEMORY_DEVICE;
    out->bytes = handle->bytes;
    if (d->properties.has_addresses) out->address = (uintptr_t)out->allocation;
    return TN_OK;
}

static int32_t export_event(void *self, void *device, void *event, tn_process_handle *out)
{
    return gpu_the_driver.shares->export_event(((const gpu_device *)device)->handle,
                                               gpu_event_of_share(event), out);
}

static int32_t import_event(void *self, void *device, const tn_process_handle *handle, void **out_event)
{
    gpu_device *d = device;
    void *event = NULL;
    int32_t status = gpu_the_driver.shares->import_event(d->handle, handle, &event);
    if (status) return status;
    *out_event = gpu_event_shared(d, event);
    if (*out_event) return TN_OK;
    gpu_the_driver.event_release(d->handle, event);
    return gpu_error(self, TN_E_OUT_OF_MEMORY, "out of host memory");
}

void gpu_interop_make(tn_interop_interface *out)
{
    const gpu_share_driver *shares = gpu_the_driver.shares;
    *out = (tn_interop_interface)TN_INTERFACE(tn_interop_interface, .dlpack_device = dlpack_device,
                                              .wait_native = wait_native, .import_pointer = import_pointer,
                                              .release_memory = release_memory);
    if (!shares) return;
    out->export_memory = export_memory;
    out->import_memory = import_memory;
    if (!shares->event_create) return;
    out->export_event = export_event;
    out->import_event = import_event;
}
