/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: fake quantisation. Each element moves to the nearest level of an integer grid and back; the
 * mask (elements within the grid's range) is the gradient.
 */
#include "ops/composite/compute_dtype.h"

static int32_t check_range(tn_scope *s, const tn_value *args, uint32_t first)
{
    if (arg_int(args, first) > arg_int(args, first + 1))
        return tn_scope_fail(s, TN_E_ARGUMENT,
                             "`quant_min` should be less than or equal to         `quant_max`.");
    return TN_OK;
}

/* The levels before clamping, and the outputs made from them; a NaN becomes the lowest level, outside the mask. */
static void give_levels(tn_scope *s, tn_tensor *levels, const tn_value *args, uint32_t range,
                        tn_tensor **clamped, tn_tensor **mask)
{
    *mask = tn_logical_and(s, tn_ge_scalar(s, levels, args[range]), tn_le_scalar(s, levels, args[range + 1]));
    levels = tn_nan_to_num(s, levels, .nan = (double)arg_int(args, range));
    *clamped = tn_clamp(s, levels, .min = args[range], .max = args[range + 1]);
}

void composite_fake_quantize_per_tensor_affine_cachemask(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *x = wide(s, self), *levels, *mask;
    float scale = (float)arg_float(args, 1), inverse = 1.0f / scale;
    int64_t zero = arg_int(args, 2);
    if (check_range(s, args, 3)) return;
    if (zero < arg_int(args, 3) || zero > arg_int(args, 4)) {
        tn_scope_fail(s, TN_E_ARGUMENT, "`zero_point` must be between `quant_min` and `quant_max`.");
        return;
    }
    levels = tn_round(s, tn_mul_scalar(s, x, (double)inverse));
    give_levels(s, tn_add_scalar(s, levels, (double)zero), args, 3, &levels, &mask);
    levels = tn_mul_scalar(s, tn_sub_scalar(s, levels, (double)zero), (double)scale);
    give(outs, 0, tni_cast(s, levels, dtype_of(self)));
    give(outs, 1, mask);
}

void composite_fake_quantize_per_tensor_affine(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_fake_quantize_per_tensor_affine_cachemask(s, arg_tensor(args, 0), arg_float(args, 1),
                                                      arg_int(args, 2), arg_int(args, 3), arg_int(args, 4))
             .output);
}

static int32_t check_channels(tn_scope *s, const tn_tensor *self, const tn_tensor *scale,
                              const tn_tensor *zero, int64_t axis)
{
    if (dtype_of(scale) != TN_FLOAT32 && dtype_of(scale) != TN_BFLOAT16)
        return tni_scope_failf(s, TN_E_DTYPE, "Scale must be Float or BFloat16, found %s",
                               tni_dtype_error_name(dtype_of(scale)));
    if (dtype_of(zero) != TN_INT32 && dtype_of(zero) != TN_FLOAT32 && dtype_of(zero) != TN_FLOAT16)
        return tni_scope_failf(s, TN_E_DTYPE, "Zero-point must be Int32, Float or Half, found %s",
                               tni_dtype_error_name(dtype_of(zero)));
    if (rank_of(scale) != 1) return tn_scope_fail(s, TN_E_SHAPE, "scale should be a 1-D tensor");
    if (rank_of(zero) != 1) return tn_scope_fail(s, TN_E_SHAPE, "zero point should be a 1-D tensor");
    if (tn_tensor_numel(scale) != tn_tensor_numel(zero))
        return tn_scope_fail(s, TN_E_SHAPE, "scale and zero-point need to have the same dimensions");
    if (axis < 0 || axis >= rank_of(self))
        return tn_scope_fail(s, TN_E_INDEX, "`axis` must be between 0 and number of dimensions of input");
    if (tn_tensor_numel(scale) != tni_sizes(self)[axis])
        return tn_scope_fail(s, TN_E_SHAPE,
                             "dimensions of scale and zero-point are not consistent with input tensor");
    return TN_OK;
}

/* Whole zero points are levels. */
static int32_t check_zeros(tn_scope *s, tn_tensor *zero, const tn_value *args, uint32_t range)
{
    if (!is_integer(dtype_of(zero)) || !tn_tensor_numel(zero)) return TN_OK;
    tn_tensor *outside =
        tn_logical_or(s, tn_lt_scalar(s, zero, args[range]), tn_gt_scalar(s, zero, args[range + 1]));
    if (tn_item_bool(s, tn_any(s, outside)))
        return tn_scope_fail(s, TN_E_ARGUMENT, "`zero_point` must be between `quant_min` and `quant_max`.");
    return tn_scope_failed(s);
}

void composite_fake_quantize_per_channel_affine_cachemask(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *x = wide(s, self), *scale = arg_tensor(args, 1);
    tn_tensor *zero = arg_tensor(args, 2), *levels, *mask;
    int64_t axis = arg_int(args, 3);
    tn_ints size;
    if (check_range(s, args, 4) || check_channels(s, self, scale, zero, axis) ||
        check_zeros(s, zero, args, 4))
        return;
    size = tni_ones_but(s, rank_of(self), axis, tn_tensor_numel(scale));
    scale = tn_reshape(s, scale, size);
    zero = tn_reshape(s, tni_cast(s, zero, TN_FLOAT32), size);
    levels = tn_round(s, tn_mul(s, x, tn_reciprocal(s, scale)));
    give_levels(s, tn_add(s, levels, zero), args, 4, &levels, &mask);
    levels = tn_mul(s, tn_sub(s, levels, zero), scale);
    give(outs, 0, tni_cast(s, levels, dtype_of(self)));
    give(outs, 1, mask);
}

void composite_fake_quantize_per_channel_affine(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_fake_quantize_per_channel_affine_cachemask(s, arg_tensor(args, 0), arg_tensor(args, 1),
                                                       arg_tensor(args, 2), arg_int(args, 3),
                                                       arg_int(args, 4), arg_int(args, 5))
             .output);
}
