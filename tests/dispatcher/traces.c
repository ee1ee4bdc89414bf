/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call traces with arguments of every kind, as text and run again; what makes a trace invalid; and the file of
 * TENON_TRACE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tenon/plugin.h>
#include <tenon/random.h>
#include <tenon/trace.h>
#include "support.h"

TestSuite(traces, .init = open_context, .fini = close_context);

static const char *const everything =
    "test::everything(Tensor x, Tensor?[] list, int i, float f, bool b, Scalar s, Scalar c, str n, int[] il, "
    "float[] fl, "
    "bool[] bl, Scalar[] sl, ScalarType d, Layout l, Device v, MemoryFormat m, Generator? g=None) -> Tensor";

static const double pair[] = {1, -2}, floats[] = {0.5, 2};
static const int64_t ints[] = {3, -9007199254740993}; /* a double would lose the last digit */
static const uint8_t bools[] = {1, 0};

static int32_t times_two(void *self, const tn_call *call)
{
    const float *from = tn_tensor_data(call->args[0].as.tensor);
    float *to = tn_tensor_data(call->outs[0].as.tensor);
    for (int64_t i = 0; i < tn_tensor_numel(call->outs[0].as.tensor); i++)
        to[i] =
            from[i] * 2 + (float)call->args[6].as.floats[1] + (float)call->args[11].as.values[1].as.floats[0];
    return TN_OK;
}

static tn_tensor *call_everything(tn_tensor *x)
{
    static tn_value scalars[2];
    tn_tensor *list[] = {x, NULL};
    scalars[0] = tn_value_int(9);
    scalars[1] = tn_value_complex(pair);
    uint32_t op = tn_operator_find(ctx, "test::everything");
    tn_tensor *y = CALL(op, tn_value_tensor(x), tn_value_tensors(list, 2), tn_value_int(5),
                        tn_value_float(0.25), tn_value_bool(1), tn_value_float(1.5), tn_value_complex(pair),
                        tn_value_string("it's"), tn_value_ints(ints, 2), tn_value_floats(floats, 2),
                        tn_value_bools(bools, 2), tn_value_scalars(scalars, 2), tn_value_dtype(TN_FLOAT64),
                        tn_value_layout(tn_intern(ctx, "strided")), tn_value_device(TN_CPU),
                        tn_value_memory_format(TN_CHANNELS_LAST), tn_value_none());
    cr_assert_not_null(y, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    return y;
}

Test(traces, arguments_of_every_kind)
{
    define(everything);
    add_row("cpu", everything, 0, times_two, NULL);
    tn_tensor *x = tn_ones(s, TN_INTS(2)),
              *again = tn_full(s, TN_INTS(2), TN_SCALAR(10), .dtype = TN_FLOAT32), *out;
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    tn_tensor *y = call_everything(x);
    cr_assert_eq(tn_call_trace_end(trace, TN_TENSORS(y)), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    char text[600], few[8];
    uint64_t length = tn_call_trace_text(trace, text, sizeof text);
    const char *expected = "%1 = test::everything(%0, [%0, None], 5, 0.25, True, 1.5, 1-2j, 'it's', [3, "
                           "-9007199254740993], [0.5, 2], "
                           "[True, False], [9, 1-2j], float64, strided, cpu, memory_format=2, None)\n";
    cr_expect_str_eq(text, expected);
    cr_expect_eq(length, strlen(expected));
    cr_expect_eq(tn_call_trace_text(trace, few, sizeof few), length);
    cr_expect_str_eq(few, "%1 = te");
    cr_expect_eq(tn_call_trace_text(trace, NULL, 0), length);
    cr_assert_eq(tn_call_trace_run(s, trace, TN_TENSORS(again), &out), TN_OK);
    cr_expect_eq(tn_item_double(s, tn_sum(s, y)), 2 * (2 - 2 + 1));
    cr_expect_eq(tn_item_double(s, tn_sum(s, out)), 2 * (20 - 2 + 1));
    tn_call_trace_step step = {.size = sizeof step};
    cr_expect_eq(tn_call_trace_get(trace, 1, &step), TN_E_INDEX);
    expect_last_error(TN_E_INDEX, "call_trace_get: there is no call 1 (the trace has 1)");
    cr_expect_eq(tn_call_trace_get(trace, 0, &step), TN_OK);
    cr_expect_eq(step.n_used, 2);
    cr_expect_eq(tn_call_trace_run(s, trace, TN_TENSORS(NULL), &out), TN_E_ARGUMENT);
    expect_failure(TN_E_ARGUMENT, "call_trace_run: input 0 is NULL");
    tn_call_trace_release(trace);
    tn_call_trace_release(NULL);
}

/* A number in the place of a tensor is recorded as a number. */
Test(traces, numbers_in_place_of_tensors)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2)), *out = NULL;
    char text[2048];
    uint32_t mul = tn_operator_find(ctx, "aten::mul.Tensor");
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    tn_tensor *y = CALL(mul, tn_value_tensor(x), tn_value_float(2.5));
    cr_assert_not_null(y, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_call_trace_end(trace, TN_TENSORS(y)), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    tn_call_trace_text(trace, text, sizeof text);
    cr_expect_str_eq(text, "%1 = aten::mul.Tensor(%0, 2.5)\n");
    tn_tensor *four = tn_full(s, TN_INTS(2), 4, .dtype = TN_FLOAT32);
    cr_assert_eq(tn_call_trace_run(s, trace, TN_TENSORS(four), &out), TN_OK);
    cr_expect_eq(tn_item_double(s, tn_sum(s, out)), 20);
    tn_call_trace_release(trace);
}

Test(traces, what_cannot_be_recorded)
{
    static const char *const strings[] = {"a"};
    const char *schema = "test::strings(Tensor x, str[] n) -> Tensor";
    uint32_t op = define(schema);
    tn_tensor *x = tn_ones(s, TN_INTS(2)), *out;
    add_row("cpu", schema, 0, do_nothing, NULL);
    cr_expect_null(tn_call_trace_begin(ctx, TN_TENSORS(NULL)));
    expect_last_error(TN_E_ARGUMENT, "call_trace_begin: input 0 is NULL");
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    cr_expect_not_null(CALL(op, tn_value_tensor(x), tn_value_strings(strings, 1)));
    cr_expect_not_null(CALL(op, tn_value_tensor(x), tn_value_strings(strings, 1)));
    cr_expect_eq(tn_call_trace_end(trace, TN_TENSORS(x)), TN_E_UNSUPPORTED);
    expect_last_error(TN_E_UNSUPPORTED,
                      "trace: arguments that are lists of strings or pointers cannot be recorded");
    cr_expect_eq(tn_call_trace_run(s, trace, TN_TENSORS(x), &out), TN_E_UNSUPPORTED);
    expect_failure(TN_E_UNSUPPORTED, "cannot be recorded");
    tn_call_trace_release(trace);
    trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    cr_expect_eq(tn_call_trace_end(trace, TN_TENSORS(NULL)), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "call_trace_end: output 0 is NULL");
    tn_call_trace_release(trace);
}

/* A view of an input that was made before recording began. */
Test(traces, a_view_that_no_call_made)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3)), *view = tn_t(s, x);
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    tn_tensor *y = tn_neg(s, view);
    tn_neg(s, tn_neg(s, view));
    cr_expect_eq(tn_call_trace_end(trace, TN_TENSORS(y)), TN_E_STATE);
    expect_last_error(TN_E_STATE, "trace: a call uses a view of value %0 that no recorded call made");
    tn_call_trace_release(trace);
}

/* Views that differ from the input in one thing each. A detached tensor is the same elements: it is the input. */
Test(traces, views_that_are_not_the_input)
{
    tn_tensor *x = tn_full(s, TN_INTS(2, 2), 3, .dtype = TN_COMPLEX64), *out;
    tn_tensor *r = tn_full(s, TN_INTS(2, 2), 3, .dtype = TN_FLOAT32);
    tn_tensor *const views[] = {tn_conj(s, x), tn_view_as_real(s, x), tn_t(s, x),
                                tn_slice(s, x, .dim = 0, .end = 1), tn_slice(s, x, .dim = 0, .start = 1)};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
        tn_tensor *y = tn_mul(s, views[i], views[i]);
        cr_expect_eq(tn_call_trace_end(trace, TN_TENSORS(y)), TN_E_STATE, "%d", (int)i);
        tn_call_trace_release(trace);
    }
    tn_tensor *bits = tn_view_dtype(s, r, TN_INT32), *same = tn_detach(s, r);
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(r));
    tn_tensor *y = tn_neg(s, bits);
    cr_expect_eq(tn_call_trace_end(trace, TN_TENSORS(y)), TN_E_STATE);
    tn_call_trace_release(trace);
    trace = tn_call_trace_begin(ctx, TN_TENSORS(r));
    y = tn_add(s, same, r);
    cr_assert_eq(tn_call_trace_end(trace, TN_TENSORS(y)), TN_OK);
    cr_assert_eq(tn_call_trace_run(s, trace, TN_TENSORS(tn_ones(s, TN_INTS(2, 2))), &out), TN_OK);
    cr_expect_eq(tn_item_double(s, tn_sum(s, out)), 8);
    tn_call_trace_release(trace);
}

Test(traces, a_step_that_fails_when_run)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3)), *w = tn_ones(s, TN_INTS(3, 4)), *out;
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    tn_tensor *y = tn_matmul(s, x, w);
    cr_assert_eq(tn_call_trace_end(trace, TN_TENSORS(y)), TN_OK);
    cr_expect_neq(tn_call_trace_run(s, trace, TN_TENSORS(w), &out), TN_OK);
    cr_expect_neq(tn_scope_failed(s), TN_OK);
    cr_expect_neq(tn_call_trace_run(s, trace, TN_TENSORS(x), &out), TN_OK, "the scope has failed");
    tn_scope_clear(s);
    cr_expect_eq(tn_call_trace_run(s, trace, TN_TENSORS(x), &out), TN_OK);
    tn_call_trace_release(trace);
}

Test(traces, calls_of_another_context)
{
    tn_context *first = ctx;
    tn_scope *scope = s;
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    open_context();
    tn_ones(s, TN_INTS(3));
    close_context();
    ctx = first;
    s = scope;
    cr_expect_eq(tn_call_trace_count(trace), 0);
    tn_call_trace_release(trace); /* not ended: given up */
}

static int32_t infer_first(void *self, const tn_call *call)
{
    const int64_t sizes[] = {2};
    const tn_output output = {.size = sizeof output, .dtype = TN_FLOAT32, .rank = 1, .sizes = sizes};
    return call->host->define_output(call, 0, &output);
}

static int32_t fill_first(void *self, const tn_call *call)
{
    const float *from = tn_tensor_data(call->args[0].as.tensor);
    float *to = tn_tensor_data(call->outs[0].as.tensor);
    to[0] = from[0] + 1;
    to[1] = from[1] + 1;
    return TN_OK;
}

/* A shape rule need not define an optional result, which then is None. */
Test(traces, results_that_are_not_there)
{
    static const char schema[] = "test::maybe(Tensor x) -> (Tensor, Tensor?)";
    uint32_t op = define_with(
        &(tn_operator_def){.size = sizeof(tn_operator_def), .schema = schema, .infer = infer_first});
    tn_tensor *x = tn_ones(s, TN_INTS(2)), *out = NULL;
    tn_value arg = tn_value_tensor(x), outs[2];
    add_row("cpu", schema, 0, fill_first, NULL);
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    cr_assert_eq(tn_scope_call(s, op, &arg, 1, outs, 2), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_eq(outs[1].tag, TN_TAG_NONE);
    cr_assert_eq(tn_call_trace_end(trace, TN_TENSORS(outs[0].as.tensor)), TN_OK);
    cr_assert_eq(
        tn_call_trace_run(s, trace, TN_TENSORS(tn_full(s, TN_INTS(2), 4, .dtype = TN_FLOAT32)), &out), TN_OK);
    cr_expect_eq(tn_item_double(s, tn_sum(s, out)), 10);
    tn_call_trace_release(trace);
}

static int32_t one_of_two(void *self, const tn_call *call)
{
    static tn_tensor *items[2];
    items[0] = tn_mul_scalar(call->host->call_scope(call), call->args[0].as.tensor, 2);
    call->outs[0] = tn_value_tensors(items, 2);
    return TN_OK;
}

/* A composite may leave items of its list out. */
Test(traces, items_that_are_not_there)
{
    const tn_operator_def def = {
        .size = sizeof def, .schema = "test::some(Tensor x) -> Tensor[]", .composite = one_of_two};
    uint32_t op = define_with(&def);
    tn_tensor *x = tn_ones(s, TN_INTS(2)), *out = NULL;
    tn_value arg = tn_value_tensor(x), list;
    char text[512];
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    cr_assert_eq(tn_scope_call(s, op, &arg, 1, &list, 1), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(list.count, 2);
    cr_expect_null(list.as.tensors[1]);
    tn_tensor *y = tn_neg(s, list.as.tensors[0]);
    cr_assert_eq(tn_call_trace_end(trace, TN_TENSORS(y)), TN_OK);
    tn_call_trace_text(trace, text, sizeof text);
    cr_expect_str_eq(text, "%1, _ = test::some(%0)\n%2 = aten::neg(%1)\n");
    cr_assert_eq(
        tn_call_trace_run(s, trace, TN_TENSORS(tn_full(s, TN_INTS(2), 4, .dtype = TN_FLOAT32)), &out), TN_OK);
    cr_expect_eq(tn_item_double(s, tn_sum(s, out)), -16);
    tn_call_trace_release(trace);
}

/* ---- TENON_TRACE ---- */

Test(trace_file, the_file_of_calls)
{
    char path[] = "/tmp/tenon-trace-XXXXXX", text[2000];
    close(mkstemp(path));
    setenv("TENON_TRACE", path, 1);
    open_context();
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3));
    define(everything);
    add_row("cpu", everything, 0, times_two, NULL);
    call_everything(tn_t(s, x));
    close_context();
    FILE *file = fopen(path, "r");
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    fclose(file);
    unlink(path);
    /* The first line is that of ones, the second that of t. */
    const char *third = strstr(text, "{\"op\":\"test::everything\"");
    cr_assert_not_null(third, "%s", text);
    cr_expect_str_eq(third,
                     "{\"op\":\"test::everything\",\"args\":[{\"t\":[3,2],\"d\":\"float32\",\"s\":[1,3]},"
                     "[{\"t\":[3,2],\"d\":\"float32\",\"s\":[1,3]},null],5,{\"f\":\"0.25\"},true,{\"f\":\"1."
                     "5\"},null,\"it's\","
                     "[3,-9007199254740993],[{\"f\":\"0.5\"},{\"f\":\"2\"}],[true,false],[9,null],{\"dtype\":"
                     "\"float64\"},null,"
                     "null,null,null]}\n");
    cr_expect_not_null(strstr(text, "{\"op\":\"aten::ones\",\"args\":[[2,3],"));
}

static char logged[512];
static void keep_line(void *user, int32_t level, const char *text)
{
    if (strstr(text, "TENON_TRACE")) snprintf(logged, sizeof logged, "%s", text);
}

Test(trace_file, a_file_that_cannot_be_written)
{
    const tn_context_options options = {.size = sizeof options, .log = keep_line};
    setenv("TENON_TRACE", "/nonexistent/file", 1);
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    cr_expect_str_eq(logged, "TENON_TRACE: cannot write /nonexistent/file: No such file or directory");
    tn_context_destroy(ctx);
}

/* Results of every number, a generator, a list that grows from step to step. */
Test(traces, results_of_every_number)
{
    const char *tick = "test::tick(Tensor x) -> ()", *drawn = "test::drawn(Tensor x, Generator g) -> Tensor";
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(4), (float[]){4, 1, 3, 2}, TN_CPU), *outs[2];
    tn_generator *generator = tn_default_generator(ctx, TN_CPU);
    uint32_t no_result = define(tick), draws = define(drawn);
    tn_value arg = tn_value_tensor(x);
    add_row("cpu", tick, 0, do_nothing, NULL);
    add_row("cpu", drawn, 0, do_nothing, NULL);
    tn_call_trace *trace = tn_call_trace_begin(ctx, TN_TENSORS(x));
    cr_assert_eq(tn_scope_call(s, no_result, &arg, 1, NULL, 0), TN_OK);
    cr_assert_not_null(CALL(draws, arg, tn_value_generator(generator)));
    cr_assert_not_null(CALL(draws, arg, tn_value_none()));
    tn_topk_result top = tn_topk(s, x, 2);
    tn_tensors parts = tn_split(s, top.values, 1);
    tn_tensor *again = tn_cat(s, TN_TENSORS(parts.data[1], parts.data[0], top.values));
    tn_add_(s, again, again);
    cr_assert_eq(tn_call_trace_end(trace, TN_TENSORS(again, top.indices)), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    char text[2000];
    tn_call_trace_text(trace, text, sizeof text);
    const char *const lines[] = {"test::tick(%0)\n",
                                 "%1 = test::drawn(%0, generator)\n",
                                 "%2 = test::drawn(%0, None)\n",
                                 "%3, %4 = aten::topk(%0, 2,",
                                 "%5, %6 = aten::split.Tensor(%3, 1, 0)\n",
                                 "%7 = aten::cat([%6, %5, %3], 0)\n",
                                 "%7 = aten::add_.Tensor(%7, %7, 1)\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        cr_expect_not_null(strstr(text, lines[i]), "\"%s\" in \"%s\"", lines[i], text);
    tn_tensor *other = tn_from_data(s, TN_FLOAT32, TN_INTS(4), (float[]){10, 40, 20, 30}, TN_CPU);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(tn_call_trace_run(s, trace, TN_TENSORS(other), outs), TN_OK);
        cr_expect_eq(tn_item_double(s, tn_sum(s, outs[0])), 2 * (30 + 40 + 40 + 30));
        cr_expect_eq(tn_item_int(s, tn_select(s, outs[1], 0, 0)), 1);
    }
    tn_call_trace_release(trace);
}
