/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling. A pooling operator and its backward operator take the same settings in the same order, so a rule
 * calls the one with the arguments of the other.
 */
#include "autograd/rules/formula.h"

/* op(grad, self, settings..., indices): the settings are arguments `from` to `to` of this call. */
static void call_backward(tn_scope *s, tni_grad *g, uint32_t op, uint32_t from, uint32_t to, int32_t indices)
{
    tn_value v[16], out;
    uint32_t n = 0;
    v[n++] = tn_value_tensor(tni_grad_out(g, 0));
    v[n++] = tn_value_tensor(tni_grad_saved(g, 0));
    for (uint32_t i = from; i < to; i++) v[n++] = tni_grad_arg(g, i);
    if (indices) v[n++] = tn_value_tensor(tni_grad_result(g, 1));
    tn_scope_call(s, op, v, n, &out, 1);
    tni_grad_set(g, 0, tn_value_as_tensor(out));
}

void grad_max_pool2d_with_indices(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP_MAX_POOL2D_WITH_INDICES_BACKWARD, 1, 6, 1);
}

void grad_max_pool3d_with_indices(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP_MAX_POOL3D_WITH_INDICES_BACKWARD, 1, 6, 1);
}

void grad_avg_pool2d(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP_AVG_POOL2D_BACKWARD, 1, 7, 0);
}
void grad_avg_pool3d(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP_AVG_POOL3D_BACKWARD, 1, 7, 0);
}

void grad_adaptive_avg_pool2d(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP__ADAPTIVE_AVG_POOL2D_BACKWARD, 0, 0, 0);
}

void grad_adaptive_avg_pool3d(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP__ADAPTIVE_AVG_POOL3D_BACKWARD, 0, 0, 0);
}

void grad_adaptive_max_pool2d(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP_ADAPTIVE_MAX_POOL2D_BACKWARD, 0, 0, 1);
}

void grad_adaptive_max_pool3d(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP_ADAPTIVE_MAX_POOL3D_BACKWARD, 0, 0, 1);
}

void grad_fractional_max_pool2d(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP_FRACTIONAL_MAX_POOL2D_BACKWARD, 1, 3, 1);
}

void grad_fractional_max_pool3d(tn_scope *s, tni_grad *g)
{
    call_backward(s, g, TN_OP_FRACTIONAL_MAX_POOL3D_BACKWARD, 1, 3, 1);
}

/* ---- gradients of the backward operators ---- */

/* The elements of t that the indices name, which count over the last `dims` dimensions. */
static tn_tensor *pick(tn_scope *s, tn_tensor *t, tn_tensor *indices, uint32_t dims)
{
    if (!t || !indices) return NULL;
    tn_ints shape = tensor_sizes(indices);
    int64_t flat[TN_MAX_RANK];
    uint32_t lead = indices->desc.rank - dims;
    for (uint32_t i = 0; i < lead; i++) flat[i] = indices->desc.sizes[i];
    flat[lead] = -1;
    tn_ints as_lists = {flat, lead + 1};
    tn_tensor *values = tn_gather(s, tn_reshape(s, t, as_lists), -1, tn_reshape(s, indices, as_lists));
    return tn_reshape(s, values, shape);
}

static uint32_t pooled_dims(const tni_grad *g)
{
    switch (tni_grad_op(g)->number) {
    case TN_OP_MAX_POOL3D_WITH_INDICES_BACKWARD:
    case TN_OP_ADAPTIVE_MAX_POOL3D_BACKWARD:
    case TN_OP_FRACTIONAL_MAX_POOL3D_BACKWARD:
    case TN_OP_MAX_UNPOOL3D:
        return 3;
    default:
        return 2;
    }
}

void grad_max_pool_backward(tn_scope *s, tni_grad *g)
{
    uint32_t last = tni_grad_op(g)->n_args - 1;
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, pick(s, tni_grad_out(g, 0), tni_grad_saved(g, last), pooled_dims(g)));
    set_zero(s, g, 1);
}

void grad_max_unpool(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, pick(s, tni_grad_out(g, 0), tni_grad_saved(g, 1), pooled_dims(g)));
}

static void average_again(tn_scope *s, tni_grad *g, uint32_t op)
{
    tn_value v[8], out;
    v[0] = tn_value_tensor(tni_grad_out(g, 0));
    for (uint32_t i = 0; i < 6; i++) v[1 + i] = tni_grad_arg(g, 2 + i);
    if (tni_grad_needs(g, 0)) {
        tn_scope_call(s, op, v, 7, &out, 1);
        tni_grad_set(g, 0, tn_value_as_tensor(out));
    }
    set_zero(s, g, 1);
}

void grad_avg_pool2d_backward(tn_scope *s, tni_grad *g)
{
    average_again(s, g, TN_OP_AVG_POOL2D);
}
void grad_avg_pool3d_backward(tn_scope *s, tni_grad *g)
{
    average_again(s, g, TN_OP_AVG_POOL3D);
}

void grad_adaptive_avg_pool_backward(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    int32_t three = tni_grad_op(g)->number == TN_OP__ADAPTIVE_AVG_POOL3D_BACKWARD;
    tn_ints size = {m.sizes + m.rank - (three ? 3 : 2), three ? 3 : 2};
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0,
                     three ? tn__adaptive_avg_pool3d(s, grad, size) : tn__adaptive_avg_pool2d(s, grad, size));
    set_zero(s, g, 1);
}
