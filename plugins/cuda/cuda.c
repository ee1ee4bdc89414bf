/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is CUDA's alone in the CUDA driver: the primary context of each device, which other libraries of the process share
 * and a slot makes current for its own calls only; the statuses of CUDA's results; the GPUs that the plugin takes. The rest
 * is in driver.c.
 */
#include "mapped.h"

#include <stdio.h>

#define LEAST_DRIVER \
    (CUDA_VERSION / 1000 * 1000) /* images need a driver for the compiler's generation of CUDA */

int32_t cuda_set_current(const cuda_device *d)
{
    CUcontext current = NULL;
    if (d->cu->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == d->context) return 0;
    return d->cu->cuCtxPushCurrent(d->context) == CUDA_SUCCESS ? 1 : -1;
}

void cuda_reset_current(const cuda_device *d, int32_t was_set)
{
    CUcontext before;
    if (was_set > 0) d->cu->cuCtxPopCurrent(&before);
}

int32_t cuda_open(cuda_device *d)
{
    return cuda_check(d, d->cu->cuDevicePrimaryCtxRetain(&d->context, d->id), "cuDevicePrimaryCtxRetain");
}

void cuda_close(cuda_device *d)
{
    cuda_shares_close(d);
    cuda_segments_close(d);
    cuda_libraries_close(d);
    d->cu->cuDevicePrimaryCtxRelease(d->id);
}

int32_t cuda_stream_context(cuda_device *d, CUstream stream, CUcontext *out)
{
    return CHECKED(d, cuStreamGetCtx, stream, out);
}

static void CUDA_CB run_callback(void *one)
{
    cuda_callback_run(one);
}

/* While such a function runs CUDA holds no lock, as it does for those of cuStreamAddCallback. */
int32_t cuda_host_function(cuda_device *d, CUstream stream, cuda_callback *one)
{
    return CHECKED(d, cuLaunchHostFunc, stream, run_callback, one);
}

int32_t cuda_graph_update(void *device, void *executable, void *graph)
{
    cuda_device *d = device;
    CUgraphExecUpdateResultInfo why = {0};
    CUresult result = CALL(d, cuGraphExecUpdate, executable, graph, &why);
    if (result != CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) return cuda_check(d, result, NAME(cuGraphExecUpdate));
    return gpu_error(
        d->plugin, TN_E_UNSUPPORTED,
        "the graph has other operations than the executable (result %d of " NAME(cuGraphExecUpdate) ")",
        (int)why.result);
}

const char *cuda_result_name(const cuda_symbols *cu, CUresult result)
{
    const char *name = NULL;
    return cu->cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "unknown result";
}

/* Results of faults and of hardware that fails stay with the context: every later call returns them. */
int32_t cuda_status_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return TN_E_OUT_OF_MEMORY;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_CAPTURED_EVENT:
        return TN_E_STATE;
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return TN_E_DEVICE_LOST;
    default:
        return TN_E_INTERNAL;
    }
}

/* Wrong arguments have these results, too, and so has a device that another process uses alone. */
int32_t cuda_is_doubtful(CUresult result)
{
    return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
           result == CUDA_ERROR_EXTERNAL_DEVICE || result == CUDA_ERROR_UNKNOWN;
}

int32_t cuda_driver_fits(const cuda_symbols *cu, char *reason, size_t size)
{
    int version = 0;
    cu->cuDriverGetVersion(&version);
    if (version < LEAST_DRIVER)
        snprintf(reason, size, "the NVIDIA driver is for CUDA %d.%d, the plugin needs %d.%d", version / 1000,
                 version % 1000 / 10, LEAST_DRIVER / 1000, LEAST_DRIVER % 1000 / 10);
    return version >= LEAST_DRIVER;
}

int32_t cuda_device_fits(const cuda_symbols *cu, CUdevice id)
{
    return cuda_number_of(cu, id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= LEAST_COMPUTE;
}

void cuda_write_architecture(const cuda_symbols *cu, CUdevice id, char *out, size_t size)
{
    snprintf(out, size, "sm_%d%d", cuda_number_of(cu, id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
             cuda_number_of(cu, id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}
