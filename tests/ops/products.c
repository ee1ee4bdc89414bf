/* SPDX-License-Identifier: Apache-2.0 */
/* Products of groups and of packed or scaled matrices, norms, and bags of rows, against values of PyTorch 2.13 or other layouts. */
#include <math.h>
#include "suite.h"

TestSuite(products, .init = begin);

static double waves[4096];

/* sin(1.3 i + phase) */
static tn_tensor *wave_in(tn_dtype dtype, double phase, tn_ints size)
{
    int64_t count = 1;
    for (int64_t i = 0; i < size.count; i++) count *= size.data[i];
    for (int64_t i = 0; i < count; i++) waves[i] = sin(1.3 * (double)i + phase);
    return tn_to(s, make(s, size, waves, 0), dtype);
}

/* Values of float32 arithmetic. */
#define EXPECT_FLOATS(t, ...)                                                                                \
    expect_values(s, t, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8), (const double[]){__VA_ARGS__}, \
                  2e-6)
/* Values of float16 results. */
#define EXPECT_HALVES(t, ...)                                                                                \
    expect_values(s, t, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8), (const double[]){__VA_ARGS__}, \
                  1e-3)

static tn_tensor *wave(double phase, tn_ints size)
{
    return wave_in(TN_FLOAT32, phase, size);
}

static tn_tensor *offsets(int64_t first, int64_t second)
{
    return tn_to(s, VECTOR(s, 0, (double)first, (double)second), TN_INT32);
}

static tn_tensor *single(double value)
{
    return tn_scalar_tensor(s, value, .dtype = TN_FLOAT32);
}

Test(products, scaled)
{
    tn_tensor *a = wave_in(TN_FLOAT8_E4M3FN, 0.2, TN_INTS(3, 4)),
              *b = wave_in(TN_FLOAT8_E4M3FN, 0.7, TN_INTS(4, 2));
    tn_tensor *rows = tn_to(s, make(s, TN_INTS(3, 1), VALUES(1, 2, 3), 0), TN_FLOAT32),
              *columns = tn_to(s, make(s, TN_INTS(1, 2), VALUES(0.5, 4), 0), TN_FLOAT32);
    EXPECT_FLOATS(tn__scaled_mm(s, a, b, single(2), single(0.5),
                                .bias = tn_to(s, VECTOR(s, 0, 1, -1), TN_FLOAT32), .out_dtype = TN_FLOAT32),
                  0.181640625, -1.2255859375, 0.1943359375, -1.34375, 1.0625, -1.1484375);
    EXPECT_FLOATS(tn__scaled_mm(s, a, b, rows, columns, .out_dtype = TN_FLOAT32), -0.4091796875, -0.90234375,
                  -0.8056640625, -2.75, 0.09375, -1.78125);
    tn_tensor *large = tn__scaled_mm(s, a, b, single(1000), single(1));
    cr_expect_eq(tn_tensor_dtype(large), TN_FLOAT8_E4M3FN);
    EXPECT_FLOATS(tn_to(s, large, TN_FLOAT32), -448, -224, -448, -352, 64, -144);
    EXPECT_FLOATS(tn__scaled_mm(s, wave_in(TN_FLOAT8_E5M2, 0.2, TN_INTS(3, 4)), b, single(1), single(1),
                                .out_dtype = TN_BFLOAT16),
                  -0.8671875, -0.2421875, -0.80078125, -0.3125, 0.02734375, -0.015625);
    tn__scaled_mm(s, rows, columns, single(1), single(1));
    expect_error(s, "Invalid scaling configuration.");
    tn__scaled_mm(s, a, b, rows, rows);
    expect_error(s, "Invalid scaling configuration.");
    tn__scaled_mm(s, a, a, single(1), single(1));
    expect_error(s, "mat_a and mat_b shapes cannot be multiplied (3x4 and 3x4)");
    tn__scaled_mm(s, a, b, single(1), single(1), .bias = rows);
    expect_error(s, "Bias must be size 2 but got 3");
    end();
}

Test(products, of_int8_weights)
{
    tn_tensor *weight = tn_to(s, tn_mul_scalar(s, wave_in(TN_FLOAT64, 0.4, TN_INTS(3, 4)), 127), TN_INT8),
              *x = wave(0.2, TN_INTS(2, 4)), *scales = tn_to(s, VECTOR(s, 0, 0.01, 0.02, 0.03), TN_FLOAT32);
    EXPECT_FLOATS(tn__weight_int8pack_mm(s, x, weight, scales), 2.3503661155700684, 2.0830330848693848,
                  -4.126769065856934, 0.1512315571308136, 4.1597747802734375, 5.371879577636719);
    tn_tensor *large = tn_to(s, tn_mul_scalar(s, wave_in(TN_FLOAT64, 0.4, TN_INTS(16, 64)), 127), TN_INT8),
              *half = wave_in(TN_BFLOAT16, 0.2, TN_INTS(2, 64)),
              *halves = tn_full(s, TN_INTS(16), 0.5, .dtype = TN_BFLOAT16);
    EXPECT_FLOATS(tn_slice(s, tn__weight_int8pack_mm(s, half, large, halves), .dim = 1, .start = 13), 936,
                  -1712, -1112, 1872, 928, -1776);
    tn__weight_int8pack_mm(s, half, large, tn_to(s, halves, TN_FLOAT32));
    expect_error(s, "expected scalar type BFloat16 but found Float");
    tn__weight_int8pack_mm(s, x, large, scales);
    expect_error(s, "expect B.size(1) == 4");
    tn__weight_int8pack_mm(s, x, weight, tn_slice(s, scales, .end = 2));
    expect_error(s, "expect scales to be 1d tensor with size 3");
    tn__weight_int8pack_mm(s, x, x, scales);
    expect_error(s, "expect B to be int8 tensor.");
    end();
}

/* With few and with several rows, several panels and a part of a panel, against the product of the weight in float32. */
Test(products, of_large_int8_weights)
{
    tn_tensor *weight = tn_sub_scalar(
        s, tn_remainder_scalar(s, tn_mul_scalar(s, tn_arange(s, 151 * 71, .dtype = TN_INT64), 7919), 255),
        127);
    weight = tn_to(s, tn_reshape(s, weight, TN_INTS(151, 71)), TN_INT8);
    tn_tensor *scales = tn_abs(s, wave(0.5, TN_INTS(151)));
    tn_tensor *wide = tn_mul(s, tn_to(s, weight, TN_FLOAT32), tn_unsqueeze(s, scales, 1));
    for (int64_t rows = 1; rows <= 7; rows += 3) {
        tn_tensor *x = wave(0.3, TN_INTS(rows, 71));
        tn_tensor *expected = tn_mm(s, x, tn_t(s, wide)), *got = tn__weight_int8pack_mm(s, x, weight, scales);
        cr_expect(tn_allclose(s, got, expected, .rtol = 1e-5, .atol = 1e-3), "%lld rows", (long long)rows);
    }
    end();
}

/* A few rows of float16 that are stored by columns. */
Test(products, of_few_rows_by_columns)
{
    tn_tensor *a = wave_in(TN_FLOAT16, 0.1, TN_INTS(40, 3)), *b = wave_in(TN_FLOAT16, 0.6, TN_INTS(40, 70));
    tn_tensor *expected = tn_mm(s, tn_t(s, tn_to(s, a, TN_FLOAT64)), tn_to(s, b, TN_FLOAT64));
    tn_tensor *got = tn_to(s, tn_mm(s, tn_t(s, a), b), TN_FLOAT64);
    cr_expect(tn_allclose(s, got, expected, .rtol = 1e-3, .atol = 2e-3));
    got = tn_to(s, tn_addmm(s, tn_select(s, b, 0, 0), tn_t(s, a), b), TN_FLOAT64);
    expected = tn_add(s, expected, tn_select(s, b, 0, 0));
    cr_expect(tn_allclose(s, got, expected, .rtol = 1e-3, .atol = 2e-3));
    end();
}

Test(products, of_int4_weights)
{
    double integers[16 * 64], list[64];
    for (int i = 0; i < 16 * 64; i++) integers[i] = i * 7 % 16;
    for (int i = 0; i < 32; i++) {
        list[2 * i] = sin(1.3 * i + 0.3) * 0.1;
        list[2 * i + 1] = sin(1.3 * i + 0.9);
    }
    tn_tensor *x = wave(0.1, TN_INTS(2, 64)),
              *scales = tn_to(s, make(s, TN_INTS(2, 16, 2), list, 0), TN_FLOAT32),
              *weight = tn_to(s, make(s, TN_INTS(16, 64), integers, 0), TN_INT32);
    tn_tensor *packed = tn__convert_weight_to_int4pack_for_cpu(s, weight, 2);
    cr_expect_eq(tn_tensor_dtype(packed), TN_UINT8);
    tn_tensor *y = tn__weight_int4pack_mm_for_cpu(s, x, packed, 32, scales);
    EXPECT_FLOATS(tn_slice(s, y, .dim = 1, .end = 3), 1.1539945602416992, 1.3159382343292236,
                  -0.449971079826355, 0.20196518301963806, -0.5967559218406677, -0.5212279558181763);
    EXPECT_FLOATS(tn_sum_dim(s, y, TN_INTS(1)), 1.9526690244674683, -0.033408164978027344);
    tn_tensor *half = tn_to(s, x, TN_FLOAT16), *one = tn_to(s, tn_slice(s, scales, .end = 1), TN_FLOAT16);
    y = tn__weight_int4pack_mm_for_cpu(s, half, packed, 64, one);
    cr_expect_eq(tn_tensor_dtype(y), TN_FLOAT16);
    EXPECT_HALVES(tn_to(s, tn_slice(s, tn_select(s, y, 0, 1), .start = 13), TN_FLOAT64), -0.415771484375,
                  0.470703125, 0.66796875);
    tn__weight_int4pack_mm_for_cpu(s, x, packed, 48, scales);
    expect_error(s, "expect qGroupSize to be 32, 64, 128 or 256, got 48");
    tn__weight_int4pack_mm_for_cpu(s, x, packed, 128, scales);
    expect_error(s, "expect K to be divisible by qGroupSize, got K:64, qGroupSize:128");
    tn__weight_int4pack_mm_for_cpu(s, x, packed, 32, tn_slice(s, scales, .dim = 1, .end = 3));
    expect_error(s, "expect qScaleAndZeros to be 3d tensor with sizes [:, 16, 2]");
    tn__convert_weight_to_int4pack_for_cpu(s, tn_slice(s, weight, .end = 15), 2);
    expect_error(s, "expect N to be dividable by 16");
    tn__convert_weight_to_int4pack_for_cpu(s, packed, 2);
    expect_error(s, "expect weight to be kInt.");
    end();
}

Test(products, of_groups)
{
    tn_tensor *a = wave(0.2, TN_INTS(8, 4)), *b = wave(0.7, TN_INTS(2, 4, 4)),
              *c = wave(0.3, TN_INTS(2, 3, 4)), *d = wave(0.6, TN_INTS(4, 8));
    EXPECT_FLOATS(tn_slice(s, tn__grouped_mm(s, a, b, .offs = offsets(3, 8)), .start = 2, .end = 4),
                  -1.4739296436309814, -2.3147926330566406, 0.23552104830741882, 2.440796136856079,
                  -1.653466820716858, -0.14012694358825684, 1.5784990787506104, 0.9846203327178955);
    tn_tensor *columns = tn__grouped_mm(s, c, d, .offs = offsets(5, 8));
    EXPECT_FLOATS(tn_slice(s, tn_slice(s, columns, .start = 1), .dim = 1, .start = 4, .end = 6),
                  1.0431175231933594, 0.5178514719009399, 0.7880953550338745, -0.6830295920372009);
    tn_tensor *inner =
        tn__grouped_mm(s, wave(0.2, TN_INTS(2, 8)), wave(0.5, TN_INTS(8, 4)), .offs = offsets(4, 8));
    EXPECT_FLOATS(tn_slice(s, tn_select(s, inner, 1, 1), .dim = 1, .end = 2), -1.0485711097717285,
                  -2.444880962371826, -1.6828105449676514, -0.4705219864845276);
    EXPECT_FLOATS(tn_select(s, tn_select(s, tn__grouped_mm(s, c, b), 0, 1), 0, 0), -1.7051347494125366,
                  0.058033883571624756, 1.7361828088760376, 0.8708199262619019);
    EXPECT_FLOATS(tn_sum(s, tn_slice(s, tn__grouped_mm(s, a, b, .offs = offsets(3, 6)), .start = 6)), 0);
    tn__grouped_mm(s, a, b);
    expect_error(s, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
    tn__grouped_mm(s, a, b, .offs = tn_to(s, offsets(3, 8), TN_INT64));
    expect_error(s, "Offsets have to be int32");
    tn__grouped_mm(s, a, b, .offs = offsets(5, 4));
    expect_error(s, "offs[1] is 4 (expected 5 to 8)");
    tn__grouped_mm(s, a, b, .offs = offsets(5, 9));
    expect_error(s, "offs[1] is 9 (expected 5 to 8)");
    tn__grouped_mm(s, c, b, .out_dtype = TN_BFLOAT16);
    expect_error(s, "Grouped gemm output dtype must match `mat_a` dtype");
    tn__grouped_mm(s, tn_slice(s, c, .dim = 2, .end = 3), b);
    expect_error(s, "contraction dimension of mat_a and mat_b must match");
    end();
}

Test(products, of_groups_have_gradients)
{
    tn_tensor *a = wave(0.2, TN_INTS(3, 2)), *b = wave(0.7, TN_INTS(2, 2, 2));
    tn_set_requires_grad(a, 1);
    tn_set_requires_grad(b, 1);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn__grouped_mm(s, a, b, .offs = offsets(1, 2)))), TN_OK);
    double row = sin(0.7) + sin(2.0), next = sin(3.3) + sin(4.6), third = sin(5.9) + sin(7.2),
           last = sin(8.5) + sin(9.8);
    EXPECT_FLOATS(tn_grad_of(s, a), row, next, third, last, 0, 0);
    EXPECT_FLOATS(tn_select(s, tn_grad_of(s, b), 2, 0), sin(0.2), sin(1.5), sin(2.8), sin(4.1));
    end();
}

Test(products, addmm_with_an_activation)
{
    tn_tensor *bias = tn_to(s, VECTOR(s, 0, 0.5, -0.5), TN_FLOAT32), *a = wave(0.2, TN_INTS(2, 3)),
              *b = wave(0.4, TN_INTS(3, 2)), *out = tn_empty(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    EXPECT_FLOATS(tn__addmm_activation(s, bias, a, b, .beta = TN_SCALAR(2), .alpha = TN_SCALAR(0.5)),
                  1.0033326148986816, 0, 0.6583635210990906, 0);
    tn__addmm_activation_out(s, bias, a, b, out, .use_gelu = 1);
    EXPECT_FLOATS(out, 0.35152682662010193, -0.15666872262954712, -0.07831104099750519, -0.13145199418067932);
    end();
}

/* Batch normalisation of images whose channels are innermost: results and gradients in one dtype. */
static void batch_norm(tn_dtype dtype, int32_t channels_last, int32_t train, tn_tensor **out)
{
    tn_tensor *x = wave_in(dtype, 0.2, TN_INTS(5, 3, 3, 83)),
              *grad = wave_in(dtype, 0.8, TN_INTS(5, 3, 3, 83));
    tn_tensor *weight = wave_in(TN_FLOAT64, 0.5, TN_INTS(83)), *mean = wave_in(TN_FLOAT64, 0.9, TN_INTS(83));
    tn_tensor *var = tn_add_scalar(s, wave_in(TN_FLOAT64, 0.4, TN_INTS(83)), 2);
    tn_dtype wide = dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
    x = tn_permute(s, x, TN_INTS(0, 3, 1, 2)), grad = tn_permute(s, grad, TN_INTS(0, 3, 1, 2));
    if (!channels_last) x = tn_contiguous(s, x), grad = tn_contiguous(s, grad);
    weight = tn_to(s, weight, wide), mean = tn_to(s, mean, wide), var = tn_to(s, var, wide);
    tn_native_batch_norm_result r = tn_native_batch_norm(s, x, weight, mean, mean, var, train, 0.1, 1e-5);
    tn_native_batch_norm_backward_result g =
        tn_native_batch_norm_backward(s, grad, x, weight, mean, var, train ? r.result1 : NULL,
                                      train ? r.result2 : NULL, train, 1e-5, TN_BOOLS(1, 1, 1));
    tn_tensor *all[] = {r.result0, g.result0, g.result1, g.result2};
    for (int i = 0; i < 4; i++) out[i] = tn_to(s, tn_contiguous(s, all[i]), TN_FLOAT64);
}

/* 83 channels: whole vectors, single ones and a rest at each level; 45 rows. The other layout is computed by other code. */
Test(products, batch_norm_of_channels_last)
{
    static const struct {
        tn_dtype dtype;
        double tolerance;
    } kinds[] = {{TN_FLOAT64, 1e-12}, {TN_FLOAT32, 1e-5}, {TN_BFLOAT16, 0.03}, {TN_FLOAT16, 0.004}};
    for (int32_t train = 0; train < 2; train++) {
        for (int i = 0; i < 4; i++) {
            tn_tensor *expected[4], *got[4];
            batch_norm(kinds[i].dtype, 0, train, expected);
            batch_norm(kinds[i].dtype, 1, train, got);
            for (int k = 0; k < 4; k++)
                cr_expect(tn_allclose(s, got[k], expected[k], .rtol = kinds[i].tolerance,
                                      .atol = kinds[i].tolerance),
                          "dtype %d, training %d, result %d", i, train, k);
        }
    }
    end();
}

/* Rows of 83 columns in bags, against the product with a matrix that counts them. */
Test(products, sums_of_bags)
{
    tn_tensor *table = wave(0.4, TN_INTS(7, 83)),
              *index = tn_remainder_scalar(s, tn_arange(s, 150, .dtype = TN_INT64), 7);
    tn_tensor *starts = tn_to(s, VECTOR(s, 0, 0, 140), TN_INT64);
    tn_tensor *counts =
        make(s, TN_INTS(2, 7), (double[]){20, 20, 20, 20, 20, 20, 20, 2, 2, 2, 1, 1, 1, 1}, 0);
    tn_tensor *expected = tn_mm(s, counts, tn_to(s, table, TN_FLOAT64));
    tn_tensor *got = tn_to(s, tn__embedding_bag(s, table, index, starts).result0, TN_FLOAT64);
    cr_expect(tn_allclose(s, got, expected, .rtol = 1e-5, .atol = 1e-5));
    end();
}

Test(products, root_mean_square_norm)
{
    tn_tensor *x = wave_in(TN_FLOAT64, 0.2, TN_INTS(2, 3)),
              *weight = tn_add_scalar(s, wave_in(TN_FLOAT64, 0.5, TN_INTS(3)), 2);
    tn_set_requires_grad(x, 1);
    tn_set_requires_grad(weight, 1);
    tn__fused_rms_norm_result r = tn__fused_rms_norm(s, x, TN_INTS(3), weight, 1e-3);
    EXPECT(s, r.result0, 0.7957076018572238, 4.791826034214536, 1.1047591217907513, -2.934885489714048,
           -3.324340928497176, 1.1956395972106186);
    EXPECT(s, r.result1, 1.6153684934642116, 1.4465707777260823);
    tn_tensor *grads[2], *first, *inputs[2] = {x, weight};
    tn_backward_options options = {.size = sizeof options,
                                   .create_graph = 1,
                                   .grad_outputs = TN_TENSORS(wave_in(TN_FLOAT64, 0.9, TN_INTS(2, 3)))};
    cr_assert_eq(tn_grad(s, TN_TENSORS(r.result0), (tn_tensors){inputs, 2}, &options, grads), TN_OK);
    EXPECT(s, grads[0], 2.4271570548058907, 0.31800950233173353, -2.3543818043985114, -0.9452529379909009,
           1.697863547671795, 1.3540904846667159);
    EXPECT(s, grads[1], 1.4305443649522316, 1.5063799296461977, 0.33650397839584456);
    tn_tensor *sum = tn_add(s, tn_sum(s, tn_mul(s, grads[0], wave_in(TN_FLOAT64, 0.4, TN_INTS(2, 3)))),
                            tn_sum(s, tn_mul(s, grads[1], wave_in(TN_FLOAT64, 0.8, TN_INTS(3)))));
    cr_assert_eq(tn_grad(s, TN_TENSORS(sum), TN_TENSORS(x), NULL, &first), TN_OK);
    EXPECT(s, first, -2.5420643224864756, -1.250753582179203, 2.416612461593521, 1.0171898754011126,
           -1.7011234478791781, -2.658767642993649);
    end();
}

Test(products, root_mean_square_norm_of_halves_and_complex_numbers)
{
    tn_tensor *weight = tn_add_scalar(s, wave(0.5, TN_INTS(3)), 2);
    tn__fused_rms_norm_result r =
        tn__fused_rms_norm(s, wave_in(TN_FLOAT16, 0.2, TN_INTS(2, 3)), TN_INTS(3), weight, (double)TN_NONE);
    cr_expect_eq(tn_tensor_dtype(r.result0), TN_FLOAT16);
    EXPECT_HALVES(r.result0, 0.79638671875, 4.796875, 1.1064453125, -2.9375, -3.328125, 1.1962890625);
    EXPECT_FLOATS(r.result1, 1.6174204349517822, 1.447900414466858);
    tn_tensor *z = tn_complex(s, wave_in(TN_FLOAT64, 0.2, TN_INTS(2, 2)),
                              wave_in(TN_FLOAT64, 0.4, TN_INTS(2, 2))),
              *g;
    tn_set_requires_grad(z, 1);
    r = tn__fused_rms_norm(s, z, TN_INTS(2), NULL, 1e-3);
    g = tn_complex(s, wave_in(TN_FLOAT64, 0.9, TN_INTS(2, 2)), wave_in(TN_FLOAT64, 0.1, TN_INTS(2, 2)));
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(g)};
    cr_assert_eq(tn_grad(s, TN_TENSORS(r.result0), TN_TENSORS(z), &options, &z), TN_OK);
    EXPECT(s, tn_real(s, z), 0.3388320746794161, -0.12454747753830797, -0.4767792836897218,
           -0.08808250529647355);
    EXPECT(s, tn_imag(s, z), 0.23969281917223684, -0.03802858001729237, -0.29733971584734686,
           -0.1398809631457658);
    tn__fused_rms_norm(s, tn_to(s, weight, TN_INT32), TN_INTS(3), NULL, (double)TN_NONE);
    expect_error(s, "\"rms_norm\" not implemented for 'Int'");
    end();
}
