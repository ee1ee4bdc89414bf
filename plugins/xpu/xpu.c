/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Level Zero driver of the GPU family: GPUs of all drivers that the loader finds. Memory is a device pointer, and a
 * stream is an immediate command list. Read it from the bottom.
 */
#include "xpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LOADER     "libze_loader.so.1"
#define MOST       16  /* drivers, and devices of one driver */
#define EXTENSIONS 256 /* of a driver */
#define INTEL      0x8086
/* The version of the specification that has the flag of lists in order. Intel's driver, which named version 1.3 and 1.6 for
 * years, has the flag since build 29534; its number for the build begins at 1.3.0. */
#define ORDER_VERSION     ZE_MAKE_VERSION(1, 7)
#define INTEL_ORDER_BUILD (0x01030000 + 29534)

/* ---- The loader, devices and results ----------------------------------------------------------------------- */

typedef struct found_device {
    ze_driver_handle_t driver;
    ze_device_handle_t handle;
    uint32_t version;   /* of the specification that the driver follows */
    ze_result_t failed; /* what zeDeviceGetProperties gave when the device was found */
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

uint64_t xpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
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
    s->loader = gpu_load(&s->found, LOADER, "the Level Zero loader " LOADER " is not installed");
    if (!s->loader) return 0;
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

/* Versions from 1.2 on give the clock of timestamps in cycles per second; before it was whole nanoseconds. */
static ze_result_t get_properties(const xpu_state *s, const found_device *found, ze_device_properties_t *out)
{
    *out = (ze_device_properties_t){.stype = found->version >= ZE_API_VERSION_1_2
                                                 ? ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2
                                                 : ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    return s->ze.zeDeviceGetProperties(found->handle, out);
}

/* Whether a call has failed without which no devices are found. It is the reason where there are none. */
static int32_t has_failed(xpu_state *s, ze_result_t result, const char *what)
{
    if (result == ZE_RESULT_SUCCESS) return 0;
    snprintf(s->found.reason, sizeof s->found.reason, "%s failed: %s", what, xpu_result_name(result));
    return 1;
}

/* The loader lists accelerators of other kinds, too, such as NPUs, whose drivers take no SPIR-V. A device that does not tell its
 * kind is counted, so that others keep their numbers; it cannot be opened. */
static void find_devices(xpu_state *s, ze_driver_handle_t driver)
{
    ze_device_handle_t handles[MOST];
    uint32_t n = MOST;
    ze_api_version_t version = ZE_API_VERSION_1_0;
    if (has_failed(s, s->ze.zeDeviceGet(driver, &n, handles), "zeDeviceGet")) return;
    s->ze.zeDriverGetApiVersion(driver, &version);
    for (uint32_t i = 0; i < n && i < MOST; i++) {
        ze_device_properties_t p;
        found_device found = {.driver = driver, .handle = handles[i], .version = (uint32_t)version};
        found.failed = get_properties(s, &found, &p);
        if (found.failed || p.type == ZE_DEVICE_TYPE_GPU) s->devices[s->found.count++] = found;
    }
}

static void find(void *state)
{
    xpu_state *s = state;
    ze_driver_handle_t drivers[MOST];
    uint32_t n = MOST;
    pthread_mutex_init(&s->contexts.lock, NULL);
    if (!load(s)) return;
    if (has_failed(s, s->ze.zeDriverGet(&n, drivers), "zeDriverGet")) return;
    for (uint32_t k = 0; k < n && k < MOST; k++) find_devices(s, drivers[k]);
    if (!s->found.count && !s->found.reason[0])
        snprintf(s->found.reason, sizeof s->found.reason, LOADER " found %u driver%s without a GPU", n,
                 n == 1 ? "" : "s");
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

/* Whether allocations may be larger than what the device's properties say, if that is asked for. */
static int32_t lifts_limits(const xpu_state *s, const found_device *found)
{
    ze_driver_extension_properties_t *list = calloc(EXTENSIONS, sizeof *list);
    uint32_t n = EXTENSIONS;
    int32_t is_there = 0;
    if (list && s->ze.zeDriverGetExtensionProperties(found->driver, &n, list) == ZE_RESULT_SUCCESS)
        for (uint32_t i = 0; i < n && i < EXTENSIONS; i++)
            is_there |= strcmp(list[i].name, ZE_RELAXED_ALLOCATION_LIMITS_EXP_NAME) == 0;
    free(list);
    return is_there;
}

static uint64_t largest_of(const xpu_state *s, const found_device *found, const ze_device_properties_t *p)
{
    const uint64_t memory = memory_of(s, found->handle);
    return memory > p->maxMemAllocSize && lifts_limits(s, found) ? memory : p->maxMemAllocSize;
}

static ze_result_t get_module_properties(const xpu_state *s, const found_device *found,
                                         ze_device_module_properties_t *out)
{
    *out = (ze_device_module_properties_t){.stype = ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES};
    return s->ze.zeDeviceGetModuleProperties(found->handle, out);
}

/* What the driver's compiler is told. Without the flags divisions and roots of float32 may be off by 2.5 units, and offsets into
 * memory may have 32 bits. */
static void write_build_flags(const ze_device_module_properties_t *p, uint64_t largest, char *out,
                              size_t bytes)
{
    const int32_t is_exact = (p->fp32flags & ZE_DEVICE_FP_FLAG_ROUNDED_DIVIDE_SQRT) != 0;
    snprintf(out, bytes, "%s%s%s", is_exact ? "-ze-fp32-correctly-rounded-divide-sqrt" : "",
             is_exact && largest > UINT32_MAX ? " " : "",
             largest > UINT32_MAX ? "-ze-opt-greater-than-4GB-buffer-required" : "");
}

/* Drivers that do not know the flag of lists in order may ignore it, so success says nothing. */
static int32_t keeps_order(const xpu_state *s, const found_device *found, const ze_device_properties_t *p)
{
    ze_driver_properties_t driver = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    if (found->version >= ORDER_VERSION) return 1;
    s->ze.zeDriverGetProperties(found->driver, &driver);
    return p->vendorId == INTEL && driver.driverVersion >= INTEL_ORDER_BUILD;
}

/* Whether the device may use memory of the other one. */
static int32_t is_peer(const xpu_state *s, const found_device *d, const found_device *other)
{
    ze_bool_t can = 0;
    return other->driver == d->driver &&
           s->ze.zeDeviceCanAccessPeer(d->handle, other->handle, &can) == ZE_RESULT_SUCCESS && can;
}

/* Where the card is, if the driver tells it. */
static int32_t has_address(const xpu_state *s, ze_device_handle_t device, ze_pci_address_ext_t *out)
{
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    if (!s->ze.zeDevicePciGetPropertiesExt ||
        s->ze.zeDevicePciGetPropertiesExt(device, &pci) != ZE_RESULT_SUCCESS)
        return 0;
    *out = pci.address;
    return 1;
}

/* What the driver does not tell is 0. A device that cannot be opened is used only if it is named. */
static void describe(gpu_plugin *plugin, uint32_t index, gpu_properties *out)
{
    const xpu_state *s = gpu_driver_state(plugin);
    const found_device *found = &s->devices[index];
    ze_device_properties_t p;
    ze_device_module_properties_t module;
    get_properties(s, found, &p);
    get_module_properties(s, found, &module);
    const uint64_t largest = largest_of(s, found, &p);
    char flags[sizeof((xpu_device *)0)->build_flags];
    ze_driver_properties_t driver = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    s->ze.zeDriverGetProperties(found->driver, &driver);
    write_build_flags(&module, largest, flags, sizeof flags);
    *out = (gpu_properties){
        .device_class = found->failed                                  ? TN_DEVICE_VIRTUAL
                        : p.flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED ? TN_DEVICE_INTEGRATED
                                                                       : TN_DEVICE_DISCRETE,
        .compute_units = p.numSlices * p.numSubslicesPerSlice * p.numEUsPerSubslice,
        .memory_bytes = memory_of(s, found->handle),
        .largest_allocation = largest,
        .alignment = XPU_ALIGNMENT,
        .has_double = (module.flags & ZE_DEVICE_MODULE_FLAG_FP64) != 0,
        .is_precompiled = 1,
        .has_dense = 1,
        .has_addresses = 1,
        .has_unified = has_unified(s, found->handle),
        .priority_low = 1,
        .priority_high = -1,
    };
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    ze_pci_address_ext_t at;
    if (has_address(s, found->handle, &at)) gpu_write_pci(out, at.domain, at.bus, at.device, at.function);
    for (uint32_t i = 0; i < s->found.count && i < 64; i++)
        if (i != index && is_peer(s, found, &s->devices[i])) out->peers |= (uint64_t)1 << i;
    memcpy(out->uuid, p.uuid.id, sizeof out->uuid);
    snprintf(out->architecture, sizeof out->architecture, "%04x:%04x", p.vendorId, p.deviceId);
    /* With what decides how a module is compiled. */
    snprintf(out->identity, sizeof out->identity, "Level Zero|%.63s|%04x:%04x|%u|%s|%s", p.name, p.vendorId,
             p.deviceId, driver.driverVersion, out->has_double ? "float64" : "no float64", flags);
}

/* The first group of queues that computes; such a group copies, too. */
static int32_t find_group(const xpu_state *s, xpu_device *d)
{
    ze_command_queue_group_properties_t groups[MOST];
    uint32_t n = MOST, i = 0;
    for (uint32_t k = 0; k < MOST; k++)
        groups[k] =
            (ze_command_queue_group_properties_t){.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES};
    int32_t status = xpu_check(d, s->ze.zeDeviceGetCommandQueueGroupProperties(d->handle, &n, groups),
                               "zeDeviceGetCommandQueueGroupProperties");
    if (status) return status;
    if (n > MOST) n = MOST;
    while (i < n && !(groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE)) i++;
    if (i == n)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED,
                         "the device has no group of command queues that computes");
    d->ordinal = i;
    d->engines = groups[i].numQueues ? groups[i].numQueues : 1;
    return TN_OK;
}

/* What the driver says of the device. */
static int32_t ask(const xpu_state *s, const found_device *found, xpu_device *d)
{
    ze_device_properties_t p;
    ze_device_module_properties_t module;
    const ze_result_t result = found->failed ? found->failed : get_properties(s, found, &p);
    int32_t status = xpu_check(d, result, "zeDeviceGetProperties");
    if (!status)
        status = xpu_check(d, get_module_properties(s, found, &module), "zeDeviceGetModuleProperties");
    if (!status) status = find_group(s, d);
    if (status) return status;
    const uint64_t largest = largest_of(s, found, &p);
    const double resolution = p.timerResolution ? (double)p.timerResolution : 1;
    const uint32_t bits = p.kernelTimestampValidBits;
    d->has_double = (module.flags & ZE_DEVICE_MODULE_FLAG_FP64) != 0;
    d->memory_bytes = memory_of(s, found->handle);
    d->plain_bytes = largest > p.maxMemAllocSize ? p.maxMemAllocSize : UINT64_MAX;
    d->tile = p.flags & ZE_DEVICE_PROPERTY_FLAG_SUBDEVICE ? p.subdeviceId : XPU_NO_TILE;
    d->has_address = has_address(s, found->handle, &d->address);
    d->keeps_order = keeps_order(s, found, &p);
    d->nanoseconds = p.stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2 ? 1e9 / resolution : resolution;
    d->valid_ticks = bits && bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX;
    write_build_flags(&module, largest, d->build_flags, sizeof d->build_flags);
    return TN_OK;
}

static int32_t open_device(gpu_plugin *plugin, uint32_t index, void **out_device)
{
    xpu_state *s = gpu_driver_state(plugin);
    const found_device *found = &s->devices[index];
    xpu_device *d = calloc(1, sizeof *d);
    if (!d) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    d->plugin = plugin;
    d->ze = &s->ze;
    d->index = index;
    d->driver = found->driver;
    d->handle = found->handle;
    int32_t status = ask(s, found, d);
    if (!status) status = xpu_context_open(d, &s->contexts, found->driver);
    if (status) {
        free(d);
        return status;
    }
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->launching, NULL);
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
    pthread_mutex_destroy(&d->launching);
    pthread_mutex_destroy(&d->lock);
    free(d->borrowed);
    free(d);
}

/* Lists wait for events of their context. */
static int32_t waits_for(void *device, void *other)
{
    return ((xpu_device *)device)->shared == ((xpu_device *)other)->shared;
}

/* ---- Handles for others ------------------------------------------------------------------------------------ */

static int32_t native(void *device, uint32_t kind, void *handle, uint64_t *out)
{
    xpu_device *d = device;
    if (kind == TN_NATIVE_STREAM) {
        xpu_queue *q = handle;
        xpu_queue_settle(q); /* what the program appends comes behind the queue's work */
        pthread_mutex_lock(&q->lock);
        q->is_shared = 1;
        pthread_mutex_unlock(&q->lock);
        handle = q->list;
    }
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
    .alloc = xpu_alloc, .free = xpu_free, .retain = xpu_retain, .host_alloc = xpu_host_alloc,
    .host_free = xpu_host_free, .unified_alloc = xpu_unified_alloc, .memory_info = xpu_memory_info,
    /* Queues */
    .queue_create = xpu_queue_create, .queue_wrap = xpu_queue_wrap, .queue_destroy = xpu_queue_destroy,
    .queue_query = xpu_queue_query, .queue_finish = xpu_queue_finish, .queue_wait = xpu_queue_wait,
    .waits_for = waits_for, .native_wait = xpu_native_wait, .queue_callback = xpu_queue_callback,
    /* Events */
    .event_record = xpu_event_record, .event_record_as = xpu_event_record_as,
    .event_release = xpu_event_release, .event_query = xpu_event_query, .event_wait = xpu_event_wait,
    .event_elapsed = xpu_event_elapsed,
    /* Copies */
    .write = xpu_write, .read = xpu_read, .copy = xpu_copy, .peer_copy = xpu_peer_copy, .fill = xpu_fill,
    /* Programs */
    .program_create = xpu_program_create, .program_destroy = xpu_program_destroy,
    .kernel_create = xpu_kernel_create, .kernel_destroy = xpu_kernel_destroy, .launch = xpu_launch);
