/* SPDX-License-Identifier: Apache-2.0 */
/* Formulas of layers, literal results of the remaining operators, random numbers, initial states, printing. */
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tenon/nn.h>

ON_EACH_DEVICE(formulas, activations)
{
    tn_scope *s = p->s;
    const double x[] = {-2, -0.5, 0, 0.25, 3, 7}, n = 6;
    const double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
    double selu[6], relu6[6], celu[6], leaky[6], prelu[6], log_sigmoid[6], softplus[6], gelu[6], silu[6],
        shrink[6], sign[6];
    tn_tensor *t = make(p, TN_FLOAT64, TN_INTS(6), x);
    for (int i = 0; i < n; i++) {
        double v = x[i], positive = v > 0 ? v : 0;
        selu[i] = scale * (v > 0 ? v : alpha * (exp(v) - 1));
        relu6[i] = positive < 6 ? positive : 6;
        celu[i] = positive + (v < 0 ? 1.5 * (exp(v / 1.5) - 1) : 0);
        leaky[i] = v > 0 ? v : 0.01 * v;
        prelu[i] = v > 0 ? v : 0.25 * v;
        log_sigmoid[i] = -log(1 + exp(-v));
        softplus[i] = log(1 + exp(2 * v)) / 2;
        gelu[i] = v * 0.5 * (1 + erf(v / sqrt(2)));
        silu[i] = v / (1 + exp(-v));
        shrink[i] = v - tanh(v);
        sign[i] = v / (1 + fabs(v));
    }
    expect_values(p, tn_selu(s, t), 6, selu, 1e-12);
    expect_values(p, tn_relu6(s, t), 6, relu6, 0);
    expect_values(p, tn_celu(s, t, .alpha = TN_SCALAR(1.5)), 6, celu, 1e-12);
    expect_values(p, tn_leaky_relu(s, t), 6, leaky, 1e-12);
    expect_values(p, tn_prelu(s, t, VECTOR(p, TN_FLOAT64, 0.25)), 6, prelu, 1e-12);
    expect_values(p, tn_log_sigmoid(s, t), 6, log_sigmoid, 1e-12);
    expect_values(p, tn_softplus(s, t, .beta = TN_SCALAR(2)), 6, softplus, 1e-12);
    expect_values(p, tn_gelu(s, t), 6, gelu, 1e-12);
    expect_values(p, tn_silu(s, t), 6, silu, 1e-12);
    expect_values(p, tn_sub(s, t, tn_tanh(s, t)), 6, shrink, 1e-12);
    expect_values(p, tn_div(s, t, tn_add_scalar(s, tn_abs(s, t), 1)), 6, sign, 1e-12);
}

ON_EACH_DEVICE(formulas, arithmetic)
{
    tn_scope *s = p->s;
    tn_tensor *a = VECTOR(p, TN_FLOAT32, -3, -2, -1, 1, 2, 3);
    EXPECT(p, tn_remainder_scalar(s, a, 2), 1, 0, 1, 1, 0, 1);
    EXPECT(p, tn_fmod_scalar(s, a, 2), -1, 0, -1, 1, 0, 1);
    tn_tensor *power = tn_float_power_tensor_scalar(s, VECTOR(p, TN_INT32, 2, 3), 2);
    cr_assert_eq(tn_tensor_dtype(power), TN_FLOAT64);
    EXPECT(p, power, 4, 9);
    tn_tensor *x = VECTOR(p, TN_FLOAT32, 1, 2), *y = VECTOR(p, TN_FLOAT32, 10, 20),
              *z = VECTOR(p, TN_FLOAT32, 4, 5);
    EXPECT(p, tn_addcmul(s, x, y, z, .value = TN_SCALAR(0.5)), 21, 52);
    EXPECT(p, tn_addcdiv(s, x, y, z, .value = TN_SCALAR(2)), 6, 10);
    EXPECT(p, tn_lerp_scalar(s, x, y, 0.25), 3.25, 6.5);
    tn_frexp_result f = tn_frexp(s, VECTOR(p, TN_FLOAT32, 1, 2, 3, -10));
    EXPECT(p, f.mantissa, 0.5, 0.5, 0.75, -0.625);
    EXPECT(p, f.exponent, 1, 2, 2, 4);
    EXPECT(p, tn_true_divide(s, VECTOR(p, TN_INT64, 5), VECTOR(p, TN_INT64, 2)), 2.5);
    EXPECT(p, tn_div_tensor_mode(s, a, VECTOR(p, TN_FLOAT32, 2), "floor"), -2, -1, -1, 0, 1, 1);
    EXPECT(p, tn_div_tensor_mode(s, a, VECTOR(p, TN_FLOAT32, 2), "trunc"), -1, -1, 0, 0, 1, 1);
    EXPECT_NEAR(p, tn_exp(s, VECTOR(p, TN_FLOAT64, 0, log(2))), 1e-12, 1, 2);
}

ON_EACH_DEVICE(formulas, losses)
{
    tn_scope *s = p->s;
    tn_tensor *x = VECTOR(p, TN_FLOAT64, 0, 0, 0), *y = VECTOR(p, TN_FLOAT64, 0.5, 1, 4);
    /* smooth_l1: d^2 / (2 beta) below beta, else |d| - beta / 2; huber is beta times that. */
    EXPECT(p, tn_smooth_l1_loss(s, x, y, .reduction = 0, .beta = 2), 0.0625, 0.25, 3);
    EXPECT(p, tn_huber_loss(s, x, y, .reduction = 0, .delta = 2), 0.125, 0.5, 6);
    tn_multi_margin_loss(s, MAKE(p, TN_FLOAT64, TN_INTS(1, 3), 1, 2, 3), VECTOR(p, TN_INT64, 3));
    cr_assert_neq(tn_scope_failed(s), TN_OK, "a target is less than the number of classes");
    tn_scope_clear(s);
}

ON_EACH_DEVICE(formulas, products)
{
    tn_scope *s = p->s;
    tn_tensor *x = MAKE(p, TN_FLOAT32, TN_INTS(1, 2), 1, 2),
              *w = MAKE(p, TN_FLOAT32, TN_INTS(3, 2), 1, 2, 3, 4, 5, 6);
    tn_tensor *b = VECTOR(p, TN_FLOAT32, 10, 20, 30);
    EXPECT(p, tn_linear(s, x, w, .bias = b), 15, 31, 47);
    tn_tensor *a = MAKE(p, TN_FLOAT32, TN_INTS(1, 2, 2), 1, 2, 3, 4);
    EXPECT(p,
           tn_bilinear(s, x, MAKE(p, TN_FLOAT32, TN_INTS(1, 2), 5, 6), a, .bias = VECTOR(p, TN_FLOAT32, 1)),
           96);
    expect_sizes(p, tn_pixel_shuffle(s, tn_ones(s, TN_INTS(1, 9, 4, 4)), 3), TN_INTS(1, 1, 12, 12));
    expect_sizes(p, tn_pixel_unshuffle(s, tn_ones(s, TN_INTS(1, 1, 12, 12)), 3), TN_INTS(1, 9, 4, 4));
    /* Without a mask, attention of equal keys is the mean of the values. */
    tn_tensor *q = tn_ones(s, TN_INTS(1, 2, 4)), *v = MAKE(p, TN_FLOAT32, TN_INTS(1, 2, 1), 1, 3);
    EXPECT(p, tn_scaled_dot_product_attention(s, q, q, v), 2, 2);
}

/* conv2d is unfold, a product and fold. */
ON_EACH_DEVICE(formulas, convolution_by_columns)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_randn(s, TN_INTS(1, 3, 10, 12), .dtype = TN_FLOAT64),
              *w = tn_randn(s, TN_INTS(2, 3, 4, 5), .dtype = TN_FLOAT64);
    tn_tensor *columns = tn_im2col(s, x, TN_INTS(4, 5), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1));
    tn_tensor *product = tn_matmul(s, tn_view(s, w, TN_INTS(2, -1)), columns);
    tn_tensor *folded =
        tn_col2im(s, product, TN_INTS(7, 8), TN_INTS(1, 1), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1));
    tn_tensor *difference = tn_abs(s, tn_sub(s, tn_conv2d(s, x, w), folded));
    cr_assert_lt(tn_item_double(s, tn_max(s, difference)), 1e-12);
}

ON_EACH_DEVICE(formulas, layers)
{
    tn_scope *s = p->s;
    tn_tensor *weight = MAKE(p, TN_FLOAT32, TN_INTS(2, 3), 1, 2.3, 3, 4, 5.1, 6.3);
    tn_embedding_bag_result bag =
        tn_embedding_bag(s, weight, VECTOR(p, TN_INT64, 1, 0), VECTOR(p, TN_INT64, 0), .mode = 1);
    EXPECT(p, bag.result0, 2.5, 3.7, 4.65);
    tn_tensor *x = MAKE(p, TN_FLOAT32, TN_INTS(1, 1, 8), 1, 2, 3, 4, 5, 6, 7, 8);
    tn_max_pool1d_with_indices_result pooled =
        tn_max_pool1d_with_indices(s, x, TN_INTS(2), .stride = TN_INTS(2));
    EXPECT(p, pooled.result0, 2, 4, 6, 8);
    EXPECT(p, pooled.result1, 1, 3, 5, 7);
    tn_tensor *flat = tn_unsqueeze(s, pooled.result0, 3), *where = tn_unsqueeze(s, pooled.result1, 3);
    EXPECT(p, tn_max_unpool2d(s, flat, where, TN_INTS(8, 1)), 0, 2, 0, 4, 0, 6, 0, 8);
    EXPECT(p, tn_max_unpool2d(s, flat, where, TN_INTS(9, 1)), 0, 2, 0, 4, 0, 6, 0, 8, 0);
    tn_tensor *square = MAKE(p, TN_FLOAT32, TN_INTS(1, 1, 2, 2), 1, 2, 3, 4);
    EXPECT(p, tn_upsample_nearest2d(s, square, TN_INTS(4, 4)), 1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4,
           4);
    tn_tensor *smooth = tn_upsample_bilinear2d(s, square, TN_INTS(4, 4), 1);
    EXPECT_NEAR(p, tn_contiguous(s, tn_select(s, smooth, 2, 0)), 1e-6, 1, 4.0 / 3, 5.0 / 3, 2);
    EXPECT_NEAR(p, tn_contiguous(s, tn_select(s, smooth, 3, 0)), 1e-6, 1, 5.0 / 3, 7.0 / 3, 3);
}

ON_EACH_DEVICE(formulas, scatter)
{
    tn_scope *s = p->s;
    tn_tensor *index = MAKE(p, TN_INT64, TN_INTS(2, 1), 2, 3);
    EXPECT(p, tn_scatter_value_reduce(s, tn_full(s, TN_INTS(2, 4), 2.0), 1, index, 1.23, "multiply"), 2, 2,
           2.46, 2, 2, 2, 2, 2.46);
    EXPECT(p, tn_scatter_value_reduce(s, tn_full(s, TN_INTS(2, 4), 2.0), 1, index, 1.23, "add"), 2, 2, 3.23,
           2, 2, 2, 2, 3.23);
    tn_tensor *x = tn_zeros(s, TN_INTS(3, 5));
    tn_scatter_add_(s, x, 0, MAKE(p, TN_INT64, TN_INTS(1, 5), 0, 1, 2, 0, 0), tn_ones(s, TN_INTS(2, 5)));
    EXPECT(p, x, 1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0);
}

ON_EACH_DEVICE(formulas, norm_overflows_in_its_dtype)
{
    tn_scope *s = p->s;
    tn_tensor *x = VECTOR(p, TN_FLOAT32, 1e20, 1e20);
    cr_assert(isinf(tn_item_double(s, tn_linalg_vector_norm(s, x))));
    EXPECT_NEAR(p, tn_linalg_vector_norm(s, tn__to_copy(s, x, .dtype = TN_FLOAT64)), 1e-6,
                1.4142135623730951e20);
    /* ... but not of one element */
    EXPECT_NEAR(p, tn_linalg_vector_norm(s, tn_unsqueeze(s, x, 1), .dim = TN_INTS(1)), 1e-6, 1e20, 1e20);
    EXPECT_NEAR(p, tn_linalg_vector_norm(s, tn_select(s, x, 0, 0), .ord = TN_SCALAR(3)), 1e-6, 1e20);
    EXPECT(p, tn_linalg_vector_norm(s, tn_select(s, x, 0, 0), .ord = TN_SCALAR(0)), 1);
}

/* ---- Random numbers ------------------------------------------------------------------------------------- */

ON_EACH_DEVICE(random, is_reproduced_by_the_seed)
{
    tn_scope *s = p->s;
    tn_generator_state state = {.size = sizeof state};
    tn_generator *g = tn_default_generator(p->ctx, p->device);
    tn_manual_seed(p->ctx, 7);
    tn_tensor *a = tn_rand(s, TN_INTS(1000));
    tn_generator_get_state(g, &state);
    tn_tensor *b = tn_randn(s, TN_INTS(1000));
    cr_assert(state.seed == 7 && state.offset == 250);
    tn_manual_seed(p->ctx, 7);
    cr_assert(tn_equal(s, a, tn_rand(s, TN_INTS(1000))));
    cr_assert(tn_equal(s, b, tn_randn(s, TN_INTS(1000))));
    cr_assert_eq(tn_generator_set_state(g, &state), TN_OK);
    cr_assert(tn_equal(s, b, tn_randn(s, TN_INTS(1000))));
    cr_assert_not(tn_equal(s, b, tn_randn(s, TN_INTS(1000))));
    /* The same bits as the processor gives. */
    tn_manual_seed(p->ctx, 7);
    cr_assert(tn_equal(s, tn__to_copy(s, a, .device = TN_CPU), tn_rand(s, TN_INTS(1000), .device = TN_CPU)));
}

ON_EACH_DEVICE(random, intervals)
{
    tn_scope *s = p->s;
    tn_tensor *u = tn_rand(s, TN_INTS(20000)), *i = tn_randint_low(s, -3, 4, TN_INTS(20000));
    cr_assert(tn_item_double(s, tn_min(s, u)) >= 0 && tn_item_double(s, tn_max(s, u)) < 1);
    cr_assert(tn_item_int(s, tn_min(s, i)) == -3 && tn_item_int(s, tn_max(s, i)) == 3);
    tn_tensor *order = tn_randperm(s, 100);
    EXPECT(p, tn_sub(s, tn_sort(s, order).values, tn_arange(s, 100)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

/* Mean and variance of what the in-place samplers fill; 4 standard errors of 40000 numbers. */
ON_EACH_DEVICE(random, moments)
{
    tn_scope *s = p->s;
    const int64_t n = 40000;
    tn_manual_seed(p->ctx, 1);
    tn_tensor *x = tn_empty(s, TN_INTS(n), .dtype = TN_FLOAT64);
    const struct {
        tn_tensor *filled;
        double mean, variance, slack;
    } table[] = {{tn_clone(s, tn_uniform_(s, x, .from = 1, .to = 3)), 2, 1.0 / 3, 4},
                 {tn_clone(s, tn_normal_(s, x, .mean = -1, .std = 2)), -1, 4, 4},
                 {tn_clone(s, tn_exponential_(s, x, .lambd = 2)), 0.5, 0.25, 4},
                 {tn_clone(s, tn_geometric_(s, x, 0.25)), 4, 12, 4},
                 {tn_clone(s, tn_log_normal_(s, x, .mean = 0, .std = 0.5)), exp(0.125),
                  (exp(0.25) - 1) * exp(0.25), 4},
                 {tn_clone(s, tn_bernoulli_float_(s, x, .p = 0.3)), 0.3, 0.21, 4},
                 {tn_clone(s, tn_random_to_(s, x, 10)), 4.5, 8.25, 4}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double mean = tn_item_double(s, tn_mean(s, table[i].filled));
        double variance = tn_item_double(s, tn_var(s, table[i].filled));
        cr_expect_lt(fabs(mean - table[i].mean), table[i].slack * sqrt(table[i].variance / (double)n),
                     "%zu: %g", i, mean);
        cr_expect_lt(fabs(variance / table[i].variance - 1), 0.1, "%zu: %g", i, variance);
    }
    /* Cauchy has no moments: half of it lies within sigma of the median. */
    tn_tensor *c = tn_abs(s, tn_sub_scalar(s, tn_cauchy_(s, x, .median = 3, .sigma = 2), 3));
    double inside = tn_item_double(s, tn_mean(s, tn__to_copy(s, tn_lt_scalar(s, c, 2), .dtype = TN_FLOAT64)));
    cr_expect_lt(fabs(inside - 0.5), 0.01);
}

/* ---- Initial states and printing ------------------------------------------------------------------------- */

ON_EACH_DEVICE(state, batch_norm)
{
    tn_module *net = tn_module_create(p->ctx, "net", NULL);
    tn_module_to(net, p->device, 0);
    tn_module *l = tn_batch_norm2d_create(net, "bn", 3);
    cr_assert_not_null(l);
    EXPECT(p, tn_module_tensor(l, "weight"), 1, 1, 1);
    EXPECT(p, tn_module_tensor(l, "bias"), 0, 0, 0);
    EXPECT(p, tn_module_tensor(l, "running_mean"), 0, 0, 0);
    EXPECT(p, tn_module_tensor(l, "running_var"), 1, 1, 1);
    const char *const names[] = {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var",
                                 "bn.num_batches_tracked"};
    tn_named_tensors state = tn_module_tensors(p->s, net, TN_STATE);
    cr_assert_eq(state.count, 5);
    for (int i = 0; i < 5; i++) {
        cr_assert_str_eq(state.data[i].name, names[i]);
        cr_assert_eq(tn_tensor_device(state.data[i].tensor), p->device);
        cr_assert_eq(tn_requires_grad(state.data[i].tensor), i < 2);
    }
    tn_module_destroy(net);
}

ON_EACH_DEVICE(state, printed)
{
    tn_print_options few = {.size = sizeof few, .precision = 2},
                     short_ = {.size = sizeof short_, .threshold = 5};
    tn_tensor *x = VECTOR(p, TN_FLOAT32, 1.12345), *range = tn_arange(p->s, 10);
    char suffix[64] = "", text[160], device[32];
    if (p->device != TN_CPU)
        snprintf(suffix, sizeof suffix, ", device='%s'",
                 tn_device_format(p->ctx, p->device, device, sizeof device));
    snprintf(text, sizeof text, "tensor([1.12]%s)", suffix);
    cr_assert_str_eq(tn_format(p->s, x, &few), text);
    snprintf(text, sizeof text, "tensor([0, 1, 2,  ..., 7, 8, 9]%s)", suffix);
    cr_assert_str_eq(tn_format(p->s, range, &short_), text);
    snprintf(text, sizeof text, "tensor([1.1235]%s)", suffix);
    expect_text(p, x, text);
    snprintf(text, sizeof text, "tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]%s)", suffix);
    expect_text(p, range, text);
    snprintf(text, sizeof text, "tensor([[0, 0],\n        [0, 0]]%s, dtype=torch.int32)", suffix);
    expect_text(p, tn_zeros(p->s, TN_INTS(2, 2), .dtype = TN_INT32), text);
}
