/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators on a device that has primitives only, against closed forms. The CPU may not help: each operator
 * runs its composite.
 */
#include <math.h>
#include "primitives.h"

TestSuite(formulas, .init = begin_on_primitives);

#define ROW(...) \
    there(TN_INTS((int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8)), (const double[]){__VA_ARGS__})

/* ---- activations ---- */

Test(formulas, straight_lines)
{
    tn_tensor *x = ROW(-4, -1, 0, 2, 5), *g = ROW(1, 2, 3, 4, 5);
    EXPECT(s, tn_relu(s, x), 0, 0, 0, 2, 5);
    EXPECT(s, tn_threshold(s, x, 1, 7), 7, 7, 7, 2, 5);
    EXPECT(s, tn_threshold_backward(s, g, x, 0), 0, 0, 0, 4, 5);
    EXPECT(s, tn_hardtanh(s, x, .min_val = TN_SCALAR(-2), .max_val = TN_SCALAR(3)), -2, -1, 0, 2, 3);
    EXPECT(s, tn_hardtanh_backward(s, g, x, -1, 3), 0, 0, 3, 4, 0);
    EXPECT(s, tn_hardsigmoid(s, x), 0, 1.0 / 3, 0.5, 5.0 / 6, 1);
    EXPECT(s, tn_hardsigmoid_backward(s, g, x), 0, 1.0 / 3, 0.5, 2.0 / 3, 0);
    EXPECT(s, tn_hardswish(s, x), 0, -1.0 / 3, 0, 5.0 / 3, 5);
    EXPECT(s, tn_hardswish_backward(s, g, x), 0, 1.0 / 3, 1.5, 14.0 / 3, 5);
    EXPECT(s, tn_hardshrink(s, x, .lambd = TN_SCALAR(2)), -4, 0, 0, 0, 5);
    EXPECT(s, tn_hardshrink_backward(s, g, x, 2), 1, 0, 0, 0, 5);
    EXPECT(s, tn_softshrink(s, x, .lambd = TN_SCALAR(1)), -3, 0, 0, 1, 4);
    EXPECT(s, tn_leaky_relu(s, x, .negative_slope = TN_SCALAR(0.5)), -2, -0.5, 0, 2, 5);
    EXPECT(s, tn_leaky_relu_backward(s, g, x, 0.5, 0), 0.5, 1, 1.5, 4, 5);
    EXPECT(s, tn_prelu(s, x, ROW(0.25)), -1, -0.25, 0, 2, 5);
    end();
}

Test(formulas, curves)
{
    double e = exp(1), area = 0.5 * erfc(-sqrt(0.5)), density = exp(-0.5) / sqrt(2 * M_PI),
           gate = e / (e + 1);
    tn_tensor *x = ROW(0, 1), *g = ROW(2, 3);
    EXPECT(s, tn_sigmoid_backward(s, g, ROW(0.25, 0.5)), 2 * 0.1875, 3 * 0.25);
    EXPECT(s, tn_tanh_backward(s, g, ROW(0, 0.5)), 2, 3 * 0.75);
    EXPECT(s, tn_gelu(s, x), 0, area);
    EXPECT(s, tn_gelu_backward(s, g, x), 1, 3 * (area + density));
    double u = sqrt(2 / M_PI) * 1.044715, slope = sqrt(2 / M_PI) * (1 + 3 * 0.044715), t = tanh(u);
    EXPECT(s, tn_gelu(s, x, .approximate = "tanh"), 0, 0.5 * (1 + t));
    EXPECT(s, tn_gelu_backward(s, g, x, .approximate = "tanh"), 1, 1.5 * (1 + t) + 1.5 * (1 - t * t) * slope);
    EXPECT(s, tn_silu(s, x), 0, gate);
    EXPECT(s, tn_silu_backward(s, g, x), 1, 3 * gate * (1 + (1 - gate)));
    EXPECT(s, tn_mish(s, x), 0, tanh(log(1 + e)));
    EXPECT(s, tn_elu(s, ROW(-1, 2), .alpha = TN_SCALAR(3)), 3 * (1 / e - 1), 2);
    EXPECT(s, tn_elu_backward(s, g, 3, 1, 1, 0, ROW(-1, 2)), 6 / e, 3);
    EXPECT(s, tn_softplus(s, ROW(0, 30)), log(2), 30);
    EXPECT(s, tn_softplus_backward(s, g, ROW(0, 30), 1, 20), 1, 3);
    EXPECT(s, tn_log_sigmoid(s, x), -log(2), log(gate));
    EXPECT(s, tn_logit(s, ROW(0.2, 0.5)), log(0.25), 0);
    EXPECT(s, tn_logaddexp(s, ROW(0, -INFINITY), ROW(0, -INFINITY)), log(2), -INFINITY);
    end();
}

Test(formulas, gradients_of_activations)
{
    tn_tensor *x = ROW(-1, 0, 1);
    double gate = 1 / (1 + exp(-1)), area = 0.5 * erfc(-sqrt(0.5)), density = exp(-0.5) / sqrt(2 * M_PI);
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_backward(s, tn_sum(s, tn_add(s, tn_gelu(s, tn_relu(s, x)), tn_silu(s, x))));
    double below = (1 - gate) * (1 - gate), above = gate * (2 - gate);
    EXPECT(s, tn_grad_of(s, x), below, 0.5, area + density + above);
    end();
}

/* The steps in float32, one rounding at the end. */
Test(formulas, half_types_are_rounded_once)
{
    tn_tensor *x = tn_to(s, ROW(0.7, -1.3, 2.1), TN_BFLOAT16);
    const double held[] = {0.69921875, -1.296875, 2.09375};
    double want[3], rounded[3];
    for (int32_t i = 0; i < 3; i++) want[i] = held[i] / (1 + exp(-held[i]));
    tn_tensor *exact = make(s, TN_INTS(3), want, 0);
    tn_tensor *once = tn_to(s, exact, TN_BFLOAT16), *have = tn_silu(s, x);
    cr_assert_eq(tn_tensor_dtype(have), TN_BFLOAT16);
    cr_assert_eq(tn_to_host(s, tn_to(s, once, TN_FLOAT64), rounded, sizeof rounded), TN_OK);
    expect_values(s, have, 3, rounded, 0);
    end();
}

/* ---- arithmetic ---- */

Test(formulas, limits_and_choices)
{
    tn_tensor *x = ROW(-2, 0.5, NAN, INFINITY), *i = tn_to(s, ROW(-4, 6, 0), TN_INT64);
    EXPECT(s, tn_clamp(s, ROW(-2, 0.5, 9), .min = TN_SCALAR(-1), .max = TN_SCALAR(2)), -1, 0.5, 2);
    EXPECT(s, tn_clamp_tensor(s, ROW(1, 2, 3), .min = ROW(2), .max = ROW(2.5)), 2, 2, 2.5);
    tn_tensor *promoted = tn_clamp(s, i, .min = TN_SCALAR(0.5));
    EXPECT(s, promoted, 0.5, 6, 0.5);
    cr_assert_eq(tn_tensor_dtype(promoted), TN_FLOAT32);
    EXPECT(s, tn_nan_to_num(s, x, .nan = 3, .posinf = 4), -2, 0.5, 3, 4);
    EXPECT(s, tn_lcm(s, i, tn_to(s, ROW(6, 4, 0), TN_INT64)), 12, 12, 0);
    EXPECT(s, tn_fmax(s, x, ROW(1, NAN, 1, 1)), 1, 0.5, 1, INFINITY);
    EXPECT(s, tn_heaviside(s, ROW(-1, 0, 2), ROW(7)), 0, 7, 1);
    EXPECT(s, tn_isposinf(s, x), 0, 0, 0, 1);
    end();
}

Test(formulas, sums_and_angles)
{
    EXPECT(s, tn_lerp_scalar(s, ROW(0, 1), ROW(10, 3), 0.75), 7.5, 2.5);
    EXPECT(s, tn_addcmul(s, ROW(1, 2), ROW(3, 4), ROW(5, 6), .value = TN_SCALAR(2)), 31, 50);
    EXPECT(s, tn_addcdiv(s, ROW(1, 2), ROW(3, 4), ROW(2, 8)), 2.5, 2.5);
    EXPECT(s, tn_hypot(s, ROW(3e200, 0), ROW(4e200, 0)), 5e200, 0);
    EXPECT(s, tn_copysign(s, ROW(3, -3), ROW(-0.0, 2)), -3, 3);
    EXPECT(s, tn_angle(s, ROW(-2, 2)), M_PI, 0);
    EXPECT(s, tn_xlogy(s, ROW(0, 2), ROW(0, 3)), 0, 2 * log(3));
    EXPECT(s, tn_sinc(s, ROW(0, 0.5, 3)), 1, 2 / M_PI, 0);
    end();
}

/* A composite accepts what the CPU's kernels accept, and names its operator in errors. */
Test(formulas, other_dtypes_are_refused)
{
    tn_gelu(s, ROW(1, 2), .approximate = "odd");
    expect_error(s, "approximate argument must be either none or tanh, got odd");
    tn_gelu_backward(s, ROW(1, 2), ROW(1, 2), .approximate = "odd");
    expect_error(s, "approximate argument must be either none or tanh, got odd");
    tn_gelu(s, tn_to(s, ROW(1, 2), TN_INT64));
    expect_error(s, "\"gelu\" not implemented for 'Long' on device reference:0");
    tn_relu(s, tn_to(s, ROW(1, 0), TN_BOOL));
    expect_error(s, "\"relu\" not implemented for 'Bool' on device reference:0");
    end();
}

/* ---- reductions ---- */

static tn_tensor *rows(void)
{
    return there(TN_INTS(2, 4), VALUES(1, 3, 5, 7, -2, -2, 0, 0));
}

Test(formulas, moments)
{
    tn_tensor *x = rows();
    EXPECT(s, tn_var_correction(s, x, .dim = TN_INTS(1), .correction = TN_SCALAR(0)), 5, 1);
    EXPECT(s, tn_var(s, x, 1), 74.0 / 7);
    tn_var_mean_correction_result r =
        tn_var_mean_correction(s, x, .dim = TN_INTS(1), .correction = TN_SCALAR(1), .keepdim = 1);
    EXPECT(s, r.result0, 20.0 / 3, 4.0 / 3);
    EXPECT(s, r.result1, 4, -1);
    cr_assert_eq(tn_tensor_rank(r.result1), 2);
    EXPECT(s, tn_std_correction(s, x, .dim = TN_INTS(0), .correction = TN_SCALAR(0)), 1.5, 2.5, 2.5, 3.5);
    tn_tensor *complex = tn_complex(s, ROW(0, 2), ROW(0, 4));
    EXPECT(s, tn_var_correction(s, complex, .correction = TN_SCALAR(0)), 5);
    end();
}

Test(formulas, norms)
{
    tn_tensor *x = rows();
    EXPECT(s, tn_linalg_vector_norm(s, x, .dim = TN_INTS(1)), sqrt(84), sqrt(8));
    EXPECT(s, tn_linalg_vector_norm(s, x, .ord = TN_SCALAR(1), .dim = TN_INTS(1)), 16, 4);
    EXPECT(s, tn_linalg_vector_norm(s, x, .ord = TN_SCALAR(0), .dim = TN_INTS(1)), 4, 2);
    EXPECT(s, tn_linalg_vector_norm(s, x, .ord = TN_SCALAR(3)), cbrt(1 + 27 + 125 + 343 + 16));
    EXPECT(s, tn_linalg_vector_norm(s, x, .ord = TN_SCALAR((double)INFINITY), .dim = TN_INTS(0)), 2, 3, 5, 7);
    EXPECT(s, tn_linalg_vector_norm(s, ROW(3, 4)), 5);
    end();
}

Test(formulas, counts_and_extremes)
{
    tn_tensor *x = rows();
    EXPECT(s, tn_nansum(s, ROW(1, NAN, 2)), 3);
    EXPECT(s, tn_count_nonzero_dim(s, x, TN_INTS(1)), 4, 2);
    tn_aminmax_result both = tn_aminmax(s, x, .dim = 1);
    EXPECT(s, both.min, 1, -2);
    EXPECT(s, both.max, 7, 0);
    tn_max_dim_result top = tn_max_dim(s, x, 1);
    EXPECT(s, top.values, 7, 0);
    EXPECT(s, tn_narrow(s, top.indices, 0, 0, 1), 3);
    tn_min_dim_result low = tn_min_dim(s, x, 0, .keepdim = 1);
    EXPECT(s, low.values, -2, -2, 0, 0);
    EXPECT(s, low.indices, 1, 1, 1, 1);
    end();
}

Test(formulas, additions_at_rows)
{
    tn_tensor *index = tn_to(s, ROW(2, 0, 2), TN_INT64);
    tn_tensor *source = there(TN_INTS(3, 2), VALUES(1, 2, 3, 4, 5, 6));
    tn_tensor *sum = tn_index_add(s, there(TN_INTS(3, 2), VALUES(9, 9, 9, 9, 9, 9)), 0, index, source,
                                  .alpha = TN_SCALAR(2));
    EXPECT(s, sum, 15, 17, 9, 9, 21, 25);
    end();
}

/* ---- windows ---- */

static tn_tensor *counted(tn_ints sizes)
{
    tn_tensor *line = tn_arange(s, 9, .dtype = TN_FLOAT64, .device = device);
    return tn_reshape(s, line, sizes);
}

/* A kernel of ones adds up windows; the weight's gradient is the sum of what each of its items met. */
Test(formulas, convolution)
{
    tn_tensor *x = counted(TN_INTS(1, 1, 3, 3)),
              *w = tn_ones(s, TN_INTS(1, 1, 2, 2), .dtype = TN_FLOAT64, .device = device);
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    cr_assert_eq(tn_set_requires_grad(w, 1), TN_OK);
    tn_tensor *out = tn_conv2d(s, x, w, .bias = ROW(100));
    EXPECT(s, out, 108, 112, 120, 124);
    tn_backward(s, tn_sum(s, out));
    EXPECT(s, tn_grad_of(s, w), 8, 12, 20, 24);
    EXPECT(s, tn_grad_of(s, x), 1, 2, 1, 2, 4, 2, 1, 2, 1);
    EXPECT(s, tn_conv2d(s, x, w, .stride = TN_INTS(2), .padding = TN_INTS(1), .dilation = TN_INTS(2)), 4, 4,
           4, 4);
    end();
}

Test(formulas, convolution_of_groups_and_transposed)
{
    tn_tensor *x = there(TN_INTS(1, 2, 3), VALUES(1, 2, 3, 4, 5, 6));
    tn_tensor *w = there(TN_INTS(2, 1, 2), VALUES(1, 10, 2, 3));
    EXPECT(s, tn_conv1d(s, x, w, .groups = 2), 21, 32, 23, 28);
    tn_tensor *line = there(TN_INTS(1, 1, 2), VALUES(1, 2)), *k = there(TN_INTS(1, 1, 3), VALUES(1, 10, 100));
    cr_assert_eq(tn_set_requires_grad(line, 1), TN_OK);
    tn_tensor *out = tn_conv_transpose1d(s, line, k, .stride = TN_INTS(2));
    EXPECT(s, out, 1, 10, 102, 20, 200);
    tn_backward(s, tn_sum(s, out));
    EXPECT(s, tn_grad_of(s, line), 111, 111);
    end();
}

Test(formulas, largest_of_windows)
{
    tn_tensor *x = counted(TN_INTS(1, 3, 3));
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_max_pool2d_with_indices_result r =
        tn_max_pool2d_with_indices(s, x, TN_INTS(2), .stride = TN_INTS(1), .padding = TN_INTS(1));
    EXPECT(s, r.result0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 6, 7, 8, 8);
    EXPECT(s, r.result1, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 6, 7, 8, 8);
    tn_backward(s, tn_sum(s, r.result0));
    EXPECT(s, tn_grad_of(s, x), 1, 1, 2, 1, 1, 2, 2, 2, 4);
    tn_tensor *low = there(TN_INTS(1, 1, 2), VALUES(-INFINITY, -INFINITY));
    r = tn_max_pool2d_with_indices(s, low, TN_INTS(2), .stride = TN_INTS(2), .padding = TN_INTS(1));
    EXPECT(s, r.result1, 0, 1);
    end();
}

Test(formulas, mean_of_windows)
{
    tn_tensor *x = counted(TN_INTS(1, 3, 3));
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_tensor *out = tn_avg_pool2d(s, x, TN_INTS(2), .padding = TN_INTS(1), .count_include_pad = 0);
    EXPECT(s, out, 0, 1.5, 4.5, 6);
    tn_backward(s, tn_sum(s, out));
    EXPECT(s, tn_grad_of(s, x), 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.5, 0.25, 0.25);
    EXPECT(s, tn_avg_pool2d(s, x, TN_INTS(2), .ceil_mode = 1), 2, 3.5, 6.5, 8);
    EXPECT(s, tn_avg_pool2d(s, x, TN_INTS(3), .divisor_override = 4), 9);
    end();
}
