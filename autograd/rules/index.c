/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing by index and mask, embeddings. Gradients of elements that were read add up; overwritten
 * elements get 0.
 */
#include "autograd/rules/formula.h"

#include "core/shape.h"

#include <string.h>

/* The saved list of indices, absent items included. */
static tn_tensors saved_indices(tn_scope *s, const tni_grad *g, uint32_t arg)
{
    uint32_t n = tni_grad_count(g, arg);
    tn_tensor **list = tn_scope_memory(s, (n + 1u) * sizeof *list);
    for (uint32_t i = 0; list && i < n; i++) list[i] = tni_grad_saved_item(g, arg, i);
    return (tn_tensors){list, list ? n : 0};
}

static tn_tensor *number_zero(tn_scope *s, const tn_tensor *like)
{
    return like ? tn_zeros(s, TN_NO_INTS, .dtype = like->desc.dtype, .device = like->desc.device) : NULL;
}

void grad_index(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_grad_set(g, 0,
                 tn_index_put_(s, zeros_arg(s, g, 0, grad), saved_indices(s, g, 1), grad, .accumulate = 1));
}

void grad_index_put(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tn_tensors indices = saved_indices(s, g, 1);
    if (tni_grad_needs(g, 0)) {
        tn_tensor *kept = grad;
        if (!bool_arg(g, 3)) kept = tn_index_put_(s, tn_clone(s, grad), indices, number_zero(s, grad));
        tni_grad_set(g, 0, kept);
    }
    if (tni_grad_needs(g, 2)) tni_grad_set(g, 2, tn_index_tensor(s, grad, indices));
}

void grad_unsafe_masked_index(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_grad_set(g, 0,
                 tn__unsafe_masked_index_put_accumulate(s, zeros_arg(s, g, 0, grad), tni_grad_saved(g, 1),
                                                        saved_indices(s, g, 2), grad));
}

void grad_unsafe_masked_index_put_accumulate(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_grad_set(g, 0, grad);
    if (tni_grad_needs(g, 3))
        tni_grad_set(g, 3, tn__unsafe_masked_index(s, grad, tni_grad_saved(g, 1), saved_indices(s, g, 2), 0));
}

/* ---- along one dimension ---- */

void grad_index_select(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_meta m = tni_grad_meta(g, 0, 0);
    if (m.rank == 0)
        tni_grad_set(g, 0, tn_reshape(s, tn_sum(s, grad), sizes_of(&m)));
    else
        tni_grad_set(g, 0,
                     tn_index_add(s, zeros_arg(s, g, 0, grad), int_arg(g, 1), tni_grad_saved(g, 2), grad));
}

/* The rows of grad that were written, in the shape of argument `arg`. */
static tn_tensor *rows_for(tn_scope *s, tni_grad *g, uint32_t arg)
{
    tni_meta m = tni_grad_meta(g, arg, 0);
    tn_tensor *rows = tn_index_select(s, tni_grad_out(g, 0), int_arg(g, 1), tni_grad_saved(g, 2));
    return m.rank == 0 ? tn_reshape(s, rows, TN_NO_INTS) : tn_expand(s, rows, sizes_of(&m));
}

void grad_index_add(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tni_grad_out(g, 0));
    if (tni_grad_needs(g, 3)) tni_grad_set(g, 3, times(s, rows_for(s, g, 3), tni_grad_arg(g, 4)));
}

void grad_index_copy(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_index_fill(s, grad, int_arg(g, 1), tni_grad_saved(g, 2), 0));
    if (tni_grad_needs(g, 3)) tni_grad_set(g, 3, rows_for(s, g, 3));
}

/* A repeated index is filled once. */
void grad_index_fill(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *index = tni_grad_saved(g, 2);
    int64_t dim = int_arg(g, 1);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, tn_index_fill(s, grad, dim, index, 0));
    if (tni_grad_needs(g, 3)) {
        tn_tensor *filled = tn_index_fill(s, tn_zeros_like(s, grad), dim, index, 1);
        tni_grad_set(g, 3, tn_sum(s, mul(s, grad, filled)));
    }
}

void grad_gather(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_grad_set(g, 0,
                 tn_scatter_add(s, zeros_arg(s, g, 0, grad), int_arg(g, 1), tni_grad_saved(g, 2), grad));
}

/* ---- masks ---- */

void grad_masked_fill(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, drop_where(s, tni_grad_saved(g, 1), tni_grad_out(g, 0)));
}

void grad_masked_fill_tensor(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *mask = tni_grad_saved(g, 1);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, drop_where(s, mask, grad));
    if (tni_grad_needs(g, 2)) tni_grad_set(g, 2, tn_sum(s, keep_where(s, mask, grad)));
}

void grad_masked_scatter(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *mask = tni_grad_saved(g, 1);
    tni_meta source = tni_grad_meta(g, 2, 0);
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, drop_where(s, mask, grad));
    if (tni_grad_needs(g, 2))
        tni_grad_set(g, 2, tn_masked_scatter_backward(s, grad, mask, sizes_of(&source)));
}

void grad_masked_select(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *mask = tni_grad_saved(g, 1);
    tni_meta m = tni_grad_meta(g, 0, 0);
    tni_shape shape = {0};
    if (!mask || !grad) return;
    int32_t status = tni_broadcast(&shape, m.rank, m.sizes);
    if (!status) status = tni_broadcast(&shape, mask->desc.rank, mask->desc.sizes);
    if (status) {
        tni_scope_record(s, status);
        return;
    }
    tni_meta both = {grad->desc.dtype, shape.rank, grad->desc.device, shape.sizes};
    mask = tn_expand(s, mask, sizes_of(&both));
    tni_grad_set(g, 0, tn_masked_scatter(s, zeros_as(s, &both, both.dtype), mask, grad));
}

void grad_take(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_grad_set(g, 0, tn_put_(s, zeros_arg(s, g, 0, grad), tni_grad_saved(g, 1), grad, .accumulate = 1));
}

void grad_put(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *index = tni_grad_saved(g, 1);
    tni_meta source = tni_grad_meta(g, 2, 0);
    if (tni_grad_needs(g, 0)) {
        tn_tensor *kept = grad;
        if (!bool_arg(g, 3)) kept = tn_put(s, grad, index, zeros_as(s, &source, grad ? grad->desc.dtype : 0));
        tni_grad_set(g, 0, kept);
    }
    if (tni_grad_needs(g, 2)) tni_grad_set(g, 2, tn_reshape(s, tn_take(s, grad, index), sizes_of(&source)));
}

/* ---- the backward operators of views ---- */

void grad_slice_backward(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 tn_slice(s, tni_grad_out(g, 0), .dim = int_arg(g, 2), .start = int_arg(g, 3),
                          .end = int_arg(g, 4), .step = int_arg(g, 5)));
}

void grad_select_backward(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_select(s, tni_grad_out(g, 0), int_arg(g, 2), int_arg(g, 3)));
}

void grad_diagonal_backward(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 tn_diagonal(s, tni_grad_out(g, 0), .offset = int_arg(g, 2), .dim1 = int_arg(g, 3),
                             .dim2 = int_arg(g, 4)));
}

void grad_unfold_backward(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_unfold(s, tni_grad_out(g, 0), int_arg(g, 2), int_arg(g, 3), int_arg(g, 4)));
}

void grad_slice_scatter(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    int64_t dim = int_arg(g, 2), start = opt_int_arg(g, 3), end = opt_int_arg(g, 4), step = int_arg(g, 5);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0,
                     tn_slice_scatter(s, grad, zeros_arg(s, g, 1, grad), .dim = dim, .start = start,
                                      .end = end, .step = step));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, tn_slice(s, grad, .dim = dim, .start = start, .end = end, .step = step));
}

void grad_select_scatter(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    int64_t dim = int_arg(g, 2), index = int_arg(g, 3);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_select_scatter(s, grad, zeros_arg(s, g, 1, grad), dim, index));
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, tn_select(s, grad, dim, index));
}

void grad_diagonal_scatter(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    int64_t offset = int_arg(g, 2), dim1 = int_arg(g, 3), dim2 = int_arg(g, 4);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0,
                     tn_diagonal_scatter(s, grad, zeros_arg(s, g, 1, grad), .offset = offset, .dim1 = dim1,
                                         .dim2 = dim2));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, tn_diagonal(s, grad, .offset = offset, .dim1 = dim1, .dim2 = dim2));
}

void grad_as_strided_scatter(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tn_contiguous(s, tni_grad_out(g, 0));
    tn_ints sizes = ints_arg(g, 2), strides = ints_arg(g, 3);
    int64_t offset = opt_int_arg(g, 4);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0,
                     tn_as_strided_scatter(s, grad, zeros_arg(s, g, 1, grad), sizes, strides,
                                           .storage_offset = offset));
    if (tni_grad_needs(g, 1))
        tni_grad_set(g, 1, tn_as_strided(s, grad, sizes, strides, .storage_offset = offset));
}

void grad_trace(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    int64_t n = m.sizes[0] < m.sizes[1] ? m.sizes[0] : m.sizes[1];
    tn_tensor *diagonal = tn_expand(s, tni_grad_out(g, 0), TN_INTS(n));
    tni_grad_set(g, 0, tn_diagonal_backward(s, diagonal, sizes_of(&m), 0, 0, 1));
}

/* ---- embeddings ---- */

void grad_embedding(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0,
                 tn_embedding_dense_backward(s, tni_grad_out(g, 0), tni_grad_saved(g, 1),
                                             tni_grad_meta(g, 0, 0).sizes[0], int_arg(g, 2), bool_arg(g, 3)));
}

void grad_embedding_dense_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *indices = tni_grad_saved(g, 1);
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_tensor *rows = tn_index_select(s, tni_grad_out(g, 0), 0, tn_reshape(s, indices, TN_INTS(-1)));
    rows = tn_reshape(s, rows, sizes_of(&m));
    int64_t padding = int_arg(g, 3);
    if (padding >= 0) rows = drop_where(s, tn_unsqueeze(s, tn_eq_scalar(s, indices, padding), -1), rows);
    tni_grad_set(g, 0, rows);
}

void grad_embedding_bag(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *indices = tni_grad_saved(g, 1), *offsets = tni_grad_saved(g, 2);
    tn_tensor *offset2bag = tni_grad_result(g, 1);
    int64_t mode = int_arg(g, 4), padding = int_arg(g, 8);
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0,
                     tn__embedding_bag_backward(s, grad, indices, offsets, offset2bag, tni_grad_result(g, 2),
                                                tni_grad_result(g, 3), tni_grad_meta(g, 0, 0).sizes[0],
                                                bool_arg(g, 3), mode, bool_arg(g, 5), tni_grad_saved(g, 6),
                                                .padding_idx = padding));
    if (tni_grad_needs(g, 6))
        tni_grad_set(g, 6,
                     tn__embedding_bag_per_sample_weights_backward(s, grad, tni_grad_saved(g, 0), indices,
                                                                   offsets, offset2bag, mode,
                                                                   .padding_idx = padding));
}

/* Sums the rows of each bag, in the sizes of argument 0. Indices behind the last bag have the next number, whose sum is
 * dropped. */
static tn_tensor *sum_bags(tn_scope *s, const tni_grad *g, tn_tensor *rows, tn_tensor *offset2bag)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    if (!rows) return NULL;
    tn_ints sizes = TN_INTS(m.sizes[0] + 1, m.sizes[1]);
    tn_tensor *sums = tn_zeros(s, sizes, .dtype = rows->desc.dtype, .device = rows->desc.device);
    return tn_narrow(s, tn_index_add(s, sums, 0, offset2bag, rows), 0, 0, m.sizes[0]);
}

/* The gradient of `grad`: for each bag the sum (or mean) of the rows that its indices name. */
void grad_embedding_bag_dense_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *indices = tni_grad_saved(g, 1), *offset2bag = tni_grad_saved(g, 2),
              *sizes = tni_grad_saved(g, 3);
    tn_tensor *weights = tni_grad_saved(g, 8), *grad = tni_grad_out(g, 0);
    int64_t mode = int_arg(g, 7), padding = int_arg(g, 9);
    if (mode > 1 || !grad) {
        set_unknown(s, g, 0);
        return;
    }
    tn_tensor *rows = tn_index_select(s, grad, 0, indices);
    if (weights) rows = mul(s, rows, tn_unsqueeze(s, weights, -1));
    if (padding >= 0) rows = drop_where(s, tn_unsqueeze(s, tn_eq_scalar(s, indices, padding), -1), rows);
    tn_tensor *bags = sum_bags(s, g, rows, offset2bag);
    if (mode == 1) bags = divide(s, bags, tn_unsqueeze(s, tn_clamp_min(s, sizes, 1), -1));
    tni_grad_set(g, 0, bags);
    set_unknown(s, g, 8);
}

void grad_embedding_bag_per_sample_weights_backward(tn_scope *s, tni_grad *g)
{
    tn_tensor *indices = tni_grad_saved(g, 2), *grad = tn_unsqueeze(s, tni_grad_out(g, 0), -1);
    int64_t padding = int_arg(g, 6);
    set_unknown(s, g, 1);
    if (!tni_grad_needs(g, 0)) return;
    tn_tensor *rows = mul(s, tn_index_select(s, tni_grad_saved(g, 1), 0, indices), grad);
    if (padding >= 0) rows = drop_where(s, tn_unsqueeze(s, tn_eq_scalar(s, indices, padding), -1), rows);
    tni_grad_set(g, 0, sum_bags(s, g, rows, tni_grad_saved(g, 4)));
}
