/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors and storages.
 *
 * A storage owns one block of device memory (or the caller's memory) and counts writes: all views of it share
 * the counter. A tensor begins with the descriptor that kernels see, so a tn_tensor * is also a descriptor
 * pointer.
 */
#ifndef TNI_CORE_TENSOR_H
#define TNI_CORE_TENSOR_H

#include "core/device.h"
#include "core/dtype.h"

typedef struct tni_storage {
    atomic_uint refs;
    uint32_t flags;
    tn_context *ctx;
    tni_device *device; /* NULL for "meta" */
    void *allocation;
    uint64_t offset;  /* of byte 0 of the storage in the allocation */
    char *host;       /* address of byte 0, or NULL */
    uint64_t address; /* of byte 0 for the device, or 0 */
    uint64_t bytes;
    atomic_uint_fast64_t version;
    atomic_uint_fast64_t identity; /* 0: not asked for yet, see tni_storage_identity */
    tni_block *block;              /* NULL for foreign memory */
    struct tni_old_block *old;     /* blocks before a resize */
    void (*deleter)(void *user);   /* foreign memory */
    void *deleter_user;
} tni_storage;

#define TNI_INLINE_RANK 6

#define TNI_WANTS_GRAD       1u /* a leaf that requires a gradient, or the result of a recorded call */
#define TNI_CONTIGUOUS       2u /* row-major */
#define TNI_DENSE            4u /* non-overlapping and dense in some order of dimensions */
#define TNI_INFERENCE        8u /* made in inference mode: never takes part in autograd */
#define TNI_CHANNELS_LAST    16u
#define TNI_CHANNELS_LAST_3D 32u
#define TNI_NO_GRAD_VIEW     128u /* a view made while recording was off: does not follow its base's history */
#define TNI_DEAD             64u  /* released; its header is kept because of TN_CONTEXT_DEBUG_HANDLES */
#define TNI_EMBEDDED         256u  /* the header is part of the block of the storage that it was made with */
#define TNI_LEAF             512u  /* requires a gradient because the program said so: no call made it */
#define TNI_RETAINS_GRAD     1024u /* its node knows it, and takes a reference while others release theirs */

struct tn_tensor {
    tn_tensor_desc desc; /* first */
    atomic_uint refs;
    uint32_t state; /* TNI_... above */
    int64_t numel;
    int64_t offset; /* of the first element, in elements from byte 0 of the storage */
    tni_storage *storage;
    tn_context *ctx;
    struct tni_autograd_meta *autograd; /* NULL for most */
    tn_tensor *base;                    /* of a view: the tensor it is a view of, itself no view; else NULL */
    int64_t *dims;                      /* sizes then strides: inline_dims, or memory of 2 * rank */
    int64_t inline_dims[2 * TNI_INLINE_RANK];
};

/* Storages */
#define TNI_STORAGE_EMBEDDED \
    1u /* the struct is part of its first block, which goes when the storage goes \
        */
int32_t tni_storage_create(tni_device *device, uint64_t bytes, tni_storage **out);
/* A storage of the "meta" device: a size without memory. */
int32_t tni_storage_create_meta(tn_context *ctx, uint64_t bytes, tni_storage **out);
/* Foreign host memory; the deleter is called once, on failure too. */
int32_t tni_storage_wrap(tni_device *device, void *data, uint64_t bytes, void (*deleter)(void *user),
                         void *user, tni_storage **out);
/* Memory of a device that did not come from its allocator. The deleter is called once, when work may still be under
 * way; on failure it is not. */
int32_t tni_storage_wrap_memory(tni_device *device, const tn_memory *memory, uint64_t bytes,
                                void (*deleter)(void *user), void *user, tni_storage **out);
/* A storage of the CPU in memory that `pins` has pinned. */
int32_t tni_storage_create_pinned(tni_device *pins, uint64_t bytes, tni_storage **out);
/* The pinned block of a storage of the CPU that has one, else NULL. */
tni_block *tni_storage_pinned(const tni_storage *storage);
/* Grows or shrinks, keeping the first bytes. */
int32_t tni_storage_resize(tni_storage *storage, uint64_t bytes);
void tni_storage_retain(tni_storage *storage);
/* A number that no other storage of the context has or had. */
uint64_t tni_storage_identity(tni_storage *storage);
void tni_storage_destroy(tni_storage *storage);
static inline void tni_storage_release(tni_storage *s)
{
    if (!s) return;
    /* The only reference needs no atomic subtraction: nobody else can be counting. */
    if (atomic_load_explicit(&s->refs, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        tni_storage_destroy(s);
}

/* TN_OK, or the error of a dtype that is neither in the list nor one that the context has interned. */
int32_t tni_dtype_check(tn_context *ctx, tn_dtype dtype, const char *call);
/* Its name for texts. */
const char *tni_dtype_text(tn_context *ctx, tn_dtype dtype);

/* Tensors. All give one reference to the caller. */
/* A new tensor on a new storage. strides NULL: row-major. device may be NULL only for id "meta". */
int32_t tni_tensor_create(tn_context *ctx, tn_device device, tn_dtype dtype, uint32_t rank,
                          const int64_t *sizes, const int64_t *strides, tn_tensor **out);
/* The same on the CPU, in memory that `pins` has pinned. */
int32_t tni_tensor_create_pinned(tni_device *pins, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                                 const int64_t *strides, tn_tensor **out);
/* A new row-major tensor with the sizes and the device of a row-major model: what most calls make. Checks
 * nothing. */
int32_t tni_tensor_like(const tn_tensor *model, tn_dtype dtype, tn_tensor **out);
/* Another view of the storage of `t`, without autograd. offset in elements of dtype from byte 0 of the
 * storage. */
int32_t tni_tensor_alias(tn_tensor *t, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                         const int64_t *strides, int64_t offset, tn_tensor **out);
/* As tni_tensor_alias, with the sizes, strides and flags of `t` itself. */
int32_t tni_tensor_twin(tn_tensor *t, tn_tensor **out);
/* As tni_tensor_alias, remembering `t` (or its base) as base: what view operators give. Keeps conj and neg
 * bits. */
int32_t tni_tensor_view(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                        int64_t offset, tn_tensor **out);
/* The same for a view all of whose elements are elements of `t`: nothing has to be checked. */
int32_t tni_tensor_part(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                        int64_t offset, tn_tensor **out);
/* A tensor over a storage (reference taken over on success only). offset in elements. */
int32_t tni_tensor_on(tni_storage *storage, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                      const int64_t *strides, int64_t offset, tn_tensor **out);
/* Changes the metadata of a tensor in place (resize_, set_, unsqueeze_, ...). Storage must be large enough. */
int32_t tni_tensor_set_view(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                            int64_t offset);
/* Another storage for a tensor, whose view must be set next. Retains it and lets go of the one before. */
void tni_tensor_set_storage(tn_tensor *t, tni_storage *storage);
int64_t tni_tensor_offset(const tn_tensor *t);
/*
 * TN_E_DEAD_HANDLE for a tensor that was released, where the context keeps headers
 * (TN_CONTEXT_DEBUG_HANDLES); TN_E_FORKED for one that was made before a fork; TN_E_ARGUMENT for NULL. A tensor whose storage
 * was moved by a resize shows the new place afterwards.
 */
int32_t tni_tensor_check(const tn_tensor *t);
/* Frees the kept headers; the context is about to go. */
void tni_dead_tensors_finish(tn_context *ctx);

/* Frees the dimensions of a tensor of high rank. */
static inline void tni_tensor_free_dims(tn_tensor *t)
{
    if (TNI_UNLIKELY(t->dims != t->inline_dims))
        tni_free(t->ctx, t->dims, 2 * t->desc.rank * sizeof *t->dims);
}
static inline const char *tni_tensor_host(const tn_tensor *t)
{
    return (const char *)t->desc.host;
}
static inline int32_t tni_is_contiguous(const tn_tensor *t)
{
    return (t->state & TNI_CONTIGUOUS) != 0;
}
/* The state bits of t; a view takes part in autograd when its base does. */
static inline uint32_t tni_autograd_state_of(const tn_tensor *t)
{
    uint32_t state = t->state;
    return t->base ? state | (t->base->state & TNI_WANTS_GRAD) : state;
}
/* A view whose base takes part in autograd, so that its history follows the base's. */
static inline int32_t tni_follows_base(const tn_tensor *t)
{
    return t->base && (t->base->state & TNI_WANTS_GRAD) && !(t->state & TNI_NO_GRAD_VIEW) &&
           tni_is_differentiable(t->desc.dtype);
}
/* What tn_requires_grad and tn_is_leaf answer: autograd keeps the bits that they read. */
static inline int32_t tni_wants_grad(const tn_tensor *t)
{
    return (t->state & TNI_WANTS_GRAD) || tni_follows_base(t);
}
static inline int32_t tni_is_leaf(const tn_tensor *t)
{
    return (t->state & TNI_LEAF) || !tni_wants_grad(t);
}
static inline void tni_bump_version(tn_tensor *t)
{
    atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_relaxed);
}

#endif
