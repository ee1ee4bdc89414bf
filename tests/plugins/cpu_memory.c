/* SPDX-License-Identifier: Apache-2.0 */
/* fill, copy, iota and random of the CPU plugin. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void copy(fixture *f, fixture_tensor *to, fixture_tensor *from)
{
    tn_value args[] = {fixture_value(to), fixture_value(from)}, out = fixture_value(to);
    cr_assert_eq(fixture_run(f, "prim::copy", args, 2, &out, 1, NULL), TN_OK, "%s", f->error_message);
}

Test(cpu_memory, fill_reaches_the_view_alone)
{
    int32_t got[24];
    fixture f;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_INT32, 2, (int64_t[]){4, 6}, NULL);
    fixture_tensor view = t;
    view.desc.sizes = view.sizes;
    view.desc.strides = view.strides;
    view.sizes[1] = 3;
    view.strides[1] = 2;
    tn_value args[] = {fixture_value(&view), tn_value_int(-7)}, out = fixture_value(&view);
    cr_assert_eq(fixture_run(&f, "prim::fill", args, 2, &out, 1, NULL), TN_OK);
    fixture_read(&f, &t, got);
    for (int i = 0; i < 24; i++) cr_assert_eq(got[i], i % 2 ? 0 : -7);
    fixture_close(&f);
}

/* The transpose of a row-major matrix, converted, on two threads. */
static void copy_transposed(tn_dtype from, const void *matrix, int64_t rows, int64_t columns, tn_dtype to,
                            void *out)
{
    const int64_t sizes[] = {columns, rows};
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, from, 2, sizes, matrix);
    fixture_tensor o = fixture_tensor_make(&f, to, 2, sizes, NULL);
    x.strides[0] = 1;
    x.strides[1] = columns;
    f.threads = 2;
    copy(&f, &o, &x);
    cr_assert_eq(fixture_read(&f, &o, out), TN_OK);
    fixture_close(&f);
}

Test(cpu_memory, copy_transposes)
{
    enum { ROWS = 130, COLUMNS = 77 };
    static double a[ROWS * COLUMNS], got[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) a[i] = i;
    copy_transposed(TN_FLOAT64, a, ROWS, COLUMNS, TN_FLOAT64, got);
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < ROWS; r++) cr_assert_eq(got[c * ROWS + r], r * COLUMNS + c);
}

/* Of elements of `bytes` bytes that hold their number, a matrix of rows that are `gap` elements too long. */
static void transpose_and_compare(fixture *f, tn_dtype dtype, int64_t bytes, int64_t rows, int64_t columns,
                                  int64_t gap)
{
    int64_t line = columns + gap, n = rows * line;
    uint8_t *numbers = calloc((size_t)n, (size_t)bytes);
    uint8_t *got = calloc((size_t)(rows * columns), (size_t)bytes);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < bytes && k < 3; k++) numbers[i * bytes + k] = (uint8_t)(i >> (8 * k));
    fixture_tensor x = fixture_tensor_make(f, dtype, 2, (int64_t[]){rows, line}, numbers);
    fixture_tensor o = fixture_tensor_make(f, dtype, 2, (int64_t[]){columns, rows}, NULL);
    x.sizes[0] = columns;
    x.sizes[1] = rows;
    x.strides[0] = 1;
    x.strides[1] = line;
    copy(f, &o, &x);
    fixture_read(f, &o, got);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++)
            cr_assert_arr_eq(got + (c * rows + r) * bytes, numbers + (r * line + c) * bytes, (size_t)bytes,
                             "%d bytes, %d x %d, element (%d, %d)", (int)bytes, (int)rows, (int)columns,
                             (int)r, (int)c);
    fixture_tensor_free(f, &x);
    fixture_tensor_free(f, &o);
    free(numbers);
    free(got);
}

Test(cpu_memory, copy_transposes_every_width_and_edge)
{
    static const tn_dtype dtypes[] = {TN_UINT8, TN_INT16, TN_INT32, TN_INT64, TN_COMPLEX128};
    static const int64_t sizes[][2] = {{2, 300}, {300, 2}, {3, 5},    {16, 16},
                                       {17, 33}, {64, 65}, {130, 77}, {5, 600}};
    fixture f;
    fixture_open(&f);
    f.threads = 2;
    for (int64_t i = 0; i < 5; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
            transpose_and_compare(&f, dtypes[i], INT64_C(1) << i, sizes[k][0], sizes[k][1], (int64_t)(k % 2));
    fixture_close(&f);
}

Test(cpu_memory, copy_transposes_and_converts)
{
    enum { ROWS = 70, COLUMNS = 301 };
    static int16_t a[ROWS * COLUMNS];
    static float got[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) a[i] = (int16_t)(i - 10000);
    copy_transposed(TN_INT16, a, ROWS, COLUMNS, TN_FLOAT32, got);
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < ROWS; r++) cr_assert_eq(got[c * ROWS + r], (float)(r * COLUMNS + c - 10000));
}

Test(cpu_memory, copy_converts)
{
    int64_t n = 6;
    float a[] = {1.75f, -2.5f, 0, 300, 65520, 1e-8f};
    uint16_t half[6];
    uint8_t truth[6];
    int64_t whole[6];
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, a);
    fixture_tensor h = fixture_tensor_make(&f, TN_FLOAT16, 1, &n, NULL);
    fixture_tensor b = fixture_tensor_make(&f, TN_BOOL, 1, &n, NULL);
    fixture_tensor i = fixture_tensor_make(&f, TN_INT64, 1, &n, NULL);
    copy(&f, &h, &x);
    copy(&f, &b, &x);
    copy(&f, &i, &x);
    fixture_read(&f, &h, half);
    fixture_read(&f, &b, truth);
    fixture_read(&f, &i, whole);
    cr_assert_arr_eq(half, ((uint16_t[]){0x3f00, 0xc100, 0, 0x5cb0, 0x7c00, 0}), 12);
    cr_assert_arr_eq(truth, ((uint8_t[]){1, 1, 0, 1, 1, 1}), 6);
    cr_assert_arr_eq(whole, ((int64_t[]){1, -2, 0, 300, 65520, 0}), 48);
    fixture_close(&f);
}

Test(cpu_memory, copy_resolves_lazy_bits)
{
    int64_t n = 2;
    float got[4];
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_COMPLEX64, 1, &n, (float[]){1, 2, 3, -4});
    fixture_tensor o = fixture_tensor_make(&f, TN_COMPLEX64, 1, &n, NULL);
    x.desc.flags |= TN_DESC_CONJ;
    copy(&f, &o, &x);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, ((float[]){1, -2, 3, 4}), 16);
    x.desc.flags |= TN_DESC_NEG;
    copy(&f, &o, &x);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, ((float[]){-1, 2, -3, -4}), 16);
    fixture_close(&f);
}

Test(cpu_memory, iota_counts_in_row_major_order)
{
    double got[6];
    fixture f;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT64, 2, (int64_t[]){2, 3}, NULL);
    t.strides[0] = 1;
    t.strides[1] = 2;
    tn_value args[] = {fixture_value(&t), tn_value_float(0.5), tn_value_int(2)}, out = fixture_value(&t);
    cr_assert_eq(fixture_run(&f, "prim::iota", args, 3, &out, 1, NULL), TN_OK);
    fixture_read(&f, &t, got);
    cr_assert_arr_eq(got, ((double[]){0.5, 6.5, 2.5, 8.5, 4.5, 10.5}), sizeof got);
    fixture_close(&f);
}

static void draw(fixture *f, fixture_tensor *t, int64_t distribution, tn_value a, tn_value b, int64_t seed,
                 int64_t offset)
{
    tn_value args[] = {fixture_value(t),   tn_value_int(distribution), a, b,
                       tn_value_int(seed), tn_value_int(offset)};
    tn_value out = fixture_value(t);
    cr_assert_eq(fixture_run(f, "prim::random", args, 6, &out, 1, NULL), TN_OK, "%s", f->error_message);
}

/* The known answer of Philox-4x32-10 for key and counter 0 (Salmon et al. 2011). */
Test(cpu_memory, random_bits_are_philox)
{
    int64_t n = 4, got[4];
    uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    float unit[4];
    fixture f;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_INT64, 1, &n, NULL);
    fixture_tensor u = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, NULL);
    draw(&f, &t, TN_RANDOM_BITS, tn_value_int(0), tn_value_int(0), 0, 0);
    fixture_read(&f, &t, got);
    cr_assert_eq((uint64_t)got[0], words[0] | (uint64_t)words[1] << 32);
    cr_assert_eq((uint64_t)got[1], words[2] | (uint64_t)words[3] << 32);
    draw(&f, &u, TN_RANDOM_UNIFORM, tn_value_float(0), tn_value_float(1), 0, 0);
    fixture_read(&f, &u, unit);
    for (int i = 0; i < 4; i++) cr_assert_eq(unit[i], (float)(words[i] >> 8) * 0x1p-24f);
    fixture_close(&f);
}

Test(cpu_memory, random_numbers_ignore_threads_and_have_their_moments)
{
    enum { N = 200000 };
    static float one[N], three[N];
    int64_t n = N;
    double mean = 0, square = 0;
    fixture f;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, NULL);
    draw(&f, &t, TN_RANDOM_NORMAL, tn_value_float(2), tn_value_float(3), 12345, 678);
    fixture_read(&f, &t, one);
    f.threads = 3;
    draw(&f, &t, TN_RANDOM_NORMAL, tn_value_float(2), tn_value_float(3), 12345, 678);
    fixture_read(&f, &t, three);
    cr_assert_arr_eq(one, three, sizeof one);
    for (int i = 0; i < N; i++) mean += one[i], square += (double)one[i] * one[i];
    mean /= N;
    cr_assert_float_eq(mean, 2, 0.05);
    cr_assert_float_eq(sqrt(square / N - mean * mean), 3, 0.05);
    fixture_close(&f);
}
