/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting, unique elements, searching, counting, sampling. */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

/* sort.stable (self, stable, dim, descending). */
int32_t infer_sort(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim;
    TNI_TRY(tni_arg_dim(f, 2, rank_of(self), &dim));
    TNI_TRY(tni_out_like(f, 0, self, 0));
    return tni_out_like(f, 1, self, TN_INT64);
}

/* topk (self, k, dim, largest, sorted). */
int32_t infer_topk(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim, k = tni_arg_int(f, 1), sizes[TN_MAX_RANK];
    TNI_TRY(tni_arg_dim(f, 2, rank_of(self), &dim));
    const int64_t size = rank_of(self) ? sizes_of(self)[dim] : 1;
    if (k < 0 || k > size)
        return tni_fail(f, TN_E_INDEX,
                        "selected index k out of range: got %lld, dimension %lld has size %lld", (long long)k,
                        (long long)dim, (long long)size);
    memcpy(sizes, sizes_of(self), self->desc.rank * sizeof(int64_t));
    if (rank_of(self)) sizes[dim] = k;
    TNI_TRY(tni_out(f, 0, dtype_of(self), self->desc.rank, sizes));
    return tni_out(f, 1, TN_INT64, self->desc.rank, sizes);
}

/* Output i as an int64 vector, empty if not asked for. */
static int32_t out_vector(tni_frame *f, uint32_t i, int64_t count)
{
    return tni_out(f, i, TN_INT64, 1, &count);
}

/* Unique slices of a dimension: as in ATen, inverse and counts are computed whether asked for or not. */
static int32_t unique_along(tni_frame *f, int64_t dim)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    if (rank_of(self) == 0)
        return tni_fail(f, TN_E_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                        (long long)dim);
    TNI_TRY(tni_wrap_dim(dim, rank_of(self), &dim));
    int64_t length = sizes_of(self)[dim], empty = 0;
    for (int64_t d = 0; d < rank_of(self); d++) empty += sizes_of(self)[d] == 0;
    if (empty && length)
        return tni_fail(
            f, TN_E_SHAPE,
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    if (empty > 1)
        return tni_fail(f, TN_E_SHAPE,
                        "Number of zero sized dimensions is more than one, so unique cannot be applied");
    TNI_TRY(tni_out(f, 0, dtype_of(self), self->desc.rank, sizes_of(self)));
    TNI_TRY(out_vector(f, 1, length));
    return out_vector(f, 2, length);
}

/* _unique (self, sorted, inverse), _unique2 (.., counts), unique_consecutive (self, inverse, counts, dim). */
int32_t infer_unique(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int32_t consecutive = f->op->base->number == TN_OP_UNIQUE_CONSECUTIVE,
            inverse = tni_arg_bool(f, consecutive ? 1 : 2);
    /* A vector with dim 0 is treated as one without dim, as in ATen; with dim -1 it is not. */
    if (consecutive && tni_arg_given(f, 3) && (tni_arg_int(f, 3) != 0 || self->desc.rank != 1))
        return unique_along(f, tni_arg_int(f, 3));
    TNI_TRY(tni_out(f, 0, dtype_of(self), 1, &self->numel));
    if (inverse)
        TNI_TRY(tni_out(f, 1, TN_INT64, self->desc.rank, sizes_of(self)));
    else
        TNI_TRY(out_vector(f, 1, 0));
    if (f->op->base->n_returns < 3) return TN_OK;
    return out_vector(f, 2, tni_arg_bool(f, consecutive ? 2 : 3) ? self->numel : 0);
}

/* unique_dim, unique_dim_consecutive (self, dim, ...). */
int32_t infer_unique_dim(tni_frame *f)
{
    return unique_along(f, tni_arg_int(f, 1));
}

static int32_t check_search(tni_frame *f, const tn_tensor *sorted, const tn_tensor *values,
                            const tn_tensor *sorter)
{
    tni_text a, b;
    int32_t match = rank_of(sorted) == rank_of(values);
    const char *side = tni_arg_string(f, 4);
    for (int64_t d = 0; d + 1 < rank_of(sorted) && match; d++)
        match = sizes_of(sorted)[d] == sizes_of(values)[d];
    if (rank_of(sorted) == 0)
        return tni_fail(
            f, TN_E_SHAPE,
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
    if (rank_of(sorted) != 1 && !match)
        return tni_fail(f, TN_E_SHAPE,
                        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
                        "dimensions of boundaries tensor and input value tensor must match, but we got "
                        "boundaries tensor %s and input value tensor %s",
                        tni_sizes_text(sorted, &a), tni_sizes_text(values, &b));
    if (side && strcmp(side, "left") && strcmp(side, "right"))
        return tni_fail(f, TN_E_ARGUMENT,
                        "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
    if (side && tni_arg_bool(f, 3) && !strcmp(side, "left"))
        return tni_fail(f, TN_E_ARGUMENT,
                        "torch.searchsorted(): side and right can't be set to opposites, got side of left "
                        "while right was True");
    if (!sorter) return TN_OK;
    if (dtype_of(sorter) != TN_INT64)
        return tni_fail(f, TN_E_DTYPE,
                        "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
                        tni_dtype_error_name(dtype_of(sorter)));
    if (!same_sizes(sorter, sorted))
        return tni_fail(f, TN_E_SHAPE,
                        "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
                        "tensor %s and got sorter tensor %s",
                        tni_sizes_text(sorted, &a), tni_sizes_text(sorter, &b));
    return TN_OK;
}

/* searchsorted (sorted_sequence, self, out_int32, right, side, sorter). */
int32_t infer_searchsorted(tni_frame *f)
{
    const tn_tensor *sorted = tni_arg_tensor(f, 0), *values = tni_arg_tensor(f, 1);
    tni_promotion p = {0};
    TNI_TRY(check_search(f, sorted, values, tni_arg_tensor(f, 5)));
    tni_promotion_add(&p, dtype_of(sorted), rank_of(sorted) == 0, 0);
    tni_promotion_add(&p, dtype_of(values), rank_of(values) == 0,
                      (values->desc.flags & TN_DESC_WRAPPED) != 0);
    f->call_dtype = tni_promotion_result(&p, tni_default_dtype(f->ctx));
    f->keep_dtype = TNI_KEEP(5);
    return tni_out(f, 0, tni_arg_bool(f, 2) ? TN_INT32 : TN_INT64, values->desc.rank, sizes_of(values));
}

/* bincount (self, weights, minlength): the kernel determines the bin count. */
int32_t infer_bincount(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *weights = tni_arg_tensor(f, 1);
    int64_t bins = tni_arg_int(f, 2);
    tn_dtype dtype = TN_INT64;
    if (rank_of(self) != 1 || !is_integer(dtype_of(self)) || dtype_of(self) == TN_BOOL)
        return tni_fail(f, TN_E_DTYPE, "bincount only supports 1-d non-negative integral inputs.");
    if (bins < 0) return tni_fail(f, TN_E_ARGUMENT, "minlength should be >= 0");
    if (weights && self->numel) { /* without elements ATen does not look at the weights */
        if (rank_of(weights) != 1 || weights->numel != self->numel)
            return tni_fail(f, TN_E_SHAPE, "weights should be 1-d and have the same length as input");
        dtype = dtype_of(weights) == TN_FLOAT32 ? TN_FLOAT32 : TN_FLOAT64;
    }
    f->keep_dtype = TNI_KEEP(1);
    return tni_out(f, 0, dtype, 1, &bins);
}

int32_t infer_histc(tni_frame *f)
{
    int64_t bins = tni_arg_int(f, 1);
    if (bins <= 0) return tni_fail(f, TN_E_ARGUMENT, "bins must be > 0");
    TNI_TRY(tni_check_scalars(f, dtype_of(tni_arg_tensor(f, 0))));
    return tni_out(f, 0, dtype_of(tni_arg_tensor(f, 0)), 1, &bins);
}

/* multinomial (self, num_samples, replacement, generator). */
int32_t infer_multinomial(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t rank = rank_of(self), samples = tni_arg_int(f, 1), sizes[2];
    if (rank != 1 && rank != 2) return tni_fail(f, TN_E_SHAPE, "prob_dist must be 1 or 2 dim");
    if (!is_float(dtype_of(self)))
        return tni_fail(f, TN_E_DTYPE, "multinomial only supports floating-point dtypes for input, got: %s",
                        tni_dtype_error_name(dtype_of(self)));
    if (samples <= 0) return tni_fail(f, TN_E_ARGUMENT, "cannot sample n_sample <= 0 samples");
    if (!tni_arg_bool(f, 2) && samples > sizes_of(self)[rank - 1])
        return tni_fail(f, TN_E_ARGUMENT,
                        "cannot sample n_sample > prob_dist.size(-1) samples without replacement: got %lld, "
                        "the last dimension has size %lld",
                        (long long)samples, (long long)sizes_of(self)[rank - 1]);
    if (sizes_of(self)[rank - 1] > INT64_C(1) << 24)
        return tni_fail(f, TN_E_ARGUMENT, "number of categories cannot exceed 2^24");
    sizes[0] = sizes_of(self)[0];
    sizes[rank - 1] = samples;
    return tni_out(f, 0, TN_INT64, (uint32_t)rank, sizes);
}

/* The sizes of data with the number of segments for `axis`; `at`: the arguments lengths, offsets and axis. */
static int32_t segmented_sizes(tni_frame *f, const tn_tensor *data, const uint32_t at[3], int64_t *sizes)
{
    const tn_tensor *lengths = tni_arg_tensor(f, at[0]), *offsets = tni_arg_tensor(f, at[1]);
    const tn_tensor *segments = offsets ? offsets : lengths;
    int64_t axis;
    TNI_TRY(tni_arg_dim(f, at[2], rank_of(data), &axis));
    if (data->numel == 0) return tni_fail(f, TN_E_SHAPE, "Expected data to be a non-empty tensor");
    if (!segments) return tni_fail(f, TN_E_ARGUMENT, "Either lengths or offsets must be defined.");
    TNI_TRY(tni_check_index(f, segments, 1));
    if (axis != rank_of(segments) - 1)
        return tni_fail(f, TN_E_SHAPE,
                        "Expected axis to be the last dimension of lengths or offsets, but got axis %lld",
                        (long long)axis);
    memcpy(sizes, sizes_of(data), data->desc.rank * sizeof(int64_t));
    sizes[axis] = sizes_of(segments)[axis] - (offsets ? 1 : 0);
    return TN_OK;
}

/* segment_reduce (data, reduce, lengths, indices, offsets, axis, unsafe, initial). */
int32_t infer_segment_reduce(tni_frame *f)
{
    const tn_tensor *data = tni_arg_tensor(f, 0);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(segmented_sizes(f, data, (const uint32_t[]){2, 4, 5}, sizes));
    f->keep_dtype = TNI_KEEP(2) | TNI_KEEP(3) | TNI_KEEP(4);
    return tni_out(f, 0, dtype_of(data), data->desc.rank, sizes);
}

/* (grad, output, data, reduce, lengths, offsets, axis, ...). */
int32_t infer_segment_reduce_backward(tni_frame *f)
{
    const tn_tensor *data = tni_arg_tensor(f, 2);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(segmented_sizes(f, data, (const uint32_t[]){4, 5, 6}, sizes));
    for (uint32_t i = 0; i < 2; i++) {
        TNI_TRY(tni_check_dtype_like(f, i, data));
        TNI_TRY(tni_check_sizes(f, i, rank_of(data), sizes));
    }
    return tni_out_gradient(f, 2, 0);
}

/* An output like the input, and a bool mask. */
int32_t infer_with_mask(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    f->keep_dtype = UINT32_MAX;
    TNI_TRY(tni_out_like(f, 0, self, 0));
    return tni_out_like(f, 1, self, TN_BOOL);
}

/* dropout and its like (self, p, train): what drops nothing gives self as it is, so that it may be any tensor in place. */
int32_t infer_dropout(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    double p = tni_arg_float(f, 1);
    if (!(p >= 0 && p <= 1))
        return tni_fail(f, TN_E_ARGUMENT, "dropout probability has to be between 0 and 1, but got %g", p);
    if (!is_inplace(f) || (p != 0 && tni_arg_bool(f, 2) && self->numel)) return TN_OK;
    return tni_out_give(f, 0, tn_retain(self));
}
