/* SPDX-License-Identifier: Apache-2.0 */
/* Values of operators that programs seldom call by name, and of options that no other test sets; from PyTorch 2.13. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../core/log_lines.h"
#include "suite.h"

static tn_tensor *q, *p;              /* (4) and (2, 2) */
static tn_tensor *two, *two_row, *q2; /* (2), (1, 3), (2) */
static tn_tensor *img, *img3, *ker;   /* (1, 1, 3, 3), (1, 2, 3), (1, 1, 2, 2) */
static tn_tensor *odd, *edges, *at;   /* values that are not finite; edges of bins; int64 0 and 2 */

static tn_tensor *ramp(tn_ints sizes, int64_t count)
{
    return tn_reshape(s, tn_to(s, tn_arange(s, TN_SCALAR(count)), TN_FLOAT64), sizes);
}

static void begin_with_operands(void)
{
    begin();
    q = VECTOR(s, 0, 0.5, -1, 2, 3);
    p = make(s, TN_INTS(2, 2), VALUES(1, 2, 3, 4), 0);
    two = VECTOR(s, 0, 10, 20);
    two_row = make(s, TN_INTS(1, 3), VALUES(1, 2, 4), 0);
    q2 = VECTOR(s, 0, -1, 2);
    img = ramp(TN_INTS(1, 1, 3, 3), 9);
    img3 = ramp(TN_INTS(1, 2, 3), 6);
    ker = tn_reshape(s, p, TN_INTS(1, 1, 2, 2));
    odd = make(s, TN_INTS(2, 2), VALUES(NAN, 1, INFINITY, -INFINITY), 0);
    edges = VECTOR(s, 0, 0, 2, 5);
    at = tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){0, 2}, TN_CPU);
}

TestSuite(values, .init = begin_with_operands);

static void expect(tn_tensor *t, tn_ints sizes, const double *want, int32_t line)
{
    const tn_error *e = tn_scope_error(s);
    int64_t count = 1;
    cr_assert(!e && t, "line %d: %s", (int)line, e ? e->message : "no result");
    cr_assert_eq(tn_tensor_rank(t), sizes.count, "line %d", (int)line);
    for (int64_t d = 0; d < sizes.count; d++) {
        cr_assert_eq(tn_tensor_size(t, d), sizes.data[d], "line %d", (int)line);
        count *= sizes.data[d];
    }
    expect_values(s, t, count, want, 1e-9);
}
#define GIVES(t, sizes, ...) expect(t, sizes, VALUES(__VA_ARGS__), __LINE__)

/* A target of another size is broadcast, and a warning says so: once for each loss and context. */
Test(values, of_losses_with_a_target_of_another_size)
{
    static lines log;
    static const char *const names[] = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"};
    const tn_context_options options = {
        .size = sizeof options, .plugin_path = getenv("TENON_TEST_CPU"), .log = keep_line, .log_user = &log};
    tn_context *own;
    cr_assert_eq(tn_context_create(&options, &own), TN_OK);
    tn_scope *r = tn_scope_open(own);
    tn_tensor *x = make(r, TN_INTS(2, 2), VALUES(1, 2, 3, 4), 0), *y = VECTOR(r, 0, 1, 2);
    for (int i = 0, warned = 0; i < 4; i++) {
        for (int calls = 1; calls <= 2; calls++) {
            tn_tensor *const same[] = {tn_mse_loss(r, x, x), tn_l1_loss(r, x, x), tn_smooth_l1_loss(r, x, x),
                                       tn_huber_loss(r, x, x)};
            cr_expect_eq(log.warnings, warned, "%s", log.warning);
            EXPECT(r, same[i], 0);
            tn_tensor *loss = i == 0   ? tn_mse_loss(r, x, y)
                              : i == 1 ? tn_l1_loss(r, x, y)
                              : i == 2 ? tn_smooth_l1_loss(r, x, y)
                                       : tn_huber_loss(r, x, y);
            EXPECT(r, loss, (const double[]){2, 1, 0.75, 0.75}[i]);
            char expected[160];
            snprintf(expected, sizeof expected,
                     "%s: Using a target size (torch.Size([2])) that is different to the input size "
                     "(torch.Size([2, 2])).",
                     names[i]);
            cr_expect_not_null(strstr(log.warning, expected), "%s", log.warning);
            cr_expect_eq(log.warnings, warned = i + 1);
        }
    }
    tn_mse_loss(r, x, VECTOR(r, 0, 1, 2, 3));
    expect_error(r, "must match the size");
    cr_expect_eq(log.warnings, 4);
    tn_scope_close(r);
    tn_context_destroy(own);
    end();
}

Test(values, of_indexing)
{
    GIVES(tn__unsafe_index(s, q, TN_TENSORS(at)), TN_INTS(2), 0.5, 2);
    GIVES(tn_index_select_backward(s, two, TN_INTS(4), 0, at), TN_INTS(4), 10, 0, 20, 0);
    GIVES(tn_masked_select_backward(s, two, q, tn_gt_scalar(s, q, 1)), TN_INTS(4), 0, 0, 10, 20);
    GIVES(tn_masked_scatter_backward(s, q, tn_gt_scalar(s, q, 0), TN_INTS(5)), TN_INTS(5), 0.5, 2, 3, 0, 0);
    GIVES(tn_trace_backward(s, tn_sum(s, two), TN_INTS(2, 3)), TN_INTS(2, 3), 30, 0, 0, 0, 30, 0);
    GIVES(tn_value_selecting_reduction_backward(
              s, two, 1, tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){1, 0}, TN_CPU), TN_INTS(2, 2), 0),
          TN_INTS(2, 2), 0, 10, 20, 0);
    GIVES(tn_repeat_interleave(s, q, tn_from_data(s, TN_INT64, TN_INTS(1), (int64_t[]){2}, TN_CPU)),
          TN_INTS(8), 0.5, 0.5, -1, -1, 2, 2, 3, 3);
    GIVES(tn_isin(s, q, tn_empty(s, TN_INTS(0), .dtype = TN_FLOAT64), .invert = 1), TN_INTS(4), 1, 1, 1, 1);
    GIVES(tn_where_default(s, tn_gt_scalar(s, q, 0)).data[0], TN_INTS(3), 0, 2, 3);
    GIVES(tn_meshgrid(s, TN_TENSORS(two, q)).data[0], TN_INTS(2, 4), 10, 10, 10, 10, 20, 20, 20, 20);
    GIVES(tn_unsafe_split_with_sizes(s, q, TN_INTS(1, 3)).data[1], TN_INTS(3), -1, 2, 3);
    GIVES(tn_cat(s, tn_unsafe_split(s, q, 2), .dim = 0), TN_INTS(4), 0.5, -1, 2, 3);
    end();
}

Test(values, of_formulas_and_matrices)
{
    GIVES(tn_elu_backward(s, q, 2, 3, 0.5, 1, q), TN_INTS(4), 1.5, -2.5, 6, 9);
    GIVES(tn_elu_backward(s, q, 2, 3, 0.5, 0, q), TN_INTS(4), 1.5, -1.81959197914, 6, 9);
    GIVES(
        tn_view_as_real(s, tn_nan_to_num(s, tn_view_as_complex(s, odd), .nan = 7, .posinf = 8, .neginf = 9)),
        TN_INTS(2, 2), 7, 1, 8, 9);
    GIVES(tn_addcdiv(s, q, q, tn_sub_scalar(s, q, 1)), TN_INTS(4), -0.5, -0.5, 4, 4.5);
    GIVES(tn_cdist(s, p, tn_add_scalar(s, p, 1), .compute_mode = 1), TN_INTS(2, 2), 1.41421356237,
          4.24264068712, 1.41421356237, 1.41421356237);
    GIVES(tn__cdist_forward(s, p, tn_mul_scalar(s, p, 2), 2, 1), TN_INTS(2, 2), 2.2360679775, 7.81024967591,
          1, 5);
    GIVES(tn_cdist(s, p, tn_add_scalar(s, p, 1), .p = 0), TN_INTS(2, 2), 2, 2, 2, 2);
    GIVES(tn_trapezoid(s, img3, two_row), TN_INTS(1, 2), 3.5, 12.5);
    GIVES(tn_trapezoid(s, p, q2), TN_INTS(2), 4.5, 10.5);
    GIVES(tn_trapezoid_dx(s, tn_empty(s, TN_INTS(2, 0), .dtype = TN_FLOAT64)), TN_INTS(2), 0, 0);
    GIVES(tn_cumulative_trapezoid(s, p, q2), TN_INTS(2, 1), 4.5, 10.5);
    GIVES(tn_norm_dim_dtype(s, tn_to(s, p, TN_FLOAT32), 2, TN_INTS(1), 0, TN_FLOAT64), TN_INTS(2),
          2.2360679775, 5);
    GIVES(tn_norm_dtype(s, tn_to(s, p, TN_FLOAT32), 3, TN_FLOAT64), TN_NO_INTS, 4.64158883361);
    GIVES(tn_norm_except_dim(s, p, .dim = -1), TN_NO_INTS, 5.47722557505);
    GIVES(tn_nuclear_norm_dim(s, p, TN_INTS(0, 1)), TN_NO_INTS, 5.83095189485);
    GIVES(tn_linalg_pinv(s, p, 1e-15), TN_INTS(2, 2), -2.0, 1.0, 1.5, -0.5);
    GIVES(tn_linalg_cond_p_str(s, p, "fro"), TN_NO_INTS, 15.0);
    GIVES(tn_linalg_cond(s, tn_empty(s, TN_INTS(2, 0, 0), .dtype = TN_FLOAT64)), TN_INTS(2), 0, 0);
    GIVES(tn_linalg_cond(s, p, .p = TN_SCALAR(1)), TN_NO_INTS, 21.0);
    GIVES(tn_linalg_matrix_exp(s, tn_reshape(s, q2, TN_INTS(2, 1, 1))), TN_INTS(2, 1, 1), 0.367879441171,
          7.38905609893);
    GIVES(tn_linalg_qr(s, p, .mode = "r").R, TN_INTS(2, 2), -3.16227766017, -4.42718872424, 0,
          -0.632455532034);
    GIVES(tn_linalg_tensorinv(s, tn_reshape(s, p, TN_INTS(2, 2, 1)), .ind = 1), TN_INTS(2, 1, 2), -2.0, 1.0,
          1.5, -0.5);
    GIVES(tn__trilinear(s, p, p, p, TN_NO_INTS, TN_NO_INTS, TN_NO_INTS, TN_INTS(1)), TN_INTS(2), 9, 91);
    GIVES(tn__trilinear(s, p, p, p, TN_NO_INTS, TN_NO_INTS, TN_NO_INTS, TN_INTS(-1)), TN_INTS(2), 9, 91);
    /* Dims that are inserted and summed count among all dimensions of the result, from either end, in any order. */
    GIVES(tn__trilinear(s, two, tn_select(s, p, 0, 1), p, TN_INTS(2, 1), TN_INTS(2, 0), TN_INTS(-1),
                        TN_INTS(2)),
          TN_INTS(2, 2), 30, 80, 180, 320);
    GIVES(tn__trilinear(s, two, tn_select(s, p, 0, 1), tn_sum(s, two), TN_INTS(1, -1), TN_INTS(0, 2),
                        TN_INTS(2, 0, 1), TN_INTS(-1, 1)),
          TN_INTS(2), 2100, 4200);
    GIVES(tn_tensordot(s, p, q2, TN_INTS(1), TN_INTS(0)), TN_INTS(2), 3, 5);
    GIVES(tn__histogramdd_from_bin_tensors(s, p, TN_TENSORS(edges, edges)), TN_INTS(2, 2), 0, 1, 0, 1);
    GIVES(tn_linspace_tensor_tensor(s, tn_select(s, q, 0, 0), tn_select(s, q, 0, 3), 3, .dtype = TN_FLOAT64),
          TN_INTS(3), 0.5, 1.75, 3);
    GIVES(tn_resize_as_(s, tn_clone(s, q), p), TN_INTS(2, 2), 0.5, -1, 2, 3);
    GIVES(tn_float_power(s, q, q), TN_INTS(4), 0.707106781187, -1, 4, 27);
    GIVES(tn_float_power_scalar(s, 2, q), TN_INTS(4), 1.41421356237, 0.5, 4, 8);
    GIVES(tn_float_power_tensor_scalar_(s, tn_clone(s, q), 2), TN_INTS(4), 0.25, 1, 4, 9);
    GIVES(tn_cov(s, p, .fweights = at), TN_INTS(2, 2), 0, 0, 0, 0);
    GIVES(tn_cov(s, p, .aweights = tn_abs(s, q2)), TN_INTS(2, 2), 0.5, 0.5, 0.5, 0.5);
    GIVES(tn_cov(s, p, .fweights = tn_add_scalar(s, at, 1), .aweights = tn_abs(s, q2), .correction = 0),
          TN_INTS(2, 2), 0.122448979592, 0.122448979592, 0.122448979592, 0.122448979592);
    end();
}

Test(values, of_layers)
{
    GIVES(tn__convolution(s, img, ker, NULL, TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1), 0, TN_INTS(0, 0), 1,
                          0, 0, 1, 1),
          TN_INTS(1, 1, 2, 2), 27, 37, 57, 67);
    GIVES(tn__convolution_mode(s, img, ker, NULL, TN_INTS(1, 1), "same", TN_INTS(1, 1), 1),
          TN_INTS(1, 1, 3, 3), 27, 37, 17, 57, 67, 29, 20, 23, 8);
    GIVES(tn__pad_enum(s, img3, TN_INTS(1, 0), 1), TN_INTS(1, 2, 4), 0, 0, 1, 2, 3, 3, 4, 5);
    GIVES(tn__pad_enum(s, img3, TN_INTS(1, 0), 0), TN_INTS(1, 2, 4), 1, 0, 1, 2, 4, 3, 4, 5);
    GIVES(tn__upsample_bicubic2d_aa_vec(s, img, TN_INTS(2, 2), 0, (tn_floats){NULL, 0}), TN_INTS(1, 1, 2, 2),
          1.23916532905, 2.61958266453, 5.38041733547, 6.76083467095);
    GIVES(tn_cross_entropy_loss(s, p, tn_softmax(s, p, 1), .label_smoothing = 0.5), TN_NO_INTS,
          0.697732398203);
    GIVES(tn__weight_norm_interface(s, p, tn_reshape(s, q2, TN_INTS(2, 1))).result0, TN_INTS(2, 2),
          -0.4472135955, -0.894427191, 1.2, 1.6);
    GIVES(tn_embedding_backward(s, p, at, 3, -1, 0, 0), TN_INTS(3, 2), 1, 2, 0, 0, 3, 4);
    GIVES(tn__embedding_bag_dense_backward(s, p, at,
                                           tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){0, 1}, TN_CPU),
                                           at, at, 3, 1, 0, NULL),
          TN_INTS(3, 2), 1, 2, 0, 0, 3, 4);
    GIVES(tn__scaled_dot_product_attention_math(s, p, p, p, .dropout_mask = tn_gt_scalar(s, p, 1),
                                                .dropout_p = 0.5)
              .result0,
          TN_INTS(2, 2), 5.91500378474, 7.88667171299, 5.99979920996, 7.99979920996);
    GIVES(
        tn_upsample_bilinear2d(s, tn_reshape(s, p, TN_INTS(1, 1, 2, 2)), TN_INTS(3, 3), 1, .scales_h = 1e-12),
        TN_INTS(1, 1, 3, 3), 1, 1.5, 2, 2, 2.5, 3, 3, 3.5, 4);
    GIVES(tn_upsample_linear1d_backward(s, tn_reshape(s, two_row, TN_INTS(1, 1, 3)), TN_INTS(3),
                                        TN_INTS(1, 1, 2), 1, .scales = 1e-12),
          TN_INTS(1, 1, 2), 2, 5);
    GIVES(tn__reshape_alias(s, q, TN_INTS(2, 2), TN_INTS(2, 1)), TN_INTS(2, 2), 0.5, -1, 2, 3);
    GIVES(tn_max_unpool2d(s, img, tn_reshape(s, tn_arange(s, TN_SCALAR(9)), TN_INTS(1, 1, 3, 3)),
                          TN_INTS(3, 4)),
          TN_INTS(1, 1, 3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0);
    end();
}

Test(values, set_to_a_part_of_a_storage)
{
    tn_tensor *source = tn_arange(s, 12, .dtype = TN_FLOAT64),
              *self = tn_zeros(s, TN_INTS(2), .dtype = TN_FLOAT64);
    cr_expect_eq(tn_set_source_tensor_storage_offset_(s, self, source, 2, TN_INTS(2, 3)), self);
    EXPECT(s, self, 2, 3, 4, 5, 6, 7);
    tn_set_source_tensor_storage_offset_(s, self, source, 1, TN_INTS(2, 2), .stride = TN_INTS(1, 5));
    tn_fill_scalar_(s, tn_select(s, source, 0, 6), 60);
    EXPECT(s, self, 1, 60, 2, 7);
    tn_set_source_tensor_storage_offset_(s, self, tn_slice(s, source, .start = 3), -1, TN_INTS(2));
    EXPECT(s, self, 2, 3);
    tn_set_source_tensor_storage_offset_(s, self, tn_slice(s, source, .start = 1), INT64_MAX, TN_INTS(2));
    expect_error(s, "set_: invalid storage offset 9223372036854775807");
    tn_set_source_tensor_storage_offset_(s, self, source, INT64_MIN, TN_INTS(2));
    expect_error(s, "set_: ");
    EXPECT(s, self, 2, 3);
    end();
}

/* A NaN reaches what is computed from it, and nothing else. */
Test(values, of_what_is_not_finite)
{
    tn_tensor *image = ramp(TN_INTS(1, 1, 5, 5), 25), *small = ramp(TN_INTS(1, 1, 3, 3), 9);
    double *first = tn_tensor_data(image), *middle = (double *)tn_tensor_data(small) + 4;
    *first = *middle = NAN;
    GIVES(tn__upsample_bilinear2d_aa(s, image, TN_INTS(3, 3), 0), TN_INTS(1, 1, 3, 3), NAN, 29. / 7, 40. / 7,
          73. / 7, 12, 95. / 7, 128. / 7, 139. / 7, 150. / 7);
    GIVES(tn_upsample_bilinear2d(s, small, TN_INTS(3, 3), 1), TN_INTS(1, 1, 3, 3), 0, 1, 2, 3, NAN, 5, 6, 7,
          8);
    GIVES(tn_upsample_bilinear2d(s, small, TN_INTS(1, 5), 1), TN_INTS(1, 1, 1, 5), NAN, NAN, NAN, NAN, 2);
    tn_tensor *sums = tn_view_as_real(
        s, tn_scatter_add(s, tn_zeros(s, TN_INTS(3), .dtype = TN_COMPLEX128), 0, at,
                          tn_complex(s, tn_from_data(s, TN_FLOAT64, TN_INTS(2), (double[]){NAN, 1}, TN_CPU),
                                     tn_from_data(s, TN_FLOAT64, TN_INTS(2), (double[]){2, 1}, TN_CPU))));
    GIVES(sums, TN_INTS(3, 2), NAN, 2, 0, 0, 1, 1);
    end();
}

Test(values, of_nothing)
{
    tn_tensor *none = tn_zeros(s, TN_INTS(2, 0), .dtype = TN_INT64);
    cr_expect_eq(tn_tensor_dtype(tn_cumulative_trapezoid(s, none, none)), TN_FLOAT32);
    cr_expect_eq(tn_tensor_dtype(tn_trapezoid(s, none, none)), TN_INT64);
    end();
}

/* Rows of -8 and 8: the variance is 64, and the sum of 4,096 squares more than float16 holds. */
Test(values, of_a_long_batch_of_half_floats)
{
    tn_tensor *x =
        tn_sub_scalar(s, tn_mul_scalar(s, tn_remainder_scalar(s, tn_arange(s, TN_SCALAR(4096)), 2), 16), 8);
    x = tn_reshape(s, tn_to(s, x, TN_FLOAT16), TN_INTS(4096, 1));
    tn_tensor *out = tn_native_batch_norm(s, x, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5).result0;
    GIVES(tn_to(s, tn_slice(s, tn_select(s, out, 1, 0), .end = 3), TN_FLOAT64), TN_INTS(3), -1, 1, -1);
    end();
}

static tn_tensor *bytes(int64_t count, const uint8_t *values)
{
    return tn_from_data(s, TN_UINT8, TN_INTS(count), values, TN_CPU);
}

/* A limit is converted to the dtype, where negative ones wrap around: -1 is 255. */
Test(values, of_bytes_with_negative_limits)
{
    tn_tensor *x = bytes(4, (uint8_t[]){0, 3, 200, 255});
    GIVES(tn_clamp(s, x, .max = TN_SCALAR(-1)), TN_INTS(4), 0, 3, 200, 255);
    GIVES(tn_clamp(s, x, .min = TN_SCALAR(-1)), TN_INTS(4), 255, 255, 255, 255);
    GIVES(tn_clamp(s, x, .min = TN_SCALAR(1), .max = TN_SCALAR(-1)), TN_INTS(4), 1, 3, 200, 255);
    GIVES(tn_clamp(s, tn_expand(s, x, TN_INTS(2, 4)), .min = TN_SCALAR(-3), .max = TN_SCALAR(-2)),
          TN_INTS(2, 4), 253, 253, 253, 254, 253, 253, 253, 254);
    GIVES(tn_clamp_min(s, x, -255), TN_INTS(4), 1, 3, 200, 255);
    GIVES(tn_clamp_max(s, x, -100), TN_INTS(4), 0, 3, 156, 156);
    GIVES(tn_threshold(s, x, -1, 7), TN_INTS(4), 7, 7, 7, 7);
    GIVES(tn_clamp_max(s, tn_from_data(s, TN_INT8, TN_INTS(2), (int8_t[]){-100, 100}, TN_CPU), -50),
          TN_INTS(2), -100, -50);
    end();
}

/* Sums are int64; only the sum of both ends is of the dtype: 100 + 100 is -56 in int8, and half of it -28. */
Test(values, of_trapezoids_of_small_integers)
{
    tn_tensor *x = bytes(4, (uint8_t[]){100, 200, 200, 100});
    GIVES(tn_trapezoid_dx(s, x), TN_NO_INTS, 500);
    GIVES(tn_trapz_dx(s, x, .dx = 2), TN_NO_INTS, 1000);
    GIVES(tn_trapezoid_dx(s, tn_from_data(s, TN_INT8, TN_INTS(3), (int8_t[]){100, 100, 100}, TN_CPU)),
          TN_NO_INTS, 328);
    GIVES(tn_trapezoid_dx(s, tn_full(s, TN_INTS(2, 3), TN_SCALAR(1 << 30), .dtype = TN_INT32),
                          .dx = TN_SCALAR(0.5)),
          TN_INTS(2), 2147483648, 2147483648);
    GIVES(tn_trapezoid_dx(s, p, .dim = 0), TN_INTS(2), 2, 3);
    /* The steps come before the running sum, so that float16 holds it. */
    tn_tensor *half = tn_to(s, VECTOR(s, 0, 100, 120, 120), TN_FLOAT16);
    GIVES(tn_cumulative_trapezoid_dx(s, half, .dx = TN_SCALAR(300)), TN_INTS(2), 32992, INFINITY);
    end();
}

/* Not rounded to the dtype of the elements before it is written to a wider output. */
Test(values, of_means_in_a_wider_output)
{
    tn_tensor *half = tn_to(s, make(s, TN_INTS(1, 3), VALUES(1, 2, 4), 0), TN_FLOAT16), *all, *rows;
    all = tn_mean_out(s, half, tn_zeros(s, TN_NO_INTS, .dtype = TN_FLOAT64));
    GIVES(all, TN_NO_INTS, 7.0 / 3);
    rows = tn_mean_dim_out(s, half, TN_INTS(1), tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT64));
    GIVES(rows, TN_INTS(1), 7.0 / 3);
    rows = tn_mean_dim_out(s, tn_to(s, half, TN_FLOAT64), TN_INTS(1),
                           tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT16));
    GIVES(rows, TN_INTS(1), 0x1.2acp+1);
    half = tn_expand(s, half, TN_INTS(2, 3));
    rows = tn_zeros(s, TN_INTS(2), .dtype = TN_FLOAT64);
    GIVES(tn_var_correction_out(s, half, rows, .dim = TN_INTS(1)), TN_INTS(2), 7.0 / 3, 7.0 / 3);
    GIVES(tn_std_correction_out(s, half, rows, .dim = TN_INTS(1)), TN_INTS(2), sqrt(7.0 / 3), sqrt(7.0 / 3));
    end();
}

/* The result of limits that equal the element is the element, which shows in the sign of zero. */
Test(values, of_limits_that_are_zero)
{
    static const tn_dtype dtypes[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};
    for (int32_t i = 0; i < 4; i++) {
        tn_tensor *x = tn_to(s, VECTOR(s, 0, -0.0, 0, -0.0, 0, -1, NAN), dtypes[i]),
                  *y = tn_to(s, VECTOR(s, 0, 0, -0.0, -0.0, 0, -2, 0), dtypes[i]);
        GIVES(tn_signbit(s, tn_clamp_min(s, x, 0)), TN_INTS(6), 1, 0, 1, 0, 0, 0);
        GIVES(tn_signbit(s, tn_clamp_max(s, x, 0)), TN_INTS(6), 1, 0, 1, 0, 1, 0);
        GIVES(tn_signbit(s, tn_maximum(s, x, y)), TN_INTS(6), 1, 0, 1, 0, 1, 0);
        GIVES(tn_signbit(s, tn_minimum(s, x, y)), TN_INTS(6), 1, 0, 1, 0, 1, 0);
        GIVES(tn_signbit(s, tn_relu(s, x)), TN_INTS(6), 1, 0, 1, 0, 0, 0);
        GIVES(tn_isnan(s, tn_clamp_min(s, x, 0)), TN_INTS(6), 0, 0, 0, 0, 0, 1);
    }
    end();
}

/* info is the order of the first leading minor that is not positive, and NaN is not. */
Test(values, of_cholesky_factors_of_nan)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_COMPLEX64, TN_COMPLEX128};
    for (int32_t i = 0; i < 8; i++) {
        tn_tensor *a =
            tn_to(s,
                  make(s, TN_INTS(5, 2, 2),
                       VALUES(NAN, 0, 0, 1, 1, NAN, NAN, 1, 1, 0, 0, NAN, NAN, 0, 0, -1, 2, 1, 1, 2), 0),
                  dtypes[i / 2]);
        GIVES(tn_linalg_cholesky_ex(s, a, .upper = i % 2).info, TN_INTS(5), 1, 2, 2, 1, 0);
        tn_linalg_cholesky(s, a, .upper = i % 2);
        expect_error(s,
                     "(Batch element 0): The factorization could not be completed because the input is not "
                     "positive-definite (the leading minor of order 1 is not positive-definite).");
    }
    end();
}

/* One step takes the start as it is, more steps an integer, which is that of PyTorch, too. */
Test(values, of_powers_of_one_step)
{
    tn_tensor *out = tn_zeros(s, TN_INTS(1), .dtype = TN_INT64);
    GIVES(tn_logspace(s, 0.5, 1, 1, .base = 0.1, .dtype = TN_INT64), TN_INTS(1), 0);
    GIVES(tn_logspace(s, 0.5, 2.7, 1, .dtype = TN_INT64), TN_INTS(1), 3);
    GIVES(tn_logspace(s, 0.5, 2.7, 2, .dtype = TN_INT64), TN_INTS(2), 1, 100);
    GIVES(tn_logspace_out(s, 0.5, 1, 1, out, .base = 0.1), TN_INTS(1), 0);
    end();
}

/* From self if |weight| < 0.5, else from end: the end that is infinite decides whether there is a number. */
Test(values, of_interpolations_with_infinite_ends)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16};
    tn_tensor *self = VECTOR(s, 0, -0.09, INFINITY, 1, 3), *end_of = VECTOR(s, 0, INFINITY, 1, -INFINITY, 5);
    for (int32_t i = 0; i < 4; i++) {
        tn_tensor *a = tn_to(s, self, dtypes[i]), *b = tn_to(s, end_of, dtypes[i]);
        const struct {
            double weight, want[4];
        } rows[] = {{-3, {NAN, INFINITY, NAN, -3}},
                    {-0.5, {NAN, INFINITY, NAN, 2}},
                    {-0.25, {-INFINITY, INFINITY, INFINITY, 2.5}},
                    {0.25, {INFINITY, NAN, -INFINITY, 3.5}},
                    {0.5, {NAN, INFINITY, NAN, 4}},
                    {2.5, {INFINITY, -INFINITY, -INFINITY, 8}}};
        for (uint32_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            tn_tensor *weight = tn_full(s, TN_INTS(4), rows[k].weight, .dtype = dtypes[i]);
            expect(tn_lerp(s, a, b, weight), TN_INTS(4), rows[k].want, __LINE__);
            expect(tn_lerp_scalar(s, a, b, rows[k].weight), TN_INTS(4), rows[k].want, __LINE__);
        }
    }
    end();
}

/* NaN that is a pivot, or in a column, reaches all that elimination and reflectors compute from it, in each dtype. */
Test(values, of_factors_and_solutions_with_nan)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_COMPLEX64, TN_COMPLEX128};
    for (int32_t i = 0; i < 4; i++) {
        tn_tensor *a = tn_to(s, make(s, TN_INTS(2, 2), VALUES(NAN, 1, 2, 3), 0), dtypes[i]);
        tn_tensor *b = tn_to(s, make(s, TN_INTS(2, 1), VALUES(1, 1), 0), dtypes[i]);
        tn_linalg_lu_factor_ex_result lu = tn_linalg_lu_factor_ex(s, a);
        GIVES(tn_isnan(s, lu.LU), TN_INTS(2, 2), 1, 0, 1, 1);
        GIVES(lu.info, TN_NO_INTS, 0);
        GIVES(tn_isnan(s, tn_linalg_solve(s, a, b)), TN_INTS(2, 1), 1, 1);
        GIVES(tn_isnan(s, tn_linalg_inv(s, a)), TN_INTS(2, 2), 1, 1, 1, 1);
        GIVES(tn_isnan(s, tn_linalg_det(s, a)), TN_NO_INTS, 1);
        GIVES(tn_isnan(s, tn_linalg_slogdet(s, a).logabsdet), TN_NO_INTS, 1);
        tn_linalg_qr_result qr = tn_linalg_qr(s, a);
        GIVES(tn_isnan(s, qr.Q), TN_INTS(2, 2), 1, 1, 1, 1);
        GIVES(tn_isnan(s, qr.R), TN_INTS(2, 2), 1, 1, 0, 1);
        tn_tensor *tau = tn_full(s, TN_INTS(2), NAN, .dtype = dtypes[i]);
        GIVES(tn_isnan(s, tn_linalg_householder_product(s, tn_ones_like(s, a), tau)), TN_INTS(2, 2), 1, 1, 1,
              1);
        tn_tensor *x = tn_linalg_lstsq(s, a, b, .driver = "gels").solution;
        GIVES(tn_isnan(s, x), TN_INTS(2, 1), 1, 1);
    }
    tn_tensor *three = make(s, TN_INTS(3, 3), VALUES(4, 1, 1, 2, NAN, 1, 8, 1, 3), 0);
    tn_linalg_lu_factor_ex_result lu = tn_linalg_lu_factor_ex(s, tn_to(s, three, TN_FLOAT32));
    GIVES(tn_isnan(s, lu.LU), TN_INTS(3, 3), 0, 0, 0, 0, 1, 0, 0, 1, 1);
    tn_linalg_qr_result qr = tn_linalg_qr(s, tn_to(s, three, TN_FLOAT32));
    GIVES(tn_isnan(s, qr.Q), TN_INTS(3, 3), 0, 1, 1, 0, 1, 1, 0, 1, 1);
    GIVES(tn_isnan(s, qr.R), TN_INTS(3, 3), 0, 1, 0, 0, 1, 1, 0, 0, 1);
    end();
}

/* A vector has no dimension but one: each element is its own norm, and dim -1 stands for none. */
Test(values, of_norms_of_vectors_except_one_dimension)
{
    tn_tensor *v = VECTOR(s, 1, 3, -4), *g = VECTOR(s, 1, 1, 2), *slope = VECTOR(s, 0, 1, 3), *grads[2];
    GIVES(tn_norm_except_dim(s, v), TN_INTS(2), 3, 4);
    GIVES(tn_norm_except_dim(s, v, .pow = 0), TN_INTS(2), 1, 1);
    GIVES(tn_norm_except_dim(s, v, .dim = -1), TN_NO_INTS, 5);
    tn_tensor *w = tn__weight_norm(s, v, g);
    GIVES(w, TN_INTS(2), 1, -2);
    tn_backward(s, tn_sum(s, tn_mul(s, w, slope)));
    GIVES(tn_grad_of(s, v), TN_INTS(2), 0, 0);
    GIVES(tn_grad_of(s, g), TN_INTS(2), 1, -3);
    GIVES(tn__weight_norm(s, v, VECTOR(s, 0, 10), .dim = -1), TN_INTS(2), 6, -8);
    for (int32_t i = 0; i < 2; i++) { /* the second time by the rule that can be differentiated again */
        w = tn__weight_norm_interface(s, v, g, .dim = -1).result0;
        GIVES(w, TN_INTS(2), 1, -2);
        tn_grad(s, TN_TENSORS(tn_sum(s, tn_mul(s, w, slope))), TN_TENSORS(v, g),
                &(tn_backward_options){.size = sizeof(tn_backward_options), .create_graph = i}, grads);
        GIVES(grads[0], TN_INTS(2), 0, 0);
        GIVES(grads[1], TN_INTS(2), 1, -3);
    }
    tn_norm_except_dim(s, v, .dim = 1);
    expect_error(s,
                 "norm_except_dim: Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    tn_norm_except_dim(s, tn_sum(s, v));
    expect_error(s, "norm_except_dim: Dimension specified as 0 but tensor has no dimensions");
    tn__weight_norm(s, tn_sum(s, v), tn_sum(s, g), .dim = -1);
    expect_error(s, "_weight_norm: Dimension specified as -1 but tensor has no dimensions");
    end();
}

/* alpha times an empty sum is 0 also if alpha is not finite; NaN differs from each number. */
Test(values, of_empty_products_and_distances_of_nan)
{
    tn_tensor *wide = tn_zeros(s, TN_INTS(2, 0), .dtype = TN_FLOAT64), *tall = tn_transpose(s, wide, 0, 1);
    tn_tensor *none = tn_zeros(s, TN_INTS(0), .dtype = TN_FLOAT64);
    GIVES(tn_addmm(s, p, wide, tall, .beta = TN_SCALAR(2), .alpha = TN_SCALAR(INFINITY)), TN_INTS(2, 2), 2, 4,
          6, 8);
    GIVES(tn_addmm(s, p, wide, tall, .beta = TN_SCALAR(0), .alpha = TN_SCALAR(NAN)), TN_INTS(2, 2), 0, 0, 0,
          0);
    GIVES(tn_addmv(s, two, wide, none, .alpha = TN_SCALAR(INFINITY)), TN_INTS(2), 10, 20);
    GIVES(tn_baddbmm(s, tn_unsqueeze(s, p, 0), tn_unsqueeze(s, wide, 0), tn_unsqueeze(s, tall, 0),
                     .alpha = TN_SCALAR(INFINITY)),
          TN_INTS(1, 2, 2), 1, 2, 3, 4);
    tn_tensor *rows = make(s, TN_INTS(2, 2), VALUES(NAN, 1, 1, 1), 0);
    GIVES(tn_cdist(s, rows, rows, .p = 0), TN_INTS(2, 2), NAN, NAN, NAN, 0);
    end();
}

/* self in channels-last order; the result is row-major. From the row-major clone, and one slice by hand. */
Test(values, of_a_gated_unit_in_channels_last_order)
{
    for (int64_t rank = 4; rank <= 5; rank++) {
        tn_tensor *x = tn_arange(s, TN_SCALAR(rank == 4 ? 64 : 128), .dtype = TN_FLOAT64);
        x = tn_sin(s, tn_reshape(s, x, rank == 4 ? TN_INTS(2, 4, 4, 2) : TN_INTS(2, 4, 4, 2, 2)));
        int64_t last = rank == 4 ? TN_CHANNELS_LAST : TN_CHANNELS_LAST_3D;
        for (int64_t dim = 0; dim < rank; dim++) {
            tn_tensor *grad = tn_cos(s, tn_glu(s, x, dim));
            tn_tensor *want = tn_glu_backward(s, grad, x, dim),
                      *got = tn_glu_backward(s, grad, tn_contiguous(s, x, .memory_format = last), dim);
            cr_expect(tn_tensor_is_contiguous(got, TN_CONTIGUOUS_FORMAT));
            GIVES(tn_amax(s, tn_abs(s, tn_sub(s, got, want))), TN_NO_INTS, 0);
        }
    }
    tn_tensor *x = tn_contiguous(s, ramp(TN_INTS(1, 2, 2, 2), 8), .memory_format = TN_CHANNELS_LAST);
    tn_tensor *out = tn_glu_backward(s, tn_ones(s, TN_INTS(1, 1, 2, 2), .dtype = TN_FLOAT64), x, 1);
    double want[8];
    for (int i = 0; i < 4; i++) {
        double gate = 1 / (1 + exp(-(i + 4.0)));
        want[i] = gate;
        want[i + 4] = i * gate * (1 - gate);
    }
    expect(out, TN_INTS(1, 2, 2, 2), want, __LINE__);
    end();
}

Test(values, of_pads_that_crop_too_much)
{
    tn_tensor *row = tn_reshape(s, q, TN_INTS(1, 1, 4));
    GIVES(tn_pad(s, row, TN_INTS(-2, 2), .mode = "circular"), TN_INTS(1, 1, 4), 2, 3, 2, 3);
    GIVES(tn_pad(s, row, TN_INTS(1, -2), .mode = "circular"), TN_INTS(1, 1, 3), -1, 0.5, -1);
    tn_pad(s, row, TN_INTS(-3, 3), .mode = "circular");
    expect_error(s, "pad: argument 'pad': one side repeats more of dimension 2 than the other side "
                    "leaves (got -3 and 3, expected at most 1)");
    tn_pad(s, row, TN_INTS(2, -4), .mode = "circular");
    expect_error(s, "leaves (got 2 and -4, expected at most 0)");
    GIVES(tn_constant_pad_nd(s, q, TN_INTS(-4, 2), .value = TN_SCALAR(7)), TN_INTS(2), 7, 7);
    tn_constant_pad_nd(s, q, TN_INTS(-5, 3));
    expect_error(s, "narrow(): length must be non-negative.");
    tn_pad(s, row, TN_INTS(0, 0, 2, -2));
    expect_error(s, "narrow(): length must be non-negative.");
    end();
}

/* The imaginary parts go before the sum, not after it. */
Test(values, of_reductions_of_complex_numbers_to_real_ones)
{
    const double pairs[] = {1, 2, 3, -1};
    tn_tensor *z = tn_from_data(s, TN_COMPLEX128, TN_INTS(2), pairs, TN_CPU);
    EXPECT(s, tn_sum(s, z, .dtype = TN_FLOAT64), 4);
    EXPECT(s, tn_mean_dim(s, z, TN_INTS(0), .dtype = TN_FLOAT64), 2);
    EXPECT(s, tn_prod(s, z, .dtype = TN_FLOAT64), 3);
    EXPECT(s, tn_cumsum(s, z, 0, .dtype = TN_FLOAT64), 1, 4);
    end();
}

/* What has few elements is quick, however large the matrix is; what has too many is refused. */
Test(values, of_triangles_of_huge_matrices)
{
    const int64_t huge = INT64_MAX, large = (int64_t)1 << 40;
    EXPECT(s, tn_tril_indices(s, 3, 2, .offset = -1), 1, 2, 2, 0, 0, 1);
    EXPECT(s, tn_triu_indices(s, 2, 3, .offset = 1), 0, 0, 1, 1, 2, 2);
    EXPECT(s, tn_tril_indices(s, 2, 1, .offset = huge), 0, 1, 0, 0);
    EXPECT(s, tn_triu_indices(s, 2, 1, .offset = INT64_MIN), 0, 1, 0, 0);
    cr_expect_eq(tn_tensor_size(tn_tril_indices(s, huge, huge, .offset = INT64_MIN), 1), 0);
    cr_expect_eq(tn_tensor_size(tn_triu_indices(s, large, 0), 1), 0);
    EXPECT(s, tn_sub_scalar(s, tn_tril_indices(s, huge, huge, .offset = -huge + 2), tn_value_int(huge - 2)),
           0, 1, 1, 2 - huge, 2 - huge, 3 - huge);
    EXPECT(s, tn_triu_indices(s, huge, 1), 0, 0);
    tn_tril_indices(s, huge, huge);
    expect_error(
        s, "tril_indices: a triangle of 9223372036854775807 x 9223372036854775807 has too many elements");
    tn_triu_indices(s, huge, 1, .offset = INT64_MIN);
    expect_error(s, "triu_indices: a triangle of 9223372036854775807 x 1 has too many elements");
    tn_tril_indices(s, (int64_t)1 << 58, 1);
    expect_error(s, "tril_indices: out of memory");
    end();
}
