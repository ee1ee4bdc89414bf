/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of convolution. */
#include "rules.h"

/* Geometry of a call; lists have one number for each spatial dimension. */
typedef struct geometry {
    tn_ints stride, padding, dilation, output_padding;
    int32_t transposed;
    int64_t groups;
} geometry;

static void check_convolution(tn_scope *s, tn_value input, tn_value weight, tn_value bias, const geometry *g)
{
    CHECK(s, TN_OP_CONVOLUTION, input, weight, bias, list(g->stride), list(g->padding), list(g->dilation),
          truth(g->transposed), list(g->output_padding), whole(g->groups));
}

Test(rules_conv, in_one_dimension)
{
    tn_scope *s = rules_begin();
    for (int32_t transposed = 0; transposed < 2; transposed++) {
        const geometry plain = {TN_INTS(1), TN_INTS(0), TN_INTS(1), TN_INTS(0), transposed, 1};
        const geometry strided = {TN_INTS(2), TN_INTS(1), TN_INTS(2), TN_INTS(transposed), transposed, 1};
        const geometry grouped = {TN_INTS(1), TN_INTS(1), TN_INTS(1), TN_INTS(0), transposed, 2};
        check_convolution(s, of(leaf(s, -1, 1, TN_INTS(2, 2, 4))), of(leaf(s, -1, 1, TN_INTS(2, 2, 3))),
                          none(), &plain);
        check_convolution(s, of(leaf(s, -1, 1, TN_INTS(1, 2, 5))), of(leaf(s, -1, 1, TN_INTS(2, 2, 2))),
                          of(leaf(s, -1, 1, TN_INTS(2))), &strided);
        check_convolution(s, of(leaf(s, -1, 1, TN_INTS(1, 4, 3))), of(leaf(s, -1, 1, TN_INTS(4, 2, 2))),
                          of(leaf(s, -1, 1, TN_INTS(4))), &grouped);
    }
    rules_end(s);
}

Test(rules_conv, in_two_dimensions)
{
    tn_scope *s = rules_begin();
    for (int32_t transposed = 0; transposed < 2; transposed++) {
        const geometry mixed = {TN_INTS(1, 2),          TN_INTS(1, 0), TN_INTS(2, 1),
                                TN_INTS(0, transposed), transposed,    1};
        const geometry depthwise = {TN_INTS(1, 1), TN_INTS(1, 1), TN_INTS(1, 1),
                                    TN_INTS(0, 0), transposed,    2};
        check_convolution(s, of(leaf(s, -1, 1, TN_INTS(1, 2, 3, 4))), of(leaf(s, -1, 1, TN_INTS(2, 2, 2, 2))),
                          of(leaf(s, -1, 1, TN_INTS(2))), &mixed);
        check_convolution(s, of(leaf(s, -1, 1, TN_INTS(1, 2, 3, 3))), of(leaf(s, -1, 1, TN_INTS(2, 1, 2, 2))),
                          none(), &depthwise);
    }
    rules_end(s);
}

Test(rules_conv, in_three_dimensions)
{
    const geometry g = {TN_INTS(1, 2, 1), TN_INTS(0, 1, 0), TN_INTS(1, 1, 1), TN_INTS(0, 0, 0), 0, 1};
    tn_scope *s = rules_begin();
    check_convolution(s, of(leaf(s, -1, 1, TN_INTS(1, 1, 2, 2, 3))),
                      of(leaf(s, -1, 1, TN_INTS(1, 1, 2, 1, 2))), of(leaf(s, -1, 1, TN_INTS(1))), &g);
    rules_end(s);
}

Test(rules_conv, of_complex_numbers)
{
    const geometry g = {TN_INTS(1), TN_INTS(1), TN_INTS(1), TN_INTS(0), 0, 1};
    tn_scope *s = rules_begin();
    check_convolution(s, of(complex_leaf(s, -1, 1, TN_INTS(1, 1, 3))),
                      of(complex_leaf(s, -1, 1, TN_INTS(2, 1, 2))), of(complex_leaf(s, -1, 1, TN_INTS(2))),
                      &g);
    rules_end(s);
}

Test(rules_conv, columns)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_IM2COL, of(leaf(s, -1, 1, TN_INTS(1, 2, 3, 4))), list(TN_INTS(2, 2)), list(TN_INTS(1, 2)),
          list(TN_INTS(1, 0)), list(TN_INTS(2, 1)));
    CHECK(s, TN_OP_COL2IM, of(leaf(s, -1, 1, TN_INTS(4, 6))), list(TN_INTS(3, 4)), list(TN_INTS(2, 2)),
          list(TN_INTS(1, 1)), list(TN_INTS(0, 0)), list(TN_INTS(1, 1)));
    rules_end(s);
}

Test(rules_conv, through_their_bodies)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_CONV2D, of(leaf(s, -1, 1, TN_INTS(1, 2, 3, 3))), of(leaf(s, -1, 1, TN_INTS(2, 2, 2, 2))),
          of(leaf(s, -1, 1, TN_INTS(2))), list(TN_INTS(1)), list(TN_INTS(1)), list(TN_INTS(1)), whole(1));
    CHECK(s, TN_OP_CONV_TRANSPOSE1D, of(leaf(s, -1, 1, TN_INTS(1, 2, 3))),
          of(leaf(s, -1, 1, TN_INTS(2, 2, 2))), none(), list(TN_INTS(2)), list(TN_INTS(0)), list(TN_INTS(1)),
          whole(1), list(TN_INTS(1)));
    rules_end(s);
}
