/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise rows of half types: every value, at every address and for every length, against double arithmetic
 * that is rounded here.
 */
#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { COUNT = 65536 };

typedef struct format {
    tn_dtype dtype;
    int mantissa; /* bits, including the hidden one */
    int lowest;   /* exponent of the smallest normal number, as frexp has it */
    int highest;
} format;
static const format formats[] = {{TN_FLOAT16, 11, -13, 16}, {TN_BFLOAT16, 8, -125, 128}};

static double value_of(const format *f, uint16_t bits)
{
    int stored = f->mantissa - 1, exponent = bits >> stored & ((1 << (15 - stored)) - 1);
    double fraction = bits & ((1 << stored) - 1), sign = bits & 0x8000 ? -1 : 1;
    if (exponent == (1 << (15 - stored)) - 1) return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, f->lowest - f->mantissa);
    return sign * ldexp(fraction + (1 << stored), f->lowest - f->mantissa + exponent - 1);
}

/* To nearest, ties to even. */
static double rounded(const format *f, double x)
{
    int exponent;
    if (!isfinite(x) || x == 0) return x;
    frexp(x, &exponent);
    if (exponent < f->lowest) exponent = f->lowest;
    x = ldexp(nearbyint(ldexp(x, f->mantissa - exponent)), exponent - f->mantissa);
    return fabs(x) >= ldexp(1, f->highest) ? copysign(INFINITY, x) : x;
}

typedef struct half_case {
    const char *name;
    uint32_t n_inputs, n_extra;
    double (*of)(double a, double b);
    tn_value extra[2];
} half_case;

static double relu(double a, double b)
{
    return isnan(a) || a > 0 ? a : 0;
}
static double hardtanh(double a, double b)
{
    return a < -1.5 ? -1.5 : a > 6 ? 6 : a;
}
static double bounded_by_nan(double a, double b)
{
    return NAN;
}
static double negated(double a, double b)
{
    return -a;
}
static double magnitude(double a, double b)
{
    return fabs(a);
}
static double sum(double a, double b)
{
    return a + b;
}
static double product(double a, double b)
{
    return a * b;
}
static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
}
static double masked(double g, double a)
{
    return a <= 0.5 ? 0 : g;
}

static void check(fixture *f, const format *fmt, const half_case *c, int64_t shift, int64_t n)
{
    static uint16_t a[COUNT + 8], b[COUNT + 8], got[COUNT + 8];
    int64_t all = COUNT + 8;
    tn_value args[4], out;
    fixture_nest nest;
    for (int64_t i = 0; i < all; i++) a[i] = (uint16_t)i, b[i] = (uint16_t)(i * 40503 + 11);
    fixture_tensor x = fixture_tensor_make(f, fmt->dtype, 1, &all, a);
    fixture_tensor y = fixture_tensor_make(f, fmt->dtype, 1, &all, b);
    fixture_tensor o = fixture_tensor_make(f, fmt->dtype, 1, &all, NULL), *operands[] = {&o, &x, &y};
    for (int i = 0; i < 3; i++) {
        operands[i]->sizes[0] = n;
        operands[i]->desc.host = (char *)operands[i]->desc.host + 2 * shift;
    }
    for (uint32_t i = 0; i < c->n_inputs; i++) args[i] = fixture_value(operands[i + 1]);
    for (uint32_t i = 0; i < c->n_extra; i++) args[c->n_inputs + i] = c->extra[i];
    out = fixture_value(&o);
    fixture_pointwise(&nest, operands, 1 + c->n_inputs, 1);
    cr_assert_eq(fixture_run(f, c->name, args, c->n_inputs + c->n_extra, &out, 1, &nest.nest), TN_OK,
                 "%s: %s", c->name, f->error_message);
    memcpy(got, o.desc.host, (size_t)n * 2);
    for (int64_t i = 0; i < n; i++) {
        double want = rounded(fmt, c->of(value_of(fmt, a[i + shift]), value_of(fmt, b[i + shift])));
        double is = value_of(fmt, got[i]);
        cr_assert(is == want || (isnan(is) && isnan(want)), "%s of 0x%04x and 0x%04x: %g, not %g", c->name,
                  a[i + shift], b[i + shift], is, want);
    }
    cr_assert_eq(((uint16_t *)o.desc.host)[n], 0, "%s of %lld elements writes one more", c->name,
                 (long long)n);
    for (int i = 0; i < 3; i++) {
        operands[i]->desc.host = (char *)operands[i]->desc.host - 2 * shift;
        fixture_tensor_free(f, operands[i]);
    }
}

Test(cpu_half, every_value_at_any_address_in_any_length)
{
    const half_case cases[] = {
        {"aten::relu", 1, 0, relu, {{0}}},
        {"aten::hardtanh", 1, 2, hardtanh, {tn_value_float(-1.5), tn_value_int(6)}},
        {"aten::clamp", 1, 2, bounded_by_nan, {tn_value_float(NAN), tn_value_int(6)}},
        {"aten::neg", 1, 0, negated, {{0}}},
        {"aten::abs", 1, 0, magnitude, {{0}}},
        {"aten::add.Tensor", 2, 1, sum, {tn_value_int(1)}},
        {"aten::mul.Tensor", 2, 0, product, {{0}}},
        {"aten::maximum", 2, 0, larger, {{0}}},
        {"aten::threshold_backward", 2, 1, masked, {tn_value_float(0.5)}},
    };
    fixture f;
    fixture_open(&f);
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            check(&f, &formats[k], &cases[i], 0, COUNT);
            check(&f, &formats[k], &cases[i], 1, COUNT - 1);
            for (int64_t n = 1; n < 70; n += 3) check(&f, &formats[k], &cases[i], n % 5, n);
        }
    }
    fixture_close(&f);
}

/* One element for each row, as gradients of means have it: 49 and 300 columns, of which a run holds less and
 * more than a row. */
Test(cpu_half, rows_of_one_element)
{
    enum { ROWS = 40, COLUMNS = 300 };
    static uint16_t column[ROWS], got[ROWS * COLUMNS];
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < ROWS; i++) column[i] = (uint16_t)(0x3c00 + i);
    for (int64_t columns = 49; columns <= COLUMNS; columns += COLUMNS - 49) {
        int64_t sizes[] = {ROWS, columns}, one[] = {1, 1};
        uint16_t two = 0x4000;
        fixture_nest nest;
        fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT16, 2, (int64_t[]){ROWS, 1}, column);
        fixture_tensor y = fixture_tensor_make(&f, TN_FLOAT16, 2, one, &two);
        fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT16, 2, sizes, NULL);
        tn_value args[] = {fixture_value(&x), fixture_value(&y)}, out = fixture_value(&o);
        fixture_pointwise(&nest, (fixture_tensor *[]){&o, &x, &y}, 3, 1);
        cr_assert_eq(fixture_run(&f, "aten::div.Tensor", args, 2, &out, 1, &nest.nest), TN_OK);
        fixture_read(&f, &o, got);
        for (int i = 0; i < ROWS * columns; i++) cr_assert_eq(got[i], 0x3800 + i / columns);
        fixture_tensor_free(&f, &x);
        fixture_tensor_free(&f, &y);
        fixture_tensor_free(&f, &o);
    }
    fixture_close(&f);
}
