/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the caching allocator share: a fake GPU, its context and device, and blocks. */
#ifndef TESTS_CORE_ALLOCATOR_SUITE_H
#define TESTS_CORE_ALLOCATOR_SUITE_H

#include <criterion/criterion.h>
#include "core/allocator.h"
#include "fake_driver.h"

#define MIB (1024ull * 1024)

static fake gpu;
static tn_context *ctx;
static tni_device *d;

static inline void open_as(fake from)
{
    gpu = from;
    ctx = fake_context(NULL, &gpu);
    d = tni_device_get(ctx, tn_device_parse(ctx, "gpu:0"));
    cr_assert_not_null(d);
}

static inline tni_block *get(uint64_t bytes)
{
    tni_block *b = NULL;
    cr_assert_eq(tni_block_alloc(d, bytes, tni_current_stream(d), &b), TN_OK, "%llu bytes: %s",
                 (unsigned long long)bytes, tn_last_error() ? tn_last_error()->message : "");
    return b;
}

#endif
