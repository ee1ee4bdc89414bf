/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of special functions that are made of others. */
#include <math.h>
#include <tenon/autograd.h>
#include "ops/composite/wide.h"

void composite_polygamma_inplace(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *x = self;
    if (tn_requires_grad(self)) x = tn_clone(s, self); /* its gradient needs what is overwritten */
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
    give(outs, 0, tn_add_scalar(s, tn_sum_dim(s, terms, TN_INTS(-1)), TN_SCALAR(constant)));
}

/* Area under the normal curve: erfc(-x / sqrt 2) / 2, in float64 since an error of x counts x^2 times. */
void composite_ndtr(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_tensor *z = tn_mul_scalar(s, tni_cast(s, self, TN_FLOAT64), -0.70710678118654752440);
    give(outs, 0, tni_cast(s, tn_mul_scalar(s, tn_erfc(s, z), 0.5), float_of(s, dtype_of(self))));
}
