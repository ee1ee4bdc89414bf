/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 for tests: the functions that the CUDA plugin calls, over PoCL. There are two devices of 4 GiB. A kernel
 * runs as its twin in OpenCL C (twins.h). Every stream has a thread, so all work is asynchronous, copies from pageable
 * memory too. Device memory is a range that the host cannot touch; the bytes lie elsewhere, a fixed distance apart, and
 * are poisoned when they are allocated. Work with other memory is a fault, which stays with the context as in CUDA.
 * What it refuses: calls without the right context, calls from callbacks, calls in a forked child, and what cannot be captured.
 * Graphs are in captures.h. The environment:
 *
 *   FAULTY_FAIL=FUNCTION:N:RESULT      call N of the function (from 1 on) returns the result; FUNCTION may be `work`, for
 *                                      what a stream runs. A result that CUDA keeps stays with the context
 *   FAULTY_DELAY, FAULTY_GATE, FAULTY_UNASKED   work that writes device memory is late: ../gpu/late.h. If the host has to
 *                                      ask, reads wait for that, too, and what they read into is zero until then
 *   CUDA_TEST_DEVICES=N, CUDA_TEST_DRIVER=VERSION, CUDA_TEST_COMPUTE=MAJOR  what the driver says of itself
 */
#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "library.h"
#include "twins.h"

#include <CL/cl.h>
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../gpu/late.h"

#define DEVICES   2
#define MEMORY    ((size_t)4 << 30)
#define ADDRESSES (6 * MEMORY) /* ranges that are reserved take no memory */
#define BLOCKS    4096
#define EXPORT    TEST_API

/* Objects that the program has not given back; tests read it. */
EXPORT int cuda_test_live(void);

/* ---- State -------------------------------------------------------------------------------------------------- */

/* Memory that is mapped: a file stands for it. */
typedef struct physical {
    CUcontext context;
    int file, references, is_imported;
    size_t bytes;
} physical;

typedef struct block {
    size_t begin, bytes;
    int is_reserved; /* addresses, of which pieces have memory */
} block;

/* A part of the addresses that has memory. */
typedef struct piece {
    size_t begin, bytes;
    int is_usable;
    physical *mapped;
} piece;

struct CUctx_st {
    int device, references, live;
    CUresult sticky; /* a fault, which every later call returns */
    char *range;     /* the addresses of the device */
    char *bytes;     /* where they lie */
    int file;        /* of them */
    block blocks[BLOCKS];
    piece pieces[BLOCKS]; /* in the order of their addresses */
    int n_blocks, n_pieces;
    size_t used;
    CUstream default_stream;
};

#define NODES 4096 /* of a graph */

/* A set of nodes. */
typedef struct node_set {
    uint64_t bits[NODES / 64];
} node_set;

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    int references; /* of the program and of queued work */
    uint64_t issued, done;
    struct timespec time;
    CUgraph capture; /* in which it was recorded, else NULL */
    node_set before; /* the nodes of the capture before it */
    /* Of an event that processes share. */
    struct shared_event {
        atomic_ullong issued, done;
    } * shared;
    char name[64]; /* of its file */
    int is_opened;
};

typedef struct work work;
struct work {
    work *next;
    enum { LAUNCH, COPY, FILL, LIBRARY, RECORD, WAIT, CALLBACK, GRAPH } kind;
    const twin *kernel;
    size_t items, group;
    char arguments[GPU_ARGUMENTS][640];
    CUdeviceptr to_device, from_device; /* 0: on the host */
    CUcontext to_context, from_context;
    char *to;
    const char *from;
    size_t bytes;
    uint32_t value, width;
    CUevent event;
    uint64_t record;
    CUgraphExec executable;
    CUgraph graph;
    CUhostFn callback;
    void *user;
    cuda_test_work *library;
    unsigned long queued; /* how often the host had asked */
};

struct CUstream_st {
    CUstream next; /* of all */
    CUgraph capture;
    node_set before; /* the nodes that its next work follows */
    CUcontext context;
    pthread_t thread;
    work *first, **last;
    int busy, ends;
    cl_command_queue queue;
};

struct CUmod_st {
    CUcontext context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything here */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct CUctx_st contexts[DEVICES];
static CUstream streams;
static int owner; /* the process that called cuInit */
static __thread CUcontext current[8];
static __thread int depth, is_callback;

EXPORT int cuda_test_live(void)
{
    pthread_mutex_lock(&lock);
    int n = 0;
    for (int i = 0; i < DEVICES; i++) n += contexts[i].live;
    pthread_mutex_unlock(&lock);
    return n;
}

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* ---- Faults ------------------------------------------------------------------------------------------------- */

static int is_sticky(CUresult result)
{
    return (result >= CUDA_ERROR_ILLEGAL_ADDRESS && result <= CUDA_ERROR_LAUNCH_FAILED &&
            result != CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES &&
            result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) ||
           result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_UNKNOWN;
}

/* The result that the environment asks for. Under the lock. */
static CUresult asked_fault(const char *function)
{
    static char name[64];
    static int n, result, calls;
    if (!name[0]) {
        const char *text = getenv("FAULTY_FAIL");
        if (!text || sscanf(text, "%63[^:]:%d:%d", name, &n, &result) != 3) strcpy(name, "-");
    }
    const size_t length = strlen(name); /* cuda.h renames some: cuMemAlloc_v2 */
    int is_it = strncmp(name, function, length) == 0 &&
                (!function[length] || strncmp(function + length, "_v", 2) == 0);
    return is_it && ++calls == n ? (CUresult)result : CUDA_SUCCESS;
}

static CUresult keep(CUcontext c, CUresult result)
{
    if (c && is_sticky(result) && !c->sticky) c->sticky = result;
    return result;
}

/* What every function begins with; takes the lock. */
static CUresult enter(const char *function, int needs_context)
{
    pthread_mutex_lock(&lock);
    CUcontext c = depth ? current[depth - 1] : NULL;
    if (is_callback) return CUDA_ERROR_NOT_PERMITTED;
    if (!owner || owner != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
    if (needs_context && (!c || !c->references)) return CUDA_ERROR_INVALID_CONTEXT;
    if (needs_context && c->sticky) return c->sticky;
    return keep(c, asked_fault(function));
}

#define BEGIN(needs_context)                          \
    CUresult result = enter(__func__, needs_context); \
    CUcontext c = depth ? current[depth - 1] : NULL;  \
    (void)c;                                          \
    if (result) goto end;
#define END                      \
    goto end;                    \
    end:                         \
    pthread_mutex_unlock(&lock); \
    return result;
/* The whole of a call that only answers. */
#define ANSWER(statement) \
    BEGIN(0)              \
    statement;            \
    END
#define REFUSE(condition, with) \
    if (condition) {            \
        result = (with);        \
        goto end;               \
    }

/* ---- OpenCL ------------------------------------------------------------------------------------------------- */

#define OPENCL(X)                \
    X(clGetPlatformIDs)          \
    X(clGetDeviceIDs)            \
    X(clGetDeviceInfo)           \
    X(clCreateContext)           \
    X(clCreateCommandQueue)      \
    X(clCreateProgramWithSource) \
    X(clBuildProgram)            \
    X(clGetProgramBuildInfo)     \
    X(clCreateKernel)            \
    X(clSetKernelArg)            \
    X(clSetKernelArgSVMPointer)  \
    X(clEnqueueNDRangeKernel)    \
    X(clFinish)                  \
    X(clReleaseCommandQueue)
static struct {
#define DECLARE(name) __typeof__(&name) name;
    OPENCL(DECLARE)
    cl_device_id device;
    cl_context context;
    char options[64];
} cl;

static int start_opencl(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    cl_platform_id platform;
    cl_device_fp_config config = 0;
    cl_int status;
    if (!library) return 0;
#define LOAD(name) *(void **)(void *)&cl.name = dlsym(library, #name);
    OPENCL(LOAD)
    if (cl.clGetPlatformIDs(1, &platform, NULL) ||
        cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &cl.device, NULL))
        return 0;
    cl.context = cl.clCreateContext(NULL, 1, &cl.device, NULL, NULL, &status);
    cl.clGetDeviceInfo(cl.device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
    snprintf(cl.options, sizeof cl.options, "-cl-std=CL1.2%s",
             config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    return status == CL_SUCCESS;
}

/* The kernel of a twin, compiled when it is first used; its program has all kernels of the variant. */
static cl_kernel twin_kernel(const twin *t)
{
    static cl_kernel kernels[1024];
    static cl_program programs[1024]; /* by the first twin of the variant */
    const size_t i = (size_t)(t - twins);
    size_t first = i;
    cl_int status = CL_SUCCESS;
    if (kernels[i]) return kernels[i];
    while (first && !strcmp(twins[first - 1].options, t->options) && !strcmp(twins[first - 1].file, t->file))
        first--;
    if (!programs[first]) {
        char options[512], log[4096] = "";
        const gpu_source *source = gpu_sources;
        while (strcmp(source->name, t->file) != 0) source++;
        snprintf(options, sizeof options, "%s %s", cl.options, t->options);
        cl_program p = cl.clCreateProgramWithSource(cl.context, 1, (const char **)(uintptr_t)&source->text,
                                                    NULL, &status);
        if (!status) status = cl.clBuildProgram(p, 1, &cl.device, options, NULL, NULL);
        if (status) {
            cl.clGetProgramBuildInfo(p, cl.device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
            fprintf(stderr, "libcuda for tests: %s with %s: %d\n%s\n", t->file, options, status, log);
            abort();
        }
        programs[first] = p;
    }
    kernels[i] = cl.clCreateKernel(programs[first], t->kernel, &status);
    if (status) {
        fprintf(stderr, "libcuda for tests: %s has no kernel %s: %d\n", t->file, t->kernel, status);
        abort();
    }
    return kernels[i];
}

/* ---- Work of streams ---------------------------------------------------------------------------------------- */

/* Where `bytes` bytes of device memory lie, or NULL. Under the lock. */
static char *place_of(CUcontext c, CUdeviceptr address, size_t bytes)
{
    size_t at = (size_t)address - (size_t)c->range, found = at;
    for (int i = 0; i < c->n_blocks; i++)
        if (!c->blocks[i].is_reserved && at >= c->blocks[i].begin &&
            at + bytes <= c->blocks[i].begin + c->blocks[i].bytes)
            return c->bytes + at;
    for (int i = 0; i < c->n_pieces && found < at + bytes; i++) {
        const piece *p = &c->pieces[i];
        if (p->is_usable && found >= p->begin && found < p->begin + p->bytes) found = p->begin + p->bytes;
    }
    return found > at && found >= at + bytes ? c->bytes + at : NULL;
}

static CUresult run_kernel(CUstream s, work *w)
{
    cl_kernel kernel = twin_kernel(w->kernel);
    cl_int status = CL_SUCCESS;
    for (uint32_t i = 0; i < w->kernel->n_arguments && !status; i++) {
        CUdeviceptr address;
        if (w->kernel->sizes[i]) {
            status = cl.clSetKernelArg(kernel, i, w->kernel->sizes[i], w->arguments[i]);
            continue;
        }
        memcpy(&address, w->arguments[i], sizeof address);
        char *at = address ? place_of(s->context, address, 1) : NULL;
        if (address && !at) return CUDA_ERROR_ILLEGAL_ADDRESS;
        status = cl.clSetKernelArgSVMPointer(kernel, i, at);
    }
    if (!status)
        status = cl.clEnqueueNDRangeKernel(s->queue, kernel, 1, NULL, &w->items, &w->group, 0, NULL, NULL);
    pthread_mutex_unlock(&lock);
    if (!status) status = cl.clFinish(s->queue);
    pthread_mutex_lock(&lock);
    if (status) fprintf(stderr, "libcuda for tests: %s: OpenCL returns %d\n", w->kernel->name, status);
    return status ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

static CUresult run_copy(work *w)
{
    char *to = w->to_device ? place_of(w->to_context, w->to_device, w->bytes) : w->to;
    const char *from = w->from_device ? place_of(w->from_context, w->from_device, w->bytes) : w->from;
    if (!to || !from) return CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_unlock(&lock);
    memmove(to, from, w->bytes);
    pthread_mutex_lock(&lock);
    return CUDA_SUCCESS;
}

static CUresult run_fill(work *w)
{
    char *to = place_of(w->to_context, w->to_device, w->bytes);
    if (!to) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < w->bytes; i += w->width) memcpy(to + i, &w->value, w->width);
    return CUDA_SUCCESS;
}

/* Work of a vendor's library for tests. */
static CUresult run_library(CUstream s, work *w)
{
    pthread_mutex_unlock(&lock);
    CUresult result = w->library(s->context, w->arguments);
    pthread_mutex_lock(&lock);
    return result;
}

static void release_graph(CUgraph g);
static void run_graph(CUstream s, work *w);

static unsigned long long issued_of(const struct CUevent_st *e)
{
    return e->shared ? atomic_load(&e->shared->issued) : e->issued;
}

static unsigned long long done_of(const struct CUevent_st *e)
{
    return e->shared ? atomic_load(&e->shared->done) : e->done;
}

/* Under the lock, until something changes. Another process does not say so. */
static void wait_for(const struct CUevent_st *e)
{
    if (!e->shared) {
        pthread_cond_wait(&changed, &lock);
        return;
    }
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    pthread_mutex_lock(&lock);
}

static void release_event(CUevent e)
{
    if (--e->references) return;
    if (e->shared) munmap(e->shared, sizeof *e->shared);
    if (e->shared && !e->is_opened) unlink(e->name);
    release_graph(e->capture);
    free(e);
}

/* Under the lock, which waiting and long work let go of. */
static void run(CUstream s, work *w)
{
    CUresult result = s->context->sticky;
    if (!result && w->kind <= LIBRARY) {
        pthread_mutex_unlock(&lock);
        late_hold(w->queued);
        if (w->kind == LAUNCH || w->kind == LIBRARY || w->to_device) late_begin();
        pthread_mutex_lock(&lock);
        result = asked_fault("work");
        if (!result)
            result = w->kind == LAUNCH    ? run_kernel(s, w)
                     : w->kind == COPY    ? run_copy(w)
                     : w->kind == LIBRARY ? run_library(s, w)
                                          : run_fill(w);
        keep(s->context, result);
    }
    if (w->kind == RECORD) {
        w->event->done = w->record;
        if (w->event->shared) atomic_store(&w->event->shared->done, w->record);
        clock_gettime(CLOCK_MONOTONIC, &w->event->time);
    }
    while (w->kind == WAIT && done_of(w->event) < w->record && !s->context->sticky) wait_for(w->event);
    if (w->event) release_event(w->event);
    if (w->kind == GRAPH) run_graph(s, w);
    if (w->kind == CALLBACK && !result) { /* CUDA does not call after a fault */
        pthread_mutex_unlock(&lock);
        is_callback = 1;
        w->callback(w->user);
        is_callback = 0;
        pthread_mutex_lock(&lock);
    }
}

static void *serve(void *data)
{
    CUstream s = data;
    pthread_mutex_lock(&lock);
    while (s->first || !s->ends) {
        work *w = s->first;
        if (!w) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        s->first = w->next;
        if (!s->first) s->last = &s->first;
        s->busy = 1;
        run(s, w);
        s->busy = 0;
        free(w);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static CUstream make_stream(CUcontext c)
{
    cl_int status;
    CUstream s = calloc(1, sizeof *s);
    *s = (struct CUstream_st){.context = c};
    s->last = &s->first;
    s->queue = cl.clCreateCommandQueue(cl.context, cl.device, 0, &status);
    s->next = streams;
    streams = s;
    pthread_create(&s->thread, NULL, serve, s);
    return s;
}

static void end_stream(CUstream s)
{
    s->ends = 1;
    late_asked();
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&lock);
    cl.clReleaseCommandQueue(s->queue);
    CUstream *at = &streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    release_graph(s->capture);
    free(s);
}

/* The stream itself, or the default one; NULL if it is of another context than the current one. */
static CUstream stream_of(CUcontext c, CUstream s)
{
    if (s && (uintptr_t)s > (uintptr_t)CU_STREAM_PER_THREAD) return s->context == c ? s : NULL;
    if (!c->default_stream) c->default_stream = make_stream(c);
    return c->default_stream;
}

static CUgraph capture_of(CUstream s);
static CUresult capture_work(CUstream s, work w);

static CUresult queue(CUcontext c, CUstream s, work w)
{
    s = stream_of(c, s);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (capture_of(s)) return capture_work(s, w);
    work *copy = malloc(sizeof *copy);
    *copy = w;
    copy->next = NULL;
    copy->queued = late_queued();
    if (late_until_asked() && w.kind == COPY && !w.to_device) memset(w.to, 0, w.bytes);
    *s->last = copy;
    s->last = &copy->next;
    pthread_cond_broadcast(&changed);
    return CUDA_SUCCESS;
}

#include "captures.h"

/* ---- Devices and contexts ----------------------------------------------------------------------------------- */

EXPORT CUresult cuInit(unsigned flags)
{
    static int has_opencl;
    pthread_mutex_lock(&lock);
    CUresult result = asked_fault(__func__);
    if (!result && owner && owner != getpid()) result = CUDA_ERROR_NOT_INITIALIZED;
    if (!result && !has_opencl) has_opencl = start_opencl();
    if (!result && !has_opencl) result = CUDA_ERROR_NO_DEVICE;
    if (!result) owner = getpid();
    END
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = (int)setting("CUDA_TEST_DRIVER", CUDA_VERSION);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
    static const struct {
        CUresult value;
        const char *name;
    } names[] = {
#define NAME(value) {value, #value}
        NAME(CUDA_SUCCESS),
        NAME(CUDA_ERROR_INVALID_VALUE),
        NAME(CUDA_ERROR_OUT_OF_MEMORY),
        NAME(CUDA_ERROR_NOT_INITIALIZED),
        NAME(CUDA_ERROR_NO_DEVICE),
        NAME(CUDA_ERROR_INVALID_CONTEXT),
        NAME(CUDA_ERROR_INVALID_HANDLE),
        NAME(CUDA_ERROR_ILLEGAL_ADDRESS),
        NAME(CUDA_ERROR_LAUNCH_FAILED),
        NAME(CUDA_ERROR_NOT_PERMITTED),
        NAME(CUDA_ERROR_NOT_FOUND),
        NAME(CUDA_ERROR_INVALID_IMAGE),
        NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
        NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
        NAME(CUDA_ERROR_STREAM_CAPTURE_MERGE),
        NAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED),
        NAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),
        NAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
        NAME(CUDA_ERROR_CAPTURED_EVENT),
        NAME(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE),
#undef NAME
    };
    static __thread char text[64];

    snprintf(text, sizeof text, "CUDA_ERROR_%d", (int)error);
    *name = text;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (names[k].value == error) *name = names[k].name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count){ANSWER(*count = (int)setting("CUDA_TEST_DEVICES", DEVICES))}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal){ANSWER(*device = ordinal)}

EXPORT CUresult cuDeviceGetName(char *name, int bytes,
                                CUdevice device){ANSWER(snprintf(name, (size_t)bytes, "Test GPU %d", device))}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device){
    ANSWER(memset(uuid->bytes, 'a' + device, sizeof uuid->bytes))}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device){
    ANSWER(snprintf(text, (size_t)bytes, "0000:%02x:00.0", 0x65 + device))}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    BEGIN(0)
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? (int)setting("CUDA_TEST_COMPUTE", 9)
             : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? 2
                                                                       : 0;
    END
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device){ANSWER(*bytes = MEMORY)}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer){ANSWER(*can = device != peer)}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    BEGIN(0)
    CUcontext x = &contexts[device];
    if (!x->references++ && !x->range) {
        int file = memfd_create("device", MFD_CLOEXEC);
        REFUSE(file < 0 || ftruncate(file, (off_t)ADDRESSES), CUDA_ERROR_OUT_OF_MEMORY)
        x->device = device;
        x->range = mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        x->bytes = mmap(NULL, ADDRESSES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
        x->file = file;
    }
    *out = x;
    END
}

/* The last release destroys the context and its fault. */
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    BEGIN(0)
    CUcontext x = &contexts[device];
    REFUSE(!x->references, CUDA_ERROR_INVALID_CONTEXT)
    if (--x->references == 0) {
        if (x->default_stream) end_stream(x->default_stream);
        x->default_stream = NULL;
        if (x->sticky)
            x->live = x->n_blocks = x->n_pieces = 0,
            x->used = 0; /* what could not be given back goes with the context */
        x->sticky = CUDA_SUCCESS;
    }
    END
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out){ANSWER(*out = c)}

EXPORT CUresult cuCtxPushCurrent(CUcontext x)
{
    BEGIN(0)
    REFUSE(!x->references || depth == 8, CUDA_ERROR_INVALID_CONTEXT)
    current[depth++] = x;
    END
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *out)
{
    BEGIN(0)
    REFUSE(!depth, CUDA_ERROR_INVALID_CONTEXT)
    *out = current[--depth];
    END
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags){
    BEGIN(1) REFUSE(peer == c || flags, CUDA_ERROR_INVALID_VALUE) END}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

EXPORT CUresult cuMemGetInfo(size_t *available, size_t *total)
{
    BEGIN(1)
    *total = MEMORY;
    *available = MEMORY - c->used;
    END
}

/* Blocks are in the order of their addresses, 256 bytes apart. NULL: there is no room. */
static block *make_block(CUcontext c, size_t bytes, size_t alignment)
{
    size_t at = alignment;
    int i = 0;
    while (i < c->n_blocks && c->blocks[i].begin < at + bytes + 256) {
        at = (c->blocks[i].begin + c->blocks[i].bytes + 255 + alignment) / alignment * alignment;
        i++;
    }
    if (bytes > ADDRESSES || at + bytes > ADDRESSES || c->n_blocks == BLOCKS) return NULL;
    memmove(c->blocks + i + 1, c->blocks + i, (size_t)(c->n_blocks++ - i) * sizeof *c->blocks);
    c->blocks[i] = (block){.begin = at, .bytes = bytes};
    c->live++;
    return &c->blocks[i];
}

/* The block that begins at the address, or NULL. */
static block *block_at(CUcontext c, CUdeviceptr address)
{
    for (int i = 0; i < c->n_blocks; i++)
        if (c->range + c->blocks[i].begin == (char *)(uintptr_t)address) return &c->blocks[i];
    return NULL;
}

static void remove_block(CUcontext c, block *b)
{
    memmove(b, b + 1, (size_t)(--c->n_blocks - (b - c->blocks)) * sizeof *b);
    c->live--;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    BEGIN(1)
    REFUSE(!bytes, CUDA_ERROR_INVALID_VALUE)
    REFUSE((result = unsafe()), result)
    REFUSE(bytes > MEMORY - c->used, CUDA_ERROR_OUT_OF_MEMORY)
    block *b = make_block(c, bytes, 256);
    REFUSE(!b, CUDA_ERROR_OUT_OF_MEMORY)
    c->used += bytes;
    memset(c->bytes + b->begin, 0xff, bytes);
    *out = (CUdeviceptr)(uintptr_t)(c->range + b->begin);
    END
}

EXPORT CUresult cuMemFree(CUdeviceptr address)
{
    BEGIN(1)
    REFUSE((result = unsafe()), result)
    block *b = block_at(c, address);
    REFUSE(!b || b->is_reserved, CUDA_ERROR_INVALID_VALUE)
    memset(c->bytes + b->begin, 0xff, b->bytes);
    c->used -= b->bytes;
    remove_block(c, b);
    END
}

/* ---- Memory that is mapped ---------------------------------------------------------------------------------- */

#define GRANULARITY ((size_t)64 << 10)
#define FILE_NAME   "cuda-test-memory"

EXPORT CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *properties,
                                              CUmemAllocationGranularity_flags option)
{
    BEGIN(1)
    *out = GRANULARITY;
    END
}

static CUmemGenericAllocationHandle make_physical(CUcontext c, int file, size_t bytes, int is_imported)
{
    physical *p = malloc(sizeof *p);
    *p = (physical){.context = c, .file = file, .references = 1, .bytes = bytes, .is_imported = is_imported};
    c->live++;
    if (!is_imported) c->used += bytes;
    return (CUmemGenericAllocationHandle)(uintptr_t)p;
}

static void release_physical(physical *p)
{
    if (--p->references) return;
    close(p->file);
    p->context->live--;
    if (!p->is_imported) p->context->used -= p->bytes;
    free(p);
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                            const CUmemAllocationProp *properties, unsigned long long flags)
{
    BEGIN(1)
    REFUSE(properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || properties->location.id != c->device ||
               properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !bytes ||
               bytes % GRANULARITY,
           CUDA_ERROR_INVALID_VALUE)
    REFUSE(bytes > MEMORY - c->used, CUDA_ERROR_OUT_OF_MEMORY)
    int file = memfd_create(FILE_NAME, MFD_CLOEXEC);
    REFUSE(file < 0 || ftruncate(file, (off_t)bytes), CUDA_ERROR_OUT_OF_MEMORY)
    *out = make_physical(c, file, bytes, 0);
    END
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    BEGIN(1)
    release_physical((physical *)(uintptr_t)handle);
    END
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                    unsigned long long flags)
{
    BEGIN(1)
    REFUSE(!bytes || bytes % GRANULARITY, CUDA_ERROR_INVALID_VALUE)
    block *b = make_block(c, bytes, alignment ? alignment : GRANULARITY);
    REFUSE(!b, CUDA_ERROR_OUT_OF_MEMORY)
    b->is_reserved = 1;
    *out = (CUdeviceptr)(uintptr_t)(c->range + b->begin);
    END
}

/* The number of the first piece that ends behind a place. */
static int piece_at(CUcontext c, size_t at)
{
    int i = 0;
    while (i < c->n_pieces && c->pieces[i].begin + c->pieces[i].bytes <= at) i++;
    return i;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    BEGIN(1)
    block *b = block_at(c, address);
    REFUSE(!b || b->bytes != bytes || !b->is_reserved, CUDA_ERROR_INVALID_VALUE)
    const int i = piece_at(c, b->begin);
    REFUSE(i < c->n_pieces && c->pieces[i].begin < b->begin + bytes, CUDA_ERROR_INVALID_VALUE)
    remove_block(c, b);
    END
}

/* Whether the addresses were reserved, together. */
static int is_reserved(CUcontext c, size_t at, size_t bytes)
{
    for (int i = 0; i < c->n_blocks; i++)
        if (c->blocks[i].is_reserved && at >= c->blocks[i].begin &&
            at + bytes <= c->blocks[i].begin + c->blocks[i].bytes)
            return 1;
    return 0;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    BEGIN(1)
    physical *p = (physical *)(uintptr_t)handle;
    const size_t begin = (size_t)address - (size_t)c->range;
    const int i = piece_at(c, begin);
    REFUSE(!is_reserved(c, begin, bytes) || (i < c->n_pieces && c->pieces[i].begin < begin + bytes) ||
               offset || bytes > p->bytes || c->n_pieces == BLOCKS,
           CUDA_ERROR_INVALID_VALUE)
    void *at = mmap(c->bytes + begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->file, 0);
    REFUSE(at == MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY)
    memmove(c->pieces + i + 1, c->pieces + i, (size_t)(c->n_pieces++ - i) * sizeof *c->pieces);
    c->pieces[i] = (piece){.begin = begin, .bytes = bytes, .mapped = p};
    p->references++;
    END
}

/* Of whole pieces that follow each other. */
EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
    BEGIN(1)
    const size_t begin = (size_t)address - (size_t)c->range;
    const int first = piece_at(c, begin);
    size_t at = begin;
    for (int i = first; i < c->n_pieces && at < begin + bytes && c->pieces[i].begin == at; i++)
        at += c->pieces[i].bytes;
    REFUSE(!bytes || at != begin + bytes || count != 1 || access->location.id != c->device ||
               access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
           CUDA_ERROR_INVALID_VALUE)
    for (int i = first; i < c->n_pieces && c->pieces[i].begin < begin + bytes; i++)
        c->pieces[i].is_usable = 1;
    END
}

/* A piece as it was mapped. */
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    BEGIN(1)
    const size_t begin = (size_t)address - (size_t)c->range;
    const int i = piece_at(c, begin);
    REFUSE(i == c->n_pieces || c->pieces[i].begin != begin || c->pieces[i].bytes != bytes,
           CUDA_ERROR_INVALID_VALUE)
    mmap(c->bytes + begin, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, c->file,
         (off_t)begin);
    release_physical(c->pieces[i].mapped);
    memmove(c->pieces + i, c->pieces + i + 1, (size_t)(--c->n_pieces - i) * sizeof *c->pieces);
    END
}

EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType type, unsigned long long flags)
{
    BEGIN(1)
    REFUSE(type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED)
    int file = fcntl(((physical *)(uintptr_t)handle)->file, F_DUPFD_CLOEXEC, 0);
    memcpy(out, &file, sizeof file);
    END
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle,
                                               CUmemAllocationHandleType type)
{
    BEGIN(1)
    char link[64], name[128] = "";
    struct stat facts;
    int file = (int)(uintptr_t)handle;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    REFUSE(readlink(link, name, sizeof name - 1) < 0 || !strstr(name, FILE_NAME) || fstat(file, &facts),
           CUDA_ERROR_INVALID_VALUE)
    *out = make_physical(c, fcntl(file, F_DUPFD_CLOEXEC, 0), (size_t)facts.st_size, 1);
    END
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    BEGIN(1)
    void *memory = bytes <= MEMORY ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    REFUSE(!memory, CUDA_ERROR_OUT_OF_MEMORY)
    *out = memory;
    c->live++;
    END
}

EXPORT CUresult cuMemFreeHost(void *memory)
{
    BEGIN(1)
    free(memory);
    c->live--;
    END
}

EXPORT CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    BEGIN(1)
    REFUSE(!place_of(c, address, 1), CUDA_ERROR_NOT_FOUND)
    for (int i = 0; i < c->n_blocks; i++)
        if ((size_t)address - (size_t)c->range >= c->blocks[i].begin) {
            *base = (CUdeviceptr)(uintptr_t)(c->range + c->blocks[i].begin);
            *bytes = c->blocks[i].bytes;
        }
    END
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    BEGIN(1)
    REFUSE(attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CUDA_ERROR_INVALID_VALUE)
    result = CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < DEVICES; i++)
        if (contexts[i].range && place_of(&contexts[i], address, 1)) {
            *(int *)data = i;
            result = CUDA_SUCCESS;
        }
    END
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    BEGIN(1)
    result = queue(c, stream,
                   (work){.kind = COPY, .to_device = to, .to_context = c, .from = from, .bytes = bytes});
    END
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN(1)
    result = queue(c, stream,
                   (work){.kind = COPY, .to = to, .from_device = from, .from_context = c, .bytes = bytes});
    END
}

static work copy_between(CUcontext to_context, CUdeviceptr to, CUcontext from_context, CUdeviceptr from,
                         size_t bytes)
{
    return (work){.kind = COPY,
                  .to_device = to,
                  .to_context = to_context,
                  .from_device = from,
                  .from_context = from_context,
                  .bytes = bytes};
}

EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN(1)
    result = queue(c, stream, copy_between(c, to, c, from, bytes));
    END
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                  CUcontext from_context, size_t bytes, CUstream stream)
{
    BEGIN(1)
    result = queue(c, stream, copy_between(to_context, to, from_context, from, bytes));
    END
}

#define FILL_FUNCTION(name, type)                                                   \
    EXPORT CUresult name(CUdeviceptr to, type value, size_t count, CUstream stream) \
    {                                                                               \
        BEGIN(1)                                                                    \
        REFUSE(to % sizeof value, CUDA_ERROR_INVALID_VALUE)                         \
        result = queue(c, stream,                                                   \
                       (work){.kind = FILL,                                         \
                              .to_device = to,                                      \
                              .to_context = c,                                      \
                              .bytes = count * sizeof value,                        \
                              .value = value,                                       \
                              .width = sizeof value});                              \
        END                                                                         \
    }
FILL_FUNCTION(cuMemsetD8Async, unsigned char)
FILL_FUNCTION(cuMemsetD16Async, unsigned short)
FILL_FUNCTION(cuMemsetD32Async, unsigned)

/* ---- Streams and events ------------------------------------------------------------------------------------- */

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    BEGIN(1)
    *out = make_stream(c);
    c->live++;
    END
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    BEGIN(0)
    stream->context->live--;
    end_stream(stream);
    END
}

EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *out)
{
    BEGIN(1)
    *out = stream->context;
    END
}

/* A call that asks about a stream or waits for it, which a capture does not outlive. */
#define BEGIN_OF_STREAM                        \
    BEGIN(1)                                   \
    stream = stream_of(c, stream);             \
    REFUSE(!stream, CUDA_ERROR_INVALID_HANDLE) \
    REFUSE(capture_of(stream), break_capture(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED))

EXPORT CUresult cuStreamQuery(CUstream stream)
{
    BEGIN_OF_STREAM
    result = stream->first || stream->busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    late_asked();
    END
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    BEGIN_OF_STREAM
    late_asked();
    while (stream->first || stream->busy) pthread_cond_wait(&changed, &lock);
    result = c->sticky;
    END
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    BEGIN(1)
    CUstream to = stream_of(c, stream);
    REFUSE(!to, CUDA_ERROR_INVALID_HANDLE)
    if (capture_of(to) || event->capture) {
        result = capture_wait(to, event);
        goto end;
    }
    event->references++;
    result = queue(c, stream, (work){.kind = WAIT, .event = event, .record = issued_of(event)});
    if (result) event->references--;
    END
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn callback, void *user)
{
    BEGIN(1)
    result = queue(c, stream, (work){.kind = CALLBACK, .callback = callback, .user = user});
    END
}

/* `name`: of the event of another process, else NULL. */
static CUresult make_event(CUcontext c, unsigned flags, const char *name, CUevent *out)
{
    static int events;
    CUevent e = calloc(1, sizeof *e);
    *e = (struct CUevent_st){.context = c, .flags = flags, .references = 1, .is_opened = name != NULL};
    if (flags & CU_EVENT_INTERPROCESS) {
        if (name)
            snprintf(e->name, sizeof e->name, "%s", name);
        else
            snprintf(e->name, sizeof e->name, "/dev/shm/cuda-test-event-%d-%d", (int)getpid(), events++);
        int file = open(e->name, name ? O_RDWR | O_CLOEXEC : O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        void *at = MAP_FAILED;
        if (file >= 0 && (name || ftruncate(file, sizeof *e->shared) == 0))
            at = mmap(NULL, sizeof *e->shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        if (at == MAP_FAILED) {
            free(e);
            return CUDA_ERROR_INVALID_HANDLE;
        }
        e->shared = at;
    }
    c->live++;
    *out = e;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    BEGIN(1)
    REFUSE(flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_VALUE)
    result = make_event(c, flags, NULL, out);
    END
}

EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event)
{
    BEGIN(1)
    REFUSE(event->context != c || !event->shared || event->is_opened, CUDA_ERROR_INVALID_HANDLE)
    memcpy(out->reserved, event->name, sizeof event->name);
    END
}

EXPORT CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    BEGIN(1)
    REFUSE(!memchr(handle.reserved, 0, sizeof handle.reserved), CUDA_ERROR_INVALID_VALUE)
    result = make_event(c, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, handle.reserved, out);
    END
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
    BEGIN(0)
    event->context->live--;
    release_event(event);
    END
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    BEGIN(1)
    REFUSE(event->context != c, CUDA_ERROR_INVALID_HANDLE)
    CUstream of = stream_of(c, stream);
    REFUSE(!of, CUDA_ERROR_INVALID_HANDLE)
    if (capture_of(of)) {
        result = capture_work(of, (work){.kind = RECORD, .event = event});
        goto end;
    }
    release_graph(event->capture);
    event->capture = NULL;
    REFUSE(event->is_opened, CUDA_ERROR_INVALID_HANDLE)
    event->references++;
    event->issued++;
    if (event->shared) atomic_store(&event->shared->issued, event->issued);
    result = queue(c, stream, (work){.kind = RECORD, .event = event, .record = event->issued});
    END
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    BEGIN(1)
    REFUSE(event->capture, captured(event))
    REFUSE((result = unsafe()), result)
    result = done_of(event) < issued_of(event) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    late_asked();
    END
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    BEGIN(1)
    REFUSE(event->capture, captured(event))
    late_asked();
    while (done_of(event) < issued_of(event)) wait_for(event);
    result = c->sticky;
    END
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    BEGIN(1)
    REFUSE(start->capture || end->capture, CUDA_ERROR_CAPTURED_EVENT)
    REFUSE((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING, CUDA_ERROR_INVALID_HANDLE)
    REFUSE(start->done < start->issued || end->done < end->issued, CUDA_ERROR_NOT_READY)
    *ms = (float)(end->time.tv_sec - start->time.tv_sec) * 1e3f +
          (float)(end->time.tv_nsec - start->time.tv_nsec) / 1e6f;
    END
}

/* ---- Kernels ------------------------------------------------------------------------------------------------ */

EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    BEGIN(1)
    REFUSE(*(const uint32_t *)image != 0xba55ed50, CUDA_ERROR_INVALID_IMAGE) /* how a fatbinary begins */
    *out = calloc(1, sizeof **out);
    (*out)->context = c;
    c->live++;
    END
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    BEGIN(1)
    free(module);
    c->live--;
    END
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    BEGIN(1)
    REFUSE(module->context != c, CUDA_ERROR_INVALID_HANDLE)
    const twin *t = twins;
    while (t->name && strcmp(t->name, name) != 0) t++;
    REFUSE(!t->name, CUDA_ERROR_NOT_FOUND)
    *out = (CUfunction)(uintptr_t)t;
    END
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                               CUstream stream, void **arguments, void **extra)
{
    BEGIN(1)
    const twin *t = (const twin *)(uintptr_t)function;
    REFUSE(!grid_x || !block_x || block_x > 1024 || grid_y != 1 || grid_z != 1 || block_y != 1 ||
               block_z != 1,
           CUDA_ERROR_INVALID_VALUE)
    work w = {.kind = LAUNCH, .kernel = t, .items = (size_t)grid_x * block_x, .group = block_x};
    for (uint32_t i = 0; i < t->n_arguments; i++)
        memcpy(w.arguments[i], arguments[i], t->sizes[i] ? t->sizes[i] : sizeof(CUdeviceptr));
    result = queue(c, stream, w);
    END
}

/* ---- For the libraries beside it ----------------------------------------------------------------------------- */

CUresult cuda_test_queue(CUstream stream, cuda_test_work *function, const void *data, size_t bytes)
{
    BEGIN(1)
    work w = {.kind = LIBRARY, .library = function};
    REFUSE(bytes > sizeof w.arguments, CUDA_ERROR_INVALID_VALUE)
    memcpy(w.arguments, data, bytes);
    result = queue(c, stream, w);
    END
}

void *cuda_test_place(CUcontext context, CUdeviceptr address, size_t bytes)
{
    pthread_mutex_lock(&lock);
    void *place = place_of(context, address, bytes);
    pthread_mutex_unlock(&lock);
    return place;
}
