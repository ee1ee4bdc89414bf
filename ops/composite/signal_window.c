/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: windows of signal processing (F. J. Harris, "On the use of windows for harmonic analysis with
 * the discrete Fourier transform", 1978). They are short, so the host computes them in float64.
 */
#include <math.h>
#include "ops/composite/composite.h"

#define TURN 6.283185307179586476925286766559 /* 2 pi */

typedef struct window {
    double a, b;
    double bessel; /* I0(a), of kaiser */
} window;

/* The value at x = n / (length - 1), which goes from 0 to 1. */
typedef double window_fn(const window *w, double x);

static double hamming(const window *w, double x)
{
    return w->a - w->b * cos(TURN * x);
}

static double blackman(const window *w, double x)
{
    (void)w;
    return 0.42 - 0.5 * cos(TURN * x) + 0.08 * cos(2 * TURN * x);
}

static double bartlett(const window *w, double x)
{
    (void)w;
    return x <= 0.5 ? 2 * x : 2 - 2 * x;
}

/* The modified Bessel function of order 0: sum of (x^2 / 4)^k / (k!)^2, all terms positive. */
static double bessel_i0(double x)
{
    double term = 1, sum = 1;
    for (int32_t k = 1; k < 2000 && term > sum * 1e-18; k++) {
        term *= x * x / 4 / k / k;
        sum += term;
    }
    return sum;
}

static double kaiser(const window *w, double x)
{
    double y = 2 * x - 1, inside = 1 - y * y;
    return bessel_i0(w->a * sqrt(inside > 0 ? inside : 0)) / w->bessel;
}

/*
 * (length), then periodic and the parameters as far as the overload has them, then the options of a new
 * tensor.
 */
typedef struct settings {
    int64_t length;
    int32_t periodic;
    double a, b;
    uint32_t options; /* index of dtype */
} settings;

static settings read_settings(const tn_value *args, double a, double b)
{
    uint32_t n = arg_numbers(args, 0);
    return (settings){.length = arg_int(args, 0),
                      .periodic = n < 2 || arg_bool(args, 1),
                      .a = n > 2 ? arg_float(args, 2) : a,
                      .b = n > 3 ? arg_float(args, 3) : b,
                      .options = n};
}

static void make_window(tn_scope *s, const char *name, window_fn *value, const window *w, settings p,
                        const tn_value *args, tn_value *outs)
{
    int64_t length = p.length;
    double points = (double)length + (p.periodic ? 1 : 0);
    tni_options o = tni_options_at(s, args, p.options);
    if (!o.dtype) o.dtype = tni_default_dtype(s->ctx);
    if (!is_float(o.dtype))
        return (void)tni_scope_failf(s, TN_E_DTYPE, "%s expects floating point dtypes, got: %s", name,
                                     tn_dtype_name(o.dtype));
    if (length < 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT,
                                     "%s requires non-negative window_length, got window_length=%lld", name,
                                     (long long)length);
    double *x = tni_scope_items(s, length, sizeof *x);
    for (int64_t n = 0; x && n < length; n++) x[n] = length == 1 ? 1 : value(w, (double)n / (points - 1));
    if (!x) return;
    tn_tensor *t = tni_cast(s, tn_from_data(s, TN_FLOAT64, TN_INTS(length), x, o.device), o.dtype);
    give(outs, 0, tni_pinned_with(s, t, o));
}

void composite_hann_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "hann_window", hamming, &(window){.a = 0.5, .b = 0.5}, read_settings(args, 0, 0), args,
                outs);
}

void composite_hamming_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    settings p = read_settings(args, 0.54, 0.46);
    make_window(s, "hamming_window", hamming, &(window){.a = p.a, .b = p.b}, p, args, outs);
}

void composite_blackman_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "blackman_window", blackman, &(window){.a = 0}, read_settings(args, 0, 0), args, outs);
}

void composite_bartlett_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "bartlett_window", bartlett, &(window){.a = 0}, read_settings(args, 0, 0), args, outs);
}

void composite_kaiser_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    settings p = read_settings(args, 12, 0);
    make_window(s, "kaiser_window", kaiser, &(window){.a = p.a, .bessel = bessel_i0(p.a)}, p, args, outs);
}
