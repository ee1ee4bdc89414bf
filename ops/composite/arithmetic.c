/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: elementwise arithmetic (clamps, interpolation, fused products, signs, angles). */
#include <float.h>
#include <math.h>
#include "ops/composite/pointwise_lowering.h"

void composite_frac(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0, tn_sub(s, self, tn_trunc(s, self)));
}

/* Scaled by the larger one, so that no square overflows; inf wins over NaN. */
void composite_hypot(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *a = tn_abs(s, x[0]), *b = tn_abs(s, x[1]);
    tn_tensor *large = tn_maximum(s, a, b), *ratio = tn_div(s, tn_minimum(s, a, b), large);
    tn_tensor *out = tn_mul(s, large, tn_sqrt(s, plus(s, tn_mul(s, ratio, ratio), 1)));
    tn_tensor *infinite = tn_logical_or(s, tn_isinf(s, a), tn_isinf(s, b));
    out = zero_where(s, tn_eq_scalar(s, large, 0), out);
    formula_give(s, outs, tn_where_scalarself(s, infinite, (double)INFINITY, out), dtype);
}

void composite_copysign(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open_float(s, args, 2, x);
    tn_tensor *size = tn_abs(s, x[0]);
    formula_give(s, outs, tn_where(s, tn_signbit(s, x[1]), tn_neg(s, size), size), dtype);
}

/* The operand that is not NaN wins. */
void composite_fmax(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    give(outs, 0, tn_where(s, tn_logical_or(s, tn_isnan(s, b), tn_gt(s, a, b)), a, b));
}

void composite_fmin(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    give(outs, 0, tn_where(s, tn_logical_or(s, tn_isnan(s, b), tn_lt(s, a, b)), a, b));
}

/* |a / gcd b|, 0 where both are 0; narrow integers in int32, so that the absolute value does not overflow. */
void composite_lcm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    for (int32_t i = 0; i < 2 && TN_DTYPE_BITS(dtype) < 32; i++)
        x[i] = x[i] ? tni_cast(s, x[i], TN_INT32) : NULL;
    tn_tensor *common = tn_gcd(s, x[0], x[1]), *none = tn_eq_scalar(s, common, 0);
    tn_tensor *share = tn_div_tensor_mode(s, x[0], tn_where_scalarself(s, none, 1, common), "trunc");
    formula_give(s, outs, tn_abs(s, tn_mul(s, share, x[1])), dtype);
}

/* ---- clamps: NaN on either side gives NaN ---- */

static tn_tensor *limited(tn_scope *s, tn_tensor *t, tn_tensor *low, tn_tensor *high)
{
    if (low) t = tn_maximum(s, t, low);
    return high ? tn_minimum(s, t, high) : t;
}

static void add_number(tni_promotion *p, tn_value v)
{
    if (v.tag == TN_TAG_NONE) return;
    tni_promotion_add(p,
                      v.tag == TN_TAG_FLOAT  ? TN_FLOAT64
                      : v.tag == TN_TAG_BOOL ? TN_BOOL
                                             : TN_INT64,
                      1, 1);
}

/* Scalars take part in promotion. */
static void clamp_numbers(tn_scope *s, tn_tensor *self, tn_value low, tn_value high, tn_value *outs)
{
    tni_promotion p = {0};
    if (!self) return;
    tni_promotion_add(&p, dtype_of(self), rank_of(self) == 0, (tn_desc(self)->flags & TN_DESC_WRAPPED) != 0);
    add_number(&p, low);
    add_number(&p, high);
    self = tni_cast(s, self, tni_promotion_result(&p, tni_default_dtype(s->ctx)));
    give(outs, 0,
         limited(s, self, low.tag ? tni_number_like(s, self, low) : NULL,
                 high.tag ? tni_number_like(s, self, high) : NULL));
}

void composite_clamp(tn_scope *s, const tn_value *args, tn_value *outs)
{
    clamp_numbers(s, arg_tensor(args, 0), args[1], args[2], outs);
}
void composite_clamp_min(tn_scope *s, const tn_value *args, tn_value *outs)
{
    clamp_numbers(s, arg_tensor(args, 0), args[1], tn_value_none(), outs);
}
void composite_clamp_max(tn_scope *s, const tn_value *args, tn_value *outs)
{
    clamp_numbers(s, arg_tensor(args, 0), tn_value_none(), args[1], outs);
}
void composite_clamp_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[3];
    tn_dtype dtype = tni_formula_open(s, args, 3, x);
    formula_give(s, outs, limited(s, x[0], x[1], x[2]), dtype);
}
void composite_clamp_min_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_maximum(s, arg_tensor(args, 0), arg_tensor(args, 1)));
}
void composite_clamp_max_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_minimum(s, arg_tensor(args, 0), arg_tensor(args, 1)));
}

/* ---- interpolation from the nearer end, so that both ends are exact ---- */

void composite_lerp(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[3];
    tn_dtype dtype = tni_formula_open(s, args, 3, x);
    tn_tensor *way = tn_sub(s, x[1], x[0]);
    tn_tensor *from_start = tn_add(s, x[0], tn_mul(s, x[2], way));
    tn_tensor *from_end = tn_sub(s, x[1], tn_mul(s, way, one_minus(s, x[2])));
    tn_tensor *first = tn_lt_scalar(s, tn_abs(s, x[2]), 0.5);
    formula_give(s, outs, tn_where(s, first, from_start, from_end), dtype);
}

void composite_lerp_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *weight = tni_number_like(s, x[0], args[2]), *way = tn_sub(s, x[1], x[0]);
    const double *parts = args[2].tag == TN_TAG_COMPLEX ? args[2].as.floats : NULL;
    double size = parts ? hypot(parts[0], parts[1]) : fabs(arg_float(args, 2));
    tn_tensor *out = size < 0.5 ? tn_add(s, x[0], tn_mul(s, way, weight))
                                : tn_sub(s, x[1], tn_mul(s, way, one_minus(s, weight)));
    formula_give(s, outs, out, dtype);
}

/* ---- self plus a product or a quotient ---- */

void composite_addcmul(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[3];
    tn_dtype dtype = tni_formula_open(s, args, 3, x);
    tn_tensor *first = tn_mul_scalar(s, x[1], tni_formula_number(args[3], dtype));
    formula_give(s, outs, tn_add(s, x[0], tn_mul(s, first, x[2])), dtype);
}

/* Integers: the quotient is truncated, and 0 where the divisor is 0. */
static tn_tensor *quotient(tn_scope *s, tn_tensor *a, tn_tensor *b, tn_dtype dtype)
{
    if (!is_integer(dtype)) return tn_div(s, a, b);
    tn_tensor *zero = tn_eq_scalar(s, b, 0);
    return zero_where(s, zero, tn_div_tensor_mode(s, a, tn_where_scalarself(s, zero, 1, b), "trunc"));
}

void composite_addcdiv(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[3];
    tn_dtype dtype = tni_formula_open(s, args, 3, x);
    tn_tensor *first = tn_mul_scalar(s, x[1], tni_formula_number(args[3], dtype));
    formula_give(s, outs, tn_add(s, x[0], quotient(s, first, x[2], dtype)), dtype);
}

/* ---- choices ---- */

void composite_heaviside(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open(s, args, 2, x);
    tn_tensor *step = tni_cast(s, tn_gt_scalar(s, x[0], 0), wide_dtype(dtype));
    formula_give(s, outs, tn_where(s, tn_eq_scalar(s, x[0], 0), x[1], step), dtype);
}

static double largest_of(tn_dtype dtype)
{
    switch (dtype) {
    case TN_FLOAT16:
        return 65504;
    case TN_BFLOAT16:
        return 0x1.fep127;
    case TN_FLOAT32:
        return FLT_MAX;
    default:
        return DBL_MAX;
    }
}

static tn_tensor *numbers_of(tn_scope *s, tn_tensor *t, const tn_value *args)
{
    if (!t || is_integer(dtype_of(t))) return t ? tn_clone(s, t) : NULL;
    double largest = largest_of(dtype_of(t));
    tn_tensor *out = tn_where_scalarself(s, tn_isnan(s, t), arg_float_or(args, 1, 0), t);
    out = tn_where_scalarself(s, tn_eq_scalar(s, t, (double)INFINITY), arg_float_or(args, 2, largest), out);
    return tn_where_scalarself(s, tn_eq_scalar(s, t, -(double)INFINITY), arg_float_or(args, 3, -largest),
                               out);
}

/* Complex numbers: real and imaginary parts each. */
void composite_nan_to_num(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (!is_complex(dtype_of(self))) return give(outs, 0, numbers_of(s, self, args));
    tn_tensor *parts = numbers_of(s, tn_view_as_real(s, tn_resolve_conj(s, self)), args);
    give(outs, 0, tn_view_as_complex(s, parts));
}

void composite_isposinf(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_eq_scalar(s, arg_tensor(args, 0), (double)INFINITY));
}
void composite_isneginf(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_eq_scalar(s, arg_tensor(args, 0), -(double)INFINITY));
}
void composite_isreal(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (is_complex(dtype_of(self))) return give(outs, 0, tn_eq_scalar(s, tn_imag(s, self), 0));
    give(outs, 0, tni_full_on(s, self, TN_BOOL, sizes_of(self), tn_value_bool(1)));
}

/* ---- angles ---- */

static void times(tn_scope *s, const tn_value *args, tn_value *outs, double factor)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open_float(s, args, 1, x);
    formula_give(s, outs, tn_mul_scalar(s, x[0], factor), dtype);
}

FORWARD(composite_deg2rad, times, M_PI / 180)
FORWARD(composite_rad2deg, times, 180 / M_PI)

/* Real input: 0 or pi, and NaN for NaN. */
void composite_angle(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open_float(s, args, 1, x);
    if (is_complex(dtype)) return give(outs, 0, tn_atan2(s, tn_imag(s, x[0]), tn_real(s, x[0])));
    tn_tensor *half_turn = tn_mul_scalar(s, tni_cast(s, tn_lt_scalar(s, x[0], 0), wide_dtype(dtype)), M_PI);
    formula_give(s, outs, tn_where(s, tn_isnan(s, x[0]), x[0], half_turn), dtype);
}

void composite_polar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *size = arg_tensor(args, 0), *angle = arg_tensor(args, 1);
    give(outs, 0, tn_complex(s, tn_mul(s, size, tn_cos(s, angle)), tn_mul(s, size, tn_sin(s, angle))));
}
