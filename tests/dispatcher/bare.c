/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device plugin "bare": two devices that have memory and copies, but no kernel. Its memory is known by handles
 * alone, its work is done when a slot returns. It has classes of mixed precision. A slot fails if the environment
 * variable TENON_TEST_BARE names it.
 */
#include <stdlib.h>
#include "../plugins/host_slots.h"

static int32_t fails(const char *slot)
{
    const char *wish = getenv("TENON_TEST_BARE");
    return wish && !strcmp(wish, slot) ? TN_E_DEVICE : TN_OK;
}

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    (void)self, (void)out_reason;
    *out_count = 2;
    return TN_OK;
}

static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, 0};
    const tn_device_facts f = {HOST_FACTS(out, TN_MEMORY_DEVICE, dtypes, "bare"), .compute_units = 1,
                               .peers = 3};
    (void)self, (void)index;
    return host_facts(&f, out);
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out)
{
    (void)options;
    *out = (char *)self + index;
    return TN_OK;
}

static int32_t take(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    (void)self, (void)device;
    out->allocation = malloc(request->bytes);
    out->kind = TN_MEMORY_DEVICE;
    out->bytes = request->bytes;
    return out->allocation ? TN_OK : TN_E_OUT_OF_MEMORY;
}

static void give_back(void *self, void *device, const tn_memory *memory)
{
    (void)self, (void)device;
    free(memory->allocation);
}

static int32_t fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                    uint32_t value, void *stream)
{
    host_fill(self, device, allocation, offset, bytes, value, stream);
    return fails("fill");
}

static int32_t upload(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                      const tn_memory *pinned, uint64_t bytes, void *stream)
{
    host_to_device(self, device, allocation, offset, host, pinned, bytes, stream);
    return fails("upload");
}

static int32_t download(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                        uint64_t offset, uint64_t bytes, void *stream)
{
    host_from_device(self, device, host, pinned, allocation, offset, bytes, stream);
    return fails("download");
}

static int32_t copy_peer(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device,
                         void *from, uint64_t from_offset, uint64_t bytes, void *stream)
{
    (void)from_device;
    host_within_device(self, to_device, to, to_offset, from, from_offset, bytes, stream);
    return fails("peer");
}

static int32_t create_stream(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    static int streams[64], count;
    (void)self, (void)device, (void)options;
    *out_stream = &streams[count++ % 64];
    return TN_OK;
}

static const tn_device_interface device_interface = {
    .size = sizeof(tn_device_interface),
    HOST_DEVICE_SLOTS("bare", enumerate, facts, open_device, host_device_done)};
static const tn_memory_interface memory_interface = {
    .size = sizeof(tn_memory_interface), HOST_MEMORY_SLOTS(take, give_back, fill, host_info_unknown)};
static const tn_copy_interface copy_interface = {.size = sizeof(tn_copy_interface),
                                                 .host_to_device = upload,
                                                 .device_to_host = download,
                                                 .device_to_device = host_within_device,
                                                 .peer = copy_peer};
static const tn_stream_interface stream_interface = {
    .size = sizeof(tn_stream_interface), .create = create_stream, HOST_STREAM_SLOTS};

static int32_t class_of(void *self, const char *op)
{
    (void)self;
    if (!strcmp(op, "aten::relu")) return TN_AUTOCAST_LOW;
    if (!strcmp(op, "aten::exp")) return TN_AUTOCAST_WIDEST;
    return strcmp(op, "aten::neg") ? -1 : 77; /* which is not a class: the host's is used */
}

static const tn_autocast_interface autocast_interface = {
    .size = sizeof(tn_autocast_interface), .low_dtype = TN_FLOAT16, .classify = class_of};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    (void)self;
    if (version != 1) return NULL;
    if (!strcmp(name, "tenon.device")) return &device_interface;
    if (!strcmp(name, "tenon.memory")) return &memory_interface;
    if (!strcmp(name, "tenon.copy")) return &copy_interface;
    if (!strcmp(name, "tenon.autocast")) return &autocast_interface;
    return strcmp(name, "tenon.stream") ? NULL : &stream_interface;
}

static int32_t init(const tn_host *host, void **out_self)
{
    static char state[2];
    (void)host;
    *out_self = state;
    return TN_OK;
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return host_entry(offer, out, init, get_interface);
}

TN_DEFINE_PLUGIN("bare", "1", "Tests", 0, entry);
