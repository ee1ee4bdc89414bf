/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of softmax, gated linear units and attention. */
#include "rules.h"

Test(rules_softmax, both)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP__SOFTMAX, of(leaf(s, -2, 2, TN_INTS(2, 3))), whole(1), truth(0));
    CHECK(s, TN_OP__SOFTMAX, of(leaf(s, -2, 2, TN_INTS(3, 2))), whole(0), truth(0));
    CHECK(s, TN_OP__LOG_SOFTMAX, of(leaf(s, -2, 2, TN_INTS(2, 3))), whole(-1), truth(0));
    CHECK(s, TN_OP__LOG_SOFTMAX, of(leaf(s, -2, 2, TN_INTS(3, 2))), whole(-2), truth(0));
    CHECK(s, TN_OP__SOFTMAX_BACKWARD_DATA, of(leaf(s, -2, 2, TN_INTS(2, 3))),
          of(leaf(s, 0.1, 0.9, TN_INTS(2, 3))), whole(1), tn_value_dtype(TN_FLOAT64));
    rules_end(s);
}

Test(rules_softmax, gated_linear_units)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_GLU, of(leaf(s, -2, 2, TN_INTS(2, 4))), whole(1));
    CHECK(s, TN_OP_GLU, of(leaf(s, -2, 2, TN_INTS(4, 2))), whole(0));
    rules_end(s);
}

Test(rules_softmax, attention)
{
    tn_scope *s = rules_begin();
    tn_value q = of(leaf(s, -1, 1, TN_INTS(1, 1, 3, 2))), k = of(leaf(s, -1, 1, TN_INTS(1, 1, 3, 2)));
    tn_value v = of(leaf(s, -1, 1, TN_INTS(1, 1, 3, 2))), grouped = of(leaf(s, -1, 1, TN_INTS(1, 2, 3, 2)));
    for (int32_t causal = 0; causal < 2; causal++) {
        CHECK_CALL(s, TN_OP__SCALED_DOT_PRODUCT_FLASH_ATTENTION_FOR_CPU, 2, 1, 1, q, k, v, real(0),
                   truth(causal), none(), none());
        CHECK_CALL(s, TN_OP__SCALED_DOT_PRODUCT_ATTENTION_MATH, 2, 1, 0, q, k, v, none(), real(0),
                   truth(causal), none(), none(), truth(0));
        CHECK_CALL(s, TN_OP__SCALED_DOT_PRODUCT_FLASH_ATTENTION_FOR_CPU, 2, 1, 1, grouped, k, v, real(0),
                   truth(causal), none(), none());
    }
    rules_end(s);
}
