/* SPDX-License-Identifier: Apache-2.0 */
/* The setup of a suite of tests that use the library as a program does: a context and a scope. Included once. */
#ifndef TESTS_CORE_CLIENT_SUITE_H
#define TESTS_CORE_CLIENT_SUITE_H

#include <criterion/criterion.h>
#include <tenon/tenon.h>

static tn_context *ctx;
static tn_scope *s;

static void begin(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    s = tn_scope_open(ctx);
}

static void end(void)
{
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

#endif
