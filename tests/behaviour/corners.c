/* SPDX-License-Identifier: Apache-2.0 */
/* Corner cases of operators, with the values of PyTorch 2.13: layouts, mixed dtypes, empty tensors. */
#include <math.h>
#include <stdio.h>
#include "fixture.h"

static tn_tensor *gradient(place *p, tn_tensor *of, tn_tensor *with_respect_to, tn_tensor *weight)
{
    tn_tensor *out = NULL;
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(weight)};
    tn_grad(p->s, TN_TENSORS(of), TN_TENSORS(with_respect_to), &options, &out);
    return out;
}

static tn_tensor *leaf(tn_tensor *t)
{
    cr_assert_eq(tn_set_requires_grad(t, 1), TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "");
    return t;
}

static tn_tensor *steps(place *p, tn_ints sizes, int32_t squared)
{
    tn_tensor *t = tn_arange(p->s, 16, .dtype = TN_FLOAT32);
    t = tn_reshape(p->s, squared ? tn_mul(p->s, t, t) : t, sizes);
    cr_assert_not_null(t, "%s", tn_scope_error(p->s) ? tn_scope_error(p->s)->message : "");
    return t;
}

ON_EACH_DEVICE(corners, group_norm_of_channels_last)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_contiguous(s, steps(p, TN_INTS(1, 4, 2, 2), 1), .memory_format = TN_CHANNELS_LAST);
    tn_tensor *y = tn_group_norm(s, leaf(tn_detach(s, x)), 2);
    EXPECT_NEAR(p, y, 1e-5, -1.04910862, -0.98915958, -0.80931234, -0.50956708, -0.08992362, 0.44961795,
                1.10905766, 1.88839543, -1.38945377, -1.06808352, -0.70890498, -0.31191820, 0.12287685,
                0.59548014, 1.10589170, 1.65411162);
    x = leaf(tn_detach(s, x));
    EXPECT_NEAR(p, gradient(p, tn_group_norm(s, x, 2), x, steps(p, TN_INTS(1, 4, 2, 2), 0)), 1e-5,
                -0.07126021, -0.01922895, 0.01696672, 0.03732677, 0.04185124, 0.03054011, 0.00339335,
                -0.03958898, -0.00620679, -0.00117041, 0.00223446, 0.00400782, 0.00414968, 0.00266005,
                -0.00046109, -0.00521371);
}

ON_EACH_DEVICE(corners, nll_loss_of_channels_last)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_transpose(s, tn_zeros(s, TN_INTS(1, 4, 3)), 1, 2);
    tn_tensor *target = MAKE(p, TN_INT64, TN_INTS(1, 4), 0, 2, 1, 0);
    x = leaf(tn_detach(s, x));
    tn_tensor *loss = tn_nll_loss_nd(s, x, target, .reduction = 0);
    EXPECT(p, gradient(p, loss, x, MAKE(p, TN_FLOAT32, TN_INTS(1, 4), 1, 2, 3, 4)), -1, 0, 0, -4, 0, 0, -3, 0,
           0, -2, 0, 0);
}

/* A given scale decides, whatever the sizes are, except for 2-D. */
ON_EACH_DEVICE(corners, scales_of_nearest)
{
    tn_scope *s = p->s;
    tn_tensor *line = MAKE(p, TN_FLOAT32, TN_INTS(1, 1, 6), 0, 1, 2, 3, 4, 5);
    tn_tensor *image = tn_unsqueeze(s, line, 0);
    EXPECT(p, tn_upsample_nearest1d(s, line, TN_INTS(6), .scales = 0.5), 0, 2, 4, 5, 5, 5);
    EXPECT(p, tn_upsample_nearest1d(s, line, TN_INTS(6), .scales = 2), 0, 0, 1, 1, 2, 2);
    EXPECT(p, tn_upsample_nearest2d(s, image, TN_INTS(1, 6), .scales_w = 0.5), 0, 1, 2, 3, 4, 5);
    EXPECT(p, tn_upsample_nearest2d(s, image, TN_INTS(1, 5), .scales_w = 0.5), 0, 2, 4, 5, 5);
}

ON_EACH_DEVICE(corners, linear_of_nothing)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(tn_zeros(s, TN_INTS(2, 3, 0))), *w = leaf(tn_zeros(s, TN_INTS(2, 0)));
    expect_sizes(p, gradient(p, tn_linear(s, x, w), x, tn_ones(s, TN_INTS(2, 3, 2))), TN_INTS(2, 3, 0));
    expect_sizes(p, gradient(p, tn_linear(s, x, w), w, tn_ones(s, TN_INTS(2, 3, 2))), TN_INTS(2, 0));
    x = leaf(tn_ones(s, TN_INTS(1, 2, 3)));
    w = tn_zeros(s, TN_INTS(0, 3));
    EXPECT(p, gradient(p, tn_linear(s, x, w), x, tn_zeros(s, TN_INTS(1, 2, 0))), 0, 0, 0, 0, 0, 0);
}

ON_EACH_DEVICE(corners, linear_with_one_row)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(tn_ones(s, TN_INTS(2, 3, 4))), *w = leaf(VECTOR(p, TN_FLOAT32, 1, 2, 3, 4));
    EXPECT(p, gradient(p, tn_linear(s, x, w), w, tn_ones(s, TN_INTS(2, 3))), 6, 6, 6, 6);
    EXPECT(p, tn_sum_dim(s, gradient(p, tn_linear(s, x, w), x, tn_ones(s, TN_INTS(2, 3))), TN_INTS(0, 1)), 6,
           12, 18, 24);
}

ON_EACH_DEVICE(corners, gradients_in_two_dtypes)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT32, 1.5)), *other = VECTOR(p, TN_BFLOAT16, 3.265625);
    EXPECT(p, gradient(p, tn_xlogy(s, x, tn_squeeze(s, other)), x, tn_ones(s, TN_INTS(1))), 1.18345118);
    x = leaf(VECTOR(p, TN_FLOAT32, 1, 2, 3));
    tn_tensor *sums = tn_cumsum(s, x, 0, .dtype = TN_BFLOAT16);
    EXPECT(p, gradient(p, sums, x, VECTOR(p, TN_BFLOAT16, 1, 2, 0.0078125)), 3.0078125, 2.0078125, 0.0078125);
}

/* With more correction than elements the slope along named dimensions stays what the formula says. */
ON_EACH_DEVICE(corners, variance_without_freedom)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(MAKE(p, TN_FLOAT32, TN_INTS(2, 1), 1, 2)), *one = tn_ones(s, TN_INTS(1));
    tn_ints first = TN_INTS(0);
    EXPECT(p, gradient(p, tn_var_correction(s, x, .dim = first, .correction = TN_SCALAR(2)), x, one),
           -INFINITY, INFINITY);
    EXPECT(p, gradient(p, tn_var_correction(s, x, .dim = first, .correction = TN_SCALAR(3)), x, one), 1, -1);
}

ON_EACH_DEVICE(corners, fills)
{
    tn_scope *s = p->s;
    tn_tensor *z = tn_complex(s, VECTOR(p, TN_FLOAT32, 1, 2), VECTOR(p, TN_FLOAT32, 3, 4));
    tn_zero_(s, tn_imag(s, tn__conj(s, z)));
    EXPECT(p, tn_contiguous(s, tn_view_as_real(s, z)), 1, 0, 2, 0);
    tn_fill_scalar_(s, tn_imag(s, tn__conj(s, z)), 5);
    EXPECT(p, tn_contiguous(s, tn_view_as_real(s, z)), 1, -5, 2, -5);
    tn_fill_scalar_(s, tn__conj(s, z), tn_value_complex((const double[]){6, 7}));
    EXPECT(p, tn_contiguous(s, tn_view_as_real(s, z)), 6, -7, 6, -7);
    tn_tensor *one = tn_zeros(s, TN_INTS(1));
    tn_fill_scalar_(s, tn_expand(s, one, TN_INTS(4)), 3);
    EXPECT(p, one, 3);
    tn_zero_(s, tn_expand(s, one, TN_INTS(4)));
    EXPECT(p, one, 0);
}

ON_EACH_DEVICE(corners, complex_nan_and_powers)
{
    tn_scope *s = p->s;
    tn_tensor *z = tn_complex(s, VECTOR(p, TN_FLOAT32, INFINITY, NAN), VECTOR(p, TN_FLOAT32, NAN, INFINITY));
    EXPECT(p, tn_isnan(s, tn_real(s, tn_log1p(s, z))), 1, 1);
    EXPECT(p, tn_isnan(s, tn_real(s, tn_logaddexp(s, tn_ones_like(s, z), z))), 1, 1);
    EXPECT(p, tn_contiguous(s, tn_view_as_real(s, tn_pow_tensor_scalar(s, z, 0))), 1, 0, 1, 0);
}

ON_EACH_DEVICE(corners, dtypes)
{
    tn_scope *s = p->s;
    tn_tensor *two = VECTOR(p, TN_INT64, 2, -2);
    tn_tensor *y = tn_ldexp(s, tn_squeeze(s, VECTOR(p, TN_BFLOAT16, 1.5)), two);
    cr_expect_eq(tn_tensor_dtype(y), TN_BFLOAT16);
    EXPECT(p, y, 6, 0.375);
    EXPECT(p, tn_ldexp(s, VECTOR(p, TN_FLOAT16, 0.5), VECTOR(p, TN_INT64, 16)), 32768);
    cr_expect_eq(tn_equal(s, VECTOR(p, TN_FLOAT32, 2, -2), two), 1);
    cr_expect_eq(tn_equal(s, VECTOR(p, TN_BFLOAT16, 2, 2), two), 0);
    EXPECT(p, tn_median(s, tn_zeros(s, TN_INTS(0), .dtype = TN_INT32)), -2147483648.0);
    EXPECT(p, tn_median(s, tn_zeros(s, TN_INTS(0), .dtype = TN_UINT8)), 0);
}

ON_EACH_DEVICE(corners, transposes_of_a_number)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_squeeze(s, VECTOR(p, TN_FLOAT32, 3));
    EXPECT(p, tn_mt(s, x), 3);
    EXPECT(p, tn_adjoint(s, x), 3);
}

ON_EACH_DEVICE(corners, refusals)
{
    tn_scope *s = p->s;
    tn_tensor *x = VECTOR(p, TN_FLOAT64, 0.5, 2), *yes = VECTOR(p, TN_BOOL, 1, 0);
    tn_argmax(s, yes);
    expect_error(p, "argmax(): does not support bool input");
    tn_linalg_vector_norm(s, x, .dtype = TN_FLOAT32);
    expect_error(p, "the dtype of the input (Double) should be convertible without narrowing");
    tn_linalg_vector_norm(s, x, .dtype = TN_COMPLEX128);
    expect_error(p, "dtype should be real for real inputs, but got ComplexDouble");
    tn_nanmean(s, x, .dtype = TN_INT64);
    expect_error(p, "Optional dtype must be either a floating point or complex dtype. Got: Long");
    if (p->device != TN_CPU) return; /* elements are checked on synchronous devices only */
    tn_binary_cross_entropy(s, x, x);
    expect_error(p, "all elements of input should be between 0 and 1");
    tn_tensor *unknown = VECTOR(p, TN_FLOAT64, NAN, 0.5);
    tn_binary_cross_entropy(s, unknown, tn_zeros_like(s, unknown));
    expect_error(p, "all elements of input should be between 0 and 1");
}

ON_EACH_DEVICE(corners, norms_of_nothing)
{
    tn_scope *s = p->s;
    EXPECT(p, tn_linalg_matrix_norm(s, tn_zeros(s, TN_INTS(0, 3)), TN_SCALAR(2)), 0);
    EXPECT(p, tn_linalg_matrix_norm(s, tn_zeros(s, TN_INTS(2, 0, 3)), TN_SCALAR(2)), 0, 0);
}

/* A scalar that scales a half tensor is not rounded to its dtype: 65536 and 1e10 are infinite in float16. */
ON_EACH_DEVICE(corners, numbers_beside_half_types)
{
    tn_scope *s = p->s;
    tn_tensor *x = MAKE(p, TN_FLOAT16, TN_INTS(3), 0, 0.5, -0.25);
    tn_tensor *wide = tn_scalar_tensor_of(s, TN_SCALAR(65536.0), TN_FLOAT32, TN_CPU);
    EXPECT(p, tn_mul_scalar(s, x, 65536), 0, 32768, -16384);
    EXPECT(p, tn_mul(s, x, wide), 0, 32768, -16384);
    EXPECT(p, tn_mul_(s, tn_clone(s, x), wide), 0, 32768, -16384);
    EXPECT(p, tn_mul_scalar(s, x, 1e10), 0, INFINITY, -INFINITY);
    EXPECT(p, tn_div_scalar(s, MAKE(p, TN_FLOAT16, TN_INTS(2), 60000, 2), 120000), 0.5,
           1.6689300537109375e-05);
    EXPECT(p, tn_mul_scalar(s, MAKE(p, TN_BFLOAT16, TN_INTS(1), 3), 0.0005627462014631402),
           0.00168609619140625);
    tn_tensor *rows = MAKE(p, TN_FLOAT16, TN_INTS(2, 2), 0.5, 0.25, 1, 2);
    EXPECT(p, tn_mul_scalar(s, tn_transpose(s, rows, 0, 1), 32768), 16384, 32768, 8192, INFINITY);
    /* 1.265625 / 0.0362 is 34.96, but 35.03 by the number that bfloat16 has for 0.0362. */
    tn_tensor *a = MAKE(p, TN_BFLOAT16, TN_INTS(1), 1.265625);
    tn_tensor *b = tn_scalar_tensor_of(s, TN_SCALAR(0.0362), TN_FLOAT32, TN_CPU);
    EXPECT(p, tn_floor_divide(s, a, b), 34);
    EXPECT(p, tn_div_tensor_mode(s, a, b, "floor"), 34);
    EXPECT(p, tn_remainder(s, a, b), 0.0009765625);
    /* In sums the scalar is rounded. */
    EXPECT(p, tn_sub_scalar(s, MAKE(p, TN_FLOAT16, TN_INTS(1), 60000), 66000), -INFINITY);
}

/* A vector with dim 0 is treated as one without dim: no inverse and no counts unless asked. With dim -1 there are both. */
ON_EACH_DEVICE(corners, runs_of_a_vector)
{
    tn_scope *s = p->s;
    tn_tensor *x = MAKE(p, TN_INT64, TN_INTS(4), 5, 5, 7, 5);
    tn_unique_consecutive_result flat = tn_unique_consecutive(s, x, .dim = 0),
                                 counted = tn_unique_consecutive(s, x, .return_counts = 1, .dim = 0),
                                 along = tn_unique_consecutive(s, x, .dim = -1);
    EXPECT(p, flat.result0, 5, 7, 5);
    cr_assert_eq(tn_tensor_numel(flat.result1) + tn_tensor_numel(flat.result2), 0);
    EXPECT(p, counted.result2, 2, 1, 1);
    cr_assert_eq(tn_tensor_numel(counted.result1), 0);
    EXPECT(p, along.result1, 0, 0, 1, 2);
    EXPECT(p, along.result2, 2, 1, 1);
}

/* Without elements there are int64 zeros, whatever the weights are. */
ON_EACH_DEVICE(corners, counts_of_nothing)
{
    tn_scope *s = p->s;
    tn_tensor *none = tn_zeros(s, TN_INTS(0), .dtype = TN_INT64);
    tn_tensor *counts = tn_bincount(s, none, .weights = MAKE(p, TN_FLOAT32, TN_INTS(1), 1), .minlength = 2);
    EXPECT(p, counts, 0, 0);
    cr_assert_eq(tn_tensor_dtype(counts), TN_INT64);
    counts =
        tn_bincount(s, MAKE(p, TN_INT64, TN_INTS(1), 1), .weights = MAKE(p, TN_FLOAT32, TN_INTS(1), 0.5));
    EXPECT(p, counts, 0, 0.5);
    cr_assert_eq(tn_tensor_dtype(counts), TN_FLOAT32);
}

/* The largest difference passes over NaN in cdist, not in pdist. */
ON_EACH_DEVICE(corners, largest_differences_with_nan)
{
    tn_scope *s = p->s;
    tn_tensor *a = MAKE(p, TN_FLOAT32, TN_INTS(2, 2), 1, NAN, INFINITY, 1),
              *b = MAKE(p, TN_FLOAT32, TN_INTS(2, 2), 1, 2, 5, NAN);
    EXPECT(p, tn_cdist(s, a, b, .p = INFINITY), 0, 4, INFINITY, INFINITY);
    cr_assert(isnan(tn_item_double(s, tn_pdist(s, a, .p = INFINITY))));
}

/* Sums of half types are rounded once: in bfloat16 256 + 1 is 256, in float16 2048 + 1 is 2048. */
ON_EACH_DEVICE(corners, long_sums_of_half_types)
{
    tn_scope *s = p->s;
    const tn_dtype dtypes[] = {TN_BFLOAT16, TN_FLOAT16};
    for (int i = 0; i < 2; i++) {
        int64_t n = i ? 4096 : 512;
        tn_tensor *at = tn_zeros(s, TN_INTS(n), .dtype = TN_INT64, .device = p->device);
        tn_tensor *ones = tn_ones(s, TN_INTS(n), .dtype = dtypes[i], .device = p->device);
        tn_tensor *self = MAKE(p, dtypes[i], TN_INTS(2), 0, 3);
        EXPECT(p, tn_scatter_add(s, self, 0, at, ones), (double)n, 3);
        EXPECT(p, tn_scatter_src_reduce(s, self, 0, at, ones, "add"), (double)n, 3);
        EXPECT(p, tn_scatter_value_reduce(s, self, 0, at, TN_SCALAR(1), "add"), (double)n, 3);
        EXPECT(p, tn_scatter_reduce(s, self, 0, at, ones, "sum", .include_self = 0), (double)n, 3);
        EXPECT(p, tn_scatter_reduce(s, self, 0, at, ones, "mean", .include_self = 0), 1, 3);
    }
}

/* Errors name the index that the program gave, also where rows are scattered; the device may be late. */
ON_EACH_DEVICE(corners, indices_out_of_range)
{
    tn_scope *s = p->s;
    const double wrong[] = {9, -5};
    for (int i = 0; i < 2; i++) {
        char part[80];
        snprintf(part, sizeof part, "index %d is out of bounds for dimension 0 with size 4", (int)wrong[i]);
        tn_tensor *rows = MAKE(p, TN_FLOAT32, TN_INTS(4, 2), 1, 2, 3, 4, 5, 6, 7, 8);
        tn_tensor *put = tn_index_put_default(s, rows, TN_TENSORS(make(p, TN_INT64, TN_INTS(1), wrong + i)),
                                              MAKE(p, TN_FLOAT32, TN_INTS(1, 2), 1, 1), .accumulate = 1);
        if (put) (void)tn_item_double(s, tn_sum(s, put));
        expect_error(p, part);
    }
}

/* New dimensions of one element have the stride of a contiguous tensor, not 0: so what is dense stays dense. Those of a
 * tensor without dimensions have 0, as in ATen. */
ON_EACH_DEVICE(corners, strides_of_expanded_tensors)
{
    static const struct {
        int64_t sizes[4], strides[4];
        int32_t rank, is_of_scalar;
    } cases[] = {
        {{1, 2, 3}, {6, 3, 1}, 3, 0},       {{4, 2, 3}, {0, 3, 1}, 3, 0}, {{1, 1, 2, 3}, {6, 6, 3, 1}, 4, 0},
        {{5, 1, 2, 3}, {0, 6, 3, 1}, 4, 0}, {{3, 1}, {0, 0}, 2, 1},       {{1, 1}, {0, 0}, 2, 1}};
    tn_tensor *x = MAKE(p, TN_FLOAT32, TN_INTS(2, 3), 1, 2, 3, 4, 5, 6),
              *one = MAKE(p, TN_FLOAT32, TN_NO_INTS, 7);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn_tensor *y =
            tn_expand(p->s, cases[i].is_of_scalar ? one : x, ((tn_ints){cases[i].sizes, cases[i].rank}));
        cr_assert_not_null(y);
        for (int32_t d = 0; d < cases[i].rank; d++)
            cr_expect_eq(tn_tensor_strides(y)[d], cases[i].strides[d], "case %u, dimension %d: %lld", i, d,
                         (long long)tn_tensor_strides(y)[d]);
    }
}

/* Padding may take all of one dimension away, if something is left of another. */
ON_EACH_DEVICE(corners, padding_to_nothing)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(tn_ones(s, TN_INTS(1, 5, 5)));
    tn_tensor *y = tn_replication_pad2d(s, x, TN_INTS(-2, -1, -2, -3));
    expect_sizes(p, y, TN_INTS(1, 0, 2));
    expect_sizes(p, tn_reflection_pad2d(s, x, TN_INTS(-2, -3, -2, -1)), TN_INTS(1, 2, 0));
    EXPECT(p, tn_sum(s, gradient(p, y, x, tn_ones_like(s, y))), 0);
    cr_expect_null(tn_replication_pad2d(s, x, TN_INTS(-2, -3, -2, -3)));
    expect_error(p, "input [1, 5, 5] is too small: all of its padded sizes would be 0");
}

ON_EACH_DEVICE(corners, integers_stay_exact)
{
    tn_scope *s = p->s;
    int64_t large = (INT64_C(1) << 53) + 1;
    tn_tensor *padded = tn_constant_pad_nd(s, tn_zeros(s, TN_INTS(1), .dtype = TN_INT64), TN_INTS(0, 1),
                                           .value = TN_SCALAR(large));
    EXPECT(p, tn_sub_scalar(s, padded, TN_SCALAR(large - 1)), -(double)(large - 1), 1);
    tn_tensor *a = VECTOR(p, TN_UINT8, 2, 2, 2), *b = VECTOR(p, TN_UINT8, 3, 1, 4);
    EXPECT(p, tn_isclose(s, a, b, .rtol = 0, .atol = 1), 1, 1, 0);
    EXPECT(p, tn_isclose(s, a, b, .rtol = 0.5, .atol = 0), 1, 0, 1);
}

ON_EACH_DEVICE(corners, rolls_of_empty_tensors)
{
    expect_sizes(p, tn_roll(p->s, tn_zeros(p->s, TN_INTS(0, 3)), TN_INTS(1), .dims = TN_INTS(2)),
                 TN_INTS(0, 3));
}

ON_EACH_DEVICE(corners, gradients_of_extrema_with_nan)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT32, 1, NAN, 3, NAN)), *one = tn_scalar_tensor(s, TN_SCALAR(1));
    tn_tensor *by_value = gradient(p, tn_amax(s, x), x, one),
              *low = gradient(p, tn_aminmax(s, x).min, x, one);
    EXPECT(p, tn_isnan(s, by_value), 1, 1, 1, 1);
    EXPECT(p, tn_isnan(s, low), 1, 1, 1, 1);
    EXPECT(p, gradient(p, tn_max(s, x), x, one), 0, 0.5, 0, 0.5);
    tn_tensor *ties = leaf(VECTOR(p, TN_FLOAT32, 1, 3, 3));
    EXPECT(p, gradient(p, tn_amax(s, ties), ties, one), 0, 0.5, 0.5);
}
