/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the Level Zero driver: of the device, of the host and shared by both, memory of other libraries, and how much is
 * free. A handle is an address.
 */
#include "xpu.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_MODULES 16 /* of memory, for each card */

static int32_t check_alloc(xpu_device *d, ze_result_t result, uint64_t bytes, const char *of)
{
    char what[64];
    if (result == ZE_RESULT_ERROR_UNSUPPORTED_SIZE) result = ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    snprintf(what, sizeof what, "allocating %llu bytes%s", (unsigned long long)bytes, of);
    return xpu_check(d, result, what);
}

/* Allocations above the device's limit have to ask for it. Smaller ones do not, since older drivers refuse what they do not know. */
static const void *limits_of(const xpu_device *d, uint64_t bytes)
{
    static const ze_relaxed_allocation_limits_exp_desc_t lifted = {
        .stype = ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC,
        .flags = ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE};
    return bytes > d->plain_bytes ? &lifted : NULL;
}

int32_t xpu_alloc(void *device, uint64_t bytes, void **out_memory)
{
    xpu_device *d = device;
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                             .pNext = limits_of(d, bytes)};
    return check_alloc(
        d, d->ze->zeMemAllocDevice(d->context, &desc, bytes, XPU_ALIGNMENT, d->handle, out_memory), bytes,
        "");
}

/* Level Zero's shared memory, which the device owns. */
int32_t xpu_unified_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    xpu_device *d = device;
    const ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                             .pNext = limits_of(d, bytes)};
    const ze_host_mem_alloc_desc_t of_host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ze_result_t result =
        d->ze->zeMemAllocShared(d->context, &desc, &of_host, bytes, XPU_ALIGNMENT, d->handle, out_memory);
    *out_host = result == ZE_RESULT_SUCCESS ? *out_memory : NULL;
    return check_alloc(d, result, bytes, " of shared memory");
}

/* Memory that another library gave is left to it. */
void xpu_free(void *device, void *memory)
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

int32_t xpu_retain(void *device, void *memory, uint64_t *out_bytes)
{
    xpu_device *d = device;
    ze_memory_allocation_properties_t p = {.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t owner = NULL;
    void *base = NULL;
    size_t bytes = 0;
    int32_t status = xpu_check(d, d->ze->zeMemGetAllocProperties(d->context, memory, &p, &owner),
                               "zeMemGetAllocProperties");
    if (!status && p.type != ZE_MEMORY_TYPE_UNKNOWN)
        status = xpu_check(d, d->ze->zeMemGetAddressRange(d->context, memory, &base, &bytes),
                           "zeMemGetAddressRange");
    if (status) return status;
    if (!base || (p.type != ZE_MEMORY_TYPE_HOST && owner != d->handle))
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

int32_t xpu_host_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    xpu_device *d = device;
    const ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC,
                                           .pNext = limits_of(d, bytes)};
    ze_result_t result = d->ze->zeMemAllocHost(d->context, &desc, bytes, XPU_ALIGNMENT, out_memory);
    *out_host = result == ZE_RESULT_SUCCESS ? *out_memory : NULL;
    return check_alloc(d, result, bytes, " of the host");
}

void xpu_host_free(void *device, void *memory, void *host)
{
    xpu_device *d = device;
    d->ze->zeMemFree(d->context, memory);
}

/* ---- Free memory, from the interface of system managers ---------------------------------------------------- */

typedef struct memory_sum {
    uint64_t free_bytes, total;
    uint32_t tiles; /* bit i: there is memory of tile i */
} memory_sum;

/* Adds a module of the card. Memory of other tiles than the device is left out, if it is known which tile that is. */
static int32_t add_module(const xpu_device *d, zes_mem_handle_t module, memory_sum *sum)
{
    zes_mem_properties_t properties = {.stype = ZES_STRUCTURE_TYPE_MEM_PROPERTIES};
    zes_mem_state_t state = {.stype = ZES_STRUCTURE_TYPE_MEM_STATE};
    if (d->ze->zesMemoryGetProperties(module, &properties) != ZE_RESULT_SUCCESS ||
        d->ze->zesMemoryGetState(module, &state) != ZE_RESULT_SUCCESS)
        return TN_E_UNSUPPORTED;
    if (properties.location != ZES_MEM_LOC_DEVICE) return TN_OK;
    if (properties.onSubdevice) {
        if (d->tile != XPU_NO_TILE && properties.subdeviceId != d->tile) return TN_OK;
        sum->tiles |= 1u << properties.subdeviceId % 32;
    }
    sum->free_bytes += state.free;
    sum->total += state.size;
    return TN_OK;
}

/*
 * Handles of this interface are those of devices if ZES_ENABLE_SYSMAN is set, but its memory is that of the whole card. A tile
 * that is a device need not know its number: then nobody can tell which memory is its own. The total may count bytes that the
 * driver keeps for itself.
 */
int32_t xpu_memory_info(void *device, uint64_t *out_free, uint64_t *out_total)
{
    const xpu_device *d = device;
    const xpu_symbols *ze = d->ze;
    const char *enabled = getenv("ZES_ENABLE_SYSMAN");
    zes_mem_handle_t modules[MOST_MODULES];
    uint32_t n = MOST_MODULES;
    memory_sum sum = {0};
    int32_t status = TN_OK;
    if (!enabled || strcmp(enabled, "1") != 0 || !ze->zesDeviceEnumMemoryModules ||
        !ze->zesMemoryGetProperties || !ze->zesMemoryGetState ||
        ze->zesDeviceEnumMemoryModules((zes_device_handle_t)d->handle, &n, modules) != ZE_RESULT_SUCCESS)
        return TN_E_UNSUPPORTED;
    for (uint32_t i = 0; i < n && i < MOST_MODULES && !status; i++) status = add_module(d, modules[i], &sum);
    const int32_t is_card = (sum.tiles & (sum.tiles - 1)) != 0, is_part = sum.total / 3 * 2 > d->memory_bytes;
    if (status || !sum.total || (is_card && is_part)) return TN_E_UNSUPPORTED;
    *out_total = sum.total < d->memory_bytes ? sum.total : d->memory_bytes;
    *out_free = sum.free_bytes < *out_total ? sum.free_bytes : *out_total;
    return TN_OK;
}
