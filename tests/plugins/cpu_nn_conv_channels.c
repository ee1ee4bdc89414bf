/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of convolution above the first one (by a library, where the build and the machine have it), against
 * the definition in double: images row-major and channels-last, with all three gradients. Whatever a row
 * refuses is left to others; what it takes it must compute.
 */
#include "cpu_nn.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int64_t batch, groups, x_channels, y_channels, x[2], kernel[2], stride[2], padding[2], dilation[2];
} shape;

static const shape shapes[] = {
    {2, 1, 16, 24, {15, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 3, 16, {33, 31}, {7, 7}, {2, 2}, {3, 3}, {1, 1}},
    {1, 1, 24, 17, {20, 18}, {3, 2}, {2, 1}, {0, 1}, {1, 2}},
    {3, 1, 32, 40, {12, 9}, {1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {2, 24, 24, 24, {30, 21}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 2, 16, 32, {14, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
};

/* The row that the host tries first for a name. */
static const tn_kernel_row *first_row(const fixture *f, const char *name)
{
    const tn_kernel_row *best = NULL;
    size_t length = strlen(name);
    for (uint32_t i = 0; i < f->kernels->count; i++) {
        const tn_kernel_row *row = (const tn_kernel_row *)(const void *)((const char *)f->kernels->rows +
                                                                         (size_t)i * f->kernels->row_bytes);
        if (strncmp(row->schema, name, length) != 0 || row->schema[length] != '(') continue;
        if (!best || row->priority >= best->priority) best = row;
    }
    cr_assert_not_null(best, "%s has a row", name);
    return best;
}

/* Calls the first row of a name if its can_run accepts the call. True if it did. */
static int run_first(fixture *f, const char *name, tn_value *args, uint32_t n_args, tn_value *outs,
                     uint32_t n_outs, int32_t threads, uint32_t flags)
{
    const tn_kernel_row *row = first_row(f, name);
    tn_call call = fixture_call(f, row, args, n_args, outs, n_outs);
    call.flags = flags;
    call.threads = threads;
    if (!row->can_run || row->can_run(f->self, &call)) return 0;
    cr_assert_eq(fixture_run_call(f, row, &call), TN_OK, "%s: %s", name, f->error_message);
    return 1;
}

static int64_t out_size(const shape *s, int i)
{
    return (s->x[i] + 2 * s->padding[i] - s->dilation[i] * (s->kernel[i] - 1) - 1) / s->stride[i] + 1;
}

/* An image whose strides are channels-last where `last`. */
static fixture_tensor image(fixture *f, int64_t batch, int64_t channels, int64_t height, int64_t width,
                            uint32_t seed, int last)
{
    fixture_tensor t = nn_tensor(f, 4, SIZES(batch, channels, height, width), seed);
    int64_t strides[4] = {channels * height * width, 1, width * channels, channels};
    if (last) memcpy(t.strides, strides, sizeof(strides));
    return t;
}

static int64_t at(const fixture_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + d * t->strides[3];
}

typedef struct operands {
    fixture_tensor x, w, y, bias, out_x, out_w, out_y, out_bias;
    double *expected_x, *expected_w, *expected_y, *expected_bias; /* with the tensors' strides */
} operands;

/* Sums up every term once for all four results. */
static void expect_all(const shape *s, operands *o)
{
    const float *x = o->x.desc.host, *w = o->w.desc.host, *y = o->y.desc.host, *bias = o->bias.desc.host;
    int64_t xc = s->x_channels / s->groups, yc = s->y_channels / s->groups;
    for (int64_t n = 0; n < s->batch; n++)
        for (int64_t c = 0; c < s->y_channels; c++)
            for (int64_t p = 0; p < out_size(s, 0) * out_size(s, 1); p++) {
                int64_t row = p / out_size(s, 1), column = p % out_size(s, 1);
                int64_t to = at(&o->y, n, c, row, column);
                o->expected_y[to] += (double)bias[c];
                o->expected_bias[c] += (double)y[to];
                for (int64_t k = 0; k < xc * s->kernel[0] * s->kernel[1]; k++) {
                    int64_t i = k / (s->kernel[0] * s->kernel[1]), kr = k / s->kernel[1] % s->kernel[0];
                    int64_t kc = k % s->kernel[1];
                    int64_t r = row * s->stride[0] + kr * s->dilation[0] - s->padding[0];
                    int64_t q = column * s->stride[1] + kc * s->dilation[1] - s->padding[1];
                    if (r < 0 || q < 0 || r >= s->x[0] || q >= s->x[1]) continue;
                    int64_t from = at(&o->x, n, c / yc * xc + i, r, q), by = at(&o->w, c, i, kr, kc);
                    o->expected_y[to] += (double)x[from] * (double)w[by];
                    o->expected_x[from] += (double)y[to] * (double)w[by];
                    o->expected_w[by] += (double)y[to] * (double)x[from];
                }
            }
}

static double *zeros(const fixture_tensor *t)
{
    double *d = calloc(t->bytes / 4 + 1, sizeof(double));
    cr_assert_not_null(d);
    return d;
}

/* Cuts the numbers to those that bfloat16 has. */
static void cut(fixture_tensor *t)
{
    uint32_t *bits = t->desc.host;
    for (uint64_t i = 0; i < t->bytes / 4; i++) bits[i] &= 0xffff0000;
}

static operands make_operands(fixture *f, const shape *s, int last, int last_weights)
{
    operands o;
    int64_t xc = s->x_channels / s->groups, h = out_size(s, 0), w = out_size(s, 1);
    o.x = image(f, s->batch, s->x_channels, s->x[0], s->x[1], 1, last);
    o.out_x = image(f, s->batch, s->x_channels, s->x[0], s->x[1], 0, last);
    o.y = image(f, s->batch, s->y_channels, h, w, 2, last);
    o.out_y = image(f, s->batch, s->y_channels, h, w, 0, last);
    o.w = image(f, s->y_channels, xc, s->kernel[0], s->kernel[1], 3, last_weights);
    o.out_w = image(f, s->y_channels, xc, s->kernel[0], s->kernel[1], 0, last_weights);
    o.bias = nn_tensor(f, 1, &s->y_channels, 4);
    o.out_bias = nn_tensor(f, 1, &s->y_channels, 0);
    cut(&o.x);
    cut(&o.y);
    cut(&o.w);
    cut(&o.bias);
    o.expected_x = zeros(&o.x);
    o.expected_w = zeros(&o.w);
    o.expected_y = zeros(&o.y);
    o.expected_bias = zeros(&o.bias);
    expect_all(s, &o);
    return o;
}

static void free_operands(fixture *f, operands *o)
{
    fixture_tensor *all[] = {&o->x, &o->w, &o->y, &o->bias, &o->out_x, &o->out_w, &o->out_y, &o->out_bias};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) fixture_tensor_free(f, all[i]);
    free(o->expected_x);
    free(o->expected_w);
    free(o->expected_y);
    free(o->expected_bias);
}

/* The same tensor in bfloat16. */
static fixture_tensor bfloat16_of(fixture *f, const fixture_tensor *t)
{
    uint64_t count = t->bytes / 4;
    uint16_t *data = malloc(count * 2);
    cr_assert_not_null(data);
    for (uint64_t i = 0; i < count; i++) data[i] = (uint16_t)(((const uint32_t *)t->desc.host)[i] >> 16);
    fixture_tensor out = fixture_tensor_make(f, TN_BFLOAT16, t->desc.rank, t->sizes, data);
    memcpy(out.strides, t->strides, sizeof out.strides);
    free(data);
    return out;
}

/* A result is the sum in float32, rounded once to the 8 bits of bfloat16. */
static void expect_bfloat16(const fixture_tensor *t, const double *expected, double tolerance,
                            const char *what)
{
    for (uint64_t i = 0; i < t->bytes / 2; i++) {
        uint32_t bits = (uint32_t)((const uint16_t *)t->desc.host)[i] << 16;
        float got;
        memcpy(&got, &bits, sizeof got);
        cr_assert(fabs((double)got - expected[i]) <= 0x1p-8 * fabs(expected[i]) + tolerance,
                  "%s: element %llu is %g, not %g", what, (unsigned long long)i, (double)got, expected[i]);
    }
}

static int check_bfloat16(fixture *f, const shape *s, operands *o, int32_t threads)
{
    const int64_t none[2] = {0, 0};
    const uint8_t mask[3] = {1, 1, 1};
    fixture_tensor *all[] = {&o->x, &o->w, &o->y, &o->bias, &o->out_x, &o->out_w, &o->out_y, &o->out_bias};
    fixture_tensor h[8];
    int taken = 0;
    for (int i = 0; i < 8; i++) h[i] = bfloat16_of(f, all[i]);
    tn_value geometry[] = {tn_value_ints(s->stride, 2),   tn_value_ints(s->padding, 2),
                           tn_value_ints(s->dilation, 2), tn_value_bool(0),
                           tn_value_ints(none, 2),        tn_value_int(s->groups)};
    tn_value forward[9] = {fixture_value(&h[0]), fixture_value(&h[1]), fixture_value(&h[3])};
    tn_value backward[11] = {fixture_value(&h[2]), fixture_value(&h[0]), fixture_value(&h[1]),
                             tn_value_ints(&s->y_channels, 1)};
    tn_value out[] = {fixture_value(&h[6])};
    tn_value outs[] = {fixture_value(&h[4]), fixture_value(&h[5]), fixture_value(&h[7])};
    memcpy(forward + 3, geometry, sizeof(geometry));
    memcpy(backward + 4, geometry, sizeof(geometry));
    backward[10] = tn_value_bools(mask, 3);
    if (run_first(f, "aten::convolution", forward, 9, out, 1, threads, 0)) {
        expect_bfloat16(&h[6], o->expected_y, 1e-4, "convolution");
        taken++;
    }
    if (run_first(f, "aten::convolution_backward", backward, 11, outs, 3, threads, 0)) {
        expect_bfloat16(&h[4], o->expected_x, 1e-4, "gradient of the input");
        expect_bfloat16(&h[5], o->expected_w, 2e-3, "gradient of the weight");
        expect_bfloat16(&h[7], o->expected_bias, 2e-3, "gradient of the bias");
        taken++;
    }
    for (int i = 0; i < 8; i++) fixture_tensor_free(f, &h[i]);
    return taken;
}

/* How many of the two calls the row accepted. */
static int check(fixture *f, const shape *s, operands *o, int32_t threads, uint32_t flags)
{
    const int64_t none[2] = {0, 0};
    const uint8_t mask[3] = {1, 1, 1};
    tn_value geometry[] = {tn_value_ints(s->stride, 2),   tn_value_ints(s->padding, 2),
                           tn_value_ints(s->dilation, 2), tn_value_bool(0),
                           tn_value_ints(none, 2),        tn_value_int(s->groups)};
    tn_value forward[9] = {fixture_value(&o->x), fixture_value(&o->w), fixture_value(&o->bias)};
    tn_value backward[11] = {fixture_value(&o->y), fixture_value(&o->x), fixture_value(&o->w),
                             tn_value_ints(&s->y_channels, 1)};
    tn_value out[] = {fixture_value(&o->out_y)};
    tn_value outs[] = {fixture_value(&o->out_x), fixture_value(&o->out_w), fixture_value(&o->out_bias)};
    int taken = 0;
    memcpy(forward + 3, geometry, sizeof(geometry));
    memcpy(backward + 4, geometry, sizeof(geometry));
    backward[10] = tn_value_bools(mask, 3);
    if (run_first(f, "aten::convolution", forward, 9, out, 1, threads, flags)) {
        nn_expect(f, &o->out_y, o->expected_y, 1e-4, "convolution");
        taken++;
    }
    if (run_first(f, "aten::convolution_backward", backward, 11, outs, 3, threads, flags)) {
        nn_expect(f, &o->out_x, o->expected_x, 1e-4, "gradient of the input");
        nn_expect(f, &o->out_w, o->expected_w, 2e-3, "gradient of the weight");
        nn_expect(f, &o->out_bias, o->expected_bias, 2e-3, "gradient of the bias");
        taken++;
    }
    return taken;
}

/* Adds to sums over an image a number for each of its channels, and returns its sums over each channel. */
static double *add_by_channel(const fixture_tensor *t, double *sums, const float *by, double sign)
{
    const float *elements = t->desc.host;
    double *totals = calloc((size_t)t->sizes[1], sizeof(double));
    cr_assert_not_null(totals);
    for (int64_t n = 0; n < t->sizes[0]; n++)
        for (int64_t c = 0; c < t->sizes[1]; c++)
            for (int64_t p = 0; p < t->sizes[2] * t->sizes[3]; p++) {
                int64_t i = at(t, n, c, p / t->sizes[3], p % t->sizes[3]);
                sums[i] += sign * (double)by[c];
                totals[c] += (double)elements[i];
            }
    return totals;
}

/* The transposed convolution: y goes in, x comes out; x is the gradient that its own gradients start from. Changes
 * the expected sums. */
static int check_transposed(fixture *f, const shape *s, operands *o, int32_t threads)
{
    const uint8_t mask[3] = {1, 1, 1};
    fixture_tensor bias = nn_tensor(f, 1, &s->x_channels, 5), out_bias = nn_tensor(f, 1, &s->x_channels, 0);
    int64_t extra[2];
    int taken = 0;
    for (int i = 0; i < 2; i++)
        extra[i] = s->x[i] - ((out_size(s, i) - 1) * s->stride[i] - 2 * s->padding[i] +
                              s->dilation[i] * (s->kernel[i] - 1) + 1);
    tn_value geometry[] = {tn_value_ints(s->stride, 2),   tn_value_ints(s->padding, 2),
                           tn_value_ints(s->dilation, 2), tn_value_bool(1),
                           tn_value_ints(extra, 2),       tn_value_int(s->groups)};
    tn_value forward[9] = {fixture_value(&o->y), fixture_value(&o->w), fixture_value(&bias)};
    tn_value backward[11] = {fixture_value(&o->x), fixture_value(&o->y), fixture_value(&o->w),
                             tn_value_ints(&s->x_channels, 1)};
    tn_value out[] = {fixture_value(&o->out_x)};
    tn_value outs[] = {fixture_value(&o->out_y), fixture_value(&o->out_w), fixture_value(&out_bias)};
    double *totals = add_by_channel(&o->x, o->expected_x, bias.desc.host, 1);
    free(add_by_channel(&o->y, o->expected_y, o->bias.desc.host, -1));
    memcpy(forward + 3, geometry, sizeof(geometry));
    memcpy(backward + 4, geometry, sizeof(geometry));
    backward[10] = tn_value_bools(mask, 3);
    if (run_first(f, "aten::convolution", forward, 9, out, 1, threads, 0)) {
        nn_expect(f, &o->out_x, o->expected_x, 1e-4, "transposed convolution");
        taken++;
    }
    if (run_first(f, "aten::convolution_backward", backward, 11, outs, 3, threads, 0)) {
        nn_expect(f, &o->out_y, o->expected_y, 1e-4, "gradient of the input");
        nn_expect(f, &o->out_w, o->expected_w, 2e-3, "gradient of the weight");
        nn_expect(f, &out_bias, totals, 2e-3, "gradient of the bias");
        taken++;
    }
    free(totals);
    fixture_tensor_free(f, &bias);
    fixture_tensor_free(f, &out_bias);
    return taken;
}

/* Calls `run` for every shape in every pair of layouts; returns how many calls were taken. */
static int run_all(fixture *f, int (*run)(fixture *f, const shape *s, operands *o, int32_t layout))
{
    int taken = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (int32_t layout = 0; layout < 4; layout++) {
            operands o = make_operands(f, &shapes[i], layout & 1, layout >> 1);
            taken += run(f, &shapes[i], &o, layout);
            free_operands(f, &o);
        }
    if (first_row(f, "aten::convolution")->priority == 0)
        cr_skip_test("neither build nor machine has the library");
    return taken;
}

static int run_transposed(fixture *f, const shape *s, operands *o, int32_t layout)
{
    return check_transposed(f, s, o, 1 + layout % 2);
}

static int run_values_and_gradients(fixture *f, const shape *s, operands *o, int32_t layout)
{
    return check(f, s, o, 1, 0) + check(f, s, o, 2, 0) + check_bfloat16(f, s, o, 2);
}

Test(cpu_nn_conv_channels, transposed_in_both_layouts)
{
    fixture f;
    fixture_open(&f);
    int taken = run_all(&f, run_transposed);
    cr_expect_geq(taken, 24, "only %d of 48 calls were taken", taken);
    fixture_close(&f);
}

Test(cpu_nn_conv_channels, values_and_gradients_in_both_layouts)
{
    fixture f;
    fixture_open(&f);
    if (run_all(&f, run_values_and_gradients) == 0)
        cr_skip_test("the machine has no instructions for the library");
    fixture_close(&f);
}

Test(cpu_nn_conv_channels, deterministic_mode_is_refused)
{
    fixture f;
    fixture_open(&f);
    operands o = make_operands(&f, &shapes[0], 1, 0);
    cr_assert_eq(check(&f, &shapes[0], &o, 2, TN_CALL_DETERMINISTIC), 0);
    free_operands(&f, &o);
    fixture_close(&f);
}
