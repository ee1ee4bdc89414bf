/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of integers (DTYPE=i32|i64). Overflow wraps (-fwrapv), and nothing traps: a division by
 * zero gives 0, where the core has not refused it before. Smaller integers and bool are computed in these
 * types and cut afterwards, which gives the same bits.
 */
#include "bits.h"
#include "compare.h"
#include "loops.h"

#include <limits.h>

#define TYPE_BITS ((T)(sizeof(T) * 8))
#define SMALLEST  ((T)((T)1 << (sizeof(T) * 8 - 1)))
#define LARGEST   ((T)~SMALLEST)

/* ---- Arithmetic -------------------------------------------------------------------------------------- */

ALWAYS_INLINE T add_one(T a, T b, T x, T y)
{
    return a + x * b;
}
static void add(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->i[0], 0, add_one);
}

ALWAYS_INLINE T sub_one(T a, T b, T x, T y)
{
    return a - x * b;
}
static void sub(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->i[0], 0, sub_one);
}

ALWAYS_INLINE T rsub_one(T a, T b, T x, T y)
{
    return b - x * a;
}
static void rsub(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->i[0], 0, rsub_one);
}

ALWAYS_INLINE T mul_one(T a, T b)
{
    return a * b;
}
static void mul(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, mul_one);
}

/* Division by -1 is a negation, which does not trap for the smallest number. */

ALWAYS_INLINE T div_trunc_one(T a, T b)
{
    return b == 0 ? 0 : b == -1 ? -a : a / b;
}
static void div_trunc(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, div_trunc_one);
}

ALWAYS_INLINE T floor_divide_one(T a, T b)
{
    T quotient = div_trunc_one(a, b), rest = a - quotient * b;
    return b != 0 && rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
}
static void floor_divide(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, floor_divide_one);
}

ALWAYS_INLINE T fmod_of_one(T a, T b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}
static void fmod_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, fmod_of_one);
}

ALWAYS_INLINE T remainder_one(T a, T b)
{
    T rest = fmod_of_one(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static void remainder_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, remainder_one);
}

ALWAYS_INLINE T abs_of_one(T a)
{
    return a < 0 ? -a : a;
}
static void abs_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, abs_of_one);
}

ALWAYS_INLINE T neg_one(T a)
{
    return -a;
}
static void neg(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, neg_one);
}

ALWAYS_INLINE T sign_one(T a)
{
    return (T)((a > 0) - (a < 0));
}
static void sign(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sign_one);
}

/* What rounding leaves as it is. */

ALWAYS_INLINE T same_one(T a)
{
    return a;
}
static void same(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, same_one);
}

/* ---- Choosing ---------------------------------------------------------------------------------------- */

ALWAYS_INLINE T clamp_one(T a, T low, T high)
{
    return minimum_one(maximum_one(a, low), high);
}
static void clamp(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, s->absent[0] ? SMALLEST : (T)s->i[0], s->absent[1] ? LARGEST : (T)s->i[1], clamp_one);
}
static void hardtanh(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->i[0], (T)s->i[1], clamp_one);
}
static void clamp_tensor(void *const *p, int64_t n, const cpu_scalars *s)
{
    if (s->count == 0)
        ternary(p, n, clamp_one);
    else if (s->absent_first)
        binary(p, n, minimum_one);
    else
        binary(p, n, maximum_one);
}
ALWAYS_INLINE T clamp_min_one(T a, T low, T unused)
{
    return maximum_one(a, low);
}
static void clamp_min(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->i[0], 0, clamp_min_one);
}
ALWAYS_INLINE T clamp_max_one(T a, T high, T unused)
{
    return minimum_one(a, high);
}
static void clamp_max(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->i[0], 0, clamp_max_one);
}
static void where(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const uint8_t *condition = p[1];
    const T *a = p[2], *b = p[3];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = condition[i] ? a[i] : b[i];
}

ALWAYS_INLINE T addcmul_one(T a, T b, T c, T x)
{
    return a + x * b * c;
}
static void addcmul(void *const *p, int64_t n, const cpu_scalars *s)
{
    ternary_with(p, n, (T)s->i[0], addcmul_one);
}

ALWAYS_INLINE T addcdiv_one(T a, T b, T c, T x)
{
    return a + div_trunc_one(x * b, c);
}
static void addcdiv(void *const *p, int64_t n, const cpu_scalars *s)
{
    ternary_with(p, n, (T)s->i[0], addcdiv_one);
}

ALWAYS_INLINE T heaviside_one(T a, T b)
{
    return a == 0 ? b : (T)(a > 0);
}
static void heaviside(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, heaviside_one);
}

ALWAYS_INLINE T relu_one(T a)
{
    return a <= 0 ? 0 : a;
}
static void relu(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, relu_one);
}

ALWAYS_INLINE T threshold_one(T a, T x, T y)
{
    return a <= x ? y : a;
}
static void threshold(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->i[0], (T)s->i[1], threshold_one);
}

ALWAYS_INLINE T threshold_backward_one(T a, T b, T x, T y)
{
    return b <= x ? 0 : a;
}
static void threshold_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->i[0], 0, threshold_backward_one);
}

/* Whole powers by squaring; negative ones are 0 but of 1 and -1. */
ALWAYS_INLINE T power_of(T a, T exponent)
{
    T result = 1;
    if (exponent < 0) return a == 1 ? 1 : a == -1 ? (exponent & 1 ? -1 : 1) : 0;
    for (; exponent; exponent >>= 1, a *= a)
        if (exponent & 1) result *= a;
    return result;
}
static void power(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, power_of);
}
ALWAYS_INLINE T power_scalar_one(T a, T exponent, T unused)
{
    return power_of(a, exponent);
}
ALWAYS_INLINE T square_one(T a, T unused, T unused_too)
{
    return a * a;
}
static void power_scalar(void *const *p, int64_t n, const cpu_scalars *s)
{
    if (s->i[0] == 2)
        unary_with(p, n, 2, 0, square_one);
    else
        unary_with(p, n, (T)s->i[0], 0, power_scalar_one);
}

/* ---- Bits -------------------------------------------------------------------------------------------- */

ALWAYS_INLINE T bitwise_not_one(T a)
{
    return ~a;
}
static void bitwise_not(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, bitwise_not_one);
}

/* Shifts by more than the width leave 0, to the right the sign. */

ALWAYS_INLINE T left_shift_one(T a, T b)
{
    return b < 0 || b >= TYPE_BITS ? 0 : a << b;
}
static void left_shift(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, left_shift_one);
}

ALWAYS_INLINE T right_shift_one(T a, T b)
{
    return a >> (b < 0 || b >= TYPE_BITS ? TYPE_BITS - 1 : b);
}
static void right_shift(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, right_shift_one);
}

ALWAYS_INLINE T gcd_one(T a, T b)
{
    while (b != 0) {
        T rest = b == -1 ? 0 : a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}
static void gcd(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, gcd_one);
}
ALWAYS_INLINE T lcm_one(T a, T b)
{
    T divisor = gcd_one(a, b);
    T multiple = divisor == 0 ? 0 : a / divisor * b;
    return multiple < 0 ? -multiple : multiple;
}
static void lcm(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, lcm_one);
}

/* ---- Comparisons ------------------------------------------------------------------------------------- */

ALWAYS_INLINE int32_t never_one(T a)
{
    return 0;
}
static void never(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, never_one);
}

ALWAYS_INLINE int32_t always_one(T a)
{
    return 1;
}
static void always(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, always_one);
}

ALWAYS_INLINE int32_t negative_one(T a)
{
    return a < 0;
}
static void negative(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, negative_one);
}

extern const cpu_pointwise_entry CPU_NAME(cpu_integer)[];
const cpu_pointwise_entry CPU_NAME(cpu_integer)[] = {
    {CPU_OP_add, add},
    {CPU_OP_sub, sub},
    {CPU_OP_rsub, rsub},
    {CPU_OP_mul, mul},
    {CPU_OP_div_trunc, div_trunc},
    {CPU_OP_floor_divide, floor_divide},
    {CPU_OP_remainder, remainder_of},
    {CPU_OP_fmod, fmod_of},
    {CPU_OP_abs, abs_of},
    {CPU_OP_neg, neg},
    {CPU_OP_sign, sign},
    {CPU_OP_sgn, sign},
    {CPU_OP_ceil, same},
    {CPU_OP_floor, same},
    {CPU_OP_round, same},
    {CPU_OP_round_decimals, same},
    {CPU_OP_trunc, same},
    {CPU_OP_conj_physical, same},
    {CPU_OP_nan_to_num, same},
    {CPU_OP_maximum, maximum},
    {CPU_OP_minimum, minimum},
    {CPU_OP_fmax, maximum},
    {CPU_OP_fmin, minimum},
    {CPU_OP_clamp, clamp},
    {CPU_OP_clamp_tensor, clamp_tensor},
    {CPU_OP_clamp_min, clamp_min},
    {CPU_OP_clamp_min_tensor, maximum},
    {CPU_OP_clamp_max, clamp_max},
    {CPU_OP_clamp_max_tensor, minimum},
    {CPU_OP_where, where},
    {CPU_OP_addcmul, addcmul},
    {CPU_OP_addcdiv, addcdiv},
    {CPU_OP_heaviside, heaviside},
    {CPU_OP_relu, relu},
    {CPU_OP_threshold, threshold},
    {CPU_OP_threshold_backward, threshold_backward},
    {CPU_OP_hardtanh, hardtanh},
    {CPU_OP_pow, power},
    {CPU_OP_pow_scalar, power_scalar},
    {CPU_OP_bitwise_and, bitwise_and},
    {CPU_OP_bitwise_or, bitwise_or},
    {CPU_OP_bitwise_xor, bitwise_xor},
    {CPU_OP_bitwise_not, bitwise_not},
    {CPU_OP_bitwise_left_shift, left_shift},
    {CPU_OP_bitwise_right_shift, right_shift},
    {CPU_OP_gcd, gcd},
    {CPU_OP_lcm, lcm},
    {CPU_OP_eq, eq},
    {CPU_OP_ne, ne},
    {CPU_OP_lt, lt},
    {CPU_OP_le, le},
    {CPU_OP_gt, gt},
    {CPU_OP_ge, ge},
    {CPU_OP_isnan, never},
    {CPU_OP_isinf, never},
    {CPU_OP_isposinf, never},
    {CPU_OP_isneginf, never},
    {CPU_OP_isfinite, always},
    {CPU_OP_isreal, always},
    {CPU_OP_signbit, negative},
    {CPU_OP_logical_and, logical_and},
    {CPU_OP_logical_or, logical_or},
    {CPU_OP_logical_xor, logical_xor},
    {CPU_OP_logical_not, logical_not},
    {0, NULL},
};
