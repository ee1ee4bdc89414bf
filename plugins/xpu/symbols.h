/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of Level Zero that the plugin calls, found in the loader when a device is first looked for: the plugin
 * links nothing of Level Zero. Those that are required are in version 1.0; the optional ones tell whether a device hangs, where
 * it is and, from the interface of system managers, how much memory is free.
 */
#ifndef TENON_XPU_SYMBOLS_H
#define TENON_XPU_SYMBOLS_H

#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>

#define XPU_REQUIRED(X)                       \
    X(zeInit)                                 \
    X(zeDriverGet)                            \
    X(zeDriverGetApiVersion)                  \
    X(zeDriverGetProperties)                  \
    X(zeDriverGetExtensionProperties)         \
    X(zeDeviceGet)                            \
    X(zeDeviceGetProperties)                  \
    X(zeDeviceGetModuleProperties)            \
    X(zeDeviceGetMemoryProperties)            \
    X(zeDeviceGetMemoryAccessProperties)      \
    X(zeDeviceGetCommandQueueGroupProperties) \
    X(zeDeviceCanAccessPeer)                  \
    X(zeContextCreate)                        \
    X(zeContextDestroy)                       \
    X(zeMemAllocDevice)                       \
    X(zeMemAllocHost)                         \
    X(zeMemAllocShared)                       \
    X(zeMemFree)                              \
    X(zeMemGetAllocProperties)                \
    X(zeMemGetAddressRange)                   \
    X(zeCommandListCreateImmediate)           \
    X(zeCommandListDestroy)                   \
    X(zeCommandListAppendBarrier)             \
    X(zeCommandListAppendMemoryCopy)          \
    X(zeCommandListAppendMemoryFill)          \
    X(zeCommandListAppendLaunchKernel)        \
    X(zeEventPoolCreate)                      \
    X(zeEventPoolDestroy)                     \
    X(zeEventCreate)                          \
    X(zeEventDestroy)                         \
    X(zeEventHostReset)                       \
    X(zeEventHostSynchronize)                 \
    X(zeEventQueryStatus)                     \
    X(zeEventQueryKernelTimestamp)            \
    X(zeModuleCreate)                         \
    X(zeModuleDestroy)                        \
    X(zeModuleGetNativeBinary)                \
    X(zeModuleBuildLogGetString)              \
    X(zeModuleBuildLogDestroy)                \
    X(zeKernelCreate)                         \
    X(zeKernelDestroy)                        \
    X(zeKernelSetGroupSize)                   \
    X(zeKernelSetArgumentValue)

#define XPU_OPTIONAL(X)            \
    X(zeDeviceGetStatus)           \
    X(zeDevicePciGetPropertiesExt) \
    X(zesDeviceEnumMemoryModules)  \
    X(zesMemoryGetProperties)      \
    X(zesMemoryGetState)

typedef struct xpu_symbols {
#define XPU_DECLARE(name) __typeof__(&(name)) name;
    XPU_REQUIRED(XPU_DECLARE)
    XPU_OPTIONAL(XPU_DECLARE)
#undef XPU_DECLARE
} xpu_symbols;

/* Results that errors name. */
#define XPU_RESULTS(X)                                \
    X(ZE_RESULT_NOT_READY)                            \
    X(ZE_RESULT_ERROR_DEVICE_LOST)                    \
    X(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY)             \
    X(ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)           \
    X(ZE_RESULT_ERROR_MODULE_BUILD_FAILURE)           \
    X(ZE_RESULT_ERROR_MODULE_LINK_FAILURE)            \
    X(ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET)          \
    X(ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE)      \
    X(ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS)       \
    X(ZE_RESULT_ERROR_NOT_AVAILABLE)                  \
    X(ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE)         \
    X(ZE_RESULT_ERROR_UNINITIALIZED)                  \
    X(ZE_RESULT_ERROR_UNSUPPORTED_VERSION)            \
    X(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE)            \
    X(ZE_RESULT_ERROR_INVALID_ARGUMENT)               \
    X(ZE_RESULT_ERROR_INVALID_NULL_HANDLE)            \
    X(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE)           \
    X(ZE_RESULT_ERROR_INVALID_NULL_POINTER)           \
    X(ZE_RESULT_ERROR_INVALID_SIZE)                   \
    X(ZE_RESULT_ERROR_UNSUPPORTED_SIZE)               \
    X(ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT)          \
    X(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT) \
    X(ZE_RESULT_ERROR_INVALID_ENUMERATION)            \
    X(ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION)        \
    X(ZE_RESULT_ERROR_INVALID_NATIVE_BINARY)          \
    X(ZE_RESULT_ERROR_INVALID_KERNEL_NAME)            \
    X(ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION)   \
    X(ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX)  \
    X(ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE)   \
    X(ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE)      \
    X(ZE_RESULT_ERROR_OVERLAPPING_REGIONS)            \
    X(ZE_RESULT_ERROR_UNKNOWN)

#endif
