/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of manifests in which a test's contexts look for plugins, and what they say of what they find there. */
#ifndef TESTS_DISPATCHER_PLUGIN_FOLDER_H
#define TESTS_DISPATCHER_PLUGIN_FOLDER_H

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/tenon.h>
#include "../../core/at_end.h"
#include "../../core/refused.h"

#define assert_contains(text, part) \
    cr_assert(strstr((text), (part)) != NULL, "expected '%s' in '%s'", (part), (text))

static char folder[PATH_MAX];

static inline const char *built(const char *name)
{
    static char path[PATH_MAX + 256];
    snprintf(path, sizeof(path), "%s/lib%s.so", getenv("TENON_TEST_PLUGINS"), name);
    return path;
}

static inline void make_folder(void)
{
    snprintf(folder, sizeof(folder), "%s/tenon-test-XXXXXX", getenv("TENON_TEST_PLUGINS"));
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chmod(folder, 0755), 0);
    setenv("XDG_CACHE_HOME", folder, 1); /* no verdict is remembered from one test to the next */
}

static inline void remove_folder(void)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    MUST_HOLD(system(command) == 0);
}

static inline void manifest(const char *file, const char *name, const char *library, const char *more)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *f = fopen(path, "w");
    fprintf(f, "{\"tenon_manifest\": 1, \"name\": \"%s\", \"library\": \"%s\"%s}", name, built(library),
            more);
    fclose(f);
    cr_assert_eq(chmod(path, 0644), 0);
}

/* Of a shim for the setting 'validate'. */
static inline void validate_manifest(const char *file, const char *name, const char *library)
{
    manifest(file, name, library, ", \"shim\": \"validate\"");
}

static inline tn_context *context_of(const char *path)
{
    tn_context_options options = {.size = sizeof(options), .plugin_path = path};
    tn_context *ctx = NULL;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    return ctx;
}

static inline tn_candidate_info candidate(tn_context *ctx, uint32_t i)
{
    tn_candidate_info info = {.size = sizeof(info)};
    cr_assert_eq(tn_inspect_candidate(ctx, i, &info), TN_OK);
    return info;
}

static inline void expect_candidate(tn_context *ctx, uint32_t i, uint32_t state, const char *reason)
{
    tn_candidate_info info = candidate(ctx, i);
    cr_assert_eq(info.state, state, "%s", info.reason);
    cr_assert_str_eq(info.reason, reason);
}

/* A folder with this library alone, whose manifest ends with `members`. */
static inline void expect_refused(const char *library, const char *members, const char *reason)
{
    manifest("a.json", "skewed", library, members);
    tn_context *ctx = context_of(folder);
    expect_candidate(ctx, 0, TN_CANDIDATE_FAILED, reason);
    tn_context_destroy(ctx);
}

#endif
