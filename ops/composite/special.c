/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: special functions over other functions. */
#include <math.h>
#include "ops/composite/pointwise_lowering.h"

void composite_polygamma_inplace(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *x = self;
    if (is_integer(dtype_of(self)))
        return (void)tni_scope_failf(
            s, TN_E_DTYPE, "result type %s can't be cast to the desired output type %s",
            tni_dtype_error_name(float_of(s, dtype_of(self))), tni_dtype_error_name(dtype_of(self)));
    if (tni_wants_grad(self)) x = tn_clone(s, self); /* its gradient needs the overwritten value */
    give(outs, 0, tn_copy_(s, self, tn_polygamma(s, arg_int(args, 1), x)));
}

/* log of the multivariate gamma function: p (p - 1) / 4 log(pi) plus the sum of lgamma(x - i / 2). */
void composite_mvlgamma(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *steps, *terms;
    int64_t p = arg_int(args, 1);
    double constant = (double)(p * (p - 1)) * 0.25 * 1.1447298858494001741434273513530587116;
    if (p < 1) {
        tn_scope_fail(s, TN_E_ARGUMENT, "p has to be greater than or equal to 1");
        return;
    }
    self = tni_cast(s, self, float_of(s, dtype_of(self)));
    steps = tni_empty_on(s, self, 0, TN_INTS(p));
    if (!steps) return;
    steps = tn_prim_iota(s, steps, -(double)p / 2 + 0.5, 0.5);
    terms = tn_lgamma(s, tn_add(s, tn_unsqueeze(s, self, -1), steps));
    give(outs, 0, tn_add_scalar(s, tn_sum_dim(s, terms, TN_INTS(-1)), constant));
}

/*
 * The normal distribution function: erfc(-x / sqrt 2) / 2, in float64, as a relative error of x counts x^2
 * times.
 */
void composite_ndtr(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_tensor *z = tn_mul_scalar(s, tni_cast(s, self, TN_FLOAT64), -0.70710678118654752440);
    give(outs, 0, tni_cast(s, tn_mul_scalar(s, tn_erfc(s, z), 0.5), float_of(s, dtype_of(self))));
}

/* ---- x log y and the like: 0 where x is 0, unless y is NaN ---- */

static void x_log(tn_scope *s, const tn_value *args, tn_value *outs,
                  tn_tensor *(*log_of)(tn_scope *, tn_tensor *))
{
    tn_tensor *x[2];
    tn_dtype dtype = tni_formula_open_float(s, args, 2, x);
    tn_tensor *zero = tn_logical_and(s, tn_eq_scalar(s, x[0], 0), tn_logical_not(s, tn_isnan(s, x[1])));
    formula_give(s, outs, zero_where(s, zero, tn_mul(s, x[0], log_of(s, x[1]))), dtype);
}

FORWARD(composite_xlogy, x_log, tn_log)
FORWARD(composite_xlog1py, x_log, tn_log1p)

/* -x log x, -inf below 0. */
void composite_entr(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open_float(s, args, 1, x);
    tn_tensor *out = zero_where(s, tn_eq_scalar(s, x[0], 0), tn_mul(s, tn_neg(s, x[0]), tn_log(s, x[0])));
    formula_give(s, outs, tn_where_scalarself(s, tn_lt_scalar(s, x[0], 0), -(double)INFINITY, out), dtype);
}

/* sin(pi x) / (pi x); whole turns are removed before the product with pi is rounded. */
void composite_sinc(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x[1];
    tn_dtype dtype = tni_formula_open_float(s, args, 1, x);
    tn_tensor *rest = x[0];
    if (!is_complex(dtype))
        rest = tn_sub(s, rest, tn_mul_scalar(s, tn_round(s, tn_mul_scalar(s, rest, 0.5)), 2));
    tn_tensor *sine = tn_sin(s, tn_mul_scalar(s, rest, M_PI));
    tn_tensor *whole = tn_mul_scalar(s, x[0], M_PI), *out = tn_div(s, sine, whole);
    if (!is_complex(dtype)) out = tn_where_scalarself(s, tn_isinf(s, whole), (double)NAN, out);
    formula_give(s, outs, tn_where_scalarself(s, tn_eq_scalar(s, x[0], 0), 1, out), dtype);
}
