/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of HIP that the plugin calls, over CUDA's driver API. In tests they are linked with ../cuda/libcuda.c, so that
 * everything that it checks, delays and refuses holds for HIP, too. Results have the same numbers in both. The environment,
 * besides that of libcuda.c, which takes the names of CUDA's functions:
 *
 *   FAULTY_FAIL=FUNCTION:N:RESULT     also for hipGetDevice, hipSetDevice and hipGetDeviceProperties
 *   HIP_TEST_ARCHITECTURE=NAME        of the devices
 *   HIP_TEST_ROOM=BYTES               larger allocations fail
 *   HIP_TEST_NO_RECORDS=1             events cannot be recorded
 *   HIP_TEST_OLD_CAPTURES=1           kernels are not captured: they run at once, as those of HIP 5.2. 2: nor does a capture without
 *                                     nodes end
 */
#define __HIP_PLATFORM_AMD__ 1
#include <cuda.h>
#include <hip/hip_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT  __attribute__((visibility("default")))
#define DEVICES 2

static __thread int current;

static hipError_t asked_fault(const char *function)
{
    char name[64];
    static int calls;
    int n, result;
    const char *text = getenv("FAULTY_FAIL");
    if (!text || sscanf(text, "%63[^:]:%d:%d", name, &n, &result) != 3 || strcmp(name, function) != 0)
        return hipSuccess;
    return __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == n ? (hipError_t)result : hipSuccess;
}

/* HIP makes the context of a device when it is first used, and keeps it. */
static CUresult context_of(int device, CUcontext *out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static CUcontext contexts[DEVICES];
    CUresult result = CUDA_SUCCESS;
    if (device < 0 || device >= DEVICES) return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    if (!contexts[device]) result = cuDevicePrimaryCtxRetain(&contexts[device], device);
    *out = contexts[device];
    pthread_mutex_unlock(&lock);
    return result;
}

/* As HIP 7 does, a thread keeps the error of a call until it is asked for. */
static __thread hipError_t last_error;

static hipError_t noted(hipError_t result)
{
    if (result != hipSuccess && result != hipErrorNotReady) last_error = result;
    return result;
}

EXPORT hipError_t hipGetLastError(void)
{
    const hipError_t result = last_error;
    last_error = hipSuccess;
    return result;
}

/* The call with the context of the thread's device. */
#define ON_DEVICE(call)                                           \
    ({                                                            \
        CUcontext on_context;                                     \
        CUresult on_result = context_of(current, &on_context);    \
        if (!on_result) on_result = cuCtxPushCurrent(on_context); \
        if (!on_result) {                                         \
            on_result = call;                                     \
            cuCtxPopCurrent(&on_context);                         \
        }                                                         \
        noted((hipError_t)on_result);                             \
    })

/* HIP 5.2 reads any stream but the null stream as a pointer, also number 1, hipStreamLegacy of newer versions. */
static CUstream known(hipStream_t stream)
{
    if ((uintptr_t)stream == 1) {
        fprintf(stderr, "libamdhip64 for tests: stream 1 is read as a pointer\n");
        abort();
    }
    return (CUstream)stream;
}

static CUdeviceptr address_of(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

/* ---- Devices ------------------------------------------------------------------------------------------------ */

extern int is_hip; /* of ../cuda/captures.c */

EXPORT hipError_t hipInit(unsigned flags)
{
    is_hip = 1;
    return (hipError_t)cuInit(flags);
}

EXPORT hipError_t hipDriverGetVersion(int *version)
{
    return (hipError_t)cuDriverGetVersion(version);
}

EXPORT const char *hipGetErrorName(hipError_t result)
{
    switch (result) {
#define CASE(name) \
    case name:     \
        return #name;
        CASE(hipSuccess)
        CASE(hipErrorInvalidValue)
        CASE(hipErrorOutOfMemory)
        CASE(hipErrorNotInitialized)
        CASE(hipErrorNoDevice)
        CASE(hipErrorInvalidDevice)
        CASE(hipErrorInvalidImage)
        CASE(hipErrorInvalidContext)
        CASE(hipErrorInvalidHandle)
        CASE(hipErrorNotFound)
        CASE(hipErrorNotReady)
        CASE(hipErrorIllegalAddress)
        CASE(hipErrorLaunchFailure)
        CASE(hipErrorStreamCaptureUnsupported)
        CASE(hipErrorStreamCaptureInvalidated)
        CASE(hipErrorStreamCaptureUnjoined)
        CASE(hipErrorStreamCaptureIsolation)
        CASE(hipErrorCapturedEvent)
#undef CASE
    default:
        return "hipErrorUnknown";
    }
}

EXPORT hipError_t hipGetDeviceCount(int *count)
{
    return (hipError_t)cuDeviceGetCount(count);
}

EXPORT hipError_t hipDeviceGet(hipDevice_t *device, int ordinal)
{
    return (hipError_t)cuDeviceGet(device, ordinal);
}

EXPORT hipError_t hipGetDevice(int *device)
{
    hipError_t result = asked_fault(__func__);
    if (!result) *device = current;
    return result;
}

EXPORT hipError_t hipSetDevice(int device)
{
    hipError_t result = asked_fault(__func__);
    if (!result && (device < 0 || device >= DEVICES)) result = hipErrorInvalidDevice;
    if (!result) current = device;
    return result;
}

EXPORT hipError_t hipDeviceGetName(char *name, int bytes, hipDevice_t device)
{
    return (hipError_t)cuDeviceGetName(name, bytes, device);
}

EXPORT hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device)
{
    CUuuid got;
    CUresult result = cuDeviceGetUuid(&got, device);
    if (!result) memcpy(uuid->bytes, got.bytes, sizeof uuid->bytes);
    return (hipError_t)result;
}

EXPORT hipError_t hipDeviceGetPCIBusId(char *text, int bytes, int device)
{
    return (hipError_t)cuDeviceGetPCIBusId(text, bytes, device);
}

EXPORT hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    switch (attribute) {
    case hipDeviceAttributeMultiprocessorCount:
        return (hipError_t)cuDeviceGetAttribute(value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    case hipDeviceAttributeIntegrated:
        return (hipError_t)cuDeviceGetAttribute(value, CU_DEVICE_ATTRIBUTE_INTEGRATED, device);
    default:
        return hipErrorInvalidValue;
    }
}

EXPORT hipError_t hipGetDeviceProperties(hipDeviceProp_t *out, int device)
{
    const char *name = getenv("HIP_TEST_ARCHITECTURE");
    hipError_t result = asked_fault(__func__);
    if (result) return result;
    memset(out, 0, sizeof *out);
    snprintf(out->gcnArchName, sizeof out->gcnArchName, "%s", name ? name : "gfx90a:sramecc+:xnack-");
    return hipSuccess;
}

EXPORT hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    return (hipError_t)cuDeviceTotalMem(bytes, device);
}

EXPORT hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    return (hipError_t)cuDeviceCanAccessPeer(can, device, peer);
}

EXPORT hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    CUcontext context;
    CUresult result = context_of(peer, &context);
    return result ? (hipError_t)result : ON_DEVICE(cuCtxEnablePeerAccess(context, flags));
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

EXPORT hipError_t hipMemGetInfo(size_t *available, size_t *total)
{
    return ON_DEVICE(cuMemGetInfo(available, total));
}

EXPORT hipError_t hipMalloc(void **out, size_t bytes)
{
    const char *room = getenv("HIP_TEST_ROOM");
    CUdeviceptr address = 0;
    if (room && bytes > strtoull(room, NULL, 10)) return noted(hipErrorOutOfMemory);
    hipError_t result = ON_DEVICE(cuMemAlloc(&address, bytes));
    *out = (void *)(uintptr_t)address;
    return result;
}

EXPORT hipError_t hipFree(void *memory)
{
    return ON_DEVICE(cuMemFree(address_of(memory)));
}

EXPORT hipError_t hipHostMalloc(void **out, size_t bytes, unsigned flags)
{
    return ON_DEVICE(
        cuMemHostAlloc(out, bytes, flags & hipHostMallocPortable ? CU_MEMHOSTALLOC_PORTABLE : 0));
}

EXPORT hipError_t hipHostFree(void *memory)
{
    return ON_DEVICE(cuMemFreeHost(memory));
}

EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t memory)
{
    CUdeviceptr begin = 0;
    hipError_t result = ON_DEVICE(cuMemGetAddressRange(&begin, bytes, address_of(memory)));
    *base = (void *)(uintptr_t)begin;
    return result;
}

EXPORT hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t memory)
{
    if (attribute != HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return hipErrorInvalidValue;
    return ON_DEVICE(cuPointerGetAttribute(data, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address_of(memory)));
}

EXPORT hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t to, void *from, size_t bytes, hipStream_t stream)
{
    return ON_DEVICE(cuMemcpyHtoDAsync(address_of(to), from, bytes, known(stream)));
}

EXPORT hipError_t hipMemcpyDtoHAsync(void *to, hipDeviceptr_t from, size_t bytes, hipStream_t stream)
{
    return ON_DEVICE(cuMemcpyDtoHAsync(to, address_of(from), bytes, known(stream)));
}

EXPORT hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes, hipStream_t stream)
{
    return ON_DEVICE(cuMemcpyDtoDAsync(address_of(to), address_of(from), bytes, known(stream)));
}

EXPORT hipError_t hipMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                     hipStream_t stream)
{
    CUcontext to_context, from_context;
    CUresult result = context_of(to_device, &to_context);
    if (!result) result = context_of(from_device, &from_context);
    if (result) return (hipError_t)result;
    return ON_DEVICE(
        cuMemcpyPeerAsync(address_of(to), to_context, address_of(from), from_context, bytes, known(stream)));
}

EXPORT hipError_t hipMemsetD8Async(hipDeviceptr_t to, unsigned char value, size_t count, hipStream_t stream)
{
    return ON_DEVICE(cuMemsetD8Async(address_of(to), value, count, known(stream)));
}

EXPORT hipError_t hipMemsetD16Async(hipDeviceptr_t to, unsigned short value, size_t count, hipStream_t stream)
{
    return ON_DEVICE(cuMemsetD16Async(address_of(to), value, count, known(stream)));
}

EXPORT hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count, hipStream_t stream)
{
    return ON_DEVICE(cuMemsetD32Async(address_of(to), (unsigned)value, count, known(stream)));
}

/* ---- Streams and events ------------------------------------------------------------------------------------- */

EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t *out, unsigned flags, int priority)
{
    return ON_DEVICE(cuStreamCreateWithPriority(
        (CUstream *)out, flags & hipStreamNonBlocking ? CU_STREAM_NON_BLOCKING : 0, priority));
}

EXPORT hipError_t hipStreamDestroy(hipStream_t stream)
{
    return (hipError_t)cuStreamDestroy(known(stream));
}

hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *out); /* not in every header */
EXPORT hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *out)
{
    CUcontext of_stream = NULL, context = NULL;
    hipError_t result = ON_DEVICE(cuStreamGetCtx(known(stream), &of_stream));
    for (int i = 0; i < DEVICES && !result; i++)
        if (!context_of(i, &context) && context == of_stream) *out = i;
    return result;
}

EXPORT hipError_t hipStreamQuery(hipStream_t stream)
{
    return ON_DEVICE(cuStreamQuery(known(stream)));
}

EXPORT hipError_t hipStreamSynchronize(hipStream_t stream)
{
    return ON_DEVICE(cuStreamSynchronize(known(stream)));
}

EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags)
{
    return ON_DEVICE(cuStreamWaitEvent(known(stream), (CUevent)event, flags));
}

/* Callbacks that have not run: behind a fault they never do. */
typedef struct pending {
    struct pending *next;
    hipStreamCallback_t callback;
    hipStream_t stream;
    void *user;
} pending;
static pending *first;
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;

static pending take_out(pending *one)
{
    const pending taken = *one;
    pthread_mutex_lock(&pending_lock);
    pending **link = &first;
    while (*link != one) link = &(*link)->next;
    *link = one->next;
    pthread_mutex_unlock(&pending_lock);
    free(one);
    return taken;
}

static void run_callback(void *one)
{
    const pending p = take_out(one);
    p.callback(p.stream, hipSuccess, p.user);
}

EXPORT hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void *user,
                                       unsigned flags)
{
    if (flags != 0) return hipErrorInvalidValue;
    pending *one = malloc(sizeof *one);
    pthread_mutex_lock(&pending_lock);
    *one = (pending){first, callback, stream, user};
    first = one;
    pthread_mutex_unlock(&pending_lock);
    hipError_t result = ON_DEVICE(cuLaunchHostFunc(known(stream), run_callback, one));
    if (result != hipSuccess) take_out(one);
    return result;
}

EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t *out, unsigned flags)
{
    return ON_DEVICE(cuEventCreate((CUevent *)out, flags & hipEventDisableTiming ? CU_EVENT_DISABLE_TIMING
                                                                                 : CU_EVENT_DEFAULT));
}

EXPORT hipError_t hipEventDestroy(hipEvent_t event)
{
    return (hipError_t)cuEventDestroy((CUevent)event);
}

EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    if (getenv("HIP_TEST_NO_RECORDS")) return hipErrorUnknown;
    return ON_DEVICE(cuEventRecord((CUevent)event, known(stream)));
}

/* An event has a lock, which waits and questions hold; here some events share one. */
static pthread_mutex_t *lock_of(hipEvent_t event)
{
    static pthread_mutex_t locks[61] = {[0 ... 60] = PTHREAD_MUTEX_INITIALIZER};
    return &locks[(uintptr_t)event / 16 % 61];
}

static hipError_t ask_event(hipEvent_t event, CUresult (*question)(CUevent event))
{
    pthread_mutex_t *of_event = lock_of(event);
    pthread_mutex_lock(of_event);
    hipError_t result = ON_DEVICE(question((CUevent)event));
    pthread_mutex_unlock(of_event);
    return result;
}

EXPORT hipError_t hipEventQuery(hipEvent_t event)
{
    return ask_event(event, cuEventQuery);
}

EXPORT hipError_t hipEventSynchronize(hipEvent_t event)
{
    return ask_event(event, cuEventSynchronize);
}

EXPORT hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t end)
{
    return ON_DEVICE(cuEventElapsedTime(ms, (CUevent)start, (CUevent)end));
}

/* ---- Kernels ------------------------------------------------------------------------------------------------ */

/* What hipcc made runs as its twins, which need nothing of the image but how it begins. */
EXPORT hipError_t hipModuleLoadData(hipModule_t *out, const void *image)
{
    static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
    static const uint32_t fat_binary = 0xba55ed50;
    if (memcmp(image, magic, sizeof magic - 1) != 0) return hipErrorInvalidImage;
    return ON_DEVICE(cuModuleLoadData((CUmodule *)out, &fat_binary));
}

EXPORT hipError_t hipModuleUnload(hipModule_t module)
{
    return ON_DEVICE(cuModuleUnload((CUmodule)module));
}

EXPORT hipError_t hipModuleGetFunction(hipFunction_t *out, hipModule_t module, const char *name)
{
    return ON_DEVICE(cuModuleGetFunction((CUfunction *)out, (CUmodule)module, name));
}

static int has_old_captures(void)
{
    const char *text = getenv("HIP_TEST_OLD_CAPTURES");
    return text ? atoi(text) : 0;
}

/* Where the kernel runs. */
static CUstream of_kernel(hipStream_t stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    if (has_old_captures()) hipStreamIsCapturing(stream, &status);
    return status ? NULL : known(stream);
}

EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                                        unsigned shared, hipStream_t stream, void **arguments, void **extra)
{
    return ON_DEVICE(cuLaunchKernel((CUfunction)function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                    shared, of_kernel(stream), arguments, extra));
}

/* ---- Graphs ------------------------------------------------------------------------------------------------- */

EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    return ON_DEVICE(cuStreamBeginCapture(known(stream), (CUstreamCaptureMode)mode));
}

EXPORT hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
    return (hipError_t)cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode);
}

EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *out)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    hipError_t result = ON_DEVICE(cuStreamIsCapturing(known(stream), &status));
    *out = (hipStreamCaptureStatus)status;
    return result;
}

EXPORT hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count)
{
    if (nodes) return hipErrorInvalidValue;
    return ON_DEVICE(cuGraphGetNodes((CUgraph)graph, NULL, count));
}

EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *out)
{
    size_t nodes = 1;
    hipError_t result = ON_DEVICE(cuStreamEndCapture(known(stream), (CUgraph *)out));
    if (!result && has_old_captures() == 2) result = hipGraphGetNodes(*out, NULL, &nodes);
    if (nodes) return result;
    hipGraphDestroy(*out);
    *out = NULL;
    return hipErrorStreamCaptureUnjoined;
}

EXPORT hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *out, hipGraph_t graph,
                                               unsigned long long flags)
{
    return ON_DEVICE(cuGraphInstantiateWithFlags((CUgraphExec *)out, (CUgraph)graph, flags));
}

EXPORT hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream)
{
    return ON_DEVICE(cuGraphLaunch((CUgraphExec)executable, known(stream)));
}

EXPORT hipError_t hipGraphExecDestroy(hipGraphExec_t executable)
{
    return ON_DEVICE(cuGraphExecDestroy((CUgraphExec)executable));
}

EXPORT hipError_t hipGraphDestroy(hipGraph_t graph)
{
    return ON_DEVICE(cuGraphDestroy((CUgraph)graph));
}
