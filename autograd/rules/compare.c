/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are piecewise constant: their gradient is 0. */
#include "autograd/rules/formula.h"

void grad_zero(tn_scope *s, tni_grad *g)
{
    set_zero(s, g, 0);
    set_zero(s, g, 1);
}

void grad_zero_like(tn_scope *s, tni_grad *g)
{
    set_zero(s, g, 0);
}
