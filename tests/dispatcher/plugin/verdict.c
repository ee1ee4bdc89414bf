/* SPDX-License-Identifier: Apache-2.0 */
/* Digests are those of FIPS 180-4's examples; verdicts are written, read, and forgotten when the file
 * changes. */
#include "fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <tenon/inspect.h>
#include <time.h>
#include <unistd.h>
#include "dispatcher/plugin/sha256.h"
#include "dispatcher/plugin/verdict.h"

static void expect_digest(const char *text, size_t times, const char *expected)
{
    char digest[TNI_SHA256_TEXT_BYTES];
    tni_sha256 h;
    tni_sha256_init(&h);
    for (size_t i = 0; i < times; i++) tni_sha256_add(&h, text, strlen(text));
    tni_sha256_text(&h, digest);
    cr_assert_str_eq(digest, expected);
}

Test(sha256, examples_of_the_standard)
{
    expect_digest("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_digest("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_digest("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    expect_digest("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static char folder[PATH_MAX], path[PATH_MAX + 64]; /* that of file "a" in the folder */

static void setup(void)
{
    snprintf(folder, sizeof folder, "%s", make_folder());
    snprintf(path, sizeof path, "%s/a", folder);
    write_text(folder, "a", "one");
    setenv("XDG_CACHE_HOME", folder, 1);
}

static void teardown(void)
{
    remove_folder(folder);
}

TestSuite(verdict, .init = setup, .fini = teardown);

Test(verdict, is_remembered_by_content)
{
    tni_verdict v, other;
    tni_reason reason = {"probe: crashed"}, found = {""};
    int32_t status = -1;
    char expected[128];
    struct stat file;
    struct tm utc;
    write_text(folder, "b", "one");
    tni_verdict_locate(path, &v);
    cr_assert(v.path[0]);
    cr_assert_not(tni_verdict_read(&v, &status, &found));
    tni_verdict_write(&v, TN_E_UNSUPPORTED, &reason); /* declined: not kept */
    cr_assert_not(tni_verdict_read(&v, &status, &found));
    tni_verdict_write(&v, TN_E_CONTRACT, &reason);
    cr_assert(tni_verdict_read(&v, &status, &found));
    cr_assert_eq(status, TN_E_CONTRACT);
    cr_assert_eq(stat(v.path, &file), 0);
    cr_assert_not_null(gmtime_r(&file.st_mtime, &utc));
    strftime(expected, sizeof(expected),
             "probe: crashed (probed at %Y-%m-%d %H:%M:%S UTC; 'tenon doctor --forget' deletes the verdict)",
             &utc);
    cr_assert_str_eq(found.text, expected);
    tni_verdict_write(&v, TN_OK, &reason);
    cr_assert(tni_verdict_read(&v, &status, &found));
    cr_assert_eq(status, TN_OK);
    snprintf(path, sizeof(path), "%s/b", folder);
    tni_verdict_locate(path, &other);
    cr_assert_str_eq(other.path, v.path);
    write_text(folder, "b", "two");
    tni_verdict_locate(path, &other);
    cr_assert_str_neq(other.path, v.path);
    cr_assert_not(tni_verdict_read(&other, &status, &found));
}

Test(verdict, of_others_is_not_believed)
{
    tni_verdict v;
    tni_reason found = {""};
    int32_t status = -1;
    tni_verdict_locate(path, &v);
    tni_verdict_write(&v, TN_OK, &found);
    cr_assert_eq(chmod(v.path, 0666), 0);
    cr_assert_not(tni_verdict_read(&v, &status, &found));
    write_file(v.path, "rubbish", 7);
    cr_assert_not(tni_verdict_read(&v, &status, &found));
}

Test(verdict, without_a_place_nothing_is_remembered)
{
    tni_verdict v;
    tni_reason found = {""};
    int32_t status;
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/proc/nowhere", 1);
    tni_verdict_locate("/bin/sh", &v);
    cr_assert_str_eq(v.path, "");
    tni_verdict_write(&v, TN_OK, &found);
    cr_assert_not(tni_verdict_read(&v, &status, &found));
}

/* A file is read once: then its looks are enough, until they change. */
Test(verdict, a_file_that_looks_the_same_is_not_read_again)
{
    char cache[PATH_MAX + 64];
    tni_verdict v, again;
    struct timespec past[2] = {{1000000000, 0}, {1000000000, 0}};
    snprintf(cache, sizeof(cache), "%s/tenon/probe", folder);
    tni_verdict_locate(path, &v);
    struct stat file;
    cr_assert_eq(stat(path, &file), 0);
    if (time(NULL) <= file.st_ctim.tv_sec + 2) /* a machine that was too slow for that has noted it already */
        cr_assert_eq(count_entries(cache), 0, "a file that has just changed may change again unseen");
    sleep(4);
    tni_verdict_locate(path, &v);
    cr_assert_eq(count_entries(cache), 1, "what it hashed to is noted");
    cr_assert_eq(chmod(path, 0),
                 0); /* changes the time of change: noted anew, or (but for root) unreadable */
    cr_assert_eq(chmod(path, 0644), 0);
    tni_verdict_locate(path, &again);
    cr_assert_str_eq(again.path, v.path);
    write_text(folder, "a", "two");
    cr_assert_eq(utimensat(AT_FDCWD, path, past, 0),
                 0); /* times of writing can be set, those of change not */
    tni_verdict_locate(path, &again);
    cr_assert_str_neq(again.path, v.path);
}

Test(verdict, all_are_forgotten_when_asked)
{
    tni_verdict v;
    tni_reason found = {"probe: did not end within 10000 ms while loading"};
    int32_t status = -1;
    cr_assert_eq(tn_inspect_forget_probes(), 0);
    tni_verdict_locate(path, &v);
    tni_verdict_write(&v, TN_E_CONTRACT, &found);
    cr_assert(tni_verdict_read(&v, &status, &found));
    assert_contains(found.text, "probe: did not end within 10000 ms while loading (probed at 2");
    cr_assert_eq(tn_inspect_forget_probes(), 1);
    cr_assert_not(tni_verdict_read(&v, &status, &found));
}

static void set_or_unset(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* The cache lies below XDG_CACHE_HOME, else below HOME; a place that is not absolute or too long is none. */
Test(verdict, where_verdicts_lie)
{
    char expected[PATH_MAX + 64], far[PATH_MAX + 16];
    tni_verdict v;
    setenv("HOME", folder, 1);
    const char *const caches[] = {NULL, "relative"};
    snprintf(expected, sizeof expected, "%s/.cache/tenon/probe/", folder);
    for (int i = 0; i < 2; i++) {
        set_or_unset("XDG_CACHE_HOME", caches[i]);
        tni_verdict_locate("/bin/sh", &v);
        cr_assert_eq(strncmp(v.path, expected, strlen(expected)), 0, "%s", v.path);
    }
    memset(far, 'x', sizeof far);
    far[0] = '/';
    far[sizeof far - 1] = 0;
    const char *const homes[] = {NULL, "relative", far};
    for (int i = 0; i < 3; i++) {
        set_or_unset("HOME", homes[i]);
        tni_verdict_locate("/bin/sh", &v);
        cr_assert_str_eq(v.path, "");
        cr_assert_eq(tn_inspect_forget_probes(), 0);
    }
    setenv("HOME", folder, 1);
    tni_verdict_locate("/nowhere", &v);
    cr_assert_str_eq(v.path, "");
}

/* A folder in the cache, or a note of another length, is not one of ours. */
Test(verdict, foreign_entries_are_passed_over)
{
    char cache[PATH_MAX + 32];
    tni_verdict v, again;
    tni_reason found = {""};
    int32_t status;
    tni_verdict_locate(path, &v);
    snprintf(cache, sizeof cache, "%s/tenon/probe/folder", folder);
    cr_assert_eq(mkdir(cache, 0755), 0);
    cr_assert_eq(tn_inspect_forget_probes(), 0);
    again = v;
    snprintf(again.path, sizeof again.path, "%.3000s", cache);
    cr_assert_not(tni_verdict_read(&again, &status, &found));
    tni_verdict_write(&again, TN_OK, &found); /* cannot replace a folder */
    cr_assert_eq(tn_inspect_forget_probes(), 0, "nothing half-written was left");
}
