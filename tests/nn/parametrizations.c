/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parametrised, pruned and lazy modules. What PyTorch computes is in parametrizations.safetensors, which
 * record_parametrizations.py wrote.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/optim.h>
#include "recorded.h"

static void open_file(void)
{
    open_recorded(PARAMETRIZATIONS_FILE);
}

TestSuite(parametrizations, .init = open_file, .fini = close_file);
TestSuite(prune, .init = open_file, .fini = close_file);
TestSuite(lazy, .init = open_file, .fini = close_file);

static tn_module *linear(const char *name, int64_t in, int64_t out)
{
    tn_module_to(net, 0, TN_FLOAT64);
    return tn_linear_create(net, name, in, out);
}

Test(parametrizations, are_those_of_pytorch)
{
    tn_module *m = linear("a", 3, 4);
    expect_pytorch("weight_norm", m, tn_weight_norm(m, "weight", 0));
    m = tn_conv1d_create(net, "b", 2, 3, TN_INTS(2));
    expect_pytorch("weight_norm_all", m, tn_weight_norm(m, "weight", -1));
    m = linear("c", 3, 4);
    expect_pytorch("spectral_norm", m, tn_spectral_norm(m, "weight", 0, 0));
    m = tn_conv_transpose1d_create(net, "d", 2, 3, TN_INTS(2));
    expect_pytorch("spectral_norm_dim", m, tn_spectral_norm(m, "weight", 2, 1));
    m = linear("e", 4, 4);
    expect_pytorch("orthogonal_square", m, tn_orthogonal(m, "weight", NULL));
    m = linear("f", 3, 5);
    expect_pytorch("orthogonal_tall", m, tn_orthogonal(m, "weight", NULL));
    m = linear("g", 5, 3);
    expect_pytorch("orthogonal_wide", m, tn_orthogonal(m, "weight", "cayley"));
    m = linear("h", 3, 4);
    expect_pytorch("orthogonal_exp", m, tn_orthogonal(m, "weight", "matrix_exp"));
}

static double distance(tn_tensor *a, tn_tensor *b)
{
    return tn_item_double(s, tn_max(s, tn_abs(s, tn_sub(s, a, b))));
}

/* Weight norm begins with the weight as it is; the others with one of their kind. */
Test(parametrizations, begin_near_the_parameter)
{
    tn_module *m = linear("a", 3, 4);
    tn_tensor *before = tn_clone(s, tn_detach(s, tn_module_tensor(m, "weight")));
    cr_assert_eq(tn_weight_norm(m, "weight", 0), TN_OK);
    cr_assert_null(tn_module_tensor(m, "weight"));
    cr_assert_lt(distance(tn_module_compute(s, m, "weight"), before), 1e-14);
    static const int64_t sizes[][2] = {{4, 4}, {3, 5}, {5, 3}};
    static const char *const maps[] = {"matrix_exp", "cayley", "householder"};
    for (int i = 0; i < 9; i++) {
        char name[8];
        const int64_t *size = sizes[i % 3], least = size[0] < size[1] ? size[0] : size[1];
        snprintf(name, sizeof name, "o%d", i);
        m = linear(name, size[0], size[1]);
        cr_assert_eq(tn_orthogonal(m, "weight", maps[i / 3]), TN_OK, "%s", tn_module_error(net));
        tn_tensor *q = tn_module_compute(s, m, "weight");
        tn_tensor *product = size[1] >= size[0] ? tn_mm(s, tn_t(s, q), q) : tn_mm(s, q, tn_t(s, q));
        cr_assert_lt(distance(product, tn_eye(s, least, .dtype = TN_FLOAT64)), 1e-13, "%s", maps[i / 3]);
    }
    m = linear("s", 6, 6);
    cr_assert_eq(tn_spectral_norm(m, "weight", 50, 0), TN_OK);
    tn_module_forward(s, m, tn_ones(s, TN_INTS(1, 6), .dtype = TN_FLOAT64));
    tn_module_train(m, 0);
    tn_tensor *largest = tn_linalg_matrix_norm_str_ord(s, tn_module_compute(s, m, "weight"), .ord = "nuc");
    cr_assert_gt(tn_item_double(s, largest), 1); /* at least the largest one, which is 1 */
}

Test(parametrizations, are_trained_and_removed)
{
    tn_module *m = linear("a", 3, 4);
    cr_assert_eq(tn_orthogonal(m, "weight", NULL), TN_OK);
    tn_optimizer *o = tn_sgd_create(net, .lr = 0.1);
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3), .dtype = TN_FLOAT64), *first = NULL, *last = NULL;
    for (int i = 0; i < 20; i++) {
        tn_tensor *y = tn_module_forward(s, m, x);
        last = tn_sum(s, tn_mul(s, y, y));
        if (!first) first = last;
        cr_assert_eq(tn_backward(s, last), TN_OK);
        cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
        tn_optimizer_zero_grad(o);
    }
    cr_assert_lt(tn_item_double(s, last), tn_item_double(s, first));
    tn_tensor *y = tn_module_forward(s, m, x);
    cr_assert_eq(tn_module_remove_parametrization(m, "weight"), TN_OK);
    cr_assert_null(tn_module_child(m, "parametrizations"));
    tn_tensor *w = tn_module_tensor(m, "weight");
    cr_assert_eq(tn_requires_grad(w), 1);
    cr_assert_lt(distance(tn_mm(s, tn_t(s, w), w), tn_eye(s, 3, .dtype = TN_FLOAT64)), 1e-12);
    cr_assert_lt(distance(tn_module_forward(s, m, x), y), 1e-14);
    tn_optimizer_destroy(o);
}

/* Without its parametrisation, and with the values that were trained; weight norm has two originals and stays. */
Test(parametrizations, an_original_is_restored)
{
    tn_module *m = linear("a", 3, 3);
    tn_tensor *before = tn_clone(s, tn_detach(s, tn_module_tensor(m, "weight")));
    cr_assert_eq(tn_spectral_norm(m, "weight", 0, 0), TN_OK);
    tn_tensor *original = tn_module_tensor(m, "parametrizations.weight.original");
    cr_assert_gt(distance(tn_module_compute(s, m, "weight"), before), 1e-3);
    tn_init_constant(s, original, 0.25);
    cr_assert_eq(tn_module_restore_parametrized(m, "weight"), TN_OK, "%s", tn_module_error(net));
    cr_assert_eq(tn_module_tensor(m, "weight"), original);
    cr_assert_eq(tn_requires_grad(original), 1);
    cr_assert_null(tn_module_child(m, "parametrizations"));
    tn_tensor *x = tn_ones(s, TN_INTS(1, 3), .dtype = TN_FLOAT64);
    tn_tensor *y = tn_sub(s, tn_module_forward(s, m, x), tn_module_tensor(m, "bias"));
    cr_assert_lt(distance(y, tn_full(s, TN_INTS(1, 3), 0.75, .dtype = TN_FLOAT64)), 1e-14);
    tn_module *n = linear("b", 3, 3);
    cr_assert_eq(tn_weight_norm(n, "weight", 0), TN_OK);
    cr_assert_eq(tn_module_restore_parametrized(n, "weight"), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(tn_module_error(net), "'weight' has several originals, expected one"));
    cr_assert_eq(tn_module_is_parametrized(n, "weight"), 1);
}

static void expect_tree_error(int32_t status, int32_t expected, const char *words)
{
    cr_assert_eq(status, expected, "%d", status);
    cr_assert_not_null(strstr(tn_module_error(net), words), "%s", tn_module_error(net));
    tn_module_destroy(net);
    net = tn_module_create(ctx, "net", NULL);
}

Test(parametrizations, refusals)
{
    tn_module *m = linear("a", 3, 4);
    cr_assert_eq(tn_prune_identity(m, "weight"), TN_OK);
    expect_tree_error(tn_spectral_norm(m, "weight", 1, 0), TN_E_EXISTS,
                      "'weight': it is parametrized or pruned");
    m = linear("a", 3, 4);
    cr_assert_eq(tn_spectral_norm(m, "weight", 1, 0), TN_OK);
    expect_tree_error(tn_weight_norm(m, "weight", 0), TN_E_ARGUMENT,
                      "it has several originals, so that it can only be the first one");
    m = linear("a", 3, 4);
    cr_assert_eq(tn_weight_norm(m, "weight", 0), TN_OK);
    expect_tree_error(tn_spectral_norm(m, "weight", 1, 2), TN_E_ARGUMENT, "'iterations' or 'dim'");
    expect_tree_error(tn_weight_norm(linear("a", 3, 4), "other", 0), TN_E_ARGUMENT,
                      "'other': there is no such parameter");
    expect_tree_error(tn_orthogonal(linear("a", 3, 4), "weight", "x"), TN_E_ARGUMENT,
                      "argument 'map': got 'x'");
    expect_tree_error(tn_orthogonal(linear("a", 3, 4), "bias", NULL), TN_E_SHAPE,
                      "it must have 2 dimensions");
    expect_tree_error(tn_spectral_norm(linear("a", 3, 4), "weight", 1, 2), TN_E_ARGUMENT,
                      "'iterations' or 'dim'");
    expect_tree_error(tn_module_remove_parametrization(linear("a", 3, 4), "weight"), TN_E_NOT_FOUND,
                      "is not parametrized");
    cr_assert_eq(tn_weight_norm(NULL, "weight", 0), TN_E_STATE);
}

/* As a binding in which an exception was raised does it. */
static int32_t fail_by_status(tn_scope *scope, tn_module *zero, tn_tensor *value, tn_tensor **out)
{
    (void)scope, (void)zero, (void)value, (void)out;
    return TN_E_STATE;
}

static tn_tensor *first(tn_scope *scope, tn_module *zero, tn_tensors originals)
{
    (void)scope, (void)zero;
    return originals.data[0];
}

Test(parametrizations, a_right_inverse_that_only_returns_a_failure_fails)
{
    static const tn_module_class class = {.size = sizeof class, .name = "Fails"};
    static const tn_parametrization how = {
        .size = sizeof how, .class_ = &class, .forward = first, .right_inverse = fail_by_status};
    expect_tree_error(tn_module_parametrize(linear("a", 3, 4), "weight", &how, NULL), TN_E_STATE,
                      "the right inverse of the parametrization failed");
    tn_module *m = linear("a", 3, 4);
    cr_assert_eq(tn_spectral_norm(m, "weight", 1, 0), TN_OK);
    expect_tree_error(tn_module_parametrize(m, "weight", &how, NULL), TN_E_STATE,
                      "the right inverse of the parametrization failed");
}

/* ---- Pruning ------------------------------------------------------------------------------------------ */

Test(prune, masks_are_those_of_pytorch)
{
    tn_module *m = linear("a", 4, 5);
    tn_init_constant(s, tn_module_tensor(m, "weight"), 0);
    const tn_named_tensor state[] = {{"weight", recorded("prune", "weight")},
                                     {"bias", recorded("prune", "bias")}};
    cr_assert_eq(tn_module_load_state(m, (tn_named_tensors){state, 2}, TN_STRICT), TN_OK);
    cr_assert_eq(tn_prune_l1_unstructured(m, "weight", 0.3), TN_OK, "%s", error_of(net));
    expect_same("prune", "mask.0", tn_module_tensor(m, "weight_mask"));
    cr_assert_eq(tn_prune_l1_unstructured(m, "weight", 3), TN_OK);
    expect_same("prune", "mask.1", tn_module_tensor(m, "weight_mask"));
    cr_assert_eq(tn_prune_ln_structured(m, "weight", 0.4, 2, 0), TN_OK, "%s", error_of(net));
    expect_same("prune", "mask.2", tn_module_tensor(m, "weight_mask"));
    expect_same("prune", "y", tn_module_forward(s, m, recorded("prune", "x")));
    tn_named_tensors all = tn_module_tensors(s, m, TN_STATE);
    cr_assert_eq(all.count, 3);
    cr_assert_str_eq(all.data[0].name, "bias");
    cr_assert_str_eq(all.data[1].name, "weight_orig");
    cr_assert_str_eq(all.data[2].name, "weight_mask");
    cr_assert_eq(tn_prune_remove(m, "weight"), TN_OK);
    expect_same("prune", "y", tn_module_forward(s, m, recorded("prune", "x")));
    all = tn_module_tensors(s, m, TN_STATE);
    cr_assert_eq(all.count, 2);
    cr_assert_str_eq(all.data[0].name, "weight");
}

Test(prune, random_and_custom_masks)
{
    tn_module *m = linear("a", 10, 10);
    cr_assert_eq(tn_prune_random_unstructured(m, "weight", 0.25), TN_OK);
    cr_assert_eq(tn_item_double(s, tn_sum(s, tn_module_tensor(m, "weight_mask"))), 75);
    tn_tensor *first = tn_clone(s, tn_module_tensor(m, "weight_mask"));
    cr_assert_eq(tn_prune_random_unstructured(m, "weight", 25), TN_OK);
    cr_assert_eq(tn_item_double(s, tn_sum(s, tn_module_tensor(m, "weight_mask"))), 50);
    cr_assert(tn_item_bool(
        s, tn_all(s, tn_le(s, tn_module_tensor(m, "weight_mask"), first)))); /* none comes back */
    tn_tensor *mask = tn_zeros(s, TN_INTS(10, 10));
    cr_assert_eq(tn_prune_custom(m, "weight", mask), TN_OK);
    EXPECT(s, tn_sum(s, tn_abs(s, tn_module_compute(s, m, "weight"))), 0);
    tn_module *lstm = tn_lstm_create(net, "lstm", 2, 3); /* its tensors are a list without the pruned ones */
    tn_tensor *x = tn_ones(s, TN_INTS(4, 1, 2), .dtype = TN_FLOAT64), *y = tn_module_forward(s, lstm, x);
    cr_assert_eq(tn_prune_l1_unstructured(lstm, "weight_hh_l0", 0.0), TN_OK);
    cr_assert_lt(distance(tn_module_forward(s, lstm, x), y), 1e-15);
}

static void expect_refused(int32_t status, int32_t expected, const char *words)
{
    cr_assert_eq(status, expected, "%d", status);
    cr_assert_eq(tn_last_error()->code, expected);
    cr_assert_not_null(strstr(tn_last_error()->message, words), "%s", tn_last_error()->message);
    cr_assert_eq(tn_module_failed(net), TN_OK, "%s", error_of(net));
}

/* A refusal leaves the module as it was, before it is pruned and afterwards. */
Test(prune, refusals_change_nothing)
{
    tn_module *m = linear("a", 3, 4);
    for (int pruned = 0; pruned < 2; pruned++) {
        const int32_t most = pruned ? 10 : 12; /* elements that are left */
        char words[32];
        snprintf(words, sizeof words, "at most %d", most);
        if (pruned) cr_assert_eq(tn_prune_l1_unstructured(m, "weight", 2), TN_OK);
        expect_refused(tn_prune_l1_unstructured(m, "weight", 1.5), TN_E_ARGUMENT,
                       "argument 'amount': got 1.5");
        expect_refused(tn_prune_l1_unstructured(m, "weight", -1), TN_E_ARGUMENT, "argument 'amount': got -1");
        expect_refused(tn_prune_random_unstructured(m, "weight", most + 1), TN_E_ARGUMENT, words);
        expect_refused(tn_prune_ln_structured(m, "weight", 5, 2, 0), TN_E_ARGUMENT, "at most 4");
        expect_refused(tn_prune_ln_structured(m, "weight", 1, 2, 2), TN_E_ARGUMENT, "argument 'dim': got 2");
        expect_refused(tn_prune_random_structured(m, "bias", 1, 0), TN_E_ARGUMENT, "argument 'dim'");
        expect_refused(tn_prune_custom(m, "weight", tn_ones(s, TN_INTS(2))), TN_E_SHAPE, "argument 'mask'");
        expect_refused(tn_prune_custom(m, "weight", NULL), TN_E_ARGUMENT, "argument 'mask': it is NULL");
        expect_refused(tn_prune_identity(m, "other"), TN_E_ARGUMENT, "'other': there is no such parameter");
        expect_refused(tn_prune_remove(m, "bias"), TN_E_NOT_FOUND, "'bias' is not pruned");
        expect_refused(tn_prune_global_l1_unstructured(&(tn_prune_target){m, "bias"}, 1, 7), TN_E_ARGUMENT,
                       "at most 4");
        cr_assert_eq(tn_is_pruned(net), pruned);
        cr_assert_eq(tn_module_tensors(s, m, TN_STATE).count, 2 + pruned);
        cr_assert_eq(tn_module_tensor(m, "weight") == NULL, pruned);
        cr_assert_not_null(tn_module_tensor(m, "bias"));
    }
}

Test(prune, slices_at_random_and_identity)
{
    tn_module *m = linear("a", 6, 8);
    cr_assert_eq(tn_prune_identity(m, "weight"), TN_OK);
    EXPECT(s, tn_sum(s, tn_module_tensor(m, "weight_mask")), 48);
    cr_assert_eq(tn_prune_random_structured(m, "weight", 0.5, 1), TN_OK, "%s", error_of(net));
    tn_tensor *columns = tn_sum_dim(s, tn_module_tensor(m, "weight_mask"), TN_INTS(0));
    EXPECT(s, tn_sum(s, columns), 24);
    EXPECT(s, tn_max(s, columns), 8);
    EXPECT(s, tn_sum(s, tn_eq_scalar(s, columns, 0)), 3);
    cr_assert_eq(tn_prune_random_structured(m, "weight", 3, 1), TN_OK); /* those that are left */
    EXPECT(s, tn_sum(s, tn_module_tensor(m, "weight_mask")), 0);
}

/* The masks are those that prune.global_unstructured of PyTorch gives for these values: the smallest of all, by size, among
 * those that are left. */
/* What computes a tensor once for several calls (torch.nn.utils.parametrize.cached), and other tensors in its place. */
Test(parametrizations, a_functional_call_takes_the_tensor_that_it_is_given)
{
    tn_module *fc = linear("fc", 1, 1);
    tn_tensor *x = tn_ones(s, TN_INTS(1, 1), .dtype = TN_FLOAT64);
    tn_init_constant(s, tn_module_tensor(fc, "weight"), 2);
    tn_init_constant(s, tn_module_tensor(fc, "bias"), 0);
    cr_assert_eq(tn_prune_identity(fc, "weight"), TN_OK);
    tn_tensor *five = tn_full(s, TN_INTS(1, 1), 5.0, .dtype = TN_FLOAT64);
    for (int i = 0; i < 2; i++) {
        const tn_named_tensor with = {"weight", i ? tn_module_compute(s, fc, "weight") : five};
        EXPECT(
            s,
            tn_detach(s, tn_module_functional_call(s, fc, (tn_named_tensors){&with, 1}, TN_TENSORS(x)).first),
            i ? 2 : 5);
        cr_assert_null(tn_module_tensor(fc, "weight"));
        EXPECT(s, tn_detach(s, tn_module_forward(s, fc, x)), 2);
    }
    cr_assert_eq(tn_module_set_tensor(net, "fc.weight", five), TN_E_STATE);
    expect_last_error("tensor 'fc.weight': it is parametrized or pruned; set its original");
}

Test(parametrizations, frozen_parameters_stay_frozen)
{
    tn_module *pruned = linear("pruned", 2, 2), *norm = linear("norm", 2, 2),
              *spectral = linear("spectral", 2, 2);
    tn_module_set_requires_grad(net, 0);
    cr_assert_eq(tn_prune_identity(pruned, "weight"), TN_OK);
    cr_assert_eq(tn_weight_norm(norm, "weight", 0), TN_OK);
    cr_assert_eq(tn_spectral_norm(spectral, "weight", 1, 0), TN_OK);
    tn_named_tensors all = tn_module_tensors(s, net, TN_PARAMETERS);
    cr_assert_eq(all.count, 7);
    for (int64_t i = 0; i < all.count; i++)
        cr_assert_not(tn_requires_grad(all.data[i].tensor), "%s", all.data[i].name);
    cr_assert_eq(tn_prune_remove(pruned, "weight"), TN_OK);
    cr_assert_eq(tn_module_remove_parametrization(norm, "weight"), TN_OK);
    cr_assert_eq(tn_module_restore_parametrized(spectral, "weight"), TN_OK);
    all = tn_module_tensors(s, net, TN_PARAMETERS);
    cr_assert_eq(all.count, 6);
    for (int64_t i = 0; i < all.count; i++)
        cr_assert_not(tn_requires_grad(all.data[i].tensor), "%s", all.data[i].name);
}

/* As in PyTorch: an optimiser of a list of tensors, and a module that shares the parameter, go on with it. */
Test(parametrizations, one_original_is_the_parameter_itself)
{
    tn_module *fc = linear("fc", 3, 3), *other = linear("other", 3, 3);
    tn_tensor *w = tn_module_tensor(fc, "weight"), *x = tn_ones(s, TN_INTS(1, 3), .dtype = TN_FLOAT64);
    tn_module_set_tensor(other, "weight", w);
    for (int kind = 0; kind < 3; kind++) {
        static const char *const names[] = {"parametrizations.weight.original",
                                            "parametrizations.weight.original", "weight_orig"};
        int32_t status = kind == 0   ? tn_spectral_norm(fc, "weight", 1, 0)
                         : kind == 1 ? tn_orthogonal(fc, "weight", "cayley")
                                     : tn_prune_l1_unstructured(fc, "weight", 0.5);
        cr_assert_eq(status, TN_OK, "%s", error_of(net));
        cr_assert_eq(tn_module_tensor(fc, names[kind]), w);
        cr_assert_eq(tn_module_tensor(other, "weight"), w);
        tn_set_grad(w, NULL);
        tn_tensor *y = tn_module_forward(s, fc, x);
        cr_assert_eq(tn_backward(s, tn_sum(s, tn_mul(s, y, y))), TN_OK);
        cr_assert_not_null(tn_grad_of(s, w));
        status = kind == 2 ? tn_prune_remove(fc, "weight") : tn_module_remove_parametrization(fc, "weight");
        cr_assert_eq(status, TN_OK, "%s", error_of(net));
        cr_assert_eq(tn_module_tensor(fc, "weight"), w);
        cr_assert_eq(tn_requires_grad(w), 1);
        cr_assert_lt(distance(tn_module_forward(s, fc, x), tn_detach(s, y)), 1e-3);
    }
    expect_sound(s);
}

/* The tensors that pruning adds are not biases. */
Test(prune, cells_without_biases)
{
    tn_module *cells[] = {tn_rnn_cell_create(net, "rnn", 1, 1, .bias = 0),
                          tn_lstm_cell_create(net, "lstm", 1, 1, .bias = 0),
                          tn_gru_cell_create(net, "gru", 1, 1, .bias = 0)};
    tn_tensor *x = tn_full(s, TN_INTS(2, 1), 0.5, .dtype = TN_FLOAT64);
    for (int i = 0; i < 3; i++) {
        tn_module_to(cells[i], 0, TN_FLOAT64);
        tn_tensor *want = tn_module_forward(s, cells[i], x);
        cr_assert_eq(tn_prune_identity(cells[i], "weight_ih"), TN_OK);
        cr_assert_eq(tn_prune_identity(cells[i], "weight_hh"), TN_OK);
        cr_assert_eq(distance(tn_module_forward(s, cells[i], x), want), 0);
    }
    expect_sound(s);
}

Test(prune, several_parameters_together)
{
    tn_module *m = linear("a", 3, 2), *other = linear("b", 2, 2);
    const double a[] = {0.1, -0.5, 0.3, 0.9, 0.05, -0.2}, b[] = {0.4, -0.15, 0.7, 0.02};
    tn_module_set_tensor(m, "weight", tn_from_data(s, TN_FLOAT64, TN_INTS(2, 3), a, TN_CPU));
    tn_module_set_tensor(other, "weight", tn_from_data(s, TN_FLOAT64, TN_INTS(2, 2), b, TN_CPU));
    const tn_prune_target both[] = {{m, "weight"}, {other, "weight"}};
    cr_assert_eq(tn_prune_global_l1_unstructured(both, 2, 0.3), TN_OK, "%s", error_of(net));
    EXPECT(s, tn_module_tensor(m, "weight_mask"), 0, 1, 1, 1, 0, 1);
    EXPECT(s, tn_module_tensor(other, "weight_mask"), 1, 1, 1, 0);
    cr_assert_eq(tn_prune_global_l1_unstructured(both, 2, 2), TN_OK, "%s", error_of(net));
    EXPECT(s, tn_module_tensor(m, "weight_mask"), 0, 1, 1, 1, 0, 0);
    EXPECT(s, tn_module_tensor(other, "weight_mask"), 1, 0, 1, 0);
}

/* ---- Lazy layers -------------------------------------------------------------------------------------- */

Test(lazy, sizes_come_from_the_first_input)
{
    tn_conv2d_create(net, "conv", TN_LAZY, 4, TN_INTS(3));
    tn_batch_norm2d_create(net, "norm", TN_LAZY);
    tn_flatten_create(net, "flatten");
    tn_linear_create(net, "fc", TN_LAZY, 2);
    cr_assert_eq(tn_module_failed(net), TN_OK, "%s", error_of(net));
    cr_assert_not_null(
        strstr(tn_module_format(s, net), "Linear(in_features=lazy, out_features=2, bias=True)"));
    cr_assert_null(tn_sgd_create(net, .lr = 1));
    expect_last_error("module 'conv' is lazy");
    cr_assert_eq(tn_module_save(net, "/tmp/never"), TN_E_STATE);
    tn_tensor *y = tn_module_forward(s, net, tn_ones(s, TN_INTS(5, 3, 6, 7)));
    expect_sound(s);
    cr_assert_eq(tn_tensor_size(y, 1), 2);
    static const int64_t weight[] = {4, 3, 3, 3};
    for (int d = 0; d < 4; d++)
        cr_assert_eq(tn_tensor_size(tn_module_tensor(net, "conv.weight"), d), weight[d]);
    cr_assert_eq(tn_tensor_size(tn_module_tensor(net, "norm.running_mean"), 0), 4);
    cr_assert_eq(tn_tensor_size(tn_module_tensor(net, "fc.weight"), 1), 4 * 4 * 5);
    cr_assert_not_null(strstr(tn_module_format(s, net), "Linear(in_features=80, out_features=2, bias=True)"));
    tn_optimizer *o = tn_sgd_create(net, .lr = 1);
    cr_assert_not_null(o);
    tn_optimizer_destroy(o);
}

/* Unbatched inputs have no first dimension; values are drawn as those of a layer that knew its sizes. */
Test(lazy, an_instance_norm_without_a_batch)
{
    tn_module *norm = tn_instance_norm1d_create(net, "norm", TN_LAZY, .affine = 1);
    tn_tensor *y = tn_module_forward(s, norm, tn_ones(s, TN_INTS(2, 5)));
    expect_sound(s);
    cr_assert(tn_tensor_size(y, 1) == 5 && tn_tensor_numel(tn_module_tensor(norm, "weight")) == 2);
}

Test(lazy, values_are_those_of_other_layers)
{
    tn_module *lazy = tn_conv1d_create(net, "a", TN_LAZY, 3, TN_INTS(2));
    tn_manual_seed(ctx, 4);
    tn_module_forward(s, lazy, tn_ones(s, TN_INTS(2, 5)));
    tn_manual_seed(ctx, 4);
    tn_module *sized = tn_conv1d_create(net, "b", 2, 3, TN_INTS(2));
    cr_assert(tn_equal(s, tn_module_tensor(lazy, "weight"), tn_module_tensor(sized, "weight")));
    cr_assert(tn_equal(s, tn_module_tensor(lazy, "bias"), tn_module_tensor(sized, "bias")));
    cr_assert_null(tn_lstm_create(net, "lstm", TN_LAZY, 3)); /* other layers refuse it */
    cr_assert_not_null(strstr(tn_module_error(net), "input_size: got -"));
}
