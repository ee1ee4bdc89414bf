/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators with one formula for all real dtypes, for every plugin: UNARY(neg, -a) names an operator
 * and the formula of an element. a, b and c are the operands in the order of the schema; x, y and z are the
 * scalar arguments.
 *
 * The includer defines the macros (UNARY, BINARY, TERNARY, the same _WITH scalars, TEST and COMPARE, whose
 * results are bool) and the words T, R, FN, is_nan, fused and ALWAYS_INLINE, and includes extremes.h first.
 * FORMULAS_SMALL: 1 for bool, 2 for uint8, whose other operators are computed in a wider type; else 0.
 * FORMULAS_BITS: 1 if the includer computes neg, relu and abs of half types from their bits.
 *
 * Integers wrap on overflow.
 */

COMPARE(eq, a == b)
COMPARE(ne, a != b)
COMPARE(lt, a < b)
COMPARE(le, a <= b)
COMPARE(gt, a > b)
COMPARE(ge, a >= b)
COMPARE(logical_and, (a != 0) & (b != 0))
COMPARE(logical_or, (a != 0) | (b != 0))
COMPARE(logical_xor, (a != 0) ^ (b != 0))
TEST(logical_not, a == 0)
BINARY(maximum, larger(a, b))
BINARY(minimum, smaller(a, b))

#if FORMULAS_SMALL != 1
BINARY(plain_add, a + b)
BINARY_WITH(scaled_add, a + x * b)
BINARY_WITH(sub, a - x * b)
BINARY(mul, (a * b))
#endif

#if FORMULAS_SMALL == 0
BINARY_WITH(rsub, b - x * a)
UNARY(sign, (T)((a > 0) - (a < 0)))
TERNARY_WITH(addcmul, a + x * b * c)
BINARY(heaviside, a == 0 ? b : (T)(a > 0))
UNARY_WITH(threshold, a <= x ? y : a)
BINARY_WITH(threshold_backward, b <= x ? 0 : a)
UNARY_WITH(clamp_any, clamped(a, x, y))
UNARY_WITH(clamp_between, clamped_between(a, x, y)) /* for limits that are not NaN */
UNARY_WITH(clamp_min, larger(a, x))
UNARY_WITH(clamp_max, smaller(a, x))
TERNARY(clamp_both, clamped(a, b, c))
#if !FORMULAS_BITS
UNARY(neg, -a)
UNARY(relu, a < 0 ? 0 : a)
#endif
#endif
