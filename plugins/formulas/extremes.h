/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The larger and the smaller of two real numbers, and what is clamped between two. The includer has T, is_nan
 * and ALWAYS_INLINE.
 */
#ifndef TENON_FORMULAS_EXTREMES_H
#define TENON_FORMULAS_EXTREMES_H

/* The result is NaN if an operand is NaN, and of equal operands the first: zeros of both signs are equal. */
ALWAYS_INLINE T larger(T a, T b)
{
    return ((a >= b) | is_nan(a)) ? a : b;
}
ALWAYS_INLINE T smaller(T a, T b)
{
    return ((a <= b) | is_nan(a)) ? a : b;
}
ALWAYS_INLINE T clamped(T a, T low, T high)
{
    return smaller(larger(a, low), high);
}
/* The same for limits that are not NaN: one instruction for each. */
ALWAYS_INLINE T clamped_between(T a, T low, T high)
{
    T above = a < low ? low : a;
    return above > high ? high : above;
}

#endif
