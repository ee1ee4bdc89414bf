/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution of the CPU plugin against its definition in double: plain, strided, dilated, grouped and
 * transposed, in one, two and three dimensions, with all three gradients.
 */
#include "cpu_nn.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int rank;
    int64_t batch, groups, x_channels, y_channels;
    int64_t x[3], kernel[3], stride[3], padding[3], dilation[3];
} shape;

static int64_t out_size(const shape *s, int i)
{
    return (s->x[i] + 2 * s->padding[i] - s->dilation[i] * (s->kernel[i] - 1) - 1) / s->stride[i] + 1;
}

/* Walks over all terms y[n, o, p] += w[o, i, k] * x[n, i, q]; `what` says which of the three is summed up. */
static void walk(const shape *s, const float *x, const float *w, const float *y, char what, double *out)
{
    int64_t y_size[3], k[3], p[3], q[3], xc = s->x_channels / s->groups, yc = s->y_channels / s->groups;
    for (int i = 0; i < 3; i++) y_size[i] = out_size(s, i);
    int64_t kernel = s->kernel[0] * s->kernel[1] * s->kernel[2], x_plane = s->x[0] * s->x[1] * s->x[2];
    int64_t y_plane = y_size[0] * y_size[1] * y_size[2];
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t o = 0; o < s->y_channels; o++)
            for (int64_t i = 0; i < xc; i++)
                for (int64_t e = 0; e < kernel * y_plane; e++) {
                    int64_t ke = e % kernel, pe = e / kernel, xi = o / yc * xc + i;
                    int inside = 1;
                    k[0] = ke / s->kernel[2] / s->kernel[1], k[1] = ke / s->kernel[2] % s->kernel[1],
                    k[2] = ke % s->kernel[2];
                    p[0] = pe / y_size[2] / y_size[1], p[1] = pe / y_size[2] % y_size[1],
                    p[2] = pe % y_size[2];
                    for (int d = 0; d < 3; d++) {
                        q[d] = p[d] * s->stride[d] + k[d] * s->dilation[d] - s->padding[d];
                        if (q[d] < 0 || q[d] >= s->x[d]) inside = 0;
                    }
                    if (!inside) continue;
                    int64_t at_x =
                        (n * s->x_channels + xi) * x_plane + (q[0] * s->x[1] + q[1]) * s->x[2] + q[2];
                    int64_t at_w = (o * xc + i) * kernel + ke, at_y = (n * s->y_channels + o) * y_plane + pe;
                    if (what == 'y') out[at_y] += (double)w[at_w] * (double)x[at_x];
                    if (what == 'x') out[at_x] += (double)w[at_w] * (double)y[at_y];
                    if (what == 'w') out[at_w] += (double)x[at_x] * (double)y[at_y];
                }
}

static fixture_tensor image(fixture *f, const shape *s, int64_t channels, const int64_t size[3],
                            uint32_t seed)
{
    int64_t sizes[5] = {s->batch, channels};
    memcpy(sizes + 2, size + 3 - s->rank, (size_t)s->rank * sizeof(int64_t));
    return nn_tensor(f, (uint32_t)s->rank + 2, sizes, seed);
}

static tn_value list(const int64_t *values, int rank)
{
    return tn_value_ints(values + 3 - rank, rank);
}

typedef struct operands {
    fixture_tensor x, w, y, bias, out_x, out_w, out_y, out_bias;
    int64_t y_size[3];
} operands;

static operands make_operands(fixture *f, const shape *s)
{
    operands o;
    int64_t w_size[5] = {s->y_channels, s->x_channels / s->groups};
    for (int i = 0; i < 3; i++) o.y_size[i] = out_size(s, i);
    memcpy(w_size + 2, s->kernel + 3 - s->rank, (size_t)s->rank * sizeof(int64_t));
    o.x = image(f, s, s->x_channels, s->x, 1);
    o.y = image(f, s, s->y_channels, o.y_size, 2);
    o.w = nn_tensor(f, (uint32_t)s->rank + 2, w_size, 3);
    o.bias = nn_tensor(f, 1, &s->y_channels, 4);
    o.out_x = image(f, s, s->x_channels, s->x, 0);
    o.out_y = image(f, s, s->y_channels, o.y_size, 0);
    o.out_w = nn_tensor(f, (uint32_t)s->rank + 2, w_size, 0);
    o.out_bias = nn_tensor(f, 1, &s->y_channels, 0);
    return o;
}

static void free_operands(fixture *f, operands *o)
{
    fixture_tensor *all[] = {&o->x, &o->w, &o->y, &o->bias, &o->out_x, &o->out_w, &o->out_y, &o->out_bias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) fixture_tensor_free(f, all[i]);
}

static double *zeros(const fixture_tensor *t)
{
    double *d = calloc(t->bytes / 4 + 1, sizeof(double));
    cr_assert_not_null(d);
    return d;
}

static void check_forward(fixture *f, const shape *s, operands *o, int32_t threads)
{
    const int64_t none[3] = {0, 0, 0};
    double *expected = zeros(&o->y);
    int64_t plane = o->y_size[0] * o->y_size[1] * o->y_size[2];
    walk(s, o->x.desc.host, o->w.desc.host, NULL, 'y', expected);
    for (int64_t i = 0; i < (int64_t)(o->y.bytes / 4); i++)
        expected[i] += (double)((float *)o->bias.desc.host)[i / plane % s->y_channels];
    tn_value args[] = {fixture_value(&o->x),     fixture_value(&o->w),      fixture_value(&o->bias),
                       list(s->stride, s->rank), list(s->padding, s->rank), list(s->dilation, s->rank),
                       tn_value_bool(0),         list(none, s->rank),       tn_value_int(s->groups)};
    tn_value outs[] = {fixture_value(&o->out_y)};
    cr_assert_eq(nn_run(f, "aten::convolution", args, COUNT(args), outs, 1, threads, 0), TN_OK);
    nn_expect(f, &o->out_y, expected, 2e-5, "convolution");
    free(expected);
}

static void check_backward(fixture *f, const shape *s, operands *o, int32_t threads)
{
    const int64_t none[3] = {0, 0, 0};
    const uint8_t mask[3] = {1, 1, 1};
    int64_t plane = o->y_size[0] * o->y_size[1] * o->y_size[2];
    double *x = zeros(&o->x), *w = zeros(&o->w), *bias = zeros(&o->bias);
    walk(s, NULL, o->w.desc.host, o->y.desc.host, 'x', x);
    walk(s, o->x.desc.host, NULL, o->y.desc.host, 'w', w);
    for (int64_t i = 0; i < (int64_t)(o->y.bytes / 4); i++)
        bias[i / plane % s->y_channels] += (double)((float *)o->y.desc.host)[i];
    tn_value args[] = {fixture_value(&o->y),       fixture_value(&o->x),
                       fixture_value(&o->w),       tn_value_ints(&s->y_channels, 1),
                       list(s->stride, s->rank),   list(s->padding, s->rank),
                       list(s->dilation, s->rank), tn_value_bool(0),
                       list(none, s->rank),        tn_value_int(s->groups),
                       tn_value_bools(mask, 3)};
    tn_value outs[] = {fixture_value(&o->out_x), fixture_value(&o->out_w), fixture_value(&o->out_bias)};
    cr_assert_eq(nn_run(f, "aten::convolution_backward", args, COUNT(args), outs, 3, threads, 0), TN_OK);
    nn_expect(f, &o->out_x, x, 5e-5, "gradient of the input");
    nn_expect(f, &o->out_w, w, 5e-4, "gradient of the weight");
    nn_expect(f, &o->out_bias, bias, 5e-4, "gradient of the bias");
    free(x);
    free(w);
    free(bias);
}

/* The transposed convolution is the gradient of the input as an operator: y goes in, x comes out. */
static void check_transposed(fixture *f, const shape *s, operands *o)
{
    int64_t extra[3];
    double *expected = zeros(&o->x);
    for (int i = 0; i < 3; i++)
        extra[i] = s->x[i] - ((o->y_size[i] - 1) * s->stride[i] - 2 * s->padding[i] +
                              s->dilation[i] * (s->kernel[i] - 1) + 1);
    walk(s, NULL, o->w.desc.host, o->y.desc.host, 'x', expected);
    tn_value args[] = {fixture_value(&o->y),     fixture_value(&o->w),      tn_value_none(),
                       list(s->stride, s->rank), list(s->padding, s->rank), list(s->dilation, s->rank),
                       tn_value_bool(1),         list(extra, s->rank),      tn_value_int(s->groups)};
    tn_value outs[] = {fixture_value(&o->out_x)};
    cr_assert_eq(nn_run(f, "aten::convolution", args, COUNT(args), outs, 1, 2, 0), TN_OK);
    nn_expect(f, &o->out_x, expected, 5e-5, "transposed convolution");
    free(expected);
}

static const shape shapes[] = {
    /* rank, batch, groups, channels, channels, size, kernel, stride, padding, dilation */
    {2, 3, 1, 1, 5, {1, 9, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {2, 2, 1, 4, 6, {1, 14, 14}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {2, 2, 1, 3, 9, {1, 8, 33}, {1, 5, 2}, {1, 1, 1}, {0, 2, 0}, {1, 1, 1}},
    {2, 2, 2, 4, 6, {1, 10, 9}, {1, 3, 3}, {1, 2, 2}, {0, 1, 0}, {1, 1, 1}},
    {2, 1, 1, 2, 3, {1, 12, 13}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 2}},
    {2, 5, 1, 7, 4, {1, 6, 5}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {2, 2, 6, 6, 6, {1, 9, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {1, 2, 1, 3, 4, {1, 1, 20}, {1, 1, 4}, {1, 1, 3}, {0, 0, 1}, {1, 1, 1}},
    {3, 2, 1, 2, 3, {5, 6, 7}, {2, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {3, 1, 1, 2, 2, {5, 6, 7}, {3, 2, 2}, {2, 2, 1}, {1, 0, 1}, {1, 1, 2}},
};

Test(cpu_nn_conv, forward_and_gradients)
{
    fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        operands o = make_operands(&f, &shapes[i]);
        for (int32_t threads = 1; threads <= 2; threads++) {
            check_forward(&f, &shapes[i], &o, threads);
            check_backward(&f, &shapes[i], &o, threads);
        }
        check_transposed(&f, &shapes[i], &o);
        free_operands(&f, &o);
    }
    fixture_close(&f);
}

Test(cpu_nn_conv, channels_last_input)
{
    fixture f;
    fixture_open(&f);
    const shape *s = &shapes[1];
    operands o = make_operands(&f, s);
    /* The same numbers stored with channels innermost. */
    int64_t c = s->x_channels, h = s->x[1], w = s->x[2], count = s->batch * c * h * w;
    float *copy = malloc((size_t)count * 4);
    for (int64_t i = 0; i < count; i++) {
        int64_t n = i / (c * h * w), channel = i / (h * w) % c, at = i % (h * w);
        copy[(n * h * w + at) * c + channel] = ((float *)o.x.desc.host)[i];
    }
    double *expected = zeros(&o.y);
    int64_t plane = o.y_size[1] * o.y_size[2];
    walk(s, o.x.desc.host, o.w.desc.host, NULL, 'y', expected);
    for (int64_t i = 0; i < (int64_t)(o.y.bytes / 4); i++)
        expected[i] += (double)((float *)o.bias.desc.host)[i / plane % s->y_channels];
    memcpy(o.x.desc.host, copy, (size_t)count * 4);
    int64_t strides[4] = {c * h * w, 1, w * c, c}, none[3] = {0, 0, 0};
    memcpy(o.x.strides, strides, sizeof(strides));
    tn_value args[] = {fixture_value(&o.x), fixture_value(&o.w), fixture_value(&o.bias),
                       list(s->stride, 2),  list(s->padding, 2), list(s->dilation, 2),
                       tn_value_bool(0),    list(none, 2),       tn_value_int(1)};
    tn_value outs[] = {fixture_value(&o.out_y)};
    cr_assert_eq(nn_run(&f, "aten::convolution", args, COUNT(args), outs, 1, 1, 0), TN_OK);
    nn_expect(&f, &o.out_y, expected, 2e-5, "convolution of channels-last input");
    free(expected);
    free(copy);
    free_operands(&f, &o);
    fixture_close(&f);
}

Test(cpu_nn_conv, deterministic_gradients_do_not_depend_on_threads)
{
    static const shape s = {2, 33, 1, 5, 7, {1, 17, 19}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}};
    const int64_t none[3] = {0, 0, 0};
    const uint8_t mask[3] = {1, 1, 1};
    fixture f;
    fixture_open(&f);
    operands o = make_operands(&f, &s), other = make_operands(&f, &s);
    tn_value args[] = {
        fixture_value(&o.y), fixture_value(&o.x), fixture_value(&o.w),    tn_value_ints(&s.y_channels, 1),
        list(s.stride, 2),   list(s.padding, 2),  list(s.dilation, 2),    tn_value_bool(0),
        list(none, 2),       tn_value_int(1),     tn_value_bools(mask, 3)};
    tn_value one[] = {fixture_value(&o.out_x), fixture_value(&o.out_w), fixture_value(&o.out_bias)};
    tn_value two[] = {fixture_value(&other.out_x), fixture_value(&other.out_w),
                      fixture_value(&other.out_bias)};
    cr_assert_eq(nn_run(&f, "aten::convolution_backward", args, 11, one, 3, 1, TN_CALL_DETERMINISTIC), TN_OK);
    cr_assert_eq(nn_run(&f, "aten::convolution_backward", args, 11, two, 3, 3, TN_CALL_DETERMINISTIC), TN_OK);
    cr_assert_arr_eq(o.out_x.desc.host, other.out_x.desc.host, o.out_x.bytes);
    cr_assert_arr_eq(o.out_w.desc.host, other.out_w.desc.host, o.out_w.bytes);
    cr_assert_arr_eq(o.out_bias.desc.host, other.out_bias.desc.host, o.out_bias.bytes);
    fixture_close(&f);
}
