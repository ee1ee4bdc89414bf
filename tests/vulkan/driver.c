/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan driver alone, below the contract: the order of batches, fills and copies of every form, launches of many
 * groups, and devices unlike the one at hand, for which functions of the device's table are replaced. What fails is in
 * driver_failures.c.
 */
#include "driver_suite.h"
#include "device/operators.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

TestSuite(driver, .init = open_first, .fini = close_first_device, .timeout = 100);

static atomic_int may_return, has_run;
static void hold(void *user)
{
    while (!atomic_load(&may_return)) usleep(1000);
    atomic_store(&has_run, 1);
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

Test(driver, copies_of_memory_that_the_host_sees)
{
    copy_there_and_back();
}

Test(driver, copies_through_the_staging_buffer)
{
    set("staging", tn_value_bool(1));
    copy_there_and_back();
}

static void *read_staged(void *data)
{
    void **of = data;
    uint8_t got = 0;
    cr_assert_eq(driver->read(device, of[0], &got, of[1], 5, 1), TN_OK, "%s", last_error);
    cr_assert_eq(got, 9);
    return NULL;
}

/* The copy of one stream waits for a callback, which returns after the copy of another stream. */
Test(driver, a_copy_that_waits_does_not_keep_the_staging_buffer)
{
    void *first = queue_of_test(), *second = queue_of_test(), *memory = memory_of(64), *other = memory_of(64);
    void *from[] = {first, memory};
    pthread_t thread;
    uint8_t data = 3, got = 0;
    set("staging", tn_value_bool(1));
    atomic_store(&may_return, 0);
    cr_assert_eq(driver->queue_callback(device, first, hold, NULL), TN_OK);
    cr_assert_eq(driver->fill(device, first, memory, 0, 64, "\x9", 1), TN_OK);
    cr_assert_eq(pthread_create(&thread, NULL, read_staged, from), 0);
    usleep(50000); /* the first copy would have the buffer by now */
    cr_assert_eq(driver->write(device, second, other, 7, &data, 1), TN_OK, "%s", last_error);
    cr_assert_eq(driver->read(device, second, &got, other, 7, 1), TN_OK, "%s", last_error);
    cr_assert_eq(got, 3);
    atomic_store(&may_return, 1);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    driver->queue_destroy(device, first);
    driver->queue_destroy(device, second);
    driver->free(device, memory);
    driver->free(device, other);
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

static void *wait_natively(void *event)
{
    const uint64_t native = (uintptr_t)((vulkan_device *)device)->queue;
    cr_assert_eq(driver->native_wait(device, native, event), TN_OK, "%s", last_error);
    return NULL;
}

/* A library may work on the device's queue, which would wait for a batch that is submitted behind the wait. */
Test(driver, a_native_wait_for_what_is_behind_a_callback)
{
    void *first = queue_of_test(), *second = queue_of_test(), *memory = memory_of(64), *event;
    pthread_t thread;
    uint8_t got = 0;
    atomic_store(&may_return, 0);
    cr_assert_eq(driver->queue_callback(device, first, hold, NULL), TN_OK);
    cr_assert_eq(driver->event_record(device, first, &event), TN_OK);
    cr_assert_eq(pthread_create(&thread, NULL, wait_natively, event), 0);
    usleep(50000); /* the wait would be submitted by now */
    cr_assert_eq(driver->fill(device, second, memory, 0, 64, "\x3", 1), TN_OK);
    cr_assert_eq(driver->read(device, second, &got, memory, 7, 1), TN_OK);
    cr_assert_eq(got, 3);
    atomic_store(&may_return, 1);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(driver->queue_finish(device, first), TN_OK);
    driver->event_release(device, event);
    driver->queue_destroy(device, first);
    driver->queue_destroy(device, second);
    driver->free(device, memory);
}

static VkSemaphore end_of_native, destroyed;
static VKAPI_ATTR VkResult VKAPI_CALL never_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info,
                                                   VkFence fence)
{
    if (info->signalSemaphoreCount) end_of_native = *info->pSignalSemaphores;
    return VK_SUCCESS;
}
static PFN_vkDestroySemaphore destroy_truly;
static VKAPI_ATTR void VKAPI_CALL note_destroyed(VkDevice d, VkSemaphore semaphore,
                                                 const VkAllocationCallbacks *a)
{
    if (!destroyed) destroyed = semaphore;
    destroy_truly(d, semaphore, a);
}

/* The queue of the library is busy with other work, so that the wait has not begun when event and stream are gone. */
Test(driver, semaphores_live_as_long_as_a_native_wait)
{
    vulkan_device *d = device;
    PFN_vkQueueSubmit submit_truly = d->vk.QueueSubmit;
    void *queue = queue_of_test(), *event, *next;
    cr_assert_eq(driver->event_record(device, queue, &event), TN_OK, "%s", last_error);
    const VkSemaphore awaited = ((vulkan_queue *)queue)->timeline->semaphore;
    destroy_truly = d->vk.DestroySemaphore;
    d->vk.DestroySemaphore = note_destroyed;
    d->vk.QueueSubmit = never_submit;
    cr_assert_eq(driver->native_wait(device, (uintptr_t)d->queue, event), TN_OK, "%s", last_error);
    d->vk.QueueSubmit = submit_truly;
    driver->event_release(device, event);
    driver->queue_destroy(device, queue);
    cr_assert(!destroyed, "a semaphore that a queue waits for is destroyed");
    cr_assert(end_of_native, "nobody learns when the wait has ended");
    const VkSemaphoreSignalInfo end = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = end_of_native, .value = 1};
    cr_assert_eq(d->vk.SignalSemaphore(d->device, &end), VK_SUCCESS);
    queue = queue_of_test();
    cr_assert_eq(driver->event_record(device, queue, &next), TN_OK, "%s", last_error);
    cr_assert_eq(driver->native_wait(device, (uintptr_t)d->queue, next), TN_OK, "%s", last_error);
    cr_assert_eq(destroyed, awaited, "the wait has ended, and its semaphores are kept");
    driver->event_release(device, next);
    driver->queue_destroy(device, queue);
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

static VKAPI_ATTR VkResult VKAPI_CALL stamps_across_the_largest(VkDevice d, VkQueryPool pool, uint32_t first,
                                                                uint32_t n, size_t bytes, void *out,
                                                                VkDeviceSize stride, VkQueryResultFlags flags)
{
    static uint32_t calls;
    *(uint64_t *)out = calls++ % 2 ? 500 : (UINT64_C(1) << 36) - 1000;
    return VK_SUCCESS;
}

/* Time stamps of 36 bits begin at 0 again, on Intel's GPUs once an hour. */
Test(driver, the_time_between_two_events_across_the_largest_time_stamp)
{
    vulkan_device *d = device;
    void *queue = queue_of_test(), *start, *end;
    double ms = -1;
    cr_assert_eq(driver->event_record(device, queue, &start), TN_OK);
    cr_assert_eq(driver->event_record(device, queue, &end), TN_OK);
    d->vk.GetQueryPoolResults = stamps_across_the_largest;
    d->stamp_bits = 36;
    d->nanoseconds = 2;
    cr_assert_eq(driver->event_elapsed(device, start, end, &ms), TN_OK, "%s", last_error);
    cr_assert_float_eq(ms, 1500 * 2 / 1e6, 1e-9, "%g ms", ms);
    driver->event_release(device, start);
    driver->event_release(device, end);
    driver->queue_destroy(device, queue);
}

/* The batch of the first event is held back. Its slot is for the second event only when the batch has written it. */
Test(driver, the_slot_of_a_time_stamp_that_is_not_written_yet)
{
    vulkan_device *d = device;
    void *first = queue_of_test(), *second = queue_of_test();
    vulkan_event *released, *other;
    atomic_store(&may_return, 0);
    cr_assert_eq(driver->queue_callback(device, first, hold, NULL), TN_OK);
    cr_assert_eq(driver->event_record(device, first, (void **)&released), TN_OK);
    if (!released->stamps) cr_skip_test("the device has no time stamps");
    uint32_t slot = released->stamp;
    driver->event_release(device, released);
    cr_assert_eq(driver->event_record(device, second, (void **)&other), TN_OK);
    uint32_t next = other->stamp;
    driver->event_release(device, other);
    atomic_store(&may_return, 1);
    cr_assert_eq(driver->queue_finish(device, first), TN_OK);
    cr_assert_eq(driver->queue_finish(device, second), TN_OK);
    cr_assert_neq(next, slot, "two events write one slot");
    cr_assert_eq(d->stamps->n_free, VULKAN_STAMPS, "a slot has not come back");
    driver->queue_destroy(device, first);
    driver->queue_destroy(device, second);
}

/* ---- The size of batches ------------------------------------------------------------------------------------- */

static PFN_vkWaitSemaphores wait_truly;
static uint32_t waits;
static VKAPI_ATTR VkResult VKAPI_CALL count_waits(VkDevice d, const VkSemaphoreWaitInfo *info,
                                                  uint64_t timeout)
{
    VkResult result = wait_truly(d, info, timeout);
    waits++;
    if (info->pValues[0] > told_value) told_value = info->pValues[0];
    return result;
}

/* The device seems to be busy for ever, so that nothing but their sizes ends batches. */
static vulkan_queue *busy_queue(void **out_memory)
{
    vulkan_device *d = device;
    void *queue = queue_of_test();
    *out_memory = memory_of(64);
    wait_truly = d->vk.WaitSemaphores;
    d->vk.WaitSemaphores = count_waits;
    d->vk.GetSemaphoreCounterValue = tell_value;
    cr_assert_eq(driver->fill(device, queue, *out_memory, 0, 64, "\x1", 1), TN_OK);
    return queue;
}

static uint32_t batches_of(const vulkan_queue *q)
{
    uint32_t n = 0;
    for (const vulkan_batch *b = q->submitted; b; b = b->next) n++;
    cr_assert_eq(n, q->n_submitted);
    return n;
}

/* Drivers end a submission that takes seconds, so heavy commands are committed before there are many. */
Test(driver, a_batch_of_heavy_commands_is_short)
{
    vulkan_device *d = device;
    void *memory;
    vulkan_queue *q = busy_queue(&memory);
    VkCommandBuffer commands;
    cr_assert_eq(batches_of(q), 1);
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < 32; i++) {
        cr_assert_eq(vulkan_begin(q, &commands), TN_OK);
        cr_assert_eq(vulkan_end(q, 4e7), TN_OK);
    }
    pthread_mutex_unlock(&d->lock);
    cr_assert_eq(batches_of(q), 1 + 16);
    for (int i = 0; i < 64; i++) cr_assert_eq(driver->fill(device, q, memory, 0, 64, "\x1", 1), TN_OK);
    cr_assert_eq(batches_of(q), 1 + 16 + 1);
    driver->queue_destroy(device, q);
    driver->free(device, memory);
}

/* A row of 40,000 elements by a column. All are the first element of the memory. One item does not keep a device busy: the turns of
 * 128 items take as long as those of 4,096. */
Test(driver, the_work_of_a_product_is_its_depth)
{
    void *program, *kernel, *memory;
    vulkan_queue *q = busy_queue(&memory);
    gpu_nest nest = {.numel = 1, .rank = 2, .sizes = {1, 1}, .immediate = 8, .scalars = {40000}};
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) nest.dtypes[k] = GPU_F32;
    nest.values[0] = 1;
    cr_assert_eq(driver->program_create(device, "numbers.cl", "-DGPU_TYPE=32", NULL, &program, NULL), TN_OK);
    cr_assert_eq(driver->kernel_create(device, program, "product", &kernel), TN_OK, "%s", last_error);
    const gpu_argument operand = {.is_memory = 1, .value = memory}, none = {.is_memory = 1};
    const gpu_argument arguments[] = {
        operand, operand, operand, none, {.bytes = sizeof nest, .value = &nest}};
    cr_assert_eq(driver->launch(device, q, kernel, arguments, 5, 128, 128), TN_OK, "%s", last_error);
    cr_assert_not_null(q->open);
    cr_assert_eq(q->open->work, 40000 * 4096 / 128, "%g", q->open->work);
    cr_assert_eq(driver->launch(device, q, kernel, arguments, 5, 8192, 128), TN_OK, "%s", last_error);
    cr_assert_eq(q->open->work, 40000 * 4096 / 128 + 40000, "%g", q->open->work);
    driver->queue_destroy(device, q);
    driver->kernel_destroy(device, kernel);
    driver->program_destroy(device, program);
    driver->free(device, memory);
}

static PFN_vkAllocateMemory allocate_truly;
static uint32_t allocations;
static VKAPI_ATTR VkResult VKAPI_CALL count_allocations(VkDevice d, const VkMemoryAllocateInfo *info,
                                                        const VkAllocationCallbacks *a, VkDeviceMemory *out)
{
    allocations++;
    return allocate_truly(d, info, a, out);
}

/* A device may allow 4,096 allocations only: batches share them, and the host waits when too many have not ended. */
Test(driver, a_device_that_is_slower_than_the_host)
{
    enum { LAUNCHES = 700 };
    vulkan_device *d = device;
    void *memory;
    vulkan_queue *q = busy_queue(&memory);
    allocate_truly = d->vk.AllocateMemory;
    d->vk.AllocateMemory = count_allocations;
    uint32_t most = 0;
    for (int i = 0; i < LAUNCHES; i++) {
        void *event;
        cr_assert_eq(driver->fill(device, q, memory, 1, 3, "\x1", 1), TN_OK, "%s", last_error);
        cr_assert_eq(driver->event_record(device, q, &event), TN_OK, "%s", last_error);
        driver->event_release(device, event);
        if (batches_of(q) > most) most = q->n_submitted;
    }
    cr_assert(most > 100 && most <= 257, "%u batches at once", most);
    cr_assert_gt(waits, 0);
    cr_assert_leq(allocations, 257 / VULKAN_SLAB_CHUNKS + 1);
    driver->queue_destroy(device, q);
    driver->free(device, memory);
}

/* ---- Other devices ------------------------------------------------------------------------------------------- */

Test(driver, the_family_of_queues_that_only_computes)
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
Test(driver, memory_is_of_a_type_that_buffers_may_have)
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
Test(driver, a_kernel_that_needs_more_shared_memory_than_the_device_has)
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
Test(driver, processors_are_the_last_devices)
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
Test(driver, memory_above_the_limits_is_refused)
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
Test(driver, memory_above_the_budget_is_refused)
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
Test(driver, a_device_without_a_budget_leaves_memory_to_others)
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

Test(driver, compute_units_of_devices_that_tell_and_of_others)
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
static uint32_t exact, empty; /* operations that may not be fused, and OpNop, in the last module */
static VKAPI_ATTR VkResult VKAPI_CALL count_exact(VkDevice d, const VkShaderModuleCreateInfo *info,
                                                  const VkAllocationCallbacks *a, VkShaderModule *out)
{
    const uint32_t decorate = 3 << 16 | 71, no_contraction = 42;
    exact = empty = 0;
    for (size_t at = 5; at < info->codeSize / 4; at += info->pCode[at] >> 16) {
        exact += info->pCode[at] == decorate && info->pCode[at + 2] == no_contraction;
        empty += (info->pCode[at] & 0xffff) == 0;
    }
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
    cr_assert_eq(empty, 0, "they may not stand among decorations");
}

static uint32_t declared, allowed_modes, misplaced; /* modes of the last module, as those of a device */
static VKAPI_ATTR VkResult VKAPI_CALL read_modes(VkDevice d, const VkShaderModuleCreateInfo *info,
                                                 const VkAllocationCallbacks *a, VkShaderModule *out)
{
    static const uint32_t names[3] = {4461, 4459, 4462}, capabilities[3] = {4466, 4464, 4467};
    const uint32_t *words = info->pCode, n = (uint32_t)(info->codeSize / 4);
    uint32_t entry = 0, previous = 0;
    declared = allowed_modes = 0;
    for (uint32_t at = 5; at < n; previous = words[at] & 0xffff, at += words[at] >> 16) {
        uint32_t opcode = words[at] & 0xffff;
        if (opcode == 15) entry = words[at + 2];
        for (uint32_t i = 0; i < 3; i++) {
            allowed_modes |= (opcode == 17 && words[at + 1] == capabilities[i]) << i;
            if (opcode != 16 || words[at + 2] != names[i]) continue;
            misplaced += words[at] >> 16 != 4 || words[at + 1] != entry || words[at + 3] != 32;
            misplaced += previous != 15 && previous != 16;
            declared |= 1u << i;
        }
    }
    return make(d, info, a, out);
}

/* Without SignedZeroInfNanPreserve a driver may assume that there is no NaN. */
Test(driver, modules_say_how_floats_are_computed)
{
    vulkan_device *d = device;
    VkPhysicalDeviceVulkan12Properties has = {.sType =
                                                  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &has};
    d->vk.GetPhysicalDeviceProperties2(d->physical, &p);
    make = d->vk.CreateShaderModule;
    d->vk.CreateShaderModule = read_modes;
    multiply();
    cr_assert_eq(misplaced, 0);
    cr_assert_eq(declared, allowed_modes, "modes 0x%x with capabilities for 0x%x", declared, allowed_modes);
    cr_assert_eq(declared & 1, has.shaderSignedZeroInfNanPreserveFloat32);
    cr_assert_eq(declared >> 1 & 1, has.shaderDenormPreserveFloat32);
    cr_assert_eq(declared >> 2 & 1, has.shaderRoundingModeRTEFloat32);
    set("fast_math", tn_value_bool(1));
    multiply();
    cr_assert_eq(declared & 1, has.shaderSignedZeroInfNanPreserveFloat32);
    set("fast_math", tn_value_bool(0));
    d->float_modes = 0;
    multiply();
    cr_assert_eq(declared, 0);
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
