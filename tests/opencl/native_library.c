/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library of kernels for OpenCL devices, without a device of its own: written against OpenCL, it knows the plugin
 * only by the handles that the host gives. It defines `clnative::scale` and has its row for devices of type "opencl".
 */
#define CL_TARGET_OPENCL_VERSION 120
#define TN_PLUGIN
#include "../plugins/slots.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdint.h>
#include <tenon/operator_library.h>
#include <tenon/ops.h>

static const char source[] =
    "__kernel void scale(__global float *to, ulong to_byte, __global const float *from,"
    "                    ulong from_byte, float by)"
    "{ size_t i = get_global_id(0); to[to_byte / 4 + i] = from[from_byte / 4 + i] * by; }";

#define FUNCTIONS(X)             \
    X(clCreateProgramWithSource) \
    X(clBuildProgram)            \
    X(clCreateKernel)            \
    X(clSetKernelArg)            \
    X(clEnqueueNDRangeKernel)    \
    X(clReleaseKernel)           \
    X(clReleaseProgram)          \
    X(clFlush)
typedef struct opencl {
#define DECLARE(name) __typeof__(&name) name;
    FUNCTIONS(DECLARE)
} opencl;

static int32_t load(opencl *out)
{
    void *loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!loader) return TN_E_INTERNAL;
#define LOAD(name)                                       \
    *(void **)(void *)&out->name = dlsym(loader, #name); \
    if (!out->name) return TN_E_INTERNAL;
    FUNCTIONS(LOAD)
    return TN_OK;
}

static void *handle(const tn_call *call, uint32_t kind, void *allocation)
{
    uint64_t native = 0;
    return call->host->native(call, kind, allocation, &native) ? NULL : (void *)(uintptr_t)native;
}

static int32_t failed(const tn_call *call, const char *what)
{
    return call->host->error(call->host->context, TN_E_INTERNAL, what);
}

static int32_t launch(const tn_call *call, const opencl *cl, cl_kernel kernel)
{
    const tn_tensor_desc *in = tn_desc(call->args[0].as.tensor), *out = tn_desc(call->outs[0].as.tensor);
    cl_command_queue queue = handle(call, TN_NATIVE_STREAM, NULL);
    cl_mem to = handle(call, TN_NATIVE_ALLOCATION, out->allocation);
    cl_mem from = handle(call, TN_NATIVE_ALLOCATION, in->allocation);
    cl_ulong to_byte = out->byte_offset, from_byte = in->byte_offset;
    float by = (float)tn_value_as_float(call->args[1]);
    size_t count = 1;
    for (uint32_t d = 0; d < out->rank; d++) count *= (size_t)out->sizes[d];
    if (!queue || !to || !from) return failed(call, "clnative: the plugin gives no handle");
    cl_int status = cl->clSetKernelArg(kernel, 0, sizeof to, &to) |
                    cl->clSetKernelArg(kernel, 1, sizeof to_byte, &to_byte) |
                    cl->clSetKernelArg(kernel, 2, sizeof from, &from) |
                    cl->clSetKernelArg(kernel, 3, sizeof from_byte, &from_byte) |
                    cl->clSetKernelArg(kernel, 4, sizeof by, &by);
    if (status == CL_SUCCESS)
        status = cl->clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL);
    if (status == CL_SUCCESS) status = cl->clFlush(queue);
    return status == CL_SUCCESS ? TN_OK : failed(call, "clnative: the launch failed");
}

static int32_t scale(void *self, const tn_call *call)
{
    const char *text = source;
    cl_context context = handle(call, TN_NATIVE_CONTEXT, NULL);
    cl_device_id device = handle(call, TN_NATIVE_DEVICE, NULL);
    cl_int status = CL_SUCCESS;
    opencl cl;
    if (load(&cl) || !context || !device) return failed(call, "clnative: no OpenCL, context or device");
    cl_program program = cl.clCreateProgramWithSource(context, 1, &text, NULL, &status);
    if (status != CL_SUCCESS) return failed(call, "clnative: no program");
    int32_t result;
    cl_kernel kernel = NULL;
    status = cl.clBuildProgram(program, 1, &device, "", NULL, NULL);
    if (status == CL_SUCCESS) kernel = cl.clCreateKernel(program, "scale", &status);
    result = kernel ? launch(call, &cl, kernel) : failed(call, "clnative: the program does not compile");
    if (kernel) cl.clReleaseKernel(kernel); /* the queued launch keeps what it needs */
    cl.clReleaseProgram(program);
    return result;
}

#define SCALE "clnative::scale(Tensor x, float by) -> Tensor"
static const tn_dtype floats[] = {TN_FLOAT32, 0};
static const tn_kernel_row rows[] = {
    {.size = sizeof(tn_kernel_row), .schema = SCALE, .dtypes = floats, .run = scale}};

static int32_t init(const tn_host *host, void **out_self)
{
    const tn_operator_def op = {.size = sizeof op, .schema = SCALE, .infer = slot_infer_like_first};
    int32_t status = host->register_operator(host->context, &op);
    *out_self = (void *)(uintptr_t)host;
    return status ? status
                  : host->register_kernels(host->context, "opencl", *out_self, rows, 1, sizeof *rows);
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return tn_operators_entry(offer, out, init);
}

TN_DEFINE_PLUGIN("clnative", "1.0", "Tests", 0, entry);
