/* SPDX-License-Identifier: Apache-2.0 */
/* Distributions with a differentiable parameter; dropout. */
#include "autograd/rules/formula.h"

void grad_bernoulli_tensor(tn_scope *s, tni_grad *g)
{
    set_zero(s, g, 0);
    set_zero(s, g, 1);
}

void grad_standard_gamma(tn_scope *s, tni_grad *g)
{
    tn_tensor *slope = tn__standard_gamma_grad(s, tni_grad_saved(g, 0), tni_grad_result(g, 0));
    tni_grad_set(g, 0, mul(s, tni_grad_out(g, 0), slope));
}

void grad_sample_dirichlet(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = tni_grad_result(g, 0), *alpha = tni_grad_saved(g, 0);
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_tensor *total = tn_expand(s, tn_sum_dim(s, alpha, TN_INTS(-1), .keepdim = 1), sizes_of(&m));
    tn_tensor *mean = tn_sum_dim(s, mul(s, x, grad), TN_INTS(-1), .keepdim = 1);
    tni_grad_set(g, 0, mul(s, tn__dirichlet_grad(s, x, alpha, total), sub(s, grad, mean)));
}

void grad_native_dropout(tn_scope *s, tni_grad *g)
{
    double p = float_arg(g, 1);
    tn_value train = tni_grad_arg(g, 2);
    double factor = train.tag != TN_TAG_NONE && !tn_value_as_bool(train) ? 1 : p == 1 ? 0 : 1 / (1 - p);
    tni_grad_set(g, 0, tn_native_dropout_backward(s, tni_grad_out(g, 0), tni_grad_result(g, 1), factor));
}
