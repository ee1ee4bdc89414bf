/* SPDX-License-Identifier: Apache-2.0 */
/* The larger and the smaller of two floats, for kernels that choose. */
#ifndef TENON_CPU_EXTREMES_H
#define TENON_CPU_EXTREMES_H

#include "vocabulary.h"

/* NaN wins. */
ALWAYS_INLINE T larger(T a, T b)
{
    return ((a > b) | (a != a)) ? a : b;
}
ALWAYS_INLINE T smaller(T a, T b)
{
    return ((a < b) | (a != a)) ? a : b;
}
ALWAYS_INLINE T clamp_one(T a, T low, T high)
{
    return smaller(larger(a, low), high);
}
/* The same where neither end is NaN: one instruction for each. */
ALWAYS_INLINE T clamp_between(T a, T low, T high)
{
    T above = a < low ? low : a;
    return above > high ? high : above;
}

#endif
