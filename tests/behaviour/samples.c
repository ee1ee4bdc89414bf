/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of the Poisson, binomial, gamma and Dirichlet distributions: their moments, independence of threads
 * and devices, and their derivatives by the parameters (values from 40-digit arithmetic).
 */
#include "fixture.h"

#include <math.h>

#define N 40000

static void expect_moments(place *p, tn_tensor *x, double mean, double variance)
{
    x = tn__to_copy(p->s, x, .dtype = TN_FLOAT64);
    double m = tn_item_double(p->s, tn_mean(p->s, x)), v = tn_item_double(p->s, tn_var(p->s, x));
    /* Four standard errors of the mean; the variance has a wider error, by the fourth moment. */
    cr_expect_lt(fabs(m - mean), 4 * sqrt(variance / N) + 1e-12, "mean %g, not %g", m, mean);
    cr_expect_lt(fabs(v - variance), 0.08 * variance, "variance %g, not %g", v, variance);
}

static tn_tensor *full(place *p, double number, tn_dtype dtype)
{
    return tn_full(p->s, TN_INTS(N), number, .dtype = dtype);
}

/* The fraction of elements that equal `k`. */
static double share(place *p, tn_tensor *x, double k)
{
    return tn_item_double(p->s, tn_sum(p->s, tn_eq_scalar(p->s, x, k))) / N;
}

ON_EACH_DEVICE(samples, poisson)
{
    const double means[] = {0.3, 3, 9.9, 10, 47, 900};
    tn_manual_seed(p->ctx, 3);
    for (int i = 0; i < 6; i++)
        expect_moments(p, tn_poisson(p->s, full(p, means[i], TN_FLOAT64)), means[i], means[i]);
    tn_tensor *x = tn_poisson(p->s, full(p, 12, TN_FLOAT32));
    cr_assert_eq(tn_tensor_dtype(x), TN_FLOAT32);
    /* e^-12 12^k / k! */
    for (int k = 8; k < 17; k++) {
        double want = exp(k * log(12) - 12 - lgamma(k + 1));
        cr_expect_lt(fabs(share(p, x, k) - want), 4 * sqrt(want / N), "%d: %g, not %g", k, share(p, x, k),
                     want);
    }
    EXPECT(p, tn_poisson(p->s, VECTOR(p, TN_FLOAT32, 0, 0)), 0, 0);
    tn_poisson(p->s, VECTOR(p, TN_FLOAT32, 1, -1));
    expect_error(p, "invalid Poisson rate, expected rate to be non-negative");
}

ON_EACH_DEVICE(samples, binomial)
{
    const struct {
        double n, p;
    } table[] = {{5, 0.3}, {40, 0.1}, {40, 0.6}, {1000, 0.5}, {1000, 0.02}, {100000, 0.9}};
    tn_manual_seed(p->ctx, 4);
    for (int i = 0; i < 6; i++) {
        double n = table[i].n, q = table[i].p;
        tn_tensor *x = tn_binomial(p->s, full(p, n, TN_FLOAT64), full(p, q, TN_FLOAT64));
        expect_moments(p, x, n * q, n * q * (1 - q));
        cr_expect(tn_item_double(p->s, tn_min(p->s, x)) >= 0 && tn_item_double(p->s, tn_max(p->s, x)) <= n);
    }
    tn_tensor *x = tn_binomial(p->s, full(p, 40, TN_FLOAT32), full(p, 0.4, TN_FLOAT32));
    for (int k = 12; k < 21; k++) {
        double want = exp(lgamma(41) - lgamma(k + 1) - lgamma(41 - k) + k * log(0.4) + (40 - k) * log(0.6));
        cr_expect_lt(fabs(share(p, x, k) - want), 4 * sqrt(want / N), "%d", k);
    }
    EXPECT(p, tn_binomial(p->s, VECTOR(p, TN_FLOAT32, 0, 7, 7), VECTOR(p, TN_FLOAT32, 0.5, 0, 1)), 0, 0, 7);
}

ON_EACH_DEVICE(samples, gamma)
{
    const double shapes[] = {0.05, 0.5, 1, 2.5, 30, 5000};
    tn_manual_seed(p->ctx, 5);
    for (int i = 0; i < 6; i++) {
        tn_tensor *x = tn__standard_gamma(p->s, full(p, shapes[i], TN_FLOAT64));
        double m = tn_item_double(p->s, tn_mean(p->s, x));
        cr_expect_lt(fabs(m - shapes[i]), 4 * sqrt(shapes[i] / N), "%g: %g", shapes[i], m);
        if (shapes[i] >= 1) expect_moments(p, x, shapes[i], shapes[i]);
        cr_expect_gt(tn_item_double(p->s, tn_min(p->s, x)), 0);
        /* P(x < shape) by the incomplete gamma function. */
        double inside = tn_item_double(p->s, tn_sum(p->s, tn_lt_scalar(p->s, x, shapes[i]))) / N;
        double want = tn_item_double(
            p->s, tn_igamma(p->s, VECTOR(p, TN_FLOAT64, shapes[i]), VECTOR(p, TN_FLOAT64, shapes[i])));
        cr_expect_lt(fabs(inside - want), 4 * sqrt(0.25 / N), "%g: %g, not %g", shapes[i], inside, want);
    }
}

/* The limits of the distributions, not a search that never ends. */
ON_EACH_DEVICE(samples, infinite_parameters)
{
    tn_tensor *infinite = VECTOR(p, TN_FLOAT32, INFINITY), *half = VECTOR(p, TN_FLOAT32, 0.5);
    cr_expect_eq(tn_item_double(p->s, tn__standard_gamma(p->s, infinite)), INFINITY);
    cr_expect_eq(tn_item_double(p->s, tn_poisson(p->s, infinite)), INFINITY);
    cr_expect_eq(tn_item_double(p->s, tn_binomial(p->s, infinite, half)), INFINITY);
    cr_expect_not_null(tn__sample_dirichlet(p->s, VECTOR(p, TN_FLOAT32, 1, INFINITY)));
}

ON_EACH_DEVICE(samples, dirichlet)
{
    tn_scope *s = p->s;
    const double alpha[] = {0.2, 1, 3}, total = 4.2;
    tn_manual_seed(p->ctx, 6);
    tn_tensor *x = tn__sample_dirichlet(
        s, tn_contiguous(s, tn_expand(s, make(p, TN_FLOAT64, TN_INTS(3), alpha), TN_INTS(N, 3))));
    tn_tensor *sums = tn_sum_dim(s, x, TN_INTS(1));
    cr_assert_lt(tn_item_double(s, tn_max(s, tn_abs(s, tn_sub_scalar(s, sums, 1)))), 1e-12);
    for (int i = 0; i < 3; i++) {
        double mean = alpha[i] / total;
        expect_moments(p, tn_select(s, x, 1, i), mean, mean * (1 - mean) / (total + 1));
    }
    /* Shape parameters so small that every gamma sample would be 0. */
    x = tn__sample_dirichlet(s, tn_full(s, TN_INTS(1000, 4), 1e-4));
    sums = tn_sum_dim(s, x, TN_INTS(1));
    cr_assert_lt(tn_item_double(s, tn_max(s, tn_abs(s, tn_sub_scalar(s, sums, 1)))), 1e-5);
}

static tn_tensor *draw(place *p, int which, tn_tensor *a)
{
    return which == 0   ? tn_poisson(p->s, a)
           : which == 1 ? tn_binomial(p->s, a, tn_full(p->s, TN_INTS(700, 30), 0.25))
           : which == 2 ? tn__standard_gamma(p->s, a)
                        : tn__sample_dirichlet(p->s, a);
}

ON_EACH_DEVICE(samples, do_not_depend_on_threads_and_layout)
{
    tn_scope *s = p->s;
    tn_tensor *a = tn_add_scalar(s, tn_mul_scalar(s, tn_rand(s, TN_INTS(700, 30)), 30), 0.1);
    tn_tensor *turned = tn_t(s, tn_contiguous(s, tn_t(s, a)));
    for (int which = 0; which < 4; which++) {
        tn_generator_state state = {.size = sizeof state};
        tn_manual_seed(p->ctx, 9);
        tn_set_num_threads(p->ctx, 1);
        tn_tensor *one = draw(p, which, a);
        tn_generator_get_state(tn_default_generator(p->ctx, TN_CPU), &state);
        tn_set_num_threads(p->ctx, 3);
        tn_manual_seed(p->ctx, 9);
        cr_expect(tn_equal(s, one, draw(p, which, a)), "%d", which);
        tn_manual_seed(p->ctx, 9);
        cr_expect(tn_equal(s, one, draw(p, which, turned)), "%d", which);
        cr_expect_not(tn_equal(s, one, draw(p, which, a)), "%d", which);
        if (p->device == TN_CPU) cr_expect_eq(state.offset, 700 * 30);
    }
}

/* A given generator is used, and half types are rounded. */
ON_EACH_DEVICE(samples, of_a_generator)
{
    tn_scope *s = p->s;
    tn_generator *g = NULL;
    cr_assert_eq(tn_generator_create(p->ctx, 11, &g), TN_OK);
    tn_tensor *a = tn_full(s, TN_INTS(100), 2.0);
    tn_tensor *first = tn__standard_gamma(s, a, .generator = g);
    tn_generator_seed(g, 11);
    tn_tensor *half = tn__standard_gamma(s, tn__to_copy(s, a, .dtype = TN_FLOAT16), .generator = g);
    cr_assert(tn_equal(s, tn__to_copy(s, first, .dtype = TN_FLOAT16), half));
    tn_generator_release(g);
}

ON_EACH_DEVICE(samples, gamma_slopes)
{
    tn_scope *s = p->s;
    tn_tensor *a = VECTOR(p, TN_FLOAT64, 0.01, 0.1, 0.5, 1, 1, 2.5, 2.5, 30, 30, 1000, 1000, 1e4, 5e4);
    tn_tensor *x = VECTOR(p, TN_FLOAT64, 1e-30, 0.05, 2, 1, 0.1, 1, 6, 25, 45, 950, 1100, 10300, 49600);
    EXPECT_NEAR(p, tn__standard_gamma_grad(s, a, x), 1e-12, 6.85166673319527e-27, 1.3672830678368923,
                2.5118893763620682, 1.1735630272247269, 0.28927311661593887, 0.65079385968628221,
                1.6029866492202412, 0.91668159973565724, 1.2231425063703331, 0.97473502369716372,
                1.0485866785616168, 1.0148691241755485, 0.99599261042454314);
    tn_tensor *small = tn__standard_gamma_grad(s, VECTOR(p, TN_FLOAT64, 0.01), VECTOR(p, TN_FLOAT64, 1e-30));
    cr_assert_float_eq(tn_item_double(s, small) / 6.85166673319527e-27, 1, 1e-12);
    /* The gradient rule: d x / d a of the samples. */
    tn_tensor *shape = tn_full(s, TN_INTS(64), 1.5, .dtype = TN_FLOAT64);
    tn_set_requires_grad(shape, 1);
    tn_tensor *drawn = tn__standard_gamma(s, shape);
    tn_backward(s, tn_sum(s, drawn));
    cr_assert(tn_equal(s, tn_grad_of(s, shape),
                       tn__standard_gamma_grad(s, tn_detach(s, shape), tn_detach(s, drawn))));
}

ON_EACH_DEVICE(samples, dirichlet_slopes)
{
    tn_scope *s = p->s;
    tn_tensor *x = VECTOR(p, TN_FLOAT64, 0.3, 0.7, 0.2, 0.9, 0.01, 0.5, 0.55, 1e-5, 0.999, 0.95, 0.9);
    tn_tensor *alpha = VECTOR(p, TN_FLOAT64, 2, 0.5, 1, 3, 0.1, 50, 50, 0.01, 5, 0.5, 200);
    tn_tensor *total = VECTOR(p, TN_FLOAT64, 3, 1.5, 4, 5, 0.3, 100, 100, 0.5, 5.1, 9, 210);
    EXPECT_NEAR(p, tn__dirichlet_grad(s, x, alpha, total), 1e-11, 0.25799417235555771, 1.6644830717140844,
                0.28216517009625065, 0.27726502766380644, 0.76983685616775261, 0.010066932556332402,
                0.010555133428947288, 0.012915608972413223, 0.21880554658420574, 0.47614120709892037,
                0.0046396006836955466);
    /* Of Beta(a, 1), whose distribution function is x^a: -x ln x / a / (1 - x). */
    double at = 0.37, a = 3.5;
    EXPECT_NEAR(p,
                tn__dirichlet_grad(s, VECTOR(p, TN_FLOAT64, at), VECTOR(p, TN_FLOAT64, a),
                                   VECTOR(p, TN_FLOAT64, a + 1)),
                1e-12, -at * log(at) / a / (1 - at));
    /* Each row sums to 1, so its derivatives sum to 0. */
    tn_tensor *shape = VECTOR(p, TN_FLOAT64, 0.5, 2, 3);
    tn_set_requires_grad(shape, 1);
    tn_tensor *drawn = tn__sample_dirichlet(s, shape);
    tn_backward(s, tn_sum(s, drawn));
    EXPECT_NEAR(p, tn_grad_of(s, shape), 1e-12, 0, 0, 0);
}

/*
 * On a device without a kernel the samples come from the CPU. The device's seed decides them and the device's
 * counter advances, not the CPU's.
 */
ON_EACH_DEVICE(samples, the_seed_of_the_device_decides)
{
    tn_generator *own = tn_default_generator(p->ctx, p->device), *cpu = tn_default_generator(p->ctx, TN_CPU);
    tn_tensor *rate = full(p, 4.5, TN_FLOAT64), *x[3];
    for (int i = 0; i < 3; i++) {
        tn_manual_seed(p->ctx, 17);
        tn_generator_seed(own, i == 2 ? 12 : 11);
        if (own != cpu) tn_generator_seed(cpu, 100 + (uint64_t)i);
        x[i] = tn_poisson(p->s, rate);
    }
    cr_assert(tn_item_bool(p->s, tn_all(p->s, tn_eq(p->s, x[0], x[1]))));
    cr_assert_not(tn_item_bool(p->s, tn_all(p->s, tn_eq(p->s, x[0], x[2]))));
    /* The CPU draws the same samples from the same seed; its own counter was at 0. */
    tn_generator_state state = {.size = sizeof(state)};
    tn_generator_get_state(cpu, &state);
    if (own != cpu) cr_assert_eq(state.offset, 0);
    tn_generator_get_state(own, &state);
    cr_assert(state.seed == 12 && state.offset == N);
    tn_generator_seed(cpu, 12);
    tn_tensor *there =
        tn_poisson(p->s, tn_full(p->s, TN_INTS(N), 4.5, .dtype = TN_FLOAT64, .device = TN_CPU));
    cr_assert(
        tn_item_bool(p->s, tn_all(p->s, tn_eq(p->s, tn_to_device(p->s, x[2], TN_CPU, TN_FLOAT64), there))));
}
