/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations of floats (DTYPE=f32|f64|f16|bf16) and their derivatives that need no function of the
 * mathematical library; those that do are in smooth.c and gelu.c, those that integers have too in
 * arithmetic.c.
 */
#include "loops.h"

#include "extremes.h"
#include "activation_formulas.h"

/* Without eps the gradient of numbers outside [0, 1] is NaN, with it that outside [eps, 1 - eps] is 0. */
ELEM(T, logit_backward_elem, (T a, T b, T x, T y, T z), b<x || b> 1 - x ? y : a / (b * (1 - b)))
KERNEL(logit_backward)
{
    int32_t without = s->absent[0] || s->f[0] < 0;
    binary_with(p, n, without ? 0 : (T)s->f[0], without ? NAN : 0, 0, logit_backward_elem);
}

POINTWISE_KERNELS(activation) = {
    ENTRY(sigmoid_backward),     ENTRY(tanh_backward), ENTRY(hardtanh_backward),   ENTRY(hardsigmoid),
    ENTRY(hardsigmoid_backward), ENTRY(hardswish),     ENTRY(hardswish_backward),  ENTRY(hardshrink),
    ENTRY(hardshrink_backward),  ENTRY(softshrink),    ENTRY(softshrink_backward), ENTRY(leaky_relu),
    ENTRY(leaky_relu_backward),  ENTRY(prelu_kernel),  ENTRY(logit_backward),      END_OF_KERNELS,
};
