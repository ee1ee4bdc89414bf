/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution. It is bilinear in input and weight, so the gradients of its backward operator are convolutions
 * of the same kind, with input or weight replaced by its gradient.
 */
#include "autograd/rules/formula.h"

/* Stride, padding and so on: arguments from `at` on in both schemas. */
typedef struct geometry {
    tn_ints stride, padding, dilation, output_padding;
    int32_t transposed;
    int64_t groups;
} geometry;

static geometry geometry_at(const tni_grad *g, uint32_t at)
{
    return (geometry){.stride = ints_arg(g, at),
                      .padding = ints_arg(g, at + 1),
                      .dilation = ints_arg(g, at + 2),
                      .transposed = bool_arg(g, at + 3),
                      .output_padding = ints_arg(g, at + 4),
                      .groups = int_arg(g, at + 5)};
}

static tn_convolution_backward_result backward(tn_scope *s, const geometry *c, tn_tensor *grad,
                                               tn_tensor *input, tn_tensor *weight, tn_ints bias,
                                               tn_bools mask)
{
    return tn_convolution_backward(s, grad, input, weight, bias, c->stride, c->padding, c->dilation,
                                   c->transposed, c->output_padding, c->groups, mask);
}

static tn_tensor *forward(tn_scope *s, const geometry *c, tn_tensor *input, tn_tensor *weight)
{
    return tn_convolution(s, input, weight, NULL, c->stride, c->padding, c->dilation, c->transposed,
                          c->output_padding, c->groups);
}

void grad_convolution(tn_scope *s, tni_grad *g)
{
    geometry c = geometry_at(g, 3);
    tni_meta bias = tni_grad_meta(g, 2, 0);
    tn_ints bias_sizes = bias.device ? sizes_of(&bias) : (tn_ints){NULL, 0};
    tn_convolution_backward_result r =
        backward(s, &c, tni_grad_out(g, 0), conj_of(s, tni_grad_saved(g, 0)),
                 conj_of(s, tni_grad_saved(g, 1)), bias_sizes, MASK_3(g, 0, 1, 2));
    tni_grad_set(g, 0, r.result0);
    tni_grad_set(g, 1, r.result1);
    tni_grad_set(g, 2, r.result2);
}

static tn_tensor *sum_of(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return a && b ? add(s, a, b) : a ? a : b;
}

static tn_tensor *along_channels(tn_scope *s, tn_tensor *bias, uint32_t rank)
{
    int64_t sizes[TN_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) sizes[i] = i == 1 ? -1 : 1;
    return tn_reshape(s, bias, (tn_ints){sizes, rank});
}

void grad_convolution_backward(tn_scope *s, tni_grad *g)
{
    geometry c = geometry_at(g, 4);
    tn_tensor *ggi = tni_grad_out(g, 0), *ggw = tni_grad_out(g, 1), *ggb = tni_grad_out(g, 2);
    tn_tensor *grad = conj_of(s, tni_grad_saved(g, 0)), *input = conj_of(s, tni_grad_saved(g, 1));
    tn_tensor *weight = conj_of(s, tni_grad_saved(g, 2));
    tn_ints none = {NULL, 0};
    if (tni_grad_needs(g, 0)) {
        tn_tensor *of_grad = ggi ? forward(s, &c, ggi, weight) : NULL;
        if (ggw) of_grad = sum_of(s, of_grad, forward(s, &c, input, ggw));
        if (ggb) {
            tni_meta m = tni_grad_meta(g, 0, 0);
            of_grad = sum_of(s, of_grad, tn_expand(s, along_channels(s, ggb, m.rank), sizes_of(&m)));
        }
        tni_grad_set(g, 0, of_grad);
    }
    if (ggw && tni_grad_needs(g, 1))
        tni_grad_set(g, 1, backward(s, &c, grad, input, ggw, none, TN_BOOLS(1, 0, 0)).result0);
    if (ggi && tni_grad_needs(g, 2))
        tni_grad_set(g, 2, backward(s, &c, grad, ggi, weight, none, TN_BOOLS(0, 1, 0)).result1);
}

void grad_im2col(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_ints size = {m.sizes + m.rank - 2, 2};
    tni_grad_set(g, 0,
                 tn_col2im(s, tni_grad_out(g, 0), size, ints_arg(g, 1), ints_arg(g, 2), ints_arg(g, 3),
                           ints_arg(g, 4)));
}

void grad_col2im(tn_scope *s, tni_grad *g)
{
    tni_grad_set(
        g, 0,
        tn_im2col(s, tni_grad_out(g, 0), ints_arg(g, 2), ints_arg(g, 3), ints_arg(g, 4), ints_arg(g, 5)));
}
