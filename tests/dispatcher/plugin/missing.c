/* SPDX-License-Identifier: Apache-2.0 */
/* What a program is told of a device whose plugin was refused, or could not be looked for. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include "folder.h"

static char lines[8192];

static void keep(void *user, int32_t level, const char *text)
{
    size_t n = strlen(lines);
    (void)user;
    snprintf(lines + n, sizeof lines - n, "%d %s\n", level, text);
}

static void set_up(void)
{
    make_folder();
    manifest("a.json", "skewed", "skewed_sound", ", \"device_type\": \"skewed\"");
}

TestSuite(missing, .init = set_up, .fini = remove_folder);

static tn_context *create(const char *path)
{
    tn_context *ctx;
    tn_context_options options = {.size = sizeof options, .plugin_path = path, .log = keep};
    lines[0] = 0;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    return ctx;
}

/* 0: the device is missing, and there is an error. */
static int is_there(tn_context *ctx, const char *device)
{
    tn_device_facts facts = {.size = sizeof facts};
    return tn_device_get_facts(ctx, tn_device_parse(ctx, device), &facts) == TN_OK;
}

static void expect_reason(const char *reason)
{
    const char *text = tn_last_error()->message, *end = "; 'tenon doctor' shows all";
    assert_contains(text, reason);
    assert_contains(text, end);
    cr_expect_str_eq(strstr(text, end), end, "it is the end: %s", text);
}

/* A context whose plugins are searched in `path` has no device, and says why: in the log, too. */
static void expect_missing(const char *path, const char *reason, int32_t level)
{
    char line[600];
    tn_context *ctx = create(path);
    tn_scope *s = tn_scope_open(ctx);
    cr_expect_null(tn_ones(s, TN_INTS(2)));
    assert_contains(tn_scope_error(s)->message, reason);
    cr_expect_not(is_there(ctx, "skewed"));
    assert_contains(tn_last_error()->message,
                    "device skewed: no plugin offers this type (there are: none); ");
    expect_reason(reason);
    cr_expect(tn_device_choose(ctx, NULL, NULL) & TN_DEVICE_MISSING);
    assert_contains(tn_last_error()->message, "no device to choose: no device; ");
    expect_reason(reason);
    snprintf(line, sizeof line, "%d plugin ", level);
    if (level >= 0) assert_contains(lines, reason);
    if (level >= 0) assert_contains(lines, line);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

Test(missing, a_place_that_is_not_there)
{
    setenv("TENON_PLUGIN_PATH", "/nonexistent", 1);
    expect_missing(NULL,
                   "cannot search '/nonexistent': No such file or directory; TENON_PLUGIN_PATH names it",
                   TN_LOG_WARN);
    expect_missing("/nowhere",
                   "cannot search '/nowhere': No such file or directory; the option plugin_path names it",
                   TN_LOG_WARN);
    expect_missing("plugins",
                   "refused: 'plugins' in the search path is not absolute; the option plugin_path names it",
                   TN_LOG_WARN);
}

Test(missing, a_place_that_others_may_write)
{
    cr_assert_eq(chmod(folder, 0777), 0);
    expect_missing(folder, "' is writable by everybody (mode 0777)", TN_LOG_WARN);
    cr_assert_eq(chmod(folder, 0755), 0);
}

Test(missing, a_place_without_plugins)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/a.json", folder);
    cr_assert_eq(unlink(path), 0);
    expect_missing(folder, "' has no manifest of a plugin", -1);
    char other[PATH_MAX + 16], both[2 * PATH_MAX + 32], reason[2 * PATH_MAX + 200];
    snprintf(other, sizeof other, "%s/other", folder);
    cr_assert_eq(mkdir(other, 0755), 0);
    snprintf(both, sizeof both, "%s:%s", folder, other);
    snprintf(
        reason, sizeof reason,
        "'%s' has no manifest of a plugin; '%s' has no manifest of a plugin; TENON_PLUGIN_PATH or the option "
        "plugin_path names other folders; 'tenon doctor'",
        folder, other);
    expect_missing(both, reason, -1);
    cr_assert_eq(rmdir(other), 0);
}

Test(missing, names_that_are_not_selected)
{
    setenv("TENON_PLUGIN_SELECT", "nope", 1);
    expect_missing(folder, "not selected: TENON_PLUGIN_SELECT is 'nope'", TN_LOG_DEBUG);
    unsetenv("TENON_PLUGIN_SELECT");
    setenv("TENON_PLUGIN_DISABLE", "skew*", 1);
    expect_missing(folder, "disabled: TENON_PLUGIN_DISABLE is 'skew*'", TN_LOG_DEBUG);
}

Test(missing, a_list_that_is_not_there)
{
    setenv("TENON_PLUGIN_ALLOW", "/nonexistent", 1);
    expect_missing(folder,
                   "the list of allowed libraries '/nonexistent' cannot be read: No such file or directory",
                   TN_LOG_WARN);
}

/* The plugin of the type comes first; another type's reason is none for this one. */
Test(missing, the_reason_is_that_of_the_type)
{
    manifest("0.json", "cuda", "skewed_absent", ", \"device_type\": \"cuda\"");
    manifest("b.json", "hip", "skewed_sound", ", \"device_type\": \"hip\", \"enabled\": false");
    tn_context *ctx = create(folder);
    cr_expect_not(is_there(ctx, "hip"));
    assert_contains(tn_last_error()->message, "(there are: skewed); ");
    expect_reason("/b.json: disabled in its manifest");
    cr_expect_not(is_there(ctx, "cuda:1"));
    expect_reason("cannot find library '");
    cr_expect_not(is_there(ctx, "other"));
    cr_expect_null(strstr(tn_last_error()->message, ".json"), "%s", tn_last_error()->message);
    tn_context_destroy(ctx);
}

Test(missing, nothing_was_looked_for)
{
    tn_context *ctx;
    tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    cr_expect_not(is_there(ctx, "cpu"));
    cr_expect_null(strstr(tn_last_error()->message, "doctor"), "%s", tn_last_error()->message);
    tn_context_destroy(ctx);
}

/* Whatever number of files may still be opened: the device is there, or the error says what was lacking. */
Test(missing, too_many_open_files)
{
    struct rlimit before, none;
    int32_t lacking = 0, there = 0;
    const int next = open("/dev/null", O_RDONLY);
    cr_assert_geq(next, 0);
    close(next);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (int left = 0; left < 12; left++) {
        none = (struct rlimit){(rlim_t)(next + left), before.rlim_max};
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
        tn_context *ctx = create(NULL);
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (!is_there(ctx, "cpu")) {
            lacking++;
            expect_reason("Too many open files");
            assert_contains(lines, "Too many open files");
        } else {
            there++;
        }
        tn_context_destroy(ctx);
    }
    cr_expect(lacking > 0 && there > 0, "%d and %d", lacking, there);
}
