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
#define CUDA_REQUIRED(X)           \
    X(cuInit)                      \
    X(cuDriverGetVersion)          \
    X(cuGetErrorName)              \
    X(cuDeviceGetCount)            \
    X(cuDeviceGet)                 \
    X(cuDeviceGetName)             \
    X(cuDeviceGetUuid)             \
    X(cuDeviceGetPCIBusId)         \
    X(cuDeviceGetAttribute)        \
    X(cuDeviceTotalMem)            \
    X(cuDeviceCanAccessPeer)       \
    X(cuDevicePrimaryCtxRetain)    \
    X(cuDevicePrimaryCtxRelease)   \
    X(cuCtxGetCurrent)             \
    X(cuCtxPushCurrent)            \
    X(cuCtxPopCurrent)             \
    X(cuCtxEnablePeerAccess)       \
    X(cuMemGetInfo)                \
    X(cuMemAlloc)                  \
    X(cuMemFree)                   \
    X(cuMemHostAlloc)              \
    X(cuMemFreeHost)               \
    X(cuMemGetAddressRange)        \
    X(cuPointerGetAttribute)       \
    X(cuMemcpyHtoDAsync)           \
    X(cuMemcpyDtoHAsync)           \
    X(cuMemcpyDtoDAsync)           \
    X(cuMemcpyPeerAsync)           \
    X(cuMemsetD8Async)             \
    X(cuMemsetD16Async)            \
    X(cuMemsetD32Async)            \
    X(cuStreamCreateWithPriority)  \
    X(cuStreamDestroy)             \
    X(cuStreamGetCtx)              \
    X(cuStreamQuery)               \
    X(cuStreamSynchronize)         \
    X(cuStreamWaitEvent)           \
    X(cuLaunchHostFunc)            \
    X(cuEventCreate)               \
    X(cuEventDestroy)              \
    X(cuEventRecord)               \
    X(cuEventQuery)                \
    X(cuEventSynchronize)          \
    X(cuEventElapsedTime)          \
    X(cuModuleLoadData)            \
    X(cuModuleUnload)              \
    X(cuModuleGetFunction)         \
    X(cuLaunchKernel)              \
    X(cuStreamBeginCapture)        \
    X(cuStreamEndCapture)          \
    X(cuGraphInstantiateWithFlags) \
    X(cuGraphLaunch)               \
    X(cuGraphExecUpdate)           \
    X(cuGraphExecDestroy)          \
    X(cuGraphDestroy)

typedef struct cuda_symbols {
#define CUDA_DECLARE(name) __typeof__(&name) name;
    CUDA_REQUIRED(CUDA_DECLARE)
#undef CUDA_DECLARE
} cuda_symbols;

#endif
