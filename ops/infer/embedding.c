/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table, one by one or in bags; attention. */
#include <string.h>
#include "ops/infer/infer.h"

static int32_t check_indices(tni_frame *f, const tn_tensor *indices)
{
    if (dtype_of(indices) == TN_INT64 || dtype_of(indices) == TN_INT32) return TN_OK;
    return tni_fail(f, TN_E_DTYPE,
                    "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
                    "Long, Int; but got %s instead",
                    tni_dtype_error_name(dtype_of(indices)));
}

/* embedding (weight, indices, ...). */
int32_t infer_embedding(tni_frame *f)
{
    const tn_tensor *weight = tni_arg_tensor(f, 0), *indices = tni_arg_tensor(f, 1);
    int64_t sizes[TN_MAX_RANK];
    if (rank_of(weight) != 2) return tni_fail(f, TN_E_SHAPE, "'weight' must be 2-D");
    TNI_TRY(check_indices(f, indices));
    TNI_TRY(tni_check_sparse(f, 4));
    if (rank_of(indices) == TN_MAX_RANK)
        return tni_fail(f, TN_E_SHAPE, "the result would have more than %d dimensions", TN_MAX_RANK);
    memcpy(sizes, sizes_of(indices), indices->desc.rank * sizeof(int64_t));
    sizes[indices->desc.rank] = sizes_of(weight)[1];
    f->keep_dtype = TNI_KEEP(1);
    return tni_out(f, 0, dtype_of(weight), indices->desc.rank + 1, sizes);
}

/* embedding_renorm_ (self, indices, max_norm, norm_type). */
int32_t infer_embedding_renorm(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *indices = tni_arg_tensor(f, 1);
    if (rank_of(self) != 2)
        return tni_fail(
            f, TN_E_SHAPE,
            "Expected 2-dimensional tensor, but got %lld-dimensional tensor for argument #1 'self'",
            (long long)rank_of(self));
    TNI_TRY(check_indices(f, indices));
    if (indices->numel && !sizes_of(self)[0])
        return tni_fail(f, TN_E_INDEX, "index is out of bounds for dimension 0 with size 0");
    f->keep_dtype = UINT32_MAX;
    return tni_out_like(f, 0, self, 0);
}

/* embedding_dense_backward (grad_output, indices, num_weights, ...). */
int32_t infer_embedding_dense_backward(tni_frame *f)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0), *indices = tni_arg_tensor(f, 1);
    const int64_t sizes[] = {tni_arg_int(f, 2), rank_of(grad) ? sizes_of(grad)[rank_of(grad) - 1] : 1};
    tni_text text;
    TNI_TRY(check_indices(f, indices));
    if (grad->numel != indices->numel * sizes[1])
        return tni_fail(f, TN_E_SHAPE, "shape '[%lld, %lld]' is invalid for grad_output of size %s",
                        (long long)indices->numel, (long long)sizes[1], tni_sizes_text(grad, &text));
    f->keep_dtype = TNI_KEEP(1);
    return tni_out(f, 0, dtype_of(grad), 2, sizes);
}

static int32_t check_bags(tni_frame *f, const tn_tensor *weight, const tn_tensor *indices,
                          const tn_tensor *offsets, int64_t mode)
{
    const tn_tensor *scales = tni_arg_tensor(f, 6);
    if (rank_of(weight) != 2)
        return tni_fail(f, TN_E_SHAPE, "weight has to be a 2D Tensor, but got Tensor of dimension %u",
                        weight->desc.rank);
    TNI_TRY(check_indices(f, indices));
    TNI_TRY(check_indices(f, offsets));
    if (rank_of(indices) != 1)
        return tni_fail(f, TN_E_SHAPE, "input has to be a 1D or 2D Tensor, but got Tensor of dimension %u",
                        indices->desc.rank);
    if (rank_of(offsets) != 1)
        return tni_fail(f, TN_E_SHAPE, "offsets has to be a 1D Tensor, but got Tensor of dimension %u",
                        offsets->desc.rank);
    TNI_TRY(tni_check_sparse(f, 5));
    if (mode < 0 || mode > 2) return tni_fail(f, TN_E_ARGUMENT, "mode has to be one of sum, mean or max");
    if (tni_arg_bool(f, 7) && offsets->numel < 1)
        return tni_fail(f, TN_E_SHAPE, "include_last_offset: number of offset should be at least 1");
    if (!scales) return TN_OK;
    if (mode != 0)
        return tni_fail(f, TN_E_ARGUMENT,
                        "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                        "supported for mode='sum'");
    if (rank_of(scales) != 1 || scales->numel != indices->numel)
        return tni_fail(f, TN_E_SHAPE,
                        "expected per_sample_weights to be a 1D tensor with one element for each index");
    return tni_check_dtype_like(f, 6, weight);
}

/*
 * _embedding_bag (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
 * include_last_offset, padding_idx): the bags, the bag of each index, the sizes of the bags, the rows that
 * gave the maxima. Sums without weights need no bag of each index; ATen leaves outputs that are not needed
 * unwritten, too.
 */
int32_t infer_embedding_bag(tni_frame *f)
{
    const tn_tensor *weight = tni_arg_tensor(f, 0), *indices = tni_arg_tensor(f, 1),
                    *offsets = tni_arg_tensor(f, 2);
    int64_t mode = tni_arg_int(f, 4), columns, all, bags, none;
    TNI_TRY(check_bags(f, weight, indices, offsets, mode));
    columns = sizes_of(weight)[1];
    all = offsets->numel;
    bags = all - (tni_arg_bool(f, 7) ? 1 : 0);
    none = mode == 0 && tni_arg_int(f, 8) < 0 && dtype_of(weight) != TN_FLOAT64 && strides_of(weight)[1] == 1
               ? 0
               : indices->numel;
    const int64_t sizes[] = {bags, columns};
    f->keep_dtype = TNI_KEEP(1) | TNI_KEEP(2);
    TNI_TRY(tni_out(f, 0, dtype_of(weight), 2, sizes));
    TNI_TRY(tni_out(f, 1, dtype_of(indices), 1, &none));
    TNI_TRY(tni_out(f, 2, dtype_of(offsets), 1, mode == 0 ? &all : &bags));
    return mode == 2 ? tni_out(f, 3, dtype_of(offsets), 2, sizes)
                     : tni_out(f, 3, dtype_of(offsets), 1, mode == 0 ? &all : &bags);
}

static int32_t check_bag_gradient(tni_frame *f, const tn_tensor *grad)
{
    if (rank_of(grad) == 2) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "grad has to be a 2D Tensor, but got Tensor of dimension %u",
                    grad->desc.rank);
}

/* (grad, indices, offset2bag, bag_size, maximum_indices, num_weights, ...). */
int32_t infer_embedding_bag_dense_backward(tni_frame *f)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0), *indices = tni_arg_tensor(f, 1),
                    *bag_size = tni_arg_tensor(f, 3);
    int64_t mode = tni_arg_int(f, 7);
    TNI_TRY(check_bag_gradient(f, grad));
    for (uint32_t i = 1; i < 5; i++) TNI_TRY(check_indices(f, tni_arg_tensor(f, i)));
    if (mode < 0 || mode > 2) return tni_fail(f, TN_E_ARGUMENT, "mode has to be one of sum, mean or max");
    if (mode == 2) TNI_TRY(tni_check_sizes_like(f, 4, grad));
    if (mode != 2) TNI_TRY(tni_check_count(f, 2, indices->numel));
    if (mode && bag_size->numel < sizes_of(grad)[0]) TNI_TRY(tni_check_count(f, 3, sizes_of(grad)[0]));
    TNI_TRY(tni_check_count(f, 8, indices->numel));
    TNI_TRY(tni_check_dtype_like(f, 8, grad));
    const int64_t sizes[] = {tni_arg_int(f, 5), sizes_of(grad)[1]};
    f->keep_dtype = TNI_KEEP(1) | TNI_KEEP(2) | TNI_KEEP(3) | TNI_KEEP(4);
    return tni_out(f, 0, dtype_of(grad), 2, sizes);
}

/* (grad, weight, indices, offsets, offset2bag, mode, padding_idx). */
int32_t infer_embedding_bag_per_sample_weights_backward(tni_frame *f)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 1),
                    *indices = tni_arg_tensor(f, 2);
    if (tni_arg_int(f, 5) != 0)
        return tni_fail(f, TN_E_ARGUMENT,
                        "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
    TNI_TRY(check_bag_gradient(f, grad));
    if (rank_of(weight) != 2 || sizes_of(weight)[1] != sizes_of(grad)[1])
        return tni_check_sizes(
            f, 1, 2, (const int64_t[]){rank_of(weight) ? sizes_of(weight)[0] : 0, sizes_of(grad)[1]});
    TNI_TRY(tni_check_dtype_like(f, 1, grad));
    for (uint32_t i = 2; i < 5; i++) TNI_TRY(check_indices(f, tni_arg_tensor(f, i)));
    f->keep_dtype = TNI_KEEP(2) | TNI_KEEP(3) | TNI_KEEP(4);
    return tni_out(f, 0, dtype_of(grad), 1, &indices->numel);
}

/* ---- attention (query, key, value, ...): (batch, heads, length, width) ---- */

/* query, key and value are the arguments from `first` on. */
static int32_t check_attention(tni_frame *f, uint32_t first)
{
    const tn_tensor *q = tni_arg_tensor(f, first), *k = tni_arg_tensor(f, first + 1),
                    *v = tni_arg_tensor(f, first + 2);
    if (rank_of(q) != 4 || rank_of(k) != 4 || rank_of(v) != 4)
        return tni_fail(f, TN_E_SHAPE, "Accept only 4 dims inputs shape of {B, H, T, K}");
    if (sizes_of(q)[3] != sizes_of(k)[3] || sizes_of(k)[2] != sizes_of(v)[2])
        return tni_fail(f, TN_E_SHAPE, "Q/K/V should have the same head size and as many keys as values");
    if (dtype_of(q) != dtype_of(k) || dtype_of(q) != dtype_of(v))
        return tni_fail(f, TN_E_DTYPE, "Q/K/V should have the same data type");
    return TN_OK;
}

/* Strides of a transposed (batch, length, heads, width). */
static int32_t out_by_length(tni_frame *f, uint32_t i, tn_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    int64_t strides[4], width = rank == 4 ? sizes[3] : 1;
    strides[3] = 1;
    strides[1] = width;
    strides[2] = sizes[1] * width;
    strides[0] = sizes[2] * sizes[1] * width;
    return tni_out_strided(f, i, dtype, rank, sizes, strides);
}

/* Of the logarithms of the sums. */
static tn_dtype sums_dtype(const tn_tensor *q)
{
    return TN_DTYPE_BITS(dtype_of(q)) == 16 ? TN_FLOAT32 : dtype_of(q);
}

int32_t infer_flash_attention(tni_frame *f)
{
    const tn_tensor *q = tni_arg_tensor(f, 0), *v = tni_arg_tensor(f, 2);
    TNI_TRY(check_attention(f, 0));
    if (tni_arg_float(f, 3) > 0)
        return tni_fail(f, TN_E_UNSUPPORTED,
                        "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0");
    const int64_t sizes[] = {sizes_of(q)[0], sizes_of(q)[1], sizes_of(q)[2], sizes_of(v)[3]};
    f->keep_dtype = TNI_KEEP(5);
    TNI_TRY(tni_out(f, 0, dtype_of(q), 4, sizes));
    return out_by_length(f, 1, sums_dtype(q), 3, sizes);
}

/* (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale). */
int32_t infer_flash_attention_backward(tni_frame *f)
{
    const tn_tensor *q = tni_arg_tensor(f, 1), *v = tni_arg_tensor(f, 3);
    TNI_TRY(check_attention(f, 1));
    const int64_t sizes[] = {sizes_of(q)[0], sizes_of(q)[1], sizes_of(q)[2], sizes_of(v)[3]};
    for (uint32_t i = 0; i < 5; i += 4) {
        TNI_TRY(tni_check_dtype_like(f, i, q));
        TNI_TRY(tni_check_sizes(f, i, 4, sizes));
    }
    TNI_TRY(tni_check_sizes(f, 5, 3, sizes));
    if (dtype_of(tni_arg_tensor(f, 5)) != sums_dtype(q))
        return tni_fail(f, TN_E_DTYPE, "expected dtype %s for `logsumexp` but got dtype %s",
                        tni_dtype_error_name(sums_dtype(q)),
                        tni_dtype_error_name(dtype_of(tni_arg_tensor(f, 5))));
    f->keep_dtype = TNI_KEEP(5) | TNI_KEEP(8);
    for (uint32_t i = 0; i < 3; i++) {
        const tn_tensor *t = tni_arg_tensor(f, i + 1);
        TNI_TRY(out_by_length(f, i, dtype_of(t), 4, sizes_of(t)));
    }
    return TN_OK;
}
