/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of refused calls, all ones: float64 by the number of dimensions, then int64 and bool. */
#ifndef TESTS_OPS_REFUSALS_OPERANDS_H
#define TESTS_OPS_REFUSALS_OPERANDS_H

#include "refusals.h"

static tn_tensor *z;     /* () */
static tn_tensor *v;     /* (3) */
static tn_tensor *m, *r; /* (3, 3) and (2, 3) */
static tn_tensor *b;     /* (2, 2, 3) */
static tn_tensor *x, *w; /* an image (1, 3, 4, 4) and filters (3, 3, 2, 2) */
static tn_tensor *i, *j; /* int64 (2) and (2, 2) */
static tn_tensor *k;     /* bool (3) */
#define IMAGINARY tn_value_complex((double[]){0, 1})

static void begin_with_operands(void)
{
    begin();
    z = ones(TN_NO_INTS);
    v = ones(TN_INTS(3));
    m = ones(TN_INTS(3, 3));
    r = ones(TN_INTS(2, 3));
    b = ones(TN_INTS(2, 2, 3));
    x = ones(TN_INTS(1, 3, 4, 4));
    w = ones(TN_INTS(3, 3, 2, 2));
    i = longs(TN_INTS(2));
    j = longs(TN_INTS(2, 2));
    k = bools(TN_INTS(3));
}

#endif
