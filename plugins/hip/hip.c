/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is HIP's alone in the HIP driver: the current device of a thread, the statuses of HIP's results, callbacks, and the GPUs
 * that the plugin takes. The rest is ../cuda/driver.c.
 */
#include "cuda_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Gives one more than the device that was current. */
int32_t cuda_set_current(const cuda_device *d)
{
    int before = 0;
    if (d->cu->hipGetDevice(&before) == hipSuccess && before == d->id) return 0;
    return d->cu->hipSetDevice(d->id) == hipSuccess ? before + 1 : -1;
}

void cuda_reset_current(const cuda_device *d, int32_t was_set)
{
    if (was_set > 0) d->cu->hipSetDevice(was_set - 1);
}

/* HIP opens a device when it is first used. */
int32_t cuda_open(cuda_device *d)
{
    d->context = d->id;
    return TN_OK;
}

void cuda_close(cuda_device *d)
{
    cuda_libraries_close(d);
}

int32_t cuda_stream_context(cuda_device *d, hipStream_t stream, int *out)
{
    if (!d->cu->hipStreamGetDevice)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED,
                         "a stream of the program needs hipStreamGetDevice, which this HIP runtime lacks");
    return CHECKED(d, hipStreamGetDevice, stream, out);
}

static void run_callback(hipStream_t stream, hipError_t result, void *one)
{
    cuda_callback_run(one);
}

/* The header of HIP 5.2 has hipLaunchHostFunc, its runtime does not. */
int32_t cuda_host_function(cuda_device *d, hipStream_t stream, cuda_callback *one)
{
    return CHECKED(d, hipStreamAddCallback, stream, run_callback, one, 0);
}

/* hipEventSynchronize would hold a lock of the event until it has returned, for which questions and waits of other threads wait. */
hipError_t hip_wait(cuda_device *d, hipEvent_t event)
{
    const long most = 1000000; /* nanoseconds */
    struct timespec pause = {.tv_nsec = 10000};
    hipError_t result = CALL(d, hipEventQuery, event);
    while (result == hipErrorNotReady) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < most) pause.tv_nsec += pause.tv_nsec / 4;
        result = CALL(d, hipEventQuery, event);
    }
    return result;
}

const char *cuda_result_name(const cuda_symbols *cu, hipError_t result)
{
    const char *name = cu->hipGetErrorName(result);
    return name ? name : "unknown result";
}

/* After a fault, and when the hardware fails, every later call on the device fails. An access to an address that is not mapped has no
 * result: AMD's runtime ends the process. */
int32_t cuda_status_of(hipError_t result)
{
    switch (result) {
    case hipErrorOutOfMemory:
        return TN_E_OUT_OF_MEMORY;
    case hipErrorStreamCaptureUnsupported:
    case hipErrorStreamCaptureInvalidated:
    case hipErrorStreamCaptureMerge:
    case hipErrorStreamCaptureUnmatched:
    case hipErrorStreamCaptureUnjoined:
    case hipErrorStreamCaptureIsolation:
    case hipErrorStreamCaptureImplicit:
    case hipErrorCapturedEvent:
        return TN_E_STATE;
    case hipErrorDeinitialized:
    case hipErrorECCNotCorrectable:
    case hipErrorIllegalAddress:
    case hipErrorLaunchTimeOut:
    case hipErrorAssert:
    case hipErrorLaunchFailure:
        return TN_E_DEVICE_LOST;
    default:
        return TN_E_INTERNAL;
    }
}

/* Streams that are gone have the second result; the third is that of many faults. */
int32_t cuda_is_doubtful(hipError_t result)
{
    return result == hipErrorInvalidContext || result == hipErrorContextIsDestroyed ||
           result == hipErrorUnknown;
}

/* The library's name has its generation. */
int32_t cuda_driver_fits(const cuda_symbols *cu, char *reason, size_t size)
{
    return 1;
}

/* "gfx90a" of "gfx90a:sramecc+:xnack-": images are for either setting of the features. */
void cuda_write_architecture(const cuda_symbols *cu, hipDevice_t id, char *out, size_t size)
{
    hipDeviceProp_t properties = {0};
    if (cu->hipGetDeviceProperties(&properties, id) != hipSuccess) properties.gcnArchName[0] = 0;
    snprintf(out, size, "%.*s", (int)strcspn(properties.gcnArchName, ":"), properties.gcnArchName);
}

int32_t cuda_device_fits(const cuda_symbols *cu, hipDevice_t id)
{
    char name[32];
    cuda_write_architecture(cu, id, name, sizeof name);
    for (const char *at = HIP_TARGETS; *name && *at; at += strspn(at, ",")) {
        const size_t length = strcspn(at, ":,"); /* a target may name features, as a device does */
        if (strlen(name) == length && memcmp(at, name, length) == 0) return 1;
        at += strcspn(at, ",");
    }
    return 0;
}
