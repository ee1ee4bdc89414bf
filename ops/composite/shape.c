/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: joining, rolling and rotating, triangles and diagonals, reorderings of whole dimensions. */
#include <string.h>
#include "core/shape.h"
#include "ops/composite/compute_dtype.h"

/* ---- joining ---- */

/*
 * cat for devices without a kernel: copies into parts of a new tensor. The shape rule has checked the
 * arguments.
 */
void composite_cat(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    const tn_tensor *first = list.data[0];
    int64_t dim, total = 0, start = 0;
    tni_promotion p = {0};
    for (int64_t i = 0; i < list.count; i++) {
        tni_promotion_add(&p, dtype_of(list.data[i]), 0, 0);
        if (rank_of(first) == 1 && tn_tensor_numel(first) == 0) first = list.data[i];
    }
    tn_dtype dtype = tni_promotion_result(&p, tni_default_dtype(s->ctx));
    if (rank_of(first) == 1 &&
        tn_tensor_numel(first) == 0) /* nothing but empty vectors, along any dimension */
        return give(outs, 0, tni_empty_on(s, first, dtype, TN_INTS(0)));
    dim = tni_dim(s, arg_int(args, 1), rank_of(first));
    for (int64_t i = 0; i < list.count; i++) {
        if (rank_of(list.data[i]) == rank_of(first)) total += tn_tensor_size(list.data[i], dim);
    }
    tn_tensor *out = tni_empty_on(s, first, dtype, tni_sizes_with(s, sizes_of(first), dim, total));
    for (int64_t i = 0; i < list.count && out; i++) {
        int64_t length = rank_of(list.data[i]) == rank_of(first) ? tn_tensor_size(list.data[i], dim) : 0;
        if (length) tn_copy_(s, tni_narrow(s, out, dim, start, length), list.data[i]);
        start += length;
    }
    give(outs, 0, out);
}

void composite_stack(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    tn_tensor **items = tni_scope_tensors(s, list.count);
    char a[256], b[256];
    if (!list.count) return (void)tn_scope_fail(s, TN_E_ARGUMENT, "stack expects a non-empty TensorList");
    int64_t dim = tni_dim(s, arg_int(args, 1), rank_of(list.data[0]) + 1);
    for (int64_t i = 0; items && i < list.count; i++) {
        tn_tensor *t = list.data[i], *first = list.data[0];
        if (!tni_same_sizes(sizes_of(t), sizes_of(first))) {
            tni_scope_failf(
                s, TN_E_SHAPE,
                "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %lld",
                tni_shape_text(first->desc.rank, first->desc.sizes, a, sizeof(a)),
                tni_shape_text(t->desc.rank, t->desc.sizes, b, sizeof(b)), (long long)i);
            return;
        }
        items[i] = tn_unsqueeze(s, t, dim);
    }
    give(outs, 0, tn_cat(s, (tn_tensors){items, list.count}, .dim = dim));
}

static tn_tensor *join_at_least(tn_scope *s, tn_tensors list, int64_t rank, int64_t dim, const char *name)
{
    if (!list.count)
        return tni_scope_failf(s, TN_E_ARGUMENT, "%s expects a non-empty TensorList", name), NULL;
    tn_tensors items = tni_at_least(s, list, rank);
    return items.data ? tn_cat(s, items, .dim = dim) : NULL;
}

void composite_hstack(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    int64_t dim = list.count && rank_of(list.data[0]) > 1;
    give(outs, 0, join_at_least(s, list, 1, dim, "hstack"));
}

void composite_vstack(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, join_at_least(s, arg_tensors(args, 0), 2, 0, "vstack"));
}

void composite_dstack(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, join_at_least(s, arg_tensors(args, 0), 3, 2, "dstack"));
}

void composite_column_stack(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    tn_tensor **items = tni_scope_tensors(s, list.count);
    if (!list.count)
        return (void)tn_scope_fail(s, TN_E_ARGUMENT, "column_stack expects a non-empty TensorList");
    for (int64_t i = 0; items && i < list.count; i++) {
        tn_tensor *t = list.data[i];
        items[i] = rank_of(t) > 1 ? t : tni_reshape(s, t, TN_INTS(tn_tensor_numel(t), 1));
    }
    give(outs, 0, tn_cat(s, (tn_tensors){items, list.count}, .dim = 1));
}

static int32_t check_chunk_cat(tn_scope *s, tn_tensors list, int64_t *dim, int64_t chunks)
{
    int32_t same_rank = 1;
    if (!list.count)
        return tn_scope_fail(s, TN_E_ARGUMENT, "_chunk_cat expects a non-empty input tensor list");
    if (chunks < 1) return tn_scope_fail(s, TN_E_ARGUMENT, "_chunk_cat expects positive num_chunks");
    for (int64_t i = 0; i < list.count; i++) {
        if (tn_tensor_numel(list.data[i]) == 0)
            return tn_scope_fail(s, TN_E_SHAPE, "_chunk_cat expects non-empty tensor");
        same_rank &= rank_of(list.data[i]) == rank_of(list.data[0]);
    }
    if (*dim < 0 && !same_rank)
        return tn_scope_fail(s, TN_E_ARGUMENT,
                             "_chunk_cat expects non-negative dim when input tensors have different ndims");
    if (*dim < 0) *dim = tni_dim(s, *dim, rank_of(list.data[0]));
    for (int64_t i = 0; i < list.count; i++) {
        if (*dim >= rank_of(list.data[i]))
            return tn_scope_fail(s, TN_E_ARGUMENT, "_chunk_cat expects dim < ndim for all input tensors");
        for (int64_t d = 0; d < *dim; d++) {
            if (tn_tensor_size(list.data[i], d) != tn_tensor_size(list.data[0], d))
                return tn_scope_fail(
                    s, TN_E_SHAPE, "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors");
        }
        if (dtype_of(list.data[i]) != dtype_of(list.data[0]))
            return tn_scope_fail(s, TN_E_DTYPE, "_chunk_cat expects all input tensors with the same dtype");
    }
    return TN_OK;
}

/* Each tensor padded to a multiple of `chunks` along dim, seen as (.., chunks, rest), joined along the rest. */
void composite_chunk_cat(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    int64_t dim = arg_int(args, 1), chunks = arg_int(args, 2), shape[TN_MAX_RANK];
    tn_tensor **items = tni_scope_tensors(s, list.count);
    if (!items || check_chunk_cat(s, list, &dim, chunks)) return;
    for (int64_t i = 0; i < list.count && !tn_scope_failed(s); i++) {
        tn_tensor *t = list.data[i];
        int64_t size = tn_tensor_size(t, dim), padded = size ? ((size - 1) / chunks + 1) * chunks : 0,
                *pad = tni_scope_ints(s, 2 * rank_of(t));
        if (!pad) return;
        memset(pad, 0, (size_t)(2 * rank_of(t)) * sizeof(int64_t));
        pad[2 * (rank_of(t) - 1 - dim) + 1] = padded - size;
        if (padded > size)
            t = tn_constant_pad_nd(s, t, (tn_ints){pad, 2 * rank_of(list.data[i])}, .value = TN_SCALAR(0));
        if (!t) return;
        memcpy(shape, tni_sizes(t), (size_t)dim * sizeof(int64_t));
        shape[dim] = chunks;
        shape[dim + 1] = -1;
        items[i] = tni_reshape(s, t, (tn_ints){shape, dim + 2});
    }
    give(outs, 0, tn_cat(s, (tn_tensors){items, list.count}, .dim = dim + 1));
}

/* ---- rolling and rotating ---- */

void composite_flip(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *t = self;
    tn_ints dims = arg_ints(args, 1);
    for (int64_t i = 0; i < dims.count && t && rank_of(self); i++) {
        int64_t dim = tni_dim(s, dims.data[i], rank_of(self)), size = tn_tensor_size(self, dim);
        tn_tensor *order = tni_empty_on(s, self, TN_INT64, TN_INTS(size));
        t = order ? tn_index_select(s, t, dim, tn_prim_iota(s, order, size - 1, -1)) : NULL;
    }
    give(outs, 0, t == self ? tn_clone(s, self) : t);
}

void composite_fliplr(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (rank_of(self) < 2) return (void)tn_scope_fail(s, TN_E_SHAPE, "Input must be >= 2-d.");
    give(outs, 0, tn_flip(s, self, TN_INTS(1)));
}

void composite_flipud(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (rank_of(self) < 1) return (void)tn_scope_fail(s, TN_E_SHAPE, "Input must be >= 1-d.");
    give(outs, 0, tn_flip(s, self, TN_INTS(0)));
}

static tn_tensor *roll_one(tn_scope *s, tn_tensor *t, int64_t shift, int64_t dim)
{
    if (!t || tn_tensor_numel(t) == 0) return t;
    dim = tni_dim(s, dim, rank_of(t));
    int64_t size = tn_tensor_size(t, dim), start = size ? (size - shift % size) % size : 0;
    if (start == 0) return t;
    tn_tensor *head = tni_narrow(s, t, dim, start, size - start), *tail = tni_narrow(s, t, dim, 0, start);
    return tn_cat(s, TN_TENSORS(head, tail), .dim = dim);
}

/* Without dims the flattened tensor is rolled. */
void composite_roll(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *t = self;
    tn_ints shifts = arg_ints(args, 1), dims = arg_ints(args, 2);
    if (!dims.count) {
        t = roll_one(s, tni_reshape(s, self, TN_INTS(-1)), shifts.data[0], 0);
        give(outs, 0, tn_clone(s, tni_reshape(s, t, sizes_of(self)), .memory_format = TN_CONTIGUOUS_FORMAT));
        return;
    }
    for (int64_t i = 0; i < dims.count; i++) t = roll_one(s, t, shifts.data[i], dims.data[i]);
    give(outs, 0, t == self ? tn_clone(s, self, .memory_format = TN_CONTIGUOUS_FORMAT) : t);
}

void composite_rot90(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints dims = arg_ints(args, 2);
    int64_t rank = rank_of(self), k = arg_int(args, 1) % 4, a, b;
    if (dims.count != 2) {
        tni_scope_failf(s, TN_E_ARGUMENT, "expected total rotation dims == 2, but got dims = %lld",
                        (long long)dims.count);
        return;
    }
    if (rank < 2)
        return (void)tni_scope_failf(s, TN_E_SHAPE, "expected total dims >= 2, but got total dims = %lld",
                                     (long long)rank);
    a = tni_dim(s, dims.data[0], rank);
    b = tni_dim(s, dims.data[1], rank);
    if (tn_scope_failed(s)) return;
    if (a == b) {
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "expected rotation dims to be different, but got dim0 = %lld and dim1 = %lld",
                        (long long)dims.data[0], (long long)dims.data[1]);
        return;
    }
    if (k < 0) k += 4;
    if (k == 1)
        give(outs, 0, tn_transpose_(s, tn_flip(s, self, TN_INTS(b)), a, b));
    else if (k == 2)
        give(outs, 0, tn_flip(s, self, TN_INTS(a, b)));
    else if (k == 3)
        give(outs, 0, tn_transpose_(s, tn_flip(s, self, TN_INTS(a)), a, b));
    else
        give(outs, 0, tn_clone(s, self, .memory_format = TN_CONTIGUOUS_FORMAT));
}

/* ---- triangles and diagonals ---- */

/* True where column - row <= diagonal: the lower triangle. */
tn_tensor *tni_lower_mask(tn_scope *s, const tn_tensor *like, int64_t rows, int64_t columns, int64_t diagonal)
{
    tn_tensor *row = tn_unsqueeze(s, tni_range_on(s, like, diagonal, rows), 1),
              *column = tni_range_on(s, like, 0, columns);
    return tn_le(s, column, row);
}

static tn_tensor *triangle(tn_scope *s, tn_tensor *self, int64_t diagonal, int32_t lower)
{
    tn_tensor *mask = tni_lower_mask(s, self, tn_tensor_size(self, -2), tn_tensor_size(self, -1),
                                     lower ? diagonal : diagonal - 1);
    tn_tensor *zero = tni_number_like(s, self, tn_value_int(0)), *kept = lower ? self : zero,
              *other = lower ? zero : self;
    return tn_where(s, mask, kept, other);
}

void composite_tril(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, triangle(s, arg_tensor(args, 0), arg_int(args, 1), 1));
}

void composite_triu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, triangle(s, arg_tensor(args, 0), arg_int(args, 1), 0));
}

/* Zeros with self as the diagonal of two new dimensions. */
static tn_tensor *embed_diagonal(tn_scope *s, tn_tensor *self, int64_t offset, int64_t dim1, int64_t dim2)
{
    int64_t rank = rank_of(self) + 1, sizes[TN_MAX_RANK + 1], n = 0;
    int64_t a = tni_dim(s, dim1, rank), b = tni_dim(s, dim2, rank);
    if (tn_scope_failed(s)) return NULL;
    if (rank_of(self) == 0 || rank > TN_MAX_RANK)
        return tn_scope_fail(s, TN_E_SHAPE, "diag_embed: the input must have at least 1 dimension"), NULL;
    if (a == b)
        return tni_scope_failf(s, TN_E_ARGUMENT, "diagonal dimensions cannot be identical %lld, %lld",
                               (long long)dim1, (long long)dim2),
               NULL;
    int64_t length = tn_tensor_size(self, -1);
    if (offset < -INT64_MAX || __builtin_add_overflow(length, offset < 0 ? -offset : offset, &length))
        return tni_scope_failf(s, TN_E_ARGUMENT, "diag_embed: the offset %lld is too large",
                               (long long)offset),
               NULL;
    for (int64_t d = 0; d < rank; d++) sizes[d] = d == a || d == b ? length : tn_tensor_size(self, n++);
    tn_tensor *out = tni_zeros_on(s, self, 0, (tn_ints){sizes, rank});
    tn_copy_(s, tn_diagonal(s, out, .offset = offset, .dim1 = a, .dim2 = b), self);
    return out;
}

void composite_diag_embed(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         embed_diagonal(s, arg_tensor(args, 0), arg_int(args, 1), arg_int(args, 2), arg_int(args, 3)));
}

void composite_diag(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (rank_of(self) == 1)
        give(outs, 0, tn_diag_embed(s, self, .offset = arg_int(args, 1)));
    else if (rank_of(self) == 2)
        give(outs, 0, tn_diagonal_copy(s, self, .offset = arg_int(args, 1)));
    else
        tni_scope_failf(s, TN_E_SHAPE, "diag(): Supports 1D or 2D tensors. Got %lldD",
                        (long long)rank_of(self));
}

void composite_diagflat(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_diag(s, tni_reshape(s, arg_tensor(args, 0), TN_INTS(-1)), .diagonal = arg_int(args, 1)));
}

/* ---- Cartesian products and combinations ---- */

void composite_cartesian_prod(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    if (!list.count)
        return (void)tn_scope_fail(s, TN_E_ARGUMENT, "cartesian_prod expects a non-empty TensorList");
    for (int64_t i = 0; i < list.count; i++) {
        if (rank_of(list.data[i]) != 1)
            return (void)tni_scope_failf(s, TN_E_SHAPE, "Expect a 1D vector, but got shape %s",
                                         tni_ints_text(s, sizes_of(list.data[i])));
    }
    if (list.count == 1) return give(outs, 0, list.data[0]);
    tn_tensors grids = tn_meshgrid_indexing(s, list, "ij");
    tn_tensor **items = tni_scope_tensors(s, grids.count);
    for (int64_t i = 0; items && i < grids.count; i++) items[i] = tn_flatten(s, grids.data[i]);
    if (items) give(outs, 0, tn_stack(s, (tn_tensors){items, grids.count}, .dim = 1));
}

void composite_combinations(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *items[TN_MAX_RANK], *mask;
    int64_t r = arg_int(args, 1), n = tn_tensor_numel(self);
    int32_t again = arg_bool(args, 2);
    if (rank_of(self) != 1)
        return (void)tni_scope_failf(s, TN_E_SHAPE, "Expect a 1D vector, but got shape %s",
                                     tni_ints_text(s, sizes_of(self)));
    if (r < 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "Expect a non-negative number, but got %lld",
                                     (long long)r);
    if (r == 0) return give(outs, 0, tni_empty_on(s, self, 0, TN_INTS(0)));
    if (n == 0 || (r > n && !again)) return give(outs, 0, tni_empty_on(s, self, 0, TN_INTS(0, r)));
    if (r > TN_MAX_RANK)
        return (void)tni_scope_failf(s, TN_E_UNSUPPORTED,
                                     "combinations of more than %d elements are not supported, got %lld",
                                     TN_MAX_RANK, (long long)r);
    for (int64_t i = 0; i < r; i++) items[i] = tni_range_on(s, self, 0, n);
    tn_tensors grids = tn_meshgrid_indexing(s, (tn_tensors){items, r}, "ij");
    mask = tni_full_on(s, self, TN_BOOL, sizes_of(grids.count ? grids.data[0] : self), tn_value_bool(1));
    for (int64_t i = 0; i + 1 < r && grids.count; i++) {
        tn_tensor *order =
            again ? tn_le(s, grids.data[i], grids.data[i + 1]) : tn_lt(s, grids.data[i], grids.data[i + 1]);
        mask = tn_logical_and(s, mask, order);
    }
    for (int64_t i = 0; i < r && grids.count; i++)
        items[i] = tn_index_select(s, self, 0, tn_masked_select(s, grids.data[i], mask));
    give(outs, 0, tn_stack(s, (tn_tensors){items, r}, .dim = 1));
}

/* ---- channels and space ---- */

/* t with channels last if the strides of self speak for that. */
static tn_tensor *in_format_of(tn_scope *s, const tn_tensor *self, tn_tensor *t)
{
    int32_t format = tni_stride_format(self->desc.rank, self->desc.sizes, self->desc.strides);
    return t && format != TN_CONTIGUOUS_FORMAT ? tn_contiguous(s, t, .memory_format = format) : t;
}

void composite_pixel_shuffle(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t f = arg_int(args, 1), rank = rank_of(self), shape[TN_MAX_RANK + 2], order[TN_MAX_RANK + 2],
            batch = rank - 3;
    if (rank < 3)
        return (void)tni_scope_failf(
            s, TN_E_SHAPE,
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with %lld dimension(s)",
            (long long)rank);
    if (f <= 0)
        return (void)tni_scope_failf(
            s, TN_E_ARGUMENT, "pixel_shuffle expects a positive upscale_factor, but got %lld", (long long)f);
    int64_t c = tn_tensor_size(self, -3), h = tn_tensor_size(self, -2), w = tn_tensor_size(self, -1);
    if (f > INT32_MAX || c % (f * f) || rank + 2 > TN_MAX_RANK)
        return (void)tni_scope_failf(
            s, TN_E_SHAPE,
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            "upscale_factor, but input.size(-3)=%lld is not divisible by %lld",
            (long long)c, (long long)(f > INT32_MAX ? f : f * f));
    for (int64_t d = 0; d < batch; d++) {
        shape[d] = tn_tensor_size(self, d);
        order[d] = d;
    }
    memcpy(shape + batch, (int64_t[]){c / (f * f), f, f, h, w}, 5 * sizeof(int64_t));
    memcpy(order + batch, (int64_t[]){batch, batch + 3, batch + 1, batch + 4, batch + 2},
           5 * sizeof(int64_t));
    tn_tensor *t =
        tn_permute(s, tni_reshape(s, self, (tn_ints){shape, rank + 2}), (tn_ints){order, rank + 2});
    memcpy(shape + batch, (int64_t[]){c / (f * f), h * f, w * f}, 3 * sizeof(int64_t));
    t = tn_clone(s, t, .memory_format = TN_CONTIGUOUS_FORMAT);
    give(outs, 0, in_format_of(s, self, tni_reshape(s, t, (tn_ints){shape, rank})));
}

void composite_pixel_unshuffle(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t f = arg_int(args, 1), rank = rank_of(self), shape[TN_MAX_RANK + 2], order[TN_MAX_RANK + 2],
            batch = rank - 3;
    if (rank < 3)
        return (void)tni_scope_failf(s, TN_E_SHAPE,
                                     "pixel_unshuffle expects input to have at least 3 dimensions, but got "
                                     "input with %lld dimension(s)",
                                     (long long)rank);
    if (f <= 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT,
                                     "pixel_unshuffle expects a positive downscale_factor, but got %lld",
                                     (long long)f);
    int64_t c = tn_tensor_size(self, -3), h = tn_tensor_size(self, -2), w = tn_tensor_size(self, -1);
    if (h % f || w % f || rank + 2 > TN_MAX_RANK)
        return (void)tni_scope_failf(
            s, TN_E_SHAPE,
            "pixel_unshuffle expects height and width to be divisible by downscale_factor, but "
            "input.size(-2)=%lld, input.size(-1)=%lld and the factor is %lld",
            (long long)h, (long long)w, (long long)f);
    for (int64_t d = 0; d < batch; d++) {
        shape[d] = tn_tensor_size(self, d);
        order[d] = d;
    }
    memcpy(shape + batch, (int64_t[]){c, h / f, f, w / f, f}, 5 * sizeof(int64_t));
    memcpy(order + batch, (int64_t[]){batch, batch + 2, batch + 4, batch + 1, batch + 3},
           5 * sizeof(int64_t));
    tn_tensor *t =
        tn_permute(s, tni_reshape(s, self, (tn_ints){shape, rank + 2}), (tn_ints){order, rank + 2});
    memcpy(shape + batch, (int64_t[]){c * f * f, h / f, w / f}, 3 * sizeof(int64_t));
    t = tn_clone(s, t, .memory_format = TN_CONTIGUOUS_FORMAT);
    give(outs, 0, in_format_of(s, self, tni_reshape(s, t, (tn_ints){shape, rank})));
}

void composite_channel_shuffle(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t groups = arg_int(args, 1), rank = rank_of(self), c = tn_tensor_size(self, 1);
    if (rank < 3)
        return (void)tni_scope_failf(
            s, TN_E_SHAPE,
            "channel_shuffle expects input with > 2 dims, but got input with sizes of %lld dims",
            (long long)rank);
    if (groups <= 0)
        return (void)tni_scope_failf(
            s, TN_E_ARGUMENT, "Number of groups to divide channels in must be positive. Value of groups:%lld",
            (long long)groups);
    if (c % groups)
        return (void)tn_scope_fail(s, TN_E_SHAPE, "Number of channels must be divisible by groups.");
    tn_tensor *t = tni_reshape(
        s, self,
        TN_INTS(tn_tensor_size(self, 0), groups, c / groups,
                c ? self->numel / (tn_tensor_size(self, 0) ? tn_tensor_size(self, 0) : 1) / c : 0));
    t = tn_clone(s, tn_transpose(s, t, 1, 2), .memory_format = TN_CONTIGUOUS_FORMAT);
    give(outs, 0, in_format_of(s, self, tni_reshape(s, t, sizes_of(self))));
}

/* pad_sequence (sequences, batch_first, padding_value, padding_side). */
void composite_pad_sequence(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    int32_t batch_first = arg_bool(args, 1), left;
    const char *side = arg_string(args, 3);
    int64_t longest = 0, sizes[TN_MAX_RANK];
    if (!list.count) return (void)tn_scope_fail(s, TN_E_ARGUMENT, "received an empty list of sequences");
    if (!side || (strcmp(side, "left") && strcmp(side, "right")))
        return (void)tni_scope_failf(s, TN_E_ARGUMENT,
                                     "Expected padding_side to be one of left or right, but got %s.",
                                     side ? side : "None");
    left = !strcmp(side, "left");
    tn_tensor *first = list.data[0];
    if (rank_of(first) == 0 || rank_of(first) + 1 > TN_MAX_RANK)
        return (void)tn_scope_fail(s, TN_E_SHAPE, "pad_sequence: sequences must have at least 1 dimension");
    for (int64_t i = 0; i < list.count; i++)
        longest = tn_tensor_size(list.data[i], 0) > longest ? tn_tensor_size(list.data[i], 0) : longest;
    sizes[!batch_first] = list.count;
    sizes[batch_first] = longest;
    memcpy(sizes + 2, tni_sizes(first) + 1, (size_t)(rank_of(first) - 1) * sizeof(int64_t));
    tn_tensor *out = tni_full_on(s, first, 0, (tn_ints){sizes, rank_of(first) + 1}, args[2]);
    for (int64_t i = 0; i < list.count && out; i++) {
        int64_t length = tn_tensor_size(list.data[i], 0);
        tn_tensor *row = tn_select(s, out, batch_first ? 0 : 1, i);
        if (!row) return;
        tn_copy_(s, tni_narrow(s, row, 0, left ? longest - length : 0, length), list.data[i]);
    }
    give(outs, 0, out);
}
