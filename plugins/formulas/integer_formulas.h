/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators that integers alone have, or compute in their own way; see arithmetic_formulas.h.
 * TYPE_BITS is the width of the dtype. Overflow wraps and nothing traps: a division by zero gives 0, but the
 * includer reports it.
 */

BINARY(bitwise_and, (a & b))
BINARY(bitwise_or, a | b)
BINARY(bitwise_xor, a ^ b)
#if FORMULAS_SMALL != 1
UNARY(bitwise_not, ~a)
#endif

#if FORMULAS_SMALL == 0

/* ---- Division ------------------------------------------------------------------------------------------ */

/* Division by -1 is a negation, which does not trap for the lowest number. */
BINARY(div_trunc, b == 0 ? 0 : b == -1 ? -a : a / b)
BINARY(fmod, b == 0 || b == -1 ? 0 : a % b)
ALWAYS_INLINE T floored_quotient(T a, T b)
{
    T quotient = div_trunc_elem(a, b), rest = a - quotient * b;
    return b != 0 && rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
}
ALWAYS_INLINE T floored_remainder(T a, T b)
{
    T rest = fmod_elem(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
BINARY(floor_divide, floored_quotient(a, b))
BINARY(remainder, floored_remainder(a, b))
TERNARY_WITH(addcdiv, a + div_trunc_elem(x * b, c))

ALWAYS_INLINE T greatest_divisor(T a, T b)
{
    while (b != 0) {
        T rest = b == -1 ? 0 : a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}
ALWAYS_INLINE T least_multiple(T a, T b)
{
    T divisor = greatest_divisor(a, b);
    T multiple = divisor == 0 ? 0 : a / divisor * b;
    return multiple < 0 ? -multiple : multiple;
}
BINARY(gcd, greatest_divisor(a, b))
BINARY(lcm, least_multiple(a, b))

/* ---- Powers -------------------------------------------------------------------------------------------- */

/* By squaring; negative exponents give 0 except for 1 and -1. */
ALWAYS_INLINE T power_of(T a, T exponent)
{
    T result = 1;
    if (exponent < 0) return a == 1 ? 1 : a == -1 ? (exponent & 1 ? -1 : 1) : 0;
    for (; exponent; exponent >>= 1, a *= a)
        if (exponent & 1) result *= a;
    return result;
}
BINARY(pow, power_of(a, b))
UNARY_WITH(power, power_of(a, x))

/* ---- Shifts -------------------------------------------------------------------------------------------- */

/* A shift by the width or more leaves 0 to the left, the sign to the right. */
BINARY(bitwise_left_shift, b < 0 || b >= TYPE_BITS ? 0 : a << b)
BINARY(bitwise_right_shift, a >> (b < 0 || b >= TYPE_BITS ? TYPE_BITS - 1 : b))

/* ---- What is trivial for integers ---------------------------------------------------------------------- */

UNARY(abs, a < 0 ? -a : a)
BINARY(fmax, a > b ? a : b)
BINARY(fmin, a < b ? a : b)
UNARY(same, a)
TEST(never, 0)
TEST(always, 1)
TEST(signbit, a < 0)
#endif
