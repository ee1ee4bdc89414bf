/* SPDX-License-Identifier: Apache-2.0 */
/* Running sums and products, and reductions over segments. */
#include "autograd/rules/formula.h"

/* The gradient is summed in the dtype of the input, not in the one that was asked for. */
static tn_tensor *in_own_dtype(tn_scope *s, tn_tensor *grad, const tni_meta *m)
{
    return grad && grad->desc.dtype != m->dtype ? tn__to_copy(s, grad, .dtype = m->dtype) : grad;
}

static tn_tensor *sum_from_end(tn_scope *s, tn_tensor *t, int64_t dim)
{
    tn_ints dims = TN_INTS(dim);
    return tn_flip(s, tn_cumsum(s, tn_flip(s, t, dims), dim), dims);
}

void grad_cumsum(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_tensor *grad = in_own_dtype(s, tni_grad_out(g, 0), &m);
    tni_grad_set(g, 0, m.rank == 0 ? grad : sum_from_end(s, grad, int_arg(g, 1)));
}

void grad_cumprod(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_tensor *grad = in_own_dtype(s, tni_grad_out(g, 0), &m), *x = tni_grad_saved(g, 0),
              *result = tni_grad_result(g, 0);
    if (m.rank == 0 || numel_of(&m) == 0) {
        tni_grad_set(g, 0, m.rank == 0 ? grad : zeros_arg(s, g, 0, grad));
        return;
    }
    tni_grad_set(g, 0, tn_cumprod_backward(s, grad, x, int_arg(g, 1), result));
}

static tn_tensor *logsum_from_end(tn_scope *s, tn_tensor *t, int64_t dim)
{
    tn_ints dims = TN_INTS(dim);
    return tn_flip(s, tn_logcumsumexp(s, tn_flip(s, t, dims), dim), dims);
}

/* The part of the gradient from positive (or negative) entries, computed in logarithms. */
static tn_tensor *logcumsumexp_part(tn_scope *s, tni_grad *g, tn_tensor *size, tn_tensor *mask, int64_t dim)
{
    /* Far below every logarithm, and finite: inf - inf would be NaN. */
    double nothing = tn_tensor_dtype(size) == TN_FLOAT16 ? -65504 : -1e30;
    tn_tensor *logs = tn_masked_fill_scalar(s, tn_log(s, size), tn_logical_not(s, mask), nothing);
    tn_tensor *back = logsum_from_end(s, sub(s, logs, tni_grad_result(g, 0)), dim);
    return tn_exp(s, add(s, back, tni_grad_saved(g, 0)));
}

void grad_logcumsumexp(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_meta m = tni_grad_meta(g, 0, 0);
    if (m.rank == 0 || numel_of(&m) == 0) {
        tni_grad_set(g, 0, grad);
        return;
    }
    int64_t dim = wrap_dim(int_arg(g, 1), m.rank);
    if (is_complex(grad)) {
        tn_tensor *logs = sub(s, tn_log(s, conj_of(s, grad)), tni_grad_result(g, 0));
        tn_tensor *sum = tn_exp(s, add(s, logsum_from_end(s, logs, dim), tni_grad_saved(g, 0)));
        tni_grad_set(g, 0, conj_of(s, sum));
        return;
    }
    tn_tensor *size = tn_abs(s, grad);
    tn_tensor *positive = logcumsumexp_part(s, g, size, tn_gt_scalar(s, grad, 0), dim);
    tn_tensor *negative = logcumsumexp_part(s, g, size, tn_lt_scalar(s, grad, 0), dim);
    tni_grad_set(g, 0, sub(s, positive, negative));
}

void grad_segment_reduce(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 tn__segment_reduce_backward(s, tni_grad_out(g, 0), tni_grad_result(g, 0),
                                             tni_grad_saved(g, 0), string_arg(g, 1),
                                             .lengths = tni_grad_saved(g, 2), .offsets = tni_grad_saved(g, 4),
                                             .axis = int_arg(g, 5), .initial = tni_grad_arg(g, 7)));
}
