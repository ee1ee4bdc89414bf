/* SPDX-License-Identifier: Apache-2.0 */
/* Complex numbers and their real and imaginary parts. */
#include "autograd/rules/formula.h"

void grad_view_as_real(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_view_as_complex(s, tn_contiguous(s, tni_grad_out(g, 0))));
}

void grad_view_as_complex(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_view_as_real(s, tn_resolve_conj(s, tn_contiguous(s, tni_grad_out(g, 0)))));
}

void grad_conj(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, conj_of(s, tni_grad_out(g, 0)));
}

void grad_neg_view(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, neg(s, tni_grad_out(g, 0)));
}

void grad_conj_physical(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_conj_physical(s, tni_grad_out(g, 0)));
}

void grad_complex(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_real(s, grad));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, is_complex(grad) ? tn_imag(s, grad) : tn_zeros_like(s, grad));
}

void grad_polar(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = conj_of(s, tni_grad_out(g, 0)), *result = tni_grad_result(g, 0);
    static const double i[2] = {0, 1};
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_real(s, mul(s, grad, tn_sgn(s, result))));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, tn_real(s, mul(s, grad, tn_mul_scalar(s, result, tn_value_complex(i)))));
}
