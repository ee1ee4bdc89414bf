/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the test driver offers to the vendor's libraries for tests: work on its streams that finds device memory.
 */
#ifndef TESTS_CUDA_LIBRARY_H
#define TESTS_CUDA_LIBRARY_H

#include <cuda.h>
#ifdef HIP
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../gpu/library_fault.h"

#define TEST_API __attribute__((visibility("default")))

typedef CUresult cuda_test_work(CUcontext context, void *data);
/* Queues a function with a copy of its data, on a thread of the driver. */
TEST_API CUresult cuda_test_queue(CUstream stream, cuda_test_work *function, const void *data, size_t bytes);
/* What the CUPTI for tests is told, under the driver's lock: of each call, on its thread, for which it gives a number, and of the
 * work that a call queued, when it has run. */
typedef struct cuda_test_ran {
    enum { RAN_KERNEL, RAN_COPY, RAN_FILL } kind;
    const char *name;                   /* of a kernel */
    int device, from_device, to_device; /* of a copy; -1: on the host */
    const void *stream;
    size_t bytes;
    uint64_t start, end; /* ns of CLOCK_REALTIME */
} cuda_test_ran;
typedef struct cuda_test_watch {
    uint32_t (*called)(const char *function);
    void (*ran)(uint32_t call, const cuda_test_ran *ran);
} cuda_test_watch;
/* NULL: nobody is told. */
TEST_API void cuda_test_watch_work(const cuda_test_watch *watch);
/* Where device memory lies, or NULL: the range is not in one allocation. */
TEST_API void *cuda_test_place(CUcontext context, CUdeviceptr address, size_t bytes);
/* Whether the device of `user` may use memory of another context in place. */
TEST_API int cuda_test_may_use(CUcontext user, CUcontext context, CUdeviceptr address, size_t bytes);

/* The context of the thread. HIP has none, but a device: its context is kept for good, as HIP's library for tests does. */
static inline CUresult library_context(CUcontext *out)
{
    *out = NULL;
#ifdef HIP
    int device;
    return hipGetDevice(&device) ? CUDA_ERROR_INVALID_DEVICE : cuDevicePrimaryCtxRetain(out, device);
#else
    return cuCtxGetCurrent(out);
#endif
}

/* cuda_test_queue with that context. */
static inline CUresult library_queue(CUstream stream, cuda_test_work *function, const void *data,
                                     size_t bytes)
{
    CUcontext context;
    CUresult result = library_context(&context);
    if (!result) result = cuCtxPushCurrent(context);
    if (result) return result;
    result = cuda_test_queue(stream, function, data, bytes);
    cuCtxPopCurrent(&context);
    return result;
}

#endif
