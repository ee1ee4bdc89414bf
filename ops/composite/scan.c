/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: gradients of running products and of running extremes. */
#include "ops/composite/composite.h"

static tn_tensor *sum_from_end(tn_scope *s, tn_tensor *t, int64_t dim)
{
    tn_ints dims = TN_INTS(dim);
    return tn_flip(s, tn_cumsum(s, tn_flip(s, t, dims), dim), dims);
}

/* d y_i / d x_k for i >= k: the product of all x up to i without x_k. */
static tn_tensor *omitting(tn_scope *s, tn_tensor *x, int64_t dim, int64_t k, int64_t n)
{
    tn_tensor *one = tn_ones_like(s, tni_narrow(s, x, dim, 0, 1)), *after = one;
    if (k + 1 < n) {
        tn_tensor *rest = tn_cumprod(s, tni_narrow(s, x, dim, k + 1, n - k - 1), dim);
        after = tn_cat(s, TN_TENSORS(one, rest), .dim = dim);
    }
    if (k == 0) return after;
    return tn_mul(s, tn_prod_dim(s, tni_narrow(s, x, dim, 0, k), dim, .keepdim = 1), after);
}

/* The conjugate of a complex tensor; a real one itself. */
static tn_tensor *conjugate(tn_scope *s, tn_tensor *t)
{
    return is_complex(dtype_of(t)) ? tn_conj(s, t) : t;
}

static tn_tensor *cumprod_with_zeros(tn_scope *s, tn_tensor *grad, tn_tensor *x, int64_t dim)
{
    int64_t n = tni_sizes(x)[dim];
    tn_tensor **parts = tni_scope_tensors(s, n);
    if (!parts) return NULL;
    for (int64_t k = 0; k < n; k++) {
        tn_tensor *others = conjugate(s, omitting(s, x, dim, k, n));
        tn_tensor *product = tn_mul(s, tni_narrow(s, grad, dim, k, n - k), others);
        parts[k] = tn_sum_dim(s, product, TN_INTS(dim), .keepdim = 1);
    }
    return tn_cat(s, ((tn_tensors){parts, n}), .dim = dim);
}

/* (grad, input, dim, output) */
void composite_cumprod_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *x = arg_tensor(args, 1), *output = arg_tensor(args, 3);
    int64_t dim = tni_dim(s, arg_int(args, 2), rank_of(x));
    if (rank_of(x) == 0 || tn_tensor_numel(x) == 0) return give(outs, 0, grad);
    tn_tensor *zero = tn_any(s, tn_eq_scalar(s, x, 0));
    if (tn_scope_failed(s)) return;
    if (tn_item_bool(s, zero))
        return give(outs, 0, tni_cast(s, cumprod_with_zeros(s, grad, x, dim), dtype_of(x)));
    tn_tensor *weighted = tn_mul(s, grad, conjugate(s, output));
    give(outs, 0, tn_div(s, sum_from_end(s, weighted, dim), conjugate(s, x)));
}

/* (grad, input, indices, dim) */
void composite_cummaxmin_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *x = arg_tensor(args, 1), *indices = arg_tensor(args, 2);
    if (tn_tensor_numel(x) == 0) return give(outs, 0, x);
    tn_tensor *zeros = tni_zeros_on(s, grad, dtype_of(x), sizes_of(x));
    give(outs, 0, tn_scatter_add(s, zeros, arg_int(args, 3), indices, grad));
}
