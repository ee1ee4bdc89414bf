/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where results go: tensors that are given for them, with other sizes, strides, dtypes and devices than the result, and
 * arguments that a kernel writes besides its result.
 */
#include <math.h>
#include <tenon/plugin.h>
#include "../plugins/slots.h"
#include "support.h"

TestSuite(outputs, .init = open_context, .fini = close_context);

static void expect_sum(tn_tensor *t, double expected)
{
    cr_assert_not_null(t, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "no tensor");
    double sum = tn_item_double(s, tn_sum(s, tn__to_copy(s, t, .dtype = TN_FLOAT64, .device = TN_CPU)));
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect_eq(sum, expected, "%g", sum);
}

static void expect_strides(const tn_tensor *t, int64_t first, int64_t second)
{
    cr_expect_eq(tn_tensor_strides(t)[0], first, "%lld", (long long)tn_tensor_strides(t)[0]);
    cr_expect_eq(tn_tensor_strides(t)[1], second, "%lld", (long long)tn_tensor_strides(t)[1]);
}

static double element(tn_tensor *t, int64_t row, int64_t column)
{
    return tn_item_double(s, tn_select(s, tn_select(s, t, 0, row), 0, column));
}

static tn_tensor *rows_of(int64_t rows, int64_t columns)
{
    return tn_reshape(s, tn_arange(s, rows * columns, .dtype = TN_FLOAT32), TN_INTS(rows, columns));
}

/* ---- Given tensors ---- */

Test(outputs, of_another_device)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    tn_add_out(s, x, x, tn_empty(s, TN_INTS(2), .device = tn_device_parse(ctx, "meta")));
    expect_failure(TN_E_DEVICE, "add: Expected out tensor to have device cpu, but got meta instead");
    tn_cat_out(s, TN_TENSORS(x, x), tn_empty(s, TN_INTS(4), .device = tn_device_parse(ctx, "reference:0")));
    expect_failure(TN_E_DEVICE, "cat: Expected out tensor to have device cpu, but got reference:0 instead");
}

/* A given tensor of another size gets the strides that a new result would have. */
Test(outputs, that_grow)
{
    tn_tensor *x = tn_t(s, rows_of(3, 4)), *narrow = tn_ones(s, TN_INTS(4, 1));
    tn_tensor *out = tn_empty(s, TN_INTS(0));
    cr_assert_not_null(tn_add_out(s, x, narrow, out));
    expect_sum(out, 66 + 12);
    expect_strides(out, 1, 4);
    tn_tensor *large = tn_empty(s, TN_INTS(100));
    cr_assert_not_null(tn_add_out(s, rows_of(2, 3), tn_ones(s, TN_INTS(3)), large));
    expect_sum(large, 15 + 6);
    expect_strides(large, 3, 1);
    tn_tensor *small = tn_slice(s, tn_zeros(s, TN_INTS(8)), .start = 4); /* its storage has room for 8 */
    cr_assert_not_null(tn_add_out(s, rows_of(3, 3), rows_of(3, 3), small));
    expect_sum(small, 72);
}

Test(outputs, of_another_dtype)
{
    tn_tensor *x = rows_of(2, 2), *whole = tn_empty(s, TN_INTS(2, 2), .dtype = TN_INT32);
    tn_add_out(s, x, x, whole);
    expect_failure(TN_E_DTYPE, "result type Float can't be cast to the desired output type Int");
    tn_tensor *wide = tn_empty(s, TN_INTS(2, 2), .dtype = TN_FLOAT64);
    cr_assert_not_null(tn_cat_out(s, TN_TENSORS(x), wide));
    expect_sum(wide, 0 + 1 + 2 + 3);
    tn_mm_out(s, x, x, wide); /* ATen casts for some operators, not for others */
    expect_failure(TN_E_DTYPE, "Expected out tensor to have dtype float, but got double instead");
}

/* In-place forms never grow. */
Test(outputs, that_may_not_grow)
{
    tn_add_(s, tn_ones(s, TN_INTS(2)), tn_ones(s, TN_INTS(3, 2)));
    expect_failure(TN_E_SHAPE, "output with shape [2] doesn't match the broadcast shape [3, 2]");
}

/* Matrices of a decomposition are column-major, whatever the strides of the given tensors are. */
Test(outputs, whose_rule_gives_strides)
{
    tn_tensor *a = tn_from_data(s, TN_FLOAT64, TN_INTS(2, 2), (double[]){3, 1, 4, 2}, TN_CPU);
    for (int turned = 0; turned < 2; turned++) {
        tn_tensor *q = tn_empty(s, TN_INTS(2, 2), .dtype = TN_FLOAT64);
        tn_tensor *r = tn_empty(s, TN_INTS(2, 2), .dtype = TN_FLOAT64);
        if (turned) q = tn_t(s, q), r = tn_t(s, r);
        tn_linalg_qr_result result = tn_linalg_qr_out(s, a, q, r);
        cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
        cr_expect(result.Q == q && result.R == r);
        tn_tensor *product = tn_mm(s, q, r);
        cr_expect_float_eq(tn_item_double(s, tn_sum(s, tn_abs(s, tn_sub(s, product, a)))), 0, 1e-12);
        cr_expect_float_eq(fabs(element(r, 0, 0)), 5, 1e-12); /* the norm of (3, 4) */
        expect_strides(q, turned ? 1 : 2, turned ? 2 : 1);
    }
}

/* Results of different sizes cannot both be in one tensor. */
Test(outputs, of_two_results_in_one_memory)
{
    static const char shared[] = "the tensors that are given for two results share memory";
    tn_tensor *x = rows_of(3, 3), *one = tn_empty(s, TN_INTS(0)), *base = tn_zeros(s, TN_INTS(12));
    tn_geqrf_out(s, x, one, one);
    expect_failure(TN_E_ARGUMENT, shared);
    tn_linalg_qr_out(s, x, one, one);
    expect_failure(TN_E_ARGUMENT, shared);
    cr_expect_eq(tn_tensor_numel(one), 0);
    tn_geqrf_out(s, x, tn_reshape(s, tn_slice(s, base, .end = 9), TN_INTS(3, 3)),
                 tn_slice(s, base, .start = 8, .end = 11));
    expect_failure(TN_E_ARGUMENT, shared);
    tn_tensor *first = tn_slice(s, base, .end = 0), *second = tn_slice(s, base, .end = 0);
    tn_geqrf_out(s, x, first, second); /* without elements they are apart */
    expect_failure(TN_E_ARGUMENT, shared);
    first = tn_slice(s, base, .end = 0); /* grows into the second one, which has its size already */
    tn_geqrf_out(s, x, first, tn_slice(s, base, .start = 8, .end = 11));
    expect_failure(TN_E_ARGUMENT, shared);
    tn_tensor *a = tn_reshape(s, tn_slice(s, base, .end = 9), TN_INTS(3, 3)),
              *tau = tn_slice(s, base, .start = 9);
    tn_geqrf_out(s, x, a, tau);
    cr_expect_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
}

/* A result that is an input, and so gets its size last: the other one may lie beside it, not in it. */
Test(outputs, of_an_input_and_its_neighbour)
{
    static const char shared[] = "the tensors that are given for two results share memory";
    tn_tensor *base = tn_arange(s, 21, .dtype = TN_FLOAT32);
    tn_tensor *x = tn_reshape(s, tn_slice(s, base, .end = 9), TN_INTS(3, 3));
    tn_geqrf_result expected = tn_geqrf(s, x);
    tn_geqrf_out(s, x, tn_slice(s, base, .end = 0), x);
    expect_failure(TN_E_ARGUMENT, shared);
    tn_geqrf_out(s, x, tn_slice(s, base, .start = 2, .end = 2), x);
    expect_failure(TN_E_ARGUMENT, shared);
    expect_sum(base, 210);
    tn_tensor *a = tn_slice(s, base, .start = 12, .end = 12);
    tn_geqrf_out(s, x, a, x);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect(tn_equal(s, a, expected.a) && tn_equal(s, x, expected.tau));
    /* Q of [3, 2] becomes [3, 3] when the kernel has read it; R begins in its ninth element. */
    tn_tensor *thin = tn_reshape(s, tn_slice(s, base, .end = 6), TN_INTS(3, 2));
    tn_linalg_qr_out(s, thin, thin, tn_slice(s, base, .start = 8, .end = 8), .mode = "complete");
    expect_failure(TN_E_ARGUMENT, shared);
    tn_linalg_qr_out(s, thin, thin, tn_slice(s, base, .start = 9, .end = 9), .mode = "complete");
    cr_expect_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect_eq(tn_tensor_numel(thin), 9);
}

/* The kernel reads the argument before it gets the size of the result. */
Test(outputs, that_are_inputs_of_another_size)
{
    tn_geqrf_result expected = tn_geqrf(s, rows_of(3, 3));
    tn_tensor *x = rows_of(3, 3), *a = tn_empty(s, TN_INTS(0));
    tn_geqrf_out(s, x, a, x);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect(tn_equal(s, a, expected.a) && tn_equal(s, x, expected.tau));
    tn_tensor *m = rows_of(2, 3);
    cr_expect_eq(tn_mm_out(s, m, tn_ones(s, TN_INTS(3, 4)), m), m);
    expect_sum(m, 4 * 15);
    tn_tensor *list = rows_of(1, 3);
    cr_expect_eq(tn_cat_out(s, TN_TENSORS(list, list), list), list);
    expect_sum(list, 6);
    tn_tensor *sum = rows_of(2, 3);
    cr_expect_eq(tn_sum_dim_out(s, sum, TN_INTS(1), sum), sum);
    expect_sum(sum, 15);
    cr_expect_eq(tn_tensor_rank(sum), 1);
    tn_tensor *row = rows_of(1, 3);
    tn_add_out(s, row, tn_ones(s, TN_INTS(2, 3)), row);
    expect_failure(TN_E_SHAPE, "output with shape [1, 3] doesn't match the broadcast shape [2, 3]");
}

static tn_tensor *integers(const int64_t values[4])
{
    return tn_from_data(s, TN_INT64, TN_INTS(4), values, TN_CPU);
}

static void expect_integers(const tn_tensor *t, uint32_t rank, int64_t numel, const int64_t *values)
{
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_assert(tn_tensor_rank(t) == rank && tn_tensor_numel(t) == numel, "%d dimensions, %lld elements",
              (int)tn_tensor_rank(t), (long long)tn_tensor_numel(t));
    tn_tensor *found = tn_reshape(s, (tn_tensor *)(uintptr_t)t, TN_INTS(-1));
    for (int64_t i = 0; i < numel; i++) {
        int64_t value = tn_item_int(s, tn_select(s, found, 0, i));
        cr_expect_eq(value, values[i], "%lld: %lld", (long long)i, (long long)value);
    }
}
#define EXPECT_INTEGERS(t, rank, ...)                                               \
    expect_integers(t, rank, (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / 8), \
                    (const int64_t[]){__VA_ARGS__})

static tn_tensor *bincount_out(tn_tensor *x, tn_tensor *out)
{
    uint32_t op = tn_operator_find(ctx, "aten::bincount.out");
    return CALL(op, tn_value_tensor(x), tn_value_none(), tn_value_int(0), tn_value_tensor(out));
}

/* The kernel determines the size: the shape rule knows only the largest one, or none. */
Test(outputs, whose_size_the_kernel_determines)
{
    tn_tensor *one = integers((const int64_t[]){0, 7, 0, 0}), *two = integers((const int64_t[]){0, 7, 5, 0});
    tn_tensor *out = tn_zeros(s, TN_INTS(0), .dtype = TN_INT64);
    EXPECT_INTEGERS(tn_nonzero_out(s, two, out), 2, 1, 2);
    tn_tensor *wide =
        tn_zeros(s, TN_INTS(8, 2), .dtype = TN_INT64); /* every fourth element, of the largest size */
    out = tn_slice(s, tn_slice(s, wide, .step = 2), .dim = 1, .end = 1);
    EXPECT_INTEGERS(tn_nonzero_out(s, two, out), 2, 1, 2);
    tn_tensor *u = integers((const int64_t[]){3, 3, 1, 3});
    out = tn_zeros(s, TN_INTS(0), .dtype = TN_INT64);
    EXPECT_INTEGERS(bincount_out(u, out), 1, 0, 1, 0, 3);
    /* Inputs as outputs. */
    EXPECT_INTEGERS(tn_nonzero_out(s, one, one), 2, 1);
    EXPECT_INTEGERS(tn_nonzero_out(s, two, two), 2, 1, 2);
    EXPECT_INTEGERS(bincount_out(u, u), 1, 0, 1, 0, 3);
    tn_tensor *v = integers((const int64_t[]){1, 2, 3, 4});
    EXPECT_INTEGERS(tn_masked_select_out(s, v, tn_gt_scalar(s, v, 2), v), 1, 3, 4);
    /* A given tensor stays where it lies in its storage. */
    tn_tensor *base = tn_zeros(s, TN_INTS(6), .dtype = TN_INT64),
              *end = tn_slice(s, base, .start = 4, .end = 4);
    EXPECT_INTEGERS(bincount_out(integers((const int64_t[]){3, 3, 1, 3}), end), 1, 0, 1, 0, 3);
    EXPECT_INTEGERS(base, 1, 0, 0, 0, 0, 0, 1);
}

static const char overlapping[] = "unsupported operation: more than one element of the written-to tensor "
                                  "refers to a single memory location";

Test(outputs, that_overlap_themselves)
{
    tn_tensor *one = tn_zeros(s, TN_INTS(1)), *wide = tn_expand(s, one, TN_INTS(3));
    tn_tensor *index = tn_zeros(s, TN_INTS(3), .dtype = TN_INT64), *x = tn_ones(s, TN_INTS(3));
    tn_scatter_(s, wide, 0, index, x);
    expect_failure(TN_E_ARGUMENT, overlapping);
    tn_add_(s, wide, x);
    expect_failure(TN_E_ARGUMENT, overlapping);
    tn_copy_(s, wide, x);
    expect_failure(TN_E_ARGUMENT, overlapping);
    cr_assert_not_null(tn_fill_scalar_(s, wide, 2)); /* each element gets the same */
    expect_sum(one, 2);
}

/* The functional form of an operator that writes in place, with a given output. */
Test(outputs, of_operators_that_write_in_place)
{
    tn_tensor *x = rows_of(2, 3), *index = tn_ones(s, TN_INTS(1, 3), .dtype = TN_INT64);
    tn_tensor *given = tn_empty(s, TN_INTS(0)), *wide = tn_empty(s, TN_INTS(2, 3), .dtype = TN_FLOAT64);
    cr_expect_eq(tn_scatter_value_out(s, x, 0, index, 10, given), given);
    expect_sum(given, 0 + 1 + 2 + 30);
    expect_sum(x, 15);
    tn_scatter_value_out(s, x, 0, index, 10, wide);
    expect_failure(TN_E_DTYPE, "Expected out tensor to have dtype float, but got double instead");
}

/* A number on the CPU beside a tensor elsewhere, which is to be read conjugated: it is copied there first. */
Test(outputs, conjugated_numbers_of_the_cpu)
{
    tn_device there = tn_device_parse(ctx, "reference:0");
    double sum[2];
    tn_tensor *i = tn_from_data(s, TN_COMPLEX64, TN_NO_INTS, (float[]){0, 1}, TN_CPU);
    tn_tensor *z = tn_full(s, TN_INTS(2), 3, .dtype = TN_COMPLEX64, .device = there);
    tn_tensor *product = tn_sum(s, tn_mul(s, z, tn_conj(s, i)));
    cr_assert_eq(tn_item_complex(s, product, sum), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect(sum[0] == 0 && sum[1] == -6, "%g %g", sum[0], sum[1]);
}

/* Filling what is read conjugated or negated: it reads as the value afterwards. */
Test(outputs, fills_of_lazy_tensors)
{
    const double pair[] = {2, 5};
    double item[2];
    tn_tensor *z = tn_ones(s, TN_INTS(2), .dtype = TN_COMPLEX64), *c = tn_conj(s, z);
    tn_fill_scalar_(s, c, tn_value_complex(pair));
    cr_assert_eq(tn_item_complex(s, tn_select(s, c, 0, 1), item), TN_OK);
    cr_expect(item[0] == 2 && item[1] == 5);
    cr_assert_eq(tn_item_complex(s, tn_select(s, z, 0, 1), item), TN_OK);
    cr_expect(item[0] == 2 && item[1] == -5);
    tn_tensor *n = tn_imag(s, c); /* negated: the imaginary part of a conjugate */
    tn_fill_scalar_(s, n, 3);
    cr_expect_eq(tn_item_double(s, tn_sum(s, n)), 6);
    cr_assert_eq(tn_item_complex(s, tn_select(s, z, 0, 0), item), TN_OK);
    cr_expect(item[0] == 2 && item[1] == -3);
}

/* ---- Arguments that are written besides the result ---- */

static int32_t fill_second(void *self, const tn_call *call)
{
    tn_tensor *y = tn_value_as_tensor(call->args[1]);
    float *to = tn_tensor_data(y);
    for (int64_t i = 0; i < tn_tensor_numel(y); i++) to[i] = (float)i;
    return TN_OK;
}

/* The kernel writes a copy with the strides that its row takes: it is copied back. */
Test(outputs, written_arguments_of_other_strides)
{
    const char *schema = "test::second(Tensor x, Tensor(a!) y) -> Tensor";
    const tn_kernel_row row = {
        .size = sizeof row, .strides = TN_STRIDES_CONTIGUOUS, .schema = schema, .run = fill_second};
    uint32_t op = define(schema);
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    tn_tensor *x = tn_ones(s, TN_INTS(2)), *y = tn_zeros(s, TN_INTS(3, 2)), *turned = tn_t(s, y);
    cr_assert_not_null(CALL(op, tn_value_tensor(x), tn_value_tensor(turned)));
    expect_sum(turned, 15);
    cr_expect_eq(element(y, 1, 0), 1); /* element (0, 1) of turned */
    cr_expect_eq(element(y, 0, 1), 3);
}

/* ---- Calls without a tensor, and with lists ---- */

static tn_dtype asked_dtype;

static int32_t infer_two(void *self, const tn_call *call)
{
    const int64_t two = 2;
    return slot_define(call, call->host, 0, TN_INT16, 1, &two, 0);
}

static int32_t infer_like_last(void *self, const tn_call *call)
{
    const tn_value *list = &call->args[0];
    const tn_tensor *last = list->as.tensors[list->count - 1];
    return slot_define(call, call->host, 0, tn_tensor_dtype(last), tn_tensor_rank(last),
                       tn_tensor_sizes(last), tn_tensor_device(last));
}

static int32_t count_and_sum(void *self, const tn_call *call)
{
    const tn_value *list = &call->args[0];
    float *to = tn_tensor_data(call->outs[0].as.tensor);
    to[0] = to[1] = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const tn_tensor *t = list->as.tensors[i];
        if (!t) continue;
        const float *from = tn_tensor_data(t);
        to[0] += from[0], to[1] += from[1];
    }
    return TN_OK;
}

static int32_t fill_int16(void *self, const tn_call *call)
{
    int16_t *to = tn_tensor_data(call->outs[0].as.tensor);
    asked_dtype = tn_tensor_dtype(call->outs[0].as.tensor);
    to[0] = to[1] = (int16_t)call->args[0].as.i;
    return TN_OK;
}

/* The row is chosen by the dtype of the result. */
Test(outputs, calls_without_tensors)
{
    static const tn_dtype int16[] = {TN_INT16, 0};
    const char *schema = "test::make(int n) -> Tensor";
    const tn_operator_def def = {.size = sizeof def, .schema = schema, .infer = infer_two};
    const tn_kernel_row row = {
        .size = sizeof row, .strides = TN_STRIDES_ANY, .schema = schema, .run = fill_int16, .dtypes = int16};
    uint32_t op = define_with(&def);
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    expect_sum(CALL(op, tn_value_int(21)), 42);
    cr_expect_eq(asked_dtype, TN_INT16);
}

/* Items that are missing stay missing; there is no limit to how many of a list must be copied. */
Test(outputs, lists_that_must_be_copied)
{
    enum { MANY = 700 };
    static tn_tensor *list[MANY];
    const char *schema = "test::total(Tensor?[] list) -> Tensor";
    const tn_operator_def def = {.size = sizeof def, .schema = schema, .infer = infer_like_last};
    const tn_kernel_row row = {
        .size = sizeof row, .strides = TN_STRIDES_CONTIGUOUS, .schema = schema, .run = count_and_sum};
    uint32_t op = define_with(&def);
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    tn_tensor *x = tn_slice(s, tn_arange(s, 4, .dtype = TN_FLOAT32), .step = 2); /* 0 2 */
    for (int i = 1; i < MANY; i++) list[i] = x;
    static const uint32_t counts[] = {2, 65, 66, 130, MANY};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        expect_sum(CALL(op, tn_value_tensors(list, counts[i])), 2.0 * (counts[i] - 1));
}

/* ---- Strides that a shape rule gives ---- */

static int32_t infer_columns(void *self, const tn_call *call)
{
    const int64_t sizes[] = {2, 3, 1}, strides[] = {1, 2, 77};
    const tn_output output = {
        .size = sizeof output, .dtype = TN_FLOAT32, .rank = 3, .sizes = sizes, .strides = strides};
    return call->host->define_output(call, 0, &output);
}

static int64_t written_strides[3];

static int32_t number_elements(void *self, const tn_call *call)
{
    tn_tensor *to = tn_value_as_tensor(call->outs[0]);
    const int64_t *strides = tn_tensor_strides(to);
    for (int i = 0; i < 3; i++) written_strides[i] = strides[i];
    for (int i = 0; i < 6; i++)
        ((float *)tn_tensor_data(to))[i / 3 * strides[0] + i % 3 * strides[1]] = (float)i;
    return TN_OK;
}

/* A given tensor that is resized gets them; one of the right size keeps its own, and the kernel writes a temporary. */
Test(outputs, with_the_strides_of_a_rule)
{
    const char *schema = "test::columns(Tensor x, *, Tensor(a!) out) -> Tensor(a!)";
    const tn_operator_def def = {.size = sizeof def, .schema = schema, .infer = infer_columns};
    uint32_t op = define_with(&def);
    add_row("cpu", schema, 0, number_elements, NULL);
    tn_tensor *x = tn_ones(s, TN_INTS(1)), *out = tn_empty(s, TN_INTS(0));
    cr_expect_eq(CALL(op, tn_value_tensor(x), tn_value_tensor(out)), out);
    expect_strides(out, 1, 2);
    expect_sum(out, 15);
    tn_tensor *rows_first = tn_empty(s, TN_INTS(2, 3, 1));
    cr_expect_eq(CALL(op, tn_value_tensor(x), tn_value_tensor(rows_first)), rows_first);
    cr_expect_eq(written_strides[2], 77, "a temporary with the strides of the rule");
    expect_strides(rows_first, 3, 1);
    cr_expect_eq(tn_item_double(s, tn_select(s, tn_select(s, tn_select(s, rows_first, 2, 0), 0, 1), 0, 0)),
                 3);
}

/* Pooling of channels-last input: a given tensor of that format is written directly, another through a temporary. */
Test(outputs, in_the_memory_format_of_the_input)
{
    tn_tensor *x = tn_reshape(s, tn_arange(s, 2 * 3 * 4 * 4, .dtype = TN_FLOAT32), TN_INTS(2, 3, 4, 4));
    tn_tensor *last = tn_contiguous(s, x, .memory_format = TN_CHANNELS_LAST);
    tn_tensor *expected = tn_max_pool2d(s, x, TN_INTS(2));
    for (int i = 0; i < 3; i++) {
        tn_tensor *out = i ? tn_empty(s, TN_INTS(2, 3, 2, 2)) : tn_empty(s, TN_INTS(0));
        tn_tensor *indices = tn_empty(s, TN_INTS(0), .dtype = TN_INT64);
        if (i == 2) out = tn_contiguous(s, out, .memory_format = TN_CHANNELS_LAST);
        tn_max_pool2d_with_indices_out(s, last, TN_INTS(2), out, indices);
        cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
        cr_expect_eq(tn_item_int(s, tn_all(s, tn_eq(s, out, expected))), 1, "%d", i);
        cr_expect_eq(tn_tensor_strides(out)[1], i == 1 ? 4 : 1, "%d", i);
        cr_expect_eq(tn_tensor_strides(indices)[1], 1);
    }
}

/* Inputs in a list that overlap the output in part: the kernel writes a temporary. */
Test(outputs, that_overlap_an_item_of_a_list)
{
    tn_tensor *line = tn_arange(s, 6, .dtype = TN_FLOAT32);
    tn_tensor *front = tn_narrow(s, line, 0, 0, 4), *a = tn_narrow(s, line, 0, 2, 2);
    tn_tensor *b = tn_narrow(s, line, 0, 3, 2);
    cr_expect_eq(tn_cat_out(s, TN_TENSORS(a, b), front), front); /* 2 3 3 4 */
    expect_sum(front, 12);
    expect_sum(line, 21);
}

/* Copies of views: of each item of a list, too. */
Test(outputs, copies_of_views)
{
    tn_tensor *x = rows_of(2, 3);
    tn_tensors rows = tn_unbind_copy(s, x, 0), parts = tn_split_copy(s, x, 2, .dim = 1);
    tn_tensor *turned = tn_t_copy(s, x);
    tn_zero_(s, x);
    cr_assert_eq(rows.count, 2);
    expect_sum(rows.data[1], 3 + 4 + 5);
    cr_assert_eq(parts.count, 2);
    expect_sum(parts.data[1], 2 + 5);
    expect_sum(turned, 15);
    expect_strides(turned, 2, 1);
}

/* Reductions without a device: they have a shape and a dtype. */
Test(outputs, of_reductions_without_a_device)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3), .dtype = TN_INT32, .device = tn_device_parse(ctx, "meta"));
    tn_tensor *sum = tn_sum_dim(s, x, TN_INTS(1)), *scan = tn_cumsum(s, x, 0);
    cr_expect(tn_tensor_numel(sum) == 2 && tn_tensor_dtype(sum) == TN_INT64);
    cr_expect(tn_tensor_numel(scan) == 6 && tn_tensor_dtype(scan) == TN_INT64);
    tn_sum_dim(s, x, TN_INTS(5));
    expect_failure(TN_E_INDEX, "Dimension out of range");
    tn_tensor *far = tn_ones(s, TN_INTS(2), .device = tn_device_parse(ctx, "reference:0"));
    tn_sum_dim_out(s, far, TN_INTS(0), tn_empty(s, TN_NO_INTS));
    expect_failure(TN_E_DEVICE, "Expected out tensor to have device reference:0, but got cpu instead");
    /* Over no elements: a complex NaN has NaN in both parts. */
    double nan[2];
    tn_tensor *none = tn_empty(s, TN_INTS(0), .dtype = TN_COMPLEX64);
    cr_assert_eq(tn_item_complex(s, tn_mean(s, none), nan), TN_OK);
    cr_expect(isnan(nan[0]) && isnan(nan[1]));
}
