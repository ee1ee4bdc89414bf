/* SPDX-License-Identifier: Apache-2.0 */
/* Whether elements of tensors lie at one place in memory. */
#include <string.h>
#include "core/shape.h"

int32_t tni_overlaps_itself(const tn_tensor *t)
{
    if (t->state & TNI_DENSE) return 0;
    for (uint32_t i = 0; i < t->desc.rank; i++) {
        if (t->desc.strides[i] == 0 && t->desc.sizes[i] > 1) return 1;
    }
    return 0;
}

int32_t tni_strides_overlap(uint32_t rank, const int64_t *sizes, const int64_t *strides)
{
    uint64_t done = 0;
    int64_t last = 0, length; /* from the first element to the last one of the dimensions that are done */
    for (uint32_t i = 0; i < rank; i++) {
        if (sizes[i] == 0) return 0;
        if (sizes[i] == 1) done |= (uint64_t)1 << i;
    }
    for (;;) {
        uint32_t next = rank;
        for (uint32_t i = 0; i < rank; i++) {
            if (!(done >> i & 1u) && (next == rank || strides[i] < strides[next])) next = i;
        }
        if (next == rank) return 0;
        if (strides[next] <= last) return 1;
        done |= (uint64_t)1 << next;
        /* Whoever makes the tensor refuses lengths that overflow. */
        if (__builtin_mul_overflow(sizes[next] - 1, strides[next], &length) ||
            __builtin_add_overflow(last, length, &last))
            return 0;
    }
}

/* The same elements in the same places. */
static int32_t same_geometry(const tn_tensor_desc *a, const tn_tensor_desc *b)
{
    uint64_t bytes = a->rank * sizeof(int64_t);
    if (a->byte_offset != b->byte_offset || a->rank != b->rank) return 0;
    if (TN_DTYPE_BITS(a->dtype) != TN_DTYPE_BITS(b->dtype)) return 0;
    return !bytes || (memcmp(a->sizes, b->sizes, bytes) == 0 && memcmp(a->strides, b->strides, bytes) == 0);
}

int32_t tni_overlap(const tn_tensor *a, const tn_tensor *b)
{
    if (a == b) return TNI_OVERLAP_FULL;
    if (a->storage != b->storage || a->numel == 0 || b->numel == 0) return TNI_OVERLAP_NONE;
    if (same_geometry(&a->desc, &b->desc)) return TNI_OVERLAP_FULL;
    if (!(a->state & TNI_DENSE) || !(b->state & TNI_DENSE)) return TNI_OVERLAP_NONE;
    uint64_t a_begin = a->desc.byte_offset, b_begin = b->desc.byte_offset;
    uint64_t a_end = a_begin + (uint64_t)(a->numel * tn_dtype_bytes(a->desc.dtype));
    uint64_t b_end = b_begin + (uint64_t)(b->numel * tn_dtype_bytes(b->desc.dtype));
    if (a_begin == b_begin && a_end == b_end && a->desc.rank == b->desc.rank &&
        (a->desc.rank == 0 ||
         memcmp(a->desc.strides, b->desc.strides, a->desc.rank * sizeof(int64_t)) == 0)) {
        return TNI_OVERLAP_FULL;
    }
    return a_begin < b_end && b_begin < a_end ? TNI_OVERLAP_PARTIAL : TNI_OVERLAP_NONE;
}
