/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: sizes, places and types of tensors as results. */
#include "ops/composite/composite.h"

void composite_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_int(rank_of(arg_tensor(args, 0)));
}

void composite_numel(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_int(tn_tensor_numel(arg_tensor(args, 0)));
}

/* The item of `list` for dimension `dim`; a tensor without dimensions has none. */
static void give_item(tn_scope *s, const tn_value *args, tn_value *outs, const int64_t *list)
{
    int64_t rank = rank_of(arg_tensor(args, 0));
    if (rank == 0)
        return (void)tni_scope_failf(s, TN_E_INDEX,
                                     "Dimension specified as %lld but tensor has no dimensions",
                                     (long long)arg_int(args, 1));
    int64_t dim = tni_dim(s, arg_int(args, 1), rank);
    outs[0] = tn_value_int(tn_scope_failed(s) ? 0 : list[dim]);
}

void composite_size(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_item(s, args, outs, tni_sizes(arg_tensor(args, 0)));
}

void composite_stride(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_item(s, args, outs, tn_tensor_strides(arg_tensor(args, 0)));
}

void composite_storage_offset(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_int(tn_tensor_storage_offset(arg_tensor(args, 0)));
}

void composite_get_device(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_device device = tn_tensor_device(arg_tensor(args, 0));
    (void)s;
    outs[0] = tn_value_int(TN_DEVICE_TYPE(device) == TN_INTERNED_CPU ? -1 : TN_DEVICE_INDEX(device));
}

void composite_is_complex(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_bool(is_complex(dtype_of(arg_tensor(args, 0))));
}

void composite_is_floating_point(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_bool(is_float(dtype_of(arg_tensor(args, 0))));
}

void composite_is_signed(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_dtype dtype = dtype_of(arg_tensor(args, 0));
    (void)s;
    outs[0] = tn_value_bool(dtype != TN_BOOL && TN_DTYPE_CODE(dtype) != TN_CODE_UINT &&
                            TN_DTYPE_CODE(dtype) != TN_CODE_FLOAT8_E8M0FNU);
}

void composite_is_conj(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_bool((tn_desc(arg_tensor(args, 0))->flags & TN_DESC_CONJ) != 0);
}

void composite_is_neg(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_bool((tn_desc(arg_tensor(args, 0))->flags & TN_DESC_NEG) != 0);
}

void composite_is_contiguous(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_bool(tn_tensor_is_contiguous(arg_tensor(args, 0), TN_CONTIGUOUS_FORMAT));
}

void composite_is_contiguous_format(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)s;
    outs[0] = tn_value_bool(tn_tensor_is_contiguous(arg_tensor(args, 0), arg_format(args, 1)));
}

void composite_is_set_to(tn_scope *s, const tn_value *args, tn_value *outs)
{
    const tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    int64_t rank = rank_of(a);
    (void)s;
    outs[0] = tn_value_bool(
        tn_tensor_is_alias(a, b) && tn_tensor_storage_offset(a) == tn_tensor_storage_offset(b) &&
        tni_same_sizes(sizes_of(a), sizes_of(b)) &&
        tni_same_sizes((tn_ints){tn_tensor_strides(a), rank}, (tn_ints){tn_tensor_strides(b), rank}));
}

void composite_shape_as_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints size = sizes_of(arg_tensor(args, 0));
    give(outs, 0, tn_from_data(s, TN_INT64, TN_INTS(size.count), size.data, TN_CPU));
}

/* all or any, of bool tensors only. */
static tn_tensor *of_bools(tn_scope *s, const tn_value *args, const char *name)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (dtype_of(self) == TN_BOOL) return self;
    tni_scope_failf(s, TN_E_DTYPE, "argument 'self': %s takes bool tensors only (got %s, expected Bool)",
                    name, tni_dtype_error_name(dtype_of(self)));
    return NULL;
}

void composite_is_all_true(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = of_bools(s, args, "_is_all_true");
    if (self) give(outs, 0, tn_all(s, self));
}

void composite_is_any_true(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = of_bools(s, args, "_is_any_true");
    if (self) give(outs, 0, tn_any(s, self));
}
