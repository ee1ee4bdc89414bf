/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers with twice the digits of a float64: an unevaluated sum of two, the second below half a ULP of the
 * first (Dekker, "A floating-point technique for extending the available precision", 1971). For the few
 * places where a special function cancels: an operation costs about twenty of float64 and is exact to about
 * 2^-104. For finite numbers away from the ends of the range.
 */
#ifndef TENON_CPU_WIDE_H
#define TENON_CPU_WIDE_H

#include <math.h>

typedef struct wide {
    double high, low;
} wide;

/* |a| >= |b|, or a is 0. */
static inline wide wide_quick_sum(double a, double b)
{
    double sum = a + b;
    return (wide){sum, b - (sum - a)};
}
/* Exactly a + b (Knuth, "The Art of Computer Programming" 2, 4.2.2). */
static inline wide wide_sum(double a, double b)
{
    double sum = a + b, part = sum - a;
    return (wide){sum, (a - (sum - part)) + (b - part)};
}
/* Exactly a b. */
static inline wide wide_product(double a, double b)
{
    double product = a * b;
    return (wide){product, fma(a, b, -product)};
}

static inline wide wide_of(double a)
{
    return (wide){a, 0};
}
static inline wide wide_negative(wide a)
{
    return (wide){-a.high, -a.low};
}
static inline wide wide_add(wide a, wide b)
{
    wide high = wide_sum(a.high, b.high), low = wide_sum(a.low, b.low);
    high = wide_quick_sum(high.high, high.low + low.high);
    return wide_quick_sum(high.high, high.low + low.low);
}
static inline wide wide_sub(wide a, wide b)
{
    return wide_add(a, wide_negative(b));
}
static inline wide wide_mul(wide a, wide b)
{
    wide p = wide_product(a.high, b.high);
    return wide_quick_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}
static inline wide wide_scale(wide a, double b)
{
    wide p = wide_product(a.high, b);
    return wide_quick_sum(p.high, p.low + a.low * b);
}
/* Two digits of long division, and the rest as a third. */
static inline wide wide_div(wide a, wide b)
{
    double first = a.high / b.high;
    wide rest = wide_sub(a, wide_scale(b, first));
    double second = rest.high / b.high;
    rest = wide_sub(rest, wide_scale(b, second));
    wide quotient = wide_quick_sum(first, second);
    return wide_add(quotient, wide_of(rest.high / b.high));
}
static inline wide wide_sqrt(double a)
{
    double root = sqrt(a);
    wide rest = wide_sub(wide_of(a), wide_product(root, root));
    return wide_quick_sum(root, rest.high / (2 * root));
}

#endif
