/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of signal processing (F. J. Harris, "On the use of windows for harmonic analysis with the discrete
 * Fourier transform", 1978). A window is short: the host computes it in float64.
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

static void make_window(tn_scope *s, const char *name, window_fn *value, const window *w,
                        const tn_value *args, uint32_t at, int32_t periodic, tn_value *outs)
{
    int64_t length = arg_int(args, 0), points = length + (periodic ? 1 : 0);
    tn_dtype dtype = arg_dtype(args, at) ? arg_dtype(args, at) : tni_default_dtype(s->ctx);
    if (!is_float(dtype))
        return (void)tni_scope_failf(s, TN_E_DTYPE, "%s expects floating point dtypes, got: %s", name,
                                     tn_dtype_name(dtype));
    if (length < 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT,
                                     "%s requires non-negative window_length, got window_length=%lld", name,
                                     (long long)length);
    double *x = tn_scope_memory(s, (uint64_t)(length > 0 ? length : 1) * sizeof(double));
    for (int64_t n = 0; x && n < length; n++)
        x[n] = length == 1 ? 1 : value(w, (double)n / (double)(points - 1));
    if (x)
        give(outs, 0,
             tni_cast(s, tn_from_data(s, TN_FLOAT64, TN_INTS(length), x, arg_device(args, at + 2)), dtype));
}

void composite_hann_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "hann_window", hamming, &(window){.a = 0.5, .b = 0.5}, args, 1, 1, outs);
}

void composite_hann_window_periodic(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "hann_window", hamming, &(window){.a = 0.5, .b = 0.5}, args, 2, arg_bool(args, 1), outs);
}

void composite_hamming_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "hamming_window", hamming, &(window){.a = 0.54, .b = 0.46}, args, 1, 1, outs);
}

void composite_hamming_window_periodic(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "hamming_window", hamming, &(window){.a = 0.54, .b = 0.46}, args, 2, arg_bool(args, 1),
                outs);
}

void composite_hamming_window_periodic_alpha(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "hamming_window", hamming, &(window){.a = arg_float(args, 2), .b = 0.46}, args, 3,
                arg_bool(args, 1), outs);
}

void composite_hamming_window_periodic_alpha_beta(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "hamming_window", hamming, &(window){.a = arg_float(args, 2), .b = arg_float(args, 3)},
                args, 4, arg_bool(args, 1), outs);
}

void composite_blackman_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "blackman_window", blackman, &(window){.a = 0}, args, 1, 1, outs);
}

void composite_blackman_window_periodic(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "blackman_window", blackman, &(window){.a = 0}, args, 2, arg_bool(args, 1), outs);
}

void composite_bartlett_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "bartlett_window", bartlett, &(window){.a = 0}, args, 1, 1, outs);
}

void composite_bartlett_window_periodic(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "bartlett_window", bartlett, &(window){.a = 0}, args, 2, arg_bool(args, 1), outs);
}

void composite_kaiser_window(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "kaiser_window", kaiser, &(window){.a = 12, .bessel = bessel_i0(12)}, args, 1, 1, outs);
}

void composite_kaiser_window_periodic(tn_scope *s, const tn_value *args, tn_value *outs)
{
    make_window(s, "kaiser_window", kaiser, &(window){.a = 12, .bessel = bessel_i0(12)}, args, 2,
                arg_bool(args, 1), outs);
}

void composite_kaiser_window_beta(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double beta = arg_float(args, 2);
    make_window(s, "kaiser_window", kaiser, &(window){.a = beta, .bessel = bessel_i0(beta)}, args, 3,
                arg_bool(args, 1), outs);
}
