/* SPDX-License-Identifier: Apache-2.0 */
/* The second device of the libcuda.so.1 for tests, which CUDA and HIP programs of tests see. */
#ifndef TESTS_CUDA_SECOND_DEVICE_H
#define TESTS_CUDA_SECOND_DEVICE_H

#include <string.h>
#include "../gpu/device_suite.h"

static tn_device other;

static inline void open_second(const char *type)
{
    char name[16];
    snprintf(name, sizeof name, "%s:1", type);
    other = tn_device_parse(ctx, name);
}

/* The two devices of `type` and a scope. */
static inline void open_both(const char *type)
{
    open_first(NULL, type, NO_TWINS);
    open_second(type);
    s = tn_scope_open(ctx);
}

/* Its facts, of which these are what the library says. */
static inline tn_device_facts expect_facts(const char *architecture)
{
    tn_device_facts facts = {.size = sizeof facts};
    cr_assert_eq(tn_device_get_facts(ctx, other, &facts), TN_OK);
    cr_assert_str_eq(facts.name, "Test GPU 1");
    cr_assert_str_eq(facts.architecture, architecture);
    cr_assert_str_eq(facts.pci_address, "0000:66:00.0");
    cr_assert_eq(memcmp(facts.uuid, "bbbbbbbbbbbbbbbb", 16), 0);
    cr_assert_eq(facts.total_memory, (uint64_t)4 << 30);
    cr_assert_eq(facts.peers, 1);
    return facts;
}

/* The default stream of the program by a number that it has: it is a stream like others. */
static inline void expect_default_stream(uint64_t number)
{
    tn_stream *stream = NULL;
    uint64_t native = 7;
    cr_assert_eq(tn_stream_wrap(ctx, device, number, &stream), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    cr_assert_eq(tn_stream_native(stream, &native), TN_OK);
    cr_assert_eq(native, 0);
    cr_assert_eq(tn_stream_set_current(ctx, stream), TN_OK);
    expect_pair(tn_add(s, pair(device, 1, 2), pair(device, 3, 4)), 4, 6);
    tn_stream_set_current(ctx, tn_stream_default(ctx, device));
    tn_stream_release(stream);
}

#endif
