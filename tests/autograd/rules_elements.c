/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of pointwise operators, indices and bags that few programs differentiate twice. */
#include <math.h>
#include <tenon/ops.h>
#include "rules.h"

Test(rules_elements, gradients_of_activations)
{
    tn_scope *s = rules_begin();
    tn_tensor *below = leaf(s, -3, -0.5, TN_INTS(3)), *inside = leaf(s, 0.2, 0.8, TN_INTS(3));
    CHECK(s, TN_OP_ELU_BACKWARD, of(leaf(s, -1, 1, TN_INTS(3))), real(1.5), real(2), real(0.5),
          tn_value_bool(0), of(below));
    CHECK(s, TN_OP_ELU_BACKWARD, of(leaf(s, -1, 1, TN_INTS(3))), real(1.5), real(2), real(0.5),
          tn_value_bool(1), of(leaf(s, -1, -0.2, TN_INTS(3))));
    CHECK(s, TN_OP_LOGIT_BACKWARD, of(leaf(s, -1, 1, TN_INTS(3))), of(inside), tn_value_none());
    CHECK(s, TN_OP_LOGIT_BACKWARD, of(leaf(s, -1, 1, TN_INTS(3))), of(inside), real(0.1));
    CHECK(s, TN_OP_SILU, of(complex_leaf(s, -1, 1, TN_INTS(3))));
    tn_tensor *complex[] = {complex_leaf(s, -1, 1, TN_INTS(3)), complex_leaf(s, -1, 1, TN_INTS(3))};
    CHECK_ONCE(s, TN_OP_TANH_BACKWARD, of(complex[0]), of(complex[1]));
    CHECK_ONCE(s, TN_OP_SIGMOID_BACKWARD, of(complex[0]), of(complex[1]));
    CHECK(s, TN_OP_NATIVE_DROPOUT_BACKWARD, of(leaf(s, -1, 1, TN_INTS(3))),
          of(tn_gt_scalar(s, constant(s, -1, 1, TN_INTS(3)), 0)), real(2));
    rules_end(s);
}

Test(rules_elements, powers_and_quotients)
{
    tn_scope *s = rules_begin();
    tn_tensor *x = leaf(s, 0.5, 2, TN_INTS(3));
    CHECK(s, TN_OP_DIV_TENSOR_MODE, of(x), of(leaf(s, 0.5, 2, TN_INTS(3))), tn_value_none());
    CHECK(s, TN_OP_POW_TENSOR_SCALAR, of(x), whole(0));
    CHECK(s, TN_OP_POW_TENSOR_SCALAR, of(complex_leaf(s, 0.5, 2, TN_INTS(3))),
          tn_value_complex((double[]){1.5, 0.5}));
    rules_end(s);
}

Test(rules_elements, gradients_of_bags)
{
    tn_scope *s = rules_begin();
    tn_tensor *indices = longs(s, TN_INTS(4), (int64_t[]){0, 2, 2, 1}),
              *bags = longs(s, TN_INTS(4), (int64_t[]){0, 0, 1, 1});
    tn_tensor *sizes = longs(s, TN_INTS(2), (int64_t[]){2, 2}),
              *offsets = longs(s, TN_INTS(2), (int64_t[]){0, 2});
    tn_tensor *weights = constant(s, 0.5, 2, TN_INTS(4)), *grad = leaf(s, -1, 1, TN_INTS(2, 3));
    for (int64_t mode = 0; mode < 2; mode++)
        CHECK(s, TN_OP__EMBEDDING_BAG_DENSE_BACKWARD, of(grad), of(indices), of(bags), of(sizes), of(sizes),
              whole(3), tn_value_bool(0), whole(mode), mode ? tn_value_none() : of(weights),
              whole(mode ? -1 : 2));
    CHECK(s, TN_OP__EMBEDDING_BAG_PER_SAMPLE_WEIGHTS_BACKWARD, of(grad),
          of(constant(s, -1, 1, TN_INTS(3, 3))), of(indices), of(offsets), of(bags), whole(0), whole(-1));
    CHECK(s, TN_OP__EMBEDDING_BAG_PER_SAMPLE_WEIGHTS_BACKWARD, of(grad),
          of(constant(s, -1, 1, TN_INTS(3, 3))), of(indices), of(offsets), of(bags), whole(0), whole(2));
    /* Indices behind the last bag, where the offsets end before them. */
    bags = longs(s, TN_INTS(4), (int64_t[]){0, 0, 1, 2});
    sizes = longs(s, TN_INTS(2), (int64_t[]){2, 1});
    CHECK(s, TN_OP__EMBEDDING_BAG_DENSE_BACKWARD, of(grad), of(indices), of(bags), of(sizes), of(sizes),
          whole(3), tn_value_bool(0), whole(1), tn_value_none(), whole(-1));
    rules_end(s);
}

/* As PyTorch 2.13: a NaN is on neither side of a limit, so neither operand has a part in the gradient. */
Test(rules_elements, a_nan_is_beyond_no_limit)
{
    tn_scope *s = rules_begin();
    for (int is_max = 0; is_max < 2; is_max++) {
        tn_tensor *x = tn_from_data(s, TN_FLOAT64, TN_INTS(3), (double[]){1, NAN, 3}, TN_CPU);
        tn_tensor *limit = tn_full(s, TN_INTS(3), 2.0, .dtype = TN_FLOAT64);
        tn_set_requires_grad(x, 1);
        tn_set_requires_grad(limit, 1);
        tn_tensor *y = is_max ? tn_clamp_max_tensor(s, x, limit) : tn_clamp_min_tensor(s, x, limit);
        tn_tensor *weights = tn_from_data(s, TN_FLOAT64, TN_INTS(3), (double[]){5, 6, 7}, TN_CPU);
        tn_backward(s, tn_sum(s, tn_mul(s, y, weights)));
        const double below[] = {5, 0, 0}, above[] = {0, 0, 7};
        expect_values(s, tn_grad_of(s, x), 3, is_max ? below : above, 0);
        expect_values(s, tn_grad_of(s, limit), 3, is_max ? above : below, 0);
    }
    rules_end(s);
}
