/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: embedding_bag, rows of a table reduced by bag, and its gradients. Modes: 0 sum, 1 mean, 2 max.
 */
#include <math.h>
#include "ops/composite/pointwise_lowering.h"

enum { SUM, MEAN, MAX };

static tn_tensor *column(tn_scope *s, tn_tensor *t)
{
    return tn_unsqueeze(s, t, 1);
}

/*
 * The bag of each index: the number of bags that have begun, less one. With an offset for the end of the last bag the
 * indices behind it are in one more bag, which no result has.
 */
static tn_tensor *bags_of(tn_scope *s, tn_tensor *offsets, int64_t bags, int64_t count)
{
    tn_tensor *starts = tni_cast(s, tni_narrow(s, offsets, 0, 0, bags), TN_INT64);
    tn_tensor *begun = tni_zeros_on(s, offsets, TN_INT64, TN_INTS(count + 1));
    tn_tensor *ones = tni_full_on(s, offsets, TN_INT64, TN_INTS(bags), tn_value_int(1));
    begun = tn_cumsum(s, tn_scatter_add(s, begun, 0, starts, ones), 0);
    return tn_sub_scalar(s, tni_narrow(s, begun, 0, 0, count), 1);
}

typedef struct bags {
    int64_t count, width;
    tn_tensor *bag;  /* of each index */
    tn_tensor *kept; /* whether an index is not padding */
    tn_tensor *size; /* indices in each bag that are kept */
} bags;

/* The maximum of each bag (0 if it is empty), and the row of the table that it comes from. */
static tn_tensor *largest(tn_scope *s, const bags *b, tn_tensor *rows, tn_tensor *indices,
                          tn_tensor **out_rows)
{
    int64_t n = rows ? tn_tensor_size(rows, 0) : 0;
    tn_ints size = TN_INTS(b->count, b->width), wide = TN_INTS(n, b->width);
    tn_tensor *bag = tn_expand(s, column(s, b->bag), wide), *there = column(s, b->kept), *most, *first,
              *place;
    rows = tn_where_scalarother(s, there, rows, -INFINITY);
    most = tni_full_on(s, rows, 0, size, tn_value_float(-INFINITY));
    most = tn_scatter_reduce(s, most, 0, bag, rows, "amax");
    place = tn_expand(s, column(s, tni_range_on(s, rows, 0, n)), wide);
    tn_tensor *is_it = tn_logical_and(s, tn_eq(s, rows, tn_gather(s, most, 0, bag)), there);
    place = tn_where_scalarother(s, is_it, place, n);
    first = tni_full_on(s, rows, TN_INT64, size, tn_value_int(n));
    first = tn_scatter_reduce(s, first, 0, bag, place, "amin");
    tn_tensor *nothing = tn_ge_scalar(s, first, n);
    first = tn_index_select(s, tni_cast(s, indices, TN_INT64), 0,
                            tni_reshape(s, tn_clamp_max(s, first, n > 0 ? n - 1 : 0), TN_INTS(-1)));
    *out_rows = tn_where_scalarself(s, nothing, 0, tni_reshape(s, first, size));
    return tn_where_scalarself(s, nothing, 0.0, most);
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
 * padding_idx) -> output, offset2bag, bag_size, maximum_indices */
void composite_embedding_bag_lowering(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *weight = arg_tensor(args, 0), *indices = arg_tensor(args, 1), *offsets = arg_tensor(args, 2),
              *scale = arg_tensor(args, 6), *rows, *out, *from = NULL;
    int64_t mode = arg_int(args, 4), n = tn_tensor_numel(indices), all = tn_tensor_numel(offsets);
    int64_t given = all - arg_bool(args, 7);
    bags b = {.count = all, .width = tn_tensor_size(weight, 1)};
    tn_dtype own = dtype_of(weight), of_bags = dtype_of(offsets);
    b.bag = bags_of(s, offsets, b.count, n);
    b.kept = tn_ne_scalar(s, indices, arg_int(args, 8));
    b.size = tn_scatter_add(s, tni_zeros_on(s, offsets, TN_INT64, TN_INTS(b.count)), 0, b.bag,
                            b.kept ? tni_cast(s, b.kept, TN_INT64) : NULL);
    rows = wide(s, tn_index_select(s, weight, 0, indices));
    if (scale) rows = tn_mul(s, rows, column(s, wide(s, scale)));
    if (mode == MAX && n > 0) {
        out = largest(s, &b, rows, indices, &from);
    } else {
        rows = tn_where_scalarother(s, column(s, b.kept), rows, 0);
        out = tni_zeros_on(s, weight, wide_dtype(own), TN_INTS(b.count, b.width));
        out = tn_index_add(s, out, 0, b.bag, rows);
        if (mode == MEAN) out = tn_div(s, out, column(s, tn_clamp_min(s, b.size, 1)));
    }
    if (tn_scope_failed(s)) return;
    if (given < all) {
        out = tn_narrow_copy(s, out, 0, 0, given);
        if (mode != SUM) b.size = tn_narrow_copy(s, b.size, 0, 0, given);
        if (from) from = tn_narrow_copy(s, from, 0, 0, given);
    }
    /* Sums without weights leave the other outputs zero, and empty where nobody needs them. */
    int32_t plain =
        mode == SUM && arg_int(args, 8) < 0 && own != TN_FLOAT64 && tn_tensor_strides(weight)[1] == 1;
    tn_tensor *zeros = tni_zeros_on(s, offsets, 0, mode == MAX ? TN_INTS(given, b.width) : TN_INTS(all));
    tn_tensor *sizes = mode == SUM ? zeros : tni_cast(s, b.size, of_bags);
    give(outs, 0, tni_cast(s, out, own));
    give(outs, 1, plain ? tni_empty_on(s, indices, 0, TN_INTS(0)) : tni_cast(s, b.bag, dtype_of(indices)));
    give(outs, 2, sizes);
    give(outs, 3, mode == MAX ? (from ? tni_cast(s, from, of_bags) : zeros) : sizes);
}

/* Adds gradients to the rows of a table that indices name. */
static tn_tensor *to_rows(tn_scope *s, tn_tensor *grad, tn_tensor *indices, int64_t rows)
{
    tn_tensor *zeros = grad ? tni_zeros_on(s, grad, 0, TN_INTS(rows, tn_tensor_size(grad, 1))) : NULL;
    return tn_index_add(s, zeros, 0, indices, grad);
}

/* How often the bags have each index. */
static tn_tensor *frequencies(tn_scope *s, tn_tensor *indices, tn_tensor *outside, int64_t rows)
{
    tn_tensor *at = tni_cast(s, indices, TN_INT64), *inside = tn_logical_not(s, outside);
    tn_tensor *counts = tn_scatter_add(s, tni_zeros_on(s, indices, TN_INT64, TN_INTS(rows)), 0, at,
                                       inside ? tni_cast(s, inside, TN_INT64) : NULL);
    return tn_index_select(s, counts, 0, at);
}

/* (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
 * per_sample_weights, padding_idx) */
void composite_embedding_bag_dense_backward_lowering(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *indices = arg_tensor(args, 1),
              *bag = arg_tensor(args, 2), *sizes = arg_tensor(args, 3), *scale = arg_tensor(args, 8), *out;
    int64_t rows = arg_int(args, 5), mode = arg_int(args, 7), width = tn_tensor_size(arg_tensor(args, 0), 1);
    if (mode == MAX) {
        grad = tn_where_scalarself(s, column(s, tn_eq_scalar(s, sizes, 0)), 0, grad);
        out = tni_zeros_on(s, arg_tensor(args, 0), wide_dtype(dtype_of(arg_tensor(args, 0))),
                           TN_INTS(rows, width));
        out = tn_scatter_add(s, out, 0, tni_cast(s, arg_tensor(args, 4), TN_INT64), grad);
    } else {
        int64_t count = tn_tensor_size(arg_tensor(args, 0), 0);
        tn_tensor *outside = tn_ge_scalar(s, bag, count);
        if (count == 0) return give(outs, 0, tni_zeros_on(s, arg_tensor(args, 0), 0, TN_INTS(rows, width)));
        bag = tn_clamp_max(s, bag, count - 1);
        grad = tn_index_select(s, grad, 0, bag);
        if (mode == MEAN) {
            tn_tensor *own = tn_index_select(s, tn_clamp_min(s, sizes, 1), 0, bag);
            grad = tn_div(s, grad, column(s, own));
        }
        if (scale) grad = tn_mul(s, grad, column(s, wide(s, scale)));
        if (arg_bool(args, 6)) grad = tn_div(s, grad, column(s, frequencies(s, indices, outside, rows)));
        outside = tn_logical_or(s, outside, tn_eq_scalar(s, indices, arg_int(args, 9)));
        grad = tn_where_scalarself(s, column(s, outside), 0, grad);
        out = to_rows(s, grad, indices, rows);
    }
    formula_give(s, outs, out, dtype_of(arg_tensor(args, 0)));
}

/* (grad, weight, indices, offsets, offset2bag, mode, padding_idx) */
void composite_embedding_bag_per_sample_weights_backward_lowering(tn_scope *s, const tn_value *args,
                                                                  tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *indices = arg_tensor(args, 2), *offsets = arg_tensor(args, 3),
              *bag = arg_tensor(args, 4), *outside, *sum;
    int64_t n = tn_tensor_numel(indices), count = tn_tensor_size(grad, 0), begun = tn_tensor_numel(offsets);
    if (count == 0) return give(outs, 0, tni_zeros_on(s, grad, 0, TN_INTS(n)));
    if (tn_tensor_numel(bag) != n) bag = bags_of(s, offsets, begun > count ? count + 1 : begun, n);
    outside = tn_ge_scalar(s, bag, count);
    bag = tn_clamp_max(s, bag, count - 1);
    sum = tn_mul(s, tn_index_select(s, wide(s, grad), 0, bag),
                 tn_index_select(s, wide(s, arg_tensor(args, 1)), 0, indices));
    sum = tn_sum_dim(s, sum, TN_INTS(1));
    outside = tn_logical_or(s, outside, tn_eq_scalar(s, indices, arg_int(args, 6)));
    sum = tn_where_scalarself(s, outside, 0, sum);
    formula_give(s, outs, sum, dtype_of(grad));
}

/* embedding_renorm_ (self, indices, max_norm, norm_type): equal indices write the same row. */
void composite_embedding_renorm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *at = tni_reshape(s, arg_tensor(args, 1), TN_INTS(-1));
    tn_tensor *rows = wide(s, tn_index_select(s, self, 0, at)), *norm, *scale;
    norm =
        tn_linalg_vector_norm(s, rows, .ord = TN_SCALAR(arg_float(args, 3)), .dim = TN_INTS(1), .keepdim = 1);
    scale = tn_mul_scalar(s, tn_reciprocal(s, tn_add_scalar(s, norm, 1e-7)), arg_float(args, 2));
    scale = tn_where(s, tn_gt_scalar(s, norm, arg_float(args, 2)), scale, tn_ones_like(s, scale));
    rows = tn_mul(s, rows, scale);
    if (!tn_scope_failed(s)) tn_index_copy_(s, self, 0, at, tni_cast(s, rows, dtype_of(self)));
    give(outs, 0, self);
}
