/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators that integers alone have, or compute in their own way (DTYPE=i32|i64, and u8|b8 for the
 * bitwise ones). Overflow wraps (-fwrapv) and nothing traps: a division by zero gives 0, but pointwise.c
 * refuses it before.
 */
#include "loops.h"

#define TYPE_BITS ((T)(sizeof(T) * 8))
#include "integer_formulas.h"

#if defined(DTYPE_I32) || defined(DTYPE_I64)
UNARY(square, (a * a))
KERNEL(pow_scalar)
{
    if (s->i[0] == 2)
        square_kernel(p, n, s);
    else
        power_kernel(p, n, s);
}
#endif

POINTWISE_KERNELS(integer) = {
    ENTRY(bitwise_and),
    ENTRY(bitwise_or),
    ENTRY(bitwise_xor),
#if !defined(DTYPE_B8)
    ENTRY(bitwise_not),
#endif
#if defined(DTYPE_I32) || defined(DTYPE_I64)
    ENTRY(div_trunc),
    ENTRY(fmod),
    ENTRY(floor_divide),
    ENTRY(remainder),
    ENTRY(addcdiv),
    ENTRY(gcd),
    ENTRY(lcm),
    ENTRY(pow),
    ENTRY(pow_scalar),
    ENTRY(bitwise_left_shift),
    ENTRY(bitwise_right_shift),
    ENTRY(abs),
    ENTRY(fmax),
    ENTRY(fmin),
    ENTRY(signbit),
    ENTRY_BY(ceil, same),
    ENTRY_BY(floor, same),
    ENTRY_BY(round, same),
    ENTRY_BY(round_decimals, same),
    ENTRY_BY(trunc, same),
    ENTRY_BY(conj_physical, same),
    ENTRY_BY(nan_to_num, same),
    ENTRY_BY(isnan, never),
    ENTRY_BY(isinf, never),
    ENTRY_BY(isposinf, never),
    ENTRY_BY(isneginf, never),
    ENTRY_BY(isfinite, always),
    ENTRY_BY(isreal, always),
#endif
    END_OF_KERNELS,
};
