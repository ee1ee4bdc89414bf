/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that programs seldom call by name, because ATen's own code calls them: questions about tensors, operators
 * with two underscores, forms that return what others write, convolutions of one group. Values from PyTorch 2.13.
 */
#include <math.h>
#include "suite.h"

TestSuite(lowered, .init = begin);

static tn_tensor *integers(tn_dtype dtype, int64_t count, const int64_t *values)
{
    return tn_to(s, tn_from_data(s, TN_INT64, TN_INTS(count), values, TN_CPU), dtype);
}
#define INTEGERS(dtype, ...) \
    integers(dtype, (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__})

Test(lowered, of_bits)
{
    tn_tensor *a = INTEGERS(TN_INT32, 12, 10, -1), *b = INTEGERS(TN_INT32, 10, 3, 6);
    EXPECT(s, tn___and__(s, a, b), 8, 2, 6);
    EXPECT(s, tn___or___scalar(s, a, 1), 13, 11, -1);
    EXPECT(s, tn___xor__(s, a, b), 6, 9, -7);
    EXPECT(s, tn___lshift___scalar(s, a, 2), 48, 40, -4);
    EXPECT(s, tn___rshift__(s, a, INTEGERS(TN_INT32, 1, 2, 3)), 6, 2, -1);
    cr_assert_eq(tn___and___(s, a, b), a);
    tn___lshift___scalar_(s, a, 1);
    EXPECT(s, a, 16, 4, 12);
    cr_assert_null(tn___and__(s, VECTOR(s, 0, 1), VECTOR(s, 0, 1)));
    expect_error(s, "not implemented for 'Double'");
    end();
}

Test(lowered, of_questions)
{
    tn_tensor *x = tn_t(s, make(s, TN_INTS(2, 3), VALUES(1, 2, 3, 4, 5, 6), 0)),
              *part = tn_select(s, x, 0, 1);
    cr_assert_eq(tn_dim(s, x), 2);
    cr_assert_eq(tn_numel(s, x), 6);
    cr_assert_eq(tn_size(s, x, -2), 3);
    cr_assert_eq(tn_stride(s, x, 0), 1);
    cr_assert_eq(tn_storage_offset(s, part), 1);
    cr_assert_eq(tn_get_device(s, x), -1);
    cr_assert(tn_is_floating_point(s, x) && !tn_is_complex(s, x) && tn_is_signed(s, x));
    cr_assert(!tn_is_signed(s, INTEGERS(TN_UINT8, 1)) && !tn_is_signed(s, INTEGERS(TN_BOOL, 1)));
    cr_assert(!tn_is_contiguous(s, x) && tn_is_contiguous(s, tn_t(s, x)));
    cr_assert(!tn_is_contiguous_memory_format(s, tn_ones(s, TN_INTS(1, 2, 2, 2)), TN_CHANNELS_LAST));
    cr_assert(tn_is_conj(s, tn__conj(s, tn_to(s, x, TN_COMPLEX64))) && !tn_is_neg(s, x));
    cr_assert(tn_is_set_to(s, part, tn_select(s, x, 0, 1)) && !tn_is_set_to(s, part, tn_select(s, x, 0, 0)));
    EXPECT(s, tn__shape_as_tensor(s, x), 3, 2);
    EXPECT(s, tn__is_all_true(s, INTEGERS(TN_BOOL, 1, 0)), 0);
    EXPECT(s, tn__is_any_true(s, INTEGERS(TN_BOOL, 1, 0)), 1);
    cr_assert_eq(tn_size(s, x, 2), 0);
    expect_error(s, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    cr_assert_eq(tn_stride(s, tn_sum(s, x), 0), 0);
    expect_error(s, "Dimension specified as 0 but tensor has no dimensions");
    cr_assert_null(tn__is_all_true(s, x));
    expect_error(s, "takes bool tensors only (got Double, expected Bool)");
    end();
}

Test(lowered, of_casts_and_copies)
{
    tn_tensor *x = VECTOR(s, 0, 1.75, -2.5);
    cr_assert_eq(tn_tensor_dtype(tn__cast_int(s, x)), TN_INT32);
    EXPECT(s, tn__cast_char(s, x), 1, -2);
    cr_assert_eq(tn_tensor_dtype(tn__cast_half(s, x)), TN_FLOAT16);
    cr_assert_eq(tn_tensor_dtype(tn_chalf(s, x)), TN_COMPLEX32);
    tn_tensor *copy = tn__reshape_alias_copy(s, x, TN_INTS(2, 1), TN_INTS(1, 1));
    cr_assert(!tn_tensor_is_alias(copy, x));
    EXPECT(s, copy, 1.75, -2.5);
    cr_assert(!tn_tensor_is_alias(tn__reshape_copy(s, x, TN_INTS(2, 1)), x));
    cr_assert(!tn_tensor_is_alias(tn__lazy_clone(s, x), x) && tn_tensor_is_alias(tn_lift(s, x), x));
    tn_tensor *flat =
        tn_flatten_dense_tensors(s, TN_TENSORS(x, tn_ones(s, TN_INTS(1, 2), .dtype = TN_FLOAT64)));
    EXPECT(s, flat, 1.75, -2.5, 1, 1);
    tn_tensors parts = tn_unflatten_dense_tensors(s, flat, TN_TENSORS(x, tn_ones(s, TN_INTS(2, 1))));
    cr_assert_eq(tn_tensor_rank(parts.data[1]), 2);
    EXPECT(s, tn__stack(s, TN_TENSORS(x, x), .dim = 1), 1.75, 1.75, -2.5, -2.5);
    EXPECT(s, tn__dim_arange(s, tn__stack(s, TN_TENSORS(x, x, x)), 0), 0, 1, 2);
    end();
}

Test(lowered, of_reductions_and_their_gradients)
{
    tn_tensor *x = VECTOR(s, 0, 2, 0, 3), *grad = VECTOR(s, 0, 1, 10, 100);
    tn__aminmax_result extremes = tn__aminmax(s, x);
    EXPECT(s, extremes.result0, 0);
    EXPECT(s, tn__aminmax_dim(s, tn_unsqueeze(s, x, 0), 1, .keepdim = 1).result1, 3);
    /* y = x0, x0 x1, x0 x1 x2: the gradient of x1 is 10 x0 + 100 x0 x2 */
    EXPECT(s, tn_cumprod_backward(s, grad, x, 0, tn_cumprod(s, x, 0)), 1, 620, 0);
    tn_tensor *y = VECTOR(s, 0, 2, 4, 1);
    EXPECT(s, tn_cumprod_backward(s, grad, y, 0, tn_cumprod(s, y, 0)), 441, 220, 800);
    EXPECT(s, tn_cummaxmin_backward(s, grad, x, INTEGERS(TN_INT64, 0, 0, 2), 0), 11, 0, 100);
    EXPECT(s, tn_linalg__powsum(s, VECTOR(s, 0, -1, 2, 3), .ord = TN_SCALAR(3)), 36);
    EXPECT(s, tn__foreach_powsum(s, TN_TENSORS(x, y)).data[1], 21);
    EXPECT(s,
           tn_matrix_exp_backward(s, tn_zeros(s, TN_INTS(2, 2), .dtype = TN_FLOAT64),
                                  tn_reshape(s, VECTOR(s, 0, 1, 2, 3, 4), TN_INTS(2, 2))),
           1, 2, 3, 4);
    end();
}

Test(lowered, of_activations)
{
    tn_tensor *x = make(s, TN_INTS(2, 2), VALUES(0, 0, 5, 5), 0);
    tn_tensor *mask = tn_reshape(s, INTEGERS(TN_BOOL, 0, 1, 0, 0), TN_INTS(2, 2));
    EXPECT(s, tn__masked_softmax(s, x, mask, .dim = 1, .mask_type = 2), 1, 0, 0.5, 0.5);
    cr_assert_null(tn__masked_softmax(s, x, mask, .dim = 1));
    expect_error(s, "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)");
    /* glu(a, b) = a sigmoid(b); at b = 0 its tangent is da / 2 + a / 4 db */
    EXPECT(s, tn_glu_jvp(s, VECTOR(s, 0, 2), VECTOR(s, 0, 4, 0), VECTOR(s, 0, 6, 8), 0), 11);
    EXPECT(s, tn_infinitely_differentiable_gelu_backward(s, VECTOR(s, 0, 2), VECTOR(s, 0, 0)), 1);
    tn_tensor *noise = VECTOR(s, 0, 7, 7);
    tn_rrelu_with_noise_functional_result r = tn_rrelu_with_noise_functional(
        s, VECTOR(s, 0, -4, 2), noise, .lower = TN_SCALAR(0.25), .upper = TN_SCALAR(0.25));
    EXPECT(s, r.result0, -1, 2);
    EXPECT(s, noise, 7, 7);
    end();
}

Test(lowered, of_convolutions_of_one_group)
{
    tn_tensor *x = tn_reshape(s, VECTOR(s, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9), TN_INTS(1, 1, 3, 3));
    tn_tensor *w = tn_reshape(s, VECTOR(s, 0, 1, 0, 0, -1), TN_INTS(1, 1, 2, 2)), *bias = VECTOR(s, 0, 0.5);
    tn_ints two = TN_INTS(2, 2), none = TN_INTS(0, 0);
    EXPECT(s, tn_thnn_conv2d(s, x, w, two, .bias = bias), -3.5, -3.5, -3.5, -3.5);
    EXPECT(s, tn__slow_conv2d_forward(s, x, w, two, NULL, two, none), -4);
    EXPECT(s, tn_slow_conv_dilated2d(s, x, w, two, .dilation = two), -8);
    EXPECT(s,
           tn_slow_conv_transpose2d(s, tn_slice(s, tn_slice(s, x, .dim = 2, .end = 1), .dim = 3, .end = 1), w,
                                    two),
           1, 0, 0, -1);
    EXPECT(s, tn_slow_conv3d(s, tn_unsqueeze(s, x, 2), tn_unsqueeze(s, w, 2), TN_INTS(1, 2, 2)), -4, -4, -4,
           -4);
    cr_assert_null(tn_thnn_conv2d(s, x, w, TN_INTS(3, 3)));
    expect_error(s, "argument 'kernel_size': it must be the last sizes of 'weight'");
    tn_tensor *time = tn_reshape(s, VECTOR(s, 0, 1, 2, 3), TN_INTS(3, 1, 1)),
              *kernel = tn_reshape(s, VECTOR(s, 0, 1, 10), TN_INTS(2, 1, 1));
    tn_tensor *out = tn_conv_tbc(s, time, kernel, VECTOR(s, 0, 0));
    EXPECT(s, out, 21, 32);
    cr_assert(tn_tensor_is_contiguous(
        tn_conv_tbc(s, tn_ones(s, TN_INTS(4, 2, 1)), tn_ones(s, TN_INTS(1, 1, 3)), tn_ones(s, TN_INTS(3))),
        TN_CONTIGUOUS_FORMAT));
    tn_conv_tbc_backward_result g = tn_conv_tbc_backward(
        s, tn_reshape(s, VECTOR(s, 0, 1, 2), TN_INTS(2, 1, 1)), time, kernel, VECTOR(s, 0, 0), 0);
    EXPECT(s, g.result0, 1, 12, 20);
    EXPECT(s, g.result1, 5, 8);
    EXPECT(s, g.result2, 3);
    end();
}

Test(lowered, of_forms_on_copies)
{
    tn_tensor *p = VECTOR(s, 0, 1, 2), *grad = VECTOR(s, 0, 10, -10), *buffer = VECTOR(s, 0, 2, 4);
    tn__fused_sgd_result step =
        tn__fused_sgd(s, TN_TENSORS(p), TN_TENSORS(grad), TN_TENSORS(buffer), 0, 0.5, 0.1, 0, 0, 0, 0);
    EXPECT(s, step.self_out.data[0], -0.1, 2.8);
    EXPECT(s, step.momentum_buffer_list_out.data[0], 11, -8);
    EXPECT(s, p, 1, 2);
    EXPECT(s, buffer, 2, 4);
    EXPECT(s, tn__foreach_zero(s, TN_TENSORS(p)).data[0], 0, 0);
    EXPECT(s, tn__foreach_copy(s, TN_TENSORS(p), TN_TENSORS(grad)).data[0], 10, -10);
    EXPECT(s, p, 1, 2);
    tn__amp_update_scale_result scale = tn__amp_update_scale(
        s, tn_full(s, TN_INTS(1), 8.0), INTEGERS(TN_INT32, 3), tn_ones(s, TN_INTS(1)), 2, 0.5, 4);
    EXPECT(s, scale.result0, 4);
    EXPECT(s, scale.growth_tracker_out, 0);
    tn_tensor *mean = VECTOR(s, 0, 0), *var = VECTOR(s, 0, 1);
    tn__native_batch_norm_legit_functional_result norm = tn__native_batch_norm_legit_functional(
        s, tn_reshape(s, VECTOR(s, 0, 1, 3), TN_INTS(2, 1)), NULL, NULL, mean, var, 1, 0.5, 0);
    EXPECT(s, norm.result0, -1, 1);
    EXPECT(s, norm.running_mean_out, 1);
    EXPECT(s, norm.running_var_out, 1.5);
    EXPECT(s, mean, 0);
    end();
}

Test(lowered, of_norms_sets_and_neighbours)
{
    tn_tensor *half = tn_to(s, make(s, TN_INTS(2, 2), VALUES(3, 4, 6, 8), 0), TN_FLOAT16);
    tn__weight_norm_interface_result w =
        tn__weight_norm_interface(s, half, tn_ones(s, TN_INTS(2, 1), .dtype = TN_FLOAT16));
    cr_assert_eq(tn_tensor_dtype(w.result0), TN_FLOAT16);
    cr_assert_eq(tn_tensor_dtype(w.result1), TN_FLOAT32);
    EXPECT(s, w.result1, 5, 10);
    cr_assert_null(tn_isclose(s, half, half, .rtol = NAN));
    expect_error(s, "rtol must be greater than or equal to zero, but got nan");
    cr_assert_eq(tn__foreach_add(s, TN_TENSORS(half), tn_ones(s, TN_INTS(1))).count, 0);
    expect_error(s, "scalar tensor expected to be 0 dim but it has 1 dimensions and 1 elements.");
    cr_assert_null(tn_isin(s, half, INTEGERS(TN_BOOL, 1)));
    expect_error(s, "Unsupported input type encountered for isin(): Bool");
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = VECTOR(s, 0, 2, 2), *grad;
    cr_assert(!tn_grad(s, TN_TENSORS(tn_nextafter(s, x, y)), TN_TENSORS(x),
                       &(tn_backward_options){.size = sizeof(tn_backward_options),
                                              .grad_outputs = TN_TENSORS(VECTOR(s, 0, 5, 7))},
                       &grad));
    EXPECT(s, grad, 5, 0);
    end();
}
