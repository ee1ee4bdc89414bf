/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins of other versions and plugins that are wrong, really loaded. */
#include "fixture.h"

#include <dlfcn.h>
#include <tenon/inspect.h>
#include "../../core/fake_driver.h"
#include "dispatcher/plugin/load.h"

static tn_context *ctx;

static void setup(void)
{
    ctx = plain_context();
    ctx->host = (tn_host){.size = sizeof(tn_host), .context = ctx};
}

static void teardown(void)
{
    tn_context_destroy(ctx);
}

TestSuite(load, .init = setup, .fini = teardown);

static int32_t host_error(void *context, int32_t code, const char *message)
{
    (void)context;
    return tni_error(code, "%s", message);
}

static int32_t load(const char *name, tni_plugin **out, tni_reason *reason)
{
    tni_elf_info elf;
    ctx->host.error = host_error;
    cr_assert_eq(examine(skewed(name), &elf, reason), TN_OK, "%s: %s", name, reason->text);
    return tni_plugin_load(ctx, skewed(name), &elf, NULL, out, reason);
}

static tni_plugin *loaded(const char *name)
{
    tni_plugin *p = NULL;
    tni_reason reason = {""};
    cr_assert_eq(load(name, &p, &reason), TN_OK, "%s", reason.text);
    return p;
}

Test(load, tables_are_copied)
{
    tni_plugin *p = loaded("sound");
    cr_assert(p->has_device);
    cr_assert_str_eq(p->driver.device.type, "skewed");
    cr_assert_str_eq(p->driver.plugin, "skewed");
    cr_assert_not_null(p->self);
    cr_assert_eq(p->driver.device.size, sizeof(tn_device_interface));
    cr_assert_not_null((void *)(uintptr_t)p->driver.memory.trim);
    cr_assert_null((void *)(uintptr_t)p->driver.memory.pin);
    cr_assert_eq(p->driver.event.size, 0);
    cr_assert_eq(p->kernels.size, sizeof(tn_kernels_interface));
    cr_assert_eq(p->driver.graph.size, 0);
    tni_plugin_unload(p);
}

Test(load, a_shorter_table_has_its_last_slots_absent)
{
    tni_plugin *p = loaded("shorter");
    cr_assert_not_null((void *)(uintptr_t)p->driver.memory.info);
    cr_assert_null((void *)(uintptr_t)p->driver.memory.trim); /* set in the file, but past its size */
    tni_plugin_unload(p);
}

Test(load, the_tail_of_a_longer_table_is_ignored)
{
    tni_plugin *p = loaded("longer");
    cr_assert_not_null((void *)(uintptr_t)p->driver.device.synchronize);
    cr_assert_eq(p->driver.device.size, sizeof(tn_device_interface));
    tni_plugin_unload(p);
}

Test(load, an_operator_library_has_no_device)
{
    tni_plugin *p = loaded("operators");
    cr_assert_not(p->has_device);
    tni_plugin_unload(p);
}

Test(load, refusals_name_what_is_missing)
{
    static const char *const cases[][2] = {
        {"shorter_required", "interface 'tenon.device' lacks the required slot 'synchronize'"},
        {"missing_slot", "interface 'tenon.device' lacks the required slot 'facts'"},
        {"no_size", "interface 'tenon.device': size is 0"},
        {"no_copy", "the required interface 'tenon.copy' version 1 is missing"},
        {"no_rows", "interface 'tenon.kernels': 3 rows, but 'rows' is NULL"},
        {"autocast_dtype", "interface 'tenon.autocast': low_dtype is 0x14000 (int64), expected bfloat16, "
                           "float16, float32 or 0"},
        {"experimental_name",
         "interface 'tenon.experimental': name 0 is 'tenon.trace' (expected one that begins "
         "with 'tenon.x.')"},
        {"experimental_rest", "interface 'tenon.experimental': name 1 is 'tenon.x.' (expected"},
        {"experimental_null", "interface 'tenon.experimental': name 0 is NULL (expected"},
        {"no_shutdown", "the plugin's table lacks 'shutdown'"},
        {"short_rows", "interface 'tenon.kernels': rows of 8 bytes, expected at least "},
        {"no_init", "the plugin's table lacks 'init'"},
        {"no_get_interface", "the plugin's table lacks 'get_interface'"},
        {"no_entry", "'tenon_plugin' has no entry"},
        {"abi_nine", "entry settled on ABI generation 9, offered was 2"},
        {"declines_silently", "the plugin declines ABI generation 2: "},
        {"init_fails_silently", "init failed: "},
        {"init_fails_otherwise", "init failed: "},
        {"abi_zero", "entry settled on no ABI generation (0)"},
        {"declines", "the plugin declines ABI generation 2: this plugin wants generation 9"},
        {"init_fails", "init failed: no licence for this machine"},
        {"unresolved", "undefined symbol: tenon_test_nobody_defines_this"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tni_plugin *p = NULL;
        tni_reason reason = {""};
        cr_assert_neq(load(cases[i][0], &p, &reason), TN_OK, "%s", cases[i][0]);
        cr_assert_null(p);
        assert_contains(reason.text, cases[i][1]);
    }
}

Test(load, the_loaded_block_must_be_the_one_of_the_file)
{
    tni_elf_info elf;
    tni_plugin *p = NULL;
    tni_reason reason = {""};
    cr_assert_eq(examine(skewed("sound"), &elf, &reason), TN_OK);
    strcpy(elf.info.version, "1.1");
    cr_assert_eq(tni_plugin_load(ctx, skewed("sound"), &elf, NULL, &p, &reason), TN_E_CONTRACT);
    assert_contains(reason.text, "version: '1.1");
}

/* ---- Unloading ----------------------------------------------------------------------------------------- */

static int32_t is_mapped(const char *name)
{
    void *handle = dlopen(skewed(name), RTLD_NOW | RTLD_NOLOAD);
    if (handle) dlclose(handle);
    return handle != NULL;
}

Test(load, a_library_is_unloaded_with_the_last_context_that_uses_it)
{
    tni_plugin *first = loaded("unloads"), *second = loaded("unloads");
    tni_plugin_unload(first);
    cr_assert(is_mapped("unloads"));
    tni_plugin_unload(second);
    cr_assert_not(is_mapped("unloads"));
    tni_plugin_unload(loaded("sound")); /* it does not say that it can be unloaded */
    cr_assert(is_mapped("sound"));
    tni_plugin_unload(NULL);
}

Test(load, a_library_that_did_not_come_to_rest_stays)
{
    tni_plugin *p = loaded("quiesce_fails");
    tni_plugin_unload(p);
    cr_assert(is_mapped("quiesce_fails"));
    tn_finding f = {.size = sizeof f};
    cr_assert_eq(tn_inspect_finding(ctx, 0, &f), TN_OK);
    cr_assert_str_eq(f.kind, "quiesce-failed");
    assert_contains(f.text, "quiesce returned");
    assert_contains(f.text, "the library stays loaded");
}

/* In the child of a fork nothing of the plugin is called: it is only taken off the list of this process. What it
 * leaves behind on purpose stays reachable: a sanitizer takes the rest for a leak. */
static tni_plugin *volatile abandoned;

Test(load, an_abandoned_plugin_is_forgotten)
{
    tni_plugin *other = loaded("unloads");
    abandoned = loaded("unloads");
    tni_plugin_abandon(abandoned);
    tni_plugin_unload(other);
    cr_assert(is_mapped("unloads"), "the abandoned one still holds the library");
}

Test(load, without_memory_there_is_no_plugin)
{
    tni_elf_info elf;
    tni_reason reason = {""};
    counting c = {.fail_at = 0};
    /* With this flag small blocks go straight to the allocator. */
    tn_context_options options = {.size = sizeof options,
                                  .flags = TN_CONTEXT_NO_DISCOVERY | TN_CONTEXT_DEBUG_HANDLES};
    options.allocator = counting_allocator(&c);
    tn_context *small = NULL;
    cr_assert_eq(examine(skewed("unloads"), &elf, &reason), TN_OK);
    cr_assert_eq(tn_context_create(&options, &small), TN_OK);
    small->host = (tn_host){.size = sizeof(tn_host), .context = small, .error = host_error};
    int64_t before = c.live;
    for (int64_t n = 1;; n++) {
        tni_plugin *p = NULL;
        c.fail_at = c.calls + n;
        int32_t status = tni_plugin_load(small, skewed("unloads"), &elf, NULL, &p, &reason);
        if (status == TN_OK) {
            tni_plugin_unload(p);
            break;
        }
        cr_assert_eq(status, TN_E_OUT_OF_MEMORY, "%s", reason.text);
        cr_assert_str_eq(reason.text, "out of memory");
        cr_assert_eq(c.live, before, "allocation %lld", (long long)n);
    }
    cr_assert_eq(c.live, before);
    tn_context_destroy(small);
}
