/* SPDX-License-Identifier: Apache-2.0 */
/* Padding. The gradient of constant padding is padding by the negative amounts. */
#include "autograd/rules/formula.h"

void grad_constant_pad_nd(tn_scope *s, tni_grad *g)
{
    tn_ints pad = ints_arg(g, 1);
    int64_t *back = tn_scope_memory(s, ((uint64_t)pad.count + 1) * sizeof *back);
    for (int64_t i = 0; back && i < pad.count; i++) back[i] = -pad.data[i];
    tni_grad_set(g, 0, tn_constant_pad_nd(s, tni_grad_out(g, 0), ((tn_ints){back, pad.count})));
}

/* op(grad, self, padding) */
static void pad_backward(tn_scope *s, tni_grad *g, uint32_t op)
{
    const tn_value v[] = {tn_value_tensor(tni_grad_out(g, 0)), tn_value_tensor(tni_grad_saved(g, 0)),
                          tni_grad_arg(g, 1)};
    tn_value out;
    tn_scope_call(s, op, v, 3, &out, 1);
    tni_grad_set(g, 0, tn_value_as_tensor(out));
}

/* op(grad, padding), of a backward operator */
static void pad_again(tn_scope *s, tni_grad *g, uint32_t op)
{
    const tn_value v[] = {tn_value_tensor(tni_grad_out(g, 0)), tni_grad_arg(g, 2)};
    tn_value out;
    if (tni_grad_needs(g, 0)) {
        tn_scope_call(s, op, v, 2, &out, 1);
        tni_grad_set(g, 0, tn_value_as_tensor(out));
    }
    set_zero(s, g, 1);
}

void grad_reflection_pad1d(tn_scope *s, tni_grad *g)
{
    pad_backward(s, g, TN_OP_REFLECTION_PAD1D_BACKWARD);
}
void grad_reflection_pad2d(tn_scope *s, tni_grad *g)
{
    pad_backward(s, g, TN_OP_REFLECTION_PAD2D_BACKWARD);
}
void grad_reflection_pad3d(tn_scope *s, tni_grad *g)
{
    pad_backward(s, g, TN_OP_REFLECTION_PAD3D_BACKWARD);
}
void grad_replication_pad1d(tn_scope *s, tni_grad *g)
{
    pad_backward(s, g, TN_OP_REPLICATION_PAD1D_BACKWARD);
}
void grad_replication_pad2d(tn_scope *s, tni_grad *g)
{
    pad_backward(s, g, TN_OP_REPLICATION_PAD2D_BACKWARD);
}
void grad_replication_pad3d(tn_scope *s, tni_grad *g)
{
    pad_backward(s, g, TN_OP_REPLICATION_PAD3D_BACKWARD);
}
void grad_reflection_pad1d_backward(tn_scope *s, tni_grad *g)
{
    pad_again(s, g, TN_OP_REFLECTION_PAD1D);
}
void grad_reflection_pad2d_backward(tn_scope *s, tni_grad *g)
{
    pad_again(s, g, TN_OP_REFLECTION_PAD2D);
}
void grad_reflection_pad3d_backward(tn_scope *s, tni_grad *g)
{
    pad_again(s, g, TN_OP_REFLECTION_PAD3D);
}
void grad_replication_pad1d_backward(tn_scope *s, tni_grad *g)
{
    pad_again(s, g, TN_OP_REPLICATION_PAD1D);
}
void grad_replication_pad2d_backward(tn_scope *s, tni_grad *g)
{
    pad_again(s, g, TN_OP_REPLICATION_PAD2D);
}
void grad_replication_pad3d_backward(tn_scope *s, tni_grad *g)
{
    pad_again(s, g, TN_OP_REPLICATION_PAD3D);
}
