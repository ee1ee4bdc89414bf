/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan driver alone, below the contract: the order of batches, fills and copies of every form, launches of many
 * groups, and what happens when Vulkan refuses a call, for which functions of the device's table are replaced.
 */
#include "../gpu/driver_fixture.h"
#include "vulkan.h"
#include "device/operators.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void open_first(void)
{
    open_first_device("no Vulkan device (Debian: mesa-vulkan-drivers)");
}
TestSuite(driver, .init = open_first, .fini = close_first_device, .timeout = 100);

static void *queue_of_test(void)
{
    void *queue;
    cr_assert_eq(driver->queue_create(device, 0, &queue), TN_OK, "%s", last_error);
    return queue;
}

static void *memory_of(uint64_t bytes)
{
    void *memory;
    cr_assert_eq(driver->alloc(device, bytes, &memory), TN_OK, "%s", last_error);
    return memory;
}

/* ---- Fills and copies --------------------------------------------------------------------------------------- */

/* Patterns at places and of lengths that Vulkan can fill, and others. */
Test(driver, fills_of_every_pattern_and_place)
{
    enum { BYTES = 256 };
    static const uint8_t pattern[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    static const uint8_t repeated[16] = {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
    void *queue = queue_of_test(), *memory = memory_of(BYTES);
    for (uint32_t bytes = 1; bytes <= 16; bytes *= 2)
        for (uint32_t offset = 0; offset < 48; offset += bytes)
            for (int32_t same = 0; same < 2; same++) {
                uint8_t got[BYTES], right[BYTES] = {0};
                const uint8_t *p = same ? repeated : pattern;
                uint32_t length = bytes * 5;
                for (uint32_t i = 0; i < length; i++) right[offset + i] = p[i % bytes];
                cr_assert_eq(driver->fill(device, queue, memory, 0, BYTES, "", 1), TN_OK);
                cr_assert_eq(driver->fill(device, queue, memory, offset, length, p, bytes), TN_OK, "%s",
                             last_error);
                cr_assert_eq(driver->read(device, queue, got, memory, 0, BYTES), TN_OK);
                cr_assert_eq(memcmp(got, right, BYTES), 0, "pattern of %u bytes at %u", bytes, offset);
            }
    cr_assert_eq(driver->fill(device, queue, memory, 3, 0, pattern, 1), TN_OK);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
}

/* 9 million items are more than 65,535 groups: the launch has two dimensions, and the last group of it too many. */
Test(driver, launches_of_more_groups_than_a_dimension_has)
{
    const uint64_t bytes = 9000002;
    void *queue = queue_of_test(), *memory = memory_of(bytes);
    uint8_t *got = malloc(bytes);
    cr_assert_eq(driver->fill(device, queue, memory, 0, bytes - 2, "\0\0\0\0", 4), TN_OK);
    cr_assert_eq(driver->fill(device, queue, memory, bytes - 2, 2, "\0", 1), TN_OK);
    cr_assert_eq(driver->fill(device, queue, memory, 1, bytes - 3, "\x5a", 1), TN_OK);
    cr_assert_eq(driver->read(device, queue, got, memory, 0, bytes), TN_OK);
    cr_assert(got[0] == 0 && got[bytes - 1] == 0 && got[bytes - 2] == 0);
    uint64_t wrong = 0;
    for (uint64_t i = 1; i < bytes - 2; i++) wrong += got[i] != 0x5a;
    cr_assert_eq(wrong, 0);
    free(got);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
}

static void copy_there_and_back(void)
{
    const uint32_t bytes = (9u << 20) + 3; /* more than the staging buffer has */
    void *queue = queue_of_test(), *a = memory_of(bytes), *b = memory_of(bytes);
    uint8_t *data = malloc(bytes), *got = malloc(bytes);
    for (uint32_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 2654435761u >> 24);
    cr_assert_eq(driver->write(device, queue, a, 5, data, bytes - 5), TN_OK, "%s", last_error);
    cr_assert_eq(driver->copy(device, queue, b, 1, a, 5, bytes - 5), TN_OK);
    cr_assert_eq(driver->read(device, queue, got, b, 1, bytes - 5), TN_OK);
    cr_assert_eq(driver->queue_finish(device, queue), TN_OK);
    cr_assert_eq(memcmp(got, data, bytes - 5), 0);
    driver->queue_destroy(device, queue);
    driver->free(device, a);
    driver->free(device, b);
    free(data);
    free(got);
}

static void set(const char *name, tn_value value)
{
    gpu_device of = {.handle = device};
    tn_setting s = {.size = sizeof s};
    for (uint32_t i = 0; driver->settings->describe(&plugin, &of, i, &s) == TN_OK; i++)
        if (strcmp(s.name, name) == 0) {
            cr_assert_eq(driver->settings->set(&plugin, &of, i, &value), TN_OK);
            return;
        }
    cr_assert_fail("there is no setting %s", name);
}

Test(driver, copies_of_memory_that_the_host_sees)
{
    copy_there_and_back();
}

Test(driver, copies_through_the_staging_buffer)
{
    set("staging", tn_value_bool(1));
    copy_there_and_back();
}

/* A copy from pinned memory is queued: it takes what an earlier one has written there. */
Test(driver, copies_of_pinned_memory_are_in_the_order_of_the_stream)
{
    void *queue = queue_of_test(), *a = memory_of(64), *b = memory_of(64), *pinned, *seen;
    uint8_t got[64];
    cr_assert_eq(driver->host_alloc(device, 64, &pinned, &seen), TN_OK);
    memset(seen, 1, 64);
    cr_assert_eq(driver->fill(device, queue, a, 0, 64, "\x7", 1), TN_OK);
    cr_assert_eq(driver->read(device, queue, seen, a, 0, 64), TN_OK);
    cr_assert_eq(driver->write(device, queue, b, 0, seen, 64), TN_OK);
    cr_assert_eq(driver->read(device, queue, got, b, 0, 64), TN_OK);
    cr_assert(got[0] == 7 && got[63] == 7 && ((uint8_t *)seen)[63] == 7);
    driver->host_free(device, pinned, seen);
    driver->queue_destroy(device, queue);
    driver->free(device, a);
    driver->free(device, b);
}

/* ---- Order --------------------------------------------------------------------------------------------------- */

static atomic_int may_return, has_run;
static void hold(void *user)
{
    while (!atomic_load(&may_return)) usleep(1000);
    atomic_store(&has_run, 1);
}

static int32_t is_done(void *queue)
{
    int32_t done = -1;
    cr_assert_eq(driver->queue_query(device, queue, &done), TN_OK, "%s", last_error);
    return done;
}

/* Nobody waits: the query itself submits what is encoded. */
Test(driver, a_query_makes_progress)
{
    void *queue = queue_of_test(), *memory = memory_of(64);
    cr_assert_eq(is_done(queue), 1);
    for (int i = 0; i < 5; i++) cr_assert_eq(driver->fill(device, queue, memory, 0, 64, "\x1", 1), TN_OK);
    while (!is_done(queue)) usleep(100);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
}

/* The callback of one stream waits, a second stream waits for the first, a third one goes on. */
Test(driver, a_callback_holds_its_stream_and_those_that_wait_for_it)
{
    void *first = queue_of_test(), *second = queue_of_test(), *third = queue_of_test(),
         *memory = memory_of(64);
    void *event;
    uint8_t got = 0;
    int32_t done = -1;
    cr_assert_eq(driver->fill(device, first, memory, 0, 64, "\x1", 1), TN_OK);
    cr_assert_eq(driver->queue_callback(device, first, hold, NULL), TN_OK);
    cr_assert_eq(driver->fill(device, first, memory, 0, 64, "\x2", 1), TN_OK);
    cr_assert_eq(driver->event_record(device, first, &event), TN_OK);
    cr_assert_eq(driver->queue_wait(device, second, event), TN_OK);
    cr_assert_eq(driver->fill(device, second, memory, 4, 4, "\x3", 1), TN_OK);
    cr_assert_eq(driver->fill(device, third, memory, 32, 4, "\x4", 1), TN_OK);
    cr_assert_eq(driver->queue_finish(device, third), TN_OK);
    cr_assert(!is_done(first) && !is_done(second) && !atomic_load(&has_run));
    cr_assert_eq(driver->event_query(device, event, &done), TN_OK);
    cr_assert_eq(done, 0);
    atomic_store(&may_return, 1);
    cr_assert_eq(driver->event_wait(device, event), TN_OK);
    cr_assert_eq(atomic_load(&has_run), 1);
    cr_assert_eq(driver->queue_finish(device, second), TN_OK);
    cr_assert_eq(driver->read(device, second, &got, memory, 4, 1), TN_OK);
    cr_assert_eq(got, 3, "the second stream has not waited");
    cr_assert_eq(driver->read(device, second, &got, memory, 8, 1), TN_OK);
    cr_assert_eq(got, 2);
    driver->event_release(device, event);
    driver->queue_destroy(device, first);
    driver->queue_destroy(device, second);
    driver->queue_destroy(device, third);
    driver->free(device, memory);
}

/* More waits than a batch has room for, and streams that are gone when they are waited for. */
Test(driver, many_waits)
{
    void *queue = queue_of_test(), *events[20];
    for (int i = 0; i < 20; i++) {
        void *other = queue_of_test();
        cr_assert_eq(driver->event_record(device, other, &events[i]), TN_OK);
        driver->queue_destroy(device, other);
        cr_assert_eq(driver->queue_wait(device, queue, events[i]), TN_OK);
        driver->event_release(device, events[i]);
    }
    cr_assert_eq(driver->queue_finish(device, queue), TN_OK, "%s", last_error);
    driver->queue_destroy(device, queue);
}

Test(driver, the_time_between_two_events)
{
    void *queue = queue_of_test(), *memory = memory_of(1 << 20), *start, *end;
    double ms = -1;
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    cr_assert_eq(driver->event_record(device, queue, &start), TN_OK);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(driver->fill(device, queue, memory, 1, (1 << 20) - 1, "\x1", 1), TN_OK);
    cr_assert_eq(driver->event_record(device, queue, &end), TN_OK);
    cr_assert_eq(driver->event_elapsed(device, start, end, &ms), TN_OK, "%s", last_error);
    clock_gettime(CLOCK_MONOTONIC, &after);
    double most =
        (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) / 1e6;
    cr_assert(ms > 0 && ms <= most, "%g ms of %g", ms, most);
    driver->event_release(device, start);
    driver->event_release(device, end);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
}

/* ---- Pipelines ------------------------------------------------------------------------------------------------- */

/* 1.5 times 1 to 4, by the kernel of all pointwise operators. */
static void multiply(void)
{
    void *program, *kernel, *queue = queue_of_test(), *memory = memory_of(32);
    float x[4] = {1, 2, 3, 4};
    gpu_nest nest = {.numel = 4, .rank = 1, .opcode = GPU_OP_mul, .immediate = 0xc};
    const float factor = 1.5f;
    nest.sizes[0] = 4;
    nest.offsets[0] = 16;
    for (uint32_t k = 0; k < 2; k++) nest.strides[k][0] = 4;
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) nest.dtypes[k] = GPU_F32;
    memcpy(&nest.values[2], &factor, sizeof factor);
    cr_assert_eq(
        driver->program_create(device, "pointwise.cl", "-DGPU_TYPE=32 -DGPU_GROUP=1", NULL, &program, NULL),
        TN_OK);
    cr_assert_eq(driver->kernel_create(device, program, "pointwise", &kernel), TN_OK, "%s", last_error);
    const gpu_argument operand = {.is_memory = 1, .value = memory}, none = {.is_memory = 1};
    const gpu_argument arguments[] = {operand, operand, none,
                                      none,    none,    {.bytes = sizeof nest, .value = &nest}};
    cr_assert_eq(driver->write(device, queue, memory, 0, x, sizeof x), TN_OK);
    cr_assert_eq(driver->launch(device, queue, kernel, arguments, 6, 128, 128), TN_OK, "%s", last_error);
    cr_assert_eq(driver->read(device, queue, x, memory, 16, sizeof x), TN_OK);
    cr_assert(x[0] == 1.5f && x[1] == 3 && x[2] == 4.5f && x[3] == 6);
    driver->queue_destroy(device, queue);
    driver->kernel_destroy(device, kernel);
    driver->program_destroy(device, program);
    driver->free(device, memory);
}

static VkResult (*make)(VkDevice, const VkShaderModuleCreateInfo *, const VkAllocationCallbacks *,
                        VkShaderModule *);
static uint32_t exact; /* operations that may not be fused, in the last module */
static VKAPI_ATTR VkResult VKAPI_CALL count_exact(VkDevice d, const VkShaderModuleCreateInfo *info,
                                                  const VkAllocationCallbacks *a, VkShaderModule *out)
{
    const uint32_t decorate = 3 << 16 | 71, no_contraction = 42;
    exact = 0;
    for (size_t at = 5; at < info->codeSize / 4; at += info->pCode[at] >> 16)
        exact += info->pCode[at] == decorate && info->pCode[at + 2] == no_contraction;
    return make(d, info, a, out);
}

Test(driver, fast_math_leaves_out_what_forbids_fusing)
{
    make = ((vulkan_device *)device)->vk.CreateShaderModule;
    ((vulkan_device *)device)->vk.CreateShaderModule = count_exact;
    multiply();
    cr_assert_gt(exact, 10);
    set("fast_math", tn_value_bool(1));
    multiply();
    cr_assert_eq(exact, 0);
}

Test(driver, the_cache_of_pipelines_is_a_file)
{
    char folder[] = "/tmp/tenon_cache_XXXXXX", command[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(plugin.cache_folder, sizeof plugin.cache_folder, "%s", folder);
    multiply();
    driver->close(device);
    cr_assert_eq(driver->open(&plugin, 0, &device), TN_OK);
    multiply();
    cr_assert_gt(((vulkan_device *)device)->cached_bytes, 0);
    plugin.cache_folder[0] = 0;
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

/* ---- Failures ------------------------------------------------------------------------------------------------- */

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

Test(driver, a_lost_device_stays_lost)
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

/* A batch that was refused is submitted later, with those behind it. */
Test(driver, a_submission_without_memory_is_tried_again)
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

Test(driver, memory_runs_out)
{
    void *memory = NULL;
    the_result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    ((vulkan_device *)device)->vk.AllocateMemory = allocate_fails;
    cr_assert_eq(driver->alloc(device, 4096, &memory), TN_E_OUT_OF_MEMORY);
    cr_assert_null(memory);
    cr_assert_not_null(strstr(last_error, "allocating 4096 bytes failed: VK_ERROR_OUT_OF_DEVICE_MEMORY"),
                       "%s", last_error);
}

Test(driver, nothing_is_allocated_above_the_high_watermark)
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
Test(driver, memory_is_freed_while_work_uses_it)
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

Test(driver, a_pipeline_is_refused)
{
    void *queue = queue_of_test(), *memory = memory_of(64);
    the_result = VK_ERROR_OUT_OF_HOST_MEMORY;
    ((vulkan_device *)device)->vk.CreateComputePipelines = pipelines_fail;
    cr_assert_eq(driver->fill(device, queue, memory, 1, 3, "\x1", 1), TN_E_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(last_error, "fill failed: VK_ERROR_OUT_OF_HOST_MEMORY"), "%s", last_error);
    driver->queue_destroy(device, queue);
    driver->free(device, memory);
}

Test(driver, a_kernel_that_is_not_there)
{
    void *program, *kernel = NULL;
    cr_assert_eq(driver->program_create(device, "memory.cl", "-DGPU_TYPE=64", NULL, &program, NULL), TN_OK);
    cr_assert_eq(driver->kernel_create(device, program, "fill", &kernel), TN_E_INTERNAL);
    cr_assert_not_null(strstr(last_error, "there is no kernel fill of memory.cl for type 64"), "%s",
                       last_error);
    driver->program_destroy(device, program);
}
