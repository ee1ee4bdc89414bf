/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: softmax, log_softmax and gated linear units. */
#include <math.h>
#include "ops/composite/compute_dtype.h"

/* x minus its maximum, in float32 for half types. */
static tn_tensor *shifted(tn_scope *s, tn_tensor *self, tn_ints dim)
{
    tn_tensor *x = wide(s, self);
    if (tn_tensor_numel(self) == 0) return x;
    return tn_sub(s, x, tn_amax(s, x, .dim = dim, .keepdim = 1));
}

static tn_dtype softmax_dtype(const tn_value *args)
{
    tn_dtype dtype = dtype_of(arg_tensor(args, 0));
    return arg_bool(args, 2) ? wide_dtype(dtype) : dtype;
}

void composite_softmax_kernel(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints dim = TN_INTS(arg_int(args, 1));
    tn_tensor *e = tn_exp(s, shifted(s, arg_tensor(args, 0), dim)), *out = tn_div(s, e, keep_sum(s, e, dim));
    give(outs, 0, out ? tni_cast(s, out, softmax_dtype(args)) : NULL);
}

void composite_log_softmax_kernel(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints dim = TN_INTS(arg_int(args, 1));
    tn_tensor *x = shifted(s, arg_tensor(args, 0), dim);
    tn_tensor *out = tn_sub(s, x, tn_log(s, keep_sum(s, tn_exp(s, x), dim)));
    give(outs, 0, out ? tni_cast(s, out, softmax_dtype(args)) : NULL);
}

/* y * (g - sum(g * y)) */
void composite_softmax_backward_data(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *y = wide(s, arg_tensor(args, 1));
    tn_tensor *product = tn_mul(s, grad, y);
    tn_tensor *out = tn_sub(s, product, tn_mul(s, y, keep_sum(s, product, TN_INTS(arg_int(args, 2)))));
    give(outs, 0, out ? tni_cast(s, out, arg_dtype(args, 3)) : NULL);
}

/* g - e^y * sum(g) */
void composite_log_softmax_backward_data(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *y = wide(s, arg_tensor(args, 1));
    tn_tensor *sum = keep_sum(s, grad, TN_INTS(arg_int(args, 2)));
    tn_tensor *out = tn_sub(s, grad, tn_mul(s, tn_exp(s, y), sum));
    give(outs, 0, out ? tni_cast(s, out, arg_dtype(args, 3)) : NULL);
}

static tn_tensor *converted(tn_scope *s, const tn_value *args)
{
    tn_tensor *self = arg_tensor(args, 0);
    return arg_given(args, 2) ? tni_cast(s, self, arg_dtype(args, 2)) : self;
}

void composite_softmax(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn__softmax(s, converted(s, args), arg_int(args, 1), 0));
}

void composite_log_softmax(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn__log_softmax(s, converted(s, args), arg_int(args, 1), 0));
}

/* Rows that are all -inf give zeros. */
void composite_safe_softmax(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t dim = arg_int(args, 1);
    tn_tensor *out = tn_softmax(s, self, dim, .dtype = arg_dtype(args, 2));
    tn_tensor *masked = tn_all_dim(s, tn_eq_scalar(s, self, -(double)INFINITY), dim, .keepdim = 1);
    give(outs, 0, tn_where_scalarself(s, masked, 0.0, out));
}

/* ---- glu ---- */

static void halves(tn_scope *s, tn_tensor *t, int64_t dim, tn_tensor *half[2])
{
    int64_t d = tni_dim(s, dim, rank_of(t)), size = rank_of(t) ? tni_sizes(t)[d] / 2 : 0;
    half[0] = tn_narrow(s, t, d, 0, size);
    half[1] = tn_narrow(s, t, d, size, size);
}

void composite_glu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *half[2], *out;
    halves(s, self, arg_int(args, 1), half);
    out = tn_mul(s, wide(s, half[0]), tn_sigmoid(s, wide(s, half[1])));
    give(outs, 0, out ? tni_cast(s, out, dtype_of(self)) : NULL);
}

void composite_glu_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *self = arg_tensor(args, 1), *half[2], *gate, *first,
              *second;
    halves(s, self, arg_int(args, 2), half);
    gate = tn_sigmoid(s, wide(s, half[1]));
    first = tn_mul(s, gate, grad);
    second = tn_mul(s, tn_mul(s, tn_rsub_scalar(s, gate, 1), first), wide(s, half[0]));
    if (tn_scope_failed(s)) return;
    give(outs, 0, tni_cast(s, tn_cat(s, TN_TENSORS(first, second), .dim = arg_int(args, 2)), dtype_of(self)));
}

/*
 * (self, mask, dim, mask_type). True in the mask hides an element. Of type 0 it is for the last two dimensions of
 * attention's scores, of type 1 for their first and last, of type 2 for all.
 */
void composite_masked_softmax(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *mask = arg_tensor(args, 1);
    int64_t rank = rank_of(self), dim = tni_dim(s, arg_int_or(args, 2, rank - 1), rank),
            type = arg_int_or(args, 3, -1);
    if (dtype_of(mask) != TN_BOOL)
        return (void)tn_scope_fail(s, TN_E_DTYPE, "Mask should be a boolean tensor");
    if (type < 0 || type > 2)
        return (void)tn_scope_fail(
            s, TN_E_ARGUMENT,
            "Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask)");
    if (type == 1 && rank == 4 && rank_of(mask) == 2)
        mask = tni_reshape(s, mask, TN_INTS(tni_sizes(mask)[0], 1, 1, tni_sizes(mask)[1]));
    mask = tn_expand(s, mask, sizes_of(self));
    tn_tensor *out = tn_softmax(s, tn_masked_fill_scalar(s, self, mask, -INFINITY), dim);
    give(outs, 0, out);
}

/* (glu, x, dx, dim) */
void composite_glu_jvp(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *glu = arg_tensor(args, 0), *x = arg_tensor(args, 1), *dx = arg_tensor(args, 2);
    int64_t dim = tni_dim(s, arg_int(args, 3), rank_of(x)), half = tn_tensor_size(glu, dim);
    tn_tensor *gate = tn_sigmoid(s, tni_narrow(s, x, dim, half, half));
    tn_tensor *db = tni_narrow(s, dx, dim, half, half);
    tn_tensor *first = tn_mul(s, tni_narrow(s, dx, dim, 0, half), gate);
    give(outs, 0, tn_add(s, first, tn_mul(s, glu, tn_sub(s, db, tn_mul(s, gate, db)))));
}
