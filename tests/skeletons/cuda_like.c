/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin for an API like CUDA's: addresses, a context that is current per thread, a NULL stream that is legal,
 * faults that stay with the context, callbacks that may not call the API, graphs by stream capture. It shows that
 * the contract can be kept; the API's functions are declared here, and nothing links against them.
 */
#define TN_PLUGIN
#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>

/* ---- The vendor's API ------------------------------------------------------------------------------------ */

typedef int vendor_status;
typedef struct vendor_context *vendor_context;
typedef struct vendor_stream *vendor_stream;
typedef struct vendor_event *vendor_event;
typedef struct vendor_graph *vendor_graph;
typedef struct vendor_executable *vendor_executable;
#define VENDOR_NO_MEMORY 2
#define VENDOR_NOT_READY 600
#define VENDOR_FAULT     700 /* and above: the context is gone */
vendor_status vendor_init(void);
vendor_status vendor_device_count(int *count);
vendor_status vendor_device_facts(int device, char *name, int bytes, uint64_t *memory, uint8_t uuid[16],
                                  char pci[16]);
vendor_status vendor_context_create(int device, vendor_context *out);
vendor_status vendor_context_destroy(vendor_context context);
vendor_status vendor_context_make_current(vendor_context context);
vendor_status vendor_synchronize(void);
vendor_status vendor_alloc(uint64_t bytes, uint64_t *address);
vendor_status vendor_free(uint64_t address);
vendor_status vendor_alloc_host(uint64_t bytes, void **address);
vendor_status vendor_free_host(void *address);
vendor_status vendor_register_host(void *address, uint64_t bytes);
vendor_status vendor_unregister_host(void *address);
vendor_status vendor_memory_info(uint64_t *free_bytes, uint64_t *total);
vendor_status vendor_fill(uint64_t to, uint32_t value, uint64_t bytes, vendor_stream stream);
vendor_status vendor_copy(uint64_t to, uint64_t from, uint64_t bytes, vendor_stream stream);
vendor_status vendor_copy_peer(uint64_t to, vendor_context to_context, uint64_t from,
                               vendor_context from_context, uint64_t bytes, vendor_stream stream);
vendor_status vendor_stream_create(int priority, vendor_stream *out);
vendor_status vendor_stream_destroy(vendor_stream stream);
vendor_status vendor_stream_query(vendor_stream stream);
vendor_status vendor_stream_synchronize(vendor_stream stream);
vendor_status vendor_stream_wait(vendor_stream stream, vendor_event event);
vendor_status vendor_stream_call(vendor_stream stream, void (*function)(void *user), void *user);
vendor_status vendor_event_create(int timing, vendor_event *out);
vendor_status vendor_event_destroy(vendor_event event);
vendor_status vendor_event_record(vendor_event event, vendor_stream stream);
vendor_status vendor_event_query(vendor_event event);
vendor_status vendor_event_synchronize(vendor_event event);
vendor_status vendor_event_elapsed(float *ms, vendor_event start, vendor_event end);
vendor_status vendor_capture_begin(vendor_stream stream);
vendor_status vendor_capture_end(vendor_stream stream, vendor_graph *out);
vendor_status vendor_graph_destroy(vendor_graph graph);
vendor_status vendor_graph_instantiate(vendor_graph graph, vendor_executable *out);
vendor_status vendor_graph_launch(vendor_executable executable, vendor_stream stream);
vendor_status vendor_executable_destroy(vendor_executable executable);
vendor_status vendor_launch(const char *kernel, uint32_t groups, vendor_stream stream, void **arguments);
const char *vendor_text(vendor_status status);

/* ---- State ------------------------------------------------------------------------------------------------ */

#define MOST_DEVICES 16

typedef struct device {
    const tn_host *host;
    vendor_context context;
    uint32_t index;
    vendor_status fault; /* the first one that stays with the context; 0: none */
} device;

/* A stream of the vendor may be NULL, ours may not. */
typedef struct stream {
    vendor_stream handle;
} stream;

typedef struct plugin {
    const tn_host *host;
    int is_initialised;
    device devices[MOST_DEVICES];
} plugin;

static int32_t report(const tn_host *host, int32_t code, const char *what, vendor_status status)
{
    return host->error_native(host->context, code, what, status, vendor_text(status));
}

/* TN_OK, or the error. A fault that stays is kept, and every later call answers it without calling the vendor. */
static int32_t check(device *d, vendor_status status, const char *what)
{
    if (!status) return TN_OK;
    if (status == VENDOR_NO_MEMORY) return report(d->host, TN_E_OUT_OF_MEMORY, what, status);
    if (status < VENDOR_FAULT) return report(d->host, TN_E_INTERNAL, what, status);
    if (!d->fault) d->fault = status;
    return report(d->host, TN_E_DEVICE_LOST, what, status);
}

/* Makes the context current on this thread. Called first by every slot that calls the vendor. */
static int32_t enter(device *d)
{
    if (d->fault) return report(d->host, TN_E_DEVICE_LOST, "the context has a fault", d->fault);
    return check(d, vendor_context_make_current(d->context), "making a context current");
}

/* ---- tenon.device ------------------------------------------------------------------------------------------ */

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16, TN_FLOAT64,
                                  TN_INT64,   TN_INT32,   TN_BOOL,     0};

/* The driver starts here, not in init: a program that stays on the CPU does not pay for it. */
static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    plugin *p = self;
    int count = 0;
    if (!p->is_initialised && vendor_init()) {
        *out_count = 0;
        *out_reason = "the driver does not start";
        return TN_OK;
    }
    p->is_initialised = 1;
    if (vendor_device_count(&count)) count = 0;
    *out_count = (uint32_t)(count < MOST_DEVICES ? count : MOST_DEVICES);
    *out_reason = count ? NULL : "there is no device";
    return TN_OK;
}

static int32_t device_facts(void *self, uint32_t index, tn_device_facts *out)
{
    plugin *p = self;
    tn_device_facts f = {.size = out->size,
                         .device_class = TN_DEVICE_DISCRETE,
                         .memory_kinds = TN_MEMORY_DEVICE | TN_MEMORY_HOST,
                         .alignment = 256,
                         .priority_high = -5,
                         .dtypes = dtypes,
                         .architecture = "sm_80",
                         .features = TN_FEATURE_FLOAT16 | TN_FEATURE_BFLOAT16 | TN_FEATURE_FLOAT64 |
                                     TN_FEATURE_INT64 | TN_FEATURE_MATRIX | TN_FEATURE_ADDRESSES |
                                     TN_FEATURE_CONCURRENT,
                         .peers = ~(uint64_t)0};
    vendor_status status =
        vendor_device_facts((int)index, f.name, sizeof f.name, &f.total_memory, f.uuid, f.pci_address);
    if (status) return report(p->host, TN_E_DEVICE, "facts of a device", status);
    memcpy(out, &f, out->size < sizeof f ? out->size : sizeof f);
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    plugin *p = self;
    if (options->flags || index >= MOST_DEVICES) return TN_E_UNKNOWN_FIELD;
    device *d = &p->devices[index];
    *d = (device){.host = p->host, .index = index};
    int32_t status = check(d, vendor_context_create((int)index, &d->context), "making a context");
    if (!status) *out_device = d;
    return status;
}

/* Also after a fault: destroying the context is what makes the device usable again. */
static void device_close(void *self, void *handle)
{
    device *d = handle;
    vendor_context_destroy(d->context);
    d->context = NULL;
    d->fault = 0;
}

static int32_t device_status(void *self, void *handle)
{
    device *d = handle;
    return d->fault ? report(d->host, TN_E_DEVICE_LOST, "the context has a fault", d->fault) : TN_OK;
}

static int32_t device_synchronize(void *self, void *handle)
{
    int32_t status = enter(handle);
    return status ? status : check(handle, vendor_synchronize(), "waiting for a device");
}

static int32_t device_native(void *self, void *handle, uint32_t kind, void *of, uint64_t *out)
{
    device *d = handle;
    switch (kind) {
    case TN_NATIVE_DEVICE:
        *out = d->index;
        return TN_OK;
    case TN_NATIVE_CONTEXT:
        *out = (uint64_t)(uintptr_t)d->context;
        return TN_OK;
    case TN_NATIVE_STREAM: /* NULL is the vendor's default stream */
        *out = (uint64_t)(uintptr_t)((stream *)of)->handle;
        return TN_OK;
    default: /* an allocation is its address */
        *out = (uint64_t)(uintptr_t)of;
        return TN_OK;
    }
}

/* ---- tenon.memory ------------------------------------------------------------------------------------------ */

static uint64_t address(const void *allocation, uint64_t offset)
{
    return (uint64_t)(uintptr_t)allocation + offset;
}

static int32_t memory_alloc(void *self, void *handle, const tn_memory_request *request, tn_memory *out)
{
    device *d = handle;
    int32_t status = enter(d);
    if (status) return status;
    if (request->flags || request->alignment > 256) return TN_E_UNKNOWN_FIELD;
    out->kind = request->kind;
    out->bytes = request->bytes;
    if (request->kind == TN_MEMORY_HOST) {
        status = check(d, vendor_alloc_host(request->bytes, &out->host), "allocation of pinned memory");
        out->allocation = out->host;
    } else {
        status = check(d, vendor_alloc(request->bytes, &out->address), "allocation of device memory");
        out->allocation = (void *)(uintptr_t)out->address;
    }
    return status;
}

/* After a fault the vendor frees nothing: the memory goes with the context. */
static void memory_free(void *self, void *handle, const tn_memory *memory)
{
    if (enter(handle)) return;
    if (memory->kind == TN_MEMORY_HOST)
        (void)check(handle, vendor_free_host(memory->host), "freeing pinned memory");
    else
        (void)check(handle, vendor_free(memory->address), "freeing device memory");
}

static int32_t memory_fill(void *self, void *handle, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *queue)
{
    int32_t status = enter(handle);
    if (status) return status;
    return check(handle, vendor_fill(address(allocation, offset), value, bytes, ((stream *)queue)->handle),
                 "fill");
}

static int32_t memory_info(void *self, void *handle, uint64_t *out_free, uint64_t *out_total)
{
    int32_t status = enter(handle);
    return status ? status : check(handle, vendor_memory_info(out_free, out_total), "memory information");
}

static int32_t memory_pin(void *self, void *handle, void *host, uint64_t bytes, tn_memory *out)
{
    int32_t status = enter(handle);
    if (!status) status = check(handle, vendor_register_host(host, bytes), "pinning memory");
    if (status) return status;
    out->kind = TN_MEMORY_HOST;
    out->host = host;
    out->bytes = bytes;
    return TN_OK;
}

static void memory_unpin(void *self, void *handle, const tn_memory *memory)
{
    if (!enter(handle)) (void)check(handle, vendor_unregister_host(memory->host), "unpinning memory");
}

/* ---- tenon.copy: the driver knows itself which host memory is pinned -------------------------------------- */

static int32_t copy(void *handle, uint64_t to, uint64_t from, uint64_t bytes, void *queue)
{
    int32_t status = enter(handle);
    return status ? status : check(handle, vendor_copy(to, from, bytes, ((stream *)queue)->handle), "copy");
}

static int32_t host_to_device(void *self, void *handle, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *queue)
{
    return copy(handle, address(allocation, offset), (uint64_t)(uintptr_t)host, bytes, queue);
}

static int32_t device_to_host(void *self, void *handle, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *queue)
{
    return copy(handle, (uint64_t)(uintptr_t)host, address(allocation, offset), bytes, queue);
}

static int32_t device_to_device(void *self, void *handle, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *queue)
{
    return copy(handle, address(to, to_offset), address(from, from_offset), bytes, queue);
}

static int32_t peer(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device, void *from,
                    uint64_t from_offset, uint64_t bytes, void *queue)
{
    const device *source = from_device;
    device *d = to_device;
    int32_t status = enter(d);
    if (status) return status;
    return check(d,
                 vendor_copy_peer(address(to, to_offset), d->context, address(from, from_offset),
                                  source->context, bytes, ((stream *)queue)->handle),
                 "copy between devices");
}

/* ---- tenon.stream, tenon.event ----------------------------------------------------------------------------- */

static int32_t stream_create(void *self, void *handle, const tn_stream_options *options, void **out_stream)
{
    int32_t status = enter(handle);
    stream *s = status ? NULL : calloc(1, sizeof *s);
    if (!s) return status ? status : TN_E_OUT_OF_MEMORY;
    status = check(handle, vendor_stream_create(options->priority, &s->handle), "making a stream");
    if (status)
        free(s);
    else
        *out_stream = s;
    return status;
}

static void stream_destroy(void *self, void *handle, void *queue)
{
    stream *s = queue;
    if (!enter(handle)) (void)check(handle, vendor_stream_destroy(s->handle), "destroying a stream");
    free(s);
}

/* Work makes progress while the host asks: the driver submits at once. */
static int32_t stream_query(void *self, void *handle, void *queue, int32_t *out_done)
{
    int32_t status = enter(handle);
    if (status) return status;
    vendor_status answer = vendor_stream_query(((stream *)queue)->handle);
    if (!answer || answer == VENDOR_NOT_READY) {
        *out_done = !answer;
        return TN_OK;
    }
    return check(handle, answer, "work of a stream");
}

static int32_t stream_synchronize(void *self, void *handle, void *queue)
{
    int32_t status = enter(handle);
    if (status) return status;
    return check(handle, vendor_stream_synchronize(((stream *)queue)->handle), "work of a stream");
}

static int32_t stream_wait_event(void *self, void *handle, void *queue, void *event)
{
    int32_t status = enter(handle);
    return status
               ? status
               : check(handle, vendor_stream_wait(((stream *)queue)->handle, event), "waiting for an event");
}

static int32_t stream_host_callback(void *self, void *handle, void *queue, void (*callback)(void *user),
                                    void *user)
{
    int32_t status = enter(handle);
    if (status) return status;
    return check(handle, vendor_stream_call(((stream *)queue)->handle, callback, user),
                 "queueing a callback");
}

static int32_t event_create(void *self, void *handle, uint32_t flags, void **out_event)
{
    vendor_event event = NULL;
    int32_t status = enter(handle);
    if (!status)
        status = check(handle, vendor_event_create(flags & TN_EVENT_TIMING, &event), "making an event");
    if (!status) *out_event = event;
    return status;
}

static void event_destroy(void *self, void *handle, void *event)
{
    if (!enter(handle)) (void)check(handle, vendor_event_destroy(event), "destroying an event");
}

static int32_t event_record(void *self, void *handle, void *event, void *queue)
{
    int32_t status = enter(handle);
    return status
               ? status
               : check(handle, vendor_event_record(event, ((stream *)queue)->handle), "recording an event");
}

static int32_t event_query(void *self, void *handle, void *event, int32_t *out_done)
{
    int32_t status = enter(handle);
    if (status) return status;
    vendor_status answer = vendor_event_query(event);
    *out_done = !answer;
    return answer == VENDOR_NOT_READY ? TN_OK : check(handle, answer, "asking an event");
}

static int32_t event_synchronize(void *self, void *handle, void *event)
{
    int32_t status = enter(handle);
    return status ? status : check(handle, vendor_event_synchronize(event), "waiting for an event");
}

static int32_t event_elapsed(void *self, void *handle, void *start, void *end, double *out_ms)
{
    float ms = 0;
    int32_t status = enter(handle);
    if (!status) status = check(handle, vendor_event_elapsed(&ms, start, end), "time between events");
    if (!status) *out_ms = (double)ms;
    return status;
}

/* ---- tenon.graph -------------------------------------------------------------------------------------------- */

static int32_t graph_begin(void *self, void *handle, void *queue)
{
    int32_t status = enter(handle);
    return status ? status
                  : check(handle, vendor_capture_begin(((stream *)queue)->handle), "beginning a capture");
}

static int32_t graph_end(void *self, void *handle, void *queue, void **out_graph)
{
    vendor_graph graph = NULL;
    int32_t status = enter(handle);
    if (!status)
        status = check(handle, vendor_capture_end(((stream *)queue)->handle, &graph), "ending a capture");
    if (!status) *out_graph = graph;
    return status;
}

static void graph_destroy(void *self, void *handle, void *graph)
{
    if (!enter(handle)) (void)check(handle, vendor_graph_destroy(graph), "destroying a graph");
}

static int32_t graph_instantiate(void *self, void *handle, void *graph, const tn_graph_options *options,
                                 void **out_executable)
{
    vendor_executable executable = NULL;
    int32_t status = options->flags ? TN_E_UNKNOWN_FIELD : enter(handle);
    if (!status)
        status = check(handle, vendor_graph_instantiate(graph, &executable), "instantiating a graph");
    if (!status) *out_executable = executable;
    return status;
}

static int32_t graph_launch(void *self, void *handle, void *executable, void *queue)
{
    int32_t status = enter(handle);
    return status ? status
                  : check(handle, vendor_graph_launch(executable, ((stream *)queue)->handle),
                          "launching a graph");
}

static void graph_destroy_executable(void *self, void *handle, void *executable)
{
    if (!enter(handle))
        (void)check(handle, vendor_executable_destroy(executable), "destroying an executable");
}

/* ---- A kernel: reads addresses, and the random state where a graph has one --------------------------------- */

static int32_t run_dropout(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = tn_desc(call->args[0].as.tensor), *out = tn_desc(call->outs[0].as.tensor);
    tn_random_numbers numbers = {.size = sizeof numbers};
    uint64_t count = 1, state;
    for (uint32_t i = 0; i < in->rank; i++) count *= (uint64_t)in->sizes[i];
    int32_t status = enter(call->device);
    if (!status) status = call->host->random_reserve(call, NULL, (count + 3) / 4, &numbers);
    if (status) return status;
    state = numbers.state ? numbers.state->address : 0;
    uint64_t from = in->address, to = out->address;
    void *arguments[] = {&from, &to, &count, &numbers.seed, &numbers.offset, &state};
    return check(call->device,
                 vendor_launch("dropout_f32", (uint32_t)(count / 256 + 1), ((stream *)call->stream)->handle,
                               arguments),
                 "launch of dropout");
}

static const tn_dtype floats[] = {TN_FLOAT32, 0};
static const tn_kernel_row rows[] = {{.size = sizeof(tn_kernel_row),
                                      .flags = TN_ROW_RANDOM_STATE | TN_ROW_INDEX32,
                                      .schema = "acme::dropout(Tensor x) -> Tensor",
                                      .dtypes = floats,
                                      .run = run_dropout,
                                      .max_rank = 8}};

/* ---- Tables ------------------------------------------------------------------------------------------------- */

#define NAME "cudalike"
#include "tables.h"

static const tn_memory_interface memory_interface = {MEMORY_SLOTS, .pin = memory_pin, .unpin = memory_unpin};
static const tn_copy_interface copy_interface = {COPY_SLOTS, .peer = peer};
static const tn_stream_interface stream_interface = {STREAM_SLOTS, .host_callback = stream_host_callback};
static const tn_event_interface event_interface = {EVENT_SLOTS, .elapsed = event_elapsed};
static const tn_graph_interface graph_interface = {GRAPH_SLOTS};
static const tn_named_interface interfaces[] = {INTERFACES, {"tenon.graph", &graph_interface}};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return INTERFACE_OF(interfaces, name, version);
}
