/* SPDX-License-Identifier: Apache-2.0 */
/* Views of the same bytes as another dtype, and lazy conjugation and negation. */
#include "ops/infer/infer.h"
#include "ops/infer/view.h"

#define LAZY_BITS (TN_DESC_CONJ | TN_DESC_NEG)

/* Sets as output a view with another dtype or other lazy bits; it keeps its base. */
static int32_t give_as(tni_frame *f, tn_tensor *self, tn_dtype dtype, const tni_view_shape *v, uint32_t bits)
{
    tn_tensor *t;
    TNI_TRY(tni_tensor_alias(self, dtype, v->rank, v->sizes, v->strides, v->offset, &t));
    if (!t->base) t->base = tn_retain(self->base ? self->base : self);
    t->desc.flags = (t->desc.flags & ~LAZY_BITS) | bits;
    return tni_out_give(f, 0, t);
}

static int32_t give_flipped(tni_frame *f, uint32_t bit)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tni_view_shape v;
    tni_view_of(self, &v);
    return give_as(f, self, dtype_of(self), &v, (self->desc.flags & LAZY_BITS) ^ bit);
}

int32_t infer_conj(tni_frame *f)
{
    return give_flipped(f, is_complex(dtype_of(tni_arg_tensor(f, 0))) ? TN_DESC_CONJ : 0);
}

int32_t infer_neg_view(tni_frame *f)
{
    return give_flipped(f, TN_DESC_NEG);
}

int32_t infer_view_as_real(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tni_view_shape v;
    if (!is_complex(dtype_of(self)))
        return tni_fail(f, TN_E_DTYPE, "view_as_real is only supported for complex tensors");
    if (self->desc.flags & TN_DESC_CONJ)
        return tni_fail(
            f, TN_E_STATE,
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor "
            "so you can view it as real, use self.resolve_conj(); however, be warned that the resulting "
            "tensor will NOT alias the original.");
    if (rank_of(self) == TN_MAX_RANK) return tni_fail(f, TN_E_SHAPE, "at most %d dimensions", TN_MAX_RANK);
    tni_view_of(self, &v);
    for (uint32_t i = 0; i < v.rank; i++) v.strides[i] *= 2;
    v.sizes[v.rank] = 2;
    v.strides[v.rank++] = 1;
    v.offset *= 2;
    return give_as(f, self, tni_dtype_to_real(dtype_of(self)), &v, self->desc.flags & TN_DESC_NEG);
}

int32_t infer_view_as_complex(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_dtype dtype = dtype_of(self);
    tni_view_shape v;
    if (dtype != TN_FLOAT16 && dtype != TN_FLOAT32 && dtype != TN_FLOAT64)
        return tni_fail(
            f, TN_E_DTYPE,
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            "scalar type: %s",
            tni_dtype_error_name(dtype));
    if (rank_of(self) == 0) return tni_fail(f, TN_E_SHAPE, "Input tensor must have one or more dimensions");
    tni_view_of(self, &v);
    v.rank--;
    if (v.sizes[v.rank] != 2) return tni_fail(f, TN_E_SHAPE, "Tensor must have a last dimension of size 2");
    if (v.strides[v.rank] != 1)
        return tni_fail(f, TN_E_SHAPE, "Tensor must have a last dimension with stride 1");
    for (uint32_t i = 0; i < v.rank; i++) {
        if (v.strides[i] % 2)
            return tni_fail(f, TN_E_SHAPE,
                            "Tensor must have a stride divisible by 2 for all but last dimension");
        v.strides[i] /= 2;
    }
    if (v.offset % 2) return tni_fail(f, TN_E_SHAPE, "Tensor must have a storage_offset divisible by 2");
    v.offset /= 2;
    return give_as(f, self, tni_dtype_to_complex(dtype), &v, self->desc.flags & TN_DESC_NEG);
}

/* Elements get smaller: `ratio` new ones to an old one. */
static int32_t shrink_elements(tni_frame *f, tni_view_shape *v, int64_t ratio, tn_dtype from, tn_dtype to)
{
    uint32_t last = v->rank - 1;
    if (v->strides[last] != 1)
        return tni_fail(f, TN_E_SHAPE,
                        "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %lld",
                        tni_dtype_error_name(from), tni_dtype_error_name(to), (long long)v->strides[last]);
    for (uint32_t i = 0; i < last; i++) v->strides[i] *= ratio;
    v->sizes[last] *= ratio;
    v->offset *= ratio;
    return TN_OK;
}

/* Elements get larger: `ratio` old ones to a new one. */
static int32_t grow_elements(tni_frame *f, tni_view_shape *v, int64_t ratio, tn_dtype from, tn_dtype to)
{
    uint32_t last = v->rank - 1;
    if (v->sizes[last] % ratio)
        return tni_fail(f, TN_E_SHAPE,
                        "self.size(-1) must be divisible by %lld to view %s as %s (different element sizes), "
                        "but got %lld",
                        (long long)ratio, tni_dtype_error_name(from), tni_dtype_error_name(to),
                        (long long)v->sizes[last]);
    if (v->offset % ratio)
        return tni_fail(
            f, TN_E_SHAPE,
            "self.storage_offset() must be divisible by %lld to view %s as %s (different element sizes), "
            "but got %lld",
            (long long)ratio, tni_dtype_error_name(from), tni_dtype_error_name(to), (long long)v->offset);
    if (v->strides[last] != 1)
        return tni_fail(f, TN_E_SHAPE,
                        "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %lld",
                        tni_dtype_error_name(from), tni_dtype_error_name(to), (long long)v->strides[last]);
    for (uint32_t i = 0; i < last; i++) {
        if (v->strides[i] % ratio)
            return tni_fail(
                f, TN_E_SHAPE,
                "self.stride(%u) must be divisible by %lld to view %s as %s (different element sizes), "
                "but got %lld",
                i, (long long)ratio, tni_dtype_error_name(from), tni_dtype_error_name(to),
                (long long)v->strides[i]);
        v->strides[i] /= ratio;
    }
    v->sizes[last] /= ratio;
    v->offset /= ratio;
    return TN_OK;
}

int32_t infer_view_dtype(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_dtype from = dtype_of(self), to = tni_arg_dtype(f, 1);
    int64_t old_bytes = tn_dtype_bytes(from), new_bytes = tn_dtype_bytes(to);
    tni_view_shape v;
    if (from == to) return infer_alias(f);
    if (self->desc.flags & LAZY_BITS)
        return tni_fail(
            f, TN_E_STATE,
            "torch.Tensor.view is not supported for %s view tensors when converting to a different dtype.",
            self->desc.flags & TN_DESC_CONJ ? "conjugate" : "neg");
    tni_view_of(self, &v);
    if (old_bytes != new_bytes && v.rank == 0)
        return tni_fail(f, TN_E_SHAPE, "self.dim() cannot be 0 to view %s as %s (different element sizes)",
                        tni_dtype_error_name(from), tni_dtype_error_name(to));
    if (old_bytes > new_bytes) TNI_TRY(shrink_elements(f, &v, old_bytes / new_bytes, from, to));
    if (old_bytes < new_bytes) TNI_TRY(grow_elements(f, &v, new_bytes / old_bytes, from, to));
    return give_as(f, self, to, &v, 0);
}
