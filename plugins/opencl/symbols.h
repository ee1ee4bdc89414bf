/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of OpenCL that the plugin calls, found in the ICD loader when a device is first looked for: the
 * plugin links nothing of OpenCL. All of OpenCL 1.2 is required, later functions are optional (NULL).
 */
#ifndef TENON_OPENCL_SYMBOLS_H
#define TENON_OPENCL_SYMBOLS_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>

#define OPENCL_REQUIRED(X)          \
    X(clGetPlatformIDs)             \
    X(clGetPlatformInfo)            \
    X(clGetDeviceIDs)               \
    X(clGetDeviceInfo)              \
    X(clCreateContext)              \
    X(clReleaseContext)             \
    X(clCreateCommandQueue)         \
    X(clReleaseCommandQueue)        \
    X(clRetainCommandQueue)         \
    X(clGetCommandQueueInfo)        \
    X(clEnqueueMapBuffer)           \
    X(clEnqueueUnmapMemObject)      \
    X(clEnqueueMigrateMemObjects)   \
    X(clCreateBuffer)               \
    X(clReleaseMemObject)           \
    X(clRetainMemObject)            \
    X(clGetMemObjectInfo)           \
    X(clCreateProgramWithSource)    \
    X(clCreateProgramWithBinary)    \
    X(clBuildProgram)               \
    X(clGetProgramInfo)             \
    X(clGetProgramBuildInfo)        \
    X(clReleaseProgram)             \
    X(clCreateKernel)               \
    X(clReleaseKernel)              \
    X(clSetKernelArg)               \
    X(clEnqueueNDRangeKernel)       \
    X(clEnqueueReadBuffer)          \
    X(clEnqueueWriteBuffer)         \
    X(clEnqueueCopyBuffer)          \
    X(clEnqueueFillBuffer)          \
    X(clEnqueueMarkerWithWaitList)  \
    X(clEnqueueBarrierWithWaitList) \
    X(clFlush)                      \
    X(clFinish)                     \
    X(clWaitForEvents)              \
    X(clGetEventInfo)               \
    X(clGetEventProfilingInfo)      \
    X(clRetainEvent)                \
    X(clReleaseEvent)               \
    X(clCreateUserEvent)            \
    X(clSetUserEventStatus)

typedef struct opencl_symbols {
#define OPENCL_DECLARE(name) __typeof__(&name) name;
    OPENCL_REQUIRED(OPENCL_DECLARE)
#undef OPENCL_DECLARE
} opencl_symbols;

/* The names of OpenCL's statuses, for errors. */
#define OPENCL_STATUSES(X)              \
    X(CL_DEVICE_NOT_FOUND)              \
    X(CL_DEVICE_NOT_AVAILABLE)          \
    X(CL_COMPILER_NOT_AVAILABLE)        \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE) \
    X(CL_OUT_OF_RESOURCES)              \
    X(CL_OUT_OF_HOST_MEMORY)            \
    X(CL_PROFILING_INFO_NOT_AVAILABLE)  \
    X(CL_MEM_COPY_OVERLAP)              \
    X(CL_BUILD_PROGRAM_FAILURE)         \
    X(CL_INVALID_VALUE)                 \
    X(CL_INVALID_DEVICE)                \
    X(CL_INVALID_CONTEXT)               \
    X(CL_INVALID_COMMAND_QUEUE)         \
    X(CL_INVALID_MEM_OBJECT)            \
    X(CL_INVALID_BINARY)                \
    X(CL_INVALID_BUILD_OPTIONS)         \
    X(CL_INVALID_PROGRAM)               \
    X(CL_INVALID_PROGRAM_EXECUTABLE)    \
    X(CL_INVALID_KERNEL_NAME)           \
    X(CL_INVALID_KERNEL)                \
    X(CL_INVALID_ARG_INDEX)             \
    X(CL_INVALID_ARG_VALUE)             \
    X(CL_INVALID_ARG_SIZE)              \
    X(CL_INVALID_KERNEL_ARGS)           \
    X(CL_INVALID_WORK_GROUP_SIZE)       \
    X(CL_INVALID_EVENT)                 \
    X(CL_INVALID_OPERATION)             \
    X(CL_INVALID_BUFFER_SIZE)           \
    X(CL_PLATFORM_NOT_FOUND_KHR)

#endif
