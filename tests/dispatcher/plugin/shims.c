/* SPDX-License-Identifier: Apache-2.0 */
/* Shims as a program asks for them: how they are found, what is refused, and what stands behind them. */
#include <dlfcn.h>
#include "folder.h"

TestSuite(shims, .init = make_folder, .fini = remove_folder);

/* A context of the folder that asks for the shim 'validate'. */
static tn_context *validated_context(void)
{
    const tn_context_options options = {.size = sizeof options, .plugin_path = folder, .shims = "validate=1"};
    tn_context *ctx = NULL;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK, "%s", tn_last_error()->message);
    return ctx;
}

/* A manifest that says "shim" and a library that is none, or is more than that. */
Test(shims, shims_must_be_shims)
{
    static const refused_text cases[] = {
        {"skewed_operators",
         "the manifest says shim 'validate', but the library has no interface 'tenon.shim'"},
        {"skewed_shim_with_device", "the manifest says shim 'validate', but the library has a device"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_context_options options = {.size = sizeof options, .plugin_path = folder, .shims = "validate=1"};
        tn_context *ctx = NULL;
        validate_manifest("a.json", "skewed", cases[i].given);
        cr_assert_eq(tn_context_create(&options, &ctx), TN_E_CONTRACT);
        assert_contains(tn_last_error()->message, "shim 'validate' was requested");
        assert_contains(tn_last_error()->message, cases[i].text);
    }
    manifest("a.json", "skewed", "skewed_shim_with_device", "");
    tn_context *ctx = context_of(folder);
    assert_contains(candidate(ctx, 0).reason, "a shim: its manifest must have the key");
    tn_context_destroy(ctx);
}

/* Behind a shim a plugin works as without it, and what it says of a failure is passed on. */
Test(shims, a_shim_that_passes_everything_on)
{
    validate_manifest("a.json", "skewed", "skewed_shim_passes");
    manifest("b.json", "other_skewed", "skewed_named_skewed", "");
    tn_context *ctx = validated_context();
    expect_candidate(ctx, 0, TN_CANDIDATE_LOADED, "");
    expect_candidate(ctx, 1, TN_CANDIDATE_LOADED, "this is a test");
    tn_context_destroy(ctx);
    validate_manifest("a.json", "other_shim", "skewed_other_shim");
    manifest("b.json", "skewed", "skewed_init_fails", "");
    setenv("TENON_PLUGIN_PROBE", "never", 1);
    ctx = validated_context();
    expect_candidate(ctx, 1, TN_CANDIDATE_FAILED, "init failed: no licence for this machine");
    tn_context_destroy(ctx);
}

/* A shim that is not named as one, but stands before the plugin all the same. */
Test(shims, a_shim_behind_a_shim_is_refused)
{
    validate_manifest("a.json", "skewed", "skewed_shim_passes");
    manifest("b.json", "other_shim", "skewed_other_shim", "");
    tn_context *ctx = validated_context();
    cr_assert_eq(candidate(ctx, 1).state, TN_CANDIDATE_FAILED);
    assert_contains(candidate(ctx, 1).reason, "a shim: its manifest must have the key");
    tn_context_destroy(ctx);
}

Test(shims, a_shim_that_refuses_its_setting)
{
    tn_context_options options = {.size = sizeof options, .plugin_path = folder, .shims = "inject=all"};
    tn_context *ctx = NULL;
    manifest("a.json", "skewed", "skewed_shim_refuses", ", \"shim\": \"inject\"");
    cr_assert_eq(tn_context_create(&options, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message, "shim 'inject' was requested");
    assert_contains(tn_last_error()->message, "no such setting");
    options.flags = TN_CONTEXT_TOLERATE_SHIMS;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    expect_candidate(ctx, 0, TN_CANDIDATE_FAILED, "no such setting");
    tn_context_destroy(ctx);
}

Test(shims, a_shim_that_spoils_the_table_costs_the_plugin_behind_it)
{
    validate_manifest("a.json", "skewed", "skewed_shim");
    manifest("b.json", "other_skewed", "skewed_named_skewed", "");
    validate_manifest("c.json", "skewed", "skewed_operators"); /* another of that name */
    tn_context *ctx = validated_context();
    cr_assert_eq(candidate(ctx, 0).state, TN_CANDIDATE_LOADED);
    cr_assert_str_eq(candidate(ctx, 1).reason, "init failed: a shim left the plugin's table incomplete");
    cr_assert_eq(candidate(ctx, 2).state, TN_CANDIDATE_SKIPPED);
    tn_context_destroy(ctx);
    validate_manifest("a.json", "skewed", "skewed_shim_hides_shutdown");
    ctx = validated_context();
    cr_assert_str_eq(candidate(ctx, 1).reason, "init failed: a shim left the plugin's table incomplete");
    tn_context_destroy(ctx);
}

Test(shims, a_shim_that_no_folder_offers)
{
    char setting[6000] = "record=";
    tn_context_options options = {.size = sizeof options, .plugin_path = folder, .shims = setting};
    tn_context *ctx = NULL;
    memset(setting + 7, 'x', sizeof setting - 8);
    cr_assert_eq(tn_context_create(&options, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message,
                    "the setting of shim 'record' is too long: 5992 bytes, at most ");
    setenv("TENON_RECORD", setting, 1); /* the same in the environment */
    options.shims = NULL;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message,
                    "the setting of shim 'record' is too long: 5999 bytes, at most ");
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_E_ARGUMENT);
    unsetenv("TENON_RECORD");
    memset(setting, 'y', 300);
    options.shims = setting; /* no name is so long: the message has its beginning */
    cr_assert_eq(tn_context_create(&options, &ctx), TN_E_ARGUMENT);
    assert_contains(tn_last_error()->message, "yyyy' is unknown");
    cr_assert_lt(strlen(tn_last_error()->message), 400);
    static const char *const bad[] = {";record", "=1", "nothing=1"};
    for (int i = 0; i < 3; i++) {
        options.shims = bad[i];
        cr_assert_eq(tn_context_create(&options, &ctx), TN_E_ARGUMENT, "%s", bad[i]);
        assert_contains(tn_last_error()->message, "is unknown (expected record=FILE, validate=1 or inject=");
    }
    options.shims = ";;validate=0;inject=;"; /* asks for nothing */
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    cr_assert_eq(tn_inspect_candidate_count(ctx), 0);
    tn_context_destroy(ctx);
}

/* Of two files for one shim the first serves; the other one's name is free, but it is not needed. */
Test(shims, two_files_for_one_shim)
{
    validate_manifest("a.json", "skewed", "skewed_shim");
    validate_manifest("b.json", "other_shim", "skewed_other_shim");
    tn_context *ctx = validated_context();
    cr_assert_eq(candidate(ctx, 0).state, TN_CANDIDATE_LOADED);
    cr_assert_eq(candidate(ctx, 1).state, TN_CANDIDATE_SKIPPED);
    cr_assert_str_eq(candidate(ctx, 1).reason, "another file serves as this shim");
    tn_context_destroy(ctx);
}

/* A copy of the library in an empty folder: no plugin lies beside it, and a shim that is requested is not there. */
Test(shims, a_shim_that_nothing_offers)
{
    char copy[PATH_MAX + 32], command[2 * PATH_MAX + 64];
    Dl_info here;
    int32_t (*create)(const tn_context_options *, tn_context **);
    const tn_error *(*last_error)(void);
    uint32_t (*count)(tn_context *);
    int32_t (*inspect)(tn_context *, uint32_t, tn_candidate_info *);
    void (*destroy)(tn_context *);
    cr_assert(dladdr((void *)(uintptr_t)tn_context_create, &here));
    snprintf(copy, sizeof copy, "%s/libtenon.so", folder);
    snprintf(command, sizeof command, "cp -L '%s' '%s'", here.dli_fname, copy);
    cr_assert_eq(system(command), 0);
    void *library = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    *(void **)&create = dlsym(library, "tn_context_create");
    *(void **)&last_error = dlsym(library, "tn_last_error");
    *(void **)&count = dlsym(library, "tn_inspect_candidate_count");
    *(void **)&inspect = dlsym(library, "tn_inspect_candidate");
    *(void **)&destroy = dlsym(library, "tn_context_destroy");
    tn_context_options options = {.size = sizeof options, .plugin_path = folder, .shims = "record=x"};
    tn_context *ctx = NULL;
    cr_assert_eq(create(&options, &ctx), TN_E_NOT_FOUND);
    cr_assert_str_eq(last_error()->message,
                     "shim 'record' was requested (TENON_RECORD=x or an option of the context): "
                     "no manifest in the search path or the standard folders offers it");
    options.flags = TN_CONTEXT_TOLERATE_SHIMS; /* tools list what was requested, with the reason */
    tn_candidate_info info = {.size = sizeof info};
    cr_assert_eq(create(&options, &ctx), TN_OK);
    cr_assert_eq(count(ctx), 1);
    cr_assert_eq(inspect(ctx, 0, &info), TN_OK);
    cr_expect_str_eq(info.name, "record");
    cr_expect_str_eq(info.shim, "record");
    cr_expect_str_eq(info.version, "");
    cr_expect_eq(info.state, TN_CANDIDATE_FAILED);
    cr_expect_str_eq(info.reason, "no manifest in the search path or the standard folders offers it");
    destroy(ctx);
    manifest("a.json", "skewed", "absent", ", \"shim\": \"record\"");
    options.flags = 0;
    cr_assert_eq(create(&options, &ctx), TN_E_NOT_FOUND);
    assert_contains(last_error()->message, "cannot find library");
}
