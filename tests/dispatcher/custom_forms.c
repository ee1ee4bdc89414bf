/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are not built in, in their other forms: composites that call each other, in place, with given results. */
#include <stdio.h>
#include <tenon/plugin.h>
#include "../plugins/slots.h"
#include "support.h"

TestSuite(custom_forms, .init = open_context, .fini = close_context);

/* ---- Composites that call themselves ---- */

static int32_t call_other(void *self, const tn_call *call)
{
    tn_value out = tn_value_none();
    const uint32_t op = tn_operator_find(ctx, self);
    int32_t status = tn_scope_call(call->host->call_scope(call), op, call->args, 1, &out, 1);
    return status ? status : call->host->set_output(call, 0, out.as.tensor);
}

Test(custom_forms, composites_that_call_themselves)
{
    static char ping[] = "test::ping", pong[] = "test::pong";
    uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                 .schema = "test::ping(Tensor x) -> Tensor",
                                                 .composite = call_other,
                                                 .self = pong});
    define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                   .schema = "test::pong(Tensor x) -> Tensor",
                                   .composite = call_other,
                                   .self = ping});
    cr_expect_null(CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
    expect_failure(TN_E_CONTRACT,
                   "101 calls are nested in each other (expected at most 100); does the composite of "
                   "test::ping call its own operator, directly or by another one?");
}

/* ---- In place on `meta` ---- */

static int32_t infer_twice_as_long(void *self, const tn_call *call)
{
    const int64_t sizes[] = {tn_tensor_size(call->args[0].as.tensor, 0) * 2};
    return slot_define(call, call->host, 0, TN_FLOAT32, 1, sizes, 0);
}

static int32_t infer_floats_only(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor);
    if (x->dtype != TN_FLOAT32)
        return call->host->error(call->host->context, TN_E_DTYPE, "x must be float32");
    return slot_define(call, call->host, 0, x->dtype, x->rank, x->sizes, 0);
}

Test(custom_forms, in_place_operators_on_meta)
{
    const char *plain = "test::plain_(Tensor(a!) self) -> Tensor(a!)",
               *ruled = "test::rule_(Tensor(a!) self) -> Tensor(a!)",
               *wrong = "test::wrong_(Tensor(a!) self) -> Tensor(a!)";
    uint32_t ops[] = {define(plain),
                      define_with(&(tn_operator_def){
                          .size = sizeof(tn_operator_def), .schema = ruled, .infer = infer_floats_only}),
                      define_with(&(tn_operator_def){
                          .size = sizeof(tn_operator_def), .schema = wrong, .infer = infer_twice_as_long})};
    tn_tensor *meta = tn_empty(s, TN_INTS(3), .dtype = TN_FLOAT32, .device = tn_device_parse(ctx, "meta"));
    add_row("cpu", plain, 0, do_nothing, NULL);
    add_row("cpu", ruled, 0, do_nothing, NULL);
    add_row("cpu", wrong, 0, do_nothing, NULL);
    for (int i = 0; i < 2; i++) {
        const uint64_t version = tn_tensor_version(meta);
        cr_expect_eq(CALL(ops[i], tn_value_tensor(meta)), meta, "%d", i);
        cr_expect_eq(tn_scope_failed(s), TN_OK);
        cr_expect_gt(tn_tensor_version(meta), version);
    }
    cr_expect_null(CALL(ops[2], tn_value_tensor(meta)));
    expect_failure(TN_E_CONTRACT,
                   "wrong_: the shape rule gives output 0 the sizes [6] and the dtype float32, but it "
                   "is argument 'self', which has the sizes [3] and the dtype float32");
    cr_expect_null(CALL(ops[1], tn_value_tensor(tn_ones(s, TN_INTS(3), .dtype = TN_INT64))));
    expect_failure(TN_E_DTYPE, "x must be float32");
}

/* ---- Results that go to a given tensor ---- */

static int32_t fill_with_seven(void *self, const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_outs; i++) {
        tn_tensor *t = call->outs[i].as.tensor;
        for (int64_t k = 0; k < tn_tensor_numel(t); k++) ((float *)tn_desc(t)->host)[k] = 7.0f + (float)i;
    }
    return TN_OK;
}

/* A result goes to the argument of its alias set, wherever that stands. */
Test(custom_forms, out_forms_with_arguments_in_any_order)
{
    const char *schema = "test::two.out(Tensor x, *, Tensor(b!) second, Tensor(a!) first, float k=1.0) -> "
                         "(Tensor(a!), Tensor(b!))";
    uint32_t op = define(schema);
    add_row("cpu", schema, 0, fill_with_seven, NULL);
    tn_tensor *x = tn_ones(s, TN_INTS(2)), *first = tn_zeros(s, TN_INTS(2)),
              *second = tn_zeros(s, TN_INTS(2));
    const tn_value args[] = {tn_value_tensor(x), tn_value_tensor(second), tn_value_tensor(first)};
    tn_value outs[2];
    cr_assert_eq(tn_scope_call(s, op, args, 3, outs, 2), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_eq(outs[0].as.tensor, first);
    cr_expect_eq(outs[1].as.tensor, second);
    cr_expect_eq(tn_item_double(s, tn_sum(s, first)), 14);
    cr_expect_eq(tn_item_double(s, tn_sum(s, second)), 16);
}

/* ---- What composites give ---- */

typedef struct given_results {
    tn_value values[2];
    uint32_t count; /* of those that are given */
} given_results;

static int32_t give_values(void *self, const tn_call *call)
{
    const given_results *g = self;
    for (uint32_t i = 0; i < g->count; i++) call->outs[i] = g->values[i];
    return TN_OK;
}

static int32_t infer_two(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor);
    for (uint32_t i = 0; i < call->n_outs; i++)
        slot_define(call, call->host, i, x->dtype, x->rank, x->sizes, 0);
    return TN_OK;
}

Test(custom_forms, results_that_the_schema_does_not_have)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    tn_tensor *list[] = {x};
    const struct {
        const char *schema;
        tn_kernel_fn infer;
        given_results results;
        const char *text; /* NULL: good */
    } cases[] = {
        {"test::none(Tensor x) -> Tensor",
         NULL,
         {.count = 0},
         "none: the composite of test::none did not set output 0 (expected Tensor)"},
        {"test::ruled(Tensor x) -> Tensor",
         infer_two,
         {.count = 0},
         "ruled: the composite of test::ruled did not set output 0 (expected Tensor)"},
        {"test::one(Tensor x) -> (Tensor, Tensor)",
         infer_two,
         {{tn_value_tensor(x)}, 1},
         "one: the composite of test::one did not set output 1 (expected Tensor)"},
        {"test::optional(Tensor x) -> (Tensor, Tensor?)", NULL, {{tn_value_tensor(x)}, 1}, NULL},
        {"test::list(Tensor x) -> Tensor[]",
         NULL,
         {{tn_value_tensor(x)}, 1},
         "list: the composite of test::list set output 0 to Tensor (expected Tensor[])"},
        {"test::good_list(Tensor x) -> Tensor[]", NULL, {{tn_value_tensors(list, 1)}, 1}, NULL},
        {"test::number(Tensor x) -> int",
         NULL,
         {{tn_value_float(1)}, 1},
         "number: the composite of test::number set output 0 to float (expected int)"},
        {"test::good_number(Tensor x) -> (int, Tensor)",
         NULL,
         {{tn_value_int(3), tn_value_tensor(x)}, 2},
         NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                     .schema = cases[i].schema,
                                                     .infer = cases[i].infer,
                                                     .composite = give_values,
                                                     .self = (void *)(uintptr_t)&cases[i].results});
        tn_value arg = tn_value_tensor(x), outs[2];
        int32_t status = tn_scope_call(s, op, &arg, 1, outs, 2);
        if (cases[i].text) {
            expect_failure(TN_E_CONTRACT, cases[i].text);
            cr_expect_eq(outs[0].tag, TN_TAG_NONE);
        } else {
            cr_expect_eq(status, TN_OK, "%s", cases[i].schema);
            cr_expect_eq(outs[0].tag, cases[i].results.values[0].tag);
        }
    }
}

Test(custom_forms, results_that_nobody_could_give)
{
    REFUSE(TN_E_ARGUMENT,
           "operator test::f: result 1 is Tensor[], which only a composite without a shape rule can give",
           .size = sizeof(tn_operator_def), .schema = "test::f(Tensor x) -> (Tensor, Tensor[])");
    REFUSE(TN_E_ARGUMENT, "result 0 is int, which only a composite without a shape rule can give",
           .size = sizeof(tn_operator_def), .schema = "test::f(Tensor x) -> int", .infer = infer_two,
           .composite = give_values);
    REFUSE(TN_E_ARGUMENT, "operator test::f: an out form has no gradient, but backward is set",
           .size = sizeof(tn_operator_def), .schema = "test::f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
           .backward = give_values);
}

/* A composite that writes its argument, or the given tensor, need not give it. */
static int32_t add_one(void *self, const tn_call *call)
{
    tn_add_scalar_(call->host->call_scope(call), call->args[call->n_args - 1].as.tensor, 1);
    return TN_OK;
}

Test(custom_forms, composites_that_write_what_was_given)
{
    const char *const schemas[] = {"test::add_one_(Tensor(a!) self) -> Tensor(a!)",
                                   "test::add_one.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"};
    for (int i = 0; i < 2; i++) {
        uint32_t op = define_with(
            &(tn_operator_def){.size = sizeof(tn_operator_def), .schema = schemas[i], .composite = add_one});
        tn_tensor *x = tn_ones(s, TN_INTS(2)), *out = tn_ones(s, TN_INTS(2));
        const tn_value args[] = {tn_value_tensor(x), tn_value_tensor(out)};
        tn_value result;
        cr_assert_eq(tn_scope_call(s, op, args, i ? 2 : 1, &result, 1), TN_OK);
        cr_expect_eq(result.as.tensor, i ? out : x);
        cr_expect_eq(tn_item_double(s, tn_sum(s, result.as.tensor)), 4);
    }
}

static int32_t give_self(void *self, const tn_call *call)
{
    return call->host->set_output(call, 0, *(tn_tensor **)self);
}

/* What composites give for an argument that they write must fit it; the argument stays as it was. */
Test(custom_forms, results_that_do_not_fit_what_is_written)
{
    tn_tensor *given;
    const char *const schemas[] = {"test::into_(Tensor(a!) self) -> Tensor(a!)",
                                   "test::state(Tensor x, Tensor(a!) self) -> Tensor(a!)",
                                   "test::second_(Tensor(a!) x, Tensor(b!) self) -> Tensor(b!)"};
    for (int i = 0; i < 3; i++) {
        uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                     .schema = schemas[i],
                                                     .composite = give_self,
                                                     .self = (void *)&given});
        tn_tensor *x = tn_ones(s, TN_INTS(2, 3)), *other = tn_ones(s, TN_INTS(2, 3));
        const tn_value args[] = {tn_value_tensor(i ? other : x), tn_value_tensor(x)};
        tn_value out;
        given = tn_full(s, TN_INTS(1, 3), 7, .dtype = TN_FLOAT32);
        tn_scope_call(s, op, args, i ? 2 : 1, &out, 1);
        expect_failure(TN_E_SHAPE, "output with shape [2, 3] doesn't match the broadcast shape [1, 3]");
        given = tn_full(s, TN_INTS(3), 7, .dtype = TN_FLOAT64);
        tn_scope_call(s, op, args, i ? 2 : 1, &out, 1);
        expect_failure(TN_E_SHAPE, "output with shape [2, 3] doesn't match the broadcast shape [3]");
        given = tn_full(s, TN_INTS(2, 3), 7, .dtype = TN_COMPLEX64);
        tn_scope_call(s, op, args, i ? 2 : 1, &out, 1);
        expect_failure(TN_E_DTYPE, "result type ComplexFloat can't be cast to the desired output type Float");
        given =
            tn_full(s, TN_INTS(2, 3), 7, .dtype = TN_FLOAT32, .device = tn_device_parse(ctx, "reference:0"));
        tn_scope_call(s, op, args, i ? 2 : 1, &out, 1);
        expect_failure(TN_E_DEVICE, "Expected out tensor to have device reference:0, but got cpu instead");
        cr_expect_eq(tn_item_double(s, tn_sum(s, x)), 6);
        given = tn_full(s, TN_INTS(2, 3), 7, .dtype = TN_INT16);
        cr_expect_eq(tn_scope_call(s, op, args, i ? 2 : 1, &out, 1), TN_OK);
        cr_expect_eq(out.as.tensor, x);
        cr_expect_eq(tn_item_double(s, tn_sum(s, x)), 42);
        cr_expect_eq(tn_item_double(s, tn_sum(s, other)), 6);
    }
}

/* ---- What a composite may not do ---- */

static int32_t give_what_is_gone(void *self, const tn_call *call)
{
    tn_scope *scope = call->host->call_scope(call);
    tn_tensor *y = tn_exp(scope, call->args[0].as.tensor);
    const int32_t late = *(int32_t *)self;
    if (!late) tn_drop(scope, y);
    const int32_t status = call->host->set_output(call, 0, y);
    if (late) tn_drop(scope, y);
    return status;
}

/* Without the option what the library reads is freed memory. */
Test(custom_forms, a_result_that_the_composite_has_released)
{
    int32_t late;
    close_context();
    tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_DEBUG_HANDLES};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    s = tn_scope_open(ctx);
    uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                 .schema = "test::dropping(Tensor x) -> Tensor",
                                                 .composite = give_what_is_gone,
                                                 .self = &late});
    for (late = 0; late < 2; late++) {
        cr_expect_null(CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
        expect_failure(TN_E_DEAD_HANDLE, "dropping: the composite released output 0: tensor ");
    }
}

static int32_t close_the_scope(void *self, const tn_call *call)
{
    tn_scope *scope = call->host->call_scope(call);
    tn_tensor *y = tn_exp(scope, call->args[0].as.tensor);
    *(int32_t *)self = tn_scope_close(scope);
    return call->host->set_output(call, 0, y);
}

Test(custom_forms, the_scope_of_a_call_is_not_closed)
{
    int32_t status = TN_OK;
    uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                 .schema = "test::closing(Tensor x) -> Tensor",
                                                 .composite = close_the_scope,
                                                 .self = &status});
    cr_expect_null(CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
    expect_failure(TN_E_CONTRACT, "closing: tn_scope_close: the scope is that of a call, which closes it");
    cr_expect_eq(status, TN_E_CONTRACT);
}

static int32_t product_with_itself(void *self, const tn_call *call)
{
    tn_tensor *x = call->args[0].as.tensor;
    return call->host->set_output(call, 0, tn_mm(call->host->call_scope(call), x, x));
}

/* The place is that of the program's call, although the call in the composite has one, too. */
Test(custom_forms, errors_name_the_composite_and_the_operator_in_it)
{
    uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                 .schema = "test::prod(Tensor x) -> Tensor",
                                                 .composite = product_with_itself});
    tn_value arg = tn_value_tensor(tn_ones(s, TN_INTS(2, 3))), out;
    const uint32_t line = __LINE__ + 1;
    tn_scope_call(s, op, &arg, 1, &out, 1);
    const tn_error *e = tn_scope_error(s);
    cr_assert_eq(e->line, line);
    cr_assert_not_null(e->file);
    char want[512];
    snprintf(want, sizeof want, "%s:%u: prod: mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
             e->file, line);
    cr_expect_str_eq(e->message, want);
    cr_expect_str_eq(e->op, "test::prod");
    tn_scope_clear(s);
}

Test(custom_forms, null_in_boxed_calls_on_a_scope)
{
    tn_value arg = tn_value_tensor(tn_ones(s, TN_INTS(2))), out = arg;
    const uint32_t neg = tn_operator_find(ctx, "aten::neg");
    cr_expect_eq(tn_scope_call(s, neg, NULL, 1, &out, 1), TN_E_ARGUMENT);
    cr_expect_eq(out.tag, TN_TAG_NONE);
    expect_failure(TN_E_ARGUMENT, "tn_scope_call of aten::neg: args is NULL");
    cr_expect_eq(tn_scope_call(s, neg, &arg, 1, NULL, 1), TN_E_ARGUMENT);
    expect_failure(TN_E_ARGUMENT, "tn_scope_call of aten::neg: outs is NULL");
}

static int32_t register_nothing(void *self, const tn_call *call)
{
    return call->host->register_kernels(call->host->context, "cpu", NULL, NULL, 5, sizeof(tn_kernel_row));
}

Test(custom_forms, rows_that_are_null)
{
    uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                 .schema = "test::registering(Tensor x) -> Tensor",
                                                 .composite = register_nothing});
    cr_expect_null(CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
    expect_failure(TN_E_ARGUMENT, "rows is NULL, count is 5");
}
