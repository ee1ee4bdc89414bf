/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a program and its main function (TN_STEP, TN_STEPS, TN_TRY, tn_main): what they leave of an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/program.h>
#include <unistd.h>
#include "../autograd/suite.h"

TestSuite(steps, .init = begin, .fini = end);

Test(steps, end_with_an_error)
{
    int32_t runs = 0;
    for (int64_t i = 0; i < 5 && !tn_step_status(); i++)
        TN_STEP (step, ctx) {
            runs++;
            tn_ones(step, TN_INTS(2));
            if (i == 2) tn_scope_fail(step, TN_E_SHAPE, "on purpose");
        }
    cr_assert_eq(runs, 3);
    cr_assert_eq(tn_step_status(), TN_E_SHAPE);
    expect_last_error("on purpose");
    TN_STEP (step, ctx) tn_ones(step, TN_INTS(2));
    cr_assert_eq(tn_step_status(), TN_OK);
}

static int32_t left_in_the_middle(void)
{
    TN_STEPS (step, ctx, i, 5) {
        TN_AUTO(tn_module) m = tn_module_create(ctx, "m", NULL);
        tn_linear_create(m, "fc", 1, 1);
        if (i == 2) return (int32_t)i;
    }
    return -1;
}

Test(steps, may_be_left)
{
    cr_assert_eq(left_in_the_middle(), 2);
    TN_STEP (step, ctx) tn_scope_fail(step, TN_E_SHAPE, "the only open step");
    cr_assert_eq(tn_step_status(), TN_E_SHAPE); /* not one inside another, which would still be open */
}

Test(steps, end_with_the_first_that_fails)
{
    int64_t done = 0;
    TN_STEPS (step, ctx, i, 5) {
        done++;
        if (i == 2) tn_scope_fail(step, TN_E_SHAPE, "on purpose");
    }
    cr_assert_eq(done, 3);
    TN_STEPS (step, ctx, i, 5) done++;
    cr_assert_eq(done, 3); /* nothing after a failure that nobody has looked at */
    cr_assert_eq(tn_step_status(), TN_E_SHAPE);
}

Test(steps, an_open_step_that_has_failed_ends_the_steps_in_it)
{
    int64_t done = 0;
    TN_STEP (outer, ctx) {
        tn_scope_fail(outer, TN_E_IO, "no file");
        TN_STEPS (step, ctx, i, 5) done++;
    }
    cr_assert_eq(done, 0);
    cr_assert_eq(tn_step_status(), TN_E_IO);
}

Test(steps, options_of_a_step_hold_inside)
{
    tn_tensor *w = tn_full(s, TN_INTS(2), 1, .dtype = TN_FLOAT64);
    cr_assert_eq(tn_set_requires_grad(w, 1), TN_OK);
    TN_STEP_WITH (outer, ctx, .grad_mode = TN_GRAD_OFF)
        TN_STEPS (step, ctx, i, 1) cr_assert_not(tn_requires_grad(tn_mul(step, w, w)));
    TN_STEP (step, ctx) cr_assert(tn_requires_grad(tn_mul(step, w, w)));
    cr_assert_eq(tn_step_status(), TN_OK);
}

Test(steps, the_error_of_a_step_is_the_last_one_and_says_its_place)
{
    char place[512];
    TN_STEP (step, ctx) {
        snprintf(place, sizeof place, "%s:%d: ", __FILE__, __LINE__ + 1);
        tn_mm(step, tn_ones(step, TN_INTS(2, 3)), tn_ones(step, TN_INTS(2, 3)));
        tn_module_to(NULL, 0, 0); /* a later failure that is not the step's */
    }
    const char *text = tn_last_error()->message;
    cr_assert_eq(tn_last_error()->code, tn_step_status());
    cr_assert_eq(strncmp(text, place, strlen(place)), 0, "%s", text);
}

static int32_t tried(int32_t status)
{
    TN_TRY(status);
    return 77;
}

Test(steps, try_and_within)
{
    tn_tensor *kept = NULL, *variable = NULL;
    cr_assert_eq(tried(TN_E_SHAPE), TN_E_SHAPE);
    cr_assert_eq(tried(TN_OK), 77);
    TN_WITHIN (inner, s, .default_dtype = TN_FLOAT64)
        kept = tn_scope_return(inner, tn_ones(inner, TN_INTS(2)));
    cr_assert_eq(tn_tensor_dtype(kept), TN_FLOAT64);
    cr_assert_float_eq(tn_item_double(s, tn_sum(s, kept)), 2, 0);
    cr_assert_eq(tn_assign(&variable, kept), kept);
    cr_assert_eq(tn_assign(&variable, NULL), NULL);
    cr_assert_null(variable);
}

static int32_t failing_body(tn_context *own, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    TN_STEP (step, own) tn_scope_fail(step, TN_E_SHAPE, "in the body");
    return TN_OK; /* the step's status ends the program all the same */
}

static int32_t asks_for_arguments(tn_context *own, int argc, char **argv)
{
    (void)own;
    (void)argv;
    return argc < 2 ? tn_usage("prog FILE") : TN_OK;
}

Test(steps, a_main_function_says_its_error)
{
    char *arguments[] = {(char *)"some/prog", NULL}, text[256];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    int first = tn_main(1, arguments, failing_body), second = tn_main(1, arguments, asks_for_arguments);
    dup2(before, STDERR_FILENO);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    cr_assert(first == 1 && second == 1);
    cr_assert_str_eq(text, "prog: in the body\nprog: usage: prog FILE\n");
}

/* Three items, the second absent; `break` and `continue` are those of one loop. */
Test(steps, each_tensor_of_a_list)
{
    tn_tensor *a = tn_full(s, TN_INTS(1), 3), *b = tn_full(s, TN_INTS(1), 5);
    double sum = 0;
    int32_t absent = 0, seen = 0;
    TN_EACH (t, TN_TENSORS(a, NULL, b)) {
        seen++;
        if (!t) {
            absent++;
            continue;
        }
        sum += tn_item_double(s, t);
    }
    cr_assert(seen == 3 && absent == 1);
    cr_assert_float_eq(sum, 8, 0);
    TN_EACH (t, TN_TENSORS(a, b)) {
        cr_assert_eq(t, a);
        seen++;
        break;
    }
    cr_assert_eq(seen, 4);
    TN_EACH (t, ((tn_tensors){NULL, 0})) cr_assert_fail("an empty list has the item %p", (void *)t);
}

Test(steps, texts_of_a_scope)
{
    const char *first = tn_text(s, "h.%d.%s", 12, "weight"), *second = tn_text(s, "%0300d", 7);
    cr_assert_str_eq(first, "h.12.weight");
    cr_assert(strlen(second) == 300 && second[299] == '7');
    tn_scope_fail(s, TN_E_SHAPE, "on purpose");
    cr_assert_str_eq(tn_text(s, "%d", 1), "");
    tn_scope_clear(s);
}

#define main on_device_main /* whose name TN_MAIN_ON_DEVICE takes */
static int32_t loops;
int main(int argc, char **argv);
TN_MAIN_ON_DEVICE(own, chosen, step, n_args, args)
{
    loops = tn_tensor_device(tn_ones(step, TN_INTS(1))) == chosen ? 1 : -1;
    TN_AUTO(tn_module) net = tn_module_create(own, "net", NULL);
    tn_linear_create(net, "fc", 1, 1);
    if (tn_tensor_device(tn_module_tensor(net, "fc.weight")) != chosen) loops = -2;
    if (n_args > 1) tn_add(step, tn_ones(step, TN_INTS(2)), tn_ones(step, TN_INTS(3)));
    TN_STEPS (inner, own, i, 3) loops += tn_tensor_device(tn_ones(inner, TN_INTS(1))) == chosen;
    return TN_OK;
}
#undef main

Test(steps, a_main_function_on_a_device)
{
    char *arguments[] = {(char *)"prog", (char *)"fail", NULL}, text[256];
    setenv("TENON_DEVICE", "reference:0", 1);
    cr_assert_eq(on_device_main(1, arguments), 0);
    cr_assert_eq(loops, 4); /* everything is on the device, in steps, too */
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    int failed = on_device_main(2, arguments);
    setenv("TENON_DEVICE", "nowhere:0", 1);
    loops = 0;
    int missing = on_device_main(1, arguments);
    cr_assert_eq(loops, 0, "the program ran on without its device");
    dup2(before, STDERR_FILENO);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    cr_assert(failed == 1 && missing == 1);
    cr_assert(strstr(text, "steps.c:") && strstr(text, "prog: ") && strstr(text, "nowhere"), "%s", text);
}
