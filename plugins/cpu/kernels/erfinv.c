/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse of the error function for float32 (DTYPE=f32); that for float64 is in special_error.c.
 * erfinv(x) = x P(w), w = -log(1 - x^2) (Giles, "Approximating the erfinv function", 2010). P are minimax
 * fits of our own: in w up to 5 (error 2e-9), in the root of w from there to the largest number below 1
 * (error 1e-8).
 */
#include "products.h"
#include "steps.h"

#define NEAR 5
/* The last step is in float64, since derivatives are powers of the result. */
ALWAYS_INLINE double erfinv_near(T w)
{
    T s = w - 2.5f, p = 3.355432837328408e-10f;
    p = fused(p, s, -8.772809251764556e-09f);
    p = fused(p, s, 1.8037170461248025e-08f);
    p = fused(p, s, 4.6589191482848944e-07f);
    p = fused(p, s, -3.434611661169356e-06f);
    p = fused(p, s, -4.9619110950260395e-06f);
    p = fused(p, s, 0.00021828263151519635f);
    p = fused(p, s, -0.0012527446619446253f);
    p = fused(p, s, -0.004177339405371425f);
    p = fused(p, s, 0.24664028763557097f);
    return (double)p * (double)s + 1.501409353513904;
}
ALWAYS_INLINE double erfinv_far(T w)
{
    T s = FN(sqrt)(w) - 3, p = 0.00011475361655212303f;
    p = fused(p, s, -0.00030985741362148274f);
    p = fused(p, s, -5.402459145950783e-05f);
    p = fused(p, s, 0.0014850290583498218f);
    p = fused(p, s, -0.0035994356036828253f);
    p = fused(p, s, 0.005687110258690296f);
    p = fused(p, s, -0.007636786166261616f);
    p = fused(p, s, 0.009445264554717793f);
    p = fused(p, s, 1.0016749351689553f);
    return (double)p * (double)s + 2.83297680152381;
}
/* In float64, where the product is exact: next to 1 all digits of float32 cancel. */
ELEM(T, one_less_square, (T a), (T)(1 - (double)a * (double)a))
ALWAYS_INLINE T erfinv_after(T a, T log)
{
    T w = -log, value = (T)((double)a * (w < NEAR ? erfinv_near(w) : erfinv_far(w)));
    return w == INFINITY ? a * w : value;
}
LOOP(erfinv, through(p, n, one_less_square, SLEEF(log, 10), erfinv_after))

POINTWISE_KERNELS(erfinv) = {
    ENTRY(erfinv),
    END_OF_KERNELS,
};
