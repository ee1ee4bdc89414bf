/* SPDX-License-Identifier: Apache-2.0 */
/* Operators for lists of tensors: one operator for each, steps of optimisers, scaling of gradients. */
#include <math.h>
#include <tenon/inspect.h>
#include "suite.h"

TestSuite(lists, .init = begin);

/* Where the next tensors are; 0: on the CPU. */
static tn_device where;

static tn_tensor *put(tn_tensor *t)
{
    return where ? tn__to_copy(s, t, .device = where) : t;
}

#define A put(VECTOR(s, 0, 1, -2, 3))
#define G put(VECTOR(s, 0, 0.5, 0.25, -1))

static tn_tensor *no_tensors[1];
static const tn_tensors nothing = {no_tensors, 0};

static tn_tensor *all_of(double value)
{
    return tn_full(s, TN_INTS(3), value, .dtype = TN_FLOAT64, .device = where);
}

Test(lists, one_operator_for_each)
{
    tn_tensor *a = A, *b = VECTOR(s, 0, 4, 5);
    tn_tensors sum = tn__foreach_add_list(s, TN_TENSORS(a, b), TN_TENSORS(a, b), .alpha = TN_SCALAR(2));
    EXPECT(s, sum.data[0], 3, -6, 9);
    EXPECT(s, sum.data[1], 12, 15);
    const tn_value factors[] = {tn_value_int(2), tn_value_float(0.5)};
    tn__foreach_mul_scalarlist_(s, TN_TENSORS(a, b), ((tn_scalars){factors, 2}));
    EXPECT(s, a, 2, -4, 6);
    EXPECT(s, b, 2, 2.5);
    EXPECT(s, tn__foreach_norm(s, TN_TENSORS(a, b), .ord = TN_SCALAR(1)).data[0], 12);
    EXPECT(s, tn__foreach_maximum(s, TN_TENSORS(a), 0).data[0], 2, 0, 6);
    tn__foreach_addcmul_(s, TN_TENSORS(a, b), TN_TENSORS(a, b), TN_TENSORS(a, b), VECTOR(s, 0, 1, -1));
    EXPECT(s, a, 6, 12, 42);
    EXPECT(s, b, -2, -3.75);
    tn__foreach_zero_(s, TN_TENSORS(a));
    EXPECT(s, a, 0, 0, 0);
    end();
}

Test(lists, results_go_to_given_tensors)
{
    tn_tensor *out = tn_empty(s, TN_INTS(0), .dtype = TN_FLOAT64), *a = VECTOR(s, 0, 4, 9);
    tn__foreach_sqrt_out(s, TN_TENSORS(a), TN_TENSORS(out));
    EXPECT(s, out, 2, 3);
    tn__foreach_neg_out(s, TN_TENSORS(a), TN_TENSORS(out)); /* has the size already */
    EXPECT(s, out, -4, -9);
    tn__foreach_neg_out(s, TN_TENSORS(VECTOR(s, 0, 1, 2, 3)),
                        TN_TENSORS(out)); /* has its rank, not its size */
    EXPECT(s, out, -1, -2, -3);
    end();
}

Test(lists, each_call_has_its_gradient)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = VECTOR(s, 1, 3);
    tn_tensors squares = tn__foreach_pow(s, TN_TENSORS(x, y), 2);
    cr_assert_eq(tn_backward(s, tn_add(s, tn_sum(s, squares.data[0]), tn_sum(s, squares.data[1]))), TN_OK);
    EXPECT(s, tn_grad_of(s, x), 2, 4);
    EXPECT(s, tn_grad_of(s, y), 6);
    tn__foreach_neg_(s, TN_TENSORS(x));
    expect_error(s, "a leaf Variable that requires grad is being used in an in-place operation.");
    end();
}

Test(lists, refused)
{
    tn_tensor *a = A;
    tn__foreach_neg(s, nothing);
    expect_error(s, "Tensor list must have at least one tensor.");
    tn__foreach_mul_list(s, TN_TENSORS(a, a), TN_TENSORS(a));
    expect_error(s, "Tensor lists must have the same number of tensors, got 2 and 1");
    tn__foreach_sqrt_out(s, TN_TENSORS(a, a), TN_TENSORS(tn_empty(s, TN_INTS(0))));
    expect_error(s, "Tensor lists must have the same number of tensors, got 2 and 1");
    const tn_value factors[] = {tn_value_int(1), tn_value_int(2)};
    tn__foreach_mul_scalarlist(s, TN_TENSORS(a), ((tn_scalars){factors, 2}));
    expect_error(s, "Tensor list must have same number of elements as scalar list.");
    tn__foreach_addcmul(s, TN_TENSORS(a), TN_TENSORS(a), TN_TENSORS(a), tn_zeros(s, TN_INTS(1, 1)));
    expect_error(s, "Expected packed scalar Tensor to be of dimension 1. Got 2 instead.");
    tn__foreach_addcmul_(s, TN_TENSORS(a), TN_TENSORS(a), TN_TENSORS(a), A);
    expect_error(s, "Expected length of scalars to match input of length 1 but got 3 instead.");
    tn__fused_sgd_(s, TN_TENSORS(a), TN_TENSORS(a, a), nothing, 0, 0, 0.1, 0, 0, 0, 0);
    expect_error(s, "argument 'grads': must have as many tensors as self");
    end();
}

/* Kernels read each of these without a further look. */
Test(lists, steps_without_what_they_read)
{
    tn_tensor *p = A, *g = G, *m = all_of(0.1), *v = all_of(0.2), *one = tn_ones(s, TN_INTS(1)),
              *empty = tn_empty(s, TN_INTS(0));
    tn_tensors ps = TN_TENSORS(p), gs = TN_TENSORS(g), ms = TN_TENSORS(m), vs = TN_TENSORS(v),
               steps = TN_TENSORS(one);
    tn__fused_sgd_(s, ps, nothing, nothing, 0, 0, 0.1, 0, 0, 0, 0);
    expect_error(s, "argument 'grads': must have as many tensors as self (got 0, expected 1)");
    tn__fused_sgd_(s, ps, gs, nothing, 0, 0.9, 0.1, 0, 0, 0, 0);
    expect_error(s, "argument 'momentum_buffer_list': must have as many tensors as self (got 0, expected 1)");
    tn__fused_sgd_tensor_lr_(s, ps, gs, nothing, 0, 0, empty, 0, 0, 0, 0);
    expect_error(s, "argument 'lr': a tensor must have one element (got [0])");
    tn__fused_sgd_(s, ps, gs, nothing, 0, 0, 0.1, 0, 0, 0, 0, .grad_scale = empty);
    expect_error(s, "argument 'grad_scale': a tensor must have one element (got [0])");
    tn__fused_sgd_(s, ps, gs, nothing, 0, 0, 0.1, 0, 0, 0, 0, .found_inf = g);
    expect_error(s, "argument 'found_inf': a tensor must have one element (got [3])");
    tn__fused_adam_(s, ps, gs, nothing, vs, nothing, steps, 0.1, 0.9, 0.99, 0.01, 1e-3, 0, 0);
    expect_error(s, "argument 'exp_avgs': must have as many tensors as self (got 0, expected 1)");
    tn__fused_adamw_(s, ps, gs, ms, vs, nothing, steps, 0.1, 0.9, 0.99, 0.01, 1e-3, 1, 0);
    expect_error(s, "argument 'max_exp_avg_sqs': must have as many tensors as self (got 0, expected 1)");
    tn__fused_adamw_(s, ps, gs, ms, vs, nothing, nothing, 0.1, 0.9, 0.99, 0.01, 1e-3, 0, 0);
    expect_error(s, "argument 'state_steps': must have as many tensors as self (got 0, expected 1)");
    tn__fused_adagrad_(s, ps, gs, nothing, steps, 0.1, 0.1, 0.01, 1e-3, 0);
    expect_error(s, "argument 'state_sums': must have as many tensors as self (got 0, expected 1)");
    tn__amp_foreach_non_finite_check_and_unscale_(s, ps, one, empty);
    expect_error(s, "argument 'inv_scale': a tensor must have one element (got [0])");
    tn__amp_foreach_non_finite_check_and_unscale_(s, ps, empty, one);
    expect_error(s, "argument 'found_inf': a tensor must have one element (got [0])");
    tn__amp_foreach_non_finite_check_and_unscale_(s, nothing, one, empty);
    expect_error(s, "argument 'inv_scale': a tensor must have one element (got [0])");
    end();
}

/* Values of PyTorch 2.13. */
static void check_steps(void)
{
    tn_tensor *p = A, *g = G, *m = all_of(0.1), *v = all_of(0.2), *most = all_of(0.3);
    tn_tensor *two = tn_full(s, TN_INTS(1), 2, .dtype = TN_FLOAT32, .device = where),
              *three = tn_add_scalar(s, two, 1);
    tn__fused_adam_(s, TN_TENSORS(p), TN_TENSORS(g), TN_TENSORS(m), TN_TENSORS(v), TN_TENSORS(most),
                    TN_TENSORS(two), 0.1, 0.9, 0.99, 0.01, 1e-3, 1, 0);
    EXPECT(s, p, 0.9808918085790616, -2.015313656954369, 3.0009486336166424);
    EXPECT(s, m, 0.141, 0.113, -0.007);
    EXPECT(s, v, 0.200601, 0.198529, 0.207409);
    EXPECT(s, most, 0.3, 0.3, 0.3);
    p = A, g = G, m = all_of(0.1), v = all_of(0.2);
    tn__fused_adamw_tensor_lr_(s, TN_TENSORS(p), TN_TENSORS(g), TN_TENSORS(m), TN_TENSORS(v), nothing,
                               TN_TENSORS(two), put(VECTOR(s, 0, 0.1)), 0.9, 0.99, 0.01, 1e-3, 0, 1,
                               .grad_scale = two, .found_inf = put(VECTOR(s, 0, 0)));
    EXPECT(s, p, 0.9881749005479492, -2.010922101442853, 2.973793642161404);
    EXPECT(s, g, 0.25, 0.125, -0.5);
    EXPECT(s, v, 0.198625, 0.19815625, 0.2005);
    p = A, g = G, m = all_of(0.1);
    tn__fused_sgd_(s, TN_TENSORS(p), TN_TENSORS(g), TN_TENSORS(m), 0.01, 0.9, 0.1, 0.5, 1, 0, 0);
    EXPECT(s, p, 0.91795, -2.04145, 3.13255);
    EXPECT(s, m, 0.345, 0.205, -0.395);
    p = A, g = G, m = all_of(0.1);
    tn__fused_adagrad_(s, TN_TENSORS(p), TN_TENSORS(g), TN_TENSORS(m), TN_TENSORS(three), 0.1, 0.1, 0.01,
                       1e-3, 0);
    EXPECT(s, p, 0.9292943290018807, -2.048891527556142, 3.0791517489962006);
    tn__fused_adagrad_(s, TN_TENSORS(p), TN_TENSORS(g), TN_TENSORS(m), TN_TENSORS(three), 0.1, 0.1, 0.01,
                       1e-3, 0, .found_inf = put(VECTOR(s, 0, 1)));
    EXPECT(s, m, 0.3601, 0.1529, 1.0409);
}

Test(lists, steps_of_optimisers)
{
    check_steps();
    end();
}

/* Large lists of several dtypes and strides against the same step on each tensor alone. */
Test(lists, steps_do_not_depend_on_the_list)
{
    tn_tensor *p[3], *g[3], *alone[3];
    const tn_tensors all = {p, 3}, grads = {g, 3};
    for (int i = 0; i < 3; i++) {
        p[i] = tn_sin(s, tn_arange_start(s, i, tn_value_int(20000 + i), .dtype = TN_FLOAT32));
        if (i == 1) p[i] = tn_t(s, tn_view(s, tn_slice(s, p[i], .end = 20000), TN_INTS(100, 200)));
        g[i] = tn_cos(s, p[i]);
        alone[i] = tn_clone(s, p[i]);
        tn__fused_sgd_(s, TN_TENSORS(alone[i]), TN_TENSORS(g[i]), nothing, 0.1, 0, 0.5, 0, 0, 0, 0);
        EXPECT(s,
               tn_all(s, tn_isclose(s, alone[i],
                                    tn_sub(s, tn_mul_scalar(s, p[i], 0.95), tn_mul_scalar(s, g[i], 0.5)),
                                    .rtol = 1e-5, .atol = 1e-6)),
               1);
    }
    tn__fused_sgd_(s, all, grads, nothing, 0.1, 0, 0.5, 0, 0, 0, 0);
    for (int i = 0; i < 3; i++) EXPECT(s, tn_all(s, tn_eq(s, alone[i], p[i])), 1);
    end();
}

static void check_scaling(void)
{
    tn_tensor *a = A, *b = G, *found = put(VECTOR(s, 0, 0)), *factor = put(VECTOR(s, 0, 0.5));
    tn__amp_foreach_non_finite_check_and_unscale_(s, TN_TENSORS(a, b), found, factor);
    EXPECT(s, a, 0.5, -1, 1.5);
    EXPECT(s, found, 0);
    b = put(VECTOR(s, 0, 1, INFINITY));
    tn__amp_foreach_non_finite_check_and_unscale_(s, TN_TENSORS(a, b), found, factor);
    EXPECT(s, found, 1);
    tn_tensor *scale = tn_to(s, put(VECTOR(s, 0, 8)), TN_FLOAT32),
              *tracker = tn_to(s, put(VECTOR(s, 0, 1)), TN_INT32);
    tn_tensor *none = tn_zeros(s, TN_INTS(1), .device = where),
              *some = tn_ones(s, TN_INTS(1), .device = where);
    tn__amp_update_scale_(s, scale, tracker, none, 2, 0.5, 3);
    EXPECT(s, scale, 8);
    EXPECT(s, tracker, 2);
    tn__amp_update_scale_(s, scale, tracker, none, 2, 0.5, 3);
    EXPECT(s, scale, 16);
    EXPECT(s, tracker, 0);
    tn__amp_update_scale_(s, scale, tracker, some, 2, 0.5, 3);
    EXPECT(s, scale, 8);
}

Test(lists, scaling_of_gradients)
{
    check_scaling();
    end();
}

/* The composites: the reference device has no kernels of these. */
Test(lists, on_a_device_without_kernels)
{
    where = tn_device_parse(ctx, "reference:0");
    tn_set_fallback_policy(ctx, TN_FALLBACK_ERROR);
    check_steps();
    check_scaling();
    end();
}

Test(lists, results_go_into_given_lists)
{
    tn_tensor *x = A, *first = tn_zeros(s, TN_INTS(2), .dtype = TN_FLOAT64),
              *rest = tn_zeros(s, TN_INTS(0), .dtype = TN_FLOAT64);
    tn_split_copy_out(s, x, 2, TN_TENSORS(first, rest));
    EXPECT(s, first, 1, -2);
    EXPECT(s, rest, 3);
    uint32_t op =
        tn_operator_find(ctx, "aten::unsafe_split.Tensor_out"); /* follows from aten::unsafe_split.Tensor */
    tn_tensor *const given[] = {rest, first};
    const tn_value args[] = {tn_value_tensor(x), tn_value_int(1), tn_value_int(0),
                             tn_value_tensors(given, 2)};
    cr_assert(tn_scope_call(s, op, args, 4, NULL, 0));
    expect_error(s, "argument 'out': the number of tensors is wrong (got 2, expected 3)");
    const tn_value by_two[] = {tn_value_tensor(x), tn_value_int(2), tn_value_int(0),
                               tn_value_tensors(given, 2)};
    cr_assert(!tn_scope_call(s, op, by_two, 4, NULL, 0));
    EXPECT(s, rest, 1, -2);
    EXPECT(s, first, 3);
    tn_split_copy_out(s, x, 2, TN_TENSORS(tn_ones(s, TN_INTS(2)), rest)); /* casts, as ATen's does */
    EXPECT(s, rest, 3);
    tn_tensor *const narrow[] = {tn_ones(s, TN_INTS(2)), rest};
    const tn_value to_narrow[] = {tn_value_tensor(x), tn_value_int(2), tn_value_int(0),
                                  tn_value_tensors(narrow, 2)};
    cr_assert(tn_scope_call(s, op, to_narrow, 4, NULL, 0));
    expect_error(s, "Expected out tensor to have dtype double, but got float instead");
    cr_assert_eq(tn_operator_find(ctx, "aten::_fused_adam.out"), 0); /* ATen's lets go of most results */
    end();
}
