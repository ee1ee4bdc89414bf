/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setup of a suite: a context and a scope, which must not have failed at the end and leave no memory. A
 * file of tests includes this once, names `begin` in its TestSuite and calls `end` in each test or names it
 * there.
 */
#ifndef TESTS_AUTOGRAD_SUITE_H
#define TESTS_AUTOGRAD_SUITE_H

#include "fixture.h"
#include "../core/at_end.h"

static tn_context *ctx;
static tn_scope *s;

static void begin(void)
{
    ctx = open_context();
    s = tn_scope_open(ctx);
}

static void end(void)
{
    MUST_HOLD(is_sound(s));
    tn_scope_close(s);
    close_context(ctx);
}

#endif
