/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: histograms of one and of several dimensions. The last bin includes its upper edge. */
#include <math.h>
#include "ops/composite/compute_dtype.h"

#define MAX_DIMENSIONS 16

/* Minimum and maximum on the host; an empty range is widened by 0.5 on either side. */
static void outer_edges(tn_scope *s, tn_tensor *t, double edges[2])
{
    edges[0] = 0;
    edges[1] = 1;
    if (!t || tn_tensor_numel(t) == 0) return;
    edges[0] = tn_item_double(s, tn_min(s, t));
    edges[1] = tn_item_double(s, tn_max(s, t));
}

static int32_t check_edges(tn_scope *s, const char *name, double edges[2])
{
    if (tn_scope_failed(s)) return TN_E_STATE;
    if (!isfinite(edges[0]) || !isfinite(edges[1]))
        return tni_scope_failf(s, TN_E_ARGUMENT, "%s: range of [%g, %g] is not finite", name, edges[0],
                               edges[1]);
    if (edges[0] > edges[1])
        return tni_scope_failf(s, TN_E_ARGUMENT, "%s: min should not exceed max, but got min %g max %g", name,
                               edges[0], edges[1]);
    return TN_OK;
}

/* histc (self, bins, min, max): equal bins; elements outside do not count. */
void composite_histc(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = tni_reshape(s, arg_tensor(args, 0), TN_INTS(-1));
    int64_t bins = arg_int(args, 1);
    double edges[2] = {arg_float(args, 2), arg_float(args, 3)};
    if (bins <= 0) return (void)tn_scope_fail(s, TN_E_ARGUMENT, "bins must be > 0");
    if (!self) return;
    if (edges[0] == edges[1] && tn_tensor_numel(self)) outer_edges(s, self, edges);
    if (edges[0] == edges[1]) {
        edges[0] -= 1;
        edges[1] += 1;
    }
    if (check_edges(s, "histc", edges)) return;
    tn_tensor *inside = tn_logical_and(s, tn_ge_scalar(s, self, edges[0]), tn_le_scalar(s, self, edges[1]));
    /* In ATen's order and precision, so that elements at an edge fall into the same bin. */
    tn_tensor *x = tn_sub_scalar(s, tn_masked_select(s, self, inside), edges[0]);
    tn_tensor *place = tn_div_scalar(s, tn_mul_scalar(s, x, bins), edges[1] - edges[0]);
    place = tn_clamp(s, tn_to(s, place, TN_INT64), .min = TN_SCALAR(0), .max = TN_SCALAR(bins - 1));
    if (!place) return;
    tn_tensor *ones = tni_full_on(s, self, 0, TN_INTS(tn_tensor_numel(place)), tn_value_int(1));
    give(outs, 0, tn_index_add(s, tni_zeros_on(s, self, 0, TN_INTS(bins)), 0, place, ones));
}

/* Evenly spaced edges over `range`, or over the data if it is absent. */
static tn_tensor *even_edges(tn_scope *s, tn_tensor *column, int64_t bins, const double *range)
{
    double edges[2];
    if (bins <= 0)
        return tni_scope_failf(s, TN_E_ARGUMENT, "torch.histogramdd(): bins must be positive, but got %lld",
                               (long long)bins),
               NULL;
    if (bins == INT64_MAX) return tn_scope_fail(s, TN_E_ARGUMENT, "torch.histogramdd(): too many bins"), NULL;
    if (range) {
        edges[0] = range[0];
        edges[1] = range[1];
    } else {
        outer_edges(s, column, edges);
    }
    if (check_edges(s, "torch.histogramdd()", edges)) return NULL;
    if (edges[0] == edges[1]) {
        edges[0] -= 0.5;
        edges[1] += 0.5;
    }
    return tn_linspace(s, edges[0], edges[1], bins + 1, .dtype = dtype_of(column),
                       .device = tn_tensor_device(column));
}

/* The bin of each element of a column, -1 if there is none; the last bin includes its upper edge. */
static tn_tensor *bins_of(tn_scope *s, tn_tensor *column, tn_tensor *edges)
{
    int64_t bins = tn_tensor_numel(edges) - 1;
    tn_tensor *place = tn_sub_scalar(s, tn_searchsorted(s, edges, tn_contiguous(s, column), .right = 1), 1);
    tn_tensor *first = tn_select(s, edges, 0, 0), *last = tn_select(s, edges, 0, bins);
    tn_tensor *outside =
        tn_logical_not(s, tn_logical_and(s, tn_ge(s, column, first), tn_le(s, column, last)));
    place = tn_clamp(s, place, .min = TN_SCALAR(0), .max = TN_SCALAR(bins - 1));
    return tn_masked_fill_scalar(s, place, outside, -1);
}

static int32_t check_grid_dtypes(tn_scope *s, const tn_tensor *self, tn_tensors edges,
                                 const tn_tensor *weight)
{
    for (int64_t d = 0; d < edges.count; d++) {
        if (edges.data[d] && dtype_of(edges.data[d]) != dtype_of(self))
            return tni_scope_failf(
                s, TN_E_DTYPE,
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, "
                "but got input with dtype %s and bins for dimension %lld with dtype %s",
                tni_dtype_cpp_name(dtype_of(self)), (long long)d,
                tni_dtype_cpp_name(dtype_of(edges.data[d])));
    }
    if (weight && dtype_of(weight) != dtype_of(self))
        return tni_scope_failf(
            s, TN_E_DTYPE,
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
            "should have the same dtype, but got input(%s), and weight(%s)",
            tni_dtype_cpp_name(dtype_of(self)), tni_dtype_cpp_name(dtype_of(weight)));
    return TN_OK;
}

/* Counts or sums of weights over the grid of all edges. */
static tn_tensor *count_in_grid(tn_scope *s, tn_tensor *self, tn_tensors edges, tn_tensor *weight,
                                int32_t density)
{
    int64_t sizes[MAX_DIMENSIONS], cells = 1, rows = tn_tensor_size(self, 0);
    tn_tensor *place = tni_zeros_on(s, self, TN_INT64, TN_INTS(rows)),
              *inside = tni_full_on(s, self, TN_BOOL, TN_INTS(rows), tn_value_bool(1));
    if (check_grid_dtypes(s, self, edges, weight)) return NULL;
    for (int64_t d = 0; d < edges.count && !tn_scope_failed(s); d++) {
        tn_tensor *bin = bins_of(s, tn_select(s, self, 1, d), edges.data[d]);
        sizes[d] = tn_tensor_numel(edges.data[d]) - 1;
        cells *= sizes[d];
        inside = tn_logical_and(s, inside, tn_ge_scalar(s, bin, 0));
        place = tn_add(s, tn_mul_scalar(s, place, sizes[d]), bin);
    }
    if (tn_scope_failed(s)) return NULL;
    tn_tensor *amount = weight ? tni_reshape(s, weight, TN_INTS(-1))
                               : tni_full_on(s, self, 0, TN_INTS(rows), tn_value_int(1));
    amount = tn_masked_fill_scalar(s, amount, tn_logical_not(s, inside), 0);
    place = tn_masked_fill_scalar(s, place, tn_logical_not(s, inside), 0);
    tn_tensor *hist = tn_index_add(s, tni_zeros_on(s, self, 0, TN_INTS(cells)), 0, place, amount);
    hist = tni_reshape(s, hist, (tn_ints){sizes, edges.count});
    if (!density || !hist) return hist;
    tn_tensor *total = tn_sum(s, hist);
    hist = tn_div(s, hist, total);
    for (int64_t d = 0; d < edges.count; d++) {
        int64_t shape[MAX_DIMENSIONS];
        for (int64_t k = 0; k < edges.count; k++) shape[k] = k == d ? sizes[d] : 1;
        tn_tensor *e = edges.data[d];
        tn_tensor *widths = tn_sub(s, tn_slice(s, e, .start = 1), tn_slice(s, e, .end = sizes[d]));
        hist = tn_div(s, hist, tni_reshape(s, widths, (tn_ints){shape, edges.count}));
    }
    return hist;
}

/* (rows, dimensions); a weight has an element for each row. */
static tn_tensor *as_rows(tn_scope *s, tn_tensor *self, int64_t dimensions, const tn_tensor *weight)
{
    if (rank_of(self) < 2)
        return tn_scope_fail(s, TN_E_SHAPE,
                             "torch.histogramdd(): input tensor should have at least 2 dimensions"),
               NULL;
    if (dimensions > MAX_DIMENSIONS)
        return tn_scope_fail(s, TN_E_UNSUPPORTED, "torch.histogramdd(): too many dimensions"), NULL;
    if (tn_tensor_size(self, -1) != dimensions)
        return tni_scope_failf(s, TN_E_SHAPE,
                               "torch.histogramdd(): expected %lld bin sequences for a D-dimensional "
                               "histogram but got %lld",
                               (long long)tn_tensor_size(self, -1), (long long)dimensions),
               NULL;
    if (weight && !tni_same_sizes(sizes_of(weight), (tn_ints){tni_sizes(self), rank_of(self) - 1}))
        return tni_scope_failf(
                   s, TN_E_SHAPE,
                   "torch.histogramdd: if weight tensor is provided it should have the same shape as "
                   "the input tensor excluding its innermost dimension, but got input with shape %s "
                   "and weight with shape %s",
                   sizes_text(s, self), sizes_text(s, weight)),
               NULL;
    return tni_reshape(s, self, TN_INTS(dimensions ? tn_tensor_numel(self) / dimensions : 0, dimensions));
}

static tn_tensors edges_of_counts(tn_scope *s, tn_tensor *rows, tn_ints bins, tn_floats range)
{
    tn_tensor **list = tni_scope_tensors(s, bins.count);
    if (range.data && range.count != 2 * bins.count) {
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "torch.histogramdd(): for a %lld-dimensional histogram range should have %lld "
                        "elements, but got %lld",
                        (long long)bins.count, (long long)(2 * bins.count), (long long)range.count);
        return (tn_tensors){list, 0};
    }
    for (int64_t d = 0; list && rows && d < bins.count; d++)
        list[d] =
            even_edges(s, tn_select(s, rows, 1, d), bins.data[d], range.data ? range.data + 2 * d : NULL);
    return (tn_tensors){list, bins.count};
}

/* ---- one dimension ---- */

void composite_histogram(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *rows = tni_reshape(s, arg_tensor(args, 0), TN_INTS(-1, 1));
    tn_tensors edges = edges_of_counts(s, rows, TN_INTS(arg_int(args, 1)), arg_floats(args, 2));
    if (tn_scope_failed(s)) return;
    give(outs, 0, count_in_grid(s, rows, edges, arg_tensor(args, 3), arg_bool(args, 4)));
    give(outs, 1, edges.data[0]);
}

void composite_histogram_bins_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *rows = tni_reshape(s, arg_tensor(args, 0), TN_INTS(-1, 1)), *edges = arg_tensor(args, 1);
    if (rank_of(edges) != 1)
        return (void)tn_scope_fail(s, TN_E_SHAPE, "torch.histogram(): bins tensor should have one dimension");
    if (rows)
        give(outs, 0, count_in_grid(s, rows, TN_TENSORS(edges), arg_tensor(args, 2), arg_bool(args, 3)));
    give(outs, 1, tn_clone(s, edges));
}

/* ---- several dimensions ---- */

static void histogram_of_counts(tn_scope *s, const tn_value *args, tn_ints bins, tn_value *outs)
{
    tn_tensor *rows = as_rows(s, arg_tensor(args, 0), bins.count, arg_tensor(args, 3));
    tn_tensors edges = edges_of_counts(s, rows, bins, arg_floats(args, 2));
    if (tn_scope_failed(s)) return;
    give(outs, 0, count_in_grid(s, rows, edges, arg_tensor(args, 3), arg_bool(args, 4)));
    give_list(outs, 1, edges);
}

void composite_histogramdd(tn_scope *s, const tn_value *args, tn_value *outs)
{
    histogram_of_counts(s, args, arg_ints(args, 1), outs);
}

/* The same number of bins in every dimension. */
void composite_histogramdd_int_bins(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t dimensions = tn_tensor_size(arg_tensor(args, 0), -1), *bins = tni_scope_ints(s, dimensions);
    for (int64_t d = 0; bins && d < dimensions; d++) bins[d] = arg_int(args, 1);
    if (bins) histogram_of_counts(s, args, (tn_ints){bins, dimensions}, outs);
}

void composite_histogramdd_tensorlist_bins(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors edges = arg_tensors(args, 1);
    tn_tensor *rows = as_rows(s, arg_tensor(args, 0), edges.count, arg_tensor(args, 3));
    if (rows) give(outs, 0, count_in_grid(s, rows, edges, arg_tensor(args, 3), arg_bool(args, 4)));
    tn_tensor **copies = tni_scope_tensors(s, edges.count);
    for (int64_t d = 0; copies && d < edges.count; d++) copies[d] = tn_clone(s, edges.data[d]);
    give_list(outs, 1, (tn_tensors){copies, edges.count});
}

void composite_histogramdd_bin_edges(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints bins = arg_ints(args, 1);
    tn_tensor *rows = as_rows(s, arg_tensor(args, 0), bins.count, NULL);
    give_list(outs, 0, edges_of_counts(s, rows, bins, arg_floats(args, 2)));
}

void composite_histogramdd_from_bin_cts(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints bins = arg_ints(args, 1);
    tn_tensor *rows = as_rows(s, arg_tensor(args, 0), bins.count, arg_tensor(args, 3));
    tn_tensors edges = edges_of_counts(s, rows, bins, arg_floats(args, 2));
    if (!tn_scope_failed(s))
        give(outs, 0, count_in_grid(s, rows, edges, arg_tensor(args, 3), arg_bool(args, 4)));
}

void composite_histogramdd_from_bin_tensors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors edges = arg_tensors(args, 1);
    tn_tensor *rows = as_rows(s, arg_tensor(args, 0), edges.count, arg_tensor(args, 2));
    if (rows) give(outs, 0, count_in_grid(s, rows, edges, arg_tensor(args, 2), arg_bool(args, 3)));
}
