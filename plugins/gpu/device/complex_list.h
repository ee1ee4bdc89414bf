/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pointwise operators the devices of the family have for complex numbers, and by which formula of complex.cl:
 * X(operator, formula).
 */
#ifndef TENON_GPU_COMPLEX_LIST_H
#define TENON_GPU_COMPLEX_LIST_H

#include "operators.h"

#define GPU_COMPLEX_OPS(X)                \
    X(add, plus_scaled)                   \
    X(sub, minus_scaled)                  \
    X(rsub, from_scaled)                  \
    X(mul, product)                       \
    X(div, quotient)                      \
    X(neg, negative)                      \
    X(sgn, direction)                     \
    X(abs, size)                          \
    X(angle, angle)                       \
    X(conj_physical, conjugate)           \
    X(reciprocal, inverse)                \
    X(sqrt, root)                         \
    X(rsqrt, inverse_root)                \
    X(exp, exponential)                   \
    X(log, logarithm)                     \
    X(where, choice)                      \
    X(lerp_tensor, between)               \
    X(lerp, between_by_scalar)            \
    X(addcmul, plus_product)              \
    X(addcdiv, plus_quotient)             \
    X(sigmoid_backward, sigmoid_gradient) \
    X(tanh_backward, tanh_gradient)       \
    X(eq, is_equal)                       \
    X(ne, is_unequal)                     \
    X(isnan, is_nan_pair)                 \
    X(isinf, is_infinite_pair)            \
    X(isfinite, is_finite_pair)           \
    X(logical_and, both)                  \
    X(logical_or, either)                 \
    X(logical_xor, one_of_both)           \
    X(logical_not, neither)               \
    X(complex, of_parts)

#endif
