/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators without a kernel on the device run on the CPU: arguments of every kind are copied there, results
 * and written arguments back. The reference device has the primitives alone; its memory cannot be read by
 * the host.
 */
#include <stdlib.h>
#include "../plugins/slots.h"
#include <string.h>
#include <tenon/plugin.h>
#include "support.h"

static tn_device device;

static void set_up(void)
{
    open_context();
    device = tn_device_parse(ctx, "reference:0");
    cr_assert_neq(device, 0);
}

TestSuite(fallback, .init = set_up, .fini = close_context);

static tn_tensor *on_device(double value, int64_t n)
{
    return tn_full(s, TN_INTS(n), TN_SCALAR(value), .dtype = TN_FLOAT32, .device = device);
}

static double sum_of(tn_tensor *t)
{
    return tn_item_double(s, tn_sum(s, t));
}

static float *data_of(tn_value v)
{
    return tn_tensor_data(v.as.tensor);
}

/* out = the sum of the first elements of all tensors in the list. */
static int32_t add_list(void *self, const tn_call *call)
{
    float sum = 0;
    for (uint32_t i = 0; i < call->args[0].count; i++) {
        if (call->args[0].as.tensors[i]) sum += *(float *)tn_tensor_data(call->args[0].as.tensors[i]);
    }
    data_of(call->outs[0])[0] = sum;
    return TN_OK;
}

static int32_t infer_one(void *self, const tn_call *call)
{
    const int64_t one = 1;
    return slot_define(call, call->host, 0, TN_FLOAT32, 1, &one,
                       tn_tensor_device(call->args[0].as.tensors[0]));
}

static int32_t infer_on_device(void *self, const tn_call *call)
{
    const int64_t one = 1;
    return slot_define(call, call->host, 0, TN_FLOAT32, 1, &one, device);
}

/* An operator whose kernel on the CPU does nothing. */
static uint32_t define_idle(const char *schema, tn_kernel_fn infer)
{
    uint32_t op =
        define_with(&(tn_operator_def){.size = sizeof(tn_operator_def), .schema = schema, .infer = infer});
    add_row("cpu", schema, 0, do_nothing, NULL);
    return op;
}

/* On the CPU its shape rule asks for the device again. */
Test(fallback, a_shape_rule_that_always_names_the_device)
{
    uint32_t op = define_idle("test::there(Tensor x) -> Tensor", infer_on_device);
    CALL(op, tn_value_tensor(on_device(1, 2)));
    expect_failure(TN_E_UNSUPPORTED,
                   "there: no argument is on the device of the result, which has no kernel");
}

Test(fallback, a_list_of_tensors)
{
    const char *schema = "test::add_list(Tensor?[] list) -> Tensor";
    uint32_t op = define_with(
        &(tn_operator_def){.size = sizeof(tn_operator_def), .schema = schema, .infer = infer_one});
    enum { MANY = 700 };
    static tn_tensor *list[MANY];
    list[0] = on_device(2, 3), list[2] = on_device(5, 3);
    add_row("cpu", schema, 0, add_list, NULL);
    tn_tensor *sum = CALL(op, tn_value_tensors(list, 3));
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect_eq(sum_of(sum), 7);
    for (int i = 0; i < MANY; i++) list[i] = on_device(1, 1);
    cr_expect_eq(sum_of(CALL(op, tn_value_tensors(list, MANY))), MANY);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
}

/* counter += 1; out = 2 x */
static int32_t count_and_double(void *self, const tn_call *call)
{
    data_of(call->args[1])[0] += 1;
    for (int64_t i = 0; i < tn_tensor_numel(call->args[0].as.tensor); i++)
        data_of(call->outs[0])[i] = 2 * data_of(call->args[0])[i];
    return call->args[2].as.device == TN_CPU ? TN_OK : TN_E_INTERNAL;
}

Test(fallback, written_arguments_come_back_and_device_arguments_say_cpu)
{
    const char *schema = "test::count(Tensor x, Tensor(a!) counter, Device where) -> Tensor";
    uint32_t op = define(schema);
    tn_tensor *x = on_device(3, 4), *counter = on_device(10, 1);
    add_row("cpu", schema, 0, count_and_double, NULL);
    tn_tensor *y = CALL(op, tn_value_tensor(x), tn_value_tensor(counter), tn_value_device(device));
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect_eq(sum_of(y), 24);
    cr_expect_eq(sum_of(counter), 11);
}

/* The same on the CPU, with a list in place of a tensor: the result is not the counter. */
/* An argument that is on the CPU is not copied: the kernel writes it itself. */
Test(fallback, a_written_number_of_the_cpu)
{
    const char *schema = "test::count(Tensor x, Tensor(a!) counter, Device where) -> Tensor";
    uint32_t op = define(schema);
    tn_tensor *counter = tn_full(s, TN_NO_INTS, 5, .dtype = TN_FLOAT32);
    add_row("cpu", schema, 0, count_and_double, NULL);
    tn_tensor *y =
        CALL(op, tn_value_tensor(on_device(4, 3)), tn_value_tensor(counter), tn_value_device(device));
    cr_assert_not_null(y, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_eq(sum_of(y), 24);
    cr_expect_eq(tn_item_double(s, counter), 6);
}

static int32_t two_of_it(void *self, const tn_call *call)
{
    tn_scope *own = call->host->call_scope(call);
    return call->host->set_output(call, 0, tn_mul_scalar(own, call->args[0].as.tensor, 2));
}

static int32_t fails_without_a_text(void *self, const tn_call *call)
{
    return TN_E_DTYPE;
}

static int32_t fails_on_its_scope(void *self, const tn_call *call)
{
    tn_scope *own = call->host->call_scope(call);
    tn_reshape(own, call->args[0].as.tensor, TN_INTS(7));
    return TN_E_DTYPE;
}

static int32_t infer_like_the_first(void *self, const tn_call *call)
{
    const tn_tensor *x = call->args[0].as.tensor;
    return slot_define(call, call->host, 0, TN_FLOAT32, tn_tensor_rank(x), tn_tensor_sizes(x),
                       tn_tensor_device(x));
}

/* An operator with a shape rule and a composite: where it has no kernel, the composite runs on the device. */
Test(fallback, a_composite_in_place_of_a_kernel)
{
    tn_operator_def def = {.size = sizeof def,
                           .schema = "test::twice(Tensor x) -> Tensor",
                           .infer = infer_like_the_first,
                           .composite = two_of_it};
    uint32_t op = define_with(&def);
    tn_fallback_info info = {.size = sizeof info};
    tn_tensor *x = on_device(4, 3), *y = CALL(op, tn_value_tensor(x));
    cr_assert_not_null(y, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_eq(tn_tensor_device(y), device);
    cr_expect_eq(sum_of(y), 24);
    for (uint32_t i = 0; i < tn_inspect_fallback_count(ctx); i++) {
        cr_assert_eq(tn_inspect_fallback(ctx, i, &info), TN_OK);
        cr_expect_str_neq(info.name, "test::twice", "it ran on the device");
    }
    cr_expect_eq(tn_inspect_fallback(ctx, 0, NULL), TN_E_NOT_FOUND);
    def.schema = "test::silent(Tensor x) -> Tensor";
    def.composite = fails_without_a_text;
    cr_expect_null(CALL(define_with(&def), tn_value_tensor(x)));
    expect_failure(TN_E_DTYPE, "silent");
    def.schema = "test::loud(Tensor x) -> Tensor";
    def.composite = fails_on_its_scope;
    cr_expect_null(CALL(define_with(&def), tn_value_tensor(x)));
    expect_failure(TN_E_SHAPE, "shape '[7]' is invalid for input of size 3");
}

/* The dtype in the text is that of the first tensor. */
Test(fallback, operators_that_nobody_implements)
{
    uint32_t op = define("test::missing(int n, Tensor x) -> Tensor");
    cr_expect_null(CALL(op, tn_value_int(3), tn_value_tensor(tn_ones(s, TN_INTS(2), .dtype = TN_INT16))));
    expect_failure(TN_E_UNSUPPORTED, "\"missing\" not implemented for 'Short' on device cpu");
}

Test(fallback, a_written_argument_is_not_an_out_argument)
{
    const char *schema = "test::sum_and_count(Tensor?[] list, Tensor(a!) counter) -> Tensor";
    uint32_t op = define_with(
        &(tn_operator_def){.size = sizeof(tn_operator_def), .schema = schema, .infer = infer_one});
    tn_tensor *counter = tn_full(s, TN_INTS(1), 10, .dtype = TN_FLOAT32);
    tn_tensor *list[] = {tn_full(s, TN_INTS(1), 2, .dtype = TN_FLOAT32),
                         tn_full(s, TN_INTS(1), 5, .dtype = TN_FLOAT32)};
    add_row("cpu", schema, 0, add_list, NULL);
    tn_tensor *sum = CALL(op, tn_value_tensors(list, 2), tn_value_tensor(counter));
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect_eq(sum_of(sum), 7);
    cr_expect_eq(sum_of(counter), 10);
    cr_expect_neq(sum, counter);
}

static int32_t increment(void *self, const tn_call *call)
{
    for (int64_t i = 0; i < tn_tensor_numel(call->outs[0].as.tensor); i++) data_of(call->outs[0])[i] += 1;
    return TN_OK;
}

Test(fallback, an_operator_in_place)
{
    const char *schema = "test::increment_(Tensor(a!) self) -> Tensor(a!)";
    uint32_t op = define(schema);
    tn_tensor *x = on_device(3, 4);
    add_row("cpu", schema, 0, increment, NULL);
    tn_tensor *y = CALL(op, tn_value_tensor(x));
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect_eq(sum_of(x), 16);
    cr_expect_eq(sum_of(y), 16);
}

static const char *refuse(void *self, const tn_call *call)
{
    return "refused for this test";
}

Test(fallback, the_policy_and_the_last_error)
{
    const char *schema = "test::nothing(Tensor x) -> Tensor";
    uint32_t op = define(schema);
    tn_tensor *x = on_device(1, 2), *cpu = tn_ones(s, TN_INTS(2));
    CALL(op, tn_value_tensor(cpu));
    expect_failure(TN_E_UNSUPPORTED, "\"nothing\" not implemented for 'Float' on device cpu");
    CALL(op, tn_value_tensor(x));
    expect_failure(TN_E_UNSUPPORTED,
                   "\"nothing\" not implemented for 'Float' on device reference:0, nor on the CPU");
    add_row("cpu", schema, 0, do_nothing, NULL);
    add_row("reference", schema, 0, do_nothing, refuse);
    cr_expect_not_null(CALL(op, tn_value_tensor(x)));
    tn_fallback_info info = {.size = sizeof info};
    cr_assert_eq(tn_inspect_fallback(ctx, 0, &info), TN_OK);
    cr_expect_str_eq(info.reason, "refused for this test");
    tn_set_fallback_policy(ctx, TN_FALLBACK_ERROR);
    tn_set_fallback_policy(ctx, 77); /* ignored */
    CALL(op, tn_value_tensor(x));
    expect_failure(TN_E_UNSUPPORTED, "test::nothing: would run on the CPU (refused for this test), which "
                                     "TENON_FALLBACK or tn_set_fallback_policy forbids");
}

/* The first time is logged where the policy is to warn. */
static char logged[256];
static void keep_line(void *user, int32_t level, const char *text)
{
    if (strstr(text, "runs on the CPU")) strncpy(logged, text, sizeof logged - 1);
}

Test(fallback_log, the_first_one_is_logged)
{
    const tn_context_options options = {.size = sizeof options, .log = keep_line};
    setenv("TENON_FALLBACK", "warn", 1);
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    s = tn_scope_open(ctx);
    device = tn_device_parse(ctx, "reference:0");
    const char *schema = "test::logged(Tensor x) -> Tensor";
    uint32_t op = define(schema);
    add_row("cpu", schema, 0, do_nothing, NULL);
    CALL(op, tn_value_tensor(on_device(1, 2)));
    cr_expect_str_eq(logged, "test::logged runs on the CPU: no kernel");
    logged[0] = 0;
    CALL(op, tn_value_tensor(on_device(1, 2)));
    cr_expect_str_eq(logged, "");
    close_context();
}
