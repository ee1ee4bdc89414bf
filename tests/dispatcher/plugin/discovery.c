/* SPDX-License-Identifier: Apache-2.0 */
/* Folders are built here, and the list of candidates is compared with what was put into them. */
#include "fixture.h"

#include <sys/stat.h>
#include <tenon/inspect.h>
#include <unistd.h>
#include "dispatcher/plugin/discovery.h"
#include "dispatcher/plugin/shims.h"
#include "dispatcher/plugin/trust.h"

static tn_context *ctx;
static char folder[PATH_MAX];

static void setup(void)
{
    ctx = plain_context();
    snprintf(folder, sizeof(folder), "%s", make_folder());
}

static void teardown(void)
{
    remove_folder(folder);
    tn_context_destroy(ctx);
}

TestSuite(discovery, .init = setup, .fini = teardown);

static void manifest_for(const char *file, const char *name, const char *library, const char *more)
{
    char text[2 * PATH_MAX];
    snprintf(text, sizeof(text), "{\"tenon_manifest\": 1, \"name\": \"%s\", \"library\": \"%s\"%s}", name,
             library, more);
    write_text(folder, file, text);
}

static void copy_plugin(const char *name, const char *to)
{
    char path[2 * PATH_MAX];
    size_t count;
    unsigned char *bytes = read_file(skewed(name), &count);
    snprintf(path, sizeof(path), "%s/%s", folder, to);
    write_file(path, bytes, count);
    free(bytes);
}

static tni_discovery discover(const tni_plugin_settings *settings)
{
    tni_discovery d;
    cr_assert_eq(tni_discover(ctx, settings, &d), TN_OK);
    return d;
}

/* The same, of that many candidates. */
static tni_discovery discover_all(const tni_plugin_settings *settings, uint32_t count)
{
    tni_discovery d = discover(settings);
    cr_assert_eq(d.candidates.count, count);
    return d;
}

static void expect(const tni_discovery *d, uint32_t i, const char *name, uint32_t state, const char *reason)
{
    cr_assert(i < d->candidates.count, "no candidate %u", i);
    const tni_candidate *c = tni_candidate_at(d, i);
    cr_assert_str_eq(c->name, name);
    cr_assert_eq(c->state, state, "%s: state %u, %s", name, c->state, c->reason);
    if (reason)
        assert_contains(c->reason, reason);
    else
        cr_assert_str_eq(c->reason, "");
}

/* Discovers once: the candidate at place 0 has this fate. */
static void expect_first(const tni_plugin_settings *s, const char *name, uint32_t state, const char *reason)
{
    tni_discovery d = discover(s);
    expect(&d, 0, name, state, reason);
    tni_discovery_finish(&d);
}

/* A sound library, libx.so, and its manifest, x.json, which ends with `more`. */
static void sound_plugin(const char *more)
{
    copy_plugin("sound", "libx.so");
    manifest_for("x.json", "skewed", "libx.so", more);
}

Test(discovery, a_sound_plugin_is_ready)
{
    tni_plugin_settings s = {.path = folder};
    char library[2 * PATH_MAX];
    sound_plugin(", \"device_type\": \"skewed\"");
    tni_discovery d = discover_all(&s, 1);
    cr_assert_eq(d.folders.count, 1);
    expect(&d, 0, "skewed", TNI_CANDIDATE_READY, NULL);
    snprintf(library, sizeof(library), "%s/libx.so", folder);
    cr_assert_str_eq(tni_candidate_at(&d, 0)->library, library);
    cr_assert_str_eq(tni_candidate_at(&d, 0)->elf.info.version, "1.2");
    cr_assert_not(tni_candidate_at(&d, 0)->trusted);
    tni_discovery_finish(&d);
}

Test(discovery, everything_is_kept_in_order_with_its_reason)
{
    tni_plugin_settings s = {.path = folder};
    copy_plugin("sound", "libx.so");
    copy_plugin("sound", "liby.so");
    static const char *const files[][4] = {
        {"a.json", "gone", "libgone.so", ""},  {"b.json", "other", "libx.so", ""},
        {"c.json", "skewed", "libx.so", ""},   {"d.json", "skewed", "libx.so", ""},
        {"e.json", "skewed", "liby.so", ""},   {"f.json", "off", "liby.so", ", \"enabled\": false"},
        {"h.json", "text", "ignored.txt", ""},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        manifest_for(files[i][0], files[i][1], files[i][2], files[i][3]);
    write_text(folder, "g.json", "{\"tenon_manifest\": 1,");
    write_text(folder, "ignored.txt", "not a manifest");
    write_text(folder, ".hidden.json", "not a manifest");
    tni_discovery d = discover_all(&s, 8);
    expect(&d, 0, "gone", TN_CANDIDATE_FAILED, "cannot find library");
    expect(&d, 1, "other", TN_CANDIDATE_FAILED, "name: the manifest says 'other', the library 'skewed'");
    expect(&d, 2, "skewed", TNI_CANDIDATE_READY, NULL);
    expect(&d, 3, "skewed", TN_CANDIDATE_SKIPPED, "the same file as");
    expect(&d, 4, "skewed", TN_CANDIDATE_SKIPPED, "the name is taken by");
    expect(&d, 5, "off", TN_CANDIDATE_SKIPPED, "disabled in its manifest");
    expect(&d, 6, "", TN_CANDIDATE_FAILED, "unexpected end of JSON");
    expect(&d, 7, "text", TN_CANDIDATE_FAILED, "not an ELF file");
    tni_discovery_finish(&d);
}

Test(discovery, other_json_in_a_folder_is_passed_over_and_a_named_one_refused)
{
    char path[2 * PATH_MAX];
    tni_plugin_settings s = {.path = folder};
    write_text(folder, "compile_commands.json", "[]");
    write_text(folder, "package.json", "{\"name\": \"other\"}");
    write_text(folder, "typo.json", "{\"tenon_manifst\": 1, \"name\": \"a\", \"library\": \"liba.so\"}");
    tni_discovery d = discover_all(&s, 1);
    expect(&d, 0, "", TN_CANDIDATE_FAILED, "manifest: \"tenon_manifest\" is missing");
    tni_discovery_finish(&d);
    snprintf(path, sizeof(path), "%s/package.json", folder);
    s.path = path;
    expect_first(&s, "", TN_CANDIDATE_FAILED, "not a manifest: \"tenon_manifest\" is missing");
}

Test(discovery, one_file_by_two_names_is_found_by_its_inode)
{
    tni_plugin_settings s = {.path = folder};
    char from[2 * PATH_MAX], to[2 * PATH_MAX];
    copy_plugin("sound", "libx.so");
    snprintf(from, sizeof(from), "%s/libx.so", folder);
    snprintf(to, sizeof(to), "%s/libhard.so", folder);
    cr_assert_eq(link(from, to), 0);
    manifest_for("a.json", "skewed", "libx.so", "");
    manifest_for("b.json", "skewed", "libhard.so", "");
    tni_discovery d = discover(&s);
    expect(&d, 0, "skewed", TNI_CANDIDATE_READY, NULL);
    expect(&d, 1, "skewed", TN_CANDIDATE_SKIPPED, "the same file as");
    tni_discovery_finish(&d);
}

Test(discovery, lists_of_names_are_globs)
{
    tni_plugin_settings s = {.path = folder, .select = "none,ske*"};
    sound_plugin("");
    expect_first(&s, "skewed", TNI_CANDIDATE_READY, NULL);
    s.disable = "s?ewed";
    expect_first(&s, "skewed", TN_CANDIDATE_SKIPPED, "disabled: TENON_PLUGIN_DISABLE is 's?ewed'");
    s = (tni_plugin_settings){.path = folder, .select = "skew"};
    expect_first(&s, "skewed", TN_CANDIDATE_SKIPPED, "not selected: TENON_PLUGIN_SELECT is 'skew'");
}

Test(discovery, what_others_may_write_is_refused)
{
    tni_plugin_settings s = {.path = folder};
    char path[2 * PATH_MAX];
    sound_plugin("");
    snprintf(path, sizeof(path), "%s/libx.so", folder);
    cr_assert_eq(chmod(path, 0666), 0);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "is writable by everybody (mode 0666)");
    cr_assert_eq(chmod(path, 0644), 0);
    snprintf(path, sizeof(path), "%s/x.json", folder);
    cr_assert_eq(chmod(path, 0646), 0);
    expect_first(&s, "", TN_CANDIDATE_FAILED, "is writable by everybody (mode 0646)");
    cr_assert_eq(chmod(folder, 0777), 0);
    tni_discovery d = discover(&s);
    expect(&d, 0, "", TN_CANDIDATE_FAILED, "is writable by everybody (mode 0777)");
    cr_assert_eq(d.candidates.count, 1);
    tni_discovery_finish(&d);
    cr_assert_eq(chmod(folder, 0755), 0);
}

/* Members of a group may write what belongs to it, unless the group is root's or the owner's own. */
Test(discovery, what_a_group_may_write_is_refused)
{
    tni_plugin_settings s = {.path = folder};
    char path[2 * PATH_MAX];
    if (geteuid() != 0) cr_skip_test("only root can give files to a group");
    sound_plugin("");
    snprintf(path, sizeof path, "%s/libx.so", folder);
    cr_assert_eq(chmod(path, 0664), 0);
    expect_first(&s, "skewed", TNI_CANDIDATE_READY, "");
    cr_assert_eq(chown(path, 0, 4321), 0);
    cr_assert_eq(chmod(path, 0664), 0);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "is writable by group 4321 (mode 0664)");
}

Test(discovery, links_are_resolved_and_seen_through)
{
    tni_plugin_settings s = {.path = folder};
    char path[2 * PATH_MAX];
    copy_plugin("sound", "libx.so");
    snprintf(path, sizeof(path), "%s/liblink.so", folder);
    cr_assert_eq(symlink("libx.so", path), 0);
    manifest_for("a.json", "skewed", "liblink.so", "");
    manifest_for("b.json", "skewed", "libx.so", "");
    snprintf(path, sizeof(path), "%s/c.json", folder);
    cr_assert_eq(symlink("nowhere.json", path), 0);
    tni_discovery d = discover(&s);
    expect(&d, 0, "skewed", TNI_CANDIDATE_READY, NULL);
    snprintf(path, sizeof(path), "%s/libx.so", folder);
    cr_assert_str_eq(tni_candidate_at(&d, 0)->library, path);
    expect(&d, 1, "skewed", TN_CANDIDATE_SKIPPED, "the same file as");
    expect(&d, 2, "", TN_CANDIDATE_FAILED, "cannot open manifest: No such file or directory");
    tni_discovery_finish(&d);
}

/* Refused by who could have written them: only root can make such files, so others pass over this. */
Test(discovery, what_belongs_to_another_user_is_refused)
{
    tni_plugin_settings s = {.path = folder};
    char path[2 * PATH_MAX];
    if (geteuid() != 0) cr_skip_test("needs root");
    sound_plugin("");
    snprintf(path, sizeof(path), "%s/libx.so", folder);
    cr_assert_eq(chown(path, 12345, 0), 0);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED,
                 "belongs to user 12345, neither root nor the user of this process");
    cr_assert_eq(chown(path, 0, 12345), 0);
    cr_assert_eq(chmod(path, 0664), 0);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "is writable by group 12345 (mode 0664)");
}

/* ---- Lists of allowed libraries ----------------------------------------------------------------------- */

/* Writes a list with one line and makes it the user's. */
static void allow(const char *line)
{
    char path[2 * PATH_MAX];
    write_text(folder, "allow", line);
    snprintf(path, sizeof(path), "%s/allow", folder);
    setenv("TENON_PLUGIN_ALLOW", path, 1);
}

Test(discovery, a_list_allows_by_content)
{
    tni_plugin_settings s = {.path = folder};
    char line[128], path[2 * PATH_MAX];
    write_text(folder, "libx.so", "abc"); /* whose hash is in the standard */
    manifest_for("x.json", "skewed", "libx.so", "");
    allow("# none of these\n\nba7816bf8f01cfea  libx.so\n");
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED,
                 "allows no library with the SHA-256 "
                 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    snprintf(line, sizeof(line),
             "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD  libx.so\n");
    allow(line);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "not an ELF file"); /* allowed, and looked at */
    snprintf(path, sizeof(path), "%s/allow", folder);
    cr_assert_eq(chmod(path, 0666), 0);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "allow' is writable by everybody (mode 0666)");
    cr_assert_eq(unlink(path), 0);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "cannot be read: No such file or directory");
}

Test(discovery, relative_and_missing_places_are_refused)
{
    tni_plugin_settings s = {.path = ".:/nowhere/at/all::", .add = folder};
    tni_discovery d = discover_all(&s, 2);
    expect(&d, 0, "", TN_CANDIDATE_FAILED, "'.' in the search path is not absolute");
    expect(&d, 1, "", TN_CANDIDATE_FAILED, "cannot search '/nowhere/at/all': No such file or directory");
    cr_assert_eq(d.folders.count, 1);
    cr_assert_str_eq(((char **)d.folders.data)[0], folder);
    tni_discovery_finish(&d);
}

Test(discovery, a_pipe_in_place_of_a_library_does_not_hang)
{
    tni_plugin_settings s = {.path = folder};
    char path[2 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/libx.so", folder);
    cr_assert_eq(mkfifo(path, 0644), 0);
    manifest_for("x.json", "skewed", "libx.so", "");
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "is not a regular file");
}

Test(discovery, settings_come_from_options_before_the_environment)
{
    tn_context_options options = {.size = sizeof(options), .plugin_path = "/a"};
    setenv("TENON_PLUGIN_PATH", "/b", 1);
    setenv("TENON_PLUGIN_ADD", "", 1);
    setenv("TENON_PLUGIN_DISABLE", "x", 1);
    tni_plugin_settings s = tni_plugin_settings_read(ctx, &options);
    cr_assert_str_eq(s.path, "/a");
    cr_assert_null(s.add);
    cr_assert_str_eq(s.disable, "x");
    s = tni_plugin_settings_read(ctx, NULL);
    cr_assert_str_eq(s.path, "/b");
}

static char logged[512];
static void keep_line(void *user, int32_t level, const char *text)
{
    snprintf(logged, sizeof logged, "%d %s", level, text);
}

Test(discovery, a_mistyped_probe_setting_is_said_and_unknown_is_assumed)
{
    static const char *const good[] = {"always", "unknown", "never"};
    const tn_context_options options = {.size = sizeof options, .log = keep_line};
    tn_context *own = NULL;
    cr_assert_eq(tn_context_create(&options, &own), TN_OK);
    for (int i = 0; i < 3; i++) {
        setenv("TENON_PLUGIN_PROBE", good[i], 1);
        cr_assert_str_eq(tni_plugin_settings_read(own, NULL).probe, good[i]);
    }
    cr_assert_str_eq(logged, "");
    setenv("TENON_PLUGIN_PROBE", "nevr", 1);
    cr_assert_null(tni_plugin_settings_read(own, NULL).probe);
    cr_assert_str_eq(
        logged, "1 TENON_PLUGIN_PROBE is 'nevr' (expected always, unknown or never); unknown is assumed");
    tn_context_destroy(own);
}

/* ---- Places and names at their limits ------------------------------------------------------------------- */

Test(discovery, a_folder_with_too_many_manifests_is_refused)
{
    tni_plugin_settings s = {.path = folder};
    for (int i = 0; i < 1025; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.json", i);
        write_text(folder, name, "[]");
    }
    tni_discovery d = discover_all(&s, 1);
    expect(&d, 0, "", TN_CANDIDATE_FAILED, "cannot search the folder: too many manifests");
    tni_discovery_finish(&d);
}

Test(discovery, a_place_that_is_named_twice_is_searched_once)
{
    char path[2 * PATH_MAX];
    tni_plugin_settings s = {.path = path};
    sound_plugin("");
    snprintf(path, sizeof path, "%s:%s", folder, folder);
    tni_discovery d = discover_all(&s, 1);
    cr_assert_eq(d.folders.count, 1);
    tni_discovery_finish(&d);
}

Test(discovery, all_requirements_are_kept_in_order)
{
    tni_plugin_settings s = {.path = folder};
    sound_plugin(", \"requires\": [\"a\", \"b\", \"c\"]");
    tni_discovery d = discover(&s);
    cr_assert_str_eq(tni_candidate_at(&d, 0)->requires, "a,b,c");
    tni_discovery_finish(&d);
}

Test(discovery, shims_are_loaded_on_request_only)
{
    tni_plugin_settings s = {.path = folder};
    copy_plugin("sound", "libx.so");
    manifest_for("a.json", "skewed", "libx.so", ", \"shim\": \"validate\"");
    manifest_for("b.json", "skewed", "libx.so", ", \"shim\": \"unheard_of\"");
    tni_discovery d = discover(&s);
    expect(&d, 0, "skewed", TN_CANDIDATE_SKIPPED, "a shim, loaded on request only: set TENON_VALIDATE");
    expect(&d, 1, "skewed", TN_CANDIDATE_SKIPPED, "this library knows no shim 'unheard_of'");
    tni_discovery_finish(&d);
    s.shims = 1u << tni_shim_index("validate");
    expect_first(&s, "skewed", TNI_CANDIDATE_READY, NULL);
}

/* Cut, so that it matches nothing. */
Test(discovery, a_name_that_is_too_long_selects_nothing)
{
    char list[600];
    tni_plugin_settings s = {.path = folder, .select = list};
    memset(list, '?', sizeof list - 1);
    list[sizeof list - 1] = 0;
    sound_plugin("");
    expect_first(&s, "skewed", TN_CANDIDATE_SKIPPED, "not selected: TENON_PLUGIN_SELECT is '????");
}

Test(discovery, lists_of_allowed_libraries_that_are_not_files)
{
    tni_plugin_settings s = {.path = folder};
    sound_plugin("");
    setenv("TENON_PLUGIN_ALLOW", folder, 1);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "cannot be read: not a regular file");
    setenv("TENON_PLUGIN_ALLOW", "", 1); /* as if it were not set */
    expect_first(&s, "skewed", TNI_CANDIDATE_READY, NULL);
    /* A hash with more digits than a hash has is another one; so is one behind a very long line's beginning. */
    char line[6000];
    memset(line, 'x', sizeof line);
    snprintf(line + 5000, sizeof line - 5000,
             "\nba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0\n");
    write_text(folder, "libx.so", "abc");
    allow(line);
    expect_first(&s, "skewed", TN_CANDIDATE_FAILED, "allows no library with the SHA-256");
}

Test(discovery, paths_that_are_not_absolute_have_no_folder)
{
    tni_reason reason = {""};
    char path[PATH_MAX + 16];
    cr_assert_eq(tni_trust_check_folder("libx.so", &reason), TN_E_STATE);
    cr_assert_str_eq(reason.text, "refused: 'libx.so' is not an absolute path");
    cr_assert_eq(tni_trust_check_folder("/libx.so", &reason), TN_OK, "the root folder: %s", reason.text);
    cr_assert_eq(tni_trust_check_folder("/nowhere/libx.so", &reason), TN_E_IO);
    cr_assert_str_eq(reason.text, "cannot examine the folder '/nowhere': No such file or directory");
    memset(path, 'x', sizeof path);
    path[0] = path[sizeof path - 3] = '/';
    path[sizeof path - 1] = 0;
    cr_assert_eq(tni_trust_check_folder(path, &reason), TN_E_STATE);
}
