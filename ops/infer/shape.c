/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, repeating, turning and padding. */
#include <string.h>
#include "ops/infer/infer.h"

/* ---- cat ---- */

/* ATen skips empty 1-D tensors, whatever the shape of the others. */
static int32_t is_skipped(const tn_tensor *t)
{
    return rank_of(t) == 1 && sizes_of(t)[0] == 0;
}

static int32_t check_cat_item(tni_frame *f, const tn_tensor *first, const tn_tensor *t, int64_t i,
                              int64_t dim)
{
    if (rank_of(t) != rank_of(first))
        return tni_fail(f, TN_E_SHAPE, "Tensors must have same number of dimensions: got %u and %u",
                        first->desc.rank, t->desc.rank);
    for (int64_t d = 0; d < rank_of(t); d++) {
        if (d != dim && sizes_of(t)[d] != sizes_of(first)[d])
            return tni_fail(f, TN_E_SHAPE,
                            "Sizes of tensors must match except in dimension %lld. Expected size %lld but "
                            "got size %lld for tensor number %lld in the list.",
                            (long long)dim, (long long)sizes_of(first)[d], (long long)sizes_of(t)[d],
                            (long long)i);
    }
    return TN_OK;
}

static int32_t join_sizes(tni_frame *f, tn_tensors list, const tn_tensor *first, int64_t dim, int64_t *sizes)
{
    memcpy(sizes, sizes_of(first), first->desc.rank * sizeof(int64_t));
    sizes[dim] = 0;
    for (int64_t i = 0; i < list.count; i++) {
        const tn_tensor *t = list.data[i];
        if (is_skipped(t)) continue;
        TNI_TRY(check_cat_item(f, first, t, i, dim));
        sizes[dim] += sizes_of(t)[dim];
    }
    return TN_OK;
}

/* The memory format that all suggest, else row-major. */
static int32_t common_format(tn_tensors list)
{
    int32_t format = tni_suggest_format(list.data[0]);
    for (int64_t i = 1; i < list.count; i++) {
        if (tni_suggest_format(list.data[i]) != format) return TN_CONTIGUOUS_FORMAT;
    }
    return format;
}

int32_t infer_cat(tni_frame *f)
{
    tn_tensors list = tn_value_as_tensors(f->args[0]);
    const tn_tensor *first = NULL;
    tni_promotion p = {0};
    int64_t dim, sizes[TN_MAX_RANK], strides[TN_MAX_RANK];
    if (!list.count) return tni_fail(f, TN_E_ARGUMENT, "torch.cat(): expected a non-empty list of Tensors");
    for (int64_t i = 0; i < list.count; i++) {
        const tn_tensor *t = list.data[i];
        if (rank_of(t) == 0)
            return tni_fail(f, TN_E_SHAPE,
                            "zero-dimensional tensor (at position %lld) cannot be concatenated",
                            (long long)i);
        if (!first && !is_skipped(t)) first = t;
        tni_promotion_add(&p, dtype_of(t), 0, 0);
    }
    f->call_dtype = tni_promotion_result(&p, tni_default_dtype(f->ctx));
    if (!first) return tni_out(f, 0, f->call_dtype, 1, sizes_of(list.data[0])); /* whatever the dimension */
    TNI_TRY(tni_arg_dim(f, 1, rank_of(first), &dim));
    TNI_TRY(join_sizes(f, list, first, dim, sizes));
    int32_t format = common_format(list);
    if (format == TN_CONTIGUOUS_FORMAT) return tni_out(f, 0, f->call_dtype, first->desc.rank, sizes);
    TNI_TRY(tni_format_strides(first->desc.rank, sizes, format, strides));
    return tni_out_strided(f, 0, f->call_dtype, first->desc.rank, sizes, strides);
}

/* ---- turning ---- */

int32_t infer_flip(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    uint64_t dims;
    if (tni_arg_ints(f, 1).count) TNI_TRY(tni_dim_mask(f->args[1], rank_of(self), 0, &dims));
    return tni_out_like(f, 0, self, 0);
}

int32_t infer_roll(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints shifts = tni_arg_ints(f, 1), dims = tni_arg_ints(f, 2);
    if (!shifts.count) return tni_fail(f, TN_E_ARGUMENT, "`shifts` required");
    if (dims.count != shifts.count && !(dims.count == 0 && shifts.count == 1))
        return tni_fail(f, TN_E_ARGUMENT, "shifts and dimensions must align. shifts: %lld, dims:%lld",
                        (long long)shifts.count, (long long)dims.count);
    /* What has no elements is not rolled, along whatever dimension. */
    for (int64_t i = 0; i < dims.count && tn_tensor_numel(self); i++) {
        int64_t dim;
        TNI_TRY(tni_wrap_dim(dims.data[i], rank_of(self), &dim));
        if (rank_of(self) == 0)
            return tni_fail(f, TN_E_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                            (long long)dims.data[i]);
    }
    if (dims.count) return tni_out_channels(f, 0, self, dtype_of(self), rank_of(self), sizes_of(self));
    return tni_out(f, 0, dtype_of(self), self->desc.rank, sizes_of(self));
}

/* tril, triu. */
int32_t infer_triangle(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    if (rank_of(self) < 2) return tni_fail(f, TN_E_SHAPE, "input tensor must have at least 2 dimensions");
    return tni_out(f, 0, dtype_of(self), self->desc.rank, sizes_of(self));
}

/* ---- repeating ---- */

int32_t infer_repeat(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints repeats = tni_arg_ints(f, 1);
    int64_t sizes[TN_MAX_RANK];
    if (repeats.count < rank_of(self) || repeats.count > TN_MAX_RANK)
        return tni_fail(
            f, TN_E_SHAPE,
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
    for (int64_t i = 0; i < repeats.count; i++) {
        int64_t d = i - (repeats.count - rank_of(self));
        if (repeats.data[i] < 0)
            return tni_fail(f, TN_E_SHAPE, "Trying to create tensor with negative dimension %lld",
                            (long long)repeats.data[i]);
        if (__builtin_mul_overflow(repeats.data[i], d < 0 ? 1 : sizes_of(self)[d], &sizes[i]))
            return tni_fail(f, TN_E_SHAPE, "the size of the result overflows int64");
    }
    return tni_out(f, 0, dtype_of(self), (uint32_t)repeats.count, sizes);
}

/* repeat_interleave.Tensor: the kernel determines the size. */
int32_t infer_repeat_interleave(tni_frame *f)
{
    const tn_tensor *repeats = tni_arg_tensor(f, 0);
    int64_t count = tni_arg_given(f, 1) ? tni_arg_int(f, 1) : repeats->numel;
    if (rank_of(repeats) != 1)
        return tni_fail(f, TN_E_SHAPE, "repeat_interleave only accept 1D vector as repeat");
    if (dtype_of(repeats) != TN_INT64 && dtype_of(repeats) != TN_INT32)
        return tni_fail(f, TN_E_DTYPE, "repeats has to be Long or Int tensor");
    return tni_out(f, 0, dtype_of(repeats), 1, &count);
}

/* The gradient has the sizes of unfold's result: the windows in place of `dim`, and their elements behind. */
static int32_t check_unfolded(tni_frame *f, tn_ints input, int64_t dim)
{
    int64_t sizes[TN_MAX_RANK + 1], length = input.count ? input.data[dim] : 1, size = tni_arg_int(f, 3),
                                    step = tni_arg_int(f, 4);
    if (size < 0 || step <= 0 || size > length)
        return tni_fail(f, TN_E_ARGUMENT,
                        "maximum size for tensor at dimension %lld is %lld but size is %lld and step %lld",
                        (long long)dim, (long long)length, (long long)size, (long long)step);
    if (input.count) memcpy(sizes, input.data, (size_t)input.count * sizeof(int64_t));
    if (input.count) sizes[dim] = (length - size) / step + 1;
    sizes[input.count] = size;
    return tni_check_sizes(f, 0, input.count + 1, sizes);
}

/* unfold_backward (grad_in, input_sizes, dim, size, step). */
int32_t infer_unfold_backward(tni_frame *f)
{
    tn_ints sizes = tni_arg_ints(f, 1);
    int64_t dim;
    if (sizes.count > TN_MAX_RANK)
        return tni_fail(f, TN_E_SHAPE, "the result would have more than %d dimensions", TN_MAX_RANK);
    TNI_TRY(tni_arg_dim(f, 2, sizes.count, &dim));
    TNI_TRY(check_unfolded(f, sizes, dim));
    return tni_out(f, 0, dtype_of(tni_arg_tensor(f, 0)), (uint32_t)sizes.count, sizes.data);
}

/* ---- padding: (self, pad, ...), pairs from the last dimension on ---- */

static int32_t check_pad(tni_frame *f, const tn_tensor *self, tn_ints pad)
{
    if (pad.count % 2)
        return tni_fail(f, TN_E_ARGUMENT, "Length of pad must be even but instead it equals %lld",
                        (long long)pad.count);
    if (pad.count > 2 * rank_of(self))
        return tni_fail(f, TN_E_ARGUMENT,
                        "Length of pad should be no more than twice the number of dimensions of the input. "
                        "Pad length is %lld while the input has %u dimensions.",
                        (long long)pad.count, self->desc.rank);
    return TN_OK;
}

/* Reflection padding must be smaller than the dimension; both modes need a non-empty dimension. */
static int32_t check_mirror(tni_frame *f, const tn_tensor *self, tn_ints pad, int32_t reflects)
{
    int64_t space = pad.count / 2, rank = rank_of(self);
    tni_text text;
    if (rank != space + 1 && rank != space + 2)
        return tni_fail(f, TN_E_SHAPE,
                        "Expected %lldD or %lldD (batch mode) tensor with possibly 0 batch size and other "
                        "non-zero dimensions for input, but got: %s",
                        (long long)space + 1, (long long)space + 2, tni_sizes_text(self, &text));
    for (int64_t d = rank - space - 1; d < rank; d++) {
        if (sizes_of(self)[d] == 0)
            return tni_fail(f, TN_E_SHAPE,
                            "Expected %lldD or %lldD (batch mode) tensor with possibly 0 batch size and "
                            "other non-zero dimensions for input, but got: %s",
                            (long long)space + 1, (long long)space + 2, tni_sizes_text(self, &text));
    }
    for (int64_t i = 0; i < space && reflects; i++) {
        int64_t size = sizes_of(self)[rank - 1 - i];
        if (pad.data[2 * i] >= size || pad.data[2 * i + 1] >= size)
            return tni_fail(f, TN_E_SHAPE,
                            "Argument #%lld: Padding size should be less than the corresponding input "
                            "dimension, but got: padding (%lld, %lld) at dimension %lld of input %s",
                            (long long)(2 * i + 4), (long long)pad.data[2 * i],
                            (long long)pad.data[2 * i + 1], (long long)(rank - 1 - i),
                            tni_sizes_text(self, &text));
    }
    return TN_OK;
}

/* The sizes of the result: self is argument `first`, the padding the next one. */
static int32_t pad_sizes(tni_frame *f, uint32_t first, int64_t *sizes)
{
    const tn_tensor *self = tni_arg_tensor(f, first);
    tn_ints pad = tni_arg_ints(f, first + 1);
    int64_t rank = rank_of(self);
    const char *name = strstr(f->op->base->name, "::") + 2;
    int32_t constant = name[0] == 'c', reflects = !strncmp(name, "ref", 3), empty = 1;
    tni_text text;
    if (!constant && pad.count != 2 * tni_space_of(f))
        return tni_fail(f, TN_E_ARGUMENT, "padding size is expected to be %lld, but got: %lld",
                        2 * (long long)tni_space_of(f), (long long)pad.count);
    TNI_TRY(check_pad(f, self, pad));
    if (!constant) TNI_TRY(check_mirror(f, self, pad, reflects));
    memcpy(sizes, sizes_of(self), self->desc.rank * sizeof(int64_t));
    for (int64_t i = 0; i < pad.count / 2; i++) {
        int64_t d = rank - 1 - i, before = pad.data[2 * i], after = pad.data[2 * i + 1];
        int64_t sum;
        if (__builtin_add_overflow(before, after, &sum) || __builtin_add_overflow(sizes[d], sum, &sizes[d]))
            return tni_fail(f, TN_E_ARGUMENT, "argument 'pad': %lld and %lld are too large",
                            (long long)before, (long long)after);
        if (sizes[d] > 0) empty = 0;
        if (sizes[d] < 0)
            return constant
                       ? tni_fail(
                             f, TN_E_SHAPE,
                             "The input size %lld, plus negative padding %lld and %lld resulted in a "
                             "negative output size, which is invalid. Check dimension %lld of your input.",
                             (long long)sizes_of(self)[d], (long long)before, (long long)after, (long long)d)
                       : tni_fail(f, TN_E_SHAPE, "input (%c: %lld) is too small. Calculated output %c: %lld",
                                  "WHD"[i % 3], (long long)sizes_of(self)[d], "WHD"[i % 3],
                                  (long long)sizes[d]);
        if (constant && sizes_of(self)[d] + (before < 0 ? before : 0) + (after < 0 ? after : 0) < 0)
            return tni_fail(f, TN_E_ARGUMENT, "narrow(): length must be non-negative.");
    }
    if (!constant && empty)
        return tni_fail(f, TN_E_SHAPE, "input %s is too small: all of its padded sizes would be 0",
                        tni_sizes_text(self, &text));
    return TN_OK;
}

int32_t infer_pad(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(pad_sizes(f, 0, sizes));
    if (f->op->base->n_args == 3)
        TNI_TRY(tni_check_fits(f, f->args[2], dtype_of(self))); /* constant_pad_nd */
    return tni_out_channels(f, 0, self, dtype_of(self), rank_of(self), sizes);
}

/* (grad_output, self, padding). */
int32_t infer_pad_backward(tni_frame *f)
{
    static const char *const names[] = {"width", "height", "depth"};
    const tn_tensor *grad = tni_arg_tensor(f, 0), *self = tni_arg_tensor(f, 1);
    int64_t space = tni_space_of(f), rank = rank_of(self), sizes[TN_MAX_RANK];
    TNI_TRY(pad_sizes(f, 1, sizes));
    TNI_TRY(tni_check_dtype_like(f, 0, self));
    for (int64_t i = 0; i < space && rank_of(grad) == rank; i++) {
        int64_t wanted = sizes[rank - 1 - i], got = sizes_of(grad)[rank - 1 - i];
        if (got != wanted)
            return tni_fail(f, TN_E_SHAPE, "grad_output %s unexpected. Expected: %lld, Got: %lld", names[i],
                            (long long)wanted, (long long)got);
    }
    TNI_TRY(tni_check_sizes(f, 0, rank, sizes));
    return tni_out_gradient(f, 1, 0);
}
