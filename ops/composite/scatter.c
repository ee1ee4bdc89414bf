/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: copies with a view replaced, gradients of views, embedding tables. */
#include <string.h>
#include "core/shape.h"
#include "ops/composite/composite.h"

/* ---- gradients of views: zeros with the gradient in the view ---- */

void composite_slice_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *out = tni_zeros_on(s, grad, 0, arg_ints(args, 1));
    tn_tensor *view = tn_slice(s, out, .dim = arg_int(args, 2), .start = arg_int(args, 3),
                               .end = arg_int(args, 4), .step = arg_int(args, 5));
    tn_copy_(s, view, grad);
    give(outs, 0, out);
}

void composite_select_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *out = tni_zeros_on(s, grad, 0, arg_ints(args, 1));
    tn_copy_(s, tn_select(s, out, arg_int(args, 2), arg_int(args, 3)), grad);
    give(outs, 0, out);
}

void composite_diagonal_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *out = tni_zeros_on(s, grad, 0, arg_ints(args, 1));
    tn_copy_(
        s,
        tn_diagonal(s, out, .offset = arg_int(args, 2), .dim1 = arg_int(args, 3), .dim2 = arg_int(args, 4)),
        grad);
    give(outs, 0, out);
}

/* Windows may overlap: elements are added to where they came from. */
void composite_unfold_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0);
    tn_ints sizes = arg_ints(args, 1);
    int64_t dim = tni_dim(s, arg_int(args, 2), sizes.count), size = arg_int(args, 3), step = arg_int(args, 4);
    if (tn_scope_failed(s)) return;
    if (sizes.count == 0) return give(outs, 0, tn_sum(s, grad));
    int64_t windows = tn_tensor_size(grad, dim);
    tn_tensor *starts = tn_unsqueeze(s, tn_mul_scalar(s, tni_range_on(s, grad, 0, windows), step), 1);
    tn_tensor *index = tni_reshape(s, tn_add(s, starts, tni_range_on(s, grad, 0, size)), TN_INTS(-1));
    tn_tensor *parts =
        tni_reshape(s, tn_movedim(s, grad, -1, dim + 1), tni_sizes_with(s, sizes, dim, windows * size));
    give(outs, 0, tn_index_add(s, tni_zeros_on(s, grad, 0, sizes), dim, index, parts));
}

/* ---- copies with a view replaced ---- */

static void write_view(tn_scope *s, tn_tensor *copy, tn_tensor *view, tn_tensor *src, tn_value *outs)
{
    char a[256], b[256];
    if (!view) return;
    if (!tni_same_sizes(sizes_of(view), sizes_of(src))) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "expected src to have a size equal to the slice of self. src size = %s, slice size = %s",
            tni_shape_text(src->desc.rank, src->desc.sizes, a, sizeof(a)),
            tni_shape_text(view->desc.rank, view->desc.sizes, b, sizeof(b)));
        return;
    }
    tn_copy_(s, view, src);
    give(outs, 0, copy);
}

void composite_slice_scatter(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *copy = tn_clone(s, arg_tensor(args, 0));
    tn_tensor *view = tn_slice(s, copy, .dim = arg_int(args, 2), .start = arg_int_or(args, 3, TN_NONE),
                               .end = arg_int_or(args, 4, TN_NONE), .step = arg_int(args, 5));
    write_view(s, copy, view, arg_tensor(args, 1), outs);
}

void composite_select_scatter(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *copy = tn_clone(s, arg_tensor(args, 0));
    write_view(s, copy, tn_select(s, copy, arg_int(args, 2), arg_int(args, 3)), arg_tensor(args, 1), outs);
}

void composite_diagonal_scatter(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *copy = tn_clone(s, arg_tensor(args, 0));
    tn_tensor *view =
        tn_diagonal(s, copy, .offset = arg_int(args, 2), .dim1 = arg_int(args, 3), .dim2 = arg_int(args, 4));
    write_view(s, copy, view, arg_tensor(args, 1), outs);
}

/* The copy covers the storage of self with its geometry, so that the view shows the same elements. */
static tn_tensor *clone_storage(tn_scope *s, tn_tensor *self)
{
    int64_t count = (int64_t)(tn_tensor_storage_bytes(self) / (uint64_t)tn_dtype_bytes(dtype_of(self)));
    tn_tensor *all = tn_clone(s, tn_as_strided(s, self, TN_INTS(count), TN_INTS(1), .storage_offset = 0));
    tn_ints strides = {tn_tensor_strides(self), rank_of(self)};
    return tn_as_strided(s, all, sizes_of(self), strides, .storage_offset = tn_tensor_storage_offset(self));
}

void composite_as_strided_scatter(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *copy = clone_storage(s, arg_tensor(args, 0));
    tn_tensor *view = tn_as_strided(s, copy, arg_ints(args, 2), arg_ints(args, 3),
                                    .storage_offset = arg_int_or(args, 4, TN_NONE));
    write_view(s, copy, view, arg_tensor(args, 1), outs);
}

/* ---- tables ---- */

void composite_embedding(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *weight = arg_tensor(args, 0), *indices = arg_tensor(args, 1);
    tn_tensor *rows = tn_index_select(s, weight, 0, tni_reshape(s, indices, TN_INTS(-1)));
    give(outs, 0,
         tni_reshape(s, rows,
                     tni_sizes_insert(s, sizes_of(indices), rank_of(indices), tn_tensor_size(weight, 1))));
}

/* (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq). */
void composite_embedding_dense_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *index = tni_reshape(s, arg_tensor(args, 1), TN_INTS(-1));
    int64_t count = arg_int(args, 2), padding = arg_int(args, 3), width = tn_tensor_size(grad, -1);
    if (!index) return;
    tn_tensor *rows = tni_reshape(s, grad, TN_INTS(tn_tensor_numel(index), width));
    if (padding >= 0)
        rows = tn_masked_fill_scalar(s, rows, tn_unsqueeze(s, tn_eq_scalar(s, index, padding), 1), 0);
    if (arg_bool(args, 4)) {
        tn_tensor *ones = tni_full_on(s, grad, 0, TN_INTS(tn_tensor_numel(index)), tn_value_int(1));
        tn_tensor *counts = tn_index_add(s, tni_zeros_on(s, grad, 0, TN_INTS(count)), 0, index, ones);
        rows = tn_div(s, rows, tn_unsqueeze(s, tn_index_select(s, counts, 0, index), 1));
    }
    give(outs, 0, tn_index_add(s, tni_zeros_on(s, grad, 0, TN_INTS(count, width)), 0, index, rows));
}

static int32_t refuse_sparse(tn_scope *s, int32_t sparse)
{
    return sparse ? tni_scope_failf(s, TN_E_UNSUPPORTED, TNI_NO_SPARSE, "sparse") : TN_OK;
}

void composite_embedding_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    if (refuse_sparse(s, arg_bool(args, 5))) return;
    give(outs, 0,
         tn_embedding_dense_backward(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_int(args, 2),
                                     arg_int(args, 3), arg_bool(args, 4)));
}

/* padding: -1 for none. */
static void give_bags(tn_scope *s, const tn_value *args, int64_t padding, tn_value *outs)
{
    tn__embedding_bag_result r =
        tn__embedding_bag(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                          .scale_grad_by_freq = arg_bool(args, 3), .mode = arg_int(args, 4),
                          .sparse = arg_bool(args, 5), .per_sample_weights = arg_tensor(args, 6),
                          .include_last_offset = arg_bool(args, 7), .padding_idx = padding);
    give(outs, 0, r.result0);
    give(outs, 1, r.result1);
    give(outs, 2, r.result2);
    give(outs, 3, r.result3);
}

void composite_embedding_bag(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_bags(s, args, -1, outs);
}

/* A negative padding index counts from the end of the table. */
void composite_embedding_bag_padding_idx(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t rows = tn_tensor_size(arg_tensor(args, 0), 0), padding = arg_int(args, 8);
    if (!arg_given(args, 8)) return give_bags(s, args, -1, outs);
    if (padding < -rows || padding >= rows)
        return (void)tni_scope_failf(
            s, TN_E_INDEX,
            "padding_idx must be within the number of embeddings, -%lld through %lld, but got %lld",
            (long long)rows, (long long)rows - 1, (long long)padding);
    give_bags(s, args, padding < 0 ? padding + rows : padding, outs);
}

/* (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
 * sparse, weights, padding). */
void composite_embedding_bag_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *indices = arg_tensor(args, 1), *offsets = arg_tensor(args, 2), *bags = arg_tensor(args, 3);
    if (refuse_sparse(s, arg_bool(args, 9))) return;
    if (tn_tensor_numel(bags) == 0 && tn_tensor_numel(indices)) {
        /*
         * Sums without weights did not store the bag of each index: it is the last bag whose offset is not
         * beyond the index.
         */
        tn_tensor *place = tni_range_on(s, indices, 0, tn_tensor_numel(indices));
        bags = tn_sub_scalar(s, tn_searchsorted(s, tni_cast(s, offsets, TN_INT64), place, .right = 1), 1);
        bags = tni_cast(s, bags, dtype_of(indices));
    }
    give(outs, 0,
         tn__embedding_bag_dense_backward(s, arg_tensor(args, 0), indices, bags, arg_tensor(args, 4),
                                          arg_tensor(args, 5), arg_int(args, 6), arg_bool(args, 7),
                                          arg_int(args, 8), arg_tensor(args, 10),
                                          .padding_idx = arg_int(args, 11)));
}
