/* SPDX-License-Identifier: Apache-2.0 */
/* Averages of parameters, and the scaler of gradients. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/checkpoint.h>
#include <unistd.h>
#include "../autograd/suite.h"

TestSuite(averages, .init = begin, .fini = end);

/* A module with one parameter. */
static tn_module *module_of(double first, double second, tn_tensor **out)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    *out = tn_module_add_parameter(m, "p", VECTOR(s, 1, first, second));
    return m;
}

Test(averages, are_exchanged_as_a_whole)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_tensor *a = tn_module_add_parameter(m, "a", VECTOR(s, 0, 1));
    tn_module_add_parameter(m, "b", VECTOR(s, 0, 2));
    tn_average *mean = tn_average_create(m, 0.5);
    tn_init_constant(s, a, 5);
    tn_module_set_absent(m, "b");
    tn_module_set_tensor(m, "b", VECTOR(s, 0, 6, 7));
    cr_assert_eq(tn_average_swap(s, mean), TN_E_SHAPE);
    expect_error(s, "average: parameter 'b' has other sizes than its mean");
    cr_assert_eq(tn_average_update(s, mean), TN_E_SHAPE);
    tn_scope_clear(s);
    EXPECT(s, tn_detach(s, a), 5);
    tn_average_destroy(mean);
    tn_module_destroy(m);
}

/* The mean of a parameter stays its own: in the list a pruned parameter stands behind the others. */
Test(averages, of_pruned_and_parametrized_parameters)
{
    tn_module *m = tn_module_create(ctx, "m", NULL), *fc = tn_linear_create(m, "fc", 2, 2);
    tn_module_to(m, 0, TN_FLOAT64);
    tn_average *a = tn_average_create(m, 0.5);
    static const char *const names[] = {"fc.weight", "fc.weight_orig", "fc.weight",
                                        "fc.parametrizations.weight.original"};
    for (int k = 0; k < 4; k++) {
        if (k == 1) cr_assert_eq(tn_prune_identity(fc, "weight"), TN_OK);
        if (k == 2) cr_assert_eq(tn_prune_remove(fc, "weight"), TN_OK);
        if (k == 3) cr_assert_eq(tn_spectral_norm(fc, "weight", 1, 0), TN_OK);
        tn_init_constant(s, tn_module_tensor(m, names[k]), k + 1);
        tn_init_constant(s, tn_module_tensor(m, "fc.bias"), -k - 1);
        cr_assert_eq(tn_average_update(s, a), TN_OK, "%s",
                     tn_scope_error(s) ? tn_scope_error(s)->message : "");
        const double mean = k == 0 ? 1 : k == 1 ? 1.5 : k == 2 ? 2.25 : 3.125;
        const tn_named_tensors list = tn_average_tensors(s, a);
        EXPECT(s, tn_named_get(s, list, names[k]), mean, mean, mean, mean);
        EXPECT(s, tn_named_get(s, list, "fc.bias"), -mean, -mean);
    }
    tn_module_set_absent(fc, "bias");
    tn_module_add_parameter(m, "other", VECTOR(s, 0, 1, 2));
    cr_assert_eq(tn_average_update(s, a), TN_E_STATE);
    expect_error(s, "average: the module has no parameter 'fc.bias' any more");
    tn_average_destroy(a);
    tn_module_destroy(m);
}

Test(averages, of_steps)
{
    tn_tensor *p;
    tn_module *m = module_of(1, 2, &p);
    tn_average *equal = tn_average_create(m, 0), *ema = tn_average_create(m, 0.9);
    for (int k = 1; k <= 3; k++) {
        tn_init_constant(s, p, k * 3.0);
        cr_assert_eq(tn_average_update(s, equal), TN_OK);
        cr_assert_eq(tn_average_update(s, ema), TN_OK);
    }
    cr_assert_eq(tn_average_swap(s, equal), TN_OK);
    EXPECT(s, tn_detach(s, p), 6, 6);
    cr_assert_eq(tn_average_swap(s, equal), TN_OK);
    EXPECT(s, tn_detach(s, p), 9, 9);
    cr_assert_eq(tn_average_swap(s, ema), TN_OK);
    EXPECT(s, tn_detach(s, p), 3.87, 3.87); /* (3 * .9 + .6) * .9 + .9 */
    tn_average_destroy(equal);
    tn_average_destroy(ema);
    cr_assert_null(tn_average_create(m, 2));
    expect_last_error("tn_average_create: decay must be from 0 to 1, got 2");
    char text[256];
    cr_assert_null(tn_average_create(m, -1));
    const int line = __LINE__ - 1; /* the place of the call that failed, in the error of the next one */
    snprintf(text, sizeof text,
             "tn_average_update: the average is NULL (the last error: %s:%d: tn_average_create: ", __FILE__,
             line);
    cr_assert_eq(tn_average_update(s, NULL), TN_E_STATE);
    expect_error(s, text);
    tn_module_destroy(m);
}

/* The file has averages and values exchanged, without a sign of it: it is not written. */
Test(averages, a_checkpoint_of_swapped_ones_is_not_written)
{
    tn_tensor *p;
    tn_module *m = module_of(1, 2, &p);
    tn_average *a = tn_average_create(m, 0.5);
    char folder[] = "/tmp/optim.XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run", folder);
    cr_assert_eq(tn_average_update(s, a), TN_OK);
    tn_init_constant(s, p, 5);
    cr_assert_eq(tn_average_swap(s, a), TN_OK);
    cr_assert_eq(tn_checkpoint_save(path, .module = m, .average = a), TN_E_STATE);
    expect_last_error("tn_average_tensors: the averages are in the module; call tn_average_swap before");
    cr_assert_neq(access(path, F_OK), 0);
    cr_assert_eq(tn_checkpoint_save(path, .module = m), TN_OK); /* the averages as a module's values */
    cr_assert_eq(tn_average_swap(s, a), TN_OK);
    cr_assert_eq(tn_checkpoint_save(path, .module = m, .average = a), TN_OK);
    tn_init_constant(s, p, 7);
    cr_assert_eq(tn_average_swap(s, a), TN_OK);
    cr_assert_eq(tn_checkpoint_load(path, .module = m, .average = a), TN_E_STATE);
    expect_last_error("tn_average_load_state: the averages are in the module");
    unlink(path);
    rmdir(folder);
    tn_average_destroy(a);
    tn_module_destroy(m);
}

/* ---- Scaling */

Test(averages, scaler)
{
    tn_tensor *p;
    tn_module *m = module_of(1, 2, &p);
    tn_optimizer *o = tn_sgd_create(m, .lr = 1);
    tn_grad_scaler *g = tn_grad_scaler_create(ctx, &(tn_grad_scaler_options){.scale = 8, .interval = 2});
    for (int k = 0; k < 2; k++) {
        tn_optimizer_zero_grad(o);
        cr_assert_eq(tn_backward(s, tn_grad_scaler_scale(s, g, tn_sum(s, p))), TN_OK);
        EXPECT(s, tn_grad_of(s, p), 8, 8);
        cr_assert_eq(tn_grad_scaler_unscale(s, g, o), TN_OK);
        EXPECT(s, tn_grad_of(s, p), 1, 1);
        cr_assert_eq(tn_grad_scaler_step(s, g, o, NULL), TN_OK);
    }
    EXPECT(s, tn_detach(s, p), -1, 0);
    cr_assert_float_eq(tn_grad_scaler_get_scale(g), 16, 0);
    tn_set_grad(p, VECTOR(s, 0, INFINITY, 1));
    cr_assert_eq(tn_grad_scaler_step(s, g, o, NULL), TN_OK);
    EXPECT(s, tn_detach(s, p), -1, 0);
    cr_assert_float_eq(tn_grad_scaler_get_scale(g), 8, 0);
    tn_set_grad(p, VECTOR(s, 0, 1, 1));
    tn_grad_scaler_unscale(s, g, o);
    cr_assert_neq(tn_grad_scaler_unscale(s, g, o), TN_OK);
    expect_error(s, "unscaled");
    tn_grad_scaler_destroy(g);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

/* As with PyTorch's scaler.update() behind both steps. */
Test(averages, optimizers_that_share_a_scaler_share_its_scale)
{
    tn_tensor *a = VECTOR(s, 1, 0, 0), *b = VECTOR(s, 1, 0, 0);
    tn_optimizer *first = tn_sgd_create_of(ctx, TN_TENSORS(a), .lr = 1),
                 *second = tn_sgd_create_of(ctx, TN_TENSORS(b), .lr = 1);
    tn_grad_scaler *g = tn_grad_scaler_create(ctx, &(tn_grad_scaler_options){.scale = 8, .interval = 1});
    tn_backward(s, tn_grad_scaler_scale(s, g, tn_add(s, tn_sum(s, a), tn_sum(s, b))));
    cr_assert_eq(tn_grad_scaler_unscale(s, g, first), TN_OK);
    cr_assert_eq(tn_grad_scaler_unscale(s, g, second), TN_OK);
    cr_assert_eq(tn_grad_scaler_step(s, g, first, NULL), TN_OK);
    cr_assert_eq(tn_grad_scaler_step(s, g, second, NULL), TN_OK);
    EXPECT(s, tn_detach(s, a), -1, -1);
    EXPECT(s, tn_detach(s, b), -1, -1);
    cr_assert_float_eq(tn_grad_scaler_get_scale(g), 16, 0);
    tn_optimizer_zero_grad(first);
    tn_optimizer_zero_grad(second);
    tn_backward(s, tn_grad_scaler_scale(s, g, tn_sum(s, b)));
    EXPECT(s, tn_grad_of(s, b), 16, 16);
    tn_set_grad(a, VECTOR(s, 0, INFINITY, 16));
    cr_assert_eq(tn_grad_scaler_step(s, g, first, NULL), TN_OK);
    cr_assert_eq(tn_grad_scaler_step(s, g, second, NULL), TN_OK);
    EXPECT(s, tn_detach(s, a), -1, -1);
    EXPECT(s, tn_detach(s, b), -2, -2);
    cr_assert_float_eq(tn_grad_scaler_get_scale(g), 8, 0);
    tn_grad_scaler_state state = {.size = sizeof state, .scale = 0x1p127, .good = 7};
    cr_assert_eq(tn_grad_scaler_set_state(g, &state), TN_OK);
    tn_set_grad(a, VECTOR(s, 0, 0, 0));
    cr_assert_eq(tn_grad_scaler_step(s, g, first, NULL), TN_OK);
    cr_assert_float_eq(tn_grad_scaler_get_scale(g), 0x1p127, 0, "a scale that float32 does not have");
    tn_grad_scaler_destroy(g);
    tn_optimizer_destroy(first);
    tn_optimizer_destroy(second);
}

Test(averages, states_that_are_none)
{
    tn_tensor *p;
    tn_module *m = module_of(1, 2, &p);
    tn_average *a = tn_average_create(m, 0);
    tn_grad_scaler *g = tn_grad_scaler_create(ctx, NULL);
    const tn_named_tensor state[] = {{"p", VECTOR(s, 0, 3, 4)},
                                     {"#updates", tn_full(s, TN_NO_INTS, (int64_t)-1, .dtype = TN_INT64)}};
    cr_assert_eq(tn_average_load_state(a, (tn_named_tensors){state, 2}), TN_E_CORRUPT);
    expect_last_error("average: the state has -1 updates");
    EXPECT(s, tn_named_get(s, tn_average_tensors(s, a), "p"), 1, 2);
    const double wrong[] = {INFINITY, NAN, 0};
    for (int i = 0; i < 3; i++) {
        const tn_grad_scaler_state of = {.size = sizeof of, .scale = wrong[i]};
        cr_assert_eq(tn_grad_scaler_set_state(g, &of), TN_E_ARGUMENT);
        cr_assert_eq(tn_grad_scaler_get_scale(g), 65536);
    }
    tn_grad_scaler_destroy(g);
    tn_average_destroy(a);
    tn_module_destroy(m);
}
