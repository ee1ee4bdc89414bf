/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: sorting, selecting by rank, searching. */
#include <math.h>
#include "ops/composite/composite.h"

void composite_sort(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_sort_stable_result r =
        tn_sort_stable(s, arg_tensor(args, 0), 0, .dim = arg_int(args, 1), .descending = arg_bool(args, 2));
    give(outs, 0, r.values);
    give(outs, 1, r.indices);
}

void composite_argsort(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_sort_stable(s, arg_tensor(args, 0), 0, .dim = arg_int(args, 1), .descending = arg_bool(args, 2))
             .indices);
}

void composite_argsort_stable(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_sort_stable(s, arg_tensor(args, 0), arg_bool(args, 1), .dim = arg_int(args, 2),
                        .descending = arg_bool(args, 3))
             .indices);
}

void composite_msort(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_sort_stable(s, arg_tensor(args, 0), 0, .dim = 0).values);
}

void composite_topk(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t k = arg_int(args, 1), dim = tni_dim(s, arg_int(args, 2), rank_of(self));
    if (tn_scope_failed(s)) return;
    tn_sort_stable_result r = tn_sort_stable(s, self, 1, .dim = dim, .descending = arg_bool(args, 3));
    if (rank_of(self)) {
        r.values = tn_contiguous(s, tn_slice(s, r.values, .dim = dim, .end = k));
        r.indices = tn_contiguous(s, tn_slice(s, r.indices, .dim = dim, .end = k));
    }
    give(outs, 0, r.values);
    give(outs, 1, r.indices);
}

/* The element at index k of the sorted dimension. */
static void give_place(tn_scope *s, tn_tensor *self, int64_t k, int64_t dim, int32_t keepdim, tn_value *outs)
{
    dim = tni_dim(s, dim, rank_of(self));
    if (tn_scope_failed(s)) return;
    if (rank_of(self) == 0) {
        give(outs, 0, tn_clone(s, self));
        return give(outs, 1, tni_zeros_on(s, self, TN_INT64, TN_NO_INTS));
    }
    tn_sort_stable_result r = tn_sort_stable(s, self, 1, .dim = dim);
    tn_tensor *values = tn_slice(s, r.values, .dim = dim, .start = k, .end = k + 1);
    tn_tensor *indices = tn_slice(s, r.indices, .dim = dim, .start = k, .end = k + 1);
    give(outs, 0, tn_contiguous(s, keepdim ? values : tn_squeeze_dim(s, values, dim)));
    give(outs, 1, tn_contiguous(s, keepdim ? indices : tn_squeeze_dim(s, indices, dim)));
}

void composite_kthvalue(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_place(s, arg_tensor(args, 0), arg_int(args, 1) - 1, arg_int(args, 2), arg_bool(args, 3), outs);
}

/* 1 where a sorted element differs from the one before it; NaN are equal. */
static tn_tensor *differs_from_last(tn_scope *s, tn_tensor *sorted, int64_t dim)
{
    int64_t size = tn_tensor_size(sorted, dim);
    tn_tensor *first = tni_narrow(s, sorted, dim, 0, size - 1),
              *second = tni_narrow(s, sorted, dim, 1, size - 1);
    tn_tensor *differs = tn_ne(s, first, second);
    if (is_float(dtype_of(sorted)))
        differs = tn_logical_and(s, differs, tn_logical_not(s, tn_isnan(s, first)));
    return differs;
}

/* mode (self, dim, keepdim): the smallest of the most frequent elements, and the last index of it. */
void composite_mode(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t rank = rank_of(self), dim = tni_dim(s, arg_int(args, 1), rank);
    if (tn_scope_failed(s)) return;
    if (rank == 0) return give_place(s, self, 0, dim, 0, outs);
    int64_t size = tn_tensor_size(self, dim);
    tn_sort_stable_result r = tn_sort_stable(s, tn_transpose(s, self, dim, -1), 1, .dim = -1);
    if (tn_scope_failed(s)) return;
    tn_tensor *place = tn_arange(s, TN_SCALAR(size), .dtype = TN_INT64, .device = tn_tensor_device(self));
    /* Where the run of an element begins: the largest place of a beginning up to it. */
    tn_tensor *begins =
        tn_mul(s, differs_from_last(s, r.values, rank - 1), tni_narrow(s, place, 0, 1, size - 1));
    begins = tn_cummax(s, tn_constant_pad_nd(s, begins, TN_INTS(1, 0)), -1).values;
    tn_tensor *end = tn_argmax(s, tn_sub(s, place, begins), .dim = -1, .keepdim = 1);
    tn_tensor *found[] = {tn_gather(s, r.values, -1, end), tn_gather(s, r.indices, -1, end)};
    for (uint32_t i = 0; i < 2; i++) {
        tn_tensor *t = tn_transpose(s, found[i], dim, -1);
        give(outs, i, tn_contiguous(s, arg_bool(args, 2) ? t : tn_squeeze_dim(s, t, dim)));
    }
}

/* ---- medians: the lower of the two in the middle; NaN comes last in the order ---- */

/* NaN if the dimension has one, else the median. */
static void median_along(tn_scope *s, tn_tensor *self, int64_t dim, int32_t keepdim, int32_t skip_nan,
                         tn_value *outs)
{
    dim = tni_dim(s, dim, rank_of(self));
    if (tn_scope_failed(s)) return;
    if (rank_of(self) == 0) {
        give(outs, 0, tn_clone(s, self));
        return give(outs, 1, tni_zeros_on(s, self, TN_INT64, TN_NO_INTS));
    }
    int64_t length = tn_tensor_size(self, dim);
    if (!is_float(dtype_of(self))) return give_place(s, self, (length - 1) / 2, dim, keepdim, outs);
    tn_sort_stable_result r = tn_sort_stable(s, self, 1, .dim = dim);
    tn_tensor *bad = tn_isnan(s, self), *count = tn_sum_dim(s, bad, TN_INTS(dim), .keepdim = 1), *place;
    if (skip_nan) {
        tn_tensor *left = tn_clamp(s, tn_rsub_scalar(s, count, length - 1), .min = TN_SCALAR(0));
        place = tn_div_tensor_mode(
            s, left, tn_scalar_tensor_of(s, tn_value_int(2), TN_INT64, tn_tensor_device(self)), "floor");
    } else {
        /* Sorting puts NaN after all numbers. */
        tn_tensor *first = tn_rsub_scalar(s, count, length);
        place = tn_where(s, tn_gt_scalar(s, count, 0), first, tn_full_like(s, count, (length - 1) / 2));
    }
    tn_tensor *values = tn_gather(s, r.values, dim, place), *indices = tn_gather(s, r.indices, dim, place);
    give(outs, 0, keepdim ? values : tn_squeeze_dim(s, values, dim));
    give(outs, 1, keepdim ? indices : tn_squeeze_dim(s, indices, dim));
}

void composite_median_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    median_along(s, arg_tensor(args, 0), arg_int(args, 1), arg_bool(args, 2), 0, outs);
}

void composite_nanmedian_dim(tn_scope *s, const tn_value *args, tn_value *outs)
{
    median_along(s, arg_tensor(args, 0), arg_int(args, 1), arg_bool(args, 2), 1, outs);
}

/* NaN, or for integers the value that converting NaN gives on the machines that ATen runs on. */
static tn_value median_of_none(tn_dtype dtype)
{
    if (is_float(dtype) || is_complex(dtype)) return tn_value_float(NAN);
    return tn_value_int(dtype == TN_INT64 ? INT64_MIN : dtype == TN_INT32 ? INT32_MIN : 0);
}

static void median_of_all(tn_scope *s, tn_tensor *self, int32_t skip_nan, tn_value *outs)
{
    tn_value both[2] = {tn_value_none(), tn_value_none()};
    if (tn_tensor_numel(self) == 0)
        return give(outs, 0, tni_full_on(s, self, 0, TN_NO_INTS, median_of_none(dtype_of(self))));
    tn_tensor *row = tni_reshape(s, self, TN_INTS(-1));
    if (row) median_along(s, row, 0, 0, skip_nan, both);
    outs[0] = both[0];
}

void composite_median(tn_scope *s, const tn_value *args, tn_value *outs)
{
    median_of_all(s, arg_tensor(args, 0), 0, outs);
}

void composite_nanmedian(tn_scope *s, const tn_value *args, tn_value *outs)
{
    median_of_all(s, arg_tensor(args, 0), 1, outs);
}

/* ---- searching ---- */

void composite_searchsorted_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *sorted = arg_tensor(args, 0);
    tn_dtype dtype = dtype_of(sorted);
    if ((args[1].tag == TN_TAG_FLOAT || args[1].tag == TN_TAG_COMPLEX) && is_integer(dtype))
        dtype = tni_default_dtype(s->ctx);
    if (args[1].tag == TN_TAG_INT && dtype == TN_BOOL) dtype = TN_INT64;
    if (args[1].tag == TN_TAG_COMPLEX)
        return (void)tni_scope_failf(s, TN_E_DTYPE, "\"searchsorted\" not implemented for '%s'",
                                     tni_dtype_error_name(tni_dtype_to_complex(dtype)));
    sorted = tni_cast(s, sorted, dtype);
    give(outs, 0,
         tn_searchsorted(s, sorted, tni_number_like(s, sorted, args[1]), .out_int32 = arg_bool(args, 2),
                         .right = arg_bool(args, 3), .side = arg_string(args, 4),
                         .sorter = arg_tensor(args, 5)));
}

void composite_bucketize(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *boundaries = arg_tensor(args, 1);
    if (rank_of(boundaries) != 1)
        return (void)tni_scope_failf(s, TN_E_SHAPE,
                                     "boundaries tensor must be 1 dimension, but got dim(%lld)",
                                     (long long)rank_of(boundaries));
    if (!self) self = tni_number_like(s, boundaries, args[0]);
    give(outs, 0,
         tn_searchsorted(s, boundaries, self, .out_int32 = arg_bool(args, 2), .right = arg_bool(args, 3)));
}
