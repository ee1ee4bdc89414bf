/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of the CPU plugin against sums in closed form, over inner and outer dimensions. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* Reduces `in` over the dimensions of the mask; `got` receives the result's bytes. */
static void reduce(fixture *f, const char *name, fixture_tensor *in, uint32_t mask, tn_dtype dtype,
                   int64_t count, void *got)
{
    fixture_nest nest;
    fixture_tensor o = fixture_tensor_make(f, dtype, 1, &count, NULL);
    tn_value args[] = {fixture_value(in), tn_value_none(), tn_value_none(), tn_value_bool(0),
                       tn_value_none()};
    tn_value out = fixture_value(&o);
    fixture_reduction(&nest, &o, in, mask);
    cr_assert_eq(fixture_run(f, name, args, 5, &out, 1, &nest.nest), TN_OK, "%s: %s", name, f->error_message);
    fixture_read(f, &o, got);
    fixture_tensor_free(f, &o);
}

Test(cpu_reduce, sums_along_each_dimension)
{
    enum { ROWS = 257, COLUMNS = 1031 };
    static float a[ROWS * COLUMNS], got[COLUMNS];
    fixture f;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) a[r * COLUMNS + c] = (float)(r - 100 + c % 7);
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, a);
    for (f.threads = 1; f.threads <= 3; f.threads++) {
        reduce(&f, "aten::sum.dim_IntList", &x, 2, TN_FLOAT32, ROWS, got);
        /* 1031 = 147 * 7 + 2: 147 times 0 + ... + 6, then 0 and 1. */
        for (int r = 0; r < ROWS; r++) cr_assert_eq(got[r], (float)((r - 100) * COLUMNS + 147 * 21 + 1));
        reduce(&f, "aten::sum.dim_IntList", &x, 1, TN_FLOAT32, COLUMNS, got);
        for (int c = 0; c < COLUMNS; c++) cr_assert_eq(got[c], (float)(ROWS * 28 + ROWS * (c % 7)));
        reduce(&f, "aten::amax", &x, 1, TN_FLOAT32, COLUMNS, got);
        for (int c = 0; c < COLUMNS; c++) cr_assert_eq(got[c], (float)(156 + c % 7));
    }
    fixture_close(&f);
}

Test(cpu_reduce, a_long_sum_keeps_its_small_terms_and_ignores_threads)
{
    int64_t n = 1 << 22;
    float *a = malloc((size_t)n * 4), got[3];
    fixture f;
    /* float32 alone would stop growing at 2^24 terms of 1; 0.1 has an error in each term. */
    for (int64_t i = 0; i < n; i++) a[i] = 0.1f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, a);
    for (f.threads = 1; f.threads <= 3; f.threads++)
        reduce(&f, "aten::sum", &x, 1, TN_FLOAT32, 1, &got[f.threads - 1]);
    cr_assert_float_eq(got[0], (float)((double)0.1f * (double)n), 0.2f);
    cr_assert(got[0] == got[1] && got[1] == got[2]);
    fixture_close(&f);
    free(a);
}

Test(cpu_reduce, first_of_equals_and_nan_wins)
{
    int64_t n = 200, got;
    float a[200];
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < 200; i++) a[i] = (float)(i % 50);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, a);
    reduce(&f, "aten::argmax", &x, 1, TN_INT64, 1, &got);
    cr_assert_eq(got, 49);
    reduce(&f, "aten::argmin", &x, 1, TN_INT64, 1, &got);
    cr_assert_eq(got, 0);
    fixture_tensor_free(&f, &x);
    a[120] = a[170] = NAN;
    x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, a);
    reduce(&f, "aten::argmax", &x, 1, TN_INT64, 1, &got);
    cr_assert_eq(got, 120);
    fixture_close(&f);
}

Test(cpu_reduce, variance_is_stable_far_from_zero)
{
    enum { N = 1000 };
    double a[N], got;
    int64_t n = N;
    fixture f;
    /* 0 .. 999 shifted: variance (N^2 - 1) / 12 * N / (N - 1). */
    for (int i = 0; i < N; i++) a[i] = 1e9 + i;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT64, 1, &n, a);
    reduce(&f, "aten::var.correction", &x, 1, TN_FLOAT64, 1, &got);
    cr_assert_float_eq(got, (N * (double)N - 1) / 12 * N / (N - 1), 1e-6);
    fixture_close(&f);
}

Test(cpu_reduce, bytes_are_summed_in_int64)
{
    static uint8_t a[100000];
    int64_t n = 100000, got;
    fixture f;
    for (int i = 0; i < 100000; i++) a[i] = 255;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_UINT8, 1, &n, a);
    reduce(&f, "aten::sum", &x, 1, TN_INT64, 1, &got);
    cr_assert_eq(got, 25500000);
    fixture_close(&f);
}

/* Runs of every length around whole vectors, neighbours of one another: each has one maximum, the last a NaN at its end. */
Test(cpu_reduce, runs_of_any_length)
{
    enum { ROWS = 5, LONGEST = 300 };
    static float a[ROWS * LONGEST];
    static uint16_t ones[ROWS * LONGEST];
    float got[ROWS];
    int64_t at[ROWS];
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < ROWS * LONGEST; i++) ones[i] = 0x3c00; /* 1 in float16 */
    for (int64_t n = 1; n <= LONGEST; n++) {
        for (int64_t i = 0; i < ROWS * n; i++) a[i] = (float)(i % n + 1);
        for (int64_t r = 0; r < ROWS; r++) a[r * n + (r * 37 + 5) % n] = 1000;
        a[ROWS * n - 1] = NAN;
        fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){ROWS, n}, a);
        fixture_tensor half = fixture_tensor_make(&f, TN_FLOAT16, 2, (int64_t[]){ROWS, n}, ones);
        reduce(&f, "aten::sum.dim_IntList", &x, 2, TN_FLOAT32, ROWS, got);
        for (int64_t r = 0; r + 1 < ROWS; r++)
            cr_assert_eq(got[r], (float)(n * (n + 1) / 2 + 1000 - (r * 37 + 5) % n - 1), "%d", (int)n);
        cr_assert(isnan(got[ROWS - 1]));
        reduce(&f, "aten::amax", &x, 2, TN_FLOAT32, ROWS, got);
        for (int64_t r = 0; r + 1 < ROWS; r++) cr_assert_eq(got[r], 1000);
        cr_assert(isnan(got[ROWS - 1]));
        reduce(&f, "aten::argmax", &x, 2, TN_INT64, ROWS, at);
        for (int64_t r = 0; r + 1 < ROWS; r++) cr_assert_eq(at[r], (r * 37 + 5) % n);
        cr_assert_eq(at[ROWS - 1], n - 1);
        reduce(&f, "aten::sum.dim_IntList", &half, 2, TN_FLOAT32, ROWS, got);
        for (int64_t r = 0; r < ROWS; r++) cr_assert_eq(got[r], (float)n);
        fixture_tensor_free(&f, &x);
        fixture_tensor_free(&f, &half);
    }
    fixture_close(&f);
}
