/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Level Zero driver of the GPU family: devices of all drivers that the loader finds. Memory is a device pointer. A
 * stream is an immediate command list; commands of such a list may overlap, so a barrier stands between any two. Lists,
 * and the arguments of kernels, are not safe for threads: a list has a lock, and launches are called one at a time.
 * Device code was compiled to SPIR-V with the plugin. Read it from the bottom.
 */
#include "gpu.h"
#include "modules.h"
#include "symbols.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define LOADER      "libze_loader.so.1"
#define MOST        16 /* drivers, and devices of one driver */
#define POOL_EVENTS 64
#define MOST_LOG    3500
#define FOR_EVER    UINT64_MAX

/* ---- The loader, devices and results ----------------------------------------------------------------------- */

typedef struct found_device {
    ze_driver_handle_t driver;
    ze_device_handle_t handle;
} found_device;

typedef struct xpu_state {
    xpu_symbols ze;
    void *loader;
    uint32_t count;
    found_device devices[MOST * MOST];
    char reason[256];
} xpu_state;

/* An event of a pool. It is given back when nobody refers to it, and used again when it has been signalled. */
typedef struct xpu_event {
    struct xpu_event *next; /* in the list of those given back */
    ze_event_handle_t handle;
    uint32_t references;
} xpu_event;

typedef struct xpu_pool {
    struct xpu_pool *next;
    ze_event_pool_handle_t handle;
    uint32_t count; /* events that were created */
    xpu_event events[POOL_EVENTS];
} xpu_pool;

typedef struct xpu_device {
    gpu_plugin *plugin;
    const xpu_symbols *ze;
    ze_device_handle_t handle;
    ze_context_handle_t context;
    uint32_t ordinal;     /* of the group of queues that computes and copies */
    double nanoseconds;   /* of a tick of timestamps */
    uint64_t valid_ticks; /* the bits of timestamps that count */
    ze_result_t lost;     /* the result with which the device was lost, else 0; atomic */
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t idle;
    uint32_t callbacks; /* threads that wait for work or run a callback */
    xpu_pool *pools;
    xpu_event *first, *last; /* given back, the oldest first */
    void **borrowed;         /* memory of other libraries, once for each time it was taken */
    uint32_t n_borrowed, most_borrowed;
} xpu_device;

/* An event that a queue waits for, until the queue has passed the wait. */
typedef struct xpu_wait {
    xpu_event *event;
    uint64_t position;
} xpu_wait;

typedef struct xpu_queue {
    ze_command_list_handle_t list;
    pthread_mutex_t lock; /* of the list and the rest */
    int32_t is_wrapped;   /* the program appends, too */
    int32_t is_open;      /* there may be a command behind the last barrier */
    uint64_t queued;      /* pieces of work so far */
    uint64_t finished;    /* of these, the first ones that are known to have finished */
    uint64_t marked;      /* of these, the first ones that the marker stands behind */
    xpu_event *marker;    /* for queries, or NULL */
    xpu_event
        *reached; /* for finish, which has to work when there is no memory for an event; one at a time: */
    pthread_mutex_t finishing;
    xpu_wait *waits;
    uint32_t n_waits, most_waits;
} xpu_queue;

static const char *result_name(ze_result_t result)
{
    switch (result) {
#define CASE(name) \
    case name:     \
        return #name;
        XPU_RESULTS(CASE)
#undef CASE
    default:
        return "unknown result";
    }
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

static int32_t out_of_host_memory(const xpu_device *d)
{
    return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
}

/* The status of a call; records its error, in which `what` failed. */
static int32_t check(xpu_device *d, ze_result_t result, const char *what)
{
    if (result == ZE_RESULT_SUCCESS) return TN_OK;
    int32_t status = status_of(result);
    if (status == TN_E_DEVICE_LOST) __atomic_store_n(&d->lost, result, __ATOMIC_RELEASE);
    return gpu_error_native(d->plugin, status, (int32_t)result, result_name(result), "%s failed: %s", what,
                            result_name(result));
}

static int32_t device_status(void *device)
{
    xpu_device *d = device;
    ze_result_t lost = __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
    if (lost == ZE_RESULT_SUCCESS) return TN_OK;
    return gpu_error_native(d->plugin, TN_E_DEVICE_LOST, (int32_t)lost, result_name(lost),
                            "the device is lost: %s", result_name(lost));
}

static xpu_state *state_of(gpu_plugin *plugin)
{
    return *gpu_driver_state(plugin);
}

static int32_t load(xpu_state *s)
{
    s->loader = dlopen(LOADER, RTLD_NOW | RTLD_LOCAL);
    if (!s->loader) {
        snprintf(s->reason, sizeof s->reason, "the Level Zero loader " LOADER " is not installed");
        return 0;
    }
#define LOAD(name)                                                      \
    *(void **)(void *)&s->ze.name = dlsym(s->loader, #name);            \
    if (!s->ze.name) {                                                  \
        snprintf(s->reason, sizeof s->reason, LOADER " has no " #name); \
        return 0;                                                       \
    }
    XPU_REQUIRED(LOAD)
#undef LOAD
#define LOAD(name) *(void **)(void *)&s->ze.name = dlsym(s->loader, #name);
    XPU_OPTIONAL(LOAD)
#undef LOAD
    ze_result_t result = s->ze.zeInit(0);
    if (result == ZE_RESULT_SUCCESS) return 1;
    snprintf(s->reason, sizeof s->reason, LOADER " found no driver: zeInit gives %s", result_name(result));
    return 0;
}

static void find_devices(xpu_state *s)
{
    ze_driver_handle_t drivers[MOST];
    ze_device_handle_t handles[MOST];
    uint32_t n_drivers = MOST, n;
    if (s->ze.zeDriverGet(&n_drivers, drivers) != ZE_RESULT_SUCCESS) n_drivers = 0;
    for (uint32_t k = 0; k < n_drivers; k++) {
        n = MOST;
        if (s->ze.zeDeviceGet(drivers[k], &n, handles) != ZE_RESULT_SUCCESS) continue;
        for (uint32_t i = 0; i < n; i++) s->devices[s->count++] = (found_device){drivers[k], handles[i]};
    }
    if (!s->count)
        snprintf(s->reason, sizeof s->reason, LOADER " found %u driver%s without a device", n_drivers,
                 n_drivers == 1 ? "" : "s");
}

static int32_t find(gpu_plugin *plugin, uint32_t *out_count, const char **out_reason)
{
    xpu_state *s = calloc(1, sizeof *s);
    if (!s) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *gpu_driver_state(plugin) = s;
    if (load(s)) find_devices(s);
    *out_count = s->count;
    *out_reason = s->count ? NULL : s->reason;
    return TN_OK;
}

/* The loader stays loaded: drivers have threads and exit handlers of their own. */
static void forget(gpu_plugin *plugin)
{
    free(state_of(plugin));
    *gpu_driver_state(plugin) = NULL;
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

static void describe(gpu_plugin *plugin, uint32_t index, gpu_properties *out)
{
    const xpu_state *s = state_of(plugin);
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
        .alignment = 64,
        .has_double = (module.flags & ZE_DEVICE_MODULE_FLAG_FP64) != 0,
        .is_precompiled = 1,
        .has_dense = 1,
        .has_addresses = 1,
        .priority_low = 1,
        .priority_high = -1,
    };
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, p.name);
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    if (s->ze.zeDevicePciGetPropertiesExt &&
        s->ze.zeDevicePciGetPropertiesExt(found->handle, &pci) == ZE_RESULT_SUCCESS)
        gpu_write_pci(out, pci.address.domain, pci.address.bus, pci.address.device, pci.address.function);
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
    const xpu_state *s = state_of(plugin);
    const found_device *found = &s->devices[index];
    const ze_context_desc_t context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    xpu_device *d = calloc(1, sizeof *d);
    if (!d) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    ze_device_properties_t p = properties_of(s, found->handle);
    *d = (xpu_device){.plugin = plugin,
                      .ze = &s->ze,
                      .handle = found->handle,
                      .ordinal = computing_group(s, found->handle),
                      .nanoseconds = (double)p.timerResolution,
                      .valid_ticks = p.kernelTimestampValidBits && p.kernelTimestampValidBits < 64
                                         ? ((uint64_t)1 << p.kernelTimestampValidBits) - 1
                                         : UINT64_MAX};
    int32_t status = check(d, s->ze.zeContextCreate(found->driver, &context, &d->context), "zeContextCreate");
    if (status) {
        free(d);
        return status;
    }
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->idle, NULL);
    *out_device = d;
    return TN_OK;
}

static void close_device(void *device)
{
    xpu_device *d = device;
    pthread_mutex_lock(&d->lock);
    while (d->callbacks) pthread_cond_wait(&d->idle, &d->lock);
    pthread_mutex_unlock(&d->lock);
    for (xpu_pool *pool = d->pools, *next; pool; pool = next) {
        next = pool->next;
        for (uint32_t i = 0; i < pool->count; i++) d->ze->zeEventDestroy(pool->events[i].handle);
        d->ze->zeEventPoolDestroy(pool->handle);
        free(pool);
    }
    pthread_cond_destroy(&d->idle);
    pthread_mutex_destroy(&d->lock);
    d->ze->zeContextDestroy(d->context);
    free(d->borrowed);
    free(d);
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

static int32_t alloc(void *device, uint64_t bytes, void **out_memory)
{
    xpu_device *d = device;
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    char what[64];
    ze_result_t result = d->ze->zeMemAllocDevice(d->context, &desc, bytes, 64, d->handle, out_memory);
    if (result == ZE_RESULT_ERROR_UNSUPPORTED_SIZE) result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    snprintf(what, sizeof what, "allocating %llu bytes", (unsigned long long)bytes);
    return check(d, result, what);
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
    if (!fits) return out_of_host_memory(d);
    *out_bytes = (uint64_t)((char *)base + bytes - (char *)memory);
    return TN_OK;
}

static int32_t host_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    xpu_device *d = device;
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_result_t result = d->ze->zeMemAllocHost(d->context, &desc, bytes, 64, out_memory);
    *out_host = result == ZE_RESULT_SUCCESS ? *out_memory : NULL;
    return check(d, result, "allocating memory of the host");
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

/* ---- Events of pools --------------------------------------------------------------------------------------- */

static int32_t add_pool(xpu_device *d)
{
    const ze_event_pool_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                       .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE |
                                                ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP,
                                       .count = POOL_EVENTS};
    xpu_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return out_of_host_memory(d);
    int32_t status = check(d, d->ze->zeEventPoolCreate(d->context, &desc, 1, &d->handle, &pool->handle),
                           "zeEventPoolCreate");
    if (status) {
        free(pool);
        return status;
    }
    pool->next = d->pools;
    d->pools = pool;
    return TN_OK;
}

/* The oldest event that was given back, if its signal has come: until then a reset would undo the wrong one. */
static xpu_event *used_event(xpu_device *d)
{
    xpu_event *e = d->first;
    if (!e || d->ze->zeEventQueryStatus(e->handle) != ZE_RESULT_SUCCESS) return NULL;
    d->first = e->next;
    if (!d->first) d->last = NULL;
    return e;
}

static int32_t new_event(xpu_device *d, xpu_event **out)
{
    int32_t status = !d->pools || d->pools->count == POOL_EVENTS ? add_pool(d) : TN_OK;
    if (status) return status;
    xpu_pool *pool = d->pools;
    const ze_event_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                  .index = pool->count,
                                  .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                  .wait = ZE_EVENT_SCOPE_FLAG_HOST};
    xpu_event *e = &pool->events[pool->count];
    status = check(d, d->ze->zeEventCreate(pool->handle, &desc, &e->handle), "zeEventCreate");
    if (!status) pool->count++;
    *out = e;
    return status;
}

/* An event that is not signalled, with one reference. */
static int32_t take_event(xpu_device *d, xpu_event **out)
{
    int32_t status = TN_OK;
    pthread_mutex_lock(&d->lock);
    *out = used_event(d);
    if (*out)
        status = check(d, d->ze->zeEventHostReset((*out)->handle), "zeEventHostReset");
    else
        status = new_event(d, out);
    pthread_mutex_unlock(&d->lock);
    if (!status) __atomic_store_n(&(*out)->references, 1, __ATOMIC_RELAXED);
    return status;
}

static void release_event(xpu_device *d, xpu_event *e)
{
    if (!e || __atomic_sub_fetch(&e->references, 1, __ATOMIC_ACQ_REL)) return;
    pthread_mutex_lock(&d->lock);
    e->next = NULL;
    if (d->last)
        d->last->next = e;
    else
        d->first = e;
    d->last = e;
    pthread_mutex_unlock(&d->lock);
}

static int32_t event_state(xpu_device *d, const xpu_event *e, int32_t *out_done)
{
    ze_result_t result = d->ze->zeEventQueryStatus(e->handle);
    *out_done = result == ZE_RESULT_SUCCESS;
    return result == ZE_RESULT_NOT_READY ? TN_OK : check(d, result, "queued work");
}

/* ---- Queues ------------------------------------------------------------------------------------------------ */

static int32_t make_queue(xpu_device *d, ze_command_list_handle_t list, int32_t is_wrapped, void **out_queue)
{
    xpu_queue *q = calloc(1, sizeof *q);
    if (!q) return out_of_host_memory(d);
    *q = (xpu_queue){.list = list, .is_wrapped = is_wrapped};
    int32_t status = take_event(d, &q->reached);
    if (status) {
        free(q);
        return status;
    }
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->finishing, NULL);
    *out_queue = q;
    return TN_OK;
}

static int32_t queue_create_urgent(void *device, int32_t priority, void **out_queue)
{
    xpu_device *d = device;
    const ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                          .ordinal = d->ordinal,
                                          .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS,
                                          .priority = priority < 0   ? ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH
                                                      : priority > 0 ? ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_LOW
                                                                     : ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
    ze_command_list_handle_t list;
    int32_t status = check(d, d->ze->zeCommandListCreateImmediate(d->context, d->handle, &desc, &list),
                           "zeCommandListCreateImmediate");
    if (status) return status;
    status = make_queue(d, list, 0, out_queue);
    if (status) d->ze->zeCommandListDestroy(list);
    return status;
}

/* An immediate command list of the program, which it does not append to while one of ours does. */
static int32_t queue_wrap(void *device, uint64_t native, void **out_queue)
{
    return make_queue(device, (ze_command_list_handle_t)(uintptr_t)native, 1, out_queue);
}

/* Gives back events whose waits have passed; under the queue's lock. */
static void drop_waits(xpu_device *d, xpu_queue *q)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < q->n_waits; i++) {
        if (q->waits[i].position > q->finished)
            q->waits[kept++] = q->waits[i];
        else
            release_event(d, q->waits[i].event);
    }
    q->n_waits = kept;
}

/* The host has waited for the queue, or lost the device. */
static void queue_destroy(void *device, void *queue)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    if (!q->is_wrapped) d->ze->zeCommandListDestroy(q->list);
    q->finished = UINT64_MAX;
    drop_waits(d, q);
    release_event(d, q->marker);
    release_event(d, q->reached);
    pthread_mutex_destroy(&q->finishing);
    pthread_mutex_destroy(&q->lock);
    free(q->waits);
    free(q);
}

/* A barrier behind all work, which waits for `wait` and then signals `signal` (each may be NULL); under the lock. */
static int32_t append_barrier(xpu_device *d, xpu_queue *q, const xpu_event *signal, const xpu_event *wait)
{
    ze_event_handle_t waited = wait ? wait->handle : NULL;
    int32_t status = check(d,
                           d->ze->zeCommandListAppendBarrier(q->list, signal ? signal->handle : NULL,
                                                             wait ? 1 : 0, wait ? &waited : NULL),
                           "a barrier");
    if (!status) q->is_open = q->is_wrapped;
    return status;
}

/* Takes the queue's lock and sees that the next command begins when the last one has ended. */
static int32_t begin(xpu_device *d, xpu_queue *q)
{
    pthread_mutex_lock(&q->lock);
    int32_t status = q->is_open || q->is_wrapped ? append_barrier(d, q, NULL, NULL) : TN_OK;
    if (status) pthread_mutex_unlock(&q->lock);
    return status;
}

static int32_t end(xpu_device *d, xpu_queue *q, ze_result_t result, const char *what)
{
    q->is_open = 1;
    q->queued++;
    pthread_mutex_unlock(&q->lock);
    return check(d, result, what);
}

/* Puts a marker behind all work, in place of an earlier one; under the lock. */
static int32_t mark(xpu_device *d, xpu_queue *q)
{
    xpu_event *marker;
    int32_t status = take_event(d, &marker);
    if (status) return status;
    status = append_barrier(d, q, marker, NULL);
    if (status) {
        release_event(d, marker);
        return status;
    }
    release_event(d, q->marker);
    q->marker = marker;
    q->marked = q->queued;
    return TN_OK;
}

static void passed(xpu_device *d, xpu_queue *q, uint64_t position)
{
    if (q->finished < position) q->finished = position;
    drop_waits(d, q);
}

static int32_t queue_query(void *device, void *queue, int32_t *out_done)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    int32_t status = TN_OK, done = 0;
    pthread_mutex_lock(&q->lock);
    if (q->is_wrapped && q->finished == q->queued) q->queued++; /* the program may have queued work since */
    if (q->finished < q->queued && q->marked < q->queued) status = mark(d, q);
    if (!status && q->finished < q->queued) status = event_state(d, q->marker, &done);
    if (done) passed(d, q, q->marked);
    *out_done = q->finished == q->queued;
    pthread_mutex_unlock(&q->lock);
    return status;
}

static int32_t queue_finish(void *device, void *queue)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    pthread_mutex_lock(&q->finishing);
    pthread_mutex_lock(&q->lock);
    uint64_t before = q->queued;
    int32_t has_work = q->finished < before || q->is_wrapped, status = TN_OK;
    if (has_work) status = check(d, d->ze->zeEventHostReset(q->reached->handle), "zeEventHostReset");
    if (has_work && !status) status = append_barrier(d, q, q->reached, NULL);
    pthread_mutex_unlock(&q->lock);
    if (has_work && !status)
        status = check(d, d->ze->zeEventHostSynchronize(q->reached->handle, FOR_EVER), "queued work");
    if (has_work && !status) {
        pthread_mutex_lock(&q->lock);
        passed(d, q, before);
        pthread_mutex_unlock(&q->lock);
    }
    pthread_mutex_unlock(&q->finishing);
    return status;
}

/* Appends a wait for the event, and keeps it until the queue has passed. */
static int32_t queue_wait(void *device, void *queue, void *event)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    int32_t status;
    pthread_mutex_lock(&q->lock);
    if (q->n_waits == q->most_waits) {
        uint32_t most = q->most_waits ? 2 * q->most_waits : 16;
        xpu_wait *larger = realloc(q->waits, most * sizeof *larger);
        if (larger) q->waits = larger;
        if (larger) q->most_waits = most;
    }
    if (q->n_waits == q->most_waits)
        status = out_of_host_memory(d);
    else
        status = append_barrier(d, q, NULL, event);
    if (!status) {
        __atomic_add_fetch(&((xpu_event *)event)->references, 1, __ATOMIC_RELAXED);
        q->waits[q->n_waits++] = (xpu_wait){event, ++q->queued};
    }
    pthread_mutex_unlock(&q->lock);
    return status;
}

/* The list of another library cannot tell when it has passed a wait, so the host waits. */
static int32_t native_wait(void *device, uint64_t native_queue, void *event)
{
    xpu_device *d = device;
    return check(d, d->ze->zeEventHostSynchronize(((xpu_event *)event)->handle, FOR_EVER), "queued work");
}

static int32_t native(void *device, uint32_t kind, void *handle, uint64_t *out)
{
    xpu_device *d = device;
    const void *of_kind[] = {[TN_NATIVE_DEVICE] = d->handle,
                             [TN_NATIVE_CONTEXT] = d->context,
                             [TN_NATIVE_STREAM] =
                                 kind == TN_NATIVE_STREAM ? ((xpu_queue *)handle)->list : NULL,
                             [TN_NATIVE_ALLOCATION] = handle};
    if (kind >= sizeof of_kind / sizeof *of_kind || !of_kind[kind]) return TN_E_UNSUPPORTED;
    *out = (uintptr_t)of_kind[kind];
    return TN_OK;
}

/* ---- Callbacks: Level Zero has none, so a thread waits for the work before and then signals an event ---------- */

typedef struct callback_call {
    xpu_device *device;
    void (*callback)(void *user);
    void *user;
    xpu_event *reached;  /* the work before it has finished */
    xpu_event *returned; /* later work waits for it */
} callback_call;

static void *run_callback(void *data)
{
    callback_call *c = data;
    xpu_device *d = c->device;
    d->ze->zeEventHostSynchronize(c->reached->handle, FOR_EVER);
    c->callback(c->user);
    d->ze->zeEventHostSignal(c->returned->handle);
    release_event(d, c->reached);
    release_event(d, c->returned);
    free(c);
    pthread_mutex_lock(&d->lock);
    if (--d->callbacks == 0) pthread_cond_broadcast(&d->idle);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static int32_t start_callback(callback_call *c)
{
    xpu_device *d = c->device;
    pthread_t thread;
    pthread_mutex_lock(&d->lock);
    int32_t failed = pthread_create(&thread, NULL, run_callback, c) != 0;
    if (!failed) d->callbacks++;
    pthread_mutex_unlock(&d->lock);
    if (failed) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "no thread for a callback");
    pthread_detach(thread);
    return TN_OK;
}

static int32_t event_record(void *device, void *queue, void **out_event);

static int32_t queue_callback(void *device, void *queue, void (*callback)(void *user), void *user)
{
    xpu_device *d = device;
    void *reached = NULL;
    callback_call *c = malloc(sizeof *c);
    if (!c) return out_of_host_memory(d);
    *c = (callback_call){.device = d, .callback = callback, .user = user};
    int32_t status = take_event(d, &c->returned);
    if (!status) status = event_record(d, queue, &reached);
    if (!status) {
        xpu_event *returned = c->returned;
        c->reached = reached;
        status = queue_wait(d, queue, returned);
        if (!status) status = start_callback(c);
        if (!status) return TN_OK;
    }
    if (c->returned) d->ze->zeEventHostSignal(c->returned->handle); /* nobody will call back */
    release_event(d, c->reached);
    release_event(d, c->returned);
    free(c);
    return status;
}

/* ---- Events of the host ------------------------------------------------------------------------------------ */

static int32_t event_record(void *device, void *queue, void **out_event)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    xpu_event *e;
    int32_t status = take_event(d, &e);
    if (status) return status;
    pthread_mutex_lock(&q->lock);
    status = append_barrier(d, q, e, NULL);
    if (!status) q->queued++;
    pthread_mutex_unlock(&q->lock);
    if (status)
        release_event(d, e);
    else
        *out_event = e;
    return status;
}

static void event_release(void *device, void *event)
{
    release_event(device, event);
}

static int32_t event_query(void *device, void *event, int32_t *out_done)
{
    return event_state(device, event, out_done);
}

static int32_t event_wait(void *device, void *event)
{
    xpu_device *d = device;
    return check(d, d->ze->zeEventHostSynchronize(((xpu_event *)event)->handle, FOR_EVER), "queued work");
}

/* Timestamps wrap at some bits: a difference of more than half of them is a negative one. */
static int32_t event_elapsed(void *device, void *start, void *stop, double *out_ms)
{
    xpu_device *d = device;
    ze_kernel_timestamp_result_t from, to;
    int32_t status = event_wait(d, start);
    if (!status) status = event_wait(d, stop);
    if (!status)
        status = check(d, d->ze->zeEventQueryKernelTimestamp(((xpu_event *)start)->handle, &from),
                       "the time of an event");
    if (!status)
        status = check(d, d->ze->zeEventQueryKernelTimestamp(((xpu_event *)stop)->handle, &to),
                       "the time of an event");
    if (status) return status;
    uint64_t ticks = (to.global.kernelEnd - from.global.kernelEnd) & d->valid_ticks;
    double signed_ticks = ticks > d->valid_ticks / 2 ? -(double)(d->valid_ticks - ticks + 1) : (double)ticks;
    *out_ms = signed_ticks * d->nanoseconds / 1e6;
    return TN_OK;
}

/* ---- Copies ------------------------------------------------------------------------------------------------ */

static int32_t move(xpu_device *d, xpu_queue *q, void *to, const void *from, uint64_t bytes, const char *what)
{
    int32_t status = begin(d, q);
    if (status) return status;
    return end(d, q, d->ze->zeCommandListAppendMemoryCopy(q->list, to, from, bytes, NULL, 0, NULL), what);
}

static int32_t write_memory(void *device, void *queue, void *memory, uint64_t offset, const void *host,
                            uint64_t bytes)
{
    return move(device, queue, (char *)memory + offset, host, bytes, "a copy to the device");
}

static int32_t read_memory(void *device, void *queue, void *host, void *memory, uint64_t offset,
                           uint64_t bytes)
{
    return move(device, queue, host, (const char *)memory + offset, bytes, "a copy to the host");
}

static int32_t copy_memory(void *device, void *queue, void *to, uint64_t to_offset, void *from,
                           uint64_t from_offset, uint64_t bytes)
{
    return move(device, queue, (char *)to + to_offset, (const char *)from + from_offset, bytes, "a copy");
}

static int32_t fill_memory(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                           const void *pattern, uint32_t pattern_bytes)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    int32_t status = begin(d, q);
    if (status) return status;
    return end(d, q,
               d->ze->zeCommandListAppendMemoryFill(q->list, (char *)memory + offset, pattern, pattern_bytes,
                                                    bytes, NULL, 0, NULL),
               "a fill");
}

/* ---- Programs ---------------------------------------------------------------------------------------------- */

static int32_t build_error(xpu_device *d, ze_result_t result, ze_module_build_log_handle_t log)
{
    size_t size = 0;
    char *text = NULL;
    if (log && d->ze->zeModuleBuildLogGetString(log, &size, NULL) == ZE_RESULT_SUCCESS && size)
        text = malloc(size + 1);
    if (text && d->ze->zeModuleBuildLogGetString(log, &size, text) != ZE_RESULT_SUCCESS) size = 0;
    if (text) text[size] = 0;
    int32_t status = check(d, result, "zeModuleCreate");
    if (status == TN_E_INTERNAL)
        status = gpu_error_native(d->plugin, status, (int32_t)result, result_name(result),
                                  "the device code does not compile: %s\n%.*s", result_name(result), MOST_LOG,
                                  text ? text : "(no log)");
    free(text);
    return status;
}

static void get_binary(xpu_device *d, ze_module_handle_t module, gpu_binary *out)
{
    size_t size = 0;
    if (d->ze->zeModuleGetNativeBinary(module, &size, NULL) != ZE_RESULT_SUCCESS || !size) return;
    uint8_t *bytes = malloc(size);
    if (bytes && d->ze->zeModuleGetNativeBinary(module, &size, bytes) == ZE_RESULT_SUCCESS)
        *out = (gpu_binary){bytes, size};
    else
        free(bytes);
}

static int32_t program_create(void *device, const char *source, const char *options, const gpu_binary *binary,
                              void **out_program, gpu_binary *out_binary)
{
    xpu_device *d = device;
    const gpu_module *compiled = gpu_module_find(source, options);
    if (!compiled) return gpu_error(d->plugin, TN_E_INTERNAL, "there is no device code for '%s'", options);
    const ze_module_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
        .format = binary ? ZE_MODULE_FORMAT_NATIVE : ZE_MODULE_FORMAT_IL_SPIRV,
        .inputSize = binary ? binary->size : compiled->size,
        .pInputModule = binary ? binary->bytes : compiled->bytes,
    };
    ze_module_handle_t module;
    ze_module_build_log_handle_t log = NULL;
    ze_result_t result = d->ze->zeModuleCreate(d->context, d->handle, &desc, &module, &log);
    int32_t status = result == ZE_RESULT_SUCCESS ? TN_OK : build_error(d, result, log);
    if (log) d->ze->zeModuleBuildLogDestroy(log);
    if (status) return status;
    if (out_binary) get_binary(d, module, out_binary);
    *out_program = module;
    return TN_OK;
}

static void program_destroy(void *device, void *program)
{
    ((xpu_device *)device)->ze->zeModuleDestroy(program);
}

static int32_t kernel_create(void *device, void *program, const char *name, void **out_kernel)
{
    xpu_device *d = device;
    const ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = name};
    ze_kernel_handle_t kernel;
    int32_t status = check(d, d->ze->zeKernelCreate(program, &desc, &kernel), name);
    if (!status) *out_kernel = kernel;
    return status;
}

static void kernel_destroy(void *device, void *kernel)
{
    ((xpu_device *)device)->ze->zeKernelDestroy(kernel);
}

static int32_t launch(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                      uint32_t n_arguments, uint64_t items, uint32_t group)
{
    xpu_device *d = device;
    xpu_queue *q = queue;
    const ze_group_count_t groups = {(uint32_t)(items / group), 1, 1};
    if (items / group > UINT32_MAX)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED, "a kernel for %llu items is too large",
                         (unsigned long long)items);
    ze_result_t result = d->ze->zeKernelSetGroupSize(kernel, group, 1, 1);
    for (uint32_t i = 0; i < n_arguments && result == ZE_RESULT_SUCCESS; i++) {
        const gpu_argument *a = &arguments[i];
        const void *memory = a->value;
        result = a->is_memory
                     ? d->ze->zeKernelSetArgumentValue(kernel, i, sizeof memory, memory ? &memory : NULL)
                     : d->ze->zeKernelSetArgumentValue(kernel, i, a->bytes, a->value);
    }
    int32_t status = check(d, result, "zeKernelSetArgumentValue");
    if (!status) status = begin(d, q);
    if (status) return status;
    return end(d, q, d->ze->zeCommandListAppendLaunchKernel(q->list, kernel, &groups, NULL, 0, NULL),
               "a kernel");
}

/* ---- The driver -------------------------------------------------------------------------------------------- */

const gpu_driver gpu_the_driver = {
    .type = "xpu",
    .version = "0.1",
    .dlpack_type = 14, /* oneAPI */
    .find = find,
    .forget = forget,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .status = device_status,
    .native = native,
    .alloc = alloc,
    .free = free_memory,
    .retain = retain,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .queue_create_urgent = queue_create_urgent,
    .memory_info = memory_info,
    .queue_wrap = queue_wrap,
    .queue_destroy = queue_destroy,
    .queue_query = queue_query,
    .queue_finish = queue_finish,
    .queue_wait = queue_wait,
    .native_wait = native_wait,
    .queue_callback = queue_callback,
    .event_record = event_record,
    .event_release = event_release,
    .event_query = event_query,
    .event_wait = event_wait,
    .event_elapsed = event_elapsed,
    .write = write_memory,
    .read = read_memory,
    .copy = copy_memory,
    .fill = fill_memory,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .kernel_create = kernel_create,
    .kernel_destroy = kernel_destroy,
    .launch = launch,
};

TN_DEFINE_PLUGIN("xpu", "0.1", "Tenon", 0, gpu_entry);
