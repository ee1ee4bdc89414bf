/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators with one formula for all real dtypes (DTYPE=f32|f64|f16|bf16|i32|i64|u8|b8). Integers
 * wrap on overflow (-fwrapv). uint8 and bool have kernels for what images and masks need; all else is
 * computed in int32 for them and for the other small integers, which gives the same bits. Operators of floats
 * alone are in float.c, those of integers alone in integer.c.
 */
#include "loops.h"
#include "extremes.h"
#include "arithmetic_formulas.h"

LOOP(where, choose(p, n))

#if !defined(DTYPE_B8)
/* alpha is 1 in nearly all calls of add. */
KERNEL(add)
{
    if (scalar(s, 0) == 1)
        plain_add_kernel(p, n, s);
    else
        scaled_add_kernel(p, n, s);
}
#endif

#if !defined(DTYPE_B8) && !defined(DTYPE_U8)
ALWAYS_INLINE void clamp_to(void *const *p, int64_t n, T low, T high)
{
    if (!is_nan(low) && !is_nan(high))
        unary_with(p, n, low, high, 0, clamp_between_elem);
    else
        unary_with(p, n, low, high, 0, clamp_any_elem);
}
LOOP(hardtanh, clamp_to(p, n, scalar(s, 0), scalar(s, 1)))
LOOP(clamp, clamp_to(p, n, s->absent[0] ? LOWEST : scalar(s, 0), s->absent[1] ? HIGHEST : scalar(s, 1)))
KERNEL(clamp_tensor)
{
    if (s->count == 0)
        clamp_both_kernel(p, n, s);
    else if (s->absent_first)
        binary(p, n, smaller);
    else
        binary(p, n, larger);
}

#if CPU_IS_HALF
/* The bits are enough: neg turns the sign bit; relu clears patterns behind -0 up to -Inf and keeps -0 and NaN. */
#if defined(DTYPE_F16)
#define INFINITE_BITS 0x7c00
#else
#define INFINITE_BITS 0x7f80
#endif
KERNEL(neg)
{
    E *o = p[0];
    const E *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i].bits = a[i].bits ^ 0x8000u;
}
KERNEL(relu)
{
    E *o = p[0];
    const E *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits = a[i].bits, below_zero = (uint16_t)(bits - 0x8001u);
        o[i].bits = below_zero < INFINITE_BITS ? 0 : bits;
    }
}
#endif
#endif

POINTWISE_KERNELS(arithmetic) = {
    ENTRY(eq),
    ENTRY(ne),
    ENTRY(lt),
    ENTRY(le),
    ENTRY(gt),
    ENTRY(ge),
    ENTRY(logical_and),
    ENTRY(logical_or),
    ENTRY(logical_xor),
    ENTRY(logical_not),
    ENTRY(where),
    ENTRY(maximum),
    ENTRY(minimum),
#if !defined(DTYPE_B8)
    ENTRY(add),
    ENTRY(sub),
    ENTRY(mul),
#endif
#if !defined(DTYPE_B8) && !defined(DTYPE_U8)
    ENTRY(rsub),
    ENTRY(neg),
    ENTRY(sign),
    ENTRY_BY(sgn, sign),
    ENTRY(addcmul),
    ENTRY(heaviside),
    ENTRY(relu),
    ENTRY(threshold),
    ENTRY(threshold_backward),
    ENTRY(hardtanh),
    ENTRY(clamp),
    ENTRY(clamp_tensor),
    ENTRY(clamp_min),
    ENTRY(clamp_max),
    ENTRY_BY(clamp_min_tensor, maximum),
    ENTRY_BY(clamp_max_tensor, minimum),
#endif
    END_OF_KERNELS,
};
