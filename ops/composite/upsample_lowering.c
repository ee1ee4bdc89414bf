/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: upsampling and padding by tables of taps: which inputs an output reads, with which weights.
 * Positions are computed in float for float32 and narrower dtypes and in double for float64 and uint8, as in
 * ATen: the neighbour depends on it.
 */
#include <math.h>
#include "ops/composite/tap_table.h"

typedef enum filter { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_SMOOTH, CUBIC_SMOOTH } filter;

/* One dimension of a call. */
typedef struct axis {
    int64_t in, out;
    double given; /* the scale that the caller gave, or 0 */
    int32_t align, in_double;
    int32_t
        of_image; /* 2-D: nearest neighbours to the same or twice the size ignore a given scale, as in ATen */
} axis;

/* ---- positions ---- */

/* The distance of neighbouring outputs, in inputs. */
static double step_of(const axis *a)
{
    double step;
    if (a->align && a->out <= 1) return 0;
    if (a->align)
        step = a->in_double ? (double)(a->in - 1) / (double)(a->out - 1)
                            : (double)((float)(a->in - 1) / (float)(a->out - 1));
    else if (a->given > 0)
        step = 1 / a->given;
    else
        step = a->in_double ? (double)a->in / (double)a->out : (double)((float)a->in / (float)a->out);
    return a->in_double ? step : (double)(float)step;
}

/* The position of output o, in inputs. */
static double position_of(const axis *a, double step, int64_t o)
{
    if (a->in_double) return a->align ? step * (double)o : step * ((double)o + 0.5) - 0.5;
    return a->align ? (double)((float)step * (float)o) : (double)((float)step * ((float)o + 0.5f) - 0.5f);
}

static int64_t bounded(int64_t at, int64_t size)
{
    return at < 0 ? 0 : at < size ? at : size - 1;
}

/* ---- tables ---- */

static int32_t nearest_taps(tn_scope *s, const axis *a, filter kind, tni_taps *t)
{
    float step = a->given > 0 ? (float)(1 / a->given) : (float)a->in / (float)a->out;
    int32_t by_size = kind == NEAREST && (!(a->given > 0) || a->of_image);
    if (tni_taps_make(s, a->in, a->out, 1, 0, t)) return -1;
    for (int64_t o = 0; o < a->out; o++) {
        float at = kind == NEAREST ? (float)o * step : (float)(((double)o + 0.5) * (double)step);
        int64_t whole = (int64_t)floorf(at);
        if (by_size && a->out == a->in) whole = o;
        if (by_size && a->out == 2 * a->in) whole = o / 2;
        t->at[o] = bounded(whole, a->in);
    }
    return 0;
}

static int32_t linear_taps(tn_scope *s, const axis *a, tni_taps *t)
{
    double step = step_of(a);
    if (tni_taps_make(s, a->in, a->out, 2, 1, t)) return -1;
    for (int64_t o = 0; o < a->out; o++) {
        double at = fmax(0, position_of(a, step, o));
        if (a->in == a->out) at = (double)o;
        int64_t low = bounded((int64_t)at, a->in);
        t->at[2 * o] = low;
        t->at[2 * o + 1] = bounded(low + 1, a->in);
        t->weight[2 * o + 1] = fmin(fmax(at - (double)low, 0), 1);
        t->weight[2 * o] = 1 - t->weight[2 * o + 1];
    }
    return 0;
}

/* Keys' cubic convolution kernel at distance x. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static int32_t cubic_taps(tn_scope *s, const axis *a, tni_taps *t)
{
    double step = step_of(a);
    if (tni_taps_make(s, a->in, a->out, 4, 1, t)) return -1;
    for (int64_t o = 0; o < a->out; o++) {
        double at = position_of(a, step, o), low = floor(at);
        for (int k = 0; k < 4; k++) {
            t->at[4 * o + k] = bounded((int64_t)low + k - 1, a->in);
            t->weight[4 * o + k] = cubic(at - low - (k - 1), -0.75);
        }
    }
    return 0;
}

static double smooth_weight(filter kind, double x)
{
    return kind == LINEAR_SMOOTH ? fmax(0, 1 - fabs(x)) : cubic(x, -0.5);
}

/* Antialiased: the filter is as wide as the distance of outputs. */
static int32_t smooth_taps(tn_scope *s, const axis *a, filter kind, tni_taps *t)
{
    double step = step_of(a), radius = kind == LINEAR_SMOOTH ? 1 : 2;
    double support = step >= 1 ? radius * step : radius, narrow = step >= 1 ? 1 / step : 1;
    int64_t count = (int64_t)ceil(support) * 2 + 1, most = a->in > 3 ? a->in : 3;
    if (count > most) count = most; /* the others would have no weight */
    if (tni_taps_make(s, a->in, a->out, count, 1, t)) return -1;
    for (int64_t o = 0; o < a->out; o++) {
        double center = step * ((double)o + 0.5), sum = 0, *weight = t->weight + o * count;
        int64_t low = (int64_t)(center - support + 0.5), end = (int64_t)(center + support + 0.5);
        if (low < 0) low = 0;
        if (end > a->in) end = a->in;
        for (int64_t k = 0; k < count; k++) {
            t->at[o * count + k] = bounded(low + k, a->in);
            weight[k] = low + k < end ? smooth_weight(kind, ((double)(k + low) - center + 0.5) * narrow) : 0;
            sum += weight[k];
        }
        for (int64_t k = 0; k < count && sum != 0; k++) weight[k] /= sum;
    }
    return 0;
}

static int32_t make_taps(tn_scope *s, const axis *a, filter kind, tni_taps *t)
{
    switch (kind) {
    case NEAREST:
    case NEAREST_EXACT:
        return nearest_taps(s, a, kind, t);
    case LINEAR:
        return linear_taps(s, a, t);
    case CUBIC:
        return cubic_taps(s, a, t);
    default:
        return smooth_taps(s, a, kind, t);
    }
}

/* ---- calls ---- */

static int32_t has_corners(filter kind)
{
    return kind != NEAREST && kind != NEAREST_EXACT;
}

/* Arguments from `at` on: align_corners if the filter has it, then a scale for each dimension. */
static int32_t open_axis(tn_scope *s, const tn_value *args, uint32_t at, filter kind, int64_t i,
                         tn_dtype dtype, axis *a, tni_taps *t)
{
    double given = arg_float_or(args, at + (uint32_t)(has_corners(kind) + i), 0);
    a->given = given > 0 ? given : 0;
    a->align = has_corners(kind) && arg_bool(args, at);
    a->in_double = dtype == TN_FLOAT64 || dtype == TN_UINT8;
    return make_taps(s, a, kind, t);
}

/* ATen rounds weights to half types, except for bilinear 2-D upsampling. */
static tn_dtype rounded_to(const tn_tensor *t, int64_t space, filter kind)
{
    tn_dtype dtype = dtype_of(t);
    return wide_dtype(dtype) != dtype && !(space == 2 && kind == LINEAR) ? dtype : 0;
}

/* (self, output_size, ...) */
static void upsample(tn_scope *s, const tn_value *args, tn_value *outs, filter kind)
{
    tn_tensor *self = arg_tensor(args, 0), *t = self;
    tn_ints size = arg_ints(args, 1);
    int64_t space = size.count;
    int32_t bytes = dtype_of(self) == TN_UINT8 && has_corners(kind);
    if (has_corners(kind)) t = wide(s, t);
    for (int64_t i = space - 1; i >= 0 && !tn_scope_failed(s); i--) {
        int64_t dim = rank_of(self) - space + i;
        axis a = {.in = tn_tensor_size(self, dim), .out = size.data[i], .of_image = space == 2};
        tni_taps taps;
        if (open_axis(s, args, 2, kind, i, dtype_of(self), &a, &taps)) return;
        t = bytes ? tni_taps_gather_bytes(s, t, dim, &taps)
                  : tni_taps_gather(s, t, dim, &taps, rounded_to(self, space, kind));
    }
    tni_give_resampled(s, outs, 0, t, self, dtype_of(self));
}

/* (grad_output, output_size, input_size, ...) */
static void upsample_backward(tn_scope *s, const tn_value *args, tn_value *outs, filter kind)
{
    tn_tensor *grad = arg_tensor(args, 0), *t = wide(s, grad);
    tn_ints size = arg_ints(args, 1), input = arg_ints(args, 2);
    for (int64_t i = 0; i < size.count && !tn_scope_failed(s); i++) {
        int64_t dim = input.count - size.count + i;
        axis a = {.in = input.data[dim], .out = size.data[i], .of_image = size.count == 2};
        tni_taps taps;
        if (open_axis(s, args, 3, kind, i, dtype_of(grad), &a, &taps)) return;
        t = tni_taps_spread(s, t, dim, &taps, 0);
    }
    tni_give_resampled(s, outs, 0, t, grad, dtype_of(grad));
}

FORWARD(composite_upsample_nearest_lowering, upsample, NEAREST)
FORWARD(composite_upsample_nearest_exact_lowering, upsample, NEAREST_EXACT)
FORWARD(composite_upsample_linear_lowering, upsample, LINEAR)
FORWARD(composite_upsample_cubic_lowering, upsample, CUBIC)
FORWARD(composite_upsample_linear_smooth_lowering, upsample, LINEAR_SMOOTH)
FORWARD(composite_upsample_cubic_smooth_lowering, upsample, CUBIC_SMOOTH)
FORWARD(composite_upsample_nearest_backward_lowering, upsample_backward, NEAREST)
FORWARD(composite_upsample_nearest_exact_backward_lowering, upsample_backward, NEAREST_EXACT)
FORWARD(composite_upsample_linear_backward_lowering, upsample_backward, LINEAR)
FORWARD(composite_upsample_cubic_backward_lowering, upsample_backward, CUBIC)
FORWARD(composite_upsample_linear_smooth_backward_lowering, upsample_backward, LINEAR_SMOOTH)
FORWARD(composite_upsample_cubic_smooth_backward_lowering, upsample_backward, CUBIC_SMOOTH)

/* ---- padding by reflection and replication: (self, padding) and (grad_output, self, padding) ---- */

/* Amounts come in pairs from the last dimension on. */
static int32_t pad_taps(tn_scope *s, tn_ints pad, int64_t dim, const tn_tensor *self, int32_t reflects,
                        tni_taps *t)
{
    int64_t pair = rank_of(self) - 1 - dim, before = pad.data[2 * pair], size = tn_tensor_size(self, dim);
    if (tni_taps_make(s, size, size + before + pad.data[2 * pair + 1], 1, 0, t)) return -1;
    for (int64_t o = 0; o < t->out; o++) {
        int64_t at = o - before;
        if (reflects && at < 0) at = -at;
        if (reflects && at >= size) at = 2 * (size - 1) - at;
        t->at[o] = bounded(at, size);
    }
    return 0;
}

static void pad(tn_scope *s, const tn_value *args, tn_value *outs, int32_t reflects)
{
    tn_tensor *self = arg_tensor(args, 0), *t = self;
    tn_ints amounts = arg_ints(args, 1);
    for (int64_t dim = rank_of(self) - 1; dim >= rank_of(self) - amounts.count / 2; dim--) {
        tni_taps taps;
        if (pad_taps(s, amounts, dim, self, reflects, &taps)) return;
        t = tni_taps_gather(s, t, dim, &taps, 0);
    }
    tni_give_resampled(s, outs, 0, t, self, dtype_of(self));
}

static void pad_backward(tn_scope *s, const tn_value *args, tn_value *outs, int32_t reflects)
{
    tn_tensor *self = arg_tensor(args, 1), *t = wide(s, arg_tensor(args, 0));
    tn_ints amounts = arg_ints(args, 2);
    for (int64_t dim = rank_of(self) - amounts.count / 2; dim < rank_of(self); dim++) {
        tni_taps taps;
        if (pad_taps(s, amounts, dim, self, reflects, &taps)) return;
        t = tni_taps_spread(s, t, dim, &taps, 0);
    }
    tni_give_resampled(s, outs, 0, t, self, dtype_of(self));
}

FORWARD(composite_reflection_pad, pad, 1)
FORWARD(composite_replication_pad, pad, 0)
FORWARD(composite_reflection_pad_backward, pad_backward, 1)
FORWARD(composite_replication_pad_backward, pad_backward, 0)
