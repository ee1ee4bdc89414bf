/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin to copy: nearly every slot of every interface, and no arithmetic. It has no device, and says why; with
 * TENON_NULL_DEVICES=1 (to 8) in the environment there are devices whose memory is the host's, and on which
 * every operator falls back to the CPU.
 *
 * Optional slots have the plainest body that is right; a comment at each says what the host does without it,
 * so that a vendor can take it out. Graphs are in graph.c, collectives in collectives.c, settings and
 * what other libraries use in interop.c. The plugin sees
 * abi/include and nothing else of Tenon.
 */
#include "null.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ALIGNMENT 64u

static const tn_dtype no_dtypes[] = {0};

/* ---- tenon.device: required ---------------------------------------------------------------------------- */

static int32_t device_enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    const null_plugin *p = self;
    *out_count = p->n_devices;
    *out_reason =
        p->n_devices ? NULL : "no hardware: this plugin is a pattern (TENON_NULL_DEVICES=1 shows a device)";
    return TN_OK;
}

static int32_t device_facts(void *self, uint32_t index, tn_device_facts *out)
{
    tn_device_facts facts = {.size = out->size,
                             .device_class = TN_DEVICE_VIRTUAL,
                             .memory_kinds = TN_MEMORY_UNIFIED,
                             .alignment = ALIGNMENT,
                             .dtypes = no_dtypes,
                             .name = "Null device",
                             .architecture = "none"};
    memcpy(out, &facts, out->size < sizeof(facts) ? out->size : sizeof(facts));
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    null_plugin *p = self;
    if (index >= p->n_devices) return fail(self, TN_E_DEVICE, "null: no device has this index");
    *out_device = &p->devices[index];
    return TN_OK;
}

static void device_close(void *self, void *device) {}

/* Without it: the device is always well. */
static int32_t device_status(void *self, void *device)
{
    return TN_OK;
}

static int32_t device_synchronize(void *self, void *device)
{
    return TN_OK;
}

/* Without it: there are no handles of the vendor's own. A device here is its number, an allocation its address. */
static int32_t device_native(void *self, void *device, uint32_t kind, void *handle, uint64_t *out)
{
    const null_plugin *p = self;
    if (kind != TN_NATIVE_DEVICE && kind != TN_NATIVE_ALLOCATION) return TN_E_UNSUPPORTED;
    *out =
        kind == TN_NATIVE_DEVICE ? (uint64_t)((uint32_t *)device - p->devices) : (uint64_t)(uintptr_t)handle;
    return TN_OK;
}

/* ---- tenon.memory: required ---------------------------------------------------------------------------- */

/* What is not written stays 0. */
static int32_t memory_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    void *memory = NULL;
    size_t alignment = request->alignment > ALIGNMENT ? request->alignment : ALIGNMENT;
    if (request->flags) return fail(self, TN_E_UNSUPPORTED, "null: unknown flags of memory");
    if (request->bytes > SIZE_MAX || posix_memalign(&memory, alignment, (size_t)request->bytes))
        return fail(self, TN_E_OUT_OF_MEMORY, "null: out of memory");
    memset(memory, atomic_load(&((null_plugin *)self)->fresh), (size_t)request->bytes);
    out->kind = request->kind;
    out->allocation = memory;
    out->host = memory;
    out->address = (uint64_t)(uintptr_t)memory;
    out->bytes = request->bytes;
    return TN_OK;
}

static char of_reserve; /* its address is the state of what memory_reserve gave */

static void memory_free(void *self, void *device, const tn_memory *memory)
{
    if (memory->state == &of_reserve)
        munmap(memory->allocation, memory->bytes);
    else
        free(memory->allocation);
}

static int32_t memory_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *stream)
{
    null_operation fill = {.to = (char *)allocation + offset, .bytes = bytes, .value = value};
    return null_run(self, stream, fill);
}

static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = 0;
    *out_total = 0;
    return TN_OK;
}

/* Without pin and unpin: pages are not pinned. */
static int32_t memory_pin(void *self, void *device, void *host, uint64_t bytes, tn_memory *out)
{
    out->kind = TN_MEMORY_HOST;
    out->host = host;
    out->bytes = bytes;
    return TN_OK;
}

static void memory_unpin(void *self, void *device, const tn_memory *memory) {}

/* Without map and unmap: the host copies. */
static int32_t memory_map(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                          uint32_t flags, void **out_host)
{
    *out_host = (char *)allocation + offset;
    return TN_OK;
}

static int32_t memory_unmap(void *self, void *device, void *allocation, void *host)
{
    return TN_OK;
}

/* Without it: there is nothing to give back. */
static int32_t memory_trim(void *self, void *device)
{
    return TN_OK;
}

/* Without reserve and resize: allocations have one size. The system gives pages when they are touched. */
static int32_t memory_reserve(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    void *range = mmap(NULL, (size_t)request->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return fail(self, TN_E_OUT_OF_MEMORY, "null: out of addresses");
    out->kind = request->kind;
    out->allocation = range;
    out->host = range;
    out->address = (uint64_t)(uintptr_t)range;
    out->bytes = request->bytes;
    out->state = &of_reserve;
    return TN_OK;
}

static int32_t memory_resize(void *self, void *device, void *allocation, uint64_t bytes)
{
    return TN_OK;
}

/* ---- tenon.copy: required ------------------------------------------------------------------------------ */

static int32_t copy_host_to_device(void *self, void *device, void *allocation, uint64_t offset,
                                   const void *host, const tn_memory *pinned, uint64_t bytes, void *stream)
{
    memcpy((char *)allocation + offset, host, (size_t)bytes);
    return TN_OK;
}

static int32_t copy_device_to_host(void *self, void *device, void *host, const tn_memory *pinned,
                                   void *allocation, uint64_t offset, uint64_t bytes, void *stream)
{
    memcpy(host, (const char *)allocation + offset, (size_t)bytes);
    return TN_OK;
}

static int32_t copy_device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                     uint64_t from_offset, uint64_t bytes, void *stream)
{
    null_operation copy = {(char *)to + to_offset, (const char *)from + from_offset, bytes, 0};
    return null_run(self, stream, copy);
}

/* Without it: copies between two devices go through the host. */
static int32_t copy_peer(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device,
                         void *from, uint64_t from_offset, uint64_t bytes, void *stream)
{
    memcpy((char *)to + to_offset, (const char *)from + from_offset, (size_t)bytes);
    return TN_OK;
}

/* ---- tenon.stream: required ---------------------------------------------------------------------------- */

static int32_t stream_create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    *out_stream = calloc(1, sizeof(null_stream));
    return *out_stream ? TN_OK : fail(self, TN_E_OUT_OF_MEMORY, "null: out of memory for a stream");
}

static void stream_destroy(void *self, void *device, void *stream)
{
    null_forget(self, ((null_stream *)stream)->graph);
    free(stream);
}

static int32_t stream_query(void *self, void *device, void *stream, int32_t *out_done)
{
    *out_done = 1;
    return TN_OK;
}

static int32_t stream_synchronize(void *self, void *device, void *stream)
{
    return TN_OK;
}

/* Without it: the host waits for the event. */
static int32_t stream_wait_event(void *self, void *device, void *stream, void *event)
{
    return null_wait(self, stream, event);
}

/* Without it: the host waits for the stream and calls. */
static int32_t stream_host_callback(void *self, void *device, void *stream, void (*callback)(void *user),
                                    void *user)
{
    callback(user);
    return TN_OK;
}

/* Without it: the host refuses queues that the program has. */
static int32_t stream_wrap(void *self, void *device, uint64_t native, void **out_stream)
{
    return stream_create(self, device, NULL, out_stream);
}

/* ---- tenon.event: without it an event is a stream that the host waits for ------------------------------ */

static int32_t event_create(void *self, void *device, uint32_t flags, void **out_event)
{
    *out_event = calloc(1, sizeof(null_event));
    return *out_event ? TN_OK : fail(self, TN_E_OUT_OF_MEMORY, "null: out of memory for an event");
}

static void event_destroy(void *self, void *device, void *event)
{
    null_forget(self, ((null_event *)event)->graph);
    free(event);
}

static int32_t event_record(void *self, void *device, void *event, void *stream)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    ((null_event *)event)->ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    null_mark(self, event, stream);
    return TN_OK;
}

static int32_t event_query(void *self, void *device, void *event, int32_t *out_done)
{
    *out_done = 1;
    return TN_OK;
}

static int32_t event_synchronize(void *self, void *device, void *event)
{
    return TN_OK;
}

/* Without it: there is no timing. Work here is done within a call, so the host's clock is right. */
static int32_t event_elapsed(void *self, void *device, void *start, void *end, double *out_ms)
{
    *out_ms = ((null_event *)end)->ms - ((null_event *)start)->ms;
    return TN_OK;
}

/* ---- tenon.autocast, tenon.allocator: without them the host's own serve ------------------------------- */

static int32_t autocast_classify(void *self, const char *op)
{
    return -1;
}

static int32_t allocator_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    return memory_alloc(self, device, request, out);
}

static void allocator_free(void *self, void *device, const tn_memory *memory, void *stream)
{
    memory_free(self, device, memory);
}

/* ---- The tables: what the host sees ------------------------------------------------------------------- */

static const tn_device_interface device_interface =
    TN_INTERFACE(tn_device_interface, .type = "null", .enumerate = device_enumerate, .facts = device_facts,
                 .open = device_open, .close = device_close, .status = device_status,
                 .synchronize = device_synchronize, .native = device_native);
static const tn_memory_interface memory_interface = TN_INTERFACE(
    tn_memory_interface, .alloc = memory_alloc, .free = memory_free, .fill = memory_fill, .info = memory_info,
    .pin = memory_pin, .unpin = memory_unpin, .map = memory_map, .unmap = memory_unmap, .trim = memory_trim,
    .reserve = memory_reserve, .resize = memory_resize);
static const tn_copy_interface copy_interface = TN_INTERFACE(
    tn_copy_interface, .host_to_device = copy_host_to_device, .device_to_host = copy_device_to_host,
    .device_to_device = copy_device_to_device, .peer = copy_peer);
static const tn_stream_interface stream_interface =
    TN_INTERFACE(tn_stream_interface, .create = stream_create, .destroy = stream_destroy,
                 .query = stream_query, .synchronize = stream_synchronize, .wait_event = stream_wait_event,
                 .host_callback = stream_host_callback, .wrap = stream_wrap);
static const tn_event_interface event_interface =
    TN_INTERFACE(tn_event_interface, .create = event_create, .destroy = event_destroy, .record = event_record,
                 .query = event_query, .synchronize = event_synchronize, .elapsed = event_elapsed);
/* Zero rows are legal: operators run on the CPU, counted. `tenon doctor --fallbacks` lists them. */
static const tn_kernels_interface kernels_interface =
    TN_INTERFACE(tn_kernels_interface, .count = 0, .row_bytes = sizeof(tn_kernel_row), .rows = NULL);
static const tn_autocast_interface autocast_interface =
    TN_INTERFACE(tn_autocast_interface, .low_dtype = TN_BFLOAT16, .classify = autocast_classify);
static const tn_allocator_interface allocator_interface =
    TN_INTERFACE(tn_allocator_interface, .alloc = allocator_alloc, .free = allocator_free);

/* No experimental interface: the list is empty. */
static const char *const experimental_names[] = {NULL};
static const tn_experimental_interface experimental_interface =
    TN_INTERFACE(tn_experimental_interface, .names = experimental_names);

static const tn_named_interface interfaces[] = {
    {"tenon.device", &device_interface},
    {"tenon.memory", &memory_interface},
    {"tenon.copy", &copy_interface},
    {"tenon.stream", &stream_interface},
    {"tenon.event", &event_interface},
    {"tenon.kernels", &kernels_interface},
    {"tenon.autocast", &autocast_interface},
    {"tenon.allocator", &allocator_interface},
    {"tenon.graph", &null_graph_interface},
    {"tenon.collectives", &null_collectives_interface},
    {"tenon.settings", &null_settings_interface},
    {"tenon.interop", &null_interop_interface},
    {"tenon.experimental", &experimental_interface},
};

static const void *plugin_get_interface(void *self, const char *name, uint32_t version)
{
    return tn_interface_find(interfaces, sizeof(interfaces) / sizeof(interfaces[0]), name, version);
}

static int32_t plugin_init(const tn_host *host, void **out_self)
{
    const char *wish = getenv("TENON_NULL_DEVICES");
    long count = wish ? strtol(wish, NULL, 10) : 0;
    null_plugin *p = host->alloc(host->context, sizeof(*p));
    if (!p) return host->error(host->context, TN_E_OUT_OF_MEMORY, "null: out of memory");
    memset(p, 0, sizeof(*p));
    p->host = host;
    pthread_mutex_init(&p->lock, NULL);
    p->n_devices = count < 0 ? 0 : count > MAX_DEVICES ? MAX_DEVICES : (uint32_t)count;
    *out_self = p;
    return TN_OK;
}

/* Without it: there is nothing to stop. */
static int32_t plugin_quiesce(void *self)
{
    return TN_OK;
}

static void plugin_shutdown(void *self)
{
    null_plugin *p = self;
    pthread_mutex_destroy(&p->lock);
    p->host->free(p->host->context, p, sizeof(*p));
}

/* Without it: there is nothing to check. */
static int32_t plugin_self_test(void *self)
{
    return TN_OK;
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const tn_plugin_table slots = {.init = plugin_init,
                                          .get_interface = plugin_get_interface,
                                          .quiesce = plugin_quiesce,
                                          .shutdown = plugin_shutdown,
                                          .self_test = plugin_self_test};
    return tn_negotiate_slots(offer, out, &slots);
}

TN_DEFINE_PLUGIN("null", "0.1.0", "Tenon", TN_PLUGIN_CAN_UNLOAD, entry);
