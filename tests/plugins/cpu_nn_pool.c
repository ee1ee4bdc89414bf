/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling of the CPU plugin against plain loops, for row-major and for channels-last images, which have
 * kernels of their own.
 */
#include "cpu_nn.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N = 2, C = 37, H = 9, W = 11, KERNEL = 3, STRIDE = 2, PAD = 1, OH = 5, OW = 6 };
enum { INPUTS = N * C * H * W, OUTPUTS = N * C * OH * OW };

/* Where an element of an image of `size` lies: row-major, or channels-last. */
static int64_t place(int64_t n, int64_t c, int64_t y, int64_t x, int64_t height, int64_t width, bool last)
{
    return last ? ((n * height + y) * width + x) * C + c : ((n * C + c) * height + y) * width + x;
}

static fixture_tensor image(fixture *f, tn_dtype dtype, int64_t height, int64_t width, bool last,
                            const void *data)
{
    fixture_tensor t = fixture_tensor_make(f, dtype, 4, SIZES(N, C, height, width), data);
    if (last) {
        t.strides[0] = C * height * width;
        t.strides[1] = 1;
        t.strides[2] = C * width;
        t.strides[3] = C;
    }
    return t;
}

/* Largest and mean of a window, and where the largest was: the last NaN, else the first of the largest. */
typedef struct window {
    float largest, mean;
    int64_t at;
} window;

static window look(const float *in, int64_t n, int64_t c, int64_t oy, int64_t ox, bool last)
{
    window w = {-INFINITY, 0, -1};
    double sum = 0;
    for (int64_t k = 0; k < KERNEL * KERNEL; k++) {
        int64_t y = oy * STRIDE - PAD + k / KERNEL, x = ox * STRIDE - PAD + k % KERNEL;
        if (y < 0 || y >= H || x < 0 || x >= W) continue;
        float v = in[place(n, c, y, x, H, W, last)];
        sum += (double)v;
        if (w.at >= 0 && !(v > w.largest) && !isnan(v)) continue;
        w.largest = v;
        w.at = y * W + x;
    }
    w.mean = (float)(sum / (KERNEL * KERNEL));
    return w;
}

static void fill(float *in)
{
    nn_noise(in, INPUTS, 11);
    /* Two NaNs in one window, in both layouts. */
    in[place(0, 3, 2, 2, H, W, false)] = in[place(0, 3, 3, 3, H, W, false)] = NAN;
    in[place(0, 3, 2, 2, H, W, true)] = in[place(0, 3, 3, 3, H, W, true)] = NAN;
}

static void check_forward(bool last)
{
    static float in[INPUTS], largest[OUTPUTS], mean[OUTPUTS];
    static int64_t at[OUTPUTS];
    fixture f;
    fill(in);
    fixture_open(&f);
    fixture_tensor x = image(&f, TN_FLOAT32, H, W, last, in), y = image(&f, TN_FLOAT32, OH, OW, last, NULL);
    fixture_tensor i = image(&f, TN_INT64, OH, OW, last, NULL), m = image(&f, TN_FLOAT32, OH, OW, last, NULL);
    int64_t kernel[] = {KERNEL, KERNEL}, stride[] = {STRIDE, STRIDE}, pad[] = {PAD, PAD}, one[] = {1, 1};
    tn_value args[] = {fixture_value(&x),     tn_value_ints(kernel, 2), tn_value_ints(stride, 2),
                       tn_value_ints(pad, 2), tn_value_ints(one, 2),    tn_value_bool(0)};
    tn_value outs[] = {fixture_value(&y), fixture_value(&i)}, average = fixture_value(&m);
    cr_assert_eq(nn_run(&f, "aten::max_pool2d_with_indices", args, 6, outs, 2, 2, 0), TN_OK);
    args[4] = tn_value_bool(0);
    args[5] = tn_value_bool(1);
    tn_value more[] = {args[0], args[1], args[2], args[3], args[4], args[5], tn_value_none()};
    cr_assert_eq(nn_run(&f, "aten::avg_pool2d", more, 7, &average, 1, 2, 0), TN_OK);
    fixture_read(&f, &y, largest);
    fixture_read(&f, &i, at);
    fixture_read(&f, &m, mean);
    for (int64_t k = 0; k < OUTPUTS; k++) {
        int64_t ox = k % OW, oy = k / OW % OH, c = k / OW / OH % C, n = k / OW / OH / C;
        int64_t o = place(n, c, oy, ox, OH, OW, last);
        window w = look(in, n, c, oy, ox, last);
        cr_assert_eq(at[o], w.at, "output %d: found at %d, expected %d", (int)k, (int)at[o], (int)w.at);
        cr_assert(largest[o] == w.largest || (isnan(largest[o]) && isnan(w.largest)));
        cr_assert(fabsf(mean[o] - w.mean) < 1e-6f || (isnan(mean[o]) && isnan(w.mean)));
    }
    fixture_close(&f);
}

Test(cpu_nn_pool, row_major_forward)
{
    check_forward(false);
}
Test(cpu_nn_pool, channels_last_forward)
{
    check_forward(true);
}

static void check_backward(bool last)
{
    static float grad[OUTPUTS], to_max[INPUTS], to_mean[INPUTS];
    static double max_sums[INPUTS], mean_sums[INPUTS];
    static int64_t at[OUTPUTS];
    fixture f;
    memset(max_sums, 0, sizeof max_sums);
    memset(mean_sums, 0, sizeof mean_sums);
    nn_noise(grad, OUTPUTS, 5);
    for (int64_t k = 0; k < OUTPUTS; k++) {
        int64_t ox = k % OW, oy = k / OW % OH, c = k / OW / OH % C, n = k / OW / OH / C;
        int64_t o = place(n, c, oy, ox, OH, OW, last);
        at[o] = oy * STRIDE * W + ox * STRIDE;
        max_sums[place(n, c, oy * STRIDE, ox * STRIDE, H, W, last)] += (double)grad[o];
        for (int64_t j = 0; j < KERNEL * KERNEL; j++) {
            int64_t y = oy * STRIDE - PAD + j / KERNEL, x = ox * STRIDE - PAD + j % KERNEL;
            if (y >= 0 && y < H && x >= 0 && x < W)
                mean_sums[place(n, c, y, x, H, W, last)] += (double)grad[o] / (KERNEL * KERNEL);
        }
    }
    fixture_open(&f);
    fixture_tensor x = image(&f, TN_FLOAT32, H, W, last, NULL), g = image(&f, TN_FLOAT32, OH, OW, last, grad);
    fixture_tensor i = image(&f, TN_INT64, OH, OW, last, at), a = image(&f, TN_FLOAT32, H, W, last, NULL);
    fixture_tensor b = image(&f, TN_FLOAT32, H, W, last, NULL);
    int64_t kernel[] = {KERNEL, KERNEL}, stride[] = {STRIDE, STRIDE}, pad[] = {PAD, PAD}, one[] = {1, 1};
    tn_value args[] = {fixture_value(&g),        fixture_value(&x),     tn_value_ints(kernel, 2),
                       tn_value_ints(stride, 2), tn_value_ints(pad, 2), tn_value_ints(one, 2),
                       tn_value_bool(0),         fixture_value(&i)};
    tn_value out = fixture_value(&a), mean = fixture_value(&b);
    cr_assert_eq(nn_run(&f, "aten::max_pool2d_with_indices_backward", args, 8, &out, 1, 2, 0), TN_OK);
    args[5] = tn_value_bool(0);
    args[6] = tn_value_bool(1);
    args[7] = tn_value_none();
    cr_assert_eq(nn_run(&f, "aten::avg_pool2d_backward", args, 8, &mean, 1, 2, 0), TN_OK);
    fixture_read(&f, &a, to_max);
    fixture_read(&f, &b, to_mean);
    for (int64_t k = 0; k < INPUTS; k++) {
        cr_assert_float_eq((double)to_max[k], max_sums[k], 1e-6);
        cr_assert_float_eq((double)to_mean[k], mean_sums[k], 1e-6);
    }
    fixture_close(&f);
}

Test(cpu_nn_pool, row_major_backward)
{
    check_backward(false);
}
Test(cpu_nn_pool, channels_last_backward)
{
    check_backward(true);
}
