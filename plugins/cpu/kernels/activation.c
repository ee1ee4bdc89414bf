/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations of floats (DTYPE=f32|f64|f16|bf16) and their derivatives that need no function of the
 * mathematical library; those that do are in smooth.c and gelu.c.
 */
#include "extremes.h"
#include "loops.h"

ALWAYS_INLINE T sigmoid_backward_one(T a, T b)
{
    return a * ((1 - b) * b);
}
static void sigmoid_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, sigmoid_backward_one);
}

ALWAYS_INLINE T tanh_backward_one(T a, T b)
{
    return a * (1 - b * b);
}
static void tanh_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, tanh_backward_one);
}

/* Without eps numbers outside [0, 1] have no gradient, and it is NaN. */
ALWAYS_INLINE T logit_backward_one(T g, T a, T low, T outside)
{
    return a < low || a > 1 - low ? outside : g / (a * (1 - a));
}
static void logit_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    int32_t without = s->absent[0] || s->f[0] < 0;
    binary_with(p, n, without ? 0 : (T)s->f[0], without ? NAN : 0, logit_backward_one);
}

/* Of half types the bits are enough: a sign, and no more after it than infinity has. */
#if CPU_IS_HALF
#if defined(DTYPE_F16)
#define INFINITE_BITS 0x7c00
#else
#define INFINITE_BITS 0x7f80
#endif
static void relu(void *const *p, int64_t n, const cpu_scalars *s)
{
    E *o = p[0];
    const E *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        int16_t bits = (int16_t)a[i].bits;
        o[i].bits = bits <= (int16_t)(INT16_MIN + INFINITE_BITS) ? 0 : a[i].bits;
    }
}
#else
ALWAYS_INLINE T relu_one(T a)
{
    return a <= 0 ? 0 : a;
}
static void relu(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, relu_one);
}
#endif

ALWAYS_INLINE T threshold_one(T a, T x, T y)
{
    return a <= x ? y : a;
}
static void threshold(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->f[0], (T)s->f[1], threshold_one);
}

ALWAYS_INLINE T threshold_backward_one(T a, T b, T x, T y)
{
    return b <= x ? 0 : a;
}
static void threshold_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], 0, threshold_backward_one);
}

static void hardtanh(void *const *p, int64_t n, const cpu_scalars *s)
{
    T low = (T)s->f[0], high = (T)s->f[1];
    if (low == low && high == high)
        unary_with(p, n, low, high, clamp_between);
    else
        unary_with(p, n, low, high, clamp_one);
}

ALWAYS_INLINE T hardtanh_backward_one(T a, T b, T x, T y)
{
    return b <= x || b >= y ? 0 : a;
}
static void hardtanh_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], (T)s->f[1], hardtanh_backward_one);
}

ALWAYS_INLINE T hardsigmoid_one(T a)
{
    return clamp_between(a + 3, 0, 6) / 6;
}
static void hardsigmoid(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, hardsigmoid_one);
}

ALWAYS_INLINE T hardsigmoid_backward_one(T a, T b)
{
    return b > -3 && b < 3 ? a / 6 : 0;
}
static void hardsigmoid_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, hardsigmoid_backward_one);
}

ALWAYS_INLINE T hardswish_one(T a)
{
    return a * clamp_between(a + 3, 0, 6) / 6;
}
static void hardswish(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, hardswish_one);
}

ALWAYS_INLINE T hardswish_backward_one(T a, T b)
{
    return b <= -3 ? 0 : b < 3 ? a * (b / 3 + (T)0.5) : a;
}
static void hardswish_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, hardswish_backward_one);
}

ALWAYS_INLINE T hardshrink_one(T a, T x, T y)
{
    return a >= -x && a <= x ? 0 : a;
}
static void hardshrink(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->f[0], 0, hardshrink_one);
}

ALWAYS_INLINE T hardshrink_backward_one(T a, T b, T x, T y)
{
    return b >= -x && b <= x ? 0 : a;
}
static void hardshrink_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], 0, hardshrink_backward_one);
}

ALWAYS_INLINE T softshrink_one(T a, T x, T y)
{
    return a > x ? a - x : a < -x ? a + x : a * 0;
}
static void softshrink(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->f[0], 0, softshrink_one);
}

ALWAYS_INLINE T softshrink_backward_one(T a, T b, T x, T y)
{
    return b >= -x && b <= x ? 0 : a;
}
static void softshrink_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], 0, softshrink_backward_one);
}

ALWAYS_INLINE T leaky_relu_one(T a, T x, T y)
{
    return a > 0 ? a : a * x;
}
static void leaky_relu(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->f[0], 0, leaky_relu_one);
}

ALWAYS_INLINE T leaky_relu_backward_one(T a, T b, T x, T y)
{
    return b > 0 ? a : a * x;
}
static void leaky_relu_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], 0, leaky_relu_backward_one);
}

ALWAYS_INLINE T prelu_kernel_one(T a, T b)
{
    return a > 0 ? a : b * a;
}
static void prelu_kernel(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, prelu_kernel_one);
}

extern const cpu_pointwise_entry CPU_NAME(cpu_activation)[];
const cpu_pointwise_entry CPU_NAME(cpu_activation)[] = {
    {CPU_OP_sigmoid_backward, sigmoid_backward},
    {CPU_OP_tanh_backward, tanh_backward},
    {CPU_OP_logit_backward, logit_backward},
    {CPU_OP_relu, relu},
    {CPU_OP_threshold, threshold},
    {CPU_OP_threshold_backward, threshold_backward},
    {CPU_OP_hardtanh, hardtanh},
    {CPU_OP_hardtanh_backward, hardtanh_backward},
    {CPU_OP_hardsigmoid, hardsigmoid},
    {CPU_OP_hardsigmoid_backward, hardsigmoid_backward},
    {CPU_OP_hardswish, hardswish},
    {CPU_OP_hardswish_backward, hardswish_backward},
    {CPU_OP_hardshrink, hardshrink},
    {CPU_OP_hardshrink_backward, hardshrink_backward},
    {CPU_OP_softshrink, softshrink},
    {CPU_OP_softshrink_backward, softshrink_backward},
    {CPU_OP_leaky_relu, leaky_relu},
    {CPU_OP_leaky_relu_backward, leaky_relu_backward},
    {CPU_OP_prelu_kernel, prelu_kernel},
    {0, NULL},
};
