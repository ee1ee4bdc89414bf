/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of Vulkan 1.2 that the plugin calls, found through the loader when devices are looked for: the plugin
 * links nothing of Vulkan. X(name) for vkName.
 */
#ifndef TENON_VULKAN_SYMBOLS_H
#define TENON_VULKAN_SYMBOLS_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

/* Found without an instance, with one, with a device. */
#define VULKAN_LOADER(X)        \
    X(CreateInstance)           \
    X(EnumerateInstanceVersion) \
    X(EnumerateInstanceExtensionProperties)
#define VULKAN_INSTANCE(X)                    \
    X(DestroyInstance)                        \
    X(EnumeratePhysicalDevices)               \
    X(EnumerateDeviceExtensionProperties)     \
    X(GetPhysicalDeviceProperties2)           \
    X(GetPhysicalDeviceFeatures2)             \
    X(GetPhysicalDeviceMemoryProperties2)     \
    X(GetPhysicalDeviceQueueFamilyProperties) \
    X(CreateDevice)                           \
    X(GetDeviceProcAddr)
#define VULKAN_DEVICE(X)           \
    X(DestroyDevice)               \
    X(GetDeviceQueue)              \
    X(DeviceWaitIdle)              \
    X(CreateBuffer)                \
    X(DestroyBuffer)               \
    X(GetBufferMemoryRequirements) \
    X(GetBufferDeviceAddress)      \
    X(AllocateMemory)              \
    X(FreeMemory)                  \
    X(BindBufferMemory)            \
    X(MapMemory)                   \
    X(CreateSemaphore)             \
    X(DestroySemaphore)            \
    X(GetSemaphoreCounterValue)    \
    X(WaitSemaphores)              \
    X(SignalSemaphore)             \
    X(QueueSubmit)                 \
    X(CreateCommandPool)           \
    X(DestroyCommandPool)          \
    X(ResetCommandPool)            \
    X(AllocateCommandBuffers)      \
    X(BeginCommandBuffer)          \
    X(EndCommandBuffer)            \
    X(CmdPipelineBarrier)          \
    X(CmdCopyBuffer)               \
    X(CmdFillBuffer)               \
    X(CmdBindPipeline)             \
    X(CmdBindDescriptorSets)       \
    X(CmdDispatch)                 \
    X(CmdResetQueryPool)           \
    X(CmdWriteTimestamp)           \
    X(CreateQueryPool)             \
    X(DestroyQueryPool)            \
    X(GetQueryPoolResults)         \
    X(CreateDescriptorSetLayout)   \
    X(DestroyDescriptorSetLayout)  \
    X(CreateDescriptorPool)        \
    X(DestroyDescriptorPool)       \
    X(AllocateDescriptorSets)      \
    X(UpdateDescriptorSets)        \
    X(CreatePipelineLayout)        \
    X(DestroyPipelineLayout)       \
    X(CreatePipelineCache)         \
    X(DestroyPipelineCache)        \
    X(GetPipelineCacheData)        \
    X(CreateShaderModule)          \
    X(DestroyShaderModule)         \
    X(CreateComputePipelines)      \
    X(DestroyPipeline)

typedef struct vulkan_symbols {
#define VULKAN_DECLARE(name) PFN_vk##name name;
    VULKAN_LOADER(VULKAN_DECLARE)
    VULKAN_INSTANCE(VULKAN_DECLARE)
    VULKAN_DEVICE(VULKAN_DECLARE)
#undef VULKAN_DECLARE
} vulkan_symbols;

/* The names of Vulkan's results, for errors. */
#define VULKAN_RESULTS(X)             \
    X(VK_NOT_READY)                   \
    X(VK_TIMEOUT)                     \
    X(VK_INCOMPLETE)                  \
    X(VK_ERROR_OUT_OF_HOST_MEMORY)    \
    X(VK_ERROR_OUT_OF_DEVICE_MEMORY)  \
    X(VK_ERROR_INITIALIZATION_FAILED) \
    X(VK_ERROR_DEVICE_LOST)           \
    X(VK_ERROR_MEMORY_MAP_FAILED)     \
    X(VK_ERROR_LAYER_NOT_PRESENT)     \
    X(VK_ERROR_EXTENSION_NOT_PRESENT) \
    X(VK_ERROR_FEATURE_NOT_PRESENT)   \
    X(VK_ERROR_INCOMPATIBLE_DRIVER)   \
    X(VK_ERROR_TOO_MANY_OBJECTS)      \
    X(VK_ERROR_FRAGMENTED_POOL)       \
    X(VK_ERROR_OUT_OF_POOL_MEMORY)    \
    X(VK_ERROR_INVALID_SHADER_NV)     \
    X(VK_ERROR_UNKNOWN)

#endif
