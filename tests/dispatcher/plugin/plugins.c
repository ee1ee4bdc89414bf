/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery and loading as a program sees them: through the public headers and the shared library alone. */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
#include "folder.h"
#include "../../torture/counting.h"

TestSuite(plugins, .init = make_folder, .fini = remove_folder);

Test(plugins, a_device_plugin_without_hardware_is_loaded_and_says_why)
{
    manifest("a.json", "skewed", "skewed_sound", "");
    tn_context *ctx = context_of(folder);
    cr_assert_eq(tn_inspect_candidate_count(ctx), 1);
    tn_candidate_info c = candidate(ctx, 0);
    cr_assert_eq(c.state, TN_CANDIDATE_LOADED, "%s", c.reason);
    cr_assert_str_eq(c.reason, "this is a test");
    cr_assert_str_eq(c.version, "1.2");
    cr_assert_str_eq(c.vendor, "Tests");
    cr_assert_str_eq(c.device_type, "skewed");
    cr_assert_eq(c.device_count, 0);
    cr_assert_eq(tn_device_count(ctx, "skewed"), 0);
    cr_assert_str_eq(tn_inspect_search_path(ctx, 0), folder);
    cr_assert_null(tn_inspect_search_path(ctx, 1));
    tn_context_destroy(ctx);
}

Test(plugins, a_loaded_plugin_checks_itself)
{
    manifest("a.json", "skewed", "skewed_sound", "");
    manifest("b.json", "other", "skewed_absent", "");
    tn_context *ctx = context_of(folder);
    cr_assert_eq(tn_inspect_candidate_count(ctx), 2);
    cr_assert_eq(tn_inspect_self_test(ctx, 0), TN_OK, "it has nothing to check");
    cr_assert_eq(tn_inspect_self_test(ctx, 1), TN_E_STATE);
    assert_contains(tn_last_error()->message, "candidate 1 is not loaded");
    cr_assert_eq(tn_inspect_self_test(ctx, 2), TN_E_INDEX);
    assert_contains(tn_last_error()->message, "inspect_self_test: argument 'i': no such candidate (got 2)");
    tn_context_destroy(ctx);
    manifest("a.json", "skewed", "skewed_self_test", "");
    ctx = context_of(folder);
    cr_assert_eq(tn_inspect_self_test(ctx, 0), TN_E_DEVICE_LOST, "what the plugin returned");
    tn_context_destroy(ctx);
}

Test(plugins, experimental_interfaces_are_listed)
{
    manifest("a.json", "skewed", "skewed_experimental", "");
    tn_context *ctx = context_of(folder);
    cr_assert_eq(candidate(ctx, 0).state, TN_CANDIDATE_LOADED, "%s", candidate(ctx, 0).reason);
    cr_assert_str_eq(candidate(ctx, 0).experimental, "tenon.x.first, tenon.x.second");
    tn_context_destroy(ctx);
    manifest("a.json", "skewed", "skewed_sound", "");
    ctx = context_of(folder);
    cr_assert_str_eq(candidate(ctx, 0).experimental, "");
    tn_context_destroy(ctx);
}

/* Devices are counted at the first question for them: a plugin that cannot is loaded, but failed. */
Test(plugins, devices_that_cannot_be_counted)
{
    manifest("a.json", "skewed", "skewed_enumerate_fails", "");
    tn_context *ctx = context_of(folder);
    tn_candidate_info info = candidate(ctx, 0);
    cr_assert_eq(info.state, TN_CANDIDATE_FAILED);
    cr_assert_eq(info.device_count, 0);
    assert_contains(info.reason, "enumerate");
    tn_context_destroy(ctx);
    tn_library *library = NULL;
    setenv("TENON_PLUGIN_SELECT", "cpu", 1);
    ctx = context_of(NULL);
    cr_assert_eq(tn_library_open(ctx, built("skewed_enumerate_fails"), &library), TN_E_DEVICE);
    assert_contains(tn_last_error()->message, "skewed_enumerate_fails.so: ");
    cr_assert_null(library);
    tn_context_destroy(ctx);
}

/* The child may go on without the devices, which are the parent's: nothing of a plugin is called in it. */
Test(plugins, a_context_can_be_destroyed_in_the_child_of_a_fork)
{
    int status = 0;
    manifest("a.json", "skewed", "skewed_unloads", "");
    setenv("TENON_PLUGIN_PROBE", "never", 1);
    tn_context *ctx = context_of(folder);
    pid_t child = fork();
    if (!child) {
        tn_context_destroy(ctx);
        _exit(dlopen(built("skewed_unloads"), RTLD_NOW | RTLD_NOLOAD) ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    cr_assert_str_eq(candidate(ctx, 0).reason, "this is a test");
    tn_context_destroy(ctx);
    cr_assert_null(dlopen(built("skewed_unloads"), RTLD_NOW | RTLD_NOLOAD), "unloaded by the parent");
}

Test(plugins, a_crash_or_a_failure_costs_only_that_plugin)
{
    manifest("a.json", "skewed", "skewed_constructor_crashes", "");
    manifest("b.json", "skewed", "skewed_no_copy", "");
    manifest("c.json", "skewed", "skewed_sound", ", \"device_type\": \"other\"");
    manifest("d.json", "skewed", "skewed_longer", "");
    tn_context *ctx = context_of(folder);
    cr_assert_eq(tn_inspect_candidate_count(ctx), 4);
    /* Of one name the first sound one is taken; whether it then loads is another question. */
    expect_candidate(ctx, 0, TN_CANDIDATE_FAILED, "probe: crashed with SIGABRT (6) while loading");
    for (uint32_t i = 1; i < 4; i++) {
        cr_assert_eq(candidate(ctx, i).state, TN_CANDIDATE_SKIPPED);
        assert_contains(candidate(ctx, i).reason, "the name is taken by");
    }
    tn_context_destroy(ctx);
}

Test(plugins, a_verdict_is_remembered_until_it_is_forgotten)
{
    manifest("a.json", "skewed", "skewed_constructor_crashes", "");
    for (int round = 0; round < 4; round++) {
        if (round == 2) setenv("TENON_PLUGIN_PROBE", "always", 1);
        if (round == 3) unsetenv("TENON_PLUGIN_PROBE"); /* forgotten by then */
        tn_context *ctx = context_of(folder);
        const char *reason = candidate(ctx, 0).reason;
        if (round == 1)
            assert_contains(reason, "probe: crashed with SIGABRT (6) while loading (probed at 2");
        else
            cr_assert_str_eq(reason, "probe: crashed with SIGABRT (6) while loading");
        if (round == 2) cr_assert_eq(tn_inspect_forget_probes(), 1);
        tn_context_destroy(ctx);
    }
}

Test(plugins, the_manifest_must_name_the_right_device_type)
{
    expect_refused("skewed_sound", ", \"device_type\": \"other\"",
                   "device type: the manifest says 'other', the plugin 'skewed'");
}

Test(plugins, names_of_tenons_own_devices_are_reserved)
{
    const char *const expected[] = {
        "the device type 'best' is reserved: it means the device that Tenon chooses; a plugin of vendor "
        "'Tests' must "
        "choose another name",
        "the device type 'cpu' is reserved: it is Tenon's own device for the processor; a plugin of vendor "
        "'Tests' "
        "must choose another name",
        "the device type 'cuda' is reserved: it is Tenon's own device for NVIDIA's processors; a plugin of "
        "vendor "
        "'Tests' must choose another name",
        "the device type 'meta' is reserved: it is the host's own device for shapes without data; a plugin "
        "of vendor "
        "'Tests' must choose another name",
    };
    static const char *const types[] = {"best", "cpu", "cuda", "meta"};
    for (int i = 0; i < 4; i++) {
        char file[16], name[16], library[32];
        snprintf(file, sizeof file, "%s.json", types[i]);
        snprintf(name, sizeof name, "other_%s", types[i]);
        snprintf(library, sizeof library, "skewed_named_%s", types[i]);
        manifest(file, name, library, "");
    }
    tn_context *ctx = context_of(folder);
    cr_assert_eq(tn_inspect_candidate_count(ctx), 4);
    for (uint32_t i = 0; i < 4; i++) {
        expect_candidate(ctx, i, TN_CANDIDATE_FAILED, expected[i]);
    }
    cr_assert_str_eq(tn_inspect_reserved_name("xpu"), "it is Tenon's own device for Intel's processors");
    cr_assert_null(tn_inspect_reserved_name("acme"));
    tn_context_destroy(ctx);
}

Test(plugins, two_vendors_cannot_share_a_device_type)
{
    manifest("a.json", "skewed", "skewed_sound", "");
    manifest("b.json", "other_skewed", "skewed_named_skewed", "");
    tn_context *ctx = context_of(folder);
    cr_assert_eq(candidate(ctx, 0).state, TN_CANDIDATE_LOADED);
    expect_candidate(ctx, 1, TN_CANDIDATE_FAILED, "the device type 'skewed' is taken by the plugin 'skewed'");
    tn_context_destroy(ctx);
}

Test(plugins, requirements_are_loaded_first)
{
    manifest("a.json", "testlib", "library", ", \"requires\": [\"skewed\"]");
    manifest("b.json", "skewed", "skewed_sound", ", \"requires\": [\"absent\"]");
    tn_context *ctx = context_of(folder);
    expect_candidate(ctx, 0, TN_CANDIDATE_SKIPPED, "requires 'skewed', which is not loaded");
    cr_assert_str_eq(candidate(ctx, 1).reason, "requires 'absent', which is not loaded");
    tn_context_destroy(ctx);
}

Test(plugins, no_discovery_looks_for_nothing)
{
    tn_context_options options = {.size = sizeof(options), .flags = TN_CONTEXT_NO_DISCOVERY};
    tn_context *ctx = NULL;
    setenv("TENON_PLUGIN_PATH", folder, 1);
    manifest("a.json", "skewed", "skewed_sound", "");
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    cr_assert_eq(tn_inspect_candidate_count(ctx), 0);
    cr_assert_null(tn_inspect_search_path(ctx, 0));
    tn_candidate_info info = {.size = sizeof(info)};
    cr_assert_eq(tn_inspect_candidate(ctx, 0, &info), TN_E_INDEX);
    tn_context_destroy(ctx);
}

/* ---- Libraries by path, on top of the CPU plugin ----------------------------------------------------- */

static tn_context *cpu_context(void)
{
    setenv("TENON_PLUGIN_SELECT", "cpu", 1);
    tn_context *ctx = context_of(NULL);
    cr_assert_eq(tn_device_count(ctx, "cpu"), 1, "the CPU plugin is not there");
    return ctx;
}

static void expect_add_one(tn_context *ctx)
{
    const float data[] = {1, 2.5f, -3};
    float result[3] = {0};
    uint32_t op = tn_operator_find(ctx, "testlib::add_one");
    tn_scope *s = tn_scope_open(ctx);
    tn_value x = tn_value_tensor(tn_from_data(s, TN_FLOAT32, TN_INTS(3), data, TN_CPU)), y;
    cr_assert_neq(op, 0);
    cr_assert_eq(tn_scope_call(s, op, &x, 1, &y, 1), TN_OK, "%s",
                 tn_scope_error(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_to_host(s, tn_value_as_tensor(y), result, sizeof(result)), TN_OK);
    cr_assert_eq(result[0], 2);
    cr_assert_eq(result[1], 3.5f);
    cr_assert_eq(result[2], -2);
    cr_assert_eq(tn_scope_close(s), TN_OK);
}

Test(plugins, an_operator_library_is_opened_used_closed_and_opened_again)
{
    tn_context *ctx = cpu_context();
    tn_library *library = NULL;
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(tn_library_open(ctx, built("library"), &library), TN_OK, "%s", tn_last_error()->message);
        expect_add_one(ctx);
        tn_kernel_info kernel = {.size = sizeof kernel};
        cr_assert_eq(tn_inspect_kernel(ctx, tn_operator_find(ctx, "testlib::add_one"), 0, &kernel), TN_OK);
        cr_assert_str_eq(kernel.plugin, "testlib");
        cr_assert_eq(tn_library_open(ctx, built("library"), NULL), TN_E_EXISTS);
        assert_contains(tn_last_error()->message, "the same file as");
        cr_assert_eq(tn_library_close(library), TN_OK);
        cr_assert_eq(tn_operator_find(ctx, "testlib::add_one"), 0);
    }
    tn_context_destroy(ctx);
}

Test(plugins, what_a_failing_library_registered_is_taken_back)
{
    tn_context *ctx = cpu_context();
    tn_library *library = NULL;
    cr_assert_eq(tn_library_open(ctx, built("library_late_failure"), &library), TN_E_STATE);
    assert_contains(tn_last_error()->message, "init failed: second thoughts");
    cr_assert_null(library);
    cr_assert_eq(tn_operator_find(ctx, "testlib::add_one"), 0);
    cr_assert_eq(tn_library_open(ctx, built("library"), &library), TN_OK, "%s", tn_last_error()->message);
    expect_add_one(ctx);
    tn_context_destroy(ctx);
}

Test(plugins, open_says_what_is_wrong_with_a_path)
{
    tn_context *ctx = context_of(folder);
    cr_assert_eq(tn_library_open(ctx, "/nowhere/lib.so", NULL), TN_E_IO);
    assert_contains(tn_last_error()->message, "cannot find library '/nowhere/lib.so'");
    cr_assert_eq(tn_library_open(ctx, "", NULL), TN_E_ARGUMENT);
    cr_assert_eq(tn_library_open(ctx, built("skewed_bss"), NULL), TN_E_IO);
    assert_contains(tn_last_error()->message, "lies in .bss");
    cr_assert_eq(tn_library_close(NULL), TN_OK);
    tn_context_destroy(ctx);
}

Test(plugins, many_contexts_load_one_plugin_each_for_itself)
{
    tn_context *ctx[8];
    manifest("a.json", "skewed", "skewed_sound", "");
    setenv("TENON_PLUGIN_PROBE", "never", 1);
    for (int i = 0; i < 8; i++) ctx[i] = context_of(folder);
    for (int i = 0; i < 8; i++) cr_assert_eq(candidate(ctx[i], 0).state, TN_CANDIDATE_LOADED);
    for (int i = 0; i < 8; i++) tn_context_destroy(ctx[i]);
}

Test(plugins, kernels_without_a_device_need_a_device_type)
{
    expect_refused("skewed_kernels_only", "",
                   "kernels without a device: the manifest must name the device_type they are for");
    /* The plugin of that device may come later. */
    manifest("a.json", "skewed", "skewed_kernels_only", ", \"device_type\": \"acme\"");
    tn_context *ctx = context_of(folder);
    tn_unused_row_info row = {.size = sizeof row};
    cr_assert_eq(candidate(ctx, 0).state, TN_CANDIDATE_LOADED, "%s", candidate(ctx, 0).reason);
    cr_assert_eq(tn_inspect_unused_row_count(ctx), 1);
    cr_assert_eq(tn_inspect_unused_row(ctx, 0, &row), TN_OK);
    cr_expect_eq(row.why, TN_UNUSED_DEVICE);
    cr_expect_str_eq(row.device_type, "acme");
    cr_expect_str_eq(row.plugin, "skewed");
    tn_context_destroy(ctx);
}

/* ---- Rows that wait for the plugin of their device --------------------------------------------------- */

/* The library's folder comes first, and its name is behind that of the device's plugin in one of two. */
Test(plugins, a_library_may_be_loaded_before_the_plugin_of_its_device)
{
    char path[2 * PATH_MAX];
    tn_context *ctx = context_of(NULL);
    snprintf(path, sizeof path, "%s:%s", folder, tn_inspect_search_path(ctx, 0));
    tn_context_destroy(ctx);
    manifest("attn.json", "testlib", "library", "");
    setenv("TENON_PLUGIN_SELECT", "cpu,testlib", 1);
    ctx = context_of(path);
    cr_assert_str_eq(candidate(ctx, 0).name, "testlib", "the library comes first");
    cr_assert_eq(candidate(ctx, 0).state, TN_CANDIDATE_LOADED, "%s", candidate(ctx, 0).reason);
    expect_add_one(ctx);
    cr_expect_eq(tn_inspect_unused_row_count(ctx), 0);
    cr_expect_eq(tn_inspect_kernel_count(ctx, tn_operator_find(ctx, "testlib::add_one")), 1);
    tn_context_destroy(ctx);
}

static const char *cpu_library(void)
{
    static char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/../../../plugins/cpu/libtenon_cpu.so", getenv("TENON_TEST_PLUGINS"));
    return path;
}

Test(plugins, the_plugin_of_a_device_may_be_opened_behind_a_library)
{
    tn_library *library = NULL;
    tn_unused_row_info row = {.size = sizeof row};
    tn_context *ctx = context_of(folder); /* has no device */
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(tn_library_open(ctx, built("library"), &library), TN_OK, "%s", tn_last_error()->message);
        cr_assert_eq(tn_inspect_unused_row_count(ctx), 1);
        cr_assert_eq(tn_inspect_unused_row(ctx, 0, &row), TN_OK);
        cr_expect_eq(row.why, TN_UNUSED_DEVICE);
        cr_expect_str_eq(row.device_type, "cpu");
        cr_expect_str_eq(row.plugin, "testlib");
        if (round) break;
        cr_assert_eq(tn_library_close(library), TN_OK);
        cr_assert_eq(tn_inspect_unused_row_count(ctx), 0, "what waits is forgotten with its library");
    }
    cr_assert_eq(tn_library_open(ctx, cpu_library(), NULL), TN_OK, "%s", tn_last_error()->message);
    cr_expect_eq(tn_inspect_unused_row_count(ctx), 0);
    expect_add_one(ctx);
    tn_context_destroy(ctx);
}

Test(plugins, waiting_rows_of_a_library_that_failed_are_forgotten)
{
    tn_context *ctx = context_of(folder);
    cr_assert_eq(tn_library_open(ctx, built("library_late_failure"), NULL), TN_E_STATE);
    cr_expect_eq(tn_inspect_unused_row_count(ctx), 0);
    tn_context_destroy(ctx);
}

static int32_t write_nine(void *self, const tn_call *call)
{
    float *to = tn_desc(tn_value_as_tensor(call->outs[0]))->host;
    (void)self;
    *to = 9;
    return TN_OK;
}

/* Libraries of `tenon new-operators` have no state: all have the same `self`, NULL. */
Test(plugins, closing_a_library_without_state_leaves_the_rows_of_others)
{
    static const tn_kernel_row mine = {.size = sizeof mine,
                                       .strides = TN_STRIDES_CONTIGUOUS,
                                       .schema = "mine::nine(Tensor x) -> Tensor",
                                       .run = write_nine};
    const tn_operator_def def = {.size = sizeof def, .schema = mine.schema};
    tn_context *ctx = cpu_context();
    tn_library *library = NULL;
    tn_value y;
    float result = 0;
    uint32_t op;
    cr_assert_eq(tn_operator_define(ctx, &def, &op), TN_OK);
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &mine, 1), TN_OK);
    cr_assert_eq(tn_library_open(ctx, built("library_stateless"), &library), TN_OK, "%s",
                 tn_last_error()->message);
    expect_add_one(ctx);
    cr_assert_eq(tn_library_close(library), TN_OK);
    tn_scope *s = tn_scope_open(ctx);
    const tn_value x = tn_value_tensor(tn_ones(s, TN_INTS(1)));
    cr_assert_eq(tn_scope_call(s, op, &x, 1, &y, 1), TN_OK, "%s", tn_scope_error(s)->message);
    cr_assert_eq(tn_to_host(s, tn_value_as_tensor(y), &result, sizeof result), TN_OK);
    cr_expect_eq(result, 9);
    cr_assert_eq(tn_scope_close(s), TN_OK);
    tn_context_destroy(ctx);
}

Test(plugins, requirements_that_are_loaded_are_no_obstacle)
{
    manifest("a.json", "testlib", "library", ", \"requires\": [\"skewed\", \"other_skewed\"]");
    manifest("b.json", "skewed", "skewed_sound", "");
    manifest("c.json", "other_skewed", "skewed_named_skewed", ", \"requires\": [\"skewed\"]");
    tn_context *ctx = context_of(folder);
    cr_assert_eq(candidate(ctx, 1).state, TN_CANDIDATE_LOADED);
    cr_assert_eq(candidate(ctx, 2).state, TN_CANDIDATE_FAILED, "the device type is taken");
    cr_assert_str_eq(candidate(ctx, 0).reason, "requires 'other_skewed', which is not loaded");
    tn_context_destroy(ctx);
}

Test(plugins, libraries_are_closed_in_any_order)
{
    tn_context *ctx = cpu_context();
    tn_library *first = NULL, *second = NULL;
    cr_assert_eq(tn_library_open(ctx, built("library"), &first), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_library_open(ctx, built("skewed_operators"), &second), TN_OK, "%s",
                 tn_last_error()->message);
    cr_assert_eq(tn_library_close(first), TN_OK);
    cr_assert_eq(tn_operator_find(ctx, "testlib::add_one"), 0);
    cr_assert_eq(tn_library_open(ctx, built("skewed_operators"), &first), TN_E_EXISTS, "it is open still");
    cr_assert_eq(tn_library_close(second), TN_OK);
    tn_context_destroy(ctx);
}

Test(plugins, closing_is_refused_for_devices)
{
    tn_context *ctx = context_of(folder);
    tn_library *library = NULL;
    setenv("TENON_PLUGIN_PROBE", "never", 1);
    cr_assert_eq(tn_library_open(ctx, built("skewed_sound"), &library), TN_OK, "%s",
                 tn_last_error()->message);
    cr_assert_eq(tn_library_close(library), TN_E_STATE);
    cr_assert_str_eq(tn_last_error()->message,
                     "library_close: 'skewed' is a device plugin; it ends with the context");
    cr_assert_eq(tn_library_open(ctx, NULL, &library), TN_E_ARGUMENT);
    cr_assert_eq(tn_inspect_candidate(ctx, 0, NULL), TN_E_ARGUMENT);
    tn_candidate_info unset = {.size = 0};
    cr_assert_eq(tn_inspect_candidate(ctx, 0, &unset), TN_E_ARGUMENT);
    cr_assert_str_eq(tn_last_error()->message,
                     "inspect_candidate: size is 0; set it to sizeof(tn_candidate_info)");
    tn_context_destroy(ctx);
}

/* The n-th allocation fails, for every n until the context comes to life: no crash, nothing leaked. */
typedef struct failing {
    uint64_t calls, fail_at;
    int64_t live;
} failing;

static void *failing_alloc(void *user, uint64_t bytes)
{
    failing *f = user;
    void *memory = NULL;
    if (++f->calls == f->fail_at || posix_memalign(&memory, 64, bytes) != 0) return NULL;
    f->live++;
    return memory;
}

static void failing_free(void *user, void *memory, uint64_t bytes)
{
    failing *f = user;
    (void)bytes;
    if (memory) f->live--;
    free(memory);
}

/* A library that could not be opened or closed for want of memory can be opened and closed later. */
Test(plugins, opening_and_closing_without_memory)
{
    failing f = {0};
    tn_context_options options = {.size = sizeof options,
                                  .flags = TN_CONTEXT_DEBUG_HANDLES, /* no block is kept for reuse */
                                  .allocator = {&f, failing_alloc, failing_free}};
    tn_context *ctx = NULL;
    setenv("TENON_PLUGIN_SELECT", "cpu", 1);
    setenv("TENON_PLUGIN_PROBE", "never", 1);
    int32_t refused_open = 0, refused_close = 0, opened = 0;
    for (uint64_t n = 1; !opened; n++) {
        tn_library *library = NULL;
        cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
        f.fail_at = f.calls + n;
        int32_t status = tn_library_open(ctx, built("library"), &library);
        opened = f.calls < f.fail_at;
        f.fail_at = 0;
        refused_open += status != TN_OK;
        if (status) {
            cr_assert_eq(status, TN_E_OUT_OF_MEMORY, "allocation %llu: %s", (unsigned long long)n,
                         tn_last_error()->message);
            cr_assert_eq(tn_operator_find(ctx, "testlib::add_one"), 0);
        } else {
            expect_add_one(ctx);
        }
        tn_context_destroy(ctx);
        cr_assert_eq(f.live, 0, "allocation %llu: %lld blocks left", (unsigned long long)n,
                     (long long)f.live);
    }
    for (uint64_t n = 1, closed = 0; !closed; n++) {
        tn_library *library = NULL;
        cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
        cr_assert_eq(tn_library_open(ctx, built("library"), &library), TN_OK);
        f.fail_at = f.calls + n;
        int32_t status = tn_library_close(library);
        closed = f.calls < f.fail_at;
        f.fail_at = 0;
        refused_close += status != TN_OK;
        if (status) {
            cr_assert_eq(status, TN_E_OUT_OF_MEMORY);
            expect_add_one(ctx);
            cr_assert_eq(tn_library_close(library), TN_OK);
        }
        cr_assert_eq(tn_operator_find(ctx, "testlib::add_one"), 0);
        tn_context_destroy(ctx);
        cr_assert_eq(f.live, 0);
    }
    cr_assert_gt(refused_open, 5);
    cr_assert_gt(refused_close, 0);
}

Test(plugins, out_of_memory_anywhere_leaves_nothing)
{
    int32_t status = TN_E_OUT_OF_MEMORY;
    manifest("a.json", "skewed", "skewed_sound", "");
    manifest("b.json", "testlib", "library", ", \"requires\": [\"absent\"]");
    manifest("c.json", "broken", "skewed_bss", "");
    setenv("TENON_PLUGIN_PROBE", "never", 1);
    uint64_t n = 1, last;
    failing probe = {0};
    tn_context_options options = {
        .size = sizeof(options), .plugin_path = folder, .allocator = {&probe, failing_alloc, failing_free}};
    tn_context *ctx = NULL;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    tn_context_destroy(ctx);
    cr_assert_eq(probe.live, 0);
    last = probe.calls;
    for (n = last > 400 ? last - 400 : 1; n <= last;
         n++) { /* the rooms before this one have tests of their own */
        failing f = {.fail_at = n};
        options.allocator.user = &f;
        status = tn_context_create(&options, &ctx);
        if (status == TN_OK) tn_context_destroy(ctx);
        cr_assert(status == TN_OK || status == TN_E_OUT_OF_MEMORY, "allocation %llu: status %d",
                  (unsigned long long)n, (int)status);
        cr_assert_eq(f.live, 0, "allocation %llu: %lld blocks left", (unsigned long long)n,
                     (long long)f.live);
    }
}

/* While a context looks for plugins of every fate, each allocation fails once: it is made, or is out of memory. */
static void create_without_memory(uint32_t flags)
{
    counting memory = {0};
    const tn_context_options options = {.size = sizeof options,
                                        .flags = flags,
                                        .plugin_path = folder,
                                        .shims = "validate=1",
                                        .allocator = {.user = &memory, .alloc = take, .free = give_back}};
    tn_context *ctx = NULL;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK, "%s", tn_last_error()->message);
    uint32_t count = tn_inspect_candidate_count(ctx);
    tn_context_destroy(ctx);
    long long all = atomic_load(&memory.count), made = 0;
    for (long long n = 1; n <= all; n++) {
        memory = (counting){.fail_at = n};
        ctx = NULL;
        int32_t status = tn_context_create(&options, &ctx);
        memory.fail_at = 0;
        if (!status) {
            made++;
            cr_expect_leq(tn_inspect_candidate_count(ctx), count);
            tn_context_destroy(ctx);
        } else {
            cr_expect_eq(status, TN_E_OUT_OF_MEMORY, "allocation %lld: %d %s", n, status,
                         tn_last_error()->message);
        }
        cr_expect_eq(atomic_load(&memory.live), 0, "leak: allocation %lld fails", n);
    }
    cr_expect_lt(made, all / 2, "%lld of %lld contexts", made, all);
}

Test(plugins, without_memory_for_what_is_found, .timeout = 60)
{
    validate_manifest("a.json", "skewed", "skewed_shim_passes");
    validate_manifest("b.json", "other_shim", "skewed_other_shim");
    manifest("c.json", "skewed", "skewed_unloads", "");
    manifest("d.json", "testlib", "library", ", \"requires\": [\"absent\"]");
    manifest("e.json", "testlib", "nothing", "");
    manifest("f.json", "other_cpu", "skewed_named_cpu", "");
    create_without_memory(0);
    create_without_memory(
        TN_CONTEXT_DEBUG_HANDLES); /* no block is kept for reuse: more allocations can fail */
}

/* A shim that no file offers is listed with the reason, for which there must be memory. */
Test(plugins, without_memory_for_what_is_missing, .timeout = 60)
{
    counting memory = {0};
    tn_context_options options = {.size = sizeof options,
                                  .flags = TN_CONTEXT_TOLERATE_SHIMS | TN_CONTEXT_DEBUG_HANDLES,
                                  .plugin_path = folder,
                                  .shims = "inject=all",
                                  .allocator = {.user = &memory, .alloc = take, .free = give_back}};
    tn_context *ctx = NULL;
    manifest("a.json", "skewed", "skewed_shim_refuses", ", \"shim\": \"inject\"");
    manifest("b.json", "other_skewed", "skewed_experimental", "");
    setenv("TENON_PLUGIN_PROBE", "never", 1);
    int32_t status = TN_E_OUT_OF_MEMORY, refused = 0;
    for (long long n = 1, done = 0; !done; n++) {
        memory = (counting){.fail_at = n};
        status = tn_context_create(&options, &ctx);
        done = atomic_load(&memory.count) < n;
        memory.fail_at = 0;
        refused += status != TN_OK;
        if (status)
            cr_expect_eq(status, TN_E_OUT_OF_MEMORY, "allocation %lld: %d", n, status);
        else
            tn_context_destroy(ctx);
        cr_expect_eq(atomic_load(&memory.live), 0, "leak: allocation %lld fails", n);
    }
    cr_expect_gt(refused, 20);
}

/* A composite that closes the library of its own operator. */
static tn_library *open_library;

static int32_t close_it(void *self, const tn_call *call)
{
    return tn_library_close(open_library);
}

Test(plugins, an_operator_cannot_close_its_library)
{
    tn_context *ctx = cpu_context();
    const tn_operator_def def = {
        .size = sizeof def, .schema = "test::close(Tensor x) -> Tensor", .composite = close_it};
    uint32_t op = 0;
    cr_assert_eq(tn_library_open(ctx, built("library"), &open_library), TN_OK, "%s",
                 tn_last_error()->message);
    cr_assert_eq(tn_operator_define(ctx, &def, &op), TN_OK);
    tn_scope *s = tn_scope_open(ctx);
    tn_value x = tn_value_tensor(tn_ones(s, TN_INTS(1))), y;
    cr_assert_eq(tn_scope_call(s, op, &x, 1, &y, 1), TN_E_STATE);
    assert_contains(tn_scope_error(s)->message, "library_close: called from inside an operator");
    tn_scope_close(s);
    expect_add_one(ctx);
    cr_assert_eq(tn_library_close(open_library), TN_OK);
    tn_context_destroy(ctx);
}
