/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver of the GPU family over CUDA's driver API, and over HIP, which has the same functions under other names: the HIP
 * plugin compiles this file, too, with its own symbols.h. Memory is an address, and a stream is a CUstream. Programs are
 * images of the build. What a vendor does in its own way is in cuda.c and ../hip/hip.c. Read it from the bottom.
 */
#include "cuda_driver.h"
#include "modules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 64 /* devices: as many as the facts have bits for peers */

/* ---- The library, devices and statuses --------------------------------------------------------------------- */

typedef struct cuda_state {
    gpu_found found;
    cuda_symbols cu;
    void *library;
    CUdevice devices[MOST];
    uint32_t captures; /* of cuda_device */
} cuda_state;

/* Memory of another library, which `free` leaves alone. */
struct borrowed {
    borrowed *next;
    void *memory;
    uint32_t count;
};

/* ---- Calls -------------------------------------------------------------------------------------------------- */

enum { MODES = 4, MODE_UNKNOWN = MODES - 1 }; /* of captures; the last one: the runtime did not tell */

/* Gives the mode that the thread had. */
static int32_t relax(const cuda_device *d)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!d->cu->cuThreadExchangeStreamCaptureMode) return MODE_UNKNOWN;
    return d->cu->cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS ? (int32_t)mode : MODE_UNKNOWN;
}

int32_t cuda_enter(const cuda_device *d)
{
    const int32_t was_set = cuda_set_current(d);
    return was_set < 0 ? was_set : was_set * MODES + relax(d);
}

void cuda_leave(const cuda_device *d, int32_t was_entered)
{
    if (was_entered < 0) return;
    CUstreamCaptureMode mode = (CUstreamCaptureMode)(was_entered % MODES);
    if (was_entered % MODES != MODE_UNKNOWN) d->cu->cuThreadExchangeStreamCaptureMode(&mode);
    cuda_reset_current(d, was_entered / MODES);
}

/* A call that needs the context and nothing else. */
static int32_t answers(cuda_device *d)
{
    size_t available, total;
    return CALL(d, cuMemGetInfo, &available, &total) == CUDA_SUCCESS;
}

int32_t cuda_check(cuda_device *d, CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) return TN_OK;
    int32_t status =
        cuda_is_doubtful(result) ? answers(d) ? TN_E_INTERNAL : TN_E_DEVICE_LOST : cuda_status_of(result);
    if (status == TN_E_DEVICE_LOST) __atomic_store_n(&d->lost, result, __ATOMIC_RELEASE);
    const char *name = cuda_result_name(d->cu, result);
    const size_t length = strlen(what); /* without the symbol's version: cuMemAlloc_v2 */
    const int shown = (int)(length > 3 && memcmp(what + length - 3, "_v", 2) == 0 ? length - 3 : length);
    return gpu_error_native(d->plugin, status, (int32_t)result, name, "%.*s failed: %s%s", shown, what, name,
                            VENDOR_HINT(result));
}

static int32_t device_status(void *device)
{
    cuda_device *d = device;
    CUresult lost = __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
    if (lost == CUDA_SUCCESS) return TN_OK;
    const char *name = cuda_result_name(d->cu, lost);
    return gpu_error_native(d->plugin, TN_E_DEVICE_LOST, (int32_t)lost, name, "the context is lost: %s",
                            name);
}

static int32_t load(cuda_state *s)
{
    s->library = gpu_load(&s->found, VENDOR_LIBRARY, VENDOR_LIBRARY " not found: " VENDOR_LACKS);
    if (!s->library) return 0;
#define LOAD(name)                                                                                      \
    *(void **)(void *)&s->cu.name = dlsym(s->library, NAME(name));                                      \
    if (!s->cu.name) {                                                                                  \
        snprintf(s->found.reason, sizeof s->found.reason, VENDOR_LIBRARY " has no %s: " VENDOR_TOO_OLD, \
                 NAME(name));                                                                           \
        return 0;                                                                                       \
    }
    CUDA_REQUIRED(LOAD)
#undef LOAD
#define LOAD(name) *(void **)(void *)&s->cu.name = dlsym(s->library, NAME(name));
    CUDA_OPTIONAL(LOAD)
#undef LOAD
    return 1;
}

CUdevice cuda_device_id(const gpu_plugin *plugin, uint32_t index)
{
    return ((const cuda_state *)gpu_driver_state(plugin))->devices[index];
}

int32_t cuda_number_of(const cuda_symbols *cu, CUdevice id, CUdevice_attribute what)
{
    int number = 0;
    return cu->cuDeviceGetAttribute(&number, what, id) == CUDA_SUCCESS ? number : 0;
}

static void find(void *state)
{
    cuda_state *s = state;
    int count = 0;
    if (!load(s)) return;
    CUresult result = s->cu.cuInit(0);
    if (result != CUDA_SUCCESS) {
        snprintf(s->found.reason, sizeof s->found.reason, NAME(cuInit) " failed: %s%s",
                 cuda_result_name(&s->cu, result),
                 result == CUDA_ERROR_NOT_INITIALIZED
                     ? ": this process was forked from one that uses " VENDOR_NAME
                     : "");
        return;
    }
    if (!cuda_driver_fits(&s->cu, s->found.reason, sizeof s->found.reason)) return;
    result = s->cu.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS) {
        snprintf(s->found.reason, sizeof s->found.reason, NAME(cuDeviceGetCount) " failed: %s",
                 cuda_result_name(&s->cu, result));
        return;
    }
    for (int i = 0; i < count && s->found.count < MOST; i++) {
        CUdevice id;
        if (s->cu.cuDeviceGet(&id, i) == CUDA_SUCCESS && cuda_device_fits(&s->cu, id))
            s->devices[s->found.count++] = id;
    }
    if (!s->found.count)
        snprintf(s->found.reason, sizeof s->found.reason, "found %d GPU%s, none of " VENDOR_NEEDS, count,
                 count == 1 ? "" : "s");
}

static void describe(gpu_plugin *plugin, uint32_t index, gpu_properties *out)
{
    const cuda_state *s = gpu_driver_state(plugin);
    CUdevice id = s->devices[index];
    CUuuid uuid = {{0}};
    size_t bytes = 0;
    int version = 0, can = 0;
    int32_t is_integrated = cuda_number_of(&s->cu, id, CU_DEVICE_ATTRIBUTE_INTEGRATED);
    s->cu.cuDeviceTotalMem(&bytes, id);
    s->cu.cuDriverGetVersion(&version);
    *out = (gpu_properties){
        .device_class = is_integrated ? TN_DEVICE_INTEGRATED : TN_DEVICE_DISCRETE,
        .compute_units = (uint32_t)cuda_number_of(&s->cu, id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        .memory_bytes = bytes,
        .alignment = 256, /* of an allocation */
        .has_double = 1,
        .has_addresses = 1,
        .has_unified = VENDOR_HAS_UNIFIED(&s->cu, id),
        .is_precompiled = 1,
        .has_dense = 1,
        .priority_high = VENDOR_URGENT,
    };
    if (s->cu.cuDeviceGetUuid(&uuid, id) == CUDA_SUCCESS) memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
    if (s->cu.cuDeviceGetPCIBusId(out->pci_address, sizeof out->pci_address, id) != CUDA_SUCCESS)
        out->pci_address[0] = 0;
    if (s->cu.cuDeviceGetName(out->name, sizeof out->name, id) != CUDA_SUCCESS) out->name[0] = 0;
    for (uint32_t i = 0; i < s->found.count; i++)
        if (i != index && s->cu.cuDeviceCanAccessPeer(&can, id, s->devices[i]) == CUDA_SUCCESS && can)
            out->peers |= (uint64_t)1 << i;
    cuda_write_architecture(&s->cu, id, out->architecture, sizeof out->architecture);
    snprintf(out->identity, sizeof out->identity, "%s|%s|%d", out->name, out->architecture, version);
}

static int32_t open_device(gpu_plugin *plugin, uint32_t index, void **out_device)
{
    cuda_state *s = gpu_driver_state(plugin);
    cuda_device *d = calloc(1, sizeof *d);
    if (!d) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *d = (cuda_device){
        .plugin = plugin, .cu = &s->cu, .index = index, .id = s->devices[index], .captures = &s->captures};
    int32_t status = cuda_open(d);
    if (status) {
        free(d);
        return status;
    }
    cuda_callbacks_init(&d->callbacks);
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->mapping, NULL);
    *out_device = d;
    return TN_OK;
}

static void program_destroy(void *device, void *program);
static void kernel_destroy(void *device, void *kernel) {}

static void close_device(void *device)
{
    cuda_device *d = device;
    if (d->fill_program) program_destroy(d, d->fill_program);
    for (uint32_t kind = 0; kind < sizeof d->pool / sizeof *d->pool; kind++)
        cuda_events_destroy(d, d->pool[kind]);
    for (borrowed *b = d->borrowed, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    cuda_close(d);
    cuda_callbacks_finish(&d->callbacks);
    pthread_mutex_destroy(&d->mapping);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

static CUdeviceptr address_of(const void *memory, uint64_t offset)
{
    return (CUdeviceptr)((uintptr_t)memory + offset);
}

static int32_t alloc(void *device, uint64_t bytes, void **out_memory)
{
    cuda_device *d = device;
    CUdeviceptr address = (CUdeviceptr)0;
    char what[64];
    CUresult result = CALL(d, cuMemAlloc, &address, bytes);
    if (result != CUDA_SUCCESS) {
        snprintf(what, sizeof what, "an allocation of %llu bytes", (unsigned long long)bytes);
        return cuda_check(d, result, what);
    }
    *out_memory = (void *)(uintptr_t)address;
    return TN_OK;
}

/* Takes one reference from memory of another library; 0 if it is the plugin's own. */
static int32_t give_back(cuda_device *d, const void *memory)
{
    if (!__atomic_load_n(&d->borrowed, __ATOMIC_ACQUIRE)) return 0;
    pthread_mutex_lock(&d->lock);
    borrowed **at = &d->borrowed, *found;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    found = *at;
    if (found && --found->count == 0) {
        __atomic_store_n(at, found->next, __ATOMIC_RELEASE);
        free(found);
    }
    pthread_mutex_unlock(&d->lock);
    return found != NULL;
}

static void free_memory(void *device, void *memory)
{
    cuda_device *d = device;
    if (!give_back(d, memory) && !VENDOR_FREE_SHARED(d, memory) && !VENDOR_FREE_SEGMENT(d, memory))
        CALL(d, cuMemFree, address_of(memory, 0));
}

/* Where the allocation, or the mapped piece, that contains an address of this device ends. */
static CUresult range_at(cuda_device *d, uintptr_t address, uintptr_t *out_end)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    int ordinal = -1;
    CUresult result =
        CALL(d, cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)address);
    if (result == CUDA_SUCCESS && ordinal != d->id) return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) result = CALL(d, cuMemGetAddressRange, &base, &bytes, (CUdeviceptr)address);
    if (result == CUDA_SUCCESS) *out_end = (uintptr_t)base + bytes;
    return result;
}

/* The address may lie inside an allocation: then the bytes are those behind it. Memory that grows is mapped in pieces, which
 * follow each other. */
static int32_t retain(void *device, void *memory, uint64_t *out_bytes)
{
    cuda_device *d = device;
    uintptr_t end = 0;
    CUresult result = range_at(d, (uintptr_t)memory, &end);
    if (result != CUDA_SUCCESS)
        return gpu_error(d->plugin, TN_E_ARGUMENT, "%p is not memory of this device (%s)", memory,
                         cuda_result_name(d->cu, result));
    while (end - (uintptr_t)memory < *out_bytes && range_at(d, end, &end) == CUDA_SUCCESS) continue;
    pthread_mutex_lock(&d->lock);
    borrowed *b = d->borrowed;
    while (b && b->memory != memory) b = b->next;
    if (!b && (b = calloc(1, sizeof *b)) != NULL) {
        *b = (borrowed){.next = d->borrowed, .memory = memory};
        __atomic_store_n(&d->borrowed, b, __ATOMIC_RELEASE);
    }
    if (b) b->count++;
    pthread_mutex_unlock(&d->lock);
    if (!b) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *out_bytes = end - (uintptr_t)memory;
    return TN_OK;
}

/* Pinned for all devices of the process. */
static int32_t host_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    cuda_device *d = device;
    void *host = NULL;
    int32_t status = CHECKED(d, cuMemHostAlloc, &host, bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (status) return status;
    *out_memory = *out_host = host;
    return TN_OK;
}

static void host_free(void *device, void *memory, void *host)
{
    CALL((cuda_device *)device, cuMemFreeHost, host);
}

static int32_t memory_info(void *device, uint64_t *out_free, uint64_t *out_total)
{
    cuda_device *d = device;
    size_t available = 0, total = 0;
    int32_t status = CHECKED(d, cuMemGetInfo, &available, &total);
    if (status) return status;
    *out_free = available;
    *out_total = total;
    return TN_OK;
}

/* ---- Queues ------------------------------------------------------------------------------------------------ */

static int32_t make_queue(cuda_device *d, CUstream stream, int32_t is_wrapped, void **out_queue)
{
    cuda_queue *q = malloc(sizeof *q);
    if (!q) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *q = (cuda_queue){stream, is_wrapped};
    *out_queue = q;
    return TN_OK;
}

/* Such streams do not wait for the program's default stream. */
static int32_t queue_create(void *device, int32_t priority, void **out_queue)
{
    cuda_device *d = device;
    CUstream stream = NULL;
    int32_t status = CHECKED(d, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, priority);
    if (status) return status;
    status = make_queue(d, stream, 0, out_queue);
    if (status) CALL(d, cuStreamDestroy, stream);
    return status;
}

/* The default streams (NULL and CU_STREAM_LEGACY) are those of the context that is current. CU_STREAM_PER_THREAD is another
 * stream on each thread, and the threads of a program share a queue. */
static int32_t queue_wrap(void *device, uint64_t native, void **out_queue)
{
    cuda_device *d = device;
    CUstream stream = VENDOR_STREAM_OF(native);
    CUcontext context = d->context;
    if (stream == CU_STREAM_PER_THREAD)
        return gpu_error(
            d->plugin, TN_E_ARGUMENT,
            "the default stream per thread is another stream on each thread: give one that was created");
    if (native > (uintptr_t)CU_STREAM_PER_THREAD) {
        int32_t status = cuda_stream_context(d, stream, &context);
        if (status) return status;
    }
    if (context != d->context) return gpu_error(d->plugin, TN_E_ARGUMENT, "the stream is of another context");
    return make_queue(d, stream, 1, out_queue);
}

static void queue_destroy(void *device, void *queue)
{
    cuda_device *d = device;
    cuda_callbacks_end(d, queue);
    if (!((cuda_queue *)queue)->is_wrapped) CALL(d, cuStreamDestroy, cuda_stream_of(queue));
    free(queue);
}

static int32_t queue_query(void *device, void *queue, int32_t *out_done)
{
    cuda_device *d = device;
    CUresult result = CALL(d, cuStreamQuery, cuda_stream_of(queue));
    *out_done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? TN_OK : cuda_check(d, result, "queued work");
}

static int32_t queue_finish(void *device, void *queue)
{
    cuda_device *d = device;
    return cuda_check(d, CALL(d, cuStreamSynchronize, cuda_stream_of(queue)), "queued work");
}

/* Whether the event was recorded before the stream, which had no unfinished work then, began to capture. A runtime may refuse
 * questions about it, and break the capture. */
static int32_t is_before_capture(cuda_device *d, const cuda_event *e)
{
    return !e->is_captured && VENDOR_CAPTURES(d, e->stream);
}

/* A wait is for what the event has recorded now, so that the event may be recorded again at once. */
static int32_t native_wait(void *device, uint64_t native, void *event)
{
    cuda_device *d = device;
    if (is_before_capture(d, event)) return TN_OK;
    return CHECKED(d, cuStreamWaitEvent, VENDOR_STREAM_OF(native), ((cuda_event *)event)->event,
                   CU_EVENT_WAIT_DEFAULT);
}

/* A stream waits for events of every device. */
static int32_t waits_for(void *device, void *other)
{
    return 1;
}

static int32_t queue_wait(void *device, void *queue, void *event)
{
    return native_wait(device, (uintptr_t)cuda_stream_of(queue), event);
}

static int32_t dlpack_id(void *device)
{
    return (int32_t)((const cuda_device *)device)->id;
}

static int32_t native(void *device, uint32_t kind, void *handle, uint64_t *out)
{
    const cuda_device *d = device;
    switch (kind) {
    case TN_NATIVE_DEVICE:
        *out = (uint64_t)d->id;
        return TN_OK;
    case TN_NATIVE_CONTEXT:
        *out = (uintptr_t)d->context;
        return TN_OK;
    case TN_NATIVE_STREAM:
        *out = (uintptr_t)cuda_stream_of(handle);
        return TN_OK;
    case TN_NATIVE_ALLOCATION:
        *out = (uintptr_t)handle;
        return TN_OK;
    default:
        return TN_E_UNSUPPORTED;
    }
}

/* ---- Events ------------------------------------------------------------------------------------------------ */

/* An event of the pool, or a new one. */
static int32_t take_event(cuda_device *d, uint32_t has_time, cuda_event **out)
{
    pthread_mutex_lock(&d->lock);
    cuda_event *e = d->pool[has_time];
    if (e) d->pool[has_time] = e->next;
    pthread_mutex_unlock(&d->lock);
    if (!e) {
        e = malloc(sizeof *e);
        if (!e) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
        *e = (cuda_event){.has_time = has_time};
        int32_t status =
            CHECKED(d, cuEventCreate, &e->event, has_time ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
        if (status) {
            free(e);
            return status;
        }
    }
    *out = e;
    return TN_OK;
}

void cuda_events_destroy(cuda_device *d, cuda_event *first)
{
    for (cuda_event *e = first, *next; e; e = next) {
        next = e->next;
        CALL(d, cuEventDestroy, e->event);
        free(e);
    }
}

static void event_release(void *device, void *event)
{
    cuda_device *d = device;
    cuda_event *e = event;
    if (e->is_shared) {
        CALL(d, cuEventDestroy, e->event);
        free(e);
        return;
    }
    GPU_LINK(&d->lock, &d->pool[e->is_captured ? CUDA_EVENTS_OF_CAPTURES : e->has_time], e);
}

static int32_t event_record_as(void *device, void *queue, uint32_t flags, void **out_event)
{
    cuda_device *d = device;
    cuda_event *e = NULL;
    int32_t status = take_event(d, (flags & TN_EVENT_TIMING) != 0, &e);
    if (status) return status;
    e->stream = cuda_stream_of(queue);
    e->is_captured = (uint32_t)VENDOR_CAPTURES(d, e->stream);
    status = CHECKED(d, cuEventRecord, e->event, e->stream);
    if (status)
        event_release(d, e);
    else
        *out_event = e;
    return status;
}

static int32_t event_record(void *device, void *queue, void **out_event)
{
    return event_record_as(device, queue, TN_EVENT_TIMING, out_event);
}

static int32_t event_query(void *device, void *event, int32_t *out_done)
{
    cuda_device *d = device;
    *out_done = is_before_capture(d, event);
    if (*out_done) return TN_OK;
    CUresult result = CALL(d, cuEventQuery, ((cuda_event *)event)->event);
    *out_done = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_READY ? TN_OK : cuda_check(d, result, "queued work");
}

static int32_t event_wait(void *device, void *event)
{
    cuda_device *d = device;
    if (is_before_capture(d, event)) return TN_OK;
    return cuda_check(d, VENDOR_WAIT(d, ((cuda_event *)event)->event), "queued work");
}

static int32_t event_elapsed(void *device, void *start, void *end, double *out_ms)
{
    cuda_device *d = device;
    const cuda_event *from = start, *to = end;
    float ms = 0;
    if (!from->has_time || !to->has_time)
        return gpu_error(d->plugin, TN_E_STATE,
                         "elapsed: both events must have been created with TN_EVENT_TIMING");
    int32_t status = event_wait(d, end);
    if (!status) status = event_wait(d, start);
    if (!status) status = CHECKED(d, cuEventElapsedTime, &ms, from->event, to->event);
    if (!status) *out_ms = (double)ms;
    return status;
}

/* ---- Programs ---------------------------------------------------------------------------------------------- */

typedef struct cuda_module {
    CUmodule module;
    char name[64]; /* of the program, FILE_TYPE_GROUP[_DTYPE]: its kernels' names end in it */
} cuda_module;

static int32_t option(const char *options, const char *name)
{
    const char *at = strstr(options, name);
    return at ? atoi(at + strlen(name)) : -1;
}

/* `source` is the name of the file without its ending. */
static int32_t program_create(void *device, const char *source, const char *options, const gpu_binary *binary,
                              void **out_program, gpu_binary *out_binary)
{
    cuda_device *d = device;
    char name[64];
    int32_t dtype = option(options, "-DGPU_DTYPE=");
    int n = snprintf(name, sizeof name, "%s_%d_%d", source, option(options, "-DGPU_TYPE="),
                     option(options, "-DGPU_GROUP="));
    if (dtype >= 0) snprintf(name + n, sizeof name - (size_t)n, "_%d", dtype);
    const gpu_module *compiled = gpu_module_find(source, options);
    if (!compiled)
        return gpu_error(d->plugin, TN_E_INTERNAL, "the plugin was built without the program %s", name);
    cuda_module *m = malloc(sizeof *m);
    if (!m) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    memcpy(m->name, name, sizeof name);
    int32_t status = CHECKED(d, cuModuleLoadData, &m->module, compiled->bytes);
    if (status)
        free(m);
    else
        *out_program = m;
    return status;
}

static void program_destroy(void *device, void *program)
{
    CALL((cuda_device *)device, cuModuleUnload, ((cuda_module *)program)->module);
    free(program);
}

static int32_t kernel_create(void *device, void *program, const char *name, void **out_kernel)
{
    cuda_device *d = device;
    const cuda_module *m = program;
    CUfunction function = NULL;
    char symbol[128];
    snprintf(symbol, sizeof symbol, "%s__%s", name, m->name);
    int32_t status = cuda_check(d, CALL(d, cuModuleGetFunction, &function, m->module, symbol), symbol);
    if (!status) *out_kernel = function;
    return status;
}

static int32_t launch(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                      uint32_t n_arguments, uint64_t items, uint32_t group)
{
    cuda_device *d = device;
    CUdeviceptr addresses[GPU_ARGUMENTS];
    void *values[GPU_ARGUMENTS];
    for (uint32_t i = 0; i < n_arguments; i++) {
        addresses[i] = address_of(arguments[i].value, 0);
        values[i] = arguments[i].is_memory ? (void *)&addresses[i] : (void *)(uintptr_t)arguments[i].value;
    }
    return CHECKED(d, cuLaunchKernel, kernel, (unsigned)(items / group), 1, 1, group, 1, 1, 0,
                   cuda_stream_of(queue), values, NULL);
}

/* ---- Copies ------------------------------------------------------------------------------------------------ */

static int32_t write_memory(void *device, void *queue, void *memory, uint64_t offset, const void *host,
                            uint64_t bytes)
{
    cuda_device *d = device;
    return CHECKED(d, cuMemcpyHtoDAsync, address_of(memory, offset), (void *)(uintptr_t)host, bytes,
                   cuda_stream_of(queue));
}

static int32_t read_memory(void *device, void *queue, void *host, void *memory, uint64_t offset,
                           uint64_t bytes)
{
    cuda_device *d = device;
    return CHECKED(d, cuMemcpyDtoHAsync, host, address_of(memory, offset), bytes, cuda_stream_of(queue));
}

static int32_t copy_memory(void *device, void *queue, void *to, uint64_t to_offset, void *from,
                           uint64_t from_offset, uint64_t bytes)
{
    cuda_device *d = device;
    return CHECKED(d, cuMemcpyDtoDAsync, address_of(to, to_offset), address_of(from, from_offset), bytes,
                   cuda_stream_of(queue));
}

/* Two threads may do that at once. */
int32_t cuda_open_peer(cuda_device *d, cuda_device *other)
{
    const uint64_t bit = (uint64_t)1 << other->index;
    pthread_mutex_lock(&d->lock);
    const int32_t is_open = (d->peers & bit) != 0;
    pthread_mutex_unlock(&d->lock);
    if (is_open) return TN_OK;
    CUresult result = CALL(d, cuCtxEnablePeerAccess, other->context, 0);
    int32_t status = TN_OK;
    if (result == CUDA_SUCCESS ||
        result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) /* by another library, too */
        status = VENDOR_ADMIT(other, d);
    else if (!VENDOR_COPIES_WITHOUT_ACCESS(result)) /* then the driver copies through the host */
        status = cuda_check(d, result, NAME(cuCtxEnablePeerAccess));
    if (status) return status;
    pthread_mutex_lock(&d->lock);
    d->peers |= bit;
    pthread_mutex_unlock(&d->lock);
    return TN_OK;
}

static int32_t peer_copy(void *to_device, void *queue, void *to, uint64_t to_offset, void *from_device,
                         void *from, uint64_t from_offset, uint64_t bytes)
{
    cuda_device *d = to_device;
    cuda_device *other = from_device;
    int32_t status = cuda_open_peer(d, other);
    if (status) return status;
    return CHECKED(d, cuMemcpyPeerAsync, address_of(to, to_offset), d->context, address_of(from, from_offset),
                   other->context, bytes, cuda_stream_of(queue));
}

static int32_t find_fill(cuda_device *d)
{
    int32_t status = TN_OK;
    pthread_mutex_lock(&d->lock);
    if (!d->fill_program)
        status = program_create(d, gpu_sources[GPU_FILE_MEMORY].text,
                                "-DGPU_TYPE=0 -DGPU_GROUP=0 -DGPU_PROCESSOR=0", NULL, &d->fill_program, NULL);
    if (!status && !d->fill_kernel) status = kernel_create(d, d->fill_program, "fill", &d->fill_kernel);
    pthread_mutex_unlock(&d->lock);
    return status;
}

int32_t cuda_launch_nothing(cuda_device *d, CUstream stream)
{
    const gpu_nest nest = {.rank = 1};
    const gpu_argument arguments[] = {{.is_memory = 1}, {.bytes = sizeof nest, .value = &nest}};
    cuda_queue queue = {.stream = stream};
    int32_t status = find_fill(d);
    return status ? status
                  : launch(d, &queue, d->fill_kernel, arguments, 2, GPU_GROUP_ITEMS, GPU_GROUP_ITEMS);
}

/* Patterns that CUDA does not set. */
static int32_t fill_by_kernel(cuda_device *d, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                              const void *pattern, uint32_t pattern_bytes)
{
    const uint64_t most = (uint64_t)1 << 30;
    const uint32_t group = GPU_GROUP_ITEMS;
    int32_t status = find_fill(d);
    for (uint64_t first = 0, count = bytes / pattern_bytes; first < count && !status; first += most) {
        uint32_t now = (uint32_t)(count - first < most ? count - first : most);
        gpu_nest nest = {.numel = now, .rank = 1, .opcode = pattern_bytes, .sizes = {now}};
        nest.strides[0][0] = pattern_bytes;
        nest.offsets[0] = (int64_t)(offset + first * pattern_bytes);
        memcpy(nest.values, pattern, pattern_bytes);
        const gpu_argument arguments[] = {{.is_memory = 1, .value = memory},
                                          {.bytes = sizeof nest, .value = &nest}};
        status = launch(d, queue, d->fill_kernel, arguments, 2, (now + group - 1) / group * (uint64_t)group,
                        group);
    }
    return status;
}

static int32_t fill_memory(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                           const void *pattern, uint32_t pattern_bytes)
{
    cuda_device *d = device;
    CUdeviceptr to = address_of(memory, offset);
    CUstream stream = cuda_stream_of(queue);
    uint32_t word = 0;
    int32_t has_one_word = 1;
    memcpy(&word, pattern, pattern_bytes < sizeof word ? pattern_bytes : sizeof word);
    for (uint32_t i = sizeof word; i < pattern_bytes; i += sizeof word)
        has_one_word &= memcmp((const char *)pattern + i, &word, sizeof word) == 0;
    if (pattern_bytes == 1) return CHECKED(d, cuMemsetD8Async, to, (unsigned char)word, bytes, stream);
    if (pattern_bytes == 2) return CHECKED(d, cuMemsetD16Async, to, (unsigned short)word, bytes / 2, stream);
    if (has_one_word) return CHECKED(d, cuMemsetD32Async, to, word, bytes / 4, stream);
    return fill_by_kernel(d, queue, memory, offset, bytes, pattern, pattern_bytes);
}

/* ---- The driver -------------------------------------------------------------------------------------------- */

GPU_DEFINE_DRIVER(VENDOR_TYPE,
                  /* Devices */
                  .dlpack_type = VENDOR_DLPACK, .state_bytes = sizeof(cuda_state), .find = find,
                  .describe = describe, .open = open_device, .close = close_device, .status = device_status,
                  .native = native, .dlpack_id = dlpack_id,
                  /* Memory */
                  .alloc = alloc, .free = free_memory, .retain = retain, .host_alloc = host_alloc,
                  .host_free = host_free, .unified_alloc = VENDOR_UNIFIED_ALLOC, .memory_info = memory_info,
                  .reserve = VENDOR_RESERVE, .resize = VENDOR_RESIZE,
                  /* Queues */
                  .queue_create = queue_create, .queue_wrap = queue_wrap, .queue_destroy = queue_destroy,
                  .queue_query = queue_query, .queue_finish = queue_finish, .queue_wait = queue_wait,
                  .waits_for = waits_for, .native_wait = native_wait, .queue_callback = cuda_queue_callback,
                  /* Events */
                  .event_record = event_record, .event_record_as = event_record_as,
                  .event_release = event_release, .event_query = event_query, .event_wait = event_wait,
                  .event_elapsed = event_elapsed,
                  /* Copies */
                  .write = write_memory, .read = read_memory, .copy = copy_memory, .peer_copy = peer_copy,
                  .fill = fill_memory,
                  /* Programs */
                  .program_create = program_create, .program_destroy = program_destroy,
                  .kernel_create = kernel_create, .kernel_destroy = kernel_destroy, .launch = launch,
                  .launches_at_once = 1,
                  /* Optional parts */
                  .graphs = VENDOR_GRAPHS, .libraries = VENDOR_LIBRARIES, .range_begin = VENDOR_RANGE_BEGIN,
                  .range_end = VENDOR_RANGE_END, .shares = VENDOR_SHARES, .collectives = &cuda_collectives,
                  .activities = VENDOR_ACTIVITIES);
