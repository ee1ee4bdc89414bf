/* SPDX-License-Identifier: Apache-2.0 */
/* Devices unlike the one at hand, for which functions of the device's table are replaced: their queues, memory and units. */
#include "driver_suite.h"
#include "device/operators.h"

#include <stdlib.h>

TestSuite(devices, .init = open_first, .fini = close_first_device, .timeout = 100);

Test(devices, the_family_of_queues_that_only_computes)
{
    const VkQueueFlags graphics = VK_QUEUE_GRAPHICS_BIT, compute = VK_QUEUE_COMPUTE_BIT;
    const VkQueueFamilyProperties all = {.queueFlags = graphics | compute, .timestampValidBits = 64},
                                  async = {.queueFlags = compute, .timestampValidBits = 36},
                                  without_time = {.queueFlags = compute},
                                  copies = {.queueFlags = VK_QUEUE_TRANSFER_BIT};
    const VkQueueFamilyProperties amd[] = {all, copies, async, async},
                                  timeless[] = {copies, all, without_time}, mobile[] = {all};
    cr_assert_eq(vulkan_choose_family(amd, 4), 2);
    cr_assert_eq(vulkan_choose_family(timeless, 3), 1);
    cr_assert_eq(vulkan_choose_family(mobile, 1), 0);
    cr_assert_eq(vulkan_choose_family(&copies, 1), -1);
}

static uint32_t allowed; /* types of memory, of which four look alike */
static VKAPI_ATTR void VKAPI_CALL four_types(VkPhysicalDevice id, VkPhysicalDeviceMemoryProperties2 *out)
{
    const VkMemoryType type = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                   VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                               0};
    out->memoryProperties = (VkPhysicalDeviceMemoryProperties){
        .memoryTypeCount = 4, .memoryTypes = {type, type, type, type}, .memoryHeapCount = 1};
}
static VKAPI_ATTR void VKAPI_CALL needs_allowed(VkDevice d, VkBuffer buffer, VkMemoryRequirements *out)
{
    *out = (VkMemoryRequirements){.size = 4096, .alignment = 16, .memoryTypeBits = allowed};
}

/* A driver may keep a type for images, or for memory that is protected. */
Test(devices, memory_is_of_a_type_that_buffers_may_have)
{
    vulkan_device *d = device;
    d->vk.GetPhysicalDeviceMemoryProperties2 = four_types;
    d->vk.GetBufferMemoryRequirements = needs_allowed;
    allowed = 1 << 2 | 1 << 3;
    cr_assert_eq(vulkan_choose_memory(d), TN_OK, "%s", last_error);
    cr_assert_eq(d->device_memory, 2);
    cr_assert_eq(d->host_memory, 2);
    allowed = 0;
    cr_assert_eq(vulkan_choose_memory(d), TN_E_UNSUPPORTED);
    cr_assert_not_null(strstr(last_error, "no memory for buffers"), "%s", last_error);
}

/* 16 KiB is what Vulkan promises. */
Test(devices, a_kernel_that_needs_more_shared_memory_than_the_device_has)
{
    vulkan_device *d = device;
    void *program, *kernel = NULL;
    d->shared_bytes = 16384;
    cr_assert_eq(driver->program_create(device, "fft.cl", "-DGPU_TYPE=32", NULL, &program, NULL), TN_OK);
    cr_assert_eq(driver->kernel_create(device, program, "fft_pass", &kernel), TN_E_UNSUPPORTED);
    cr_assert_null(kernel);
    cr_assert_not_null(strstr(last_error, "fft_pass needs 32768 bytes of memory that a group shares, and the "
                                          "device has 16384"),
                       "%s", last_error);
    d->shared_bytes = 32768;
    cr_assert_eq(driver->kernel_create(device, program, "fft_pass", &kernel), TN_OK);
    driver->kernel_destroy(device, kernel);
    driver->program_destroy(device, program);
}

static VKAPI_ATTR void VKAPI_CALL types_by_handle(VkPhysicalDevice id, VkPhysicalDeviceProperties2 *out)
{
    out->properties.deviceType = (VkPhysicalDeviceType)((uintptr_t)id % 8);
}

/* Handles 8 and more; the rest by 8 is the type: 1 integrated, 2 discrete, 4 a processor. */
Test(devices, processors_are_the_last_devices)
{
    const vulkan_symbols vk = {.GetPhysicalDeviceProperties2 = types_by_handle};
    const uintptr_t found[] = {12, 10, 20, 9, 18}, ordered[] = {10, 9, 18, 12, 20};
    VkPhysicalDevice devices[5];
    for (int i = 0; i < 5; i++) devices[i] = (VkPhysicalDevice)found[i];
    vulkan_processors_last(&vk, devices, 5);
    for (int i = 0; i < 5; i++) cr_expect_eq((uintptr_t)devices[i], ordered[i], "device %d", i);
}

static PFN_vkGetPhysicalDeviceProperties2 properties_truly;
static VKAPI_ATTR void VKAPI_CALL small_buffers(VkPhysicalDevice id, VkPhysicalDeviceProperties2 *out)
{
    properties_truly(id, out);
    for (VkBaseOutStructure *p = out->pNext; p; p = p->pNext)
        if (p->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES)
            ((VkPhysicalDeviceMaintenance4Properties *)p)->maxBufferSize = 1 << 20;
}
static const char *the_extension; /* that a device has, or NULL */
static VKAPI_ATTR VkResult VKAPI_CALL with_one(VkPhysicalDevice id, const char *layer, uint32_t *n,
                                               VkExtensionProperties *out)
{
    if (out) snprintf(out->extensionName, sizeof out->extensionName, "%s", the_extension);
    *n = the_extension ? 1 : 0;
    return VK_SUCCESS;
}

/* What a larger buffer would do, Vulkan does not define. The same goes for an allocation above its heap. */
Test(devices, memory_above_the_limits_is_refused)
{
    vulkan_device *d = device;
    void *memory = NULL, *seen_by_host;
    const uint64_t heap = d->memory_bytes;
    properties_truly = d->vk.GetPhysicalDeviceProperties2;
    d->vk.GetPhysicalDeviceProperties2 = small_buffers;
    d->vk.EnumerateDeviceExtensionProperties = with_one;
    the_extension = VK_KHR_MAINTENANCE_4_EXTENSION_NAME;
    vulkan_read_limits(d);
    cr_assert_eq(d->largest_bytes, 1 << 20);
    cr_assert_eq(driver->alloc(device, (1 << 20) + 1, &memory), TN_E_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(last_error, "the largest allocation of the device has 1048576 bytes"), "%s",
                       last_error);
    cr_assert_eq(driver->host_alloc(device, (1 << 20) + 1, &memory, &seen_by_host), TN_E_OUT_OF_MEMORY);
    d->memory_bytes = d->host_bytes = 1 << 16;
    cr_assert_eq(driver->host_alloc(device, 1 << 20, &memory, &seen_by_host), TN_E_OUT_OF_MEMORY);
    cr_assert_null(memory);
    d->memory_bytes = d->host_bytes = heap;
    cr_assert_eq(driver->alloc(device, 1 << 20, &memory), TN_OK, "%s", last_error);
    driver->free(device, memory);
}

static PFN_vkGetPhysicalDeviceMemoryProperties2 memory_truly;
static uint64_t heap_used;
static VKAPI_ATTR void VKAPI_CALL with_budget(VkPhysicalDevice id, VkPhysicalDeviceMemoryProperties2 *out)
{
    memory_truly(id, out);
    for (VkBaseOutStructure *p = out->pNext; p; p = p->pNext)
        if (p->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
            for (uint32_t i = 0; i < out->memoryProperties.memoryHeapCount; i++) {
                ((VkPhysicalDeviceMemoryBudgetPropertiesEXT *)p)->heapUsage[i] = heap_used;
                ((VkPhysicalDeviceMemoryBudgetPropertiesEXT *)p)->heapBudget[i] = 10 << 20;
            }
}

/* Drivers give more, and lose the device when it is used. Who sets the watermark decides alone. */
Test(devices, memory_above_the_budget_is_refused)
{
    vulkan_device *d = device;
    void *memory = NULL, *host_memory;
    uint64_t available = 0, total = 0;
    cr_assert_eq(driver->memory_info(device, &available, &total), d->has_budget ? TN_OK : TN_E_UNSUPPORTED);
    memory_truly = d->vk.GetPhysicalDeviceMemoryProperties2;
    d->vk.GetPhysicalDeviceMemoryProperties2 = with_budget;
    d->vk.EnumerateDeviceExtensionProperties = with_one;
    the_extension = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    vulkan_read_limits(d);
    heap_used = 4 << 20;
    cr_assert_eq(driver->memory_info(device, &available, &total), TN_OK, "%s", last_error);
    cr_assert_eq(available, 6 << 20);
    cr_assert_eq(total, d->memory_bytes);
    cr_assert_eq(driver->alloc(device, (6 << 20) + 1, &memory), TN_E_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(last_error,
                              "cannot allocate 6291457 bytes: 4194304 are in use, and the driver's "
                              "budget is 10485760"),
                       "%s", last_error);
    cr_assert_eq(driver->host_alloc(device, (6 << 20) + 1, &memory, &host_memory), TN_E_OUT_OF_MEMORY);
    cr_assert_null(memory);
    cr_assert_eq(driver->alloc(device, 6 << 20, &memory), TN_OK, "%s", last_error);
    driver->free(device, memory);
    cr_assert_eq(driver->host_alloc(device, 6 << 20, &memory, &host_memory), TN_OK, "%s", last_error);
    driver->host_free(device, memory, host_memory);
    heap_used = 11 << 20;
    cr_assert_eq(driver->memory_info(device, &available, &total), TN_OK);
    cr_assert_eq(available, 0);
    cr_assert_eq(driver->alloc(device, 4, &memory), TN_E_OUT_OF_MEMORY);
    set("high_watermark_ratio", tn_value_float(1.7));
    cr_assert_eq(driver->alloc(device, 4, &memory), TN_OK, "%s", last_error);
    driver->free(device, memory);
}

/* Metal's ratio is for memory that the device and the host share. */
Test(devices, a_device_without_a_budget_leaves_memory_to_others)
{
    vulkan_device *d = device;
    d->sees_memory = d->has_budget = 0;
    cr_assert_eq(vulkan_watermark(d, 1), d->memory_bytes / 1000 * 900);
    d->has_budget = 1;
    cr_assert_eq(vulkan_watermark(d, 1), d->memory_bytes / 1000 * 1700);
    d->has_budget = 0;
    d->sees_memory = 1;
    cr_assert_eq(vulkan_watermark(d, 1), d->memory_bytes / 1000 * 1700);
}

static VKAPI_ATTR void VKAPI_CALL seven_cores(VkPhysicalDevice id, VkPhysicalDeviceProperties2 *out)
{
    for (VkBaseOutStructure *p = out->pNext; p; p = p->pNext)
        if (p->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM)
            ((VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM *)p)->shaderCoreCount = 7;
}

Test(devices, compute_units_of_devices_that_tell_and_of_others)
{
    const vulkan_symbols vk = {.EnumerateDeviceExtensionProperties = with_one,
                               .GetPhysicalDeviceProperties2 = seven_cores};
    gpu_properties arm = {.device_class = TN_DEVICE_INTEGRATED}, integrated = arm,
                   discrete = {.device_class = TN_DEVICE_DISCRETE}, processor = {.compute_units = 2};
    the_extension = VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME;
    vulkan_describe_more(&vk, NULL, &arm);
    the_extension = NULL;
    vulkan_describe_more(&vk, NULL, &integrated);
    vulkan_describe_more(&vk, NULL, &discrete);
    vulkan_describe_more(&vk, NULL, &processor);
    cr_expect_eq(arm.compute_units, 7);
    cr_expect_eq(integrated.compute_units, 16);
    cr_expect_eq(discrete.compute_units, 32);
    cr_expect_eq(processor.compute_units, 2);
}
