/* SPDX-License-Identifier: Apache-2.0 */
/* What a test of the GPU family has that is linked with it: a host with plain memory that keeps the last error, and slots of a
 * driver that no test calls. */
#ifndef TENON_TESTS_GPU_HOST_H
#define TENON_TESTS_GPU_HOST_H

#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

static char last_error[1024];
static int32_t record_error(void *context, int32_t status, const char *message)
{
    snprintf(last_error, sizeof last_error, "%s", message);
    return status;
}
static void *host_alloc(void *context, uint64_t bytes)
{
    return malloc(bytes);
}
static void host_free(void *context, void *memory, uint64_t bytes)
{
    free(memory);
}

static void never(void)
{
    abort();
}
#define NEVER(slot) .slot = (__typeof__(((gpu_driver *)0)->slot))never

#endif
