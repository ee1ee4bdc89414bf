/* SPDX-License-Identifier: Apache-2.0 */
/* Which arguments the core copies before a kernel sees them, by the strides that its row takes. */
#include <stdio.h>
#include <string.h>
#include <tenon/inspect.h>
#include "support.h"

TestSuite(strides, .init = open_context, .fini = close_context);

static int64_t seen[3][TN_MAX_RANK]; /* strides of the arguments as the kernel saw them */
static tn_dtype seen_dtype[3];
static uint32_t seen_flags[3];

static int32_t note(void *self, const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args && i < 3; i++) {
        const tn_tensor *t = tn_value_as_tensor(call->args[i]);
        if (!t) continue;
        memcpy(seen[i], tn_tensor_strides(t), (size_t)tn_tensor_rank(t) * 8);
        seen_dtype[i] = tn_tensor_dtype(t);
        seen_flags[i] = tn_desc(t)->flags;
    }
    return TN_OK;
}

static uint32_t define_for(const char *schema, uint32_t strides, uint32_t flags)
{
    const tn_kernel_row row = {
        .size = sizeof row, .strides = strides, .flags = flags, .schema = schema, .run = note};
    uint32_t op = define(schema);
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    return op;
}

/* Whether the kernel sees the strides of t. */
static int passes(uint32_t op, tn_tensor *t)
{
    memset(seen, 0, sizeof seen);
    CALL(op, tn_value_tensor(t));
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    return memcmp(seen[0], tn_tensor_strides(t), (size_t)tn_tensor_rank(t) * 8) == 0;
}

Test(strides, contiguous)
{
    uint32_t op = define_for("test::contiguous(Tensor x) -> Tensor", TN_STRIDES_CONTIGUOUS, 0);
    tn_tensor *x = tn_ones(s, TN_INTS(3, 4));
    cr_expect(passes(op, x));
    cr_expect_not(passes(op, tn_t(s, x)));
    cr_expect_eq(seen[0][0], 3);
    cr_expect_eq(seen[0][1], 1);
}

/* In the last two dimensions one stride is 1 and the other at least the size; zero strides only at size 1. */
Test(strides, blas)
{
    uint32_t op = define_for("test::blas(Tensor x) -> Tensor", TN_STRIDES_BLAS, 0);
    tn_tensor *x = tn_ones(s, TN_INTS(6, 4)), *vector = tn_ones(s, TN_INTS(8));
    cr_expect(passes(op, x));
    cr_expect(passes(op, tn_t(s, x)));
    cr_expect(passes(op, tn_slice(s, x, .dim = 1, .start = 1, .end = 3)));
    cr_expect(passes(op, tn_t(s, tn_slice(s, x, .dim = 1, .start = 1, .end = 3))));
    cr_expect_not(passes(op, tn_slice(s, x, .dim = 1, .step = 2)));
    cr_expect_not(passes(op, tn_expand(s, tn_ones(s, TN_INTS(1, 4)), TN_INTS(6, 4))));
    cr_expect_not(passes(op, tn_as_strided(s, x, TN_INTS(3, 4), TN_INTS(2, 1)))); /* rows overlap */
    cr_expect(passes(op, tn_as_strided(s, x, TN_INTS(1, 4), TN_INTS(2, 1))));
    cr_expect(passes(op, tn_as_strided(s, x, TN_INTS(4, 1), TN_INTS(1, 2))));
    cr_expect(passes(op, tn_as_strided(s, x, TN_INTS(1, 3, 4), TN_INTS(0, 4, 1)))); /* size 1 */
    cr_expect_not(passes(op, tn_as_strided(s, x, TN_INTS(2, 3, 4), TN_INTS(0, 4, 1))));
    cr_expect_not(passes(op, tn_as_strided(s, x, TN_INTS(4, 3), TN_INTS(1, 2)))); /* columns overlap */
    cr_expect_not(passes(op, tn_as_strided(s, x, TN_INTS(3, 3), TN_INTS(6, 2))));
    cr_expect(passes(op, vector));
    cr_expect_not(passes(op, tn_slice(s, vector, .dim = 0, .step = 2)));
}

Test(strides, channels_last)
{
    uint32_t op = define_for("test::channels(Tensor x) -> Tensor", TN_STRIDES_CHANNELS_LAST, 0);
    tn_tensor *x4 = tn_ones(s, TN_INTS(2, 3, 4, 5)), *x5 = tn_ones(s, TN_INTS(2, 3, 4, 5, 6));
    cr_expect(passes(op, x4));
    cr_expect(passes(op, tn_contiguous(s, x4, .memory_format = TN_CHANNELS_LAST)));
    cr_expect(passes(op, tn_contiguous(s, x5, .memory_format = TN_CHANNELS_LAST_3D)));
    cr_expect_not(passes(op, tn_transpose(s, x4, 0, 3)));
    cr_expect(passes(op, tn_ones(s, TN_INTS(3, 4))));
    cr_expect_not(passes(op, tn_t(s, tn_ones(s, TN_INTS(3, 4)))));
}

/* The format of the first 4- or 5-dimensional argument is that of all. */
Test(strides, channels_last_for_several_arguments)
{
    uint32_t op = define_for("test::both(Tensor x, Tensor? y=None, Tensor? z=None) -> Tensor",
                             TN_STRIDES_CHANNELS_LAST, 0);
    tn_tensor *x4 = tn_ones(s, TN_INTS(2, 3, 4, 5)), *x5 = tn_ones(s, TN_INTS(2, 3, 4, 5, 6)),
              *v = tn_t(s, tn_ones(s, TN_INTS(3, 4)));
    tn_tensor *last4 = tn_contiguous(s, x4, .memory_format = TN_CHANNELS_LAST);
    tn_tensor *last5 = tn_contiguous(s, x5, .memory_format = TN_CHANNELS_LAST_3D);
    CALL(op, tn_value_tensor(last4), tn_value_tensor(x4), tn_value_tensor(v));
    cr_expect_eq(seen[1][1], 1, "brought to channels last");
    cr_expect_eq(seen[2][1], 1, "of two dimensions: contiguous");
    CALL(op, tn_value_tensor(last5), tn_value_tensor(x5), tn_value_none());
    cr_expect_eq(seen[1][1], 1);
    CALL(op, tn_value_tensor(x4), tn_value_tensor(last4), tn_value_none());
    cr_expect_eq(seen[1][1], 20, "brought to contiguous");
    CALL(op, tn_value_tensor(tn_transpose(s, x4, 0, 3)), tn_value_tensor(last4), tn_value_none());
    cr_expect_eq(seen[1][1], 20, "the first has neither format");
    CALL(op, tn_value_tensor(last5), tn_value_tensor(last4), tn_value_tensor(v));
    cr_expect_eq(seen[1][1], 20, "of four dimensions beside five: contiguous");
    uint32_t optional =
        define_for("test::optional(Tensor? x, Tensor y, Tensor z) -> Tensor", TN_STRIDES_CHANNELS_LAST, 0);
    CALL(optional, tn_value_none(), tn_value_tensor(v), tn_value_tensor(last4));
    cr_expect_eq(seen[2][1], 1, "the first that has four dimensions decides");
}

Test(strides, conjugated_and_negated)
{
    uint32_t op = define_for("test::plain(Tensor x) -> Tensor", TN_STRIDES_ANY, 0);
    uint32_t lazy = define_for("test::lazy(Tensor x) -> Tensor", TN_STRIDES_ANY, TN_ROW_LAZY_BITS);
    tn_tensor *x = tn_conj(s, tn_ones(s, TN_INTS(3), .dtype = TN_COMPLEX64));
    CALL(op, tn_value_tensor(x));
    cr_expect_eq(seen_flags[0], 0);
    CALL(lazy, tn_value_tensor(x));
    cr_expect_eq(seen_flags[0], TN_DESC_CONJ);
    cr_expect_eq(seen_dtype[0], TN_COMPLEX64);
}

Test(strides, lists)
{
    uint32_t op = define_for("test::list(Tensor x, Tensor[] list) -> Tensor", TN_STRIDES_CONTIGUOUS, 0);
    tn_tensor *x = tn_ones(s, TN_INTS(3, 4)), *list[] = {x, tn_t(s, x)};
    CALL(op, tn_value_tensor(x), tn_value_tensors(list, 2));
    cr_expect_eq(tn_scope_failed(s), TN_OK);
}

/* ---- What a row says of single arguments ---- */

static void *seen_data[3];
static tn_device seen_device[3];

static int32_t note_places(void *self, const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args && i < 3; i++) {
        const tn_tensor *t = tn_value_as_tensor(call->args[i]);
        seen_data[i] = t ? tn_desc(t)->host : NULL;
        seen_device[i] = t ? tn_tensor_device(t) : 0;
    }
    return note(self, call);
}

static uint32_t define_places(const char *device, const char *schema, const tn_row_argument *arguments,
                              uint32_t n)
{
    const tn_kernel_row row = {
        .size = sizeof row, .schema = schema, .run = note_places, .arguments = arguments, .n_arguments = n};
    uint32_t op = define(schema);
    cr_assert_eq(tn_kernels_add(ctx, device, NULL, &row, 1), TN_OK);
    return op;
}

/* An argument that the row does not name has the row's own rule: contiguous. */
Test(strides, of_single_arguments)
{
    static const tn_row_argument arguments[] = {{.strides = TN_STRIDES_ANY}, {.strides = TN_STRIDES_BLAS}};
    uint32_t op = define_places("cpu", "test::single(Tensor x, Tensor y, Tensor z) -> Tensor", arguments, 2);
    tn_tensor *x = tn_slice(s, tn_ones(s, TN_INTS(4, 6)), .dim = 1, .step = 2), *y = tn_t(s, x);
    tn_tensor *z = tn_t(s, tn_ones(s, TN_INTS(4, 6)));
    CALL(op, tn_value_tensor(x), tn_value_tensor(y), tn_value_tensor(z));
    cr_assert_eq(tn_scope_failed(s), TN_OK);
    cr_expect(seen[0][0] == 6 && seen[0][1] == 2);
    cr_expect(seen[1][0] == 4 && seen[1][1] == 1);
    cr_expect(seen[2][0] == 4 && seen[2][1] == 1);
    CALL(op, tn_value_tensor(x), tn_value_tensor(z), tn_value_tensor(x));
    cr_expect(seen[1][0] == 1 && seen[1][1] == 6, "a transposed matrix is fit for BLAS");
}

/* Host memory that is row-major, of the right dtype and not read conjugated is passed as it is. */
Test(strides, an_argument_in_host_memory)
{
    static const tn_row_argument arguments[] = {{.strides = TN_STRIDES_ANY}, {.place = TN_PLACE_HOST}};
    static const char schema[] = "test::on_host(Tensor x, Tensor y) -> Tensor";
    uint32_t op = define_places("cpu", schema, arguments, 2);
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3)), *y = tn_t(s, x);
    tn_tensor *z = tn_conj(s, tn_full(s, TN_INTS(2), 1, .dtype = TN_COMPLEX64));
    CALL(op, tn_value_tensor(y), tn_value_tensor(x));
    cr_expect_eq(seen_data[1], tn_desc(x)->host);
    CALL(op, tn_value_tensor(x), tn_value_tensor(y));
    cr_expect_neq(seen_data[1], tn_desc(x)->host);
    cr_expect(seen[1][0] == 2 && seen[1][1] == 1, "row-major");
    CALL(op, tn_value_tensor(x), tn_value_tensor(z));
    cr_expect_neq(seen_data[1], tn_desc(z)->host);
    cr_expect_eq(seen_flags[1], 0);
    tn_device far = tn_device_parse(ctx, "reference:0");
    const tn_kernel_row row = {
        .size = sizeof row, .schema = schema, .run = note_places, .arguments = arguments, .n_arguments = 2};
    cr_assert_eq(tn_kernels_add(ctx, "reference", NULL, &row, 1), TN_OK);
    tn_tensor *a = tn_full(s, TN_INTS(3), 7, .dtype = TN_FLOAT32, .device = far);
    CALL(op, tn_value_tensor(a), tn_value_tensor(a));
    cr_assert_eq(tn_scope_failed(s), TN_OK);
    cr_expect_eq(seen_device[0], far);
    cr_expect_eq(seen_device[1], TN_CPU);
    CALL(op, tn_value_tensor(a), tn_value_tensor(tn_full(s, TN_NO_INTS, 7, .dtype = TN_FLOAT64)));
    cr_assert_eq(tn_scope_failed(s), TN_OK);
    cr_expect_eq(seen_device[1], TN_CPU);
}

/* A row that does not take the dtype of an argument is passed over. */
Test(strides, dtypes_of_single_arguments)
{
    static const tn_dtype whole[] = {TN_INT32, TN_INT64, 0};
    static const tn_row_argument narrow[] = {{.dtypes = NULL}, {.dtypes = whole}};
    static const char schema[] = "test::typed(Tensor x, Tensor y) -> Tensor";
    uint32_t op = define_places("reference", schema, narrow, 2);
    tn_device far = tn_device_parse(ctx, "reference:0");
    tn_tensor *x = tn_ones(s, TN_INTS(2), .device = far);
    tn_tensor *i = tn_ones(s, TN_INTS(2), .dtype = TN_INT64, .device = far);
    cr_expect_not_null(CALL(op, tn_value_tensor(x), tn_value_tensor(i)));
    cr_expect_null(CALL(op, tn_value_tensor(x), tn_value_tensor(x)));
    expect_failure(TN_E_UNSUPPORTED,
                   "\"typed\" not implemented for 'Float' on device reference:0, nor on the CPU");
    add_row("cpu", schema, 0, do_nothing, NULL);
    cr_expect_not_null(CALL(op, tn_value_tensor(x), tn_value_tensor(x)));
    tn_fallback_info info = {.size = sizeof info};
    cr_assert_eq(tn_inspect_fallback(ctx, 0, &info), TN_OK);
    cr_expect_str_eq(info.reason, "the row does not take the dtype of an argument");
}

/* The same where the operator writes its first argument. */
Test(strides, dtypes_of_an_operator_in_place)
{
    static const tn_dtype whole[] = {TN_INT64, 0};
    static const tn_row_argument arguments[] = {{.strides = TN_STRIDES_ANY}, {.dtypes = whole}};
    static const char schema[] = "test::typed_(Tensor(a!) self, Tensor y) -> Tensor(a!)";
    uint32_t op = define_places("cpu", schema, arguments, 2);
    tn_tensor *x = tn_ones(s, TN_INTS(2)), *i = tn_ones(s, TN_INTS(2), .dtype = TN_INT64);
    cr_expect_eq(CALL(op, tn_value_tensor(x), tn_value_tensor(i)), x);
    cr_expect_null(CALL(op, tn_value_tensor(x), tn_value_tensor(x)));
    expect_failure(TN_E_UNSUPPORTED, "\"typed_\" not implemented for 'Float' on device cpu");
    seen_device[0] = 0;
    tn_tensor *none = tn_ones(s, TN_INTS(0));
    cr_expect_eq(CALL(op, tn_value_tensor(none), tn_value_tensor(i)), none);
    cr_expect_eq(seen_device[0], 0, "nothing to write: no kernel runs");
}

/* A number on the CPU beside tensors elsewhere is copied there, unless the row takes it as it is. */
Test(strides, numbers_of_the_cpu)
{
    static const char schema[] = "test::scaled(Tensor x, Tensor factor) -> Tensor";
    tn_device far = tn_device_parse(ctx, "reference:0");
    uint32_t op = define_places("reference", schema, NULL, 0);
    CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2), .device = far)), tn_value_tensor(tn_ones(s, TN_NO_INTS)));
    cr_assert_eq(tn_scope_failed(s), TN_OK);
    cr_expect_eq(seen_device[1], far);
}
