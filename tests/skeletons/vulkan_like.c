/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin for an API like Vulkan's: buffers without addresses, so kernels get a buffer and an offset; one queue;
 * commands that run only when they are submitted, so a query submits; copies that need a buffer on both sides, so
 * host memory goes through a staging buffer unless it is pinned; memory that is mapped on request; little room for
 * arguments. The API's functions are declared here, and nothing links against them.
 */
#define TN_PLUGIN
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>

/* ---- The vendor's API ------------------------------------------------------------------------------------ */

typedef int32_t vendor_result;
typedef uint64_t vendor_buffer; /* 0: none */
typedef uint64_t vendor_memory;
typedef struct vendor_device *vendor_device;
typedef struct vendor_commands *vendor_commands;
typedef struct vendor_pipeline *vendor_pipeline;
#define VENDOR_OUT_OF_MEMORY -2
#define VENDOR_DEVICE_LOST   -4
uint32_t vendor_device_count(void);
void vendor_properties(uint32_t index, char name[64], uint64_t *heap, uint64_t *most, uint64_t *range,
                       uint8_t uuid[16]);
vendor_result vendor_device_create(uint32_t index, vendor_device *out);
void vendor_device_destroy(vendor_device device);
vendor_result vendor_buffer_create(vendor_device device, uint64_t bytes, int host_visible,
                                   vendor_buffer *buffer, vendor_memory *memory);
vendor_result vendor_buffer_import(vendor_device device, void *host, uint64_t bytes, vendor_buffer *buffer,
                                   vendor_memory *memory);
void vendor_buffer_destroy(vendor_device device, vendor_buffer buffer, vendor_memory memory);
vendor_result vendor_map(vendor_device device, vendor_memory memory, uint64_t offset, uint64_t bytes,
                         void **out);
void vendor_unmap(vendor_device device, vendor_memory memory);
vendor_result vendor_commands_create(vendor_device device, vendor_commands *out);
void vendor_commands_destroy(vendor_device device, vendor_commands commands);
void vendor_cmd_fill(vendor_commands c, vendor_buffer to, uint64_t offset, uint64_t bytes, uint32_t word);
void vendor_cmd_copy(vendor_commands c, vendor_buffer to, uint64_t to_offset, vendor_buffer from,
                     uint64_t from_offset, uint64_t bytes);
void vendor_cmd_barrier(vendor_commands c);
void vendor_cmd_dispatch(vendor_commands c, vendor_pipeline pipeline, const vendor_buffer *buffers,
                         const uint64_t *offsets, uint32_t count, const void *push, uint32_t push_bytes,
                         uint32_t groups);
/* Submits what was recorded; `value` is reached on the device's counter when it is done. */
vendor_result vendor_submit(vendor_device device, vendor_commands c, uint64_t value);
vendor_result vendor_reached(vendor_device device, uint64_t *value);
vendor_result vendor_wait(vendor_device device, uint64_t value);

/* ---- State ------------------------------------------------------------------------------------------------ */

typedef struct plugin {
    const tn_host *host;
    vendor_pipeline exp_pipeline, fill_pipeline;
} plugin;

/* One queue: all streams of a device record into one list of commands, in the order of calls. */
typedef struct device {
    const tn_host *host;
    vendor_device handle;
    vendor_commands commands;
    pthread_mutex_t lock;
    uint64_t recorded;  /* value that the commands recorded now will reach */
    uint64_t submitted; /* value of the last submission */
    int is_lost;
} device;

/* What stands behind the handle of an allocation. */
typedef struct buffer {
    vendor_buffer buffer;
    vendor_memory memory;
} buffer;

typedef struct stream {
    uint64_t value; /* of its last commands */
} stream;

typedef struct event {
    uint64_t value; /* 0: never recorded */
} event;

static int32_t check(device *d, vendor_result result, const char *what)
{
    if (result >= 0) return TN_OK;
    if (result == VENDOR_DEVICE_LOST) d->is_lost = 1;
    return d->host->error_native(d->host->context,
                                 result == VENDOR_DEVICE_LOST     ? TN_E_DEVICE_LOST
                                 : result == VENDOR_OUT_OF_MEMORY ? TN_E_OUT_OF_MEMORY
                                                                  : TN_E_INTERNAL,
                                 what, result, NULL);
}

static int32_t check_alive(const device *d)
{
    return d->is_lost ? d->host->error(d->host->context, TN_E_DEVICE_LOST, "the device is lost") : TN_OK;
}

/* Under the lock. */
static int32_t submit(device *d)
{
    if (d->recorded == d->submitted) return TN_OK;
    int32_t status = check(d, vendor_submit(d->handle, d->commands, d->recorded), "submitting commands");
    if (!status) d->submitted = d->recorded;
    return status;
}

/* Waits for a value that some commands reach. */
static int32_t wait_for(device *d, uint64_t value)
{
    int32_t status = check_alive(d);
    if (status) return status;
    pthread_mutex_lock(&d->lock);
    status = value > d->submitted ? submit(d) : TN_OK;
    pthread_mutex_unlock(&d->lock);
    return status ? status : check(d, vendor_wait(d->handle, value), "waiting for commands");
}

static int32_t ask(device *d, uint64_t value, int32_t *out_done)
{
    uint64_t reached = 0;
    int32_t status = check_alive(d);
    if (status) return status;
    pthread_mutex_lock(&d->lock);
    status = value > d->submitted ? submit(d) : TN_OK; /* or it would never be done */
    pthread_mutex_unlock(&d->lock);
    if (!status) status = check(d, vendor_reached(d->handle, &reached), "asking for commands");
    if (!status) *out_done = reached >= value;
    return status;
}

/* Begins to record work of a stream; `end` follows. */
static int32_t begin(device *d)
{
    int32_t status = check_alive(d);
    if (!status) pthread_mutex_lock(&d->lock);
    return status;
}

static int32_t end(device *d, stream *s)
{
    vendor_cmd_barrier(d->commands);
    s->value = d->recorded = d->submitted + 1;
    pthread_mutex_unlock(&d->lock);
    return TN_OK;
}

/* ---- tenon.device ------------------------------------------------------------------------------------------ */

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_INT32, TN_BOOL, 0};

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = vendor_device_count();
    *out_reason = *out_count ? NULL : "no device computes";
    return TN_OK;
}

static int32_t device_facts(void *self, uint32_t index, tn_device_facts *out)
{
    tn_device_facts f = {.size = out->size,
                         .device_class = TN_DEVICE_INTEGRATED,
                         .memory_kinds = TN_MEMORY_DEVICE | TN_MEMORY_HOST,
                         .alignment = 256,
                         .dtypes = dtypes,
                         .architecture = "spirv 1.3"};
    vendor_properties(index, f.name, &f.total_memory, &f.max_allocation, &f.max_binding_range, f.uuid);
    memcpy(out, &f, out->size < sizeof f ? out->size : sizeof f);
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    const plugin *p = self;
    device *d = calloc(1, sizeof *d);
    if (!d) return p->host->error(p->host->context, TN_E_OUT_OF_MEMORY, "vulkanlike: out of memory");
    d->host = p->host;
    int32_t status = check(d, vendor_device_create(index, &d->handle), "making a device");
    if (!status) status = check(d, vendor_commands_create(d->handle, &d->commands), "making commands");
    if (status) {
        free(d);
        return status;
    }
    pthread_mutex_init(&d->lock, NULL);
    *out_device = d;
    return TN_OK;
}

static void device_close(void *self, void *handle)
{
    device *d = handle;
    vendor_commands_destroy(d->handle, d->commands);
    vendor_device_destroy(d->handle);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static int32_t device_status(void *self, void *handle)
{
    return check_alive(handle);
}

static int32_t device_synchronize(void *self, void *handle)
{
    return wait_for(handle, ((device *)handle)->recorded);
}

/* A stream has no handle of the vendor's: all share one queue. */
static int32_t device_native(void *self, void *handle, uint32_t kind, void *of, uint64_t *out)
{
    if (kind == TN_NATIVE_STREAM || kind == TN_NATIVE_CONTEXT) return TN_E_UNSUPPORTED;
    *out =
        kind == TN_NATIVE_DEVICE ? (uint64_t)(uintptr_t)((device *)handle)->handle : ((buffer *)of)->buffer;
    return TN_OK;
}

/* ---- tenon.memory ------------------------------------------------------------------------------------------ */

/* The handle is a buffer; there is no address. Pinned memory is mapped for ever, tensors when somebody asks. */
static int32_t memory_alloc(void *self, void *handle, const tn_memory_request *request, tn_memory *out)
{
    device *d = handle;
    int32_t status = check_alive(d);
    buffer *b = status ? NULL : calloc(1, sizeof *b);
    if (!b) return status ? status : TN_E_OUT_OF_MEMORY;
    status = check(d,
                   vendor_buffer_create(d->handle, request->bytes, request->kind == TN_MEMORY_HOST,
                                        &b->buffer, &b->memory),
                   "making a buffer");
    if (!status && request->kind == TN_MEMORY_HOST)
        status = check(d, vendor_map(d->handle, b->memory, 0, request->bytes, &out->host),
                       "mapping pinned memory");
    if (status) {
        vendor_buffer_destroy(d->handle, b->buffer, b->memory);
        free(b);
        return status;
    }
    out->kind = request->kind;
    out->allocation = b;
    out->bytes = request->bytes;
    return TN_OK;
}

static void memory_free(void *self, void *handle, const tn_memory *memory)
{
    device *d = handle;
    buffer *b = memory->allocation;
    if (memory->host) vendor_unmap(d->handle, b->memory);
    vendor_buffer_destroy(d->handle, b->buffer, b->memory);
    free(b);
}

/* The API fills words, so a kernel fills the bytes at both ends. */
static int32_t memory_fill(void *self, void *handle, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *queue)
{
    const plugin *p = self;
    device *d = handle;
    const buffer *b = allocation;
    int32_t status = begin(d);
    if (status) return status;
    if (offset % 4 == 0 && bytes % 4 == 0) {
        vendor_cmd_fill(d->commands, b->buffer, offset, bytes, value * 0x01010101u);
    } else {
        const struct {
            uint64_t offset, bytes;
            uint32_t value;
        } push = {offset % 256, bytes, value};
        const uint64_t binding = offset - offset % 256;
        vendor_cmd_dispatch(d->commands, p->fill_pipeline, &b->buffer, &binding, 1, &push, sizeof push,
                            (uint32_t)(bytes / 256 + 1));
    }
    return end(d, queue);
}

static int32_t memory_info(void *self, void *handle, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = *out_total = 0;
    return TN_OK;
}

static int32_t memory_pin(void *self, void *handle, void *host, uint64_t bytes, tn_memory *out)
{
    device *d = handle;
    int32_t status = check_alive(d);
    buffer *b = status ? NULL : calloc(1, sizeof *b);
    if (!b) return status ? status : TN_E_OUT_OF_MEMORY;
    status =
        check(d, vendor_buffer_import(d->handle, host, bytes, &b->buffer, &b->memory), "importing memory");
    if (status) {
        free(b);
        return status;
    }
    out->kind = TN_MEMORY_HOST;
    out->allocation = b;
    out->host = host;
    out->bytes = bytes;
    return TN_OK;
}

static void memory_unpin(void *self, void *handle, const tn_memory *memory)
{
    buffer *b = memory->allocation;
    vendor_buffer_destroy(((device *)handle)->handle, b->buffer, b->memory);
    free(b);
}

static int32_t memory_map(void *self, void *handle, void *allocation, uint64_t offset, uint64_t bytes,
                          uint32_t flags, void **out_host)
{
    device *d = handle;
    void *view = NULL;
    int32_t status = check_alive(d);
    if (!status)
        status = check(d, vendor_map(d->handle, ((buffer *)allocation)->memory, offset, bytes, &view),
                       "mapping memory");
    if (!status) *out_host = view;
    return status;
}

static int32_t memory_unmap(void *self, void *handle, void *allocation, void *host)
{
    vendor_unmap(((device *)handle)->handle, ((buffer *)allocation)->memory);
    return TN_OK;
}

/* ---- tenon.copy --------------------------------------------------------------------------------------------- */

/* Where host memory lies in a buffer: in the pinned memory that contains it, or in a new staging buffer. */
typedef struct staging {
    const buffer *buffer;
    uint64_t offset;
    tn_memory own; /* allocation NULL: there is none */
} staging;

static int32_t stage(void *self, device *d, const void *host, const tn_memory *pinned, uint64_t bytes,
                     staging *out)
{
    *out = (staging){.own = {.size = sizeof out->own}};
    if (pinned && pinned->allocation) {
        out->buffer = pinned->allocation;
        out->offset = (uint64_t)((const char *)host - (const char *)pinned->host) + pinned->offset;
        return TN_OK;
    }
    const tn_memory_request request = {.size = sizeof request, .kind = TN_MEMORY_HOST, .bytes = bytes};
    int32_t status = memory_alloc(self, d, &request, &out->own);
    out->buffer = out->own.allocation;
    return status;
}

static int32_t copy(device *d, const buffer *to, uint64_t to_offset, const buffer *from, uint64_t from_offset,
                    uint64_t bytes, stream *s)
{
    int32_t status = begin(d);
    if (status) return status;
    vendor_cmd_copy(d->commands, to->buffer, to_offset, from->buffer, from_offset, bytes);
    return end(d, s);
}

static int32_t host_to_device(void *self, void *handle, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *queue)
{
    staging from;
    int32_t status = stage(self, handle, host, pinned, bytes, &from);
    if (status) return status;
    if (from.own.host) memcpy(from.own.host, host, bytes);
    status = copy(handle, allocation, offset, from.buffer, from.offset, bytes, queue);
    if (!from.own.allocation) return status; /* pinned: the host does not wait */
    if (!status) status = wait_for(handle, ((stream *)queue)->value);
    memory_free(self, handle, &from.own);
    return status;
}

static int32_t device_to_host(void *self, void *handle, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *queue)
{
    staging to;
    int32_t status = stage(self, handle, host, pinned, bytes, &to);
    if (status) return status;
    status = copy(handle, to.buffer, to.offset, allocation, offset, bytes, queue);
    if (!to.own.allocation) return status;
    if (!status) status = wait_for(handle, ((stream *)queue)->value);
    if (!status) memcpy(host, to.own.host, bytes);
    memory_free(self, handle, &to.own);
    return status;
}

static int32_t device_to_device(void *self, void *handle, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *queue)
{
    return copy(handle, to, to_offset, from, from_offset, bytes, queue);
}

/* ---- tenon.stream, tenon.event: values of one counter ------------------------------------------------------- */

static int32_t stream_create(void *self, void *handle, const tn_stream_options *options, void **out_stream)
{
    *out_stream = calloc(1, sizeof(stream));
    return *out_stream ? TN_OK : TN_E_OUT_OF_MEMORY;
}

static void stream_destroy(void *self, void *handle, void *queue)
{
    free(queue);
}

static int32_t stream_query(void *self, void *handle, void *queue, int32_t *out_done)
{
    return ask(handle, ((stream *)queue)->value, out_done);
}

static int32_t stream_synchronize(void *self, void *handle, void *queue)
{
    return wait_for(handle, ((stream *)queue)->value);
}

/* One queue runs everything in the order of calls: what was recorded before comes before. */
static int32_t stream_wait_event(void *self, void *handle, void *queue, void *what)
{
    stream *s = queue;
    const event *e = what;
    if (s->value < e->value) s->value = e->value;
    return check_alive(handle);
}

static int32_t event_create(void *self, void *handle, uint32_t flags, void **out_event)
{
    *out_event = calloc(1, sizeof(event));
    return *out_event ? TN_OK : TN_E_OUT_OF_MEMORY;
}

static void event_destroy(void *self, void *handle, void *what)
{
    free(what);
}

static int32_t event_record(void *self, void *handle, void *what, void *queue)
{
    ((event *)what)->value = ((stream *)queue)->value;
    return check_alive(handle);
}

static int32_t event_query(void *self, void *handle, void *what, int32_t *out_done)
{
    return ask(handle, ((event *)what)->value, out_done);
}

static int32_t event_synchronize(void *self, void *handle, void *what)
{
    return wait_for(handle, ((event *)what)->value);
}

/* ---- A kernel: buffers, offsets, and arguments in 128 bytes ------------------------------------------------- */

static int32_t run_exp(void *self, const tn_call *call)
{
    const plugin *p = self;
    device *d = call->device;
    const tn_operand *operand[2];
    vendor_buffer buffers[2];
    uint64_t bindings[2];
    struct {
        uint64_t offsets[2];
        uint64_t count;
    } push = {.count = (uint64_t)call->nest->numel};
    for (uint32_t i = 0; i < 2; i++) {
        operand[i] = (const tn_operand *)(const void *)((const char *)call->nest->operands +
                                                        (size_t)i * call->nest->operand_bytes);
        buffers[i] = ((const buffer *)operand[i]->allocation)->buffer;
        bindings[i] =
            operand[i]->byte_offset - operand[i]->byte_offset % 256; /* bindings begin at multiples */
        push.offsets[i] = operand[i]->byte_offset % 256;
    }
    int32_t status = begin(d);
    if (status) return status;
    vendor_cmd_dispatch(d->commands, p->exp_pipeline, buffers, bindings, 2, &push, sizeof push,
                        (uint32_t)(push.count / 256 + 1));
    return end(d, call->stream);
}

/* A binding reaches 128 MiB. */
static const char *can_run_exp(void *self, const tn_call *call)
{
    if (!call->nest || call->nest->rank > 1) return "the kernel takes contiguous tensors";
    return call->nest->numel > (INT64_C(1) << 25) ? "the tensor is larger than a binding" : NULL;
}

/* ---- Tables ------------------------------------------------------------------------------------------------- */

#define NAME       "vulkanlike"
#define EXP_LIMITS .flags = TN_ROW_INDEX32, .max_operands = 8
#include "tables.h"

static const tn_memory_interface memory_interface = {MEMORY_SLOTS, .pin = memory_pin, .unpin = memory_unpin,
                                                     .map = memory_map, .unmap = memory_unmap};
static const tn_copy_interface copy_interface = {COPY_SLOTS};
static const tn_stream_interface stream_interface = {STREAM_SLOTS};
static const tn_event_interface event_interface = {EVENT_SLOTS};
static const tn_named_interface interfaces[] = {INTERFACES};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return INTERFACE_OF(interfaces, name, version);
}
