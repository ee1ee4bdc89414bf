/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of modules: with other tensors, with hooks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "module_suite.h"

TestSuite(calls, .init = open_module, .fini = close_module);

/* ---- Other tensors for one call */

Test(calls, other_tensors_for_one_call)
{
    tn_linear_create(net, "fc", 2, 1, .bias = 0);
    tn_init_constant(s, tn_module_tensor(net, "fc.weight"), 1);
    tn_tensor *w = make(s, TN_INTS(1, 2), VALUES(10, 20), 1);
    const tn_named_tensor with[] = {{"fc.weight", w}}, wrong[] = {{"fc.other", w}};
    tn_tensor *x = make(s, TN_INTS(1, 2), VALUES(1, 2), 0);
    EXPECT(s,
           tn_detach(s, tn_module_functional_call(s, net, (tn_named_tensors){with, 1}, TN_TENSORS(x)).first),
           50);
    EXPECT(s, tn_detach(s, tn_module_forward(s, net, x)), 3);
    cr_assert_null(tn_module_functional_call(s, net, (tn_named_tensors){wrong, 1}, TN_TENSORS(x)).first);
    expect_error(s, "no tensor 'fc.other'");
}

/* A module that keeps what it computes at its first call: its list of tensors grows while another one is lent to it. */
static tn_tensor *keep_and_scale(tn_scope *scope, tn_module *m, tn_tensors in, tn_tensor **more)
{
    char name[16];
    (void)more;
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "kept%d", i);
        if (!tn_module_tensor(m, name)) tn_module_add_buffer(m, name, tn_ones(scope, TN_INTS(1)), 0);
    }
    return tn_mul(scope, in.data[0], tn_module_tensor(m, "scale"));
}

Test(calls, other_tensors_while_the_list_of_tensors_grows)
{
    static const tn_module_class keeping = {
        .size = sizeof keeping, .name = "Keeping", .forward = keep_and_scale};
    tn_module *m = tn_module_add(net, "keeping", &keeping);
    tn_module_add_parameter(m, "scale", VECTOR(s, 0, 2));
    const tn_named_tensor with = {"scale", VECTOR(s, 0, 5)};
    tn_tensor *x = VECTOR(s, 0, 3);
    EXPECT(s,
           tn_detach(s, tn_module_functional_call(s, m, (tn_named_tensors){&with, 1}, TN_TENSORS(x)).first),
           15);
    EXPECT(s, tn_detach(s, tn_module_forward(s, m, x)), 6);
}

/* As functional_call of PyTorch with tie_weights=True, its default. */
Test(calls, other_tensors_for_parameters_that_are_shared)
{
    tn_module *a = tn_linear_create(net, "a", 1, 1, .bias = 0),
              *b = tn_linear_create(net, "b", 1, 1, .bias = 0);
    tn_init_constant(s, tn_module_tensor(a, "weight"), 2);
    tn_module_set_tensor(b, "weight", tn_module_tensor(a, "weight"));
    tn_tensor *three = make(s, TN_INTS(1, 1), VALUES(3), 1), *five = make(s, TN_INTS(1, 1), VALUES(5), 0),
              *x = make(s, TN_INTS(1, 1), VALUES(1), 0);
    tn_named_tensor with[] = {{"b.weight", three}, {"a.weight", five}};
    tn_tensor *y = tn_module_functional_call(s, net, (tn_named_tensors){with, 1}, TN_TENSORS(x)).first;
    EXPECT(s, tn_detach(s, y), 9);
    cr_assert_eq(tn_backward(s, y), TN_OK);
    EXPECT(s, tn_grad_of(s, three), 6);
    y = tn_module_functional_call(s, net, (tn_named_tensors){with, 2}, TN_TENSORS(x)).first;
    EXPECT(s, tn_detach(s, y), 15);
    cr_assert_eq(tn_module_tensor(a, "weight"), tn_module_tensor(b, "weight"));
    EXPECT(s, tn_detach(s, tn_module_forward(s, net, x)), 4);
}

/* ---- Hooks */

static void twice(void *user, tn_scope *scope, tn_module *m, tn_tensor **in, uint32_t count)
{
    (void)m;
    *(uint32_t *)user += count;
    in[0] = tn_mul_scalar(scope, in[0], 2.0);
}

static tn_tensor *plus_one(void *user, tn_scope *scope, tn_module *m, tn_tensors in, tn_tensor *out)
{
    (void)user;
    (void)m;
    (void)in;
    return tn_add_scalar(scope, out, 1.0);
}

static void halve(void *user, tn_scope *scope, tn_module *m, tn_tensor *grad_out, tn_tensor **grad_in,
                  uint32_t count)
{
    (void)m;
    (void)count;
    *(double *)user = tn_item_double(scope, tn_sum(scope, grad_out));
    grad_in[0] = tn_mul_scalar(scope, grad_in[0], 0.5);
}

static tn_tensor *fail_after(void *user, tn_scope *scope, tn_module *m, tn_tensors in, tn_tensor *out)
{
    tn_scope_fail(scope, TN_E_ARGUMENT, "out of luck");
    return NULL;
}

static void fail_backward(void *user, tn_scope *scope, tn_module *m, tn_tensor *grad_out, tn_tensor **grad_in,
                          uint32_t count)
{
    (void)user;
    (void)m;
    (void)grad_out;
    (void)grad_in;
    (void)count;
    tn_scope_fail(scope, TN_E_ARGUMENT, "out of luck");
}

static tn_tensor *count_after(void *user, tn_scope *scope, tn_module *m, tn_tensors in, tn_tensor *out)
{
    (void)scope;
    (void)m;
    (void)in;
    (void)out;
    ++*(uint32_t *)user;
    return NULL;
}

/* Counts its calls, and sees no gradient of the input. */
static void count_output(void *user, tn_scope *scope, tn_module *m, tn_tensor *grad_out, tn_tensor **grad_in,
                         uint32_t count)
{
    (void)m;
    cr_assert_eq(count, 1);
    cr_assert_null(grad_in[0]);
    *(double *)user += tn_item_double(scope, tn_sum(scope, grad_out));
}

/* As in PyTorch: the first layer of a network, whose input is data, has its hook called, too. */
Test(calls, a_backward_hook_without_a_gradient_of_the_input)
{
    double sum = 0;
    tn_module *fc = tn_linear_create(net, "fc", 2, 3);
    const tn_module_hook hook = {.size = sizeof hook, .user = &sum, .backward = count_output};
    cr_assert_neq(tn_module_add_hook(fc, &hook), 0);
    tn_tensor *x = tn_ones(s, TN_INTS(1, 2), .dtype = TN_FLOAT64);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_module_forward(s, fc, x))), TN_OK);
    cr_assert_eq(sum, 3);
    cr_assert_not_null(tn_grad_of(s, tn_module_tensor(fc, "weight")));
    tn_scope *quiet = tn_scope_open_child(
        s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    cr_assert_not_null(tn_module_forward(quiet, fc, x));
    cr_assert_eq(tn_scope_close(quiet), TN_OK);
    cr_assert_eq(sum, 3);
}

Test(calls, a_backward_hook_whose_call_is_not_recorded)
{
    double sum = 0;
    tn_module *fc = tn_linear_create(net, "fc", 2, 1, .bias = 0);
    const tn_module_hook hook = {.size = sizeof hook, .user = &sum, .backward = count_output};
    tn_init_constant(s, tn_module_tensor(fc, "weight"), 3);
    cr_assert_neq(tn_module_add_hook(fc, &hook), 0);
    tn_tensor *x = VECTOR(s, 1, 1, 2);
    for (int i = 0; i < 100; i++) {
        tn_scope *quiet = tn_scope_open_child(
            s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
        EXPECT(quiet, tn_module_forward(quiet, fc, x), 9);
        cr_assert_eq(tn_scope_close(quiet), TN_OK);
    }
    cr_assert_eq(sum, 0);
}

/* As an exception does in PyTorch. */
Test(calls, a_hook_that_fails_is_the_last)
{
    uint32_t calls = 0;
    double sum = 0;
    tn_module *fc = tn_linear_create(net, "fc", 2, 1);
    const tn_module_hook fails[] = {{.size = sizeof *fails, .after = fail_after},
                                    {.size = sizeof *fails, .backward = fail_backward}};
    const tn_module_hook counts[] = {{.size = sizeof *counts, .user = &calls, .after = count_after},
                                     {.size = sizeof *counts, .user = &sum, .backward = halve}};
    uint64_t first = tn_module_add_hook(fc, &fails[0]), second = tn_module_add_hook(fc, &counts[0]);
    cr_assert_null(tn_module_forward(s, net, VECTOR(s, 0, 1, 2)));
    expect_error(s, "out of luck");
    cr_assert_eq(calls, 0);
    tn_module_remove_hook(fc, first);
    tn_module_remove_hook(fc, second);
    tn_module_add_hook(fc, &fails[1]);
    tn_module_add_hook(fc, &counts[1]);
    cr_assert_neq(tn_backward(s, tn_sum(s, tn_module_forward(s, net, VECTOR(s, 1, 1, 2)))), TN_OK);
    expect_error(s, "out of luck");
    cr_assert_eq(sum, 0);
}

/* Uses small pieces of memory that were freed again. */
static void overwrite_freed(void)
{
    static void *pieces[64];
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        pieces[i] = malloc(16 + i / 4 * 16);
        memset(pieces[i], 0x55, 16 + i / 4 * 16);
    }
}

/* The graph outlives the module and its hooks. */
Test(calls, backward_of_a_module_that_is_gone)
{
    double sum = 0;
    tn_module *gone = tn_module_create(ctx, "gone", NULL),
              *fc = tn_linear_create(gone, "fc", 2, 1, .bias = 0);
    const tn_module_hook hook = {.size = sizeof hook, .user = &sum, .backward = halve};
    cr_assert_eq(tn_module_to(gone, 0, TN_FLOAT64), TN_OK);
    tn_init_constant(s, tn_module_tensor(fc, "weight"), 3);
    cr_assert_neq(tn_module_add_hook(fc, &hook), 0);
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_sum(s, tn_module_forward(s, gone, x));
    tn_module_destroy(gone);
    overwrite_freed();
    cr_assert_eq(tn_backward(s, y), TN_OK);
    EXPECT(s, tn_grad_of(s, x), 3, 3);
    cr_assert_eq(sum, 0);
}

Test(calls, hooks)
{
    tn_module *fc = tn_linear_create(net, "fc", 2, 1, .bias = 0);
    uint32_t calls = 0;
    double sum = 0;
    tn_init_constant(s, tn_module_tensor(fc, "weight"), 3);
    uint64_t before = tn_module_add_hook(
        fc, &(tn_module_hook){.size = sizeof(tn_module_hook), .user = &calls, .before = twice});
    uint64_t after =
        tn_module_add_hook(fc, &(tn_module_hook){.size = sizeof(tn_module_hook), .after = plus_one});
    EXPECT(s, tn_detach(s, tn_module_forward(s, net, VECTOR(s, 0, 1, 2))), 19);
    cr_assert_eq(calls, 1);
    tn_module_remove_hook(fc, before);
    EXPECT(s, tn_detach(s, tn_module_forward(s, net, VECTOR(s, 0, 1, 2))), 10);
    tn_module_remove_hook(fc, after);
    uint64_t back = tn_module_add_hook(
        fc, &(tn_module_hook){.size = sizeof(tn_module_hook), .user = &sum, .backward = halve});
    tn_tensor *x = VECTOR(s, 1, 1, 2);
    cr_assert_eq(tn_backward(s, tn_mul_scalar(s, tn_sum(s, tn_module_forward(s, net, x)), 4.0)), TN_OK);
    cr_assert_float_eq(sum, 4, 0);
    EXPECT(s, tn_grad_of(s, x), 6, 6); /* 4 * 3 / 2 */
    EXPECT(s, tn_grad_of(s, tn_module_tensor(fc, "weight")), 4, 8);
    tn_module_remove_hook(fc, back);
    expect_sound(s);
}
