/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of interpolation and of sampling at a grid. */
#include "rules.h"

#include <string.h>

Test(rules_upsample, nearest)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_UPSAMPLE_NEAREST1D, of(leaf(s, -2, 2, TN_INTS(1, 2, 3))), list(TN_INTS(5)), none());
    CHECK(s, TN_OP_UPSAMPLE_NEAREST1D, of(leaf(s, -2, 2, TN_INTS(1, 1, 4))), list(TN_INTS(9)), real(2.3));
    CHECK(s, TN_OP_UPSAMPLE_NEAREST2D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 3))), list(TN_INTS(3, 2)), none(),
          none());
    CHECK(s, TN_OP_UPSAMPLE_NEAREST3D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 1, 2))), list(TN_INTS(3, 2, 3)),
          none(), none(), none());
    CHECK(s, TN_OP__UPSAMPLE_NEAREST_EXACT1D, of(leaf(s, -2, 2, TN_INTS(1, 2, 3))), list(TN_INTS(5)), none());
    CHECK(s, TN_OP__UPSAMPLE_NEAREST_EXACT2D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 3))), list(TN_INTS(3, 2)),
          none(), none());
    CHECK(s, TN_OP__UPSAMPLE_NEAREST_EXACT3D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 1, 2))),
          list(TN_INTS(3, 2, 3)), none(), none(), none());
    rules_end(s);
}

Test(rules_upsample, linear)
{
    tn_scope *s = rules_begin();
    for (int32_t align = 0; align < 2; align++) {
        tn_value a = truth(align);
        CHECK(s, TN_OP_UPSAMPLE_LINEAR1D, of(leaf(s, -2, 2, TN_INTS(1, 2, 3))), list(TN_INTS(5)), a, none());
        CHECK(s, TN_OP_UPSAMPLE_BILINEAR2D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 3))), list(TN_INTS(3, 5)), a,
              none(), none());
        CHECK(s, TN_OP_UPSAMPLE_BILINEAR2D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 3))), list(TN_INTS(3, 5)), a,
              real(1.7), real(1.9));
        CHECK(s, TN_OP_UPSAMPLE_TRILINEAR3D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 2, 2))),
              list(TN_INTS(3, 2, 3)), a, none(), none(), none());
        CHECK(s, TN_OP_UPSAMPLE_BICUBIC2D, of(leaf(s, -2, 2, TN_INTS(1, 1, 3, 3))), list(TN_INTS(4, 2)), a,
              none(), none());
        CHECK(s, TN_OP__UPSAMPLE_BILINEAR2D_AA, of(leaf(s, -2, 2, TN_INTS(1, 1, 4, 3))), list(TN_INTS(2, 2)),
              a, none(), none());
        CHECK(s, TN_OP__UPSAMPLE_BICUBIC2D_AA, of(leaf(s, -2, 2, TN_INTS(1, 1, 4, 3))), list(TN_INTS(2, 4)),
              a, none(), none());
    }
    rules_end(s);
}

/* Bilinear, nearest, bicubic; padding by zeros, the border, reflection. */
/* A gradient with another size than the forward result would be read past its end. */
Test(rules_upsample, gradients_have_the_size_of_the_result)
{
    tn_scope *s = rules_begin();
    const int64_t wrong[][4] = {{1, 2, 3, 4}, {1, 2, 2, 5}, {2, 2, 3, 5}, {1, 1, 3, 5}};
    for (int i = 0; i < 4; i++) {
        tn_scope *c = tn_scope_open(tn_scope_context(s));
        tn_tensor *grad = tn_ones(c, ((tn_ints){wrong[i], 4}));
        cr_assert_null(tn_upsample_bilinear2d_backward(c, grad, TN_INTS(3, 5), TN_INTS(1, 2, 2, 3), 0));
        cr_assert_eq(tn_scope_error(c)->code, TN_E_SHAPE);
        cr_assert(strstr(tn_scope_error(c)->message, "Expected grad_output to have the same shape as output"),
                  "%s", tn_scope_error(c)->message);
        tn_scope_close(c);
    }
    rules_end(s);
}

Test(rules_upsample, at_a_grid)
{
    tn_scope *s = rules_begin();
    for (int64_t mode = 0; mode < 3; mode++) {
        for (int64_t padding = 0; padding < 3; padding++) {
            tn_value align = truth((mode + padding) % 2);
            CHECK(s, TN_OP_GRID_SAMPLER_2D, of(leaf(s, -2, 2, TN_INTS(1, 1, 3, 4))),
                  of(leaf(s, -1.3, 1.3, TN_INTS(1, 2, 2, 2))), whole(mode), whole(padding), align);
        }
    }
    for (int64_t mode = 0; mode < 2; mode++) {
        for (int64_t padding = 0; padding < 3; padding++) {
            CHECK(s, TN_OP_GRID_SAMPLER_3D, of(leaf(s, -2, 2, TN_INTS(1, 1, 2, 3, 2))),
                  of(leaf(s, -1.3, 1.3, TN_INTS(1, 1, 2, 2, 3))), whole(mode), whole(padding), truth(0));
        }
    }
    rules_end(s);
}

Test(rules_upsample, affine_grids)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_AFFINE_GRID_GENERATOR, of(leaf(s, -1, 1, TN_INTS(1, 2, 3))), list(TN_INTS(1, 1, 2, 3)),
          truth(0));
    CHECK(s, TN_OP_AFFINE_GRID_GENERATOR, of(leaf(s, -1, 1, TN_INTS(2, 3, 4))), list(TN_INTS(2, 1, 2, 1, 2)),
          truth(1));
    rules_end(s);
}
