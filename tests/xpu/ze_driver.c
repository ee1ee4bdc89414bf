/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Level Zero driver for tests: devices whose kernels run on PoCL (OpenCL on the processor). The loader takes it from
 * ZE_ENABLE_ALT_DRIVERS. It is as strange as the specification allows, and watches those who use it:
 *
 *   - Commands run on a thread of their list. Those between two barriers run in any order: here the last one first.
 *   - Device memory cannot be touched by the host: the addresses that are given out fault, and the memory itself lies at a
 *     fixed distance. New memory is filled with 0xC5.
 *   - Wrong structure types, dead handles, objects that are in use, calls of two threads at once, and what is left
 *     when a context ends are reported.
 *
 * The environment asks for more, in the words of ../opencl/faulty_icd.c:
 *
 *   ZE_TEST_REPORT=FILE                 reports are appended to it (default: standard error)
 *   ZE_TEST_CACHE=FOLDER                keeps translated modules
 *   FAULTY_FAIL=FUNCTION:N:RESULT       call N (from 1 on) of the function gives the result; FUNCTION is `work`: command N
 *                                       fails while it runs. After ZE_RESULT_ERROR_DEVICE_LOST (0x70000001) the devices are
 *                                       lost: everything else gives that, too
 *   ZE_TEST_UUID=a                      device i has the uuid of 16 bytes 'a' + i and the address 0000:65+i:00.0, as the devices
 *                                       of ../cuda/libcuda.c; without it none is known
 *   ZE_TEST_PRIORITIES=1                the priority of each new list is reported
 *   FAULTY_LARGEST=BYTES                larger memory is not allocated
 *   FAULTY_NO_DOUBLE=1                  devices have no float64
 *   FAULTY_DELAY, FAULTY_GATE           work that writes device memory is late (../gpu/late.h), and zeEventHostSignal returns
 *                                       later by the delay
 */
#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../gpu/late.h"
#include "../gpu/report.h"

#define DEVICES     2
#define MEMORY      ((uint64_t)4 << 30)  /* of a device */
#define ARENA       ((uint64_t)64 << 30) /* addresses for device memory; none is given out twice */
#define LARGEST     ((uint64_t)2 << 30)
#define VALID_BITS  36 /* of timestamps in nanoseconds: they wrap after a minute */
#define MOST_ARGS   16
#define MOST_WAITS  4
#define MOST_MEMORY 65536

/* ---- Reports, faults ---------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything here */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int is_lost; /* under the lock */

#define report(...) report_of("ze_driver", __VA_ARGS__)

/* The result that this call has to give, or ZE_RESULT_SUCCESS; under the lock. */
static ze_result_t fault_of(const char *function)
{
    static struct {
        char function[64];
        int n, calls;
        unsigned result;
        int is_read;
    } fail;
    const char *text = getenv("FAULTY_FAIL");
    if (!fail.is_read && text) sscanf(text, "%63[^:]:%d:%i", fail.function, &fail.n, (int *)&fail.result);
    fail.is_read = 1;
    if (is_lost) return ZE_RESULT_ERROR_DEVICE_LOST;
    if (strcmp(fail.function, function) != 0 || ++fail.calls != fail.n) return ZE_RESULT_SUCCESS;
    if ((ze_result_t)fail.result == ZE_RESULT_ERROR_DEVICE_LOST) is_lost = 1;
    pthread_cond_broadcast(&changed);
    return (ze_result_t)fail.result;
}

static long setting(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Objects ------------------------------------------------------------------------------------------------- */

/* What a handle points to begins with this. Dead objects are not freed, so that their later use is seen. */
typedef struct object {
    struct object *next; /* all there ever were: nothing is lost for those who look for leaks */
    char kind;
    int is_dead, in_use; /* in_use: by a call (lists, kernels), and by queued commands (events, kernels) */
    int is_called;
} object;

struct _ze_driver_handle_t {
    object o;
};
struct _ze_device_handle_t {
    object o;
    uint32_t index;
    uint64_t taken;
};
struct _ze_context_handle_t {
    object o;
    int children;
};
struct _ze_event_pool_handle_t {
    object o;
    ze_context_handle_t context;
    uint32_t count, live;
    char used[1024];
};
struct _ze_event_handle_t {
    object o;
    ze_event_pool_handle_t pool;
    uint32_t index;
    int is_signalled;
    uint64_t time;
};
struct _ze_module_handle_t {
    object o;
    ze_context_handle_t context;
    cl_program program;
    int kernels;
    size_t size;
    uint8_t *bytes; /* of the bitcode */
};
struct _ze_kernel_handle_t {
    object o;
    ze_module_handle_t module;
    cl_kernel kernel;
    uint32_t n_args;
    struct {
        size_t size;
        int is_memory, is_set;
        uint8_t bytes[1024];
    } args[MOST_ARGS];
    uint32_t group;
};

enum command_kind { BARRIER, COPY, FILL, LAUNCH };
typedef struct command {
    struct command *next;
    enum command_kind kind;
    ze_event_handle_t signal, waits[MOST_WAITS];
    uint32_t n_waits;
    void *to;
    const void *from;
    size_t bytes, pattern_bytes;
    uint8_t pattern[16];
    struct _ze_kernel_handle_t *kernel; /* and a copy of its arguments: */
    struct _ze_kernel_handle_t *arguments;
    uint32_t groups;
} command;

struct _ze_command_list_handle_t {
    object o;
    ze_context_handle_t context;
    command *first;
    int is_running, stops;
    pthread_t thread;
    struct _ze_command_list_handle_t *next;
};

static struct _ze_driver_handle_t the_driver = {.o = {.kind = 'd'}};
static struct _ze_device_handle_t devices[DEVICES] = {{.o = {.kind = 'D'}}, {.o = {.kind = 'D'}, .index = 1}};
static ze_command_list_handle_t lists; /* all that ever were */

static int is_alive(const void *handle, char kind, const char *function)
{
    const object *o = handle;
    if (o->kind == kind && !o->is_dead) return 1;
    report("%s: %s", function, o->kind == kind ? "the handle was destroyed" : "a handle of another kind");
    return 0;
}

/* Begins a function: the lock is taken, and the handle is looked at. */
#define ENTER_TO_END(handle, kind)                             \
    if (!(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE; \
    pthread_mutex_lock(&lock);                                 \
    if (!is_alive(handle, kind, __func__)) return leave(ZE_RESULT_ERROR_INVALID_ARGUMENT)
/* The same of one that a fault may end. */
#define ENTER(handle, kind)                 \
    ENTER_TO_END(handle, kind);             \
    ze_result_t fault = fault_of(__func__); \
    if (fault) return leave(fault)
#define EXPECT_TYPE(desc, type) \
    if ((desc)->stype != (type)) report("%s: stype is %d, not %s", __func__, (int)(desc)->stype, #type)

/* A new object of that size, which stays; under the lock. */
static void *make(size_t bytes, char kind)
{
    static object *all;
    object *o = calloc(1, bytes);
    if (!o) abort();
    *o = (object){.next = all, .kind = kind};
    all = o;
    return o;
}

static ze_result_t leave(ze_result_t result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* Two threads in one object at a time. The call is made longer, so that they meet. */
static void call_begin(object *o, const char *function)
{
    if (__atomic_exchange_n(&o->is_called, 1, __ATOMIC_ACQ_REL)) report("%s: two threads at once", function);
    if (late_delay()) usleep(1000);
}
static void call_end(object *o)
{
    __atomic_store_n(&o->is_called, 0, __ATOMIC_RELEASE);
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

typedef struct allocation {
    char *base;
    size_t bytes;
    ze_context_handle_t context;
    ze_device_handle_t device; /* NULL: memory of the host */
} allocation;

static allocation allocations[MOST_MEMORY];
static uint32_t n_allocations;
static char *arena; /* what is given out; the memory itself lies ARENA behind */
static uint64_t arena_used;
static int arena_file;

static int make_arena(void)
{
    if (arena) return 1;
    arena_file = memfd_create("ze_driver", MFD_CLOEXEC);
    char *at = mmap(NULL, 2 * ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena_file < 0 || at == MAP_FAILED || ftruncate(arena_file, (off_t)ARENA) != 0) return 0;
    if (mmap(at + ARENA, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena_file,
             0) == MAP_FAILED)
        return 0;
    arena = at;
    return 1;
}

static int is_device_memory(const void *p)
{
    return arena && (const char *)p >= arena && (const char *)p < arena + ARENA;
}

/* Where the memory of an address really is. */
static void *real_address(const void *p)
{
    return (char *)(uintptr_t)p + (is_device_memory(p) ? ARENA : 0);
}

static allocation *allocation_of(const void *p)
{
    for (uint32_t i = 0; i < n_allocations; i++) {
        allocation *a = &allocations[i];
        if ((const char *)p >= a->base && (const char *)p < a->base + a->bytes) return a;
    }
    return NULL;
}

/* Device memory has to be alive as a whole; memory of the host may be anybody's. */
static void expect_memory(const void *p, size_t bytes, const char *function)
{
    if (!is_device_memory(p)) return;
    const allocation *a = allocation_of(p);
    if (!a) report("%s: %p is no memory, or was freed", function, p);
    if (a && (const char *)p + bytes > a->base + a->bytes)
        report("%s: %zu bytes at %p leave an allocation of %zu", function, bytes, p, a->bytes);
}

ze_result_t ZE_APICALL zeMemAllocDevice(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                                        size_t bytes, size_t alignment, ze_device_handle_t device, void **out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
    if (!bytes || bytes > LARGEST) return leave(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    if (setting("FAULTY_LARGEST") && bytes > (size_t)setting("FAULTY_LARGEST"))
        return leave(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    if (alignment & (alignment - 1)) return leave(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
    uint64_t room = (bytes + 4096 + 4095) / 4096 * 4096; /* a page that belongs to nobody behind it */
    if (!make_arena() || device->taken + bytes > MEMORY || n_allocations == MOST_MEMORY ||
        arena_used + room > ARENA)
        return leave(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    allocations[n_allocations++] = (allocation){arena + arena_used, bytes, context, device};
    *out = arena + arena_used;
    arena_used += room;
    device->taken += bytes;
    context->children++;
    memset(real_address(*out), 0xC5, bytes);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeMemAllocHost(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc,
                                      size_t bytes, size_t alignment, void **out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC);
    if (!bytes) return leave(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    if (n_allocations == MOST_MEMORY || posix_memalign(out, alignment < 64 ? 64 : alignment, bytes))
        return leave(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    allocations[n_allocations++] = (allocation){*out, bytes, context, NULL};
    context->children++;
    memset(*out, 0xC5, bytes);
    return leave(ZE_RESULT_SUCCESS);
}

/* Whether a queued command of any list uses memory between two addresses. */
static int is_in_use(const char *from, const char *to)
{
    for (ze_command_list_handle_t list = lists; list; list = list->next)
        for (const command *c = list->first; c; c = c->next) {
            const char *ends[2] = {c->to, c->from};
            for (int i = 0; i < 2; i++)
                if (ends[i] && ends[i] >= from && ends[i] < to) return 1;
            for (uint32_t i = 0; c->arguments && i < c->arguments->n_args; i++) {
                const char *p;
                memcpy(&p, c->arguments->args[i].bytes, sizeof p);
                if (c->arguments->args[i].is_memory && p && p >= from && p < to) return 1;
            }
        }
    return 0;
}

ze_result_t ZE_APICALL zeMemFree(ze_context_handle_t context, void *p)
{
    if (!context || !p) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    pthread_mutex_lock(&lock);
    allocation *a = allocation_of(p);
    if (!a || a->base != p || a->context != context) {
        report("zeMemFree: %p is not the start of an allocation of this context", p);
        return leave(ZE_RESULT_ERROR_INVALID_ARGUMENT);
    }
    if (!is_lost && is_in_use(a->base, a->base + a->bytes)) report("zeMemFree: queued work uses %p", p);
    if (a->device) {
        a->device->taken -= a->bytes;
        fallocate(arena_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, a->base - arena, (off_t)a->bytes);
    } else {
        free(a->base);
    }
    *a = allocations[--n_allocations];
    context->children--;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeMemGetAllocProperties(ze_context_handle_t context, const void *p,
                                               ze_memory_allocation_properties_t *out,
                                               ze_device_handle_t *out_device)
{
    ENTER(context, 'C');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES);
    const allocation *a = allocation_of(p);
    int is_here = a && a->context == context;
    out->type = !is_here ? ZE_MEMORY_TYPE_UNKNOWN : a->device ? ZE_MEMORY_TYPE_DEVICE : ZE_MEMORY_TYPE_HOST;
    if (out_device) *out_device = is_here ? a->device : NULL;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeMemGetAddressRange(ze_context_handle_t context, const void *p, void **base,
                                            size_t *bytes)
{
    ENTER(context, 'C');
    const allocation *a = allocation_of(p);
    if (!a) return leave(ZE_RESULT_ERROR_UNKNOWN);
    *base = a->base;
    *bytes = a->bytes;
    return leave(ZE_RESULT_SUCCESS);
}

/* ---- PoCL ---------------------------------------------------------------------------------------------------- */

#define CL_FUNCTIONS(X)          \
    X(clGetPlatformIDs)          \
    X(clGetDeviceIDs)            \
    X(clCreateContext)           \
    X(clCreateCommandQueue)      \
    X(clCreateProgramWithBinary) \
    X(clBuildProgram)            \
    X(clGetProgramBuildInfo)     \
    X(clReleaseProgram)          \
    X(clCreateKernel)            \
    X(clReleaseKernel)           \
    X(clGetKernelInfo)           \
    X(clGetKernelArgInfo)        \
    X(clSetKernelArg)            \
    X(clSetKernelArgSVMPointer)  \
    X(clEnqueueNDRangeKernel)    \
    X(clFinish)

static struct {
#define DECLARE(name) __typeof__(&(name)) name;
    CL_FUNCTIONS(DECLARE)
#undef DECLARE
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
} cl;
static pthread_mutex_t cl_lock = PTHREAD_MUTEX_INITIALIZER; /* arguments are kept in kernels */

static int start_opencl(void)
{
    cl_platform_id platform;
    cl_int status;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (cl.queue) return 1;
    if (!library) return 0;
#define LOAD(name)                                      \
    *(void **)(void *)&cl.name = dlsym(library, #name); \
    if (!cl.name) return 0;
    CL_FUNCTIONS(LOAD)
#undef LOAD
    if (cl.clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &cl.device, NULL) != CL_SUCCESS)
        return 0;
    cl.context = cl.clCreateContext(NULL, 1, &cl.device, NULL, NULL, &status);
    if (status == CL_SUCCESS) cl.queue = cl.clCreateCommandQueue(cl.context, cl.device, 0, &status);
    return status == CL_SUCCESS;
}

static void run_kernel(const command *c)
{
    const struct _ze_kernel_handle_t *k = c->arguments;
    size_t global = (size_t)c->groups * k->group, local = k->group;
    cl_int status = CL_SUCCESS;
    pthread_mutex_lock(&cl_lock);
    for (uint32_t i = 0; i < k->n_args && status == CL_SUCCESS; i++) {
        const void *p = NULL;
        if (k->args[i].is_memory) memcpy(&p, k->args[i].bytes, sizeof p);
        status = k->args[i].is_memory ? cl.clSetKernelArgSVMPointer(k->kernel, i, p ? real_address(p) : NULL)
                                      : cl.clSetKernelArg(k->kernel, i, k->args[i].size, k->args[i].bytes);
    }
    if (status == CL_SUCCESS)
        status = cl.clEnqueueNDRangeKernel(cl.queue, k->kernel, 1, NULL, &global, &local, 0, NULL, NULL);
    if (status == CL_SUCCESS) status = cl.clFinish(cl.queue);
    pthread_mutex_unlock(&cl_lock);
    if (status != CL_SUCCESS) report("a kernel: OpenCL gives %d", status);
}

/* ---- Lists of commands ----------------------------------------------------------------------------------------- */

static int is_ready(const command *c)
{
    for (uint32_t i = 0; i < c->n_waits; i++)
        if (!c->waits[i]->is_signalled) return 0;
    return 1;
}

/* The command to run now, which leaves the list: a barrier if it is the first one, else the last one before a barrier. */
static command *choose(ze_command_list_handle_t list)
{
    command **at = &list->first, **chosen = NULL;
    if (*at && (*at)->kind == BARRIER && is_ready(*at)) chosen = at;
    for (; *at && (*at)->kind != BARRIER; at = &(*at)->next)
        if (is_ready(*at)) chosen = at;
    return chosen ? *chosen : NULL;
}

static void run_command(const command *c)
{
    if (c->kind == COPY) memcpy(real_address(c->to), real_address(c->from), c->bytes);
    if (c->kind == FILL)
        for (size_t i = 0; i < c->bytes; i += c->pattern_bytes)
            memcpy((char *)real_address(c->to) + i, c->pattern, c->pattern_bytes);
    if (c->kind == LAUNCH) run_kernel(c);
}

static int writes_device(const command *c)
{
    return c->kind == LAUNCH || (c->kind != BARRIER && is_device_memory(c->to));
}

static void drop(ze_command_list_handle_t list, command *c)
{
    command **at = &list->first;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    for (uint32_t i = 0; i < c->n_waits; i++) c->waits[i]->o.in_use--;
    if (c->signal) c->signal->o.in_use--;
    if (c->kernel) c->kernel->o.in_use--;
    free(c->arguments);
    free(c);
}

static void *run_list(void *data)
{
    ze_command_list_handle_t list = data;
    pthread_mutex_lock(&lock);
    for (;;) {
        command *c = is_lost ? NULL : choose(list);
        if (c && writes_device(c) && late_delay()) { /* more commands may come, and change the choice */
            pthread_mutex_unlock(&lock);
            late_begin();
            pthread_mutex_lock(&lock);
            c = is_lost ? NULL : choose(list);
        }
        if (!c && list->stops) break;
        if (!c) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        if (c->kind != BARRIER && fault_of("work")) {
            is_lost = 1;
            pthread_cond_broadcast(&changed);
            continue;
        }
        pthread_mutex_unlock(&lock);
        run_command(c);
        pthread_mutex_lock(&lock);
        if (c->signal) c->signal->time = now();
        if (c->signal) c->signal->is_signalled = 1;
        drop(list, c);
        pthread_cond_broadcast(&changed);
    }
    while (list->first) drop(list, list->first);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Appends a copy of the command; takes the lock for itself. */
static ze_result_t append(ze_command_list_handle_t list, const char *function, command c,
                          ze_event_handle_t signal, uint32_t n_waits, ze_event_handle_t *waits)
{
    if (!list) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    call_begin(&list->o, function);
    pthread_mutex_lock(&lock);
    ze_result_t result =
        is_alive(list, 'L', function) ? fault_of(function) : ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (n_waits > MOST_WAITS) result = ZE_RESULT_ERROR_INVALID_SIZE;
    command *copy = result ? NULL : malloc(sizeof *copy);
    if (copy) {
        *copy = c;
        copy->signal = signal;
        copy->n_waits = n_waits;
        if (signal && is_alive(signal, 'E', function)) signal->o.in_use++;
        if (signal && signal->is_signalled) report("%s: the event to signal was not reset", function);
        for (uint32_t i = 0; i < n_waits; i++) {
            copy->waits[i] = waits[i];
            if (is_alive(waits[i], 'E', function)) waits[i]->o.in_use++;
        }
        if (copy->kernel) copy->kernel->o.in_use++;
        if (copy->to) expect_memory(copy->to, copy->bytes, function);
        if (copy->from) expect_memory(copy->from, copy->bytes, function);
        command **at = &list->first;
        while (*at) at = &(*at)->next;
        *at = copy;
        pthread_cond_broadcast(&changed);
    } else {
        free(c.arguments);
    }
    pthread_mutex_unlock(&lock);
    call_end(&list->o);
    return result;
}

ze_result_t ZE_APICALL zeCommandListCreateImmediate(ze_context_handle_t context, ze_device_handle_t device,
                                                    const ze_command_queue_desc_t *desc,
                                                    ze_command_list_handle_t *out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
    if (desc->ordinal != 1) report("%s: group %u does not compute", __func__, desc->ordinal);
    if (setting("ZE_TEST_PRIORITIES")) report("%s: priority %d", __func__, (int)desc->priority);
    ze_command_list_handle_t list = make(sizeof *list, 'L');
    list->context = context;
    list->next = lists;
    lists = list;
    context->children++;
    pthread_create(&list->thread, NULL, run_list, list);
    *out = list;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeCommandListDestroy(ze_command_list_handle_t list)
{
    ENTER_TO_END(list, 'L');
    if (list->first && !is_lost) report("%s: there is queued work", __func__);
    list->stops = list->o.is_dead = 1;
    list->context->children--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(list->thread, NULL);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeCommandListAppendBarrier(ze_command_list_handle_t list, ze_event_handle_t signal,
                                                  uint32_t n_waits, ze_event_handle_t *waits)
{
    return append(list, __func__, (command){.kind = BARRIER}, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryCopy(ze_command_list_handle_t list, void *to,
                                                     const void *from, size_t bytes, ze_event_handle_t signal,
                                                     uint32_t n_waits, ze_event_handle_t *waits)
{
    if (!to || !from) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return append(list, __func__, (command){.kind = COPY, .to = to, .from = from, .bytes = bytes}, signal,
                  n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryFill(ze_command_list_handle_t list, void *to,
                                                     const void *pattern, size_t pattern_bytes, size_t bytes,
                                                     ze_event_handle_t signal, uint32_t n_waits,
                                                     ze_event_handle_t *waits)
{
    command c = {.kind = FILL, .to = to, .bytes = bytes, .pattern_bytes = pattern_bytes};
    if (!to || !pattern) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!pattern_bytes || pattern_bytes > 16 || pattern_bytes & (pattern_bytes - 1))
        return ZE_RESULT_ERROR_INVALID_SIZE;
    memcpy(c.pattern, pattern, pattern_bytes);
    return append(list, __func__, c, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendLaunchKernel(ze_command_list_handle_t list,
                                                       ze_kernel_handle_t kernel,
                                                       const ze_group_count_t *groups,
                                                       ze_event_handle_t signal, uint32_t n_waits,
                                                       ze_event_handle_t *waits)
{
    if (!kernel) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    call_begin(&kernel->o, __func__);
    if (!is_alive(kernel, 'K', __func__) || !kernel->group)
        report("%s: the kernel has no group size", __func__);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const void *p;
        memcpy(&p, kernel->args[i].bytes, sizeof p);
        if (!kernel->args[i].is_set) report("%s: argument %u was never set", __func__, i);
        if (kernel->args[i].is_memory && p) expect_memory(p, 1, __func__);
        if (kernel->args[i].is_memory && p && !allocation_of(p))
            report("%s: argument %u is no memory of the device or the host", __func__, i);
    }
    command c = {
        .kind = LAUNCH, .kernel = kernel, .groups = groups->groupCountX, .arguments = malloc(sizeof *kernel)};
    memcpy(c.arguments, kernel, sizeof *kernel);
    pthread_mutex_unlock(&lock);
    ze_result_t result = append(list, __func__, c, signal, n_waits, waits);
    call_end(&kernel->o);
    return result;
}

/* ---- Events ---------------------------------------------------------------------------------------------------- */

ze_result_t ZE_APICALL zeEventPoolCreate(ze_context_handle_t context, const ze_event_pool_desc_t *desc,
                                         uint32_t n_devices, ze_device_handle_t *of,
                                         ze_event_pool_handle_t *out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
    if (!desc->count || desc->count > 1024) return leave(ZE_RESULT_ERROR_INVALID_SIZE);
    if (!(desc->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE))
        report("%s: the host cannot see its events", __func__);
    ze_event_pool_handle_t pool = make(sizeof *pool, 'P');
    pool->context = context;
    pool->count = desc->count;
    context->children++;
    *out = pool;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeEventPoolDestroy(ze_event_pool_handle_t pool)
{
    if (!pool) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    pthread_mutex_lock(&lock);
    if (is_alive(pool, 'P', __func__) && pool->live) report("%s: %u events are alive", __func__, pool->live);
    pool->o.is_dead = 1;
    pool->context->children--;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeEventCreate(ze_event_pool_handle_t pool, const ze_event_desc_t *desc,
                                     ze_event_handle_t *out)
{
    ENTER(pool, 'P');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_EVENT_DESC);
    if (desc->index >= pool->count || pool->used[desc->index]) {
        report("%s: index %u is taken, or not below %u", __func__, desc->index, pool->count);
        return leave(ZE_RESULT_ERROR_INVALID_ARGUMENT);
    }
    ze_event_handle_t e = make(sizeof *e, 'E');
    e->pool = pool;
    e->index = desc->index;
    pool->used[desc->index] = 1;
    pool->live++;
    *out = e;
    return leave(ZE_RESULT_SUCCESS);
}

static void expect_unused(ze_event_handle_t e, const char *function)
{
    if (e->o.in_use && !is_lost) report("%s: queued commands use the event", function);
}

ze_result_t ZE_APICALL zeEventDestroy(ze_event_handle_t e)
{
    ENTER_TO_END(e, 'E');
    expect_unused(e, __func__);
    e->o.is_dead = 1;
    e->pool->used[e->index] = 0;
    e->pool->live--;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeEventHostSignal(ze_event_handle_t e)
{
    ENTER(e, 'E');
    e->time = now();
    e->is_signalled = 1;
    pthread_cond_broadcast(&changed);
    ze_context_handle_t context = e->pool->context;
    pthread_mutex_unlock(&lock);
    late_sleep(late_delay());
    pthread_mutex_lock(&lock);
    if (context->o.is_dead) report("%s: the context ended before the call did", __func__);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeEventHostReset(ze_event_handle_t e)
{
    ENTER(e, 'E');
    expect_unused(e, __func__);
    e->is_signalled = 0;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeEventHostSynchronize(ze_event_handle_t e, uint64_t timeout)
{
    ENTER(e, 'E');
    while (!e->is_signalled && !is_lost && timeout) pthread_cond_wait(&changed, &lock);
    if (is_lost) return leave(ZE_RESULT_ERROR_DEVICE_LOST);
    return leave(e->is_signalled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY);
}

ze_result_t ZE_APICALL zeEventQueryStatus(ze_event_handle_t e)
{
    ENTER(e, 'E');
    return leave(e->is_signalled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY);
}

ze_result_t ZE_APICALL zeEventQueryKernelTimestamp(ze_event_handle_t e, ze_kernel_timestamp_result_t *out)
{
    ENTER(e, 'E');
    static uint64_t
        origin; /* the first one that is asked for stands a millisecond before the end of the clock */
    if (!e->is_signalled) return leave(ZE_RESULT_NOT_READY);
    if (!origin) origin = e->time + 1000000;
    uint64_t ticks = (e->time - origin) & (((uint64_t)1 << VALID_BITS) - 1);
    *out = (ze_kernel_timestamp_result_t){{ticks, ticks}, {ticks, ticks}};
    return leave(ZE_RESULT_SUCCESS);
}

/* ---- Modules and kernels ----------------------------------------------------------------------------------------- */

static int read_file(const char *path, uint8_t **out, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    fseek(file, 0, SEEK_END);
    *out_size = (size_t)ftell(file);
    rewind(file);
    *out = malloc(*out_size + 1);
    int is_read = fread(*out, 1, *out_size, file) == *out_size;
    fclose(file);
    return is_read && *out_size > 0;
}

static uint64_t hash_of(const uint8_t *bytes, size_t size)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

/* SPIR-V as LLVM's bitcode, which PoCL takes. */
static int translate(const uint8_t *bytes, size_t size, uint8_t **out, size_t *out_size)
{
    const char *folder = getenv("ZE_TEST_CACHE");
    char from[512], to[512], made[512];
    extern char **environ;
    pid_t child;
    int status = -1;
    snprintf(to, sizeof to, "%s/%016llx.bc", folder ? folder : "/tmp",
             (unsigned long long)hash_of(bytes, size));
    if (folder && read_file(to, out, out_size)) return 1;
    snprintf(from, sizeof from, "%.480s.%d.spv", to, (int)getpid());
    snprintf(made, sizeof made, "%.480s.%d", to, (int)getpid());
    FILE *file = fopen(from, "wb");
    if (!file) return 0;
    int is_written = fwrite(bytes, 1, size, file) == size;
    is_written &= fclose(file) == 0;
    char *argv[] = {"llvm-spirv-15", "-r", from, "-o", made, NULL};
    if (is_written && posix_spawnp(&child, argv[0], NULL, NULL, argv, environ) == 0)
        waitpid(child, &status, 0);
    unlink(from);
    if (status == 0 && rename(made, to) == 0 && read_file(to, out, out_size)) {
        if (!folder) unlink(to);
        return 1;
    }
    return 0;
}

ze_result_t ZE_APICALL zeModuleCreate(ze_context_handle_t context, ze_device_handle_t device,
                                      const ze_module_desc_t *desc, ze_module_handle_t *out,
                                      ze_module_build_log_handle_t *out_log)
{
    static struct _ze_module_build_log_handle_t {
        object o;
    } log = {{.kind = 'B'}};
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_MODULE_DESC);
    struct _ze_module_handle_t m = {.context = context};
    cl_int status = CL_INVALID_BINARY, of_binary;
    int is_native = desc->format == ZE_MODULE_FORMAT_NATIVE;
    if (out_log) *out_log = (ze_module_build_log_handle_t)&log;
    if (is_native && (desc->inputSize < 4 || memcmp(desc->pInputModule, "BC\xC0\xDE", 4) != 0))
        return leave(ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
    if (is_native) {
        m.bytes = malloc(desc->inputSize);
        memcpy(m.bytes, desc->pInputModule, desc->inputSize);
        m.size = desc->inputSize;
    } else if (!translate(desc->pInputModule, desc->inputSize, &m.bytes, &m.size)) {
        return leave(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
    }
    const unsigned char *bytes = m.bytes;
    pthread_mutex_lock(&cl_lock);
    for (int i = 0; i < 3 && status != CL_SUCCESS;
         i++) { /* it fails while another process fills PoCL's cache */
        m.program =
            cl.clCreateProgramWithBinary(cl.context, 1, &cl.device, &m.size, &bytes, &of_binary, &status);
        if (status == CL_SUCCESS)
            status = cl.clBuildProgram(m.program, 1, &cl.device, "-cl-kernel-arg-info", NULL, NULL);
    }
    pthread_mutex_unlock(&cl_lock);
    if (status != CL_SUCCESS) {
        report("%s: OpenCL gives %d", __func__, status);
        return leave(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
    }
    context->children++;
    *out = make(sizeof m, 'M');
    m.o = (*out)->o;
    **out = m;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeModuleDestroy(ze_module_handle_t module)
{
    ENTER_TO_END(module, 'M');
    if (module->kernels) report("%s: %d kernels are alive", __func__, module->kernels);
    module->o.is_dead = 1;
    module->context->children--;
    cl.clReleaseProgram(module->program);
    free(module->bytes);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeModuleGetNativeBinary(ze_module_handle_t module, size_t *size, uint8_t *out)
{
    ENTER(module, 'M');
    if (out) memcpy(out, module->bytes, *size < module->size ? *size : module->size);
    *size = module->size;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeModuleBuildLogGetString(ze_module_build_log_handle_t log, size_t *size, char *out)
{
    static const char text[] = "the log of the test driver";
    if (out) memcpy(out, text, *size < sizeof text ? *size : sizeof text);
    *size = sizeof text;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleBuildLogDestroy(ze_module_build_log_handle_t log)
{
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelCreate(ze_module_handle_t module, const ze_kernel_desc_t *desc,
                                      ze_kernel_handle_t *out)
{
    ENTER(module, 'M');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_KERNEL_DESC);
    cl_int status;
    cl_uint n = 0;
    cl_kernel kernel = cl.clCreateKernel(module->program, desc->pKernelName, &status);
    if (status != CL_SUCCESS) return leave(ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
    cl.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL);
    ze_kernel_handle_t k = make(sizeof *k, 'K');
    k->module = module;
    k->kernel = kernel;
    k->n_args = n;
    for (cl_uint i = 0; i < n && i < MOST_ARGS; i++) {
        cl_kernel_arg_address_qualifier where = CL_KERNEL_ARG_ADDRESS_PRIVATE;
        if (cl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where, NULL))
            report("%s: argument %u of %s is not known", __func__, i, desc->pKernelName);
        k->args[i].is_memory =
            where == CL_KERNEL_ARG_ADDRESS_GLOBAL || where == CL_KERNEL_ARG_ADDRESS_CONSTANT;
    }
    module->kernels++;
    *out = k;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeKernelDestroy(ze_kernel_handle_t kernel)
{
    ENTER_TO_END(kernel, 'K');
    if (kernel->o.in_use && !is_lost) report("%s: queued commands use the kernel", __func__);
    kernel->o.is_dead = 1;
    kernel->module->kernels--;
    cl.clReleaseKernel(kernel->kernel);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeKernelSetGroupSize(ze_kernel_handle_t kernel, uint32_t x, uint32_t y, uint32_t z)
{
    ENTER(kernel, 'K');
    if (!x || x * y * z > 1024) return leave(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
    kernel->group = x;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeKernelSetArgumentValue(ze_kernel_handle_t kernel, uint32_t i, size_t size,
                                                const void *value)
{
    if (kernel) call_begin(&kernel->o, __func__);
    ze_result_t result = ZE_RESULT_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!kernel || !is_alive(kernel, 'K', __func__)) result = ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    if (!result) result = fault_of(__func__);
    if (!result && i >= kernel->n_args) result = ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
    if (!result && (size > 1024 || (kernel->args[i].is_memory && size != sizeof(void *))))
        result = ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
    if (!result) {
        memset(kernel->args[i].bytes, 0, sizeof kernel->args[i].bytes);
        if (value) memcpy(kernel->args[i].bytes, value, size);
        kernel->args[i].size = size;
        kernel->args[i].is_set = 1;
    }
    pthread_mutex_unlock(&lock);
    if (kernel) call_end(&kernel->o);
    return result;
}

/* ---- Driver, devices, contexts ------------------------------------------------------------------------------------ */

ze_result_t ZE_APICALL zeInit(ze_init_flags_t flags)
{
    return start_opencl() ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNINITIALIZED;
}

ze_result_t ZE_APICALL zeDriverGet(uint32_t *count, ze_driver_handle_t *out)
{
    if (*count && out) *out = &the_driver;
    *count = 1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetApiVersion(ze_driver_handle_t driver, ze_api_version_t *out)
{
    *out = ZE_API_VERSION_1_0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetProperties(ze_driver_handle_t driver, ze_driver_properties_t *out)
{
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES);
    out->driverVersion = 7;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGet(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *out)
{
    ENTER(driver, 'd');
    for (uint32_t i = 0; out && i < DEVICES && i < *count; i++) out[i] = &devices[i];
    *count = DEVICES;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceGetProperties(ze_device_handle_t device, ze_device_properties_t *out)
{
    ENTER(device, 'D');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES);
    *out = (ze_device_properties_t){.stype = out->stype,
                                    .type = ZE_DEVICE_TYPE_GPU,
                                    .vendorId = 0x8086,
                                    .deviceId = 0x7e57,
                                    .maxMemAllocSize = LARGEST,
                                    .numThreadsPerEU = 8,
                                    .physicalEUSimdWidth = 8,
                                    .numEUsPerSubslice = 2,
                                    .numSubslicesPerSlice = 1,
                                    .numSlices = 1,
                                    .timerResolution = 1,
                                    .timestampValidBits = VALID_BITS,
                                    .kernelTimestampValidBits = VALID_BITS};
    const char *uuid = getenv("ZE_TEST_UUID");
    if (uuid) memset(out->uuid.id, uuid[0] + (int)device->index, sizeof out->uuid.id);
    snprintf(out->name, sizeof out->name, "Level Zero test device %u", device->index);
    return leave(ZE_RESULT_SUCCESS);
}

static ze_result_t ZE_APICALL pci_get_properties(ze_device_handle_t device, ze_pci_ext_properties_t *out)
{
    ENTER(device, 'D');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES);
    out->address = (ze_pci_address_ext_t){.bus = 0x65 + device->index};
    return leave(getenv("ZE_TEST_UUID") ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
}

/* ---- System management: memory of the device, and some that is not the device's -------------------------------------- */

static struct memory_module {
    object o;
    struct _ze_device_handle_t *device; /* NULL: memory of the host */
} modules[DEVICES + 1] = {{{.kind = 'm'}, &devices[0]}, {{.kind = 'm'}, &devices[1]}, {{.kind = 'm'}, NULL}};

static ze_result_t ZE_APICALL enum_memory_modules(zes_device_handle_t handle, uint32_t *count,
                                                  zes_mem_handle_t *out)
{
    ze_device_handle_t device = (ze_device_handle_t)handle;
    ENTER(device, 'D');
    if (out && *count > 0) out[0] = (zes_mem_handle_t)&modules[device->index];
    if (out && *count > 1) out[1] = (zes_mem_handle_t)&modules[DEVICES];
    *count = 2;
    return leave(ZE_RESULT_SUCCESS);
}

static ze_result_t ZE_APICALL memory_get_properties(zes_mem_handle_t handle, zes_mem_properties_t *out)
{
    const struct memory_module *m = (const struct memory_module *)handle;
    ENTER(&m->o, 'm');
    EXPECT_TYPE(out, ZES_STRUCTURE_TYPE_MEM_PROPERTIES);
    out->location = m->device ? ZES_MEM_LOC_DEVICE : ZES_MEM_LOC_SYSTEM;
    return leave(ZE_RESULT_SUCCESS);
}

/* Somebody else has a quarter of the memory. */
static ze_result_t ZE_APICALL memory_get_state(zes_mem_handle_t handle, zes_mem_state_t *out)
{
    const struct memory_module *m = (const struct memory_module *)handle;
    ENTER(&m->o, 'm');
    EXPECT_TYPE(out, ZES_STRUCTURE_TYPE_MEM_STATE);
    out->size = MEMORY;
    out->free = MEMORY / 4 * 3 - (m->device ? m->device->taken : 0);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceGetModuleProperties(ze_device_handle_t device,
                                                   ze_device_module_properties_t *out)
{
    ENTER(device, 'D');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES);
    out->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
    out->flags = setting("FAULTY_NO_DOUBLE") ? 0 : ZE_DEVICE_MODULE_FLAG_FP64;
    out->maxArgumentsSize = 2048;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeDeviceGetMemoryProperties(ze_device_handle_t device, uint32_t *count,
                                                   ze_device_memory_properties_t *out)
{
    ENTER(device, 'D');
    if (*count && out) {
        EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES);
        out->totalSize = MEMORY;
    }
    *count = 1;
    return leave(ZE_RESULT_SUCCESS);
}

/* Group 0 copies only, so that somebody who takes the first one is seen. */
ze_result_t ZE_APICALL zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t device, uint32_t *count,
                                                              ze_command_queue_group_properties_t *out)
{
    ENTER(device, 'D');
    for (uint32_t i = 0; out && i < 2 && i < *count; i++) {
        EXPECT_TYPE(&out[i], ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES);
        out[i].flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
                       (i ? ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE : 0);
        out[i].maxMemoryFillPatternSize = 16;
        out[i].numQueues = 1;
    }
    *count = 2;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeContextCreate(ze_driver_handle_t driver, const ze_context_desc_t *desc,
                                       ze_context_handle_t *out)
{
    ENTER(driver, 'd');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_CONTEXT_DESC);
    *out = make(sizeof **out, 'C');
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeContextDestroy(ze_context_handle_t context)
{
    ENTER_TO_END(context, 'C');
    if (context->children) report("%s: %d objects of the context are alive", __func__, context->children);
    context->o.is_dead = 1;
    return leave(ZE_RESULT_SUCCESS);
}

/* ---- The tables, as the loader asks for them ----------------------------------------------------------------------- */

#define TABLE(name, type, ...)                                                      \
    ZE_DLLEXPORT ze_result_t ZE_APICALL name(ze_api_version_t version, type *table) \
    {                                                                               \
        *table = (type){__VA_ARGS__};                                               \
        return ZE_RESULT_SUCCESS;                                                   \
    }
#define NO_TABLE(name, type) TABLE(name, type, 0)

TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t, .pfnInit = zeInit)
TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t, .pfnGet = zeDriverGet,
      .pfnGetApiVersion = zeDriverGetApiVersion, .pfnGetProperties = zeDriverGetProperties)
TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t, .pfnGet = zeDeviceGet,
      .pfnGetProperties = zeDeviceGetProperties, .pfnGetModuleProperties = zeDeviceGetModuleProperties,
      .pfnGetMemoryProperties = zeDeviceGetMemoryProperties,
      .pfnGetCommandQueueGroupProperties = zeDeviceGetCommandQueueGroupProperties,
      .pfnPciGetPropertiesExt = pci_get_properties)
TABLE(zeGetContextProcAddrTable, ze_context_dditable_t, .pfnCreate = zeContextCreate,
      .pfnDestroy = zeContextDestroy)
TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t,
      .pfnCreateImmediate = zeCommandListCreateImmediate, .pfnDestroy = zeCommandListDestroy,
      .pfnAppendBarrier = zeCommandListAppendBarrier, .pfnAppendMemoryCopy = zeCommandListAppendMemoryCopy,
      .pfnAppendMemoryFill = zeCommandListAppendMemoryFill,
      .pfnAppendLaunchKernel = zeCommandListAppendLaunchKernel)
TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t, .pfnCreate = zeEventPoolCreate,
      .pfnDestroy = zeEventPoolDestroy)
TABLE(zeGetEventProcAddrTable, ze_event_dditable_t, .pfnCreate = zeEventCreate, .pfnDestroy = zeEventDestroy,
      .pfnHostSignal = zeEventHostSignal, .pfnHostSynchronize = zeEventHostSynchronize,
      .pfnQueryStatus = zeEventQueryStatus, .pfnHostReset = zeEventHostReset,
      .pfnQueryKernelTimestamp = zeEventQueryKernelTimestamp)
TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t, .pfnCreate = zeModuleCreate,
      .pfnDestroy = zeModuleDestroy, .pfnGetNativeBinary = zeModuleGetNativeBinary)
TABLE(zeGetModuleBuildLogProcAddrTable, ze_module_build_log_dditable_t, .pfnDestroy = zeModuleBuildLogDestroy,
      .pfnGetString = zeModuleBuildLogGetString)
TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t, .pfnCreate = zeKernelCreate,
      .pfnDestroy = zeKernelDestroy, .pfnSetGroupSize = zeKernelSetGroupSize,
      .pfnSetArgumentValue = zeKernelSetArgumentValue)
TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t, .pfnAllocDevice = zeMemAllocDevice,
      .pfnAllocHost = zeMemAllocHost, .pfnFree = zeMemFree, .pfnGetAllocProperties = zeMemGetAllocProperties,
      .pfnGetAddressRange = zeMemGetAddressRange)

/* The loader wants all of them to exist. */
NO_TABLE(zeGetDeviceExpProcAddrTable, ze_device_exp_dditable_t)
NO_TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t)
NO_TABLE(zeGetImageProcAddrTable, ze_image_dditable_t)
NO_TABLE(zeGetImageExpProcAddrTable, ze_image_exp_dditable_t)
NO_TABLE(zeGetFenceProcAddrTable, ze_fence_dditable_t)
NO_TABLE(zeGetEventExpProcAddrTable, ze_event_exp_dditable_t)
NO_TABLE(zeGetKernelExpProcAddrTable, ze_kernel_exp_dditable_t)
NO_TABLE(zeGetSamplerProcAddrTable, ze_sampler_dditable_t)
NO_TABLE(zeGetPhysicalMemProcAddrTable, ze_physical_mem_dditable_t)
NO_TABLE(zeGetVirtualMemProcAddrTable, ze_virtual_mem_dditable_t)
NO_TABLE(zeGetFabricVertexExpProcAddrTable, ze_fabric_vertex_exp_dditable_t)
NO_TABLE(zeGetFabricEdgeExpProcAddrTable, ze_fabric_edge_exp_dditable_t)
NO_TABLE(zetGetDeviceProcAddrTable, zet_device_dditable_t)
NO_TABLE(zetGetContextProcAddrTable, zet_context_dditable_t)
NO_TABLE(zetGetCommandListProcAddrTable, zet_command_list_dditable_t)
NO_TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t)
NO_TABLE(zetGetKernelProcAddrTable, zet_kernel_dditable_t)
NO_TABLE(zetGetMetricGroupProcAddrTable, zet_metric_group_dditable_t)
NO_TABLE(zetGetMetricGroupExpProcAddrTable, zet_metric_group_exp_dditable_t)
NO_TABLE(zetGetMetricProcAddrTable, zet_metric_dditable_t)
NO_TABLE(zetGetMetricStreamerProcAddrTable, zet_metric_streamer_dditable_t)
NO_TABLE(zetGetMetricQueryPoolProcAddrTable, zet_metric_query_pool_dditable_t)
NO_TABLE(zetGetMetricQueryProcAddrTable, zet_metric_query_dditable_t)
NO_TABLE(zetGetTracerExpProcAddrTable, zet_tracer_exp_dditable_t)
NO_TABLE(zetGetDebugProcAddrTable, zet_debug_dditable_t)
NO_TABLE(zesGetDriverProcAddrTable, zes_driver_dditable_t)
TABLE(zesGetDeviceProcAddrTable, zes_device_dditable_t, .pfnEnumMemoryModules = enum_memory_modules)
NO_TABLE(zesGetSchedulerProcAddrTable, zes_scheduler_dditable_t)
NO_TABLE(zesGetPerformanceFactorProcAddrTable, zes_performance_factor_dditable_t)
NO_TABLE(zesGetPowerProcAddrTable, zes_power_dditable_t)
NO_TABLE(zesGetFrequencyProcAddrTable, zes_frequency_dditable_t)
NO_TABLE(zesGetEngineProcAddrTable, zes_engine_dditable_t)
NO_TABLE(zesGetStandbyProcAddrTable, zes_standby_dditable_t)
NO_TABLE(zesGetFirmwareProcAddrTable, zes_firmware_dditable_t)
TABLE(zesGetMemoryProcAddrTable, zes_memory_dditable_t, .pfnGetProperties = memory_get_properties,
      .pfnGetState = memory_get_state)
NO_TABLE(zesGetFabricPortProcAddrTable, zes_fabric_port_dditable_t)
NO_TABLE(zesGetTemperatureProcAddrTable, zes_temperature_dditable_t)
NO_TABLE(zesGetPsuProcAddrTable, zes_psu_dditable_t)
NO_TABLE(zesGetFanProcAddrTable, zes_fan_dditable_t)
NO_TABLE(zesGetLedProcAddrTable, zes_led_dditable_t)
NO_TABLE(zesGetRasProcAddrTable, zes_ras_dditable_t)
NO_TABLE(zesGetDiagnosticsProcAddrTable, zes_diagnostics_dditable_t)
