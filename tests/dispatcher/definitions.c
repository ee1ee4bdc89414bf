/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs and plugins may get wrong when they define operators, rows and observers, and when kernels and
 * shape rules call the host: each gives an error that says what.
 */
#include <stdio.h>
#include "../plugins/slots.h"
#include <string.h>
#include <tenon/plugin.h>
#include "support.h"
#include "../core/refused.h"

TestSuite(definitions, .init = open_context, .fini = close_context);

/* ---- Definitions and rows ---- */

Test(definitions, refused)
{
    struct {
        tn_operator_def def;
        uint64_t later;
    } longer = {{.size = sizeof longer, .schema = "test::longer(Tensor x) -> Tensor"}, 1};
    cr_expect_eq(tn_operator_define(ctx, NULL, NULL), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "tn_operator_def is NULL");
    REFUSE(TN_E_ARGUMENT, "tn_operator_def: size is 0; set it to sizeof(tn_operator_def)",
           .schema = "test::f(Tensor x) -> Tensor");
    REFUSE(TN_E_ARGUMENT, "schema is NULL", .size = sizeof(tn_operator_def));
    REFUSE(TN_E_UNKNOWN_FIELD, "unknown tag bits 0x40", .size = sizeof(tn_operator_def), .tags = 0x40,
           .schema = "test::f(Tensor x) -> Tensor");
    REFUSE(TN_E_ARGUMENT, "operator definition: size is 8; set it to sizeof(tn_operator_def)", .size = 8,
           .schema = "test::f(Tensor x) -> Tensor");
    REFUSE(TN_E_UNKNOWN_FIELD, "reserved is 1 (expected 0)", .size = sizeof(tn_operator_def), .reserved = 1,
           .schema = "test::f(Tensor x) -> Tensor");
    REFUSE(TN_E_SYNTAX, "schema: column 18: expected ',' or ')'", .size = sizeof(tn_operator_def),
           .schema = "test::f(Tensor x -> Tensor");
    REFUSE(TN_E_EXISTS, "operator aten::add.Tensor is defined already, as \"aten::add.Tensor(Tensor self,",
           .size = sizeof(tn_operator_def), .schema = "aten::add.Tensor(Tensor x) -> Tensor");
    cr_expect_eq(tn_operator_define(ctx, &longer.def, NULL), TN_E_UNKNOWN_FIELD);
    expect_last_error(TN_E_UNKNOWN_FIELD, "is set, but this library knows only the first");
    longer.later = 0;
    cr_expect_eq(tn_operator_define(ctx, &longer.def, NULL), TN_OK);
    /* An older definition is shorter. */
    REFUSE(TN_E_EXISTS, "test::longer is defined already", .size = 16,
           .schema = "test::longer(Tensor x) -> Tensor");
}

Test(definitions, rows_without_an_operator_are_named)
{
    tn_unused_row_info row = {.size = sizeof row};
    cr_assert_eq(tn_inspect_unused_row_count(ctx), 0, "of the plugins that are built with this");
    add_row("cpu", "test::early(Tensor x) -> Tensor", 0, do_nothing, NULL);
    add_row("cpu", "test::never(Tensor x) -> Tensor", 0, do_nothing, NULL);
    cr_assert_eq(tn_inspect_unused_row_count(ctx), 2);
    cr_assert_eq(tn_inspect_unused_row(ctx, 0, &row), TN_OK);
    cr_expect_str_eq(row.schema, "test::early(Tensor x) -> Tensor");
    cr_expect_str_eq(row.device_type, "cpu");
    define("test::early(Tensor x) -> Tensor");
    cr_assert_eq(tn_inspect_unused_row_count(ctx), 1);
    cr_assert_eq(tn_inspect_unused_row(ctx, 0, &row), TN_OK);
    cr_expect_str_eq(row.schema, "test::never(Tensor x) -> Tensor");
    cr_expect_eq(tn_inspect_unused_row(ctx, 1, &row), TN_E_NOT_FOUND);
    expect_last_error(TN_E_NOT_FOUND, "inspect: no unused row 1 (there are 1)");
    cr_expect_eq(tn_inspect_unused_row(ctx, 0, NULL), TN_E_ARGUMENT);
    cr_expect_eq(tn_inspect_unused_row(NULL, 0, &row), TN_E_ARGUMENT);
    cr_expect_eq(tn_inspect_unused_row_count(NULL), 0);
}

Test(definitions, a_removed_operator_may_be_defined_again)
{
    const char *schema = "test::again(Tensor x) -> Tensor";
    uint32_t op = define(schema);
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    add_row("cpu", schema, 0, do_nothing, NULL);
    cr_expect_not_null(CALL(op, tn_value_tensor(x)));
    cr_expect_eq(tn_namespace_remove(ctx, "test"), TN_OK);
    cr_expect_null(CALL(op, tn_value_tensor(x)));
    expect_failure(TN_E_NOT_FOUND,
                   "test::again is no longer there: its library was closed, or its namespace removed");
    cr_expect_eq(tn_operator_find(ctx, "test::again"), 0);
    expect_last_error(TN_E_NOT_FOUND, "no operator \"test::again\"");
    cr_expect_eq(tn_namespace_remove(ctx, "test"), TN_E_NOT_FOUND);
    expect_last_error(TN_E_NOT_FOUND, "no operator was defined in namespace \"test\"");
    cr_expect_eq(tn_namespace_remove(ctx, NULL), TN_E_NOT_FOUND);
    cr_expect_eq(tn_operator_find(ctx, NULL), 0);
    uint32_t second = define(schema);
    cr_expect_neq(second, op);
    cr_expect_eq(tn_operator_find(ctx, "test::again"), second);
}

/* The table of names grows past its first size. */
Test(definitions, thousands)
{
    static char schemas[2600][48];
    for (int i = 0; i < 2600; i++) {
        snprintf(schemas[i], sizeof schemas[i], "test::op%d(Tensor x) -> Tensor", i);
        define(schemas[i]);
    }
    uint32_t first = tn_operator_find(ctx, "test::op0");
    cr_expect_eq(tn_operator_find(ctx, "test::op2599"), first + 2599);
    cr_expect_eq(tn_operator_find(ctx, "aten::add.Tensor"), TN_OP_ADD);
}

static void refuse_row(const char *device, tn_kernel_row row, int32_t status, const char *part)
{
    cr_expect_eq(tn_kernels_add(ctx, device, NULL, &row, 1), status, "%s", part);
    expect_last_error(status, part);
}
#define ROW(text) ((tn_kernel_row){.size = sizeof(tn_kernel_row), .schema = text, .run = do_nothing})

Test(definitions, rows_that_do_not_fit)
{
    static const char *const misfits[] = {
        "aten::add.Tensor(Tensor self, Tensor it, *, Scalar alpha=1) -> Tensor",    /* another name */
        "aten::add.Tensor(Tensor self, Scalar other, *, Scalar alpha=1) -> Tensor", /* another type */
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1, int more=0) -> Tensor",
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> (Tensor, Tensor)",
        "aten::add.Tensor(Tensor self) -> Tensor", /* `other` has no default */
    };
    for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++)
        refuse_row("cpu", ROW(misfits[i]), TN_E_VERSION,
                   "does not fit the operator's schema \"aten::add.Tensor(Tensor self,");
    refuse_row("cpu", ROW("aten::add.Tensor(Tensor"), TN_E_SYNTAX, "schema: column");
    refuse_row("nowhere", ROW(misfits[0]), TN_E_VERSION,
               "does not fit the operator's schema \"aten::add.Tensor(Tensor self,");
    refuse_row("cpu:0", ROW("aten::relu(Tensor self) -> Tensor"), TN_E_ARGUMENT,
               "kernels of the program: the device type is \"cpu:0\" (expected a name without ':', such as "
               "\"cpu\")");
    refuse_row("", ROW("aten::relu(Tensor self) -> Tensor"), TN_E_ARGUMENT, "the device type is \"\" (");
    refuse_row(NULL, ROW("aten::relu(Tensor self) -> Tensor"), TN_E_ARGUMENT, "the device type is NULL (");
    refuse_row("meta", ROW("aten::relu(Tensor self) -> Tensor"), TN_E_ARGUMENT,
               "no kernel runs on the device type \"meta\"");
    refuse_row("cpu", ROW(NULL), TN_E_CONTRACT, "kernel row: schema is NULL");
    refuse_row("cpu",
               (tn_kernel_row){.size = sizeof(tn_kernel_row), .schema = "aten::relu(Tensor self) -> Tensor"},
               TN_E_CONTRACT, "kernel row: run is NULL");
    tn_kernel_row two[] = {ROW("aten::relu(Tensor self) -> Tensor"), ROW("aten::neg(Tensor self) -> Tensor")};
    two[1].size = 4711;
    cr_expect_eq(tn_kernels_add(ctx, "cpu", NULL, two, 2), TN_E_CONTRACT);
    expect_last_error(TN_E_CONTRACT, "a kernel row says size 4711, rows are 80 bytes apart");
}

/* The plugin of the device may be loaded later. */
Test(definitions, rows_wait_for_their_device_type)
{
    tn_unused_row_info row = {.size = sizeof row};
    static const tn_kernel_row rows[] = {ROW("aten::relu(Tensor self) -> Tensor")};
    const uint32_t before = tn_inspect_kernel_count(ctx, TN_OP_RELU);
    cr_assert_eq(tn_kernels_add(ctx, "nowhere", NULL, rows, 1), TN_OK);
    cr_assert_eq(tn_inspect_unused_row_count(ctx), 1);
    cr_assert_eq(tn_inspect_unused_row(ctx, 0, &row), TN_OK);
    cr_expect_str_eq(row.device_type, "nowhere");
    cr_expect_str_eq(row.plugin, "the program");
    cr_expect_eq(row.why, TN_UNUSED_DEVICE);
    cr_expect_str_eq(row.unknown, "");
    cr_expect_eq(tn_inspect_kernel_count(ctx, TN_OP_RELU), before);
    /* Without an operator, too, this is what is named. */
    add_row("nowhere", "test::never(Tensor x) -> Tensor", 0, do_nothing, NULL);
    cr_assert_eq(tn_inspect_unused_row(ctx, 1, &row), TN_OK);
    cr_expect_eq(row.why, TN_UNUSED_OPERATOR);
}

Test(definitions, the_namespaces_of_built_in_operators_are_refused)
{
    REFUSE(TN_E_ARGUMENT,
           "operator aten::mine: the namespace 'aten' is Tenon's own; define the operator in a namespace of "
           "your own, such as mylib::",
           .size = sizeof(tn_operator_def), .schema = "aten::mine(Tensor x) -> Tensor");
    REFUSE(TN_E_ARGUMENT, "operator prim::mine: the namespace 'prim' is Tenon's own",
           .size = sizeof(tn_operator_def), .schema = "prim::mine(Tensor x) -> Tensor");
    define("aten2::mine(Tensor x) -> Tensor");
}

Test(definitions, rows_wait_for_their_operator)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    add_row("cpu", "test::later(Tensor x) -> Tensor", 0, do_nothing, NULL);
    add_row("cpu", "test::later(Tensor y) -> Tensor", 1, do_nothing, NULL); /* will not fit */
    add_row("cpu", "test::never(Tensor x) -> Tensor", 0, do_nothing, NULL);
    uint32_t op = define("test::later(Tensor x) -> Tensor");
    cr_expect_eq(tn_inspect_kernel_count(ctx, op), 1);
    cr_expect_not_null(CALL(op, tn_value_tensor(x)));
}

/* ---- Functions of the host ---- */

static const char *host_text; /* what the last call of the host said */
static char text_buffer[512];

static int32_t noted(int32_t status)
{
    snprintf(text_buffer, sizeof text_buffer, "%s",
             status && tn_last_error() ? tn_last_error()->message : "");
    host_text = text_buffer;
    return status;
}

static int mode;

/* A shape rule that does one thing wrong for each mode. */
static int32_t infer(void *self, const tn_call *call)
{
    const int64_t sizes[] = {2}, huge[] = {INT64_MAX, INT64_MAX};
    tn_random_numbers numbers = {.size = sizeof numbers};
    void *memory;
    switch (mode) {
    case 0:
        return slot_define(call, call->host, 1, TN_FLOAT32, 1, sizes, 0);
    case 1:
        return slot_define(call, call->host, 0, TN_FLOAT32, TN_MAX_RANK + 1, sizes, 0);
    case 2:
        return slot_define(call, call->host, 0, TN_FLOAT32, 1, NULL, 0);
    case 3:
        return slot_define(call, call->host, 0, 12345, 1, sizes, 0);
    case 4:
        return slot_define(call, call->host, 0, TN_FLOAT32, 2, huge, 0);
    case 5:
        return TN_OK; /* no output is defined */
    case 6:
        return 4711;
    case 7:
        return noted(call->host->set_output(call, 0, tn_value_as_tensor(call->args[0])));
    case 8:
        return noted(slot_workspace(call, call->host, 64, &memory));
    case 9:
        return noted(call->host->keep_alive(call, &mode, NULL));
    case 10:
        return noted(call->host->random_reserve(call, NULL, 4, &numbers));
    default:
        return slot_define(NULL, call->host, 0, TN_FLOAT32, 1, sizes, 0);
    }
}

Test(definitions, shape_rules_that_are_wrong)
{
    static const refused_status expected[] = {
        {TN_E_CONTRACT, "define_output: there is no output 1 (test::ruled has 1 result)"},
        {TN_E_CONTRACT, "ruled: the shape rule defined output 0 of rank 65"},
        {TN_E_CONTRACT, "ruled: the shape rule defined output 0 of rank 1"},
        {TN_E_CONTRACT, "ruled: the shape rule gave output 0 an unknown dtype"},
        {TN_E_SHAPE, ""},
        {TN_E_CONTRACT, "ruled: the shape rule did not define output 0"},
        {TN_E_CONTRACT, "the shape rule of test::ruled returned 4711, not a valid status code"},
        {TN_E_CONTRACT, "set_output: only composites and gradients may call it"},
        {TN_E_STATE, "workspace: a shape rule or composite has no device"},
        {TN_E_STATE, "keep_alive: release is NULL"},
        {TN_E_STATE, "random_reserve: the call has neither a generator nor a device"},
        {TN_E_CONTRACT, "define_output: no call was given"},
    };
    const char *schema = "test::ruled(Tensor x) -> Tensor";
    uint32_t op =
        define_with(&(tn_operator_def){.size = sizeof(tn_operator_def), .schema = schema, .infer = infer});
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    add_row("cpu", schema, 0, do_nothing, NULL);
    for (mode = 0; mode < (int)(sizeof expected / sizeof *expected); mode++) {
        cr_expect_null(CALL(op, tn_value_tensor(x)), "%d", mode);
        cr_expect_eq(tn_scope_error(s)->code, expected[mode].status, "%d: %s", mode,
                     tn_scope_error(s)->message);
        expect_failure(expected[mode].status, expected[mode].text);
    }
}

static void count_release(void *pointer)
{
    ++*(int *)pointer;
}

static const tn_call *call_before;

/* A kernel that uses the host in a way for each mode. */
static int32_t use_host(void *self, const tn_call *call)
{
    const int64_t sizes[] = {5}, fewer[] = {1};
    tn_random_numbers numbers = {.size = sizeof numbers};
    void *memory = NULL;
    switch (mode) {
    case 0: /* all allowed */
        if (slot_workspace(call, call->host, 100, &memory) || !memory) return TN_E_INTERNAL;
        if (slot_workspace(call, call->host, 0, &memory) || memory) return TN_E_INTERNAL;
        if (call->host->random_reserve(call, NULL, 4, &numbers)) return TN_E_INTERNAL;
        if (call->host->resize_output(call, 0, 1, fewer)) return TN_E_INTERNAL;
        call_before = call;
        return call->host->call_scope(call) ? call->host->resize_output(call, 0, 1, sizes) : TN_E_INTERNAL;
    case 1:
        return noted(call->host->resize_output(call, 3, 1, sizes));
    case 2:
        return noted(call->host->resize_output(call, 0, TN_MAX_RANK + 1, sizes));
    case 3:
        return noted(slot_define(call, call->host, 0, TN_FLOAT32, 1, sizes, 0));
    case 4:
        return noted(call->host->set_output(NULL, 0, NULL));
    case 5:
        return noted(call->host->keep_alive(NULL, NULL, count_release));
    case 6:
        return noted(call->host->random_reserve(NULL, NULL, 1, &numbers));
    case 7:
        return noted(call->host->resize_output(NULL, 0, 1, sizes));
    case 8:
        return noted(slot_workspace(NULL, call->host, 1, &memory));
    case 9:
        return call->host->call_scope(NULL) ? TN_OK : noted(TN_E_CONTRACT);
    default:
        return noted(call->host->scope_call(NULL, 1, NULL, 0, NULL, 0));
    }
}

Test(definitions, kernels_and_the_host)
{
    static const char *const texts[] = {NULL,
                                        "resize_output: there is no output 3",
                                        "resize_output: there is no output 0",
                                        "define_output: only shape rules may call it",
                                        "set_output: no call was given",
                                        "keep_alive: no call was given",
                                        "random_reserve: no call was given",
                                        "resize_output: no call was given",
                                        "workspace: no call was given",
                                        "call_scope: no call was given",
                                        "scope_call: no scope"};
    const char *schema = "test::hosted(Tensor x) -> Tensor";
    uint32_t op = define(schema);
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    add_row("cpu", schema, 0, use_host, NULL);
    mode = 0;
    tn_tensor *y = CALL(op, tn_value_tensor(x));
    cr_assert_not_null(y, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_eq(tn_tensor_numel(y), 5);
    for (mode = 1; mode < (int)(sizeof texts / sizeof *texts); mode++) {
        cr_expect_null(CALL(op, tn_value_tensor(x)), "%d", mode);
        cr_expect_not_null(strstr(host_text, texts[mode]), "%d: \"%s\" in \"%s\"", mode, texts[mode],
                           host_text);
        tn_scope_clear(s);
    }
}

static int released;

static int32_t keep_two(void *self, const tn_call *call)
{
    for (int i = 0; i < 2; i++) {
        int32_t status = call->host->keep_alive(call, &released, count_release);
        if (status) return status;
    }
    return released ? TN_E_INTERNAL : TN_OK;
}

/* What a kernel keeps is released once, after it has run. */
Test(definitions, what_a_kernel_keeps)
{
    const char *schema = "test::keeps(Tensor x) -> Tensor";
    uint32_t op = define(schema);
    add_row("cpu", schema, 0, keep_two, NULL);
    cr_assert_not_null(CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
    cr_expect_eq(released, 2);
}

static int32_t refuse_late(void *self, const tn_call *call)
{
    return TN_E_UNSUPPORTED;
}

/* A kernel that said it can run and then does not: the next row runs, and the contract's breach is reported. */
Test(definitions, kernels_that_refuse_too_late)
{
    static const tn_dtype complex64[] = {TN_COMPLEX64, 0};
    const char *custom = "test::refuses(Tensor x) -> Tensor";
    uint32_t op = define(custom), before = tn_inspect_finding_count(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){-1, 2}, TN_CPU);
    tn_tensor *z = tn_ones(s, TN_INTS(2), .dtype = TN_COMPLEX64);
    add_row("cpu", custom, 0, refuse_late, NULL);
    cr_expect_null(CALL(op, tn_value_tensor(x)));
    expect_failure(TN_E_UNSUPPORTED, "refuses");
    cr_expect_eq(tn_inspect_finding_count(ctx), before + 1);
    static const char *const rows[] = {
        "aten::relu(Tensor self) -> Tensor",
        "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        "aten::mm(Tensor self, Tensor mat2) -> Tensor"};
    for (int i = 0; i < 3; i++) add_row("cpu", rows[i], 1000, refuse_late, NULL);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_relu(s, x))), 2);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_cumsum(s, x, 0))), 0);
    tn_tensor *row = tn_reshape(s, x, TN_INTS(1, 2)), *column = tn_reshape(s, x, TN_INTS(2, 1));
    cr_expect_eq(tn_item_double(s, tn_mm(s, row, column)), 5);
    /* Of this dtype there is no other row. */
    const tn_kernel_row only = {.size = sizeof only,
                                .strides = TN_STRIDES_ANY,
                                .schema = rows[0],
                                .run = refuse_late,
                                .dtypes = complex64};
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &only, 1), TN_OK);
    cr_expect_null(tn_relu(s, z));
    cr_expect_eq(tn_scope_failed(s), TN_E_UNSUPPORTED);
    tn_scope_clear(s);
}

Test(definitions, room_for_results)
{
    tn_tensor *x = tn_ones(s, TN_INTS(3));
    tn_value outs[4], topk[] = {tn_value_tensor(x), tn_value_int(1)}, one = tn_value_tensor(x);
    for (int i = 0; i < 4; i++) outs[i] = tn_value_int(7);
    cr_expect_eq(tn_scope_call(s, TN_OP_RELU, &one, 1, outs, 4), TN_OK);
    cr_expect_eq(tn_item_double(s, tn_sum(s, outs[0].as.tensor)), 3);
    for (int i = 1; i < 4; i++) cr_expect_eq(outs[i].tag, TN_TAG_NONE, "%d", i);
    cr_expect_neq(tn_scope_call(s, TN_OP_TOPK, topk, 2, outs, 1), TN_OK);
    expect_failure(TN_E_ARGUMENT, "the operator has 2 results, but there is room for 1");
    cr_expect_eq(outs[0].tag, TN_TAG_NONE);
    tn_error *error = NULL;
    cr_expect_eq(tn_call_operator(ctx, TN_OP_RELU, &one, 1, outs, 3, &error), TN_OK);
    cr_expect_null(error);
    cr_expect_eq(outs[2].tag, TN_TAG_NONE);
    tn_value_release(ctx, &outs[0]);
}

/* A composite that fails, or gives an output that is not there. */
static int32_t compose(void *self, const tn_call *call)
{
    tn_scope *own = call->host->call_scope(call);
    tn_tensor *x = tn_value_as_tensor(call->args[0]);
    switch (mode) {
    case 0:
        return call->host->set_output(call, 0, tn_neg(own, x));
    case 1:
        return 4711;
    case 2:
        return call->host->set_output(call, 1, x);
    case 3:
        tn_matmul(own, x, tn_ones(own, TN_INTS(7)));
        return TN_OK; /* the scope has failed */
    default:
        return slot_define(call, call->host, 0, TN_FLOAT32, 0, NULL, 0);
    }
}

Test(definitions, composites)
{
    uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                 .schema = "test::composed(Tensor x) -> Tensor",
                                                 .composite = compose});
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    mode = 0;
    cr_expect_eq(tn_item_double(s, tn_sum(s, CALL(op, tn_value_tensor(x)))), -2);
    static const char *const texts[] = {
        "", "the composite of test::composed returned 4711, not a valid status code",
        "set_output: there is no output 1", "matmul: inconsistent tensor size",
        "only shape rules may call it"};
    for (mode = 1; mode < (int)(sizeof texts / sizeof *texts); mode++) {
        cr_expect_null(CALL(op, tn_value_tensor(x)));
        expect_failure(tn_scope_error(s)->code, texts[mode]);
    }
}

Test(definitions, without_a_shape_rule_a_tensor_gives_the_shape)
{
    const char *schema = "test::from_nothing(int n) -> Tensor",
               *pair = "test::pair(Tensor x) -> (Tensor, Tensor)";
    uint32_t op = define(schema), two = define(pair);
    tn_value outs[2], x = tn_value_tensor(tn_ones(s, TN_INTS(3)));
    add_row("cpu", schema, 0, do_nothing, NULL);
    add_row("cpu", pair, 0, do_nothing, NULL);
    cr_expect_null(CALL(op, tn_value_int(3)));
    expect_failure(TN_E_ARGUMENT, "from_nothing: without a shape rule");
    cr_expect_eq(tn_scope_call(s, two, &x, 1, outs, 2), TN_OK);
    cr_expect_eq(tn_tensor_numel(outs[1].as.tensor), 3);
}

/* ---- Deterministic mode ---- */

static int32_t threads_seen;

static int32_t note_threads(void *self, const tn_call *call)
{
    threads_seen = call->threads;
    return TN_OK;
}

Test(definitions, deterministic_mode)
{
    const char *one = "test::one_thread(Tensor x) -> Tensor",
               *random = "test::random_order(Tensor x) -> Tensor";
    uint32_t op = define(one), refused = define(random);
    tn_kernel_row row = {.size = sizeof row,
                         .flags = TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD,
                         .schema = one,
                         .run = note_threads};
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    row.flags = TN_ROW_NONDETERMINISTIC;
    row.schema = random;
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    tn_set_num_threads(ctx, 3);
    CALL(op, tn_value_tensor(x));
    cr_expect_eq(threads_seen, 3);
    CALL(refused, tn_value_tensor(x));
    cr_expect_eq(tn_scope_failed(s), TN_OK);
    tn_set_deterministic(ctx, 1);
    CALL(op, tn_value_tensor(x));
    cr_expect_eq(threads_seen, 1);
    CALL(refused, tn_value_tensor(x));
    expect_failure(TN_E_STATE, "test::random_order does not have a deterministic implementation");
}

static int32_t exponential_of_x(void *self, const tn_call *call)
{
    return call->host->set_output(call, 0, tn_exp(call->host->call_scope(call), call->args[0].as.tensor));
}

Test(definitions, deterministic_mode_and_operators_with_the_tag)
{
    const char *schemas[] = {"test::row(Tensor x) -> Tensor", "test::composite(Tensor x) -> Tensor",
                             "test::writes_(Tensor(a!) self) -> Tensor(a!)"};
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    for (int i = 0; i < 3; i++) {
        char text[128];
        uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                     .tags = TN_TAG_BIT_NONDETERMINISTIC,
                                                     .schema = schemas[i],
                                                     .composite = i == 1 ? exponential_of_x : NULL});
        if (i != 1) add_row("cpu", schemas[i], 0, do_nothing, NULL);
        tn_set_deterministic(ctx, 1);
        cr_expect_null(CALL(op, tn_value_tensor(x)));
        snprintf(text, sizeof text, "%.*s does not have a deterministic implementation",
                 (int)strcspn(schemas[i], "("), schemas[i]);
        expect_failure(TN_E_STATE, text);
        tn_set_deterministic(ctx, 0);
        cr_expect_not_null(CALL(op, tn_value_tensor(x)));
    }
}

/* ---- Observers ---- */

static int entered, left;

static void count_enter(void *user, const tn_call_info *info, uint64_t *token)
{
    entered++;
}

static void count_leave(void *user, const tn_call_info *info, uint64_t token)
{
    left++;
}

Test(definitions, observers)
{
    tn_observer o = {.size = sizeof o, .enter = count_enter};
    uint64_t handles[8], handle;
    cr_expect_eq(tn_observer_add(ctx, NULL, &handle), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "observer_add: observer is NULL");
    cr_expect_eq(tn_observer_add(ctx, &o, NULL), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "observer_add: out_handle is NULL");
    o.size = 8;
    cr_expect_eq(tn_observer_add(ctx, &o, &handle), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "observer: set size to sizeof(tn_observer)");
    o.size = sizeof o;
    o.sample = 2; /* every second call */
    cr_assert_eq(tn_observer_add(ctx, &o, &handles[0]), TN_OK);
    for (int i = 0; i < 10; i++) tn_ones(s, TN_INTS(1));
    cr_expect_geq(entered, 5);
    tn_observer_remove(ctx, handles[0]);
    o = (tn_observer){.size = sizeof o, .leave = count_leave};
    for (int i = 0; i < 8; i++) cr_assert_eq(tn_observer_add(ctx, &o, &handles[i]), TN_OK);
    cr_expect_eq(tn_observer_add(ctx, &o, &handle), TN_E_STATE);
    expect_last_error(TN_E_STATE, "there are 8 observers, the most that a context takes");
    tn_relu(s, tn_ones(s, TN_INTS(1)));
    cr_expect_geq(left, 16);
    tn_observer_remove(ctx, handles[3]);
    cr_expect_eq(tn_observer_add(ctx, &o, &handles[3]), TN_OK);
    for (int i = 0; i < 8; i++) tn_observer_remove(ctx, handles[i]);
    left = 0;
    tn_relu(s, tn_ones(s, TN_INTS(1)));
    cr_expect_eq(left, 0);
}

static int32_t count_runs(void *self, const tn_call *call)
{
    ++*(int *)(uintptr_t)call->data;
    return TN_OK;
}

/* A row for an operator that was removed waits for the next one of that name. */
Test(definitions, a_row_between_two_operators_of_a_name)
{
    static const char schema[] = "test::again(Tensor x) -> Tensor";
    int runs = 0;
    const tn_kernel_row row = {.size = sizeof row, .schema = schema, .run = count_runs, .data = &runs};
    uint32_t first = define(schema);
    cr_assert_eq(tn_namespace_remove(ctx, "test"), TN_OK);
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    uint32_t second = define(schema);
    cr_expect_neq(first, second);
    cr_expect_not_null(CALL(second, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
    cr_expect_eq(runs, 1);
    cr_expect_null(CALL(first, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
    expect_failure(TN_E_NOT_FOUND, ": its library was closed, or its namespace removed");
}

Test(definitions, boxed_calls_with_null)
{
    tn_value out = tn_value_none();
    tn_error *error = NULL;
    cr_expect_eq(tn_call_operator(NULL, 1, NULL, 0, &out, 1, &error), TN_E_ARGUMENT);
    cr_expect_str_eq(error->message, "tn_call_operator: the context is NULL");
    tn_error_release(error);
    cr_expect_eq(tn_call_operator(ctx, TN_OP_RELU, NULL, 1, &out, 1, NULL), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "args are NULL");
    cr_expect_eq(tn_call_operator(ctx, TN_OP_RELU, &out, 1, NULL, 1, NULL), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "outs are NULL");
    tn_value_release(ctx, NULL);
}

/* A list that was written as a plain number: the text says how to write it. */
Test(definitions, plain_numbers_in_place_of_lists)
{
    static const refused_text cases[] = {
        {"test::plain_t(Tensor x, Tensor[] l) -> Tensor",
         "must be Tensor[], not a plain number: write TN_TENSORS(...)"},
        {"test::plain_f(Tensor x, float[] l) -> Tensor",
         "must be float[], not a plain number: write TN_FLOATS(...)"},
        {"test::plain_b(Tensor x, bool[] l) -> Tensor",
         "must be bool[], not a plain number: write TN_BOOLS(...)"},
        {"test::plain_i(Tensor x, int[] l) -> Tensor",
         "must be int[], not a plain number: write TN_INTS(...)"},
        {"test::plain_s(Tensor x, Scalar l) -> Tensor",
         "must be Scalar, not a plain number: write TN_SCALAR(x)"},
    };
    tn_tensor *x = tn_ones(s, TN_INTS(1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t op = define(cases[i].given);
        cr_expect_null(CALL(op, tn_value_tensor(x), tn_value_make(TN_TAG_PLAIN, 3)));
        expect_failure(TN_E_ARGUMENT, cases[i].text);
    }
}

/* ---- Rows that are taken back before their operator is there ---- */

static const tn_kernel_row waiting[] = {
    {.size = sizeof(tn_kernel_row), .schema = "test::waits(Tensor x) -> Tensor", .run = do_nothing},
    {.size = sizeof(tn_kernel_row), .schema = "test::waits_too(Tensor x) -> Tensor", .run = do_nothing}};

static int32_t take_rows_back(void *self, const tn_call *call)
{
    const tn_host *h = call->host;
    static const tn_kernel_row others[] = {
        {.size = sizeof(tn_kernel_row), .schema = "test::stays(Tensor x) -> Tensor", .run = do_nothing}};
    int32_t status =
        h->register_kernels(h->context, "cpu", NULL, waiting, 2, (uint32_t)sizeof(tn_kernel_row));
    if (!status)
        status = h->register_kernels(h->context, "cpu", NULL, others, 1, (uint32_t)sizeof(tn_kernel_row));
    if (!status) status = h->unregister_kernels(h->context, "cpu", waiting);
    return status;
}

Test(definitions, rows_taken_back_before_their_operator_is_there)
{
    tn_unused_row_info row = {.size = sizeof row};
    const char *schema = "test::takes_back(Tensor x) -> Tensor";
    uint32_t op = define(schema);
    add_row("cpu", schema, 0, take_rows_back, NULL);
    cr_assert_not_null(CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(1)))));
    cr_assert_eq(tn_inspect_unused_row_count(ctx), 1);
    cr_assert_eq(tn_inspect_unused_row(ctx, 0, &row), TN_OK);
    cr_expect_str_eq(row.schema, "test::stays(Tensor x) -> Tensor");
    uint32_t waits = define(waiting[0].schema);
    cr_expect_eq(tn_inspect_kernel_count(ctx, waits), 0);
    cr_expect_null(CALL(waits, tn_value_tensor(tn_ones(s, TN_INTS(1)))));
    expect_failure(TN_E_UNSUPPORTED, "\"waits\" not implemented");
}

/* A row with a condition that this library does not know would never run. */
Test(definitions, rows_that_nobody_would_run_are_refused)
{
    const char *schema = "aten::relu(Tensor self) -> Tensor";
    static const tn_row_argument odd[] = {{.strides = 9}}, far[] = {{.place = 7}};
    const uint32_t before = tn_inspect_kernel_count(ctx, TN_OP_RELU);
    tn_kernel_row flags = ROW(schema), strides = ROW(schema), sizeless = ROW(schema), argument = ROW(schema),
                  dtypes = ROW(schema), honours = ROW(schema), both[] = {ROW(schema), ROW(schema)};
    static const tn_dtype one_unknown[] = {TN_FLOAT32, 0xdeadbeef, 0};
    static const tn_row_argument unknown[] = {{.dtypes = one_unknown}};
    flags.flags = TN_ROW_CASTS | 1u << 30;
    refuse_row("cpu", flags, TN_E_UNKNOWN_FIELD,
               "kernel row \"aten::relu(Tensor self) -> Tensor\" of the program: unknown flags 0x40000000");
    strides.strides = 99;
    refuse_row("cpu", strides, TN_E_UNKNOWN_FIELD, "strides is 99 (expected a TN_STRIDES_..., 0 to 3)");
    sizeless.size = 0;
    refuse_row("cpu", sizeless, TN_E_ARGUMENT,
               "kernel row 0 of the program: size is 0; set it to sizeof(tn_kernel_row)");
    argument.n_arguments = 1;
    refuse_row("cpu", argument, TN_E_ARGUMENT, "arguments is NULL, n_arguments is 1");
    argument.arguments = odd;
    refuse_row("cpu", argument, TN_E_UNKNOWN_FIELD, "argument 0: strides is 9 (expected 0 to 3)");
    argument.arguments = far;
    refuse_row("cpu", argument, TN_E_UNKNOWN_FIELD, "argument 0: place is 7 (expected 0 to 1)");
    argument.arguments = unknown;
    refuse_row("cpu", argument, TN_E_UNKNOWN_FIELD, "argument 0: unknown dtype 0xdeadbeef");
    dtypes.dtypes = one_unknown;
    refuse_row("cpu", dtypes, TN_E_UNKNOWN_FIELD,
               "kernel row \"aten::relu(Tensor self) -> Tensor\" of the program: unknown dtype 0xdeadbeef");
    honours.honours = TN_CALL_BENCHMARK | TN_CALL_DETERMINISTIC;
    refuse_row("cpu", honours, TN_E_ARGUMENT, "honours is 0x40001, but flags from bit 16 on permit");
    cr_expect_eq(tn_kernels_add(ctx, "cpu", NULL, NULL, 2), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "kernel rows of the program: rows is NULL, count is 2");
    both[1].flags = 1u << 30;
    cr_expect_eq(tn_kernels_add(ctx, "cpu", NULL, both, 2), TN_E_UNKNOWN_FIELD);
    cr_expect_eq(tn_inspect_kernel_count(ctx, TN_OP_RELU), before, "the first row is not added either");
}

static int32_t twice_by_composite(void *self, const tn_call *call)
{
    tn_scope *own = call->host->call_scope(call);
    return call->host->set_output(call, 0, tn_mul_scalar(own, call->args[0].as.tensor, 2));
}

/* A composite without a shape rule always runs: a row beside it would be ignored. */
Test(definitions, a_row_beside_a_composite_needs_a_shape_rule)
{
    const char *schema = "test::both(Tensor x) -> Tensor", *early = "test::early(Tensor x) -> Tensor";
    tn_unused_row_info row = {.size = sizeof row};
    uint32_t op = define_with(&(tn_operator_def){
        .size = sizeof(tn_operator_def), .schema = schema, .composite = twice_by_composite});
    refuse_row(
        "cpu", ROW(schema), TN_E_CONTRACT,
        "kernel row \"test::both(Tensor x) -> Tensor\": the operator has a composite and no shape rule, so "
        "the row would never run; a row needs `infer` in the operator's definition");
    cr_expect_eq(tn_inspect_kernel_count(ctx, op), 0);
    add_row("cpu", early, 0, do_nothing, NULL);
    op = define_with(&(tn_operator_def){
        .size = sizeof(tn_operator_def), .schema = early, .composite = twice_by_composite});
    cr_expect_eq(tn_inspect_kernel_count(ctx, op), 0);
    cr_assert_eq(tn_inspect_unused_row_count(ctx), 1, "the row that came first is named as unused");
    cr_assert_eq(tn_inspect_unused_row(ctx, 0, &row), TN_OK);
    cr_expect_str_eq(row.schema, early);
}

Test(definitions, alias_sets_that_no_argument_has)
{
    static const char *const schemas[] = {
        "test::f(Tensor(a) x) -> Tensor(b)", "test::f(Tensor x) -> Tensor(a)",
        "test::f(Tensor(a!) x) -> Tensor(b!)", "test::f(Tensor(a) x) -> (Tensor(a), Tensor(b)[])"};
    REFUSE(TN_E_SYNTAX, "operator test::f: result 1 is in the alias set 'b'", .size = sizeof(tn_operator_def),
           .schema = schemas[3]);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        REFUSE(TN_E_SYNTAX, ", which no argument has (schema \"test::f(Tensor",
               .size = sizeof(tn_operator_def), .schema = schemas[i]);
    define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                   .schema = "test::view(Tensor(a) x) -> Tensor(a)[]",
                                   .composite = do_nothing});
    define("test::either(Tensor(a|b) x, Tensor(b) y) -> Tensor(b)");
    define("test::any(Tensor(*) x) -> Tensor(a)");
}

Test(definitions, unknown_class_of_autocast)
{
    REFUSE(TN_E_UNKNOWN_FIELD,
           "operator definition \"test::f(Tensor x) -> Tensor\": autocast is 77 (expected a TN_AUTOCAST_..., "
           "0 to 3)",
           .size = sizeof(tn_operator_def), .schema = "test::f(Tensor x) -> Tensor", .autocast = 77);
}

/* An argument that is absent: a generator may always be; one that is required may not. */
Test(definitions, absent_arguments)
{
    const char *schema = "test::absent(Tensor x, Generator g, Dimname[] names, Layout l) -> Tensor";
    tn_value x = tn_value_tensor(tn_ones(s, TN_INTS(1))), none = tn_value_none();
    uint32_t op = define(schema);
    add_row("cpu", schema, 0, do_nothing, NULL);
    cr_expect_null(CALL(op, x, none, none, none));
    expect_failure(TN_E_ARGUMENT, "argument 'l' (position 4) must be Layout, not None");
    cr_expect_not_null(CALL(op, x, none, none, tn_value_layout(tn_intern(ctx, "strided"))));
}
