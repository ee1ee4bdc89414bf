/* SPDX-License-Identifier: Apache-2.0 */
/* What a program learns of an XPU device: where it is, how much memory is free, which priorities its streams have. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#define MEMORY ((uint64_t)4 << 30) /* of a test device, of which somebody else has a quarter */

static tn_context *ctx;
static tn_device device;

static void open_second(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    device = tn_device_parse(ctx, "xpu:1");
}

Test(facts, of_the_hardware)
{
    static const uint8_t none[16];
    tn_device_facts f = {.size = sizeof f};
    open_second();
    cr_assert_eq(tn_device_get_facts(ctx, device, &f), TN_OK, "%s", tn_last_error()->message);
    cr_expect_eq(memcmp(f.uuid, none, sizeof none), 0, "the driver gives none");
    cr_expect_str_eq(f.pci_address, "");
    tn_context_destroy(ctx);
    setenv("ZE_TEST_UUID", "a", 1);
    open_second();
    cr_assert_eq(tn_device_get_facts(ctx, device, &f), TN_OK);
    cr_expect_eq(memcmp(f.uuid, "bbbbbbbbbbbbbbbb", 16), 0);
    cr_expect_str_eq(f.pci_address, "0000:66:00.0");
    cr_expect(f.features & TN_FEATURE_ADDRESSES);
    tn_context_destroy(ctx);
}

/* Without system management the plugin knows of its own memory only. */
Test(facts, free_memory)
{
    for (int managed = 0; managed < 2; managed++) {
        uint64_t before, after, total;
        if (managed) setenv("ZES_ENABLE_SYSMAN", "1", 1);
        open_second();
        tn_scope *s = tn_scope_open(ctx);
        cr_assert_eq(tn_device_memory(ctx, device, &before, &total), TN_OK, "%s", tn_last_error()->message);
        cr_expect_eq(total, MEMORY);
        cr_expect_leq(before, managed ? MEMORY / 4 * 3 : MEMORY);
        cr_expect_gt(before, (managed ? MEMORY / 4 * 3 : MEMORY) - (64 << 20));
        cr_assert_not_null(tn_empty(s, TN_INTS(64 << 20), .dtype = TN_UINT8, .device = device));
        cr_assert_eq(tn_device_memory(ctx, device, &after, &total), TN_OK);
        cr_expect_eq(before - after, 64 << 20);
        tn_scope_close(s);
        tn_context_destroy(ctx);
    }
}

/* The driver reports the priority of each command list: Level Zero's 2 is the most urgent one, 0 the usual one. */
Test(facts, priorities_of_streams)
{
    char path[] = "/tmp/tenon_priorities_XXXXXX", text[4096] = "";
    static const int32_t priorities[] = {-1, 1, 0};
    int file = mkstemp(path);
    tn_device_facts f = {.size = sizeof f};
    cr_assert_geq(file, 0);
    open_second();
    cr_assert_eq(tn_device_get_facts(ctx, device, &f), TN_OK);
    cr_expect_eq(f.priority_high, -1);
    cr_expect_eq(f.priority_low, 1);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK); /* opened, with its own streams */
    setenv("ZE_TEST_REPORT", path, 1);
    setenv("ZE_TEST_PRIORITIES", "1", 1);
    for (int i = 0; i < 3; i++) {
        tn_stream *stream;
        cr_assert_eq(tn_stream_create(ctx, device, priorities[i], &stream), TN_OK, "%s",
                     tn_last_error()->message);
        tn_stream_release(stream);
    }
    unsetenv("ZE_TEST_PRIORITIES");
    unsetenv("ZE_TEST_REPORT");
    tn_context_destroy(ctx);
    cr_assert_gt(read(file, text, sizeof text - 1), 0);
    close(file);
    unlink(path);
    cr_expect_str_eq(text, "ze_driver: zeCommandListCreateImmediate: priority 2\n"
                           "ze_driver: zeCommandListCreateImmediate: priority 1\n"
                           "ze_driver: zeCommandListCreateImmediate: priority 0\n");
}
