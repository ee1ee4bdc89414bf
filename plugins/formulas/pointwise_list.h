/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointwise operators, each once, for all plugins: name, types of the operands, dtypes, grain, schema. An
 * operator without a schema is a variant that a plugin chooses for another one, by an argument or the dtype.
 * The formulas of most of them are in the other headers of this folder.
 *
 * Types are one letter for each operand, outputs first: T the type that the kernel computes in, R the real
 * type of T's parts, C the complex type of parts T, B bool, I int32.
 *
 * Dtypes names the set of dtypes that the operator takes: everything, all (without uint64), number (all but
 * bool), real, ordered (real and bool), inexact (floats and complex), float, full_float (float32 and
 * float64), integral (integers and bool), integer.
 *
 * Grain is the least work for a thread of a processor, in units of 1024 elements: 32 for operators that are
 * bound by memory, less for those that compute.
 */
#ifndef TENON_FORMULAS_POINTWISE_LIST_H
#define TENON_FORMULAS_POINTWISE_LIST_H

#define ARITHMETIC_OPS(X)                                                                                 \
    X(add, "TTT", everything, 32,                                                                         \
      "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")                         \
    X(sub, "TTT", everything, 32,                                                                         \
      "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")                         \
    X(rsub, "TTT", everything, 32,                                                                        \
      "aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")                        \
    X(mul, "TTT", everything, 32, "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor")                \
    X(div, "TTT", inexact, 32, "aten::div.Tensor(Tensor self, Tensor other) -> Tensor")                   \
    X(div_mode, "TTT", all, 32,                                                                           \
      "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor")                \
    X(div_trunc, "TTT", real, 32, NULL)                                                                   \
    X(floor_divide, "TTT", real, 32, "aten::floor_divide(Tensor self, Tensor other) -> Tensor")           \
    X(remainder, "TTT", real, 16, "aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor")          \
    X(fmod, "TTT", real, 16, "aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor")                    \
    X(abs, "RT", all, 32, "aten::abs(Tensor self) -> Tensor")                                             \
    X(neg, "TT", everything, 32, "aten::neg(Tensor self) -> Tensor")                                      \
    X(sign, "TT", all, 32, "aten::sign(Tensor self) -> Tensor")                                           \
    X(sgn, "TT", all, 32, "aten::sgn(Tensor self) -> Tensor")                                             \
    X(ceil, "TT", real, 32, "aten::ceil(Tensor self) -> Tensor")                                          \
    X(floor, "TT", real, 32, "aten::floor(Tensor self) -> Tensor")                                        \
    X(round, "TT", real, 32, "aten::round(Tensor self) -> Tensor")                                        \
    X(round_decimals, "TT", real, 32, "aten::round.decimals(Tensor self, *, int decimals) -> Tensor")     \
    X(trunc, "TT", real, 32, "aten::trunc(Tensor self) -> Tensor")                                        \
    X(frac, "TT", float, 32, "aten::frac(Tensor self) -> Tensor")                                         \
    X(reciprocal, "TT", inexact, 32, "aten::reciprocal(Tensor self) -> Tensor")                           \
    X(sqrt, "TT", inexact, 32, "aten::sqrt(Tensor self) -> Tensor")                                       \
    X(rsqrt, "TT", inexact, 32, "aten::rsqrt(Tensor self) -> Tensor")                                     \
    X(copysign, "TTT", float, 32, "aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor")           \
    X(maximum, "TTT", ordered, 32, "aten::maximum(Tensor self, Tensor other) -> Tensor")                  \
    X(minimum, "TTT", ordered, 32, "aten::minimum(Tensor self, Tensor other) -> Tensor")                  \
    X(fmax, "TTT", ordered, 32, "aten::fmax(Tensor self, Tensor other) -> Tensor")                        \
    X(fmin, "TTT", ordered, 32, "aten::fmin(Tensor self, Tensor other) -> Tensor")                        \
    X(clamp, "TT", real, 32, "aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor")    \
    X(clamp_tensor, "TTTT", real, 32,                                                                     \
      "aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor")                    \
    X(clamp_min, "TT", real, 32, "aten::clamp_min(Tensor self, Scalar min) -> Tensor")                    \
    X(clamp_min_tensor, "TTT", ordered, 32, "aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor")  \
    X(clamp_max, "TT", real, 32, "aten::clamp_max(Tensor self, Scalar max) -> Tensor")                    \
    X(clamp_max_tensor, "TTT", ordered, 32, "aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor")  \
    X(where, "TBTT", everything, 32,                                                                      \
      "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor")                          \
    X(lerp_tensor, "TTTT", inexact, 32,                                                                   \
      "aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor")                              \
    X(lerp, "TTT", inexact, 32, "aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor")    \
    X(addcmul, "TTTT", number, 32,                                                                        \
      "aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor")          \
    X(addcdiv, "TTTT", number, 32,                                                                        \
      "aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor")          \
    X(heaviside, "TTT", ordered, 32, "aten::heaviside(Tensor self, Tensor values) -> Tensor")             \
    X(nan_to_num, "TT", all, 32,                                                                          \
      "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor") \
    X(deg2rad, "TT", float, 32, "aten::deg2rad(Tensor self) -> Tensor")                                   \
    X(rad2deg, "TT", float, 32, "aten::rad2deg(Tensor self) -> Tensor")                                   \
    X(angle, "RT", inexact, 16, "aten::angle(Tensor self) -> Tensor")                                     \
    X(conj_physical, "TT", all, 32, "aten::conj_physical(Tensor self) -> Tensor")                         \
    X(native_dropout_backward, "TTT", float, 32,                                                          \
      "aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor")

#define COMPARISON_OPS(X)                                                                    \
    X(eq, "BTT", everything, 32, "aten::eq.Tensor(Tensor self, Tensor other) -> Tensor")     \
    X(ne, "BTT", everything, 32, "aten::ne.Tensor(Tensor self, Tensor other) -> Tensor")     \
    X(lt, "BTT", ordered, 32, "aten::lt.Tensor(Tensor self, Tensor other) -> Tensor")        \
    X(le, "BTT", ordered, 32, "aten::le.Tensor(Tensor self, Tensor other) -> Tensor")        \
    X(gt, "BTT", ordered, 32, "aten::gt.Tensor(Tensor self, Tensor other) -> Tensor")        \
    X(ge, "BTT", ordered, 32, "aten::ge.Tensor(Tensor self, Tensor other) -> Tensor")        \
    X(isnan, "BT", all, 32, "aten::isnan(Tensor self) -> Tensor")                            \
    X(isinf, "BT", all, 32, "aten::isinf(Tensor self) -> Tensor")                            \
    X(isfinite, "BT", all, 32, "aten::isfinite(Tensor self) -> Tensor")                      \
    X(isposinf, "BT", ordered, 32, "aten::isposinf(Tensor self) -> Tensor")                  \
    X(isneginf, "BT", ordered, 32, "aten::isneginf(Tensor self) -> Tensor")                  \
    X(isreal, "BT", all, 32, "aten::isreal(Tensor self) -> Tensor")                          \
    X(signbit, "BT", ordered, 32, "aten::signbit(Tensor self) -> Tensor")                    \
    X(logical_and, "BTT", all, 32, "aten::logical_and(Tensor self, Tensor other) -> Tensor") \
    X(logical_or, "BTT", all, 32, "aten::logical_or(Tensor self, Tensor other) -> Tensor")   \
    X(logical_xor, "BTT", all, 32, "aten::logical_xor(Tensor self, Tensor other) -> Tensor") \
    X(logical_not, "BT", all, 32, "aten::logical_not(Tensor self) -> Tensor")

#define BITWISE_OPS(X)                                                                                   \
    X(bitwise_and, "TTT", integral, 32, "aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor") \
    X(bitwise_or, "TTT", integral, 32, "aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor")   \
    X(bitwise_xor, "TTT", integral, 32, "aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor") \
    X(bitwise_not, "TT", integral, 32, "aten::bitwise_not(Tensor self) -> Tensor")                       \
    X(bitwise_left_shift, "TTT", integer, 32,                                                            \
      "aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor")                            \
    X(bitwise_right_shift, "TTT", integer, 32,                                                           \
      "aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor")                           \
    X(gcd, "TTT", integer, 4, "aten::gcd(Tensor self, Tensor other) -> Tensor")                          \
    X(lcm, "TTT", integer, 4, "aten::lcm(Tensor self, Tensor other) -> Tensor")

#define ACTIVATION_OPS(X)                                                                                    \
    X(sigmoid_backward, "TTT", inexact, 32,                                                                  \
      "aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor")                                 \
    X(tanh_backward, "TTT", inexact, 32, "aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor") \
    X(logit_backward, "TTT", float, 32,                                                                      \
      "aten::logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor")                    \
    X(relu, "TT", real, 32, "aten::relu(Tensor self) -> Tensor")                                             \
    X(threshold, "TT", real, 32, "aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor")   \
    X(threshold_backward, "TTT", real, 32,                                                                   \
      "aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor")               \
    X(hardtanh, "TT", real, 32,                                                                              \
      "aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor")                          \
    X(hardtanh_backward, "TTT", float, 32,                                                                   \
      "aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor")  \
    X(hardsigmoid, "TT", float, 32, "aten::hardsigmoid(Tensor self) -> Tensor")                              \
    X(hardsigmoid_backward, "TTT", float, 32,                                                                \
      "aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor")                               \
    X(hardswish, "TT", float, 32, "aten::hardswish(Tensor self) -> Tensor")                                  \
    X(hardswish_backward, "TTT", float, 32,                                                                  \
      "aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor")                                 \
    X(hardshrink, "TT", float, 32, "aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor")              \
    X(hardshrink_backward, "TTT", float, 32,                                                                 \
      "aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor")                     \
    X(softshrink, "TT", float, 32, "aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor")              \
    X(softshrink_backward, "TTT", float, 32,                                                                 \
      "aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor")                  \
    X(leaky_relu, "TT", float, 32, "aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor")    \
    X(leaky_relu_backward, "TTT", float, 32,                                                                 \
      "aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool "              \
      "self_is_result) "                                                                                     \
      "-> Tensor")                                                                                           \
    X(prelu_kernel, "TTT", float, 32, "aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor")

#define FUNCTION_OPS(X)                                                                                      \
    X(exp, "TT", inexact, 8, "aten::exp(Tensor self) -> Tensor")                                             \
    X(exp2, "TT", inexact, 8, "aten::exp2(Tensor self) -> Tensor")                                           \
    X(expm1, "TT", inexact, 8, "aten::expm1(Tensor self) -> Tensor")                                         \
    X(log, "TT", inexact, 8, "aten::log(Tensor self) -> Tensor")                                             \
    X(log2, "TT", inexact, 8, "aten::log2(Tensor self) -> Tensor")                                           \
    X(log10, "TT", inexact, 8, "aten::log10(Tensor self) -> Tensor")                                         \
    X(log1p, "TT", inexact, 8, "aten::log1p(Tensor self) -> Tensor")                                         \
    X(sin, "TT", inexact, 8, "aten::sin(Tensor self) -> Tensor")                                             \
    X(cos, "TT", inexact, 8, "aten::cos(Tensor self) -> Tensor")                                             \
    X(tan, "TT", inexact, 8, "aten::tan(Tensor self) -> Tensor")                                             \
    X(asin, "TT", inexact, 8, "aten::asin(Tensor self) -> Tensor")                                           \
    X(acos, "TT", inexact, 8, "aten::acos(Tensor self) -> Tensor")                                           \
    X(atan, "TT", inexact, 8, "aten::atan(Tensor self) -> Tensor")                                           \
    X(sinh, "TT", inexact, 8, "aten::sinh(Tensor self) -> Tensor")                                           \
    X(cosh, "TT", inexact, 8, "aten::cosh(Tensor self) -> Tensor")                                           \
    X(tanh, "TT", inexact, 8, "aten::tanh(Tensor self) -> Tensor")                                           \
    X(asinh, "TT", inexact, 8, "aten::asinh(Tensor self) -> Tensor")                                         \
    X(acosh, "TT", inexact, 8, "aten::acosh(Tensor self) -> Tensor")                                         \
    X(atanh, "TT", inexact, 8, "aten::atanh(Tensor self) -> Tensor")                                         \
    X(sigmoid, "TT", inexact, 8, "aten::sigmoid(Tensor self) -> Tensor")                                     \
    X(pow, "TTT", all, 8, "aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor")                 \
    X(pow_scalar, "TT", all, 8, "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor")           \
    X(atan2, "TTT", float, 8, "aten::atan2(Tensor self, Tensor other) -> Tensor")                            \
    X(hypot, "TTT", float, 8, "aten::hypot(Tensor self, Tensor other) -> Tensor")                            \
    X(erf, "TT", float, 8, "aten::erf(Tensor self) -> Tensor")                                               \
    X(erfc, "TT", float, 8, "aten::erfc(Tensor self) -> Tensor")                                             \
    X(gelu, "TT", float, 8, "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor")                \
    X(gelu_tanh, "TT", float, 8, NULL)                                                                       \
    X(scale, "TT", float, 1, NULL)                                                                           \
    X(scale_down, "TT", float, 1, NULL)                                                                      \
    X(gelu_backward, "TTT", float, 8,                                                                        \
      "aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor")         \
    X(gelu_tanh_backward, "TTT", float, 8, NULL)                                                             \
    X(silu, "TT", inexact, 8, "aten::silu(Tensor self) -> Tensor")                                           \
    X(silu_backward, "TTT", inexact, 8, "aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor")    \
    X(mish, "TT", float, 8, "aten::mish(Tensor self) -> Tensor")                                             \
    X(mish_backward, "TTT", float, 8, "aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor")      \
    X(elu, "TT", float, 8,                                                                                   \
      "aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor")              \
    X(elu_backward, "TTT", float, 8,                                                                         \
      "aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool "         \
      "is_result, "                                                                                          \
      "Tensor self_or_result) -> Tensor")                                                                    \
    X(softplus, "TT", float, 8, "aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor") \
    X(softplus_backward, "TTT", float, 8,                                                                    \
      "aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor")   \
    X(log_sigmoid_backward, "TTTT", float, 8,                                                                \
      "aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor")                \
    X(logit, "TT", float, 8, "aten::logit(Tensor self, float? eps=None) -> Tensor")                          \
    X(logaddexp, "TTT", inexact, 8, "aten::logaddexp(Tensor self, Tensor other) -> Tensor")                  \
    X(logaddexp2, "TTT", float, 8, "aten::logaddexp2(Tensor self, Tensor other) -> Tensor")                  \
    X(xlogy, "TTT", float, 8, "aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor")                     \
    X(xlog1py, "TTT", float, 8, "aten::special_xlog1py(Tensor self, Tensor other) -> Tensor")                \
    X(entr, "TT", float, 8, "aten::special_entr(Tensor self) -> Tensor")                                     \
    X(sinc, "TT", inexact, 8, "aten::sinc(Tensor self) -> Tensor")                                           \
    X(lgamma, "TT", float, 8, "aten::lgamma(Tensor self) -> Tensor")

#define MIXED_TYPE_OPS(X)                                                                               \
    X(complex, "CTT", float, 32, "aten::complex(Tensor real, Tensor imag) -> Tensor")                   \
    X(polar, "CTT", full_float, 8, "aten::polar(Tensor abs, Tensor angle) -> Tensor")                   \
    X(frexp, "TIT", float, 16, "aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)") \
    X(nextafter, "TTT", float, 16, "aten::nextafter(Tensor self, Tensor other) -> Tensor")              \
    X(nextafter_f16, "TTT", float, 16, NULL)                                                            \
    X(nextafter_bf16, "TTT", float, 16, NULL)

#define SPECIAL_OPS(X)                                                                               \
    X(erfinv, "TT", float, 1, "aten::erfinv(Tensor self) -> Tensor")                                 \
    X(digamma, "TT", float, 1, "aten::digamma(Tensor self) -> Tensor")                               \
    X(polygamma, "TT", float, 1, "aten::polygamma(int n, Tensor self) -> Tensor")                    \
    X(igamma, "TTT", float, 1, "aten::igamma(Tensor self, Tensor other) -> Tensor")                  \
    X(igammac, "TTT", float, 1, "aten::igammac(Tensor self, Tensor other) -> Tensor")                \
    X(i0, "TT", float, 1, "aten::i0(Tensor self) -> Tensor")                                         \
    X(i0e, "TT", float, 1, "aten::special_i0e(Tensor self) -> Tensor")                               \
    X(i1, "TT", float, 1, "aten::special_i1(Tensor self) -> Tensor")                                 \
    X(i1e, "TT", float, 1, "aten::special_i1e(Tensor self) -> Tensor")                               \
    X(erfcx, "TT", float, 1, "aten::special_erfcx(Tensor self) -> Tensor")                           \
    X(ndtr, "TT", float, 1, "aten::special_ndtr(Tensor self) -> Tensor")                             \
    X(log_ndtr, "TT", float, 1, "aten::special_log_ndtr(Tensor self) -> Tensor")                     \
    X(ndtri, "TT", float, 1, "aten::special_ndtri(Tensor self) -> Tensor")                           \
    X(zeta, "TTT", float, 1, "aten::special_zeta(Tensor self, Tensor other) -> Tensor")              \
    X(airy_ai, "TT", float, 1, "aten::special_airy_ai(Tensor x) -> Tensor")                          \
    X(bessel_j0, "TT", float, 1, "aten::special_bessel_j0(Tensor self) -> Tensor")                   \
    X(bessel_j1, "TT", float, 1, "aten::special_bessel_j1(Tensor self) -> Tensor")                   \
    X(bessel_y0, "TT", float, 1, "aten::special_bessel_y0(Tensor self) -> Tensor")                   \
    X(bessel_y1, "TT", float, 1, "aten::special_bessel_y1(Tensor self) -> Tensor")                   \
    X(modified_bessel_i0, "TT", float, 1, "aten::special_modified_bessel_i0(Tensor self) -> Tensor") \
    X(modified_bessel_i1, "TT", float, 1, "aten::special_modified_bessel_i1(Tensor self) -> Tensor") \
    X(modified_bessel_k0, "TT", float, 1, "aten::special_modified_bessel_k0(Tensor self) -> Tensor") \
    X(modified_bessel_k1, "TT", float, 1, "aten::special_modified_bessel_k1(Tensor self) -> Tensor") \
    X(scaled_modified_bessel_k0, "TT", float, 1,                                                     \
      "aten::special_scaled_modified_bessel_k0(Tensor x) -> Tensor")                                 \
    X(scaled_modified_bessel_k1, "TT", float, 1,                                                     \
      "aten::special_scaled_modified_bessel_k1(Tensor x) -> Tensor")                                 \
    X(spherical_bessel_j0, "TT", float, 1, "aten::special_spherical_bessel_j0(Tensor x) -> Tensor")  \
    X(chebyshev_polynomial_t, "TTT", float, 1,                                                       \
      "aten::special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor")                          \
    X(chebyshev_polynomial_u, "TTT", float, 1,                                                       \
      "aten::special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor")                          \
    X(chebyshev_polynomial_v, "TTT", float, 1,                                                       \
      "aten::special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor")                          \
    X(chebyshev_polynomial_w, "TTT", float, 1,                                                       \
      "aten::special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor")                          \
    X(shifted_chebyshev_polynomial_t, "TTT", float, 1,                                               \
      "aten::special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor")                  \
    X(shifted_chebyshev_polynomial_u, "TTT", float, 1,                                               \
      "aten::special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor")                  \
    X(shifted_chebyshev_polynomial_v, "TTT", float, 1,                                               \
      "aten::special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor")                  \
    X(shifted_chebyshev_polynomial_w, "TTT", float, 1,                                               \
      "aten::special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor")                  \
    X(hermite_polynomial_h, "TTT", float, 1,                                                         \
      "aten::special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor")                            \
    X(hermite_polynomial_he, "TTT", float, 1,                                                        \
      "aten::special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor")                           \
    X(laguerre_polynomial_l, "TTT", float, 1,                                                        \
      "aten::special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor")                           \
    X(legendre_polynomial_p, "TTT", float, 1,                                                        \
      "aten::special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor")                           \
    X(standard_gamma_grad, "TTT", float, 1,                                                          \
      "aten::_standard_gamma_grad(Tensor self, Tensor output) -> Tensor")                            \
    X(dirichlet_grad, "TTTT", float, 1,                                                              \
      "aten::_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor")

#define POINTWISE_OPS(X) \
    ARITHMETIC_OPS(X)    \
    COMPARISON_OPS(X)    \
    BITWISE_OPS(X)       \
    ACTIVATION_OPS(X)    \
    FUNCTION_OPS(X)      \
    MIXED_TYPE_OPS(X)    \
    SPECIAL_OPS(X)

#endif
