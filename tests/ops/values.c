/* SPDX-License-Identifier: Apache-2.0 */
/* Values of operators that programs seldom call by name, and of options that no other test sets; from PyTorch 2.13. */
#include <math.h>
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
