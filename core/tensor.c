/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors: making, viewing, releasing, and the public queries. A tensor is one block of small memory with
 * room for TNI_INLINE_RANK dimensions; higher ranks take a second one. The header of a small result is part
 * of the block that the allocator keeps for its storage (TNI_EMBEDDED), so that a call asks for memory once.
 * Such a header holds that storage until it goes, whatever storage it is given later. What autograd hangs on a
 * tensor is dropped through the hooks that the autograd room registers.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "core/allocator.h"
#include "core/debug.h"
#include "core/shape.h"
#include "core/thread.h"

#define SHAPE_STATE (TNI_CONTIGUOUS | TNI_DENSE | TNI_CHANNELS_LAST | TNI_CHANNELS_LAST_3D)

static uint64_t item_bytes(tn_dtype dtype)
{
    return (uint64_t)tn_dtype_bytes(dtype);
}

/* ---- Headers ------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) int32_t give_dims(tn_tensor *t, uint32_t rank)
{
    t->dims = t->inline_dims;
    if (TNI_UNLIKELY(rank > TNI_INLINE_RANK)) {
        if (rank > TN_MAX_RANK)
            return tni_error(TN_E_SHAPE, "tensors have at most %d dimensions, not %u", TN_MAX_RANK, rank);
        t->dims = tni_alloc(t->ctx, 2 * rank * sizeof *t->dims);
        if (!t->dims) return TN_E_OUT_OF_MEMORY;
    }
    t->desc.rank = rank;
    t->desc.sizes = t->dims;
    t->desc.strides = t->dims + rank;
    return TN_OK;
}

static inline __attribute__((always_inline)) int32_t new_header(tn_context *ctx, tn_device device,
                                                                tn_dtype dtype, uint32_t rank,
                                                                tn_tensor **out)
{
    tn_tensor *t = tni_alloc(ctx, sizeof *t);
    if (TNI_UNLIKELY(!t)) return TN_E_OUT_OF_MEMORY;
    /* Field by field: clearing this much memory at once takes longer than the rest of a call. */
    t->desc.size = sizeof t->desc;
    t->desc.flags = 0;
    t->desc.dtype = dtype;
    t->desc.layout = TN_INTERNED_STRIDED;
    t->desc.reserved = 0;
    t->desc.device = device;
    atomic_init(&t->refs, 1);
    t->state = 0;
    t->ctx = ctx;
    t->autograd = NULL;
    t->base = NULL;
    int32_t status = give_dims(t, rank);
    if (TNI_UNLIKELY(status)) {
        tni_free(ctx, t, sizeof *t);
        return status;
    }
    *out = t;
    return TN_OK;
}

/* 1 if a new storage of so many bytes may contain the tensor. */
static inline int32_t can_embed(const tni_device *device, uint64_t bytes, uint32_t rank)
{
    return device && tni_has_cache(device->allocator, bytes) && rank <= TNI_INLINE_RANK &&
           !(device->ctx->flags & TNI_CONTEXT_SEPARATE_HEADERS);
}

static inline int32_t new_embedded(tni_device *device, uint64_t bytes, tn_dtype dtype, uint32_t rank,
                                   tn_tensor **out)
{
    tni_block *p;
    int32_t status = tni_cache_storage(device->allocator, bytes, &p);
    if (TNI_UNLIKELY(status)) return status;
    tn_tensor *t = &p->tensor; /* its other fields are as made, see block.h */
    (void)tni_storage_start(p, bytes);
    t->desc.dtype = dtype;
    t->desc.rank = rank;
    t->desc.strides = t->inline_dims + rank;
    atomic_init(&t->refs, 1);
    *out = t;
    return TN_OK;
}

static void free_header(tn_tensor *t)
{
    tn_context *ctx = t->ctx;
    tni_tensor_free_dims(t);
    tni_free(ctx, t, sizeof *t);
}

/*
 * Both fill in sizes, strides, numel and state; *extent is the number of elements of storage from the first
 * one to the last, 0 when there is none.
 */

/* Row-major, with every product checked. */
static int32_t fill_checked(tn_tensor *t, uint32_t rank, const int64_t *sizes)
{
    int64_t stride = 1, numel = 1;
    int32_t status = tni_numel(rank, sizes, &numel);
    for (uint32_t i = rank; i-- > 0 && !status;) {
        t->dims[i] = sizes[i];
        t->dims[rank + i] = stride;
        if (__builtin_mul_overflow(stride, sizes[i] > 1 ? sizes[i] : 1, &stride))
            status = tni_error(TN_E_SHAPE, "the sizes are too large: their strides overflow");
    }
    t->numel = numel;
    return status;
}

/* 0 if the product of `rank` sizes cannot overflow; `bits` is their OR. */
static inline int32_t may_overflow(uint64_t bits, uint32_t rank)
{
    return (64u - (uint32_t)__builtin_clzll(bits)) * rank > 58;
}

/* State bits of a row-major tensor; only ranks 4 and 5 have channels to check. */
static inline uint32_t contiguous_state(const tn_tensor *t, uint32_t rank)
{
    return rank - 4 < 2 ? tni_stride_state(rank, t->dims, t->dims + rank) : TNI_CONTIGUOUS | TNI_DENSE;
}

/* Row-major, with elements, and known not to overflow. */
static inline void fill_embedded(tn_tensor *t, uint32_t rank, const int64_t *sizes)
{
    int64_t stride = 1;
    for (uint32_t i = rank; i-- > 0; stride *= sizes[i]) {
        t->dims[i] = sizes[i];
        t->dims[rank + i] = stride;
    }
    t->numel = stride;
}

/* Row-major. */
static int32_t fill_contiguous(tn_tensor *t, uint32_t rank, const int64_t *sizes, int64_t *extent)
{
    int64_t stride = 1, numel = 1;
    uint64_t bits = 1;
    for (uint32_t i = 0; i < rank; i++) bits |= (uint64_t)sizes[i];
    if (TNI_UNLIKELY(may_overflow(bits, rank))) {
        int32_t status = fill_checked(t, rank, sizes);
        if (status) return status;
    } else {
        for (uint32_t i = rank; i-- > 0;) {
            int64_t n = sizes[i];
            t->dims[i] = n;
            t->dims[rank + i] = stride;
            stride *= n > 1 ? n : 1;
            numel *= n;
        }
        t->numel = numel;
    }
    *extent = t->numel;
    t->state |= contiguous_state(t, rank);
    return TN_OK;
}

static int32_t refuse_strides(uint32_t rank, const int64_t *sizes, const int64_t *strides)
{
    char text[256];
    int64_t ignored;
    for (uint32_t i = 0; i < rank; i++) {
        if (strides[i] < 0)
            return tni_error(TN_E_SHAPE, "Negative strides are not supported at the moment, got strides: %s",
                             tni_shape_text(rank, strides, text, sizeof text));
    }
    int32_t status = tni_numel(rank, sizes, &ignored);
    if (!status) status = tni_storage_extent(rank, sizes, strides, &ignored);
    return status ? status : tni_error(TN_E_SHAPE, "the sizes are too large: their extent overflows");
}

static __attribute__((noinline)) int32_t fill_strided_checked(tn_tensor *t, uint32_t rank,
                                                              const int64_t *sizes, const int64_t *strides,
                                                              int64_t *extent)
{
    int64_t numel = 1, last = 0, step;
    int32_t bad = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t n = sizes[i], stride = strides[i];
        bad |= n < 0;
        bad |= stride < 0;
        bad |= __builtin_mul_overflow(numel, n, &numel);
        bad |= __builtin_mul_overflow(n > 1 ? n - 1 : 0, stride, &step);
        bad |= __builtin_add_overflow(last, step, &last);
    }
    if (bad || last == INT64_MAX) return refuse_strides(rank, sizes, strides);
    if (rank) memcpy(t->dims, sizes, rank * sizeof *sizes);
    if (rank) memcpy(t->dims + rank, strides, rank * sizeof *strides);
    t->numel = numel;
    *extent = numel ? last + 1 : 0;
    t->state |= tni_stride_state(rank, sizes, strides);
    return TN_OK;
}

static inline int32_t fill_strided(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                                   int64_t *extent)
{
    int64_t numel = 1, last = 0, row_major = 1;
    uint64_t bits = 1;
    uint32_t differs = rank - 4 < 2; /* ranks with channels: see tni_stride_state */
    for (uint32_t i = 0; i < rank; i++) bits |= (uint64_t)sizes[i] | (uint64_t)strides[i];
    /* Can a product of sizes or a sum of steps overflow? `bits` is the OR of all. */
    if (TNI_UNLIKELY((64u - (uint32_t)__builtin_clzll(bits)) * (rank > 3 ? rank : 3) > 60))
        return fill_strided_checked(t, rank, sizes, strides, extent);
    for (uint32_t i = rank; i-- > 0;) {
        int64_t n = sizes[i], stride = strides[i];
        t->dims[i] = n;
        t->dims[rank + i] = stride;
        numel *= n;
        last += (n - (n > 0)) * stride;
        differs |= n != 1 && stride != row_major;
        row_major *= n;
    }
    t->numel = numel;
    *extent = numel ? last + 1 : 0;
    t->state |= differs || !numel ? tni_stride_state(rank, sizes, strides) : TNI_CONTIGUOUS | TNI_DENSE;
    return TN_OK;
}

static inline int32_t fill(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                           int64_t *extent)
{
    return strides ? fill_strided(t, rank, sizes, strides, extent) : fill_contiguous(t, rank, sizes, extent);
}

/* Points the descriptor at an element of a storage. */
static inline __attribute__((always_inline)) void point(tn_tensor *t, tni_storage *s, int64_t offset)
{
    uint64_t bytes = (uint64_t)offset * item_bytes(t->desc.dtype);
    t->storage = s;
    t->offset = offset;
    t->desc.allocation = s->allocation;
    t->desc.byte_offset = s->offset + bytes;
    t->desc.host = s->host ? s->host + bytes : NULL;
    t->desc.address = s->address ? s->address + bytes : 0;
}

/* Bytes of storage up to the end of the view. */
static inline int32_t needed_bytes(const tn_tensor *t, int64_t extent, int64_t offset, int64_t *out)
{
    if (TNI_LIKELY(!__builtin_add_overflow(extent, extent ? offset : 0, &extent) &&
                   !__builtin_mul_overflow(extent, (int64_t)item_bytes(t->desc.dtype), out)))
        return TN_OK;
    return tni_error(TN_E_SHAPE, "the sizes are too large: their bytes overflow");
}

static __attribute__((noinline)) int32_t out_of_bounds(const tn_tensor *t, const tni_storage *s,
                                                       int64_t extent, int64_t offset)
{
    int64_t bytes = 0;
    char sizes[256], strides[256];
    if (offset < 0) return tni_error(TN_E_INDEX, "Tensor: invalid storage offset %lld", (long long)offset);
    int32_t status = needed_bytes(t, extent, offset, &bytes);
    if (status) return status;
    return tni_error(
        TN_E_INDEX,
        "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %llu requiring a storage "
        "size of %lld are out of bounds for storage of size %llu",
        tni_shape_text(t->desc.rank, t->desc.sizes, sizes, sizeof sizes),
        tni_shape_text(t->desc.rank, t->desc.strides, strides, sizeof strides), (long long)offset,
        (unsigned long long)item_bytes(t->desc.dtype), (long long)bytes, (unsigned long long)s->bytes);
}

static inline int32_t check_bounds(const tn_tensor *t, const tni_storage *s, int64_t extent, int64_t offset)
{
    int64_t end, bytes;
    int32_t too_much = (int32_t)__builtin_add_overflow(extent, extent ? offset : 0, &end) |
                       (int32_t)__builtin_mul_overflow(end, (int64_t)item_bytes(t->desc.dtype), &bytes);
    if (TNI_LIKELY(!too_much && offset >= 0 && (uint64_t)bytes <= s->bytes)) return TN_OK;
    return out_of_bounds(t, s, extent, offset);
}

static uint32_t mode_state(void)
{
    return TNI_UNLIKELY(tni_tls.grad_mode == TN_GRAD_INFERENCE) ? TNI_INFERENCE : 0;
}

/* ---- Making -------------------------------------------------------------------------------------------- */

static inline int32_t check_dtype(tn_context *ctx, tn_dtype dtype)
{
    return TNI_LIKELY(tni_dtype_index(dtype) >= 0) ? TN_OK : tni_dtype_check(ctx, dtype, "");
}

int32_t tni_tensor_like(const tn_tensor *model, tn_dtype dtype, tn_tensor **out)
{
    tni_device *device = model->storage->device;
    uint64_t bytes = (uint64_t)(model->numel * tn_dtype_bytes(dtype));
    uint32_t rank = model->desc.rank;
    tn_tensor *t;
    if (TNI_UNLIKELY(!can_embed(device, bytes, rank)))
        return tni_tensor_create(model->ctx, model->desc.device, dtype, rank, model->desc.sizes, NULL, out);
    int32_t status = new_embedded(device, bytes, dtype, rank, &t);
    if (TNI_UNLIKELY(status)) return status;
    fill_embedded(t, rank, model->dims); /* not its strides: those of dimensions of size 1 are arbitrary */
    t->state = TNI_EMBEDDED | mode_state() | (model->state & SHAPE_STATE);
    *out = t;
    return TN_OK;
}

/* The bytes of a row-major tensor; 0 if it has none, or if computing them may overflow. */
static inline uint64_t row_major_bytes(tn_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    uint64_t numel = 1, bits = 1;
    for (uint32_t i = 0; i < rank; i++) {
        bits |= (uint64_t)sizes[i];
        numel *= (uint64_t)sizes[i];
    }
    return may_overflow(bits, rank) ? 0 : numel * item_bytes(dtype);
}

static inline int32_t create_embedded(tni_device *device, uint64_t bytes, tn_dtype dtype, uint32_t rank,
                                      const int64_t *sizes, tn_tensor **out)
{
    tn_tensor *t;
    int32_t status = new_embedded(device, bytes, dtype, rank, &t);
    if (TNI_UNLIKELY(status)) return status;
    fill_embedded(t, rank, sizes);
    t->state = TNI_EMBEDDED | mode_state() | contiguous_state(t, rank);
    *out = t;
    return TN_OK;
}

int32_t tni_tensor_create(tn_context *ctx, tn_device device, tn_dtype dtype, uint32_t rank,
                          const int64_t *sizes, const int64_t *strides, tn_tensor **out)
{
    tni_device *d = NULL;
    tni_storage *s;
    tn_tensor *t;
    int64_t extent, bytes = 0;
    int32_t status = check_dtype(ctx, dtype);
    if (status) return status;
    if (TNI_LIKELY(TN_DEVICE_TYPE(device) != TN_INTERNED_META)) {
        d = tni_device_get(ctx, device);
        if (TNI_UNLIKELY(!d)) return tn_last_error()->code;
        device = d->id;
    }
    if (TNI_LIKELY(!strides)) {
        uint64_t need = row_major_bytes(dtype, rank, sizes);
        if (TNI_LIKELY(can_embed(d, need, rank))) return create_embedded(d, need, dtype, rank, sizes, out);
    }
    status = new_header(ctx, device, dtype, rank, &t);
    if (TNI_UNLIKELY(status)) return status;
    t->state = mode_state();
    status = fill(t, rank, sizes, strides, &extent);
    if (TNI_LIKELY(!status)) status = needed_bytes(t, extent, 0, &bytes);
    if (TNI_LIKELY(!status))
        status = d ? tni_storage_create(d, (uint64_t)bytes, &s)
                   : tni_storage_create_meta(ctx, (uint64_t)bytes, &s);
    if (TNI_UNLIKELY(status)) {
        free_header(t);
        return status;
    }
    point(t, s, 0);
    *out = t;
    return TN_OK;
}

/* A header over a storage, whose reference stays with the caller. */
static inline int32_t new_on(tni_storage *storage, tn_device device, tn_dtype dtype, uint32_t rank,
                             const int64_t *sizes, const int64_t *strides, int64_t offset, uint32_t state,
                             tn_tensor **out)
{
    tn_tensor *t;
    int64_t extent;
    int32_t status = new_header(storage->ctx, device, dtype, rank, &t);
    if (TNI_UNLIKELY(status)) return status;
    t->state = state;
    status = fill(t, rank, sizes, strides, &extent);
    if (TNI_LIKELY(!status)) status = check_bounds(t, storage, extent, offset);
    if (TNI_UNLIKELY(status)) {
        free_header(t);
        return status;
    }
    point(t, storage, offset);
    *out = t;
    return TN_OK;
}

int32_t tni_tensor_on(tni_storage *storage, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                      const int64_t *strides, int64_t offset, tn_tensor **out)
{
    tn_device device = storage->device ? storage->device->id : TN_DEVICE(TN_INTERNED_META, 0);
    int32_t status = check_dtype(storage->ctx, dtype);
    if (status) return status;
    return new_on(storage, device, dtype, rank, sizes, strides, offset, mode_state(), out);
}

int32_t tni_tensor_alias(tn_tensor *t, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                         const int64_t *strides, int64_t offset, tn_tensor **out)
{
    int32_t status = check_dtype(t->ctx, dtype);
    if (!status)
        status = new_on(t->storage, t->desc.device, dtype, rank, sizes, strides, offset,
                        t->state & TNI_INFERENCE, out);
    if (!status) tni_storage_retain(t->storage);
    return status;
}

int32_t tni_tensor_twin(tn_tensor *t, tn_tensor **out)
{
    uint32_t rank = t->desc.rank;
    tn_tensor *v;
    int32_t status = new_header(t->ctx, t->desc.device, t->desc.dtype, rank, &v);
    if (TNI_UNLIKELY(status)) return status;
    for (uint32_t i = 0; i < 2 * rank; i++) v->dims[i] = t->dims[i];
    v->numel = t->numel;
    v->state = t->state & (SHAPE_STATE | TNI_INFERENCE);
    v->storage = t->storage;
    v->offset = t->offset;
    v->desc.flags = t->desc.flags;
    v->desc.allocation = t->desc.allocation;
    v->desc.byte_offset = t->desc.byte_offset;
    v->desc.host = t->desc.host;
    v->desc.address = t->desc.address;
    atomic_fetch_add_explicit(&t->storage->refs, 1, memory_order_relaxed);
    *out = v;
    return TN_OK;
}

/* Makes v a view of the same storage as t. */
static inline void follow(tn_tensor *v, tn_tensor *t)
{
    tn_tensor *base = t->base ? t->base : t;
    atomic_fetch_add_explicit(&t->storage->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&base->refs, 1, memory_order_relaxed);
    v->desc.flags = t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG);
    v->base = base;
}

int32_t tni_tensor_view(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                        int64_t offset, tn_tensor **out)
{
    tn_tensor *v;
    int32_t status = new_on(t->storage, t->desc.device, t->desc.dtype, rank, sizes, strides, offset,
                            t->state & TNI_INFERENCE, &v);
    if (TNI_UNLIKELY(status)) return status;
    follow(v, t);
    *out = v;
    return TN_OK;
}

int32_t tni_tensor_part(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                        int64_t offset, tn_tensor **out)
{
    uint64_t numel, row_major = 1, differs = rank - 4 < 2; /* ranks with channels: see tni_stride_state */
    tn_tensor *v;
    int32_t status = new_header(t->ctx, t->desc.device, t->desc.dtype, rank, &v);
    if (TNI_UNLIKELY(status)) return status;
    for (uint32_t i = rank; i-- > 0;) {
        uint64_t n = (uint64_t)sizes[i], stride = (uint64_t)strides[i];
        v->dims[i] = (int64_t)n;
        v->dims[rank + i] = (int64_t)stride;
        differs |= n != 1 && stride != row_major;
        row_major *= n;
    }
    numel = row_major;
    v->numel = (int64_t)numel;
    v->state =
        (t->state & TNI_INFERENCE) | (TNI_UNLIKELY(differs || !numel) ? tni_stride_state(rank, sizes, strides)
                                                                      : TNI_CONTIGUOUS | TNI_DENSE);
    point(v, t->storage, offset);
    follow(v, t);
    *out = v;
    return TN_OK;
}

int32_t tni_tensor_set_view(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                            int64_t offset)
{
    tn_tensor *v; /* takes the new shape first, so that a failure leaves t as it was */
    int32_t status = tni_tensor_on(t->storage, t->desc.dtype, rank, sizes, strides, offset, &v);
    if (status) return status;
    tni_tensor_free_dims(t);
    if (v->dims == v->inline_dims) {
        memcpy(t->inline_dims, v->inline_dims, sizeof t->inline_dims);
        t->dims = t->inline_dims;
    } else {
        t->dims = v->dims;
        v->dims = v->inline_dims;
    }
    t->desc.rank = rank;
    t->desc.sizes = t->dims;
    t->desc.strides = t->dims + rank;
    t->numel = v->numel;
    t->state = (t->state & ~SHAPE_STATE) | (v->state & SHAPE_STATE);
    point(t, t->storage, offset);
    free_header(v);
    return TN_OK;
}

void tni_tensor_set_storage(tn_tensor *t, tni_storage *storage)
{
    tni_storage *old = t->storage, *home = t->state & TNI_EMBEDDED ? &tni_block_of_tensor(t)->storage : NULL;
    if (storage == old) return;
    if (storage != home) tni_storage_retain(storage);
    t->storage = storage;
    if (old != home) tni_storage_release(old);
}

/* ---- References ---------------------------------------------------------------------------------------- */

tn_tensor *tn_retain(tn_tensor *t)
{
    if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

/* Keeps the header for tni_tensor_check, with its dimensions; all else is released. */
static void keep_dead(tn_tensor *t)
{
    tn_context *ctx = t->ctx;
    t->state = TNI_DEAD;
    t->desc.host = t->desc.allocation = NULL;
    t->desc.address = 0;
    t->storage = NULL;
    t->autograd = NULL;
    atomic_store(&t->refs, 0);
    t->base = atomic_load(&ctx->dead);
    while (!atomic_compare_exchange_weak(&ctx->dead, &t->base, t)) continue;
}

/* Ends a header outside a block, in a context that watches headers. */
static void end_header(tn_tensor *t)
{
    uint32_t flags = t->ctx->flags;
    if (flags & TNI_CONTEXT_LEAKS) tni_debug_ended(t);
    if (flags & TN_CONTEXT_DEBUG_HANDLES)
        keep_dead(t);
    else
        free_header(t);
}

static __attribute__((noinline)) void destroy(tn_tensor *t)
{
    tn_context *ctx = t->ctx;
    tni_storage *s = t->storage;
    if (t->autograd) ctx->autograd->destroy(ctx, t->autograd);
    if (t->base) tn_release(t->base);
    if (t->state & TNI_EMBEDDED)
        s = tni_tensor_restore(t);
    else if (TNI_UNLIKELY(ctx->flags & TNI_CONTEXT_SEPARATE_HEADERS))
        end_header(t);
    else
        free_header(t);
    tni_storage_release(s); /* last: it may be what keeps the context */
}

static __attribute__((noinline)) int32_t refuse_dead(const tn_tensor *t, const char *how)
{
    char sizes[256], origin[TNI_ORIGIN_BYTES];
    const char *dtype = tn_dtype_name(t->desc.dtype);
    return tni_error_logged(t->ctx, TN_E_DEAD_HANDLE,
                            "tensor %p of sizes %s and dtype %s was released and is %s%s", (const void *)t,
                            tni_shape_text(t->desc.rank, t->desc.sizes, sizes, sizeof sizes),
                            dtype ? dtype : "?", how, tni_debug_origin(t->ctx, t, origin, sizeof origin));
}

/* The program's place is an address in one of its files, which addr2line makes a line of. */
static void refuse_second_release(const tn_tensor *t, void *caller)
{
    char how[512];
    Dl_info info = {0};
    int found = dladdr(caller, &info);
    snprintf(how, sizeof how, "released again at %s+0x%llx", found ? info.dli_fname : "address 0",
             (unsigned long long)((uintptr_t)caller - (uintptr_t)info.dli_fbase));
    (void)refuse_dead(t, how);
}

/* Another thread may retain the tensor although the count is 1, so the count goes to 0 before the tensor ends. */
static __attribute__((noinline)) void release_rarely(tn_tensor *t, void *caller)
{
    if (t->state & TNI_DEAD)
        refuse_second_release(t, caller);
    else if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1)
        destroy(t);
}

void tn_release(tn_tensor *t)
{
    if (!t) return;
    if (TNI_UNLIKELY(t->state & (TNI_DEAD | TNI_RETAINS_GRAD))) {
        release_rarely(t, __builtin_return_address(0));
        return;
    }
    if (atomic_load_explicit(&t->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (TNI_LIKELY(t->state & TNI_EMBEDDED && tni_tensor_is_as_made(t)))
        tni_storage_release(t->storage); /* most end here */
    else
        destroy(t);
}

/* A resize gives the storage another block; descriptors of its other views are updated here. */
static void follow_storage(const tn_tensor *t)
{
    if (TNI_LIKELY(!(atomic_load_explicit(&t->ctx->flags, memory_order_relaxed) & TNI_CONTEXT_MOVED))) return;
    if (t->storage->block) point((tn_tensor *)(uintptr_t)t, t->storage, t->offset);
}

int32_t tni_tensor_check(const tn_tensor *t)
{
    if (TNI_UNLIKELY(!t)) return tni_error(TN_E_ARGUMENT, "a tensor is missing");
    if (TNI_UNLIKELY(t->state & TNI_DEAD)) return refuse_dead(t, "used again");
    if (TNI_UNLIKELY(tni_context_is_forked(t->ctx))) return tni_context_check(t->ctx);
    follow_storage(t);
    return TN_OK;
}

void tni_dead_tensors_finish(tn_context *ctx)
{
    tn_tensor *t = atomic_exchange(&ctx->dead, NULL);
    while (t) {
        tn_tensor *next = t->base;
        free_header(t);
        t = next;
    }
}

/* ---- Queries ------------------------------------------------------------------------------------------- */

int64_t tni_tensor_offset(const tn_tensor *t)
{
    return t->offset;
}

/* Programs also query what a failed call returned: NULL, or a released handle in debug mode. */
static int32_t has_storage(const tn_tensor *t)
{
    return t && t->storage;
}

tn_context *tn_tensor_context(const tn_tensor *t)
{
    return t ? t->ctx : NULL;
}

int64_t tn_tensor_storage_offset(const tn_tensor *t)
{
    return t ? tni_tensor_offset(t) : 0;
}

void *tn_tensor_data(const tn_tensor *t)
{
    if (!t) return NULL;
    follow_storage(t);
    return t->desc.host;
}

int32_t tn_tensor_is_contiguous(const tn_tensor *t, int32_t memory_format)
{
    uint32_t bit = memory_format == TN_CONTIGUOUS_FORMAT  ? TNI_CONTIGUOUS
                   : memory_format == TN_CHANNELS_LAST    ? TNI_CHANNELS_LAST
                   : memory_format == TN_CHANNELS_LAST_3D ? TNI_CHANNELS_LAST_3D
                                                          : 0;
    return t && (t->state & bit) != 0;
}

uint64_t tn_tensor_version(const tn_tensor *t)
{
    return has_storage(t) ? atomic_load_explicit(&t->storage->version, memory_order_relaxed) : 0;
}

int32_t tn_tensor_is_alias(const tn_tensor *a, const tn_tensor *b)
{
    return has_storage(a) && b && a->storage == b->storage;
}

uint64_t tn_tensor_storage_bytes(const tn_tensor *t)
{
    return has_storage(t) ? t->storage->bytes : 0;
}

/* For languages that cannot call the inline queries of tensor.h. */
int64_t tn_tensor_get_rank(const tn_tensor *t)
{
    return tn_tensor_rank(t);
}

tn_dtype tn_tensor_get_dtype(const tn_tensor *t)
{
    return tn_tensor_dtype(t);
}

tn_device tn_tensor_get_device(const tn_tensor *t)
{
    return tn_tensor_device(t);
}

const int64_t *tn_tensor_get_sizes(const tn_tensor *t)
{
    return tn_tensor_sizes(t);
}

const int64_t *tn_tensor_get_strides(const tn_tensor *t)
{
    return tn_tensor_strides(t);
}
