/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libcuda.so.1 that the CUDA plugin calls, found when a device is first looked for: the plugin links
 * nothing of CUDA.
 */
#ifndef TENON_CUDA_SYMBOLS_H
#define TENON_CUDA_SYMBOLS_H

#include "gpu.h"

#include <cuda.h>

/* A name stands here as cuda.h renames it: cuMemAlloc is the symbol cuMemAlloc_v2. */
#define CUDA_REQUIRED(X)              \
    X(cuInit)                         \
    X(cuDriverGetVersion)             \
    X(cuGetErrorName)                 \
    X(cuDeviceGetCount)               \
    X(cuDeviceGet)                    \
    X(cuDeviceGetName)                \
    X(cuDeviceGetUuid)                \
    X(cuDeviceGetPCIBusId)            \
    X(cuDeviceGetAttribute)           \
    X(cuDeviceTotalMem)               \
    X(cuDeviceCanAccessPeer)          \
    X(cuDevicePrimaryCtxRetain)       \
    X(cuDevicePrimaryCtxRelease)      \
    X(cuCtxGetCurrent)                \
    X(cuCtxPushCurrent)               \
    X(cuCtxPopCurrent)                \
    X(cuCtxEnablePeerAccess)          \
    X(cuMemGetInfo)                   \
    X(cuMemAlloc)                     \
    X(cuMemAllocManaged)              \
    X(cuMemFree)                      \
    X(cuMemHostAlloc)                 \
    X(cuMemFreeHost)                  \
    X(cuMemGetAddressRange)           \
    X(cuPointerGetAttribute)          \
    X(cuMemcpyHtoDAsync)              \
    X(cuMemcpyDtoHAsync)              \
    X(cuMemcpyDtoDAsync)              \
    X(cuMemcpyPeerAsync)              \
    X(cuMemsetD8Async)                \
    X(cuMemsetD16Async)               \
    X(cuMemsetD32Async)               \
    X(cuStreamCreateWithPriority)     \
    X(cuStreamDestroy)                \
    X(cuStreamGetCtx)                 \
    X(cuStreamQuery)                  \
    X(cuStreamSynchronize)            \
    X(cuStreamWaitEvent)              \
    X(cuLaunchHostFunc)               \
    X(cuEventCreate)                  \
    X(cuEventDestroy)                 \
    X(cuEventRecord)                  \
    X(cuEventQuery)                   \
    X(cuEventSynchronize)             \
    X(cuEventElapsedTime)             \
    X(cuModuleLoadData)               \
    X(cuModuleUnload)                 \
    X(cuModuleGetFunction)            \
    X(cuLaunchKernel)                 \
    X(cuStreamBeginCapture)           \
    X(cuStreamEndCapture)             \
    X(cuGraphInstantiateWithFlags)    \
    X(cuGraphLaunch)                  \
    X(cuGraphExecUpdate)              \
    X(cuGraphExecDestroy)             \
    X(cuGraphDestroy)                 \
    X(cuMemGetAllocationGranularity)  \
    X(cuMemCreate)                    \
    X(cuMemRelease)                   \
    X(cuMemAddressReserve)            \
    X(cuMemAddressFree)               \
    X(cuMemMap)                       \
    X(cuMemSetAccess)                 \
    X(cuMemUnmap)                     \
    X(cuMemExportToShareableHandle)   \
    X(cuMemImportFromShareableHandle) \
    X(cuIpcGetEventHandle)            \
    X(cuIpcOpenEventHandle)

/* NULL where the driver lacks it. */
#define CUDA_OPTIONAL(X) X(cuThreadExchangeStreamCaptureMode)

typedef struct cuda_symbols {
#define CUDA_DECLARE(name) __typeof__(&name) name;
    CUDA_REQUIRED(CUDA_DECLARE)
    CUDA_OPTIONAL(CUDA_DECLARE)
#undef CUDA_DECLARE
} cuda_symbols;

/* What driver.c says of the vendor. */
#define VENDOR_TYPE              "cuda"
#define VENDOR_NAME              "CUDA"
#define VENDOR_DLPACK            2
#define VENDOR_LIBRARY           "libcuda.so.1"
#define VENDOR_LACKS             "no NVIDIA driver is installed"
#define VENDOR_TOO_OLD           "the NVIDIA driver is too old"
#define LEAST_COMPUTE            8 /* the PTX of the images is for compute capability 8.0 */
#define VENDOR_NEEDS             "compute capability 8.0 or later"
#define VENDOR_STREAM_OF(native) ((CUstream)(uintptr_t)(native))
#define VENDOR_URGENT            (-5) /* CUDA takes any priority and moves it into its range */
#define VENDOR_GRAPHS            (&cuda_graphs)
#define VENDOR_HAS_NO_ORDER      0
#define VENDOR_GRAPH_UPDATE      cuda_graph_update
#define VENDOR_LIBRARIES         (&cuda_libraries)
/* CUDA captures whatever is launched, lets go of streams when a capture fails, and takes events of any stream. Other streams may do
 * what they like. */
#define VENDOR_CAPTURE_BEGINS(device)                TN_OK
#define VENDOR_CAPTURE_ENDED(device, stream, result) ((void)0)
#define VENDOR_CAPTURES(device, stream)              0
#define VENDOR_ANY_CAPTURE(device)                   0
#define VENDOR_COLLECTIVES                           "libnccl.so.2"
#define VENDOR_NCCL                                  "NCCL"

#define VENDOR_FORGET_ERROR(device, result) ((void)0)
#define VENDOR_WAIT(device, event)          CALL(device, cuEventSynchronize, event)

/* What the name of a result does not say: the driver compiles the PTX of the images for GPUs later than their machine code. */
#define VENDOR_HINT(result)                                                                       \
    ((result) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION                                               \
         ? ": this GPU needs a driver that is as new as the CUDA that the plugin was compiled by" \
         : "")

#define VENDOR_SHARES      (&cuda_shares)
#define VENDOR_FREE_SHARED cuda_share_free

#define VENDOR_HAS_UNIFIED   cuda_has_managed
#define VENDOR_UNIFIED_ALLOC cuda_managed_alloc

#define VENDOR_ADMIT cuda_mapped_admit
#define VENDOR_COPIES_WITHOUT_ACCESS(result) \
    ((result) == CUDA_ERROR_TOO_MANY_PEERS || (result) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
#define VENDOR_RESERVE      cuda_segment_reserve
#define VENDOR_RESIZE       cuda_segment_resize
#define VENDOR_FREE_SEGMENT cuda_segment_free

#define VENDOR_ACTIVITIES  (&cuda_activities)
#define VENDOR_RANGE_BEGIN cuda_range_begin
#define VENDOR_RANGE_END   cuda_range_end

#endif
