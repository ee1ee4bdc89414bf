/* SPDX-License-Identifier: Apache-2.0 */
/* What is the same for integers and for bytes: bits and extremes; for T of the file that includes this. */
#ifndef TENON_CPU_BITS_H
#define TENON_CPU_BITS_H

#include "loops.h"

ALWAYS_INLINE T bitwise_and_one(T a, T b)
{
    return a & b;
}
static void bitwise_and(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, bitwise_and_one);
}

ALWAYS_INLINE T bitwise_or_one(T a, T b)
{
    return a | b;
}
static void bitwise_or(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, bitwise_or_one);
}

ALWAYS_INLINE T bitwise_xor_one(T a, T b)
{
    return a ^ b;
}
static void bitwise_xor(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, bitwise_xor_one);
}

ALWAYS_INLINE T maximum_one(T a, T b)
{
    return a > b ? a : b;
}
static void maximum(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, maximum_one);
}

ALWAYS_INLINE T minimum_one(T a, T b)
{
    return a < b ? a : b;
}
static void minimum(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, minimum_one);
}

#endif
