/* SPDX-License-Identifier: Apache-2.0 */
/* Creation, indexing, items, sizes, strides, devices and default dtypes as the reference documents state
 * them. */
#include "fixture.h"

#include <math.h>
#include <string.h>

ON_EACH_DEVICE(tensors, created)
{
    tn_scope *s = p->s;
    EXPECT(p, tn_zeros(s, TN_INTS(2, 4), .dtype = TN_INT32), 0, 0, 0, 0, 0, 0, 0, 0);
    cr_assert_eq(tn_tensor_dtype(tn_zeros(s, TN_INTS(2, 4), .dtype = TN_INT32)), TN_INT32);
    EXPECT(p, tn_ones(s, TN_INTS(2, 4), .dtype = TN_FLOAT64), 1, 1, 1, 1, 1, 1, 1, 1);
    expect_sizes(p, tn_randn(s, TN_INTS(3, 4, 5)), TN_INTS(3, 4, 5));
    tn_tensor *full = tn_full(s, TN_INTS(3, 4), 123, .dtype = TN_FLOAT32);
    cr_assert_eq(tn_tensor_dtype(full), TN_FLOAT32);
    cr_assert_eq(tn_desc(full)->layout, TN_INTERNED_STRIDED);
    cr_assert_eq(tn_tensor_device(full), p->device);
    tn_tensor *empty = tn_ones(s, TN_INTS(10, 20, 30));
    expect_sizes(p, empty, TN_INTS(10, 20, 30));
    cr_assert_eq(tn_tensor_size(empty, 1), 20);
    cr_assert_eq(tn_tensor_size(empty, -1), 30);
    cr_assert_eq(tn_tensor_rank(empty), 3);
    expect_sizes(p, tn_zeros(s, TN_INTS(0)), TN_INTS(0));
    EXPECT(p, tn_add(s, tn_ones(s, TN_INTS(5)), tn_full(s, TN_NO_INTS, 3)), 4, 4, 4, 4, 4);
    EXPECT(p, tn_add_scalar(s, tn_ones(s, TN_INTS(6)), 100), 101, 101, 101, 101, 101, 101);
}

ON_EACH_DEVICE(tensors, ranges)
{
    tn_scope *s = p->s;
    /* ceil((end - start) / step), and floor(...) + 1 for `range`, which includes its end. */
    EXPECT(p, tn_arange(s, 5), 0, 1, 2, 3, 4);
    EXPECT(p, tn_arange_start_step(s, 1, 2.5, .step = TN_SCALAR(0.5)), 1, 1.5, 2);
    EXPECT(p, tn_arange_start_step(s, 1, 2.6, .step = TN_SCALAR(0.5)), 1, 1.5, 2, 2.5);
    EXPECT(p, tn_arange_start(s, 4, 4), );
    EXPECT(p, tn_range(s, 1, 4), 1, 2, 3, 4);
    EXPECT(p, tn_range_step(s, 1, 4, .step = TN_SCALAR(0.5)), 1, 1.5, 2, 2.5, 3, 3.5, 4);
    cr_assert_eq(tn_tensor_dtype(tn_arange(s, 5)), TN_INT64);
    cr_assert_eq(tn_tensor_dtype(tn_arange(s, 5.0)), TN_FLOAT32);
}

ON_EACH_DEVICE(tensors, items)
{
    tn_scope *s = p->s;
    tn_tensor *x = MAKE(p, TN_INT64, TN_INTS(2, 3), 1, 2, 3, 4, 5, 6);
    cr_assert_eq(tn_item_int(s, tn_index(s, x, TN_AT(1), TN_AT(2))), 6);
    tn_index_assign(s, x, tn_full(s, TN_NO_INTS, 8), TN_AT(0), TN_AT(1));
    EXPECT(p, x, 1, 8, 3, 4, 5, 6);
    cr_assert_eq(tn_item_int(s, MAKE(p, TN_INT64, TN_INTS(1, 1), 1)), 1);
    cr_assert_eq(tn_item_double(s, MAKE(p, TN_FLOAT32, TN_NO_INTS, 2.5)), 2.5);
    tn_item_int(s, x);
    expect_error(p, "a Tensor with 6 elements cannot be converted to Scalar");
}

ON_EACH_DEVICE(tensors, truth)
{
    tn_scope *s = p->s;
    cr_assert_eq(tn_is_nonzero(s, VECTOR(p, TN_FLOAT32, 0)), 0);
    cr_assert_eq(tn_is_nonzero(s, VECTOR(p, TN_FLOAT32, 1.5)), 1);
    cr_assert_eq(tn_is_nonzero(s, VECTOR(p, TN_BOOL, 0)), 0);
    cr_assert_eq(tn_is_nonzero(s, VECTOR(p, TN_INT64, 3)), 1);
    tn_is_nonzero(s, VECTOR(p, TN_INT64, 1, 3, 5));
    expect_error(p, "value of Tensor with more than one value is ambiguous");
    tn_is_nonzero(s, tn_zeros(s, TN_INTS(0)));
    expect_error(p, "value of Tensor with no values is ambiguous");
}

ON_EACH_DEVICE(tensors, written_in_place)
{
    tn_scope *s = p->s;
    tn_tensor *a = tn_zeros(s, TN_INTS(2, 3)), *one = tn_ones(s, TN_INTS(2, 3));
    tn_add_(s, a, one);
    EXPECT(p, a, 1, 1, 1, 1, 1, 1);
    tn_add_out(s, a, one, a);
    EXPECT(p, a, 2, 2, 2, 2, 2, 2);
}

ON_EACH_DEVICE(tensors, numbers_for_tensors)
{
    /* add(5, 5): both arguments are numbers. */
    const tn_value five[] = {tn_value_int(5), tn_value_int(5)};
    tn_value sum;
    tn_scope_call(p->s, TN_OP_ADD, five, 2, &sum, 1);
    cr_assert_eq(tn_tensor_dtype(tn_value_as_tensor(sum)), TN_INT64);
    EXPECT(p, tn_value_as_tensor(sum), 10);
}

ON_EACH_DEVICE(tensors, strides_of_formats)
{
    tn_scope *s = p->s;
    const int64_t want[] = {60, 1, 15, 3}, want3d[] = {120, 1, 30, 10, 2};
    tn_tensor *x = tn_contiguous(s, tn_ones(s, TN_INTS(2, 3, 4, 5)), .memory_format = TN_CHANNELS_LAST);
    cr_assert_eq(memcmp(tn_tensor_strides(x), want, sizeof want), 0);
    cr_assert(tn_tensor_is_contiguous(x, TN_CHANNELS_LAST) &&
              !tn_tensor_is_contiguous(x, TN_CONTIGUOUS_FORMAT));
    tn_tensor *y = tn_contiguous(s, tn_ones(s, TN_INTS(2, 2, 4, 3, 5)), .memory_format = TN_CHANNELS_LAST_3D);
    cr_assert_eq(memcmp(tn_tensor_strides(y), want3d, sizeof want3d), 0);
    /*
     * preserve_format copies the strides of dense tensors, else the result is contiguous; pointwise results
     * keep strides.
     */
    cr_assert_eq(memcmp(tn_tensor_strides(tn_clone(s, x)), want, sizeof want), 0);
    cr_assert_eq(memcmp(tn_tensor_strides(tn_relu(s, x)), want, sizeof want), 0);
    /* With holes: dense, in the same order of dimensions. */
    const int64_t closed[] = {36, 1, 9, 3};
    tn_tensor *holes = tn_slice(s, x, 3, 0, 5, 2);
    cr_assert_eq(memcmp(tn_tensor_strides(tn_clone(s, holes)), closed, sizeof closed), 0);
    cr_assert(tn_tensor_is_contiguous(tn_contiguous(s, holes), TN_CONTIGUOUS_FORMAT));
}

/* ---- Without a device of their own ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    tn_dtype dtype;
    int floating, complex;
} names[] = {{"float32", TN_FLOAT32, 1, 0},
             {"float", TN_FLOAT32, 1, 0},
             {"float64", TN_FLOAT64, 1, 0},
             {"double", TN_FLOAT64, 1, 0},
             {"float16", TN_FLOAT16, 1, 0},
             {"half", TN_FLOAT16, 1, 0},
             {"bfloat16", TN_BFLOAT16, 1, 0},
             {"complex32", TN_COMPLEX32, 0, 1},
             {"chalf", TN_COMPLEX32, 0, 1},
             {"complex64", TN_COMPLEX64, 0, 1},
             {"cfloat", TN_COMPLEX64, 0, 1},
             {"complex128", TN_COMPLEX128, 0, 1},
             {"cdouble", TN_COMPLEX128, 0, 1},
             {"uint8", TN_UINT8, 0, 0},
             {"uint16", TN_UINT16, 0, 0},
             {"uint32", TN_UINT32, 0, 0},
             {"uint64", TN_UINT64, 0, 0},
             {"int8", TN_INT8, 0, 0},
             {"int16", TN_INT16, 0, 0},
             {"short", TN_INT16, 0, 0},
             {"int32", TN_INT32, 0, 0},
             {"int", TN_INT32, 0, 0},
             {"int64", TN_INT64, 0, 0},
             {"long", TN_INT64, 0, 0},
             {"bool", TN_BOOL, 0, 0},
             {"quint8", TN_QUINT8, 0, 0},
             {"qint8", TN_QINT8, 0, 0},
             {"qint32", TN_QINT32, 0, 0},
             {"quint4x2", TN_QUINT4X2, 0, 0},
             {"float8_e4m3fn", TN_FLOAT8_E4M3FN, 1, 0},
             {"float8_e5m2", TN_FLOAT8_E5M2, 1, 0}};

Test(dtypes, names)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cr_expect_eq(tn_dtype_parse(names[i].name), names[i].dtype, "%s", names[i].name);
        cr_expect_eq(tn_dtype_is_floating(names[i].dtype), names[i].floating, "%s", names[i].name);
        cr_expect_eq(tn_dtype_is_complex(names[i].dtype), names[i].complex, "%s", names[i].name);
    }
    cr_expect_eq(tn_dtype_parse("float31"), 0);
    cr_expect_eq(tn_dtype_bytes(TN_COMPLEX32), 4);
}

/* The exponent and fraction of the two half types: the largest number, and the step after 1. */
ON_EACH_DEVICE(dtypes, halves)
{
    tn_scope *s = p->s;
    EXPECT(p, VECTOR(p, TN_FLOAT16, 65504, 65520, 0x1p-24, 1 + 0x1p-10, 1 + 0x1p-11), 65504, INFINITY,
           0x1p-24, 1 + 0x1p-10, 1);
    EXPECT(p, VECTOR(p, TN_BFLOAT16, 0x1.fep127, 1 + 0x1p-7, 1 + 0x1p-8), 0x1.fep127, 1 + 0x1p-7, 1);
    cr_assert_eq(tn_tensor_dtype(tn_add(s, VECTOR(p, TN_FLOAT16, 1), VECTOR(p, TN_BFLOAT16, 1))), TN_FLOAT32);
}

static const tn_dtype plain[] = {TN_BOOL,    TN_UINT8,   TN_INT8,      TN_INT16,
                                 TN_INT32,   TN_INT64,   TN_FLOAT16,   TN_BFLOAT16,
                                 TN_FLOAT32, TN_FLOAT64, TN_COMPLEX64, TN_COMPLEX128};
#define N_PLAIN (int)(sizeof plain / sizeof *plain)

static int category(tn_dtype d)
{
    return tn_dtype_is_complex(d) ? 3 : tn_dtype_is_floating(d) ? 2 : d == TN_BOOL ? 0 : 1;
}

/*
 * promote_types is symmetric, never narrower or of a lower category than either, and the first dtype of the
 * list with these properties.
 */
Test(dtypes, promotion)
{
    for (int i = 0; i < N_PLAIN; i++) {
        for (int k = 0; k < N_PLAIN; k++) {
            tn_dtype r = tn_promote_types(plain[i], plain[k]);
            cr_expect_eq(r, tn_promote_types(plain[k], plain[i]));
            cr_expect(category(r) == category(plain[i]) || category(r) == category(plain[k]));
            cr_expect(category(r) >= category(plain[i]) && category(r) >= category(plain[k]));
            if (i == k) cr_expect_eq(r, plain[i]);
            if (category(plain[i]) == category(r)) cr_expect(tn_dtype_bytes(r) >= tn_dtype_bytes(plain[i]));
            cr_expect_eq(tn_can_cast(plain[i], plain[k]),
                         category(plain[i]) <= category(plain[k]) ||
                             (category(plain[k]) == 1 && category(plain[i]) == 1),
                         "%s to %s", tn_dtype_name(plain[i]), tn_dtype_name(plain[k]));
        }
    }
    cr_expect_eq(tn_promote_types(TN_INT8, TN_UINT8), TN_INT16);
    cr_expect_eq(tn_promote_types(TN_FLOAT16, TN_BFLOAT16), TN_FLOAT32);
    cr_expect_eq(tn_promote_types(TN_INT64, TN_FLOAT16), TN_FLOAT16);
    cr_expect_eq(tn_promote_types(TN_FLOAT64, TN_COMPLEX64), TN_COMPLEX128);
}

/* A scalar's category counts only if it is higher than that of the tensors; its value never does. */
ON_EACH_DEVICE(dtypes, numbers_and_zero_dim)
{
    tn_scope *s = p->s;
    tn_tensor *i32 = VECTOR(p, TN_INT32, 1), *f16 = VECTOR(p, TN_FLOAT16, 1), *b = VECTOR(p, TN_BOOL, 1);
    tn_tensor *zero_f64 = MAKE(p, TN_FLOAT64, TN_NO_INTS, 1), *zero_i64 = MAKE(p, TN_INT64, TN_NO_INTS, 1);
    cr_assert_eq(tn_tensor_dtype(tn_add_scalar(s, i32, 1.5)), TN_FLOAT32);
    cr_assert_eq(tn_tensor_dtype(tn_add_scalar(s, f16, 1e30)), TN_FLOAT16);
    cr_assert_eq(tn_tensor_dtype(tn_add_scalar(s, f16, 1)), TN_FLOAT16);
    cr_assert_eq(tn_tensor_dtype(tn_add_scalar(s, b, 1)), TN_INT64);
    cr_assert_eq(tn_tensor_dtype(tn_mul_scalar(s, f16, tn_value_complex((double[]){0, 1}))), TN_COMPLEX32);
    cr_assert_eq(tn_tensor_dtype(tn_add(s, i32, zero_f64)), TN_FLOAT64);
    cr_assert_eq(tn_tensor_dtype(tn_add(s, f16, zero_f64)), TN_FLOAT16);
    cr_assert_eq(tn_tensor_dtype(tn_add(s, b, zero_i64)), TN_INT64);
    cr_assert_eq(tn_tensor_dtype(tn_add(s, zero_i64, zero_f64)), TN_FLOAT64);
}

ON_EACH_DEVICE(dtypes, out)
{
    tn_scope *s = p->s;
    const struct {
        tn_dtype out, in;
        int allowed;
    } table[] = {{TN_FLOAT32, TN_FLOAT64, 1},   {TN_FLOAT32, TN_INT64, 1},    {TN_INT32, TN_INT64, 1},
                 {TN_UINT8, TN_INT32, 1},       {TN_INT64, TN_FLOAT32, 0},    {TN_BOOL, TN_INT32, 0},
                 {TN_FLOAT64, TN_COMPLEX64, 0}, {TN_COMPLEX64, TN_FLOAT64, 1}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        tn_tensor *out = tn_zeros(s, TN_INTS(2), .dtype = table[i].out);
        tn_tensor *in = tn_ones(s, TN_INTS(2), .dtype = table[i].in);
        tn_add_out(s, in, in, out);
        cr_assert_eq(!tn_scope_failed(s), table[i].allowed, "%zu", i);
        if (table[i].allowed)
            EXPECT(p, out, 2, 2);
        else
            expect_error(p, "can't be cast to the desired output type");
    }
}

ON_EACH_DEVICE(dtypes, defaults)
{
    const struct {
        tn_dtype real, complex;
    } table[] = {{TN_FLOAT32, TN_COMPLEX64}, {TN_FLOAT64, TN_COMPLEX128}, {TN_FLOAT16, TN_COMPLEX32}};
    cr_assert_eq(tn_get_default_dtype(p->ctx), TN_FLOAT32);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(tn_set_default_dtype(p->ctx, table[i].real), TN_OK);
        cr_assert_eq(tn_tensor_dtype(tn_full(p->s, TN_INTS(2), 1.2)), table[i].real);
        cr_assert_eq(tn_tensor_dtype(tn_full(p->s, TN_INTS(2), tn_value_complex((double[]){1.2, 3}))),
                     table[i].complex);
        cr_assert_eq(tn_tensor_dtype(tn_ones(p->s, TN_INTS(1))), table[i].real);
        cr_assert_eq(tn_tensor_dtype(tn_add_scalar(p->s, VECTOR(p, TN_INT32, 1), 0.5)), table[i].real);
    }
    cr_assert_eq(tn_set_default_dtype(p->ctx, TN_BFLOAT16), TN_OK);
    tn_full(p->s, TN_INTS(2), tn_value_complex((double[]){1.2, 3}));
    cr_expect_neq(tn_scope_failed(p->s), TN_OK, "bfloat16 has no complex dtype");
    tn_scope_clear(p->s);
    cr_assert_neq(tn_set_default_dtype(p->ctx, TN_INT32), TN_OK);
    cr_assert_neq(tn_set_default_dtype(p->ctx, TN_COMPLEX64), TN_OK);
    cr_assert_eq(tn_get_default_dtype(p->ctx), TN_BFLOAT16);
}

ON_EACH_DEVICE(devices, text)
{
    char text[64];
    const struct {
        const char *text;
        int32_t index;
    } table[] = {{"cuda:0", 0}, {"cuda", -1}, {"mps", -1}, {"mps:0", 0}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        tn_device d = tn_device_parse(p->ctx, table[i].text);
        cr_assert_neq(d, 0, "%s", table[i].text);
        cr_assert_eq(TN_DEVICE_INDEX(d), table[i].index, "%s", table[i].text);
        cr_assert_eq(strncmp(tn_interned(p->ctx, TN_DEVICE_TYPE(d)), table[i].text, 3), 0);
        cr_assert_str_eq(tn_device_format(p->ctx, d, text, sizeof text), table[i].text);
    }
    /* There is one processor: it has the index 0 and is written without. */
    cr_assert_eq(tn_device_parse(p->ctx, "cpu:0"), TN_CPU);
    cr_assert_str_eq(tn_device_format(p->ctx, TN_CPU, text, sizeof text), "cpu");
}

/* With -7 for NaN, which is equal to nothing. */
static tn_tensor *marked(place *p, tn_tensor *t)
{
    return tn_nan_to_num(p->s, t, .nan = -7);
}

/* In deterministic mode NaN, true and the largest numbers stand where memory would be undefined. */
ON_EACH_DEVICE(deterministic, undefined_memory)
{
    static const struct {
        tn_dtype dtype;
        uint64_t bits; /* of an element */
    } cases[] = {{TN_FLOAT64, 0x7ff8000000000000},
                 {TN_FLOAT32, 0x7fc00000},
                 {TN_FLOAT16, 0x7e00},
                 {TN_BFLOAT16, 0x7fc0},
                 {TN_COMPLEX64, 0x7fc00000},
                 {TN_BOOL, 1},
                 {TN_UINT8, 0xff},
                 {TN_INT8, 0x7f},
                 {TN_INT16, 0x7fff},
                 {TN_UINT16, 0xffff},
                 {TN_INT32, INT32_MAX},
                 {TN_UINT32, UINT32_MAX},
                 {TN_INT64, INT64_MAX},
                 {TN_UINT64, UINT64_MAX}};
    tn_scope *s = p->s;
    tn_set_deterministic(p->ctx, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t have[3] = {0};
        const uint64_t bytes = (uint64_t)tn_dtype_bytes(cases[i].dtype);
        cr_assert_eq(tn_to_host(s, tn_empty(s, TN_INTS(3), .dtype = cases[i].dtype), have, 3 * bytes), TN_OK,
                     "%s: %s", tn_dtype_name(cases[i].dtype), tn_scope_error(s)->message);
        for (int k = 0; k < 3; k++)
            cr_assert_eq(memcmp((char *)have + (uint64_t)k * bytes, &cases[i].bits, bytes), 0, "%s: %llx",
                         tn_dtype_name(cases[i].dtype), (unsigned long long)have[0]);
    }
    tn_tensor *x = tn_ones(s, TN_INTS(2), .dtype = TN_FLOAT32);
    EXPECT(p, marked(p, tn_empty_like(s, x)), -7, -7);
    EXPECT(p, marked(p, tn_new_empty(s, x, TN_INTS(2))), -7, -7);
    EXPECT(p, marked(p, tn_empty_strided(s, TN_INTS(2, 2), TN_INTS(4, 1))), -7, -7, -7, -7);
    EXPECT(p, marked(p, tn_new_empty_strided(s, x, TN_INTS(2), TN_INTS(3))), -7, -7);
    EXPECT(p, marked(p, tn_empty_permuted(s, TN_INTS(1, 2), TN_INTS(1, 0))), -7, -7);
    EXPECT(p, marked(p, tn_empty_out(s, TN_INTS(3), x)), -7, -7, -7);
    EXPECT(p, tn_zeros(s, TN_INTS(2)), 0, 0);
    EXPECT(p, tn_empty(s, TN_INTS(0)), );
    tn_empty(s, TN_INTS(2), .device = TN_DEVICE(TN_INTERNED_META, 0));
    tn_set_deterministic(p->ctx, 0);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
}

/* Elements that were there keep their values; the rest of a storage that grew is filled. */
ON_EACH_DEVICE(deterministic, resized)
{
    tn_scope *s = p->s;
    tn_set_deterministic(p->ctx, 1);
    EXPECT(p, marked(p, tn_resize_(s, tn_ones(s, TN_INTS(2)), TN_INTS(4))), 1, 1, -7, -7);
    EXPECT(p, tn_resize_(s, tn_ones(s, TN_INTS(2), .dtype = TN_INT16), TN_INTS(3)), 1, 1, 32767);
    EXPECT(p, marked(p, tn_resize_as_(s, tn_ones(s, TN_INTS(1)), tn_ones(s, TN_INTS(2)))), 1, -7);
    tn_tensor *x = VECTOR(p, TN_FLOAT32, 0, 1, 2, 3, 4, 5), *y = tn_narrow(s, x, 0, 2, 2);
    EXPECT(p, tn_resize_(s, y, TN_INTS(3)), 2, 3, 4); /* the storage suffices */
    EXPECT(p, marked(p, tn_resize_(s, y, TN_INTS(6))), 2, 3, 4, 5, -7, -7);
    EXPECT(p, x, 0, 1, 2, 3, 4, 5);
    EXPECT(p, tn_add_out(s, x, x, tn_zeros(s, TN_INTS(0))), 0, 2, 4, 6, 8, 10);
    tn_resize_(s, tn_empty(s, TN_INTS(2), .device = TN_DEVICE(TN_INTERNED_META, 0)), TN_INTS(9));
    tn_set_deterministic(p->ctx, 0);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
}

/*
 * A scope's device is the default of factories; a named device wins; without an index it is the current
 * device.
 */
ON_EACH_DEVICE(devices, of_factories)
{
    tn_scope *s = p->s;
    cr_assert_eq(tn_tensor_device(tn_zeros(s, TN_INTS(1))), p->device);
    cr_assert_eq(tn_tensor_device(tn_zeros(s, TN_INTS(1), .device = TN_CPU)), TN_CPU);
    tn_device unnumbered = TN_DEVICE(TN_DEVICE_TYPE(p->device), -1);
    cr_assert_eq(tn_tensor_device(tn_zeros(s, TN_INTS(1), .device = unnumbered)), p->device);
    tn_device second = TN_DEVICE(TN_DEVICE_TYPE(p->device), 1);
    if (tn_device_set_current(p->ctx, second) == TN_OK) {
        cr_assert_eq(tn_tensor_device(tn_zeros(s, TN_INTS(1), .device = unnumbered)), second);
        tn_device_set_current(p->ctx, p->device);
    }
    tn_clear_error();
    /* Results stay where their arguments are. */
    cr_assert_eq(tn_tensor_device(tn_exp(s, tn_zeros(s, TN_INTS(1), .device = TN_CPU))), TN_CPU);
}

ON_EACH_DEVICE(devices, meta)
{
    tn_scope *s = p->s;
    tn_device meta = TN_DEVICE(TN_INTERNED_META, 0);
    tn_tensor *x = tn_empty(s, TN_INTS(30, 30), .device = meta);
    expect_text(p, x, "tensor(..., device='meta', size=(30, 30))");
    tn_tensor *y = tn_mm(s, x, tn_empty(s, TN_INTS(30, 4), .device = meta));
    expect_sizes(p, y, TN_INTS(30, 4));
    cr_assert_eq(tn_tensor_device(y), meta);
    tn__to_copy(s, x, .device = p->device);
    expect_error(p, "Cannot copy out of meta tensor; no data!");
    tn_nonzero(s, x);
    cr_assert_neq(tn_scope_failed(s), TN_OK);
    tn_scope_clear(s);
}
