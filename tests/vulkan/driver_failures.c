/* SPDX-License-Identifier: Apache-2.0 */
/* The Vulkan driver alone when Vulkan refuses a call or the device is lost: functions of the device's table fail. */
#include "driver_suite.h"

TestSuite(failures, .init = open_first, .fini = close_first_device, .timeout = 100);

static VkResult the_result;
static VKAPI_ATTR VkResult VKAPI_CALL submit_fails(VkQueue queue, uint32_t n, const VkSubmitInfo *info,
                                                   VkFence fence)
{
    return the_result;
}
static VKAPI_ATTR VkResult VKAPI_CALL allocate_fails(VkDevice d, const VkMemoryAllocateInfo *info,
                                                     const VkAllocationCallbacks *a, VkDeviceMemory *out)
{
    return the_result;
}
static VKAPI_ATTR VkResult VKAPI_CALL pipelines_fail(VkDevice d, VkPipelineCache cache, uint32_t n,
                                                     const VkComputePipelineCreateInfo *info,
                                                     const VkAllocationCallbacks *a, VkPipeline *out)
{
    return the_result;
}

Test(failures, a_lost_device_stays_lost)
{
    void *queue = queue_of_test(), *memory = memory_of(64);
    the_result = VK_ERROR_DEVICE_LOST;
    ((vulkan_device *)device)->vk.QueueSubmit = submit_fails;
    cr_assert_eq(driver->status(device), TN_OK);
    cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x1", 1), TN_E_DEVICE_LOST);
    cr_assert_not_null(strstr(last_error, "vulkan: vkQueueSubmit failed: VK_ERROR_DEVICE_LOST"), "%s",
                       last_error);
    cr_assert_eq(last_native, VK_ERROR_DEVICE_LOST);
    cr_assert_eq(driver->status(device), TN_E_DEVICE_LOST);
    driver->queue_destroy(device, queue); /* does not wait for what never runs */
    driver->free(device, memory);
}

static VKAPI_ATTR VkResult VKAPI_CALL waits_succeed(VkDevice d, const VkSemaphoreWaitInfo *info,
                                                    uint64_t timeout)
{
    return VK_SUCCESS;
}

/* Waits succeed then, and timelines are at their end, as NVIDIA's driver says it. */
static void expect_lost(int32_t (*ask)(void *queue))
{
    vulkan_device *d = device;
    void *queue = queue_of_test();
    cr_assert_eq(driver->queue_finish(device, queue), TN_OK, "%s", last_error);
    told_value = UINT64_MAX;
    d->vk.GetSemaphoreCounterValue = tell_value;
    d->vk.WaitSemaphores = waits_succeed;
    cr_assert_eq(driver->status(device), TN_OK);
    cr_expect_eq(ask(queue), TN_E_DEVICE_LOST, "%s", last_error);
    cr_expect_eq(driver->status(device), TN_E_DEVICE_LOST);
    driver->queue_destroy(device, queue);
}
static int32_t query(void *queue)
{
    int32_t done = 0;
    return driver->queue_query(device, queue, &done);
}
static int32_t finish(void *queue)
{
    return driver->queue_finish(device, queue);
}
static int32_t wait_for_event(void *queue)
{
    vulkan_event e = {.timeline = ((vulkan_queue *)queue)->timeline, .value = 1};
    return driver->event_wait(device, &e);
}

Test(failures, a_lost_device_whose_queries_succeed)
{
    expect_lost(query);
}

Test(failures, a_lost_device_whose_waits_succeed)
{
    expect_lost(finish);
}

Test(failures, a_lost_device_whose_event_comes)
{
    expect_lost(wait_for_event);
}

/* A batch that was refused is submitted later, with those behind it. */
Test(failures, a_submission_without_memory_is_tried_again)
{
    vulkan_device *d = device;
    void *queue = queue_of_test(), *memory = memory_of(64);
    uint8_t got[64];
    PFN_vkQueueSubmit submit = d->vk.QueueSubmit;
    the_result = VK_ERROR_OUT_OF_HOST_MEMORY;
    d->vk.QueueSubmit = submit_fails;
    cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x1", 1), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(driver->status(device), TN_OK);
    d->vk.QueueSubmit = submit;
    cr_assert_eq(driver->fill(device, queue, memory, 0, 32, "\x2", 1), TN_OK, "%s", last_error);
    cr_assert_eq(driver->read(device, queue, got, memory, 0, 64), TN_OK);
    cr_assert(got[0] == 2 && got[63] == 1);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
}

Test(failures, memory_runs_out)
{
    void *memory = NULL;
    the_result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    ((vulkan_device *)device)->vk.AllocateMemory = allocate_fails;
    cr_assert_eq(driver->alloc(device, 4096, &memory), TN_E_OUT_OF_MEMORY);
    cr_assert_null(memory);
    cr_assert_not_null(strstr(last_error, "allocating 4096 bytes failed: VK_ERROR_OUT_OF_DEVICE_MEMORY"),
                       "%s", last_error);
}

Test(failures, nothing_is_allocated_above_the_high_watermark)
{
    gpu_properties p;
    void *memory = NULL, *small;
    driver->describe(&plugin, 0, &p);
    set("high_watermark_ratio", tn_value_float(0.001));
    small = memory_of(4096);
    cr_assert_eq(driver->alloc(device, p.memory_bytes / 500, &memory), TN_E_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(last_error, "the setting high_watermark_ratio allows"), "%s", last_error);
    set("high_watermark_ratio", tn_value_float(0));
    cr_assert_eq(driver->alloc(device, p.memory_bytes / 500, &memory), TN_OK);
    driver->free(device, memory);
    driver->free(device, small);
}

/* Memory that queued work uses is destroyed when that has ended: the validation layer finds anything else. */
Test(failures, memory_is_freed_while_work_uses_it)
{
    void *queue = queue_of_test();
    for (int i = 0; i < 10; i++) {
        void *memory = memory_of(1 << 20);
        cr_assert_eq(driver->fill(device, queue, memory, 0, 1 << 20, "\x1", 1), TN_OK);
        driver->free(device, memory);
    }
    cr_assert_eq(driver->queue_finish(device, queue), TN_OK);
    cr_assert_null(((vulkan_device *)device)->garbage);
    driver->queue_destroy(device, queue);
}

Test(failures, a_pipeline_is_refused)
{
    void *queue = queue_of_test(), *memory = memory_of(64);
    the_result = VK_ERROR_OUT_OF_HOST_MEMORY;
    ((vulkan_device *)device)->vk.CreateComputePipelines = pipelines_fail;
    cr_assert_eq(driver->fill(device, queue, memory, 1, 3, "\x1", 1), TN_E_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(last_error, "fill failed: VK_ERROR_OUT_OF_HOST_MEMORY"), "%s", last_error);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
}

Test(failures, a_kernel_that_is_not_there)
{
    void *program, *kernel = NULL;
    cr_assert_eq(driver->program_create(device, "memory.cl", "-DGPU_TYPE=64", NULL, &program, NULL), TN_OK);
    cr_assert_eq(driver->kernel_create(device, program, "fill", &kernel), TN_E_INTERNAL);
    cr_assert_not_null(strstr(last_error, "there is no kernel fill of memory.cl for type 64"), "%s",
                       last_error);
    driver->program_destroy(device, program);
}
