/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pointwise operators the devices of the family have, and by which formula: X(operator, formula). The
 * operators are numbered as in pointwise_list.h. Host code makes its table from these lists, device code its
 * formulas' switch. A group is one program: the device compiler sees no more than a call needs.
 */
#ifndef TENON_GPU_OPERATORS_H
#define TENON_GPU_OPERATORS_H

#include "pointwise_list.h"

#define GPU_OP_NUMBER(name, types, dtypes, grain, schema) GPU_OP_##name,
enum { POINTWISE_OPS(GPU_OP_NUMBER) GPU_OP_COUNT };
#undef GPU_OP_NUMBER

/* Floats and integers. */
#define GPU_BASIC_OPS(X)                      \
    X(add, scaled_add)                        \
    X(sub, sub)                               \
    X(rsub, rsub)                             \
    X(mul, mul)                               \
    X(div_trunc, div_trunc)                   \
    X(floor_divide, floor_divide)             \
    X(remainder, remainder)                   \
    X(fmod, fmod)                             \
    X(abs, abs)                               \
    X(neg, neg)                               \
    X(sign, sign)                             \
    X(sgn, sign)                              \
    X(maximum, maximum)                       \
    X(minimum, minimum)                       \
    X(fmax, fmax)                             \
    X(fmin, fmin)                             \
    X(clamp, clamp_any)                       \
    X(clamp_min, clamp_min)                   \
    X(clamp_max, clamp_max)                   \
    X(clamp_min_tensor, maximum)              \
    X(clamp_max_tensor, minimum)              \
    X(clamp_tensor, clamp_both)               \
    X(where, choose)                          \
    X(addcmul, addcmul)                       \
    X(addcdiv, addcdiv)                       \
    X(heaviside, heaviside)                   \
    X(relu, relu)                             \
    X(threshold, threshold)                   \
    X(threshold_backward, threshold_backward) \
    X(hardtanh, clamp_any)                    \
    X(eq, eq)                                 \
    X(ne, ne)                                 \
    X(lt, lt)                                 \
    X(le, le)                                 \
    X(gt, gt)                                 \
    X(ge, ge)                                 \
    X(signbit, signbit)                       \
    X(logical_and, logical_and)               \
    X(logical_or, logical_or)                 \
    X(logical_xor, logical_xor)               \
    X(logical_not, logical_not)

#define GPU_FLOAT_OPS(X)                                \
    X(div, div)                                         \
    X(ceil, ceil)                                       \
    X(floor, floor)                                     \
    X(round, round)                                     \
    X(trunc, trunc)                                     \
    X(frac, frac)                                       \
    X(reciprocal, reciprocal)                           \
    X(sqrt, sqrt)                                       \
    X(rsqrt, rsqrt)                                     \
    X(copysign, copysign)                               \
    X(lerp_tensor, lerp_tensor)                         \
    X(lerp, lerp)                                       \
    X(nan_to_num, replace_non_finite)                   \
    X(deg2rad, deg2rad)                                 \
    X(rad2deg, rad2deg)                                 \
    X(angle, angle)                                     \
    X(native_dropout_backward, native_dropout_backward) \
    X(isnan, isnan)                                     \
    X(isinf, isinf)                                     \
    X(isfinite, isfinite)                               \
    X(isposinf, isposinf)                               \
    X(isneginf, isneginf)                               \
    X(conj_physical, conj_physical)                     \
    X(nextafter, nextafter)                             \
    X(nextafter_f16, nextafter_f16)                     \
    X(nextafter_bf16, nextafter_bf16)

#define GPU_INTEGER_OPS(X)              \
    X(bitwise_and, bitwise_and)         \
    X(bitwise_or, bitwise_or)           \
    X(bitwise_xor, bitwise_xor)         \
    X(bitwise_not, bitwise_not)         \
    X(bitwise_left_shift, shift_left)   \
    X(bitwise_right_shift, shift_right) \
    X(gcd, gcd)                         \
    X(lcm, lcm_of_width)                \
    X(pow, pow)                         \
    X(pow_scalar, power)

/* These are the input itself, or one answer for all. */
#define GPU_TRIVIAL_OPS(X)  \
    X(ceil, same)           \
    X(floor, same)          \
    X(round, same)          \
    X(round_decimals, same) \
    X(trunc, same)          \
    X(nan_to_num, same)     \
    X(isnan, never)         \
    X(isinf, never)         \
    X(isposinf, never)      \
    X(isneginf, never)      \
    X(isfinite, always)     \
    X(conj_physical, same)

#define GPU_ACTIVATION_OPS(X)                     \
    X(sigmoid_backward, sigmoid_backward)         \
    X(tanh_backward, tanh_backward)               \
    X(hardtanh_backward, hardtanh_backward)       \
    X(hardsigmoid, hardsigmoid)                   \
    X(hardsigmoid_backward, hardsigmoid_backward) \
    X(hardswish, hardswish)                       \
    X(hardswish_backward, hardswish_backward)     \
    X(hardshrink, hardshrink)                     \
    X(hardshrink_backward, hardshrink_backward)   \
    X(softshrink, softshrink)                     \
    X(softshrink_backward, softshrink_backward)   \
    X(leaky_relu, leaky_relu)                     \
    X(leaky_relu_backward, leaky_relu_backward)   \
    X(prelu_kernel, prelu_kernel)                 \
    X(sigmoid, sigmoid)                           \
    X(tanh, tanh)                                 \
    X(gelu, gelu)                                 \
    X(gelu_tanh, gelu_tanh)                       \
    X(gelu_backward, gelu_backward)               \
    X(gelu_tanh_backward, gelu_tanh_backward)     \
    X(silu, silu)                                 \
    X(silu_backward, silu_backward)               \
    X(log_sigmoid_backward, log_sigmoid_backward) \
    X(elu, elu)                                   \
    X(elu_backward, elu_backward)                 \
    X(softplus, softplus)                         \
    X(softplus_backward, softplus_backward)       \
    X(ndtr, ndtr)                                 \
    X(log_ndtr, log_ndtr)                         \
    X(erfcx, erfcx)

#define GPU_FUNCTION_OPS(X) \
    X(exp, exp)             \
    X(exp2, exp2)           \
    X(expm1, expm1)         \
    X(log, log)             \
    X(log2, log2)           \
    X(log10, log10)         \
    X(log1p, log1p)         \
    X(sin, sin)             \
    X(cos, cos)             \
    X(tan, tan)             \
    X(asin, asin)           \
    X(acos, acos)           \
    X(atan, atan)           \
    X(erf, erf)             \
    X(erfc, erfc)

#define GPU_RARE_OPS(X)  \
    X(sinh, sinh)        \
    X(cosh, cosh)        \
    X(asinh, asinh)      \
    X(acosh, acosh)      \
    X(atanh, atanh)      \
    X(pow, pow)          \
    X(pow_scalar, power) \
    X(atan2, atan2)      \
    X(hypot, hypot)      \
    X(lgamma, lgamma)    \
    X(xlogy, xlogy)      \
    X(xlog1py, xlog1py)  \
    X(entr, entr)        \
    X(logaddexp, logaddexp)

#define GPU_SPECIAL_OPS(X)    \
    X(erfinv, erfinv)         \
    X(ndtri, ndtri)           \
    X(i0, i0)                 \
    X(i0e, i0e)               \
    X(i1, i1)                 \
    X(i1e, i1e)               \
    X(modified_bessel_i0, i0) \
    X(modified_bessel_i1, i1)

/* In the program of the operators above. */
#define GPU_POLYNOMIAL_OPS(X)                                         \
    X(chebyshev_polynomial_t, chebyshev_polynomial_t)                 \
    X(chebyshev_polynomial_u, chebyshev_polynomial_u)                 \
    X(chebyshev_polynomial_v, chebyshev_polynomial_v)                 \
    X(chebyshev_polynomial_w, chebyshev_polynomial_w)                 \
    X(shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_t) \
    X(shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_u) \
    X(shifted_chebyshev_polynomial_v, shifted_chebyshev_polynomial_v) \
    X(shifted_chebyshev_polynomial_w, shifted_chebyshev_polynomial_w) \
    X(hermite_polynomial_h, hermite_polynomial_h)                     \
    X(hermite_polynomial_he, hermite_polynomial_he)                   \
    X(laguerre_polynomial_l, laguerre_polynomial_l)                   \
    X(legendre_polynomial_p, legendre_polynomial_p)

#define GPU_GAMMA_OPS(X)    \
    X(digamma, digamma)     \
    X(polygamma, polygamma) \
    X(zeta, zeta)           \
    X(igamma, igamma)       \
    X(igammac, igammac)

#endif
