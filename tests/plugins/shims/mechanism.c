/* SPDX-License-Identifier: Apache-2.0 */
/* How shims are requested, found and refused; and inject, which shows that every call passes one. */
#include "fixture.h"

#include <sys/stat.h>
#include <unistd.h>

TestSuite(shims);

static float sum_on(tn_context *ctx, const char *device)
{
    tn_scope_options options = {.size = sizeof(options), .device = tn_device_parse(ctx, device)};
    tn_scope *s = tn_scope_open_with(ctx, &options);
    tn_tensor *x = tn_arange(s, 6, .dtype = TN_FLOAT32);
    float sum = (float)tn_item_double(s, tn_sum(s, tn_add(s, x, x)));
    if (tn_scope_failed(s)) sum = -1;
    tn_scope_close(s);
    return sum;
}

Test(shims, none_is_loaded_when_nobody_asks)
{
    tn_context *ctx = context_with(NULL);
    tn_candidate_info c = shim_candidate(ctx, "inject");
    cr_assert_eq(c.state, TN_CANDIDATE_SKIPPED);
    assert_contains(c.reason, "set TENON_INJECT");
    cr_assert_eq(sum_on(ctx, "cpu"), 30);
    tn_context_destroy(ctx);
}

Test(shims, the_environment_asks)
{
    setenv("TENON_INJECT", "memory.alloc:1000000", 1);
    tn_context *ctx = context_with(NULL);
    cr_assert_eq(shim_candidate(ctx, "inject").state, TN_CANDIDATE_LOADED);
    cr_assert_eq(sum_on(ctx, "cpu"), 30);
    cr_assert_eq(sum_on(ctx, "reference:0"), 30);
    tn_context_destroy(ctx);
    setenv("TENON_INJECT", "0", 1); /* asks for nothing */
    ctx = context_with(NULL);
    cr_assert_eq(shim_candidate(ctx, "inject").state, TN_CANDIDATE_SKIPPED);
    tn_context_destroy(ctx);
}

Test(shims, a_missing_shim_is_an_error)
{
    const char *temporary = getenv("TMPDIR");
    char folder[4096], path[4200];
    snprintf(folder, sizeof folder, "%s/tenon-shims-XXXXXX", temporary ? temporary : P_tmpdir);
    tn_context *ctx = NULL;
    cr_assert_not_null(mkdtemp(folder));
    /* A manifest that names a file that is not a library. */
    snprintf(path, sizeof(path), "%s/broken.json", folder);
    FILE *f = fopen(path, "w");
    fputs("{\"tenon_manifest\": 1, \"name\": \"inject\", \"library\": \"none.so\", \"shim\": \"record\"}", f);
    fclose(f);
    setenv("TENON_PLUGIN_ADD", folder, 1);
    setenv("TENON_PLUGIN_PATH", "/usr/share", 1);
    cr_assert_neq(make_context("record=/nonexistent/folder/file", 0, &ctx), TN_OK);
    assert_contains(tn_last_error()->message, "shim 'record' was requested");
    /* Tools that explain get a context all the same, and the reason. */
    cr_assert_eq(make_context("record=/nonexistent/folder/file", TN_CONTEXT_TOLERATE_SHIMS, &ctx), TN_OK);
    tn_candidate_info c = shim_candidate(ctx, "record");
    cr_assert_eq(c.state, TN_CANDIDATE_FAILED);
    cr_assert_str_neq(c.reason, "");
    tn_context_destroy(ctx);
    remove(path);
    rmdir(folder);
}

Test(shims, the_standard_folders_serve_when_the_path_leads_elsewhere)
{
    setenv("TENON_PLUGIN_PATH", "/usr/share", 1);
    tn_context *ctx = context_with("inject=any:1000000");
    cr_assert_eq(shim_candidate(ctx, "inject").state, TN_CANDIDATE_LOADED);
    cr_assert_eq(tn_device_count(ctx, NULL), 0); /* and for nothing else */
    tn_context_destroy(ctx);
}

Test(shims, wishes_are_read_with_care)
{
    tn_context *ctx = NULL;
    cr_assert_eq(make_context("valdate=1", 0, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message, "'valdate=1' is unknown");
    cr_assert_eq(make_context("inject", 0, &ctx), TN_E_ARGUMENT);
    cr_assert_eq(make_context("inject=memory.allocate:3", 0, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message, "no slot 'memory.allocate'");
    cr_assert_eq(make_context("inject=memory.alloc", 0, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message, "is not SLOT:N[:STATUS]");
    cr_assert_eq(make_context("inject=memory.alloc:1:TN_E_NOTHING", 0, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message, "'TN_E_NOTHING' is not a status");
    cr_assert_eq(make_context("inject=memory.alloc:0", 0, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message, "N counts calls from 1");
    cr_assert_eq(make_context("inject=memory.free:1", 0, &ctx), TN_E_ARGUMENT); /* cannot fail */
}

static void keep_line(void *user, int32_t level, const char *text)
{
    snprintf(user, 512, "%d %s", level, text);
}

/* Programs often say no more than that there is no context. */
Test(shims, a_mistyped_setting_is_logged)
{
    char line[512] = "";
    tn_context *ctx = NULL;
    tn_context_options options = {
        .size = sizeof(options), .log = keep_line, .log_user = line, .shims = "inject=memory.allocate:3"};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_E_ARGUMENT);
    assert_contains(line, "0 shim 'inject' was requested"); /* TN_LOG_ERROR */
    assert_contains(line, "no slot 'memory.allocate'");
}

Test(shims, a_shim_is_not_a_plugin)
{
    tn_context *ctx = context_with(NULL);
    tn_library *library = NULL;
    tn_candidate_info c = shim_candidate(ctx, "inject");
    char path[4096];
    snprintf(path, sizeof(path), "%s", c.library);
    cr_assert_eq(tn_library_open(ctx, path, &library), TN_E_CONTRACT);
    assert_contains(tn_last_error()->message, "a shim: its manifest must have the key \"shim\"");
    tn_context_destroy(ctx);
}

/* ---- inject ------------------------------------------------------------------------------------------ */

static int32_t failure_of(const char *setting, const char *device, const char *part)
{
    tn_context *ctx = context_with(setting);
    tn_scope_options options = {.size = sizeof(options), .device = tn_device_parse(ctx, device)};
    tn_scope *s = tn_scope_open_with(ctx, &options);
    tn_tensor *x = tn_arange(s, 6, .dtype = TN_FLOAT32);
    tn_tensor *y = tn_add(s, tn_add(s, x, x), x);
    int32_t status = tn_scope_failed(s);
    (void)y;
    if (status) assert_contains(tn_scope_error(s)->message, part);
    tn_scope_close(s);
    cr_assert_eq(sum_on(ctx, device), 30); /* once only: all is well afterwards */
    tn_context_destroy(ctx);
    return status;
}

Test(shims, the_nth_call_of_a_kernel_fails)
{
    const char *part = "injected failure of kernel.run of aten::add.Tensor";
    cr_assert_eq(failure_of("inject=kernel:aten::add.Tensor:2", "cpu", part), TN_E_INTERNAL);
    cr_assert_eq(failure_of("inject=kernel:aten::add.Tensor:2:TN_E_IO", "reference:0", part), TN_E_IO);
    cr_assert_eq(failure_of("inject=kernel:aten::add.Tensor:4", "cpu", part), TN_OK);
}

Test(shims, a_slot_fails_with_the_status_of_choice)
{
    cr_assert_eq(failure_of("inject=device.open:1:device_lost", "reference:0", "device.open"),
                 TN_E_DEVICE_LOST);
    /* Out of memory once: the host frees its caches and asks again. */
    cr_assert_eq(failure_of("inject=memory.alloc:1:TN_E_OUT_OF_MEMORY", "reference:0", "-"), TN_OK);
}

Test(shims, a_refusal_after_yes_is_a_finding_of_the_host)
{
    tn_context *ctx = context_with("inject=kernel:aten::add.Tensor:1:TN_E_UNSUPPORTED");
    cr_assert_eq(sum_on(ctx, "reference:0"), 30); /* the fallback saves it */
    tn_finding f = expect_finding(ctx, "refused-after-yes");
    cr_assert_str_eq(f.finder, "host");
    cr_assert_str_eq(f.plugin, "reference");
    cr_assert_str_eq(f.op, "aten::add.Tensor");
    assert_contains(log_text, "host: plugin reference: refused-after-yes: the kernel of aten::add.Tensor");
    tn_finding one = {.size = sizeof(one)};
    cr_assert_eq(tn_inspect_finding(ctx, 1, &one), TN_E_INDEX);
    tn_context_destroy(ctx);
}

Test(shims, kernels_keep_their_rows)
{
    tn_context *plain = context_with(NULL), *wrapped = context_with("inject=any:100000000");
    uint32_t count = tn_inspect_operator_count(plain), kernels = 0;
    cr_assert_eq(tn_inspect_operator_count(wrapped), count);
    for (uint32_t i = 0; i < count; i++) {
        tn_operator_info op = {.size = sizeof(op)};
        cr_assert_eq(tn_inspect_operator(plain, i, &op), TN_OK);
        uint32_t n = tn_inspect_kernel_count(plain, op.number);
        cr_assert_eq(tn_inspect_kernel_count(wrapped, op.number), n, "%s", op.name);
        for (uint32_t k = 0; k < n; k++, kernels++) {
            tn_kernel_info a = {.size = sizeof(a)}, b = {.size = sizeof(b)};
            cr_assert_eq(tn_inspect_kernel(plain, op.number, k, &a), TN_OK);
            cr_assert_eq(tn_inspect_kernel(wrapped, op.number, k, &b), TN_OK);
            cr_assert(a.strides == b.strides && a.priority == b.priority && a.flags == b.flags, "%s",
                      op.name);
            cr_assert_str_eq(a.plugin, b.plugin);
            cr_assert_str_eq(a.device_type, b.device_type);
        }
    }
    cr_assert_gt(kernels, 200);
    tn_context_destroy(wrapped);
    tn_context_destroy(plain);
}
