/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise rows of the CPU plugin: closed forms, edges, and independence of strides, broadcasting and
 * threads.
 */
#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs a row of one output over its operands; `extra` follows the tensors. */
static void run(fixture *f, const char *name, fixture_tensor *const *operands, uint32_t count,
                const tn_value *extra, uint32_t n_extra)
{
    fixture_nest nest;
    tn_value args[8], out = fixture_value(operands[0]);
    uint32_t n = 0;
    for (uint32_t i = 1; i < count; i++) args[n++] = fixture_value(operands[i]);
    for (uint32_t i = 0; i < n_extra; i++) args[n++] = extra[i];
    fixture_pointwise(&nest, operands, count, 1);
    cr_assert_eq(fixture_run(f, name, args, n, &out, 1, &nest.nest), TN_OK, "%s: %s", name, f->error_message);
}

/* `extra` follows the tensor; it may be NULL. */
static void unary_f32_with(const char *name, const tn_value *extra, const float *in, const float *want,
                           int64_t n, float tolerance)
{
    fixture f;
    float got[64];
    fixture_open(&f);
    fixture_tensor a = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, in);
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, NULL);
    run(&f, name, (fixture_tensor *[]){&o, &a}, 2, extra, extra ? 1 : 0);
    fixture_read(&f, &o, got);
    for (int64_t i = 0; i < n; i++) {
        if (isnan(want[i]))
            cr_assert(isnan(got[i]), "%s(%g) = %g", name, in[i], got[i]);
        else if (isinf(want[i]))
            cr_assert_eq(got[i], want[i], "%s(%g) = %g", name, in[i], got[i]);
        else
            cr_assert_leq(fabsf(got[i] - want[i]), tolerance * fabsf(want[i]), "%s(%g) = %.9g, not %.9g",
                          name, in[i], got[i], want[i]);
    }
    fixture_close(&f);
}

static void unary_f32(const char *name, const float *in, const float *want, int64_t n, float tolerance)
{
    unary_f32_with(name, NULL, in, want, n, tolerance);
}

/* Functions with a cheaper loop for runs of moderate numbers. */
static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}
static double silu_of(double x)
{
    return x * sigmoid_of(x);
}
static double gelu_of(double x)
{
    return x * erfc(-x * sqrt(0.5)) / 2;
}
static const struct {
    const char *name;
    double (*of)(double x);
} moderate_functions[] = {{"aten::exp", exp},
                          {"aten::tanh", tanh},
                          {"aten::sigmoid", sigmoid_of},
                          {"aten::silu", silu_of},
                          {"aten::gelu", gelu_of}};

/* A float32 below 0x1p15, cut to the digits of the dtype. */
static void put_float(char *to, tn_dtype dtype, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint16_t upper = (uint16_t)(bits >> 16),
             half = (uint16_t)((bits >> 16 & 0x8000) | (bits & 0x7fffffff) / 8192);
    if (x != 0) half = (uint16_t)(half - (112 << 10));
    memcpy(to,
           dtype == TN_FLOAT32   ? (void *)&bits
           : dtype == TN_FLOAT16 ? (void *)&half
                                 : &upper,
           (size_t)tn_dtype_bytes(dtype));
}

/* The bits of a result do not depend on the other elements of its run. */
Test(cpu_pointwise, a_large_number_does_not_change_its_neighbours)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16};
    enum { N = 601 };
    const int64_t n = N;
    char in[4 * N], near[4 * N], far[4 * N];
    tn_value none = tn_value_string("none");
    fixture f;
    fixture_open(&f);
    for (uint32_t d = 0; d < 3; d++) {
        int64_t bytes = tn_dtype_bytes(dtypes[d]);
        for (uint32_t k = 0; k < sizeof moderate_functions / sizeof *moderate_functions; k++) {
            const char *name = moderate_functions[k].name;
            uint32_t n_extra = strcmp(name, "aten::gelu") == 0;
            for (int64_t i = 0; i < N; i++) put_float(in + i * bytes, dtypes[d], (float)(i - 300) / 32);
            for (int step = 0; step < 2; step++) {
                if (step) put_float(in + (N - 1) * bytes, dtypes[d], 256);
                fixture_tensor a = fixture_tensor_make(&f, dtypes[d], 1, &n, in);
                fixture_tensor o = fixture_tensor_make(&f, dtypes[d], 1, &n, NULL);
                run(&f, name, (fixture_tensor *[]){&o, &a}, 2, &none, n_extra);
                cr_assert_eq(fixture_read(&f, &o, step ? far : near), TN_OK);
                fixture_tensor_free(&f, &a);
                fixture_tensor_free(&f, &o);
            }
            cr_assert_eq(memcmp(near, far, (size_t)((N - 1) * bytes)), 0, "%s, dtype %u", name, d);
            for (int64_t i = 0; d == 0 && i < N; i++) {
                double want = moderate_functions[k].of((double)(i - 300) / 32);
                float got;
                memcpy(&got, near + i * 4, 4);
                cr_assert_leq(fabs((double)got - want), 3e-7 * fabs(want), "%s of %lld / 32", name,
                              (long long)i - 300);
            }
        }
    }
    fixture_close(&f);
}

Test(cpu_pointwise, functions_of_known_values)
{
    unary_f32("aten::exp", (float[]){0, 1, -1, INFINITY, -INFINITY, NAN},
              (float[]){1, 2.71828183f, 0.36787944f, INFINITY, 0, NAN}, 6, 3e-7f);
    unary_f32("aten::log", (float[]){1, 2.71828183f, 0, -1, INFINITY},
              (float[]){0, 1, -INFINITY, NAN, INFINITY}, 5, 3e-7f);
    unary_f32("aten::erf", (float[]){0, 0.5f, -0.5f, 1, 2, 6},
              (float[]){0, 0.52049988f, -0.52049988f, 0.84270079f, 0.99532227f, 1}, 6, 3e-7f);
    unary_f32("aten::sigmoid", (float[]){0, 100, -100, 2}, (float[]){0.5f, 1, 3.7835059e-44f, 0.88079708f}, 4,
              3e-7f); /* e^-100 is 27 of the smallest denormal numbers */
    unary_f32("aten::digamma", (float[]){1, 0.5f, 10}, (float[]){-0.57721566f, -1.96351003f, 2.25175259f}, 3,
              3e-7f);
    unary_f32("aten::special_ndtri", (float[]){0.5f, 0.975f, 0.025f, 0, 1},
              (float[]){0, 1.95996398f, -1.95996398f, -INFINITY, INFINITY}, 5, 1e-6f);
    unary_f32("aten::special_airy_ai", (float[]){0, 1, -2, 5},
              (float[]){0.35502805f, 0.13529242f, 0.22740743f, 1.08344428e-4f}, 4, 3e-7f);
    unary_f32("aten::log1p", (float[]){3e38f, 1e-20f}, (float[]){88.5968247f, 1e-20f}, 2, 3e-7f);
}

/* The derivative of gelu is the area plus the slope's share of it, in units of these terms, which cancel at -0.75. */
Test(cpu_pointwise, the_slope_of_gelu_is_exact_everywhere)
{
    enum { N = 1229 };
    const int64_t n = N;
    float a[N], g[N], got[N];
    const tn_value exact = tn_value_string("none");
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i - N / 2) / 43;
        g[i] = (float)(1 + i % 3);
    }
    a[0] = NAN;
    a[1] = INFINITY;
    a[2] = -INFINITY;
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, a);
    fixture_tensor y = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, g);
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, NULL);
    run(&f, "aten::gelu_backward", (fixture_tensor *[]){&o, &y, &x}, 3, &exact, 1);
    fixture_read(&f, &o, got);
    cr_assert(isnan(got[0]));
    cr_assert(got[1] == g[1] && got[2] == 0);
    for (int i = 3; i < N; i++) {
        double v = a[i], area = erfc(-v * sqrt(0.5)) / 2, pull = v * exp(-v * v / 2) * 0.39894228040143267794;
        cr_assert_leq(fabs(got[i] - g[i] * (area + pull)), g[i] * (2e-7 * (area + fabs(pull)) + 1e-44),
                      "at %g: %g", v, (double)got[i]);
    }
    fixture_close(&f);
}

/* Where plain formulas would cancel, or a power is not a normal number. */
Test(cpu_pointwise, digits_are_kept)
{
    const tn_value exact = tn_value_string("none"), by_tanh = tn_value_string("tanh"), none = tn_value_none();
    unary_f32_with("aten::gelu", &exact, (float[]){-5, -13, 1, 3},
                   (float[]){-1.43325786e-6f, -7.95231372e-38f, 0.84134475f, 2.99595031f}, 4, 2e-7f);
    unary_f32_with("aten::gelu", &by_tanh, (float[]){-5, 1}, (float[]){-2.29179620e-7f, 0.84119199f}, 2,
                   2e-7f);
    unary_f32("aten::silu", (float[]){-90, -1}, (float[]){-7.37461136e-38f, -0.26894142f}, 2, 2e-7f);
    unary_f32("aten::mish", (float[]){-90, 1}, (float[]){-7.37461136e-38f, 0.86509839f}, 2, 2e-7f);
    unary_f32_with("aten::logit", &none, (float[]){0.50001f, 0.25f}, (float[]){4.00543213e-5f, -1.09861229f},
                   2, 2e-7f);
    unary_f32("aten::lgamma", (float[]){-2.5f, -2.457f}, (float[]){-0.05624372f, 3.74702848e-5f}, 2, 2e-6f);
    unary_f32("aten::sinh", (float[]){89}, (float[]){2.24480641e38f}, 1, 2e-7f);
}

/* Next to roots, in the tails and for large arguments; values of 20 digits by mpmath. */
Test(cpu_pointwise, special_functions_of_float64_keep_their_digits)
{
    static const struct {
        const char *name;
        double x, want;
    } cases[] = {
        {"aten::special_bessel_j0", 2.404825557695773, -6.1087652597367303971e-17},
        {"aten::special_bessel_j0", 46.34118837166181, 7.2643163598814805387e-16},
        {"aten::special_bessel_j0", 1e22, -1.8561051065108215035e-12},
        {"aten::special_bessel_j1", 44.75931899765282, -2.7756635159775037146e-16},
        {"aten::special_bessel_y0", 0.8935769662791675, -2.3389279284062103119e-17},
        {"aten::special_bessel_y1", 1570.0106897796647, -1.5197989353072850052e-15},
        {"aten::special_airy_ai", -2.338107410459767, 2.7433193406662829996e-17},
        {"aten::special_airy_ai", -38.02100867725525, -2.14014624728101337e-15},
        {"aten::special_airy_ai", 50.5, 1.3211745982223674963e-105},
        {"aten::digamma", 1.4616321449683622, -9.2412655217294275168e-17},
        {"aten::digamma", -10.687764, 0.31223705004014525613},
        {"aten::special_ndtr", -34.5, 4.0107289665772619693e-261},
        {"aten::special_log_ndtr", -20.25, -208.96076728764923992},
        {"aten::special_ndtri", 4.2502026445964e-311, -37.685755230971308504},
        {"aten::special_modified_bessel_k1", 1.625, 0.23234307103666881854},
        {"aten::lgamma", -2.7476826467274127, 1.7335092440245008611e-16},
    };
    const int64_t one = 1;
    fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double got;
        fixture_tensor a = fixture_tensor_make(&f, TN_FLOAT64, 1, &one, &cases[i].x);
        fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT64, 1, &one, NULL);
        run(&f, cases[i].name, (fixture_tensor *[]){&o, &a}, 2, NULL, 0);
        fixture_read(&f, &o, &got);
        cr_assert_leq(fabs(got / cases[i].want - 1), 5e-16, "%s(%.17g) = %.17g, not %.17g", cases[i].name,
                      cases[i].x, got, cases[i].want);
        fixture_tensor_free(&f, &a);
        fixture_tensor_free(&f, &o);
    }
    fixture_close(&f);
}

Test(cpu_pointwise, extremes_carry_nan_and_rounding_is_to_even)
{
    unary_f32("aten::relu", (float[]){-1, 2, NAN, -0.0f}, (float[]){0, 2, NAN, 0}, 4, 0);
    unary_f32("aten::round", (float[]){0.5f, 1.5f, 2.5f, -0.5f}, (float[]){0, 2, 2, 0}, 4, 0);
    unary_f32("aten::sgn", (float[]){-3, 0, 7}, (float[]){-1, 0, 1}, 3, 0);
}

/* Every layout gives the same elements as the loops of this test. */
Test(cpu_pointwise, any_strides_and_any_threads)
{
    enum { ROWS = 300, COLUMNS = 700 };
    static float a[ROWS * COLUMNS], b[COLUMNS * ROWS], row[COLUMNS], got[ROWS * COLUMNS];
    fixture f;
    for (int i = 0; i < ROWS * COLUMNS; i++) a[i] = (float)(i % 1013), b[i] = (float)(i % 97);
    for (int i = 0; i < COLUMNS; i++) row[i] = (float)i;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, a);
    fixture_tensor y = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, b);
    fixture_tensor z = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){1, COLUMNS}, row);
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){ROWS, COLUMNS}, NULL);
    /* y as the transposed view of a COLUMNS x ROWS tensor. */
    y.strides[0] = 1;
    y.strides[1] = ROWS;
    for (f.threads = 1; f.threads <= 3; f.threads++) {
        run(&f, "aten::add.Tensor", (fixture_tensor *[]){&o, &x, &y}, 3, (tn_value[]){tn_value_int(2)}, 1);
        fixture_read(&f, &o, got);
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                cr_assert_eq(got[r * COLUMNS + c], a[r * COLUMNS + c] + 2 * b[c * ROWS + r]);
        run(&f, "aten::mul.Tensor", (fixture_tensor *[]){&o, &x, &z}, 3, NULL, 0);
        fixture_read(&f, &o, got);
        for (int i = 0; i < ROWS * COLUMNS; i++) cr_assert_eq(got[i], a[i] * row[i % COLUMNS]);
    }
    fixture_close(&f);
}

Test(cpu_pointwise, large_results_pass_the_caches_unharmed)
{
    int64_t n = 9 * 1000 * 1000 + 7;
    float *a = malloc((size_t)n * 4), *got = malloc((size_t)n * 4);
    fixture f;
    for (int64_t i = 0; i < n; i++) a[i] = (float)(i % 4099);
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, a);
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, NULL);
    f.threads = 2;
    run(&f, "aten::neg", (fixture_tensor *[]){&o, &x}, 2, NULL, 0);
    fixture_read(&f, &o, got);
    for (int64_t i = 0; i < n; i++) cr_assert_eq(got[i], -a[i]);
    fixture_close(&f);
    free(a);
    free(got);
}

static void binary_int(const char *name, tn_dtype dtype, const void *a, const void *b, const void *want,
                       int64_t n)
{
    fixture f;
    char got[256];
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, dtype, 1, &n, a), y = fixture_tensor_make(&f, dtype, 1, &n, b);
    fixture_tensor o = fixture_tensor_make(&f, dtype, 1, &n, NULL);
    tn_value one = tn_value_int(1);
    run(&f, name, (fixture_tensor *[]){&o, &x, &y}, 3, &one, strcmp(name, "aten::add.Tensor") == 0);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, want, (size_t)(n * tn_dtype_bytes(dtype)), "%s", name);
    fixture_close(&f);
}

Test(cpu_pointwise, integers_wrap_and_never_trap)
{
    binary_int("aten::add.Tensor", TN_INT8, (int8_t[]){127, -128, 5}, (int8_t[]){1, -1, 6},
               (int8_t[]){-128, 127, 11}, 3);
    binary_int("aten::add.Tensor", TN_UINT8, (uint8_t[]){255, 7}, (uint8_t[]){2, 8}, (uint8_t[]){1, 15}, 2);
    binary_int("aten::floor_divide", TN_INT32, (int32_t[]){7, -7, INT32_MIN}, (int32_t[]){2, 2, -1},
               (int32_t[]){3, -4, INT32_MIN}, 3);
    binary_int("aten::remainder.Tensor", TN_INT64, (int64_t[]){7, -7, 7, INT64_MIN},
               (int64_t[]){3, 3, -3, -1}, (int64_t[]){1, 2, -2, 0}, 4);
    binary_int("aten::pow.Tensor_Tensor", TN_INT64, (int64_t[]){3, 2, -1, 5}, (int64_t[]){4, 62, -3, -1},
               (int64_t[]){81, INT64_C(1) << 62, -1, 0}, 4);
    binary_int("aten::bitwise_right_shift.Tensor", TN_INT16, (int16_t[]){-8, -8, 8}, (int16_t[]){1, 100, 2},
               (int16_t[]){-4, -1, 2}, 3);
    binary_int("aten::gcd", TN_INT32, (int32_t[]){12, -18, 0}, (int32_t[]){18, 12, 5}, (int32_t[]){6, 6, 5},
               3);
}

Test(cpu_pointwise, whole_numbers_divided_by_zero_are_refused)
{
    int64_t n = 3;
    int32_t got[3] = {-1, -1, -1}, numbers[] = {7, 8, 9}, divisors[] = {2, 1, 0};
    fixture f;
    fixture_nest nest;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_INT32, 1, &n, numbers);
    fixture_tensor y = fixture_tensor_make(&f, TN_INT32, 1, &n, divisors);
    fixture_tensor o = fixture_tensor_make(&f, TN_INT32, 1, &n, got);
    tn_value args[] = {fixture_value(&x), fixture_value(&y)}, out = fixture_value(&o);
    fixture_pointwise(&nest, (fixture_tensor *[]){&o, &x, &y}, 3, 1);
    cr_assert_eq(fixture_run(&f, "aten::remainder.Tensor", args, 2, &out, 1, &nest.nest), TN_E_ARGUMENT);
    cr_assert_str_eq(f.error_message, "ZeroDivisionError");
    fixture_read(&f, &o, got);
    cr_assert_eq(got[0], -1, "nothing is written");
    fixture_close(&f);
}

Test(cpu_pointwise, half_types_round_to_nearest_even)
{
    /* 1 + 2^-11 is half way between 1 and the next float16, 1 + 3 * 2^-11 between the next two. */
    int64_t n = 2;
    uint16_t got[2], ones[] = {0x3c00, 0x3c00}, steps[] = {0x1000, 0x1600};
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT16, 1, &n, ones);
    fixture_tensor y = fixture_tensor_make(&f, TN_FLOAT16, 1, &n, steps);
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT16, 1, &n, NULL);
    run(&f, "aten::add.Tensor", (fixture_tensor *[]){&o, &x, &y}, 3, (tn_value[]){tn_value_int(1)}, 1);
    fixture_read(&f, &o, got);
    cr_assert_eq(got[0], 0x3c00);
    cr_assert_eq(got[1], 0x3c02);
    fixture_close(&f);
}

Test(cpu_pointwise, complex_products_and_quotients)
{
    int64_t n = 1;
    float got[2];
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_COMPLEX64, 1, &n, (float[]){1, 2});
    fixture_tensor y = fixture_tensor_make(&f, TN_COMPLEX64, 1, &n, (float[]){3, -1});
    fixture_tensor o = fixture_tensor_make(&f, TN_COMPLEX64, 1, &n, NULL);
    run(&f, "aten::mul.Tensor", (fixture_tensor *[]){&o, &x, &y}, 3, NULL, 0);
    fixture_read(&f, &o, got);
    cr_assert(got[0] == 5 && got[1] == 5);
    run(&f, "aten::div.Tensor", (fixture_tensor *[]){&o, &x, &y}, 3, NULL, 0);
    fixture_read(&f, &o, got);
    cr_assert_float_eq(got[0], 0.1f, 1e-7f);
    cr_assert_float_eq(got[1], 0.7f, 1e-7f);
    fixture_close(&f);
}

Test(cpu_pointwise, a_word_it_does_not_know_is_an_error)
{
    int64_t n = 1;
    fixture f;
    fixture_nest nest;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, (float[]){1});
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_string("cubic")}, out = fixture_value(&o);
    fixture_pointwise(&nest, (fixture_tensor *[]){&o, &x}, 2, 1);
    cr_assert_eq(fixture_run(&f, "aten::gelu", args, 2, &out, 1, &nest.nest), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(f.error_message, "cubic"));
    fixture_close(&f);
}
