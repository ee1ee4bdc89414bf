/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formulas of pointwise operators as functions of one signature: NAME_formula(a, b, c, x, y, z), operands
 * first, then scalar arguments. GPU_GROUP chooses which are compiled; most come from the formulas that all
 * plugins share.
 */
#ifndef TENON_GPU_FORMULAS_H
#define TENON_GPU_FORMULAS_H

#include "dialect.h"
#include "operators.h"

#define GPU_SIGNATURE T a, T b, T c, T x, T y, T z
/* `name` is pasted first, since the functions of some compilers are macros. */
#define GPU_DEFINE(elem, whole, parameters, arguments, formula) \
    GPU_FUNCTION T elem parameters                              \
    {                                                           \
        return formula;                                         \
    }                                                           \
    GPU_FUNCTION T whole(GPU_SIGNATURE)                         \
    {                                                           \
        return elem arguments;                                  \
    }
#define UNARY(name, formula)   GPU_DEFINE(name##_elem, name##_formula, (T a), (a), formula)
#define BINARY(name, formula)  GPU_DEFINE(name##_elem, name##_formula, (T a, T b), (a, b), formula)
#define TERNARY(name, formula) GPU_DEFINE(name##_elem, name##_formula, (T a, T b, T c), (a, b, c), formula)
#define UNARY_WITH(name, formula) \
    GPU_DEFINE(name##_elem, name##_formula, (T a, T x, T y, T z), (a, x, y, z), formula)
#define BINARY_WITH(name, formula) \
    GPU_DEFINE(name##_elem, name##_formula, (T a, T b, T x, T y, T z), (a, b, x, y, z), formula)
#define TERNARY_WITH(name, formula) \
    GPU_DEFINE(name##_elem, name##_formula, (GPU_SIGNATURE), (a, b, c, x, y, z), formula)
#define TEST(name, formula)    GPU_DEFINE(name##_elem, name##_formula, (T a), (a), (T)(formula))
#define COMPARE(name, formula) GPU_DEFINE(name##_elem, name##_formula, (T a, T b), (a, b), (T)(formula))

#define FORMULAS_SMALL 0
#define FORMULAS_BITS  0
#if !defined(fused)
#define fused(a, b, c) FN(fma)((T)(a), (T)(b), (T)(c)) /* in C++ an int would choose another function */
#endif
/* Integers are computed in int64, but shifts and lcm depend on the width of the dtype: the host gives it as x. */
#define TYPE_BITS 64

#include "extremes.h"

#if GPU_GROUP == GPU_GROUP_ARITHMETIC
#include "arithmetic_formulas.h"
TERNARY(choose, a != 0 ? b : c)
#if GPU_IS_FLOAT
#include "float_formulas.h"
/* The remainder has the divisor's sign. */
ALWAYS_INLINE T signed_remainder(T a, T b)
{
    T rest = FN(fmod)(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
/* As in Python: (a - remainder) / b, corrected where rounding missed the integer. */
ALWAYS_INLINE T floored_quotient(T a, T b)
{
    T rest = FN(fmod)(a, b), quotient = (a - rest) / b, ratio = a / b;
    quotient -= rest != 0 && (b < 0) != (rest < 0) ? (T)1 : (T)0;
    T whole = FN(floor)(quotient);
    whole += quotient - whole > (T)0.5 ? (T)1 : (T)0;
    return b == 0 ? ratio : quotient == 0 ? FN(copysign)((T)0, ratio) : whole;
}
/* Numbers of one sign are in the order of their bits: neighbours have neighbouring places, and both zeros have place 0. */
#define GPU_SIGN_BIT ((uint64_t)1 << (GPU_TYPE - 1))
ALWAYS_INLINE int64_t place_of_number(T a)
{
    uint64_t bits = gpu_bits(a);
    return bits & GPU_SIGN_BIT ? -(int64_t)(bits & ~GPU_SIGN_BIT) : (int64_t)bits;
}
/* The next number from a towards b, among those whose places are multiples of `step`. */
ALWAYS_INLINE T next_number(T a, T b, int64_t step)
{
    int64_t from = place_of_number(a), to = place_of_number(b);
    if (is_nan(a) || is_nan(b)) return a + b;
    if (from == to) return b;
    int64_t next = from < to ? from + step : from - step;
    return next < 0 ? gpu_value(GPU_SIGN_BIT | (uint64_t)-next) : gpu_value((uint64_t)next);
}
BINARY(nextafter, next_number(a, b, 1))
#if GPU_TYPE == 32
/* The same in the bits of float16. */
ALWAYS_INLINE T next_half(T a, T b)
{
    int32_t from = tn_half_of_float(a), to = tn_half_of_float(b);
    if (is_nan(a) || is_nan(b)) return a + b;
    from = from & 0x8000 ? -(from & 0x7fff) : from;
    to = to & 0x8000 ? -(to & 0x7fff) : to;
    if (from == to) return b;
    int32_t next = from < to ? from + 1 : from - 1;
    return tn_float_of_half((uint16_t)(next < 0 ? 0x8000 | -next : next));
}
BINARY(nextafter_f16, next_half(a, b))
BINARY(nextafter_bf16, next_number(a, b, 65536))
#else /* never called */
BINARY(nextafter_f16, next_number(a, b, 1))
BINARY(nextafter_bf16, next_number(a, b, 1))
#endif
BINARY(fmod, FN(fmod)(a, b))
BINARY(remainder, signed_remainder(a, b))
BINARY(floor_divide, floored_quotient(a, b))
#else
#include "integer_formulas.h"
/* As if computed in int32 where x is 32. */
ALWAYS_INLINE T least_multiple_of_width(T a, T b, T x)
{
    T divisor = greatest_divisor(a, b), multiple = divisor == 0 ? 0 : a / divisor * b;
    if (x == 32) multiple = (int32_t)multiple;
    return multiple < 0 ? -multiple : multiple;
}
BINARY_WITH(lcm_of_width, least_multiple_of_width(a, b, x))
BINARY_WITH(shift_left, b < 0 || b >= x ? 0 : a << b)
BINARY_WITH(shift_right, a >> (b < 0 || b >= x ? x - 1 : b))
#endif
#endif

#if GPU_GROUP == GPU_GROUP_ACTIVATION
#include "activation_formulas.h"
#define ROOT_HALF   ((T)0.70710678118654752440) /* sqrt(1 / 2) */
#define NORMAL_AT_0 ((T)0.39894228040143267794) /* 1 / sqrt(2 pi) */
#define TANH_LINEAR ((T)0.79788456080286535588) /* sqrt(2 / pi) */
#define TANH_CUBIC  ((T)0.044715)
/* 1 / (1 + e^-v), through e^-|v|, which does not overflow. */
ALWAYS_INLINE T logistic(T v)
{
    T power = FN(exp)(-FN(fabs)(v)), above = 1 / (1 + power);
    return v < 0 ? power * above : above;
}
UNARY(sigmoid, logistic(a))
BINARY(log_sigmoid_backward, (a * logistic(-b)))
UNARY(tanh, FN(tanh)(a))
UNARY(silu, (a * logistic(a)))
ALWAYS_INLINE T silu_slope(T g, T a)
{
    return g * logistic(a) * (1 + a * logistic(-a));
}
BINARY(silu_backward, silu_slope(a, b))
#if GPU_TYPE == 32
#if !defined(FUSED_W)
typedef T W;
#define FUSED_W fused
#endif
#include "normal_tail.h"
/* Phi(a), and e^(-a^2 / 2) with the rounding error of the square. */
ALWAYS_INLINE T normal_density(T a)
{
    T z = FN(fabs)(a) > 15 ? (T)15 : FN(fabs)(a), square = z * z, rest = fused(z, z, -square);
    return FN(exp)((T)-0.5 * square) * (1 - (T)0.5 * rest);
}
ALWAYS_INLINE T normal_area(T a, T density)
{
    T z = FN(fabs)(a) > 15 ? (T)15 : FN(fabs)(a), tail = density * tail_ratio(z);
    return a < 0 ? tail : 1 - tail;
}
#else
ALWAYS_INLINE T normal_density(T a)
{
    return FN(exp)((T)-0.5 * a * a);
}
ALWAYS_INLINE T normal_area(T a, T density)
{
    return (T)0.5 * FN(erfc)(-a * ROOT_HALF);
}
#endif
UNARY(gelu, (a * normal_area(a, normal_density(a))))
ALWAYS_INLINE T gelu_slope(T g, T a)
{
    T density = normal_density(a), pull = density == 0 ? (T)0 : a * density * NORMAL_AT_0;
    return g * (normal_area(a, density) + pull);
}
BINARY(gelu_backward, gelu_slope(a, b))
UNARY(gelu_tanh, (T)0.5 * a * (1 + FN(tanh)(TANH_LINEAR * (a + TANH_CUBIC * a * a * a))))
ALWAYS_INLINE T gelu_tanh_slope(T g, T a)
{
    T t = FN(tanh)(TANH_LINEAR * (a + TANH_CUBIC * a * a * a));
    T inner = TANH_LINEAR * (1 + 3 * TANH_CUBIC * a * a);
    return g * ((T)0.5 * (1 + t) + (T)0.5 * a * (1 - t * t) * inner);
}
BINARY(gelu_tanh_backward, gelu_tanh_slope(a, b))
UNARY(ndtr, normal_area(a, normal_density(a)))
/* e^(z^2 / 2) Phi(-z) for z > 0: by the asymptotic series where the tail is 0 in T. */
ALWAYS_INLINE T scaled_tail(T z)
{
    T w = 1 / (z * z), series = 1 - w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w * (1 - 9 * w))));
#if GPU_TYPE == 32
    return z < (T)14.5 ? tail_ratio(z) : series * NORMAL_AT_0 / z;
#else
    T square = z * z, rest = fused(z, z, -square);
    return z < 37 ? FN(exp)((T)0.5 * square) * (1 + (T)0.5 * rest) * (T)0.5 * FN(erfc)(z * ROOT_HALF)
                  : series * NORMAL_AT_0 / z;
#endif
}
ALWAYS_INLINE T log_of_normal_area(T a)
{
    T half_square = (T)-0.5 * a * a;
    if (a < -1) return half_square == -INFINITY ? half_square : half_square + FN(log)(scaled_tail(-a));
    return FN(log1p)(-normal_area(-a, normal_density(a)));
}
UNARY(log_ndtr, log_of_normal_area(a))
/* e^(x^2) erfc(x), below 0 by reflection. */
ALWAYS_INLINE T scaled_erfc(T x)
{
    T tail = 2 * scaled_tail(FN(fabs)(x) * (2 * ROOT_HALF)), square = x * x, rest = fused(x, x, -square);
    if (x < 0) tail = square == INFINITY ? square : 2 * (FN(exp)(square) * (1 + rest)) - tail;
    return tail;
}
UNARY(erfcx, scaled_erfc(a))
/* x: factor of the result below 0; y: factor of the number above 0; z: factor of the number below 0. */
UNARY_WITH(elu, a < 0 ? FN(expm1)(a * z) * x : a * y)
/* c: whether b is the result of elu, not what it was computed from. */
TERNARY_WITH(elu_backward, a *(b <= 0 ? z * (c != 0 ? b + x : x * FN(exp)(b * z)) : y))
/* x: beta; y: threshold. */
UNARY_WITH(softplus, (a * x) > y ? a : FN(log1p)(FN(exp)(a * x)) / x)
BINARY_WITH(softplus_backward, (b * x) > y ? a : a * logistic(b * x))
#endif

#if GPU_GROUP == GPU_GROUP_FUNCTION
#define FUNCTION(name) GPU_DEFINE(name##_elem, name##_formula, (T a), (a), FN(name)(a))
FUNCTION(exp)
FUNCTION(exp2)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log2)
FUNCTION(log10)
FUNCTION(log1p)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tan)
FUNCTION(asin)
FUNCTION(acos)
FUNCTION(atan)
FUNCTION(erf)
FUNCTION(erfc)
#endif

#if GPU_GROUP == GPU_GROUP_RARE
#define FUNCTION(name) GPU_DEFINE(name##_elem, name##_formula, (T a), (a), FN(name)(a))
FUNCTION(sinh)
FUNCTION(cosh)
FUNCTION(asinh)
FUNCTION(acosh)
FUNCTION(atanh)
FUNCTION(lgamma)
BINARY(pow, FN(pow)(a, b))
BINARY(atan2, FN(atan2)(a, b))
BINARY(hypot, FN(hypot)(a, b))
/* Exponents for which ATen has a formula of its own have the same one here. */
ALWAYS_INLINE T power_of(T a, T x)
{
    if (x == 2) return a * a;
    if (x == 3) return a * a * a;
    if (x == (T)0.5) return FN(sqrt)(a);
    if (x == (T)-0.5) return 1 / FN(sqrt)(a);
    if (x == -1) return 1 / a;
    if (x == -2) return 1 / (a * a);
    return FN(pow)(a, x);
}
UNARY_WITH(power, power_of(a, x))
BINARY(xlogy, b != b ? b : a == 0 ? 0 : a * FN(log)(b))
ALWAYS_INLINE T log_of_sum(T a, T b)
{
    T most = a < b ? b : a, apart = a < b ? a - b : b - a;
    return a == b && (a == INFINITY || a == -INFINITY) ? a : most + FN(log1p)(FN(exp)(apart));
}
BINARY(logaddexp, log_of_sum(a, b))
BINARY(xlog1py, b != b ? b : a == 0 ? 0 : a * FN(log1p)(b))
UNARY(entr, a != a ? a : a > 0 ? -a * FN(log)(a) : a == 0 ? (T)0 : -INFINITY)
#endif

#if GPU_GROUP == GPU_GROUP_SPECIAL
#if GPU_HAS_DOUBLE
typedef double W;
#else
typedef float W;
#endif
#define WIDE(name) FN(name)
#if GPU_TYPE == 32
#define MOST          ((W)3.40282346638528859812e+38)
#define HERMITE_LIMIT 128 /* beyond it the values overflow for nearly all arguments */
#else
#define MOST          ((W)1.7976931348623157e+308)
#define HERMITE_LIMIT 512
#endif
#include "polynomials.h"
/* y > 0 with erfc(y) = q, q <= 1/2: a rational start (A and S 26.2.23), then Halley steps on log(erfc(y) / q). */
ALWAYS_INLINE T inverse_erfc(T q)
{
    T t = FN(sqrt)(-2 * FN(log)(q / 2));
    T y = (t - ((T)2.515517 + t * ((T)0.802853 + t * (T)0.010328)) /
                   (1 + t * ((T)1.432788 + t * ((T)0.189269 + t * (T)0.001308)))) *
          (T)0.70710678118654752440;
    for (int k = 0; k < 2; k++) {
        T area = FN(erfc)(y), slope = (T)1.12837916709551257390 * FN(exp)(-y * y) / area;
        T step = FN(log)(area / q) / slope;
        y += step / (1 + step * (slope / 2 - y));
    }
    return y;
}
/* y with erf(y) = x, |x| <= 1/2: a term of the series, then Halley steps. */
ALWAYS_INLINE T inverse_erf(T x)
{
    T y = x * (T)0.88622692545275801365 * (1 + (T)0.26179938779914943654 * x * x);
    for (int k = 0; k < 3; k++) {
        T step = (FN(erf)(y) - x) * (T)0.88622692545275801365 * FN(exp)(y * y);
        y -= step / (1 + step * y);
    }
    return y;
}
ALWAYS_INLINE T erfinv_of(T x)
{
    T z = FN(fabs)(x);
    if (!(z <= 1)) return FN(log)((T)-1);
    if (z == 1) return x * INFINITY;
    return z > (T)0.5 ? FN(copysign)(inverse_erfc(1 - z), x) : inverse_erf(x);
}
UNARY(erfinv, erfinv_of(a))
/* The quantile of the normal distribution: by the tail that is nearer, which keeps its digits. */
ALWAYS_INLINE T normal_quantile(T p)
{
    T tail = p > (T)0.5 ? 1 - p : p, y;
    if (!(p >= 0 && p <= 1)) return FN(log)((T)-1);
    if (tail == 0) return p == 0 ? -INFINITY : INFINITY;
    y = tail < (T)0.25 ? -inverse_erfc(2 * tail) : inverse_erf(2 * tail - 1);
    return (T)1.41421356237309504880 * (p > (T)0.5 ? -y : y);
}
UNARY(ndtri, normal_quantile(a))

/* Modified Bessel functions of order 0 and 1: the series (DLMF 10.25.2), whose terms have one sign, and for large z
 * Hankel's expansion of e^-z I(z) (DLMF 10.40.1). */
#define BESSEL_LARGE (GPU_TYPE == 32 ? (T)12 : (T)30) /* the error e^-2z of the expansion is negligible */
ALWAYS_INLINE T bessel_series(T z, T order)
{
    T square = z * z / 4, term = 1, sum = 1;
    for (int k = 1; k < 100; k++) {
        term *= square / ((T)k * ((T)k + order));
        sum += term;
        if (term < sum * (T)1e-17) break;
    }
    return order != 0 ? sum * z / 2 : sum;
}
ALWAYS_INLINE T bessel_expansion(T z, T order)
{
    T term = 1, sum = 1;
    for (int k = 1; k < 24; k++) {
        T odd = (T)(2 * k - 1);
        term *= (odd * odd - 4 * order) / (8 * (T)k * z);
        sum += term;
    }
    return sum / ((T)2.50662827463100050242 * FN(sqrt)(z)); /* sqrt(2 pi) */
}
ALWAYS_INLINE T bessel_i(T x, T order)
{
    T z = FN(fabs)(x), half_power = FN(exp)(z / 2);
    T value =
        z < BESSEL_LARGE ? bessel_series(z, order) : bessel_expansion(z, order) * half_power * half_power;
    return order != 0 && x < 0 ? -value : value;
}
ALWAYS_INLINE T scaled_bessel_i(T x, T order)
{
    T z = FN(fabs)(x);
    T value = z < BESSEL_LARGE ? bessel_series(z, order) * FN(exp)(-z) : bessel_expansion(z, order);
    return order != 0 && x < 0 ? -value : value;
}
UNARY(i0, bessel_i(a, 0))
UNARY(i1, bessel_i(a, 1))
UNARY(i0e, scaled_bessel_i(a, 0))
UNARY(i1e, scaled_bessel_i(a, 1))
#endif

#if GPU_GROUP == GPU_GROUP_GAMMA
#include "gamma.h"
UNARY(digamma, digamma_of(a))
UNARY_WITH(polygamma, polygamma_of(a, x))
BINARY(zeta, zeta_of(a, b))
BINARY(igamma, incomplete_gamma(a, b, 0))
BINARY(igammac, incomplete_gamma(a, b, 1))
#endif

#define GPU_CASE(op, formula) \
    case GPU_OP_##op:         \
        return formula##_formula(a, b, c, x, y, z);
GPU_FUNCTION T gpu_compute(uint32_t opcode, GPU_SIGNATURE)
{
    switch (opcode) {
#if GPU_GROUP == GPU_GROUP_ARITHMETIC
        GPU_BASIC_OPS(GPU_CASE)
#if GPU_IS_FLOAT
        GPU_FLOAT_OPS(GPU_CASE)
#else
        GPU_INTEGER_OPS(GPU_CASE)
        GPU_TRIVIAL_OPS(GPU_CASE)
#endif
#elif GPU_GROUP == GPU_GROUP_ACTIVATION
        GPU_ACTIVATION_OPS(GPU_CASE)
#elif GPU_GROUP == GPU_GROUP_FUNCTION
        GPU_FUNCTION_OPS(GPU_CASE)
#elif GPU_GROUP == GPU_GROUP_RARE
        GPU_RARE_OPS(GPU_CASE)
#elif GPU_GROUP == GPU_GROUP_SPECIAL
        GPU_SPECIAL_OPS(GPU_CASE)
        GPU_POLYNOMIAL_OPS(GPU_CASE)
#else
        GPU_GAMMA_OPS(GPU_CASE)
#endif
    default:
        return a;
    }
}

#endif
