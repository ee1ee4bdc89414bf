/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenCL driver of the GPU family: any device with OpenCL 1.2, found through the ICD loader. Memory is a cl_mem, and kernels get
 * its start and offsets, because sub-buffers would have to be aligned. A stream is an in-order queue. Read it from the bottom. */
#include "driver.h"
#include "symbols.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOADER       "libOpenCL.so.1"
#define MOST         16 /* platforms, and devices of one platform */
#define MOST_LOG     3500
#define GROUP_ITEMS  128 /* of GPUs: group_of of launch.c */
#define MOST_WAITING 16  /* commands not flushed yet: some drivers wait for the device in each flush */

/* ---- The loader, devices and statuses --------------------------------------------------------------------- */

typedef struct found_device {
    cl_platform_id platform;
    cl_device_id id;
} found_device;

typedef struct opencl_state {
    gpu_found found;
    opencl_symbols cl;
    void *loader;
    found_device devices[MOST * MOST];
} opencl_state;

typedef struct opencl_device {
    gpu_plugin *plugin;
    const opencl_symbols *cl;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue; /* for what allocations need */
    char options[96];       /* of every program */
    cl_int lost;            /* the status with which the context was lost, else 0; atomic */
} opencl_device;

typedef struct opencl_queue {
    cl_command_queue queue;
    gpu_callbacks callbacks;
    pthread_mutex_t lock; /* of the rest */
    uint64_t queued;      /* pieces of work so far */
    uint64_t flushed;     /* of these, the first ones that the driver was told to begin */
    uint64_t finished;    /* the same, that are known to have finished */
    uint64_t marked;      /* the same, that the marker stands behind */
    cl_event marker;      /* for queries, or NULL */
    int32_t is_shared;    /* others have its handle, and may queue work, too */
} opencl_queue;

static const char *status_name(cl_int status)
{
    GPU_NAME_OF(status, OPENCL_STATUSES)
}

static int32_t status_of(cl_int status)
{
    switch (status) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE: /* larger than any allocation may be */
        return TN_E_OUT_OF_MEMORY;
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE:
        return TN_E_DEVICE_LOST;
    default:
        return TN_E_INTERNAL;
    }
}

/* Records the error of a call that OpenCL refused, as one of ours: `what` failed. */
static int32_t refused(opencl_device *d, int32_t ours, cl_int status, const char *what)
{
    if (ours == TN_E_DEVICE_LOST) __atomic_store_n(&d->lost, status, __ATOMIC_RELEASE);
    return gpu_error_native(d->plugin, ours, status, status_name(status), "%s failed: %s", what,
                            status_name(status));
}

static int32_t check(opencl_device *d, cl_int status, const char *what)
{
    return status == CL_SUCCESS ? TN_OK : refused(d, status_of(status), status, what);
}

/*
 * The same for the result of a wait. Unless memory ran out, work that has failed loses the context: drivers of GPUs
 * refuse everything after a fault, and others would go on with undefined results.
 */
static int32_t check_work(opencl_device *d, cl_int status)
{
    if (status == CL_SUCCESS) return TN_OK;
    int32_t has_memory = status != CL_MEM_OBJECT_ALLOCATION_FAILURE && status != CL_OUT_OF_HOST_MEMORY;
    return refused(d, has_memory ? TN_E_DEVICE_LOST : TN_E_OUT_OF_MEMORY, status, "queued work");
}

static int32_t device_status(void *device)
{
    opencl_device *d = device;
    cl_int lost = __atomic_load_n(&d->lost, __ATOMIC_ACQUIRE);
    if (lost == CL_SUCCESS) return TN_OK;
    return gpu_error_native(d->plugin, TN_E_DEVICE_LOST, lost, status_name(lost), "the context is lost: %s",
                            status_name(lost));
}

static int32_t load(opencl_state *s)
{
    s->loader = gpu_load(&s->found, LOADER, "the ICD loader " LOADER " is not installed");
    if (!s->loader) return 0;
#define LOAD(name)                                                         \
    *(void **)(void *)&s->cl.name = dlsym(s->loader, #name);               \
    if (!s->cl.name) {                                                     \
        snprintf(s->found.reason, sizeof s->found.reason,                  \
                 LOADER " has no " #name ": it is older than OpenCL 1.2"); \
        return 0;                                                          \
    }
    OPENCL_REQUIRED(LOAD)
#undef LOAD
    return 1;
}

static void device_text(const opencl_state *s, cl_device_id id, cl_device_info what, char *out, size_t bytes)
{
    char text[512] = "";
    s->cl.clGetDeviceInfo(id, what, sizeof text, text, NULL);
    snprintf(out, bytes, "%.*s", (int)bytes - 1, text);
}

/* Numbers of 4 or 8 bytes. */
static uint64_t device_number(const opencl_state *s, cl_device_id id, cl_device_info what)
{
    uint64_t number = 0; /* little-endian, as all hosts are */
    return s->cl.clGetDeviceInfo(id, what, sizeof number, &number, NULL) == CL_SUCCESS ? number : 0;
}

/* What keeps kernels from running on the device, or NULL. The full profile has integers of 64 bits, 32 KiB of memory that a group
 * shares and 1,024 bytes of arguments. */
static const char *obstacle(const opencl_state *s, cl_device_id id)
{
    char version[64], profile[32];
    unsigned major = 0, minor = 0;
    const int32_t is_processor = (device_number(s, id, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
    device_text(s, id, CL_DEVICE_VERSION, version, sizeof version);
    device_text(s, id, CL_DEVICE_PROFILE, profile, sizeof profile);
    if (sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 || major * 10 + minor < 12)
        return "lacks OpenCL 1.2";
    if (strcmp(profile, "FULL_PROFILE") != 0) return "lacks the full profile";
    if (!device_number(s, id, CL_DEVICE_AVAILABLE)) return "is not available";
    if (!device_number(s, id, CL_DEVICE_COMPILER_AVAILABLE)) return "lacks a compiler";
    if (!is_processor && device_number(s, id, CL_DEVICE_MAX_WORK_GROUP_SIZE) < GROUP_ITEMS)
        return "lacks groups of 128 items";
    return NULL;
}

/* Adds the devices of the platform that are processors, or those that are not; writes what keeps others out. */
static void add_devices(opencl_state *s, cl_platform_id platform, int32_t processors)
{
    cl_device_id ids[MOST];
    cl_uint n = 0;
    char name[64], *reason = s->found.reason;
    if (s->cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MOST, ids, &n) != CL_SUCCESS) return;
    for (cl_uint i = 0; i < n && i < MOST; i++) {
        if (((device_number(s, ids[i], CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0) != processors) continue;
        const char *wrong = obstacle(s, ids[i]);
        const size_t at = strlen(reason);
        if (!wrong) {
            s->devices[s->found.count++] = (found_device){platform, ids[i]};
            continue;
        }
        device_text(s, ids[i], CL_DEVICE_NAME, name, sizeof name);
        snprintf(reason + at, sizeof s->found.reason - at, "%s%s %s", at ? "; " : "", name, wrong);
    }
}

/* GPUs and accelerators come first, since platforms are listed in an order of their own. */
static void find(void *state)
{
    opencl_state *s = state;
    cl_platform_id platforms[MOST];
    cl_uint n = 0;
    if (!load(s)) return;
    cl_int status = s->cl.clGetPlatformIDs(MOST, platforms, &n);
    if (status != CL_SUCCESS || !n) {
        snprintf(s->found.reason, sizeof s->found.reason, LOADER " found no driver (ICD)");
        return;
    }
    if (n > MOST) n = MOST;
    for (int32_t processors = 0; processors < 2; processors++)
        for (cl_uint p = 0; p < n; p++) add_devices(s, platforms[p], processors);
    if (!s->found.count && !s->found.reason[0])
        snprintf(s->found.reason, sizeof s->found.reason, LOADER " found %u driver%s (ICD) without a device",
                 n, n == 1 ? "" : "s");
}

/* What identifies the hardware under every API. */
static void identify(const opencl_state *s, cl_device_id id, gpu_properties *out)
{
    cl_device_pci_bus_info_khr pci;
    char extensions[16384] = "";
    s->cl.clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL);
    if (strstr(extensions, "cl_khr_device_uuid"))
        s->cl.clGetDeviceInfo(id, CL_DEVICE_UUID_KHR, sizeof out->uuid, out->uuid, NULL);
    if (strstr(extensions, "cl_khr_pci_bus_info") &&
        s->cl.clGetDeviceInfo(id, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof pci, &pci, NULL) == CL_SUCCESS)
        gpu_write_pci(out, pci.pci_domain, pci.pci_bus, pci.pci_device, pci.pci_function);
}

static void describe(gpu_plugin *plugin, uint32_t index, gpu_properties *out)
{
    const opencl_state *s = gpu_driver_state(plugin);
    cl_device_id id = s->devices[index].id;
    cl_device_type type = device_number(s, id, CL_DEVICE_TYPE);
    char platform[64] = "", driver_version[48], version[64];
    s->cl.clGetPlatformInfo(s->devices[index].platform, CL_PLATFORM_VERSION, sizeof platform, platform, NULL);
    device_text(s, id, CL_DRIVER_VERSION, driver_version, sizeof driver_version);
    device_text(s, id, CL_DEVICE_VERSION, version, sizeof version);
    *out = (gpu_properties){
        .is_processor = (type & CL_DEVICE_TYPE_CPU) != 0,
        .compute_units = (uint32_t)device_number(s, id, CL_DEVICE_MAX_COMPUTE_UNITS),
        .memory_bytes = device_number(s, id, CL_DEVICE_GLOBAL_MEM_SIZE),
        .largest_allocation = device_number(s, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
        .alignment = (uint32_t)device_number(s, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8,
        .has_double = device_number(s, id, CL_DEVICE_DOUBLE_FP_CONFIG) != 0,
    };
    int32_t is_shared = (int32_t)device_number(s, id, CL_DEVICE_HOST_UNIFIED_MEMORY);
    out->device_class = out->is_processor              ? TN_DEVICE_VIRTUAL
                        : !(type & CL_DEVICE_TYPE_GPU) ? TN_DEVICE_ACCELERATOR
                        : is_shared                    ? TN_DEVICE_INTEGRATED
                                                       : TN_DEVICE_DISCRETE;
    if (out->alignment < 64 || out->alignment & (out->alignment - 1)) out->alignment = 64;
    device_text(s, id, CL_DEVICE_NAME, out->name, sizeof out->name);
    device_text(s, id, CL_DEVICE_VERSION, out->architecture, sizeof out->architecture);
    snprintf(out->identity, sizeof out->identity, "%s|%s|%s|%s", platform, out->name, version,
             driver_version);
    identify(s, id, out);
}

static int32_t open_device(gpu_plugin *plugin, uint32_t index, void **out_device)
{
    const opencl_state *s = gpu_driver_state(plugin);
    cl_int status;
    opencl_device *d = calloc(1, sizeof *d);
    if (!d) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *d = (opencl_device){.plugin = plugin, .cl = &s->cl, .id = s->devices[index].id};
    int32_t rounds =
        (device_number(s, d->id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    snprintf(d->options, sizeof d->options, "-cl-std=CL1.2%s",
             rounds ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    d->context = s->cl.clCreateContext(NULL, 1, &d->id, NULL, NULL, &status);
    const int32_t has_context = status == CL_SUCCESS;
    if (has_context) d->queue = s->cl.clCreateCommandQueue(d->context, d->id, 0, &status);
    if (status != CL_SUCCESS) {
        int32_t failed = check(d, status, has_context ? "clCreateCommandQueue" : "clCreateContext");
        if (has_context) s->cl.clReleaseContext(d->context);
        free(d);
        return failed;
    }
    *out_device = d;
    return TN_OK;
}

static void close_device(void *device)
{
    opencl_device *d = device;
    d->cl->clReleaseCommandQueue(d->queue);
    d->cl->clReleaseContext(d->context);
    free(d);
}

/* ---- Memory ----------------------------------------------------------------------------------------------- */

/* Waits for the event, and gives the error of its command. */
static cl_int wait_for(const opencl_device *d, cl_event event)
{
    cl_int state = CL_COMPLETE, status = d->cl->clWaitForEvents(1, &event);
    if (status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        d->cl->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    return state < 0 ? state : status;
}

/* Many drivers take memory for a buffer when work first uses it. By then nobody could give back what is cached. */
static cl_int take_memory(const opencl_device *d, cl_mem buffer)
{
    cl_event taken;
    cl_int status = d->cl->clEnqueueMigrateMemObjects(
        d->queue, 1, &buffer, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, &taken);
    if (status != CL_SUCCESS) return status;
    status = wait_for(d, taken);
    d->cl->clReleaseEvent(taken);
    return status;
}

static int32_t alloc(void *device, uint64_t bytes, void **out_memory)
{
    opencl_device *d = device;
    cl_int status;
    cl_mem memory = d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &status);
    if (status == CL_SUCCESS) {
        status = take_memory(d, memory);
        if (status != CL_SUCCESS) d->cl->clReleaseMemObject(memory);
    }
    if (status != CL_SUCCESS) {
        char what[64];
        snprintf(what, sizeof what, "allocating %llu bytes", (unsigned long long)bytes);
        return check(d, status, what);
    }
    *out_memory = memory;
    return TN_OK;
}

static void free_memory(void *device, void *memory)
{
    ((opencl_device *)device)->cl->clReleaseMemObject(memory);
}

/* A buffer of another context cannot be used here. */
static int32_t retain(void *device, void *memory, uint64_t *out_bytes)
{
    opencl_device *d = device;
    cl_context context = NULL;
    size_t bytes = 0;
    cl_int status = d->cl->clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof context, &context, NULL);
    if (status == CL_SUCCESS)
        status = d->cl->clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (status != CL_SUCCESS || context != d->context)
        return gpu_error(d->plugin, TN_E_ARGUMENT, "%p is not a buffer of this device's context", memory);
    status = d->cl->clRetainMemObject(memory);
    if (status == CL_SUCCESS) *out_bytes = bytes;
    return check(d, status, "clRetainMemObject");
}

/* A buffer that stays mapped: drivers keep it where the device reads and writes it by itself. */
static int32_t host_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    opencl_device *d = device;
    cl_int status;
    void *host = NULL;
    cl_mem memory =
        d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &status);
    if (status == CL_SUCCESS) {
        host = d->cl->clEnqueueMapBuffer(d->queue, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                                         NULL, NULL, &status);
        if (status != CL_SUCCESS) d->cl->clReleaseMemObject(memory);
    }
    if (status != CL_SUCCESS) return check(d, status, "allocating memory of the host");
    *out_memory = memory;
    *out_host = host;
    return TN_OK;
}

static void host_free(void *device, void *memory, void *host)
{
    opencl_device *d = device;
    d->cl->clEnqueueUnmapMemObject(d->queue, memory, host, 0, NULL, NULL);
    d->cl->clFinish(d->queue);
    d->cl->clReleaseMemObject(memory);
}

/* ---- Queues ----------------------------------------------------------------------------------------------- */

/* To be called after something was queued: queries know of it, and no more than `most` commands wait for the driver to begin. One
 * that finds the queue idle does not wait. */
static int32_t count(opencl_device *d, opencl_queue *q, cl_int status, const char *what, uint64_t most)
{
    pthread_mutex_lock(&q->lock);
    const int32_t was_idle = q->finished == q->queued++;
    const int32_t is_due = status == CL_SUCCESS && (was_idle || q->queued - q->flushed > most);
    if (is_due) q->flushed = q->queued;
    pthread_mutex_unlock(&q->lock);
    if (is_due) status = d->cl->clFlush(q->queue);
    return check(d, status, what);
}

/* What only later commands of the queue and the host wait for. The host waits by clFinish, which begins all. */
static int32_t queued(opencl_device *d, opencl_queue *q, cl_int status, const char *what)
{
    return count(d, q, status, what, MOST_WAITING);
}

/* A marker, whose event others wait for. */
static int32_t event_record(void *device, void *queue, void **out_event)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    cl_event event;
    cl_int result = d->cl->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &event);
    int32_t status = count(d, q, result, "a marker", 0);
    if (!status) *out_event = event;
    return status;
}

/* Takes the queue, also where it fails. */
static int32_t make_queue(opencl_device *d, cl_command_queue queue, int32_t is_shared, void **out_queue)
{
    opencl_queue *q = calloc(1, sizeof *q);
    if (!q) {
        d->cl->clReleaseCommandQueue(queue);
        return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    }
    *q = (opencl_queue){.queue = queue, .is_shared = is_shared};
    gpu_callbacks_init(&q->callbacks);
    pthread_mutex_init(&q->lock, NULL);
    *out_queue = q;
    return TN_OK;
}

static int32_t queue_create(void *device, int32_t priority, void **out_queue)
{
    opencl_device *d = device;
    cl_int status;
    cl_command_queue queue =
        d->cl->clCreateCommandQueue(d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &status);
    if (status != CL_SUCCESS) return check(d, status, "clCreateCommandQueue");
    return make_queue(d, queue, 0, out_queue);
}

static int32_t queue_wrap(void *device, uint64_t native, void **out_queue)
{
    opencl_device *d = device;
    cl_command_queue queue = (cl_command_queue)(uintptr_t)native;
    cl_device_id id = NULL;
    cl_context context = NULL;
    cl_command_queue_properties properties = 0;
    cl_int status = d->cl->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
    if (status == CL_SUCCESS)
        status = d->cl->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (status == CL_SUCCESS)
        status =
            d->cl->clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (status != CL_SUCCESS) return refused(d, TN_E_ARGUMENT, status, "clGetCommandQueueInfo");
    if (id != d->id || context != d->context)
        return gpu_error(d->plugin, TN_E_ARGUMENT, "the queue is of another %s",
                         id != d->id ? "device" : "context");
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return gpu_error(d->plugin, TN_E_ARGUMENT, "the queue runs its work out of order");
    d->cl->clRetainCommandQueue(queue);
    return make_queue(d, queue, 1, out_queue);
}

static void queue_destroy(void *device, void *queue)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    gpu_callbacks_finish(&q->callbacks); /* those of a lost device, too */
    if (q->marker) d->cl->clReleaseEvent(q->marker);
    d->cl->clReleaseCommandQueue(q->queue);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

static int32_t event_query(void *device, void *event, int32_t *out_done)
{
    opencl_device *d = device;
    cl_int state = CL_QUEUED;
    cl_int status =
        d->cl->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (status == CL_SUCCESS && state < 0) status = state; /* the command was ended by this error */
    if (status == CL_SUCCESS) *out_done = state == CL_COMPLETE;
    return check_work(d, status);
}

/* Puts a marker behind all work, in place of an earlier one; under the lock. */
static int32_t mark(opencl_device *d, opencl_queue *q)
{
    cl_event marker;
    cl_int status = d->cl->clEnqueueMarkerWithWaitList(q->queue, 0, NULL, &marker);
    if (status == CL_SUCCESS) {
        if (q->marker) d->cl->clReleaseEvent(q->marker);
        q->marker = marker;
        q->marked = q->flushed = q->queued;
        status = d->cl->clFlush(q->queue);
    }
    return check(d, status, "a marker");
}

static int32_t queue_query(void *device, void *queue, int32_t *out_done)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    int32_t status = TN_OK, done = 0;
    pthread_mutex_lock(&q->lock);
    if (q->is_shared && q->finished == q->queued) q->queued++; /* others may have queued work since */
    if (q->finished < q->queued && q->marked < q->queued) status = mark(d, q);
    if (!status && q->finished < q->queued) status = event_query(d, q->marker, &done);
    if (done && q->finished < q->marked) q->finished = q->marked;
    *out_done = q->finished == q->queued;
    pthread_mutex_unlock(&q->lock);
    return status;
}

static int32_t queue_finish(void *device, void *queue)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    pthread_mutex_lock(&q->lock);
    uint64_t before = q->queued;
    pthread_mutex_unlock(&q->lock);
    int32_t status = check_work(d, d->cl->clFinish(q->queue));
    pthread_mutex_lock(&q->lock);
    if (!status && q->finished < before) q->finished = before;
    if (!status && q->flushed < before) q->flushed = before;
    pthread_mutex_unlock(&q->lock);
    return status;
}

static int32_t native_wait(void *device, uint64_t native_queue, void *event)
{
    opencl_device *d = device;
    cl_command_queue queue = (cl_command_queue)(uintptr_t)native_queue;
    cl_event waited = event;
    cl_int status = d->cl->clEnqueueBarrierWithWaitList(queue, 1, &waited, NULL);
    if (status == CL_SUCCESS) status = d->cl->clFlush(queue);
    /* An error of that queue, such as another context, does not lose the device. */
    const int32_t is_theirs = status == CL_INVALID_CONTEXT || status == CL_INVALID_COMMAND_QUEUE;
    return is_theirs ? refused(d, TN_E_ARGUMENT, status, "a barrier on the queue of another library")
                     : check(d, status, "a barrier on the queue of another library");
}

static int32_t native(void *device, uint32_t kind, void *handle, uint64_t *out)
{
    opencl_device *d = device;
    if (kind == TN_NATIVE_STREAM) {
        opencl_queue *q = handle;
        pthread_mutex_lock(&q->lock);
        q->is_shared = 1;
        pthread_mutex_unlock(&q->lock);
        handle = q->queue;
    }
    return gpu_native_of(kind, d->id, d->context, handle, out);
}

/* A thread that waits for an event, calls back, and lets later work of a queue begin. */
typedef struct callback_call {
    opencl_device *device;
    void (*callback)(void *user);
    void *user;
    cl_event reached;  /* the work before it has finished */
    cl_event returned; /* later work waits for it */
} callback_call;

/* Callbacks have threads of their own: drivers call some of theirs on the thread that asks for them. */
static void run_callback(void *data)
{
    callback_call *c = data;
    opencl_device *d = c->device;
    d->cl->clWaitForEvents(1, &c->reached);
    c->callback(c->user);
    d->cl->clSetUserEventStatus(c->returned, CL_COMPLETE);
    d->cl->clReleaseEvent(c->reached);
    d->cl->clReleaseEvent(c->returned);
    free(c);
}

/* A barrier holds later work until the thread has called back. Takes `reached`. */
static int32_t hold(opencl_device *d, opencl_queue *q, cl_event reached, void (*callback)(void *user),
                    void *user)
{
    cl_int status = CL_SUCCESS;
    callback_call *c = malloc(sizeof *c);
    cl_event returned = c ? d->cl->clCreateUserEvent(d->context, &status) : NULL;
    int32_t failed = !c ? gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory")
                        : check(d, status, "clCreateUserEvent");
    if (!failed) {
        *c = (callback_call){d, callback, user, reached, returned};
        failed = queued(d, q, d->cl->clEnqueueBarrierWithWaitList(q->queue, 1, &returned, NULL), "a barrier");
        if (!failed) failed = gpu_callbacks_start(d->plugin, &q->callbacks, run_callback, c);
        if (!failed) return TN_OK;
        d->cl->clSetUserEventStatus(returned, CL_COMPLETE); /* nobody will call back */
        d->cl->clReleaseEvent(returned);
    }
    d->cl->clReleaseEvent(reached);
    free(c);
    return failed;
}

static int32_t queue_callback(void *device, void *queue, void (*callback)(void *user), void *user)
{
    void *reached;
    int32_t failed = event_record(device, queue, &reached);
    return failed ? failed : hold(device, queue, reached, callback, user);
}

/* Each device has its context, and no queue waits for events of another one: a thread does. */
static int32_t waits_for(void *device, void *other)
{
    return 1;
}

static void nothing(void *user) {}

static int32_t queue_wait(void *device, void *queue, void *event)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    cl_event waited = event;
    cl_context context = d->context;
    d->cl->clGetEventInfo(waited, CL_EVENT_CONTEXT, sizeof context, &context, NULL);
    if (context == d->context)
        return queued(d, q, d->cl->clEnqueueBarrierWithWaitList(q->queue, 1, &waited, NULL), "a barrier");
    d->cl->clRetainEvent(waited);
    return hold(d, q, waited, nothing, NULL);
}

/* ---- Events ----------------------------------------------------------------------------------------------- */

static void event_release(void *device, void *event)
{
    ((opencl_device *)device)->cl->clReleaseEvent(event);
}

static int32_t event_wait(void *device, void *event)
{
    opencl_device *d = device;
    return check_work(d, wait_for(d, event));
}

static int32_t event_elapsed(void *device, void *start, void *end, double *out_ms)
{
    opencl_device *d = device;
    cl_ulong from = 0, to = 0;
    cl_event ends[2] = {start, end};
    cl_int status = d->cl->clWaitForEvents(2, ends);
    if (status == CL_SUCCESS)
        status = d->cl->clGetEventProfilingInfo(start, CL_PROFILING_COMMAND_END, sizeof from, &from, NULL);
    if (status == CL_SUCCESS)
        status = d->cl->clGetEventProfilingInfo(end, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL);
    if (status == CL_SUCCESS) *out_ms = ((double)to - (double)from) / 1e6; /* from nanoseconds */
    if (status == CL_PROFILING_INFO_NOT_AVAILABLE) /* a queue of the program decides for itself */
        return refused(d, TN_E_UNSUPPORTED, status, "the time of an event of a queue without profiling");
    return check(d, status, "the time of an event");
}

/* ---- Copies ----------------------------------------------------------------------------------------------- */

static int32_t write_memory(void *device, void *queue, void *memory, uint64_t offset, const void *host,
                            uint64_t bytes)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    return queued(d, q,
                  d->cl->clEnqueueWriteBuffer(q->queue, memory, CL_FALSE, offset, bytes, host, 0, NULL, NULL),
                  "a copy to the device");
}

static int32_t read_memory(void *device, void *queue, void *host, void *memory, uint64_t offset,
                           uint64_t bytes)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    return queued(d, q,
                  d->cl->clEnqueueReadBuffer(q->queue, memory, CL_FALSE, offset, bytes, host, 0, NULL, NULL),
                  "a copy to the host");
}

static int32_t copy_memory(void *device, void *queue, void *to, uint64_t to_offset, void *from,
                           uint64_t from_offset, uint64_t bytes)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    return queued(
        d, q, d->cl->clEnqueueCopyBuffer(q->queue, from, to, from_offset, to_offset, bytes, 0, NULL, NULL),
        "a copy");
}

static int32_t fill_memory(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                           const void *pattern, uint32_t pattern_bytes)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    return queued(
        d, q,
        d->cl->clEnqueueFillBuffer(q->queue, memory, pattern, pattern_bytes, offset, bytes, 0, NULL, NULL),
        "a fill");
}

/* ---- Programs --------------------------------------------------------------------------------------------- */

static void get_binary(opencl_device *d, cl_program program, gpu_binary *out)
{
    size_t size = 0;
    unsigned char *bytes;
    if (d->cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) != CL_SUCCESS ||
        !size)
        return;
    bytes = malloc(size);
    if (bytes &&
        d->cl->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) == CL_SUCCESS)
        *out = (gpu_binary){bytes, size};
    else
        free(bytes);
}

static int32_t build_error(opencl_device *d, cl_program program, cl_int status)
{
    size_t size = 0;
    char *log = NULL;
    if (d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS &&
        size)
        log = malloc(size + 1);
    if (log &&
        d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, log, NULL) != CL_SUCCESS)
        size = 0;
    if (log) log[size] = 0;
    int32_t failed =
        gpu_error_native(d->plugin, status == CL_BUILD_PROGRAM_FAILURE ? TN_E_INTERNAL : status_of(status),
                         status, status_name(status), "the device code does not compile: %s\n%.*s",
                         status_name(status), MOST_LOG, log ? log : "(no log)");
    free(log);
    return failed;
}

static int32_t program_create(void *device, const char *source, const char *options, const gpu_binary *binary,
                              void **out_program, gpu_binary *out_binary)
{
    opencl_device *d = device;
    char all[512];
    cl_int status;
    cl_program program;
    snprintf(all, sizeof all, "%s %s", d->options, options);
    if (binary) {
        const unsigned char *bytes = binary->bytes;
        program =
            d->cl->clCreateProgramWithBinary(d->context, 1, &d->id, &binary->size, &bytes, NULL, &status);
    } else {
        program = d->cl->clCreateProgramWithSource(d->context, 1, &source, NULL, &status);
    }
    if (status != CL_SUCCESS) return check(d, status, "clCreateProgram");
    status = d->cl->clBuildProgram(program, 1, &d->id, all, NULL, NULL);
    if (status != CL_SUCCESS) {
        int32_t failed = build_error(d, program, status);
        d->cl->clReleaseProgram(program);
        return failed;
    }
    if (out_binary) get_binary(d, program, out_binary);
    *out_program = program;
    return TN_OK;
}

static void program_destroy(void *device, void *program)
{
    ((opencl_device *)device)->cl->clReleaseProgram(program);
}

static int32_t kernel_create(void *device, void *program, const char *name, void **out_kernel)
{
    opencl_device *d = device;
    cl_int status;
    cl_kernel kernel = d->cl->clCreateKernel(program, name, &status);
    if (status == CL_SUCCESS) *out_kernel = kernel;
    return check(d, status, name);
}

static void kernel_destroy(void *device, void *kernel)
{
    ((opencl_device *)device)->cl->clReleaseKernel(kernel);
}

static int32_t launch(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                      uint32_t n_arguments, uint64_t items, uint32_t group)
{
    opencl_device *d = device;
    opencl_queue *q = queue;
    size_t global = items, local = group;
    cl_int status = CL_SUCCESS;
    for (uint32_t i = 0; i < n_arguments && status == CL_SUCCESS; i++) {
        const gpu_argument *a = &arguments[i];
        cl_mem memory = (cl_mem)a->value;
        status = a->is_memory ? d->cl->clSetKernelArg(kernel, i, sizeof memory, memory ? &memory : NULL)
                              : d->cl->clSetKernelArg(kernel, i, a->bytes, a->value);
    }
    if (status != CL_SUCCESS) return check(d, status, "clSetKernelArg");
    status = d->cl->clEnqueueNDRangeKernel(q->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
    return queued(d, q, status, "a kernel");
}

/* ---- The driver ------------------------------------------------------------------------------------------- */

GPU_DEFINE_DRIVER("opencl",
                  /* Devices */
                  .dlpack_type = 4, .state_bytes = sizeof(opencl_state), .find = find, .describe = describe,
                  .open = open_device, .close = close_device, .status = device_status, .native = native,
                  /* Memory */
                  .alloc = alloc, .free = free_memory, .retain = retain, .host_alloc = host_alloc,
                  .host_free = host_free,
                  /* Queues */
                  .queue_create = queue_create, .queue_wrap = queue_wrap, .queue_destroy = queue_destroy,
                  .queue_query = queue_query, .queue_finish = queue_finish, .queue_wait = queue_wait,
                  .waits_for = waits_for, .native_wait = native_wait, .queue_callback = queue_callback,
                  /* Events */
                  .event_record = event_record, .event_release = event_release, .event_query = event_query,
                  .event_wait = event_wait, .event_elapsed = event_elapsed,
                  /* Copies */
                  .write = write_memory, .read = read_memory, .copy = copy_memory, .fill = fill_memory,
                  /* Programs */
                  .program_create = program_create, .program_destroy = program_destroy,
                  .kernel_create = kernel_create, .kernel_destroy = kernel_destroy, .launch = launch);
