/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of CUDA and of HIP. The runtime follows the events of a capture by itself, and copies the arguments of kernels. CUDA
 * orders the launches of an executable, HIP does not. */
#include "cuda_driver.h"

/* Relaxed: memory may be allocated and programs loaded, by any thread, while a stream captures. */
static int32_t begin(void *device, void *queue)
{
    cuda_device *d = device;
    CUstream stream = cuda_stream_of(queue);
    if (!stream || stream == CU_STREAM_LEGACY)
        return gpu_error(d->plugin, TN_E_STATE,
                         "the default stream of " VENDOR_NAME " cannot be captured in a graph");
    int32_t status = VENDOR_CAPTURE_BEGINS(d);
    if (status) return status;
    status = CHECKED(d, cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (status) VENDOR_CAPTURE_ENDED(d, stream, CUDA_SUCCESS);
    return status;
}

static int32_t end(void *device, void *queue, void **out_graph)
{
    cuda_device *d = device;
    CUgraph graph = NULL;
    CUresult result = CALL(d, cuStreamEndCapture, cuda_stream_of(queue), &graph);
    const char *what =
        result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED
            ? "the stream has not waited for all streams that joined its capture: " NAME(cuStreamEndCapture)
        : result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            ? "a call that cannot be captured broke the capture: " NAME(cuStreamEndCapture)
            : NAME(cuStreamEndCapture);
    int32_t status = cuda_check(d, result, what);
    VENDOR_CAPTURE_ENDED(d, cuda_stream_of(queue), result);
    if (!status) *out_graph = graph;
    return status;
}

static void destroy(void *device, void *graph)
{
    CALL((cuda_device *)device, cuGraphDestroy, graph);
}

static int32_t instantiate(void *device, void *graph, void **out_executable)
{
    cuda_device *d = device;
    CUgraphExec executable = NULL;
    int32_t status = CHECKED(d, cuGraphInstantiateWithFlags, &executable, graph, 0);
    if (!status) *out_executable = executable;
    return status;
}

static int32_t launch(void *device, void *executable, void *queue)
{
    cuda_device *d = device;
    return CHECKED(d, cuGraphLaunch, executable, cuda_stream_of(queue));
}

static void executable_destroy(void *device, void *executable)
{
    CALL((cuda_device *)device, cuGraphExecDestroy, executable);
}

const gpu_graph_driver cuda_graphs = {
    .begin = begin,
    .end = end,
    .destroy = destroy,
    .instantiate = instantiate,
    .launch = launch,
    .has_no_order = VENDOR_HAS_NO_ORDER,
    .update = VENDOR_GRAPH_UPDATE,
    .executable_destroy = executable_destroy,
};
