/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the caching allocator share: a fake GPU, its context and device, and blocks. */
#ifndef TESTS_CORE_ALLOCATOR_SUITE_H
#define TESTS_CORE_ALLOCATOR_SUITE_H

#include <criterion/criterion.h>
#include "core/allocator.h"
#include "fake_driver.h"

#define KIB 1024ull
#define MIB (1024ull * 1024)

/* Before it is opened tests set what it has besides. */
static fake gpu = {.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE};
static tn_context *ctx;
static tni_device *d;

static inline void open_gpu(void)
{
    ctx = fake_context(NULL, &gpu);
    d = tni_device_get(ctx, tn_device_parse(ctx, "gpu:0"));
    cr_assert_not_null(d);
}

static inline void close_gpu(void)
{
    tn_context_destroy(ctx);
    cr_assert_eq(gpu.breaches, 0);
}

static inline tni_block *get_on(tni_device *device, uint64_t bytes)
{
    tni_block *b = NULL;
    cr_assert_eq(tni_block_alloc(device, bytes, tni_current_stream(device), &b), TN_OK, "%llu bytes: %s",
                 (unsigned long long)bytes, tn_last_error() ? tn_last_error()->message : "");
    return b;
}

static inline tni_block *get(uint64_t bytes)
{
    return get_on(d, bytes);
}

static inline tn_memory_stats stats(const tni_device *device)
{
    tn_memory_stats s = {.size = sizeof s};
    cr_assert_eq(tn_memory_get_stats(device->ctx, device->id, &s), TN_OK);
    return s;
}

#endif
