/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bad calls as a program makes them: each gives an error that names the operator, the argument, what came and
 * what was expected, changes nothing and leaves the context usable.
 */
#include <complex.h>
#undef complex /* a name like any other below */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>
#include <tenon/tenon.h>
#include "../core/at_end.h"

static tn_context *ctx;
static tn_scope *s;
static tn_tensor *x; /* 2 x 3, float32 */

static void open_with(uint32_t flags)
{
    tn_context_options options = {.size = sizeof options, .flags = flags};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
    s = tn_scope_open(ctx);
    x = tn_ones(s, TN_INTS(2, 3));
    cr_assert_not_null(x);
}

static void set_up(void)
{
    open_with(0);
}

/* Every test ends with a call that works. */
static void tear_down(void)
{
    MUST_HOLD(tn_item_double(s, tn_sum(s, x)) == 6);
    MUST_HOLD(tn_scope_failed(s) == TN_OK);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

TestSuite(call, .init = set_up, .fini = tear_down);

static void set_up_debug(void)
{
    open_with(TN_CONTEXT_DEBUG_HANDLES);
}

TestSuite(handles, .init = set_up_debug, .fini = tear_down);

static void expect_text(const tn_error *error, int32_t code, const char *part)
{
    cr_assert_not_null(error, "no error; expected: %s", part);
    cr_expect_eq(error->code, code, "%d: %s", error->code, error->message);
    cr_expect_not_null(strstr(error->message, part), "\"%s\" in \"%s\"", part, error->message);
}

static void expect_no_error(void)
{
    cr_expect_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_scope_clear(s);
}

static void expect_error(int32_t code, const char *part)
{
    expect_text(tn_scope_error(s), code, part);
    tn_scope_clear(s);
}

/* Makes a boxed call that must fail with this text. */
static void refuse(const char *op, const tn_value *args, uint32_t n_args, int32_t code, const char *part)
{
    tn_value out = tn_value_int(7);
    tn_error *error = NULL;
    uint32_t number = tn_operator_find(ctx, op);
    cr_assert_neq(number, 0, "%s", op);
    cr_expect_eq(tn_call_operator(ctx, number, args, n_args, &out, 1, &error), code, "%s", op);
    cr_expect_eq(out.tag, TN_TAG_NONE);
    expect_text(error, code, part);
    cr_expect_str_eq(error->op, op);
    tn_error_release(error);
}
#define REFUSE(op, code, part, ...)                                                                         \
    refuse(op, (const tn_value[]){__VA_ARGS__}, sizeof((const tn_value[]){__VA_ARGS__}) / sizeof(tn_value), \
           code, part)

static void keep_line(void *user, int32_t level, const char *text)
{
    snprintf(user, 256, "%d %s", level, text);
}

Test(call, a_mistyped_fallback_policy)
{
    char line[256] = "";
    const tn_context_options options = {.size = sizeof options, .log = keep_line, .log_user = line};
    tn_context *other;
    setenv("TENON_FALLBACK", "eror", 1);
    cr_expect_eq(tn_context_create(&options, &other), TN_E_ARGUMENT);
    const char *text = "TENON_FALLBACK is 'eror' (expected error, warn or silent)";
    expect_text(tn_last_error(), TN_E_ARGUMENT, text);
    cr_expect_str_eq(line + 2, text);
    setenv("TENON_FALLBACK", "silent", 1);
    cr_assert_eq(tn_context_create(&options, &other), TN_OK);
    tn_context_destroy(other);
}

/* Empty variables are as if they were not set. */
Test(call, settings_of_calls_that_are_empty)
{
    char line[256] = "";
    const tn_context_options options = {.size = sizeof options, .log = keep_line, .log_user = line};
    tn_context *other;
    setenv("TENON_FALLBACK", "", 1);
    setenv("TENON_BLOCKING", "", 1);
    setenv("TENON_TRACE", "", 1);
    cr_assert_eq(tn_context_create(&options, &other), TN_OK);
    tn_context_destroy(other);
    setenv("TENON_BLOCKING", "0", 1);
    cr_assert_eq(tn_context_create(&options, &other), TN_OK);
    tn_context_destroy(other);
    cr_expect_str_eq(line, "");
    setenv("TENON_BLOCKING", "2", 1);
    cr_expect_eq(tn_context_create(&options, &other), TN_E_ARGUMENT);
    expect_text(tn_last_error(), TN_E_ARGUMENT, "TENON_BLOCKING is '2' (expected 0 or 1)");
}

Test(call, arity)
{
    tn_value t = tn_value_tensor(x), one = tn_value_int(1);
    refuse("aten::relu", NULL, 0, TN_E_ARGUMENT, "relu() missing argument 'self' (position 1)");
    REFUSE("aten::add.Tensor", TN_E_ARGUMENT, "add() missing argument 'other' (position 2)", t);
    REFUSE("aten::relu", TN_E_ARGUMENT, "relu() takes 1 arguments but 2 were given", t, t);
    REFUSE("aten::add.Tensor", TN_E_ARGUMENT, "add() takes 3 arguments but 4 were given", t, t, one, one);
    /* The schema is quoted, so that a reader sees what belongs there. */
    REFUSE("aten::relu", TN_E_ARGUMENT, "relu(Tensor self) -> Tensor", t, t);
}

/* A number among the options sets the first member of a value only. Without a compiler that refuses it, the
   call does. The compiler is to see no constants here. */
Test(call, plain_number_as_an_option)
{
    static volatile const uint32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 20, UINT32_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        tn_add_args o = {.other = x, .alpha = TN_OPS_UNSET};
        o.alpha.tag = numbers[i];
        cr_expect_null(tn_add_with(s, x, &o));
        expect_error(TN_E_ARGUMENT, "argument 'alpha' (position 3) must be Scalar, not a plain number: write "
                                    "TN_SCALAR(x)");
        tn_clamp_args c = {.self = x, .min = TN_OPS_UNSET, .max = TN_OPS_UNSET};
        c.max.tag = numbers[i];
        cr_expect_null(tn_clamp_with(s, &c));
        expect_error(TN_E_ARGUMENT, "argument 'max' (position 3) must be Scalar?, not a plain number");
    }
}

/* Whatever is a number in C serves as a scalar and keeps its kind. */
Test(call, scalars_of_every_kind)
{
    const struct {
        tn_value value;
        tn_dtype dtype;
        double real, imaginary;
    } table[] = {
        {TN_SCALAR((unsigned char)7), TN_INT64, 7, 0}, {TN_SCALAR(-3LL), TN_INT64, -3, 0},
        {TN_SCALAR((_Bool)1), TN_BOOL, 1, 0},          {TN_SCALAR(0.5F), TN_FLOAT32, 0.5, 0},
        {TN_SCALAR(0.25L), TN_FLOAT32, 0.25, 0},       {TN_SCALAR(2 + 3 * _Complex_I), TN_COMPLEX64, 2, 3},
        {TN_SCALAR(TN_SCALAR(5)), TN_INT64, 5, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        tn_tensor *t = tn_full(s, TN_INTS(2), table[i].value);
        cr_assert_eq(tn_tensor_dtype(t), table[i].dtype, "%zu", i);
        t = tn_view_as_real(s, tn_to(s, t, TN_COMPLEX128));
        cr_expect_eq(tn_item_double(s, tn_select(s, tn_select(s, t, 0, 1), 0, 0)), table[i].real, "%zu", i);
        cr_expect_eq(tn_item_double(s, tn_select(s, tn_select(s, t, 0, 1), 0, 1)), table[i].imaginary, "%zu",
                     i);
    }
    double _Complex z = 1 - 2 * _Complex_I;
    tn_tensor *t = tn_add_scalar(s, tn_full(s, TN_INTS(1), z), z, .alpha = TN_SCALAR(2));
    cr_expect_eq(tn_item_double(s, tn_imag(s, t)), -6);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_add_scalar(s, x, 1))), 12);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_add_scalar(s, x, 2, .alpha = TN_SCALAR(0.5)))), 12);
}

Test(call, results)
{
    tn_value t = tn_value_tensor(x), dim = tn_value_int(0), out;
    const tn_value args[] = {t, dim};
    tn_error *error = NULL;
    uint32_t op = tn_operator_find(ctx, "aten::max.dim");
    cr_assert_eq(tn_call_operator(ctx, op, args, 2, &out, 1, &error), TN_E_ARGUMENT);
    expect_text(error, TN_E_ARGUMENT, "the operator has 2 results, but there is room for 1");
    tn_error_release(error);
    error = NULL;
    cr_assert_eq(tn_call_operator(ctx, 0, args, 2, &out, 1, &error), TN_E_NOT_FOUND);
    expect_text(error, TN_E_NOT_FOUND, "there is no operator with this number");
    tn_error_release(error);
    cr_assert_eq(tn_call_operator(ctx, 4000000000u, args, 2, &out, 1, NULL), TN_E_NOT_FOUND);
    cr_assert_eq(tn_call_operator(NULL, op, args, 2, &out, 1, NULL), TN_E_ARGUMENT);
    cr_assert_eq(tn_call_operator(ctx, op, NULL, 2, &out, 1, NULL), TN_E_ARGUMENT);
    cr_assert_str_eq(tn_last_error()->message, "tn_call_operator: args are NULL");
    cr_assert_eq(tn_call_operator(ctx, op, args, 2, NULL, 1, NULL), TN_E_ARGUMENT);
    cr_assert_eq(tn_operator_find(ctx, "aten::no_such"), 0);
    expect_text(tn_last_error(), TN_E_NOT_FOUND, "no operator \"aten::no_such\"");
    static const char *const letters[] = {"", "x"}; /* similar to nothing */
    for (int i = 0; i < 2; i++) {
        char text[32];
        snprintf(text, sizeof text, "no operator \"%s\"", letters[i]);
        cr_assert_eq(tn_operator_find(ctx, letters[i]), 0);
        expect_text(tn_last_error(), TN_E_NOT_FOUND, text);
        cr_assert_null(strstr(tn_last_error()->message, "did you mean"), "%s", tn_last_error()->message);
    }
    cr_assert_eq(tn_operator_find(ctx, NULL), 0);
    expect_text(tn_last_error(), TN_E_ARGUMENT, "tn_operator_find: name is NULL");
    static const struct {
        const char *wish, *similar;
    } guesses[] = {{"tn_to_dtype", "did you mean aten::to.dtype"},
                   {"tn_set__source_tensor", "did you mean aten::set_.source_Tensor"},
                   {"aten::add", "did you mean aten::add.Tensor"},
                   {"aten::sofmax.int", "aten::softmax.int"},
                   {"layernorm", "aten::layer_norm"},
                   {"tn_sum_dm", "aten::sum.dim_IntList"}};
    for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++) {
        cr_assert_eq(tn_operator_find(ctx, guesses[i].wish), 0);
        expect_text(tn_last_error(), TN_E_NOT_FOUND, guesses[i].similar);
    }
    cr_assert_eq(tn_operator_find(ctx, "aten::nothing_at_all_like_it"), 0);
    cr_assert_null(strstr(tn_last_error()->message, "did you mean"), "%s", tn_last_error()->message);
    char long_name[400];
    memset(long_name, 'a', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    cr_assert_eq(tn_operator_find(ctx, long_name), 0);
    cr_assert_null(strstr(tn_last_error()->message, "did you mean"), "%s", tn_last_error()->message);
    cr_assert_eq(tn_operator_find(ctx, "a:softmax"), 0); /* one colon ends no namespace */
    cr_assert_null(strstr(tn_last_error()->message, "aten::softmin"), "%s", tn_last_error()->message);
    cr_assert_eq(tn_operator_find(ctx, NULL), 0);
}

/* A complex result has memory of its own: the scope's, or the caller's to release. */
Test(call, complex_results)
{
    tn_tensor *z = tn_full(s, TN_NO_INTS, 0, .dtype = TN_COMPLEX128);
    tn_value arg = tn_value_tensor(tn_add_scalar(s, z, tn_value_complex((const double[]){1.5, -2}))), out,
             more;
    cr_assert_eq(tn_scope_call(s, tn_operator_find(ctx, "aten::item"), &arg, 1, &out, 1), TN_OK);
    cr_assert_eq(tn_call_operator(ctx, tn_operator_find(ctx, "aten::item"), &arg, 1, &more, 1, NULL), TN_OK);
    for (int i = 0; i < 50; i++) tn_ones(s, TN_INTS(3)); /* what was freed would be given out again */
    cr_expect_eq(out.tag, TN_TAG_COMPLEX);
    cr_expect(out.as.floats[0] == 1.5 && out.as.floats[1] == -2);
    cr_expect(more.as.floats[0] == 1.5 && more.as.floats[1] == -2);
    tn_value_release(ctx, &more);
    cr_expect_eq(more.tag, TN_TAG_NONE);
}

Test(call, tags)
{
    const double pair[] = {1, 2};
    const int64_t ints[] = {0};
    tn_value t = tn_value_tensor(x), text = tn_value_string("a"), number = tn_value_float(1.5);
    tn_value unknown = tn_value_make(99, 0), complex = tn_value_complex(pair), list = tn_value_ints(ints, 1);
    REFUSE("aten::relu", TN_E_ARGUMENT, "relu(): argument 'self' (position 1) must be Tensor, not str", text);
    REFUSE("aten::relu", TN_E_ARGUMENT, "must be Tensor, not int[]", list);
    REFUSE("aten::relu", TN_E_ARGUMENT, "must be Tensor, not an unknown tag", unknown);
    REFUSE("aten::select.int", TN_E_ARGUMENT, "select(): argument 'dim' (position 2) must be int, not float",
           t, number, tn_value_int(0));
    REFUSE("aten::select.int", TN_E_ARGUMENT, "argument 'index' (position 3) must be SymInt, not Tensor", t,
           tn_value_int(0), t);
    REFUSE("aten::sum.dim_IntList", TN_E_ARGUMENT, "argument 'dim' (position 2) must be int[]?, not str", t,
           text);
    REFUSE("aten::sum.dim_IntList", TN_E_ARGUMENT,
           "argument 'keepdim' (position 3) must be bool, not complex", t, list, complex);
    REFUSE("aten::add.Tensor", TN_E_ARGUMENT, "argument 'alpha' (position 3) must be Scalar, not str", t, t,
           text);
    REFUSE("aten::cat", TN_E_ARGUMENT, "cat(): argument 'tensors' (position 1) must be Tensor[], not Tensor",
           t);
    REFUSE("aten::to.dtype", TN_E_ARGUMENT, "argument 'dtype' (position 2) must be ScalarType, not int", t,
           tn_value_int(6));
    REFUSE("aten::div.Tensor_mode", TN_E_ARGUMENT, "argument 'rounding_mode'", t, t, tn_value_int(1));
}

Test(call, null)
{
    tn_value t = tn_value_tensor(x), none = tn_value_none();
    tn_tensor *const holes[] = {x, NULL};
    REFUSE("aten::add.Tensor", TN_E_ARGUMENT, "add(): argument 'other' (position 2) must be Tensor, not None",
           t, none);
    REFUSE("aten::cat", TN_E_ARGUMENT, "cat(): argument 'tensors': item 1 is None",
           tn_value_tensors(holes, 2));
    REFUSE("aten::select.int", TN_E_ARGUMENT, "argument 'dim' (position 2) must be int, not None", t, none,
           none);
    cr_assert_null(tn_mul(s, x, NULL));
    expect_error(TN_E_ARGUMENT, "mul(): argument 'other' (position 2) must be Tensor, not None");
    cr_assert_null(tn_linear(s, NULL, x));
    expect_error(TN_E_ARGUMENT, "linear(): argument 'input' (position 1)");
    /* Where the schema says Tensor? it is legal. */
    cr_assert_not_null(tn_linear(s, x, x, .bias = NULL));
}

Test(call, a_failed_scope_does_nothing)
{
    tn_add(s, x, NULL);
    cr_assert_null(tn_add(s, x, x));
    cr_assert_null(tn_mul(s, tn_add(s, x, x), x));
    /* The first error stays. */
    expect_error(TN_E_ARGUMENT, "add(): argument 'other'");
}

Test(call, dtypes)
{
    tn_tensor *i = tn_ones(s, TN_INTS(2, 3), .dtype = TN_INT64),
              *d = tn_ones(s, TN_INTS(3, 2), .dtype = TN_FLOAT64);
    tn_add_(s, i, x);
    expect_error(TN_E_DTYPE, "result type Float can't be cast to the desired output type Long");
    tn_mm(s, x, d);
    expect_error(TN_E_DTYPE, "mm");
    tn_gather(s, x, 0, x);
    expect_error(TN_E_DTYPE, "gather(): Expected dtype int32/int64 for index");
    tn_bitwise_and(s, x, x);
    expect_error(TN_E_UNSUPPORTED, "bitwise_and");
    tn_embedding(s, x, x);
    expect_error(TN_E_DTYPE, "embedding");
    tn_masked_fill_scalar(s, x, i, 1);
    expect_error(TN_E_DTYPE, "masked_fill");
    tn_mean(s, i);
    expect_error(TN_E_DTYPE, "mean");
    cr_assert_eq(tn_item_int(s, tn_sum(s, i)), 6);
}

Test(call, shapes)
{
    tn_mm(s, x, x);
    expect_error(TN_E_SHAPE, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)");
    tn_view(s, x, TN_INTS(4));
    expect_error(TN_E_SHAPE, "shape '[4]' is invalid for input of size 6");
    tn_add(s, x, tn_ones(s, TN_INTS(2, 2)));
    expect_error(TN_E_SHAPE,
                 "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1");
    tn_select(s, x, 2, 0);
    expect_error(TN_E_INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    tn_select(s, x, 0, 2);
    expect_error(TN_E_INDEX, "index 2 out of range for tensor of size [2, 3] at dimension 0");
    tn_cat(s, TN_TENSORS(x, tn_ones(s, TN_INTS(2, 4))), .dim = 0);
    expect_error(TN_E_SHAPE, "Sizes of tensors must match except in dimension 0");
    tn_conv2d(s, x, x);
    expect_error(TN_E_SHAPE, "conv2d");
    tn_reshape(s, x, TN_INTS(-1, -1));
    expect_error(TN_E_SHAPE, "only one dimension can be inferred");
    tn_permute(s, x, TN_INTS(0, 0));
    expect_error(TN_E_SHAPE, "permute(): duplicate dims are not allowed");
    tn_ones(s, TN_INTS(-1));
    expect_error(TN_E_SHAPE, "negative dimension");
}

Test(call, a_refused_write_changes_nothing)
{
    uint64_t version = tn_tensor_version(x);
    tn_add_(s, x, tn_ones(s, TN_INTS(4, 2, 3)));
    cr_expect_eq(tn_scope_failed(s), TN_E_SHAPE);
    tn_scope_clear(s);
    tn_mul_(s, x, tn_ones(s, TN_INTS(2, 3), .dtype = TN_COMPLEX64));
    cr_expect_eq(tn_scope_failed(s), TN_E_DTYPE);
    tn_scope_clear(s);
    cr_expect_eq(tn_tensor_version(x), version);
    cr_expect(tn_tensor_rank(x) == 2 && tn_tensor_size(x, 0) == 2 && tn_tensor_size(x, 1) == 3);
    tn_tensor *shared = tn_expand(s, tn_ones(s, TN_INTS(1)), TN_INTS(4));
    tn_add_(s, shared, tn_ones(s, TN_INTS(4)));
    expect_error(TN_E_ARGUMENT,
                 "more than one element of the written-to tensor refers to a single memory location");
}

Test(call, devices)
{
    tn_device device = tn_device_parse(ctx, "reference:0");
    if (!device) cr_skip("skipped: no device reference:0");
    tn_tensor *far = tn_ones(s, TN_INTS(2, 3), .device = device);
    tn_add(s, x, far);
    expect_error(TN_E_DEVICE,
                 "Expected all tensors to be on the same device, but found at least two devices");
    tn_mm(s, far, tn_t(s, x));
    expect_error(TN_E_DEVICE, "cpu");
    tn_cat(s, TN_TENSORS(x, far));
    expect_error(TN_E_DEVICE, "reference:0");
    tn_gather(s, far, 0, tn_zeros(s, TN_INTS(1, 3), .dtype = TN_INT64));
    expect_error(TN_E_DEVICE, "reference:0");
    tn_copy_(s, far, x); /* the one operator that may */
    cr_assert_eq(tn_scope_failed(s), TN_OK);
}

Test(call, unknown_devices)
{
    cr_assert(tn_device_parse(ctx, "cpu:x") & TN_DEVICE_MISSING);
    expect_text(tn_last_error(), TN_E_DEVICE, "cpu:x");
    cr_assert(tn_device_parse(ctx, "") & TN_DEVICE_MISSING);
    cr_assert(tn_device_parse(ctx, NULL) & TN_DEVICE_MISSING);
    tn_ones(s, TN_INTS(1), .device = tn_device_parse(ctx, "nothing:0"));
    expect_error(TN_E_DEVICE, "nothing");
    tn_ones(s, TN_INTS(1), .device = TN_DEVICE(TN_INTERNED_CPU, 77));
    expect_error(TN_E_DEVICE, "77");
    tn_ones(s, TN_INTS(1), .device = TN_DEVICE(4000, 0));
    cr_assert_neq(tn_scope_failed(s), TN_OK);
    tn_scope_clear(s);
}

Test(call, layouts)
{
    tn_ones(s, TN_INTS(1), .layout = tn_intern(ctx, "sparse_coo"));
    expect_error(TN_E_UNSUPPORTED, "layout sparse_coo is not supported");
    tn_ones(s, TN_INTS(1), .layout = 7777);
    expect_error(TN_E_UNSUPPORTED, "layout unknown is not supported");
}

/* ---- Handles ------------------------------------------------------------------------------------------- */

Test(handles, released_tensors)
{
    tn_tensor *y = tn_ones(s, TN_INTS(4, 5));
    tn_drop(s, y);
    cr_assert_null(tn_cat(s, TN_TENSORS(y, x)));
    expect_error(TN_E_DEAD_HANDLE, "cat(): argument 'tensors' (position 1): ");
    cr_assert_null(tn_add(s, x, y));
    expect_error(TN_E_DEAD_HANDLE, "add(): argument 'other' (position 2): tensor");
    cr_assert_null(tn_cat(s, TN_TENSORS(x, y)));
    expect_error(TN_E_DEAD_HANDLE, "of sizes [4, 5] and dtype float32 was released and is used again");
    tn_format(s, y, NULL);
    expect_error(TN_E_DEAD_HANDLE, "was released");
    tn_release(y); /* once more: nothing happens */
}

Test(handles, a_released_generator)
{
    tn_generator *g;
    cr_assert_eq(tn_generator_create(ctx, 1, &g), TN_OK);
    cr_assert_not_null(tn_rand_generator(s, TN_INTS(2), g));
    tn_generator_release(g);
    cr_assert_null(tn_rand_generator(s, TN_INTS(2), g));
    expect_error(TN_E_DEAD_HANDLE,
                 "rand(): argument 'generator' (position 2): generator was released and is used again");
    cr_assert_null(tn_bernoulli(s, x, .generator = g));
    expect_error(TN_E_DEAD_HANDLE, "bernoulli(): argument 'generator'");
}

Test(handles, a_closed_scope)
{
    tn_scope *closed = tn_scope_open(ctx);
    tn_scope_close(closed);
    cr_assert_null(tn_relu(closed, x));
    cr_assert_eq(tn_scope_failed(closed), TN_E_DEAD_HANDLE);
    expect_text(tn_scope_error(closed), TN_E_DEAD_HANDLE, "was closed and is used again");
    cr_assert_null(tn_ones(closed, TN_INTS(1)));
    cr_assert_null(tn_scope_open_child(closed, NULL));
    cr_assert_null(tn_scope_memory(closed, 8));
    cr_assert_str_eq(tn_format(closed, x, NULL), "");
    cr_assert_eq(tn_backward(closed, x), TN_E_DEAD_HANDLE);
    cr_assert_null(tn_index(closed, x, TN_AT(0)));
    cr_assert_eq(tn_scope_close(closed), TN_E_DEAD_HANDLE);
}

static void *use_scope(void *unused)
{
    (void)unused;
    double item;
    cr_expect_null(tn_relu(s, x));
    cr_expect_eq(tn_scope_failed(s), TN_E_STATE);
    expect_text(tn_scope_error(s), TN_E_STATE, "belongs to the thread that opened it");
    item = tn_item_double(s, x);
    cr_expect(item != item || item == 0);
    cr_expect_eq(tn_scope_close(s), TN_E_STATE);
    /* A scope of its own may use the same tensor. */
    tn_scope *own = tn_scope_open(ctx);
    cr_expect_eq(tn_item_double(own, tn_sum(own, x)), 6);
    tn_scope_close(own);
    return NULL;
}

Test(handles, the_scope_of_another_thread)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, use_scope, NULL), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(tn_scope_failed(s), TN_OK);
}

Test(handles, released_streams)
{
    tn_device device = tn_device_parse(ctx, "reference:0");
    tn_stream *stream = NULL;
    tn_event *event = NULL;
    if (!device) cr_skip("skipped: no device reference:0");
    tn_tensor *far = tn_ones(s, TN_INTS(2), .device = device);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &stream), TN_OK);
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    tn_stream_release(stream);
    const int32_t refusals[] = {tn_stream_set_current(ctx, stream),
                                tn_stream_synchronize(stream),
                                -tn_stream_query(stream),
                                tn_stream_wait_stream(stream, tn_stream_default(ctx, device)),
                                tn_stream_wait_event(stream, event),
                                tn_event_record(event, stream),
                                tn_record_stream(far, stream)};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        cr_expect_eq(refusals[i], TN_E_DEAD_HANDLE, "%zu: %d", i, refusals[i]);
    expect_text(tn_last_error(), TN_E_DEAD_HANDLE, "the stream was released and is used again");
    tn_stream_release(stream);
    tn_event_release(event);
}

Test(call, missing_handles)
{
    cr_assert_null(tn_relu(NULL, x));
    expect_text(tn_last_error(), TN_E_STATE, "a scope is missing");
    cr_assert_eq(tn_scope_failed(NULL), TN_E_STATE);
    cr_assert_not_null(tn_scope_error(NULL));
    cr_assert_null(tn_scope_open_child(NULL, NULL));
    cr_assert_eq(tn_scope_close(NULL), TN_OK);
    cr_assert_eq(tn_stream_synchronize(NULL), TN_E_ARGUMENT);
    cr_assert_eq(tn_event_record(NULL, NULL), TN_E_ARGUMENT);
    cr_assert_eq(tn_record_stream(x, NULL), TN_E_ARGUMENT);
    tn_release(NULL);
    tn_stream_release(NULL);
    tn_event_release(NULL);
    tn_item_double(s, NULL);
    expect_error(TN_E_ARGUMENT, "a tensor is missing");
    tn_format(s, NULL, NULL);
    expect_error(TN_E_ARGUMENT, "a tensor is missing");
    tn_backward(s, NULL);
    cr_assert_neq(tn_scope_failed(s), TN_OK);
    tn_scope_clear(s);
    tn_index(s, NULL, TN_AT(0));
    cr_assert_neq(tn_scope_failed(s), TN_OK);
    tn_scope_clear(s);
}

/* ---- Entry points ---------------------------------------------------------------------------------------- */

typedef int32_t entry_point(uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                            uint32_t n_outs);

static int32_t by_scope(uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs, uint32_t n_outs)
{
    return tn_scope_call(s, op, args, n_args, outs, n_outs);
}

static int32_t by_place(uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs, uint32_t n_outs)
{
    return tn_scope_call_placed(s, op, args, n_args, outs, n_outs);
}

static int32_t boxed(uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs, uint32_t n_outs)
{
    tn_error *error = NULL;
    int32_t status = tn_call_operator(ctx, op, args, n_args, outs, n_outs, &error);
    if (status) tn_scope_fail(s, status, error->message);
    tn_error_release(error);
    return status;
}

/* As a composite calls an operator. */
static uint32_t inner_op, inner_outs;
static const tn_value *inner_args;
static uint32_t inner_n_args;

static int32_t call_inner(void *self, const tn_call *call)
{
    tn_value outs[4];
    tn_scope *own = call->host->call_scope(call);
    if (call->host->scope_call(own, inner_op, inner_args, inner_n_args, outs, inner_outs)) return TN_OK;
    return call->host->set_output(call, 0, tn_value_as_tensor(outs[0]));
}

static int32_t by_composite(uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                            uint32_t n_outs)
{
    static uint32_t number;
    const tn_operator_def def = {
        .size = sizeof def, .schema = "test::calls() -> Tensor", .composite = call_inner};
    if (!number) cr_assert_eq(tn_operator_define(ctx, &def, &number), TN_OK);
    inner_op = op;
    inner_args = args;
    inner_n_args = n_args;
    inner_outs = n_outs;
    for (uint32_t i = 1; i < n_outs; i++) outs[i] = tn_value_none();
    return tn_scope_call(s, number, NULL, 0, outs, 1);
}

static entry_point *const entry_points[] = {by_scope, by_place, boxed, by_composite};

/* However a call is made: the same checks, the same errors, and what there is no result for becomes NONE. */
Test(handles, of_every_entry_point)
{
    tn_tensor *y = tn_ones(s, TN_INTS(4, 5));
    tn_drop(s, y);
    tn_tensor *const list[] = {NULL, x}, *const dead[] = {NULL, y};
    uint32_t index = tn_operator_find(ctx, "aten::index.Tensor");
    for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; i++) {
        tn_value outs[4], one = tn_value_tensor(x), gone = tn_value_tensor(y);
        for (int k = 0; k < 4; k++) outs[k] = tn_value_int(7);
        cr_expect_eq(entry_points[i](TN_OP_RELU, &one, 1, outs, 4), TN_OK, "%zu", i);
        cr_expect_eq(tn_tensor_numel(outs[0].as.tensor), 6);
        for (int k = 1; k < 4; k++) cr_expect_eq(outs[k].tag, TN_TAG_NONE, "%zu: %d", i, k);
        if (entry_points[i] == boxed) tn_value_release(ctx, &outs[0]);
        cr_expect_eq(entry_points[i](TN_OP_RELU, &gone, 1, outs, 1), TN_E_DEAD_HANDLE, "%zu", i);
        cr_expect_eq(outs[0].tag, TN_TAG_NONE);
        expect_error(TN_E_DEAD_HANDLE, "of sizes [4, 5] and dtype float32 was released and is used again");
        const tn_value items[] = {one, tn_value_tensors(dead, 2)};
        cr_expect_eq(entry_points[i](index, items, 2, outs, 1), TN_E_DEAD_HANDLE, "%zu", i);
        expect_error(TN_E_DEAD_HANDLE, "was released and is used again");
        const tn_value floats[] = {one, tn_value_tensors(list, 2)};
        cr_expect_neq(entry_points[i](index, floats, 2, outs, 1), TN_OK, "%zu", i);
        expect_error(TN_E_DTYPE, "tensors used as indices must be long");
        cr_expect_eq(entry_points[i](4000000, &one, 1, outs, 1), TN_E_NOT_FOUND, "%zu", i);
        expect_error(TN_E_NOT_FOUND, "there is no operator with this number");
    }
}

/* An operator without results, called without arguments. */
static int32_t nothing_runs;

static int32_t count_a_run(void *self, const tn_call *call)
{
    nothing_runs++;
    return TN_OK;
}

Test(call, an_operator_without_arguments_and_results)
{
    const char *schema = "test::tick() -> ()";
    uint32_t op;
    tn_error *error = NULL;
    const tn_operator_def def = {.size = sizeof def, .schema = schema, .composite = count_a_run};
    cr_assert_eq(tn_operator_define(ctx, &def, &op), TN_OK);
    cr_expect_eq(tn_call_operator(ctx, op, NULL, 0, NULL, 0, &error), TN_OK);
    cr_expect_eq(tn_scope_call(s, op, NULL, 0, NULL, 0), TN_OK);
    cr_expect_eq(nothing_runs, 2);
    cr_expect_eq(tn_call_operator(ctx, op, NULL, 0, NULL, 2, &error), TN_E_ARGUMENT);
    expect_text(error, TN_E_ARGUMENT, "tn_call_operator: outs are NULL");
    tn_error_release(error);
}

/* Scalars in the place of tensors, more than the fast path takes, and on operators without one. */
Test(call, scalars_in_the_place_of_tensors)
{
    tn_value two = tn_value_float(2), t = tn_value_tensor(x), out;
    uint32_t lerp = tn_operator_find(ctx, "aten::lerp.Tensor");
    cr_assert_eq(tn_scope_call(s, lerp, (tn_value[]){t, two, two}, 3, &out, 1), TN_OK);
    cr_expect_eq(tn_item_double(s, tn_sum(s, out.as.tensor)), 18); /* 1 + 2 (2 - 1) */
    cr_assert_eq(tn_scope_call(s, lerp, (tn_value[]){two, two, two}, 3, &out, 1), TN_OK);
    cr_expect_eq(tn_item_double(s, out.as.tensor), 2);
    cr_assert_eq(tn_scope_call(s, TN_OP_MM, (tn_value[]){t, two}, 2, &out, 1), TN_E_SHAPE);
    tn_scope_clear(s);
}

/* ---- Required lists ---- */

/* The list {NULL, 0} is absent where the schema allows that; a list that is required is empty. */
Test(call, lists_without_items)
{
    tn_tensor *scalar = tn_full(s, TN_NO_INTS, 3), *sum;
    const tn_ints no_ints = {NULL, 0};
    cr_expect_eq(tn_tensor_rank(tn_permute(s, scalar, no_ints)), 0);
    expect_no_error();
    cr_expect_eq(tn_tensor_rank(tn_ones(s, no_ints)), 0);
    expect_no_error();
    cr_expect_null(tn_cat(s, (tn_tensors){NULL, 0}));
    expect_error(TN_E_ARGUMENT, "expected a non-empty list of Tensors");
    /* dim=None reduces all dimensions, and so does dim=[]; a mean over dim=[] likewise. */
    sum = tn_sum_dim(s, x, no_ints);
    cr_expect_eq(tn_item_double(s, sum), 6);
    cr_expect_eq(tn_item_double(s, tn_sum_dim(s, x, TN_NO_INTS)), 6);
    /* Of flip an empty list of dimensions is given, and no dimension is flipped. */
    tn_tensor *row = tn_arange(s, 3);
    cr_expect_eq(tn_item_int(s, tn_select(s, tn_flip(s, row, no_ints), 0, 0)), 0);
    expect_no_error();
}

static void expect_no_items(const tn_tensor *result, const char *argument, int count)
{
    char text[200];
    snprintf(text, sizeof text, "%s: a list that points to NULL has no items (got %d)", argument, count);
    cr_expect_null(result);
    expect_error(TN_E_ARGUMENT, text);
}

/* In C++ the first integer of {0, 1} is a null pointer. Lists may be required, optional, or have a default. */
Test(call, items_of_lists_that_point_to_null)
{
    const tn_ints ints = {NULL, 1};
    expect_no_items(tn_permute(s, x, ints), "permute(): argument 'dims' (position 2)", 1);
    expect_no_items(tn_flip(s, x, ints), "flip(): argument 'dims' (position 2)", 1);
    expect_no_items(tn_block_diag(s, (tn_tensors){NULL, 2}), "block_diag(): argument 'tensors' (position 1)",
                    2);
    expect_no_items(tn_sum_dim(s, x, ints), "sum(): argument 'dim' (position 2)", 1);
    expect_no_items(tn_logsumexp(s, x, ints), "logsumexp(): argument 'dim' (position 2)", 1);
    expect_no_items(tn_var_correction(s, x, .dim = ints), "var(): argument 'dim' (position 2)", 1);
    expect_no_items(tn_roll(s, x, TN_INTS(1), .dims = ints), "roll(): argument 'dims' (position 3)", 1);
}

/* ---- Values that a program made by hand, or that are another context's ---- */

static tn_value pointing(uint32_t tag, uint32_t count, void *pointer)
{
    tn_value v = {.tag = tag, .count = count};
    v.as.pointer = pointer;
    return v;
}

Test(call, values_that_point_to_null)
{
    static const char null[] = "a value that points to NULL";
    char text[160];
    const tn_value t = tn_value_tensor(x), none = pointing(TN_TAG_TENSOR, 0, NULL);
    const tn_value sum[] = {t, none, tn_value_int(1)};
    snprintf(text, sizeof text, "add(): argument 'other' (position 2): %s", null);
    refuse("aten::add.Tensor", sum, 3, TN_E_ARGUMENT, text);
    refuse("aten::add.Tensor", sum, 2, TN_E_ARGUMENT, text);
    const tn_value list[] = {pointing(TN_TAG_TENSORS, 2, NULL), tn_value_int(0)};
    refuse("aten::cat", list, 2, TN_E_ARGUMENT, null);
    const tn_value indexed[] = {t, pointing(TN_TAG_TENSORS, 1, NULL)};
    refuse("aten::index.Tensor", indexed, 2, TN_E_ARGUMENT, null);
    const tn_value smooth[] = {t, pointing(TN_TAG_STRING, 4, NULL)};
    refuse("aten::gelu", smooth, 2, TN_E_ARGUMENT, null);
    const tn_value product[] = {t, pointing(TN_TAG_COMPLEX, 0, NULL)};
    refuse("aten::mul.Scalar", product, 2, TN_E_ARGUMENT, null);
    const tn_value drawn[] = {t, pointing(TN_TAG_GENERATOR, 0, NULL)};
    refuse("aten::bernoulli", drawn, 2, TN_E_ARGUMENT, null);
}

/* Numbers that stand for nothing, and numbers that would stand for something in 32 bits. */
Test(call, numbers_that_are_not_dtypes)
{
    const struct {
        const char *op;
        uint32_t tag;
        int64_t number;
        int32_t code;
        const char *text;
    } rows[] = {
        {"aten::sum", TN_TAG_DTYPE, 5, TN_E_DTYPE,
         "sum(): argument 'dtype' (position 2): 0x5 is not a dtype"},
        {"aten::sum", TN_TAG_DTYPE, -1, TN_E_DTYPE, "0xffffffffffffffff is not a dtype"},
        {"aten::sum", TN_TAG_DTYPE, (int64_t)1 << 40, TN_E_DTYPE, "0x10000000000 is not a dtype"},
        {"aten::sum", TN_TAG_DTYPE, ((int64_t)1 << 32) + TN_FLOAT64, TN_E_DTYPE, "is not a dtype"},
        {"aten::clone", TN_TAG_MEMORY_FORMAT, (int64_t)1 << 32, TN_E_ARGUMENT, "is not a memory format"},
        {"aten::clone", TN_TAG_MEMORY_FORMAT, 9, TN_E_ARGUMENT, "unsupported memory format 9"}};
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_value v = tn_value_make(rows[i].tag, 0);
        v.as.i = rows[i].number;
        refuse(rows[i].op, (const tn_value[]){tn_value_tensor(x), v}, 2, rows[i].code, rows[i].text);
    }
    const int64_t two = 2;
    tn_value layout = tn_value_make(TN_TAG_LAYOUT, 0);
    layout.as.i = (int64_t)1 << 32;
    REFUSE("aten::zeros", TN_E_ARGUMENT,
           "zeros(): argument 'layout' (position 3): 0x100000000 is not a layout", tn_value_ints(&two, 1),
           tn_value_none(), layout);
}

Test(call, what_is_another_contexts)
{
    tn_context *other = NULL;
    tn_generator *theirs = NULL;
    cr_assert_eq(tn_context_create(NULL, &other), TN_OK);
    cr_assert_eq(tn_generator_create(other, 1, &theirs), TN_OK);
    tn_scope *there = tn_scope_open(other);
    const tn_value drawn[] = {tn_value_tensor(x), tn_value_generator(theirs)};
    refuse("aten::bernoulli", drawn, 2, TN_E_ARGUMENT,
           "bernoulli(): argument 'generator' (position 2): a generator of another context");
    const tn_value sum[] = {tn_value_tensor(x), tn_value_tensor(tn_ones(there, TN_INTS(2, 3))),
                            tn_value_int(1)};
    refuse("aten::add.Tensor", sum, 3, TN_E_ARGUMENT,
           "add(): argument 'other' (position 2): a tensor of another context");
    tn_scope_close(there);
    tn_generator_release(theirs);
    tn_context_destroy(other);
}
