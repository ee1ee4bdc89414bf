/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimisers against 20 steps of PyTorch's, schedules against its rates, from trajectories.safetensors, which
 * record_trajectories.py wrote; files and groups.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/optim.h>
#include <unistd.h>
#include "recorded.h"

TestSuite(trajectories, .init = open_file, .fini = close_file);

static void expect_same(const char *name, tn_tensor *got)
{
    tn_tensor *want = recorded(name);
    cr_assert(tn_allclose(s, tn_detach(s, got), want, .rtol = 1e-12, .atol = 1e-14),
              "%s is\n%s\nexpected\n%s", name, tn_format(s, tn_detach(s, got), NULL),
              tn_format(s, want, NULL));
}

/* A module with the two parameters that all optimisers start from. */
static tn_module *make_module(void)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_module_add_parameter(m, "a", tn_clone(s, recorded("start.0")));
    tn_module_add_parameter(m, "b", tn_clone(s, recorded("start.1")));
    return m;
}

static void set_gradients(tn_module *m, int64_t k)
{
    tn_set_grad(tn_module_tensor(m, "a"), tn_clone(s, tn_select(s, recorded("grads.0"), 0, k)));
    tn_set_grad(tn_module_tensor(m, "b"), tn_clone(s, tn_select(s, recorded("grads.1"), 0, k)));
}

static void expect_parameters(const char *name, int64_t k, tn_module *m)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%lld.0", name, (long long)k);
    expect_same(key, tn_module_tensor(m, "a"));
    snprintf(key, sizeof key, "%s.%lld.1", name, (long long)k);
    expect_same(key, tn_module_tensor(m, "b"));
}

/* Steps `from` to `to`; compares after those that were recorded. */
static void follow(const char *name, tn_module *m, tn_optimizer *o, int64_t from, int64_t to)
{
    cr_assert_not_null(o, "%s: %s", name, tn_last_error() ? tn_last_error()->message : "");
    for (int64_t k = from; k < to; k++) {
        set_gradients(m, k);
        cr_assert_eq(tn_optimizer_step(s, o), TN_OK, "%s: %s", name,
                     tn_scope_error(s) ? tn_scope_error(s)->message : "");
        if (k == 0 || k == 6 || k == 19) expect_parameters(name, k, m);
    }
}

/* Once with an operator at a time, once with one call for all, and once through a file in the middle. */
#define FOLLOW(name, kind, ...)                                                              \
    Test(trajectories, name)                                                                 \
    {                                                                                        \
        char folder[] = "/tmp/optim.XXXXXX", path[64];                                       \
        cr_assert_not_null(mkdtemp(folder));                                                 \
        snprintf(path, sizeof path, "%s/state", folder);                                     \
        for (int32_t fused = 0; fused < 2; fused++) {                                        \
            tn_module *m = make_module();                                                    \
            tn_optimizer *o = tn_##kind##_create(m, .fused = fused, __VA_ARGS__);            \
            follow(#name, m, o, 0, 11);                                                      \
            cr_assert_eq(tn_optimizer_save(o, path), TN_OK);                                 \
            tn_optimizer_destroy(o);                                                         \
            o = tn_##kind##_create(m, .fused = fused, .lr = 77);                             \
            cr_assert_eq(tn_optimizer_load(o, path), TN_OK, "%s", tn_last_error()->message); \
            follow(#name, m, o, 11, 20);                                                     \
            tn_optimizer_destroy(o);                                                         \
            tn_module_destroy(m);                                                            \
        }                                                                                    \
        unlink(path);                                                                        \
        rmdir(folder);                                                                       \
    }

FOLLOW(sgd, sgd, .lr = 0.1)
FOLLOW(sgd_momentum, sgd, .lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.05)
FOLLOW(sgd_nesterov, sgd, .lr = 0.1, .momentum = 0.8, .nesterov = 1, .maximize = 1)
FOLLOW(adam, adam, .lr = 0.1)
FOLLOW(adam_amsgrad, adam, .lr = 0.1, .amsgrad = 1, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.95)
FOLLOW(adamw, adamw, .lr = 0.05)
FOLLOW(adamw_amsgrad, adamw, .lr = 0.05, .weight_decay = 0.3, .amsgrad = 1, .maximize = 1)
FOLLOW(adagrad, adagrad, .lr = 0.1)
FOLLOW(adagrad_all, adagrad, .lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.1,
       .initial_accumulator_value = 0.5)
FOLLOW(adadelta, adadelta, .rho = 0.9)
FOLLOW(adadelta_all, adadelta, .lr = 0.5, .rho = 0.8, .weight_decay = 0.1)
FOLLOW(adamax, adamax, .beta1 = 0.9)
FOLLOW(adamax_all, adamax, .lr = 0.1, .weight_decay = 0.1)
FOLLOW(asgd, asgd, .alpha = 0.75)
FOLLOW(asgd_all, asgd, .lr = 0.1, .lambd = 0.01, .t0 = 5, .weight_decay = 0.1)
FOLLOW(nadam, nadam, .beta1 = 0.9)
FOLLOW(nadam_all, nadam, .lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = 1)
FOLLOW(radam, radam, .lr = 0.1)
FOLLOW(radam_all, radam, .lr = 0.1, .weight_decay = 0.1, .beta2 = 0.9)
FOLLOW(rmsprop, rmsprop, .alpha = 0.99)
FOLLOW(rmsprop_all, rmsprop, .lr = 0.05, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.7, .centered = 1)
FOLLOW(rprop, rprop, .step_max = 50)
FOLLOW(adafactor, adafactor, .d = 1)
FOLLOW(adafactor_all, adafactor, .lr = 0.3, .weight_decay = 0.1, .d = 1.5)

Test(trajectories, destroyed_twice_is_an_error_with_debug_handles)
{
    setenv("TENON_DEBUG", "handles", 1);
    tn_module *m = make_module();
    tn_optimizer *o = tn_sgd_create(m, .lr = 0.1);
    tn_average *a = tn_average_create(m, 0.9);
    tn_optimizer_destroy(o);
    tn_optimizer_destroy(o);
    expect_last_error("optimizer was destroyed and is destroyed again at ");
    cr_assert_eq(tn_optimizer_step(s, o), TN_E_DEAD_HANDLE);
    expect_error(s, "was destroyed and is used again");
    tn_average_destroy(a);
    tn_average_destroy(a);
    expect_last_error("average was destroyed and is destroyed again at ");
    cr_assert_eq(tn_average_update(s, a), TN_E_DEAD_HANDLE);
    expect_error(s, "average was destroyed and is used again");
    tn_module_destroy(m);
    unsetenv("TENON_DEBUG");
}

static tn_tensor *not_called(void *user, tn_scope *scope)
{
    cr_assert_fail("a closure of an optimiser that was destroyed");
    return NULL;
}

/* Not one of the calls works on what is gone, or writes a file of it. */
Test(trajectories, other_calls_of_what_was_destroyed_are_errors_with_debug_handles)
{
    setenv("TENON_DEBUG", "handles", 1);
    tn_module *m = make_module();
    tn_optimizer *o = tn_sgd_create(m, .lr = 0.1), *l = tn_lbfgs_create(m, .lr = 1);
    tn_average *a = tn_average_create(m, 0.9);
    tn_grad_scaler *g = tn_grad_scaler_create(ctx, NULL), *other = tn_grad_scaler_create(ctx, NULL);
    const tn_grad_scaler_state state = {.size = sizeof state, .scale = 1};
    char folder[] = "/tmp/optim.XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    const tn_named_tensors none = {NULL, 0};
    tn_optimizer_destroy(o);
    tn_optimizer_destroy(l);
    tn_average_destroy(a);
    tn_grad_scaler_destroy(g);
    cr_assert_null(tn_optimizer_step_closure(s, l, not_called, m));
    expect_error(s, "LBFGS: it was destroyed and is used again");
    cr_assert_null(tn_optimizer_tensors(s, o).data);
    expect_error(s, "SGD: it was destroyed and is used again");
    cr_assert_eq(tn_optimizer_save(o, path), TN_E_DEAD_HANDLE);
    cr_assert_eq(rmdir(folder), 0); /* it is empty */
    cr_assert_eq(tn_optimizer_load(o, path), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_optimizer_load_state(o, none), TN_E_DEAD_HANDLE);
    tn_optimizer_zero_grad(o);
    expect_last_error("SGD: it was destroyed and is used again");
    cr_assert_null(tn_average_tensors(s, a).data);
    expect_error(s, "average was destroyed and is used again");
    cr_assert_eq(tn_average_load_state(a, none), TN_E_DEAD_HANDLE);
    cr_assert_null(tn_grad_scaler_scale(s, g, tn_ones(s, TN_INTS(1))));
    expect_error(s, "grad scaler was destroyed and is used again");
    cr_assert_eq(tn_grad_scaler_set_state(g, &state), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_grad_scaler_unscale(s, other, o), TN_E_DEAD_HANDLE);
    expect_error(s, "SGD: it was destroyed and is used again");
    tn_optimizer *living = tn_sgd_create(m, .lr = 0.1);
    cr_assert_eq(tn_grad_scaler_step(s, g, living, NULL), TN_E_DEAD_HANDLE);
    expect_error(s, "grad scaler was destroyed and is used again");
    tn_grad_scaler_destroy(other);
    tn_optimizer_destroy(living);
    tn_module_destroy(m);
    unsetenv("TENON_DEBUG");
}

/* ---- Rates */

#define RATE(name, call)                                                                                 \
    do {                                                                                                 \
        double want[30];                                                                                 \
        cr_assert_eq(tn_to_host(s, recorded("rate." #name), want, sizeof want), TN_OK);                  \
        for (int64_t i = 0; i < 30; i++)                                                                 \
            cr_assert_float_eq(call, want[i], 1e-14, #name " %lld: %.17g, expected %.17g", (long long)i, \
                               call, want[i]);                                                           \
    } while (0)

Test(trajectories, rates)
{
    RATE(step, tn_lr_step(i, 0.5, 7, 0.3));
    RATE(multi_step, tn_lr_multi_step(i, 0.5, TN_INTS(4, 11, 12), 0.5));
    RATE(constant, tn_lr_constant(i, 0.5, 0.25, 6));
    RATE(linear, tn_lr_linear(i, 0.5, 0.2, 0.9, 12));
    RATE(exponential, tn_lr_exponential(i, 0.5, 0.9));
    RATE(polynomial, tn_lr_polynomial(i, 0.5, 15, 2));
    RATE(cosine, tn_lr_cosine(i, 0.5, 20, 0.01));
    RATE(cosine_restarts, tn_lr_cosine_restarts(i, 0.5, 4, 2, 0.01));
    RATE(cyclic, tn_lr_cyclic(i, 0.01, 0.5, 4, 6, "triangular2", 1));
    RATE(cyclic_exp, tn_lr_cyclic(i, 0.01, 0.5, 5, 5, "exp_range", 0.95));
    RATE(one_cycle, tn_lr_one_cycle(i, 0.5, 30, 0.3, 25, 1e4));
}

/* A first measure that is not finite is worse than all later ones: ReduceLROnPlateau of PyTorch keeps the rate. */
Test(trajectories, a_plateau_whose_first_measure_is_not_finite)
{
    const double firsts[] = {INFINITY, NAN};
    for (int k = 0; k < 8; k++) {
        const int32_t up = k & 1, is_absolute = k >> 1 & 1;
        tn_plateau p = {.lr = 1, .patience = 1, .higher_is_better = up, .is_absolute = is_absolute};
        cr_assert_eq(tn_plateau_step(&p, firsts[k >> 2] * (up ? -1 : 1)), 1);
        for (int i = 10; i > 4; i--)
            cr_assert_eq(tn_plateau_step(&p, up ? -i : i), 1, "measure %d of kind %d", i, k);
        cr_assert_eq(tn_plateau_step(&p, up ? -9 : 9), 1);
        cr_assert_float_eq(tn_plateau_step(&p, up ? -9 : 9), 0.1, 1e-15);
    }
}

Test(trajectories, a_cycle_that_begins_at_its_top)
{
    cr_assert_eq(tn_lr_one_cycle(0, 1, 10, 0.1, 25, 1e4), 1);
    cr_assert_float_eq(tn_lr_one_cycle(9, 1, 10, 0.1, 25, 1e4), 4e-6, 1e-15);
}

Test(trajectories, restarts_of_a_long_run, .timeout = 10)
{
    for (int64_t i = 0; i < 8; i++) {
        cr_assert_eq(tn_lr_cosine_restarts((1ll << 60) + i, 1, 4, 1, 0.1),
                     tn_lr_cosine_restarts(i % 4, 1, 4, 1, 0.1));
        cr_assert_eq(tn_lr_cosine_restarts((1ll << 60) - 4 + i, 1, 4, 2, 0.1),
                     tn_lr_cosine(i, 1, 1ll << 60, 0.1));
    }
}

Test(trajectories, plateau)
{
    double want[20], measures[20];
    tn_plateau p = {.lr = 0.5, .patience = 2, .factor = 0.5, .cooldown = 1, .low = 0.1};
    tn_to_host(s, recorded("rate.plateau"), want, sizeof want);
    tn_to_host(s, recorded("measures"), measures, sizeof measures);
    for (int i = 0; i < 20; i++) {
        double rate = tn_plateau_step(&p, measures[i]);
        cr_assert_float_eq(rate, want[i], 0, "%d: %g, expected %g", i, rate, want[i]);
    }
}

/* ---- Groups and errors */

Test(trajectories, a_group_takes_what_it_is_not_given_from_the_first)
{
    tn_module *m = make_module();
    tn_optimizer *o = tn_adam_create(m, .lr = 0.5, .beta2 = 0.75, .weight_decay = 0.125);
    tn_tensor *c = VECTOR(s, 1, 1, 2);
    cr_assert_eq(tn_optimizer_add_group(o, TN_TENSORS(c), .lr = 0.25), TN_OK);
    const tn_optimizer_options *g = tn_optimizer_group(o, 1);
    cr_assert(g->lr == 0.25 && g->beta1 == 0.9 && g->beta2 == 0.75 && g->eps == 1e-8 &&
              g->weight_decay == 0.125);
    cr_assert(g->fused == tn_optimizer_group(o, 0)->fused && g->amsgrad == 0);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

Test(trajectories, a_rate_of_zero_moves_nothing_and_wrong_ones_are_refused)
{
    tn_module *m = make_module();
    tn_tensor *a = tn_module_tensor(m, "a");
    tn_optimizer *o = tn_sgd_create(m, .lr = 0.5);
    set_gradients(m, 0);
    tn_tensor *before = tn_clone(s, tn_detach(s, a));
    cr_assert_eq(tn_optimizer_step(s, o, .lr = tn_lr_linear(0, 0.5, 0, 1, 10)), TN_OK);
    cr_assert(tn_equal(s, before, tn_detach(s, a)));
    cr_assert_eq(tn_optimizer_group(o, 0)->lr, 0);
    const double wrong[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(tn_optimizer_step(s, o, .lr = wrong[i]), TN_E_ARGUMENT);
        char text[96];
        snprintf(text, sizeof text, "SGD: step: lr must be 0 or more, and finite, got %g", wrong[i]);
        cr_assert_not_null(strstr(tn_scope_error(s)->message, text), "%s", tn_scope_error(s)->message);
        tn_scope_clear(s);
        tn_optimizer_group(o, 0)->lr = wrong[i];
        cr_assert_eq(tn_optimizer_step(s, o), TN_E_ARGUMENT);
        snprintf(text, sizeof text, "SGD: lr: must be 0 or more, and finite, got %g", wrong[i]);
        cr_assert_not_null(strstr(tn_scope_error(s)->message, text), "%s", tn_scope_error(s)->message);
        tn_scope_clear(s);
        tn_optimizer_group(o, 0)->lr = 0.5;
    }
    cr_assert_eq(tn_optimizer_step(s, o, .clip_norm = -1), TN_E_ARGUMENT);
    expect_error(s, "SGD: step: clip_norm must be 0 or more, got -1");
    cr_assert_eq(tn_optimizer_step(s, o, .clip_norm = NAN), TN_E_ARGUMENT);
    tn_scope_clear(s);
    cr_assert(tn_equal(s, before, tn_detach(s, a)));
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

Test(trajectories, calls_without_an_object_say_so)
{
    cr_assert_null(tn_sgd_create(NULL, .lr = 1));
    expect_last_error("optimizer: the module is NULL");
    cr_assert_eq(tn_optimizer_save(NULL, "x"), TN_E_STATE);
    expect_last_error("optimizer: tn_optimizer_save: it is NULL");
    cr_assert_eq(tn_optimizer_load(NULL, "x"), TN_E_STATE);
    cr_assert_eq(tn_optimizer_add_group(NULL, TN_TENSORS(NULL), .lr = 1), TN_E_STATE);
    cr_assert_eq(tn_average_update(s, NULL), TN_E_STATE);
    tn_scope_clear(s);
    cr_assert_null(tn_grad_scaler_scale(s, NULL, VECTOR(s, 1)));
    tn_scope_clear(s);
    cr_assert_eq(tn_grad_scaler_unscale(s, NULL, NULL), TN_E_STATE);
    tn_scope_clear(s);
    cr_assert(isnan(tn_plateau_step(NULL, 1)));
}

/* Also without TENON_DEBUG. */
Test(trajectories, a_module_that_was_destroyed_is_an_error)
{
    tn_module *m = tn_module_create(ctx, "net", NULL);
    tn_linear_create(m, "fc", 2, 1);
    tn_optimizer *o = tn_sgd_create(m, .lr = 1), *of_none;
    tn_average *a = tn_average_create(m, 0);
    tn_tensor *weight = tn_module_tensor(m, "fc.weight");
    of_none = tn_sgd_create_of(ctx, TN_TENSORS(weight), .lr = 1);
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    cr_assert_eq(tn_average_update(s, a), TN_OK);
    tn_module_destroy(m);
    cr_assert_eq(tn_optimizer_step(s, o), TN_E_DEAD_HANDLE);
    expect_error(s, "SGD: module 'net' was destroyed");
    cr_assert_neq(tn_optimizer_load_state(o, (tn_named_tensors){NULL, 0}), TN_OK);
    expect_last_error("SGD: module 'net' was destroyed");
    cr_assert_eq(tn_average_update(s, a), TN_E_DEAD_HANDLE);
    expect_error(s, "average: module 'net' was destroyed");
    cr_assert_eq(tn_average_swap(s, a), TN_E_DEAD_HANDLE);
    tn_scope_clear(s);
    cr_assert_null(tn_average_tensors(s, a).data);
    expect_error(s, "average: module 'net' was destroyed");
    cr_assert_eq(tn_average_load_state(a, (tn_named_tensors){NULL, 0}), TN_E_DEAD_HANDLE);
    /* One of tensors has references of its own. */
    cr_assert_eq(tn_optimizer_step(s, of_none), TN_OK);
    tn_optimizer_destroy(of_none);
    tn_optimizer_destroy(o);
    tn_average_destroy(a);
}

Test(trajectories, a_warm_up_ends_at_zero)
{
    cr_assert_eq(tn_lr_warm_up_cosine(100, 1, 10, 100), 0);
    cr_assert_eq(tn_lr_warm_up_cosine(200, 1, 10, 100), 0);
    cr_assert_float_eq(tn_lr_warm_up_cosine(55, 1, 10, 100), 0.5, 1e-15);
}

Test(trajectories, groups_and_decay_by_parameter)
{
    tn_module *m = make_module();
    tn_tensor *a = tn_module_tensor(m, "a"), *b = tn_module_tensor(m, "b");
    tn_optimizer *o = tn_sgd_create(m, .lr = 0.5, .weight_decay = 0.2, .decay_if = tn_rank_over_1);
    set_gradients(m, 0);
    tn_tensor *want_a = tn_sub(s, tn_detach(s, a),
                               tn_mul_scalar(s,
                                             tn_add(s, tn_select(s, recorded("grads.0"), 0, 0),
                                                    tn_detach(s, a), .alpha = TN_SCALAR(0.2)),
                                             0.5));
    tn_tensor *want_b =
        tn_sub(s, tn_detach(s, b), tn_mul_scalar(s, tn_select(s, recorded("grads.1"), 0, 0), 0.5));
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    cr_assert(tn_allclose(s, tn_detach(s, a), want_a, .rtol = 1e-14));
    cr_assert(tn_allclose(s, tn_detach(s, b), want_b, .rtol = 1e-14));
    tn_optimizer_options group = *tn_optimizer_group(o, 0);
    cr_assert_eq(tn_optimizer_add_group_with(o, TN_TENSORS(b), &group), TN_E_EXISTS);
    cr_assert_eq(tn_optimizer_group_count(o), 1);
    tn_tensor *c = VECTOR(s, 1, 1, 2);
    group.lr = 1;
    group.decay_if = NULL;
    cr_assert_eq(tn_optimizer_add_group_with(o, TN_TENSORS(c), &group), TN_OK);
    tn_optimizer_zero_grad(o);
    cr_assert_null(tn_grad_of(s, a));
    tn_set_grad(c, VECTOR(s, 0, 1, 1));
    tn_tensor *before = tn_clone(s, tn_detach(s, a));
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    EXPECT(s, tn_detach(s, c), -0.2, 0.6);
    cr_assert(tn_equal(s, before, tn_detach(s, a)), "a parameter without a gradient is left alone");
    cr_assert_eq(tn_optimizer_step(s, o, .lr = 0.25), TN_OK);
    cr_assert_float_eq(tn_optimizer_group(o, 1)->lr, 0.25, 0);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

Test(trajectories, bad_options_are_named)
{
    tn_module *m = make_module();
    cr_assert_null(tn_adam_create(m, .beta2 = 1));
    expect_last_error("Adam: beta2: must be from 0 to 1, 1 not included, got 1");
    cr_assert_null(tn_sgd_create(m, .nesterov = 1));
    expect_last_error("SGD: nesterov: needs a momentum and no dampening, got momentum 0 and dampening 0");
    cr_assert_null(tn_sgd_create(m, .lr = -1));
    expect_last_error("lr");
    cr_assert_null(tn_lbfgs_create(m, .line_search = "other"));
    expect_last_error("LBFGS: line_search: must be NULL or \"strong_wolfe\", got \"other\"");
    cr_assert_null(tn_optimizer_create(
        99, &(tn_optimizer_options){.options_size = sizeof(tn_optimizer_options), .module = m}));
    expect_last_error("optimizer: kind: not one of TN_SGD to TN_SPARSEADAM, got 99");
    cr_assert_null(tn_lbfgs_create(m, .max_iter = -3));
    expect_last_error("LBFGS: max_iter: must be 1 or more, got -3");
    tn_module *empty = tn_module_create(ctx, "empty", NULL);
    cr_assert_null(tn_sgd_create(empty, .lr = 1));
    expect_last_error("SGD: optimizer got an empty parameter list");
    tn_tensor *leaf = tn_ones(s, TN_INTS(2)), *computed = tn_mul_scalar(s, tn_module_tensor(m, "a"), 2);
    cr_assert_null(tn_sgd_create_of(ctx, TN_TENSORS(leaf, leaf), .lr = 1));
    expect_last_error("SGD: parameter 1 is in group 0 already");
    cr_assert_null(tn_sgd_create_of(ctx, TN_TENSORS(leaf, NULL), .lr = 1));
    expect_last_error("SGD: parameter 1 is NULL");
    cr_assert_null(tn_sgd_create_of(ctx, TN_TENSORS(computed), .lr = 1));
    expect_last_error("SGD: parameter 0 is not a leaf: an operator computed it");
    tn_module_destroy(empty);
    cr_assert(isnan(tn_lr_cyclic(1, 0, 1, 2, 2, "triangulr", 1)));
    cr_assert_null(tn_optimizer_create(99, NULL));
    tn_optimizer *o = tn_lbfgs_create(m, .lr = 1);
    cr_assert_neq(tn_optimizer_step(s, o), TN_OK);
    expect_error(s, "tn_optimizer_step_closure");
    cr_assert_eq(tn_optimizer_save(o, "/tmp/never"), TN_E_UNSUPPORTED);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

/* A module whose parameters are one name and one size different, in another dtype. */
static tn_module *module_of(const char *name, int64_t rows, tn_dtype dtype)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_module_add_parameter(m, name, tn_ones(s, TN_INTS(rows, 3), .dtype = dtype));
    tn_set_grad(tn_module_tensor(m, name), tn_ones(s, TN_INTS(rows, 3), .dtype = dtype));
    return m;
}

static void expect_refused_file(const char *path, tn_module *m, int32_t status, const char *text)
{
    tn_optimizer *o = tn_adam_create(m, .lr = 0.5);
    cr_assert_eq(tn_optimizer_load(o, path), status, "%s: %d", text, tn_last_error()->code);
    expect_last_error(text);
    cr_assert_eq(tn_optimizer_group(o, 0)->lr, 0.5);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

/* The null device's memory has addresses of the host, as that of integrated devices has, whose work may not have finished. */
Test(trajectories, the_kind_is_not_read_from_memory_of_a_device)
{
    tn_module *m = module_of("w", 2, TN_FLOAT32);
    tn_optimizer *o = tn_adam_create(m, .lr = 0.25);
    tn_named_tensors state = tn_optimizer_tensors(s, o);
    cr_assert_eq(tn_optimizer_load_state(o, state), TN_OK);
    tn_named_tensor changed[64];
    cr_assert_leq(state.count, 64);
    for (int64_t i = 0; i < state.count; i++) {
        changed[i] = state.data[i];
        if (!strcmp(changed[i].name, "#kind"))
            changed[i].tensor = tn_to_device(s, changed[i].tensor, tn_device_parse(ctx, "null:0"), TN_UINT8);
    }
    state.data = changed;
    cr_assert_eq(tn_optimizer_load_state(o, state), TN_E_ARGUMENT);
    expect_last_error("the file is of another optimizer");
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

Test(trajectories, files_of_other_parameters_are_refused)
{
    char folder[] = "/tmp/optim.XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    tn_module *m = module_of("w", 2, TN_FLOAT32);
    tn_optimizer *o = tn_adam_create(m, .lr = 0.25);
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    cr_assert_eq(tn_optimizer_save(o, path), TN_OK);
    expect_refused_file(path, module_of("w", 4, TN_FLOAT32), TN_E_SHAPE,
                        "Adam: state 'w.exp_avg' of the file does not have the parameter's sizes");
    expect_refused_file(path, module_of("v", 2, TN_FLOAT32), TN_E_NOT_FOUND,
                        "Adam: the file's parameters are not these: missing: 'v'; unexpected: 'w'");
    tn_optimizer_add_group(o, TN_TENSORS(VECTOR(s, 1, 1)), .lr = 1);
    cr_assert_eq(tn_optimizer_save(o, path), TN_OK);
    expect_refused_file(path, module_of("w", 2, TN_FLOAT32), TN_E_NOT_FOUND, "unexpected: '1'");
    tn_optimizer *sgd = tn_sgd_create(m, .lr = 1);
    char text[128];
    snprintf(text, sizeof text, "SGD: the file is of another optimizer, Adam (file '%s')", path);
    cr_assert_eq(tn_optimizer_load(sgd, path), TN_E_ARGUMENT);
    expect_last_error(text);
    cr_assert_eq(tn_optimizer_load_state(sgd, (tn_named_tensors){NULL, 0}), TN_E_ARGUMENT);
    expect_last_error("SGD: the file has no state of an optimizer ('#kind')");
    const tn_named_tensor run[] = {{"optimizer.#kind", tn_ones(s, TN_INTS(1))}};
    cr_assert_eq(tn_optimizer_load_state(sgd, (tn_named_tensors){run, 1}), TN_E_ARGUMENT);
    expect_last_error("SGD: the file is a checkpoint, which tn_checkpoint_load reads");
    tn_optimizer_destroy(sgd);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
    /* States are cast as PyTorch casts them, and steps go on. */
    m = module_of("w", 2, TN_FLOAT32);
    o = tn_adam_create(m, .lr = 0.25);
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    cr_assert_eq(tn_optimizer_save(o, path), TN_OK);
    tn_module *other = module_of("w", 2, TN_FLOAT64);
    tn_optimizer *wide = tn_adam_create(other, .lr = 1);
    cr_assert_eq(tn_optimizer_load(wide, path), TN_OK);
    tn_tensor *mean = tn_optimizer_state(wide, tn_module_tensor(other, "w"), "exp_avg");
    cr_assert_eq(tn_tensor_dtype(mean), TN_FLOAT64);
    cr_assert_float_eq(tn_item_double(s, tn_max(s, mean)), 0.1, 1e-7);
    cr_assert_eq(tn_optimizer_step(s, wide), TN_OK);
    tn_optimizer_destroy(wide);
    tn_module_destroy(other);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
    unlink(path);
    rmdir(folder);
}

Test(trajectories, moved_modules_go_on)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_module_add_parameter(m, "p", VECTOR(s, 0, 1, 2));
    tn_optimizer *o = tn_sgd_create(m, .lr = 1, .momentum = 0.5);
    tn_average *mean = tn_average_create(m, 0);
    tn_set_grad(tn_module_tensor(m, "p"), VECTOR(s, 0, 1, 1));
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK); /* 0, 1 with a momentum of 1 */
    cr_assert_eq(tn_average_update(s, mean), TN_OK);
    cr_assert_eq(tn_module_to(m, 0, TN_FLOAT32), TN_OK);
    tn_tensor *p = tn_module_tensor(m, "p");
    tn_set_grad(p, tn_ones(s, TN_INTS(2)));
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    EXPECT(s, tn__to_copy(s, tn_detach(s, p), .dtype = TN_FLOAT64), -1.5, -0.5);
    cr_assert_eq(tn_tensor_dtype(tn_optimizer_state(o, p, "momentum_buffer")), TN_FLOAT32);
    tn_optimizer_zero_grad(o);
    cr_assert_null(tn_grad_of(s, p));
    cr_assert_eq(tn_average_update(s, mean), TN_OK);
    cr_assert_eq(tn_average_swap(s, mean), TN_OK);
    EXPECT(s, tn__to_copy(s, tn_detach(s, tn_module_tensor(m, "p")), .dtype = TN_FLOAT64), -0.75, 0.25);
    tn_average_destroy(mean);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

Test(trajectories, complex_parameters_are_pairs)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_module_add_parameter(
        m, "z", tn_view_as_complex(s, tn_clone(s, tn_reshape(s, recorded("start.1"), TN_INTS(2, 2)))));
    tn_optimizer *o = tn_adam_create(m, .lr = 0.1);
    tn_tensor *z = tn_module_tensor(m, "z");
    for (int64_t k = 0; k < 20; k++) {
        tn_tensor *g = tn_clone(s, tn_select(s, recorded("grads.1"), 0, k));
        tn_set_grad(z, tn_view_as_complex(s, tn_reshape(s, g, TN_INTS(2, 2))));
        cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    }
    expect_same("adam.19.1", tn_reshape(s, tn_view_as_real(s, tn_detach(s, z)), TN_INTS(4)));
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

/* ---- Muon */

/* Its products are in bfloat16, whose roundings differ between libraries: a few units of 2^-8 in each step of 0.1. */
static void follow_muon(const char *name, tn_optimizer *o, tn_tensor *p)
{
    cr_assert_not_null(o, "%s", tn_last_error() ? tn_last_error()->message : "");
    for (int64_t k = 0; k < 20; k++) {
        char key[64];
        tn_set_grad(p, tn_clone(s, tn_select(s, recorded("grads.0"), 0, k)));
        cr_assert_eq(tn_optimizer_step(s, o), TN_OK, "%s",
                     tn_scope_error(s) ? tn_scope_error(s)->message : "");
        if (k != 0 && k != 6 && k != 19) continue;
        snprintf(key, sizeof key, "%s.%lld.0", name, (long long)k);
        double off = tn_item_double(s, tn_max(s, tn_abs(s, tn_sub(s, tn_detach(s, p), recorded(key)))));
        cr_assert_lt(off, 0.1 * 0x1p-7 * (double)(k + 1), "%s: %g", key, off);
    }
    tn_optimizer_destroy(o);
}

Test(trajectories, muon)
{
    for (int32_t rms = 0; rms < 2; rms++) {
        tn_module *m = tn_module_create(ctx, "m", NULL);
        tn_tensor *p = tn_module_add_parameter(m, "a", tn_clone(s, recorded("start.0")));
        if (rms)
            follow_muon("muon_rms",
                        tn_muon_create(m, .lr = 0.1, .weight_decay = 0.3, .nesterov = 0, .ns_steps = 4,
                                       .adjust_lr = "match_rms_adamw"),
                        p);
        else
            follow_muon("muon", tn_muon_create(m, .lr = 0.1), p);
        tn_module_destroy(m);
    }
}

Test(trajectories, a_group_of_muon_has_the_options_of_the_first)
{
    tn_tensor *other = tn_clone(s, recorded("start.0")), *p = tn_clone(s, recorded("start.0"));
    tn_optimizer *o = tn_muon_create_of(ctx, TN_TENSORS(other), .lr = 0.1, .weight_decay = 0.3, .nesterov = 0,
                                        .ns_steps = 4, .adjust_lr = "match_rms_adamw");
    cr_assert_eq(tn_optimizer_add_group(o, TN_TENSORS(p)), TN_OK);
    follow_muon("muon_rms", o, p);
}

Test(trajectories, what_muon_and_sparseadam_refuse)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_linear_create(m, "fc", 2, 3);
    cr_assert_null(tn_muon_create(m, .lr = 0.1));
    expect_last_error("Muon: only supports 2D parameters; 'fc.bias' has 1 dimensions");
    tn_module_set_absent(tn_module_child(m, "fc"), "bias");
    cr_assert_null(tn_muon_create(m, .adjust_lr = "other"));
    expect_last_error("Muon: adjust_lr: must be NULL");
    cr_assert_null(tn_muon_create(m, .ns_steps = 100));
    expect_last_error("Muon: ns_steps: must be from 0 to 99");
    cr_assert_null(tn_sparseadam_create(m, .lr = 0.1));
    cr_assert_eq(tn_last_error()->code, TN_E_UNSUPPORTED);
    expect_last_error("SparseAdam: there are no sparse gradients; use tn_adam_create");
    tn_module_destroy(m);
}

/* What would be ignored is refused, with what the optimizer has; what is as if it were not given is not. */
Test(trajectories, an_option_of_another_optimizer_is_refused_by_name)
{
    tn_module *m = make_module();
    cr_assert_null(tn_adam_create(m, .momentum = 0.9));
    expect_last_error(
        "Adam: option 'momentum': not an option of Adam (it has lr, maximize, fused, weight_decay, "
        "decay_if, beta1, beta2, eps, amsgrad, decoupled_weight_decay)");
    cr_assert_null(tn_sgd_create(m, .beta1 = 0.9));
    expect_last_error("SGD: option 'beta1': not an option of SGD (it has lr, maximize, fused, weight_decay, "
                      "decay_if, momentum, dampening, nesterov)");
    cr_assert_null(tn_adam_create(m, .nesterov = 1));
    expect_last_error("Adam: option 'nesterov'");
    cr_assert_null(tn_rmsprop_create(m, .dampening = 0.5));
    expect_last_error("RMSprop: option 'dampening'");
    cr_assert_null(tn_adagrad_create(m, .line_search = "strong_wolfe"));
    expect_last_error("Adagrad: option 'line_search'");
    cr_assert_null(tn_rprop_create(m, .weight_decay = 0.1));
    expect_last_error("Rprop: option 'weight_decay'");
    tn_optimizer *o = tn_adam_create(m, .momentum = 0, .nesterov = 0);
    cr_assert_not_null(o);
    tn_tensor *c = VECTOR(s, 1, 1, 2);
    cr_assert_eq(tn_optimizer_add_group(o, TN_TENSORS(c), .rho = 0.5), TN_E_ARGUMENT);
    expect_last_error("Adam: option 'rho'");
    tn_optimizer_group(o, 0)->momentum = 0.9;
    cr_assert_eq(tn_optimizer_step(s, o), TN_E_ARGUMENT);
    expect_error(s, "Adam: option 'momentum'");
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

Test(trajectories, options_without_a_size_are_refused_with_what_to_set)
{
    tn_module *m = make_module();
    cr_assert_null(tn_optimizer_create(TN_SGD, &(tn_optimizer_options){.module = m, .lr = 0.1}));
    expect_last_error("SGD: tn_optimizer_options: options_size is 0; set it to sizeof(tn_optimizer_options)");
    cr_assert_null(tn_optimizer_create_of(ctx, TN_TENSORS(tn_module_tensor(m, "a")), TN_SGD, NULL));
    expect_last_error("SGD: the options are NULL");
    tn_module_destroy(m);
}

/* Adam with decoupled_weight_decay is AdamW, step by step. */
Test(trajectories, adam_with_decoupled_decay_is_adamw)
{
    for (int32_t fused = 0; fused < 2; fused++) {
        tn_module *m = make_module();
        tn_optimizer *o = tn_adam_create(m, .lr = 0.05, .weight_decay = 0.3, .amsgrad = 1, .maximize = 1,
                                         .decoupled_weight_decay = 1, .fused = fused);
        follow("adamw_amsgrad", m, o, 0, 20);
        tn_optimizer_destroy(o);
        tn_module_destroy(m);
    }
}

/* A step may be left out: then the next gradients must not be added to those of a tensor that the optimiser has not seen. */
Test(trajectories, gradients_of_a_module_that_moved_are_set_to_zero)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_linear_create(m, "fc", 1, 1, .bias = 0);
    tn_optimizer *o = tn_sgd_create(m, .lr = 1);
    cr_assert_eq(tn_module_to(m, 0, TN_FLOAT64), TN_OK);
    for (int i = 0; i < 2; i++) {
        tn_optimizer_zero_grad(o);
        tn_backward(s, tn_sum(s, tn_module_forward(s, m, tn_ones(s, TN_INTS(1, 1), .dtype = TN_FLOAT64))));
        EXPECT(s, tn_grad_of(s, tn_module_tensor(m, "fc.weight")), 1);
    }
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

/* The buffer begins as the gradient whenever momentum begins, as in PyTorch. */
Test(trajectories, momentum_that_comes_after_the_first_step)
{
    for (int fused = 0; fused < 2; fused++) {
        tn_tensor *a = VECTOR(s, 1, 0), *b = VECTOR(s, 1, 0);
        tn_optimizer *o = tn_sgd_create_of(ctx, TN_TENSORS(a, b), .lr = 1, .fused = fused);
        tn_set_grad(a, VECTOR(s, 0, 1));
        cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
        tn_optimizer_group(o, 0)->momentum = 0.9;
        tn_optimizer_group(o, 0)->dampening = 0.5;
        for (int i = 0; i < 2; i++) {
            tn_set_grad(a, VECTOR(s, 0, 1));
            if (i) tn_set_grad(b, VECTOR(s, 0, 1));
            cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
        }
        EXPECT(s, tn_detach(s, a), -1 - 1 - (0.9 + 0.5));
        EXPECT(s, tn_detach(s, b), -1);
        tn_optimizer_destroy(o);
    }
}

/* The optimiser trains the parameter under whichever name it has. */
static void expect_step(tn_module *fc, tn_optimizer *o, const char *name, double expected)
{
    tn_tensor *before = tn_clone(s, tn_detach(s, tn_module_tensor(fc, name)));
    tn_backward(s, tn_sum(s, tn_module_forward(s, fc, tn_ones(s, TN_INTS(1, 2), .dtype = TN_FLOAT64))));
    tn_optimizer_step(s, o);
    tn_optimizer_zero_grad(o);
    tn_tensor *moved = tn_sub(s, tn_detach(s, tn_module_tensor(fc, name)), before);
    double most = tn_item_double(s, tn_max(s, tn_abs(s, moved)));
    cr_assert_float_eq(most, expected, 1e-12, "%s: %g, expected %g", name, most, expected);
}

Test(trajectories, a_parameter_that_is_pruned_or_no_longer_so_is_trained_on)
{
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_module_to(net, 0, TN_FLOAT64);
    tn_module *fc = tn_linear_create(net, "a.fc", 2, 2);
    tn_prune_l1_unstructured(fc, "weight", 1);
    tn_optimizer *o = tn_sgd_create(net, .lr = 0.5, .momentum = 0.9);
    expect_step(fc, o, "weight_orig", 0.5);
    cr_assert_eq(tn_prune_remove(fc, "weight"), TN_OK);
    expect_step(fc, o, "weight", 0.5 * 1.9); /* with the momentum of the step before */
    cr_assert_eq(tn_prune_l1_unstructured(fc, "weight", 1), TN_OK);
    expect_step(fc, o, "weight_orig", 0.5 * (0.9 * 1.9 + 1));
    tn_optimizer_destroy(o);
    tn_module_destroy(net);
}

Test(trajectories, an_optimizer_that_could_not_be_made_says_why_when_it_is_used)
{
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(net, "fc", 2, 2);
    tn_optimizer *o = tn_sgd_create(net, .momentum = -1);
    const int line = __LINE__ - 1; /* the place of the call that failed, in the error of the next one */
    char text[256];
    snprintf(text, sizeof text, "it is NULL (the last error: %s:%d: SGD: ", __FILE__, line);
    cr_assert_null(o);
    tn_optimizer_step(s, o);
    expect_error(s, text);
    tn_module_destroy(net);
}
