/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp, tanh, the smooth activations and their derivatives for floats (DTYPE=f32|f64|f16|bf16), each in one
 * loop.
 *
 * No formula subtracts nearly equal numbers. With t = e^-|a| a sigmoid is t / (1 + t) below 0 and 1 / (1 + t)
 * above; it stays exact down to the smallest number, since the power of two in t is multiplied last. A
 * rounding error in an exponent would grow with the exponent, so it is carried into the power.
 *
 * Both branches of a condition are computed before it: a power inside a branch makes slow vector code.
 */
#include "loops.h"
#include "products.h"

/* ---- Powers ------------------------------------------------------------------------------------------ */

/*
 * The kernel NAME for NAME_of(a, near): most runs have only magnitudes up to `limit`, for which powers are cheaper.
 * Both loops give the same bits.
 */
#define NEAR_OR_FAR(name, limit)                         \
    ELEM(T, name##_near_elem, (T a), name##_of(a, true)) \
    ELEM(T, name##_elem, (T a), name##_of(a, false))     \
    KERNEL(name)                                         \
    {                                                    \
        if (all_near(p[1], n, limit))                    \
            unary(p, n, name##_near_elem);               \
        else                                             \
            unary(p, n, name##_elem);                    \
    }

/* The same for NAME(g, a) and NAME_near(g, a), where `a` is the number that may be near. */
#define NEAR_OR_FAR_BINARY(kernel, name, limit) \
    KERNEL(kernel)                              \
    {                                           \
        if (all_near(p[2], n, limit))           \
            binary(p, n, name##_near);          \
        else                                    \
            binary(p, n, name);                 \
    }

ALWAYS_INLINE T exp_of(T a, const bool near)
{
#if !defined(DTYPE_F64)
    if (near) {
        power e = cpu_power_f32_near(a, 0);
        return (1 + e.more) * e.scale[0];
    }
#endif
    return E_POWER(exp)(a);
}
NEAR_OR_FAR(exp, CPU_POWER_NEAR)

ALWAYS_INLINE T scaled(T a, power e)
{
    return a * e.scale[0] * e.scale[1];
}
ALWAYS_INLINE T value_of(power e)
{
    return scaled(1 + e.more, e);
}
/* The power minus 1, for a power of at most 1; 2^n - 1 is exact. */
ALWAYS_INLINE T less_one(power e)
{
    T whole = e.scale[0] * e.scale[1];
    return fused(whole, e.more, whole - 1);
}

ALWAYS_INLINE T minus_magnitude(T a)
{
    return -FN(fabs)(a);
}

#if !defined(DTYPE_F64)
/*
 * With t = e^-2|a|: (1 - t) / (1 + t), and from 0.55 on 1 - 2 t / (1 + t). For float64 the error would be 2
 * ULP.
 */
ALWAYS_INLINE T tanh_of(T a, const bool near)
{
    power e = power_below(2 * minus_magnitude(a), near);
    T less = less_one(e), twice = 2 * value_of(e), z = FN(fabs)(a);
    sign_bits far = sign_mask((T)0.55 - z);
    T over = pick(far, twice, -less) / (2 + less);
    return FN(copysign)(pick(far, 1 - over, over), a);
}
NEAR_OR_FAR(tanh, CPU_POWER_NEAR / 2)
#endif

/* ---- Sigmoid and silu -------------------------------------------------------------------------------- */

/* The argument is cut here: functions that are a e^a below are 0 long before. */
#define ALL_OVER ((T)-1000)

/* a e^a, for the power e of a. The term a - a makes -Inf give NaN. */
ALWAYS_INLINE T times_power(T a, power e)
{
    T cut = a < ALL_OVER ? ALL_OVER : a;
    return scaled(fused(cut, e.more, cut), e) - (a - a);
}
/* a sigmoid(v) for a with the sign of v, e the power of -|v|. */
ALWAYS_INLINE T gated(T a, power e)
{
    T below = 1 + value_of(e), cut = a < ALL_OVER ? ALL_OVER : a;
    sign_bits negative = sign_mask(a);
    T over = pick(negative, fused(cut, e.more, cut), a) / below;
    return pick(negative, scaled(over, e) - (a - a), over);
}

#if defined(DTYPE_F64)
ALWAYS_INLINE T sigmoid_of(T a, const bool near)
{
    power e = power_below(minus_magnitude(a), near);
    sign_bits below = sign_mask(a);
    T over = pick(below, 1 + e.more, 1) / (1 + value_of(e));
    return over * pick(below, e.scale[0], 1) * pick(below, e.scale[1], 1);
}
ALWAYS_INLINE T silu_of(T a, const bool near)
{
    return gated(a, power_below(minus_magnitude(a), near));
}
#else
/*
 * 1 more than a normal power. Of a large scale the sum with 1 may lack a part of the 1, which is added to the rest. Half
 * types do without.
 */
ALWAYS_INLINE T one_and(power e)
{
    T sum = 1 + e.scale[0];
    if (CPU_IS_HALF) return fused(e.scale[0], e.more, sum);
    return sum + fused(e.scale[0], e.more, 1 - (sum - e.scale[0]));
}
/*
 * 1 + e^-a. Where powers may not be normal numbers, arguments are cut: above, the sum is 1 already, and numbers below are
 * computed in another way.
 */
ALWAYS_INLINE T one_and_power(T a, const bool near)
{
    T cut = a > CPU_POWER_NEAR ? CPU_POWER_NEAR : a < -CPU_POWER_NEAR ? -CPU_POWER_NEAR : a;
    return one_and(cpu_power_f32_near(near ? -a : -cut, 0));
}
ALWAYS_INLINE T sigmoid_of(T a, const bool near)
{
    T over = 1 / one_and_power(a, near);
    if (near) return over;
    T below = value_of(power_below(minus_magnitude(a), false));
    return a < -CPU_POWER_NEAR ? below : over;
}
ALWAYS_INLINE T silu_of(T a, const bool near)
{
    T over = a / one_and_power(a, near);
    if (near) return over;
    T below = times_power(a, power_below(minus_magnitude(a), false));
    return a < -CPU_POWER_NEAR ? below : over;
}
#endif
NEAR_OR_FAR(sigmoid, CPU_POWER_NEAR)
NEAR_OR_FAR(silu, CPU_POWER_NEAR)

ALWAYS_INLINE T silu_slope_far(T g, T a)
{
    T t = value_of(power_below(minus_magnitude(a), false)), above = 1 / (1 + t), below = t * above;
    T sigma = a < 0 ? below : above, rest = a < 0 ? above : below;
    return g * sigma * (1 + a * rest);
}
#if defined(DTYPE_F64)
LOOP(silu_backward, binary(p, n, silu_slope_far))
#else
ALWAYS_INLINE T silu_slope_near(T g, T a)
{
    power e = cpu_power_f32_near(-a, 0);
    T sigma = 1 / one_and(e), rest = fused(e.scale[0], e.more, e.scale[0]) * sigma;
    return g * sigma * (1 + a * rest);
}
ALWAYS_INLINE T silu_slope(T g, T a)
{
    T z = FN(fabs)(a), near = silu_slope_near(g, z > CPU_POWER_NEAR ? 0 : a), far = silu_slope_far(g, a);
    return z <= CPU_POWER_NEAR ? near : far;
}
NEAR_OR_FAR_BINARY(silu_backward, silu_slope, CPU_POWER_NEAR)
#endif

/* ---- gelu by tanh: a sigmoid(v), v = 2 sqrt(2 / pi) (a + 0.044715 a^3) ----------------------------------
 */

#define LINEAR       1.5957691216057307117598
#define CUBIC        (LINEAR * 0.044715)
#define LINEAR_REST  ((T)(sizeof(T) == 8 ? -9.9693088091109203e-17 : LINEAR - (double)(float)LINEAR))
#define CUBIC_REST   ((T)(sizeof(T) == 8 ? -6.1751499181553154e-19 : CUBIC - (double)(float)CUBIC))
#define ARGUMENT_END 1000 /* arguments are cut here; results no longer change */

/* From GELU_NEAR on |v| may be beyond CPU_POWER_NEAR. */
#define GELU_NEAR 9.5f

/* e^-v for |v| up to CPU_POWER_NEAR if `near`, else for v > 0. Half types do without the rounding errors of the exponent. */
ALWAYS_INLINE power tanh_power(T z, const bool near)
{
    T square = z * z, term = (T)CUBIC * square, size, size_rest = 0;
    if (CPU_IS_HALF) {
        size = z * ((T)LINEAR + term);
    } else {
        T term_rest = product_rest((T)CUBIC, square, term) + (T)CUBIC * product_rest(z, z, square) +
                      CUBIC_REST * square;
        /* The larger term first, so that the rounding error is exact. */
        T large = term > (T)LINEAR ? term : (T)LINEAR, little = term > (T)LINEAR ? (T)LINEAR : term;
        T slope = large + little, slope_rest = (large - slope) + little + term_rest + LINEAR_REST;
        size = z * slope;
        size_rest = product_rest(z, slope, size) + z * slope_rest;
    }
#if !defined(DTYPE_F64)
    if (near) return CPU_IS_HALF ? cpu_power_f32_near(-size, 0) : cpu_power_f32_near(-size, -size_rest);
#endif
    return CPU_IS_HALF ? power_of(-size, 0) : power_of(-size, -size_rest);
}
ALWAYS_INLINE T cut_size(T a)
{
    T z = FN(fabs)(a);
    return z > ARGUMENT_END ? ARGUMENT_END : z;
}
ALWAYS_INLINE T gelu_slope_far(T g, T a)
{
    T t = value_of(tanh_power(cut_size(a), false)), above = 1 / (1 + t), below = t * above;
    T slope = below == 0 ? 0 : a * above * below * ((T)LINEAR + 3 * (T)CUBIC * a * a);
    return g * ((a < 0 ? below : above) + slope);
}
#if defined(DTYPE_F64)
UNARY(gelu_tanh, gated(a, tanh_power(cut_size(a), false)))
LOOP(gelu_tanh_backward, binary(p, n, gelu_slope_far))
#else
ALWAYS_INLINE T gelu_tanh_of(T a, const bool near)
{
    T z = FN(fabs)(a), cut = z > GELU_NEAR ? 0 : a;
    power e = tanh_power(near ? a : cut, true);
    T over = a / one_and(e);
    if (near) return over;
    T far = gated(a, tanh_power(cut_size(a), false));
    return z <= GELU_NEAR ? over : far;
}
NEAR_OR_FAR(gelu_tanh, GELU_NEAR)
ALWAYS_INLINE T gelu_slope_near(T g, T a)
{
    power e = tanh_power(a, true);
    T area = 1 / one_and(e), rest = fused(e.scale[0], e.more, e.scale[0]) * area;
    return g * fused(a * area * rest, (T)LINEAR + 3 * (T)CUBIC * a * a, area);
}
ALWAYS_INLINE T gelu_slope(T g, T a)
{
    T z = FN(fabs)(a), near = gelu_slope_near(g, z > GELU_NEAR ? 0 : a), far = gelu_slope_far(g, a);
    return z <= GELU_NEAR ? near : far;
}
NEAR_OR_FAR_BINARY(gelu_tanh_backward, gelu_slope, GELU_NEAR)
#endif

/* ---- mish -------------------------------------------------------------------------------------------- */

/*
 * mish = a tanh(log(1 + e^a)). With e = e^a and m = e (e + 2) the tanh is m / (m + 2). It rounds to 1 from
 * MISH_ONE on; below MISH_POWER mish is a e^a.
 */
#define MISH_ONE   ((T)(sizeof(T) == 4 ? 20 : 40))
#define MISH_POWER ((T)(sizeof(T) == 4 ? -40 : -80))
ALWAYS_INLINE T mish_elem(T a)
{
    power e = power_of(a > MISH_ONE ? MISH_ONE : a, 0);
    W t = (W)value_of(e), m = t * (t + 2);
    T cut = a < ALL_OVER ? ALL_OVER : a, far = scaled(fused(cut, e.more, cut), e) - (a - a);
    return a > MISH_ONE ? a : a < MISH_POWER ? far : (T)((W)a * (m / (m + 2)));
}
LOOP(mish, unary(p, n, mish_elem))
ALWAYS_INLINE T mish_backward_elem(T g, T a)
{
    T t = exp_elem(a > MISH_ONE ? MISH_ONE : a), m = t * (t + 2), w = m / (m + 2), sigma = t / (1 + t);
    T slope = w + a * sigma * (4 * (m + 1) / ((m + 2) * (m + 2)));
    return a > MISH_ONE ? g : g * slope;
}
LOOP(mish_backward, binary(p, n, mish_backward_elem))

/* ---- elu --------------------------------------------------------------------------------------------- */

/*
 * x: factor of the result below 0; y: factor of the number above 0; z: factor of the number below 0. A run
 * without negative numbers needs no power.
 */
ALWAYS_INLINE T elu_elem(T a, T x, T y, T z)
{
    T below = less_one(power_of(a * z, 0)) * x, above = a * y;
    return a < 0 ? below : above;
}
ELEM(T, positive_elu_elem, (T a, T x, T y, T z), (a * y))
static int32_t any_negative(const E *a, int64_t n)
{
    int32_t any = 0;
#if CPU_IS_HALF
    for (int64_t i = 0; i < n; i++) any |= a[i].bits >> 15;
#else
    for (int64_t i = 0; i < n; i++) any |= a[i] < 0;
#endif
    return any;
}
/* (alpha, scale, input_scale) */
KERNEL(elu)
{
    T x = (T)(s->f[0] * s->f[1]), y = (T)s->f[1], z = (T)s->f[2];
    if (any_negative(p[1], n))
        unary_with(p, n, x, y, z, elu_elem);
    else
        unary_with(p, n, x, y, z, positive_elu_elem);
}

ELEM(T, elu_slope_of_result, (T a, T b, T x, T y, T z), a *(b <= 0 ? z * (b + x) : y))
ALWAYS_INLINE T elu_slope_of_input(T g, T a, T x, T y, T z)
{
    T below = exp_elem(a * z) * (z * x);
    return g * (a <= 0 ? below : y);
}
/* (alpha, scale, input_scale, is_result) */
KERNEL(elu_backward)
{
    T x = (T)(s->f[0] * s->f[1]), y = (T)s->f[1], z = (T)s->f[2];
    if (s->i[3])
        binary_with(p, n, x, y, z, elu_slope_of_result);
    else
        binary_with(p, n, x, y, z, elu_slope_of_input);
}

/* ---- softplus ---------------------------------------------------------------------------------------- */

/*
 * log(1 + t) for t in [0, 1]. With s = t / (2 + t) it is 2 atanh(s) = t - (h - s (h + R)), h = t^2 / 2, R the
 * rest of the Taylor series of 2 atanh(s) / s.
 */
ALWAYS_INLINE T log_one_more(T t)
{
    T s = t / (2 + t), z = s * s, h = (T)0.5 * t * t, r = (T)(2.0 / 15);
#if defined(DTYPE_F64)
    r = (T)(2.0 / 37);
    r = fused(r, z, 2.0 / 35);
    r = fused(r, z, 2.0 / 33);
    r = fused(r, z, 2.0 / 31);
    r = fused(r, z, 2.0 / 29);
    r = fused(r, z, 2.0 / 27);
    r = fused(r, z, 2.0 / 25);
    r = fused(r, z, 2.0 / 23);
    r = fused(r, z, 2.0 / 21);
    r = fused(r, z, 2.0 / 19);
    r = fused(r, z, 2.0 / 17);
    r = fused(r, z, 2.0 / 15);
#endif
    r = fused(r, z, (T)(2.0 / 13));
    r = fused(r, z, (T)(2.0 / 11));
    r = fused(r, z, (T)(2.0 / 9));
    r = fused(r, z, (T)(2.0 / 7));
    r = fused(r, z, (T)(2.0 / 5));
    r = fused(r, z, (T)(2.0 / 3));
    return t - (h - s * fused(r, z, h));
}
ALWAYS_INLINE T softplus_of(T a, T beta, T threshold)
{
    T x = a * beta, log = log_one_more(exp_elem(minus_magnitude(x))), over = (x > 0 ? x + log : log) / beta;
    return x > threshold ? a : over;
}
UNARY_WITH(softplus, softplus_of(a, x, y))
ALWAYS_INLINE T softplus_slope(T g, T a, T beta, T threshold)
{
    T slope = g * sigmoid_elem(a * beta);
    return a * beta > threshold ? g : slope;
}
BINARY_WITH(softplus_backward, softplus_slope(a, b, x, y))

/* From the input alone, since devices differ in what the forward pass keeps in `buffer`. */
BINARY(log_sigmoid_backward, (a * sigmoid_elem(-b)))

POINTWISE_KERNELS(smooth) = {
    ENTRY(exp),
#if !defined(DTYPE_F64)
    ENTRY(tanh),
#endif
    ENTRY(sigmoid),
    ENTRY(silu),
    ENTRY(silu_backward),
    ENTRY(gelu_tanh),
    ENTRY(gelu_tanh_backward),
    ENTRY(mish),
    ENTRY(mish_backward),
    ENTRY(elu),
    ENTRY(elu_backward),
    ENTRY(softplus),
    ENTRY(softplus_backward),
    ENTRY(log_sigmoid_backward),
    END_OF_KERNELS,
};
