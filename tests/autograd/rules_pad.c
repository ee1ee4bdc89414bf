/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of padding. */
#include "rules.h"

Test(rules_pad, with_a_number)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_CONSTANT_PAD_ND, of(leaf(s, -2, 2, TN_INTS(2, 3))), list(TN_INTS(1, 2)), real(3));
    CHECK(s, TN_OP_CONSTANT_PAD_ND, of(leaf(s, -2, 2, TN_INTS(2, 4))), list(TN_INTS(-1, 2, 1, -1)), real(0));
    CHECK(s, TN_OP_CONSTANT_PAD_ND, of(complex_leaf(s, -2, 2, TN_INTS(3))), list(TN_INTS(1, 1)), real(1));
    CHECK(s, TN_OP_CONSTANT_PAD_ND, of(leaf(s, -2, 2, TN_INTS(3))), list(TN_INTS(-2, -1)), real(1));
    rules_end(s);
}

Test(rules_pad, by_reflection)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_REFLECTION_PAD1D, of(leaf(s, -2, 2, TN_INTS(2, 4))), list(TN_INTS(2, 3)));
    CHECK(s, TN_OP_REFLECTION_PAD1D, of(leaf(s, -2, 2, TN_INTS(1, 2, 3))), list(TN_INTS(1, 0)));
    CHECK(s, TN_OP_REFLECTION_PAD2D, of(leaf(s, -2, 2, TN_INTS(1, 3, 3))), list(TN_INTS(2, 1, 0, 2)));
    CHECK(s, TN_OP_REFLECTION_PAD3D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 2, 3))),
          list(TN_INTS(1, 2, 1, 0, 0, 1)));
    rules_end(s);
}

Test(rules_pad, by_the_edge)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_REPLICATION_PAD1D, of(leaf(s, -2, 2, TN_INTS(2, 3))), list(TN_INTS(2, 3)));
    CHECK(s, TN_OP_REPLICATION_PAD1D, of(leaf(s, -2, 2, TN_INTS(1, 4))), list(TN_INTS(-1, 2)));
    CHECK(s, TN_OP_REPLICATION_PAD2D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 3))), list(TN_INTS(2, 1, 0, 3)));
    CHECK(s, TN_OP_REPLICATION_PAD3D, of(leaf(s, -2, 2, TN_INTS(1, 2, 2, 2))),
          list(TN_INTS(1, 2, 1, 0, 0, 2)));
    rules_end(s);
}

Test(rules_pad, around)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP__PAD_CIRCULAR, of(leaf(s, -2, 2, TN_INTS(1, 2, 3))), list(TN_INTS(2, 1)));
    CHECK(s, TN_OP__PAD_CIRCULAR, of(leaf(s, -2, 2, TN_INTS(1, 1, 3, 2))), list(TN_INTS(1, 2, 0, 1)));
    rules_end(s);
}

/* The backward operators are functions of the gradient, with a gradient of their own. */
Test(rules_pad, of_backward_operators)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_REFLECTION_PAD1D_BACKWARD, of(leaf(s, -2, 2, TN_INTS(1, 7))),
          of(leaf(s, -2, 2, TN_INTS(1, 4))), list(TN_INTS(1, 2)));
    CHECK(s, TN_OP_REPLICATION_PAD2D_BACKWARD, of(leaf(s, -2, 2, TN_INTS(1, 3, 5))),
          of(leaf(s, -2, 2, TN_INTS(1, 2, 3))), list(TN_INTS(1, 1, 0, 1)));
    rules_end(s);
}
