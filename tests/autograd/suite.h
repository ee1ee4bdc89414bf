/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of one suite share: a context and a scope that must be sound at the end, with nothing left.
 * A file of tests includes it once and names `begin` and `end` in its TestSuite, or calls `end` in each test.
 */
#ifndef TESTS_AUTOGRAD_SUITE_H
#define TESTS_AUTOGRAD_SUITE_H

#include "fixture.h"

static tn_context *ctx;
static tn_scope *s;

static void begin(void)
{
    ctx = open_context();
    s = tn_scope_open(ctx);
}

static void end(void)
{
    expect_sound(s);
    tn_scope_close(s);
    close_context(ctx);
}

#endif
