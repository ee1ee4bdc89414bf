/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, and copies between it and the host. Memory is a buffer with an address. Where the host sees the device's memory, it
 * copies by itself; else it copies through a staging buffer. Copies from and to pinned memory are queued.
 */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>

#define STAGING_BYTES (4u << 20)

/* ---- Memory ----------------------------------------------------------------------------------------------- */

void vulkan_memory_destroy(vulkan_device *d, vulkan_memory *m)
{
    if (!m) return;
    d->vk.DestroyBuffer(d->device, m->buffer, NULL);
    d->vk.FreeMemory(d->device, m->memory, NULL);
    free(m);
}

/* Refuses what is larger than a buffer or an allocation may be: Vulkan does not define what that does. */
static int32_t check_size(const vulkan_device *d, uint64_t bytes, uint32_t type)
{
    const uint64_t heap = type == d->device_memory ? d->memory_bytes : d->host_bytes;
    const uint64_t most = heap < d->largest_bytes ? heap : d->largest_bytes;
    if (bytes <= most) return TN_OK;
    return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY,
                     "cannot allocate %llu bytes: the largest allocation of the device has %llu bytes",
                     (unsigned long long)bytes, (unsigned long long)most);
}

int32_t vulkan_memory_create(vulkan_device *d, uint64_t bytes, uint32_t type, vulkan_memory **out)
{
    const VkBufferCreateInfo buffer = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                       .size = bytes < 4 ? 4 : bytes,
                                       .usage = VULKAN_BUFFER_USAGE};
    const VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                             .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryRequirements needs;
    int32_t status = check_size(d, bytes, type);
    if (status) return status;
    vulkan_memory *m = calloc(1, sizeof *m);
    if (!m) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    m->bytes = bytes;
    VkResult result = d->vk.CreateBuffer(d->device, &buffer, NULL, &m->buffer);
    if (result == VK_SUCCESS) {
        d->vk.GetBufferMemoryRequirements(d->device, m->buffer, &needs);
        const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                           .pNext = &flags,
                                           .allocationSize = needs.size,
                                           .memoryTypeIndex = type};
        result = d->vk.AllocateMemory(d->device, &info, NULL, &m->memory);
    }
    if (result == VK_SUCCESS) result = d->vk.BindBufferMemory(d->device, m->buffer, m->memory, 0);
    if (result == VK_SUCCESS && (type == d->host_memory || d->sees_memory))
        result = d->vk.MapMemory(d->device, m->memory, 0, VK_WHOLE_SIZE, 0, &m->host);
    if (result != VK_SUCCESS) {
        char what[64];
        snprintf(what, sizeof what, "allocating %llu bytes", (unsigned long long)bytes);
        vulkan_memory_destroy(d, m);
        return vulkan_check(d, result, what);
    }
    const VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                            .buffer = m->buffer};
    m->address = d->vk.GetBufferDeviceAddress(d->device, &info);
    *out = m;
    return TN_OK;
}

/* Drivers may give more than there is; then the device is lost when work uses it. */
static int32_t check_budget(vulkan_device *d, uint64_t bytes, uint32_t type)
{
    uint64_t used = 0, budget = 0;
    if (vulkan_budget(d, type, &used, &budget) || (used <= budget && bytes <= budget - used)) return TN_OK;
    return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY,
                     "cannot allocate %llu bytes: %llu are in use, and the driver's budget is %llu",
                     (unsigned long long)bytes, (unsigned long long)used, (unsigned long long)budget);
}

/*
 * As Metal's allocator of PyTorch: above the low watermark freed memory is waited for, above the high one nothing is
 * allocated. Unless a program has set the high one, the driver's budget counts, too. With the lock held.
 */
static int32_t check_watermarks(vulkan_device *d, uint64_t bytes)
{
    uint64_t after = d->allocated + bytes, low = vulkan_watermark(d, 0), high = vulkan_watermark(d, 1);
    if (low && after > low) {
        /* What fails here the next commit or synchronisation of the stream reports. */
        for (vulkan_queue *q = d->queues; q; q = q->next) (void)vulkan_commit(q);
        vulkan_collect(d);
    }
    const int32_t is_set =
        __atomic_load_n(&vulkan_settings_of(d->plugin)->high_watermark, __ATOMIC_RELAXED) >= 0;
    if (!high || after <= high) return is_set ? TN_OK : check_budget(d, bytes, d->device_memory);
    return gpu_error(
        d->plugin, TN_E_OUT_OF_MEMORY,
        "cannot allocate %llu bytes: %llu are allocated, and the setting high_watermark_ratio allows %llu",
        (unsigned long long)bytes, (unsigned long long)d->allocated, (unsigned long long)high);
}

static void add(vulkan_memory **list, vulkan_memory *m)
{
    m->next = *list;
    *list = m;
}

static void take_out(vulkan_memory **list, vulkan_memory *m)
{
    while (*list != m) list = &(*list)->next;
    *list = m->next;
}

/* Destroys memory when the work that is queued now has ended. With the lock held. */
static void destroy_later(vulkan_device *d, vulkan_memory *m)
{
    m->last_batch = d->batches;
    add(&d->garbage, m);
    vulkan_collect(d);
}

int32_t vulkan_alloc(void *device, uint64_t bytes, void **out_memory)
{
    vulkan_device *d = device;
    vulkan_memory *m = NULL;
    pthread_mutex_lock(&d->lock);
    int32_t status = check_watermarks(d, bytes);
    if (!status) status = vulkan_memory_create(d, bytes, d->device_memory, &m);
    if (!status) {
        d->allocated += bytes;
        m->users = 1;
        add(&d->memories, m);
        *out_memory = m;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

void vulkan_free(void *device, void *memory)
{
    vulkan_device *d = device;
    vulkan_memory *m = memory;
    pthread_mutex_lock(&d->lock);
    if (--m->users == 0) {
        d->allocated -= m->bytes;
        take_out(&d->memories, m);
        destroy_later(d, m);
    }
    pthread_mutex_unlock(&d->lock);
}

void *vulkan_memory_of(void *device, void *native)
{
    vulkan_device *d = device;
    pthread_mutex_lock(&d->lock);
    vulkan_memory *m = d->memories;
    while (m && (void *)(uintptr_t)m->buffer != native) m = m->next;
    pthread_mutex_unlock(&d->lock);
    return m;
}

/* Vulkan does not say what a buffer of another library has, so only those of this device are taken. */
int32_t vulkan_retain(void *device, void *memory, uint64_t *out_bytes)
{
    vulkan_device *d = device;
    vulkan_memory *m = memory;
    if (!m) return gpu_error(d->plugin, TN_E_ARGUMENT, "the buffer is not memory of this plugin's device");
    pthread_mutex_lock(&d->lock);
    m->users++;
    *out_bytes = m->bytes;
    pthread_mutex_unlock(&d->lock);
    return TN_OK;
}

int32_t vulkan_host_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    vulkan_device *d = device;
    vulkan_memory *m = NULL;
    pthread_mutex_lock(&d->lock);
    int32_t status = check_budget(d, bytes, d->host_memory);
    if (!status) status = vulkan_memory_create(d, bytes, d->host_memory, &m);
    if (!status) {
        add(&d->pinned, m);
        *out_memory = m;
        *out_host = m->host;
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

void vulkan_host_free(void *device, void *memory, void *host)
{
    vulkan_device *d = device;
    vulkan_memory *m = memory;
    pthread_mutex_lock(&d->lock);
    take_out(&d->pinned, m);
    destroy_later(d, m);
    pthread_mutex_unlock(&d->lock);
}

int32_t vulkan_memory_info(void *device, uint64_t *out_free, uint64_t *out_total)
{
    const vulkan_device *d = device;
    uint64_t used = 0, budget = 0;
    int32_t status = vulkan_budget(d, d->device_memory, &used, &budget);
    if (status) return status;
    *out_free = budget > used ? budget - used : 0;
    *out_total = d->memory_bytes;
    return TN_OK;
}

/* The pinned memory in which a range lies, and where. */
static vulkan_memory *find_pinned(vulkan_device *d, const void *host, uint64_t bytes, uint64_t *out_offset)
{
    uintptr_t begin = (uintptr_t)host;
    for (vulkan_memory *m = d->pinned; m; m = m->next) {
        uintptr_t first = (uintptr_t)m->host;
        if (begin < first || begin - first > m->bytes || bytes > m->bytes - (begin - first)) continue;
        *out_offset = begin - first;
        return m;
    }
    return NULL;
}

/* ---- Copies ----------------------------------------------------------------------------------------------- */

/* Queues a copy; with the lock held. */
static int32_t encode_copy(vulkan_queue *q, const vulkan_memory *to, uint64_t to_offset,
                           const vulkan_memory *from, uint64_t from_offset, uint64_t bytes)
{
    const VkBufferCopy region = {from_offset, to_offset, bytes};
    VkCommandBuffer commands;
    int32_t status = vulkan_begin(q, &commands);
    if (status) return status;
    q->device->vk.CmdCopyBuffer(commands, from->buffer, to->buffer, 1, &region);
    return vulkan_end(q, (double)bytes / 4);
}

int32_t vulkan_copy(void *device, void *queue, void *to, uint64_t to_offset, void *from, uint64_t from_offset,
                    uint64_t bytes)
{
    vulkan_device *d = device;
    if (!bytes) return TN_OK;
    pthread_mutex_lock(&d->lock);
    int32_t status = encode_copy(queue, to, to_offset, from, from_offset, bytes);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* A part of a copy through the staging buffer; only one copy of the device uses it at a time. */
static int32_t stage(vulkan_queue *q, vulkan_memory *m, uint64_t offset, void *to_host, const void *from_host,
                     uint64_t bytes)
{
    vulkan_device *d = q->device;
    if (from_host) memcpy(d->staging->host, from_host, bytes);
    pthread_mutex_lock(&d->lock);
    int32_t status = from_host ? encode_copy(q, m, offset, d->staging, 0, bytes)
                               : encode_copy(q, d->staging, 0, m, offset, bytes);
    pthread_mutex_unlock(&d->lock);
    if (!status) status = vulkan_queue_finish(d, q);
    if (!status && to_host) memcpy(to_host, d->staging->host, bytes);
    if (status) { /* the copy may be submitted later: it must not meet those of others */
        pthread_mutex_lock(&d->lock);
        destroy_later(d, d->staging);
        pthread_mutex_unlock(&d->lock);
        d->staging = NULL;
    }
    return status;
}

/* Earlier work, which may take long, is waited for before the staging buffer is taken: copies of other streams go on. */
static int32_t copy_staged(vulkan_queue *q, vulkan_memory *m, uint64_t offset, char *to_host,
                           const char *from_host, uint64_t bytes)
{
    vulkan_device *d = q->device;
    int32_t status = vulkan_queue_finish(d, q);
    if (status) return status;
    pthread_mutex_lock(&d->staging_lock);
    if (!d->staging) status = vulkan_memory_create(d, STAGING_BYTES, d->host_memory, &d->staging);
    for (uint64_t at = 0; at < bytes && !status; at += STAGING_BYTES) {
        uint64_t part = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        status =
            stage(q, m, offset + at, to_host ? to_host + at : NULL, from_host ? from_host + at : NULL, part);
    }
    pthread_mutex_unlock(&d->staging_lock);
    return status;
}

/* Queues a copy of a few bytes of the host, which are read now: it waits for nothing. */
static int32_t write_queued(vulkan_queue *q, const vulkan_memory *to, uint64_t offset, const void *host,
                            uint32_t bytes)
{
    vulkan_device *d = q->device;
    const vulkan_memory *from;
    VkCommandBuffer commands;
    uint32_t at;
    pthread_mutex_lock(&d->lock);
    int32_t status = vulkan_begin(q, &commands); /* opens a batch */
    if (!status) status = vulkan_batch_bytes(q, host, bytes, &from, &at);
    if (!status) {
        const VkBufferCopy region = {at, offset, bytes};
        d->vk.CmdCopyBuffer(commands, from->buffer, to->buffer, 1, &region);
        status = vulkan_end(q, (double)bytes / 4);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* One of `to_host` and `from_host` is set. */
static int32_t copy_host(vulkan_queue *q, vulkan_memory *m, uint64_t offset, void *to_host,
                         const void *from_host, uint64_t bytes)
{
    vulkan_device *d = q->device;
    uint64_t at = 0;
    int32_t status = TN_OK;
    if (!bytes) return TN_OK;
    pthread_mutex_lock(&d->lock);
    vulkan_memory *pinned = find_pinned(d, to_host ? to_host : from_host, bytes, &at);
    if (pinned)
        status = to_host ? encode_copy(q, pinned, at, m, offset, bytes)
                         : encode_copy(q, m, offset, pinned, at, bytes);
    pthread_mutex_unlock(&d->lock);
    if (pinned) return status;
    if (!d->sees_memory || __atomic_load_n(&vulkan_settings_of(d->plugin)->staging, __ATOMIC_RELAXED))
        return copy_staged(q, m, offset, to_host, from_host, bytes);
    int32_t is_idle = 0;
    status = vulkan_queue_query(d, q, &is_idle);
    if (!status && !is_idle && from_host && bytes <= VULKAN_BATCH_BYTES)
        return write_queued(q, m, offset, from_host, (uint32_t)bytes);
    if (!status && !is_idle) status = vulkan_queue_finish(d, q);
    if (status) return status;
    if (to_host)
        memcpy(to_host, (char *)m->host + offset, bytes);
    else
        memcpy((char *)m->host + offset, from_host, bytes);
    return TN_OK;
}

int32_t vulkan_write(void *device, void *queue, void *memory, uint64_t offset, const void *host,
                     uint64_t bytes)
{
    return copy_host(queue, memory, offset, NULL, host, bytes);
}

int32_t vulkan_read(void *device, void *queue, void *host, void *memory, uint64_t offset, uint64_t bytes)
{
    return copy_host(queue, memory, offset, host, NULL, bytes);
}
