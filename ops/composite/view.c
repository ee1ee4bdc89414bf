/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: views through other views. If nothing changes, the result is the argument itself. */
#include <string.h>
#include "core/shape.h"
#include "ops/composite/composite.h"

void composite_contiguous(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int32_t format = arg_format(args, 1) < 0 ? TN_CONTIGUOUS_FORMAT : arg_format(args, 1);
    if (format == TN_PRESERVE_FORMAT && tn_tensor_is_contiguous(self, TN_CONTIGUOUS_FORMAT))
        return give(outs, 0, self);
    if (format == TN_PRESERVE_FORMAT) {
        tn_scope_fail(s, TN_E_ARGUMENT, "preserve memory format is unsupported by the contiguous operator");
        return;
    }
    give(outs, 0, tn_tensor_is_contiguous(self, format) ? self : tn_clone(s, self, .memory_format = format));
}

tn_tensor *tni_reshape(tn_scope *s, tn_tensor *self, tn_ints shape)
{
    int64_t sizes[TN_MAX_RANK], strides[TN_MAX_RANK];
    if (!self || tn_scope_failed(s)) return NULL;
    if (shape.count > TN_MAX_RANK)
        return tni_scope_failf(s, TN_E_SHAPE, "the result would have more than %d dimensions", TN_MAX_RANK),
               NULL;
    int32_t status = tni_infer_size(shape.data, (uint32_t)shape.count, self->numel, sizes);
    if (status) return tni_scope_record(s, status), NULL;
    tn_ints size = {sizes, shape.count};
    if (tni_view_strides(self->desc.rank, self->desc.sizes, self->desc.strides, (uint32_t)size.count, sizes,
                         strides))
        return tn_view(s, self, size);
    return tn__unsafe_view(s, tn_clone(s, self, .memory_format = TN_CONTIGUOUS_FORMAT), size);
}

void composite_reshape(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tni_reshape(s, arg_tensor(args, 0), arg_ints(args, 1)));
}

void composite_reshape_as(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tni_reshape(s, arg_tensor(args, 0), sizes_of(arg_tensor(args, 1))));
}

void composite_view_as(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_view(s, arg_tensor(args, 0), sizes_of(arg_tensor(args, 1))));
}

void composite_ravel(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_view(s, tn_contiguous(s, arg_tensor(args, 0)), TN_INTS(-1)));
}

void composite_flatten(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t rank = rank_of(self), first = tni_dim(s, arg_int(args, 1), rank),
            last = tni_dim(s, arg_int(args, 2), rank), n = 0;
    int64_t shape[TN_MAX_RANK];
    if (tn_scope_failed(s)) return;
    if (first > last) {
        tn_scope_fail(s, TN_E_ARGUMENT, "flatten() has invalid args: start_dim cannot come after end_dim");
        return;
    }
    if (rank == 0) return give(outs, 0, tni_reshape(s, self, TN_INTS(1)));
    if (first == last) return give(outs, 0, self);
    for (int64_t d = 0; d < rank; d++) {
        if (d > first && d <= last)
            shape[n - 1] *= tn_tensor_size(self, d);
        else
            shape[n++] = tn_tensor_size(self, d);
    }
    give(outs, 0, tni_reshape(s, self, (tn_ints){shape, n}));
}

void composite_unflatten(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints sizes = arg_ints(args, 2);
    int64_t rank = rank_of(self), dim = tni_dim(s, arg_int(args, 1), rank), product = 1, unknown = -1, n = 0;
    int64_t shape[2 * TN_MAX_RANK], size = rank ? tn_tensor_size(self, dim) : 1;
    char text[256];
    if (tn_scope_failed(s)) return;
    if (!sizes.count) {
        tn_scope_fail(s, TN_E_ARGUMENT, "unflatten: sizes must be non-empty");
        return;
    }
    if (sizes.count > TN_MAX_RANK)
        return (void)tn_scope_fail(s, TN_E_SHAPE, "unflatten: the result would have too many dimensions");
    for (int64_t i = 0; i < sizes.count; i++) {
        if (sizes.data[i] == -1 && unknown < 0)
            unknown = i;
        else if (__builtin_mul_overflow(product, sizes.data[i], &product))
            product = -1; /* not a valid product; a later 0 still gives 0 */
    }
    if (unknown >= 0 ? product <= 0 || size % product : product != size) {
        tni_scope_failf(s, TN_E_SHAPE,
                        "unflatten: Provided sizes %s don't multiply up to the size of dim %lld (%lld) in "
                        "the input tensor",
                        tni_shape_text((uint32_t)sizes.count, sizes.data, text, sizeof(text)), (long long)dim,
                        (long long)size);
        return;
    }
    for (int64_t d = 0; d < (rank ? rank : 1); d++) {
        if (d != dim) shape[n++] = tn_tensor_size(self, d);
        for (int64_t i = 0; i < sizes.count && d == dim; i++)
            shape[n++] = i == unknown ? size / product : sizes.data[i];
    }
    give(outs, 0, tn_view(s, self, (tn_ints){shape, n}));
}

void composite_expand_as(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_expand(s, arg_tensor(args, 0), sizes_of(arg_tensor(args, 1))));
}

void composite_broadcast_to(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_expand(s, arg_tensor(args, 0), arg_ints(args, 1)));
}

void composite_broadcast_tensors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    tn_tensor **out = tni_scope_tensors(s, list.count);
    tni_shape shape = {.rank = 0};
    for (int64_t i = 0; i < list.count; i++) {
        int32_t status = tni_broadcast(&shape, list.data[i]->desc.rank, list.data[i]->desc.sizes);
        if (status) return (void)tni_scope_record(s, status);
    }
    for (int64_t i = 0; out && i < list.count; i++)
        out[i] = tn_expand(s, list.data[i], (tn_ints){shape.sizes, shape.rank});
    give_list(outs, 0, (tn_tensors){out, list.count});
}

/* ---- permutations ---- */

void composite_numpy_t(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t dims[TN_MAX_RANK], rank = rank_of(self);
    for (int64_t d = 0; d < rank; d++) dims[d] = rank - 1 - d;
    give(outs, 0, tn_permute(s, self, (tn_ints){dims, rank}));
}

/* A 0-dim tensor is its own transpose, as in ATen. */
static tn_tensor *transposed(tn_scope *s, tn_tensor *self, const char *name)
{
    if (rank_of(self) == 0) return tn_alias(s, self);
    if (rank_of(self) >= 2) return tn_transpose(s, self, -2, -1);
    tni_scope_failf(s, TN_E_SHAPE,
                    "%s is only supported on matrices or batches of matrices. Got %lld-D tensor.", name,
                    (long long)rank_of(self));
    return NULL;
}

static tn_tensor *conjugated(tn_scope *s, tn_tensor *t)
{
    return t && is_complex(dtype_of(t)) ? tn__conj(s, t) : t;
}

void composite_mt(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, transposed(s, arg_tensor(args, 0), "tensor.mT"));
}

void composite_mh(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, conjugated(s, transposed(s, arg_tensor(args, 0), "tensor.adjoint()")));
}

void composite_matrix_h(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (rank_of(self) == 0) return give(outs, 0, conjugated(s, self));
    if (rank_of(self) != 2) {
        tni_scope_failf(s, TN_E_SHAPE,
                        "tensor.H is only supported on matrices (2-D tensors). Got %lld-D tensor.",
                        (long long)rank_of(self));
        return;
    }
    give(outs, 0, conjugated(s, tn_transpose(s, self, 0, 1)));
}

/* Bits of the dims in a list, and the wrapped dims; fails for repeated ones. */
static uint64_t wrap_unique(tn_scope *s, tn_ints list, int64_t rank, const char *what, int64_t *out)
{
    uint64_t seen = 0;
    char text[256];
    for (int64_t i = 0; i < list.count && !tn_scope_failed(s); i++) {
        out[i] = tni_dim(s, list.data[i], rank);
        if (seen >> out[i] & 1)
            tni_scope_failf(s, TN_E_ARGUMENT, "movedim: repeated dim in `%s` (%s)", what,
                            tni_shape_text((uint32_t)list.count, list.data, text, sizeof(text)));
        seen |= UINT64_C(1) << out[i];
    }
    return seen;
}

static tn_tensor *move_dims(tn_scope *s, tn_tensor *self, tn_ints source, tn_ints destination)
{
    int64_t rank = rank_of(self), from[TN_MAX_RANK], to[TN_MAX_RANK], order[TN_MAX_RANK], next = 0;
    char a[256], b[256];
    if (source.count != destination.count || source.count > TN_MAX_RANK) {
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "movedim: Invalid source or destination dims: source (%s dims) should contain the "
                        "same number of dims as destination (%s dims)",
                        tni_shape_text((uint32_t)source.count, source.data, a, sizeof(a)),
                        tni_shape_text((uint32_t)destination.count, destination.data, b, sizeof(b)));
        return NULL;
    }
    uint64_t taken_from = wrap_unique(s, source, rank, "source", from),
             taken_to = wrap_unique(s, destination, rank, "destination", to);
    if (tn_scope_failed(s)) return NULL;
    if (rank == 0) return tn_alias(s, self);
    for (int64_t i = 0; i < source.count; i++) order[to[i]] = from[i];
    for (int64_t d = 0; d < rank; d++) {
        if (taken_to >> d & 1) continue;
        while (taken_from >> next & 1) next++;
        order[d] = next++;
    }
    return tn_permute(s, self, (tn_ints){order, rank});
}

void composite_movedim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, move_dims(s, arg_tensor(args, 0), TN_INTS(arg_int(args, 1)), TN_INTS(arg_int(args, 2))));
}

void composite_movedim_intlist(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, move_dims(s, arg_tensor(args, 0), arg_ints(args, 1), arg_ints(args, 2)));
}

/* ---- slices ---- */

tn_tensor *tni_narrow(tn_scope *s, tn_tensor *self, int64_t dim, int64_t start, int64_t length)
{
    if (rank_of(self) == 0)
        return tn_scope_fail(s, TN_E_SHAPE, "narrow() cannot be applied to a 0-dim tensor."), NULL;
    if (length < 0) return tn_scope_fail(s, TN_E_ARGUMENT, "narrow(): length must be non-negative."), NULL;
    dim = tni_dim(s, dim, rank_of(self));
    int64_t size = tn_tensor_size(self, dim);
    if (tn_scope_failed(s)) return NULL;
    if (start < -size || start > size) {
        tni_scope_failf(s, TN_E_INDEX,
                        "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                        -(long long)size, (long long)size, (long long)start);
        return NULL;
    }
    if (start < 0) start += size;
    if (length > size - start) {
        tni_scope_failf(s, TN_E_INDEX, "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                        (long long)start, (long long)length, (long long)size);
        return NULL;
    }
    return tn_slice(s, self, .dim = dim, .start = start, .end = start + length);
}

void composite_narrow(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tni_narrow(s, arg_tensor(args, 0), arg_int(args, 1), arg_int(args, 2), arg_int(args, 3)));
}

void composite_narrow_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *start = arg_tensor(args, 2);
    if (rank_of(start) || !is_integer(dtype_of(start)) || dtype_of(start) == TN_BOOL) {
        tn_scope_fail(s, TN_E_ARGUMENT, "start must be an 0-dim integral Tensor.");
        return;
    }
    int64_t at = tn_item_int(s, start);
    if (!tn_scope_failed(s))
        give(outs, 0, tni_narrow(s, arg_tensor(args, 0), arg_int(args, 1), at, arg_int(args, 3)));
}

void composite_linalg_diagonal(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_diagonal(s, arg_tensor(args, 0), .offset = arg_int(args, 1), .dim1 = arg_int(args, 2),
                     .dim2 = arg_int(args, 3)));
}

/* ---- atleast_1d, 2d, 3d ---- */

static tn_tensor *at_least(tn_scope *s, tn_tensor *t, int64_t rank)
{
    if (rank_of(t) >= rank) return t;
    if (rank == 1) return tni_reshape(s, t, TN_INTS(1));
    if (rank == 2) return rank_of(t) == 0 ? tni_reshape(s, t, TN_INTS(1, 1)) : tn_unsqueeze(s, t, 0);
    if (rank_of(t) == 0) return tni_reshape(s, t, TN_INTS(1, 1, 1));
    return rank_of(t) == 1 ? tn_unsqueeze(s, tn_unsqueeze(s, t, 0), -1) : tn_unsqueeze(s, t, -1);
}

tn_tensors tni_at_least(tn_scope *s, tn_tensors list, int64_t rank)
{
    tn_tensor **out = tni_scope_tensors(s, list.count);
    for (int64_t i = 0; out && i < list.count; i++) out[i] = at_least(s, list.data[i], rank);
    return (tn_tensors){out, list.count};
}

/* (self) or (tensors) */
static void give_at_least(tn_scope *s, const tn_value *args, tn_value *outs, int64_t rank)
{
    if (args[0].tag == TN_TAG_TENSORS)
        give_list(outs, 0, tni_at_least(s, arg_tensors(args, 0), rank));
    else
        give(outs, 0, at_least(s, arg_tensor(args, 0), rank));
}
FORWARD(composite_atleast_1d, give_at_least, 1)
FORWARD(composite_atleast_2d, give_at_least, 2)
FORWARD(composite_atleast_3d, give_at_least, 3)

/* ---- grids ---- */

static int32_t check_axes(tn_scope *s, tn_tensors list)
{
    char text[256];
    if (!list.count) return tn_scope_fail(s, TN_E_ARGUMENT, "meshgrid expects a non-empty TensorList");
    for (int64_t i = 0; i < list.count; i++) {
        const tn_tensor *t = list.data[i];
        if (rank_of(t) > 1)
            return tni_scope_failf(s, TN_E_SHAPE,
                                   "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: %s",
                                   tni_shape_text(t->desc.rank, t->desc.sizes, text, sizeof(text)));
        if (dtype_of(t) != dtype_of(list.data[0]))
            return tn_scope_fail(s, TN_E_DTYPE, "meshgrid expects all tensors to have the same dtype");
        if (t->desc.device != list.data[0]->desc.device)
            return tn_scope_fail(s, TN_E_DEVICE, "meshgrid expects all tensors to have the same device");
    }
    return list.count > TN_MAX_RANK ? tn_scope_fail(s, TN_E_SHAPE, "meshgrid: too many tensors") : TN_OK;
}

static tn_tensors grid_of(tn_scope *s, tn_tensors list, int32_t swap)
{
    tn_tensor **out = tni_scope_tensors(s, list.count);
    int64_t sizes[TN_MAX_RANK], shape[TN_MAX_RANK];
    if (!out || check_axes(s, list)) return (tn_tensors){out, 0};
    swap = swap && list.count >= 2;
    for (int64_t i = 0; i < list.count; i++) {
        int64_t d = swap && i < 2 ? 1 - i : i;
        sizes[d] = list.data[i]->numel;
    }
    for (int64_t i = 0; i < list.count; i++) {
        for (int64_t d = 0; d < list.count; d++) shape[d] = 1;
        shape[swap && i < 2 ? 1 - i : i] = list.data[i]->numel;
        out[i] = tn_expand(s, tn_view(s, list.data[i], (tn_ints){shape, list.count}),
                           (tn_ints){sizes, list.count});
    }
    return (tn_tensors){out, list.count};
}

void composite_meshgrid(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_list(outs, 0, grid_of(s, arg_tensors(args, 0), 0));
}

void composite_meshgrid_indexing(tn_scope *s, const tn_value *args, tn_value *outs)
{
    const char *indexing = arg_string(args, 1);
    if (!indexing || (strcmp(indexing, "ij") && strcmp(indexing, "xy"))) {
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s",
                        indexing ? indexing : "None");
        return;
    }
    give_list(outs, 0, grid_of(s, arg_tensors(args, 0), !strcmp(indexing, "xy")));
}

void composite_reshape_copy(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *copy = tn_clone(s, arg_tensor(args, 0), .memory_format = TN_CONTIGUOUS_FORMAT);
    give(outs, 0, tn_reshape(s, copy, arg_ints(args, 1)));
}
