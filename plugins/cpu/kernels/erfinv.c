/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse of the error function of float32 (DTYPE=f32), which float64 has in special_error.c: erfinv(x) =
 * x P(w), w = -log(1 - x^2) (Giles, "Approximating the erfinv function", 2010), with minimax fits
 * of our own (errors 2e-9, 1e-8): in w up to 5, in its root beyond, up to the largest number below 1.
 */
#include "products.h"
#include "steps.h"

#define NEAR 5
/* The last step in float64: derivatives are powers of the result. */
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
/* The product in float64 is exact: next to 1 all its digits cancel. */
ALWAYS_INLINE T one_less_square(T a, T unused)
{
    return (T)(1 - (double)a * (double)a);
}
ALWAYS_INLINE T erfinv_after(T a, T log, T x, T y)
{
    T w = -log, value = (T)((double)a * (w < NEAR ? erfinv_near(w) : erfinv_far(w)));
    return w == INFINITY ? a * w : value;
}
static void erfinv(void *const *p, int64_t n, const cpu_scalars *s)
{
    through(p, n, 0, 0, one_less_square, SLEEF(log, 10), erfinv_after);
}

extern const cpu_pointwise_entry CPU_NAME(cpu_erfinv)[];
const cpu_pointwise_entry CPU_NAME(cpu_erfinv)[] = {
    {CPU_OP_erfinv, erfinv},
    {0, NULL},
};
