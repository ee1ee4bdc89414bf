/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient rules of sums and products. They run in every training step, so they are compiled with the options
 * of the engine.
 */
#include <tenon/ops.h> /* inline calls here; the other rules call out of line */

#include "autograd/rules/formula.h"

void grad_add(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_grad_set(g, 0, grad);
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, times(s, grad, tni_grad_arg(g, 2)));
}

void grad_sub(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_grad_set(g, 0, grad);
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, neg(s, times(s, grad, tni_grad_arg(g, 2))));
}

void grad_rsub(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, neg(s, times(s, grad, tni_grad_arg(g, 2))));
    tni_grad_set(g, 1, grad);
}

void grad_mul(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, mul(s, grad, conj_of(s, tni_grad_saved(g, 1))));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, mul(s, grad, conj_of(s, tni_grad_saved(g, 0))));
}

void grad_div(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *other = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, divide(s, grad, conj_of(s, other)));
    if (tni_grad_needs(g, 1)) {
        tn_tensor *ratio = divide(s, divide(s, tni_grad_saved(g, 0), other), other);
        tni_grad_set(g, 1, mul(s, neg(s, grad), conj_of(s, ratio)));
    }
}
