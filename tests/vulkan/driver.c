/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Vulkan driver alone, below the contract: the order of batches, fills and copies of every form, launches of many
 * groups, pipelines. Devices unlike the one at hand are in driver_devices.c, what fails is in driver_failures.c.
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

/* Work that ends when a semaphore has a value. */
static void submit_wait(VkQueue queue, VkSemaphore semaphore, uint64_t value)
{
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                    .waitSemaphoreValueCount = 1,
                                                    .pWaitSemaphoreValues = &value};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &timeline,
                               .waitSemaphoreCount = 1,
                               .pWaitSemaphores = &semaphore,
                               .pWaitDstStageMask = &stage};
    vulkan_device *d = device;
    cr_assert_eq(d->vk.QueueSubmit(queue, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
}

static void *open_later(void *timeline)
{
    vulkan_device *d = device;
    vulkan_timeline *gate = timeline;
    const VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                        .semaphore = gate->semaphore,
                                        .value = ++gate->last};
    usleep(50000);
    atomic_store(&has_run, 1);
    cr_assert_eq(d->vk.SignalSemaphore(d->device, &info), VK_SUCCESS);
    return NULL;
}

/* Another library submits to the queue of which the program has the handle. */
Test(driver, a_stream_sees_what_others_have_submitted)
{
    vulkan_device *d = device;
    vulkan_timeline *gate;
    uint64_t native;
    int32_t done = 1;
    void *queue = queue_of_test();
    pthread_t thread;
    cr_assert_eq(vulkan_timeline_create(d, &gate), TN_OK, "%s", last_error);
    cr_assert_eq(driver->native(device, TN_NATIVE_STREAM, queue, &native), TN_OK, "%s", last_error);
    cr_assert_eq(driver->queue_finish(device, queue), TN_OK, "%s", last_error);
    for (uint64_t round = 1; round <= 3; round++) {
        submit_wait((VkQueue)(uintptr_t)native, gate->semaphore, round);
        for (int32_t i = 0; i < 3; i++) {
            cr_assert_eq(driver->queue_query(device, queue, &done), TN_OK, "%s", last_error);
            cr_assert_eq(done, 0, "query %d of round %d", i, (int)round);
        }
        atomic_store(&has_run, 0);
        cr_assert_eq(pthread_create(&thread, NULL, open_later, gate), 0);
        if (round == 1)
            cr_assert_eq(driver->queue_finish(device, queue), TN_OK, "%s", last_error);
        else
            while (!done) cr_assert_eq(driver->queue_query(device, queue, &done), TN_OK, "%s", last_error);
        cr_assert(atomic_load(&has_run), "the stream is done before the work of the other library");
        cr_assert_eq(pthread_join(thread, NULL), 0);
    }
    driver->queue_destroy(device, queue);
    vulkan_timeline_release(d, gate);
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

static VkSemaphore semaphore_of(const void *queue)
{
    return ((const vulkan_queue *)queue)->timeline->semaphore;
}

/* The queue of the library is busy with other work, so that the wait has not begun when event and stream are gone. */
Test(driver, semaphores_live_as_long_as_a_native_wait)
{
    vulkan_device *d = device;
    PFN_vkQueueSubmit submit_truly = d->vk.QueueSubmit;
    void *queue = queue_of_test(), *event, *next, *later;
    cr_assert_eq(driver->event_record(device, queue, &event), TN_OK, "%s", last_error);
    const VkSemaphore awaited = semaphore_of(queue);
    destroy_truly = d->vk.DestroySemaphore;
    d->vk.DestroySemaphore = note_destroyed;
    d->vk.QueueSubmit = never_submit;
    cr_assert_eq(driver->native_wait(device, (uintptr_t)d->queue, event), TN_OK, "%s", last_error);
    d->vk.QueueSubmit = submit_truly;
    driver->event_release(device, event);
    driver->queue_destroy(device, queue);
    cr_assert(!destroyed, "a semaphore that a queue waits for is destroyed");
    cr_assert(end_of_native, "nobody learns when the wait has ended");
    queue = queue_of_test();
    cr_assert_neq(semaphore_of(queue), awaited, "a stream gets a semaphore that a queue waits for");
    const VkSemaphoreSignalInfo end = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = end_of_native, .value = 1};
    cr_assert_eq(d->vk.SignalSemaphore(d->device, &end), VK_SUCCESS);
    cr_assert_eq(driver->event_record(device, queue, &next), TN_OK, "%s", last_error);
    cr_assert_eq(driver->native_wait(device, (uintptr_t)d->queue, next), TN_OK, "%s", last_error);
    later = queue_of_test();
    cr_assert_eq(semaphore_of(later), awaited, "the wait has ended, and its semaphores are kept");
    driver->event_release(device, next);
    driver->queue_destroy(device, queue);
    driver->queue_destroy(device, later);
}

/* Mesa's thread that submits batches uses a semaphore after the batch that has waited for it has ended. */
Test(driver, semaphores_live_as_long_as_the_device)
{
    vulkan_device *d = device;
    void *first = queue_of_test(), *second = queue_of_test(), *other, *event, *memory = memory_of(256);
    const VkSemaphore semaphore = semaphore_of(first);
    uint8_t bytes[256] = {0};
    destroy_truly = d->vk.DestroySemaphore;
    d->vk.DestroySemaphore = note_destroyed;
    cr_assert_eq(driver->event_record(device, first, &event), TN_OK, "%s", last_error);
    cr_assert_eq(driver->queue_wait(device, second, event), TN_OK, "%s", last_error);
    driver->event_release(device, event);
    driver->queue_destroy(device, first);
    other = queue_of_test();
    cr_assert_neq(semaphore_of(other), semaphore, "a stream gets a semaphore that another one waits for");
    cr_assert_eq(driver->queue_finish(device, second), TN_OK, "%s", last_error);
    cr_assert(!destroyed, "a semaphore is destroyed before the device is idle");
    first = queue_of_test();
    cr_assert_eq(semaphore_of(first), semaphore, "the next stream has another semaphore");
    cr_assert_eq(driver->fill(device, first, memory, 0, sizeof bytes, "\x7", 1), TN_OK);
    cr_assert_eq(driver->read(device, first, bytes, memory, 0, sizeof bytes), TN_OK);
    cr_assert_eq(driver->queue_finish(device, first), TN_OK, "%s", last_error);
    cr_assert_eq(bytes[255], 7);
    driver->queue_destroy(device, first);
    driver->queue_destroy(device, other);
    driver->queue_destroy(device, second);
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
