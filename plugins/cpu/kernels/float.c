/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise arithmetic that floats alone have (DTYPE=f32|f64|f16|bf16) and that needs no function of the
 * mathematical library. Formulas are ATen's where its results differ from the obvious ones (signs of zero,
 * NaN, infinities).
 */
#include "loops.h"

/* a b + c, rounded once, by an instruction of the level or in a wider type. */
ALWAYS_INLINE T fused(T a, T b, T c)
{
#if defined(__FMA__)
    return FN(__builtin_fma)(a, b, c);
#else
    return (T)((double)a * (double)b + (double)c);
#endif
}
#include "float_formulas.h"

#if CPU_IS_HALF
/* The bits are enough. */
KERNEL(abs)
{
    E *o = p[0];
    const E *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i].bits = a[i].bits & 0x7fffu;
}
#endif

KERNEL(round_decimals)
{
    T power = (T)pow(10, fabs(s->f[0]));
    if (s->i[0] == 0)
        round_kernel(p, n, s);
    else if (s->i[0] > 0)
        unary_with(p, n, power, 0, 0, round_up_elem);
    else
        unary_with(p, n, power, 0, 0, round_down_elem);
}

/* The largest finite number of the dtype in memory. */
ALWAYS_INLINE T largest_finite(uint32_t slot)
{
    if (slot == CPU_F16) return 65504;
    if (slot == CPU_BF16) return (T)0x1.fep127;
    return sizeof(T) == 4 || slot == CPU_F32 ? (T)3.40282346638528859812e+38 : (T)1.7976931348623157e+308;
}
KERNEL(nan_to_num)
{
    T largest = largest_finite(s->slot);
    unary_with(p, n, s->absent[0] ? 0 : scalar(s, 0), s->absent[1] ? largest : scalar(s, 1),
               s->absent[2] ? -largest : scalar(s, 2), replace_non_finite_elem);
}

POINTWISE_KERNELS(float) = {
    ENTRY(div),
    ENTRY(div_trunc),
    ENTRY(scale),
    ENTRY(scale_down),
    ENTRY(reciprocal),
    ENTRY(sqrt),
    ENTRY(rsqrt),
    ENTRY(addcdiv),
    ENTRY(deg2rad),
    ENTRY(rad2deg),
    ENTRY(angle),
    ENTRY(conj_physical),
    ENTRY(copysign),
    ENTRY(native_dropout_backward),
    ENTRY(abs),
    ENTRY(fmax),
    ENTRY(fmin),
    ENTRY(lerp_tensor),
    ENTRY(lerp),
    ENTRY(ceil),
    ENTRY(floor),
    ENTRY(round),
    ENTRY(trunc),
    ENTRY(frac),
    ENTRY(round_decimals),
    ENTRY(isnan),
    ENTRY(isinf),
    ENTRY(isfinite),
    ENTRY(isposinf),
    ENTRY(isneginf),
    ENTRY(isreal),
    ENTRY(signbit),
    ENTRY(nan_to_num),
    END_OF_KERNELS,
};
