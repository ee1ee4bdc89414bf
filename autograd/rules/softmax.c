/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, gated linear units, attention. */
#include "autograd/rules/formula.h"

static tn_tensor *sum_over(tn_scope *s, tn_tensor *t, int64_t dim)
{
    return tn_sum_dim(s, t, TN_INTS(dim), .keepdim = 1);
}

void grad_softmax_backward_data(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *grad_output = tni_grad_saved(g, 0), *y = tni_grad_saved(g, 1);
    int64_t dim = int_arg(g, 2);
    if (y && grad && grad->desc.dtype != y->desc.dtype) grad = tn__to_copy(s, grad, .dtype = y->desc.dtype);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, mul(s, y, sub(s, grad, sum_over(s, mul(s, y, grad), dim))));
    if (tni_grad_needs(g, 1)) {
        tn_tensor *first = mul(s, grad, sub(s, grad_output, sum_over(s, mul(s, y, grad_output), dim)));
        tni_grad_set(g, 1, sub(s, first, mul(s, grad_output, sum_over(s, mul(s, y, grad), dim))));
    }
}

void grad_log_softmax_backward_data(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *y = tni_grad_saved(g, 1);
    int64_t dim = int_arg(g, 2);
    if (y && grad && grad->desc.dtype != y->desc.dtype) grad = tn__to_copy(s, grad, .dtype = y->desc.dtype);
    tn_tensor *p = tn_exp(s, y), *weighted = mul(s, grad, p);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, sub(s, grad, sum_over(s, weighted, dim)));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, neg(s, mul(s, weighted, sum_over(s, tni_grad_saved(g, 0), dim))));
}

static tn_tensor *half_of(tn_scope *s, tn_tensor *t, int64_t dim, int32_t second)
{
    if (!t) return NULL;
    int64_t n = t->desc.sizes[wrap_dim(dim, t->desc.rank)] / 2;
    return tn_narrow(s, t, dim, second ? n : 0, n);
}

/* For y = a * p with p = sigmoid(b), the operator computes (grad p, grad a p'). */
void grad_glu_backward(tn_scope *s, tni_grad *g)
{
    int64_t dim = int_arg(g, 2);
    tn_tensor *grad_output = tni_grad_saved(g, 0), *x = tni_grad_saved(g, 1);
    tn_tensor *ga = half_of(s, tni_grad_out(g, 0), dim, 0), *gb = half_of(s, tni_grad_out(g, 0), dim, 1);
    tn_tensor *a = half_of(s, x, dim, 0), *p = tn_sigmoid(s, half_of(s, x, dim, 1));
    tn_tensor *slope = mul(s, p, minus_from(s, 1, p));
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, add(s, mul(s, ga, p), mul(s, mul(s, gb, a), slope)));
    if (!tni_grad_needs(g, 1)) return;
    tn_tensor *common = mul(s, grad_output, slope);
    tn_tensor *bend = mul(s, mul(s, gb, a), minus_from(s, 1, scale(s, p, 2)));
    tni_grad_set(g, 1,
                 tn_cat(s, TN_TENSORS(mul(s, gb, common), mul(s, common, add(s, ga, bend))), .dim = dim));
}

void grad_flash_attention(tn_scope *s, tni_grad *g)
{
    tn__scaled_dot_product_flash_attention_for_cpu_backward_result r =
        tn__scaled_dot_product_flash_attention_for_cpu_backward(
            s, tni_grad_out(g, 0), tni_grad_saved(g, 0), tni_grad_saved(g, 1), tni_grad_saved(g, 2),
            tni_grad_result(g, 0), tni_grad_result(g, 1), float_arg(g, 3), bool_arg(g, 4),
            .attn_mask = tni_grad_saved(g, 5), .scale = opt_float_arg(g, 6));
    tni_grad_set(g, 0, r.grad_query);
    tni_grad_set(g, 1, r.grad_key);
    tni_grad_set(g, 2, r.grad_value);
    set_unknown(s, g, 5);
}
