/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest device plugin that is legal: the required slots of the required interfaces, and no rows. */
#include "../plugins/host_slots.h"

#include <stdlib.h>

static int32_t handle; /* its address stands for the device and the stream: nothing is kept in it */

static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    static const tn_dtype none[] = {0};
    const tn_device_facts f = {HOST_FACTS(out, TN_MEMORY_UNIFIED, none, "Smallest")};
    return host_facts(&f, out);
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    *out_device = &handle;
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

static int32_t create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    *out_stream = &handle;
    return TN_OK;
}

/* As short as the contract allows: an interface ends behind its last required slot. */
#define UP_TO(type, slot) (uint32_t)(offsetof(type, slot) + sizeof(((type *)0)->slot))

static const tn_device_interface device_interface = {
    .size = UP_TO(tn_device_interface, synchronize),
    HOST_DEVICE_SLOTS("smallest", host_enumerate_one, facts, open_device, host_device_done)};
static const tn_memory_interface memory_interface = {
    .size = UP_TO(tn_memory_interface, info),
    HOST_MEMORY_SLOTS(alloc, free_memory, host_fill, host_info_unknown)};
static const tn_copy_interface copy_interface = {.size = UP_TO(tn_copy_interface, device_to_device),
                                                 HOST_COPY_SLOTS};
static const tn_stream_interface stream_interface = {
    .size = UP_TO(tn_stream_interface, synchronize), .create = create, HOST_STREAM_SLOTS};

static const tn_named_interface interfaces[] = {{"tenon.device", &device_interface},
                                                {"tenon.memory", &memory_interface},
                                                {"tenon.copy", &copy_interface},
                                                {"tenon.stream", &stream_interface}};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return tn_interface_find(interfaces, sizeof interfaces / sizeof *interfaces, name, version);
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

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return host_entry(offer, out, init, get_interface);
}

TN_DEFINE_PLUGIN("smallest", "0.1", "Tests", 0, entry);
