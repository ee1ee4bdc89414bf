/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest device plugin that is legal: the required slots of the required interfaces, and no rows. */
#define TN_PLUGIN
#include <tenon/plugin.h>

#include <stdlib.h>
#include <string.h>

static int32_t handle; /* its address stands for the device and the stream: nothing is kept in it */

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = 1;
    *out_reason = NULL;
    return TN_OK;
}

static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    static const tn_dtype none[] = {0};
    tn_device_facts f = {.size = out->size,
                         .device_class = TN_DEVICE_VIRTUAL,
                         .memory_kinds = TN_MEMORY_UNIFIED,
                         .alignment = 64,
                         .dtypes = none,
                         .name = "Smallest"};
    memcpy(out, &f, out->size < sizeof(f) ? out->size : sizeof(f));
    return TN_OK;
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    *out_device = &handle;
    return TN_OK;
}

static void nothing(void *self, void *object) {}

static int32_t well(void *self, void *device)
{
    return TN_OK;
}

static int32_t alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)request->bytes)) return TN_E_OUT_OF_MEMORY;
    out->allocation = out->host = memory;
    return TN_OK;
}

static void free_memory(void *self, void *device, const tn_memory *memory)
{
    free(memory->allocation);
}

static int32_t fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                    uint32_t value, void *stream)
{
    memset((char *)allocation + offset, (int)value, (size_t)bytes);
    return TN_OK;
}

static int32_t info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = *out_total = 0;
    return TN_OK;
}

static int32_t to_device(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                         const tn_memory *pinned, uint64_t bytes, void *stream)
{
    memcpy((char *)allocation + offset, host, (size_t)bytes);
    return TN_OK;
}

static int32_t to_host(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                       uint64_t offset, uint64_t bytes, void *stream)
{
    memcpy(host, (const char *)allocation + offset, (size_t)bytes);
    return TN_OK;
}

static int32_t between(void *self, void *device, void *to, uint64_t to_offset, void *from,
                       uint64_t from_offset, uint64_t bytes, void *stream)
{
    memcpy((char *)to + to_offset, (const char *)from + from_offset, (size_t)bytes);
    return TN_OK;
}

static int32_t create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    *out_stream = &handle;
    return TN_OK;
}

static void destroy(void *self, void *device, void *stream) {}

static int32_t query(void *self, void *device, void *stream, int32_t *out_done)
{
    *out_done = 1;
    return TN_OK;
}

static int32_t synchronize(void *self, void *device, void *stream)
{
    return TN_OK;
}

/* As short as the contract allows: an interface ends behind its last required slot. */
#define UP_TO(type, slot) (uint32_t)(offsetof(type, slot) + sizeof(((type *)0)->slot))

static const tn_device_interface device_interface = {.size = UP_TO(tn_device_interface, synchronize),
                                                     .type = "smallest",
                                                     .enumerate = enumerate,
                                                     .facts = facts,
                                                     .open = open_device,
                                                     .close = nothing,
                                                     .synchronize = well};
static const tn_memory_interface memory_interface = {.size = UP_TO(tn_memory_interface, info),
                                                     .alloc = alloc,
                                                     .free = free_memory,
                                                     .fill = fill,
                                                     .info = info};
static const tn_copy_interface copy_interface = {.size = UP_TO(tn_copy_interface, device_to_device),
                                                 .host_to_device = to_device,
                                                 .device_to_host = to_host,
                                                 .device_to_device = between};
static const tn_stream_interface stream_interface = {.size = UP_TO(tn_stream_interface, synchronize),
                                                     .create = create,
                                                     .destroy = destroy,
                                                     .query = query,
                                                     .synchronize = synchronize};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return version != 1                    ? NULL
           : !strcmp(name, "tenon.device") ? (const void *)&device_interface
           : !strcmp(name, "tenon.memory") ? (const void *)&memory_interface
           : !strcmp(name, "tenon.copy")   ? (const void *)&copy_interface
           : !strcmp(name, "tenon.stream") ? (const void *)&stream_interface
                                           : NULL;
}

static int32_t init(const tn_host *host, void **out_self)
{
#ifdef CASE_greedy
    /* The slot that a later release appends, without a look at host->size: what the oldest host must catch. */
    if (*(void *const *)(const void *)(host + 1)) handle = 1;
#endif
    *out_self = &handle;
    return TN_OK;
}

static void shutdown(void *self) {}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    int32_t status = tn_negotiate(offer, out);
    if (status != TN_OK) return status;
    out->init = init;
    out->get_interface = get_interface;
    out->shutdown = shutdown;
    return TN_OK;
}

TN_DEFINE_PLUGIN("smallest", "0.1", "Tests", 0, entry);
