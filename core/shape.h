/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of sizes and strides. All functions check for overflow and write an error where they can fail. */
#ifndef TNI_CORE_SHAPE_H
#define TNI_CORE_SHAPE_H

#include <string.h>

#include "core/tensor.h"

typedef struct tni_shape {
    uint32_t rank;
    int64_t sizes[TN_MAX_RANK];
} tni_shape;

/* Number of elements; TN_E_SHAPE for negative sizes or overflow. */
int32_t tni_numel(uint32_t rank, const int64_t *sizes, int64_t *out);
void tni_contiguous_strides(uint32_t rank, const int64_t *sizes, int64_t *out);
/* Strides of a memory format; rank must fit (4 for channels-last, 5 for 3d). */
int32_t tni_format_strides(uint32_t rank, const int64_t *sizes, int32_t format, int64_t *out);
/*
 * TNI_CONTIGUOUS, TNI_DENSE, TNI_CHANNELS_LAST(_3D) as they hold: strides of dimensions of size 1 do not
 * count, so a tensor may be several at once.
 */
uint32_t tni_stride_state(uint32_t rank, const int64_t *sizes, const int64_t *strides);
/*
 * The one memory format that the strides speak for, as ATen's suggest_memory_format: strides of dimensions of
 * size 1 count here, and what is ambiguous is TN_CONTIGUOUS_FORMAT. The tensor need not be dense.
 */
int32_t tni_stride_format(uint32_t rank, const int64_t *sizes, const int64_t *strides);
/*
 * Strides of a new dense tensor of `sizes` that keeps the order of dimensions of `t`, which has that shape or
 * broadcasts to it (preserve_format): those of `t` itself where it is dense and of the same shape.
 */
void tni_preserve_strides(const tn_tensor *t, uint32_t rank, const int64_t *sizes, int64_t *out);
/* The same of several inputs, for the output of a pointwise operator: where one leaves the order open the
 * next decides. */
void tni_pointwise_strides(tn_tensor *const *inputs, uint32_t count, uint32_t rank, const int64_t *sizes,
                           int64_t *out);
/* Elements of storage that a view touches, from its first: 0 when it is empty. */
int32_t tni_storage_extent(uint32_t rank, const int64_t *sizes, const int64_t *strides, int64_t *out);
/* Bytes of a storage that has so many elements of `item` bytes behind the offset: 0 without elements. An error if no storage can. */
int32_t tni_storage_needed(int64_t offset, int64_t extent, int64_t item, uint64_t *out);

/* Broadcasts `sizes` into *shape. Error text is ATen's. */
int32_t tni_broadcast(tni_shape *shape, uint32_t rank, const int64_t *sizes);
/* -rank <= dim < rank (a rank of 0 counts as 1), else TN_E_INDEX in ATen's words. */
void tni_refuse_dim(int64_t dim, int64_t n);
static inline int32_t tni_wrap_dim(int64_t dim, int64_t rank, int64_t *out)
{
    int64_t n = rank ? rank : 1;
    if (TNI_UNLIKELY(dim < -n || dim >= n)) {
        tni_refuse_dim(dim, n);
        return TN_E_INDEX;
    }
    *out = dim < 0 ? dim + n : dim;
    return TN_OK;
}
/* Bit mask of a dim or a list of them; absent: all; empty: all if `empty_is_all`, else none. Duplicates are
 * refused. */
int32_t tni_dim_mask(tn_value dims, int64_t rank, int32_t empty_is_all, uint64_t *out);
/* "-1" in a requested shape; numel must fit. */
int32_t tni_infer_size(const int64_t *requested, uint32_t rank, int64_t numel, int64_t *out);
/* Strides that let a view of `sizes`/`strides` be seen as new sizes without a copy; returns 0 if there are
 * none. */
int32_t tni_view_strides(uint32_t rank, const int64_t *sizes, const int64_t *strides, uint32_t new_rank,
                         const int64_t *new_sizes, int64_t *out);
/* "[2, 3]" into buffer; returns buffer. */
const char *tni_shape_text(uint32_t rank, const int64_t *sizes, char *buffer, uint64_t bytes);

static inline int32_t tni_same_shape(const tn_tensor *a, const tn_tensor *b)
{
    return a->desc.rank == b->desc.rank &&
           memcmp(a->desc.sizes, b->desc.sizes, a->desc.rank * sizeof *a->desc.sizes) == 0;
}

/*
 * Memory overlap, as ATen's checks for in-place operators see it: only what is sure counts. Elements meet in
 * a tensor with a stride of 0; two tensors are compared if both are dense, or of the same geometry.
 */
int32_t tni_overlaps_itself(const tn_tensor *t); /* more than one element at one location */
/* Whether strides do not keep the elements of a new tensor apart: from the smallest one on, each has to be larger than the
 * distance between the first and the last element of the dimensions before it. */
int32_t tni_strides_overlap(uint32_t rank, const int64_t *sizes, const int64_t *strides);
#define TNI_OVERLAP_NONE    0
#define TNI_OVERLAP_FULL    1 /* same elements in the same places */
#define TNI_OVERLAP_PARTIAL 2
int32_t tni_overlap(const tn_tensor *a, const tn_tensor *b);

#endif
