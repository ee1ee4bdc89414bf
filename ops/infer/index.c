/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indexing: by lists of tensors, along one dimension, by masks. In-place operators have no outputs to infer;
 * their rules check arguments only.
 */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

/* ---- index.Tensor and _index_put_impl_ ---- */

static int32_t is_mask(const tn_tensor *t)
{
    return t && (dtype_of(t) == TN_BOOL || dtype_of(t) == TN_UINT8);
}

/*
 * The indices with masks replaced by int64 indices, so that kernels see int64 or int32 only. `list` owns the
 * array.
 */
typedef struct index_list {
    tn_tensor *items[TN_MAX_RANK];
    int64_t count;
    int64_t owned; /* bits of the items that were made here */
} index_list;

static void index_list_finish(index_list *l)
{
    for (int64_t i = 0; i < l->count; i++) {
        if (l->owned >> i & 1) tn_release(l->items[i]);
    }
}

static int32_t push(tni_frame *f, index_list *l, tn_tensor *t, int32_t owned)
{
    if (l->count == TN_MAX_RANK) return tni_fail(f, TN_E_INDEX, "too many indices");
    if (owned) l->owned |= INT64_C(1) << l->count;
    l->items[l->count++] = t;
    return TN_OK;
}

static int32_t check_mask_sizes(tni_frame *f, const tn_tensor *mask, int64_t at)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    tni_text a, b;
    for (int64_t d = 0; d < rank_of(mask); d++) {
        if (at + d >= rank_of(self) || sizes_of(mask)[d] != sizes_of(self)[at + d])
            return tni_fail(f, TN_E_INDEX,
                            "The shape of the mask %s at index %lld does not match the shape of the indexed "
                            "tensor %s at index %lld",
                            tni_sizes_text(mask, &a), (long long)d, tni_sizes_text(self, &b),
                            (long long)(at + d));
    }
    return TN_OK;
}

/* The columns of the mask's nonzero indices. */
static int32_t push_mask(tni_frame *f, index_list *l, tn_tensor *mask)
{
    tn_value arg = tn_value_tensor(mask), indices, column;
    const tni_op *nonzero = tni_op_get(f->registry, TN_OP_NONZERO),
                 *select = tni_op_get(f->registry, TN_OP_SELECT);
    TNI_TRY(check_mask_sizes(f, mask, l->count));
    TNI_TRY(tni_call(f->ctx, nonzero, &arg, 1, &indices, 1));
    int32_t status = TN_OK;
    for (int64_t d = 0; d < rank_of(mask) && !status; d++) {
        const tn_value args[] = {indices, tn_value_int(1), tn_value_int(d)};
        status = tni_call(f->ctx, select, args, 3, &column, 1);
        if (!status && (status = push(f, l, column.as.tensor, 1)) != TN_OK) tn_release(column.as.tensor);
    }
    tn_release(indices.as.tensor);
    return status;
}

/* Calls the operator again with other arguments, and returns its results. */
static int32_t call_again(tni_frame *f, const tn_value *args)
{
    tn_value out;
    TNI_TRY(tni_call(f->ctx, f->op->base, args, f->n_args, &out, 1));
    if (f->given[0] && f->given[0] != out.as.tensor) {
        f->done = 1;
        return tni_give_results(f, &out, 1);
    }
    return tni_out_give(f, 0, out.as.tensor);
}

/* The same with indices in place of masks. */
static int32_t call_with_indices(tni_frame *f, const index_list *l)
{
    tn_value args[TNI_MAX_ARGS];
    memcpy(args, f->args, f->n_args * sizeof(*args));
    args[1] = tn_value_tensors(l->items, l->count);
    return call_again(f, args);
}

/* Handles masks; `handled`: the call is done. */
static int32_t expand_masks(tni_frame *f, int32_t *handled)
{
    tn_tensors list = tn_value_as_tensors(f->args[1]);
    index_list l = {.count = 0};
    int32_t masks = 0, status = TN_OK;
    *handled = 0;
    for (int64_t i = 0; i < list.count; i++) masks |= is_mask(list.data[i]);
    if (!masks) return TN_OK;
    for (int64_t i = 0; i < list.count && !status; i++)
        status = is_mask(list.data[i]) ? push_mask(f, &l, list.data[i]) : push(f, &l, list.data[i], 0);
    if (!status) status = call_with_indices(f, &l);
    index_list_finish(&l);
    *handled = 1;
    return status;
}

/* The common shape of the indices, and whether they are adjacent. */
typedef struct index_shape {
    tni_shape shape;
    int64_t first; /* position of the first index */
    int32_t adjacent;
} index_shape;

static int32_t read_indices(tni_frame *f, const tn_tensor *self, index_shape *out)
{
    tn_tensors list = tn_value_as_tensors(f->args[1]);
    int64_t last = -1;
    out->shape.rank = 0;
    out->first = -1;
    out->adjacent = 1;
    if (list.count > rank_of(self))
        return tni_fail(f, TN_E_INDEX, "too many indices for tensor of dimension %u (got %lld)",
                        self->desc.rank, (long long)list.count);
    for (int64_t i = 0; i < list.count; i++) {
        const tn_tensor *t = list.data[i];
        if (!t) continue;
        if (dtype_of(t) != TN_INT64 && dtype_of(t) != TN_INT32)
            return tni_fail(f, TN_E_DTYPE, "tensors used as indices must be long, int, byte or bool tensors");
        if (out->first < 0) out->first = i;
        if (last >= 0 && last != i - 1) out->adjacent = 0;
        last = i;
        if (tni_broadcast(&out->shape, t->desc.rank, sizes_of(t)))
            return tni_fail(f, TN_E_INDEX,
                            "shape mismatch: indexing tensors could not be broadcast together");
    }
    return TN_OK;
}

/* Sizes of x[indices]: adjacent indices put their shape in their place, others in front. */
static int32_t indexed_sizes(tni_frame *f, const tn_tensor *self, tni_shape *out)
{
    tn_tensors list = tn_value_as_tensors(f->args[1]);
    index_shape x;
    int32_t empty_indexed = 0;
    TNI_TRY(read_indices(f, self, &x));
    int64_t place = x.adjacent && x.first >= 0 ? x.first : 0, indices = 1;
    out->rank = 0;
    for (int64_t d = 0; d < rank_of(self); d++) {
        int32_t indexed = d < list.count && list.data[d];
        if (out->rank + (uint32_t)(indexed ? 0 : 1) > TN_MAX_RANK)
            return tni_fail(f, TN_E_SHAPE, "the result would have too many dimensions");
        if (indexed)
            empty_indexed |= sizes_of(self)[d] == 0;
        else
            out->sizes[out->rank++] = sizes_of(self)[d];
    }
    if (x.first < 0) return TN_OK;
    if (out->rank + x.shape.rank > TN_MAX_RANK)
        return tni_fail(f, TN_E_SHAPE, "the result would have too many dimensions");
    memmove(out->sizes + place + x.shape.rank, out->sizes + place,
            (out->rank - (uint64_t)place) * sizeof(int64_t));
    memcpy(out->sizes + place, x.shape.sizes, x.shape.rank * sizeof(int64_t));
    out->rank += x.shape.rank;
    for (uint32_t d = 0; d < x.shape.rank; d++) indices *= x.shape.sizes[d];
    if (empty_indexed && indices)
        return tni_fail(f, TN_E_INDEX, "index is out of bounds for dimension with size 0");
    return TN_OK;
}

int32_t infer_index(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    tni_shape shape;
    int32_t handled;
    TNI_TRY(expand_masks(f, &handled));
    if (handled) return TN_OK;
    TNI_TRY(indexed_sizes(f, self, &shape));
    f->keep_dtype = UINT32_MAX;
    return tni_out(f, 0, dtype_of(self), shape.rank, shape.sizes);
}

/* A value of one element that fills where a bool mask is true: it may have another dtype, as in masked_fill. */
static int32_t is_masked_fill(const tni_frame *f, const tn_tensor *self, const tn_tensor *values)
{
    tn_tensors list = tn_value_as_tensors(f->args[1]);
    int32_t masks = 0, others = 0;
    for (int64_t i = 0; i < list.count; i++) {
        int32_t mask = list.data[i] && dtype_of(list.data[i]) == TN_BOOL;
        masks += mask;
        others += list.data[i] && !mask;
    }
    return masks == 1 && !others && values->numel == 1 && !tni_arg_bool(f, 3) &&
           (is_complex(dtype_of(self)) || !is_complex(dtype_of(values)));
}

static int32_t call_with_cast_values(tni_frame *f, const tn_tensor *self)
{
    const tn_value cast[] = {f->args[2],      tn_value_dtype(dtype_of(self)),
                             tn_value_none(), tn_value_none(),
                             tn_value_none(), tn_value_bool(0),
                             tn_value_none()};
    tn_value args[TNI_MAX_ARGS], values;
    TNI_TRY(tni_call(f->ctx, tni_op_get(f->registry, TN_OP__TO_COPY), cast, 7, &values, 1));
    memcpy(args, f->args, f->n_args * sizeof *args);
    args[2] = values;
    int32_t status = call_again(f, args);
    tn_release(values.as.tensor);
    return status;
}

int32_t infer_index_put(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *values = tni_arg_tensor(f, 2);
    tn_tensors list = tn_value_as_tensors(f->args[1]);
    tni_shape shape, joint;
    tni_text a, b;
    int32_t handled;
    if (dtype_of(self) != dtype_of(values) && is_masked_fill(f, self, values))
        return call_with_cast_values(f, self);
    if (dtype_of(self) != dtype_of(values))
        return tni_fail(f, TN_E_DTYPE,
                        "Index put requires the source and destination dtypes match, got %s for the "
                        "destination and %s for the source.",
                        tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(values)));
    TNI_TRY(expand_masks(f, &handled));
    if (handled) return TN_OK;
    TNI_TRY(indexed_sizes(f, self, &shape));
    TNI_TRY(tni_check_apart(f, self, values, 0));
    for (int64_t i = 0; i < list.count; i++) TNI_TRY(tni_check_apart(f, self, list.data[i], 0));
    joint = shape;
    if (tni_broadcast(&joint, values->desc.rank, sizes_of(values)) || joint.rank != shape.rank ||
        memcmp(joint.sizes, shape.sizes, shape.rank * sizeof(int64_t)))
        return tni_fail(
            f, TN_E_SHAPE,
            "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
            tni_sizes_text(values, &a), tni_list_text((tn_ints){shape.sizes, shape.rank}, &b));
    f->keep_dtype = UINT32_MAX;
    return tni_out_like(f, 0, self, 0);
}

/* ---- along one dimension ---- */

int32_t infer_index_select(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *index = tni_arg_tensor(f, 2);
    int64_t dim, sizes[TN_MAX_RANK];
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    if (rank_of(index) > 1)
        return tni_fail(f, TN_E_INDEX,
                        "Index is supposed to be a vector, but got dim: %u with type: %s and size: %lld",
                        index->desc.rank, tni_dtype_error_name(dtype_of(index)), (long long)index->numel);
    TNI_TRY(tni_check_index(f, index, 1));
    f->keep_dtype = TNI_KEEP(2);
    if (rank_of(self) == 0) {
        if (index->numel != 1)
            return tni_fail(f, TN_E_INDEX, "Index to scalar can have only 1 value, got %lld value(s)",
                            (long long)index->numel);
        return tni_out(f, 0, dtype_of(self), 0, sizes);
    }
    memcpy(sizes, sizes_of(self), self->desc.rank * sizeof(int64_t));
    sizes[dim] = index->numel;
    return tni_out(f, 0, dtype_of(self), self->desc.rank, sizes);
}

/* No kernel checks the indices of an empty tensor: no index is valid there. */
static int32_t check_has_place(tni_frame *f, const tn_tensor *self, int64_t dim)
{
    if (rank_of(self) == 0 || sizes_of(self)[dim]) return TN_OK;
    return tni_fail(f, TN_E_INDEX, "index is out of bounds for dimension %lld with size 0", (long long)dim);
}

/* index_fill_ (self, dim, index, value). */
int32_t infer_index_fill(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    if (f->args[3].tag == TN_TAG_COMPLEX && !is_complex(dtype_of(self)))
        return tni_fail(f, TN_E_DTYPE,
                        "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    return tni_check_fits(f, f->args[3], dtype_of(self));
}

/*
 * Whether self and source have the same sizes apart from dim. Tensors of several dimensions have the same rank, or
 * the caller refuses them. index_copy_ alone takes a 0-dim tensor beside one of one dimension.
 */
static int32_t same_slices(const tni_frame *f, const tn_tensor *self, const tn_tensor *source, int64_t dim)
{
    if (!rank_of(self) || !rank_of(source))
        return rank_of(self) + rank_of(source) <= (f->op->base->number == TN_OP_INDEX_COPY_);
    for (int64_t d = 0; d < rank_of(self) && rank_of(source) == rank_of(self); d++) {
        if (d != dim && sizes_of(self)[d] != sizes_of(source)[d]) return 0;
    }
    return 1;
}

static int32_t check_reduce(const tni_frame *f, const char *name)
{
    static const char *const names[] = {"prod", "mean", "amax", "amin"};
    for (uint32_t i = 0; name && i < 4; i++)
        if (!strcmp(name, names[i])) return TN_OK;
    return tni_fail(f, TN_E_ARGUMENT, "Expected reduce to be one of prod, mean, amax or amin but got %s.",
                    name ? name : "None");
}

/* index_add_, index_copy_, index_reduce_ (self, dim, index, source, ...). */
int32_t infer_index_write(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *index = tni_arg_tensor(f, 2),
                    *source = tni_arg_tensor(f, 3);
    int64_t dim, count;
    tni_text a, b;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    if (rank_of(index) > 1)
        return tni_fail(f, TN_E_INDEX, "Index should have dimension 1 or 0 (got %u)", index->desc.rank);
    TNI_TRY(tni_check_index(f, index, f->op->base->number != TN_OP_INDEX_COPY_));
    if (dtype_of(self) != dtype_of(source))
        return tni_fail(f, TN_E_DTYPE,
                        "self and source expected to have the same dtype, but got (self) %s and (source) %s",
                        tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(source)));
    if (f->op->base->number == TN_OP_INDEX_REDUCE_ && dtype_of(self) == TN_BOOL)
        return tni_fail(f, TN_E_UNSUPPORTED, "\"index_reduce\" not implemented for 'Bool'");
    if (f->op->base->number == TN_OP_INDEX_REDUCE_) TNI_TRY(check_reduce(f, tni_arg_string(f, 4)));
    count = rank_of(source) ? (dim < rank_of(source) ? sizes_of(source)[dim] : -1) : 1;
    if (f->op->base->number == TN_OP_INDEX_ADD_) TNI_TRY(tni_check_scalars(f, dtype_of(self)));
    if (count != index->numel)
        return tni_fail(f, TN_E_INDEX,
                        "Number of indices (%lld) should be equal to source.size(dim): (%lld), for dim: %lld",
                        (long long)index->numel, (long long)count, (long long)dim);
    if (!same_slices(f, self, source, dim))
        return tni_fail(f, TN_E_SHAPE,
                        "source tensor shape must match self tensor shape, excluding the specified "
                        "dimension. Got self.shape = %s source.shape = %s",
                        tni_sizes_text(self, &a), tni_sizes_text(source, &b));
    if (rank_of(source) && rank_of(self) && rank_of(source) != rank_of(self))
        return tni_fail(f, TN_E_SHAPE,
                        "When source and destination are not scalars, their dimensionality must match. "
                        "Source dimensionality (%u), destination dimensionality (%u)",
                        source->desc.rank, self->desc.rank);
    if (index->numel) TNI_TRY(check_has_place(f, self, dim));
    TNI_TRY(tni_check_apart(f, self, index, 0));
    TNI_TRY(tni_check_apart(f, self, source, 0));
    f->keep_dtype = UINT32_MAX;
    return tni_out_like(f, 0, self, 0);
}

/* A 0-dim tensor counts as one of size 1. */
static int64_t size_at(const tn_tensor *t, int64_t d)
{
    return rank_of(t) ? sizes_of(t)[d] : 1;
}

/* Index and self have the same rank; the index is no larger apart from dim. */
static int32_t check_gather_shape(tni_frame *f, const tn_tensor *self, const tn_tensor *index, int64_t dim,
                                  const char *what)
{
    int64_t rank = rank_of(self) ? rank_of(self) : 1, index_rank = rank_of(index) ? rank_of(index) : 1;
    tni_text a, b;
    if (index->numel == 0) return TN_OK;
    if (rank != index_rank)
        return tni_fail(f, TN_E_SHAPE, "Index tensor must have the same number of dimensions as %s tensor",
                        what);
    TNI_TRY(check_has_place(f, self, dim));
    for (int64_t d = 0; d < rank; d++) {
        if (d != dim && size_at(index, d) > size_at(self, d))
            return tni_fail(f, TN_E_SHAPE,
                            "Size does not match at dimension %lld expected index %s to be no larger than "
                            "self %s apart from dimension %lld",
                            (long long)d, tni_sizes_text(index, &a), tni_sizes_text(self, &b),
                            (long long)dim);
    }
    return TN_OK;
}

int32_t infer_gather(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *index = tni_arg_tensor(f, 2);
    int64_t dim;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    if (dtype_of(index) != TN_INT64 && dtype_of(index) != TN_INT32 && index->numel)
        return tni_fail(f, TN_E_DTYPE, "gather(): Expected dtype int32/int64 for index");
    TNI_TRY(check_gather_shape(f, self, index, dim, "input"));
    TNI_TRY(tni_check_sparse(f, 3));
    f->keep_dtype = TNI_KEEP(2);
    return tni_out(f, 0, dtype_of(self), index->desc.rank, sizes_of(index));
}

static int32_t check_scatter_source(tni_frame *f, const tn_tensor *self, const tn_tensor *index,
                                    const tn_tensor *src, int64_t dim)
{
    int64_t rank = rank_of(src) ? rank_of(src) : 1, index_rank = rank_of(index) ? rank_of(index) : 1;
    tni_text a, b, c;
    if (dtype_of(self) != dtype_of(src))
        return tni_fail(f, TN_E_DTYPE, "scatter(): Expected self.dtype to be equal to src.dtype");
    if (index->numel == 0) return TN_OK;
    if (rank != index_rank)
        return tni_fail(f, TN_E_SHAPE, "Index tensor must have the same number of dimensions as src tensor");
    for (int64_t d = 0; d < rank; d++) {
        if (size_at(index, d) > size_at(src, d))
            return tni_fail(f, TN_E_SHAPE,
                            "Expected index %s to be no larger than self %s apart from dimension %lld and to "
                            "be no larger than src %s",
                            tni_sizes_text(index, &a), tni_sizes_text(self, &b), (long long)dim,
                            tni_sizes_text(src, &c));
    }
    return TN_OK;
}

static int32_t check_scatter_reduce(tni_frame *f)
{
    static const char *const words[] = {"sum", "prod", "mean", "amax", "amin"}, *const old_words[] = {
                                                                                    "add", "multiply"};
    uint32_t number = f->op->base->number, two = number == TN_OP_SCATTER_REDUCE_, count = two ? 5 : 2;
    const char *word = two || number == TN_OP_SCATTER_SRC_REDUCE_ || number == TN_OP_SCATTER_VALUE_REDUCE_
                           ? tni_arg_string(f, 4)
                           : NULL;
    if (!word) return TN_OK;
    if (two && !strcmp(word, "mean") && dtype_of(tni_arg_tensor(f, 0)) == TN_BOOL)
        return tni_fail(f, TN_E_UNSUPPORTED, "\"scatter_reduce\" with mean not implemented for 'Bool'");
    for (uint32_t i = 0; i < count; i++) {
        if (!strcmp(word, two ? words[i] : old_words[i])) return TN_OK;
    }
    return tni_fail(f, TN_E_ARGUMENT,
                    two ? "reduce argument must be either sum, prod, mean, amax or amin, got %s"
                        : "reduce argument must be either add or multiply. Got %s",
                    word);
}

/* scatter_ and its like (self, dim, index, src or value, ...). */
int32_t infer_scatter(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *index = tni_arg_tensor(f, 2), *src = tni_arg_tensor(f, 3);
    int64_t dim;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    if (index->numel && dtype_of(index) != TN_INT64 && dtype_of(index) != TN_INT32)
        return tni_fail(f, TN_E_DTYPE, "scatter(): Expected dtype int32/int64 for index");
    if (src) TNI_TRY(check_scatter_source(f, self, index, src, dim));
    if (!src) TNI_TRY(tni_check_fits(f, f->args[3], dtype_of(self)));
    TNI_TRY(check_gather_shape(f, self, index, dim, "self"));
    TNI_TRY(check_scatter_reduce(f));
    TNI_TRY(tni_check_apart(f, self, index, 0));
    TNI_TRY(tni_check_apart(f, self, src, 0));
    f->keep_dtype = UINT32_MAX;
    return tni_out_like(f, 0, self, 0);
}

/* ---- masks ---- */

static int32_t check_mask(tni_frame *f, const tn_tensor *self, const tn_tensor *mask)
{
    tni_shape shape = {.rank = self->desc.rank};
    memcpy(shape.sizes, sizes_of(self), shape.rank * sizeof(int64_t));
    if (dtype_of(mask) != TN_BOOL)
        return tni_fail(f, TN_E_DTYPE, "%s only supports boolean masks, but got mask with dtype %s",
                        tni_op_name(f->op->base), tni_dtype_error_name(dtype_of(mask)));
    TNI_TRY(tni_broadcast(&shape, mask->desc.rank, sizes_of(mask)));
    tni_text a, b;
    if (shape.rank != self->desc.rank || memcmp(shape.sizes, sizes_of(self), shape.rank * sizeof(int64_t)))
        return tni_fail(f, TN_E_SHAPE, "output with shape %s doesn't match the broadcast shape %s",
                        tni_sizes_text(self, &a), tni_list_text((tn_ints){shape.sizes, shape.rank}, &b));
    return TN_OK;
}

/* masked_fill_ (self, mask, number), masked_scatter_ (self, mask, source). */
int32_t infer_masked_write(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *source = tni_arg_tensor(f, 2);
    TNI_TRY(check_mask(f, self, tni_arg_tensor(f, 1)));
    if (!source) TNI_TRY(tni_check_apart(f, self, tni_arg_tensor(f, 1), 1));
    if (source && dtype_of(source) != dtype_of(self))
        return tni_fail(f, TN_E_DTYPE,
                        "masked_scatter: expected self and source to have same dtypes but got %s and %s",
                        tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(source)));
    if (!source) TNI_TRY(tni_check_fits(f, f->args[2], dtype_of(self)));
    f->keep_dtype = UINT32_MAX;
    return tni_out_like(f, 0, self, 0);
}

/* An upper bound; the kernel sets the size. */
int32_t infer_masked_select(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *mask = tni_arg_tensor(f, 1);
    tni_shape shape = {.rank = 0};
    int64_t numel;
    if (dtype_of(mask) != TN_BOOL)
        return tni_fail(f, TN_E_DTYPE, "masked_select: expected BoolTensor for mask");
    TNI_TRY(tni_broadcast(&shape, self->desc.rank, sizes_of(self)));
    TNI_TRY(tni_broadcast(&shape, mask->desc.rank, sizes_of(mask)));
    TNI_TRY(tni_numel(shape.rank, shape.sizes, &numel));
    f->keep_dtype = TNI_KEEP(1);
    return tni_out(f, 0, dtype_of(self), 1, &numel);
}

int32_t infer_nonzero(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    const int64_t sizes[] = {self->numel, rank_of(self)};
    return tni_out(f, 0, TN_INT64, 2, sizes);
}

int32_t infer_nonzero_static(tni_frame *f)
{
    const int64_t sizes[] = {tni_arg_int(f, 1), rank_of(tni_arg_tensor(f, 0))};
    if (sizes[0] < 0)
        return tni_fail(f, TN_E_ARGUMENT, "nonzero_static: 'size' must be an non-negative integer");
    return tni_out(f, 0, TN_INT64, 2, sizes);
}
