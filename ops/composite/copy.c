/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: copies with another dtype, device or memory format; filling; repeating; item; promotion of
 * dtypes.
 */
#include <string.h>
#include "core/shape.h"
#include "ops/composite/composite.h"

/* ---- to ---- */

typedef struct wanted {
    tn_dtype dtype; /* 0: that of self, as for the device */
    tn_device device;
    int32_t pin, non_blocking, copy, format;
} wanted;

/* Self if it has what is asked for, else a copy. */
static tn_tensor *to(tn_scope *s, tn_tensor *self, wanted w)
{
    int32_t same =
        (!w.dtype || w.dtype == dtype_of(self)) && (!w.device || w.device == tn_tensor_device(self));
    int32_t right = w.format < 0 || w.format == TN_PRESERVE_FORMAT || tn_tensor_is_contiguous(self, w.format);
    if (same && right && !w.copy) return self;
    return tn__to_copy(s, self, .dtype = w.dtype, .device = w.device, .pin_memory = w.pin,
                       .non_blocking = w.non_blocking, .memory_format = w.format);
}

/* A device without an index: the current one of its type. */
static tn_device complete(tn_scope *s, tn_device device)
{
    if (!device || TN_DEVICE_INDEX(device) >= 0) return device;
    tni_device *open = tni_device_get(s->ctx, device);
    return open ? open->id : device;
}

void composite_to(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         to(s, arg_tensor(args, 0),
            (wanted){.dtype = arg_dtype(args, 1), .copy = arg_bool(args, 3), .format = arg_format(args, 4)}));
}

/* The device is argument `device`; non_blocking, copy and memory_format are those from `first` on. */
static void give_on_device(tn_scope *s, const tn_value *args, tn_value *outs, wanted w, uint32_t device,
                           uint32_t first)
{
    w.device = complete(s, arg_device(args, device));
    w.non_blocking = arg_bool(args, first);
    w.copy = arg_bool(args, first + 1);
    w.format = arg_format(args, first + 2);
    give(outs, 0, to(s, arg_tensor(args, 0), w));
}

void composite_to_device(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_on_device(s, args, outs, (wanted){.dtype = arg_dtype(args, 2)}, 1, 3);
}

void composite_to_dtype_layout(tn_scope *s, const tn_value *args, tn_value *outs)
{
    uint32_t layout = arg_layout(args, 2);
    if (layout && layout != TN_INTERNED_STRIDED)
        return (void)tn_scope_fail(s, TN_E_UNSUPPORTED,
                                   "to(options) doesn't support converting to a different layout");
    give_on_device(s, args, outs, (wanted){.dtype = arg_dtype(args, 1), .pin = arg_bool(args, 4)}, 3, 5);
}

static wanted like(const tn_tensor *other)
{
    return (wanted){.dtype = dtype_of(other), .device = tn_tensor_device(other), .format = -1};
}

void composite_to_other(tn_scope *s, const tn_value *args, tn_value *outs)
{
    wanted w = like(arg_tensor(args, 1));
    w.non_blocking = arg_bool(args, 2);
    w.copy = arg_bool(args, 3);
    w.format = arg_format(args, 4);
    give(outs, 0, to(s, arg_tensor(args, 0), w));
}

void composite_type_as(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, to(s, arg_tensor(args, 0), like(arg_tensor(args, 1))));
}

/* ---- filling in place ---- */

void composite_fill_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *value = arg_tensor(args, 1);
    if (rank_of(value)) {
        tni_scope_failf(s, TN_E_SHAPE,
                        "fill_ only supports 0-dimension value tensor but got tensor with %lld dimensions.",
                        (long long)rank_of(value));
        return;
    }
    tn_copy_(s, self, value);
    give(outs, 0, self);
}

void composite_zero(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_prim_fill(s, arg_tensor(args, 0), 0);
    give(outs, 0, arg_tensor(args, 0));
}

/* With `wrap` the diagonal of a tall matrix starts again below, after a row that is left out. */
void composite_fill_diagonal(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t rank = rank_of(self), step = 0, least = INT64_MAX, rows, columns;
    if (rank < 2) return (void)tn_scope_fail(s, TN_E_SHAPE, "dimensions must larger than 1");
    rows = tn_tensor_size(self, 0);
    columns = tn_tensor_size(self, 1);
    for (int64_t d = 0; d < rank; d++) {
        if (rank > 2 && tn_tensor_size(self, d) != rows)
            return (void)tn_scope_fail(s, TN_E_SHAPE, "all dimensions of input must be of equal length");
        if (tn_tensor_size(self, d) < least) least = tn_tensor_size(self, d);
        step += tn_tensor_strides(self)[d];
    }
    tn_prim_fill(s,
                 tn_as_strided(s, self, TN_INTS(least), TN_INTS(step),
                               .storage_offset = tn_tensor_storage_offset(self)),
                 args[1]);
    if (arg_bool(args, 2) && rank == 2 && rows > columns + 1) {
        int64_t skip = tn_tensor_strides(self)[0] * (columns + 1);
        int64_t count = (tn_tensor_numel(self) - columns * (columns + 1) + columns) / (columns + 1);
        int64_t offset = tn_tensor_storage_offset(self) + skip;
        tn_prim_fill(s, tn_as_strided(s, self, TN_INTS(count), TN_INTS(step), .storage_offset = offset),
                     args[1]);
    }
    give(outs, 0, self);
}

void composite_resize_as(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *other = arg_tensor(args, 1);
    int32_t format = arg_format(args, 2);
    if (format == TN_PRESERVE_FORMAT)
        format = tn_tensor_is_contiguous(other, TN_CONTIGUOUS_FORMAT) ? TN_CONTIGUOUS_FORMAT
                 : rank_of(other) == 4 && tn_tensor_is_contiguous(other, TN_CHANNELS_LAST)
                     ? TN_CHANNELS_LAST
                     : TN_CONTIGUOUS_FORMAT;
    tn_resize_(s, self, sizes_of(other), .memory_format = format);
    give(outs, 0, self);
}

/* ---- repeating ---- */

void composite_narrow_copy(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *t = tni_narrow(s, arg_tensor(args, 0), arg_int(args, 1), arg_int(args, 2), arg_int(args, 3));
    give(outs, 0, tn_clone(s, t, .memory_format = TN_CONTIGUOUS_FORMAT));
}

/* Expanded to (r0, n0, r1, n1, ...), with stride 0 for the repeats, and copied. */
void composite_repeat(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints repeats = arg_ints(args, 1);
    int64_t rank = repeats.count, lead = rank - rank_of(self), inner[2 * TN_MAX_RANK], wide[2 * TN_MAX_RANK],
            out[TN_MAX_RANK];
    if (lead < 0 || 2 * rank > TN_MAX_RANK) {
        tn_scope_fail(
            s, TN_E_SHAPE,
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
        return;
    }
    for (int64_t i = 0; i < rank; i++) {
        int64_t size = i < lead ? 1 : tn_tensor_size(self, i - lead);
        inner[2 * i] = 1;
        inner[2 * i + 1] = wide[2 * i + 1] = size;
        wide[2 * i] = repeats.data[i];
        out[i] = size * repeats.data[i];
    }
    tn_tensor *t = tn_expand(s, tni_reshape(s, self, (tn_ints){inner, 2 * rank}), (tn_ints){wide, 2 * rank});
    t = tn_clone(s, t, .memory_format = TN_CONTIGUOUS_FORMAT);
    give(outs, 0, tn__unsafe_view(s, t, (tn_ints){out, rank}));
}

void composite_tile(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints dims = arg_ints(args, 1);
    int64_t lead = rank_of(self) - dims.count, list[TN_MAX_RANK];
    if (lead <= 0) return give(outs, 0, tn_repeat(s, self, dims));
    for (int64_t i = 0; i < rank_of(self); i++) list[i] = i < lead ? 1 : dims.data[i - lead];
    give(outs, 0, tn_repeat(s, self, (tn_ints){list, rank_of(self)}));
}

/* ---- item ---- */

void composite_item(tn_scope *s, const tn_value *args, tn_value *outs)
{
    const tn_tensor *t = arg_tensor(args, 0);
    tn_dtype dtype = dtype_of(t);
    if (tn_tensor_numel(t) != 1) {
        tni_scope_failf(s, TN_E_SHAPE, "a Tensor with %lld elements cannot be converted to Scalar",
                        (long long)tn_tensor_numel(t));
        return;
    }
    if (is_complex(dtype)) {
        double *pair = tn_scope_memory(s, 2 * sizeof(double));
        if (pair && !tn_item_complex(s, t, pair)) outs[0] = tn_value_complex(pair);
    } else if (dtype == TN_BOOL) {
        outs[0] = tn_value_bool(tn_item_bool(s, t));
    } else if (is_integer(dtype)) {
        outs[0] = tn_value_int(tn_item_int(s, t));
    } else {
        outs[0] = tn_value_float(tn_item_double(s, t));
    }
}

/* ---- dtypes ---- */

static void add_to_promotion(tn_scope *s, tni_promotion *p, tn_value v)
{
    const tn_tensor *t = tn_value_as_tensor(v);
    if (t)
        tni_promotion_add(p, dtype_of(t), rank_of(t) == 0, (tn_desc(t)->flags & TN_DESC_WRAPPED) != 0);
    else
        tni_promotion_add(p, tni_dtype_of_scalar(v, tni_default_dtype(s->ctx)), 1, 1);
}

void composite_result_type(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tni_promotion p = {0};
    add_to_promotion(s, &p, args[0]);
    add_to_promotion(s, &p, args[1]);
    outs[0] = tn_value_dtype(tni_promotion_result(&p, tni_default_dtype(s->ctx)));
}

void composite_promote_types(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_dtype dtype = tn_promote_types(arg_dtype(args, 0), arg_dtype(args, 1));
    if (!dtype) return (void)tn_scope_fail(s, TN_E_DTYPE, "the two dtypes have no common dtype");
    outs[0] = tn_value_dtype(dtype);
}

void composite_can_cast(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_bool(tn_can_cast(arg_dtype(args, 0), arg_dtype(args, 1)));
}

/* (self, source, storage_offset, size, stride) */
void composite_set_source_tensor_strided(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *source = arg_tensor(args, 1);
    tn_ints size = arg_ints(args, 3), stride = arg_ints(args, 4);
    int64_t *row_major = tni_scope_ints(s, size.count), offset;
    if (!row_major) return;
    if (__builtin_add_overflow(arg_int(args, 2), tn_tensor_storage_offset(source), &offset) ||
        offset == TN_NONE)
        return (void)tni_scope_failf(s, TN_E_INDEX, "set_: invalid storage offset %lld",
                                     (long long)arg_int(args, 2));
    tni_contiguous_strides((uint32_t)size.count, size.data, row_major);
    if (!stride.count) stride = (tn_ints){row_major, size.count};
    if (source && !tn_is_contiguous(s, source)) {
        tn_scope_fail(s, TN_E_ARGUMENT,
                      "set_: argument 'source': a tensor that is not contiguous, expected a contiguous one");
        return;
    }
    source = tn_as_strided(s, source, size, stride, .storage_offset = offset);
    give(outs, 0, tn_set_source_tensor_(s, self, source));
}

/* ---- casts by name ---- */

static void give_cast(tn_scope *s, const tn_value *args, tn_value *outs, tn_dtype dtype)
{
    give(outs, 0, tni_cast(s, arg_tensor(args, 0), dtype));
}

FORWARD(composite_cast_uint8, give_cast, TN_UINT8)
FORWARD(composite_cast_int8, give_cast, TN_INT8)
FORWARD(composite_cast_int16, give_cast, TN_INT16)
FORWARD(composite_cast_int32, give_cast, TN_INT32)
FORWARD(composite_cast_int64, give_cast, TN_INT64)
FORWARD(composite_cast_float16, give_cast, TN_FLOAT16)
FORWARD(composite_cast_float32, give_cast, TN_FLOAT32)
FORWARD(composite_cast_float64, give_cast, TN_FLOAT64)

void composite_chalf(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_to(s, arg_tensor(args, 0), TN_COMPLEX32, .memory_format = arg_format(args, 1)));
}

void composite_lazy_clone(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_clone(s, arg_tensor(args, 0)));
}
