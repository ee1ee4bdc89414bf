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

/* a @ b of one thread, in `first`, is that of several, in `second`, bit for bit. */
static void expect_same_of_threads(fixture *f, fixture_tensor *a, fixture_tensor *b, fixture_tensor *first,
                                   fixture_tensor *second, uint32_t threads)
{
    tn_value args[] = {fixture_value(a), fixture_value(b)};
    tn_value one[] = {fixture_value(first)}, two[] = {fixture_value(second)};
    cr_assert_eq(nn_run(f, "aten::mm", args, 2, one, 1, 1, TN_CALL_DETERMINISTIC), TN_OK);
    cr_assert_eq(nn_run(f, "aten::mm", args, 2, two, 1, threads, TN_CALL_DETERMINISTIC), TN_OK);
    cr_assert_arr_eq(first->desc.host, second->desc.host, first->bytes);
}

Test(cpu_nn_product, deterministic_results_do_not_depend_on_threads)
{
    enum { M = 130, N = 70, DEPTH = 5000 };
    fixture f;
    fixture_open(&f);
    fixture_tensor a = nn_tensor(&f, 2, SIZES(M, DEPTH), 5), b = nn_tensor(&f, 2, SIZES(DEPTH, N), 6);
    fixture_tensor first = nn_tensor(&f, 2, SIZES(M, N), 0), second = nn_tensor(&f, 2, SIZES(M, N), 0);
    expect_same_of_threads(&f, &a, &b, &first, &second, 3);
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

/* ---- Libraries, products with few rows, half types --------------------------------------------------- */

static double value_of(tn_dtype dtype, const void *data, int64_t i)
{
    if (dtype == TN_FLOAT32) return (double)((const float *)data)[i];
    uint16_t bits = ((const uint16_t *)data)[i];
    if (dtype == TN_BFLOAT16) {
        uint32_t wide = (uint32_t)bits << 16;
        float out;
        memcpy(&out, &wide, sizeof out);
        return (double)out;
    }
    double fraction = (double)(bits & 0x3ff) / 1024;
    int exponent = bits >> 10 & 0x1f;
    double size = exponent ? ldexp(1 + fraction, exponent - 15) : ldexp(fraction, -14);
    return bits & 0x8000 ? -size : size;
}

/* Numbers in [-1, 1) that every dtype holds exactly: multiples of 1/128. */
static fixture_tensor exact_tensor(fixture *f, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                                   uint32_t seed)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= sizes[i];
    float *noise = malloc((size_t)count * 4);
    nn_noise(noise, count, seed);
    for (int64_t i = 0; i < count; i++) {
        float x = floorf(noise[i] * 128) / 128;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (dtype == TN_FLOAT32) {
            noise[i] = x;
        } else if (dtype == TN_BFLOAT16) {
            ((uint16_t *)noise)[i] = (uint16_t)(bits >> 16);
        } else {
            /* float16: the exponent moves from 127 to 15; numbers below 2^-7 do not occur, apart from 0. */
            uint32_t half = x == 0 ? 0 : (((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff));
            ((uint16_t *)noise)[i] = (uint16_t)(half | (bits >> 16 & 0x8000));
        }
    }
    fixture_tensor t = fixture_tensor_make(f, dtype, rank, sizes, noise);
    free(noise);
    return t;
}

/* All elements of a tensor, as doubles; the caller frees them. */
static double *values_of(const fixture_tensor *t)
{
    int64_t count = (int64_t)(t->bytes / (uint64_t)tn_dtype_bytes(t->desc.dtype));
    double *out = calloc((size_t)count, sizeof *out);
    cr_assert_not_null(out);
    for (int64_t i = 0; i < count; i++) out[i] = value_of(t->desc.dtype, t->desc.host, i);
    return out;
}

static double relative_step(tn_dtype dtype)
{
    return dtype == TN_FLOAT32 ? 0x1p-23 : dtype == TN_BFLOAT16 ? 0x1p-7 : 0x1p-10;
}

/* addmm with a row as bias, or mm, against a sum in double that is rounded once. */
static void check_product(fixture *f, tn_dtype dtype, int64_t m, int64_t n, int64_t k, int way,
                          bool with_bias)
{
    fixture_tensor a = exact_tensor(f, dtype, 2, way & 1 ? SIZES(k, m) : SIZES(m, k), 1);
    fixture_tensor b = exact_tensor(f, dtype, 2, way & 2 ? SIZES(n, k) : SIZES(k, n), 2);
    fixture_tensor bias = exact_tensor(f, dtype, 1, SIZES(n), 3),
                   out = exact_tensor(f, dtype, 2, SIZES(m, n), 4);
    fixture_tensor left = way & 1 ? nn_transposed(&a, 0, 1) : a,
                   right = way & 2 ? nn_transposed(&b, 0, 1) : b;
    tn_value all[] = {fixture_value(&bias), fixture_value(&left), fixture_value(&right), tn_value_int(1),
                      tn_value_int(1)};
    tn_value outs[] = {fixture_value(&out)};
    int32_t status = with_bias ? nn_run(f, "aten::addmm", all, COUNT(all), outs, 1, 2, 0)
                               : nn_run(f, "aten::mm", all + 1, 2, outs, 1, 2, 0);
    cr_assert_eq(status, TN_OK);
    double *x = values_of(&a), *y = values_of(&b);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = with_bias ? value_of(dtype, bias.desc.host, j) : 0, size = 1;
            for (int64_t p = 0; p < k; p++) {
                double term = x[i * left.strides[0] + p * left.strides[1]] *
                              y[p * right.strides[0] + j * right.strides[1]];
                sum += term;
                size += fabs(term);
            }
            double got = value_of(dtype, out.desc.host, i * n + j);
            double tolerance = 0.51 * relative_step(dtype) * fabs(sum) + size * 0x1p-22;
            if (dtype == TN_FLOAT16) tolerance += 0x1p-25; /* below the normal numbers */
            cr_assert(fabs(got - sum) <= tolerance, "%lld x %lld x %lld, way %d, bias %d: %g, not %g",
                      (long long)m, (long long)k, (long long)n, way, with_bias, got, sum);
        }
    }
    free(x);
    free(y);
    fixture_tensor_free(f, &a);
    fixture_tensor_free(f, &b);
    fixture_tensor_free(f, &bias);
    fixture_tensor_free(f, &out);
}

Test(cpu_nn_product, halves_and_floats_of_all_forms)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_BFLOAT16, TN_FLOAT16};
    /* Few rows, few columns, sizes on both sides of panels and vectors, and a long sum. */
    static const int64_t sizes[][3] = {{1, 70, 333},  {3, 1100, 67}, {4, 37, 130},
                                       {5, 130, 64},  {130, 1, 300}, {70, 270, 530},
                                       {260, 40, 20}, {2, 9, 5000},  {33, 65, 1500}};
    fixture f;
    fixture_open(&f);
    for (size_t d = 0; d < COUNT(dtypes); d++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (int way = 0; way < 8; way++)
                check_product(&f, dtypes[d], sizes[i][0], sizes[i][1], sizes[i][2], way & 3, way & 4);
    fixture_close(&f);
}

Test(cpu_nn_product, alpha_and_beta_of_halves)
{
    enum { M = 40, N = 50, DEPTH = 60 };
    fixture f;
    fixture_open(&f);
    for (int d = 0; d < 2; d++) {
        tn_dtype dtype = d ? TN_BFLOAT16 : TN_FLOAT32;
        fixture_tensor self = exact_tensor(&f, dtype, 2, SIZES(M, N), 1),
                       a = exact_tensor(&f, dtype, 2, SIZES(M, DEPTH), 2),
                       b = exact_tensor(&f, dtype, 2, SIZES(DEPTH, N), 3),
                       out = exact_tensor(&f, dtype, 2, SIZES(M, N), 4);
        tn_value args[] = {fixture_value(&self), fixture_value(&a), fixture_value(&b), tn_value_float(-2),
                           tn_value_float(0.5)};
        tn_value outs[] = {fixture_value(&out)};
        cr_assert_eq(nn_run(&f, "aten::addmm", args, COUNT(args), outs, 1, 2, 0), TN_OK);
        for (int64_t i = 0; i < M; i++) {
            for (int64_t j = 0; j < N; j++) {
                double sum = 0, got = value_of(dtype, out.desc.host, i * N + j);
                for (int64_t p = 0; p < DEPTH; p++)
                    sum +=
                        value_of(dtype, a.desc.host, i * DEPTH + p) * value_of(dtype, b.desc.host, p * N + j);
                sum = 0.5 * sum - 2 * value_of(dtype, self.desc.host, i * N + j);
                cr_assert_float_eq(got, sum, 0.51 * relative_step(dtype) * fabs(sum) + 1e-5);
            }
        }
    }
    fixture_close(&f);
}

/* Batches whose matrices follow one another, transposed ones, and a matrix that all share. */
Test(cpu_nn_product, large_batches)
{
    enum { BATCH = 7, M = 64, N = 48, DEPTH = 56 };
    fixture f;
    fixture_open(&f);
    for (int form = 0; form < 8; form++) {
        tn_dtype dtype = form & 4 ? TN_BFLOAT16 : TN_FLOAT32;
        fixture_tensor a = exact_tensor(&f, dtype, 3, SIZES(BATCH, M, DEPTH), 1);
        fixture_tensor b =
            exact_tensor(&f, dtype, 3, form & 1 ? SIZES(BATCH, N, DEPTH) : SIZES(BATCH, DEPTH, N), 2);
        fixture_tensor out = exact_tensor(&f, dtype, 3, SIZES(BATCH, M, N), 3);
        fixture_tensor right = form & 1 ? nn_transposed(&b, 1, 2) : b;
        if (form & 2) right.strides[0] = 0;
        tn_value args[] = {fixture_value(&a), fixture_value(&right)}, outs[] = {fixture_value(&out)};
        cr_assert_eq(nn_run(&f, "aten::bmm", args, 2, outs, 1, 2, 0), TN_OK);
        for (int64_t i = 0; i < BATCH * M * N; i++) {
            int64_t item = i / (M * N), row = i / N % M, column = i % N;
            double sum = 0, got = value_of(dtype, out.desc.host, i);
            for (int64_t p = 0; p < DEPTH; p++)
                sum += value_of(dtype, a.desc.host, (item * M + row) * DEPTH + p) *
                       value_of(dtype, b.desc.host,
                                item * right.strides[0] + p * right.strides[1] + column * right.strides[2]);
            cr_assert_float_eq(got, sum, 0.51 * relative_step(dtype) * fabs(sum) + 1e-5,
                               "form %d: %g, not %g", form, got, sum);
        }
        fixture_tensor_free(&f, &a);
        fixture_tensor_free(&f, &b);
        fixture_tensor_free(&f, &out);
    }
    fixture_close(&f);
}

Test(cpu_nn_product, deterministic_halves_do_not_depend_on_threads)
{
    enum { M = 300, N = 500, DEPTH = 700 };
    static const tn_dtype dtypes[] = {TN_BFLOAT16, TN_FLOAT16, TN_FLOAT32};
    fixture f;
    fixture_open(&f);
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        fixture_tensor a = exact_tensor(&f, dtypes[d], 2, SIZES(M, DEPTH), 5),
                       b = exact_tensor(&f, dtypes[d], 2, SIZES(DEPTH, N), 6),
                       first = exact_tensor(&f, dtypes[d], 2, SIZES(M, N), 7),
                       second = exact_tensor(&f, dtypes[d], 2, SIZES(M, N), 8);
        expect_same_of_threads(&f, &a, &b, &first, &second, 4);
    }
    fixture_close(&f);
}
