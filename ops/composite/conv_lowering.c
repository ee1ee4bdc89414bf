/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: convolution and its gradients as products of matrices. The wide side has the positions that
 * windows cover, the narrow side one position for each window; a transposed convolution goes from the narrow
 * to the wide side. Wide: [groups, channels kernel, batch windows]; narrow: [groups, channels, batch
 * windows].
 */
#include "ops/composite/sliding_window.h"

typedef struct convolution {
    tni_windows w;
    tn_tensor *weight; /* [groups, narrow channels, wide channels kernel] */
    int64_t groups, batch, wide_channels, narrow_channels;
    int32_t transposed, format;
    tn_dtype dtype;
} convolution;

/* input, weight, and the arguments from stride on */
static int32_t open_convolution(tn_scope *s, const tn_value *args, const tn_value *numbers, convolution *c)
{
    tn_tensor *input = arg_tensor(args, 0), *weight = arg_tensor(args, 1);
    int64_t more[TNI_MAX_SPACE];
    tni_windows *w = &c->w;
    w->space = rank_of(weight) - 2;
    if (w->space > TNI_MAX_SPACE)
        return tn_scope_fail(s, TN_E_UNSUPPORTED,
                             "convolution over more than 8 spatial dimensions is not supported");
    tni_windows_spread(w, arg_ints(numbers, 0), w->stride);
    tni_windows_spread(w, arg_ints(numbers, 1), w->padding);
    tni_windows_spread(w, arg_ints(numbers, 2), w->dilation);
    tni_windows_spread(w, arg_ints(numbers, 4), more);
    c->transposed = arg_bool(numbers, 3);
    c->groups = arg_int(numbers, 5);
    c->batch = tn_tensor_size(input, 0);
    c->dtype = dtype_of(input);
    c->narrow_channels = tn_tensor_size(weight, 0);
    c->wide_channels = tn_tensor_size(weight, 1) * c->groups;
    c->format = tni_format_of(input);
    if (c->format == TN_CONTIGUOUS_FORMAT) c->format = tni_format_of(weight);
    for (int64_t i = 0; i < w->space; i++) {
        int64_t size = tn_tensor_size(input, 2 + i);
        w->kernel[i] = tn_tensor_size(weight, 2 + i);
        int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        w->in[i] = c->transposed ? (size - 1) * w->stride[i] - 2 * w->padding[i] + reach + more[i] : size;
        w->out[i] = c->transposed ? size : (size + 2 * w->padding[i] - reach) / w->stride[i] + 1;
    }
    int64_t depth = tn_tensor_size(weight, 1) * tni_windows_kernel(w);
    c->weight = tni_reshape(s, wide(s, weight), TN_INTS(c->groups, c->narrow_channels / c->groups, depth));
    return tn_scope_failed(s);
}

/* [batch, channels, kernel..., out...] <-> [channels, kernel..., batch, out...]: moves the batch. */
static tn_tensor *turned(tn_scope *s, const convolution *c, tn_tensor *t, int32_t back)
{
    int64_t order[2 + 2 * TNI_MAX_SPACE], n = c->w.space, first = 1 + n;
    for (int64_t i = 0; i < 2 + 2 * n; i++) {
        if (back)
            order[i] = i == 0 ? first : i <= first ? i - 1 : i;
        else
            order[i] = i < first ? i + 1 : i == first ? 0 : i;
    }
    return tn_permute(s, t, (tn_ints){order, 2 + 2 * n});
}

static tn_tensor *wide_side(tn_scope *s, const convolution *c, tn_tensor *t)
{
    int64_t depth = c->wide_channels / c->groups * tni_windows_kernel(&c->w);
    int64_t columns = c->batch * tni_windows_count(&c->w);
    t = tni_windows_view(s, &c->w, wide(s, t), tn_value_int(0));
    return tni_reshape(s, turned(s, c, t, 0), TN_INTS(c->groups, depth, columns));
}

static tn_tensor *narrow_side(tn_scope *s, const convolution *c, tn_tensor *t)
{
    int64_t columns = c->batch * tni_windows_count(&c->w);
    t = tn_transpose(s, wide(s, t), 0, 1);
    return tni_reshape(s, t, TN_INTS(c->groups, c->narrow_channels / c->groups, columns));
}

static tn_tensor *to_narrow(tn_scope *s, const convolution *c, tn_tensor *t)
{
    int64_t sizes[2 + TNI_MAX_SPACE] = {c->narrow_channels, c->batch};
    for (int64_t i = 0; i < c->w.space; i++) sizes[2 + i] = c->w.out[i];
    t = tn_bmm(s, c->weight, wide_side(s, c, t));
    return tn_transpose(s, tni_reshape(s, t, (tn_ints){sizes, 2 + c->w.space}), 0, 1);
}

static tn_tensor *to_wide(tn_scope *s, const convolution *c, tn_tensor *t)
{
    int64_t sizes[2 + 2 * TNI_MAX_SPACE], n = c->w.space;
    sizes[0] = c->wide_channels;
    sizes[1 + n] = c->batch;
    for (int64_t i = 0; i < n; i++) {
        sizes[1 + i] = c->w.kernel[i];
        sizes[2 + n + i] = c->w.out[i];
    }
    t = tn_bmm(s, tn_transpose(s, c->weight, 1, 2), narrow_side(s, c, t));
    t = turned(s, c, tni_reshape(s, t, (tn_ints){sizes, 2 + 2 * n}), 1);
    return tni_windows_fold(s, &c->w, t);
}

static void give_formatted(tn_scope *s, const convolution *c, tn_value *outs, uint32_t i, tn_tensor *t)
{
    if (t) give(outs, i, tn_contiguous(s, tni_cast(s, t, c->dtype), .memory_format = c->format));
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
void composite_convolution(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *bias = arg_tensor(args, 2), *out;
    convolution c;
    if (open_convolution(s, args, args + 3, &c)) return;
    out = c.transposed ? to_wide(s, &c, arg_tensor(args, 0)) : to_narrow(s, &c, arg_tensor(args, 0));
    if (bias)
        out = tn_add(s, out,
                     tni_reshape(s, wide(s, bias), tni_ones_but(s, 2 + c.w.space, 1, tn_tensor_numel(bias))));
    give_formatted(s, &c, outs, 0, out);
}

/* (grad_output, input, weight, bias_sizes, stride, ..., groups, output_mask) */
void composite_convolution_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *input = arg_tensor(args, 1), *weight = arg_tensor(args, 2);
    const uint8_t *mask = arg_bools(args, 10).data;
    convolution c;
    if (open_convolution(s, args + 1, args + 4, &c)) return;
    if (mask[0]) give_formatted(s, &c, outs, 0, c.transposed ? to_narrow(s, &c, grad) : to_wide(s, &c, grad));
    if (mask[1]) {
        tn_tensor *columns = wide_side(s, &c, c.transposed ? grad : input);
        tn_tensor *lines = narrow_side(s, &c, c.transposed ? input : grad);
        tn_tensor *product = tn_bmm(s, lines, tn_transpose(s, columns, 1, 2));
        give_formatted(s, &c, outs, 1, tni_reshape(s, product, sizes_of(weight)));
    }
    if (mask[2]) {
        tn_tensor *sum = tn_sum_dim(s, wide(s, grad), tni_dims_except(s, 2 + c.w.space, 1));
        give(outs, 2, sum ? tni_cast(s, sum, dtype_of(grad)) : NULL);
    }
}
