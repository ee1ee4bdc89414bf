/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the Vulkan driver share: the device, queues and memory, settings, a timeline with a value of the test. */
#ifndef TENON_TESTS_VULKAN_DRIVER_SUITE_H
#define TENON_TESTS_VULKAN_DRIVER_SUITE_H

#include "../gpu/driver_fixture.h"
#include "vulkan.h"

#include <string.h>

static inline void open_first(void)
{
    open_first_device("no Vulkan device (Debian: mesa-vulkan-drivers)");
}
static inline void *queue_of_test(void)
{
    void *queue;
    cr_assert_eq(driver->queue_create(device, 0, &queue), TN_OK, "%s", last_error);
    return queue;
}

static inline void *memory_of(uint64_t bytes)
{
    void *memory;
    cr_assert_eq(driver->alloc(device, bytes, &memory), TN_OK, "%s", last_error);
    return memory;
}

static inline void set(const char *name, tn_value value)
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

static uint64_t told_value; /* the value of a timeline that the driver is told */
static inline VKAPI_ATTR VkResult VKAPI_CALL tell_value(VkDevice d, VkSemaphore semaphore, uint64_t *out)
{
    *out = told_value;
    return VK_SUCCESS;
}

#endif
