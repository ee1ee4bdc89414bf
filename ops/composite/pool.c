/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: pooling of one dimension through two, results without indices through those with indices. */
#include "ops/composite/compute_dtype.h"

/* The numbers of a window of one dimension are lists of one; only the stride may be an empty list. */
static int32_t check_one_each(tn_scope *s, const tn_value *args, const char *op, uint32_t count)
{
    static const char *const names[] = {"kernel_size", "stride", "padding", "dilation"};
    for (uint32_t i = 0; i < count; i++) {
        int64_t n = arg_ints(args, i + 1).count;
        if (n != 1 && (n || i != 1))
            return tni_scope_failf(s, TN_E_ARGUMENT, "%s() argument '%s' should contain one int (got %lld)",
                                   op, names[i], (long long)n);
    }
    return TN_OK;
}

/* ---- max ---- */

static int32_t check_max_pool1d(tn_scope *s, const tn_value *args)
{
    const tn_tensor *self = arg_tensor(args, 0);
    tn_ints kernel = arg_ints(args, 1), stride = arg_ints(args, 2), padding = arg_ints(args, 3),
            dilation = arg_ints(args, 4);
    int32_t ceil_mode = arg_bool(args, 5);
    const int64_t *size = tni_sizes(self);
    int64_t rank = rank_of(self), k, step, pad, gap, length, out;
    if (check_one_each(s, args, "max_pool1d", 4)) return TN_E_ARGUMENT;
    if (!((rank == 2 && size[0] && size[1]) || (rank == 3 && size[1] && size[2])))
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size "
            "for input, but got:%s",
            sizes_text(s, self));
    k = kernel.data[0], step = stride.count ? stride.data[0] : k, pad = padding.data[0],
    gap = dilation.data[0];
    if (k <= 0)
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "max_pool1d() kernel_size must be greater than zero, but got %lld",
                               (long long)k);
    if (step <= 0)
        return tni_scope_failf(
            s, TN_E_ARGUMENT, "max_pool1d() stride must be greater than zero, but got %lld", (long long)step);
    if (pad < 0)
        return tni_scope_failf(s, TN_E_ARGUMENT, "max_pool1d() padding must be non-negative, but got %lld",
                               (long long)pad);
    if (pad > k / 2)
        return tni_scope_failf(
            s, TN_E_ARGUMENT,
            "max_pool1d() padding should be at most half of kernel size, but got padding=%lld and "
            "kernel_size=%lld",
            (long long)pad, (long long)k);
    if (gap <= 0)
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "max_pool1d() dilation must be greater than zero, but got %lld",
                               (long long)gap);
    if (k > INT32_MAX || step > INT32_MAX || gap > INT32_MAX) /* pad is at most half of k */
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "max_pool1d() kernel_size, stride and dilation must be at most %d", INT32_MAX);
    length = size[rank - 1] + 2 * pad - gap * (k - 1) - 1 + (ceil_mode ? step - 1 : 0);
    out = (length - (length < 0 ? step - 1 : 0)) / step + 1;
    if (out <= 0)
        return tni_scope_failf(s, TN_E_SHAPE, "max_pool1d() Invalid computed output size: %lld",
                               (long long)out);
    return TN_OK;
}

static tn_max_pool2d_with_indices_result max_pool1d(tn_scope *s, const tn_value *args)
{
    tn_max_pool2d_with_indices_result r = {NULL, NULL};
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints kernel = arg_ints(args, 1), stride = arg_ints(args, 2), padding = arg_ints(args, 3);
    tn_ints dilation = arg_ints(args, 4);
    int32_t ceil_mode = arg_bool(args, 5);
    if (check_max_pool1d(s, args)) return r;
    if (!stride.count) stride = kernel;
    r = tn_max_pool2d_with_indices(s, tn_unsqueeze(s, self, -2), TN_INTS(1, kernel.data[0]),
                                   .stride = TN_INTS(1, stride.data[0]),
                                   .padding = TN_INTS(0, padding.data[0]),
                                   .dilation = TN_INTS(1, dilation.data[0]), .ceil_mode = ceil_mode);
    r.result0 = tn_squeeze_dim(s, r.result0, -2);
    r.result1 = tn_squeeze_dim(s, r.result1, -2);
    return r;
}

void composite_max_pool1d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, max_pool1d(s, args).result0);
}

void composite_max_pool1d_with_indices(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_max_pool2d_with_indices_result r = max_pool1d(s, args);
    give(outs, 0, r.result0);
    give(outs, 1, r.result1);
}

void composite_max_pool2d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_value results[2];
    if (!tn_scope_call(s, TN_OP_MAX_POOL2D_WITH_INDICES, args, 6, results, 2)) outs[0] = results[0];
}

void composite_max_pool3d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_value results[2];
    if (!tn_scope_call(s, TN_OP_MAX_POOL3D_WITH_INDICES, args, 6, results, 2)) outs[0] = results[0];
}

void composite_adaptive_max_pool1d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints size = arg_ints(args, 1);
    tn_adaptive_max_pool2d_result r;
    if (rank_of(arg_tensor(args, 0)) < 2 || rank_of(arg_tensor(args, 0)) > 3) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "Expected 2 to 3 dimensions, but got %lld-dimensional tensor for argument #1 'self' (while "
            "checking arguments for adaptive_max_pool1d)",
            (long long)rank_of(arg_tensor(args, 0)));
        return;
    }
    if (size.count != 1) {
        tn_scope_fail(s, TN_E_ARGUMENT, "adaptive_max_pool1d: output_size must be 1");
        return;
    }
    r = tn_adaptive_max_pool2d(s, tn_unsqueeze(s, arg_tensor(args, 0), -2), TN_INTS(1, size.data[0]));
    give(outs, 0, tn_squeeze_dim(s, r.result0, -2));
    give(outs, 1, tn_squeeze_dim(s, r.result1, -2));
}

/* ---- backward: each gradient goes to its index, over the last `dims` dimensions ---- */

static tn_tensor *unpool(tn_scope *s, const tn_value *args, int64_t dims)
{
    tn_tensor *self = arg_tensor(args, 0), *indices = arg_tensor(args, 1), *flat;
    tn_ints size = arg_ints(args, 2), in = sizes_of(self), lead = {in.data, in.count - dims}, full = lead;
    for (int64_t i = 0; i < dims; i++) full = tni_sizes_insert(s, full, full.count, size.data[i]);
    flat = tni_zeros_on(s, self, 0, tni_sizes_insert(s, lead, lead.count, numel_of(size)));
    flat = tn_scatter(s, flat, -1, tn_flatten(s, indices, .start_dim = -dims),
                      tn_flatten(s, self, .start_dim = -dims));
    return tn_reshape(s, flat, full);
}

void composite_max_unpool2d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, unpool(s, args, 2));
}

void composite_max_unpool3d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, unpool(s, args, 3));
}

/* ---- mean ---- */

static int32_t check_rank1d(tn_scope *s, const tn_tensor *self, const char *name)
{
    if (rank_of(self) == 2 || rank_of(self) == 3) return TN_OK;
    return tni_scope_failf(
        s, TN_E_SHAPE,
        "Expected 2 to 3 dimensions, but got %lld-dimensional tensor for argument #1 'self' (while "
        "checking arguments for %s)",
        (long long)rank_of(self), name);
}

void composite_avg_pool1d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *out;
    tn_ints kernel = arg_ints(args, 1), stride = arg_ints(args, 2);
    if (check_rank1d(s, self, "avg_pool1d") || check_one_each(s, args, "avg_pool1d", 3)) return;
    if (!stride.count) stride = kernel;
    out =
        tn_avg_pool2d(s, tn_unsqueeze(s, self, -2), TN_INTS(1, kernel.data[0]),
                      .stride = TN_INTS(1, stride.data[0]), .padding = TN_INTS(0, arg_ints(args, 3).data[0]),
                      .ceil_mode = arg_bool(args, 4), .count_include_pad = arg_bool(args, 5));
    give(outs, 0, tn_squeeze_dim(s, out, -2));
}

void composite_adaptive_avg_pool1d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints size = arg_ints(args, 1);
    if (check_rank1d(s, arg_tensor(args, 0), "adaptive_avg_pool1d")) return;
    if (size.count != 1) {
        tn_scope_fail(s, TN_E_ARGUMENT, "adaptive_avg_pool1d: output_size must be 1");
        return;
    }
    give(outs, 0,
         tn_squeeze_dim(
             s, tn_adaptive_avg_pool2d(s, tn_unsqueeze(s, arg_tensor(args, 0), -2), TN_INTS(1, size.data[0])),
             -2));
}

/* An output size of 1 is the mean. */
static int32_t is_one(tn_ints size)
{
    for (int64_t i = 0; i < size.count; i++) {
        if (size.data[i] != 1) return 0;
    }
    return 1;
}

static int32_t check_adaptive(tn_scope *s, tn_ints size, int64_t dims)
{
    const int64_t *d = size.data;
    if (size.count != dims)
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "adaptive_avg_pool%lldd: output_size must have %lld items (got %lld)",
                               (long long)dims, (long long)dims, (long long)size.count);
    for (int64_t i = 0; i < dims; i++) {
        if (d[i] >= 0) continue;
        return dims == 2
                   ? tni_scope_failf(s, TN_E_ARGUMENT,
                                     "adaptive_avg_pool2d: elements of output_size must be greater than or "
                                     "equal to 0 but received {%lld, %lld}",
                                     (long long)d[0], (long long)d[1])
                   : tni_scope_failf(s, TN_E_ARGUMENT,
                                     "adaptive_avg_pool3d: elements of output_size must be greater than or "
                                     "equal to 0 but received {%lld, %lld,%lld}",
                                     (long long)d[0], (long long)d[1], (long long)d[2]);
    }
    return TN_OK;
}

void composite_adaptive_avg_pool2d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints size = arg_ints(args, 1);
    if (check_adaptive(s, size, 2)) return;
    if (is_one(size) && rank_of(arg_tensor(args, 0)) >= 2)
        give(outs, 0, tn_mean_dim(s, arg_tensor(args, 0), TN_INTS(-1, -2), .keepdim = 1));
    else
        give(outs, 0, tn__adaptive_avg_pool2d(s, arg_tensor(args, 0), size));
}

void composite_adaptive_avg_pool3d(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints size = arg_ints(args, 1);
    if (check_adaptive(s, size, 3)) return;
    if (is_one(size) && rank_of(arg_tensor(args, 0)) >= 3)
        give(outs, 0, tn_mean_dim(s, arg_tensor(args, 0), TN_INTS(-1, -2, -3), .keepdim = 1));
    else
        give(outs, 0, tn__adaptive_avg_pool3d(s, arg_tensor(args, 0), size));
}
