/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of single elements. Codes and values of the narrow formats were recorded from PyTorch 2.13. */
#include "core/dtype.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { VALUES = 24 };

/* Values to convert, and for each format their codes and what these codes mean. */
static const float values[VALUES] = {0,
                                     -0.0f,
                                     0x1p+0,
                                     -0x1.8p+0,
                                     0x1.999999999999ap-4,
                                     0x1.cp+8,
                                     0x1.d1p+8,
                                     0x1.ep+7,
                                     0x1.cp+15,
                                     0x1.ep+15,
                                     0x1p-9,
                                     0x1p-10,
                                     0x1.8p-10,
                                     0x1.4f8b588e368f1p-17,
                                     0x1p-17,
                                     0x1.8p+1,
                                     0x1.1p+0,
                                     0x1.3p+0,
                                     0x1.fff5c939522dbp-26,
                                     0x1p-24,
                                     0x1.ffdep+15,
                                     0x1.ffep+15,
                                     0x1.93e5939a08ceap+99,
                                     INFINITY};

static const struct {
    tn_dtype dtype;
    uint32_t codes[VALUES];
    float back[VALUES];
} narrow[] = {
    {TN_FLOAT8_E4M3FN,
     {0x0, 0x80, 0x38, 0xbc, 0x1d, 0x7e, 0x7e, 0x77, 0x7e, 0x7e, 0x1,  0x0,
      0x1, 0x0,  0x0,  0x44, 0x38, 0x3a, 0x0,  0x0,  0x7e, 0x7e, 0x7e, 0x7e},
     {0,        -0.0f,    0x1p+0, -0x1.8p+0, 0x1.ap-4, 0x1.cp+8, 0x1.cp+8, 0x1.ep+7,
      0x1.cp+8, 0x1.cp+8, 0x1p-9, 0,         0x1p-9,   0,        0,        0x1.8p+1,
      0x1p+0,   0x1.4p+0, 0,      0,         0x1.cp+8, 0x1.cp+8, 0x1.cp+8, 0x1.cp+8}},
    {TN_FLOAT8_E4M3FNUZ,
     {0x0, 0x0, 0x40, 0xc4, 0x25, 0x80, 0x80, 0x7f, 0x80, 0x80, 0x2,  0x1,
      0x2, 0x0, 0x0,  0x4c, 0x40, 0x42, 0x0,  0x0,  0x80, 0x80, 0x80, 0x80},
     {0,      0, 0x1p+0, -0x1.8p+0, 0x1.ap-4, NAN,      NAN, 0x1.ep+7, NAN, NAN, 0x1p-9, 0x1p-10,
      0x1p-9, 0, 0,      0x1.8p+1,  0x1p+0,   0x1.4p+0, 0,   0,        NAN, NAN, NAN,    NAN}},
    {TN_FLOAT8_E5M2,
     {0x0,  0x80, 0x3c, 0xbe, 0x2e, 0x5f, 0x5f, 0x5c, 0x7b, 0x7c, 0x18, 0x14,
      0x16, 0x1,  0x0,  0x42, 0x3c, 0x3d, 0x0,  0x0,  0x7c, 0x7c, 0x7c, 0x7c},
     {0,         -0.0f,    0x1p+0, -0x1.8p+0, 0x1.8p-4,  0x1.cp+8, 0x1.cp+8, 0x1p+8,
      0x1.cp+15, INFINITY, 0x1p-9, 0x1p-10,   0x1.8p-10, 0x1p-16,  0,        0x1.8p+1,
      0x1p+0,    0x1.4p+0, 0,      0,         INFINITY,  INFINITY, INFINITY, INFINITY}},
    {TN_FLOAT8_E5M2FNUZ,
     {0x0,  0x0, 0x40, 0xc2, 0x32, 0x63, 0x63, 0x60, 0x7f, 0x80, 0x1c, 0x18,
      0x1a, 0x1, 0x1,  0x46, 0x40, 0x41, 0x0,  0x0,  0x80, 0x80, 0x80, 0x80},
     {0,         0,        0x1p+0, -0x1.8p+0, 0x1.8p-4,  0x1.cp+8, 0x1.cp+8, 0x1p+8,
      0x1.cp+15, NAN,      0x1p-9, 0x1p-10,   0x1.8p-10, 0x1p-17,  0x1p-17,  0x1.8p+1,
      0x1p+0,    0x1.4p+0, 0,      0,         NAN,       NAN,      NAN,      NAN}},
    {TN_FLOAT8_E8M0FNU,
     {0x0,  0x0,  0x7f, 0x80, 0x7c, 0x88, 0x88, 0x87, 0x8f, 0x8f, 0x76, 0x75,
      0x76, 0x6e, 0x6e, 0x81, 0x7f, 0x7f, 0x66, 0x67, 0x8f, 0x8f, 0xe3, 0xff},
     {0x1p-127, 0x1p-127, 0x1p+0,  0x1p+1,  0x1p-3,  0x1p+9,  0x1p+9,   0x1p+8,
      0x1p+16,  0x1p+16,  0x1p-9,  0x1p-10, 0x1p-9,  0x1p-17, 0x1p-17,  0x1p+2,
      0x1p+0,   0x1p+0,   0x1p-25, 0x1p-24, 0x1p+16, 0x1p+16, 0x1p+100, NAN}},
    {TN_FLOAT16,
     {0x0,    0x8000, 0x3c00, 0xbe00, 0x2e66, 0x5f00, 0x5f44, 0x5b80, 0x7b00, 0x7b80, 0x1800, 0x1400,
      0x1600, 0xa8,   0x80,   0x4200, 0x3c40, 0x3cc0, 0x0,    0x1,    0x7bff, 0x7c00, 0x7c00, 0x7c00},
     {0,         -0.0f,     0x1p+0, -0x1.8p+0, 0x1.998p-4,  0x1.cp+8,  0x1.d1p+8, 0x1.ep+7,
      0x1.cp+15, 0x1.ep+15, 0x1p-9, 0x1p-10,   0x1.8p-10,   0x1.5p-17, 0x1p-17,   0x1.8p+1,
      0x1.1p+0,  0x1.3p+0,  0,      0x1p-24,   0x1.ffcp+15, INFINITY,  INFINITY,  INFINITY}},
    {TN_BFLOAT16,
     {0x0,    0x8000, 0x3f80, 0xbfc0, 0x3dcd, 0x43e0, 0x43e8, 0x4370, 0x4760, 0x4770, 0x3b00, 0x3a80,
      0x3ac0, 0x3728, 0x3700, 0x4040, 0x3f88, 0x3f98, 0x3300, 0x3380, 0x4780, 0x4780, 0x714a, 0x7f80},
     {0,         -0.0f,     0x1p+0,  -0x1.8p+0, 0x1.9ap-4, 0x1.cp+8,  0x1.dp+8,   0x1.ep+7,
      0x1.cp+15, 0x1.ep+15, 0x1p-9,  0x1p-10,   0x1.8p-10, 0x1.5p-17, 0x1p-17,    0x1.8p+1,
      0x1.1p+0,  0x1.3p+0,  0x1p-25, 0x1p-24,   0x1p+16,   0x1p+16,   0x1.94p+99, INFINITY}},
};

static float widen(tn_dtype dtype, uint32_t code)
{
    if (dtype == TN_FLOAT16) return tni_half_to_float((uint16_t)code);
    if (dtype == TN_BFLOAT16) return tni_bfloat_to_float((uint16_t)code);
    return tni_float8_to_float((uint8_t)code, dtype);
}

static uint32_t narrow_to(tn_dtype dtype, float f)
{
    if (dtype == TN_FLOAT16) return tni_float_to_half(f);
    if (dtype == TN_BFLOAT16) return tni_float_to_bfloat(f);
    return tni_float_to_float8(f, dtype);
}

Test(element, narrow_floats)
{
    for (uint32_t k = 0; k < sizeof(narrow) / sizeof(*narrow); k++) {
        for (uint32_t i = 0; i < VALUES; i++) {
            float back = widen(narrow[k].dtype, narrow[k].codes[i]), expected = narrow[k].back[i];
            cr_assert_eq(narrow_to(narrow[k].dtype, values[i]), narrow[k].codes[i], "format %u, value %a", k,
                         (double)values[i]);
            cr_assert(back == expected || (isnan(back) && isnan(expected)), "format %u, code %#x", k,
                      narrow[k].codes[i]);
        }
    }
}

/* Every code is a value that comes back as itself; between neighbours the nearer is taken, the even one at
 * half way. */
Test(element, all_codes_round_to_nearest_even)
{
    static const struct {
        tn_dtype dtype;
        uint32_t top;
    } formats[] = {{TN_FLOAT16, 0x7bff},       {TN_BFLOAT16, 0x7f7f},  {TN_FLOAT8_E4M3FN, 0x7e},
                   {TN_FLOAT8_E4M3FNUZ, 0x7f}, {TN_FLOAT8_E5M2, 0x7b}, {TN_FLOAT8_E5M2FNUZ, 0x7f}};
    for (uint32_t k = 0; k < 6; k++) {
        tn_dtype d = formats[k].dtype;
        uint32_t sign = TN_DTYPE_BITS(d) == 16 ? 0x8000 : 0x80;
        for (uint32_t code = 0; code < formats[k].top; code++) {
            float low = widen(d, code), high = widen(d, code + 1);
            cr_assert_lt(low, high);
            cr_assert_eq(narrow_to(d, low), code);
            if (code) cr_assert_eq(narrow_to(d, -low), code | sign);
            float middle = (float)(((double)low + high) / 2);
            cr_assert_eq(narrow_to(d, middle), code + (code & 1), "format %u code %x", k, code);
            cr_assert_eq(narrow_to(d, nextafterf(middle, low)), code);
            cr_assert_eq(narrow_to(d, nextafterf(middle, high)), code + 1);
        }
    }
}

Test(element, powers_of_two)
{
    for (uint32_t code = 0; code < 255; code++) {
        cr_assert_eq(tni_float8_to_float((uint8_t)code, TN_FLOAT8_E8M0FNU), ldexpf(1, (int)code - 127));
        cr_assert_eq(tni_float_to_float8(ldexpf(-1, (int)code - 127), TN_FLOAT8_E8M0FNU), code);
    }
    cr_assert(isnan(tni_float8_to_float(255, TN_FLOAT8_E8M0FNU)));
}

Test(element, double_to_half_goes_through_float)
{
    cr_assert_eq(tni_double_to_half(1.0 + 0x1p-11 + 0x1p-40), 0x3c00);
    cr_assert_eq(tni_double_to_half(65520.0), 0x7c00);
}

/* Stores and loads in all dtypes; 3.0 is exact everywhere but in the format of powers of two. */
Test(element, round_trip)
{
    for (int32_t i = 0; i < TNI_DTYPE_COUNT; i++) {
        tn_dtype d = tni_dtype_at(i);
        unsigned char bytes[17];
        double pair[2];
        memset(bytes, 0xee, sizeof(bytes));
        tni_scalar_store(bytes, d, tn_value_int(3));
        tn_value v = tni_scalar_load(bytes, d, pair);
        double expected = d == TN_BOOL ? 1 : d == TN_FLOAT8_E8M0FNU ? 4 : 3;
        cr_assert_eq(tn_value_as_float(v), expected, "dtype %d", i);
        for (uint32_t b = TN_DTYPE_BITS(d) / 8; b < sizeof(bytes); b++) cr_assert_eq(bytes[b], 0xee);
    }
}

static int64_t stored_int(tn_dtype dtype, double f)
{
    unsigned char bytes[16];
    double pair[2];
    tni_scalar_store(bytes, dtype, tn_value_float(f));
    return tni_scalar_load(bytes, dtype, pair).as.i;
}

Test(element, floats_to_integers)
{
    cr_assert_eq(stored_int(TN_INT32, -3.9), -3);
    cr_assert_eq(stored_int(TN_UINT8, -1.0), 255);
    cr_assert_eq(stored_int(TN_UINT8, 300.0), 44);
    cr_assert_eq(stored_int(TN_INT8, 200.0), -56);
    cr_assert_eq(stored_int(TN_INT64, 1e30), INT64_MAX);
    cr_assert_eq(stored_int(TN_INT64, -1e30), INT64_MIN);
    cr_assert_eq(stored_int(TN_INT64, NAN), 0);
    cr_assert_eq((uint64_t)stored_int(TN_UINT64, 18446744073709549568.0), 18446744073709549568ull);
    cr_assert_eq((uint64_t)stored_int(TN_UINT64, 1e30), UINT64_MAX);
    cr_assert_eq(stored_int(TN_BOOL, NAN), 1);
    cr_assert_eq(stored_int(TN_BOOL, -0.0), 0);
    cr_assert_eq(stored_int(TN_BOOL, 0.25), 1);
}

Test(element, exact_integers)
{
    tni_element e;
    uint64_t big = UINT64_MAX - 1;
    int64_t back;
    float f;
    tni_element_load(&big, TN_UINT64, &e);
    cr_assert_eq(e.re, 18446744073709551616.0);
    tni_element_store(&back, TN_UINT64, &e);
    cr_assert_eq((uint64_t)back, big);
    tni_element_store(&f, TN_FLOAT32, &e);
    cr_assert_eq(f, 0x1p64f);
    int64_t odd = (1ll << 62) + (1ll << 38) + 1; /* a double would round it to a tie of float32 */
    tni_element_load(&odd, TN_INT64, &e);
    tni_element_store(&f, TN_FLOAT32, &e);
    cr_assert_eq(f, 0x1p62f + 0x1p39f);
    tni_element_store(&back, TN_INT64, &e);
    cr_assert_eq(back, odd);
}

Test(element, complex_numbers)
{
    double pair[2] = {1.5, -2.0}, read[2];
    unsigned char bytes[16];
    for (uint32_t i = TNI_INDEX_COMPLEX32; i <= TNI_INDEX_COMPLEX128; i++) {
        tni_scalar_store(bytes, tni_dtype_at((int32_t)i), tn_value_complex(pair));
        tn_value v = tni_scalar_load(bytes, tni_dtype_at((int32_t)i), read);
        cr_assert_eq(v.tag, TN_TAG_COMPLEX);
        cr_assert_eq(v.as.floats[0], 1.5);
        cr_assert_eq(v.as.floats[1], -2.0);
    }
    double imaginary[2] = {0, 1};
    tni_scalar_store(bytes, TN_BOOL, tn_value_complex(imaginary));
    cr_assert_eq(bytes[0], 1);
    tni_scalar_store(bytes, TN_INT8, tn_value_complex(pair));
    cr_assert_eq((int8_t)bytes[0], 1);
}

/* The codes of NaN are those of IEEE 754 and of the OCP specification; formats without a sign of zero have one NaN. */
Test(element, NaN_of_narrow_formats)
{
    static const struct {
        tn_dtype dtype;
        uint8_t plus, minus;
    } cases[] = {{TN_FLOAT8_E4M3FN, 0x7f, 0xff},
                 {TN_FLOAT8_E4M3FNUZ, 0x80, 0x80},
                 {TN_FLOAT8_E5M2, 0x7f, 0xff},
                 {TN_FLOAT8_E5M2FNUZ, 0x80, 0x80},
                 {TN_FLOAT8_E8M0FNU, 0xff, 0xff}};
    const float nan = NAN, minus_nan = copysignf(NAN, -1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(tni_float_to_float8(nan, cases[i].dtype), cases[i].plus, "%zu", i);
        cr_expect_eq(tni_float_to_float8(minus_nan, cases[i].dtype), cases[i].minus, "%zu", i);
        cr_expect(isnan(tni_float8_to_float(cases[i].plus, cases[i].dtype)), "%zu", i);
    }
    cr_expect_eq(tni_float_to_half(nan), 0x7e00);
    cr_expect_eq(tni_float_to_half(minus_nan), 0xfe00);
    cr_expect(isnan(tni_half_to_float(0x7e01)) && isnan(tni_half_to_float(0x7c01)) &&
              isnan(tni_half_to_float(0xfe00)));
    cr_expect(signbit(tni_half_to_float(0xfe00)) && !signbit(tni_half_to_float(0x7e00)));
    cr_expect(isinf(tni_float8_to_float(0x7c, TN_FLOAT8_E5M2)) && isinf(tni_half_to_float(0xfc00)));
}
