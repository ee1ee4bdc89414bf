/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of complex numbers, for every plugin. As in ATen, products follow the plain formula and quotients
 * Smith's (1962).
 *
 * The includer has the words FN and ALWAYS_INLINE, and defines PAIR (a struct of two parts, re and im), PART (the
 * type of a part) and from_parts(re, im).
 */
#ifndef TENON_FORMULAS_COMPLEX_ARITHMETIC_H
#define TENON_FORMULAS_COMPLEX_ARITHMETIC_H

ALWAYS_INLINE PAIR plus(PAIR a, PAIR b)
{
    return from_parts(a.re + b.re, a.im + b.im);
}
ALWAYS_INLINE PAIR minus(PAIR a, PAIR b)
{
    return from_parts(a.re - b.re, a.im - b.im);
}
ALWAYS_INLINE PAIR times(PAIR a, PAIR b)
{
    return from_parts(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
ALWAYS_INLINE PAIR scaled(PAIR a, PART x)
{
    return from_parts(a.re * x, a.im * x);
}
ALWAYS_INLINE PAIR over(PAIR a, PAIR b)
{
    PART re = FN(fabs)(b.re), im = FN(fabs)(b.im), ratio, share;
    if (re == 0 && im == 0) return from_parts(a.re / re, a.im / im);
    if (re >= im) {
        ratio = b.im / b.re;
        share = 1 / (b.re + b.im * ratio);
        return from_parts((a.re + a.im * ratio) * share, (a.im - a.re * ratio) * share);
    }
    ratio = b.re / b.im;
    share = 1 / (b.re * ratio + b.im);
    return from_parts((a.re * ratio + a.im) * share, (a.im * ratio - a.re) * share);
}
ALWAYS_INLINE PART magnitude(PAIR a)
{
    return FN(hypot)(a.re, a.im);
}
ALWAYS_INLINE PAIR sign_of(PAIR a)
{
    PART size = magnitude(a);
    return size == 0 ? from_parts(0, 0) : from_parts(a.re / size, a.im / size);
}
/* A factor of 1 is left out, as 1 + 0i times infinity has a NaN. */
ALWAYS_INLINE PAIR times_unless_1(PAIR x, PAIR b)
{
    return x.re == 1 && x.im == 0 ? b : times(x, b);
}
/* Between a and b at this weight: lerp. */
ALWAYS_INLINE PAIR between(PAIR a, PAIR b, PAIR weight)
{
    PAIR apart = minus(b, a);
    return weight.re * weight.re + weight.im * weight.im < (PART)0.25
               ? plus(a, times(weight, apart))
               : minus(b, times(apart, minus(from_parts(1, 0), weight)));
}

#endif
