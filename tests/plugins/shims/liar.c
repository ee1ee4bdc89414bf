/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that breaks the contract in the way that TENON_LIAR names. Its device is synchronous, in host
 * memory; its only kernel is aten::add.Tensor.
 */
#include "../host_slots.h"
#include "../slots.h"

#include <pthread.h>
#include <stdlib.h>

static const tn_host *host;
static char streams[8];
static int n_streams;
static void *last_allocation;

static int lies(const char *how)
{
    const char *lie = getenv("TENON_LIAR");
    return lie && strcmp(lie, how) == 0;
}

/* ---- Device and memory ------------------------------------------------------------------------------- */

static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, 0};
    uint32_t size = out->size;
    *out = (tn_device_facts){HOST_FACTS(out, TN_MEMORY_UNIFIED, dtypes, "Liar")};
    if (lies("facts-past-size")) memset((char *)out + size, 7, 4);
    if (lies("size-changed")) out->size = size + 8;
    return TN_OK;
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    static char device;
    *out_device = lies("null-device") ? NULL : &device;
    return TN_OK;
}

static int32_t synchronize(void *self, void *device)
{
    return lies("no-status") ? 4711 : TN_OK;
}

static int32_t memory_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    static int calls;
    void *memory = aligned_alloc(64, (request->bytes + 63) / 64 * 64);
    if (lies("written-on-failure") && calls++ == 0) {
        free(memory);
        out->allocation = &calls;
        return host->error(host->context, TN_E_OUT_OF_MEMORY, "liar: out of memory");
    }
    if (lies("duplicate-handle") && last_allocation) {
        free(memory);
        memory = last_allocation;
    }
    last_allocation = memory;
    out->allocation = memory;
    out->host = memory;
    return TN_OK;
}

static void memory_free(void *self, void *device, const tn_memory *given)
{
    if (!lies("duplicate-handle")) free(given->allocation);
}

static int32_t info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = 0;
    if (!lies("output-not-written")) *out_total = 0;
    return TN_OK;
}

/* ---- Streams ----------------------------------------------------------------------------------------- */

static int32_t stream_create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    *out_stream = &streams[n_streams++ % 8];
    return TN_OK;
}

static int32_t host_callback(void *self, void *device, void *stream, void (*callback)(void *user), void *user)
{
    callback(user);
    return TN_OK;
}

/* Events, which are offered with TENON_LIAR=events only. Handles are static, so that their use after
 * destroy, which a test of the host makes, is harmless. */
static int32_t event_create(void *self, void *device, uint32_t flags, void **out_event)
{
    static char event;
    *out_event = &event;
    return TN_OK;
}

/* ---- The kernel -------------------------------------------------------------------------------------- */

static void *ask_elsewhere(void *call)
{
    void *allocation = NULL;
    slot_workspace(call, host, 64, &allocation);
    return NULL;
}

static void release(void *pointer)
{
    host->free(host->context, host->alloc(host->context, 16), 16);
}

static float *first(const tn_tensor_desc *d)
{
    return (float *)(void *)((char *)d->allocation + d->byte_offset);
}

static int32_t add(void *self, const tn_call *call)
{
    const tn_tensor_desc *a = tn_desc(call->args[0].as.tensor), *b = tn_desc(call->args[1].as.tensor);
    const tn_tensor_desc *to = tn_desc(call->outs[0].as.tensor);
    int64_t n = tn_tensor_numel(call->outs[0].as.tensor);
    pthread_t thread;
    if (lies("refused-after-yes")) return TN_E_UNSUPPORTED;
    if (lies("no-status-kernel")) return -3;
    if (lies("error-then-ok")) host->error(host->context, TN_E_INTERNAL, "liar: something went wrong");
    if (lies("not-in-kernel")) host->intern(host->context, "liar");
    if (lies("reentry")) host->keep_alive(call, &n_streams, release);
    if (lies("call-outside") && pthread_create(&thread, NULL, ask_elsewhere, (void *)(uintptr_t)call) == 0)
        pthread_join(thread, NULL);
    for (int64_t i = 0; i < n; i++) first(to)[i] = first(a)[i] + first(b)[i];
    return TN_OK;
}

#define ADD "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
static tn_kernel_row rows[] = {{.size = sizeof(tn_kernel_row), .schema = ADD, .run = add}};

/* ---- Tables ------------------------------------------------------------------------------------------ */

static const tn_device_interface device_table = {
    .size = sizeof(device_table),
    HOST_DEVICE_SLOTS("liar", host_enumerate_one, facts, open_device, synchronize)};
static const tn_memory_interface memory_table = {
    .size = sizeof(memory_table), HOST_MEMORY_SLOTS(memory_alloc, memory_free, host_fill, info)};
static const tn_copy_interface copy_table = {.size = sizeof(copy_table), HOST_COPY_SLOTS};
static const tn_stream_interface stream_table = {
    .size = sizeof(stream_table), .create = stream_create, HOST_STREAM_SLOTS, .host_callback = host_callback};
static const tn_event_interface event_table = {
    .size = sizeof(event_table), .create = event_create, HOST_EVENT_SLOTS};
static const tn_kernels_interface kernels_table = {
    .size = sizeof(kernels_table), .count = 1, .row_bytes = sizeof(tn_kernel_row), .rows = rows};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return strcmp(name, "tenon.device") == 0                    ? (const void *)&device_table
           : strcmp(name, "tenon.memory") == 0                  ? (const void *)&memory_table
           : strcmp(name, "tenon.copy") == 0                    ? (const void *)&copy_table
           : strcmp(name, "tenon.stream") == 0                  ? (const void *)&stream_table
           : strcmp(name, "tenon.kernels") == 0                 ? (const void *)&kernels_table
           : strcmp(name, "tenon.event") == 0 && lies("events") ? (const void *)&event_table
                                                                : NULL;
}

static int32_t init(const tn_host *given, void **out_self)
{
    host = given;
    rows[0].schema =
        lies("unknown-operator") ? "aten::addd.Tensor(Tensor self, Tensor other) -> Tensor" : ADD;
    rows[0].flags = lies("unknown-flags") ? 1u << 20 : 0;
    rows[0].size = lies("no-size") ? 0 : (uint32_t)sizeof(tn_kernel_row);
    *out_self = rows;
    return TN_OK;
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return host_entry(offer, out, init, get_interface);
}

TN_DEFINE_PLUGIN("liar", "1.0", "Tests", 0, entry);
