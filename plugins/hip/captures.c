/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HIP lacks for captures, and CUDA has. Versions differ, so the plugin keeps to what all of them do:
 *
 * - HIP 5.2 runs kernels that are launched on a stream that captures. So a kernel is captured before the first graph of a device.
 * - A capture whose end fails stays with its streams, until another one has begun on the same stream and ended.
 * - Events of a capture keep its nodes, and the runtime keeps the events until it ends. So they are not used again, and destroyed
 *   when no capture is under way.
 * - An event that was recorded on a stream before its capture began is refused during the capture. The stream has no unfinished work
 *   when it begins to capture, so the event is done.
 * - In HIP 7 a call that waits for the device, by any thread, breaks all captures. So libraries make nothing meanwhile.
 */
#include "cuda_driver.h"

/* ---- Whether kernels are captured ---------------------------------------------------------------------------- */

enum { UNKNOWN, CAPTURED, NOT_CAPTURED };

/* After a failure to end a capture. The query makes an active capture an invalid one, in whose place another may begin; the end of
 * that one lets go of all streams and events. */
static void let_go(cuda_device *d, hipStream_t stream)
{
    hipGraph_t graph = NULL;
    CALL(d, hipStreamQuery, stream);
    if (CALL(d, hipStreamBeginCapture, stream, hipStreamCaptureModeRelaxed) != hipSuccess) return;
    if (CALL(d, hipStreamEndCapture, stream, &graph) == hipSuccess) CALL(d, hipGraphDestroy, graph);
}

/* How many nodes a capture of one kernel on the stream has. HIP 5.2 refuses to end one that has none. */
static int32_t count_nodes(cuda_device *d, hipStream_t stream, size_t *out)
{
    hipGraph_t graph = NULL;
    int32_t status = CHECKED(d, hipStreamBeginCapture, stream, hipStreamCaptureModeRelaxed);
    if (status) return status;
    const int32_t launched = cuda_launch_nothing(d, stream);
    status = CHECKED(d, hipStreamEndCapture, stream, &graph);
    if (status) {
        let_go(d, stream);
        if (status == TN_E_STATE) status = TN_OK;
    } else {
        status = CHECKED(d, hipGraphGetNodes, graph, NULL, out);
        CALL(d, hipGraphDestroy, graph);
    }
    return launched ? launched : status;
}

/* Two threads may do it at once. */
static int32_t try_capture(cuda_device *d)
{
    hipStream_t stream = NULL;
    size_t nodes = 0;
    int32_t status = CHECKED(d, hipStreamCreateWithPriority, &stream, hipStreamNonBlocking, 0);
    if (status) return status;
    status = count_nodes(d, stream, &nodes);
    CALL(d, hipStreamDestroy, stream);
    if (!status) __atomic_store_n(&d->kernels_in_captures, nodes ? CAPTURED : NOT_CAPTURED, __ATOMIC_RELEASE);
    return status;
}

/* ---- Captures that are under way ----------------------------------------------------------------------------- */

int32_t hip_capture_begins(cuda_device *d)
{
    if (__atomic_load_n(&d->kernels_in_captures, __ATOMIC_ACQUIRE) == UNKNOWN) {
        int32_t status = try_capture(d);
        if (status) return status;
    }
    if (__atomic_load_n(&d->kernels_in_captures, __ATOMIC_ACQUIRE) == NOT_CAPTURED)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED,
                         "graphs: this HIP runtime does not capture kernels of hipModuleLaunchKernel");
    __atomic_add_fetch(d->captures, 1, __ATOMIC_ACQ_REL);
    return TN_OK;
}

/* Their captures have ended if none is under way. */
static void destroy_events(cuda_device *d)
{
    cuda_event *first = NULL;
    pthread_mutex_lock(&d->lock);
    if (!hip_any_capture(d)) {
        first = d->pool[CUDA_EVENTS_OF_CAPTURES];
        d->pool[CUDA_EVENTS_OF_CAPTURES] = NULL;
    }
    pthread_mutex_unlock(&d->lock);
    cuda_events_destroy(d, first);
}

void hip_capture_ended(cuda_device *d, hipStream_t stream, hipError_t result)
{
    if (result != hipSuccess) let_go(d, stream);
    __atomic_sub_fetch(d->captures, 1, __ATOMIC_ACQ_REL);
    destroy_events(d);
}

int32_t hip_any_capture(const cuda_device *d)
{
    return __atomic_load_n(d->captures, __ATOMIC_ACQUIRE) != 0;
}

int32_t hip_captures(cuda_device *d, hipStream_t stream)
{
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    if (!hip_any_capture(d) || !stream || stream == CU_STREAM_LEGACY) return 0;
    return CALL(d, hipStreamIsCapturing, stream, &status) == hipSuccess &&
           status != hipStreamCaptureStatusNone;
}
