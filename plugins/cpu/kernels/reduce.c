/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduction kernels (DTYPE=f32|f64|i64|f16|bf16|c128); see reduce_ops.h. Other dtypes are converted to one of
 * these. The half types have kernels for runs and rows only; their other reductions are computed in float32.
 */
#include "support/blocks.h"
#include "reduce_ops.h"
#include "vocabulary.h"

/* Of a plane, which may be of a whole tensor: wider than T, except for float64 and int64. */
#if CPU_IS_INTEGER
typedef int64_t acc;
#else
typedef double acc;
#endif
#if CPU_IS_COMPLEX
#define HIGHEST INFINITY
#endif

/* ---- One plane: a map of the element, then an operation that joins ------------------------------------- */

ALWAYS_INLINE cpu_lanes plane_of(cpu_lanes s, int64_t k)
{
    return (cpu_lanes){(acc *)s.words + k * s.stride, s.stride};
}
ALWAYS_INLINE cpu_lanes lane_of(cpu_lanes s, int64_t i)
{
    return (cpu_lanes){(acc *)s.words + i, s.stride};
}
ALWAYS_INLINE void init_plane(cpu_lanes s, int64_t lanes, acc value)
{
    acc *a = s.words;
    for (int64_t i = 0; i < lanes; i++) a[i] = value;
}
ALWAYS_INLINE void take_plane(cpu_lanes s, const void *x, int64_t lanes, double p, acc (*map)(T, double),
                              acc (*join)(acc, acc))
{
    acc *a = s.words;
    const E *v = x;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < lanes; i++) a[i] = join(a[i], map(load(v + i), p));
}
ALWAYS_INLINE void merge_plane(cpu_lanes s, cpu_lanes from, int64_t lanes, acc (*join)(acc, acc))
{
    acc *a = s.words;
    const acc *b = from.words;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < lanes; i++) a[i] = join(a[i], b[i]);
}

ALWAYS_INLINE int32_t is_nan_state(acc x)
{
#if CPU_IS_INTEGER
    return 0;
#else
    return x != x;
#endif
}
ALWAYS_INLINE acc plus(acc a, acc b)
{
    return a + b;
}
/* The result is NaN if an operand is NaN. */
ALWAYS_INLINE acc larger(acc a, acc b)
{
    return b > a || is_nan_state(b) ? b : a;
}
ALWAYS_INLINE acc smaller(acc a, acc b)
{
    return b < a || is_nan_state(b) ? b : a;
}

/* Maps of an element; p is the exponent of norm_p. Real elements are mapped in acc. */
#if CPU_IS_COMPLEX
ALWAYS_INLINE acc truth(T x, double p)
{
    return is_nonzero(x);
}
ALWAYS_INLINE acc magnitude(T x, double p)
{
    return hypot(x.re, x.im);
}
ALWAYS_INLINE acc squared(T x, double p)
{
    return x.re * x.re + x.im * x.im;
}
#else
ALWAYS_INLINE acc itself(T x, double p)
{
    return (acc)x;
}
ALWAYS_INLINE acc without_nan(T x, double p)
{
    return is_nan(x) ? 0 : (acc)x;
}
ALWAYS_INLINE acc times(acc a, acc b)
{
    return a * b;
}
ALWAYS_INLINE acc truth(T x, double p)
{
    acc a = (acc)x;
    return a != 0;
}
ALWAYS_INLINE acc magnitude(T x, double p)
{
    acc a = (acc)x;
#if CPU_IS_INTEGER
    return a < 0 ? -a : a;
#else
    return fabs(a);
#endif
}
ALWAYS_INLINE acc squared(T x, double p)
{
    return (acc)x * (acc)x;
}
#endif
ALWAYS_INLINE acc powered(T x, double p)
{
#if CPU_IS_COMPLEX
    return pow(magnitude(x, p), p);
#else
    return (acc)pow(fabs((double)x), p);
#endif
}

/* Declares init_NAME, take_NAME and merge_NAME of a reduction with one plane. */
#define TAKE(name) \
    static void take_##name(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
#define REDUCTION(name, start, map, join)                                \
    static void init_##name(cpu_lanes s, int64_t lanes)                  \
    {                                                                    \
        init_plane(s, lanes, start);                                     \
    }                                                                    \
    TAKE(name)                                                           \
    {                                                                    \
        take_plane(s, x, lanes, p, map, join);                           \
    }                                                                    \
    static void merge_##name(cpu_lanes s, cpu_lanes from, int64_t lanes) \
    {                                                                    \
        merge_plane(s, from, lanes, join);                               \
    }
#define ENTRY(name, planes, run, rows) ENTRY_WITH(name, planes, run, rows, NULL)
#define ENTRY_WITH(name, planes, run, rows, few)                                          \
    {                                                                                     \
        CPU_REDUCE_##name, planes, init_##name, take_##name, merge_##name, run, rows, few \
    }

REDUCTION(norm_2, 0, squared, plus)
#if !CPU_IS_HALF
REDUCTION(any, 0, truth, larger)
REDUCTION(all, 1, truth, smaller)
REDUCTION(count, 0, truth, plus)
REDUCTION(norm_1, 0, magnitude, plus)
REDUCTION(norm_p, 0, powered, plus)
REDUCTION(norm_inf, 0, magnitude, larger)
REDUCTION(norm_negative_inf, HIGHEST, magnitude, smaller)
#endif

/* ---- Complex sums, products and moments ---------------------------------------------------------------- */

#if CPU_IS_COMPLEX
/* Two planes: the real and the imaginary part. */
static void init_sum(cpu_lanes s, int64_t lanes)
{
    init_plane(s, lanes, 0);
    init_plane(plane_of(s, 1), lanes, 0);
}
TAKE(sum)
{
    double *re = s.words, *im = re + s.stride;
    const T *v = x;
    for (int64_t i = 0; i < lanes; i++) {
        re[i] += v[i].re;
        im[i] += v[i].im;
    }
}
static void init_nansum(cpu_lanes s, int64_t lanes)
{
    init_sum(s, lanes);
}
TAKE(nansum)
{
    double *re = s.words, *im = re + s.stride;
    const T *v = x;
    for (int64_t i = 0; i < lanes; i++) {
        int32_t left_out = is_nan(v[i]);
        re[i] += left_out ? 0 : v[i].re;
        im[i] += left_out ? 0 : v[i].im;
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
static void merge_nansum(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_sum(s, from, lanes);
}
static void init_prod(cpu_lanes s, int64_t lanes)
{
    init_plane(s, lanes, 1);
    init_plane(plane_of(s, 1), lanes, 0);
}
ALWAYS_INLINE void multiply(double *re, double *im, double x, double y)
{
    double real = *re * x - *im * y;
    *im = *re * y + *im * x;
    *re = real;
}
TAKE(prod)
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

/* Moments: count, mean (two planes), sum of squared distances from it; references as below. */
static void init_moments(cpu_lanes s, int64_t lanes)
{
    for (int64_t k = 0; k < 4; k++) init_plane(plane_of(s, k), lanes, 0);
}
TAKE(moments)
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
#else

/* ---- Real sums, products and extremes ------------------------------------------------------------------ */

REDUCTION(sum, 0, itself, plus)
REDUCTION(nansum, 0, without_nan, plus)
REDUCTION(max, LOWEST, itself, larger)
REDUCTION(min, HIGHEST, itself, smaller)
#if !CPU_IS_HALF
REDUCTION(prod, 1, itself, times)

/* Two planes: the smallest and the largest. */
static void init_minmax(cpu_lanes s, int64_t lanes)
{
    init_min(s, lanes);
    init_max(plane_of(s, 1), lanes);
}
TAKE(minmax)
{
    take_min(s, x, lanes, index, step, p);
    take_max(plane_of(s, 1), x, lanes, index, step, p);
}
static void merge_minmax(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_min(s, from, lanes);
    merge_max(plane_of(s, 1), plane_of(from, 1), lanes);
}
#endif

#include "reduce_runs.h"

#define RUN(name, expression)                                                                      \
    static void run_##name(cpu_lanes s, const void *from, int64_t n, int64_t index, int64_t lanes, \
                           int64_t apart)                                                          \
    {                                                                                              \
        acc *a = s.words;                                                                          \
        for (int64_t i = 0; i < lanes; i++) {                                                      \
            const void *x = (const char *)from + i * apart;                                        \
            a[i] = expression;                                                                     \
        }                                                                                          \
    }
RUN(sum, a[i] + sum_of(x, n))
RUN(nansum, a[i] + sum_of_numbers(x, n))
RUN(max, largest_of(x, n, a[i]))
RUN(min, smallest_of(x, n, a[i]))
RUN(norm_2, a[i] + sum_of_squares(x, n))

/* ---- Positions of extremes. Two planes: value, position (-1 before the first element) ------------------ */

/* 1 if b at position j replaces a at position i: of equals and of NaNs the first one counts. */
ALWAYS_INLINE int32_t is_better(acc a, acc i, acc b, acc j, int32_t sign)
{
    int32_t better = sign > 0 ? b > a : b < a, equal = b == a || (is_nan_state(a) & is_nan_state(b));
    return (i < 0) | better | (is_nan_state(b) & !is_nan_state(a)) | (equal & (j < i));
}
ALWAYS_INLINE void take_position(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step,
                                 int32_t sign)
{
    acc *a = s.words, *position = a + s.stride;
    const E *v = x;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < lanes; i++) {
        acc b = (acc)load(v + i), j = (acc)(index + i * step);
        /* This element comes after all that the lane has taken. */
        int32_t further = sign > 0 ? b > a[i] : b < a[i];
        int32_t better = (position[i] < 0) | further | (is_nan_state(b) & !is_nan_state(a[i]));
        a[i] = better ? b : a[i];
        position[i] = better ? j : position[i];
    }
}
ALWAYS_INLINE void merge_position(cpu_lanes s, cpu_lanes from, int64_t lanes, int32_t sign)
{
    acc *a = s.words, *position = a + s.stride;
    const acc *b = from.words, *other = b + from.stride;
    for (int64_t i = 0; i < lanes; i++) {
        if (other[i] < 0 || !is_better(a[i], position[i], b[i], other[i], sign)) continue;
        a[i] = b[i];
        position[i] = other[i];
    }
}
/* Finds the extreme of the run first, and its position only if it is a new extreme. */
ALWAYS_INLINE void run_position(cpu_lanes s, const E *x, int64_t n, int64_t index, int32_t sign)
{
    acc *a = s.words, *position = a + s.stride;
    acc best = sign > 0 ? largest_of(x, n, LOWEST) : smallest_of(x, n, HIGHEST);
    int64_t i = 0;
    if (!is_better(*a, *position, best, (acc)index, sign)) return;
    if (is_nan_state(best))
        while (!is_nan(load(x + i))) i++;
    else
        while (load(x + i) != (T)best) i++;
    *a = best;
    *position = (acc)(index + i);
}

#define POSITION(name, sign)                                                                              \
    static void init_##name(cpu_lanes s, int64_t lanes)                                                   \
    {                                                                                                     \
        init_plane(s, lanes, 0);                                                                          \
        init_plane(plane_of(s, 1), lanes, -1);                                                            \
    }                                                                                                     \
    TAKE(name)                                                                                            \
    {                                                                                                     \
        take_position(s, x, lanes, index, step, sign);                                                    \
    }                                                                                                     \
    static void merge_##name(cpu_lanes s, cpu_lanes from, int64_t lanes)                                  \
    {                                                                                                     \
        merge_position(s, from, lanes, sign);                                                             \
    }                                                                                                     \
    static void run_##name(cpu_lanes s, const void *x, int64_t n, int64_t index, int64_t lanes,           \
                           int64_t apart)                                                                 \
    {                                                                                                     \
        for (int64_t i = 0; i < lanes; i++)                                                               \
            run_position(lane_of(s, i), (const E *)(const void *)((const char *)x + i * apart), n, index, \
                         sign);                                                                           \
    }
POSITION(argmax, 1)
POSITION(argmin, -1)
#endif

/* ---- Real moments. Three planes: count, mean, sum of squared differences from it ----------------------- */

#if CPU_IS_FLOAT && !CPU_IS_HALF
/*
 * Welford 1962; merged as in Chan, Golub and LeVeque 1979. All lanes that take at once have taken equally
 * many elements before.
 */
static void init_moments(cpu_lanes s, int64_t lanes)
{
    for (int64_t k = 0; k < 3; k++) init_plane(plane_of(s, k), lanes, 0);
}
TAKE(moments)
{
    acc *count = s.words, *mean = count + s.stride, *squares = mean + s.stride;
    const T *v = x;
    acc n = count[0] + 1, share = 1 / n;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < lanes; i++) {
        acc before = (acc)v[i] - mean[i];
        mean[i] += before * share;
        squares[i] += before * ((acc)v[i] - mean[i]);
        count[i] = n;
    }
}
static void merge_moments(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    acc *count = s.words, *mean = count + s.stride, *squares = mean + s.stride;
    const acc *count_b = from.words, *mean_b = count_b + from.stride, *squares_b = mean_b + from.stride;
    for (int64_t i = 0; i < lanes; i++) {
        acc n = count[i] + count_b[i], apart = mean_b[i] - mean[i];
        if (count_b[i] == 0) continue;
        mean[i] += apart * (count_b[i] / n);
        squares[i] += squares_b[i] + apart * apart * (count[i] * count_b[i] / n);
        count[i] = n;
    }
}
#endif

extern const cpu_reduce_kernel CPU_NAME(cpu_reduce)[];
const cpu_reduce_kernel CPU_NAME(cpu_reduce)[] = {
#if CPU_IS_COMPLEX
    ENTRY(sum, 2, NULL, NULL),
    ENTRY(nansum, 2, NULL, NULL),
    ENTRY(prod, 2, NULL, NULL),
    ENTRY(norm_2, 1, NULL, NULL),
    ENTRY(moments, 4, NULL, NULL),
#else
    ENTRY_WITH(sum, 1, run_sum, ROWS(sum), SUM_FEW),
    ENTRY(nansum, 1, run_nansum, ROWS(nansum)),
    ENTRY(max, 1, run_max, ROWS(max)),
    ENTRY(min, 1, run_min, ROWS(min)),
    ENTRY(norm_2, 1, run_norm_2, NULL),
    ENTRY(argmax, 2, run_argmax, NULL),
    ENTRY(argmin, 2, run_argmin, NULL),
#if !CPU_IS_HALF
    ENTRY(prod, 1, NULL, NULL),
    ENTRY(minmax, 2, NULL, NULL),
#endif
#if CPU_IS_FLOAT && !CPU_IS_HALF
    ENTRY(moments, 3, NULL, NULL),
#endif
#endif
#if !CPU_IS_HALF
    ENTRY(any, 1, NULL, NULL),
    ENTRY(all, 1, NULL, NULL),
    ENTRY(count, 1, NULL, NULL),
    ENTRY(norm_1, 1, NULL, NULL),
    ENTRY(norm_p, 1, NULL, NULL),
    ENTRY(norm_inf, 1, NULL, NULL),
    ENTRY(norm_negative_inf, 1, NULL, NULL),
#endif
    {0, 0, NULL, NULL, NULL, NULL, NULL, NULL},
};
