/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Smooth activations of floats (DTYPE=f32|f64) and their derivatives: sigmoids of all kinds. None of them
 * subtracts what is nearly equal: with t = e^-|a| a sigmoid is t / (1 + t) below 0 and 1 / (1 + t) above, and
 * keeps its digits down to the smallest number. An argument of e that is rounded would cost as many units of
 * the last place as it is large, so what the rounding took off goes into a first-order correction.
 */
#include "steps.h"

/* What the last steps are computed in, so that they round once. */
typedef double W;

/* ---- Sigmoid and silu -------------------------------------------------------------------------------- */

ALWAYS_INLINE T minus_magnitude(T a, T x)
{
    return a < 0 ? a : -a;
}
ALWAYS_INLINE T minus_second_magnitude(T g, T a, T x)
{
    return a < 0 ? a : -a;
}

/* t = e^-|a| from here on. */
ALWAYS_INLINE T sigmoid_after(T a, T t, T x, T y)
{
    return (a < 0 ? t : 1) / (1 + t);
}
static void sigmoid(void *const *p, int64_t n, const cpu_scalars *s)
{
    through(p, n, 0, 0, minus_magnitude, SLEEF(exp, 10), sigmoid_after);
}

/*
 * Where e^a is below the normal numbers and a e^a is not, silu and mish are a e^a, from a wider format. (ends
 * below: both have long been 0.)
 */
#define FAR_BEGIN ((T)(sizeof(T) == 4 ? -80 : -700))
#define FAR_END   ((T)(sizeof(T) == 4 ? -120 : -760))
static void repair_far(T *o, const T *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!(a[i] < FAR_BEGIN && a[i] > FAR_END)) continue;
#if defined(DTYPE_F32)
        o[i] = (T)(a[i] * exp((double)a[i]));
#else
        o[i] = (T)(a[i] * expl((long double)a[i]));
#endif
    }
}
ALWAYS_INLINE int32_t any_far(const T *a, int64_t n)
{
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= (a[i] < FAR_BEGIN) & (a[i] > FAR_END);
    return any;
}
/* through, for these two. */
ALWAYS_INLINE void through_far(void *const *p, int64_t n, T (*before)(T, T), T (*after)(T, T, T, T))
{
    T input[CPU_CHUNK];
    int32_t any = any_far(p[1], n);
    if (any) memcpy(input, p[1], (size_t)n * sizeof(T));
    through(p, n, 0, 0, before, SLEEF(exp, 10), after);
    if (any) repair_far(p[0], input, n);
}

ALWAYS_INLINE T silu_after(T a, T t, T x, T y)
{
    return (a < 0 ? a * t : a) / (1 + t);
}
static void silu(void *const *p, int64_t n, const cpu_scalars *s)
{
    through_far(p, n, minus_magnitude, silu_after);
}
ALWAYS_INLINE T silu_backward_after(T g, T a, T t, T x, T y)
{
    T above = 1 / (1 + t), below = t * above, sigma = a < 0 ? below : above, rest = a < 0 ? above : below;
    return g * sigma * (1 + a * rest);
}
static void silu_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    through_two(p, n, 0, 0, minus_second_magnitude, SLEEF(exp, 10), silu_backward_after);
}

/* ---- gelu -------------------------------------------------------------------------------------------- */

/*
 * gelu = a Phi(a), Phi the area under the normal curve. For float32: Phi(-z) = e^(-z^2 / 2) t P(t), t = 1 /
 * (1 + 0.3 z), with a minimax fit of our own over 0 to 14.8 (error 4e-9), where it falls to 0.
 */
#define SQRT_HALF      ((T)0.70710678118654752440)
#define SQRT_HALF_REST ((T)-4.8336466567264565e-17) /* what the float64 lacks */
#define DENSITY_AT_0   ((W)0.39894228040143267794)  /* 1 / sqrt(2 pi) */
#define TWO_BY_ROOT_PI ((T)1.12837916709551257390)  /* 2 / sqrt(pi) */
#define PHI_ONE        ((T)6)                       /* Phi has rounded to 1, of float32 */
#define ARGUMENT_END   1e3                          /* arguments are cut here: all is over long before */

#if defined(DTYPE_F32)
ALWAYS_INLINE W tail_ratio(W z)
{
    W t = 1 / (1 + 0.3 * z), q = -0.02062719351256735;
    q = q * t + 0.11245653050027064;
    q = q * t - 0.22826459355616785;
    q = q * t + 0.19185522224315837;
    q = q * t - 0.07948476502091784;
    q = q * t + 0.09619119985401706;
    q = q * t + 0.07837720562284803;
    q = q * t + 0.1102382231861847;
    q = q * t + 0.11957146000302396;
    q = q * t + 0.11968670894818666;
    return q * t;
}
/* area = Phi(a), density_at_0-less density = e^(-a^2 / 2), each to be rounded once. */
ALWAYS_INLINE void normal_curve(const T *a, int64_t n, W *area, W *density)
{
    T head[CPU_CHUNK], power[CPU_CHUNK];
    for (int64_t i = 0; i < n; i++) {
        W z = a[i] > ARGUMENT_END ? ARGUMENT_END : a[i] < -ARGUMENT_END ? -ARGUMENT_END : a[i];
        head[i] = (T)(-0.5 * z * z);
    }
    vector_unary(power, head, n, SLEEF(exp, 10));
    for (int64_t i = 0; i < n; i++) {
        W z = a[i] > ARGUMENT_END ? ARGUMENT_END : a[i] < -ARGUMENT_END ? -ARGUMENT_END : a[i];
        W rest = -0.5 * z * z - head[i], e = power[i] * (1 + rest), tail = e * tail_ratio(z < 0 ? -z : z);
        density[i] = e;
        area[i] = z < 0 ? tail : 1 - tail;
    }
}
#else
/* a b exactly: the product and what its rounding took off (Dekker 1971, or one instruction). */
ALWAYS_INLINE T two_product(T a, T b, T *rest)
{
    T product = a * b;
#if defined(__FMA__)
    *rest = __builtin_fma(a, b, -product);
#else
    T wide_a = a * 134217729.0, high_a = wide_a - (wide_a - a), low_a = a - high_a;
    T wide_b = b * 134217729.0, high_b = wide_b - (wide_b - b), low_b = b - high_b;
    *rest = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b;
#endif
    return product;
}
/* erfc(y) / 2 with y = -a / sqrt 2, whose rest counts to first order. */
ALWAYS_INLINE void normal_curve(const T *a, int64_t n, W *area, W *density)
{
    T head[CPU_CHUNK], rest[CPU_CHUNK];
    for (int64_t i = 0; i < n; i++) {
        T z = a[i] > ARGUMENT_END ? (T)ARGUMENT_END : a[i] < -ARGUMENT_END ? (T)-ARGUMENT_END : a[i];
        head[i] = two_product(-z, SQRT_HALF, &rest[i]);
        rest[i] -= z * SQRT_HALF_REST;
        density[i] = -head[i] * head[i];
    }
    vector_unary(area, head, n, SLEEF(erfc, 15));
    vector_unary(density, density, n, SLEEF(exp, 10));
    for (int64_t i = 0; i < n; i++) area[i] = (T)0.5 * (area[i] - TWO_BY_ROOT_PI * density[i] * rest[i]);
}
#endif

/* Where Phi of a float64 is a denormal number: from a wider format. (ends below: it has long been 0.) */
#define TAIL_BEGIN (-37)
#define TAIL_END   (-39)
ALWAYS_INLINE void repair_tail(W *area, const T *a, int64_t n)
{
    int32_t any = 0;
    if (sizeof(T) == 4) return; /* whose W is float64 */
    for (int64_t i = 0; i < n; i++) any |= (a[i] < TAIL_BEGIN) & (a[i] > TAIL_END);
    for (int64_t i = 0; any && i < n; i++)
        if (a[i] < TAIL_BEGIN && a[i] > TAIL_END)
            area[i] = (W)((long double)a[i] * erfcl(-(long double)a[i] * 0.707106781186547524400844L) / 2);
}
static void gelu(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const T *a = p[1];
    W area[CPU_CHUNK], density[CPU_CHUNK];
    normal_curve(a, n, area, density);
    for (int64_t i = 0; i < n; i++) area[i] *= a[i];
    repair_tail(area, a, n);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = (T)area[i];
}
static void gelu_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const T *g = p[1], *a = p[2];
    W area[CPU_CHUNK], density[CPU_CHUNK];
    normal_curve(a, n, area, density);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        W pull = density[i] == 0 ? 0 : a[i] * density[i] * DENSITY_AT_0;
        o[i] = (T)(g[i] * (area[i] + pull));
    }
}

/*
 * gelu by tanh: a / (1 + e^-v), v = 2 sqrt(2 / pi) (a + 0.044715 a^3). `head` is -|v|, `rest` what its
 * rounding took off.
 */
#define LINEAR     1.5957691216057307117598
#define CUBIC      (LINEAR * 0.044715)
#define POWER_ZERO 800 /* e to minus this is 0 */
#if defined(DTYPE_F32)
/* The power is kept this many steps of e above what is meant, so that it is a normal number as long as a e^-v
 * is. */
#define ABOVE       8
#define ABOVE_POWER 3.3546262790251183882e-4 /* e^-8 */
ALWAYS_INLINE void tanh_argument(T a, T *head, T *rest)
{
    W z = a, v = z * (LINEAR + CUBIC * z * z), size = v < 0 ? -v : v;
    size = size > POWER_ZERO ? ABOVE - POWER_ZERO : ABOVE - size;
    *head = (T)size;
    *rest = (T)(size - *head);
}
#else
#define ABOVE_POWER 1
#define LINEAR_REST (-9.9693088091109203e-17) /* what the float64s of the constants lack */
#define CUBIC_REST  (-6.1751499181553154e-19)
ALWAYS_INLINE void tanh_argument(T a, T *head, T *rest)
{
    T z = a < 0 ? -a : a, square, square_rest, term, term_rest, slope, slope_rest, size, size_rest;
    z = z > ARGUMENT_END ? (T)ARGUMENT_END : z;
    square = two_product(z, z, &square_rest);
    term = two_product(CUBIC, square, &term_rest);
    term_rest += CUBIC * square_rest + CUBIC_REST * square;
    /* The greater of the two first, so that the rest is exact. */
    T large = term > LINEAR ? term : LINEAR, little = term > LINEAR ? LINEAR : term;
    slope = large + little;
    slope_rest = (large - slope) + little + term_rest + LINEAR_REST;
    size = two_product(z, slope, &size_rest);
    size_rest += z * slope_rest;
    int32_t over = size > POWER_ZERO;
    *head = over ? -POWER_ZERO : -size;
    *rest = over ? 0 : -size_rest;
}
#endif
/* e^-|v| of what tanh_powers gives. */
ALWAYS_INLINE W whole_power(T power, T rest)
{
    return (power + (W)power * rest) * ABOVE_POWER;
}
ALWAYS_INLINE void tanh_powers(const T *a, int64_t n, T *power, T *rest)
{
    for (int64_t i = 0; i < n; i++) tanh_argument(a[i], &power[i], &rest[i]);
    vector_unary(power, power, n, SLEEF(exp, 10));
}
static void gelu_tanh(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], power[CPU_CHUNK], rest[CPU_CHUNK];
    const T *a = p[1];
    tanh_powers(a, n, power, rest);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        W t = whole_power(power[i], rest[i]), z = a[i];
        o[i] = (T)((z < 0 ? z * t : z) / (1 + t));
    }
}
static void gelu_tanh_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], power[CPU_CHUNK], rest[CPU_CHUNK];
    const T *g = p[1], *a = p[2];
    tanh_powers(a, n, power, rest);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        W t = whole_power(power[i], rest[i]), z = a[i], above = 1 / (1 + t), below = t * above;
        W slope = below == 0 ? 0 : z * above * below * (LINEAR + 3 * CUBIC * z * z);
        o[i] = (T)(g[i] * ((z < 0 ? below : above) + slope));
    }
}

/* ---- mish -------------------------------------------------------------------------------------------- */

/*
 * mish = a tanh(log(1 + e^a)); with e = e^a and m = e (e + 2) the tanh is m / (m + 2). From MISH_ONE on it
 * rounds to 1.
 */
#define MISH_ONE ((T)(sizeof(T) == 4 ? 20 : 40))
ALWAYS_INLINE T mish_after(T a, T t, T x, T y)
{
    W m = (W)t * ((W)t + 2);
    return a > MISH_ONE ? a : (T)(a * (m / (m + 2)));
}
static void mish(void *const *p, int64_t n, const cpu_scalars *s)
{
    through_far(p, n, itself, mish_after);
}
ALWAYS_INLINE T mish_backward_after(T g, T a, T t, T x, T y)
{
    T m = t * (t + 2), w = m / (m + 2), sigma = t / (1 + t);
    T slope = w + a * sigma * (4 * (m + 1) / ((m + 2) * (m + 2)));
    return a > MISH_ONE ? g : g * slope;
}
static void mish_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    through_two(p, n, 0, 0, second, SLEEF(exp, 10), mish_backward_after);
}

/* elu(a; alpha, scale, input_scale); a run without negative numbers needs no function. */
static void elu(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1];
    T negative = (T)(s->f[0] * s->f[1]), positive = (T)s->f[1], inner = (T)s->f[2];
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= a[i] <= 0;
    for (int64_t i = 0; i < n; i++) t[i] = a[i] * inner;
    if (any) vector_unary(t, t, n, SLEEF(expm1, 10));
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = a[i] <= 0 ? t[i] * negative : a[i] * positive;
}
/* (alpha, scale, input_scale, is_result); the derivative below 0 from the result or from the input. */
static void elu_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *g = p[1], *a = p[2];
    T negative = (T)(s->f[0] * s->f[1]), positive = (T)s->f[1], inner = (T)s->f[2];
    if (s->i[3]) {
        for (int64_t i = 0; i < n; i++) t[i] = inner * (a[i] + negative);
    } else {
        for (int64_t i = 0; i < n; i++) t[i] = a[i] * inner;
        vector_unary(t, t, n, SLEEF(exp, 10));
        for (int64_t i = 0; i < n; i++) t[i] *= inner * negative;
    }
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = g[i] * (a[i] <= 0 ? t[i] : positive);
}

/* softplus(a; beta, threshold) */
static void softplus(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1];
    T beta = (T)s->f[0], threshold = (T)s->f[1];
    for (int64_t i = 0; i < n; i++) t[i] = a[i] * beta;
    vector_unary(t, t, n, SLEEF(exp, 10));
    vector_log1p(t, t, n);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = a[i] * beta > threshold ? a[i] : t[i] / beta;
}
ALWAYS_INLINE T times_second(T g, T a, T x)
{
    return a * x;
}
ALWAYS_INLINE T softplus_backward_after(T g, T a, T t, T beta, T threshold)
{
    return a * beta > threshold ? g : g * (t / (t + 1));
}
static void softplus_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    through_two(p, n, (T)s->f[0], (T)s->f[1], times_second, SLEEF(exp, 10), softplus_backward_after);
}

/* From the input alone: what the forward kept in `buffer` differs between devices. */
ALWAYS_INLINE T log_sigmoid_backward_after(T g, T a, T t, T x, T y)
{
    T share = t / (1 + t);
    return g * (a < 0 ? 1 - share : share);
}
static void log_sigmoid_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    through_two(p, n, 0, 0, minus_second_magnitude, SLEEF(exp, 10), log_sigmoid_backward_after);
}

extern const cpu_pointwise_entry CPU_NAME(cpu_smooth)[];
const cpu_pointwise_entry CPU_NAME(cpu_smooth)[] = {
    {CPU_OP_sigmoid, sigmoid},
    {CPU_OP_silu, silu},
    {CPU_OP_silu_backward, silu_backward},
    {CPU_OP_gelu, gelu},
    {CPU_OP_gelu_tanh, gelu_tanh},
    {CPU_OP_gelu_backward, gelu_backward},
    {CPU_OP_gelu_tanh_backward, gelu_tanh_backward},
    {CPU_OP_mish, mish},
    {CPU_OP_mish_backward, mish_backward},
    {CPU_OP_elu, elu},
    {CPU_OP_elu_backward, elu_backward},
    {CPU_OP_softplus, softplus},
    {CPU_OP_softplus_backward, softplus_backward},
    {CPU_OP_log_sigmoid_backward, log_sigmoid_backward},
    {0, NULL},
};
