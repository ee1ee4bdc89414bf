/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which row of a kernel table runs. A row compiled against an older schema does not know the arguments that
 * were appended since: it may run only while each of them has its default value. A row of a newer header may have parts
 * that this library does not know.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/plugin.h>
#include "support.h"

static int ran_older, ran_newer;

TestSuite(rows, .init = open_context, .fini = close_context);

static int32_t older(void *self, const tn_call *call)
{
    ran_older++;
    return TN_OK;
}

static int32_t newer(void *self, const tn_call *call)
{
    ran_newer++;
    return TN_OK;
}

Test(rows, a_built_in_operator_with_another_string_of_the_same_length)
{
    tn_tensor *x = tn_ones(s, TN_INTS(3));
    add_row("cpu", "aten::gelu(Tensor self) -> Tensor", 1000, older, NULL);
    tn_gelu(s, x);
    cr_expect_eq(ran_older, 1);
    /* gelu(1) = 0.841345 by erf, 0.841192 by tanh. */
    cr_expect_float_eq(tn_item_double(s, tn_sum(s, tn_gelu(s, x, .approximate = "tanh"))), 3 * 0.8411920,
                       1e-5);
    cr_expect_eq(ran_older, 1);
    cr_expect_eq(tn_scope_failed(s), TN_OK);
}

static const int64_t int_list[] = {1, 2}, other_ints[] = {1, 3};
static const double float_list[] = {1, 2}, other_floats[] = {1, 2.5}, minus_zero[] = {-0.0}, zero[] = {0.0},
                    pair[] = {1, 2};
static const uint8_t bool_list[] = {1, 0}, other_bools[] = {1, 1};
static const char *const string_list[] = {"ab", "cd"}, *const other_strings[] = {"ab", "ce"};

static tn_value scalars(double second)
{
    static tn_value lists[2][2];
    tn_value *list = lists[second != 2];
    list[0] = tn_value_int(1);
    list[1] = tn_value_float(second);
    return tn_value_scalars(list, 2);
}

/* The declaration of an appended argument, a value equal to its default, and one that differs. */
static const struct {
    const char *argument;
    tn_value same, other;
} appended[] = {
    {"int x=3", {TN_TAG_INT, 0, {.i = 3}}, {TN_TAG_INT, 0, {.i = 4}}},
    {"float x=0.5", {TN_TAG_FLOAT, 0, {.f = 0.5}}, {TN_TAG_FLOAT, 0, {.f = 0.25}}},
    {"bool x=False", {TN_TAG_BOOL, 0, {.i = 0}}, {TN_TAG_BOOL, 0, {.i = 1}}},
    {"Scalar x=1", {TN_TAG_INT, 0, {.i = 1}}, {TN_TAG_COMPLEX, 2, {.floats = pair}}},
    {"str x='none'", {TN_TAG_STRING, 4, {.string = "none"}}, {TN_TAG_STRING, 4, {.string = "tanh"}}},
    {"str x='none'", {TN_TAG_STRING, 4, {.string = "none"}}, {TN_TAG_STRING, 5, {.string = "none?"}}},
    {"str x=''", {TN_TAG_STRING, 0, {.string = ""}}, {TN_TAG_STRING, 1, {.string = "a"}}},
    {"int[] x=[1, 2]", {TN_TAG_INTS, 2, {.ints = int_list}}, {TN_TAG_INTS, 2, {.ints = other_ints}}},
    {"int[] x=[]", {TN_TAG_INTS, 0, {.ints = int_list}}, {TN_TAG_INTS, 1, {.ints = int_list}}},
    {"float[] x=[1.0, 2.0]",
     {TN_TAG_FLOATS, 2, {.floats = float_list}},
     {TN_TAG_FLOATS, 2, {.floats = other_floats}}},
    {"float[1] x=0.0", {TN_TAG_FLOATS, 1, {.floats = zero}}, {TN_TAG_FLOATS, 1, {.floats = minus_zero}}},
    {"bool[2] x=[True, False]",
     {TN_TAG_BOOLS, 2, {.bools = bool_list}},
     {TN_TAG_BOOLS, 2, {.bools = other_bools}}},
    {"str[] x=['ab', 'cd']",
     {TN_TAG_STRINGS, 2, {.strings = string_list}},
     {TN_TAG_STRINGS, 2, {.strings = other_strings}}},
    {"str[] x=['ab']",
     {TN_TAG_STRINGS, 1, {.strings = string_list}},
     {TN_TAG_STRINGS, 2, {.strings = string_list}}},
    {"ScalarType? x=None", {TN_TAG_NONE, 0, {0}}, {TN_TAG_DTYPE, 0, {.i = TN_FLOAT64}}},
    {"ScalarType x=long", {TN_TAG_DTYPE, 0, {.i = TN_INT64}}, {TN_TAG_DTYPE, 0, {.i = TN_INT32}}},
    {"Device x=cpu", {TN_TAG_DEVICE, 0, {.device = TN_CPU}}, {TN_TAG_DEVICE, 0, {.device = TN_CPU + 1}}},
    {"MemoryFormat x=contiguous_format",
     {TN_TAG_MEMORY_FORMAT, 0, {.i = TN_CONTIGUOUS_FORMAT}},
     {TN_TAG_MEMORY_FORMAT, 0, {.i = TN_CHANNELS_LAST}}},
};

/* Defines test::<name>(Tensor self, *, <argument>) with a row for it and a preferred one without the argument. */
static uint32_t define_appended(const char *name, const char *argument)
{
    static char texts[64][160];
    static int n_texts;
    char *schema = texts[n_texts++], *old_schema = texts[n_texts++];
    snprintf(schema, sizeof texts[0], "test::%s(Tensor self, *, %s) -> Tensor", name, argument);
    snprintf(old_schema, sizeof texts[0], "test::%s(Tensor self) -> Tensor", name);
    uint32_t number = define(schema);
    add_row("cpu", schema, 0, newer, NULL);
    add_row("cpu", old_schema, 1, older, NULL);
    return number;
}

/* Calls with one more argument; 1: the row without the argument ran, 0: the other one. */
static int older_runs(uint32_t number, tn_tensor *x, tn_value argument)
{
    tn_value out, args[] = {tn_value_tensor(x), argument};
    ran_older = ran_newer = 0;
    cr_assert_eq(tn_scope_call(s, number, args, 2, &out, 1), TN_OK, "%s", tn_scope_error(s)->message);
    cr_assert_eq(ran_older + ran_newer, 1);
    return ran_older;
}

Test(rows, an_appended_argument_of_every_kind)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    for (size_t i = 0; i < sizeof appended / sizeof *appended; i++) {
        char name[16];
        snprintf(name, sizeof name, "op%zu", i);
        uint32_t number = define_appended(name, appended[i].argument);
        cr_expect(older_runs(number, x, appended[i].same), "%s: its default", appended[i].argument);
        cr_expect_not(older_runs(number, x, appended[i].other), "%s: another value", appended[i].argument);
    }
    uint32_t number = define_appended("scalars", "Scalar[] x=[1, 2.0]");
    cr_expect(older_runs(number, x, scalars(2)));
    cr_expect_not(older_runs(number, x, scalars(2.5)));
    number = define_appended("tensors", "Tensor[] x=[]");
    cr_expect(older_runs(number, x, tn_value_tensors(&x, 0)));
    cr_expect_not(older_runs(number, x, tn_value_tensors(&x, 1)));
}

static int rows_that_ran;

static int32_t count_row(void *self, const tn_call *call)
{
    (void)self;
    rows_that_ran |= *(const int *)call->data;
    return TN_OK;
}

/* Rows of relu and neg as a program of another header has them, `bytes` long. Where they are longer than ours, the
 * last byte of the second one is `last`. */
static int32_t add_rows_of(uint32_t bytes, char last)
{
    static const int which[] = {1, 2};
    static const char *const names[] = {"aten::relu(Tensor self) -> Tensor",
                                        "aten::neg(Tensor self) -> Tensor"};
    _Alignas(tn_kernel_row) char rows[2 * (sizeof(tn_kernel_row) + 24)] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        const tn_kernel_row row = {.size = bytes,
                                   .strides = TN_STRIDES_ANY,
                                   .priority = 1000,
                                   .schema = names[i],
                                   .run = count_row,
                                   .data = &which[i]};
        memcpy(rows + i * bytes, &row, bytes < sizeof row ? bytes : sizeof row);
    }
    if (bytes > sizeof(tn_kernel_row)) rows[2 * bytes - 1] = last;
    return tn_kernels_add(ctx, "cpu", NULL, (const tn_kernel_row *)(const void *)rows, 2);
}

/* Rows stand as close as the program's compiler put them. */
static void expect_rows_of(uint32_t bytes)
{
    cr_assert_eq(add_rows_of(bytes, 0), TN_OK, "%s", tn_last_error()->message);
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    tn_relu(s, x);
    cr_expect_eq(rows_that_ran, 1);
    tn_neg(s, x);
    cr_expect_eq(rows_that_ran, 3);
}

Test(rows, of_an_older_program)
{
    expect_rows_of(offsetof(tn_kernel_row, max_rank));
}

Test(rows, of_a_newer_program)
{
    expect_rows_of(sizeof(tn_kernel_row) + 8);
}

/* What the newer program asks for is not ignored, and the row before it is not added either. */
Test(rows, of_a_newer_program_that_set_what_is_not_known)
{
    const uint32_t before = tn_inspect_kernel_count(ctx, TN_OP_RELU);
    cr_expect_eq(add_rows_of(sizeof(tn_kernel_row) + 24, 1), TN_E_UNKNOWN_FIELD);
    expect_last_error(TN_E_UNKNOWN_FIELD, "kernel row \"aten::neg(Tensor self) -> Tensor\" of the program: "
                                          "byte 103 is set, but this library knows "
                                          "only the first 80 bytes");
    cr_expect_eq(tn_inspect_kernel_count(ctx, TN_OP_RELU), before);
}

/* What a plugin registers is checked like the rows of a program (definitions.c). It may be newer than this library: rows with parts that this one
 * does not know are named and do not run, the others do. */
static const tn_dtype no_dtypes[] = {0xdeadbeef, 0}, some_dtypes[] = {0xdeadbeef, TN_FLOAT32, 0};
static const tn_row_argument far_argument[] = {{.place = 7}};
static const struct {
    tn_kernel_row row;
    int32_t status;
    const char *words; /* of the error, or why the row is passed over; NULL: it runs */
} plugin_rows[] = {
    {{.size = 0}, TN_E_ARGUMENT, "size is 0; set it to sizeof(tn_kernel_row)"},
    {{.size = 4711}, TN_E_CONTRACT, "a kernel row says size 4711, rows are 80 bytes apart"},
    {{.size = sizeof(tn_kernel_row), .honours = TN_CALL_ALLOW_TF32},
     TN_E_ARGUMENT,
     "honours is 0x10000, but flags from bit 16 on permit, and every row may ignore them (expected bits 0 to "
     "15)"},
    {{.size = sizeof(tn_kernel_row), .n_arguments = 1}, TN_E_ARGUMENT, "arguments is NULL, n_arguments is 1"},
    {{.size = sizeof(tn_kernel_row), .flags = 1u << 30}, TN_OK, "unknown flags 0x40000000"},
    {{.size = sizeof(tn_kernel_row), .strides = 9},
     TN_OK,
     "strides is 9 (expected a TN_STRIDES_..., 0 to 3)"},
    {{.size = sizeof(tn_kernel_row), .n_arguments = 1, .arguments = far_argument},
     TN_OK,
     "argument 0: place is 7 (expected 0 to 1)"},
    {{.size = sizeof(tn_kernel_row), .dtypes = no_dtypes}, TN_OK, "unknown dtype 0xdeadbeef"},
    {{.size = sizeof(tn_kernel_row), .dtypes = some_dtypes}, TN_OK, NULL},
    {{.size = sizeof(tn_kernel_row), .honours = 4}, TN_OK, NULL}, /* a program may set any flag that binds */
};

static int32_t register_one(void *self, const tn_call *call)
{
    const tn_host *h = call->host;
    return h->register_kernels(h->context, "cpu", NULL, self, 1, (uint32_t)sizeof(tn_kernel_row));
}

Test(rows, of_plugins_are_checked_like_those_of_programs)
{
    static char schemas[2 * sizeof plugin_rows / sizeof *plugin_rows][48];
    static tn_kernel_row rows[sizeof plugin_rows / sizeof *plugin_rows];
    uint32_t passed_over = 0;
    for (size_t i = 0; i < sizeof plugin_rows / sizeof *plugin_rows; i++) {
        const char *words = plugin_rows[i].words;
        tn_unused_row_info row = {.size = sizeof row};
        snprintf(schemas[2 * i], sizeof *schemas, "test::op%zu(Tensor x) -> Tensor", i);
        snprintf(schemas[2 * i + 1], sizeof *schemas, "test::registers%zu(Tensor x) -> Tensor", i);
        rows[i] = plugin_rows[i].row;
        rows[i].schema = schemas[2 * i];
        rows[i].run = do_nothing;
        const uint32_t op = define(schemas[2 * i]), registers = define(schemas[2 * i + 1]);
        const tn_kernel_row by = {.size = sizeof by, .schema = schemas[2 * i + 1], .run = register_one};
        cr_assert_eq(tn_kernels_add(ctx, "cpu", &rows[i], &by, 1), TN_OK);
        tn_tensor *y = CALL(registers, tn_value_tensor(tn_ones(s, TN_INTS(1))));
        if (plugin_rows[i].status) {
            cr_expect_null(y);
            expect_failure(plugin_rows[i].status, words);
        } else if (words) {
            cr_assert_not_null(y, "row %zu", i);
            cr_assert_eq(tn_inspect_unused_row_count(ctx), passed_over + 1, "row %zu", i);
            cr_assert_eq(tn_inspect_unused_row(ctx, passed_over++, &row), TN_OK);
            cr_expect_eq(row.why, TN_UNUSED_UNKNOWN);
            cr_expect_str_eq(row.unknown, words);
            cr_expect_str_eq(row.schema, schemas[2 * i]);
        }
        cr_expect_eq(tn_inspect_kernel_count(ctx, op), words == NULL, "row %zu", i);
    }
}
