/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations of floats and their derivatives that need no function of the mathematical library; see
 * arithmetic_formulas.h. In derivatives a is the gradient, b the input or the result of the forward pass.
 */

BINARY(sigmoid_backward, (a * ((1 - b) * b)))
BINARY(tanh_backward, (a * (1 - b * b)))
BINARY_WITH(hardtanh_backward, b > x && b < y ? a : 0)
UNARY(hardsigmoid, clamped_between(a + 3, 0, 6) / 6)
BINARY(hardsigmoid_backward, b > -3 && b < 3 ? a / 6 : 0)
UNARY(hardswish, (a * clamped_between(a + 3, 0, 6)) / 6)
BINARY(hardswish_backward, b <= -3 ? 0 : b >= 3 ? a : a * (b / 3 + (T)0.5))
UNARY_WITH(hardshrink, a >= -x && a <= x ? 0 : a)
BINARY_WITH(hardshrink_backward, b > x || b < -x ? a : 0)
UNARY_WITH(softshrink, a > x ? a - x : a < -x ? a + x : a * 0)
BINARY_WITH(softshrink_backward, b > x || b < -x ? a : 0)
UNARY_WITH(leaky_relu, a > 0 ? a : a * x)
BINARY_WITH(leaky_relu_backward, b > 0 ? a : a * x)
BINARY(prelu_kernel, a > 0 ? a : b * a)
