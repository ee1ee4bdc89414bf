/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ../cuda/driver.c is compiled with in the HIP plugin: the functions of libamdhip64.so that the plugin calls, found when a
 * device is first looked for, and the names that CUDA's driver API has in HIP. The plugin links nothing of HIP.
 */
#ifndef TENON_HIP_SYMBOLS_H
#define TENON_HIP_SYMBOLS_H

#include "gpu.h"

#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>

/* Types, results and flags. */
#define CUresult                                 hipError_t
#define CUdevice                                 hipDevice_t
#define CUdevice_attribute                       hipDeviceAttribute_t
#define CUdeviceptr                              hipDeviceptr_t
#define CUstream                                 hipStream_t
#define CUevent                                  hipEvent_t
#define CUmodule                                 hipModule_t
#define CUfunction                               hipFunction_t
#define CUuuid                                   hipUUID
#define CUDA_SUCCESS                             hipSuccess
#define CUDA_ERROR_INVALID_VALUE                 hipErrorInvalidValue
#define CUDA_ERROR_INVALID_CONTEXT               hipErrorInvalidContext
#define CUDA_ERROR_NOT_INITIALIZED               hipErrorNotInitialized
#define CUDA_ERROR_NOT_READY                     hipErrorNotReady
#define CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED   hipErrorPeerAccessAlreadyEnabled
#define CU_DEVICE_ATTRIBUTE_INTEGRATED           hipDeviceAttributeIntegrated
#define CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT hipDeviceAttributeMultiprocessorCount
#define CU_EVENT_DEFAULT                         hipEventDefault
#define CU_EVENT_DISABLE_TIMING                  hipEventDisableTiming
#define CU_EVENT_WAIT_DEFAULT                    0
#define CU_MEMHOSTALLOC_PORTABLE                 hipHostMallocPortable
#define CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL      HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL
#define CUDA_CB
#define CU_STREAM_NON_BLOCKING                hipStreamNonBlocking
#define CU_STREAM_LEGACY                      ((hipStream_t)1) /* not in every header */
#define CU_STREAM_PER_THREAD                  hipStreamPerThread
#define CUgraph                               hipGraph_t
#define CUgraphExec                           hipGraphExec_t
#define CUstreamCaptureMode                   hipStreamCaptureMode
#define CU_STREAM_CAPTURE_MODE_RELAXED        hipStreamCaptureModeRelaxed
#define CUDA_ERROR_STREAM_CAPTURE_UNJOINED    hipErrorStreamCaptureUnjoined
#define CUDA_ERROR_STREAM_CAPTURE_INVALIDATED hipErrorStreamCaptureInvalidated
#define CUcontext                             int /* a device is current on a thread, without a context */

/* Functions. */
#define cuInit                      hipInit
#define cuDriverGetVersion          hipDriverGetVersion
#define cuDeviceGetCount            hipGetDeviceCount
#define cuDeviceGet                 hipDeviceGet
#define cuDeviceGetName             hipDeviceGetName
#define cuDeviceGetUuid             hipDeviceGetUuid
#define cuDeviceGetPCIBusId         hipDeviceGetPCIBusId
#define cuDeviceGetAttribute        hipDeviceGetAttribute
#define cuDeviceTotalMem            hipDeviceTotalMem
#define cuDeviceCanAccessPeer       hipDeviceCanAccessPeer
#define cuCtxEnablePeerAccess       hipDeviceEnablePeerAccess
#define cuMemGetInfo                hipMemGetInfo
#define cuMemAlloc                  hipMalloc
#define cuMemFree                   hipFree
#define cuMemHostAlloc              hipHostMalloc
#define cuMemFreeHost               hipHostFree
#define cuMemGetAddressRange        hipMemGetAddressRange
#define cuPointerGetAttribute       hipPointerGetAttribute
#define cuMemcpyHtoDAsync           hipMemcpyHtoDAsync
#define cuMemcpyDtoHAsync           hipMemcpyDtoHAsync
#define cuMemcpyDtoDAsync           hipMemcpyDtoDAsync
#define cuMemcpyPeerAsync           hipMemcpyPeerAsync
#define cuMemsetD8Async             hipMemsetD8Async
#define cuMemsetD16Async            hipMemsetD16Async
#define cuMemsetD32Async            hipMemsetD32Async
#define cuStreamCreateWithPriority  hipStreamCreateWithPriority
#define cuStreamDestroy             hipStreamDestroy
#define cuStreamQuery               hipStreamQuery
#define cuStreamSynchronize         hipStreamSynchronize
#define cuStreamWaitEvent           hipStreamWaitEvent
#define cuEventCreate               hipEventCreateWithFlags
#define cuEventDestroy              hipEventDestroy
#define cuEventRecord               hipEventRecord
#define cuEventQuery                hipEventQuery
#define cuEventElapsedTime          hipEventElapsedTime
#define cuModuleLoadData            hipModuleLoadData
#define cuModuleUnload              hipModuleUnload
#define cuModuleGetFunction         hipModuleGetFunction
#define cuLaunchKernel              hipModuleLaunchKernel
#define cuStreamBeginCapture        hipStreamBeginCapture
#define cuStreamEndCapture          hipStreamEndCapture
#define cuGraphInstantiateWithFlags hipGraphInstantiateWithFlags
#define cuGraphLaunch               hipGraphLaunch
#define cuGraphExecDestroy          hipGraphExecDestroy
#define cuGraphDestroy              hipGraphDestroy

#define cuThreadExchangeStreamCaptureMode hipThreadExchangeStreamCaptureMode

/* A name stands here as HIP's header renames it: hipGetDeviceProperties may be hipGetDevicePropertiesR0600. */
#define CUDA_REQUIRED(X)            \
    X(hipInit)                      \
    X(hipDriverGetVersion)          \
    X(hipGetDeviceCount)            \
    X(hipDeviceGet)                 \
    X(hipDeviceGetName)             \
    X(hipDeviceGetUuid)             \
    X(hipDeviceGetPCIBusId)         \
    X(hipDeviceGetAttribute)        \
    X(hipDeviceTotalMem)            \
    X(hipDeviceCanAccessPeer)       \
    X(hipDeviceEnablePeerAccess)    \
    X(hipMemGetInfo)                \
    X(hipMalloc)                    \
    X(hipFree)                      \
    X(hipHostMalloc)                \
    X(hipHostFree)                  \
    X(hipMemGetAddressRange)        \
    X(hipPointerGetAttribute)       \
    X(hipMemcpyHtoDAsync)           \
    X(hipMemcpyDtoHAsync)           \
    X(hipMemcpyDtoDAsync)           \
    X(hipMemcpyPeerAsync)           \
    X(hipMemsetD8Async)             \
    X(hipMemsetD16Async)            \
    X(hipMemsetD32Async)            \
    X(hipStreamCreateWithPriority)  \
    X(hipStreamDestroy)             \
    X(hipStreamQuery)               \
    X(hipStreamSynchronize)         \
    X(hipStreamWaitEvent)           \
    X(hipEventCreateWithFlags)      \
    X(hipEventDestroy)              \
    X(hipEventRecord)               \
    X(hipEventQuery)                \
    X(hipEventElapsedTime)          \
    X(hipModuleLoadData)            \
    X(hipModuleUnload)              \
    X(hipModuleGetFunction)         \
    X(hipModuleLaunchKernel)        \
    X(hipStreamBeginCapture)        \
    X(hipStreamEndCapture)          \
    X(hipGraphInstantiateWithFlags) \
    X(hipGraphLaunch)               \
    X(hipGraphExecDestroy)          \
    X(hipGraphDestroy)              \
    X(hipGetErrorName)              \
    X(hipGetLastError)              \
    X(hipGetDeviceProperties)       \
    X(hipGetDevice)                 \
    X(hipGraphGetNodes)             \
    X(hipStreamIsCapturing)         \
    X(hipSetDevice)                 \
    X(hipStreamAddCallback)
/* NULL where the runtime is older. */
#define CUDA_OPTIONAL(X)  \
    X(hipStreamGetDevice) \
    X(hipThreadExchangeStreamCaptureMode)

typedef struct cuda_symbols {
#define HIP_DECLARE(name) __typeof__(&name) name;
    CUDA_REQUIRED(HIP_DECLARE)
#undef HIP_DECLARE
    hipError_t (*hipStreamGetDevice)(hipStream_t stream, hipDevice_t *out); /* not in every header */
    __typeof__(&hipThreadExchangeStreamCaptureMode) hipThreadExchangeStreamCaptureMode;
} cuda_symbols;

/* What driver.c says of the vendor. */
#define VENDOR_TYPE    "hip"
#define VENDOR_NAME    "HIP"
#define VENDOR_DLPACK  10
#define VENDOR_LIBRARY "libamdhip64.so." NAME(HIP_VERSION_MAJOR) /* structures differ between generations */
#define VENDOR_LACKS   "no HIP runtime of this generation is installed"
#define VENDOR_TOO_OLD "the HIP runtime is too old"
#define VENDOR_NEEDS   "the architectures " HIP_TARGETS
/* Number 1 is hipStreamLegacy, the default stream; HIP 5.2 does not know it, and would read it as a pointer. */
#define VENDOR_STREAM_OF(native) ((native) == 1 ? NULL : (hipStream_t)(uintptr_t)(native))
#define VENDOR_URGENT            (-1)
#define VENDOR_GRAPHS            (&cuda_graphs)
#define VENDOR_HAS_NO_ORDER      1
#define VENDOR_GRAPH_UPDATE      NULL /* HIP takes graphs with other edges, and keeps the old ones */
#define VENDOR_LIBRARIES         (&cuda_libraries)
#define VENDOR_CAPTURE_BEGINS    hip_capture_begins
#define VENDOR_CAPTURE_ENDED     hip_capture_ended
#define VENDOR_CAPTURES          hip_captures
#define VENDOR_ANY_CAPTURE       hip_any_capture
#define VENDOR_COLLECTIVES       "librccl.so.1"
#define VENDOR_NCCL              "RCCL"

/* HIP 7 keeps the error of a call until the thread asks for it: other code would take it for an error of its own. */
#define VENDOR_FORGET_ERROR(device, result)                                                                \
    do {                                                                                                   \
        if ((result) != hipSuccess && (result) != hipErrorNotReady) (void)(device)->cu->hipGetLastError(); \
    } while (0)

#define VENDOR_WAIT         hip_wait
#define VENDOR_HINT(result) ""

#define VENDOR_SHARES                      NULL
#define VENDOR_FREE_SHARED(device, memory) 0

#define VENDOR_HAS_UNIFIED(cu, id) 0
#define VENDOR_UNIFIED_ALLOC       NULL

#define VENDOR_ADMIT(owner, reader)          TN_OK
#define VENDOR_COPIES_WITHOUT_ACCESS(result) 0
#define VENDOR_RESERVE                       NULL
#define VENDOR_RESIZE                        NULL
#define VENDOR_FREE_SEGMENT(device, memory)  0

#define VENDOR_ACTIVITIES  NULL
#define VENDOR_RANGE_BEGIN NULL
#define VENDOR_RANGE_END   NULL

#endif
