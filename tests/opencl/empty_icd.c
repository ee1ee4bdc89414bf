/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of OpenCL with a platform and no device, for the ICD loader. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <string.h>

/* The loader takes the functions from the table to which a platform points. */
struct _cl_platform_id {
    const cl_icd_dispatch *dispatch;
};
static struct _cl_platform_id platform;

static cl_int CL_API_CALL platform_info(cl_platform_id id, cl_platform_info what, size_t bytes, void *value,
                                        size_t *out_bytes)
{
    const char *text = what == CL_PLATFORM_EXTENSIONS       ? "cl_khr_icd"
                       : what == CL_PLATFORM_ICD_SUFFIX_KHR ? "EMPTY"
                       : what == CL_PLATFORM_VERSION        ? "OpenCL 1.2 empty"
                       : what == CL_PLATFORM_PROFILE        ? "FULL_PROFILE"
                                                            : "empty";
    if (value && bytes <= strlen(text)) return CL_INVALID_VALUE;
    if (value) memcpy(value, text, strlen(text) + 1);
    if (out_bytes) *out_bytes = strlen(text) + 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL device_ids(cl_platform_id id, cl_device_type type, cl_uint room, cl_device_id *out,
                                     cl_uint *out_count)
{
    if (out_count) *out_count = 0;
    return CL_DEVICE_NOT_FOUND;
}

static cl_int CL_API_CALL platform_ids(cl_uint room, cl_platform_id *out, cl_uint *out_count)
{
    if (out && room) *out = &platform;
    if (out_count) *out_count = 1;
    return CL_SUCCESS;
}

static const cl_icd_dispatch dispatch = {
    .clGetPlatformIDs = platform_ids, .clGetPlatformInfo = platform_info, .clGetDeviceIDs = device_ids};
static struct _cl_platform_id platform = {&dispatch};

/* What the loader calls: it looks for these names. */
CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name);
CL_API_ENTRY void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
    return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? (void *)platform_ids : NULL;
}
CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t bytes,
                                                  void *value, size_t *out_bytes)
{
    return platform_info(id, what, bytes, value, out_bytes);
}
