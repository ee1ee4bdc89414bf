/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of gpu.h alone, below the contract, for its tests: a host that keeps errors, and the first device. */
#ifndef TENON_TESTS_GPU_DRIVER_FIXTURE_H
#define TENON_TESTS_GPU_DRIVER_FIXTURE_H

#include "gpu.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static char last_error[8192];
static int32_t last_native;

static int32_t record_error(void *context, int32_t status, const char *message)
{
    snprintf(last_error, sizeof last_error, "%s", message);
    return status;
}
static int32_t record_native(void *context, int32_t status, const char *message, int32_t native,
                             const char *name)
{
    last_native = native;
    return record_error(context, status, message);
}

/* Tests may add slots before a call of the driver asks for them. */
static tn_host host = {.size = sizeof(tn_host), .error = record_error, .error_native = record_native};
static gpu_plugin plugin = {.host = &host};
static void *device;
static const gpu_driver *const driver = &gpu_the_driver;

/* Skips the test if there is no device; `absent` says what is missing. */
static void open_first_device(const char *absent)
{
    gpu_found *found = plugin.driver_state = calloc(1, driver->state_bytes);
    driver->find(found);
    if (!found->count) cr_skip_test("%s: %s", absent, found->reason);
    cr_assert_eq(driver->open(&plugin, 0, &device), TN_OK, "%s", last_error);
}
static void close_first_device(void)
{
    if (device) driver->close(device);
    if (driver->forget) driver->forget(plugin.driver_state);
    free(plugin.driver_state);
}

#endif
