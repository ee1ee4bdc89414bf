/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise arithmetic that floats alone have (DTYPE=f32|f64|f16|bf16) and that needs no function of the
 * mathematical library. Formulas are ATen's where its results differ from the obvious ones (signs of zero,
 * NaN, infinities).
 */
#include "loops.h"

/* ---- Arithmetic ---------------------------------------------------------------------------------------- */

BINARY(div, a / b)
BINARY(div_trunc, FN(trunc)(a / b))
UNARY_WITH(scale, (a * x))
UNARY_WITH(scale_down, a / x)
UNARY(reciprocal, 1 / a)
UNARY(sqrt, FN(sqrt)(a))
UNARY(rsqrt, 1 / FN(sqrt)(a))
TERNARY_WITH(addcdiv, a + x * b / c)
UNARY(deg2rad, a *(T)0.017453292519943295769236907684886)
UNARY(rad2deg, a *(T)57.295779513082320876798154814105)
UNARY(angle, a != a ? a : a < 0 ? (T)3.14159265358979323846 : 0)
UNARY(conj_physical, a)
BINARY(copysign, FN(copysign)(a, b))
BINARY_WITH(native_dropout_backward, (a * b) * x)

#if CPU_IS_HALF
/* The bits are enough. */
KERNEL(abs)
{
    E *o = p[0];
    const E *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i].bits = a[i].bits & 0x7fffu;
}
#else
UNARY(abs, FN(fabs)(a))
#endif

/* Unlike in maximum and minimum, the operand that is not NaN is the result. */
BINARY(fmax, b != b || a > b ? a : b)
BINARY(fmin, b != b || a < b ? a : b)

/* a b + c, rounded once: by an instruction of the level or in a wider type. */
ALWAYS_INLINE T product_sum(T a, T b, T c)
{
#if defined(__FMA__)
    return FN(__builtin_fma)(a, b, c);
#else
    return (T)((double)a * (double)b + (double)c);
#endif
}
/*
 * Starts from the end that makes the weight's error least: both ends are exact, and so is 1 - weight up to 2.
 */
ALWAYS_INLINE T between(T a, T b, T weight)
{
    int32_t from_end = (weight >= (T)0.5) & (weight <= 2);
    return product_sum(from_end ? weight - 1 : weight, b - a, from_end ? b : a);
}
TERNARY(lerp_tensor, between(a, b, c))
BINARY_WITH(lerp, between(a, b, x))

/* ---- Rounding ------------------------------------------------------------------------------------------ */

UNARY(ceil, FN(ceil)(a))
UNARY(floor, FN(floor)(a))
UNARY(round, FN(rint)(a))
UNARY(trunc, FN(trunc)(a))
UNARY(frac, a - FN(trunc)(a))

/* x = 10^|decimals|. Negative powers of ten are not exact, so round_down divides by the positive one. */
ELEM(T, round_up_elem, (T a, T x, T y, T z), (FN(rint)(a * x) / x))
ELEM(T, round_down_elem, (T a, T x, T y, T z), FN(rint)(a / x) * x)
KERNEL(round_decimals)
{
    T power = (T)pow(10, fabs(s->f[0]));
    if (s->i[0] == 0)
        round_kernel(p, n, s);
    else if (s->i[0] > 0)
        unary_with(p, n, power, 0, 0, round_up_elem);
    else
        unary_with(p, n, power, 0, 0, round_down_elem);
}

/* ---- Classes of numbers -------------------------------------------------------------------------------- */

TEST(isnan, a != a)
TEST(isinf, FN(fabs)(a) == INFINITY)
TEST(isfinite, FN(fabs)(a) < INFINITY)
TEST(isposinf, a == INFINITY)
TEST(isneginf, a == -INFINITY)
TEST(isreal, 1)
TEST(signbit, FN(copysign)(1, a) < 0)

/* The largest finite number of the dtype in memory. */
ALWAYS_INLINE T largest_finite(uint32_t slot)
{
    if (slot == CPU_F16) return 65504;
    if (slot == CPU_BF16) return (T)0x1.fep127;
    return sizeof(T) == 4 || slot == CPU_F32 ? (T)3.40282346638528859812e+38 : (T)1.7976931348623157e+308;
}
/* x replaces NaN, y infinity, z minus infinity. */
ELEM(T, nan_to_num_elem, (T a, T x, T y, T z), a != a ? x : a == INFINITY ? y : a == -INFINITY ? z : a)
KERNEL(nan_to_num)
{
    T largest = largest_finite(s->slot);
    unary_with(p, n, s->absent[0] ? 0 : scalar(s, 0), s->absent[1] ? largest : scalar(s, 1),
               s->absent[2] ? -largest : scalar(s, 2), nan_to_num_elem);
}

POINTWISE_KERNELS(float) = {
    ENTRY(div),
    ENTRY(div_trunc),
    ENTRY(scale),
    ENTRY(scale_down),
    ENTRY(reciprocal),
    ENTRY(sqrt),
    ENTRY(rsqrt),
    ENTRY(addcdiv),
    ENTRY(deg2rad),
    ENTRY(rad2deg),
    ENTRY(angle),
    ENTRY(conj_physical),
    ENTRY(copysign),
    ENTRY(native_dropout_backward),
    ENTRY(abs),
    ENTRY(fmax),
    ENTRY(fmin),
    ENTRY(lerp_tensor),
    ENTRY(lerp),
    ENTRY(ceil),
    ENTRY(floor),
    ENTRY(round),
    ENTRY(trunc),
    ENTRY(frac),
    ENTRY(round_decimals),
    ENTRY(isnan),
    ENTRY(isinf),
    ENTRY(isfinite),
    ENTRY(isposinf),
    ENTRY(isneginf),
    ENTRY(isreal),
    ENTRY(signbit),
    ENTRY(nan_to_num),
    END_OF_KERNELS,
};
