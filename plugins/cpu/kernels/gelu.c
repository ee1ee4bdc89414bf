/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gelu = a Phi(a) and its derivative for floats (DTYPE=f32|f64|f16|bf16), Phi the area under the normal
 * curve. The approximation by tanh is in smooth.c.
 */
#include "loops.h"
#include "products.h"
#if defined(DTYPE_F64)
#include "vector_math.h"
#endif

#if defined(DTYPE_F32) && defined(LEVEL_AVX512)
#include "gelu_tables.h"

LOOP(gelu, vector_unary(p[0], p[1], n, gelu_lanes))
LOOP(gelu_backward, vector_binary(p[0], p[1], p[2], n, gelu_slope_lanes))
#else

/* Arguments are cut here; results no longer change. */
#if defined(DTYPE_F64)
#define ARGUMENT_END 1000
#else
#define ARGUMENT_END 15
#endif

#if defined(DTYPE_F64)
#define SQRT_HALF      0.70710678118654752440
#define SQRT_HALF_REST (-4.8336466567264565e-17) /* the rounding error of the float64 */
#define TWO_BY_ROOT_PI 1.12837916709551257390    /* 2 / sqrt(pi) */

/*
 * area = Phi(a), density = e^(-a^2 / 2). The area is erfc(y) / 2 with y = -a / sqrt 2; the rounding error of
 * y enters to first order.
 */
ALWAYS_INLINE void normal_curve(const T *a, int64_t n, T *area, T *density)
{
    T head[CPU_CHUNK], rest[CPU_CHUNK];
    for (int64_t i = 0; i < n; i++) {
        T z = a[i] > ARGUMENT_END ? ARGUMENT_END : a[i] < -ARGUMENT_END ? -ARGUMENT_END : a[i];
        head[i] = -z * SQRT_HALF;
        rest[i] = product_rest(-z, SQRT_HALF, head[i]) - z * SQRT_HALF_REST;
    }
    vector_unary(area, head, n, SLEEF(erfc, 15));
    for (int64_t i = 0; i < n; i++) {
        density[i] = cpu_exp_f64(-head[i] * head[i]);
        area[i] = 0.5 * (area[i] - TWO_BY_ROOT_PI * density[i] * rest[i]);
    }
}
#else
#if CPU_IS_HALF
/* Phi(-z) = e^(-z^2 / 2) t P(t), t = 1 / (1 + 0.27 z). P is a minimax fit of our own up to 14.8 (error 2^-19). */
ALWAYS_INLINE T tail_ratio(T z)
{
    T t = 1 / fused(0.27f, z, 1), q = -0.06086180359125137f;
    q = fused(q, t, 0.15861967206001282f);
    q = fused(q, t, -0.02444649673998356f);
    q = fused(q, t, 0.11782234907150269f);
    q = fused(q, t, 0.09270185977220535f);
    q = fused(q, t, 0.10848040133714676f);
    q = fused(q, t, 0.10768343508243561f);
    return q * t;
}
#else
#define FUSED_W cpu_fused_f64
#include "normal_tail.h"
#endif

/* Clamps |a|; NaN maps to the limit. By bits, since of a condition the compiler would make two loops. */
ALWAYS_INLINE T size_of(T a)
{
    uint32_t bits = bits_of_float(a) & 0x7fffffffu, end = bits_of_float(ARGUMENT_END);
    return float_of_bits(bits < end ? bits : end);
}
/* Where e^(-a^2 / 2) is a normal number. An element's bits do not depend on which of the loops computes it. */
#define NEAR 13
ALWAYS_INLINE power square_power(T x, T rest, const bool near)
{
    return near ? cpu_power_f32_near(x, rest) : cpu_power_f32_below(x, rest);
}

/* density = e^(-a^2 / 2), for |a| in z. Half types do without the rounding error of the square. */
ALWAYS_INLINE W normal_density(T z, const bool near)
{
    T square = z * z;
#if CPU_IS_HALF
    T exponent = (T)(-0.5 * 1.44269504088896340736) * square;
    if (near) return cpu_exp2_shifted_f32(exponent, 0x1.8p23f + 127);
    return cpu_exp2_shifted_f32(exponent, 0x1.8p23f + 127 + 64) * 0x1p-64f;
#else
    power e = square_power(-0.5f * square, -0.5f * product_rest(z, z, square), near);
    return (1 + (W)e.more) * (W)(e.scale[0] * e.scale[1]);
#endif
}
/* Phi(a) */
ALWAYS_INLINE W normal_area(T a, const bool near, W *density)
{
    T z = near ? FN(__builtin_fabs)(a) : size_of(a);
    *density = normal_density(z, near);
    W tail = *density * tail_ratio((W)z);
    return a < 0 ? tail : 1 - tail;
}
#endif

#define DENSITY_AT_0 ((W)0.39894228040143267794) /* 1 / sqrt(2 pi) */

ALWAYS_INLINE T gelu_of(T a, W area)
{
    return (T)((W)a * area);
}
ALWAYS_INLINE T slope_of(T g, T a, W area, W density)
{
    W pull = density == 0 ? 0 : (W)a * density * DENSITY_AT_0;
    T slope = (T)((W)g * (area + pull));
    return a != a ? a : slope; /* the density of NaN was cut */
}

#if defined(DTYPE_F64)
/* Where Phi is subnormal it is computed in long double. Below TAIL_END the result is 0. */
#define TAIL_BEGIN (-37)
#define TAIL_END   (-39)
ALWAYS_INLINE void repair_tail(T *out, const T *a, int64_t n)
{
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= (a[i] < TAIL_BEGIN) & (a[i] > TAIL_END);
    for (int64_t i = 0; any && i < n; i++)
        if (a[i] < TAIL_BEGIN && a[i] > TAIL_END)
            out[i] = (T)((long double)a[i] * erfcl(-(long double)a[i] * 0.707106781186547524400844L) / 2);
}
KERNEL(gelu)
{
    T area[CPU_CHUNK], density[CPU_CHUNK];
    const T *a = p[1];
    normal_curve(a, n, area, density);
    for (int64_t i = 0; i < n; i++) area[i] = gelu_of(a[i], area[i]);
    repair_tail(area, a, n);
    memcpy(p[0], area, (size_t)n * sizeof(T));
}
KERNEL(gelu_backward)
{
    T *o = p[0], area[CPU_CHUNK], density[CPU_CHUNK];
    const T *g = p[1], *a = p[2];
    normal_curve(a, n, area, density);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = slope_of(g[i], a[i], area[i], density[i]);
}
#else
#if CPU_IS_HALF || !defined(__FMA__)
ALWAYS_INLINE T gelu_by(T a, const bool near)
{
    W density;
    return gelu_of(a, normal_area(a, near, &density));
}
#else
/*
 * In float32 alone, where products can be taken exactly. With z = |a| the result is a or 0, minus z Phi(-z) =
 *
 *     e^(-z^2 / 2) z / (z + 1) (1 + h) / 2
 *
 * h is a minimax fit of our own in s = 1 / (z + 3) - 3 / 16 (error 6e-9). It is at most 0.2, so its rounding error
 * matters little. The rounding error of the quotient z / (z + 1) is carried along.
 */
ALWAYS_INLINE T tail_correction(T s)
{
    T square = s * s, fourth = square * square;
    T low = fused(1.0814782820419147f, s, -0.004457793753293627f);
    T next = fused(-24.446633707731724f, s, -2.556803426156364f);
    T middle = fused(17.85482790124676f, s, -58.92231339049431f);
    T high = fused(-69.57643019792451f, s, 287.7889280649695f);
    T top = fused(5708.640044056735f, square, fused(913.2494564921938f, s, -1516.4665426534084f));
    return fused(top, fourth * fourth, fused(fused(high, square, middle), fourth, fused(next, square, low)));
}
ALWAYS_INLINE T gelu_by(T a, const bool near)
{
    T z = near ? FN(__builtin_fabs)(a) : size_of(a), square = z * z;
    power e = square_power(-0.5f * square, -0.5f * product_rest(z, z, square), near);
    T below = z + 1, part = below - z, below_rest = (z - (below - part)) + (1 - part);
    T over = 1 / below;
    T share = z * over;
    T share_rest = product_rest(z, over, share) - share * (product_rest(over, below, 1) + over * below_rest);
    T h = tail_correction(1 / (z + 3) - 0.1875f), more = fused(h, e.more, h);
    T tail =
        (share + fused(share, e.more, fused(share, more, share_rest))) * (0.5f * e.scale[0]) * e.scale[1];
    /* Below 0 the zero is negative; at -Inf the term a - a is NaN. */
    return (a < 0 ? -(a - a) : a) - tail;
}
#endif
ELEM(T, gelu_near, (T a), gelu_by(a, true))
ELEM(T, gelu_any, (T a), gelu_by(a, false))
KERNEL(gelu)
{
    if (all_near(p[1], n, NEAR))
        unary(p, n, gelu_near);
    else
        unary(p, n, gelu_any);
}
ALWAYS_INLINE T gelu_backward_elem(T g, T a)
{
    W density, area = normal_area(a, false, &density);
    return slope_of(g, a, area, density);
}
LOOP(gelu_backward, binary(p, n, gelu_backward_elem))
#endif
#endif

POINTWISE_KERNELS(gelu) = {
    ENTRY(gelu),
    ENTRY(gelu_backward),
    END_OF_KERNELS,
};
