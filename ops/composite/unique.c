/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: distinct elements, runs of equal elements, and how often integers occur. */
#include "ops/composite/composite.h"

/* 1 where an element of a line, the last dimension, begins a run of equal ones. NaN begins one each time. */
static tn_tensor *run_starts(tn_scope *s, tn_tensor *self)
{
    int64_t last = rank_of(self) - 1, size = tn_tensor_size(self, last);
    tn_tensor *differs =
        tn_ne(s, tni_narrow(s, self, last, 1, size - 1), tni_narrow(s, self, last, 0, size - 1));
    return tn_constant_pad_nd(s, differs, TN_INTS(1, 0), .value = TN_SCALAR(1));
}

/* The distinct items of a call: which are wanted beside them, and how the inverse is shaped. */
typedef struct distinct {
    tn_tensor *starts; /* of runs, one for each item in order */
    int32_t wants_inverse, wants_counts;
    tn_ints inverse_sizes;
} distinct;

/* Positions of the starts; `order` (NULL: as they are) says which items they are. Gives the inverse and the counts. */
static tn_tensor *give_runs(tn_scope *s, const distinct *d, tn_tensor *order, tn_value *outs, uint32_t n_outs)
{
    tn_tensor *at = tni_reshape(s, tn_nonzero(s, d->starts), TN_INTS(-1));
    if (tn_scope_failed(s)) return NULL;
    int64_t count = tn_tensor_numel(d->starts), found = tn_tensor_numel(at);
    tn_tensor *inverse = tni_zeros_on(s, d->starts, TN_INT64, TN_INTS(0)), *counts = inverse;
    if (d->wants_inverse) {
        inverse = tn_sub_scalar(s, tn_cumsum(s, d->starts, 0, .dtype = TN_INT64), TN_SCALAR(1));
        if (order) inverse = tn_index_select(s, inverse, 0, tn_argsort(s, order));
        inverse = tni_reshape(s, inverse, d->inverse_sizes);
    }
    if (d->wants_counts && found) {
        tn_tensor *ends = tn_constant_pad_nd(s, tni_narrow(s, at, 0, 1, found - 1), TN_INTS(0, 1),
                                             .value = TN_SCALAR(count));
        counts = tn_sub(s, ends, at);
    }
    give(outs, 1, inverse);
    if (n_outs > 2) give(outs, 2, counts);
    return at;
}

/* Elements in their order, or as they come. */
static void unique_elements(tn_scope *s, tn_tensor *self, int32_t is_sorted, distinct d, tn_value *outs,
                            uint32_t n_outs)
{
    tn_tensor *line = tni_reshape(s, self, TN_INTS(-1)), *order = NULL;
    d.inverse_sizes = sizes_of(self);
    if (is_sorted && line) {
        tn_sort_stable_result r = tn_sort_stable(s, line, 1);
        line = r.values;
        order = r.indices;
    }
    if (tn_scope_failed(s)) return;
    d.starts = tn_tensor_numel(line) ? run_starts(s, line) : tni_zeros_on(s, line, TN_BOOL, TN_INTS(0));
    tn_tensor *at = give_runs(s, &d, order, outs, n_outs);
    if (at) give(outs, 0, tn_index_select(s, line, 0, at));
}

/* _unique (self, sorted, return_inverse) */
void composite_unique(tn_scope *s, const tn_value *args, tn_value *outs)
{
    unique_elements(s, arg_tensor(args, 0), 1, (distinct){.wants_inverse = arg_bool(args, 2)}, outs, 2);
}

/* _unique2 (self, sorted, return_inverse, return_counts) */
void composite_unique_counted(tn_scope *s, const tn_value *args, tn_value *outs)
{
    unique_elements(s, arg_tensor(args, 0), 1,
                    (distinct){.wants_inverse = arg_bool(args, 2), .wants_counts = arg_bool(args, 3)}, outs,
                    3);
}

/* Runs of slices along a dimension, with inverse and counts. */
static void runs_along(tn_scope *s, tn_tensor *self, int64_t dim, tn_value *outs)
{
    dim = tni_dim(s, dim, rank_of(self));
    if (tn_scope_failed(s)) return;
    if (!rank_of(self)) self = tn_unsqueeze(s, self, 0);
    int64_t count = tn_tensor_size(self, dim);
    tn_tensor *rows = tn_transpose(s, self, dim, -1), *starts;
    if (tn_scope_failed(s)) return;
    if (count && tn_tensor_numel(self))
        starts = tn_any_dim(s, tni_reshape(s, run_starts(s, rows), TN_INTS(-1, count)), 0);
    else /* slices without elements are equal */
        starts = tn_eq_scalar(
            s, tn_arange(s, TN_SCALAR(count), .dtype = TN_INT64, .device = tn_tensor_device(self)),
            TN_SCALAR(0));
    const distinct d = {starts, 1, 1, TN_INTS(count)};
    tn_tensor *at = give_runs(s, &d, NULL, outs, 3);
    if (at) give(outs, 0, tn_index_select(s, self, dim, at));
}

/* unique_consecutive (self, return_inverse, return_counts, dim) */
void composite_unique_consecutive(tn_scope *s, const tn_value *args, tn_value *outs)
{
    /* A vector with dim 0 is treated as one without dim. */
    int32_t is_flat = rank_of(arg_tensor(args, 0)) == 1 && arg_int(args, 3) == 0;
    if (arg_given(args, 3) && !is_flat) return runs_along(s, arg_tensor(args, 0), arg_int(args, 3), outs);
    unique_elements(s, arg_tensor(args, 0), 0,
                    (distinct){.wants_inverse = arg_bool(args, 1), .wants_counts = arg_bool(args, 2)}, outs,
                    3);
}

/* unique_dim_consecutive (self, dim, return_inverse, return_counts) */
void composite_unique_dim_consecutive(tn_scope *s, const tn_value *args, tn_value *outs)
{
    runs_along(s, arg_tensor(args, 0), arg_int(args, 1), outs);
}

/* bincount (self, weights, minlength): without weights the distances between the bins in the sorted elements. */
void composite_bincount(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *weights = arg_tensor(args, 1), *edges;
    int64_t bins = arg_int(args, 2), most = -1;
    tn_dtype dtype = TN_INT64;
    if (weights && tn_tensor_numel(self)) dtype = dtype_of(weights) == TN_FLOAT32 ? TN_FLOAT32 : TN_FLOAT64;
    if (tn_tensor_numel(self)) {
        if (tn_item_int(s, tn_min(s, self)) < 0)
            return (void)tn_scope_fail(s, TN_E_ARGUMENT,
                                       "bincount only supports 1-d non-negative integral inputs.");
        most = tn_item_int(s, tn_max(s, self));
    }
    if (most >= bins) bins = most + 1;
    if (tn_scope_failed(s)) return;
    tn_tensor *zeros = tni_zeros_on(s, self, dtype, TN_INTS(bins));
    if (most < 0) return give(outs, 0, zeros);
    if (weights) {
        tn_tensor *sums = tn_to(s, zeros, TN_FLOAT64);
        sums = tn_index_add(s, sums, 0, tn_to(s, self, TN_INT64), tn_to(s, weights, TN_FLOAT64));
        return give(outs, 0, tn_to(s, sums, dtype));
    }
    edges = tn_arange(s, TN_SCALAR(bins + 1), .dtype = TN_INT64, .device = tn_tensor_device(self));
    edges = tn_searchsorted(s, tn_sort_stable(s, tn_to(s, self, TN_INT64), 1).values, edges);
    give(outs, 0, tn_sub(s, tni_narrow(s, edges, 0, 1, bins), tni_narrow(s, edges, 0, 0, bins)));
}
