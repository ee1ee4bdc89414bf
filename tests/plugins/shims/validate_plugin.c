/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins that break the contract, and programs that forget a wait, seen by `validate` under the real host.
 * Each lie of liar.c must be found, be the only thing found, and leave a living process.
 */
#include <tenon/plugin.h>
#include "fixture.h"

static tn_context *context_of_liar(const char *lie)
{
    tn_library *library = NULL;
    setenv("TENON_LIAR", lie, 1);
    tn_context *ctx = context_with("validate=1");
    cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_LIAR"), &library), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    return ctx;
}

/* 1 + 1 on the liar's device, which may fail; then the device is waited for. */
static void use(tn_context *ctx)
{
    tn_device d = tn_device_parse(ctx, "liar:0");
    tn_scope_options options = {.size = sizeof(options), .device = d};
    tn_scope *s = tn_scope_open_with(ctx, &options);
    const float one[] = {1, 1, 1, 1};
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(4), one, d);
    float y[4] = {0};
    tn_to_host(s, tn_add(s, x, x), y, sizeof(y));
    if (!tn_scope_failed(s)) cr_assert_eq(y[3], 2);
    tn_scope_close(s);
    tn_device_memory(ctx, d, NULL, NULL);
    tn_device_synchronize(ctx, d);
}

TestSuite(liars);

static const struct {
    const char *lie, *kind, *finder, *text, *slot;
} liars[] = {
    {"facts-past-size", "written-past-size", "validate", "device.facts writes past", "device.facts"},
    {"size-changed", "size-changed", "validate", "sets size to", "device.facts"},
    {"null-device", "null-handle", "validate", "device.open succeeds and gives no device", "device.open"},
    {"written-on-failure", "written-on-failure", "validate",
     "memory.alloc fails and has written 'out_allocation'", "memory.alloc"},
    {"output-not-written", "output-not-written", "validate", "succeeds and has not written 'out_total'",
     "memory.info"},
    {"error-then-ok", "error-then-ok", "validate", "aten::add.Tensor records an error and returns success",
     "kernel.run"},
    {"not-in-kernel", "not-in-kernel", "validate", "the kernel of aten::add.Tensor calls host.intern",
     "host.intern"},
    {"call-outside", "call-outside", "validate",
     "host.workspace with a call that does not run on this thread", "host.workspace"},
    {"unknown-flags", "unknown-flags", "validate", "the row of aten::add.Tensor has flags 0x100000",
     "plugin.get_interface"},
    {"unknown-operator", "unknown-operator", "validate", "there is no operator aten::addd.Tensor",
     "plugin.get_interface"},
    {"refused-after-yes", "refused-after-yes", "host",
     "the kernel of aten::add.Tensor refused after it had agreed", NULL},
};

Test(liars, an_honest_plugin_has_no_findings)
{
    tn_context *ctx = context_of_liar("");
    use(ctx);
    expect_no_finding(ctx);
    tn_context_destroy(ctx);
    cr_assert_str_eq(log_text, "");
}

Test(liars, each_lie_is_found_and_nothing_else)
{
    for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
        tn_context *ctx = context_of_liar(liars[i].lie);
        if (strcmp(liars[i].lie, "null-device") == 0)
            tn_device_synchronize(ctx, tn_device_parse(ctx, "liar:0"));
        else
            use(ctx);
        cr_assert_gt(tn_inspect_finding_count(ctx), 0, "%s was not found", liars[i].lie);
        tn_finding f = expect_finding(ctx, liars[i].kind);
        cr_assert_str_eq(f.finder, liars[i].finder, "%s", liars[i].lie);
        cr_assert_str_eq(f.plugin, "liar");
        assert_contains(f.text, liars[i].text);
        if (liars[i].slot) cr_assert_str_eq(f.slot, liars[i].slot);
        tn_context_destroy(ctx);
    }
}

/* The host refuses the plugin; the finding names the operator. */
Test(liars, a_row_without_a_size_is_found_and_refused)
{
    setenv("TENON_LIAR", "no-size", 1);
    tn_context *ctx = context_with("validate=1");
    cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_LIAR"), NULL), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message,
                    "kernel row 0 of liar: size is 0; set it to sizeof(tn_kernel_row)");
    tn_finding f = expect_finding(ctx, "no-size");
    assert_contains(f.text, "the row of aten::add.Tensor has size 0");
    cr_assert_str_eq(f.slot, "plugin.get_interface");
    tn_context_destroy(ctx);
}

Test(liars, invalid_statuses_are_found_by_both)
{
    tn_context *ctx = context_of_liar("no-status");
    use(ctx);
    cr_assert_eq(count_findings(ctx, "no-status", NULL), tn_inspect_finding_count(ctx));
    assert_contains(log_text, "validate: plugin liar: no-status: device.synchronize returns 4711");
    assert_contains(log_text, "host: plugin liar: no-status: waiting for a device returned 4711");
    tn_context_destroy(ctx);
    ctx = context_of_liar("no-status-kernel");
    use(ctx);
    assert_contains(log_text, "validate: plugin liar: no-status: aten::add.Tensor returns -3");
    tn_context_destroy(ctx);
}

/* It runs on a thread of the host, not in a callback of the stream. */
Test(liars, a_release_may_call_the_host)
{
    tn_context *ctx = context_of_liar("reentry");
    use(ctx);
    cr_assert_eq(tn_inspect_finding_count(ctx), 0);
    tn_context_destroy(ctx);
}

Test(liars, an_allocation_that_is_given_twice)
{
    tn_context *ctx = context_of_liar("duplicate-handle");
    tn_device d = tn_device_parse(ctx, "liar:0");
    tn_scope_options options = {.size = sizeof(options), .device = d};
    tn_scope *s = tn_scope_open_with(ctx, &options);
    tn_tensor *a = tn_empty(s, TN_INTS(8 << 20), .dtype = TN_FLOAT32);
    tn_tensor *b = tn_empty(s, TN_INTS(8 << 20), .dtype = TN_FLOAT32);
    cr_assert(a && b);
    tn_finding f = expect_finding(ctx, "duplicate-handle");
    assert_contains(f.other, "memory.alloc, call");
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

/* ---- Races ------------------------------------------------------------------------------------------- */

/* Without a wait there is a race on the device, on purpose; ThreadSanitizer must not end the test. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:^kernel_fill$\nrace:^kernel_pointwise$\n";
}

/* x is filled on the default stream and read on another one, with a wait between or without. */
static tn_context *two_streams(int wait)
{
    tn_context *ctx = context_with("validate=1");
    tn_device d = tn_device_parse(ctx, "reference:0");
    tn_scope_options options = {.size = sizeof(options), .device = d};
    tn_scope *s = tn_scope_open_with(ctx, &options);
    tn_stream *other = NULL, *first = tn_stream_default(ctx, d);
    tn_tensor *x = tn_full(s, TN_INTS(1000), 3, .dtype = TN_FLOAT32), *y;
    cr_assert_eq(tn_stream_create(ctx, d, 0, &other), TN_OK);
    if (wait) cr_assert_eq(tn_stream_wait_stream(other, first), TN_OK);
    tn_stream_set_current(ctx, other);
    y = tn_exp(s, x);
    if (wait) cr_assert_eq(tn_record_stream(x, other), TN_OK);
    cr_assert_not_null(y);
    tn_stream_synchronize(other);
    tn_stream_set_current(ctx, first);
    tn_scope_close(s);
    tn_stream_release(other);
    return ctx;
}

/* The race is a real one: ThreadSanitizer ends the program for it. */
#if TN_SANITIZER != TN_SANITIZER_THREAD
Test(races, a_missing_wait_is_found_with_both_places)
{
    tn_context *ctx = two_streams(0);
    tn_finding f = expect_finding(ctx, "race");
    cr_assert_str_eq(f.op, "aten::exp");
    cr_assert_eq(f.stream, 1);
    assert_contains(f.text, "aten::exp on stream 1 reads bytes 0 to 3999 of an allocation that prim::fill on "
                            "stream 0 writes");
    assert_contains(f.place, "kernel.run of aten::exp, call ");
    assert_contains(f.other, "kernel.run of prim::fill, call ");
    tn_context_destroy(ctx);
}
#endif

Test(races, with_the_wait_there_is_none)
{
    tn_context *ctx = two_streams(1);
    expect_no_finding(ctx);
    tn_context_destroy(ctx);
    cr_assert_str_eq(log_text, "");
}
