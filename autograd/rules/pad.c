/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant padding: its gradient is padding by the negative amounts. Other modes are one call each, see
 * one_call.c.
 */
#include "autograd/rules/formula.h"

void grad_constant_pad_nd(tn_scope *s, tni_grad *g)
{
    tn_ints pad = ints_arg(g, 1);
    int64_t *back = tn_scope_memory(s, ((uint64_t)pad.count + 1) * sizeof *back);
    for (int64_t i = 0; back && i < pad.count; i++) back[i] = -pad.data[i];
    tni_grad_set(g, 0, tn_constant_pad_nd(s, tni_grad_out(g, 0), ((tn_ints){back, pad.count})));
}
