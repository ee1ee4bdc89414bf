/* SPDX-License-Identifier: Apache-2.0 */
/* Views with other sizes and strides on the same storage. In-place forms take these over into self. */
#include <string.h>
#include "ops/infer/infer.h"
#include "ops/infer/view.h"

int32_t tni_give_view(tni_frame *f, tn_tensor *self, const tni_view_shape *v)
{
    tn_tensor *t;
    TNI_TRY(tni_tensor_part(self, v->rank, v->sizes, v->strides, v->offset, &t));
    return tni_out_give(f, 0, t);
}

/* Sizes and strides come from the program, or exceed those of self. */
static int32_t give_checked(tni_frame *f, tn_tensor *self, const tni_view_shape *v)
{
    tn_tensor *t;
    TNI_TRY(tni_tensor_view(self, v->rank, v->sizes, v->strides, v->offset, &t));
    return tni_out_give(f, 0, t);
}

void tni_view_of(const tn_tensor *t, tni_view_shape *v)
{
    v->rank = t->desc.rank;
    v->offset = tni_tensor_offset(t);
    for (uint32_t i = 0; i < v->rank; i++) { /* few elements: a call of memcpy takes longer */
        v->sizes[i] = sizes_of(t)[i];
        v->strides[i] = strides_of(t)[i];
    }
}

static void remove_dim(tni_view_shape *v, uint32_t dim)
{
    v->rank--;
    for (uint32_t i = dim; i < v->rank; i++) {
        v->sizes[i] = v->sizes[i + 1];
        v->strides[i] = v->strides[i + 1];
    }
}

int32_t infer_alias(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tni_view_shape v;
    tni_view_of(self, &v);
    return tni_give_view(f, self, &v);
}

/* Not a view for autograd: the result has no base. In inference mode the in-place form does nothing, as in ATen. */
int32_t infer_detach(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0), *t;
    if (f->op->form == TNI_FORM_INPLACE && self->base && tni_tls.grad_mode != TN_GRAD_INFERENCE)
        return tni_error(TN_E_AUTOGRAD, "Can't detach views in-place. Use detach() instead.");
    TNI_TRY(tni_tensor_alias(self, dtype_of(self), self->desc.rank, sizes_of(self), strides_of(self),
                             tni_tensor_offset(self), &t));
    t->desc.flags =
        (t->desc.flags & ~(TN_DESC_CONJ | TN_DESC_NEG)) | (self->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG));
    return tni_out_give(f, 0, t);
}

int32_t infer_view(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints size = tni_arg_ints(f, 1);
    tni_view_shape v = {.rank = (uint32_t)size.count, .offset = tni_tensor_offset(self)};
    if (size.count > TN_MAX_RANK) return tni_fail(f, TN_E_SHAPE, "at most %d dimensions", TN_MAX_RANK);
    TNI_TRY(tni_infer_size(size.data, v.rank, self->numel, v.sizes));
    if (!tni_view_strides(self->desc.rank, sizes_of(self), strides_of(self), v.rank, v.sizes, v.strides))
        return tni_fail(
            f, TN_E_SHAPE,
            "view size is not compatible with input tensor's size and stride (at least one dimension "
            "spans across two contiguous subspaces). Use .reshape(...) instead.");
    return tni_give_view(f, self, &v);
}

int32_t infer_reshape_alias(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints size = tni_arg_ints(f, 1), stride = tni_arg_ints(f, 2);
    tni_view_shape v = {.rank = (uint32_t)size.count, .offset = tni_tensor_offset(self)};
    if (size.count > TN_MAX_RANK || size.count != stride.count)
        return tni_fail(f, TN_E_SHAPE, "mismatch in length of strides and shape");
    if (size.count) {
        memcpy(v.sizes, size.data, (size_t)size.count * sizeof(int64_t));
        memcpy(v.strides, stride.data, (size_t)size.count * sizeof(int64_t));
    }
    return give_checked(f, self, &v);
}

/* Size and stride of one dimension of the result; `i` counts from the front of it. Those behind are known. */
static int32_t expand_dim(tni_frame *f, const tn_tensor *self, tn_ints size, int64_t i, tni_view_shape *v)
{
    int64_t d = i - (size.count - rank_of(self)), want = size.data[i];
    int64_t have = d < 0 ? 1 : sizes_of(self)[d], stride = 0;
    tni_text target, own;
    if (d >= 0)
        stride = strides_of(self)[d];
    else if (rank_of(self) > 0) /* unsigned: sizes beside a 0 may have any product */
        stride = (int64_t)((uint64_t)v->sizes[i + 1] * (uint64_t)v->strides[i + 1]);
    if (want == -1 && d < 0)
        return tni_fail(
            f, TN_E_SHAPE,
            "The expanded size of the tensor (%lld) isn't allowed in a leading, non-existing dimension %lld",
            (long long)want, (long long)i);
    if (want == -1) want = have;
    if (want != have && have != 1)
        return tni_fail(
            f, TN_E_SHAPE,
            "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
            "dimension %lld.  Target sizes: %s.  Tensor sizes: %s",
            (long long)want, (long long)have, (long long)i, tni_list_text(size, &target),
            tni_sizes_text(self, &own));
    if (want < 0)
        return tni_fail(f, TN_E_SHAPE, "Trying to create tensor with negative dimension %lld: %s",
                        (long long)want, tni_list_text(size, &target));
    v->sizes[i] = want;
    v->strides[i] = want == have ? stride : 0;
    return TN_OK;
}

int32_t infer_expand(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints size = tni_arg_ints(f, 1);
    tni_view_shape v = {.rank = (uint32_t)size.count, .offset = tni_tensor_offset(self)};
    tni_text a, b;
    if (size.count < rank_of(self) || size.count > TN_MAX_RANK)
        return tni_fail(
            f, TN_E_SHAPE,
            "expand(%s, size=%s): the number of sizes provided (%lld) must be greater or equal to the "
            "number of dimensions in the tensor (%u)",
            tni_sizes_text(self, &a), tni_list_text(size, &b), (long long)size.count, self->desc.rank);
    for (int64_t i = size.count - 1; i >= 0; i--) TNI_TRY(expand_dim(f, self, size, i, &v));
    return give_checked(f, self, &v);
}

int32_t infer_permute(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints dims = tni_arg_ints(f, 1);
    tni_view_shape v = {.rank = self->desc.rank, .offset = tni_tensor_offset(self)};
    uint64_t seen = 0;
    if (dims.count != rank_of(self))
        return tni_fail(
            f, TN_E_SHAPE,
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
            "the desired ordering of dimensions i.e. input.dim() = %u is not equal to len(dims) = %lld",
            self->desc.rank, (long long)dims.count);
    for (uint32_t i = 0; i < v.rank; i++) {
        int64_t d;
        TNI_TRY(tni_wrap_dim(dims.data[i], v.rank, &d));
        if (seen >> d & 1) return tni_fail(f, TN_E_SHAPE, "permute(): duplicate dims are not allowed.");
        seen |= UINT64_C(1) << d;
        v.sizes[i] = sizes_of(self)[d];
        v.strides[i] = strides_of(self)[d];
    }
    return tni_give_view(f, self, &v);
}

static int32_t give_transposed(tni_frame *f, tn_tensor *self, int64_t a, int64_t b)
{
    tni_view_shape v;
    tni_view_of(self, &v);
    if (v.rank) {
        v.sizes[a] = sizes_of(self)[b];
        v.sizes[b] = sizes_of(self)[a];
        v.strides[a] = strides_of(self)[b];
        v.strides[b] = strides_of(self)[a];
    }
    return tni_give_view(f, self, &v);
}

int32_t infer_transpose(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t a, b;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &a));
    TNI_TRY(tni_arg_dim(f, 2, rank_of(self), &b));
    return give_transposed(f, self, a, b);
}

int32_t infer_t(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    if (rank_of(self) > 2)
        return tni_fail(f, TN_E_SHAPE, "%s expects a tensor with <= 2 dimensions, but self is %uD",
                        is_inplace(f) ? "t_()" : "t()", self->desc.rank);
    return give_transposed(f, self, 0, rank_of(self) == 2);
}

int32_t infer_select(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim, index = tni_arg_int(f, 2), size;
    tni_view_shape v;
    tni_text text;
    if (rank_of(self) == 0) return tni_fail(f, TN_E_INDEX, "select() cannot be applied to a 0-dim tensor.");
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    size = sizes_of(self)[dim];
    if (index < -size || index >= size)
        return tni_fail(f, TN_E_INDEX,
                        "select(): index %lld out of range for tensor of size %s at dimension %lld",
                        (long long)index, tni_sizes_text(self, &text), (long long)dim);
    tni_view_of(self, &v);
    v.offset += (index < 0 ? index + size : index) * v.strides[dim];
    remove_dim(&v, (uint32_t)dim);
    return tni_give_view(f, self, &v);
}

static int64_t clamp_position(int64_t p, int64_t size)
{
    if (p < 0) p += size;
    return p < 0 ? 0 : p > size ? size : p;
}

int32_t infer_slice(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim, size, start = 0, end, step = tni_arg_int(f, 4);
    tni_view_shape v;
    if (rank_of(self) == 0) return tni_fail(f, TN_E_INDEX, "slice() cannot be applied to a 0-dim tensor.");
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    if (step <= 0) return tni_fail(f, TN_E_ARGUMENT, "slice step must be positive");
    size = sizes_of(self)[dim];
    if (tni_arg_given(f, 2)) start = clamp_position(tni_arg_int(f, 2), size);
    end = tni_arg_given(f, 3) ? clamp_position(tni_arg_int(f, 3), size) : size;
    if (end < start) end = start;
    tni_view_of(self, &v);
    v.offset += start * v.strides[dim];
    v.sizes[dim] = end == start ? 0 : (end - start - 1) / step + 1;
    v.strides[dim] =
        (int64_t)((uint64_t)v.strides[dim] * (uint64_t)step); /* wraps where there is one element */
    return tni_give_view(f, self, &v);
}

int32_t infer_diagonal(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t offset = tni_arg_int(f, 1), a, b, rows, columns, count;
    tni_view_shape v;
    TNI_TRY(tni_arg_dim(f, 2, rank_of(self), &a));
    TNI_TRY(tni_arg_dim(f, 3, rank_of(self), &b));
    if (a == b)
        return tni_fail(f, TN_E_SHAPE, "diagonal dimensions cannot be identical %lld, %lld",
                        (long long)tni_arg_int(f, 2), (long long)tni_arg_int(f, 3));
    tni_view_of(self, &v);
    rows = v.sizes[a] + (offset < 0 ? offset : 0);
    columns = v.sizes[b] - (offset > 0 ? offset : 0);
    count = rows < columns ? rows : columns;
    if (count < 0) count = 0;
    if (count) v.offset += offset >= 0 ? offset * v.strides[b] : -offset * v.strides[a];
    int64_t stride =
        (int64_t)((uint64_t)v.strides[a] + (uint64_t)v.strides[b]); /* wraps where there is one element */
    remove_dim(&v, (uint32_t)(a > b ? a : b));
    remove_dim(&v, (uint32_t)(a > b ? b : a));
    v.sizes[v.rank] = count;
    v.strides[v.rank++] = stride;
    return tni_give_view(f, self, &v);
}

static int32_t give_squeezed(tni_frame *f, uint64_t dims)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tni_view_shape v = {.rank = 0, .offset = tni_tensor_offset(self)};
    for (uint32_t i = 0; i < self->desc.rank; i++) {
        if (sizes_of(self)[i] == 1 && (dims >> i & 1)) continue;
        v.sizes[v.rank] = sizes_of(self)[i];
        v.strides[v.rank++] = strides_of(self)[i];
    }
    return tni_give_view(f, self, &v);
}

int32_t infer_squeeze(tni_frame *f)
{
    return give_squeezed(f, UINT64_MAX);
}

int32_t infer_squeeze_dim(tni_frame *f)
{
    int64_t dim;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(tni_arg_tensor(f, 0)), &dim));
    return give_squeezed(f, UINT64_C(1) << dim);
}

int32_t infer_squeeze_dims(tni_frame *f)
{
    uint64_t dims = 0;
    if (tni_arg_ints(f, 1).count) TNI_TRY(tni_dim_mask(f->args[1], rank_of(tni_arg_tensor(f, 0)), 0, &dims));
    return give_squeezed(f, dims);
}

int32_t infer_unsqueeze(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim;
    tni_view_shape v;
    if (rank_of(self) == TN_MAX_RANK) return tni_fail(f, TN_E_SHAPE, "at most %d dimensions", TN_MAX_RANK);
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self) + 1, &dim));
    const int64_t *sizes = sizes_of(self), *strides = strides_of(self);
    v.rank = self->desc.rank + 1;
    v.offset = tni_tensor_offset(self);
    for (int64_t i = 0, from = 0; i < (int64_t)v.rank; i++) {
        int64_t is_new = i == dim;
        v.sizes[i] = is_new ? 1 : sizes[from];
        v.strides[i] = !is_new ? strides[from] : from < rank_of(self) ? sizes[from] * strides[from] : 1;
        from += !is_new;
    }
    return tni_give_view(f, self, &v);
}

static int32_t check_strided(tni_frame *f, const tn_tensor *self, const tni_view_shape *v)
{
    int64_t extent, bytes = tn_dtype_bytes(dtype_of(self));
    uint64_t needed;
    tni_text sizes, strides;
    tn_ints size = {v->sizes, v->rank}, stride = {v->strides, v->rank};
    for (uint32_t i = 0; i < v->rank; i++) {
        if (v->strides[i] < 0)
            return tni_fail(f, TN_E_SHAPE,
                            "as_strided: Negative strides are not supported at the moment, got strides: %s",
                            tni_list_text(stride, &strides));
    }
    TNI_TRY(tni_storage_extent(v->rank, v->sizes, v->strides, &extent));
    if (v->offset < 0)
        return tni_fail(f, TN_E_SHAPE, "Tensor: invalid storage offset %lld", (long long)v->offset);
    TNI_TRY(tni_storage_needed(v->offset, extent, bytes, &needed));
    if (self->storage && needed > self->storage->bytes)
        return tni_fail(
            f, TN_E_SHAPE,
            "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %lld requiring a storage "
            "size of %llu are out of bounds for storage of size %llu",
            tni_list_text(size, &sizes), tni_list_text(stride, &strides), (long long)v->offset,
            (long long)bytes, (unsigned long long)needed, (unsigned long long)self->storage->bytes);
    return TN_OK;
}

int32_t infer_as_strided(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints size = tni_arg_ints(f, 1), stride = tni_arg_ints(f, 2);
    tni_view_shape v = {.rank = (uint32_t)size.count, .offset = tni_tensor_offset(self)};
    if (size.count != stride.count || size.count > TN_MAX_RANK)
        return tni_fail(f, TN_E_SHAPE, "mismatch in length of strides and shape");
    if (tni_arg_given(f, 3)) v.offset = tni_arg_int(f, 3);
    for (uint32_t i = 0; i < v.rank; i++) {
        v.sizes[i] = size.data[i];
        v.strides[i] = stride.data[i];
    }
    TNI_TRY(check_strided(f, self, &v));
    return give_checked(f, self, &v);
}

int32_t infer_unfold(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim, size = tni_arg_int(f, 2), step = tni_arg_int(f, 3), length;
    tni_view_shape v;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    length = rank_of(self) ? sizes_of(self)[dim] : 1;
    if (size < 0) return tni_fail(f, TN_E_ARGUMENT, "size is %lld but must be >= 0", (long long)size);
    if (size > length)
        return tni_fail(f, TN_E_SHAPE, "maximum size for tensor at dimension %lld is %lld but size is %lld",
                        (long long)dim, (long long)length, (long long)size);
    if (step <= 0) return tni_fail(f, TN_E_ARGUMENT, "step is %lld but must be > 0", (long long)step);
    tni_view_of(self, &v);
    v.sizes[v.rank] = size;
    v.strides[v.rank] = v.rank ? v.strides[dim] : 1;
    if (v.rank) {
        v.sizes[dim] = (length - size) / step + 1;
        v.strides[dim] *= step;
    }
    v.rank++;
    return tni_give_view(f, self, &v);
}
