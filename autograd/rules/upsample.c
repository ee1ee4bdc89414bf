/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interpolation. All of these are linear: forward(self, output_size, settings...) and backward(grad,
 * output_size, input_size, settings...) are the gradients of each other.
 */
#include "autograd/rules/formula.h"

static void transpose_of(tn_scope *s, tni_grad *g, uint32_t backward)
{
    tn_value v[8], out;
    uint32_t n_args = tni_grad_op(g)->n_args;
    tni_meta m = tni_grad_meta(g, 0, 0);
    v[0] = tn_value_tensor(tni_grad_out(g, 0));
    v[1] = tni_grad_arg(g, 1);
    v[2] = tn_value_ints(m.sizes, m.rank);
    for (uint32_t i = 2; i < n_args; i++) v[i + 1] = tni_grad_arg(g, i);
    tn_scope_call(s, backward, v, n_args + 1, &out, 1);
    tni_grad_set(g, 0, tn_value_as_tensor(out));
}

static void forward_again(tn_scope *s, tni_grad *g, uint32_t forward)
{
    tn_value v[8], out;
    uint32_t n_args = tni_grad_op(g)->n_args;
    v[0] = tn_value_tensor(tni_grad_out(g, 0));
    v[1] = tni_grad_arg(g, 1);
    for (uint32_t i = 3; i < n_args; i++) v[i - 1] = tni_grad_arg(g, i);
    tn_scope_call(s, forward, v, n_args - 1, &out, 1);
    tni_grad_set(g, 0, tn_value_as_tensor(out));
}

void grad_upsample_nearest1d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP_UPSAMPLE_NEAREST1D_BACKWARD);
}
void grad_upsample_nearest2d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP_UPSAMPLE_NEAREST2D_BACKWARD);
}
void grad_upsample_nearest3d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP_UPSAMPLE_NEAREST3D_BACKWARD);
}
void grad_upsample_nearest_exact1d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP__UPSAMPLE_NEAREST_EXACT1D_BACKWARD);
}
void grad_upsample_nearest_exact2d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP__UPSAMPLE_NEAREST_EXACT2D_BACKWARD);
}
void grad_upsample_nearest_exact3d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP__UPSAMPLE_NEAREST_EXACT3D_BACKWARD);
}
void grad_upsample_linear1d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP_UPSAMPLE_LINEAR1D_BACKWARD);
}
void grad_upsample_bilinear2d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP_UPSAMPLE_BILINEAR2D_BACKWARD);
}
void grad_upsample_trilinear3d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP_UPSAMPLE_TRILINEAR3D_BACKWARD);
}
void grad_upsample_bicubic2d(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP_UPSAMPLE_BICUBIC2D_BACKWARD);
}
void grad_upsample_bilinear2d_aa(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP__UPSAMPLE_BILINEAR2D_AA_BACKWARD);
}
void grad_upsample_bicubic2d_aa(tn_scope *s, tni_grad *g)
{
    transpose_of(s, g, TN_OP__UPSAMPLE_BICUBIC2D_AA_BACKWARD);
}
void grad_upsample_nearest1d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP_UPSAMPLE_NEAREST1D);
}
void grad_upsample_nearest2d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP_UPSAMPLE_NEAREST2D);
}
void grad_upsample_nearest3d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP_UPSAMPLE_NEAREST3D);
}
void grad_upsample_nearest_exact1d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP__UPSAMPLE_NEAREST_EXACT1D);
}
void grad_upsample_nearest_exact2d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP__UPSAMPLE_NEAREST_EXACT2D);
}
void grad_upsample_nearest_exact3d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP__UPSAMPLE_NEAREST_EXACT3D);
}
void grad_upsample_linear1d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP_UPSAMPLE_LINEAR1D);
}
void grad_upsample_bilinear2d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP_UPSAMPLE_BILINEAR2D);
}
void grad_upsample_trilinear3d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP_UPSAMPLE_TRILINEAR3D);
}
void grad_upsample_bicubic2d_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP_UPSAMPLE_BICUBIC2D);
}
void grad_upsample_bilinear2d_aa_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP__UPSAMPLE_BILINEAR2D_AA);
}
void grad_upsample_bicubic2d_aa_backward(tn_scope *s, tni_grad *g)
{
    forward_again(s, g, TN_OP__UPSAMPLE_BICUBIC2D_AA);
}

/* ---- sampling at a grid ---- */

void grad_grid_sampler_2d(tn_scope *s, tni_grad *g)
{
    tn_grid_sampler_2d_backward_result r =
        tn_grid_sampler_2d_backward(s, tni_grad_out(g, 0), tni_grad_saved(g, 0), tni_grad_saved(g, 1),
                                    int_arg(g, 2), int_arg(g, 3), bool_arg(g, 4), MASK_2(g, 0, 1));
    tni_grad_set(g, 0, r.result0);
    tni_grad_set(g, 1, r.result1);
}

void grad_grid_sampler_3d(tn_scope *s, tni_grad *g)
{
    tn_grid_sampler_3d_backward_result r =
        tn_grid_sampler_3d_backward(s, tni_grad_out(g, 0), tni_grad_saved(g, 0), tni_grad_saved(g, 1),
                                    int_arg(g, 2), int_arg(g, 3), bool_arg(g, 4), MASK_2(g, 0, 1));
    tni_grad_set(g, 0, r.result0);
    tni_grad_set(g, 1, r.result1);
}

void grad_affine_grid_generator(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 tn_affine_grid_generator_backward(s, tni_grad_out(g, 0), ints_arg(g, 1), bool_arg(g, 2)));
}
