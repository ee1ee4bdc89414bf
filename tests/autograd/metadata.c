/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor knows about its gradient: assigned and retained gradients, refused requests, history that ends. */
#include "suite.h"

TestSuite(metadata, .init = begin, .timeout = 60);

Test(metadata, an_assigned_gradient_must_fit)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3), *grad = VECTOR(s, 0, 4, 5, 6);
    cr_assert_eq(tn_set_grad(x, x), TN_E_ARGUMENT);
    expect_last_error("can't assign Variable as its own grad");
    cr_assert_eq(tn_set_grad(x, tn_to(s, grad, TN_FLOAT32)), TN_E_DTYPE);
    expect_last_error("assigned grad has data of a different type: float32 for a tensor of float64");
    cr_assert_eq(tn_set_grad(x, VECTOR(s, 0, 1, 2)), TN_E_SHAPE);
    expect_last_error("assigned grad has data of a different size: [2] for a tensor of [3]");
    tn_device meta = tn_device_parse(ctx, "meta");
    cr_assert_eq(tn_set_grad(x, tn_empty(s, TN_INTS(3), .dtype = TN_FLOAT64, .device = meta)), TN_E_DEVICE);
    expect_last_error("assigned grad has data located on a different device");
    cr_assert_null(tn_grad_of(s, x));
    cr_assert_eq(tn_set_grad(x, grad), TN_OK);
    tn_backward(s, tn_sum(s, x)); /* adds to it */
    EXPECT(s, tn_grad_of(s, x), 5, 6, 7);
    cr_assert_eq(tn_set_grad(x, NULL), TN_OK);
    cr_assert_null(tn_grad_of(s, x));
    end();
}

Test(metadata, only_tensors_with_a_gradient_retain_it)
{
    tn_tensor *x = VECTOR(s, 1, 3), *y = tn_mul_scalar(s, x, 2);
    cr_assert_eq(tn_retain_grad(VECTOR(s, 0, 1)), TN_E_AUTOGRAD);
    expect_last_error("can't retain_grad on Tensor that has requires_grad=False");
    cr_assert_eq(tn_set_requires_grad(y, 0), TN_E_AUTOGRAD);
    expect_last_error("you can only change requires_grad flags of leaf variables.");
    cr_assert_eq(tn_set_requires_grad(tn_to(s, x, TN_INT64), 1), TN_E_DTYPE);
    expect_last_error("only Tensors of floating point and complex dtype can require gradients");
    cr_assert_eq(tn_retain_grad(y), TN_OK);
    tn_mul_scalar_(s, y, 5); /* the gradient of the new value is retained */
    tn_backward(s, tn_mul(s, y, y));
    EXPECT(s, tn_grad_of(s, y), 2 * 30);
    EXPECT(s, tn_grad_of(s, x), 2 * 30 * 10);
    end();
}

/* The error of a saved tensor that was written names its type as ATen does. */
typedef struct type_text {
    tn_dtype dtype;
    const char *text;
} type_text;

Test(metadata, types_in_the_error_of_a_changed_tensor)
{
    static const type_text types[] = {
        {TN_FLOAT16, "[torch.HalfTensor [2]]"},
        {TN_BFLOAT16, "[torch.BFloat16Tensor [2]]"},
        {TN_FLOAT32, "[torch.FloatTensor [2]]"},
        {TN_FLOAT64, "[torch.DoubleTensor [2]]"},
        {TN_COMPLEX64, "[torch.ComplexFloatTensor [2]]"},
        {TN_COMPLEX128, "[torch.ComplexDoubleTensor [2]]"},
        {TN_BOOL, "[torch.BoolTensor [2]]"},
        {TN_UINT8, "[torch.ByteTensor [2]]"},
        {TN_INT8, "[torch.CharTensor [2]]"},
        {TN_INT16, "[torch.ShortTensor [2]]"},
        {TN_INT32, "[torch.IntTensor [2]]"},
        {TN_INT64, "[torch.LongTensor [2]]"},
    };
    for (uint32_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_ones(s, TN_INTS(2), .dtype = types[i].dtype);
        tn_tensor *product = tn_mul(s, x, y);
        tn_zero_(s, y);
        tn_backward(s, tn_sum(s, tn_real(s, product)));
        expect_error(s, types[i].text);
    }
    end();
}

/* detach_ takes a tensor out of the graph, and drops the gradient that it retained. */
Test(metadata, detached_tensors_leave_the_graph)
{
    tn_tensor *x = VECTOR(s, 1, 1, -2), *y = tn_mul_scalar(s, x, 3);
    cr_assert_eq(tn_retain_grad(y), TN_OK);
    tn_detach_(s, y);
    cr_assert_eq(tn_requires_grad(y), 0);
    cr_assert_null(tn_grad_fn(y));
    tn_backward(s, tn_sum(s, tn_mul(s, x, y)));
    EXPECT(s, tn_grad_of(s, x), 3, -6);
    cr_assert_null(tn_grad_of(s, y));
    end();
}

Test(metadata, refused_forms)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_mul_scalar(s, x, 2), *out = VECTOR(s, 0, 0, 0);
    tn_resize_(s, y, TN_INTS(1));
    expect_error(s, "cannot resize variables that require grad");
    tn_cat_out(s, TN_TENSORS(x, x), out);
    expect_error(s, "functions with out=... arguments don't support automatic differentiation");
    tn_float_power_tensor_scalar_(s, tn_to(s, y, TN_FLOAT32), 2);
    expect_error(s, "the base given to float_power_ has dtype Float");
    tn_float_power_tensor_scalar_(s, y, 3);
    tn_backward(s, tn_sum(s, y));
    EXPECT(s, tn_grad_of(s, x), 24, 96);
    end();
}

/* A view of overlapping elements: each gets its share of what is written through another view. */
Test(metadata, writes_through_views_of_overlapping_elements)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3), *w = VECTOR(s, 1, 10);
    tn_tensor *y = tn_expand(s, tn_select(s, tn_mul_scalar(s, x, 1), 0, 0), TN_INTS(2));
    tn_backward(s, tn_sum(s, tn_mul(s, y, w)));
    EXPECT(s, tn_grad_of(s, x), 20, 0, 0);
    end();
}
