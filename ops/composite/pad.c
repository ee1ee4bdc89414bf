/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: padding by mode. Amounts come in pairs, from the last dimension on; negative ones crop. */
#include <string.h>
#include "core/shape.h"
#include "ops/composite/composite.h"

/* The part of the input that a dimension keeps, and its position in the output. */
typedef struct band {
    int64_t from, to, length;
} band;

/* What is left of `size` when negative amounts have cropped it; below 0 if they crop more than there is. */
static int64_t remaining(int64_t size, int64_t before, int64_t after)
{
    return size + (before < 0 ? before : 0) + (after < 0 ? after : 0);
}

static band band_of(int64_t size, int64_t before, int64_t after)
{
    return (band){before < 0 ? -before : 0, before > 0 ? before : 0, remaining(size, before, after)};
}

void composite_constant_pad_nd(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *in = self;
    tn_ints pad = arg_ints(args, 1);
    int64_t rank = rank_of(self), sizes[TN_MAX_RANK];
    int32_t last = rank == 4 && tn_tensor_is_contiguous(self, TN_CHANNELS_LAST) &&
                   !tn_tensor_is_contiguous(self, TN_CONTIGUOUS_FORMAT);
    if (pad.count % 2 || pad.count > 2 * rank)
        return (void)tn_scope_fail(
            s, TN_E_ARGUMENT, "Length of pad must be even and no more than twice the number of dimensions");
    for (int64_t d = 0; d < rank; d++) {
        int64_t i = rank - 1 - d;
        sizes[d] = tn_tensor_size(self, d) + (i < pad.count / 2 ? pad.data[2 * i] + pad.data[2 * i + 1] : 0);
    }
    tn_tensor *out =
        tn_empty(s, (tn_ints){sizes, rank}, .dtype = dtype_of(self), .device = tn_tensor_device(self),
                 .memory_format = last ? TN_CHANNELS_LAST : TN_CONTIGUOUS_FORMAT);
    if (!out || !tn_prim_fill(s, out, args[2])) return;
    tn_tensor *inside = out;
    for (int64_t i = 0; i < pad.count / 2; i++) {
        int64_t d = rank - 1 - i;
        band b = band_of(tn_tensor_size(self, d), pad.data[2 * i], pad.data[2 * i + 1]);
        if (b.length == 0) return give(outs, 0, out);
        in = tn_slice(s, in, .dim = d, .start = b.from, .end = b.from + b.length);
        inside = tn_slice(s, inside, .dim = d, .start = b.to, .end = b.to + b.length);
    }
    tn_copy_(s, inside, in);
    give(outs, 0, out);
}

/* ---- circular ---- */

/* Copies `length` elements along one dimension, from `from` of the input to `to` of the output. */
static void wrap_band(tn_scope *s, tn_tensor *out, int64_t d, int64_t to, int64_t from, int64_t length)
{
    if (length <= 0) return;
    tn_copy_(s, tn_slice(s, out, .dim = d, .start = to, .end = to + length),
             tn_slice(s, out, .dim = d, .start = from, .end = from + length));
}

static int32_t check_circular(tn_scope *s, const tn_tensor *self, tn_ints pad)
{
    int64_t space = rank_of(self) - 2;
    if (pad.count != 2 * space)
        return tni_scope_failf(s, TN_E_ARGUMENT, "Invalid padding size, expected %lld but got %lld",
                               (long long)(2 * space), (long long)pad.count);
    for (int64_t i = 0; i < space; i++) {
        int64_t size = tn_tensor_size(self, rank_of(self) - 1 - i), before = pad.data[2 * i],
                after = pad.data[2 * i + 1], left = remaining(size, before, after);
        if (before > size || after > size)
            return tn_scope_fail(s, TN_E_ARGUMENT, "Padding value causes wrapping around more than once.");
        if (size + before + after < 0)
            return tn_scope_fail(s, TN_E_ARGUMENT,
                                 "Negative padding value is resulting in an empty dimension.");
        if ((before > 0 && before > left) || (after > 0 && after > left))
            return tni_scope_failf(
                s, TN_E_ARGUMENT,
                "_pad_circular: argument 'pad': one side repeats more of dimension %lld than the other side "
                "leaves (got %lld and %lld, expected at most %lld)",
                (long long)(rank_of(self) - 1 - i), (long long)before, (long long)after,
                (long long)(left < 0 ? 0 : left));
    }
    return TN_OK;
}

void composite_pad_circular(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *in = self;
    tn_ints pad = arg_ints(args, 1);
    int64_t rank = rank_of(self), sizes[TN_MAX_RANK];
    if (rank < 3 || check_circular(s, self, pad)) {
        if (rank < 3)
            tn_scope_fail(s, TN_E_SHAPE,
                          "_pad_circular: the input must have batch, channel and spatial dimensions");
        return;
    }
    for (int64_t d = 0; d < rank; d++) {
        int64_t i = rank - 1 - d;
        sizes[d] = tn_tensor_size(self, d) + (i < pad.count / 2 ? pad.data[2 * i] + pad.data[2 * i + 1] : 0);
    }
    tn_tensor *out = tni_empty_on(s, self, 0, (tn_ints){sizes, rank}), *inside = out;
    for (int64_t i = 0; i < pad.count / 2; i++) {
        int64_t d = rank - 1 - i;
        band b = band_of(tn_tensor_size(self, d), pad.data[2 * i], pad.data[2 * i + 1]);
        in = tn_slice(s, in, .dim = d, .start = b.from, .end = b.from + b.length);
        inside = tn_slice(s, inside, .dim = d, .start = b.to, .end = b.to + b.length);
    }
    tn_copy_(s, inside, in);
    /* From the last to the first dimension: outer dimensions copy what inner ones have filled. */
    for (int64_t i = 0; i < pad.count / 2; i++) {
        int64_t d = rank - 1 - i, before = pad.data[2 * i], after = pad.data[2 * i + 1];
        if (before > 0) wrap_band(s, out, d, 0, sizes[d] - before - (after > 0 ? after : 0), before);
        if (after > 0) wrap_band(s, out, d, sizes[d] - after, before > 0 ? before : 0, after);
    }
    give(outs, 0, out);
}

/* ---- by mode ---- */

/* Numbered as in ATen, where _pad_enum takes the number. */
enum { MODE_REFLECT, MODE_REPLICATE, MODE_CIRCULAR, MODE_CONSTANT, MODE_COUNT };
static const char *const mode_names[MODE_COUNT] = {"reflect", "replicate", "circular", "constant"};

static tn_tensor *reflect(tn_scope *s, tn_tensor *self, tn_ints pad)
{
    return pad.count == 2   ? tn_reflection_pad1d(s, self, pad)
           : pad.count == 4 ? tn_reflection_pad2d(s, self, pad)
                            : tn_reflection_pad3d(s, self, pad);
}

static tn_tensor *replicate(tn_scope *s, tn_tensor *self, tn_ints pad)
{
    return pad.count == 2   ? tn_replication_pad1d(s, self, pad)
           : pad.count == 4 ? tn_replication_pad2d(s, self, pad)
                            : tn_replication_pad3d(s, self, pad);
}

static tn_tensor *pad_by_mode(tn_scope *s, tn_tensor *self, tn_ints pad, int64_t mode, tn_value value)
{
    int64_t rank = rank_of(self), space = pad.count / 2;
    if (pad.count % 2) return tn_scope_fail(s, TN_E_ARGUMENT, "Padding length must be divisible by 2"), NULL;
    if (pad.count > 2 * rank)
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "Padding length should be less than or equal to two times the input dimension "
                               "but got padding length %lld and input of dimension %lld",
                               (long long)pad.count, (long long)rank),
               NULL;
    if (mode == MODE_CONSTANT)
        return tn_constant_pad_nd(s, self, pad, .value = value.tag ? value : tn_value_float(0));
    if (value.tag != TN_TAG_NONE && tn_value_as_float(value) != 0)
        return tni_scope_failf(s, TN_E_ARGUMENT, "Padding mode \"%s\" doesn't take in value argument",
                               mode_names[mode]),
               NULL;
    if (space >= 1 && space <= 3 && (rank == space + 1 || rank == space + 2)) {
        if (mode == MODE_REFLECT) return reflect(s, self, pad);
        if (mode == MODE_REPLICATE) return replicate(s, self, pad);
        if (rank == space + 2) return tn__pad_circular(s, self, pad);
        return tn_squeeze_dim(s, tn__pad_circular(s, tn_unsqueeze(s, self, 0), pad), 0);
    }
    tni_scope_failf(
        s, TN_E_UNSUPPORTED,
        "argument 'pad': mode '%s' takes 2 pads for an input of 2 or 3 dimensions, 4 for 3 or 4, and 6 "
        "for 4 or 5 (got %lld pads and %lld dimensions)",
        mode_names[mode], (long long)pad.count, (long long)rank);
    return NULL;
}

void composite_pad_enum(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t mode = arg_int(args, 2);
    if (mode < 0 || mode >= MODE_COUNT)
        return (void)tn_scope_fail(s, TN_E_ARGUMENT, "Unrecognised padding mode");
    give(outs, 0, pad_by_mode(s, arg_tensor(args, 0), arg_ints(args, 1), mode, args[3]));
}

void composite_pad(tn_scope *s, const tn_value *args, tn_value *outs)
{
    const char *mode = arg_string(args, 2);
    for (int64_t i = 0; mode && i < MODE_COUNT; i++) {
        if (!strcmp(mode, mode_names[i]))
            return give(outs, 0, pad_by_mode(s, arg_tensor(args, 0), arg_ints(args, 1), i, args[3]));
    }
    tni_scope_failf(s, TN_E_ARGUMENT,
                    "Unrecognised padding mode %s (expected constant, reflect, replicate or circular)",
                    mode ? mode : "None");
}
