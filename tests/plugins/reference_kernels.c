/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of the reference plugin, a call or more of each family, against numbers known from elsewhere. */
#include "suite.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(reference_kernels, .init = setup, .fini = teardown);

static void drop(fixture_tensor *const *tensors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) fixture_tensor_free(&f, tensors[i]);
}
#define DROP(...)                           \
    drop((fixture_tensor *[]){__VA_ARGS__}, \
         (uint32_t)(sizeof((fixture_tensor *[]){__VA_ARGS__}) / sizeof(fixture_tensor *)))

/* Calls a pointwise operator of `n_inputs` operands, with one more argument behind them unless its tag is
 * NONE. */
static int32_t pointwise(const char *name, fixture_tensor *out, fixture_tensor *a, fixture_tensor *b,
                         tn_value extra, void *back)
{
    fixture_nest n;
    tn_value args[3] = {fixture_value(a)}, outs[] = {fixture_value(out)};
    uint32_t count = 1;
    if (b) args[count++] = fixture_value(b);
    if (extra.tag) args[count++] = extra;
    fixture_pointwise(&n, (fixture_tensor *[]){out, a, b}, b ? 3 : 2, 1);
    int32_t status = fixture_run(&f, name, args, count, outs, 1, &n.nest);
    return status ? status : fixture_read(&f, out, back);
}

/* ---- Pointwise --------------------------------------------------------------------------------------- */

/* Values from tables (DLMF, Abramowitz and Stegun) to all digits of a double. */
Test(reference_kernels, unary_values)
{
    static const struct {
        const char *name;
        double x, y;
    } cases[] = {
        {"aten::exp", 1, 2.718281828459045},
        {"aten::log", 10, 2.302585092994046},
        {"aten::erf", 0.5, 0.5204998778130465},
        {"aten::erfc", 0.5, 0.4795001221869535},
        {"aten::erfinv", 0.5, 0.4769362762044699},
        {"aten::lgamma", 0.5, 0.5723649429247001},
        {"aten::digamma", 1, -0.5772156649015329},
        {"aten::digamma", -0.5, 0.03648997397857652},
        {"aten::i0", 1, 1.2660658777520084},
        {"aten::sqrt", 2, 1.4142135623730951},
        {"aten::rsqrt", 4, 0.5},
        {"aten::sigmoid", 0, 0.5},
        {"aten::round", 2.5, 2},
        {"aten::round", -1.5, -2},
        {"aten::trunc", -1.7, -1},
        {"aten::floor", -1.2, -2},
        {"aten::ceil", -1.2, -1},
        {"aten::sgn", -3, -1},
        {"aten::abs", -3, 3},
        {"aten::neg", 3, -3},
        {"aten::reciprocal", 8, 0.125},
        {"aten::tanh", 0.5, 0.46211715726000975},
        {"aten::sinh", 1, 1.1752011936438014},
        {"aten::cosh", 1, 1.5430806348152437},
        {"aten::asin", 1, 1.5707963267948966},
        {"aten::acos", -1, 3.141592653589793},
        {"aten::atan", 1, 0.7853981633974483},
        {"aten::asinh", 1, 0.881373587019543},
        {"aten::acosh", 2, 1.3169578969248166},
        {"aten::atanh", 0.5, 0.5493061443340548},
        {"aten::exp2", 10, 1024},
        {"aten::expm1", 1e-10, 1.00000000005e-10},
        {"aten::log1p", 1e-10, 9.9999999995e-11},
        {"aten::log2", 8, 3},
        {"aten::log10", 1000, 3},
        {"aten::sin", 1, 0.8414709848078965},
        {"aten::cos", 1, 0.5403023058681398},
        {"aten::tan", 1, 1.5574077246549023},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double back;
        fixture_tensor x = vector(TN_FLOAT64, 1, &cases[i].x), y = vector(TN_FLOAT64, 1, NULL);
        cr_assert_eq(pointwise(cases[i].name, &y, &x, NULL, tn_value_none(), &back), TN_OK);
        double error = fabs(back - cases[i].y), size = fabs(cases[i].y);
        cr_assert(error <= 2e-14 * size && error <= 1e-15 * fmax(1, size), "%s(%g) is %.17g, expected %.17g",
                  cases[i].name, cases[i].x, back, cases[i].y);
        DROP(&x, &y);
    }
}

Test(reference_kernels, polygamma_and_incomplete_gamma)
{
    double half = 0.5, one = 1, back;
    fixture_nest n;
    fixture_tensor x = vector(TN_FLOAT64, 1, &one), y = vector(TN_FLOAT64, 1, NULL);
    fixture_tensor a = vector(TN_FLOAT64, 1, &half);
    tn_value args[] = {tn_value_int(1), fixture_value(&x)}, outs[] = {fixture_value(&y)};
    fixture_pointwise(&n, (fixture_tensor *[]){&y, &x}, 2, 1);
    cr_assert_eq(fixture_run(&f, "aten::polygamma", args, 2, outs, 1, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, &y, &back), TN_OK);
    cr_assert_float_eq(back, 1.6449340668482264, 1e-15, "pi^2 / 6");
    args[0] = tn_value_int(2);
    cr_assert_eq(fixture_run(&f, "aten::polygamma", args, 2, outs, 1, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, &y, &back), TN_OK);
    cr_assert_float_eq(back, -2.4041138063191886, 1e-14, "-2 zeta(3)");
    /* P(1/2, 1) = erf(1) */
    cr_assert_eq(pointwise("aten::igamma", &y, &a, &x, tn_value_none(), &back), TN_OK);
    cr_assert_float_eq(back, 0.8427007929497149, 1e-15);
    cr_assert_eq(pointwise("aten::igammac", &y, &a, &x, tn_value_none(), &back), TN_OK);
    cr_assert_float_eq(back, 0.15729920705028513, 1e-15);
    DROP(&x, &y, &a);
}

Test(reference_kernels, add_in_every_dtype)
{
    static const tn_dtype dtypes[] = {TN_UINT8,   TN_UINT16,  TN_UINT32,    TN_UINT64,    TN_INT8,
                                      TN_INT16,   TN_INT32,   TN_INT64,     TN_FLOAT16,   TN_BFLOAT16,
                                      TN_FLOAT32, TN_FLOAT64, TN_COMPLEX64, TN_COMPLEX128};
    const double numbers[] = {3, 4};
    fixture_tensor source = vector(TN_FLOAT64, 2, numbers);
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        char raw[32];
        double back[2];
        fixture_tensor x = vector(dtypes[i], 2, NULL), y = vector(dtypes[i], 2, NULL),
                       d = vector(TN_FLOAT64, 2, NULL);
        tn_value into = fixture_value(&x), copy[] = {into, fixture_value(&source)};
        cr_assert_eq(fixture_run(&f, "prim::copy", copy, 2, &into, 1, NULL), TN_OK);
        cr_assert_eq(pointwise("aten::add.Tensor", &y, &x, &x, tn_value_int(2), raw), TN_OK);
        tn_value out = fixture_value(&d), back_copy[] = {out, fixture_value(&y)};
        cr_assert_eq(fixture_run(&f, "prim::copy", back_copy, 2, &out, 1, NULL), TN_OK);
        cr_assert_eq(fixture_read(&f, &d, back), TN_OK);
        cr_assert_eq(back[0], 9, "dtype %x", dtypes[i]);
        cr_assert_eq(back[1], 12, "dtype %x", dtypes[i]);
        DROP(&x, &y, &d);
    }
    DROP(&source);
}

Test(reference_kernels, integers_wrap_and_floor)
{
    const int8_t a[] = {100, -128, -7, 7}, b[] = {100, -1, 2, -2};
    int8_t back[4];
    uint8_t truth[4];
    fixture_tensor x = vector(TN_INT8, 4, a), y = vector(TN_INT8, 4, b), z = vector(TN_INT8, 4, NULL);
    fixture_tensor t = vector(TN_BOOL, 4, NULL);
    pointwise("aten::add.Tensor", &z, &x, &y, tn_value_int(1), back);
    cr_assert_arr_eq(back, ((int8_t[]){-56, 127, -5, 5}), 4);
    pointwise("aten::div.Tensor_mode", &z, &x, &y, tn_value_string("floor"), back);
    cr_assert_arr_eq(back, ((int8_t[]){1, -128, -4, -4}), 4);
    pointwise("aten::div.Tensor_mode", &z, &x, &y, tn_value_string("trunc"), back);
    cr_assert_arr_eq(back, ((int8_t[]){1, -128, -3, -3}), 4);
    pointwise("aten::remainder.Tensor", &z, &x, &y, tn_value_none(), back);
    cr_assert_arr_eq(back, ((int8_t[]){0, 0, 1, -1}), 4);
    pointwise("aten::fmod.Tensor", &z, &x, &y, tn_value_none(), back);
    cr_assert_arr_eq(back, ((int8_t[]){0, 0, -1, 1}), 4);
    pointwise("aten::lt.Tensor", &t, &x, &y, tn_value_none(), truth);
    cr_assert_arr_eq(truth, ((uint8_t[]){0, 1, 1, 0}), 4);
    pointwise("aten::bitwise_right_shift.Tensor", &z, &y, &x, tn_value_none(), back);
    cr_assert_arr_eq(back, ((int8_t[]){0, -1, 0, -1}), 4);
    DROP(&x, &y, &z, &t);
}

Test(reference_kernels, division_by_zero_is_a_late_error)
{
    const int32_t a[] = {1}, b[] = {0};
    int32_t back;
    fixture_tensor x = vector(TN_INT32, 1, a), y = vector(TN_INT32, 1, b), z = vector(TN_INT32, 1, NULL);
    cr_assert_eq(pointwise("aten::remainder.Tensor", &z, &x, &y, tn_value_none(), &back), TN_E_ARGUMENT);
    cr_assert_str_eq(f.error_message, "aten::remainder.Tensor: ZeroDivisionError");
    DROP(&x, &y, &z);
}

Test(reference_kernels, uint64_is_not_int64)
{
    const uint64_t a[] = {UINT64_MAX, 1}, b[] = {1, UINT64_MAX};
    uint8_t truth[2];
    uint64_t back[2];
    fixture_tensor x = vector(TN_UINT64, 2, a), y = vector(TN_UINT64, 2, b), t = vector(TN_BOOL, 2, NULL);
    fixture_tensor z = vector(TN_UINT64, 2, NULL);
    pointwise("aten::gt.Tensor", &t, &x, &y, tn_value_none(), truth);
    cr_assert_arr_eq(truth, ((uint8_t[]){1, 0}), 2);
    pointwise("aten::maximum", &z, &x, &y, tn_value_none(), back);
    cr_assert_eq(back[0], UINT64_MAX);
    cr_assert_eq(back[1], UINT64_MAX);
    DROP(&x, &y, &t, &z);
}

Test(reference_kernels, complex_numbers)
{
    const double a[] = {1, 2, 3, -4}, b[] = {0, 1, 3, 4};
    double back[4], magnitude[2];
    fixture_tensor x = vector(TN_COMPLEX128, 2, a), y = vector(TN_COMPLEX128, 2, b);
    fixture_tensor z = vector(TN_COMPLEX128, 2, NULL), r = vector(TN_FLOAT64, 2, NULL);
    pointwise("aten::mul.Tensor", &z, &x, &y, tn_value_none(), back);
    cr_assert_arr_eq(back, ((double[]){-2, 1, 25, 0}), 32);
    pointwise("aten::abs", &r, &x, NULL, tn_value_none(), magnitude);
    cr_assert_float_eq(magnitude[0], sqrt(5), 1e-15);
    cr_assert_float_eq(magnitude[1], 5, 1e-15);
    pointwise("aten::conj_physical", &z, &x, NULL, tn_value_none(), back);
    cr_assert_arr_eq(back, ((double[]){1, -2, 3, 4}), 32);
    DROP(&x, &y, &z, &r);
}

Test(reference_kernels, where_takes_a_number_from_the_host)
{
    const uint8_t c[] = {1, 0, 1};
    const float a[] = {1, 2, 3}, number = -5;
    float back[3];
    fixture_nest n;
    fixture_tensor condition = vector(TN_BOOL, 3, c), x = vector(TN_FLOAT32, 3, a),
                   z = vector(TN_FLOAT32, 3, NULL);
    fixture_tensor other = {
        .desc = {.size = sizeof(tn_tensor_desc), .dtype = TN_FLOAT32, .host = (void *)&number}};
    tn_value args[] = {fixture_value(&condition), fixture_value(&x), fixture_value(&other)};
    tn_value outs[] = {fixture_value(&z)};
    fixture_pointwise(&n, (fixture_tensor *[]){&z, &condition, &x, &other}, 4, 1);
    n.operands[3].flags = TN_OPERAND_IMMEDIATE;
    cr_assert_eq(fixture_run(&f, "aten::where.self", args, 3, outs, 1, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, &z, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){1, -5, 3}), 12);
    DROP(&condition, &x, &z);
}

Test(reference_kernels, frexp_has_two_results)
{
    const float a[] = {8, -0.75f, 0};
    float mantissa[3];
    int32_t exponent[3];
    fixture_nest n;
    fixture_tensor x = vector(TN_FLOAT32, 3, a), m = vector(TN_FLOAT32, 3, NULL),
                   e = vector(TN_INT32, 3, NULL);
    tn_value args[] = {fixture_value(&x)}, outs[] = {fixture_value(&m), fixture_value(&e)};
    fixture_pointwise(&n, (fixture_tensor *[]){&m, &e, &x}, 3, 2);
    cr_assert_eq(fixture_run(&f, "aten::frexp.Tensor", args, 1, outs, 2, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, &m, mantissa), TN_OK);
    cr_assert_eq(fixture_read(&f, &e, exponent), TN_OK);
    cr_assert_arr_eq(mantissa, ((float[]){0.5f, -0.75f, 0}), 12);
    cr_assert_arr_eq(exponent, ((int32_t[]){4, 0, 0}), 12);
    DROP(&x, &m, &e);
}

/* ---- Copy, fill, iota -------------------------------------------------------------------------------- */

static void cast(tn_dtype from, tn_dtype to, int64_t count, const void *data, void *back)
{
    fixture_tensor x = vector(from, count, data), y = vector(to, count, NULL);
    tn_value out = fixture_value(&y), args[] = {out, fixture_value(&x)};
    cr_assert_eq(fixture_run(&f, "prim::copy", args, 2, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &y, back), TN_OK);
    DROP(&x, &y);
}

/* Codes from the formats' definitions: ties to even, subnormals, overflow, NaN. */
Test(reference_kernels, casts_to_small_floats)
{
    const float a[] = {1, 65504, 65520, 5.9604645e-8f, 2.9802322e-8f, -0.0f, 1.00048828125f};
    uint16_t half[7], brain[3];
    uint8_t e4m3[5], e5m2[4], power[4];
    float back[3];
    cast(TN_FLOAT32, TN_FLOAT16, 7, a, half);
    cr_assert_arr_eq(half, ((uint16_t[]){0x3c00, 0x7bff, 0x7c00, 0x0001, 0x0000, 0x8000, 0x3c00}), 14);
    cast(TN_FLOAT32, TN_BFLOAT16, 3, ((float[]){1, 1.00390625f, 3.4e38f}), brain);
    cr_assert_arr_eq(brain, ((uint16_t[]){0x3f80, 0x3f80, 0x7f80}), 6);
    cast(TN_FLOAT32, TN_FLOAT8_E4M3FN, 5, ((float[]){1, 448, 480, -0.001953125f, 464}), e4m3);
    cr_assert_arr_eq(e4m3, ((uint8_t[]){0x38, 0x7e, 0x7e, 0x81, 0x7e}), 5);
    cast(TN_FLOAT32, TN_FLOAT8_E5M2, 4, ((float[]){1, 57344, 61440, INFINITY}), e5m2);
    cr_assert_arr_eq(e5m2, ((uint8_t[]){0x3c, 0x7b, 0x7c, 0x7c}), 4);
    cast(TN_FLOAT32, TN_FLOAT8_E4M3FNUZ, 4, ((float[]){1, 240, 256, -0.0f}), e5m2);
    cr_assert_arr_eq(e5m2, ((uint8_t[]){0x40, 0x7f, 0x80, 0x00}), 4);
    cast(TN_FLOAT32, TN_FLOAT8_E8M0FNU, 4, ((float[]){1, 2, 3, NAN}), power);
    cr_assert_arr_eq(power, ((uint8_t[]){127, 128, 129, 255}), 4);
    cast(TN_FLOAT16, TN_FLOAT32, 3, ((uint16_t[]){0x3c00, 0x0001, 0xfc00}), back);
    cr_assert_eq(back[0], 1);
    cr_assert_eq(back[1], 0x1p-24f);
    cr_assert_eq(back[2], -INFINITY);
}

Test(reference_kernels, casts_between_kinds)
{
    int32_t integers[3];
    uint8_t bytes[3], truth[3];
    float floats[2];
    uint16_t pair[4];
    cast(TN_FLOAT64, TN_INT32, 3, ((double[]){-2.9, 2.9, 7}), integers);
    cr_assert_arr_eq(integers, ((int32_t[]){-2, 2, 7}), 12);
    cast(TN_INT32, TN_UINT8, 3, ((int32_t[]){-1, 256, 300}), bytes);
    cr_assert_arr_eq(bytes, ((uint8_t[]){255, 0, 44}), 3);
    cast(TN_FLOAT32, TN_BOOL, 3, ((float[]){0, 0.5f, NAN}), truth);
    cr_assert_arr_eq(truth, ((uint8_t[]){0, 1, 1}), 3);
    cast(TN_COMPLEX64, TN_FLOAT32, 2, ((float[]){1, 2, 3, 4}), floats);
    cr_assert_arr_eq(floats, ((float[]){1, 3}), 8);
    cast(TN_COMPLEX64, TN_COMPLEX32, 2, ((float[]){1, 2, -1, 0}), pair);
    cr_assert_arr_eq(pair, ((uint16_t[]){0x3c00, 0x4000, 0xbc00, 0}), 8);
    cast(TN_INT64, TN_FLOAT32, 1, ((int64_t[]){9007199791611905}), floats);
    cr_assert_eq(floats[0], 9007200328482816.0f, "rounded once, not by way of double");
}

Test(reference_kernels, copy_reads_strides_and_lazy_bits)
{
    const double a[] = {1, 2, 3, 4, 5, 6, 7, 8};
    double back[8];
    fixture_tensor x = matrix(TN_COMPLEX128, 2, 2, a), y = matrix(TN_COMPLEX128, 2, 2, NULL);
    tn_value out = fixture_value(&y), args[] = {out, fixture_value(&x)};
    x.strides[0] = 1;
    x.strides[1] = 2;
    x.desc.flags = TN_DESC_CONJ | TN_DESC_NEG;
    cr_assert_eq(fixture_run(&f, "prim::copy", args, 2, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &y, back), TN_OK);
    cr_assert_arr_eq(back, ((double[]){-1, 2, -5, 6, -3, 4, -7, 8}), 64);
    DROP(&x, &y);
}

Test(reference_kernels, iota_counts)
{
    int64_t back[4];
    float floats[3];
    fixture_tensor x = vector(TN_INT64, 4, NULL), y = vector(TN_FLOAT32, 3, NULL);
    tn_value out = fixture_value(&x), args[] = {out, tn_value_int(9007199254740993), tn_value_int(-2)};
    cr_assert_eq(fixture_run(&f, "prim::iota", args, 3, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &x, back), TN_OK);
    cr_assert_eq(back[0], 9007199254740993);
    cr_assert_eq(back[3], 9007199254740987);
    tn_value other = fixture_value(&y), more[] = {other, tn_value_float(0.5), tn_value_float(0.25)};
    cr_assert_eq(fixture_run(&f, "prim::iota", more, 3, &other, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &y, floats), TN_OK);
    cr_assert_arr_eq(floats, ((float[]){0.5f, 0.75f, 1}), 12);
    DROP(&x, &y);
}

/* ---- Reductions and scans ---------------------------------------------------------------------------- */

static void reduce(const char *name, fixture_tensor *out, fixture_tensor *in, uint32_t dims, void *back)
{
    fixture_nest n;
    tn_value args[] = {fixture_value(in), tn_value_none(), tn_value_bool(0), tn_value_none()};
    tn_value outs[] = {fixture_value(out)};
    fixture_reduction(&n, out, in, dims);
    cr_assert_eq(fixture_run(&f, name, args, 4, outs, 1, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, out, back), TN_OK);
}

Test(reference_kernels, reductions)
{
    const float a[] = {1, 2, 3, 4, NAN, 6};
    const uint8_t bytes[] = {200, 200, 0};
    float rows[2], columns[3];
    uint8_t truth;
    int64_t total;
    fixture_tensor x = matrix(TN_FLOAT32, 2, 3, a), r = vector(TN_FLOAT32, 2, NULL),
                   c = vector(TN_FLOAT32, 3, NULL);
    fixture_tensor b = vector(TN_UINT8, 3, bytes), s = vector(TN_INT64, 1, NULL),
                   t = vector(TN_BOOL, 1, NULL);
    reduce("aten::sum.dim_IntList", &r, &x, 2, rows);
    cr_assert_eq(rows[0], 6);
    cr_assert(isnan(rows[1]));
    reduce("aten::amax", &c, &x, 1, columns);
    cr_assert_eq(columns[0], 4);
    cr_assert(isnan(columns[1]));
    cr_assert_eq(columns[2], 6);
    reduce("aten::mean.dim", &c, &x, 1, columns);
    cr_assert_eq(columns[0], 2.5f);
    reduce("aten::prod.dim_int", &c, &x, 1, columns);
    cr_assert_eq(columns[2], 18);
    reduce("aten::sum", &s, &b, 1, &total);
    cr_assert_eq(total, 400);
    reduce("aten::any", &t, &b, 1, &truth);
    cr_assert_eq(truth, 1);
    reduce("aten::all", &t, &b, 1, &truth);
    cr_assert_eq(truth, 0);
    DROP(&x, &r, &c, &b, &s, &t);
}

Test(reference_kernels, positions)
{
    const float a[] = {1, 5, 5, 7, 2, NAN};
    int64_t rows[2], whole;
    fixture_tensor x = matrix(TN_FLOAT32, 2, 3, a), r = vector(TN_INT64, 2, NULL);
    fixture_tensor w = fixture_tensor_make(&f, TN_INT64, 0, NULL, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_int(-1), tn_value_bool(0)}, out = fixture_value(&r);
    cr_assert_eq(fixture_run(&f, "aten::argmax", args, 3, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &r, rows), TN_OK);
    cr_assert_arr_eq(rows, ((int64_t[]){1, 2}), 16);
    args[1] = tn_value_none();
    out = fixture_value(&w);
    cr_assert_eq(fixture_run(&f, "aten::argmin", args, 3, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &w, &whole), TN_OK);
    cr_assert_eq(whole, 5, "a NaN is smaller than all, too");
    DROP(&x, &r, &w);
}

Test(reference_kernels, scans)
{
    const int32_t a[] = {1, 2, 3, 4, 5, 6};
    const float b[] = {1, 3, 3, 2, NAN, 9};
    int64_t sums[6], positions[6];
    float values[6];
    fixture_tensor x = matrix(TN_INT32, 2, 3, a), s = matrix(TN_INT64, 2, 3, NULL);
    fixture_tensor y = vector(TN_FLOAT32, 6, b), v = vector(TN_FLOAT32, 6, NULL),
                   p = vector(TN_INT64, 6, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_int(0), tn_value_none()}, out = fixture_value(&s);
    cr_assert_eq(fixture_run(&f, "aten::cumsum", args, 3, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &s, sums), TN_OK);
    cr_assert_arr_eq(sums, ((int64_t[]){1, 2, 3, 5, 7, 9}), 48);
    args[1] = tn_value_int(-1);
    cr_assert_eq(fixture_run(&f, "aten::cumprod", args, 3, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &s, sums), TN_OK);
    cr_assert_arr_eq(sums, ((int64_t[]){1, 2, 6, 4, 20, 120}), 48);
    tn_value more[] = {fixture_value(&y), tn_value_int(0)}, outs[] = {fixture_value(&v), fixture_value(&p)};
    cr_assert_eq(fixture_run(&f, "aten::cummax", more, 2, outs, 2, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &v, values), TN_OK);
    cr_assert_eq(fixture_read(&f, &p, positions), TN_OK);
    cr_assert_arr_eq(positions, ((int64_t[]){0, 1, 2, 2, 4, 4}), 48);
    cr_assert_eq(values[3], 3);
    cr_assert(isnan(values[5]));
    DROP(&x, &s, &y, &v, &p);
}

/* ---- Indexing, sorting ------------------------------------------------------------------------------- */

Test(reference_kernels, gather_and_scatter)
{
    const float a[] = {1, 2, 3, 4}, more[] = {10, 20, 30, 40};
    const int64_t positions[] = {1, 0, 1, 1};
    float back[4];
    fixture_tensor x = matrix(TN_FLOAT32, 2, 2, a), index = matrix(TN_INT64, 2, 2, positions);
    fixture_tensor src = matrix(TN_FLOAT32, 2, 2, more), y = matrix(TN_FLOAT32, 2, 2, NULL);
    tn_value out = fixture_value(&y);
    tn_value gather[] = {fixture_value(&x), tn_value_int(1), fixture_value(&index), tn_value_bool(0)};
    cr_assert_eq(fixture_run(&f, "aten::gather", gather, 4, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &y, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){2, 1, 4, 4}), 16);
    tn_value args[] = {fixture_value(&x),   tn_value_int(1),         fixture_value(&index),
                       fixture_value(&src), tn_value_string("mean"), tn_value_bool(0)};
    out = args[0];
    cr_assert_eq(fixture_run(&f, "aten::scatter_add_", args, 4, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &x, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){21, 12, 3, 74}), 16);
    cr_assert_eq(fixture_run(&f, "aten::scatter_reduce_.two", args, 6, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &x, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){20, 10, 3, 35}), 16);
    args[3] = tn_value_float(-1);
    cr_assert_eq(fixture_run(&f, "aten::scatter_.value", args, 4, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &x, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){-1, -1, 3, -1}), 16);
    DROP(&x, &index, &src, &y);
}

Test(reference_kernels, sort_is_stable_and_puts_nan_last)
{
    const float a[] = {3, NAN, 1, 3, 1};
    float values[5];
    int64_t positions[5];
    fixture_tensor x = vector(TN_FLOAT32, 5, a), v = vector(TN_FLOAT32, 5, NULL),
                   p = vector(TN_INT64, 5, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_bool(1), tn_value_int(-1), tn_value_bool(0)};
    tn_value outs[] = {fixture_value(&v), fixture_value(&p)};
    cr_assert_eq(fixture_run(&f, "aten::sort.stable", args, 4, outs, 2, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &v, values), TN_OK);
    cr_assert_eq(fixture_read(&f, &p, positions), TN_OK);
    cr_assert_arr_eq(positions, ((int64_t[]){2, 4, 0, 3, 1}), 40);
    cr_assert(isnan(values[4]));
    args[3] = tn_value_bool(1);
    cr_assert_eq(fixture_run(&f, "aten::sort.stable", args, 4, outs, 2, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &p, positions), TN_OK);
    cr_assert_arr_eq(positions, ((int64_t[]){1, 0, 3, 2, 4}), 40);
    DROP(&x, &v, &p);
}

Test(reference_kernels, nonzero_sizes_its_output)
{
    const int32_t a[] = {0, 1, 0, 2, 0, 3};
    int64_t back[6];
    fixture_tensor x = matrix(TN_INT32, 2, 3, a),
                   p = {.desc = {.size = sizeof(tn_tensor_desc), .dtype = TN_INT64}};
    tn_value args[] = {fixture_value(&x)}, out = fixture_value(&p);
    cr_assert_eq(fixture_run(&f, "aten::nonzero", args, 1, &out, 1, NULL), TN_OK);
    cr_assert_eq(p.sizes[0], 3);
    cr_assert_eq(p.sizes[1], 2);
    cr_assert_eq(fixture_read(&f, &p, back), TN_OK);
    cr_assert_arr_eq(back, ((int64_t[]){0, 1, 1, 0, 1, 2}), 48);
    DROP(&x, &p);
}

Test(reference_kernels, products)
{
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12};
    const int64_t left[] = {1, 2, 3}, right[] = {1, 3, 2}, result[] = {1, 2, 2};
    float back[4];
    fixture_tensor x = matrix(TN_FLOAT32, 2, 3, a), y = matrix(TN_FLOAT32, 3, 2, b),
                   z = matrix(TN_FLOAT32, 2, 2, NULL);
    tn_value args[] = {fixture_value(&x), fixture_value(&y)}, out = fixture_value(&z);
    cr_assert_eq(fixture_run(&f, "aten::mm", args, 2, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &z, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){58, 64, 139, 154}), 16);
    fixture_tensor p = fixture_tensor_make(&f, TN_FLOAT32, 3, left, a),
                   q = fixture_tensor_make(&f, TN_FLOAT32, 3, right, b);
    fixture_tensor r = fixture_tensor_make(&f, TN_FLOAT32, 3, result, NULL);
    tn_value batch[] = {fixture_value(&p), fixture_value(&q)};
    out = fixture_value(&r);
    cr_assert_eq(fixture_run(&f, "aten::bmm", batch, 2, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &r, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){58, 64, 139, 154}), 16);
    DROP(&x, &y, &z, &p, &q, &r);
}

/* ---- Random numbers ---------------------------------------------------------------------------------- */

static void draw(fixture_tensor *t, int64_t distribution, tn_value a, tn_value b, uint64_t seed,
                 uint64_t offset, void *back)
{
    tn_value out = fixture_value(t);
    tn_value args[] = {out, tn_value_int(distribution),  a,
                       b,   tn_value_int((int64_t)seed), tn_value_int((int64_t)offset)};
    cr_assert_eq(fixture_run(&f, "prim::random", args, 6, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, t, back), TN_OK);
}

/* The known answer of Philox-4x32-10 for counter 0 and key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8. */
Test(reference_kernels, random_bits_are_those_of_philox)
{
    uint32_t words[4];
    uint64_t wide[2];
    float units[2];
    double normals[2];
    fixture_tensor x = vector(TN_UINT32, 4, NULL), y = vector(TN_UINT64, 2, NULL),
                   u = vector(TN_FLOAT32, 2, NULL);
    fixture_tensor z = vector(TN_FLOAT32, 2, NULL);
    float back[2];
    draw(&x, TN_RANDOM_BITS, tn_value_int(0), tn_value_int((int64_t)1 << 32), 0, 0, words);
    cr_assert_arr_eq(words, ((uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), 16);
    draw(&y, TN_RANDOM_BITS, tn_value_int(0), tn_value_int(0), 0, 0, wide);
    cr_assert_eq(wide[0], 0xe169c58d6627e8d5u);
    cr_assert_eq(wide[1], 0x9b00dbd8bc57ac4cu);
    draw(&u, TN_RANDOM_UNIFORM, tn_value_float(0), tn_value_float(1), 0, 0, units);
    cr_assert_eq(units[0], (float)0x6627e8 * 0x1p-24f);
    cr_assert_eq(units[1], (float)0xe169c5 * 0x1p-24f);
    draw(&z, TN_RANDOM_NORMAL, tn_value_float(1), tn_value_float(2), 0, 0, back);
    normals[0] = sqrt(-2 * log((0x6627e8 + 1) * 0x1p-24)),
    normals[1] = 2 * 3.141592653589793 * 0xe169c5 * 0x1p-24;
    cr_assert_float_eq(back[0], normals[0] * cos(normals[1]) * 2 + 1, 1e-6);
    cr_assert_float_eq(back[1], normals[0] * sin(normals[1]) * 2 + 1, 1e-6);
    DROP(&x, &y, &u, &z);
}
