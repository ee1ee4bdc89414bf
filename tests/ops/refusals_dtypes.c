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
            "Expected out tensor to have dtype bool, but got float instead");
    uint32_t flip = tn_operator_find(ctx, "aten::flip.out"); /* follows from aten::flip */
    const tn_value args[] = {tn_value_tensor(input), tn_value_ints((const int64_t[]){0}, 1),
                             tn_value_tensor(wide)};
    tn_value out = tn_value_none();
    cr_assert(tn_scope_call(s, flip, args, 3, &out, 1));
    expect_error(s, "Expected out tensor to have dtype float, but got double instead");
    end();
}
