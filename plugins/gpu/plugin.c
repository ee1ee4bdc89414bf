/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract (tenon/plugin.h) over a driver: devices, memory, copies, streams and events. The only file of the
 * family that knows the tables; read it from the bottom.
 */
#include "gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const gpu_driver *const driver = &gpu_the_driver;

/* ---- Errors ---------------------------------------------------------------------------------------------- */

#define GPU_TEXT 4096 /* room for an error with a compiler's log */

static void write_text(char *out, const char *format, va_list list)
{
    int n = snprintf(out, GPU_TEXT, "%s: ", driver->type);
    vsnprintf(out + n, GPU_TEXT - (size_t)n, format, list);
}

int32_t(gpu_error)(const gpu_plugin *plugin, int32_t status, const char *format, ...)
{
    char text[GPU_TEXT];
    va_list list;
    va_start(list, format);
    write_text(text, format, list);
    va_end(list);
    return plugin->host->error(plugin->host->context, status, text);
}

int32_t(gpu_error_native)(const gpu_plugin *plugin, int32_t status, int32_t native, const char *native_name,
                          const char *format, ...)
{
    char text[GPU_TEXT];
    va_list list;
    va_start(list, format);
    write_text(text, format, list);
    va_end(list);
    return plugin->host->error_native(plugin->host->context, status, text, native, native_name);
}

void *gpu_driver_state(const gpu_plugin *plugin)
{
    return plugin->driver_state;
}

/* ---- Devices --------------------------------------------------------------------------------------------- */

void gpu_write_pci(gpu_properties *out, uint32_t domain, uint32_t bus, uint32_t device, uint32_t function)
{
    snprintf(out->pci_address, sizeof out->pci_address, "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff,
             device & 0xff, function & 0xf);
}

int32_t gpu_native_of(uint32_t kind, const void *device, const void *context, const void *handle,
                      uint64_t *out)
{
    const void *const of_kind[] = {[TN_NATIVE_DEVICE] = device,
                                   [TN_NATIVE_CONTEXT] = context,
                                   [TN_NATIVE_STREAM] = handle,
                                   [TN_NATIVE_ALLOCATION] = handle};
    if (kind >= sizeof of_kind / sizeof *of_kind || !of_kind[kind]) return TN_E_UNSUPPORTED;
    *out = (uintptr_t)of_kind[kind];
    return TN_OK;
}

/*
 * Held while the driver finds and describes devices, by all contexts of the process: a runtime starts at the first such call,
 * and some (PoCL) are not safe when two threads make it at once.
 */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t start_once = PTHREAD_ONCE_INIT;

/* In the child of a fork the thread that held the lock does not exist. A fork does not wait for it: runtimes fork while they
 * start. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&start_lock, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

static void find(gpu_found *found)
{
    pthread_once(&start_once, watch_forks);
    pthread_mutex_lock(&start_lock);
    driver->find(found);
    pthread_mutex_unlock(&start_lock);
}

static void describe(gpu_plugin *p, uint32_t index, gpu_properties *out)
{
    pthread_mutex_lock(&start_lock);
    driver->describe(p, index, out);
    pthread_mutex_unlock(&start_lock);
}

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    gpu_plugin *p = self;
    gpu_found *found = calloc(1, driver->state_bytes);
    if (!found) return gpu_error(p, TN_E_OUT_OF_MEMORY, "out of host memory");
    p->driver_state = found;
    find(found);
    *out_count = p->n_devices = found->count;
    *out_reason = found->count       ? NULL
                  : found->reason[0] ? found->reason
                                     : "the driver's `find` counted no device and wrote no reason";
    return TN_OK;
}

static int32_t has_unified(const gpu_properties *of)
{
    return driver->unified_alloc && of->has_unified;
}

static uint32_t kinds_of_memory(const gpu_properties *of)
{
    return TN_MEMORY_DEVICE | (driver->host_alloc ? TN_MEMORY_HOST : 0) |
           (has_unified(of) ? TN_MEMORY_UNIFIED : 0);
}

static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    gpu_plugin *p = self;
    gpu_properties of = {0};
    if (index >= p->n_devices) return gpu_error(p, TN_E_DEVICE, "there is no device %u", index);
    describe(p, index, &of);
    if (of.device_class == TN_DEVICE_HOST) /* its work would have to be done when a call returns */
        return gpu_error(
            p, TN_E_CONTRACT,
            "`describe` of the driver has not set the device_class of device %u (TN_DEVICE_DISCRETE, ...)",
            index);
    gpu_device described = {.properties = of};
    tn_device_facts f = {.size = out->size,
                         .device_class = of.device_class,
                         .memory_kinds = kinds_of_memory(&of),
                         .compute_units = of.compute_units,
                         .total_memory = of.memory_bytes,
                         .alignment = of.alignment,
                         .max_allocation = of.largest_allocation,
                         .priority_low = of.priority_low,
                         .priority_high = of.priority_high,
                         .peers = of.peers,
                         .features = TN_FEATURE_INT64 | (of.has_double ? TN_FEATURE_FLOAT64 : 0) |
                                     (of.has_addresses ? TN_FEATURE_ADDRESSES : 0),
                         .dtypes = gpu_device_dtypes(&described)};
    memcpy(f.name, of.name, sizeof f.name);
    memcpy(f.architecture, of.architecture, sizeof f.architecture);
    memcpy(f.uuid, of.uuid, sizeof f.uuid);
    memcpy(f.pci_address, of.pci_address, sizeof f.pci_address);
    memcpy(out, &f, out->size < sizeof f ? out->size : sizeof f);
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    gpu_plugin *p = self;
    if (index >= p->n_devices) return gpu_error(p, TN_E_DEVICE, "there is no device %u", index);
    gpu_device *d = calloc(1, sizeof *d);
    if (!d) return gpu_error(p, TN_E_OUT_OF_MEMORY, "out of host memory");
    d->plugin = p;
    d->index = index;
    describe(p, index, &d->properties);
    int32_t status = driver->open(p, index, &d->handle);
    if (status) {
        free(d);
        return status;
    }
    pthread_mutex_init(&d->lock, NULL);
    gpu_fft_init(d);
    gpu_faults_init(d);
    pthread_mutex_lock(&p->lock);
    if (!p->cache_folder[0]) gpu_cache_find(p);
    d->next = p->devices;
    p->devices = d;
    pthread_mutex_unlock(&p->lock);
    *out_device = d;
    return TN_OK;
}

static void device_close(void *self, void *device)
{
    gpu_plugin *p = self;
    gpu_device *d = device;
    GPU_UNLINK(&p->lock, &p->devices, d);
    gpu_fft_finish(d);
    gpu_faults_finish(d);
    gpu_programs_destroy(d);
    driver->close(d->handle);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* Slots ask first whether the device is lost: a driver may then wait for ever. */
static int32_t device_status(void *self, void *device)
{
    return driver->status(((gpu_device *)device)->handle);
}

/* ---- Streams ---------------------------------------------------------------------------------------------- */

/* `native`: a queue of the program, or NULL. */
static int32_t make_stream(void *self, gpu_device *d, const uint64_t *native, int32_t priority,
                           void **out_stream)
{
    static const int32_t no_fault[GPU_FAULT_WORDS];
    int32_t status = device_status(self, d);
    if (status) return status;
    gpu_stream *s = calloc(1, sizeof *s);
    if (!s) return gpu_error(self, TN_E_OUT_OF_MEMORY, "out of host memory");
    s->device = d;
    status = native ? driver->queue_wrap(d->handle, *native, &s->queue)
                    : driver->queue_create(d->handle, priority, &s->queue);
    if (!status) status = driver->alloc(d->handle, sizeof no_fault, &s->faults);
    if (!status) status = driver->write(d->handle, s->queue, s->faults, 0, no_fault, sizeof no_fault);
    if (!status) {
        status = driver->queue_finish(d->handle, s->queue);
        if (status && status != TN_E_DEVICE_LOST) /* the write must have ended before its memory is freed */
            (void)driver->queue_finish(d->handle, s->queue);
    }
    if (status) {
        if (s->faults) driver->free(d->handle, s->faults);
        if (s->queue) driver->queue_destroy(d->handle, s->queue);
        free(s);
        return status;
    }
    GPU_LINK(&d->lock, &d->streams, s);
    *out_stream = s;
    return TN_OK;
}

static int32_t stream_create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    return make_stream(self, device, NULL, options->priority, out_stream);
}

static int32_t stream_wrap(void *self, void *device, uint64_t native, void **out_stream)
{
    if (driver->queue_wrap) return make_stream(self, device, &native, 0, out_stream);
    return gpu_error(self, TN_E_UNSUPPORTED, "queues of programs are not taken");
}

static void stream_destroy(void *self, void *device, void *stream)
{
    gpu_device *d = device;
    gpu_stream *s = stream;
    GPU_UNLINK(&d->lock, &d->streams, s);
    driver->queue_destroy(d->handle, s->queue);
    driver->free(d->handle, s->faults);
    gpu_graph_release(s->capture);
    free(s);
}

static int32_t stream_query(void *self, void *device, void *stream, int32_t *out_done)
{
    gpu_stream *s = stream;
    int32_t done = 0, status = device_status(self, device);
    if (!status) status = gpu_stream_check_runs(s, "querying a stream");
    if (!status) status = driver->queue_query(s->device->handle, s->queue, &done);
    if (!status) status = done ? gpu_stream_faults(s) : gpu_stream_faults_so_far(s);
    if (!status) *out_done = done;
    return status;
}

static int32_t stream_synchronize(void *self, void *device, void *stream)
{
    gpu_stream *s = stream;
    int32_t status = device_status(self, device);
    if (!status) status = gpu_stream_check_runs(s, "waiting for a stream");
    if (!status) status = driver->queue_finish(s->device->handle, s->queue);
    return status ? status : gpu_stream_faults(s);
}

static int32_t stream_wait_event(void *self, void *device, void *stream, void *event);

/* Of a stream, of an allocation, or of the device itself. */
static int32_t device_native(void *self, void *device, uint32_t kind, void *handle, uint64_t *out)
{
    if (kind == TN_NATIVE_STREAM) handle = ((gpu_stream *)handle)->queue;
    return driver->native(((gpu_device *)device)->handle, kind, handle, out);
}

static int32_t stream_host_callback(void *self, void *device, void *stream, void (*callback)(void *user),
                                    void *user)
{
    gpu_stream *s = stream;
    int32_t status = device_status(self, device);
    if (!status) status = gpu_stream_check_runs(s, "a callback");
    return status ? status : driver->queue_callback(s->device->handle, s->queue, callback, user);
}

/* The streams stay: the host destroys none while it synchronises their device. After an error the others are still waited for,
 * because the host then frees memory; what their kernels found wrong is left for the next wait. A stream that captures runs
 * nothing, and a wait for it would break its capture. */
static int32_t device_synchronize(void *self, void *device)
{
    gpu_device *d = device;
    const gpu_stream *captures = NULL;
    int32_t first = device_status(self, device);
    pthread_mutex_lock(&d->lock);
    gpu_stream *s = d->streams;
    pthread_mutex_unlock(&d->lock);
    for (; s && first != TN_E_DEVICE_LOST; s = s->next) {
        if (gpu_stream_capture(s)) {
            captures = s;
            continue;
        }
        int32_t status = driver->queue_finish(d->handle, s->queue);
        if (!status && !first) status = gpu_stream_faults(s);
        if (!first || status == TN_E_DEVICE_LOST) first = status;
    }
    return first || !captures ? first : gpu_stream_check_runs(captures, "waiting for a device");
}

/* ---- Events ----------------------------------------------------------------------------------------------- */

/* What the driver recorded. Each user holds one reference, so that a thread may wait while another records anew. */
typedef struct gpu_record {
    gpu_device *device;
    void *event;        /* the driver's */
    gpu_graph *capture; /* in which it was recorded, or NULL */
    uint32_t references;
} gpu_record;

typedef struct gpu_event {
    uint32_t flags; /* TN_EVENT_... */
    pthread_mutex_t lock;
    gpu_record *last; /* NULL: never recorded. Of an event that processes share it is always the same */
} gpu_event;

static void record_release(gpu_record *r)
{
    if (!r || __atomic_sub_fetch(&r->references, 1, __ATOMIC_ACQ_REL)) return;
    driver->event_release(r->device->handle, r->event);
    gpu_graph_release(r->capture);
    free(r);
}

/* The event's last record, retained, or NULL. */
static gpu_record *record_retain(gpu_event *e)
{
    pthread_mutex_lock(&e->lock);
    gpu_record *r = e->last;
    if (r) __atomic_add_fetch(&r->references, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&e->lock);
    return r;
}

static gpu_event *make_event(uint32_t flags, gpu_record *last)
{
    gpu_event *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->flags = flags;
    e->last = last;
    pthread_mutex_init(&e->lock, NULL);
    return e;
}

void *gpu_event_shared(gpu_device *device, void *event)
{
    gpu_record *r = malloc(sizeof *r);
    if (!r) return NULL;
    *r = (gpu_record){.device = device, .event = event, .references = 1};
    gpu_event *e = make_event(TN_EVENT_INTERPROCESS, r);
    if (!e) free(r);
    return e;
}

void *gpu_event_of_share(const void *event)
{
    return ((const gpu_event *)event)->last->event;
}

static int32_t event_create(void *self, void *device, uint32_t flags, void **out_event)
{
    gpu_device *d = device;
    void *event = NULL, *made;
    int32_t status = device_status(self, device);
    if (status) return status;
    if (flags & TN_EVENT_INTERPROCESS) {
        if (flags & TN_EVENT_TIMING)
            return gpu_error(self, TN_E_UNSUPPORTED, "an event that processes share has no time");
        status = driver->shares->event_create(d->handle, &event);
        if (status) return status;
        made = gpu_event_shared(d, event);
        if (!made) driver->event_release(d->handle, event);
    } else {
        made = make_event(flags, NULL);
    }
    if (!made) return gpu_error(self, TN_E_OUT_OF_MEMORY, "out of host memory");
    *out_event = made;
    return TN_OK;
}

static void event_destroy(void *self, void *device, void *event)
{
    gpu_event *e = event;
    record_release(e->last);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static int32_t event_record(void *self, void *device, void *event, void *stream)
{
    gpu_event *e = event;
    gpu_stream *s = stream;
    int32_t status = device_status(self, device);
    gpu_stream_is_recorded(s);
    if (!status && e->flags & TN_EVENT_INTERPROCESS) {
        status = gpu_stream_check_runs(s, "an event that processes share");
        return status ? status : driver->shares->event_record(s->device->handle, s->queue, e->last->event);
    }
    if (status) return status;
    gpu_record *r = malloc(sizeof *r), *before;
    if (!r) return gpu_error(self, TN_E_OUT_OF_MEMORY, "out of host memory");
    *r = (gpu_record){.device = s->device, .references = 1};
    status = driver->event_record_as
                 ? driver->event_record_as(s->device->handle, s->queue, e->flags, &r->event)
                 : driver->event_record(s->device->handle, s->queue, &r->event);
    if (status) {
        free(r);
        return status;
    }
    r->capture = gpu_graph_retain(gpu_stream_capture(s));
    pthread_mutex_lock(&e->lock);
    before = e->last;
    e->last = r;
    pthread_mutex_unlock(&e->lock);
    record_release(before);
    return TN_OK;
}

static int32_t event_query(void *self, void *device, void *event, int32_t *out_done)
{
    int32_t status = device_status(self, device);
    if (status) return status;
    gpu_record *r = record_retain(event);
    *out_done = 1;
    if (r) status = driver->event_query(r->device->handle, r->event, out_done);
    record_release(r);
    return status;
}

static int32_t event_synchronize(void *self, void *device, void *event)
{
    int32_t status = device_status(self, device);
    if (status) return status;
    gpu_record *r = record_retain(event);
    if (r) status = driver->event_wait(r->device->handle, r->event);
    record_release(r);
    return status;
}

static int32_t event_elapsed(void *self, void *device, void *start, void *end, double *out_ms)
{
    int32_t status = device_status(self, device);
    if (status) return status;
    gpu_record *from = record_retain(start), *to = record_retain(end);
    if (from && to)
        status = driver->event_elapsed(from->device->handle, from->event, to->event, out_ms);
    else
        status = gpu_error(self, TN_E_STATE, "elapsed: both events must have been recorded");
    record_release(from);
    record_release(to);
    return status;
}

int32_t gpu_event_wait_native(void *event, uint64_t native)
{
    gpu_record *r = record_retain(event);
    int32_t status = r ? driver->native_wait(r->device->handle, native, r->event) : TN_OK;
    record_release(r);
    return status;
}

/* Whether a queue of the device can wait for the event itself. */
static int32_t can_wait(const gpu_device *d, const gpu_record *r)
{
    if (r->device == d) return 1;
    return !r->capture && driver->waits_for && driver->waits_for(d->handle, r->device->handle);
}

static int32_t stream_wait_event(void *self, void *device, void *stream, void *event)
{
    gpu_stream *s = stream;
    int32_t status = device_status(self, device);
    if (status) return status;
    gpu_record *r = record_retain(event);
    if (r && can_wait(s->device, r)) {
        const int32_t has_joined = gpu_stream_join(s, r->capture);
        status = driver->queue_wait(s->device->handle, s->queue, r->event);
        if (status && has_joined) gpu_stream_leave(s);
    } else if (r) {
        status = driver->event_wait(r->device->handle, r->event);
    }
    record_release(r);
    return status;
}

/* ---- Memory and copies ------------------------------------------------------------------------------------ */

static int32_t check_request(gpu_device *d, const tn_memory_request *request)
{
    const uint64_t largest = d->properties.largest_allocation;
    const uint32_t kind = request->kind;
    if (kind != TN_MEMORY_DEVICE && !(kind == TN_MEMORY_UNIFIED && has_unified(&d->properties)))
        return gpu_error(d->plugin, TN_E_UNSUPPORTED, "there is no memory of kind %u", kind);
    if (largest && request->bytes > largest)
        return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY,
                         "cannot allocate %llu bytes: the largest allocation of the device has %llu bytes",
                         (unsigned long long)request->bytes, (unsigned long long)largest);
    return device_status(d->plugin, d);
}

/* Counts what the driver gave, and shows its address. */
static void show_memory(gpu_device *d, uint32_t kind, tn_memory *out)
{
    __atomic_fetch_add(&d->allocated, out->bytes, __ATOMIC_RELAXED);
    out->kind = kind;
    if (d->properties.has_addresses) out->address = (uintptr_t)out->allocation;
}

/* What the driver gives for the request. Other processes see device memory only, whatever kind is asked for. */
static int32_t take_memory(gpu_device *d, const tn_memory_request *request, tn_memory *out)
{
    const uint64_t bytes = request->bytes;
    const int32_t is_shareable = request->flags & TN_REQUEST_SHAREABLE && driver->shares;
    if (request->kind == TN_MEMORY_HOST && driver->host_alloc)
        return driver->host_alloc(d->handle, bytes, &out->allocation, &out->host);
    int32_t status = check_request(d, request);
    if (status) return status;
    if (is_shareable) {
        out->kind = TN_MEMORY_DEVICE;
        return driver->shares->alloc(d->handle, bytes, &out->allocation, &out->bytes);
    }
    if (request->kind == TN_MEMORY_UNIFIED)
        return driver->unified_alloc(d->handle, bytes, &out->allocation, &out->host);
    return driver->alloc(d->handle, bytes, &out->allocation);
}

static int32_t memory_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    tn_memory taken = {.kind = request->kind, .bytes = request->bytes};
    int32_t status = take_memory(device, request, &taken);
    if (status) return status;
    out->kind = taken.kind;
    out->bytes = taken.bytes;
    out->allocation = taken.allocation;
    out->host = taken.host;
    if (taken.kind != TN_MEMORY_HOST) show_memory(device, taken.kind, out);
    return TN_OK;
}

/* Addresses count as memory: a driver whose memory grows says itself how much is free. Device memory grows, and no other: where
 * tensors use unified memory, it is what they get if the program wants memory that grows. */
static int32_t memory_reserve(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    gpu_device *d = device;
    if (request->kind == TN_MEMORY_HOST || request->flags)
        return gpu_error(self, TN_E_UNSUPPORTED, "memory of kind %u with flags 0x%x does not grow",
                         request->kind, request->flags);
    int32_t status = device_status(self, device);
    if (!status) status = driver->reserve(d->handle, request->bytes, &out->allocation);
    if (status) return status;
    out->bytes = request->bytes;
    show_memory(d, TN_MEMORY_DEVICE, out);
    return TN_OK;
}

static int32_t memory_resize(void *self, void *device, void *allocation, uint64_t bytes)
{
    int32_t status = device_status(self, device);
    return status ? status : driver->resize(((gpu_device *)device)->handle, allocation, bytes);
}

static void memory_free(void *self, void *device, const tn_memory *memory)
{
    if (memory->kind == TN_MEMORY_HOST) {
        driver->host_free(((gpu_device *)device)->handle, memory->allocation, memory->host);
        return;
    }
    __atomic_fetch_sub(&((gpu_device *)device)->allocated, memory->bytes, __ATOMIC_RELAXED);
    driver->free(((gpu_device *)device)->handle, memory->allocation);
}

static int32_t memory_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *stream)
{
    uint8_t pattern = (uint8_t)value;
    int32_t status = device_status(self, device);
    if (status) return status;
    return driver->fill(((gpu_device *)device)->handle, ((gpu_stream *)stream)->queue, allocation, offset,
                        bytes, &pattern, 1);
}

/* Where the driver does not say how much is free, it is what this context has not taken. */
static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    gpu_device *d = device;
    int32_t status =
        driver->memory_info ? driver->memory_info(d->handle, out_free, out_total) : TN_E_UNSUPPORTED;
    if (status != TN_E_UNSUPPORTED) return status;
    status = device_status(self, device);
    if (status) return status;
    uint64_t total = d->properties.memory_bytes, taken = __atomic_load_n(&d->allocated, __ATOMIC_RELAXED);
    *out_free = total > taken ? total - taken : 0;
    *out_total = total;
    return TN_OK;
}

static int32_t host_to_device(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *stream)
{
    int32_t status = device_status(self, device);
    if (!status) status = gpu_stream_check_runs(stream, "a copy from the host");
    if (status) return status;
    return driver->write(((gpu_device *)device)->handle, ((gpu_stream *)stream)->queue, allocation, offset,
                         host, bytes);
}

static int32_t device_to_host(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *stream)
{
    int32_t status = device_status(self, device);
    if (!status) status = gpu_stream_check_runs(stream, "a copy to the host");
    if (status) return status;
    return driver->read(((gpu_device *)device)->handle, ((gpu_stream *)stream)->queue, host, allocation,
                        offset, bytes);
}

static int32_t device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream)
{
    int32_t status = device_status(self, device);
    if (status) return status;
    return driver->copy(((gpu_device *)device)->handle, ((gpu_stream *)stream)->queue, to, to_offset, from,
                        from_offset, bytes);
}

static int32_t copy_peer(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device,
                         void *from, uint64_t from_offset, uint64_t bytes, void *stream)
{
    int32_t status = device_status(self, to_device);
    if (!status) status = gpu_stream_check_runs(stream, "a copy between devices");
    if (status) return status;
    return driver->peer_copy(((gpu_device *)to_device)->handle, ((gpu_stream *)stream)->queue, to, to_offset,
                             ((gpu_device *)from_device)->handle, from, from_offset, bytes);
}

/* ---- Tables ----------------------------------------------------------------------------------------------- */

static const tn_device_interface device_interface_of_type =
    TN_INTERFACE(tn_device_interface, .type = NULL, .enumerate = enumerate, .facts = facts,
                 .open = device_open, .close = device_close, .status = device_status,
                 .synchronize = device_synchronize, .native = device_native);
static const tn_memory_interface memory_interface_of_all =
    TN_INTERFACE(tn_memory_interface, .alloc = memory_alloc, .free = memory_free, .fill = memory_fill,
                 .info = memory_info, .reserve = memory_reserve, .resize = memory_resize);
static const tn_copy_interface copy_interface_of_all =
    TN_INTERFACE(tn_copy_interface, .host_to_device = host_to_device, .device_to_host = device_to_host,
                 .device_to_device = device_to_device, .peer = copy_peer);
static const tn_stream_interface stream_interface =
    TN_INTERFACE(tn_stream_interface, .create = stream_create, .destroy = stream_destroy,
                 .query = stream_query, .synchronize = stream_synchronize, .wait_event = stream_wait_event,
                 .host_callback = stream_host_callback, .wrap = stream_wrap);
static const tn_event_interface event_interface =
    TN_INTERFACE(tn_event_interface, .create = event_create, .destroy = event_destroy, .record = event_record,
                 .query = event_query, .synchronize = event_synchronize, .elapsed = event_elapsed);

static const char *const experimental_names[] = {"tenon.x.activity"};
static const tn_experimental_interface experimental_interface =
    TN_INTERFACE(tn_experimental_interface, .count = 1, .names = experimental_names);

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    gpu_plugin *p = self;
    if (version != 1) return NULL;
    if (!strcmp(name, "tenon.device")) return &p->device_interface;
    if (!strcmp(name, "tenon.memory")) return &p->memory_interface;
    if (!strcmp(name, "tenon.copy")) return &p->copy_interface;
    if (!strcmp(name, "tenon.stream")) return &stream_interface;
    if (!strcmp(name, "tenon.event")) return &event_interface;
    if (!strcmp(name, "tenon.settings")) return &gpu_settings_interface;
    if (!strcmp(name, "tenon.interop")) return &p->interop_interface;
    if (!strcmp(name, "tenon.collectives")) return driver->collectives;
    if (!strcmp(name, "tenon.x.activity")) return driver->activities;
    if (!strcmp(name, "tenon.experimental")) return driver->activities ? &experimental_interface : NULL;
    if (!strcmp(name, "tenon.graph")) return driver->graphs ? &gpu_graph_interface : NULL;
    return strcmp(name, "tenon.kernels") ? NULL : &p->kernels;
}

static void shutdown(void *self)
{
    gpu_plugin *p = self;
    const tn_host *host = p->host;
    if (p->driver_state && driver->forget) driver->forget(p->driver_state);
    free(p->driver_state);
    pthread_mutex_destroy(&p->lock);
    if (p->rows) host->free(host->context, p->rows, p->n_rows * sizeof *p->rows);
    host->free(host->context, p, sizeof *p);
}

/* The name of a slot that the driver must have and lacks, or NULL. */
static const char *missing_slot(void)
{
#define GPU_REQUIRED(X) \
    X(find)             \
    X(describe)         \
    X(open)             \
    X(close)            \
    X(status)           \
    X(native)           \
    X(alloc)            \
    X(free)             \
    X(retain)           \
    X(queue_create)     \
    X(queue_destroy)    \
    X(queue_query)      \
    X(queue_finish)     \
    X(queue_wait)       \
    X(native_wait)      \
    X(queue_callback)   \
    X(event_record)     \
    X(event_release)    \
    X(event_query)      \
    X(event_wait)       \
    X(event_elapsed)    \
    X(write)            \
    X(read)             \
    X(copy)             \
    X(fill)             \
    X(program_create)   \
    X(program_destroy)  \
    X(kernel_create)    \
    X(kernel_destroy)   \
    X(launch)
#define GPU_LOOK(slot) \
    if (!driver->slot) return #slot;
    GPU_REQUIRED(GPU_LOOK)
    if (driver->host_alloc && !driver->host_free) return "host_free";
    if (driver->reserve && !driver->resize) return "resize";
    return driver->range_begin && !driver->range_end ? "range_end" : NULL;
}

/* A driver with a hole would crash at some later call. */
static int32_t check_driver(const tn_host *host)
{
    const gpu_plugin p = {.host = host};
    const char *slot = missing_slot();
    if (slot)
        return gpu_error(&p, TN_E_CONTRACT, "the driver lacks the required slot %s (plugins/gpu/driver.h)",
                         slot);
    if (driver->state_bytes < sizeof(gpu_found))
        return gpu_error(
            &p, TN_E_CONTRACT,
            "state_bytes of the driver is %zu, but its state begins with a gpu_found of %zu bytes",
            driver->state_bytes, sizeof(gpu_found));
    return TN_OK;
}

static int32_t init(const tn_host *host, void **out_self)
{
    int32_t status = check_driver(host);
    if (status) return status;
    gpu_plugin *p = host->alloc(host->context, sizeof *p);
    if (!p) return host->error(host->context, TN_E_OUT_OF_MEMORY, "out of host memory");
    *p = (gpu_plugin){.host = host,
                      .device_interface = device_interface_of_type,
                      .copy_interface = copy_interface_of_all,
                      .memory_interface = memory_interface_of_all};
    p->device_interface.type = driver->type;
    if (!driver->peer_copy) p->copy_interface.peer = NULL;
    if (!driver->reserve) p->memory_interface.reserve = NULL;
    if (!driver->resize) p->memory_interface.resize = NULL;
    gpu_interop_make(&p->interop_interface);
    pthread_mutex_init(&p->lock, NULL);
    status = gpu_rows_make(p);
    if (status)
        shutdown(p);
    else
        *out_self = p;
    return status;
}

int32_t gpu_entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const tn_plugin_table slots = {.init = init, .get_interface = get_interface, .shutdown = shutdown};
    return tn_negotiate_slots(offer, out, &slots);
}
