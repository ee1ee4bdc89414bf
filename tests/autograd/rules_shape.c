/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of joining, turning, copying, sorting, and of the parts of complex numbers. */
#include "rules.h"

static tn_value three(tn_scope *s, tn_ints a, tn_ints b, tn_ints c)
{
    tn_tensor **items = tn_scope_memory(s, 3 * sizeof *items);
    cr_assert_not_null(items);
    items[0] = leaf(s, -2, 2, a);
    items[1] = constant(s, -2, 2, b);
    items[2] = leaf(s, -2, 2, c);
    return tn_value_tensors(items, 3);
}

Test(rules_shape, joining)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_CAT, three(s, TN_INTS(2, 1), TN_INTS(2, 3), TN_INTS(2, 2)), whole(1));
    CHECK(s, TN_OP_CAT, three(s, TN_INTS(1, 2), TN_INTS(0), TN_INTS(3, 2)), whole(-2));
    CHECK(s, TN_OP_STACK, three(s, TN_INTS(2, 2), TN_INTS(2, 2), TN_INTS(2, 2)), whole(1));
    CHECK(s, TN_OP_STACK, three(s, TN_INTS(2), TN_INTS(2), TN_INTS(2)), whole(-1));
    CHECK(s, TN_OP_HSTACK, three(s, TN_INTS(1, 2), TN_INTS(1, 2), TN_INTS(1, 3)));
    CHECK(s, TN_OP_VSTACK, three(s, TN_INTS(2), TN_INTS(1, 2), TN_INTS(3, 2)));
    CHECK(s, TN_OP_DSTACK, three(s, TN_INTS(2), TN_INTS(1, 2), TN_INTS(1, 2, 2)));
    CHECK(s, TN_OP_COLUMN_STACK, three(s, TN_INTS(2), TN_INTS(2, 2), TN_INTS(2)));
    CHECK(s, TN_OP_BLOCK_DIAG, three(s, TN_INTS(2), TN_INTS(2, 1), TN_INTS(2, 2)));
    rules_end(s);
}

Test(rules_shape, turning)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_FLIP, of(leaf(s, -2, 2, TN_INTS(2, 3))), list(TN_INTS(0, -1)));
    CHECK(s, TN_OP_ROLL, of(leaf(s, -2, 2, TN_INTS(2, 3))), list(TN_INTS(1, -2)), list(TN_INTS(0, 1)));
    CHECK(s, TN_OP_ROLL, of(leaf(s, -2, 2, TN_INTS(2, 3))), list(TN_INTS(2)), list(TN_NO_INTS));
    for (int64_t k = -1; k < 4; k++)
        CHECK(s, TN_OP_ROT90, of(leaf(s, -2, 2, TN_INTS(2, 3))), whole(k), list(TN_INTS(0, 1)));
    rules_end(s);
}

Test(rules_shape, triangles_and_diagonals)
{
    tn_scope *s = rules_begin();
    for (int64_t d = -1; d < 2; d++) {
        CHECK(s, TN_OP_TRIL, of(leaf(s, -2, 2, TN_INTS(2, 2, 3))), whole(d));
        CHECK(s, TN_OP_TRIU, of(leaf(s, -2, 2, TN_INTS(3, 2))), whole(d));
        CHECK(s, TN_OP_DIAG, of(leaf(s, -2, 2, TN_INTS(3))), whole(d));
        CHECK(s, TN_OP_DIAG, of(leaf(s, -2, 2, TN_INTS(3, 2))), whole(d));
        CHECK(s, TN_OP_DIAG_EMBED, of(leaf(s, -2, 2, TN_INTS(2, 2))), whole(d), whole(0), whole(2));
    }
    rules_end(s);
}

Test(rules_shape, blocks_and_channels)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_PIXEL_SHUFFLE, of(leaf(s, -2, 2, TN_INTS(1, 4, 1, 2))), whole(2));
    CHECK(s, TN_OP_PIXEL_UNSHUFFLE, of(leaf(s, -2, 2, TN_INTS(1, 2, 4))), whole(2));
    CHECK(s, TN_OP_CHANNEL_SHUFFLE, of(leaf(s, -2, 2, TN_INTS(1, 6, 1, 1))), whole(2));
    rules_end(s);
}

Test(rules_shape, repeating)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_REPEAT, of(leaf(s, -2, 2, TN_INTS(2, 1))), list(TN_INTS(2, 1, 3)));
    CHECK(s, TN_OP_REPEAT, of(leaf(s, -2, 2, TN_INTS(2))), list(TN_INTS(2)));
    CHECK(s, TN_OP_TILE, of(leaf(s, -2, 2, TN_INTS(2, 2))), list(TN_INTS(2)));
    rules_end(s);
}

Test(rules_shape, copying)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_CLONE, of(leaf(s, -2, 2, TN_INTS(2, 2))), none());
    CHECK(s, TN_OP_COPY_DEFAULT, of(leaf(s, -2, 2, TN_INTS(2, 2))), of(leaf(s, -2, 2, TN_INTS(2))), truth(0));
    CHECK(s, TN_OP_FILL, of(leaf(s, -2, 2, TN_INTS(2, 2))), of(leaf(s, -2, 2, TN_NO_INTS)));
    CHECK(s, TN_OP_FILL_SCALAR, of(leaf(s, -2, 2, TN_INTS(2))), real(3));
    CHECK(s, TN_OP__TO_COPY, of(leaf(s, -2, 2, TN_INTS(2))), tn_value_dtype(TN_COMPLEX128), none(), none(),
          none(), truth(0), none());
    rules_end(s);
}

Test(rules_shape, sorting)
{
    tn_scope *s = rules_begin();
    CHECK_CALL(s, TN_OP_SORT, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(2, 4))), whole(1), truth(0));
    CHECK_CALL(s, TN_OP_SORT_STABLE, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(3, 2))), truth(1), whole(0),
               truth(1));
    CHECK_CALL(s, TN_OP_SORT, 2, 1, 0, of(leaf(s, -2, 2, TN_NO_INTS)), whole(0), truth(0));
    CHECK_CALL(s, TN_OP_TOPK, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(2, 4))), whole(2), whole(-1), truth(1),
               truth(1));
    CHECK_CALL(s, TN_OP_TOPK, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(4, 2))), whole(3), whole(0), truth(0),
               truth(1));
    CHECK_CALL(s, TN_OP_KTHVALUE, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(2, 4))), whole(3), whole(1), truth(0));
    CHECK_CALL(s, TN_OP_KTHVALUE, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(3, 2))), whole(1), whole(0), truth(1));
    rules_end(s);
}

Test(rules_shape, parts_of_complex_numbers)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_VIEW_AS_REAL, of(complex_leaf(s, -2, 2, TN_INTS(2))));
    CHECK(s, TN_OP_VIEW_AS_COMPLEX, of(leaf(s, -2, 2, TN_INTS(2, 2))));
    CHECK(s, TN_OP_REAL, of(complex_leaf(s, -2, 2, TN_INTS(2))));
    CHECK(s, TN_OP_IMAG, of(complex_leaf(s, -2, 2, TN_INTS(2))));
    CHECK(s, TN_OP__CONJ, of(complex_leaf(s, -2, 2, TN_INTS(2))));
    CHECK(s, TN_OP_CONJ_PHYSICAL, of(complex_leaf(s, -2, 2, TN_INTS(2))));
    CHECK(s, TN_OP__NEG_VIEW, of(leaf(s, -2, 2, TN_INTS(2))));
    CHECK(s, TN_OP_COMPLEX, of(leaf(s, -2, 2, TN_INTS(2, 1))), of(leaf(s, -2, 2, TN_INTS(2))));
    CHECK(s, TN_OP_POLAR, of(leaf(s, 0.5, 2, TN_INTS(2, 1))), of(leaf(s, -2, 2, TN_INTS(2))));
    rules_end(s);
}
