/* SPDX-License-Identifier: Apache-2.0 */
/* The Vulkan driver alone when Vulkan refuses a call or the device is lost: functions of the device's table fail. */
#include "driver_suite.h"

#include <stdatomic.h>
#include <unistd.h>

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

/* Another thread has learned that the device is lost. A wait without an end would not see it. */
static VKAPI_ATTR VkResult VKAPI_CALL lost_meanwhile(VkDevice d, const VkSemaphoreWaitInfo *info,
                                                     uint64_t timeout)
{
    cr_assert_lt(timeout, UINT64_MAX, "the wait has no end");
    __atomic_store_n(&((vulkan_device *)device)->lost, VK_ERROR_DEVICE_LOST, __ATOMIC_RELEASE);
    return VK_TIMEOUT;
}

Test(failures, a_device_that_is_lost_during_a_wait)
{
    void *queue = queue_of_test();
    ((vulkan_device *)device)->vk.WaitSemaphores = lost_meanwhile;
    cr_expect_eq(driver->queue_finish(device, queue), TN_E_DEVICE_LOST);
    driver->queue_destroy(device, queue);
}

static VKAPI_ATTR VkResult VKAPI_CALL value_fails(VkDevice d, VkSemaphore semaphore, uint64_t *out)
{
    return the_result;
}

/* A batch that was refused is submitted later, with those behind it. Calls of which the command is encoded succeed: after
 * TN_E_OUT_OF_MEMORY they would be called again. */
Test(failures, a_submission_without_memory_is_tried_again)
{
    vulkan_device *d = device;
    void *queue = queue_of_test(), *memory = memory_of(64), *event = NULL;
    uint8_t got[64];
    const vulkan_symbols truly = d->vk;
    the_result = VK_ERROR_OUT_OF_HOST_MEMORY;
    d->vk.QueueSubmit = submit_fails;
    cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x1", 1), TN_OK, "%s", last_error);
    cr_assert_eq(driver->queue_finish(device, queue), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(driver->event_record(device, queue, &event), TN_E_OUT_OF_MEMORY);
    cr_assert_null(event);
    cr_assert_eq(driver->status(device), TN_OK);
    d->vk = truly;
    d->vk.GetSemaphoreCounterValue = value_fails;
    cr_assert_eq(driver->fill(device, queue, memory, 0, 32, "\x2", 1), TN_OK, "%s", last_error);
    d->vk = truly;
    cr_assert_eq(driver->read(device, queue, got, memory, 0, 64), TN_OK, "%s", last_error);
    cr_assert(got[0] == 2 && got[63] == 1);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
}

static atomic_int may_return, called;
static void hold(void *user)
{
    while (!atomic_load(&may_return)) usleep(1000);
    atomic_fetch_add(&called, 1);
}

/* The thread of the callback submits what is behind it, and has nobody to tell that it was refused. */
Test(failures, a_wait_submits_what_was_refused)
{
    vulkan_device *d = device;
    const vulkan_symbols truly = d->vk;
    void *queue = queue_of_test(), *event;
    uint32_t running = 1;
    cr_assert_eq(driver->queue_callback(device, queue, hold, NULL), TN_OK);
    cr_assert_eq(driver->event_record(device, queue, &event), TN_OK, "%s", last_error);
    the_result = VK_ERROR_OUT_OF_HOST_MEMORY;
    d->vk.QueueSubmit = submit_fails;
    atomic_store(&may_return, 1);
    while (running) {
        usleep(1000);
        pthread_mutex_lock(&d->lock);
        running = d->callbacks;
        pthread_mutex_unlock(&d->lock);
    }
    d->vk = truly;
    cr_assert_eq(driver->event_wait(device, event), TN_OK, "%s", last_error);
    cr_assert_eq(atomic_load(&called), 1);
    driver->event_release(device, event);
    driver->queue_destroy(device, queue);
}

static VKAPI_ATTR VkResult VKAPI_CALL end_fails(VkCommandBuffer commands)
{
    return the_result;
}

/* The calls of these commands have succeeded. The stream reports it once, and goes on. */
Test(failures, commands_that_are_refused_at_the_end_are_a_late_error)
{
    vulkan_device *d = device;
    const vulkan_symbols truly = d->vk;
    void *queue = queue_of_test(), *memory = memory_of(64), *other;
    uint8_t got[64];
    cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x1", 1), TN_OK);
    cr_assert_eq(driver->queue_finish(device, queue), TN_OK);
    the_result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    d->vk.EndCommandBuffer = end_fails;
    cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x2", 1), TN_E_INTERNAL);
    cr_assert_not_null(strstr(last_error, "1 command of the stream did not run"), "%s", last_error);
    d->vk.GetSemaphoreCounterValue = tell_value; /* nothing ends, so that batches have several commands */
    told_value = 0;
    for (int i = 0; i < 2; i++)
        cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x3", 1), TN_OK, "%s", last_error);
    set("low_watermark_ratio", tn_value_float(1e-3)); /* an allocation commits */
    cr_assert_eq(driver->alloc(device, d->memory_bytes / 500, &other), TN_OK, "%s", last_error);
    cr_assert_null(((vulkan_queue *)queue)->open);
    d->vk = truly;
    cr_assert_eq(driver->queue_finish(device, queue), TN_E_INTERNAL);
    cr_assert_not_null(strstr(last_error, "3 commands of the stream did not run"), "%s", last_error);
    cr_assert_eq(driver->queue_finish(device, queue), TN_OK, "%s", last_error);
    cr_assert_eq(driver->fill(device, queue, memory, 0, 32, "\x4", 1), TN_OK, "%s", last_error);
    cr_assert_eq(driver->read(device, queue, got, memory, 0, 64), TN_OK, "%s", last_error);
    cr_assert(got[0] == 4 && got[63] == 1);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
    driver->free(device, other);
}

static PFN_vkWaitSemaphores wait_truly;
static PFN_vkResetCommandPool reset_truly;
static uint32_t waits, resets, early_resets;
static VKAPI_ATTR VkResult VKAPI_CALL first_wait_fails(VkDevice d, const VkSemaphoreWaitInfo *info,
                                                       uint64_t timeout)
{
    return waits++ ? wait_truly(d, info, timeout) : VK_ERROR_OUT_OF_HOST_MEMORY;
}
static VKAPI_ATTR VkResult VKAPI_CALL count_resets(VkDevice d, VkCommandPool pool,
                                                   VkCommandPoolResetFlags flags)
{
    resets++;
    early_resets += waits < 2;
    return reset_truly(d, pool, flags);
}

Test(failures, a_stream_that_could_not_be_waited_for_is_destroyed)
{
    vulkan_device *d = device;
    void *queue = queue_of_test(), *memory = memory_of(64);
    wait_truly = d->vk.WaitSemaphores;
    reset_truly = d->vk.ResetCommandPool;
    d->vk.WaitSemaphores = first_wait_fails;
    d->vk.ResetCommandPool = count_resets;
    d->vk.GetSemaphoreCounterValue = tell_value;
    cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x1", 1), TN_OK, "%s", last_error);
    driver->queue_destroy(device, queue);
    cr_assert_eq(resets, 1);
    cr_assert_eq(early_resets, 0, "commands are used again that may still run");
    driver->free(device, memory);
}

/* Its last batches were never submitted, so that a wait for the semaphore might not end. */
Test(failures, the_semaphore_of_a_stream_that_did_not_end_is_not_used_again)
{
    vulkan_device *d = device;
    const vulkan_symbols truly = d->vk;
    void *queue = queue_of_test(), *memory = memory_of(64);
    const VkSemaphore semaphore = ((vulkan_queue *)queue)->timeline->semaphore;
    the_result = VK_ERROR_OUT_OF_HOST_MEMORY;
    d->vk.QueueSubmit = submit_fails;
    cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x1", 1), TN_OK, "%s", last_error);
    driver->queue_destroy(device, queue);
    d->vk = truly;
    queue = queue_of_test();
    cr_assert_neq(((vulkan_queue *)queue)->timeline->semaphore, semaphore);
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
