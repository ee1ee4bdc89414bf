/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that a plugin defines, under `validate` and `inject`: each lie of operator_liar.c about its
 * shape rule, composite, gradient and kernel must be found with its operator and places, be the only thing
 * found, and leave a living process; the honest library has no findings and the same results.
 */
#include "fixture.h"

static tn_context *context_of_liar(const char *shims, const char *lie)
{
    tn_library *library = NULL;
    setenv("TENON_LIAR", lie, 1);
    tn_context *ctx = context_with(shims);
    cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_ODD"), &library), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    return ctx;
}

/* odd::twice of 1, 2, 3, 4 and its gradient on a device, whatever becomes of them; the status. */
static int32_t use(tn_context *ctx, const char *device)
{
    tn_device d = tn_device_parse(ctx, device);
    tn_scope_options options = {.size = sizeof(options), .device = d};
    tn_scope *s = tn_scope_open_with(ctx, &options);
    const float numbers[] = {1, 2, 3, 4};
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), numbers, d);
    float y[4] = {0}, g[4] = {0};
    tn_value arg = tn_value_tensor(x), out = tn_value_none();
    tn_set_requires_grad(x, 1);
    tn_scope_call(s, tn_operator_find(ctx, "odd::twice"), &arg, 1, &out, 1);
    if (!tn_scope_failed(s)) {
        tn_backward(s, tn_sum(s, tn_value_as_tensor(out)));
        tn_to_host(s, tn_value_as_tensor(out), y, sizeof(y));
        if (tn_grad_of(s, x) && tn_tensor_numel(tn_grad_of(s, x)) == 4 &&
            tn_tensor_dtype(tn_grad_of(s, x)) == TN_FLOAT32)
            tn_to_host(s, tn_grad_of(s, x), g, sizeof(g));
    }
    int32_t status = tn_scope_failed(s);
    /* Lies about a result's dtype, shape or device change what comes. */
    const char *lie = strchr(getenv("TENON_LIAR"), '-');
    int32_t right = !lie || (!strstr(lie, "dtype") && !strstr(lie, "shape") && !strstr(lie, "device"));
    if (!status && right)
        cr_assert(y[0] == 2 && y[3] == 8 && g[0] == 2 && g[3] == 2, "%g %g, %g %g", (double)y[0],
                  (double)y[3], (double)g[0], (double)g[3]);
    tn_scope_close(s);
    tn_device_synchronize(ctx, d);
    return status;
}

TestSuite(operators);

/* The finding of a kind in a slot; all findings are of that kind. */
static tn_finding find(tn_context *ctx, const char *kind, const char *slot)
{
    tn_finding f = expect_finding(ctx, kind);
    for (uint32_t i = 0; i < tn_inspect_finding_count(ctx); i++) {
        tn_finding one = {.size = sizeof(one)};
        cr_assert_eq(tn_inspect_finding(ctx, i, &one), TN_OK);
        if (strcmp(one.slot, slot) == 0) f = one;
    }
    return f;
}

static const struct {
    const char *lie, *kind, *text, *slot;
    const char *other; /* how the second place begins; NULL: there is none */
    int32_t fails;     /* the call has to fail */
    const char *device;
} liars[] = {
    {"rule-not-defined", "output-not-written",
     "the shape rule of odd::twice succeeds and has not defined output 0", "operator.infer", NULL, 1,
     "reference:0"},
    {"rule-dtype", "bad-value", "the shape rule of odd::twice gives output 0 the dtype 0x1234",
     "host.define_output", "operator.infer of odd::twice, call ", 1, "reference:0"},
    {"rule-size", "bad-value", "gives output 0 the size -1", "host.define_output", "operator.infer of ", 1,
     "reference:0"},
    {"rule-no-sizes", "bad-value", "gives output 0 rank 1 and no sizes", "host.define_output",
     "operator.infer of ", 1, "reference:0"},
    {"rule-output", "bad-value", "defines output 7 of 1", "host.define_output", "operator.infer of ", 1,
     "reference:0"},
    {"rule-device", "wrong-device", "puts output 0 on a device that no argument is on", "host.define_output",
     "operator.infer of ", -1, "reference:0"},
    {"rule-strides", "bad-value",
     "gives output 0 of sizes [2, 2] the strides [0, 0], by which elements share memory",
     "host.define_output", "operator.infer of odd::twice, call ", 1, "reference:0"},
    {"rule-operator", "wrong-place",
     "the shape rule of odd::twice calls host.call_scope, which it may not call", "host.call_scope",
     "operator.infer of ", 1, "reference:0"},
    {"rule-scope", "wrong-place", "the shape rule of odd::twice calls host.call_scope, which it may not call",
     "host.call_scope", "operator.infer of ", 0, "reference:0"},
    {"rule-writes", "written-directly", "the shape rule of odd::twice replaces output 0", "operator.infer",
     NULL, 0, "reference:0"},
    {"rule-writes-and-fails", "written-on-failure",
     "the shape rule of odd::twice fails and has written output 0", "operator.infer", NULL, 1, "reference:0"},
    {"rule-no-status", "no-status", "odd::twice returns -77", "operator.infer", NULL, 1, "reference:0"},
    {"composite-not-given", "output-not-written",
     "the composite of odd::twice succeeds and has not given output 0", "operator.composite", NULL, 1,
     "reference:0"},
    {"composite-dtype", "wrong-dtype", "gives output 0 as float64; the shape rule has float32",
     "operator.composite", "operator.infer of odd::twice, call ", -1, "reference:0"},
    {"composite-shape", "wrong-shape", "gives output 0 as [1, 2, 2]; the shape rule has [2, 2]",
     "operator.composite", "operator.infer of odd::twice, call ", -1, "reference:0"},
    {"composite-device", "wrong-device", "gives output 0 on a device that no argument is on",
     "operator.composite", NULL, -1, "reference:0"},
    {"composite-defines", "wrong-place", "the composite of odd::twice calls host.define_output",
     "host.define_output", "operator.composite of ", 0, "reference:0"},
    {"composite-keeps", "wrong-place", "the composite of odd::twice calls host.keep_alive", "host.keep_alive",
     "operator.composite of ", 0, "reference:0"},
    {"composite-elsewhere", "call-outside", "host.call_scope with a call that does not run on this thread",
     "host.call_scope", "operator.composite of odd::twice, call ", 0, "reference:0"},
    {"composite-error-then-ok", "error-then-ok", "odd::twice records an error and returns success",
     "operator.composite", NULL, 0, "reference:0"},
    {"composite-no-status", "no-status", "odd::twice returns 4711", "operator.composite", NULL, 1,
     "reference:0"},
    {"composite-arguments", "arguments-changed", "the composite of odd::twice replaces argument 0",
     "operator.composite", NULL, 0, "reference:0"},
    {"composite-output", "bad-value", "the composite of odd::twice calls host.set_output for output 3 of 1",
     "host.set_output", "operator.composite of ", 0, "reference:0"},
    {"composite-writes", "written-directly",
     "the composite of odd::twice replaces output 0 of its call; set_output gives it", "operator.composite",
     NULL, 0, "reference:0"},
    {"composite-writes-and-fails", "written-on-failure",
     "the composite of odd::twice fails and has written output 0", "operator.composite", NULL, 1,
     "reference:0"},
    {"gradient-dtype", "wrong-dtype", "gives that of argument 0 as float64; the argument has float32",
     "operator.backward", NULL, -1, "reference:0"},
    {"gradient-shape", "wrong-shape", "gives that of argument 0 as []; the argument has [2, 2]",
     "operator.backward", NULL, -1, "reference:0"},
    {"gradient-device", "wrong-device", "gives that of argument 0 on another device than the argument",
     "operator.backward", NULL, -1, "reference:0"},
    {"gradient-of-number", "bad-value", "gives one for argument 1, which is not a tensor",
     "operator.backward", NULL, 1, "reference:0"},
    {"gradient-error-then-ok", "error-then-ok", "odd::twice records an error", "operator.backward", NULL, 0,
     "reference:0"},
    {"gradient-writes", "written-directly", "the gradient of odd::twice replaces output 0",
     "operator.backward", NULL, 0, "reference:0"},
    {"gradient-list", "bad-value", "gives a list for argument 0, which is one tensor", "operator.backward",
     NULL, -1, "reference:0"},
    {"kernel-sets", "wrong-place", "the kernel of odd::twice calls host.set_output", "host.set_output",
     "kernel.run of odd::twice, call ", 0, "cpu"},
    {"kernel-operator", "wrong-place", "the kernel of odd::twice calls host.call_scope", "host.call_scope",
     "kernel.run of odd::twice, call ", 1, "cpu"},
    {"kernel-writes", "written-directly", "the kernel of odd::twice replaces output 0", "kernel.run", NULL, 0,
     "cpu"},
};

Test(operators, an_honest_library_has_no_findings)
{
    const char *devices[] = {"cpu", "reference:0"};
    for (int i = 0; i < 2; i++) {
        tn_context *ctx = context_of_liar("validate=1", "");
        cr_assert_eq(use(ctx, devices[i]), TN_OK);
        expect_no_finding(ctx);
        tn_context_destroy(ctx);
        cr_assert_str_eq(log_text, "");
    }
}

Test(operators, each_lie_is_found_and_nothing_else)
{
    for (size_t i = 0; i < sizeof(liars) / sizeof(liars[0]); i++) {
        tn_context *ctx = context_of_liar("validate=1", liars[i].lie);
        int32_t status = use(ctx, liars[i].device);
        if (liars[i].fails >= 0)
            cr_assert_eq(status != TN_OK, liars[i].fails, "%s: status %d", liars[i].lie, status);
        cr_assert_gt(tn_inspect_finding_count(ctx), 0, "%s was not found", liars[i].lie);
        tn_finding f = find(ctx, liars[i].kind, liars[i].slot);
        cr_assert_str_eq(f.finder, "validate", "%s", liars[i].lie);
        cr_assert_str_eq(f.plugin, "odd");
        cr_assert_str_eq(f.op, "odd::twice", "%s", liars[i].lie);
        cr_assert_str_eq(f.slot, liars[i].slot);
        assert_contains(f.text, liars[i].text);
        assert_contains(f.place, liars[i].slot);
        cr_assert_eq(f.other != NULL, liars[i].other != NULL, "%s: %s", liars[i].lie, f.other);
        if (f.other) cr_assert_eq(strncmp(f.other, liars[i].other, strlen(liars[i].other)), 0, "%s", f.other);
        /* The same process and context go on. */
        setenv("TENON_LIAR", "", 1);
        cr_assert_eq(use(ctx, liars[i].device), TN_OK, "%s", liars[i].lie);
        tn_context_destroy(ctx);
    }
}

Test(operators, a_call_that_is_over)
{
    tn_context *ctx = context_of_liar("validate=1", "call-is-over");
    cr_assert_eq(use(ctx, "reference:0"), TN_OK);
    expect_no_finding(ctx);
    cr_assert_eq(use(ctx, "reference:0"), TN_OK);
    tn_finding f = expect_finding(ctx, "call-outside");
    cr_assert_str_eq(f.slot, "host.call_scope");
    assert_contains(f.other, "operator.composite of odd::twice, call ");
    tn_context_destroy(ctx);
}

Test(operators, a_call_whose_memory_is_overwritten)
{
    const char *slots[] = {"set_output", "call_scope",     "define_output", "resize_output", "workspace",
                           "native",     "random_reserve", "keep_alive",    "storage",       "work_queued"};
    tn_context *ctx = context_of_liar("validate=1", "gradient-uses-ended-call");
    cr_assert_eq(use(ctx, "reference:0"), TN_OK);
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        char slot[64];
        snprintf(slot, sizeof(slot), "host.%s", slots[i]);
        tn_finding f = find(ctx, "call-outside", slot);
        cr_assert_str_eq(f.slot, slot);
        cr_assert_str_eq(f.plugin, "odd");
        assert_contains(f.text, "with a call that does not run on this thread, or has ended");
    }
    tn_context_destroy(ctx);
    ctx = context_of_liar("inject=any:100000000", "gradient-uses-ended-call");
    cr_assert_eq(use(ctx, "reference:0"), TN_OK);
    tn_context_destroy(ctx);
}

Test(operators, a_library_that_does_not_start)
{
    const char *lies[] = {"init-fails", "init-state-and-fails"};
    for (int i = 0; i < 2; i++) {
        tn_context *ctx = context_with("validate=1");
        tn_library *library = NULL;
        setenv("TENON_LIAR", lies[i], 1);
        cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_ODD"), &library), TN_E_STATE);
        if (i == 0) {
            expect_no_finding(ctx);
        } else {
            tn_finding f = expect_finding(ctx, "written-on-failure");
            cr_assert_str_eq(f.text, "plugin.init fails and has written 'out_self'");
        }
        tn_context_destroy(ctx);
    }
}

/* odd::total of two tensors and its gradient; the status. */
static int32_t use_list(tn_context *ctx)
{
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *items[2] = {tn_ones(s, TN_INTS(2, 2)), tn_ones(s, TN_INTS(2, 2))};
    tn_value arg = tn_value_tensors(items, 2), out = tn_value_none();
    float g[4] = {0};
    tn_set_requires_grad(items[1], 1);
    tn_scope_call(s, tn_operator_find(ctx, "odd::total"), &arg, 1, &out, 1);
    if (!tn_scope_failed(s)) tn_backward(s, tn_sum(s, tn_value_as_tensor(out)));
    int32_t status = tn_scope_failed(s);
    if (!status) tn_to_host(s, tn_expand(s, tn_grad_of(s, items[1]), TN_INTS(2, 2)), g, sizeof(g));
    if (!status) cr_assert(g[0] == 1 && g[3] == 1);
    tn_scope_close(s);
    return status;
}

Test(operators, gradients_of_a_list_are_stored)
{
    tn_context *ctx = context_of_liar("validate=1", "");
    cr_assert_eq(use_list(ctx), TN_OK);
    expect_no_finding(ctx);
    setenv("TENON_LIAR", "list-fails", 1);
    cr_assert_eq(use_list(ctx), TN_E_ARGUMENT);
    expect_no_finding(ctx);
    setenv("TENON_LIAR", "list-shape", 1);
    use_list(ctx);
    tn_finding f = expect_finding(ctx, "wrong-shape");
    assert_contains(f.text, "the gradient of odd::total gives that of argument 0 as []; the argument has");
    tn_context_destroy(ctx);
}

/* The sum of what an operator of the library makes of one or two tensors of four ones; the status. */
static int32_t use_other(tn_context *ctx, const char *name, uint32_t n_args, uint32_t n_outs, double want)
{
    tn_scope *s = tn_scope_open(ctx);
    tn_value args[2], outs[3];
    for (int i = 0; i < 2; i++) args[i] = tn_value_tensor(tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32));
    tn_scope_call(s, tn_operator_find(ctx, name), args, n_args, outs, n_outs);
    int32_t status = tn_scope_failed(s);
    if (!status)
        cr_assert_eq(tn_item_double(s, tn_sum(s, tn_value_as_tensor(outs[n_outs - 1]))), want, "%s", name);
    if (!status && n_outs == 3) cr_assert_eq(outs[0].as.i, 4);
    tn_scope_close(s);
    return status;
}

Test(operators, composites_that_need_not_call_set_output)
{
    tn_context *ctx = context_of_liar("validate=1", "");
    cr_assert_eq(use_other(ctx, "odd::count", 1, 3, 4), TN_OK);
    cr_assert_eq(use_other(ctx, "odd::grow_", 1, 1, 8), TN_OK);
    cr_assert_eq(use_other(ctx, "odd::grow.out", 2, 1, 8), TN_OK);
    cr_assert_eq(use_other(ctx, "odd::ruled_", 1, 1, 8), TN_OK);
    cr_assert_eq(use_other(ctx, "odd::doubles_", 1, 1, -4), TN_OK);
    expect_no_finding(ctx);
    setenv("TENON_LIAR", "count-not-given", 1);
    cr_assert_eq(use_other(ctx, "odd::count", 1, 3, 4), TN_E_CONTRACT);
    tn_finding f = expect_finding(ctx, "output-not-written");
    cr_assert_str_eq(f.text, "the composite of odd::count succeeds and has not given output 0");
    tn_context_destroy(ctx);
    ctx = context_of_liar("validate=1", "count-writes");
    cr_assert_eq(use_other(ctx, "odd::count", 1, 3, 4), TN_OK);
    f = expect_finding(ctx, "written-directly");
    cr_assert_str_eq(f.text,
                     "the composite of odd::count replaces output 2 of its call; set_output gives it");
    tn_context_destroy(ctx);
}

Test(operators, work_queued_reaches_the_host)
{
    tn_context *ctx = context_of_liar("validate=1", "kernel-queued");
    cr_assert_eq(use(ctx, "cpu"), TN_E_OUT_OF_MEMORY);
    expect_no_finding(ctx);
    cr_assert_eq(use(ctx, "cpu"), TN_OK);
    tn_context_destroy(ctx);
}

/* ---- Without the layer the host refuses what would harm it --------------------------------------------- */

static const struct {
    const char *lie, *text, *device;
} refused[] = {
    {"rule-not-defined", "the shape rule did not define output 0", "reference:0"},
    {"rule-dtype", "the shape rule gave output 0 an unknown dtype", "reference:0"},
    {"rule-no-sizes", "the shape rule defined output 0 of rank 1", "reference:0"},
    {"rule-strides", "the shape rule gave output 0 of sizes [2, 2] the strides [0, 0]", "reference:0"},
    {"rule-operator", "twice: the shape rule calls an operator (expected only define_output)", "reference:0"},
    {"kernel-operator",
     "twice: the kernel calls an operator, and its row does not have the flag TN_ROW_SCOPE", "cpu"},
    {"rule-no-status", "the shape rule of odd::twice returned -77, not a valid status code", "reference:0"},
    {"composite-no-status", "the composite of odd::twice returned 4711, not a valid status code",
     "reference:0"},
    {"gradient-of-number", "backward set a gradient for argument 'by', which is not a tensor", "reference:0"},
};

Test(operators, the_host_alone)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        tn_context *ctx = context_of_liar(NULL, refused[i].lie);
        cr_assert_neq(use(ctx, refused[i].device), TN_OK, "%s", refused[i].lie);
        assert_contains(tn_last_error()->message, refused[i].text);
        tn_context_destroy(ctx);
    }
    /* Calls that are not for the place are refused, and what the function gives otherwise counts. */
    const char *harmless[] = {"rule-scope", "composite-defines", "composite-keeps", "composite-output"};
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        tn_context *ctx = context_of_liar(NULL, harmless[i]);
        cr_assert_eq(use(ctx, "reference:0"), TN_OK, "%s", harmless[i]);
        tn_context_destroy(ctx);
    }
    tn_context *ctx = context_of_liar(NULL, "kernel-sets");
    cr_assert_eq(use(ctx, "cpu"), TN_OK);
    tn_context_destroy(ctx);
}

/* ---- inject ------------------------------------------------------------------------------------------ */

Test(operators, their_functions_fail_by_injection)
{
    const char *functions[] = {"infer", "composite", "backward"};
    for (int i = 0; i < 3; i++) {
        char setting[64], text[96];
        snprintf(setting, sizeof(setting), "inject=operator.%s:1:TN_E_IO", functions[i]);
        tn_context *ctx = context_of_liar(setting, "");
        cr_assert_eq(use(ctx, "reference:0"), TN_E_IO, "%s", functions[i]);
        snprintf(text, sizeof(text), "injected failure of operator.%s of odd::twice", functions[i]);
        assert_contains(tn_last_error()->message, text);
        cr_assert_eq(use(ctx, "reference:0"), TN_OK);
        tn_context_destroy(ctx);
    }
}

/* ---- A library that is closed -------------------------------------------------------------------------- */

Test(operators, a_closed_library_is_gone_behind_shims_too)
{
    const char *shims[] = {NULL, "validate=1", "validate=1;inject=any:100000000"};
    setenv("TENON_LIAR", "", 1);
    for (int i = 0; i < 3; i++) {
        tn_context *ctx = context_with(shims[i]);
        tn_library *library = NULL;
        cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_ODD"), &library), TN_OK);
        uint32_t op = tn_operator_find(ctx, "odd::twice");
        cr_assert_eq(tn_inspect_kernel_count(ctx, op), 1);
        cr_assert_eq(tn_library_close(library), TN_OK);
        cr_assert_eq(tn_operator_find(ctx, "odd::twice"), 0);
        cr_assert_eq(tn_inspect_kernel_count(ctx, op), 0);
        tn_context_destroy(ctx);
    }
}
