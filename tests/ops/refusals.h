/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that must be refused, each with a part of the expected text: ATen's where ATen refuses the call in these
 * words.
 */
#ifndef TESTS_OPS_REFUSALS_H
#define TESTS_OPS_REFUSALS_H

#include <math.h>
#include <string.h>
#include "suite.h"

/* Goes on after a mismatch, so that a run shows all of them. */
static void expect_refusal(const char *text, int32_t line)
{
    const tn_error *e = tn_scope_error(s);
    cr_expect(e && strstr(e->message, text), "line %d: %s", (int)line, e ? e->message : "no error");
    tn_scope_clear(s);
}
#define REFUSED(call, text)             \
    do {                                \
        (void)(call);                   \
        expect_refusal(text, __LINE__); \
    } while (0)

static inline tn_tensor *ones(tn_ints sizes)
{
    return tn_ones(s, sizes, .dtype = TN_FLOAT64);
}
static inline tn_tensor *longs(tn_ints sizes)
{
    return tn_ones(s, sizes, .dtype = TN_INT64);
}
static inline tn_tensor *bools(tn_ints sizes)
{
    return tn_ones(s, sizes, .dtype = TN_BOOL);
}

#endif
