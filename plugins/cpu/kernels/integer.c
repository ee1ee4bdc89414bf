/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators that integers alone have, or compute in their own way (DTYPE=i32|i64, and u8|b8 for the
 * bitwise ones). Overflow wraps (-fwrapv) and nothing traps: a division by zero gives 0, but pointwise.c
 * refuses it before.
 */
#include "loops.h"

BINARY(bitwise_and, a &b)
BINARY(bitwise_or, a | b)
BINARY(bitwise_xor, a ^ b)
#if !defined(DTYPE_B8)
UNARY(bitwise_not, ~a)
#endif

#if defined(DTYPE_I32) || defined(DTYPE_I64)
#define TYPE_BITS ((T)(sizeof(T) * 8))

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
UNARY(square, (a * a))
ELEM(T, pow_scalar_elem, (T a, T x, T y, T z), power_of(a, x))
KERNEL(pow_scalar)
{
    if (s->i[0] == 2)
        square_kernel(p, n, s);
    else
        unary_with(p, n, SCALARS, pow_scalar_elem);
}

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

POINTWISE_KERNELS(integer) = {
    ENTRY(bitwise_and),
    ENTRY(bitwise_or),
    ENTRY(bitwise_xor),
#if !defined(DTYPE_B8)
    ENTRY(bitwise_not),
#endif
#if defined(DTYPE_I32) || defined(DTYPE_I64)
    ENTRY(div_trunc),
    ENTRY(fmod),
    ENTRY(floor_divide),
    ENTRY(remainder),
    ENTRY(addcdiv),
    ENTRY(gcd),
    ENTRY(lcm),
    ENTRY(pow),
    ENTRY(pow_scalar),
    ENTRY(bitwise_left_shift),
    ENTRY(bitwise_right_shift),
    ENTRY(abs),
    ENTRY(fmax),
    ENTRY(fmin),
    ENTRY(signbit),
    ENTRY_BY(ceil, same),
    ENTRY_BY(floor, same),
    ENTRY_BY(round, same),
    ENTRY_BY(round_decimals, same),
    ENTRY_BY(trunc, same),
    ENTRY_BY(conj_physical, same),
    ENTRY_BY(nan_to_num, same),
    ENTRY_BY(isnan, never),
    ENTRY_BY(isinf, never),
    ENTRY_BY(isposinf, never),
    ENTRY_BY(isneginf, never),
    ENTRY_BY(isfinite, always),
    ENTRY_BY(isreal, always),
#endif
    END_OF_KERNELS,
};
