/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 for tests: the functions that the CUDA plugin calls, over PoCL. There are two devices of 4 GiB. A kernel
 * runs as its twin in OpenCL C (twins.h). Every stream has a thread, so all work is asynchronous, copies from pageable
 * memory too. Device memory is a range that the host cannot touch; the bytes lie elsewhere, a fixed distance apart, and
 * are poisoned when they are allocated. Managed memory can be touched while no queued work uses it. Work with other memory is a fault, which stays with the context as in CUDA.
 * What it refuses: calls without the right context, calls from callbacks, calls in a forked child, and what cannot be captured.
 * Streams, memory and graphs are in the files beside this one (driver.h). The environment:
 *
 *   FAULTY_FAIL=FUNCTION:N:RESULT,...  call N of the function (from 1 on) returns the result; FUNCTION may be `work`, for
 *                                      what a stream runs. A result that CUDA keeps stays with the context
 *   FAULTY_DELAY, FAULTY_GATE, FAULTY_UNASKED   work that writes device memory is late: ../gpu/late.h. If the host has to
 *                                      ask, reads wait for that, too, and what they read into is zero until then
 *   FAULTY_NO_PEERS=1                  devices do not reach each other's memory
 *   CUDA_TEST_INTEGRATED=1             the devices are integrated
 *   CUDA_TEST_CONCURRENT=0             the host may not use managed memory while any kernel runs
 *   CUDA_TEST_DEVICES=N, CUDA_TEST_DRIVER=VERSION, CUDA_TEST_COMPUTE=MAJOR  what the driver says of itself
 */
#include "driver.h"

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
struct CUctx_st contexts[DEVICES];
CUstream streams;
int owner;
__thread CUcontext current[8];
__thread int depth, is_callback;
const cuda_test_watch *watch;
__thread uint32_t call_number;

void cuda_test_watch_work(const cuda_test_watch *by)
{
    pthread_mutex_lock(&lock);
    watch = by;
    pthread_mutex_unlock(&lock);
}

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
           result == CUDA_ERROR_ECC_UNCORRECTABLE;
}

/* The results that the environment asks for. */
typedef struct fault {
    char function[64];
    int n, result, calls;
} fault;

static int read_faults(fault *out, int most)
{
    const char *text = getenv("FAULTY_FAIL");
    int count = 0, length = 0;
    while (text && count < most &&
           sscanf(text, "%63[^:]:%d:%d%n", out[count].function, &out[count].n, &out[count].result, &length) ==
               3) {
        count++;
        text += length;
        text += *text == ',';
    }
    return count;
}

/* Under the lock. cuda.h renames some functions: cuMemAlloc_v2. */
CUresult asked_fault(const char *function)
{
    static fault faults[4];
    static int n_faults = -1;
    CUresult result = CUDA_SUCCESS;
    if (n_faults < 0) n_faults = read_faults(faults, 4);
    for (int i = 0; i < n_faults; i++) {
        const size_t length = strlen(faults[i].function);
        int is_it = strncmp(faults[i].function, function, length) == 0 &&
                    (!function[length] || strncmp(function + length, "_v", 2) == 0);
        if (is_it && ++faults[i].calls == faults[i].n) result = (CUresult)faults[i].result;
    }
    return result;
}

CUresult keep(CUcontext c, CUresult result)
{
    if (c && is_sticky(result) && !c->sticky) c->sticky = result;
    return result;
}

/* After a fault the device uses no memory any more, so that the host may free it. */
static void stop_work(CUcontext c)
{
    for (CUstream s = streams; s; s = s ? s->next : streams) {
        if (s->context != c || !s->uses_memory) continue;
        pthread_cond_wait(&changed, &lock);
        s = NULL;
    }
}

/* What every function begins with; takes the lock. */
CUresult enter(const char *function, int needs_context)
{
    pthread_mutex_lock(&lock);
    CUcontext c = depth ? current[depth - 1] : NULL;
    call_number = watch ? watch->called(function) : 0;
    if (is_callback) return CUDA_ERROR_NOT_PERMITTED;
    if (!owner || owner != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
    if (needs_context && (!c || !c->references)) return CUDA_ERROR_INVALID_CONTEXT;
    if (needs_context && c->sticky) return c->sticky;
    CUresult result = keep(c, asked_fault(function));
    if (c && c->sticky) stop_work(c);
    return result ? result : unsafe(function);
}

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
        NAME(CUDA_ERROR_UNKNOWN),
        NAME(CUDA_ERROR_NOT_PERMITTED),
        NAME(CUDA_ERROR_NOT_FOUND),
        NAME(CUDA_ERROR_INVALID_IMAGE),
        NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
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
             : attribute == CU_DEVICE_ATTRIBUTE_INTEGRATED     ? (int)setting("CUDA_TEST_INTEGRATED", 0)
             : attribute == CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY ? 1
             : attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
                 ? (int)setting("CUDA_TEST_CONCURRENT", 1)
                 : 0;
    END
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device){ANSWER(*bytes = MEMORY)}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer){
    ANSWER(*can = device != peer && !setting("FAULTY_NO_PEERS", 0))}

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

int cuda_test_may_use(CUcontext user, CUcontext context, CUdeviceptr address, size_t bytes)
{
    pthread_mutex_lock(&lock);
    const int may = place_for(user->device, context, address, bytes) != NULL;
    pthread_mutex_unlock(&lock);
    return may;
}
