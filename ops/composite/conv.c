/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: convolutions, all over aten::convolution. */
#include <string.h>
#include "ops/composite/compute_dtype.h"

/* The arguments of aten::convolution after input, weight and bias. */
typedef struct convolution {
    tn_tensor *input, *weight, *bias;
    tn_ints stride, padding, dilation, output_padding;
    int64_t groups;
    int32_t transposed;
} convolution;

static tn_tensor *convolve(tn_scope *s, const convolution *c, tn_tensor *input, tn_tensor *weight,
                           tn_tensor *bias)
{
    return tn_convolution(s, input, weight, bias, c->stride, c->padding, c->dilation, c->transposed,
                          c->output_padding, c->groups);
}

/* (a + bi) * (c + di) by four real convolutions. */
static tn_tensor *convolve_complex(tn_scope *s, const convolution *c)
{
    tn_tensor *in = tn_view_as_real(s, tn_resolve_conj(s, c->input));
    tn_tensor *weight = tn_view_as_real(s, tn_resolve_conj(s, c->weight));
    tn_tensor *bias = c->bias ? tn_view_as_real(s, tn_resolve_conj(s, c->bias)) : NULL;
    tn_tensor *x[2], *w[2], *b[2] = {NULL, NULL}, *real, *imaginary;
    for (int i = 0; i < 2; i++) {
        x[i] = tn_select(s, in, -1, i);
        w[i] = tn_select(s, weight, -1, i);
        if (bias) b[i] = tn_select(s, bias, -1, i);
    }
    real = tn_sub(s, convolve(s, c, x[0], w[0], b[0]), convolve(s, c, x[1], w[1], NULL));
    imaginary = tn_add(s, convolve(s, c, x[0], w[1], b[1]), convolve(s, c, x[1], w[0], NULL));
    return tn_complex(s, real, imaginary);
}

static tn_tensor *run(tn_scope *s, const convolution *c)
{
    if (is_complex(dtype_of(c->input)) && is_complex(dtype_of(c->weight))) return convolve_complex(s, c);
    return convolve(s, c, c->input, c->weight, c->bias);
}

/* conv1d and the like (input, weight, bias, ...), with or without a batch. */
static tn_tensor *conv(tn_scope *s, convolution *c, int64_t dims, const char *name)
{
    int32_t unbatched = rank_of(c->input) == dims + 1;
    tn_tensor *out;
    if (c->bias && dtype_of(c->bias) != dtype_of(c->input)) {
        tni_scope_failf(s, TN_E_DTYPE, "Input type (%s) and bias type (%s) should be the same",
                        tni_dtype_cpp_name(dtype_of(c->input)), tni_dtype_cpp_name(dtype_of(c->bias)));
        return NULL;
    }
    if (!unbatched && rank_of(c->input) != dims + 2) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "Expected %lldD (unbatched) or %lldD (batched) input to %s, but got input of size: %s",
            (long long)dims + 1, (long long)dims + 2, name, sizes_text(s, c->input));
        return NULL;
    }
    if (unbatched) c->input = tn_unsqueeze(s, c->input, 0);
    if (!c->input) return NULL;
    out = run(s, c);
    return unbatched ? tn_squeeze_dim(s, out, 0) : out;
}

static const int64_t zeros[] = {0, 0, 0};

static void give_conv(tn_scope *s, const tn_value *args, tn_value *outs, int64_t dims, const char *name)
{
    convolution c = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                     arg_ints(args, 3),   arg_ints(args, 4),   arg_ints(args, 5),
                     {zeros, dims},       arg_int(args, 6),    0};
    give(outs, 0, conv(s, &c, dims, name));
}
FORWARD(composite_conv1d, give_conv, 1, "conv1d")
FORWARD(composite_conv2d, give_conv, 2, "conv2d")
FORWARD(composite_conv3d, give_conv, 3, "conv3d")

/* (input, weight, bias, stride, padding, output_padding, groups, dilation) */
static void give_transposed(tn_scope *s, const tn_value *args, tn_value *outs, int64_t dims, const char *name)
{
    convolution c = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                     arg_ints(args, 3),   arg_ints(args, 4),   arg_ints(args, 7),
                     arg_ints(args, 5),   arg_int(args, 6),    1};
    give(outs, 0, conv(s, &c, dims, name));
}
FORWARD(composite_conv_transpose1d, give_transposed, 1, "conv_transpose1d")
FORWARD(composite_conv_transpose2d, give_transposed, 2, "conv_transpose2d")
FORWARD(composite_conv_transpose3d, give_transposed, 3, "conv_transpose3d")

void composite_convolution_flags(tn_scope *s, const tn_value *args, tn_value *outs)
{
    convolution c = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                     arg_ints(args, 3),   arg_ints(args, 4),   arg_ints(args, 5),
                     arg_ints(args, 7),   arg_int(args, 8),    arg_bool(args, 6)};
    give(outs, 0, run(s, &c));
}

/* ---- padding by name ---- */

static int32_t check_same(tn_scope *s, const convolution *c)
{
    int64_t rank = rank_of(c->weight);
    if (rank < 3) return tn_scope_fail(s, TN_E_SHAPE, "weight should have at least three dimensions");
    if (c->groups <= 0) return tn_scope_fail(s, TN_E_ARGUMENT, "non-positive groups is not supported");
    if (rank != rank_of(c->input))
        return tni_scope_failf(s, TN_E_SHAPE,
                               "Expected %lld-dimensional input for %lld-dimensional weight%s, but got "
                               "%lld-dimensional input of size %s instead",
                               (long long)rank, (long long)rank, sizes_text(s, c->weight),
                               (long long)rank_of(c->input), sizes_text(s, c->input));
    if (c->stride.count != 1 && c->stride.count != rank - 2)
        return tni_scope_failf(s, TN_E_ARGUMENT, "stride cannot broadcast to %lld dimensions",
                               (long long)rank - 2);
    if (c->dilation.count != 1 && c->dilation.count != rank - 2)
        return tni_scope_failf(s, TN_E_ARGUMENT, "dilation cannot broadcast to %lld dimensions",
                               (long long)rank - 2);
    for (int64_t i = 0; i < c->stride.count; i++) {
        if (c->stride.data[i] != 1)
            return tn_scope_fail(s, TN_E_ARGUMENT,
                                 "padding='same' is not supported for strided convolutions");
    }
    return TN_OK;
}

/*
 * Padding that keeps the sizes. An odd amount is split unevenly: a pad before the convolution adds the extra
 * element at the end.
 */
static tn_tensor *conv_same(tn_scope *s, convolution *c)
{
    int64_t dims = rank_of(c->weight) - 2, *padding, *before;
    int32_t uneven = 0;
    if (check_same(s, c)) return NULL;
    padding = tni_scope_ints(s, dims);
    before = tni_scope_ints(s, 2 * dims);
    if (!padding || !before) return NULL;
    for (int64_t i = 0; i < dims; i++) {
        int64_t dilation = c->dilation.data[c->dilation.count == 1 ? 0 : i];
        int64_t total;
        if (__builtin_mul_overflow(dilation, tni_sizes(c->weight)[i + 2] - 1, &total))
            return tni_scope_failf(s, TN_E_ARGUMENT, "dilation is out of range (got %lld)",
                                   (long long)dilation),
                   NULL;
        padding[i] = total / 2;
        before[2 * (dims - 1 - i)] = 0;
        before[2 * (dims - 1 - i) + 1] = total - 2 * padding[i];
        uneven |= total != 2 * padding[i];
    }
    if (uneven) c->input = tn_constant_pad_nd(s, c->input, (tn_ints){before, 2 * dims});
    if (!c->input) return NULL;
    c->padding = (tn_ints){padding, dims};
    return run(s, c);
}

static tn_tensor *conv_mode(tn_scope *s, convolution *c, const char *mode)
{
    int64_t dims = rank_of(c->weight) > 2 ? rank_of(c->weight) - 2 : 1;
    c->output_padding = tni_ones_but(s, dims, -1, 1);
    for (int64_t i = 0; i < dims && c->output_padding.data; i++)
        ((int64_t *)(uintptr_t)c->output_padding.data)[i] = 0;
    if (strcmp(mode, "same") == 0) return conv_same(s, c);
    if (strcmp(mode, "valid") == 0) {
        c->padding = c->output_padding;
        return run(s, c);
    }
    tni_scope_failf(s, TN_E_ARGUMENT, "Invalid padding string: '%s' (expected 'valid' or 'same')", mode);
    return NULL;
}

/* (input, weight, bias, stride, padding, dilation, groups) with a name for padding. */
static convolution named(const tn_value *args)
{
    convolution c = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                     arg_ints(args, 3),   {NULL, 0},           arg_ints(args, 5),
                     {NULL, 0},           arg_int(args, 6),    0};
    return c;
}

void composite_convolution_mode(tn_scope *s, const tn_value *args, tn_value *outs)
{
    convolution c = named(args);
    give(outs, 0, conv_mode(s, &c, arg_string(args, 4)));
}

static void give_named(tn_scope *s, const tn_value *args, tn_value *outs, int64_t dims, const char *name)
{
    convolution c = named(args);
    int32_t unbatched = rank_of(c.input) == dims + 1;
    tn_tensor *out;
    if (!unbatched && rank_of(c.input) != dims + 2) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "Expected %lldD (unbatched) or %lldD (batched) input to %s, but got input of size: %s",
            (long long)dims + 1, (long long)dims + 2, name, sizes_text(s, c.input));
        return;
    }
    if (unbatched) c.input = tn_unsqueeze(s, c.input, 0);
    if (!c.input) return;
    out = conv_mode(s, &c, arg_string(args, 4));
    give(outs, 0, unbatched ? tn_squeeze_dim(s, out, 0) : out);
}
FORWARD(composite_conv1d_padding, give_named, 1, "conv1d")
FORWARD(composite_conv2d_padding, give_named, 2, "conv2d")
FORWARD(composite_conv3d_padding, give_named, 3, "conv3d")

/* ---- time, batch, channels ---- */

void composite_conv_tbc(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *weight = arg_tensor(args, 1), *bias = arg_tensor(args, 2), *out;
    int64_t pad = arg_int(args, 3);
    if (rank_of(self) != 3) {
        tn_scope_fail(s, TN_E_SHAPE, "Input must have 3 dims: time, batch, in_channel");
    } else if (rank_of(weight) != 3) {
        tn_scope_fail(s, TN_E_SHAPE,
                      "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
    } else if (rank_of(bias) != 1) {
        tn_scope_fail(s, TN_E_SHAPE, "Bias must be 1-D");
    } else if (tni_sizes(self)[2] != tni_sizes(weight)[1]) {
        tn_scope_fail(s, TN_E_SHAPE,
                      "Input dim 2 (input channels) is not == dim 1 in the weight tensor of convolution.");
    } else if (tni_sizes(weight)[2] != tni_sizes(bias)[0]) {
        tn_scope_fail(s, TN_E_SHAPE, "Bias size must equal dim 2 in the weight tensor (output channels).");
    } else {
        out =
            tn_convolution(s, tn_permute(s, self, TN_INTS(1, 2, 0)), tn_permute(s, weight, TN_INTS(2, 1, 0)),
                           bias, TN_INTS(1), TN_INTS(pad), TN_INTS(1), 0, TN_INTS(0), 1);
        give(outs, 0, tn_contiguous(s, tn_permute(s, out, TN_INTS(2, 0, 1))));
    }
}
