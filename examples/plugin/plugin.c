/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device "acme": its memory is the host's and its work is done when a call returns. It has the slots
 * that Tenon requires; the host's defaults serve for all others. Replace these bodies with calls of your
 * driver; kernels.c has the arithmetic. Read it from the bottom: the entry, the tables, then the slots.
 * tenon/plugin.h says what each slot may do, and who calls it.
 */
#include <stdlib.h>
#include <string.h>
#include "plugin.h"

/* The plugin's state in one context. There are no globals: several contexts may live at once. */
typedef struct state {
    const tn_host *host;
} state;

/* ---- Device ------------------------------------------------------------------------------------------- */

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = 1; /* without hardware: 0, and a reason */
    *out_reason = NULL;
    return TN_OK;
}

/* The host may be older or newer than this file: give it as many bytes as it knows, and keep its size. */
static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    tn_device_facts f = {.size = out->size,
                         .device_class = TN_DEVICE_VIRTUAL,
                         .memory_kinds = TN_MEMORY_UNIFIED,
                         .compute_units = 1,
                         .alignment = 64,
                         .dtypes = acme_dtypes,
                         .name = "Acme device",
                         .architecture = "host"};
    memcpy(out, &f, out->size < sizeof(f) ? out->size : sizeof(f));
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    *out_device = self; /* there is one device, and it has no state */
    return TN_OK;
}

static void device_close(void *self, void *device) {}

static int32_t device_synchronize(void *self, void *device)
{
    return TN_OK;
}

/* ---- Memory: the handle of an allocation is its address, and the host may use it ----------------------- */

/* What is not written stays 0. */
static int32_t memory_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    void *memory;
    size_t alignment = request->alignment > 64 ? request->alignment : 64;
    if (request->flags)
        return fail(((state *)self)->host, TN_E_UNKNOWN_FIELD, "acme: unknown flags of memory");
    if (posix_memalign(&memory, alignment, request->bytes))
        return fail(((state *)self)->host, TN_E_OUT_OF_MEMORY, "acme: out of memory");
    out->kind = request->kind;
    out->allocation = out->host = memory;
    out->bytes = request->bytes;
    return TN_OK;
}

static void memory_free(void *self, void *device, const tn_memory *memory)
{
    free(memory->allocation);
}

static int32_t memory_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *stream)
{
    memset((char *)allocation + offset, (int)value, bytes);
    return TN_OK;
}

static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = *out_total = 0; /* unknown */
    return TN_OK;
}

/* ---- Copies -------------------------------------------------------------------------------------------- */

static int32_t host_to_device(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *stream)
{
    memcpy((char *)allocation + offset, host, bytes);
    return TN_OK;
}

static int32_t device_to_host(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *stream)
{
    memcpy(host, (const char *)allocation + offset, bytes);
    return TN_OK;
}

static int32_t device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream)
{
    memcpy((char *)to + to_offset, (const char *)from + from_offset, bytes);
    return TN_OK;
}

/* ---- Streams: there is one, which does everything at once --------------------------------------------- */

static int32_t stream_create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    *out_stream = self;
    return TN_OK;
}

static void stream_destroy(void *self, void *device, void *stream) {}

static int32_t stream_query(void *self, void *device, void *stream, int32_t *out_done)
{
    *out_done = 1;
    return TN_OK;
}

static int32_t stream_synchronize(void *self, void *device, void *stream)
{
    return TN_OK;
}

/* ---- Tables: what the host sees. A slot that is not named is absent, and the host's default serves. ---- */

static const tn_device_interface device_interface =
    TN_INTERFACE(tn_device_interface, .type = "acme", .enumerate = enumerate, .facts = facts,
                 .open = device_open, .close = device_close, .synchronize = device_synchronize);
static const tn_memory_interface memory_interface =
    TN_INTERFACE(tn_memory_interface, .alloc = memory_alloc, .free = memory_free, .fill = memory_fill,
                 .info = memory_info);
static const tn_copy_interface copy_interface =
    TN_INTERFACE(tn_copy_interface, .host_to_device = host_to_device, .device_to_host = device_to_host,
                 .device_to_device = device_to_device);
static const tn_stream_interface stream_interface =
    TN_INTERFACE(tn_stream_interface, .create = stream_create, .destroy = stream_destroy,
                 .query = stream_query, .synchronize = stream_synchronize);

static const tn_named_interface interfaces[] = {{"tenon.device", &device_interface},
                                                {"tenon.memory", &memory_interface},
                                                {"tenon.copy", &copy_interface},
                                                {"tenon.stream", &stream_interface},
                                                {"tenon.kernels", &acme_kernels}};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return tn_interface_find(interfaces, sizeof(interfaces) / sizeof(*interfaces), name, version);
}

static int32_t init(const tn_host *host, void **out_self)
{
    state *s = host->alloc(host->context, sizeof(*s));
    if (!s) return fail(host, TN_E_OUT_OF_MEMORY, "acme: out of memory");
    *s = (state){.host = host};
    *out_self = s;
    return TN_OK;
}

static void shutdown(void *self)
{
    const tn_host *host = ((state *)self)->host;
    host->free(host->context, self, sizeof(state));
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const tn_plugin_table slots = {.init = init, .get_interface = get_interface, .shutdown = shutdown};
    return tn_negotiate_slots(offer, out, &slots);
}

TN_DEFINE_PLUGIN("acme", "0.1", "Acme Inc.", 0, entry);
