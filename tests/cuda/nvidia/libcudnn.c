/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcudnn.so.9 in front of NVIDIA's (TEST_CUDNN is its file), for a GPU that CUDNN_TEST_GPU describes as cuDNN does. From version
 * 9.8 on cuDNN chooses engines and compiles them for such a GPU: descriptors of a handle get the description in its place.
 */
#include "real.h"

#include <cudnn.h>

CUDNN_FUNCTIONS(DECLARE)

/* The parts of cuDNN that the plugin does not use. */
enum {
    DNN_GPU = 38,
    DNN_CHARACTER = 24,
    DNN_GPU_TEXT = 2702,
    DNN_CHOICE_GPU = 204,
    DNN_PLAN_GPU = 407,
};

#define CUDNN(function, ...) REAL("TEST_CUDNN", function, __VA_ARGS__)

static void *gpu;
static char a_handle;

int cudnnCreate(void **out_handle)
{
    const char *text = getenv("CUDNN_TEST_GPU");
    *out_handle = &a_handle;
    if (gpu) return DNN_SUCCESS;
    int status = CUDNN(cudnnBackendCreateDescriptor, DNN_GPU, &gpu);
    if (!status)
        status = CUDNN(cudnnBackendSetAttribute, gpu, DNN_GPU_TEXT, DNN_CHARACTER, (int64_t)strlen(text) + 1,
                       text);
    return status ? status : CUDNN(cudnnBackendFinalize, gpu);
}

int cudnnDestroy(void *handle)
{
    return DNN_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    __typeof__(&cudnnGetVersion) version = (__typeof__(&cudnnGetVersion))real("TEST_CUDNN", __func__);
    return version ? version() : 0;
}

const char *cudnnGetErrorString(int status)
{
    __typeof__(&cudnnGetErrorString) text = (__typeof__(&cudnnGetErrorString))real("TEST_CUDNN", __func__);
    return text ? text(status) : "";
}

int cudnnSetStream(void *handle, void *stream)
{
    return DNN_SUCCESS;
}

int cudnnBackendCreateDescriptor(int type, void **out)
{
    int status = CUDNN(cudnnBackendCreateDescriptor, type, out);
    if (status || type != DNN_CHOICE) return status;
    return CUDNN(cudnnBackendSetAttribute, *out, DNN_CHOICE_GPU, DNN_DESCRIPTOR, 1, &gpu);
}

int cudnnBackendDestroyDescriptor(void *descriptor)
{
    return CUDNN(cudnnBackendDestroyDescriptor, descriptor);
}

int cudnnBackendSetAttribute(void *descriptor, int attribute, int type, int64_t n, const void *values)
{
    if (attribute == DNN_GRAPH_HANDLE) return DNN_SUCCESS;
    if (attribute == DNN_PLAN_HANDLE)
        return CUDNN(cudnnBackendSetAttribute, descriptor, DNN_PLAN_GPU, DNN_DESCRIPTOR, 1, &gpu);
    return CUDNN(cudnnBackendSetAttribute, descriptor, attribute, type, n, values);
}

int cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t wanted, int64_t *out_count,
                             void *values)
{
    if (attribute == DNN_CHOICE_RESULTS) count(CHOICES, 1);
    return CUDNN(cudnnBackendGetAttribute, descriptor, attribute, type, wanted, out_count, values);
}

/* An engine may refuse, and the plugin asks the next one. */
int cudnnBackendFinalize(void *descriptor)
{
    __typeof__(&cudnnBackendFinalize) finalize =
        (__typeof__(&cudnnBackendFinalize))real("TEST_CUDNN", __func__);
    int status = finalize(descriptor);
    return status / 1000 * 1000 == DNN_NOT_SUPPORTED ? status : noted(__func__, status);
}

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    count(EXECUTED, 1);
    return DNN_SUCCESS;
}
