/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "dispatcher/plugin/manifest.h"
#include "../../core/refused.h"

static int32_t parse(const char *text, tni_manifest *out, tni_reason *reason)
{
    return tni_manifest_parse(text, strlen(text), out, reason);
}

Test(manifest, all_members)
{
    tni_manifest m;
    tni_reason reason = {""};
    cr_assert_eq(parse("{\"tenon_manifest\": 1, \"name\": \"acme\", \"library\": \"lib/libacme.so\",\n"
                       " \"device_type\": \"acme\", \"description\": \"Acme's\", \"enabled\": false,\n"
                       " \"requires\": [\"cpu\", \"cuda\"], \"later\": {\"unknown\": [1, 2]}}\n",
                       &m, &reason),
                 TN_OK, "%s", reason.text);
    cr_assert_str_eq(m.name, "acme");
    cr_assert_str_eq(m.library, "lib/libacme.so");
    cr_assert_str_eq(m.device_type, "acme");
    cr_assert_str_eq(m.description, "Acme's");
    cr_assert_eq(m.enabled, 0);
    cr_assert_eq(m.n_requires, 2);
    cr_assert_str_eq(m.requires[1], "cuda");
}

Test(manifest, required_members_are_enough)
{
    tni_manifest m;
    tni_reason reason = {""};
    cr_assert_eq(parse("{\"tenon_manifest\":1,\"name\":\"a\",\"library\":\"b\"}", &m, &reason), TN_OK);
    cr_assert_eq(m.enabled, 1);
    cr_assert_eq(m.n_requires, 0);
    cr_assert_str_eq(m.device_type, "");
}

#define SOUND         "{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"b\""
#define FOUR_NAMES(n) n ", " n ", " n ", " n
#define NAMES(n)      FOUR_NAMES(n) ", " FOUR_NAMES(n)

Test(manifest, refusals_say_what_and_where)
{
    static const char *const cases[][2] = {
        {"", "the file is empty"},
        {"{\"tenon_manifest\": 1,\n \"name\": \"a\",\n", "unexpected end of JSON at line"},
        {"{\"tenon_manifest\": 1,\n \"name\": x}", "bad JSON at line 2, column"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"b\"} more",
         "text after the end at line 1, column 52"},
        {"[1, 2]", "must be an object, found an array"},
        {"{\"name\": \"a\", \"library\": \"b\"}", "\"tenon_manifest\" is missing"},
        {"{\"tenon_manifest\": 2, \"name\": \"a\", \"library\": \"b\"}",
         "version 2, this library reads version 1"},
        {"{\"tenon_manifest\": \"1\"}", "\"tenon_manifest\" must be a number, found a string"},
        {"{\"tenon_manifest\": 1, \"library\": \"b\"}", "\"name\" is missing"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\"}", "\"library\" is missing"},
        {"{\"tenon_manifest\": 1, \"name\": 7, \"library\": \"b\"}",
         "\"name\" must be a string, found a number"},
        {"{\"tenon_manifest\": 1, \"name\": \"\", \"library\": \"b\"}", "\"name\" is empty"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"\"}", "\"library\" is empty"},
        {"{\"tenon_manifest\": 1, \"name\": \"a,b\", \"library\": \"b\"}", "found 'a,b'"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"name\": \"c\", \"library\": \"b\"}",
         "\"name\" occurs twice"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"b\\u0000c\"}", "an escaped zero"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"b\\nc\"}",
         "\"library\" has a control character"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"b\", \"enabled\": 1}",
         "\"enabled\" must be a boolean, found a number"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"b\", \"requires\": \"cpu\"}",
         "\"requires\" must be an array of names, found a string"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"b\", \"requires\": [null]}",
         "\"requires\" must be a string, found null"},
        {"{\"tenon_manifest\": 1, \"name\": \"abcdefghijklmnopqrstuvwxyz0123456789\", \"library\": \"b\"}",
         "\"name\" is too long: 36 bytes, at most 31"},
        {"{\"tenon_manifest\": true}", "\"tenon_manifest\" must be a number, found a boolean"},
        {"{\"tenon_manifest\": 1, \"tenon_manifest\": 1}", "\"tenon_manifest\" occurs twice"},
        {"{\"tenon_manifest\": 1, \"name\": \"a\", \"library\": \"b\", \"library\": \"c\"}",
         "\"library\" occurs twice"},
        {"{\"tenon_manifest\": 1, \"name\": {}, \"library\": \"b\"}",
         "\"name\" must be a string, found an object"},
        {"{\"tenon_manifest\": 1, \"name\": [], \"library\": \"b\"}",
         "\"name\" must be a string, found an array"},
        {SOUND ", \"shim\": 1}", "\"shim\" must be a string, found a number"},
        {SOUND ", \"shim\": \"a b\"}", "found 'a b'"},
        {SOUND ", \"device_type\": 1}", "\"device_type\" must be a string, found a number"},
        {SOUND ", \"description\": null}", "\"description\" must be a string, found null"},
        {SOUND ", \"description\": \"a\x7f\"}", "\"description\" has a control character"},
        {SOUND ", \"device_type\": \"a\", \"device_type\": \"b\"}", "\"device_type\" occurs twice"},
        {SOUND ", \"description\": \"\", \"description\": \"\"}", "\"description\" occurs twice"},
        {SOUND ", \"enabled\": true, \"enabled\": false}", "\"enabled\" occurs twice"},
        {SOUND ", \"requires\": [], \"requires\": []}", "\"requires\" occurs twice"},
        {SOUND ", \"shim\": \"a\", \"shim\": \"a\"}", "\"shim\" occurs twice"},
        {SOUND ", \"requires\": [" NAMES("\"a\"") ", \"a\"]}", "\"requires\" has more than 8 names"},
        {"{\"a\":\"\\", "unexpected end of JSON at line 1, column 7"},
        {"}}}}", "bad JSON at line 1, column 1"},
        {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[", "nested too deeply at line 1, column 21"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tni_manifest m;
        tni_reason reason = {""};
        cr_assert_neq(parse(cases[i][0], &m, &reason), TN_OK, "%s", cases[i][0]);
        assert_contains(reason.text, cases[i][1]);
    }
}

Test(manifest, a_zero_byte_and_a_huge_file)
{
    tni_manifest m;
    tni_reason reason = {""};
    static char huge[100000];
    cr_assert_eq(tni_manifest_parse("{\0}", 3, &m, &reason), TN_E_CORRUPT);
    assert_contains(reason.text, "a zero byte at line 1, column 2");
    memset(huge, ' ', sizeof(huge));
    cr_assert_eq(tni_manifest_parse(huge, sizeof(huge), &m, &reason), TN_E_CORRUPT);
    assert_contains(reason.text, "100000 bytes, at most 65536");
}

Test(manifest, every_beginning_of_a_manifest_is_refused)
{
    static const char text[] = "{\"tenon_manifest\": 1, \"name\": \"acme\", \"library\": \"libacme.so\"}";
    for (size_t length = 0; length + 1 < sizeof(text); length++) {
        tni_manifest m;
        tni_reason reason = {""};
        char *exact = malloc(length + !length); /* so that a sanitizer sees a read past the end */
        memcpy(exact, text, length);
        cr_assert_neq(tni_manifest_parse(exact, length, &m, &reason), TN_OK, "%zu", length);
        cr_assert(reason.text[0]);
        free(exact);
    }
}

Test(manifest, files_that_are_not_manifests)
{
    const int files[] = {open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                         memfd_create("manifest", MFD_CLOEXEC)};
    static const refused_status expected[] = {
        {TN_E_CORRUPT, "manifest: not a regular file"},
        {TN_E_NOT_FOUND, "not a manifest: 70000 bytes, at most 65536"},
    };
    cr_assert_eq(ftruncate(files[1], 70000), 0);
    for (int i = 0; i < 2; i++) {
        tni_manifest m;
        tni_reason reason = {""};
        cr_expect_eq(tni_manifest_read(files[i], &m, &reason), expected[i].status);
        cr_expect_str_eq(reason.text, expected[i].text);
        close(files[i]);
    }
}
