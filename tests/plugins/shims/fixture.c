/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts with shims; see fixture.h. */
#include "fixture.h"

#include <pthread.h>

char log_text[65536];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void log_clear(void)
{
    pthread_mutex_lock(&lock);
    log_text[0] = 0;
    pthread_mutex_unlock(&lock);
}

static void keep_line(void *user, int32_t level, const char *text)
{
    pthread_mutex_lock(&lock);
    size_t used = strlen(log_text);
    if (level <= TN_LOG_WARN) snprintf(log_text + used, sizeof(log_text) - used, "%s\n", text);
    pthread_mutex_unlock(&lock);
}

int32_t make_context(const char *shims, uint32_t flags, tn_context **out)
{
    tn_context_options options = {.size = sizeof(options), .flags = flags, .log = keep_line, .shims = shims};
    log_clear();
    int32_t status = tn_context_create(&options, out);
    if (status == TN_OK) tn_set_fallback_policy(*out, TN_FALLBACK_SILENT);
    return status;
}

tn_context *context_with(const char *shims)
{
    tn_context *ctx = NULL;
    cr_assert_eq(make_context(shims, 0, &ctx), TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "");
    return ctx;
}

tn_candidate_info shim_candidate(tn_context *ctx, const char *shim)
{
    for (uint32_t i = 0; i < tn_inspect_candidate_count(ctx); i++) {
        tn_candidate_info c = {.size = sizeof(c)};
        cr_assert_eq(tn_inspect_candidate(ctx, i, &c), TN_OK);
        if (strcmp(c.shim, shim) == 0) return c;
    }
    return (tn_candidate_info){.state = 99};
}

uint32_t count_findings(tn_context *ctx, const char *kind, tn_finding *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn_inspect_finding_count(ctx); i++) {
        tn_finding f = {.size = sizeof(f)};
        cr_assert_eq(tn_inspect_finding(ctx, i, &f), TN_OK);
        if (kind && strcmp(f.kind, kind) != 0) continue;
        count++;
        if (out) *out = f;
    }
    return count;
}

tn_finding expect_finding(tn_context *ctx, const char *kind)
{
    tn_finding f = {.size = 0};
    cr_assert_gt(count_findings(ctx, kind, &f), 0, "no finding '%s'; the log:\n%s", kind, log_text);
    cr_assert_eq(count_findings(ctx, kind, NULL), tn_inspect_finding_count(ctx), "more than '%s':\n%s", kind,
                 log_text);
    return f;
}

void expect_no_finding(tn_context *ctx)
{
    cr_assert_eq(tn_inspect_finding_count(ctx), 0, "findings:\n%s", log_text);
}
