/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of strides: memory formats, properties of a tensor's strides, strides of views and of new tensors
 * that keep the order of dimensions. The rules are ATen's where users can see them.
 */
#include <string.h>
#include "core/error.h"
#include "core/shape.h"

/* Dimensions of the channels-last formats, innermost first. */
static const uint8_t channels_last_order[] = {1, 3, 2, 0};
static const uint8_t channels_last_3d_order[] = {1, 4, 3, 2, 0};

static int64_t at_least_one(int64_t size)
{
    return size > 1 ? size : 1;
}

/* Wraps: tensors without elements may have sizes whose product does not fit in 64 bits, and their strides do not
 * matter. */
static int64_t times(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

void tni_contiguous_strides(uint32_t rank, const int64_t *sizes, int64_t *out)
{
    int64_t stride = 1;
    for (uint32_t i = rank; i-- > 0;) {
        out[i] = stride;
        stride = times(stride, at_least_one(sizes[i]));
    }
}

static void ordered_strides(uint32_t rank, const int64_t *sizes, const uint8_t *order, int64_t *out)
{
    int64_t stride = 1;
    for (uint32_t i = 0; i < rank; i++) {
        out[order[i]] = stride;
        stride = times(stride, at_least_one(sizes[order[i]]));
    }
}

int32_t tni_format_strides(uint32_t rank, const int64_t *sizes, int32_t format, int64_t *out)
{
    switch (format) {
    case TN_CONTIGUOUS_FORMAT:
        tni_contiguous_strides(rank, sizes, out);
        return TN_OK;
    case TN_CHANNELS_LAST:
        if (rank != 4) return tni_error(TN_E_SHAPE, "required rank 4 tensor to use channels_last format");
        ordered_strides(rank, sizes, channels_last_order, out);
        return TN_OK;
    case TN_CHANNELS_LAST_3D:
        if (rank != 5) return tni_error(TN_E_SHAPE, "required rank 5 tensor to use channels_last_3d format");
        ordered_strides(rank, sizes, channels_last_3d_order, out);
        return TN_OK;
    default:
        return tni_error(TN_E_ARGUMENT, "unsupported memory format %d", format);
    }
}

static int32_t is_contiguous(uint32_t rank, const int64_t *sizes, const int64_t *strides)
{
    int64_t expected = 1;
    for (uint32_t i = rank; i-- > 0;) {
        if (sizes[i] == 1) continue;
        if (sizes[i] == 0) return 1;
        if (strides[i] != expected) {
            /* An empty tensor is contiguous whatever its strides. */
            while (i-- > 0) {
                if (sizes[i] == 0) return 1;
            }
            return 0;
        }
        expected *= sizes[i];
    }
    return 1;
}

static int32_t is_ordered(uint32_t rank, const int64_t *sizes, const int64_t *strides, const uint8_t *order)
{
    int64_t expected = 1;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t d = order[i];
        if (sizes[d] == 1) continue;
        if (strides[d] != expected) return 0;
        expected *= sizes[d];
    }
    return 1;
}

/* Dense in some order: each stride is the product of the sizes inside it. */
static int32_t is_dense(uint32_t rank, const int64_t *sizes, const int64_t *strides)
{
    uint64_t left = 0;
    int64_t expected = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (sizes[i] > 1) left |= (uint64_t)1 << i;
    }
    while (left) {
        uint32_t i;
        uint64_t rest = left;
        for (i = TN_MAX_RANK; rest; rest &= rest - 1) {
            i = (uint32_t)__builtin_ctzll(rest);
            if (strides[i] == expected) break;
        }
        if (!rest) return 0;
        left &= ~((uint64_t)1 << i);
        expected *= sizes[i];
    }
    return 1;
}

uint32_t tni_stride_state(uint32_t rank, const int64_t *sizes, const int64_t *strides)
{
    uint32_t state = is_contiguous(rank, sizes, strides) ? TNI_CONTIGUOUS | TNI_DENSE : 0;
    if (rank == 4 && is_ordered(rank, sizes, strides, channels_last_order))
        state |= TNI_CHANNELS_LAST | TNI_DENSE;
    if (rank == 5 && is_ordered(rank, sizes, strides, channels_last_3d_order)) {
        state |= TNI_CHANNELS_LAST_3D | TNI_DENSE;
    }
    if (!(state & TNI_DENSE) && is_dense(rank, sizes, strides)) state |= TNI_DENSE;
    return state;
}

/*
 * 1 if the strides grow along the order and each is at least the extent of the dimensions inside it. Equal strides
 * of channels and batch (N111, or N11W sliced along W) mean row-major.
 */
static int32_t speaks_for(uint32_t rank, const int64_t *sizes, const int64_t *strides, const uint8_t *order)
{
    int64_t least = 0;
    if (strides[1] == 0) return 0;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t d = order[i];
        if (sizes[d] == 0 || strides[d] < least) return 0;
        if (d == 0 && least == strides[1]) return 0;
        least = strides[d] * at_least_one(sizes[d]);
    }
    return 1;
}

int32_t tni_stride_format(uint32_t rank, const int64_t *sizes, const int64_t *strides)
{
    if (rank == 4 && speaks_for(rank, sizes, strides, channels_last_order)) return TN_CHANNELS_LAST;
    if (rank == 5 && speaks_for(rank, sizes, strides, channels_last_3d_order)) return TN_CHANNELS_LAST_3D;
    return TN_CONTIGUOUS_FORMAT;
}

/* Stride of an input in a dimension of the broadcast shape. */
static int64_t broadcast_stride(const tn_tensor *t, uint32_t rank, const int64_t *sizes, uint32_t dim)
{
    uint32_t offset = rank - t->desc.rank;
    if (dim < offset || (t->desc.sizes[dim - offset] == 1 && sizes[dim] != 1)) return 0;
    return t->desc.strides[dim - offset];
}

/* 1 if dimension a belongs outside of b, -1 if inside, 0 if the inputs leave it open. */
static int32_t compare_dims(tn_tensor *const *inputs, uint32_t count, uint32_t rank, const int64_t *sizes,
                            uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t x = broadcast_stride(inputs[i], rank, sizes, a),
                y = broadcast_stride(inputs[i], rank, sizes, b);
        if (x == 0 || y == 0) continue;
        if (x != y) return x < y ? -1 : 1;
        if (sizes[a] > sizes[b]) return 1;
    }
    return 0;
}

/* The first input if all have this shape and the same dense strides: the output is like it. Else NULL. */
static const tn_tensor *common_layout(tn_tensor *const *inputs, uint32_t count, uint32_t rank,
                                      const int64_t *sizes)
{
    const tn_tensor *first = count ? inputs[0] : NULL;
    uint64_t bytes = rank * sizeof(int64_t);
    if (!first || first->desc.rank != rank || !(first->state & TNI_DENSE)) return NULL;
    if (bytes && memcmp(first->desc.sizes, sizes, bytes)) return NULL;
    for (uint32_t i = 1; i < count; i++) {
        const tn_tensor_desc *d = &inputs[i]->desc;
        if (d->rank != rank || !(inputs[i]->state & TNI_DENSE)) return NULL;
        if (bytes && (memcmp(d->sizes, sizes, bytes) || memcmp(d->strides, first->desc.strides, bytes)))
            return NULL;
    }
    return first;
}

/* 1 if all inputs have the full shape and this state. */
static int32_t all_have(tn_tensor *const *inputs, uint32_t count, uint32_t rank, const int64_t *sizes,
                        uint32_t state)
{
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor_desc *d = &inputs[i]->desc;
        if (d->rank != rank || !(inputs[i]->state & state)) return 0;
        for (uint32_t j = 0; j < rank; j++) {
            if (d->sizes[j] != sizes[j]) return 0;
        }
    }
    return 1;
}

/* 1 if all inputs have the full shape and these strides; inputs without dimensions do not count. */
static int32_t all_same(tn_tensor *const *inputs, uint32_t count, uint32_t rank, const int64_t *sizes,
                        const int64_t *strides)
{
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor_desc *d = &inputs[i]->desc;
        if (d->rank == 0) continue;
        if (d->rank != rank) return 0;
        for (uint32_t j = 0; j < rank; j++) {
            if (d->sizes[j] != sizes[j] || d->strides[j] != strides[j]) return 0;
        }
    }
    return 1;
}

/* A stable insertion sort. Dimensions that the inputs leave open keep their place and are skipped. */
static void sorted_strides(tn_tensor *const *inputs, uint32_t count, uint32_t rank, const int64_t *sizes,
                           int64_t *out)
{
    uint8_t order[TN_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) order[i] = (uint8_t)(rank - 1 - i);
    for (uint32_t i = 1; i < rank; i++) {
        uint32_t at = i;
        for (uint32_t j = i; j-- > 0;) {
            int32_t c = compare_dims(inputs, count, rank, sizes, order[j], order[at]);
            if (c < 0) break;
            if (c == 0) continue;
            uint8_t moved = order[j];
            order[j] = order[at];
            order[at] = moved;
            at = j;
        }
    }
    ordered_strides(rank, sizes, order, out);
}

void tni_pointwise_strides(tn_tensor *const *inputs, uint32_t count, uint32_t rank, const int64_t *sizes,
                           int64_t *out)
{
    tni_contiguous_strides(rank, sizes, out);
    if (all_same(inputs, count, rank, sizes, out) || all_have(inputs, count, rank, sizes, TNI_CONTIGUOUS))
        return;
    if (rank == 4 && all_have(inputs, count, rank, sizes, TNI_CHANNELS_LAST)) {
        ordered_strides(rank, sizes, channels_last_order, out);
        return;
    }
    const tn_tensor *model = common_layout(inputs, count, rank, sizes);
    if (model) {
        memcpy(out, model->desc.strides, rank * sizeof(int64_t));
    } else {
        sorted_strides(inputs, count, rank, sizes, out);
    }
}

void tni_preserve_strides(const tn_tensor *t, uint32_t rank, const int64_t *sizes, int64_t *out)
{
    tn_tensor *input = (tn_tensor *)t;
    if (common_layout(&input, 1, rank, sizes)) {
        if (rank) memcpy(out, t->desc.strides, rank * sizeof(int64_t));
    } else {
        sorted_strides(&input, 1, rank, sizes, out);
    }
}

int32_t tni_storage_extent(uint32_t rank, const int64_t *sizes, const int64_t *strides, int64_t *out)
{
    int64_t extent = 1, step;
    int32_t overflows = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (sizes[i] == 0) {
            *out = 0;
            return TN_OK;
        }
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (strides[i] < 0 && sizes[i] > 1) {
            return tni_error(TN_E_SHAPE, "Negative strides are not supported: stride %lld of dimension %u",
                             (long long)strides[i], i);
        }
        overflows |= __builtin_sub_overflow(sizes[i], 1, &step);
        overflows |= __builtin_mul_overflow(step, strides[i], &step);
        overflows |= __builtin_add_overflow(extent, step, &extent);
    }
    if (overflows) {
        char text[256];
        return tni_error(TN_E_SHAPE, "Storage size calculation overflowed with sizes=%s",
                         tni_shape_text(rank, sizes, text, sizeof(text)));
    }
    *out = extent;
    return TN_OK;
}

int32_t tni_storage_needed(int64_t offset, int64_t extent, int64_t item, uint64_t *out)
{
    int64_t last, bytes;
    if (extent &&
        (__builtin_add_overflow(offset, extent, &last) || __builtin_mul_overflow(last, item, &bytes)))
        return tni_error(
            TN_E_SHAPE,
            "Storage size calculation overflowed with storage offset %lld and %lld elements of %lld bytes",
            (long long)offset, (long long)extent, (long long)item);
    *out = extent ? (uint64_t)bytes : 0;
    return TN_OK;
}

/* An empty view keeps its strides if the shape stays, else it is row-major. */
static int32_t view_of_empty(uint32_t rank, const int64_t *sizes, const int64_t *strides, uint32_t new_rank,
                             const int64_t *new_sizes, int64_t *out)
{
    if (rank == new_rank && memcmp(sizes, new_sizes, rank * sizeof(int64_t)) == 0) {
        memmove(out, strides, rank * sizeof(int64_t));
    } else {
        tni_contiguous_strides(new_rank, new_sizes, out);
    }
    return 1;
}

static int32_t has_zero(uint32_t rank, const int64_t *sizes)
{
    for (uint32_t i = 0; i < rank; i++) {
        if (sizes[i] == 0) return 1;
    }
    return 0;
}

/*
 * From the innermost outwards the old dimensions are gathered into runs that lie evenly in memory; each run
 * must be cut exactly by new dimensions.
 */
int32_t tni_view_strides(uint32_t rank, const int64_t *sizes, const int64_t *strides, uint32_t new_rank,
                         const int64_t *new_sizes, int64_t *out)
{
    if (has_zero(rank, sizes)) return view_of_empty(rank, sizes, strides, new_rank, new_sizes, out);
    if (rank == 0) {
        for (uint32_t i = 0; i < new_rank; i++) out[i] = 1;
        return 1;
    }
    uint32_t next = new_rank;
    int64_t base = strides[rank - 1], run = 1;
    for (uint32_t d = rank; d-- > 0;) {
        run *= sizes[d];
        if (d > 0 && (sizes[d - 1] == 1 || strides[d - 1] == run * base)) continue;
        int64_t cut = 1;
        while (next > 0 && (cut < run || new_sizes[next - 1] == 1)) {
            next--;
            out[next] = cut * base;
            cut *= new_sizes[next];
        }
        if (cut != run) return 0;
        if (d > 0) base = strides[d - 1];
        run = 1;
    }
    return next == 0;
}
