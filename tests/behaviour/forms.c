/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise calls in all forms, with tensors and scalars: values, dtypes, refusals. Simple calls take another
 * path inside than calls that need promotion, broadcasting or copies; each pair here has one of both.
 */
#include <math.h>
#include "fixture.h"

static void expect_dtype(place *p, const tn_tensor *t, tn_dtype dtype)
{
    cr_assert_eq(tn_scope_failed(p->s), TN_OK, "%s",
                 tn_scope_failed(p->s) ? tn_scope_error(p->s)->message : "");
    cr_assert_eq(tn_tensor_dtype(t), dtype, "%s", tn_dtype_name(tn_tensor_dtype(t)));
}

ON_EACH_DEVICE(forms, out_is_written_and_returned)
{
    tn_tensor *a = VECTOR(p, TN_FLOAT32, 1, 2, 3), *b = VECTOR(p, TN_FLOAT32, 10, 20, 30);
    tn_tensor *out = VECTOR(p, TN_FLOAT32, 0, 0, 0), *wide = VECTOR(p, TN_FLOAT64, 0, 0, 0);
    cr_assert_eq(tn_add_out(p->s, a, b, out, .alpha = TN_SCALAR(2)), out);
    EXPECT(p, out, 21, 42, 63);
    cr_assert_eq(tn_add_out(p->s, a, b, wide), wide);
    EXPECT(p, wide, 11, 22, 33);
    tn_tensor *empty = tn_empty(p->s, TN_INTS(0), .dtype = TN_FLOAT32, .device = p->device);
    tn_mul_out(p->s, a, b, empty);
    EXPECT(p, empty, 10, 40, 90);
    tn_mul_out(p->s, a, b, VECTOR(p, TN_INT64, 0, 0, 0));
    expect_error(p, "result type Float can't be cast to the desired output type Long");
}

ON_EACH_DEVICE(forms, out_that_is_an_input_or_overlaps_one)
{
    tn_tensor *a = VECTOR(p, TN_FLOAT32, 1, 2, 3, 4);
    tn_add_out(p->s, a, a, a);
    EXPECT(p, a, 2, 4, 6, 8);
    tn_tensor *low = tn_narrow(p->s, a, 0, 0, 3), *high = tn_narrow(p->s, a, 0, 1, 3);
    tn_add_out(p->s, low, low, high);
    expect_error(p, "some elements of the input tensor and the written-to tensor refer to a single memory");
    EXPECT(p, a, 2, 4, 6, 8);
    tn_add_(p->s, low, high);
    expect_error(p, "some elements of the input tensor and the written-to tensor refer to a single memory");
    tn_tensor *same = tn_narrow(p->s, a, 0, 0, 4);
    tn_mul_(p->s, same, a);
    EXPECT(p, a, 4, 16, 36, 64);
    /* A scalar may not be an element of the written tensor. */
    tn_mul_(p->s, a, tn_select(p->s, a, 0, 1));
    expect_error(p, "some elements of the input tensor and the written-to tensor refer to a single memory");
    tn_mul_(p->s, a, tn_clone(p->s, tn_select(p->s, a, 0, 1)));
    EXPECT(p, a, 64, 256, 576, 1024);
}

ON_EACH_DEVICE(forms, in_place_counts_a_write)
{
    tn_tensor *a = VECTOR(p, TN_FLOAT32, 1, 2);
    uint64_t before = tn_tensor_version(a);
    cr_assert_eq(tn_add_(p->s, a, a), a);
    cr_assert_eq(tn_tensor_version(a), before + 1);
    cr_assert_eq(tn_mul_scalar_(p->s, a, 3), a);
    cr_assert_eq(tn_tensor_version(a), before + 2);
    tn_add_out(p->s, a, VECTOR(p, TN_FLOAT32, 1, 1), a);
    cr_assert_eq(tn_tensor_version(a), before + 3);
    EXPECT(p, a, 7, 13);
    tn_eq_(p->s, a, VECTOR(p, TN_FLOAT32, 7, 0));
    expect_dtype(p, a, TN_FLOAT32);
    EXPECT(p, a, 1, 0);
}

/* A scalar never widens a dtype beyond its own category. */
ON_EACH_DEVICE(forms, numbers_promote_like_numbers)
{
    static const struct {
        tn_dtype tensor, with_bool, with_int, with_float;
    } table[] = {
        {TN_BOOL, TN_BOOL, TN_INT64, TN_FLOAT32},
        {TN_UINT8, TN_UINT8, TN_UINT8, TN_FLOAT32},
        {TN_INT32, TN_INT32, TN_INT32, TN_FLOAT32},
        {TN_FLOAT16, TN_FLOAT16, TN_FLOAT16, TN_FLOAT16},
        {TN_BFLOAT16, TN_BFLOAT16, TN_BFLOAT16, TN_BFLOAT16},
        {TN_FLOAT32, TN_FLOAT32, TN_FLOAT32, TN_FLOAT32},
        {TN_FLOAT64, TN_FLOAT64, TN_FLOAT64, TN_FLOAT64},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        tn_tensor *a = VECTOR(p, table[i].tensor, 1, 1);
        expect_dtype(p, tn_mul_scalar(p->s, a, (_Bool)1), table[i].with_bool);
        expect_dtype(p, tn_mul_scalar(p->s, a, 1), table[i].with_int);
        expect_dtype(p, tn_mul_scalar(p->s, a, 1.0), table[i].with_float);
        expect_dtype(p, tn_eq_scalar(p->s, a, 1.0), TN_BOOL);
    }
    EXPECT(p, tn_eq_scalar(p->s, VECTOR(p, TN_INT64, 2, 3), 2.5), 0, 0);
    EXPECT(p, tn_lt_scalar(p->s, VECTOR(p, TN_INT64, 2, 3), 2.5), 1, 0);
    EXPECT(p, tn_div_scalar(p->s, VECTOR(p, TN_INT64, 3, 4), 2), 1.5, 2);
    tn_mul_scalar_(p->s, VECTOR(p, TN_INT64, 1, 2), 0.5);
    expect_error(p, "result type Float can't be cast to the desired output type Long");
    const double i_unit[] = {0, 1};
    expect_dtype(p, tn_mul_scalar(p->s, VECTOR(p, TN_FLOAT32, 1), tn_value_complex(i_unit)), TN_COMPLEX64);
}

/* The scalar is rounded once, to the dtype of the call. */
ON_EACH_DEVICE(forms, numbers_are_rounded_once)
{
    tn_tensor *one = VECTOR(p, TN_FLOAT32, 1, 1);
    EXPECT_NEAR(p, tn_mul_scalar(p->s, one, 0.1), 0, 0.1f, 0.1f);
    EXPECT_NEAR(p, tn_mul_scalar(p->s, one, 16777217), 0, 16777216, 16777216);
    EXPECT_NEAR(p, tn_add_scalar(p->s, VECTOR(p, TN_INT64, 1, 2), 9007199254740990), 0, 9007199254740991.0,
                9007199254740992.0);
    EXPECT(p, tn_add_scalar(p->s, VECTOR(p, TN_UINT8, 250, 1), 10), 4, 11);
    EXPECT(p, tn_sub_scalar(p->s, VECTOR(p, TN_FLOAT32, 5, 7), 2, .alpha = TN_SCALAR(2)), 1, 3);
    EXPECT(p, tn_rsub_scalar(p->s, VECTOR(p, TN_FLOAT32, 5, 7), 2), -3, -5);
}

/* 0-dim tensors rank between: they yield to tensors with dimensions, not to scalars. */
ON_EACH_DEVICE(forms, tensors_without_dimensions)
{
    tn_tensor *zero_dim = tn_scalar_tensor(p->s, 2.0, .dtype = TN_FLOAT64);
    tn_tensor *a = VECTOR(p, TN_FLOAT32, 1, 2), *n = VECTOR(p, TN_INT32, 1, 2);
    expect_dtype(p, tn_mul(p->s, a, zero_dim), TN_FLOAT32);
    EXPECT(p, tn_mul(p->s, a, zero_dim), 2, 4);
    expect_dtype(p, tn_mul(p->s, zero_dim, a), TN_FLOAT32);
    EXPECT(p, tn_sub(p->s, zero_dim, a), 1, 0);
    expect_dtype(p, tn_mul(p->s, n, zero_dim), TN_FLOAT64);
    expect_dtype(p, tn_mul_scalar(p->s, zero_dim, 3), TN_FLOAT64);
    tn_tensor *small = tn_scalar_tensor(p->s, 3, .dtype = TN_INT32);
    expect_dtype(p, tn_mul_scalar(p->s, small, 3), TN_INT32);
    expect_dtype(p, tn_mul(p->s, small, zero_dim), TN_FLOAT64);
    EXPECT(p, tn_mul(p->s, small, zero_dim), 6);
    tn_mul_(p->s, zero_dim, VECTOR(p, TN_FLOAT64, 1, 2));
    cr_assert_neq(tn_scope_failed(p->s), TN_OK);
    tn_scope_clear(p->s);
}

ON_EACH_DEVICE(forms, three_operands)
{
    tn_tensor *a = VECTOR(p, TN_FLOAT64, 1, 2), *b = VECTOR(p, TN_FLOAT64, 3, 4);
    EXPECT(p, tn_addcmul(p->s, a, b, b, .value = TN_SCALAR(0.5)), 5.5, 10);
    tn_addcdiv_(p->s, a, b, VECTOR(p, TN_FLOAT64, 2, 2), .value = TN_SCALAR(-1));
    EXPECT(p, a, -0.5, 0);
    tn_lerp_scalar_(p->s, a, b, 0.5);
    EXPECT(p, a, 1.25, 2);
    EXPECT(p, tn_pow_tensor_scalar(p->s, b, 2), 9, 16);
    EXPECT(p, tn_clamp(p->s, b, .min = TN_SCALAR(3.5)), 3.5, 4);
    expect_dtype(p, tn_clamp(p->s, VECTOR(p, TN_INT64, 3, 4), .min = TN_SCALAR(3.5)), TN_FLOAT32);
    tn_pow_tensor_scalar(p->s, VECTOR(p, TN_INT64, 3, 4), -1);
    expect_error(p, "Integers to negative integer powers are not allowed.");
}

/* In-place calls with scalars on a leaf: refused while recording, else done. */
ON_EACH_DEVICE(forms, numbers_and_recording)
{
    tn_tensor *w = VECTOR(p, TN_FLOAT32, 1, 2);
    tn_set_requires_grad(w, 1);
    tn_mul_scalar_(p->s, w, 2);
    expect_error(p, "a leaf Variable that requires grad is being used in an in-place operation.");
    uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF);
    tn_mul_scalar_(p->s, w, 2);
    tn_set_grad_mode(mode);
    tn_tensor *y = tn_sum(p->s, tn_mul_scalar(p->s, tn_mul(p->s, w, w), 3));
    tn_backward(p->s, y);
    EXPECT(p, tn_grad_of(p->s, w), 12, 24);
    tn_mul_out(p->s, w, w, VECTOR(p, TN_FLOAT32, 0, 0));
    expect_error(p, "don't support automatic differentiation");
}

/* Running statistics are arguments that are written: also where a kernel wants them laid out differently. */
ON_EACH_DEVICE(forms, running_statistics_with_gaps)
{
    tn_tensor *x = MAKE(p, TN_FLOAT32, TN_INTS(4, 2), 1, 10, 2, 20, 3, 30, 4, 40);
    tn_tensor *both = tn_zeros(p->s, TN_INTS(2, 2), .dtype = TN_FLOAT32, .device = p->device);
    tn_tensor *mean = tn_select(p->s, both, 1, 0), *variance = tn_select(p->s, both, 1, 1);
    tn_native_batch_norm(p->s, x, NULL, NULL, mean, variance, 1, 0.5, 1e-5);
    EXPECT_NEAR(p, both, 1e-4, 1.25, 0.5 * 5 / 3, 12.5, 0.5 * 500 / 3);
}
