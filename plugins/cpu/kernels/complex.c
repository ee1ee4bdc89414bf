/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of complex numbers (DTYPE=c64|c128). Functions are those of C99 over complex128, to
 * which complex64 is converted for them; arithmetic is compiled for both. Products follow the plain formula,
 * quotients Smith's (1962), as in ATen.
 */
#include "pointwise_ops.h"
#include "vocabulary.h"

#include <complex.h>

#if defined(DTYPE_C64)
typedef float R;
typedef float complex C;
#else
typedef double R;
typedef double complex C;
#endif

ALWAYS_INLINE T make(R re, R im)
{
    return (T){re, im};
}
/* Through memory: re + im * I would turn infinities into NaN. */
ALWAYS_INLINE C complex_of(T a)
{
    C z;
    memcpy(&z, &a, sizeof z);
    return z;
}
ALWAYS_INLINE T pair_of(C z)
{
    T a;
    memcpy(&a, &z, sizeof a);
    return a;
}

/* ---- Loops --------------------------------------------------------------------------------------------- */

ALWAYS_INLINE void unary(void *const *p, int64_t n, T (*f)(T))
{
    T *o = p[0];
    const T *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i]);
}
ALWAYS_INLINE void binary(void *const *p, int64_t n, T (*f)(T, T))
{
    T *o = p[0];
    const T *a = p[1], *b = p[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i], b[i]);
}
ALWAYS_INLINE void real_result(void *const *p, int64_t n, R (*f)(T))
{
    R *o = p[0];
    const T *a = p[1];
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i]);
}
ALWAYS_INLINE void test(void *const *p, int64_t n, int32_t (*f)(T))
{
    uint8_t *o = p[0];
    const T *a = p[1];
    for (int64_t i = 0; i < n; i++) o[i] = (uint8_t)f(a[i]);
}
ALWAYS_INLINE void compare(void *const *p, int64_t n, int32_t (*f)(T, T))
{
    uint8_t *o = p[0];
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = (uint8_t)f(a[i], b[i]);
}
ALWAYS_INLINE T scalar(const cpu_scalars *s, uint32_t i)
{
    return make((R)s->f[i], (R)s->imaginary[i]);
}

/* ---- Arithmetic ---------------------------------------------------------------------------------------- */

ALWAYS_INLINE T plus(T a, T b)
{
    return make(a.re + b.re, a.im + b.im);
}
ALWAYS_INLINE T minus(T a, T b)
{
    return make(a.re - b.re, a.im - b.im);
}
ALWAYS_INLINE T times(T a, T b)
{
    return make(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
ALWAYS_INLINE T scaled(T a, R x)
{
    return make(a.re * x, a.im * x);
}
ALWAYS_INLINE T over(T a, T b)
{
    R largest = FN(fabs)(b.re) >= FN(fabs)(b.im) ? b.re : b.im, ratio, share;
    if (b.re == 0 && b.im == 0) return make(a.re / FN(fabs)(b.re), a.im / FN(fabs)(b.im));
    if (largest == b.re && FN(fabs)(b.re) >= FN(fabs)(b.im)) {
        ratio = b.im / b.re;
        share = 1 / (b.re + b.im * ratio);
        return make((a.re + a.im * ratio) * share, (a.im - a.re * ratio) * share);
    }
    ratio = b.re / b.im;
    share = 1 / (b.re * ratio + b.im);
    return make((a.re * ratio + a.im) * share, (a.im * ratio - a.re) * share);
}
/* addcmul and addcdiv leave a factor of 1 out: 1 + 0i times infinity has a NaN in it. add and sub, as ATen's,
 * do not. */
ALWAYS_INLINE int32_t is_one(T x)
{
    return x.re == 1 && x.im == 0;
}
static void add(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], x = scalar(s, 0);
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = plus(a[i], times(x, b[i]));
}
static void sub(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], x = scalar(s, 0);
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = minus(a[i], times(x, b[i]));
}
static void rsub(void *const *p, int64_t n, const cpu_scalars *s)
{
    void *const swapped[3] = {p[0], p[2], p[1]};
    sub(swapped, n, s);
}
static void mul(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, times);
}
static void quotient(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, over);
}
ALWAYS_INLINE T negative(T a)
{
    return make(-a.re, -a.im);
}
static void neg(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, negative);
}
ALWAYS_INLINE T conjugate(T a)
{
    return make(a.re, -a.im);
}
static void conj_physical(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, conjugate);
}
ALWAYS_INLINE R magnitude(T a)
{
    return FN(hypot)(a.re, a.im);
}
static void abs_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    real_result(p, n, magnitude);
}
ALWAYS_INLINE R direction(T a)
{
    return FN(atan2)(a.im, a.re);
}
static void angle(void *const *p, int64_t n, const cpu_scalars *s)
{
    real_result(p, n, direction);
}
ALWAYS_INLINE T sgn_one(T a)
{
    R size = magnitude(a);
    return size == 0 ? make(0, 0) : make(a.re / size, a.im / size);
}
static void sgn(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sgn_one);
}
static void where(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const uint8_t *condition = p[1];
    const T *a = p[2], *b = p[3];
    for (int64_t i = 0; i < n; i++) o[i] = condition[i] ? a[i] : b[i];
}
ALWAYS_INLINE T lerp_one(T a, T b, T weight)
{
    T apart = minus(b, a);
    return weight.re * weight.re + weight.im * weight.im < (R)0.25
               ? plus(a, times(weight, apart))
               : minus(b, times(apart, minus(make(1, 0), weight)));
}
static void lerp_tensor(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const T *a = p[1], *b = p[2], *c = p[3];
    for (int64_t i = 0; i < n; i++) o[i] = lerp_one(a[i], b[i], c[i]);
}
static void lerp(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], weight = scalar(s, 0);
    const T *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = lerp_one(a[i], b[i], weight);
}
static void addcmul(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], x = scalar(s, 0);
    const T *a = p[1], *b = p[2], *c = p[3];
    for (int64_t i = 0; i < n; i++) o[i] = plus(a[i], times(is_one(x) ? b[i] : times(x, b[i]), c[i]));
}
static void addcdiv(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], x = scalar(s, 0);
    const T *a = p[1], *b = p[2], *c = p[3];
    for (int64_t i = 0; i < n; i++) o[i] = plus(a[i], over(is_one(x) ? b[i] : times(x, b[i]), c[i]));
}
/* In these b is the result of the forward pass, which the derivative takes conjugated. */
ALWAYS_INLINE T sigmoid_backward_one(T g, T b)
{
    return times(g, conjugate(times(minus(make(1, 0), b), b)));
}
static void sigmoid_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, sigmoid_backward_one);
}
ALWAYS_INLINE T tanh_backward_one(T g, T b)
{
    return times(g, conjugate(minus(make(1, 0), times(b, b))));
}
static void tanh_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, tanh_backward_one);
}
/* Each part by itself, with the limits of its own dtype. */
static void nan_to_num(void *const *p, int64_t n, const cpu_scalars *s)
{
    R *o = p[0];
    const R *a = p[1];
    R largest = sizeof(R) == 4 ? (R)3.40282346638528859812e+38 : (R)1.7976931348623157e+308;
    R nan = s->absent[0] ? 0 : (R)s->f[0];
    R above = s->absent[1] ? largest : (R)s->f[1], below = s->absent[2] ? -largest : (R)s->f[2];
    for (int64_t i = 0; i < 2 * n; i++) {
        R x = a[i];
        o[i] = x != x ? nan : x == INFINITY ? above : x == -INFINITY ? below : x;
    }
}

/* ---- Comparisons --------------------------------------------------------------------------------------- */

ALWAYS_INLINE int32_t truth(T a)
{
    return a.re != 0 || a.im != 0;
}

ALWAYS_INLINE int32_t eq_one(T a, T b)
{
    return a.re == b.re && a.im == b.im;
}
static void eq(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, eq_one);
}

ALWAYS_INLINE int32_t ne_one(T a, T b)
{
    return a.re != b.re || a.im != b.im;
}
static void ne(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, ne_one);
}

ALWAYS_INLINE int32_t isnan_of_one(T a)
{
    return a.re != a.re || a.im != a.im;
}
static void isnan_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isnan_of_one);
}

ALWAYS_INLINE int32_t isinf_of_one(T a)
{
    return FN(fabs)(a.re) == INFINITY || FN(fabs)(a.im) == INFINITY;
}
static void isinf_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isinf_of_one);
}

ALWAYS_INLINE int32_t isfinite_of_one(T a)
{
    return FN(fabs)(a.re) < INFINITY && FN(fabs)(a.im) < INFINITY;
}
static void isfinite_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isfinite_of_one);
}

ALWAYS_INLINE int32_t isreal_one(T a)
{
    return a.im == 0;
}
static void isreal(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isreal_one);
}

ALWAYS_INLINE int32_t logical_and_one(T a, T b)
{
    return truth(a) && truth(b);
}
static void logical_and(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, logical_and_one);
}

ALWAYS_INLINE int32_t logical_or_one(T a, T b)
{
    return truth(a) || truth(b);
}
static void logical_or(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, logical_or_one);
}

ALWAYS_INLINE int32_t logical_xor_one(T a, T b)
{
    return truth(a) != truth(b);
}
static void logical_xor(void *const *p, int64_t n, const cpu_scalars *s)
{
    compare(p, n, logical_xor_one);
}

ALWAYS_INLINE int32_t logical_not_one(T a)
{
    return !truth(a);
}
static void logical_not(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, logical_not_one);
}

/* ---- Functions of both, since their results depend on the precision more than others' -------------------
 */

ALWAYS_INLINE T root_one(T a)
{
    return pair_of(FN(csqrt)(complex_of(a)));
}
ALWAYS_INLINE T sinc_one(T a)
{
    T turned = scaled(a, (R)3.14159265358979323846);
    return truth(a) ? over(pair_of(FN(csin)(complex_of(turned))), turned) : make(1, 0);
}
static void sinc_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sinc_one);
}

ALWAYS_INLINE T power_one(T a, T b)
{
    return pair_of(FN(cpow)(complex_of(a), complex_of(b)));
}
static void power(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, power_one);
}
static void power_scalar(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], x = scalar(s, 0), one = make(1, 0);
    const T *a = p[1];
    for (int64_t i = 0; i < n; i++) {
        T z = a[i];
        if (x.im != 0)
            o[i] = power_one(z, x);
        else if (x.re == 0)
            o[i] = one;
        else if (x.re == 1)
            o[i] = z;
        else if (x.re == 2)
            o[i] = times(z, z);
        else if (x.re == 3)
            o[i] = times(times(z, z), z);
        else if (x.re == 0.5)
            o[i] = root_one(z);
        else if (x.re == -0.5)
            o[i] = over(one, root_one(z));
        else if (x.re == -1)
            o[i] = over(one, z);
        else if (x.re == -2)
            o[i] = over(one, times(z, z));
        else
            o[i] = power_one(z, x);
    }
}

#if defined(DTYPE_C128)
/* ---- Functions ----------------------------------------------------------------------------------------- */

ALWAYS_INLINE T reciprocal_one(T a)
{
    return over(make(1, 0), a);
}
static void reciprocal_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, reciprocal_one);
}

ALWAYS_INLINE T sqrt_one(T a)
{
    return pair_of(csqrt(complex_of(a)));
}
static void sqrt_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sqrt_one);
}

ALWAYS_INLINE T exp_one(T a)
{
    return pair_of(cexp(complex_of(a)));
}
static void exp_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, exp_one);
}

ALWAYS_INLINE T log_one(T a)
{
    return pair_of(clog(complex_of(a)));
}
static void log_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, log_one);
}

ALWAYS_INLINE T sin_one(T a)
{
    return pair_of(csin(complex_of(a)));
}
static void sin_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sin_one);
}

ALWAYS_INLINE T cos_one(T a)
{
    return pair_of(ccos(complex_of(a)));
}
static void cos_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, cos_one);
}

ALWAYS_INLINE T tan_one(T a)
{
    return pair_of(ctan(complex_of(a)));
}
static void tan_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, tan_one);
}

ALWAYS_INLINE T asin_one(T a)
{
    return pair_of(casin(complex_of(a)));
}
static void asin_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, asin_one);
}

ALWAYS_INLINE T acos_one(T a)
{
    return pair_of(cacos(complex_of(a)));
}
static void acos_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, acos_one);
}

ALWAYS_INLINE T atan_one(T a)
{
    return pair_of(catan(complex_of(a)));
}
static void atan_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, atan_one);
}

ALWAYS_INLINE T sinh_one(T a)
{
    return pair_of(csinh(complex_of(a)));
}
static void sinh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sinh_one);
}

ALWAYS_INLINE T cosh_one(T a)
{
    return pair_of(ccosh(complex_of(a)));
}
static void cosh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, cosh_one);
}

ALWAYS_INLINE T tanh_one(T a)
{
    return pair_of(ctanh(complex_of(a)));
}
static void tanh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, tanh_one);
}

ALWAYS_INLINE T asinh_one(T a)
{
    return pair_of(casinh(complex_of(a)));
}
static void asinh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, asinh_one);
}

ALWAYS_INLINE T acosh_one(T a)
{
    return pair_of(cacosh(complex_of(a)));
}
static void acosh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, acosh_one);
}

ALWAYS_INLINE T atanh_one(T a)
{
    return pair_of(catanh(complex_of(a)));
}
static void atanh_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, atanh_one);
}

ALWAYS_INLINE T rsqrt_one(T a)
{
    return over(make(1, 0), sqrt_one(a));
}
static void rsqrt_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, rsqrt_one);
}

ALWAYS_INLINE T exp2_one(T a)
{
    return exp_one(scaled(a, 0.69314718055994530942));
}
static void exp2_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, exp2_one);
}

/* e^x cos y - 1 without cancellation: expm1(x) cos y - 2 sin^2(y / 2). */

ALWAYS_INLINE T expm1_one(T a)
{
    double half = sin(a.im / 2);
    return make(expm1(a.re) * cos(a.im) - 2 * half * half, exp(a.re) * sin(a.im));
}
static void expm1_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, expm1_one);
}

ALWAYS_INLINE T log2_one(T a)
{
    return scaled(log_one(a), 1.44269504088896340736);
}
static void log2_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, log2_one);
}

ALWAYS_INLINE T log10_one(T a)
{
    return scaled(log_one(a), 0.43429448190325182765);
}
static void log10_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, log10_one);
}

/* |1 + a|^2 - 1 = x (x + 2) + y^2 keeps what is small. */

ALWAYS_INLINE T log1p_one(T a)
{
    if (a.re != a.re || a.im != a.im) return make(NAN, NAN);
    double x = 1 + a.re, size = hypot(a.re, a.im);
    double real = size < 0.5 ? 0.5 * log1p(a.re * (a.re + 2) + a.im * a.im) : log(hypot(x, a.im));
    return make(real, atan2(a.im, x));
}
static void log1p_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, log1p_one);
}

ALWAYS_INLINE T sigmoid_one(T a)
{
    return over(make(1, 0), plus(make(1, 0), exp_one(negative(a))));
}
static void sigmoid_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sigmoid_one);
}

ALWAYS_INLINE T silu_one(T a)
{
    return over(a, plus(make(1, 0), exp_one(negative(a))));
}
static void silu_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, silu_one);
}

ALWAYS_INLINE T silu_backward_one(T g, T a)
{
    T one = make(1, 0), sigma = sigmoid_one(a);
    return times(g, conjugate(times(sigma, plus(one, times(a, minus(one, sigma))))));
}
static void silu_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, silu_backward_one);
}
/* log(e^a + e^b) by the one with the larger real part. */
ALWAYS_INLINE T logaddexp_one(T a, T b)
{
    T high = a.re < b.re ? b : a, low = a.re < b.re ? a : b;
    if (a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im) return make(NAN, NAN);
    if (high.re == low.re && (high.re == INFINITY || high.re == -INFINITY))
        return high.re < 0 ? low : log_one(plus(exp_one(low), exp_one(high)));
    return plus(high, log1p_one(exp_one(minus(low, high))));
}
static void logaddexp(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, logaddexp_one);
}
#endif

extern const cpu_pointwise_entry CPU_NAME(cpu_complex)[];
const cpu_pointwise_entry CPU_NAME(cpu_complex)[] = {
    {CPU_OP_sinc, sinc_of},
    {CPU_OP_pow, power},
    {CPU_OP_pow_scalar, power_scalar},
    {CPU_OP_add, add},
    {CPU_OP_sub, sub},
    {CPU_OP_rsub, rsub},
    {CPU_OP_mul, mul},
    {CPU_OP_div, quotient},
    {CPU_OP_div_mode, quotient},
    {CPU_OP_neg, neg},
    {CPU_OP_conj_physical, conj_physical},
    {CPU_OP_abs, abs_of},
    {CPU_OP_angle, angle},
    {CPU_OP_sgn, sgn},
    {CPU_OP_where, where},
    {CPU_OP_lerp, lerp},
    {CPU_OP_lerp_tensor, lerp_tensor},
    {CPU_OP_addcmul, addcmul},
    {CPU_OP_addcdiv, addcdiv},
    {CPU_OP_sigmoid_backward, sigmoid_backward},
    {CPU_OP_tanh_backward, tanh_backward},
    {CPU_OP_nan_to_num, nan_to_num},
    {CPU_OP_eq, eq},
    {CPU_OP_ne, ne},
    {CPU_OP_isnan, isnan_of},
    {CPU_OP_isinf, isinf_of},
    {CPU_OP_isfinite, isfinite_of},
    {CPU_OP_isreal, isreal},
    {CPU_OP_logical_and, logical_and},
    {CPU_OP_logical_or, logical_or},
    {CPU_OP_logical_xor, logical_xor},
    {CPU_OP_logical_not, logical_not},
#if defined(DTYPE_C128)
    {CPU_OP_reciprocal, reciprocal_of},
    {CPU_OP_sqrt, sqrt_of},
    {CPU_OP_exp, exp_of},
    {CPU_OP_log, log_of},
    {CPU_OP_sin, sin_of},
    {CPU_OP_cos, cos_of},
    {CPU_OP_tan, tan_of},
    {CPU_OP_asin, asin_of},
    {CPU_OP_acos, acos_of},
    {CPU_OP_atan, atan_of},
    {CPU_OP_sinh, sinh_of},
    {CPU_OP_cosh, cosh_of},
    {CPU_OP_tanh, tanh_of},
    {CPU_OP_asinh, asinh_of},
    {CPU_OP_acosh, acosh_of},
    {CPU_OP_atanh, atanh_of},
    {CPU_OP_rsqrt, rsqrt_of},
    {CPU_OP_exp2, exp2_of},
    {CPU_OP_expm1, expm1_of},
    {CPU_OP_log2, log2_of},
    {CPU_OP_log10, log10_of},
    {CPU_OP_log1p, log1p_of},
    {CPU_OP_sigmoid, sigmoid_of},
    {CPU_OP_silu, silu_of},
    {CPU_OP_silu_backward, silu_backward},
    {CPU_OP_logaddexp, logaddexp},
#endif
    {0, NULL},
};
