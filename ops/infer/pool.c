/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling and its gradients. Outputs follow the input's memory format, but for averages and adaptive pools of volumes. */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"
#include "ops/pooled.h"

/* Output i of a pool whose results are row-major if they are volumes, as in ATen. */
static int32_t out_pooled(tni_frame *f, uint32_t i, const tn_tensor *self, tn_dtype dtype, int64_t space,
                          const int64_t *sizes)
{
    if (space == 3) return tni_out(f, i, dtype, self->desc.rank, sizes);
    return tni_out_channels(f, i, self, dtype, rank_of(self), sizes);
}

static int32_t check_rank(tni_frame *f, const tn_tensor *self, int64_t space)
{
    if (rank_of(self) == space + 1 || rank_of(self) == space + 2) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "non-empty %lldD or %lldD (batch mode) tensor expected for input",
                    (long long)space + 1, (long long)space + 2);
}

/* All dimensions but the batch must have elements. */
static int32_t check_not_empty(tni_frame *f, const tn_tensor *self, int64_t space)
{
    tni_text text;
    int64_t first = rank_of(self) - space - 1;
    for (int64_t d = first; d < rank_of(self); d++) {
        if (sizes_of(self)[d]) continue;
        if (space == 3)
            return tni_fail(f, TN_E_SHAPE,
                            "Expected input's non-batch dimensions to have positive length, but input has a "
                            "shape of %s and non-batch dimension %lld has length zero!",
                            tni_sizes_text(self, &text), (long long)d);
        return tni_fail(f, TN_E_SHAPE,
                        "Expected %lldD or %lldD (batch mode) tensor with optional 0 dim batch size for "
                        "input, but got:%s",
                        (long long)space + 1, (long long)space + 2, tni_sizes_text(self, &text));
    }
    return TN_OK;
}

/* The gradient, argument 0, belongs to a result of these sizes. */
static int32_t check_gradient(tni_frame *f, const tn_tensor *self, const int64_t *sizes)
{
    TNI_TRY(tni_check_dtype_like(f, 0, self));
    return tni_check_sizes(f, 0, rank_of(self), sizes);
}

/* So do the positions of the maxima, argument i. */
static int32_t check_positions(tni_frame *f, uint32_t i, const tn_tensor *self, const int64_t *sizes)
{
    TNI_TRY(tni_check_index(f, tni_arg_tensor(f, i), 0));
    return tni_check_sizes(f, i, rank_of(self), sizes);
}

/* ---- windows ---- */

typedef struct window {
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int32_t ceil;
} window;

/*
 * Arguments kernel_size, stride, padding from `at` on; an empty stride is the kernel size. Padding is at most
 * half of the kernel, dilated or not, as the text `limit` says.
 */
static int32_t read_window(tni_frame *f, uint32_t at, int64_t space, const char *limit, window *w)
{
    uint32_t n = (uint32_t)space;
    TNI_TRY(tni_arg_spread(f, at, n, "kernel_size", w->kernel));
    if (tni_arg_ints(f, at + 1).count)
        TNI_TRY(tni_arg_spread(f, at + 1, n, "stride", w->stride));
    else
        memcpy(w->stride, w->kernel, sizeof(w->stride));
    TNI_TRY(tni_arg_spread(f, at + 2, n, "padding", w->padding));
    for (uint32_t i = 0; i < n; i++) {
        if (w->kernel[i] <= 0)
            return tni_fail(f, TN_E_ARGUMENT, "kernel size should be greater than zero, but got %lld",
                            (long long)w->kernel[i]);
        if (w->stride[i] <= 0)
            return tni_fail(f, TN_E_ARGUMENT, "stride should be greater than zero, but got %lld",
                            (long long)w->stride[i]);
        if (w->dilation[i] <= 0)
            return tni_fail(f, TN_E_ARGUMENT, "dilation should be greater than zero, but got %lld",
                            (long long)w->dilation[i]);
        if (w->padding[i] < 0)
            return tni_fail(f, TN_E_ARGUMENT, "pad must be non-negative, but got pad: %lld",
                            (long long)w->padding[i]);
        if (w->padding[i] > w->kernel[i] / 2)
            return tni_fail(f, TN_E_ARGUMENT, "pad should be %s, but got pad=%lld and kernel_size=%lld",
                            limit, (long long)w->padding[i], (long long)w->kernel[i]);
    }
    return TN_OK;
}

static int32_t too_small(tni_frame *f, const tn_tensor *self, int64_t space, const int64_t *sizes)
{
    const int64_t *in = sizes_of(self) + rank_of(self) - space - 1, *out = sizes + rank_of(self) - space - 1;
    if (space == 2)
        return tni_fail(f, TN_E_SHAPE,
                        "Given input size: (%lldx%lldx%lld). Calculated output size: (%lldx%lldx%lld). "
                        "Output size is too small",
                        (long long)in[0], (long long)in[1], (long long)in[2], (long long)out[0],
                        (long long)out[1], (long long)out[2]);
    return tni_fail(f, TN_E_SHAPE,
                    "Given input size: (%lldx%lldx%lldx%lld). Calculated output size: (%lldx%lldx%lldx%lld). "
                    "Output size is too small",
                    (long long)in[0], (long long)in[1], (long long)in[2], (long long)in[3], (long long)out[0],
                    (long long)out[1], (long long)out[2], (long long)out[3]);
}

static int32_t window_sizes(tni_frame *f, const tn_tensor *self, int64_t space, const window *w,
                            int64_t *sizes)
{
    int64_t rank = rank_of(self);
    int32_t fits = 1;
    TNI_TRY(check_not_empty(f, self, space));
    memcpy(sizes, sizes_of(self), self->desc.rank * sizeof(int64_t));
    for (int64_t i = 0; i < space; i++) {
        int64_t d = rank - space + i;
        sizes[d] =
            tni_pooled(sizes_of(self)[d], w->kernel[i], w->stride[i], w->padding[i], w->dilation[i], w->ceil);
        fits &= sizes[d] > 0;
    }
    return fits ? TN_OK : too_small(f, self, space, sizes);
}

/*
 * What the result of avg_pool has for sizes: self is argument `first`; kernel_size, stride, padding, ceil_mode,
 * count_include_pad, divisor_override follow.
 */
static int32_t avg_pool_sizes(tni_frame *f, uint32_t first, int64_t space, int64_t *sizes)
{
    const tn_tensor *self = tni_arg_tensor(f, first);
    window w = {.dilation = {1, 1, 1}, .ceil = tni_arg_bool(f, first + 4)};
    if (tni_arg_given(f, first + 6) && tni_arg_int(f, first + 6) == 0)
        return tni_fail(f, TN_E_ARGUMENT, "divisor must be not zero");
    TNI_TRY(check_rank(f, self, space));
    TNI_TRY(read_window(f, first + 1, space, "at most half of effective kernel size", &w));
    return window_sizes(f, self, space, &w, sizes);
}

int32_t infer_avg_pool(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t space = tni_space_of(f), sizes[TN_MAX_RANK];
    TNI_TRY(avg_pool_sizes(f, 0, space, sizes));
    return out_pooled(f, 0, self, dtype_of(self), space, sizes);
}

/* (grad_output, self, ...). */
int32_t infer_avg_pool_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1);
    int64_t space = tni_space_of(f), sizes[TN_MAX_RANK];
    TNI_TRY(avg_pool_sizes(f, 1, space, sizes));
    TNI_TRY(check_gradient(f, self, sizes));
    return tni_out_gradient(f, 1, space == 3);
}

/* Of max_pool: self is argument `first`; kernel_size, stride, padding, dilation, ceil_mode follow. */
static int32_t max_pool_sizes(tni_frame *f, uint32_t first, int64_t space, int64_t *sizes)
{
    const tn_tensor *self = tni_arg_tensor(f, first);
    window w = {.ceil = tni_arg_bool(f, first + 5)};
    TNI_TRY(check_rank(f, self, space));
    TNI_TRY(tni_arg_spread(f, first + 4, (uint32_t)space, "dilation", w.dilation));
    TNI_TRY(read_window(f, first + 1, space, "smaller than or equal to half of kernel size", &w));
    return window_sizes(f, self, space, &w, sizes);
}

/* Values and their indices. */
int32_t infer_max_pool(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(max_pool_sizes(f, 0, tni_space_of(f), sizes));
    TNI_TRY(tni_out_channels(f, 0, self, dtype_of(self), rank_of(self), sizes));
    return tni_out_channels(f, 1, self, TN_INT64, rank_of(self), sizes);
}

/* (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices). */
int32_t infer_max_pool_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(max_pool_sizes(f, 1, tni_space_of(f), sizes));
    TNI_TRY(check_gradient(f, self, sizes));
    TNI_TRY(check_positions(f, 7, self, sizes));
    return tni_out_gradient(f, 1, 0);
}

/* ---- given output sizes ---- */

/* Dimensions from `first` on may not be empty. */
static int32_t check_adaptive(tni_frame *f, const tn_tensor *self, int64_t space, int64_t first,
                              const char *name)
{
    tni_text text;
    if (rank_of(self) != space + 1 && rank_of(self) != space + 2)
        return tni_fail(f, TN_E_SHAPE, "%s%lldd(): Expected %lldD or %lldD tensor, but got %s", name,
                        (long long)space, (long long)space + 1, (long long)space + 2,
                        tni_sizes_text(self, &text));
    for (int64_t d = first; d < rank_of(self); d++) {
        if (sizes_of(self)[d] == 0)
            return tni_fail(f, TN_E_SHAPE,
                            "%s%lldd(): Expected input to have non-zero size for non-batch dimensions, but "
                            "input has sizes %s with dimension %lld being empty",
                            name, (long long)space, tni_sizes_text(self, &text), (long long)d);
    }
    return TN_OK;
}

int32_t infer_adaptive_pool(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t space = tni_space_of(f), sizes[TN_MAX_RANK];
    tn_ints list = tni_arg_ints(f, 1);
    if (list.count != space)
        return tni_fail(f, TN_E_ARGUMENT,
                        "adaptive_avg_pool%lldd: output_size must have %lld items (got %lld)",
                        (long long)space, (long long)space, (long long)list.count);
    /* As in ATen, images may lack channels here, volumes may not. */
    TNI_TRY(check_adaptive(f, self, space, space == 3 ? 1 : rank_of(self) - space, "adaptive_avg_pool"));
    for (int64_t i = 0; i < space; i++) {
        if (list.data[i] < 0)
            return tni_fail(f, TN_E_ARGUMENT,
                            "adaptive_avg_pool%lldd: elements of output_size must be greater than or equal "
                            "to 0 but received {%lld, %lld%s",
                            (long long)space, (long long)list.data[0], (long long)list.data[1],
                            space == 2 ? "}" : "");
    }
    tni_sized_space(f, self, 1, space, sizes);
    return out_pooled(f, 0, self, dtype_of(self), space, sizes);
}

int32_t infer_adaptive_max_pool(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t space = tni_space_of(f), sizes[TN_MAX_RANK];
    tni_text text;
    if (tni_arg_ints(f, 1).count != space)
        return tni_fail(f, TN_E_ARGUMENT,
                        "adaptive_max_pool%lldd: output_size must have %lld items (got %lld)",
                        (long long)space, (long long)space, (long long)tni_arg_ints(f, 1).count);
    TNI_TRY(check_adaptive(f, self, space, 1, "adaptive_max_pool"));
    tni_sized_space(f, self, 1, space, sizes);
    for (int64_t d = 0; d < rank_of(self); d++) {
        if (sizes[d] < 0)
            return tni_fail(f, TN_E_SHAPE, "Trying to create tensor with negative dimension %lld: %s",
                            (long long)sizes[d], tni_list_text((tn_ints){sizes, rank_of(self)}, &text));
    }
    TNI_TRY(out_pooled(f, 0, self, dtype_of(self), space, sizes));
    return out_pooled(f, 1, self, TN_INT64, space, sizes);
}

/*
 * The gradient of an adaptive pool, (grad_output, self[, indices]): its spatial sizes are those that the forward call
 * was given, the others those of self.
 */
static int32_t adaptive_backward(tni_frame *f, const char *name, const char *long_name)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0), *self = tni_arg_tensor(f, 1);
    int64_t space = tni_space_of(f), rank = rank_of(self), sizes[TN_MAX_RANK];
    tni_text text;
    if (rank_of(grad) != space + 1 && rank_of(grad) != space + 2)
        return tni_fail(f, TN_E_SHAPE, "%s%lldd_backward(): Expected %lldD or %lldD grad_output, but got: %s",
                        long_name, (long long)space, (long long)space + 1, (long long)space + 2,
                        tni_sizes_text(grad, &text));
    if (rank_of(grad) != rank)
        return tni_fail(f, TN_E_SHAPE, "Expected dimensions %lld for `grad_output` but got dimensions %lld",
                        (long long)rank, (long long)rank_of(grad));
    for (int64_t d = 1; d < rank; d++) {
        if (sizes_of(grad)[d] == 0)
            return tni_fail(f, TN_E_SHAPE,
                            "%s%lldd_backward(): Expected grad_output to have non-zero size for non-batch "
                            "dimensions, but grad_output has sizes %s with dimension %lld being empty",
                            name, (long long)space, tni_sizes_text(grad, &text), (long long)d);
    }
    TNI_TRY(check_adaptive(f, self, space, rank_of(self) - space, name));
    memcpy(sizes, sizes_of(self), self->desc.rank * sizeof(int64_t));
    memcpy(sizes + rank - space, sizes_of(grad) + rank - space, (uint64_t)space * sizeof(int64_t));
    TNI_TRY(check_gradient(f, self, sizes));
    if (f->n_args > 2) TNI_TRY(check_positions(f, 2, self, sizes));
    return tni_out_gradient(f, 1, space == 3);
}

int32_t infer_adaptive_avg_pool_backward(tni_frame *f)
{
    return adaptive_backward(f, "adaptive_avg_pool", "adaptive_avg_pool");
}

int32_t infer_adaptive_max_pool_backward(tni_frame *f)
{
    return adaptive_backward(f, "adaptive_max_pool", "adaptive_max_pooling");
}

/* Of fractional_max_pool: self is argument `first`; kernel_size and output_size are at `at` and behind it. */
static int32_t fractional_sizes(tni_frame *f, uint32_t first, uint32_t at, int64_t space, int64_t *sizes)
{
    const tn_tensor *self = tni_arg_tensor(f, first);
    int64_t kernel[3], wanted[3];
    TNI_TRY(tni_arg_spread(f, at, (uint32_t)space, "kernel_size", kernel));
    TNI_TRY(tni_arg_spread(f, at + 1, (uint32_t)space, "output_size", wanted));
    TNI_TRY(check_rank(f, self, space));
    TNI_TRY(check_not_empty(f, self, space));
    for (int64_t i = 0; i < space; i++) {
        int64_t in = sizes_of(self)[rank_of(self) - space + i];
        if (wanted[i] + kernel[i] - 1 > in || wanted[i] <= 0 || kernel[i] <= 0)
            return tni_fail(f, TN_E_SHAPE,
                            "pool size %lld and output size %lld do not fit into the input size %lld",
                            (long long)kernel[i], (long long)wanted[i], (long long)in);
    }
    tni_sized_space(f, self, at + 1, space, sizes);
    return TN_OK;
}

/* A number in [0, 1) for each sample, channel and spatial dimension. */
static int32_t check_samples(tni_frame *f, const tn_tensor *self, const tn_tensor *samples, int64_t space)
{
    int64_t first = rank_of(self) - space - 1, batch = first ? sizes_of(self)[0] : 1;
    if (rank_of(samples) != 3 || sizes_of(samples)[2] != space)
        return tni_fail(f, TN_E_SHAPE, "Expect _random_samples to have 3 dimensions, the last of size %lld",
                        (long long)space);
    if (sizes_of(samples)[0] < batch)
        return tni_fail(f, TN_E_SHAPE, "Expect _random_samples.size(0) no less then input batch size.");
    if (sizes_of(samples)[1] != sizes_of(self)[first])
        return tni_fail(f, TN_E_SHAPE, "Expect _random_samples.size(1) equals to input channel size.");
    if (dtype_of(samples) != dtype_of(self))
        return tni_fail(f, TN_E_DTYPE,
                        "Expect _random_samples to have the same dtype as input (got %s and %s)",
                        tni_dtype_error_name(dtype_of(samples)), tni_dtype_error_name(dtype_of(self)));
    return TN_OK;
}

/* fractional_max_pool (self, kernel_size, output_size, random_samples). */
int32_t infer_fractional_max_pool(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *samples = tni_arg_tensor(f, 3);
    int64_t space = tni_space_of(f), sizes[TN_MAX_RANK];
    TNI_TRY(fractional_sizes(f, 0, 1, space, sizes));
    TNI_TRY(check_samples(f, self, samples, space));
    TNI_TRY(tni_out(f, 0, dtype_of(self), self->desc.rank, sizes));
    return tni_out(f, 1, TN_INT64, self->desc.rank, sizes);
}

/* (grad_output, self, kernel_size, output_size, indices). */
int32_t infer_fractional_max_pool_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(fractional_sizes(f, 1, 2, tni_space_of(f), sizes));
    TNI_TRY(check_gradient(f, self, sizes));
    TNI_TRY(check_positions(f, 4, self, sizes));
    return tni_out_gradient(f, 1, 0);
}

/* The dimensions behind the batch must have elements; stride and padding (arguments 3 and 4) are volumes' alone. */
static int32_t check_unpooled(tni_frame *f, const tn_tensor *self, int64_t space)
{
    tni_text text;
    for (int64_t d = 1; d < rank_of(self); d++) {
        if (sizes_of(self)[d] == 0)
            return tni_fail(f, TN_E_SHAPE,
                            "max_unpooling%lldd_forward_out_cpu(): Expected input to have non-zero size for "
                            "non-batch dimensions, but got %s with dimension %lld being empty.",
                            (long long)space, tni_sizes_text(self, &text), (long long)d);
    }
    for (uint32_t i = 3; i < f->n_args; i++) {
        if (tni_arg_ints(f, i).count != 3)
            return tni_fail(
                f, TN_E_ARGUMENT,
                "There should be exactly three elements (depth, height, width) in %s, but got: %lld "
                "elements.",
                i == 3 ? "stride" : "padding", (long long)tni_arg_ints(f, i).count);
    }
    return TN_OK;
}

/* max_unpool (self, indices, output_size, ...). */
int32_t infer_max_unpool(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *indices = tni_arg_tensor(f, 1);
    int64_t space = tni_space_of(f), sizes[TN_MAX_RANK];
    tni_text a, b;
    if (dtype_of(indices) != TN_INT64)
        return tni_fail(f, TN_E_DTYPE, "elements in indices should be type int64 but got: %s",
                        tni_dtype_error_name(dtype_of(indices)));
    if (tni_arg_ints(f, 2).count != space)
        return tni_fail(f, TN_E_ARGUMENT,
                        "There should be exactly %lld elements in output_size, but got %lld elements.",
                        (long long)space, (long long)tni_arg_ints(f, 2).count);
    if (rank_of(self) != space + 1 && rank_of(self) != space + 2)
        return tni_fail(f, TN_E_SHAPE,
                        "Input to max_unpooling%lldd should be a %lldd or %lldd Tensor, but got a tensor "
                        "with %u dimensions.",
                        (long long)space, (long long)space + 1, (long long)space + 2, self->desc.rank);
    if (!same_sizes(indices, self))
        return tni_fail(f, TN_E_SHAPE,
                        "Expected shape of indices to be same as that of the input tensor (%s) but got "
                        "indices tensor with shape: %s",
                        tni_sizes_text(self, &a), tni_sizes_text(indices, &b));
    TNI_TRY(check_unpooled(f, self, space));
    tn_ints stride = space == 3 ? tni_arg_ints(f, 3) : (tn_ints){NULL, 0};
    for (int64_t i = 0; i < stride.count; i++) {
        if (stride.data[i] <= 0)
            return tni_fail(f, TN_E_ARGUMENT, "strides should be greater than zero, but got stride: %s",
                            tni_list_text(stride, &a));
    }
    tni_sized_space(f, self, 2, space, sizes);
    f->keep_dtype = TNI_KEEP(1);
    return tni_out_channels(f, 0, self, dtype_of(self), rank_of(self), sizes);
}
