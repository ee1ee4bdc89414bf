/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: indexing by tensors and masks, along dimensions and of the flattened tensor. */
#include <stdio.h>
#include <string.h>
#include "core/shape.h"
#include "ops/composite/composite.h"
#include "ops/composite/compute_dtype.h"

/* The list {absent, ..., absent, index} that indexes dimension `dim`. */
static tn_tensors index_at(tn_tensor **list, int64_t dim, tn_tensor *index)
{
    for (int64_t d = 0; d < dim; d++) list[d] = NULL;
    list[dim] = index;
    return (tn_tensors){list, dim + 1};
}

/* ---- lists of indices ---- */

void composite_unsafe_index(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_index_tensor(s, arg_tensor(args, 0), arg_tensors(args, 1)));
}

void composite_index_put(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn__index_put_impl_(s, arg_tensor(args, 0), arg_tensors(args, 1), arg_tensor(args, 2),
                             .accumulate = arg_bool(args, 3)));
}

void composite_unsafe_index_put(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_index_put_default(s, arg_tensor(args, 0), arg_tensors(args, 1), arg_tensor(args, 2),
                              .accumulate = arg_bool(args, 3)));
}

/* Indices clamped into range; the elements that they name then are masked. */
static tn_tensors clamp_indices(tn_scope *s, const tn_tensor *self, tn_tensors list)
{
    tn_tensor **out = tni_scope_tensors(s, list.count);
    for (int64_t i = 0; out && i < list.count && i < rank_of(self); i++) {
        int64_t size = tn_tensor_size(self, i);
        if (list.data[i])
            out[i] = tn_clamp(s, list.data[i], .min = TN_SCALAR(-size), .max = TN_SCALAR(size - 1));
    }
    return (tn_tensors){out, list.count};
}

void composite_unsafe_masked_index(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *mask = arg_tensor(args, 1);
    if (tn_tensor_numel(self) == 0) return give(outs, 0, tni_full_on(s, self, 0, sizes_of(mask), args[3]));
    tn_tensor *t = tn_index_tensor(s, self, clamp_indices(s, self, arg_tensors(args, 2)));
    give(outs, 0, tn_masked_fill_scalar(s, t, tn_logical_not(s, mask), args[3]));
}

void composite_unsafe_masked_index_put_accumulate(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *mask = arg_tensor(args, 1);
    if (tn_tensor_numel(self) == 0) return give(outs, 0, tn_clone(s, self));
    tn_tensor *values = tn_masked_fill_scalar(s, arg_tensor(args, 3), tn_logical_not(s, mask), 0);
    give(
        outs, 0,
        tn_index_put_default(s, self, clamp_indices(s, self, arg_tensors(args, 2)), values, .accumulate = 1));
}

/* ---- along one dimension ---- */

/* The index along dim, expanded over the other dimensions. */
void composite_index_select(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *index = tni_reshape(s, arg_tensor(args, 2), TN_INTS(-1));
    int64_t dim = tni_dim(s, arg_int(args, 1), rank_of(self)), shape[TN_MAX_RANK];
    if (!index) return;
    if (rank_of(self) == 0) return give(outs, 0, tn_gather(s, self, 0, tni_reshape(s, index, TN_NO_INTS)));
    for (int64_t d = 0; d < rank_of(self); d++) shape[d] = d == dim ? tn_tensor_numel(index) : 1;
    tn_tensor *wide = tni_reshape(s, index, (tn_ints){shape, rank_of(self)});
    give(outs, 0,
         tn_gather(s, self, dim,
                   tn_expand(s, wide, tni_sizes_with(s, sizes_of(self), dim, tn_tensor_numel(index)))));
}

void composite_index_select_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *zeros = tni_zeros_on(s, grad, 0, arg_ints(args, 1));
    give(outs, 0, tn_index_add(s, zeros, arg_int(args, 2), arg_tensor(args, 3), grad));
}

/* As a scatter, which refuses positions below 0. */
void composite_index_copy(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *source = arg_tensor(args, 3), *index = arg_tensor(args, 2);
    int64_t dim = tni_dim(s, arg_int(args, 1), rank_of(self));
    tn_tensor *target = rank_of(self) ? self : tn_unsqueeze(s, self, 0);
    if (rank_of(source) == 0) source = tn_unsqueeze(s, source, 0);
    if (tn_scope_failed(s)) return;
    index = tni_reshape(s, index, tni_ones_but(s, rank_of(target), dim, tn_tensor_numel(index)));
    index = tn_expand_as(s, index, source);
    if (!tn_scope_failed(s)) tn_scatter_(s, target, dim, index, source);
    give(outs, 0, self);
}

static void index_fill(tn_scope *s, const tn_value *args, tn_tensor *value, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *index = arg_tensor(args, 2), *list[TN_MAX_RANK];
    int64_t dim = tni_dim(s, arg_int(args, 1), rank_of(self));
    if (dtype_of(index) != TN_INT64)
        return (void)tn_scope_fail(s, TN_E_DTYPE, "index_fill_(): Expected dtype int64 for index.");
    if (rank_of(index) > 1) return (void)tn_scope_fail(s, TN_E_SHAPE, "Index has to be a vector/scalar");
    tn_tensor *target = rank_of(self) ? self : tn_unsqueeze(s, self, 0);
    index = tni_reshape(s, index, TN_INTS(-1));
    if (value && !tn_scope_failed(s)) tn__index_put_impl_(s, target, index_at(list, dim, index), value);
    give(outs, 0, self);
}

void composite_index_fill(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    index_fill(s, args, tni_number_like(s, self, args[3]), outs);
}

void composite_index_fill_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *value = arg_tensor(args, 3);
    if (rank_of(value))
        return (void)tni_scope_failf(
            s, TN_E_SHAPE, "Only supports 0-dimension value tensor, but got tensor with %lld dimension(s).",
            (long long)rank_of(value));
    if (is_complex(dtype_of(value)) && !is_complex(dtype_of(self)))
        return (void)tn_scope_fail(
            s, TN_E_DTYPE, "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    index_fill(s, args, tn_to_device(s, value, tn_tensor_device(self), dtype_of(self)), outs);
}

void composite_gather_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *zeros = tni_zeros_on(s, grad, 0, sizes_of(arg_tensor(args, 1)));
    if (arg_bool(args, 4)) tni_scope_failf(s, TN_E_UNSUPPORTED, TNI_NO_SPARSE, "sparse_grad");
    give(outs, 0, tn_scatter_add(s, zeros, arg_int(args, 2), arg_tensor(args, 3), grad));
}

/* The sizes that both broadcast to, apart from `dim`, where each keeps its own. */
static tn_tensor *expand_but(tn_scope *s, tn_tensor *t, const tni_shape *shape, int64_t dim)
{
    return tn_expand(s, t,
                     tni_sizes_with(s, (tn_ints){shape->sizes, shape->rank}, dim, tn_tensor_size(t, dim)));
}

/* Negative indices count from the end of a dimension of `size`. */
static tn_tensor *from_the_end(tn_scope *s, tn_tensor *indices, int64_t size)
{
    return tn_where(s, tn_lt_scalar(s, indices, 0), tn_add_scalar(s, indices, size), indices);
}

void composite_take_along_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *indices = arg_tensor(args, 1);
    if (dtype_of(indices) != TN_INT64)
        return (void)tni_scope_failf(s, TN_E_DTYPE,
                                     "torch.take_along_dim(): dtype of indices should be Long but got %s",
                                     tni_dtype_error_name(dtype_of(indices)));
    if (!arg_given(args, 2)) {
        tn_tensor *row = tni_reshape(s, self, TN_INTS(-1));
        return give(outs, 0,
                    tn_gather(s, row, 0,
                              from_the_end(s, tni_reshape(s, indices, TN_INTS(-1)), tn_tensor_numel(self))));
    }
    if (rank_of(self) != rank_of(indices))
        return (void)tni_scope_failf(
            s, TN_E_SHAPE,
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            "%lld dimensions for input, and %lld dimensions for indices",
            (long long)rank_of(self), (long long)rank_of(indices));
    int64_t dim = tni_dim(s, arg_int(args, 2), rank_of(self)), a[TN_MAX_RANK], b[TN_MAX_RANK];
    if (tn_scope_failed(s)) return;
    indices = from_the_end(s, indices, rank_of(self) ? tn_tensor_size(self, dim) : 1);
    if (rank_of(self) == 0 || !indices) return give(outs, 0, tn_gather(s, self, 0, indices));
    memcpy(a, tni_sizes(self), (size_t)rank_of(self) * sizeof(int64_t));
    memcpy(b, tni_sizes(indices), (size_t)rank_of(self) * sizeof(int64_t));
    a[dim] = b[dim] = 1;
    tni_shape shape = {.rank = 0};
    int32_t status = tni_broadcast(&shape, self->desc.rank, a);
    if (!status) status = tni_broadcast(&shape, self->desc.rank, b);
    if (status) return (void)tni_scope_record(s, status);
    give(outs, 0, tn_gather(s, expand_but(s, self, &shape, dim), dim, expand_but(s, indices, &shape, dim)));
}

/* ---- masks ---- */

/* Self where the mask is false. */
static void write_masked(tn_scope *s, tn_tensor *self, tn_tensor *mask, tn_tensor *value, tn_value *outs)
{
    tn_copy_(s, self, tn_where(s, mask, value, self));
    give(outs, 0, self);
}

void composite_masked_fill(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    write_masked(s, self, arg_tensor(args, 1), tni_number_like(s, self, args[2]), outs);
}

void composite_masked_fill_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *mask = arg_tensor(args, 1), *value = arg_tensor(args, 2);
    if (rank_of(value))
        return (void)tni_scope_failf(
            s, TN_E_SHAPE,
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %lld dimension(s).",
            (long long)rank_of(value));
    if (dtype_of(mask) != TN_BOOL)
        return (void)tni_scope_failf(s, TN_E_DTYPE,
                                     "masked_fill_ only supports boolean masks, but got mask with dtype %s",
                                     tni_dtype_cpp_name(dtype_of(mask)));
    if (is_complex(dtype_of(value)) && !is_complex(dtype_of(self))) {
        if (tn_item_double(s, tn_imag(s, value)) != 0)
            return (void)tni_scope_failf(
                s, TN_E_DTYPE, TNI_OVERFLOW,
                dtype_of(self) == TN_BOOL
                    ? "bool"
                    : tni_overflowing(tn_value_complex((double[]){0, 1}), dtype_of(self)));
        value = tn_real(s, value);
        if (!value) return;
    }
    write_masked(s, self, mask, tn_to_device(s, value, tn_tensor_device(self), dtype_of(self)), outs);
}

/* The n-th true element of the mask takes the n-th element of source. */
void composite_masked_scatter(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *mask = tn_expand(s, arg_tensor(args, 1), sizes_of(self)),
              *source = arg_tensor(args, 2);
    tn_tensor *count = tn_cumsum(s, tni_reshape(s, mask, TN_INTS(-1)), 0, .dtype = TN_INT64);
    int64_t n = tn_tensor_numel(self);
    give(outs, 0, self);
    if (n == 0 || !count) return;
    if (tn_item_int(s, tn_select(s, count, 0, n - 1)) > tn_tensor_numel(source))
        return (void)tn_scope_fail(s, TN_E_SHAPE,
                                   "masked_scatter: expected self and source to have enough elements: source "
                                   "has fewer than the mask has ones");
    if (tn_tensor_numel(source) == 0) return;
    tn_tensor *place = tn_clamp(s, tn_sub_scalar(s, count, 1), .min = TN_SCALAR(0),
                                .max = TN_SCALAR(tn_tensor_numel(source) - 1));
    tn_tensor *values = tn_gather(s, tni_reshape(s, source, TN_INTS(-1)), 0, place);
    tn_copy_(s, self, tn_where(s, mask, tni_reshape(s, values, sizes_of(self)), self));
}

void composite_masked_select(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *mask = arg_tensor(args, 1);
    tn_tensors both = tn_broadcast_tensors(s, TN_TENSORS(self, mask));
    if (both.count != 2) return;
    self = tni_reshape(s, both.data[0], TN_INTS(-1));
    mask = tni_reshape(s, both.data[1], TN_INTS(-1));
    give(outs, 0, tn_index_tensor(s, self, TN_TENSORS(mask)));
}

void composite_masked_select_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *input = arg_tensor(args, 1), *mask = arg_tensor(args, 2);
    tn_tensors both = tn_broadcast_tensors(s, TN_TENSORS(input, mask));
    if (both.count != 2) return;
    give(outs, 0, tn_masked_scatter(s, tni_zeros_on(s, grad, 0, sizes_of(both.data[0])), mask, grad));
}

void composite_masked_scatter_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *taken = tn_masked_select(s, grad, arg_tensor(args, 1));
    tn_ints sizes = arg_ints(args, 2);
    int64_t whole = 0;
    int32_t status = tni_numel((uint32_t)sizes.count, sizes.data, &whole);
    if (status) tni_scope_record(s, status);
    if (!taken || status) return;
    int64_t lacking = whole - tn_tensor_numel(taken);
    if (lacking > 0) taken = tn_cat(s, TN_TENSORS(taken, tni_zeros_on(s, grad, 0, TN_INTS(lacking))));
    give(outs, 0, tni_reshape(s, taken, sizes));
}

/* ---- the flattened tensor ---- */

void composite_take(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *index = arg_tensor(args, 1);
    if (dtype_of(index) != TN_INT64)
        return (void)tni_scope_failf(s, TN_E_DTYPE, "take(): Expected a long tensor for index, but got %s",
                                     tn_dtype_name(dtype_of(index)));
    if (tn_tensor_numel(self) == 0 && tn_tensor_numel(index))
        return (void)tn_scope_fail(s, TN_E_INDEX, "take(): tried to take from an empty tensor");
    if (tn_tensor_numel(self) == 0) return give(outs, 0, tni_empty_on(s, self, 0, sizes_of(index)));
    give(outs, 0, tn_index_tensor(s, tni_reshape(s, self, TN_INTS(-1)), TN_TENSORS(index)));
}

void composite_put(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *index = arg_tensor(args, 1), *source = arg_tensor(args, 2);
    int32_t is_contiguous = tn_tensor_is_contiguous(self, TN_CONTIGUOUS_FORMAT);
    if (dtype_of(index) != TN_INT64)
        return (void)tni_scope_failf(s, TN_E_DTYPE, "put_(): Expected a long tensor for index, but got %s",
                                     tn_dtype_name(dtype_of(index)));
    if (dtype_of(self) != dtype_of(source))
        return (void)tni_scope_failf(s, TN_E_DTYPE,
                                     "put_(): self and source expected to have the same dtype, but got "
                                     "self.dtype = %s and source.dtype = %s",
                                     tn_dtype_name(dtype_of(self)), tn_dtype_name(dtype_of(source)));
    if (tn_tensor_numel(index) != tn_tensor_numel(source))
        return (void)tni_scope_failf(s, TN_E_SHAPE,
                                     "put_(): Expected source and index to have the same number of elements, "
                                     "but got source.numel() = %lld, index.numel() = %lld",
                                     (long long)tn_tensor_numel(source), (long long)tn_tensor_numel(index));
    if (tn_tensor_numel(self) == 0 && tn_tensor_numel(index))
        return (void)tn_scope_fail(s, TN_E_INDEX, "put_(): Tried to put elements into an empty tensor");
    give(outs, 0, self);
    if (tn_tensor_numel(index) == 0) return;
    tn_tensor *flat =
        is_contiguous ? tn_view(s, self, TN_INTS(-1))
                      : tni_reshape(s, tn_clone(s, self, .memory_format = TN_CONTIGUOUS_FORMAT), TN_INTS(-1));
    index = tni_reshape(s, index, TN_INTS(-1));
    tn__index_put_impl_(s, flat, TN_TENSORS(index), tni_reshape(s, source, TN_INTS(-1)),
                        .accumulate = arg_bool(args, 3));
    if (!is_contiguous) tn_copy_(s, self, tni_reshape(s, flat, sizes_of(self)));
}

/* ---- nonzero ---- */

void composite_nonzero_numpy(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (rank_of(self) == 0) self = tn_unsqueeze(s, self, 0);
    give_list(outs, 0, tn_unbind(s, tn_nonzero(s, self), .dim = 1));
}

void composite_nonzero_static(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *found = tn_nonzero(s, self);
    int64_t size = arg_int(args, 1);
    if (size < 0)
        return (void)tn_scope_fail(s, TN_E_ARGUMENT,
                                   "nonzero_static: 'size' must be an non-negative integer");
    if (!found) return;
    int64_t lacking = size - tn_tensor_size(found, 0);
    if (lacking <= 0) return give(outs, 0, tn_contiguous(s, tni_narrow(s, found, 0, 0, size)));
    tn_tensor *rest = tni_full_on(s, found, 0, TN_INTS(lacking, rank_of(self)), args[2]);
    give(outs, 0, tn_cat(s, TN_TENSORS(found, rest)));
}

void composite_argwhere(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_nonzero(s, arg_tensor(args, 0)));
}

/* ---- repetition, classes ---- */

static tn_tensor *interleave(tn_scope *s, tn_tensor *self, tn_tensor *repeats, const tn_value *args)
{
    int64_t dim = 0;
    if (arg_given(args, 2))
        dim = tni_dim(s, arg_int(args, 2), rank_of(self));
    else
        self = tni_reshape(s, self, TN_INTS(-1));
    if (!self) return NULL;
    int64_t size = rank_of(self) ? tn_tensor_size(self, dim) : 1;
    if (rank_of(self) == 0) self = tn_unsqueeze(s, self, 0);
    if (rank_of(repeats) == 0 || tn_tensor_numel(repeats) == 1)
        repeats = tn_expand(s, tni_reshape(s, repeats, TN_INTS(1)), TN_INTS(size));
    if (!repeats || !self) return NULL;
    if (rank_of(repeats) != 1)
        return tn_scope_fail(s, TN_E_SHAPE, "repeats must be 0-dim or 1-dim tensor"), NULL;
    if (tn_tensor_size(repeats, 0) != size)
        return tni_scope_failf(s, TN_E_SHAPE,
                               "repeats must have the same size as input along dim, but got repeats.size(0) "
                               "= %lld and input.size(%lld) = %lld",
                               (long long)tn_tensor_size(repeats, 0), (long long)dim, (long long)size),
               NULL;
    return tn_index_select(
        s, self, dim, tn_repeat_interleave_tensor(s, repeats, .output_size = arg_int_or(args, 3, TN_NONE)));
}

void composite_repeat_interleave(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, interleave(s, arg_tensor(args, 0), arg_tensor(args, 1), args));
}

void composite_repeat_interleave_self_int(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t times = arg_int(args, 1), dim = 0;
    if (times < 0) return (void)tn_scope_fail(s, TN_E_ARGUMENT, "Repeats must be non-negative");
    if (arg_given(args, 2))
        dim = tni_dim(s, arg_int(args, 2), rank_of(self));
    else
        self = tni_reshape(s, self, TN_INTS(-1));
    if (self && rank_of(self) == 0) self = tn_unsqueeze(s, self, 0);
    if (!self || tn_scope_failed(s)) return;
    int64_t size;
    if (__builtin_mul_overflow(tn_tensor_size(self, dim), times, &size))
        return (void)tn_scope_fail(s, TN_E_SHAPE,
                                   "repeat_interleave: the result would have too many elements");
    tn_tensor *wide =
        tn_expand(s, tn_unsqueeze(s, self, dim + 1), tni_sizes_insert(s, sizes_of(self), dim + 1, times));
    wide = tn_clone(s, wide, .memory_format = TN_CONTIGUOUS_FORMAT);
    if (arg_given(args, 3) && arg_int(args, 3) != size)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT,
                                     "repeat_interleave: Invalid output_size, expected %lld but got %lld",
                                     (long long)size, (long long)arg_int(args, 3));
    give(outs, 0, tni_reshape(s, wide, tni_sizes_with(s, sizes_of(self), dim, size)));
}

/* Index i, repeats[i] times: searched in the running sum. */
void composite_repeat_interleave_counts(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *repeats = arg_tensor(args, 0);
    int64_t n = tn_tensor_numel(repeats);
    if (rank_of(repeats) != 1)
        return (void)tn_scope_fail(s, TN_E_SHAPE, "repeat_interleave only accept 1D vector as repeat");
    if (dtype_of(repeats) != TN_INT64 && dtype_of(repeats) != TN_INT32)
        return (void)tn_scope_fail(s, TN_E_DTYPE, "repeats has to be Long or Int tensor");
    if (n == 0) return give(outs, 0, tn_empty_like(s, repeats));
    tn_tensor *least = tn_min(s, repeats), *ends = tn_cumsum(s, repeats, 0);
    if (least && tn_item_int(s, least) < 0)
        return (void)tn_scope_fail(s, TN_E_ARGUMENT, "repeats can not be negative");
    tn_tensor *last = tn_select(s, ends, 0, n - 1);
    int64_t total = last ? tn_item_int(s, last) : 0;
    if (tn_scope_failed(s)) return;
    if (arg_given(args, 1) && arg_int(args, 1) != total)
        return (void)tn_scope_fail(s, TN_E_ARGUMENT, "allocated size does not match required size");
    tn_tensor *index = tn_searchsorted(s, ends, tni_range_on(s, repeats, 0, total), .right = 1);
    give(outs, 0, tni_cast(s, index, dtype_of(repeats)));
}

void composite_one_hot(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t classes = arg_int(args, 1);
    if (dtype_of(self) != TN_INT64)
        return (void)tn_scope_fail(s, TN_E_DTYPE,
                                   "one_hot is only applicable to index tensor of type LongTensor.");
    if (tn_tensor_numel(self) == 0) {
        if (classes <= 0)
            return (void)tn_scope_fail(s, TN_E_ARGUMENT,
                                       "Can not infer total number of classes from empty tensor.");
        return give(outs, 0,
                    tni_empty_on(s, self, 0, tni_sizes_insert(s, sizes_of(self), rank_of(self), classes)));
    }
    tn_tensor *low = tn_min(s, self), *high = tn_max(s, self);
    int64_t least = low ? tn_item_int(s, low) : 0, most = high ? tn_item_int(s, high) : 0;
    if (tn_scope_failed(s)) return;
    if (least < 0) return (void)tn_scope_fail(s, TN_E_INDEX, "Class values must be non-negative.");
    if (classes == -1) classes = most + 1;
    if (classes <= 0) return (void)tn_scope_fail(s, TN_E_ARGUMENT, "num_classes should be positive");
    if (most >= classes) {
        char text[96];
        snprintf(text, sizeof text,
                 "Class values must be smaller than num_classes: got %lld, expected 0 to %lld",
                 (long long)most, (long long)classes - 1);
        return (void)tn_scope_fail(s, TN_E_INDEX, text);
    }
    tn_tensor *out = tni_zeros_on(s, self, 0, tni_sizes_insert(s, sizes_of(self), rank_of(self), classes));
    give(outs, 0, tn_scatter_value_(s, out, -1, tn_unsqueeze(s, self, -1), 1));
}

void composite_trace(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (rank_of(self) != 2)
        return (void)tni_scope_failf(s, TN_E_SHAPE, "trace: expected a matrix, but got tensor with dim %lld",
                                     (long long)rank_of(self));
    give(outs, 0, tn_sum(s, tn_diagonal(s, self)));
}

void composite_trace_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0);
    tn_ints sizes = arg_ints(args, 1);
    if (sizes.count != 2) return (void)tn_scope_fail(s, TN_E_SHAPE, "expected matrix input");
    tn_tensor *out = tni_zeros_on(s, grad, 0, sizes);
    tn_copy_(s, tn_diagonal(s, out), grad);
    give(outs, 0, out);
}
