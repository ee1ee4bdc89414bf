/* SPDX-License-Identifier: Apache-2.0 */
/* A context for tests of the reference device alone, which provoke warnings: its log goes nowhere. */
#ifndef TESTS_BEHAVIOUR_REFERENCE_H
#define TESTS_BEHAVIOUR_REFERENCE_H

#include <criterion/criterion.h>
#include <tenon/tenon.h>

static void discard_line(void *user, int32_t level, const char *line)
{
    (void)user, (void)level, (void)line;
}

static inline tn_context *open_reference(tn_device *out_first)
{
    const tn_context_options options = {.size = sizeof options, .log = discard_line};
    tn_context *ctx = NULL;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK, "%s", tn_last_error()->message);
    *out_first = tn_device_choose(ctx, "reference:0", NULL);
    cr_assert_neq(*out_first, 0, "the reference plugin is not there");
    return ctx;
}

/* Such a context with a scope, which must not have failed at the end. */
typedef struct side {
    tn_context *ctx;
    tn_scope *s;
    tn_device device;
} side;

static inline side open_side(void)
{
    side a;
    a.ctx = open_reference(&a.device);
    a.s = tn_scope_open(a.ctx);
    return a;
}

static inline void close_side(side *a)
{
    cr_assert_not(tn_scope_failed(a->s), "%s", tn_scope_failed(a->s) ? tn_scope_error(a->s)->message : "");
    tn_scope_close(a->s);
    tn_context_destroy(a->ctx);
}

static inline void expect_floats(tn_scope *s, tn_tensor *t, const float *want, uint64_t count)
{
    float got[16];
    cr_assert_eq(tn_to_host(s, t, got, count * sizeof *got), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    for (uint64_t i = 0; i < count; i++) cr_assert_eq(got[i], want[i], "%g instead of %g", got[i], want[i]);
}

#endif
