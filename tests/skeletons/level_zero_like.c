/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin for an API like Level Zero's: command lists that one thread at a time may use, events from pools that
 * are used again, pinned memory that the API itself allocates, addresses shared by host and device. The API's
 * functions are declared here, and nothing links against them.
 */
#define TN_PLUGIN
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>

/* ---- The vendor's API ------------------------------------------------------------------------------------ */

typedef uint32_t vendor_result;
typedef struct vendor_driver *vendor_driver;
typedef struct vendor_device *vendor_device;
typedef struct vendor_context *vendor_context;
typedef struct vendor_list *vendor_list;
typedef struct vendor_pool *vendor_pool;
typedef struct vendor_event *vendor_event;
typedef struct vendor_kernel *vendor_kernel;
#define VENDOR_NOT_READY 1u
#define VENDOR_LOST      0x70000001u
#define VENDOR_NO_MEMORY 0x70000003u
vendor_result vendor_init(uint32_t flags);
vendor_result vendor_drivers(uint32_t *count, vendor_driver *drivers);
vendor_result vendor_devices(vendor_driver driver, uint32_t *count, vendor_device *devices);
vendor_result vendor_properties(vendor_device device, char name[64], uint64_t *memory, uint64_t *most,
                                uint8_t uuid[16]);
vendor_result vendor_context_create(vendor_driver driver, vendor_context *out);
vendor_result vendor_context_destroy(vendor_context context);
vendor_result vendor_context_status(vendor_context context);
vendor_result vendor_alloc_device(vendor_context context, vendor_device device, uint64_t bytes,
                                  uint64_t alignment, void **out);
vendor_result vendor_alloc_host(vendor_context context, uint64_t bytes, uint64_t alignment, void **out);
vendor_result vendor_alloc_shared(vendor_context context, vendor_device device, uint64_t bytes,
                                  uint64_t alignment, void **out);
vendor_result vendor_free(vendor_context context, void *memory);
vendor_result vendor_list_create(vendor_context context, vendor_device device, int32_t priority,
                                 vendor_list *out);
vendor_result vendor_list_destroy(vendor_list list);
vendor_result vendor_list_synchronize(vendor_list list, uint64_t timeout);
vendor_result vendor_append_fill(vendor_list list, void *to, const void *pattern, uint64_t pattern_bytes,
                                 uint64_t bytes);
vendor_result vendor_append_copy(vendor_list list, void *to, const void *from, uint64_t bytes);
vendor_result vendor_append_signal(vendor_list list, vendor_event event);
vendor_result vendor_append_wait(vendor_list list, uint32_t count, vendor_event *events);
vendor_result vendor_append_launch(vendor_list list, vendor_kernel kernel, uint32_t groups);
vendor_result vendor_kernel_set(vendor_kernel kernel, uint32_t index, uint64_t bytes, const void *value);
vendor_result vendor_pool_create(vendor_context context, uint32_t count, int timing, vendor_pool *out);
vendor_result vendor_pool_destroy(vendor_pool pool);
vendor_result vendor_event_create(vendor_pool pool, uint32_t index, vendor_event *out);
vendor_result vendor_event_destroy(vendor_event event);
vendor_result vendor_event_query(vendor_event event);
vendor_result vendor_event_synchronize(vendor_event event, uint64_t timeout);
vendor_result vendor_event_reset(vendor_event event);
vendor_result vendor_event_timestamp(vendor_event event, uint64_t *start, uint64_t *end);

/* ---- State ------------------------------------------------------------------------------------------------ */

#define MOST_DEVICES 8
#define POOL_EVENTS  256u
#define FOR_EVER     UINT64_MAX

typedef struct plugin plugin;

typedef struct device {
    plugin *plugin;
    vendor_device handle;
    vendor_context context;
    vendor_pool pool; /* events are recycled in it */
    pthread_mutex_t lock;
    uint32_t next_event;
    int is_lost;
    struct stream *streams; /* under the lock */
} device;

/* A list and its kernels are not for two threads at once. */
typedef struct stream {
    struct stream *next;
    pthread_mutex_t lock;
    vendor_list list;
    vendor_event last; /* signalled behind everything, for queries */
} stream;

typedef struct event {
    vendor_event handle;
    int is_recorded;
} event;

struct plugin {
    const tn_host *host;
    vendor_driver driver;
    vendor_kernel exp_kernel;
    uint32_t n_devices;
    device devices[MOST_DEVICES];
};

static int32_t check(device *d, vendor_result result, const char *what)
{
    const tn_host *host = d->plugin->host;
    if (!result) return TN_OK;
    if (result == VENDOR_LOST) d->is_lost = 1;
    int32_t code = result == VENDOR_LOST        ? TN_E_DEVICE_LOST
                   : result == VENDOR_NO_MEMORY ? TN_E_OUT_OF_MEMORY
                                                : TN_E_INTERNAL;
    return host->error_native(host->context, code, what, (int32_t)result, NULL);
}

static int32_t check_alive(const device *d)
{
    const tn_host *host = d->plugin->host;
    return d->is_lost ? host->error(host->context, TN_E_DEVICE_LOST, "the device is gone") : TN_OK;
}

/* ---- tenon.device ------------------------------------------------------------------------------------------ */

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT16, TN_INT32, TN_INT64, TN_BOOL, 0};

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    plugin *p = self;
    vendor_device devices[MOST_DEVICES];
    uint32_t drivers = 1, count = MOST_DEVICES;
    *out_count = 0;
    *out_reason = "the loader finds no driver with a device";
    if (vendor_init(0) || vendor_drivers(&drivers, &p->driver) || !drivers) return TN_OK;
    if (vendor_devices(p->driver, &count, devices) || !count) return TN_OK;
    for (uint32_t i = 0; i < count; i++) p->devices[i].handle = devices[i];
    *out_count = p->n_devices = count;
    *out_reason = NULL;
    return TN_OK;
}

static int32_t device_facts(void *self, uint32_t index, tn_device_facts *out)
{
    plugin *p = self;
    tn_device_facts f = {.size = out->size,
                         .device_class = TN_DEVICE_INTEGRATED,
                         .memory_kinds = TN_MEMORY_DEVICE | TN_MEMORY_HOST | TN_MEMORY_UNIFIED,
                         .alignment = 64,
                         .dtypes = dtypes,
                         .architecture = "xe",
                         .features = TN_FEATURE_ADDRESSES | TN_FEATURE_FLOAT16 | TN_FEATURE_INT64};
    if (vendor_properties(p->devices[index].handle, f.name, &f.total_memory, &f.max_allocation, f.uuid))
        return TN_E_DEVICE;
    memcpy(out, &f, out->size < sizeof f ? out->size : sizeof f);
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    plugin *p = self;
    device *d = &p->devices[index];
    d->plugin = p;
    d->is_lost = 0;
    int32_t status = check(d, vendor_context_create(p->driver, &d->context), "making a context");
    if (!status) status = check(d, vendor_pool_create(d->context, POOL_EVENTS, 1, &d->pool), "making events");
    if (status) return status;
    pthread_mutex_init(&d->lock, NULL);
    *out_device = d;
    return TN_OK;
}

static void device_close(void *self, void *handle)
{
    device *d = handle;
    vendor_pool_destroy(d->pool);
    vendor_context_destroy(d->context);
    pthread_mutex_destroy(&d->lock);
}

static int32_t device_status(void *self, void *handle)
{
    device *d = handle;
    int32_t status = check_alive(d);
    return status ? status : check(d, vendor_context_status(d->context), "the status of a device");
}

/* The API waits for lists only. */
static int32_t device_synchronize(void *self, void *handle)
{
    device *d = handle;
    int32_t status = check_alive(d);
    pthread_mutex_lock(&d->lock);
    for (stream *s = d->streams; s && !status; s = s->next)
        status = check(d, vendor_list_synchronize(s->list, FOR_EVER), "waiting for a stream");
    pthread_mutex_unlock(&d->lock);
    return status;
}

static int32_t device_native(void *self, void *handle, uint32_t kind, void *of, uint64_t *out)
{
    device *d = handle;
    const void *native = kind == TN_NATIVE_DEVICE    ? (const void *)d->handle
                         : kind == TN_NATIVE_CONTEXT ? (const void *)d->context
                         : kind == TN_NATIVE_STREAM  ? (const void *)((stream *)of)->list
                                                     : of;
    *out = (uint64_t)(uintptr_t)native;
    return TN_OK;
}

/* ---- tenon.memory: every kind has an address that host and device share ------------------------------------ */

static int32_t memory_alloc(void *self, void *handle, const tn_memory_request *request, tn_memory *out)
{
    device *d = handle;
    void *memory = NULL;
    uint64_t alignment = request->alignment > 64 ? request->alignment : 64;
    int32_t status = check_alive(d);
    if (status) return status;
    vendor_result result =
        request->kind == TN_MEMORY_HOST ? vendor_alloc_host(d->context, request->bytes, alignment, &memory)
        : request->kind == TN_MEMORY_UNIFIED
            ? vendor_alloc_shared(d->context, d->handle, request->bytes, alignment, &memory)
            : vendor_alloc_device(d->context, d->handle, request->bytes, alignment, &memory);
    status = check(d, result, "allocation");
    if (status) return status;
    out->kind = request->kind;
    out->allocation = memory;
    out->host = request->kind == TN_MEMORY_DEVICE ? NULL : memory;
    out->address = (uint64_t)(uintptr_t)memory;
    out->bytes = request->bytes;
    return TN_OK;
}

static void memory_free(void *self, void *handle, const tn_memory *memory)
{
    device *d = handle;
    if (!d->is_lost) vendor_free(d->context, memory->allocation);
}

static int32_t memory_info(void *self, void *handle, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = *out_total = 0; /* only system management knows */
    return TN_OK;
}

/* ---- Work of a stream: under its lock, and followed by the signal that queries ask ------------------------- */

static int32_t begin(device *d, stream *s)
{
    int32_t status = check_alive(d);
    if (!status) pthread_mutex_lock(&s->lock);
    return status;
}

static int32_t finish(device *d, stream *s, vendor_result result, const char *what)
{
    if (!result) result = vendor_event_reset(s->last);
    if (!result) result = vendor_append_signal(s->list, s->last);
    pthread_mutex_unlock(&s->lock);
    return check(d, result, what);
}

static int32_t memory_fill(void *self, void *handle, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *queue)
{
    stream *s = queue;
    const uint8_t byte = (uint8_t)value;
    int32_t status = begin(handle, s);
    if (status) return status;
    return finish(handle, s, vendor_append_fill(s->list, (char *)allocation + offset, &byte, 1, bytes),
                  "fill");
}

static int32_t copy(void *handle, void *to, const void *from, uint64_t bytes, void *queue)
{
    stream *s = queue;
    int32_t status = begin(handle, s);
    return status ? status : finish(handle, s, vendor_append_copy(s->list, to, from, bytes), "copy");
}

static int32_t host_to_device(void *self, void *handle, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *queue)
{
    return copy(handle, (char *)allocation + offset, host, bytes, queue);
}

static int32_t device_to_host(void *self, void *handle, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *queue)
{
    return copy(handle, host, (const char *)allocation + offset, bytes, queue);
}

static int32_t device_to_device(void *self, void *handle, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *queue)
{
    return copy(handle, (char *)to + to_offset, (const char *)from + from_offset, bytes, queue);
}

static int32_t new_event(device *d, vendor_event *out)
{
    pthread_mutex_lock(&d->lock);
    uint32_t index = d->next_event++ % POOL_EVENTS; /* a real plugin keeps a list of free ones */
    pthread_mutex_unlock(&d->lock);
    return check(d, vendor_event_create(d->pool, index, out), "making an event");
}

static int32_t stream_create(void *self, void *handle, const tn_stream_options *options, void **out_stream)
{
    device *d = handle;
    stream *s = check_alive(d) ? NULL : calloc(1, sizeof *s);
    if (!s) return d->is_lost ? TN_E_DEVICE_LOST : TN_E_OUT_OF_MEMORY;
    int32_t status =
        check(d, vendor_list_create(d->context, d->handle, options->priority, &s->list), "making a stream");
    if (!status) status = new_event(d, &s->last);
    if (status) {
        free(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_lock(&d->lock);
    s->next = d->streams;
    d->streams = s;
    pthread_mutex_unlock(&d->lock);
    *out_stream = s;
    return TN_OK;
}

static void stream_destroy(void *self, void *handle, void *queue)
{
    device *d = handle;
    stream *s = queue, **link = &d->streams;
    pthread_mutex_lock(&d->lock);
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    pthread_mutex_unlock(&d->lock);
    if (!d->is_lost) {
        vendor_event_destroy(s->last);
        vendor_list_destroy(s->list);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static int32_t stream_query(void *self, void *handle, void *queue, int32_t *out_done)
{
    int32_t status = check_alive(handle);
    if (status) return status;
    vendor_result result = vendor_event_query(((stream *)queue)->last);
    *out_done = !result;
    return result == VENDOR_NOT_READY ? TN_OK : check(handle, result, "asking a stream");
}

static int32_t stream_synchronize(void *self, void *handle, void *queue)
{
    int32_t status = check_alive(handle);
    return status ? status
                  : check(handle, vendor_list_synchronize(((stream *)queue)->list, FOR_EVER),
                          "waiting for a stream");
}

static int32_t stream_wait_event(void *self, void *handle, void *queue, void *what)
{
    stream *s = queue;
    event *e = what;
    if (!e->is_recorded) return TN_OK;
    int32_t status = begin(handle, s);
    return status ? status
                  : finish(handle, s, vendor_append_wait(s->list, 1, &e->handle), "waiting for an event");
}

static int32_t event_create(void *self, void *handle, uint32_t flags, void **out_event)
{
    event *e = calloc(1, sizeof *e);
    int32_t status = e ? new_event(handle, &e->handle) : TN_E_OUT_OF_MEMORY;
    if (status)
        free(e);
    else
        *out_event = e;
    return status;
}

static void event_destroy(void *self, void *handle, void *what)
{
    event *e = what;
    if (!((device *)handle)->is_lost) vendor_event_destroy(e->handle);
    free(e);
}

static int32_t event_record(void *self, void *handle, void *what, void *queue)
{
    stream *s = queue;
    event *e = what;
    int32_t status = begin(handle, s);
    if (status) return status;
    vendor_result result = vendor_event_reset(e->handle);
    if (!result) result = vendor_append_signal(s->list, e->handle);
    e->is_recorded = 1;
    return finish(handle, s, result, "recording an event");
}

static int32_t event_query(void *self, void *handle, void *what, int32_t *out_done)
{
    event *e = what;
    vendor_result result = e->is_recorded ? vendor_event_query(e->handle) : 0;
    *out_done = !result;
    return result == VENDOR_NOT_READY ? TN_OK : check(handle, result, "asking an event");
}

static int32_t event_synchronize(void *self, void *handle, void *what)
{
    event *e = what;
    int32_t status = check_alive(handle);
    if (status || !e->is_recorded) return status;
    return check(handle, vendor_event_synchronize(e->handle, FOR_EVER), "waiting for an event");
}

static int32_t event_elapsed(void *self, void *handle, void *start, void *end, double *out_ms)
{
    uint64_t from = 0, to = 0, unused;
    int32_t status =
        check(handle, vendor_event_timestamp(((event *)start)->handle, &unused, &from), "a timestamp");
    if (!status)
        status = check(handle, vendor_event_timestamp(((event *)end)->handle, &to, &unused), "a timestamp");
    if (!status) *out_ms = (double)(to - from) * 1e-6;
    return status;
}

/* ---- A kernel: arguments are set under the stream's lock ---------------------------------------------------- */

static int32_t run_exp(void *self, const tn_call *call)
{
    plugin *p = self;
    stream *s = call->stream;
    const tn_operand *out = &call->nest->operands[0];
    const tn_operand *in = (const tn_operand *)(const void *)((const char *)out + call->nest->operand_bytes);
    uint64_t count = (uint64_t)call->nest->numel;
    int32_t status = begin(call->device, s);
    if (status) return status;
    vendor_result result = vendor_kernel_set(p->exp_kernel, 0, sizeof in->address, &in->address);
    if (!result) result = vendor_kernel_set(p->exp_kernel, 1, sizeof out->address, &out->address);
    if (!result) result = vendor_kernel_set(p->exp_kernel, 2, sizeof count, &count);
    if (!result) result = vendor_append_launch(s->list, p->exp_kernel, (uint32_t)(count / 256 + 1));
    return finish(call->device, s, result, "launch of exp");
}

/* Only contiguous tensors, which are nests of one dimension without gaps. */
static const char *can_run_exp(void *self, const tn_call *call)
{
    return call->nest && call->nest->rank <= 1 ? NULL : "the kernel takes contiguous tensors";
}

/* ---- Tables ------------------------------------------------------------------------------------------------- */

#define NAME       "zerolike"
#define EXP_LIMITS .max_rank = 1
#include "tables.h"

static const tn_memory_interface memory_interface = {MEMORY_SLOTS};
static const tn_copy_interface copy_interface = {COPY_SLOTS};
static const tn_stream_interface stream_interface = {STREAM_SLOTS};
static const tn_event_interface event_interface = {EVENT_SLOTS, .elapsed = event_elapsed};
static const tn_named_interface interfaces[] = {INTERFACES};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return INTERFACE_OF(interfaces, name, version);
}
