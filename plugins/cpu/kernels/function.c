/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of floats (DTYPE=f32|f64) that go through a function of the mathematical library; exp,
 * tanh but of float64 and the smooth activations are in smooth.c.
 */
#include "convert.h"
#include "steps.h"

#define PI ((T)3.14159265358979323846)

/* ---- The function alone ------------------------------------------------------------------------------ */

static void exp2_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(exp2, 10));
}

static void expm1_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(expm1, 10));
}

static void log_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(log, 10));
}

static void log2_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(log2, 10));
}

static void log10_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(log10, 10));
}

static void log1p_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_log1p(p[0], p[1], n);
}

static void sin_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(sin, 10));
}

static void cos_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(cos, 10));
}

static void tan_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(tan, 10));
}

static void asin_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(asin, 10));
}

static void acos_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(acos, 10));
}

static void atan_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(atan, 10));
}

static void sinh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_edges(p[0], p[1], n, SLEEF(sinh, 10), FN(sinh));
}

static void cosh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_edges(p[0], p[1], n, SLEEF(cosh, 10), FN(cosh));
}

#if defined(DTYPE_F64)
static void tanh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(tanh, 10));
}
#endif

static void asinh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_edges(p[0], p[1], n, SLEEF(asinh, 10), FN(asinh));
}

static void acosh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_edges(p[0], p[1], n, SLEEF(acosh, 10), FN(acosh));
}

static void atanh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(atanh, 10));
}

static void erf_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_erf(p[0], p[1], n);
}

/* SLEEF's loses its digits around the roots below 0; the C library's, of a wider type, keeps them. */
ALWAYS_INLINE T lgamma_below_0(T a)
{
    int32_t sign;
    return sizeof(T) == 4 ? (T)lgamma_r((double)a, &sign) : (T)lgammal_r((long double)a, &sign);
}
static void lgamma_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1];
    int32_t any = 0;
    vector_unary(t, a, n, SLEEF(lgamma, 10));
    for (int64_t i = 0; i < n; i++) any |= a[i] < 0;
    if (any)
        for (int64_t i = 0; i < n; i++)
            if (a[i] < 0) t[i] = lgamma_below_0(a[i]);
    memcpy(o, t, (size_t)n * sizeof(T));
}

static void erfc_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_unary(p[0], p[1], n, SLEEF(erfc, 15));
}
static void atan2_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_binary(p[0], p[1], p[2], n, SLEEF_2(atan2, 10));
}
static void hypot_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_binary(p[0], p[1], p[2], n, SLEEF_2(hypot, 05));
}

/* ---- Remainders -------------------------------------------------------------------------------------- */

/* SLEEF's fmod gives NaN where the quotient is out of its reach; such elements are computed alone. */
static void vector_fmod(T *o, const T *a, const T *b, int64_t n)
{
    vector_binary(o, a, b, n, SLEEF_EXACT(fmod));
    for (int64_t i = 0; i < n; i++)
        if (o[i] != o[i]) o[i] = FN(fmod)(a[i], b[i]);
}
static void fmod_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    T t[CPU_CHUNK];
    vector_fmod(t, p[1], p[2], n);
    memcpy(p[0], t, (size_t)n * sizeof(T));
}
/* The sign is the divisor's. */
static void remainder_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *b = p[2];
    vector_fmod(t, p[1], b, n);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = t[i] != 0 && (b[i] < 0) != (t[i] < 0) ? t[i] + b[i] : t[i];
}
/* As Python: the quotient of what is left when the remainder is taken away, put right where rounding made it
 * miss. */
ALWAYS_INLINE T floor_divide_one(T a, T b, T rest)
{
    T quotient = (a - rest) / b, ratio = a / b;
    quotient -= rest != 0 && (b < 0) != (rest < 0) ? 1 : 0;
    T whole = FN(floor)(quotient);
    whole += quotient - whole > (T)0.5 ? 1 : 0;
    return b == 0 ? ratio : quotient == 0 ? FN(copysign)(0, ratio) : whole;
}
static void floor_divide(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1], *b = p[2];
    vector_fmod(t, a, b, n);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = floor_divide_one(a[i], b[i], t[i]);
}

/* ---- Powers ------------------------------------------------------------------------------------------ */

/* SLEEF's pow overflows just below the largest numbers. */
static void vector_pow(T *o, const T *a, const T *b, int64_t n)
{
    T t[CPU_CHUNK];
    vector_binary(t, a, b, n, SLEEF_2(pow, 10));
    for (int64_t i = 0; i < n; i++) o[i] = FN(fabs)(t[i]) == INFINITY ? FN(pow)(a[i], b[i]) : t[i];
}
static void power(void *const *p, int64_t n, const cpu_scalars *s)
{
    vector_pow(p[0], p[1], p[2], n);
}
ALWAYS_INLINE T square(T a)
{
    return a * a;
}
ALWAYS_INLINE T cube(T a)
{
    return a * a * a;
}
ALWAYS_INLINE T inverse(T a)
{
    return 1 / a;
}
ALWAYS_INLINE T inverse_square(T a)
{
    return 1 / (a * a);
}
ALWAYS_INLINE T root(T a)
{
    return FN(sqrt)(a);
}
ALWAYS_INLINE T inverse_root(T a)
{
    return 1 / root(a);
}
/* Exponents that have a formula of their own in ATen have it here. */
static void power_scalar(void *const *p, int64_t n, const cpu_scalars *s)
{
    double exponent = s->f[0];
    T splat[CPU_CHUNK];
    if (exponent == 2)
        unary(p, n, square);
    else if (exponent == 3)
        unary(p, n, cube);
    else if (exponent == 0.5)
        unary(p, n, root);
    else if (exponent == -0.5)
        unary(p, n, inverse_root);
    else if (exponent == -1)
        unary(p, n, inverse);
    else if (exponent == -2)
        unary(p, n, inverse_square);
    else {
        for (int64_t i = 0; i < n; i++) splat[i] = (T)exponent;
        vector_pow(p[0], p[1], splat, n);
    }
}

/* ---- Logarithms -------------------------------------------------------------------------------------- */

/* What a half type holds of a number: ATen rounds the steps of logit, which is badly conditioned around 0.5.
 */
ALWAYS_INLINE T kept_by(uint32_t slot, T a)
{
    if (slot == CPU_F16) return (T)float_of_half(half_of_float((float)a));
    if (slot == CPU_BF16) return (T)float_of_bfloat(bfloat_of_float((float)a));
    return a;
}
ALWAYS_INLINE void odds(T *t, const T *a, int64_t n, T eps, uint32_t slot)
{
    for (int64_t i = 0; i < n; i++) {
        T inside = eps < 0 ? a[i] : a[i] < eps ? eps : a[i] > 1 - eps ? 1 - eps : a[i];
        t[i] = slot == CPU_F32 ? (T)((double)inside / (1 - (double)inside))
                               : kept_by(slot, inside / kept_by(slot, 1 - inside));
    }
}
/*
 * Around a half, where a / (1 - a) is nearly 1: from there up the logarithm of 1 + (2a - 1) / (1 - a), below
 * it that of the mirror image. Numerators and denominators are exact.
 */
ALWAYS_INLINE void logit_middle(T *t, const T *a, int64_t n, T eps)
{
    const T low = (T)0.25, high = (T)0.75;
    T near[CPU_CHUNK];
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= (a[i] > low) & (a[i] < high);
    if (!any || eps > low) return;
    for (int64_t i = 0; i < n; i++) {
        T twice = 2 * a[i] - 1, over = a[i] < (T)0.5 ? -twice / a[i] : twice / (1 - a[i]);
        near[i] = a[i] > low && a[i] < high ? over : 0;
    }
    vector_log1p(near, near, n);
    for (int64_t i = 0; i < n; i++) {
        T mirrored = a[i] < (T)0.5 ? -near[i] : near[i];
        t[i] = a[i] > low && a[i] < high ? mirrored : t[i];
    }
}
static void logit(void *const *p, int64_t n, const cpu_scalars *s)
{
    T t[CPU_CHUNK], eps = s->absent[0] ? -1 : (T)s->f[0];
    if (s->slot == CPU_F16)
        odds(t, p[1], n, eps, CPU_F16);
    else if (s->slot == CPU_BF16)
        odds(t, p[1], n, eps, CPU_BF16);
    else
        odds(t, p[1], n, eps, CPU_F32);
    vector_unary(t, t, n, SLEEF(log, 10));
    if (s->slot == CPU_F32 || s->slot == CPU_F64) logit_middle(t, p[1], n, eps);
    memcpy(p[0], t, (size_t)n * sizeof(T));
}

/* log(e^a + e^b) = larger + log(1 + e^-|a - b|); equal infinities stay as they are. */
ALWAYS_INLINE void log_add(void *const *p, int64_t n, V (*power_of)(V), T unit)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) t[i] = a[i] < b[i] ? a[i] - b[i] : b[i] - a[i];
    vector_unary(t, t, n, power_of);
    vector_log1p(t, t, n);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        T larger = a[i] < b[i] ? b[i] : a[i];
        o[i] = a[i] == b[i] && (larger == INFINITY || larger == -INFINITY) ? larger : larger + t[i] * unit;
    }
}
static void logaddexp(void *const *p, int64_t n, const cpu_scalars *s)
{
    log_add(p, n, SLEEF(exp, 10), 1);
}
static void logaddexp2(void *const *p, int64_t n, const cpu_scalars *s)
{
    log_add(p, n, SLEEF(exp2, 10), (T)1.44269504088896340736);
}

/* a log b, and 0 where a is 0 unless b is NaN. */
ALWAYS_INLINE T xlogy_after(T a, T b, T t, T x, T y)
{
    return b != b ? b : a == 0 ? 0 : a * t;
}
static void xlogy(void *const *p, int64_t n, const cpu_scalars *s)
{
    through_two(p, n, 0, 0, second, SLEEF(log, 10), xlogy_after);
}
static void xlog1py(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1], *b = p[2];
    vector_log1p(t, b, n);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = xlogy_after(a[i], b[i], t[i], 0, 0);
}
ALWAYS_INLINE T entr_after(T a, T t, T x, T y)
{
    return a != a ? a : a > 0 ? -a * t : a == 0 ? 0 : -INFINITY;
}
static void entr(void *const *p, int64_t n, const cpu_scalars *s)
{
    through(p, n, 0, 0, itself, SLEEF(log, 10), entr_after);
}

/* sin(pi a) / a / pi, rounded once for float32 and with the factor in two parts for float64. */
#define PER_PI      0.31830988618379067154
#define PER_PI_REST (-1.9678676675182487e-17)
ALWAYS_INLINE T sinc_after(T a, T t, T x, T y)
{
    T turned = PI * a;
    double ratio = (double)t / (double)a, value = ratio * PER_PI + (sizeof(T) == 8 ? ratio * PER_PI_REST : 0);
    int32_t tiny = FN(fabs)(a) < (sizeof(T) == 4 ? (T)1e-4 : (T)1e-9);
    return tiny ? 1 : turned - turned == 0 ? (T)value : NAN;
}
/* SLEEF's ends where numbers still have halves. */
ALWAYS_INLINE T whole_turns_off(T a, T x)
{
    return a - 2 * FN(rint)(a / 2);
}
static void sinc(void *const *p, int64_t n, const cpu_scalars *s)
{
    through(p, n, 0, 0, whole_turns_off, SLEEF(sinpi, 05), sinc_after);
}

extern const cpu_pointwise_entry CPU_NAME(cpu_function)[];
const cpu_pointwise_entry CPU_NAME(cpu_function)[] = {
    {CPU_OP_exp2, exp2_of},
    {CPU_OP_expm1, expm1_of},
    {CPU_OP_log, log_of},
    {CPU_OP_log2, log2_of},
    {CPU_OP_log10, log10_of},
    {CPU_OP_log1p, log1p_of},
    {CPU_OP_sin, sin_of},
    {CPU_OP_cos, cos_of},
    {CPU_OP_tan, tan_of},
    {CPU_OP_asin, asin_of},
    {CPU_OP_acos, acos_of},
    {CPU_OP_atan, atan_of},
    {CPU_OP_sinh, sinh_of},
    {CPU_OP_cosh, cosh_of},
#if defined(DTYPE_F64)
    {CPU_OP_tanh, tanh_of},
#endif
    {CPU_OP_asinh, asinh_of},
    {CPU_OP_acosh, acosh_of},
    {CPU_OP_atanh, atanh_of},
    {CPU_OP_erf, erf_of},
    {CPU_OP_lgamma, lgamma_of},
    {CPU_OP_erfc, erfc_of},
    {CPU_OP_atan2, atan2_of},
    {CPU_OP_hypot, hypot_of},
    {CPU_OP_fmod, fmod_of},
    {CPU_OP_remainder, remainder_of},
    {CPU_OP_floor_divide, floor_divide},
    {CPU_OP_pow, power},
    {CPU_OP_pow_scalar, power_scalar},
    {CPU_OP_logit, logit},
    {CPU_OP_logaddexp, logaddexp},
    {CPU_OP_logaddexp2, logaddexp2},
    {CPU_OP_xlogy, xlogy},
    {CPU_OP_xlog1py, xlog1py},
    {CPU_OP_entr, entr},
    {CPU_OP_sinc, sinc},
    {0, NULL},
};
