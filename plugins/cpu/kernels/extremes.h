/* SPDX-License-Identifier: Apache-2.0 */
/* The larger and the smaller of two floats, for kernels that choose. */
#ifndef TENON_CPU_EXTREMES_H
#define TENON_CPU_EXTREMES_H

#include "vocabulary.h"

/* NaN wins. */
ALWAYS_INLINE T larger(T a, T b)
{
    return a != a ? a : b != b ? b : a > b ? a : b;
}
ALWAYS_INLINE T smaller(T a, T b)
{
    return a != a ? a : b != b ? b : a < b ? a : b;
}
ALWAYS_INLINE T clamp_one(T a, T low, T high)
{
    return smaller(larger(a, low), high);
}

#endif
