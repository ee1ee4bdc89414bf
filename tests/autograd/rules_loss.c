/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of losses. Reductions are 0 (none), 1 (mean), 2 (sum). */
#include "rules.h"

Test(rules_loss, of_differences)
{
    tn_scope *s = rules_begin();
    for (int64_t reduction = 0; reduction < 3; reduction++) {
        tn_value r = whole(reduction);
        CHECK(s, TN_OP_MSE_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, -2, 2, TN_INTS(2, 3))), r);
        CHECK(s, TN_OP_L1_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, -2, 2, TN_INTS(2, 3))), r);
        CHECK(s, TN_OP_SMOOTH_L1_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, -2, 2, TN_INTS(2, 3))),
              r, real(0.9));
        CHECK(s, TN_OP_SMOOTH_L1_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, -2, 2, TN_INTS(2, 3))),
              r, real(0));
        CHECK(s, TN_OP_HUBER_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, -2, 2, TN_INTS(2, 3))), r,
              real(0.9));
    }
    rules_end(s);
}

Test(rules_loss, of_broadcast_differences)
{
    tn_scope *s = rules_begin();
    for (int64_t reduction = 0; reduction < 3; reduction++) {
        tn_value r = whole(reduction);
        CHECK(s, TN_OP_MSE_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, -2, 2, TN_INTS(3))), r);
        CHECK(s, TN_OP_MSE_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 1))), of(leaf(s, -2, 2, TN_INTS(1, 3))), r);
        CHECK(s, TN_OP_SMOOTH_L1_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 1))), of(leaf(s, -2, 2, TN_INTS(2, 3))),
              r, real(0.9));
        CHECK(s, TN_OP_HUBER_LOSS, of(leaf(s, -2, 2, TN_INTS(3))), of(leaf(s, -2, 2, TN_INTS(2, 3))), r,
              real(0.9));
    }
    rules_end(s);
}

Test(rules_loss, of_margins)
{
    const int64_t classes[] = {2, 0}, labels[] = {2, 0, -1, 1, -1, 0};
    tn_scope *s = rules_begin();
    tn_tensor *target = longs(s, TN_INTS(2), classes), *several = longs(s, TN_INTS(2, 3), labels);
    for (int64_t reduction = 0; reduction < 3; reduction++) {
        tn_value r = whole(reduction);
        CHECK(s, TN_OP_SOFT_MARGIN_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, -2, 2, TN_INTS(2, 3))),
              r);
        CHECK_ONCE(s, TN_OP_MULTI_MARGIN_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(target), whole(1),
                   real(1.1), none(), r);
        CHECK_ONCE(s, TN_OP_MULTI_MARGIN_LOSS, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(target), whole(2),
                   real(1.1), of(constant(s, 0.5, 2, TN_INTS(3))), r);
        CHECK_CALL(s, TN_OP_MULTILABEL_MARGIN_LOSS_FORWARD, 2, 1, 1, of(leaf(s, -2, 2, TN_INTS(2, 3))),
                   of(several), r);
    }
    rules_end(s);
}

Test(rules_loss, cross_entropies_of_probabilities)
{
    tn_scope *s = rules_begin();
    for (int64_t reduction = 0; reduction < 3; reduction++) {
        tn_value r = whole(reduction);
        CHECK(s, TN_OP_BINARY_CROSS_ENTROPY, of(leaf(s, 0.1, 0.9, TN_INTS(2, 3))),
              of(leaf(s, 0.1, 0.9, TN_INTS(2, 3))), none(), r);
        CHECK(s, TN_OP_BINARY_CROSS_ENTROPY, of(leaf(s, 0.1, 0.9, TN_INTS(2, 3))),
              of(leaf(s, 0.1, 0.9, TN_INTS(2, 3))), of(constant(s, 0.5, 2, TN_INTS(3))), r);
        CHECK(s, TN_OP_BINARY_CROSS_ENTROPY_WITH_LOGITS, of(leaf(s, -2, 2, TN_INTS(2, 3))),
              of(leaf(s, 0.1, 0.9, TN_INTS(2, 3))), none(), none(), r);
        CHECK(s, TN_OP_BINARY_CROSS_ENTROPY_WITH_LOGITS, of(leaf(s, -2, 2, TN_INTS(2, 3))),
              of(leaf(s, 0.1, 0.9, TN_INTS(2, 3))), of(constant(s, 0.5, 2, TN_INTS(2, 1))),
              of(constant(s, 0.5, 2, TN_INTS(3))), r);
    }
    rules_end(s);
}

/* The gradient of binary_cross_entropy is bounded where a probability is 0 or 1. */
Test(rules_loss, binary_cross_entropy_at_the_ends)
{
    const double ends[] = {0, 1}, targets[] = {1, 0};
    tn_scope *s = rules_begin();
    tn_tensor *p = tn_from_data(s, TN_FLOAT64, TN_INTS(2), ends, 0);
    tn_tensor *target = tn_from_data(s, TN_FLOAT64, TN_INTS(2), targets, 0);
    cr_assert_eq(tn_set_requires_grad(p, 1), 0);
    cr_assert_eq(tn_backward(s, tn_binary_cross_entropy(s, p, target, .reduction = 2)), 0);
    double grad[2] = {0};
    cr_assert_eq(tn_to_host(s, tn_grad_of(s, p), grad, sizeof grad), 0);
    cr_expect_float_eq(grad[0], -1e12, 1e3);
    cr_expect_float_eq(grad[1], 1e12, 1e3);
    rules_end(s);
}

Test(rules_loss, of_classes)
{
    const int64_t classes[] = {2, 0, -100, 1}, pixels[] = {2, 0, 1, 1, -100, 2};
    tn_scope *s = rules_begin();
    tn_tensor *target = longs(s, TN_INTS(4), classes), *image = longs(s, TN_INTS(1, 2, 3), pixels);
    for (int64_t reduction = 0; reduction < 3; reduction++) {
        for (int weighted = 0; weighted < 2; weighted++) {
            tn_value r = whole(reduction);
            tn_value weight = weighted ? of(constant(s, 0.5, 2, TN_INTS(3))) : none();
            CHECK_CALL(s, TN_OP_NLL_LOSS_FORWARD, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(4, 3))), of(target),
                       weight, r, whole(-100));
            CHECK_CALL(s, TN_OP_NLL_LOSS2D_FORWARD, 2, 1, 0, of(leaf(s, -2, 2, TN_INTS(1, 3, 2, 3))),
                       of(image), weight, r, whole(-100));
            CHECK(s, TN_OP_CROSS_ENTROPY_LOSS, of(leaf(s, -2, 2, TN_INTS(4, 3))), of(target), weight, r,
                  whole(-100), real(0));
            CHECK(s, TN_OP_CROSS_ENTROPY_LOSS, of(leaf(s, -2, 2, TN_INTS(4, 3))), of(target), weight, r,
                  whole(-100), real(0.2));
        }
    }
    rules_end(s);
}

Test(rules_loss, through_their_bodies)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_KL_DIV, of(leaf(s, -2, -0.3, TN_INTS(2, 3))), of(leaf(s, 0.1, 0.9, TN_INTS(2, 3))),
          whole(1), truth(0));
    CHECK(s, TN_OP_POISSON_NLL_LOSS, of(leaf(s, -1, 1, TN_INTS(3))), of(leaf(s, 0.5, 3, TN_INTS(3))),
          truth(1), truth(1), real(1e-8), whole(1));
    CHECK(s, TN_OP_COSINE_EMBEDDING_LOSS, of(leaf(s, 0.3, 2, TN_INTS(2, 3))),
          of(leaf(s, 0.3, 2, TN_INTS(2, 3))), of(constant(s, 1, 1, TN_INTS(2))), real(0), whole(1));
    CHECK(s, TN_OP_TRIPLET_MARGIN_LOSS, of(leaf(s, -2, 0, TN_INTS(2, 3))), of(leaf(s, -1, 1, TN_INTS(2, 3))),
          of(leaf(s, 1, 3, TN_INTS(2, 3))), real(4), real(2), real(1e-6), truth(0), whole(1));
    CHECK(s, TN_OP_MARGIN_RANKING_LOSS, of(leaf(s, 1, 2, TN_INTS(3))), of(leaf(s, -1, 0.5, TN_INTS(3))),
          of(constant(s, -1, -1, TN_INTS(3))), real(0.1), whole(1));
    rules_end(s);
}
