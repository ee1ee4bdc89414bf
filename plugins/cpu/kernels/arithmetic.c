/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise arithmetic of floats (DTYPE=f32|f64|f16|bf16) that needs no function of the mathematical library:
 * an inline function of the elements and a loop for each. Formulas are ATen's where its results differ from
 * the obvious ones (signs of zero, NaN, infinities).
 */
#include "compare.h"
#include "convert.h"
#include "extremes.h"
#include "loops.h"

/* The largest finite number of the dtype in memory. */
ALWAYS_INLINE T largest_of(uint32_t slot)
{
    if (slot == CPU_F16) return 65504;
    if (slot == CPU_BF16) return (T)0x1.fep127;
    return sizeof(T) == 4 || slot == CPU_F32 ? (T)3.40282346638528859812e+38 : (T)1.7976931348623157e+308;
}

/* ---- Arithmetic -------------------------------------------------------------------------------------- */

/* alpha is 1 in nearly all calls. */

ALWAYS_INLINE T add_plain_one(T a, T b)
{
    return a + b;
}
static void add_plain(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, add_plain_one);
}

ALWAYS_INLINE T add_one(T a, T b, T alpha, T unused)
{
    return a + alpha * b;
}
static void add(void *const *p, int64_t n, const cpu_scalars *s)
{
    if (s->f[0] == 1)
        add_plain(p, n, s);
    else
        binary_with(p, n, (T)s->f[0], 0, add_one);
}

ALWAYS_INLINE T sub_one(T a, T b, T x, T y)
{
    return a - x * b;
}
static void sub(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], 0, sub_one);
}

ALWAYS_INLINE T rsub_one(T a, T b, T x, T y)
{
    return b - x * a;
}
static void rsub(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], 0, rsub_one);
}

ALWAYS_INLINE T mul_one(T a, T b)
{
    return a * b;
}
static void mul(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, mul_one);
}

ALWAYS_INLINE T scale_one(T a, T x, T unused)
{
    return a * x;
}
static void scale(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->f[0], 0, scale_one);
}

ALWAYS_INLINE T scale_down_one(T a, T x, T unused)
{
    return a / x;
}
static void scale_down(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->f[0], 0, scale_down_one);
}

ALWAYS_INLINE T quotient_one(T a, T b)
{
    return a / b;
}
static void quotient(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, quotient_one);
}

ALWAYS_INLINE T div_trunc_one(T a, T b)
{
    return FN(trunc)(a / b);
}
static void div_trunc(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, div_trunc_one);
}

/* Of half types the bits are enough. */
#if CPU_IS_HALF
static void abs_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    E *o = p[0];
    const E *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i].bits = a[i].bits & 0x7fffu;
}
static void neg(void *const *p, int64_t n, const cpu_scalars *s)
{
    E *o = p[0];
    const E *a = p[1];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i].bits = a[i].bits ^ 0x8000u;
}
#else
ALWAYS_INLINE T abs_of_one(T a)
{
    return FN(fabs)(a);
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
#endif

ALWAYS_INLINE T sign_one(T a)
{
    return (T)((a > 0) - (a < 0));
}
static void sign(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sign_one);
}

ALWAYS_INLINE T ceil_of_one(T a)
{
    return FN(ceil)(a);
}
static void ceil_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, ceil_of_one);
}

ALWAYS_INLINE T floor_of_one(T a)
{
    return FN(floor)(a);
}
static void floor_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, floor_of_one);
}

ALWAYS_INLINE T round_of_one(T a)
{
    return FN(rint)(a);
}
static void round_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, round_of_one);
}

/* x = 10^|decimals|: a large power divides, so that it is exact. */
ALWAYS_INLINE T round_up_one(T a, T x, T y)
{
    return FN(rint)(a * x) / x;
}
ALWAYS_INLINE T round_down_one(T a, T x, T y)
{
    return FN(rint)(a / x) * x;
}
static void round_decimals(void *const *p, int64_t n, const cpu_scalars *s)
{
    T power = (T)pow(10, fabs(s->f[0]));
    if (s->i[0] == 0)
        round_of(p, n, s);
    else if (s->i[0] > 0)
        unary_with(p, n, power, 0, round_up_one);
    else
        unary_with(p, n, power, 0, round_down_one);
}

ALWAYS_INLINE T trunc_of_one(T a)
{
    return FN(trunc)(a);
}
static void trunc_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, trunc_of_one);
}

ALWAYS_INLINE T frac_one(T a)
{
    return a - FN(trunc)(a);
}
static void frac(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, frac_one);
}

ALWAYS_INLINE T reciprocal_one(T a)
{
    return 1 / a;
}
static void reciprocal(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, reciprocal_one);
}

ALWAYS_INLINE T sqrt_of_one(T a)
{
    return FN(sqrt)(a);
}
static void sqrt_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, sqrt_of_one);
}

ALWAYS_INLINE T rsqrt_one(T a)
{
    return 1 / FN(sqrt)(a);
}
static void rsqrt(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, rsqrt_one);
}

ALWAYS_INLINE T copysign_of_one(T a, T b)
{
    return FN(copysign)(a, b);
}
static void copysign_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, copysign_of_one);
}

static void maximum(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, larger);
}
static void minimum(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, smaller);
}

/* NaN loses. */

ALWAYS_INLINE T fmax_of_one(T a, T b)
{
    return b != b || a > b ? a : b;
}
static void fmax_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, fmax_of_one);
}

ALWAYS_INLINE T fmin_of_one(T a, T b)
{
    return b != b || a < b ? a : b;
}
static void fmin_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, fmin_of_one);
}

/* ---- Choosing ---------------------------------------------------------------------------------------- */

static void clamp(void *const *p, int64_t n, const cpu_scalars *s)
{
    T low = s->absent[0] ? -INFINITY : (T)s->f[0], high = s->absent[1] ? INFINITY : (T)s->f[1];
    if (low == low && high == high)
        unary_with(p, n, low, high, clamp_between);
    else
        unary_with(p, n, low, high, clamp_one);
}
static void clamp_tensor(void *const *p, int64_t n, const cpu_scalars *s)
{
    if (s->count == 0)
        ternary(p, n, clamp_one);
    else if (s->absent_first)
        binary(p, n, smaller);
    else
        binary(p, n, larger);
}
ALWAYS_INLINE T clamp_min_one(T a, T low, T unused)
{
    return larger(a, low);
}
static void clamp_min(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->f[0], 0, clamp_min_one);
}
ALWAYS_INLINE T clamp_max_one(T a, T high, T unused)
{
    return smaller(a, high);
}
static void clamp_max(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary_with(p, n, (T)s->f[0], 0, clamp_max_one);
}
static void where(void *const *p, int64_t n, const cpu_scalars *s)
{
    E *o = p[0];
    const uint8_t *condition = p[1];
    const E *a = p[2], *b = p[3];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        E x = a[i], y = b[i];
        o[i] = condition[i] ? x : y;
    }
}
/* a b + c, rounded once where the level has an instruction for it, or a wider type. */
ALWAYS_INLINE T product_sum(T a, T b, T c)
{
#if defined(__FMA__)
    return FN(__builtin_fma)(a, b, c);
#else
    return (T)((double)a * (double)b + (double)c);
#endif
}
/* From the end at which the weight loses nothing: both ends are met exactly, and 1 - weight is exact up to 2.
 */
ALWAYS_INLINE T lerp_one(T a, T b, T weight)
{
    int32_t from_end = (weight >= (T)0.5) & (weight <= 2);
    return product_sum(from_end ? weight - 1 : weight, b - a, from_end ? b : a);
}
static void lerp_tensor(void *const *p, int64_t n, const cpu_scalars *s)
{
    ternary(p, n, lerp_one);
}
ALWAYS_INLINE T lerp_scalar_one(T a, T b, T weight, T unused)
{
    return lerp_one(a, b, weight);
}
static void lerp(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], 0, lerp_scalar_one);
}

ALWAYS_INLINE T addcmul_one(T a, T b, T c, T x)
{
    return a + x * b * c;
}
static void addcmul(void *const *p, int64_t n, const cpu_scalars *s)
{
    ternary_with(p, n, (T)s->f[0], addcmul_one);
}

ALWAYS_INLINE T addcdiv_one(T a, T b, T c, T x)
{
    return a + x * b / c;
}
static void addcdiv(void *const *p, int64_t n, const cpu_scalars *s)
{
    ternary_with(p, n, (T)s->f[0], addcdiv_one);
}

ALWAYS_INLINE T heaviside_one(T a, T b)
{
    return a == 0 ? b : (T)(a > 0);
}
static void heaviside(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, heaviside_one);
}

static void nan_to_num(void *const *p, int64_t n, const cpu_scalars *s)
{
    E *o = p[0];
    const E *a = p[1];
    T largest = largest_of(s->slot), nan = s->absent[0] ? 0 : (T)s->f[0];
    T above = s->absent[1] ? largest : (T)s->f[1], below = s->absent[2] ? -largest : (T)s->f[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        T x = load(a + i);
        store(o + i, x != x ? nan : x == INFINITY ? above : x == -INFINITY ? below : x);
    }
}

ALWAYS_INLINE T deg2rad_one(T a)
{
    return a * (T)0.017453292519943295769236907684886;
}
static void deg2rad(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, deg2rad_one);
}

ALWAYS_INLINE T rad2deg_one(T a)
{
    return a * (T)57.295779513082320876798154814105;
}
static void rad2deg(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, rad2deg_one);
}

ALWAYS_INLINE T angle_one(T a)
{
    return a != a ? a : a < 0 ? (T)3.14159265358979323846 : 0;
}
static void angle(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, angle_one);
}

ALWAYS_INLINE T conj_physical_one(T a)
{
    return a;
}
static void conj_physical(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, conj_physical_one);
}

ALWAYS_INLINE T native_dropout_backward_one(T a, T b, T x, T y)
{
    return a * b * x;
}
static void native_dropout_backward(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary_with(p, n, (T)s->f[0], 0, native_dropout_backward_one);
}

/* ---- Comparisons ------------------------------------------------------------------------------------- */

ALWAYS_INLINE int32_t isnan_of_one(T a)
{
    return a != a;
}
static void isnan_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isnan_of_one);
}

ALWAYS_INLINE int32_t isinf_of_one(T a)
{
    return FN(fabs)(a) == INFINITY;
}
static void isinf_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isinf_of_one);
}

ALWAYS_INLINE int32_t isfinite_of_one(T a)
{
    return FN(fabs)(a) < INFINITY;
}
static void isfinite_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isfinite_of_one);
}

ALWAYS_INLINE int32_t isposinf_one(T a)
{
    return a == INFINITY;
}
static void isposinf(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isposinf_one);
}

ALWAYS_INLINE int32_t isneginf_one(T a)
{
    return a == -INFINITY;
}
static void isneginf(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isneginf_one);
}

ALWAYS_INLINE int32_t isreal_one(T a)
{
    return 1;
}
static void isreal(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, isreal_one);
}

ALWAYS_INLINE int32_t signbit_of_one(T a)
{
    return FN(copysign)(1, a) < 0;
}
static void signbit_of(void *const *p, int64_t n, const cpu_scalars *s)
{
    test(p, n, signbit_of_one);
}

extern const cpu_pointwise_entry CPU_NAME(cpu_arithmetic)[];
const cpu_pointwise_entry CPU_NAME(cpu_arithmetic)[] = {
    {CPU_OP_add, add},
    {CPU_OP_sub, sub},
    {CPU_OP_rsub, rsub},
    {CPU_OP_mul, mul},
    {CPU_OP_scale, scale},
    {CPU_OP_scale_down, scale_down},
    {CPU_OP_div, quotient},
    {CPU_OP_div_trunc, div_trunc},
    {CPU_OP_abs, abs_of},
    {CPU_OP_neg, neg},
    {CPU_OP_sign, sign},
    {CPU_OP_sgn, sign},
    {CPU_OP_ceil, ceil_of},
    {CPU_OP_floor, floor_of},
    {CPU_OP_round, round_of},
    {CPU_OP_round_decimals, round_decimals},
    {CPU_OP_trunc, trunc_of},
    {CPU_OP_frac, frac},
    {CPU_OP_reciprocal, reciprocal},
    {CPU_OP_sqrt, sqrt_of},
    {CPU_OP_rsqrt, rsqrt},
    {CPU_OP_copysign, copysign_of},
    {CPU_OP_maximum, maximum},
    {CPU_OP_minimum, minimum},
    {CPU_OP_fmax, fmax_of},
    {CPU_OP_fmin, fmin_of},
    {CPU_OP_clamp, clamp},
    {CPU_OP_clamp_tensor, clamp_tensor},
    {CPU_OP_clamp_min, clamp_min},
    {CPU_OP_clamp_min_tensor, maximum},
    {CPU_OP_clamp_max, clamp_max},
    {CPU_OP_clamp_max_tensor, minimum},
    {CPU_OP_where, where},
    {CPU_OP_lerp_tensor, lerp_tensor},
    {CPU_OP_lerp, lerp},
    {CPU_OP_addcmul, addcmul},
    {CPU_OP_addcdiv, addcdiv},
    {CPU_OP_heaviside, heaviside},
    {CPU_OP_nan_to_num, nan_to_num},
    {CPU_OP_deg2rad, deg2rad},
    {CPU_OP_rad2deg, rad2deg},
    {CPU_OP_angle, angle},
    {CPU_OP_conj_physical, conj_physical},
    {CPU_OP_native_dropout_backward, native_dropout_backward},
    {CPU_OP_eq, eq},
    {CPU_OP_ne, ne},
    {CPU_OP_lt, lt},
    {CPU_OP_le, le},
    {CPU_OP_gt, gt},
    {CPU_OP_ge, ge},
    {CPU_OP_isnan, isnan_of},
    {CPU_OP_isinf, isinf_of},
    {CPU_OP_isfinite, isfinite_of},
    {CPU_OP_isposinf, isposinf},
    {CPU_OP_isneginf, isneginf},
    {CPU_OP_isreal, isreal},
    {CPU_OP_signbit, signbit_of},
    {CPU_OP_logical_and, logical_and},
    {CPU_OP_logical_or, logical_or},
    {CPU_OP_logical_xor, logical_xor},
    {CPU_OP_logical_not, logical_not},
    {0, NULL},
};
