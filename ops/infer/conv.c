/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution, unfolding to columns and back, sampling on a grid. */
#include <stdio.h>
#include <string.h>
#include "ops/infer/infer.h"

/* ---- convolution (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) ---- */

typedef struct convolution {
    const tn_tensor *input, *weight;
    int64_t space; /* dimensions of it */
    int64_t stride[TN_MAX_RANK], padding[TN_MAX_RANK], dilation[TN_MAX_RANK], output_padding[TN_MAX_RANK];
    int64_t groups;
    int32_t transposed;
} convolution;

static int32_t check_same_type(tni_frame *f, const tn_tensor *input, const tn_tensor *other, const char *what)
{
    if (!other || dtype_of(other) == dtype_of(input)) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "Input type (%s) and %s type (%s) should be the same",
                    tni_dtype_cpp_name(dtype_of(input)), what, tni_dtype_cpp_name(dtype_of(other)));
}

static int32_t check_numbers(tni_frame *f, const convolution *c)
{
    for (int64_t i = 0; i < c->space; i++) {
        if (c->padding[i] < 0) return tni_fail(f, TN_E_ARGUMENT, "negative padding is not supported");
        if (c->output_padding[i] < 0)
            return tni_fail(f, TN_E_ARGUMENT, "negative output_padding is not supported");
        if (c->stride[i] <= 0) return tni_fail(f, TN_E_ARGUMENT, "non-positive stride is not supported");
        if (c->dilation[i] <= 0) return tni_fail(f, TN_E_ARGUMENT, "dilation should be greater than zero");
        if (c->transposed && c->output_padding[i] >= c->stride[i] && c->output_padding[i] >= c->dilation[i])
            return tni_fail(f, TN_E_ARGUMENT,
                            "output padding must be smaller than either stride or dilation, but got output "
                            "padding %lld, stride %lld, dilation %lld in dimension %lld",
                            (long long)c->output_padding[i], (long long)c->stride[i],
                            (long long)c->dilation[i], (long long)i + 2);
    }
    if (c->groups <= 0) return tni_fail(f, TN_E_ARGUMENT, "non-positive groups is not supported");
    return TN_OK;
}

static int32_t read_convolution(tni_frame *f, const tn_tensor *input, const tn_tensor *weight, uint32_t first,
                                convolution *c)
{
    tni_text a, b;
    c->input = input;
    c->weight = weight;
    c->space = rank_of(weight) - 2;
    c->transposed = tni_arg_bool(f, first + 3);
    c->groups = tni_arg_int(f, first + 5);
    if (rank_of(input) != rank_of(weight) || c->space < 1)
        return tni_fail(f, TN_E_SHAPE,
                        "Expected %u-dimensional input for %u-dimensional weight%s, but got %u-dimensional "
                        "input of size %s instead",
                        weight->desc.rank, weight->desc.rank, tni_sizes_text(weight, &a), input->desc.rank,
                        tni_sizes_text(input, &b));
    uint32_t n = (uint32_t)c->space;
    TNI_TRY(tni_arg_spread(f, first, n, "stride", c->stride));
    TNI_TRY(tni_arg_spread(f, first + 1, n, "padding", c->padding));
    TNI_TRY(tni_arg_spread(f, first + 2, n, "dilation", c->dilation));
    TNI_TRY(tni_arg_spread(f, first + 4, n, "output_padding", c->output_padding));
    return check_numbers(f, c);
}

/* Channels, groups and the bias. */
static int32_t check_channels(tni_frame *f, const convolution *c, const tn_tensor *bias)
{
    const int64_t *in = sizes_of(c->input), *w = sizes_of(c->weight);
    tni_text a, b;
    if (w[0] < c->groups)
        return tni_fail(f, TN_E_SHAPE,
                        "Given groups=%lld, expected weight to be at least %lld at dimension 0, but got "
                        "weight of size %s instead",
                        (long long)c->groups, (long long)c->groups, tni_sizes_text(c->weight, &a));
    if (w[0] % c->groups)
        return tni_fail(f, TN_E_SHAPE,
                        "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got "
                        "weight of size %s instead",
                        (long long)c->groups, (long long)c->groups, tni_sizes_text(c->weight, &a));
    int64_t expected = c->transposed ? w[0] : w[1] * c->groups, out = c->transposed ? w[1] * c->groups : w[0];
    if (in[1] != expected)
        return tni_fail(f, TN_E_SHAPE,
                        "Given %s=%lld, weight of size %s, expected input%s to have %lld channels, but got "
                        "%lld channels instead",
                        c->transposed ? "transposed" : "groups", (long long)(c->transposed ? 1 : c->groups),
                        tni_sizes_text(c->weight, &a), tni_sizes_text(c->input, &b), (long long)expected,
                        (long long)in[1]);
    if (bias && (rank_of(bias) != 1 || bias->numel != out))
        return tni_fail(f, TN_E_SHAPE,
                        "Given %sweight of size %s, expected bias to be 1-dimensional with %lld elements, "
                        "but got bias of size %s instead",
                        c->transposed ? "transposed=1, " : "", tni_sizes_text(c->weight, &a), (long long)out,
                        tni_sizes_text(bias, &b));
    return TN_OK;
}

/* Sizes "(3 x 4)" without the parentheses. */
static void product_text(const int64_t *sizes, int64_t n, char *text, uint64_t bytes)
{
    int32_t used = 0;
    text[0] = 0;
    for (int64_t i = 0; i < n && used < (int32_t)bytes - 24; i++)
        used += snprintf(text + used, bytes - (uint64_t)used, i ? " x %lld" : "%lld", (long long)sizes[i]);
}

static int32_t output_space(tni_frame *f, const convolution *c, int64_t *sizes)
{
    const int64_t *in = sizes_of(c->input) + 2, *k = sizes_of(c->weight) + 2;
    int64_t padded[TN_MAX_RANK], reach[TN_MAX_RANK];
    int32_t fits = 1;
    char a[256], b[256];
    for (int64_t i = 0; i < c->space; i++) {
        if (k[i]) continue;
        product_text(k, c->space, a, sizeof(a));
        return tni_fail(f, TN_E_SHAPE, "kernel size should be greater than zero, but got: %s", a);
    }
    for (int64_t i = 0; i < c->space; i++) {
        padded[i] = in[i] + 2 * c->padding[i];
        reach[i] = c->dilation[i] * (k[i] - 1) + 1;
        fits &= padded[i] >= reach[i];
        sizes[i] = c->transposed
                       ? (in[i] - 1) * c->stride[i] - 2 * c->padding[i] + reach[i] + c->output_padding[i]
                       : (padded[i] - reach[i]) / c->stride[i] + 1;
        if (c->transposed && sizes[i] < 0)
            return tni_fail(f, TN_E_SHAPE,
                            "Given input size per channel, the calculated output size %lld is too small",
                            (long long)sizes[i]);
    }
    if (fits || c->transposed) return TN_OK;
    product_text(padded, c->space, a, sizeof(a));
    product_text(reach, c->space, b, sizeof(b));
    return tni_fail(f, TN_E_SHAPE,
                    "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be "
                    "greater than actual input size",
                    a, b);
}

/* Of the result; `bias` may be NULL. */
static int32_t output_sizes(tni_frame *f, const convolution *c, const tn_tensor *bias, int64_t *sizes)
{
    const int64_t *in = sizes_of(c->input);
    tni_text text;
    TNI_TRY(check_channels(f, c, bias));
    sizes[0] = in[0];
    sizes[1] = c->transposed ? sizes_of(c->weight)[1] * c->groups : sizes_of(c->weight)[0];
    TNI_TRY(output_space(f, c, sizes + 2));
    if (c->input->numel || !in[0] || !in[1]) return TN_OK;
    return tni_fail(f, TN_E_SHAPE,
                    "Only zero batch or zero channel inputs are supported, but got input shape: %s",
                    tni_sizes_text(c->input, &text));
}

/* Channels-last where the input or the weight is. */
static int32_t format_of(const convolution *c)
{
    int32_t format = tni_suggest_format(c->input);
    return format == TN_CONTIGUOUS_FORMAT ? tni_suggest_format(c->weight) : format;
}

static int32_t out_in_format(tni_frame *f, uint32_t i, int32_t format, tn_dtype dtype, uint32_t rank,
                             const int64_t *sizes)
{
    int64_t strides[TN_MAX_RANK];
    if (format == TN_CONTIGUOUS_FORMAT) return tni_out(f, i, dtype, rank, sizes);
    TNI_TRY(tni_format_strides(rank, sizes, format, strides));
    return tni_out_strided(f, i, dtype, rank, sizes, strides);
}

int32_t infer_convolution(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 1),
                    *bias = tni_arg_tensor(f, 2);
    int64_t sizes[TN_MAX_RANK];
    convolution c;
    TNI_TRY(check_same_type(f, input, weight, "weight"));
    TNI_TRY(check_same_type(f, input, bias, "bias"));
    TNI_TRY(read_convolution(f, input, weight, 3, &c));
    TNI_TRY(output_sizes(f, &c, bias, sizes));
    return out_in_format(f, 0, format_of(&c), dtype_of(input), input->desc.rank, sizes);
}

/* (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
 * output_mask). */
int32_t infer_convolution_backward(tni_frame *f)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0), *input = tni_arg_tensor(f, 1),
                    *weight = tni_arg_tensor(f, 2);
    const uint8_t *mask =
        f->args[10].tag == TN_TAG_BOOLS && f->args[10].count == 3 ? f->args[10].as.bools : NULL;
    int64_t sizes[TN_MAX_RANK];
    convolution c;
    TNI_TRY(check_same_type(f, input, weight, "weight"));
    if (!mask) return tni_fail(f, TN_E_ARGUMENT, "output_mask must have three items");
    TNI_TRY(read_convolution(f, input, weight, 4, &c));
    TNI_TRY(tni_check_dtype_like(f, 0, input));
    TNI_TRY(output_sizes(f, &c, NULL, sizes));
    TNI_TRY(tni_check_sizes(f, 0, rank_of(input), sizes));
    int32_t format = format_of(&c);
    if (mask[0]) TNI_TRY(out_in_format(f, 0, format, dtype_of(input), input->desc.rank, sizes_of(input)));
    if (mask[1]) TNI_TRY(out_in_format(f, 1, format, dtype_of(weight), weight->desc.rank, sizes_of(weight)));
    if (mask[2]) TNI_TRY(tni_out(f, 2, dtype_of(grad), 1, sizes_of(grad) + 1));
    return TN_OK;
}

/* ---- columns ---- */

/*
 * The number of windows along dimension i. `at` is the index of kernel_size; dilation, padding and stride
 * follow.
 */
static int32_t count_windows(tni_frame *f, uint32_t at, const int64_t *space, int64_t *kernel, int64_t *out)
{
    int64_t dilation[2], padding[2], stride[2];
    TNI_TRY(tni_arg_spread(f, at, 2, "kernel_size", kernel));
    TNI_TRY(tni_arg_spread(f, at + 1, 2, "dilation", dilation));
    TNI_TRY(tni_arg_spread(f, at + 2, 2, "padding", padding));
    TNI_TRY(tni_arg_spread(f, at + 3, 2, "stride", stride));
    *out = 1;
    for (uint32_t i = 0; i < 2; i++) {
        if (kernel[i] <= 0)
            return tni_fail(
                f, TN_E_ARGUMENT,
                "kernel size should be greater than zero, but got kernel_height: %lld kernel_width: %lld",
                (long long)kernel[0], (long long)kernel[1]);
        if (stride[i] <= 0)
            return tni_fail(
                f, TN_E_ARGUMENT,
                "stride should be greater than zero, but got stride_height: %lld stride_width: %lld",
                (long long)stride[0], (long long)stride[1]);
        if (dilation[i] <= 0)
            return tni_fail(
                f, TN_E_ARGUMENT,
                "dilation should be greater than zero, but got dilation_height: %lld dilation_width: %lld",
                (long long)dilation[0], (long long)dilation[1]);
        if (padding[i] < 0)
            return tni_fail(f, TN_E_ARGUMENT,
                            "padding should be non-negative, but got pad_height: %lld pad_width: %lld",
                            (long long)padding[0], (long long)padding[1]);
        int64_t room = space[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1;
        if (room < 0)
            return tni_fail(f, TN_E_SHAPE,
                            "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), "
                            "dilation=(%lld, %lld), padding=(%lld, %lld), the calculated shape of the array "
                            "of sliding blocks is too small (non-positive)",
                            (long long)space[0], (long long)space[1], (long long)kernel[0],
                            (long long)kernel[1], (long long)dilation[0], (long long)dilation[1],
                            (long long)padding[0], (long long)padding[1]);
        *out *= room / stride[i] + 1;
    }
    return TN_OK;
}

/* im2col (self, kernel_size, dilation, padding, stride). */
int32_t infer_im2col(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t rank = rank_of(self), kernel[2], windows;
    tni_text text;
    if ((rank != 3 && rank != 4) || !sizes_of(self)[rank - 1] || !sizes_of(self)[rank - 2] ||
        !sizes_of(self)[rank - 3])
        return tni_fail(f, TN_E_SHAPE,
                        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
                        "dimensions for input, but got: %s",
                        tni_sizes_text(self, &text));
    TNI_TRY(count_windows(f, 1, sizes_of(self) + rank - 2, kernel, &windows));
    const int64_t sizes[] = {rank == 4 ? sizes_of(self)[0] : 1,
                             sizes_of(self)[rank - 3] * kernel[0] * kernel[1], windows};
    return tni_out(f, 0, dtype_of(self), (uint32_t)rank - 1, rank == 4 ? sizes : sizes + 1);
}

/* col2im (self, output_size, kernel_size, dilation, padding, stride). */
int32_t infer_col2im(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t rank = rank_of(self), kernel[2], space[2], windows;
    tni_text text;
    TNI_TRY(tni_arg_spread(f, 1, 2, "output_size", space));
    TNI_TRY(count_windows(f, 2, space, kernel, &windows));
    if ((rank != 2 && rank != 3) || !sizes_of(self)[rank - 1] || !sizes_of(self)[rank - 2])
        return tni_fail(f, TN_E_SHAPE,
                        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
                        "non-zero dimensions for input, but got: %s",
                        tni_sizes_text(self, &text));
    int64_t planes = sizes_of(self)[rank - 2], area = kernel[0] * kernel[1];
    if (planes % area)
        return tni_fail(f, TN_E_SHAPE,
                        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
                        "but got input.size(1)=%lld and kernel_size=(%lld, %lld).",
                        (long long)planes, (long long)kernel[0], (long long)kernel[1]);
    if (sizes_of(self)[rank - 1] != windows)
        return tni_fail(
            f, TN_E_SHAPE,
            "Given output_size=(%lld, %lld), kernel_size=(%lld, %lld), expected size of input's dimension 2 "
            "to match the calculated number of sliding blocks, but got input.size(2)=%lld",
            (long long)space[0], (long long)space[1], (long long)kernel[0], (long long)kernel[1],
            (long long)sizes_of(self)[rank - 1]);
    const int64_t sizes[] = {rank == 3 ? sizes_of(self)[0] : 1, planes / area, space[0], space[1]};
    return tni_out(f, 0, dtype_of(self), (uint32_t)rank + 1, rank == 3 ? sizes : sizes + 1);
}

/* ---- grids ---- */

static int32_t check_grid(tni_frame *f, const tn_tensor *input, const tn_tensor *grid)
{
    tni_text a, b;
    int64_t rank = rank_of(input), space = rank - 2;
    if (rank != rank_of(grid) || rank < 4 || rank > 5)
        return tni_fail(f, TN_E_SHAPE,
                        "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, "
                        "but got input with sizes %s and grid with sizes %s",
                        tni_sizes_text(input, &a), tni_sizes_text(grid, &b));
    if (sizes_of(input)[0] != sizes_of(grid)[0])
        return tni_fail(f, TN_E_SHAPE,
                        "grid_sampler(): expected grid and input to have same batch size, but got input with "
                        "sizes %s and grid with sizes %s",
                        tni_sizes_text(input, &a), tni_sizes_text(grid, &b));
    if (sizes_of(grid)[rank - 1] != space)
        return tni_fail(
            f, TN_E_SHAPE,
            "grid_sampler(): expected grid to have size %lld in last dimension, but got grid with sizes %s",
            (long long)space, tni_sizes_text(grid, &b));
    if (dtype_of(input) != dtype_of(grid))
        return tni_fail(
            f, TN_E_DTYPE,
            "grid_sampler(): expected input and grid to have same dtype, but input has %s and grid has %s",
            tni_dtype_error_name(dtype_of(input)), tni_dtype_error_name(dtype_of(grid)));
    for (int64_t d = 2; d < rank; d++) {
        if (sizes_of(input)[d] == 0)
            return tni_fail(f, TN_E_SHAPE,
                            "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                            "has sizes %s with dimension %lld being empty",
                            tni_sizes_text(input, &a), (long long)d);
    }
    return TN_OK;
}

/* The sizes of the samples. */
static int32_t sampled_sizes(tni_frame *f, const tn_tensor *input, const tn_tensor *grid, int64_t *sizes)
{
    TNI_TRY(check_grid(f, input, grid));
    sizes[0] = sizes_of(input)[0];
    sizes[1] = sizes_of(input)[1];
    memcpy(sizes + 2, sizes_of(grid) + 1, (input->desc.rank - 2) * sizeof(int64_t));
    return TN_OK;
}

/* (input, grid, interpolation_mode, padding_mode, align_corners). */
int32_t infer_grid_sampler(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *grid = tni_arg_tensor(f, 1);
    int64_t sizes[5];
    TNI_TRY(sampled_sizes(f, input, grid, sizes));
    return tni_out(f, 0, dtype_of(input), input->desc.rank, sizes);
}

/* (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask). */
int32_t infer_grid_sampler_backward(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 1), *grid = tni_arg_tensor(f, 2);
    const uint8_t *mask =
        f->args[6].tag == TN_TAG_BOOLS && f->args[6].count == 2 ? f->args[6].as.bools : NULL;
    int64_t sizes[5];
    TNI_TRY(sampled_sizes(f, input, grid, sizes));
    TNI_TRY(tni_check_dtype_like(f, 0, input));
    TNI_TRY(tni_check_sizes(f, 0, rank_of(input), sizes));
    if (!mask || mask[0]) TNI_TRY(tni_out(f, 0, dtype_of(input), input->desc.rank, sizes_of(input)));
    return tni_out(f, 1, dtype_of(grid), grid->desc.rank, sizes_of(grid));
}
