/* SPDX-License-Identifier: Apache-2.0 */
/* Products of the CPU plugin against sums in double, over sizes on both sides of the switch to a library. */
#include "cpu_nn.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *expected_product(const float *a, const float *b, int64_t m, int64_t n, int64_t k)
{
    double *c = calloc((size_t)(m * n), sizeof(double));
    cr_assert_not_null(c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) c[i * n + j] += (double)a[i * k + p] * (double)b[p * n + j];
    return c;
}

/* All four ways of storing the operands. */
static void check_mm(fixture *f, int64_t m, int64_t n, int64_t k, int32_t threads, uint32_t flags)
{
    for (int way = 0; way < 4; way++) {
        fixture_tensor a = nn_tensor(f, 2, way & 1 ? SIZES(k, m) : SIZES(m, k), 1);
        fixture_tensor b = nn_tensor(f, 2, way & 2 ? SIZES(n, k) : SIZES(k, n), 2);
        fixture_tensor out = nn_tensor(f, 2, SIZES(m, n), 0);
        float *x = malloc((size_t)(m * k) * 4), *y = malloc((size_t)(k * n) * 4);
        fixture_tensor left = way & 1 ? nn_transposed(&a, 0, 1) : a,
                       right = way & 2 ? nn_transposed(&b, 0, 1) : b;
        for (int64_t i = 0; i < m; i++)
            for (int64_t p = 0; p < k; p++)
                x[i * k + p] = ((float *)a.desc.host)[i * left.strides[0] + p * left.strides[1]];
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++)
                y[p * n + j] = ((float *)b.desc.host)[p * right.strides[0] + j * right.strides[1]];
        tn_value args[] = {fixture_value(&left), fixture_value(&right)}, outs[] = {fixture_value(&out)};
        cr_assert_eq(nn_run(f, "aten::mm", args, 2, outs, 1, threads, flags), TN_OK);
        double *expected = expected_product(x, y, m, n, k);
        nn_expect(f, &out, expected, 1e-5 * sqrt((double)k + 1), "mm");
        free(expected);
        free(x);
        free(y);
        fixture_tensor_free(f, &a);
        fixture_tensor_free(f, &b);
        fixture_tensor_free(f, &out);
    }
}

Test(cpu_nn_product, mm_of_all_sizes_and_storage)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},     {17, 1, 33},    {1, 19, 40},
                                       {40, 50, 60}, {96, 130, 70}, {160, 96, 300}, {5, 6, 4000}};
    fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_mm(&f, sizes[i][0], sizes[i][1], sizes[i][2], 1, 0);
        check_mm(&f, sizes[i][0], sizes[i][1], sizes[i][2], 2, 0);
    }
    fixture_close(&f);
}

Test(cpu_nn_product, empty_sum_is_zero)
{
    fixture f;
    fixture_open(&f);
    float one = 1;
    fixture_tensor a = fixture_tensor_make(&f, TN_FLOAT32, 2, SIZES(1, 0), NULL);
    fixture_tensor b = fixture_tensor_make(&f, TN_FLOAT32, 2, SIZES(0, 1), NULL);
    fixture_tensor out = fixture_tensor_make(&f, TN_FLOAT32, 2, SIZES(1, 1), &one);
    tn_value args[] = {fixture_value(&a), fixture_value(&b)}, outs[] = {fixture_value(&out)};
    cr_assert_eq(nn_run(&f, "aten::mm", args, 2, outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &out, (const double[]){0}, 0, "mm of nothing");
    fixture_close(&f);
}

Test(cpu_nn_product, addmm_with_beta_zero_ignores_nan)
{
    fixture f;
    fixture_open(&f);
    float nan_bias[2] = {NAN, NAN}, left[4] = {1, 2, 3, 4}, right[4] = {5, 6, 7, 8};
    fixture_tensor bias = fixture_tensor_make(&f, TN_FLOAT32, 1, SIZES(2), nan_bias);
    fixture_tensor a = fixture_tensor_make(&f, TN_FLOAT32, 2, SIZES(2, 2), left);
    fixture_tensor b = fixture_tensor_make(&f, TN_FLOAT32, 2, SIZES(2, 2), right);
    fixture_tensor out = fixture_tensor_make(&f, TN_FLOAT32, 2, SIZES(2, 2), NULL);
    tn_value args[] = {fixture_value(&bias), fixture_value(&a), fixture_value(&b), tn_value_int(0),
                       tn_value_float(2)};
    tn_value outs[] = {fixture_value(&out)};
    cr_assert_eq(nn_run(&f, "aten::addmm", args, COUNT(args), outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &out, (const double[]){38, 44, 86, 100}, 0, "addmm");
    fixture_close(&f);
}

Test(cpu_nn_product, integers_wrap)
{
    fixture f;
    fixture_open(&f);
    int8_t left[2] = {100, 100}, right[2] = {2, 1}, got;
    fixture_tensor a = fixture_tensor_make(&f, TN_INT8, 2, SIZES(1, 2), left);
    fixture_tensor b = fixture_tensor_make(&f, TN_INT8, 2, SIZES(2, 1), right);
    fixture_tensor out = fixture_tensor_make(&f, TN_INT8, 2, SIZES(1, 1), NULL);
    tn_value args[] = {fixture_value(&a), fixture_value(&b)}, outs[] = {fixture_value(&out)};
    cr_assert_eq(nn_run(&f, "aten::mm", args, 2, outs, 1, 1, 0), TN_OK);
    cr_assert_eq(fixture_read(&f, &out, &got), TN_OK);
    cr_assert_eq(got, (int8_t)(300 - 256));
    fixture_close(&f);
}

Test(cpu_nn_product, bfloat16_rounds_once)
{
    /* 1 + 256 * 2^-8 = 2 in float32; a bfloat16 sum would stop at 1. */
    enum { TERMS = 257 };
    uint16_t left[TERMS], right[TERMS], got;
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < TERMS; i++) {
        left[i] = 0x3f80;               /* 1 */
        right[i] = i ? 0x3b80 : 0x3f80; /* 2^-8, at first 1 */
    }
    fixture_tensor a = fixture_tensor_make(&f, TN_BFLOAT16, 2, SIZES(1, TERMS), left);
    fixture_tensor b = fixture_tensor_make(&f, TN_BFLOAT16, 2, SIZES(TERMS, 1), right);
    fixture_tensor out = fixture_tensor_make(&f, TN_BFLOAT16, 2, SIZES(1, 1), NULL);
    tn_value args[] = {fixture_value(&a), fixture_value(&b)}, outs[] = {fixture_value(&out)};
    cr_assert_eq(nn_run(&f, "aten::mm", args, 2, outs, 1, 1, 0), TN_OK);
    cr_assert_eq(fixture_read(&f, &out, &got), TN_OK);
    cr_assert_eq(got, 0x4000);
    fixture_close(&f);
}

Test(cpu_nn_product, batches)
{
    enum { BATCH = 6, M = 9, N = 11, DEPTH = 13 };
    fixture f;
    fixture_open(&f);
    fixture_tensor a = nn_tensor(&f, 3, SIZES(BATCH, M, DEPTH), 3),
                   b = nn_tensor(&f, 3, SIZES(BATCH, DEPTH, N), 4);
    fixture_tensor out = nn_tensor(&f, 3, SIZES(BATCH, M, N), 0);
    double expected[BATCH * M * N];
    for (int64_t i = 0; i < BATCH; i++) {
        double *c = expected_product((float *)a.desc.host + i * M * DEPTH,
                                     (float *)b.desc.host + i * DEPTH * N, M, N, DEPTH);
        memcpy(expected + i * M * N, c, M * N * sizeof(double));
        free(c);
    }
    tn_value args[] = {fixture_value(&a), fixture_value(&b)}, outs[] = {fixture_value(&out)};
    cr_assert_eq(nn_run(&f, "aten::bmm", args, 2, outs, 1, 2, 0), TN_OK);
    nn_expect(&f, &out, expected, 1e-5, "bmm");
    fixture_close(&f);
}

Test(cpu_nn_product, deterministic_results_do_not_depend_on_threads)
{
    enum { M = 130, N = 70, DEPTH = 5000 };
    fixture f;
    fixture_open(&f);
    fixture_tensor a = nn_tensor(&f, 2, SIZES(M, DEPTH), 5), b = nn_tensor(&f, 2, SIZES(DEPTH, N), 6);
    fixture_tensor first = nn_tensor(&f, 2, SIZES(M, N), 0), second = nn_tensor(&f, 2, SIZES(M, N), 0);
    tn_value args[] = {fixture_value(&a), fixture_value(&b)};
    tn_value one[] = {fixture_value(&first)}, two[] = {fixture_value(&second)};
    cr_assert_eq(nn_run(&f, "aten::mm", args, 2, one, 1, 1, TN_CALL_DETERMINISTIC), TN_OK);
    cr_assert_eq(nn_run(&f, "aten::mm", args, 2, two, 1, 3, TN_CALL_DETERMINISTIC), TN_OK);
    cr_assert_arr_eq(first.desc.host, second.desc.host, first.bytes);
    fixture_close(&f);
}

Test(cpu_nn_product, every_nan_is_the_canonical_bfloat16)
{
    fixture f;
    fixture_open(&f);
    const uint16_t a[2] = {0xffc1, 0x3f80},
                   b[2] = {0x3f80, 0x4000}; /* a NaN with sign and payload, 1; 1, 2 */
    uint16_t got = 0;
    fixture_tensor x = fixture_tensor_make(&f, TN_BFLOAT16, 2, SIZES(1, 2), a);
    fixture_tensor y = fixture_tensor_make(&f, TN_BFLOAT16, 2, SIZES(2, 1), b);
    fixture_tensor out = fixture_tensor_make(&f, TN_BFLOAT16, 2, SIZES(1, 1), NULL);
    tn_value args[] = {fixture_value(&x), fixture_value(&y)}, outs[] = {fixture_value(&out)};
    cr_assert_eq(nn_run(&f, "aten::mm", args, 2, outs, 1, 1, 0), TN_OK);
    fixture_read(&f, &out, &got);
    cr_assert_eq(got, 0x7fc0, "0x%x", got);
    fixture_close(&f);
}
