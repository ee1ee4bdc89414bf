/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms of the GPU plugins against the sum that defines them: all radices, lines in several passes, chirps. */
#include "../core/at_end.h"
#include "../plugins/frequency.h"
#include "device_suite.h"

#include <stdlib.h>

/* Whether a transform ran on the CPU would not show in its values. */
static void close_suite(void)
{
    const uint64_t on_cpu = tn_inspect_fallback_count(ctx);
    close_device();
    MUST_HOLD(on_cpu == 0);
}
TestSuite(transforms, .init = open_tested_device, .fini = close_suite, .timeout = 900);

static bool is_double(tn_dtype dtype)
{
    return dtype == TN_FLOAT64 || dtype == TN_COMPLEX128;
}

/* A tensor on the device with noise in `parts` real numbers, which `copy` receives. */
static tn_tensor *noisy(tn_dtype dtype, tn_ints sizes, int64_t parts, double *copy)
{
    uint32_t state = (uint32_t)parts;
    float *narrow = malloc((size_t)parts * sizeof *narrow);
    for (int64_t i = 0; i < parts; i++) narrow[i] = (float)(copy[i] = noise(&state));
    tn_tensor *t =
        tn_from_data(s, dtype, sizes, is_double(dtype) ? (const void *)copy : (const void *)narrow, device);
    free(narrow);
    return t;
}

/* The parts of a tensor's elements as doubles. */
static void read_parts(tn_tensor *t, int64_t parts, double *out)
{
    const tn_dtype dtype = tn_tensor_dtype(t);
    float *narrow = malloc((size_t)parts * sizeof *narrow);
    const int32_t status = is_double(dtype) ? tn_to_host(s, t, out, (size_t)parts * sizeof *out)
                                            : tn_to_host(s, t, narrow, (size_t)parts * sizeof *narrow);
    cr_assert_eq(status, TN_OK, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    for (int64_t i = 0; i < parts && !is_double(dtype); i++) out[i] = (double)narrow[i];
    free(narrow);
}

/* Transforms dimension 1 of [a, n, b] and checks a few frequencies of each line; `is_apart`: of every second element. */
static void check_complex(int64_t a, int64_t n, int64_t b, tn_dtype dtype, bool forward, bool is_apart)
{
    const int64_t parts = 2 * a * n * b;
    double *in = malloc((size_t)parts * sizeof *in), *out = malloc((size_t)parts * sizeof *out);
    tn_tensor *x = noisy(dtype, TN_INTS(a, n, b), parts, in);
    if (is_apart) x = tn_select(s, tn_stack(s, TN_TENSORS(x, x), .dim = -1), -1, 1);
    read_parts(tn__fft_c2c(s, x, TN_INTS(1), 0, forward), parts, out);
    for (int64_t line = 0; line < a * b; line += 1 + a * b / 9) {
        const int64_t start = line / b * n * b + line % b, few = n > 100 ? 4 : n;
        for (int64_t i = 0; i < few; i++) {
            const int64_t k = n > 100 ? (line * 7 + i * (n / 3 + 1)) % n : i, at = start + k * b;
            expect_near(out[2 * at] + I * (long double)out[2 * at + 1],
                        frequency(in + 2 * start, n, b, k, forward ? -1 : 1), n, is_double(dtype),
                        "transform");
        }
    }
    free(in);
    free(out);
}

/* All radices, products of them, and primes and products of primes without one of their own. */
Test(transforms, complex_lines)
{
    static const int64_t lengths[] = {1,   2,   3,   4,    5,   6,   7,    8,    9,    11,   12,  13,
                                      16,  17,  30,  32,   37,  64,  77,   91,   128,  143,  169, 240,
                                      257, 289, 512, 1000, 600, 729, 1001, 1009, 1024, 1155, 2048};
    const bool wide = has_double();
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t n = lengths[i], many = n > 300 ? 3 : 19;
        check_complex(1, n, 1, TN_COMPLEX64, true, false);
        check_complex(many, n, 1, TN_COMPLEX64, false, i % 2);
        check_complex(2, n, 17, TN_COMPLEX64, true, false);
        if (!wide) continue;
        check_complex(many, n, 1, TN_COMPLEX128, true, false);
        check_complex(1, n, many, TN_COMPLEX128, false, i % 2);
    }
}

/* Two and three passes, with neighbouring elements and with neighbouring lines, and twiddles that are products of two. */
Test(transforms, lines_in_passes)
{
    static const int64_t lengths[] = {2187, 4096, 5000, 6561, 20480, 118098};
    const bool wide = has_double();
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_complex(2, lengths[i], 1, TN_COMPLEX64, true, false);
        check_complex(1, lengths[i], 5, TN_COMPLEX64, false, false);
        if (wide) check_complex(1, lengths[i], 3, TN_COMPLEX128, true, true);
    }
    check_complex(1, 1 << 19, 1, TN_COMPLEX64, true, false);
}

/* Chirps of one pass, and of several. */
Test(transforms, lines_with_large_factors)
{
    static const int64_t lengths[] = {19, 323, 509, 1021, 2039, 5003, 100003};
    const bool wide = has_double();
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_complex(1, lengths[i], 1, TN_COMPLEX64, true, false);
        check_complex(2, lengths[i], 3, TN_COMPLEX64, false, false);
        if (wide && lengths[i] < 100000) check_complex(2, lengths[i], 2, TN_COMPLEX128, true, false);
    }
}

/* Real lines to half or whole spectra, and back. */
static void check_real(int64_t a, int64_t n, int64_t b, tn_dtype dtype, bool whole)
{
    const int64_t width = whole ? n : n / 2 + 1, parts = a * n * b;
    double *in = malloc((size_t)parts * sizeof *in), *pairs = calloc((size_t)n, 2 * sizeof *pairs);
    double *out = malloc((size_t)(2 * a * width * b) * sizeof *out);
    tn_tensor *x = noisy(dtype, TN_INTS(a, n, b), parts, in), *y = tn__fft_r2c(s, x, TN_INTS(1), 0, !whole);
    read_parts(y, 2 * a * width * b, out);
    for (int64_t line = 0; line < a * b; line++) {
        const int64_t start = line / b * n * b + line % b, to = line / b * width * b + line % b;
        for (int64_t j = 0; j < n; j++) pairs[2 * j] = in[start + j * b];
        for (int64_t i = 0; i < (n > 100 ? 5 : width); i++) {
            const int64_t k = n > 100 ? (line * 5 + i * (width / 4 + 1)) % width : i, at = to + k * b;
            expect_near(out[2 * at] + I * (long double)out[2 * at + 1], frequency(pairs, n, 1, k, -1), n,
                        is_double(dtype), "spectrum");
        }
    }
    if (!whole) {
        read_parts(tn__fft_c2r(s, y, TN_INTS(1), 2, n), parts, out);
        for (int64_t i = 0; i < parts; i++) expect_near(out[i], in[i], 8, is_double(dtype), "inverse");
    }
    free(in);
    free(pairs);
    free(out);
}

Test(transforms, real_lines)
{
    static const int64_t lengths[] = {1, 2, 3, 5, 8, 15, 17, 34, 101, 512, 1000, 2222, 5003, 8192};
    const bool wide = has_double();
    for (uint32_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        check_real(3, lengths[i], 1, TN_FLOAT32, false);
        check_real(1, lengths[i], 4, TN_FLOAT32, i % 2);
        if (wide) check_real(2, lengths[i], 3, TN_FLOAT64, i % 2 == 0);
    }
}

/* Imaginary parts that the spectrum of a real line cannot have count as 0: a constant line from its first frequency. */
Test(transforms, half_spectra_of_no_real_line)
{
    static const float pairs[] = {8, 5, 0, 0, 0, 7};
    float line[4];
    tn_tensor *x = tn_from_data(s, TN_COMPLEX64, TN_INTS(3), pairs, device);
    cr_assert_eq(tn_to_host(s, tn__fft_c2r(s, x, TN_INTS(0), 0, 4), line, sizeof line), TN_OK);
    for (int i = 0; i < 4; i++) cr_assert_eq(line[i], 8, "%g", (double)line[i]);
}

/* Several dimensions, of which each is transformed in the result of the one before; a plane wave has one frequency. */
Test(transforms, dimensions_and_normalizations)
{
    enum { ROWS = 6, COLUMNS = 10, PLANE = ROWS * COLUMNS };
    static const double scales[] = {1, 0.12909944487358056, 1.0 / PLANE}; /* 60^-1/2 */
    float wave[2 * PLANE], got[2 * PLANE];
    for (int i = 0; i < PLANE; i++) {
        const double angle = 2 * M_PI * (2.0 * (i / COLUMNS) / ROWS + 3.0 * (i % COLUMNS) / COLUMNS);
        wave[2 * i] = (float)cos(angle);
        wave[2 * i + 1] = (float)sin(angle);
    }
    tn_tensor *x = tn_from_data(s, TN_COMPLEX64, TN_INTS(ROWS, COLUMNS), wave, device);
    for (int n = 0; n < 3; n++) {
        cr_assert_eq(tn_to_host(s, tn__fft_c2c(s, x, TN_INTS(-1, 0), n, 1), got, sizeof got), TN_OK);
        for (int i = 0; i < PLANE; i++) {
            const double expected = i == 2 * COLUMNS + 3 ? PLANE * scales[n] : 0;
            cr_assert(fabs((double)got[2 * i] - expected) < 2e-5 && fabs((double)got[2 * i + 1]) < 2e-5,
                      "%d: %g + %g i", i, (double)got[2 * i], (double)got[2 * i + 1]);
        }
    }
}

/* Tables are kept up to a limit; then those that are not in use make room, and are made again. */
Test(transforms, tables_make_room)
{
    static const int64_t lengths[] = {1000003, 1010003, 1020001,
                                      1000003}; /* primes, of which the tables have 25 MB each */
    for (int i = 0; i < 4; i++) check_complex(1, lengths[i], 1, TN_COMPLEX64, i % 2, false);
}
