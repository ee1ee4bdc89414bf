/* SPDX-License-Identifier: Apache-2.0 */
/* Order on the CPU plugin: sort, topk, unique, searchsorted, scans. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

Test(cpu_sort, stable_in_both_directions_with_nan_last_or_first)
{
    int64_t n = 6, at[6];
    float got[6];
    fixture f;
    fixture_open(&f);
    fixture_tensor x =
        fixture_tensor_make(&f, TN_FLOAT32, 1, &n, (float[]){2, NAN, -0.0f, 0.0f, -INFINITY, 2});
    fixture_tensor v = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, NULL);
    fixture_tensor i = fixture_tensor_make(&f, TN_INT64, 1, &n, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_bool(1), tn_value_int(-1), tn_value_bool(0)};
    tn_value outs[] = {fixture_value(&v), fixture_value(&i)};
    cr_assert_eq(fixture_run(&f, "aten::sort.stable", args, 4, outs, 2, NULL), TN_OK);
    fixture_read(&f, &i, at);
    cr_assert_arr_eq(at, ((int64_t[]){4, 2, 3, 0, 5, 1}), 48);
    args[3] = tn_value_bool(1);
    cr_assert_eq(fixture_run(&f, "aten::sort.stable", args, 4, outs, 2, NULL), TN_OK);
    fixture_read(&f, &i, at);
    fixture_read(&f, &v, got);
    cr_assert_arr_eq(at, ((int64_t[]){1, 0, 5, 2, 3, 4}), 48);
    cr_assert(isnan(got[0]) && got[1] == 2 && got[5] == -INFINITY);
    fixture_close(&f);
}

Test(cpu_sort, long_lines_and_topk)
{
    enum { N = 10007 };
    static int64_t a[N], got[N], at[N];
    int64_t n = N, k = 5;
    fixture f;
    /* A permutation of 0 .. N - 1: multiples of a number prime to N. */
    for (int64_t i = 0; i < N; i++) a[i] = i * 4243 % N;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_INT64, 1, &n, a);
    fixture_tensor v = fixture_tensor_make(&f, TN_INT64, 1, &n, NULL),
                   i = fixture_tensor_make(&f, TN_INT64, 1, &n, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_bool(1), tn_value_int(0), tn_value_bool(0)};
    tn_value outs[] = {fixture_value(&v), fixture_value(&i)};
    cr_assert_eq(fixture_run(&f, "aten::sort.stable", args, 4, outs, 2, NULL), TN_OK);
    fixture_read(&f, &v, got);
    fixture_read(&f, &i, at);
    for (int64_t j = 0; j < N; j++) cr_assert(got[j] == j && a[at[j]] == j);
    fixture_tensor tv = fixture_tensor_make(&f, TN_INT64, 1, &k, NULL),
                   ti = fixture_tensor_make(&f, TN_INT64, 1, &k, NULL);
    tn_value top[] = {fixture_value(&x), tn_value_int(k), tn_value_int(-1), tn_value_bool(1),
                      tn_value_bool(1)};
    tn_value best[] = {fixture_value(&tv), fixture_value(&ti)};
    cr_assert_eq(fixture_run(&f, "aten::topk", top, 5, best, 2, NULL), TN_OK);
    fixture_read(&f, &tv, got);
    for (int64_t j = 0; j < k; j++) cr_assert_eq(got[j], N - 1 - j);
    fixture_close(&f);
}

/* topk of a line with many equal elements against counting: element i has rank = elements above it, and equal
 * ones before it. */
static void check_topk(fixture *f, int64_t n, int64_t k, int64_t values)
{
    float *x = calloc((size_t)n, sizeof *x), *got = calloc((size_t)k, sizeof *got);
    int64_t *at = calloc((size_t)k, sizeof *at), *expected = calloc((size_t)k, sizeof *expected);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i * 7919 % values) - (float)(values / 2);
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = 0;
        for (int64_t j = 0; j < n && rank < k; j++) rank += x[j] > x[i] || (x[j] == x[i] && j < i);
        if (rank < k) expected[rank] = i;
    }
    fixture_tensor t = fixture_tensor_make(f, TN_FLOAT32, 1, &n, x);
    fixture_tensor v = fixture_tensor_make(f, TN_FLOAT32, 1, &k, NULL);
    fixture_tensor p = fixture_tensor_make(f, TN_INT64, 1, &k, NULL);
    tn_value args[] = {fixture_value(&t), tn_value_int(k), tn_value_int(0), tn_value_bool(1),
                       tn_value_bool(1)};
    tn_value outs[] = {fixture_value(&v), fixture_value(&p)};
    cr_assert_eq(fixture_run(f, "aten::topk", args, 5, outs, 2, NULL), TN_OK);
    fixture_read(f, &v, got);
    fixture_read(f, &p, at);
    for (int64_t i = 0; i < k; i++) {
        cr_assert_eq(at[i], expected[i], "%d of %d, %d values: place %d is %d, expected %d", (int)k, (int)n,
                     (int)values, (int)i, (int)at[i], (int)expected[i]);
        cr_assert_eq(got[i], x[expected[i]]);
    }
    fixture_tensor_free(f, &t);
    fixture_tensor_free(f, &v);
    fixture_tensor_free(f, &p);
    free(x);
    free(got);
    free(at);
    free(expected);
}

Test(cpu_sort, topk_of_every_size_keeps_the_first_of_equals)
{
    static const int64_t sizes[][2] = {{1, 1},    {5, 5},    {20, 3},     {60, 20},
                                       {300, 16}, {300, 17}, {3000, 100}, {5000, 40}};
    fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int64_t values = 1; values < 10000; values *= 10)
            check_topk(&f, sizes[i][0], sizes[i][1], values);
    fixture_close(&f);
}

Test(cpu_sort, unique_with_inverse_and_counts)
{
    int64_t n = 5, none = 0, values[3], inverse[5], counts[3];
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_INT64, 1, &n, (int64_t[]){7, -1, 7, 3, -1});
    fixture_tensor v = fixture_tensor_make(&f, TN_INT64, 1, &none, NULL);
    fixture_tensor w = fixture_tensor_make(&f, TN_INT64, 1, &none, NULL);
    fixture_tensor c = fixture_tensor_make(&f, TN_INT64, 1, &none, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_bool(1), tn_value_bool(1), tn_value_bool(1)};
    tn_value outs[] = {fixture_value(&v), fixture_value(&w), fixture_value(&c)};
    cr_assert_eq(fixture_run(&f, "aten::_unique2", args, 4, outs, 3, NULL), TN_OK);
    cr_assert_eq(v.sizes[0], 3);
    fixture_read(&f, &v, values);
    fixture_read(&f, &w, inverse);
    fixture_read(&f, &c, counts);
    cr_assert_arr_eq(values, ((int64_t[]){-1, 3, 7}), 24);
    cr_assert_arr_eq(inverse, ((int64_t[]){2, 0, 2, 1, 0}), 40);
    cr_assert_arr_eq(counts, ((int64_t[]){2, 1, 2}), 24);
    fixture_close(&f);
}

Test(cpu_sort, searchsorted_on_either_side)
{
    int64_t n = 4, m = 3, got[3];
    fixture f;
    fixture_open(&f);
    fixture_tensor s = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, (float[]){1, 2, 2, 5});
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &m, (float[]){2, 0, 9});
    fixture_tensor o = fixture_tensor_make(&f, TN_INT64, 1, &m, NULL);
    tn_value args[] = {fixture_value(&s), fixture_value(&x), tn_value_bool(0),
                       tn_value_bool(0),  tn_value_none(),   tn_value_none()};
    tn_value out = fixture_value(&o);
    cr_assert_eq(fixture_run(&f, "aten::searchsorted.Tensor", args, 6, &out, 1, NULL), TN_OK);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, ((int64_t[]){1, 0, 4}), 24);
    args[4] = tn_value_string("right");
    cr_assert_eq(fixture_run(&f, "aten::searchsorted.Tensor", args, 6, &out, 1, NULL), TN_OK);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, ((int64_t[]){3, 0, 4}), 24);
    fixture_close(&f);
}

/* Zeros of either sign are equal and the first stands; each NaN is unequal to all others. */
static void neighbours(tn_dtype dtype, const void *x, int64_t n, const void *want, int64_t found,
                       const int64_t *want_inverse, const int64_t *want_counts)
{
    char got[64];
    int64_t inverse[16], counts[16], none = 0;
    fixture f;
    fixture_open(&f);
    fixture_tensor a = fixture_tensor_make(&f, dtype, 1, &n, x),
                   v = fixture_tensor_make(&f, dtype, 1, &none, NULL),
                   i = fixture_tensor_make(&f, TN_INT64, 1, &none, NULL),
                   c = fixture_tensor_make(&f, TN_INT64, 1, &none, NULL);
    tn_value args[] = {fixture_value(&a), tn_value_bool(1), tn_value_bool(1), tn_value_none()};
    tn_value outs[] = {fixture_value(&v), fixture_value(&i), fixture_value(&c)};
    cr_assert_eq(fixture_run(&f, "aten::unique_consecutive", args, 4, outs, 3, NULL), TN_OK);
    cr_assert_eq(v.sizes[0], found);
    cr_assert_eq(c.sizes[0], found);
    fixture_read(&f, &v, got);
    fixture_read(&f, &i, inverse);
    fixture_read(&f, &c, counts);
    cr_assert_arr_eq(got, want, (size_t)(found * tn_dtype_bytes(dtype)));
    cr_assert_arr_eq(inverse, want_inverse, (size_t)n * 8);
    cr_assert_arr_eq(counts, want_counts, (size_t)found * 8);
    fixture_close(&f);
}

Test(cpu_sort, neighbours_that_are_equal)
{
    static const int64_t inverse[] = {0, 0, 1, 1, 1, 2, 3, 4}, counts[] = {2, 3, 1, 1, 1};
    neighbours(TN_FLOAT32, (float[]){2, 2, -0.0f, 0.0f, 0.0f, NAN, NAN, 2}, 8,
               (float[]){2, -0.0f, NAN, NAN, 2}, 5, inverse, counts);
    neighbours(TN_FLOAT64, (double[]){2, 2, -0.0, 0.0, 0.0, (double)NAN, (double)NAN, 2}, 8,
               (double[]){2, -0.0, (double)NAN, (double)NAN, 2}, 5, inverse, counts);
    neighbours(TN_FLOAT16, (uint16_t[]){0x4000, 0x4000, 0x8000, 0, 0, 0x7e00, 0x7e00, 0x7c00}, 8,
               (uint16_t[]){0x4000, 0x8000, 0x7e00, 0x7e00, 0x7c00}, 5, inverse, counts);
    neighbours(TN_BFLOAT16, (uint16_t[]){0x4000, 0x4000, 0x8000, 0, 0, 0x7fc0, 0x7fc0, 0x7f80}, 8,
               (uint16_t[]){0x4000, 0x8000, 0x7fc0, 0x7fc0, 0x7f80}, 5, inverse, counts);
    neighbours(TN_INT64, (int64_t[]){2, 2, 0, 0, 0, INT64_MIN, 1, 2}, 8, (int64_t[]){2, 0, INT64_MIN, 1, 2},
               5, inverse, counts);
    neighbours(TN_INT16, (int16_t[]){2, 2, 0, 0, 0, -1, 1, 2}, 8, (int16_t[]){2, 0, -1, 1, 2}, 5, inverse,
               counts);
    neighbours(TN_UINT8, (uint8_t[]){2, 2, 0, 0, 0, 255, 1, 2}, 8, (uint8_t[]){2, 0, 255, 1, 2}, 5, inverse,
               counts);
}
