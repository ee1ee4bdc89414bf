/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference plugin: its state, its devices and its table of interfaces. TENON_REFERENCE_DEVICES sets the
 * number of devices (1 if unset, at most 8), TENON_REFERENCE_MEMORY the bytes that each has; chaos.c reads
 * the others.
 */
#include "reference.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int32_t reference_error(const reference_state *state, int32_t status, const char *format, ...)
{
    char text[320];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return state->host->error(state->host->context, status, text);
}

/* ---- tenon.device ------------------------------------------------------------------------------------ */

static int32_t device_enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    const reference_state *state = self;
    *out_count = state->n_devices;
    *out_reason = state->n_devices ? NULL : "TENON_REFERENCE_DEVICES is 0";
    return TN_OK;
}

/* TENON_REFERENCE_UUID, 32 hexadecimal digits, is that of device 0; the others follow it. "" without. */
static void read_uuid(uint32_t index, uint8_t uuid[16])
{
    const char *text = getenv("TENON_REFERENCE_UUID");
    unsigned byte;
    if (!text || strlen(text) != 32) return;
    for (int i = 0; i < 16 && sscanf(text + 2 * i, "%2x", &byte) == 1; i++) uuid[i] = (uint8_t)byte;
    uuid[15] = (uint8_t)(uuid[15] + index);
}

static int32_t device_facts(void *self, uint32_t index, tn_device_facts *out)
{
    const reference_state *state = self;
    tn_device_facts facts = {.size = out->size,
                             .device_class = TN_DEVICE_VIRTUAL,
                             .memory_kinds = TN_MEMORY_DEVICE,
                             .compute_units = 1,
                             .total_memory = state->memory_limit,
                             .alignment = 4096,
                             .dtypes = reference_dtypes,
                             .name = "Reference device",
                             .architecture = "plain C",
                             .features = TN_FEATURE_FLOAT16 | TN_FEATURE_BFLOAT16 | TN_FEATURE_FLOAT64 |
                                         TN_FEATURE_INT64 | TN_FEATURE_CONCURRENT,
                             .max_allocation = state->memory_limit,
                             .peers = state->are_peers ? (1ull << state->n_devices) - 1 : 0};
    read_uuid(index, facts.uuid);
    memcpy(out, &facts, out->size < sizeof(facts) ? out->size : sizeof(facts));
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    reference_state *state = self;
    if (index >= state->n_devices)
        return reference_error(state, TN_E_DEVICE, "reference: there is no device %u, only %u", index,
                               state->n_devices);
    *out_device = &state->devices[index];
    return TN_OK;
}

static void device_close(void *self, void *device) {}

static int32_t device_status(void *self, void *device)
{
    return reference_check_lost(device);
}

static int32_t device_synchronize(void *self, void *device)
{
    return reference_streams_synchronize(device);
}

/* What stands for the vendor's own API: work that other libraries put on a stream. */
static int32_t enqueue(void *stream, void (*work)(void *user), void *user)
{
    return reference_stream_interface.host_callback(NULL, NULL, stream, work, user);
}

typedef int32_t enqueue_fn(void *stream, void (*work)(void *user), void *user);
static enqueue_fn *const native_api = enqueue;

static int32_t device_native(void *self, void *device, uint32_t kind, void *handle, uint64_t *out)
{
    const void *native = handle;
    if (kind == TN_NATIVE_DEVICE)
        *out = ((reference_device *)device)->index;
    else if (kind == TN_NATIVE_ALLOCATION && !(native = reference_resolve(device, handle, 0, 0)))
        return TN_E_CONTRACT;
    else if (kind == TN_NATIVE_CONTEXT)
        native = &native_api;
    if (kind != TN_NATIVE_DEVICE) *out = (uint64_t)(uintptr_t)native;
    return TN_OK;
}

static const tn_device_interface device_interface =
    TN_INTERFACE(tn_device_interface, .type = REFERENCE_NAME, .enumerate = device_enumerate,
                 .facts = device_facts, .open = device_open, .close = device_close, .status = device_status,
                 .synchronize = device_synchronize, .native = device_native);

/* ---- Autocast ----------------------------------------------------------------------------------------- */

/* The host's classes serve. */
static int32_t classify(void *self, const char *op)
{
    (void)self, (void)op;
    return -1;
}

static const tn_autocast_interface autocast_interface =
    TN_INTERFACE(tn_autocast_interface, .low_dtype = TN_BFLOAT16, .classify = classify);

/* ---- The plugin -------------------------------------------------------------------------------------- */

static int32_t plugin_init(const tn_host *host, void **out_self)
{
    reference_state *state = host->alloc(host->context, sizeof(*state));
    if (!state) return host->error(host->context, TN_E_OUT_OF_MEMORY, "reference: no host memory");
    memset(state, 0, sizeof(*state));
    state->host = host;
    state->process = getpid();
    uint64_t wish = reference_setting("TENON_REFERENCE_DEVICES", 1);
    state->n_devices = wish > REFERENCE_MAX_DEVICES ? REFERENCE_MAX_DEVICES : (uint32_t)wish;
    atomic_init(&state->memory_limit, reference_setting("TENON_REFERENCE_MEMORY", REFERENCE_MEMORY));
    atomic_init(&state->timeout_milliseconds, REFERENCE_TIMEOUT);
    state->are_peers = reference_setting("TENON_REFERENCE_PEERS", 1) != 0;
    for (uint32_t i = 0; i < state->n_devices; i++) {
        state->devices[i].state = state;
        state->devices[i].index = i;
        pthread_rwlock_init(&state->devices[i].transfers, NULL);
    }
    reference_chaos_init(&state->chaos);
    pthread_mutex_init(&state->memory_lock, NULL);
    pthread_mutex_init(&state->streams_lock, NULL);
    pthread_mutex_init(&state->collectives_lock, NULL);
    reference_memory_init(state);
    *out_self = state;
    return TN_OK;
}

static int32_t plugin_quiesce(void *self)
{
    reference_streams_stop(self);
    return TN_OK;
}

static void plugin_shutdown(void *self)
{
    reference_state *state = self;
    reference_streams_stop(state);
    reference_memory_finish(state);
    for (uint32_t i = 0; i < state->n_devices; i++) pthread_rwlock_destroy(&state->devices[i].transfers);
    pthread_mutex_destroy(&state->memory_lock);
    pthread_mutex_destroy(&state->streams_lock);
    pthread_mutex_destroy(&state->collectives_lock);
    state->host->free(state->host->context, state, sizeof(*state));
}

static const tn_named_interface interfaces[] = {
    {"tenon.device", &device_interface},
    {"tenon.memory", &reference_memory_interface},
    {"tenon.copy", &reference_copy_interface},
    {"tenon.stream", &reference_stream_interface},
    {"tenon.event", &reference_event_interface},
    {"tenon.kernels", &reference_kernels_interface},
    {"tenon.autocast", &autocast_interface},
    {"tenon.graph", &reference_graph_interface},
    {"tenon.collectives", &reference_collectives_interface},
    {"tenon.settings", &reference_settings_interface},
    {"tenon.interop", &reference_interop_interface},
};

static const void *plugin_get_interface(void *self, const char *name, uint32_t version)
{
    return tn_interface_find(interfaces, sizeof(interfaces) / sizeof(interfaces[0]), name, version);
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const tn_plugin_table slots = {.init = plugin_init,
                                          .get_interface = plugin_get_interface,
                                          .quiesce = plugin_quiesce,
                                          .shutdown = plugin_shutdown};
    return tn_negotiate_slots(offer, out, &slots);
}

TN_DEFINE_PLUGIN(REFERENCE_NAME, "0.1.0", "Tenon", TN_PLUGIN_CAN_UNLOAD, entry);
