/* SPDX-License-Identifier: Apache-2.0 */
/* Optimisers of lists and their options, rates of groups, averages that are swapped in: what is taken and what is refused. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/checkpoint.h>
#include <unistd.h>
#include "../autograd/suite.h"

TestSuite(refusals, .init = begin, .fini = end);

/* While the module has the averages, `means` has the values of training: nothing may take them for averages. */
Test(refusals, averages_that_are_swapped_in_are_refused)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_tensor *p = tn_module_add_parameter(m, "p", VECTOR(s, 0, 1, 2));
    tn_average *a = tn_average_create(m, 0.5);
    cr_assert_eq(tn_average_update(s, a), TN_OK);
    tn_init_constant(s, p, 5);
    cr_assert_eq(tn_average_update(s, a), TN_OK);
    tn_named_tensors state = tn_average_tensors(s, a);
    cr_assert_eq(tn_average_swap(s, a), TN_OK);
    cr_assert_eq(tn_average_update(s, a), TN_E_STATE);
    expect_error(s, "tn_average_update: the averages are in the module; call tn_average_swap before");
    cr_assert_null(tn_average_tensors(s, a).data);
    expect_error(s, "tn_average_tensors: the averages are in the module");
    cr_assert_eq(tn_average_load_state(a, state), TN_E_STATE);
    expect_last_error("tn_average_load_state: the averages are in the module");
    EXPECT(s, tn_detach(s, p), 3, 3.5);
    cr_assert_eq(tn_average_swap(s, a), TN_OK);
    EXPECT(s, tn_detach(s, p), 5, 5);
    cr_assert_eq(tn_average_update(s, a), TN_OK);
    cr_assert_eq(tn_average_load_state(a, tn_average_tensors(s, a)), TN_OK);
    tn_average_destroy(a);
    tn_module_destroy(m);
}

/* Each kind has a macro for lists, with the defaults of its kind. */
Test(refusals, optimisers_of_lists_have_the_defaults_of_their_kind)
{
    tn_tensor *w = VECTOR(s, 1, 1, 2), *matrix = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT64);
    cr_assert_eq(tn_set_requires_grad(matrix, 1), TN_OK);
    tn_optimizer *made[] = {
        tn_sgd_create_of(ctx, TN_TENSORS(w)),      tn_adam_create_of(ctx, TN_TENSORS(w)),
        tn_adamw_create_of(ctx, TN_TENSORS(w)),    tn_adagrad_create_of(ctx, TN_TENSORS(w)),
        tn_adadelta_create_of(ctx, TN_TENSORS(w)), tn_adamax_create_of(ctx, TN_TENSORS(w)),
        tn_asgd_create_of(ctx, TN_TENSORS(w)),     tn_nadam_create_of(ctx, TN_TENSORS(w)),
        tn_radam_create_of(ctx, TN_TENSORS(w)),    tn_rmsprop_create_of(ctx, TN_TENSORS(w)),
        tn_rprop_create_of(ctx, TN_TENSORS(w)),    tn_adafactor_create_of(ctx, TN_TENSORS(w)),
        tn_lbfgs_create_of(ctx, TN_TENSORS(w)),    tn_muon_create_of(ctx, TN_TENSORS(matrix)),
    };
    for (uint32_t i = 0; i < sizeof made / sizeof *made; i++) {
        const tn_optimizer_options want = tn_optimizer_defaults(i + 1);
        cr_assert_not_null(made[i], "%u: %s", i + 1, tn_last_error()->message);
        cr_assert_eq(memcmp(tn_optimizer_group(made[i], 0), &want, sizeof want), 0, "%u", i + 1);
        tn_optimizer_destroy(made[i]);
    }
    cr_assert_null(tn_sparseadam_create_of(ctx, TN_TENSORS(w)));
    expect_last_error("SparseAdam: there are no sparse gradients");
    tn_optimizer *o =
        tn_adamw_create_of(ctx, TN_TENSORS(w, matrix), .lr = 0.5, .beta1 = 0, .beta2 = 0, .eps = 0);
    cr_assert_not_null(o);
    cr_assert(tn_optimizer_group(o, 0)->beta1 == 0 && tn_optimizer_group(o, 0)->eps == 0);
    tn_optimizer_destroy(o);
    cr_assert_null(tn_sgd_create_of(NULL, TN_TENSORS(w)));
    expect_last_error("optimizer: tn_optimizer_create_of: the context is NULL");
    const tn_optimizer_options given = tn_optimizer_defaults(TN_ADAM);
    o = tn_optimizer_create_of(ctx, TN_TENSORS(w), TN_ADAM, &given);
    cr_assert_not_null(o);
    tn_optimizer_destroy(o);
}

/* A struct that is set by hand would have betas of 0. A shorter one is of a program that was compiled before. */
Test(refusals, options_without_defaults_are_refused)
{
    tn_tensor *w = VECTOR(s, 1, 1, 2), *other = VECTOR(s, 1, 1);
    tn_optimizer_options o = {.options_size = sizeof o, .lr = 1e-3};
    cr_assert_null(tn_optimizer_create_of(ctx, TN_TENSORS(w), TN_ADAMW, &o));
    expect_last_error(
        "AdamW: tn_optimizer_options: has_defaults is 0, so what the program did not set would be 0; "
        "use the macros (tn_adamw_create_of, tn_optimizer_add_group), or begin with "
        "tn_optimizer_defaults(kind)");
    tn_optimizer *adam = tn_adam_create_of(ctx, TN_TENSORS(w), .beta1 = 0.5);
    cr_assert_eq(tn_optimizer_add_group_with(adam, TN_TENSORS(other), &o), TN_E_ARGUMENT);
    expect_last_error("Adam: tn_optimizer_options: has_defaults is 0");
    cr_assert_eq(tn_optimizer_add_group_with(adam, TN_TENSORS(other), NULL), TN_E_ARGUMENT);
    expect_last_error("Adam: the options are NULL");
    cr_assert_eq(tn_optimizer_group_count(adam), 1);
    o = (tn_optimizer_options){.options_size = sizeof o, TN_OPTIONS_NOT_GIVEN};
    cr_assert_eq(tn_optimizer_add_group_with(adam, TN_TENSORS(other), &o), TN_OK);
    cr_assert_eq(tn_optimizer_group(adam, 1)->beta1, 0.5);
    tn_optimizer_destroy(adam);
    o = (tn_optimizer_options){.options_size = offsetof(tn_optimizer_options, has_defaults), .lr = 0.5};
    tn_optimizer *old = tn_optimizer_create_of(ctx, TN_TENSORS(w), TN_SGD, &o);
    cr_assert_not_null(old, "%s", tn_last_error()->message);
    tn_optimizer_destroy(old);
}

Test(refusals, parameters_that_are_refused_are_named)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_tensor *a = tn_module_add_parameter(m, "a", VECTOR(s, 1, 1, 2)),
              *b = tn_module_add_parameter(m, "b", VECTOR(s, 1, 1)), *sum = tn_mul(s, a, a);
    tn_optimizer *o = tn_adam_create(m);
    cr_assert_eq(tn_optimizer_add_group(o, TN_TENSORS(VECTOR(s, 1, 1), b), .lr = 1), TN_E_EXISTS);
    expect_last_error("Adam: parameter 1 is in group 0 already, as 'b'");
    cr_assert_null(tn_sgd_create_of(ctx, TN_TENSORS(a, sum)));
    expect_last_error("SGD: parameter 1 is not a leaf: an operator computed it");
    cr_assert_null(tn_sgd_create_of(ctx, TN_TENSORS(a, NULL)));
    expect_last_error("SGD: parameter 1 is NULL");
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

/* A factor of each group's own rate, which the group keeps: what PyTorch's schedules do. */
Test(refusals, a_step_scales_the_rates_of_groups)
{
    tn_tensor *a = VECTOR(s, 1, 1, 2), *b = VECTOR(s, 1, 1, 2);
    tn_optimizer *o = tn_sgd_create_of(ctx, TN_TENSORS(a), .lr = 0.5);
    cr_assert_eq(tn_optimizer_add_group(o, TN_TENSORS(b), .lr = 0.25), TN_OK);
    tn_set_grad(a, VECTOR(s, 0, 1, 1));
    tn_set_grad(b, VECTOR(s, 0, 1, 1));
    cr_assert_eq(tn_optimizer_step(s, o, .lr_scale = 0.5), TN_OK);
    EXPECT(s, tn_detach(s, a), 0.75, 1.75);
    EXPECT(s, tn_detach(s, b), 0.875, 1.875);
    cr_assert_eq(tn_optimizer_step(s, o, .lr_scale = 0), TN_OK);
    EXPECT(s, tn_detach(s, a), 0.75, 1.75);
    cr_assert(tn_optimizer_group(o, 0)->lr == 0.5 && tn_optimizer_group(o, 1)->lr == 0.25);
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    EXPECT(s, tn_detach(s, b), 0.625, 1.625);
    cr_assert_eq(tn_optimizer_step(s, o, .lr = 1, .lr_scale = 0.5), TN_E_ARGUMENT);
    expect_error(s, "SGD: step: got lr 1 and lr_scale 0.5, expected one of them");
    cr_assert_eq(tn_optimizer_step(s, o, .lr_scale = -2), TN_E_ARGUMENT);
    expect_error(s, "SGD: step: lr_scale must be 0 or more, and finite, got -2");
    cr_assert(tn_optimizer_group(o, 0)->lr == 0.5 && tn_optimizer_group(o, 1)->lr == 0.25);
    tn_optimizer_destroy(o);
}

Test(refusals, states_of_other_groups)
{
    tn_tensor *a = VECTOR(s, 1, 1, 2), *b = VECTOR(s, 1, 3);
    tn_optimizer *one = tn_sgd_create_of(ctx, TN_TENSORS(a, b), .lr = 0.5),
                 *two = tn_sgd_create_of(ctx, TN_TENSORS(a), .lr = 0.5);
    cr_assert_eq(tn_optimizer_add_group(two, TN_TENSORS(b), .lr = 0.25), TN_OK);
    cr_assert_eq(tn_optimizer_load_state(one, tn_optimizer_tensors(s, two)), TN_E_ARGUMENT);
    expect_last_error("SGD: the file has 2 groups, expected 1");
    cr_assert_eq(tn_optimizer_load_state(two, tn_optimizer_tensors(s, one)), TN_E_ARGUMENT);
    expect_last_error("SGD: the file has 1 group, expected 2");
    tn_optimizer_destroy(one);
    tn_optimizer_destroy(two);
}

/* The result of a call that failed is not a state that lacks it. */
Test(refusals, states_with_a_tensor_that_is_null)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_module_add_parameter(m, "p", VECTOR(s, 1, 1, 2));
    tn_optimizer *o = tn_adam_create(m, .lr = 0.5);
    tn_average *a = tn_average_create(m, 0);
    const tn_named_tensor states[] = {{"p", NULL}, {NULL, VECTOR(s, 0, 3, 4)}};
    for (int i = 0; i < 2; i++) {
        const tn_named_tensors list = {&states[i], 1};
        const char *what = i ? "item 0 of the state (''): its name is NULL"
                             : "item 0 of the state ('p'): its tensor is NULL";
        cr_assert_eq(tn_optimizer_load_state(o, list), TN_E_ARGUMENT);
        expect_last_error(what);
        cr_assert_eq(tn_average_load_state(a, list), TN_E_ARGUMENT);
        expect_last_error(what);
    }
    tn_average_destroy(a);
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

/* A number of steps that is none changes nothing. */
Test(refusals, states_with_a_number_of_steps_that_is_none)
{
    tn_tensor *w = VECTOR(s, 1, 1, 2);
    tn_optimizer *o = tn_adam_create_of(ctx, TN_TENSORS(w), .lr = 0.5);
    tn_set_grad(w, VECTOR(s, 0, 1, 1));
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    const double wrong[] = {NAN, INFINITY, -1, 1e300};
    for (int i = 0; i < 4; i++) {
        const tn_named_tensors all = tn_optimizer_tensors(s, o);
        tn_named_tensor *list = tn_scope_memory(s, (uint64_t)all.count * sizeof *list);
        memcpy(list, all.data, (size_t)all.count * sizeof *list);
        for (int64_t k = 0; k < all.count; k++)
            if (!strcmp(list[k].name, "0.#")) list[k].tensor = VECTOR(s, 0, wrong[i], 0, 0);
        cr_assert_eq(tn_optimizer_load_state(o, (tn_named_tensors){list, all.count}), TN_E_CORRUPT);
        char text[96];
        snprintf(text, sizeof text, "Adam: the state of '0' has %g steps", wrong[i]);
        expect_last_error(text);
    }
    tn_optimizer_destroy(o);
}

/* Numbers that PyTorch refuses. */
Test(refusals, numbers_out_of_their_ranges)
{
    tn_tensor *w = VECTOR(s, 1, 1, 2);
    const tn_tensors of = TN_TENSORS(w);
#define EXPECT_REFUSED(kind, option, text)                  \
    cr_assert_null(tn_##kind##_create_of(ctx, of, option)); \
    expect_last_error(text)
    EXPECT_REFUSED(rmsprop, .alpha = -0.5, "RMSprop: alpha: must be 0 or more, got -0.5");
    EXPECT_REFUSED(rmsprop, .eps = NAN, "RMSprop: eps: must be 0 or more, got nan");
    EXPECT_REFUSED(adagrad, .lr_decay = -1, "Adagrad: lr_decay: must be 0 or more, got -1");
    EXPECT_REFUSED(adagrad, .initial_accumulator_value = -1,
                   "Adagrad: initial_accumulator_value: must be 0 or more, got -1");
    EXPECT_REFUSED(nadam, .momentum_decay = -1, "NAdam: momentum_decay: must be 0 or more, got -1");
    EXPECT_REFUSED(adafactor, .beta2_decay = 0.5, "Adafactor: beta2_decay: must be 0 or less, got 0.5");
    EXPECT_REFUSED(adafactor, .eps2 = -1, "Adafactor: eps2: must be 0 or more, got -1");
    EXPECT_REFUSED(adafactor, .d = 0.5, "Adafactor: d: must be 1 or more, got 0.5");
    EXPECT_REFUSED(sgd, .momentum = -1, "SGD: momentum: must be 0 or more, got -1");
    EXPECT_REFUSED(adamw, .weight_decay = -1, "AdamW: weight_decay: must be 0 or more, got -1");
#undef EXPECT_REFUSED
    tn_optimizer *o = tn_asgd_create_of(ctx, TN_TENSORS(w),
                                        .alpha = -0.5); /* of an optimiser for which any number will do */
    cr_assert_not_null(o);
    tn_optimizer_destroy(o);
}

/* A struct that is set by hand and says nothing of lr must not set all rates to 0. */
Test(refusals, step_options_without_defaults)
{
    tn_tensor *a = VECTOR(s, 1, 1, 2);
    tn_optimizer *o = tn_sgd_create_of(ctx, TN_TENSORS(a), .lr = 0.5);
    tn_grad_scaler *g = tn_grad_scaler_create(ctx, NULL);
    tn_step_options step = {.options_size = sizeof step, .clip_norm = 2};
    tn_set_grad(a, VECTOR(s, 0, 65536, 0));
    cr_assert_eq(tn_grad_scaler_step(s, g, o, &step), TN_E_ARGUMENT);
    expect_error(s, "SGD: tn_step_options: lr is 0 and has_defaults, too; set .lr = TN_NOT_GIVEN");
    cr_assert_eq(tn_optimizer_group(o, 0)->lr, 0.5);
    step.lr = TN_NOT_GIVEN;
    tn_set_grad(a, VECTOR(s, 0, 65536, 0));
    cr_assert_eq(tn_grad_scaler_step(s, g, o, &step), TN_OK);
    EXPECT(s, tn_detach(s, a), 0.5, 2);
    step.options_size = offsetof(tn_step_options, lr_scale);
    step.lr = 0.25; /* of a program that was compiled before */
    step.lr_scale = NAN;
    step.optimizer = o;
    cr_assert_eq(tn_optimizer_step_with(s, &step), TN_OK);
    cr_assert_eq(tn_optimizer_group(o, 0)->lr, 0.25);
    step.options_size = 0;
    cr_assert_eq(tn_optimizer_step_with(s, &step), TN_E_ARGUMENT);
    expect_error(s, "SGD: tn_step_options: options_size is 0; set it to sizeof(tn_step_options)");
    tn_grad_scaler_destroy(g);
    tn_optimizer_destroy(o);
}

/* A program that was compiled before an option has a shorter struct: nothing is written behind it. */
Test(refusals, defaults_of_a_shorter_struct)
{
    enum { SHORT = offsetof(tn_optimizer_options, parameters) };
    tn_optimizer_options o;
    memset(&o, 0x5a, sizeof o);
    o.options_size = SHORT;
    cr_assert_eq(tn_optimizer_options_init(TN_ADAMW, &o), TN_OK);
    cr_assert(o.options_size == SHORT && o.lr == 1e-3 && o.beta2 == 0.999 && o.has_defaults == 1);
    for (uint32_t i = SHORT; i < sizeof o; i++) cr_assert_eq(((const char *)&o)[i], 0x5a, "byte %u", i);
    o.options_size = 8;
    cr_assert_eq(tn_optimizer_options_init(TN_ADAMW, &o), TN_E_ARGUMENT);
    expect_last_error("options_size is not set");
    o.options_size = sizeof o;
    cr_assert_eq(tn_optimizer_options_init(99, &o), TN_E_ARGUMENT);
    expect_last_error("an unknown kind");
    cr_assert_eq(tn_optimizer_defaults(99).options_size, 0);
}
