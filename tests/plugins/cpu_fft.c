/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms of the CPU plugin against the sum that defines them, in long double. */
#include "cpu_nn.h"
#include "frequency.h"

#include <stdlib.h>
#include <string.h>

/* A tensor of a real or complex dtype, with noise in `parts` real numbers, which `copy` receives. */
static fixture_tensor noisy(fixture *f, tn_dtype dtype, uint32_t rank, const int64_t *sizes, int64_t parts,
                            double *copy)
{
    uint32_t state = (uint32_t)parts;
    bool is_double = dtype == TN_FLOAT64 || dtype == TN_COMPLEX128;
    float *narrow = malloc((size_t)parts * sizeof *narrow);
    for (int64_t i = 0; i < parts; i++) narrow[i] = (float)(copy[i] = noise(&state));
    fixture_tensor t =
        fixture_tensor_make(f, dtype, rank, sizes, is_double ? (const void *)copy : (const void *)narrow);
    free(narrow);
    return t;
}

/* The parts of a tensor's elements as doubles. */
static void read_parts(fixture *f, const fixture_tensor *t, int64_t parts, double *out)
{
    float *narrow = (float *)(void *)out;
    cr_assert_eq(fixture_read(f, t, out), TN_OK);
    if (t->bytes == (uint64_t)parts * sizeof(double)) return;
    for (int64_t i = parts; i-- > 0;) {
        float x;
        memcpy(&x, &narrow[i], sizeof x);
        out[i] = x;
    }
}

/* Transforms dimension 1 of [a, n, b]; checks a few frequencies of each line. */
static void check_complex(fixture *f, int64_t a, int64_t n, int64_t b, tn_dtype dtype, bool forward,
                          int32_t threads)
{
    const int64_t dim[] = {1}, parts = 2 * a * n * b;
    double *in = malloc((size_t)parts * sizeof *in), *out = malloc((size_t)parts * sizeof *out);
    fixture_tensor x = noisy(f, dtype, 3, SIZES(a, n, b), parts, in);
    fixture_tensor y = fixture_tensor_make(f, dtype, 3, SIZES(a, n, b), NULL);
    tn_value args[] = {fixture_value(&x), tn_value_ints(dim, 1), tn_value_int(0), tn_value_bool(forward)};
    tn_value outs[] = {fixture_value(&y)};
    cr_assert_eq(nn_run(f, "aten::_fft_c2c", args, 4, outs, 1, threads, 0), TN_OK);
    read_parts(f, &y, parts, out);
    for (int64_t line = 0; line < a * b; line++) {
        int64_t start = line / b * n * b + line % b, few = n > 100 ? 5 : n;
        for (int64_t i = 0; i < few; i++) {
            int64_t k = n > 100 ? (line * 7 + i * (n / 4 + 1)) % n : i, at = start + k * b;
            expect_near(out[2 * at] + I * (long double)out[2 * at + 1],
                        frequency(in + 2 * start, n, b, k, forward ? -1 : 1), n, dtype == TN_COMPLEX128,
                        "transform");
        }
    }
    fixture_tensor_free(f, &x);
    fixture_tensor_free(f, &y);
    free(in);
    free(out);
}

/* All radices, products of them, primes without one of their own, long lines that are split, long ones padded. */
static const int64_t lengths[] = {1,   2,   3,   4,   5,   6,    7,    8,    9,    11,   12,   13,   16,
                                  17,  19,  21,  32,  37,  48,   64,   77,   91,   97,   128,  143,  169,
                                  240, 256, 257, 289, 512, 1000, 1009, 1155, 2048, 2187, 4096, 5003, 8192};

Test(cpu_fft, complex_lines)
{
    fixture f;
    fixture_open(&f);
    for (uint32_t i = 0; i < COUNT(lengths); i++) {
        int64_t n = lengths[i], few = n > 300 ? 2 : 5, many = n > 300 ? 3 : 19;
        check_complex(&f, 1, n, 1, TN_COMPLEX64, true, 1);
        check_complex(&f, 1, n, 1, TN_COMPLEX128, false, 1);
        check_complex(&f, many, n, 1, TN_COMPLEX64, false, 2);
        check_complex(&f, few, n, 1, TN_COMPLEX128, true, 1);
        check_complex(&f, 1, n, many, TN_COMPLEX64, true, 1);
        check_complex(&f, 2, n, 17, TN_COMPLEX128, true, 2);
    }
    fixture_close(&f);
}

/* Long enough for two threads in one line, and for twiddle factors that are products of two. */
Test(cpu_fft, long_lines)
{
    fixture f;
    fixture_open(&f);
    check_complex(&f, 1, 131072, 1, TN_COMPLEX64, true, 2);
    check_complex(&f, 1, 118098, 1, TN_COMPLEX128, false, 2);
    check_complex(&f, 1, 100003, 1, TN_COMPLEX64, true, 2);
    check_complex(&f, 1, 16384, 9, TN_COMPLEX128, true, 2);
    fixture_close(&f);
}

/* Real lines [a, n] to half or whole spectra, and back. */
static void check_real(fixture *f, int64_t a, int64_t n, int64_t b, tn_dtype dtype, bool whole)
{
    bool is_double = dtype == TN_FLOAT64;
    tn_dtype complex_dtype = is_double ? TN_COMPLEX128 : TN_COMPLEX64;
    const int64_t dim[] = {1}, half = n / 2 + 1, width = whole ? n : half, parts = a * n * b;
    double *in = malloc((size_t)parts * sizeof *in), *pairs = calloc((size_t)n, 2 * sizeof *pairs);
    double *out = malloc((size_t)(2 * a * width * b) * sizeof *out);
    fixture_tensor x = noisy(f, dtype, 3, SIZES(a, n, b), parts, in);
    fixture_tensor y = fixture_tensor_make(f, complex_dtype, 3, SIZES(a, width, b), NULL);
    tn_value args[] = {fixture_value(&x), tn_value_ints(dim, 1), tn_value_int(0), tn_value_bool(!whole)};
    tn_value outs[] = {fixture_value(&y)};
    cr_assert_eq(nn_run(f, "aten::_fft_r2c", args, 4, outs, 1, 1, 0), TN_OK);
    read_parts(f, &y, 2 * a * width * b, out);
    for (int64_t line = 0; line < a * b; line++) {
        int64_t start = line / b * n * b + line % b, to = line / b * width * b + line % b;
        for (int64_t j = 0; j < n; j++) pairs[2 * j] = in[start + j * b];
        for (int64_t i = 0; i < (n > 100 ? 6 : width); i++) {
            int64_t k = n > 100 ? (line * 5 + i * (width / 5 + 1)) % width : i, at = to + k * b;
            expect_near(out[2 * at] + I * (long double)out[2 * at + 1], frequency(pairs, n, 1, k, -1), n,
                        is_double, "spectrum");
        }
    }
    if (!whole) {
        fixture_tensor back = fixture_tensor_make(f, dtype, 3, SIZES(a, n, b), NULL);
        tn_value back_args[] = {fixture_value(&y), tn_value_ints(dim, 1), tn_value_int(2), tn_value_int(n)};
        tn_value back_outs[] = {fixture_value(&back)};
        double *again = malloc((size_t)parts * sizeof *again);
        cr_assert_eq(nn_run(f, "aten::_fft_c2r", back_args, 4, back_outs, 1, 1, 0), TN_OK);
        read_parts(f, &back, parts, again);
        for (int64_t i = 0; i < parts; i++)
            expect_near(again[i], in[i], n < 16 ? 2 : 16, is_double, "signal from its spectrum");
        free(again);
        fixture_tensor_free(f, &back);
    }
    fixture_tensor_free(f, &x);
    fixture_tensor_free(f, &y);
    free(in);
    free(out);
    free(pairs);
}

Test(cpu_fft, real_lines)
{
    fixture f;
    fixture_open(&f);
    for (uint32_t i = 0; i < COUNT(lengths); i++) {
        int64_t n = lengths[i], many = n > 300 ? 2 : 19;
        check_real(&f, many, n, 1, TN_FLOAT32, false);
        check_real(&f, 1, n, many, TN_FLOAT64, false);
        check_real(&f, 1, n, 1, i % 2 ? TN_FLOAT32 : TN_FLOAT64, true);
        check_real(&f, 2, n, 3, i % 2 ? TN_FLOAT64 : TN_FLOAT32, false);
    }
    fixture_close(&f);
}

/* Scales: 1 / sqrt(n) and 1 / n of all transformed dims. A constant has one frequency. */
Test(cpu_fft, two_dims_and_scales)
{
    fixture f;
    fixture_open(&f);
    const float ones[24] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    const int64_t dims[] = {0, -1};
    const double expected[] = {12, 3.4641016151377544, 1}; /* 12, its root, 1 */
    fixture_tensor x = fixture_tensor_make(&f, TN_COMPLEX64, 2, SIZES(3, 4), ones);
    for (int64_t scale = 0; scale < 3; scale++) {
        fixture_tensor y = fixture_tensor_make(&f, TN_COMPLEX64, 2, SIZES(3, 4), NULL);
        tn_value args[] = {fixture_value(&x), tn_value_ints(dims, 2), tn_value_int(scale), tn_value_bool(1)};
        tn_value outs[] = {fixture_value(&y)};
        float got[24];
        cr_assert_eq(nn_run(&f, "aten::_fft_c2c", args, 4, outs, 1, 1, 0), TN_OK);
        cr_assert_eq(fixture_read(&f, &y, got), TN_OK);
        cr_assert_float_eq(got[0], expected[scale], 1e-6);
        for (int i = 1; i < 24; i++) cr_assert_float_eq(got[i], 0, 1e-6);
    }
    fixture_close(&f);
}

/* The same of complex32: 12, its root and 1 in float16; the columns of the input are apart. */
Test(cpu_fft, two_dims_of_halves)
{
    fixture f;
    fixture_open(&f);
    const int64_t dims[] = {0, -1};
    const uint16_t expected[] = {0x4a00, 0x42ee, 0x3c00};
    uint16_t ones[24], got[24];
    for (int i = 0; i < 24; i++) ones[i] = i % 2 ? 0 : 0x3c00;
    fixture_tensor columns = fixture_tensor_make(&f, TN_COMPLEX32, 2, SIZES(4, 3), ones);
    fixture_tensor x = nn_transposed(&columns, 0, 1);
    for (int64_t scale = 0; scale < 3; scale++) {
        fixture_tensor y = fixture_tensor_make(&f, TN_COMPLEX32, 2, SIZES(3, 4), NULL);
        tn_value args[] = {fixture_value(&x), tn_value_ints(dims, 2), tn_value_int(scale), tn_value_bool(1)};
        tn_value outs[] = {fixture_value(&y)};
        cr_assert_eq(nn_run(&f, "aten::_fft_c2c", args, 4, outs, 1, 1, 0), TN_OK);
        cr_assert_eq(fixture_read(&f, &y, got), TN_OK);
        cr_assert_eq(got[0], expected[scale]);
        for (int i = 1; i < 24; i++) cr_assert_eq(got[i] & 0x7fff, 0);
    }
    fixture_close(&f);
}

/* More plans than are kept at a time, and each twice. */
Test(cpu_fft, plans_come_and_go)
{
    fixture f;
    fixture_open(&f);
    for (int32_t round = 0; round < 2; round++)
        for (int64_t n = 20; n < 100; n++) check_complex(&f, 1, n, 1, TN_COMPLEX64, true, 1);
    fixture_close(&f);
}

static void transform_bits(fixture *f, int64_t rows, int64_t n, int32_t threads, float *out)
{
    const int64_t dim[] = {1};
    double *copy = malloc((size_t)(rows * n) * 2 * sizeof *copy);
    fixture_tensor x = noisy(f, TN_COMPLEX64, 2, SIZES(rows, n), 2 * rows * n, copy);
    fixture_tensor y = fixture_tensor_make(f, TN_COMPLEX64, 2, SIZES(rows, n), NULL);
    tn_value args[] = {fixture_value(&x), tn_value_ints(dim, 1), tn_value_int(0), tn_value_bool(1)};
    tn_value outs[] = {fixture_value(&y)};
    cr_assert_eq(nn_run(f, "aten::_fft_c2c", args, 4, outs, 1, threads, 0), TN_OK);
    cr_assert_eq(fixture_read(f, &y, out), TN_OK);
    free(copy);
}

Test(cpu_fft, threads_do_not_change_bits)
{
    fixture f;
    fixture_open(&f);
    static const int64_t sizes[][2] = {{1, 65536}, {300, 60}, {40, 1009}};
    for (uint32_t i = 0; i < COUNT(sizes); i++) {
        size_t bytes = (size_t)(sizes[i][0] * sizes[i][1]) * 2 * sizeof(float);
        float *a = malloc(bytes), *b = malloc(bytes);
        transform_bits(&f, sizes[i][0], sizes[i][1], 1, a);
        transform_bits(&f, sizes[i][0], sizes[i][1], 3, b);
        cr_assert_eq(memcmp(a, b, bytes), 0);
        free(a);
        free(b);
    }
    fixture_close(&f);
}
