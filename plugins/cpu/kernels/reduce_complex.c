/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduction kernels of complex numbers (complex128, to which the others are converted); see reduce_ops.h.
 * Sums and products have two planes, real and imaginary part.
 */
#include "reduce_ops.h"
#include "vocabulary.h"

ALWAYS_INLINE void init_plane(cpu_lanes s, int64_t plane, int64_t lanes, double value)
{
    double *a = (double *)s.words + plane * s.stride;
    for (int64_t i = 0; i < lanes; i++) a[i] = value;
}
ALWAYS_INLINE double magnitude(T x)
{
    return hypot(x.re, x.im);
}

static void init_sum(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 0);
    init_plane(s, 1, lanes, 0);
}
static void take_sum(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    double *re = s.words, *im = re + s.stride;
    const T *v = x;
    for (int64_t i = 0; i < lanes; i++) {
        re[i] += v[i].re;
        im[i] += v[i].im;
    }
}
static void take_nansum(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    double *re = s.words, *im = re + s.stride;
    const T *v = x;
    for (int64_t i = 0; i < lanes; i++) {
        int32_t is_nan = v[i].re != v[i].re || v[i].im != v[i].im;
        re[i] += is_nan ? 0 : v[i].re;
        im[i] += is_nan ? 0 : v[i].im;
    }
}
static void merge_sum(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    double *re = s.words, *im = re + s.stride;
    const double *re_b = from.words, *im_b = re_b + from.stride;
    for (int64_t i = 0; i < lanes; i++) {
        re[i] += re_b[i];
        im[i] += im_b[i];
    }
}

static void init_prod(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 1);
    init_plane(s, 1, lanes, 0);
}
ALWAYS_INLINE void multiply(double *re, double *im, double x, double y)
{
    double real = *re * x - *im * y;
    *im = *re * y + *im * x;
    *re = real;
}
static void take_prod(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    double *re = s.words, *im = re + s.stride;
    const T *v = x;
    for (int64_t i = 0; i < lanes; i++) multiply(re + i, im + i, v[i].re, v[i].im);
}
static void merge_prod(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    double *re = s.words, *im = re + s.stride;
    const double *re_b = from.words, *im_b = re_b + from.stride;
    for (int64_t i = 0; i < lanes; i++) multiply(re + i, im + i, re_b[i], im_b[i]);
}

/* ---- Results that are real: one plane
 * ---------------------------------------------------------------------- */

ALWAYS_INLINE double truth(T x, double p)
{
    return x.re != 0 || x.im != 0;
}
ALWAYS_INLINE double magnitude_of(T x, double p)
{
    return magnitude(x);
}
ALWAYS_INLINE double squared(T x, double p)
{
    return x.re * x.re + x.im * x.im;
}
ALWAYS_INLINE double powered(T x, double p)
{
    return pow(magnitude(x), p);
}
ALWAYS_INLINE double plus(double a, double b)
{
    return a + b;
}
ALWAYS_INLINE double larger(double a, double b)
{
    return b > a || b != b ? b : a;
}
ALWAYS_INLINE double smaller(double a, double b)
{
    return b < a || b != b ? b : a;
}
ALWAYS_INLINE void take_real(cpu_lanes s, const void *x, int64_t lanes, double p, double (*map)(T, double),
                             double (*join)(double, double))
{
    double *a = s.words;
    const T *v = x;
    for (int64_t i = 0; i < lanes; i++) a[i] = join(a[i], map(v[i], p));
}
ALWAYS_INLINE void merge_real(cpu_lanes s, cpu_lanes from, int64_t lanes, double (*join)(double, double))
{
    double *a = s.words;
    const double *b = from.words;
    for (int64_t i = 0; i < lanes; i++) a[i] = join(a[i], b[i]);
}

static void init_any(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 0);
}
static void take_any(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_real(s, x, lanes, p, truth, larger);
}
static void merge_any(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_real(s, from, lanes, larger);
}

static void init_all(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 1);
}
static void take_all(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_real(s, x, lanes, p, truth, smaller);
}
static void merge_all(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_real(s, from, lanes, smaller);
}

static void init_count(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 0);
}
static void take_count(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_real(s, x, lanes, p, truth, plus);
}
static void merge_count(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_real(s, from, lanes, plus);
}

static void init_norm_1(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 0);
}
static void take_norm_1(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_real(s, x, lanes, p, magnitude_of, plus);
}
static void merge_norm_1(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_real(s, from, lanes, plus);
}

static void init_norm_2(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 0);
}
static void take_norm_2(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_real(s, x, lanes, p, squared, plus);
}
static void merge_norm_2(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_real(s, from, lanes, plus);
}

static void init_norm_p(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 0);
}
static void take_norm_p(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_real(s, x, lanes, p, powered, plus);
}
static void merge_norm_p(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_real(s, from, lanes, plus);
}

static void init_norm_inf(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, 0);
}
static void take_norm_inf(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_real(s, x, lanes, p, magnitude_of, larger);
}
static void merge_norm_inf(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_real(s, from, lanes, larger);
}

static void init_norm_negative_inf(cpu_lanes s, int64_t lanes)
{
    init_plane(s, 0, lanes, INFINITY);
}
static void take_norm_negative_inf(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step,
                                   double p)
{
    take_real(s, x, lanes, p, magnitude_of, smaller);
}
static void merge_norm_negative_inf(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_real(s, from, lanes, smaller);
}

/* ---- Moments: count, mean, sum of squared distances from it
 * ------------------------------------------------- */

static void init_moments(cpu_lanes s, int64_t lanes)
{
    for (int64_t k = 0; k < 4; k++) init_plane(s, k, lanes, 0);
}
static void take_moments(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    double *count = s.words, *re = count + s.stride, *im = re + s.stride, *squares = im + s.stride;
    const T *v = x;
    for (int64_t i = 0; i < lanes; i++) {
        double real = v[i].re - re[i], imaginary = v[i].im - im[i];
        count[i] += 1;
        re[i] += real / count[i];
        im[i] += imaginary / count[i];
        squares[i] += real * (v[i].re - re[i]) + imaginary * (v[i].im - im[i]);
    }
}
static void merge_moments(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    double *count = s.words, *re = count + s.stride, *im = re + s.stride, *squares = im + s.stride;
    const double *count_b = from.words, *re_b = count_b + from.stride, *im_b = re_b + from.stride;
    const double *squares_b = im_b + from.stride;
    for (int64_t i = 0; i < lanes; i++) {
        double n = count[i] + count_b[i], real = re_b[i] - re[i], imaginary = im_b[i] - im[i];
        if (count_b[i] == 0) continue;
        re[i] += real * (count_b[i] / n);
        im[i] += imaginary * (count_b[i] / n);
        squares[i] += squares_b[i] + (real * real + imaginary * imaginary) * (count[i] * count_b[i] / n);
        count[i] = n;
    }
}

extern const cpu_reduce_kernel CPU_NAME(cpu_reduce_complex)[];
const cpu_reduce_kernel CPU_NAME(cpu_reduce_complex)[] = {
    {CPU_REDUCE_sum, 2, init_sum, take_sum, merge_sum, NULL, NULL},
    {CPU_REDUCE_nansum, 2, init_sum, take_nansum, merge_sum, NULL, NULL},
    {CPU_REDUCE_prod, 2, init_prod, take_prod, merge_prod, NULL, NULL},
    {CPU_REDUCE_any, 1, init_any, take_any, merge_any, NULL, NULL},
    {CPU_REDUCE_all, 1, init_all, take_all, merge_all, NULL, NULL},
    {CPU_REDUCE_count, 1, init_count, take_count, merge_count, NULL, NULL},
    {CPU_REDUCE_norm_1, 1, init_norm_1, take_norm_1, merge_norm_1, NULL, NULL},
    {CPU_REDUCE_norm_2, 1, init_norm_2, take_norm_2, merge_norm_2, NULL, NULL},
    {CPU_REDUCE_norm_p, 1, init_norm_p, take_norm_p, merge_norm_p, NULL, NULL},
    {CPU_REDUCE_norm_inf, 1, init_norm_inf, take_norm_inf, merge_norm_inf, NULL, NULL},
    {CPU_REDUCE_norm_negative_inf, 1, init_norm_negative_inf, take_norm_negative_inf, merge_norm_negative_inf,
     NULL, NULL},
    {CPU_REDUCE_moments, 4, init_moments, take_moments, merge_moments, NULL, NULL},
    {0, 0, NULL, NULL, NULL, NULL, NULL},
};
