/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors: an n-dimensional strided view of a storage on one device.
 *
 * A tensor is reference counted. Its metadata changes after creation only through the in-place view operators
 * (`unsqueeze_`, `resize_`, `set_`, ...). Queries are safe from any thread; streams, not locks, order the
 * writing of data.
 *
 * Functions that take a scope do nothing and return NULL, 0 or the status once the scope has failed.
 */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include <tenon/context.h>

TN_BEGIN_DECLS

/*
 * What a kernel sees of a tensor; every tensor begins with its descriptor. Sizes and strides are in elements,
 * outermost dimension first. `allocation` is the handle that the device's memory interface gave; the first
 * element lies `byte_offset` bytes into it. `address` is the address of the first element for the device, if
 * its kernels compute with addresses, else 0. `host` is the address of the first element if the host can read it,
 * else NULL.
 *
 * Alignment: allocations are aligned as the device's facts say. A tensor that the host allocates begins at a
 * multiple of that alignment, and of 64 bytes. A view begins at any element, so `byte_offset` is then a
 * multiple of the element size only. (A tensor over foreign host memory, tn_from_blob, is aligned as that
 * memory is.)
 */
#define TN_DESC_CONJ    1u /* elements are conjugated when read */
#define TN_DESC_NEG     2u /* elements are negated when read */
#define TN_DESC_WRAPPED 4u /* a 0-dim tensor made from a scalar: promotes as a scalar */

typedef struct tn_tensor_desc {
    uint32_t size;
    uint32_t flags; /* TN_DESC_... */
    tn_dtype dtype;
    uint32_t layout; /* interned; with TN_INTERNED_STRIDED the fields below describe all elements */
    uint32_t rank;
    uint32_t reserved;
    tn_device device;
    uint64_t byte_offset;
    void *allocation;
    void *host;
    uint64_t address;
    const int64_t *sizes;
    const int64_t *strides;
} tn_tensor_desc;

/* The descriptor of a tensor; NULL for NULL. It is valid as long as the tensor. */
static inline const tn_tensor_desc *tn_desc(const tn_tensor *t)
{
    return TN_CAST(const tn_tensor_desc *, TN_CAST(const void *, t));
}
/*
 * Queries. Of NULL, which a failed call returns: rank 0, dtype 0, device 0, sizes and strides of TN_MAX_RANK zeros,
 * numel 0.
 */
static inline int64_t tn_tensor_rank(const tn_tensor *t)
{
    return t ? TN_CAST(int64_t, tn_desc(t)->rank) : 0;
}
static inline tn_dtype tn_tensor_dtype(const tn_tensor *t)
{
    return t ? tn_desc(t)->dtype : 0;
}
static inline tn_device tn_tensor_device(const tn_tensor *t)
{
    return t ? tn_desc(t)->device : 0;
}
static inline const int64_t *tn_no_sizes(void)
{
    static const int64_t none[TN_MAX_RANK] = {0};
    return none;
}
static inline const int64_t *tn_tensor_sizes(const tn_tensor *t)
{
    return t ? tn_desc(t)->sizes : tn_no_sizes();
}
static inline const int64_t *tn_tensor_strides(const tn_tensor *t)
{
    return t ? tn_desc(t)->strides : tn_no_sizes();
}
static inline int64_t tn_tensor_numel(const tn_tensor *t)
{
    const tn_tensor_desc *d = tn_desc(t);
    int64_t n = 1;
    if (!d) return 0;
    for (uint32_t i = 0; i < d->rank; i++) n *= d->sizes[i];
    return n;
}
/* Bytes of one element. */
static inline int64_t tn_dtype_bytes(tn_dtype dtype)
{
    return TN_CAST(int64_t, (TN_DTYPE_BITS(dtype) * TN_DTYPE_LANES(dtype) + 7u) / 8u);
}

/* Size of one dimension, negative counted from the end; 0 for a dimension that is not there. */
static inline int64_t tn_tensor_size(const tn_tensor *t, int64_t dim)
{
    int64_t rank = tn_tensor_rank(t), d = dim < 0 ? dim + rank : dim;
    return d >= 0 && d < rank ? tn_tensor_sizes(t)[d] : 0;
}

#ifndef TN_PLUGIN
/* One more reference; returns t. NULL is passed through. */
TN_API tn_tensor *tn_retain(TN_NULLABLE tn_tensor *t) TN_ANY_THREAD;
/* One reference less. NULL is ignored. */
TN_API void tn_release(TN_TAKES TN_NULLABLE tn_tensor *t) TN_ANY_THREAD;

TN_API tn_context *tn_tensor_context(const tn_tensor *t) TN_ANY_THREAD;
/* Offset of the first element from the start of the storage, in elements. */
TN_API int64_t tn_tensor_storage_offset(const tn_tensor *t) TN_ANY_THREAD;
/* Address of the first element if the host can read it, else NULL. Does not wait: queued work may still write
 * there. On a device with streams the host may use the elements when the work that uses them has finished
 * (tn_stream_synchronize), until the program queues more. */
TN_API void *tn_tensor_data(const tn_tensor *t) TN_ANY_THREAD;
/* 1 if contiguous in that memory format (TN_CONTIGUOUS_FORMAT, TN_CHANNELS_LAST, TN_CHANNELS_LAST_3D). */
TN_API int32_t tn_tensor_is_contiguous(const tn_tensor *t, int32_t memory_format) TN_ANY_THREAD;
/* Counts in-place writes to the storage that the tensor and its views share. */
TN_API uint64_t tn_tensor_version(const tn_tensor *t) TN_ANY_THREAD;
/* 1 if both are views of one storage. */
TN_API int32_t tn_tensor_is_alias(const tn_tensor *a, const tn_tensor *b) TN_ANY_THREAD;
TN_API uint64_t tn_tensor_storage_bytes(const tn_tensor *t) TN_ANY_THREAD;

/* Name of a dtype as users know it ("float32"), or NULL. */
TN_API const char *tn_dtype_name(tn_dtype dtype) TN_ANY_THREAD;
/* The dtype of a name or alias ("float", "half", "long"), or 0. */
TN_API tn_dtype tn_dtype_parse(const char *name) TN_ANY_THREAD;
/* The dtype that a vendor calls `name`, of so many bits: the same for the same name in one context, with a code from
 * TN_CODE_VENDOR up. 0 and an error if the name has other bits, or the codes are used up. */
TN_API tn_dtype tn_dtype_intern(tn_context *ctx, const char *name, uint32_t bits) TN_ANY_THREAD;
/* The name of such a dtype, or that of tn_dtype_name; NULL if there is none. */
TN_API const char *tn_dtype_interned(tn_context *ctx, tn_dtype dtype) TN_ANY_THREAD;
TN_API int32_t tn_dtype_is_floating(tn_dtype dtype) TN_ANY_THREAD;
TN_API int32_t tn_dtype_is_complex(tn_dtype dtype) TN_ANY_THREAD;
/* The dtype that an operator computes in for inputs of both dtypes; 0 if there is none (float8 with
 * others). */
TN_API tn_dtype tn_promote_types(tn_dtype a, tn_dtype b) TN_ANY_THREAD;
/* 1 if a result of `from` may be written to `to` (in-place and out= rule). */
TN_API int32_t tn_can_cast(tn_dtype from, tn_dtype to) TN_ANY_THREAD;

/* Reads "cpu", "cuda:1"; other texts: TN_DEVICE_MISSING and an error. Starts no driver: the first use finds it missing. */
TN_API tn_device tn_device_parse(tn_context *ctx, const char *text) TN_ANY_THREAD;
/* Writes "cuda:1" into `buffer`, truncated to `bytes` with its terminating zero, and returns `buffer`. */
TN_API const char *tn_device_format(tn_context *ctx, tn_device device, char *buffer,
                                    uint64_t bytes) TN_ANY_THREAD;

/*
 * A new tensor with a copy of host memory: `data` holds the elements row-major, in `dtype` (bool: bytes 0 and
 * 1). `device` 0: the scope's default device.
 */
TN_API TN_SCOPED tn_tensor *tn_from_data(tn_scope *s, tn_dtype dtype, tn_ints sizes, const void *data,
                                         tn_device device);
/*
 * A CPU tensor over the caller's memory, which is not copied. `strides` (in elements) absent: row-major.
 * `deleter` (may be NULL) is called once with `user`, on the thread that releases the last view.
 */
typedef struct tn_blob {
    uint32_t size;
    tn_dtype dtype;
    void *data;
    tn_ints sizes;
    tn_ints strides;
    int64_t storage_offset; /* of the first element from `data`, in elements */
    void (*deleter)(void *user);
    void *user;
} tn_blob;
TN_API TN_SCOPED tn_tensor *tn_from_blob(tn_scope *s, const tn_blob *blob);

/*
 * A copy of a CPU tensor in pinned memory of the host, or `t` itself if it has such memory. Copies between pinned memory
 * and a device with `non_blocking` return before they are done. `device` is the device that pins; 0: the first one that
 * is open and pins memory, else the best one that does. TN_E_DEVICE if there is none.
 */
TN_API TN_SCOPED tn_tensor *tn_pin_memory(tn_scope *s, tn_tensor *t, tn_device device);
/* 1 if the tensor has memory that Tenon has pinned. */
TN_API int32_t tn_is_pinned(const tn_tensor *t) TN_ANY_THREAD;

/* A 0-dim tensor with one scalar. `dtype` 0: int64, bool, the default float or complex dtype, by its kind. */
TN_API TN_SCOPED tn_tensor *tn_scalar_tensor_of(tn_scope *s, tn_value scalar, tn_dtype dtype,
                                                tn_device device);

/* The value of a tensor with one element; NaN or 0 on failure (tn_item_complex returns a status). Waits for
 * the tensor's stream. */
TN_API double tn_item_double(tn_scope *s, const tn_tensor *t);
TN_API int64_t tn_item_int(tn_scope *s, const tn_tensor *t);
TN_API int32_t tn_item_bool(tn_scope *s, const tn_tensor *t);
TN_API int32_t tn_item_complex(tn_scope *s, const tn_tensor *t, TN_OUT double out[2]);
/* Copies all elements to `out`, row-major, in the tensor's dtype, conjugated and negated where the tensor
 * says so. `bytes` must be numel times the element size. Waits for the copy. */
TN_API int32_t tn_to_host(tn_scope *s, const tn_tensor *t, TN_OUT void *out, uint64_t bytes);

/*
 * How tn_format prints a tensor, in PyTorch's words. A field that is 0 takes its default: precision 4,
 * threshold 1000, edge_items 3, line_width 80.
 */
typedef struct tn_print_options {
    uint32_t size;
    int32_t precision;
    int32_t threshold;
    int32_t edge_items;
    int32_t line_width;
    int32_t scientific; /* 0 automatic, 1 always, -1 never */
} tn_print_options;
/* The text of a tensor as PyTorch prints it. It lives as long as the scope; "" on failure, never NULL. */
TN_API const char *tn_format(tn_scope *s, const tn_tensor *t, TN_NULLABLE const tn_print_options *options);

/*
 * Indexing: x[0:5, :, 3, mask] is tn_index(s, x, TN_SLICE(0, 5), TN_ALL, TN_AT(3), TN_BY(mask)). Slices,
 * integers (also as 0-dim tensors), None and Ellipsis give a view; index tensors and masks give a copy.
 */
#define TN_INDEX_SLICE    0u
#define TN_INDEX_AT       1u
#define TN_INDEX_TENSOR   2u
#define TN_INDEX_NONE     3u
#define TN_INDEX_ELLIPSIS 4u
#define TN_INDEX_BOOL     5u
typedef struct tn_index_item {
    uint32_t kind;
    uint32_t reserved;
    int64_t start; /* TN_NONE: from the beginning; for AT the position, for BOOL 0 or 1 */
    int64_t stop;  /* TN_NONE: to the end */
    int64_t step;
    tn_tensor *tensor;
} tn_index_item;
TN_API TN_SCOPED tn_tensor *tn_index_items(tn_scope *s, tn_tensor *x, const tn_index_item *items,
                                           int64_t count);
/* x[items] = value, broadcast and cast to x; returns x. */
TN_API tn_tensor *tn_index_put_items(tn_scope *s, tn_tensor *x, tn_tensor *value, const tn_index_item *items,
                                     int64_t count);
static inline tn_index_item tn_index_item_of(uint32_t kind, int64_t start, int64_t stop, int64_t step,
                                             tn_tensor *tensor)
{
    tn_index_item item;
    item.kind = kind;
    item.reserved = 0;
    item.start = start;
    item.stop = stop;
    item.step = step;
    item.tensor = tensor;
    return item;
}
#define TN_SLICE_3(a, b, c, ...) tn_index_item_of(TN_INDEX_SLICE, (a), (b), (c), NULL)
#define TN_SLICE(...)            TN_SLICE_3(__VA_ARGS__, 1, 1)
#define TN_ALL                   tn_index_item_of(TN_INDEX_SLICE, TN_NONE, TN_NONE, 1, NULL)
#define TN_AT(i)                 tn_index_item_of(TN_INDEX_AT, (i), 0, 1, NULL)
#define TN_BY(t)                 tn_index_item_of(TN_INDEX_TENSOR, 0, 0, 1, (t))
#define TN_NEW_DIM               tn_index_item_of(TN_INDEX_NONE, 0, 0, 1, NULL)
#define TN_ELLIPSIS              tn_index_item_of(TN_INDEX_ELLIPSIS, 0, 0, 1, NULL)
#ifndef __cplusplus /* place.h has them for C++ */
#define TN_INDEX_LIST(...)                \
    (const tn_index_item[]){__VA_ARGS__}, \
        (int64_t)(sizeof((const tn_index_item[]){__VA_ARGS__}) / sizeof(tn_index_item))
#define tn_index(s, x, ...)           tn_index_items(s, x, TN_INDEX_LIST(__VA_ARGS__))
#define tn_index_assign(s, x, v, ...) tn_index_put_items(s, x, v, TN_INDEX_LIST(__VA_ARGS__))
#endif

/*
 * DLPack 1.x. Export shares the memory and keeps the storage alive until the consumer calls the deleter.
 * Import takes `managed` and calls its deleter when the last view is released.
 */
struct DLManagedTensorVersioned;
TN_API int32_t tn_to_dlpack(tn_tensor *t,
                            TN_OUT TN_GIVES struct DLManagedTensorVersioned **out) TN_ANY_THREAD;
TN_API TN_SCOPED tn_tensor *tn_from_dlpack(tn_scope *s, TN_TAKES struct DLManagedTensorVersioned *managed);

/*
 * The queries at the top of this header as exported functions, for languages that cannot call inline ones. Sizes and strides
 * are `rank` numbers, in elements; they are valid until the tensor is released or changed in place (resize_, t_, set_).
 */
TN_API int64_t tn_tensor_get_rank(const tn_tensor *t) TN_ANY_THREAD;
TN_API tn_dtype tn_tensor_get_dtype(const tn_tensor *t) TN_ANY_THREAD;
TN_API tn_device tn_tensor_get_device(const tn_tensor *t) TN_ANY_THREAD;
TN_API const int64_t *tn_tensor_get_sizes(const tn_tensor *t) TN_ANY_THREAD;
TN_API const int64_t *tn_tensor_get_strides(const tn_tensor *t) TN_ANY_THREAD;
/* Bytes of one element, 0 for dtype 0. */
TN_API int64_t tn_dtype_get_bytes(tn_dtype dtype) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
