/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searching, counting, distinct elements, bits of floats, products of complex matrices and polynomials on a device: values by hand
 * or from closed forms. No call runs on the CPU.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "../gpu/device_suite.h"

TestSuite(operators, .init = open_without_fallback, .fini = close_device);

static tn_tensor *numbers(tn_dtype dtype, int64_t count, const double *values)
{
    return tn__to_copy(s, tn_from_data(s, TN_FLOAT64, TN_INTS(count), values, device), .dtype = dtype);
}
#define NUMBERS(dtype, ...) \
    numbers(dtype, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

/* The elements in row-major order are these, bit by bit but for NaN. */
static void expect(tn_tensor *t, int64_t count, const double *want)
{
    double got[64];
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_tensor_numel(t), count, "%lld elements", (long long)tn_tensor_numel(t));
    t = tn_contiguous(s, tn__to_copy(s, t, .dtype = TN_FLOAT64));
    cr_assert_eq(tn_to_host(s, t, got, (uint64_t)count * 8), TN_OK);
    for (int64_t i = 0; i < count; i++)
        cr_assert(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])), "element %lld is %.17g, not %.17g",
                  (long long)i, got[i], want[i]);
}
#define EXPECT(t, ...) expect(t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

/* OpenCL refuses a copy whose source and destination are one place. */
Test(operators, a_copy_to_itself_is_nothing)
{
    float got[3] = {0};
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(3), (float[]){1, 2, 3}, device);
    tn_copy_(s, x, x);
    tn_copy_(s, x, tn_view(s, x, TN_INTS(3)));
    cr_assert_eq(tn_to_host(s, x, got, sizeof got), TN_OK, "%s", tn_last_error()->message);
    cr_assert(got[0] == 1 && got[1] == 2 && got[2] == 3);
}

Test(operators, places_in_a_sorted_line)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_BFLOAT16, TN_INT32, TN_INT64, TN_UINT8};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        tn_tensor *line = NUMBERS(dtypes[i], 1, 3, 3, 7, 9), *values = NUMBERS(dtypes[i], 0, 3, 4, 9, 10);
        EXPECT(tn_searchsorted(s, line, values), 0, 1, 3, 4, 5);
        EXPECT(tn_searchsorted(s, line, values, .right = 1), 0, 3, 3, 5, 5);
        EXPECT(tn_searchsorted(s, line, values, .side = "right", .out_int32 = 1), 0, 3, 3, 5, 5);
        EXPECT(tn_bucketize(s, values, line), 0, 1, 3, 4, 5);
    }
    EXPECT(tn_searchsorted(s, NUMBERS(TN_INT32, 1, 2, 3), NUMBERS(TN_FLOAT32, 1.5, 2.5, NAN)), 1, 2, 3);
    EXPECT(tn_searchsorted_scalar(s, NUMBERS(TN_FLOAT32, 1, 2, 3), TN_SCALAR(2.5)), 2);
}

Test(operators, copies_of_integers_without_a_sign)
{
    tn_tensor *unsigned_numbers = tn__to_copy(s, NUMBERS(TN_INT64, 1, -1, 5), .dtype = TN_UINT64);
    EXPECT(tn_view_dtype(s, unsigned_numbers, TN_INT64), 1, -1, 5);
    EXPECT(tn__to_copy(s, unsigned_numbers, .dtype = TN_INT64), 1, -1, 5);
    EXPECT(tn__to_copy(s, tn__to_copy(s, NUMBERS(TN_INT16, 7, -7), .dtype = TN_UINT16), .dtype = TN_INT16), 7,
           -7);
}

Test(operators, places_in_lines_of_their_own_and_by_a_sorter)
{
    tn_tensor *lines = tn_view(s, NUMBERS(TN_FLOAT32, 1, 2, 3, 10, 20, 30), TN_INTS(2, 3));
    tn_tensor *values = tn_view(s, NUMBERS(TN_FLOAT32, 2, 5, 2, 25), TN_INTS(2, 2));
    EXPECT(tn_searchsorted(s, lines, values), 1, 3, 0, 2);
    tn_tensor *mixed = NUMBERS(TN_FLOAT32, 30, 10, 20), *sorter = NUMBERS(TN_INT64, 1, 2, 0);
    EXPECT(tn_searchsorted(s, mixed, NUMBERS(TN_FLOAT32, 5, 20, 40), .sorter = sorter), 0, 1, 3);
    tn_searchsorted(s, mixed, NUMBERS(TN_FLOAT32, 5), .sorter = NUMBERS(TN_INT64, 9, 9, 9));
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_E_INDEX);
    cr_assert_not_null(strstr(tn_last_error()->message, "sorter index out of range"), "%s",
                       tn_last_error()->message);
}

Test(operators, distinct_elements)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT16, TN_INT64, TN_INT8};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        tn_tensor *x = tn_view(s, NUMBERS(dtypes[i], 5, 2, 5, 5, -1, 2), TN_INTS(2, 3));
        tn__unique2_result u = tn__unique2(s, x, .return_inverse = 1, .return_counts = 1);
        EXPECT(u.result0, -1, 2, 5);
        EXPECT(u.result1, 2, 1, 2, 2, 0, 1);
        cr_assert_eq(tn_tensor_rank(u.result1), 2);
        EXPECT(u.result2, 1, 2, 3);
        tn_unique_consecutive_result c = tn_unique_consecutive(s, x, .return_inverse = 1, .return_counts = 1);
        EXPECT(c.result0, 5, 2, 5, -1, 2);
        EXPECT(c.result1, 0, 1, 2, 2, 3, 4);
        EXPECT(c.result2, 1, 1, 2, 1, 1);
    }
    EXPECT(tn__unique(s, NUMBERS(TN_BOOL, 1, 0, 1), .return_inverse = 0).result0, 0, 1);
    EXPECT(tn__unique(s, NUMBERS(TN_FLOAT32, NAN, 1, NAN)).result0, 1, NAN, NAN);
    cr_assert_eq(tn_tensor_numel(tn__unique2(s, tn_empty(s, TN_INTS(0))).result0), 0);
}

Test(operators, runs_of_equal_slices)
{
    tn_tensor *x = tn_view(s, NUMBERS(TN_INT32, 1, 1, 2, 3, 3, 4, 5, 5, 5), TN_INTS(3, 3));
    tn_unique_consecutive_result r =
        tn_unique_consecutive(s, x, .return_inverse = 1, .return_counts = 1, .dim = 1);
    EXPECT(r.result0, 1, 2, 3, 4, 5, 5);
    EXPECT(r.result1, 0, 0, 1);
    EXPECT(r.result2, 2, 1);
}

Test(operators, how_often_integers_occur)
{
    tn_tensor *x = NUMBERS(TN_INT32, 3, 0, 3, 1), *weights = NUMBERS(TN_FLOAT32, 0.5, 2, 0.25, 4);
    EXPECT(tn_bincount(s, x), 1, 1, 0, 2);
    EXPECT(tn_bincount(s, x, .minlength = 6), 1, 1, 0, 2, 0, 0);
    EXPECT(tn_bincount(s, x, .weights = weights), 2, 4, 0, 0.75);
    cr_assert_null(tn_bincount(s, NUMBERS(TN_INT64, 1, -1)));
    cr_assert_eq(tn_scope_failed(s), TN_E_ARGUMENT);
    tn_scope_clear(s);
}

Test(operators, the_most_frequent_element)
{
    tn_tensor *x = tn_view(s, NUMBERS(TN_FLOAT32, 4, 1, 4, 1, 0, 7, 7, 2, 2, 7), TN_INTS(2, 5));
    tn_mode_result r = tn_mode(s, x, .dim = 1);
    EXPECT(r.values, 1, 7);
    EXPECT(r.indices, 3, 4);
    tn_mode_result c = tn_mode(s, tn_t(s, x), .dim = 0, .keepdim = 1);
    EXPECT(c.values, 1, 7);
    cr_assert_eq(tn_tensor_size(c.values, 0), 1);
    EXPECT(tn_mode(s, NUMBERS(TN_FLOAT32, NAN, 3, NAN)).values, NAN);
}

Test(operators, neighbours_of_floats)
{
    const double tiny = 0x1p-149, infinite = (double)INFINITY;
    tn_tensor *a = NUMBERS(TN_FLOAT32, 1, 1, 0, 0, -1, 2),
              *b = NUMBERS(TN_FLOAT32, 2, 0, 1, -1, -1, infinite);
    EXPECT(tn_nextafter(s, a, b), 1 + 0x1p-23, 1 - 0x1p-24, tiny, -tiny, -1, 2 + 0x1p-22);
    a = NUMBERS(TN_FLOAT64, 1, -1, 0, 0x1.fffffffffffffp1023, NAN);
    b = NUMBERS(TN_FLOAT64, 2, 0, 1, infinite, 0);
    EXPECT(tn_nextafter(s, a, b), 1 + 0x1p-52, -1 + 0x1p-53, 0x1p-1074, infinite, NAN);
    a = NUMBERS(TN_BFLOAT16, 1, 1, -4);
    EXPECT(tn_nextafter(s, a, NUMBERS(TN_BFLOAT16, 2, 0, 0)), 1 + 0x1p-7, 1 - 0x1p-8, -4 + 0x1p-6);
}

Test(operators, mantissas_and_exponents)
{
    const double infinite = (double)INFINITY;
    tn_frexp_result r = tn_frexp(s, NUMBERS(TN_FLOAT32, 8, -0.75, 0, infinite, 0x1.8p-140));
    EXPECT(r.mantissa, 0.5, -0.75, 0, infinite, 0.75);
    EXPECT(r.exponent, 4, 0, 0, 0, -139);
    r = tn_frexp(s, NUMBERS(TN_FLOAT64, 0x1.4p-1060, -1e300));
    EXPECT(r.mantissa, 0.625, frexp(-1e300, &(int){0}));
    EXPECT(r.exponent, -1059, 997);
    r = tn_frexp(s, NUMBERS(TN_FLOAT16, 0x1p-24, 3));
    EXPECT(r.mantissa, 0.5, 0.75);
    EXPECT(r.exponent, -23, 2);
}

static void expect_complex(tn_tensor *t, int64_t count, const double *parts)
{
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    expect(tn_view_as_real(s, tn_contiguous(s, t)), 2 * count, parts);
}
#define EXPECT_COMPLEX(t, ...) \
    expect_complex(t, sizeof((double[]){__VA_ARGS__}) / 16, (double[]){__VA_ARGS__})

/* [1 + i, 2; 0, i] times [1, i; 2i, 3]. */
Test(operators, products_of_complex_matrices)
{
    static const tn_dtype dtypes[] = {TN_COMPLEX64, TN_COMPLEX128};
    const double a[] = {1, 1, 2, 0, 0, 0, 0, 1}, b[] = {1, 0, 0, 1, 0, 2, 3, 0};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        tn_tensor *x =
            tn__to_copy(s, tn_from_data(s, TN_COMPLEX128, TN_INTS(2, 2), a, device), .dtype = dtypes[i]);
        tn_tensor *y =
            tn__to_copy(s, tn_from_data(s, TN_COMPLEX128, TN_INTS(2, 2), b, device), .dtype = dtypes[i]);
        EXPECT_COMPLEX(tn_mm(s, x, y), 1, 5, 5, 1, -2, 0, 0, 3);
        EXPECT_COMPLEX(tn_mm(s, tn_t(s, x), y), 1, 1, -1, 1, 0, 0, 0, 5);
        EXPECT_COMPLEX(tn_bmm(s, tn_unsqueeze(s, x, 0), tn_unsqueeze(s, y, 0)), 1, 5, 5, 1, -2, 0, 0, 3);
        EXPECT_COMPLEX(
            tn_addmm(s, y, x, y, .beta = tn_value_complex((double[]){0, 1}), .alpha = TN_SCALAR(2)), 2, 11, 9,
            2, -6, 0, 0, 9);
    }
}

/* T_n(cos t) = cos(n t) and its relatives, at t = 1. */
Test(operators, orthogonal_polynomials)
{
    const double x = cos(1.0), y = 0.3, tolerance = 1e-6;
    tn_tensor *at = NUMBERS(TN_FLOAT32, x), *n = NUMBERS(TN_FLOAT32, 5),
              *shifted = NUMBERS(TN_FLOAT32, (x + 1) / 2);
    tn_tensor *z = NUMBERS(TN_FLOAT32, y), *two = NUMBERS(TN_FLOAT32, 2), *many = NUMBERS(TN_FLOAT32, 100);
    const struct {
        tn_tensor *got;
        double want;
    } rows[] = {
        {tn_special_chebyshev_polynomial_t(s, at, n), cos(5)},
        {tn_special_chebyshev_polynomial_u(s, at, n), sin(6) / sin(1)},
        {tn_special_chebyshev_polynomial_v(s, at, n), cos(5.5) / cos(0.5)},
        {tn_special_chebyshev_polynomial_w(s, at, n), sin(5.5) / sin(0.5)},
        {tn_special_shifted_chebyshev_polynomial_t(s, shifted, n), cos(5)},
        {tn_special_shifted_chebyshev_polynomial_u(s, shifted, n), sin(6) / sin(1)},
        {tn_special_chebyshev_polynomial_t(s, NUMBERS(TN_FLOAT32, 1), many), 1},
        {tn_special_hermite_polynomial_h(s, z, two), 4 * y * y - 2},
        {tn_special_hermite_polynomial_he(s, z, two), y * y - 1},
        {tn_special_laguerre_polynomial_l(s, z, two), (y * y - 4 * y + 2) / 2},
        {tn_special_legendre_polynomial_p(s, z, two), (3 * y * y - 1) / 2},
        {tn_special_legendre_polynomial_p(s, z, NUMBERS(TN_FLOAT32, -1)), 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double got = tn_item_double(s, rows[i].got);
        cr_assert_float_eq(got, rows[i].want, 4 * tolerance * (fabs(rows[i].want) + 1),
                           "row %zu: %.9g, not %.9g", i, got, rows[i].want);
    }
}

/* Rows 0 and 2 are in use, row 2 twice; row 0 is short enough. */
Test(operators, rows_in_use_get_a_norm)
{
    tn_tensor *table = tn_view(s, NUMBERS(TN_FLOAT32, 0.3, 0.4, 3, 4, 3, 4), TN_INTS(3, 2));
    float got[6];
    tn_embedding_renorm_(s, table, NUMBERS(TN_INT64, 2, 0, 2), 1, 2);
    cr_assert_eq(tn_to_host(s, table, got, sizeof got), TN_OK);
    const float want[] = {0.3f, 0.4f, 3, 4, 0.6f, 0.8f};
    for (int i = 0; i < 6; i++)
        cr_assert_float_eq(got[i], want[i], 1e-6f, "element %d is %.9g", i, (double)got[i]);
}
