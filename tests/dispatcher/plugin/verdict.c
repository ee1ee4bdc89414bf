/* SPDX-License-Identifier: Apache-2.0 */
/* Digests are those of FIPS 180-4's examples; verdicts are written, read, and forgotten when the file
 * changes. */
#include "fixture.h"

#include <sys/stat.h>
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

Test(verdict, is_remembered_by_content)
{
    char folder[PATH_MAX], path[PATH_MAX + 64];
    tni_verdict v, other;
    tni_reason reason = {"probe: crashed"}, found = {""};
    int32_t status = -1;
    snprintf(folder, sizeof(folder), "%s", make_folder());
    setenv("XDG_CACHE_HOME", folder, 1);
    write_text(folder, "a", "one");
    write_text(folder, "b", "one");
    snprintf(path, sizeof(path), "%s/a", folder);
    tni_verdict_locate(path, &v);
    cr_assert(v.path[0]);
    cr_assert_not(tni_verdict_read(&v, &status, &found));
    tni_verdict_write(&v, TN_E_UNSUPPORTED, &reason); /* declined: not kept */
    cr_assert_not(tni_verdict_read(&v, &status, &found));
    tni_verdict_write(&v, TN_E_CONTRACT, &reason);
    cr_assert(tni_verdict_read(&v, &status, &found));
    cr_assert_eq(status, TN_E_CONTRACT);
    cr_assert_str_eq(found.text, "probe: crashed (remembered; TENON_PLUGIN_PROBE=always asks again)");
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
    remove_folder(folder);
}

Test(verdict, of_others_is_not_believed)
{
    char folder[PATH_MAX], path[PATH_MAX + 64];
    tni_verdict v;
    tni_reason found = {""};
    int32_t status = -1;
    snprintf(folder, sizeof(folder), "%s", make_folder());
    setenv("XDG_CACHE_HOME", folder, 1);
    write_text(folder, "a", "one");
    snprintf(path, sizeof(path), "%s/a", folder);
    tni_verdict_locate(path, &v);
    tni_verdict_write(&v, TN_OK, &found);
    cr_assert_eq(chmod(v.path, 0666), 0);
    cr_assert_not(tni_verdict_read(&v, &status, &found));
    write_file(v.path, "rubbish", 7);
    cr_assert_not(tni_verdict_read(&v, &status, &found));
    remove_folder(folder);
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
