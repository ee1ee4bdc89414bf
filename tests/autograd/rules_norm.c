/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of normalisation. */
#include "rules.h"

static tn_value some(tn_scope *s, int there, tn_ints sizes)
{
    return there ? of(leaf(s, 0.5, 2, sizes)) : none();
}

static tn_value statistic(tn_scope *s, int there, tn_ints sizes)
{
    return there ? of(constant(s, 0.5, 2, sizes)) : none();
}

Test(rules_norm, batch_norm_in_training)
{
    tn_scope *s = rules_begin();
    for (int affine = 0; affine < 2; affine++) {
        CHECK_CALL(s, TN_OP_NATIVE_BATCH_NORM, 3, 1, 0, of(leaf(s, -2, 2, TN_INTS(3, 2, 2))),
                   some(s, affine, TN_INTS(2)), some(s, affine, TN_INTS(2)), none(), none(), truth(1),
                   real(0.1), real(1e-3));
    }
    CHECK_CALL(s, TN_OP__NATIVE_BATCH_NORM_LEGIT_NO_STATS, 3, 1, 0, of(leaf(s, -2, 2, TN_INTS(4, 2))),
               some(s, 1, TN_INTS(2)), some(s, 1, TN_INTS(2)), truth(1), real(0.1), real(1e-3));
    rules_end(s);
}

/* The second one changes the running statistics that the first one got. */
static int32_t run_two_batch_norms(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    tn_tensor *mean = tn_zeros(s, TN_INTS(2), .dtype = TN_FLOAT64);
    tn_tensor *variance = tn_ones(s, TN_INTS(2), .dtype = TN_FLOAT64), *y[4];
    (void)user;
    for (int i = 0; i < 2; i++)
        y[i] = tn_batch_norm(s, in.data[i], in.data[2], in.data[3], mean, variance, 1, 0.1, 1e-3, 0);
    for (int i = 0; i < 2; i++)
        y[2 + i] =
            tn__batch_norm_with_update(s, in.data[i], in.data[2], in.data[3], mean, variance, 0.1, 1e-3)
                .result0;
    out[0] = tn_sum(s, tn_mul(s, tn_mul(s, y[0], y[1]), tn_mul(s, y[2], y[3])));
    return tn_scope_failed(s);
}

Test(rules_norm, two_batch_norms_in_training)
{
    tn_scope *s = rules_begin();
    check_function(s, "two batch norms", run_two_batch_norms,
                   TN_TENSORS(leaf(s, -2, 2, TN_INTS(3, 2)), leaf(s, -2, 2, TN_INTS(3, 2)),
                              leaf(s, 0.5, 2, TN_INTS(2)), leaf(s, 0.5, 2, TN_INTS(2))));
    rules_end(s);
}

Test(rules_norm, batch_norm_with_given_statistics)
{
    tn_scope *s = rules_begin();
    for (int affine = 0; affine < 2; affine++) {
        CHECK_CALL(s, TN_OP_NATIVE_BATCH_NORM, 3, 1, 0, of(leaf(s, -2, 2, TN_INTS(2, 2, 2))),
                   some(s, affine, TN_INTS(2)), some(s, affine, TN_INTS(2)), statistic(s, 1, TN_INTS(2)),
                   statistic(s, 1, TN_INTS(2)), truth(0), real(0.1), real(1e-3));
        CHECK_CALL(s, TN_OP__NATIVE_BATCH_NORM_LEGIT_NO_TRAINING, 3, 1, 0, of(leaf(s, -2, 2, TN_INTS(2, 3))),
                   some(s, affine, TN_INTS(3)), some(s, affine, TN_INTS(3)), statistic(s, 1, TN_INTS(3)),
                   statistic(s, 1, TN_INTS(3)), real(0.1), real(1e-3));
    }
    rules_end(s);
}

Test(rules_norm, layer_norm)
{
    tn_scope *s = rules_begin();
    for (int affine = 0; affine < 2; affine++) {
        CHECK_CALL(s, TN_OP_NATIVE_LAYER_NORM, 3, 1, 0, of(leaf(s, -2, 2, TN_INTS(2, 4))), list(TN_INTS(4)),
                   some(s, affine, TN_INTS(4)), some(s, affine, TN_INTS(4)), real(1e-3));
        CHECK_CALL(s, TN_OP_NATIVE_LAYER_NORM, 3, 1, 0, of(leaf(s, -2, 2, TN_INTS(2, 2, 3))),
                   list(TN_INTS(2, 3)), some(s, affine, TN_INTS(2, 3)), none(), real(0.5));
    }
    CHECK_CALL(s, TN_OP_NATIVE_LAYER_NORM, 3, 1, 0, of(leaf(s, -2, 2, TN_INTS(5))), list(TN_INTS(5)), none(),
               none(), real(1e-3));
    rules_end(s);
}

Test(rules_norm, group_norm)
{
    tn_scope *s = rules_begin();
    for (int affine = 0; affine < 2; affine++) {
        CHECK_CALL(s, TN_OP_NATIVE_GROUP_NORM, 3, 1, 0, of(leaf(s, -2, 2, TN_INTS(2, 4, 2))),
                   some(s, affine, TN_INTS(4)), some(s, affine, TN_INTS(4)), whole(2), whole(4), whole(2),
                   whole(2), real(1e-3));
    }
    rules_end(s);
}

Test(rules_norm, weight_norm)
{
    tn_scope *s = rules_begin();
    CHECK_CALL(s, TN_OP__WEIGHT_NORM_INTERFACE, 2, 1, 0, of(leaf(s, 0.3, 2, TN_INTS(2, 3))),
               of(leaf(s, 0.5, 2, TN_INTS(2, 1))), whole(0));
    CHECK_CALL(s, TN_OP__WEIGHT_NORM_INTERFACE, 2, 1, 0, of(leaf(s, 0.3, 2, TN_INTS(2, 3))),
               of(leaf(s, 0.5, 2, TN_INTS(1, 3))), whole(1));
    CHECK(s, TN_OP__WEIGHT_NORM, of(leaf(s, 0.3, 2, TN_INTS(2, 3, 2))), of(leaf(s, 0.5, 2, TN_INTS(2, 1, 1))),
          whole(0));
    rules_end(s);
}

Test(rules_norm, through_their_bodies)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_RMS_NORM, of(leaf(s, -2, 2, TN_INTS(2, 3))), list(TN_INTS(3)),
          of(leaf(s, 0.5, 2, TN_INTS(3))), real(1e-3));
    CHECK(s, TN_OP_INSTANCE_NORM, of(leaf(s, -2, 2, TN_INTS(2, 2, 3))), of(leaf(s, 0.5, 2, TN_INTS(2))),
          of(leaf(s, 0.5, 2, TN_INTS(2))), none(), none(), truth(1), real(0.1), real(1e-3), truth(0));
    CHECK(s, TN_OP_BATCH_NORM, of(leaf(s, -2, 2, TN_INTS(3, 2))), of(leaf(s, 0.5, 2, TN_INTS(2))),
          of(leaf(s, 0.5, 2, TN_INTS(2))), none(), none(), truth(1), real(0.1), real(1e-3), truth(0));
    rules_end(s);
}

/* Squares of these elements overflow in float16. */
Test(rules_norm, second_derivatives_of_half_types_with_large_elements)
{
    static const double again[] = {-0.69402445, -0.63639490, -0.02552166}; /* PyTorch 2.13, in float64 */
    tn_scope *s = rules_begin();
    tn_tensor *x = tn_to(s, make(s, TN_INTS(1, 3), (const double[]){300, 400, -100}, 0), TN_FLOAT16),
              *grad = NULL;
    tn_tensor *weights = tn_to(s, make(s, TN_INTS(1, 3), (const double[]){64, 128, 256}, 0), TN_FLOAT16),
              *other = tn_to(s, make(s, TN_INTS(1, 3), (const double[]){256, -128, 512}, 0), TN_FLOAT16);
    tn_set_requires_grad(x, 1);
    tn_backward_options options = {.size = sizeof options, .create_graph = 1};
    tn_tensor *y = tn_mul(s, tn_rms_norm(s, x, TN_INTS(3)), weights);
    tn_grad(s, TN_TENSORS(tn_sum(s, y)), TN_TENSORS(x), &options, &grad);
    tn_backward(s, tn_sum(s, tn_mul(s, grad, other)));
    cr_assert_eq(tn_tensor_dtype(tn_grad_of(s, x)), TN_FLOAT16);
    expect_values(s, tn_to(s, tn_grad_of(s, x), TN_FLOAT64), 3, again, 2e-3);
    y = tn_mul(s, tn_layer_norm(s, tn_mul_scalar(s, x, 4), TN_INTS(3)), weights);
    tn_grad(s, TN_TENSORS(tn_sum(s, y)), TN_TENSORS(x), &options, &grad);
    tn_grad(s, TN_TENSORS(tn_sum(s, tn_mul(s, grad, other))), TN_TENSORS(x), NULL, &grad);
    cr_assert(!tn_item_bool(s, tn_any(s, tn_isnan(s, grad))));
    rules_end(s);
}
