/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of shims share: contexts with shims, captured log lines, findings by kind. */
#ifndef TESTS_SHIMS_FIXTURE_H
#define TESTS_SHIMS_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define assert_contains(text, part) \
    cr_assert(strstr((text), (part)) != NULL, "expected '%s' in '%s'", (part), (text))

/* All that was logged since log_clear, a line each. */
extern char log_text[65536];
void log_clear(void);

/* Makes a context with log and shims; the status is tn_context_create's. */
int32_t make_context(const char *shims, uint32_t flags, tn_context **out);
/* The same, which must succeed. */
tn_context *context_with(const char *shims);
/* The candidate that is this shim; state 99 when there is none. */
tn_candidate_info shim_candidate(tn_context *ctx, const char *shim);
/* Number of findings of a kind (NULL: of all); *out (may be NULL) is the last. */
uint32_t count_findings(tn_context *ctx, const char *kind, tn_finding *out);
/* Exactly one kind of finding was made, this one. */
tn_finding expect_finding(tn_context *ctx, const char *kind);
void expect_no_finding(tn_context *ctx);

#endif
