/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: im2col and col2im, the columns of a convolution and their sums back to images. */
#include "ops/composite/sliding_window.h"

/* Kernel, dilation, padding and stride are the arguments from `at` on. */
static void open_windows(const tn_value *args, uint32_t at, const int64_t *in, tni_windows *w)
{
    w->space = 2;
    tni_windows_spread(w, arg_ints(args, at), w->kernel);
    tni_windows_spread(w, arg_ints(args, at + 1), w->dilation);
    tni_windows_spread(w, arg_ints(args, at + 2), w->padding);
    tni_windows_spread(w, arg_ints(args, at + 3), w->stride);
    for (int64_t i = 0; i < 2; i++) {
        int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        w->in[i] = in[i];
        w->out[i] = (in[i] + 2 * w->padding[i] - reach) / w->stride[i] + 1;
    }
}

/* (self, kernel_size, dilation, padding, stride) */
void composite_im2col(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *t = rank_of(self) == 3 ? tn_unsqueeze(s, self, 0) : self;
    tni_windows w;
    open_windows(args, 1, tni_sizes(self) + rank_of(self) - 2, &w);
    if (tn_scope_failed(s)) return;
    int64_t n = tn_tensor_size(t, 0), rows = tn_tensor_size(t, 1) * tni_windows_kernel(&w);
    t = tni_windows_view(s, &w, t, tn_value_int(0));
    t = tn_clone(s, t, .memory_format = TN_CONTIGUOUS_FORMAT);
    t = tni_reshape(s, t, TN_INTS(n, rows, tni_windows_count(&w)));
    give(outs, 0, rank_of(self) == 3 ? tn_squeeze_dim(s, t, 0) : t);
}

/* (self, output_size, kernel_size, dilation, padding, stride); bools are added as numbers. */
void composite_col2im(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *t;
    tn_dtype dtype = dtype_of(self);
    int32_t batched = rank_of(self) == 3;
    tn_ints size = arg_ints(args, 1);
    int64_t in[2] = {size.data[0], size.data[size.count - 1]};
    tni_windows w;
    open_windows(args, 2, in, &w);
    int64_t items = tni_windows_kernel(&w), n = batched ? tn_tensor_size(self, 0) : 1;
    int64_t channels = tn_tensor_size(self, -2) / (items > 0 ? items : 1);
    t = tni_cast(s, self, dtype == TN_BOOL ? TN_UINT8 : wide_dtype(dtype));
    t = tni_reshape(s, t, TN_INTS(n, channels, w.kernel[0], w.kernel[1], w.out[0], w.out[1]));
    t = tni_windows_fold(s, &w, t);
    if (!batched) t = tn_squeeze_dim(s, t, 0);
    t = t ? tni_cast(s, t, dtype) : NULL;
    give(outs, 0, tn_contiguous(s, t));
}
