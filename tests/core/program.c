/* SPDX-License-Identifier: Apache-2.0 */
/* What the core promises a program, seen through the whole library: TENON_DEBUG's view of calls, and fork. */
#include "log_lines.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include <tenon/plugin.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "child.h"

static tn_context *watched(const char *wishes, lines *l)
{
    tn_context *ctx = NULL;
    const tn_context_options options = {.size = sizeof options, .log = keep_line, .log_user = l};
    setenv("TENON_DEBUG", wishes, 1);
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    return ctx;
}

/* The line of the log that begins with this place, or fails. */
static const char *line_at(const lines *l, int line)
{
    char start[256];
    snprintf(start, sizeof start, "TENON_DEBUG: %s:%d: ", __FILE__, line);
    const char *found = strstr(l->text, start);
    cr_assert_not_null(found, "no '%s' in:\n%s", start, l->text);
    return found + strlen(start);
}

Test(program, first_NaN_and_infinity_are_named)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("nan", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), (float[]){1, 4, -1, 0}, TN_CPU);
    tn_tensor *seen = tn_ones(s, TN_INTS(1, 1, 3, 2), .dtype = TN_FLOAT32);
    tn_scaled_dot_product_attention(s, seen, seen, seen, .is_causal = 1, .dropout_p = 0.5);
    cr_assert_eq(l.count, 0, "%s", l.text); /* the mask of attention is the library's own affair */
    tn_tensor *y = tn_sqrt(s, x);
    cr_assert_eq(l.count, 1, "%s", l.text);
    cr_assert_eq(strncmp(line_at(&l, __LINE__ - 2), "first NaN: element 2 of result 0 of", 35), 0);
    cr_assert_not_null(strstr(l.text, "sqrt"));
    cr_assert_not_null(strstr(l.text, "float32 [2, 2]"));
    tn_add(s, y, y); /* not the first one */
    cr_assert_eq(l.count, 1);
    l.text[0] = 0;
    tn_mul(s, tn_reciprocal(s, x), x);
    cr_assert_eq(l.count, 2);
    cr_assert_eq(strncmp(line_at(&l, __LINE__ - 2), "first infinity: element 3 of result 0 of", 40), 0);
    cr_assert_not_null(strstr(l.text, "reciprocal"));
    cr_assert_eq(tn_scope_close(s), TN_OK);
    tn_context_destroy(ctx);
}

Test(program, NaN_of_an_argument_is_said_to_be_one)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("nan", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT64, TN_INTS(1), (double[]){NAN}, TN_CPU);
    tn_empty(s, TN_INTS(100)); /* memory that nobody has written may hold anything */
    cr_assert_eq(l.count, 0, "%s", l.text);
    tn_neg(s, x);
    cr_assert_not_null(strstr(l.text, "(an argument held one already)"), "%s", l.text);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

/* The error of the scope ends with this node and the place of its call. */
static void expect_detected(tn_scope *s, const char *start, const char *node, int line)
{
    char end[300];
    snprintf(end, sizeof end, " (error detected in %s, recorded at %s:%d)", node, __FILE__, line);
    cr_assert_eq(tn_scope_failed(s), TN_E_AUTOGRAD);
    const char *message = tn_scope_error(s)->message, *found = strstr(message, end);
    cr_assert(found && !found[strlen(end)], "no '%s' at the end of: %s", end, message);
    cr_assert_not_null(strstr(message, start), "%s", message);
    tn_scope_clear(s);
}

static int32_t give_nan(tn_function_call *call, tn_scope *s, tn_tensors grads, tn_tensor **out)
{
    (void)call;
    out[0] = tn_full_like(s, grads.data[0], NAN);
    return TN_OK;
}

static int32_t give_input(tn_function_call *call, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    (void)call;
    out[0] = tn_clone(s, inputs.data[0]);
    return TN_OK;
}

/* As torch.autograd.detect_anomaly: the first NaN of backward is an error, and errors lead to the forward pass. */
Test(program, errors_of_backward_name_the_call_of_the_forward_pass)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("anomaly", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){0, 1}, TN_CPU), *y, *part, *out;
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    int line = __LINE__ + 1;
    y = tn_sqrt(s, x); /* 0 / (2 sqrt(0)) */
    tn_backward(s, tn_sum(s, tn_mul_scalar(s, y, 0)));
    expect_detected(s, "Function 'SqrtBackward0' returned nan values in its 0th output.", "SqrtBackward0",
                    line);
    line = __LINE__ + 1;
    y = tn_exp(s, x);
    tn_add_scalar_(s, y, 1);
    tn_backward(s, tn_sum(s, y));
    expect_detected(s, "has been modified by an inplace operation", "ExpBackward0", line);
    const tn_function f = {.size = sizeof f, .name = "Bad", .forward = give_input, .backward = give_nan};
    line = __LINE__ + 1;
    tn_function_apply(s, &f, NULL, TN_TENSORS(x), &out, 1);
    tn_backward(s, tn_sum(s, out));
    expect_detected(s, "Function 'BadBackward0' returned nan", "BadBackward0", line);
    y = tn_mul_scalar(s, x, 1);
    part = tn_select(s, y, 0, 0);
    line = __LINE__ + 1;
    tn_sqrt_(s, part); /* through a view */
    tn_backward(s, tn_sum(s, tn_mul_scalar(s, y, 0)));
    expect_detected(s, "returned nan", "CopySlices0", line);
    tn_backward(s, tn_sum(s, tn_mul(s, x, x)));
    cr_assert_eq(tn_scope_close(s), TN_OK);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 0, "%s", l.text);
}

/* Nodes whose calls are not placed, and other threads, leave nothing behind. */
Test(program, nodes_without_a_place_are_only_named)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("anomaly,leaks", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(1), (float[]){0}, TN_CPU);
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_value argument = tn_value_tensor(x), result;
    cr_assert_eq((tn_scope_call)(s, tn_operator_find(ctx, "aten::sqrt"), &argument, 1, &result, 1), TN_OK);
    tn_backward(s, tn_mul_scalar(s, tn_value_as_tensor(result), 0));
    cr_assert_not_null(strstr(tn_scope_error(s)->message, " (error detected in SqrtBackward0)"), "%s",
                       tn_scope_error(s)->message);
    tn_scope_clear(s);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 0, "%s", l.text);
}

/* One call of each row is the first that makes a NaN or an infinity. */
static tn_tensor *complex_infinity(tn_scope *s, tn_device d)
{
    tn_tensor *z = tn_from_data(s, TN_COMPLEX64, TN_INTS(2), (float[]){1, 2, 3, 4}, d);
    return tn_mul(s, z, tn_from_data(s, TN_COMPLEX64, TN_INTS(2), (float[]){1, 0, 0, INFINITY}, d));
}

static tn_tensor *in_place(tn_scope *s, tn_device d)
{
    return tn_log_(s, tn_full(s, TN_INTS(2), -1, .dtype = TN_FLOAT32, .device = d));
}

static tn_tensor *from_a_list(tn_scope *s, tn_device d)
{
    tn_tensor *bad = tn_from_data(s, TN_FLOAT32, TN_INTS(1), (float[]){INFINITY}, d);
    return tn_cat(s, TN_TENSORS(tn_ones(s, TN_INTS(3), .device = d), bad));
}

static tn_tensor *into_a_list(tn_scope *s, tn_device d)
{
    tn_tensor *bad = tn_from_data(s, TN_FLOAT32, TN_INTS(4), (float[]){0, INFINITY, 0, 0}, d);
    return tn_split_copy(s, bad, 2).data[0];
}

/* Views compute nothing; the call that reads one has an argument that held one already. */
static tn_tensor *views(tn_scope *s, tn_device d)
{
    tn_tensor *bad = tn_from_data(s, TN_FLOAT32, TN_INTS(4), (float[]){0, 0, INFINITY, NAN}, d);
    tn_detach(s, tn_contiguous(s, tn_reshape(s, bad, TN_INTS(2, 2))));
    return tn_split(s, bad, 2).data[1];
}

static tn_tensor *of_a_view(tn_scope *s, tn_device d)
{
    return tn_neg(s, views(s, d));
}

/* Leaves memory for the next tensor of [64, 64] whose bits are NaNs, by a call that is not looked at. */
static void leave_nans(tn_scope *s, tn_device d)
{
    tn_scope *c = tn_scope_open_child(s, NULL);
    tn_full(c, TN_INTS(64, 64), 0x7fc00000, .dtype = TN_INT32, .device = d);
    tn_scope_close(c);
#if TN_SANITIZER != TN_SANITIZER_ADDRESS /* with it memory is not used again */
    c = tn_scope_open_child(s, NULL);
    tn_tensor *t = tn_empty(c, TN_INTS(64, 64), .dtype = TN_FLOAT32, .device = d);
    cr_assert(isnan(tn_item_double(c, tn_select(c, tn_select(c, t, 0, 0), 0, 0))));
    tn_scope_close(c);
#endif
}

/* Composites that write new memory in parts. */
static tn_tensor *joined(tn_scope *s, tn_device d)
{
    tn_tensor *x = tn_ones(s, TN_INTS(32, 64), .device = d);
    leave_nans(s, d);
    return tn_cat(s, TN_TENSORS(x, x));
}

static tn_tensor *stacked(tn_scope *s, tn_device d)
{
    tn_tensor *x = tn_ones(s, TN_INTS(32, 64), .device = d);
    leave_nans(s, d);
    return tn_stack(s, TN_TENSORS(x, x));
}

static int32_t copy_rows(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *x = call->args[0].as.tensor;
    tn_tensor *out = tn_empty_like(s, x);
    for (int64_t i = 0; i < 64; i += 32) {
        tn_tensor *at = tn_arange_start(s, i, i + 32, .device = tn_tensor_device(x));
        tn_index_copy_(s, out, 0, at, tn_narrow(s, x, 0, i, 32));
    }
    return call->host->set_output(call, 0, out);
}

/* What a call inside a composite writes into such memory. */
static tn_tensor *in_place_inside(tn_scope *s, tn_device d)
{
    static const tn_operator_def rows = {
        .size = sizeof rows, .schema = "program::rows(Tensor x) -> Tensor", .composite = copy_rows};
    tn_tensor *x = tn_ones(s, TN_INTS(64, 64), .device = d);
    tn_value arg = tn_value_tensor(x), out = tn_value_none();
    uint32_t op;
    cr_assert_eq(tn_operator_define(tn_scope_context(s), &rows, &op), TN_OK);
    leave_nans(s, d);
    (tn_scope_call)(s, op, &arg, 1, &out, 1);
    return tn_value_as_tensor(out);
}

/* In place on memory that no call has filled with floats. */
static tn_tensor *in_place_on_nans(tn_scope *s, tn_device d)
{
    tn_tensor *bits = tn_full(s, TN_INTS(64, 64), 0x7fc00000, .dtype = TN_INT32, .device = d);
    return tn_log_(s, tn_view_dtype(s, bits, TN_FLOAT32));
}

/* Numbers that cannot be either, tensors without memory or elements: never read. */
static tn_tensor *nothing_to_find(tn_scope *s, tn_device d)
{
    tn_device meta = tn_device_parse(tn_scope_context(s), "meta");
    tn_add(s, tn_ones(s, TN_INTS(2), .device = meta), tn_ones(s, TN_INTS(2), .device = meta));
    tn_add(s, tn_ones(s, TN_INTS(2), .dtype = TN_INT64, .device = d),
           tn_ones(s, TN_INTS(2), .dtype = TN_INT64, .device = d));
    tn_resize_(s, tn_empty(s, TN_INTS(2), .device = d), TN_INTS(64));
    tn_log(s, tn_empty(s, TN_INTS(0), .device = d));
    return tn_exp(s, tn_zeros(s, TN_INTS(0, 3), .device = d));
}

Test(program, first_NaN_of_each_kind_of_call)
{
    static const struct {
        tn_tensor *(*run)(tn_scope *s, tn_device d);
        const char *device, *found; /* NULL: nothing */
    } table[] = {
        {complex_infinity, "cpu", "element 1 of result 0 of aten::mul"},
        {in_place, "cpu", "first NaN: element 0 of result 0 of aten::log_"},
        {in_place, "reference:0", "first NaN: element 0 of result 0 of aten::log_"},
        {from_a_list, "cpu", "first infinity: element 3 of result 0 of aten::cat"},
        {into_a_list, "cpu", "first infinity: element 1 of result 0 of aten::split_copy"},
        {views, "cpu", NULL},
        {views, "reference:0", NULL},
        {of_a_view, "cpu", "of result 0 of aten::neg"},
        {joined, "cpu", NULL},
        {joined, "reference:0", NULL},
        {stacked, "reference:0", NULL},
        {in_place_inside, "cpu", NULL},
        {in_place_inside, "reference:0", NULL},
        {in_place_on_nans, "cpu", "float32 [64, 64] (written in place; it held one already)"},
        {nothing_to_find, "cpu", NULL},
        {nothing_to_find, "reference:0", NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lines l = {.count = 0};
        tn_context *ctx = watched("nan", &l);
        tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
        tn_scope *s = tn_scope_open(ctx);
        const char *found = table[i].found;
        cr_expect_not_null(table[i].run(s, tn_device_parse(ctx, table[i].device)));
        cr_expect_eq(tn_scope_close(s), TN_OK);
        if (found)
            cr_expect_not_null(strstr(l.text, found), "%zu: '%s' in '%s'", i, found, l.text);
        else
            cr_expect_eq(l.count, 0, "%zu: '%s'", i, l.text);
        tn_context_destroy(ctx);
    }
}

/* Who looks for the first NaN meets the late error of a call first: the program is told of it all the same. */
Test(program, late_errors_are_told_although_results_were_read)
{
    lines l = {.count = 0};
    const int64_t places[] = {3, 77};
    tn_context *ctx = watched("nan", &l);
    const tn_device device = tn_device_parse(ctx, "reference:0");
    tn_scope *s = tn_scope_open(ctx);
    tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
    tn_tensor *table = tn_ones(s, TN_INTS(10, 4), .device = device);
    tn_tensor *rows = tn_embedding(s, table, tn_from_data(s, TN_INT64, TN_INTS(2), places, device));
    cr_assert(isnan(tn_item_double(s, tn_sum(s, rows))));
    cr_assert_eq(tn_scope_failed(s), TN_E_INDEX, "%s", l.text);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "index 77"), "%s", tn_scope_error(s)->message);
    cr_assert_eq(tn_scope_close(s), TN_E_INDEX);
    tn_context_destroy(ctx);
}

Test(program, leaks_are_listed_with_the_call)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("leaks", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *a = tn_ones(s, TN_INTS(2, 3)), *w = tn_ones(s, TN_INTS(4, 3));
    tn_tensor *kept = tn_retain(tn_linear(s, a, w));
    int line = __LINE__ - 1;
    tn_relu(s, kept);
    tn_add_(s, kept, kept); /* does not make it */
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 2, "%s", l.text);
    cr_assert_eq(strncmp(line_at(&l, line), "leak: tensor [2, 4] float32 with 1 reference, made by", 53), 0,
                 "%s", l.text);
    cr_assert_not_null(strstr(l.text, "linear"), "%s", l.text);
    cr_assert_not_null(strstr(l.text, "1 tensor, 0 scopes and 0 other objects are alive"), "%s", l.text);
    tn_release(kept);
}

/* Also of functions that are not operators, and of calls without a place. */
Test(program, places_of_leaks)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("leaks", &l);
    tn_scope *s = (tn_scope_open)(ctx), *placed = tn_scope_open(ctx);
    int opened = __LINE__ - 1;
    tn_tensor *data = tn_retain(tn_from_data(s, TN_INT64, TN_INTS(1), (int64_t[]){3}, TN_CPU));
    int line = __LINE__ - 1;
    tn_tensor *item = tn_retain(tn_index(s, data, TN_AT(0)));
    tn_tensor *nowhere = tn_retain((tn_neg)(s, data));
    tn_context_destroy(ctx);
    cr_assert_eq(strncmp(line_at(&l, line), "leak: scope of tn_scope_open, first used here, is open", 54), 0);
    cr_assert_eq(strncmp(line_at(&l, opened), "leak: scope of tn_scope_open is open", 36), 0, "%s", l.text);
    cr_assert_not_null(
        strstr(line_at(&l, line), "leak: tensor [1] int64 with 3 references, made by tn_from_data"), "%s",
        l.text);
    cr_assert_eq(strncmp(line_at(&l, line + 2), "leak: tensor [] int64", 21), 0, "%s", l.text);
    cr_assert_not_null(strstr(l.text, "TENON_DEBUG: leak: tensor [1] int64"), "%s", l.text);
    tn_scope_close(placed);
    tn_scope_close(s);
    tn_release(data);
    tn_release(item);
    tn_release(nowhere);
}

/* Typed calls and calls of place.h, on a scope that was closed and with a tensor that was released. */
Test(program, places_of_dead_handles)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("handles", &l);
    tn_scope *s = tn_scope_open(ctx), *dead = tn_scope_open(ctx), *other = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(s, TN_INTS(3)), *gone = tn_retain(tn_ones(dead, TN_INTS(2)));
    tn_scope_close(dead);
    tn_release(gone);
    int line = __LINE__ + 1;
    cr_assert_null(tn_exp(dead, x));
    cr_assert_null(tn_add(s, x, gone));
    cr_assert_eq((int)tn_scope_error(s)->line, line + 1);
    cr_assert(isnan(tn_item_double(other, gone)));
    cr_assert_eq(l.count, 3, "%s", l.text);
    cr_assert_not_null(strstr(line_at(&l, line), " was closed and is used again"), "%s", l.text);
    cr_assert_not_null(
        strstr(line_at(&l, line + 1), "of sizes [2] and dtype float32 was released and is used"));
    cr_assert_not_null(
        strstr(line_at(&l, line + 3), "of sizes [2] and dtype float32 was released and is used"));
    tn_scope_close(s);
    tn_scope_close(other);
    tn_scope *last = tn_scope_open(ctx);
    tn_scope_close(last);
    line = __LINE__ + 1;
    tn_from_data(last, TN_FLOAT32, TN_INTS(1), (float[]){1}, TN_CPU);
    cr_assert_eq(l.count, 4, "%s", l.text);
    cr_assert_not_null(strstr(line_at(&l, line), " was closed and is used again"), "%s", l.text);
    tn_context_destroy(ctx);
}

static int line_inside;

static int32_t log_inside(tn_function_call *call, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    (void)call;
    line_inside = __LINE__ + 1;
    out[0] = tn_log(s, inputs.data[0]);
    return tn_scope_failed(s);
}

static int32_t no_gradient(tn_function_call *call, tn_scope *s, tn_tensors grads, tn_tensor **out)
{
    (void)call, (void)s;
    out[0] = grads.data[0];
    return TN_OK;
}

/* A call inside a function of the program has its own place; a composite has that of the program's call. */
Test(program, places_of_the_first_NaN)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("nan", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){1, -1}, TN_CPU), *out;
    const tn_function f = {
        .size = sizeof f, .name = "log_inside", .forward = log_inside, .backward = no_gradient};
    cr_assert_eq(tn_function_apply(s, &f, NULL, (tn_tensors){&x, 1}, &out, 1), TN_OK);
    cr_assert_eq(strncmp(line_at(&l, line_inside), "first NaN: element 1", 20), 0, "%s", l.text);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    l.text[0] = 0;
    ctx = watched("nan", &l);
    s = tn_scope_open(ctx);
    x = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){1, -1}, TN_CPU);
    tn_item_double(s, tn_sum(s, tn_logit(s, x)));
    cr_assert_eq(strncmp(line_at(&l, __LINE__ - 1), "first NaN: element 1", 20), 0, "%s", l.text);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

/* A binding calls so: results without a scope, the place told behind the call. */
Test(program, results_without_a_scope_are_listed_with_the_place_of_the_call)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("leaks", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_value x = tn_value_tensor(tn_ones(s, TN_INTS(4, 2))), y, parts;
    const tn_value split[] = {x, tn_value_int(2)};
    uint64_t errors = tn_error_count();
    cr_assert_eq(tn_call_operator(ctx, tn_operator_find(ctx, "aten::neg"), &x, 1, &y, 1, NULL), TN_OK);
    tn_error_place(errors, "user.py", 77);
    errors = tn_error_count();
    cr_assert_eq(tn_call_operator(ctx, tn_operator_find(ctx, "aten::chunk"), split, 2, &parts, 1, NULL),
                 TN_OK);
    tn_error_place(errors, "user.py", 78);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_not_null(strstr(l.text, "TENON_DEBUG: user.py:77: leak: tensor [4, 2] float32"), "%s", l.text);
    const char *first = strstr(l.text, "TENON_DEBUG: user.py:78: leak: tensor [2, 2] float32");
    cr_assert_not_null(first, "%s", l.text);
    cr_assert_not_null(strstr(first + 1, "TENON_DEBUG: user.py:78: leak: tensor [2, 2] float32"), "%s",
                       l.text);
    tn_release(y.as.tensor);
    tn_value_release(ctx, &parts); /* its tensors have kept the context */
}

/* A tensor keeps the context, but no call may be given it. */
Test(program, operators_of_a_destroyed_context_are_refused)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("handles", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_operator_info info = {.size = sizeof info};
    tn_tensor *kept = tn_retain(tn_ones(s, TN_INTS(2)));
    tn_value x = tn_value_tensor(kept), y;
    const uint32_t neg = tn_operator_find(ctx, "aten::neg");
    tn_error *error = NULL;
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_eq(tn_operator_find(ctx, "aten::neg"), 0);
    cr_assert_eq(tn_last_error()->code, TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_inspect_operator_count(ctx), 0);
    cr_assert_eq(tn_inspect_operator(ctx, 0, &info), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_call_operator(ctx, neg, &x, 1, &y, 1, &error), TN_E_DEAD_HANDLE);
    cr_assert_not_null(strstr(error->message, "context was released and is used again"), "%s",
                       error->message);
    tn_error_release(error);
    tn_release(kept);
}

/* A training step does not look like a leak. */
Test(program, gradients_are_not_leaks)
{
    lines l = {.count = 0};
    tn_context *ctx = watched("handles,leaks,nan", &l);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *w = tn_ones(s, TN_INTS(3, 3));
    tn_set_requires_grad(w, 1);
    tn_tensor *parts = tn_split(s, tn_mm(s, w, w), 2).data[0];
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_tanh(s, parts))), TN_OK);
    cr_assert_not_null(tn_grad_of(s, w));
    cr_assert_eq(tn_scope_close(s), TN_OK);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 0, "%s", l.text);
}

/* What runs in the child of a fork: 0, or the number of what went wrong. */
typedef int child_fn(tn_context *ctx, tn_scope *s, tn_tensor *x);

/* The child has the memory of its parent, but not its threads; the parent goes on. */
static void expect_of_child(child_fn *run)
{
    tn_context *ctx = NULL;
    unsetenv("TENON_DEBUG");
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    pid_t child = fork();
    if (!child) _exit(run(ctx, s, x));
    expect_success_of(child);
    cr_assert_eq(tn_item_double(s, tn_sum(s, tn_add(s, x, x))), 4);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

static int first_call_that_works_after_fork(tn_context *ctx, tn_scope *s, tn_tensor *x)
{
    tn_set_num_threads(ctx, 3);
    if (tn_last_error()->code != TN_E_FORKED) return 1;
    tn_clear_error();
    if (tn_device_count(ctx, "cpu") || tn_last_error()->code != TN_E_FORKED) return 2;
    tn_clear_error();
    if (tn_device_count(ctx, NULL) || tn_last_error()->code != TN_E_FORKED) return 3;
    if (tn_add(s, x, x) || tn_scope_failed(s) != TN_E_FORKED) return 4;
    if (!strstr(tn_scope_error(s)->message, "cannot be used after fork")) return 5;
    return tn_scope_close(s) == TN_E_FORKED ? 0 : 6;
}

Test(program, calls_are_refused_after_fork)
{
    expect_of_child(first_call_that_works_after_fork);
}

static tn_tensor *keep_gradient(void *user, tn_scope *s, tn_tensor *grad)
{
    (void)user, (void)s;
    return grad;
}

static int first_use_that_works_after_fork(tn_context *ctx, tn_scope *s, tn_tensor *x)
{
    (void)s;
    tn_value given = tn_value_tensor(x), out;
    const int64_t sizes[] = {2, 1};
    const tn_value args[] = {given, tn_value_ints(sizes, 2)};
    tn_error *error = NULL;
    uint64_t hook;
    if (tn_call_operator(ctx, TN_OP_VIEW, args, 2, &out, 1, &error) != TN_E_FORKED) return 1;
    if (error->code != TN_E_FORKED) return 2;
    if (tn_register_hook(x, keep_gradient, NULL, &hook) != TN_E_FORKED) return 3;
    if (tn_set_requires_grad(x, 0) != TN_E_FORKED) return 4;
    if (tn_set_grad(x, NULL) != TN_E_FORKED) return 5;
    if (tn_retain_grad(x) != TN_E_FORKED) return 6;
    tn_clear_error();
    tn_manual_seed(ctx, 3);
    if (tn_last_error()->code != TN_E_FORKED) return 7;

    /* A context of the child's own does not take the parent's tensors. */
    tn_context *own = NULL;
    if (tn_context_create(NULL, &own)) return 8;
    if (tn_call_operator(own, tn_operator_find(own, "aten::neg"), &given, 1, &out, 1, NULL) != TN_E_FORKED)
        return 9;
    if (!strstr(tn_last_error()->message, "neg(): argument 'self' (position 1): a tensor of a context that "))
        return 10;
    return strstr(tn_last_error()->message, "cannot be used after fork") ? 0 : 11;
}

Test(program, tensors_are_refused_after_fork)
{
    expect_of_child(first_use_that_works_after_fork);
}
