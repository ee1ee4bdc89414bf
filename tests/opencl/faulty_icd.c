/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenCL driver (ICD) that is PoCL with faults. It overwrites entries of PoCL's dispatch table, through which the
 * loader calls everything. What it does is asked for by the environment:
 *
 *   FAULTY_FAIL=FUNCTION:N:STATUS[:MORE]  call N of the function (from 1 on) returns the status. MORE is `always`:
 *                                         all calls from there on; or `lost`: the context of that call is lost, and
 *                                         every later call that uses it returns CL_INVALID_CONTEXT
 *   FAULTY_LARGEST=BYTES                  larger buffers are not allocated
 *   FAULTY_LAZY=BYTES                     larger buffers have no memory, which is seen when work first uses them
 *   FAULTY_SHORT=BYTES                    buffers are so much smaller than asked for, and so are copies and fills
 *   FAULTY_CHECKED=1                      for oclgrind's search for values that were not initialised: no buffer is given back,
 *                                         since the next one at its place would count as it did, and fills are writes
 *   FAULTY_NO_DOUBLE=1                    devices have no float64
 *   FAULTY_GPU=1                          devices say that they are GPUs, so kernels have the form for GPUs; 2: the second one does
 *   FAULTY_LACKS=WHAT                     what devices do not have: version (1.2), profile, power, compiler, groups
 *   FAULTY_SOURCE=TEXT                    every program gets a line `#error TEXT`
 *   FAULTY_DELAY, FAULTY_GATE, FAULTY_UNASKED, FAULTY_SIGNALS   work that writes device memory is late: ../gpu/late.h. If the
 *                                         host has to ask, reads are late, too. clSetUserEventStatus is what signals
 *   FAULTY_UNFLUSHED=1                    no work begins before its queue is flushed
 *   FAULTY_FLUSHES=FILE                   gets a byte for each call of clFlush
 *   FAULTY_DRIVER=FILE                    the library of another driver in place of PoCL
 *   FAULTY_KERNELS=FILE                   gets a line for each kernel that is queued: options of its program, a tab, its name
 *
 * faulty_live() gives how many references its users have to buffers, queues and events.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../gpu/late.h"

/* Objects of OpenCL begin with a pointer to the dispatch table. */
struct _cl_platform_id {
    cl_icd_dispatch *dispatch;
};

static cl_icd_dispatch real;
static int references;  /* atomic */
static cl_context lost; /* atomic */
static struct {
    char function[64];
    int n, status, always, loses, calls;
} fail;

__attribute__((visibility("default"))) int faulty_live(void);
int faulty_live(void)
{
    return __atomic_load_n(&references, __ATOMIC_ACQUIRE);
}

/* The user has so many references more if the call has succeeded. */
static cl_int counted(cl_int status, int more)
{
    if (status == CL_SUCCESS) __atomic_add_fetch(&references, more, __ATOMIC_ACQ_REL);
    return status;
}

static long setting(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static cl_context context_of(cl_command_queue queue)
{
    cl_context context = NULL;
    real.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    return context;
}

/* The status with which this call has to fail, or CL_SUCCESS. */
static cl_int fault_of(const char *function, cl_context context)
{
    if (context && __atomic_load_n(&lost, __ATOMIC_ACQUIRE) == context) return CL_INVALID_CONTEXT;
    if (strcmp(fail.function, function) != 0) return CL_SUCCESS;
    int call = __atomic_add_fetch(&fail.calls, 1, __ATOMIC_RELAXED);
    if (call != fail.n && !(fail.always && call > fail.n)) return CL_SUCCESS;
    if (fail.loses) __atomic_store_n(&lost, context, __ATOMIC_RELEASE);
    return fail.status;
}

/* ---- Late work ----------------------------------------------------------------------------------------------- */

/* An event of a queue: one that holds its work until the host asks, or one that its work waits for. */
typedef struct tie {
    struct tie *next;
    cl_command_queue queue;
    cl_event event;
} tie;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the rest */
static tie *held, *awaited;

static void add_link(tie **list, cl_command_queue queue, cl_event event)
{
    tie *l = malloc(sizeof *l);
    if (!l) abort();
    pthread_mutex_lock(&lock);
    *l = (tie){*list, queue, event};
    *list = l;
    pthread_mutex_unlock(&lock);
}

/* Of user events NULL. */
static cl_command_queue queue_of(cl_event event)
{
    cl_command_queue queue = NULL;
    real.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL);
    return queue;
}

static int is_complete(cl_event event)
{
    cl_int state = CL_QUEUED;
    real.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    return state <= CL_COMPLETE; /* errors are negative */
}

static void *begin_late(void *hold)
{
    late_begin();
    real.clSetUserEventStatus(hold, CL_COMPLETE);
    real.clReleaseEvent(hold);
    return NULL;
}

static void begin(cl_event hold)
{
    pthread_t thread;
    if ((late_delay() || late_is_closed()) && pthread_create(&thread, NULL, begin_late, hold) == 0)
        pthread_detach(thread);
    else
        begin_late(hold);
}

/* What is queued after it begins later. */
static void hold(cl_command_queue queue, int is_read)
{
    cl_int status;
    const int until_flushed = setting("FAULTY_UNFLUSHED") != 0;
    late_queued();
    if (!late_until_asked() && !until_flushed && (is_read || !late_delay())) return;
    cl_event event = real.clCreateUserEvent(context_of(queue), &status);
    real.clEnqueueBarrierWithWaitList(queue, 1, &event, NULL);
    if (late_until_asked() || until_flushed)
        add_link(&held, queue, event);
    else
        begin(event);
}

/* The work of the queue waits for the events. */
static void follow(cl_command_queue queue, cl_uint n, const cl_event *list)
{
    for (cl_uint i = 0; i < n && late_until_asked(); i++) {
        real.clRetainEvent(list[i]);
        add_link(&awaited, queue, list[i]);
    }
}

#define MOST_QUEUES 256

static int has_queue(cl_command_queue *queues, cl_command_queue queue)
{
    int i = 0;
    while (queues[i] && queues[i] != queue) i++;
    return queues[i] != NULL;
}

/* Adds the queues that work of the queues waits for. Whether some of it waits for an event of the program; under the lock. */
static int add_awaited(cl_command_queue queues[MOST_QUEUES])
{
    int is_blocked = 0, n = 1;
    for (tie **at = &awaited, *l; (l = *at);) {
        if (is_complete(l->event)) {
            *at = l->next;
            real.clReleaseEvent(l->event);
            free(l);
            continue;
        }
        at = &l->next;
        cl_command_queue other = queue_of(l->event);
        if (!has_queue(queues, l->queue)) continue;
        is_blocked |= !other;
        if (!other || has_queue(queues, other)) continue;
        while (queues[n]) n++;
        if (n == MOST_QUEUES - 1) abort();
        queues[n] = other;
        at = &awaited; /* what that one waits for may have been passed over */
    }
    return is_blocked;
}

/* The host waits for the queue: its work begins, and all that it waits for. Whether that ends without the program. */
static int ask(cl_command_queue queue)
{
    cl_command_queue queues[MOST_QUEUES] = {queue};
    tie *begins = NULL;
    if (!queue) return 1;
    pthread_mutex_lock(&lock);
    int is_blocked = add_awaited(queues);
    for (tie **at = &held, *l; (l = *at);) {
        if (!has_queue(queues, l->queue)) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        l->next = begins;
        begins = l;
    }
    pthread_mutex_unlock(&lock);
    for (tie *l = begins, *next; l; l = next) {
        next = l->next;
        begin(l->event);
        free(l);
    }
    return !is_blocked;
}

static void wait_begins(cl_command_queue queue)
{
    if (!ask(queue)) late_note("blocked");
    if (late_is_closed()) late_note("reached");
}

/* ---- Which kernels run --------------------------------------------------------------------------------------- */

/* Into the file that the variable names, if it names one. One write a text: processes share the file. */
static void append_to(const char *variable, const char *text)
{
    const char *path = getenv(variable);
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (file < 0) return;
    if (write(file, text, strlen(text)) != (ssize_t)strlen(text)) abort(); /* the list would have a hole */
    close(file);
}

static void note(cl_kernel kernel)
{
    char options[512] = "", name[128] = "", line[700];
    cl_program program = NULL;
    cl_device_id device = NULL;
    if (!getenv("FAULTY_KERNELS")) return;
    real.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    real.clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL);
    real.clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof device, &device, NULL);
    real.clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_OPTIONS, sizeof options, options, NULL);
    snprintf(line, sizeof line, "%s\t%s\n", options, name);
    append_to("FAULTY_KERNELS", line);
}

/* ---- Functions --------------------------------------------------------------------------------------------- */

/* A queue that is lost uses no memory any more, so that the host may free it. */
static cl_int failed(cl_command_queue queue, cl_int fault)
{
    if (fault == CL_INVALID_COMMAND_QUEUE) {
        wait_begins(queue);
        real.clFinish(queue);
    }
    return fault;
}

#define FAIL_IN_QUEUE(name)                            \
    cl_int fault = fault_of(#name, context_of(queue)); \
    if (fault != CL_SUCCESS) return failed(queue, fault);
#define EVENTS       cl_uint n, const cl_event *list, cl_event *out
#define QUEUE        cl_command_queue queue
#define FAULTY(name) static cl_int CL_API_CALL faulty_##name

FAULTY(clFlush)(QUEUE)
{
    FAIL_IN_QUEUE(clFlush)
    append_to("FAULTY_FLUSHES", ".");
    if (setting("FAULTY_UNFLUSHED")) ask(queue);
    return real.clFlush(queue);
}
FAULTY(clFinish)(QUEUE)
{
    FAIL_IN_QUEUE(clFinish)
    wait_begins(queue);
    return real.clFinish(queue);
}
FAULTY(clEnqueueNDRangeKernel)
(QUEUE, cl_kernel kernel, cl_uint dims, const size_t *first, const size_t *items, const size_t *group, EVENTS)
{
    FAIL_IN_QUEUE(clEnqueueNDRangeKernel)
    hold(queue, 0);
    note(kernel);
    return real.clEnqueueNDRangeKernel(queue, kernel, dims, first, items, group, n, list, out);
}
/* Of so many bytes, those that FAULTY_SHORT leaves. */
static size_t shorter(size_t bytes)
{
    size_t less = (size_t)setting("FAULTY_SHORT");
    return bytes > less ? bytes - less : bytes;
}

/* As drivers that take memory for a buffer when it is needed. */
static int lacks_memory(cl_mem memory)
{
    size_t bytes = 0;
    const long largest = setting("FAULTY_LAZY");
    real.clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    return largest && bytes > (size_t)largest;
}

FAULTY(clEnqueueMigrateMemObjects)
(QUEUE, cl_uint count, const cl_mem *memory, cl_mem_migration_flags flags, EVENTS)
{
    FAIL_IN_QUEUE(clEnqueueMigrateMemObjects)
    for (cl_uint i = 0; i < count; i++)
        if (lacks_memory(memory[i])) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return counted(real.clEnqueueMigrateMemObjects(queue, count, memory, flags, n, list, out), out != NULL);
}

FAULTY(clEnqueueReadBuffer)(QUEUE, cl_mem from, cl_bool blocks, size_t offset, size_t bytes, void *to, EVENTS)
{
    FAIL_IN_QUEUE(clEnqueueReadBuffer)
    hold(queue, 1);
    if (blocks) wait_begins(queue);
    return real.clEnqueueReadBuffer(queue, from, blocks, offset, shorter(bytes), to, n, list, out);
}
FAULTY(clEnqueueWriteBuffer)
(QUEUE, cl_mem to, cl_bool blocks, size_t offset, size_t bytes, const void *from, EVENTS)
{
    FAIL_IN_QUEUE(clEnqueueWriteBuffer)
    if (lacks_memory(to)) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    hold(queue, 0);
    return real.clEnqueueWriteBuffer(queue, to, blocks, offset, shorter(bytes), from, n, list, out);
}
FAULTY(clEnqueueCopyBuffer)
(QUEUE, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t bytes, EVENTS)
{
    FAIL_IN_QUEUE(clEnqueueCopyBuffer)
    hold(queue, 0);
    return real.clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, shorter(bytes), n, list, out);
}
static cl_int write_pattern(QUEUE, cl_mem memory, const void *pattern, size_t pattern_bytes, size_t offset,
                            size_t bytes, EVENTS)
{
    char *all = malloc(bytes);
    if (!all) return CL_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < bytes; i++) all[i] = ((const char *)pattern)[i % pattern_bytes];
    cl_int status = real.clEnqueueWriteBuffer(queue, memory, CL_TRUE, offset, bytes, all, n, list, out);
    free(all);
    return status;
}
FAULTY(clEnqueueFillBuffer)
(QUEUE, cl_mem memory, const void *pattern, size_t pattern_bytes, size_t offset, size_t bytes, EVENTS)
{
    FAIL_IN_QUEUE(clEnqueueFillBuffer)
    hold(queue, 0);
    if (setting("FAULTY_SHORT") && bytes > pattern_bytes) bytes -= pattern_bytes;
    if (setting("FAULTY_CHECKED"))
        return write_pattern(queue, memory, pattern, pattern_bytes, offset, bytes, n, list, out);
    return real.clEnqueueFillBuffer(queue, memory, pattern, pattern_bytes, offset, bytes, n, list, out);
}
FAULTY(clEnqueueMarkerWithWaitList)(QUEUE, EVENTS)
{
    FAIL_IN_QUEUE(clEnqueueMarkerWithWaitList)
    follow(queue, n, list);
    return counted(real.clEnqueueMarkerWithWaitList(queue, n, list, out), out != NULL);
}
FAULTY(clEnqueueBarrierWithWaitList)(QUEUE, EVENTS)
{
    FAIL_IN_QUEUE(clEnqueueBarrierWithWaitList)
    follow(queue, n, list);
    return real.clEnqueueBarrierWithWaitList(queue, n, list, out);
}
FAULTY(clWaitForEvents)(cl_uint n, const cl_event *list)
{
    cl_context context = NULL;
    if (n) real.clGetEventInfo(list[0], CL_EVENT_CONTEXT, sizeof context, &context, NULL);
    cl_int fault = fault_of("clWaitForEvents", context);
    for (cl_uint i = 0; i < n && !setting("FAULTY_UNFLUSHED"); i++) wait_begins(queue_of(list[i]));
    return fault != CL_SUCCESS ? fault : real.clWaitForEvents(n, list);
}
/* Questions in a row are a wait for all that can be done. */
FAULTY(clGetEventInfo)(cl_event event, cl_event_info what, size_t bytes, void *value, size_t *out_bytes)
{
    int is_question = what == CL_EVENT_COMMAND_EXECUTION_STATUS && late_until_asked() && !is_complete(event);
    if (is_question && late_insists() && ask(queue_of(event))) real.clWaitForEvents(1, &event);
    return real.clGetEventInfo(event, what, bytes, value, out_bytes);
}
/* A queue ends when its work has ended. */
FAULTY(clReleaseCommandQueue)(QUEUE)
{
    ask(queue);
    return counted(real.clReleaseCommandQueue(queue), -1);
}
FAULTY(clRetainCommandQueue)(QUEUE)
{
    return counted(real.clRetainCommandQueue(queue), 1);
}
static cl_command_queue CL_API_CALL faulty_clCreateCommandQueue(cl_context context, cl_device_id id,
                                                                cl_command_queue_properties properties,
                                                                cl_int *out_status)
{
    cl_command_queue queue = real.clCreateCommandQueue(context, id, properties, out_status);
    counted(queue ? CL_SUCCESS : CL_INVALID_VALUE, 1);
    return queue;
}
static cl_event CL_API_CALL faulty_clCreateUserEvent(cl_context context, cl_int *out_status)
{
    cl_event event = real.clCreateUserEvent(context, out_status);
    counted(event ? CL_SUCCESS : CL_INVALID_VALUE, 1);
    return event;
}
FAULTY(clRetainEvent)(cl_event event)
{
    return counted(real.clRetainEvent(event), 1);
}
FAULTY(clReleaseEvent)(cl_event event)
{
    return counted(real.clReleaseEvent(event), -1);
}
FAULTY(clSetUserEventStatus)(cl_event event, cl_int status)
{
    cl_int result = real.clSetUserEventStatus(event, status);
    late_until_file("FAULTY_SIGNALS");
    return result;
}
/* The first device that is asked for is not. */
static int is_second_gpu(cl_device_id id)
{
    static cl_device_id first;
    if (!first) first = id;
    return setting("FAULTY_GPU") == 2 && id != first;
}
/* Texts of PoCL are longer. */
static void take_away(const char *lacking, cl_device_info what, void *value)
{
    if (what == CL_DEVICE_VERSION && strcmp(lacking, "version") == 0) strcpy(value, "OpenCL 1.1 old");
    if (what == CL_DEVICE_PROFILE && strcmp(lacking, "profile") == 0) strcpy(value, "EMBEDDED");
    if (what == CL_DEVICE_AVAILABLE && strcmp(lacking, "power") == 0) *(cl_bool *)value = CL_FALSE;
    if (what == CL_DEVICE_COMPILER_AVAILABLE && strcmp(lacking, "compiler") == 0)
        *(cl_bool *)value = CL_FALSE;
    if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE && strcmp(lacking, "groups") == 0) *(size_t *)value = 64;
}
FAULTY(clGetDeviceInfo)(cl_device_id id, cl_device_info what, size_t bytes, void *value, size_t *out_bytes)
{
    const char *uuid = getenv("FAULTY_UUID");
    cl_int status = real.clGetDeviceInfo(id, what, bytes, value, out_bytes);
    if (what == CL_DEVICE_EXTENSIONS && value && uuid)
        snprintf((char *)value + strlen(value), bytes - strlen(value),
                 " cl_khr_device_uuid cl_khr_pci_bus_info");
    if (what == CL_DEVICE_UUID_KHR && value && uuid) {
        memset(value, uuid[0], bytes);
        status = CL_SUCCESS;
    }
    if (what == CL_DEVICE_PCI_BUS_INFO_KHR && value && uuid) {
        *(cl_device_pci_bus_info_khr *)value = (cl_device_pci_bus_info_khr){1, 0x65, 0x1f, 7};
        status = CL_SUCCESS;
    }
    if (what == CL_DEVICE_DOUBLE_FP_CONFIG && value && setting("FAULTY_NO_DOUBLE")) memset(value, 0, bytes);
    if (what == CL_DEVICE_TYPE && value && (setting("FAULTY_GPU") == 1 || is_second_gpu(id)))
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    if (value && getenv("FAULTY_LACKS")) take_away(getenv("FAULTY_LACKS"), what, value);
    return status;
}
static cl_mem CL_API_CALL faulty_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes,
                                                void *host, cl_int *out_status)
{
    const long largest = setting("FAULTY_LARGEST");
    *out_status = fault_of("clCreateBuffer", context);
    if (*out_status == CL_SUCCESS && largest && bytes > (size_t)largest)
        *out_status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (*out_status != CL_SUCCESS) return NULL;
    cl_mem memory = real.clCreateBuffer(context, flags, shorter(bytes), host, out_status);
    counted(memory ? CL_SUCCESS : CL_INVALID_VALUE, 1);
    return memory;
}
FAULTY(clRetainMemObject)(cl_mem memory)
{
    return counted(real.clRetainMemObject(memory), 1);
}
FAULTY(clReleaseMemObject)(cl_mem memory)
{
    return counted(setting("FAULTY_CHECKED") ? CL_SUCCESS : real.clReleaseMemObject(memory), -1);
}
static cl_program CL_API_CALL faulty_clCreateProgramWithSource(cl_context context, cl_uint count,
                                                               const char **texts, const size_t *lengths,
                                                               cl_int *out_status)
{
    char line[256];
    const char *both[2] = {line, texts[0]};
    if (!getenv("FAULTY_SOURCE"))
        return real.clCreateProgramWithSource(context, count, texts, lengths, out_status);
    snprintf(line, sizeof line, "#error %s\n", getenv("FAULTY_SOURCE"));
    return real.clCreateProgramWithSource(context, 2, both, NULL, out_status);
}

FAULTY(clGetProgramInfo)
(cl_program program, cl_program_info what, size_t bytes, void *value, size_t *out_bytes)
{
    cl_context context = NULL;
    real.clGetProgramInfo(program, CL_PROGRAM_CONTEXT, sizeof context, &context, NULL);
    cl_int fault = fault_of("clGetProgramInfo", context);
    return fault != CL_SUCCESS ? fault : real.clGetProgramInfo(program, what, bytes, value, out_bytes);
}

/* ---- The driver -------------------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *(CL_API_CALL *real_address)(const char *name);
static cl_int(CL_API_CALL *real_platforms)(cl_uint, cl_platform_id *, cl_uint *);

static void read_fail(void)
{
    char text[128], *rest, *part;
    if (!getenv("FAULTY_FAIL")) return;
    snprintf(text, sizeof text, "%s", getenv("FAULTY_FAIL"));
    if ((part = strtok_r(text, ":", &rest))) snprintf(fail.function, sizeof fail.function, "%s", part);
    if ((part = strtok_r(NULL, ":", &rest))) fail.n = atoi(part);
    if ((part = strtok_r(NULL, ":", &rest))) fail.status = atoi(part);
    part = strtok_r(NULL, ":", &rest);
    fail.always = part && strcmp(part, "always") == 0;
    fail.loses = part && strcmp(part, "lost") == 0;
}

static void change_table(void)
{
    cl_platform_id platform;
    const char *name = getenv("FAULTY_DRIVER");
    void *driver = dlopen(name ? name : "libpocl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return;
    *(void **)&real_address = dlsym(driver, "clGetExtensionFunctionAddress");
    if (!real_address) return;
    *(void **)&real_platforms = real_address("clIcdGetPlatformIDsKHR");
    if (!real_platforms || real_platforms(1, &platform, NULL) != CL_SUCCESS) return;
    cl_icd_dispatch *table = platform->dispatch;
    real = *table;
    read_fail();
#define CHANGE(name) table->name = faulty_##name;
    CHANGE(clFlush)
    CHANGE(clFinish)
    CHANGE(clEnqueueNDRangeKernel)
    CHANGE(clEnqueueMigrateMemObjects)
    CHANGE(clEnqueueReadBuffer)
    CHANGE(clEnqueueWriteBuffer)
    CHANGE(clEnqueueCopyBuffer)
    CHANGE(clEnqueueFillBuffer)
    CHANGE(clEnqueueMarkerWithWaitList)
    CHANGE(clEnqueueBarrierWithWaitList)
    CHANGE(clWaitForEvents)
    CHANGE(clGetEventInfo)
    CHANGE(clCreateCommandQueue)
    CHANGE(clRetainCommandQueue)
    CHANGE(clReleaseCommandQueue)
    CHANGE(clCreateUserEvent)
    CHANGE(clRetainEvent)
    CHANGE(clReleaseEvent)
    CHANGE(clSetUserEventStatus)
    CHANGE(clGetDeviceInfo)
    CHANGE(clCreateBuffer)
    CHANGE(clRetainMemObject)
    CHANGE(clReleaseMemObject)
    CHANGE(clCreateProgramWithSource)
    CHANGE(clGetProgramInfo)
}

static cl_int CL_API_CALL platforms(cl_uint room, cl_platform_id *out, cl_uint *out_count)
{
    pthread_once(&once, change_table);
    return real_platforms ? real_platforms(room, out, out_count) : CL_PLATFORM_NOT_FOUND_KHR;
}

/* What the loader calls: it looks for these names. */
CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name);
CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    pthread_once(&once, change_table);
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0) return (void *)platforms;
    return real_address ? real_address(name) : NULL;
}
CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t bytes,
                                                  void *value, size_t *out_bytes)
{
    return real.clGetPlatformInfo(id, what, bytes, value, out_bytes);
}
