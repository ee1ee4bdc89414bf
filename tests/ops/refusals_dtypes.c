/* SPDX-License-Identifier: Apache-2.0 */
/* Operators refuse the dtypes that ATen's kernels do not have, and outputs of another dtype where ATen does not cast. */
#include "refusals_operands.h"

TestSuite(refusals_dtypes, .init = begin_with_operands);

static tn_tensor *of(tn_dtype dtype, tn_ints sizes)
{
    return tn_ones(s, sizes, .dtype = dtype);
}

Test(refusals_dtypes, floats_only)
{
    tn_tensor *image = of(TN_INT32, TN_INTS(1, 2, 4, 4)), *row = of(TN_INT32, TN_INTS(2, 4));
    REFUSED(tn__adaptive_avg_pool2d(s, image, TN_INTS(2, 2)),
            "\"_adaptive_avg_pool2d\" not implemented for 'Int'");
    REFUSED(tn_upsample_linear1d(s, of(TN_UINT8, TN_INTS(1, 1, 2)), TN_INTS(4), 0),
            "not implemented for 'Byte'");
    REFUSED(tn_glu(s, row), "\"glu\" not implemented for 'Int'");
    REFUSED(tn_mse_loss(s, row, row), "\"mse_loss\" not implemented for 'Int'");
    REFUSED(tn_native_layer_norm(s, of(TN_COMPLEX64, TN_INTS(2, 4)), TN_INTS(4), NULL, NULL, 1e-5).result0,
            "\"native_layer_norm\" not implemented for 'ComplexFloat'");
    REFUSED(tn_round_decimals(s, row, 1), "\"round\" not implemented for 'Int'");
    REFUSED(tn_special_gammainc(s, row, row), "\"igamma\" not implemented for 'Int'");
    cr_assert_not_null(tn_mse_loss(s, row, of(TN_FLOAT32, TN_INTS(2, 4)))); /* both become float32 */
    end();
}

Test(refusals_dtypes, floats_and_others)
{
    tn_tensor *bytes = of(TN_UINT8, TN_INTS(1, 1, 2)), *ints = of(TN_INT32, TN_INTS(1, 1, 2));
    cr_assert_not_null(tn_upsample_nearest1d(s, bytes, TN_INTS(4)));
    REFUSED(tn_upsample_nearest1d(s, ints, TN_INTS(4)), "\"upsample_nearest1d\" not implemented for 'Int'");
    cr_assert_not_null(tn_avg_pool2d(s, of(TN_INT64, TN_INTS(1, 2, 2)), TN_INTS(2, 2)));
    REFUSED(tn_avg_pool2d(s, of(TN_INT32, TN_INTS(1, 2, 2)), TN_INTS(2, 2)),
            "\"avg_pool2d\" not implemented for 'Int'");
    cr_assert_not_null(tn_soft_margin_loss(s, of(TN_COMPLEX64, TN_INTS(2)), of(TN_COMPLEX64, TN_INTS(2))));
    REFUSED(tn_soft_margin_loss(s, ints, ints), "\"soft_margin_loss\" not implemented for 'Int'");
    REFUSED(tn_reflection_pad1d(s, of(TN_BOOL, TN_INTS(1, 3)), TN_INTS(1, 1)),
            "\"reflection_pad1d\" not implemented for 'Bool'");
    REFUSED(tn_median(s, of(TN_BOOL, TN_INTS(3))), "\"median\" not implemented for 'Bool'");
    cr_assert_not_null(tn_im2col(s, of(TN_BOOL, TN_INTS(1, 2, 2)), TN_INTS(1, 1), TN_INTS(1, 1),
                                 TN_INTS(0, 0), TN_INTS(1, 1)));
    REFUSED(tn_im2col(s, of(TN_INT64, TN_INTS(1, 2, 2)), TN_INTS(1, 1), TN_INTS(1, 1), TN_INTS(0, 0),
                      TN_INTS(1, 1)),
            "\"im2col\" not implemented for 'Long'");
    REFUSED(tn_abs(s, of(TN_BOOL, TN_INTS(3))), "\"abs\" not implemented for 'Bool'");
    REFUSED(tn_abs_(s, of(TN_COMPLEX64, TN_INTS(3))), "In-place abs is not supported for complex tensors.");
    REFUSED(tn_addcdiv(s, of(TN_FLOAT32, TN_INTS(2)), ints, ints),
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will "
            "perform a true");
    end();
}

Test(refusals_dtypes, numbers_beyond_the_dtype)
{
    tn_tensor *bytes = of(TN_INT8, TN_INTS(2));
    REFUSED(tn_scatter_value(s, bytes, 0, of(TN_INT64, TN_INTS(1)), 300),
            "value cannot be converted to type int8_t without overflow");
    REFUSED(tn_constant_pad_nd(s, bytes, TN_INTS(1, 1), .value = TN_SCALAR(300)),
            "value cannot be converted to type int8_t without overflow");
    EXPECT(s, tn_constant_pad_nd(s, bytes, TN_INTS(1, 0), .value = TN_SCALAR(-128)), -128, 1, 1);
    end();
}

Test(refusals_dtypes, numbers_beyond_the_dtype_in_where)
{
    tn_tensor *bytes = of(TN_INT8, TN_INTS(2)), *floats = of(TN_FLOAT32, TN_INTS(2)),
              *yes = of(TN_BOOL, TN_INTS(2));
    REFUSED(tn_where_scalarself(s, yes, 300, bytes),
            "value cannot be converted to type int8_t without overflow");
    REFUSED(tn_where_scalarother(s, yes, bytes, -129),
            "value cannot be converted to type int8_t without overflow");
    REFUSED(tn_where_scalarother(s, yes, floats, 1e300),
            "value cannot be converted to type float without overflow");
    REFUSED(tn_where_scalar(s, yes, 1, 1e300), "value cannot be converted to type float without overflow");
    REFUSED(tn_where_scalarself(
                s, yes, ((tn_scalar){.tag = TN_TAG_COMPLEX, .as.floats = (double[]){1, 1e300}}), floats),
            "value cannot be converted to type c10::complex<float> without overflow");
    EXPECT(s, tn_where_scalarself(s, yes, -128, bytes), -128, -128);
    EXPECT(s, tn_where_scalarself(s, yes, -1, of(TN_UINT8, TN_INTS(2))), 255, 255);
    EXPECT(s, tn_where_scalarself(s, yes, 300, of(TN_BOOL, TN_INTS(2))), 300, 300);
    EXPECT(s, tn_where_scalarself(s, yes, 1e300, of(TN_FLOAT16, TN_INTS(2))), INFINITY, INFINITY);
    EXPECT(s, tn_where_scalarself(s, yes, INFINITY, floats), INFINITY, INFINITY);
    end();
}

/* A number is refused by the dtype that the operator computes in: float32 for half types, where ATen does. */
Test(refusals_dtypes, numbers_beyond_the_dtype_of_the_computation)
{
    tn_tensor *bytes = of(TN_UINT8, TN_INTS(2)), *small = of(TN_INT8, TN_INTS(2)),
              *floats = of(TN_FLOAT32, TN_INTS(2)), *half = of(TN_FLOAT16, TN_INTS(2)),
              *matrix = of(TN_INT8, TN_INTS(2, 2));
    const char *int8 = "value cannot be converted to type int8_t without overflow";
    REFUSED(tn_add(s, small, small, .alpha = TN_SCALAR(300)), int8);
    REFUSED(tn_sub_(s, small, small, .alpha = TN_SCALAR(-129)), int8);
    EXPECT(s, tn_add(s, small, small, .alpha = TN_SCALAR(127)), -128, -128);
    EXPECT(s, tn_add(s, bytes, bytes, .alpha = TN_SCALAR(-1)), 0, 0);
    REFUSED(tn_clamp(s, small, .min = TN_SCALAR(300)), int8);
    REFUSED(tn_clamp_max(s, floats, 1e300), "value cannot be converted to type float without overflow");
    REFUSED(tn_addcmul(s, bytes, bytes, bytes, .value = TN_SCALAR(-2.5)),
            "value cannot be converted to type uint8_t without overflow");
    REFUSED(tn_addmm(s, matrix, matrix, matrix, .beta = TN_SCALAR(1000)), int8);
    REFUSED(tn_add(s, half, half, .alpha = TN_SCALAR(1e5)),
            "value cannot be converted to type c10::Half without overflow");
    cr_assert_not_null(tn_elu(s, half, .alpha = TN_SCALAR(1e5)));
    REFUSED(tn_elu(s, half, .alpha = TN_SCALAR(1e300)),
            "value cannot be converted to type float without overflow");
    REFUSED(tn_index_fill(s, small, 0, of(TN_INT64, TN_INTS(1)), 300), int8);
    REFUSED(tn_pow_tensor_scalar(s, small, 300), int8);
    EXPECT(s, tn_leaky_relu(s, tn_neg(s, floats), .negative_slope = TN_SCALAR(INFINITY)), -INFINITY,
           -INFINITY);
    end();
}

Test(refusals_dtypes, complex_and_bool)
{
    tn_tensor *complex = of(TN_COMPLEX64, TN_INTS(2)), *flags = of(TN_BOOL, TN_INTS(2));
    REFUSED(tn_sign(s, complex), "torch.sign is not intended to support complex numbers");
    REFUSED(tn_div_tensor_mode(s, complex, complex, "floor"),
            "\"div_floor\" not implemented for 'ComplexFloat'");
    REFUSED(tn_div_tensor_mode(s, flags, flags, "trunc"), "\"div_trunc\" not implemented for 'Bool'");
    REFUSED(
        tn_addmv(s, of(TN_FLOAT64, TN_INTS(2)), of(TN_FLOAT32, TN_INTS(2, 2)), of(TN_FLOAT32, TN_INTS(2))),
        "addmv input tensors must have the same dtype, but got Double, Float, and Float");
    end();
}

/* Numbers that have to be real or finite. */
Test(refusals_dtypes, numbers_of_another_kind)
{
    const double pair[] = {1.5, 0};
    tn_tensor *floats = of(TN_FLOAT32, TN_INTS(2, 2)), *row = tn_arange(s, 4);
    REFUSED(tn_rrelu(s, floats, .lower = TN_SCALAR(NAN)), "rrelu: lower bound must be finite, got nan");
    REFUSED(tn_rrelu(s, floats, .lower = TN_SCALAR(1), .upper = TN_SCALAR(0.5)),
            "Lower bound should be less than or equal to the upper bound");
    REFUSED(tn_renorm(s, floats, NAN, 0, 1), "renorm: non-positive-norm not supported");
    REFUSED(tn_trapezoid_dx(s, floats, .dx = tn_value_bool(1)),
            "Currently, we only support dx as a real number.");
    REFUSED(tn_linspace(s, tn_value_complex(pair), 2, 3, .dtype = TN_FLOAT32),
            "torch.linspace(): inferred dtype c10::complex<float> can't be safely cast to passed dtype");
    REFUSED(tn_linalg_matrix_norm(s, floats, tn_value_complex(pair)),
            "Expected a non-complex scalar as the order of norm");
    REFUSED(tn_arange(s, tn_value_complex((const double[]){1, 2})),
            "value cannot be converted to type double without overflow");
    REFUSED(tn_searchsorted_scalar(s, row, tn_value_complex(pair)),
            "\"searchsorted\" not implemented for 'ComplexFloat'");
    EXPECT(s, tn_searchsorted_scalar(s, row, 2.5), 3); /* in float32, not among integers */
    EXPECT(s, tn_searchsorted_scalar(s, row, NAN), 4);
    end();
}

Test(refusals_dtypes, outputs)
{
    tn_tensor *input = of(TN_FLOAT32, TN_INTS(2, 2)), *wide = of(TN_FLOAT64, TN_INTS(2, 2));
    EXPECT(s, tn_add_out(s, input, input, wide), 2, 2, 2, 2);
    EXPECT(s, tn_cat_out(s, TN_TENSORS(input), tn_empty(s, TN_INTS(0), .dtype = TN_FLOAT64)), 1, 1, 1, 1);
    REFUSED(tn_mm_out(s, input, input, wide),
            "Expected out tensor to have dtype float, but got double instead");
    REFUSED(tn_silu_out(s, input, wide), "Expected out tensor to have dtype float, but got double instead");
    REFUSED(tn_tril_out(s, of(TN_INT64, TN_INTS(2, 2)), of(TN_BFLOAT16, TN_INTS(2, 2))),
            "Expected out tensor to have dtype long int, but got c10::BFloat16 instead");
    REFUSED(tn_all_out(s, input, of(TN_FLOAT32, TN_INTS(0))),
            "Expected out tensor to have dtype bool or unsigned char, but got float instead");
    uint32_t flip = tn_operator_find(ctx, "aten::flip.out"); /* follows from aten::flip */
    const tn_value args[] = {tn_value_tensor(input), tn_value_ints((const int64_t[]){0}, 1),
                             tn_value_tensor(wide)};
    tn_value out = tn_value_none();
    cr_assert(tn_scope_call(s, flip, args, 3, &out, 1));
    expect_error(s, "Expected out tensor to have dtype float, but got double instead");
    end();
}

Test(refusals_dtypes, targets_of_losses)
{
    tn_tensor *p = of(TN_FLOAT32, TN_INTS(2)), *whole = of(TN_INT64, TN_INTS(2)),
              *wide = of(TN_FLOAT64, TN_INTS(2));
    REFUSED(tn_binary_cross_entropy(s, p, whole), "Found dtype Long but expected Float");
    REFUSED(tn_binary_cross_entropy(s, p, wide), "Found dtype Double but expected Float");
    REFUSED(tn_binary_cross_entropy(s, p, tn_sub_scalar(s, p, 2)),
            "all elements of target should be between 0 and 1");
    REFUSED(tn_binary_cross_entropy(s, p, tn_mul_scalar(s, p, NAN)),
            "all elements of target should be between 0 and 1");
    REFUSED(tn_binary_cross_entropy_with_logits(s, p, whole),
            "result type Float can't be cast to the desired output type Long");
    REFUSED(tn_huber_loss(s, whole, p), "result type Float can't be cast to the desired output type Long");
    REFUSED(tn_soft_margin_loss(s, whole, p),
            "result type Float can't be cast to the desired output type Long");
    REFUSED(tn_mse_loss_backward(s, p, whole, whole, 0),
            "result type Float can't be cast to the desired output type Long");
    REFUSED(tn_l1_loss(s, p, of(TN_BOOL, TN_INTS(2))), "with a bool tensor is not supported");
    REFUSED(tn_kl_div(s, of(TN_COMPLEX64, TN_INTS(2)), p), "kl_div: Complex inputs not supported.");
    REFUSED(tn_nll_loss2d(s, of(TN_FLOAT32, TN_INTS(1, 2, 1, 2)), of(TN_UINT8, TN_INTS(1, 1, 2))),
            "expected scalar type Long but found Byte");
    REFUSED(tn_multi_margin_loss(s, of(TN_FLOAT32, TN_INTS(2, 3)), tn_zeros_like(s, whole),
                                 .weight = of(TN_INT64, TN_INTS(3))),
            "expected dtype Float for `weight` but got dtype Long");
    end();
}

Test(refusals_dtypes, operands_beside_others)
{
    tn_tensor *f = of(TN_FLOAT32, TN_INTS(3)), *whole = of(TN_INT64, TN_INTS(3)),
              *wide = of(TN_FLOAT64, TN_INTS(3)), *bytes = of(TN_UINT8, TN_INTS(3)),
              *square = of(TN_FLOAT32, TN_INTS(3, 3)), *zero = tn_zeros_like(s, whole);
    REFUSED(tn_masked_fill(s, f, bytes, of(TN_FLOAT32, TN_NO_INTS)),
            "masked_fill_ only supports boolean masks");
    REFUSED(tn_masked_fill(s, f, of(TN_BOOL, TN_INTS(3)), tn_full(s, TN_NO_INTS, IMAGINARY)),
            "value cannot be converted to type float without overflow");
    REFUSED(tn_index_put_default(s, f, TN_TENSORS(zero), of(TN_FLOAT64, TN_INTS(1))),
            "Index put requires the source and destination dtypes match");
    REFUSED(tn_index_put_default(s, f, TN_TENSORS(of(TN_BOOL, TN_INTS(3))), of(TN_FLOAT64, TN_INTS(1)),
                                 .accumulate = 1),
            "Index put requires the source and destination dtypes match");
    REFUSED(tn_index_fill(s, f, 0, tn_to(s, zero, TN_INT32), 1),
            "index_fill_(): Expected dtype int64 for index.");
    REFUSED(tn_hardtanh(s, bytes), "cannot do hardtanh on an unsigned type with negative limits");
    EXPECT(s, tn_hardtanh(s, bytes, .min_val = TN_SCALAR(0), .max_val = TN_SCALAR(6)), 1, 1, 1);
    REFUSED(tn__prelu_kernel(s, f, wide), "Found dtype Double but expected Float");
    REFUSED(tn_linear(s, square, square, .bias = whole),
            "self and mat2 must have the same dtype, but got Long and Float");
    REFUSED(tn_bilinear(s, square, square, of(TN_FLOAT32, TN_INTS(3, 3, 3)), .bias = wide),
            "bilinear(): all tensors must have the same dtype, got weight: Float, bias: Double");
    REFUSED(tn_fractional_max_pool2d(s, of(TN_FLOAT32, TN_INTS(1, 1, 4, 4)), TN_INTS(2, 2), TN_INTS(2, 2),
                                     of(TN_FLOAT64, TN_INTS(1, 1, 2)))
                .result0,
            "Expect _random_samples to have the same dtype as input (got Double and Float)");
    REFUSED(tn_isin_tensor_scalar(s, whole, tn_value_bool(1)),
            "Unsupported input type encountered for isin(): Bool");
    REFUSED(tn_isin_scalar_tensor(s, tn_value_bool(1), whole),
            "Unsupported input type encountered for isin(): Bool");
    REFUSED(tn_abs_out(s, f, wide), "Found dtype Double but expected Float");
    REFUSED(tn_embedding_bag(s, square, zero, zero, .per_sample_weights = wide).result0,
            "expected dtype Float for `per_sample_weights` but got dtype Double");
    REFUSED(tn_fake_quantize_per_channel_affine(s, square, f, whole, 0, 0, 255),
            "Zero-point must be Int32, Float or Half, found Long");
    REFUSED(tn_histogram_bins_tensor(s, f, wide).hist,
            "input tensor and bins tensors should have the same dtype, but got input with dtype float");
    REFUSED(tn_histogram(s, f, .bins = 2, .weight = wide).hist,
            "input tensor and weight tensor should have the same dtype, but got input(float), and "
            "weight(double)");
    REFUSED(
        tn__histogramdd_from_bin_cts(s, tn_unsqueeze(s, f, 1), TN_INTS(2), .weight = tn_unsqueeze(s, f, 0)),
        "with shape [3, 1] and weight with shape [1, 3]");
    end();
}

/* Operators that do not promote, and dtypes of given results that contradict the call. */
Test(refusals_dtypes, without_promotion)
{
    tn_tensor *f = of(TN_FLOAT32, TN_INTS(3)), *wide = of(TN_FLOAT64, TN_INTS(3)),
              *half = of(TN_FLOAT64, TN_NO_INTS), *square = of(TN_FLOAT32, TN_INTS(3, 3)),
              *plane = of(TN_FLOAT32, TN_INTS(3, 3));
    const char *const steps = "heaviside is not yet implemented for tensors with different dtypes.";
    REFUSED(tn_heaviside(s, f, wide), steps);
    REFUSED(tn_heaviside_(s, f, half), steps);
    REFUSED(tn_lerp(s, f, wide, f), "lerp: expected dtype float for `end` but got dtype double");
    REFUSED(tn_lerp(s, f, half, f), "expected dtype float for `end` but got dtype double");
    REFUSED(tn_lerp(s, f, f, wide), "expected dtype float for `weight` but got dtype double");
    REFUSED(tn_lerp_scalar_(s, wide, f, 0.5), "expected dtype double for `end` but got dtype float");
    EXPECT(s, tn_lerp(s, f, f, half), 1, 1, 1);
    const char *const text = "Expected out tensor to have dtype long int, but got float instead";
    REFUSED(tn_sum_dim_out(s, square, TN_INTS(0), f, .dtype = TN_INT64), text);
    REFUSED(tn_prod_dim_out(s, square, 0, f, .dtype = TN_INT64), text);
    REFUSED(tn_cumsum_out(s, square, 0, plane, .dtype = TN_INT64), text);
    REFUSED(tn_mean_dim_out(s, square, TN_INTS(0), f, .dtype = TN_FLOAT64),
            "Expected out tensor to have dtype double, but got float instead");
    EXPECT(s, tn_sum_dim_out(s, square, TN_INTS(0), wide), 3, 3, 3);
    tn__foreach_sqrt_out(s, TN_TENSORS(f), TN_TENSORS(wide));
    expect_error(s, "Expected out tensor to have dtype float, but got double instead");
    end();
}
