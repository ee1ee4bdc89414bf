/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise arithmetic that floats alone have and that needs no function of the mathematical library but
 * rounding and roots; see arithmetic_formulas.h. Formulas are ATen's where its results differ from the obvious
 * ones (signs of zero, NaN, infinities). fused(a, b, c) is a b + c, rounded once.
 */

/* ---- Arithmetic ---------------------------------------------------------------------------------------- */

BINARY(div, a / b)
/* Where division is not rounded correctly, trunc(a / b) of 41 and 41 may be 0: the includer then defines a function of its own. */
#if !defined(truncated_quotient)
#define truncated_quotient(a, b) FN(trunc)(a / b)
#endif
BINARY(div_trunc, truncated_quotient(a, b))
UNARY_WITH(scale, (a * x))
UNARY_WITH(scale_down, a / x)
UNARY(reciprocal, 1 / a)
UNARY(sqrt, FN(sqrt)(a))
UNARY(rsqrt, 1 / FN(sqrt)(a))
TERNARY_WITH(addcdiv, a + x * b / c)
UNARY(deg2rad, (a * (T)0.017453292519943295769236907684886))
UNARY(rad2deg, (a * (T)57.295779513082320876798154814105))
UNARY(angle, a != a ? a : a < 0 ? (T)3.14159265358979323846 : 0)
UNARY(conj_physical, a)
BINARY(copysign, FN(copysign)(a, b))
BINARY_WITH(native_dropout_backward, (a * b) * x)
#if !FORMULAS_BITS
UNARY(abs, FN(fabs)(a))
#endif

/* Unlike in maximum and minimum, the operand that is not NaN is the result. */
BINARY(fmax, b != b || a > b ? a : b)
BINARY(fmin, b != b || a < b ? a : b)

/* As in ATen, which decides what an infinite end gives: from a if |weight| < 0.5, else from b. Both ends are exact. */
ALWAYS_INLINE T between(T a, T b, T weight)
{
    int32_t from_end = !((weight > (T)-0.5) & (weight < (T)0.5));
    return fused(from_end ? weight - 1 : weight, b - a, from_end ? b : a);
}
TERNARY(lerp_tensor, between(a, b, c))
BINARY_WITH(lerp, between(a, b, x))

/* ---- Rounding ------------------------------------------------------------------------------------------ */

UNARY(ceil, FN(ceil)(a))
UNARY(floor, FN(floor)(a))
UNARY(round, FN(rint)(a))
UNARY(trunc, FN(trunc)(a))
UNARY(frac, a - FN(trunc)(a))
/* x is a power of ten. Negative powers are not exact, so round_down divides by the positive one. */
UNARY_WITH(round_up, (FN(rint)(a * x) / x))
UNARY_WITH(round_down, FN(rint)(a / x) * x)

/* ---- Classes of numbers -------------------------------------------------------------------------------- */

TEST(isnan, a != a)
TEST(isinf, FN(fabs)(a) == INFINITY)
TEST(isfinite, FN(fabs)(a) < INFINITY)
TEST(isposinf, a == INFINITY)
TEST(isneginf, a == -INFINITY)
TEST(isreal, 1)
TEST(signbit, FN(copysign)((T)1, a) < 0)
UNARY_WITH(replace_non_finite, a != a ? x : a == INFINITY ? y : a == -INFINITY ? z : a)
