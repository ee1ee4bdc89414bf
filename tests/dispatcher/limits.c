/* SPDX-License-Identifier: Apache-2.0 */
/* As many arguments, results, dimensions, numbers and operators as there can be, and one more. */
#include <stdio.h>
#include <tenon/plugin.h>
#include "../plugins/slots.h"
#include "support.h"

TestSuite(limits, .init = open_context, .fini = close_context);

/* A schema with so many arguments, or so many results. */
static const char *wide_schema(const char *name, int arguments, int results)
{
    static char texts[8][2048];
    static int used;
    char *text = texts[used++];
    FILE *file = fmemopen(text, sizeof texts[0], "w");
    cr_assert_not_null(file);
    fprintf(file, "test::%s(", name);
    for (int i = 0; i < arguments; i++) fprintf(file, "%sTensor a%d", i ? ", " : "", i);
    fprintf(file, ") -> (");
    for (int i = 0; i < results; i++) fprintf(file, "%sTensor", i ? ", " : "");
    fprintf(file, ")");
    fclose(file);
    return text;
}

Test(limits, more_arguments_or_results_than_a_call_has)
{
    tn_value args[32], outs[8];
    const char *largest = wide_schema("largest", 32, 8);
    uint32_t op = define(largest);
    add_row("cpu", largest, 0, do_nothing, NULL);
    for (int i = 0; i < 32; i++) args[i] = tn_value_tensor(tn_ones(s, TN_INTS(2)));
    cr_assert_eq(tn_scope_call(s, op, args, 32, outs, 8), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    for (int i = 0; i < 8; i++) cr_expect_eq(tn_tensor_numel(outs[i].as.tensor), 2);
    for (int i = 0; i < 32; i++) args[i] = tn_value_float(i); /* each becomes a tensor */
    args[0] = tn_value_tensor(tn_ones(s, TN_INTS(2)));
    cr_assert_eq(tn_scope_call(s, op, args, 32, outs, 8), TN_OK);
    REFUSE(TN_E_ARGUMENT, "operator test::many_arguments: 33 arguments (at most 32)",
           .size = sizeof(tn_operator_def), .schema = wide_schema("many_arguments", 33, 1));
    REFUSE(TN_E_ARGUMENT, "operator test::many_results: 9 results (at most 8)",
           .size = sizeof(tn_operator_def), .schema = wide_schema("many_results", 1, 9));
}

static int32_t infer_deep(void *self, const tn_call *call)
{
    int64_t sizes[TN_MAX_RANK];
    for (int i = 0; i < TN_MAX_RANK; i++) sizes[i] = 1;
    for (uint32_t i = 0; i < call->n_outs; i++) {
        int32_t status = slot_define(call, call->host, i, TN_FLOAT32, TN_MAX_RANK, sizes, 0);
        if (status) return status;
    }
    return TN_OK;
}

/* A call has room for the shapes of three results of the highest rank. */
Test(limits, results_of_the_highest_rank)
{
    tn_value x = tn_value_tensor(tn_ones(s, TN_INTS(2))), outs[8];
    tn_operator_def def = {.size = sizeof def, .schema = wide_schema("deep", 1, 3), .infer = infer_deep};
    uint32_t op = define_with(&def);
    add_row("cpu", def.schema, 0, do_nothing, NULL);
    cr_expect_eq(tn_scope_call(s, op, &x, 1, outs, 3), TN_OK);
    cr_expect_eq(tn_tensor_rank(outs[2].as.tensor), TN_MAX_RANK);
    def.schema = wide_schema("deeper", 1, 8);
    op = define_with(&def);
    add_row("cpu", def.schema, 0, do_nothing, NULL);
    tn_scope_call(s, op, &x, 1, outs, 8);
    expect_failure(TN_E_INTERNAL, "deeper: the call needs more than 4096 bytes of shapes");
}

/* A list argument with a length is written as one number, too; the call has room for 512 of them. */
Test(limits, one_number_for_a_long_list)
{
    static const char *const schemas[] = {"test::short_list(Tensor x, int[500] l) -> Tensor",
                                          "test::long_list(Tensor x, int[600] l) -> Tensor",
                                          "test::long_floats(Tensor x, float[600] l) -> Tensor"};
    static double floats[600];
    static int64_t ints[600];
    tn_value x = tn_value_tensor(tn_ones(s, TN_INTS(2)));
    for (int i = 0; i < 3; i++) {
        uint32_t op = define(schemas[i]);
        add_row("cpu", schemas[i], 0, do_nothing, NULL);
        tn_tensor *y = CALL(op, x, tn_value_int(1));
        if (i == 0) {
            cr_expect_not_null(y);
        } else {
            cr_expect_null(y);
            expect_failure(TN_E_INTERNAL, "the call needs more than 4096 bytes of shapes");
        }
        if (i < 2) cr_expect_not_null(CALL(op, x, tn_value_ints(ints, i ? 600 : 500)));
        if (i == 2) cr_expect_not_null(CALL(op, x, tn_value_floats(floats, 600)));
        if (i != 1) continue;
        cr_expect_null(CALL(op, x, tn_value_ints(ints, 1)));
        expect_failure(TN_E_INTERNAL, "the call needs more than 4096 bytes of shapes");
    }
    uint32_t op = tn_operator_find(ctx, "test::long_floats");
    cr_expect_null(CALL(op, x, tn_value_ints(ints, 600)));
    expect_failure(TN_E_INTERNAL, "the call needs more than 4096 bytes of shapes");
}

/* There is room for 32,768 operators in a context. */
Test(limits, as_many_as_there_can_be, .timeout = 100)
{
    enum { MOST = 1 << 15 };
    static char schemas[MOST][40];
    tn_operator_def def = {.size = sizeof def};
    uint32_t number = 0;
    int32_t status = TN_OK;
    for (int i = 0; i < MOST && !status; i++) {
        snprintf(schemas[i], sizeof schemas[i], "test::op%d(Tensor x) -> Tensor", i);
        def.schema = schemas[i];
        status = tn_operator_define(ctx, &def, &number);
    }
    cr_assert_eq(status, TN_E_STATE);
    expect_last_error(TN_E_STATE, "the registry is full");
    cr_expect_eq(number, MOST - 1);
    tn_operator_info info = {.size = sizeof info};
    cr_expect_eq(tn_inspect_operator_by_number(ctx, number, &info), TN_OK);
    cr_expect_eq(tn_inspect_operator_by_number(ctx, MOST, &info), TN_E_NOT_FOUND);
}
