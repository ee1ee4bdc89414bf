/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of sizes and dims: numbers of elements, broadcasting, dim arguments, sizes with -1. Error texts
 * are ATen's, which users know. Strides are in strides.c.
 */
#include "core/shape.h"

#include <stdio.h>
#include <string.h>
#include "core/error.h"

#define TEXT_BYTES 512

const char *tni_shape_text(uint32_t rank, const int64_t *sizes, char *buffer, uint64_t bytes)
{
    uint64_t used = 0;
    if (!bytes) return buffer;
    buffer[0] = 0;
    for (uint32_t i = 0; i <= rank && used < bytes; i++) {
        int n = i < rank
                    ? snprintf(buffer + used, bytes - used, "%s%lld", i ? ", " : "[", (long long)sizes[i])
                    : snprintf(buffer + used, bytes - used, rank ? "]" : "[]");
        used += (uint64_t)n;
    }
    return buffer;
}

int32_t tni_numel(uint32_t rank, const int64_t *sizes, int64_t *out)
{
    char text[TEXT_BYTES];
    int64_t n = 1;
    int32_t is_empty = 0, overflows = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (sizes[i] < 0) {
            return tni_error(TN_E_SHAPE, "Trying to create tensor with negative dimension %lld: %s",
                             (long long)sizes[i], tni_shape_text(rank, sizes, text, sizeof(text)));
        }
        is_empty |= sizes[i] == 0;
        overflows |= __builtin_mul_overflow(n, sizes[i], &n);
    }
    if (overflows && !is_empty) {
        return tni_error(TN_E_SHAPE, "numel: integer multiplication overflow: sizes %s",
                         tni_shape_text(rank, sizes, text, sizeof(text)));
    }
    *out = is_empty ? 0 : n;
    return TN_OK;
}

static int32_t mismatch(int64_t a, int64_t b, uint32_t dim)
{
    return tni_error(
        TN_E_SHAPE,
        "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %u",
        (long long)a, (long long)b, dim);
}

int32_t tni_broadcast(tni_shape *shape, uint32_t rank, const int64_t *sizes)
{
    uint32_t result_rank = rank > shape->rank ? rank : shape->rank;
    uint32_t shape_offset = result_rank - shape->rank, offset = result_rank - rank;
    for (uint32_t i = offset > shape_offset ? offset : shape_offset; i < result_rank; i++) {
        int64_t a = shape->sizes[i - shape_offset], b = sizes[i - offset];
        if (a != b && a != 1 && b != 1) return mismatch(a, b, i);
    }
    if (shape_offset) {
        memmove(shape->sizes + shape_offset, shape->sizes, shape->rank * sizeof(int64_t));
        memcpy(shape->sizes, sizes, shape_offset * sizeof(int64_t));
        shape->rank = result_rank;
    }
    for (uint32_t i = offset > shape_offset ? offset : shape_offset; i < result_rank; i++) {
        if (shape->sizes[i] == 1) shape->sizes[i] = sizes[i - offset];
    }
    return TN_OK;
}

void tni_refuse_dim(int64_t dim, int64_t n)
{
    tni_error(TN_E_INDEX, "Dimension out of range (expected to be in range of [%lld, %lld], but got %lld)",
              (long long)-n, (long long)(n - 1), (long long)dim);
}

static uint64_t all_dims(int64_t rank)
{
    return rank >= 64 ? UINT64_MAX : ((uint64_t)1 << rank) - 1;
}

int32_t tni_dim_mask(tn_value dims, int64_t rank, int32_t empty_is_all, uint64_t *out)
{
    const int64_t *data = dims.tag == TN_TAG_INT ? &dims.as.i : dims.tag == TN_TAG_INTS ? dims.as.ints : NULL;
    uint32_t count = dims.tag == TN_TAG_INT ? 1 : dims.count;
    uint64_t mask = 0;
    if (!data || (count == 0 && empty_is_all)) {
        *out = all_dims(rank);
        return TN_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t dim = 0;
        int32_t status = tni_wrap_dim(data[i], rank, &dim);
        if (status) return status;
        if (mask >> dim & 1) {
            return tni_error(TN_E_ARGUMENT, "dim %lld appears multiple times in the list of dims",
                             (long long)dim);
        }
        mask |= (uint64_t)1 << dim;
    }
    *out = rank ? mask : 0; /* dim 0 of a 0-dim tensor is legal and names nothing */
    return TN_OK;
}

static int32_t not_that_many(uint32_t rank, const int64_t *requested, int64_t numel)
{
    char text[TEXT_BYTES];
    return tni_error(TN_E_SHAPE, "shape '%s' is invalid for input of size %lld",
                     tni_shape_text(rank, requested, text, sizeof(text)), (long long)numel);
}

int32_t tni_infer_size(const int64_t *requested, uint32_t rank, int64_t numel, int64_t *out)
{
    char text[TEXT_BYTES];
    int64_t known = 1;
    int32_t open = -1, overflows = 0, has_zero = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (requested[i] == -1) {
            if (open >= 0) return tni_error(TN_E_SHAPE, "only one dimension can be inferred");
            open = (int32_t)i;
            continue;
        }
        if (requested[i] < 0) {
            return tni_error(TN_E_SHAPE, "invalid shape dimension %lld at index %u of shape %s",
                             (long long)requested[i], i, tni_shape_text(rank, requested, text, sizeof(text)));
        }
        has_zero |= requested[i] == 0;
        overflows |= __builtin_mul_overflow(known, requested[i], &known);
    }
    if (has_zero) known = 0;
    if (overflows && !has_zero) return not_that_many(rank, requested, numel);
    if (open >= 0 && known == 0 && numel == 0) {
        return tni_error(
            TN_E_SHAPE,
            "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 "
            "can be any value and is ambiguous",
            tni_shape_text(rank, requested, text, sizeof(text)));
    }
    if (open < 0 ? known != numel : known == 0 || numel % known) return not_that_many(rank, requested, numel);
    if (rank) memmove(out, requested, rank * sizeof(int64_t));
    if (open >= 0) out[open] = numel / known;
    return TN_OK;
}
