/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of pooling. */
#include "rules.h"

Test(rules_pool, maxima)
{
    tn_scope *s = rules_begin();
    CHECK_CALL(s, TN_OP_MAX_POOL2D_WITH_INDICES, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(1, 2, 4, 5))),
               list(TN_INTS(3, 2)), list(TN_INTS(2, 1)), list(TN_INTS(1, 0)), list(TN_INTS(1, 2)), truth(0));
    CHECK_CALL(s, TN_OP_MAX_POOL2D_WITH_INDICES, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(1, 3, 4))),
               list(TN_INTS(2, 2)), list(TN_NO_INTS), list(TN_INTS(1, 1)), list(TN_INTS(1, 1)), truth(1));
    CHECK_CALL(s, TN_OP_MAX_POOL3D_WITH_INDICES, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(1, 1, 3, 2, 3))),
               list(TN_INTS(2, 2, 2)), list(TN_INTS(1, 1, 1)), list(TN_INTS(0, 1, 0)), list(TN_INTS(1, 1, 1)),
               truth(0));
    rules_end(s);
}

Test(rules_pool, means)
{
    tn_scope *s = rules_begin();
    for (int32_t count_padding = 0; count_padding < 2; count_padding++) {
        tn_value divisor = count_padding ? whole(3) : none();
        CHECK(s, TN_OP_AVG_POOL2D, of(leaf(s, -2, 2, TN_INTS(1, 2, 4, 3))), list(TN_INTS(3, 2)),
              list(TN_INTS(2, 1)), list(TN_INTS(1, 0)), truth(0), truth(count_padding), none());
        CHECK(s, TN_OP_AVG_POOL2D, of(leaf(s, -2, 2, TN_INTS(1, 4, 5))), list(TN_INTS(2, 2)),
              list(TN_NO_INTS), list(TN_INTS(0, 1)), truth(1), truth(count_padding), divisor);
        CHECK(s, TN_OP_AVG_POOL3D, of(leaf(s, -2, 2, TN_INTS(1, 1, 3, 2, 3))), list(TN_INTS(2, 2, 2)),
              list(TN_INTS(1, 1, 2)), list(TN_INTS(0, 1, 1)), truth(0), truth(count_padding), divisor);
    }
    rules_end(s);
}

Test(rules_pool, adaptive)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP__ADAPTIVE_AVG_POOL2D, of(leaf(s, -2, 2, TN_INTS(1, 2, 3, 4))), list(TN_INTS(2, 3)));
    CHECK(s, TN_OP__ADAPTIVE_AVG_POOL2D, of(leaf(s, -2, 2, TN_INTS(1, 3, 3))), list(TN_INTS(2, 1)));
    CHECK(s, TN_OP__ADAPTIVE_AVG_POOL3D, of(leaf(s, -2, 2, TN_INTS(1, 1, 3, 2, 3))), list(TN_INTS(2, 1, 2)));
    CHECK(s, TN_OP_ADAPTIVE_AVG_POOL2D, of(leaf(s, -2, 2, TN_INTS(1, 2, 3, 2))), list(TN_INTS(1, 1)));
    CHECK_CALL(s, TN_OP_ADAPTIVE_MAX_POOL2D, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(1, 2, 3, 4))),
               list(TN_INTS(2, 3)));
    CHECK_CALL(s, TN_OP_ADAPTIVE_MAX_POOL3D, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(1, 3, 2, 3))),
               list(TN_INTS(2, 1, 2)));
    rules_end(s);
}

Test(rules_pool, fractional)
{
    tn_scope *s = rules_begin();
    CHECK_CALL(s, TN_OP_FRACTIONAL_MAX_POOL2D, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(1, 1, 4, 5))),
               list(TN_INTS(2, 2)), list(TN_INTS(2, 3)), of(constant(s, 0.1, 0.9, TN_INTS(1, 1, 2))));
    CHECK_CALL(s, TN_OP_FRACTIONAL_MAX_POOL3D, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(1, 1, 3, 4, 3))),
               list(TN_INTS(2, 2, 2)), list(TN_INTS(2, 2, 1)), of(constant(s, 0.1, 0.9, TN_INTS(1, 1, 3))));
    rules_end(s);
}

Test(rules_pool, undone)
{
    const int64_t at[] = {1, 2, 7, 11}, in_space[] = {0, 5, 9, 15};
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_MAX_UNPOOL2D, of(leaf(s, -2, 2, TN_INTS(1, 2, 2))), of(longs(s, TN_INTS(1, 2, 2), at)),
          list(TN_INTS(3, 4)));
    CHECK(s, TN_OP_MAX_UNPOOL3D, of(leaf(s, -2, 2, TN_INTS(1, 1, 1, 2, 2))),
          of(longs(s, TN_INTS(1, 1, 1, 2, 2), in_space)), list(TN_INTS(2, 4, 4)), list(TN_INTS(2, 2, 2)),
          list(TN_INTS(0, 0, 0)));
    /* No images. */
    tn_tensor *none = leaf(s, -2, 2, TN_INTS(0, 2, 2, 2)), *where = tn_zeros_like(s, none, .dtype = TN_INT64);
    tn_backward(s, tn_sum(s, tn_max_unpool2d(s, none, where, TN_INTS(4, 4))));
    cr_expect_eq(tn_tensor_numel(tn_grad_of(s, none)), 0);
    rules_end(s);
}

Test(rules_pool, through_their_bodies)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_MAX_POOL1D, of(leaf(s, -2, 2, TN_INTS(1, 2, 5))), list(TN_INTS(2)), list(TN_INTS(2)),
          list(TN_INTS(1)), list(TN_INTS(1)), truth(0));
    CHECK(s, TN_OP_AVG_POOL1D, of(leaf(s, -2, 2, TN_INTS(1, 2, 5))), list(TN_INTS(3)), list(TN_INTS(2)),
          list(TN_INTS(1)), truth(0), truth(1));
    CHECK(s, TN_OP_ADAPTIVE_AVG_POOL1D, of(leaf(s, -2, 2, TN_INTS(1, 2, 5))), list(TN_INTS(3)));
    rules_end(s);
}
