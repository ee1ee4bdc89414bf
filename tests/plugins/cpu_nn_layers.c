/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling, normalisation, softmax, losses, embedding, resampling and padding of the CPU plugin: closed forms. */
#include "cpu_nn.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static fixture_tensor floats(fixture *f, uint32_t rank, const int64_t *sizes, const float *data)
{
    return fixture_tensor_make(f, TN_FLOAT32, rank, sizes, data);
}

Test(cpu_nn_layers, max_pool_gives_value_and_place)
{
    fixture f;
    fixture_open(&f);
    const float x[16] = {1, 2, 3, 4, 8, 7, 6, 5, -1, -2, NAN, 0, -4, -3, 1, 9};
    const int64_t two[2] = {2, 2}, none[2] = {0, 0}, unit[2] = {1, 1};
    int64_t index[4];
    float got[4];
    fixture_tensor in = floats(&f, 4, SIZES(1, 1, 4, 4), x), out = floats(&f, 4, SIZES(1, 1, 2, 2), NULL);
    fixture_tensor at = fixture_tensor_make(&f, TN_INT64, 4, SIZES(1, 1, 2, 2), NULL);
    tn_value args[] = {fixture_value(&in),     tn_value_ints(two, 2),  tn_value_ints(two, 2),
                       tn_value_ints(none, 2), tn_value_ints(unit, 2), tn_value_bool(0)};
    tn_value outs[] = {fixture_value(&out), fixture_value(&at)};
    cr_assert_eq(nn_run(&f, "aten::max_pool2d_with_indices", args, 6, outs, 2, 1, 0), TN_OK);
    cr_assert_eq(fixture_read(&f, &at, index), TN_OK);
    cr_assert_eq(fixture_read(&f, &out, got), TN_OK);
    cr_assert(got[0] == 8 && got[1] == 6 && got[2] == -1 && isnan(got[3]), "NaN is the largest of all");
    cr_assert(index[0] == 4 && index[1] == 6 && index[2] == 8 && index[3] == 10);
    fixture_close(&f);
}

Test(cpu_nn_layers, avg_pool_counts_padding_or_not)
{
    fixture f;
    fixture_open(&f);
    const float x[4] = {1, 2, 3, 4};
    const int64_t kernel[2] = {2, 2}, stride[2] = {2, 2}, padding[2] = {1, 1};
    fixture_tensor in = floats(&f, 3, SIZES(1, 2, 2), x), out = floats(&f, 3, SIZES(1, 2, 2), NULL);
    for (int count = 0; count < 2; count++) {
        double part = count ? 0.25 : 1;
        const double expected[4] = {1 * part, 2 * part, 3 * part, 4 * part};
        tn_value args[] = {
            fixture_value(&in), tn_value_ints(kernel, 2), tn_value_ints(stride, 2), tn_value_ints(padding, 2),
            tn_value_bool(0),   tn_value_bool(count),     tn_value_none()};
        tn_value outs[] = {fixture_value(&out)};
        cr_assert_eq(nn_run(&f, "aten::avg_pool2d", args, 7, outs, 1, 1, 0), TN_OK);
        nn_expect(&f, &out, expected, 0, "avg_pool2d");
    }
    fixture_close(&f);
}

Test(cpu_nn_layers, batch_norm_training_updates_statistics)
{
    fixture f;
    fixture_open(&f);
    const float x[8] = {1, 3, 10, 10, 5, 7, 10, 30}; /* channel 0: 1 3 5 7, channel 1: 10 10 10 30 */
    const float zero[2] = {0, 0}, unit[2] = {1, 1};
    double expected[8], invstd[2] = {1 / sqrt(5.0), 1 / sqrt(75.0)}, mean[2] = {4, 15};
    for (int i = 0; i < 8; i++) expected[i] = ((double)x[i] - mean[i / 2 % 2]) * invstd[i / 2 % 2];
    fixture_tensor in = floats(&f, 3, SIZES(2, 2, 2), x), out = floats(&f, 3, SIZES(2, 2, 2), NULL);
    fixture_tensor running_mean = floats(&f, 1, SIZES(2), zero), running_var = floats(&f, 1, SIZES(2), unit);
    fixture_tensor saved_mean = floats(&f, 1, SIZES(2), NULL), saved_invstd = floats(&f, 1, SIZES(2), NULL);
    tn_value args[] = {
        fixture_value(&in),          tn_value_none(),  tn_value_none(),     fixture_value(&running_mean),
        fixture_value(&running_var), tn_value_bool(1), tn_value_float(0.1), tn_value_float(0)};
    tn_value outs[] = {fixture_value(&out), fixture_value(&saved_mean), fixture_value(&saved_invstd)};
    cr_assert_eq(nn_run(&f, "aten::native_batch_norm", args, 8, outs, 3, 2, 0), TN_OK);
    nn_expect(&f, &out, expected, 1e-5, "batch norm");
    nn_expect(&f, &saved_mean, mean, 1e-6, "mean");
    nn_expect(&f, &saved_invstd, invstd, 1e-6, "inverse deviation");
    nn_expect(&f, &running_mean, (const double[]){0.4, 1.5}, 1e-6, "running mean");
    nn_expect(&f, &running_var, (const double[]){0.9 + 0.1 * 20 / 3, 0.9 + 10}, 1e-5,
              "running variance is unbiased");
    fixture_close(&f);
}

/* Rows far from zero: a sum of squares would lose the variance. */
Test(cpu_nn_layers, layer_norm_of_large_numbers)
{
    fixture f;
    fixture_open(&f);
    enum { WIDTH = 100 };
    float x[WIDTH];
    double expected[WIDTH], var = 0;
    for (int i = 0; i < WIDTH; i++) x[i] = 10000.0f + (float)i;
    for (int i = 0; i < WIDTH; i++) var += (i - 49.5) * (i - 49.5) / WIDTH;
    for (int i = 0; i < WIDTH; i++) expected[i] = (i - 49.5) / sqrt(var);
    int64_t width = WIDTH;
    fixture_tensor in = floats(&f, 2, SIZES(1, WIDTH), x), out = floats(&f, 2, SIZES(1, WIDTH), NULL);
    fixture_tensor mean = floats(&f, 2, SIZES(1, 1), NULL), rstd = floats(&f, 2, SIZES(1, 1), NULL);
    tn_value args[] = {fixture_value(&in), tn_value_ints(&width, 1), tn_value_none(), tn_value_none(),
                       tn_value_float(0)};
    tn_value outs[] = {fixture_value(&out), fixture_value(&mean), fixture_value(&rstd)};
    cr_assert_eq(nn_run(&f, "aten::native_layer_norm", args, 5, outs, 3, 1, 0), TN_OK);
    nn_expect(&f, &out, expected, 1e-4, "layer norm");
    fixture_close(&f);
}

/* The gradient of the input, rstd (h - mean(h) - x mean(h x)) with h = grad weight and x normalised, and that of the weight. */
static void expect_layer_norm_gradients(fixture *f, int64_t width)
{
    enum { ROWS = 3, WIDEST = 100 };
    const double mean = 0.25, rstd = 1.5;
    double expected[ROWS * WIDEST], weights[WIDEST] = {0};
    fixture_tensor grad = nn_tensor(f, 2, SIZES(ROWS, width), 3), in = nn_tensor(f, 2, SIZES(ROWS, width), 4);
    fixture_tensor weight = nn_tensor(f, 1, SIZES(width), 5), out = nn_tensor(f, 2, SIZES(ROWS, width), 0);
    fixture_tensor to_weight = nn_tensor(f, 1, SIZES(width), 0), to_bias = nn_tensor(f, 1, SIZES(width), 0);
    fixture_tensor means = floats(f, 2, SIZES(ROWS, 1), (float[]){0.25f, 0.25f, 0.25f});
    fixture_tensor rstds = floats(f, 2, SIZES(ROWS, 1), (float[]){1.5f, 1.5f, 1.5f});
    const float *g = grad.desc.host, *x = in.desc.host, *w = weight.desc.host;
    for (int64_t r = 0; r < ROWS; r++) {
        double sum = 0, dot = 0;
        for (int64_t i = r * width; i < (r + 1) * width; i++) {
            double h = (double)g[i] * (double)w[i - r * width], y = ((double)x[i] - mean) * rstd;
            sum += h / (double)width;
            dot += h * y / (double)width;
            weights[i - r * width] += (double)g[i] * y;
        }
        for (int64_t i = r * width; i < (r + 1) * width; i++)
            expected[i] =
                rstd * ((double)g[i] * (double)w[i - r * width] - sum - ((double)x[i] - mean) * rstd * dot);
    }
    const uint8_t mask[3] = {1, 1, 1};
    tn_value args[] = {fixture_value(&grad),  fixture_value(&in),     tn_value_ints(&width, 1),
                       fixture_value(&means), fixture_value(&rstds),  fixture_value(&weight),
                       tn_value_none(),       tn_value_bools(mask, 3)};
    tn_value outs[] = {fixture_value(&out), fixture_value(&to_weight), fixture_value(&to_bias)};
    cr_assert_eq(nn_run(f, "aten::native_layer_norm_backward", args, 8, outs, 3, 1, 0), TN_OK);
    nn_expect(f, &out, expected, 1e-5, "gradient of the input");
    nn_expect(f, &to_weight, weights, 1e-5, "gradient of the weight");
}

Test(cpu_nn_layers, layer_norm_gradients_of_any_width)
{
    for (int64_t width = 1; width <= 100; width++) {
        fixture f;
        fixture_open(&f);
        expect_layer_norm_gradients(&f, width);
        fixture_close(&f);
    }
}

/* The largest element is in another lane for each length. */
Test(cpu_nn_layers, softmax_of_lines_of_any_length)
{
    double expected[80];
    for (int64_t size = 1; size <= 80; size++) {
        fixture f;
        fixture_open(&f);
        double sum = 0;
        fixture_tensor in = nn_tensor(&f, 2, SIZES(1, size), 11), out = nn_tensor(&f, 2, SIZES(1, size), 0);
        float *x = in.desc.host;
        x[size * 5 / 7] = 95; /* without the maximum taken off e^95 is infinite */
        x[size - 1] = 94;
        for (int64_t i = 0; i < size; i++) sum += exp((double)x[i] - 94);
        for (int64_t i = 0; i < size; i++) expected[i] = exp((double)x[i] - 94) / sum;
        tn_value args[] = {fixture_value(&in), tn_value_int(1), tn_value_bool(0)},
                 outs[] = {fixture_value(&out)};
        cr_assert_eq(nn_run(&f, "aten::_softmax", args, 3, outs, 1, 1, 0), TN_OK);
        nn_expect(&f, &out, expected, 1e-6, "softmax");
        fixture_close(&f);
    }
}

Test(cpu_nn_layers, softmax_over_any_dimension)
{
    fixture f;
    fixture_open(&f);
    enum { OUTER = 3, SIZE = 37, INNER = 70, COUNT_ALL = OUTER * SIZE * INNER };
    static double expected[COUNT_ALL];
    fixture_tensor in = nn_tensor(&f, 3, SIZES(OUTER, SIZE, INNER), 9),
                   out = nn_tensor(&f, 3, SIZES(OUTER, SIZE, INNER), 0);
    const float *x = in.desc.host;
    for (int dim = 0; dim < 3; dim++) {
        const int64_t sizes[3] = {OUTER, SIZE, INNER}, steps[3] = {SIZE * INNER, INNER, 1};
        for (int64_t i = 0; i < COUNT_ALL; i++) {
            double sum = 0;
            int64_t first = i - i / steps[dim] % sizes[dim] * steps[dim];
            for (int64_t k = 0; k < sizes[dim]; k++) sum += exp((double)x[first + k * steps[dim]]);
            expected[i] = exp((double)x[i]) / sum;
        }
        tn_value args[] = {fixture_value(&in), tn_value_int(dim), tn_value_bool(0)},
                 outs[] = {fixture_value(&out)};
        cr_assert_eq(nn_run(&f, "aten::_softmax", args, 3, outs, 1, 2, 0), TN_OK);
        nn_expect(&f, &out, expected, 1e-6, "softmax");
        for (int64_t i = 0; i < COUNT_ALL; i++) expected[i] = log(expected[i]);
        cr_assert_eq(nn_run(&f, "aten::_log_softmax", args, 3, outs, 1, 2, 0), TN_OK);
        nn_expect(&f, &out, expected, 2e-6, "log_softmax");
    }
    fixture_close(&f);
}

/* Lines longer than the buffer of terms, and results that pass the caches. */
Test(cpu_nn_layers, softmax_of_long_lines_and_of_large_tensors)
{
    static const int64_t shapes[][2] = {{3, 2500}, {8400, 1000}};
    for (int k = 0; k < 2; k++) {
        int64_t lines = shapes[k][0], size = shapes[k][1];
        fixture f;
        fixture_open(&f);
        fixture_tensor in = nn_tensor(&f, 2, shapes[k], 5), out = nn_tensor(&f, 2, shapes[k], 0);
        fixture_tensor back = nn_tensor(&f, 2, shapes[k], 0);
        const float *x = in.desc.host, *y = out.desc.host, *g = back.desc.host;
        tn_value args[] = {fixture_value(&in), tn_value_int(1), tn_value_bool(0)},
                 outs[] = {fixture_value(&out)};
        cr_assert_eq(nn_run(&f, "aten::_softmax", args, 3, outs, 1, 2, 0), TN_OK);
        for (int64_t i = 0; i < lines * size; i += lines * size / 7) {
            double sum = 0;
            for (int64_t j = i / size * size; j < (i / size + 1) * size; j++) sum += exp((double)x[j]);
            cr_assert_float_eq((double)y[i], exp((double)x[i]) / sum, 1e-9, "element %lld", (long long)i);
        }
        tn_value grads[] = {fixture_value(&in), fixture_value(&out), tn_value_int(1),
                            tn_value_dtype(TN_FLOAT32)};
        tn_value grad_outs[] = {fixture_value(&back)};
        cr_assert_eq(nn_run(&f, "aten::_log_softmax_backward_data", grads, 4, grad_outs, 1, 2, 0), TN_OK);
        for (int64_t i = 0; i < lines * size; i += lines * size / 7) {
            double sum = 0;
            for (int64_t j = i / size * size; j < (i / size + 1) * size; j++) sum += (double)x[j];
            cr_assert_float_eq((double)g[i], (double)x[i] - exp((double)y[i]) * sum, 1e-4, "gradient %lld",
                               (long long)i);
        }
        fixture_close(&f);
    }
}

/* Of five arguments; what a test ends with. */
static void expect_bad_index(fixture *f, const char *op, tn_value *args, tn_value *outs, uint32_t n_outs,
                             const char *message)
{
    cr_assert_eq(nn_run(f, op, args, 5, outs, n_outs, 1, 0), TN_E_INDEX);
    cr_assert_str_eq(f->error_message, message);
    fixture_close(f);
}

Test(cpu_nn_layers, nll_loss_ignores_and_refuses)
{
    fixture f;
    fixture_open(&f);
    const float x[6] = {-1, -2, -3, -4, -5, -6};
    const int64_t good[2] = {2, -100}, bad[2] = {0, 7};
    fixture_tensor in = floats(&f, 2, SIZES(2, 3), x), loss = floats(&f, 0, NULL, NULL),
                   total = floats(&f, 0, NULL, NULL);
    fixture_tensor target = fixture_tensor_make(&f, TN_INT64, 1, SIZES(2), good);
    fixture_tensor wrong = fixture_tensor_make(&f, TN_INT64, 1, SIZES(2), bad);
    tn_value args[] = {fixture_value(&in), fixture_value(&target), tn_value_none(), tn_value_int(1),
                       tn_value_int(-100)};
    tn_value outs[] = {fixture_value(&loss), fixture_value(&total)};
    cr_assert_eq(nn_run(&f, "aten::nll_loss_forward", args, 5, outs, 2, 1, 0), TN_OK);
    nn_expect(&f, &loss, (const double[]){3}, 0, "the one that counts");
    nn_expect(&f, &total, (const double[]){1}, 0, "its weight");
    args[1] = fixture_value(&wrong);
    expect_bad_index(&f, "aten::nll_loss_forward", args, outs, 2,
                     "Target 7 is out of bounds: there are 3 classes");
}

Test(cpu_nn_layers, embedding_and_its_gradient)
{
    fixture f;
    fixture_open(&f);
    const float table[6] = {1, 2, 3, 4, 5, 6}, grads[6] = {1, 10, 2, 20, 4, 40};
    const int64_t good[3] = {2, 0, 2}, bad[3] = {0, 3, 0};
    fixture_tensor weight = floats(&f, 2, SIZES(3, 2), table), grad = floats(&f, 2, SIZES(3, 2), grads);
    fixture_tensor indices = fixture_tensor_make(&f, TN_INT64, 1, SIZES(3), good);
    fixture_tensor wrong = fixture_tensor_make(&f, TN_INT64, 1, SIZES(3), bad),
                   out = floats(&f, 2, SIZES(3, 2), NULL);
    tn_value args[] = {fixture_value(&weight), fixture_value(&indices), tn_value_int(-1), tn_value_bool(0),
                       tn_value_bool(0)};
    tn_value outs[] = {fixture_value(&out)};
    cr_assert_eq(nn_run(&f, "aten::embedding", args, 5, outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &out, (const double[]){5, 6, 1, 2, 5, 6}, 0, "embedding");
    tn_value back[] = {fixture_value(&grad), fixture_value(&indices), tn_value_int(3), tn_value_int(0),
                       tn_value_bool(1)};
    cr_assert_eq(nn_run(&f, "aten::embedding_dense_backward", back, 5, outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &out, (const double[]){0, 0, 0, 0, 2.5, 25}, 0,
              "padding row empty, the others by frequency");
    args[1] = fixture_value(&wrong);
    expect_bad_index(&f, "aten::embedding", args, outs, 1,
                     "index out of range in self: got 3, expected 0 to 2");
}

Test(cpu_nn_layers, upsampling_and_padding)
{
    fixture f;
    fixture_open(&f);
    const float x[3] = {0, 2, 6};
    const int64_t six = 6, pads[2] = {2, 1};
    fixture_tensor in = floats(&f, 3, SIZES(1, 1, 3), x), out = floats(&f, 3, SIZES(1, 1, 6), NULL);
    tn_value outs[] = {fixture_value(&out)};
    tn_value nearest[] = {fixture_value(&in), tn_value_ints(&six, 1), tn_value_none()};
    cr_assert_eq(nn_run(&f, "aten::upsample_nearest1d", nearest, 3, outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &out, (const double[]){0, 0, 2, 2, 6, 6}, 0, "nearest");
    tn_value linear[] = {fixture_value(&in), tn_value_ints(&six, 1), tn_value_bool(0), tn_value_none()};
    cr_assert_eq(nn_run(&f, "aten::upsample_linear1d", linear, 4, outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &out, (const double[]){0, 0.5, 1.5, 3, 5, 6}, 1e-6, "linear");
    tn_value reflect[] = {fixture_value(&in), tn_value_ints(pads, 2)};
    cr_assert_eq(nn_run(&f, "aten::reflection_pad1d", reflect, 2, outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &out, (const double[]){6, 2, 0, 2, 6, 2}, 0, "reflection");
    tn_value constant[] = {fixture_value(&in), tn_value_ints(pads, 2), tn_value_float(9)};
    cr_assert_eq(nn_run(&f, "aten::constant_pad_nd", constant, 3, outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &out, (const double[]){9, 9, 0, 2, 6, 9}, 0, "constant");
    fixture_close(&f);
}

/* Whole numbers below 2048 are exact in float16: its bits from one, for expected values. */
static uint16_t half_bits(int whole)
{
    int exponent = 0, magnitude = whole < 0 ? -whole : whole;
    if (whole == 0) return 0;
    while (magnitude >> (exponent + 1)) exponent++;
    return (uint16_t)((whole < 0 ? 0x8000 : 0) | (15 + exponent) << 10 |
                      ((magnitude << (10 - exponent)) & 0x3ff));
}

/* More indices of a row than are taken at a time, a row that none names, columns that fill no vector. */
Test(cpu_nn_layers, gradients_of_a_table_of_halves)
{
    enum { ROWS = 4, COLUMNS = 77, COUNT_OF_INDICES = 210 };
    static uint16_t grad[COUNT_OF_INDICES * COLUMNS], got[ROWS * COLUMNS];
    static int want[ROWS * COLUMNS];
    int64_t index[COUNT_OF_INDICES];
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < COUNT_OF_INDICES; i++) {
        index[i] = i % 3;
        for (int j = 0; j < COLUMNS; j++) {
            int value = (i + j) % 7 - 3;
            grad[i * COLUMNS + j] = half_bits(value);
            want[i % 3 * COLUMNS + j] += i % 3 == 1 ? 0 : value; /* row 1 is padding */
        }
    }
    fixture_tensor g = fixture_tensor_make(&f, TN_FLOAT16, 2, SIZES(COUNT_OF_INDICES, COLUMNS), grad);
    fixture_tensor at = fixture_tensor_make(&f, TN_INT64, 1, SIZES(COUNT_OF_INDICES), index);
    fixture_tensor out = fixture_tensor_make(&f, TN_FLOAT16, 2, SIZES(ROWS, COLUMNS), NULL);
    tn_value args[] = {fixture_value(&g), fixture_value(&at), tn_value_int(ROWS), tn_value_int(1),
                       tn_value_bool(0)};
    tn_value outs[] = {fixture_value(&out)};
    for (int threads = 1; threads <= 2; threads++) {
        cr_assert_eq(nn_run(&f, "aten::embedding_dense_backward", args, 5, outs, 1, threads, 0), TN_OK);
        fixture_read(&f, &out, got);
        for (int i = 0; i < ROWS * COLUMNS; i++)
            cr_assert_eq(got[i], half_bits(want[i]), "element %d: 0x%04x, not %d", i, got[i], want[i]);
    }
    fixture_close(&f);
}

Test(cpu_nn_layers, reflected_lines_of_halves)
{
    enum { WIDTH = 50, OUT = WIDTH + 5 };
    uint16_t x[WIDTH], got[OUT];
    const int64_t pads[] = {2, 3};
    fixture f;
    fixture_open(&f);
    for (int i = 0; i < WIDTH; i++) x[i] = half_bits(i + 1);
    fixture_tensor in = fixture_tensor_make(&f, TN_FLOAT16, 2, SIZES(1, WIDTH), x);
    fixture_tensor out = fixture_tensor_make(&f, TN_FLOAT16, 2, SIZES(1, OUT), NULL);
    tn_value args[] = {fixture_value(&in), tn_value_ints(pads, 2)}, outs[] = {fixture_value(&out)};
    cr_assert_eq(nn_run(&f, "aten::reflection_pad1d", args, 2, outs, 1, 1, 0), TN_OK);
    fixture_read(&f, &out, got);
    cr_assert_eq(got[0], half_bits(3));
    cr_assert_eq(got[1], half_bits(2));
    for (int i = 0; i < WIDTH; i++) cr_assert_eq(got[i + 2], half_bits(i + 1));
    for (int i = 0; i < 3; i++) cr_assert_eq(got[WIDTH + 2 + i], half_bits(WIDTH - 1 - i));
    fixture_close(&f);
}
