/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device "acme": its memory is a handle and an offset that the host cannot read; its streams work later,
 * on threads (queue.c). Put in your driver. Read it from the bottom; tenon/plugin.h is the contract.
 */
#include "plugin.h"

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
                         .memory_kinds = TN_MEMORY_DEVICE,
                         .alignment = 64,
                         .dtypes = acme_dtypes,
                         .name = "Acme device"};
    memcpy(out, &f, out->size < sizeof(f) ? out->size : sizeof(f));
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    *out_device = self; /* there is one device, and its state is the plugin's */
    return TN_OK;
}

static void device_close(void *self, void *device) {}

/* Of a lost device each slot says so at once: those with a stream by their worker, others begin with this. */
static int32_t device_status(void *self, void *device)
{
    return tn_worker_team_check(&((state *)self)->team);
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

/* The handle of an allocation points to its address. Only the device follows it. */
void *acme_address(void *handle, uint64_t offset)
{
    return *(char **)handle + offset;
}

/* What is not written stays 0: the host has no address for this memory. */
static int32_t memory_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    const tn_host *host = ((state *)self)->host;
    int32_t status = device_status(self, device);
    if (status) return status;
    if (request->flags)
        return host->error(host->context, TN_E_UNKNOWN_FIELD, "acme: unknown flags of memory");
    void **handle = malloc(sizeof(*handle));
    if (!handle ||
        posix_memalign(handle, request->alignment > 64 ? request->alignment : 64, request->bytes)) {
        free(handle);
        return host->error(host->context, TN_E_OUT_OF_MEMORY, "acme: out of memory");
    }
    out->kind = request->kind;
    out->allocation = handle;
    out->bytes = request->bytes;
    return TN_OK;
}

static void memory_free(void *self, void *device, const tn_memory *memory)
{
    free(*(void **)memory->allocation);
    free(memory->allocation);
}

static int32_t memory_fill(void *self, void *device, void *handle, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *stream)
{
    return tn_worker_move(stream, acme_address(handle, offset), NULL, bytes, value);
}

static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = *out_total = 0; /* unknown */
    return device_status(self, device);
}

/* ---- Copies: the host keeps its memory as it is until the stream has passed --------------------------- */

static int32_t host_to_device(void *self, void *device, void *handle, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *stream)
{
    return tn_worker_move(stream, acme_address(handle, offset), host, bytes, 0);
}

static int32_t device_to_host(void *self, void *device, void *host, const tn_memory *pinned, void *handle,
                              uint64_t offset, uint64_t bytes, void *stream)
{
    return tn_worker_move(stream, host, acme_address(handle, offset), bytes, 0);
}

static int32_t device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream)
{
    return tn_worker_move(stream, acme_address(to, to_offset), acme_address(from, from_offset), bytes, 0);
}

/* ---- Settings: with `lose` the suite can lose the device, as a fault of its hardware would ------------ */

static int32_t describe(void *self, void *device, uint32_t i, tn_setting *out)
{
    if (i) return TN_E_INDEX;
    out->name = "lose";
    out->meaning = "the device is lost for good";
    out->default_value = tn_value_bool(0);
    return TN_OK;
}

static int32_t get(void *self, void *device, uint32_t i, tn_value *out)
{
    *out = tn_value_bool(tn_worker_team_is_lost(&((state *)self)->team));
    return TN_OK;
}

static int32_t set(void *self, void *device, uint32_t i, const tn_value *value)
{
    if (value->as.i) tn_worker_team_lose(&((state *)self)->team);
    return TN_OK;
}

/* ---- Tables: what the host sees. A slot that is not named is absent, and the host's default serves. ---- */

static const tn_device_interface device_interface = TN_INTERFACE(
    tn_device_interface, .type = "acme", .enumerate = enumerate, .facts = facts, .open = device_open,
    .close = device_close, .status = device_status, .synchronize = acme_synchronize);
static const tn_memory_interface memory_interface =
    TN_INTERFACE(tn_memory_interface, .alloc = memory_alloc, .free = memory_free, .fill = memory_fill,
                 .info = memory_info);
static const tn_copy_interface copy_interface =
    TN_INTERFACE(tn_copy_interface, .host_to_device = host_to_device, .device_to_host = device_to_host,
                 .device_to_device = device_to_device);
static const tn_settings_interface settings_interface =
    TN_INTERFACE(tn_settings_interface, .describe = describe, .get = get, .set = set);

static const tn_named_interface interfaces[] = {
    {"tenon.device", &device_interface},    {"tenon.memory", &memory_interface},
    {"tenon.copy", &copy_interface},        {"tenon.stream", &acme_streams},
    {"tenon.event", &acme_events},          {"tenon.kernels", &acme_kernels},
    {"tenon.settings", &settings_interface}};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return tn_interface_find(interfaces, sizeof(interfaces) / sizeof(*interfaces), name, version);
}

static int32_t init(const tn_host *host, void **out_self)
{
    state *s = host->alloc(host->context, sizeof(*s));
    if (!s) return host->error(host->context, TN_E_OUT_OF_MEMORY, "acme: out of memory");
    *s = (state){.host = host, .lock = PTHREAD_MUTEX_INITIALIZER};
    tn_worker_team_init(&s->team, host);
    *out_self = s;
    return TN_OK;
}

static int32_t quiesce(void *self)
{
    tn_worker_team_stop(&((state *)self)->team);
    return TN_OK;
}

static void shutdown(void *self)
{
    state *s = self;
    tn_worker_team_finish(&s->team);
    s->host->free(s->host->context, s, sizeof(*s));
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const tn_plugin_table slots = {
        .init = init, .get_interface = get_interface, .quiesce = quiesce, .shutdown = shutdown};
    return tn_negotiate_slots(offer, out, &slots);
}

TN_DEFINE_PLUGIN("acme", "0.1", "Acme Inc.", 0, entry);
