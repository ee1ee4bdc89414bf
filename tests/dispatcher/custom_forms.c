/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are not built in, in their other forms: composites that call each other, in place, with given results. */
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
