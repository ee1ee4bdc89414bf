/* SPDX-License-Identifier: Apache-2.0 */
/* Dtypes and strides of results, as PyTorch 2.13 gives them on a CPU. */
#include "suite.h"

#include <math.h>

TestSuite(results, .init = begin);

static tn_tensor *ones(tn_ints sizes)
{
    return tn_ones(s, sizes, .dtype = TN_FLOAT64);
}

static void expect_strides(const tn_tensor *t, tn_ints strides, int32_t line)
{
    expect_sound(s);
    cr_assert_eq(tn_tensor_rank(t), strides.count, "line %d", (int)line);
    for (int64_t d = 0; d < strides.count; d++)
        cr_expect_eq(tn_tensor_strides(t)[d], strides.data[d], "line %d, dimension %lld: %lld", (int)line,
                     (long long)d, (long long)tn_tensor_strides(t)[d]);
}
#define STRIDES(t, ...) expect_strides(t, TN_INTS(__VA_ARGS__), __LINE__)

/* The result of masked_fill and masked_scatter has the broadcast shape, also where mask and self have as many elements. */
Test(results, masks_that_are_larger_than_self)
{
    tn_tensor *column = tn_reshape(s, tn_arange(s, 2), TN_INTS(2, 1)),
              *mask = tn_from_data(s, TN_BOOL, TN_INTS(1, 2), (char[]){0, 1}, TN_CPU);
    EXPECT(s, tn_masked_fill_scalar(s, column, mask, 7), 0, 7, 1, 7);
    EXPECT(s, tn_masked_fill_scalar(s, tn_zeros(s, TN_NO_INTS), mask, 7), 0, 7);
    EXPECT(
        s,
        tn_masked_scatter(s, column, mask, tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){8, 9}, TN_CPU)),
        0, 8, 1, 9);
    cr_assert_eq(tn_tensor_rank(tn_masked_fill_scalar(s, tn_arange(s, 2), mask, 7)), 2);
    end();
}

/* Elements are made bool before they are added or multiplied. */
Test(results, sums_and_products_in_bool)
{
    tn_tensor *halves = tn_full(s, TN_INTS(2, 2), 0.5);
    EXPECT(s, tn_prod(s, halves, .dtype = TN_BOOL), 1);
    EXPECT(s, tn_sum(s, halves, .dtype = TN_BOOL), 1);
    EXPECT(s, tn_prod_dim(s, halves, 0, .dtype = TN_BOOL), 1, 1);
    EXPECT(s, tn_cumsum(s, tn_sub_scalar(s, halves, 0.5), 1, .dtype = TN_BOOL), 0, 0, 0, 0);
    end();
}

Test(results, combinations_of_more_than_there_are)
{
    tn_tensor *x = tn_arange(s, 2);
    tn_tensor *none = tn_combinations(s, x, .r_ = 100);
    expect_sound(s);
    cr_assert_eq(tn_tensor_size(none, 0), 0);
    cr_assert_eq(tn_tensor_size(none, 1), 100);
    EXPECT(s, tn_combinations(s, x, .r_ = 3, .with_replacement = 1), 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1);
    end();
}

/* Functional forms that clone self: row-major where kernels write the clone, else in the order of self. */
Test(results, strides_of_clones_that_are_written)
{
    tn_tensor *x = tn_transpose(s, ones(TN_INTS(2, 3, 4)), 0, 2), *src = ones(TN_INTS(4, 3, 2));
    tn_tensor *index = tn_zeros(s, TN_INTS(4, 3, 2), .dtype = TN_INT64), *mask = tn_gt_scalar(s, src, 0);
    tn_tensor *two = tn_arange(s, TN_SCALAR(2)), *part = ones(TN_INTS(2, 3, 2)), *one = ones(TN_NO_INTS);
    STRIDES(tn_scatter(s, x, 0, index, src), 6, 2, 1);
    STRIDES(tn_scatter_value(s, x, 0, index, 1), 6, 2, 1);
    STRIDES(tn_scatter_add(s, x, 0, index, src), 6, 2, 1);
    STRIDES(tn_scatter_reduce(s, x, 0, index, src, "sum"), 6, 2, 1);
    STRIDES(tn_index_add(s, x, 0, two, part), 6, 2, 1);
    STRIDES(tn_index_copy(s, x, 0, two, part), 6, 2, 1);
    STRIDES(tn_index_reduce(s, x, 0, two, part, "prod"), 6, 2, 1);
    STRIDES(tn_masked_fill_scalar(s, x, mask, 1), 6, 2, 1);
    STRIDES(tn_masked_fill(s, x, mask, one), 6, 2, 1);
    STRIDES(tn_masked_scatter(s, x, mask, src), 6, 2, 1);
    STRIDES(tn_index_fill(s, x, 0, two, 1), 1, 4, 12);
    STRIDES(tn_index_put_default(s, x, TN_TENSORS(two), one), 1, 4, 12);
    STRIDES(tn_put(s, x, two, ones(TN_INTS(2))), 1, 4, 12);
    end();
}

/* Of volumes with channels last only max_pool3d keeps the format; averages and adaptive pools are row-major. */
Test(results, strides_of_pools)
{
    tn_tensor *x = tn_contiguous(s, tn_rand(s, TN_INTS(2, 2, 4, 4, 4), .dtype = TN_FLOAT64),
                                 .memory_format = TN_CHANNELS_LAST_3D);
    tn_ints two = TN_INTS(2, 2, 2), zero = TN_INTS(0, 0, 0), one = TN_INTS(1, 1, 1);
    tn_max_pool3d_with_indices_result max = tn_max_pool3d_with_indices(s, x, two);
    STRIDES(max.result0, 16, 1, 8, 4, 2);
    STRIDES(max.result1, 16, 1, 8, 4, 2);
    STRIDES(tn_max_pool3d_with_indices_backward(s, max.result0, x, two, two, zero, one, 0, max.result1), 128,
            1, 32, 8, 2);
    tn_tensor *average = tn_avg_pool3d(s, x, two), *adaptive = tn__adaptive_avg_pool3d(s, x, two);
    STRIDES(average, 16, 8, 4, 2, 1);
    STRIDES(tn_avg_pool3d_backward(s, average, x, two, two, zero, 0, 1, TN_NONE), 128, 64, 16, 4, 1);
    STRIDES(adaptive, 16, 8, 4, 2, 1);
    STRIDES(tn__adaptive_avg_pool3d_backward(s, adaptive, x), 128, 64, 16, 4, 1);
    tn_adaptive_max_pool3d_result largest = tn_adaptive_max_pool3d(s, x, two);
    STRIDES(largest.result0, 16, 8, 4, 2, 1);
    STRIDES(largest.result1, 16, 8, 4, 2, 1);
    STRIDES(tn_adaptive_max_pool3d_backward(s, largest.result0, x, largest.result1), 128, 64, 16, 4, 1);
    cr_expect_eq(tn_equal(s, average, tn_avg_pool3d(s, tn_contiguous(s, x), two)), 1);
    cr_expect_eq(tn_equal(s, adaptive, average), 1);
    STRIDES(tn_avg_pool2d(s, tn_contiguous(s, ones(TN_INTS(2, 2, 4, 4)), .memory_format = TN_CHANNELS_LAST),
                          TN_INTS(2, 2)),
            8, 1, 4, 2);
    end();
}

Test(results, strides_of_shuffled_channels)
{
    tn_tensor *x = tn_rand(s, TN_INTS(2, 8, 4, 4), .dtype = TN_FLOAT64);
    tn_tensor *last = tn_contiguous(s, x, .memory_format = TN_CHANNELS_LAST);
    STRIDES(tn_pixel_shuffle(s, x, 2), 128, 64, 8, 1);
    STRIDES(tn_pixel_shuffle(s, last, 2), 128, 1, 16, 2);
    STRIDES(tn_pixel_unshuffle(s, last, 2), 128, 1, 64, 32);
    STRIDES(tn_channel_shuffle(s, last, 2), 128, 1, 32, 8);
    STRIDES(tn_pixel_shuffle(s, tn_transpose(s, x, 2, 3), 2), 128, 64, 8, 1);
    cr_expect_eq(tn_equal(s, tn_pixel_shuffle(s, x, 2), tn_pixel_shuffle(s, last, 2)), 1);
    cr_expect_eq(tn_equal(s, tn_pixel_unshuffle(s, x, 2), tn_pixel_unshuffle(s, last, 2)), 1);
    cr_expect_eq(tn_equal(s, tn_channel_shuffle(s, x, 2), tn_channel_shuffle(s, last, 2)), 1);
    end();
}

/* A label that one operand alone has is summed there, which makes int64 of small integers. */
Test(results, dtypes_of_einsum)
{
    static const tn_dtype small[] = {TN_UINT8, TN_INT8, TN_INT16, TN_INT32};
    for (int32_t n = 0; n < 4; n++) {
        tn_tensor *a = tn_full(s, TN_INTS(2, 3), TN_SCALAR(100), .dtype = small[n]);
        tn_tensor *row = tn_full(s, TN_INTS(3), TN_SCALAR(100), .dtype = small[n]);
        tn_tensor *sums = tn_einsum(s, "ij->i", TN_TENSORS(a)),
                  *products = tn_einsum(s, "ij,k->ij", TN_TENSORS(a, row));
        cr_expect_eq(tn_tensor_dtype(sums), TN_INT64);
        EXPECT(s, sums, 300, 300);
        cr_expect_eq(tn_tensor_dtype(products), TN_INT64);
        EXPECT(s, products, 30000, 30000, 30000, 30000, 30000, 30000);
        cr_expect_eq(tn_tensor_dtype(tn_einsum(s, "ij,kj->ik", TN_TENSORS(a, a))), small[n]);
        cr_expect_eq(tn_tensor_dtype(tn_einsum(s, "ij,ij->ij", TN_TENSORS(a, a))), small[n]);
        tn_einsum(s, "ij,jk->i", TN_TENSORS(a, tn_ones(s, TN_INTS(3, 2), .dtype = small[n])));
        expect_error(s, "but found Long");
    }
    tn_tensor *x = VECTOR(s, 0, 1, 2), *y = VECTOR(s, 0, 3, 4, 5);
    EXPECT(s, tn_einsum(s, "i,j->", TN_TENSORS(x, y)), 36);
    EXPECT(s, tn_einsum(s, "i,j->j", TN_TENSORS(x, y)), 9, 12, 15);
    end();
}

/* Sums of bools are true where any is. */
Test(results, additions_of_bools)
{
    tn_tensor *self = tn_zeros(s, TN_INTS(3), .dtype = TN_BOOL), *ones_at = tn_ones_like(s, self);
    tn_tensor *index = tn_from_data(s, TN_INT64, TN_INTS(3), (int64_t[]){0, 0, 2}, TN_CPU);
    EXPECT(s, tn_index_add(s, self, 0, index, ones_at), 1, 0, 1);
    EXPECT(s, tn_scatter_add(s, self, 0, index, ones_at), 1, 0, 1);
    EXPECT(s, tn_put(s, self, index, ones_at, .accumulate = 1), 1, 0, 1);
    EXPECT(s, tn_index_put_default(s, self, TN_TENSORS(index), ones_at, .accumulate = 1), 1, 0, 1);
    end();
}

Test(results, polygamma_of_small_integers_is_floating)
{
    tn_tensor *x = tn_from_data(s, TN_INT8, TN_INTS(3), (int8_t[]){1, 2, 3}, TN_CPU);
    tn_tensor *y = tn_polygamma(s, 6, x);
    cr_expect_eq(tn_tensor_dtype(y), TN_FLOAT32);
    expect_values(s, y, 3, VALUES(-726.0115, -6.0114798, -0.38647974), 1e-4);
    end();
}

/* The gradient of what is not a number is none in the losses and in hardswish, and 0 where a comparison cuts off. */
Test(results, gradients_at_nan)
{
    tn_tensor *x = VECTOR(s, 0, NAN, 0.25, -9), *zero = tn_zeros_like(s, x), *one = tn_ones_like(s, x);
    tn_tensor *smooth = tn_smooth_l1_loss_backward(s, one, x, zero, TN_REDUCTION_NONE, 0.5),
              *sharp = tn_smooth_l1_loss_backward(s, one, x, zero, TN_REDUCTION_NONE, 0),
              *huber = tn_huber_loss_backward(s, one, x, zero, TN_REDUCTION_NONE, 0.5),
              *swish = tn_hardswish_backward(s, one, x);
    EXPECT(s, tn_isnan(s, tn_stack(s, TN_TENSORS(smooth, sharp, huber, swish))), 1, 0, 0, 1, 0, 0, 1, 0, 0, 1,
           0, 0);
    EXPECT(s, tn_nan_to_num(s, smooth), 0, 0.5, -1);
    EXPECT(s, tn_nan_to_num(s, sharp), 0, 1, -1);
    EXPECT(s, tn_nan_to_num(s, huber), 0, 0.25, -0.5);
    EXPECT(s, tn_hardtanh_backward(s, one, x, -1, 1), 0, 1, 0);
    EXPECT(s, tn_hardshrink_backward(s, one, x, 0.5), 0, 0, 1);
    EXPECT(s, tn_softshrink_backward(s, one, x, 0.5), 0, 0, 1);
    tn_tensor *grad = VECTOR(s, 1, 1, 1), *at = VECTOR(s, 0, -1, 0);
    tn_tensor *slope = tn_full(s, TN_INTS(2), 0.25, .dtype = TN_FLOAT64);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn__prelu_kernel_backward(s, grad, at, slope).result0)), TN_OK);
    EXPECT(s, tn_grad_of(s, grad), 0.25, 1); /* for ATen's second derivative 0 is positive */
    end();
}

static tn_tensor *three(tn_dtype dtype)
{
    return tn_to(s, VECTOR(s, 0, 1, 0, 3), dtype);
}
static void expect_dtype(const tn_tensor *t, tn_dtype dtype, int32_t line)
{
    expect_sound(s);
    cr_expect_eq(tn_tensor_dtype(t), dtype, "line %d: %s", (int)line, tn_dtype_name(tn_tensor_dtype(t)));
}
#define DTYPE(t, dtype) expect_dtype(t, dtype, __LINE__)

Test(results, losses_of_mixed_dtypes)
{
    tn_tensor *f = three(TN_FLOAT32), *k = tn_logical_not(s, f), *wide = three(TN_FLOAT64);
    EXPECT(s, tn_mse_loss(s, f, k, .reduction = 0), 1, 1, 9);
    EXPECT(s, tn_mse_loss(s, k, f, .reduction = 0), 1, 1, 9);
    EXPECT(s, tn_smooth_l1_loss(s, f, k, .reduction = 0), 0.5, 0.5, 2.5);
    EXPECT(s, tn_smooth_l1_loss(s, k, f, .reduction = 0), 0.5, 0.5, 2.5);
    EXPECT(s, tn_huber_loss(s, f, k, .reduction = 0), 0.5, 0.5, 2.5);
    EXPECT(s, tn_mse_loss_backward(s, f, f, k, 0), 2, 0, 18);
    DTYPE(tn_mse_loss(s, f, wide), TN_FLOAT64);
    DTYPE(tn_huber_loss(s, f, wide), TN_FLOAT32);
    DTYPE(tn_soft_margin_loss(s, f, wide), TN_FLOAT32);
    DTYPE(tn_mse_loss_backward(s, f, f, wide, 0), TN_FLOAT32);
    DTYPE(tn_soft_margin_loss_backward(s, f, f, wide, 0), TN_FLOAT32);
    DTYPE(tn_binary_cross_entropy_with_logits(s, wide, f), TN_FLOAT32);
    DTYPE(tn_binary_cross_entropy_with_logits(s, f, f, .weight = wide), TN_FLOAT32);
    DTYPE(tn_rms_norm(s, three(TN_FLOAT16), TN_INTS(3), .weight = f), TN_FLOAT16);
    DTYPE(tn_rms_norm(s, three(TN_BFLOAT16), TN_INTS(3), .weight = f), TN_BFLOAT16);
    DTYPE(tn_rms_norm(s, f, TN_INTS(3), .weight = wide), TN_FLOAT32);
    end();
}

/* With one bool mask and one element index_put is masked_fill, which casts the element. */
Test(results, masks_with_one_element_of_another_dtype)
{
    tn_tensor *f = three(TN_FLOAT32), *k = tn_to(s, f, TN_BOOL),
              *seven = tn_full(s, TN_INTS(1), 7, .dtype = TN_INT64);
    tn_tensor *rows = tn_zeros(s, TN_INTS(2, 3)), *grad = VECTOR(s, 1, 5);
    EXPECT(s, tn_index_put_default(s, f, TN_TENSORS(k), seven), 7, 0, 7);
    EXPECT(s, tn_index_put_(s, f, TN_TENSORS(k), tn_full(s, TN_NO_INTS, 8, .dtype = TN_FLOAT64)), 8, 0, 8);
    EXPECT(s, tn_index_put_default(s, rows, TN_TENSORS(NULL, k), seven), 7, 0, 7, 7, 0, 7);
    EXPECT(s, tn_masked_fill(s, f, k, tn_full(s, TN_NO_INTS, tn_value_complex((double[]){2, 0}))), 2, 0, 2);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_index_put_default(s, f, TN_TENSORS(k), grad))), TN_OK);
    EXPECT(s, tn_grad_of(s, grad), 2);
    DTYPE(tn_grad_of(s, grad), TN_FLOAT64);
    end();
}

/* A value may have more leading dimensions of size 1 than the elements of an index or a mask. */
Test(results, values_with_leading_ones)
{
    tn_tensor *square = tn_zeros(s, TN_INTS(2, 2)), *k = tn_to(s, tn_eye(s, 2), TN_BOOL);
    tn_tensor *at = tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){1, 0}, TN_CPU);
    tn_tensor *pair = tn_reshape(s, VECTOR(s, 0, 5, 6), TN_INTS(1, 2));
    tn_index_assign(s, square, pair, TN_BY(k));
    EXPECT(s, square, 5, 0, 0, 6);
    tn_index_assign(s, square, tn_reshape(s, pair, TN_INTS(1, 1, 1, 2)), TN_BY(at));
    EXPECT(s, square, 5, 6, 5, 6);
    tn_index_assign(s, square, tn_ones(s, TN_INTS(1, 1)), TN_BY(k));
    EXPECT(s, square, 1, 6, 5, 1);
    end();
}

Test(results, numbers_and_lists_that_fit)
{
    tn_tensor *none = tn_zeros(s, TN_INTS(0)), *f = three(TN_FLOAT32),
              *truth = tn_zeros(s, TN_NO_INTS, .dtype = TN_UINT8);
    EXPECT(s, tn_arange_start_step(s, 0, 1, .step = TN_SCALAR(0.3), .dtype = TN_INT32), 0, 0, 0, 0);
    EXPECT(s, tn_arange_start_step(s, 1, -1, .step = TN_SCALAR(-0.7), .dtype = TN_INT16), 1, 1, 1);
    tn_arange_start_step(s, 0, 1, .step = TN_SCALAR(0.3), .dtype = TN_INT64);
    expect_error(s, "step must be nonzero");
    tn_set_requires_grad(none, 1);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_cat(s, TN_TENSORS(none, none), .dim = 1))), TN_OK);
    cr_expect_eq(tn_tensor_numel(tn_grad_of(s, none)), 0);
    EXPECT(s, tn_any_out(s, f, truth), 1);
    EXPECT(s, tn_all_out(s, f, truth), 0);
    cr_expect_eq(tn_contiguous(s, f, .memory_format = TN_PRESERVE_FORMAT), f);
    tn_tensor *out = tn_zeros(s, TN_NO_INTS, .dtype = TN_BOOL);
    EXPECT(s, tn_any_out(s, tn_mul_scalar(s, three(TN_UINT8), 2), out), 1);
    DTYPE(out, TN_BOOL);
    tn_tensor *image = tn_contiguous(s, tn_zeros(s, TN_INTS(2, 4, 3, 3)), .memory_format = TN_CHANNELS_LAST);
    STRIDES(tn_roll(s, image, TN_INTS(1), .dims = TN_INTS(2)), 36, 1, 12, 4);
    STRIDES(tn_fft_fftshift(s, image), 36, 1, 12, 4);
    STRIDES(tn_roll(s, image, TN_INTS(1)), 36, 9, 3, 1);
    end();
}
