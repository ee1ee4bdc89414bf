/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling: gradients of the backward operators. Those of the pooling operators are one call each, see
 * one_call.c.
 */
#include "autograd/rules/formula.h"

/* The elements of t at `indices`, which count over the last `dims` dimensions. */
static tn_tensor *pick(tn_scope *s, tn_tensor *t, tn_tensor *indices, uint32_t dims)
{
    if (!t || !indices) return NULL;
    int64_t first = -(int64_t)dims;
    tn_tensor *values =
        tn_gather(s, tn_flatten(s, t, .start_dim = first), -1, tn_flatten(s, indices, .start_dim = first));
    return tn_reshape(s, values, tensor_sizes(indices));
}

static void max_pool_backward(tn_scope *s, tni_grad *g, uint32_t dims)
{
    uint32_t indices = tni_grad_op(g)->n_args - 1;
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, pick(s, tni_grad_out(g, 0), tni_grad_saved(g, indices), dims));
    set_zero(s, g, 1);
}
void grad_max_pool2d_backward(tn_scope *s, tni_grad *g)
{
    max_pool_backward(s, g, 2);
}
void grad_max_pool3d_backward(tn_scope *s, tni_grad *g)
{
    max_pool_backward(s, g, 3);
}

void grad_max_unpool2d(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, pick(s, tni_grad_out(g, 0), tni_grad_saved(g, 1), 2));
}
void grad_max_unpool3d(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, pick(s, tni_grad_out(g, 0), tni_grad_saved(g, 1), 3));
}

void grad_adaptive_avg_pool2d_backward(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn__adaptive_avg_pool2d(s, tni_grad_out(g, 0), last_sizes(&m, 2)));
    set_zero(s, g, 1);
}
void grad_adaptive_avg_pool3d_backward(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn__adaptive_avg_pool3d(s, tni_grad_out(g, 0), last_sizes(&m, 3)));
    set_zero(s, g, 1);
}
