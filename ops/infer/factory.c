/* SPDX-License-Identifier: Apache-2.0 */
/* New tensors: undefined values, copies of another one, changes of a tensor's own size and storage. */
#include <math.h>
#include <string.h>
#include "ops/infer/infer.h"

typedef struct options {
    tn_dtype dtype;
    tn_device device;
    int32_t pin;
} options;

/* dtype, layout, device, pin_memory from argument `first` on; what is absent is that of `like`. */
static int32_t read_options(const tni_frame *f, uint32_t first, const tn_tensor *like, options *o)
{
    o->dtype = tni_arg_dtype(f, first);
    o->device = f->args[first + 2].tag == TN_TAG_DEVICE ? f->args[first + 2].as.device : 0;
    if (!o->dtype) o->dtype = like ? dtype_of(like) : tni_default_dtype(f->ctx);
    if (!o->device)
        o->device = like ? like->desc.device : tni_tls.default_device ? tni_tls.default_device : TN_CPU;
    if (f->args[first + 1].tag == TN_TAG_LAYOUT && f->args[first + 1].as.i != TN_INTERNED_STRIDED)
        return tni_fail(f, TN_E_UNSUPPORTED, "layout %s is not supported",
                        tni_interned_name(f->ctx, (uint32_t)f->args[first + 1].as.i));
    o->pin = tni_arg_bool(f, first + 3);
    if (o->pin && TN_DEVICE_TYPE(o->device) != TN_INTERNED_CPU)
        return tni_fail(f, TN_E_DEVICE, TNI_ONLY_CPU_PINNED);
    return TN_OK;
}

static int32_t check_list(const tni_frame *f, tn_ints size)
{
    tni_text text;
    if (size.count > TN_MAX_RANK)
        return tni_fail(f, TN_E_SHAPE, "only tensors with up to %d dims are supported", TN_MAX_RANK);
    for (int64_t i = 0; i < size.count; i++) {
        if (size.data[i] < 0)
            return tni_fail(f, TN_E_SHAPE, "Trying to create tensor with negative dimension %lld: %s",
                            (long long)size.data[i], tni_list_text(size, &text));
    }
    return TN_OK;
}

static int32_t check_sizes(const tni_frame *f, tn_ints size)
{
    int64_t numel;
    TNI_TRY(check_list(f, size));
    return tni_numel((uint32_t)size.count, size.data, &numel);
}

static int32_t check_format(const tni_frame *f, int32_t format, int64_t rank)
{
    if (format == TN_CHANNELS_LAST && rank != 4)
        return tni_fail(f, TN_E_SHAPE, "required rank 4 tensor to use channels_last format");
    if (format == TN_CHANNELS_LAST_3D && rank != 5)
        return tni_fail(f, TN_E_SHAPE, "required rank 5 tensor to use channels_last_3d format");
    return TN_OK;
}

static int32_t arg_format(const tni_frame *f, uint32_t i, int32_t absent)
{
    const tn_value *v = &f->args[i];
    return v->tag == TN_TAG_MEMORY_FORMAT || v->tag == TN_TAG_INT ? (int32_t)v->as.i : absent;
}

/* ---- deterministic mode: memory that would be undefined has a known value ---- */

static int32_t is_deterministic(const tni_frame *f)
{
    return (atomic_load_explicit(&f->ctx->call_flags, memory_order_relaxed) & TN_CALL_DETERMINISTIC) != 0;
}

/* NaN, true or the largest number, as in PyTorch. Dtypes of vendors keep what is there. */
static int32_t fill_undefined(tn_tensor *t)
{
    const tn_dtype dtype = dtype_of(t);
    const uint32_t unused = 64 - TN_DTYPE_BITS(dtype);
    if (tni_dtype_is_vendor(dtype)) return TN_OK;
    switch (tni_dtype_category(dtype)) {
    case TNI_CATEGORY_BOOL:
        return tni_fill_tensor(t, tn_value_bool(1));
    case TNI_CATEGORY_INT:
        return tni_fill_tensor(t, tn_value_int(TN_DTYPE_CODE(dtype) == TN_CODE_UINT
                                                   ? (int64_t)(UINT64_MAX >> unused)
                                                   : INT64_MAX >> unused));
    case TNI_CATEGORY_FLOAT:
    case TNI_CATEGORY_COMPLEX:
        return tni_fill_tensor(t, tn_value_float(NAN));
    default:
        return TN_OK;
    }
}

/* All elements that a larger storage has more than before. */
static int32_t fill_grown(tn_tensor *self, uint64_t old_bytes)
{
    const int64_t element = tn_dtype_bytes(dtype_of(self)), first = (int64_t)old_bytes / element, step = 1;
    const int64_t count = (int64_t)self->storage->bytes / element - first;
    tn_tensor *more;
    TNI_TRY(tni_tensor_alias(self, dtype_of(self), 1, &count, &step, first, &more));
    more->desc.flags &= ~(uint32_t)(TN_DESC_CONJ | TN_DESC_NEG);
    int32_t status = fill_undefined(more);
    tn_release(more);
    return status;
}

/* The output of an out form exists; it is only resized, in deterministic mode here. */
static int32_t give_given(tni_frame *f, tn_dtype dtype, tn_ints size, const int64_t *strides)
{
    tn_tensor *t = f->given[0];
    TNI_TRY(tni_out_strided(f, 0, dtype, (uint32_t)size.count, size.data, strides));
    if (!is_deterministic(f)) return TN_OK;
    f->device = t->desc.device;
    TNI_TRY(tni_check_given(f, 0));
    TNI_TRY(fill_undefined(t));
    tni_bump_version(t);
    return tni_out_give(f, 0, tn_retain(t));
}

static int32_t give_new(tni_frame *f, const options *o, tn_ints size, const int64_t *strides)
{
    tn_tensor *t;
    uint32_t rank = (uint32_t)size.count;
    if (f->given[0]) return give_given(f, dtype_of(f->given[0]), size, strides);
    if (o->pin) {
        tni_device *pins = tni_pinning_device(f->ctx);
        TNI_TRY(pins ? tni_tensor_create_pinned(pins, o->dtype, rank, size.data, strides, &t)
                     : tn_last_error()->code);
    } else {
        TNI_TRY(tni_tensor_create(f->ctx, o->device, o->dtype, rank, size.data, strides, &t));
    }
    int32_t status = is_deterministic(f) ? fill_undefined(t) : TN_OK;
    if (status) {
        tn_release(t);
        return status;
    }
    return tni_out_give(f, 0, t);
}

int32_t infer_empty(tni_frame *f)
{
    tn_ints size = tni_arg_ints(f, 0);
    int32_t format = arg_format(f, 5, TN_CONTIGUOUS_FORMAT);
    int64_t strides[TN_MAX_RANK];
    options o;
    TNI_TRY(read_options(f, 1, NULL, &o));
    TNI_TRY(check_list(f, size));
    if (format == TN_CONTIGUOUS_FORMAT || format == TN_PRESERVE_FORMAT) return give_new(f, &o, size, NULL);
    TNI_TRY(check_sizes(f, size));
    TNI_TRY(check_format(f, format, size.count));
    TNI_TRY(tni_format_strides((uint32_t)size.count, size.data, format, strides));
    return give_new(f, &o, size, strides);
}

int32_t infer_empty_strided(tni_frame *f)
{
    tn_ints size = tni_arg_ints(f, 0), stride = tni_arg_ints(f, 1);
    options o;
    TNI_TRY(read_options(f, 2, NULL, &o));
    TNI_TRY(check_sizes(f, size));
    if (size.count != stride.count)
        return tni_fail(f, TN_E_SHAPE,
                        "dimensionality of sizes (%lld) must match dimensionality of strides (%lld)",
                        (long long)size.count, (long long)stride.count);
    for (int64_t i = 0; i < stride.count; i++) {
        tni_text text;
        if (stride.data[i] < 0)
            return tni_fail(f, TN_E_SHAPE,
                            "empty_strided: Negative strides are not supported, got strides: %s",
                            tni_list_text(stride, &text));
    }
    return give_new(f, &o, size, stride.data);
}

int32_t infer_empty_permuted(tni_frame *f)
{
    tn_ints size = tni_arg_ints(f, 0), order = tni_arg_ints(f, 1);
    int64_t strides[TN_MAX_RANK], step = 1;
    uint64_t seen = 0;
    options o;
    TNI_TRY(read_options(f, 2, NULL, &o));
    TNI_TRY(check_sizes(f, size));
    if (size.count != order.count)
        return tni_fail(f, TN_E_SHAPE,
                        "Number of dimensions in size does not match the length of the physical_layout; i.e. "
                        "len(size) = %lld is not equal to len(physical_layout) = %lld",
                        (long long)size.count, (long long)order.count);
    for (int64_t i = order.count - 1; i >= 0; i--) {
        int64_t d = order.data[i];
        if (d < 0 || d >= size.count)
            return tni_fail(
                f, TN_E_INDEX,
                "Dimension out of range (expected to be between 0 and %lld, but got %lld at index %lld)",
                (long long)size.count - 1, (long long)d, (long long)i);
        if (seen >> d & 1) return tni_fail(f, TN_E_SHAPE, "Duplicate dim not allowed");
        seen |= UINT64_C(1) << d;
        strides[d] = step;
        if (size.data[d] > 1) step *= size.data[d];
    }
    return give_new(f, &o, size, strides);
}

/*
 * Strides of a tensor with the sizes of `t` in a memory format. TN_PRESERVE_FORMAT keeps the strides of a
 * dense t.
 */
static int32_t strides_in_format(const tni_frame *f, const tn_tensor *t, int32_t format, int64_t *strides)
{
    uint32_t rank = t->desc.rank;
    TNI_TRY(check_format(f, format, rank));
    if (format == TN_PRESERVE_FORMAT)
        tni_preserve_strides(t, rank, sizes_of(t), strides);
    else
        TNI_TRY(tni_format_strides(rank, sizes_of(t), format, strides));
    return TN_OK;
}

int32_t infer_empty_like(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t strides[TN_MAX_RANK];
    options o;
    TNI_TRY(read_options(f, 1, self, &o));
    TNI_TRY(strides_in_format(f, self, arg_format(f, 5, TN_PRESERVE_FORMAT), strides));
    return give_new(f, &o, (tn_ints){sizes_of(self), rank_of(self)}, strides);
}

int32_t infer_clone(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t strides[TN_MAX_RANK];
    TNI_TRY(strides_in_format(f, self, arg_format(f, 1, TN_PRESERVE_FORMAT), strides));
    return tni_out_strided(f, 0, dtype_of(self), self->desc.rank, sizes_of(self), strides);
}

int32_t infer_to_copy(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int32_t format = arg_format(f, 6, TN_PRESERVE_FORMAT);
    int64_t strides[TN_MAX_RANK];
    options o;
    TNI_TRY(read_options(f, 1, self, &o));
    if (format == TN_PRESERVE_FORMAT && !(self->state & TNI_DENSE)) format = tni_suggest_format(self);
    TNI_TRY(strides_in_format(f, self, format, strides));
    f->device = o.device;
    f->keep_dtype = TNI_KEEP(0);
    return tni_out_strided(f, 0, o.dtype, self->desc.rank, sizes_of(self), strides);
}

/* copy_ and prim::copy: src is broadcast to self and cast by the kernel. */
int32_t infer_copy(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0), *src = tni_arg_tensor(f, 1);
    tni_shape shape = {.rank = self->desc.rank};
    tni_text a, b;
    memcpy(shape.sizes, sizes_of(self), shape.rank * sizeof(int64_t));
    TNI_TRY(tni_broadcast(&shape, src->desc.rank, sizes_of(src)));
    if (shape.rank != self->desc.rank || memcmp(shape.sizes, sizes_of(self), shape.rank * sizeof(int64_t)))
        return tni_fail(f, TN_E_SHAPE, "output with shape %s doesn't match the broadcast shape %s",
                        tni_sizes_text(self, &a), tni_list_text((tn_ints){shape.sizes, shape.rank}, &b));
    f->keep_dtype = TNI_KEEP(0) | TNI_KEEP(1);
    f->device = self->desc.device;
    return tni_out_like(f, 0, self, 0);
}

int32_t infer_fill(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    TNI_TRY(tni_check_fits(f, f->args[1], dtype_of(self)));
    return tni_out_like(f, 0, self, 0);
}

int32_t infer_same(tni_frame *f)
{
    f->keep_dtype = UINT32_MAX;
    return tni_out_like(f, 0, tni_arg_tensor(f, 0), 0);
}

int32_t infer_same_as_first(tni_frame *f)
{
    return tni_out_like(f, 0, tni_arg_tensor(f, 0), 0);
}

/* ---- a tensor's own size and storage ---- */

static int32_t give_self(tni_frame *f, tn_tensor *self)
{
    return tni_out_give(f, 0, tn_retain(self));
}

int32_t infer_resize(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints size = tni_arg_ints(f, 1);
    int32_t format = arg_format(f, 2, TN_CONTIGUOUS_FORMAT);
    int64_t strides[TN_MAX_RANK], numel, offset = tni_tensor_offset(self);
    uint64_t needed;
    uint32_t rank = (uint32_t)size.count;
    TNI_TRY(check_sizes(f, size));
    TNI_TRY(check_format(f, format, size.count));
    if (format == TN_PRESERVE_FORMAT) return tni_fail(f, TN_E_ARGUMENT, "Unsupported memory format Preserve");
    if (rank == self->desc.rank && !memcmp(size.data, sizes_of(self), rank * sizeof(int64_t)) &&
        !tni_arg_given(f, 2))
        return give_self(f, self);
    TNI_TRY(tni_numel(rank, size.data, &numel));
    TNI_TRY(tni_format_strides(rank, size.data, format, strides));
    TNI_TRY(tni_storage_needed(offset, numel, tn_dtype_bytes(dtype_of(self)), &needed));
    uint64_t before = self->storage ? self->storage->bytes : needed;
    if (needed > before) TNI_TRY(tni_storage_resize(self->storage, needed));
    TNI_TRY(tni_tensor_set_view(self, rank, size.data, strides, offset));
    tni_bump_version(self);
    if (needed > before && is_deterministic(f)) TNI_TRY(fill_grown(self, before));
    return give_self(f, self);
}

/* Makes self a view of the storage of `other`. */
static int32_t show_storage_of(tn_tensor *self, const tn_tensor *other)
{
    tni_storage *old = self->storage;
    tni_storage_retain(old);
    tni_tensor_set_storage(self, other->storage);
    int32_t status = tni_tensor_set_view(self, other->desc.rank, sizes_of(other), strides_of(other),
                                         tni_tensor_offset(other));
    if (status) tni_tensor_set_storage(self, old); /* restored */
    tni_storage_release(old);
    return status;
}

int32_t infer_set_empty(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0), *empty;
    const int64_t size = 0;
    TNI_TRY(tni_tensor_create(f->ctx, self->desc.device, dtype_of(self), 1, &size, NULL, &empty));
    atomic_store(&empty->storage->version, atomic_load(&self->storage->version) + 1);
    int32_t status = show_storage_of(self, empty);
    tn_release(empty);
    return status ? status : give_self(f, self);
}

int32_t infer_set_source_tensor(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0), *source = tni_arg_tensor(f, 1);
    if (self == source) return give_self(f, self);
    if (dtype_of(self) != dtype_of(source))
        return tni_fail(f, TN_E_DTYPE, "Could not set tensor of type %s to a tensor of type %s",
                        tni_dtype_error_name(dtype_of(source)), tni_dtype_error_name(dtype_of(self)));
    if (self->desc.device != source->desc.device)
        return tni_fail(f, TN_E_DEVICE,
                        "attempted to set the storage of a tensor to a storage on different device");
    TNI_TRY(show_storage_of(self, source));
    return give_self(f, self);
}
