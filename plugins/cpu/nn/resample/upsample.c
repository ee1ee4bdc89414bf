/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upsampling: the inputs of each output and their weights. Positions are computed in float for float32 and
 * narrower dtypes and in double for float64 and bytes, as in ATen, because the choice of a neighbour depends
 * on it.
 */
#include "resample.h"
#include <math.h>

enum { NEAREST, NEAREST_EXACT, LINEAR, CUBIC, LINEAR_SMOOTH, CUBIC_SMOOTH };

static bool is_double(const tn_call *call)
{
    tn_dtype dtype = tensor_arg(call, 0)->dtype;
    return dtype == TN_FLOAT64 || dtype == TN_UINT8;
}

static bool aligns(const tn_call *call, const cpu_resample_form *form)
{
    return form->align >= 0 && int_arg(call, (uint32_t)form->align);
}

/* The scale that the caller gave for dimension i, or 0. */
static double given_scale(const tn_call *call, const cpu_resample_form *form, int i)
{
    uint32_t argument = (uint32_t)(form->scales + i - (3 - (int)form->spatial));
    double scale = is_none_arg(call, argument) ? 0 : float_arg(call, argument);
    return scale > 0 ? scale : 0;
}

/* Inputs per output. */
static double step_of(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i)
{
    double given = given_scale(call, form, i), step;
    if (aligns(call, form))
        step = r->out[i] > 1 ? is_double(call) ? (double)(r->in[i] - 1) / (double)(r->out[i] - 1)
                                               : (double)((float)(r->in[i] - 1) / (float)(r->out[i] - 1))
                             : 0;
    else
        step = given > 0         ? 1 / given
               : is_double(call) ? (double)r->in[i] / (double)r->out[i]
                                 : (double)((float)r->in[i] / (float)r->out[i]);
    return is_double(call) ? step : (double)(float)step;
}

/* The position of output o among the inputs. */
static double position_of(const tn_call *call, const cpu_resample_form *form, double step, int64_t o)
{
    if (is_double(call)) return aligns(call, form) ? step * (double)o : step * ((double)o + 0.5) - 0.5;
    return aligns(call, form) ? (double)((float)step * (float)o)
                              : (double)((float)step * ((float)o + 0.5f) - 0.5f);
}

static void nearest_taps(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i,
                         cpu_taps *out)
{
    double given = given_scale(call, form, i);
    float step = given > 0 ? (float)(1 / given) : (float)r->in[i] / (float)r->out[i];
    /* For images only, the sizes take precedence over a given scale. */
    bool by_size = form->kind == NEAREST && (given == 0 || form->spatial == 2);
    for (int64_t o = 0; o < r->out[i]; o++) {
        float at = form->kind == NEAREST ? (float)o * step : (float)(((double)o + 0.5) * (double)step);
        int64_t whole = (int64_t)floorf(at);
        if (by_size && r->out[i] == r->in[i]) whole = o;
        if (by_size && r->out[i] == 2 * r->in[i]) whole = o / 2;
        out->at[o] = min_i64(whole, r->in[i] - 1);
    }
}

static void linear_taps(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i,
                        cpu_taps *out)
{
    double step = step_of(call, form, r, i);
    for (int64_t o = 0; o < r->out[i]; o++) {
        double at = fmax(0, position_of(call, form, step, o)), apart;
        int64_t low = min_i64((int64_t)at, r->in[i] - 1);
        if (r->in[i] == r->out[i]) {
            low = o;
            at = (double)o;
        }
        apart = fmin(fmax(at - (double)low, 0), 1);
        out->at[2 * o] = low;
        out->at[2 * o + 1] = r->in[i] == r->out[i] ? low : min_i64(low + 1, r->in[i] - 1);
        out->weight[2 * o] = 1 - apart;
        out->weight[2 * o + 1] = apart;
    }
}

/* Keys' cubic convolution kernel with a = -0.75 at distance x. */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static void cubic_taps(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i,
                       cpu_taps *out)
{
    double step = step_of(call, form, r, i);
    for (int64_t o = 0; o < r->out[i]; o++) {
        double at = position_of(call, form, step, o), low = floor(at), apart = at - low;
        for (int t = 0; t < 4; t++) {
            out->at[4 * o + t] = max_i64(0, min_i64((int64_t)low + t - 1, r->in[i] - 1));
            out->weight[4 * o + t] = cubic(apart - (t - 1), -0.75);
        }
    }
}

/* ---- Antialiased: the filter is as wide as an output --------------------------------------------------- */

static double filter(int32_t kind, double x)
{
    return kind == LINEAR_SMOOTH ? fmax(0, 1 - fabs(x)) : cubic(x, -0.5);
}

static double support_of(int32_t kind, double step)
{
    double radius = kind == LINEAR_SMOOTH ? 1 : 2;
    return step >= 1 ? radius * step : radius;
}

/* No more than there are inputs, however small the scale is. */
static int64_t count_smooth(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i)
{
    int64_t count = (int64_t)ceil(support_of(form->kind, step_of(call, form, r, i))) * 2 + 1;
    return min_i64(count, max_i64(r->in[i], 3));
}

static void smooth_taps(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i,
                        cpu_taps *out)
{
    double step = step_of(call, form, r, i), support = support_of(form->kind, step),
           narrow = step >= 1 ? 1 / step : 1;
    out->has_spare = true;
    for (int64_t o = 0; o < r->out[i]; o++) {
        double center = step * ((double)o + 0.5), sum = 0, *weight = out->weight + o * out->taps;
        int64_t low = max_i64((int64_t)(center - support + 0.5), 0);
        int64_t count = min_i64((int64_t)(center + support + 0.5), r->in[i]) - low;
        count = max_i64(0, min_i64(count, out->taps));
        for (int64_t t = 0; t < out->taps; t++) {
            out->at[o * out->taps + t] = max_i64(0, min_i64(low + t, r->in[i] - 1));
            weight[t] = t < count ? filter(form->kind, ((double)(t + low) - center + 0.5) * narrow) : 0;
            sum += weight[t];
        }
        for (int64_t t = 0; t < count && sum != 0; t++) weight[t] /= sum;
    }
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

static int64_t count_one(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i)
{
    return 1;
}
static int64_t count_two(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i)
{
    return 2;
}
static int64_t count_four(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i)
{
    return 4;
}

static const tn_dtype floats_and_bytes[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, TN_UINT8, 0};

#define FORM(dims, backwards, taps, counter, what, corners, scale) \
    (&(const cpu_resample_form){(dims), (backwards), (taps), (counter), (what), (corners), (scale)})
#define ROW(text, list, form) CPU_ROW("aten::" text, list, cpu_resample_run, .data = (form))

#define NEAREST_ROWS(name, dims, scales, sizes, kind)                                                       \
    ROW(name #dims "d(Tensor self, SymInt[" #dims "] output_size, " scales ") -> Tensor", floats_and_bytes, \
        FORM(dims, false, nearest_taps, count_one, kind, -1, 2)),                                           \
        ROW(name #dims "d_backward(Tensor grad_output, SymInt[" #dims "] output_size, SymInt[" sizes        \
                       "] input_size, " scales ") -> Tensor",                                               \
            floats_and_bytes, FORM(dims, true, nearest_taps, count_one, kind, -1, 3))
#define LINEAR_ROWS(name, dims, scales, sizes, taps, counter, kind, list)                                    \
    ROW(name "(Tensor self, SymInt[" #dims "] output_size, bool align_corners, " scales ") -> Tensor", list, \
        FORM(dims, false, taps, counter, kind, 2, 3)),                                                       \
        ROW(name "_backward(Tensor grad_output, SymInt[" #dims "] output_size, SymInt[" sizes                \
                 "] input_size, bool align_corners, " scales ") -> Tensor",                                  \
            cpu_float_dtypes, FORM(dims, true, taps, counter, kind, 3, 4))

#define SCALES_1 "float? scales=None"
#define SCALES_2 "float? scales_h=None, float? scales_w=None"
#define SCALES_3 "float? scales_d=None, float? scales_h=None, float? scales_w=None"

const tn_kernel_row cpu_upsample_rows[] = {
    NEAREST_ROWS("upsample_nearest", 1, SCALES_1, "3", NEAREST),
    NEAREST_ROWS("upsample_nearest", 2, SCALES_2, "4", NEAREST),
    NEAREST_ROWS("upsample_nearest", 3, SCALES_3, "5", NEAREST),
    NEAREST_ROWS("_upsample_nearest_exact", 1, SCALES_1, "3", NEAREST_EXACT),
    NEAREST_ROWS("_upsample_nearest_exact", 2, SCALES_2, "4", NEAREST_EXACT),
    NEAREST_ROWS("_upsample_nearest_exact", 3, SCALES_3, "5", NEAREST_EXACT),
    LINEAR_ROWS("upsample_linear1d", 1, SCALES_1, "3", linear_taps, count_two, LINEAR, cpu_float_dtypes),
    LINEAR_ROWS("upsample_bilinear2d", 2, SCALES_2, "4", linear_taps, count_two, LINEAR, floats_and_bytes),
    LINEAR_ROWS("upsample_trilinear3d", 3, SCALES_3, "5", linear_taps, count_two, LINEAR, cpu_float_dtypes),
    LINEAR_ROWS("upsample_bicubic2d", 2, SCALES_2, "4", cubic_taps, count_four, CUBIC, floats_and_bytes),
    LINEAR_ROWS("_upsample_bilinear2d_aa", 2, SCALES_2, "4", smooth_taps, count_smooth, LINEAR_SMOOTH,
                floats_and_bytes),
    LINEAR_ROWS("_upsample_bicubic2d_aa", 2, SCALES_2, "4", smooth_taps, count_smooth, CUBIC_SMOOTH,
                floats_and_bytes),
};
const uint32_t cpu_upsample_row_count = CPU_ROW_COUNT(cpu_upsample_rows);
