/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of complex numbers (DTYPE=c64|c128). Arithmetic is compiled for both dtypes; functions
 * are those of C99 for complex128, to which complex64 is converted for them.
 */
#include "loops.h"

#include <complex.h>

#define PAIR T
#define PART R
#include "complex_arithmetic.h"

#if defined(DTYPE_C64)
typedef float complex C;
#else
typedef double complex C;
#endif

/* Seen as the other type, since re + im * I would turn infinities into NaN. */
typedef union either {
    T a;
    C z;
} either;
ALWAYS_INLINE C complex_of(T a)
{
    return (either){.a = a}.z;
}
ALWAYS_INLINE T pair_of(C z)
{
    return (either){.z = z}.a;
}

ALWAYS_INLINE void real_result(void *const *p, int64_t n, R (*f)(T))
{
    R *o = p[0];
    const T *a = p[1];
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i]);
}

/* ---- Arithmetic ---------------------------------------------------------------------------------------- */

ELEM(T, negative, (T a), from_parts(-a.re, -a.im))
ELEM(T, conjugate, (T a), from_parts(a.re, -a.im))
ELEM(R, direction, (T a), FN(atan2)(a.im, a.re))
/* addcmul and addcdiv leave out a factor of 1. As in ATen, add and sub do not. */
BINARY_WITH(add, plus(a, times(x, b)))
BINARY_WITH(sub, minus(a, times(x, b)))
BINARY_WITH(rsub, minus(b, times(x, a)))
BINARY(mul, times(a, b))
BINARY(div, over(a, b))
UNARY(neg, negative(a))
UNARY(conj_physical, conjugate(a))
UNARY(sgn, sign_of(a))
LOOP(abs, real_result(p, n, magnitude))
LOOP(angle, real_result(p, n, direction))
LOOP(where, choose(p, n))
TERNARY(lerp_tensor, between(a, b, c))
BINARY_WITH(lerp, between(a, b, x))
TERNARY_WITH(addcmul, plus(a, times(times_unless_1(x, b), c)))
TERNARY_WITH(addcdiv, plus(a, over(times_unless_1(x, b), c)))
/* b is the result of the forward pass; the derivative is conjugated. */
BINARY(sigmoid_backward, times(a, conjugate(times(minus(from_parts(1, 0), b), b))))
BINARY(tanh_backward, times(a, conjugate(minus(from_parts(1, 0), times(b, b)))))
/* Each part by itself, with the limits of R. */
KERNEL(nan_to_num)
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

COMPARE(eq, a.re == b.re && a.im == b.im)
COMPARE(ne, a.re != b.re || a.im != b.im)
COMPARE(logical_and, is_nonzero(a) && is_nonzero(b))
COMPARE(logical_or, is_nonzero(a) || is_nonzero(b))
COMPARE(logical_xor, is_nonzero(a) != is_nonzero(b))
TEST(logical_not, !is_nonzero(a))
TEST(isnan, a.re != a.re || a.im != a.im)
TEST(isinf, FN(fabs)(a.re) == INFINITY || FN(fabs)(a.im) == INFINITY)
TEST(isfinite, FN(fabs)(a.re) < INFINITY && FN(fabs)(a.im) < INFINITY)
TEST(isreal, a.im == 0)

/* ---- Functions that are compiled for both dtypes, because their results depend on the precision -------- */

ELEM(T, root, (T a), pair_of(FN(csqrt)(complex_of(a))))
ALWAYS_INLINE T sinc_of(T a)
{
    T turned = scaled(a, (R)3.14159265358979323846);
    return is_nonzero(a) ? over(pair_of(FN(csin)(complex_of(turned))), turned) : from_parts(1, 0);
}
UNARY(sinc, sinc_of(a))
BINARY(pow, pair_of(FN(cpow)(complex_of(a), complex_of(b))))
/* Real exponents for which ATen has a formula of its own have the same one here. */
ALWAYS_INLINE T power_of(T a, T exponent)
{
    T one = from_parts(1, 0);
    if (exponent.im != 0) return pow_elem(a, exponent);
    if (exponent.re == 0) return one;
    if (exponent.re == 1) return a;
    if (exponent.re == 2) return times(a, a);
    if (exponent.re == 3) return times(times(a, a), a);
    if (exponent.re == (R)0.5) return root(a);
    if (exponent.re == -(R)0.5) return over(one, root(a));
    if (exponent.re == -1) return over(one, a);
    if (exponent.re == -2) return over(one, times(a, a));
    return pow_elem(a, exponent);
}
UNARY_WITH(pow_scalar, power_of(a, x))

#if defined(DTYPE_C128)
/* ---- Functions ----------------------------------------------------------------------------------------- */

UNARY(reciprocal, over(from_parts(1, 0), a))
UNARY(sqrt, pair_of(csqrt(complex_of(a))))
UNARY(exp, pair_of(cexp(complex_of(a))))
UNARY(log, pair_of(clog(complex_of(a))))
UNARY(sin, pair_of(csin(complex_of(a))))
UNARY(cos, pair_of(ccos(complex_of(a))))
UNARY(tan, pair_of(ctan(complex_of(a))))
UNARY(asin, pair_of(casin(complex_of(a))))
UNARY(acos, pair_of(cacos(complex_of(a))))
UNARY(atan, pair_of(catan(complex_of(a))))
UNARY(sinh, pair_of(csinh(complex_of(a))))
UNARY(cosh, pair_of(ccosh(complex_of(a))))
UNARY(tanh, pair_of(ctanh(complex_of(a))))
UNARY(asinh, pair_of(casinh(complex_of(a))))
UNARY(acosh, pair_of(cacosh(complex_of(a))))
UNARY(atanh, pair_of(catanh(complex_of(a))))
UNARY(rsqrt, over(from_parts(1, 0), sqrt_elem(a)))
UNARY(exp2, exp_elem(scaled(a, 0.69314718055994530942)))
UNARY(log2, scaled(log_elem(a), 1.44269504088896340736))
UNARY(log10, scaled(log_elem(a), 0.43429448190325182765))
UNARY(sigmoid, over(from_parts(1, 0), plus(from_parts(1, 0), exp_elem(negative(a)))))
UNARY(silu, over(a, plus(from_parts(1, 0), exp_elem(negative(a)))))

/* e^x cos y - 1 without cancellation is expm1(x) cos y - 2 sin^2(y / 2). */
ALWAYS_INLINE T expm1_elem(T a)
{
    double half = sin(a.im / 2);
    return from_parts(expm1(a.re) * cos(a.im) - 2 * half * half, exp(a.re) * sin(a.im));
}
LOOP(expm1, unary(p, n, expm1_elem))

/* For small a by |1 + a|^2 - 1 = x (x + 2) + y^2, which does not cancel. */
ALWAYS_INLINE T log1p_elem(T a)
{
    if (a.re != a.re || a.im != a.im) return from_parts(NAN, NAN);
    double x = 1 + a.re, size = hypot(a.re, a.im);
    double real = size < 0.5 ? 0.5 * log1p(a.re * (a.re + 2) + a.im * a.im) : log(hypot(x, a.im));
    return from_parts(real, atan2(a.im, x));
}
LOOP(log1p, unary(p, n, log1p_elem))

ALWAYS_INLINE T silu_backward_elem(T g, T a)
{
    T one = from_parts(1, 0), sigma = sigmoid_elem(a);
    return times(g, conjugate(times(sigma, plus(one, times(a, minus(one, sigma))))));
}
LOOP(silu_backward, binary(p, n, silu_backward_elem))
/* log(e^a + e^b) = high + log(1 + e^(low - high)), high the operand with the larger real part. */
ALWAYS_INLINE T logaddexp_elem(T a, T b)
{
    T high = a.re < b.re ? b : a, low = a.re < b.re ? a : b;
    if (a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im) return from_parts(NAN, NAN);
    if (high.re == low.re && (high.re == INFINITY || high.re == -INFINITY))
        return high.re < 0 ? low : log_elem(plus(exp_elem(low), exp_elem(high)));
    return plus(high, log1p_elem(exp_elem(minus(low, high))));
}
LOOP(logaddexp, binary(p, n, logaddexp_elem))
#endif

POINTWISE_KERNELS(complex) = {
    ENTRY(sinc),
    ENTRY(pow),
    ENTRY(pow_scalar),
    ENTRY(add),
    ENTRY(sub),
    ENTRY(rsub),
    ENTRY(mul),
    ENTRY(div),
    ENTRY_BY(div_mode, div),
    ENTRY(neg),
    ENTRY(conj_physical),
    ENTRY(abs),
    ENTRY(angle),
    ENTRY(sgn),
    ENTRY(where),
    ENTRY(lerp),
    ENTRY(lerp_tensor),
    ENTRY(addcmul),
    ENTRY(addcdiv),
    ENTRY(sigmoid_backward),
    ENTRY(tanh_backward),
    ENTRY(nan_to_num),
    ENTRY(eq),
    ENTRY(ne),
    ENTRY(isnan),
    ENTRY(isinf),
    ENTRY(isfinite),
    ENTRY(isreal),
    ENTRY(logical_and),
    ENTRY(logical_or),
    ENTRY(logical_xor),
    ENTRY(logical_not),
#if defined(DTYPE_C128)
    ENTRY(reciprocal),
    ENTRY(sqrt),
    ENTRY(exp),
    ENTRY(log),
    ENTRY(sin),
    ENTRY(cos),
    ENTRY(tan),
    ENTRY(asin),
    ENTRY(acos),
    ENTRY(atan),
    ENTRY(sinh),
    ENTRY(cosh),
    ENTRY(tanh),
    ENTRY(asinh),
    ENTRY(acosh),
    ENTRY(atanh),
    ENTRY(rsqrt),
    ENTRY(exp2),
    ENTRY(expm1),
    ENTRY(log2),
    ENTRY(log10),
    ENTRY(log1p),
    ENTRY(sigmoid),
    ENTRY(silu),
    ENTRY(silu_backward),
    ENTRY(logaddexp),
#endif
    END_OF_KERNELS,
};
