/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Level Zero driver of the GPU family: devices of all drivers that the loader finds. Memory is a device pointer, and a
 * stream is an immediate command list. Read it from the bottom.
 */
#include "xpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define LOADER    "libze_loader.so.1"
#define MOST      16 /* drivers, and devices of one driver */
#define ALIGNMENT 64

/* ---- The loader, devices and results ----------------------------------------------------------------------- */

typedef struct found_device {
    ze_driver_handle_t driver;
    ze_device_handle_t handle;
} found_device;

typedef struct xpu_state {
    gpu_found found;
    xpu_symbols ze;
    void *loader;
    xpu_contexts contexts;
    found_device devices[MOST * MOST];
} xpu_state;

const char *xpu_result_name(ze_result_t result)
{
    GPU_NAME_OF(result, XPU_RESULTS)
}

static int32_t status_of(ze_result_t result)
{
    switch (result) {
    case ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY:
    case ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY:
        return TN_E_OUT_OF_MEMORY;
    case ZE_RESULT_ERROR_DEVICE_LOST:
    case ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET:
        return TN_E_DEVICE_LOST;
    default:
        return TN_E_INTERNAL;
    }
}

int32_t xpu_no_memory(const xpu_device *d)
{
    return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
}

int32_t xpu_check(xpu_device *d, ze_result_t result, const char *what)
{
    if (result == ZE_RESULT_SUCCESS) return TN_OK;
    int32_t status = status_of(result);
    if (status == TN_E_DEVICE_LOST) {
        __atomic_store_n(&d->lost, result, __ATOMIC_RELEASE);
        if (d->shared) __atomic_store_n(&d->shared->is_lost, 1, __ATOMIC_RELAXED);
    }
    return gpu_error_native(d->plugin, status, (int32_t)result, xpu_result_name(result), "%s failed: %s",
                            what, xpu_result_name(result));
}

static int32_t device_status(void *device)
{
    xpu_device *d = device;
    ze_result_t lost = __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
    if (lost == ZE_RESULT_SUCCESS) return TN_OK;
    return gpu_error_native(d->plugin, TN_E_DEVICE_LOST, (int32_t)lost, xpu_result_name(lost),
                            "the device is lost: %s", xpu_result_name(lost));
}

static int32_t load(xpu_state *s)
{
    s->loader = dlopen(LOADER, RTLD_NOW | RTLD_LOCAL);
    if (!s->loader) {
        snprintf(s->found.reason, sizeof s->found.reason,
                 "the Level Zero loader " LOADER " is not installed");
        return 0;
    }
#define LOAD(name)                                                                  \
    *(void **)(void *)&s->ze.name = dlsym(s->loader, #name);                        \
    if (!s->ze.name) {                                                              \
        snprintf(s->found.reason, sizeof s->found.reason, LOADER " has no " #name); \
        return 0;                                                                   \
    }
    XPU_REQUIRED(LOAD)
#undef LOAD
#define LOAD(name) *(void **)(void *)&s->ze.name = dlsym(s->loader, #name);
    XPU_OPTIONAL(LOAD)
#undef LOAD
    ze_result_t result = s->ze.zeInit(0);
    if (result == ZE_RESULT_SUCCESS) return 1;
    snprintf(s->found.reason, sizeof s->found.reason, LOADER " found no driver: zeInit gives %s",
             xpu_result_name(result));
    return 0;
}

static void find(void *state)
{
    xpu_state *s = state;
    ze_driver_handle_t drivers[MOST];
    ze_device_handle_t handles[MOST];
    uint32_t n_drivers = MOST, n;
    pthread_mutex_init(&s->contexts.lock, NULL);
    if (!load(s)) return;
    if (s->ze.zeDriverGet(&n_drivers, drivers) != ZE_RESULT_SUCCESS) n_drivers = 0;
    for (uint32_t k = 0; k < n_drivers; k++) {
        n = MOST;
        if (s->ze.zeDeviceGet(drivers[k], &n, handles) != ZE_RESULT_SUCCESS) continue;
        for (uint32_t i = 0; i < n; i++)
            s->devices[s->found.count++] = (found_device){drivers[k], handles[i]};
    }
    if (!s->found.count)
        snprintf(s->found.reason, sizeof s->found.reason, LOADER " found %u driver%s without a device",
                 n_drivers, n_drivers == 1 ? "" : "s");
}

static ze_device_properties_t properties_of(const xpu_state *s, ze_device_handle_t device)
{
    ze_device_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    s->ze.zeDeviceGetProperties(device, &p);
    return p;
}

static uint64_t memory_of(const xpu_state *s, ze_device_handle_t device)
{
    ze_device_memory_properties_t memory[MOST];
    uint32_t n = MOST;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < MOST; i++)
        memory[i] = (ze_device_memory_properties_t){.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES};
    if (s->ze.zeDeviceGetMemoryProperties(device, &n, memory) != ZE_RESULT_SUCCESS) return 0;
    for (uint32_t i = 0; i < n; i++) bytes += memory[i].totalSize;
    return bytes;
}

/* Whether the host may use a part of shared memory while the device uses another. Without ZE_MEMORY_ACCESS_CAP_FLAG_CONCURRENT
 * the host has to stay away from the whole allocation, of which other tensors have parts. */
static uint32_t has_unified(const xpu_state *s, ze_device_handle_t device)
{
    const ze_memory_access_cap_flags_t needed =
        ZE_MEMORY_ACCESS_CAP_FLAG_RW | ZE_MEMORY_ACCESS_CAP_FLAG_CONCURRENT;
    ze_device_memory_access_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_ACCESS_PROPERTIES};
    return s->ze.zeDeviceGetMemoryAccessProperties(device, &p) == ZE_RESULT_SUCCESS &&
           (p.sharedSingleDeviceAllocCapabilities & needed) == needed;
}

/* Whether the device may use memory of the other one. */
static int32_t is_peer(const xpu_state *s, const found_device *d, const found_device *other)
{
    ze_bool_t can = 0;
    return other->driver == d->driver &&
           s->ze.zeDeviceCanAccessPeer(d->handle, other->handle, &can) == ZE_RESULT_SUCCESS && can;
}

static void describe(gpu_plugin *plugin, uint32_t index, gpu_properties *out)
{
    const xpu_state *s = gpu_driver_state(plugin);
    const found_device *found = &s->devices[index];
    ze_device_properties_t p = properties_of(s, found->handle);
    ze_device_module_properties_t module = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES};
    ze_driver_properties_t driver = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    s->ze.zeDeviceGetModuleProperties(found->handle, &module);
    s->ze.zeDriverGetProperties(found->driver, &driver);
    *out = (gpu_properties){
        .device_class = p.type != ZE_DEVICE_TYPE_GPU                   ? TN_DEVICE_ACCELERATOR
                        : p.flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED ? TN_DEVICE_INTEGRATED
                                                                       : TN_DEVICE_DISCRETE,
        .compute_units = p.numSlices * p.numSubslicesPerSlice * p.numEUsPerSubslice,
        .memory_bytes = memory_of(s, found->handle),
        .largest_allocation = p.maxMemAllocSize,
        .alignment = ALIGNMENT,
        .has_double = (module.flags & ZE_DEVICE_MODULE_FLAG_FP64) != 0,
        .is_precompiled = 1,
        .has_dense = 1,
        .has_addresses = 1,
        .has_unified = has_unified(s, found->handle),
        .priority_low = 1,
        .priority_high = -1,
    };
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    if (s->ze.zeDevicePciGetPropertiesExt &&
        s->ze.zeDevicePciGetPropertiesExt(found->handle, &pci) == ZE_RESULT_SUCCESS)
        gpu_write_pci(out, pci.address.domain, pci.address.bus, pci.address.device, pci.address.function);
    for (uint32_t i = 0; i < s->found.count && i < 64; i++)
        if (i != index && is_peer(s, found, &s->devices[i])) out->peers |= (uint64_t)1 << i;
    memcpy(out->uuid, p.uuid.id, sizeof out->uuid);
    snprintf(out->architecture, sizeof out->architecture, "%04x:%04x", p.vendorId, p.deviceId);
    snprintf(out->identity, sizeof out->identity, "Level Zero|%.63s|%04x:%04x|%u", p.name, p.vendorId,
             p.deviceId, driver.driverVersion);
}

/* The first group of queues that computes; such a group copies, too. */
static uint32_t computing_group(const xpu_state *s, ze_device_handle_t device)
{
    ze_command_queue_group_properties_t groups[MOST];
    uint32_t n = MOST, i = 0;
    for (uint32_t k = 0; k < MOST; k++)
        groups[k] =
            (ze_command_queue_group_properties_t){.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES};
    if (s->ze.zeDeviceGetCommandQueueGroupProperties(device, &n, groups) != ZE_RESULT_SUCCESS) return 0;
    while (i < n && !(groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE)) i++;
    return i < n ? i : 0;
}

static int32_t open_device(gpu_plugin *plugin, uint32_t index, void **out_device)
{
    xpu_state *s = gpu_driver_state(plugin);
    const found_device *found = &s->devices[index];
    xpu_device *d = calloc(1, sizeof *d);
    if (!d) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    ze_device_properties_t p = properties_of(s, found->handle);
    *d = (xpu_device){.plugin = plugin,
                      .ze = &s->ze,
                      .index = index,
                      .driver = found->driver,
                      .handle = found->handle,
                      .keeps_order = 1,
                      .ordinal = computing_group(s, found->handle),
                      .nanoseconds = (double)p.timerResolution,
                      .valid_ticks = p.kernelTimestampValidBits && p.kernelTimestampValidBits < 64
                                         ? ((uint64_t)1 << p.kernelTimestampValidBits) - 1
                                         : UINT64_MAX};
    int32_t status = xpu_context_open(d, &s->contexts, found->driver);
    if (status) {
        free(d);
        return status;
    }
    pthread_mutex_init(&d->lock, NULL);
    gpu_callbacks_init(&d->callbacks);
    *out_device = d;
    return TN_OK;
}

static void close_device(void *device)
{
    xpu_device *d = device;
    gpu_callbacks_finish(&d->callbacks);
    xpu_dnn_close(d);
    xpu_context_close(d, &((xpu_state *)gpu_driver_state(d->plugin))->contexts);
    pthread_mutex_destroy(&d->lock);
    free(d->borrowed);
    free(d);
}

/* Lists wait for events of their context. */
static int32_t waits_for(void *device, void *other)
{
    return ((xpu_device *)device)->shared == ((xpu_device *)other)->shared;
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

static int32_t check_alloc(xpu_device *d, ze_result_t result, uint64_t bytes, const char *of)
{
    char what[64];
    if (result == ZE_RESULT_ERROR_UNSUPPORTED_SIZE) result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    snprintf(what, sizeof what, "allocating %llu bytes%s", (unsigned long long)bytes, of);
    return xpu_check(d, result, what);
}

static int32_t alloc(void *device, uint64_t bytes, void **out_memory)
{
    xpu_device *d = device;
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    return check_alloc(d, d->ze->zeMemAllocDevice(d->context, &desc, bytes, ALIGNMENT, d->handle, out_memory),
                       bytes, "");
}

/* Level Zero's shared memory, which the device owns. */
static int32_t unified_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    xpu_device *d = device;
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    const ze_host_mem_alloc_desc_t of_host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_result_t result =
        d->ze->zeMemAllocShared(d->context, &desc, &of_host, bytes, ALIGNMENT, d->handle, out_memory);
    *out_host = result == ZE_RESULT_SUCCESS ? *out_memory : NULL;
    return check_alloc(d, result, bytes, " of shared memory");
}

/* Memory that another library gave is left to it. */
static void free_memory(void *device, void *memory)
{
    xpu_device *d = device;
    pthread_mutex_lock(&d->lock);
    uint32_t i = 0;
    while (i < d->n_borrowed && d->borrowed[i] != memory) i++;
    int32_t is_borrowed = i < d->n_borrowed;
    if (is_borrowed) d->borrowed[i] = d->borrowed[--d->n_borrowed];
    pthread_mutex_unlock(&d->lock);
    if (!is_borrowed) d->ze->zeMemFree(d->context, memory);
}

static int32_t retain(void *device, void *memory, uint64_t *out_bytes)
{
    xpu_device *d = device;
    ze_memory_allocation_properties_t p = {.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t owner = NULL;
    void *base = NULL;
    size_t bytes = 0;
    ze_result_t result = d->ze->zeMemGetAllocProperties(d->context, memory, &p, &owner);
    if (result == ZE_RESULT_SUCCESS && p.type != ZE_MEMORY_TYPE_UNKNOWN)
        result = d->ze->zeMemGetAddressRange(d->context, memory, &base, &bytes);
    if (result != ZE_RESULT_SUCCESS || !base || (p.type != ZE_MEMORY_TYPE_HOST && owner != d->handle))
        return gpu_error(d->plugin, TN_E_ARGUMENT, "%p is not memory of this device's context", memory);
    pthread_mutex_lock(&d->lock);
    if (d->n_borrowed == d->most_borrowed) {
        uint32_t most = d->most_borrowed ? 2 * d->most_borrowed : 16;
        void **larger = realloc(d->borrowed, most * sizeof *larger);
        if (larger) d->borrowed = larger;
        if (larger) d->most_borrowed = most;
    }
    int32_t fits = d->n_borrowed < d->most_borrowed;
    if (fits) d->borrowed[d->n_borrowed++] = memory;
    pthread_mutex_unlock(&d->lock);
    if (!fits) return xpu_no_memory(d);
    *out_bytes = (uint64_t)((char *)base + bytes - (char *)memory);
    return TN_OK;
}

static int32_t host_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    xpu_device *d = device;
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_result_t result = d->ze->zeMemAllocHost(d->context, &desc, bytes, ALIGNMENT, out_memory);
    *out_host = result == ZE_RESULT_SUCCESS ? *out_memory : NULL;
    return xpu_check(d, result, "allocating memory of the host");
}

static void host_free(void *device, void *memory, void *host)
{
    xpu_device *d = device;
    d->ze->zeMemFree(d->context, memory);
}

/* From the interface of system managers, whose handles are those of devices if ZES_ENABLE_SYSMAN is set. */
static int32_t memory_info(void *device, uint64_t *out_free, uint64_t *out_total)
{
    const xpu_device *d = device;
    const xpu_symbols *ze = d->ze;
    const char *enabled = getenv("ZES_ENABLE_SYSMAN");
    zes_mem_handle_t modules[MOST];
    uint32_t n = MOST;
    uint64_t free_bytes = 0, total = 0;
    if (!enabled || strcmp(enabled, "1") != 0 || !ze->zesDeviceEnumMemoryModules ||
        !ze->zesMemoryGetProperties || !ze->zesMemoryGetState ||
        ze->zesDeviceEnumMemoryModules((zes_device_handle_t)d->handle, &n, modules) != ZE_RESULT_SUCCESS)
        return TN_E_UNSUPPORTED;
    for (uint32_t i = 0; i < n && i < MOST; i++) {
        zes_mem_properties_t properties = {.stype = ZES_STRUCTURE_TYPE_MEM_PROPERTIES};
        zes_mem_state_t state = {.stype = ZES_STRUCTURE_TYPE_MEM_STATE};
        if (ze->zesMemoryGetProperties(modules[i], &properties) != ZE_RESULT_SUCCESS ||
            ze->zesMemoryGetState(modules[i], &state) != ZE_RESULT_SUCCESS)
            return TN_E_UNSUPPORTED;
        if (properties.location != ZES_MEM_LOC_DEVICE) continue;
        free_bytes += state.free;
        total += state.size;
    }
    if (!total) return TN_E_UNSUPPORTED;
    *out_free = free_bytes;
    *out_total = total;
    return TN_OK;
}

/* ---- Handles for others ------------------------------------------------------------------------------------ */

static int32_t native(void *device, uint32_t kind, void *handle, uint64_t *out)
{
    xpu_device *d = device;
    if (kind == TN_NATIVE_STREAM) handle = ((xpu_queue *)handle)->list;
    return gpu_native_of(kind, d->handle, d->context, handle, out);
}

/* ---- The driver -------------------------------------------------------------------------------------------- */

GPU_DEFINE_DRIVER(
    "xpu",
    /* Devices */
    .dlpack_type = 14 /* oneAPI */, .state_bytes = sizeof(xpu_state), .find = find, .describe = describe,
    .open = open_device, .close = close_device, .status = device_status, .native = native,
    /* oneDNN */
    .libraries = &xpu_libraries,
    /* Memory */
    .alloc = alloc, .free = free_memory, .retain = retain, .host_alloc = host_alloc, .host_free = host_free,
    .unified_alloc = unified_alloc, .memory_info = memory_info,
    /* Queues */
    .queue_create = xpu_queue_create, .queue_wrap = xpu_queue_wrap, .queue_destroy = xpu_queue_destroy,
    .queue_query = xpu_queue_query, .queue_finish = xpu_queue_finish, .queue_wait = xpu_queue_wait,
    .waits_for = waits_for, .native_wait = xpu_native_wait, .queue_callback = xpu_queue_callback,
    /* Events */
    .event_record = xpu_event_record, .event_release = xpu_event_release, .event_query = xpu_event_query,
    .event_wait = xpu_event_wait, .event_elapsed = xpu_event_elapsed,
    /* Copies */
    .write = xpu_write, .read = xpu_read, .copy = xpu_copy, .peer_copy = xpu_peer_copy, .fill = xpu_fill,
    /* Programs */
    .program_create = xpu_program_create, .program_destroy = xpu_program_destroy,
    .kernel_create = xpu_kernel_create, .kernel_destroy = xpu_kernel_destroy, .launch = xpu_launch);
