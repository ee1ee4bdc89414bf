/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of floats (DTYPE=f32|f64) that call a function of the mathematical library. exp, tanh
 * of float32 and the smooth activations are in smooth.c.
 */
#include "steps.h"

#define PI ((T)3.14159265358979323846)

/* ---- The function alone ------------------------------------------------------------------------------ */

VECTOR_UNARY(exp2, SLEEF(exp2, 10))
VECTOR_UNARY(expm1, SLEEF(expm1, 10))
VECTOR_UNARY(log, SLEEF(log, 10))
VECTOR_UNARY(log2, SLEEF(log2, 10))
VECTOR_UNARY(log10, SLEEF(log10, 10))
LOOP(log1p, vector_log1p(p[0], p[1], n))
VECTOR_UNARY(sin, SLEEF(sin, 10))
VECTOR_UNARY(cos, SLEEF(cos, 10))
VECTOR_UNARY(tan, SLEEF(tan, 10))
VECTOR_UNARY(asin, SLEEF(asin, 10))
VECTOR_UNARY(acos, SLEEF(acos, 10))
VECTOR_UNARY(atan, SLEEF(atan, 10))
LOOP(sinh, vector_edges(p[0], p[1], n, SLEEF(sinh, 10), FN(sinh)))
LOOP(cosh, vector_edges(p[0], p[1], n, SLEEF(cosh, 10), FN(cosh)))
LOOP(asinh, vector_edges(p[0], p[1], n, SLEEF(asinh, 10), FN(asinh)))
LOOP(acosh, vector_edges(p[0], p[1], n, SLEEF(acosh, 10), FN(acosh)))
VECTOR_UNARY(atanh, SLEEF(atanh, 10))
#if defined(DTYPE_F64)
VECTOR_UNARY(tanh, SLEEF(tanh, 10))
#endif
VECTOR_UNARY(erfc, SLEEF(erfc, 15))
VECTOR_BINARY(atan2, SLEEF_2(atan2, 10))
VECTOR_BINARY(hypot, SLEEF_2(hypot, 05))
LOOP(erf, vector_erf(p[0], p[1], n))

/* SLEEF's lgamma is inexact around the roots below 0; there the C library's of a wider type is taken. */
ALWAYS_INLINE T lgamma_below_0(T a)
{
    int32_t sign;
    return sizeof(T) == 4 ? (T)lgamma_r((double)a, &sign) : (T)lgammal_r((long double)a, &sign);
}
KERNEL(lgamma)
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

/* ---- Remainders -------------------------------------------------------------------------------------- */

/* SLEEF's fmod gives NaN for large quotients; those elements are computed one by one. */
static void vector_fmod(T *o, const T *a, const T *b, int64_t n)
{
    vector_binary(o, a, b, n, SLEEF_EXACT(fmod));
    for (int64_t i = 0; i < n; i++)
        if (o[i] != o[i]) o[i] = FN(fmod)(a[i], b[i]);
}
KERNEL(fmod)
{
    T t[CPU_CHUNK];
    vector_fmod(t, p[1], p[2], n);
    memcpy(p[0], t, (size_t)n * sizeof(T));
}
/* The remainder has the divisor's sign. */
KERNEL(remainder)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *b = p[2];
    vector_fmod(t, p[1], b, n);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = t[i] != 0 && (b[i] < 0) != (t[i] < 0) ? t[i] + b[i] : t[i];
}
/* As in Python: (a - remainder) / b, corrected where rounding missed the integer. */
ALWAYS_INLINE T floored_quotient(T a, T b, T rest)
{
    T quotient = (a - rest) / b, ratio = a / b;
    quotient -= rest != 0 && (b < 0) != (rest < 0) ? 1 : 0;
    T whole = FN(floor)(quotient);
    whole += quotient - whole > (T)0.5 ? 1 : 0;
    return b == 0 ? ratio : quotient == 0 ? FN(copysign)(0, ratio) : whole;
}
KERNEL(floor_divide)
{
    T *o = p[0], t[CPU_CHUNK];
    const T *a = p[1], *b = p[2];
    vector_fmod(t, a, b, n);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = floored_quotient(a[i], b[i], t[i]);
}

/* ---- Powers ------------------------------------------------------------------------------------------ */

/* SLEEF's pow overflows just below the largest numbers: infinite results are computed again. */
static void vector_pow(T *o, const T *a, const T *b, int64_t n)
{
    T t[CPU_CHUNK];
    vector_binary(t, a, b, n, SLEEF_2(pow, 10));
    for (int64_t i = 0; i < n; i++) o[i] = FN(fabs)(t[i]) == INFINITY ? FN(pow)(a[i], b[i]) : t[i];
}
LOOP(pow, vector_pow(p[0], p[1], p[2], n))
ELEM(T, square, (T a), (a * a))
ELEM(T, cube, (T a), (a * a) * a)
ELEM(T, inverse, (T a), 1 / a)
ELEM(T, inverse_square, (T a), 1 / (a * a))
ELEM(T, root, (T a), FN(sqrt)(a))
ELEM(T, inverse_root, (T a), 1 / root(a))
/* Exponents for which ATen has a formula of its own have the same one here. */
KERNEL(pow_scalar)
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

/*
 * a rounded to the half type of the slot: ATen rounds each step of logit, which is ill-conditioned around
 * 0.5.
 */
ALWAYS_INLINE T rounded_to(uint32_t slot, T a)
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
                               : rounded_to(slot, inside / rounded_to(slot, 1 - inside));
    }
}
/*
 * Around 0.5 the odds a / (1 - a) are nearly 1, so log1p is taken: of (2a - 1) / (1 - a) from 0.5 up, and of
 * the mirror image below. Numerators and denominators are exact.
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
KERNEL(logit)
{
    T t[CPU_CHUNK], eps = s->absent[0] ? -1 : (T)s->f[0];
    if (s->slot == CPU_F16)
        odds(t, p[1], n, eps, CPU_F16);
    else if (s->slot == CPU_BF16)
        odds(t, p[1], n, eps, CPU_BF16);
    else
        odds(t, p[1], n, eps, CPU_F32);
    vector_unary(t, t, n, SLEEF(log, 10));
    if (cpu_slot_is((int32_t)s->slot, CPU_KIND_FLOAT)) logit_middle(t, p[1], n, eps);
    memcpy(p[0], t, (size_t)n * sizeof(T));
}

/* log(e^a + e^b) = larger + log(1 + e^-|a - b|); the sum of equal infinities is that infinity. */
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
LOOP(logaddexp, log_add(p, n, SLEEF(exp, 10), 1))
LOOP(logaddexp2, log_add(p, n, SLEEF(exp2, 10), (T)1.44269504088896340736))

/* a t, t the logarithm of b or 1 + b; 0 where a is 0 unless b is NaN. */
ALWAYS_INLINE void times_log(void *const *p, const T *t, int64_t n)
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = b[i] != b[i] ? b[i] : a[i] == 0 ? 0 : a[i] * t[i];
}
KERNEL(xlogy)
{
    T t[CPU_CHUNK];
    vector_unary(t, p[2], n, SLEEF(log, 10));
    times_log(p, t, n);
}
KERNEL(xlog1py)
{
    T t[CPU_CHUNK];
    vector_log1p(t, p[2], n);
    times_log(p, t, n);
}
ELEM(T, entr_after, (T a, T t), a != a ? a : a > 0 ? -a * t : a == 0 ? 0 : -INFINITY)
LOOP(entr, through(p, n, itself, SLEEF(log, 10), entr_after))

/* sin(pi a) / a / pi: rounded once for float32, with 1 / pi in two parts for float64. */
#define PER_PI      0.31830988618379067154
#define PER_PI_REST (-1.9678676675182487e-17)
ALWAYS_INLINE T sinc_after(T a, T t)
{
    T turned = PI * a;
    double ratio = (double)t / (double)a, value = ratio * PER_PI + (sizeof(T) == 8 ? ratio * PER_PI_REST : 0);
    int32_t tiny = FN(fabs)(a) < (sizeof(T) == 4 ? (T)1e-4 : (T)1e-9);
    return tiny ? 1 : turned - turned == 0 ? (T)value : NAN;
}
/* SLEEF's sinpi covers only part of the range, so whole turns are taken off first. */
ELEM(T, without_whole_turns, (T a), a - 2 * FN(rint)(a / 2))
LOOP(sinc, through(p, n, without_whole_turns, SLEEF(sinpi, 05), sinc_after))

POINTWISE_KERNELS(function) = {
    ENTRY(exp2),       ENTRY(expm1), ENTRY(log),       ENTRY(log2),       ENTRY(log10),        ENTRY(log1p),
    ENTRY(sin),        ENTRY(cos),   ENTRY(tan),       ENTRY(asin),       ENTRY(acos),         ENTRY(atan),
    ENTRY(sinh),       ENTRY(cosh),
#if defined(DTYPE_F64)
    ENTRY(tanh),
#endif
    ENTRY(asinh),      ENTRY(acosh), ENTRY(atanh),     ENTRY(erf),        ENTRY(lgamma),       ENTRY(erfc),
    ENTRY(atan2),      ENTRY(hypot), ENTRY(fmod),      ENTRY(remainder),  ENTRY(floor_divide), ENTRY(pow),
    ENTRY(pow_scalar), ENTRY(logit), ENTRY(logaddexp), ENTRY(logaddexp2), ENTRY(xlogy),        ENTRY(xlog1py),
    ENTRY(entr),       ENTRY(sinc),  END_OF_KERNELS,
};
